// SPDX-License-Identifier: GPL-2.0
/* KUnit: sleeping until a CQ has something to poll. */
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/ktime.h>

#include "internal.h"
#include "../kunit/fixture.h"

#define LONG_NS		ROX_CQ_MOST_WAIT_NS
/* No machine is so slow that it takes half of a long sleep each time. */
#define TRIES		20

/**
 * struct sleeper - a thread that sleeps once
 * @cq: where
 * @ns: how long at most
 * @err: what rox_cq_wait() returned
 * @took: how long it took, in ns
 * @done: it has returned
 */
struct sleeper {
	struct rox_cq *cq;
	u32 ns;
	int err;
	s64 took;
	struct completion done;
};

static int sleep_once(void *data)
{
	struct sleeper *s = data;
	ktime_t begin = ktime_get();

	s->err = rox_cq_wait(s->cq, s->ns);
	s->took = ktime_to_ns(ktime_sub(ktime_get(), begin));
	complete(&s->done);
	return 0;
}

static struct rox_cq *test_cq(struct kunit *test)
{
	struct rox_fixture *f = test->priv;

	return to_rox_cq(f->cq);
}

static void add(struct kunit *test, struct rox_cq *cq)
{
	struct rox_cqe cqe = { .status = IB_WC_SUCCESS };

	KUNIT_ASSERT_EQ(test, rox_cq_add(cq, &cqe, false), 0);
}

/* The completion is of no QP, so polling drops it. */
static void take(struct rox_cq *cq)
{
	struct ib_wc wc;

	ib_poll_cq(&cq->ibcq, 1, &wc);
}

/* Adds a completion while a thread sleeps. Return: how long that slept, in ns. */
static s64 sleep_until_added(struct kunit *test, struct rox_cq *cq)
{
	struct sleeper s = { .cq = cq, .ns = LONG_NS };
	struct task_struct *thread;

	init_completion(&s.done);
	thread = kthread_run(sleep_once, &s, "rox-cq-wait");
	KUNIT_ASSERT_FALSE(test, IS_ERR(thread));
	usleep_range(100, 200);
	add(test, cq);
	wait_for_completion(&s.done);
	take(cq);
	KUNIT_EXPECT_EQ(test, s.err, 0);
	return s.took;
}

static void a_completion_ends_a_sleep(struct kunit *test)
{
	struct rox_cq *cq = test_cq(test);
	s64 least = S64_MAX;
	int i;

	for (i = 0; i < TRIES; i++)
		least = min(least, sleep_until_added(test, cq));
	KUNIT_EXPECT_LT(test, least, LONG_NS / 2);
	KUNIT_EXPECT_FALSE(test, wq_has_sleeper(&cq->sleepers));
}

static void a_cq_with_completions_lets_nobody_sleep(struct kunit *test)
{
	struct rox_cq *cq = test_cq(test);
	s64 least = S64_MAX;
	int i;

	add(test, cq);
	for (i = 0; i < TRIES; i++) {
		ktime_t begin = ktime_get();

		KUNIT_EXPECT_EQ(test, rox_cq_wait(cq, LONG_NS), 0);
		least = min(least, ktime_to_ns(ktime_sub(ktime_get(), begin)));
	}
	take(cq);
	KUNIT_EXPECT_LT(test, least, LONG_NS / 2);
}

static void a_sleep_ends_in_time(struct kunit *test)
{
	const u32 limits[] = { 0, 1000 * NSEC_PER_USEC, U32_MAX };
	struct rox_cq *cq = test_cq(test);
	int i;

	for (i = 0; i < ARRAY_SIZE(limits); i++) {
		ktime_t begin = ktime_get();
		s64 took;

		KUNIT_EXPECT_EQ(test, rox_cq_wait(cq, limits[i]), 0);
		took = ktime_to_ns(ktime_sub(ktime_get(), begin));
		KUNIT_EXPECT_GE(test, took, min_t(s64, limits[i], LONG_NS));
		KUNIT_EXPECT_LT(test, took, NSEC_PER_SEC);
	}
	KUNIT_EXPECT_FALSE(test, wq_has_sleeper(&cq->sleepers));
}

static struct kunit_case rox_completion_cases[] = {
	KUNIT_CASE(a_completion_ends_a_sleep),
	KUNIT_CASE(a_cq_with_completions_lets_nobody_sleep),
	KUNIT_CASE(a_sleep_ends_in_time),
	{}
};

static struct kunit_suite rox_completion_suite = {
	.name = "rox_completion",
	.init = rox_fixture_init,
	.exit = rox_fixture_exit,
	.test_cases = rox_completion_cases,
};

kunit_test_suite(rox_completion_suite);
