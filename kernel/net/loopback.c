// SPDX-License-Identifier: GPL-2.0
/*
 * The carrier loopback: between two QPs of one device the payload is copied once, from the
 * sender's pages to the receiver's, in the sender's context. If the receiving side is running in
 * another context or needs a missing page, a copy waits in its queue, so that the order does not
 * change. Checks, errors, counters and completions use the same code as for UDP.
 */
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/memcontrol.h>
#include <linux/sched/mm.h>
#include <linux/udp.h>
#include <net/ipv6.h>
#include <rdma/ib_pack.h>

#include "internal.h"

/* ---- a burst as one packet ---- */

/* The opcode that a message with this last opcode would have if it had one packet. */
static u8 rox_only_opcode(u8 last)
{
	static const u8 only[] = {
		[IB_OPCODE_SEND_LAST] = IB_OPCODE_SEND_ONLY,
		[IB_OPCODE_SEND_LAST_WITH_IMMEDIATE] = IB_OPCODE_SEND_ONLY_WITH_IMMEDIATE,
		[IB_OPCODE_SEND_LAST_WITH_INVALIDATE] = IB_OPCODE_SEND_ONLY_WITH_INVALIDATE,
		[IB_OPCODE_RDMA_WRITE_LAST] = IB_OPCODE_RDMA_WRITE_ONLY,
		[IB_OPCODE_RDMA_WRITE_LAST_WITH_IMMEDIATE] =
			IB_OPCODE_RDMA_WRITE_ONLY_WITH_IMMEDIATE,
		[IB_OPCODE_RDMA_READ_RESPONSE_LAST] = IB_OPCODE_RDMA_READ_RESPONSE_ONLY,
	};

	return (last & ROX_SERVICE_MASK) | only[last & ~ROX_SERVICE_MASK];
}

static u32 rox_burst_octets(const struct rox_burst *b)
{
	u32 ext = rox_opcodes[b->op_first].ext_len;

	if (b->npkts > 1)
		ext += rox_opcodes[b->op_last].ext_len;
	if (b->npkts > 2)
		ext += (b->npkts - 2U) * rox_opcodes[b->op_mid].ext_len;
	return b->npkts * (ROX_BTH_LEN + ROX_ICRC_LEN) + ext + ALIGN(b->len, 4);
}

/* The opcode of packets @first to @last when they are joined into one. */
static u8 rox_joint_opcode(const struct rox_burst *b, u32 first, u32 last)
{
	u8 begin = rox_burst_opcode_at(b, first), end = rox_burst_opcode_at(b, last);

	if (first == last || !(rox_opcodes[begin].flags & ROX_OP_FIRST))
		return end;
	return rox_opcodes[end].flags & ROX_OP_LAST ? rox_only_opcode(end) : begin;
}

struct rox_pkt rox_local_join(struct rox_burst *b, u32 first, u32 count)
{
	bool ends = first + count == b->npkts;
	u8 opcode = rox_joint_opcode(b, first, first + count - 1);

	return (struct rox_pkt) {
		.bth.opcode = opcode,
		.bth.solicited = b->solicited && ends,
		.bth.ackreq = b->ackreq && ends,
		.bth.migreq = true,
		.bth.pkey = b->pkey,
		.bth.dqpn = b->dqpn,
		.bth.psn = rox_psn_add(b->psn, first),
		.ext = b->ext,
		.info = &rox_opcodes[opcode],
		.npkts = count,
		.burst = b,
		.payload_off = first * b->mtu,
		.payload_len = ends ? b->len - first * b->mtu : count * b->mtu,
	};
}

u32 rox_local_ip(const struct rox_path *path, u8 *p, u32 len)
{
	struct ipv6hdr *v6 = (struct ipv6hdr *)p;
	struct iphdr *v4 = (struct iphdr *)p;

	if (path->v6) {
		ip6_flow_hdr(v6, path->tos, htonl(path->flow));
		v6->payload_len = htons(len);
		v6->nexthdr = IPPROTO_UDP;
		v6->hop_limit = path->ttl;
		v6->saddr = path->saddr;
		v6->daddr = path->daddr;
		return sizeof(*v6);
	}
	*v4 = (struct iphdr) {
		.version = 4,
		.ihl = sizeof(*v4) / 4,
		.tos = path->tos,
		.tot_len = htons(sizeof(*v4) + len),
		.frag_off = htons(IP_DF),
		.ttl = path->ttl,
		.protocol = IPPROTO_UDP,
		.saddr = path->saddr.s6_addr32[3],
		.daddr = path->daddr.s6_addr32[3],
	};
	ip_send_check(v4);
	return sizeof(*v4);
}

void rox_local_grh(const struct rox_burst *b, u8 grh[ROX_GRH_LEN])
{
	u32 len = sizeof(struct udphdr) + ROX_BTH_LEN + rox_opcodes[b->op_first].ext_len +
		  ALIGN(b->len, 4) + ROX_ICRC_LEN;

	memset(grh, 0, ROX_GRH_LEN);
	rox_local_ip(b->path, b->path->v6 ? grh : grh + ROX_GRH_LEN - sizeof(struct iphdr), len);
}

/* The burst counts as received by the netdev it would leave by, if that has the address. */
struct rox_gid_ref rox_local_gid(const struct rox_burst *b)
{
	return rox_addr_gid(b->path->net, &b->path->daddr, b->path->ns, b->path->oif);
}

/* ---- payload ---- */

/*
 * Finds the next piece of the sender's memory, of at most @max bytes. Return: its length; 0 on an
 * error, which is stored in b->err.
 */
static u32 rox_next_piece(struct rox_burst *b, u32 max, const void **p)
{
	ssize_t n = max;
	void *src;

	if (b->inl) {
		*p = b->inl + b->read;
	} else {
		n = rox_iter_next(b->src, max, &src);
		*p = src;
	}
	if (unlikely(n <= 0)) {
		b->err = n ? (int)n : -EMSGSIZE;
		return 0;
	}
	b->read += n;
	return n;
}

/* Skips payload up to offset @off, of packets that the receiver did not copy. */
static void rox_skip_to(struct rox_burst *b, u32 off)
{
	if (b->read >= off)
		return;
	if (b->src)
		rox_iter_advance(b->src, off - b->read);
	b->read = off;
}

static noinline int rox_local_copy_pieces(struct rox_burst *b, struct rox_iter *dst, u32 len)
{
	const void *p;
	int err = 0;
	u32 n;

	while (len && !err) {
		n = rox_next_piece(b, len, &p);
		if (!n)
			return -EAGAIN;
		err = rox_iter_write(dst, p, n);
		len -= n;
	}
	return err;
}

int rox_local_copy(const struct rox_pkt *pkt, u32 off, struct rox_iter *dst, u32 len)
{
	struct rox_burst *b = pkt->burst;
	const void *p;

	rox_skip_to(b, pkt->payload_off + off);
	p = b->src ? rox_iter_piece(b->src, len) : NULL;
	if (unlikely(!p))
		return rox_local_copy_pieces(b, dst, len);
	b->read += len;
	return rox_iter_write(dst, p, len);
}

int rox_local_read(const struct rox_pkt *pkt, void *dst, u32 len)
{
	struct rox_burst *b = pkt->burst;
	const void *p;
	u32 n;

	rox_skip_to(b, pkt->payload_off);
	while (len) {
		n = rox_next_piece(b, len, &p);
		if (!n)
			return -EAGAIN;
		memcpy(dst, p, n);
		dst += n;
		len -= n;
	}
	return 0;
}

/* ---- copies ---- */

static int rox_local_fill(u8 *dst, u32 len, struct rox_burst *b)
{
	const void *p;
	u32 piece;

	for (; len; len -= piece, dst += piece) {
		piece = rox_next_piece(b, len, &p);
		if (!piece)
			return b->err;
		memcpy(dst, p, piece);
	}
	return 0;
}

static int rox_fill_frame(struct rox_frame *frame, struct rox_burst *b)
{
	u32 left = b->len, n;
	int err = 0;
	u8 *dst;

	for (; left && !err; left -= n) {
		n = left;
		dst = rox_frame_space(frame, &n);
		err = dst ? rox_local_fill(dst, n, b) : -ENOMEM;
	}
	return err;
}

static struct sk_buff *rox_quick_frame(struct rox_burst *b)
{
	struct rox_frame frame;

	if (rox_frame_begin_local(&frame, sizeof(struct rox_local_hdr), b->len))
		return NULL;
	if (rox_fill_frame(&frame, b))
		rox_frame_drop(&frame);
	return frame.skb;
}

/* Makes a copy with pages of its own, charged to @memcg. */
static struct sk_buff *rox_lasting_frame(struct mem_cgroup *memcg, struct rox_burst *b)
{
	struct mem_cgroup *charged = set_active_memcg(memcg);
	struct sk_buff *skb;
	int err, i;

	skb = alloc_skb_with_frags(sizeof(struct rox_local_hdr), b->len, SKB_FRAG_PAGE_ORDER, &err,
				   GFP_NOWAIT | __GFP_ACCOUNT | __GFP_NOWARN);
	set_active_memcg(charged);
	if (!skb)
		return NULL;
	skb_put(skb, sizeof(struct rox_local_hdr));
	skb->data_len = b->len;
	skb->len += b->len;
	for (i = 0, err = 0; i < skb_shinfo(skb)->nr_frags && !err; i++) {
		const skb_frag_t *frag = &skb_shinfo(skb)->frags[i];

		err = rox_local_fill(skb_frag_address(frag), skb_frag_size(frag), b);
	}
	if (!err)
		return skb;
	kfree_skb(skb);
	return NULL;
}

struct sk_buff *rox_local_frame(struct rox_burst *b, struct rox_endpoint *to, bool lasting,
				struct mem_cgroup *memcg, bool grh)
{
	struct rox_local_hdr *hdr;
	struct sk_buff *skb;

	skb = unlikely(lasting) ? rox_lasting_frame(memcg, b) : rox_quick_frame(b);
	if (!skb)
		return NULL;
	hdr = (struct rox_local_hdr *)skb->data;
	hdr->burst = *b;
	hdr->burst.path = NULL;
	hdr->burst.src = NULL;
	hdr->burst.inl = NULL;
	hdr->burst.from = NULL;
	if (grh)
		rox_local_grh(b, hdr->grh);
	*rox_skb_cb(skb) = (struct rox_skb_cb) { .to = to, .count = b->npkts, .local = true };
	if (grh)
		rox_skb_cb(skb)->gid = rox_local_gid(b);
	return skb;
}

/* ---- handing over ---- */

int rox_loopback_xmit(struct rox_burst *b, struct rox_sent *sent)
{
	const struct rox_run run = {
		.count = b->npkts,
		.octets = rox_burst_octets(b),
		.request = rox_opcodes[b->op_first].flags & ROX_OP_REQUEST,
		.service = b->op_first & ROX_SERVICE_MASK,
		.pkey = b->pkey,
		.dqpn = b->dqpn,
	};
	int err = rox_receiver->receive_local(b, &run);

	if (err)
		return err;
	rox_skip_to(b, b->len);
	*sent = (struct rox_sent) { .pkts = b->npkts, .bytes = b->len, .octets = run.octets };
	return 0;
}
