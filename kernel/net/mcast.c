// SPDX-License-Identifier: GPL-2.0
/*
 * Membership of netdevs in IP multicast groups: has IGMP or MLD tell the
 * switches, opens the netdevs' filters, and lets the IP layer deliver.
 *
 * A device listens on all netdevs that its addresses may be on: its own, and
 * what is stacked on that (VLANs, a bond, a bridge). These come and go, and the
 * IP layer forgets the memberships of a netdev whose MTU becomes too small for
 * it, so that netdev events have the memberships looked at again.
 */
#include <linux/igmp.h>
#include <linux/if_vlan.h>
#include <linux/inetdevice.h>
#include <linux/rtnetlink.h>
#include <net/addrconf.h>
#include <net/ipv6.h>

#include "internal.h"

/**
 * struct member - a netdev that has joined a group for us
 * @node: in the group's list (RCU)
 * @ndev: the netdev
 * @proto: its struct in_device or inet6_dev, with a reference, which holds the
 *	netdev as well; a netdev that has another one now, or none, has forgotten us
 * @rcu: for freeing after the readers
 */
struct member {
	struct hlist_node node;
	struct net_device *ndev;
	void *proto;
	struct rcu_head rcu;
};

/* ---- one netdev ---- */

static void *proto_v4(const struct net_device *ndev)
{
	return __in_dev_get_rtnl(ndev);
}

/* The IP layer does not say that it had no memory: then it is not in the group. */
static int join_v4(struct net_device *ndev, __be32 group)
{
	struct in_device *in_dev = __in_dev_get_rtnl(ndev);
	struct ip_mc_list *im;

	ip_mc_inc_group(in_dev, group);
	for (im = rtnl_dereference(in_dev->mc_list); im; im = rtnl_dereference(im->next_rcu))
		if (im->multiaddr == group)
			break;
	if (!im)
		return -ENOMEM;
	in_dev_hold(in_dev);
	return 0;
}

#if IS_ENABLED(CONFIG_IPV6)
static void *proto_v6(const struct net_device *ndev)
{
	return __in6_dev_get(ndev);
}

static int join_v6(struct net_device *ndev, const struct in6_addr *group)
{
	int err = ipv6_dev_mc_inc(ndev, group);

	if (!err)
		in6_dev_hold(__in6_dev_get(ndev));
	return err;
}

static void leave_v6(const struct member *member, const struct in6_addr *group, bool remembered)
{
	if (remembered)
		ipv6_dev_mc_dec(member->ndev, group);
	in6_dev_put(member->proto);
}
#else
static void *proto_v6(const struct net_device *ndev)
{
	return NULL;
}

static int join_v6(struct net_device *ndev, const struct in6_addr *group)
{
	return -EAFNOSUPPORT;
}

static void leave_v6(const struct member *member, const struct in6_addr *group, bool remembered)
{
}
#endif

static void *proto_of(const struct rox_net_group *group, const struct net_device *ndev)
{
	return ipv6_addr_v4mapped(&group->addr) ? proto_v4(ndev) : proto_v6(ndev);
}

static void member_end(struct member *member, const struct rox_net_group *group)
{
	bool remembered = proto_of(group, member->ndev) == member->proto;

	hlist_del_rcu(&member->node);
	if (!ipv6_addr_v4mapped(&group->addr)) {
		leave_v6(member, &group->addr, remembered);
	} else {
		if (remembered)
			ip_mc_dec_group(member->proto, group->addr.s6_addr32[3]);
		in_dev_put(member->proto);
	}
	kfree_rcu(member, rcu);
}

static int member_begin(struct rox_net_group *group, struct net_device *ndev)
{
	void *proto = proto_of(group, ndev);
	struct member *member;
	int err;

	if (!proto)
		return -ENODEV;
	member = kzalloc(sizeof(*member), GFP_KERNEL);
	if (!member)
		return -ENOMEM;
	err = ipv6_addr_v4mapped(&group->addr) ? join_v4(ndev, group->addr.s6_addr32[3]) :
						 join_v6(ndev, &group->addr);
	if (err) {
		kfree(member);
		return err;
	}
	member->ndev = ndev;
	member->proto = proto;
	hlist_add_head_rcu(&member->node, &group->members);
	return 0;
}

static struct member *member_find(const struct rox_net_group *group,
				  const struct net_device *ndev)
{
	struct member *member;

	hlist_for_each_entry_rcu(member, &group->members, node, lockdep_rtnl_is_held())
		if (member->ndev == ndev)
			return member;
	return NULL;
}

/* ---- all netdevs of a device ---- */

/*
 * The netdev is still in the namespace where the device was made. One that has
 * moved on has left its memberships behind.
 */
static bool at_home(const struct rox_dev *dev, const struct net_device *ndev)
{
	const struct rox_net *rn = READ_ONCE(dev->net);

	return rn && !READ_ONCE(rn->dead) && ndev->reg_state == NETREG_REGISTERED &&
	       net_eq(dev_net(ndev), rn->net);
}

static bool wanted(const struct rox_dev *dev, struct net_device *ndev)
{
	if (!at_home(dev, dev->ndev) || !at_home(dev, ndev))
		return false;
	/* A device on a VLAN has that VLAN's addresses only. */
	return ndev == dev->ndev ||
	       (!is_vlan_dev(dev->ndev) && netdev_has_upper_dev(dev->ndev, ndev));
}

struct upper_walk {
	const struct rox_dev *dev;
	struct rox_net_group *group;
};

static int join_upper(struct net_device *ndev, struct netdev_nested_priv *priv)
{
	const struct upper_walk *walk = priv->data;

	/* What cannot be joined now is looked at again at its next event. */
	if (!member_find(walk->group, ndev) && at_home(walk->dev, ndev))
		member_begin(walk->group, ndev);
	return 0;
}

/**
 * rox_net_join() - has the netdevs of a device join a multicast group
 * @dev: the device
 * @group: the group; @addr is set, the rest zeroed or as the last call left it
 *
 * Process context, with the RTNL. To be called again when a netdev has changed.
 *
 * Return: 0, -ENODEV if the device's own netdev has no such protocol or is going
 * away, -ENOMEM; the group may have members all the same
 */
int rox_net_join(struct rox_dev *dev, struct rox_net_group *group)
{
	struct upper_walk walk = { .dev = dev, .group = group };
	struct netdev_nested_priv priv = { .data = &walk };
	struct member *member;
	struct hlist_node *next;
	int err = 0;

	ASSERT_RTNL();
	hlist_for_each_entry_safe(member, next, &group->members, node)
		if (proto_of(group, member->ndev) != member->proto || !wanted(dev, member->ndev))
			member_end(member, group);
	if (!at_home(dev, dev->ndev))
		return -ENODEV;
	if (!member_find(group, dev->ndev))
		err = member_begin(group, dev->ndev);
	if (!is_vlan_dev(dev->ndev))
		netdev_walk_all_upper_dev_rcu(dev->ndev, join_upper, &priv);
	return err;
}

/**
 * rox_net_leave() - has all netdevs leave a multicast group
 * @group: the group
 *
 * Process context, with the RTNL.
 */
void rox_net_leave(struct rox_net_group *group)
{
	struct hlist_node *next;
	struct member *member;

	ASSERT_RTNL();
	hlist_for_each_entry_safe(member, next, &group->members, node)
		member_end(member, group);
}

/**
 * rox_net_joined() - has this netdev joined a group for us?
 * @group: the group
 * @ndev: where a packet came from; may be NULL
 *
 * Any context, under RCU.
 */
bool rox_net_joined(const struct rox_net_group *group, const struct net_device *ndev)
{
	return ndev && member_find(group, ndev);
}
