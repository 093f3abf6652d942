// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit: packets that come early: which packets of a frame are stored, the limits, and that all are
 * freed.
 */
#include "internal.h"
#include "../kunit/fixture.h"

#define FIRST_PSN 0xfffff0

/* A frame that takes @bytes of memory; its content is not used. */
static struct sk_buff *frame(struct kunit *test, u32 bytes)
{
	struct sk_buff *skb = alloc_skb(64, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, skb);
	skb->truesize = bytes;
	return skb;
}

/* Gives packet @index of @skb to @qp, @ahead of the expected PSN. */
static enum rox_early_is keep(struct rox_qp *qp, struct sk_buff *skb, u32 index, u32 ahead)
{
	struct rox_pkt pkt = {
		.bth.psn = rox_psn_add(qp->recv.epsn, ahead),
		.npkts = 1,
		.skb = skb,
	};
	enum rox_early_is early;

	local_bh_disable();
	early = rox_early_keep(qp, &qp->recv.early, qp->recv.epsn, &pkt, index);
	local_bh_enable();
	return early;
}

static struct rox_qp *responder(struct kunit *test)
{
	struct rox_qp *qp = rox_fixture_qp(test, IB_QPT_RC);

	qp->recv.epsn = FIRST_PSN;
	return qp;
}

/*
 * Expects that it is the turn of the first stored frame, packets @first to @first + @count - 1 of
 * @skb.
 */
static void expect_due(struct kunit *test, struct rox_qp *qp, const struct sk_buff *skb,
		       u32 first, u32 count)
{
	struct sk_buff *taken;

	KUNIT_ASSERT_TRUE(test, rox_request_due(qp));
	taken = rox_early_take(qp, &qp->recv.early);
	KUNIT_EXPECT_PTR_EQ(test, taken->head, skb->head);
	KUNIT_EXPECT_EQ(test, rox_skb_cb(taken)->first, first);
	KUNIT_EXPECT_EQ(test, rox_skb_cb(taken)->count, count);
	KUNIT_EXPECT_EQ(test, rox_skb_cb(taken)->psn, qp->recv.epsn);
	qp->recv.epsn = rox_psn_add(qp->recv.epsn, count);
	kfree_skb(taken);
}

/* PSNs wrap around after 15 packets. Consecutive packets of a frame share a clone. */
static void packets_of_a_frame_are_kept_in_runs(struct kunit *test)
{
	struct rox_qp *qp = responder(test);
	struct sk_buff *a = frame(test, 10000), *b = frame(test, 500);
	u32 i;

	for (i = 0; i < 6; i++)
		KUNIT_EXPECT_EQ(test, keep(qp, a, i, 20 + i), ROX_EARLY_KEPT);
	KUNIT_EXPECT_EQ(test, qp->recv.early.bytes, 10000);
	/* Another frame; not the next packet; not the next PSN. */
	KUNIT_EXPECT_EQ(test, keep(qp, b, 6, 26), ROX_EARLY_KEPT);
	KUNIT_EXPECT_EQ(test, keep(qp, b, 8, 27), ROX_EARLY_KEPT);
	KUNIT_EXPECT_EQ(test, keep(qp, b, 9, 29), ROX_EARLY_KEPT);
	KUNIT_EXPECT_EQ(test, qp->recv.early.bytes, 11500);
	for (i = 20; i < 28; i++)
		KUNIT_EXPECT_EQ(test, keep(qp, b, i, i), ROX_EARLY_REPEATED);
	KUNIT_EXPECT_EQ(test, keep(qp, b, 0, 2), ROX_EARLY_KEPT);

	KUNIT_EXPECT_FALSE(test, rox_request_due(qp));
	qp->recv.epsn = rox_psn_add(qp->recv.epsn, 2);
	expect_due(test, qp, b, 0, 1);
	KUNIT_EXPECT_FALSE(test, rox_request_due(qp));
	/* The first three packets of the frame have arrived again and were executed. */
	qp->recv.epsn = rox_psn_add(FIRST_PSN, 23);
	expect_due(test, qp, a, 3, 3);
	expect_due(test, qp, b, 6, 1);
	/* And the next one. */
	qp->recv.epsn = rox_psn_add(FIRST_PSN, 28);
	KUNIT_EXPECT_FALSE(test, rox_request_due(qp));
	KUNIT_EXPECT_EQ(test, qp->recv.early.bytes, 500);
	rox_early_purge(qp, &qp->recv.early);
	KUNIT_EXPECT_EQ(test, qp->recv.early.bytes, 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&qp->dev->early_bytes), 0);
	kfree_skb(a);
	kfree_skb(b);
	ib_destroy_qp(&qp->ibqp);
}

static void gaps_are_found(struct kunit *test)
{
	struct rox_qp *qp = responder(test);
	struct rox_early *early = &qp->recv.early;
	struct sk_buff *a = frame(test, 500), *b = frame(test, 500);
	u32 i;

	KUNIT_EXPECT_EQ(test, rox_early_next_gap(early, FIRST_PSN), FIRST_PSN);
	for (i = 0; i < 20; i++)
		KUNIT_EXPECT_EQ(test, keep(qp, a, i, 3 + i), ROX_EARLY_KEPT);
	KUNIT_EXPECT_EQ(test, keep(qp, b, 0, 23), ROX_EARLY_KEPT);
	KUNIT_EXPECT_EQ(test, keep(qp, b, 1, 25), ROX_EARLY_KEPT);
	KUNIT_EXPECT_EQ(test, rox_early_next_gap(early, FIRST_PSN + 2), FIRST_PSN + 2);
	KUNIT_EXPECT_EQ(test, rox_early_next_gap(early, FIRST_PSN + 3),
			rox_psn_add(FIRST_PSN, 24));
	KUNIT_EXPECT_EQ(test, rox_early_next_gap(early, rox_psn_add(FIRST_PSN, 22)),
			rox_psn_add(FIRST_PSN, 24));
	KUNIT_EXPECT_EQ(test, rox_early_next_gap(early, rox_psn_add(FIRST_PSN, 25)),
			rox_psn_add(FIRST_PSN, 26));
	rox_early_purge(qp, early);
	kfree_skb(a);
	kfree_skb(b);
	ib_destroy_qp(&qp->ibqp);
}

static void what_is_kept_has_its_limits(struct kunit *test)
{
	const u32 fits = ROX_EARLY_DEV_BYTES / ROX_EARLY_QP_BYTES;
	struct rox_fixture *f = test->priv;
	struct sk_buff *half = frame(test, ROX_EARLY_QP_BYTES / 2), *tiny = frame(test, 256);
	struct rox_qp **qps = kunit_kcalloc(test, fits + 1, sizeof(*qps), GFP_KERNEL);
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, qps);
	for (i = 0; i <= fits; i++)
		qps[i] = responder(test);
	KUNIT_EXPECT_EQ(test, keep(qps[0], tiny, 0, ROX_EARLY_PSNS + 1), ROX_EARLY_LOST);
	for (i = 0; i < fits; i++) {
		KUNIT_EXPECT_EQ(test, keep(qps[i], half, 0, 1), ROX_EARLY_KEPT);
		KUNIT_EXPECT_EQ(test, keep(qps[i], half, 0, ROX_EARLY_PSNS), ROX_EARLY_KEPT);
		KUNIT_EXPECT_EQ(test, keep(qps[i], tiny, 0, 3), ROX_EARLY_LOST);
	}
	KUNIT_EXPECT_EQ(test, atomic_read(&f->dev->early_bytes), ROX_EARLY_DEV_BYTES);
	KUNIT_EXPECT_EQ(test, keep(qps[fits], tiny, 0, 1), ROX_EARLY_LOST);
	KUNIT_EXPECT_EQ(test, qps[fits]->recv.early.bytes, 0);
	ib_destroy_qp(&qps[0]->ibqp);
	KUNIT_EXPECT_EQ(test, keep(qps[fits], tiny, 0, 1), ROX_EARLY_KEPT);
	for (i = 1; i <= fits; i++)
		ib_destroy_qp(&qps[i]->ibqp);
	KUNIT_EXPECT_EQ(test, atomic_read(&f->dev->early_bytes), 0);
	kfree_skb(half);
	kfree_skb(tiny);
}

static struct kunit_case rox_early_cases[] = {
	KUNIT_CASE(packets_of_a_frame_are_kept_in_runs),
	KUNIT_CASE(gaps_are_found),
	KUNIT_CASE(what_is_kept_has_its_limits),
	{}
};

static struct kunit_suite rox_early_suite = {
	.name = "rox_early",
	.init = rox_fixture_init,
	.exit = rox_fixture_exit,
	.test_cases = rox_early_cases,
};

kunit_test_suite(rox_early_suite);
