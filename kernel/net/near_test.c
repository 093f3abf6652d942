// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit: a path learns that its peer reads the sender's pages, and gives that up after a loss.
 */
#include <kunit/test.h>
#include <linux/delay.h>

#include "internal.h"

/* As near.c has them. */
#define BELIEVES	HZ
#define DOUBTS		(HZ / 8)

static void a_path_is_near_when_it_was_told(struct kunit *test)
{
	struct rox_path path = {}, other = {};

	rox_near_init(&path);
	rox_near_init(&other);
	KUNIT_EXPECT_FALSE(test, rox_path_is_near(&path));
	rox_near_tell(path.near.origin);
	KUNIT_EXPECT_TRUE(test, rox_path_is_near(&path));
	KUNIT_EXPECT_FALSE(test, rox_path_is_near(&other));
	/* modify_qp makes another path of it. */
	rox_near_init(&path);
	KUNIT_EXPECT_FALSE(test, rox_path_is_near(&path));
}

/* What never was a path sends with an origin of 0. */
static void nobody_is_told_without_an_origin(struct kunit *test)
{
	struct rox_path path = {};

	rox_near_tell(0);
	KUNIT_EXPECT_FALSE(test, rox_path_is_near(&path));
}

static void it_must_be_told_again(struct kunit *test)
{
	struct rox_path path = {};

	rox_near_init(&path);
	rox_near_tell(path.near.origin);
	msleep(jiffies_to_msecs(BELIEVES) + 20);
	KUNIT_EXPECT_FALSE(test, rox_path_is_near(&path));
	rox_near_tell(path.near.origin);
	KUNIT_EXPECT_TRUE(test, rox_path_is_near(&path));
}

static void an_uncut_path_is_told_by_a_packet(struct kunit *test)
{
	struct rox_endpoint from = {};
	struct rox_path path = {};

	rox_near_init(&path);
	KUNIT_EXPECT_FALSE(test, rox_path_is_uncut(&path, &from));
	rox_ep_told_uncut(&from);
	KUNIT_EXPECT_TRUE(test, rox_path_is_uncut(&path, &from));
	KUNIT_EXPECT_FALSE(test, rox_path_is_near(&path));
	from.told_uncut_at = jiffies - BELIEVES;
	KUNIT_EXPECT_FALSE(test, rox_path_is_uncut(&path, &from));
	rox_ep_told_uncut(&from);
	rox_near_left(&path);
	KUNIT_EXPECT_TRUE(test, rox_near_lost(&path, true));
	rox_ep_told_uncut(&from);
	KUNIT_EXPECT_FALSE(test, rox_path_is_uncut(&path, &from));
}

/* Packets without an ICRC are lost, after the path was told that the peer does not need it. */
static void lose(struct rox_path *path)
{
	rox_near_tell(path->near.origin);
	rox_near_left(path);
	rox_near_lost(path, true);
	rox_near_tell(path->near.origin);
}

/* Is the path near again @after jiffies after the last loss, and not a tick before? */
static bool doubts_until(struct rox_path *path, unsigned long after)
{
	bool before;

	path->near.lost_at = jiffies - after + 2;
	before = rox_path_is_near(path);
	path->near.lost_at = jiffies - after;
	return !before && rox_path_is_near(path);
}

static void after_losses_it_doubts_for_longer_and_longer(struct kunit *test)
{
	struct rox_path path = {};
	int i;

	rox_near_init(&path);
	for (i = 0; i < 8; i++) {
		lose(&path);
		KUNIT_EXPECT_FALSE(test, rox_path_is_near(&path));
		KUNIT_EXPECT_TRUE(test, doubts_until(&path, DOUBTS << i));
	}
	lose(&path);
	KUNIT_EXPECT_TRUE(test, doubts_until(&path, DOUBTS << 7));
	/* After a long time without a loss the next one is the first. */
	path.near.lost_at = jiffies - 121 * HZ;
	lose(&path);
	KUNIT_EXPECT_TRUE(test, doubts_until(&path, DOUBTS));
}

/* All lost packets had their ICRC. And a window is lost but once, however often that is told. */
static void other_losses_do_not_matter(struct kunit *test)
{
	struct rox_path path = {};

	rox_near_init(&path);
	rox_near_tell(path.near.origin);
	rox_near_lost(&path, true);
	KUNIT_EXPECT_TRUE(test, rox_path_is_near(&path));
	lose(&path);
	rox_near_lost(&path, true);
	KUNIT_EXPECT_TRUE(test, doubts_until(&path, DOUBTS));
}

/* An ACK is late, and the requester sends a packet again to learn why. */
static void a_late_answer_is_no_loss(struct kunit *test)
{
	struct rox_path path = {};

	rox_near_init(&path);
	rox_near_tell(path.near.origin);
	rox_near_left(&path);
	KUNIT_EXPECT_TRUE(test, rox_near_lost(&path, false));
	KUNIT_EXPECT_TRUE(test, rox_path_is_near(&path));
	/* Now it is known. */
	KUNIT_EXPECT_TRUE(test, rox_near_lost(&path, true));
	KUNIT_EXPECT_FALSE(test, rox_path_is_near(&path));
}

static struct kunit_case near_cases[] = {
	KUNIT_CASE(a_path_is_near_when_it_was_told),
	KUNIT_CASE(nobody_is_told_without_an_origin),
	KUNIT_CASE(it_must_be_told_again),
	KUNIT_CASE(an_uncut_path_is_told_by_a_packet),
	KUNIT_CASE(after_losses_it_doubts_for_longer_and_longer),
	KUNIT_CASE(other_losses_do_not_matter),
	KUNIT_CASE(a_late_answer_is_no_loss),
	{}
};

static struct kunit_suite rox_near_suite = {
	.name = "rox_near",
	.test_cases = near_cases,
};

kunit_test_suite(rox_near_suite);
