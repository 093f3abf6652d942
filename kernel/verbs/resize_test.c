// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit: the copy of entries when a CQ or an SRQ is resized. The copy goes in steps, with
 * interrupts off during a step. Entries are added and taken between the steps.
 */
#include "internal.h"
#include "../kunit/fixture.h"

#define OLD_ENTRIES	512
#define NEW_ENTRIES	1024
/* First index, chosen so that indices wrap during the copy. */
#define BEGIN		(U32_MAX - 100)
/* Limit of steps in a case. */
#define MAX_STEPS	(4 * NEW_ENTRIES / ROX_RESIZE_STEP)

static void ring_of(struct kunit *test, struct rox_ring *ring, u32 entries, u32 stride, u32 index)
{
	ring->ctrl = kunit_kzalloc(test, sizeof(*ring->ctrl), GFP_KERNEL);
	ring->base = kunit_kzalloc(test, entries * stride, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, ring->ctrl);
	KUNIT_ASSERT_NOT_NULL(test, ring->base);
	ring->entries = entries;
	ring->stride = stride;
	ring->index = index;
	ring->ctrl->producer = index;
	ring->ctrl->consumer = index;
}

/* ---- CQ ---- */

/* Does one step, and checks that it is bounded. Return: as rox_cq_move(). */
static int cq_step(struct kunit *test, const struct rox_cq *cq, struct rox_cq_ring *new)
{
	u32 before = new->moved;
	int left = rox_cq_move(cq, new);

	if (left >= 0 && before - cq->ring.ctrl->consumer <= cq->ring.entries)
		KUNIT_EXPECT_LE(test, new->moved - before, ROX_RESIZE_STEP);
	return left;
}

static struct rox_cq *cq_begin(struct kunit *test, struct rox_cq_ring *new, u32 new_entries)
{
	struct rox_fixture *f = test->priv;
	struct rox_cq *cq = kunit_kzalloc(test, sizeof(*cq), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, cq);
	cq->ibcq.device = &f->dev->ibdev;
	rox_cq_init(cq, 0);
	ring_of(test, &cq->ring, OLD_ENTRIES, sizeof(struct rox_cqe), BEGIN);
	ring_of(test, &new->ring, new_entries, sizeof(struct rox_cqe), 0);
	new->moved = BEGIN - OLD_ENTRIES;
	return cq;
}

/* Adds completions with their index as wr_id. */
static void cq_add(struct kunit *test, struct rox_cq *cq, u32 n)
{
	struct rox_cqe cqe = {};

	for (; n; n--) {
		cqe.wr_id = cq->ring.index;
		KUNIT_ASSERT_EQ(test, rox_cq_add(cq, &cqe, false), 0);
	}
}

static void cq_take(struct rox_cq *cq, u32 n)
{
	cq->ring.ctrl->consumer += n;
}

/* Checks that the new ring has all entries of the old one, at the same indices. */
static void cq_same(struct kunit *test, const struct rox_cq *cq, const struct rox_cq_ring *new)
{
	const struct rox_cqe *cqe;
	u32 i;

	KUNIT_ASSERT_EQ(test, new->ring.index, cq->ring.index);
	KUNIT_ASSERT_EQ(test, new->ring.ctrl->producer, cq->ring.index);
	KUNIT_ASSERT_EQ(test, new->ring.ctrl->consumer, cq->ring.ctrl->consumer);
	for (i = new->ring.ctrl->consumer; i != new->ring.index; i++) {
		cqe = rox_ring_entry(&new->ring, i);
		KUNIT_ASSERT_EQ(test, cqe->wr_id, i);
	}
}

static void cq_moves_in_bounded_steps(struct kunit *test)
{
	struct rox_cq_ring new = {};
	struct rox_cq *cq = cq_begin(test, &new, NEW_ENTRIES);
	u32 steps = 1;

	cq_add(test, cq, OLD_ENTRIES);
	while (cq_step(test, cq, &new) > 0)
		KUNIT_ASSERT_LT(test, ++steps, MAX_STEPS);
	KUNIT_EXPECT_EQ(test, steps, OLD_ENTRIES / ROX_RESIZE_STEP);
	cq_same(test, cq, &new);
}

static void cq_empty_takes_one_step(struct kunit *test)
{
	struct rox_cq_ring new = {};
	struct rox_cq *cq = cq_begin(test, &new, 1);

	cq_add(test, cq, 3);
	cq_take(cq, 3);
	KUNIT_EXPECT_EQ(test, cq_step(test, cq, &new), 0);
	cq_same(test, cq, &new);
}

/* Entries are taken and added during the copy, so that it wraps around in the new ring. */
static void cq_moves_while_completions_come_and_go(struct kunit *test)
{
	struct rox_cq_ring new = {};
	struct rox_cq *cq = cq_begin(test, &new, OLD_ENTRIES / 2);
	u32 steps = 0;

	cq_add(test, cq, OLD_ENTRIES / 2);
	while (cq_step(test, cq, &new) > 0) {
		KUNIT_ASSERT_LT(test, ++steps, MAX_STEPS);
		cq_take(cq, ROX_RESIZE_STEP / 2);
		cq_add(test, cq, ROX_RESIZE_STEP / 2);
	}
	KUNIT_EXPECT_GT(test, steps, 3);
	cq_same(test, cq, &new);
}

/* The program polls faster than the copy: entries that it has taken are skipped. */
static void cq_move_passes_over_what_was_taken(struct kunit *test)
{
	struct rox_cq_ring new = {};
	struct rox_cq *cq = cq_begin(test, &new, NEW_ENTRIES);

	cq_add(test, cq, OLD_ENTRIES);
	KUNIT_EXPECT_GT(test, cq_step(test, cq, &new), 0);
	cq_take(cq, OLD_ENTRIES - 5);
	cq_add(test, cq, 7);
	KUNIT_EXPECT_EQ(test, rox_cq_move(cq, &new), 0);
	cq_same(test, cq, &new);
}

static void cq_move_refuses_what_does_not_fit(struct kunit *test)
{
	struct rox_cq_ring new = {};
	struct rox_cq *cq = cq_begin(test, &new, 256);

	cq_add(test, cq, 256);
	KUNIT_EXPECT_GT(test, cq_step(test, cq, &new), 0);
	cq_add(test, cq, 1);
	KUNIT_EXPECT_EQ(test, cq_step(test, cq, &new), -EINVAL);
	cq_take(cq, 1);
	cq->error = true;
	KUNIT_EXPECT_EQ(test, cq_step(test, cq, &new), -EINVAL);
}

/* The program moves its index back, forward and out of range. The copy must end. */
static void cq_move_ends_with_a_hostile_program(struct kunit *test)
{
	struct rox_cq_ring new = {};
	struct rox_cq *cq = cq_begin(test, &new, NEW_ENTRIES);
	u32 begin = cq->ring.ctrl->consumer, steps = 0;
	int left;

	cq_add(test, cq, OLD_ENTRIES);
	do {
		KUNIT_ASSERT_LT(test, ++steps, MAX_STEPS);
		cq->ring.ctrl->consumer = steps & 1 ? begin + OLD_ENTRIES / 4 : begin;
		left = rox_cq_move(cq, &new);
	} while (left > 0);
	KUNIT_EXPECT_EQ(test, left, 0);
	cq->ring.ctrl->consumer = begin - 1;
	KUNIT_EXPECT_EQ(test, rox_cq_move(cq, &new), -EINVAL);
	cq->ring.ctrl->consumer = cq->ring.index + 1;
	KUNIT_EXPECT_EQ(test, rox_cq_move(cq, &new), -EINVAL);
}

/* ---- overrun ---- */

static void overrun_fails_the_cq(struct kunit *test)
{
	struct rox_cq_ring new = {};
	struct rox_cq *cq = cq_begin(test, &new, 1);
	struct rox_cqe cqe = {};

	cq_add(test, cq, OLD_ENTRIES);
	KUNIT_EXPECT_EQ(test, rox_cq_add(cq, &cqe, false), -EOVERFLOW);
	cq_take(cq, 1);
	KUNIT_EXPECT_EQ(test, rox_cq_add(cq, &cqe, false), -EOVERFLOW);
	KUNIT_EXPECT_TRUE(test, cq->ring.ctrl->flags & ROX_RING_ERROR);
}

static void overrun_that_is_ignored_loses_completions_only(struct kunit *test)
{
	struct rox_cq_ring new = {};
	struct rox_cq *cq = cq_begin(test, &new, 1);
	struct rox_cqe cqe = { .wr_id = 7 };
	u32 i;

	cq->ignore_overrun = true;
	cq_add(test, cq, OLD_ENTRIES);
	for (i = 0; i < 3; i++)
		KUNIT_EXPECT_EQ(test, rox_cq_add(cq, &cqe, false), 0);
	KUNIT_EXPECT_EQ(test, cq->ring.index, (u32)(BEGIN + OLD_ENTRIES));
	KUNIT_EXPECT_FALSE(test, cq->ring.ctrl->flags & ROX_RING_ERROR);
	cq_take(cq, 2);
	cq_add(test, cq, 2);
	KUNIT_EXPECT_FALSE(test, cq->error);
	/* An invalid index is an error, not an overrun. */
	cq->ring.ctrl->consumer = cq->ring.index + 1;
	KUNIT_EXPECT_EQ(test, rox_cq_add(cq, &cqe, false), -EOVERFLOW);
	KUNIT_EXPECT_TRUE(test, cq->error);
}

/* ---- SRQ ---- */

static struct rox_srq *srq_begin(struct kunit *test, struct rox_srq_ring *new, u32 new_entries)
{
	struct rox_srq *srq = kunit_kzalloc(test, sizeof(*srq), GFP_KERNEL);
	u32 stride = sizeof(struct rox_recv_wqe) + sizeof(struct rox_sge);

	KUNIT_ASSERT_NOT_NULL(test, srq);
	ring_of(test, &srq->ring, OLD_ENTRIES, stride, BEGIN);
	ring_of(test, &new->ring, new_entries, stride, 0);
	new->moved = srq->ring.index;
	return srq;
}

/* Posts receive WQEs with their index as wr_id. */
static void srq_post(struct rox_srq *srq, u32 n)
{
	struct rox_recv_wqe *wqe;

	for (; n; n--) {
		wqe = rox_ring_free_entry(&srq->ring);
		if (wqe)
			wqe->wr_id = srq->ring.ctrl->producer;
		rox_ring_publish(&srq->ring);
	}
}

static void srq_same(struct kunit *test, const struct rox_srq *srq,
		     const struct rox_srq_ring *new)
{
	const struct rox_recv_wqe *wqe;
	u32 i;

	KUNIT_ASSERT_EQ(test, new->ring.index, srq->ring.index);
	KUNIT_ASSERT_EQ(test, new->ring.ctrl->producer, srq->ring.ctrl->producer);
	KUNIT_ASSERT_EQ(test, new->ring.ctrl->consumer, srq->ring.index);
	for (i = new->ring.index; i != new->ring.ctrl->producer; i++) {
		wqe = rox_ring_entry(&new->ring, i);
		KUNIT_ASSERT_EQ(test, wqe->wr_id, i);
	}
}

static void srq_moves_in_bounded_steps(struct kunit *test)
{
	struct rox_srq_ring new = {};
	struct rox_srq *srq = srq_begin(test, &new, NEW_ENTRIES);
	u32 steps = 1, before;
	int left;

	srq_post(srq, OLD_ENTRIES);
	for (;; steps++) {
		KUNIT_ASSERT_LT(test, steps, MAX_STEPS);
		before = new.moved;
		left = rox_srq_move(srq, &new);
		KUNIT_ASSERT_GE(test, left, 0);
		KUNIT_EXPECT_LE(test, new.moved - before, ROX_RESIZE_STEP);
		if (!left)
			break;
	}
	KUNIT_EXPECT_EQ(test, steps, OLD_ENTRIES / ROX_RESIZE_STEP);
	srq_same(test, srq, &new);
}

static void srq_moves_while_receives_come_and_go(struct kunit *test)
{
	struct rox_srq_ring new = {};
	struct rox_srq *srq = srq_begin(test, &new, OLD_ENTRIES / 2);
	u32 steps = 0;

	srq_post(srq, OLD_ENTRIES / 2);
	while (rox_srq_move(srq, &new) > 0) {
		KUNIT_ASSERT_LT(test, ++steps, MAX_STEPS);
		rox_ring_consume(&srq->ring, ROX_RESIZE_STEP / 2);
		srq_post(srq, ROX_RESIZE_STEP / 2);
	}
	KUNIT_EXPECT_GT(test, steps, 3);
	srq_same(test, srq, &new);
	/* All entries are taken between two steps. */
	new.moved = srq->ring.index;
	KUNIT_EXPECT_GT(test, rox_srq_move(srq, &new), 0);
	rox_ring_consume(&srq->ring, OLD_ENTRIES / 2);
	KUNIT_EXPECT_EQ(test, rox_srq_move(srq, &new), 0);
	srq_same(test, srq, &new);
}

static void srq_move_refuses_what_cannot_be(struct kunit *test)
{
	struct rox_srq_ring new = {};
	struct rox_srq *srq = srq_begin(test, &new, 256);

	srq_post(srq, 256);
	KUNIT_EXPECT_GT(test, rox_srq_move(srq, &new), 0);
	/* The producer index goes back, below entries that have been copied. */
	srq->ring.ctrl->producer -= 256 - ROX_RESIZE_STEP / 2;
	KUNIT_EXPECT_EQ(test, rox_srq_move(srq, &new), -EINVAL);
	srq->ring.ctrl->producer = srq->ring.index + 257;
	KUNIT_EXPECT_EQ(test, rox_srq_move(srq, &new), -EINVAL);
	srq->ring.ctrl->producer = srq->ring.index + OLD_ENTRIES + 1;
	KUNIT_EXPECT_EQ(test, rox_srq_move(srq, &new), -EINVAL);
	srq->ring.ctrl->producer = srq->ring.index + 256;
	srq->limit = 257;
	KUNIT_EXPECT_EQ(test, rox_srq_move(srq, &new), -EINVAL);
	srq->limit = 256;
	while (rox_srq_move(srq, &new) > 0)
		;
	srq_same(test, srq, &new);
}

static struct kunit_case rox_resize_cases[] = {
	KUNIT_CASE(cq_moves_in_bounded_steps),
	KUNIT_CASE(cq_empty_takes_one_step),
	KUNIT_CASE(cq_moves_while_completions_come_and_go),
	KUNIT_CASE(cq_move_passes_over_what_was_taken),
	KUNIT_CASE(cq_move_refuses_what_does_not_fit),
	KUNIT_CASE(cq_move_ends_with_a_hostile_program),
	KUNIT_CASE(overrun_fails_the_cq),
	KUNIT_CASE(overrun_that_is_ignored_loses_completions_only),
	KUNIT_CASE(srq_moves_in_bounded_steps),
	KUNIT_CASE(srq_moves_while_receives_come_and_go),
	KUNIT_CASE(srq_move_refuses_what_cannot_be),
	{}
};

static struct kunit_suite rox_resize_suite = {
	.name = "rox_resize",
	.init = rox_fixture_init,
	.exit = rox_fixture_exit,
	.test_cases = rox_resize_cases,
};

kunit_test_suite(rox_resize_suite);
