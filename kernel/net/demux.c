// SPDX-License-Identifier: GPL-2.0
/*
 * Reception: UDP queues each frame in the socket that owns port 4791, after firewall, IPsec
 * policies and socket filters. From there it is taken at once, in the same softirq. A frame may
 * hold a whole burst. It is cut into runs of packets for one QP and direction, and each run is
 * handed to the transport.
 */
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <net/inet_ecn.h>
#include <net/ip.h>
#include <net/ipv6.h>
#include <net/udp.h>

#include "../compat/net.h"
#include "internal.h"

/**
 * struct rox_in_frame - a received frame
 * @rx: the frame, its namespace and addresses
 * @l4_off: offset of the UDP header
 * @off: offset of the first packet
 * @len: bytes of all packets
 * @seg: bytes of each packet but the last
 */
struct rox_in_frame {
	struct rox_rx_frame rx;
	u32 l4_off;
	u32 off;
	u32 len;
	u32 seg;
};

/* ---- the device that a frame is for ---- */

struct rox_site *rox_frame_next_site(const struct rox_rx_frame *f, struct rox_site *site)
{
	return site ? list_next_or_null_rcu(&f->ns->sites, &site->node, struct rox_site, node) :
		      list_first_or_null_rcu(&f->ns->sites, struct rox_site, node);
}

struct net_device *rox_frame_dev(const struct rox_rx_frame *f)
{
	return dev_get_by_index_rcu(f->ns->net, f->iif);
}

bool rox_netns_hears(struct rox_netns *ns, const struct in6_addr *addr)
{
	struct rox_site *site;

	list_for_each_entry_rcu(site, &ns->sites, node)
		if (rox_net_has_addr_in(site->net, addr, ns))
			return true;
	return false;
}

static bool rox_on_netdev(const struct rox_net *net, int ifindex)
{
	const struct net_device *ndev = rcu_dereference(net->ndev);

	return ndev && ndev->ifindex == ifindex;
}

/*
 * How well does a device suit a frame? 3: it came by the device's own netdev; 2: by another netdev
 * that has the address; 1: only the address is the device's; 0: not even that.
 */
static int rox_net_rank(const struct rox_rx_frame *f, struct rox_net *net)
{
	if (rox_addr_find(net, &f->daddr, f->ns, f->iif))
		return READ_ONCE(net->ns) == f->ns && rox_on_netdev(net, f->iif) ? 3 : 2;
	return rox_addr_find(net, &f->daddr, f->ns, 0) ? 1 : 0;
}

/*
 * Several devices may have the same address, for instance a link-local one. Then a device on the
 * netdev that received the frame is preferred. Of several devices on one netdev the oldest is
 * taken, as the RDMA CM does.
 */
struct rox_net *rox_frame_net(const struct rox_rx_frame *f,
			      bool (*suits)(const struct rox_net *net))
{
	struct rox_net *best = NULL;
	struct rox_site *site;
	int rank, most = 0;

	list_for_each_entry_rcu(site, &f->ns->sites, node) {
		if (suits && !suits(site->net))
			continue;
		rank = rox_net_rank(f, site->net);
		if (rank > most) {
			best = site->net;
			most = rank;
		}
	}
	return best;
}

struct rox_gid_ref rox_frame_gid(const struct rox_rx_frame *f, struct rox_net *net)
{
	return rox_addr_gid(net, &f->daddr, f->ns, f->iif);
}

void rox_frame_count_drop(const struct rox_rx_frame *f, enum rox_counter why, u32 n)
{
	struct rox_net *net = rox_frame_net(f, NULL);

	if (net)
		rox_count_add(net->stats, why, n);
}

bool rox_frame_is_multicast(const struct rox_rx_frame *f)
{
	return rox_is_multicast(&f->daddr);
}

static bool rox_skb_is_marked(const struct sk_buff *skb)
{
	u8 dsfield = ip_hdr(skb)->version == 6 ? ipv6_get_dsfield(ipv6_hdr(skb)) :
						 ip_hdr(skb)->tos;

	return INET_ECN_is_ce(dsfield);
}

bool rox_frame_is_marked(const struct rox_rx_frame *f)
{
	return rox_skb_is_marked(f->skb);
}

void rox_skb_scrub(struct sk_buff *skb)
{
	skb_orphan(skb);
	skb_dst_drop(skb);
	nf_reset_ct(skb);
	skb_ext_reset(skb);
	skb->dev = NULL;
}

void rox_skb_claim(struct sk_buff *skb, struct rox_endpoint *to, const struct rox_run *run)
{
	rox_skb_scrub(skb);
	*rox_skb_cb(skb) = (struct rox_skb_cb) {
		.to = to,
		.first = run->first,
		.count = run->count,
		/* A CNP is not answered by a CNP. */
		.marked = unlikely(rox_skb_is_marked(skb)) && run->service != ROX_SERVICE_CNP,
	};
}

/* ---- runs ---- */

/* Hands a run to the transport. @last: it is the last run of the frame. */
static void rox_deliver(const struct rox_in_frame *f, struct rox_run *run, bool last)
{
	if (likely(!run->bad)) {
		if (unlikely(run->dqpn == ROX_QPN_GSI) && rox_stranger_waits(&f->rx, run, last))
			return;
		rox_receiver->receive(&f->rx, run, last);
		return;
	}
	rox_frame_count_drop(&f->rx, ROX_CNT_RX_MALFORMED, run->count);
	if (last)
		kfree_skb(f->rx.skb);
}

/* Sets @run to packet @index of the frame alone, which has @len bytes. @p: its BTH, or NULL. */
static void rox_classify(const u8 *p, u32 index, u32 len, struct rox_run *run)
{
	struct rox_bth bth = {};

	*run = (struct rox_run) { .first = index, .count = 1, .octets = len, .bad = true };
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

static bool rox_same_run(const struct rox_run *a, const struct rox_run *b)
{
	return a->bad == b->bad && a->request == b->request && a->service == b->service &&
	       a->pkey == b->pkey && a->dqpn == b->dqpn;
}

/* Return: the opcode flags that all packets of a run share. @key: the first bytes of a BTH */
static u8 rox_run_flags(__be64 key)
{
	return rox_opcodes[be64_to_cpu(key) >> 56].flags & (ROX_OP_VALID | ROX_OP_REQUEST);
}

/* Is the packet the first of a message, or one in its middle? @key: the first bytes of its BTH */
static bool rox_message_goes_on(__be64 key)
{
	u8 flags = rox_opcodes[be64_to_cpu(key) >> 56].flags;

	return (flags & (ROX_OP_PAYLOAD | ROX_OP_LAST)) == ROX_OP_PAYLOAD;
}

/*
 * Does the packet continue the good run whose last BTH has @key? Then @key is that of the packet.
 * @p: its BTH, or NULL
 */
static bool rox_run_goes_on(const u8 *p, __be64 *key)
{
	__be64 before = *key;

	if (!p)
		return false;
	*key = rox_bth_key(p);
	return *key == before ||
	       (rox_bth_alike(*key, before) && rox_run_flags(*key) == rox_run_flags(before));
}

/* Takes the full packets that follow in the same piece of memory, and whose BTHs have @key, too. */
static void rox_run_extend(struct rox_run *run, struct rox_rx *walk, __be64 key)
{
	u32 off = walk->off, left = walk->left, seg = walk->seg, n = 0;

	if (left < seg || unlikely(run->bad || walk->part))
		return;
	while (left >= seg && rox_piece_has(&walk->piece, off, ROX_BTH_LEN) &&
	       rox_bth_key(rox_piece_at(&walk->piece, off)) == key) {
		off += seg;
		left -= seg;
		n++;
	}
	walk->off = off;
	walk->left = left;
	walk->index += n;
	run->count += n;
	run->octets += n * seg;
}

/* The BTH of the next packet, which has @len bytes. Return: NULL if the packet is too short. */
static const u8 *rox_next_bth(struct rox_rx *walk, u32 len, u8 *buf)
{
	const u8 *p;

	if (unlikely(len < ROX_BTH_LEN))
		return NULL;
	p = rox_rx_whole(walk, walk->off, ROX_BTH_LEN);
	return likely(p) ? p : skb_header_pointer(walk->skb, walk->off, ROX_BTH_LEN, buf);
}

/* Cuts the frame into runs. Mostly the whole frame is one run. */
static void rox_deliver_runs(const struct rox_in_frame *f)
{
	struct rox_run run = { .bad = true }, next;
	u8 buf[ROX_BTH_LEN], bth[ROX_BTH_LEN] = {};
	struct rox_rx walk;
	__be64 key = 0;
	const u8 *p;
	u32 len;

	rox_rx_walk(&walk, f->rx.skb, f->off, f->len, f->seg);
	for (; walk.left; rox_rx_step(&walk, len), rox_run_extend(&run, &walk, key)) {
		len = rox_rx_len(&walk);
		p = rox_next_bth(&walk, len, buf);
		if (likely(!run.bad && rox_run_goes_on(p, &key))) {
			run.count++;
			run.octets += len;
			continue;
		}
		if (p)
			memcpy(bth, p, ROX_BTH_LEN);
		key = rox_bth_key(bth);
		rox_classify(p ? bth : NULL, walk.index, len, &next);
		if (rox_same_run(&run, &next)) {
			run.count++;
			run.octets += len;
			continue;
		}
		if (run.count)
			rox_deliver(f, &run, false);
		run = next;
	}
	run.goes_on = rox_message_goes_on(key);
	rox_deliver(f, &run, true);
}

/* ---- frames from the socket ---- */

static bool rox_lengths_ok(struct rox_in_frame *f)
{
	struct skb_shared_info *info = skb_shinfo(f->rx.skb);
	u32 len = f->rx.skb->len - f->l4_off;

	if (len < sizeof(struct udphdr) + ROX_BTH_LEN + ROX_ICRC_LEN)
		return false;
	f->off = f->l4_off + sizeof(struct udphdr);
	f->len = len - sizeof(struct udphdr);
	f->seg = f->len;
	if (!skb_is_gso(f->rx.skb))
		return true;
	/* Other types of GSO frames do not hold one datagram after the other. */
	if (!(info->gso_type & SKB_GSO_UDP_L4))
		return false;
	f->seg = info->gso_size;
	return f->seg >= ROX_BTH_LEN + ROX_ICRC_LEN;
}

/* The ICRC covers the IP header as it is without options. */
static bool rox_ip_ok(const struct rox_in_frame *f)
{
	const struct sk_buff *skb = f->rx.skb;

	if (ip_hdr(skb)->version == 6)
		return f->l4_off == sizeof(struct ipv6hdr);
	return f->l4_off == sizeof(struct iphdr);
}

/*
 * The netdev that the frame came by. With a VRF between it and the socket, the IP layer has noted
 * the one below.
 */
static int rox_skb_iif(const struct sk_buff *skb)
{
	int below = ip_hdr(skb)->version == 6 ? inet6_sdif(skb) : inet_sdif(skb);

	return below ?: skb->skb_iif;
}

/* Receives a frame from the socket, whose data begins after the UDP header. */
static void rox_receive_frame(struct rox_netns *ns, struct sk_buff *skb)
{
	struct rox_in_frame f = {
		.rx = { .ns = ns, .skb = skb, .iif = rox_skb_iif(skb) },
		.l4_off = skb_transport_header(skb) - skb_network_header(skb),
	};

	/* UDP has used the pointer to the netdev for something else. */
	skb->dev = NULL;
	__skb_push(skb, skb->data - skb_network_header(skb));
	rox_skb_addrs(skb, &f.rx.saddr, &f.rx.daddr);
	if (rox_ip_ok(&f) && rox_lengths_ok(&f)) {
		rox_deliver_runs(&f);
		return;
	}
	rox_frame_count_drop(&f.rx, ROX_CNT_RX_MALFORMED, 1);
	kfree_skb(skb);
}

/*
 * UDP has queued a frame. Takes all frames that are there, which may include those of other CPUs.
 * The lock keeps the frames of a QP in order until they are in the queue of their side, so the
 * sides run after it.
 */
void rox_sock_ready(struct sock *sk)
{
	struct rox_netns *ns;
	struct sk_buff *skb;

	rcu_read_lock();
	ns = rcu_dereference_sk_user_data(sk);
	if (likely(ns)) {
		local_bh_disable();
		rox_sock_lock(sk);
		while ((skb = rox_sock_next(sk)))
			rox_receive_frame(ns, skb);
		rox_sock_unlock(sk);
		rox_receiver->run();
		local_bh_enable();
	}
	rcu_read_unlock();
}
