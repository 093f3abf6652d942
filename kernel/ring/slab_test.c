// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit: slabs of rings, without a process.
 */
#include <kunit/test.h>
#include <linux/mm.h>

#include "slab.h"

static int offered;	/* slabs that are offered now */
static int refuse;	/* number of offers that fail */
static size_t bytes;	/* of all that are offered */

static int fake_offer(struct rox_slab *slab)
{
	if (refuse) {
		refuse--;
		return -ENOMEM;
	}
	slab->map.size = slab->mem.size;
	bytes += slab->mem.size;
	offered++;
	return 0;
}

static void fake_withdraw(struct rox_slab *slab)
{
	bytes -= slab->mem.size;
	offered--;
}

static const struct rox_slab_ops fake_ops = {
	.offer = fake_offer,
	.withdraw = fake_withdraw,
};

static int slab_init(struct kunit *test)
{
	struct rox_slabs *slabs = kunit_kzalloc(test, sizeof(*slabs), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, slabs);
	offered = 0;
	refuse = 0;
	bytes = 0;
	rox_slabs_init(slabs, &fake_ops);
	test->priv = slabs;
	return 0;
}

static void slab_exit(struct kunit *test)
{
	struct rox_slabs *slabs = test->priv;
	unsigned int i;

	if (!slabs)
		return;
	rox_slabs_exit(slabs);
	KUNIT_EXPECT_EQ(test, offered, 0);
	for (i = 0; i < ROX_SLAB_CLASSES; i++)
		KUNIT_EXPECT_TRUE(test, hlist_empty(&slabs->classes[i].open));
}

static struct rox_ring_mem slab_get(struct kunit *test, size_t size)
{
	struct rox_ring_mem mem = {};

	KUNIT_ASSERT_EQ(test, rox_slab_alloc(test->priv, size, &mem), 0);
	KUNIT_ASSERT_NOT_NULL(test, mem.base);
	KUNIT_ASSERT_NOT_NULL(test, mem.slab);
	return mem;
}

/* Every size has a place that is large enough and not much larger, and lies in its slab. */
static void places_fit_their_size(struct kunit *test)
{
	struct rox_ring_mem mem;
	size_t size;

	for (size = 1; size <= ROX_SLAB_MOST_PLACE; size += 1 + size / 100) {
		mem = slab_get(test, size);
		KUNIT_EXPECT_GE(test, mem.size, size);
		KUNIT_EXPECT_LE(test, mem.size, size + max_t(size_t, size / 8, ROX_CACHE_LINE));
		KUNIT_EXPECT_EQ(test, mem.size % ROX_CACHE_LINE, 0);
		KUNIT_EXPECT_LE(test, rox_slab_position(&mem) + mem.size, mem.slab->mem.size);
		KUNIT_EXPECT_LT(test, mem.slab->class, (u32)ROX_SLAB_CLASSES);
		rox_slab_free(&mem);
		KUNIT_EXPECT_NULL(test, mem.base);
	}
	mem = slab_get(test, ROX_SLAB_MOST_PLACE);
	KUNIT_EXPECT_EQ(test, mem.size, (size_t)ROX_SLAB_MOST_PLACE);
	rox_slab_free(&mem);
}

/* Larger sizes never have a smaller class, and one class has one size of places. */
static void classes_follow_sizes(struct kunit *test)
{
	size_t last_place = 0;
	u32 last_class = 0;
	size_t size;

	for (size = 1; size <= 64 << 10; size += 7) {
		struct rox_ring_mem mem = slab_get(test, size);

		if (mem.slab->class == last_class && last_place)
			KUNIT_EXPECT_EQ(test, mem.size, last_place);
		else
			KUNIT_EXPECT_GT(test, mem.size, last_place);
		KUNIT_EXPECT_GE(test, mem.slab->class, last_class);
		KUNIT_EXPECT_LE(test, mem.slab->class, last_class + 1);
		last_class = mem.slab->class;
		last_place = mem.size;
		rox_slab_free(&mem);
	}
}

#define MANY 1000

/* Returns the array of @MANY places, each filled with its number. */
static struct rox_ring_mem *slab_get_many(struct kunit *test, size_t size)
{
	struct rox_ring_mem *all = kunit_kcalloc(test, MANY, sizeof(*all), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, all);
	for (i = 0; i < MANY; i++) {
		all[i] = slab_get(test, size);
		KUNIT_ASSERT_NULL(test, memchr_inv(all[i].base, 0, all[i].size));
		memset(all[i].base, 1 + i % 255, all[i].size);
	}
	return all;
}

static void many_share_few_slabs_that_grow(struct kunit *test)
{
	struct rox_ring_mem *all = slab_get_many(test, 2560);
	unsigned int i;

	KUNIT_EXPECT_LE(test, offered, 14);
	KUNIT_EXPECT_LE(test, bytes, 2 * MANY * (size_t)2560);
	for (i = 0; i < MANY; i++)
		KUNIT_EXPECT_NULL(test, memchr_inv(all[i].base, 1 + i % 255, all[i].size));
	for (i = 0; i < MANY; i++)
		rox_slab_free(&all[i]);
	KUNIT_EXPECT_EQ(test, offered, 1);
}

static void first_object_takes_no_more_than_its_pages(struct kunit *test)
{
	struct rox_ring_mem small = slab_get(test, 100), large = slab_get(test, 100 << 10);

	KUNIT_EXPECT_EQ(test, small.slab->mem.size, PAGE_SIZE);
	KUNIT_EXPECT_LE(test, large.slab->mem.size, PAGE_ALIGN(large.size));
	rox_slab_free(&small);
	rox_slab_free(&large);
}

static void no_slab_is_larger_than_allowed(struct kunit *test)
{
	struct rox_ring_mem all[20];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(all); i++) {
		all[i] = slab_get(test, ROX_SLAB_MOST_PLACE);
		KUNIT_EXPECT_LE(test, all[i].slab->mem.size, (size_t)ROX_SLAB_MOST);
	}
	for (i = 0; i < ARRAY_SIZE(all); i++)
		rox_slab_free(&all[i]);
}

/* What was freed is used again before a slab is added, and is empty. */
static void freed_places_are_used_again(struct kunit *test)
{
	struct rox_ring_mem *all = slab_get_many(test, 1000);
	int slabs = offered;
	unsigned int i;

	for (i = 0; i < MANY; i += 3)
		rox_slab_free(&all[i]);
	for (i = 0; i < MANY; i += 3) {
		all[i] = slab_get(test, 1000);
		KUNIT_EXPECT_NULL(test, memchr_inv(all[i].base, 0, all[i].size));
	}
	KUNIT_EXPECT_LE(test, offered, slabs);
	for (i = 0; i < MANY; i++)
		if (i % 3)
			KUNIT_EXPECT_NULL(test, memchr_inv(all[i].base, 1 + i % 255, all[i].size));
	for (i = 0; i < MANY; i++)
		rox_slab_free(&all[i]);
}

/* One empty slab is kept, whatever its class, and no number comes twice. */
static void one_empty_slab_is_kept(struct kunit *test)
{
	struct rox_ring_mem mem = slab_get(test, 1000);
	u64 number = mem.slab->number;

	rox_slab_free(&mem);
	KUNIT_EXPECT_EQ(test, offered, 1);
	mem = slab_get(test, 1000);
	KUNIT_EXPECT_EQ(test, mem.slab->number, number);
	rox_slab_free(&mem);
	mem = slab_get(test, 5000);
	KUNIT_EXPECT_EQ(test, offered, 2);
	KUNIT_EXPECT_NE(test, mem.slab->number, number);
	rox_slab_free(&mem);
	KUNIT_EXPECT_EQ(test, offered, 1);
	mem = slab_get(test, 1000);
	KUNIT_EXPECT_GT(test, mem.slab->number, number + 1);
	rox_slab_free(&mem);
}

/* The second slab would have as much as the first ones together, but there is no memory for it. */
static void near_the_limit_a_small_slab_does(struct kunit *test)
{
	struct rox_ring_mem all[20];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(all); i++) {
		refuse = i > 1;
		all[i] = slab_get(test, PAGE_SIZE);
		if (!refuse)
			KUNIT_EXPECT_EQ(test, all[i].slab->mem.size, PAGE_SIZE);
	}
	refuse = 0;
	KUNIT_EXPECT_EQ(test, bytes, ARRAY_SIZE(all) * PAGE_SIZE);
	for (i = 0; i < ARRAY_SIZE(all); i++)
		rox_slab_free(&all[i]);
}

static void without_memory_nothing_is_left(struct kunit *test)
{
	struct rox_ring_mem mem = {};

	refuse = 1;
	KUNIT_EXPECT_EQ(test, rox_slab_alloc(test->priv, 1000, &mem), -ENOMEM);
	KUNIT_EXPECT_NULL(test, mem.base);
	KUNIT_EXPECT_EQ(test, offered, 0);
	mem = slab_get(test, 1000);
	rox_slab_free(&mem);
}

static struct kunit_case rox_slab_cases[] = {
	KUNIT_CASE(places_fit_their_size),
	KUNIT_CASE(classes_follow_sizes),
	KUNIT_CASE(many_share_few_slabs_that_grow),
	KUNIT_CASE(first_object_takes_no_more_than_its_pages),
	KUNIT_CASE(no_slab_is_larger_than_allowed),
	KUNIT_CASE(freed_places_are_used_again),
	KUNIT_CASE(one_empty_slab_is_kept),
	KUNIT_CASE(near_the_limit_a_small_slab_does),
	KUNIT_CASE(without_memory_nothing_is_left),
	{}
};

static struct kunit_suite rox_slab_suite = {
	.name = "rox_slab",
	.init = slab_init,
	.exit = slab_exit,
	.test_cases = rox_slab_cases,
};

kunit_test_suite(rox_slab_suite);
