// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit: which messages share a frame, and which packets have an ICRC. A hook examines the frames
 * that are handed to the IP layer, and takes them.
 */
#include <linux/netfilter_ipv6.h>
#include <linux/udp.h>
#include <rdma/ib_cache.h>

#include "../transport/internal.h"
#include "../verbs/verbs.h"
#include "../kunit/fixture.h"
#include "internal.h"

#define MOST_FRAMES	16
#define MOST_WRS	8

/**
 * struct seen - the frames that were sent
 * @open: frames are recorded; else they are only taken
 * @count: number of frames
 * @segs: number of packets of each frame
 * @len: UDP payload of each frame
 * @seg: UDP payload of each packet of the frame
 * @icrc: a bit for each packet of the frame that has an ICRC
 */
static struct seen {
	bool open;
	unsigned int count;
	u32 segs[MOST_FRAMES];
	u32 len[MOST_FRAMES];
	u32 seg[MOST_FRAMES];
	u64 icrc[MOST_FRAMES];
} seen;

/* Which packets of the frame, each with @seg bytes, end with an ICRC, and not with 0? */
static u64 have_icrc(const struct sk_buff *skb, u32 len, u32 seg)
{
	u32 begin = skb_transport_offset(skb) + sizeof(struct udphdr), end, i = 0;
	u64 have = 0;
	__le32 icrc;

	for (end = seg; end <= len; end += seg, i++) {
		if (skb_copy_bits(skb, begin + end - sizeof(icrc), &icrc, sizeof(icrc)))
			break;
		have |= (u64)!!icrc << i;
	}
	return have;
}

static unsigned int take_frame(void *priv, struct sk_buff *skb, const struct nf_hook_state *state)
{
	const struct udphdr *udp = udp_hdr(skb);
	u32 len;

	if (ipv6_hdr(skb)->nexthdr != IPPROTO_UDP || udp->dest != htons(ROX_UDP_PORT))
		return NF_ACCEPT;
	len = ntohs(udp->len) - sizeof(*udp);
	if (seen.open && seen.count < MOST_FRAMES) {
		seen.segs[seen.count] = skb_is_gso(skb) ? skb_shinfo(skb)->gso_segs : 1;
		seen.seg[seen.count] = skb_is_gso(skb) ? skb_shinfo(skb)->gso_size : len;
		seen.len[seen.count] = len;
		seen.icrc[seen.count] = have_icrc(skb, len, seen.seg[seen.count]);
	}
	seen.count += seen.open;
	kfree_skb(skb);
	return NF_STOLEN;
}

static const struct nf_hook_ops take_ops = {
	.hook = take_frame,
	.pf = NFPROTO_IPV6,
	.hooknum = NF_INET_LOCAL_OUT,
};

/* UDP payload of a packet with BTH, @ext bytes of extended headers, payload, pad, ICRC. */
static u32 packet(u32 ext, u32 len)
{
	return ROX_BTH_LEN + ext + ALIGN(len, 4) + ROX_ICRC_LEN;
}

#define RETH	16
#define DETH	8
#define AETH	4

static u8 payload[4096];

/**
 * struct batch - work requests that are posted together
 * @count: number of work requests
 * @wr: RDMA WRITEs of RC, or SENDs of UD
 * @sge: their SGEs
 */
struct batch {
	unsigned int count;
	union {
		struct ib_rdma_wr rdma;
		struct ib_ud_wr ud;
	} wr[MOST_WRS];
	struct ib_sge sge[MOST_WRS];
};

static struct ib_send_wr *add(struct kunit *test, struct batch *batch, u32 len)
{
	struct rox_fixture *f = test->priv;
	unsigned int i = batch->count++;
	struct ib_send_wr *wr = &batch->wr[i].rdma.wr;

	BUILD_BUG_ON(offsetof(struct ib_rdma_wr, wr) != offsetof(struct ib_ud_wr, wr));
	batch->sge[i] = (struct ib_sge) { .addr = (uintptr_t)payload, .length = len,
					  .lkey = f->pd->local_dma_lkey };
	wr->sg_list = &batch->sge[i];
	wr->num_sge = 1;
	if (i)
		batch->wr[i - 1].rdma.wr.next = wr;
	return wr;
}

static void add_write(struct kunit *test, struct batch *batch, u32 len)
{
	add(test, batch, len)->opcode = IB_WR_RDMA_WRITE;
}

static void add_send(struct kunit *test, struct batch *batch, struct ib_ah *ah, u32 qpn)
{
	struct ib_send_wr *wr = add(test, batch, 64);

	wr->opcode = IB_WR_SEND;
	container_of(wr, struct ib_ud_wr, wr)->ah = ah;
	container_of(wr, struct ib_ud_wr, wr)->remote_qpn = qpn;
}

/* Records frames from here to took(). In between no retry timer sends again. */
static void take(struct kunit *test)
{
	KUNIT_ASSERT_EQ(test, nf_register_net_hook(&init_net, &take_ops), 0);
	local_bh_disable();
	memset(&seen, 0, sizeof(seen));
	seen.open = true;
}

static void took(void)
{
	seen.open = false;
	local_bh_enable();
	nf_unregister_net_hook(&init_net, &take_ops);
}

/* Posts all of them at once, and records the frames that are sent before the call returns. */
static void post(struct kunit *test, struct rox_qp *qp, const struct batch *batch)
{
	int err;

	take(test);
	err = ib_post_send(&qp->ibqp, &batch->wr[0].rdma.wr, NULL);
	took();
	KUNIT_EXPECT_EQ(test, err, 0);
}

static void expect_frame(struct kunit *test, unsigned int i, u32 segs, u32 seg)
{
	KUNIT_EXPECT_EQ_MSG(test, seen.segs[i], segs, "frame %u", i);
	KUNIT_EXPECT_EQ_MSG(test, seen.seg[i], seg, "frame %u", i);
	KUNIT_EXPECT_EQ_MSG(test, seen.len[i], segs * seg, "frame %u", i);
}

static struct rox_qp *qp_in_rts(struct kunit *test, enum ib_qp_type type)
{
	struct rox_qp *qp;

	rox_fixture_needs_route(test);
	qp = rox_fixture_qp(test, type);
	rox_fixture_move(test, qp, IB_QPS_RTS);
	return qp;
}

static void messages_of_one_size_share_a_frame(struct kunit *test)
{
	struct rox_qp *qp = qp_in_rts(test, IB_QPT_RC);
	struct batch batch = {};
	u64 packets = rox_fixture_counted(qp, ROX_CNT_TX_PKTS);
	u64 bytes = rox_fixture_counted(qp, ROX_CNT_TX_BYTES);
	int i;

	for (i = 0; i < MOST_WRS; i++)
		add_write(test, &batch, 64);
	post(test, qp, &batch);
	KUNIT_EXPECT_EQ(test, seen.count, 1U);
	expect_frame(test, 0, MOST_WRS, packet(RETH, 64));
	KUNIT_EXPECT_EQ(test, rox_fixture_counted(qp, ROX_CNT_TX_PKTS) - packets, MOST_WRS);
	KUNIT_EXPECT_EQ(test, rox_fixture_counted(qp, ROX_CNT_TX_BYTES) - bytes, 64 * MOST_WRS);
	ib_destroy_qp(&qp->ibqp);
}

/* Messages so large that the frame is not linear. */
static void so_do_messages_as_large_as_the_mtu(struct kunit *test)
{
	struct rox_qp *qp = qp_in_rts(test, IB_QPT_RC);
	struct batch batch = {};
	int i;

	for (i = 0; i < 5; i++)
		add_write(test, &batch, 1024);
	post(test, qp, &batch);
	KUNIT_EXPECT_EQ(test, seen.count, 1U);
	expect_frame(test, 0, 5, packet(RETH, 1024));
	ib_destroy_qp(&qp->ibqp);
}

static void another_size_begins_another_frame(struct kunit *test)
{
	struct rox_qp *qp = qp_in_rts(test, IB_QPT_RC);
	struct batch batch = {};

	add_write(test, &batch, 64);
	add_write(test, &batch, 63);	/* with its pad as long as the first */
	add_write(test, &batch, 128);
	add_write(test, &batch, 0);
	add_write(test, &batch, 0);
	post(test, qp, &batch);
	KUNIT_EXPECT_EQ(test, seen.count, 3U);
	expect_frame(test, 0, 2, packet(RETH, 64));
	expect_frame(test, 1, 1, packet(RETH, 128));
	expect_frame(test, 2, 2, packet(RETH, 0));
	ib_destroy_qp(&qp->ibqp);
}

static void add_rc_send(struct kunit *test, struct batch *batch, u32 len)
{
	add(test, batch, len)->opcode = IB_WR_SEND;
}

/* The last packets of a message wait for those of the next one. */
static void messages_of_several_packets_go_on_in_a_frame(struct kunit *test)
{
	struct rox_qp *qp = qp_in_rts(test, IB_QPT_RC);
	u64 packets = rox_fixture_counted(qp, ROX_CNT_TX_PKTS);
	u64 bytes = rox_fixture_counted(qp, ROX_CNT_TX_BYTES);
	struct batch batch = {};

	add_rc_send(test, &batch, 3072);
	add_rc_send(test, &batch, 2048);
	post(test, qp, &batch);
	KUNIT_EXPECT_EQ(test, seen.count, 1U);
	expect_frame(test, 0, 5, packet(0, 1024));
	KUNIT_EXPECT_EQ(test, rox_fixture_counted(qp, ROX_CNT_TX_PKTS) - packets, 5);
	KUNIT_EXPECT_EQ(test, rox_fixture_counted(qp, ROX_CNT_TX_BYTES) - bytes, 5120);
	ib_destroy_qp(&qp->ibqp);
}

static void a_shorter_packet_ends_the_frame(struct kunit *test)
{
	struct rox_qp *qp = qp_in_rts(test, IB_QPT_RC);
	struct batch batch = {};

	add_rc_send(test, &batch, 2048);
	add_rc_send(test, &batch, 1500);
	add_rc_send(test, &batch, 2048);
	post(test, qp, &batch);
	KUNIT_EXPECT_EQ(test, seen.count, 2U);
	KUNIT_EXPECT_EQ(test, seen.segs[0], 4U);
	KUNIT_EXPECT_EQ(test, seen.seg[0], packet(0, 1024));
	KUNIT_EXPECT_EQ(test, seen.len[0], 3 * packet(0, 1024) + packet(0, 476));
	expect_frame(test, 1, 2, packet(0, 1024));
	ib_destroy_qp(&qp->ibqp);
}

/* Complete bursts are sent even if the payload of the next one in their frame cannot be read. */
static void a_burst_that_fails_takes_none_with_it(struct kunit *test)
{
	struct rox_qp *qp = qp_in_rts(test, IB_QPT_RC);
	struct batch batch = {};

	add_rc_send(test, &batch, 3072);
	add_rc_send(test, &batch, 2048);
	batch.sge[1].lkey++;
	post(test, qp, &batch);
	KUNIT_EXPECT_EQ(test, seen.count, 1U);
	expect_frame(test, 0, 3, packet(0, 1024));
	ib_destroy_qp(&qp->ibqp);
}

/* Sends a burst, whose payload is at @from and has @has bytes. */
static int send_burst(struct rox_qp *qp, struct rox_burst *b, const void *from, u32 has)
{
	const struct rox_mem_user who = rox_own_memory(qp, qp->ibqp.pd);
	const struct rox_sge sge = { .addr = (uintptr_t)from, .length = has,
				     .lkey = qp->ibqp.pd->local_dma_lkey };
	struct rox_iter it;
	int err;

	rox_iter_init(&it, &who, &sge, 1, 0);
	b->src = &it;
	b->joins = true;
	err = rox_xmit(b);
	rox_iter_end(&it);
	return err;
}

/* Sends @npkts packets of a message of many; the payload has @has bytes. */
static int send_middle(struct rox_qp *qp, u32 psn, u16 npkts, u32 has)
{
	struct rox_burst b = {};

	rox_burst_init(qp, &b, psn);
	b.npkts = npkts;
	b.len = npkts * qp->mtu;
	b.op_first = IB_OPCODE_RC_SEND_MIDDLE;
	b.op_mid = IB_OPCODE_RC_SEND_MIDDLE;
	b.op_last = IB_OPCODE_RC_SEND_MIDDLE;
	return send_burst(qp, &b, payload, has);
}

/* The same where packets of that burst are in the frame already. */
static void a_burst_that_fails_in_a_frame_leaves_it(struct kunit *test)
{
	struct rox_qp *qp = qp_in_rts(test, IB_QPT_RC);
	int err[2];

	take(test);
	err[0] = send_middle(qp, 0, 3, 3 * 1024);
	err[1] = send_middle(qp, 3, 2, 1024 + 512);
	rox_xmit_end();
	took();
	KUNIT_EXPECT_EQ(test, err[0], 0);
	KUNIT_EXPECT_EQ(test, err[1], -EMSGSIZE);
	KUNIT_EXPECT_EQ(test, seen.count, 1U);
	expect_frame(test, 0, 3, packet(0, 1024));
	KUNIT_EXPECT_EQ(test, rox_fixture_counted(qp, ROX_CNT_TX_PKTS), 3);
	KUNIT_EXPECT_EQ(test, rox_fixture_counted(qp, ROX_CNT_TX_BYTES), 3 * 1024);
	ib_destroy_qp(&qp->ibqp);
}

/* Sends a message of @len bytes with these opcodes in one burst, and records its frames. */
static void send_long(struct kunit *test, struct rox_qp *qp, u8 first, u8 mid, u8 last, u32 len)
{
	u64 packets = rox_fixture_counted(qp, ROX_CNT_TX_PKTS);
	u64 bytes = rox_fixture_counted(qp, ROX_CNT_TX_BYTES);
	void *from = kunit_kzalloc(test, len, GFP_KERNEL);
	struct rox_burst b = {};
	int err;

	KUNIT_ASSERT_NOT_NULL(test, from);
	rox_burst_init(qp, &b, 0);
	b.npkts = DIV_ROUND_UP(len, qp->mtu);
	b.len = len;
	b.op_first = first;
	b.op_mid = mid;
	b.op_last = last;
	take(test);
	err = send_burst(qp, &b, from, len);
	rox_xmit_end();
	took();
	KUNIT_EXPECT_EQ(test, err, 0);
	KUNIT_EXPECT_EQ(test, rox_fixture_counted(qp, ROX_CNT_TX_PKTS) - packets, b.npkts);
	KUNIT_EXPECT_EQ(test, rox_fixture_counted(qp, ROX_CNT_TX_BYTES) - bytes, len);
}

/* An IP packet has 65,535 bytes at most. A shorter last packet fits in where no long one would. */
static void a_long_burst_fills_its_frames(struct kunit *test)
{
	const u32 most = (65535 - 40 - 8) / packet(0, 1024);
	struct rox_qp *qp = qp_in_rts(test, IB_QPT_RC);

	send_long(test, qp, IB_OPCODE_RC_SEND_FIRST, IB_OPCODE_RC_SEND_MIDDLE,
		  IB_OPCODE_RC_SEND_LAST, 65536);
	KUNIT_EXPECT_EQ(test, seen.count, 2U);
	expect_frame(test, 0, most, packet(0, 1024));
	expect_frame(test, 1, 64 - most, packet(0, 1024));
	ib_destroy_qp(&qp->ibqp);

	qp = qp_in_rts(test, IB_QPT_RC);
	send_long(test, qp, IB_OPCODE_RC_SEND_FIRST, IB_OPCODE_RC_SEND_MIDDLE,
		  IB_OPCODE_RC_SEND_LAST, most * 1024 + 100);
	KUNIT_EXPECT_EQ(test, seen.count, 1U);
	KUNIT_EXPECT_EQ(test, seen.segs[0], most + 1);
	KUNIT_EXPECT_EQ(test, seen.seg[0], packet(0, 1024));
	KUNIT_EXPECT_EQ(test, seen.len[0], most * packet(0, 1024) + packet(0, 100));
	ib_destroy_qp(&qp->ibqp);
}

/* The first and the last response to a READ have an AETH, and are longer than those between. */
static void longer_packets_begin_a_frame(struct kunit *test)
{
	struct rox_qp *qp = qp_in_rts(test, IB_QPT_RC);

	send_long(test, qp, IB_OPCODE_RC_RDMA_READ_RESPONSE_FIRST,
		  IB_OPCODE_RC_RDMA_READ_RESPONSE_MIDDLE, IB_OPCODE_RC_RDMA_READ_RESPONSE_LAST,
		  10 * 1024);
	KUNIT_EXPECT_EQ(test, seen.count, 3U);
	KUNIT_EXPECT_EQ(test, seen.segs[0], 2U);
	KUNIT_EXPECT_EQ(test, seen.len[0], packet(AETH, 1024) + packet(0, 1024));
	expect_frame(test, 1, 7, packet(0, 1024));
	expect_frame(test, 2, 1, packet(AETH, 1024));
	ib_destroy_qp(&qp->ibqp);
}

/* The last one of a READ and the first one of the next go together, and one of those after it. */
static void longer_packets_share_a_frame(struct kunit *test)
{
	struct rox_qp *qp = qp_in_rts(test, IB_QPT_RC);
	struct rox_burst b = {};
	void *from = kunit_kzalloc(test, 10 * 1024, GFP_KERNEL);
	int i, err = 0;

	KUNIT_ASSERT_NOT_NULL(test, from);
	take(test);
	for (i = 0; i < 2; i++) {
		rox_burst_init(qp, &b, i * 10);
		b.npkts = 10;
		b.len = 10 * 1024;
		b.op_first = IB_OPCODE_RC_RDMA_READ_RESPONSE_FIRST;
		b.op_mid = IB_OPCODE_RC_RDMA_READ_RESPONSE_MIDDLE;
		b.op_last = IB_OPCODE_RC_RDMA_READ_RESPONSE_LAST;
		err |= send_burst(qp, &b, from, b.len);
	}
	rox_xmit_end();
	took();
	KUNIT_EXPECT_EQ(test, err, 0);
	KUNIT_EXPECT_EQ(test, seen.count, 5U);
	KUNIT_EXPECT_EQ(test, seen.len[0], packet(AETH, 1024) + packet(0, 1024));
	expect_frame(test, 1, 7, packet(0, 1024));
	KUNIT_EXPECT_EQ(test, seen.segs[2], 3U);
	KUNIT_EXPECT_EQ(test, seen.seg[2], packet(AETH, 1024));
	KUNIT_EXPECT_EQ(test, seen.len[2], 2 * packet(AETH, 1024) + packet(0, 1024));
	expect_frame(test, 3, 7, packet(0, 1024));
	expect_frame(test, 4, 1, packet(AETH, 1024));
	ib_destroy_qp(&qp->ibqp);
}

/* A message of several packets gets frames of its own, after those of the messages before it. */
static void order_is_kept(struct kunit *test)
{
	struct rox_qp *qp = qp_in_rts(test, IB_QPT_RC);
	struct batch batch = {};

	add_write(test, &batch, 64);
	add_write(test, &batch, 64);
	add_write(test, &batch, 3072);
	add_write(test, &batch, 64);
	post(test, qp, &batch);
	KUNIT_EXPECT_EQ(test, seen.count, 4U);
	expect_frame(test, 0, 2, packet(RETH, 64));
	KUNIT_EXPECT_EQ(test, seen.len[1] + seen.len[2], packet(RETH, 1024) + 2 * packet(0, 1024));
	expect_frame(test, 3, 1, packet(RETH, 64));
	ib_destroy_qp(&qp->ibqp);
}

/* Complete messages are sent even if the payload of the next one cannot be read. */
static void a_message_that_fails_takes_none_with_it(struct kunit *test)
{
	struct rox_qp *qp = qp_in_rts(test, IB_QPT_RC);
	struct batch batch = {};

	add_write(test, &batch, 64);
	add_write(test, &batch, 64);
	add_write(test, &batch, 64);
	add_write(test, &batch, 64);
	batch.sge[2].lkey++;
	post(test, qp, &batch);
	KUNIT_EXPECT_EQ(test, seen.count, 1U);
	expect_frame(test, 0, 2, packet(RETH, 64));
	ib_destroy_qp(&qp->ibqp);
}

static struct ib_ah *ah_with_flow(struct kunit *test, u32 flow)
{
	struct rox_fixture *f = test->priv;
	struct rdma_ah_attr attr = {};
	const struct ib_gid_attr *sgid = rdma_get_gid_attr(&f->dev->ibdev, 1, f->gid_index);
	struct ib_ah *ah;

	KUNIT_ASSERT_FALSE(test, IS_ERR(sgid));
	rox_fixture_address(test, &attr);
	attr.grh.flow_label = flow;
	attr.grh.sgid_attr = sgid;
	ah = rdma_create_ah(f->pd, &attr, 0);
	rdma_put_gid_attr(sgid);
	KUNIT_ASSERT_FALSE(test, IS_ERR(ah));
	return ah;
}

static void datagrams_share_it_where_their_headers_are_the_same(struct kunit *test)
{
	struct rox_qp *qp = qp_in_rts(test, IB_QPT_UD);
	struct ib_ah *one = ah_with_flow(test, 0x12345), *same = ah_with_flow(test, 0x12345);
	struct ib_ah *other = ah_with_flow(test, 0x54321);
	struct batch batch = {};

	add_send(test, &batch, one, 17);
	add_send(test, &batch, one, 18);
	add_send(test, &batch, same, 17);
	add_send(test, &batch, other, 17);
	add_send(test, &batch, one, 17);
	post(test, qp, &batch);
	KUNIT_EXPECT_EQ(test, seen.count, 3U);
	expect_frame(test, 0, 3, packet(DETH, 64));
	expect_frame(test, 1, 1, packet(DETH, 64));
	expect_frame(test, 2, 1, packet(DETH, 64));
	ib_destroy_qp(&qp->ibqp);
	rdma_destroy_ah(one, 0);
	rdma_destroy_ah(same, 0);
	rdma_destroy_ah(other, 0);
}

/*
 * Posts five WRITEs of @len bytes, which share a frame. Return: which of them have an ICRC, the
 * first @bare of them of their headers alone
 */
static u64 five_writes(struct kunit *test, struct rox_qp *qp, u32 len, u32 bare)
{
	u64 left = rox_fixture_counted(qp, ROX_CNT_TX_ICRC_LEFT);
	struct batch batch = {};
	int i;

	for (i = 0; i < 5; i++)
		add_write(test, &batch, len);
	post(test, qp, &batch);
	KUNIT_EXPECT_EQ(test, seen.count, 1U);
	expect_frame(test, 0, 5, packet(RETH, len));
	left = rox_fixture_counted(qp, ROX_CNT_TX_ICRC_LEFT) - left;
	KUNIT_EXPECT_EQ(test, left, 5 - hweight64(seen.icrc[0]) + bare);
	return seen.icrc[0];
}

static void who_needs_the_icrc_gets_it(struct kunit *test)
{
	struct rox_qp *qp = qp_in_rts(test, IB_QPT_RC);

	KUNIT_EXPECT_EQ(test, five_writes(test, qp, 64, 0), 0x1fULL);
	ib_destroy_qp(&qp->ibqp);
	qp = qp_in_rts(test, IB_QPT_RC);
	KUNIT_EXPECT_EQ(test, five_writes(test, qp, 1024, 0), 0x1fULL);
	ib_destroy_qp(&qp->ibqp);
}

/* Who reads the packets in the pages that the sender signed. Short frames have no such pages. */
static void who_believes_signatures_does_not(struct kunit *test)
{
	struct rox_qp *qp = qp_in_rts(test, IB_QPT_RC);

	rox_near_tell(qp->path.near.origin);
	KUNIT_EXPECT_EQ(test, five_writes(test, qp, 1024, 0), 0ULL);
	ib_destroy_qp(&qp->ibqp);
	qp = qp_in_rts(test, IB_QPT_RC);
	rox_near_tell(qp->path.near.origin);
	KUNIT_EXPECT_EQ(test, five_writes(test, qp, 64, 0), 0x1fULL);
	ib_destroy_qp(&qp->ibqp);
}

/* Who gets frames as they are looks at the headers of their first packets. */
static void who_gets_whole_frames_needs_one(struct kunit *test)
{
	struct rox_qp *qp = qp_in_rts(test, IB_QPT_RC);

	rox_ep_told_uncut(&qp->ep);
	KUNIT_EXPECT_EQ(test, five_writes(test, qp, 1024, 1), 1ULL);
	ib_destroy_qp(&qp->ibqp);
	qp = qp_in_rts(test, IB_QPT_RC);
	rox_ep_told_uncut(&qp->ep);
	KUNIT_EXPECT_EQ(test, five_writes(test, qp, 64, 0), 1ULL);
	ib_destroy_qp(&qp->ibqp);
}

/* What is sent again has it, and so has all for a while when packets without it were lost. */
static void what_was_lost_gets_it(struct kunit *test)
{
	struct rox_qp *qp = qp_in_rts(test, IB_QPT_RC);
	struct rox_burst b = {};

	rox_ep_told_uncut(&qp->ep);
	rox_burst_init(qp, &b, 0);
	b.npkts = 4;
	b.len = 4 * qp->mtu;
	b.op_first = IB_OPCODE_RC_SEND_MIDDLE;
	b.op_mid = IB_OPCODE_RC_SEND_MIDDLE;
	b.op_last = IB_OPCODE_RC_SEND_MIDDLE;
	b.resends = true;
	b.unbounded = true;
	take(test);
	KUNIT_EXPECT_EQ(test, send_burst(qp, &b, payload, b.len), 0);
	rox_xmit_end();
	took();
	KUNIT_EXPECT_EQ(test, seen.count, 1U);
	KUNIT_EXPECT_EQ(test, seen.icrc[0], 0xfULL);

	KUNIT_EXPECT_EQ(test, five_writes(test, qp, 1024, 1), 1ULL);
	local_bh_disable();
	rox_tx_missing(&qp->ep, &qp->path, &qp->send.side.sender, qp->send.una, true);
	local_bh_enable();
	rox_ep_told_uncut(&qp->ep);
	KUNIT_EXPECT_FALSE(test, rox_path_is_uncut(&qp->path, &qp->ep));
	ib_destroy_qp(&qp->ibqp);
}

/* Nobody sends datagrams again. */
static void datagrams_have_it(struct kunit *test)
{
	struct rox_qp *qp = qp_in_rts(test, IB_QPT_UD);
	struct ib_ah *ah = ah_with_flow(test, 0x12345);
	struct rox_path *path = &to_rox_ib_ah(ah)->ah->path;
	struct batch batch = {};

	rox_ep_told_uncut(&qp->ep);
	rox_near_tell(path->near.origin);
	add_send(test, &batch, ah, 17);
	add_send(test, &batch, ah, 17);
	post(test, qp, &batch);
	KUNIT_EXPECT_EQ(test, seen.count, 1U);
	KUNIT_EXPECT_EQ(test, seen.icrc[0], 3ULL);
	ib_destroy_qp(&qp->ibqp);
	rdma_destroy_ah(ah, 0);
}

static struct kunit_case xmit_cases[] = {
	KUNIT_CASE(messages_of_one_size_share_a_frame),
	KUNIT_CASE(so_do_messages_as_large_as_the_mtu),
	KUNIT_CASE(another_size_begins_another_frame),
	KUNIT_CASE(messages_of_several_packets_go_on_in_a_frame),
	KUNIT_CASE(a_shorter_packet_ends_the_frame),
	KUNIT_CASE(a_burst_that_fails_takes_none_with_it),
	KUNIT_CASE(a_burst_that_fails_in_a_frame_leaves_it),
	KUNIT_CASE(a_long_burst_fills_its_frames),
	KUNIT_CASE(longer_packets_begin_a_frame),
	KUNIT_CASE(longer_packets_share_a_frame),
	KUNIT_CASE(order_is_kept),
	KUNIT_CASE(a_message_that_fails_takes_none_with_it),
	KUNIT_CASE(datagrams_share_it_where_their_headers_are_the_same),
	KUNIT_CASE(who_needs_the_icrc_gets_it),
	KUNIT_CASE(who_believes_signatures_does_not),
	KUNIT_CASE(who_gets_whole_frames_needs_one),
	KUNIT_CASE(what_was_lost_gets_it),
	KUNIT_CASE(datagrams_have_it),
	{}
};

static struct kunit_suite rox_xmit_suite = {
	.name = "rox_xmit",
	.init = rox_fixture_init,
	.exit = rox_fixture_exit,
	.test_cases = xmit_cases,
};

kunit_test_suite(rox_xmit_suite);
