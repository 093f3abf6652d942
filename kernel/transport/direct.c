// SPDX-License-Identifier: GPL-2.0
/*
 * Loopback: packets from a QP of the same device are processed in the sender's context, if nobody
 * runs the side that they are for. The sender has the lock of a side of its own. So this code
 * never waits for a lock, and work that a packet causes runs later.
 */
#include "internal.h"

/* ---- ACKs and NAKs for a send side that is busy, usually because it is sending ---- */

/*
 * The mail has room for one ACK or NAK. That is enough, because each also acknowledges all
 * packets before it, so the newest one replaces the others. Only an ACK does not replace a NAK:
 * until the requester has acted on a NAK, ACKs come only for duplicates and say no more than the
 * NAK does.
 */
#define ROX_MAIL_VALID		BIT_ULL(63)
/* It is the response to a READ or ATOMIC, whose data is there; send.answer only. */
#define ROX_MAIL_RESPONSE	BIT_ULL(62)
#define ROX_MAIL_MSN_SHIFT	24
#define ROX_MAIL_SYNDROME_SHIFT	48

static bool rox_mail_is_nak(u64 mail)
{
	return mail >> ROX_MAIL_SYNDROME_SHIFT & ROX_AETH_KIND;
}

static u64 rox_mail_of(u32 psn, u32 msn, u8 syndrome)
{
	return ROX_MAIL_VALID | psn | (u64)msn << ROX_MAIL_MSN_SHIFT |
	       (u64)syndrome << ROX_MAIL_SYNDROME_SHIFT;
}

/* Return: false if older frames are in the queue, which come first. */
static bool rox_mail_put(struct rox_qp *qp, u32 psn, u32 msn, u8 syndrome)
{
	u64 mail = rox_mail_of(psn, msn, syndrome);
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
 * Acknowledges to @sender, which is sending in this context. If it is the peer, the ACK is its
 * answer, which it reads before its run ends. This context has the lock of its send side, so that
 * takes no locked instruction, as mail would.
 */
void rox_ack_direct(struct rox_qp *qp, struct rox_qp *sender)
{
	u32 psn = rox_psn_add(qp->recv.epsn, ROX_PSN_MASK);

	/* A capture shows an ACK only if it is sent as a burst. */
	if (rox_mirrors() || qp->attr.dest_qp_num != sender->ibqp.qp_num ||
	    !skb_queue_empty_lockless(&sender->send.side.rxq)) {
		rox_ack_send(qp);
		return;
	}
	sender->send.answer = rox_mail_of(psn, qp->recv.msn, rox_ack_syndrome(qp));
	qp->recv.ack_due = false;
	rox_qp_count(qp, ROX_CNT_TX_ACKS);
	rox_qp_count(qp, ROX_CNT_TX_BURSTS);
	rox_qp_count(qp, ROX_CNT_TX_PKTS);
	rox_qp_count_add(qp, ROX_CNT_TX_OCTETS, ROX_ACK_LEN);
	rox_qp_count(sender, ROX_CNT_RX_BURSTS);
	rox_qp_count(sender, ROX_CNT_RX_PKTS);
	rox_qp_count_add(sender, ROX_CNT_RX_OCTETS, ROX_ACK_LEN);
	trace_rox_packet_out(qp->ibqp.qp_num, sender->ibqp.qp_num,
			     qp->service | IB_OPCODE_ACKNOWLEDGE, psn, 1, 0);
}

void rox_response_direct(struct rox_qp *qp, struct rox_qp *sender)
{
	u32 psn = rox_psn_add(qp->recv.epsn, ROX_PSN_MASK);

	sender->send.answer = ROX_MAIL_RESPONSE |
			      rox_mail_of(psn, qp->recv.msn, rox_ack_syndrome(qp));
	qp->recv.ack_due = false;
}

static void rox_mail_open(struct rox_qp *qp, u64 mail)
{
	struct rox_pkt pkt = {
		.bth.dqpn = qp->ibqp.qp_num,
		.bth.opcode = qp->service | IB_OPCODE_ACKNOWLEDGE,
		.bth.psn = mail & ROX_PSN_MASK,
		.ext.aeth.msn = mail >> ROX_MAIL_MSN_SHIFT & ROX_PSN_MASK,
		.ext.aeth.syndrome = mail >> ROX_MAIL_SYNDROME_SHIFT,
		.npkts = 1,
	};

	pkt.info = &rox_opcodes[pkt.bth.opcode];
	if (!mail || !rox_can_send(qp))
		return;
	if (mail & ROX_MAIL_RESPONSE)
		rox_comp_fetched(qp, &pkt);
	else
		rox_comp_packet(qp, &pkt);
}

void rox_mail_read(struct rox_qp *qp)
{
	u64 answer = qp->send.answer;

	qp->send.answer = 0;
	if (unlikely(atomic64_read(&qp->send.mail)))
		rox_mail_open(qp, atomic64_xchg(&qp->send.mail, 0));
	if (likely(answer))
		rox_mail_open(qp, answer);
}

/* ---- the peer ---- */

struct rox_qp *rox_send_find_peer(struct rox_qp *qp)
{
	qp->send.kept.peer = rox_qp_get(qp->dev, qp->attr.dest_qp_num);
	return qp->send.kept.peer;
}

/* A QP that is being destroyed ends its leases. */
static bool rox_holder_get(struct rox_leaseholder *holder)
{
	struct rox_qp *qp = container_of(holder, struct rox_qp, send.kept.holder);

	return refcount_inc_not_zero(&qp->slot->ref);
}

/* The end of a run looks at all leases. */
static void rox_holder_recall(struct rox_leaseholder *holder)
{
	struct rox_qp *qp = container_of(holder, struct rox_qp, send.kept.holder);

	local_bh_disable();
	rox_side_kick(&qp->send.side, ROX_WORK_RUN);
	local_bh_enable();
	rox_qp_put(qp);
}

void rox_kept_init(struct rox_qp *qp)
{
	struct rox_kept *kept = &qp->send.kept;

	kept->holder.get = rox_holder_get;
	kept->holder.recall = rox_holder_recall;
	kept->peer_lease.holder = &kept->holder;
	kept->src.lease.holder = &kept->holder;
	kept->dst.lease.holder = &kept->holder;
}

static void rox_kept_drop_peer(struct rox_kept *kept)
{
	if (!kept->peer)
		return;
	rox_lease_end(&kept->peer->leases, &kept->peer_lease);
	rox_qp_put(kept->peer);
	kept->peer = NULL;
}

void rox_kept_drop_mrs(struct rox_qp *qp)
{
	rox_mr_keep_drop(&qp->send.kept.src);
	rox_mr_keep_drop(&qp->send.kept.dst);
}

void rox_kept_drop(struct rox_qp *qp)
{
	rox_kept_drop_mrs(qp);
	rox_kept_drop_peer(&qp->send.kept);
}

static void rox_kept_settle_mrs(struct rox_qp *qp)
{
	rox_mr_keep_settle(&qp->send.kept.src);
	rox_mr_keep_settle(&qp->send.kept.dst);
}

/* The peer of two runs in a row gets a lease, as an MR does. */
static void rox_kept_decide_peer(struct rox_kept *kept)
{
	struct rox_leases *leases = &kept->peer->leases;

	if (!rox_lease_due(leases, &kept->peer_lease) ||
	    !rox_lease_take(leases, &kept->peer_lease))
		rox_kept_drop_peer(kept);
}

void rox_kept_settle(struct rox_qp *qp)
{
	struct rox_kept *kept = &qp->send.kept;
	struct rox_qp *peer = kept->peer;

	rox_kept_settle_mrs(qp);
	if (peer) {
		/* No more requests have followed, so the peer must send the ACK itself. */
		if (unlikely(kept->unanswered))
			rox_side_kick(&peer->recv.side, ROX_WORK_RUN);
		if (!rox_lease_stands(&peer->leases, &kept->peer_lease))
			rox_kept_decide_peer(kept);
	}
	kept->unanswered = false;
}

/* ---- both sides ---- */

/* @sign: 1, or -1 if the packet was not taken after all */
static void rox_count_direct(struct rox_qp *qp, const struct rox_pkt *pkt, u32 octets, int sign)
{
	rox_qp_count_add(qp, ROX_CNT_RX_BURSTS, sign);
	rox_qp_count_add(qp, ROX_CNT_RX_PKTS, (s64)pkt->npkts * sign);
	rox_qp_count_add(qp, ROX_CNT_RX_BYTES, (s64)pkt->payload_len * sign);
	rox_qp_count_add(qp, ROX_CNT_RX_OCTETS, (s64)octets * sign);
}

/* Return: false if the packet has to wait, or the sender's memory could not be read. */
static bool rox_recv_direct(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	struct rox_resp *recv = &qp->recv;

	if (recv->rx.skb || recv->read.active || recv->holding || rox_fault_busy(&recv->side.pages))
		return false;
	if (!rox_can_receive(qp))
		return true;
	rox_recv_packet(qp, pkt);
	rox_recv_iter_end(qp);
	/* If the sender sends more at once, the last of these requests is acknowledged. */
	if (recv->ack_due && !recv->read.active && !pkt->burst->more && rox_can_receive(qp))
		rox_ack_direct(qp, rox_ep_qp(pkt->burst->from));
	if (recv->read.active || rox_request_due(qp))
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
	rox_kept_settle_mrs(qp);
	/* The ACK or response may allow more to be sent. */
	set_bit(ilog2(ROX_WORK_RUN), &qp->send.side.pending);
	return !pkt->burst->err;
}

/*
 * With the lock of the side. The packet is counted before a completion can tell of it.
 * Return: false if it was not taken.
 */
static bool rox_take_direct(struct rox_qp *qp, const struct rox_pkt *pkt, const struct rox_run *run)
{
	bool taken;

	rox_count_direct(qp, pkt, run->octets, 1);
	taken = run->request ? rox_recv_direct(qp, pkt) : rox_comp_direct(qp, pkt);
	if (unlikely(!taken))
		rox_count_direct(qp, pkt, run->octets, -1);
	return taken;
}

/**
 * rox_transport_direct() - gives a QP packets whose payload is in the sender's memory
 * @qp: the QP; the caller holds a reference
 * @pkt: without an skb
 * @run: what they are, for the responder or for the requester
 *
 * Counts them if they are taken. Bottom halves are disabled, and the lock of the sender's side is
 * taken.
 *
 * Return: false if the packets were not taken, with no effect on the QP. If the sender caused
 * that, @pkt->burst->err is set.
 */
bool rox_transport_direct(struct rox_qp *qp, const struct rox_pkt *pkt, const struct rox_run *run)
{
	struct rox_side *side = run->request ? &qp->recv.side : &qp->send.side;
	bool taken = false;

	if (skb_queue_empty_lockless(&side->rxq) && rox_side_try(side)) {
		/* Frames that arrived before the lock was taken are older. */
		if (skb_queue_empty_lockless(&side->rxq))
			taken = rox_take_direct(qp, pkt, run);
		rox_side_release(side);
	} else if (!run->request && pkt->info->kind == ROX_KIND_ACK) {
		taken = rox_mail_put(qp, pkt->bth.psn, pkt->ext.aeth.msn,
				     pkt->ext.aeth.syndrome);
		if (taken) {
			rox_count_direct(qp, pkt, run->octets, 1);
			rox_side_kick(side, ROX_WORK_RUN);
		}
	}
	return taken;
}
