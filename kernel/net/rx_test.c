// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit: the packets of a frame that continue a message are joined, and what stops that.
 */
#include <linux/ip.h>
#include <linux/udp.h>

#include "../transport/internal.h"
#include "../kunit/fixture.h"

#define PACKETS	6
#define MTU	256
#define SEG	(ROX_BTH_LEN + MTU + ROX_ICRC_LEN)
#define FIRST	0xfffffeU	/* PSNs wrap */
#define WHOLE	(PACKETS * MTU + 1)

/**
 * struct frame - a GSO frame of MIDDLE packets of a WRITE, all in the linear part
 * @qp: the receiver
 * @skb: the frame
 * @payload: its UDP payload
 */
struct frame {
	struct rox_qp *qp;
	struct sk_buff *skb;
	u8 *payload;
};

/* Writes packet @i with a right ICRC. */
static void write_packet(struct frame *f, u32 i, u8 opcode, u32 psn, bool ackreq)
{
	const struct rox_bth bth = {
		.opcode = opcode, .migreq = true, .pkey = 0xffff, .dqpn = f->qp->ibqp.qp_num,
		.ackreq = ackreq, .psn = psn,
	};
	u8 *p = f->payload + i * SEG;
	struct rox_icrc_head head;
	__le32 icrc;
	u32 crc;

	rox_icrc_head_v4(&head, ip_hdr(f->skb), udp_hdr(f->skb));
	rox_bth_pack(p, &bth);
	memcpy(rox_icrc_bth(&head), p, ROX_BTH_LEN);
	memset(p + ROX_BTH_LEN, i + 1, MTU);
	rox_icrc_packet(&head, SEG, ntohs(ip_hdr(f->skb)->id) + i);
	crc = rox_icrc_update(rox_icrc_begin(&head), p + ROX_BTH_LEN, MTU);
	icrc = rox_icrc_end(crc);
	memcpy(p + ROX_BTH_LEN + MTU, &icrc, sizeof(icrc));
}

static void make_frame(struct kunit *test, struct frame *f)
{
	const u32 heads = sizeof(struct iphdr) + sizeof(struct udphdr);
	struct iphdr *ip;
	u32 i;

	f->qp = rox_fixture_qp(test, IB_QPT_RC);
	f->skb = alloc_skb(heads + PACKETS * SEG, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, f->skb);
	f->payload = skb_put_zero(f->skb, heads + PACKETS * SEG) + heads;
	skb_reset_network_header(f->skb);
	skb_set_transport_header(f->skb, sizeof(struct iphdr));
	ip = ip_hdr(f->skb);
	ip->version = 4;
	ip->ihl = 5;
	ip->id = htons(0xfffe);
	ip->protocol = IPPROTO_UDP;
	udp_hdr(f->skb)->dest = htons(ROX_UDP_PORT);
	skb_shinfo(f->skb)->gso_size = SEG;
	skb_shinfo(f->skb)->gso_segs = PACKETS;
	skb_shinfo(f->skb)->gso_type = SKB_GSO_UDP_L4;
	for (i = 0; i < PACKETS; i++)
		write_packet(f, i, IB_OPCODE_RC_RDMA_WRITE_MIDDLE, rox_psn_add(FIRST, i), false);
	*rox_skb_cb(f->skb) = (struct rox_skb_cb) { .to = &f->qp->ep, .count = PACKETS };
}

static void drop_frame(struct frame *f)
{
	kfree_skb(f->skb);
	ib_destroy_qp(&f->qp->ibqp);
}

/* Finds the next packet of the frame and joins what follows. Return: number of PSNs; 0: none */
static u32 next_joined(struct rox_rx *rx, struct rox_pkt *pkt, u32 most)
{
	bool found;

	local_bh_disable();
	found = rox_rx_next(rx, pkt);
	if (found)
		rox_rx_join(rx, pkt, most);
	local_bh_enable();
	return found ? pkt->npkts : 0;
}

static void packets_in_sequence_are_joined(struct kunit *test)
{
	static u8 to[PACKETS * MTU];
	struct rox_pkt pkt;
	struct rox_rx rx;
	struct frame f;
	u32 i;

	make_frame(test, &f);
	write_packet(&f, 3, IB_OPCODE_RC_RDMA_WRITE_MIDDLE, rox_psn_add(FIRST, 3), true);
	rox_rx_begin(&rx, f.skb);
	KUNIT_ASSERT_EQ(test, next_joined(&rx, &pkt, WHOLE), PACKETS);
	KUNIT_EXPECT_EQ(test, pkt.payload_len, PACKETS * MTU);
	KUNIT_EXPECT_EQ(test, pkt.bth.psn, FIRST);
	KUNIT_EXPECT_TRUE(test, pkt.bth.ackreq);
	KUNIT_EXPECT_FALSE(test, rox_rx_next(&rx, &pkt));
	KUNIT_EXPECT_EQ(test, rox_fixture_counted(f.qp, ROX_CNT_RX_PKTS), PACKETS);
	KUNIT_EXPECT_EQ(test, rox_fixture_counted(f.qp, ROX_CNT_RX_BYTES), PACKETS * MTU);
	for (i = 0; i < PACKETS; i++)
		memcpy(to + i * MTU, pkt.joined + i * pkt.stride, MTU);
	for (i = 0; i < sizeof(to); i++)
		KUNIT_ASSERT_EQ(test, to[i], i / MTU + 1);
	drop_frame(&f);
}

static void no_more_than_the_message_has(struct kunit *test)
{
	struct rox_pkt pkt;
	struct rox_rx rx;
	struct frame f;

	make_frame(test, &f);
	rox_rx_begin(&rx, f.skb);
	/* A MIDDLE packet is never the end. */
	KUNIT_EXPECT_EQ(test, next_joined(&rx, &pkt, 3 * MTU), 2);
	KUNIT_EXPECT_EQ(test, next_joined(&rx, &pkt, MTU), 1);
	KUNIT_EXPECT_NOT_NULL(test, pkt.payload);
	KUNIT_EXPECT_EQ(test, next_joined(&rx, &pkt, WHOLE), 3);
	KUNIT_EXPECT_EQ(test, pkt.bth.psn, rox_psn_add(FIRST, 3));
	drop_frame(&f);
}

static void a_broken_packet_stops_it(struct kunit *test)
{
	struct rox_pkt pkt;
	struct rox_rx rx;
	struct frame f;

	make_frame(test, &f);
	f.payload[2 * SEG + ROX_BTH_LEN + 7] ^= 1;
	rox_rx_begin(&rx, f.skb);
	KUNIT_EXPECT_EQ(test, next_joined(&rx, &pkt, WHOLE), 2);
	KUNIT_EXPECT_EQ(test, rox_fixture_counted(f.qp, ROX_CNT_RX_ICRC), 0);
	KUNIT_EXPECT_EQ(test, next_joined(&rx, &pkt, WHOLE), 3);
	KUNIT_EXPECT_EQ(test, pkt.bth.psn, rox_psn_add(FIRST, 3));
	KUNIT_EXPECT_EQ(test, rox_fixture_counted(f.qp, ROX_CNT_RX_ICRC), 1);
	KUNIT_EXPECT_EQ(test, rox_fixture_counted(f.qp, ROX_CNT_RX_PKTS), 5);
	drop_frame(&f);
}

/**
 * struct other - a packet that does not continue the ones before it
 * @opcode: its opcode
 * @psn: its PSN, counted from that of the first packet
 */
static const struct other {
	u8 opcode;
	s32 psn;
} others[] = {
	{ IB_OPCODE_RC_RDMA_WRITE_LAST, 2 },
	{ IB_OPCODE_RC_SEND_MIDDLE, 2 },
	{ IB_OPCODE_UC_RDMA_WRITE_MIDDLE, 2 },
	{ IB_OPCODE_RC_RDMA_WRITE_MIDDLE, 1 },
	{ IB_OPCODE_RC_RDMA_WRITE_MIDDLE, 3 },
	{ IB_OPCODE_RC_RDMA_WRITE_MIDDLE, 0x800002 },
};

static void so_does_another_packet(struct kunit *test)
{
	struct rox_pkt pkt;
	struct rox_rx rx;
	struct frame f;
	int i;

	for (i = 0; i < ARRAY_SIZE(others); i++) {
		make_frame(test, &f);
		write_packet(&f, 2, others[i].opcode, rox_psn_add(FIRST, others[i].psn), false);
		rox_rx_begin(&rx, f.skb);
		KUNIT_EXPECT_EQ(test, next_joined(&rx, &pkt, WHOLE), 2);
		KUNIT_EXPECT_TRUE(test, rox_rx_next(&rx, &pkt));
		KUNIT_EXPECT_EQ(test, pkt.bth.opcode, others[i].opcode);
		KUNIT_EXPECT_EQ(test, pkt.npkts, 1);
		drop_frame(&f);
	}
}

static void a_walk_that_is_cut_goes_on_behind_them(struct kunit *test)
{
	struct rox_pkt pkt;
	struct rox_rx rx;
	struct frame f;

	make_frame(test, &f);
	rox_rx_begin(&rx, f.skb);
	KUNIT_EXPECT_EQ(test, next_joined(&rx, &pkt, 5 * MTU), 4);
	KUNIT_EXPECT_TRUE(test, rox_rx_cut(&rx));
	rox_rx_begin(&rx, f.skb);
	KUNIT_EXPECT_EQ(test, next_joined(&rx, &pkt, WHOLE), 2);
	KUNIT_EXPECT_EQ(test, pkt.bth.psn, rox_psn_add(FIRST, 4));
	KUNIT_EXPECT_FALSE(test, rox_rx_cut(&rx));
	drop_frame(&f);
}

static struct kunit_case rx_cases[] = {
	KUNIT_CASE(packets_in_sequence_are_joined),
	KUNIT_CASE(no_more_than_the_message_has),
	KUNIT_CASE(a_broken_packet_stops_it),
	KUNIT_CASE(so_does_another_packet),
	KUNIT_CASE(a_walk_that_is_cut_goes_on_behind_them),
	{}
};

static struct kunit_suite rox_rx_suite = {
	.name = "rox_rx",
	.init = rox_fixture_init,
	.exit = rox_fixture_exit,
	.test_cases = rx_cases,
};

kunit_test_suite(rox_rx_suite);
