// SPDX-License-Identifier: GPL-2.0
/*
 * The iterator over an SGE list, which all copies of payload use.
 */
#include <linux/string.h>
#include "internal.h"

/*
 * Bytes whose pages are looked up at once. Bursts are not longer, and iterators end with them.
 */
#define ROX_ITER_BYTES SZ_64K

/* Is the MR in @it->keep the one for @sge? */
static bool rox_iter_again(const struct rox_iter *it, const struct rox_sge *sge)
{
	return it->keep && it->keep->mr &&
	       rox_mr_is(it->keep->mr, &it->who, sge->lkey, sge->addr, sge->length, it->access);
}

/*
 * The SGE goes beyond its MR. That does no harm as long as nothing is written there (perftest makes
 * such receives), so the list ends with the MR. Return: the MR, or -ERANGE if nothing is left.
 */
static noinline struct rox_mr *rox_iter_trim(const struct rox_iter *it, struct rox_sge *sge)
{
	struct rox_mr *mr = rox_mr_get(&it->who, sge->lkey, sge->addr, 1, it->access);
	struct rox_sge *next;
	u64 reach;

	if (IS_ERR(mr))
		return mr;
	reach = mr->length - (sge->addr - mr->iova);
	if (reach <= it->off) {
		rox_mr_put(mr);
		return ERR_PTR(-ERANGE);
	}
	sge->length = min_t(u64, sge->length, reach);
	for (next = sge + 1; next < it->trim + it->num_sge; next++)
		next->length = 0;
	return mr;
}

/*
 * Checks the whole SGE, so that the result does not depend on where in it an access begins.
 * Return: its MR; the reference is that of @it->keep, or the iterator's.
 */
static inline struct rox_mr *rox_iter_lookup(const struct rox_iter *it, const struct rox_sge *sge)
{
	struct rox_mr *mr;

	if (rox_iter_again(it, sge))
		return it->keep->mr;
	if (it->keep)
		rox_mr_keep_drop(it->keep);
	mr = rox_mr_get(&it->who, sge->lkey, sge->addr, sge->length, it->access);
	if (unlikely(mr == ERR_PTR(-ERANGE)) && it->trim)
		mr = rox_iter_trim(it, it->trim + (sge - it->sge));
	if (it->keep && !IS_ERR(mr))
		it->keep->mr = mr;
	return mr;
}

/* An empty SGE needs no valid key. */
int rox_iter_check(struct rox_iter *it)
{
	struct rox_mr *mr;
	int on_demand = 0;
	u32 i;

	for (i = 0; i < it->num_sge; i++) {
		if (!it->sge[i].length)
			continue;
		mr = rox_iter_lookup(it, &it->sge[i]);
		if (IS_ERR(mr))
			return PTR_ERR(mr);
		on_demand |= mr->type == ROX_MR_ODP;
		if (!it->keep)
			rox_mr_put(mr);
	}
	return on_demand;
}

/*
 * Tries to find the rest of the SGE, @len bytes at @addr, in one block, where short messages
 * usually are. The SGE is in the MR. Return: false if it is not in one block.
 */
static bool rox_iter_find_whole(struct rox_iter *it, u64 addr, size_t len)
{
	it->at = rox_mr_whole(it->mr, addr, len);
	it->left = it->at ? len : 0;
	return it->at;
}

void *rox_mr_keep_find(const struct rox_mr_keep *keep, const struct rox_mem_user *who, u32 key,
		       u64 addr, u32 len, int access)
{
	const struct rox_mr *mr = keep->mr;

	if (!mr || !rox_mr_is(mr, who, key, addr, len, access))
		return NULL;
	return rox_mr_whole(mr, addr, len);
}

/* Finds the bytes at the position, which are not on demand. Return: how many are contiguous. */
static size_t rox_iter_find(struct rox_iter *it, const struct rox_sge *sge)
{
	size_t len = min_t(size_t, ROX_ITER_BYTES, sge->length - it->off);
	const struct rox_mr *mr = it->mr;
	u64 end;

	if (len == sge->length - it->off && rox_iter_find_whole(it, sge->addr + it->off, len))
		return len;
	it->at = rox_mr_map(mr, sge->addr + it->off, &len);
	it->left = len;
	if (!len || len == sge->length - it->off || mr->type == ROX_MR_DMA)
		return len;
	end = sge->addr + it->off + len - mr->iova + mr->offset;
	if (!(end & (((u64)1 << mr->page_shift) - 1)) && end >> mr->page_shift < mr->nblocks)
		it->next = mr->blocks + (end >> mr->page_shift);
	return len;
}

int rox_iter_begin(struct rox_iter *it)
{
	const struct rox_sge *sge = it->sge;
	struct rox_mr *mr;

	/* Mostly it is a short one, in the MR of the last one. */
	if (it->keep)
		it->at = rox_mr_keep_find(it->keep, &it->who, sge->lkey, sge->addr, sge->length,
					  it->access);
	if (it->at) {
		it->mr = it->keep->mr;
		it->left = sge->length;
		return 0;
	}
	mr = rox_iter_lookup(it, sge);
	if (IS_ERR(mr))
		return PTR_ERR(mr);
	it->mr = mr;
	/* Find the bytes now: they are used soon. */
	rox_iter_find(it, sge);
	return mr->type == ROX_MR_ODP;
}

void rox_iter_seek(struct rox_iter *it, u64 offset)
{
	u32 cur = 0;

	while (cur < it->num_sge && offset >= it->sge[cur].length)
		offset -= it->sge[cur++].length;
	rox_iter_return(it, cur, cur < it->num_sge ? offset : 0);
}

void rox_iter_return(struct rox_iter *it, u32 cur, u32 off)
{
	if (cur != it->cur)
		rox_iter_end(it);
	else if (off != it->off)
		it->left = 0;
	if (!it->left)
		it->next = NULL;
	it->cur = cur;
	it->off = off;
}

void rox_iter_advance(struct rox_iter *it, u32 n)
{
	u32 cur = it->cur, off = it->off;

	while (n && cur < it->num_sge) {
		u32 step = min(n, it->sge[cur].length - off);

		n -= step;
		off += step;
		if (n) {
			cur++;
			off = 0;
		}
	}
	rox_iter_return(it, cur, off);
}

/* The next piece of a region on demand, for which rox_mr_map() finds no block. */
static noinline ssize_t rox_iter_on_demand(struct rox_iter *it, size_t max, void **p)
{
	const struct rox_sge *sge = &it->sge[it->cur];

	if (it->mr->type != ROX_MR_ODP)
		return 0;
	max = min_t(size_t, max, sge->length - it->off);
	*p = rox_odp_map(it->mr, sge->addr + it->off, it->access, &max);
	if (!*p)
		return -EAGAIN;
	it->off += max;
	return max;
}

/* Finds the bytes of it->next, the block after the last piece. */
static void rox_iter_go_on(struct rox_iter *it)
{
	const struct rox_mr *mr = it->mr;
	const unsigned long *block = it->next, *end = mr->blocks + mr->nblocks;
	size_t size = (size_t)1 << mr->page_shift, len = size;
	u32 rest = it->sge[it->cur].length - it->off;
	unsigned long at = *block++;

	it->at = (void *)at;
	while (len < rest && block < end) {
		if (len >= ROX_ITER_BYTES || *block != at + len) {
			it->left = len;
			it->next = block;
			return;
		}
		block++;
		len += size;
	}
	it->left = min_t(size_t, len, rest);
	it->next = NULL;
}

/* Finds the first bytes of an SGE. Return: 1; 0 at the end of the list; or an error. */
static int rox_iter_enter(struct rox_iter *it)
{
	struct rox_mr *mr;

	/* The caller used the last piece until this call, so drop its MR here, not before. */
	while (it->cur < it->num_sge && it->off == it->sge[it->cur].length) {
		rox_iter_end(it);
		it->cur++;
		it->off = 0;
	}
	if (it->cur == it->num_sge)
		return 0;

	if (!it->mr) {
		mr = rox_iter_lookup(it, &it->sge[it->cur]);
		if (IS_ERR(mr))
			return PTR_ERR(mr);
		it->mr = mr;
	}
	return 1;
}

/* rox_iter_map() where the next piece is not the next block of the same SGE. */
static noinline ssize_t rox_iter_look(struct rox_iter *it, size_t max, void **p)
{
	int err;

	if (!it->mr || it->off == it->sge[it->cur].length) {
		err = rox_iter_enter(it);
		if (err <= 0)
			return err;
	}
	if (unlikely(!rox_iter_find(it, &it->sge[it->cur])))
		return rox_iter_on_demand(it, max, p);
	return rox_iter_next(it, max, p);
}

ssize_t rox_iter_map(struct rox_iter *it, size_t max, void **p)
{
	if (!it->next)
		return rox_iter_look(it, max, p);
	rox_iter_go_on(it);
	return rox_iter_next(it, max, p);
}

void rox_copy_odd(void *dst, const void *src, size_t len)
{
	size_t rest = len - sizeof(u32);
	u32 last;

	if (len >= sizeof(u32) && IS_ALIGNED((uintptr_t)dst + len, sizeof(u32))) {
		memcpy(dst, src, rest);
		memcpy(&last, src + rest, sizeof(last));
		/* As in rox_copy(). */
		smp_wmb();
		WRITE_ONCE(*(u32 *)(dst + rest), last);
	} else if (len) {
		memcpy(dst, src, len - 1);
		/* As in rox_copy(). */
		smp_wmb();
		WRITE_ONCE(*(u8 *)(dst + len - 1), *(const u8 *)(src + len - 1));
	}
}

/* Copies @len bytes between the piece at @p and @buf: into the list if @write, else out of it. */
static __always_inline void rox_iter_copy_piece(void *p, void *buf, size_t len, bool write)
{
	if (write)
		rox_copy(p, buf, len);
	else
		memcpy(buf, p, len);
}

/* Looks for a piece, and copies it. Return: as rox_iter_next(). */
static noinline ssize_t rox_iter_copy_look(struct rox_iter *it, void *buf, size_t len, bool write)
{
	void *p;
	ssize_t n = rox_iter_next(it, len, &p);

	if (n > 0)
		rox_iter_copy_piece(p, buf, n, write);
	return n;
}

/*
 * Copies @len bytes, in as many pieces as need be. Mostly a packet is in two pages, of which the
 * second one is the next block.
 */
static __always_inline int rox_iter_copy_all(struct rox_iter *it, void *buf, size_t len, bool write)
{
	while (len) {
		ssize_t n = min_t(size_t, len, it->left);

		if (n) {
			rox_iter_copy_piece(rox_iter_piece(it, n), buf, n, write);
		} else if (it->next) {
			rox_iter_go_on(it);
		} else {
			n = rox_iter_copy_look(it, buf, len, write);
			if (n <= 0)
				return n ? n : -EMSGSIZE;
		}
		buf += n;
		len -= n;
	}
	return 0;
}

int rox_iter_write_pieces(struct rox_iter *it, const void *src, size_t len)
{
	return rox_iter_copy_all(it, (void *)src, len, true);
}

int rox_iter_read_pieces(struct rox_iter *it, void *dst, size_t len)
{
	return rox_iter_copy_all(it, dst, len, false);
}

int rox_iter_write_each(struct rox_iter *it, const void *src, size_t len, size_t stride, u32 n)
{
	int err = 0;

	for (; n && !err; n--, src += stride)
		err = rox_iter_copy_all(it, (void *)src, len, true);
	return err;
}

int rox_iter_read_each(struct rox_iter *it, void *dst, size_t len, size_t stride, u32 n)
{
	int err = 0;

	for (; n && !err; n--, dst += stride)
		err = rox_iter_copy_all(it, dst, len, false);
	return err;
}
