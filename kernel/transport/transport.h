/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reliable and unreliable transport of one QP.
 *
 * A QP has two sides, each with a lock of its own: the send side (requester and completer) and
 * the receive side (responder). Whoever has work for a side sets a bit in its @pending word and
 * tries to take its lock. The context that gets the lock does all pending work. A context that
 * finds the lock taken returns, because the owner sees the bit before it leaves. See
 * rox_side_run().
 */
#ifndef ROX_TRANSPORT_H
#define ROX_TRANSPORT_H

#include <linux/hrtimer.h>
#include <linux/list.h>
#include <linux/skbuff.h>
#include "device.h"
#include "queues.h"
#include "recovery.h"
#include "watch.h"

struct rox_qp;

/**
 * struct rox_side - one half of a QP, run by one context at a time
 * @busy: bit 0 is the lock. The data path only tries to take it; modify and destroy wait for
 *	it. It is a bit and not a spinlock, because the owner itself may try, which a spinlock on
 *	a one-CPU kernel does not allow
 * @dep_map: for lockdep the lock is a mutex that the data path tries to take
 * @parked: number of contexts that wait for the lock; the data path leaves the side to them
 * @pending: enum rox_side_work bits: work to do
 * @rxq: received frames that the side has not processed
 * @rxq_bytes: memory of the frames in @rxq; protected by the lock of @rxq
 * @work: on rox_wq: continues a run that used up its budget, or runs the side for a context
 *	that must not run it
 * @fair: the same on rox_retry_wq, for a side whose requests got several RNR NAKs in a row.
 *	It is an item of its own, because an item that is on two queues can run twice at the same
 *	time
 * @room: bytes that the run may still move; see rox_side_has_room()
 * @qp: the QP
 * @run: does the pending work, within a budget; returns true if there is more to do at once
 * @pages: pages on demand that the side waits for
 * @queued: bit 0: the side is in a CPU's list of sides to run when the current run has ended
 * @next: next side in that list
 * @listed: bit 0: the side is in a CPU's list of sides to run soon (soon.c)
 * @soon: in that list
 * @sender: waits while the queues of this host are full
 */
struct rox_side {
	unsigned long busy;
	struct lockdep_map dep_map;
	atomic_t parked;
	unsigned long pending;
	struct sk_buff_head rxq;
	u32 rxq_bytes;
	u32 room;
	struct work_struct work;
	struct work_struct fair;
	struct rox_qp *qp;
	bool (*run)(struct rox_qp *qp, unsigned long work);
	struct rox_page_wait pages;
	unsigned long queued;
	struct rox_side *next;
	unsigned long listed;
	struct llist_node soon;
	struct rox_sender sender;
};

enum rox_side_work {
	ROX_WORK_RUN		= 1UL << 0,	/* frames, WQEs or a change of state */
	ROX_WORK_TIMEOUT	= 1UL << 1,	/* send side: the timer has expired */
	ROX_WORK_CNP		= 1UL << 2,	/* send side: a CNP came */
};

/**
 * struct rox_swqe - the kernel's copy of a send WQE, validated
 * @wr_id: for the completion
 * @opcode: enum ib_wr_opcode
 * @wc_opcode: enum ib_wc_opcode of the completion
 * @flags: enum ib_send_flags
 * @status: enum ib_wc_status: error found before the WQE was sent
 * @length: payload bytes (READ: bytes to read)
 * @first_psn: PSN of the first packet
 * @npkts: number of PSNs (READ: response packets)
 * @ssn: RC: number of the message on this QP, counted as the peer's MSN
 * @sent: packets sent since the last go-back (READ: response packets requested)
 * @imm: immediate data
 * @inv_rkey: rkey to invalidate
 * @remote_addr: READ, WRITE, ATOMIC
 * @rkey: READ, WRITE, ATOMIC; REG_MR: the new key
 * @compare_add: ATOMIC; REG_MR: access flags
 * @swap: ATOMIC
 * @bind: BIND_MW
 * @ah: UD: a reference, until the WQE completes or is dropped
 * @remote_qpn: UD
 * @remote_qkey: UD
 * @xrc_srqn: XRC: the peer's SRQ
 * @num_sge: entries of @sge
 * @pkey_index: GSI
 * @inl: @sge has inline data
 * @done: local operation (rox_wqe_is_local()) that has been executed
 * @odp: some pages of its memory are on demand
 * @fetched: READ, ATOMIC: the data of the response is in its memory, an ACK may complete it
 * @sge: SGE list, or inline data
 */
struct rox_swqe {
	u64 wr_id;
	u8 opcode;
	u8 wc_opcode;
	u8 status;
	bool inl;
	bool done;
	bool odp;
	bool fetched;
	u32 flags;
	u32 length;
	u32 first_psn;
	u32 npkts;
	u32 ssn;
	u32 sent;
	union {
		__be32 imm;
		u32 inv_rkey;
	};
	union {
		struct {
			u32 rkey;
			u64 remote_addr;
			u64 compare_add;
			u64 swap;
		};
		struct rox_bind bind;
	};
	struct rox_ah *ah;
	u32 remote_qpn;
	u32 remote_qkey;
	u32 num_sge;
	union {
		u32 xrc_srqn;
		u16 pkey_index;
	};
	struct rox_sge sge[];
};

/**
 * struct rox_kept - what a run of the send side has looked up; released at the end of the run,
 *	except what is used in each run
 * @peer: loopback: the peer of a connected QP
 * @peer_lease: makes the reference on @peer outlive the run
 * @src: the MR that was read last
 * @dst: the peer's MR that was used last
 * @holder: of the leases
 * @unanswered: the last request to @peer asked for an ACK and said that more requests
 *	follow, so @peer has not sent that ACK
 */
struct rox_kept {
	struct rox_qp *peer;
	struct rox_lease peer_lease;
	struct rox_mr_keep src;
	struct rox_mr_keep dst;
	struct rox_leaseholder holder;
	bool unanswered;
};

struct rox_engines;

/**
 * struct rox_congestion - how much a send side may have in flight (transport/congestion.h)
 * @window: most unacknowledged packets: as for @flow, or fewer after a timeout or RNR NAKs
 * @extra: so many more packets are sent in this run: the peer keeps what is behind a gap
 * @acked: packets acknowledged since @window last grew, if @cautious
 * @ask: an ACK is asked for at least once in this many packets
 * @cautious: the peer seems to drop early requests
 * @active: the algorithm does something: it is not `none`
 * @read_marked: a response to a READ came with the mark for congestion
 * @reads_wait: READs wait for room for several of them; see rox_cc_read_room()
 * @untimed: counts requests of one packet, of which some are timed
 * @untold: acknowledged packets that @flow does not know of
 * @quota: bytes that @flow has paid for and that are not sent
 * @timed_first: the first of the packets of which a round trip is measured for @flow
 * @timed_psn: an ACK up to this PSN ends that round trip
 * @timed_at: its start, in ktime ns; 0: none is measured
 * @flow: state of the algorithm
 * @pacer: runs the side when the rate allows the next quota
 */
struct rox_congestion {
	u32 window;
	u32 extra;
	u32 acked;
	u32 ask;
	bool cautious;
	bool active;
	bool read_marked;
	bool reads_wait;
	u8 untimed;
	u32 untold;
	u32 quota;
	u32 timed_first;
	u32 timed_psn;
	u64 timed_at;
	struct rox_cc flow;
	struct hrtimer pacer;
};

/**
 * struct rox_early - packets that came before it was their turn (transport/early.c)
 * @tree: clones of their frames, by PSN
 * @bytes: memory of these frames
 */
struct rox_early {
	struct rb_root tree;
	u32 bytes;
};

/**
 * struct rox_holes - responses that are missing although later ones have come (transport/holes.c)
 * @executed: the peer has executed all requests up to @executed_psn; the response una is missing
 * @asked: all that was missing before @asked_to was requested again
 * @again: the response @again_at was requested again, and is still missing
 * @more: responses after @asked_to are missing
 * @again_at: see @again
 * @executed_psn: see @executed
 * @asked_to: see @asked
 * @newest: PSN of the last response that came early, or PSN after what the last ACK was for
 */
struct rox_holes {
	bool executed;
	bool asked;
	bool again;
	bool more;
	u32 again_at;
	u32 executed_psn;
	u32 asked_to;
	u32 newest;
};

/**
 * struct rox_send - requester and completer; protected by the lock of the send side
 * @side: lock and run
 * @watch: polling by an engine; not protected by the lock
 * @late: late doorbells; not protected by the lock
 * @wqes: copies of outstanding WQEs: one slot of @stride bytes for each entry of the ring
 * @stride: size of a slot in bytes
 * @mask: number of slots - 1
 * @cur: WQE being sent. Free-running, like the indices of the ring. The next WQE to be
 *	copied is qp->sq.index
 * @tail: oldest WQE that has not completed
 * @next_psn: PSN for the next WQE that is copied
 * @psn: PSN of the next packet to send; less than @max_psn after a go-back
 * @una: oldest unacknowledged PSN
 * @max_psn: PSN after the last one ever sent
 * @asked: PSN after the last packet that asked for an ACK; not after @una if no ACK is due
 * @run_max: @max_psn when the run began
 * @resending: packets are retransmitted, which does not wait for room in the queues of this host
 * @ssn: number of messages copied, counted as the peer's MSN
 * @lsn: last message that the peer's credits allow
 * @credits_valid: the peer reports credits
 * @rd_atomic: outstanding READ, ATOMIC and ATOMIC WRITE requests
 * @nak_una: value of @una when a missing response was last requested again
 * @ooo_psn: PSN of the last response that arrived while that one was missing
 * @cc: congestion window and pace
 * @timeouts: ACK timeouts since the last progress
 * @lingers: timeouts in a row that found packets in a queue of this host, up to ROX_LINGERS
 * @naks: NAKs that caused a retransmission, since the last progress or timeout
 * @retry: remaining retries (retry_cnt); reset by progress
 * @rnr_retry: remaining RNR retries (rnr_retry); reset by progress
 * @rnr_waits: RNR NAKs since the last progress
 * @refused: in ROX_WAIT_REFUSED: status of the WQE that the NAK is for
 * @refused_psn: in ROX_WAIT_REFUSED: PSN of the NAK
 * @recovery: selective retransmission
 * @early: responses that came early
 * @holes: which are missing before them
 * @waits: enum rox_wait: what the timer is set for; see rox_timer_set()
 * @deadline: when the timer is to fire, in ktime ns
 * @timer: the timer of all waits but that for the rate
 * @kept: what the run has looked up
 * @mail: an ACK or NAK from a peer on the same device (transport/direct.c); 0: none
 * @answer: like @mail, an ACK of a peer that has run within this side's run. It is read after
 *	@mail: either it is newer, or it says nothing more
 * @iter: payload of WQE @iter_wqe at byte @iter_off, if @iter_valid; for one run only
 */
struct rox_send {
	struct rox_side side;
	struct rox_watch watch;
	struct rox_late late;
	void *wqes;
	u32 stride;
	u32 mask;
	u32 cur;
	u32 tail;
	u32 next_psn;
	u32 psn;
	u32 una;
	u32 max_psn;
	u32 asked;
	u32 run_max;
	u32 ssn;
	u32 lsn;
	bool credits_valid;
	bool resending;
	u8 waits;
	u8 retry;
	u8 rnr_retry;
	u8 timeouts;
	u8 lingers;
	u8 naks;
	u8 rnr_waits;
	u8 refused;
	u32 refused_psn;
	struct rox_congestion cc;
	u32 rd_atomic;
	u32 nak_una;
	u32 ooo_psn;
	struct rox_recovery recovery;
	struct rox_early early;
	struct rox_holes holes;
	u64 deadline;
	struct hrtimer timer;
	struct rox_kept kept;
	atomic64_t mail;
	u64 answer;
	struct rox_iter iter;
	bool iter_valid;
	u32 iter_wqe;
	u32 iter_off;
};

/**
 * struct rox_rd_res - what is needed to answer a duplicate READ, ATOMIC or ATOMIC WRITE
 * @kind: enum rox_op_kind; ROX_KIND_NONE if empty
 * @first_psn: PSN of the request
 * @npkts: number of PSNs
 * @rkey: READ
 * @va: READ
 * @len: READ
 * @orig: ATOMIC: the value before the operation
 * @msn: MSN of the response
 */
struct rox_rd_res {
	u8 kind;
	u32 first_psn;
	u32 npkts;
	u32 rkey;
	u64 va;
	u32 len;
	u32 msn;
	u64 orig;
};

/**
 * struct rox_read_job - READ responses that are being sent
 * @active: responses are being sent
 * @odp: the memory is on demand
 * @duplicate: they were sent before, and may have arrived
 * @psn: PSN of the next response packet
 * @npkts: packets of the whole response
 * @sent: packets sent
 * @len: bytes of the whole response
 * @msn: for the AETH
 * @sge: the memory to read
 * @srq: XRC: the SRQ that the request named
 */
struct rox_read_job {
	bool active;
	bool odp;
	bool duplicate;
	u32 psn;
	u32 npkts;
	u32 sent;
	u32 len;
	u32 msn;
	struct rox_sge sge;
	struct rox_srq_name srq;
};

/**
 * struct rox_resp - responder; protected by the lock of the receive side
 * @side: lock and run
 * @epsn: expected PSN
 * @msn: messages completed
 * @kind: enum rox_op_kind of the current message; ROX_KIND_NONE between messages
 * @have_recv: @recv is a receive WQE that has not completed
 * @comm_est: the first packet has been accepted; IB_EVENT_COMM_EST is raised for it in RTR
 * @nak_sent: a NAK for @epsn was sent, or is due. The next NAK is sent only when the
 *	requester has gone back and a packet was lost again
 * @nak_due: the NAK is sent at the end of the run, unless @epsn arrives before
 * @ack_due: an ACK up to @epsn - 1 is sent at the end of the run
 * @flushed: in ERR: IB_EVENT_QP_LAST_WQE_REACHED was raised
 * @ooo_psn: with @nak_sent: PSN of the last packet that was out of sequence
 * @left: WRITE: bytes of the RETH length that have not arrived
 * @received: bytes of the message that have arrived
 * @write: WRITE: the target
 * @recv: receive WQE of the message
 * @iter: position in @write or @recv, if @iter_valid; valid during one run only
 * @iter_valid: see @iter
 * @res: answers for duplicate requests, @num_res entries (max_dest_rd_atomic)
 * @num_res: see @res
 * @res_head: next entry to overwrite
 * @read: current READ; no other request is executed while it is active
 * @pd: PD of the memory that requests reach: the QP's; XRC: that of @xsrq
 * @xsrq: XRC: the SRQ that the packet names; a reference, during one run only
 * @srq: XRC: the SRQ of the current message, or of the last one
 * @rx: the frame that is being processed, if its skb is not NULL
 * @early: requests that came early
 * @holding: @held, a packet of @rx, waits for pages on demand
 * @held: see @holding
 */
struct rox_resp {
	struct rox_side side;
	u32 epsn;
	u32 msn;
	u8 kind;
	bool have_recv;
	bool comm_est;
	bool nak_sent;
	bool nak_due;
	bool ack_due;
	bool flushed;
	u32 ooo_psn;
	u32 left;
	u32 received;
	struct rox_sge write;
	struct rox_iter iter;
	bool iter_valid;
	struct rox_rd_res *res;
	u32 num_res;
	u32 res_head;
	struct rox_read_job read;
	struct ib_pd *pd;
	struct rox_srq *xsrq;
	struct rox_srq_name srq;
	struct rox_rx rx;
	struct rox_early early;
	bool holding;
	struct rox_pkt held;
	struct rox_recv recv;
};

/* ---- QPs (table.c) ---- */

/**
 * struct rox_qp_slot - table entry of a QP; outlives the QP by an RCU grace period
 * @qp: valid while @ref is not 0
 * @dev: its device
 * @owner: number of the context that it belongs to; 0: the kernel, or any process (XRC target)
 * @ref: one reference for the table, one for each user; destroy waits for 0
 * @rcu: frees the slot after the readers of the table
 *
 * The RDMA core frees a QP as soon as destroy_qp returns. The reference count is outside of the
 * QP, so that destroy_qp need not wait for a grace period.
 */
struct rox_qp_slot {
	struct rox_qp *qp;
	struct rox_dev *dev;
	u64 owner;
	refcount_t ref;
	struct rcu_head rcu;
};

/**
 * struct rox_qp - queue pair
 * @ibqp: the RDMA core's object; qp_num is unique in the module
 * @dev: the device
 * @slot: its reference count and table entry
 * @gone: completed when the last reference is put
 * @leases: of send sides whose peer the QP is in each run, by loopback
 * @modify_lock: serialises modify_qp
 * @user: created by a process
 * @engines: those of its context, or NULL: kernel users, and programs that want none
 * @service: enum rox_service of its packets
 * @sq_sig_all: every send WQE is signalled
 * @block_mcast_self: does not receive the multicast packets that it sends
 * @cap: as created
 * @ep: the QP as net sees it, and the counter set that it is bound to or the device's
 * @state_lock: innermost lock; protects @state, @sq_draining and @attr against transitions
 *	that the transport makes itself
 * @state: read it with rox_qp_state()
 * @sq_draining: SQD: waiting for outstanding sends
 * @sq_drained_event: SQD: raise IBV_EVENT_SQ_DRAINED when drained
 * @attr: attributes set by modify_qp (timeout, retry_cnt, rnr_retry, min_rnr_timer,
 *	max_rd_atomic, max_dest_rd_atomic, qkey, pkey_index, dest_qp_num, ...)
 * @path: RC and UC: the primary path
 * @cnp_at: when the last CNP was sent, in ktime ns; 0: never
 * @mem: memory of both rings
 * @sq: consumer end of the send ring; protected by the lock of the send side
 * @rq: consumer end of the receive ring; protected by the lock of the receive side
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
	struct rox_leases leases;
	struct mutex modify_lock;	/* one modify at a time */
	struct rox_engines *engines;
	bool user;
	u8 service;
	bool sq_sig_all;
	bool block_mcast_self;
	struct ib_qp_cap cap;
	struct rox_endpoint ep;
	struct mem_cgroup *memcg;	/* of a program: charged for frames that wait */

	spinlock_t state_lock;	/* @state, @sq_draining, @attr */
	enum ib_qp_state state;
	bool sq_draining;
	bool sq_drained_event;
	struct ib_qp_attr attr;
	struct rox_path path;
	u32 mtu;		/* path MTU in bytes */
	struct list_head cm_reqs;	/* see cm.c; protected by the lock of dev->cm_asked */
	const u16 *pkey;	/* entry attr.pkey_index of the table; rox_qp_pkey() */
	atomic64_t cnp_at;

	struct rox_ring_mem mem;
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

/* modify_qp may choose another entry, and the administrator another key, at any time. */
static inline u16 rox_qp_pkey(const struct rox_qp *qp)
{
	const u16 *entry = READ_ONCE(qp->pkey);

	return READ_ONCE(*entry);
}

static inline struct rox_cq *rox_qp_scq(const struct rox_qp *qp)
{
	return to_rox_cq(qp->ibqp.send_cq);
}

static inline struct rox_cq *rox_qp_rcq(const struct rox_qp *qp)
{
	return to_rox_cq(qp->ibqp.recv_cq);
}

static inline struct rox_qp *rox_ep_qp(const struct rox_endpoint *ep)
{
	return container_of(ep, struct rox_qp, ep);
}

/* Counts for @qp; see rox_ep_count_add(). */
static inline void rox_qp_count_add(const struct rox_qp *qp, enum rox_counter c, u64 n)
{
	rox_ep_count_add(&qp->ep, c, n);
}

static inline void rox_qp_count(const struct rox_qp *qp, enum rox_counter c)
{
	rox_qp_count_add(qp, c, 1);
}

/* Connections by the CM agree on an MTU (cm.c). Any context. @dev is being set up, or is dying. */
void rox_cm_init(struct rox_dev *dev);
void rox_cm_exit(struct rox_dev *dev);
/* @gsi is about to send the MAD at @mad, of 256 bytes, on @path. Marks it. */
void rox_cm_sending(struct rox_qp *gsi, const struct rox_path *path, void *mad);
/* Forgets what was agreed for @qp: it is reset or destroyed. */
void rox_cm_forget(struct rox_qp *qp);
/*
 * Return: the path MTU of @qp that may be set where @mtu is asked for, and the peer is the QP @qpn
 * at @dgid.
 */
enum ib_mtu rox_cm_mtu(struct rox_qp *qp, const union ib_gid *dgid, u32 qpn, enum ib_mtu mtu);

/*
 * Any context. Return: the QP with a reference, or NULL. QPN 1 is the GSI QP of @dev. Other QPs
 * are found on all devices if @dev is NULL, else on @dev only.
 */
struct rox_qp *rox_qp_get(struct rox_dev *dev, u32 qpn);
/* Any context. Return: the QP of context @owner with a reference, or NULL. */
struct rox_qp *rox_qp_get_own(u32 qpn, u64 owner);
/* Any context. Puts a reference from rox_qp_get(). */
void rox_qp_put(struct rox_qp *qp);

/* Raises an affiliated asynchronous event; any context. */
void rox_qp_event(struct rox_qp *qp, enum ib_event_type event);
/* Module load and unload. Return: 0. */
int rox_qp_table_init(void);
void rox_qp_table_exit(void);

/* Process context. Reserves a number for @qp; @owner: struct rox_qp_slot. Return: 0 or an error. */
int rox_qp_reserve(struct rox_qp *qp, u64 owner);
/* Process context. Lets rox_qp_get() find the QP. Return: 0 or an error. */
int rox_qp_publish(struct rox_qp *qp);
/* Removes the QP from the table and sleeps until all references are put. */
void rox_qp_unpublish(struct rox_qp *qp);
/* Process context. Undoes rox_qp_reserve() of a QP that was not published. */
void rox_qp_cancel(struct rox_qp *qp);
/* Any context. Return: the QP without a reference, or NULL. Only for a kernel user that owns it. */
struct ib_qp *rox_qp_peek(struct rox_dev *dev, u32 qpn);

/* ---- multicast groups and partitions (table.c) ---- */

/**
 * struct rox_mcg - a multicast group that QPs of a device are attached to
 * @node: in the device's table (RCU)
 * @net: its address, and the netdevs that have joined it
 * @members: struct rox_mcg_member by node (RCU)
 * @count: number of members
 * @rcu: frees the group after the readers
 */
struct rox_mcg {
	struct hlist_node node;
	struct rox_net_group net;
	struct hlist_head members;
	u32 count;
	struct rcu_head rcu;
};

/**
 * struct rox_mcg_member - a QP in a group
 * @node: in the group's list (RCU)
 * @slot: leads to the QP while the QP has references
 * @uses: how often the QP was attached; it gets each packet once
 * @rcu: frees the member after the readers
 */
struct rox_mcg_member {
	struct hlist_node node;
	struct rox_qp_slot *slot;
	u32 uses;
	struct rcu_head rcu;
};

/* Return: the group of an address, or NULL. Called under RCU or with mcast_lock held. */
struct rox_mcg *rox_mcg_find(const struct rox_dev *dev, const struct in6_addr *addr,
			     const struct rox_netns *ns);
/* Return: the member's QP with a reference, or NULL if it is being destroyed. Under RCU. */
struct rox_qp *rox_mcg_member_get(const struct rox_mcg_member *member);
/* Any context. Return: for QP 1, the index of the P_Key that matches the packet's, or -ENOENT. */
int rox_pkey_find(const struct rox_dev *dev, u16 pkey);

/* ---- life and state of a QP; process context ---- */

/* Module load, and unload without QPs: workers that run sides. Return: 0 or -ENOMEM. */
int rox_sides_init(void);
void rox_sides_exit(void);
/*
 * The engines of a context, which has no QP when they end. Threads are made when they are needed.
 * @late: the provider knows late doorbells.
 * Return: NULL if there is no memory. The second one sleeps; NULL is ignored.
 */
struct rox_engines *rox_engines_alloc(struct rox_dev *dev, bool late);
void rox_engines_free(struct rox_engines *engines);
/* Return: how long engines wait for posts on this device, in microseconds. 0: there are none. */
u32 rox_spin_us(const struct rox_dev *dev);
/* Return: what a system call costs a program, in microseconds. 0: doorbells are never late. */
u32 rox_call_us(void);
/* Allocates slots for WQEs and sets up the timer. Rings and caps exist. Return: 0 or -ENOMEM. */
int rox_transport_init(struct rox_qp *qp);
/* Stops timers and work and frees everything; the QP is unpublished. Adds no completions. */
void rox_transport_destroy(struct rox_qp *qp);
/*
 * The caller takes both side locks with rox_transport_lock(), sets the attributes of @mask in
 * qp->attr, qp->path and so on, and calls rox_transport_modify(). That makes a transition that
 * ib_modify_qp_is_ok() allows and sets qp->state. On the way from SQE to RTS it also flushes.
 * Other completions and events come from the runs after rox_transport_unlock(). Process context;
 * rox_transport_lock() may sleep.
 */
void rox_transport_lock(struct rox_qp *qp);
void rox_transport_unlock(struct rox_qp *qp);
void rox_transport_modify(struct rox_qp *qp, enum ib_qp_state new_state,
			  const struct ib_qp_attr *attr, int mask);
/* For max_dest_rd_atomic. Call the first before rox_transport_lock(), the second under it. */
struct rox_rd_res *rox_transport_alloc_answers(u32 n);
struct rox_rd_res *rox_transport_swap_answers(struct rox_qp *qp, struct rox_rd_res *res, u32 n);

/* ---- doorbells: any context ---- */
void rox_send_doorbell(struct rox_qp *qp);
void rox_recv_doorbell(struct rox_qp *qp);

/* ---- frames, bottom halves disabled ---- */

/* Callbacks for net. */
extern const struct rox_net_ops rox_transport_ops;

/* Queues a frame for one side of @qp and runs that side. Takes over @skb. */
void rox_transport_rx(struct rox_qp *qp, struct sk_buff *skb, bool request);

/*
 * Received frames (soon.c): rox_transport_queue() queues a frame, which it takes over, for one side
 * of @qp. @goes_on: it ends in the middle of a message. rox_transport_run() runs all sides that got
 * frames, at once or in a tasklet.
 */
void rox_transport_queue(struct rox_qp *qp, struct sk_buff *skb, bool request, bool goes_on);
void rox_transport_run(void);
/* A CNP came for a QP whose algorithm takes it. rox_transport_run() follows. */
void rox_transport_cnp(struct rox_qp *qp);
/* Loopback: does the side wait for pages on demand? Would it take a frame? */
bool rox_transport_waits(struct rox_qp *qp, bool request);
bool rox_transport_has_room(struct rox_qp *qp, bool request);

/* ---- loopback, bottom halves disabled and a side locked ---- */

/* Gives packets to @qp without a copy. Return: false if it has not taken them. */
bool rox_transport_direct(struct rox_qp *qp, const struct rox_pkt *pkt, const struct rox_run *run);

#endif /* ROX_TRANSPORT_H */
