// SPDX-License-Identifier: GPL-2.0
/*
 * What a connection tells its congestion control algorithm, and the timer that paces it. See
 * congestion.h.
 */
#include <net/inet_ecn.h>
#include "internal.h"

/* A flow does not wait for a time that is this near: the timer costs more than it gains. */
#define ROX_PACE_SLACK_NS	(20 * NSEC_PER_USEC)

/* One of this many messages of one packet is timed. */
#define ROX_TIME_EACH		4U

/* ACKs are told together up to so many packets, and up to this part of a window that is used. */
#define ROX_UNTOLD_PKTS		16U
#define ROX_UNTOLD_PART		8U

/* ACKs that one window asks for, so that more can be sent before all of it is acknowledged. */
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
	 * An XRC target only answers, and the requester decides how fast: marked answers slow it
	 * down. Between two QPs of one device there are no queues.
	 */
	if (qp->ibqp.qp_type == IB_QPT_XRC_TGT || rox_path_loops_back(&qp->path))
		ops = &rox_cc_none;
	rox_cc_start(&qp->dev->cc, ops, &cc->flow, qp->mtu, ktime_get_ns());
	WRITE_ONCE(cc->active, ops->cnp);
	cc->cautious = false;
	cc->read_marked = false;
	cc->reads_wait = false;
	cc->acked = 0;
	cc->quota = 0;
	cc->untold = 0;
	cc->untimed = 0;
	cc->window = rox_window_max(qp);
	rox_cc_untime(qp);
	rox_cc_fit(qp);
}

/* ---- what happens ---- */

static u32 rox_cc_bytes(const struct rox_qp *qp, u32 pkts)
{
	return min_t(u64, (u64)pkts * qp->mtu, U32_MAX);
}

static void rox_cc_tell(struct rox_qp *qp, const struct rox_cc_ack *ack, u64 now)
{
	struct rox_congestion *cc = &qp->send.cc;

	cc->flow.ops->acked(&qp->dev->cc, &cc->flow, ack, now);
	rox_cc_fit(qp);
	trace_rox_congestion(qp->ibqp.qp_num, ROX_CC_ACKED, cc->flow.rate, cc->flow.window,
			     ack->round_trip);
}

/* So many acknowledged packets the algorithm need not know yet. */
static u32 rox_cc_untold_max(const struct rox_congestion *cc, u32 in_flight)
{
	if (2 * in_flight < cc->window)
		return ROX_UNTOLD_PKTS;
	return min(cc->window / ROX_UNTOLD_PART, ROX_UNTOLD_PKTS);
}

/* ACKs are told together, as the clock is read for each call. */
void rox_cc_feed(struct rox_qp *qp, u32 pkts)
{
	u32 una = rox_psn_add(qp->send.una, pkts);
	u32 in_flight = rox_psn_diff(qp->send.max_psn, qp->send.una);
	struct rox_congestion *cc = &qp->send.cc;
	bool timed = cc->timed_at && rox_psn_diff(una, cc->timed_psn) >= 0;
	struct rox_cc_ack ack = {};
	u64 now;

	cc->untold += pkts;
	if (!timed && cc->untold < rox_cc_untold_max(cc, in_flight))
		return;
	now = ktime_get_ns();
	ack.bytes = min(cc->untold, ROX_CC_WINDOW_MAX / qp->mtu) * qp->mtu;
	ack.in_flight = rox_cc_bytes(qp, in_flight);
	cc->untold = 0;
	if (timed) {
		ack.round_trip = max(now - cc->timed_at, 1ULL);
		cc->timed_at = 0;
	}
	rox_cc_tell(qp, &ack, now);
}

/*
 * The packet that made the peer send the NAK was sent together with the missing one. So the time
 * since then is a round trip. Where packets are lost in each window there may be no other measure.
 * If the missing one was the last of its burst, that packet was sent later, nobody knows when.
 */
void rox_cc_nak(struct rox_qp *qp)
{
	struct rox_congestion *cc = &qp->send.cc;
	struct rox_cc_ack ack = {};
	u64 now;

	if (!cc->active || !cc->timed_at)
		return;
	if (rox_psn_diff(qp->send.una, cc->timed_first) < 0 ||
	    rox_psn_diff(rox_psn_add(qp->send.una, 1), cc->timed_psn) >= 0)
		return;
	now = ktime_get_ns();
	ack.round_trip = max(now - cc->timed_at, 1ULL);
	ack.in_flight = rox_cc_bytes(qp, rox_psn_diff(qp->send.max_psn, qp->send.una));
	cc->timed_at = 0;
	rox_cc_tell(qp, &ack, now);
}

/* Tells the algorithm of an event that has no data but its time. */
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

void rox_cc_lost(struct rox_qp *qp, u32 pkts)
{
	struct rox_congestion *cc = &qp->send.cc;

	if (!cc->active || !pkts)
		return;
	if (cc->flow.ops->loss)
		cc->flow.ops->loss(&qp->dev->cc, &cc->flow, rox_cc_bytes(qp, pkts), ktime_get_ns());
	rox_cc_fit(qp);
	trace_rox_congestion(qp->ibqp.qp_num, ROX_CC_LOSS, cc->flow.rate, cc->flow.window, 0);
}

/* The rate does not delay packets that are sent again, but limits the length of their bursts. */
u32 rox_cc_resends(const struct rox_qp *qp)
{
	const struct rox_congestion *cc = &qp->send.cc;

	if (!cc->active || !cc->flow.rate)
		return U32_MAX;
	return max(rox_cc_quota(&cc->flow, 0, cc->flow.next) / qp->mtu, 1U);
}

void rox_cc_timeout(struct rox_qp *qp)
{
	rox_cc_news(qp, ROX_CC_TIMEOUT, qp->send.cc.flow.ops->timeout);
	rox_cc_probe(qp);
}

/* ---- the round trip ---- */

/*
 * Times one packet at a time, only one that is sent for the first time, and of messages of one
 * packet only some. Return: true if the packets from @first to @end are timed.
 */
bool rox_cc_time_new(struct rox_qp *qp, u32 first, u32 end)
{
	struct rox_congestion *cc = &qp->send.cc;

	if (cc->timed_at || first != qp->send.max_psn)
		return false;
	if (end == rox_psn_add(first, 1) && cc->untimed++ % ROX_TIME_EACH)
		return false;
	cc->timed_at = ktime_get_ns();
	cc->timed_first = first;
	cc->timed_psn = end;
	return true;
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
 * Makes the quota as long as a burst may be now, and pays for it. For a flow without a rate the
 * clock is not read.
 * Return: false if there may be no burst now.
 */
static bool rox_cc_fill(struct rox_qp *qp)
{
	struct rox_congestion *cc = &qp->send.cc;
	u32 burst;
	u64 now;

	if (!cc->flow.rate) {
		cc->quota = ROX_CC_BURST_MAX;
		return true;
	}
	now = ktime_get_ns();
	burst = rox_cc_quota(&cc->flow, 0, now + ROX_PACE_SLACK_NS);
	if (!burst)
		return false;
	if (burst > cc->quota) {
		rox_cc_sent(&qp->dev->cc, &cc->flow, burst - cc->quota, now);
		cc->quota = burst;
		rox_cc_fit(qp);
	}
	return true;
}

/* Asks the flow for a quota. Return: false if there is none now; the pacer is set. */
bool rox_cc_ask(struct rox_qp *qp)
{
	if (rox_cc_fill(qp))
		return true;
	rox_cc_wait(qp);
	return false;
}

/* Return: how many of @pkts packets the quota allows, at least one. */
u32 rox_cc_share(struct rox_qp *qp, u32 pkts)
{
	struct rox_congestion *cc = &qp->send.cc;

	if (cc->quota < min(pkts, ROX_BURST_BYTES / qp->mtu) * qp->mtu)
		rox_cc_fill(qp);
	return min(pkts, cc->quota / qp->mtu);
}
