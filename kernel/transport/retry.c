// SPDX-License-Identifier: GPL-2.0
/*
 * Retransmission: the timer, go-back-N, RNR delays. IBTA volume 1, 9.7.6.1.3 (timeouts),
 * 9.7.5.2.8 (RNR NAK), 9.9.2.1 (retry counters).
 */
#include "internal.h"

/* NAKs without progress that cause a retransmission at once. */
#define ROX_FREE_NAKS 3

/* Up to this many RNR NAKs without progress, the timer repeats the request in softirq context. */
#define ROX_SOFTIRQ_RNR_WAITS 2

/* Repeated ACK timeouts are not made longer than this, unless the QP asks for more. */
#define ROX_MAX_BACKOFF_NS (NSEC_PER_SEC / 2)

/*
 * The task that has to post the receive may need this CPU. The timers of some QPs with short RNR
 * delays could keep softirqs busy for ever. So after some RNR NAKs in a row a worker repeats the
 * request.
 */
static enum hrtimer_restart rox_timer_fn(struct hrtimer *timer)
{
	struct rox_qp *qp = container_of(timer, struct rox_qp, send.timer);

	if (READ_ONCE(qp->send.rnr_waits) > ROX_SOFTIRQ_RNR_WAITS)
		rox_side_kick_fairly(&qp->send.side, ROX_WORK_TIMEOUT);
	else
		rox_side_kick(&qp->send.side, ROX_WORK_TIMEOUT);
	return HRTIMER_NORESTART;
}

void rox_timer_init(struct rox_qp *qp)
{
	rox_cc_setup(qp);
	rox_late_init(&qp->send.late);
	hrtimer_setup(&qp->send.timer, rox_timer_fn, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
}

void rox_timer_arm(struct rox_qp *qp)
{
	struct hrtimer *timer = &qp->send.timer;
	ktime_t when = ns_to_ktime(qp->send.deadline);

	/*
	 * Under the lock of the side: after rox_side_close() and hrtimer_cancel() nobody arms it
	 * again.
	 */
	rox_side_assert_held(&qp->send.side);
	/* If the timer fires before the deadline, rox_retry_timeout() arms it again. */
	if (hrtimer_is_queued(timer) && ktime_before(hrtimer_get_expires(timer), when))
		return;
	hrtimer_start(timer, when, HRTIMER_MODE_ABS_SOFT);
}

/*
 * The ACK timeout, in ns; 0: none. The specification allows up to four times what the QP asks for
 * (9.7.6.1.3). Repeated timeouts use that if they are short, because then the peer or a queue on
 * the way is probably slow and no packet lost. Long timeouts stay as they are, so that a dead
 * peer is detected.
 */
static u64 rox_ack_timeout(const struct rox_qp *qp)
{
	u64 ns = rox_ack_timeout_ns(qp->attr.timeout);
	u64 backoff;

	if (!ns)
		return 0;
	ns = max_t(u64, ns, ROX_MIN_ACK_TIMEOUT_NS);
	backoff = ns << min(qp->send.timeouts, 2);
	return max(ns, min_t(u64, backoff, ROX_MAX_BACKOFF_NS));
}

void rox_retry_reset(struct rox_qp *qp)
{
	struct rox_send *send = &qp->send;

	send->timeouts = 0;
	send->lingers = 0;
	send->naks = 0;
	WRITE_ONCE(send->rnr_waits, 0);
	send->retry = qp->attr.retry_cnt;
	send->rnr_retry = qp->attr.rnr_retry;
	if (send->waits == ROX_WAIT_ACK || send->waits == ROX_WAIT_PROBE)
		rox_timer_clear(qp);
}

void rox_retry_progress(struct rox_qp *qp, u32 pkts)
{
	rox_cc_acked(qp, pkts);
	rox_recovery_progress(qp, rox_psn_add(qp->send.una, pkts));
	rox_retry_reset(qp);
}

void rox_retry_watch(struct rox_qp *qp)
{
	struct rox_send *send = &qp->send;
	enum rox_wait what;
	u64 timeout, now;

	if (!rox_is_rc(qp) || rox_send_pauses(qp))
		return;
	if (send->psn == send->una) {
		rox_timer_clear(qp);
		return;
	}
	if (send->waits != ROX_WAIT_NOTHING)
		return;
	timeout = rox_ack_timeout(qp);
	if (!timeout && !send->recovery.trial)
		return;
	now = ktime_get_ns();
	timeout = rox_recovery_wait(qp, timeout, &what);
	rox_recovery_watch(qp, now);
	rox_timer_set(qp, what, now + timeout);
}

/* Completes the oldest WQE with @status and moves the QP to ERR. */
static void rox_retry_exhausted(struct rox_qp *qp, enum ib_wc_status status)
{
	rox_qp_count(qp, status == IB_WC_RNR_RETRY_EXC_ERR ? ROX_CNT_RNR_EXCEEDED :
							       ROX_CNT_RETRY_EXCEEDED);
	rox_swqe_at(qp, qp->send.tail)->status = status;
	rox_retire_failed(qp);
}

void rox_retry_missing(struct rox_qp *qp, bool known)
{
	rox_tx_missing(&qp->ep, &qp->path, &qp->send.side.sender, qp->send.una, known);
}

/* Go-back-N: sending continues at una. */
static void rox_rewind(struct rox_qp *qp)
{
	struct rox_send *send = &qp->send;
	struct rox_swqe *wqe;
	u32 i;

	rox_send_iter_end(qp);
	for (i = send->tail; i != qp->sq.index && (s32)(send->cur - i) >= 0; i++)
		rox_swqe_at(qp, i)->sent = 0;
	wqe = rox_swqe_at(qp, send->tail);
	wqe->sent = (send->una - wqe->first_psn) & ROX_PSN_MASK;
	send->cur = send->tail;
	send->psn = send->una;
	send->asked = send->una;
	send->rd_atomic = 0;
	rox_timer_clear(qp);
	rox_recovery_rewound(qp);
	rox_holes_rewound(qp);
	rox_cc_untime(qp);
}

/*
 * NAKs arrive every round trip. If all long packets are lost and the short ones after them
 * arrive, NAKs would use up all retries at once. So a NAK uses up no retry. Only the first
 * ROX_FREE_NAKS without progress are answered; then the ACK timeout follows, which does use up a
 * retry. A QP without an ACK timeout pays a retry for each NAK.
 */
static bool rox_nak_is_free(struct rox_qp *qp, enum rox_retry_cause cause)
{
	return (cause == ROX_RETRY_SEQ_NAK || cause == ROX_RETRY_IMPLIED ||
		cause == ROX_RETRY_RESPONSE) && qp->attr.timeout;
}

bool rox_retry_pays(struct rox_qp *qp, enum rox_retry_cause cause)
{
	struct rox_send *send = &qp->send;

	if (send->tail == qp->sq.index || rox_send_pauses(qp))
		return false;
	trace_rox_retry(qp->ibqp.qp_num, send->una, cause, send->retry);
	if (rox_nak_is_free(qp, cause)) {
		if (send->naks >= ROX_FREE_NAKS)
			return false;
		send->naks++;
	} else if (cause != ROX_RETRY_RNR) {
		if (!send->retry) {
			rox_retry_exhausted(qp, IB_WC_RETRY_EXC_ERR);
			return false;
		}
		send->retry--;
	}
	return true;
}

void rox_retry_go_back(struct rox_qp *qp, enum rox_retry_cause cause)
{
	struct rox_send *send = &qp->send;

	if (!rox_retry_pays(qp, cause))
		return;
	if (cause == ROX_RETRY_SEQ_NAK || cause == ROX_RETRY_TIMEOUT)
		rox_retry_missing(qp, true);
	if (cause == ROX_RETRY_SEQ_NAK && !send->recovery.keeps)
		rox_cc_go_back(qp);
	/* Perhaps only a few packets from una on are missing. */
	if ((cause == ROX_RETRY_SEQ_NAK || cause == ROX_RETRY_TIMEOUT) &&
	    rox_recovery_gap(qp, cause == ROX_RETRY_SEQ_NAK))
		return;
	if (rox_nak_is_free(qp, cause))
		rox_cc_lost(qp, 1);
	rox_rewind(qp);
	if (cause == ROX_RETRY_SEQ_NAK)
		rox_recovery_lacks(qp);
}

void rox_retry_again(struct rox_qp *qp)
{
	/* The requester goes back when an RNR delay is over. */
	if (rox_send_pauses(qp))
		return;
	trace_rox_retry(qp->ibqp.qp_num, qp->send.una, ROX_RETRY_IMPLIED, qp->send.retry);
	rox_rewind(qp);
}

void rox_retry_rnr(struct rox_qp *qp, u8 timer_code)
{
	struct rox_send *send = &qp->send;

	if (send->tail == qp->sq.index)
		return;
	trace_rox_retry(qp->ibqp.qp_num, send->una, ROX_RETRY_RNR, send->rnr_retry);
	if (!send->rnr_retry) {
		rox_retry_exhausted(qp, IB_WC_RNR_RETRY_EXC_ERR);
		return;
	}
	/* 7 means unlimited. */
	if (qp->attr.rnr_retry != 7)
		send->rnr_retry--;
	if (send->rnr_waits < U8_MAX)
		WRITE_ONCE(send->rnr_waits, send->rnr_waits + 1);
	/* The next request is likely to get an RNR NAK, too: send only a few packets. */
	if (send->rnr_waits > ROX_SOFTIRQ_RNR_WAITS)
		rox_cc_probe(qp);
	rox_timer_set(qp, ROX_WAIT_RNR, ktime_get_ns() + rox_rnr_timer_ns(timer_code));
}

void rox_retry_timeout(struct rox_qp *qp)
{
	struct rox_send *send = &qp->send;
	enum rox_wait what = send->waits;

	if (what == ROX_WAIT_NOTHING)
		return;
	if (ktime_get_ns() < send->deadline) {
		rox_timer_arm(qp);
		return;
	}
	rox_timer_clear(qp);
	if (what == ROX_WAIT_RNR) {
		rox_retry_go_back(qp, ROX_RETRY_RNR);
		return;
	}
	if (what == ROX_WAIT_REFUSED) {
		rox_comp_refused(qp);
		return;
	}
	if (send->psn == send->una || rox_recovery_probe(qp, what))
		return;
	rox_qp_count(qp, ROX_CNT_LOCAL_ACK_TIMEOUT);
	/* Retransmitting all at once would only lengthen the queue that may be the cause. */
	rox_cc_timeout(qp);
	send->naks = 0;
	if (send->timeouts < U8_MAX)
		send->timeouts++;
	rox_retry_go_back(qp, ROX_RETRY_TIMEOUT);
}
