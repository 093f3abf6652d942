// SPDX-License-Identifier: GPL-2.0
/*
 * Completer: processes ACKs, NAKs and responses. IBTA volume 1, 9.7.5.2 (AETH), 9.7.6
 * (requester's view of acknowledges), 9.9.2 (errors).
 */
#include "internal.h"

/* A fatal NAK waits at least this long for responses that it has overtaken. */
#define ROX_REFUSED_NS	(100 * NSEC_PER_MSEC)

static struct rox_swqe *rox_tail_wqe(struct rox_qp *qp)
{
	return qp->send.tail == qp->sq.index ? NULL : rox_swqe_at(qp, qp->send.tail);
}

/*
 * Completes the oldest WQE with success, because the peer has executed it. A local error of a
 * retransmission does not count.
 */
static void rox_tail_done(struct rox_qp *qp)
{
	struct rox_swqe *wqe = rox_tail_wqe(qp);

	if (!rox_wqe_is_local(wqe))
		wqe->status = IB_WC_SUCCESS;
	rox_retire_tail(qp);
}

/*
 * Moves the oldest unacknowledged PSN to @una. If packets before @una are being retransmitted,
 * sending continues at @una.
 */
static void rox_acked_to(struct rox_qp *qp, u32 una)
{
	struct rox_send *send = &qp->send;
	struct rox_swqe *wqe;

	if (send->una == una)
		return;
	rox_retry_progress(qp, rox_psn_diff(una, send->una));
	send->una = una;
	if (rox_psn_diff(una, send->asked) > 0)
		send->asked = una;
	if (rox_psn_diff(una, send->psn) <= 0)
		return;
	send->psn = una;
	rox_send_iter_end(qp);
	while (send->cur != qp->sq.index) {
		wqe = rox_swqe_at(qp, send->cur);
		if (unlikely(rox_wqe_is_local(wqe) && !wqe->done))
			return;
		if (rox_psn_diff(una, rox_psn_add(wqe->first_psn, wqe->npkts)) < 0) {
			wqe->sent = (una - wqe->first_psn) & ROX_PSN_MASK;
			return;
		}
		wqe->sent = wqe->npkts;
		send->cur++;
	}
}

/*
 * Where packets are repeated, recovery looks at each message that is acknowledged. Else it is told
 * of all messages of an ACK at once.
 */
static bool rox_acks_one_by_one(const struct rox_qp *qp)
{
	return qp->send.psn != qp->send.max_psn || rox_recovery_is_busy(qp);
}

/*
 * Return: index after the messages, from @index on, that an ACK completes and that end before PSN
 * @next. The first of them begins at @una, which becomes the PSN after the last.
 */
static u32 rox_acked_messages(const struct rox_qp *qp, u32 index, u32 next, u32 *una)
{
	const struct rox_swqe *wqe;
	u32 end;

	for (; index != qp->sq.index && *una != next; index++) {
		wqe = rox_swqe_at(qp, index);
		end = rox_psn_add(wqe->first_psn, wqe->npkts);
		if (!rox_wqe_is_acked(wqe) || rox_psn_diff(next, end) < 0)
			break;
		*una = end;
	}
	return index;
}

/* See rox_ack_through(). */
static bool rox_ack_messages(struct rox_qp *qp, u32 psn)
{
	struct rox_send *send = &qp->send;
	u32 next = rox_psn_add(psn, 1), end, stop;
	struct rox_swqe *wqe;

	while ((wqe = rox_tail_wqe(qp)) && rox_psn_diff(psn, send->una) >= 0) {
		end = rox_psn_add(wqe->first_psn, wqe->npkts);
		stop = send->tail + 1;
		if (!rox_wqe_is_acked(wqe))
			return false;
		if (rox_psn_diff(next, end) < 0) {
			rox_acked_to(qp, next);
			return true;
		}
		if (end != next && !rox_acks_one_by_one(qp))
			stop = rox_acked_messages(qp, stop, next, &end);
		rox_acked_to(qp, end);
		/* A message takes the local operations behind it with it. */
		do
			rox_tail_done(qp);
		while ((s32)(stop - send->tail) > 0);
	}
	return true;
}

/*
 * The peer has executed all requests up to and including @psn. SENDs and WRITEs complete. A READ
 * or ATOMIC completes only with its data.
 * Return: false if such a response is missing, because it was lost.
 */
static bool rox_ack_through(struct rox_qp *qp, u32 psn)
{
	bool all = rox_ack_messages(qp, psn);

	if (unlikely(qp->send.recovery.answered))
		rox_recovery_settle(qp);
	return all;
}

static void rox_credits(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	struct rox_send *send = &qp->send;
	u8 code = pkt->ext.aeth.syndrome & ROX_AETH_VALUE;

	send->credits_valid = code != ROX_AETH_NO_CREDITS;
	if (send->credits_valid)
		send->lsn = rox_psn_add(pkt->ext.aeth.msn, rox_credit_decode(code));
}

static void rox_fail_tail(struct rox_qp *qp, enum ib_wc_status status)
{
	struct rox_swqe *wqe = rox_tail_wqe(qp);

	if (!wqe)
		return;
	wqe->status = status;
	rox_retire_failed(qp);
}

/* Return: the WQE that the outstanding PSN @psn belongs to. */
static struct rox_swqe *rox_owner_of(struct rox_qp *qp, u32 psn)
{
	struct rox_swqe *wqe;
	u32 i;

	for (i = qp->send.tail; i != qp->sq.index; i++) {
		wqe = rox_swqe_at(qp, i);
		if (rox_psn_diff(psn, rox_psn_add(wqe->first_psn, wqe->npkts)) < 0)
			return wqe;
	}
	return rox_tail_wqe(qp);
}

/*
 * A fatal NAK is for the WQE with its PSN. If a READ or ATOMIC before that WQE still lacks its
 * response, that was lost. The responder is in ERR (IBTA 9.9.3) and answers no repeated request.
 * All WQEs before the failed one are therefore flushed, unless they have an error of their own.
 */
void rox_comp_refused(struct rox_qp *qp)
{
	struct rox_swqe *owner = rox_owner_of(qp, qp->send.refused_psn), *wqe = rox_tail_wqe(qp);

	/* The peer has answered the request after all. */
	if (!owner) {
		rox_timer_clear(qp);
		return;
	}
	owner->status = qp->send.refused;
	rox_send_iter_end(qp);
	for (; wqe != owner; wqe = rox_tail_wqe(qp)) {
		wqe->status = wqe->status ?: IB_WC_WR_FLUSH_ERR;
		rox_retire_tail(qp);
	}
	rox_retire_failed(qp);
}

/*
 * A fatal NAK. The network may have let it overtake responses to older requests, for which it waits
 * longer than queues of hosts and networks usually keep packets.
 */
static void rox_comp_refuse(struct rox_qp *qp, u32 psn, enum ib_wc_status status)
{
	struct rox_send *send = &qp->send;

	if (!rox_tail_wqe(qp) || send->waits == ROX_WAIT_REFUSED)
		return;
	send->refused = status;
	send->refused_psn = psn;
	if (rox_owner_of(qp, psn) == rox_tail_wqe(qp))
		rox_comp_refused(qp);
	else
		rox_timer_set(qp, ROX_WAIT_REFUSED,
			      ktime_get_ns() + max(send->recovery.round_trip, ROX_REFUSED_NS));
}

/*
 * An ACK, NAK or response with @psn arrived, but an older response is missing: request that
 * again. Packets that were on their way already arrive in ascending order. If @psn does not
 * ascend, the repeated request has lost its response, too.
 */
static void rox_implied_nak(struct rox_qp *qp, u32 psn)
{
	struct rox_send *send = &qp->send;
	bool known = send->nak_una == send->una && rox_psn_diff(psn, send->ooo_psn) > 0;

	send->nak_una = send->una;
	send->ooo_psn = psn;
	if (known)
		return;
	rox_qp_count(qp, ROX_CNT_IMPLIED_NAK_SEQ_ERR);
	rox_retry_go_back(qp, ROX_RETRY_IMPLIED);
}

/*
 * The response una is missing. @pkt shows that the peer has executed all requests up to @executed.
 * Loopback loses responses only for want of memory.
 */
static void rox_comp_missing(struct rox_qp *qp, const struct rox_pkt *pkt, u32 executed)
{
	if (pkt->skb && !pkt->burst)
		rox_holes_note(qp, pkt, executed);
	else
		rox_implied_nak(qp, pkt->bth.psn);
}

static void rox_comp_nak(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	u32 psn = pkt->bth.psn;
	bool missing;

	/* If a response before @psn is missing, retransmission begins with it. */
	missing = rox_psn_diff(psn, qp->send.una) > 0 &&
		  !rox_ack_through(qp, rox_psn_add(psn, ROX_PSN_MASK));
	switch (pkt->ext.aeth.syndrome & ROX_AETH_VALUE) {
	case ROX_NAK_PSN_SEQ:
		rox_qp_count(qp, ROX_CNT_PACKET_SEQ_ERR);
		rox_cc_nak(qp);
		rox_retry_go_back(qp, missing ? ROX_RETRY_IMPLIED : ROX_RETRY_SEQ_NAK);
		break;
	case ROX_NAK_INV_REQ:
		rox_qp_count(qp, ROX_CNT_REQ_REM_INV_REQ);
		rox_comp_refuse(qp, psn, IB_WC_REM_INV_REQ_ERR);
		break;
	case ROX_NAK_REM_ACCESS:
		rox_qp_count(qp, ROX_CNT_REQ_REM_ACCESS);
		rox_comp_refuse(qp, psn, IB_WC_REM_ACCESS_ERR);
		break;
	case ROX_NAK_REM_OP:
		rox_comp_refuse(qp, psn, IB_WC_REM_OP_ERR);
		break;
	case ROX_NAK_INV_RD:
		rox_comp_refuse(qp, psn, IB_WC_REM_INV_RD_REQ_ERR);
		break;
	default:
		rox_qp_count(qp, ROX_CNT_RX_MALFORMED);
		break;
	}
}

static void rox_comp_ack(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	u8 syndrome = pkt->ext.aeth.syndrome;

	switch (syndrome & ROX_AETH_KIND) {
	case ROX_AETH_ACK:
		rox_credits(qp, pkt);
		if (!rox_ack_through(qp, pkt->bth.psn))
			rox_comp_missing(qp, pkt, pkt->bth.psn);
		break;
	case ROX_AETH_RNR:
		rox_qp_count(qp, ROX_CNT_RNR_NAK_RETRY_ERR);
		if (rox_psn_diff(pkt->bth.psn, qp->send.una) > 0 &&
		    !rox_ack_through(qp, rox_psn_add(pkt->bth.psn, ROX_PSN_MASK)))
			rox_implied_nak(qp, pkt->bth.psn);
		else if (!rox_send_pauses(qp))
			rox_retry_rnr(qp, syndrome & ROX_AETH_VALUE);
		break;
	case ROX_AETH_NAK:
		rox_comp_nak(qp, pkt);
		break;
	default:
		rox_qp_count(qp, ROX_CNT_RX_MALFORMED);
		break;
	}
}

/*
 * A response belongs to the oldest WQE, unless older responses were lost.
 * Return: that WQE if @pkt has the PSN that it waits for, else NULL.
 */
static struct rox_swqe *rox_comp_expect(struct rox_qp *qp, const struct rox_pkt *pkt,
					bool (*is_kind)(const struct rox_swqe *))
{
	struct rox_send *send = &qp->send;
	struct rox_swqe *wqe;

	/* The response acknowledges all requests before it. */
	if (rox_psn_diff(pkt->bth.psn, send->una) > 0 &&
	    !rox_ack_through(qp, rox_psn_add(pkt->bth.psn, ROX_PSN_MASK))) {
		rox_comp_missing(qp, pkt, rox_psn_add(pkt->bth.psn, ROX_PSN_MASK));
		return NULL;
	}
	wqe = rox_tail_wqe(qp);
	if (!wqe || pkt->bth.psn != send->una)
		return NULL;
	if (!is_kind(wqe)) {
		rox_fail_tail(qp, IB_WC_BAD_RESP_ERR);
		return NULL;
	}
	return wqe;
}

/* Counts the response to a READ piece or ATOMIC, if it was requested since the last go-back. */
static void rox_rd_atomic_done(struct rox_qp *qp, u32 psn)
{
	struct rox_send *send = &qp->send;

	if (rox_psn_diff(send->psn, psn) > 0 && send->rd_atomic)
		send->rd_atomic--;
}

/* The response to an ATOMIC WRITE is that to a READ of length 0 (IBTA A19.4). */
static noinline void rox_comp_atomic_write(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	const u8 only = ROX_OP_FIRST | ROX_OP_LAST;

	if ((pkt->info->flags & only) != only || pkt->payload_len ||
	    (pkt->ext.aeth.syndrome & ROX_AETH_KIND) != ROX_AETH_ACK) {
		rox_fail_tail(qp, IB_WC_BAD_RESP_ERR);
		return;
	}
	rox_credits(qp, pkt);
	rox_rd_atomic_done(qp, pkt->bth.psn);
	rox_acked_to(qp, rox_psn_add(pkt->bth.psn, 1));
	rox_tail_done(qp);
}

static bool rox_wqe_is_read_or_write(const struct rox_swqe *wqe)
{
	return rox_wqe_is_read(wqe) || rox_wqe_is_atomic_write(wqe);
}

/*
 * The data of a response cannot be stored. If a page on demand was invalidated since the request,
 * go back: the request is repeated after its pages were fetched.
 */
static void rox_comp_no_place(struct rox_qp *qp, const struct rox_pkt *pkt, int err)
{
	rox_send_iter_end(qp);
	/*
	 * Loopback: the responder's memory was not readable. The response is ignored, as if lost.
	 */
	if (rox_pkt_unread(pkt))
		return;
	if (err == -EAGAIN)
		rox_retry_again(qp);
	else
		rox_fail_tail(qp, IB_WC_LOC_PROT_ERR);
}

/*
 * Does the opcode fit the position? @begins, @ends: the packet is the first, the last of a
 * requested piece. A FIRST is valid anywhere, because the rest of a piece may have been requested
 * again.
 */
static bool rox_read_opcode_ok(const struct rox_pkt *pkt, bool begins, bool ends)
{
	if (!!(pkt->info->flags & ROX_OP_LAST) != ends)
		return false;
	return pkt->info->flags & ROX_OP_FIRST || !begins;
}

static void rox_comp_read(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	struct rox_swqe *wqe = rox_comp_expect(qp, pkt, rox_wqe_is_read_or_write);
	u32 pos, offset, len, in_piece, psn = pkt->bth.psn;
	bool ends;
	int err;

	if (!wqe)
		return;
	if (unlikely(rox_wqe_is_atomic_write(wqe))) {
		rox_comp_atomic_write(qp, pkt);
		return;
	}
	if (pkt->info->ext & ROX_EXT_AETH)
		rox_credits(qp, pkt);
	if (unlikely(READ_ONCE(qp->ep.marked)))
		qp->send.cc.read_marked = true;
	pos = (psn - wqe->first_psn) & ROX_PSN_MASK;
	offset = pos * qp->mtu;
	/* The number of packets of a piece is a power of two, as the MTU is. */
	in_piece = rox_read_chunk_pkts(qp) - 1;
	ends = pos + pkt->npkts == wqe->npkts || !((pos + pkt->npkts) & in_piece);
	if (pkt->npkts > wqe->npkts - pos || !rox_read_opcode_ok(pkt, !(pos & in_piece), ends)) {
		rox_fail_tail(qp, IB_WC_BAD_RESP_ERR);
		return;
	}
	len = min(pkt->npkts * qp->mtu, wqe->length - offset);
	if (pkt->payload_len != len) {
		rox_fail_tail(qp, IB_WC_BAD_RESP_ERR);
		return;
	}
	if (len) {
		err = rox_pkt_copy(pkt, 0, rox_send_iter(qp, wqe, qp->send.tail, offset), len);
		if (unlikely(err)) {
			rox_comp_no_place(qp, pkt, err);
			return;
		}
	}
	qp->send.iter_off += len;
	pos += pkt->npkts;
	psn = rox_psn_add(psn, pkt->npkts - 1);
	if (ends)
		rox_rd_atomic_done(qp, psn);
	rox_acked_to(qp, rox_psn_add(psn, 1));
	if (pos == wqe->npkts)
		rox_tail_done(qp);
}

static void rox_comp_atomic(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	struct rox_swqe *wqe = rox_comp_expect(qp, pkt, rox_wqe_is_atomic);
	u64 orig = pkt->ext.atomic_orig;
	int err;

	if (!wqe)
		return;
	if ((pkt->ext.aeth.syndrome & ROX_AETH_KIND) != ROX_AETH_ACK) {
		rox_fail_tail(qp, IB_WC_BAD_RESP_ERR);
		return;
	}
	rox_credits(qp, pkt);
	err = rox_iter_write(rox_send_iter(qp, wqe, qp->send.tail, 0), &orig, sizeof(orig));
	if (unlikely(err)) {
		rox_comp_no_place(qp, pkt, err);
		return;
	}
	rox_send_iter_end(qp);
	rox_rd_atomic_done(qp, pkt->bth.psn);
	rox_acked_to(qp, rox_psn_add(pkt->bth.psn, 1));
	rox_tail_done(qp);
}

/* A fatal NAK has waited for responses to older requests. Have they come? */
static void rox_comp_refused_now(struct rox_qp *qp)
{
	const struct rox_swqe *wqe;

	if (likely(qp->send.waits != ROX_WAIT_REFUSED) || !rox_can_send(qp))
		return;
	wqe = rox_tail_wqe(qp);
	if (wqe && rox_psn_diff(qp->send.refused_psn,
				rox_psn_add(wqe->first_psn, wqe->npkts)) < 0)
		rox_comp_refused(qp);
}

/*
 * A packet with a PSN that was never sent. If a burst fails, a part of it may have gone out before,
 * and ACKs of older requests may have a PSN of that part: all that was sent has been executed.
 */
static noinline void rox_comp_ahead(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	struct rox_send *send = &qp->send;
	const struct rox_swqe *wqe;

	if (pkt->info->kind != ROX_KIND_ACK || send->cur == qp->sq.index)
		return;
	wqe = rox_swqe_at(qp, send->cur);
	if (wqe->status && ((pkt->bth.psn - wqe->first_psn) & ROX_PSN_MASK) < wqe->npkts)
		rox_ack_through(qp, rox_psn_add(send->max_psn, ROX_PSN_MASK));
}

void rox_comp_packet(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	struct rox_send *send = &qp->send;

	rox_side_moved(&send->side, pkt->payload_len);
	trace_rox_packet_in(qp->ibqp.qp_num, pkt->bth.dqpn, pkt->bth.opcode, pkt->bth.psn,
			    pkt->npkts, pkt->payload_len);
	if (!rox_tail_wqe(qp))
		return;
	if (unlikely(rox_psn_diff(pkt->bth.psn, send->max_psn) >= 0)) {
		rox_comp_ahead(qp, pkt);
		return;
	}
	if (rox_psn_diff(pkt->bth.psn, send->una) < 0) {
		/* The responder repeats the newest ACK to grant credits (IBTA 9.7.7.2.4). */
		if (pkt->info->kind == ROX_KIND_ACK &&
		    (pkt->ext.aeth.syndrome & ROX_AETH_KIND) == ROX_AETH_ACK &&
		    rox_psn_add(pkt->bth.psn, 1) == send->una)
			rox_credits(qp, pkt);
		return;
	}
	switch (pkt->info->kind) {
	case ROX_KIND_ACK:
		rox_qp_count(qp, ROX_CNT_RX_ACKS);
		rox_comp_ack(qp, pkt);
		break;
	case ROX_KIND_READ_RESP:
		rox_comp_read(qp, pkt);
		break;
	case ROX_KIND_ATOMIC_ACK:
		rox_comp_atomic(qp, pkt);
		break;
	default:
		rox_qp_count(qp, ROX_CNT_RX_MALFORMED);
		break;
	}
	if (unlikely(send->recovery.answered))
		rox_recovery_settle(qp);
	rox_comp_refused_now(qp);
}

void rox_comp_fetched(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	rox_credits(qp, pkt);
	rox_ack_through(qp, pkt->bth.psn);
	rox_comp_refused_now(qp);
}

/* Joins the packets of the frame that continue @pkt, if it is the expected response to a READ. */
static inline void rox_comp_join(struct rox_qp *qp, struct rox_rx *rx, struct rox_pkt *pkt)
{
	u32 chunk = rox_read_chunk_pkts(qp), pos;
	struct rox_swqe *wqe;

	if (pkt->info->kind != ROX_KIND_READ_RESP || pkt->info->ext ||
	    pkt->bth.psn != qp->send.una)
		return;
	wqe = rox_tail_wqe(qp);
	if (!wqe || !rox_wqe_is_read(wqe))
		return;
	pos = (pkt->bth.psn - wqe->first_psn) & ROX_PSN_MASK;
	/* A piece ends with another opcode. */
	if (pos < wqe->npkts)
		rox_rx_join(rx, pkt, min(wqe->length - pos * qp->mtu,
					 (chunk - pos % chunk) * qp->mtu));
}

static void rox_comp_walk(struct rox_qp *qp, struct sk_buff *skb)
{
	struct rox_rx rx;
	struct rox_pkt pkt;

	rox_rx_begin(&rx, skb);
	/* Stops when a completion with an error moves the QP to ERR. */
	while (rox_can_send(qp) && rox_rx_next(&rx, &pkt)) {
		rox_comp_join(qp, &rx, &pkt);
		rox_comp_packet(qp, &pkt);
		if (rox_holes_seen(qp) && rox_can_send(qp))
			rox_holes_keep(qp, &pkt, rx.index - 1);
	}
}

void rox_comp_frame(struct rox_qp *qp, struct sk_buff *skb)
{
	rox_comp_walk(qp, skb);
	rox_comp_turn(qp);
}

/* What later responses and ACKs have shown counts as soon as the responses before have come. */
void rox_comp_early(struct rox_qp *qp)
{
	struct rox_holes *holes = &qp->send.holes;
	struct sk_buff *skb;

	do {
		if (!rox_can_send(qp))
			return;
		if (holes->executed && rox_ack_through(qp, holes->executed_psn))
			holes->executed = false;
		rox_comp_refused_now(qp);
		if (!rox_can_send(qp) || !rox_response_due(qp))
			return;
		skb = rox_early_take(qp, &qp->send.early);
		rox_comp_walk(qp, skb);
		consume_skb(skb);
	} while (rox_side_has_room(&qp->send.side));
}
