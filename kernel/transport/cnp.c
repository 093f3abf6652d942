// SPDX-License-Identifier: GPL-2.0
/*
 * Congestion notification packets: annex A17.9. A QP that gets packets with the mark of ECN for
 * congestion (CE) tells the sender, at most once in min_time_between_cnps. The sender's algorithm
 * (congestion.h) is told of it.
 */
#include "internal.h"

/* May the QP send a CNP now? Both of its sides may ask at the same time. */
static bool rox_cnp_allowed(struct rox_qp *qp)
{
	u64 gap = (u64)READ_ONCE(qp->dev->cc.params.min_time_between_cnps) * NSEC_PER_USEC;
	s64 last = atomic64_read(&qp->cnp_at), now = ktime_get_ns();

	return (!last || now - last >= gap) && atomic64_try_cmpxchg(&qp->cnp_at, &last, now);
}

static u8 rox_cnp_tos(const struct rox_qp *qp)
{
	return READ_ONCE(qp->dev->cc.params.cnp_dscp) << 2;
}

/* Return: service level; 0: the priority is that of the DSCP. */
static u8 rox_cnp_sl(const struct rox_qp *qp)
{
	return READ_ONCE(qp->dev->cc.params.cnp_802p_prio);
}

static void rox_cnp_send(struct rox_qp *qp, struct rox_path *path, u32 dqpn)
{
	struct rox_burst b = {};

	rox_burst_init(qp, &b, 0);
	b.path = path;
	b.dqpn = dqpn;
	b.op_first = ROX_OPCODE_CNP;
	rox_xmit(&b);
	rox_qp_count(qp, ROX_CNT_NP_CNP_SENT);
}

/* A copy of the QP's path has its addresses and routes. */
bool rox_cnp_answer(struct rox_qp *qp)
{
	struct rox_path path;

	WRITE_ONCE(qp->ep.marked, false);
	if (!rox_can_receive(qp) || rox_is_ud(qp) || !rox_cnp_allowed(qp))
		return false;
	/* What the other side learns of the path meanwhile does not matter here. */
	path = data_race(qp->path);
	path.tos = rox_cnp_tos(qp);
	path.ecn = 0;
	path.sl = rox_cnp_sl(qp);
	rox_cnp_send(qp, &path, qp->attr.dest_qp_num);
	return true;
}

/* The sender's QP is in the DETH. Management datagrams and groups get no CNPs. */
void rox_cnp_answer_datagram(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	struct rox_path path = {};

	WRITE_ONCE(qp->ep.marked, false);
	if (qp->ibqp.qp_type != IB_QPT_UD || pkt->bth.dqpn == ROX_QPN_MULTICAST ||
	    !rox_can_receive(qp) || !rox_cnp_allowed(qp))
		return;
	if (rox_path_answer(&path, &qp->dev->net, pkt, rox_cnp_tos(qp), rox_cnp_sl(qp)))
		return;
	rox_cnp_send(qp, &path, pkt->ext.deth.sqpn);
	rox_path_destroy(&path);
}

bool rox_cnp_came(struct rox_qp *qp, u32 count)
{
	bool handled = rox_can_send(qp) && READ_ONCE(qp->send.cc.active);

	rox_qp_count_add(qp, handled ? ROX_CNT_RP_CNP_HANDLED : ROX_CNT_RP_CNP_IGNORED, count);
	return handled;
}
