// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit: the packets of a frame that continue a message are joined, and what stops that; which
 * packets are checked; packets of different sizes.
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

/*
 * Writes packet @i, with @len bytes of payload and a right ICRC, to @p, or with a right CRC of its
 * headers alone.
 */
static void write_sealed(struct frame *f, u8 *p, u32 i, const struct rox_bth *bth, u32 len,
			 bool bare)
{
	struct rox_icrc_head head;
	__le32 icrc;
	u32 crc;

	rox_icrc_head_v4(&head, ip_hdr(f->skb), udp_hdr(f->skb));
	rox_bth_pack(p, bth);
	memcpy(head.bth, p, ROX_BTH_LEN);
	memset(p + ROX_BTH_LEN, i + 1, len);
	rox_icrc_packet(&head, ROX_BTH_LEN + len + ROX_ICRC_LEN, ntohs(ip_hdr(f->skb)->id) + i);
	crc = rox_icrc_begin(&head);
	icrc = bare ? rox_icrc_bare(crc) : rox_icrc_end(rox_icrc_update(crc, p + ROX_BTH_LEN, len));
	memcpy(p + ROX_BTH_LEN + len, &icrc, sizeof(icrc));
}

static void write_at(struct frame *f, u8 *p, u32 i, const struct rox_bth *bth, u32 len)
{
	write_sealed(f, p, i, bth, len, false);
}

static struct rox_bth bth_of(const struct frame *f, u8 opcode, u32 psn, bool ackreq)
{
	return (struct rox_bth) {
		.opcode = opcode, .migreq = true, .pkey = 0xffff, .dqpn = f->qp->ibqp.qp_num,
		.ackreq = ackreq, .psn = psn,
	};
}

/* Writes packet @i of a frame with packets of one size. */
static void write_packet(struct frame *f, u32 i, u8 opcode, u32 psn, bool ackreq)
{
	const struct rox_bth bth = bth_of(f, opcode, psn, ackreq);

	write_at(f, f->payload + i * SEG, i, &bth, MTU);
}

/* A GSO frame with @len bytes of UDP payload in its linear part. */
static void begin_frame(struct kunit *test, struct frame *f, u32 len)
{
	const u32 heads = sizeof(struct iphdr) + sizeof(struct udphdr);
	struct iphdr *ip;

	f->qp = rox_fixture_qp(test, IB_QPT_RC);
	f->skb = alloc_skb(heads + len, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, f->skb);
	f->payload = skb_put_zero(f->skb, heads + len) + heads;
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
	*rox_skb_cb(f->skb) = (struct rox_skb_cb) { .to = &f->qp->ep, .count = PACKETS };
}

static void make_frame(struct kunit *test, struct frame *f)
{
	u32 i;

	begin_frame(test, f, PACKETS * SEG);
	for (i = 0; i < PACKETS; i++)
		write_packet(f, i, IB_OPCODE_RC_RDMA_WRITE_MIDDLE, rox_psn_add(FIRST, i), false);
}

/* Payload bytes of a packet of make_list(): neither equal nor ever less. */
static u32 list_len(u32 i)
{
	return MTU + (i % 2 ? -16 : 16) - 4 * i;
}

/* A frame as GRO makes them: each packet is an sk_buff, and has its own size. */
static void make_list(struct kunit *test, struct frame *f)
{
	struct sk_buff **next, *part;
	struct rox_bth bth;
	u32 i, len;
	u8 *p;

	begin_frame(test, f, ROX_BTH_LEN + list_len(0) + ROX_ICRC_LEN);
	next = &skb_shinfo(f->skb)->frag_list;
	skb_shinfo(f->skb)->gso_type |= SKB_GSO_FRAGLIST;
	for (i = 0, p = f->payload; i < PACKETS; i++) {
		bth = bth_of(f, IB_OPCODE_RC_RDMA_WRITE_MIDDLE, rox_psn_add(FIRST, i), false);
		len = ROX_BTH_LEN + list_len(i) + ROX_ICRC_LEN;
		if (i) {
			part = alloc_skb(len, GFP_KERNEL);
			KUNIT_ASSERT_NOT_NULL(test, part);
			p = skb_put(part, len);
			f->skb->len += len;
			f->skb->data_len += len;
			f->skb->truesize += part->truesize;
			*next = part;
			next = &part->next;
		}
		write_at(f, p, i, &bth, list_len(i));
	}
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

/* The same of a walk that begins: the first packet. */
static u32 first_joined(const struct frame *f, struct rox_pkt *pkt)
{
	struct rox_rx rx;

	rox_rx_begin(&rx, f->skb);
	return next_joined(&rx, pkt, WHOLE);
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
		KUNIT_ASSERT_EQ(test, skb_copy_bits(f.skb, pkt.payload_off + i * pkt.stride,
						    to + i * MTU, MTU), 0);
	for (i = 0; i < sizeof(to); i++)
		KUNIT_ASSERT_EQ(test, to[i], i / MTU + 1);
	drop_frame(&f);
}

static void break_packet(struct frame *f, u32 i)
{
	f->payload[i * SEG + ROX_BTH_LEN + 7] ^= 1;
}

#define PIECES	5

/* Where the fragments of a frame end: in payloads and with packets; and the first one in a BTH. */
static const u32 ends[PIECES] = { SEG + 40, 3 * SEG, 3 * SEG + 100, 3 * SEG + 200, PACKETS * SEG };
static const u32 ends_in_bth[PIECES] = { 2 * SEG + 6, 3 * SEG, 4 * SEG, 5 * SEG, PACKETS * SEG };

/* The same frame in pieces, as netdevs make them. The linear part ends in the first payload. */
static void make_pieces(struct kunit *test, struct frame *f, const u32 piece_ends[PIECES])
{
	u32 heads, from = SEG / 2, i;
	struct page *page;

	make_frame(test, f);
	heads = f->payload - f->skb->data;
	page = alloc_page(GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, page);
	memcpy(page_address(page), f->payload, PACKETS * SEG);
	f->payload = page_address(page);
	for (i = 0; i < PIECES; from = piece_ends[i++]) {
		if (i)
			get_page(page);
		skb_add_rx_frag(f->skb, i, page, from, piece_ends[i] - from, 0);
	}
	/* What is in the fragments goes from the linear part. */
	f->skb->tail -= PACKETS * SEG - SEG / 2;
	f->skb->len -= PACKETS * SEG - SEG / 2;
	KUNIT_ASSERT_EQ(test, f->skb->len, heads + PACKETS * SEG);
}

/* Copies @pkt into memory, all of it or from @off on, and looks at each byte. */
static void copy_joined(struct kunit *test, const struct frame *f, const struct rox_pkt *pkt,
			u32 off)
{
	u32 len = pkt->payload_len - off, i;
	u8 *to = kunit_kzalloc(test, len + 1, GFP_KERNEL);
	const struct rox_mem_user who = rox_own_memory(f->qp, f->qp->ibqp.pd);
	const struct rox_sge sge = { .addr = (uintptr_t)to, .length = len,
				     .lkey = f->qp->ibqp.pd->local_dma_lkey };
	struct rox_iter it;

	KUNIT_ASSERT_NOT_NULL(test, to);
	rox_iter_init(&it, &who, &sge, 1, IB_ACCESS_LOCAL_WRITE);
	KUNIT_EXPECT_EQ(test, rox_pkt_copy(pkt, off, &it, len), 0);
	rox_iter_end(&it);
	for (i = 0; i < len; i++)
		KUNIT_ASSERT_EQ(test, to[i], (off + i) / MTU + 1);
	KUNIT_EXPECT_EQ(test, to[len], 0);
}

static void they_may_be_in_several_pieces(struct kunit *test)
{
	static const u32 offs[] = { 0, 1, MTU, 2 * MTU + 50, PACKETS * MTU - 1, PACKETS * MTU };
	struct rox_pkt pkt;
	struct rox_rx rx;
	struct frame f;
	u32 i;

	make_pieces(test, &f, ends);
	rox_rx_begin(&rx, f.skb);
	KUNIT_ASSERT_EQ(test, next_joined(&rx, &pkt, WHOLE), PACKETS);
	for (i = 0; i < ARRAY_SIZE(offs); i++)
		copy_joined(test, &f, &pkt, offs[i]);
	KUNIT_EXPECT_EQ(test, rox_fixture_counted(f.qp, ROX_CNT_RX_PKTS), PACKETS);
	KUNIT_EXPECT_EQ(test, rox_fixture_counted(f.qp, ROX_CNT_RX_ICRC), 0);
	drop_frame(&f);
}

static void a_bth_in_two_pieces_begins_anew(struct kunit *test)
{
	struct rox_pkt pkt;
	struct rox_rx rx;
	struct frame f;

	make_pieces(test, &f, ends_in_bth);
	rox_rx_begin(&rx, f.skb);
	KUNIT_EXPECT_EQ(test, next_joined(&rx, &pkt, WHOLE), 2);
	copy_joined(test, &f, &pkt, 0);
	KUNIT_EXPECT_EQ(test, next_joined(&rx, &pkt, WHOLE), 4);
	KUNIT_EXPECT_EQ(test, pkt.bth.psn, rox_psn_add(FIRST, 2));
	KUNIT_EXPECT_EQ(test, next_joined(&rx, &pkt, WHOLE), 0);
	KUNIT_EXPECT_EQ(test, rox_fixture_counted(f.qp, ROX_CNT_RX_PKTS), PACKETS);
	KUNIT_EXPECT_EQ(test, rox_fixture_counted(f.qp, ROX_CNT_RX_ICRC), 0);
	drop_frame(&f);
}

/* The ICRC of a packet in several pieces is checked, too. */
static void a_broken_packet_in_pieces_stops_it(struct kunit *test)
{
	struct rox_pkt pkt;
	struct rox_rx rx;
	struct frame f;

	make_pieces(test, &f, ends);
	break_packet(&f, 3);
	rox_rx_begin(&rx, f.skb);
	KUNIT_EXPECT_EQ(test, next_joined(&rx, &pkt, WHOLE), 3);
	KUNIT_EXPECT_EQ(test, next_joined(&rx, &pkt, WHOLE), 2);
	KUNIT_EXPECT_EQ(test, pkt.bth.psn, rox_psn_add(FIRST, 4));
	KUNIT_EXPECT_EQ(test, rox_fixture_counted(f.qp, ROX_CNT_RX_ICRC), 1);
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
	break_packet(&f, 2);
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
struct other {
	u8 opcode;
	s32 psn;
};

static const struct other others[] = {
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

/* The sender has left the UDP checksum to a netdev, and UDP has gone past its header. */
static void leave_checksum_open(struct frame *f)
{
	f->skb->csum_start = skb_transport_header(f->skb) - f->skb->head;
	f->skb->csum_offset = offsetof(struct udphdr, check);
}

static void a_frame_from_no_wire_is_checked_once(struct kunit *test)
{
	struct rox_pkt pkt;
	struct rox_rx rx;
	struct frame f;

	make_frame(test, &f);
	leave_checksum_open(&f);
	break_packet(&f, 2);
	rox_rx_begin(&rx, f.skb);
	KUNIT_EXPECT_EQ(test, next_joined(&rx, &pkt, WHOLE), PACKETS);
	KUNIT_EXPECT_EQ(test, rox_fixture_counted(f.qp, ROX_CNT_RX_ICRC), 0);
	KUNIT_EXPECT_EQ(test, rox_fixture_counted(f.qp, ROX_CNT_RX_ICRC_KNOWN), PACKETS - 1);
	drop_frame(&f);
}

/* So its sender may leave out the ICRC of the packets after the first. */
static void it_stays_proved_when_the_walk_is_cut(struct kunit *test)
{
	struct rox_pkt pkt;
	struct rox_rx rx;
	struct frame f;

	make_frame(test, &f);
	leave_checksum_open(&f);
	break_packet(&f, 4);
	rox_rx_begin(&rx, f.skb);
	KUNIT_EXPECT_EQ(test, next_joined(&rx, &pkt, 5 * MTU), 4);
	KUNIT_EXPECT_TRUE(test, rox_rx_cut(&rx));
	rox_rx_begin(&rx, f.skb);
	KUNIT_EXPECT_EQ(test, next_joined(&rx, &pkt, WHOLE), 2);
	KUNIT_EXPECT_EQ(test, rox_fixture_counted(f.qp, ROX_CNT_RX_ICRC), 0);
	drop_frame(&f);
}

/* And its sender is told so, now and then. */
static void its_sender_is_told(struct kunit *test)
{
	struct rox_pkt pkt;
	struct frame f;

	make_frame(test, &f);
	KUNIT_EXPECT_EQ(test, first_joined(&f, &pkt), PACKETS);
	KUNIT_EXPECT_FALSE(test, f.qp->ep.uncut);
	leave_checksum_open(&f);
	KUNIT_EXPECT_EQ(test, first_joined(&f, &pkt), PACKETS);
	KUNIT_EXPECT_TRUE(test, f.qp->ep.uncut);
	f.qp->ep.uncut = false;
	KUNIT_EXPECT_EQ(test, first_joined(&f, &pkt), PACKETS);
	KUNIT_EXPECT_FALSE(test, f.qp->ep.uncut);
	f.qp->ep.uncut_at -= HZ / 4;
	KUNIT_EXPECT_EQ(test, first_joined(&f, &pkt), PACKETS);
	KUNIT_EXPECT_TRUE(test, f.qp->ep.uncut);
	drop_frame(&f);
}

/* Finds @count packets of a list, from packet @i on. */
static void find_listed(struct kunit *test, struct rox_rx *rx, u32 i, u32 count)
{
	u8 byte[2];
	struct rox_pkt pkt;

	for (; count; i++, count--) {
		KUNIT_ASSERT_EQ(test, next_joined(rx, &pkt, WHOLE), 1);
		KUNIT_EXPECT_EQ(test, pkt.bth.psn, rox_psn_add(FIRST, i));
		KUNIT_EXPECT_EQ(test, pkt.payload_len, list_len(i));
		KUNIT_EXPECT_NOT_NULL(test, pkt.payload);
		KUNIT_EXPECT_EQ(test, rox_pkt_read(&pkt, byte, sizeof(byte)), 0);
		KUNIT_EXPECT_EQ(test, byte[1], i + 1);
	}
}

/* Writes the first packet of a frame with a CRC of its headers alone. */
static void write_bare(struct frame *f)
{
	const struct rox_bth bth = bth_of(f, IB_OPCODE_RC_RDMA_WRITE_MIDDLE, FIRST, false);

	write_sealed(f, f->payload, 0, &bth, MTU, true);
}

/* Such a frame needs a CRC of its headers only. */
static void headers_alone_may_prove_it(struct kunit *test)
{
	struct rox_pkt pkt;
	struct frame f;

	make_frame(test, &f);
	write_bare(&f);
	break_packet(&f, 2);
	KUNIT_EXPECT_EQ(test, first_joined(&f, &pkt), 1);
	KUNIT_EXPECT_EQ(test, pkt.bth.psn, rox_psn_add(FIRST, 1));
	KUNIT_EXPECT_FALSE(test, f.qp->ep.uncut);
	leave_checksum_open(&f);
	KUNIT_EXPECT_EQ(test, first_joined(&f, &pkt), PACKETS);
	KUNIT_EXPECT_TRUE(test, f.qp->ep.uncut);
	udp_hdr(f.skb)->source ^= htons(1);
	KUNIT_EXPECT_EQ(test, first_joined(&f, &pkt), 0);
	drop_frame(&f);
}

/* So does a packet alone. */
static void and_a_single_packet(struct kunit *test)
{
	struct rox_pkt pkt;
	struct frame f;

	make_frame(test, &f);
	write_bare(&f);
	skb_trim(f.skb, skb_transport_offset(f.skb) + sizeof(struct udphdr) + SEG);
	skb_shinfo(f.skb)->gso_size = 0;
	skb_shinfo(f.skb)->gso_type = 0;
	rox_skb_cb(f.skb)->count = 1;
	KUNIT_EXPECT_EQ(test, first_joined(&f, &pkt), 0);
	leave_checksum_open(&f);
	KUNIT_EXPECT_EQ(test, first_joined(&f, &pkt), 1);
	KUNIT_EXPECT_FALSE(test, f.qp->ep.uncut);
	drop_frame(&f);
}

/* And in a list, where each packet says so itself. */
static void and_each_packet_of_a_list(struct kunit *test)
{
	struct sk_buff *part;
	struct rox_pkt pkt;
	struct rox_bth bth;
	struct rox_rx rx;
	struct frame f;
	u32 i = 0;

	make_list(test, &f);
	skb_walk_frags(f.skb, part) {
		bth = bth_of(&f, IB_OPCODE_RC_RDMA_WRITE_MIDDLE, rox_psn_add(FIRST, ++i), false);
		write_sealed(&f, part->data, i, &bth, list_len(i), true);
		part->ip_summed = i == 3 ? CHECKSUM_NONE : CHECKSUM_PARTIAL;
	}
	rox_rx_begin(&rx, f.skb);
	find_listed(test, &rx, 0, 3);
	KUNIT_EXPECT_EQ(test, next_joined(&rx, &pkt, WHOLE), 1);
	KUNIT_EXPECT_EQ(test, pkt.bth.psn, rox_psn_add(FIRST, 4));
	KUNIT_EXPECT_EQ(test, rox_fixture_counted(f.qp, ROX_CNT_RX_ICRC), 1);
	drop_frame(&f);
}

/* What the ICRC covers was changed in all packets, as NAT does. */
static void its_headers_must_be_right(struct kunit *test)
{
	struct rox_pkt pkt;
	struct rox_rx rx;
	struct frame f;

	make_frame(test, &f);
	leave_checksum_open(&f);
	udp_hdr(f.skb)->source ^= htons(1);
	rox_rx_begin(&rx, f.skb);
	KUNIT_EXPECT_EQ(test, next_joined(&rx, &pkt, WHOLE), 0);
	KUNIT_EXPECT_EQ(test, rox_fixture_counted(f.qp, ROX_CNT_RX_ICRC), PACKETS);
	KUNIT_EXPECT_EQ(test, rox_fixture_counted(f.qp, ROX_CNT_RX_ICRC_KNOWN), 0);
	drop_frame(&f);
}

/* A list of packets, as GRO makes them, may come from a wire, whatever its checksum says. */
static void a_frame_of_joined_packets_is_checked(struct kunit *test)
{
	struct rox_pkt pkt;
	struct rox_rx rx;
	struct frame f;

	make_frame(test, &f);
	leave_checksum_open(&f);
	break_packet(&f, 2);
	skb_shinfo(f.skb)->frag_list = alloc_skb(0, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, skb_shinfo(f.skb)->frag_list);
	rox_rx_begin(&rx, f.skb);
	KUNIT_EXPECT_EQ(test, next_joined(&rx, &pkt, WHOLE), 2);
	KUNIT_EXPECT_EQ(test, next_joined(&rx, &pkt, WHOLE), 3);
	KUNIT_EXPECT_EQ(test, rox_fixture_counted(f.qp, ROX_CNT_RX_ICRC), 1);
	drop_frame(&f);
}

static void packets_of_a_list_have_their_own_sizes(struct kunit *test)
{
	struct rox_pkt pkt;
	struct rox_rx rx;
	struct frame f;

	make_list(test, &f);
	rox_rx_begin(&rx, f.skb);
	find_listed(test, &rx, 0, PACKETS);
	KUNIT_EXPECT_EQ(test, next_joined(&rx, &pkt, WHOLE), 0);
	KUNIT_EXPECT_EQ(test, rox_fixture_counted(f.qp, ROX_CNT_RX_PKTS), PACKETS);
	KUNIT_EXPECT_EQ(test, rox_fixture_counted(f.qp, ROX_CNT_RX_ICRC), 0);
	drop_frame(&f);
}

static void a_run_may_be_in_the_middle_of_a_list(struct kunit *test)
{
	struct rox_pkt pkt;
	struct rox_rx rx;
	struct frame f;

	make_list(test, &f);
	rox_skb_cb(f.skb)->first = 1;
	rox_skb_cb(f.skb)->count = 4;
	rox_rx_begin(&rx, f.skb);
	find_listed(test, &rx, 1, 2);
	KUNIT_EXPECT_TRUE(test, rox_rx_cut(&rx));
	rox_rx_begin(&rx, f.skb);
	find_listed(test, &rx, 3, 2);
	KUNIT_EXPECT_EQ(test, next_joined(&rx, &pkt, WHOLE), 0);
	KUNIT_EXPECT_FALSE(test, rox_rx_cut(&rx));
	drop_frame(&f);
}

/* What IP and UDP left in a frame's control block means nothing. */
static void what_was_in_the_control_block_is_gone(struct kunit *test)
{
	const struct rox_run run = { .first = 1, .count = 2 };
	const struct rox_gid_ref none = {};
	const struct rox_skb_cb *cb;
	struct frame f;

	make_frame(test, &f);
	cb = rox_skb_cb(f.skb);
	memset(f.skb->cb, 0xff, sizeof(f.skb->cb));
	rox_skb_claim(f.skb, &f.qp->ep, &run);
	KUNIT_EXPECT_PTR_EQ(test, cb->to, &f.qp->ep);
	KUNIT_EXPECT_EQ(test, cb->first, 1U);
	KUNIT_EXPECT_EQ(test, cb->count, 2U);
	KUNIT_EXPECT_EQ(test, cb->psn, 0U);
	KUNIT_EXPECT_FALSE(test, cb->local || cb->checked || cb->held || cb->marked || cb->proved);
	KUNIT_EXPECT_MEMEQ(test, &cb->gid, &none, sizeof(none));
	drop_frame(&f);
}

static struct kunit_case rx_cases[] = {
	KUNIT_CASE(packets_in_sequence_are_joined),
	KUNIT_CASE(they_may_be_in_several_pieces),
	KUNIT_CASE(a_bth_in_two_pieces_begins_anew),
	KUNIT_CASE(a_broken_packet_in_pieces_stops_it),
	KUNIT_CASE(no_more_than_the_message_has),
	KUNIT_CASE(a_broken_packet_stops_it),
	KUNIT_CASE(so_does_another_packet),
	KUNIT_CASE(a_walk_that_is_cut_goes_on_behind_them),
	KUNIT_CASE(a_frame_from_no_wire_is_checked_once),
	KUNIT_CASE(it_stays_proved_when_the_walk_is_cut),
	KUNIT_CASE(its_sender_is_told),
	KUNIT_CASE(headers_alone_may_prove_it),
	KUNIT_CASE(and_a_single_packet),
	KUNIT_CASE(and_each_packet_of_a_list),
	KUNIT_CASE(its_headers_must_be_right),
	KUNIT_CASE(a_frame_of_joined_packets_is_checked),
	KUNIT_CASE(packets_of_a_list_have_their_own_sizes),
	KUNIT_CASE(a_run_may_be_in_the_middle_of_a_list),
	KUNIT_CASE(what_was_in_the_control_block_is_gone),
	{}
};

static struct kunit_suite rox_rx_suite = {
	.name = "rox_rx",
	.init = rox_fixture_init,
	.exit = rox_fixture_exit,
	.test_cases = rx_cases,
};

kunit_test_suite(rox_rx_suite);
