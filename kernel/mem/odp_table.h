/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The table of pages of a region on demand, for the files odp*.c.
 */
#ifndef ROX_ODP_TABLE_H
#define ROX_ODP_TABLE_H

#include <linux/hmm.h>
#include <linux/mmu_notifier.h>
#include <linux/xarray.h>
#include "internal.h"

/* With 4 KiB pages a chunk covers 2 MiB, as much as one page table of the lowest level. */
#define ROX_ODP_CHUNK_PAGES	512UL
#define ROX_ODP_CHUNK_SHIFT	(PAGE_SHIFT + 9)
#define ROX_ODP_CHUNK_SIZE	BIT(ROX_ODP_CHUNK_SHIFT)

/**
 * struct rox_odp_chunk - page addresses of a part of a process's memory
 * @notifier: called when the kernel takes pages away
 * @odp: the pages of the region
 * @refs: one for the table, one for each job that faults pages in; under @odp->lock
 * @gone: in a local list of chunks to be freed
 * @lock: held to change @pages; the data path reads @pages without it
 * @used: number of entries that are not 0; also read without the lock
 * @pages: an entry for each page; 0 if the page is not known to be present
 */
struct rox_odp_chunk {
	struct mmu_interval_notifier notifier;
	struct rox_odp *odp;
	unsigned int refs;
	struct list_head gone;
	struct mutex lock;	/* @pages, @used */
	u32 used;
	unsigned long pages[ROX_ODP_CHUNK_PAGES];
};

/**
 * struct rox_odp - the pages of a region
 * @ref: one for the region, one for each job
 * @mm: address space of the process that registered the region, with mmgrab()
 * @share: limits the number of its jobs
 * @start: user address of byte 0
 * @lock: held to add or remove chunks
 * @dead: the region has ended; no chunks may be added
 * @chunks: struct rox_odp_chunk by user address / ROX_ODP_CHUNK_SIZE
 * @spare: approximate number of marked chunks
 * @spare_work: frees empty chunks
 */
struct rox_odp {
	refcount_t ref;
	struct mm_struct *mm;
	struct rox_odp_share *share;
	u64 start;
	struct mutex lock;	/* @chunks, @dead, the chunks' @refs */
	bool dead;
	struct xarray chunks;
	atomic_t spare;
	struct delayed_work spare_work;
};

static inline u32 rox_odp_page(u64 va)
{
	return (va >> PAGE_SHIFT) % ROX_ODP_CHUNK_PAGES;
}

/*
 * Finds or adds the chunk for @va, and takes a reference, which rox_odp_chunk_put() drops. The
 * caller has done mmget() on the address space. May sleep. Return: the chunk or ERR_PTR: -EFAULT
 * if the process has no memory there or the region has ended, -ENOMEM.
 */
struct rox_odp_chunk *rox_odp_chunk_get(struct rox_odp *odp, unsigned long va);
/* Drops a reference of rox_odp_chunk_get(). May sleep. */
void rox_odp_chunk_put(struct rox_odp_chunk *chunk);
/*
 * Frees chunks that are not in the table, and whose pages nobody uses. May sleep. The caller does
 * not hold odp->lock.
 */
void rox_odp_chunks_free(struct list_head *gone);
/* rox_odp.spare_work: frees chunks that are empty. */
void rox_odp_spare_work(struct work_struct *work);
/*
 * Enters the pages of @range into @chunk. May sleep. Return: the number of pages that are missing
 * or do not allow @need; -EBUSY, with nothing entered, if an invalidation came after the snapshot.
 */
int rox_odp_enter(struct rox_odp_chunk *chunk, const struct hmm_range *range, unsigned long need);

#endif /* ROX_ODP_TABLE_H */
