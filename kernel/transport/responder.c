// SPDX-License-Identifier: GPL-2.0
/*
 * Responder: checks the order of requests, dispatches them, and sends ACKs and NAKs. IBTA volume
 * 1, 9.7.4.1 (validation), 9.7.5.2.4 (NAK for a sequence error), 9.9.3 (errors).
 */
#include "internal.h"

static void rox_gap_nak(struct rox_qp *qp)
{
	qp->recv.nak_due = false;
	rox_nak_send(qp, ROX_AETH_NAK | ROX_NAK_PSN_SEQ, qp->recv.epsn);
}

/*
 * The expected packet is missing, and @pkt is a later one. On UDP the NAK is sent at the end of
 * the run, because the network may have changed the order and the missing packet may be among
 * those that the run has yet to process.
 */
static void rox_gap(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	qp->recv.nak_sent = true;
	qp->recv.ooo_psn = pkt->bth.psn;
	qp->recv.nak_due = true;
	if (pkt->burst)
		rox_gap_nak(qp);
}

/*
 * A packet after the expected one: sends one NAK for the gap. Packets behind a gap arrive in
 * ascending order. If the order goes back, the requester has gone back and a packet was lost
 * again: NAK once more. A packet that was not stored before may also have been overtaken by
 * others; it causes no NAK.
 */
static void rox_out_of_sequence(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	struct rox_resp *recv = &qp->recv;
	bool back = rox_psn_diff(pkt->bth.psn, recv->ooo_psn) <= 0;
	enum rox_early_is early = rox_early_keep(qp, &recv->early, recv->epsn, pkt,
						 recv->rx.index - 1);

	rox_qp_count(qp, ROX_CNT_OUT_OF_SEQUENCE);
	if (!recv->nak_sent || (back && early != ROX_EARLY_KEPT))
		rox_gap(qp, pkt);
	else
		recv->ooo_psn = pkt->bth.psn;
}

/* FIRST and ONLY begin a message; MIDDLE and LAST continue one of the same kind. */
static bool rox_order_ok(const struct rox_qp *qp, const struct rox_pkt *pkt)
{
	if (pkt->info->flags & ROX_OP_FIRST)
		return qp->recv.kind == ROX_KIND_NONE;
	return qp->recv.kind == pkt->info->kind;
}

static enum rox_verdict rox_execute(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	enum rox_verdict v;

	if (!rox_order_ok(qp, pkt))
		return ROX_V_INV_REQ;
	if (unlikely(rox_is_xrc(qp)) && !rox_xrc_request_ok(qp, pkt))
		return ROX_V_REM_ACCESS;
	switch (pkt->info->kind) {
	case ROX_KIND_SEND:
		v = rox_exec_send(qp, pkt);
		break;
	case ROX_KIND_WRITE:
		v = rox_exec_write(qp, pkt);
		break;
	case ROX_KIND_READ_REQ:
		return rox_exec_read(qp, pkt);
	case ROX_KIND_CMP_SWAP:
	case ROX_KIND_FETCH_ADD:
		return rox_exec_atomic(qp, pkt);
	case ROX_KIND_ATOMIC_WRITE:
		return rox_exec_atomic_write(qp, pkt);
	default:
		return ROX_V_INV_REQ;
	}
	if (v)
		return v;
	rox_expect(qp, rox_psn_add(qp->recv.epsn, pkt->npkts));
	if (pkt->info->flags & ROX_OP_LAST)
		qp->recv.msn = rox_psn_add(qp->recv.msn, 1);
	if (pkt->bth.ackreq)
		qp->recv.ack_due = true;
	return ROX_V_OK;
}

/*
 * Ends the connection: NAK, event, ERR. No event is raised if a receive completion has the error.
 */
static void rox_refuse(struct rox_qp *qp, enum rox_verdict v)
{
	struct rox_resp *recv = &qp->recv;

	switch (v) {
	case ROX_V_INV_REQ:
		rox_nak_send(qp, ROX_AETH_NAK | ROX_NAK_INV_REQ, recv->epsn);
		rox_qp_fail(qp, IB_EVENT_QP_REQ_ERR);
		break;
	case ROX_V_REM_ACCESS:
		rox_qp_count(qp, ROX_CNT_RESP_REM_ACCESS);
		rox_nak_send(qp, ROX_AETH_NAK | ROX_NAK_REM_ACCESS, recv->epsn);
		rox_qp_fail(qp, IB_EVENT_QP_ACCESS_ERR);
		break;
	case ROX_V_LOC_LEN:
		rox_nak_send(qp, ROX_AETH_NAK | ROX_NAK_INV_REQ, recv->epsn);
		rox_qp_fail(qp, -1);
		break;
	case ROX_V_REM_OP:
		rox_nak_send(qp, ROX_AETH_NAK | ROX_NAK_REM_OP, recv->epsn);
		rox_qp_fail(qp, -1);
		break;
	default:
		rox_nak_send(qp, ROX_AETH_NAK | ROX_NAK_REM_OP, recv->epsn);
		rox_qp_fail(qp, IB_EVENT_QP_FATAL);
		break;
	}
}

/* In RTR, raises IB_EVENT_COMM_EST for the first packet that is accepted. */
void rox_established(struct rox_qp *qp)
{
	if (qp->recv.comm_est)
		return;
	qp->recv.comm_est = true;
	if (rox_qp_state(qp) == IB_QPS_RTR)
		rox_qp_event(qp, IB_EVENT_COMM_EST);
}

/* Acts on the result of a request that was in sequence. */
static void rox_rc_verdict(struct rox_qp *qp, const struct rox_pkt *pkt, enum rox_verdict v)
{
	struct rox_resp *recv = &qp->recv;

	switch (v) {
	case ROX_V_OK:
		break;
	case ROX_V_RNR:
		/* The packets that follow are out of sequence and need no NAK of their own. */
		recv->nak_sent = true;
		recv->ooo_psn = pkt->bth.psn;
		rox_qp_count(qp, ROX_CNT_RNR_NAK_SENT);
		rox_nak_send(qp, ROX_AETH_RNR | qp->attr.min_rnr_timer, recv->epsn);
		break;
	case ROX_V_HOLD:
		rox_recv_hold(qp, pkt);
		break;
	case ROX_V_DROP:
		/*
		 * This packet counts as lost. The requester may not notice, because early
		 * requests after it are stored here: send a NAK.
		 */
		if (!RB_EMPTY_ROOT(&recv->early.tree))
			rox_gap(qp, pkt);
		break;
	default:
		rox_refuse(qp, v);
		break;
	}
}

/* The expected packet is there, or a burst that begins with it. */
static void rox_recv_expected(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	struct rox_resp *recv = &qp->recv;
	enum rox_verdict v;

	rox_established(qp);
	recv->nak_sent = false;
	recv->nak_due = false;
	v = rox_execute(qp, pkt);
	if (unlikely(v))
		rox_rc_verdict(qp, pkt, v);
}

/* A burst of which @done packets have been executed. */
static noinline void rox_recv_rest(struct rox_qp *qp, const struct rox_pkt *pkt, u32 done)
{
	struct rox_pkt rest;

	rox_pkt_skip(pkt, done, &rest);
	rox_recv_expected(qp, &rest);
}

static void rox_recv_rc(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	s32 ahead = rox_psn_diff(pkt->bth.psn, qp->recv.epsn);

	if (likely(!ahead))
		rox_recv_expected(qp, pkt);
	else if (ahead > 0)
		rox_out_of_sequence(qp, pkt);
	else if (ahead + (s32)pkt->npkts <= 0)
		rox_exec_duplicate(qp, pkt);
	else
		rox_recv_rest(qp, pkt, -ahead);
}

void rox_recv_packet(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	trace_rox_packet_in(qp->ibqp.qp_num, pkt->bth.dqpn, pkt->bth.opcode, pkt->bth.psn,
			    pkt->npkts, pkt->payload_len);
	/* A program of this host can change a page that it sends: the BTH was another before. */
	if (unlikely((pkt->bth.opcode & ROX_SERVICE_MASK) != qp->service ||
		     !(pkt->info->flags & ROX_OP_REQUEST)))
		return;
	rox_side_moved(&qp->recv.side, pkt->payload_len);
	if (unlikely(rox_is_xrc(qp)))
		rox_xrc_enter(qp, pkt);
	if (rox_is_rc(qp))
		rox_recv_rc(qp, pkt);
	else if (rox_is_ud(qp))
		rox_recv_ud(qp, pkt);
	else
		rox_recv_uc(qp, pkt);
}

void rox_recv_hold(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	struct rox_resp *recv = &qp->recv;

	/* Loopback: the sender has the packet and sends a copy. */
	if (!pkt->skb) {
		pkt->burst->again = true;
		return;
	}
	if (pkt != &recv->held)
		recv->held = *pkt;
	recv->holding = true;
	rox_side_hold(&recv->side);
}

/*
 * Processes the held packet again, if its pages have been fetched.
 * Return: what is left of @bursts.
 */
static int rox_recv_held(struct rox_qp *qp, int bursts)
{
	struct rox_resp *recv = &qp->recv;

	if (rox_fault_busy(&recv->side.pages))
		return 0;
	recv->holding = false;
	rox_recv_packet(qp, &recv->held);
	return rox_read_continue(qp, bursts);
}

/* Puts the rest of the frame in recv->rx back into the queue; early requests come first. */
static void rox_recv_put_back(struct rox_qp *qp)
{
	struct rox_rx *rx = &qp->recv.rx;

	if (rox_rx_cut(rx))
		rox_side_put_back(&qp->recv.side, rx->skb);
	else
		consume_skb(rx->skb);
	rx->skb = NULL;
}

/* Joins the packets of the frame in recv->rx that continue @pkt, if it is the expected one. */
static inline void rox_recv_join(struct rox_qp *qp, struct rox_pkt *pkt)
{
	struct rox_resp *recv = &qp->recv;

	if (pkt->info->flags & (ROX_OP_FIRST | ROX_OP_LAST) || pkt->bth.psn != recv->epsn ||
	    pkt->info->kind != recv->kind)
		return;
	if (recv->kind == ROX_KIND_WRITE)
		rox_rx_join(&recv->rx, pkt, recv->left);
	else if (recv->have_recv)
		rox_rx_join(&recv->rx, pkt, recv->recv.length - recv->received);
}

/*
 * Processes the packets of the frame in recv->rx until it has no more. The rest of the frame
 * waits if a READ needs more bursts than are left, or if a packet is held. It goes back into the
 * queue if it is the turn of an early request.
 * Return: what is left of @bursts.
 */
static int rox_recv_frame(struct rox_qp *qp, int bursts)
{
	struct rox_rx *rx = &qp->recv.rx;
	struct rox_pkt pkt;

	while (rox_can_receive(qp)) {
		if (qp->recv.read.active || qp->recv.holding)
			return 0;
		if (rox_request_due(qp)) {
			rox_recv_put_back(qp);
			return bursts;
		}
		if (!rox_rx_next(rx, &pkt))
			break;
		rox_recv_join(qp, &pkt);
		rox_recv_packet(qp, &pkt);
		bursts = rox_read_continue(qp, bursts);
	}
	consume_skb(rx->skb);
	rx->skb = NULL;
	return bursts;
}

/* Puts the next frame into recv->rx, unless there is one. Return: false if there is none. */
static bool rox_recv_next_frame(struct rox_qp *qp)
{
	struct rox_resp *recv = &qp->recv;
	struct sk_buff *skb;

	if (recv->rx.skb)
		return true;
	if (rox_request_due(qp)) {
		skb = rox_early_take(qp, &recv->early);
		/* An ACK, even if the requester asked for none: it is to learn what has arrived. */
		recv->ack_due = true;
	} else {
		skb = rox_side_next_frame(&recv->side);
	}
	if (!skb)
		return false;
	rox_rx_begin(&recv->rx, skb);
	return true;
}

void rox_recv_purge(struct rox_qp *qp)
{
	qp->recv.holding = false;
	kfree_skb(qp->recv.rx.skb);
	qp->recv.rx.skb = NULL;
	rox_early_purge(qp, &qp->recv.early);
	rox_side_purge(&qp->recv.side);
}

/*
 * Sends the ACK or NAK that is due at the end of a run. While READ responses are being sent, an
 * ACK would make the requester think that they were lost. While stored requests are left for the
 * next run, it would make the requester think that what follows them is missing.
 */
static void rox_recv_answer(struct rox_qp *qp)
{
	struct rox_resp *recv = &qp->recv;

	if (recv->read.active)
		return;
	if (unlikely(recv->nak_due))
		rox_gap_nak(qp);
	else if (recv->ack_due && (!rox_request_due(qp) || rox_fault_busy(&recv->side.pages)))
		rox_ack_send(qp);
}

/*
 * Continues READ responses, then processes frames.
 * Return: true if the budget was used up.
 */
static bool rox_recv_work(struct rox_qp *qp)
{
	struct rox_resp *recv = &qp->recv;
	int bursts = ROX_RUN_BURSTS, frames = 0;

	if (rox_can_receive(qp))
		bursts = unlikely(recv->holding) ? rox_recv_held(qp, bursts) :
						   rox_read_continue(qp, bursts);
	/* At least one frame, for which this run may have been started. */
	while (bursts && frames < ROX_RUN_FRAMES && rox_can_receive(qp) &&
	       (!frames || rox_side_has_room(&recv->side)) && rox_recv_next_frame(qp)) {
		bursts = rox_recv_frame(qp, bursts);
		frames++;
	}
	rox_recv_iter_end(qp);
	if (rox_can_receive(qp)) {
		rox_recv_answer(qp);
		if (rox_fault_busy(&recv->side.pages) ||
		    (recv->read.active && rox_tx_waits(&recv->side.sender)))
			return false;
		return recv->read.active || recv->rx.skb || rox_request_due(qp) ||
		       !skb_queue_empty_lockless(&recv->side.rxq);
	}
	rox_recv_purge(qp);
	return rox_qp_state(qp) == IB_QPS_ERR && rox_recv_flush(qp);
}

/* Sends the frame that is open. Return: false if the side has to wait, because it was refused. */
static bool rox_recv_sends(struct rox_qp *qp)
{
	struct rox_resp *recv = &qp->recv;

	rox_xmit_end();
	if (likely(!recv->side.sender.refused))
		return true;
	if (rox_can_receive(qp))
		rox_read_refused(qp);
	rox_tx_wait(&qp->ep, &recv->side.sender);
	return !rox_can_receive(qp);
}

/*
 * rox_recv_run() - runs the receive side: READ responses and received frames
 *
 * Return: true if the budget was used up.
 */
bool rox_recv_run(struct rox_qp *qp, unsigned long work)
{
	bool more = rox_recv_work(qp);

	more = rox_recv_sends(qp) && more;
	if (unlikely(rox_is_xrc(qp)))
		rox_xrc_leave(qp);
	if (unlikely(READ_ONCE(qp->ep.marked)))
		rox_cnp_answer(qp);
	if (unlikely(READ_ONCE(qp->ep.uncut)))
		rox_uncut_tell(qp);
	return more;
}
