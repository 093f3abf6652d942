// SPDX-License-Identifier: GPL-2.0
/*
 * Frames: sk_buffs with up to 64 KiB of packets, filled piece by piece. Small
 * ones are linear; others have their packets in page fragments of up to 32 KiB,
 * of which an sk_buff has room for few.
 */
#include <linux/percpu.h>
#include <net/dst.h>
#include <net/sock.h>

#include "internal.h"
#include "../compat/net.h"

/* UDP payload up to which a frame is linear: acknowledgements and short messages. */
#define LINEAR_MAX	1024

/* The page that frames are now carved from; used with bottom halves disabled. */
static DEFINE_PER_CPU(struct page_frag, frag_pages);

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

void *rox_frame_space(struct rox_frame *frame, u32 *len)
{
	struct page_frag *pages;
	void *p;

	if (frame->linear)
		return skb_put(frame->skb, *len);

	pages = this_cpu_ptr(&frag_pages);
	if (!skb_page_frag_refill(1, pages, GFP_ATOMIC | __GFP_NOWARN))
		return NULL;
	*len = min(*len, pages->size - pages->offset);
	p = page_address(pages->page) + pages->offset;
	return add_frag(frame->skb, pages, *len) ? p : NULL;
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

/* Gives back the pages; nobody sends any more. */
void rox_frame_exit(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		struct page_frag *pages = per_cpu_ptr(&frag_pages, cpu);

		if (pages->page)
			put_page(pages->page);
		pages->page = NULL;
	}
}
