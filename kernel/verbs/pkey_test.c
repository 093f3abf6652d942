// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit: matching of P_Keys, and writing of the P_Key table.
 */
#include <linux/workqueue.h>
#include <rdma/ib_sysfs.h>

#include "../kunit/fixture.h"

/* Keys match if the partition is the same and one is a full member. IBTA volume 1, 10.9.3. */
static void membership(struct kunit *test)
{
	static const struct { u16 a, b; bool match; } pairs[] = {
		{ 0xffff, 0xffff, true }, { 0xffff, 0x7fff, true }, { 0x7fff, 0x7fff, false },
		{ 0x8001, 0x0001, true }, { 0x8001, 0x8001, true }, { 0x0001, 0x0001, false },
		{ 0x8001, 0x8002, false }, { 0x8001, 0x0002, false }, { 0xffff, 0x8001, false },
		{ 0x8001, 0xc001, false },
		/* Invalid keys. */
		{ 0x8000, 0x8000, false }, { 0x8000, 0x0000, false }, { 0, 0, false },
		{ 0x8000, 0x8001, false },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(pairs); i++) {
		KUNIT_EXPECT_EQ_MSG(test, rox_pkey_match(pairs[i].a, pairs[i].b), pairs[i].match,
				    "%#x and %#x", pairs[i].a, pairs[i].b);
		KUNIT_EXPECT_EQ_MSG(test, rox_pkey_match(pairs[i].b, pairs[i].a), pairs[i].match,
				    "%#x and %#x", pairs[i].b, pairs[i].a);
	}
}

static struct kunit_case rox_pkey_rule_cases[] = {
	KUNIT_CASE(membership),
	{}
};

static struct kunit_suite rox_pkey_rule_suite = {
	.name = "rox_pkey_rule",
	.test_cases = rox_pkey_rule_cases,
};

/* ---- the table ---- */

/* Return: the result of `echo TEXT > set_pkey`. */
static ssize_t write_file(struct kunit *test, const char *text)
{
	struct rox_fixture *f = test->priv;
	struct ib_port_attribute *file = container_of(rox_port_groups[0]->attrs[0],
						      struct ib_port_attribute, attr);

	return file->store(&f->dev->ibdev, 1, file, text, strlen(text));
}

static void expect_entry(struct kunit *test, u16 index, u16 wanted)
{
	struct rox_fixture *f = test->priv;
	u16 pkey = ~wanted;

	KUNIT_EXPECT_EQ(test, rox_query_pkey(&f->dev->ibdev, 1, index, &pkey), 0);
	KUNIT_EXPECT_EQ_MSG(test, pkey, wanted, "entry %u", index);
}

static void new_table_has_the_default_key(struct kunit *test)
{
	struct rox_fixture *f = test->priv;
	u16 i, pkey;

	KUNIT_ASSERT_EQ(test, f->dev->num_pkeys, 128);
	expect_entry(test, 0, 0xffff);
	for (i = 1; i < 128; i++)
		expect_entry(test, i, 0);
	KUNIT_EXPECT_EQ(test, rox_query_pkey(&f->dev->ibdev, 1, 128, &pkey), -EINVAL);
}

static void entries_are_written(struct kunit *test)
{
	static const struct { const char *text; u16 index, pkey; } good[] = {
		{ "1 0x8001", 1, 0x8001 }, { "0x7f 32770\n", 127, 0x8002 }, { "2\t3\n", 2, 3 },
		{ "3  7", 3, 7 }, { "0 0x8003", 0, 0x8003 }, { "1 0\n", 1, 0 },
		{ "4 0x8000", 4, 0x8000 },
	};
	static const char *const bad[] = {
		"", "\n", "1", "1 ", "128 1", "65536 1", "-1 1", "1 65536", "1 -1", "1 x", "x 1",
		"1 2 3", "1,2", "1 0x80010000000000000000000000000",
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(good); i++) {
		KUNIT_EXPECT_EQ(test, write_file(test, good[i].text), strlen(good[i].text));
		expect_entry(test, good[i].index, good[i].pkey);
	}
	KUNIT_ASSERT_GT(test, write_file(test, "1 9"), 0);
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		KUNIT_EXPECT_LT_MSG(test, write_file(test, bad[i]), 0, "\"%s\"", bad[i]);
		expect_entry(test, 1, 9);
	}
	expect_entry(test, 2, 3);
}

/* QP 1 receives packets that match any entry. */
static void entry_for_a_packet_is_found(struct kunit *test)
{
	struct rox_fixture *f = test->priv;

	KUNIT_ASSERT_GT(test, write_file(test, "3 0x0005"), 0);
	KUNIT_ASSERT_GT(test, write_file(test, "5 0x8000"), 0);
	KUNIT_EXPECT_EQ(test, rox_pkey_find(f->dev, 0xffff), 0);
	KUNIT_EXPECT_EQ(test, rox_pkey_find(f->dev, 0x7fff), 0);
	KUNIT_EXPECT_EQ(test, rox_pkey_find(f->dev, 0x8005), 3);
	KUNIT_EXPECT_EQ(test, rox_pkey_find(f->dev, 0x0005), -ENOENT);
	KUNIT_EXPECT_EQ(test, rox_pkey_find(f->dev, 0x8006), -ENOENT);
	KUNIT_EXPECT_EQ(test, rox_pkey_find(f->dev, 0x8000), -ENOENT);
	KUNIT_EXPECT_EQ(test, rox_pkey_find(f->dev, 0), -ENOENT);
	KUNIT_ASSERT_GT(test, write_file(test, "9 0x8005"), 0);
	KUNIT_EXPECT_EQ(test, rox_pkey_find(f->dev, 0x8005), 9);
	KUNIT_EXPECT_EQ(test, rox_pkey_find(f->dev, 0x0005), 9);
	KUNIT_ASSERT_GT(test, write_file(test, "0 0"), 0);
	KUNIT_EXPECT_EQ(test, rox_pkey_find(f->dev, 0xffff), -ENOENT);
}

/* ---- events ---- */

struct pkey_listener {
	struct ib_event_handler handler;
	atomic_t changes;
};

static void count_change(struct ib_event_handler *handler, struct ib_event *event)
{
	if (event->event == IB_EVENT_PKEY_CHANGE && event->element.port_num == 1)
		atomic_inc(&container_of(handler, struct pkey_listener, handler)->changes);
}

static int changes(const struct pkey_listener *listener)
{
	flush_workqueue(ib_wq);
	return atomic_read(&listener->changes);
}

static void changes_are_told(struct kunit *test)
{
	struct rox_fixture *f = test->priv;
	struct pkey_listener *listener = kunit_kzalloc(test, sizeof(*listener), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, listener);
	INIT_IB_EVENT_HANDLER(&listener->handler, &f->dev->ibdev, count_change);
	ib_register_event_handler(&listener->handler);
	KUNIT_EXPECT_GT(test, write_file(test, "1 0x8001"), 0);
	KUNIT_EXPECT_EQ(test, changes(listener), 1);
	KUNIT_EXPECT_GT(test, write_file(test, "1 0x8001"), 0);
	KUNIT_EXPECT_EQ(test, changes(listener), 1);
	KUNIT_EXPECT_LT(test, write_file(test, "999 0x8001"), 0);
	KUNIT_EXPECT_EQ(test, changes(listener), 1);
	KUNIT_EXPECT_GT(test, write_file(test, "1 0"), 0);
	KUNIT_EXPECT_EQ(test, changes(listener), 2);
	ib_unregister_event_handler(&listener->handler);
}

static struct kunit_case rox_pkey_table_cases[] = {
	KUNIT_CASE(new_table_has_the_default_key),
	KUNIT_CASE(entries_are_written),
	KUNIT_CASE(entry_for_a_packet_is_found),
	KUNIT_CASE(changes_are_told),
	{}
};

static struct kunit_suite rox_pkey_table_suite = {
	.name = "rox_pkey_table",
	.init = rox_fixture_init,
	.exit = rox_fixture_exit,
	.test_cases = rox_pkey_table_cases,
};

kunit_test_suites(&rox_pkey_rule_suite, &rox_pkey_table_suite);
