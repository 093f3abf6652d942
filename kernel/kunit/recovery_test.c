// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit: gaps of which the requester is told, and whether they are filled at once; and
 * gaps that the responder sees, and whether it says so.
 */
#include "../transport/internal.h"
#include "fixture.h"

/* A round trip long enough that no pause ends while a case runs. */
#define FAR_NS		(1000 * NSEC_PER_SEC)
#define OUTSTANDING	100U

/* A requester that waits for acknowledges of packets which it never sent. */
static struct rox_qp *requester(struct kunit *test)
{
	struct rox_qp *qp = rox_fixture_qp(test, IB_QPT_RC);

	rox_fixture_move(test, qp, IB_QPS_RTS);
	rox_side_lock(&qp->send.side);
	qp->send.recovery.round_trip = FAR_NS;
	qp->send.psn = rox_psn_add(qp->send.una, OUTSTANDING);
	qp->send.max_psn = qp->send.psn;
	return qp;
}

static void destroy(struct rox_qp *qp)
{
	qp->send.psn = qp->send.una;
	qp->send.max_psn = qp->send.una;
	qp->send.recovery.due = 0;
	qp->send.deadline = 0;
	rox_side_unlock(&qp->send.side);
	ib_destroy_qp(&qp->ibqp);
}

/* The peer says that una is missing. */
static void nak(struct kunit *test, struct rox_qp *qp)
{
	local_bh_disable();
	KUNIT_EXPECT_TRUE(test, rox_recovery_gap(qp, true));
	local_bh_enable();
}

static void expect_pause(struct kunit *test, const struct rox_qp *qp)
{
	KUNIT_EXPECT_TRUE(test, qp->send.recovery.pausing);
	KUNIT_EXPECT_EQ(test, qp->send.recovery.due, 0);
	KUNIT_EXPECT_GT(test, qp->send.deadline, ktime_get_ns());
	KUNIT_EXPECT_LE(test, qp->send.deadline, ktime_get_ns() + FAR_NS / 2);
}

/* It was lost: all that is due goes out, and what is kept of it is over. */
static void fills(struct kunit *test, struct rox_qp *qp)
{
	KUNIT_EXPECT_FALSE(test, qp->send.recovery.pausing);
	KUNIT_EXPECT_GT(test, qp->send.recovery.due, 0);
	qp->send.recovery.due = 0;
}

static void closes(struct rox_qp *qp)
{
	u32 una = rox_psn_add(qp->send.una, 1);

	rox_recovery_progress(qp, una);
	qp->send.una = una;
	qp->send.deadline = 0;
}

static void one_gap_of_some_is_watched(struct kunit *test)
{
	struct rox_qp *qp = requester(test);
	int i;

	nak(test, qp);
	expect_pause(test, qp);
	/* A second NAK for it does not make it longer, nor shorter. */
	nak(test, qp);
	expect_pause(test, qp);
	KUNIT_EXPECT_TRUE(test, rox_recovery_probe(qp));
	fills(test, qp);
	for (i = 0; i < 7; i++) {
		nak(test, qp);
		fills(test, qp);
	}
	nak(test, qp);
	expect_pause(test, qp);
	destroy(qp);
}

static void where_gaps_close_by_themselves_they_are_waited_for(struct kunit *test)
{
	struct rox_qp *qp = requester(test);
	int i;

	for (i = 0; i < 20; i++) {
		nak(test, qp);
		expect_pause(test, qp);
		closes(qp);
		KUNIT_EXPECT_FALSE(test, qp->send.recovery.pausing);
		KUNIT_EXPECT_EQ(test, qp->send.recovery.due, 0);
	}
	/* That wears off where packets are lost. */
	for (i = 0; i < 100; i++) {
		nak(test, qp);
		if (!qp->send.recovery.pausing)
			break;
		KUNIT_EXPECT_TRUE(test, rox_recovery_probe(qp));
		fills(test, qp);
	}
	KUNIT_EXPECT_GT(test, i, 20);
	KUNIT_EXPECT_LT(test, i, 50);
	destroy(qp);
}

/* Nor does it go on for a gap that is not there any more. */
static void going_back_ends_the_pause(struct kunit *test)
{
	struct rox_qp *qp = requester(test);

	nak(test, qp);
	expect_pause(test, qp);
	rox_recovery_rewound(qp);
	KUNIT_EXPECT_FALSE(test, qp->send.recovery.pausing);
	KUNIT_EXPECT_FALSE(test, rox_recovery_probe(qp));
	destroy(qp);
}

/* After an ACK timeout there is nothing to wait for. */
static void a_timeout_is_no_reason_to_wait(struct kunit *test)
{
	struct rox_qp *qp = requester(test);

	nak(test, qp);
	closes(qp);
	KUNIT_EXPECT_TRUE(test, rox_recovery_gap(qp, false));
	fills(test, qp);
	destroy(qp);
}

/* ---- the responder ---- */

/* An empty WRITE that is @ahead of the expected packet comes to @qp. */
static void comes(struct rox_qp *qp, struct sk_buff *skb, u32 ahead)
{
	struct rox_pkt pkt = {
		.bth = { .psn = rox_psn_add(qp->recv.epsn, ahead),
			 .opcode = IB_OPCODE_RC_RDMA_WRITE_ONLY },
		.info = &rox_opcodes[IB_OPCODE_RC_RDMA_WRITE_ONLY],
		.npkts = 1,
		.skb = skb,
	};

	qp->recv.rx.index = 1;
	rox_recv_packet(qp, &pkt);
}

static void a_gap_that_closes_within_a_run_is_not_told(struct kunit *test)
{
	struct rox_qp *qp = rox_fixture_qp(test, IB_QPT_RC);
	struct sk_buff *skb = alloc_skb(64, GFP_KERNEL);
	u64 before;

	KUNIT_ASSERT_NOT_NULL(test, skb);
	rox_fixture_move(test, qp, IB_QPS_RTS);
	rox_side_lock(&qp->recv.side);
	before = rox_fixture_counted(qp, ROX_CNT_TX_ACKS);
	local_bh_disable();
	comes(qp, skb, 1);
	KUNIT_EXPECT_TRUE(test, qp->recv.nak_due);
	comes(qp, skb, 0);
	KUNIT_EXPECT_FALSE(test, qp->recv.nak_due);
	rox_early_purge(qp);
	rox_recv_run(qp, ROX_WORK_RUN);
	KUNIT_EXPECT_EQ(test, rox_fixture_counted(qp, ROX_CNT_TX_ACKS), before);
	/* One that does not is told once. */
	comes(qp, skb, 1);
	comes(qp, skb, 2);
	rox_recv_run(qp, ROX_WORK_RUN);
	rox_recv_run(qp, ROX_WORK_RUN);
	KUNIT_EXPECT_EQ(test, rox_fixture_counted(qp, ROX_CNT_TX_ACKS), before + 1);
	KUNIT_EXPECT_FALSE(test, qp->recv.nak_due);
	KUNIT_EXPECT_TRUE(test, qp->recv.nak_sent);
	rox_early_purge(qp);
	local_bh_enable();
	rox_side_unlock(&qp->recv.side);
	kfree_skb(skb);
	ib_destroy_qp(&qp->ibqp);
}

static struct kunit_case rox_recovery_cases[] = {
	KUNIT_CASE(one_gap_of_some_is_watched),
	KUNIT_CASE(where_gaps_close_by_themselves_they_are_waited_for),
	KUNIT_CASE(going_back_ends_the_pause),
	KUNIT_CASE(a_timeout_is_no_reason_to_wait),
	KUNIT_CASE(a_gap_that_closes_within_a_run_is_not_told),
	{}
};

static struct kunit_suite rox_recovery_suite = {
	.name = "rox_recovery",
	.init = rox_fixture_init,
	.exit = rox_fixture_exit,
	.test_cases = rox_recovery_cases,
};

kunit_test_suite(rox_recovery_suite);
