// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit: counters.
 */
#include "../observe/observe.h"
#include "fixture.h"

static struct rdma_hw_stats *stats_of(struct kunit *test)
{
	struct rox_fixture *f = test->priv;
	struct ib_device *ibdev = &f->dev->ibdev;
	struct rdma_hw_stats *stats = ibdev->ops.alloc_hw_port_stats(ibdev, 1);

	KUNIT_ASSERT_NOT_NULL(test, stats);
	KUNIT_EXPECT_EQ(test, ibdev->ops.get_hw_stats(ibdev, stats, 1, 0), ROX_CNT_MAX);
	return stats;
}

static void every_counter_is_shown_under_its_own_name(struct kunit *test)
{
	struct rdma_hw_stats *stats = stats_of(test);
	unsigned int i, j;

	KUNIT_ASSERT_EQ(test, stats->num_counters, ROX_CNT_MAX);
	for (i = 0; i < ROX_CNT_MAX; i++) {
		KUNIT_ASSERT_NOT_NULL_MSG(test, stats->descs[i].name, "counter %u", i);
		for (j = 0; j < i; j++)
			KUNIT_EXPECT_STRNEQ(test, stats->descs[i].name, stats->descs[j].name);
	}
	rdma_free_hw_stats_struct(stats);
}

static void counters_are_the_sum_over_cpus(struct kunit *test)
{
	struct rox_fixture *f = test->priv;
	struct rdma_hw_stats *before = stats_of(test), *after;
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu) {
		per_cpu_ptr(f->dev->counters, cpu)->c[ROX_CNT_DUPLICATE_REQ] += cpu + 1;
		sum += cpu + 1;
	}
	rox_count(f->dev, ROX_CNT_RX_ICRC);
	rox_count_add(f->dev, ROX_CNT_TX_BYTES, 1ULL << 40);
	after = stats_of(test);
	KUNIT_EXPECT_EQ(test, after->value[ROX_CNT_DUPLICATE_REQ] -
			before->value[ROX_CNT_DUPLICATE_REQ], sum);
	KUNIT_EXPECT_EQ(test, after->value[ROX_CNT_RX_ICRC] - before->value[ROX_CNT_RX_ICRC], 1);
	KUNIT_EXPECT_EQ(test, after->value[ROX_CNT_TX_BYTES] - before->value[ROX_CNT_TX_BYTES],
			1ULL << 40);
	KUNIT_EXPECT_EQ(test, after->value[ROX_CNT_RETRY_EXCEEDED],
			before->value[ROX_CNT_RETRY_EXCEEDED]);
	rdma_free_hw_stats_struct(before);
	rdma_free_hw_stats_struct(after);
}

static struct kunit_case rox_counter_cases[] = {
	KUNIT_CASE(every_counter_is_shown_under_its_own_name),
	KUNIT_CASE(counters_are_the_sum_over_cpus),
	{}
};

static struct kunit_suite rox_counter_suite = {
	.name = "rox_counters",
	.init = rox_fixture_init,
	.exit = rox_fixture_exit,
	.test_cases = rox_counter_cases,
};

kunit_test_suite(rox_counter_suite);
