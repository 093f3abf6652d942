// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit: paths and their cached routes.
 */
#include <linux/rtnetlink.h>
#include <net/addrconf.h>
#include <net/ip6_fib.h>
#include <rdma/ib_cache.h>

#include "internal.h"
#include "../kunit/fixture.h"

static int path_to(struct kunit *test, struct rox_path *path, const union ib_gid *dgid, u32 flow)
{
	struct rox_fixture *f = test->priv;
	struct rdma_ah_attr attr = { .type = RDMA_AH_ATTR_TYPE_ROCE };
	const struct ib_gid_attr *sgid = rdma_get_gid_attr(&f->dev->ibdev, 1, f->gid_index);
	int err;

	KUNIT_ASSERT_FALSE(test, IS_ERR(sgid));
	memset(path, 0, sizeof(*path));
	rdma_ah_set_grh(&attr, (union ib_gid *)dgid, flow, f->gid_index, 0, 0x20);
	rdma_ah_set_ah_flags(&attr, IB_AH_GRH);
	attr.grh.sgid_attr = sgid;
	err = rox_path_init(path, &f->dev->net, &attr, 17, 18, GFP_KERNEL);
	rdma_put_gid_attr(sgid);
	return err;
}

static const union ib_gid peer = { .raw = { 0xfe, 0x80, [15] = 9 } };

static struct dst_entry *route_of(struct rox_path *path)
{
	struct dst_entry *dst;

	local_bh_disable();
	rcu_read_lock();
	dst = rox_path_route(path);
	rcu_read_unlock();
	local_bh_enable();
	return dst;
}

static void path_is_what_the_address_says(struct kunit *test)
{
	struct rox_fixture *f = test->priv;
	struct rox_path path;

	KUNIT_ASSERT_EQ(test, path_to(test, &path, &peer, 0x12345), 0);
	KUNIT_EXPECT_TRUE(test, path.valid && path.v6);
	KUNIT_EXPECT_EQ(test, path.tos, 0x20);
	KUNIT_EXPECT_EQ(test, path.ttl, 64);
	KUNIT_EXPECT_EQ(test, path.oif, f->ndev->ifindex);
	KUNIT_EXPECT_EQ(test, path.sport, rdma_flow_label_to_udp_sport(0x12345));
	rox_path_destroy(&path);
	KUNIT_EXPECT_FALSE(test, path.valid);
	rox_path_destroy(&path);
}

static void families_do_not_mix(struct kunit *test)
{
	static const union ib_gid v4 = { .raw = { [10] = 0xff, 0xff, 10, 0, 0, 1 } };
	struct rox_path path;

	KUNIT_EXPECT_EQ(test, path_to(test, &path, &v4, 0), -EINVAL);
	KUNIT_EXPECT_FALSE(test, path.valid);
}

static void route_is_looked_up_once(struct kunit *test)
{
	struct dst_entry *first, *again;
	struct rox_path path;

	rox_fixture_needs_route(test);
	KUNIT_ASSERT_EQ(test, path_to(test, &path, &peer, 0), 0);
	first = route_of(&path);
	KUNIT_ASSERT_FALSE(test, IS_ERR(first));
	KUNIT_EXPECT_PTR_EQ(test, first->dev, ((struct rox_fixture *)test->priv)->ndev);
	again = route_of(&path);
	KUNIT_EXPECT_PTR_EQ(test, again, first);
	dst_release(again);
	dst_release(first);
	rox_path_destroy(&path);
}

/* When the netdev goes down, its routes go, and the cached route is not used. */
static void lost_route_is_noticed(struct kunit *test)
{
	struct rox_fixture *f = test->priv;
	struct dst_entry *dst;
	struct rox_path path;
	int err;

	rox_fixture_needs_route(test);
	KUNIT_ASSERT_EQ(test, path_to(test, &path, &peer, 0), 0);
	dst = route_of(&path);
	KUNIT_ASSERT_FALSE(test, IS_ERR(dst));
	dst_release(dst);
	rtnl_lock();
	dev_close(f->ndev);
	rtnl_unlock();
	dst = route_of(&path);
	KUNIT_EXPECT_TRUE(test, IS_ERR(dst));
	if (!IS_ERR(dst))
		dst_release(dst);
	rtnl_lock();
	err = dev_open(f->ndev, NULL);
	rtnl_unlock();
	KUNIT_ASSERT_EQ(test, err, 0);
	dst = route_of(&path);
	KUNIT_EXPECT_FALSE(test, IS_ERR(dst));
	if (!IS_ERR(dst))
		dst_release(dst);
	rox_path_destroy(&path);
}

/*
 * The source address moves to another host, and the routing tables change. The look-up fails,
 * though the netdev has a route to the peer. The failure is not cached.
 */
static void source_of_another_host_has_no_route(struct kunit *test)
{
	struct dst_entry *dst;
	struct rox_path path;
	int tries;

	rox_fixture_needs_route(test);
	KUNIT_ASSERT_EQ(test, path_to(test, &path, &peer, 0), 0);
	for (tries = 0; tries < 3; tries++) {
		dst = route_of(&path);
		KUNIT_ASSERT_FALSE(test, IS_ERR(dst));
		dst_release(dst);
		path.saddr.s6_addr[15] ^= 0x55;
		rt_genid_bump_all(&init_net);
		KUNIT_EXPECT_PTR_EQ(test, route_of(&path), ERR_PTR(-ENETUNREACH));
		KUNIT_EXPECT_PTR_EQ(test, route_of(&path), ERR_PTR(-ENETUNREACH));
		path.saddr.s6_addr[15] ^= 0x55;
	}
	rox_path_destroy(&path);
}

/* The source address is on another netdev of the device than when the path was made. */
static void route_leaves_through_the_netdev_of_its_source(struct kunit *test)
{
	struct rox_fixture *f = test->priv;
	struct rox_path path;
	struct dst_entry *dst;

	rox_fixture_needs_route(test);
	KUNIT_ASSERT_EQ(test, path_to(test, &path, &peer, 0), 0);
	path.oif = init_net.loopback_dev->ifindex;
	dst = route_of(&path);
	KUNIT_ASSERT_FALSE(test, IS_ERR(dst));
	KUNIT_EXPECT_PTR_EQ(test, dst->dev, f->ndev);
	dst_release(dst);
	rox_path_destroy(&path);
}

static int references(struct dst_entry *dst)
{
	return rcuref_read(&dst->__rcuref);
}

/* rox_paths_forget() makes all paths drop their routes, also paths that were swapped. */
static void routes_are_let_go_of(struct kunit *test)
{
	struct rox_fixture *f = test->priv;
	/* Not on the stack: they stay in the device's list if the case fails early. */
	struct rox_path *paths = kunit_kcalloc(test, 3, sizeof(*paths), GFP_KERNEL);
	struct rox_path *first = paths, *second = paths + 1, *none = paths + 2;
	size_t others = list_count_nodes(&f->dev->net.paths);
	struct dst_entry *one, *other;
	int before;

	rox_fixture_needs_route(test);
	KUNIT_ASSERT_NOT_NULL(test, paths);
	KUNIT_ASSERT_EQ(test, path_to(test, first, &peer, 0), 0);
	KUNIT_ASSERT_EQ(test, path_to(test, second, &peer, 1), 0);
	rox_path_swap(first, second);
	KUNIT_EXPECT_EQ(test, first->flow, 1);
	rox_path_swap(first, none);
	KUNIT_EXPECT_TRUE(test, none->valid && second->valid && !first->valid);
	KUNIT_EXPECT_EQ(test, list_count_nodes(&f->dev->net.paths), others + 2);
	one = route_of(none);
	KUNIT_ASSERT_FALSE(test, IS_ERR(one));
	other = route_of(second);
	KUNIT_ASSERT_FALSE(test, IS_ERR(other));

	before = references(one);
	rox_paths_forget(&f->dev->net, f->dev->net.ns);
	/* Each path held one reference. Both may have the same route. */
	KUNIT_EXPECT_EQ(test, references(one), before - (one == other ? 2 : 1));
	dst_release(one);
	dst_release(other);
	/* As the namespace still exists, the look-up finds the route again. */
	one = route_of(second);
	KUNIT_EXPECT_FALSE(test, IS_ERR(one));
	if (!IS_ERR(one))
		dst_release(one);
	KUNIT_EXPECT_EQ(test, list_count_nodes(&f->dev->net.paths), others + 2);
	rox_path_destroy(none);
	rox_path_destroy(second);
	rox_path_destroy(first);
	KUNIT_EXPECT_EQ(test, list_count_nodes(&f->dev->net.paths), others);
}

static struct kunit_case rox_path_cases[] = {
	KUNIT_CASE(path_is_what_the_address_says),
	KUNIT_CASE(routes_are_let_go_of),
	KUNIT_CASE(families_do_not_mix),
	KUNIT_CASE(route_is_looked_up_once),
	KUNIT_CASE(lost_route_is_noticed),
	KUNIT_CASE(source_of_another_host_has_no_route),
	KUNIT_CASE(route_leaves_through_the_netdev_of_its_source),
	{}
};

static struct kunit_suite rox_path_suite = {
	.name = "rox_path",
	.init = rox_fixture_init,
	.exit = rox_fixture_exit,
	.test_cases = rox_path_cases,
};

kunit_test_suite(rox_path_suite);
