// SPDX-License-Identifier: GPL-2.0
/*
 * A device follows its netdev: carrier and admin state are the port state, the
 * MTU gives the active MTU, and a netdev that goes away, be it into another
 * namespace, takes the device with it.
 */
#include <linux/if_arp.h>
#include <linux/inetdevice.h>
#include <linux/notifier.h>
#include <net/addrconf.h>
#include <rdma/ib_addr.h>

#include "link.h"
#include "verbs/mcast.h"

bool rox_port_refresh(struct rox_dev *dev)
{
	const struct net_device *ndev = dev->ndev;
	enum ib_mtu mtu = iboe_get_mtu(ndev->mtu);
	bool up, changed;

	/* Without room for the smallest RoCE packet there is no port to speak of. */
	up = netif_running(ndev) && netif_carrier_ok(ndev) && mtu;

	spin_lock_bh(&dev->port_lock);
	changed = up != dev->port_up;
	dev->port_up = up;
	dev->mtu = mtu ?: IB_MTU_256;
	spin_unlock_bh(&dev->port_lock);
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
	/* Not registered yet or not any more: nobody to tell. */
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
	 * Having this op keeps the core from announcing the event: our notifier
	 * does, for bonds too, which the core leaves out.
	 */
}

/* Events with which multicast memberships are lost, or can be had again. */
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

static int rox_netdev_event(struct notifier_block *nb, unsigned long event, void *ptr)
{
	struct net_device *ndev = netdev_notifier_info_to_dev(ptr);
	struct rox_dev *dev;

	/* Of any netdev: it may be one that is stacked on a device's. */
	if (rox_concerns_mcast(event))
		rox_link_for_each(rox_mcast_refresh);

	switch (event) {
	case NETDEV_UP:
	case NETDEV_DOWN:
	case NETDEV_CHANGE:
	case NETDEV_CHANGEMTU:
	case NETDEV_UNREGISTER:
		break;
	default:
		return NOTIFY_DONE;
	}

	dev = rox_link_find(ndev);
	if (!dev)
		return NOTIFY_DONE;
	if (event == NETDEV_UNREGISTER) {
		rox_link_remove_later(dev);
		return NOTIFY_DONE;
	}
	rox_port_update(dev);
	put_device(&dev->ibdev.dev);
	return NOTIFY_DONE;
}

static struct notifier_block rox_netdev_nb = {
	.notifier_call = rox_netdev_event,
};

/*
 * Addresses become GIDs by the core's own notifiers, which pass lo over: there
 * the core is asked to look again. Atomic context. A GID whose address has
 * gone stays until the link is deleted.
 */
static void rox_addr_event(struct net_device *ndev, unsigned long event)
{
	struct ib_device *ibdev;

	if (event != NETDEV_UP || ndev->type != ARPHRD_LOOPBACK)
		return;
	ibdev = ib_device_get_by_netdev(ndev, (enum rdma_driver_id)ROX_DRIVER_ID);
	if (ibdev)
		rox_link_rescan_later(to_rox_dev(ibdev));
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
