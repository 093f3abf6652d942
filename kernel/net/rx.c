// SPDX-License-Identifier: GPL-2.0
/*
 * Received frames: walks their packets, checks lengths and the ICRC, and copies the payload. Does
 * not make frames linear. Reads nothing in a frame twice except the payload. But demux.c has read
 * the BTHs before, and a program of this host can change them since.
 */
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/module.h>
#include <linux/udp.h>
#include <linux/if_vlan.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_pack.h>

#include "internal.h"

static bool recheck;
module_param(recheck, bool, 0644);
MODULE_PARM_DESC(recheck, "Compute the ICRC also of packets that have been on no wire (default: N)");

static struct rox_local_hdr *rox_local_hdr(const struct sk_buff *skb)
{
	return (struct rox_local_hdr *)skb->data;
}

/*
 * Is what the sk_buff has as its sender made it, who has left the UDP checksum to a netdev? Then it
 * has been on no wire: a netdev that sends it to one computes the checksum, and whatever changes it
 * on its way has to do that before. So the networking core relies on such data (CHECKSUM_PARTIAL).
 * Guests tell each other by VIRTIO_NET_HDR_F_NEEDS_CSUM. UDP has gone past its header, and has
 * cleared CHECKSUM_PARTIAL, but the place of the checksum is left.
 */
static bool rox_skb_is_unsent(const struct sk_buff *skb)
{
	return skb->csum_start == skb->transport_header &&
	       skb->csum_offset == offsetof(struct udphdr, check) &&
	       skb->ip_summed != CHECKSUM_COMPLETE;
}

/*
 * The packets of a GSO frame have the same headers, which NAT, for instance, may have changed. So
 * the ICRC of one packet shows that the headers are right. Packets that GRO has joined are in a
 * list, and may come from a wire.
 */
static bool rox_frame_is_unsent(const struct sk_buff *skb)
{
	return skb_is_gso(skb) && !skb_has_frag_list(skb) && rox_skb_is_unsent(skb);
}

/* UDP has not gone past the headers of packets in a list, but for the first. */
static bool rox_packet_is_unsent(const struct rox_rx *rx)
{
	if (READ_ONCE(recheck))
		return false;
	if (rx->part && rx->part != rx->skb)
		return rx->part->ip_summed == CHECKSUM_PARTIAL;
	return rox_skb_is_unsent(rx->skb);
}

/* Leaves @count packets of the walk, from that with index @first on. */
static void rox_rx_narrow(struct rox_rx *rx, u32 first, u32 count)
{
	struct rox_rx end;

	if (likely(!rx->part)) {
		rx->index = first;
		rx->off += first * rx->seg;
		rx->left = min(rx->left - first * rx->seg, count * rx->seg);
		return;
	}
	while (rx->index < first && rx->part)
		rox_rx_step(rx, rox_rx_len(rx));
	end = *rx;
	while (end.index < first + count && end.part)
		rox_rx_step(&end, rox_rx_len(&end));
	rx->left = end.off - rx->off;
}

/**
 * rox_rx_begin() - begins a walk over the packets of a frame
 * @rx: the walk
 * @skb: the frame, as it was handed to the receiver
 */
void rox_rx_begin(struct rox_rx *rx, struct sk_buff *skb)
{
	const struct rox_skb_cb *cb = rox_skb_cb(skb);
	u32 off, len;

	if (cb->local) {
		rox_rx_walk(rx, skb, 0, 1, 1);
		return;
	}
	rx->v6 = ip_hdr(skb)->version == 6;
	rx->fixed_id = skb_shinfo(skb)->gso_type & SKB_GSO_TCP_FIXEDID;
	rx->l4_off = rx->v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr);
	rx->has_head = false;
	rx->unsent = rox_frame_is_unsent(skb) && !READ_ONCE(recheck);
	rx->proved = cb->proved;
	off = rx->l4_off + sizeof(struct udphdr);
	len = skb->len - off;
	rox_rx_walk(rx, skb, off, len, skb_is_gso(skb) ? skb_shinfo(skb)->gso_size : len);
	rox_rx_narrow(rx, cb->first, cb->count);
}

/* Sets the IP and UDP headers in rx->head. Length and IPv4 ID are set for each packet. */
static void rox_rx_head(struct rox_rx *rx)
{
	const u8 *data = rx->skb->data;
	const struct udphdr *udp = (const struct udphdr *)(data + rx->l4_off);

	if (rx->v6) {
		rox_icrc_head_v6(&rx->head, (const struct ipv6hdr *)data, udp);
	} else {
		rox_icrc_head_v4(&rx->head, (const struct iphdr *)data, udp);
		rx->id = ntohs(rx->head.v4.id);
	}
	rx->has_head = true;
}

/*
 * A frame came as its sender made it, from another guest of the machine. If it comes so all the
 * time, the sender can leave out ICRCs that are not looked at.
 */
static void rox_rx_uncut(struct rox_endpoint *to)
{
	if (time_before(jiffies, READ_ONCE(to->uncut_at) + ROX_UNCUT_TOLD))
		return;
	WRITE_ONCE(to->uncut_at, jiffies);
	WRITE_ONCE(to->uncut, true);
}

/* Has a sender of this machine signed the packet at @whole, which is in rx->piece? */
static bool rox_rx_signed(struct rox_rx *rx, const u8 *whole)
{
	struct rox_rx_piece *piece = &rx->piece;
	u32 origin;

	if (!piece->page || READ_ONCE(recheck))
		return false;
	if (unlikely(!rx->piece_known)) {
		if (!rox_frame_knows(piece->page)) {
			piece->page = NULL;
			return false;
		}
		rx->piece_known = true;
	}
	if (!rox_frame_signed(piece->page, whole, rox_icrc_mark(&rx->head), &origin))
		return false;
	rox_near_tell(origin);
	return true;
}

/* Is the ICRC of a packet in several pieces right? @crc: CRC of its headers */
static noinline bool rox_icrc_fits_pieces(const struct rox_rx *rx, u32 len, u32 crc)
{
	u32 off = rx->off + ROX_BTH_LEN, end = rx->off + len - ROX_ICRC_LEN, n;
	struct rox_rx_piece piece = {};
	__le32 icrc;

	for (; off < end; off += n) {
		const u8 *p;

		n = end - off;
		p = rox_piece_find(rx->skb, &piece, off, &n);
		if (!p)
			return false;
		crc = rox_icrc_update(crc, p, n);
	}
	if (likely(rox_piece_has(&piece, end, sizeof(icrc))))
		memcpy(&icrc, rox_piece_at(&piece, end), sizeof(icrc));
	else if (skb_copy_bits(rx->skb, end, &icrc, sizeof(icrc)))
		return false;
	return icrc == rox_icrc_end(crc);
}

/* The same of one in one piece, at @whole. */
static bool rox_icrc_fits_whole(const u8 *whole, u32 len, u32 crc)
{
	__le32 icrc;

	memcpy(&icrc, whole + len - ROX_ICRC_LEN, sizeof(icrc));
	return icrc == rox_icrc_end(rox_icrc_update(crc, whole + ROX_BTH_LEN,
						    len - ROX_BTH_LEN - ROX_ICRC_LEN));
}

/* Does a packet that was on no wire have a CRC of its headers alone, which is @crc? */
static bool rox_icrc_is_bare(const struct rox_rx *rx, u32 len, const u8 *whole, u32 crc)
{
	__le32 icrc;

	if (!rox_packet_is_unsent(rx))
		return false;
	if (likely(whole))
		memcpy(&icrc, whole + len - ROX_ICRC_LEN, sizeof(icrc));
	else if (skb_copy_bits(rx->skb, rx->off + len - ROX_ICRC_LEN, &icrc, sizeof(icrc)))
		return false;
	return icrc == rox_icrc_bare(crc);
}

/*
 * Is the ICRC of the packet at rx->off, whose BTH is in rx->head, right if its IPv4 ID is that much
 * above that of the first packet? @whole: the packet, if it is in one piece, else NULL. If the
 * packet is in one piece and signed, the payload is not read.
 */
static bool rox_icrc_fits(struct rox_rx *rx, u32 len, const u8 *whole, u32 id_off)
{
	struct rox_endpoint *to = rox_skb_cb(rx->skb)->to;
	bool fits;
	u32 crc;

	rox_icrc_packet(&rx->head, len, rx->id + id_off);
	if (likely(whole) && rox_rx_signed(rx, whole)) {
		rox_ep_count(to, ROX_CNT_RX_ICRC_KNOWN);
		return true;
	}
	crc = rox_icrc_begin(&rx->head);
	if (rox_icrc_is_bare(rx, len, whole, crc)) {
		rox_ep_count(to, ROX_CNT_RX_ICRC_KNOWN);
		fits = true;
	} else if (likely(whole)) {
		fits = rox_icrc_fits_whole(whole, len, crc);
	} else {
		fits = rox_icrc_fits_pieces(rx, len, crc);
	}
	if (fits && rx->unsent)
		rox_rx_uncut(to);
	return fits;
}

/* rox_icrc_ok() where the headers of the packet, at least, are in question. */
static noinline bool rox_icrc_check(struct rox_rx *rx, u32 len, const u8 *whole)
{
	if (rox_icrc_fits(rx, len, whole, rx->fixed_id ? 0 : rx->index)) {
		rx->proved = true;
		return true;
	}

	/* GRO may join packets that all have the same ID, without setting the flag for it. */
	if (!rx->index || rx->v6 || rx->fixed_id || !rox_icrc_fits(rx, len, whole, 0))
		return false;
	rx->fixed_id = true;
	return true;
}

/* Are the packets left right, as far as the ICRC tells? */
static bool rox_rx_is_proved(const struct rox_rx *rx)
{
	return rx->unsent && rx->proved;
}

static bool rox_icrc_ok(struct rox_rx *rx, u32 len, const u8 *whole)
{
	if (!rox_rx_is_proved(rx))
		return rox_icrc_check(rx, len, whole);
	rox_ep_count(rox_skb_cb(rx->skb)->to, ROX_CNT_RX_ICRC_KNOWN);
	return true;
}

/* Reads the extended headers of a packet that is in several pieces. */
static noinline bool rox_parse_ext_pieces(const struct rox_rx *rx, struct rox_pkt *pkt)
{
	u8 buf[ROX_EXT_MAX];
	const u8 *ext;

	ext = skb_header_pointer(rx->skb, rx->off + ROX_BTH_LEN, pkt->info->ext_len, buf);
	if (!ext)
		return false;
	rox_ext_parse(&pkt->ext, pkt->bth.opcode, ext);
	return true;
}

/*
 * Parses the packet at rx->off, which has @len bytes of UDP payload. Reads nothing beyond the
 * packet, and leaves its BTH in rx->head. Return: false if the packet is malformed.
 */
static bool rox_parse_packet(struct rox_rx *rx, struct rox_pkt *pkt, u32 len, const u8 *whole)
{
	u8 *bth = rx->head.bth;
	const u8 *begin;
	u32 hdrs;

	if (len < ROX_BTH_LEN + ROX_ICRC_LEN || len % 4)
		return false;
	begin = whole ?: rox_rx_whole(rx, rx->off, ROX_BTH_LEN);
	if (likely(begin))
		memcpy(bth, begin, ROX_BTH_LEN);
	else if (skb_copy_bits(rx->skb, rx->off, bth, ROX_BTH_LEN))
		return false;
	rox_bth_parse(&pkt->bth, bth);
	pkt->info = &rox_opcodes[pkt->bth.opcode];
	if (pkt->bth.tver || !(pkt->info->flags & ROX_OP_VALID))
		return false;

	hdrs = ROX_BTH_LEN + pkt->info->ext_len;
	if (len < hdrs + pkt->bth.pad + ROX_ICRC_LEN)
		return false;
	pkt->npkts = 1;
	pkt->burst = NULL;
	pkt->skb = rx->skb;
	pkt->payload_off = rx->off + hdrs;
	pkt->payload = whole ? whole + hdrs : NULL;
	pkt->payload_len = len - hdrs - pkt->bth.pad - ROX_ICRC_LEN;
	if ((pkt->payload_len || pkt->bth.pad) && !(pkt->info->flags & ROX_OP_PAYLOAD))
		return false;

	if (!pkt->info->ext)
		return true;
	if (unlikely(!whole))
		return rox_parse_ext_pieces(rx, pkt);
	rox_ext_parse(&pkt->ext, pkt->bth.opcode, whole + ROX_BTH_LEN);
	return true;
}

/* A loopback frame has one packet, which needs no checks. */
static bool rox_next_local(struct rox_rx *rx, struct rox_pkt *pkt)
{
	struct rox_local_hdr *hdr = rox_local_hdr(rx->skb);

	if (!rx->left)
		return false;
	rx->left = 0;
	rox_local_pkt(&hdr->burst, 0, hdr->burst.npkts, pkt);
	pkt->skb = rx->skb;
	pkt->payload_off += sizeof(*hdr);
	return true;
}

/* Finds the next good packet of a UDP frame. */
static bool rox_next_wire(struct rox_rx *rx, struct rox_pkt *pkt)
{
	const struct rox_endpoint *to = rox_skb_cb(rx->skb)->to;
	bool found = false;

	if (unlikely(!rx->has_head))
		rox_rx_head(rx);
	while (rx->left && !found) {
		u32 len = rox_rx_len(rx);
		const u8 *whole = rox_rx_whole(rx, rx->off, len);

		if (!rox_parse_packet(rx, pkt, len, whole))
			rox_ep_count(to, ROX_CNT_RX_MALFORMED);
		else if (!rox_skb_cb(rx->skb)->checked && !rox_icrc_ok(rx, len, whole))
			rox_ep_count(to, ROX_CNT_RX_ICRC);
		else
			found = true;
		rox_rx_step(rx, len);
	}
	return found;
}

static noinline void rox_rx_marked(struct rox_endpoint *to)
{
	rox_ep_count(to, ROX_CNT_NP_ECN_MARKED);
	WRITE_ONCE(to->marked, true);
}

/**
 * rox_rx_next() - finds the next good packet of a frame
 * @rx: the walk
 * @pkt: filled
 *
 * Packets that are malformed or have a wrong ICRC are counted and skipped. Bottom halves disabled.
 *
 * Return: false if there is no further packet
 */
bool rox_rx_next(struct rox_rx *rx, struct rox_pkt *pkt)
{
	const struct rox_skb_cb *cb = rox_skb_cb(rx->skb);

	if (!(cb->local ? rox_next_local(rx, pkt) : rox_next_wire(rx, pkt)))
		return false;
	if (unlikely(cb->checked))
		return true;
	rox_ep_count_add(cb->to, ROX_CNT_RX_PKTS, pkt->npkts);
	rox_ep_count_add(cb->to, ROX_CNT_RX_BYTES, pkt->payload_len);
	if (unlikely(cb->marked))
		rox_rx_marked(cb->to);
	return true;
}

/**
 * struct rox_alike - packets that continue a message
 * @key: first bytes of the BTH that all of them have
 * @psn: PSN of the next one
 * @most: how many there may be
 * @asked: bit 7: one of those that were found asks for an ACK
 */
struct rox_alike {
	__be64 key;
	u32 psn;
	u32 most;
	u8 asked;
};

/* Is the packet whose BTH is at @bth the next of those? */
static inline bool rox_is_alike(const struct rox_alike *like, const u8 *bth)
{
	__be32 word;

	memcpy(&word, bth + sizeof(like->key), sizeof(word));
	return rox_bth_equal(like->key, rox_bth_key(bth)) &&
	       (be32_to_cpu(word) & ROX_PSN_MASK) == like->psn;
}

/* Moves past them, and checks the ICRC of each, if need be. Return: their number. */
static u32 rox_skip_alike(struct rox_rx *rx, struct rox_alike *like)
{
	const struct rox_skb_cb *cb = rox_skb_cb(rx->skb);
	const bool proved = rox_rx_is_proved(rx), checks = !cb->checked && !proved;
	u32 n = 0;

	while (n < like->most) {
		const u8 *bth = rox_rx_whole(rx, rx->off, ROX_BTH_LEN);

		if (!bth || !rox_is_alike(like, bth))
			break;
		if (checks) {
			memcpy(rx->head.bth, bth, ROX_BTH_LEN);
			if (!rox_icrc_ok(rx, rx->seg, rox_rx_whole(rx, rx->off, rx->seg)))
				break;
		}
		like->psn = rox_psn_add(like->psn, 1);
		like->asked |= bth[sizeof(like->key)];
		rox_rx_step(rx, rx->seg);
		n++;
	}
	if (proved && !cb->checked)
		rox_ep_count_add(cb->to, ROX_CNT_RX_ICRC_KNOWN, n);
	return n;
}

/**
 * rox_rx_join() - joins the packets that continue a message
 * @rx: the walk
 * @pkt: the last packet that it found: the middle of a message, without extended headers
 * @most: the packets together have fewer bytes
 *
 * Stops at the first packet that is not a MIDDLE packet of full length with the next PSN and a
 * right ICRC. rox_rx_next() then finds that packet. Bottom halves disabled.
 */
void rox_rx_join(struct rox_rx *rx, struct rox_pkt *pkt, u32 most)
{
	const struct rox_skb_cb *cb = rox_skb_cb(rx->skb);
	u32 size = pkt->payload_len, n;
	struct rox_alike like;

	if (pkt->burst || rx->part || !size || size >= most || pkt->bth.pad)
		return;
	like = (struct rox_alike) {
		.key = rox_bth_key(rx->head.bth),
		.psn = rox_psn_add(pkt->bth.psn, 1),
		.most = min((most - 1) / size - 1, rx->left / rx->seg),
	};
	n = rox_skip_alike(rx, &like);
	if (!n)
		return;
	pkt->bth.ackreq |= like.asked >> 7;
	pkt->payload = NULL;
	pkt->stride = rx->seg;
	pkt->npkts += n;
	pkt->payload_len += n * size;
	if (unlikely(cb->checked))
		return;
	rox_ep_count_add(cb->to, ROX_CNT_RX_PKTS, n);
	rox_ep_count_add(cb->to, ROX_CNT_RX_BYTES, n * size);
	if (unlikely(cb->marked))
		rox_ep_count_add(cb->to, ROX_CNT_NP_ECN_MARKED, n);
}

bool rox_rx_cut(struct rox_rx *rx)
{
	struct rox_skb_cb *cb = rox_skb_cb(rx->skb);

	if (!rx->left)
		return false;
	if (!cb->local) {
		cb->count -= rx->index - cb->first;
		cb->first = rx->index;
		cb->proved = rx->proved;
	}
	return true;
}

/**
 * rox_skb_addrs() - reads the addresses of a frame
 * @skb: the frame; data points at the IP header
 * @saddr: source, IPv4 mapped into IPv6
 * @daddr: destination, likewise
 */
void rox_skb_addrs(const struct sk_buff *skb, struct in6_addr *saddr, struct in6_addr *daddr)
{
	if (ip_hdr(skb)->version == 6) {
		*saddr = ipv6_hdr(skb)->saddr;
		*daddr = ipv6_hdr(skb)->daddr;
	} else {
		ipv6_addr_set_v4mapped(ip_hdr(skb)->saddr, saddr);
		ipv6_addr_set_v4mapped(ip_hdr(skb)->daddr, daddr);
	}
}

bool rox_pkt_is_v6(const struct rox_pkt *pkt)
{
	if (!pkt->burst)
		return ip_hdr(pkt->skb)->version == 6;
	return pkt->skb ? *rox_local_hdr(pkt->skb)->grh : pkt->burst->path->v6;
}

void rox_pkt_addrs(const struct rox_pkt *pkt, struct in6_addr *saddr, struct in6_addr *daddr)
{
	u8 grh[ROX_GRH_LEN];

	if (!pkt->burst) {
		rox_skb_addrs(pkt->skb, saddr, daddr);
		return;
	}
	rox_pkt_grh(pkt, grh);
	if (rox_pkt_is_v6(pkt)) {
		*saddr = ((struct ipv6hdr *)grh)->saddr;
		*daddr = ((struct ipv6hdr *)grh)->daddr;
	} else {
		struct iphdr *ip = (struct iphdr *)(grh + ROX_GRH_LEN - sizeof(*ip));

		ipv6_addr_set_v4mapped(ip->saddr, saddr);
		ipv6_addr_set_v4mapped(ip->daddr, daddr);
	}
}

/* The length in the header is that of the packet, not of the whole frame. */
static void rox_skb_grh(const struct rox_pkt *pkt, u8 grh[ROX_GRH_LEN])
{
	u16 len = sizeof(struct udphdr) + ROX_BTH_LEN + pkt->info->ext_len + pkt->payload_len +
		  pkt->bth.pad + ROX_ICRC_LEN;

	if (ip_hdr(pkt->skb)->version == 6) {
		struct ipv6hdr ip = *ipv6_hdr(pkt->skb);

		ip.payload_len = htons(len);
		memcpy(grh, &ip, sizeof(ip));
	} else {
		struct iphdr ip = *ip_hdr(pkt->skb);

		ip.tot_len = htons(sizeof(ip) + len);
		memset(grh, 0, ROX_GRH_LEN - sizeof(ip));
		memcpy(grh + ROX_GRH_LEN - sizeof(ip), &ip, sizeof(ip));
	}
}

/**
 * rox_pkt_grh() - writes the network header that a UD receive has before its payload
 * @pkt: the packet
 * @grh: filled: an IPv6 header, or 20 bytes of 0 and an IPv4 header
 */
void rox_pkt_grh(const struct rox_pkt *pkt, u8 grh[ROX_GRH_LEN])
{
	if (!pkt->burst)
		rox_skb_grh(pkt, grh);
	else if (pkt->skb)
		memcpy(grh, rox_local_hdr(pkt->skb)->grh, ROX_GRH_LEN);
	else
		rox_local_grh(pkt->burst, grh);
}

struct rox_gid_ref rox_pkt_gid(const struct rox_pkt *pkt)
{
	return pkt->skb ? rox_skb_cb(pkt->skb)->gid : rox_local_gid(pkt->burst);
}

/**
 * rox_pkt_vlan() - finds the VLAN that a datagram came by
 * @net: device of its receiver
 * @pkt: the packet
 *
 * The CM finds the GID of a packet by address and VLAN, where the same address may be on several
 * VLANs. Any context. Return: VLAN ID, or 0 if there is none.
 */
u16 rox_pkt_vlan(struct rox_net *net, const struct rox_pkt *pkt)
{
	struct rox_gid_ref gid = rox_pkt_gid(pkt);
	const struct ib_gid_attr *attr;
	u16 vlan;
	int err;

	if (!gid.known)
		return 0;
	attr = rdma_get_gid_attr(net->ibdev, 1, gid.index);
	if (IS_ERR(attr))
		return 0;
	err = rdma_read_gid_l2_fields(attr, &vlan, NULL);
	rdma_put_gid_attr(attr);
	return err || vlan >= VLAN_N_VID ? 0 : vlan;
}

/* Copies @len bytes at @off of the frame. @piece: the piece that was found last, or all 0 */
static int rox_copy_range(const struct sk_buff *skb, struct rox_rx_piece *piece, u32 off,
			  struct rox_iter *dst, u32 len)
{
	int err = 0;
	u32 n;

	for (; len && !err; len -= n, off += n) {
		const u8 *p;

		n = len;
		p = rox_piece_find(skb, piece, off, &n);
		if (unlikely(!p))
			return -EFAULT;
		err = rox_iter_write(dst, p, n);
	}
	return err;
}

/* Return: how many places of @size bytes, @stride apart and the first at @off, are in @piece. */
static u32 rox_piece_places(const struct rox_rx_piece *piece, u32 off, u32 size, u32 stride)
{
	return rox_piece_has(piece, off, size) ? (piece->end - off - size) / stride + 1 : 0;
}

static int rox_copy_joined(const struct rox_pkt *pkt, u32 off, struct rox_iter *dst, u32 len)
{
	u32 size = pkt->payload_len / pkt->npkts, stride = pkt->stride;
	u32 at = pkt->payload_off + off / size * stride;
	u32 skip = off % size, n;
	struct rox_rx_piece piece = {};
	int err = 0;

	while (len && !err) {
		u32 whole = skip ? 0 : min(len / size, rox_piece_places(&piece, at, size, stride));

		if (whole) {
			err = rox_iter_write_each(dst, rox_piece_at(&piece, at), size, stride,
						  whole);
			len -= whole * size;
			at += whole * stride;
			continue;
		}
		n = min(len, size - skip);
		err = rox_copy_range(pkt->skb, &piece, at + skip, dst, n);
		len -= n;
		at += stride;
		skip = 0;
	}
	return err;
}

int rox_pkt_copy_pieces(const struct rox_pkt *pkt, u32 off, struct rox_iter *dst, u32 len)
{
	struct rox_rx_piece piece = {};

	if (!pkt->skb)
		return rox_local_copy(pkt, off, dst, len);
	if (!pkt->burst && pkt->npkts > 1)
		return rox_copy_joined(pkt, off, dst, len);
	return rox_copy_range(pkt->skb, &piece, pkt->payload_off + off, dst, len);
}

int rox_pkt_read(const struct rox_pkt *pkt, void *dst, u32 len)
{
	if (len > pkt->payload_len)
		return -EINVAL;
	if (!pkt->skb)
		return rox_local_read(pkt, dst, len);
	if (likely(pkt->payload)) {
		memcpy(dst, pkt->payload, len);
		return 0;
	}
	return skb_copy_bits(pkt->skb, pkt->payload_off, dst, len);
}

void rox_pkt_skip(const struct rox_pkt *pkt, u32 n, struct rox_pkt *rest)
{
	rox_local_pkt(pkt->burst, n, pkt->npkts - n, rest);
	rest->skb = pkt->skb;
	if (pkt->skb)
		rest->payload_off += sizeof(struct rox_local_hdr);
}
