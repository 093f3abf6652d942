// SPDX-License-Identifier: GPL-2.0
/*
 * Retransmission: one timer, go-back-N, RNR waits. IBTA volume 1, 9.7.6.1.3
 * (timeouts), 9.7.5.2.8 (RNR NAK), 9.9.2.1 (retry counters).
 */
#include "internal.h"

/* NAKs for one gap that are followed at once. */
#define ROX_FREE_NAKS 3

/* RNR NAKs without progress that are followed by the timer itself, at once. */
#define ROX_SOFTIRQ_RNR_WAITS 2

/* Timeouts in a row do not last longer than this, unless the QP asks for more. */
#define ROX_MAX_BACKOFF_NS (NSEC_PER_SEC / 2)

/*
 * Who has to post the receive may need this CPU for that. The timers of some QPs that
 * ask every few microseconds would keep softirqs busy for ever, so what has been refused
 * some times is sent by a worker.
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
	hrtimer_setup(&qp->send.timer, rox_timer_fn, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
}

void rox_timer_arm(struct rox_qp *qp)
{
	struct hrtimer *timer = &qp->send.timer;
	ktime_t when = ns_to_ktime(qp->send.deadline);

	/* A timer that fires too early looks at the deadline and is armed again. */
	if (hrtimer_is_queued(timer) && ktime_before(hrtimer_get_expires(timer), when))
		return;
	hrtimer_start(timer, when, HRTIMER_MODE_ABS_SOFT);
}

/*
 * The specification allows up to four times what the QP asks for (9.7.6.1.3).
 * The second and later timeouts in a row take it if they are short: the peer,
 * or a queue on the way, is slow rather than the packet lost. A QP with long
 * ones waits for long enough as it is: a lost peer has to be found out.
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
	send->naks = 0;
	WRITE_ONCE(send->rnr_waits, 0);
	send->retry = qp->attr.retry_cnt;
	send->rnr_retry = qp->attr.rnr_retry;
	if (!send->waiting_rnr)
		send->deadline = 0;
}

void rox_retry_progress(struct rox_qp *qp, u32 pkts)
{
	qp->send.window = min(qp->send.window + pkts, rox_window_max(qp));
	rox_recovery_progress(qp, rox_psn_add(qp->send.una, pkts));
	rox_retry_reset(qp);
}

void rox_retry_watch(struct rox_qp *qp)
{
	struct rox_send *send = &qp->send;
	u64 timeout, now;

	if (!rox_is_rc(qp) || send->waiting_rnr)
		return;
	if (send->psn == send->una) {
		send->deadline = 0;
		return;
	}
	if (send->deadline)
		return;
	timeout = rox_ack_timeout(qp);
	if (!timeout)
		return;
	now = ktime_get_ns();
	send->deadline = now + rox_recovery_wait(qp, timeout);
	rox_recovery_watch(qp, now);
	rox_timer_arm(qp);
}

/* The oldest WQE fails with @status; the run's end completes it and the QP is in ERR. */
static void rox_retry_exhausted(struct rox_qp *qp, enum ib_wc_status status)
{
	rox_qp_count(qp, status == IB_WC_RNR_RETRY_EXC_ERR ? ROX_CNT_RNR_EXCEEDED :
							       ROX_CNT_RETRY_EXCEEDED);
	rox_swqe_at(qp, qp->send.tail)->status = status;
	rox_retire_failed(qp);
}

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
	send->deadline = 0;
	rox_recovery_rewound(qp);
}

/*
 * NAKs come at the pace of the wire. Where every long packet is lost and the
 * short ones behind them pass, they would use up all retries in no time: only
 * so many are followed before it is the ACK timer's turn, which counts.
 */
static bool rox_nak_is_free(struct rox_qp *qp, enum rox_retry_cause cause)
{
	return (cause == ROX_RETRY_SEQ_NAK || cause == ROX_RETRY_IMPLIED) && qp->attr.timeout;
}

void rox_retry_go_back(struct rox_qp *qp, enum rox_retry_cause cause)
{
	struct rox_send *send = &qp->send;

	if (send->tail == qp->sq.index || send->waiting_rnr)
		return;
	trace_rox_retry(qp->ibqp.qp_num, send->una, cause, send->retry);
	if (rox_nak_is_free(qp, cause)) {
		if (send->naks >= ROX_FREE_NAKS)
			return;
		send->naks++;
	} else if (cause != ROX_RETRY_RNR) {
		if (!send->retry) {
			rox_retry_exhausted(qp, IB_WC_RETRY_EXC_ERR);
			return;
		}
		send->retry--;
	}
	/* Whatever shows that una is missing, perhaps no more than that is. */
	if ((cause == ROX_RETRY_SEQ_NAK || cause == ROX_RETRY_TIMEOUT) &&
	    rox_recovery_gap(qp, cause == ROX_RETRY_SEQ_NAK))
		return;
	rox_rewind(qp);
}

void rox_retry_again(struct rox_qp *qp)
{
	/* The timer will go back anyway. */
	if (qp->send.waiting_rnr)
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
	/* 7 means for ever. */
	if (qp->attr.rnr_retry != 7)
		send->rnr_retry--;
	if (send->rnr_waits < U8_MAX)
		WRITE_ONCE(send->rnr_waits, send->rnr_waits + 1);
	send->waiting_rnr = true;
	send->deadline = ktime_get_ns() + rox_rnr_timer_ns(timer_code);
	rox_timer_arm(qp);
}

void rox_retry_timeout(struct rox_qp *qp)
{
	struct rox_send *send = &qp->send;

	if (!send->deadline)
		return;
	if (ktime_get_ns() < send->deadline) {
		rox_timer_arm(qp);
		return;
	}
	send->deadline = 0;
	if (send->waiting_rnr) {
		send->waiting_rnr = false;
		rox_retry_go_back(qp, ROX_RETRY_RNR);
		return;
	}
	if (send->psn == send->una || rox_recovery_probe(qp))
		return;
	rox_qp_count(qp, ROX_CNT_LOCAL_ACK_TIMEOUT);
	/* All at once again would only lengthen the queue that may be the reason. */
	send->window = ROX_WINDOW_PROBE;
	send->naks = 0;
	if (send->timeouts < U8_MAX)
		send->timeouts++;
	rox_retry_go_back(qp, ROX_RETRY_TIMEOUT);
}
