// SPDX-License-Identifier: GPL-2.0
/*
 * Packets to QP 1 from hosts that this one has not resolved. To answer a MAD the RDMA core needs
 * its sender's neighbour, and waits for that up to a second, in the one worker that serves the CM
 * of all devices. Requests with forged addresses, which anybody can send, would keep it busy.
 *
 * So such packets wait here, where they keep no worker busy, and go on when the neighbour (or
 * gateway) has answered. After a second they are dropped.
 */
#include <linux/netdevice.h>
#include <linux/slab.h>
#include <net/ip6_route.h>
#include <net/neighbour.h>
#include <net/route.h>

#include "internal.h"
#include "../compat/net.h"

#define ROX_STRANGERS_MAX	256U

/* Bytes of UDP payload that a packet with a MAD has: at most 12 are a DETH and immediate data. */
#define ROX_MAD_PACKET_LEN	(ROX_BTH_LEN + 12U + IB_MGMT_MAD_SIZE + ROX_ICRC_LEN)

#define ROX_STRANGER_PATIENCE	HZ
#define ROX_STRANGERS_PERIOD	max(HZ / 100, 1)

/**
 * struct rox_stranger - a run of packets that waits
 * @node: in struct rox_strangers, oldest first
 * @frame: the frame, which belongs to it
 * @run: the packets
 * @until: when it is dropped (jiffies)
 */
struct rox_stranger {
	struct list_head node;
	struct rox_rx_frame frame;
	struct rox_run run;
	unsigned long until;
};

static void rox_stranger_free(struct rox_stranger *one)
{
	kfree_skb(one->frame.skb);
	kfree(one);
}

/* Frees them, and counts their packets as dropped. Under RCU. */
static void rox_strangers_drop(struct list_head *list)
{
	struct rox_stranger *one, *next;

	list_for_each_entry_safe(one, next, list, node) {
		rox_frame_count_drop(&one->frame, ROX_CNT_RX_DROP, one->run.count);
		rox_stranger_free(one);
	}
}

/* Return: the ifindex of the netdev that has the address which the frame came to; 0 if none has. */
static int rox_frame_oif(const struct rox_rx_frame *f)
{
	struct rox_net *net = rox_frame_net(f, NULL);
	const struct rox_addr *entry = NULL;

	if (net)
		entry = rox_addr_find(net, &f->daddr, f->ns, f->iif) ?:
			rox_addr_find(net, &f->daddr, f->ns, 0);
	return entry ? entry->ifindex : 0;
}

/*
 * Looks up the route to the sender exactly as the RDMA core does (addr_resolve()): by the netdev of
 * the GID. With it an IPv4 address to which there is no route is taken for one on the link.
 * Return: the route, with a reference, or an ERR_PTR.
 */
static struct dst_entry *rox_route_back(const struct rox_rx_frame *f)
{
	int oif = rox_frame_oif(f);
	struct flowi4 fl4 = {
		.daddr = f->saddr.s6_addr32[3],
		.saddr = f->daddr.s6_addr32[3],
		.flowi4_oif = oif,
	};
	struct rtable *rt;
#if IS_ENABLED(CONFIG_IPV6)
	struct flowi6 fl6 = {
		.daddr = f->saddr,
		.saddr = f->daddr,
		.flowi6_oif = oif,
	};

	if (!ipv6_addr_v4mapped(&f->saddr))
		return ip6_dst_lookup_flow(f->ns->net, NULL, &fl6, NULL);
#endif
	rt = ip_route_output_flow(f->ns->net, &fl4, NULL);
	return IS_ERR(rt) ? ERR_CAST(rt) : &rt->dst;
}

/*
 * Is the neighbour resolved? If not, begins to. None can be made while Linux' table is full of
 * them; then the RDMA core would wait as well.
 */
static bool rox_neighbour_known(struct dst_entry *dst, const void *addr)
{
	struct neighbour *neigh;
	bool known;

	if (dst->dev->flags & (IFF_LOOPBACK | IFF_NOARP))
		return true;
	neigh = dst_neigh_lookup(dst, addr);
	if (!neigh)
		return false;
	known = READ_ONCE(neigh->nud_state) & NUD_VALID;
	if (!known)
		neigh_event_send(neigh, NULL);
	neigh_release(neigh);
	return known;
}

/*
 * Can the RDMA core answer without waiting for the sender's neighbour? Without a route it gives up
 * at once, so it does not wait either. Under RCU, bottom halves disabled.
 */
static bool rox_sender_known(const struct rox_rx_frame *f)
{
	const void *addr = &f->saddr;
	struct dst_entry *dst;
	bool known;

	if (ipv6_addr_v4mapped(&f->saddr))
		addr = &f->saddr.s6_addr32[3];
	dst = rox_route_back(f);
	if (IS_ERR(dst))
		return true;
	known = rox_neighbour_known(dst, addr);
	dst_release(dst);
	return known;
}

/*
 * @n of @list are new in the list of those that wait. Moves the oldest of them to @list if they are
 * too many. Under the lock.
 */
static void rox_strangers_added(struct rox_strangers *all, struct list_head *list, u32 n)
{
	for (all->count += n; all->count > ROX_STRANGERS_MAX; all->count--)
		list_move_tail(all->list.next, list);
	schedule_delayed_work(&all->work, ROX_STRANGERS_PERIOD);
}

/* If too many wait, drops the oldest. Return: false if the namespace has been closed. */
static bool rox_strangers_add(struct rox_netns *ns, struct rox_stranger *one)
{
	struct rox_strangers *all = &ns->strangers;
	LIST_HEAD(dropped);
	bool open;

	spin_lock(&all->lock);
	open = READ_ONCE(ns->open);
	if (open) {
		list_add_tail(&one->node, &all->list);
		rox_strangers_added(all, &dropped, 1);
	}
	spin_unlock(&all->lock);
	rox_strangers_drop(&dropped);
	return open;
}

bool rox_stranger_waits(const struct rox_rx_frame *f, const struct rox_run *run, bool last)
{
	struct rox_stranger *one;

	if (rox_sender_known(f))
		return false;
	/* QP 1 takes nothing longer than a MAD. */
	if (run->octets > run->count * ROX_MAD_PACKET_LEN) {
		rox_frame_count_drop(f, ROX_CNT_RX_MALFORMED, run->count);
		if (last)
			kfree_skb(f->skb);
		return true;
	}
	one = kzalloc(sizeof(*one), GFP_ATOMIC | __GFP_NOWARN);
	if (!one)
		return false;
	one->frame = *f;
	one->run = *run;
	one->until = jiffies + ROX_STRANGER_PATIENCE;
	if (!last)
		one->frame.skb = skb_clone(f->skb, GFP_ATOMIC | __GFP_NOWARN);
	if (one->frame.skb)
		rox_skb_scrub(one->frame.skb);
	if (!one->frame.skb || !rox_strangers_add(f->ns, one))
		rox_stranger_free(one);
	return true;
}

/* Puts the @n packets of @waiting back, before those that have come meanwhile. Under RCU. */
static void rox_strangers_put_back(struct rox_netns *ns, struct list_head *waiting, u32 n)
{
	struct rox_strangers *all = &ns->strangers;

	if (!n)
		return;
	spin_lock_bh(&all->lock);
	if (READ_ONCE(ns->open)) {
		list_splice_init(waiting, &all->list);
		rox_strangers_added(all, waiting, n);
	}
	spin_unlock_bh(&all->lock);
	rox_strangers_drop(waiting);
}

static void rox_strangers_work(struct work_struct *work)
{
	struct rox_netns *ns = container_of(work, struct rox_netns, strangers.work.work);
	struct rox_stranger *one, *next;
	LIST_HEAD(waiting);
	u32 n = 0;

	spin_lock_bh(&ns->strangers.lock);
	list_splice_init(&ns->strangers.list, &waiting);
	ns->strangers.count = 0;
	spin_unlock_bh(&ns->strangers.lock);

	rcu_read_lock();
	local_bh_disable();
	list_for_each_entry_safe(one, next, &waiting, node) {
		n++;
		if (rox_sender_known(&one->frame)) {
			rox_receiver->receive(&one->frame, &one->run, true);
			one->frame.skb = NULL;
		} else if (time_before(jiffies, one->until)) {
			continue;
		} else {
			rox_frame_count_drop(&one->frame, ROX_CNT_RX_DROP, one->run.count);
		}
		n--;
		list_del(&one->node);
		rox_stranger_free(one);
	}
	rox_receiver->run();
	local_bh_enable();
	rox_strangers_put_back(ns, &waiting, n);
	rcu_read_unlock();
}

void rox_strangers_init(struct rox_strangers *all)
{
	spin_lock_init(&all->lock);
	INIT_LIST_HEAD(&all->list);
	INIT_DELAYED_WORK(&all->work, rox_strangers_work);
}

void rox_strangers_end(struct rox_strangers *all)
{
	LIST_HEAD(rest);

	spin_lock_bh(&all->lock);
	list_splice_init(&all->list, &rest);
	all->count = 0;
	spin_unlock_bh(&all->lock);
	cancel_delayed_work_sync(&all->work);
	rcu_read_lock();
	rox_strangers_drop(&rest);
	rcu_read_unlock();
}
