// SPDX-License-Identifier: GPL-2.0
/*
 * Paths: from an address vector to a route, looked up once and checked on each
 * use by the networking core's own means (dst_cache).
 */
#include <linux/inetdevice.h>
#include <linux/jhash.h>
#include <linux/random.h>
#include <net/addrconf.h>
#include <net/ip6_route.h>
#include <net/ip_fib.h>
#include <net/ipv6.h>
#include <net/route.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_cache.h>

#include "internal.h"
#include "../compat/net.h"

#define ROX_DEFAULT_TTL 64

static int ndev_of_gid(const struct rox_dev *dev, const struct ib_gid_attr *attr)
{
	struct net_device *ndev;
	int ifindex = dev->ndev->ifindex;

	rcu_read_lock();
	ndev = rdma_read_gid_attr_ndev_rcu(attr);
	if (!IS_ERR(ndev))
		ifindex = ndev->ifindex;
	rcu_read_unlock();
	return ifindex;
}

/**
 * rox_path_init() - fills a path from an address vector
 * @path: zeroed, or destroyed before
 * @dev: the device
 * @attr: address vector; its sgid_attr is held by the caller
 * @sqpn: local QP number, or 0
 * @dqpn: remote QP number, or 0
 * @gfp: GFP_ATOMIC if it must not sleep
 *
 * Return: 0, -EINVAL for an address vector that is none of RoCE v2, -ENOMEM
 */
int rox_path_init(struct rox_path *path, struct rox_dev *dev,
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

	path->dev = dev;
	path->tos = grh->traffic_class;
	path->ttl = grh->hop_limit ?: ROX_DEFAULT_TTL;
	/* An AH that was made from a completion has the kind of its packet for a level. */
	path->sl = rdma_ah_get_sl(attr) & ROX_PACKET_UDP ? 0 : rdma_ah_get_sl(attr);
	path->flow = grh->flow_label & IB_GRH_FLOWLABEL_MASK;
	path->sport = rdma_get_udp_sport(path->flow, sqpn, dqpn);
	path->oif = ndev_of_gid(dev, sgid);
	path->hash = jhash_2words(ipv6_addr_hash(&path->daddr), path->sport, 0);
	path->local = ~(2 * jiffies);
	atomic_set(&path->ip_id, get_random_u32());

	err = dst_cache_init(&path->dst, gfp);
	if (err)
		return err;
	path->valid = true;
	spin_lock_irqsave(&dev->paths_lock, flags);
	list_add_tail(&path->node, &dev->paths);
	spin_unlock_irqrestore(&dev->paths_lock, flags);
	return 0;
}

/**
 * rox_path_destroy() - lets go of what a path holds
 * @path: initialised, destroyed, or zeroed; nobody sends on it any more
 */
void rox_path_destroy(struct rox_path *path)
{
	unsigned long flags;

	if (path->valid) {
		spin_lock_irqsave(&path->dev->paths_lock, flags);
		list_del(&path->node);
		spin_unlock_irqrestore(&path->dev->paths_lock, flags);
		dst_cache_destroy(&path->dst);
	}
	path->valid = false;
	path->dst.cache = NULL;
}

void rox_path_swap(struct rox_path *a, struct rox_path *b)
{
	struct rox_dev *dev = a->valid ? a->dev : b->dev;
	struct list_head at_a, at_b;
	unsigned long flags;

	if (!a->valid && !b->valid)
		return;
	spin_lock_irqsave(&dev->paths_lock, flags);
	if (a->valid && b->valid)
		list_swap(&a->node, &b->node);
	else if (a->valid)
		list_replace(&a->node, &b->node);
	else
		list_replace(&b->node, &a->node);
	/* These are in the right places now, which the rest is not. */
	at_a = a->node;
	at_b = b->node;
	swap(*a, *b);
	a->node = at_a;
	b->node = at_b;
	spin_unlock_irqrestore(&dev->paths_lock, flags);
}

/*
 * An IPv6 route belongs to its namespace, whose end it must not outlive, whatever
 * becomes of the netdev. Paths that are made meanwhile have none, and get none.
 */
void rox_paths_forget(struct rox_dev *dev)
{
	struct rox_path *path;
	LIST_HEAD(paths);

	spin_lock_irq(&dev->paths_lock);
	list_splice_init(&dev->paths, &paths);
	while (!list_empty(&paths)) {
		path = list_first_entry(&paths, struct rox_path, node);
		list_move_tail(&path->node, &dev->paths);
		dst_cache_reset_now(&path->dst);
		spin_unlock_irq(&dev->paths_lock);
		cond_resched();
		spin_lock_irq(&dev->paths_lock);
	}
	spin_unlock_irq(&dev->paths_lock);
}

/*
 * With an output netdev the IP layer takes whatever has no route to be on the
 * link, even what an unreachable, prohibit or blackhole route is there to stop.
 */
static int refused_v4(struct net *net, const struct flowi4 *flow)
{
	struct flowi4 fl4 = *flow;	/* the look-up may write to it */
	struct fib_result res;
	int err;

	if (ipv4_is_multicast(fl4.daddr))
		return 0;
	err = fib_lookup(net, &fl4, &res, 0);
	return err == -ENETUNREACH ? 0 : err;
}

static struct dst_entry *route_v4(struct rox_path *path, struct net *net)
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
	 * An address of another netdev of this host is reached through lo, and
	 * found only without an output netdev.
	 */
	if (inet_addr_type(net, fl4.daddr) != RTN_LOCAL)
		fl4.flowi4_oif = path->oif;
	rox_flowi4_set_dsfield(&fl4, path->tos);
	err = refused_v4(net, &fl4);
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
 * For IPv4 the IP layer looks after both by itself: that the source is still an
 * address of this host, else it may be another one's by now, and that packets
 * leave through the netdev that has it. An address that is being tried out
 * (DAD) is one already.
 */
static bool leaves_right_v6(const struct rox_path *path, struct net *net,
			    const struct dst_entry *dst)
{
	struct net_device *ndev = dev_get_by_index_rcu(net, path->oif);

	if (!ndev || !ipv6_chk_addr_and_flags(net, &path->saddr, ndev, false, 0, 0))
		return false;
	return dst->dev == ndev || dst->dev->flags & IFF_LOOPBACK;
}

static struct dst_entry *route_v6(struct rox_path *path, struct net *net)
{
	struct flowi6 fl6 = {
		.daddr = path->daddr,
		.saddr = path->saddr,
		.flowi6_oif = path->oif,
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

	dst = ip6_dst_lookup_flow(net, NULL, &fl6, NULL);
	if (IS_ERR(dst))
		return dst;
	if (!leaves_right_v6(path, net, dst)) {
		dst_release(dst);
		return ERR_PTR(-ENETUNREACH);
	}
	dst_cache_set_ip6(&path->dst, dst, &fl6.saddr);
	return dst;
}
#else
static struct dst_entry *route_v6(struct rox_path *path, struct net *net)
{
	return ERR_PTR(-EAFNOSUPPORT);
}
#endif

struct dst_entry *rox_path_route(struct rox_path *path, struct net *net)
{
	return path->v6 ? route_v6(path, net) : route_v4(path, net);
}

/**
 * rox_path_is_local() - does a path lead back to its device?
 * @path: the path
 *
 * Under RCU. Looked up again after a tick, as addresses come and go; an answer
 * of two contexts at once is of one of them.
 */
bool rox_path_is_local(struct rox_path *path)
{
	unsigned long now = 2 * jiffies;
	unsigned long local = READ_ONCE(path->local);

	if (unlikely((local & ~1UL) != now)) {
		local = now | (rox_dev_has_gid(path->dev, &path->daddr, NULL) &&
			       rox_dev_has_gid(path->dev, &path->saddr, NULL));
		WRITE_ONCE(path->local, local);
	}
	return local & 1;
}

/* MTU of the route, or 0 if there is none at the moment. */
static u32 route_mtu(struct rox_path *path)
{
	struct dst_entry *dst;
	struct rox_net *rn;
	u32 mtu = 0;

	local_bh_disable();
	rcu_read_lock();
	rn = READ_ONCE(path->dev->net);
	if (rn && !READ_ONCE(rn->dead)) {
		dst = rox_path_route(path, rn->net);
		if (!IS_ERR(dst)) {
			mtu = dst_mtu(dst);
			dst_release(dst);
		}
	}
	rcu_read_unlock();
	local_bh_enable();
	return mtu;
}

/**
 * rox_path_mtu() - the largest RoCE MTU that fits the netdev and the route
 * @path: a path
 *
 * Return: payload bytes of one packet, one of the values of enum ib_mtu; 0 if
 * even the smallest does not fit
 */
u32 rox_path_mtu(const struct rox_path *path)
{
	u32 mtu = READ_ONCE(path->dev->ndev->mtu);
	u32 route = route_mtu((struct rox_path *)path);
	enum ib_mtu ib;

	if (route)
		mtu = min(mtu, route);
	ib = iboe_get_mtu(mtu);
	return ib ? ib_mtu_enum_to_int(ib) : 0;
}
