// SPDX-License-Identifier: GPL-2.0
/*
 * Packets from a QP of the same device: taken in the sender's context, if the side
 * that they are for is at rest. The sender holds a side of its own meanwhile, so
 * nothing here waits for a lock, and what the packet leads to runs later.
 */
#include "internal.h"

/* ---- acknowledges that find the send side busy, as they do while it sends ---- */

/*
 * One word has room for one, and no other is needed: an acknowledge of any kind says
 * that all before it has arrived, so the newest will do. Until the requester has
 * followed a NAK only duplicates are acknowledged, with what the NAK says already, too;
 * those do not replace it.
 */
#define ROX_MAIL_VALID		BIT_ULL(63)
#define ROX_MAIL_MSN_SHIFT	24
#define ROX_MAIL_SYNDROME_SHIFT	48

static bool rox_mail_is_nak(u64 mail)
{
	return mail >> ROX_MAIL_SYNDROME_SHIFT & ROX_AETH_KIND;
}

/* What waits in the queue is older. */
static bool rox_mail_put(struct rox_qp *qp, u32 psn, u32 msn, u8 syndrome)
{
	u64 mail = ROX_MAIL_VALID | psn | (u64)msn << ROX_MAIL_MSN_SHIFT |
		   (u64)syndrome << ROX_MAIL_SYNDROME_SHIFT;
	u64 old = atomic64_read(&qp->send.mail);

	if (!skb_queue_empty_lockless(&qp->send.side.rxq))
		return false;
	do {
		if (unlikely(rox_mail_is_nak(old) && !rox_mail_is_nak(mail)))
			return true;
	} while (!atomic64_try_cmpxchg(&qp->send.mail, &old, mail));
	return true;
}

/*
 * Acknowledges to the QP that is sending right now, in this context, which has just
 * been found to be the peer: it looks into its mail itself before its run ends.
 */
static void rox_ack_direct(struct rox_qp *qp, struct rox_qp *sender)
{
	u32 psn = rox_psn_add(qp->recv.epsn, ROX_PSN_MASK);

	if (qp->attr.dest_qp_num != sender->ibqp.qp_num ||
	    !rox_mail_put(sender, psn, qp->recv.msn, rox_ack_syndrome(qp))) {
		rox_ack_send(qp);
		return;
	}
	qp->recv.ack_due = false;
	rox_qp_count(qp, ROX_CNT_TX_ACKS);
	rox_qp_count(qp, ROX_CNT_TX_BURSTS);
	rox_qp_count(qp, ROX_CNT_TX_PKTS);
	rox_qp_count(sender, ROX_CNT_RX_BURSTS);
	rox_qp_count(sender, ROX_CNT_RX_PKTS);
	trace_rox_packet_out(qp->ibqp.qp_num, sender->ibqp.qp_num,
			     qp->service | IB_OPCODE_ACKNOWLEDGE, psn, 1, 0);
}

bool rox_mail_read(struct rox_qp *qp)
{
	struct rox_pkt pkt = {
		.bth.dqpn = qp->ibqp.qp_num,
		.bth.opcode = qp->service | IB_OPCODE_ACKNOWLEDGE,
		.npkts = 1,
	};
	u64 mail = atomic64_xchg(&qp->send.mail, 0);

	if (unlikely(!mail))
		return false;
	pkt.info = &rox_opcodes[pkt.bth.opcode];
	pkt.bth.psn = mail & ROX_PSN_MASK;
	pkt.ext.aeth.msn = mail >> ROX_MAIL_MSN_SHIFT & ROX_PSN_MASK;
	pkt.ext.aeth.syndrome = mail >> ROX_MAIL_SYNDROME_SHIFT;
	if (rox_can_send(qp))
		rox_comp_packet(qp, &pkt);
	return true;
}

/* ---- the other end ---- */

struct rox_qp *rox_send_peer(struct rox_qp *qp)
{
	struct rox_kept *kept = &qp->send.kept;

	if (!kept->peer)
		kept->peer = rox_qp_get(qp->dev, qp->attr.dest_qp_num);
	return kept->peer;
}

void rox_kept_release_mrs(struct rox_qp *qp)
{
	rox_mr_release(&qp->send.kept.src);
	rox_mr_release(&qp->send.kept.dst);
}

void rox_kept_release(struct rox_qp *qp)
{
	struct rox_kept *kept = &qp->send.kept;

	rox_kept_release_mrs(qp);
	if (kept->peer) {
		/* What was to follow has not: the peer acknowledges by itself. */
		if (unlikely(kept->unanswered))
			rox_side_kick(&kept->peer->recv.side, ROX_WORK_RUN);
		rox_qp_put(kept->peer);
	}
	*kept = (struct rox_kept) {};
}

/* ---- both sides ---- */

/* Return: false if it has to wait for something, or could not be read. */
static bool rox_recv_direct(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	struct rox_resp *recv = &qp->recv;

	if (recv->rx.skb || recv->read.active || recv->holding || rox_fault_busy(&recv->side))
		return false;
	if (!rox_can_receive(qp))
		return true;
	rox_recv_packet(qp, pkt);
	rox_recv_iter_end(qp);
	/* Where the sender goes on, it sees to it that the last one is answered. */
	if (recv->ack_due && !recv->read.active && !pkt->burst->more && rox_can_receive(qp))
		rox_ack_direct(qp, pkt->burst->qp);
	if (recv->read.active || rox_early_due(qp))
		set_bit(ilog2(ROX_WORK_RUN), &recv->side.pending);
	if (unlikely(rox_is_xrc(qp)))
		rox_xrc_leave(qp);
	return !pkt->burst->again;
}

static bool rox_comp_direct(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	rox_mail_take(qp);
	if (!rox_is_rc(qp) || !rox_can_send(qp))
		return true;
	rox_comp_packet(qp, pkt);
	rox_send_iter_end(qp);
	rox_kept_release_mrs(qp);
	/* There may be more to send now. */
	set_bit(ilog2(ROX_WORK_RUN), &qp->send.side.pending);
	return !pkt->burst->err;
}

/**
 * rox_transport_direct() - gives a QP packets of which the sender has the payload
 * @qp: the QP; the caller holds a reference
 * @pkt: without an skb
 * @request: for the responder, else for the requester
 *
 * Bottom halves disabled; the sender's side is held.
 *
 * Return: false if the packet could not be taken; it is as if it had not come, and
 * @pkt->burst->err says if that is the sender's doing
 */
bool rox_transport_direct(struct rox_qp *qp, const struct rox_pkt *pkt, bool request)
{
	struct rox_side *side = request ? &qp->recv.side : &qp->send.side;
	bool taken = false;

	if (skb_queue_empty_lockless(&side->rxq) && rox_side_try(side)) {
		/* What came while it was taken is older. */
		if (skb_queue_empty_lockless(&side->rxq))
			taken = request ? rox_recv_direct(qp, pkt) : rox_comp_direct(qp, pkt);
		rox_side_release(side);
	} else if (!request && pkt->info->kind == ROX_KIND_ACK) {
		taken = rox_mail_put(qp, pkt->bth.psn, pkt->ext.aeth.msn,
				     pkt->ext.aeth.syndrome);
		if (taken)
			rox_side_kick(side, ROX_WORK_RUN);
	}
	return taken;
}
