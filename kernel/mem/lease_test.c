// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit: leases: when they are taken, and that they come back.
 */
#include "../kunit/fixture.h"
#include "mem.h"

/**
 * struct test_holder - a holder with one lease
 * @holder: as the object knows it
 * @lease: the lease
 * @leases: of the object
 * @goes: it ends its lease itself, and cannot be referred to
 * @ends: it ends the lease when it is recalled, not later
 * @got: references on it
 * @recalls: how often it was asked
 */
struct test_holder {
	struct rox_leaseholder holder;
	struct rox_lease lease;
	struct rox_leases *leases;
	bool goes;
	bool ends;
	int got;
	int recalls;
};

static bool holder_get(struct rox_leaseholder *holder)
{
	struct test_holder *h = container_of(holder, struct test_holder, holder);

	h->got += !h->goes;
	return !h->goes;
}

static void holder_recall(struct rox_leaseholder *holder)
{
	struct test_holder *h = container_of(holder, struct test_holder, holder);

	h->recalls++;
	h->got--;
	if (h->ends)
		rox_lease_end(h->leases, &h->lease);
}

static void holder_init(struct test_holder *h, struct rox_leases *leases)
{
	*h = (struct test_holder) {
		.holder = { .get = holder_get, .recall = holder_recall },
		.leases = leases,
	};
	h->lease.holder = &h->holder;
}

static void a_lease_stands_until_it_ends(struct kunit *test)
{
	struct rox_leases leases;
	struct test_holder h;

	rox_leases_init(&leases);
	holder_init(&h, &leases);
	KUNIT_EXPECT_FALSE(test, rox_lease_stands(&leases, &h.lease));
	KUNIT_EXPECT_TRUE(test, rox_lease_take(&leases, &h.lease));
	KUNIT_EXPECT_TRUE(test, rox_lease_stands(&leases, &h.lease));
	rox_lease_end(&leases, &h.lease);
	KUNIT_EXPECT_FALSE(test, rox_lease_stands(&leases, &h.lease));
	KUNIT_EXPECT_TRUE(test, list_empty(&leases.list));
	/* An end of no lease does nothing. */
	rox_lease_end(&leases, &h.lease);
	rox_leases_recall(&leases);
	KUNIT_EXPECT_EQ(test, h.recalls, 0);
}

/* One holder ends its lease at once, one later, and one is going. */
static void each_holder_is_asked_once(struct kunit *test)
{
	struct test_holder h[3];
	struct rox_leases leases;
	int i;

	rox_leases_init(&leases);
	for (i = 0; i < ARRAY_SIZE(h); i++) {
		holder_init(&h[i], &leases);
		KUNIT_ASSERT_TRUE(test, rox_lease_take(&leases, &h[i].lease));
	}
	h[0].ends = true;
	h[2].goes = true;
	rox_leases_recall(&leases);
	rox_leases_recall(&leases);
	for (i = 0; i < ARRAY_SIZE(h); i++) {
		KUNIT_EXPECT_EQ(test, h[i].recalls, i < 2);
		KUNIT_EXPECT_EQ(test, h[i].got, 0);
		KUNIT_EXPECT_EQ(test, h[i].lease.taken, i > 0);
		KUNIT_EXPECT_FALSE(test, rox_lease_stands(&leases, &h[i].lease));
		rox_lease_end(&leases, &h[i].lease);
	}
	KUNIT_EXPECT_TRUE(test, list_empty(&leases.list));
	KUNIT_EXPECT_FALSE(test, rox_lease_take(&leases, &h[0].lease));
}

/* A run that uses @mr. Return: references on it after the run. */
static unsigned int run_with(struct rox_mr_keep *keep, struct rox_mr *mr)
{
	if (keep->mr != mr) {
		rox_mr_keep_drop(keep);
		refcount_inc(&mr->ref);
		keep->mr = mr;
	}
	local_bh_disable();
	rox_mr_keep_settle(keep);
	local_bh_enable();
	return refcount_read(&mr->ref);
}

/* Only a pinned region of a process, in the second run in a row. */
static void regions_that_are_used_again_are_kept(struct kunit *test)
{
	static const enum rox_mr_type types[] = {
		ROX_MR_USER, ROX_MR_FRWR, ROX_MR_ODP, ROX_MR_DMA, ROX_MR_WINDOW,
	};
	struct rox_mr *mr = kunit_kcalloc(test, 2, sizeof(*mr), GFP_KERNEL);
	struct test_holder h;
	int i, n;

	KUNIT_ASSERT_NOT_NULL(test, mr);
	for (i = 0; i < ARRAY_SIZE(types); i++) {
		struct rox_mr_keep keep = {};

		for (n = 0; n < 2; n++) {
			mr[n].type = types[i];
			refcount_set(&mr[n].ref, 1);
			rox_leases_init(&mr[n].leases);
		}
		holder_init(&h, &mr[0].leases);
		keep.lease.holder = &h.holder;
		KUNIT_EXPECT_EQ(test, run_with(&keep, &mr[0]), 1);
		KUNIT_EXPECT_EQ(test, run_with(&keep, &mr[1]), 1);
		KUNIT_EXPECT_EQ(test, run_with(&keep, &mr[0]), 1);
		KUNIT_EXPECT_EQ(test, run_with(&keep, &mr[0]), types[i] == ROX_MR_USER ? 2 : 1);
		KUNIT_EXPECT_EQ(test, run_with(&keep, &mr[1]), 1);
		KUNIT_EXPECT_EQ(test, refcount_read(&mr[0].ref), 1);
		KUNIT_EXPECT_TRUE(test, list_empty(&mr[0].leases.list));
	}
}

/* The run after the recall drops the region, and no run keeps it again. */
static void a_region_that_goes_is_dropped(struct kunit *test)
{
	struct rox_mr_keep keep = {};
	struct rox_mr mr = { .type = ROX_MR_USER };
	struct test_holder h;

	refcount_set(&mr.ref, 1);
	rox_leases_init(&mr.leases);
	holder_init(&h, &mr.leases);
	keep.lease.holder = &h.holder;
	run_with(&keep, &mr);
	KUNIT_ASSERT_EQ(test, run_with(&keep, &mr), 2);
	rox_leases_recall(&mr.leases);
	KUNIT_EXPECT_EQ(test, h.recalls, 1);
	KUNIT_EXPECT_EQ(test, run_with(&keep, &mr), 1);
	KUNIT_EXPECT_PTR_EQ(test, keep.mr, NULL);
	KUNIT_EXPECT_EQ(test, run_with(&keep, &mr), 1);
}

static struct kunit_case lease_cases[] = {
	KUNIT_CASE(a_lease_stands_until_it_ends),
	KUNIT_CASE(each_holder_is_asked_once),
	KUNIT_CASE(regions_that_are_used_again_are_kept),
	KUNIT_CASE(a_region_that_goes_is_dropped),
	{}
};

static struct kunit_suite lease_suite = {
	.name = "rox_lease",
	.test_cases = lease_cases,
};

kunit_test_suite(lease_suite);
