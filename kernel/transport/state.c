// SPDX-License-Identifier: GPL-2.0
/*
 * Life and state of the transport of a QP. modify_qp makes transitions with both sides locked;
 * errors make them from either side.
 */
#include <linux/slab.h>
#include <linux/mm.h>
#include "internal.h"

/* ---- transitions by error ---- */

void rox_qp_event(struct rox_qp *qp, enum ib_event_type event)
{
	struct ib_event ev = {
		.device = qp->ibqp.device,
		.event = event,
		.element.qp = &qp->ibqp,
	};

	if (qp->ibqp.event_handler)
		qp->ibqp.event_handler(&ev, qp->ibqp.qp_context);
}

static bool rox_state_change(struct rox_qp *qp, u32 from_mask, enum ib_qp_state to)
{
	unsigned long flags;
	bool changed;

	spin_lock_irqsave(&qp->state_lock, flags);
	changed = BIT(qp->state) & from_mask;
	if (changed) {
		WRITE_ONCE(qp->state, to);
		qp->sq_draining = false;
	}
	spin_unlock_irqrestore(&qp->state_lock, flags);
	return changed;
}

void rox_qp_fail(struct rox_qp *qp, int event)
{
	u32 from = BIT(IB_QPS_INIT) | BIT(IB_QPS_RTR) | BIT(IB_QPS_RTS) | BIT(IB_QPS_SQD) |
		   BIT(IB_QPS_SQE);

	if (!rox_state_change(qp, from, IB_QPS_ERR))
		return;
	if (event >= 0)
		rox_qp_event(qp, event);
	/* The side that is running sees its pending bit when this run ends. */
	rox_side_kick(&qp->send.side, ROX_WORK_RUN);
	rox_side_kick(&qp->recv.side, ROX_WORK_RUN);
}

void rox_qp_send_queue_error(struct rox_qp *qp)
{
	if (rox_state_change(qp, BIT(IB_QPS_RTS) | BIT(IB_QPS_SQD), IB_QPS_SQE))
		rox_side_kick(&qp->send.side, ROX_WORK_RUN);
}

/* Have all WQEs that were started completed? */
static bool rox_send_idle(const struct rox_qp *qp)
{
	const struct rox_send *send = &qp->send;

	return send->tail == qp->sq.index || send->una == send->max_psn;
}

void rox_qp_check_drained(struct rox_qp *qp)
{
	bool event = false;
	unsigned long flags;

	if (rox_qp_state(qp) != IB_QPS_SQD || !rox_send_idle(qp))
		return;
	spin_lock_irqsave(&qp->state_lock, flags);
	if (qp->state == IB_QPS_SQD && qp->sq_draining) {
		qp->sq_draining = false;
		event = qp->sq_drained_event;
	}
	spin_unlock_irqrestore(&qp->state_lock, flags);
	if (event)
		rox_qp_event(qp, IB_EVENT_SQ_DRAINED);
}

/* ---- transitions by modify ---- */

/**
 * rox_transport_lock() - keeps the data path out of a QP
 * @qp: the QP
 *
 * Takes the locks of both sides. Process context, sleeps. The callers for one QP take turns.
 */
void rox_transport_lock(struct rox_qp *qp)
{
	rox_side_lock(&qp->send.side);
	rox_side_lock(&qp->recv.side);
}

/**
 * rox_transport_unlock() - lets the data path in, and runs the sides if they have pending work
 * @qp: the QP
 */
void rox_transport_unlock(struct rox_qp *qp)
{
	rox_side_unlock(&qp->recv.side);
	rox_side_unlock(&qp->send.side);
}

static void rox_ring_reset(struct rox_ring *ring, u32 flags)
{
	WRITE_ONCE(ring->index, 0);
	if (!ring->entries)
		return;
	WRITE_ONCE(ring->ctrl->producer, 0);
	WRITE_ONCE(ring->ctrl->consumer, 0);
	WRITE_ONCE(ring->ctrl->flags, flags);
}

/*
 * Kernel users post under these locks. A process that posts meanwhile corrupts only its own
 * rings.
 */
static void rox_reset_rings(struct rox_qp *qp)
{
	unsigned long flags;

	spin_lock_irqsave(&qp->sq_post_lock, flags);
	spin_lock(&qp->rq_post_lock);
	/* Nobody polls the queue, so the first send rings the doorbell. */
	rox_ring_reset(&qp->sq, ROX_RING_NEED_WAKEUP);
	rox_ring_reset(&qp->rq, 0);
	spin_unlock(&qp->rq_post_lock);
	spin_unlock_irqrestore(&qp->sq_post_lock, flags);
}

static void rox_recv_reset(struct rox_qp *qp)
{
	struct rox_resp *recv = &qp->recv;

	rox_recv_purge(qp);
	recv->kind = ROX_KIND_NONE;
	recv->have_recv = false;
	recv->comm_est = false;
	recv->nak_sent = false;
	recv->nak_due = false;
	recv->ack_due = false;
	recv->flushed = false;
	recv->read.active = false;
	recv->msn = 0;
	recv->res_head = 0;
	if (recv->res)
		memset(recv->res, 0, recv->num_res * sizeof(*recv->res));
}

static void rox_to_reset(struct rox_qp *qp)
{
	rox_side_purge(&qp->send.side);
	rox_early_purge(qp, &qp->send.early);
	atomic64_set(&qp->send.mail, 0);
	qp->send.answer = 0;
	/*
	 * The indices, which the engine compares, start at 0 again. The queue may join again
	 * later.
	 */
	WRITE_ONCE(qp->send.watch.watched, false);
	rox_fault_forget(&qp->send.side.pages);
	rox_fault_forget(&qp->recv.side.pages);
	rox_send_drop(qp);
	rox_kept_drop(qp);
	rox_recv_reset(qp);
	rox_reset_rings(qp);
}

/* A target QP of XRC may stay in RTR. */
static void rox_to_rtr(struct rox_qp *qp)
{
	rox_expect(qp, qp->attr.rq_psn & ROX_PSN_MASK);
	rox_cc_begin(qp);
}

static void rox_to_rts_first(struct rox_qp *qp)
{
	struct rox_send *send = &qp->send;

	WRITE_ONCE(send->next_psn, qp->attr.sq_psn & ROX_PSN_MASK);
	send->psn = send->next_psn;
	send->una = send->next_psn;
	send->max_psn = send->next_psn;
	send->asked = send->next_psn;
	send->nak_una = U32_MAX;
	rox_cc_begin(qp);
	rox_recovery_reset(qp);
	rox_holes_reset(qp);
	/* The timer may be set: the connection before may have ended in an RNR delay. */
	rox_timer_clear(qp);
	rox_retry_reset(qp);
}

/* SQE to RTS: completes the flush, so that no WQE of a long queue is sent. */
static void rox_finish_flush(struct rox_qp *qp)
{
	u32 i;

	for (i = 0; i <= qp->sq.entries / ROX_RUN_FLUSHES; i++) {
		local_bh_disable();
		rox_send_flush(qp);
		local_bh_enable();
	}
}

/**
 * rox_transport_modify() - carries out a transition that a program asked for
 * @qp: the QP, with rox_transport_lock() held and the new attributes in @qp->attr
 * @new_state: new state, which may be the current one
 * @attr: as given to modify_qp
 * @mask: valid attributes of @attr
 *
 * The data path sends, and flushes in ERR, after rox_transport_unlock().
 */
void rox_transport_modify(struct rox_qp *qp, enum ib_qp_state new_state,
			  const struct ib_qp_attr *attr, int mask)
{
	enum ib_qp_state old = rox_qp_state(qp);
	unsigned long flags;

	rox_side_assert_held(&qp->send.side);
	rox_side_assert_held(&qp->recv.side);
	if (new_state == IB_QPS_RESET)
		rox_to_reset(qp);
	else if (old == IB_QPS_INIT && new_state == IB_QPS_RTR)
		rox_to_rtr(qp);
	else if (old == IB_QPS_RTR && new_state == IB_QPS_RTS)
		rox_to_rts_first(qp);
	else if (old == IB_QPS_SQE && new_state == IB_QPS_RTS)
		rox_finish_flush(qp);
	else if (mask & (IB_QP_RETRY_CNT | IB_QP_RNR_RETRY | IB_QP_TIMEOUT))
		rox_retry_reset(qp);

	spin_lock_irqsave(&qp->state_lock, flags);
	/* The flush of a QP in SQE may have overflowed the CQ and moved the QP to ERR. */
	if (new_state != IB_QPS_RTS || qp->state != IB_QPS_ERR)
		WRITE_ONCE(qp->state, new_state);
	if (new_state == IB_QPS_SQD && old != IB_QPS_SQD) {
		qp->sq_draining = true;
		qp->sq_drained_event = (mask & IB_QP_EN_SQD_ASYNC_NOTIFY) &&
				       attr->en_sqd_async_notify;
	} else if (new_state != IB_QPS_SQD) {
		qp->sq_draining = false;
	}
	spin_unlock_irqrestore(&qp->state_lock, flags);
	set_bit(ilog2(ROX_WORK_RUN), &qp->send.side.pending);
	set_bit(ilog2(ROX_WORK_RUN), &qp->recv.side.pending);
}

/* ---- creation and destruction ---- */

/**
 * rox_transport_alloc_answers() - allocates room for the answers to duplicate READs and ATOMICs
 * @n: number of answers (max_dest_rd_atomic)
 *
 * Return: for rox_transport_swap_answers(), freed by kvfree(); NULL if there is no memory.
 */
struct rox_rd_res *rox_transport_alloc_answers(u32 n)
{
	return kvcalloc(max(n, 1U), sizeof(struct rox_rd_res), ROX_GFP_USER);
}

/**
 * rox_transport_swap_answers() - changes the number of answers that are stored
 * @qp: the QP, with rox_transport_lock() held
 * @res: room for @n
 * @n: number of answers, may be 0
 *
 * The newest answers stay, as far as there is room, because their requests may be repeated.
 *
 * Return: the former room, which the caller frees.
 */
struct rox_rd_res *rox_transport_swap_answers(struct rox_qp *qp, struct rox_rd_res *res, u32 n)
{
	struct rox_resp *recv = &qp->recv;
	struct rox_rd_res *old = recv->res;
	u32 keep = min(n, recv->num_res), i, from;

	for (i = 0; i < keep; i++) {
		from = recv->res_head + recv->num_res - keep + i;
		res[i] = old[from % recv->num_res];
	}
	recv->res = res;
	recv->num_res = n;
	recv->res_head = n ? keep % n : 0;
	return old;
}

/**
 * rox_transport_init() - sets up both sides of a new QP
 * @qp: the QP, with its rings and caps
 *
 * Process context, sleeps.
 * Return: 0 or -ENOMEM.
 */
int rox_transport_init(struct rox_qp *qp)
{
	struct rox_send *send = &qp->send;

	rox_side_init(&send->side, qp, rox_send_run);
	rox_side_init(&qp->recv.side, qp, rox_recv_run);
	qp->recv.pd = qp->ibqp.pd;
	rox_timer_init(qp);
	rox_kept_init(qp);
	if (rox_fault_init(&send->side.pages, rox_wq, rox_side_resume))
		return -ENOMEM;
	if (rox_fault_init(&qp->recv.side.pages, rox_wq, rox_side_resume))
		goto free_send_fault;
	if (qp->sq.entries) {
		send->stride = ALIGN(sizeof(struct rox_swqe) + qp->sq.stride -
				     sizeof(struct rox_send_wqe), 16);
		send->mask = qp->sq.entries - 1;
		send->wqes = kvcalloc(qp->sq.entries, send->stride, ROX_GFP_USER);
		if (!send->wqes)
			goto free_recv_fault;
	}
	rox_reset_rings(qp);
	return 0;

free_recv_fault:
	rox_fault_destroy(&qp->recv.side.pages);
free_send_fault:
	rox_fault_destroy(&send->side.pages);
	return -ENOMEM;
}

/**
 * rox_transport_destroy() - stops and frees both sides
 * @qp: the QP, after rox_qp_unpublish()
 *
 * Process context, sleeps.
 */
void rox_transport_destroy(struct rox_qp *qp)
{
	unsigned long flags;

	rox_transport_lock(qp);
	rox_to_reset(qp);
	spin_lock_irqsave(&qp->state_lock, flags);
	WRITE_ONCE(qp->state, IB_QPS_RESET);
	spin_unlock_irqrestore(&qp->state_lock, flags);
	rox_side_close(&qp->send.side);
	rox_side_close(&qp->recv.side);
	/*
	 * Only a run arms the timers or starts page faults, and no side runs after
	 * rox_side_close(). Timers and faults may queue the work items once more, so these are
	 * cancelled last.
	 */
	rox_engine_leave(qp);
	rox_late_stop(qp);
	hrtimer_cancel(&qp->send.timer);
	hrtimer_cancel(&qp->send.cc.pacer);
	rox_tx_forget(&qp->ep, &qp->send.side.sender);
	rox_tx_forget(&qp->ep, &qp->recv.side.sender);
	rox_fault_destroy(&qp->send.side.pages);
	rox_fault_destroy(&qp->recv.side.pages);
	rox_side_cancel(&qp->send.side);
	rox_side_cancel(&qp->recv.side);
	kvfree(qp->send.wqes);
	kvfree(qp->recv.res);
}
