// SPDX-License-Identifier: GPL-2.0
/*
 * The addresses of a device, in a table of our own. The RDMA core has them as GIDs, but a look-up
 * there scans the table of GIDs with a lock that all CPUs share, and the data path needs one for
 * each frame that comes to a UD QP. The core tells us of each GID that comes and goes.
 */
#include <linux/hash.h>
#include <linux/slab.h>

#include "internal.h"

/**
 * struct rox_addr - an address of a device
 * @node: in rox_net.addrs (RCU)
 * @addr: the address; IPv4 as a mapped address
 * @ndev: the netdev that has it; only compared, it may have gone
 * @rcu: frees the object after an RCU grace period
 *
 * If several netdevs have the same address, each has an entry.
 */
struct rox_addr {
	struct hlist_node node;
	struct in6_addr addr;
	const struct net_device *ndev;
	struct rcu_head rcu;
};

static struct hlist_head *rox_addr_list(struct rox_net *net, const struct in6_addr *addr)
{
	return &net->addrs[hash_32(ipv6_addr_hash(addr), ROX_ADDR_BITS)];
}

/**
 * rox_net_add_addr() - enters an address of a device
 * @net: the device
 * @addr: the address
 * @ndev: the netdev that has it
 *
 * Process context, sleeps. Return: the entry, for rox_net_del_addr(); NULL without memory.
 */
struct rox_addr *rox_net_add_addr(struct rox_net *net, const struct in6_addr *addr,
				  const struct net_device *ndev)
{
	struct rox_addr *entry = kmalloc(sizeof(*entry), GFP_KERNEL);

	if (!entry)
		return NULL;
	entry->addr = *addr;
	entry->ndev = ndev;
	spin_lock(&net->addrs_lock);
	hlist_add_head_rcu(&entry->node, rox_addr_list(net, addr));
	spin_unlock(&net->addrs_lock);
	return entry;
}

/**
 * rox_net_del_addr() - removes an address of a device
 * @net: the device
 * @entry: from rox_net_add_addr()
 *
 * Process context. rox_net_has_addr() may still find it if it has begun before.
 */
void rox_net_del_addr(struct rox_net *net, struct rox_addr *entry)
{
	spin_lock(&net->addrs_lock);
	hlist_del_rcu(&entry->node);
	spin_unlock(&net->addrs_lock);
	kfree_rcu(entry, rcu);
}

bool rox_net_has_addr(struct rox_net *net, const struct in6_addr *addr,
		      const struct net_device *ndev)
{
	const struct rox_addr *entry;
	bool found = false;

	rcu_read_lock();
	hlist_for_each_entry_rcu(entry, rox_addr_list(net, addr), node) {
		found = ipv6_addr_equal(&entry->addr, addr) && (!ndev || entry->ndev == ndev);
		if (found)
			break;
	}
	rcu_read_unlock();
	return found;
}
