// SPDX-License-Identifier: GPL-2.0
/*
 * Received frames are queued first. Then each side that has got some runs once for all of them, so
 * that it sends one ACK and raises one event for the run.
 *
 * The first frames in a softirq may be the only ones: their sides run at once. The sides of later
 * frames run in a tasklet, which comes after the poll of the netdev. It is for what comes in
 * numbers: a message has two or three frames, and an ACK. Where the end of a message wakes a
 * program, the tasklet would wait for another thread, ksoftirqd.
 */
#include <linux/interrupt.h>
#include <linux/llist.h>
#include "internal.h"

/* So many sides run in one call; workers run the rest. */
#define ROX_SOON_RUNS 64

/* So often sides run at once in a softirq. */
#define ROX_SOON_TURNS 3

/**
 * struct rox_soon - sides of a CPU that have got frames, or need not wait any more
 * @sides: struct rox_side by soon; each with a reference on its QP
 * @softirq: the softirq whose frames are counted; see rox_softirq_number()
 * @turns: how often sides may still run at once in it
 * @went_on: they did in the middle of a request
 * @goes_on: the last frame that was queued ends in the middle of a message
 * @request: that message is a request
 * @tasklet: runs the sides. It may run on another CPU when this one goes offline
 */
struct rox_soon {
	struct llist_head sides;
	unsigned int softirq;
	unsigned int turns;
	bool went_on;
	bool goes_on;
	bool request;
	struct tasklet_struct tasklet;
};

static DEFINE_PER_CPU(struct rox_soon, rox_soons);

static void rox_soon_run(struct rox_soon *cpu)
{
	struct llist_node *list = llist_reverse_order(llist_del_all(&cpu->sides));
	int budget = ROX_SOON_RUNS;
	struct rox_side *side, *next;

	llist_for_each_entry_safe(side, next, list, soon) {
		struct rox_qp *qp = side->qp;

		clear_bit(0, &side->listed);
		/* The bit is cleared before the side looks at its queue. */
		smp_mb__after_atomic();
		if (budget) {
			budget--;
			rox_side_kick(side, ROX_WORK_RUN);
		} else {
			rox_side_announce(side, ROX_WORK_RUN);
			rox_side_defer(side);
		}
		rox_qp_put(qp);
	}
}

static void rox_soon_tasklet(struct tasklet_struct *tasklet)
{
	rox_soon_run(container_of(tasklet, struct rox_soon, tasklet));
}

/* A QP that is being destroyed has no use for the run. Bottom halves disabled. */
static void rox_soon_add(struct rox_side *side)
{
	if (test_and_set_bit(0, &side->listed))
		return;
	if (refcount_inc_not_zero(&side->qp->slot->ref))
		llist_add(&side->soon, &this_cpu_ptr(&rox_soons)->sides);
}

/**
 * rox_transport_queue() - queues a received frame for a QP
 * @qp: the QP; the caller holds a reference
 * @skb: frame, all packets of which are for @qp and for one side; taken over
 * @request: for the responder, else for the requester
 * @goes_on: the message of the last packet goes on in packets that follow
 *
 * Bottom halves disabled. rox_transport_run() follows.
 */
void rox_transport_queue(struct rox_qp *qp, struct sk_buff *skb, bool request, bool goes_on)
{
	struct rox_side *side = request ? &qp->recv.side : &qp->send.side;
	struct rox_soon *cpu = this_cpu_ptr(&rox_soons);

	cpu->goes_on = goes_on;
	cpu->request = request;
	if (rox_side_queue(side, skb))
		rox_soon_add(side);
}

/**
 * rox_transport_cnp() - tells the send side of a QP that a CNP came
 * @qp: the QP; the caller holds a reference
 *
 * Bottom halves disabled. rox_transport_run() follows.
 */
void rox_transport_cnp(struct rox_qp *qp)
{
	this_cpu_ptr(&rox_soons)->goes_on = false;
	rox_side_announce(&qp->send.side, ROX_WORK_CNP);
	rox_soon_add(&qp->send.side);
}

void rox_sender_resume(struct rox_sender *sender)
{
	rox_soon_add(container_of(sender, struct rox_side, sender));
}

/*
 * May sides run at once in this softirq? The responses to a READ wait for the last one, as nobody
 * waits for the others; of requests one frame that does not end a message need not wait.
 */
static bool rox_soon_at_once(struct rox_soon *cpu)
{
	unsigned int softirq = rox_softirq_number();

	if (cpu->softirq != softirq) {
		cpu->softirq = softirq;
		cpu->turns = ROX_SOON_TURNS;
		cpu->went_on = false;
	}
	if (!cpu->turns || (cpu->goes_on && (cpu->went_on || !cpu->request)))
		return false;
	cpu->turns--;
	cpu->went_on |= cpu->goes_on;
	return true;
}

/**
 * rox_transport_run() - runs the sides in this CPU's list, now or soon
 *
 * Bottom halves disabled.
 */
void rox_transport_run(void)
{
	struct rox_soon *cpu = this_cpu_ptr(&rox_soons);

	if (llist_empty(&cpu->sides))
		return;
	if (in_serving_softirq() && !rox_soon_at_once(cpu))
		tasklet_schedule(&cpu->tasklet);
	else
		rox_soon_run(cpu);
}

void rox_soon_init(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		init_llist_head(&per_cpu_ptr(&rox_soons, cpu)->sides);
		tasklet_setup(&per_cpu_ptr(&rox_soons, cpu)->tasklet, rox_soon_tasklet);
	}
}

/* No QP is left, so the lists are empty. */
void rox_soon_exit(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		tasklet_kill(&per_cpu_ptr(&rox_soons, cpu)->tasklet);
}
