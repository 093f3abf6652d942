// SPDX-License-Identifier: GPL-2.0
/*
 * The engine that stays awake: rings the doorbell of a busy send queue in the
 * program's place, from a CPU that has nothing else to do.
 *
 * A doorbell is a system call, and sends on the program's own CPU. When they come
 * so fast that a CPU which looks at the producer index would hardly ever wait, a
 * worker does that: it runs the send side each time the index has moved, as the
 * doorbell would have, and while it does so ROX_RING_NEED_WAKEUP is not set.
 *
 * No post is lost, because there is always somebody who will look at the index:
 *
 * - The flag is only written by the context that has the side (rox_send_sleep(),
 *   rox_ring_reset()), so those writes are in order. It is cleared for the engine
 *   only by a run that saw @watched.
 * - While @watched is set, the engine compares the index with what it was before
 *   its last run began, again and again. A program that found the flag cleared had
 *   published before it looked, so the engine finds the index moved.
 * - At its end the engine clears @watched and then announces one more run, which
 *   it carries out itself or leaves to whoever has the side, and more if need be.
 *   The bit that announces it comes after @watched, with a full barrier between on
 *   both ends: that run does not see @watched any more, sets the flag and looks at
 *   the index after it.
 * - In a state other than RTS runs pay no heed to @watched.
 */
#include <linux/moduleparam.h>
#include <linux/sched/stat.h>
#include "internal.h"

/* Whatever is asked for, an idle CPU is not kept longer than this for nothing. */
#define ROX_SPIN_MAX_US 1000U
/* Looks at the index for each look at the clock. */
#define ROX_SPIN_LOOKS 8
/* Without a call of the scheduler; RCU, for one, waits for that. */
#define ROX_STINT_NS (2 * NSEC_PER_MSEC)
/* After it was started in vain: no CPU was idle. */
#define ROX_ENGINE_REST max(HZ / 50, 1)

static unsigned int spin_us = 50;
module_param(spin_us, uint, 0644);
MODULE_PARM_DESC(spin_us, "Watch a busy send queue from an idle CPU until nothing has come for so many microseconds (default: 50, at most 1000; 0: never)");

static u32 rox_spin_us(void)
{
	/* Preemption stays disabled meanwhile. */
	if (IS_ENABLED(CONFIG_PREEMPT_RT))
		return 0;
	return min(READ_ONCE(spin_us), ROX_SPIN_MAX_US);
}

/*
 * May the engine keep the CPU? Not if anybody else could use it: the first that
 * waits for this CPU ends it, whatever the priorities.
 */
static bool rox_engine_may_stay(const struct rox_qp *qp)
{
	return rox_spin_us() && single_task_running() && !need_resched() &&
	       READ_ONCE(qp->send.engine.watched) && rox_qp_state(qp) == IB_QPS_RTS;
}

/* Return: true if the producer index is not @seen any more, false if it is time to end. */
static bool rox_engine_watch(const struct rox_qp *qp, u32 seen)
{
	const u32 *producer = &qp->sq.ctrl->producer;
	u64 until;
	int looks;

	if (READ_ONCE(*producer) != seen)
		return true;
	until = ktime_get_ns() + rox_spin_us() * NSEC_PER_USEC;
	do {
		for (looks = 0; looks < ROX_SPIN_LOOKS; looks++) {
			if (READ_ONCE(*producer) != seen)
				return true;
			cpu_relax();
		}
	} while (rox_engine_may_stay(qp) && ktime_get_ns() < until);
	return false;
}

/*
 * One run of the side. Return: true if there is, or may be, more to do; @seen is
 * what the producer index was when it was known that there is not.
 */
static bool rox_engine_turn(struct rox_qp *qp, u32 *seen)
{
	u32 producer;

	/* Before the run: what comes during it may come too late for it. */
	*seen = READ_ONCE(qp->sq.ctrl->producer);
	rox_side_announce(&qp->send.side, ROX_WORK_RUN);
	if (rox_side_turn(&qp->send.side))
		return true;
	/* Most often it was not too late; then the next run is for what comes now. */
	producer = READ_ONCE(qp->sq.ctrl->producer);
	if (producer == READ_ONCE(qp->sq.index))
		*seen = producer;
	return false;
}

/**
 * enum rox_stint - how the engine's time on its CPU ended
 * @ROX_STINT_IDLE: nothing has come for long enough, or never
 * @ROX_STINT_ENDED: somebody else wants the CPU, or it is time to call the scheduler
 * @ROX_STINT_MORE: as before, and there is something to do at once
 */
enum rox_stint {
	ROX_STINT_IDLE,
	ROX_STINT_ENDED,
	ROX_STINT_MORE,
};

/*
 * With preemption disabled: nobody is to wait for an engine that has been put
 * aside while the program believes that it is watched. Softirqs get in after each
 * turn.
 */
static enum rox_stint rox_engine_stint(struct rox_qp *qp)
{
	struct rox_engine *engine = &qp->send.engine;
	u64 until = ktime_get_ns() + ROX_STINT_NS;
	bool useful = false, idle = false, more;
	u32 seen;

	preempt_disable();
	WRITE_ONCE(engine->watched, true);
	while (!idle && rox_engine_may_stay(qp) && ktime_get_ns() < until) {
		if (rox_engine_turn(qp, &seen) || rox_engine_watch(qp, seen))
			useful = true;
		else
			idle = rox_engine_may_stay(qp);
	}
	WRITE_ONCE(engine->watched, false);
	/* Before the bit that announces the last turn: see at the top. */
	smp_mb__before_atomic();
	more = rox_engine_turn(qp, &seen);
	preempt_enable();
	if (more)
		return ROX_STINT_MORE;
	return useful && !idle ? ROX_STINT_ENDED : ROX_STINT_IDLE;
}

/*
 * A stint that others have ended goes on when they had the CPU, if there was work;
 * those who still want it then end it before there is any. What a stint has left
 * is done in the next, as the side's own worker would do it: the two would only
 * take the CPU from each other.
 */
static void rox_engine_work(struct work_struct *work)
{
	struct rox_send *send = container_of(work, struct rox_send, engine.work);
	struct rox_qp *qp = container_of(send, struct rox_qp, send);
	enum rox_stint ended;
	bool useful = false;

	while ((ended = rox_engine_stint(qp)) != ROX_STINT_IDLE) {
		useful = true;
		schedule();
	}
	if (!useful)
		WRITE_ONCE(send->engine.rest, jiffies + ROX_ENGINE_REST);
}

void rox_engine_init(struct rox_qp *qp)
{
	struct rox_engine *engine = &qp->send.engine;

	INIT_WORK(&engine->work, rox_engine_work);
	engine->rest = jiffies;
}

/*
 * Doorbells come fast if there is one in half of the time that the engine would
 * wait for it. Counted by the jiffy, without a lock: a count that is somewhat wrong
 * starts the engine somewhat too early or too late.
 */
void rox_engine_rung(struct rox_qp *qp)
{
	struct rox_engine *engine = &qp->send.engine;
	unsigned long now = jiffies;
	u32 rings = 0;

	if (READ_ONCE(engine->since) == now)
		rings = READ_ONCE(engine->rings);
	else
		WRITE_ONCE(engine->since, now);
	WRITE_ONCE(engine->rings, ++rings);
	if (likely(rings * rox_spin_us() <= 2 * (USEC_PER_SEC / HZ)))
		return;
	WRITE_ONCE(engine->rings, 0);
	if (num_online_cpus() > 1 && !time_before(now, READ_ONCE(engine->rest)))
		queue_work(rox_engine_wq, &engine->work);
}

void rox_engine_stop(struct rox_qp *qp)
{
	cancel_work_sync(&qp->send.engine.work);
}
