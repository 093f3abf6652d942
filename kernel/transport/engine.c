// SPDX-License-Identifier: GPL-2.0
/*
 * The engine that stays awake: rings the doorbells of busy send queues in the
 * programs' place, from a CPU that has nothing else to do.
 *
 * A doorbell is a system call, and sends on the program's own CPU. When they come
 * so fast that a CPU which looks at the producer indices would hardly ever wait, or
 * take most of the program's time, a worker does that: it runs a send side each time
 * its index has moved, as the doorbell would have, and while it does so
 * ROX_RING_NEED_WAKEUP is not set. What is posted meanwhile goes out together.
 *
 * Each CPU has an engine for the queues whose doorbells are rung there: what one
 * CPU posts, another one can send. So the queues that a thread takes turns with
 * have one engine, and threads on several CPUs do not wait for each other's.
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
#include <linux/llist.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/sched/stat.h>
#include "internal.h"

/* Whatever is asked for, an idle CPU is not kept longer than this for nothing. */
#define ROX_SPIN_MAX_US 1000U
/* It waits as long as spin_us says, or so many times as long as its last turn has taken. */
#define ROX_WAITS_FOR_A_TURN 4ULL
/* Looks at the indices for each look at the clock. */
#define ROX_SPIN_LOOKS 8
/* Without a call of the scheduler; RCU, for one, waits for that. */
#define ROX_STINT_NS (2 * NSEC_PER_MSEC)
/* After it was started in vain: no CPU was idle. Twice as long each time, so often at most. */
#define ROX_ENGINE_REST max(HZ / 50, 1)
#define ROX_ENGINE_RESTS 4U
/* Queues that it looks at in turn: the more, the longer a post waits. */
#define ROX_ENGINE_QUEUES 64
/* One of so many doorbells is timed. */
#define ROX_RINGS_TIMED 8
/* Fewer in a jiffy are no reason for an engine, however long they take. */
#define ROX_RINGS_LEAST 4

/**
 * struct rox_engine - watches busy send queues
 * @work: does, while it runs
 * @lock: protects @watches and @count; held while it watches
 * @watches: struct rox_watch of the queues
 * @count: how many
 * @joining: those that are to be watched as well
 * @leaving: QPs that are being destroyed and wait for @lock
 * @awake: @work runs
 * @end: of its stint, in ktime ns
 * @rings: doorbells on this CPU in the jiffy @since
 * @since: see @rings
 * @ring_ns: what the last one took that was timed
 * @rest: when @work may be started next, in jiffies
 * @vain: starts in vain, one after the other
 */
struct rox_engine {
	struct work_struct work;
	struct mutex lock;	/* @watches, @count */
	struct list_head watches;
	unsigned int count;
	struct llist_head joining;
	atomic_t leaving;
	bool awake;
	u64 end;
	u32 rings;
	unsigned long since;
	u32 ring_ns;
	unsigned long rest;
	unsigned int vain;
};

static DEFINE_PER_CPU(struct rox_engine, rox_engines);

static struct workqueue_struct *rox_engine_wq;

static unsigned int spin_us = 50;
module_param(spin_us, uint, 0644);
MODULE_PARM_DESC(spin_us, "Watch busy send queues from an idle CPU until nothing has come for so many microseconds, longer where sending is slow (default: 50, at most 1000; 0: never)");

static u32 rox_spin_us(void)
{
	/* Preemption stays disabled meanwhile. */
	if (IS_ENABLED(CONFIG_PREEMPT_RT))
		return 0;
	return min(READ_ONCE(spin_us), ROX_SPIN_MAX_US);
}

static struct rox_qp *rox_watch_qp(const struct rox_watch *watch)
{
	return container_of(watch, struct rox_qp, send.watch);
}

/*
 * May the engine keep the CPU? Not if anybody else could use it: the first that
 * waits for this CPU ends it, whatever the priorities.
 */
static bool rox_engine_may_stay(void)
{
	return rox_spin_us() && single_task_running() && !need_resched();
}

/* Is it time to call the scheduler, between two of several queues? */
static bool rox_engine_over(const struct rox_engine *engine)
{
	return engine->count > 1 && (need_resched() || ktime_get_ns() >= engine->end);
}

/* One run of the side. Return: true if there was, or may be, something to do. */
static bool rox_watch_turn(struct rox_watch *watch)
{
	struct rox_qp *qp = rox_watch_qp(watch);
	u32 producer, seen;

	/* Before the run: what comes during it may come too late for it. */
	seen = READ_ONCE(qp->sq.ctrl->producer);
	rox_side_announce(&qp->send.side, ROX_WORK_RUN);
	watch->more = rox_side_turn(&qp->send.side);
	if (!watch->more) {
		/* Most often it was not too late; then the next run is for what comes now. */
		producer = READ_ONCE(qp->sq.ctrl->producer);
		if (producer == READ_ONCE(qp->sq.index))
			seen = producer;
	}
	if (!watch->more && watch->seen == seen)
		return false;
	watch->seen = seen;
	watch->useful = true;
	return true;
}

static void rox_watch_begin(struct rox_watch *watch)
{
	watch->seen = READ_ONCE(rox_watch_qp(watch)->sq.index);
	WRITE_ONCE(watch->watched, true);
	rox_watch_turn(watch);
}

/* From now on the doorbell is to be rung. */
static void rox_watch_end(struct rox_watch *watch)
{
	WRITE_ONCE(watch->watched, false);
	/* Before the bit that announces the last turn: see at the top. */
	smp_mb();
	rox_watch_turn(watch);
}

/* With the lock. The QP may be gone at once. */
static void rox_watch_forget(struct rox_engine *engine, struct rox_watch *watch)
{
	list_del(&watch->entry);
	engine->count--;
	clear_bit_unlock(0, &watch->joined);
}

/* Takes in who has joined; they are not watched yet. With the lock. */
static void rox_engine_take(struct rox_engine *engine, struct list_head *taken)
{
	struct rox_watch *watch, *next;

	llist_for_each_entry_safe(watch, next, llist_del_all(&engine->joining), join) {
		watch->more = false;
		watch->useful = false;
		list_add_tail(&watch->entry, taken);
		if (engine->count++ >= ROX_ENGINE_QUEUES)
			rox_watch_forget(engine, watch);
	}
}

/* Whoever is not reached in time rings doorbells in this stint, and may be first in the next. */
static void rox_engine_begin(struct rox_engine *engine, struct list_head *watches)
{
	struct rox_watch *watch;

	list_for_each_entry(watch, watches, entry)
		watch->useful = false;
	list_for_each_entry(watch, watches, entry) {
		rox_watch_begin(watch);
		if (rox_engine_over(engine))
			break;
	}
}

/* Those who join while it watches. */
static void rox_engine_admit(struct rox_engine *engine)
{
	LIST_HEAD(taken);

	rox_engine_take(engine, &taken);
	rox_engine_begin(engine, &taken);
	list_splice_tail(&taken, &engine->watches);
}

/* Looks at each queue once, as far as there is time. Return: true if one had something to do. */
static bool rox_engine_look(struct rox_engine *engine)
{
	struct rox_watch *watch, *next;
	struct rox_qp *qp;
	bool found = false;

	list_for_each_entry_safe(watch, next, &engine->watches, entry) {
		qp = rox_watch_qp(watch);
		if (unlikely(!READ_ONCE(watch->watched) || rox_qp_state(qp) != IB_QPS_RTS)) {
			rox_watch_end(watch);
			if (!watch->more)
				rox_watch_forget(engine, watch);
		} else if (watch->more || READ_ONCE(qp->sq.ctrl->producer) != watch->seen) {
			found |= rox_watch_turn(watch);
		} else {
			continue;
		}
		if (rox_engine_over(engine))
			break;
	}
	return found;
}

/**
 * enum rox_stint - how the engine's time on its CPU ended
 * @ROX_STINT_VAIN: there was none, somebody else wants the CPU
 * @ROX_STINT_IDLE: nothing has come for long enough
 * @ROX_STINT_CUT: somebody else wants the CPU, or a QP is being destroyed
 * @ROX_STINT_WHOLE: it is time to call the scheduler
 */
enum rox_stint {
	ROX_STINT_VAIN,
	ROX_STINT_IDLE,
	ROX_STINT_CUT,
	ROX_STINT_WHOLE,
};

/*
 * How long, in ns, the engine waits for the next post when one has taken it @took. Where
 * everything is slow (emulated machines, debug kernels) programs are slow as well.
 */
static u64 rox_engine_patience(u64 took)
{
	return clamp_t(u64, ROX_WAITS_FOR_A_TURN * took, rox_spin_us() * NSEC_PER_USEC,
		       ROX_SPIN_MAX_US * NSEC_PER_USEC);
}

/*
 * With preemption disabled: nobody is to wait for an engine that has been put
 * aside while the program believes that it is watched. Softirqs get in after each
 * turn.
 */
static enum rox_stint rox_engine_watch(struct rox_engine *engine)
{
	u64 now = ktime_get_ns();
	u64 until = now + rox_engine_patience(0);
	u64 before;
	bool found;
	int looks;

	if (!rox_engine_may_stay())
		return ROX_STINT_VAIN;
	engine->end = now + ROX_STINT_NS;
	rox_engine_begin(engine, &engine->watches);
	while (!list_empty(&engine->watches)) {
		found = rox_engine_look(engine);
		for (looks = 1; looks < ROX_SPIN_LOOKS && !found; looks++) {
			cpu_relax();
			found = rox_engine_look(engine);
		}
		before = now;
		now = ktime_get_ns();
		if (found)
			until = now + rox_engine_patience(now - before);
		if (now >= engine->end)
			return ROX_STINT_WHOLE;
		if (!rox_engine_may_stay() || atomic_read(&engine->leaving))
			return ROX_STINT_CUT;
		if (now >= until)
			break;
		if (!llist_empty(&engine->joining))
			rox_engine_admit(engine);
	}
	return ROX_STINT_IDLE;
}

/*
 * A stint that others have ended goes on when they had the CPU; if they still want
 * it then, there is none. What a stint has left is done after it, or in the next, as
 * the side's own worker would do it: the two would only take the CPU from each
 * other. Who had nothing to do in a whole stint is watched no longer.
 */
static enum rox_stint rox_engine_stint(struct rox_engine *engine)
{
	struct rox_watch *watch, *next;
	enum rox_stint ended;

	preempt_disable();
	ended = rox_engine_watch(engine);
	preempt_enable();
	list_for_each_entry_safe(watch, next, &engine->watches, entry) {
		rox_watch_end(watch);
		cond_resched();
		if (watch->more)
			continue;
		if (ended <= ROX_STINT_IDLE || (ended == ROX_STINT_WHOLE && !watch->useful))
			rox_watch_forget(engine, watch);
	}
	list_rotate_left(&engine->watches);
	return ended;
}

static void rox_engine_work(struct work_struct *work)
{
	struct rox_engine *engine = container_of(work, struct rox_engine, work);
	bool vain = false, useful = false, goes_on;

	WRITE_ONCE(engine->awake, true);
	do {
		mutex_lock(&engine->lock);
		rox_engine_take(engine, &engine->watches);
		if (!list_empty(&engine->watches)) {
			vain = rox_engine_stint(engine) == ROX_STINT_VAIN;
			useful |= !vain;
		}
		goes_on = !list_empty(&engine->watches);
		mutex_unlock(&engine->lock);
		schedule();
	} while (goes_on);
	WRITE_ONCE(engine->awake, false);
	if (!vain || useful) {
		engine->vain = 0;
		return;
	}
	WRITE_ONCE(engine->rest, jiffies + (ROX_ENGINE_REST << engine->vain));
	engine->vain = min(engine->vain + 1, ROX_ENGINE_RESTS);
}

u64 rox_engine_clock(void)
{
	const struct rox_engine *engine = raw_cpu_ptr(&rox_engines);

	if (READ_ONCE(engine->awake) || READ_ONCE(engine->rings) % ROX_RINGS_TIMED)
		return 0;
	return ktime_get_ns();
}

/*
 * Doorbells come fast if there is one in half of the time that the engine would wait
 * for it; they take long if half of a jiffy goes into those that come in it.
 */
static bool rox_rings_wake(u32 rings, u32 ring_ns)
{
	return rings * rox_spin_us() > 2 * (USEC_PER_SEC / HZ) ||
	       (rings >= ROX_RINGS_LEAST && (u64)rings * ring_ns > NSEC_PER_SEC / HZ / 2);
}

/*
 * Counted by the jiffy, without a lock: a count that is somewhat wrong starts the
 * engine somewhat too early or too late.
 */
static bool rox_engine_wakes(struct rox_engine *engine, u64 begin)
{
	unsigned long now = jiffies;
	u32 rings = 0;

	if (READ_ONCE(engine->since) == now)
		rings = READ_ONCE(engine->rings);
	else
		WRITE_ONCE(engine->since, now);
	WRITE_ONCE(engine->rings, ++rings);
	if (begin)
		WRITE_ONCE(engine->ring_ns, min_t(u64, ktime_get_ns() - begin, NSEC_PER_SEC / HZ));
	if (likely(!rox_rings_wake(rings, READ_ONCE(engine->ring_ns))))
		return false;
	WRITE_ONCE(engine->rings, 0);
	return num_online_cpus() > 1 && !time_before(now, READ_ONCE(engine->rest));
}

void rox_engine_rung(struct rox_qp *qp, u64 begin)
{
	/* Whoever moves to another CPU now has been on this one a moment ago. */
	struct rox_engine *engine = raw_cpu_ptr(&rox_engines);
	struct rox_watch *watch = &qp->send.watch;

	if (!READ_ONCE(engine->awake) && likely(!rox_engine_wakes(engine, begin)))
		return;
	if (!rox_spin_us() || test_and_set_bit(0, &watch->joined))
		return;
	watch->engine = engine;
	llist_add(&watch->join, &engine->joining);
	queue_work(rox_engine_wq, &engine->work);
}

void rox_engine_leave(struct rox_qp *qp)
{
	struct rox_watch *watch = &qp->send.watch;
	struct rox_engine *engine;

	/* The engine's last access comes before it clears the bit. */
	if (!smp_load_acquire(&watch->joined))
		return;
	engine = watch->engine;
	atomic_inc(&engine->leaving);
	mutex_lock(&engine->lock);
	atomic_dec(&engine->leaving);
	/* It may not have been taken in yet; then it is the engine's next work. */
	rox_engine_take(engine, &engine->watches);
	if (test_bit(0, &watch->joined))
		rox_watch_forget(engine, watch);
	mutex_unlock(&engine->lock);
}

int rox_engine_init(void)
{
	struct rox_engine *engine;
	int cpu;

	/* Nothing depends on it: who has no engine rings the doorbell. */
	rox_engine_wq = alloc_workqueue("rox_engine", WQ_UNBOUND | WQ_SYSFS, 0);
	if (!rox_engine_wq)
		return -ENOMEM;
	for_each_possible_cpu(cpu) {
		engine = per_cpu_ptr(&rox_engines, cpu);
		INIT_WORK(&engine->work, rox_engine_work);
		mutex_init(&engine->lock);
		INIT_LIST_HEAD(&engine->watches);
		init_llist_head(&engine->joining);
		engine->rest = jiffies;
	}
	return 0;
}

/* There are no QPs any more. */
void rox_engine_exit(void)
{
	destroy_workqueue(rox_engine_wq);
}
