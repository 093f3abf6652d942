// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit: the device's attributes.
 */
#include "../kunit/fixture.h"

/* As the core does when it registers a device: up to 6.12 with an empty udata, then with none. */
static void the_core_queries_the_device_with_or_without_udata(struct kunit *test)
{
	struct rox_fixture *f = test->priv;
	struct ib_device *ibdev = &f->dev->ibdev;
	struct ib_device_attr *attrs;
	struct ib_udata empty = {};

	attrs = kunit_kcalloc(test, 2, sizeof(*attrs), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, attrs);
	KUNIT_ASSERT_EQ(test, ibdev->ops.query_device(ibdev, &attrs[0], &empty), 0);
	KUNIT_ASSERT_EQ(test, ibdev->ops.query_device(ibdev, &attrs[1], NULL), 0);
	KUNIT_EXPECT_MEMEQ(test, &attrs[0], &attrs[1], sizeof(*attrs));
	KUNIT_EXPECT_MEMEQ(test, &attrs[0], &ibdev->attrs, sizeof(*attrs));
}

static struct kunit_case rox_device_cases[] = {
	KUNIT_CASE(the_core_queries_the_device_with_or_without_udata),
	{}
};

static struct kunit_suite rox_device_suite = {
	.name = "rox_device",
	.init = rox_fixture_init,
	.exit = rox_fixture_exit,
	.test_cases = rox_device_cases,
};

kunit_test_suite(rox_device_suite);
