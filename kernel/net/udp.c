// SPDX-License-Identifier: GPL-2.0
/*
 * The carrier UDP: sends a burst in as few frames as possible. Packets of one size share a frame,
 * which the netdev or the networking core cuts into packets (UDP GSO). A frame may stay open until
 * the end of the run, for what follows: other short messages, or the next burst, whose first
 * packets often have the size of the last ones before.
 */
#include <linux/ip.h>
#include <linux/module.h>
#include <linux/udp.h>
#include <net/ip.h>
#include <net/ip6_fib.h>
#include <net/ipv6.h>
#include <net/route.h>
#include <rdma/ib_pack.h>

#include "internal.h"
#include "udp.h"
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
 * @near: the peer reads the pages that are written here, and needs no ICRC
 * @uncut: the peer gets frames as they are, and needs a CRC of their headers only
 * @origin: for the signatures
 * @left: number of packets without an ICRC
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
	bool near;
	bool uncut;
	u32 origin;
	u32 left;
	struct rox_tx_form {
		u32 payload;
		u32 total;
		u8 bth[ROX_BTH_LEN];
		u32 ext_len;
		u8 ext[ROX_EXT_MAX];
	} form[3];
};

/**
 * struct rox_open_frame - a CPU's frame that stays open for further packets of a run
 * @from: sender of its packets; NULL if no frame is open
 * @group: the frame; with a reference on its route
 * @next: PSN after the last packet in it
 * @bytes: payload of its packets
 * @multicast: the packets are for a multicast group
 *
 * The frame is open until the end of the run at most. The runs of a CPU exclude each other, see
 * rox_cpu_enter().
 */
struct rox_open_frame {
	struct rox_endpoint *from;
	struct rox_tx_group group;
	u32 next;
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

/* Return: how many bytes of packets a frame can have. */
static u32 rox_frame_room(const struct rox_tx *tx)
{
	return MAX_IP_LEN - tx->ip_len - sizeof(struct udphdr);
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
	u32 max = rox_frame_room(tx);
	u32 limit = rox_joins(tx) ? MAX_SEGS : 1;

	g->most = 1;
	g->seg = rox_packet_len(tx, tx->pkt);
	limit = min(limit, b->npkts - tx->pkt);
	/* Packets in the middle of the burst have one size. */
	if (limit > 2 && g->seg == rox_packet_len(tx, tx->pkt + 1))
		g->most = min3(limit, max / g->seg, b->npkts - 1 - tx->pkt);
	g->total = g->most * g->seg;

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
	g->bare = false;
	g->sk = tx->b->from->sk;
	g->sender = tx->b->sender;
	g->resends = tx->b->resends && !tx->b->unbounded && g->sk;
	g->handed_at = tx->b->handed_at;
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
	int err = 0;

	if (b->inl)
		memcpy(dst, b->inl + tx->read, len);
	else if (len)
		err = rox_iter_read(b->src, dst, len);
	if (likely(!err))
		tx->read += len;
	return err;
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

/* The payload of the first packet is so long that its CRC is worth being left out. */
#define BARE_LEAST 256U

/*
 * Signs the packet of @len bytes at @p, whose BTH is in g->icrc, and writes its ICRC, as far as the
 * receiver may need them: of an uncut frame it looks at the first packet.
 */
static void rox_seal_packet(struct rox_tx *tx, struct rox_tx_group *g, u8 *p, u32 len)
{
	bool signs = rox_frame_signs(&g->frame, len), near = tx->near && signs;
	bool uncut = tx->uncut && !g->frame.last && !near;
	u32 rest = len - ROX_BTH_LEN - ROX_ICRC_LEN;
	__le32 icrc = 0;
	u32 crc;

	if (uncut && g->count) {
		memcpy(p + ROX_BTH_LEN + rest, &icrc, sizeof(icrc));
		tx->left++;
		return;
	}
	rox_icrc_packet(&g->icrc, len, g->id + g->count);
	if (near) {
		tx->left++;
	} else if (uncut && rest >= BARE_LEAST) {
		icrc = rox_icrc_bare(rox_icrc_begin(&g->icrc));
		g->bare = true;
		tx->left++;
	} else {
		crc = rox_icrc_update(rox_icrc_begin(&g->icrc), p + ROX_BTH_LEN, rest);
		icrc = rox_icrc_end(crc);
	}
	memcpy(p + ROX_BTH_LEN + rest, &icrc, sizeof(icrc));
	if (signs)
		rox_frame_sign(&g->frame, p, rox_icrc_mark(&g->icrc), tx->origin);
}

/*
 * Appends a packet whose BTH is in g->icrc to the group's frame, if no piece of memory has room for
 * all of it.
 */
static noinline int rox_put_pieces(struct rox_tx *tx, struct rox_tx_group *g,
				   const struct rox_tx_form *form)
{
	struct rox_frame *frame = &g->frame;
	u32 pad = -form->payload & 3;
	u8 tail[3 + ROX_ICRC_LEN] = {};
	__le32 icrc;
	u32 crc;
	int err;

	if (frame->last)
		return LOST;
	if (rox_frame_put(frame, g->icrc.bth, ROX_BTH_LEN) ||
	    rox_frame_put(frame, form->ext, form->ext_len))
		return LOST;
	rox_icrc_packet(&g->icrc, form->total, g->id + g->count);
	crc = rox_icrc_update(rox_icrc_begin(&g->icrc), form->ext, form->ext_len);
	err = rox_put_payload(tx, frame, form->payload, &crc);
	if (err)
		return err;
	icrc = rox_icrc_end(rox_icrc_update(crc, tail, pad));
	memcpy(tail + pad, &icrc, sizeof(icrc));
	return rox_frame_put(frame, tail, pad + sizeof(icrc)) ? LOST : 0;
}

/* Writes the payload of @n packets of one form, the first of which is at @p. Return: an error. */
static int rox_copy_payloads(struct rox_tx *tx, u8 *p, const struct rox_tx_form *form, u32 n)
{
	u32 pad = -form->payload & 3, i;
	int err = 0;

	p += ROX_BTH_LEN + form->ext_len;
	if (n > 1 && !tx->b->inl) {
		err = rox_iter_read_each(tx->b->src, p, form->payload, form->total, n);
		tx->read += n * form->payload;
	} else {
		for (i = 0; i < n && !err; i++)
			err = rox_copy_payload(tx, p + i * form->total, form->payload);
	}
	if (unlikely(pad))
		for (i = 0; i < n; i++)
			memset(p + i * form->total + form->payload, 0, pad);
	return err;
}

/* Sets g->icrc.bth to the BTH of packet @i of the burst, which has that form. */
static void rox_set_bth(const struct rox_tx *tx, struct rox_tx_group *g,
			const struct rox_tx_form *form, u32 i)
{
	memcpy(g->icrc.bth, form->bth, ROX_BTH_LEN);
	rox_bth_set_psn(g->icrc.bth, rox_psn_add(tx->b->psn, i));
}

/* Return: how many packets from packet @i on have one form and may follow in the group's frame. */
static u32 rox_same_form(const struct rox_tx *tx, const struct rox_tx_group *g, u32 i)
{
	/* A shorter packet is the last one of its frame. */
	if (!i || rox_is_last(tx->b, i) || rox_packet_len(tx, i) < g->seg)
		return 1;
	return min(tx->b->npkts - 1 - i, g->most - g->count);
}

/*
 * Appends packets of the burst, from packet @i on, to the group's frame: at least one, and then
 * those of the same form, as far as they have room in the same piece of memory. g->count counts
 * them. Return: 0, LOST, or an error of the payload.
 */
static int rox_put_packets(struct rox_tx *tx, struct rox_tx_group *g, u32 i)
{
	const struct rox_tx_form *form = rox_form_of(tx, i);
	u32 n = rox_same_form(tx, g, i);
	u8 *p = rox_frame_packets(&g->frame, form->total, &n);
	int err;

	if (unlikely(!p)) {
		rox_set_bth(tx, g, form, i);
		err = rox_put_pieces(tx, g, form);
		g->count += !err;
		return err;
	}
	err = rox_copy_payloads(tx, p, form, n);
	if (unlikely(err))
		return err;
	for (; n; n--, i++, p += form->total) {
		rox_set_bth(tx, g, form, i);
		memcpy(p, g->icrc.bth, ROX_BTH_LEN);
		if (form->ext_len)
			memcpy(p + ROX_BTH_LEN, form->ext, form->ext_len);
		rox_seal_packet(tx, g, p, form->total);
		g->count++;
	}
	return 0;
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

	if (g->handed_at)
		*g->handed_at = ktime_get_ns();
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
static int rox_send_group(struct rox_tx *tx, struct rox_tx_group *g)
{
	u32 begin = tx->read;
	u32 octets;
	int err;

	err = rox_begin_group(tx, g);
	if (err)
		return err;
	while (g->count < g->most && !err)
		err = rox_put_packets(tx, g, tx->pkt + g->count);
	if (err) {
		rox_frame_drop(&g->frame);
		return err;
	}
	octets = rox_udp_output(g);
	if (octets) {
		tx->sent->pkts += g->count;
		tx->sent->octets += octets;
		tx->sent->bytes += tx->read - begin;
		rox_group_sent(g);
	} else if (rox_group_dropped(tx->b->from, g)) {
		return REFUSED;
	}
	tx->pkt += g->count;
	return 0;
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

/* ---- frames that stay open ---- */

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

/*
 * Does the burst go on in the open frame? Its packets have one size; only a shorter one of several
 * bursts may end it. What a QP sends again after a go-back does not follow what it has sent.
 */
static bool rox_open_fits(const struct rox_open_frame *open, const struct rox_tx *tx)
{
	const struct rox_tx_group *g = &open->group;
	const struct rox_burst *b = tx->b;
	u32 len = rox_packet_len(tx, 0);

	if (open->from != b->from || g->dst != tx->dst || !rox_same_headers(g, b->path))
		return false;
	if (!b->joins)
		return b->npkts == 1 && len == g->seg;
	return len <= g->seg && b->psn == open->next && !b->unbounded;
}

/* Return: how many packets of @seg bytes a frame can have. */
static u32 rox_most_packets(const struct rox_tx *tx, u32 seg)
{
	return min(rox_frame_room(tx) / seg, (u32)MAX_SEGS);
}

/* Opens a frame for @most packets of @seg bytes. Return: 0 or LOST. */
static int rox_frame_begin_open(struct rox_open_frame *open, const struct rox_tx *tx, u32 seg,
				u32 most)
{
	struct rox_tx_group *g = &open->group;

	g->seg = seg;
	g->most = most;
	g->total = most * seg;
	if (rox_begin_group(tx, g))
		return LOST;
	dst_hold(g->dst);
	open->bytes = 0;
	open->multicast = rox_to_group(tx->b);
	open->from = tx->b->from;
	return 0;
}

/*
 * Opens a frame for a message of one packet and those that may follow it. Return: 0, LOST, or ALONE
 * if the burst cannot share a frame.
 */
static int rox_frame_open(struct rox_open_frame *open, const struct rox_tx *tx)
{
	const struct rox_burst *b = tx->b;
	u32 seg = rox_packet_len(tx, 0);

	if (!b->follow || b->npkts > 1 || !rox_joins(tx))
		return ALONE;
	return rox_frame_begin_open(open, tx, seg, min(b->follow + 1U, rox_most_packets(tx, seg)));
}

/*
 * Puts packets of the burst into the open frame, at least one, and sends the frame if nothing can
 * follow in it. Return: 0; LOST or an error as rox_put_packets(), and then none of them is in it.
 */
static int rox_frame_fill(struct rox_open_frame *open, struct rox_tx *tx)
{
	struct rox_tx_group *g = &open->group;
	u32 before = g->frame.skb->len, count = g->count, begin = tx->read, first = tx->pkt;
	const struct rox_tx_form *form = rox_form_of(tx, first);
	const struct rox_burst *b = tx->b;
	bool ends;
	int err;

	do {
		u32 had = g->count;

		err = rox_put_packets(tx, g, tx->pkt);
		if (unlikely(err)) {
			/* Send the packets of the bursts before, which are complete. */
			g->count = pskb_trim(g->frame.skb, before) ? 0 : count;
			tx->pkt = first;
			rox_xmit_end();
			return err;
		}
		ends = form->total < g->seg || g->count == g->most;
		tx->pkt += g->count - had;
		if (tx->pkt == b->npkts)
			break;
		form = rox_form_of(tx, tx->pkt);
	} while (!ends && form->total <= g->seg);
	open->bytes += tx->read - begin;
	open->next = rox_psn_add(b->psn, tx->pkt);
	if (b->handed_at)
		g->handed_at = b->handed_at;
	if (ends || tx->pkt < b->npkts)
		rox_xmit_end();
	return 0;
}

/*
 * Puts what fits of the burst into the open frame, or opens one for a message of one packet.
 * Return: 0; ALONE if packets are left for other frames; LOST or an error as rox_frame_fill(); or
 * REFUSED if packets before these were refused.
 */
static int rox_frame_join(struct rox_tx *tx)
{
	struct rox_open_frame *open = this_cpu_ptr(&rox_open_frames);
	const struct rox_sender *sender = tx->b->sender;
	int err;

	if (open->from && !rox_open_fits(open, tx))
		rox_xmit_end();
	/* Nothing follows what was refused: it is sent again after that, and in its order. */
	if (unlikely(sender && sender->refused))
		return REFUSED;
	if (!open->from) {
		err = rox_frame_open(open, tx);
		if (err)
			return err;
	}
	err = rox_frame_fill(open, tx);
	if (err || tx->pkt == tx->b->npkts)
		return err;
	return unlikely(sender && sender->refused) ? REFUSED : ALONE;
}

/* Are these the last packets of the burst, and may the next one go on in their frame? */
static bool rox_stays_open(const struct rox_tx *tx, const struct rox_tx_group *g)
{
	const struct rox_burst *b = tx->b;

	return b->joins && !b->unbounded && tx->pkt + g->most == b->npkts &&
	       rox_packet_len(tx, b->npkts - 1) == g->seg &&
	       g->most < rox_most_packets(tx, g->seg) && rox_joins(tx);
}

/* Sends the packets of the burst from tx->pkt on. Return: as rox_send_group(). */
static int rox_send_all(struct rox_tx *tx)
{
	struct rox_open_frame *open = this_cpu_ptr(&rox_open_frames);
	struct rox_tx_group g;
	int err = 0;

	while (tx->pkt < tx->b->npkts && !err) {
		rox_choose_group(tx, &g);
		if (!rox_stays_open(tx, &g)) {
			err = rox_send_group(tx, &g);
			continue;
		}
		err = rox_frame_begin_open(open, tx, g.seg, rox_most_packets(tx, g.seg));
		if (!err)
			err = rox_frame_fill(open, tx);
	}
	return err;
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
		if (b->resends) {
			tx.origin = b->path->near.origin;
			tx.near = !b->unbounded && rox_path_is_near(b->path);
			tx.uncut = !b->unbounded && rox_path_is_uncut(b->path, b->from);
		}
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
	if (tx.left) {
		rox_ep_count_add(b->from, ROX_CNT_TX_ICRC_LEFT, tx.left);
		rox_near_left(b->path);
	}
	return err;
}
