// SPDX-License-Identifier: GPL-2.0
/*
 * Adding completions to a CQ, and raising its events.
 *
 * Arming and completing work without a common lock. The user sets an arm bit and then reads the
 * producer index; the kernel advances the index and then reads the bits. Each has a full barrier
 * between the two. So at least one of them sees the other, and no event is lost.
 *
 * By the specification, an event is only raised for completions that are added after arming, so a
 * program must poll until the CQ is empty. Adapters also raise an event for completions that are
 * in the CQ already, and some programs rely on that (perftest polls 16 completions for each
 * event). Arming is a store that the kernel does not notice. So a timer looks at CQs whose
 * programs wait for events. Other programs arm first and then poll once for each event (perftest
 * again). An event for completions that such a program is about to poll would be one too many. So
 * the event is raised when the timer finds the CQ in the same state twice, and the program has
 * polled since the last event: on a busy host it may be stopped for long after it has armed.
 *
 * Moderation delays an event until a number of completions have been added since it was due, or
 * the period is over. The same timer ends the period.
 *
 * A completion vector stands for a CPU. Handlers of kernel users are called on that CPU, as for
 * the interrupt of an adapter, because the users spread their queues by vectors.
 *
 * A program that polls in vain for long may sleep instead, in rox_cq_wait(). It does not arm the CQ
 * for that: events are for those who wait for events.
 */
#include <linux/cpumask.h>
#include <linux/hrtimer.h>
#include <linux/ktime.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/smp.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include "internal.h"

/* From the last completion to the first look at a CQ that may have been armed when not empty. */
#define ROX_LATE_ARM_NS (750 * NSEC_PER_USEC)
/* From there to the second look, which raises the event. */
#define ROX_LATE_AGAIN_NS (250 * NSEC_PER_USEC)
/* While the user polls nothing, it is an eighth longer from look to look, but never longer than: */
#define ROX_LATE_MOST_NS (64 * NSEC_PER_MSEC)

/* State of the interrupt to the CPU of a CQ's vector. */
enum rox_cq_raised {
	ROX_CQ_IDLE,	/* none */
	ROX_CQ_RAISED,	/* on its way; it will schedule the tasklet */
	ROX_CQ_RAISING,	/* scheduling the tasklet */
};

static bool rox_cq_armed(const struct rox_ring *ring, bool solicited)
{
	u32 wanted = ROX_RING_ARM_NEXT | (solicited ? ROX_RING_ARM_SOLICITED : 0);

	/* The entry is published before the bits are read; see the top of the file. */
	smp_mb();
	return READ_ONCE(ring->ctrl->flags) & wanted;
}

/*
 * Disarms the CQ. Return: an event is due: the program waits for events, and is about to poll. With
 * the lock.
 */
static bool rox_cq_fire(struct rox_cq *cq, bool solicited)
{
	struct rox_ring_ctrl *ctrl = cq->ring.ctrl;

	if (!rox_cq_armed(&cq->ring, solicited) || !(xchg(&ctrl->flags, 0) & ROX_ARM_BITS))
		return false;
	cq->waited_for = true;
	cq->event_consumer = READ_ONCE(ctrl->consumer);
	return true;
}

static ktime_t rox_cq_period(const struct rox_cq *cq)
{
	return ns_to_ktime(cq->mod_period * NSEC_PER_USEC);
}

/* As rox_cq_fire(), for a CQ with moderation: the first event that is due starts the period. */
static noinline bool rox_cq_fire_moderated(struct rox_cq *cq, bool solicited)
{
	if (!rox_cq_armed(&cq->ring, solicited))
		return false;
	if (!cq->deferred++)
		hrtimer_start(&cq->late_arm, rox_cq_period(cq), HRTIMER_MODE_REL_SOFT);
	if (cq->deferred < cq->mod_count)
		return false;
	cq->deferred = 0;
	return rox_cq_fire(cq, solicited);
}

/* Puts the CQ into error. Return: an event is due. */
static bool rox_cq_break(struct rox_cq *cq)
{
	cq->error = true;
	return xchg(&cq->ring.ctrl->flags, ROX_RING_ERROR) & ROX_ARM_BITS;
}

static void rox_cq_write(struct rox_cq *cq, const struct rox_cqe *cqe)
{
	struct rox_cqe *dst = rox_ring_entry(&cq->ring, cq->ring.index);

	*dst = *cqe;
	if (cq->flags & ROX_CQ_TIMESTAMP) {
		dst->timestamp = ktime_get_raw_ns();
		dst->wallclock = ktime_get_real_ns();
	}
	rox_ring_produce(&cq->ring, 1);
}

/* Is the CQ armed while it has completions that the user has not polled? Then disarms it. */
static bool rox_cq_fire_late(struct rox_cq *cq)
{
	struct rox_ring *ring = &cq->ring;
	u32 consumer = READ_ONCE(ring->ctrl->consumer);

	if (consumer == ring->index)
		return false;
	return rox_cq_fire(cq, (s32)(cq->solicited - consumer) > 0);
}

/*
 * The timer looks at the CQ. Raises the event if the CQ has been armed and not empty since the last
 * look. Return: an event is due.
 */
static bool rox_cq_look(struct rox_cq *cq)
{
	struct rox_ring *ring = &cq->ring;
	u32 consumer = READ_ONCE(ring->ctrl->consumer);
	bool armed = consumer != ring->index && consumer != cq->event_consumer &&
		     rox_cq_armed(ring, (s32)(cq->solicited - consumer) > 0);
	bool again = armed && cq->seen_armed && cq->seen_producer == ring->index &&
		     cq->seen_consumer == consumer;

	if (cq->seen_consumer != consumer)
		cq->look_ns = ROX_LATE_ARM_NS;
	else
		cq->look_ns = min(cq->look_ns + cq->look_ns / 8, (u32)ROX_LATE_MOST_NS);
	cq->seen_armed = armed && !again;
	cq->seen_producer = ring->index;
	cq->seen_consumer = consumer;
	return again && rox_cq_fire_late(cq);
}

/* Does the timer look at the CQ? A kernel user learns of missed completions when it arms. */
static bool rox_cq_is_watched(const struct rox_cq *cq)
{
	return cq->user && cq->waited_for;
}

static ktime_t rox_cq_watch_time(const struct rox_cq *cq)
{
	if (cq->seen_armed)
		return ns_to_ktime(ROX_LATE_AGAIN_NS);
	return max_t(ktime_t, ns_to_ktime(cq->look_ns), rox_cq_period(cq));
}

static void rox_cq_handle(struct tasklet_struct *tasklet)
{
	struct rox_cq *cq = container_of(tasklet, struct rox_cq, handling);

	if (atomic_xchg(&cq->due, 0))
		cq->ibcq.comp_handler(&cq->ibcq, cq->ibcq.cq_context);
}

/* Called on the CPU of the CQ's vector, in hard interrupt context. */
static void rox_cq_interrupt(void *data)
{
	struct rox_cq *cq = data;

	/* From here on the tasklet may miss a new completion; see rox_cq_call(). */
	atomic_xchg(&cq->raised, ROX_CQ_RAISING);
	tasklet_schedule(&cq->handling);
	/* The last access to the CQ; rox_cq_settle() and rox_cq_stop() wait for it. */
	atomic_set_release(&cq->raised, ROX_CQ_IDLE);
}

/* PREEMPT_RT: schedules the tasklet in a worker on the CPU of the CQ's vector. */
static void rox_cq_raise_work(struct work_struct *work)
{
	struct rox_cq *cq = container_of(work, struct rox_cq, raising);

	tasklet_schedule(&cq->handling);
}

/*
 * Interrupts the CPU of the CQ's vector, unless an interrupt is on its way. If it is scheduling
 * the tasklet, the tasklet is scheduled here, too.
 */
static void rox_cq_call(struct rox_cq *cq)
{
	int was = atomic_cmpxchg(&cq->raised, ROX_CQ_IDLE, ROX_CQ_RAISED);

	if (was == ROX_CQ_RAISING)
		tasklet_schedule(&cq->handling);
	else if (was == ROX_CQ_IDLE && smp_call_function_single_async(cq->cpu, &cq->csd))
		rox_cq_interrupt(cq);
}

/*
 * Schedules the tasklet on the CPU of the CQ's vector, or here if that CPU is offline. On
 * PREEMPT_RT a worker does it. There a function called by another CPU must not raise a softirq:
 * the idle task, which may run that function, warns of it. And a caller that is preempted before
 * it sends the interrupt would make rox_cq_silence() spin.
 */
static void rox_cq_raise(struct rox_cq *cq)
{
	if (cq->cpu == raw_smp_processor_id() || !cpu_online(cq->cpu))
		tasklet_schedule(&cq->handling);
	else if (IS_ENABLED(CONFIG_PREEMPT_RT))
		queue_work_on(cq->cpu, system_highpri_wq, &cq->raising);
	else
		rox_cq_call(cq);
}

/*
 * A program is woken at once, in the context that adds the completion. The handler of a kernel
 * user is called on the CPU of the vector, as by an adapter. It is not called within
 * ib_post_send(), even if the work request completes there, because the caller may have a lock
 * that the handler takes.
 */
static void rox_cq_notify(struct rox_cq *cq)
{
	if (!cq->ibcq.comp_handler)
		return;
	if (cq->user) {
		cq->ibcq.comp_handler(&cq->ibcq, cq->ibcq.cq_context);
		return;
	}
	atomic_set(&cq->due, 1);
	/* @due is set before it is tested whether the tasklet is scheduled. */
	smp_mb__after_atomic();
	rox_cq_raise(cq);
}

/* When it returns, the handler is not running and not called again, if no completion is added. */
static void rox_cq_silence(struct rox_cq *cq)
{
	atomic_cond_read_acquire(&cq->raised, VAL == ROX_CQ_IDLE);
	cancel_work_sync(&cq->raising);
	tasklet_kill(&cq->handling);
}

/* tasklet_kill() may swallow the scheduling for completions of other QPs: repeat it. */
void rox_cq_settle(struct rox_cq *cq)
{
	rox_cq_silence(cq);
	/* The tasklet is not scheduled before @due is read. */
	smp_mb();
	if (atomic_read(&cq->due))
		tasklet_schedule(&cq->handling);
}

static enum hrtimer_restart rox_cq_late_arm(struct hrtimer *timer)
{
	struct rox_cq *cq = container_of(timer, struct rox_cq, late_arm);
	bool event = false, again = false;
	unsigned long flags;

	spin_lock_irqsave(&cq->lock, flags);
	/* A new period that began while this waited for the lock goes on. */
	if (!cq->error && !(cq->deferred && hrtimer_is_queued(timer))) {
		event = cq->deferred ? rox_cq_fire_late(cq) : rox_cq_look(cq);
		cq->deferred = 0;
		/* If the timer is not restarted here, the next completion starts it. */
		again = rox_cq_is_watched(cq) && !hrtimer_is_queued(timer) &&
			READ_ONCE(cq->ring.ctrl->consumer) != cq->ring.index;
		/* All of that time from now on, even if the timer was late. */
		if (again)
			hrtimer_set_expires(timer, ktime_add(hrtimer_cb_get_time(timer),
							     rox_cq_watch_time(cq)));
	}
	spin_unlock_irqrestore(&cq->lock, flags);

	if (event)
		rox_cq_notify(cq);
	return again ? HRTIMER_RESTART : HRTIMER_NORESTART;
}

/* After a completion was added: starts the timer if needed. With the lock. */
static void rox_cq_watch(struct rox_cq *cq, bool solicited)
{
	if (solicited)
		cq->solicited = cq->ring.index;
	if (!rox_cq_is_watched(cq) || hrtimer_is_queued(&cq->late_arm))
		return;
	cq->look_ns = ROX_LATE_ARM_NS;
	hrtimer_start(&cq->late_arm, rox_cq_watch_time(cq), HRTIMER_MODE_REL_SOFT);
}

static noinline void rox_cq_raise_error(struct rox_cq *cq)
{
	struct ib_event event = {
		.device = cq->ibcq.device,
		.event = IB_EVENT_CQ_ERR,
		.element.cq = &cq->ibcq,
	};

	if (cq->ibcq.event_handler)
		cq->ibcq.event_handler(&event, cq->ibcq.cq_context);
}

/* Writes or drops the completion. Return: false if the CQ is full and goes into error. */
static bool rox_cq_place(struct rox_cq *cq, const struct rox_cqe *cqe)
{
	int space = rox_ring_space(&cq->ring);

	if (likely(space > 0)) {
		rox_cq_write(cq, cqe);
		return true;
	}
	rox_count(&to_rox_dev(cq->ibcq.device)->stats, ROX_CNT_CQ_OVERFLOW);
	return !space && cq->ignore_overrun;
}

static noinline void rox_cq_trace(const struct rox_cq *cq, bool event)
{
	u32 depth = cq->ring.index - READ_ONCE(cq->ring.ctrl->consumer);

	trace_rox_cq(cq->ibcq.res.id, depth, cq->ring.entries, event);
}

int rox_cq_add(struct rox_cq *cq, const struct rox_cqe *cqe, bool solicited)
{
	bool event = false, broke = false, wake;
	unsigned long flags;
	int err = 0;

	spin_lock_irqsave(&cq->lock, flags);
	/* Without a barrier, as rox_cq_has_news() takes the lock. */
	wake = waitqueue_active(&cq->sleepers);
	if (cq->error) {
		err = -EOVERFLOW;
	} else if (unlikely(!rox_cq_place(cq, cqe))) {
		err = -EOVERFLOW;
		broke = true;
		event = rox_cq_break(cq);
	} else {
		solicited |= cqe->status != IB_WC_SUCCESS;
		event = likely(!cq->mod_count) ? rox_cq_fire(cq, solicited) :
						 rox_cq_fire_moderated(cq, solicited);
		rox_cq_watch(cq, solicited);
		if (trace_rox_cq_enabled())
			rox_cq_trace(cq, event);
	}
	spin_unlock_irqrestore(&cq->lock, flags);

	if (broke)
		rox_cq_raise_error(cq);
	if (event)
		rox_cq_notify(cq);
	if (unlikely(wake))
		wake_up_all(&cq->sleepers);
	return err;
}

static bool rox_cq_has_news(struct rox_cq *cq)
{
	unsigned long flags;
	bool news;

	spin_lock_irqsave(&cq->lock, flags);
	news = cq->error || cq->ring.index != READ_ONCE(cq->ring.ctrl->consumer);
	spin_unlock_irqrestore(&cq->lock, flags);
	return news;
}

/* Who adds a completion has the lock: the sleeper, who is queued first, sees it, or is seen. */
int rox_cq_wait(struct rox_cq *cq, u32 ns)
{
	ktime_t time = ns_to_ktime(min_t(u64, ns, ROX_CQ_MOST_WAIT_NS));
	int err;

	err = wait_event_interruptible_hrtimeout(cq->sleepers, rox_cq_has_news(cq), time);
	return err == -ERESTARTSYS ? -EINTR : 0;
}

bool rox_cq_arm(struct rox_cq *cq, u32 arm, bool reports)
{
	bool missed, event = false;
	unsigned long flags;

	spin_lock_irqsave(&cq->lock, flags);
	/* Atomic, as a process may arm its own CQ at the same time. */
	atomic_or(arm, (atomic_t *)&cq->ring.ctrl->flags);
	missed = cq->ring.index != READ_ONCE(cq->ring.ctrl->consumer);
	if (missed && !reports && !cq->user)
		event = rox_cq_fire_late(cq);
	spin_unlock_irqrestore(&cq->lock, flags);
	if (event)
		rox_cq_notify(cq);
	return missed;
}

/* ---- creation and destruction ---- */

void rox_cq_init(struct rox_cq *cq, unsigned int vector)
{
	spin_lock_init(&cq->lock);
	init_waitqueue_head(&cq->sleepers);
	cq->look_ns = ROX_LATE_ARM_NS;
	cq->cpu = cpumask_local_spread(vector, NUMA_NO_NODE);
	INIT_CSD(&cq->csd, rox_cq_interrupt, cq);
	INIT_WORK(&cq->raising, rox_cq_raise_work);
	tasklet_setup(&cq->handling, rox_cq_handle);
	hrtimer_setup(&cq->late_arm, rox_cq_late_arm, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT);
}

void rox_cq_stop(struct rox_cq *cq)
{
	hrtimer_cancel(&cq->late_arm);
	rox_cq_silence(cq);
}

/**
 * rox_cq_moderate() - sets the moderation of a CQ's events
 * @cq: CQ
 * @count: number of completions for one event
 * @period: longest delay of an event, in microseconds; if @count or @period is 0, there is none
 *
 * An event that is delayed is raised at once. Any context but hard interrupts.
 */
void rox_cq_moderate(struct rox_cq *cq, u16 count, u16 period)
{
	bool event = false;
	unsigned long flags;

	spin_lock_irqsave(&cq->lock, flags);
	cq->mod_count = count && period ? count : 0;
	cq->mod_period = cq->mod_count ? period : 0;
	if (cq->deferred) {
		cq->deferred = 0;
		event = !cq->error && rox_cq_fire_late(cq);
	}
	spin_unlock_irqrestore(&cq->lock, flags);

	if (event)
		rox_cq_notify(cq);
}
