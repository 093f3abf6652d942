/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reliable and unreliable transport of one QP.
 *
 * A QP has two sides, each with a lock: the send side (requester and completer)
 * and the receive side (responder). Work for a side is announced by a flag;
 * whoever gets the side's lock does all announced work, whoever finds it taken
 * returns: its flag will be seen by the owner. See rox_side_run().
 */
#ifndef ROX_TRANSPORT_H
#define ROX_TRANSPORT_H

#include <linux/hrtimer.h>
#include <linux/skbuff.h>
#include "../verbs/mr.h"
#include "../wire/wire.h"

struct rox_qp;
struct rox_ah;
struct rox_pkt;

/**
 * struct rox_side - one half of a QP, run by one context at a time
 * @lock: held while running; taken by trylock from the data path, by
 *	spin_lock_bh() from modify and destroy
 * @work_pending: enum rox_side_work bits
 * @rxq: received frames that wait for the side
 * @work: continues a run that used up its budget, or that began where the
 *	transport must not run
 * @qp: the QP
 * @run: does all the work there is, in bounded steps
 */
struct rox_side {
	spinlock_t lock;
	unsigned long work_pending;
	struct sk_buff_head rxq;
	struct work_struct work;
	struct rox_qp *qp;
	bool (*run)(struct rox_qp *qp, unsigned long work);
};

enum rox_side_work {
	ROX_WORK_RUN,		/* there may be something to do */
	ROX_WORK_TIMEOUT,	/* send side: the timer has expired */
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
 * @sent: packets sent so far (READ: packets asked for), from the beginning
 * @imm: immediate data
 * @inv_rkey: rkey to invalidate
 * @remote_addr: READ, WRITE, ATOMIC
 * @rkey: likewise
 * @compare_add: ATOMIC
 * @swap: ATOMIC
 * @ah: UD, a reference until it is sent
 * @remote_qpn: UD
 * @remote_qkey: UD
 * @num_sge: of @sge
 * @inl: payload is in @sge's place
 * @sge: SGE list, or inline data
 */
struct rox_swqe {
	u64 wr_id;
	u8 opcode;
	u8 wc_opcode;
	u8 status;
	bool inl;
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
	u32 rkey;
	u64 remote_addr;
	u64 compare_add;
	u64 swap;
	struct rox_ah *ah;
	u32 remote_qpn;
	u32 remote_qkey;
	u32 num_sge;
	u32 pad;
	struct rox_sge sge[];
};

/**
 * struct rox_send - requester and completer; the send side lock protects it
 * @side: lock and run
 * @wqes: copies of outstanding WQEs, cap.max_send_wr slots of @stride bytes
 * @stride: bytes of a slot
 * @mask: slots - 1
 * @head: next slot to copy a WQE into (free-running)
 * @cur: WQE being sent
 * @tail: oldest WQE not retired
 * @next_psn: of the next WQE to be copied
 * @una: oldest PSN not acknowledged
 * @max_psn: PSN after the last one ever sent
 * @ssn: messages started
 * @lsn: last message number that the peer's credits allow
 * @credits_valid: the peer reports credits
 * @rd_atomic: READ and ATOMIC requests outstanding
 * @retry: retry_cnt left
 * @rnr_retry: rnr_retry left
 * @waiting_rnr: until the timer fires
 * @deadline: of the retransmit timer, in ktime ns; 0 if not armed
 * @timer: the only timer
 * @iter: payload of @cur
 * @flushing: in ERR, nothing is sent any more
 */
struct rox_send {
	struct rox_side side;
	void *wqes;
	u32 stride;
	u32 mask;
	u32 head;
	u32 cur;
	u32 tail;
	u32 next_psn;
	u32 una;
	u32 max_psn;
	u32 ssn;
	u32 lsn;
	bool credits_valid;
	u32 rd_atomic;
	u32 read_next;		/* completer: PSN of the next READ response of the tail's READ */
	u8 retry;
	u8 rnr_retry;
	bool waiting_rnr;
	bool seq_retry;		/* one go-back-N for a sequence NAK or implied NAK is under way */
	u32 seq_retry_psn;
	u64 deadline;
	struct hrtimer timer;
	struct rox_iter iter;
};

/* A duplicate READ or ATOMIC is answered from these; a ring of max_dest_rd_atomic. */
struct rox_rd_res {
	u8 kind;		/* enum rox_op_kind, 0: empty */
	u32 first_psn;
	u32 last_psn;
	u64 va;
	u32 rkey;
	u32 len;
	u64 orig;		/* ATOMIC: what was there */
	u32 msn;
};

struct rox_recv_state;

/**
 * struct rox_resp - responder; the receive side lock protects it
 * @side: lock and run
 * @epsn: expected PSN
 * @msn: messages completed
 * @op_kind: of the message under way, or ROX_KIND_NONE
 * @...: see transport/responder.c
 */
struct rox_resp {
	struct rox_side side;
	u32 epsn;
	u32 msn;
	u8 op_kind;		/* message under way */
	bool have_recv;		/* @recv holds a WQE for it */
	bool comm_est;		/* IBV_EVENT_COMM_EST was raised */
	bool nak_sent;		/* a sequence NAK was sent; none until the expected PSN comes */
	bool ack_due;		/* an ACK is owed up to epsn - 1 */
	bool last_wqe_event;
	u64 va;			/* WRITE: where the next byte goes */
	u32 rkey;
	u32 dmalen;		/* WRITE: bytes left of RETH's length */
	u32 offset;		/* SEND: bytes received so far */
	u32 total;		/* WRITE: RETH's length */
	struct rox_recv *recv;	/* the receive WQE of the message */
	struct rox_iter iter;
	struct rox_rd_res *res;
	u32 num_res;
	u32 res_head;
	/* READ responses that are still being sent */
	struct {
		bool active;
		u32 psn;
		u64 va;
		u32 rkey;
		u32 left;
		bool first;
		u32 msn;
	} read;
};

/* ---- called by verbs/qp.c; process context ---- */

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
/* Responder resources for max_dest_rd_atomic; before rox_transport_lock(). 0 or -ENOMEM. */
int rox_transport_set_resources(struct rox_qp *qp, u32 max_dest_rd_atomic);

/* ---- doorbells: any context ---- */
void rox_send_doorbell(struct rox_qp *qp);
void rox_recv_doorbell(struct rox_qp *qp);

/* ---- called by net/rx.c, bottom halves disabled; takes over the skb ---- */

/* All packets of @skb are for @qp; @request says for which side. */
void rox_transport_rx(struct rox_qp *qp, struct sk_buff *skb, bool request);

/* ---- within transport/ ---- */

void rox_side_init(struct rox_side *side, struct rox_qp *qp,
		   bool (*run)(struct rox_qp *qp, unsigned long work));
void rox_side_kick(struct rox_side *side, enum rox_side_work work);
/* Moves the QP to ERR from the data path and raises @event (or none, if negative). */
void rox_qp_fail(struct rox_qp *qp, int event);

#endif /* ROX_TRANSPORT_H */
