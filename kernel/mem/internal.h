/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Declarations that the files of mem/ share.
 */
#ifndef ROX_MEM_INTERNAL_H
#define ROX_MEM_INTERNAL_H

#include "mem.h"

/* Parameters of the hash table rox_mem.mrs. */
extern const struct rhashtable_params rox_mr_params;

/*
 * Pins @mr->length bytes of the calling process's memory, starting at the user address @start.
 * May sleep. Return: 0 or an error.
 */
int rox_mr_pin(struct rox_mr *mr, u64 start);
/*
 * The MR is not in the table any more: drops the table's reference, recalls leases, and waits until
 * all references are dropped. Process context, sleeps.
 */
void rox_mr_leave(struct rox_mr *mr);
/*
 * Checks access flags. Any context. Return: 0; -EOPNOTSUPP for unknown flags; -EINVAL for remote
 * write or atomic access without local write access.
 */
int rox_check_access(int access);
/* The part of rox_mr_check() for windows and ROX_MR_DMA. */
int rox_mr_check_special(const struct rox_mr *mr, const struct rox_mem_user *who, u64 addr, u64 len,
			 int access);

/*
 * May @who use the range of @mr? Part of each look-up, therefore inline. Any context. Return: 0, or
 * an error of rox_mr_get().
 */
static inline int rox_mr_check(const struct rox_mr *mr, const struct rox_mem_user *who, u64 addr,
			       u64 len, int access)
{
	u64 off = addr - mr->iova;
	int err;

	if (mr->ibmr.pd != who->pd)
		return -EPERM;
	if (unlikely(mr->type >= ROX_MR_DMA)) {
		err = rox_mr_check_special(mr, who, addr, len, access);
		if (err)
			return err;
	}
	if ((mr->access & access) != access)
		return -EACCES;
	if (len && (addr < mr->iova || len > mr->length || off > mr->length - len))
		return -ERANGE;
	return 0;
}

/*
 * Tests whether rox_mr_get() with these arguments would return @mr. The caller holds a reference
 * on @mr. Any context.
 */
static inline bool rox_mr_is(const struct rox_mr *mr, const struct rox_mem_user *who, u32 key,
			     u64 addr, u32 len, int access)
{
	/* The same checks as in rox_mr_get(). */
	return READ_ONCE(mr->key) == key && smp_load_acquire(&mr->valid) &&
	       !rox_mr_check(mr, who, addr, len, access);
}

/*
 * Return: the kernel address of a range of @mr, which has it; NULL if the range is not in one
 * block, or regions of this type have no blocks. Any context.
 */
static inline void *rox_mr_whole(const struct rox_mr *mr, u64 addr, size_t len)
{
	u64 off = addr - mr->iova + mr->offset, in_block = off & (((u64)1 << mr->page_shift) - 1);

	if (in_block + len > (u64)1 << mr->page_shift || off >> mr->page_shift >= mr->nblocks)
		return NULL;
	return (void *)(mr->blocks[off >> mr->page_shift] + in_block);
}

/* Ends a dma-buf mapping. Process context, may sleep. @db may be NULL. */
#if IS_ENABLED(CONFIG_DMA_SHARED_BUFFER)
void rox_dmabuf_release(struct rox_dmabuf *db);
#else
static inline void rox_dmabuf_release(struct rox_dmabuf *db)
{
}
#endif

#endif /* ROX_MEM_INTERNAL_H */
