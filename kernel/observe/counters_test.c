// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit: counters.
 */
#include <rdma/ib_verbs.h>
#include <rdma/rdma_counter.h>

#include "../kunit/fixture.h"

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
		per_cpu_ptr(f->dev->stats.counters, cpu)->c[ROX_CNT_DUPLICATE_REQ] += cpu + 1;
		sum += cpu + 1;
	}
	rox_count(&f->dev->stats, ROX_CNT_RX_ICRC);
	rox_count_add(&f->dev->stats, ROX_CNT_TX_BYTES, 1ULL << 40);
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

static u64 value_of(struct kunit *test, enum rox_counter c)
{
	struct rdma_hw_stats *stats = stats_of(test);
	u64 value = stats->value[c];

	rdma_free_hw_stats_struct(stats);
	return value;
}

static void count(const struct rox_qp *qp, enum rox_counter c, u64 n)
{
	local_bh_disable();
	rox_qp_count_add(qp, c, n);
	local_bh_enable();
}

/* Calls the ops as the core does for `rdma statistic qp bind` and unbind. */
static void a_qp_counts_in_one_place(struct kunit *test)
{
	struct rox_fixture *f = test->priv;
	struct ib_device *ibdev = &f->dev->ibdev;
	struct rdma_counter counter = { .device = ibdev, .port = 1 };
	struct rox_qp *qp = rox_fixture_qp(test, IB_QPT_RC);
	u64 before = value_of(test, ROX_CNT_TX_ACKS);
	struct rox_counters __percpu *late;

	counter.stats = ibdev->ops.counter_alloc_stats(&counter);
	KUNIT_ASSERT_NOT_NULL(test, counter.stats);
	count(qp, ROX_CNT_TX_ACKS, 1);
	KUNIT_ASSERT_EQ(test, rox_counter_bind_qp(&counter, &qp->ibqp, 1), 0);
	KUNIT_EXPECT_NE(test, counter.id, 0);
	KUNIT_EXPECT_PTR_EQ(test, qp->ibqp.counter, &counter);
	late = qp->ep.counters;
	count(qp, ROX_CNT_TX_ACKS, 5);
	KUNIT_EXPECT_EQ(test, ibdev->ops.counter_update_stats(&counter), 0);
	KUNIT_EXPECT_EQ(test, counter.stats->value[ROX_CNT_TX_ACKS], 5);
	KUNIT_EXPECT_EQ(test, value_of(test, ROX_CNT_TX_ACKS), before + 1);

	KUNIT_EXPECT_EQ(test, rox_counter_unbind_qp(&qp->ibqp, 1), 0);
	KUNIT_EXPECT_NULL(test, qp->ibqp.counter);
	count(qp, ROX_CNT_TX_ACKS, 10);
	/* A context that has read the pointer before unbind still counts in the set. */
	this_cpu_add(late->c[ROX_CNT_TX_ACKS], 20);
	KUNIT_EXPECT_EQ(test, ibdev->ops.counter_dealloc(&counter), 0);
	rcu_barrier();
	KUNIT_EXPECT_EQ(test, value_of(test, ROX_CNT_TX_ACKS), before + 31);
	rdma_free_hw_stats_struct(counter.stats);
	ib_destroy_qp(&qp->ibqp);
}

static void optional_counters_are_last_and_off(struct kunit *test)
{
	struct rox_fixture *f = test->priv;
	struct ib_device *ibdev = &f->dev->ibdev;
	struct rdma_hw_stats *stats = stats_of(test);
	unsigned int i;

	for (i = 0; i < ROX_CNT_MAX; i++) {
		bool optional = stats->descs[i].flags & IB_STAT_FLAG_OPTIONAL;

		KUNIT_EXPECT_EQ_MSG(test, optional, i >= ROX_CNT_OPTIONAL, "counter %u", i);
		KUNIT_EXPECT_EQ_MSG(test, test_bit(i, stats->is_disabled), optional,
				    "counter %u", i);
	}
	rdma_free_hw_stats_struct(stats);

	KUNIT_EXPECT_FALSE(test, rox_optional(&f->dev->stats, ROX_CNT_RX_CE));
	KUNIT_EXPECT_EQ(test, ibdev->ops.modify_hw_stat(ibdev, 1, ROX_CNT_RX_CE, true), 0);
	KUNIT_EXPECT_TRUE(test, rox_optional(&f->dev->stats, ROX_CNT_RX_CE));
	KUNIT_EXPECT_FALSE(test, rox_optional(&f->dev->stats, ROX_CNT_STALL_WINDOW));
	stats = stats_of(test);
	KUNIT_EXPECT_FALSE(test, test_bit(ROX_CNT_RX_CE, stats->is_disabled));
	rdma_free_hw_stats_struct(stats);
	KUNIT_EXPECT_EQ(test, ibdev->ops.modify_hw_stat(ibdev, 1, ROX_CNT_RX_CE, false), 0);
	KUNIT_EXPECT_FALSE(test, rox_optional(&f->dev->stats, ROX_CNT_RX_CE));
	KUNIT_EXPECT_EQ(test, ibdev->ops.modify_hw_stat(ibdev, 1, ROX_CNT_TX_PKTS, true), -EINVAL);
	/* Leave this one on: the end of the device must switch it off. */
	KUNIT_EXPECT_EQ(test, ibdev->ops.modify_hw_stat(ibdev, 1, ROX_CNT_DEFERRED, true), 0);
}

static struct kunit_case rox_counter_cases[] = {
	KUNIT_CASE(a_qp_counts_in_one_place),
	KUNIT_CASE(optional_counters_are_last_and_off),
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
