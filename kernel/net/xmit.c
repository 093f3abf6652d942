// SPDX-License-Identifier: GPL-2.0
/*
 * Sending: a burst of packets of one QP becomes as few frames as possible, each
 * handed to the IP layer once. Packets of one size go together in a frame that
 * the netdev, or the networking core on its behalf, cuts up (UDP GSO).
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
 * @first: number of the first packet
 * @count: packets
 * @seg: UDP payload of each but the last, which may be shorter
 * @total: UDP payload of all
 * @ip: IP header as it is for the first packet; length and ID to be set
 * @udp: UDP header, likewise
 * @id: IPv4 ID of the first packet
 */
struct group {
	struct rox_frame frame;
	u32 first;
	u32 count;
	u32 seg;
	u32 total;
	union {
		struct iphdr v4;
		struct ipv6hdr v6;
	} ip;
	struct udphdr udp;
	u16 id;
};

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

	g->first = tx->pkt;
	g->count = 1;
	g->seg = packet_len(tx, g->first);
	g->total = g->seg;

	limit = min(limit, b->npkts - g->first);
	while (g->count < limit) {
		u32 len = packet_len(tx, g->first + g->count);

		if (len > g->seg || g->total + len > max)
			break;
		g->total += len;
		g->count++;
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

/* Headers of a group as they are for every packet, and the IDs of its packets. */
static void build_headers(struct rox_path *path, struct group *g)
{
	build_ip(path, g);
	g->udp = (struct udphdr) {
		.source = htons(path->sport),
		.dest = htons(ROX_UDP_PORT),
	};
	g->id = atomic_fetch_add(g->count, &path->ip_id);
}

/* Begins the ICRC of packet @i of the group, with the headers as they will be on the wire. */
static u32 icrc_begin(const struct tx *tx, struct group *g, u32 i, u32 len, const u8 *bth)
{
	g->udp.len = htons(sizeof(g->udp) + len);
	if (tx->b->path->v6) {
		g->ip.v6.payload_len = g->udp.len;
		return rox_icrc_begin_v6(&g->ip.v6, &g->udp, bth);
	}
	g->ip.v4.tot_len = htons(sizeof(g->ip.v4) + sizeof(g->udp) + len);
	g->ip.v4.id = htons((u16)(g->id + i));
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
	crc = icrc_begin(tx, g, i - g->first, total, buf);
	p = rox_frame_whole(&g->frame, total);
	if (unlikely(!p))
		return put_pieces(tx, &g->frame, buf, hdrs, len, bth.pad, crc);
	err = write_packet(tx, p, buf, hdrs, len, bth.pad, crc);
	if (!err)
		rox_frame_sign(&g->frame, p, crc);
	return err;
}

/* Puts IP and UDP headers before the packets. The checksum is left to the netdev. */
static void finish_headers(const struct tx *tx, struct group *g)
{
	struct sk_buff *skb = g->frame.skb;
	struct udphdr *udp = udp_hdr(skb);
	u32 len = sizeof(*udp) + g->total;

	*udp = g->udp;
	udp->len = htons(len);
	if (tx->b->path->v6) {
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

/* Hands a frame to the IP layer, which frees it whatever happens. */
static int output(const struct tx *tx, struct sk_buff *skb)
{
	const struct rox_path *path = tx->b->path;

	skb_dst_set_noref(skb, tx->dst);
	skb_set_hash(skb, path->hash, PKT_HASH_TYPE_L4);
	skb->priority = path->sl ?: rt_tos2priority(path->tos);
	memset(skb->cb, 0, sizeof(skb->cb));
	return path->v6 ? ip6_local_out(tx->net, NULL, skb) : ip_local_out(tx->net, NULL, skb);
}

/*
 * Builds and sends one frame. LOST if it could not be built for want of memory
 * or because the route does not take packets so long; an error of the payload's
 * source; else 0, whatever becomes of the frame.
 */
static int send_group(struct tx *tx)
{
	struct group g;
	u32 begin = tx->read;
	int err = 0;
	u32 i;

	choose_group(tx, &g);
	if (tx->ip_len + sizeof(struct udphdr) + g.seg > dst_mtu(tx->dst))
		return LOST;
	if (rox_frame_begin(&g.frame, tx->dst, tx->ip_len, g.total))
		return LOST;
	build_headers(tx->b->path, &g);
	for (i = 0; i < g.count && !err; i++)
		err = put_packet(tx, &g, g.first + i);
	if (err) {
		rox_frame_drop(&g.frame);
		return err;
	}
	finish_headers(tx, &g);
	/* A macro that evaluates its argument twice. */
	err = output(tx, g.frame.skb);
	if (net_xmit_eval(err)) {
		tx->drops += g.count;
	} else {
		tx->sent += g.count;
		tx->sent_bytes += tx->read - begin;
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
