// SPDX-License-Identifier: GPL-2.0
/*
 * Frames: sk_buffs with up to 64 KiB of packets, filled piece by piece. Small frames are linear.
 * Others have their packets in page fragments of up to 32 KiB, or up to a page where that is
 * larger, as an sk_buff has room for few fragments.
 *
 * A netdev without scatter-gather takes linear packets only. GSO would copy each packet, and
 * compute a checksum for it. So frames for such a netdev are lists: each packet is a linear sk_buff
 * with headers of its own, as GRO makes them for forwarding (SKB_GSO_FRAGLIST). GSO only separates
 * them.
 *
 * A receiver on the same machine may get a packet in the pages that its sender wrote. Nobody else
 * writes to these pages: code that changes a packet on its way changes a copy. All of them are in a
 * table, as long as we have a reference on them. At the end of each are the signatures of the
 * packets in it. If the received headers have the signed mark, the receiver need not look at the
 * ICRC.
 */
#include <linux/percpu.h>
#include <linux/xarray.h>
#include <net/dst.h>
#include <net/sock.h>

#include "internal.h"
#include "../compat/net.h"

/* A frame with no more bytes of UDP payload is linear. Enough for 16 WRITEs of 64 bytes. */
#define LINEAR_MAX	1536

/* A piece is a compound page of this size, from which fragments of frames are taken. */
#define PIECE_SIZE	(PAGE_SIZE << SKB_FRAG_PAGE_ORDER)

/* Entries of the table of a piece. */
#define SIGNATURES	(PIECE_SIZE / ROX_SIGN_STEP)

/* Bytes of a piece for packets; the table comes after them. */
#define PIECE_ROOM	(PIECE_SIZE - SIGNATURES * sizeof(struct rox_signature))

/* Pieces per CPU: enough for the READs of 64 KiB that a QP may have outstanding, all in flight. */
#define POOL_PAGES	36

/**
 * struct rox_frag_pool - pieces from which a CPU takes the fragments of its frames
 * @pages: pieces of up to PIECE_SIZE bytes; each is reused when no frame holds it
 * @cur: index of the current piece
 * @extra: a piece for the time when frames hold all these; it is in no table
 *
 * One run of a side at a time uses it.
 */
struct rox_frag_pool {
	struct page_frag pages[POOL_PAGES];
	unsigned int cur;
	struct page_frag extra;
};

static DEFINE_PER_CPU(struct rox_frag_pool, rox_frag_pools);

/*
 * The linear parts of frames with fragments, and short frames, have pieces of their own: they are
 * freed at other times.
 */
static DEFINE_PER_CPU(struct rox_frag_pool, rox_head_pools);

/* Our pieces, by rox_piece_index(). */
static DEFINE_XARRAY_FLAGS(rox_pieces, XA_FLAGS_LOCK_BH);

/* The table of the piece at @base. */
static struct rox_signature *rox_table_of(u8 *base)
{
	return (struct rox_signature *)(base + PIECE_ROOM);
}

static unsigned long rox_piece_index(const struct page *page)
{
	return page_to_pfn(page) >> SKB_FRAG_PAGE_ORDER;
}

/*
 * Without memory for the table nobody knows the piece, and its packets are not signed. Nobody may
 * know a piece for headers, which others write to.
 */
static void rox_piece_enter(const struct rox_frag_pool *pool, struct page_frag *pages)
{
	if (pool == this_cpu_ptr(&rox_head_pools) ||
	    !xa_is_err(xa_store_bh(&rox_pieces, rox_piece_index(pages->page), pages->page,
				   GFP_ATOMIC | __GFP_NOWARN)))
		pages->size = PIECE_ROOM;
}

/* Drops a piece, or the smaller pages that are in its place for lack of memory. */
static void rox_piece_drop(struct page_frag *pages)
{
	if (pages->size == PIECE_ROOM)
		xa_erase_bh(&rox_pieces, rox_piece_index(pages->page));
	put_page(pages->page);
	pages->page = NULL;
}

int rox_frame_begin_local(struct rox_frame *frame, u32 hdr, u32 len)
{
	bool linear = len <= LINEAR_MAX;

	*frame = (struct rox_frame) { .linear = linear };
	frame->skb = alloc_skb(hdr + (linear ? len : 0), GFP_ATOMIC | __GFP_NOWARN);
	if (!frame->skb)
		return -ENOMEM;
	skb_put(frame->skb, hdr);
	return 0;
}

/*
 * The last fragment of the frame grew by the next @len bytes of frame->pages. Return: their
 * address.
 */
static void *rox_frame_grow(struct rox_frame *frame, u32 len)
{
	u32 offset = frame->pages->offset;
	struct sk_buff *skb = frame->skb;

	frame->pages->offset = offset + len;
	frame->offset = offset + len;
	skb->len += len;
	skb->data_len += len;
	skb->truesize += len;
	return frame->base + offset;
}

static void *rox_pages_at(const struct page_frag *pages)
{
	return page_address(pages->page) + pages->offset;
}

/*
 * Appends the next @len bytes of @pages to the frame as a fragment. Return: their address; NULL if
 * the frame has as many fragments as it can.
 */
static void *rox_add_frag(struct rox_frame *frame, struct page_frag *pages, u32 len)
{
	struct skb_shared_info *info = skb_shinfo(frame->skb);
	u32 n = info->nr_frags;

	if (skb_can_coalesce(frame->skb, n, pages->page, pages->offset)) {
		skb_frag_size_add(&info->frags[n - 1], len);
	} else {
		if (n >= MAX_SKB_FRAGS)
			return NULL;
		get_page(pages->page);
		skb_frag_fill_page_desc(&info->frags[n], pages->page, pages->offset, len);
		info->nr_frags = ++n;
	}
	frame->pages = pages;
	frame->frag = &info->frags[n - 1];
	frame->page = pages->page;
	frame->base = page_address(pages->page);
	frame->table = pages->size == PIECE_ROOM ? rox_table_of(frame->base) : NULL;
	return rox_frame_grow(frame, len);
}

/*
 * Do the next @len bytes follow the last fragment, in the same piece? The frame has a reference on
 * the piece, so the pool has not begun to fill it from its beginning.
 */
static bool rox_frag_goes_on(const struct rox_frame *frame, u32 len)
{
	const struct page_frag *pages = frame->pages;

	return pages && pages->page == frame->page && pages->offset == frame->offset &&
	       pages->size - pages->offset >= len;
}

static bool rox_piece_is_full(const struct page_frag *pages)
{
	return pages->page && pages->offset == pages->size;
}

static bool rox_piece_is_held(const struct page_frag *pages)
{
	return rox_piece_is_full(pages) && page_ref_count(pages->page) > 1;
}

/* A piece with room from outside of the pool's table. */
static noinline struct page_frag *rox_pool_extra(struct rox_frag_pool *pool)
{
	struct page_frag *pages = &pool->extra;

	if (rox_piece_is_held(pages))
		rox_piece_drop(pages);
	return skb_page_frag_refill(1, pages, GFP_ATOMIC | __GFP_NOWARN) ? pages : NULL;
}

/*
 * Finds a piece with room. A full piece that frames still hold stays in the pool: a new one must be
 * allocated, cleared (init_on_alloc) and freed, which costs as much as filling it; and receivers
 * must know it, as its packets may have no ICRC. Only if the next one is held as well, there is an
 * extra one. A piece that is smaller for lack of memory does not stay, as an sk_buff has room for
 * few fragments.
 */
static struct page_frag *rox_pool_refill(struct rox_frag_pool *pool)
{
	struct page_frag *pages = &pool->pages[pool->cur];

	if (rox_piece_is_held(pages) && pages->size == PIECE_ROOM) {
		struct page_frag *next = &pool->pages[(pool->cur + 1) % POOL_PAGES];

		if (unlikely(rox_piece_is_held(next) && next->size == PIECE_ROOM))
			return rox_pool_extra(pool);
		pool->cur = (pool->cur + 1) % POOL_PAGES;
		pages = next;
	}
	if (rox_piece_is_full(pages) && pages->size != PIECE_ROOM)
		rox_piece_drop(pages);
	if (!skb_page_frag_refill(1, pages, GFP_ATOMIC | __GFP_NOWARN))
		return NULL;
	/* One that could not be entered when it was new may be filled beyond PIECE_ROOM. */
	if (pages->size == PIECE_SIZE && !pages->offset)
		rox_piece_enter(pool, pages);
	return pages;
}

/* Finds a piece with room for @len bytes in a row. Return: NULL if none has so much. */
static struct page_frag *rox_pool_whole(struct rox_frag_pool *pool, u32 len)
{
	struct page_frag *pages = rox_pool_refill(pool);

	if (pages && pages->size >= PIECE_ROOM && pages->size - pages->offset < len) {
		/* Leave the rest unused: a packet in one piece is cheaper for both ends. */
		pages->offset = pages->size;
		pages = rox_pool_refill(pool);
	}
	return pages && pages->size - pages->offset >= len ? pages : NULL;
}

/*
 * Return: an sk_buff whose linear part of @len bytes is taken from a piece: a block that fits would
 * be allocated and cleared (init_on_alloc) for each packet.
 */
static struct sk_buff *rox_frame_linear(struct rox_frag_pool *pool, u32 len)
{
	u32 size = SKB_DATA_ALIGN(len) + SKB_DATA_ALIGN(sizeof(struct skb_shared_info));
	/* It begins at a cache line. */
	struct page_frag *pages = rox_pool_whole(pool, size + SMP_CACHE_BYTES - 1);
	struct sk_buff *skb;

	if (!pages)
		return alloc_skb(len, GFP_ATOMIC | __GFP_NOWARN);
	pages->offset = SKB_DATA_ALIGN(pages->offset);
	skb = build_skb(rox_pages_at(pages), size);
	if (skb) {
		get_page(pages->page);
		pages->offset += size;
	}
	return skb;
}

/* A list needs no UDP checksum. IPv6 has one in each packet, which GSO computes. */
static bool rox_frame_lists(const struct dst_entry *dst, u32 ip_len, u32 seg, u32 len)
{
	return !(dst->dev->features & NETIF_F_SG) && len > LINEAR_MAX &&
	       (ip_len == sizeof(struct iphdr) || seg == len);
}

int rox_frame_begin(struct rox_frame *frame, const struct dst_entry *dst, u32 ip_len, u32 seg,
		    u32 len)
{
	u32 headroom = LL_RESERVED_SPACE(dst->dev) + READ_ONCE(dst->header_len);
	u32 hdr = headroom + ip_len + sizeof(struct udphdr);
	struct sk_buff *skb;

	if (unlikely(rox_frame_lists(dst, ip_len, seg, len))) {
		skb = rox_frame_linear(this_cpu_ptr(&rox_frag_pools), hdr + seg);
		*frame = (struct rox_frame) { .skb = skb, .linear = true, .last = skb };
	} else {
		skb = rox_frame_linear(this_cpu_ptr(&rox_head_pools),
				       hdr + (len <= LINEAR_MAX ? len : 0));
		*frame = (struct rox_frame) { .skb = skb, .linear = len <= LINEAR_MAX };
	}
	if (!skb)
		return -ENOMEM;

	skb_reserve(skb, headroom);
	skb_reset_network_header(skb);
	skb_put(skb, ip_len);
	skb_set_transport_header(skb, ip_len);
	skb_put(skb, sizeof(struct udphdr));
	return 0;
}

/*
 * Appends a packet to a list. Its headers are before the data, and the caller fills them in when
 * the frame is complete.
 */
static noinline void *rox_frame_next(struct rox_frame *frame, u32 len)
{
	struct sk_buff *skb = frame->skb, *part;
	u32 hdr = skb_transport_offset(skb) + sizeof(struct udphdr);

	if (skb->len == hdr)
		return skb_put(skb, len);
	part = rox_frame_linear(this_cpu_ptr(&rox_frag_pools),
				skb_headroom(skb) + hdr + len);
	if (!part)
		return NULL;
	skb_reserve(part, skb_headroom(skb) + hdr);
	skb_set_network_header(part, -(int)hdr);
	skb_set_transport_header(part, -(int)sizeof(struct udphdr));
	if (frame->last == skb)
		skb_shinfo(skb)->frag_list = part;
	else
		frame->last->next = part;
	frame->last = part;
	skb->len += len;
	skb->data_len += len;
	skb->truesize += part->truesize;
	return skb_put(part, len);
}

void *rox_frame_space(struct rox_frame *frame, u32 *len)
{
	struct page_frag *pages;

	if (frame->linear)
		return skb_put(frame->skb, *len);

	pages = rox_pool_refill(this_cpu_ptr(&rox_frag_pools));
	if (!pages)
		return NULL;
	*len = min(*len, pages->size - pages->offset);
	return rox_add_frag(frame, pages, *len);
}

/* Sets *@n to how many packets of @len bytes @pages has room for, if fewer. Return: their bytes. */
static u32 rox_pages_room(const struct page_frag *pages, u32 len, u32 *n)
{
	*n = min(*n, (pages->size - pages->offset) / len);
	return *n * len;
}

void *rox_frame_packets(struct rox_frame *frame, u32 len, u32 *n)
{
	struct page_frag *pages;

	if (frame->last) {
		*n = 1;
		return rox_frame_next(frame, len);
	}
	if (frame->linear)
		return skb_put(frame->skb, *n * len);
	if (likely(rox_frag_goes_on(frame, len))) {
		len = rox_pages_room(frame->pages, len, n);
		skb_frag_size_add(frame->frag, len);
		return rox_frame_grow(frame, len);
	}

	pages = rox_pool_whole(this_cpu_ptr(&rox_frag_pools), len);
	return pages ? rox_add_frag(frame, pages, rox_pages_room(pages, len, n)) : NULL;
}

/*
 * The caller has a reference on @page. If the page is in the table, so have we, and it has not been
 * anybody else's since then.
 */
bool rox_frame_knows(const struct page *page)
{
	return xa_load(&rox_pieces, rox_piece_index(page)) == page;
}

/*
 * Only the sender writes to these pages, and it reuses them only when no frame holds them. @mark
 * covers the length of the packet and its BTH, so it does not match another packet at the same
 * place.
 */
bool rox_frame_signed(const struct page *page, const void *p, u32 mark, u32 *origin)
{
	u8 *base = page_address(page);
	const struct rox_signature *by = rox_signature_at(rox_table_of(base), base, p);

	*origin = READ_ONCE(by->origin);
	return READ_ONCE(by->mark) == mark;
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

static void rox_pool_free(struct rox_frag_pool *pool)
{
	int i;

	for (i = 0; i < POOL_PAGES; i++) {
		if (pool->pages[i].page)
			rox_piece_drop(&pool->pages[i]);
	}
	if (pool->extra.page)
		rox_piece_drop(&pool->extra);
}

/* Frees the pieces of all CPUs. The caller makes sure that nobody sends. */
void rox_frame_exit(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		rox_pool_free(per_cpu_ptr(&rox_frag_pools, cpu));
		rox_pool_free(per_cpu_ptr(&rox_head_pools, cpu));
	}
}
