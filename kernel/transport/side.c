// SPDX-License-Identifier: GPL-2.0
/*
 * The two sides of a QP: who runs them, and when.
 */
#include <linux/delay.h>
#include <linux/interrupt.h>
#include "internal.h"

/* Runs in a row of a side that always finds something new, before its caller gets the CPU back. */
#define ROX_AGAIN_RUNS 8

/* Runs of sides that have waited for another one's end, before the rest is left to a worker. */
#define ROX_LATER_RUNS 8

/**
 * struct rox_cpu - what a CPU is at; with bottom halves disabled
 * @depth: sides that are being run, one from within the other
 * @first: sides that are to be run when the outermost run has ended
 * @last: the last of them
 */
struct rox_cpu {
	unsigned int depth;
	struct rox_side *first;
	struct rox_side *last;
};

static DEFINE_PER_CPU(struct rox_cpu, rox_cpus);

/* Runs in the caller's context before the rest is left to a worker. */
#define ROX_CALLER_RUNS 4

static void rox_side_defer(struct rox_side *side)
{
	if (rox_optional(side->qp->dev, ROX_CNT_DEFERRED)) {
		rcu_read_lock();
		rox_qp_count(side->qp, ROX_CNT_DEFERRED);
		rcu_read_unlock();
	}
	queue_work(rox_wq, &side->work);
}

static bool rox_side_trylock(struct rox_side *side)
{
	return !atomic_read(&side->parked) && !test_and_set_bit_lock(0, &side->busy);
}

/*
 * Runs the side until nothing is announced, unless another context has it: that
 * one will see what was announced before. Each run's packets may bring answers,
 * and each answer new work: there is an end to that, too, as bottom halves are
 * disabled. Return: true if the budget was used up and somebody must call again.
 */
static bool rox_side_run(struct rox_side *side)
{
	unsigned long work;
	bool more;
	int runs;

	for (runs = 0; runs < ROX_AGAIN_RUNS; runs++) {
		if (!rox_side_trylock(side))
			return false;
		work = xchg(&side->pending, 0);
		more = work && side->run(side->qp, work);
		if (more)
			set_bit(ilog2(ROX_WORK_RUN), &side->pending);
		clear_bit_unlock(0, &side->busy);
		if (more)
			return true;
		/* Whoever failed to get the lock had set a bit before it tried. */
		smp_mb();
		if (!READ_ONCE(side->pending))
			return false;
	}
	return true;
}

/*
 * Has a side run when what runs now has ended: its work came up in the run of
 * another one, and may lead back to that. A QP that is being destroyed has nobody
 * who could hold it; there, destroy waits for the worker.
 */
static void rox_side_later(struct rox_side *side)
{
	struct rox_cpu *cpu = this_cpu_ptr(&rox_cpus);

	if (test_and_set_bit(0, &side->queued))
		return;
	if (!refcount_inc_not_zero(&side->qp->slot->ref)) {
		clear_bit(0, &side->queued);
		rox_side_defer(side);
		return;
	}
	side->next = NULL;
	if (cpu->first)
		cpu->last->next = side;
	else
		cpu->first = side;
	cpu->last = side;
}

static bool rox_side_run_here(struct rox_side *side)
{
	bool more;

	this_cpu_inc(rox_cpus.depth);
	more = rox_side_run(side);
	this_cpu_dec(rox_cpus.depth);
	return more;
}

/* After the outermost run. */
static void rox_side_run_later(void)
{
	struct rox_cpu *cpu = this_cpu_ptr(&rox_cpus);
	int budget = ROX_LATER_RUNS;
	struct rox_side *side;
	struct rox_qp *qp;

	while ((side = cpu->first)) {
		qp = side->qp;
		cpu->first = side->next;
		clear_bit(0, &side->queued);
		/* The bit before the look at what is announced. */
		smp_mb__after_atomic();
		if (!budget)
			rox_side_defer(side);
		else if (budget-- && rox_side_run_here(side))
			rox_side_later(side);
		rox_qp_put(qp);
	}
}

void rox_side_announce(struct rox_side *side, unsigned long work)
{
	set_bit(ilog2(work), &side->pending);
	/* The bit before the attempt to get the lock. */
	smp_mb__after_atomic();
}

bool rox_side_turn(struct rox_side *side)
{
	bool more;

	local_bh_disable();
	more = rox_side_run_here(side);
	rox_side_run_later();
	local_bh_enable();
	return more;
}

static void rox_side_work(struct work_struct *work)
{
	struct rox_side *side = container_of(work, struct rox_side, work);

	if (rox_side_turn(side))
		rox_side_defer(side);
}

void rox_side_init(struct rox_side *side, struct rox_qp *qp,
		   bool (*run)(struct rox_qp *qp, unsigned long work))
{
	side->busy = 0;
	atomic_set(&side->parked, 0);
	skb_queue_head_init(&side->rxq);
	side->rxq_bytes = 0;
	INIT_WORK(&side->work, rox_side_work);
	side->qp = qp;
	side->run = run;
	side->queued = 0;
	rox_fault_init(side);
}

void rox_side_kick(struct rox_side *side, unsigned long work)
{
	rox_side_announce(side, work);
	if (this_cpu_read(rox_cpus.depth)) {
		/* If it is running, here or elsewhere, that run will see it. */
		if (!test_bit(0, &side->busy))
			rox_side_later(side);
		return;
	}
	if (rox_side_run_here(side))
		rox_side_defer(side);
	rox_side_run_later();
}

void rox_side_kick_fairly(struct rox_side *side, unsigned long work)
{
	rox_side_announce(side, work);
	queue_work(rox_retry_wq, &side->work);
}

bool rox_side_try(struct rox_side *side)
{
	if (!rox_side_trylock(side))
		return false;
	this_cpu_inc(rox_cpus.depth);
	return true;
}

void rox_side_release(struct rox_side *side)
{
	this_cpu_dec(rox_cpus.depth);
	clear_bit_unlock(0, &side->busy);
	/* Whoever failed to get the lock had set a bit before it tried. */
	smp_mb__after_atomic();
	if (READ_ONCE(side->pending))
		rox_side_later(side);
}

/*
 * rox_side_lock() - takes a side from the data path
 *
 * Process context, may sleep; the side runs again after rox_side_unlock().
 * Nobody holds a side longer than a run, with bottom halves disabled.
 */
void rox_side_lock(struct rox_side *side)
{
	atomic_inc(&side->parked);
	while (test_and_set_bit_lock(0, &side->busy))
		usleep_range(10, 50);
}

void rox_side_unlock(struct rox_side *side)
{
	atomic_dec(&side->parked);
	clear_bit_unlock(0, &side->busy);
	/* Whoever found the side parked had announced its work before. */
	smp_mb__after_atomic();
	if (!READ_ONCE(side->pending))
		return;
	local_bh_disable();
	rox_side_kick(side, ROX_WORK_RUN);
	local_bh_enable();
}

/*
 * In process context the caller goes on as long as there is something to send,
 * and between two runs lets the softirqs in that its own packets raised: they
 * drain the backlog of a veth or lo before it overflows.
 */
void rox_side_doorbell(struct rox_side *side)
{
	bool yields = !in_softirq();
	int runs = 0;
	bool more;

	rox_side_announce(side, ROX_WORK_RUN);
	if (irqs_disabled()) {
		rox_side_defer(side);
		return;
	}
	if (in_softirq() && this_cpu_read(rox_cpus.depth)) {
		rox_side_kick(side, ROX_WORK_RUN);
		return;
	}
	do {
		more = rox_side_turn(side);
	} while (more && yields && ++runs < ROX_CALLER_RUNS);
	if (more)
		rox_side_defer(side);
}

/**
 * rox_send_doorbell() - the send ring may have new WQEs
 * @qp: the QP
 *
 * Sends in the caller's context where that is allowed. Any context.
 */
void rox_send_doorbell(struct rox_qp *qp)
{
	u64 begin = qp->user ? rox_engine_clock() : 0;

	rcu_read_lock();
	rox_qp_count(qp, ROX_CNT_DOORBELLS);
	rcu_read_unlock();
	rox_side_doorbell(&qp->send.side);
	if (qp->user)
		rox_engine_rung(qp, begin);
}

/**
 * rox_recv_doorbell() - the receive ring of a QP in ERR may have new WQEs to flush
 * @qp: the QP
 */
void rox_recv_doorbell(struct rox_qp *qp)
{
	rox_side_doorbell(&qp->recv.side);
}

/*
 * A side that waits for pages may do so as long as the process likes whose memory it is:
 * what is kept for it meanwhile is not much.
 */
static bool rox_side_queue(struct rox_side *side, struct sk_buff *skb)
{
	unsigned long flags;
	bool room;

	spin_lock_irqsave(&side->rxq.lock, flags);
	room = skb_queue_len(&side->rxq) < ROX_MAX_RXQ && side->rxq_bytes < ROX_MAX_RXQ_BYTES;
	if (room) {
		side->rxq_bytes += skb->truesize;
		__skb_queue_tail(&side->rxq, skb);
	}
	spin_unlock_irqrestore(&side->rxq.lock, flags);
	return room;
}

/*
 * rox_side_next_frame() - takes the oldest of the frames that wait; NULL if there is none
 */
struct sk_buff *rox_side_next_frame(struct rox_side *side)
{
	struct sk_buff *skb;
	unsigned long flags;

	if (skb_queue_empty_lockless(&side->rxq))
		return NULL;
	spin_lock_irqsave(&side->rxq.lock, flags);
	skb = __skb_dequeue(&side->rxq);
	if (skb)
		side->rxq_bytes -= skb->truesize;
	spin_unlock_irqrestore(&side->rxq.lock, flags);
	return skb;
}

void rox_side_put_back(struct rox_side *side, struct sk_buff *skb)
{
	unsigned long flags;

	spin_lock_irqsave(&side->rxq.lock, flags);
	side->rxq_bytes += skb->truesize;
	__skb_queue_head(&side->rxq, skb);
	spin_unlock_irqrestore(&side->rxq.lock, flags);
}

void rox_side_purge(struct rox_side *side)
{
	struct sk_buff *skb;

	while ((skb = rox_side_next_frame(side)))
		kfree_skb(skb);
}

/**
 * rox_transport_rx() - gives a received frame to a QP
 * @qp: the QP; the caller holds a reference
 * @skb: frame, all packets of which are for @qp and for one side; taken over
 * @request: for the responder, else for the requester
 */
void rox_transport_rx(struct rox_qp *qp, struct sk_buff *skb, bool request)
{
	struct rox_side *side = request ? &qp->recv.side : &qp->send.side;

	rox_qp_count(qp, ROX_CNT_RX_BURSTS);
	if (!rox_side_queue(side, skb)) {
		rox_qp_count(qp, ROX_CNT_RX_DROP);
		kfree_skb(skb);
		return;
	}
	rox_side_kick(side, ROX_WORK_RUN);
}

void rox_transport_hold(void)
{
	this_cpu_inc(rox_cpus.depth);
}

void rox_transport_unhold(void)
{
	if (!this_cpu_dec_return(rox_cpus.depth))
		rox_side_run_later();
}
