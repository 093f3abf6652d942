// SPDX-License-Identifier: GPL-2.0
/*
 * Reception: the hooks behind the firewall take every frame to UDP port 4791,
 * whole bursts in one piece, find the QP once per frame, check that the packets
 * are meant for it, and hand the frame to the transport.
 */
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <net/inet_ecn.h>
#include <net/ip.h>
#include <net/ipv6.h>
#include <rdma/ib_cache.h>

#include "internal.h"
#include "../observe/observe.h"
#include "../verbs/mcast.h"
#include "../verbs/pkey.h"

#define QPN_GSI		1U
#define QPN_MULTICAST	ROX_QPN_MASK

/**
 * struct frame - a received frame
 * @rn: where it was received
 * @skb: it; data points at the IP header
 * @hook: the hook's own, for checksums
 * @l4_off: offset of the UDP header
 * @off: offset of the first packet
 * @len: bytes of all packets
 * @seg: bytes of each but the last
 * @saddr: source
 * @daddr: destination
 */
struct frame {
	struct rox_net *rn;
	struct sk_buff *skb;
	const struct nf_hook_state *hook;
	u32 l4_off;
	u32 off;
	u32 len;
	u32 seg;
	struct in6_addr saddr;
	struct in6_addr daddr;
};

bool rox_dev_has_gid(struct rox_dev *dev, const struct in6_addr *addr, struct net_device *ndev)
{
	const struct ib_gid_attr *attr;

	attr = rdma_find_gid_by_port(&dev->ibdev, (const union ib_gid *)addr,
				     IB_GID_TYPE_ROCE_UDP_ENCAP, 1, ndev);
	if (IS_ERR(attr))
		return false;
	rdma_put_gid_attr(attr);
	return true;
}

static struct rox_dev *find_dev(const struct frame *f, struct net_device *ndev)
{
	struct rox_dev *dev;

	list_for_each_entry_rcu(dev, &f->rn->devs, net_node) {
		bool found;

		/* Before it is registered, and after, it has no table of GIDs. */
		if (!ib_device_try_get(&dev->ibdev))
			continue;
		found = rox_dev_has_gid(dev, &f->daddr, ndev);
		ib_device_put(&dev->ibdev);
		if (found)
			return dev;
	}
	return NULL;
}

/*
 * The device that has the frame's destination address; the one on the netdev
 * that received it, if there are more, as with link-local addresses.
 */
static struct rox_dev *frame_dev(const struct frame *f)
{
	struct net_device *ndev = f->skb->dev;
	struct rox_dev *dev = NULL;

	if (ndev && !(ndev->flags & IFF_LOOPBACK))
		dev = find_dev(f, ndev);
	return dev ?: find_dev(f, NULL);
}

static void count_drop(const struct frame *f, struct rox_dev *dev, enum rox_counter why, u32 n)
{
	if (!dev)
		dev = frame_dev(f);
	if (dev)
		rox_count_add(dev, why, n);
}

static bool service_ok(const struct rox_qp *qp, const struct rox_run *run)
{
	u8 service = run->service;

	switch (qp->ibqp.qp_type) {
	case IB_QPT_RC:
		return service == ROX_SERVICE_RC || service == ROX_SERVICE_CNP;
	case IB_QPT_UC:
		return service == ROX_SERVICE_UC || service == ROX_SERVICE_CNP;
	case IB_QPT_UD:
	case IB_QPT_GSI:
		return service == ROX_SERVICE_UD || service == ROX_SERVICE_CNP;
	/* Each is one half of a connection. */
	case IB_QPT_XRC_INI:
		return (service == ROX_SERVICE_XRC && !run->request) ||
		       service == ROX_SERVICE_CNP;
	case IB_QPT_XRC_TGT:
		return (service == ROX_SERVICE_XRC && run->request) ||
		       service == ROX_SERVICE_CNP;
	default:
		return false;
	}
}

/* A connected QP hears its peer only; a datagram QP hears whoever means its device. */
static bool addrs_ok(const struct rox_qp *qp, const struct frame *f)
{
	if (rox_qp_is_connected(qp))
		return rox_qp_is_peer(qp, &f->saddr, &f->daddr);
	return qp->ibqp.qp_type == IB_QPT_GSI || rox_dev_has_gid(qp->dev, &f->daddr, NULL);
}

static bool state_ok(const struct rox_qp *qp)
{
	enum ib_qp_state state = rox_qp_state(qp);

	return state != IB_QPS_RESET && state != IB_QPS_INIT;
}

/* The QP's own key, as it is now; QP 1 is in all partitions of the table. */
static bool pkey_ok(const struct rox_qp *qp, u16 pkey)
{
	if (rox_pkey_match(READ_ONCE(*qp->pkey), pkey))
		return true;
	return qp->ibqp.qp_type == IB_QPT_GSI && rox_pkey_find(qp->dev, pkey) >= 0;
}

/* The QP of a run, with a reference; NULL if there is none in this namespace. */
static struct rox_qp *find_qp(const struct frame *f, const struct rox_run *run)
{
	struct rox_dev *dev = NULL;
	struct rox_qp *qp;

	if (run->dqpn == QPN_GSI) {
		dev = frame_dev(f);
		if (!dev)
			return NULL;
	}
	qp = rox_qp_get(dev, run->dqpn);
	if (qp && READ_ONCE(qp->dev->net) != f->rn) {
		rox_qp_put(qp);
		return NULL;
	}
	return qp;
}

/* The notification says all by itself; what it is to slow down is a later matter. */
static void take_cnp(struct sk_buff *skb)
{
	struct rox_pkt pkt;
	struct rox_rx rx;

	rox_rx_begin(&rx, skb);
	while (rox_rx_next(&rx, &pkt))
		rox_qp_count(rox_skb_cb(skb)->qp, ROX_CNT_RX_CNP);
	kfree_skb(skb);
}

/* Lets go of all that ties a frame to where it came from: it may wait in a queue. */
static void scrub(struct sk_buff *skb)
{
	skb_orphan(skb);
	skb_dst_drop(skb);
	nf_reset_ct(skb);
	skb_ext_reset(skb);
	skb->dev = NULL;
}

static noinline void count_congestion(struct rox_qp *qp, const struct rox_run *run,
				      const struct sk_buff *skb)
{
	u8 dsfield = ip_hdr(skb)->version == 6 ? ipv6_get_dsfield(ipv6_hdr(skb)) :
						 ip_hdr(skb)->tos;

	if (INET_ECN_is_ce(dsfield))
		rox_qp_count_add(qp, ROX_CNT_RX_CE, run->count);
}

/* Gives packets to a QP; takes over @skb. */
static void accept_run(struct rox_qp *qp, const struct rox_run *run, struct sk_buff *skb)
{
	struct rox_skb_cb *cb = rox_skb_cb(skb);

	if (rox_optional(qp->dev, ROX_CNT_RX_CE))
		count_congestion(qp, run, skb);
	scrub(skb);
	cb->qp = qp;
	cb->first = run->first;
	cb->count = run->count;
	cb->local = false;
	cb->checked = false;

	if (run->service == ROX_SERVICE_CNP)
		take_cnp(skb);
	else
		rox_transport_rx(qp, skb, run->request);
}

bool rox_may_accept(struct rox_qp *qp, const struct rox_run *run, bool addressed)
{
	struct rox_dev *dev = qp->dev;

	if (!service_ok(qp, run) || !state_ok(qp) || !addressed) {
		rox_count_add(dev, ROX_CNT_RX_NO_QP, run->count);
		return false;
	}
	if (run->service != ROX_SERVICE_CNP && !pkey_ok(qp, run->pkey)) {
		rox_count_add(dev, ROX_CNT_RX_PKEY, run->count);
		atomic_add(run->count, &dev->pkey_bad);
		return false;
	}
	return true;
}

static bool is_multicast(const struct in6_addr *addr)
{
	return ipv6_addr_is_multicast(addr) ||
	       (ipv6_addr_v4mapped(addr) && ipv4_is_multicast(addr->s6_addr32[3]));
}

/* A copy of a run of packets for each QP in a group; returns the number of QPs that took one. */
static u32 spread(const struct frame *f, const struct rox_run *run, const struct rox_mcg *mcg)
{
	const struct rox_mcg_member *member;
	struct sk_buff *skb;
	struct rox_qp *qp;
	u32 n = 0;

	hlist_for_each_entry_rcu(member, &mcg->members, node) {
		qp = rox_mcg_member_get(member);
		if (!qp)
			continue;
		n++;
		if (rox_may_accept(qp, run, true)) {
			skb = skb_clone(f->skb, GFP_ATOMIC | __GFP_NOWARN);
			if (skb)
				accept_run(qp, run, skb);
			else
				count_drop(f, qp->dev, ROX_CNT_RX_DROP, run->count);
		}
		rox_qp_put(qp);
	}
	return n;
}

/*
 * Packets to the multicast QP number go to whoever is attached to their
 * destination address, on the devices that listen on the netdev that they came to.
 */
static noinline void deliver_multicast(const struct frame *f, const struct rox_run *run, bool last)
{
	const struct rox_mcg *mcg;
	struct rox_dev *dev;
	u32 n = 0;

	if (is_multicast(&f->daddr)) {
		list_for_each_entry_rcu(dev, &f->rn->devs, net_node) {
			mcg = rox_mcg_find(dev, &f->daddr);
			if (mcg && rox_net_joined(&mcg->net, f->skb->dev))
				n += spread(f, run, mcg);
		}
	}
	if (!n)
		count_drop(f, NULL, ROX_CNT_RX_NO_QP, run->count);
	if (last)
		kfree_skb(f->skb);
}

/* Finds out what to do with a run of packets. @last: no other run of the frame follows. */
static void deliver(const struct frame *f, const struct rox_run *run, bool last)
{
	struct sk_buff *skb;
	struct rox_qp *qp;

	if (run->bad) {
		count_drop(f, NULL, ROX_CNT_RX_MALFORMED, run->count);
		goto drop;
	}
	if (unlikely(run->dqpn == QPN_MULTICAST)) {
		deliver_multicast(f, run, last);
		return;
	}
	qp = find_qp(f, run);
	if (!qp) {
		count_drop(f, NULL, ROX_CNT_RX_NO_QP, run->count);
		goto drop;
	}
	if (!rox_may_accept(qp, run, addrs_ok(qp, f))) {
		rox_qp_put(qp);
		goto drop;
	}

	skb = last ? f->skb : skb_clone(f->skb, GFP_ATOMIC | __GFP_NOWARN);
	if (skb)
		accept_run(qp, run, skb);
	else
		count_drop(f, qp->dev, ROX_CNT_RX_DROP, run->count);
	rox_qp_put(qp);
	return;

drop:
	if (last)
		kfree_skb(f->skb);
}

/* What packet @index of the frame is. */
static void classify(const struct frame *f, u32 index, struct rox_run *run)
{
	u32 off = f->off + index * f->seg;
	u8 buf[ROX_BTH_LEN];
	const u8 *p;
	struct rox_bth bth = {};

	*run = (struct rox_run) { .first = index, .count = 1, .bad = true };
	p = skb_header_pointer(f->skb, off, sizeof(buf), buf);
	if (!p)
		return;
	rox_bth_parse(&bth, p);
	if (bth.tver || !(rox_opcodes[bth.opcode].flags & ROX_OP_VALID))
		return;
	run->bad = false;
	run->request = rox_opcodes[bth.opcode].flags & ROX_OP_REQUEST;
	run->service = bth.opcode & ROX_SERVICE_MASK;
	run->pkey = bth.pkey;
	run->dqpn = bth.dqpn;
}

static bool same_run(const struct rox_run *a, const struct rox_run *b)
{
	return a->bad == b->bad && a->request == b->request && a->service == b->service &&
	       a->pkey == b->pkey && a->dqpn == b->dqpn;
}

/* Cuts the frame into runs, nearly always one. */
static void deliver_runs(const struct frame *f)
{
	u32 n = DIV_ROUND_UP(f->len, f->seg);
	struct rox_run run, next;
	u32 i;

	classify(f, 0, &run);
	for (i = 1; i < n; i++) {
		classify(f, i, &next);
		if (same_run(&run, &next)) {
			run.count++;
			continue;
		}
		deliver(f, &run, false);
		run = next;
	}
	deliver(f, &run, true);
}

/*
 * One frame may be for each QP of a group: these are not all run in this softirq. What
 * a program has held back by a rule (NFQUEUE) comes in its own context.
 */
static void demultiplex(const struct frame *f)
{
	bool group = unlikely(is_multicast(&f->daddr));

	local_bh_disable();
	if (group)
		rox_transport_hold();
	deliver_runs(f);
	if (group)
		rox_transport_unhold();
	local_bh_enable();
}

/* A sender may leave the checksum out, over IPv6 as well. */
static bool checksum_ok(const struct frame *f, const struct udphdr *udp)
{
	if (!udp->check || skb_is_gso(f->skb) || skb_csum_unnecessary(f->skb))
		return true;
	return !nf_checksum(f->skb, f->hook->hook, f->l4_off, IPPROTO_UDP, f->hook->pf);
}

static bool lengths_ok(struct frame *f, const struct udphdr *udp)
{
	struct skb_shared_info *info = skb_shinfo(f->skb);
	u32 len = f->skb->len - f->l4_off;

	if (ntohs(udp->len) != len || len < sizeof(*udp) + ROX_BTH_LEN + ROX_ICRC_LEN)
		return false;
	f->off = f->l4_off + sizeof(*udp);
	f->len = len - sizeof(*udp);
	f->seg = f->len;
	if (!skb_is_gso(f->skb))
		return true;
	/* Anything else is not a row of datagrams in one piece of memory. */
	if (!(info->gso_type & SKB_GSO_UDP_L4) || (info->gso_type & SKB_GSO_FRAGLIST))
		return false;
	f->seg = info->gso_size;
	return f->seg >= ROX_BTH_LEN + ROX_ICRC_LEN;
}

/* Takes the frame, whose IP header has passed. NF_ACCEPT if it is none of ours. */
static unsigned int receive(void *priv, struct sk_buff *skb, const struct nf_hook_state *state,
			    u32 l4_off)
{
	struct frame f = { .rn = priv, .skb = skb, .hook = state, .l4_off = l4_off };
	const struct udphdr *udp;

	if (!pskb_may_pull(skb, l4_off + sizeof(*udp)))
		return NF_ACCEPT;
	udp = (const struct udphdr *)(skb->data + l4_off);
	if (udp->dest != htons(ROX_UDP_PORT))
		return NF_ACCEPT;

	rox_skb_addrs(skb, &f.saddr, &f.daddr);
	if (!lengths_ok(&f, udp) || !checksum_ok(&f, udp)) {
		count_drop(&f, NULL, ROX_CNT_RX_MALFORMED, 1);
		kfree_skb(skb);
	} else {
		demultiplex(&f);
	}
	return NF_STOLEN;
}

/* IP headers are linear and checked by the networking core when hooks see them. */

unsigned int rox_hook_v4(void *priv, struct sk_buff *skb, const struct nf_hook_state *state)
{
	const struct iphdr *ip = ip_hdr(skb);

	if (ip->protocol != IPPROTO_UDP || ip_is_fragment(ip) || ip->ihl != sizeof(*ip) / 4)
		return NF_ACCEPT;
	return receive(priv, skb, state, sizeof(*ip));
}

unsigned int rox_hook_v6(void *priv, struct sk_buff *skb, const struct nf_hook_state *state)
{
	if (ipv6_hdr(skb)->nexthdr != IPPROTO_UDP)
		return NF_ACCEPT;
	return receive(priv, skb, state, sizeof(struct ipv6hdr));
}
