// SPDX-License-Identifier: GPL-2.0
/*
 * Membership of netdevs in IP multicast groups. Joining makes IGMP or MLD tell the switches, sets
 * the filters of the netdevs, and lets the IP layer deliver the packets.
 *
 * A device joins on all netdevs that may have its addresses: its own netdev and those stacked on it
 * (VLANs, a bond, a bridge), in the namespace of the program that joins. Such netdevs come and go.
 * The IP layer also drops the memberships of a netdev whose MTU becomes too small. So the
 * memberships are updated on netdev events.
 */
#include <linux/igmp.h>
#include <linux/if_vlan.h>
#include <linux/inetdevice.h>
#include <linux/rtnetlink.h>
#include <net/addrconf.h>
#include <net/ipv6.h>

#include "internal.h"

/**
 * struct rox_member - a netdev that has joined a group for us
 * @node: in the group's list (RCU)
 * @ndev: the netdev
 * @proto: its struct in_device or inet6_dev, with a reference, which keeps the netdev as well. If
 *	the netdev has another one, or none, the membership is gone
 * @rcu: frees the object after an RCU grace period
 */
struct rox_member {
	struct hlist_node node;
	struct net_device *ndev;
	void *proto;
	struct rcu_head rcu;
};

/* ---- one netdev ---- */

static void *rox_proto_v4(const struct net_device *ndev)
{
	return __in_dev_get_rtnl(ndev);
}

/* ip_mc_inc_group() returns no error. Without memory the group is not in the list afterwards. */
static int rox_join_v4(struct net_device *ndev, __be32 group)
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
static void *rox_proto_v6(const struct net_device *ndev)
{
	return __in6_dev_get(ndev);
}

static int rox_join_v6(struct net_device *ndev, const struct in6_addr *group)
{
	int err = ipv6_dev_mc_inc(ndev, group);

	if (!err)
		in6_dev_hold(__in6_dev_get(ndev));
	return err;
}

static void rox_leave_v6(const struct rox_member *member, const struct in6_addr *group,
			 bool remembered)
{
	if (remembered)
		ipv6_dev_mc_dec(member->ndev, group);
	in6_dev_put(member->proto);
}
#else
static void *rox_proto_v6(const struct net_device *ndev)
{
	return NULL;
}

static int rox_join_v6(struct net_device *ndev, const struct in6_addr *group)
{
	return -EAFNOSUPPORT;
}

static void rox_leave_v6(const struct rox_member *member, const struct in6_addr *group,
			 bool remembered)
{
}
#endif

static void *rox_proto_of(const struct rox_net_group *group, const struct net_device *ndev)
{
	return ipv6_addr_v4mapped(&group->addr) ? rox_proto_v4(ndev) : rox_proto_v6(ndev);
}

static void rox_member_end(struct rox_member *member, const struct rox_net_group *group)
{
	bool remembered = rox_proto_of(group, member->ndev) == member->proto;

	hlist_del_rcu(&member->node);
	if (!ipv6_addr_v4mapped(&group->addr)) {
		rox_leave_v6(member, &group->addr, remembered);
	} else {
		if (remembered)
			ip_mc_dec_group(member->proto, group->addr.s6_addr32[3]);
		in_dev_put(member->proto);
	}
	kfree_rcu(member, rcu);
}

static int rox_member_begin(struct rox_net_group *group, struct net_device *ndev)
{
	void *proto = rox_proto_of(group, ndev);
	struct rox_member *member;
	int err;

	if (!proto)
		return -ENODEV;
	member = kzalloc(sizeof(*member), GFP_KERNEL);
	if (!member)
		return -ENOMEM;
	err = ipv6_addr_v4mapped(&group->addr) ? rox_join_v4(ndev, group->addr.s6_addr32[3]) :
						 rox_join_v6(ndev, &group->addr);
	if (err) {
		kfree(member);
		return err;
	}
	member->ndev = ndev;
	member->proto = proto;
	hlist_add_head_rcu(&member->node, &group->members);
	return 0;
}

static struct rox_member *rox_member_find(const struct rox_net_group *group,
					  const struct net_device *ndev)
{
	struct rox_member *member;

	hlist_for_each_entry_rcu(member, &group->members, node, lockdep_rtnl_is_held())
		if (member->ndev == ndev)
			return member;
	return NULL;
}

/* ---- all netdevs of a device ---- */

/*
 * Is the netdev registered and in this namespace? A netdev loses its memberships when it moves to
 * another one.
 */
static bool rox_ndev_in(const struct rox_netns *rn, const struct net_device *ndev)
{
	return rn && !READ_ONCE(rn->dead) && ndev && ndev->reg_state == NETREG_REGISTERED &&
	       net_eq(dev_net(ndev), rn->net);
}

static const struct rox_netns *rox_group_ns(const struct rox_net *net,
					    const struct rox_net_group *group)
{
	return group->ns ?: READ_ONCE(net->ns);
}

bool rox_net_group_in(const struct rox_net *net, const struct rox_net_group *group,
		      const struct rox_netns *ns)
{
	return rox_group_ns(net, group) == ns;
}

/* Is the device's own netdev where it should be? Else nobody joins. */
static bool rox_own_at_home(const struct rox_net *net)
{
	return rox_ndev_in(READ_ONCE(net->ns), rtnl_dereference(net->ndev));
}

static bool rox_member_wanted(const struct rox_net *net, const struct rox_net_group *group,
			      struct net_device *ndev)
{
	struct net_device *own = rtnl_dereference(net->ndev);

	if (!rox_own_at_home(net) || !rox_ndev_in(rox_group_ns(net, group), ndev))
		return false;
	/* A device on a VLAN netdev has only the addresses of that netdev. */
	return ndev == own || (!is_vlan_dev(own) && netdev_has_upper_dev(own, ndev));
}

struct rox_upper_walk {
	const struct rox_net *net;
	struct rox_net_group *group;
};

static int rox_join_upper(struct net_device *ndev, struct netdev_nested_priv *priv)
{
	const struct rox_upper_walk *walk = priv->data;

	/* If this fails, the next event of the netdev tries again. */
	if (!rox_member_find(walk->group, ndev) &&
	    rox_ndev_in(rox_group_ns(walk->net, walk->group), ndev))
		rox_member_begin(walk->group, ndev);
	return 0;
}

/**
 * rox_net_join() - makes the netdevs of a device join a multicast group
 * @net: the device
 * @group: the group; @addr is set, the rest is zeroed or was set by the last call
 *
 * Process context, with the RTNL. Call it again when a netdev has changed. Also ends memberships
 * that are stale.
 *
 * Return: 0; -ENODEV if the device's own netdev does not have the protocol or is going away, or no
 * netdev in another namespace has it; -ENOMEM; or an error of the IP layer. The group may have
 * members even after an error
 */
int rox_net_join(struct rox_net *net, struct rox_net_group *group)
{
	struct net_device *own = rtnl_dereference(net->ndev);
	struct rox_upper_walk walk = { .net = net, .group = group };
	struct netdev_nested_priv priv = { .data = &walk };
	struct rox_member *member;
	struct hlist_node *next;
	int err = 0;

	ASSERT_RTNL();
	hlist_for_each_entry_safe(member, next, &group->members, node)
		if (rox_proto_of(group, member->ndev) != member->proto ||
		    !rox_member_wanted(net, group, member->ndev))
			rox_member_end(member, group);
	if (!rox_own_at_home(net))
		return -ENODEV;
	if (!group->ns && !rox_member_find(group, own))
		err = rox_member_begin(group, own);
	if (!is_vlan_dev(own))
		netdev_walk_all_upper_dev_rcu(own, rox_join_upper, &priv);
	return group->ns && hlist_empty(&group->members) ? -ENODEV : err;
}

/**
 * rox_net_leave() - makes all netdevs leave a multicast group
 * @group: the group
 *
 * Process context, with the RTNL.
 */
void rox_net_leave(struct rox_net_group *group)
{
	struct hlist_node *next;
	struct rox_member *member;

	ASSERT_RTNL();
	hlist_for_each_entry_safe(member, next, &group->members, node)
		rox_member_end(member, group);
}

/**
 * rox_net_joined() - tests whether a netdev has joined a group for us
 * @group: the group
 * @ndev: netdev that received a packet; may be NULL
 *
 * Any context, under RCU. Return: true if it has joined.
 */
bool rox_net_joined(const struct rox_net_group *group, const struct net_device *ndev)
{
	return ndev && rox_member_find(group, ndev);
}
