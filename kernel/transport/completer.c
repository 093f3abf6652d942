// SPDX-License-Identifier: GPL-2.0
/*
 * Completer: what the responder says about our requests. IBTA volume 1,
 * 9.7.5.2 (AETH), 9.7.6 (requester's view of acknowledges), 9.9.2 (errors).
 */
#include "internal.h"

static struct rox_swqe *rox_tail_wqe(struct rox_qp *qp)
{
	return qp->send.tail == qp->sq.index ? NULL : rox_swqe_at(qp, qp->send.tail);
}

/* The peer has executed it, even if it could not have been sent to him again. */
static void rox_tail_done(struct rox_qp *qp)
{
	struct rox_swqe *wqe = rox_tail_wqe(qp);

	if (!rox_wqe_is_local(wqe))
		wqe->status = IB_WC_SUCCESS;
	rox_retire_tail(qp);
}

/*
 * The oldest unacknowledged PSN moves to @una. Where packets are being sent a
 * second time and turn out to have arrived the first time, sending skips them.
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
 * Everything up to and with @psn has been executed. SENDs and WRITEs are
 * complete; a READ or ATOMIC needs its response.
 * Return: false if one is missing: its response was lost.
 */
static bool rox_ack_through(struct rox_qp *qp, u32 psn)
{
	struct rox_send *send = &qp->send;
	struct rox_swqe *wqe;
	u32 next = rox_psn_add(psn, 1);

	while ((wqe = rox_tail_wqe(qp)) && rox_psn_diff(psn, send->una) >= 0) {
		u32 end = rox_psn_add(wqe->first_psn, wqe->npkts);

		if (rox_wqe_is_answered(wqe))
			return false;
		if (rox_psn_diff(next, end) < 0) {
			rox_acked_to(qp, next);
			return true;
		}
		rox_acked_to(qp, end);
		rox_tail_done(qp);
	}
	return true;
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

/*
 * @psn came although an older response is missing: ask again. Answers that were
 * already on their way are behind the gap in ascending order; one that goes back
 * shows that the repeated request lost its response, too.
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

static void rox_comp_nak(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	if (rox_psn_diff(pkt->bth.psn, qp->send.una) > 0)
		rox_ack_through(qp, rox_psn_add(pkt->bth.psn, ROX_PSN_MASK));
	switch (pkt->ext.aeth.syndrome & ROX_AETH_VALUE) {
	case ROX_NAK_PSN_SEQ:
		rox_qp_count(qp, ROX_CNT_PACKET_SEQ_ERR);
		rox_retry_go_back(qp, ROX_RETRY_SEQ_NAK);
		break;
	case ROX_NAK_INV_REQ:
		rox_qp_count(qp, ROX_CNT_REQ_REM_INV_REQ);
		rox_fail_tail(qp, IB_WC_REM_INV_REQ_ERR);
		break;
	case ROX_NAK_REM_ACCESS:
		rox_qp_count(qp, ROX_CNT_REQ_REM_ACCESS);
		rox_fail_tail(qp, IB_WC_REM_ACCESS_ERR);
		break;
	case ROX_NAK_REM_OP:
		rox_fail_tail(qp, IB_WC_REM_OP_ERR);
		break;
	case ROX_NAK_INV_RD:
		rox_fail_tail(qp, IB_WC_REM_INV_RD_REQ_ERR);
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
			rox_implied_nak(qp, pkt->bth.psn);
		break;
	case ROX_AETH_RNR:
		rox_qp_count(qp, ROX_CNT_RNR_NAK_RETRY_ERR);
		if (rox_psn_diff(pkt->bth.psn, qp->send.una) > 0)
			rox_ack_through(qp, rox_psn_add(pkt->bth.psn, ROX_PSN_MASK));
		if (!qp->send.waiting_rnr)
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
 * A response with data is the answer to the oldest WQE, or later ones got lost
 * on the way. Return: that WQE, if @pkt has the PSN that it waits for.
 */
static struct rox_swqe *rox_comp_expect(struct rox_qp *qp, const struct rox_pkt *pkt,
					bool (*is_kind)(const struct rox_swqe *))
{
	struct rox_send *send = &qp->send;
	struct rox_swqe *wqe;

	/* It acknowledges all requests before it. */
	if (rox_psn_diff(pkt->bth.psn, send->una) > 0 &&
	    !rox_ack_through(qp, rox_psn_add(pkt->bth.psn, ROX_PSN_MASK))) {
		rox_implied_nak(qp, pkt->bth.psn);
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

/* A READ piece or an ATOMIC is answered, if it was asked for in this pass. */
static void rox_rd_atomic_done(struct rox_qp *qp, u32 psn)
{
	struct rox_send *send = &qp->send;

	if (rox_psn_diff(send->psn, psn) > 0 && send->rd_atomic)
		send->rd_atomic--;
}

/* The answer to an ATOMIC WRITE is that to a READ of nothing (IBTA A19.4). */
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
 * A response has nowhere to go. If it is for want of a page that was there when the
 * request was sent, it is asked for again, and the page before it.
 */
static void rox_comp_no_place(struct rox_qp *qp, const struct rox_pkt *pkt, int err)
{
	rox_send_iter_end(qp);
	/* The responder could not read what it wanted to send: as if nothing had come. */
	if (rox_pkt_unread(pkt))
		return;
	if (err == -EAGAIN)
		rox_retry_again(qp);
	else
		rox_fail_tail(qp, IB_WC_LOC_PROT_ERR);
}

/*
 * Can its opcode be there? @begins, @ends: is it at the beginning, at the end of a piece that was
 * asked for? A FIRST may be anywhere: the rest of a piece may have been asked for again.
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
	pos = (psn - wqe->first_psn) & ROX_PSN_MASK;
	offset = pos * qp->mtu;
	/* A power of two, as the MTU is one. */
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

void rox_comp_packet(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	struct rox_send *send = &qp->send;

	trace_rox_packet_in(qp->ibqp.qp_num, pkt->bth.dqpn, pkt->bth.opcode, pkt->bth.psn,
			    pkt->npkts, pkt->payload_len);
	/* Answers to what was answered before, or to what was never sent. */
	if (rox_psn_diff(pkt->bth.psn, send->max_psn) >= 0 || !rox_tail_wqe(qp))
		return;
	if (rox_psn_diff(pkt->bth.psn, send->una) < 0) {
		/* The newest one may bring credits, repeated by the responder (IBTA 9.7.7.2.4). */
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
}

void rox_comp_frame(struct rox_qp *qp, struct sk_buff *skb)
{
	struct rox_rx rx;
	struct rox_pkt pkt;

	rox_rx_begin(&rx, skb);
	/* A completion with an error stops the QP. */
	while (rox_can_send(qp) && rox_rx_next(&rx, &pkt))
		rox_comp_packet(qp, &pkt);
}
