// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit: the table of a device's addresses, and that it follows the GID table.
 */
#include <linux/delay.h>
#include <linux/etherdevice.h>
#include <linux/rtnetlink.h>
#include <net/addrconf.h>
#include <rdma/ib_cache.h>

#include "internal.h"
#include "../kunit/fixture.h"

/* More than there are lists, so that lists have several entries. */
#define MANY 256

/* An address that no netdev has. */
static struct in6_addr address(u32 n)
{
	return (struct in6_addr) { .s6_addr32 = { htonl(0x20010db8), 0, 0, htonl(n) } };
}

static bool has(struct kunit *test, u32 n, const struct net_device *ndev)
{
	struct rox_fixture *f = test->priv;
	struct in6_addr addr = address(n);

	return rox_net_has_addr(&f->dev->net, &addr, ndev);
}

static struct rox_addr *add(struct kunit *test, u32 n, struct net_device *ndev)
{
	struct rox_fixture *f = test->priv;
	struct in6_addr addr = address(n);
	struct rox_addr *entry = rox_net_add_addr(&f->dev->net, &addr, ndev, 0, NULL);

	KUNIT_ASSERT_FALSE(test, IS_ERR(entry));
	return entry;
}

/* An address is found as long as one netdev has it, and for that netdev only. */
static void an_address_is_that_of_its_netdevs(struct kunit *test)
{
	struct rox_fixture *f = test->priv;
	struct net_device *one = f->ndev, *other = init_net.loopback_dev;
	struct rox_addr *first, *second;

	KUNIT_EXPECT_FALSE(test, has(test, 1, NULL));
	first = add(test, 1, one);
	KUNIT_EXPECT_TRUE(test, has(test, 1, NULL));
	KUNIT_EXPECT_TRUE(test, has(test, 1, one));
	KUNIT_EXPECT_FALSE(test, has(test, 1, other));
	second = add(test, 1, other);
	rox_net_del_addr(&f->dev->net, first);
	KUNIT_EXPECT_TRUE(test, has(test, 1, NULL));
	KUNIT_EXPECT_FALSE(test, has(test, 1, one));
	KUNIT_EXPECT_TRUE(test, has(test, 1, other));
	rox_net_del_addr(&f->dev->net, second);
	KUNIT_EXPECT_FALSE(test, has(test, 1, NULL));
}

/* Return: the GID table entry for packets of a netdev; -1: none; +1000: not the first. */
static int gid_by(struct kunit *test, u32 n, const struct rox_netns *ns, int ifindex)
{
	struct rox_fixture *f = test->priv;
	struct in6_addr addr = address(n);
	struct rox_gid_ref gid;

	rcu_read_lock();
	gid = rox_addr_gid(&f->dev->net, &addr, ns, ifindex);
	rcu_read_unlock();
	return gid.known ? gid.index + (gid.twin ? 1000 : 0) : -1;
}

/* Of equal addresses the one of the netdev that a packet came by counts. */
static void the_netdev_decides_between_equal_addresses(struct kunit *test)
{
	struct rox_fixture *f = test->priv;
	struct net_device *one = f->ndev, *other = init_net.loopback_dev;
	struct rox_path path = { .ns = f->dev->net.ns, .oif = one->ifindex, .daddr = address(1) };
	struct rox_net *net = &f->dev->net;
	struct in6_addr addr = address(1);
	struct rox_netns elsewhere = {};
	struct rox_addr *first, *second;

	first = rox_net_add_addr(net, &addr, one, 107, NULL);
	KUNIT_ASSERT_FALSE(test, IS_ERR(first));
	KUNIT_EXPECT_TRUE(test, rox_path_hears(&path, net, &addr, net->ns, other->ifindex));
	second = rox_net_add_addr(net, &addr, other, 103, NULL);
	KUNIT_ASSERT_FALSE(test, IS_ERR(second));

	KUNIT_EXPECT_EQ(test, gid_by(test, 1, net->ns, one->ifindex), 1107);
	KUNIT_EXPECT_EQ(test, gid_by(test, 1, net->ns, other->ifindex), 103);
	KUNIT_EXPECT_EQ(test, gid_by(test, 1, net->ns, one->ifindex + 100000), 103);
	KUNIT_EXPECT_EQ(test, gid_by(test, 1, &elsewhere, one->ifindex), -1);
	KUNIT_EXPECT_TRUE(test, rox_path_hears(&path, net, &addr, net->ns, one->ifindex));
	KUNIT_EXPECT_FALSE(test, rox_path_hears(&path, net, &addr, net->ns, other->ifindex));
	KUNIT_EXPECT_TRUE(test, rox_path_hears(&path, net, &addr, net->ns, one->ifindex + 100000));
	KUNIT_EXPECT_FALSE(test, rox_path_hears(&path, net, &addr, &elsewhere, one->ifindex));
	/* The path's netdev does not have it any more: it has moved. */
	rox_net_del_addr(net, first);
	KUNIT_EXPECT_TRUE(test, rox_path_hears(&path, net, &addr, net->ns, other->ifindex));
	rox_net_del_addr(net, second);
}

/* What comes by lo is from this host, so its sender cannot be the peer if that is another host. */
static void no_other_host_is_heard_by_lo(struct kunit *test)
{
	struct rox_fixture *f = test->priv;
	struct rox_path path = { .ns = f->dev->net.ns, .oif = f->ndev->ifindex };
	struct rox_net *net = &f->dev->net;
	struct in6_addr own = address(1);
	struct rox_addr *entry = add(test, 1, f->ndev);

	path.daddr = address(2);
	KUNIT_EXPECT_TRUE(test, rox_path_hears(&path, net, &own, net->ns, f->ndev->ifindex));
	KUNIT_EXPECT_TRUE(test, rox_path_hears(&path, net, &own, net->ns, f->ndev->ifindex + 1000));
	KUNIT_EXPECT_FALSE(test, rox_path_hears(&path, net, &own, net->ns, LOOPBACK_IFINDEX));
	path.daddr = own;
	KUNIT_EXPECT_TRUE(test, rox_path_hears(&path, net, &own, net->ns, LOOPBACK_IFINDEX));
	rox_net_del_addr(net, entry);
}

/* Each of many addresses is found, and no other one. */
static void many_addresses_are_told_apart(struct kunit *test)
{
	struct rox_fixture *f = test->priv;
	struct rox_addr **entries = kunit_kcalloc(test, MANY, sizeof(*entries), GFP_KERNEL);
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, entries);
	for (i = 0; i < MANY; i++)
		entries[i] = add(test, i, f->ndev);
	for (i = 0; i < MANY; i++)
		KUNIT_EXPECT_TRUE(test, has(test, i, f->ndev));
	KUNIT_EXPECT_FALSE(test, has(test, MANY, NULL));
	for (i = 0; i < MANY; i += 2)
		rox_net_del_addr(&f->dev->net, entries[i]);
	for (i = 0; i < MANY; i++)
		KUNIT_EXPECT_EQ(test, has(test, i, NULL), i % 2);
	for (i = 1; i < MANY; i += 2)
		rox_net_del_addr(&f->dev->net, entries[i]);
}

static u32 entries_of(struct rox_net *net)
{
	struct hlist_node *node;
	u32 i, n = 0;

	rcu_read_lock();
	for (i = 0; i < ARRAY_SIZE(net->addrs); i++)
		for (node = rcu_dereference(hlist_first_rcu(&net->addrs[i])); node;
		     node = rcu_dereference(hlist_next_rcu(node)))
			n++;
	rcu_read_unlock();
	return n;
}

/* Has the table the addresses of the GID table, and as many? */
static bool agrees(struct kunit *test)
{
	struct rox_fixture *f = test->priv;
	const struct ib_gid_attr *attr;
	bool all = true;
	u32 i, n = 0;

	for (i = 0; i < ROX_GID_TABLE_LEN; i++) {
		attr = rdma_get_gid_attr(&f->dev->ibdev, 1, i);
		if (IS_ERR(attr))
			continue;
		all &= rox_net_has_addr(&f->dev->net, (const struct in6_addr *)&attr->gid, f->ndev);
		n++;
		rdma_put_gid_attr(attr);
	}
	return n && all && n == entries_of(&f->dev->net);
}

/* The link-local address that comes from the MAC. */
static struct in6_addr link_local(const struct net_device *ndev)
{
	struct in6_addr addr = { .s6_addr = { 0xfe, 0x80 } };

	addrconf_addr_eui48(addr.s6_addr + 8, (const char *)ndev->dev_addr);
	return addr;
}

/*
 * When the MAC changes, the core drops all GIDs of the netdev and enters them again, with the one
 * of the new MAC. It does that in a workqueue.
 */
static void the_table_follows_the_gids(struct kunit *test)
{
	struct rox_fixture *f = test->priv;
	struct in6_addr addr = link_local(f->ndev);
	int tries;

	KUNIT_EXPECT_TRUE(test, rox_net_has_addr(&f->dev->net, &addr, f->ndev));
	rtnl_lock();
	eth_hw_addr_random(f->ndev);
	addr = link_local(f->ndev);
	KUNIT_EXPECT_FALSE(test, rox_net_has_addr(&f->dev->net, &addr, NULL));
	call_netdevice_notifiers(NETDEV_CHANGEADDR, f->ndev);
	rtnl_unlock();
	for (tries = 0; tries < 500; tries++) {
		if (rox_net_has_addr(&f->dev->net, &addr, f->ndev) && agrees(test))
			return;
		msleep(20);
	}
	KUNIT_FAIL(test, "%u entries, the new address is %s there", entries_of(&f->dev->net),
		   rox_net_has_addr(&f->dev->net, &addr, f->ndev) ? "" : "not");
}

static struct kunit_case rox_addrs_cases[] = {
	KUNIT_CASE(an_address_is_that_of_its_netdevs),
	KUNIT_CASE(the_netdev_decides_between_equal_addresses),
	KUNIT_CASE(no_other_host_is_heard_by_lo),
	KUNIT_CASE(many_addresses_are_told_apart),
	KUNIT_CASE(the_table_follows_the_gids),
	{}
};

static struct kunit_suite rox_addrs_suite = {
	.name = "rox_addrs",
	.init = rox_fixture_init,
	.exit = rox_fixture_exit,
	.test_cases = rox_addrs_cases,
};

kunit_test_suite(rox_addrs_suite);
