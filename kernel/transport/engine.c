// SPDX-License-Identifier: GPL-2.0
/*
 * Engines poll busy send queues from an idle CPU.
 *
 * A doorbell is a system call and sends on the program's own CPU. When doorbells are frequent or
 * slow, a thread polls the producer indices instead. Each time an index has moved, it runs the
 * send side, as the doorbell would. While it polls, ROX_RING_NEED_WAKEUP is not set. WQEs that
 * are posted during a run are sent together.
 *
 * A context has an engine for each CPU on which its doorbells are rung. The engine usually runs on
 * another CPU. So the queues of one thread share an engine, and threads on several CPUs do not
 * wait for each other's queues. When a thread has moved to another CPU, its queues have two
 * engines. One that finds no idle CPU then hands its queues over to one that polls.
 *
 * An engine polls in stints: a stint ends when nothing was posted for a while, when another task
 * wants the CPU, or when it is time to call the scheduler.
 *
 * The thread works for the program and at its cost: it has the cgroups, the CPUs and the nice value
 * of the task that rang last. It can be preempted, and goes when another task waits for its CPU.
 * After ROX_ENGINE_HOME without work it is in the root cgroup, so that it does not keep a cgroup
 * that the program has left. It ends with the context. It does not work for tasks of real-time
 * priority: they must not wait for a thread that any other such task keeps from its CPU.
 *
 * No post is lost, because somebody always looks at the index:
 *
 * - Only the context that has the lock of the side writes the flag (rox_send_sleep(),
 *   rox_ring_reset()), so these writes are in order. Only a run that sees @watched clears the
 *   flag for the engine.
 * - While @watched is set, the engine compares the index again and again with its value before
 *   the last run. A program that finds the flag cleared has published its WQE before, so the
 *   engine finds the index moved.
 * - While @watched is set, no worker continues what a run leaves (rox_side_defer()). The engine
 *   finds the pending bit, and does it. Softirqs handle ACKs, and leave it to the engine to send.
 * - At the end the engine clears @watched and then sets a pending bit for one more run. It runs
 *   the side itself, or leaves that to the context that has the lock. A full barrier on both ends
 *   orders @watched before the pending bit. So that run sees @watched cleared, sets the flag and
 *   then reads the index. In the same way it sees what was left to the engine.
 * - In states other than RTS, runs ignore @watched.
 */
#include <linux/cgroup.h>
#include <linux/kthread.h>
#include <linux/llist.h>
#include <linux/math64.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/sched/deadline.h>
#include <linux/sched/rt.h>
#include <linux/sched/stat.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include "internal.h"
#include "spell.h"

/* The most that spin_us may say. */
#define ROX_SPIN_MAX_US 1000U
/*
 * The engine polls in vain for spin_us, or this many times the duration of its last turn, or of a
 * doorbell before there was one, but no longer than ROX_TURN_WAIT_MAX_NS.
 */
#define ROX_WAITS_FOR_A_TURN 4ULL
#define ROX_TURN_WAIT_MAX_NS (4 * NSEC_PER_MSEC)
/* Polls of the indices for each reading of the clock. */
#define ROX_SPIN_LOOKS 8
/*
 * Longest stint where kernel code is not preempted and no task waits. Where sending is slow, a
 * stint lasts until each queue has had work ROX_STINT_ROUNDS times, but not longer than
 * ROX_STINT_MOST_NS.
 */
#define ROX_STINT_NS (2 * NSEC_PER_MSEC)
#define ROX_STINT_ROUNDS 4ULL
#define ROX_STINT_MOST_NS (50 * NSEC_PER_MSEC)
/*
 * Delay before the next start after a start in vain, when no CPU was idle. It doubles each time,
 * up to ROX_ENGINE_RESTS times.
 */
#define ROX_ENGINE_REST max(HZ / 250, 1)
#define ROX_ENGINE_RESTS 6U
/* Maximum number of queues of an engine. More queues delay each post more. */
#define ROX_ENGINE_QUEUES 64

/* Time without work before the thread goes to the root cgroup. */
#define ROX_ENGINE_HOME HZ

/**
 * struct rox_engine - polls busy send queues
 * @of: the engines of the context
 * @cpu: that on which its doorbells are rung
 * @make_lock: held to make @task
 * @task: the thread, or NULL if none was needed yet
 * @owner: the task for which it works: a reference. Only the thread changes it
 * @next_owner: the task that has rung last, if that is another one or has moved: a reference
 * @lock: protects @watches and @count; taken for a stint
 * @watches: struct rox_watch of the queues
 * @count: number of queues
 * @joining: queues that join
 * @leaving: number of QPs that are being destroyed and wait for @lock
 * @awake: the thread polls
 * @polls: it has had a stint since it woke up
 * @end: end of the stint, in ktime ns
 * @stint_ns: how long a stint lasts
 * @spell: doorbells on this CPU
 * @rest: earliest time of the next start, in jiffies
 * @vain: number of starts in vain in a row
 */
struct rox_engine {
	struct rox_engines *of;
	int cpu;
	struct mutex make_lock;	/* @task */
	struct task_struct *task;
	struct task_struct *owner;
	struct task_struct *next_owner;
	struct mutex lock;	/* @watches, @count */
	struct list_head watches;
	unsigned int count;
	struct llist_head joining;
	atomic_t leaving;
	bool awake;
	bool polls;
	u64 end;
	u64 stint_ns;
	struct rox_spell spell;
	unsigned long rest;
	unsigned int vain;
};

/**
 * struct rox_engines - the engines of a context
 * @dev: its device
 * @late: late doorbells are of use, and the provider knows them
 * @lock: taken to hand a queue over
 * @cpu: those for the CPUs on which doorbells are rung
 */
struct rox_engines {
	struct rox_dev *dev;
	bool late;
	spinlock_t lock;	/* see above */
	struct rox_engine __percpu *cpu;
};

static unsigned int spin_us = 50;
module_param(spin_us, uint, 0644);
MODULE_PARM_DESC(spin_us, "Watch busy send queues from an idle CPU until nothing has come for so many microseconds, longer where sending is slow (default: 50, at most 1000; 0: never). A device's attribute of this name overrides it");

/* ---- how long to wait ---- */

u32 rox_spin_us(const struct rox_dev *dev)
{
	int own = READ_ONCE(dev->spin_us);

	return min(own < 0 ? READ_ONCE(spin_us) : (unsigned int)own, ROX_SPIN_MAX_US);
}

static u32 rox_engine_spin_us(const struct rox_engine *engine)
{
	return rox_spin_us(engine->of->dev);
}

/* ---- watching a queue ---- */

static struct rox_qp *rox_watch_qp(const struct rox_watch *watch)
{
	return container_of(watch, struct rox_qp, send.watch);
}

/*
 * May the engine keep the CPU? Not if another task could use it: the first task that waits for
 * this CPU ends the stint, whatever its priority.
 */
static bool rox_engine_may_stay(const struct rox_engine *engine)
{
	return rox_engine_spin_us(engine) && single_task_running() && !need_resched() &&
	       !kthread_should_stop();
}

/* With several queues: must the others wait until the scheduler was called? */
static bool rox_engine_over(const struct rox_engine *engine)
{
	return engine->count > 1 && (need_resched() || ktime_get_ns() >= engine->end);
}

/* Runs the side once. Return: true if there was, or may be, something to do. */
static bool rox_watch_turn(struct rox_watch *watch)
{
	struct rox_qp *qp = rox_watch_qp(watch);
	u32 producer, seen;

	/* Read before the run, which may miss WQEs that are posted during it. */
	seen = READ_ONCE(qp->sq.ctrl->producer);
	rox_side_announce(&qp->send.side, ROX_WORK_RUN);
	watch->more = rox_side_turn(&qp->send.side);
	if (!watch->more) {
		/* Usually the run got those WQEs, too. Then the next run is for later ones. */
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

/* Stops polling a queue; the program rings the doorbell. */
static void rox_watch_end(struct rox_watch *watch)
{
	WRITE_ONCE(watch->watched, false);
	/* Before the pending bit for the last run; see the top of the file. */
	smp_mb();
	rox_watch_turn(watch);
}

/* Removes a queue. With the lock. The QP may be freed at once. */
static void rox_watch_forget(struct rox_engine *engine, struct rox_watch *watch)
{
	list_del(&watch->entry);
	engine->count--;
	clear_bit_unlock(0, &watch->joined);
}

/* Return: an engine that polls, has room and works in the same place; NULL if there is none. */
static struct rox_engine *rox_engine_host(const struct rox_engine *engine)
{
	struct rox_engine *host;
	int cpu;

	for_each_possible_cpu(cpu) {
		host = per_cpu_ptr(engine->of->cpu, cpu);
		/* Pairs with the release of its thread. */
		if (host == engine || !smp_load_acquire(&host->polls))
			continue;
		/* The host looks at the count again. */
		if (data_race(host->count) < ROX_ENGINE_QUEUES &&
		    !rox_task_moved(host->task, current))
			return host;
	}
	return NULL;
}

/* Gives a queue that is not polled to @host, for which it is as one that joins. With the lock. */
static void rox_watch_hand_over(struct rox_engine *engine, struct rox_watch *watch,
				struct rox_engine *host)
{
	if (watch->more)
		rox_side_defer(&rox_watch_qp(watch)->send.side);
	list_del(&watch->entry);
	engine->count--;
	/* Whoever sees the new engine finds the queue in its lists. */
	spin_lock(&engine->of->lock);
	WRITE_ONCE(watch->engine, host);
	llist_add(&watch->join, &host->joining);
	spin_unlock(&engine->of->lock);
	wake_up_process(host->task);
}

/* Moves the queues that join to @taken, not yet polled. With the lock. */
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

/*
 * Starts to poll queues. If time runs out, the others use doorbells in this stint; @watches
 * rotates, so that they may be first in the next one.
 */
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

/* Takes in the queues that join during a stint. */
static void rox_engine_admit(struct rox_engine *engine)
{
	LIST_HEAD(taken);

	rox_engine_take(engine, &taken);
	rox_engine_begin(engine, &taken);
	list_splice_tail(&taken, &engine->watches);
}

/* Polls each queue once, while time is left. Return: the number of those that had work. */
static unsigned int rox_engine_look(struct rox_engine *engine)
{
	struct rox_watch *watch, *next;
	struct rox_qp *qp;
	unsigned int found = 0;

	list_for_each_entry_safe(watch, next, &engine->watches, entry) {
		qp = rox_watch_qp(watch);
		if (unlikely(!READ_ONCE(watch->watched) || rox_qp_state(qp) != IB_QPS_RTS)) {
			rox_watch_end(watch);
			if (!watch->more)
				rox_watch_forget(engine, watch);
		} else if (watch->more || READ_ONCE(qp->sq.ctrl->producer) != watch->seen ||
			   READ_ONCE(qp->send.side.pending)) {
			found += rox_watch_turn(watch);
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
 * @ROX_STINT_VAIN: there was none: another task wants the CPU
 * @ROX_STINT_IDLE: nothing was posted for long enough
 * @ROX_STINT_CUT: another task wants the CPU, or a QP is being destroyed
 * @ROX_STINT_WHOLE: it was time to call the scheduler
 */
enum rox_stint {
	ROX_STINT_VAIN,
	ROX_STINT_IDLE,
	ROX_STINT_CUT,
	ROX_STINT_WHOLE,
};

/*
 * Return: how long, in ns, to poll in vain after a turn of @took ns. On slow machines (emulation,
 * debug kernels) programs need longer between two posts, too.
 */
static u64 rox_engine_patience(const struct rox_engine *engine, u64 took)
{
	return clamp_t(u64, ROX_WAITS_FOR_A_TURN * took, rox_engine_spin_us(engine) * NSEC_PER_USEC,
		       ROX_TURN_WAIT_MAX_NS);
}

/* Sets how long a stint lasts, where the turn of a queue takes @took ns. */
static void rox_engine_pace(struct rox_engine *engine, u64 took)
{
	engine->stint_ns = clamp_t(u64, ROX_STINT_ROUNDS * engine->count * took,
				   ROX_STINT_NS, ROX_STINT_MOST_NS);
}

/*
 * Polls for one stint. While it polls nobody else would send, so it ends the stint as soon as
 * another task waits for the CPU. Where that task preempts it first, posts wait until it is back,
 * as they would wait for any thread of the program. Softirqs run after each turn.
 */
static enum rox_stint rox_engine_watch(struct rox_engine *engine)
{
	u32 ring_ns = READ_ONCE(engine->spell.ring_ns);
	u64 now = ktime_get_ns(), began = now, before;
	u64 until = now + rox_engine_patience(engine, ring_ns);
	unsigned int found;
	int looks;

	if (!rox_engine_may_stay(engine))
		return ROX_STINT_VAIN;
	engine->end = now + engine->stint_ns;
	rox_engine_begin(engine, &engine->watches);
	while (!list_empty(&engine->watches)) {
		found = rox_engine_look(engine);
		for (looks = 1; looks < ROX_SPIN_LOOKS && !found; looks++) {
			cpu_relax();
			found = rox_engine_look(engine);
		}
		before = now;
		now = ktime_get_ns();
		if (found) {
			until = now + rox_engine_patience(engine, now - before);
			rox_engine_pace(engine, div_u64(now - before, found));
		}
		if (now >= engine->end)
			return ROX_STINT_WHOLE;
		if (!rox_engine_may_stay(engine) || atomic_read(&engine->leaving))
			return ROX_STINT_CUT;
		if (now >= until)
			break;
		if (!llist_empty(&engine->joining)) {
			rox_engine_admit(engine);
			/*
			 * The doorbell did what a turn does. The thread may take turns with more
			 * queues, and each needs work in this stint to stay.
			 */
			until = ktime_get_ns() + rox_engine_patience(engine, ring_ns);
			rox_engine_pace(engine, ring_ns);
			engine->end = max(engine->end, began + engine->stint_ns);
		}
	}
	return ROX_STINT_IDLE;
}

/*
 * Polls for one stint, then stops polling all queues. If another task ended the stint, the next
 * one follows when that task has had the CPU. If there was no stint, another engine gets the
 * queues, if there is one. Work that a stint leaves is done after it or in the next one, as the
 * side's worker would do it, because the two would only compete for the CPU. A queue that had no
 * work in a whole stint leaves the engine.
 */
static enum rox_stint rox_engine_stint(struct rox_engine *engine)
{
	struct rox_engine *host = NULL;
	struct rox_watch *watch, *next;
	enum rox_stint ended;

	ended = rox_engine_watch(engine);
	if (ended == ROX_STINT_VAIN)
		host = rox_engine_host(engine);
	else
		/* Pairs with the acquire in rox_engine_host(). */
		smp_store_release(&engine->polls, true);
	list_for_each_entry_safe(watch, next, &engine->watches, entry) {
		rox_watch_end(watch);
		cond_resched();
		if (host)
			rox_watch_hand_over(engine, watch, host);
		else if (!watch->more && (ended <= ROX_STINT_IDLE ||
					  (ended == ROX_STINT_WHOLE && !watch->useful)))
			rox_watch_forget(engine, watch);
	}
	list_rotate_left(&engine->watches);
	return host ? ROX_STINT_IDLE : ended;
}

/* ---- the thread ---- */

/*
 * Takes over the cgroups, the CPUs and the nice value of the owner.
 * Return: 0, or an error: it must not work.
 */
static int rox_engine_follow(struct rox_engine *engine)
{
	struct task_struct *next = xchg(&engine->next_owner, NULL);
	cpumask_var_t cpus;
	int err;

	if (next) {
		if (engine->owner)
			put_task_struct(engine->owner);
		WRITE_ONCE(engine->owner, next);
	}
	err = cgroup_attach_task_all(engine->owner, current);
	if (err)
		return err;
	if (!alloc_cpumask_var(&cpus, GFP_KERNEL))
		return -ENOMEM;
	cpumask_copy(cpus, engine->owner->cpus_ptr);
	err = set_cpus_allowed_ptr(current, cpus);
	free_cpumask_var(cpus);
	set_user_nice(current, task_nice(engine->owner));
	return err;
}

/*
 * Where CPUs share no cache, as in many VMs, the scheduler wakes a thread on the CPU that it had
 * last, although another one is idle. If a task runs there, the thread moves on to any other CPU of
 * the program but that of the doorbells.
 */
static void rox_engine_move_on(const struct rox_engine *engine)
{
	int here = raw_smp_processor_id();
	cpumask_var_t cpus;
	bool home;

	if (single_task_running() || !alloc_cpumask_var(&cpus, GFP_KERNEL))
		return;
	cpumask_copy(cpus, current->cpus_ptr);
	home = cpumask_test_and_clear_cpu(engine->cpu, cpus);
	cpumask_clear_cpu(here, cpus);
	if (cpumask_intersects(cpus, cpu_online_mask) && !set_cpus_allowed_ptr(current, cpus)) {
		cpumask_set_cpu(here, cpus);
		if (home)
			cpumask_set_cpu(engine->cpu, cpus);
		set_cpus_allowed_ptr(current, cpus);
	}
	free_cpumask_var(cpus);
}

/* Must the thread follow its task: to a new one, or to its cgroups, CPUs or nice value? */
static bool rox_engine_astray(const struct rox_engine *engine)
{
	struct task_struct *owner = engine->owner;

	return READ_ONCE(engine->next_owner) ||
	       (owner && !READ_ONCE(owner->exit_state) && rox_task_moved(current, owner));
}

/* Polls as long as there are queues. Return: false if there was no stint, only starts in vain. */
static bool rox_engine_serve(struct rox_engine *engine)
{
	bool vain = false, useful = false, goes_on;

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
		if (goes_on && rox_engine_astray(engine) && rox_engine_follow(engine))
			break;
	} while (goes_on);
	return useful || !vain;
}

/* Lets all queues go that want to join or have not left; they use doorbells. */
static void rox_engine_dismiss(struct rox_engine *engine)
{
	struct rox_watch *watch, *next;

	mutex_lock(&engine->lock);
	rox_engine_take(engine, &engine->watches);
	list_for_each_entry_safe(watch, next, &engine->watches, entry) {
		if (watch->more)
			queue_work(rox_wq, &rox_watch_qp(watch)->send.side.work);
		rox_watch_forget(engine, watch);
	}
	mutex_unlock(&engine->lock);
}

static void rox_engine_work(struct rox_engine *engine)
{
	bool served = false;

	WRITE_ONCE(engine->awake, true);
	if (!rox_engine_astray(engine) || !rox_engine_follow(engine)) {
		rox_engine_move_on(engine);
		served = rox_engine_serve(engine);
	}
	WRITE_ONCE(engine->awake, false);
	WRITE_ONCE(engine->polls, false);
	rox_engine_dismiss(engine);
	if (served) {
		engine->vain = 0;
		return;
	}
	WRITE_ONCE(engine->rest, jiffies + (ROX_ENGINE_REST << engine->vain));
	engine->vain = min(engine->vain + 1, ROX_ENGINE_RESTS);
}

static int rox_engine_thread(void *data)
{
	struct rox_engine *engine = data;
	long left = ROX_ENGINE_HOME;

	while (!kthread_should_stop()) {
		set_current_state(TASK_IDLE);
		if (llist_empty(&engine->joining) && list_empty_careful(&engine->watches) &&
		    !kthread_should_stop()) {
			left = schedule_timeout(left);
			if (!left) {
				/* Idle for long: go to the root cgroup, then wait for ever. */
				cgroup_attach_task_all(&init_task, current);
				left = MAX_SCHEDULE_TIMEOUT;
			}
			continue;
		}
		__set_current_state(TASK_RUNNING);
		rox_engine_work(engine);
		left = ROX_ENGINE_HOME;
	}
	return 0;
}

/* Return: the thread, made if there is none, or NULL. The program's task; may sleep. */
static struct task_struct *rox_engine_task(struct rox_engine *engine)
{
	struct task_struct *task;

	/* Pairs with the release below: the thread was made before it is seen. */
	task = smp_load_acquire(&engine->task);
	if (likely(task))
		return task;
	mutex_lock(&engine->make_lock);
	if (!engine->task) {
		task = kthread_create(rox_engine_thread, engine, "rox_engine/%d",
				      task_tgid_nr(current));
		if (!IS_ERR(task))
			/* Pairs with the acquire above. */
			smp_store_release(&engine->task, task);
	}
	mutex_unlock(&engine->make_lock);
	return engine->task;
}

/* A queue joins: wakes the thread, which works for the current task. */
static void rox_engine_start(struct rox_engine *engine)
{
	struct task_struct *task = rox_engine_task(engine), *old;

	if (unlikely(!task)) {
		rox_engine_dismiss(engine);
		WRITE_ONCE(engine->rest, jiffies + HZ);
		return;
	}
	if (!READ_ONCE(engine->owner) || rox_task_moved(task, current)) {
		old = xchg(&engine->next_owner, get_task_struct(current));
		if (old)
			put_task_struct(old);
	}
	wake_up_process(task);
}

/* ---- doorbells ---- */

u64 rox_engine_clock(const struct rox_qp *qp)
{
	const struct rox_engine *engine = raw_cpu_ptr(qp->engines->cpu);

	if (READ_ONCE(engine->awake) || !rox_spell_times(&engine->spell, jiffies))
		return 0;
	return ktime_get_ns();
}

/* Counts a doorbell. @begin: its start, or 0. Return: true if the engine is to start. */
static bool rox_engine_wakes(struct rox_engine *engine, u64 begin)
{
	u64 took = begin ? ktime_get_ns() - begin : 0;
	unsigned long now = jiffies;

	if (likely(!rox_spell_ring(&engine->spell, now, took, rox_engine_spin_us(engine))))
		return false;
	return num_online_cpus() > 1 && current->nr_cpus_allowed > 1 &&
	       !time_before(now, READ_ONCE(engine->rest));
}

/*
 * Should the program ring less, because of what the calls themselves cost? If it rings while the
 * engine is awake, the engine waits for a CPU.
 */
static bool rox_rings_are_dear(const struct rox_engine *engine)
{
	return READ_ONCE(engine->awake) ||
	       rox_late_pays(READ_ONCE(engine->spell.rings), rox_spell_jiffies(&engine->spell));
}

void rox_engine_rung(struct rox_qp *qp, u64 begin)
{
	/* A task that is moved to another CPU here was on this one just before. */
	struct rox_engine *engine = raw_cpu_ptr(qp->engines->cpu);
	struct rox_watch *watch = &qp->send.watch;

	bool wakes = READ_ONCE(engine->awake) || rox_engine_wakes(engine, begin);

	if (engine->of->late) {
		WRITE_ONCE(qp->send.late.rung, true);
		if (rox_rings_are_dear(engine))
			rox_late_begin(qp);
	}
	if (likely(!wakes))
		return;
	if (!rox_engine_spin_us(engine) || rt_task(current) || dl_task(current) ||
	    test_and_set_bit(0, &watch->joined))
		return;
	watch->engine = engine;
	llist_add(&watch->join, &engine->joining);
	rox_engine_start(engine);
}

/* Return: the engine that has the queue, locked. */
static struct rox_engine *rox_watch_lock(struct rox_engines *of, const struct rox_watch *watch)
{
	struct rox_engine *engine;

	for (;;) {
		spin_lock(&of->lock);
		engine = watch->engine;
		spin_unlock(&of->lock);
		atomic_inc(&engine->leaving);
		mutex_lock(&engine->lock);
		atomic_dec(&engine->leaving);
		/* It hands the queue over with this lock. */
		if (likely(READ_ONCE(watch->engine) == engine))
			return engine;
		mutex_unlock(&engine->lock);
	}
}

void rox_engine_leave(struct rox_qp *qp)
{
	struct rox_watch *watch = &qp->send.watch;
	struct rox_engine *engine;

	/* Pairs with the clearing of the bit, which is the engine's last access. */
	if (!smp_load_acquire(&watch->joined))
		return;
	engine = rox_watch_lock(qp->engines, watch);
	/* If the queue was still joining, this takes it in first. */
	rox_engine_take(engine, &engine->watches);
	if (test_bit(0, &watch->joined))
		rox_watch_forget(engine, watch);
	/* The thread may have found nothing while those that join were between the lists. */
	if (!list_empty(&engine->watches) && READ_ONCE(engine->task))
		wake_up_process(engine->task);
	mutex_unlock(&engine->lock);
}

/* ---- life ---- */

static void rox_engine_init(struct rox_engine *engine, struct rox_engines *of, int cpu)
{
	engine->of = of;
	engine->cpu = cpu;
	mutex_init(&engine->make_lock);
	mutex_init(&engine->lock);
	INIT_LIST_HEAD(&engine->watches);
	init_llist_head(&engine->joining);
	engine->stint_ns = ROX_STINT_NS;
	engine->rest = jiffies;
}

struct rox_engines *rox_engines_alloc(struct rox_dev *dev, bool late)
{
	struct rox_engines *engines;
	int cpu;

	engines = kzalloc(sizeof(*engines), ROX_GFP_USER);
	if (!engines)
		return NULL;
	engines->dev = dev;
	spin_lock_init(&engines->lock);
	engines->late = late && rox_call_us();
	engines->cpu = alloc_percpu_gfp(struct rox_engine, ROX_GFP_USER);
	if (!engines->cpu) {
		kfree(engines);
		return NULL;
	}
	for_each_possible_cpu(cpu)
		rox_engine_init(per_cpu_ptr(engines->cpu, cpu), engines, cpu);
	return engines;
}

void rox_engines_free(struct rox_engines *engines)
{
	struct rox_engine *engine;
	int cpu;

	if (!engines)
		return;
	for_each_possible_cpu(cpu) {
		engine = per_cpu_ptr(engines->cpu, cpu);
		if (engine->task)
			kthread_stop(engine->task);
		if (engine->owner)
			put_task_struct(engine->owner);
		if (engine->next_owner)
			put_task_struct(engine->next_owner);
	}
	free_percpu(engines->cpu);
	kfree(engines);
}
