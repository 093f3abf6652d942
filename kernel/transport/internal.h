/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Declarations that the files of the transport share. Unless a comment says otherwise, the caller
 * of a function has the lock of the side and bottom halves are disabled.
 */
#ifndef ROX_TRANSPORT_INTERNAL_H
#define ROX_TRANSPORT_INTERNAL_H

#include "transport.h"
#include "congestion.h"
#include "../compat/opcodes.h"
#include "../observe/trace.h"

/* Bursts that one run of a side sends. */
#define ROX_RUN_BURSTS		16
/*
 * Bytes of payload that may be moved: in softirq context by one call of rox_side_run(), by all
 * sides of a CPU in one softirq, and by one call on rox_retry_wq. A worker moves the rest.
 */
#define ROX_SOFTIRQ_SIDE_BYTES	((u32)SZ_128K)
#define ROX_SOFTIRQ_BYTES	((u32)SZ_1M)
#define ROX_FAIR_BYTES		((u32)SZ_128K)
/* Received frames that one run processes. */
#define ROX_RUN_FRAMES		64
/* Receives or sends that one run flushes. */
#define ROX_RUN_FLUSHES		1024
/* Limits of the queue of received frames of a side: frames, and their memory. More are dropped. */
#define ROX_MAX_RXQ		4096
#define ROX_MAX_RXQ_BYTES	SZ_16M
/*
 * Limits of the memory of frames for sides that wait for pages on demand: of one RC or UC side,
 * and of all sides of a device.
 */
#define ROX_HELD_QP_BYTES	ROX_WINDOW_BYTES
#define ROX_HELD_DEV_BYTES	SZ_64M
/*
 * Limits of packets that come early: distance from the expected PSN, and memory of the frames of a
 * side and of all sides of a device.
 */
#define ROX_EARLY_PSNS		4096
#define ROX_EARLY_QP_BYTES	((u32)SZ_2M)
#define ROX_EARLY_DEV_BYTES	SZ_64M
/* So much a peer that stores early requests is expected to store. */
#define ROX_EARLY_ASSUMED	(ROX_EARLY_QP_BYTES / 2)
/* Shorter local ACK timeouts are raised to this, because a software peer does not answer faster. */
#define ROX_MIN_ACK_TIMEOUT_NS	(1 * NSEC_PER_MSEC)

/*
 * Timeouts wait this much longer while packets are still in a queue of this host. The time doubles
 * up to ROX_LINGERS times, so that QPs before a queue that stands do not keep a CPU busy.
 */
#define ROX_LINGER_NS		(2 * NSEC_PER_MSEC)
#define ROX_LINGERS		5U

enum rox_retry_cause {
	ROX_RETRY_TIMEOUT,
	ROX_RETRY_SEQ_NAK,
	ROX_RETRY_RNR,
	ROX_RETRY_IMPLIED,
	ROX_RETRY_RESPONSE,		/* a response is lost, and later ones are kept */
};

/* ---- cm.c ---- */

/*
 * Copies a MAD, which @gsi has received, to @dst. Return: as rox_pkt_read(), or an error of
 * rox_iter_write().
 */
int rox_cm_receive(struct rox_qp *gsi, const struct rox_pkt *pkt, struct rox_iter *dst);

/* XRC is like RC, but its requests name an SRQ. */
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

/* For work that must not run in softirq context. Unbound; an item does not run twice at once. */
extern struct workqueue_struct *rox_wq;

void rox_side_init(struct rox_side *side, struct rox_qp *qp,
		   bool (*run)(struct rox_qp *qp, unsigned long work));
/*
 * Adds @work to the pending work of the side and runs the side, unless another context runs it.
 * Called without the lock, with bottom halves disabled.
 */
void rox_side_kick(struct rox_side *side, unsigned long work);

/* Adds @work to the pending work. The caller then tries to run the side. Any context, no lock. */
void rox_side_announce(struct rox_side *side, unsigned long work);
/*
 * As rox_side_kick(), but a worker of rox_retry_wq runs the side. It moves ROX_FAIR_BYTES at most
 * before it lets the next side run. Any context.
 */
void rox_side_kick_fairly(struct rox_side *side, unsigned long work);
/*
 * Disables bottom halves, runs the side and enables them, so that softirqs run afterwards.
 * Interrupts are enabled; called without the lock.
 * Return: true if there is more to do.
 */
bool rox_side_turn(struct rox_side *side);
/*
 * Leaves the side, which has pending work, to the engine that watches its queue, or to a worker. A
 * full barrier is between the work and the call. Any context.
 */
void rox_side_defer(struct rox_side *side);
/*
 * Queues a received frame, or counts it as dropped and frees it. Bottom halves disabled.
 * Return: true if the side has to run.
 */
bool rox_side_queue(struct rox_side *side, struct sk_buff *skb);
/* Return: how many softirqs this CPU has run, which identifies the current one. */
unsigned int rox_softirq_number(void);
/* Set up and end the lists of sides that run soon, at module load and unload (soon.c). */
void rox_soon_init(void);
void rox_soon_exit(void);
/* Called in a run: makes a worker run the side once more. */
void rox_side_again(struct rox_side *side);

/* May this run send another burst, or take another frame? */
static inline bool rox_side_has_room(const struct rox_side *side)
{
	return side->room >= ROX_BURST_BYTES;
}

/* Counts @bytes of payload that the run has sent or received. */
static inline void rox_side_moved(struct rox_side *side, u32 bytes)
{
	side->room -= min(bytes, side->room);
}

static inline void rox_side_assert_held(const struct rox_side *side)
{
	lockdep_assert(lock_is_held(&side->dep_map));
}

/*
 * Loopback: rox_side_try() takes the lock of a side, so that the caller can give it packets
 * directly. It returns false if the lock is taken. rox_side_release() gives the lock back; work
 * that became pending meanwhile is done later.
 */
bool rox_side_try(struct rox_side *side);
void rox_side_release(struct rox_side *side);
/* Return: the oldest received frame, removed from the queue, or NULL. */
struct sk_buff *rox_side_next_frame(struct rox_side *side);
/* Puts a frame back at the head of the queue. */
void rox_side_put_back(struct rox_side *side, struct sk_buff *skb);
/* Drops all received frames. */
void rox_side_purge(struct rox_side *side);
/*
 * The side begins to wait for pages on demand, which may take for ever. Drops frames beyond the
 * lower limit for such sides.
 */
void rox_side_hold(struct rox_side *side);
/* The pages are there: @resume of struct rox_page_wait. */
void rox_side_resume(struct rox_page_wait *pages);
/* The queues of this host have room: @resume of struct rox_net_ops (soon.c). */
void rox_sender_resume(struct rox_sender *sender);

/*
 * Take and give back the lock of a side. rox_side_lock() sleeps. rox_side_unlock() runs the side
 * if it has pending work. Process context.
 */
void rox_side_lock(struct rox_side *side);
void rox_side_unlock(struct rox_side *side);

/*
 * The end of a side. rox_side_close() follows rox_side_lock(): the lock is never given back, so
 * the side never runs again. Work items that start meanwhile find the lock taken and return.
 * rox_side_cancel() cancels the work items, after the timer and the page faults of the side have
 * ended. Process context; rox_side_cancel() sleeps.
 */
void rox_side_close(struct rox_side *side);
void rox_side_cancel(struct rox_side *side);

/* engine.c */
/*
 * Called before the doorbell of a QP with engines runs the side. Return: the time in ns; 0 if this
 * doorbell is not timed.
 */
u64 rox_engine_clock(const struct rox_qp *qp);
/*
 * Called after the doorbell has run the side. @begin is from rox_engine_clock(). The program's
 * task; may sleep.
 */
void rox_engine_rung(struct rox_qp *qp, u64 begin);
/*
 * Removes the send queue from its engine. Process context, sleeps. The QP is in RESET for good,
 * and its doorbell does not ring.
 */
void rox_engine_leave(struct rox_qp *qp);

/* late.c */
void rox_late_init(struct rox_late *late);
/* Return: true if so many doorbells in so many jiffies should be fewer. Any context. */
bool rox_late_pays(u32 rings, unsigned long jiffies_);
/* The program may ring late from the next run on. Its provider knows that. Any context. */
void rox_late_begin(struct rox_qp *qp);
/* Stops the timer. The sides are closed, no doorbell rings. Process context, sleeps. */
void rox_late_stop(struct rox_qp *qp);

/* The QP as a user of memory: with the rights of its PD (own), or on behalf of its peer. */
static inline struct rox_mem_user rox_own_memory(const struct rox_qp *qp, struct ib_pd *pd)
{
	return (struct rox_mem_user) { .mem = &qp->dev->mem, .pd = pd, .user = qp->user };
}

/* The same for its receives: those of an SRQ use memory of the SRQ's PD. */
static inline struct rox_mem_user rox_recv_memory(const struct rox_qp *qp)
{
	return rox_own_memory(qp, qp->ibqp.srq ? qp->ibqp.srq->pd : qp->recv.pd);
}

static inline struct rox_mem_user rox_peer_memory(const struct rox_qp *qp)
{
	return (struct rox_mem_user) {
		.mem = &qp->dev->mem,
		.pd = qp->recv.pd,
		.qpn = qp->ibqp.qp_num,
		.user = qp->user,
	};
}

/* state.c */
/*
 * Moves the QP to ERR, once, and raises @event unless that is negative. Both sides then flush.
 * Called with the lock of either side.
 */
void rox_qp_fail(struct rox_qp *qp, int event);
/* UC and UD, send side: moves the QP from RTS or SQD to SQE. */
void rox_qp_send_queue_error(struct rox_qp *qp);
/* In SQD: raises IB_EVENT_SQ_DRAINED, if requested, once the queue has drained. */
void rox_qp_check_drained(struct rox_qp *qp);

/* wqe.c */
/*
 * Copies the next WQE of the ring into its slot and validates it. The status of the copy says
 * what is wrong with it.
 * Return: true if there was one.
 */
bool rox_wqe_pull(struct rox_qp *qp);

/* Puts the references of a WQE. */
static inline void rox_wqe_release(struct rox_swqe *wqe)
{
	if (!wqe->ah)
		return;
	rox_ah_put(wqe->ah);
	wqe->ah = NULL;
}

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

/* The response has data for the memory that the WQE names. */
static inline bool rox_wqe_fetches(const struct rox_swqe *wqe)
{
	return BIT_ULL(wqe->opcode) & (BIT_ULL(IB_WR_RDMA_READ) |
				       BIT_ULL(IB_WR_ATOMIC_CMP_AND_SWP) |
				       BIT_ULL(IB_WR_ATOMIC_FETCH_AND_ADD));
}

/* Completes by a response of its own and not by an ACK; counts against max_rd_atomic. */
static inline bool rox_wqe_is_answered(const struct rox_swqe *wqe)
{
	return rox_wqe_fetches(wqe) || rox_wqe_is_atomic_write(wqe);
}

/* May an ACK complete it? Also if quick.c has fetched the data of the response. */
static inline bool rox_wqe_is_acked(const struct rox_swqe *wqe)
{
	return !rox_wqe_is_answered(wqe) || wqe->fetched;
}

/*
 * Operations on keys. They are executed in order with other WQEs, but send nothing and use no
 * PSN.
 */
static inline bool rox_wqe_is_local(const struct rox_swqe *wqe)
{
	return wqe->opcode == IB_WR_LOCAL_INV || wqe->opcode == IB_WR_BIND_MW ||
	       wqe->opcode == IB_WR_REG_MR;
}

/* refused.c */
void rox_send_refused(struct rox_qp *qp);

/* requester.c */
/* Runs the send side. Return: true if the budget was used up. */
bool rox_send_run(struct rox_qp *qp, unsigned long work);
/* The rest of rox_send_iter(), where the iterator is another one, or at another position. */
struct rox_iter *rox_send_iter_new(struct rox_qp *qp, struct rox_swqe *wqe, u32 index, u32 offset);

/*
 * Sends one burst of a SEND or WRITE, @most packets at most, from wqe->sent on. @follow: how many
 * messages may follow in the same frame. Return: 0 or an error of rox_xmit() or rox_fault_ready().
 */
int rox_xmit_message(struct rox_qp *qp, struct rox_swqe *wqe, u32 index, u32 most, u32 follow);
/* The same for a WQE that rox_wqe_is_answered(): an ATOMIC, or the rest of a piece of a READ. */
int rox_xmit_answered(struct rox_qp *qp, struct rox_swqe *wqe, u32 index, u32 follow);

/*
 * Return: an iterator over the payload of @wqe (at ring index @index) from byte @offset. Ends the
 * previous iterator.
 */
static inline struct rox_iter *rox_send_iter(struct rox_qp *qp, struct rox_swqe *wqe, u32 index,
					     u32 offset)
{
	struct rox_send *send = &qp->send;

	if (send->iter_valid && send->iter_wqe == index && send->iter_off == offset)
		return &send->iter;
	return rox_send_iter_new(qp, wqe, index, offset);
}

/* Ends that iterator and releases its MR. */
static inline void rox_send_iter_end(struct rox_qp *qp)
{
	if (qp->send.iter_valid)
		rox_iter_end(&qp->send.iter);
	qp->send.iter_valid = false;
}

/* quick.c */
/* The rest of rox_quick_send(). */
bool rox_quick_now(struct rox_qp *qp, struct rox_swqe *wqe, u32 index, bool more);

/*
 * Sends the current WQE, and the peer executes it, if it is a WRITE, READ or ATOMIC for which that
 * is simple. @more: messages follow in this run, one ACK for all will do. Return: false if it did
 * nothing.
 */
static inline bool rox_quick_send(struct rox_qp *qp, struct rox_swqe *wqe, u32 index, bool more)
{
	if (wqe->npkts > 1 && (!rox_wqe_is_read(wqe) || wqe->sent || wqe->length > ROX_BURST_BYTES))
		return false;
	return (wqe->opcode == IB_WR_RDMA_WRITE || rox_wqe_fetches(wqe)) && !wqe->odp &&
	       wqe->length && qp->ibqp.qp_type == IB_QPT_RC && rox_quick_now(qp, wqe, index, more);
}

/* completer.c: process a frame, or one packet, with ACKs or responses */
void rox_comp_frame(struct rox_qp *qp, struct sk_buff *skb);
void rox_comp_packet(struct rox_qp *qp, const struct rox_pkt *pkt);
/* The rest of rox_comp_turn(). */
void rox_comp_early(struct rox_qp *qp);
/* @pkt is the response to a request whose data quick.c has fetched. It has nothing but an AETH. */
void rox_comp_fetched(struct rox_qp *qp, const struct rox_pkt *pkt);
/* ROX_WAIT_REFUSED is over: the fatal NAK takes effect. */
void rox_comp_refused(struct rox_qp *qp);

/* direct.c */
/* Processes the ACK or NAK in send.mail, then the ACK in send.answer. There is at least one. */
void rox_mail_read(struct rox_qp *qp);

/* The rest of rox_send_peer(). */
struct rox_qp *rox_send_find_peer(struct rox_qp *qp);

/*
 * Return: the peer of a connected QP on the same device, or NULL. The caller has the lock of the
 * send side of @qp. The run puts the reference when it ends.
 */
static inline struct rox_qp *rox_send_peer(struct rox_qp *qp)
{
	return qp->send.kept.peer ?: rox_send_find_peer(qp);
}

/* Processes them, if there are any. Return: true if there was one. */
static inline bool rox_mail_take(struct rox_qp *qp)
{
	if (likely(!atomic64_read(&qp->send.mail) && !qp->send.answer))
		return false;
	rox_mail_read(qp);
	return true;
}

/*
 * Acknowledges to @sender, which is sending in this context, with the lock of both sides. See
 * rox_ack_send() for the rest.
 */
void rox_ack_direct(struct rox_qp *qp, struct rox_qp *sender);
/*
 * Responds to the READ or ATOMIC of @sender before recv.epsn, which has fetched its data and those
 * of all before. The response acknowledges what is before it. No frames wait for the sender's side.
 */
void rox_response_direct(struct rox_qp *qp, struct rox_qp *sender);
/* For a new QP. */
void rox_kept_init(struct rox_qp *qp);
/* Drops the MRs that are kept, so that they are not busy. No iterator uses them. */
void rox_kept_drop_mrs(struct rox_qp *qp);
/* The same, and drops the peer. */
void rox_kept_drop(struct rox_qp *qp);
/* At the end of the run: drops what it has kept without a lease. */
void rox_kept_settle(struct rox_qp *qp);

/* local.c */
/*
 * Executes the local operation @wqe, which is the current WQE.
 * Return: false if it has to wait, or failed.
 */
bool rox_local_run(struct rox_qp *qp, struct rox_swqe *wqe);

/* retire.c */
/* Completes the oldest WQE with its status and frees its entry of the ring. */
void rox_retire_tail(struct rox_qp *qp);
/* If the oldest WQE has an error, completes it and moves the QP to ERR (UC, UD: SQE). */
void rox_retire_failed(struct rox_qp *qp);
/*
 * ERR and SQE: completes outstanding and posted WQEs with WR_FLUSH_ERR, in order; ROX_RUN_FLUSHES
 * at most. Return: true if outstanding ones are left.
 */
bool rox_send_flush(struct rox_qp *qp);
/* RESET: drops all WQEs without completions. */
void rox_send_drop(struct rox_qp *qp);

/* retry.c */
/* For a new QP. Process context, no lock. */
void rox_timer_init(struct rox_qp *qp);
/* Makes the timer fire at send.deadline, or earlier. */
void rox_timer_arm(struct rox_qp *qp);

/* Sets the timer for @what at @when, in ktime ns. No other function writes these two fields. */
static inline void rox_timer_set(struct rox_qp *qp, enum rox_wait what, u64 when)
{
	qp->send.waits = what;
	qp->send.deadline = when;
	if (what != ROX_WAIT_NOTHING)
		rox_timer_arm(qp);
}

/* The timer is not needed. It may still fire; that has no effect. */
static inline void rox_timer_clear(struct rox_qp *qp)
{
	rox_timer_set(qp, ROX_WAIT_NOTHING, 0);
}

/* Does the send side wait for the timer and send nothing before? */
static inline bool rox_send_pauses(const struct rox_qp *qp)
{
	return qp->send.waits >= ROX_WAIT_RNR;
}

/* Resets the retry counters and stops the ACK timeout. */
void rox_retry_reset(struct rox_qp *qp);
/* @pkts more packets were acknowledged: resets the retry counters and opens the window. */
void rox_retry_progress(struct rox_qp *qp, u32 pkts);
/* Starts the ACK timeout or a probe, if packets are outstanding and the timer is not set. */
void rox_retry_watch(struct rox_qp *qp);
/* The timer has fired: acts if send.deadline has passed, else arms the timer again. */
void rox_retry_timeout(struct rox_qp *qp);
/* The peer lacks the packet una: what does that say of the path? See rox_tx_missing(). */
void rox_retry_missing(struct rox_qp *qp, bool known);
/*
 * Something is to be retransmitted because of @cause. Uses up a retry, unless NAKs are free. If
 * none is left, the oldest WQE fails.
 * Return: false if nothing is to be retransmitted.
 */
bool rox_retry_pays(struct rox_qp *qp, enum rox_retry_cause cause);
/*
 * Retransmits from the oldest unacknowledged packet on, if retries are left. Otherwise the oldest
 * WQE fails.
 */
void rox_retry_go_back(struct rox_qp *qp, enum rox_retry_cause cause);
/* The same without using up a retry: a response arrived, but its data could not be stored. */
void rox_retry_again(struct rox_qp *qp);
/* RNR NAK: waits for the RNR delay of @timer_code, or fails the oldest WQE. */
void rox_retry_rnr(struct rox_qp *qp, u8 timer_code);

/* recovery.c: what is retransmitted, and whether the peer stores early requests */
/* The connection begins. */
void rox_recovery_reset(struct rox_qp *qp);
/* The requester has gone back to una. */
void rox_recovery_rewound(struct rox_qp *qp);
/* The requester has gone back to una because of a sequence NAK. */
void rox_recovery_lacks(struct rox_qp *qp);
/*
 * A NAK (@nak) or a timeout says that the packet at una is missing. Requests that the gap be
 * filled, at once or after a wait.
 * Return: false if go-back-N is needed.
 */
bool rox_recovery_gap(struct rox_qp *qp, bool nak);
/* Retransmits send.recovery.due packets, which is not 0. */
void rox_recovery_send(struct rox_qp *qp);
/*
 * Return: how long to wait for an ACK, in ns, @timeout at most. Sets @what to ROX_WAIT_PROBE or
 * ROX_WAIT_ACK.
 */
u64 rox_recovery_wait(struct rox_qp *qp, u64 timeout, enum rox_wait *what);
/*
 * The wait for @what is over.
 * Return: true if packets are retransmitted; false if it was the ACK timeout.
 */
bool rox_recovery_probe(struct rox_qp *qp, enum rox_wait what);
/* Packets are outstanding: starts to measure a round trip at @now. */
void rox_recovery_watch(struct rox_qp *qp, u64 now);
/* The oldest unacknowledged PSN moves on to @una. */
void rox_recovery_progress(struct rox_qp *qp, u32 una);
/* All that an ACK acknowledges has been told by rox_recovery_progress(), and una is behind it. */
void rox_recovery_settle(struct rox_qp *qp);
/* Return: packets that may be in flight beyond the window, as the peer keeps others. */
u32 rox_recovery_extra(const struct rox_qp *qp);

/* Does it matter to recovery which PSNs are acknowledged? */
static inline bool rox_recovery_is_busy(const struct rox_qp *qp)
{
	const struct rox_recovery *rec = &qp->send.recovery;

	return rec->resent || rec->trial || rec->lacks || qp->send.waits == ROX_WAIT_GAP;
}

/* Sets the expected PSN. query_qp reads it without the lock. */
static inline void rox_expect(struct rox_qp *qp, u32 psn)
{
	WRITE_ONCE(qp->recv.epsn, psn);
}

/* responder.c */
/* Runs the receive side. Return: true if the budget was used up. */
bool rox_recv_run(struct rox_qp *qp, unsigned long work);
/* Processes one packet, or a loopback burst. */
void rox_recv_packet(struct rox_qp *qp, const struct rox_pkt *pkt);
/* A packet was accepted: raises IB_EVENT_COMM_EST for the first one, in RTR. */
void rox_established(struct rox_qp *qp);
/* Makes @pkt, and all packets after it, wait for the pages that rox_fault_in() fetches. */
void rox_recv_hold(struct rox_qp *qp, const struct rox_pkt *pkt);
/* Drops all received frames, with the early and the held ones. */
void rox_recv_purge(struct rox_qp *qp);

/* early.c: packets that come early (RC, XRC), in recv.early or send.early */
enum rox_early_is {
	ROX_EARLY_KEPT,
	ROX_EARLY_REPEATED,	/* its PSN is stored already */
	ROX_EARLY_LOST,		/* too far ahead, no memory, or loopback */
};

/* Stores @pkt, packet @index of its frame. Its PSN is after @expected. */
enum rox_early_is rox_early_keep(struct rox_qp *qp, struct rox_early *early, u32 expected,
				 const struct rox_pkt *pkt, u32 index);
/* Return: the first PSN from @psn on that is not stored. */
u32 rox_early_next_gap(struct rox_early *early, u32 psn);
/* Is the expected packet stored? Drops stored packets that have been processed meanwhile. */
bool rox_early_first_due(struct rox_qp *qp, struct rox_early *early, u32 expected);
/* Return: the frame that rox_early_due() has found. */
struct sk_buff *rox_early_take(struct rox_qp *qp, struct rox_early *early);
/* Drops all that are stored. */
void rox_early_purge(struct rox_qp *qp, struct rox_early *early);

static inline bool rox_early_due(struct rox_qp *qp, struct rox_early *early, u32 expected)
{
	return unlikely(!RB_EMPTY_ROOT(&early->tree)) && rox_early_first_due(qp, early, expected);
}

/* Is the request that the responder expects stored? */
static inline bool rox_request_due(struct rox_qp *qp)
{
	return rox_early_due(qp, &qp->recv.early, qp->recv.epsn);
}

/* Is the response that the requester waits for stored? */
static inline bool rox_response_due(struct rox_qp *qp)
{
	return rox_early_due(qp, &qp->send.early, qp->send.una);
}

/* holes.c: responses that are missing although later ones have come */
/*
 * @pkt, packet @index of its frame, shows that the peer has executed all requests up to the PSN
 * @executed. The response una is missing.
 */
void rox_holes_note(struct rox_qp *qp, const struct rox_pkt *pkt, u32 executed);
/* Keeps the response @pkt, packet @index of its frame, which is not the one that is waited for. */
void rox_holes_keep(struct rox_qp *qp, const struct rox_pkt *pkt, u32 index);
/* Go-back-N: all is requested again that has not come. */
void rox_holes_rewound(struct rox_qp *qp);
/* The connection begins. */
void rox_holes_reset(struct rox_qp *qp);
/* Requests again, when the frames of a run were processed. Only if rox_holes_busy(). */
void rox_holes_settle(struct rox_qp *qp);
/*
 * Requests the responses from @from to @to again that are missing. They were requested before.
 * Return: number of requests. 0 also if pages on demand are missing.
 */
u32 rox_holes_fill(struct rox_qp *qp, u32 from, u32 to);

/* Has a later response or ACK shown that the response una is missing? */
static inline bool rox_holes_seen(const struct rox_qp *qp)
{
	return unlikely(qp->send.holes.executed);
}

/* Is there anything for rox_holes_settle()? */
static inline bool rox_holes_busy(const struct rox_qp *qp)
{
	return unlikely(qp->send.holes.executed | qp->send.holes.asked);
}

/* Processes the responses that came early and whose turn it is. */
static inline void rox_comp_turn(struct rox_qp *qp)
{
	if (rox_holes_seen(qp) || unlikely(!RB_EMPTY_ROOT(&qp->send.early.tree)))
		rox_comp_early(qp);
}

/* resp_exec.c: executes SENDs and WRITEs of RC, XRC and UC */
/* Result of executing a request. For RC, all but OK, DROP, HOLD and RNR end the connection. */
enum rox_verdict {
	ROX_V_OK,
	ROX_V_DROP,		/* ignored, as if it had been lost */
	ROX_V_HOLD,		/* tried again when its pages have been fetched */
	ROX_V_RNR,		/* no receive WQE */
	ROX_V_INV_REQ,		/* NAK invalid request */
	ROX_V_LOC_LEN,		/* the same; on RC a receive completion has the error: no event */
	ROX_V_REM_ACCESS,	/* NAK remote access error: an rkey, or XRC's SRQ */
	ROX_V_REM_OP,		/* NAK remote operational error; a completion has the error */
	ROX_V_FATAL,		/* the CQ is in error, or a ring is corrupted */
};

/* Execute one packet of a SEND or WRITE. */
enum rox_verdict rox_exec_send(struct rox_qp *qp, const struct rox_pkt *pkt);
enum rox_verdict rox_exec_write(struct rox_qp *qp, const struct rox_pkt *pkt);
/*
 * Takes a receive WQE, unless recv.recv has one. One that has no room for @least bytes stays where
 * it is, and is counted; ROX_V_RNR as without a WQE.
 */
enum rox_verdict rox_recv_take(struct rox_qp *qp, u32 least);
/*
 * Completes the receive WQE in recv.recv. @pkt is the last packet of the message, or NULL with an
 * error.
 */
enum rox_verdict rox_recv_complete(struct rox_qp *qp, enum ib_wc_status status,
				   const struct rox_pkt *pkt, u32 byte_len);
/* Ends the iterator and releases its MR. Called at the end of each run. */
static inline void rox_recv_iter_end(struct rox_qp *qp)
{
	if (qp->recv.iter_valid)
		rox_iter_end(&qp->recv.iter);
	qp->recv.iter_valid = false;
}

/* ERR: flushes receives. Return: true if there are more. */
bool rox_recv_flush(struct rox_qp *qp);

/* resp_read.c: executes READs, ATOMICs and ATOMIC WRITEs */
enum rox_verdict rox_exec_read(struct rox_qp *qp, const struct rox_pkt *pkt);
enum rox_verdict rox_exec_atomic(struct rox_qp *qp, const struct rox_pkt *pkt);
enum rox_verdict rox_exec_atomic_write(struct rox_qp *qp, const struct rox_pkt *pkt);
/*
 * Return: a new entry of recv->res for a request in sequence, of one packet. @kind: enum rox_kind.
 * The response acknowledges all requests before it, so no ACK is due.
 */
struct rox_rd_res *rox_res_new(struct rox_qp *qp, u8 kind, u32 psn);
/* Also atomic with regard to the CPUs of the host. Return: what was there before. */
u64 rox_atomic_do(atomic64_t *target, u8 kind, u64 swap_add, u64 compare);
/* Answers a request that has been executed already. */
void rox_exec_duplicate(struct rox_qp *qp, const struct rox_pkt *pkt);
/*
 * A queue of this host has refused packets of the READ that was answered last: the next burst
 * begins with them. The end of one before, in the same frame, is lost: nothing is known of that.
 */
void rox_read_refused(struct rox_qp *qp);
/* rox_read_continue() if there are READ responses to send. */
int rox_read_responses(struct rox_qp *qp, int bursts);

/* Sends up to @bursts bursts of READ responses. Return: what is left of @bursts. */
static inline int rox_read_continue(struct rox_qp *qp, int bursts)
{
	return likely(!qp->recv.read.active) ? bursts : rox_read_responses(qp, bursts);
}

/* resp_ack.c */
void rox_ack_send(struct rox_qp *qp);		/* ACK up to epsn - 1 */
void rox_nak_send(struct rox_qp *qp, u8 syndrome, u32 psn);
/* Return: AETH syndrome of an ACK, with the credits of the receive queue. */
u8 rox_ack_syndrome(struct rox_qp *qp);

/*
 * Fills in the fields that all bursts of a connected QP share, for a burst of one packet. @b is
 * zeroed.
 */
static inline void rox_burst_init(struct rox_qp *qp, struct rox_burst *b, u32 psn)
{
	b->from = &qp->ep;
	b->path = &qp->path;
	b->dqpn = qp->attr.dest_qp_num;
	b->pkey = rox_qp_pkey(qp);
	b->psn = psn;
	b->mtu = qp->mtu;
	b->npkts = 1;
}

/* deliver.c */
/* Loopback: does @qp hear what its device sends on @path? Bottom halves disabled. */
bool rox_hears_local(const struct rox_qp *qp, const struct rox_path *path);

/* cnp.c: congestion notification packets */
/*
 * At the end of a run: ep.marked says that packets came with the mark for congestion. Sends a CNP
 * to the peer of a connection, unless one was sent not long ago. Return: true if it sent one.
 */
bool rox_cnp_answer(struct rox_qp *qp);
/* The same for UD: @pkt is the marked packet. */
void rox_cnp_answer_datagram(struct rox_qp *qp, const struct rox_pkt *pkt);
/* Counts CNPs. Return: true if the send side has to know. Any context, no lock. */
bool rox_cnp_came(struct rox_qp *qp, u32 count);

/* uncut.c: at the end of a run with ep.uncut, tells the peer that its frames come as they are. */
void rox_uncut_tell(struct rox_qp *qp);

/* xrc.c: receive side of a target QP; it has no reference to an SRQ between runs */
/* Looks up the SRQ that a request names and sets recv.xsrq and recv.pd, or NULL if not found. */
void rox_xrc_enter(struct rox_qp *qp, const struct rox_pkt *pkt);
/* Puts the SRQ. */
void rox_xrc_leave(struct rox_qp *qp);
/* Is the SRQ there, and the same for the whole message? */
bool rox_xrc_request_ok(struct rox_qp *qp, const struct rox_pkt *pkt);
/*
 * A READ continues in later runs: the first remembers the SRQ that its request named, the second
 * looks that SRQ up again.
 */
void rox_xrc_read_begin(struct rox_qp *qp);
void rox_xrc_read_resume(struct rox_qp *qp);
/* Completes a receive of recv.srq. */
enum rox_verdict rox_xrc_complete(struct rox_qp *qp, const struct rox_cqe *cqe, bool solicited);

/* resp_dgram.c: receive a packet of UC, UD */
void rox_recv_uc(struct rox_qp *qp, const struct rox_pkt *pkt);
void rox_recv_ud(struct rox_qp *qp, const struct rox_pkt *pkt);

#endif /* ROX_TRANSPORT_INTERNAL_H */
