// SPDX-License-Identifier: GPL-2.0
/*
 * The carrier UDP: sends a burst in as few frames as possible. Packets of one size share a frame,
 * which the netdev or the networking core cuts into packets (UDP GSO). Short messages of one run
 * also share a frame: the frame of the first message stays open for the others.
 */
#include <linux/ip.h>
#include <linux/module.h>
#include <linux/udp.h>
#include <net/ip.h>
#include <net/ip6_checksum.h>
#include <net/ip6_fib.h>
#include <net/ipv6.h>
#include <net/route.h>
#include <rdma/ib_pack.h>

#include "internal.h"
#include "../compat/net.h"

static bool gso = true;
module_param(gso, bool, 0644);
MODULE_PARM_DESC(gso, "Send packets of one size together, as one UDP GSO frame (default: Y)");

/* Maximum number of packets in a frame: the smallest UDP_MAX_SEGMENTS of all kernels. */
#define MAX_SEGS	64

/* Maximum length of an IP packet. */
#define MAX_IP_LEN	65535U

/* Return value, not an error of the payload: the packets are lost on this host. */
#define LOST		1

/* Return value: the burst does not use the open frame. */
#define ALONE		2

/* Return value: the rest of the burst is sent again later, see struct rox_sender. */
#define REFUSED		3

/* After this many refusals in a row packets count as lost. */
#define MAX_REFUSALS	16

/**
 * struct rox_tx - a burst that is being sent
 * @b: the burst
 * @dst: its route
 * @net: the namespace
 * @ip_len: length of the IP header
 * @pkt: index of the next packet
 * @read: payload bytes that were read
 * @sent: counts packets that were handed to the IP layer
 * @drops: number of packets lost on this host
 * @form: of the first packet, of each middle packet, of the last packet: payload bytes, UDP
 *	payload, BTH with a PSN of 0, packed extended headers
 */
struct rox_tx {
	struct rox_burst *b;
	struct dst_entry *dst;
	struct net *net;
	u32 ip_len;
	u32 pkt;
	u32 read;
	struct rox_sent *sent;
	u32 drops;
	struct rox_tx_form {
		u32 payload;
		u32 total;
		u8 bth[ROX_BTH_LEN];
		u32 ext_len;
		u8 ext[ROX_EXT_MAX];
	} form[3];
};

/**
 * struct rox_tx_group - packets that make one frame
 * @frame: the frame
 * @dst: its route; the group has no reference of its own
 * @net: the namespace
 * @most: number of packets that it has room for
 * @count: number of packets in it
 * @seg: UDP payload of each packet but the last, which may be shorter
 * @total: UDP payload of @most packets
 * @v6: IPv6
 * @hash: flow hash of the path
 * @sl: service level of the path
 * @priority: priority of the frame, for the qdisc
 * @sk: socket of the sender, or NULL
 * @sender: the side that sends, or NULL
 * @resends: it sends refused packets again
 * @psn: PSN of the first packet
 * @idle: no earlier packet of the sender is outstanding
 * @refused: a queue of this host has refused the frame
 * @ip: IP header; length and ID are set at the end
 * @udp: UDP header; the length is set at the end
 * @icrc: the same headers for the ICRC
 * @id: IPv4 ID of the first packet
 */
struct rox_tx_group {
	struct rox_frame frame;
	struct dst_entry *dst;
	struct net *net;
	u32 most;
	u32 count;
	u32 seg;
	u32 total;
	bool v6;
	u32 hash;
	u8 sl;
	u32 priority;
	struct sock *sk;
	struct rox_sender *sender;
	u32 psn;
	bool resends;
	bool idle;
	bool refused;
	union {
		struct iphdr v4;
		struct ipv6hdr v6;
	} ip;
	struct udphdr udp;
	struct rox_icrc_head icrc;
	u16 id;
};

/**
 * struct rox_open_frame - a CPU's frame that stays open for further messages of a run
 * @from: sender of its packets; NULL if no frame is open
 * @group: the frame; with a reference on its route
 * @bytes: payload of its packets
 * @multicast: the packets are for a multicast group
 *
 * The frame is open until the end of the run at most. The runs of a CPU exclude each other, see
 * rox_cpu_enter().
 */
struct rox_open_frame {
	struct rox_endpoint *from;
	struct rox_tx_group group;
	u32 bytes;
	bool multicast;
};

static DEFINE_PER_CPU(struct rox_open_frame, rox_open_frames);

/* Return: the lengths and headers of packet @i. */
static const struct rox_tx_form *rox_form_of(const struct rox_tx *tx, u32 i)
{
	if (!i)
		return &tx->form[0];
	return &tx->form[rox_is_last(tx->b, i) ? 2 : 1];
}

static void rox_form_init(struct rox_tx_form *form, const struct rox_burst *b, u8 opcode, u32 i)
{
	const struct rox_bth bth = rox_burst_bth(b, opcode, i);

	rox_bth_pack(form->bth, &bth);
	form->payload = rox_payload_len(b, i);
	form->ext_len = rox_ext_pack(form->ext, opcode, &b->ext);
	form->total = ROX_BTH_LEN + form->ext_len + ALIGN(form->payload, 4) + ROX_ICRC_LEN;
}

static void rox_forms_init(struct rox_tx *tx)
{
	const struct rox_burst *b = tx->b;

	rox_form_init(&tx->form[0], b, b->op_first, 0);
	if (b->npkts > 2)
		rox_form_init(&tx->form[1], b, b->op_mid, 1);
	if (b->npkts > 1)
		rox_form_init(&tx->form[2], b, b->op_last, b->npkts - 1);
}

/* UDP payload of packet @i. */
static u32 rox_packet_len(const struct rox_tx *tx, u32 i)
{
	return rox_form_of(tx, i)->total;
}

/* May packets of the burst share a frame? */
static bool rox_joins(const struct rox_tx *tx)
{
	return READ_ONCE(gso) && rox_may_share_frame(tx->b, tx->dst);
}

/*
 * Chooses how many packets from tx->pkt on go into one frame. They have one size, but the last may
 * be shorter.
 */
static void rox_choose_group(const struct rox_tx *tx, struct rox_tx_group *g)
{
	const struct rox_burst *b = tx->b;
	u32 max = MAX_IP_LEN - tx->ip_len - sizeof(struct udphdr);
	u32 limit = rox_joins(tx) ? MAX_SEGS : 1;

	g->most = 1;
	g->seg = rox_packet_len(tx, tx->pkt);
	g->total = g->seg;

	limit = min(limit, b->npkts - tx->pkt);
	while (g->most < limit) {
		u32 len = rox_packet_len(tx, tx->pkt + g->most);

		if (len > g->seg || g->total + len > max)
			break;
		g->total += len;
		g->most++;
		if (len < g->seg)
			break;
	}
}

/* The traffic class of the packets of a path. */
static u8 rox_dsfield(const struct rox_path *path)
{
	return path->tos | path->ecn;
}

static void rox_build_ip(const struct rox_path *path, struct rox_tx_group *g)
{
	if (path->v6) {
		ip6_flow_hdr(&g->ip.v6, rox_dsfield(path), htonl(path->flow));
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
		.tos = rox_dsfield(path),
		.frag_off = htons(IP_DF),
		.ttl = path->ttl,
		.protocol = IPPROTO_UDP,
		.saddr = path->saddr.s6_addr32[3],
		.daddr = path->daddr.s6_addr32[3],
	};
}

/* Sets the fields of the headers that are equal in all packets, and reserves IPv4 IDs. */
static void rox_build_headers(struct rox_path *path, struct rox_tx_group *g)
{
	g->v6 = path->v6;
	g->hash = path->hash;
	g->sl = path->sl;
	g->priority = rox_priority(g->dst->dev, path->sl, path->tos);
	rox_build_ip(path, g);
	g->udp = (struct udphdr) {
		.source = htons(path->sport),
		.dest = htons(ROX_UDP_PORT),
	};
	g->id = atomic_fetch_add(g->most, &path->ip_id);
	if (g->v6)
		rox_icrc_head_v6(&g->icrc, &g->ip.v6, &g->udp);
	else
		rox_icrc_head_v4(&g->icrc, &g->ip.v4, &g->udp);
}

/*
 * The longest packet that the route carries. Not what the host has learned from ICMP errors, which
 * anybody may forge: packets that are lost on the way are lost either way, and a forged error must
 * not end connections. The QPs' sockets make the IP layer do the same (IP_PMTUDISC_INTERFACE).
 */
static u32 rox_route_mtu(const struct dst_entry *dst, bool v6)
{
	u32 mtu = dst_metric_raw(dst, RTAX_MTU);

	if (dst_xfrm(dst))
		return dst_mtu(dst);
	if (v6 && container_of(dst, const struct rt6_info, dst)->rt6i_flags & RTF_MODIFIED)
		mtu = 0;
	return mtu ?: READ_ONCE(dst->dev->mtu);
}

/* Begins the frame of a group. The caller has set @most, @seg and @total. Return: 0 or LOST. */
static int rox_begin_group(const struct rox_tx *tx, struct rox_tx_group *g)
{
	g->dst = tx->dst;
	g->net = tx->net;
	g->count = 0;
	g->sk = tx->b->from->sk;
	g->sender = tx->b->sender;
	g->resends = tx->b->resends && !tx->b->unbounded && g->sk;
	g->psn = rox_psn_add(tx->b->psn, tx->pkt);
	g->idle = tx->b->idle && !tx->pkt;
	if (tx->ip_len + sizeof(struct udphdr) + g->seg >
	    rox_route_mtu(tx->dst, tx->b->path->v6))
		return LOST;
	if (rox_frame_begin(&g->frame, tx->dst, tx->ip_len, g->seg, g->total))
		return LOST;
	rox_build_headers(tx->b->path, g);
	return 0;
}

/*
 * Copies the next @len bytes of the payload to @dst. The program may change its buffer at any time,
 * so the ICRC is computed over the copy.
 */
static int rox_copy_payload(struct rox_tx *tx, u8 *dst, u32 len)
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

static int rox_put_payload(struct rox_tx *tx, struct rox_frame *frame, u32 len, u32 *crc)
{
	int err = 0;

	while (len && !err) {
		u32 n = len;
		u8 *dst = rox_frame_space(frame, &n);

		if (!dst)
			return LOST;
		err = rox_copy_payload(tx, dst, n);
		*crc = rox_icrc_update(*crc, dst, n);
		len -= n;
	}
	return err;
}

/* Writes what is behind the BTH of a packet at @p. @crc covers what is before. */
static int rox_write_packet(struct rox_tx *tx, u8 *p, const struct rox_tx_form *form, u32 pad,
			    u32 crc)
{
	u32 at = ROX_BTH_LEN;
	__le32 icrc;
	int err;

	if (form->ext_len)
		memcpy(p + at, form->ext, form->ext_len);
	at += form->ext_len;
	err = rox_copy_payload(tx, p + at, form->payload);
	if (err)
		return err;
	at += form->payload;
	while (pad--)
		p[at++] = 0;
	icrc = rox_icrc_end(rox_icrc_update(crc, p + ROX_BTH_LEN, at - ROX_BTH_LEN));
	memcpy(p + at, &icrc, sizeof(icrc));
	return 0;
}

/*
 * Appends a packet whose BTH is in g->icrc to the group's frame, if no piece of memory has room for
 * all of it.
 */
static noinline int rox_put_pieces(struct rox_tx *tx, struct rox_tx_group *g,
				   const struct rox_tx_form *form, u32 pad)
{
	struct rox_frame *frame = &g->frame;
	u8 tail[3 + ROX_ICRC_LEN] = {};
	__le32 icrc;
	u32 crc;
	int err;

	if (frame->last)
		return LOST;
	if (rox_frame_put(frame, rox_icrc_bth(&g->icrc), ROX_BTH_LEN) ||
	    rox_frame_put(frame, form->ext, form->ext_len))
		return LOST;
	crc = rox_icrc_update(rox_icrc_begin(&g->icrc), form->ext, form->ext_len);
	err = rox_put_payload(tx, frame, form->payload, &crc);
	if (err)
		return err;
	icrc = rox_icrc_end(rox_icrc_update(crc, tail, pad));
	memcpy(tail + pad, &icrc, sizeof(icrc));
	return rox_frame_put(frame, tail, pad + sizeof(icrc)) ? LOST : 0;
}

/* Appends packet @i of the burst to the group's frame. */
static int rox_put_packet(struct rox_tx *tx, struct rox_tx_group *g, u32 i)
{
	const struct rox_tx_form *form = rox_form_of(tx, i);
	u8 *p = rox_frame_whole(&g->frame, form->total);
	u8 *bth = rox_icrc_bth(&g->icrc);
	u32 pad = -form->payload & 3, crc;
	int err;

	memcpy(bth, form->bth, ROX_BTH_LEN);
	rox_bth_set_psn(bth, rox_psn_add(tx->b->psn, i));
	rox_icrc_packet(&g->icrc, form->total, g->id + g->count);
	if (likely(p)) {
		memcpy(p, bth, ROX_BTH_LEN);
		crc = rox_icrc_begin(&g->icrc);
		err = rox_write_packet(tx, p, form, pad, crc);
		if (!err)
			rox_frame_sign(&g->frame, p, crc);
	} else {
		err = rox_put_pieces(tx, g, form, pad);
	}
	if (!err)
		g->count++;
	return err;
}

/*
 * Leaves the UDP checksum to the netdev. A single packet over IPv4 has none, as from adapters: the
 * ICRC covers more. Over IPv6 a checksum of 0 is only for tunnels that both ends were told of (RFC
 * 6935, section 5), and firewalls and connection tracking drop it elsewhere. Packets that are cut
 * from a frame get one, as GSO knows no UDP without it, but for lists.
 */
static void rox_finish_checksum(const struct rox_tx_group *g, struct sk_buff *skb, u32 len)
{
	struct udphdr *udp = udp_hdr(skb);

	if (!g->v6 && (g->count == 1 || g->frame.last))
		return;
	if (g->v6)
		udp->check = ~csum_ipv6_magic(&g->ip.v6.saddr, &g->ip.v6.daddr, len, IPPROTO_UDP,
					      0);
	else
		udp->check = ~csum_tcpudp_magic(g->ip.v4.saddr, g->ip.v4.daddr, len, IPPROTO_UDP,
						0);
	skb->ip_summed = CHECKSUM_PARTIAL;
	skb->csum_start = skb_transport_header(skb) - skb->head;
	skb->csum_offset = offsetof(struct udphdr, check);
}

/*
 * Writes the headers of the packets of a list but the first, whose are those of the frame. GSO sets
 * length, ID and checksum of each IPv4 header when it separates them.
 */
static void rox_finish_list(const struct rox_tx_group *g, struct sk_buff *skb)
{
	struct sk_buff *part;

	skb_walk_frags(skb, part) {
		*ip_hdr(part) = g->ip.v4;
		*udp_hdr(part) = g->udp;
		udp_hdr(part)->len = htons(sizeof(g->udp) + part->len);
	}
	skb_shinfo(skb)->gso_type |= SKB_GSO_FRAGLIST;
	skb->ip_summed = CHECKSUM_UNNECESSARY;
	/* Some kernels look at it nevertheless. */
	skb->csum_start = skb_transport_header(skb) - skb->head;
}

/* Writes the IP and UDP headers of the frame. */
static void rox_finish_headers(struct rox_tx_group *g)
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
	} else {
		*ip_hdr(skb) = g->ip.v4;
		ip_hdr(skb)->tot_len = htons(sizeof(g->ip.v4) + len);
		ip_hdr(skb)->id = htons(g->id);
		skb->protocol = htons(ETH_P_IP);
	}
	rox_finish_checksum(g, skb, len);
	if (g->count > 1) {
		skb_shinfo(skb)->gso_type = SKB_GSO_UDP_L4;
		skb_shinfo(skb)->gso_size = g->seg;
		skb_shinfo(skb)->gso_segs = g->count;
	}
	if (skb_has_frag_list(skb))
		rox_finish_list(g, skb);
}

/*
 * Hands a frame to the IP layer, which frees it in any case. Return: the bytes of its packets from
 * BTH to ICRC; 0 if the frame was dropped. @refused of the group says whether a queue did that.
 */
static u32 rox_udp_output(struct rox_tx_group *g)
{
	struct sk_buff *skb = g->frame.skb;
	u32 octets = skb->len - skb_transport_offset(skb) - sizeof(struct udphdr);
	int err;

	rox_finish_headers(g);
	skb_dst_set_noref(skb, g->dst);
	if (likely(g->sk))
		rox_sock_own(g->sk, skb, g->dst, g->idle);
	skb_set_hash(skb, g->hash, PKT_HASH_TYPE_L4);
	skb->priority = g->priority;
	memset(skb->cb, 0, sizeof(skb->cb));
	err = g->v6 ? ip6_local_out(g->net, g->sk, skb) : ip_local_out(g->net, g->sk, skb);
	g->refused = err == NET_XMIT_DROP;
	/* net_xmit_eval() evaluates its argument twice. */
	return net_xmit_eval(err) ? 0 : octets;
}

/*
 * Counts a frame that was dropped. Return: true if its sender is to send the packets again. Where
 * nothing gets through for long, they count as lost, so that retries and the connection end.
 */
static bool rox_group_dropped(const struct rox_endpoint *from, const struct rox_tx_group *g)
{
	struct rox_sender *sender = g->sender;

	if (!g->refused || !g->resends || sender->refusals >= MAX_REFUSALS) {
		rox_ep_count_add(from, ROX_CNT_TX_DROP, g->count);
		return false;
	}
	rox_ep_count_add(from, ROX_CNT_TX_REFUSED, g->count);
	sender->refusals++;
	if (!sender->refused)
		sender->refused_psn = g->psn;
	sender->refused = true;
	return true;
}

/* A frame was sent. */
static void rox_group_sent(const struct rox_tx_group *g)
{
	if (!g->sender)
		return;
	if (unlikely(g->sender->refusals))
		g->sender->refusals = 0;
	if (g->count > 1)
		rox_frame_was_sent(g->sender, g->psn);
}

/*
 * Builds and sends one frame. Return: LOST without memory or if the packets are longer than the MTU
 * of the route; an error if the payload could not be read; REFUSED if the frame is sent again
 * later; else 0, even if the IP layer drops the frame.
 */
static int rox_send_group(struct rox_tx *tx)
{
	u32 begin = tx->read;
	struct rox_tx_group g;
	u32 octets;
	int err;

	rox_choose_group(tx, &g);
	err = rox_begin_group(tx, &g);
	if (err)
		return err;
	while (g.count < g.most && !err)
		err = rox_put_packet(tx, &g, tx->pkt + g.count);
	if (err) {
		rox_frame_drop(&g.frame);
		return err;
	}
	if (tx->b->handed_at)
		*tx->b->handed_at = ktime_get_ns();
	octets = rox_udp_output(&g);
	if (octets) {
		tx->sent->pkts += g.count;
		tx->sent->octets += octets;
		tx->sent->bytes += tx->read - begin;
		rox_group_sent(&g);
	} else if (rox_group_dropped(tx->b->from, &g)) {
		return REFUSED;
	}
	tx->pkt += g.count;
	return 0;
}

static int rox_send_all(struct rox_tx *tx)
{
	int err = 0;

	while (tx->pkt < tx->b->npkts && !err)
		err = rox_send_group(tx);
	return err;
}

/* Counts the rest of the burst as lost, and skips its payload. */
static int rox_lose_rest(struct rox_tx *tx)
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
	struct rox_open_frame *open = this_cpu_ptr(&rox_open_frames);
	struct rox_endpoint *from = open->from;
	struct rox_tx_group *g = &open->group;
	struct rox_sent sent;

	if (!from)
		return;
	open->from = NULL;
	rcu_read_lock();
	sent = (struct rox_sent) { .pkts = g->count, .bytes = open->bytes };
	sent.octets = g->count ? rox_udp_output(g) : 0;
	if (!g->count)
		rox_frame_drop(&g->frame);
	else if (sent.octets)
		rox_count_sent(from, open->multicast, &sent);
	else
		rox_group_dropped(from, g);
	if (sent.octets)
		rox_group_sent(g);
	dst_release(g->dst);
	rcu_read_unlock();
}

/* Do packets of this path have the same headers as the packets of the group? */
static bool rox_same_headers(const struct rox_tx_group *g, const struct rox_path *path)
{
	if (g->v6 != path->v6 || g->udp.source != htons(path->sport) || g->hash != path->hash ||
	    g->sl != path->sl)
		return false;
	if (path->v6)
		return ipv6_addr_equal(&g->ip.v6.saddr, &path->saddr) &&
		       ipv6_addr_equal(&g->ip.v6.daddr, &path->daddr) &&
		       ip6_flowinfo(&g->ip.v6) ==
			       ip6_make_flowinfo(rox_dsfield(path), htonl(path->flow)) &&
		       g->ip.v6.hop_limit == path->ttl;
	return g->ip.v4.saddr == path->saddr.s6_addr32[3] &&
	       g->ip.v4.daddr == path->daddr.s6_addr32[3] && g->ip.v4.tos == rox_dsfield(path) &&
	       g->ip.v4.ttl == path->ttl;
}

static bool rox_open_fits(const struct rox_open_frame *open, const struct rox_tx *tx)
{
	const struct rox_tx_group *g = &open->group;

	return open->from == tx->b->from && tx->b->npkts == 1 && rox_packet_len(tx, 0) == g->seg &&
	       g->dst == tx->dst && rox_same_headers(g, tx->b->path);
}

/*
 * Opens a frame for a message and those that may follow it. Return: 0, LOST, or ALONE if the burst
 * cannot share a frame.
 */
static int rox_frame_open(struct rox_open_frame *open, const struct rox_tx *tx)
{
	u32 max = MAX_IP_LEN - tx->ip_len - sizeof(struct udphdr);
	const struct rox_burst *b = tx->b;
	struct rox_tx_group *g = &open->group;

	if (!b->follow || b->npkts > 1 || !rox_joins(tx))
		return ALONE;
	g->seg = rox_packet_len(tx, 0);
	g->most = min3(b->follow + 1U, max / g->seg, (u32)MAX_SEGS);
	g->total = g->most * g->seg;
	if (rox_begin_group(tx, g))
		return LOST;
	dst_hold(g->dst);
	open->bytes = 0;
	open->multicast = rox_to_group(b);
	open->from = b->from;
	return 0;
}

/*
 * Puts a message of one packet into the open frame, and opens one if there is none. Return: as
 * rox_frame_open(); an error if the payload could not be read; or REFUSED if packets before these
 * were refused.
 */
static int rox_frame_join(struct rox_tx *tx)
{
	struct rox_open_frame *open = this_cpu_ptr(&rox_open_frames);
	struct rox_tx_group *g = &open->group;
	u32 before;
	int err;

	if (open->from && !rox_open_fits(open, tx))
		rox_xmit_end();
	/* Nothing follows what was refused: it is sent again after that, and in its order. */
	if (unlikely(tx->b->sender && tx->b->sender->refused))
		return REFUSED;
	if (!open->from) {
		err = rox_frame_open(open, tx);
		if (err)
			return err;
	}
	before = g->frame.skb->len;
	err = rox_put_packet(tx, g, 0);
	if (unlikely(err)) {
		/* Send the packets before it, which are complete. */
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

static struct dst_entry *rox_route_of(struct rox_path *path)
{
	struct dst_entry *dst;

	if (!path->valid || READ_ONCE(path->ns->dead))
		return ERR_PTR(-ENETDOWN);
	dst = rox_path_route(path);
	/*
	 * Nothing leaves a netdev without a carrier signal. With the signal the host has also lost
	 * its neighbours. IP output would look for them and fail after seconds; the RDMA core takes
	 * that for a new MAC, and tells clients of the CM that the server is unreachable.
	 */
	if (IS_ERR(dst) || likely(netif_carrier_ok(dst->dev)))
		return dst;
	dst_release(dst);
	return ERR_PTR(-ENETDOWN);
}

int rox_udp_xmit(struct rox_burst *b, struct rox_sent *sent)
{
	struct rox_tx tx = {
		.b = b,
		.ip_len = b->path->v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr),
		.sent = sent,
	};
	int err = LOST;

	/* A QP whose P_Key was removed from the table sends nothing. */
	tx.dst = likely(rox_pkey_valid(b->pkey)) ? rox_route_of(b->path) : ERR_PTR(-EACCES);
	if (!IS_ERR(tx.dst)) {
		tx.net = b->path->ns->net;
		rox_forms_init(&tx);
		err = rox_frame_join(&tx);
		if (err == ALONE)
			err = rox_send_all(&tx);
		dst_release(tx.dst);
	}
	if (err == LOST)
		err = rox_lose_rest(&tx);
	else if (err == REFUSED)
		err = 0;
	if (tx.drops)
		rox_ep_count_add(b->from, ROX_CNT_TX_DROP, tx.drops);
	return err;
}
