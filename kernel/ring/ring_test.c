// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit: shared rings, also with a hostile program on the other end.
 */
#include <kunit/test.h>

#include "ring.h"

#define ENTRIES 8
#define STRIDE 32

struct ring_fixture {
	struct rox_ring_mem mem;
	struct rox_ring ring;
};

static int ring_init(struct kunit *test)
{
	struct ring_fixture *f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);
	struct rox_ring_layout layout = {};
	struct rox_ring_desc desc;

	KUNIT_ASSERT_NOT_NULL(test, f);
	KUNIT_ASSERT_EQ(test, rox_ring_layout_add(&layout, ENTRIES, STRIDE, &desc), 0);
	KUNIT_ASSERT_EQ(test, rox_ring_mem_alloc(&f->mem, layout.size), 0);
	rox_ring_init(&f->ring, &f->mem, &desc);
	test->priv = f;
	return 0;
}

static void ring_exit(struct kunit *test)
{
	struct ring_fixture *f = test->priv;

	if (f)
		rox_ring_mem_free(&f->mem);
}

static struct rox_ring *ring_of(struct kunit *test)
{
	return &((struct ring_fixture *)test->priv)->ring;
}

static void pending_counts_modulo(struct kunit *test)
{
	struct rox_ring *ring = ring_of(test);
	u32 start, n;

	for (start = U32_MAX - 3; start != 4; start++)
		for (n = 0; n <= ENTRIES; n++) {
			ring->index = start;
			ring->ctrl->producer = start + n;
			KUNIT_EXPECT_EQ(test, rox_ring_pending(ring), (int)n);
		}
}

static void hostile_producer_is_an_error(struct kunit *test)
{
	static const u32 lies[] = { ENTRIES + 1, ENTRIES + 2, 0x7fffffff, 0x80000000, -2U, -1U };
	struct rox_ring *ring = ring_of(test);
	unsigned int i;
	u32 start;

	for (start = U32_MAX - 1; start != 2; start++)
		for (i = 0; i < ARRAY_SIZE(lies); i++) {
			ring->index = start;
			ring->ctrl->producer = start + lies[i];
			KUNIT_EXPECT_EQ(test, rox_ring_pending(ring), -EPROTO);
		}
}

static void hostile_consumer_is_an_error(struct kunit *test)
{
	static const u32 lies[] = { ENTRIES + 1, 0x7fffffff, 0x80000000, -1U };
	struct rox_ring *ring = ring_of(test);
	unsigned int i;
	u32 used;

	for (used = 0; used <= ENTRIES; used++) {
		ring->index = 5;
		ring->ctrl->consumer = 5 - used;
		KUNIT_EXPECT_EQ(test, rox_ring_space(ring), (int)(ENTRIES - used));
	}
	for (i = 0; i < ARRAY_SIZE(lies); i++) {
		ring->ctrl->consumer = ring->index - lies[i];
		KUNIT_EXPECT_EQ(test, rox_ring_space(ring), -EPROTO);
	}
}

static void no_ring_has_nothing_pending(struct kunit *test)
{
	struct rox_ring *ring = ring_of(test);

	ring->entries = 0;
	ring->ctrl->producer = 5;
	KUNIT_EXPECT_EQ(test, rox_ring_pending(ring), 0);
}

/* The copy does not change when the program changes the entry afterwards. */
static void entry_is_copied_once(struct kunit *test)
{
	struct rox_ring *ring = ring_of(test);
	u8 copy[STRIDE], wanted[STRIDE];
	u32 i;

	for (i = U32_MAX - ENTRIES; i != ENTRIES; i++) {
		ring->index = i;
		memset(rox_ring_entry(ring, i), i & 0xff, STRIDE);
		memset(wanted, i & 0xff, STRIDE);
		rox_ring_copy(ring, 0, 0, copy, STRIDE);
		memset(rox_ring_entry(ring, i), 0x5a, STRIDE);
		KUNIT_EXPECT_MEMEQ(test, copy, wanted, STRIDE);
		rox_ring_consume(ring, 1);
		KUNIT_EXPECT_EQ(test, ring->ctrl->consumer, i + 1);
	}
}

/* Entries are inside the ring for any index. */
static void entries_are_inside(struct kunit *test)
{
	struct ring_fixture *f = test->priv;
	u32 i, index = 1;

	for (i = 0; i < 100; i++, index = index * 1664525 + 1013904223) {
		void *entry = rox_ring_entry(&f->ring, index);

		KUNIT_EXPECT_GE(test, (unsigned long)entry,
				(unsigned long)f->mem.base + sizeof(struct rox_ring_ctrl));
		KUNIT_EXPECT_LE(test, (unsigned long)entry + STRIDE,
				(unsigned long)f->mem.base + f->mem.size);
	}
}

static void kernel_posts_until_full(struct kunit *test)
{
	struct rox_ring *ring = ring_of(test);
	unsigned int i;

	for (i = 0; i < ENTRIES; i++) {
		KUNIT_ASSERT_NOT_NULL(test, rox_ring_free_entry(ring));
		rox_ring_publish(ring);
	}
	KUNIT_EXPECT_NULL(test, rox_ring_free_entry(ring));
	KUNIT_EXPECT_EQ(test, rox_ring_pending(ring), ENTRIES);
	rox_ring_consume(ring, 1);
	KUNIT_EXPECT_PTR_EQ(test, rox_ring_free_entry(ring), rox_ring_entry(ring, ENTRIES));
}

static void layout_keeps_rings_apart(struct kunit *test)
{
	struct rox_ring_layout layout = {};
	struct rox_ring_desc a, b, none;

	KUNIT_ASSERT_EQ(test, rox_ring_layout_add(&layout, 5, 48, &a), 0);
	KUNIT_ASSERT_EQ(test, rox_ring_layout_add(&layout, 0, 16, &none), 0);
	KUNIT_ASSERT_EQ(test, rox_ring_layout_add(&layout, 3, 16, &b), 0);
	KUNIT_EXPECT_EQ(test, a.entries, 8);
	KUNIT_EXPECT_EQ(test, none.entries, 0);
	KUNIT_EXPECT_EQ(test, b.entries, 4);
	KUNIT_EXPECT_EQ(test, a.entries_offset % ROX_CACHE_LINE, 0);
	KUNIT_EXPECT_GE(test, none.ctrl_offset, a.entries_offset + 8 * 48);
	KUNIT_EXPECT_GE(test, b.ctrl_offset, none.ctrl_offset + (u32)sizeof(struct rox_ring_ctrl));
	KUNIT_EXPECT_EQ(test, layout.size, b.entries_offset + 4 * 16);
}

static void layout_refuses_what_32_bits_cannot_say(struct kunit *test)
{
	struct rox_ring_layout layout = {};
	struct rox_ring_desc desc;

	KUNIT_EXPECT_EQ(test, rox_ring_layout_add(&layout, BIT(31) + 1, 16, &desc), -EINVAL);
	KUNIT_EXPECT_EQ(test, rox_ring_layout_add(&layout, BIT(28), 16, &desc), -EINVAL);
	KUNIT_EXPECT_EQ(test, layout.size, 0);
	KUNIT_EXPECT_EQ(test, rox_ring_layout_add(&layout, BIT(27), 16, &desc), 0);
	KUNIT_EXPECT_EQ(test, rox_ring_layout_add(&layout, BIT(27), 16, &desc), -EINVAL);
}

static void impossible_memory_is_refused(struct kunit *test)
{
	struct rox_ring_mem mem = {};

	KUNIT_EXPECT_EQ(test, rox_ring_mem_alloc(&mem, 0), -ENOMEM);
	KUNIT_EXPECT_EQ(test, rox_ring_mem_alloc(&mem, SIZE_MAX / 2), -ENOMEM);
	KUNIT_EXPECT_NULL(test, mem.base);
	rox_ring_mem_free(&mem);
}

static struct kunit_case rox_ring_cases[] = {
	KUNIT_CASE(pending_counts_modulo),
	KUNIT_CASE(hostile_producer_is_an_error),
	KUNIT_CASE(hostile_consumer_is_an_error),
	KUNIT_CASE(no_ring_has_nothing_pending),
	KUNIT_CASE(entry_is_copied_once),
	KUNIT_CASE(entries_are_inside),
	KUNIT_CASE(kernel_posts_until_full),
	KUNIT_CASE(layout_keeps_rings_apart),
	KUNIT_CASE(layout_refuses_what_32_bits_cannot_say),
	KUNIT_CASE(impossible_memory_is_refused),
	{}
};

static struct kunit_suite rox_ring_suite = {
	.name = "rox_ring",
	.init = ring_init,
	.exit = ring_exit,
	.test_cases = rox_ring_cases,
};

kunit_test_suite(rox_ring_suite);
