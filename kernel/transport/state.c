// SPDX-License-Identifier: GPL-2.0
/*
 * Life and state of a QP's transport. Transitions that a program asks for come
 * with both sides locked; those that an error makes come from either side.
 */
#include <linux/slab.h>
#include <linux/mm.h>
#include "internal.h"

/* ---- transitions by error ---- */

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
	/* The side that we are on finds its flag when this run ends. */
	rox_side_kick(&qp->send.side, ROX_WORK_RUN);
	rox_side_kick(&qp->recv.side, ROX_WORK_RUN);
}

void rox_qp_send_queue_error(struct rox_qp *qp)
{
	if (rox_state_change(qp, BIT(IB_QPS_RTS) | BIT(IB_QPS_SQD), IB_QPS_SQE))
		rox_side_kick(&qp->send.side, ROX_WORK_RUN);
}

/* Has every WQE that was begun been completed? */
static bool rox_send_idle(const struct rox_qp *qp)
{
	const struct rox_send *send = &qp->send;

	return send->tail == qp->sq.index ||
	       rox_psn_diff(rox_swqe_at(qp, send->tail)->first_psn, send->max_psn) >= 0;
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
 * Process context, sleeps; callers of one QP take turns.
 */
void rox_transport_lock(struct rox_qp *qp)
{
	rox_side_lock(&qp->send.side);
	rox_side_lock(&qp->recv.side);
}

/**
 * rox_transport_unlock() - lets the data path in, and runs what has come up
 * @qp: the QP
 */
void rox_transport_unlock(struct rox_qp *qp)
{
	rox_side_unlock(&qp->recv.side);
	rox_side_unlock(&qp->send.side);
}

static void rox_ring_reset(struct rox_ring *ring, u32 flags)
{
	ring->index = 0;
	if (!ring->entries)
		return;
	WRITE_ONCE(ring->ctrl->producer, 0);
	WRITE_ONCE(ring->ctrl->consumer, 0);
	WRITE_ONCE(ring->ctrl->flags, flags);
}

/* Kernel users post under these locks; a process that posts meanwhile harms itself. */
static void rox_reset_rings(struct rox_qp *qp)
{
	unsigned long flags;

	spin_lock_irqsave(&qp->sq_post_lock, flags);
	spin_lock(&qp->rq_post_lock);
	/* Nobody consumes yet: the first send rings the doorbell. */
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
	atomic64_set(&qp->send.mail, 0);
	/* The engine compares indices, which begin anew; it will join again. */
	WRITE_ONCE(qp->send.watch.watched, false);
	qp->send.side.fault.stale = true;
	qp->recv.side.fault.stale = true;
	rox_send_drop(qp);
	rox_recv_reset(qp);
	rox_reset_rings(qp);
}

static void rox_to_rts_first(struct rox_qp *qp)
{
	struct rox_send *send = &qp->send;

	send->next_psn = qp->attr.sq_psn & ROX_PSN_MASK;
	send->psn = send->next_psn;
	send->una = send->next_psn;
	send->max_psn = send->next_psn;
	send->asked = send->next_psn;
	send->nak_una = U32_MAX;
	send->window = rox_window_max(qp);
	rox_recovery_reset(qp);
	rox_retry_reset(qp);
}

/* SQE to RTS: what is left of a long queue must not be sent. */
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
 * @new_state: the state to go to, which may be the present one
 * @attr: as given to modify_qp
 * @mask: which of @attr are valid
 *
 * Flushing and sending are done by the data path, after rox_transport_unlock().
 */
void rox_transport_modify(struct rox_qp *qp, enum ib_qp_state new_state,
			  const struct ib_qp_attr *attr, int mask)
{
	enum ib_qp_state old = rox_qp_state(qp);
	unsigned long flags;

	if (new_state == IB_QPS_RESET)
		rox_to_reset(qp);
	else if (old == IB_QPS_INIT && new_state == IB_QPS_RTR)
		qp->recv.epsn = qp->attr.rq_psn & ROX_PSN_MASK;
	else if (old == IB_QPS_RTR && new_state == IB_QPS_RTS)
		rox_to_rts_first(qp);
	else if (old == IB_QPS_SQE && new_state == IB_QPS_RTS)
		rox_finish_flush(qp);
	else if (mask & (IB_QP_RETRY_CNT | IB_QP_RNR_RETRY | IB_QP_TIMEOUT))
		rox_retry_reset(qp);

	spin_lock_irqsave(&qp->state_lock, flags);
	/* The flush of a QP in SQE may have broken its CQ, and ended in ERR. */
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
 * rox_transport_alloc_answers() - room for the answers of READs and ATOMICs
 * @n: how many (max_dest_rd_atomic)
 *
 * Return: to be given to rox_transport_swap_answers(), and to kvfree(); NULL: no memory.
 */
struct rox_rd_res *rox_transport_alloc_answers(u32 n)
{
	return kvcalloc(max(n, 1U), sizeof(struct rox_rd_res), ROX_GFP_USER);
}

/**
 * rox_transport_swap_answers() - changes how many answers are kept
 * @qp: the QP, with rox_transport_lock() held
 * @res: room for @n
 * @n: how many, may be 0
 *
 * The newest ones stay, as far as there is room: their requests may be repeated.
 *
 * Return: the room that was used before, for the caller to free.
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
 * @qp: the QP; rings and caps are known
 *
 * Return: 0 or -ENOMEM.
 */
int rox_transport_init(struct rox_qp *qp)
{
	struct rox_send *send = &qp->send;

	rox_side_init(&send->side, qp, rox_send_run);
	rox_side_init(&qp->recv.side, qp, rox_recv_run);
	qp->recv.pd = qp->ibqp.pd;
	rox_timer_init(qp);
	if (qp->sq.entries) {
		send->stride = ALIGN(sizeof(struct rox_swqe) + qp->sq.stride -
				     sizeof(struct rox_send_wqe), 16);
		send->mask = qp->sq.entries - 1;
		send->wqes = kvcalloc(qp->sq.entries, send->stride, ROX_GFP_USER);
		if (!send->wqes)
			return -ENOMEM;
	}
	qp->recv.recv = kzalloc(sizeof(*qp->recv.recv),
				ROX_GFP_USER);
	if (!qp->recv.recv) {
		kvfree(send->wqes);
		return -ENOMEM;
	}
	rox_reset_rings(qp);
	return 0;
}

/**
 * rox_transport_destroy() - stops and frees both sides
 * @qp: the QP; nobody can find it any more and all references are gone
 */
void rox_transport_destroy(struct rox_qp *qp)
{
	unsigned long flags;

	rox_transport_lock(qp);
	rox_to_reset(qp);
	spin_lock_irqsave(&qp->state_lock, flags);
	WRITE_ONCE(qp->state, IB_QPS_RESET);
	spin_unlock_irqrestore(&qp->state_lock, flags);
	rox_transport_unlock(qp);
	/* In RESET nothing arms the timer; both may queue the work once more. */
	rox_engine_leave(qp);
	hrtimer_cancel(&qp->send.timer);
	cancel_work_sync(&qp->send.side.fault.work);
	cancel_work_sync(&qp->recv.side.fault.work);
	cancel_work_sync(&qp->send.side.work);
	cancel_work_sync(&qp->recv.side.work);
	kvfree(qp->send.wqes);
	kvfree(qp->recv.res);
	kfree(qp->recv.recv);
}
