/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reliable and unreliable transport of one QP.
 *
 * A QP has two sides, each with a lock of its own: the send side (requester and
 * completer) and the receive side (responder). Work is announced by a flag;
 * whoever gets the side's lock does all announced work, whoever finds it taken
 * returns: its flag will be seen by the owner. See rox_side_run().
 */
#ifndef ROX_TRANSPORT_H
#define ROX_TRANSPORT_H

#include <linux/hrtimer.h>
#include <linux/list.h>
#include <linux/llist.h>
#include <linux/skbuff.h>
#include "../net/net.h"
#include "../verbs/mr.h"

struct rox_qp;
struct rox_ah;
struct rox_side;
struct rox_pkt;

/**
 * struct rox_fault - pages that a side waits for (transport/fault.c)
 * @work: has them faulted in, and runs the side
 * @side: the side
 * @busy: @work is under way and owns the rest
 * @err: how it ended, if it did not find the page at @addr
 * @stale: and that nobody is to be told: the QP has been reset
 * @pd: whose the key is
 * @key: lkey or rkey
 * @addr: first address
 * @len: bytes, as many as are worth it
 * @access: enum ib_access_flags that are needed
 */
struct rox_fault {
	struct work_struct work;
	struct rox_side *side;
	bool busy;
	bool stale;
	int err;
	struct ib_pd *pd;
	u32 key;
	u64 addr;
	u32 len;
	int access;
};

/**
 * struct rox_side - one half of a QP, run by one context at a time
 * @busy: bit 0 is held while the side runs; the data path only ever tries to
 *	get it, modify and destroy wait for it (a bit and no spinlock, because
 *	the owner itself may try, which a spinlock of a one-CPU kernel allows)
 * @parked: number of those who wait; the data path leaves the side to them
 * @pending: enum rox_side_work bits, set by whoever has work for the side
 * @rxq: received frames that wait for the side
 * @rxq_bytes: of memory in them; under the lock of @rxq
 * @work: continues a run that used up its budget, or that was asked for where
 *	the transport must not run
 * @qp: the QP
 * @run: does the work in @work, bounded; true if there is more to do at once
 * @fault: pages that it waits for
 * @queued: bit 0: waits in a CPU's list until the run of another side has ended
 * @next: in that list
 */
struct rox_side {
	unsigned long busy;
	atomic_t parked;
	unsigned long pending;
	struct sk_buff_head rxq;
	u32 rxq_bytes;
	struct work_struct work;
	struct rox_qp *qp;
	bool (*run)(struct rox_qp *qp, unsigned long work);
	struct rox_fault fault;
	unsigned long queued;
	struct rox_side *next;
};

enum rox_side_work {
	ROX_WORK_RUN		= 1UL << 0,	/* frames, WQEs or a change of state */
	ROX_WORK_TIMEOUT	= 1UL << 1,	/* send side: the timer has expired */
};

/**
 * struct rox_swqe - the kernel's copy of a send WQE, validated
 * @wr_id: for the completion
 * @opcode: enum ib_wr_opcode
 * @wc_opcode: enum ib_wc_opcode of its completion
 * @flags: enum ib_send_flags
 * @status: enum ib_wc_status found before it was sent
 * @length: payload bytes (READ: bytes to read)
 * @first_psn: of its first packet
 * @npkts: PSNs that it takes (READ: response packets)
 * @ssn: RC: number of the message on this QP, as MSN counts them
 * @sent: packets sent in this pass (READ: response packets asked for)
 * @imm: immediate data
 * @inv_rkey: rkey to invalidate
 * @remote_addr: READ, WRITE, ATOMIC
 * @rkey: likewise
 * @compare_add: ATOMIC
 * @swap: ATOMIC
 * @bind: BIND_MW
 * @ah: UD, a reference until it is sent
 * @remote_qpn: UD
 * @remote_qkey: UD
 * @xrc_srqn: XRC: the peer's SRQ
 * @num_sge: of @sge
 * @pkey_index: GSI
 * @inl: payload is in @sge's place
 * @done: an operation on keys (see rox_wqe_is_local()) that has been carried out
 * @odp: some of its pages are on demand
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
 * struct rox_kept - what a run of the send side has looked up, until it ends
 * @peer: the QP at the other end of a connected one, on the same device
 * @src: the MR that was read last
 * @dst: the MR of the peer that was written last
 * @unanswered: it has requests of the run that ask for an ACK, and was told that more come
 */
struct rox_kept {
	struct rox_qp *peer;
	struct rox_mr *src;
	struct rox_mr *dst;
	bool unanswered;
};

struct rox_engine;

/**
 * struct rox_watch - a send queue as an engine sees it (transport/engine.c)
 * @watched: runs of the send side need not have the doorbell rung
 * @more: the last run has left something to do
 * @useful: there was something to do in this stint
 * @seen: what the producer index was when it was known that there was no more
 * @joined: bit 0: @engine has it
 * @engine: if @joined
 * @join: in the engine's list of those who join
 * @entry: in the engine's list of those it watches
 */
struct rox_watch {
	bool watched;
	bool more;
	bool useful;
	u32 seen;
	unsigned long joined;
	struct rox_engine *engine;
	struct llist_node join;
	struct list_head entry;
};

/**
 * struct rox_recovery - how a peer is sent what it misses (transport/recovery.c)
 * @distrust: it drops what comes early, or seems to: so many NAKs more make it get all again
 * @asks: at send.deadline it is to be asked how far it is; else it is the ACK timeout
 * @resent: packets were sent again, and nothing has come that says what of them arrived
 * @pausing: a gap is filled at send.deadline, unless it closes by itself
 * @stuck: the last answer was about @stuck_at, and that is where what was sent again had ended
 * @drops: such answers in a row, each followed by a NAK for that packet
 * @overtaken: more gaps for which it waits like that, because some have closed by themselves
 * @gaps: NAKs for gaps, counted while @overtaken is 0
 * @probes: times that it was asked, since there was progress
 * @waited: time that these have taken of the ACK timeout, in ns
 * @gap: packets that are sent for a gap
 * @due: packets that are to be sent again at once
 * @resent_to: the PSN behind those that were
 * @timed_psn: an ACK up to here ends the round trip that is measured
 * @timed_at: and this is when it began, in ktime ns; 0 if none is measured
 * @round_trip: mean, in ns
 */
struct rox_recovery {
	u8 distrust;
	bool asks;
	bool resent;
	bool pausing;
	bool stuck;
	u8 drops;
	u8 overtaken;
	u8 gaps;
	u8 probes;
	u32 stuck_at;
	u32 gap;
	u32 due;
	u32 resent_to;
	u32 timed_psn;
	u64 timed_at;
	u64 waited;
	u64 round_trip;
};

/**
 * struct rox_send - requester and completer; the send side lock protects it
 * @side: lock and run
 * @watch: not under the lock
 * @wqes: copies of outstanding WQEs: one slot of @stride bytes for each entry of the ring
 * @stride: bytes of a slot
 * @mask: slots - 1
 * @cur: WQE being sent (free-running, like the ring's indices; the next one to
 *	be copied is qp->sq.index)
 * @tail: oldest WQE that is not retired
 * @next_psn: of the next WQE that is copied
 * @psn: of the next packet that is sent; behind @max_psn after a go-back
 * @una: oldest PSN that is not acknowledged
 * @max_psn: the PSN after the last one ever sent
 * @asked: the PSN after the last packet that asked for an ACK; not ahead of @una if none is due
 * @ssn: messages copied so far, as the peer's MSN counts them
 * @lsn: last message that the peer's credits allow
 * @credits_valid: the peer reports credits
 * @rd_atomic: READ, ATOMIC and ATOMIC WRITE requests outstanding
 * @nak_una: value of @una for which a missing response was asked for again
 * @ooo_psn: the last response that came while that one was missing
 * @window: packets that may be unacknowledged; small after a timeout, grows with ACKs
 * @timeouts: ACK timeouts without progress between
 * @naks: NAKs that were followed since there was progress or a timeout
 * @retry: retry_cnt left, until there is progress
 * @rnr_retry: rnr_retry left, likewise
 * @waiting_rnr: nothing is sent until the timer fires
 * @rnr_waits: RNR NAKs without progress between
 * @recovery: see there
 * @deadline: when the timer has something to do, in ktime ns; 0 if never
 * @timer: the only timer: ACK timeout and RNR
 * @kept: during one run only
 * @mail: an acknowledge that came without a wire (transport/direct.c); 0 if there is none
 * @iter: payload of WQE @iter_wqe at byte @iter_off; held during one run only
 */
struct rox_send {
	struct rox_side side;
	struct rox_watch watch;
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
	u32 ssn;
	u32 lsn;
	bool credits_valid;
	bool waiting_rnr;
	u8 retry;
	u8 rnr_retry;
	u8 timeouts;
	u8 naks;
	u8 rnr_waits;
	u32 window;
	u32 rd_atomic;
	u32 nak_una;
	u32 ooo_psn;
	struct rox_recovery recovery;
	u64 deadline;
	struct hrtimer timer;
	struct rox_kept kept;
	atomic64_t mail;
	struct rox_iter iter;
	bool iter_valid;
	u32 iter_wqe;
	u32 iter_off;
};

/**
 * struct rox_srq_name - an XRC SRQ that a request has named, and that may be gone by now
 * @num: its number
 * @id: no other SRQ ever has it, whatever its number
 */
struct rox_srq_name {
	u32 num;
	u64 id;
};

/**
 * struct rox_rd_res - what a duplicate READ or ATOMIC is answered from
 * @kind: enum rox_op_kind; ROX_KIND_NONE if empty
 * @first_psn: of the request
 * @npkts: PSNs that it took
 * @rkey: READ
 * @va: READ
 * @len: READ
 * @orig: ATOMIC: what stood there before
 * @msn: as it was in the response
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
 * @active: there is one
 * @odp: from pages on demand
 * @psn: of the next response packet
 * @npkts: packets of the whole answer
 * @sent: packets sent
 * @len: bytes of the whole answer
 * @msn: for the AETH
 * @sge: the memory that is read
 * @srq: XRC: the SRQ that the request named
 */
struct rox_read_job {
	bool active;
	bool odp;
	u32 psn;
	u32 npkts;
	u32 sent;
	u32 len;
	u32 msn;
	struct rox_sge sge;
	struct rox_srq_name srq;
};

/**
 * struct rox_resp - responder; the receive side lock protects it
 * @side: lock and run
 * @epsn: expected PSN
 * @msn: messages completed
 * @kind: enum rox_op_kind of the message under way, ROX_KIND_NONE between messages
 * @have_recv: @recv holds a receive WQE that is not completed
 * @comm_est: IB_EVENT_COMM_EST was raised, or is not due any more
 * @nak_sent: a NAK for @epsn was sent, or is due; the next only when the sender has gone
 *	back and lost a packet again
 * @nak_due: it is sent at the end of the run if that has not brought @epsn
 * @ack_due: an ACK up to @epsn - 1 is owed at the end of the run
 * @flushed: in ERR: IB_EVENT_QP_LAST_WQE_REACHED was raised
 * @ooo_psn: with @nak_sent: the last PSN that came out of sequence
 * @left: WRITE: bytes that RETH promised and that have not come yet
 * @received: bytes of the message so far
 * @write: WRITE: the target
 * @recv: the receive WQE of the message
 * @iter: walks @write or @recv; valid during one run only
 * @iter_valid: see @iter
 * @res: answers for duplicates, @num_res of them (max_dest_rd_atomic)
 * @num_res: see @res
 * @res_head: the next one to be used
 * @read: READ under way; while it is active no other request is looked at
 * @pd: whose memory requests reach: the QP's, for XRC that of @xsrq
 * @xsrq: XRC: the SRQ that the packet names, with a reference, during one run only
 * @srq: XRC: the SRQ of the message under way, or of the last one
 * @rx: the frame that is being processed, if its skb is not NULL
 * @early: frames ahead of @epsn, by PSN (transport/resp_early.c)
 * @early_bytes: of memory in them
 * @holding: @held, a packet of that frame, waits for pages
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
	struct rox_recv *recv;
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
	struct rb_root early;
	u32 early_bytes;
	bool holding;
	struct rox_pkt held;
};

/* ---- called by verbs/qp.c; process context ---- */

/* Of the module: who watches send queues. 0 or -ENOMEM; at the end there are no QPs. */
int rox_engine_init(void);
void rox_engine_exit(void);
/* After the rings exist and caps are known: slots for WQEs, the timer. 0 or -ENOMEM. */
int rox_transport_init(struct rox_qp *qp);
/* After the QP is unpublished: stops timers and work, frees all. No completions. */
void rox_transport_destroy(struct rox_qp *qp);
/*
 * Carries out a transition that ib_modify_qp_is_ok() allows, after qp->attr,
 * qp->path, ... of @mask are set (they are set under both side locks by
 * rox_transport_lock()). Sets qp->state. Completions and events are raised here.
 */
void rox_transport_lock(struct rox_qp *qp);
void rox_transport_unlock(struct rox_qp *qp);
void rox_transport_modify(struct rox_qp *qp, enum ib_qp_state new_state,
			  const struct ib_qp_attr *attr, int mask);
/* For max_dest_rd_atomic: the first before rox_transport_lock(), the second under it. */
struct rox_rd_res *rox_transport_alloc_answers(u32 n);
struct rox_rd_res *rox_transport_swap_answers(struct rox_qp *qp, struct rox_rd_res *res, u32 n);

/* ---- doorbells: any context ---- */
void rox_send_doorbell(struct rox_qp *qp);
void rox_recv_doorbell(struct rox_qp *qp);

/* ---- called by net/rx.c, bottom halves disabled; takes over the skb ---- */

/* All packets of @skb are for @qp; @request says for which side. */
void rox_transport_rx(struct rox_qp *qp, struct sk_buff *skb, bool request);

/*
 * Between these two the sides that frames come to are not run. Then a few of them are, and
 * the rest is left to workers: for frames that go to many QPs.
 */
void rox_transport_hold(void);
void rox_transport_unhold(void);

/* ---- called by net/loopback.c, bottom halves disabled and a side held ---- */

bool rox_transport_direct(struct rox_qp *qp, const struct rox_pkt *pkt, bool request);
/*
 * The QP at the other end of a connected one on the same device, or NULL. The reference is that
 * of the run of the send side, which is held.
 */
struct rox_qp *rox_send_peer(struct rox_qp *qp);

#endif /* ROX_TRANSPORT_H */
