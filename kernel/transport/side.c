// SPDX-License-Identifier: GPL-2.0
/*
 * The two sides of a QP: who runs them, and when.
 */
#include <linux/interrupt.h>
#include <linux/kernel_stat.h>
#include <linux/spinlock.h>
#include <linux/wait_bit.h>
#include "internal.h"

/* Runs of a side in a row before its caller gets the CPU back. */
#define ROX_AGAIN_RUNS 8

/* Sides of the list that are run after the outermost run; workers run the rest. */
#define ROX_LATER_RUNS 8

/* Turns in the context of a doorbell before the rest is left to a worker. */
#define ROX_CALLER_RUNS 4

/**
 * struct rox_cpu - runs of sides on a CPU; accessed with bottom halves disabled
 * @lock: PREEMPT_RT: taken by @owner; see rox_cpu_enter()
 * @owner: PREEMPT_RT: the task that runs sides
 * @depth: number of nested runs
 * @first: list of sides to run when the outermost run has ended
 * @last: end of that list
 * @softirq: the softirq that @left is for; see rox_softirq_number()
 * @left: bytes of payload that sides may still move in that softirq
 */
struct rox_cpu {
	spinlock_t lock;	/* see above */
	struct task_struct *owner;
	unsigned int depth;
	struct rox_side *first;
	struct rox_side *last;
	unsigned int softirq;
	u32 left;
};

static DEFINE_PER_CPU(struct rox_cpu, rox_cpus) = {
	.lock = __SPIN_LOCK_UNLOCKED(rox_cpus.lock),
};

struct workqueue_struct *rox_wq;
/* For sides whose requests are repeated after RNR NAKs. It has few workers, of normal priority. */
static struct workqueue_struct *rox_retry_wq;

/* ---- the outermost run of a CPU ---- */

/* Is this context within a run of a side? */
static bool rox_cpu_nested(const struct rox_cpu *cpu)
{
	if (IS_ENABLED(CONFIG_PREEMPT_RT) && READ_ONCE(cpu->owner) != current)
		return false;
	return cpu->depth;
}

/*
 * Begins the outermost run. The state of a CPU during runs (struct rox_cpu, the pages and the
 * open frame of net/) must have one user at a time. Disabled bottom halves ensure that, except on
 * PREEMPT_RT, where the run takes a lock. A context that has locks of others, a qdisc's for
 * instance, must not wait for that lock, because the run may need them. So only workers wait;
 * they have no other locks.
 * Return: false if another task is in a run.
 */
static bool rox_cpu_enter(struct rox_cpu *cpu, bool wait)
{
	if (IS_ENABLED(CONFIG_PREEMPT_RT)) {
		if (wait)
			spin_lock(&cpu->lock);
		else if (!spin_trylock(&cpu->lock))
			return false;
		WRITE_ONCE(cpu->owner, current);
	}
	cpu->depth++;
	return true;
}

/* Ends the outermost run. After it no run uses pages on demand. */
static void rox_cpu_leave(struct rox_cpu *cpu)
{
	cpu->depth--;
	rox_odp_done();
	if (IS_ENABLED(CONFIG_PREEMPT_RT)) {
		WRITE_ONCE(cpu->owner, NULL);
		spin_unlock(&cpu->lock);
	}
}

/* ---- how much is moved in a softirq ---- */

unsigned int rox_softirq_number(void)
{
	unsigned int vector, sum = 0;

	for (vector = 0; vector < NR_SOFTIRQS; vector++)
		sum += kstat_softirqs_cpu(vector, smp_processor_id());
	return sum;
}

/*
 * Return: bytes that a side may move before its caller gets the CPU back. Softirqs check the time
 * only between two handlers, and no task gets the CPU meanwhile. One frame may ask for megabytes,
 * and one poll of a netdev may bring frames for many QPs. So there is one limit for each side and
 * one for all sides in a softirq. Outside of softirqs there is no limit.
 */
static u32 rox_cpu_room(struct rox_cpu *cpu)
{
	unsigned int softirq;

	if (!in_serving_softirq())
		return U32_MAX;
	softirq = rox_softirq_number();
	if (cpu->softirq != softirq) {
		cpu->softirq = softirq;
		cpu->left = ROX_SOFTIRQ_BYTES;
	}
	return min(cpu->left, ROX_SOFTIRQ_SIDE_BYTES);
}

static void rox_cpu_moved(struct rox_cpu *cpu, u32 bytes)
{
	if (in_serving_softirq())
		cpu->left -= min(bytes, cpu->left);
}

/* ---- the busy bit ---- */

static bool rox_side_trylock(struct rox_side *side)
{
	if (atomic_read(&side->parked) || test_and_set_bit_lock(0, &side->busy))
		return false;
	mutex_acquire(&side->dep_map, 0, 1, _RET_IP_);
	side->room = U32_MAX;
	return true;
}

/* Gives the lock back. Return: true if there is pending work. */
static bool rox_side_unbusy(struct rox_side *side)
{
	mutex_release(&side->dep_map, _RET_IP_);
	clear_bit_unlock(0, &side->busy);
	/*
	 * The barrier pairs with that of a context that failed to get the lock: it had set a
	 * pending bit before it tried, and one that waits had raised @parked.
	 */
	smp_mb__after_atomic();
	if (unlikely(atomic_read(&side->parked)))
		wake_up_bit(&side->busy, 0);
	return READ_ONCE(side->pending);
}

/*
 * rox_side_lock() - takes the lock of a side from the data path
 *
 * Process context, may sleep; the side runs again after rox_side_unlock(). The data path keeps
 * the lock for one run at most, with bottom halves disabled.
 */
void rox_side_lock(struct rox_side *side)
{
	might_sleep();
	mutex_acquire(&side->dep_map, 0, 0, _RET_IP_);
	atomic_inc(&side->parked);
	/* @parked is raised before the lock bit is read. */
	smp_mb__after_atomic();
	wait_on_bit_lock(&side->busy, 0, TASK_UNINTERRUPTIBLE);
	side->room = U32_MAX;
}

void rox_side_unlock(struct rox_side *side)
{
	atomic_dec(&side->parked);
	if (!rox_side_unbusy(side))
		return;
	local_bh_disable();
	rox_side_kick(side, ROX_WORK_RUN);
	local_bh_enable();
}

void rox_side_close(struct rox_side *side)
{
	mutex_release(&side->dep_map, _RET_IP_);
}

/* ---- runs ---- */

void rox_side_announce(struct rox_side *side, unsigned long work)
{
	/* Whoever takes the bit sees what it is for: the caller's post or frame, for instance. */
	smp_mb__before_atomic();
	set_bit(ilog2(work), &side->pending);
	/* The bit is set before the caller tries to take the lock. */
	smp_mb__after_atomic();
}

void rox_side_defer(struct rox_side *side)
{
	/* Pairs with the barrier of rox_watch_end(): the engine's last run sees the pending bit. */
	if (side == &side->qp->send.side && READ_ONCE(side->qp->send.watch.watched))
		return;
	if (rox_optional(&side->qp->dev->stats, ROX_CNT_DEFERRED)) {
		rcu_read_lock();
		rox_qp_count(side->qp, ROX_CNT_DEFERRED);
		rcu_read_unlock();
	}
	queue_work(rox_wq, &side->work);
}

/*
 * Takes the lock of the side for the caller's work @news, which is not pending, or is 0. If another
 * context has the lock, @news becomes pending, and that context sees it before it leaves. If it
 * left just before that, the second try succeeds.
 */
static bool rox_side_take(struct rox_side *side, unsigned long news)
{
	if (likely(rox_side_trylock(side)))
		return true;
	if (!news)
		return false;
	rox_side_announce(side, news);
	return rox_side_trylock(side);
}

/* Return: the pending work, which is not pending any more. With the lock. */
static unsigned long rox_side_work_of(struct rox_side *side)
{
	return READ_ONCE(side->pending) ? xchg(&side->pending, 0) : 0;
}

/*
 * Does the work @news, which need not be pending, and what is pending, unless another context has
 * the lock: that one does it. The packets of a run may bring ACKs at once, and those new work.
 * Bottom halves are disabled, so the number of runs is limited. All runs together move @room bytes
 * at most, plus what one frame brings.
 * Return: true if a budget was used up, so that somebody must call again.
 */
static bool rox_side_run(struct rox_side *side, struct rox_cpu *cpu, u32 room, unsigned long news)
{
	unsigned long work;
	u32 before;
	bool more;
	int runs;

	for (runs = 0; runs < ROX_AGAIN_RUNS; runs++) {
		if (!rox_side_take(side, news))
			return false;
		side->room = room;
		work = news | rox_side_work_of(side);
		news = 0;
		more = work && side->run(side->qp, work);
		before = room;
		room = side->room;
		rox_cpu_moved(cpu, before - room);
		if (more)
			set_bit(ilog2(ROX_WORK_RUN), &side->pending);
		if (!rox_side_unbusy(side))
			return false;
		if (more)
			return true;
	}
	return true;
}

/*
 * Queues a side to be run after the outermost run. Its work arose in the run of another side and
 * may lead back to that side. A QP that is being destroyed has no references to take; a worker
 * runs its side, and destroy_qp waits for the worker.
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

/* Runs the sides of the list at the end of the outermost run. */
static void rox_side_run_later(struct rox_cpu *cpu)
{
	int budget = ROX_LATER_RUNS;
	struct rox_side *side;
	struct rox_qp *qp;

	while ((side = cpu->first)) {
		qp = side->qp;
		cpu->first = side->next;
		clear_bit(0, &side->queued);
		/* The bit is cleared before the pending work is read. */
		smp_mb__after_atomic();
		if (!budget)
			rox_side_defer(side);
		else if (!rox_side_run(side, cpu, rox_cpu_room(cpu), 0))
			budget--;
		else if (budget-- && !in_serving_softirq())
			rox_side_later(side);
		else
			rox_side_defer(side);
		rox_qp_put(qp);
	}
}

/*
 * Runs the side, nested in the current run of the CPU or as the outermost run. @news: see
 * rox_side_run().
 * Return: true if there is more to do, or if @wait is false and another task is in a run. Then
 * @news is pending.
 */
static bool rox_side_run_here(struct rox_side *side, u32 most, bool wait, unsigned long news)
{
	struct rox_cpu *cpu = this_cpu_ptr(&rox_cpus);
	bool nested = rox_cpu_nested(cpu), more;

	if (nested) {
		cpu->depth++;
	} else if (!rox_cpu_enter(cpu, wait)) {
		if (news)
			rox_side_announce(side, news);
		return true;
	}
	more = rox_side_run(side, cpu, min(most, rox_cpu_room(cpu)), news);
	if (nested) {
		cpu->depth--;
	} else {
		rox_side_run_later(cpu);
		rox_cpu_leave(cpu);
	}
	return more;
}

/* As rox_side_turn(), with work that is not pending. */
static bool rox_side_turn_for(struct rox_side *side, unsigned long news)
{
	bool more;

	local_bh_disable();
	more = rox_side_run_here(side, U32_MAX, false, news);
	local_bh_enable();
	return more;
}

bool rox_side_turn(struct rox_side *side)
{
	return rox_side_turn_for(side, 0);
}

/* Runs the side in a worker, which may wait for another run on this CPU to end. */
static bool rox_side_worker_turn(struct rox_side *side, u32 most)
{
	bool more;

	local_bh_disable();
	more = rox_side_run_here(side, most, true, 0);
	local_bh_enable();
	return more;
}

static void rox_side_work(struct work_struct *work)
{
	struct rox_side *side = container_of(work, struct rox_side, work);

	if (rox_side_worker_turn(side, U32_MAX))
		rox_side_defer(side);
}

/* Moves a limited number of bytes, then lets the other sides of the queue run. */
static void rox_side_fair_work(struct work_struct *work)
{
	struct rox_side *side = container_of(work, struct rox_side, fair);

	if (rox_side_worker_turn(side, ROX_FAIR_BYTES))
		queue_work(rox_retry_wq, &side->fair);
}

void rox_side_resume(struct rox_page_wait *pages)
{
	rox_side_kick(container_of(pages, struct rox_side, pages), ROX_WORK_RUN);
}

void rox_side_init(struct rox_side *side, struct rox_qp *qp,
		   bool (*run)(struct rox_qp *qp, unsigned long work))
{
	static struct lock_class_key send_key, recv_key;
	bool send = side == &qp->send.side;

	side->busy = 0;
	lockdep_init_map(&side->dep_map, send ? "rox_send_side" : "rox_recv_side",
			 send ? &send_key : &recv_key, 0);
	atomic_set(&side->parked, 0);
	skb_queue_head_init(&side->rxq);
	side->rxq_bytes = 0;
	side->room = U32_MAX;
	INIT_WORK(&side->work, rox_side_work);
	INIT_WORK(&side->fair, rox_side_fair_work);
	side->qp = qp;
	side->run = run;
	side->queued = 0;
	side->listed = 0;
	rox_sender_init(&side->sender);
}

/**
 * rox_sides_init() - makes the workers that run sides; at module load
 *
 * The queues are unbound, so that a burst does not wait for a busy CPU. rox_retry_wq has at most as
 * many workers as there are CPUs, because they take CPU time from the tasks that have to post
 * receives.
 *
 * Return: 0 or -ENOMEM.
 */
int rox_sides_init(void)
{
	rox_wq = alloc_workqueue("rox", WQ_UNBOUND | WQ_HIGHPRI | WQ_MEM_RECLAIM | WQ_SYSFS, 0);
	if (!rox_wq)
		return -ENOMEM;
	rox_retry_wq = alloc_workqueue("rox_retry", WQ_UNBOUND | WQ_MEM_RECLAIM | WQ_SYSFS,
				       num_possible_cpus());
	if (!rox_retry_wq) {
		destroy_workqueue(rox_wq);
		return -ENOMEM;
	}
	rox_soon_init();
	return 0;
}

void rox_sides_exit(void)
{
	rox_soon_exit();
	destroy_workqueue(rox_retry_wq);
	destroy_workqueue(rox_wq);
}

void rox_side_cancel(struct rox_side *side)
{
	cancel_work_sync(&side->fair);
	cancel_work_sync(&side->work);
}

void rox_side_kick(struct rox_side *side, unsigned long work)
{
	if (rox_cpu_nested(this_cpu_ptr(&rox_cpus))) {
		rox_side_announce(side, work);
		/* If the side is running, here or elsewhere, that run sees the work. */
		if (!test_bit(0, &side->busy))
			rox_side_later(side);
		return;
	}
	if (rox_side_run_here(side, U32_MAX, false, work))
		rox_side_defer(side);
}

/* Runs nothing itself: the caller has a lock. */
void rox_side_kick_fairly(struct rox_side *side, unsigned long work)
{
	rox_side_announce(side, work);
	queue_work(rox_retry_wq, &side->fair);
}

void rox_side_again(struct rox_side *side)
{
	rox_side_assert_held(side);
	set_bit(ilog2(ROX_WORK_RUN), &side->pending);
	queue_work(rox_wq, &side->work);
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
	if (rox_side_unbusy(side))
		rox_side_later(side);
}

/*
 * May the caller's context run a side? The caller may have locks, and interrupts disabled.
 *
 * On PREEMPT_RT spin_lock_irqsave() leaves interrupts enabled, the locks that a run takes sleep,
 * and disabling bottom halves takes a lock. A kernel user may have a lock that its completion
 * handler takes in a softirq. So outside of softirqs its sides are run by workers.
 */
static bool rox_context_may_run(const struct rox_qp *qp)
{
	if (IS_ENABLED(CONFIG_PREEMPT_RT))
		return preemptible() && (qp->user || in_softirq());
	return !irqs_disabled();
}

/*
 * Runs the side here, if the context allows that, or by a worker. Any context, no lock.
 *
 * In process context the caller runs the side several times while there is more to send. Between
 * two runs softirqs handle the packets that were sent, so that the backlog of a veth or lo does
 * not overflow.
 */
static void rox_side_doorbell(struct rox_side *side)
{
	unsigned long news = ROX_WORK_RUN;
	bool yields = !in_softirq();
	int runs = 0;
	bool more;

	if (!rox_context_may_run(side->qp)) {
		rox_side_announce(side, news);
		rox_side_defer(side);
		return;
	}
	if (!yields && rox_cpu_nested(this_cpu_ptr(&rox_cpus))) {
		rox_side_kick(side, news);
		return;
	}
	do {
		more = rox_side_turn_for(side, news);
		news = 0;
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
	bool engines = qp->engines && rox_spin_us(qp->dev);
	u64 begin = engines ? rox_engine_clock(qp) : 0;

	rcu_read_lock();
	rox_qp_count(qp, ROX_CNT_DOORBELLS);
	trace_rox_doorbell(qp->ibqp.qp_num);
	rcu_read_unlock();
	rox_side_doorbell(&qp->send.side);
	if (engines)
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
 * May the side keep another frame? A side that waits for pages on demand may wait as long as the
 * owner of the memory likes, or somebody whom the owner waits for. It keeps few frames, and for
 * UD only one. The caller has the lock of the queue.
 */
static bool rox_side_may_keep(const struct rox_side *side)
{
	u32 frames = skb_queue_len(&side->rxq);

	if (likely(!rox_fault_busy(&side->pages)))
		return frames < ROX_MAX_RXQ && side->rxq_bytes < ROX_MAX_RXQ_BYTES;
	if (rox_is_ud(side->qp))
		return !frames;
	return side->rxq_bytes < ROX_HELD_QP_BYTES &&
	       atomic_read(&side->qp->dev->held_bytes) < ROX_HELD_DEV_BYTES;
}

/* Checks that before a frame is built. Takes the lock of the queue. */
static bool rox_side_looks_free(struct rox_side *side)
{
	unsigned long flags;
	bool room;

	if (likely(!rox_fault_busy(&side->pages)))
		return true;
	spin_lock_irqsave(&side->rxq.lock, flags);
	room = rox_side_may_keep(side);
	spin_unlock_irqrestore(&side->rxq.lock, flags);
	return room;
}

/* Counts a frame for a side that waits for pages on demand. */
static void rox_side_count_held(struct rox_side *side, struct sk_buff *skb)
{
	rox_skb_cb(skb)->held = true;
	atomic_add(skb->truesize, &side->qp->dev->held_bytes);
}

/* Undoes the accounting of a frame that leaves the queue. */
static void rox_side_uncount(struct rox_side *side, struct sk_buff *skb)
{
	side->rxq_bytes -= skb->truesize;
	if (likely(!rox_skb_cb(skb)->held))
		return;
	rox_skb_cb(skb)->held = false;
	atomic_sub(skb->truesize, &side->qp->dev->held_bytes);
}

bool rox_side_queue(struct rox_side *side, struct sk_buff *skb)
{
	unsigned long flags;
	bool room;

	rox_qp_count(side->qp, ROX_CNT_RX_BURSTS);
	spin_lock_irqsave(&side->rxq.lock, flags);
	room = rox_side_may_keep(side);
	if (room) {
		side->rxq_bytes += skb->truesize;
		__skb_queue_tail(&side->rxq, skb);
		if (unlikely(rox_fault_busy(&side->pages)))
			rox_side_count_held(side, skb);
	}
	spin_unlock_irqrestore(&side->rxq.lock, flags);
	if (unlikely(!room)) {
		rox_qp_count(side->qp, ROX_CNT_RX_DROP);
		kfree_skb(skb);
	}
	return room;
}

/* rox_side_hold() - the side begins to wait for pages: drops frames beyond the lower limit */
void rox_side_hold(struct rox_side *side)
{
	struct sk_buff_head *rxq = &side->rxq;
	struct sk_buff *skb, *next;
	struct sk_buff_head drop;
	unsigned long flags;

	__skb_queue_head_init(&drop);
	spin_lock_irqsave(&rxq->lock, flags);
	skb_queue_reverse_walk_safe(rxq, skb, next) {
		if (rox_skb_cb(skb)->held)
			break;
		if (rox_is_ud(side->qp) ? skb_queue_len(rxq) > 1 :
					  side->rxq_bytes > ROX_HELD_QP_BYTES) {
			__skb_unlink(skb, rxq);
			rox_side_uncount(side, skb);
			__skb_queue_tail(&drop, skb);
		} else {
			rox_side_count_held(side, skb);
		}
	}
	spin_unlock_irqrestore(&rxq->lock, flags);
	rox_qp_count_add(side->qp, ROX_CNT_RX_DROP, skb_queue_len(&drop));
	while ((skb = __skb_dequeue(&drop)))
		kfree_skb(skb);
}

/* rox_side_next_frame() - takes the oldest received frame from the queue; NULL if it is empty */
struct sk_buff *rox_side_next_frame(struct rox_side *side)
{
	struct sk_buff *skb;
	unsigned long flags;

	if (skb_queue_empty_lockless(&side->rxq))
		return NULL;
	spin_lock_irqsave(&side->rxq.lock, flags);
	skb = __skb_dequeue(&side->rxq);
	if (skb)
		rox_side_uncount(side, skb);
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
 * rox_transport_rx() - gives a frame to a QP and runs its side
 * @qp: the QP; the caller holds a reference
 * @skb: frame, all packets of which are for @qp and for one side; taken over
 * @request: for the responder, else for the requester
 */
void rox_transport_rx(struct rox_qp *qp, struct sk_buff *skb, bool request)
{
	struct rox_side *side = request ? &qp->recv.side : &qp->send.side;

	if (rox_side_queue(side, skb))
		rox_side_kick(side, ROX_WORK_RUN);
}

static struct rox_side *rox_side_of(struct rox_qp *qp, bool request)
{
	return request ? &qp->recv.side : &qp->send.side;
}

/**
 * rox_transport_waits() - does a QP wait for pages on demand?
 * @qp: the QP; the caller holds a reference
 * @request: its responder, else its requester
 *
 * Return: true if its frames may have to wait for long.
 */
bool rox_transport_waits(struct rox_qp *qp, bool request)
{
	return rox_fault_busy(&rox_side_of(qp, request)->pages);
}

/**
 * rox_transport_has_room() - would rox_transport_rx() take a frame?
 * @qp: the QP; the caller holds a reference
 * @request: for the responder, else for the requester
 *
 * Return: false if the frame would be dropped.
 */
bool rox_transport_has_room(struct rox_qp *qp, bool request)
{
	return rox_side_looks_free(rox_side_of(qp, request));
}
