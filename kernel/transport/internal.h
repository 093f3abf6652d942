/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the files of the transport share. Unless a line says otherwise, a
 * function is called with the lock of its side held and bottom halves disabled.
 */
#ifndef ROX_TRANSPORT_INTERNAL_H
#define ROX_TRANSPORT_INTERNAL_H

#include <rdma/ib_pack.h>
#include "../verbs/verbs.h"
#include "../observe/observe.h"
#include "../observe/trace.h"

/* Bursts that one run of a side sends before it lets others have the CPU. */
#define ROX_RUN_BURSTS		16
/* Received frames that one run takes. */
#define ROX_RUN_FRAMES		64
/* Receives or sends that one run flushes. */
#define ROX_RUN_FLUSHES		1024
/* Frames, and bytes of memory in them, that wait for a side that is busy; more are lost. */
#define ROX_MAX_RXQ		4096
#define ROX_MAX_RXQ_BYTES	SZ_16M
/* How far ahead a request may be to be kept, and bytes of memory in what a QP and a device keep. */
#define ROX_EARLY_PSNS		4096
#define ROX_EARLY_QP_BYTES	((u32)SZ_2M)
#define ROX_EARLY_DEV_BYTES	SZ_64M
/* Bytes in flight per RC QP, and the least number of packets. */
#define ROX_WINDOW_BYTES	(512U * 1024)
#define ROX_WINDOW_MIN_PKTS	64U
/* Packets in flight after an ACK timeout: enough to learn what has arrived. */
#define ROX_WINDOW_PROBE	4U
/* A READ is asked for in pieces of this size, so that the requester paces the responses. */
#define ROX_READ_CHUNK		(128U * 1024)
/* A local ACK timeout below this is taken as this: a software peer is not faster. */
#define ROX_MIN_ACK_TIMEOUT_NS	(1 * NSEC_PER_MSEC)

enum rox_retry_cause {
	ROX_RETRY_TIMEOUT,
	ROX_RETRY_SEQ_NAK,
	ROX_RETRY_RNR,
	ROX_RETRY_IMPLIED,
};

/* RC, and what is like it but for the names of SRQs in its requests. */
static inline bool rox_is_rc(const struct rox_qp *qp)
{
	return qp->service == ROX_SERVICE_RC || qp->service == ROX_SERVICE_XRC;
}

static inline bool rox_is_xrc(const struct rox_qp *qp)
{
	return qp->service == ROX_SERVICE_XRC;
}

static inline bool rox_is_ud(const struct rox_qp *qp)
{
	return qp->ibqp.qp_type == IB_QPT_UD || qp->ibqp.qp_type == IB_QPT_GSI;
}

static inline bool rox_can_send(const struct rox_qp *qp)
{
	return rox_qp_state(qp) == IB_QPS_RTS || rox_qp_state(qp) == IB_QPS_SQD;
}

static inline bool rox_can_receive(const struct rox_qp *qp)
{
	enum ib_qp_state state = rox_qp_state(qp);

	return state == IB_QPS_RTR || state == IB_QPS_RTS || state == IB_QPS_SQD ||
	       state == IB_QPS_SQE;
}

static inline struct rox_swqe *rox_swqe_at(const struct rox_qp *qp, u32 index)
{
	return qp->send.wqes + (size_t)(index & qp->send.mask) * qp->send.stride;
}

/* side.c */
void rox_side_init(struct rox_side *side, struct rox_qp *qp,
		   bool (*run)(struct rox_qp *qp, unsigned long work));
/* Announces @work and runs the side unless somebody does. No lock, bottom halves disabled. */
void rox_side_kick(struct rox_side *side, unsigned long work);

/* Whoever runs the side next will find @work to do. Then somebody must try to run it. */
void rox_side_announce(struct rox_side *side, unsigned long work);
/* As rox_side_kick(), but by a worker that takes no more of the CPU than others do. Any context. */
void rox_side_kick_fairly(struct rox_side *side, unsigned long work);
/* Runs the side, and lets softirqs in after it. Return: true if there is more to do. */
bool rox_side_turn(struct rox_side *side);
/* Any context: what there is to do is done, or left to a worker. */
void rox_side_doorbell(struct rox_side *side);

/*
 * A side for packets that are not in its queue: true if it was at rest. What is announced
 * until it is released is done later.
 */
bool rox_side_try(struct rox_side *side);
void rox_side_release(struct rox_side *side);
struct sk_buff *rox_side_next_frame(struct rox_side *side);
/* A frame that was taken comes before all that wait. */
void rox_side_put_back(struct rox_side *side, struct sk_buff *skb);
void rox_side_purge(struct rox_side *side);

/* Process context: keeps the data path out, lets it in again (and runs what was announced). */
void rox_side_lock(struct rox_side *side);
void rox_side_unlock(struct rox_side *side);

/* engine.c */
/* Before a program's doorbell is followed: the time in ns; 0: it is not timed. Any context. */
u64 rox_engine_clock(void);
/* After that; @begin: what rox_engine_clock() said. Any context. */
void rox_engine_rung(struct rox_qp *qp, u64 begin);
/* Process context, sleeps; the QP is in RESET for good and its doorbell is not rung any more. */
void rox_engine_leave(struct rox_qp *qp);

/* fault.c */
/* Bytes that are faulted in at once, if the work request names so many. */
#define ROX_FAULT_BYTES		SZ_256K

void rox_fault_init(struct rox_side *side);
/*
 * Has a page faulted in, and what follows it up to @len bytes. Return: -EAGAIN: the side will be
 * run when that has been tried; or why it was tried in vain: -EFAULT, -EPERM, -ENOMEM.
 */
int rox_fault_in(struct rox_side *side, u32 key, u64 addr, u32 len, int access);
/* The same for the page at which @it got -EAGAIN. */
int rox_fault_at(struct rox_side *side, const struct rox_iter *it);
/* Are the next @len bytes there? 0, an error of rox_mr_get(), or as rox_fault_in(). */
int rox_fault_ready(struct rox_side *side, const struct rox_iter *it, u32 len);

/* While it does, the side must not call itself again: it will be run. */
static inline bool rox_fault_busy(const struct rox_side *side)
{
	/* Its flag before what it has left. */
	return smp_load_acquire(&side->fault.busy);
}

/* state.c */
/* From either side: moves the QP to ERR, once; raises @event unless negative; both sides flush. */
void rox_qp_fail(struct rox_qp *qp, int event);
/* Send side of UC and UD: moves RTS to SQE. */
void rox_qp_send_queue_error(struct rox_qp *qp);
/* Has SQD drained? Then says so. */
void rox_qp_check_drained(struct rox_qp *qp);

/* wqe.c */
/*
 * Copies the next WQE of the ring into its slot and validates it; what is wrong
 * with it is in its status. Return: true if there was one.
 */
bool rox_wqe_pull(struct rox_qp *qp);
void rox_wqe_release(struct rox_swqe *wqe);

static inline bool rox_wqe_is_read(const struct rox_swqe *wqe)
{
	return wqe->opcode == IB_WR_RDMA_READ;
}

static inline bool rox_wqe_is_atomic(const struct rox_swqe *wqe)
{
	return wqe->opcode == IB_WR_ATOMIC_CMP_AND_SWP ||
	       wqe->opcode == IB_WR_ATOMIC_FETCH_AND_ADD;
}

static inline bool rox_wqe_is_atomic_write(const struct rox_swqe *wqe)
{
	return wqe->opcode == IB_WR_ATOMIC_WRITE;
}

/* Brings something back, into the memory that the WQE names. */
static inline bool rox_wqe_fetches(const struct rox_swqe *wqe)
{
	return BIT_ULL(wqe->opcode) & (BIT_ULL(IB_WR_RDMA_READ) |
				       BIT_ULL(IB_WR_ATOMIC_CMP_AND_SWP) |
				       BIT_ULL(IB_WR_ATOMIC_FETCH_AND_ADD));
}

/* Is complete by a response of its own, not by an ACK; takes one of max_rd_atomic. */
static inline bool rox_wqe_is_answered(const struct rox_swqe *wqe)
{
	return rox_wqe_fetches(wqe) || rox_wqe_is_atomic_write(wqe);
}

/* Operations on keys: in order with the others, but they send nothing and take no PSN. */
static inline bool rox_wqe_is_local(const struct rox_swqe *wqe)
{
	return wqe->opcode == IB_WR_LOCAL_INV || wqe->opcode == IB_WR_BIND_MW ||
	       wqe->opcode == IB_WR_REG_MR;
}

static inline u32 rox_window_max(const struct rox_qp *qp)
{
	return max(ROX_WINDOW_MIN_PKTS, ROX_WINDOW_BYTES / qp->mtu);
}

static inline u32 rox_read_chunk_pkts(const struct rox_qp *qp)
{
	return max(1U, ROX_READ_CHUNK / qp->mtu);
}

/* requester.c */
bool rox_send_run(struct rox_qp *qp, unsigned long work);
/* The payload of @wqe from byte @offset, as an iterator; ends the former one. */
struct rox_iter *rox_send_iter(struct rox_qp *qp, struct rox_swqe *wqe, u32 index, u32 offset);
void rox_send_iter_end(struct rox_qp *qp);
/*
 * Sends @most packets again, or as many as there are in SENDs and WRITEs, from una on, and goes
 * on where it was. Return: their number.
 */
u32 rox_resend(struct rox_qp *qp, u32 most);
/* Is there one? */
bool rox_can_resend(const struct rox_qp *qp);

/* completer.c */
void rox_comp_frame(struct rox_qp *qp, struct sk_buff *skb);
void rox_comp_packet(struct rox_qp *qp, const struct rox_pkt *pkt);

/* direct.c */
bool rox_mail_read(struct rox_qp *qp);

/* Looks at the acknowledge that has come without a wire, if there is one. */
static inline bool rox_mail_take(struct rox_qp *qp)
{
	return unlikely(atomic64_read(&qp->send.mail)) && rox_mail_read(qp);
}

/* A run of the send side lets go of MRs that it has kept, which must not look busy. */
void rox_kept_release_mrs(struct rox_qp *qp);
/* At its end: of all that it has kept. */
void rox_kept_release(struct rox_qp *qp);

/* local.c */
/* Carries out the operation on keys that is next. Return: false if it has to wait, or failed. */
bool rox_local_run(struct rox_qp *qp, struct rox_swqe *wqe);

/* retire.c */
/* Completes the oldest WQE with its status and frees its place in the ring. */
void rox_retire_tail(struct rox_qp *qp);
/* Retires WQEs at the tail that failed before they were sent. */
void rox_retire_failed(struct rox_qp *qp);
/* ERR and SQE: completes all that is outstanding or posted with WR_FLUSH_ERR, in order. */
void rox_send_flush(struct rox_qp *qp);
/* RESET: drops all without completions. */
void rox_send_drop(struct rox_qp *qp);

/* retry.c */
void rox_timer_init(struct rox_qp *qp);
/* Sees to it that the timer fires at send.deadline. */
void rox_timer_arm(struct rox_qp *qp);
/* The retry counters start anew, and the ACK timeout. */
void rox_retry_reset(struct rox_qp *qp);
/* @pkts more were acknowledged: the same, and the window grows. */
void rox_retry_progress(struct rox_qp *qp, u32 pkts);
/* Arms the ACK timeout if something is outstanding and it is not armed. */
void rox_retry_watch(struct rox_qp *qp);
void rox_retry_timeout(struct rox_qp *qp);
/* Sends again from the oldest unacknowledged packet on, if retries are left. */
void rox_retry_go_back(struct rox_qp *qp, enum rox_retry_cause cause);
/* The same at no cost: a response has come, but found no place. */
void rox_retry_again(struct rox_qp *qp);
void rox_retry_rnr(struct rox_qp *qp, u8 timer_code);

/* recovery.c: what is sent again to a peer that keeps what comes early */
void rox_recovery_reset(struct rox_qp *qp);
/* The requester has gone back. */
void rox_recovery_rewound(struct rox_qp *qp);
/*
 * There is a gap at una, by a NAK or after a timeout: has it filled, if that can be done. Return:
 * false if all is to be sent again.
 */
bool rox_recovery_gap(struct rox_qp *qp, bool nak);
/* Sends what is due; only if send.recovery.due says so. */
void rox_recovery_send(struct rox_qp *qp);
/* How long to wait for an answer, in ns; no longer than @timeout. */
u64 rox_recovery_wait(struct rox_qp *qp, u64 timeout);
/* send.deadline is over. Return: true if something is sent to the peer; else it was the timeout. */
bool rox_recovery_probe(struct rox_qp *qp);
/* Something is outstanding @now. */
void rox_recovery_watch(struct rox_qp *qp, u64 now);
/* All before @una is acknowledged, which was not before. */
void rox_recovery_progress(struct rox_qp *qp, u32 una);

/* responder.c */
bool rox_recv_run(struct rox_qp *qp, unsigned long work);
void rox_recv_packet(struct rox_qp *qp, const struct rox_pkt *pkt);
/* A request was accepted: IB_EVENT_COMM_EST if the program has not gone to RTS yet. */
void rox_established(struct rox_qp *qp);
/* @pkt waits for the pages that rox_fault_in() was asked for; those behind it wait for it. */
void rox_recv_hold(struct rox_qp *qp, const struct rox_pkt *pkt);
/* Drops all frames that wait. */
void rox_recv_purge(struct rox_qp *qp);

/* resp_early.c: requests of RC that come before their turn */
enum rox_early {
	ROX_EARLY_KEPT,
	ROX_EARLY_REPEATED,	/* the same is kept */
	ROX_EARLY_LOST,		/* too far ahead, or no room */
};

/* @pkt is ahead of epsn, and the last one that was taken from recv.rx. */
enum rox_early rox_early_keep(struct rox_qp *qp, const struct rox_pkt *pkt);
bool rox_early_first_due(struct rox_qp *qp);
/* The frame that rox_early_due() has found, for recv.rx. */
struct sk_buff *rox_early_take(struct rox_qp *qp);
void rox_early_purge(struct rox_qp *qp);

/* Has the turn of a packet come that is kept? */
static inline bool rox_early_due(struct rox_qp *qp)
{
	return unlikely(!RB_EMPTY_ROOT(&qp->recv.early)) && rox_early_first_due(qp);
}

/* resp_exec.c: SEND and WRITE for RC and UC */
/* What a packet was found to be; anything but OK and DROP ends an RC connection. */
enum rox_verdict {
	ROX_V_OK,
	ROX_V_DROP,		/* as if it had not come */
	ROX_V_HOLD,		/* as if it had not come yet: its pages are being fetched */
	ROX_V_RNR,		/* no receive WQE */
	ROX_V_INV_REQ,		/* NAK invalid request */
	ROX_V_LOC_LEN,		/* the same; on RC the receive completion has said so */
	ROX_V_REM_ACCESS,	/* NAK remote access error: an rkey, or XRC's SRQ */
	ROX_V_REM_OP,		/* NAK remote operational error; a completion has said why */
	ROX_V_FATAL,		/* the CQ did not take the completion, or a ring is corrupted */
};

enum rox_verdict rox_exec_send(struct rox_qp *qp, const struct rox_pkt *pkt);
enum rox_verdict rox_exec_write(struct rox_qp *qp, const struct rox_pkt *pkt);
/* Takes a receive WQE if none is held. */
enum rox_verdict rox_recv_take(struct rox_qp *qp);
/* Completes the receive WQE that is held. */
enum rox_verdict rox_recv_complete(struct rox_qp *qp, enum ib_wc_status status,
				   const struct rox_pkt *pkt, u32 byte_len);
/*
 * Puts the payload behind what the message has brought so far; 0, an error of rox_mr_get(), or
 * as rox_fault_in().
 */
int rox_recv_place(struct rox_qp *qp, const struct rox_pkt *pkt);
/* Lets go of the MR; between runs none is held. */
void rox_recv_iter_end(struct rox_qp *qp);
bool rox_recv_flush(struct rox_qp *qp);

/* resp_read.c: READ, ATOMIC, ATOMIC WRITE */
enum rox_verdict rox_exec_read(struct rox_qp *qp, const struct rox_pkt *pkt);
enum rox_verdict rox_exec_atomic(struct rox_qp *qp, const struct rox_pkt *pkt);
enum rox_verdict rox_exec_atomic_write(struct rox_qp *qp, const struct rox_pkt *pkt);
/* Answers a request that was executed before. */
void rox_exec_duplicate(struct rox_qp *qp, const struct rox_pkt *pkt);
/* Sends READ responses, at most @bursts; returns those that are left. */
int rox_read_continue(struct rox_qp *qp, int bursts);

/* resp_ack.c */
void rox_ack_send(struct rox_qp *qp);		/* ACK up to epsn - 1 */
void rox_nak_send(struct rox_qp *qp, u8 syndrome, u32 psn);
u8 rox_ack_syndrome(struct rox_qp *qp);
/* What all bursts of a connected QP have in common; one packet until told otherwise. */
void rox_burst_init(struct rox_qp *qp, struct rox_burst *b, u32 psn);

/* xrc.c: a target QP's receive side; between runs no SRQ is held */
/* Holds the SRQ that a request names, if it is there: recv.xsrq, recv.pd. */
void rox_xrc_enter(struct rox_qp *qp, const struct rox_pkt *pkt);
void rox_xrc_leave(struct rox_qp *qp);
bool rox_xrc_request_ok(struct rox_qp *qp, const struct rox_pkt *pkt);
/* A READ goes on when its request, and the hold of its SRQ, are gone. */
void rox_xrc_read_begin(struct rox_qp *qp);
void rox_xrc_read_resume(struct rox_qp *qp);
/* Completes a receive of recv.srq. */
enum rox_verdict rox_xrc_complete(struct rox_qp *qp, const struct rox_cqe *cqe, bool solicited);

/* resp_dgram.c */
void rox_recv_uc(struct rox_qp *qp, const struct rox_pkt *pkt);
void rox_recv_ud(struct rox_qp *qp, const struct rox_pkt *pkt);

#endif /* ROX_TRANSPORT_INTERNAL_H */
