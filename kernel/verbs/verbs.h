/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The verbs objects and how the transport uses them.
 */
#ifndef ROX_VERBS_H
#define ROX_VERBS_H

#include "../rox.h"
#include "../ring/ring.h"
#include "../net/net.h"
#include "../transport/transport.h"
#include "mr.h"

/* ---- context and mmap (verbs/context.c) ---- */

struct rox_ucontext {
	struct ib_ucontext ibuc;
};

/**
 * struct rox_mmap_entry - an area that a process may map: one rox_ring_mem
 * @entry: the RDMA core's object
 * @mem: the area
 * @withdrawn: completed when no mmap() uses the entry any more, if not NULL
 */
struct rox_mmap_entry {
	struct rdma_user_mmap_entry entry;
	struct rox_ring_mem mem;
	struct completion *withdrawn;
};

static inline struct rox_ucontext *to_rox_ucontext(struct ib_ucontext *uc)
{
	return container_of(uc, struct rox_ucontext, ibuc);
}

int rox_alloc_ucontext(struct ib_ucontext *uc, struct ib_udata *udata);
void rox_dealloc_ucontext(struct ib_ucontext *uc);
void rox_disassociate_ucontext(struct ib_ucontext *uc);
int rox_mmap(struct ib_ucontext *uc, struct vm_area_struct *vma);
void rox_mmap_free(struct rdma_user_mmap_entry *entry);
/* Offers @mem to @uc; fills @map. NULL on no memory. */
struct rdma_user_mmap_entry *rox_mmap_offer(struct ib_ucontext *uc, const struct rox_ring_mem *mem,
					    struct rox_mapping *map);
/*
 * Takes the offer back: call it instead of rdma_user_mmap_entry_remove(), and
 * before the memory is freed, which a concurrent mmap() may be using until
 * this returns. Pages that are mapped stay with the process. NULL is ignored.
 */
void rox_mmap_withdraw(struct rdma_user_mmap_entry *entry);

/* ---- PD, AH ---- */

struct rox_pd {
	struct ib_pd ibpd;
};

/**
 * struct rox_ah - what an address handle leads to; freed by RCU after the last reference
 * @path: resolved
 * @pd: only QPs of this PD may use it
 * @index: its name in WQEs
 * @ref: one for the table, one for each WQE that is being sent through it
 * @rcu: for freeing after the table's readers
 */
struct rox_ah {
	struct rox_path path;
	struct ib_pd *pd;
	u32 index;
	refcount_t ref;
	struct rcu_head rcu;
};

/**
 * struct rox_ib_ah - the RDMA core's object
 * @ibah: must be first
 * @ah: may outlive it
 * @attr: as created, for query
 */
struct rox_ib_ah {
	struct ib_ah ibah;
	struct rox_ah *ah;
	struct rdma_ah_attr attr;
};

static inline struct rox_ib_ah *to_rox_ib_ah(struct ib_ah *ibah)
{
	return container_of(ibah, struct rox_ib_ah, ibah);
}

void rox_ah_table_init(struct rox_dev *dev);
void rox_ah_table_destroy(struct rox_dev *dev);
/* Any context. NULL if there is no such AH or it is not of @pd. */
struct rox_ah *rox_ah_get(struct rox_dev *dev, u32 index, struct ib_pd *pd);
void rox_ah_put(struct rox_ah *ah);
/* For the completions of the GSI QP. 0 if @addr, one of our own, is on no VLAN. Any context. */
u16 rox_gid_vlan(struct rox_dev *dev, const struct in6_addr *addr);

/* ---- CQ (verbs/cq.c) ---- */

/**
 * struct rox_cq - completion queue
 * @ibcq: the RDMA core's object
 * @lock: protects @ring and, for kernel users, its consumer end
 * @mem: the memory of @ring
 * @ring: producer end
 * @entry: offered to the process, or NULL for a kernel CQ
 * @flags: enum rox_cq_flags
 * @error: overflowed; nothing is added any more
 * @resize_lock: one resize at a time
 * @waited_for: the program has armed the CQ at least once
 * @solicited: producer index behind the last completion that counts as solicited
 * @late_arm: looks for a CQ that was armed when it was not empty, and ends @deferred
 * @handling: calls a kernel user's completion handler
 * @due: it is to be called
 * @mod_count: moderation: completions that an event may wait for; 0 if there is none
 * @mod_period: moderation: microseconds that an event may wait
 * @deferred: completions since the one for which the event that is waiting was due
 *
 * A completion is only ever added by a context that keeps a QP of this CQ from
 * being destroyed, so that none can come when the CQ is destroyed.
 */
struct rox_cq {
	struct ib_cq ibcq;
	spinlock_t lock;	/* @ring */
	struct rox_ring_mem mem;
	struct rox_ring ring;
	struct rdma_user_mmap_entry *entry;
	u32 flags;
	bool error;
	struct mutex resize_lock;	/* one resize at a time */
	bool waited_for;
	u32 solicited;
	struct hrtimer late_arm;
	struct tasklet_struct handling;
	atomic_t due;
	u16 mod_count;
	u16 mod_period;
	u32 deferred;
};

static inline struct rox_cq *to_rox_cq(struct ib_cq *ibcq)
{
	return container_of(ibcq, struct rox_cq, ibcq);
}

/* In a CQE, where enum ibv_wc_flags has it at another place than enum ib_wc_flags. */
#define ROX_CQE_WITH_INV BIT(3)

/**
 * rox_cq_add() - adds a completion and raises the event if one is armed
 * @cq: the queue
 * @cqe: copied; timestamps are filled in here
 * @solicited: counts as solicited (a solicited receive); errors always do
 *
 * Any context but hard interrupts; takes only @cq->lock (irqsave). A program is
 * woken outside of it, a kernel user's handler is called by a softirq.
 * Return: 0, or -EOVERFLOW if the CQ is in error: IBV_EVENT_CQ_ERR has been
 * raised once, and the caller moves its QP to ERR with IBV_EVENT_QP_FATAL.
 */
int rox_cq_add(struct rox_cq *cq, const struct rox_cqe *cqe, bool solicited);

/* Waits until the handler has been called for all completions so far. Process context. */
void rox_cq_settle(struct rox_cq *cq);

/* ---- XRC domains (verbs/xrc.c) ---- */

struct rox_xrcd {
	struct ib_xrcd ibxrcd;
};

/* ---- SRQ (verbs/srq.c) ---- */

/**
 * struct rox_srq - shared receive queue
 * @ibsrq: the RDMA core's object
 * @lock: protects @ring (the consumer end) and @limit
 * @post_lock: kernel users: serialises post_srq_recv
 * @mem: the memory of @ring
 * @ring: receive WQEs
 * @entry: offered to the process, or NULL
 * @max_sge: of one WQE
 * @limit: SRQ limit, 0 if not armed
 * @error: its indices were corrupted
 * @resize_lock: one resize at a time
 * @xsrq: XRC: its number and reference count, else NULL
 * @gone: XRC: completed when there are no references any more
 */
struct rox_srq {
	struct ib_srq ibsrq;
	spinlock_t lock;	/* @ring's consumer end, @limit, @error */
	spinlock_t post_lock;	/* @ring's producer end, kernel users */
	struct rox_ring_mem mem;
	struct rox_ring ring;
	struct rdma_user_mmap_entry *entry;
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
 * struct rox_xsrq - how requests find an XRC SRQ; outlives it by an RCU grace period
 * @srq: valid while @ref is not 0
 * @name: its number, and what tells it from others that had the number before
 * @ref: one for the table, one for each run that uses it; destroy waits for 0
 * @rcu: for freeing after the table's readers
 */
struct rox_xsrq {
	struct rox_srq *srq;
	struct rox_srq_name name;
	refcount_t ref;
	struct rcu_head rcu;
};

void rox_xsrq_table_init(struct rox_dev *dev);
void rox_xsrq_table_destroy(struct rox_dev *dev);
int rox_xsrq_reserve(struct rox_srq *srq);
/* Gives the number of an SRQ back that was never published. */
void rox_xsrq_cancel(struct rox_srq *srq);
int rox_xsrq_publish(struct rox_srq *srq);
void rox_xsrq_unpublish(struct rox_srq *srq);
/* Any context. The SRQ with a reference; NULL if there is none of that number in @xrcd. */
struct rox_srq *rox_xsrq_get(struct rox_dev *dev, u32 num, const struct ib_xrcd *xrcd);
void rox_xsrq_put(struct rox_srq *srq);

/* A receive WQE as taken from an RQ or SRQ: the kernel's own, validated copy. */
struct rox_recv {
	u64 wr_id;
	u32 num_sge;
	u32 length;	/* sum of the SGEs, saturated */
	struct rox_sge sge[ROX_MAX_SGE];
};

/**
 * rox_rq_take() - takes the oldest receive WQE of a ring
 * @ring: RQ or SRQ; the caller holds its lock
 * @max_sge: limit of the queue
 * @recv: filled
 *
 * Return: 1 taken, 0 empty, -EPROTO corrupted indices, -EINVAL the WQE is bad
 * (num_sge above the limit): it was taken and @recv->wr_id is valid.
 */
int rox_rq_take(struct rox_ring *ring, u32 max_sge, struct rox_recv *recv);
/* The same from an SRQ: takes its lock and raises IB_EVENT_SRQ_LIMIT_REACHED / IB_EVENT_SRQ_ERR. */
int rox_srq_take(struct rox_srq *srq, struct rox_recv *recv);
/* Kernel post_recv into a ring that the kernel produces and consumes. 0, -ENOMEM full, -EINVAL. */
int rox_rq_post(struct rox_ring *ring, u32 max_sge, const struct ib_recv_wr *wr);

/* ---- QP (verbs/qp.c) ---- */

/**
 * struct rox_qp_slot - how the table finds a QP; outlives it by an RCU grace period
 * @qp: valid while @ref is not 0
 * @dev: its device
 * @ref: one for the table, one for each user; destroy waits for 0
 * @rcu: for freeing after the table's readers
 *
 * The RDMA core frees a QP as soon as destroy returns. With the reference count
 * outside of it, destroy need not wait for a grace period.
 */
struct rox_qp_slot {
	struct rox_qp *qp;
	struct rox_dev *dev;
	refcount_t ref;
	struct rcu_head rcu;
};

/**
 * struct rox_qp - queue pair
 * @ibqp: the RDMA core's object; qp_num is unique in the module
 * @dev: the device
 * @slot: its reference count, and how it is found
 * @gone: completed when there are no references any more
 * @modify_lock: one modify at a time
 * @user: created by a process
 * @service: enum rox_service of its packets
 * @sq_sig_all: every send WQE is signalled
 * @block_mcast_self: wants no multicast packets that it has sent itself
 * @cap: as created
 * @counters: what counts this QP: the device's, or a set that it is bound to
 * @state_lock: innermost; protects @state, @sq_draining and @attr against the
 *	transport's own transitions
 * @state: read with rox_qp_state() anywhere
 * @sq_draining: SQD: waiting for outstanding sends
 * @sq_drained_event: SQD: raise IBV_EVENT_SQ_DRAINED then
 * @attr: what modify has set (timeout, retry_cnt, rnr_retry, min_rnr_timer,
 *	max_rd_atomic, max_dest_rd_atomic, qkey, pkey_index, dest_qp_num, ...)
 * @path: RC and UC: the primary path
 * @mem: memory of both rings
 * @entry: offered to the process, or NULL
 * @sq: consumer end of the send ring; sq side lock
 * @rq: consumer end of the receive ring; rq side lock
 * @sq_post_lock: kernel users: serialises post_send
 * @rq_post_lock: kernel users: serialises post_recv
 * @send: requester and completer (transport/)
 * @recv: responder (transport/)
 */
struct rox_qp {
	struct ib_qp ibqp;
	struct rox_dev *dev;
	struct rox_qp_slot *slot;
	struct completion gone;
	struct mutex modify_lock;	/* one modify at a time */
	bool user;
	u8 service;
	bool sq_sig_all;
	bool block_mcast_self;
	struct ib_qp_cap cap;
	struct rox_counters __percpu *counters;

	spinlock_t state_lock;	/* @state, @sq_draining, @attr */
	enum ib_qp_state state;
	bool sq_draining;
	bool sq_drained_event;
	struct ib_qp_attr attr;
	struct rox_path path;
	u32 mtu;		/* path MTU in bytes */
	const u16 *pkey;	/* entry attr.pkey_index of the table; READ_ONCE() */

	struct rox_ring_mem mem;
	struct rdma_user_mmap_entry *entry;
	struct rox_ring sq;
	struct rox_ring rq;
	spinlock_t sq_post_lock;	/* @sq's producer end, kernel users */
	spinlock_t rq_post_lock;	/* @rq's producer end, kernel users */

	struct rox_send send;
	struct rox_resp recv;
};

static inline struct rox_qp *to_rox_qp(struct ib_qp *ibqp)
{
	return container_of(ibqp, struct rox_qp, ibqp);
}

static inline enum ib_qp_state rox_qp_state(const struct rox_qp *qp)
{
	return READ_ONCE(qp->state);
}

static inline struct rox_cq *rox_qp_scq(const struct rox_qp *qp)
{
	return to_rox_cq(qp->ibqp.send_cq);
}

static inline struct rox_cq *rox_qp_rcq(const struct rox_qp *qp)
{
	return to_rox_cq(qp->ibqp.recv_cq);
}

/*
 * Any context. The QP with a reference, or NULL. QPN 1 is @dev's GSI QP, and
 * other QPs must be of @dev too, unless it is NULL.
 */
struct rox_qp *rox_qp_get(struct rox_dev *dev, u32 qpn);
void rox_qp_put(struct rox_qp *qp);

/* One more reference, by somebody who has one. */
static inline void rox_qp_hold(struct rox_qp *qp)
{
	refcount_inc(&qp->slot->ref);
}

/* Raises an affiliated asynchronous event; any context. */
void rox_qp_event(struct rox_qp *qp, enum ib_event_type event);
int rox_qp_table_init(void);
void rox_qp_table_exit(void);

/* kernel users */
int rox_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		  const struct ib_send_wr **bad_wr);
int rox_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		  const struct ib_recv_wr **bad_wr);

/* ---- what verbs/device.c puts into rox_verbs_ops (MRs: mr.h); newest signatures ---- */

struct uverbs_attr_bundle;

int rox_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata);
int rox_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata);

int rox_alloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata);
int rox_dealloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata);

int rox_create_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *init, struct ib_udata *udata);
int rox_modify_ah(struct ib_ah *ibah, struct rdma_ah_attr *attr);
int rox_query_ah(struct ib_ah *ibah, struct rdma_ah_attr *attr);
int rox_destroy_ah(struct ib_ah *ibah, u32 flags);

int rox_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		  struct uverbs_attr_bundle *attrs);
int rox_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata);
int rox_resize_cq(struct ib_cq *ibcq, unsigned int cqe, struct ib_udata *udata);
int rox_modify_cq(struct ib_cq *ibcq, u16 count, u16 period);
int rox_poll_cq(struct ib_cq *ibcq, int num, struct ib_wc *wc);
int rox_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags);

int rox_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *init, struct ib_udata *udata);
int rox_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr, enum ib_srq_attr_mask mask,
		   struct ib_udata *udata);
int rox_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr);
int rox_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata);
int rox_post_srq_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
		      const struct ib_recv_wr **bad_wr);

int rox_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *init, struct ib_udata *udata);
int rox_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask, struct ib_udata *udata);
int rox_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		 struct ib_qp_init_attr *init);
int rox_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata);

int rox_attach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid);
int rox_detach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid);
/* Has @qp itself sent this multicast packet? Any context. */
bool rox_mcast_is_own(const struct rox_qp *qp, const struct rox_pkt *pkt);

extern const struct ib_device_ops rox_verbs_ops;	/* all but observe's */

#endif /* ROX_VERBS_H */
