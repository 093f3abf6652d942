// SPDX-License-Identifier: GPL-2.0
/*
 * `rdma link add` and the life of a device, from there to dealloc_driver().
 *
 * A device exists while it is in rox_devs. Whoever unregisters it (rdma link
 * delete, the netdev that goes away, module exit), the core calls
 * rox_dealloc_driver() once all programs are cut off, and that lets go of the
 * netdev: nobody waits for a program.
 */
#include <linux/if_arp.h>
#include <linux/if_vlan.h>
#include <linux/etherdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rtnetlink.h>
#include <net/addrconf.h>
#include <net/net_namespace.h>
#include <net/rtnetlink.h>

#include "link.h"
#include "net/net.h"
#include "observe/observe.h"
#include "verbs/mcast.h"
#include "verbs/pkey.h"
#include "verbs/verbs.h"

/* One link is added at a time; removal waits for it, see rox_unlink_work(). */
static DEFINE_MUTEX(rox_newlink_mutex);

/* Devices by their netdev. Innermost: taken within RTNL. */
static DEFINE_MUTEX(rox_devs_mutex);
static LIST_HEAD(rox_devs);

/*
 * Not rox_wq: unregistering flushes the core's workqueues, which must not be
 * done from one that has WQ_MEM_RECLAIM.
 */
static struct workqueue_struct *rox_link_wq;

struct rox_dev *rox_link_find(const struct net_device *ndev)
{
	struct rox_dev *dev, *found = NULL;

	mutex_lock(&rox_devs_mutex);
	list_for_each_entry(dev, &rox_devs, link_node) {
		if (dev->ndev == ndev) {
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

/* ---- removal ---- */

static void rox_unlink_work(struct work_struct *work)
{
	struct rox_dev *dev = container_of(work, struct rox_dev, unlink_work);

	/* The core ignores a device whose registration is still under way: let it end. */
	mutex_lock(&rox_newlink_mutex);
	mutex_unlock(&rox_newlink_mutex);

	ib_unregister_device(&dev->ibdev);
	put_device(&dev->ibdev.dev);
}

void rox_link_remove_later(struct rox_dev *dev)
{
	if (!queue_work(rox_link_wq, &dev->unlink_work))
		put_device(&dev->ibdev.dev);
}

static void rox_rescan_work(struct work_struct *work)
{
	struct rox_dev *dev = container_of(work, struct rox_dev, rescan_work);

	rdma_roce_rescan_device(&dev->ibdev);
	ib_device_put(&dev->ibdev);
}

void rox_link_rescan_later(struct rox_dev *dev)
{
	if (!queue_work(rox_link_wq, &dev->rescan_work))
		ib_device_put(&dev->ibdev);
}

static void rox_dev_free(struct rox_dev *dev)
{
	rox_net_detach(dev);
	rox_mr_table_destroy(dev);
	rox_ah_table_destroy(dev);
	rox_xsrq_table_destroy(dev);
	rox_mcast_exit(dev);
	rox_observe_exit(dev);
	rox_pkeys_exit(dev);
	netdev_put(dev->ndev, &dev->ndev_tracker);
}

/* By ib_dealloc_device(): nothing of the device is in use any more. */
static void rox_dealloc_driver(struct ib_device *ibdev)
{
	struct rox_dev *dev = to_rox_dev(ibdev);

	mutex_lock(&rox_devs_mutex);
	list_del_init(&dev->link_node);
	mutex_unlock(&rox_devs_mutex);
	rox_dev_free(dev);
}

/*
 * The core knows the netdev anyway, but SMC-R of 6.1 asks the driver. Of a netdev
 * that is a VLAN it is told the one below, see rox_vlan_add_gid().
 */
static struct net_device *rox_get_netdev(struct ib_device *ibdev, u32 port)
{
	struct net_device *ndev = to_rox_dev(ibdev)->ndev;

	if (READ_ONCE(ndev->reg_state) != NETREG_REGISTERED)
		return NULL;
	if (is_vlan_dev(ndev))
		ndev = vlan_dev_real_dev(ndev);
	dev_hold(ndev);
	return ndev;
}

static const struct ib_device_ops rox_link_dev_ops = {
	.owner = THIS_MODULE,
	.driver_id = (enum rdma_driver_id)ROX_DRIVER_ID,
	.uverbs_abi_ver = ROX_ABI_VERSION,
	.dealloc_driver = rox_dealloc_driver,
	.get_netdev = rox_get_netdev,
};

/* ---- a VLAN as the netdev ---- */

/*
 * The core gives a device the addresses of its netdev and of the VLANs on it,
 * but not those of a netdev that is a VLAN itself. So it is told the netdev
 * below, and all addresses but the VLAN's are refused.
 */
static int rox_vlan_add_gid(const struct ib_gid_attr *attr, void **context)
{
	return rcu_access_pointer(attr->ndev) == to_rox_dev(attr->device)->ndev ? 0 : -EINVAL;
}

static int rox_vlan_del_gid(const struct ib_gid_attr *attr, void **context)
{
	return 0;
}

static const struct ib_device_ops rox_vlan_dev_ops = {
	.add_gid = rox_vlan_add_gid,
	.del_gid = rox_vlan_del_gid,
};

/* ---- addition ---- */

/* From the MAC; a netdev without one (lo) gets a number of its own. */
static void rox_set_node_guid(struct rox_dev *dev)
{
	u8 mac[ETH_ALEN];

	if (dev->ndev->addr_len == ETH_ALEN && is_valid_ether_addr(dev->ndev->dev_addr))
		ether_addr_copy(mac, dev->ndev->dev_addr);
	else
		eth_random_addr(mac);
	addrconf_addr_eui48((u8 *)&dev->ibdev.node_guid, mac);
}

static void rox_ibdev_init(struct rox_dev *dev)
{
	struct ib_device *ibdev = &dev->ibdev;

	ibdev->node_type = RDMA_NODE_IB_CA;
	ibdev->phys_port_cnt = 1;
	ibdev->num_comp_vectors = ROX_NUM_COMP_VECTORS;
	strscpy(ibdev->node_desc, "rox", sizeof(ibdev->node_desc));
	rox_set_node_guid(dev);
	/* The doorbells; the core offers all else by itself. */
	ibdev->uverbs_cmd_mask |= BIT_ULL(IB_USER_VERBS_CMD_POST_SEND) |
				  BIT_ULL(IB_USER_VERBS_CMD_POST_RECV);
	ib_set_device_ops(ibdev, &rox_verbs_ops);
	ib_set_device_ops(ibdev, &rox_observe_ops);
	ib_set_device_ops(ibdev, &rox_link_dev_ops);
	if (is_vlan_dev(dev->ndev))
		ib_set_device_ops(ibdev, &rox_vlan_dev_ops);

	/*
	 * New devices belong to the first namespace. Where namespaces do not
	 * share devices that would hide this one from those who made it.
	 */
	if (!rdma_dev_access_netns(ibdev, dev_net(dev->ndev)))
		write_pnet(&ibdev->coredev.rdma_net, dev_net(dev->ndev));
}

/* All that rox_dev_free() frees; the op that calls it is set only after that. */
static int rox_dev_init(struct rox_dev *dev, struct net_device *ndev,
			struct netlink_ext_ack *extack)
{
	int err;

	INIT_LIST_HEAD(&dev->link_node);
	INIT_WORK(&dev->unlink_work, rox_unlink_work);
	INIT_WORK(&dev->rescan_work, rox_rescan_work);
	spin_lock_init(&dev->port_lock);
	spin_lock_init(&dev->paths_lock);
	INIT_LIST_HEAD(&dev->paths);
	rox_ah_table_init(dev);
	rox_xsrq_table_init(dev);
	rox_mcast_init(dev);
	dev->ndev = ndev;

	err = rox_observe_init(dev);
	if (err)
		return err;
	err = rox_pkeys_init(dev);
	if (err)
		goto free_counters;
	err = rox_mr_table_init(dev);
	if (err)
		goto free_pkeys;
	err = rox_net_attach(dev, dev_net(ndev), extack);
	if (err)
		goto free_mrs;

	netdev_hold(ndev, &dev->ndev_tracker, GFP_KERNEL);
	rox_ibdev_init(dev);
	return 0;

free_mrs:
	rox_mr_table_destroy(dev);
free_pkeys:
	rox_pkeys_exit(dev);
free_counters:
	rox_observe_exit(dev);
	return err;
}

/* From here on netdev events find the device. */
static int rox_link_publish(struct rox_dev *dev, struct net *net)
{
	struct net_device *ndev = dev->ndev;
	int err = -ENODEV;

	rtnl_lock();
	if (ndev->reg_state == NETREG_REGISTERED && net_eq(dev_net(ndev), net))
		err = ib_device_set_netdev(&dev->ibdev, ndev, 1);
	if (!err) {
		rox_port_refresh(dev);
		mutex_lock(&rox_devs_mutex);
		list_add_tail(&dev->link_node, &rox_devs);
		mutex_unlock(&rox_devs_mutex);
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
	err = rox_link_publish(dev, net);
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
	struct rox_dev *dev;

	if (ndev->type != ARPHRD_ETHER && ndev->type != ARPHRD_LOOPBACK) {
		NL_SET_ERR_MSG(extack, "not an Ethernet device");
		return -EOPNOTSUPP;
	}
	dev = rox_link_find(ndev);
	if (dev) {
		put_device(&dev->ibdev.dev);
		NL_SET_ERR_MSG(extack, "there is a rox device on this netdev already");
		return -EEXIST;
	}
	return 0;
}

/* The core does not hand its extack down to here, so the message goes to the log. */
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
	rox_link_wq = alloc_workqueue("rox_link", WQ_UNBOUND, 0);
	return rox_link_wq ? 0 : -ENOMEM;
}

void rox_link_exit(void)
{
	ib_unregister_driver((enum rdma_driver_id)ROX_DRIVER_ID);
	destroy_workqueue(rox_link_wq);
}
