// SPDX-License-Identifier: GPL-2.0
/* KUnit: arithmetic of congestion control at its limits. Behaviour: tests/unit/cc. */
#include <kunit/test.h>
#include <linux/bits.h>
#include <linux/limits.h>
#include <linux/time64.h>

#include "cc.h"

#define HOUR_NS		(3600ULL * NSEC_PER_SEC)
/* A time at which a clock that began at 0 has run for 280 years. */
#define LATE_NS		BIT_ULL(63)
#define MTU		4096U

static const struct rox_cc_ops * const algorithms[] = {
	&rox_cc_none, &rox_cc_dcqcn, &rox_cc_adaptive,
};

static void expect_bounds(struct kunit *test, const struct rox_cc_link *link,
			  const struct rox_cc *cc)
{
	KUNIT_EXPECT_GE(test, cc->window, cc->mtu);
	KUNIT_EXPECT_LE(test, cc->window, ROX_CC_WINDOW_MAX);
	KUNIT_EXPECT_LE(test, cc->rate, link->line_rate);
}

static void state_is_small(struct kunit *test)
{
	KUNIT_EXPECT_LE(test, sizeof(struct rox_cc), 128);
}

static void parameters_have_ranges(struct kunit *test)
{
	struct rox_cc_link link;
	u32 i;

	rox_cc_link_init(&link, &rox_cc_none, U64_MAX);
	KUNIT_EXPECT_EQ(test, link.line_rate, ROX_CC_RATE_MAX);
	KUNIT_EXPECT_EQ(test, rox_cc_num_params * sizeof(u32), sizeof(link.params));
	for (i = 0; i < rox_cc_num_params; i++) {
		const struct rox_cc_param_info *info = &rox_cc_param_infos[i];
		const u32 *value = (const u32 *)&link.params + i;

		KUNIT_EXPECT_EQ(test, info->offset, i * sizeof(u32));
		KUNIT_EXPECT_EQ(test, *value, info->preset);
		KUNIT_EXPECT_TRUE(test, rox_cc_param_set(&link, i, info->most));
		KUNIT_EXPECT_EQ(test, *value, info->most);
		KUNIT_EXPECT_FALSE(test, rox_cc_param_set(&link, i, info->most + 1));
		KUNIT_EXPECT_TRUE(test, rox_cc_param_set(&link, i, info->least));
		if (info->least)
			KUNIT_EXPECT_FALSE(test, rox_cc_param_set(&link, i, info->least - 1));
		KUNIT_EXPECT_EQ(test, *value, info->least);
	}
	KUNIT_EXPECT_FALSE(test, rox_cc_param_set(&link, rox_cc_num_params, 1));
}

static void pace_is_exact(struct kunit *test)
{
	struct rox_cc_link link;
	struct rox_cc cc;

	rox_cc_link_init(&link, &rox_cc_dcqcn, ROX_CC_RATE_MAX);
	rox_cc_init(&link, &cc, MTU, LATE_NS);
	KUNIT_EXPECT_EQ(test, cc.rate, ROX_CC_RATE_MAX);
	KUNIT_EXPECT_EQ(test, rox_cc_quota(&cc, 0, LATE_NS), ROX_CC_BURST_MAX);
	rox_cc_sent(&link, &cc, ROX_CC_WINDOW_MAX, LATE_NS);
	/* 32 MiB at 50 bytes in a ns. */
	KUNIT_EXPECT_EQ(test, cc.next, LATE_NS + ROX_CC_WINDOW_MAX / 50);
	KUNIT_EXPECT_EQ(test, rox_cc_quota(&cc, 0, cc.next - 1), 0);
	KUNIT_EXPECT_EQ(test, rox_cc_quota(&cc, 0, cc.next), ROX_CC_BURST_MAX);
	KUNIT_EXPECT_EQ(test, rox_cc_quota(&cc, U32_MAX, cc.next), 0);
	KUNIT_EXPECT_EQ(test, rox_cc_quota(&cc, ROX_CC_WINDOW_MAX - 1, cc.next), 1);

	/* At the lowest rate the same takes 268 s. */
	cc.rate = ROX_CC_MBIT;
	cc.next = 0;
	rox_cc_sent(&link, &cc, ROX_CC_WINDOW_MAX, 0);
	KUNIT_EXPECT_EQ(test, cc.next, 268435456000ULL);
}

static void dcqcn_takes_any_time(struct kunit *test)
{
	static const u64 idle[] = { 0, 1, 55 * NSEC_PER_USEC, NSEC_PER_SEC, 10 * HOUR_NS };
	struct rox_cc_link link;
	struct rox_cc cc;
	u32 i;

	rox_cc_link_init(&link, &rox_cc_dcqcn, ROX_CC_RATE_MAX);
	for (i = 0; i < ARRAY_SIZE(idle); i++) {
		u64 now = LATE_NS + idle[i];

		rox_cc_init(&link, &cc, MTU, LATE_NS);
		link.ops->cnp(&link, &cc, LATE_NS);
		KUNIT_EXPECT_EQ(test, cc.rate, ROX_CC_RATE_MAX - (ROX_CC_RATE_MAX * 1023 >> 11));
		rox_cc_sent(&link, &cc, 0, now);
		expect_bounds(test, &link, &cc);
		KUNIT_EXPECT_GT(test, cc.dcqcn.timer_due, now);
		KUNIT_EXPECT_LE(test, cc.dcqcn.timer_due, now + 300 * NSEC_PER_USEC);
		KUNIT_EXPECT_GT(test, cc.dcqcn.alpha_due, now);
		KUNIT_EXPECT_LE(test, cc.dcqcn.alpha_due, now + 55 * NSEC_PER_USEC);
		KUNIT_EXPECT_EQ(test, (cc.dcqcn.timer_due - LATE_NS) % (300 * NSEC_PER_USEC), 0);
		KUNIT_EXPECT_EQ(test, (cc.dcqcn.alpha_due - LATE_NS) % (55 * NSEC_PER_USEC), 0);
	}
	KUNIT_EXPECT_EQ(test, cc.rate, ROX_CC_RATE_MAX);
	KUNIT_EXPECT_EQ(test, cc.dcqcn.alpha, 0);
}

/* Extreme values of all parameters, one after the other, and CNPs at 1 ns from each other. */
static void dcqcn_keeps_its_bounds(struct kunit *test)
{
	struct rox_cc_link link;
	u64 now = LATE_NS;
	struct rox_cc cc;
	u32 i, j;

	for (i = 0; i < 2 * rox_cc_num_params; i++) {
		const struct rox_cc_param_info *info = &rox_cc_param_infos[i / 2];

		rox_cc_link_init(&link, &rox_cc_dcqcn, ROX_CC_RATE_MAX);
		rox_cc_param_set(&link, i / 2, i % 2 ? info->most : info->least);
		rox_cc_init(&link, &cc, MTU, now);
		for (j = 0; j < 1000; j++) {
			link.ops->cnp(&link, &cc, now);
			rox_cc_sent(&link, &cc, j * MTU, now);
			now += j < 500 ? 1 : j * NSEC_PER_MSEC;
			expect_bounds(test, &link, &cc);
			KUNIT_EXPECT_GE(test, cc.rate, ROX_CC_MBIT);
			KUNIT_EXPECT_LE(test, cc.dcqcn.alpha, 65536);
		}
		link.ops->timeout(&link, &cc, now);
		expect_bounds(test, &link, &cc);
	}
}

static const u64 round_trips[] = { 0, 1, 50 * NSEC_PER_USEC, 20 * NSEC_PER_MSEC, HOUR_NS, U64_MAX };

static void adaptive_takes_any_round_trip(struct kunit *test)
{
	struct rox_cc_link link;
	u64 now = LATE_NS;
	struct rox_cc cc;
	u32 i, j;

	rox_cc_link_init(&link, &rox_cc_adaptive, ROX_CC_RATE_MAX);
	rox_cc_init(&link, &cc, MTU, now);
	for (i = 0; i < 36; i++) {
		struct rox_cc_ack ack = {
			.bytes = i % 2 ? MTU : U32_MAX,
			.in_flight = U32_MAX,
			.round_trip = round_trips[i % 6],
		};

		for (j = 0; j < 100; j++) {
			now += round_trips[i / 6] % (HOUR_NS + 1);
			rox_cc_sent(&link, &cc, MTU, now);
			link.ops->acked(&link, &cc, &ack, now);
			if (j == 50)
				link.ops->loss(&link, &cc, U32_MAX, now);
			if (j == 70)
				link.ops->cnp(&link, &cc, now);
			if (j == 90)
				link.ops->timeout(&link, &cc, now);
			expect_bounds(test, &link, &cc);
		}
	}
}

/* CUBIC's time since the last reduction is limited only by the clock. */
static void adaptive_takes_hours_without_loss(struct kunit *test)
{
	struct rox_cc_ack ack = {
		.bytes = ROX_CC_WINDOW_MAX,
		.in_flight = ROX_CC_WINDOW_MAX,
		.round_trip = NSEC_PER_MSEC,
	};
	struct rox_cc_link link;
	struct rox_cc cc;
	u64 now = 0;
	u32 i;

	rox_cc_link_init(&link, &rox_cc_adaptive, ROX_CC_RATE_MAX);
	rox_cc_init(&link, &cc, 1, now);
	for (i = 0; i < 1000; i++) {
		cc.adaptive.shares = true;
		cc.adaptive.w_max = i % 2 ? ROX_CC_WINDOW_MAX : 1;
		cc.adaptive.quiet_at = now;
		cc.adaptive.acked_at = now;
		link.ops->acked(&link, &cc, &ack, now);
		expect_bounds(test, &link, &cc);
		now += i * NSEC_PER_SEC;
	}
	KUNIT_EXPECT_EQ(test, cc.window, ROX_CC_WINDOW_MAX);
}

/* A flow that was idle does not send its old window at once. */
static void idle_flows_begin_anew(struct kunit *test)
{
	struct rox_cc_ack ack = {
		.bytes = 1U << 20,
		.in_flight = 1U << 20,
		.round_trip = NSEC_PER_MSEC,
	};
	struct rox_cc_link link;
	struct rox_cc cc;
	u32 first;

	rox_cc_link_init(&link, &rox_cc_adaptive, ROX_CC_RATE_MAX);
	rox_cc_init(&link, &cc, MTU, 0);
	first = cc.window;
	link.ops->acked(&link, &cc, &ack, NSEC_PER_MSEC);
	KUNIT_EXPECT_GT(test, cc.window, first);
	rox_cc_sent(&link, &cc, MTU, NSEC_PER_SEC / 2);
	KUNIT_EXPECT_GT(test, cc.window, first);
	rox_cc_sent(&link, &cc, MTU, 10 * HOUR_NS);
	KUNIT_EXPECT_EQ(test, cc.window, first);
}

static void none_has_a_fixed_window(struct kunit *test)
{
	struct rox_cc_link link;
	struct rox_cc cc;
	u32 mtu;

	rox_cc_link_init(&link, &rox_cc_none, 0);
	for (mtu = 256; mtu <= 65536; mtu *= 2) {
		rox_cc_init(&link, &cc, mtu, 0);
		KUNIT_EXPECT_EQ(test, cc.window / mtu, max(64U, 512 * 1024 / mtu));
		KUNIT_EXPECT_EQ(test, rox_cc_quota(&cc, 0, 0), cc.window);
		rox_cc_sent(&link, &cc, cc.window, 0);
		KUNIT_EXPECT_EQ(test, rox_cc_quota(&cc, mtu, 0), cc.window - mtu);
	}
}

static void only_algorithms_that_react_use_ecn(struct kunit *test)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(algorithms); i++)
		KUNIT_EXPECT_EQ(test, algorithms[i]->ect, !!algorithms[i]->cnp);
}

static struct kunit_case rox_cc_cases[] = {
	KUNIT_CASE(state_is_small),
	KUNIT_CASE(parameters_have_ranges),
	KUNIT_CASE(pace_is_exact),
	KUNIT_CASE(dcqcn_takes_any_time),
	KUNIT_CASE(dcqcn_keeps_its_bounds),
	KUNIT_CASE(adaptive_takes_any_round_trip),
	KUNIT_CASE(adaptive_takes_hours_without_loss),
	KUNIT_CASE(idle_flows_begin_anew),
	KUNIT_CASE(none_has_a_fixed_window),
	KUNIT_CASE(only_algorithms_that_react_use_ecn),
	{}
};

static struct kunit_suite rox_cc_suite = {
	.name = "rox_cc",
	.test_cases = rox_cc_cases,
};

kunit_test_suite(rox_cc_suite);
