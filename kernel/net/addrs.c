// SPDX-License-Identifier: GPL-2.0
/*
 * The addresses of a device, in a table of our own. The RDMA core has them as GIDs, but a look-up
 * there scans the table of GIDs with a lock that all CPUs share, and the data path needs one for
 * each frame that comes to a UD QP. The core tells us of each GID that comes and goes.
 */
#include <linux/hash.h>
#include <linux/netdevice.h>
#include <linux/slab.h>
#include <net/net_namespace.h>

#include "internal.h"

static struct hlist_head *rox_addr_list(struct rox_net *net, const struct in6_addr *addr)
{
	return &net->addrs[hash_32(ipv6_addr_hash(addr), ROX_ADDR_BITS)];
}

/* Return: the namespace of the netdev, with a reference; NULL if it is ending. */
static struct net *rox_net_of(const struct net_device *ndev)
{
	struct net *net;

	rcu_read_lock();
	net = maybe_get_net(dev_net(ndev));
	rcu_read_unlock();
	return net;
}

/**
 * rox_net_add_addr() - enters an address of a device
 * @net: the device
 * @addr: the address
 * @ndev: the netdev that has it
 * @gid: index of its entry in the GID table
 * @extack: gets an error message; may be NULL
 *
 * Opens the sockets of the netdev's namespace if this is the first address there. Process context,
 * sleeps.
 *
 * Return: the entry, for rox_net_del_addr(); -ENOMEM; -ENODEV if the namespace ends; -EADDRINUSE if
 * somebody else has UDP port 4791 there; or another error of the sockets
 */
struct rox_addr *rox_net_add_addr(struct rox_net *net, const struct in6_addr *addr,
				  struct net_device *ndev, u16 gid, struct netlink_ext_ack *extack)
{
	struct rox_addr *entry = kmalloc(sizeof(*entry), GFP_KERNEL);
	struct net *ns = rox_net_of(ndev);
	int err = -ENOMEM;

	if (!entry || !ns) {
		err = entry ? -ENODEV : -ENOMEM;
		goto error;
	}
	*entry = (struct rox_addr) {
		.addr = *addr, .ndev = ndev, .ifindex = ndev->ifindex, .gid = gid,
		.site = rox_site_enter(net, ns, extack),
	};
	if (IS_ERR(entry->site)) {
		err = PTR_ERR(entry->site);
		goto error;
	}
	put_net(ns);
	spin_lock(&net->addrs_lock);
	hlist_add_head_rcu(&entry->node, rox_addr_list(net, addr));
	spin_unlock(&net->addrs_lock);
	return entry;

error:
	if (ns)
		put_net(ns);
	kfree(entry);
	return ERR_PTR(err);
}

/**
 * rox_net_del_addr() - removes an address of a device
 * @net: the device
 * @entry: from rox_net_add_addr()
 *
 * Process context, sleeps. A look-up that has begun before may still find it.
 */
void rox_net_del_addr(struct rox_net *net, struct rox_addr *entry)
{
	spin_lock(&net->addrs_lock);
	hlist_del_rcu(&entry->node);
	spin_unlock(&net->addrs_lock);
	rox_site_leave(entry->site);
	kfree_rcu(entry, rcu);
}

static bool rox_addr_is(const struct rox_addr *entry, const struct in6_addr *addr,
			const struct rox_netns *ns)
{
	return ipv6_addr_equal(&entry->addr, addr) && (!ns || entry->site->ns == ns);
}

const struct rox_addr *rox_addr_find(struct rox_net *net, const struct in6_addr *addr,
				     const struct rox_netns *ns, int ifindex)
{
	const struct rox_addr *entry, *found = NULL;

	hlist_for_each_entry_rcu(entry, rox_addr_list(net, addr), node) {
		if (!rox_addr_is(entry, addr, ns) || (ifindex && entry->ifindex != ifindex))
			continue;
		if (!found || entry->gid < found->gid)
			found = entry;
	}
	return found;
}

const struct rox_addr *rox_addr_of(struct rox_net *net, const struct in6_addr *addr,
				   const struct net_device *ndev)
{
	const struct rox_addr *entry;

	hlist_for_each_entry_rcu(entry, rox_addr_list(net, addr), node)
		if (rox_addr_is(entry, addr, NULL) && entry->ndev == ndev)
			return entry;
	return NULL;
}

struct rox_gid_ref rox_addr_gid(struct rox_net *net, const struct in6_addr *addr,
				const struct rox_netns *ns, int ifindex)
{
	const struct rox_addr *first = rox_addr_find(net, addr, NULL, 0), *entry;

	if (!first)
		return (struct rox_gid_ref) {};
	entry = rox_addr_find(net, addr, ns, ifindex) ?: rox_addr_find(net, addr, ns, 0);
	if (!entry)
		return (struct rox_gid_ref) {};
	return (struct rox_gid_ref) {
		.known = true, .twin = entry != first, .index = entry->gid,
	};
}

bool rox_net_has_addr(struct rox_net *net, const struct in6_addr *addr,
		      const struct net_device *ndev)
{
	bool found;

	rcu_read_lock();
	found = ndev ? rox_addr_of(net, addr, ndev) : rox_addr_find(net, addr, NULL, 0);
	rcu_read_unlock();
	return found;
}

bool rox_net_has_addr_in(struct rox_net *net, const struct in6_addr *addr,
			 const struct rox_netns *ns)
{
	bool found;

	rcu_read_lock();
	found = rox_addr_find(net, addr, ns, 0);
	rcu_read_unlock();
	return found;
}
