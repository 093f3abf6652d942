// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit: frames, and the signature that shows a receiver on this machine that a packet has not
 * changed.
 */
#include <kunit/test.h>
#include <linux/etherdevice.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <net/dst.h>

#include "internal.h"

#define PACKET	4140
#define MARK	0x12345678

/* Begins a frame that is not linear. With bottom halves disabled. */
static struct sk_buff *begin(struct kunit *test, struct rox_frame *frame)
{
	KUNIT_ASSERT_EQ(test, rox_frame_begin_local(frame, 64, 65000), 0);
	return frame->skb;
}

static const struct page *page_of(const struct rox_frame *frame)
{
	const struct skb_shared_info *info = skb_shinfo(frame->skb);

	return skb_frag_page(&info->frags[info->nr_frags - 1]);
}

/* Appends a packet. */
static void *packet_in(struct rox_frame *frame, u32 len)
{
	u32 n = 1;

	return rox_frame_packets(frame, len, &n);
}

static void packets_are_in_one_piece(struct kunit *test)
{
	struct rox_frame frame;
	struct sk_buff *skb;
	int i;

	local_bh_disable();
	skb = begin(test, &frame);
	for (i = 0; i < 15; i++) {
		u8 *p = packet_in(&frame, PACKET);

		KUNIT_ASSERT_NOT_NULL(test, p);
		memset(p, i, PACKET);
	}
	local_bh_enable();
	KUNIT_EXPECT_EQ(test, skb->len, 64U + 15 * PACKET);
	for (i = 0; i < 15; i++) {
		u8 first, last;

		KUNIT_ASSERT_EQ(test, skb_copy_bits(skb, 64 + i * PACKET, &first, 1), 0);
		KUNIT_ASSERT_EQ(test, skb_copy_bits(skb, 63 + (i + 1) * PACKET, &last, 1), 0);
		KUNIT_EXPECT_EQ(test, first, i);
		KUNIT_EXPECT_EQ(test, last, i);
	}
	rox_frame_drop(&frame);
}

/* As many as its piece has room for, and never none. */
static void several_packets_are_in_one_piece_together(struct kunit *test)
{
	struct rox_frame frame;
	u32 n, found = 0;
	u8 *p;

	local_bh_disable();
	begin(test, &frame);
	while (found < 15) {
		n = 15 - found;
		p = rox_frame_packets(&frame, PACKET, &n);
		KUNIT_ASSERT_NOT_NULL(test, p);
		KUNIT_ASSERT_GE(test, n, 1U);
		KUNIT_ASSERT_LE(test, n, 15 - found);
		found += n;
		/* Less than asked for: the piece has no room for another one. */
		KUNIT_EXPECT_TRUE(test, found == 15 ||
				  frame.pages->size - frame.pages->offset < PACKET);
		memset(p, found, n * PACKET);
		KUNIT_EXPECT_EQ(test, frame.skb->len, 64 + found * PACKET);
	}
	local_bh_enable();
	rox_frame_drop(&frame);
	local_bh_disable();
	KUNIT_ASSERT_EQ(test, rox_frame_begin_local(&frame, 64, 1024), 0);
	n = 4;
	KUNIT_ASSERT_NOT_NULL(test, rox_frame_packets(&frame, 256, &n));
	KUNIT_EXPECT_EQ(test, n, 4U);
	KUNIT_EXPECT_EQ(test, frame.skb->len, 64U + 1024U);
	local_bh_enable();
	rox_frame_drop(&frame);
}

static void a_packet_is_known_by_what_its_sender_signed(struct kunit *test)
{
	struct rox_frame frame;
	const struct page *page;
	u8 *first, *second;
	u32 origin;

	local_bh_disable();
	begin(test, &frame);
	first = packet_in(&frame, PACKET);
	KUNIT_ASSERT_NOT_NULL(test, first);
	rox_frame_sign(&frame, first, MARK, 1);
	page = page_of(&frame);
	KUNIT_EXPECT_TRUE(test, rox_frame_knows(page));
	KUNIT_EXPECT_TRUE(test, rox_frame_signed(page, first, MARK, &origin));
	KUNIT_EXPECT_EQ(test, origin, 1U);
	KUNIT_EXPECT_FALSE(test, rox_frame_signed(page, first, MARK ^ 1, &origin));
	second = packet_in(&frame, PACKET);
	KUNIT_ASSERT_NOT_NULL(test, second);
	rox_frame_sign(&frame, second, ~MARK, 2);
	page = page_of(&frame);
	KUNIT_EXPECT_TRUE(test, rox_frame_signed(page, second, ~MARK, &origin));
	KUNIT_EXPECT_EQ(test, origin, 2U);
	KUNIT_EXPECT_FALSE(test, rox_frame_signed(page, second, MARK, &origin));
	local_bh_enable();
	rox_frame_drop(&frame);
}

/* Two short packets would share an entry. */
static void short_packets_have_no_entry_of_their_own(struct kunit *test)
{
	struct rox_frame frame;

	local_bh_disable();
	begin(test, &frame);
	KUNIT_ASSERT_NOT_NULL(test, packet_in(&frame, ROX_SIGN_STEP));
	KUNIT_EXPECT_TRUE(test, rox_frame_signs(&frame, ROX_SIGN_STEP));
	KUNIT_EXPECT_FALSE(test, rox_frame_signs(&frame, ROX_SIGN_STEP - 4));
	local_bh_enable();
	rox_frame_drop(&frame);
	local_bh_disable();
	KUNIT_ASSERT_EQ(test, rox_frame_begin_local(&frame, 64, 1024), 0);
	KUNIT_ASSERT_NOT_NULL(test, packet_in(&frame, 1024));
	KUNIT_EXPECT_FALSE(test, rox_frame_signs(&frame, 1024));
	local_bh_enable();
	rox_frame_drop(&frame);
}

static void pages_of_others_are_not_known(struct kunit *test)
{
	struct page *page = alloc_pages(GFP_KERNEL | __GFP_COMP, SKB_FRAG_PAGE_ORDER);

	KUNIT_ASSERT_NOT_NULL(test, page);
	KUNIT_EXPECT_FALSE(test, rox_frame_knows(page));
	KUNIT_EXPECT_FALSE(test, rox_frame_knows(page + 1));
	__free_pages(page, SKB_FRAG_PAGE_ORDER);
}

/* More frames than the pool has pieces. */
#define MANY 256

/*
 * Packets in pages that are known may have no ICRC, so the pages stay known while frames hold them.
 * What the pool then takes from elsewhere is not known, and not signed.
 */
static void pages_stay_known_while_frames_hold_them(struct kunit *test)
{
	struct rox_frame *frames = kunit_kcalloc(test, MANY, sizeof(*frames), GFP_KERNEL);
	unsigned int i, known = 0, still = 0;

	KUNIT_ASSERT_NOT_NULL(test, frames);
	local_bh_disable();
	for (i = 0; i < MANY; i++) {
		begin(test, &frames[i]);
		KUNIT_ASSERT_NOT_NULL(test, packet_in(&frames[i], 16 * 1024));
		known += rox_frame_knows(page_of(&frames[i]));
		KUNIT_ASSERT_EQ(test, rox_frame_signs(&frames[i], 16 * 1024),
				rox_frame_knows(page_of(&frames[i])));
	}
	for (i = 0; i < MANY; i++)
		still += rox_frame_knows(page_of(&frames[i]));
	local_bh_enable();
	KUNIT_EXPECT_GT(test, known, 0U);
	KUNIT_EXPECT_LT(test, known, MANY);
	KUNIT_EXPECT_EQ(test, still, known);
	for (i = 0; i < MANY; i++)
		rox_frame_drop(&frames[i]);
}

static void pages_are_used_again_when_they_are_free(struct kunit *test)
{
	const void *seen[64] = {};
	unsigned int pages = 0, i, round;

	/* Each frame is freed before the next, so a few pieces are enough. */
	for (round = 0; round < 200; round++) {
		struct rox_frame frame;
		const struct page *page;

		local_bh_disable();
		begin(test, &frame);
		KUNIT_ASSERT_NOT_NULL(test, packet_in(&frame, PACKET));
		page = page_of(&frame);
		local_bh_enable();
		rox_frame_drop(&frame);
		for (i = 0; i < pages && seen[i] != page; i++)
			;
		if (i == pages && pages < ARRAY_SIZE(seen))
			seen[pages++] = page;
	}
	KUNIT_EXPECT_LE(test, pages, 2U);
}

/* A route by a netdev with these features. */
static struct dst_entry *route(struct kunit *test, netdev_features_t features)
{
	struct dst_entry *dst = kunit_kzalloc(test, sizeof(*dst), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, dst);
	dst->dev = alloc_etherdev(0);
	KUNIT_ASSERT_NOT_NULL(test, dst->dev);
	dst->dev->features = features;
	return dst;
}

#define HDR_V4	((u32)(sizeof(struct iphdr) + sizeof(struct udphdr)))
#define PACKETS	15

/* Each packet is linear, alone in its sk_buff, and has room for its headers. */
static void a_netdev_without_fragments_gets_a_list(struct kunit *test)
{
	struct dst_entry *dst = route(test, 0);
	struct sk_buff *skb, *part;
	struct rox_frame frame;
	u32 i, n = 1;

	local_bh_disable();
	KUNIT_ASSERT_EQ(test, rox_frame_begin(&frame, dst, sizeof(struct iphdr), PACKET,
					      PACKETS * PACKET), 0);
	skb = frame.skb;
	for (i = 0; i < PACKETS; i++) {
		u8 *p = packet_in(&frame, i < PACKETS - 1 ? PACKET : 100);

		KUNIT_ASSERT_NOT_NULL(test, p);
		memset(p, i, i < PACKETS - 1 ? PACKET : 100);
	}
	local_bh_enable();
	KUNIT_EXPECT_EQ(test, skb->len, HDR_V4 + (PACKETS - 1) * PACKET + 100);
	KUNIT_EXPECT_EQ(test, skb_headlen(skb), HDR_V4 + PACKET);
	skb_walk_frags(skb, part) {
		KUNIT_EXPECT_EQ(test, skb_headlen(part), n < PACKETS - 1 ? PACKET : 100);
		KUNIT_EXPECT_FALSE(test, skb_is_nonlinear(part));
		KUNIT_EXPECT_EQ(test, -skb_network_offset(part), HDR_V4);
		KUNIT_EXPECT_EQ(test, skb_network_header_len(part), sizeof(struct iphdr));
		KUNIT_EXPECT_GE(test, skb_headroom(part), HDR_V4 + LL_RESERVED_SPACE(dst->dev));
		KUNIT_EXPECT_EQ(test, part->data[0], n);
		KUNIT_EXPECT_EQ(test, part->data[part->len - 1], n);
		n++;
	}
	KUNIT_EXPECT_EQ(test, n, PACKETS);
	KUNIT_EXPECT_EQ(test, skb_shinfo(skb)->nr_frags, 0);
	rox_frame_drop(&frame);
	free_netdev(dst->dev);
}

/*
 * A piece for whose entry in the table there was no memory, so that packets are where signatures
 * would be, stays without one while frames have it.
 */
static void a_piece_in_use_gets_no_signatures(struct kunit *test)
{
	struct page_frag *pages, before;
	struct rox_frame frame;
	u32 len = 64, size;
	u8 *end;

	local_bh_disable();
	begin(test, &frame);
	KUNIT_ASSERT_NOT_NULL(test, packet_in(&frame, PACKET));
	pages = frame.pages;
	before = *pages;
	size = page_size(pages->page);
	KUNIT_ASSERT_GT(test, size, before.size);
	end = page_address(pages->page) + size;
	pages->size = size;
	pages->offset = size - len;
	KUNIT_EXPECT_PTR_EQ(test, rox_frame_space(&frame, &len), (void *)end - 64);
	KUNIT_EXPECT_EQ(test, pages->size, size);
	KUNIT_EXPECT_EQ(test, pages->offset, size);
	*pages = before;
	local_bh_enable();
	rox_frame_drop(&frame);
}

static bool is_list(struct kunit *test, struct dst_entry *dst, u32 ip_len, u32 seg, u32 len)
{
	struct rox_frame frame;
	bool list;

	local_bh_disable();
	KUNIT_ASSERT_EQ(test, rox_frame_begin(&frame, dst, ip_len, seg, len), 0);
	list = frame.last;
	local_bh_enable();
	rox_frame_drop(&frame);
	return list;
}

/* Short frames are linear, and GSO has to compute the UDP checksums of IPv6. */
static void which_frames_are_lists(struct kunit *test)
{
	struct dst_entry *with = route(test, NETIF_F_SG), *without = route(test, 0);
	u32 v4 = sizeof(struct iphdr), v6 = sizeof(struct ipv6hdr);

	KUNIT_EXPECT_TRUE(test, is_list(test, without, v4, PACKET, 2 * PACKET));
	KUNIT_EXPECT_TRUE(test, is_list(test, without, v4, PACKET, PACKET));
	KUNIT_EXPECT_TRUE(test, is_list(test, without, v6, PACKET, PACKET));
	KUNIT_EXPECT_FALSE(test, is_list(test, without, v6, PACKET, 2 * PACKET));
	KUNIT_EXPECT_FALSE(test, is_list(test, without, v4, 80, 800));
	KUNIT_EXPECT_FALSE(test, is_list(test, with, v4, PACKET, 2 * PACKET));
	free_netdev(with->dev);
	free_netdev(without->dev);
}

static struct kunit_case frame_cases[] = {
	KUNIT_CASE(packets_are_in_one_piece),
	KUNIT_CASE(several_packets_are_in_one_piece_together),
	KUNIT_CASE(a_packet_is_known_by_what_its_sender_signed),
	KUNIT_CASE(short_packets_have_no_entry_of_their_own),
	KUNIT_CASE(pages_of_others_are_not_known),
	KUNIT_CASE(pages_stay_known_while_frames_hold_them),
	KUNIT_CASE(pages_are_used_again_when_they_are_free),
	KUNIT_CASE(a_piece_in_use_gets_no_signatures),
	KUNIT_CASE(a_netdev_without_fragments_gets_a_list),
	KUNIT_CASE(which_frames_are_lists),
	{}
};

static struct kunit_suite rox_frame_suite = {
	.name = "rox_frame",
	.test_cases = frame_cases,
};

kunit_test_suite(rox_frame_suite);
