// SPDX-License-Identifier: GPL-2.0
/*
 * Lifetime of a device, from `rdma link add` to dealloc_driver().
 *
 * A device is in rox_devs while it exists. It is unregistered by `rdma link delete`, when its
 * netdev goes away, and when the module is unloaded. The core then disassociates all programs,
 * waits for verbs that are under way, and calls rox_dealloc_driver(). A verb may wait for memory
 * without limit. So when the netdev goes away, the device drops it at once, and lives on without a
 * netdev.
 */
#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/if_arp.h>
#include <linux/if_vlan.h>
#include <linux/etherdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rtnetlink.h>
#include <net/addrconf.h>
#include <net/net_namespace.h>
#include <net/rtnetlink.h>
#include <rdma/ib_cache.h>

#include "compat/gids.h"
#include "link.h"
#include "verbs/verbs.h"

/* Serialises additions of links. Removal waits for an addition, see rox_unlink_work(). */
static DEFINE_MUTEX(rox_newlink_mutex);

/* All devices, the oldest first. The innermost lock: taken with the RTNL held. */
static DEFINE_MUTEX(rox_devs_mutex);
static LIST_HEAD(rox_devs);

/*
 * Not rox_wq, which has WQ_MEM_RECLAIM: unregistering a device flushes workqueues of the core
 * without that flag, which a worker of such a queue must not do.
 */
static struct workqueue_struct *rox_link_wq;

struct rox_dev *rox_link_find(const struct net_device *ndev)
{
	struct rox_dev *dev, *found = NULL;

	mutex_lock(&rox_devs_mutex);
	list_for_each_entry(dev, &rox_devs, link_node) {
		if (rcu_access_pointer(dev->net.ndev) == ndev) {
			get_device(&dev->ibdev.dev);
			found = dev;
			break;
		}
	}
	mutex_unlock(&rox_devs_mutex);
	return found;
}

void rox_link_for_each(void (*fn)(struct rox_dev *dev))
{
	struct rox_dev *dev;

	mutex_lock(&rox_devs_mutex);
	list_for_each_entry(dev, &rox_devs, link_node)
		fn(dev);
	mutex_unlock(&rox_devs_mutex);
}

void rox_link_each(const struct net_device *ndev, void (*fn)(struct rox_dev *dev))
{
	struct rox_dev *dev;

	mutex_lock(&rox_devs_mutex);
	list_for_each_entry(dev, &rox_devs, link_node)
		if (rcu_access_pointer(dev->net.ndev) == ndev)
			fn(dev);
	mutex_unlock(&rox_devs_mutex);
}

struct rox_dev **rox_links_get(void)
{
	struct rox_dev **all, *dev;
	size_t n = 1;

	mutex_lock(&rox_devs_mutex);
	list_for_each_entry(dev, &rox_devs, link_node)
		n++;
	all = kcalloc(n, sizeof(*all), GFP_KERNEL);
	n = 0;
	if (all)
		list_for_each_entry(dev, &rox_devs, link_node) {
			get_device(&dev->ibdev.dev);
			all[n++] = dev;
		}
	mutex_unlock(&rox_devs_mutex);
	return all;
}

/* ---- addresses of lo ---- */

static void rox_rescan_work(struct work_struct *work)
{
	struct rox_dev *dev = container_of(work, struct rox_dev, rescan_work);

	rdma_roce_rescan_device(&dev->ibdev);
	ib_device_put(&dev->ibdev);
}

static void rox_rescan_lo(struct rox_dev *dev)
{
	const struct net_device *ndev;

	ndev = rcu_dereference_protected(dev->net.ndev, lockdep_is_held(&rox_devs_mutex));
	/* When a device is registered, the core reads the addresses itself. */
	if (!ndev || ndev->type != ARPHRD_LOOPBACK || !ib_device_try_get(&dev->ibdev))
		return;
	if (!queue_work(rox_link_wq, &dev->rescan_work))
		ib_device_put(&dev->ibdev);
}

static void rox_rescan_lo_work(struct work_struct *work)
{
	rox_link_for_each(rox_rescan_lo);
}

static DECLARE_WORK(rox_lo_work, rox_rescan_lo_work);

void rox_link_rescan_lo(void)
{
	queue_work(rox_link_wq, &rox_lo_work);
}

/* ---- removal ---- */

/* Limit of the wait until the core has removed the GIDs of a netdev, in steps of 20 ms. */
#define ROX_GIDS_STEPS 250

/* The caller gets the device's reference on the netdev, and holds rox_devs_mutex. */
static struct net_device *rox_take_netdev(struct rox_dev *dev)
{
	return rcu_replace_pointer(dev->net.ndev, NULL, lockdep_is_held(&rox_devs_mutex));
}

/*
 * Detaches the device from its netdev. The caller holds the RTNL.
 * Return: false if the device had no netdev.
 */
static bool rox_link_leave_netdev(struct rox_dev *dev)
{
	struct net_device *ndev;

	mutex_lock(&rox_devs_mutex);
	ndev = rox_take_netdev(dev);
	mutex_unlock(&rox_devs_mutex);
	if (!ndev)
		return false;
	WRITE_ONCE(dev->mem.leaving, true);
	rox_port_refresh(dev);
	ib_device_set_netdev(&dev->ibdev, NULL, 1);
	dev->left_ndev = ndev;
	return true;
}

/* Has the device GIDs of @ndev? The pointer is only compared: @ndev may be freed. */
static bool rox_has_gids_of(struct rox_dev *dev, const struct net_device *ndev)
{
	const struct ib_gid_attr *attr;
	bool found = false;
	int i;

	/* A device that is not registered has no GIDs. */
	if (!ib_device_try_get(&dev->ibdev))
		return false;
	for (i = 0; i < ROX_GID_TABLE_LEN && !found; i++) {
		attr = rdma_get_gid_attr(&dev->ibdev, 1, i);
		if (IS_ERR(attr))
			continue;
		found = rcu_access_pointer(attr->ndev) == ndev;
		rdma_put_gid_attr(attr);
	}
	ib_device_put(&dev->ibdev);
	return found;
}

static void rox_unlink_work(struct work_struct *work)
{
	struct rox_dev *dev = container_of(work, struct rox_dev, unlink_work);
	struct net_device *ndev = dev->left_ndev;
	int i;

	/* Wait for RCU readers of net.ndev. */
	synchronize_net();
	netdev_put(ndev, &dev->ndev_tracker);
	/* Wait for the end of a registration: the core would ignore a device before that. */
	mutex_lock(&rox_newlink_mutex);
	mutex_unlock(&rox_newlink_mutex);

	/*
	 * GIDs have references on the netdev, too. The core removes them when the netdev goes
	 * away, but not once the device is being unregistered. So wait before unregistering.
	 */
	for (i = 0; i < ROX_GIDS_STEPS && rox_has_gids_of(dev, ndev); i++)
		msleep(20);
	ib_unregister_device(&dev->ibdev);
	put_device(&dev->ibdev.dev);
}

void rox_link_remove_later(struct rox_dev *dev)
{
	if (!rox_link_leave_netdev(dev) || !queue_work(rox_link_wq, &dev->unlink_work))
		put_device(&dev->ibdev.dev);
}

static void rox_dev_free(struct rox_dev *dev)
{
	rox_net_detach(&dev->net);
	rox_mem_exit(&dev->mem);
	rox_ah_table_destroy(dev);
	rox_cm_exit(dev);
	rox_xsrq_table_destroy(dev);
	rox_mcast_exit(dev);
	rox_stats_exit(&dev->stats);
	rox_pkeys_exit(dev);
}

/* Called by ib_dealloc_device(), when nothing uses the device. */
static void rox_dealloc_driver(struct ib_device *ibdev)
{
	struct rox_dev *dev = to_rox_dev(ibdev);
	struct net_device *ndev;

	mutex_lock(&rox_devs_mutex);
	list_del_init(&dev->link_node);
	ndev = rox_take_netdev(dev);
	mutex_unlock(&rox_devs_mutex);
	rox_dev_free(dev);
	if (ndev)
		netdev_put(ndev, &dev->ndev_tracker);
}

/*
 * The core knows the netdev without this op, but SMC-R of Linux 6.1 calls the op itself. If the
 * netdev is a VLAN, this returns the netdev below it, see rox_add_gid().
 */
static struct net_device *rox_get_netdev(struct ib_device *ibdev, u32 port)
{
	struct net_device *ndev;

	rcu_read_lock();
	ndev = rcu_dereference(to_rox_dev(ibdev)->net.ndev);
	if (ndev && READ_ONCE(ndev->reg_state) != NETREG_REGISTERED)
		ndev = NULL;
	if (ndev && is_vlan_dev(ndev))
		ndev = vlan_dev_real_dev(ndev);
	dev_hold(ndev);
	rcu_read_unlock();
	return ndev;
}

/* Has @ndev a rox device of its own? */
static bool rox_link_on(const struct net_device *ndev)
{
	struct rox_dev *dev = rox_link_find(ndev);

	if (dev)
		put_device(&dev->ibdev.dev);
	return dev;
}

/*
 * May the device use an address (GID) that the core has for it?
 *
 * The core offers the addresses of the device's netdev and of all netdevs stacked on it, in any
 * network namespace. The device refuses the addresses of a netdev that has a rox device of its own,
 * for example a macvlan. Else the RDMA CM, which takes the oldest device that has an address, could
 * choose the wrong device.
 *
 * The core does not offer the addresses of a netdev that is a VLAN itself. So rox_get_netdev()
 * returns the netdev below the VLAN, and all addresses but the VLAN's are refused.
 */
static bool rox_gid_suits(const struct rox_dev *dev, const struct ib_gid_attr *attr)
{
	const struct net_device *ndev, *own;
	bool stacked;

	rcu_read_lock();
	ndev = rcu_dereference(attr->ndev);
	own = rcu_dereference(dev->net.ndev);
	stacked = ndev && own && !is_vlan_dev(own);
	rcu_read_unlock();

	if (ndev && ndev == own)
		return true;
	return stacked && !rox_link_on(ndev);
}

/*
 * The core is about to use a GID, and has a reference on its netdev. @context: the entry in the
 * device's own table
 */
static int rox_add_gid(const struct ib_gid_attr *attr, void **context)
{
	struct net_device *ndev = rcu_dereference_protected(attr->ndev, true);
	struct rox_dev *dev = to_rox_dev(attr->device);
	struct netlink_ext_ack extack = {};
	struct rox_addr *entry;

	if (!rox_gid_suits(dev, attr))
		return -EINVAL;
	entry = rox_net_add_addr(&dev->net, (const struct in6_addr *)&attr->gid, ndev, attr->index,
				 &extack);
	if (IS_ERR(entry)) {
		if (extack._msg && net_ratelimit())
			netdev_err(ndev, "rox: %s cannot have the address %pI6c: %s\n",
				   dev_name(&dev->ibdev.dev), attr->gid.raw, extack._msg);
		return PTR_ERR(entry);
	}
	*context = entry;
	return 0;
}

/* The core has stopped using the GID, and still has its reference on the netdev. */
static int rox_del_gid(const struct ib_gid_attr *attr, void **context)
{
	rox_net_del_addr(&to_rox_dev(attr->device)->net, *context);
	return 0;
}

static const struct ib_device_ops rox_link_dev_ops = {
	.owner = THIS_MODULE,
	.driver_id = (enum rdma_driver_id)ROX_DRIVER_ID,
	.uverbs_abi_ver = ROX_ABI_VERSION,
	.dealloc_driver = rox_dealloc_driver,
	.get_netdev = rox_get_netdev,
	.add_gid = rox_add_gid,
	.del_gid = rox_del_gid,
	ROX_OPS_REPORT_PORT_EVENT
};

/* ---- addition ---- */

/*
 * The netdev has got a device of its own: devices on netdevs below it give up its addresses, see
 * rox_gid_suits(). With the RTNL.
 */
static void rox_link_claim_gids(struct net_device *ndev)
{
	struct rox_dev **all = rox_links_get(), **dev;

	for (dev = all; dev && *dev; dev++) {
		if (rcu_access_pointer((*dev)->net.ndev) != ndev && rox_has_gids_of(*dev, ndev) &&
		    ib_device_try_get(&(*dev)->ibdev)) {
			roce_del_all_netdev_gids(&(*dev)->ibdev, 1, ndev);
			ib_device_put(&(*dev)->ibdev);
		}
		put_device(&(*dev)->ibdev.dev);
	}
	kfree(all);
}

static bool rox_guid_is_taken(__be64 guid)
{
	bool taken = false;
	struct rox_dev *dev;

	mutex_lock(&rox_devs_mutex);
	list_for_each_entry(dev, &rox_devs, link_node)
		taken |= dev->ibdev.node_guid == guid;
	mutex_unlock(&rox_devs_mutex);
	return taken;
}

/*
 * Makes the node GUID from the MAC, or from a random one if the netdev has none (lo). The GUID
 * must be unique, as programs identify devices by it. Several devices can have the same MAC, on
 * one netdev or on ipvlans. A later one decrements the 0xfffe in the middle until it is unique.
 */
static void rox_set_node_guid(struct rox_dev *dev, const struct net_device *ndev)
{
	u8 *guid = (u8 *)&dev->ibdev.node_guid;
	u8 mac[ETH_ALEN];

	if (ndev->addr_len == ETH_ALEN && is_valid_ether_addr(ndev->dev_addr))
		ether_addr_copy(mac, ndev->dev_addr);
	else
		eth_random_addr(mac);
	addrconf_addr_eui48(guid, mac);
	while (rox_guid_is_taken(dev->ibdev.node_guid))
		if (!guid[4]--)
			guid[3]--;
}

static void rox_ibdev_init(struct rox_dev *dev, const struct net_device *ndev)
{
	struct ib_device *ibdev = &dev->ibdev;

	ibdev->node_type = RDMA_NODE_IB_CA;
	ibdev->phys_port_cnt = 1;
	ibdev->num_comp_vectors = num_online_cpus();
	strscpy(ibdev->node_desc, "rox", sizeof(ibdev->node_desc));
	/* Exporters of dma-bufs expect a DMA mask. It covers all memory, as the CPU copies. */
	dma_coerce_mask_and_coherent(&ibdev->dev, DMA_BIT_MASK(64));
	rox_set_node_guid(dev, ndev);
	/* The doorbells. The core allows all other commands by default. */
	ibdev->uverbs_cmd_mask |= BIT_ULL(IB_USER_VERBS_CMD_POST_SEND) |
				  BIT_ULL(IB_USER_VERBS_CMD_POST_RECV);
	ib_set_device_ops(ibdev, &rox_verbs_ops);
	ib_set_device_ops(ibdev, &rox_statistic_ops);
	ib_set_device_ops(ibdev, &rox_link_dev_ops);
	ibdev->driver_def = rox_uverbs_objects;
	/*
	 * The core takes the first two places for its own group and for device_group, and the next
	 * free one for counters of the device. rox has counters of the port only.
	 */
	ibdev->groups[2] = &rox_cc_group;
	dev->spin_us = -1;

	/*
	 * The core puts new devices into the initial namespace. If namespaces do not share
	 * devices, this one must go to its netdev's namespace, to be visible there.
	 */
	if (!rdma_dev_access_netns(ibdev, dev_net(ndev)))
		write_pnet(&ibdev->coredev.rdma_net, dev_net(ndev));
}

/*
 * Sets up what rox_dev_free() frees. After an error it frees everything itself: rox_dev_free() is
 * called by the op dealloc_driver, which is set only at the end.
 */
static int rox_dev_init(struct rox_dev *dev, struct net_device *ndev,
			struct netlink_ext_ack *extack)
{
	int err;

	INIT_LIST_HEAD(&dev->link_node);
	INIT_WORK(&dev->unlink_work, rox_unlink_work);
	INIT_WORK(&dev->rescan_work, rox_rescan_work);
	spin_lock_init(&dev->port_lock);
	rox_ah_table_init(dev);
	rox_cm_init(dev);
	rox_xsrq_table_init(dev);
	rox_mcast_init(dev);
	rox_cc_link_init(&dev->cc, &rox_cc_adaptive, ROX_CC_RATE_MAX);
	rox_net_setup(&dev->net, &dev->ibdev, &dev->stats, ndev);

	err = rox_stats_init(&dev->stats);
	if (err)
		return err;
	err = rox_pkeys_init(dev);
	if (err)
		goto free_stats;
	err = rox_mem_init(&dev->mem);
	if (err)
		goto free_pkeys;
	err = rox_net_attach(&dev->net, dev_net(ndev), extack);
	if (err)
		goto free_mrs;

	netdev_hold(ndev, &dev->ndev_tracker, GFP_KERNEL);
	rox_ibdev_init(dev, ndev);
	return 0;

free_mrs:
	rox_mem_exit(&dev->mem);
free_pkeys:
	rox_pkeys_exit(dev);
free_stats:
	rox_stats_exit(&dev->stats);
	return err;
}

/* Makes the device visible to netdev events. */
static int rox_link_publish(struct rox_dev *dev, struct net_device *ndev, struct net *net)
{
	int err = -ENODEV;

	rtnl_lock();
	if (ndev->reg_state == NETREG_REGISTERED && net_eq(dev_net(ndev), net))
		err = ib_device_set_netdev(&dev->ibdev, ndev, 1);
	if (!err) {
		rox_port_refresh(dev);
		mutex_lock(&rox_devs_mutex);
		list_add_tail(&dev->link_node, &rox_devs);
		mutex_unlock(&rox_devs_mutex);
		rox_link_claim_gids(ndev);
	}
	rtnl_unlock();
	return err;
}

static int rox_link_create(const char *name, struct net_device *ndev,
			   struct netlink_ext_ack *extack)
{
	struct net *net = dev_net(ndev);
	struct rox_dev *dev;
	int err;

	dev = ib_alloc_device(rox_dev, ibdev);
	if (!dev)
		return -ENOMEM;
	err = rox_dev_init(dev, ndev, extack);
	if (err)
		goto dealloc;
	err = rox_link_publish(dev, ndev, net);
	if (err)
		goto dealloc;
	err = ib_register_device(&dev->ibdev, name, NULL);
	if (!err)
		return 0;
	if (err == -ENFILE) {
		NL_SET_ERR_MSG(extack, "there is an RDMA device of this name already");
		err = -EEXIST;
	}

dealloc:
	ib_dealloc_device(&dev->ibdev);
	return err;
}

static int rox_link_check(const struct net_device *ndev, struct netlink_ext_ack *extack)
{
	if (ndev->type != ARPHRD_ETHER && ndev->type != ARPHRD_LOOPBACK) {
		NL_SET_ERR_MSG(extack, "not an Ethernet device");
		return -EOPNOTSUPP;
	}
	return 0;
}

/* The core does not pass its extack to this op, so the message goes to the log. */
static int rox_newlink(const char *name, struct net_device *ndev)
{
	struct netlink_ext_ack extack = {};
	int err;

	mutex_lock(&rox_newlink_mutex);
	err = rox_link_check(ndev, &extack);
	if (!err)
		err = rox_link_create(name, ndev, &extack);
	mutex_unlock(&rox_newlink_mutex);
	if (err && extack._msg)
		netdev_err(ndev, "rox: cannot add link %s: %s\n", name, extack._msg);
	return err;
}

struct rdma_link_ops rox_link_ops = {
	.type = "rox",
	.newlink = rox_newlink,
};

int rox_link_init(void)
{
	rox_cc_files_init();
	rox_link_wq = alloc_workqueue("rox_link", WQ_UNBOUND, 0);
	return rox_link_wq ? 0 : -ENOMEM;
}

void rox_link_exit(void)
{
	ib_unregister_driver((enum rdma_driver_id)ROX_DRIVER_ID);
	destroy_workqueue(rox_link_wq);
}
