// SPDX-License-Identifier: GPL-2.0
/* KUnit: which doorbells are worth an engine. */
#include <kunit/test.h>

#include "spell.h"

#define SPIN_US		50U
/* Doorbells in a jiffy, of which one comes each half of SPIN_US. */
#define FREQUENT	(2 * (USEC_PER_SEC / HZ) / SPIN_US)
/* A time at which jiffies wrap soon. */
#define NOW		(ULONG_MAX - 1)

/* Rings @count doorbells in the jiffy @now. Return: how many were worth an engine. */
static u32 ring(struct rox_spell *spell, unsigned long now, u64 took, u32 count)
{
	u32 worth = 0;

	while (count--)
		worth += rox_spell_ring(spell, now, took, SPIN_US);
	return worth;
}

static void frequent_doorbells_wake(struct kunit *test)
{
	struct rox_spell spell = {};

	KUNIT_EXPECT_EQ(test, ring(&spell, NOW, 0, FREQUENT), 0);
	KUNIT_EXPECT_EQ(test, ring(&spell, NOW, 0, 1), 1);
	/* The count begins anew. */
	KUNIT_EXPECT_EQ(test, ring(&spell, NOW, 0, FREQUENT), 0);
	KUNIT_EXPECT_EQ(test, ring(&spell, NOW, 0, 1), 1);
}

static void rare_doorbells_do_not(struct kunit *test)
{
	struct rox_spell spell = {};
	unsigned long i;

	for (i = 0; i < 8; i++)
		KUNIT_EXPECT_EQ(test, ring(&spell, NOW + i, 0, FREQUENT), 0);
	/* A long time later. */
	KUNIT_EXPECT_EQ(test, ring(&spell, NOW + 100 * HZ, 0, FREQUENT), 0);
}

static void without_a_wait_none_does(struct kunit *test)
{
	struct rox_spell spell = {};
	u32 i, worth = 0;

	for (i = 0; i < 10 * FREQUENT; i++)
		worth += rox_spell_ring(&spell, NOW, 1, 0);
	KUNIT_EXPECT_EQ(test, worth, 0);
}

/* On slow machines a spell has more than a jiffy, and a few doorbells are enough. */
static void slow_doorbells_wake(struct kunit *test)
{
	struct rox_spell spell = {};

	KUNIT_EXPECT_EQ(test, ring(&spell, NOW, ROX_JIFFY_NS / 2, ROX_RINGS_LEAST - 1), 0);
	KUNIT_EXPECT_EQ(test, rox_spell_jiffies(&spell), 3);
	KUNIT_EXPECT_EQ(test, ring(&spell, NOW + 2, ROX_JIFFY_NS / 2, 1), 1);
	/* Of a duration no more than a jiffy counts. */
	ring(&spell, NOW + 3, 100ULL * ROX_JIFFY_NS, 2);
	KUNIT_EXPECT_EQ(test, rox_spell_jiffies(&spell), 1 + ROX_RINGS_LEAST);
}

/* A doorbell that was interrupted for long, among short ones. */
static void one_slow_doorbell_says_nothing(struct kunit *test)
{
	struct rox_spell spell = {};

	ring(&spell, NOW, 100, 2);
	ring(&spell, NOW, ROX_JIFFY_NS, 1);
	KUNIT_EXPECT_EQ(test, spell.ring_ns, 100);
	ring(&spell, NOW, 200, 1);
	KUNIT_EXPECT_EQ(test, spell.ring_ns, 200);
	/* One that was not timed. */
	ring(&spell, NOW, 0, 1);
	KUNIT_EXPECT_EQ(test, spell.ring_ns, 200);
}

static void few_doorbells_are_timed(struct kunit *test)
{
	struct rox_spell spell = {};
	u32 i, timed = 0;

	for (i = 0; i < 2 * ROX_RINGS_TIMED; i++) {
		timed += rox_spell_times(&spell, NOW);
		ring(&spell, NOW, 0, 1);
	}
	KUNIT_EXPECT_EQ(test, timed, 2);
	ring(&spell, NOW, 0, 1);
	KUNIT_EXPECT_FALSE(test, rox_spell_times(&spell, NOW));
	/* The first one of the next spell is. */
	KUNIT_EXPECT_TRUE(test, rox_spell_times(&spell, NOW + 1));
}

static struct kunit_case rox_spell_cases[] = {
	KUNIT_CASE(frequent_doorbells_wake),
	KUNIT_CASE(rare_doorbells_do_not),
	KUNIT_CASE(without_a_wait_none_does),
	KUNIT_CASE(slow_doorbells_wake),
	KUNIT_CASE(one_slow_doorbell_says_nothing),
	KUNIT_CASE(few_doorbells_are_timed),
	{}
};

static struct kunit_suite rox_spell_suite = {
	.name = "rox_spell",
	.test_cases = rox_spell_cases,
};

kunit_test_suite(rox_spell_suite);
