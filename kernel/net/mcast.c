// SPDX-License-Identifier: GPL-2.0
/*
 * Membership of a netdev in IP multicast groups: has IGMP or MLD tell the
 * switches, opens the netdev's filter, and lets the IP layer deliver.
 */
#include <linux/igmp.h>
#include <linux/inetdevice.h>
#include <linux/rtnetlink.h>
#include <net/addrconf.h>
#include <net/ipv6.h>

#include "internal.h"

/*
 * With the RTNL: the netdev is still where the device was made. One that has
 * moved to another namespace has left its memberships behind, and those that it
 * has there are not ours.
 */
static bool at_home(const struct rox_dev *dev)
{
	const struct rox_net *rn = READ_ONCE(dev->net);

	return rn && !READ_ONCE(rn->dead) && dev->ndev->reg_state == NETREG_REGISTERED &&
	       net_eq(dev_net(dev->ndev), rn->net);
}

static int join_v4(struct net_device *ndev, __be32 group)
{
	struct in_device *in_dev = __in_dev_get_rtnl(ndev);

	if (!in_dev)
		return -ENODEV;
	ip_mc_inc_group(in_dev, group);
	return 0;
}

static void leave_v4(struct net_device *ndev, __be32 group)
{
	struct in_device *in_dev = __in_dev_get_rtnl(ndev);

	if (in_dev)
		ip_mc_dec_group(in_dev, group);
}

#if IS_ENABLED(CONFIG_IPV6)
static int join_v6(struct net_device *ndev, const struct in6_addr *group)
{
	if (!__in6_dev_get(ndev))
		return -ENODEV;
	return ipv6_dev_mc_inc(ndev, group);
}

static void leave_v6(struct net_device *ndev, const struct in6_addr *group)
{
	if (__in6_dev_get(ndev))
		ipv6_dev_mc_dec(ndev, group);
}
#else
static int join_v6(struct net_device *ndev, const struct in6_addr *group)
{
	return -EAFNOSUPPORT;
}

static void leave_v6(struct net_device *ndev, const struct in6_addr *group)
{
}
#endif

/**
 * rox_net_join() - has the netdev of a device join a multicast group
 * @dev: the device
 * @group: multicast address, IPv4 as a mapped one
 *
 * Process context, without the RTNL.
 *
 * Return: 0, -ENODEV if the netdev has no such protocol or is going away, -ENOMEM
 */
int rox_net_join(struct rox_dev *dev, const struct in6_addr *group)
{
	int err = -ENODEV;

	rtnl_lock();
	if (at_home(dev))
		err = ipv6_addr_v4mapped(group) ? join_v4(dev->ndev, group->s6_addr32[3]) :
						  join_v6(dev->ndev, group);
	rtnl_unlock();
	return err;
}

/**
 * rox_net_leave() - undoes one rox_net_join()
 * @dev: the device
 * @group: the same address
 *
 * Process context, without the RTNL.
 */
void rox_net_leave(struct rox_dev *dev, const struct in6_addr *group)
{
	rtnl_lock();
	if (at_home(dev)) {
		if (ipv6_addr_v4mapped(group))
			leave_v4(dev->ndev, group->s6_addr32[3]);
		else
			leave_v6(dev->ndev, group);
	}
	rtnl_unlock();
}
