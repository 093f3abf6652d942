// SPDX-License-Identifier: GPL-2.0
/*
 * A device follows its netdev. Carrier and admin state become the port state, the MTU gives the
 * active MTU. The device is removed when the netdev is unregistered, and also when the netdev moves
 * to another namespace while namespaces share RDMA devices. If they do not (`rdma system set netns
 * exclusive`), the device follows the netdev, because a container gets one after the other.
 */
#include <linux/ethtool.h>
#include <linux/if_arp.h>
#include <linux/inetdevice.h>
#include <linux/notifier.h>
#include <net/addrconf.h>
#include <rdma/ib_addr.h>

#include "link.h"
#include "verbs/verbs.h"

/*
 * Return: the rate of the line in bytes a second, for congestion control. A netdev without
 * hardware, such as veth, reports a speed that means nothing.
 */
static u64 rox_line_rate(struct net_device *ndev)
{
	struct ethtool_link_ksettings settings = {};

	if (!ndev || !ndev->dev.parent || ndev->reg_state != NETREG_REGISTERED ||
	    __ethtool_get_link_ksettings(ndev, &settings) || !settings.base.speed ||
	    settings.base.speed == (u32)SPEED_UNKNOWN)
		return ROX_CC_RATE_MAX;
	return min_t(u64, (u64)settings.base.speed * ROX_CC_MBIT, ROX_CC_RATE_MAX);
}

bool rox_port_refresh(struct rox_dev *dev)
{
	struct net_device *ndev = rtnl_dereference(dev->net.ndev);
	enum ib_mtu mtu = ndev ? iboe_get_mtu(ndev->mtu) : 0;
	bool up, changed;

	/* The port is down if the MTU is too small for RoCE. */
	up = ndev && netif_running(ndev) && netif_carrier_ok(ndev) && mtu;

	spin_lock_bh(&dev->port_lock);
	changed = up != dev->port_up;
	dev->port_up = up;
	/* Some readers do not take the lock. */
	WRITE_ONCE(dev->mtu, mtu ?: IB_MTU_256);
	spin_unlock_bh(&dev->port_lock);
	WRITE_ONCE(dev->cc.line_rate, rox_line_rate(ndev));
	return changed;
}

static void rox_port_update(struct rox_dev *dev)
{
	struct ib_event event = {
		.device = &dev->ibdev,
		.element.port_num = 1,
	};

	if (!rox_port_refresh(dev))
		return;
	if (!dev->port_up)
		rox_count(&dev->stats, ROX_CNT_LINK_DOWNED);
	/* A device that is not registered has no listeners. */
	if (!ib_device_try_get(&dev->ibdev))
		return;
	event.event = dev->port_up ? IB_EVENT_PORT_ACTIVE : IB_EVENT_PORT_ERR;
	ib_dispatch_event(&event);
	ib_device_put(&dev->ibdev);
}

void rox_report_port_event(struct ib_device *ibdev, struct net_device *ndev,
			   unsigned long event)
{
	/*
	 * With this op the core does not dispatch the event. Our notifier does, also
	 * for bonds, which the core omits.
	 */
}

/* Can the event end multicast memberships, or make new ones possible? */
static bool rox_concerns_mcast(unsigned long event)
{
	switch (event) {
	case NETDEV_REGISTER:
	case NETDEV_UNREGISTER:
	case NETDEV_UP:
	case NETDEV_CHANGEMTU:
	case NETDEV_CHANGEUPPER:
		return true;
	default:
		return false;
	}
}

/* Is the netdev leaving its namespace, and does @dev follow it? */
static bool rox_follows(struct rox_dev *dev, const struct net_device *ndev)
{
	/* With NULL in place of a namespace: do all namespaces share the device? */
	return ndev->reg_state == NETREG_REGISTERED && !rdma_dev_access_netns(&dev->ibdev, NULL);
}

static void rox_netdev_leaves(struct net_device *ndev)
{
	struct rox_dev *dev;

	while ((dev = rox_link_find(ndev))) {
		if (rox_follows(dev, ndev)) {
			put_device(&dev->ibdev.dev);
			return;
		}
		rox_link_remove_later(dev);
	}
}

/* The netdev has come to a namespace. A device that cannot follow it goes. */
static void rox_netdev_comes(struct net_device *ndev)
{
	struct rox_dev **all = rox_links_get(), **dev;
	struct netlink_ext_ack extack = {};
	int err;

	for (dev = all; dev && *dev; dev++) {
		err = 0;
		if (rcu_access_pointer((*dev)->net.ndev) == ndev)
			err = rox_net_move(&(*dev)->net, dev_net(ndev), &extack);
		if (!err) {
			put_device(&(*dev)->ibdev.dev);
			continue;
		}
		netdev_err(ndev, "rox: %s cannot follow its netdev: %s (%d)\n",
			   dev_name(&(*dev)->ibdev.dev), extack._msg ?: "error", err);
		rox_link_remove_later(*dev);
	}
	kfree(all);
}

static int rox_netdev_event(struct notifier_block *nb, unsigned long event, void *ptr)
{
	struct net_device *ndev = netdev_notifier_info_to_dev(ptr);

	if (event == NETDEV_REGISTER)
		rox_netdev_comes(ndev);
	/* Consider events of all netdevs: one may be stacked on a device's netdev. */
	if (rox_concerns_mcast(event))
		rox_link_for_each(rox_mcast_refresh);

	switch (event) {
	case NETDEV_UP:
	case NETDEV_DOWN:
	case NETDEV_CHANGE:
	case NETDEV_CHANGEMTU:
		rox_link_each(ndev, rox_port_update);
		break;
	case NETDEV_UNREGISTER:
		rox_netdev_leaves(ndev);
		break;
	}
	return NOTIFY_DONE;
}

static struct notifier_block rox_netdev_nb = {
	.notifier_call = rox_netdev_event,
};

/*
 * The core's notifiers turn addresses into GIDs, but ignore lo. So ask the core to rescan lo. A
 * GID of lo stays until the link is deleted, even if its address is removed. Atomic context.
 */
static void rox_addr_event(struct net_device *ndev, unsigned long event)
{
	if (event == NETDEV_UP && ndev->type == ARPHRD_LOOPBACK)
		rox_link_rescan_lo();
}

static int rox_inetaddr_event(struct notifier_block *nb, unsigned long event, void *ptr)
{
	struct in_ifaddr *ifa = ptr;

	rox_addr_event(ifa->ifa_dev->dev, event);
	return NOTIFY_DONE;
}

static struct notifier_block rox_inetaddr_nb = {
	.notifier_call = rox_inetaddr_event,
};

static int rox_inet6addr_event(struct notifier_block *nb, unsigned long event, void *ptr)
{
	struct inet6_ifaddr *ifa = ptr;

	rox_addr_event(ifa->idev->dev, event);
	return NOTIFY_DONE;
}

static struct notifier_block rox_inet6addr_nb = {
	.notifier_call = rox_inet6addr_event,
};

int rox_netdev_init(void)
{
	int err;

	err = register_netdevice_notifier(&rox_netdev_nb);
	if (err)
		return err;
	err = register_inetaddr_notifier(&rox_inetaddr_nb);
	if (err)
		goto unregister_netdev;
	err = register_inet6addr_notifier(&rox_inet6addr_nb);
	if (err)
		goto unregister_inetaddr;
	return 0;

unregister_inetaddr:
	unregister_inetaddr_notifier(&rox_inetaddr_nb);
unregister_netdev:
	unregister_netdevice_notifier(&rox_netdev_nb);
	return err;
}

void rox_netdev_exit(void)
{
	unregister_inet6addr_notifier(&rox_inet6addr_nb);
	unregister_inetaddr_notifier(&rox_inetaddr_nb);
	unregister_netdevice_notifier(&rox_netdev_nb);
}
