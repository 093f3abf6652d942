// SPDX-License-Identifier: GPL-2.0
/*
 * Frames: sk_buffs with up to 64 KiB of packets, filled piece by piece. Small
 * ones are linear; others have their packets in page fragments of up to 32 KiB,
 * of which an sk_buff has room for few.
 *
 * Who receives a packet that lies whole in such pages, on the same machine, reads
 * what its sender has written and nobody else can have changed. For that a piece of
 * pages is marked as ours, and says at its end of each packet what its headers were
 * outside of it: if those have not changed on the way, the ICRC need not be
 * computed again.
 */
#include <linux/percpu.h>
#include <linux/random.h>
#include <net/dst.h>
#include <net/sock.h>

#include "internal.h"
#include "../compat/net.h"

/* UDP payload up to which a frame is linear: acknowledgements, 16 WRITEs of 64 bytes. */
#define LINEAR_MAX	1536

#define PIECE_SIZE	(PAGE_SIZE << SKB_FRAG_PAGE_ORDER)

/*
 * A place for the headers of a packet for each step. Of short packets that begin in the same
 * step the last one has it; the others are checksummed.
 */
#define HEAD_STEP	256
#define HEADS		(PIECE_SIZE / HEAD_STEP)

/* Bytes of a piece that are for packets. */
#define PIECE_ROOM	(PIECE_SIZE - HEADS * sizeof(u32))

/* Pages of a CPU: a window's bytes, as a sender has them in flight before a receiver frees one. */
#define POOL_PAGES	20

/**
 * struct frag_pool - what the frames of a CPU are carved from; with bottom halves disabled
 * @pages: pages of up to 32 KiB; each is used anew once all frames have let go of it
 * @cur: the one in use
 */
struct frag_pool {
	struct page_frag pages[POOL_PAGES];
	unsigned int cur;
};

static DEFINE_PER_CPU(struct frag_pool, frag_pools);

/* What page_private() of our pages says, and that of no others. */
static unsigned long frame_mark;

static struct sk_buff *frame_alloc(struct rox_frame *frame, u32 hdr, u32 len)
{
	frame->linear = len <= LINEAR_MAX;
	frame->skb = alloc_skb(hdr + (frame->linear ? len : 0), GFP_ATOMIC | __GFP_NOWARN);
	return frame->skb;
}

int rox_frame_begin_local(struct rox_frame *frame, u32 hdr, u32 len)
{
	if (!frame_alloc(frame, hdr, len))
		return -ENOMEM;
	skb_put(frame->skb, hdr);
	return 0;
}

int rox_frame_begin(struct rox_frame *frame, const struct dst_entry *dst, u32 ip_len, u32 len)
{
	u32 headroom = LL_RESERVED_SPACE(dst->dev) + READ_ONCE(dst->header_len);
	struct sk_buff *skb;

	skb = frame_alloc(frame, headroom + ip_len + sizeof(struct udphdr), len);
	if (!skb)
		return -ENOMEM;

	skb_reserve(skb, headroom);
	skb_reset_network_header(skb);
	skb_put(skb, ip_len);
	skb_set_transport_header(skb, ip_len);
	skb_put(skb, sizeof(struct udphdr));
	return 0;
}

/* Makes the next @len bytes of @pages part of @skb. */
static bool add_frag(struct sk_buff *skb, struct page_frag *pages, u32 len)
{
	struct skb_shared_info *info = skb_shinfo(skb);
	u32 n = info->nr_frags;

	if (skb_can_coalesce(skb, n, pages->page, pages->offset)) {
		skb_frag_size_add(&info->frags[n - 1], len);
	} else {
		if (n >= MAX_SKB_FRAGS)
			return false;
		get_page(pages->page);
		skb_frag_fill_page_desc(&info->frags[n], pages->page, pages->offset, len);
		info->nr_frags = n + 1;
	}
	pages->offset += len;
	skb->len += len;
	skb->data_len += len;
	skb->truesize += len;
	return true;
}

/*
 * A page with room. One that frames still hold is passed by, not given up: new pages
 * have to be had, cleared (init_on_alloc) and freed, which is as much as to fill them.
 * Small ones, for want of better, are not kept: an sk_buff has room for few.
 */
static struct page_frag *pool_refill(void)
{
	struct frag_pool *pool = this_cpu_ptr(&frag_pools);
	struct page_frag *pages = &pool->pages[pool->cur];

	if (pages->page && pages->offset == pages->size) {
		if (pages->size < PIECE_ROOM) {
			put_page(pages->page);
			pages->page = NULL;
		} else if (page_ref_count(pages->page) > 1) {
			pool->cur = (pool->cur + 1) % POOL_PAGES;
			pages = &pool->pages[pool->cur];
		}
	}
	if (!skb_page_frag_refill(1, pages, GFP_ATOMIC | __GFP_NOWARN))
		return NULL;
	if (pages->size == PIECE_SIZE) {
		/* It is new. */
		set_page_private(pages->page, frame_mark);
		pages->size = PIECE_ROOM;
	}
	return pages;
}

/* Where the piece has what rox_frame_sign() says of the packet at @p. */
static u32 *head_of(const struct page *page, const void *p)
{
	u8 *begin = page_address(page);

	return (u32 *)(begin + PIECE_ROOM) + ((const u8 *)p - begin) / HEAD_STEP;
}

void *rox_frame_space(struct rox_frame *frame, u32 *len)
{
	struct page_frag *pages;
	void *p;

	if (frame->linear)
		return skb_put(frame->skb, *len);

	pages = pool_refill();
	if (!pages)
		return NULL;
	*len = min(*len, pages->size - pages->offset);
	p = page_address(pages->page) + pages->offset;
	return add_frag(frame->skb, pages, *len) ? p : NULL;
}

void *rox_frame_whole(struct rox_frame *frame, u32 len)
{
	struct page_frag *pages;
	void *p;

	if (frame->linear)
		return skb_put(frame->skb, len);

	pages = pool_refill();
	if (pages && pages->size == PIECE_ROOM && pages->size - pages->offset < len) {
		/* The rest is given up: one piece is cheaper, here and for the receiver. */
		pages->offset = pages->size;
		pages = pool_refill();
	}
	if (!pages || pages->size - pages->offset < len)
		return NULL;
	p = page_address(pages->page) + pages->offset;
	return add_frag(frame->skb, pages, len) ? p : NULL;
}

void rox_frame_sign(const struct rox_frame *frame, const void *p, u32 head)
{
	const struct frag_pool *pool = this_cpu_ptr(&frag_pools);
	const struct page_frag *pages = &pool->pages[pool->cur];

	if (!frame->linear && pages->size == PIECE_ROOM)
		WRITE_ONCE(*head_of(pages->page, p), head);
}

/*
 * Nobody writes to these pages but their sender, and not again before all have let go of
 * them; who has to change a packet on its way copies it, or has a copy. @head has the
 * packet's length and its BTH in it, so that it stands for just these bytes.
 */
bool rox_frame_signed(const struct page *page, const void *p, u32 head)
{
	return page_private(page) == frame_mark && READ_ONCE(*head_of(page, p)) == head;
}

int rox_frame_put(struct rox_frame *frame, const void *data, u32 len)
{
	while (len) {
		u32 n = len;
		void *p = rox_frame_space(frame, &n);

		if (!p)
			return -ENOMEM;
		memcpy(p, data, n);
		data += n;
		len -= n;
	}
	return 0;
}

void rox_frame_drop(struct rox_frame *frame)
{
	kfree_skb(frame->skb);
	frame->skb = NULL;
}

void rox_frame_init(void)
{
	while (!frame_mark)
		frame_mark = get_random_long();
}

/* Gives back the pages; nobody sends any more. */
void rox_frame_exit(void)
{
	struct page_frag *pages;
	int cpu, i;

	for_each_possible_cpu(cpu) {
		for (i = 0; i < POOL_PAGES; i++) {
			pages = &per_cpu_ptr(&frag_pools, cpu)->pages[i];
			if (pages->page)
				put_page(pages->page);
			pages->page = NULL;
		}
	}
}
