/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Completion queues, receive queues and address handles as the data path uses them. Included by
 * transport.h.
 */
#ifndef ROX_TRANSPORT_QUEUES_H
#define ROX_TRANSPORT_QUEUES_H

#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <linux/smp.h>
#include "device.h"
#include "../ring/ring.h"

/* ---- address handles (table.c) ---- */

/**
 * struct rox_ah - the path that an address handle stands for; freed by RCU after the last reference
 * @path: resolved
 * @pd: only QPs of this PD may use it
 * @index: its index in WQEs
 * @ref: one reference for the table, one for each WQE until it completes
 * @rcu: frees the AH after the readers of the table
 */
struct rox_ah {
	struct rox_path path;
	struct ib_pd *pd;
	u32 index;
	refcount_t ref;
	struct rcu_head rcu;
};

/* Any context. Return: the AH with a reference, or NULL if there is none or it is of another PD. */
struct rox_ah *rox_ah_get(struct rox_dev *dev, u32 index, struct ib_pd *pd);
/* Any context. Puts a reference from rox_ah_get(). */
void rox_ah_put(struct rox_ah *ah);

/* ---- CQ (completion.c) ---- */

/**
 * struct rox_cq - completion queue
 * @ibcq: the RDMA core's object
 * @lock: protects @ring; for kernel users also its consumer end
 * @mem: the memory of @ring
 * @ring: producer end
 * @user: created by a process
 * @flags: enum rox_cq_flags
 * @error: the CQ has overflowed; nothing more is added
 * @ignore_overrun: a completion that finds the CQ full is dropped, and the CQ stays usable
 * @resize_lock: serialises resize_cq
 * @waited_for: an event was raised once, so the program waits for events
 * @event_consumer: consumer index when the last event was raised
 * @solicited: producer index after the last solicited completion
 * @seen_armed: the timer has found the CQ armed and not empty
 * @seen_producer: producer index then
 * @seen_consumer: consumer index then
 * @look_ns: from that look to the next one
 * @late_arm: timer: raises the event of a CQ that was armed while not empty, and ends
 *	moderation
 * @handling: tasklet that calls the completion handler of a kernel user
 * @due: the handler has to be called
 * @cpu: CPU of the completion vector, on which the handler is called
 * @csd: interrupts @cpu to schedule @handling
 * @raised: enum rox_cq_raised: state of @csd
 * @raising: schedules @handling on @cpu, on PREEMPT_RT
 * @mod_count: moderation: number of completions for one event; 0: no moderation
 * @mod_period: moderation: longest delay of an event, in microseconds
 * @deferred: moderation: completions since the delay of the event began
 * @sleepers: threads in rox_cq_wait()
 *
 * Whoever adds a completion keeps a QP of this CQ from being destroyed. So none is added while
 * the CQ is destroyed.
 */
struct rox_cq {
	struct ib_cq ibcq;
	spinlock_t lock;	/* @ring */
	struct rox_ring_mem mem;
	struct rox_ring ring;
	bool user;
	u32 flags;
	bool error;
	bool ignore_overrun;
	struct mutex resize_lock;	/* one resize at a time */
	bool waited_for;
	u32 event_consumer;
	u32 solicited;
	bool seen_armed;
	u32 seen_producer;
	u32 seen_consumer;
	u32 look_ns;
	struct hrtimer late_arm;
	struct tasklet_struct handling;
	atomic_t due;
	int cpu;
	call_single_data_t csd;
	atomic_t raised;
	struct work_struct raising;
	u16 mod_count;
	u16 mod_period;
	u32 deferred;
	wait_queue_head_t sleepers;
};

static inline struct rox_cq *to_rox_cq(struct ib_cq *ibcq)
{
	return container_of(ibcq, struct rox_cq, ibcq);
}

/* wc_flags of a CQE have the value of IBV_WC_WITH_INV, which IB_WC_WITH_INVALIDATE has not. */
#define ROX_CQE_WITH_INV BIT(3)

/**
 * rox_cq_add() - adds a completion and raises the event if one is armed
 * @cq: the queue
 * @cqe: copied; timestamps are filled in here
 * @solicited: a solicited receive; a completion with an error always counts as solicited
 *
 * Any context but hard interrupts. Takes only @cq->lock (irqsave), and wakes a program after
 * that. A softirq calls the handler of a kernel user.
 * Return: 0, or -EOVERFLOW if the CQ is in error. IB_EVENT_CQ_ERR is raised once. The caller
 * moves its QP to ERR with IB_EVENT_QP_FATAL.
 */
int rox_cq_add(struct rox_cq *cq, const struct rox_cqe *cqe, bool solicited);

/**
 * rox_cq_arm() - asks for the next event
 * @cq: the CQ
 * @arm: ROX_RING_ARM_NEXT or ROX_RING_ARM_SOLICITED
 * @reports: the caller looks at the result. Else a kernel user gets the event at once, as from an
 *	adapter, for completions that it has not polled yet
 *
 * Any context. Return: true if there are such completions.
 */
bool rox_cq_arm(struct rox_cq *cq, u32 arm, bool reports);

/* rox_cq_wait() ends after this time at the latest. */
#define ROX_CQ_MOST_WAIT_NS (10 * NSEC_PER_MSEC)

/**
 * rox_cq_wait() - sleeps while the CQ has nothing to poll
 * @cq: a program's CQ, which the caller keeps from being destroyed
 * @ns: how long at most
 *
 * Process context. Return: 0 if there is a completion, the CQ is in error, or the time is over;
 * -EINTR for a signal.
 */
int rox_cq_wait(struct rox_cq *cq, u32 ns);

#define ROX_ARM_BITS (ROX_RING_ARM_SOLICITED | ROX_RING_ARM_NEXT)

/* Initialises the lock, timer and tasklet of a new CQ. @vector chooses the CPU for its handler. */
void rox_cq_init(struct rox_cq *cq, unsigned int vector);
/* Stops the timer and the handler of a CQ to which nothing is added. Process context, sleeps. */
void rox_cq_stop(struct rox_cq *cq);
/* Sets the moderation and raises an event that is delayed. */
void rox_cq_moderate(struct rox_cq *cq, u16 count, u16 period);
/* Waits until handler calls that are scheduled have ended. Process context, sleeps. */
void rox_cq_settle(struct rox_cq *cq);

/* ---- SRQ (recvq.c, table.c) ---- */

/**
 * struct rox_srq - shared receive queue
 * @ibsrq: the RDMA core's object
 * @lock: protects @ring (the consumer end), @limit and @error
 * @post_lock: kernel users: serialises post_srq_recv
 * @mem: the memory of @ring
 * @ring: receive WQEs
 * @user: created by a process
 * @max_sge: maximum number of SGEs of a WQE
 * @limit: SRQ limit, 0 if not armed
 * @error: the indices of @ring were corrupted
 * @resize_lock: serialises resizes
 * @xsrq: XRC: its number and reference count, else NULL
 * @gone: XRC: completed when the last reference is put
 */
struct rox_srq {
	struct ib_srq ibsrq;
	spinlock_t lock;	/* @ring's consumer end, @limit, @error */
	spinlock_t post_lock;	/* @ring's producer end, kernel users */
	struct rox_ring_mem mem;
	struct rox_ring ring;
	bool user;
	u32 max_sge;
	u32 limit;
	bool error;
	struct mutex resize_lock;	/* one resize at a time */
	struct rox_xsrq *xsrq;
	struct completion gone;
};

static inline struct rox_srq *to_rox_srq(struct ib_srq *ibsrq)
{
	return container_of(ibsrq, struct rox_srq, ibsrq);
}

/**
 * struct rox_srq_name - an XRC SRQ that a request has named and that may be gone
 * @num: its number
 * @id: unique: a later SRQ with the same number has another one
 */
struct rox_srq_name {
	u32 num;
	u64 id;
};

/**
 * struct rox_xsrq - table entry of an XRC SRQ; outlives the SRQ by an RCU grace period
 * @srq: valid while @ref is not 0
 * @name: its number, and the id that tells it from former SRQs with that number
 * @ref: one reference for the table, one for each run that uses it; destroy waits for 0
 * @rcu: frees the entry after the readers of the table
 */
struct rox_xsrq {
	struct rox_srq *srq;
	struct rox_srq_name name;
	refcount_t ref;
	struct rcu_head rcu;
};

/* Any context. Return: the SRQ with a reference, or NULL if @xrcd has none of that number. */
struct rox_srq *rox_xsrq_get(struct rox_dev *dev, u32 num, const struct ib_xrcd *xrcd);
/* Any context. Puts a reference from rox_xsrq_get(). */
void rox_xsrq_put(struct rox_srq *srq);

/* The kernel's validated copy of a receive WQE. */
struct rox_recv {
	u64 wr_id;
	u32 num_sge;
	u32 length;	/* sum of the SGEs, saturated */
	struct rox_sge sge[ROX_MAX_SGE];
};

/**
 * rox_rq_take() - takes the oldest receive WQE of a ring
 * @ring: RQ or SRQ; the caller has its lock
 * @max_sge: maximum number of SGEs
 * @least: bytes that there must be room for
 * @recv: filled in
 *
 * Return: 1: taken; 0: the ring is empty; -EPROTO: its indices are corrupted; -EINVAL: the WQE was
 * taken but is invalid (too many SGEs, or a reserved field is not 0), and @recv->wr_id is valid;
 * -EMSGSIZE: the WQE has less room and stays.
 */
int rox_rq_take(struct rox_ring *ring, u32 max_sge, u32 least, struct rox_recv *recv);
/* As rox_rq_take(). Takes the lock, and raises IB_EVENT_SRQ_LIMIT_REACHED or IB_EVENT_SRQ_ERR. */
int rox_srq_take(struct rox_srq *srq, u32 least, struct rox_recv *recv);
/* Arms the SRQ limit (recvq.c). Return: 0 or -EINVAL. */
int rox_srq_arm(struct rox_srq *srq, u32 limit);

#endif /* ROX_TRANSPORT_QUEUES_H */
