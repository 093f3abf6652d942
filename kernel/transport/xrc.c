// SPDX-License-Identifier: GPL-2.0
/*
 * Responder of an XRC target QP: finds the SRQ of a request. The SRQ decides which memory (PD)
 * the request may access and which CQ gets the completion. IBTA volume 1, annex A14.
 *
 * Every request names its SRQ. A run has a reference to the SRQ of its last packet. A message has
 * none, because its requester may take any time.
 */
#include "internal.h"

void rox_xrc_leave(struct rox_qp *qp)
{
	struct rox_resp *recv = &qp->recv;

	if (recv->xsrq)
		rox_xsrq_put(recv->xsrq);
	recv->xsrq = NULL;
	recv->pd = NULL;
}

/* Looks up an SRQ. Return: false if the QP's XRC domain has none; then recv.xsrq is NULL. */
static bool rox_xrc_hold(struct rox_qp *qp, u32 num)
{
	struct rox_resp *recv = &qp->recv;

	if (recv->xsrq && recv->xsrq->xsrq->name.num == num)
		return true;
	rox_xrc_leave(qp);
	recv->xsrq = rox_xsrq_get(qp->dev, num, qp->ibqp.xrcd);
	if (!recv->xsrq)
		return false;
	recv->pd = recv->xsrq->ibsrq.pd;
	return true;
}

/* Looks up an SRQ that was named before, and not a later one with the same number. */
static bool rox_xrc_hold_again(struct rox_qp *qp, const struct rox_srq_name *name)
{
	if (!rox_xrc_hold(qp, name->num))
		return false;
	if (qp->recv.xsrq->xsrq->name.id == name->id)
		return true;
	rox_xrc_leave(qp);
	return false;
}

void rox_xrc_enter(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	rox_xrc_hold(qp, pkt->ext.xrc_srqn);
}

/*
 * Checks that the SRQ exists and is the same from the beginning of a message to its end. A
 * receive WQE that is left of an aborted message must also be of this SRQ.
 */
bool rox_xrc_request_ok(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	struct rox_resp *recv = &qp->recv;

	if (!recv->xsrq)
		return false;
	if (!(pkt->info->flags & ROX_OP_FIRST) || recv->have_recv)
		return recv->srq.id == recv->xsrq->xsrq->name.id;
	recv->srq = recv->xsrq->xsrq->name;
	return true;
}

void rox_xrc_read_begin(struct rox_qp *qp)
{
	qp->recv.read.srq = qp->recv.xsrq->xsrq->name;
}

/* If the SRQ is gone, there is no PD and the READ fails. */
void rox_xrc_read_resume(struct rox_qp *qp)
{
	rox_xrc_hold_again(qp, &qp->recv.read.srq);
}

/* If the SRQ is gone, there is nobody to get the completion. */
enum rox_verdict rox_xrc_complete(struct rox_qp *qp, const struct rox_cqe *cqe, bool solicited)
{
	struct rox_resp *recv = &qp->recv;

	if (!rox_xrc_hold_again(qp, &recv->srq))
		return ROX_V_OK;
	if (rox_cq_add(to_rox_cq(recv->xsrq->ibsrq.ext.cq), cqe, solicited))
		return ROX_V_FATAL;
	return ROX_V_OK;
}
