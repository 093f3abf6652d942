// SPDX-License-Identifier: GPL-2.0
/*
 * Requester: takes send WQEs, splits them into bursts, and respects the window, the credits and
 * the limit on READs. IBTA volume 1, 9.7.3 (packet sequence), 9.7.7.2 (end-to-end credits),
 * 10.8.3.3 (fences).
 */
#include "internal.h"

/* Jobs that have tried to make all places of a READ present, before one is enough. */
#define ROX_PLACE_JOBS	4

/* ---- payload ---- */

struct rox_iter *rox_send_iter_new(struct rox_qp *qp, struct rox_swqe *wqe, u32 index, u32 offset)
{
	const struct rox_mem_user who = rox_own_memory(qp, qp->ibqp.pd);
	struct rox_send *send = &qp->send;

	rox_send_iter_end(qp);
	rox_iter_init(&send->iter, &who, wqe->sge, wqe->num_sge,
		      rox_wqe_fetches(wqe) ? IB_ACCESS_LOCAL_WRITE : 0);
	send->iter.keep = &send->kept.src;
	if (offset)
		rox_iter_seek(&send->iter, offset);
	send->iter_valid = true;
	send->iter_wqe = index;
	send->iter_off = offset;
	return &send->iter;
}

/*
 * Pages on demand must be present before a burst begins, because no burst is sent in part. The
 * places of a READ should be. If another thread takes them away as fast as they come, the first one
 * is enough: the READ is repeated from the first response that finds no place.
 */
static inline int rox_send_pages(struct rox_qp *qp, struct rox_swqe *wqe, u32 index, u32 offset,
				 u32 len)
{
	if (likely(!wqe->odp) || wqe->inl || !len)
		return 0;
	if (rox_wqe_fetches(wqe) && qp->send.side.pages.jobs >= ROX_PLACE_JOBS)
		len = 1;
	return rox_fault_ready(&qp->send.side.pages, rox_send_iter(qp, wqe, index, offset), len);
}

/* ---- what may be sent ---- */

/*
 * A SEND beyond the peer's credits is sent only when no packet is outstanding. Exceptions: a
 * partly acknowledged SEND already owns a receive; a started one continues while no ACK is
 * outstanding.
 */
static noinline bool rox_has_credit(const struct rox_qp *qp, const struct rox_swqe *wqe)
{
	const struct rox_send *send = &qp->send;

	if (rox_wqe_is_answered(wqe))
		return true;
	if (rox_psn_diff(wqe->ssn, send->lsn) <= 0 || send->una == send->psn)
		return true;
	return ((send->una - wqe->first_psn - 1) & ROX_PSN_MASK) < wqe->npkts ||
	       (wqe->sent && rox_psn_diff(send->asked, send->una) <= 0);
}

static inline bool rox_credit_ok(const struct rox_qp *qp, const struct rox_swqe *wqe)
{
	return wqe->opcode == IB_WR_RDMA_WRITE || !qp->send.credits_valid ||
	       rox_has_credit(qp, wqe);
}

/*
 * Was a packet of the WQE sent? A WQE of which some are acknowledged may end farther ahead than
 * PSNs can be compared.
 */
static bool rox_send_has_begun(const struct rox_send *send, const struct rox_swqe *wqe)
{
	return rox_psn_diff(wqe->first_psn, send->max_psn) < 0 ||
	       (send->una != send->max_psn && rox_psn_diff(wqe->first_psn, send->una) <= 0);
}

/* In SQD only WQEs that were started continue, also after a go-back. */
static bool rox_state_ok(const struct rox_qp *qp, const struct rox_swqe *wqe)
{
	switch (rox_qp_state(qp)) {
	case IB_QPS_RTS:
		return true;
	case IB_QPS_SQD:
		return rox_send_has_begun(&qp->send, wqe);
	default:
		return false;
	}
}

/* max_rd_atomic limits READs and ATOMICs. A WQE with a fence waits for them. */
static inline bool rox_reads_ok(const struct rox_qp *qp, const struct rox_swqe *wqe)
{
	const struct rox_send *send = &qp->send;

	/* If max_rd_atomic was changed to 0, WQEs that were copied before still run. */
	if (rox_wqe_is_answered(wqe) && send->rd_atomic >= max(qp->attr.max_rd_atomic, 1))
		return false;
	return wqe->sent || !(wqe->flags & IB_SEND_FENCE) || !send->rd_atomic;
}

static bool rox_may_begin(const struct rox_qp *qp, const struct rox_swqe *wqe)
{
	return !wqe->status && !rox_send_pauses(qp) && !qp->send.recovery.trial &&
	       rox_state_ok(qp, wqe);
}

/* Return: packets that may be sent, or that a READ may request. */
static __always_inline u32 rox_room(struct rox_qp *qp, const struct rox_swqe *wqe)
{
	return rox_wqe_is_read(wqe) ? rox_cc_read_room(qp) : rox_cc_room(qp);
}

static bool rox_may_send(struct rox_qp *qp, const struct rox_swqe *wqe)
{
	if (!rox_may_begin(qp, wqe))
		return false;
	if (rox_is_rc(qp) &&
	    !(rox_reads_ok(qp, wqe) && rox_room(qp, wqe) && rox_credit_ok(qp, wqe)))
		return false;
	if (likely(!qp->send.cc.active))
		return true;
	/* A new quota may make the window smaller: look again. */
	return rox_cc_may_send(qp) && (!rox_is_rc(qp) || rox_room(qp, wqe));
}

/* For the optional counters: counts why rox_may_send() said no. */
static noinline void rox_count_stall(struct rox_qp *qp, const struct rox_swqe *wqe)
{
	enum rox_counter why = ROX_CNT_STALL_CREDITS;

	if (!rox_may_begin(qp, wqe))
		return;
	if (!rox_reads_ok(qp, wqe))
		why = ROX_CNT_STALL_READS;
	else if (!rox_room(qp, wqe))
		why = ROX_CNT_STALL_WINDOW;
	else if (rox_credit_ok(qp, wqe))
		why = ROX_CNT_STALL_PACE;
	if (rox_optional(&qp->dev->stats, why))
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

/* The opcode of the last packet; @only: it is the only one. */
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
 * Return: how many messages of one packet, or requests of READs, may follow this one in the same
 * frame, with one ACK for all. @bursts is what the run may still send, with this one.
 */
static u32 rox_run_follow(struct rox_qp *qp, const struct rox_swqe *wqe, int bursts)
{
	u32 most = bursts - 1, pieces = 1, chunk;

	if (rox_wqe_is_read(wqe)) {
		chunk = rox_read_chunk_pkts(qp);
		pieces = DIV_ROUND_UP(wqe->npkts - wqe->sent, chunk);
		most = min(most, (rox_cc_read_room(qp) - 1) / min(wqe->npkts, chunk));
	} else if (wqe->npkts > 1) {
		return 0;
	} else if (rox_is_rc(qp)) {
		most = min(most, rox_cc_room(qp) - 1);
	}
	if (!most)
		return 0;
	return min_t(u32, most, pieces + qp->sq.index - qp->send.cur - 2 +
				max(rox_ring_pending(&qp->sq), 0));
}

/*
 * Does the last packet of @b ask for an ACK? Yes at the end of a message, after a go-back, if no
 * other ACK is due, and once for each ROX_BURST_BYTES of packets, or part of a smaller window.
 * If ACKs open the window in small steps, bursts are small, and an ACK for each of them would keep
 * them small. Also yes before a wait for the rate.
 */
static bool rox_burst_asks(const struct rox_qp *qp, const struct rox_swqe *wqe,
			   const struct rox_burst *b)
{
	const struct rox_send *send = &qp->send;

	if (!rox_is_rc(qp))
		return false;
	return wqe->sent + b->npkts == wqe->npkts || rox_psn_diff(b->psn, send->max_psn) < 0 ||
	       rox_psn_diff(send->asked, send->una) <= 0 ||
	       rox_psn_diff(b->psn, send->asked) + b->npkts >= send->cc.ask ||
	       rox_cc_will_wait(qp, b->len);
}

/* Fills in the fields that all bursts of the requester share, for a burst of one packet. */
static inline void rox_request_begin(struct rox_qp *qp, u32 psn, struct rox_burst *b)
{
	struct rox_send *send = &qp->send;

	rox_burst_init(qp, b, psn);
	b->idle = send->una == send->max_psn;
	b->resends = rox_is_rc(qp);
	b->sender = &send->side.sender;
	b->unbounded = send->resending;
}

int rox_xmit_message(struct rox_qp *qp, struct rox_swqe *wqe, u32 index, u32 most, u32 follow)
{
	u32 offset = wqe->sent * qp->mtu;
	struct rox_burst b = {};
	int err;

	rox_request_begin(qp, rox_wqe_psn(wqe), &b);
	b.npkts = min3(wqe->npkts - wqe->sent, ROX_BURST_BYTES / qp->mtu, most);
	b.len = min(wqe->length - offset, b.npkts * qp->mtu);
	b.ackreq = rox_burst_asks(qp, wqe, &b);
	b.follow = follow;
	b.joins = wqe->npkts > 1;
	b.more = follow && rox_is_rc(qp);
	err = rox_send_pages(qp, wqe, index, offset, b.len);
	if (err)
		return err;
	rox_burst_opcodes(qp, wqe, &b);
	rox_burst_payload(qp, wqe, index, offset, &b);
	/* Copying a long burst and computing its ICRCs takes longer than many a round trip. */
	if (b.ackreq && rox_cc_time(qp, b.psn, rox_psn_add(b.psn, b.npkts)) && b.npkts > 1)
		b.handed_at = &qp->send.cc.timed_at;
	err = rox_xmit(&b);
	qp->send.kept.unanswered = b.more;
	qp->send.iter_off += b.len;
	if (err) {
		rox_send_iter_end(qp);
		rox_cc_untime_from(qp, b.psn);
		return err;
	}
	rox_cc_charge(qp, b.len);
	if (b.ackreq)
		qp->send.asked = rox_psn_add(b.psn, b.npkts);
	rox_side_moved(&qp->send.side, b.len);
	wqe->sent += b.npkts;
	return 0;
}

/* Sends a message of one packet. */
static int rox_xmit_single(struct rox_qp *qp, struct rox_swqe *wqe, u32 index,
			   struct rox_burst *b)
{
	int err;

	b->len = wqe->length;
	rox_burst_payload(qp, wqe, index, 0, b);
	err = rox_xmit(b);
	rox_send_iter_end(qp);
	rox_side_moved(&qp->send.side, b->len);
	if (likely(!err))
		wqe->sent = 1;
	return err;
}

/* Fills in what READ and ATOMIC requests share; @opcode is without the service. */
static void rox_request_init(struct rox_qp *qp, const struct rox_swqe *wqe, u8 opcode,
			     struct rox_burst *b)
{
	rox_request_begin(qp, rox_wqe_psn(wqe), b);
	b->op_first = qp->service | opcode;
	b->ackreq = true;
	b->ext.xrc_srqn = wqe->xrc_srqn;
}

/*
 * Requests the rest of the READ piece that wqe->sent is in. Pieces begin at fixed offsets. So a
 * repeated request never covers two pieces, which are two messages for the responder.
 */
static int rox_xmit_read(struct rox_qp *qp, struct rox_swqe *wqe, u32 index, u32 follow)
{
	u32 chunk = rox_read_chunk_pkts(qp);
	u32 n = min(chunk - wqe->sent % chunk, wqe->npkts - wqe->sent);
	u32 offset = wqe->sent * qp->mtu;
	u32 len = min(wqe->length - offset, n * qp->mtu);
	struct rox_burst b = {};
	int err;

	err = rox_send_pages(qp, wqe, index, offset, len);
	if (err)
		return err;
	rox_request_init(qp, wqe, IB_OPCODE_RDMA_READ_REQUEST, &b);
	b.ext.reth.va = wqe->remote_addr + offset;
	b.ext.reth.rkey = wqe->rkey;
	b.ext.reth.len = len;
	b.follow = follow;
	/* The first response ends the round trip. */
	rox_cc_time(qp, b.psn, rox_psn_add(b.psn, 1));
	err = rox_xmit(&b);
	if (err) {
		rox_cc_untime_from(qp, b.psn);
		return err;
	}
	rox_cc_charge(qp, len);
	wqe->sent += n;
	qp->send.rd_atomic++;
	return 0;
}

static int rox_xmit_atomic(struct rox_qp *qp, struct rox_swqe *wqe, u32 index, u32 follow)
{
	bool cas = wqe->opcode == IB_WR_ATOMIC_CMP_AND_SWP;
	struct rox_burst b = {};
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
	err = rox_xmit(&b);
	if (err)
		return err;
	wqe->sent = 1;
	qp->send.rd_atomic++;
	return 0;
}

/* An ATOMIC WRITE is one packet like that of a WRITE, with another opcode. */
static int rox_xmit_atomic_write(struct rox_qp *qp, struct rox_swqe *wqe, u32 index)
{
	struct rox_burst b = {};
	int err;

	err = rox_send_pages(qp, wqe, index, 0, wqe->length);
	if (err)
		return err;
	rox_request_begin(qp, rox_wqe_psn(wqe), &b);
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

int rox_xmit_answered(struct rox_qp *qp, struct rox_swqe *wqe, u32 index, u32 follow)
{
	wqe->fetched = false;
	if (rox_wqe_is_read(wqe))
		return rox_xmit_read(qp, wqe, index, follow);
	if (rox_wqe_is_atomic(wqe))
		return rox_xmit_atomic(qp, wqe, index, follow);
	return rox_xmit_atomic_write(qp, wqe, index);
}

static int rox_xmit_datagram(struct rox_qp *qp, struct rox_swqe *wqe, u32 index, u32 follow)
{
	bool imm = wqe->opcode == IB_WR_SEND_WITH_IMM;
	struct rox_burst b = {};
	int err;

	err = rox_send_pages(qp, wqe, index, 0, wqe->length);
	if (err)
		return err;
	rox_request_begin(qp, rox_wqe_psn(wqe), &b);
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

/* @bursts: how many bursts this run may send, including this one */
static int rox_xmit_wqe(struct rox_qp *qp, struct rox_swqe *wqe, u32 index, int bursts)
{
	u32 follow = rox_run_follow(qp, wqe, bursts);
	u32 most;

	if (rox_is_ud(qp))
		return rox_xmit_datagram(qp, wqe, index, follow);
	if (rox_quick_send(qp, wqe, index, follow))
		return 0;
	if (rox_wqe_is_answered(wqe))
		return rox_xmit_answered(qp, wqe, index, follow);
	most = wqe->npkts - wqe->sent;
	if (rox_is_rc(qp))
		most = min(most, rox_cc_room(qp));
	return rox_xmit_message(qp, wqe, index, rox_cc_most(qp, most), follow);
}

/* ---- the loop ---- */

/* Accounts for the burst that was sent, and moves on to the next WQE at the end of a message. */
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
	/* Messages of unreliable services complete when they are sent. */
	send->una = psn;
	rox_retire_tail(qp);
}

/*
 * Has a burst stopped because the queues of this host are full, or because pages on demand are
 * missing? If no fault is under way, the pages were invalidated after they were fetched. The next
 * run then requests them again.
 */
static bool rox_xmit_waits(struct rox_qp *qp, int err)
{
	struct rox_side *side = &qp->send.side;

	if (err == -EBUSY) {
		rox_tx_wait(&qp->ep, &side->sender);
		return true;
	}
	if (err != -EAGAIN)
		return false;
	if (!rox_fault_busy(&side->pages))
		rox_side_again(side);
	return true;
}

/* Return: the WQE that is next, from the ring if need be; NULL if there is none now. */
static struct rox_swqe *rox_wqe_next(struct rox_qp *qp)
{
	struct rox_send *send = &qp->send;
	struct rox_swqe *wqe;

	/* A loopback peer may have acknowledged the last burst already. */
	if (rox_mail_take(qp) && !rox_can_send(qp))
		return NULL;
	if (send->cur == qp->sq.index && (rox_qp_state(qp) != IB_QPS_RTS || !rox_wqe_pull(qp)))
		return NULL;
	wqe = rox_swqe_at(qp, send->cur);
	if (wqe->status && send->cur == send->tail) {
		rox_retire_failed(qp);
		return NULL;
	}
	return wqe;
}

/* Return: what is left of the budget of bursts. 0: there may be more to send. */
static int rox_xmit_all(struct rox_qp *qp, int bursts)
{
	struct rox_send *send = &qp->send;
	struct rox_swqe *wqe;
	int err;

	while (bursts) {
		wqe = rox_wqe_next(qp);
		if (!wqe)
			break;
		if (unlikely(rox_wqe_is_local(wqe)) && !wqe->status) {
			if (!rox_local_run(qp, wqe))
				break;
			/*
			 * Counts against the budget, so that a program cannot keep us here by
			 * posting more of them.
			 */
			bursts--;
			continue;
		}
		if (!rox_may_send(qp, wqe)) {
			if (static_branch_unlikely(&rox_optional_key))
				rox_count_stall(qp, wqe);
			break;
		}
		if (!rox_side_has_room(&send->side)) {
			bursts = 0;
			break;
		}
		/* WQEs that failed were not sent: continue at the PSN of this one. */
		send->psn = rox_wqe_psn(wqe);
		err = rox_xmit_wqe(qp, wqe, send->cur, bursts);
		if (unlikely(err)) {
			if (rox_xmit_waits(qp, err))
				break;
			wqe->status = IB_WC_LOC_PROT_ERR;
			continue;
		}
		rox_sent(qp, wqe);
		if (unlikely(send->side.sender.refused)) {
			rox_send_refused(qp);
			break;
		}
		bursts--;
	}
	rox_send_iter_end(qp);
	/* The ACK for the last burst; no other run would look. */
	rox_mail_take(qp);
	return bursts;
}

/* Does an engine poll the queue? It sends, and the program need not ring. */
static bool rox_send_is_watched(const struct rox_qp *qp)
{
	return READ_ONCE(qp->send.watch.watched) && rox_qp_state(qp) == IB_QPS_RTS;
}

/*
 * Requests a doorbell for the next WQE, unless an engine polls the queue, or an ACK or the timer
 * will run the side anyway.
 * Return: true if a WQE was posted meanwhile, so that the run continues.
 */
static bool rox_send_sleep(struct rox_qp *qp)
{
	struct rox_send *send = &qp->send;
	struct rox_ring_ctrl *ctrl = qp->sq.ctrl;
	u32 asks = ROX_RING_NEED_WAKEUP;
	int pending;

	if (!qp->sq.entries)
		return false;
	if (rox_send_is_watched(qp) ||
	    (send->cur != qp->sq.index && send->psn != send->una && send->waits)) {
		if (READ_ONCE(ctrl->flags))
			WRITE_ONCE(ctrl->flags, 0);
		return false;
	}
	if (unlikely(READ_ONCE(send->late.on)))
		asks |= ROX_RING_WAKE_LATER;
	/* Only runs write the flags. If they are so, an earlier run did it, with the barrier. */
	if (READ_ONCE(ctrl->flags) != asks) {
		WRITE_ONCE(ctrl->flags, asks);
		/* Sets them before reading the producer index; the program does the reverse. */
		smp_mb();
	}
	pending = rox_ring_pending(&qp->sq);
	if (pending <= 0 || send->cur != qp->sq.index || rox_qp_state(qp) == IB_QPS_SQD)
		return false;
	WRITE_ONCE(ctrl->flags, 0);
	return true;
}

/*
 * Processes at least one frame, if there is one.
 * Return: true if frames are left.
 */
static bool rox_send_frames(struct rox_qp *qp)
{
	struct rox_side *side = &qp->send.side;
	struct sk_buff *skb = NULL;
	int n;

	rox_mail_take(qp);
	rox_comp_turn(qp);
	for (n = 0; n < ROX_RUN_FRAMES && rox_can_send(qp); n++) {
		if (n && !rox_side_has_room(side))
			break;
		skb = rox_side_next_frame(side);
		if (!skb)
			break;
		if (rox_is_rc(qp))
			rox_comp_frame(qp, skb);
		consume_skb(skb);
	}
	rox_send_iter_end(qp);
	return (skb && !skb_queue_empty_lockless(&side->rxq)) ||
	       (rox_can_send(qp) && rox_response_due(qp));
}

/*
 * While packets are still in a queue of this host, the peer cannot have answered them. Repeating
 * them would only make the queue longer. When the last one has left, its answer takes a round trip
 * from then on: rox_retry_watch() sets the timer anew.
 * Return: true if nothing is to be repeated yet.
 */
static bool rox_send_lingers(struct rox_qp *qp)
{
	struct rox_send *send = &qp->send;
	u64 now = ktime_get_ns();

	if ((send->waits != ROX_WAIT_ACK && send->waits != ROX_WAIT_PROBE) || now < send->deadline)
		return false;
	if (rox_tx_lingers(&qp->ep)) {
		rox_timer_set(qp, send->waits, now + (ROX_LINGER_NS << send->lingers));
		send->lingers = min(send->lingers + 1, ROX_LINGERS);
		return true;
	}
	if (!send->lingers)
		return false;
	send->lingers = 0;
	rox_timer_clear(qp);
	return true;
}

/*
 * Is there something to send, and an engine that does it? Softirqs leave it to the engine. What
 * they would send may bring the next softirq at once, and so on, until ksoftirqd takes the CPU of
 * the engine.
 */
static bool rox_send_is_engines(const struct rox_qp *qp)
{
	return in_serving_softirq() && rox_send_is_watched(qp) &&
	       (qp->send.cur != qp->sq.index || rox_ring_pending(&qp->sq) > 0);
}

/* In RTS and SQD. Return: true if the budget was used up. */
static bool rox_send_active(struct rox_qp *qp, unsigned long work)
{
	int bursts = ROX_RUN_BURSTS;
	bool more = rox_send_frames(qp);

	qp->send.run_max = qp->send.max_psn;
	if ((work & ROX_WORK_TIMEOUT) && rox_can_send(qp) && !rox_send_lingers(qp))
		rox_retry_timeout(qp);
	if (unlikely(work & ROX_WORK_CNP))
		rox_cc_cnp(qp);
	if (unlikely(qp->send.recovery.due) && rox_can_send(qp) &&
	    rox_side_has_room(&qp->send.side))
		rox_recovery_send(qp);
	if (rox_holes_busy(qp) && rox_can_send(qp))
		rox_holes_settle(qp);
	qp->send.cc.extra = rox_recovery_extra(qp);
	if (rox_send_is_engines(qp)) {
		rox_retry_watch(qp);
		return true;
	}
	do {
		bursts = rox_xmit_all(qp, bursts);
		/* After an error the next run flushes; it is pending already. */
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
	rox_early_purge(qp, &qp->send.early);
	if (rox_qp_state(qp) != IB_QPS_ERR && rox_qp_state(qp) != IB_QPS_SQE)
		return false;
	return rox_send_flush(qp) || rox_send_sleep(qp);
}

/*
 * Packets for this side came with the mark for congestion. The requester decides how fast READ
 * responses come, so it takes a mark on them for a CNP.
 */
static noinline void rox_send_marked(struct rox_qp *qp)
{
	bool reads = qp->send.cc.read_marked;

	if (!rox_cnp_answer(qp))
		return;
	qp->send.cc.read_marked = false;
	if (reads && rox_can_send(qp))
		rox_cc_cnp(qp);
}

/*
 * rox_send_run() - runs the send side: received frames, timer, new packets
 *
 * Return: true if the budget was used up.
 */
bool rox_send_run(struct rox_qp *qp, unsigned long work)
{
	bool more = rox_send_work(qp, work);

	rox_xmit_end();
	if (unlikely(READ_ONCE(qp->ep.marked)))
		rox_send_marked(qp);
	if (unlikely(READ_ONCE(qp->ep.uncut)))
		rox_uncut_tell(qp);
	if (unlikely(qp->send.side.sender.refused)) {
		rox_send_refused(qp);
		more = false;
	}
	rox_kept_settle(qp);
	return more;
}
