// SPDX-License-Identifier: GPL-2.0
/*
 * What a connection tells its congestion control algorithm, and the timer that paces it. See
 * congestion.h.
 */
#include <net/inet_ecn.h>
#include "internal.h"

/* Nobody waits for a time that is so near: the timer would cost more than the wait is worth. */
#define ROX_PACE_SLACK_NS	(20 * NSEC_PER_USEC)

/* A window needs so many ACKs, so that it does not stand still until all of it is acknowledged. */
#define ROX_ASK_PART		4U

/*
 * The pacer is a timer of its own. While a flow waits for its rate, packets are usually outstanding
 * and send.timer is set for their ACK, or for a gap; with one timer each of the two waits would
 * have to be set again whenever the other one ends.
 */
static enum hrtimer_restart rox_pacer_fn(struct hrtimer *timer)
{
	struct rox_qp *qp = container_of(timer, struct rox_qp, send.cc.pacer);

	rox_side_kick(&qp->send.side, ROX_WORK_RUN);
	return HRTIMER_NORESTART;
}

void rox_cc_setup(struct rox_qp *qp)
{
	hrtimer_setup(&qp->send.cc.pacer, rox_pacer_fn, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
}

/* The window has changed. */
static void rox_cc_fit(struct rox_qp *qp)
{
	struct rox_congestion *cc = &qp->send.cc;
	u32 most = rox_window_max(qp);

	cc->window = min(cc->window, most);
	cc->ask = clamp(most / ROX_ASK_PART, 1U, ROX_BURST_BYTES / qp->mtu);
}

/*
 * Datagrams have no connection to slow down. UC has no ACKs, which `adaptive` cannot do without.
 */
static const struct rox_cc_ops *rox_cc_choose(const struct rox_qp *qp)
{
	const struct rox_cc_ops *ops = READ_ONCE(qp->dev->cc_of_dscp[qp->path.tos >> 2]);

	if (rox_is_ud(qp))
		return &rox_cc_none;
	if (!ops)
		ops = READ_ONCE(qp->dev->cc.ops);
	return ops == &rox_cc_adaptive && !rox_is_rc(qp) ? &rox_cc_dcqcn : ops;
}

void rox_cc_begin(struct rox_qp *qp)
{
	struct rox_congestion *cc = &qp->send.cc;
	const struct rox_cc_ops *ops = rox_cc_choose(qp);

	qp->path.ecn = ops->ect ? INET_ECN_ECT_0 : 0;
	/*
	 * A target only answers. The requester, which marks slow down, decides how fast. Between
	 * two QPs of one device there are no queues.
	 */
	if (qp->ibqp.qp_type == IB_QPT_XRC_TGT || rox_path_loops_back(&qp->path))
		ops = &rox_cc_none;
	rox_cc_start(&qp->dev->cc, ops, &cc->flow, qp->mtu, ktime_get_ns());
	WRITE_ONCE(cc->active, ops->cnp);
	cc->cautious = false;
	cc->read_marked = false;
	cc->acked = 0;
	cc->quota = 0;
	cc->window = rox_window_max(qp);
	rox_cc_untime(qp);
	rox_cc_fit(qp);
}

/* ---- what happens ---- */

void rox_cc_feed(struct rox_qp *qp, u32 pkts)
{
	u32 una = rox_psn_add(qp->send.una, pkts);
	struct rox_congestion *cc = &qp->send.cc;
	u64 now = ktime_get_ns();
	struct rox_cc_ack ack = {
		.bytes = min(pkts, ROX_CC_WINDOW_MAX / qp->mtu) * qp->mtu,
		.in_flight = min_t(u64, (u64)rox_psn_diff(qp->send.max_psn, qp->send.una) * qp->mtu,
				   U32_MAX),
	};

	if (cc->timed_at && rox_psn_diff(una, cc->timed_psn) >= 0) {
		ack.round_trip = max(now - cc->timed_at, 1ULL);
		cc->timed_at = 0;
	}
	cc->flow.ops->acked(&qp->dev->cc, &cc->flow, &ack, now);
	rox_cc_fit(qp);
	trace_rox_congestion(qp->ibqp.qp_num, ROX_CC_ACKED, cc->flow.rate, cc->flow.window,
			     ack.round_trip);
}

/* An event that has nothing but its time. */
static void rox_cc_news(struct rox_qp *qp, enum rox_cc_event what,
			void (*fn)(const struct rox_cc_link *link, struct rox_cc *cc, u64 now))
{
	struct rox_congestion *cc = &qp->send.cc;

	if (!cc->active)
		return;
	if (fn)
		fn(&qp->dev->cc, &cc->flow, ktime_get_ns());
	rox_cc_fit(qp);
	trace_rox_congestion(qp->ibqp.qp_num, what, cc->flow.rate, cc->flow.window, 0);
}

void rox_cc_cnp(struct rox_qp *qp)
{
	rox_cc_news(qp, ROX_CC_CNP, qp->send.cc.flow.ops->cnp);
}

/* A NAK does not say how many packets are missing. If there are more, more NAKs follow. */
static void rox_cc_lost_one(const struct rox_cc_link *link, struct rox_cc *cc, u64 now)
{
	if (cc->ops->loss)
		cc->ops->loss(link, cc, cc->mtu, now);
}

void rox_cc_lost(struct rox_qp *qp)
{
	rox_cc_news(qp, ROX_CC_LOSS, rox_cc_lost_one);
}

void rox_cc_timeout(struct rox_qp *qp)
{
	rox_cc_news(qp, ROX_CC_TIMEOUT, qp->send.cc.flow.ops->timeout);
	rox_cc_probe(qp);
}

/* ---- the round trip ---- */

/* One packet at a time, of those that are sent for the first time. */
void rox_cc_time_new(struct rox_qp *qp, u32 first, u32 end)
{
	struct rox_congestion *cc = &qp->send.cc;

	if (cc->timed_at || first != qp->send.max_psn)
		return;
	cc->timed_at = ktime_get_ns();
	cc->timed_psn = end;
}

/* ---- the rate ---- */

/* More than the quota was sent, as READs are requested in pieces of one size. */
void rox_cc_overdraw(struct rox_qp *qp, u32 bytes)
{
	struct rox_congestion *cc = &qp->send.cc;

	rox_cc_sent(&qp->dev->cc, &cc->flow, bytes - cc->quota, ktime_get_ns());
	cc->quota = 0;
}

static void rox_cc_wait(struct rox_qp *qp)
{
	struct hrtimer *timer = &qp->send.cc.pacer;
	ktime_t when = ns_to_ktime(qp->send.cc.flow.next);

	/* Under the lock of the side: after rox_side_close() nobody arms it again. */
	rox_side_assert_held(&qp->send.side);
	if (!hrtimer_is_queued(timer) || ktime_before(when, hrtimer_get_expires(timer)))
		hrtimer_start(timer, when, HRTIMER_MODE_ABS_SOFT);
}

/*
 * Asks the flow for a quota, which it pays for at once. A flow without a rate gets one without a
 * look at the clock.
 * Return: false if there is none now; the pacer is set.
 */
bool rox_cc_ask(struct rox_qp *qp)
{
	struct rox_congestion *cc = &qp->send.cc;
	u32 quota;
	u64 now;

	if (!cc->flow.rate) {
		cc->quota = ROX_CC_BURST_MAX;
		return true;
	}
	now = ktime_get_ns();
	quota = rox_cc_quota(&cc->flow, 0, now + ROX_PACE_SLACK_NS);
	if (!quota) {
		rox_cc_wait(qp);
		return false;
	}
	rox_cc_sent(&qp->dev->cc, &cc->flow, quota, now);
	cc->quota += quota;
	rox_cc_fit(qp);
	return true;
}
