// SPDX-License-Identifier: GPL-2.0
/* KUnit: what a connection and its congestion control algorithm tell each other. */
#include <net/inet_ecn.h>
#include "internal.h"
#include "../kunit/fixture.h"

static struct rox_dev *device(struct kunit *test)
{
	struct rox_fixture *f = test->priv;

	return f->dev;
}

/*
 * A QP that is ready to send, with the lock of its send side. The fixture connects only RC; others
 * begin here as the transition to RTS lets them.
 */
static struct rox_qp *sender(struct kunit *test, enum ib_qp_type type,
			     const struct rox_cc_ops *ops)
{
	struct rox_qp *qp;

	device(test)->cc.ops = ops;
	qp = rox_fixture_qp(test, type);
	if (type == IB_QPT_RC)
		rox_fixture_move(test, qp, IB_QPS_RTS);
	rox_side_lock(&qp->send.side);
	if (type != IB_QPT_RC) {
		qp->mtu = 1024;
		rox_cc_begin(qp);
	}
	return qp;
}

static void destroy(struct rox_qp *qp)
{
	qp->send.psn = qp->send.una;
	qp->send.max_psn = qp->send.una;
	rox_side_unlock(&qp->send.side);
	ib_destroy_qp(&qp->ibqp);
}

static void expect_algorithm(struct kunit *test, enum ib_qp_type type,
			     const struct rox_cc_ops *of_device, const struct rox_cc_ops *ops)
{
	struct rox_qp *qp = sender(test, type, of_device);

	KUNIT_EXPECT_PTR_EQ(test, qp->send.cc.flow.ops, ops);
	KUNIT_EXPECT_EQ(test, qp->send.cc.active, ops != &rox_cc_none);
	KUNIT_EXPECT_EQ(test, qp->path.ecn, ops == &rox_cc_none ? 0 : INET_ECN_ECT_0);
	KUNIT_EXPECT_EQ(test, qp->path.tos & INET_ECN_MASK, 0);
	destroy(qp);
}

static void connections_take_an_algorithm(struct kunit *test)
{
	expect_algorithm(test, IB_QPT_RC, &rox_cc_none, &rox_cc_none);
	expect_algorithm(test, IB_QPT_RC, &rox_cc_adaptive, &rox_cc_adaptive);
	expect_algorithm(test, IB_QPT_UC, &rox_cc_dcqcn, &rox_cc_dcqcn);
	/* UC has no ACKs. */
	expect_algorithm(test, IB_QPT_UC, &rox_cc_adaptive, &rox_cc_dcqcn);
	expect_algorithm(test, IB_QPT_UD, &rox_cc_dcqcn, &rox_cc_none);
}

static void a_dscp_has_its_own(struct kunit *test)
{
	struct rox_qp *qp = sender(test, IB_QPT_RC, &rox_cc_none);
	u8 dscp = qp->path.tos >> 2;

	destroy(qp);
	device(test)->cc_of_dscp[dscp] = &rox_cc_dcqcn;
	expect_algorithm(test, IB_QPT_RC, &rox_cc_none, &rox_cc_dcqcn);
	device(test)->cc_of_dscp[dscp] = NULL;
	device(test)->cc_of_dscp[dscp ^ 1] = &rox_cc_dcqcn;
	expect_algorithm(test, IB_QPT_RC, &rox_cc_none, &rox_cc_none);
}

static void part_of_a_packet_counts_as_one(struct kunit *test)
{
	struct rox_qp *qp = sender(test, IB_QPT_RC, &rox_cc_adaptive);
	u32 *window = &qp->send.cc.flow.window;

	*window = qp->mtu;
	KUNIT_EXPECT_EQ(test, rox_window_max(qp), 1);
	*window = qp->mtu + 1;
	KUNIT_EXPECT_EQ(test, rox_window_max(qp), 2);
	*window = 2 * qp->mtu;
	KUNIT_EXPECT_EQ(test, rox_window_max(qp), 2);
	destroy(qp);
}

/* Without an algorithm nothing is asked for, and the pacer is never set. */
static void none_waits_for_nothing(struct kunit *test)
{
	struct rox_qp *qp = sender(test, IB_QPT_RC, &rox_cc_none);
	struct rox_congestion *cc = &qp->send.cc;

	KUNIT_EXPECT_TRUE(test, rox_cc_may_send(qp));
	KUNIT_EXPECT_EQ(test, rox_cc_most(qp, 1000), 1000);
	rox_cc_charge(qp, SZ_1M);
	rox_cc_time(qp, qp->send.max_psn, qp->send.max_psn + 1);
	rox_cc_cnp(qp);
	rox_cc_lost(qp, 1);
	KUNIT_EXPECT_TRUE(test, rox_cc_may_send(qp));
	KUNIT_EXPECT_FALSE(test, rox_cc_will_wait(qp, SZ_1M));
	KUNIT_EXPECT_EQ(test, cc->quota, 0);
	KUNIT_EXPECT_EQ(test, cc->timed_at, 0);
	KUNIT_EXPECT_EQ(test, cc->window, ROX_WINDOW_BYTES / qp->mtu);
	KUNIT_EXPECT_EQ(test, cc->ask, ROX_BURST_BYTES / qp->mtu);
	KUNIT_EXPECT_FALSE(test, hrtimer_is_queued(&cc->pacer));
	destroy(qp);
}

static void a_flow_waits_for_its_rate(struct kunit *test)
{
	struct rox_qp *qp = sender(test, IB_QPT_RC, &rox_cc_dcqcn);
	struct rox_congestion *cc = &qp->send.cc;
	u64 next;

	/* A packet takes a second or so. */
	cc->flow.rate = qp->mtu;
	KUNIT_EXPECT_TRUE(test, rox_cc_may_send(qp));
	KUNIT_EXPECT_EQ(test, cc->quota, qp->mtu);
	KUNIT_EXPECT_EQ(test, rox_cc_most(qp, 1000), 1);
	KUNIT_EXPECT_TRUE(test, rox_cc_will_wait(qp, qp->mtu));
	rox_cc_charge(qp, qp->mtu);
	cc->flow.rate = qp->mtu;
	KUNIT_EXPECT_FALSE(test, rox_cc_may_send(qp));
	KUNIT_EXPECT_TRUE(test, hrtimer_is_queued(&cc->pacer));
	KUNIT_EXPECT_EQ(test, ktime_to_ns(hrtimer_get_expires(&cc->pacer)), cc->flow.next);
	KUNIT_EXPECT_GT(test, cc->flow.next, ktime_get_ns());
	/* READs may take more than there is. */
	next = cc->flow.next;
	rox_cc_charge(qp, 4 * qp->mtu);
	KUNIT_EXPECT_GE(test, cc->flow.next, next + 3 * NSEC_PER_SEC);
	hrtimer_cancel(&cc->pacer);
	destroy(qp);
}

/* The clock is not read while the quota lasts: small messages do not read it. */
static void a_quota_serves_many_messages(struct kunit *test)
{
	struct rox_qp *qp = sender(test, IB_QPT_RC, &rox_cc_dcqcn);
	struct rox_congestion *cc = &qp->send.cc;
	u64 next;
	u32 i;

	KUNIT_EXPECT_TRUE(test, rox_cc_may_send(qp));
	KUNIT_EXPECT_EQ(test, cc->quota, ROX_CC_BURST_MAX);
	next = cc->flow.next;
	for (i = 0; i < 100; i++) {
		KUNIT_EXPECT_TRUE(test, rox_cc_may_send(qp));
		rox_cc_charge(qp, 64);
	}
	KUNIT_EXPECT_EQ(test, cc->flow.next, next);
	KUNIT_EXPECT_EQ(test, cc->quota, ROX_CC_BURST_MAX - 6400);
	destroy(qp);
}

/* A message is not cut where the quota of the one before ends. */
static void what_is_left_is_filled_up(struct kunit *test)
{
	struct rox_qp *qp = sender(test, IB_QPT_RC, &rox_cc_dcqcn);
	struct rox_congestion *cc = &qp->send.cc;
	u32 pkts = ROX_BURST_BYTES / qp->mtu;

	KUNIT_EXPECT_TRUE(test, rox_cc_may_send(qp));
	rox_cc_charge(qp, qp->mtu);
	KUNIT_EXPECT_EQ(test, rox_cc_most(qp, 1), 1);
	KUNIT_EXPECT_EQ(test, cc->quota, ROX_CC_BURST_MAX - qp->mtu);
	/* The flow pays for what it lacked. */
	cc->flow.rate = ROX_CC_MBIT * 1000;
	cc->flow.next = 0;
	KUNIT_EXPECT_EQ(test, rox_cc_most(qp, pkts - 1), pkts - 1);
	KUNIT_EXPECT_EQ(test, cc->flow.next, 0);
	KUNIT_EXPECT_EQ(test, rox_cc_most(qp, pkts), pkts - 1);
	cc->flow.rate = ROX_CC_RATE_MAX;
	KUNIT_EXPECT_EQ(test, rox_cc_most(qp, 1000), pkts);
	KUNIT_EXPECT_EQ(test, cc->quota, ROX_CC_BURST_MAX);
	KUNIT_EXPECT_NE(test, cc->flow.next, 0);
	/* It may not have a new quota yet: it sends what is left of the old one. */
	rox_cc_charge(qp, 2 * qp->mtu);
	cc->flow.next = ktime_get_ns() + NSEC_PER_SEC;
	KUNIT_EXPECT_EQ(test, rox_cc_most(qp, pkts), pkts - 2);
	destroy(qp);
}

/* The clock is not read for each message of one packet. */
static void small_messages_are_told_together(struct kunit *test)
{
	struct rox_qp *qp = sender(test, IB_QPT_RC, &rox_cc_adaptive);
	struct rox_congestion *cc = &qp->send.cc;
	u32 i, timed = 0, told = 0;

	for (i = 0; i < 40; i++) {
		u32 end = rox_psn_add(qp->send.max_psn, 1);

		timed += rox_cc_time(qp, qp->send.max_psn, end);
		qp->send.psn = end;
		qp->send.max_psn = end;
		rox_cc_acked(qp, 1);
		qp->send.una = end;
		told += !cc->untold;
	}
	KUNIT_EXPECT_EQ(test, timed, 10);
	KUNIT_EXPECT_EQ(test, told, 10);
	/* Of a window that is used each eighth is told. */
	cc->untold = 0;
	cc->window = 64;
	qp->send.max_psn = rox_psn_add(qp->send.una, cc->window);
	qp->send.psn = qp->send.max_psn;
	rox_cc_acked(qp, 7);
	KUNIT_EXPECT_EQ(test, cc->untold, 7);
	rox_cc_acked(qp, 1);
	KUNIT_EXPECT_EQ(test, cc->untold, 0);
	cc->window = 4;
	rox_cc_acked(qp, 1);
	KUNIT_EXPECT_EQ(test, cc->untold, 0);
	destroy(qp);
}

static void acks_bring_round_trips_and_open_the_window(struct kunit *test)
{
	struct rox_qp *qp = sender(test, IB_QPT_RC, &rox_cc_adaptive);
	struct rox_congestion *cc = &qp->send.cc;
	u32 first = cc->window;

	KUNIT_EXPECT_EQ(test, first, max(16U * 1024 / qp->mtu, 4U));
	rox_cc_time(qp, qp->send.max_psn, rox_psn_add(qp->send.max_psn, first));
	KUNIT_EXPECT_NE(test, cc->timed_at, 0);
	qp->send.max_psn = rox_psn_add(qp->send.una, first);
	qp->send.psn = qp->send.max_psn;
	cc->timed_at -= NSEC_PER_MSEC;
	rox_cc_acked(qp, first - 1);
	KUNIT_EXPECT_EQ(test, cc->flow.adaptive.srtt, 0);
	qp->send.una = rox_psn_add(qp->send.una, first - 1);
	rox_cc_acked(qp, 1);
	KUNIT_EXPECT_GE(test, cc->flow.adaptive.srtt, NSEC_PER_MSEC);
	KUNIT_EXPECT_LT(test, cc->flow.adaptive.srtt, NSEC_PER_SEC);
	KUNIT_EXPECT_EQ(test, cc->timed_at, 0);
	KUNIT_EXPECT_EQ(test, cc->window, 2 * first);
	/* What was sent before is not measured. */
	rox_cc_time(qp, qp->send.una, qp->send.max_psn);
	KUNIT_EXPECT_EQ(test, cc->timed_at, 0);
	/* A CNP ends slow start, and the window shrinks at once. */
	rox_cc_cnp(qp);
	KUNIT_EXPECT_LE(test, cc->window, first);
	destroy(qp);
}

/* Where each window loses packets, NAKs are all that comes back before something is sent again. */
static void a_nak_brings_a_round_trip(struct kunit *test)
{
	struct rox_qp *qp = sender(test, IB_QPT_RC, &rox_cc_adaptive);
	struct rox_congestion *cc = &qp->send.cc;
	u32 una = qp->send.una;

	rox_cc_time(qp, rox_psn_add(una, 2), rox_psn_add(una, 6));
	KUNIT_EXPECT_EQ(test, cc->timed_at, 0);
	qp->send.max_psn = rox_psn_add(una, 2);
	rox_cc_time(qp, rox_psn_add(una, 2), rox_psn_add(una, 6));
	KUNIT_ASSERT_NE(test, cc->timed_at, 0);
	qp->send.max_psn = rox_psn_add(una, 6);
	cc->timed_at -= NSEC_PER_MSEC;
	/* What is missing was sent before or after the packets that are timed. */
	rox_cc_nak(qp);
	KUNIT_EXPECT_EQ(test, cc->flow.adaptive.srtt, 0);
	qp->send.una = rox_psn_add(una, 6);
	rox_cc_nak(qp);
	KUNIT_EXPECT_EQ(test, cc->flow.adaptive.srtt, 0);
	/* It was the last of them: who knows when the one after it was sent? */
	qp->send.una = rox_psn_add(una, 5);
	rox_cc_nak(qp);
	KUNIT_EXPECT_EQ(test, cc->flow.adaptive.srtt, 0);
	qp->send.una = rox_psn_add(una, 2);
	rox_cc_nak(qp);
	KUNIT_EXPECT_GE(test, cc->flow.adaptive.srtt, NSEC_PER_MSEC);
	KUNIT_EXPECT_EQ(test, cc->timed_at, 0);
	destroy(qp);
}

/* A flow that often waits for a queue of this host must still know its round trip. */
static void what_is_not_sent_is_not_timed(struct kunit *test)
{
	struct rox_qp *qp = sender(test, IB_QPT_RC, &rox_cc_adaptive);
	u32 psn = qp->send.max_psn;

	rox_cc_time(qp, psn, rox_psn_add(psn, 4));
	KUNIT_EXPECT_NE(test, qp->send.cc.timed_at, 0);
	rox_cc_untime_from(qp, rox_psn_add(psn, 4));
	KUNIT_EXPECT_NE(test, qp->send.cc.timed_at, 0);
	rox_cc_untime_from(qp, rox_psn_add(psn, 3));
	KUNIT_EXPECT_EQ(test, qp->send.cc.timed_at, 0);
	destroy(qp);
}

/* What is sent again must fit into a queue that has dropped it. */
static void what_is_sent_again_is_no_longer_than_a_burst(struct kunit *test)
{
	struct rox_qp *qp = sender(test, IB_QPT_RC, &rox_cc_none);
	struct rox_congestion *cc;

	KUNIT_EXPECT_EQ(test, rox_cc_resends(qp), U32_MAX);
	destroy(qp);
	qp = sender(test, IB_QPT_RC, &rox_cc_adaptive);
	cc = &qp->send.cc;
	KUNIT_EXPECT_EQ(test, rox_cc_resends(qp), U32_MAX);
	cc->flow.rate = 1000ULL * 1000 * 1000;
	cc->flow.window = 64 * qp->mtu;
	cc->flow.burst = 8 * qp->mtu;
	cc->flow.next = ktime_get_ns() + NSEC_PER_SEC;
	KUNIT_EXPECT_EQ(test, rox_cc_resends(qp), 8);
	cc->flow.burst = 0;
	KUNIT_EXPECT_EQ(test, rox_cc_resends(qp), 1);
	/* As many packets as the peer lacks are lost. */
	rox_cc_lost(qp, 5);
	KUNIT_EXPECT_EQ(test, cc->flow.adaptive.round_lost, 5 * qp->mtu);
	rox_cc_lost(qp, 0);
	KUNIT_EXPECT_EQ(test, cc->flow.adaptive.round_lost, 5 * qp->mtu);
	destroy(qp);
}

/* Else a burst could begin for which the window has no room any more when its rate is known. */
static void a_timeout_leaves_no_more_than_the_window(struct kunit *test)
{
	struct rox_qp *qp = sender(test, IB_QPT_RC, &rox_cc_adaptive);
	struct rox_congestion *cc = &qp->send.cc;

	cc->flow.window = qp->mtu;
	rox_cc_timeout(qp);
	KUNIT_EXPECT_EQ(test, cc->window, 1);
	KUNIT_EXPECT_TRUE(test, rox_cc_may_send(qp));
	KUNIT_EXPECT_EQ(test, cc->window, 1);
	KUNIT_EXPECT_EQ(test, rox_cc_room(qp), 1);
	qp->send.psn = rox_psn_add(qp->send.una, 1);
	KUNIT_EXPECT_EQ(test, rox_cc_room(qp), 0);
	destroy(qp);
	qp = sender(test, IB_QPT_RC, &rox_cc_none);
	rox_cc_timeout(qp);
	KUNIT_EXPECT_EQ(test, qp->send.cc.window, ROX_WINDOW_PROBE);
	destroy(qp);
}

static void cnps_count_for_who_takes_them(struct kunit *test)
{
	struct rox_qp *qp = sender(test, IB_QPT_RC, &rox_cc_dcqcn);

	local_bh_disable();
	KUNIT_EXPECT_TRUE(test, rox_cnp_came(qp, 3));
	local_bh_enable();
	KUNIT_EXPECT_EQ(test, rox_fixture_counted(qp, ROX_CNT_RP_CNP_HANDLED), 3);
	destroy(qp);
	qp = sender(test, IB_QPT_RC, &rox_cc_none);
	local_bh_disable();
	KUNIT_EXPECT_FALSE(test, rox_cnp_came(qp, 2));
	local_bh_enable();
	KUNIT_EXPECT_EQ(test, rox_fixture_counted(qp, ROX_CNT_RP_CNP_IGNORED), 2);
	destroy(qp);
}

/* Requests @pkts packets, or an answer to as many comes. Return: what READs may request then */
static u32 room_after(struct rox_qp *qp, u32 requested, u32 answered)
{
	qp->send.psn = rox_psn_add(qp->send.psn, requested);
	qp->send.max_psn = qp->send.psn;
	qp->send.una = rox_psn_add(qp->send.una, answered);
	return rox_cc_read_room(qp);
}

/* READs of 16 packets and a window of 128. */
static void reads_wait_for_room_for_several(struct kunit *test)
{
	struct rox_qp *qp = sender(test, IB_QPT_RC, &rox_cc_none);
	u32 reads;

	qp->mtu = 4096;
	qp->send.cc.window = 128;
	for (reads = 0; rox_cc_read_room(qp); reads++)
		room_after(qp, 16, 0);
	KUNIT_EXPECT_EQ(test, reads, 9);
	KUNIT_EXPECT_EQ(test, rox_cc_room(qp), 0);
	/* One answer makes no room yet, nor do two but for a packet. */
	KUNIT_EXPECT_EQ(test, room_after(qp, 0, 16), 0);
	KUNIT_EXPECT_EQ(test, room_after(qp, 0, 15), 0);
	KUNIT_EXPECT_EQ(test, room_after(qp, 0, 1), 32);
	KUNIT_EXPECT_EQ(test, room_after(qp, 16, 0), 16);
	KUNIT_EXPECT_EQ(test, room_after(qp, 16, 0), 0);
	/* Nothing is outstanding, so nothing else would end the wait. */
	KUNIT_EXPECT_EQ(test, room_after(qp, 0, 144), 144);
	destroy(qp);
}

/* Where a window has few packets, READs keep to it. */
static void few_packets_are_no_room_for_several(struct kunit *test)
{
	struct rox_qp *qp = sender(test, IB_QPT_RC, &rox_cc_none);

	qp->send.cc.window = ROX_WINDOW_PROBE;
	KUNIT_EXPECT_EQ(test, room_after(qp, ROX_WINDOW_PROBE, 0), 0);
	KUNIT_EXPECT_EQ(test, room_after(qp, 0, 1), 1);
	/* The window became smaller than what is outstanding. */
	qp->send.cc.window = 1;
	KUNIT_EXPECT_EQ(test, room_after(qp, 0, 1), 0);
	KUNIT_EXPECT_EQ(test, room_after(qp, 0, 2), 1);
	destroy(qp);
}

static struct kunit_case rox_congestion_cases[] = {
	KUNIT_CASE(connections_take_an_algorithm),
	KUNIT_CASE(a_dscp_has_its_own),
	KUNIT_CASE(part_of_a_packet_counts_as_one),
	KUNIT_CASE(none_waits_for_nothing),
	KUNIT_CASE(a_flow_waits_for_its_rate),
	KUNIT_CASE(a_quota_serves_many_messages),
	KUNIT_CASE(what_is_left_is_filled_up),
	KUNIT_CASE(small_messages_are_told_together),
	KUNIT_CASE(acks_bring_round_trips_and_open_the_window),
	KUNIT_CASE(a_nak_brings_a_round_trip),
	KUNIT_CASE(what_is_not_sent_is_not_timed),
	KUNIT_CASE(what_is_sent_again_is_no_longer_than_a_burst),
	KUNIT_CASE(a_timeout_leaves_no_more_than_the_window),
	KUNIT_CASE(cnps_count_for_who_takes_them),
	KUNIT_CASE(reads_wait_for_room_for_several),
	KUNIT_CASE(few_packets_are_no_room_for_several),
	{}
};

static struct kunit_suite rox_congestion_suite = {
	.name = "rox_congestion",
	.init = rox_fixture_init,
	.exit = rox_fixture_exit,
	.test_cases = rox_congestion_cases,
};

kunit_test_suite(rox_congestion_suite);
