// SPDX-License-Identifier: GPL-2.0
/*
 * Late doorbells: one for many WQEs, where a system call is dear.
 *
 * In User Mode Linux a system call costs tens of microseconds, more than sending a message of
 * 64 KiB. An engine (engine.c) needs an idle CPU, which there often is none. So if a program rings
 * often, its doorbells may be late: the send queue has ROX_RING_WAKE_LATER beside
 * ROX_RING_NEED_WAKEUP, and the provider rings when the program polls a CQ in vain, arms one, or
 * has posted many.
 *
 * A program that does neither but sleeps, waiting for something else, would wait for ever. So while
 * doorbells may be late, a timer looks at the producer index. It sends WQEs that are there at two
 * looks. The program may only have lost its CPU to another one. But if it has not rung since the
 * timer last did so, it forgets them, and doorbells may not be late for a while. Nor may they when
 * nothing has been posted for some looks.
 *
 * No post is lost. The end of late doorbells clears @on and then sets a pending bit for one more
 * run. With a full barrier between, that run sees @on cleared, clears the flag, passes another full
 * barrier and reads the index. A program whose post it does not see finds the flag cleared.
 */
#include <linux/jiffies.h>
#include <linux/moduleparam.h>
#include "internal.h"

/* Time from one look to the next. A forgotten WQE is sent after twice that at most. */
#define ROX_LATE_LOOK_NS (1 * NSEC_PER_MSEC)
/* With so many looks in a row at which nothing was new, doorbells are on time again. */
#define ROX_LATE_IDLE 32
/* Doorbells may be late if system calls take more than this part of the time. */
#define ROX_LATE_SHARE 10
/*
 * Time for which doorbells are on time after a WQE was forgotten. It doubles each time, up to
 * ROX_LATE_RESTS times.
 */
#define ROX_LATE_REST max(HZ / 50, 1)
#define ROX_LATE_RESTS 5U

static unsigned int call_us = IS_ENABLED(CONFIG_UML) ? 40 : 0;
module_param(call_us, uint, 0644);
MODULE_PARM_DESC(call_us, "What a system call costs, in microseconds: where doorbells cost a program more than a tenth of its time, it rings one for many posts (default: 0, in User Mode Linux 40)");

u32 rox_call_us(void)
{
	return READ_ONCE(call_us);
}

static struct rox_qp *rox_late_qp(const struct rox_late *late)
{
	return container_of(late, struct rox_qp, send.late);
}

/* Has the program posted WQEs that nobody in the kernel will look at before it rings? */
static bool rox_late_waits(const struct rox_qp *qp, u32 producer)
{
	return (READ_ONCE(qp->sq.ctrl->flags) & ROX_RING_NEED_WAKEUP) &&
	       producer != READ_ONCE(qp->sq.index);
}

/* Return: true if doorbells may still be late, after this look at the ring. */
static bool rox_late_look(struct rox_late *late)
{
	struct rox_qp *qp = rox_late_qp(late);
	u32 producer = READ_ONCE(qp->sq.ctrl->producer);
	u32 index = READ_ONCE(qp->sq.index);
	bool waits = rox_late_waits(qp, producer);

	/* An engine does better. */
	if (rox_qp_state(qp) != IB_QPS_RTS || READ_ONCE(qp->send.watch.watched))
		return false;
	if (waits && late->waiting && late->index == index) {
		if (!READ_ONCE(late->rung)) {
			WRITE_ONCE(late->rest, jiffies + (ROX_LATE_REST << late->vain));
			late->vain = min(late->vain + 1, ROX_LATE_RESTS);
			return false;
		}
		WRITE_ONCE(late->rung, false);
		rox_side_kick(&qp->send.side, ROX_WORK_RUN);
		waits = false;
	}
	late->waiting = waits;
	late->index = index;
	late->idle = producer == late->seen ? late->idle + 1 : 0;
	late->seen = producer;
	if (late->idle < ROX_LATE_IDLE)
		return true;
	late->vain -= !!late->vain;
	return false;
}

static enum hrtimer_restart rox_late_timer(struct hrtimer *timer)
{
	struct rox_late *late = container_of(timer, struct rox_late, timer);

	if (rox_late_look(late)) {
		hrtimer_forward_now(timer, ns_to_ktime(ROX_LATE_LOOK_NS));
		return HRTIMER_RESTART;
	}
	/* All of @late is written. From here on rox_late_begin() may start the timer anew. */
	clear_bit_unlock(0, &late->on);
	/* Before the pending bit of the last run; see the top of the file. */
	smp_mb__after_atomic();
	rox_side_kick(&rox_late_qp(late)->send.side, ROX_WORK_RUN);
	return HRTIMER_NORESTART;
}

void rox_late_init(struct rox_late *late)
{
	late->on = 0;
	late->vain = 0;
	late->rest = jiffies;
	hrtimer_setup(&late->timer, rox_late_timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT);
}

bool rox_late_pays(u32 rings, unsigned long jiffies_)
{
	return rings * (u64)rox_call_us() * ROX_LATE_SHARE > jiffies_ * (USEC_PER_SEC / HZ);
}

void rox_late_begin(struct rox_qp *qp)
{
	struct rox_late *late = &qp->send.late;

	if (READ_ONCE(late->on) || time_before(jiffies, READ_ONCE(late->rest)) ||
	    test_and_set_bit_lock(0, &late->on))
		return;
	late->waiting = false;
	late->idle = 0;
	WRITE_ONCE(late->rung, true);
	/* The next run tells the program. */
	hrtimer_start(&late->timer, ns_to_ktime(ROX_LATE_LOOK_NS), HRTIMER_MODE_REL_SOFT);
}

void rox_late_stop(struct rox_qp *qp)
{
	hrtimer_cancel(&qp->send.late.timer);
}
