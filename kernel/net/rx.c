// SPDX-License-Identifier: GPL-2.0
/*
 * Received frames: walks their packets, checks lengths and the ICRC, and copies
 * payload out of them. Nothing is made linear, and nothing in the frame is read
 * twice, save the payload.
 */
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/module.h>
#include <linux/udp.h>
#include <rdma/ib_pack.h>

#include "internal.h"
#include "../observe/observe.h"
#include "../verbs/mr.h"

static bool recheck;
module_param(recheck, bool, 0644);
MODULE_PARM_DESC(recheck, "Compute the ICRC also of packets that are still where a sender of this machine wrote them (default: N)");

/**
 * walk() - calls a function for each contiguous piece of a frame
 * @skb: the frame
 * @off: first byte
 * @len: bytes, all within the frame
 * @fn: gets @arg, the piece and its length; stops the walk if not 0
 * @arg: passed on
 *
 * Return: 0, or what @fn returned
 */
static __always_inline int walk(struct sk_buff *skb, u32 off, u32 len,
				int (*fn)(void *arg, const u8 *p, u32 len), void *arg)
{
	struct skb_seq_state st;
	u32 done = 0;
	int err = 0;

	skb_prepare_seq_read(skb, off, off + len, &st);
	while (done < len && !err) {
		const u8 *p;
		u32 n = skb_seq_read(done, &p, &st);

		if (!n) {
			err = -EFAULT;
			break;
		}
		n = min(n, len - done);
		err = fn(arg, p, n);
		done += n;
	}
	skb_abort_seq_read(&st);
	return err;
}

static int crc_chunk(void *arg, const u8 *p, u32 len)
{
	u32 *crc = arg;

	*crc = rox_icrc_update(*crc, p, len);
	return 0;
}

static int copy_chunk(void *arg, const u8 *p, u32 len)
{
	return rox_iter_write(arg, p, len);
}

static struct rox_local_hdr *local_hdr(const struct sk_buff *skb)
{
	return (struct rox_local_hdr *)skb->data;
}

/**
 * rox_rx_begin() - begins a walk over the packets of a frame
 * @rx: the walk
 * @skb: the frame, as net/demux.c handed it to the transport
 */
void rox_rx_begin(struct rox_rx *rx, struct sk_buff *skb)
{
	const struct rox_skb_cb *cb = rox_skb_cb(skb);
	u32 len;

	rx->skb = skb;
	if (cb->local) {
		rx->left = 1;
		return;
	}
	rx->v6 = ip_hdr(skb)->version == 6;
	rx->fixed_id = skb_shinfo(skb)->gso_type & SKB_GSO_TCP_FIXEDID;
	rx->l4_off = rx->v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr);
	rx->off = rx->l4_off + sizeof(struct udphdr);

	len = skb->len - rx->off;
	rx->seg = skb_is_gso(skb) ? skb_shinfo(skb)->gso_size : len;
	rx->index = cb->first;
	rx->piece_end = 0;
	rx->off += cb->first * rx->seg;
	rx->left = min(len - cb->first * rx->seg, cb->count * rx->seg);
}

/* Makes the page fragment that @off is in the piece that is looked at; false: none we can read. */
static bool enter_frag(struct rox_rx *rx, u32 off)
{
	const struct skb_shared_info *info = skb_shinfo(rx->skb);
	u32 begin = skb_headlen(rx->skb);
	int i;

	for (i = 0; i < info->nr_frags; i++) {
		u32 end = begin + skb_frag_size(&info->frags[i]);

		if (off >= begin && off < end) {
			rx->piece_page = skb_frag_page(&info->frags[i]);
			rx->piece = skb_frag_address_safe(&info->frags[i]);
			rx->piece_off = begin;
			rx->piece_end = rx->piece ? end : 0;
			return rx->piece;
		}
		begin = end;
	}
	return false;
}

/* The packet at rx->off, NULL unless it is in one piece. */
static const u8 *whole_packet(struct rox_rx *rx, u32 len)
{
	rx->page = NULL;
	if (rx->off + len <= skb_headlen(rx->skb))
		return rx->skb->data + rx->off;
	if ((rx->off < rx->piece_off || rx->off >= rx->piece_end) && !enter_frag(rx, rx->off))
		return NULL;
	if (rx->off + len > rx->piece_end)
		return NULL;
	rx->page = rx->piece_page;
	return rx->piece + (rx->off - rx->piece_off);
}

/* CRC of the headers of the packet at rx->off. Its IPv4 ID is @id_off more than the first one's. */
static u32 icrc_begin(const struct rox_rx *rx, u32 len, const u8 *bth, u32 id_off)
{
	struct udphdr udp = *(const struct udphdr *)(rx->skb->data + rx->l4_off);
	struct ipv6hdr ip6;
	struct iphdr ip;

	udp.len = htons(sizeof(udp) + len);
	if (rx->v6) {
		ip6 = *ipv6_hdr(rx->skb);
		ip6.payload_len = udp.len;
		return rox_icrc_begin_v6(&ip6, &udp, bth);
	}
	ip = *ip_hdr(rx->skb);
	ip.tot_len = htons(sizeof(ip) + sizeof(udp) + len);
	ip.id = htons((u16)(ntohs(ip.id) + id_off));
	return rox_icrc_begin_v4(&ip, &udp, bth);
}

/*
 * Is the ICRC right, with this IPv4 ID? @whole: the packet, if it is in one piece. Then its
 * payload need not be read if it has never left the memory that its sender wrote.
 */
static bool icrc_fits(const struct rox_rx *rx, u32 len, const u8 *whole, const u8 *bth, u32 id_off)
{
	u32 crc = icrc_begin(rx, len, bth, id_off);
	u32 rest = len - ROX_BTH_LEN - ROX_ICRC_LEN;
	__le32 icrc;

	if (unlikely(!whole)) {
		if (skb_copy_bits(rx->skb, rx->off + len - ROX_ICRC_LEN, &icrc, sizeof(icrc)))
			return false;
		walk(rx->skb, rx->off + ROX_BTH_LEN, rest, crc_chunk, &crc);
		return icrc == rox_icrc_end(crc);
	}
	if (rx->page && !READ_ONCE(recheck) && rox_frame_signed(rx->page, whole, crc))
		return true;
	memcpy(&icrc, whole + len - ROX_ICRC_LEN, sizeof(icrc));
	return icrc == rox_icrc_end(rox_icrc_update(crc, whole + ROX_BTH_LEN, rest));
}

static bool icrc_ok(struct rox_rx *rx, u32 len, const u8 *whole, const u8 *bth)
{
	if (icrc_fits(rx, len, whole, bth, rx->fixed_id ? 0 : rx->index))
		return true;

	/* GRO puts packets together as well if all have the same ID, and does not say so. */
	if (!rx->index || rx->v6 || rx->fixed_id || !icrc_fits(rx, len, whole, bth, 0))
		return false;
	rx->fixed_id = true;
	return true;
}

/*
 * Takes apart the packet at rx->off, @len bytes of UDP payload. Nothing is read
 * that the packet does not have.
 */
static bool parse(struct rox_rx *rx, struct rox_pkt *pkt, u32 len, const u8 *whole, u8 *bth)
{
	u8 buf[ROX_EXT_MAX];
	const u8 *ext;
	u32 hdrs;

	if (len < ROX_BTH_LEN + ROX_ICRC_LEN || len % 4)
		return false;
	if (likely(whole))
		memcpy(bth, whole, ROX_BTH_LEN);
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

	ext = whole ? whole + ROX_BTH_LEN :
		      skb_header_pointer(rx->skb, rx->off + ROX_BTH_LEN, pkt->info->ext_len, buf);
	if (!ext)
		return false;
	rox_ext_parse(&pkt->ext, pkt->bth.opcode, ext);
	return true;
}

/* What came without a wire is one packet, and was checked when it was sent. */
static bool next_local(struct rox_rx *rx, struct rox_pkt *pkt)
{
	struct rox_local_hdr *hdr = local_hdr(rx->skb);

	if (!rx->left)
		return false;
	rx->left = 0;
	rox_local_pkt(&hdr->burst, 0, hdr->burst.npkts, pkt);
	pkt->skb = rx->skb;
	pkt->payload_off += sizeof(*hdr);
	return true;
}

/* The next good packet that came over the wire. */
static bool next_wire(struct rox_rx *rx, struct rox_pkt *pkt)
{
	const struct rox_qp *qp = rox_skb_cb(rx->skb)->qp;
	bool found = false;

	while (rx->left && !found) {
		u32 len = min(rx->seg, rx->left);
		const u8 *whole = whole_packet(rx, len);
		u8 bth[ROX_BTH_LEN];

		if (!parse(rx, pkt, len, whole, bth))
			rox_qp_count(qp, ROX_CNT_RX_MALFORMED);
		else if (!rox_skb_cb(rx->skb)->checked && !icrc_ok(rx, len, whole, bth))
			rox_qp_count(qp, ROX_CNT_RX_ICRC);
		else
			found = true;
		rx->off += len;
		rx->left -= len;
		rx->index++;
	}
	return found;
}

/**
 * rox_rx_next() - the next good packet of a frame
 * @rx: the walk
 * @pkt: filled
 *
 * Packets that are malformed or have a wrong ICRC are counted and passed over.
 *
 * Return: false at the end
 */
bool rox_rx_next(struct rox_rx *rx, struct rox_pkt *pkt)
{
	const struct rox_skb_cb *cb = rox_skb_cb(rx->skb);

	if (!(cb->local ? next_local(rx, pkt) : next_wire(rx, pkt)))
		return false;
	if (unlikely(cb->checked))
		return true;
	rox_qp_count_add(cb->qp, ROX_CNT_RX_PKTS, pkt->npkts);
	rox_qp_count_add(cb->qp, ROX_CNT_RX_BYTES, pkt->payload_len);
	return true;
}

bool rox_rx_cut(struct rox_rx *rx)
{
	struct rox_skb_cb *cb = rox_skb_cb(rx->skb);

	if (!rx->left)
		return false;
	if (!cb->local) {
		cb->count -= rx->index - cb->first;
		cb->first = rx->index;
	}
	return true;
}

/**
 * rox_skb_addrs() - the addresses of a frame
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
	return pkt->skb ? *local_hdr(pkt->skb)->grh : pkt->burst->path->v6;
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

/* The lengths are those of one packet of the frame. */
static void skb_grh(const struct sk_buff *skb, u8 grh[ROX_GRH_LEN])
{
	u16 seg = sizeof(struct udphdr) + skb_shinfo(skb)->gso_size;

	if (ip_hdr(skb)->version == 6) {
		struct ipv6hdr ip = *ipv6_hdr(skb);

		if (skb_is_gso(skb))
			ip.payload_len = htons(seg);
		memcpy(grh, &ip, sizeof(ip));
	} else {
		struct iphdr ip = *ip_hdr(skb);

		if (skb_is_gso(skb))
			ip.tot_len = htons(sizeof(ip) + seg);
		memset(grh, 0, ROX_GRH_LEN - sizeof(ip));
		memcpy(grh + ROX_GRH_LEN - sizeof(ip), &ip, sizeof(ip));
	}
}

/**
 * rox_pkt_grh() - the network header as a UD receive has it before its payload
 * @pkt: the packet
 * @grh: filled: an IPv6 header, or 20 bytes of 0 and an IPv4 header
 */
void rox_pkt_grh(const struct rox_pkt *pkt, u8 grh[ROX_GRH_LEN])
{
	if (!pkt->burst)
		skb_grh(pkt->skb, grh);
	else if (pkt->skb)
		memcpy(grh, local_hdr(pkt->skb)->grh, ROX_GRH_LEN);
	else
		rox_local_grh(pkt->burst, grh);
}

/**
 * rox_pkt_copy() - copies payload into memory regions
 * @pkt: the packet
 * @off: first byte of its payload
 * @dst: where to; advanced
 * @len: bytes
 *
 * Return: 0, -EINVAL if the packet has less, or an error of @dst
 */
int rox_pkt_copy(const struct rox_pkt *pkt, u32 off, struct rox_iter *dst, u32 len)
{
	if (off > pkt->payload_len || len > pkt->payload_len - off)
		return -EINVAL;
	if (!pkt->skb)
		return rox_local_copy(pkt, off, dst, len);
	if (likely(pkt->payload))
		return rox_iter_write(dst, pkt->payload + off, len);
	return walk(pkt->skb, pkt->payload_off + off, len, copy_chunk, dst);
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
