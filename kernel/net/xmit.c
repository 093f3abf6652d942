// SPDX-License-Identifier: GPL-2.0
/*
 * Sending: a burst of packets of one QP becomes as few frames as possible, each
 * handed to the IP layer once. Packets of one size go together in a frame that
 * the netdev, or the networking core on its behalf, cuts up (UDP GSO). So do the
 * short messages of a run: the frame of the first one stays open for the others.
 */
#include <linux/ip.h>
#include <linux/module.h>
#include <linux/udp.h>
#include <net/ip.h>
#include <net/ip6_checksum.h>
#include <net/ipv6.h>
#include <net/route.h>
#include <rdma/ib_pack.h>

#include "internal.h"
#include "../compat/net.h"
#include "../observe/observe.h"
#include "../observe/trace.h"
#include "../verbs/pkey.h"
#include "../verbs/verbs.h"

static bool gso = true;
module_param(gso, bool, 0644);
MODULE_PARM_DESC(gso, "Send packets of one size together, as one UDP GSO frame (default: Y)");

static bool loopback = true;
module_param(loopback, bool, 0644);
MODULE_PARM_DESC(loopback, "Between QPs of one device, copy without a wire (default: Y)");

/* Packets that others accept in one frame (UDP_MAX_SEGMENTS of all kernels). */
#define MAX_SEGS	64

/* Bytes of an IP packet. */
#define MAX_IP_LEN	65535U

/* Not an error of the payload's source: packets that did not get out of here. */
#define LOST		1

/* Nor is this: the burst makes frames of its own. */
#define ALONE		2

/**
 * struct tx - a burst on its way
 * @b: the burst
 * @dst: its route
 * @net: the namespace
 * @ip_len: bytes of an IP header
 * @pkt: next packet
 * @read: bytes of payload that were read
 * @sent: packets handed over
 * @sent_bytes: their payload
 * @drops: packets lost here
 * @ext: extended headers, packed: of the first packet, of each between, of the last
 */
struct tx {
	struct rox_burst *b;
	struct dst_entry *dst;
	struct net *net;
	u32 ip_len;
	u32 pkt;
	u32 read;
	u32 sent;
	u32 sent_bytes;
	u32 drops;
	struct ext {
		u32 len;
		u8 bytes[ROX_EXT_MAX];
	} ext[3];
};

/**
 * struct group - packets that make one frame
 * @frame: the frame
 * @dst: its route; the group has no reference of its own
 * @net: the namespace
 * @most: packets that it is for
 * @count: packets that are in it
 * @seg: UDP payload of each but the last, which may be shorter
 * @total: UDP payload of as many as it is for
 * @v6: IPv6
 * @hash: as the path has it
 * @priority: for the qdisc
 * @ip: IP header as it is for the first packet; length and ID to be set
 * @udp: UDP header, likewise
 * @id: IPv4 ID of the first packet
 */
struct group {
	struct rox_frame frame;
	struct dst_entry *dst;
	struct net *net;
	u32 most;
	u32 count;
	u32 seg;
	u32 total;
	bool v6;
	u32 hash;
	u32 priority;
	union {
		struct iphdr v4;
		struct ipv6hdr v6;
	} ip;
	struct udphdr udp;
	u16 id;
};

/**
 * struct open_frame - a CPU's frame that waits for the next messages of a run
 * @qp: whose send side runs; NULL: there is no such frame
 * @group: the frame; with a reference on its route
 * @bytes: payload of its packets
 *
 * With bottom halves disabled, from a message to the end of the run.
 */
struct open_frame {
	struct rox_qp *qp;
	struct group group;
	u32 bytes;
};

static DEFINE_PER_CPU(struct open_frame, open_frames);

static bool is_last(const struct rox_burst *b, u32 i)
{
	return i == b->npkts - 1U;
}

static u32 payload_len(const struct rox_burst *b, u32 i)
{
	return is_last(b, i) ? b->len - i * b->mtu : b->mtu;
}

/* The extended headers of packet @i. */
static const struct ext *ext_of(const struct tx *tx, u32 i)
{
	if (!i)
		return &tx->ext[0];
	return &tx->ext[is_last(tx->b, i) ? 2 : 1];
}

static void pack_ext(struct ext *ext, const struct rox_burst *b, u8 opcode)
{
	ext->len = rox_ext_pack(ext->bytes, opcode, &b->ext);
}

static void pack_all_ext(struct tx *tx)
{
	const struct rox_burst *b = tx->b;

	pack_ext(&tx->ext[0], b, b->op_first);
	if (b->npkts > 2)
		pack_ext(&tx->ext[1], b, b->op_mid);
	if (b->npkts > 1)
		pack_ext(&tx->ext[2], b, b->op_last);
}

static u8 opcode_of(const struct rox_burst *b, u32 i)
{
	if (!i)
		return b->op_first;
	return is_last(b, i) ? b->op_last : b->op_mid;
}

/* UDP payload of packet @i. */
static u32 packet_len(const struct tx *tx, u32 i)
{
	return ROX_BTH_LEN + ext_of(tx, i)->len + ALIGN(payload_len(tx->b, i), 4) + ROX_ICRC_LEN;
}

/* Which packets from tx->pkt on go into one frame: of one size, but the last may be shorter. */
static void choose_group(const struct tx *tx, struct group *g)
{
	const struct rox_burst *b = tx->b;
	u32 max = MAX_IP_LEN - tx->ip_len - sizeof(struct udphdr);
	u32 limit = READ_ONCE(gso) ? MAX_SEGS : 1;

	g->most = 1;
	g->seg = packet_len(tx, tx->pkt);
	g->total = g->seg;

	limit = min(limit, b->npkts - tx->pkt);
	while (g->most < limit) {
		u32 len = packet_len(tx, tx->pkt + g->most);

		if (len > g->seg || g->total + len > max)
			break;
		g->total += len;
		g->most++;
		if (len < g->seg)
			break;
	}
}

static void build_ip(const struct rox_path *path, struct group *g)
{
	if (path->v6) {
		ip6_flow_hdr(&g->ip.v6, path->tos, htonl(path->flow));
		g->ip.v6.payload_len = 0;
		g->ip.v6.nexthdr = IPPROTO_UDP;
		g->ip.v6.hop_limit = path->ttl;
		g->ip.v6.saddr = path->saddr;
		g->ip.v6.daddr = path->daddr;
		return;
	}
	g->ip.v4 = (struct iphdr) {
		.version = 4,
		.ihl = sizeof(struct iphdr) / 4,
		.tos = path->tos,
		.frag_off = htons(IP_DF),
		.ttl = path->ttl,
		.protocol = IPPROTO_UDP,
		.saddr = path->saddr.s6_addr32[3],
		.daddr = path->daddr.s6_addr32[3],
	};
}

static u32 priority_of(const struct rox_path *path)
{
	return path->sl ?: rt_tos2priority(path->tos);
}

/* Headers of a group as they are for every packet, and the IDs of its packets. */
static void build_headers(struct rox_path *path, struct group *g)
{
	g->v6 = path->v6;
	g->hash = path->hash;
	g->priority = priority_of(path);
	build_ip(path, g);
	g->udp = (struct udphdr) {
		.source = htons(path->sport),
		.dest = htons(ROX_UDP_PORT),
	};
	g->id = atomic_fetch_add(g->most, &path->ip_id);
}

/* Begins the frame of a group, of which most, seg and total are chosen. 0 or LOST. */
static int begin_group(const struct tx *tx, struct group *g)
{
	g->dst = tx->dst;
	g->net = tx->net;
	g->count = 0;
	if (tx->ip_len + sizeof(struct udphdr) + g->seg > dst_mtu(tx->dst))
		return LOST;
	if (rox_frame_begin(&g->frame, tx->dst, tx->ip_len, g->total))
		return LOST;
	build_headers(tx->b->path, g);
	return 0;
}

/* Begins the ICRC of the group's next packet, with the headers as they will be on the wire. */
static u32 icrc_begin(struct group *g, u32 len, const u8 *bth)
{
	g->udp.len = htons(sizeof(g->udp) + len);
	if (g->v6) {
		g->ip.v6.payload_len = g->udp.len;
		return rox_icrc_begin_v6(&g->ip.v6, &g->udp, bth);
	}
	g->ip.v4.tot_len = htons(sizeof(g->ip.v4) + sizeof(g->udp) + len);
	g->ip.v4.id = htons((u16)(g->id + g->count));
	return rox_icrc_begin_v4(&g->ip.v4, &g->udp, bth);
}

/*
 * Copies the next bytes of the payload to @dst. The program may change its buffer at
 * any time: what counts, also for the ICRC, is the copy.
 */
static int copy_payload(struct tx *tx, u8 *dst, u32 len)
{
	struct rox_burst *b = tx->b;

	if (b->inl) {
		memcpy(dst, b->inl + tx->read, len);
		tx->read += len;
		return 0;
	}
	while (len) {
		void *src;
		ssize_t n = rox_iter_next(b->src, len, &src);

		if (n <= 0)
			return n ? (int)n : -EMSGSIZE;
		memcpy(dst, src, n);
		tx->read += n;
		dst += n;
		len -= n;
	}
	return 0;
}

static int put_payload(struct tx *tx, struct rox_frame *frame, u32 len, u32 *crc)
{
	int err = 0;

	while (len && !err) {
		u32 n = len;
		u8 *dst = rox_frame_space(frame, &n);

		if (!dst)
			return LOST;
		err = copy_payload(tx, dst, n);
		*crc = rox_icrc_update(*crc, dst, n);
		len -= n;
	}
	return err;
}

/*
 * Writes a packet to @p: headers @buf, of @hdrs bytes, payload, pad, ICRC. @crc is that of
 * what comes before the extended headers.
 */
static int write_packet(struct tx *tx, u8 *p, const u8 *buf, u32 hdrs, u32 len, u32 pad, u32 crc)
{
	__le32 icrc;
	int err;

	memcpy(p, buf, hdrs);
	err = copy_payload(tx, p + hdrs, len);
	if (err)
		return err;
	len += hdrs;
	while (pad--)
		p[len++] = 0;
	icrc = rox_icrc_end(rox_icrc_update(crc, p + ROX_BTH_LEN, len - ROX_BTH_LEN));
	memcpy(p + len, &icrc, sizeof(icrc));
	return 0;
}

/* The same, where no piece of memory takes all of it. */
static int put_pieces(struct tx *tx, struct rox_frame *frame, const u8 *buf, u32 hdrs, u32 len,
		      u32 pad, u32 crc)
{
	u8 tail[3 + ROX_ICRC_LEN] = {};
	__le32 icrc;
	int err;

	crc = rox_icrc_update(crc, buf + ROX_BTH_LEN, hdrs - ROX_BTH_LEN);
	if (rox_frame_put(frame, buf, hdrs))
		return LOST;
	err = put_payload(tx, frame, len, &crc);
	if (err)
		return err;
	icrc = rox_icrc_end(rox_icrc_update(crc, tail, pad));
	memcpy(tail + pad, &icrc, sizeof(icrc));
	return rox_frame_put(frame, tail, pad + sizeof(icrc)) ? LOST : 0;
}

/* Appends packet @i of the burst to the group's frame. */
static int put_packet(struct tx *tx, struct group *g, u32 i)
{
	const struct rox_burst *b = tx->b;
	u32 len = payload_len(b, i);
	u8 buf[ROX_BTH_LEN + ROX_EXT_MAX] = {};
	const struct ext *ext = ext_of(tx, i);
	struct rox_bth bth = {
		.opcode = opcode_of(b, i),
		.solicited = b->solicited && is_last(b, i),
		.ackreq = b->ackreq && is_last(b, i),
		.migreq = true,
		.pad = -len & 3,
		.pkey = b->pkey,
		.dqpn = b->dqpn,
		.psn = rox_psn_add(b->psn, i),
	};
	u32 total = packet_len(tx, i);
	u32 hdrs = ROX_BTH_LEN + ext->len;
	u32 crc;
	int err;
	u8 *p;

	rox_bth_pack(buf, &bth);
	memcpy(buf + ROX_BTH_LEN, ext->bytes, ext->len);
	crc = icrc_begin(g, total, buf);
	p = rox_frame_whole(&g->frame, total);
	if (likely(p)) {
		err = write_packet(tx, p, buf, hdrs, len, bth.pad, crc);
		if (!err)
			rox_frame_sign(&g->frame, p, crc);
	} else {
		err = put_pieces(tx, &g->frame, buf, hdrs, len, bth.pad, crc);
	}
	if (!err)
		g->count++;
	return err;
}

/* Puts IP and UDP headers before the packets. The checksum is left to the netdev. */
static void finish_headers(struct group *g)
{
	struct sk_buff *skb = g->frame.skb;
	struct udphdr *udp = udp_hdr(skb);
	u32 len = skb->len - skb_transport_offset(skb);

	*udp = g->udp;
	udp->len = htons(len);
	if (g->v6) {
		*ipv6_hdr(skb) = g->ip.v6;
		ipv6_hdr(skb)->payload_len = htons(len);
		skb->protocol = htons(ETH_P_IPV6);
		udp->check = ~csum_ipv6_magic(&g->ip.v6.saddr, &g->ip.v6.daddr, len,
					      IPPROTO_UDP, 0);
	} else {
		*ip_hdr(skb) = g->ip.v4;
		ip_hdr(skb)->tot_len = htons(sizeof(g->ip.v4) + len);
		ip_hdr(skb)->id = htons(g->id);
		skb->protocol = htons(ETH_P_IP);
		udp->check = ~csum_tcpudp_magic(g->ip.v4.saddr, g->ip.v4.daddr, len,
						IPPROTO_UDP, 0);
	}
	skb->ip_summed = CHECKSUM_PARTIAL;
	skb->csum_start = skb_transport_header(skb) - skb->head;
	skb->csum_offset = offsetof(struct udphdr, check);
	if (g->count > 1) {
		skb_shinfo(skb)->gso_type = SKB_GSO_UDP_L4;
		skb_shinfo(skb)->gso_size = g->seg;
		skb_shinfo(skb)->gso_segs = g->count;
	}
}

/* Hands a frame to the IP layer, which frees it whatever happens. Return: did it get out? */
static bool output(struct group *g)
{
	struct sk_buff *skb = g->frame.skb;
	int err;

	finish_headers(g);
	skb_dst_set_noref(skb, g->dst);
	skb_set_hash(skb, g->hash, PKT_HASH_TYPE_L4);
	skb->priority = g->priority;
	memset(skb->cb, 0, sizeof(skb->cb));
	err = g->v6 ? ip6_local_out(g->net, NULL, skb) : ip_local_out(g->net, NULL, skb);
	/* A macro that evaluates its argument twice. */
	return !net_xmit_eval(err);
}

/*
 * Builds and sends one frame. LOST if it could not be built for want of memory
 * or because the route does not take packets so long; an error of the payload's
 * source; else 0, whatever becomes of the frame.
 */
static int send_group(struct tx *tx)
{
	u32 begin = tx->read;
	struct group g;
	int err;

	choose_group(tx, &g);
	err = begin_group(tx, &g);
	if (err)
		return err;
	while (g.count < g.most && !err)
		err = put_packet(tx, &g, tx->pkt + g.count);
	if (err) {
		rox_frame_drop(&g.frame);
		return err;
	}
	if (output(&g)) {
		tx->sent += g.count;
		tx->sent_bytes += tx->read - begin;
	} else {
		tx->drops += g.count;
	}
	tx->pkt += g.count;
	return 0;
}

static int send_all(struct tx *tx)
{
	int err = 0;

	while (tx->pkt < tx->b->npkts && !err)
		err = send_group(tx);
	return err;
}

/* The rest of the burst is lost: passes over its payload. */
static int lose_rest(struct tx *tx)
{
	struct rox_burst *b = tx->b;
	u32 len = b->len - tx->read;

	tx->drops += b->npkts - tx->pkt;
	while (len && !b->inl) {
		void *src;
		ssize_t n = rox_iter_next(b->src, len, &src);

		if (n <= 0)
			return n ? (int)n : -EMSGSIZE;
		len -= n;
	}
	return 0;
}

/* ---- short messages of a run in one frame ---- */

void rox_xmit_end(void)
{
	struct open_frame *open = this_cpu_ptr(&open_frames);
	struct group *g = &open->group;
	struct rox_qp *qp = open->qp;

	if (!qp)
		return;
	open->qp = NULL;
	rcu_read_lock();
	if (!g->count) {
		rox_frame_drop(&g->frame);
	} else if (output(g)) {
		rox_qp_count_add(qp, ROX_CNT_TX_PKTS, g->count);
		rox_qp_count_add(qp, ROX_CNT_TX_BYTES, open->bytes);
	} else {
		rox_qp_count_add(qp, ROX_CNT_TX_DROP, g->count);
	}
	dst_release(g->dst);
	rcu_read_unlock();
}

/* Would a packet of the path have the headers that the group's packets have? */
static bool same_headers(const struct group *g, const struct rox_path *path)
{
	if (g->v6 != path->v6 || g->udp.source != htons(path->sport) || g->hash != path->hash ||
	    g->priority != priority_of(path))
		return false;
	if (path->v6)
		return ipv6_addr_equal(&g->ip.v6.saddr, &path->saddr) &&
		       ipv6_addr_equal(&g->ip.v6.daddr, &path->daddr) &&
		       ip6_flowinfo(&g->ip.v6) == ip6_make_flowinfo(path->tos, htonl(path->flow)) &&
		       g->ip.v6.hop_limit == path->ttl;
	return g->ip.v4.saddr == path->saddr.s6_addr32[3] &&
	       g->ip.v4.daddr == path->daddr.s6_addr32[3] && g->ip.v4.tos == path->tos &&
	       g->ip.v4.ttl == path->ttl;
}

static bool fits(const struct open_frame *open, const struct tx *tx)
{
	const struct group *g = &open->group;

	return open->qp == tx->b->qp && tx->b->npkts == 1 && packet_len(tx, 0) == g->seg &&
	       g->dst == tx->dst && same_headers(g, tx->b->path);
}

/* A frame for a message and those that are to follow. 0, LOST, or ALONE if it is not worth it. */
static int open_frame(struct open_frame *open, const struct tx *tx)
{
	u32 max = MAX_IP_LEN - tx->ip_len - sizeof(struct udphdr);
	const struct rox_burst *b = tx->b;
	struct group *g = &open->group;

	if (!b->follow || b->npkts > 1 || !READ_ONCE(gso))
		return ALONE;
	g->seg = packet_len(tx, 0);
	g->most = min3(b->follow + 1U, max / g->seg, (u32)MAX_SEGS);
	g->total = g->most * g->seg;
	if (begin_group(tx, g))
		return LOST;
	dst_hold(g->dst);
	open->bytes = 0;
	open->qp = b->qp;
	return 0;
}

/* Puts a message of one packet into the frame that is open for it. Else as open_frame(). */
static int join_frame(struct tx *tx)
{
	struct open_frame *open = this_cpu_ptr(&open_frames);
	struct group *g = &open->group;
	u32 before;
	int err;

	if (open->qp && !fits(open, tx))
		rox_xmit_end();
	if (!open->qp) {
		err = open_frame(open, tx);
		if (err)
			return err;
	}
	before = g->frame.skb->len;
	err = put_packet(tx, g, 0);
	if (unlikely(err)) {
		/* Those before it are complete. */
		if (pskb_trim(g->frame.skb, before))
			g->count = 0;
		rox_xmit_end();
		return err;
	}
	open->bytes += tx->b->len;
	if (g->count == g->most)
		rox_xmit_end();
	return 0;
}

/* ---- a burst ---- */

static struct dst_entry *route_of(const struct rox_path *path, const struct rox_net *rn)
{
	if (!path->valid || !rn || READ_ONCE(rn->dead))
		return ERR_PTR(-ENETDOWN);
	return rox_path_route((struct rox_path *)path, rn->net);
}

static void account(const struct rox_burst *b, u32 pkts, u32 bytes)
{
	rox_qp_count(b->qp, ROX_CNT_TX_BURSTS);
	rox_qp_count_add(b->qp, ROX_CNT_TX_PKTS, pkts);
	rox_qp_count_add(b->qp, ROX_CNT_TX_BYTES, bytes);
	trace_rox_packet_out(b->qp->ibqp.qp_num, b->dqpn, b->op_first, b->psn, b->npkts,
			     b->len);
}

/* Under RCU. */
static noinline int wire_xmit(struct rox_burst *b, const struct rox_net *rn)
{
	struct tx tx = {
		.b = b,
		.ip_len = b->path->v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr),
	};
	int err = LOST;

	/* A QP whose P_Key was taken away is in no partition. */
	tx.dst = likely(rox_pkey_valid(b->pkey)) ? route_of(b->path, rn) : ERR_PTR(-EACCES);
	if (!IS_ERR(tx.dst)) {
		tx.net = rn->net;
		pack_all_ext(&tx);
		err = join_frame(&tx);
		if (err == ALONE)
			err = send_all(&tx);
		dst_release(tx.dst);
	}
	if (err == LOST)
		err = lose_rest(&tx);
	account(b, tx.sent, tx.sent_bytes);
	if (tx.drops)
		rox_qp_count_add(b->qp, ROX_CNT_TX_DROP, tx.drops);
	return err;
}

/* Is there a way around the wire? */
static bool may_loop_back(const struct rox_burst *b, const struct rox_net *rn)
{
	struct rox_path *path = b->path;

	return READ_ONCE(loopback) && path->valid && rn && !READ_ONCE(rn->dead) &&
	       rox_path_is_local(path) && netif_running(path->dev->ndev) &&
	       rox_pkey_valid(b->pkey);
}

int rox_xmit(struct rox_burst *burst)
{
	struct rox_net *rn;
	int err = -ENOLINK;

	rcu_read_lock();
	rn = READ_ONCE(burst->path->dev->net);
	if (may_loop_back(burst, rn))
		err = rox_loopback_xmit(burst);
	if (err == -ENOLINK)
		err = wire_xmit(burst, rn);
	else
		account(burst, err ? 0 : burst->npkts, err ? 0 : burst->len);
	rcu_read_unlock();
	return err;
}
