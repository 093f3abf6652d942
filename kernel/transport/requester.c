// SPDX-License-Identifier: GPL-2.0
/*
 * Requester: takes send WQEs, cuts them into bursts, keeps to the window, the
 * credits and the limits on READs. IBTA volume 1, 9.7.3 (packet sequence),
 * 9.7.7.2 (end-to-end credits), 10.8.3.3 (fences).
 */
#include "internal.h"
#include "../verbs/pkey.h"

/* ---- payload ---- */

void rox_send_iter_end(struct rox_qp *qp)
{
	if (qp->send.iter_valid)
		rox_iter_end(&qp->send.iter);
	qp->send.iter_valid = false;
}

struct rox_iter *rox_send_iter(struct rox_qp *qp, struct rox_swqe *wqe, u32 index, u32 offset)
{
	struct rox_send *send = &qp->send;

	if (send->iter_valid && send->iter_wqe == index && send->iter_off == offset)
		return &send->iter;
	rox_send_iter_end(qp);
	rox_iter_init(&send->iter, qp->dev, qp->ibqp.pd, wqe->sge, wqe->num_sge,
		      rox_wqe_fetches(wqe) ? IB_ACCESS_LOCAL_WRITE : 0, qp->user);
	send->iter.keep = &send->kept.src;
	if (offset)
		rox_iter_seek(&send->iter, offset);
	send->iter_valid = true;
	send->iter_wqe = index;
	send->iter_off = offset;
	return &send->iter;
}

/* Pages on demand must be there before a burst begins: none is sent in part. */
static int rox_send_pages(struct rox_qp *qp, struct rox_swqe *wqe, u32 index, u32 offset, u32 len)
{
	if (likely(!wqe->odp) || wqe->inl || !len)
		return 0;
	return rox_fault_ready(&qp->send.side, rox_send_iter(qp, wqe, index, offset), len);
}

/* ---- what may be sent now ---- */

/* Packets that the window still takes. */
static u32 rox_window_room(const struct rox_qp *qp)
{
	u32 used = rox_psn_diff(qp->send.psn, qp->send.una);
	u32 window = qp->send.window;

	return used < window ? window - used : 0;
}

/*
 * A SEND beyond the peer's credits goes out only when nothing else is under way. One of which
 * something is acknowledged has its receive, for all that the credits do not count it any
 * more; and one that was begun goes on if nothing is out that asks for an ACK.
 */
static bool rox_credit_ok(const struct rox_qp *qp, const struct rox_swqe *wqe)
{
	const struct rox_send *send = &qp->send;

	if (!send->credits_valid || wqe->opcode == IB_WR_RDMA_WRITE || rox_wqe_is_answered(wqe))
		return true;
	if (rox_psn_diff(wqe->ssn, send->lsn) <= 0 || send->una == send->psn)
		return true;
	return ((send->una - wqe->first_psn - 1) & ROX_PSN_MASK) < wqe->npkts ||
	       (wqe->sent && rox_psn_diff(send->asked, send->una) <= 0);
}

/* In SQD only WQEs that were begun go on; so do they after a go-back. */
static bool rox_state_ok(const struct rox_qp *qp, const struct rox_swqe *wqe)
{
	switch (rox_qp_state(qp)) {
	case IB_QPS_RTS:
		return true;
	case IB_QPS_SQD:
		return rox_psn_diff(wqe->first_psn, qp->send.max_psn) < 0;
	default:
		return false;
	}
}

/* READs and ATOMICs have their limit, and a fence waits for them. */
static bool rox_reads_ok(const struct rox_qp *qp, const struct rox_swqe *wqe)
{
	const struct rox_send *send = &qp->send;

	/* Where it was set to 0 later, what was begun is still finished. */
	if (rox_wqe_is_answered(wqe) && send->rd_atomic >= max(qp->attr.max_rd_atomic, 1))
		return false;
	return wqe->sent || !(wqe->flags & IB_SEND_FENCE) || !send->rd_atomic;
}

static bool rox_may_begin(const struct rox_qp *qp, const struct rox_swqe *wqe)
{
	return !wqe->status && !qp->send.waiting_rnr && rox_state_ok(qp, wqe);
}

static bool rox_may_send(const struct rox_qp *qp, const struct rox_swqe *wqe)
{
	if (!rox_may_begin(qp, wqe))
		return false;
	if (!rox_is_rc(qp))
		return true;
	return rox_reads_ok(qp, wqe) && rox_window_room(qp) && rox_credit_ok(qp, wqe);
}

/* For the optional counters: what rox_may_send() did not like. */
static noinline void rox_count_stall(const struct rox_qp *qp, const struct rox_swqe *wqe)
{
	enum rox_counter why = ROX_CNT_STALL_CREDITS;

	if (!rox_may_begin(qp, wqe))
		return;
	if (!rox_reads_ok(qp, wqe))
		why = ROX_CNT_STALL_READS;
	else if (!rox_window_room(qp))
		why = ROX_CNT_STALL_WINDOW;
	if (rox_optional(qp->dev, why))
		rox_qp_count(qp, why);
}

/* ---- bursts ---- */

struct rox_msg_ops {
	u8 first, middle, last, last_imm, only, only_imm, last_inv, only_inv;
};

static const struct rox_msg_ops rox_send_ops = {
	IB_OPCODE_SEND_FIRST, IB_OPCODE_SEND_MIDDLE, IB_OPCODE_SEND_LAST,
	IB_OPCODE_SEND_LAST_WITH_IMMEDIATE, IB_OPCODE_SEND_ONLY,
	IB_OPCODE_SEND_ONLY_WITH_IMMEDIATE, IB_OPCODE_SEND_LAST_WITH_INVALIDATE,
	IB_OPCODE_SEND_ONLY_WITH_INVALIDATE,
};

static const struct rox_msg_ops rox_write_ops = {
	IB_OPCODE_RDMA_WRITE_FIRST, IB_OPCODE_RDMA_WRITE_MIDDLE, IB_OPCODE_RDMA_WRITE_LAST,
	IB_OPCODE_RDMA_WRITE_LAST_WITH_IMMEDIATE, IB_OPCODE_RDMA_WRITE_ONLY,
	IB_OPCODE_RDMA_WRITE_ONLY_WITH_IMMEDIATE,
};

static u32 rox_wqe_psn(const struct rox_swqe *wqe)
{
	return rox_psn_add(wqe->first_psn, wqe->sent);
}

/* How the message ends: as a whole packet, or as the last of several. */
static u8 rox_end_opcode(const struct rox_swqe *wqe, const struct rox_msg_ops *ops, bool only)
{
	switch (wqe->opcode) {
	case IB_WR_SEND_WITH_IMM:
	case IB_WR_RDMA_WRITE_WITH_IMM:
		return only ? ops->only_imm : ops->last_imm;
	case IB_WR_SEND_WITH_INV:
		return only ? ops->only_inv : ops->last_inv;
	default:
		return only ? ops->only : ops->last;
	}
}

static void rox_burst_opcodes(struct rox_qp *qp, const struct rox_swqe *wqe, struct rox_burst *b)
{
	bool write = wqe->opcode == IB_WR_RDMA_WRITE || wqe->opcode == IB_WR_RDMA_WRITE_WITH_IMM;
	const struct rox_msg_ops *ops = write ? &rox_write_ops : &rox_send_ops;
	bool begins = !wqe->sent, ends = wqe->sent + b->npkts == wqe->npkts;
	u8 last = ends ? rox_end_opcode(wqe, ops, false) : ops->middle;

	if (begins && ends && b->npkts == 1)
		b->op_first = rox_end_opcode(wqe, ops, true);
	else if (begins)
		b->op_first = ops->first;
	else
		b->op_first = b->npkts == 1 ? last : ops->middle;
	b->op_first |= qp->service;
	b->op_mid = ops->middle | qp->service;
	b->op_last = last | qp->service;
	b->solicited = ends && (wqe->flags & IB_SEND_SOLICITED);
	if (write) {
		b->ext.reth.va = wqe->remote_addr;
		b->ext.reth.rkey = wqe->rkey;
		b->ext.reth.len = wqe->length;
	}
	if (wqe->opcode == IB_WR_SEND_WITH_INV)
		b->ext.ieth_rkey = wqe->inv_rkey;
	else
		b->ext.imm = wqe->imm;
	b->ext.xrc_srqn = wqe->xrc_srqn;
}

static void rox_burst_payload(struct rox_qp *qp, struct rox_swqe *wqe, u32 index, u32 offset,
			      struct rox_burst *b)
{
	if (wqe->inl)
		b->inl = (const u8 *)wqe->sge + offset;
	else if (b->len)
		b->src = rox_send_iter(qp, wqe, index, offset);
}

/*
 * How many messages may follow this one in a run of @bursts? Only small ones ask: one
 * frame and one ACK for all of them is a saving, and they are soon out.
 */
static u32 rox_run_follow(const struct rox_qp *qp, const struct rox_swqe *wqe, int bursts)
{
	u32 most = bursts - 1;

	if (wqe->npkts > 1)
		return 0;
	if (rox_is_rc(qp))
		most = min(most, rox_window_room(qp) - 1);
	if (!most)
		return 0;
	return min_t(u32, most, qp->sq.index - qp->send.cur - 1 +
				max(rox_ring_pending(&qp->sq), 0));
}

/*
 * Does the last packet of @b ask for an ACK? At the end of a message, after as many packets
 * as make a whole burst, and if no other ACK is due. What is sent in small pieces, as small
 * ACKs let it, would bring about ACKs as small again if each of them asked.
 */
static bool rox_burst_asks(const struct rox_qp *qp, const struct rox_swqe *wqe,
			   const struct rox_burst *b)
{
	const struct rox_send *send = &qp->send;

	if (!rox_is_rc(qp))
		return false;
	return wqe->sent + b->npkts == wqe->npkts || rox_psn_diff(b->psn, send->max_psn) < 0 ||
	       rox_psn_diff(send->asked, send->una) <= 0 ||
	       rox_psn_diff(b->psn, send->asked) + b->npkts >= ROX_BURST_BYTES / qp->mtu;
}

/* SEND and WRITE: as many packets as a burst takes, and no more than @most. */
static int rox_xmit_message(struct rox_qp *qp, struct rox_swqe *wqe, u32 index, u32 most,
			    u32 follow)
{
	u32 offset = wqe->sent * qp->mtu;
	struct rox_burst b;
	int err;

	rox_burst_init(qp, &b, rox_wqe_psn(wqe));
	b.npkts = min3(wqe->npkts - wqe->sent, ROX_BURST_BYTES / qp->mtu, most);
	b.len = min(wqe->length - offset, b.npkts * qp->mtu);
	b.ackreq = rox_burst_asks(qp, wqe, &b);
	b.follow = follow;
	b.more = follow && rox_is_rc(qp);
	err = rox_send_pages(qp, wqe, index, offset, b.len);
	if (err)
		return err;
	rox_burst_opcodes(qp, wqe, &b);
	rox_burst_payload(qp, wqe, index, offset, &b);
	err = rox_xmit(&b);
	qp->send.kept.unanswered = b.more;
	qp->send.iter_off += b.len;
	if (err) {
		rox_send_iter_end(qp);
		return err;
	}
	if (b.ackreq)
		qp->send.asked = rox_psn_add(b.psn, b.npkts);
	wqe->sent += b.npkts;
	return 0;
}

/* A message of one packet, with its payload. */
static int rox_xmit_single(struct rox_qp *qp, struct rox_swqe *wqe, u32 index,
			   struct rox_burst *b)
{
	int err;

	b->len = wqe->length;
	rox_burst_payload(qp, wqe, index, 0, b);
	err = rox_xmit(b);
	rox_send_iter_end(qp);
	if (likely(!err))
		wqe->sent = 1;
	return err;
}

/* What requests that are answered have in common; @opcode without the service. */
static void rox_request_init(struct rox_qp *qp, const struct rox_swqe *wqe, u8 opcode,
			     struct rox_burst *b)
{
	rox_burst_init(qp, b, rox_wqe_psn(wqe));
	b->op_first = qp->service | opcode;
	b->ackreq = true;
	b->ext.xrc_srqn = wqe->xrc_srqn;
}

/*
 * READ: asks for the rest of the piece that begins or is under way at
 * wqe->sent. Pieces begin at fixed places, so that a repeated request never
 * spans two that the responder knows as two messages.
 */
static int rox_xmit_read(struct rox_qp *qp, struct rox_swqe *wqe, u32 index, u32 follow)
{
	u32 chunk = rox_read_chunk_pkts(qp);
	u32 n = min(chunk - wqe->sent % chunk, wqe->npkts - wqe->sent);
	u32 offset = wqe->sent * qp->mtu;
	u32 len = min(wqe->length - offset, n * qp->mtu);
	struct rox_burst b;
	int err;

	err = rox_send_pages(qp, wqe, index, offset, len);
	if (err)
		return err;
	rox_request_init(qp, wqe, IB_OPCODE_RDMA_READ_REQUEST, &b);
	b.ext.reth.va = wqe->remote_addr + offset;
	b.ext.reth.rkey = wqe->rkey;
	b.ext.reth.len = len;
	b.follow = follow;
	rox_xmit(&b);
	wqe->sent += n;
	qp->send.rd_atomic++;
	return 0;
}

static int rox_xmit_atomic(struct rox_qp *qp, struct rox_swqe *wqe, u32 index, u32 follow)
{
	bool cas = wqe->opcode == IB_WR_ATOMIC_CMP_AND_SWP;
	struct rox_burst b;
	int err;

	err = rox_send_pages(qp, wqe, index, 0, sizeof(u64));
	if (err)
		return err;
	rox_request_init(qp, wqe, cas ? IB_OPCODE_COMPARE_SWAP : IB_OPCODE_FETCH_ADD, &b);
	b.ext.atomic.va = wqe->remote_addr;
	b.ext.atomic.rkey = wqe->rkey;
	b.ext.atomic.swap_add = cas ? wqe->swap : wqe->compare_add;
	b.ext.atomic.compare = cas ? wqe->compare_add : 0;
	b.follow = follow;
	rox_xmit(&b);
	wqe->sent = 1;
	qp->send.rd_atomic++;
	return 0;
}

/* ATOMIC WRITE: one packet like that of a WRITE, but for the opcode. */
static int rox_xmit_atomic_write(struct rox_qp *qp, struct rox_swqe *wqe, u32 index)
{
	struct rox_burst b;
	int err;

	err = rox_send_pages(qp, wqe, index, 0, wqe->length);
	if (err)
		return err;
	rox_burst_init(qp, &b, rox_wqe_psn(wqe));
	b.op_first = IB_OPCODE_RC_ATOMIC_WRITE;
	b.ackreq = true;
	b.ext.reth.va = wqe->remote_addr;
	b.ext.reth.rkey = wqe->rkey;
	b.ext.reth.len = wqe->length;
	err = rox_xmit_single(qp, wqe, index, &b);
	if (!err)
		qp->send.rd_atomic++;
	return err;
}

static int rox_xmit_datagram(struct rox_qp *qp, struct rox_swqe *wqe, u32 index, u32 follow)
{
	bool imm = wqe->opcode == IB_WR_SEND_WITH_IMM;
	struct rox_burst b;
	int err;

	err = rox_send_pages(qp, wqe, index, 0, wqe->length);
	if (err)
		return err;
	rox_burst_init(qp, &b, rox_wqe_psn(wqe));
	b.follow = follow;
	b.path = &wqe->ah->path;
	b.dqpn = wqe->remote_qpn;
	if (unlikely(qp->ibqp.qp_type == IB_QPT_GSI))
		b.pkey = rox_pkey_at(qp->dev, wqe->pkey_index);
	b.op_first = imm ? IB_OPCODE_UD_SEND_ONLY_WITH_IMMEDIATE : IB_OPCODE_UD_SEND_ONLY;
	b.solicited = wqe->flags & IB_SEND_SOLICITED;
	b.ext.deth.qkey = wqe->remote_qkey;
	b.ext.deth.sqpn = qp->ibqp.qp_num;
	b.ext.imm = wqe->imm;
	return rox_xmit_single(qp, wqe, index, &b);
}

/* @bursts: so many may follow in this run, this one included */
static int rox_xmit_wqe(struct rox_qp *qp, struct rox_swqe *wqe, u32 index, int bursts)
{
	u32 follow = rox_run_follow(qp, wqe, bursts);

	if (rox_is_ud(qp))
		return rox_xmit_datagram(qp, wqe, index, follow);
	if (rox_wqe_is_read(wqe))
		return rox_xmit_read(qp, wqe, index, follow);
	if (rox_wqe_is_atomic(wqe))
		return rox_xmit_atomic(qp, wqe, index, follow);
	if (unlikely(rox_wqe_is_atomic_write(wqe)))
		return rox_xmit_atomic_write(qp, wqe, index);
	return rox_xmit_message(qp, wqe, index,
				rox_is_rc(qp) ? rox_window_room(qp) : wqe->npkts, follow);
}

/* Packets of @wqe that lie behind una, and were sent: @most of them again. Return: how many. */
static u32 rox_resend_wqe(struct rox_qp *qp, struct rox_swqe *wqe, u32 index, u32 most)
{
	u32 from = max(rox_psn_diff(qp->send.una, wqe->first_psn), 0);
	u32 sent = wqe->sent, to = min(sent, from + most), again;

	wqe->sent = from;
	while (wqe->sent < to && !rox_xmit_message(qp, wqe, index, to - wqe->sent, 0))
		;
	again = wqe->sent - from;
	wqe->sent = sent;
	rox_qp_count_add(qp, ROX_CNT_RETRANS_PKTS, again);
	return again;
}

/* SENDs and WRITEs of which packets are out. */
static bool rox_wqe_resends(const struct rox_swqe *wqe)
{
	return !wqe->status && wqe->sent && !rox_wqe_is_answered(wqe) && !rox_wqe_is_local(wqe);
}

bool rox_can_resend(const struct rox_qp *qp)
{
	return qp->send.tail != qp->sq.index && qp->send.una != qp->send.psn &&
	       rox_wqe_resends(rox_swqe_at(qp, qp->send.tail));
}

u32 rox_resend(struct rox_qp *qp, u32 most)
{
	struct rox_send *send = &qp->send;
	struct rox_swqe *wqe;
	u32 i, again, n = 0;

	rox_send_iter_end(qp);
	for (i = send->tail; i != qp->sq.index && n < most; i++) {
		wqe = rox_swqe_at(qp, i);
		if (!rox_wqe_resends(wqe))
			break;
		again = rox_resend_wqe(qp, wqe, i, most - n);
		if (!again)
			break;
		n += again;
	}
	rox_send_iter_end(qp);
	return n;
}

/* ---- the loop ---- */

/* Accounts for what was sent of the current WQE and moves on when it is all out. */
static void rox_sent(struct rox_qp *qp, struct rox_swqe *wqe)
{
	struct rox_send *send = &qp->send;
	u32 psn = rox_wqe_psn(wqe);

	if (rox_psn_diff(send->psn, send->max_psn) < 0)
		rox_qp_count_add(qp, ROX_CNT_RETRANS_PKTS,
				 min(rox_psn_diff(psn, send->psn),
				     rox_psn_diff(send->max_psn, send->psn)));
	send->psn = psn;
	if (rox_psn_diff(psn, send->max_psn) > 0)
		send->max_psn = psn;
	if (wqe->sent < wqe->npkts)
		return;
	send->cur++;
	if (rox_is_rc(qp))
		return;
	/* Unreliable services are done when the packets are out. */
	send->una = psn;
	rox_retire_tail(qp);
}

/*
 * Is it pages on demand that a burst has stopped at? They may also have been taken
 * away since they were asked for: then they are asked for anew.
 */
static bool rox_xmit_waits(struct rox_qp *qp, int err)
{
	struct rox_side *side = &qp->send.side;

	if (err != -EAGAIN)
		return false;
	if (!rox_fault_busy(side)) {
		set_bit(ilog2(ROX_WORK_RUN), &side->pending);
		queue_work(rox_wq, &side->work);
	}
	return true;
}

/* Return: bursts that are left of the budget; 0 means that there may be more to send. */
static int rox_xmit_all(struct rox_qp *qp, int bursts)
{
	struct rox_send *send = &qp->send;
	struct rox_swqe *wqe;
	int err;

	while (bursts) {
		/* A peer without a wire has answered already. */
		if (rox_mail_take(qp) && !rox_can_send(qp))
			break;
		if (send->cur == qp->sq.index &&
		    (rox_qp_state(qp) != IB_QPS_RTS || !rox_wqe_pull(qp)))
			break;
		wqe = rox_swqe_at(qp, send->cur);
		if (wqe->status && send->cur == send->tail) {
			rox_retire_failed(qp);
			break;
		}
		if (unlikely(rox_wqe_is_local(wqe)) && !wqe->status) {
			if (!rox_local_run(qp, wqe))
				break;
			/* A program that posts as fast as they are done must not keep us here. */
			bursts--;
			continue;
		}
		if (!rox_may_send(qp, wqe)) {
			if (static_branch_unlikely(&rox_optional_key))
				rox_count_stall(qp, wqe);
			break;
		}
		/* No PSN is used for WQEs that failed; go on from this one's. */
		send->psn = rox_wqe_psn(wqe);
		err = rox_xmit_wqe(qp, wqe, send->cur, bursts);
		if (unlikely(err)) {
			if (rox_xmit_waits(qp, err))
				break;
			wqe->status = IB_WC_LOC_PROT_ERR;
			continue;
		}
		rox_sent(qp, wqe);
		bursts--;
	}
	rox_send_iter_end(qp);
	/* The answer to the last one: nobody else will look. */
	rox_mail_take(qp);
	return bursts;
}

/*
 * Is the program to ring the doorbell from now on? Not while somebody watches the
 * queue, or an ACK or the timer will run it again anyway. Return: true if there is
 * work after all.
 */
static bool rox_send_sleep(struct rox_qp *qp)
{
	struct rox_send *send = &qp->send;
	struct rox_ring_ctrl *ctrl = qp->sq.ctrl;
	int pending;

	if (!qp->sq.entries)
		return false;
	if (READ_ONCE(send->watch.watched) && rox_qp_state(qp) == IB_QPS_RTS) {
		if (READ_ONCE(ctrl->flags))
			WRITE_ONCE(ctrl->flags, 0);
		return false;
	}
	if (send->cur != qp->sq.index && send->psn != send->una && send->deadline)
		return false;
	WRITE_ONCE(ctrl->flags, ROX_RING_NEED_WAKEUP);
	/* The flag before the look at the producer; the program does it the other way round. */
	smp_mb();
	pending = rox_ring_pending(&qp->sq);
	if (pending <= 0 || send->cur != qp->sq.index || rox_qp_state(qp) == IB_QPS_SQD)
		return false;
	WRITE_ONCE(ctrl->flags, 0);
	return true;
}

/* Return: true if frames are left. */
static bool rox_send_frames(struct rox_qp *qp)
{
	struct sk_buff *skb = NULL;
	int n;

	rox_mail_take(qp);
	for (n = 0; n < ROX_RUN_FRAMES && rox_can_send(qp); n++) {
		skb = rox_side_next_frame(&qp->send.side);
		if (!skb)
			break;
		if (rox_is_rc(qp))
			rox_comp_frame(qp, skb);
		consume_skb(skb);
	}
	rox_send_iter_end(qp);
	return skb && !skb_queue_empty(&qp->send.side.rxq);
}

/* RTS and SQD. Return: true if the budget was used up. */
static bool rox_send_active(struct rox_qp *qp, unsigned long work)
{
	int bursts = ROX_RUN_BURSTS;
	bool more = rox_send_frames(qp);

	if ((work & ROX_WORK_TIMEOUT) && rox_can_send(qp))
		rox_retry_timeout(qp);
	if (unlikely(qp->send.recovery.due) && rox_can_send(qp))
		rox_recovery_send(qp);
	do {
		bursts = rox_xmit_all(qp, bursts);
		/* An error has announced the flush: it is the next run. */
		if (!rox_can_send(qp))
			return false;
		rox_retry_watch(qp);
		rox_qp_check_drained(qp);
	} while (bursts && rox_send_sleep(qp));
	return more || !bursts || qp->send.recovery.due;
}

static bool rox_send_work(struct rox_qp *qp, unsigned long work)
{
	if (rox_can_send(qp))
		return rox_send_active(qp, work);
	rox_side_purge(&qp->send.side);
	if (rox_qp_state(qp) != IB_QPS_ERR && rox_qp_state(qp) != IB_QPS_SQE)
		return false;
	rox_send_flush(qp);
	return rox_send_sleep(qp);
}

/*
 * rox_send_run() - the send side's work: frames, timer, new packets
 *
 * Return: true if the budget was used up.
 */
bool rox_send_run(struct rox_qp *qp, unsigned long work)
{
	bool more = rox_send_work(qp, work);

	rox_xmit_end();
	rox_kept_release(qp);
	return more;
}
