// SPDX-License-Identifier: GPL-2.0
/*
 * Responder of an XRC target QP: which SRQ a request is for, and with it whose
 * memory it may reach and where its completion goes. IBTA volume 1, annex A14.
 *
 * Every request names the SRQ. A run holds on to the SRQ that its last packet
 * named; a message does not: its sender may take as long as it likes.
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

/* Return: false if there is no such SRQ in the QP's domain; then none is held. */
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

/* The same for an SRQ that was named before, and not for a later one of its number. */
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
 * The SRQ exists, and is the same one from the beginning of a message to its
 * end. A receive WQE that a former attempt at the message has left is of it, too.
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

/* If the SRQ is gone its memory cannot be reached any more: the READ fails. */
void rox_xrc_read_resume(struct rox_qp *qp)
{
	rox_xrc_hold_again(qp, &qp->recv.read.srq);
}

/* An SRQ that is gone has taken its CQ along, and there is nobody to be told. */
enum rox_verdict rox_xrc_complete(struct rox_qp *qp, const struct rox_cqe *cqe, bool solicited)
{
	struct rox_resp *recv = &qp->recv;

	if (!rox_xrc_hold_again(qp, &recv->srq))
		return ROX_V_OK;
	if (rox_cq_add(to_rox_cq(recv->xsrq->ibsrq.ext.cq), cqe, solicited))
		return ROX_V_FATAL;
	return ROX_V_OK;
}
