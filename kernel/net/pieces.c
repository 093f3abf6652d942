// SPDX-License-Identifier: GPL-2.0
/*
 * Where the bytes of a received frame are in memory: in its linear part, in page fragments, and in
 * buffers that GRO has appended. Mostly they are looked for one piece after the other.
 */
#include "internal.h"

/* Sets @piece to @len bytes in the linear part of a buffer, which begin at @off of the frame. */
static bool rox_enter_head(struct rox_rx_piece *piece, const u8 *at, u32 off, u32 len, u32 next)
{
	*piece = (struct rox_rx_piece) {
		.at = at,
		.off = off,
		.end = off + len,
		.next = next,
	};
	return true;
}

/* Sets it to a page fragment of a buffer. Return: false if that is not mapped. */
static inline bool rox_enter_frag(struct rox_rx_piece *piece, const skb_frag_t *frag, u32 off,
				  u32 next)
{
	const u8 *at = skb_frag_address_safe(frag);

	*piece = (struct rox_rx_piece) { .at = at };
	if (unlikely(!at))
		return false;
	piece->off = off;
	piece->end = off + skb_frag_size(frag);
	piece->page = skb_frag_page(frag);
	piece->next = next;
	return true;
}

/* Sets it to the page fragment with @off of @skb, which begins at @begin of the frame. */
static bool rox_enter_page(struct rox_rx_piece *piece, const struct sk_buff *skb, u32 begin,
			   u32 off)
{
	const struct skb_shared_info *info = skb_shinfo(skb);
	int i;

	begin += skb_headlen(skb);
	for (i = 0; i < info->nr_frags && off >= begin; i++) {
		u32 len = skb_frag_size(&info->frags[i]);

		if (off - begin < len)
			return rox_enter_frag(piece, &info->frags[i], begin, i + 2);
		begin += len;
	}
	return false;
}

/* The same in @part, a buffer in the list of the frame. */
static bool rox_enter_sub(struct rox_rx_piece *piece, const struct sk_buff *part, u32 begin,
			  u32 off)
{
	bool found;

	if (off - begin < skb_headlen(part))
		return rox_enter_head(piece, part->data, begin, skb_headlen(part), 0);
	found = rox_enter_page(piece, part, begin, off);
	piece->next = 0;
	return found;
}

/*
 * Sets it to the fragment after it, if that has @off. Return: false if not, or if the piece is none
 * of @skb itself.
 */
static inline bool rox_enter_next(struct rox_rx_piece *piece, const struct sk_buff *skb, u32 off)
{
	const struct skb_shared_info *info = skb_shinfo(skb);
	const u32 next = piece->next, begin = piece->end;

	if (!next || next > info->nr_frags || off < begin)
		return false;
	if (off - begin >= skb_frag_size(&info->frags[next - 1]))
		return false;
	return rox_enter_frag(piece, &info->frags[next - 1], begin, next + 1);
}

/* Sets it to what has @off: the linear part, a page fragment, or what GRO appended. */
static bool rox_enter_frame(struct rox_rx_piece *piece, const struct sk_buff *skb, u32 off)
{
	u32 begin = skb->len;
	const struct sk_buff *part;

	if (likely(rox_enter_next(piece, skb, off)))
		return true;
	if (off < skb_headlen(skb))
		return rox_enter_head(piece, skb->data, 0, skb_headlen(skb), 1);
	skb_walk_frags(skb, part)
		begin -= part->len;
	if (off < begin)
		return rox_enter_page(piece, skb, 0, off);
	skb_walk_frags(skb, part) {
		if (off - begin < part->len)
			return rox_enter_sub(piece, part, begin, off);
		begin += part->len;
	}
	return false;
}

/* The same for the walk. In a list the next packet is near. */
static bool rox_enter_part(struct rox_rx *rx, u32 off)
{
	const struct sk_buff *part = rx->part;

	rx->piece_known = false;
	if (part && part != rx->skb && off >= rx->off && off - rx->off < part->len)
		return rox_enter_sub(&rx->piece, part, rx->off, off);
	return rox_enter_frame(&rx->piece, rx->skb, off);
}

const u8 *rox_rx_enter(struct rox_rx *rx, u32 off, u32 len)
{
	if (!rox_piece_has(&rx->piece, off, 1) && !rox_enter_part(rx, off))
		return NULL;
	return rox_piece_has(&rx->piece, off, len) ? rox_piece_at(&rx->piece, off) : NULL;
}

/**
 * rox_piece_find() - finds bytes of a frame that are in one piece
 * @skb: the frame
 * @piece: the piece that was found last, or all 0
 * @off: the first of them
 * @len: how many there are, all within the frame; set to how many are in that piece
 *
 * Any context. Return: their address; NULL if they are not mapped
 */
const u8 *rox_piece_find(const struct sk_buff *skb, struct rox_rx_piece *piece, u32 off, u32 *len)
{
	if (!rox_piece_has(piece, off, 1) && !rox_enter_frame(piece, skb, off))
		return NULL;
	*len = min(*len, piece->end - off);
	return rox_piece_at(piece, off);
}
