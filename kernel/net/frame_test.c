// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit: frames, and the signature that shows a receiver on this machine that a packet has not
 * changed.
 */
#include <kunit/test.h>

#include "internal.h"

#define PACKET	4140
#define HEAD	0x12345678

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

static void packets_are_in_one_piece(struct kunit *test)
{
	struct rox_frame frame;
	struct sk_buff *skb;
	int i;

	local_bh_disable();
	skb = begin(test, &frame);
	for (i = 0; i < 15; i++) {
		u8 *p = rox_frame_whole(&frame, PACKET);

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

static void a_packet_is_known_by_what_its_sender_signed(struct kunit *test)
{
	struct rox_frame frame;
	const struct page *page;
	u8 *first, *second;

	local_bh_disable();
	begin(test, &frame);
	first = rox_frame_whole(&frame, PACKET);
	KUNIT_ASSERT_NOT_NULL(test, first);
	rox_frame_sign(&frame, first, HEAD);
	page = page_of(&frame);
	KUNIT_EXPECT_TRUE(test, rox_frame_knows(page));
	KUNIT_EXPECT_TRUE(test, rox_frame_signed(page, first, HEAD));
	KUNIT_EXPECT_FALSE(test, rox_frame_signed(page, first, HEAD ^ 1));
	second = rox_frame_whole(&frame, PACKET);
	KUNIT_ASSERT_NOT_NULL(test, second);
	rox_frame_sign(&frame, second, ~HEAD);
	page = page_of(&frame);
	KUNIT_EXPECT_TRUE(test, rox_frame_signed(page, second, ~HEAD));
	KUNIT_EXPECT_FALSE(test, rox_frame_signed(page, second, HEAD));
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

/* More frames than the pool has pieces: it gives some up, and does not know them then. */
#define MANY 256

static void pages_that_the_pool_gave_up_are_not_known(struct kunit *test)
{
	struct rox_frame *frames = kunit_kcalloc(test, MANY, sizeof(*frames), GFP_KERNEL);
	unsigned int i, known = 0, strange = 0;

	KUNIT_ASSERT_NOT_NULL(test, frames);
	local_bh_disable();
	for (i = 0; i < MANY; i++) {
		begin(test, &frames[i]);
		KUNIT_ASSERT_NOT_NULL(test, rox_frame_whole(&frames[i], 16 * 1024));
	}
	KUNIT_EXPECT_TRUE(test, rox_frame_knows(page_of(&frames[MANY - 1])));
	for (i = 0; i < MANY; i++) {
		if (rox_frame_knows(page_of(&frames[i])))
			known++;
		else
			strange++;
	}
	local_bh_enable();
	KUNIT_EXPECT_GT(test, known, 0U);
	KUNIT_EXPECT_GT(test, strange, 0U);
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
		KUNIT_ASSERT_NOT_NULL(test, rox_frame_whole(&frame, PACKET));
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

static struct kunit_case frame_cases[] = {
	KUNIT_CASE(packets_are_in_one_piece),
	KUNIT_CASE(a_packet_is_known_by_what_its_sender_signed),
	KUNIT_CASE(pages_of_others_are_not_known),
	KUNIT_CASE(pages_that_the_pool_gave_up_are_not_known),
	KUNIT_CASE(pages_are_used_again_when_they_are_free),
	{}
};

static struct kunit_suite rox_frame_suite = {
	.name = "rox_frame",
	.test_cases = frame_cases,
};

kunit_test_suite(rox_frame_suite);
