// SPDX-License-Identifier: GPL-2.0
/*
 * The table of pages of a region on demand: look-up, invalidation, and the life of its chunks.
 *
 * The data path reads the table without a lock. Each CPU has a phase counter, which is odd while
 * the CPU may be using pages of such regions: from rox_odp_map() to rox_odp_done() at the end of
 * the run. An invalidation removes entries, and then waits for the CPUs whose phase is odd. Mostly
 * there is none. An RCU grace period would make munmap() wait for all CPUs.
 */
#include <linux/mm.h>
#include "odp_table.h"

/* An entry of a chunk is the kernel address of a page, and these bits. */
#define ROX_ODP_ENTRY_READ	BIT(0)
#define ROX_ODP_ENTRY_WRITE	BIT(1)
/* The page was writable, and a peer may have written to it. Excludes the other two bits. */
#define ROX_ODP_ENTRY_WRITTEN	BIT(2)

#define ROX_ACCESS_WRITES	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | \
				 IB_ACCESS_REMOTE_ATOMIC)

/* Empty chunks are freed after this time, or as soon as there are this many of them. */
#define ROX_ODP_SPARE_TIME	(HZ / 10)
#define ROX_ODP_SPARE_CHUNKS	64

/* Mark in rox_odp.chunks: the chunk was empty when it was marked. */
#define ROX_ODP_SPARE		XA_MARK_0

/* Odd while the CPU may be using pages that rox_odp_map() returned. */
DEFINE_PER_CPU(unsigned int, rox_odp_phase);

/* ---- the data path ---- */

u64 rox_odp_va(const struct rox_mr *mr, u64 addr)
{
	return mr->odp->start + (addr - mr->iova);
}

/* Makes this CPU's phase odd. rox_odp_done() makes it even again. */
static void rox_odp_reading(void)
{
	unsigned int phase = this_cpu_read(rox_odp_phase);

	if (phase & 1)
		return;
	this_cpu_write(rox_odp_phase, phase + 1);
	/* Pairs with rox_odp_wait(): set the phase before reading entries. */
	smp_mb();
}

/* Makes this CPU's phase even, for rox_odp_done(). Bottom halves disabled. */
void rox_odp_leave(void)
{
	unsigned int *phase = this_cpu_ptr(&rox_odp_phase);

	/* All accesses to the pages come before this. */
	smp_store_release(phase, *phase + 1);
}

/*
 * Waits until no CPU uses entries or chunks that the caller has removed. That takes at most as
 * long as a run on another CPU. May sleep.
 */
static void rox_odp_wait(void)
{
	unsigned int phase, tries;
	int cpu;

	/* Pairs with rox_odp_reading(): remove entries before reading the phases. */
	smp_mb();
	for_each_online_cpu(cpu) {
		const unsigned int *now = per_cpu_ptr(&rox_odp_phase, cpu);

		phase = READ_ONCE(*now);
		if (!(phase & 1))
			continue;
		for (tries = 0; READ_ONCE(*now) == phase; tries++) {
			if (tries < 100)
				cpu_relax();
			else
				usleep_range(10, 50);
		}
	}
	/* The caller comes after all accesses of those CPUs to the pages. */
	smp_mb();
}

void *rox_odp_map(const struct rox_mr *mr, u64 addr, int access, size_t *len)
{
	unsigned long need = access & ROX_ACCESS_WRITES ? ROX_ODP_ENTRY_WRITE : ROX_ODP_ENTRY_READ;
	u64 va = rox_odp_va(mr, addr);
	struct rox_odp_chunk *chunk;
	unsigned long entry, first;
	u32 i = rox_odp_page(va);
	size_t avail;

	RCU_LOCKDEP_WARN(!rcu_read_lock_any_held(), "pages on demand outside of the data path");
	rox_odp_reading();
	chunk = xa_load(&mr->odp->chunks, va >> ROX_ODP_CHUNK_SHIFT);
	first = chunk ? READ_ONCE(chunk->pages[i]) : 0;
	if (!(first & need)) {
		*len = 0;
		return NULL;
	}
	avail = PAGE_SIZE - offset_in_page(va);
	while (avail < *len && ++i < ROX_ODP_CHUNK_PAGES) {
		entry = READ_ONCE(chunk->pages[i]);
		if (!(entry & need) ||
		    (entry & PAGE_MASK) != (first & PAGE_MASK) + offset_in_page(va) + avail)
			break;
		avail += PAGE_SIZE;
	}
	*len = min(*len, avail);
	return (void *)((first & PAGE_MASK) + offset_in_page(va));
}

/* ---- invalidation ---- */

/* Removes the access rights of entries [@first, @last]. Return: true if any entry is not 0. */
static bool rox_odp_close(struct rox_odp_chunk *chunk, u32 first, u32 last)
{
	const unsigned long rights = ROX_ODP_ENTRY_READ | ROX_ODP_ENTRY_WRITE;
	bool any = false;
	u32 i;

	for (i = first; i <= last; i++) {
		if (!chunk->pages[i])
			continue;
		any = true;
		/* rox_odp_clear() has to know whether the page was writable. */
		WRITE_ONCE(chunk->pages[i], (chunk->pages[i] & ~rights) |
			   (chunk->pages[i] & ROX_ODP_ENTRY_WRITE ? ROX_ODP_ENTRY_WRITTEN : 0));
	}
	return any;
}

static void rox_odp_dirty(struct page *page)
{
	/*
	 * data_race: the page may just move to a list of the LRU, whose pointer shares a word
	 * with the mark of a tail page. Neither pointer nor mark changes whether it is one.
	 */
	folio_mark_dirty(data_race(page_folio(page)));
}

/* Clears entries [@first, @last], which nobody uses. */
static void rox_odp_clear(struct rox_odp_chunk *chunk, u32 first, u32 last)
{
	u32 i;

	for (i = first; i <= last; i++) {
		unsigned long entry = chunk->pages[i];

		if (!entry)
			continue;
		/*
		 * The dirty bit of the page table may be clear, as it does not show writes to the
		 * kernel address.
		 */
		if (entry & ROX_ODP_ENTRY_WRITTEN)
			rox_odp_dirty(virt_to_page((void *)(entry & PAGE_MASK)));
		WRITE_ONCE(chunk->pages[i], 0);
		WRITE_ONCE(chunk->used, chunk->used - 1);
	}
}

/* Marks an empty chunk, to be freed unless it is used again soon. */
static void rox_odp_spare(struct rox_odp_chunk *chunk)
{
	struct rox_odp *odp = chunk->odp;

	xa_set_mark(&odp->chunks, chunk->notifier.interval_tree.start >> ROX_ODP_CHUNK_SHIFT,
		    ROX_ODP_SPARE);
	if (atomic_inc_return(&odp->spare) < ROX_ODP_SPARE_CHUNKS)
		queue_delayed_work(rox_odp_spare_wq, &odp->spare_work, ROX_ODP_SPARE_TIME);
	else
		mod_delayed_work(rox_odp_spare_wq, &odp->spare_work, 0);
}

/*
 * Removes entries and waits until nobody uses them. The caller holds the chunk's lock all the
 * time, so that a second invalidation of the same pages does not return earlier than this one.
 */
static void rox_odp_take(struct rox_odp_chunk *chunk, u32 first, u32 last)
{
	if (!rox_odp_close(chunk, first, last))
		return;
	rox_odp_wait();
	rox_odp_clear(chunk, first, last);
	if (!chunk->used)
		rox_odp_spare(chunk);
}

static bool rox_odp_invalidate(struct mmu_interval_notifier *notifier,
			       const struct mmu_notifier_range *range, unsigned long seq)
{
	struct rox_odp_chunk *chunk = container_of(notifier, struct rox_odp_chunk, notifier);
	unsigned long base = notifier->interval_tree.start;
	unsigned long first = max(range->start, base) - base;
	unsigned long last = min(range->end - 1, notifier->interval_tree.last) - base;

	/* Only the OOM killer does not allow sleeping. It then skips this memory. */
	if (!mmu_notifier_range_blockable(range))
		return false;
	mutex_lock(&chunk->lock);
	mmu_interval_set_seq(notifier, seq);
	rox_odp_take(chunk, first >> PAGE_SHIFT, last >> PAGE_SHIFT);
	mutex_unlock(&chunk->lock);
	return true;
}

static const struct mmu_interval_notifier_ops rox_odp_notifier_ops = {
	.invalidate = rox_odp_invalidate,
};

/* ---- chunks ---- */

/* Does the process have any memory where the chunk is? */
static bool rox_odp_populated(struct mm_struct *mm, unsigned long va)
{
	unsigned long base = ALIGN_DOWN(va, ROX_ODP_CHUNK_SIZE);
	struct vm_area_struct *vma;
	bool found;

	mmap_read_lock(mm);
	vma = find_vma(mm, base);
	found = vma && vma->vm_start - base < ROX_ODP_CHUNK_SIZE;
	found = found || (vma && vma->vm_start < base);
	mmap_read_unlock(mm);
	return found;
}

/*
 * Makes a chunk that is not in the table, and belongs to the caller. Takes the mmap lock, which
 * others may keep for long, so not with odp->lock.
 */
static struct rox_odp_chunk *rox_odp_new_chunk(struct rox_odp *odp, unsigned long index)
{
	struct rox_odp_chunk *chunk = kvzalloc(sizeof(*chunk), ROX_GFP_USER);
	int err;

	if (!chunk)
		return ERR_PTR(-ENOMEM);
	chunk->odp = odp;
	chunk->refs = 1;
	mutex_init(&chunk->lock);
	err = mmu_interval_notifier_insert(&chunk->notifier, odp->mm, index << ROX_ODP_CHUNK_SHIFT,
					   ROX_ODP_CHUNK_SIZE, &rox_odp_notifier_ops);
	if (err) {
		kvfree(chunk);
		return ERR_PTR(err);
	}
	return chunk;
}

/*
 * Frees a chunk that is not in the table and whose pages nobody uses. The caller does not hold
 * odp->lock.
 */
static void rox_odp_chunk_free(struct rox_odp_chunk *chunk)
{
	mutex_lock(&chunk->lock);
	rox_odp_close(chunk, 0, ROX_ODP_CHUNK_PAGES - 1);
	rox_odp_clear(chunk, 0, ROX_ODP_CHUNK_PAGES - 1);
	mutex_unlock(&chunk->lock);
	mmu_interval_notifier_remove(&chunk->notifier);
	kvfree(chunk);
}

void rox_odp_chunks_free(struct list_head *gone)
{
	struct rox_odp_chunk *chunk, *next;

	list_for_each_entry_safe(chunk, next, gone, gone) {
		rox_odp_chunk_free(chunk);
		cond_resched();
	}
}

/*
 * Finds a chunk, or enters *@fresh, unless that is NULL, which then is the table's. Return: the
 * chunk with a reference; NULL: there is none; an ERR_PTR.
 */
static struct rox_odp_chunk *rox_odp_chunk_find(struct rox_odp *odp, unsigned long index,
						struct rox_odp_chunk **fresh)
{
	struct rox_odp_chunk *chunk;
	int err = 0;

	mutex_lock(&odp->lock);
	chunk = odp->dead ? ERR_PTR(-EFAULT) : xa_load(&odp->chunks, index);
	if (!chunk && *fresh) {
		err = xa_err(xa_store(&odp->chunks, index, *fresh, ROX_GFP_USER));
		chunk = err ? ERR_PTR(err) : *fresh;
		if (!err)
			*fresh = NULL;
	}
	if (!IS_ERR_OR_NULL(chunk))
		chunk->refs++;
	mutex_unlock(&odp->lock);
	return chunk;
}

struct rox_odp_chunk *rox_odp_chunk_get(struct rox_odp *odp, unsigned long va)
{
	unsigned long index = va >> ROX_ODP_CHUNK_SHIFT;
	struct rox_odp_chunk *chunk, *fresh = NULL;

	chunk = rox_odp_chunk_find(odp, index, &fresh);
	if (chunk)
		return chunk;
	/* A peer must not make us allocate chunks for addresses without memory. */
	if (!rox_odp_populated(odp->mm, va))
		return ERR_PTR(-EFAULT);
	fresh = rox_odp_new_chunk(odp, index);
	if (IS_ERR(fresh))
		return fresh;
	chunk = rox_odp_chunk_find(odp, index, &fresh);
	/* Another job was faster, or the region has ended. */
	if (fresh)
		rox_odp_chunk_free(fresh);
	return chunk;
}

void rox_odp_chunk_put(struct rox_odp_chunk *chunk)
{
	struct rox_odp *odp = chunk->odp;
	bool last;

	mutex_lock(&odp->lock);
	last = !--chunk->refs;
	/* No page was entered, or an invalidation has removed all entries. */
	if (!last && !READ_ONCE(chunk->used))
		rox_odp_spare(chunk);
	mutex_unlock(&odp->lock);
	if (last)
		rox_odp_chunk_free(chunk);
}

void rox_odp_spare_work(struct work_struct *work)
{
	struct rox_odp *odp = container_of(work, struct rox_odp, spare_work.work);
	struct rox_odp_chunk *chunk;
	unsigned long index;
	LIST_HEAD(gone);

	atomic_set(&odp->spare, 0);
	mutex_lock(&odp->lock);
	xa_for_each_marked(&odp->chunks, index, chunk, ROX_ODP_SPARE) {
		xa_clear_mark(&odp->chunks, index, ROX_ODP_SPARE);
		/* If only the table has a reference, nobody adds entries. */
		if (chunk->refs == 1 && !READ_ONCE(chunk->used)) {
			xa_erase(&odp->chunks, index);
			list_add(&chunk->gone, &gone);
		}
		cond_resched();
	}
	mutex_unlock(&odp->lock);
	if (list_empty(&gone))
		return;
	/* The data path may still be reading these chunks. */
	rox_odp_wait();
	rox_odp_chunks_free(&gone);
}

int rox_odp_enter(struct rox_odp_chunk *chunk, const struct hmm_range *range, unsigned long need)
{
	u32 n = (range->end - range->start) >> PAGE_SHIFT;
	u32 i, first = rox_odp_page(range->start);
	int missing = -EBUSY;

	mutex_lock(&chunk->lock);
	if (mmu_interval_read_retry(&chunk->notifier, range->notifier_seq))
		goto unlock;
	missing = 0;
	for (i = 0; i < n; i++) {
		unsigned long pfn = range->hmm_pfns[i], entry;

		if ((pfn & need) != need)
			missing++;
		if (!(pfn & HMM_PFN_VALID) || pfn & HMM_PFN_ERROR)
			continue;
		entry = (unsigned long)page_address(hmm_pfn_to_page(pfn)) | ROX_ODP_ENTRY_READ;
		if (pfn & HMM_PFN_WRITE)
			entry |= ROX_ODP_ENTRY_WRITE;
		if (!chunk->pages[first + i])
			WRITE_ONCE(chunk->used, chunk->used + 1);
		/* The content of the page comes before its entry. */
		smp_store_release(&chunk->pages[first + i], entry);
	}
unlock:
	mutex_unlock(&chunk->lock);
	return missing;
}
