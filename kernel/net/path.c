// SPDX-License-Identifier: GPL-2.0
/*
 * Paths: the route of an address vector is looked up once, cached in a dst_cache, and checked on
 * each use.
 */
#include <linux/if_vlan.h>
#include <linux/inetdevice.h>
#include <linux/jhash.h>
#include <linux/random.h>
#include <net/addrconf.h>
#include <net/inet_ecn.h>
#include <net/ip6_route.h>
#include <net/ip_fib.h>
#include <net/ipv6.h>
#include <net/route.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_cache.h>

#include "internal.h"
#include "../compat/net.h"

#define ROX_DEFAULT_TTL 64

/* In an AH that was made from a completion the "service level" is the type of the packet. */
static bool rox_is_packet_type(u8 sl)
{
	return sl == (ROX_PACKET_UDP | ROX_PACKET_IPV4) || sl == (ROX_PACKET_UDP | ROX_PACKET_IPV6);
}

/*
 * The GID's netdev decides where packets go: in its namespace, out by it. Return: 0, or -ENODEV if
 * the GID has gone.
 */
static int rox_path_settle(struct rox_path *path, const struct ib_gid_attr *sgid)
{
	const struct rox_addr *entry;
	int err = -ENODEV;

	rcu_read_lock();
	entry = rox_addr_of(path->net, &path->saddr, rcu_dereference(sgid->ndev));
	if (entry && rox_netns_get(entry->site->ns)) {
		path->ns = entry->site->ns;
		path->oif = entry->ifindex;
		err = 0;
	}
	rcu_read_unlock();
	return err;
}

/**
 * rox_path_init() - fills a path from an address vector
 * @path: zeroed, or destroyed before
 * @net: the device
 * @attr: address vector; the caller holds a reference on its sgid_attr
 * @sqpn: local QP number, or 0
 * @dqpn: remote QP number, or 0
 * @gfp: GFP_ATOMIC if it must not sleep
 *
 * Return: 0, -EINVAL if the address vector is not for RoCE v2, -ENODEV if the source address has
 * gone, -ENOMEM
 */
int rox_path_init(struct rox_path *path, struct rox_net *net,
		  const struct rdma_ah_attr *attr, u32 sqpn, u32 dqpn, gfp_t gfp)
{
	const struct ib_global_route *grh = rdma_ah_read_grh(attr);
	const struct ib_gid_attr *sgid = grh->sgid_attr;
	unsigned long flags;
	int err;

	if (attr->type != RDMA_AH_ATTR_TYPE_ROCE || !sgid)
		return -EINVAL;

	memcpy(&path->saddr, sgid->gid.raw, sizeof(path->saddr));
	memcpy(&path->daddr, grh->dgid.raw, sizeof(path->daddr));
	path->v6 = !ipv6_addr_v4mapped(&path->saddr);
	if (path->v6 == ipv6_addr_v4mapped(&path->daddr))
		return -EINVAL;

	path->net = net;
	path->tos = grh->traffic_class & ~INET_ECN_MASK;
	path->ttl = grh->hop_limit ?: ROX_DEFAULT_TTL;
	path->sl = !dqpn && rox_is_packet_type(rdma_ah_get_sl(attr)) ? 0 : rdma_ah_get_sl(attr);
	path->flow = grh->flow_label & IB_GRH_FLOWLABEL_MASK;
	path->sport = rdma_get_udp_sport(path->flow, sqpn, dqpn);
	path->hash = jhash_2words(ipv6_addr_hash(&path->daddr), path->sport, 0);
	path->local = ~(2 * jiffies);
	atomic_set(&path->ip_id, get_random_u32());
	rox_near_init(path);

	err = rox_path_settle(path, sgid);
	if (err)
		return err;
	err = dst_cache_init(&path->dst, gfp);
	if (err) {
		rox_netns_put(path->ns);
		return err;
	}
	path->valid = true;
	spin_lock_irqsave(&net->paths_lock, flags);
	list_add_tail(&path->node, &net->paths);
	spin_unlock_irqrestore(&net->paths_lock, flags);
	return 0;
}

int rox_path_answer(struct rox_path *path, struct rox_net *net, const struct rox_pkt *pkt, u8 tos,
		    u8 sl)
{
	struct rdma_ah_attr attr = { .type = RDMA_AH_ATTR_TYPE_ROCE };
	struct ib_global_route *grh = rdma_ah_retrieve_grh(&attr);
	struct rox_gid_ref gid = rox_pkt_gid(pkt);
	const struct ib_gid_attr *sgid;
	struct in6_addr from, to;
	int err;

	rox_pkt_addrs(pkt, &from, &to);
	sgid = gid.known ? rdma_get_gid_attr(net->ibdev, 1, gid.index) : ERR_PTR(-ENOENT);
	if (IS_ERR(sgid))
		return -ENOENT;
	/* Another address may have taken its place. */
	if (memcmp(sgid->gid.raw, &to, sizeof(to))) {
		rdma_put_gid_attr(sgid);
		return -ENOENT;
	}
	memcpy(grh->dgid.raw, &from, sizeof(from));
	grh->traffic_class = tos;
	grh->sgid_attr = sgid;
	rdma_ah_set_sl(&attr, sl);
	rdma_ah_set_ah_flags(&attr, IB_AH_GRH);
	err = rox_path_init(path, net, &attr, 0, 0, GFP_ATOMIC);
	rdma_put_gid_attr(sgid);
	return err;
}

/**
 * rox_path_destroy() - frees the resources of a path
 * @path: initialised, destroyed, or zeroed; nobody sends on it
 *
 * Any context but hard interrupts.
 */
void rox_path_destroy(struct rox_path *path)
{
	unsigned long flags;

	if (path->valid) {
		spin_lock_irqsave(&path->net->paths_lock, flags);
		list_del(&path->node);
		spin_unlock_irqrestore(&path->net->paths_lock, flags);
		dst_cache_destroy(&path->dst);
		rox_netns_put(path->ns);
	}
	path->valid = false;
	path->ns = NULL;
	path->dst.cache = NULL;
}

void rox_path_swap(struct rox_path *a, struct rox_path *b)
{
	struct rox_net *net = a->valid ? a->net : b->net;
	struct list_head at_a, at_b;
	unsigned long flags;

	if (!a->valid && !b->valid)
		return;
	spin_lock_irqsave(&net->paths_lock, flags);
	if (a->valid && b->valid)
		list_swap(&a->node, &b->node);
	else if (a->valid)
		list_replace(&a->node, &b->node);
	else
		list_replace(&b->node, &a->node);
	/* The list nodes are in the right places. Exchange all other fields. */
	at_a = a->node;
	at_b = b->node;
	swap(*a, *b);
	a->node = at_a;
	b->node = at_b;
	spin_unlock_irqrestore(&net->paths_lock, flags);
}

/*
 * An IPv6 route must not outlive its namespace, even if the netdev has moved to another one. Paths
 * that are created during this have no route, and get none, as the namespace is dead.
 */
void rox_paths_forget(struct rox_net *net, const struct rox_netns *ns)
{
	struct rox_path *path;
	LIST_HEAD(paths);

	spin_lock_irq(&net->paths_lock);
	list_splice_init(&net->paths, &paths);
	while (!list_empty(&paths)) {
		path = list_first_entry(&paths, struct rox_path, node);
		list_move_tail(&path->node, &net->paths);
		if (path->ns != ns)
			continue;
		dst_cache_reset_now(&path->dst);
		spin_unlock_irq(&net->paths_lock);
		cond_resched();
		spin_lock_irq(&net->paths_lock);
	}
	spin_unlock_irq(&net->paths_lock);
}

/*
 * With an output netdev the IP layer treats a destination without a usable route as on-link, even
 * if there is an unreachable, prohibit or blackhole route for it. So check for such a route first.
 */
static int rox_refused_v4(struct net *net, const struct flowi4 *flow)
{
	struct flowi4 fl4 = *flow;	/* fib_lookup() may write to it */
	struct fib_result res;
	int err;

	if (ipv4_is_multicast(fl4.daddr))
		return 0;
	err = fib_lookup(net, &fl4, &res, 0);
	return err == -ENETUNREACH ? 0 : err;
}

/*
 * The netdev that packets leave by: the path's. If the address has moved to another netdev of the
 * device in the same namespace, such as a bridge that the first one became a port of, the path
 * follows it. Under RCU.
 */
static int rox_path_oif(const struct rox_path *path)
{
	const struct rox_addr *entry;

	if (rox_addr_find(path->net, &path->saddr, path->ns, path->oif))
		return path->oif;
	entry = rox_addr_find(path->net, &path->saddr, path->ns, 0);
	return entry ? entry->ifindex : path->oif;
}

static struct dst_entry *rox_route_v4(struct rox_path *path, struct net *net)
{
	struct flowi4 fl4 = {
		.daddr = path->daddr.s6_addr32[3],
		.saddr = path->saddr.s6_addr32[3],
		.flowi4_iif = LOOPBACK_IFINDEX,
		.flowi4_proto = IPPROTO_UDP,
		.fl4_sport = htons(path->sport),
		.fl4_dport = htons(ROX_UDP_PORT),
	};
	struct rtable *rt;
	__be32 saddr;
	int err;

	rt = dst_cache_get_ip4(&path->dst, &saddr);
	if (rt)
		return &rt->dst;

	/*
	 * Packets to an address of another netdev of this host go through lo. That route is found
	 * only without an output netdev.
	 */
	if (inet_addr_type(net, fl4.daddr) != RTN_LOCAL)
		fl4.flowi4_oif = rox_path_oif(path);
	rox_flowi4_set_dsfield(&fl4, path->tos);
	err = rox_refused_v4(net, &fl4);
	if (err)
		return ERR_PTR(err);

	rt = ip_route_output_flow(net, &fl4, NULL);
	if (IS_ERR(rt))
		return ERR_CAST(rt);
	if (rt->rt_type != RTN_UNICAST && rt->rt_type != RTN_LOCAL &&
	    rt->rt_type != RTN_MULTICAST) {
		ip_rt_put(rt);
		return ERR_PTR(-EHOSTUNREACH);
	}
	dst_cache_set_ip4(&path->dst, &rt->dst, fl4.saddr);
	return &rt->dst;
}

#if IS_ENABLED(CONFIG_IPV6)
/*
 * Checks that the source is still an address of the netdev @oif, as it may have moved to another
 * host, and that packets leave through that netdev or stay on this host. A tentative address (DAD)
 * is accepted. For IPv4 the IP layer checks both.
 */
static bool rox_leaves_right_v6(const struct rox_path *path, struct net *net, int oif,
				const struct dst_entry *dst)
{
	struct net_device *ndev = dev_get_by_index_rcu(net, oif);

	if (!ndev || !ipv6_chk_addr_and_flags(net, &path->saddr, ndev, false, 0, 0))
		return false;
	return dst->dev == ndev || dst->dev->flags & IFF_LOOPBACK;
}

static struct dst_entry *rox_route_v6(struct rox_path *path, struct net *net)
{
	struct flowi6 fl6 = {
		.daddr = path->daddr,
		.saddr = path->saddr,
		.flowi6_proto = IPPROTO_UDP,
		.fl6_sport = htons(path->sport),
		.fl6_dport = htons(ROX_UDP_PORT),
		.flowlabel = ip6_make_flowinfo(path->tos, htonl(path->flow)),
	};
	struct in6_addr saddr;
	struct dst_entry *dst;

	dst = dst_cache_get_ip6(&path->dst, &saddr);
	if (dst)
		return dst;

	fl6.flowi6_oif = rox_path_oif(path);
	dst = ip6_dst_lookup_flow(net, NULL, &fl6, NULL);
	if (IS_ERR(dst))
		return dst;
	if (!rox_leaves_right_v6(path, net, fl6.flowi6_oif, dst)) {
		dst_release(dst);
		return ERR_PTR(-ENETUNREACH);
	}
	dst_cache_set_ip6(&path->dst, dst, &fl6.saddr);
	return dst;
}
#else
static struct dst_entry *rox_route_v6(struct rox_path *path, struct net *net)
{
	return ERR_PTR(-EAFNOSUPPORT);
}
#endif

struct dst_entry *rox_path_route(struct rox_path *path)
{
	struct net *net = path->ns->net;

	return path->v6 ? rox_route_v6(path, net) : rox_route_v4(path, net);
}

/* ---- addresses ---- */

/* Does the netdev, lo or that of a VRF, bring only packets of this host? Under RCU. */
static bool rox_ndev_is_inside(const struct rox_netns *ns, int ifindex)
{
	const struct net_device *ndev = dev_get_by_index_rcu(ns->net, ifindex);

	return ndev && (ndev->flags & IFF_LOOPBACK || netif_is_l3_master(ndev));
}

/* See rox_path_hears(): packets did not come by the netdev of the path, @own. */
bool rox_path_hears_of(const struct rox_path *path, struct rox_net *net,
		       const struct in6_addr *addr, struct rox_netns *ns, int iif, int own)
{
	/* As in rox_path_hears(). */
	struct in6_addr from = data_race(path->daddr);
	bool other;

	rcu_read_lock();
	other = (rox_addr_find(net, addr, ns, iif) && rox_addr_find(net, addr, ns, own)) ||
		(rox_ndev_is_inside(ns, iif) && !rox_netns_hears(ns, &from));
	rcu_read_unlock();
	return !other;
}

/* Is there a netdev of this index that is up? Under RCU. */
static bool rox_ndev_runs(const struct rox_netns *ns, int ifindex)
{
	const struct net_device *ndev = dev_get_by_index_rcu(ns->net, ifindex);

	return ndev && netif_running(ndev);
}

/* See rox_path_is_local(). Between namespaces there are firewalls and a network. */
static bool rox_path_ends_here(const struct rox_path *path)
{
	const struct rox_netns *ns = path->ns;
	const struct rox_addr *to;
	int oif = rox_path_oif(path);

	to = rox_addr_find(path->net, &path->daddr, ns, oif) ?:
	     rox_addr_find(path->net, &path->daddr, ns, 0);
	return to && rox_addr_find(path->net, &path->saddr, ns, oif) &&
	       rox_ndev_runs(ns, oif) && (to->ifindex == oif || rox_ndev_runs(ns, to->ifindex));
}

/**
 * rox_net_gid_mtu() - finds what packets the netdev of an address carries
 * @net: device
 * @addr: an address of it (IPv4 as a mapped address)
 *
 * A VLAN may have a smaller MTU than the netdev of the device.
 * Any context. Return: the MTU, 4096 if the address is not known.
 */
enum ib_mtu rox_net_gid_mtu(struct rox_net *net, const struct in6_addr *addr)
{
	const struct ib_gid_attr *attr;
	const struct net_device *ndev;
	enum ib_mtu mtu = IB_MTU_4096;

	attr = rdma_find_gid_by_port(net->ibdev, (const union ib_gid *)addr,
				     IB_GID_TYPE_ROCE_UDP_ENCAP, 1, NULL);
	if (IS_ERR(attr))
		return mtu;
	rcu_read_lock();
	ndev = rdma_read_gid_attr_ndev_rcu(attr);
	if (!IS_ERR(ndev))
		mtu = iboe_get_mtu(READ_ONCE(ndev->mtu)) ?: IB_MTU_256;
	rcu_read_unlock();
	rdma_put_gid_attr(attr);
	return mtu;
}

/* If two contexts store a result at the same time, one of them counts. */
bool rox_path_look_local(struct rox_path *path, unsigned long now)
{
	bool local;

	rcu_read_lock();
	local = rox_path_ends_here(path);
	rcu_read_unlock();
	WRITE_ONCE(path->local, now | local);
	return local;
}
