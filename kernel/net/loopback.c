// SPDX-License-Identifier: GPL-2.0
/*
 * The carrier without a wire: between two QPs of one device the payload moves
 * once, from the sender's pages to the receiver's, in the sender's context.
 * Where the other QP cannot take it now (it is being run elsewhere, a page has to
 * be fetched), a copy waits in its queue, so that the order stays. Checks, errors,
 * counters and completions are those of the wire: the same code does them.
 */
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <net/ipv6.h>
#include <rdma/ib_pack.h>

#include "internal.h"
#include "../observe/observe.h"

/* ---- a burst as one packet ---- */

static u8 opcode_at(const struct rox_burst *b, u32 i)
{
	if (!i)
		return b->op_first;
	return i == b->npkts - 1U ? b->op_last : b->op_mid;
}

/* How a message that ends like this would be called if it had one packet. */
static u8 only_opcode(u8 last)
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

/* The opcode of packets @first to @last, put together. */
static u8 joint_opcode(const struct rox_burst *b, u32 first, u32 last)
{
	u8 begin = opcode_at(b, first), end = opcode_at(b, last);

	if (first == last || !(rox_opcodes[begin].flags & ROX_OP_FIRST))
		return end;
	return rox_opcodes[end].flags & ROX_OP_LAST ? only_opcode(end) : begin;
}

void rox_local_pkt(struct rox_burst *b, u32 first, u32 count, struct rox_pkt *pkt)
{
	bool ends = first + count == b->npkts;
	u8 opcode = joint_opcode(b, first, first + count - 1);

	pkt->bth = (struct rox_bth) {
		.opcode = opcode,
		.solicited = b->solicited && ends,
		.ackreq = b->ackreq && ends,
		.migreq = true,
		.pkey = b->pkey,
		.dqpn = b->dqpn,
		.psn = rox_psn_add(b->psn, first),
	};
	pkt->ext = b->ext;
	pkt->info = &rox_opcodes[opcode];
	pkt->npkts = count;
	pkt->burst = b;
	pkt->skb = NULL;
	pkt->payload = NULL;
	pkt->payload_off = first * b->mtu;
	pkt->payload_len = ends ? b->len - pkt->payload_off : count * b->mtu;
}

void rox_local_grh(const struct rox_burst *b, u8 grh[ROX_GRH_LEN])
{
	const struct rox_path *path = b->path;
	u32 len = sizeof(struct udphdr) + ROX_BTH_LEN + rox_opcodes[b->op_first].ext_len +
		  ALIGN(b->len, 4) + ROX_ICRC_LEN;
	struct ipv6hdr *v6 = (struct ipv6hdr *)grh;
	struct iphdr *v4 = (struct iphdr *)(grh + ROX_GRH_LEN - sizeof(*v4));

	memset(grh, 0, ROX_GRH_LEN);
	if (path->v6) {
		ip6_flow_hdr(v6, path->tos, htonl(path->flow));
		v6->payload_len = htons(len);
		v6->nexthdr = IPPROTO_UDP;
		v6->hop_limit = path->ttl;
		v6->saddr = path->saddr;
		v6->daddr = path->daddr;
		return;
	}
	v4->version = 4;
	v4->ihl = sizeof(*v4) / 4;
	v4->tos = path->tos;
	v4->tot_len = htons(sizeof(*v4) + len);
	v4->frag_off = htons(IP_DF);
	v4->ttl = path->ttl;
	v4->protocol = IPPROTO_UDP;
	v4->saddr = path->saddr.s6_addr32[3];
	v4->daddr = path->daddr.s6_addr32[3];
	ip_send_check(v4);
}

/* ---- payload ---- */

/* The next piece of the sender's memory, at most @max bytes; what is wrong is in b->err. */
static u32 next_piece(struct rox_burst *b, u32 max, const void **p)
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

/* Packets that nobody wanted are passed over. */
static void skip_to(struct rox_burst *b, u32 off)
{
	if (b->read >= off)
		return;
	if (b->src)
		rox_iter_advance(b->src, off - b->read);
	b->read = off;
}

int rox_local_copy(const struct rox_pkt *pkt, u32 off, struct rox_iter *dst, u32 len)
{
	struct rox_burst *b = pkt->burst;
	const void *p;
	int err = 0;
	u32 n;

	skip_to(b, pkt->payload_off + off);
	while (len && !err) {
		n = next_piece(b, len, &p);
		if (!n)
			return -EAGAIN;
		err = rox_iter_write(dst, p, n);
		len -= n;
	}
	return err;
}

int rox_local_read(const struct rox_pkt *pkt, void *dst, u32 len)
{
	struct rox_burst *b = pkt->burst;
	const void *p;
	u32 n;

	skip_to(b, pkt->payload_off);
	while (len) {
		n = next_piece(b, len, &p);
		if (!n)
			return -EAGAIN;
		memcpy(dst, p, n);
		dst += n;
		len -= n;
	}
	return 0;
}

/* ---- handing over ---- */

static int fill_frame(struct rox_frame *frame, struct rox_burst *b)
{
	u32 left = b->len, n, piece;
	const void *p;
	u8 *dst;

	while (left) {
		n = left;
		dst = rox_frame_space(frame, &n);
		if (!dst)
			return -ENOMEM;
		left -= n;
		for (; n; n -= piece, dst += piece) {
			piece = next_piece(b, n, &p);
			if (!piece)
				return b->err;
			memcpy(dst, p, piece);
		}
	}
	return 0;
}

/* A copy of the burst waits for the QP. Without memory it is lost, as on any network. */
static int leave_copy(struct rox_qp *qp, struct rox_burst *b, bool request)
{
	struct rox_local_hdr *hdr;
	struct rox_frame frame;
	struct rox_skb_cb *cb;

	if (rox_frame_begin_local(&frame, sizeof(*hdr), b->len)) {
		rox_qp_count_add(b->qp, ROX_CNT_TX_DROP, b->npkts);
		return 0;
	}
	if (fill_frame(&frame, b)) {
		rox_frame_drop(&frame);
		if (!b->err)
			rox_qp_count_add(b->qp, ROX_CNT_TX_DROP, b->npkts);
		return b->err;
	}
	hdr = (struct rox_local_hdr *)frame.skb->data;
	hdr->burst = *b;
	hdr->burst.path = NULL;
	hdr->burst.src = NULL;
	hdr->burst.inl = NULL;
	hdr->burst.qp = NULL;
	if (!rox_qp_is_connected(qp))
		rox_local_grh(b, hdr->grh);
	cb = rox_skb_cb(frame.skb);
	*cb = (struct rox_skb_cb) { .qp = qp, .count = b->npkts, .local = true };
	rox_transport_rx(qp, frame.skb, request);
	return 0;
}

static int hand_over(struct rox_qp *qp, struct rox_burst *b, bool request)
{
	u32 cur = b->src ? b->src->cur : 0, off = b->src ? b->src->off : 0;
	struct rox_pkt pkt;

	rox_local_pkt(b, 0, b->npkts, &pkt);
	if (rox_transport_direct(qp, &pkt, request)) {
		rox_qp_count(qp, ROX_CNT_RX_BURSTS);
		rox_qp_count_add(qp, ROX_CNT_RX_PKTS, pkt.npkts);
		rox_qp_count_add(qp, ROX_CNT_RX_BYTES, pkt.payload_len);
		return 0;
	}
	if (b->err)
		return b->err;
	if (b->src)
		rox_iter_return(b->src, cur, off);
	b->read = 0;
	b->again = false;
	/* The peer may invalidate it before this run ends. */
	if (request)
		rox_mr_release(&b->qp->send.kept.dst);
	return leave_copy(qp, b, request);
}

int rox_loopback_xmit(struct rox_burst *b)
{
	struct rox_run run = {
		.count = b->npkts,
		.request = rox_opcodes[b->op_first].flags & ROX_OP_REQUEST,
		.service = b->op_first & ROX_SERVICE_MASK,
		.pkey = b->pkey,
		.dqpn = b->dqpn,
	};
	bool keeps = run.request && rox_qp_is_connected(b->qp);
	struct rox_qp *qp;
	bool addressed;
	int err = 0;

	/* All requests of a connected QP have the same destination. */
	qp = keeps ? rox_send_peer(b->qp) : rox_qp_get(b->path->dev, b->dqpn);
	if (!qp)
		return -ENOLINK;
	addressed = !rox_qp_is_connected(qp) ||
		    rox_qp_is_peer(qp, &b->path->saddr, &b->path->daddr);
	if (rox_may_accept(qp, &run, addressed))
		err = hand_over(qp, b, run.request);
	if (!keeps)
		rox_qp_put(qp);
	if (!err)
		skip_to(b, b->len);
	return err;
}
