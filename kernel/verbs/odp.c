// SPDX-License-Identifier: GPL-2.0
/*
 * On-demand paging: memory regions whose pages the process may lose and get at
 * any time.
 *
 * What is known of the pages of such a region stands in a sparse table of chunks,
 * each made when it is first needed and each with an interval notifier: the
 * kernel says there what it is going to take from the process. The data path reads the
 * table with bottom halves disabled, which is an RCU read-side section, and
 * never longer than a burst: an invalidation takes entries away and waits for a
 * grace period, after which nobody uses the pages. What is missing is faulted in
 * on a work queue.
 */
#include <linux/fs.h>
#include <linux/hmm.h>
#include <linux/magic.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/pagemap.h>
#include <linux/sched/mm.h>
#include "internal.h"
#include "odp.h"

/* A chunk is what one lowest page table describes, 2 MiB. */
#define ROX_ODP_CHUNK_PAGES	512UL
#define ROX_ODP_CHUNK_SHIFT	(PAGE_SHIFT + 9)
#define ROX_ODP_CHUNK_SIZE	BIT(ROX_ODP_CHUNK_SHIFT)

/* An entry of the table is the kernel address of a page, and what may be done with it. */
#define ROX_ODP_ENTRY_READ	BIT(0)
#define ROX_ODP_ENTRY_WRITE	BIT(1)

#define ROX_ACCESS_WRITES	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | \
				 IB_ACCESS_REMOTE_ATOMIC)

/**
 * struct rox_odp_chunk - what is known of 2 MiB of a process
 * @notifier: the kernel tells it what it takes away
 * @lock: held by those who change @pages; the data path reads without it
 * @pages: an entry for each page; 0 if nothing is known
 */
struct rox_odp_chunk {
	struct mmu_interval_notifier notifier;
	struct mutex lock;	/* @pages */
	unsigned long pages[ROX_ODP_CHUNK_PAGES];
};

/**
 * struct rox_odp - the pages of a region
 * @mm: of the process that registered it, with mmgrab()
 * @start: user address of byte 0
 * @lock: held by those who make chunks
 * @chunks: struct rox_odp_chunk by user address / 2 MiB (RCU); they stay until the end
 */
struct rox_odp {
	struct mm_struct *mm;
	u64 start;
	struct mutex lock;	/* additions to @chunks */
	struct xarray chunks;
};

struct workqueue_struct *rox_odp_wq;

/**
 * rox_odp_init() - makes the work queue for page faults
 *
 * Not rox_wq: a fault may wait for memory that is freed by a burst that waits for a worker.
 * Return: 0 or -ENOMEM.
 */
int rox_odp_init(void)
{
	rox_odp_wq = alloc_workqueue("rox_odp", WQ_UNBOUND | WQ_SYSFS, 0);
	return rox_odp_wq ? 0 : -ENOMEM;
}

/**
 * rox_odp_exit() - the end of that work queue
 */
void rox_odp_exit(void)
{
	destroy_workqueue(rox_odp_wq);
}

static u64 rox_odp_va(const struct rox_mr *mr, u64 addr)
{
	return mr->odp->start + (addr - mr->iova);
}

static u32 rox_odp_page(u64 va)
{
	return (va >> PAGE_SHIFT) % ROX_ODP_CHUNK_PAGES;
}

/* ---- the data path ---- */

void *rox_odp_map(const struct rox_mr *mr, u64 addr, int access, size_t *len)
{
	unsigned long need = access & ROX_ACCESS_WRITES ? ROX_ODP_ENTRY_WRITE : ROX_ODP_ENTRY_READ;
	u64 va = rox_odp_va(mr, addr);
	struct rox_odp_chunk *chunk;
	unsigned long entry, first;
	u32 i = rox_odp_page(va);
	size_t avail;

	RCU_LOCKDEP_WARN(!rcu_read_lock_any_held(), "pages on demand outside of the data path");
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

/* ---- what the kernel takes away ---- */

/*
 * Entries [@first, @last] are not to be used any more, and on return are not. The
 * caller holds the lock, so that a second one about the same pages waits for
 * the grace period of the first.
 */
static void rox_odp_take(struct rox_odp_chunk *chunk, u32 first, u32 last)
{
	const unsigned long rights = ROX_ODP_ENTRY_READ | ROX_ODP_ENTRY_WRITE;
	DECLARE_BITMAP(written, ROX_ODP_CHUNK_PAGES);
	bool any = false;
	u32 i;

	bitmap_zero(written, ROX_ODP_CHUNK_PAGES);
	for (i = first; i <= last; i++) {
		unsigned long entry = chunk->pages[i];

		if (!entry)
			continue;
		any = true;
		if (entry & ROX_ODP_ENTRY_WRITE)
			__set_bit(i, written);
		WRITE_ONCE(chunk->pages[i], entry & ~rights);
	}
	if (!any)
		return;
	/* Bottom halves that are disabled are read-side sections. */
	synchronize_rcu_expedited();
	/* The page table may call them clean, because another CPU has never written to them. */
	for_each_set_bit(i, written, ROX_ODP_CHUNK_PAGES)
		folio_mark_dirty(page_folio(virt_to_page((void *)chunk->pages[i])));
	for (i = first; i <= last; i++)
		WRITE_ONCE(chunk->pages[i], 0);
}

static bool rox_odp_invalidate(struct mmu_interval_notifier *notifier,
			       const struct mmu_notifier_range *range, unsigned long seq)
{
	struct rox_odp_chunk *chunk = container_of(notifier, struct rox_odp_chunk, notifier);
	unsigned long base = notifier->interval_tree.start;
	unsigned long first = max(range->start, base) - base;
	unsigned long last = min(range->end - 1, notifier->interval_tree.last) - base;

	/* Only the out-of-memory killer asks so, and goes on to something else. */
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

/* ---- page faults ---- */

/* Does the process have any memory in these 2 MiB? */
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
 * Memory that the kernel itself must not touch (memfd_secret) is in the page
 * tables as any other.
 */
static bool rox_odp_secret(struct mm_struct *mm, unsigned long start, unsigned long end)
{
	struct vm_area_struct *vma;

	for (vma = find_vma(mm, start); vma && vma->vm_start < end;
	     vma = find_vma(mm, vma->vm_end)) {
		if (vma->vm_file &&
		    file_inode(vma->vm_file)->i_sb->s_magic == SECRETMEM_MAGIC)
			return true;
	}
	return false;
}

static struct rox_odp_chunk *rox_odp_new_chunk(struct rox_odp *odp, unsigned long index)
{
	struct rox_odp_chunk *chunk = kvzalloc(sizeof(*chunk), ROX_GFP_USER);
	int err;

	if (!chunk)
		return ERR_PTR(-ENOMEM);
	mutex_init(&chunk->lock);
	err = mmu_interval_notifier_insert(&chunk->notifier, odp->mm, index << ROX_ODP_CHUNK_SHIFT,
					   ROX_ODP_CHUNK_SIZE, &rox_odp_notifier_ops);
	if (err)
		goto free;
	err = xa_err(xa_store(&odp->chunks, index, chunk, GFP_KERNEL));
	if (err)
		goto remove;
	return chunk;
remove:
	mmu_interval_notifier_remove(&chunk->notifier);
free:
	kvfree(chunk);
	return ERR_PTR(err);
}

/* The caller has the process's memory by mmget(). */
static struct rox_odp_chunk *rox_odp_chunk(struct rox_odp *odp, unsigned long va)
{
	unsigned long index = va >> ROX_ODP_CHUNK_SHIFT;
	struct rox_odp_chunk *chunk = xa_load(&odp->chunks, index);

	if (chunk)
		return chunk;
	/* A peer that tries addresses must not make us keep accounts of nothing. */
	if (!rox_odp_populated(odp->mm, va))
		return ERR_PTR(-EFAULT);
	mutex_lock(&odp->lock);
	chunk = xa_load(&odp->chunks, index);
	if (!chunk)
		chunk = rox_odp_new_chunk(odp, index);
	mutex_unlock(&odp->lock);
	return chunk;
}

/* Enters what was found at @range, unless it has been taken away meanwhile: -EBUSY. */
static int rox_odp_enter(struct rox_odp_chunk *chunk, const struct hmm_range *range)
{
	u32 n = (range->end - range->start) >> PAGE_SHIFT;
	u32 i, first = rox_odp_page(range->start);
	int err = -EBUSY;

	mutex_lock(&chunk->lock);
	if (mmu_interval_read_retry(&chunk->notifier, range->notifier_seq))
		goto unlock;
	for (i = 0; i < n; i++) {
		unsigned long pfn = range->hmm_pfns[i], entry;

		if (!(pfn & HMM_PFN_VALID) || pfn & HMM_PFN_ERROR)
			continue;
		entry = (unsigned long)page_address(hmm_pfn_to_page(pfn)) | ROX_ODP_ENTRY_READ;
		if (pfn & HMM_PFN_WRITE)
			entry |= ROX_ODP_ENTRY_WRITE;
		/* What is in the page before the page. */
		smp_store_release(&chunk->pages[first + i], entry);
	}
	err = 0;
unlock:
	mutex_unlock(&chunk->lock);
	return err;
}

/* Pages of one chunk; the caller has mmget(). */
static int rox_odp_fault_chunk(struct rox_odp_chunk *chunk, unsigned long start, unsigned long end,
			       enum rox_odp_mode mode)
{
	unsigned long deadline = jiffies + msecs_to_jiffies(HMM_RANGE_DEFAULT_TIMEOUT);
	struct mm_struct *mm = chunk->notifier.mm;
	struct hmm_range range = {
		.notifier = &chunk->notifier,
		.start = start,
		.end = end,
	};
	int err;

	if (mode != ROX_ODP_PRESENT)
		range.default_flags = HMM_PFN_REQ_FAULT;
	if (mode == ROX_ODP_WRITE)
		range.default_flags |= HMM_PFN_REQ_WRITE;
	range.hmm_pfns = kcalloc((end - start) >> PAGE_SHIFT, sizeof(*range.hmm_pfns),
				 ROX_GFP_USER);
	if (!range.hmm_pfns)
		return -ENOMEM;
	do {
		range.notifier_seq = mmu_interval_read_begin(&chunk->notifier);
		mmap_read_lock(mm);
		err = rox_odp_secret(mm, start, end) ? -EFAULT : hmm_range_fault(&range);
		mmap_read_unlock(mm);
		if (!err)
			err = rox_odp_enter(chunk, &range);
	} while (err == -EBUSY && time_before(jiffies, deadline));
	kfree(range.hmm_pfns);
	return err;
}

/* Pages [@start, @end); the caller has mmget(). */
static int rox_odp_fault_range(struct rox_odp *odp, unsigned long start, unsigned long end,
			       enum rox_odp_mode mode)
{
	struct rox_odp_chunk *chunk;
	unsigned long stop;
	int err = 0;

	for (; start < end && !err; start = stop) {
		stop = min(end, ALIGN_DOWN(start, ROX_ODP_CHUNK_SIZE) + ROX_ODP_CHUNK_SIZE);
		chunk = rox_odp_chunk(odp, start);
		if (!IS_ERR(chunk))
			err = rox_odp_fault_chunk(chunk, start, stop, mode);
		else if (mode != ROX_ODP_PRESENT || PTR_ERR(chunk) != -EFAULT)
			err = PTR_ERR(chunk);
		cond_resched();
	}
	return err;
}

/**
 * rox_odp_fault() - makes pages of a region present
 * @mr: on demand; the caller holds a reference
 * @addr: first address as work requests name it
 * @len: bytes, within the region
 * @mode: what for
 *
 * Process context; waits for whatever the process itself would wait for.
 * Return: 0; -EFAULT if not all of it is memory of the process (which may have
 * ended); -EPERM if it may not be written; -EBUSY if it has been taken away again
 * and again for a second; -ENOMEM.
 */
int rox_odp_fault(struct rox_mr *mr, u64 addr, u64 len, enum rox_odp_mode mode)
{
	struct mem_cgroup *memcg, *charged;
	u64 va = rox_odp_va(mr, addr);
	int err;

	if (!len)
		return 0;
	if (va >= TASK_SIZE_MAX || len > TASK_SIZE_MAX - va || !mmget_not_zero(mr->odp->mm))
		return -EFAULT;
	/* A worker's caller is the process that has the region. */
	memcg = get_mem_cgroup_from_mm(mr->odp->mm);
	charged = set_active_memcg(memcg);
	err = rox_odp_fault_range(mr->odp, ALIGN_DOWN(va, PAGE_SIZE), ALIGN(va + len, PAGE_SIZE),
				  mode);
	set_active_memcg(charged);
	mem_cgroup_put(memcg);
	/* The last user's end frees all of its memory: not here. */
	mmput_async(mr->odp->mm);
	return err;
}

/* ---- registration ---- */

/**
 * rox_reg_odp_mr() - registers memory of the calling process without pinning it
 * @ibpd: PD
 * @start: user address
 * @length: bytes; with @start 0 and U64_MAX all that the process has and will have
 * @iova: address of byte 0 for work requests
 * @access: enum ib_access_flags, checked
 *
 * There need be no memory there yet.
 * Return: the MR or ERR_PTR: -EINVAL, -ENOMEM.
 */
struct ib_mr *rox_reg_odp_mr(struct ib_pd *ibpd, u64 start, u64 length, u64 iova, int access)
{
	bool implicit = !start && length == U64_MAX;
	struct rox_odp *odp;
	struct rox_mr *mr;
	int err;

	if (implicit ? iova : start + length < start)
		return ERR_PTR(-EINVAL);
	odp = kzalloc(sizeof(*odp), ROX_GFP_USER);
	if (!odp)
		return ERR_PTR(-ENOMEM);
	mr = rox_mr_alloc(ibpd, ROX_MR_ODP, access);
	if (!mr) {
		kfree(odp);
		return ERR_PTR(-ENOMEM);
	}
	odp->mm = current->mm;
	mmgrab(odp->mm);
	odp->start = start;
	mutex_init(&odp->lock);
	xa_init(&odp->chunks);
	mr->odp = odp;
	mr->iova = iova;
	mr->length = length;
	mr->page_shift = PAGE_SHIFT;
	mr->ibmr.page_size = PAGE_SIZE;
	err = rox_mr_publish(to_rox_dev(ibpd->device), mr);
	if (err) {
		rox_mr_free(mr);
		return ERR_PTR(err);
	}
	return &mr->ibmr;
}

/**
 * rox_odp_free() - forgets the pages of a region
 * @odp: of a region that nobody uses any more, or NULL
 */
void rox_odp_free(struct rox_odp *odp)
{
	struct rox_odp_chunk *chunk;
	unsigned long index;

	if (!odp)
		return;
	xa_for_each(&odp->chunks, index, chunk) {
		mutex_lock(&chunk->lock);
		rox_odp_take(chunk, 0, ROX_ODP_CHUNK_PAGES - 1);
		mutex_unlock(&chunk->lock);
		mmu_interval_notifier_remove(&chunk->notifier);
		kvfree(chunk);
	}
	xa_destroy(&odp->chunks);
	mmdrop(odp->mm);
	kfree(odp);
}

/* ---- advice ---- */

/**
 * struct rox_advice - what is to be fetched
 * @work: does it if nobody waits
 * @mode: enum rox_odp_mode
 * @num: ranges
 * @range: @mr with a reference
 */
struct rox_advice {
	struct work_struct work;
	enum rox_odp_mode mode;
	u32 num;
	struct {
		struct rox_mr *mr;
		u64 addr;
		u64 len;
	} range[];
};

static void rox_advice_free(struct rox_advice *advice)
{
	while (advice->num)
		rox_mr_put(advice->range[--advice->num].mr);
	kvfree(advice);
}

static int rox_advice_run(struct rox_advice *advice)
{
	int err = 0;
	u32 i;

	for (i = 0; i < advice->num && !err; i++)
		err = rox_odp_fault(advice->range[i].mr, advice->range[i].addr,
				    advice->range[i].len, advice->mode);
	/* What the process may not write is no place to write to. */
	return err == -EPERM ? -EFAULT : err;
}

static void rox_advice_work(struct work_struct *work)
{
	struct rox_advice *advice = container_of(work, struct rox_advice, work);

	rox_advice_run(advice);
	rox_advice_free(advice);
}

static int rox_advice_add(struct rox_advice *advice, struct ib_pd *ibpd, const struct ib_sge *sge)
{
	int access = advice->mode == ROX_ODP_WRITE ? IB_ACCESS_LOCAL_WRITE : 0;
	struct rox_mr *mr = rox_mr_get(to_rox_dev(ibpd->device), ibpd, sge->lkey, sge->addr,
				       sge->length, access, true);

	if (IS_ERR(mr)) {
		switch (PTR_ERR(mr)) {
		case -ERANGE:
			return -EFAULT;
		case -EACCES:
			return -EPERM;
		default:
			return PTR_ERR(mr);
		}
	}
	if (mr->type != ROX_MR_ODP) {
		rox_mr_put(mr);
		return -EINVAL;
	}
	advice->range[advice->num].mr = mr;
	advice->range[advice->num].addr = sge->addr;
	advice->range[advice->num].len = sge->length;
	advice->num++;
	return 0;
}

static int rox_advice_mode(enum ib_uverbs_advise_mr_advice advice)
{
	switch (advice) {
	case IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH:
		return ROX_ODP_READ;
	case IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE:
		return ROX_ODP_WRITE;
	case IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT:
		return ROX_ODP_PRESENT;
	default:
		return -EOPNOTSUPP;
	}
}

/**
 * rox_advise_mr() - a program says what it is going to use
 * @ibpd: PD
 * @what: enum ib_uverbs_advise_mr_advice
 * @flags: IB_UVERBS_ADVISE_MR_FLAG_FLUSH to wait until it has been done
 * @sge: ranges of regions on demand
 * @num_sge: their number
 * @attrs: not used
 *
 * Return: 0; -EOPNOTSUPP for another advice; -EINVAL for other flags or a region
 * that is pinned; -ENOENT for no such key; -EPERM for one of another PD, or one that
 * is not to be written; -EFAULT for what is not in the region, or (if it waits) not memory of the
 * process; -ENOMEM.
 */
int rox_advise_mr(struct ib_pd *ibpd, enum ib_uverbs_advise_mr_advice what, u32 flags,
		  struct ib_sge *sge, u32 num_sge, struct uverbs_attr_bundle *attrs)
{
	int mode = rox_advice_mode(what), err = 0;
	struct rox_advice *advice;
	u32 i;

	if (mode < 0)
		return mode;
	if (flags & ~IB_UVERBS_ADVISE_MR_FLAG_FLUSH)
		return -EINVAL;
	advice = kvzalloc(struct_size(advice, range, num_sge), ROX_GFP_USER);
	if (!advice)
		return -ENOMEM;
	advice->mode = mode;
	for (i = 0; i < num_sge && !err; i++)
		err = rox_advice_add(advice, ibpd, &sge[i]);
	if (!err && !(flags & IB_UVERBS_ADVISE_MR_FLAG_FLUSH)) {
		INIT_WORK(&advice->work, rox_advice_work);
		queue_work(rox_odp_wq, &advice->work);
		return 0;
	}
	if (!err)
		err = rox_advice_run(advice);
	rox_advice_free(advice);
	return err;
}
