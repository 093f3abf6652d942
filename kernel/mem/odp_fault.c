// SPDX-License-Identifier: GPL-2.0
/*
 * Page faults of regions on demand: making pages of a process present.
 *
 * A page fault may hang for ever, for instance if a user space file system does not answer. So
 * while it waits, a job holds nothing that others wait for: neither a reference on the region nor
 * the mmap lock of the process.
 */
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/sched/mm.h>
#include "odp_table.h"

/* How often a job faults in pages that the kernel takes away again before it gives up. */
#define ROX_ODP_FETCHES		16

/* How long a job that needs only the first page tries to get the others, too. */
#define ROX_ODP_HASTE_MS	20

/*
 * Does the process have memory that allows @mode in all of [@start, @end)? Memory of
 * memfd_secret() is refused: it is in the process's page tables, but the kernel must not access
 * it. Nor may anybody but the CPU write to a shadow stack. The caller holds the mmap lock.
 */
static int rox_odp_check(struct mm_struct *mm, unsigned long start, unsigned long end,
			 enum rox_odp_mode mode)
{
	struct vm_area_struct *vma;

	for (; start < end; start = vma->vm_end) {
		vma = find_vma(mm, start);
		if (mode == ROX_ODP_PRESENT && (!vma || vma->vm_start >= end))
			return 0;
		if (!vma || (mode != ROX_ODP_PRESENT && vma->vm_start > start))
			return -EFAULT;
		if (vma->vm_file &&
		    file_inode(vma->vm_file)->i_sb->s_magic == SECRETMEM_MAGIC)
			return -EFAULT;
		if (vma->vm_flags & VM_SHADOW_STACK)
			return -EFAULT;
		if (mode == ROX_ODP_PRESENT)
			continue;
		if (vma->vm_flags & (VM_IO | VM_PFNMAP) || !(vma->vm_flags & VM_READ))
			return -EFAULT;
		if (mode == ROX_ODP_WRITE && !(vma->vm_flags & VM_WRITE))
			return -EPERM;
	}
	return 0;
}

/* Reads which pages of @range are in the page table. Fails if the mapping does not allow @mode. */
static int rox_odp_snapshot(struct rox_odp_chunk *chunk, struct hmm_range *range,
			    enum rox_odp_mode mode)
{
	struct mm_struct *mm = chunk->notifier.mm;
	int err;

	range->notifier_seq = mmu_interval_read_begin(&chunk->notifier);
	mmap_read_lock(mm);
	err = rox_odp_check(mm, range->start, range->end, mode);
	if (!err)
		err = hmm_range_fault(range);
	mmap_read_unlock(mm);
	return err;
}

/*
 * Faults in a page that allows @mode. A fault that waits for I/O drops the mmap lock. It does so in
 * its first attempt only (FAULT_FLAG_TRIED), so each attempt here is a first one. With the mmap
 * lock. Return: 0, also if the page is to be looked for again; or an error.
 */
static int rox_odp_fetch_page(struct mm_struct *mm, unsigned long va, enum rox_odp_mode mode)
{
	unsigned int flags = FAULT_FLAG_REMOTE | FAULT_FLAG_ALLOW_RETRY | FAULT_FLAG_KILLABLE;
	vm_fault_t fault;
	int err;

	/* The lock may have been dropped since the snapshot. */
	err = rox_odp_check(mm, va, va + PAGE_SIZE, mode);
	if (err)
		return err;
	if (mode == ROX_ODP_WRITE)
		flags |= FAULT_FLAG_WRITE;
	fault = handle_mm_fault(find_vma(mm, va), va, flags, NULL);
	if (fault & (VM_FAULT_RETRY | VM_FAULT_COMPLETED)) {
		mmap_read_lock(mm);
		return 0;
	}
	return fault & VM_FAULT_ERROR ? vm_fault_to_errno(fault, 0) : 0;
}

/*
 * Faults in the pages that do not allow @need. While a fault waits for I/O, which may hang, the
 * process can take the mmap lock.
 */
static int rox_odp_fetch(struct mm_struct *mm, const struct hmm_range *range, unsigned long need,
			 enum rox_odp_mode mode)
{
	unsigned long va = range->start;
	int err = 0;
	u32 i;

	mmap_read_lock(mm);
	for (i = 0; va < range->end && !err; i++, va += PAGE_SIZE) {
		if (range->hmm_pfns[i] & HMM_PFN_ERROR)
			err = -EFAULT;
		else if ((range->hmm_pfns[i] & need) != need)
			err = rox_odp_fetch_page(mm, va, mode);
	}
	mmap_read_unlock(mm);
	return err;
}

/*
 * Repeats snapshot and fault until all of @range is entered, or with @some its first page, or until
 * it fails. If another thread takes pages away all the time, there may never be more than one.
 * Return: 0 or an error.
 */
static int rox_odp_bring(struct rox_odp_chunk *chunk, struct hmm_range *range,
			 enum rox_odp_mode mode, bool some)
{
	bool hasty = some && range->end - range->start > PAGE_SIZE;
	unsigned long patience = msecs_to_jiffies(hasty ? ROX_ODP_HASTE_MS :
							  HMM_RANGE_DEFAULT_TIMEOUT);
	unsigned long need = HMM_PFN_VALID | (mode == ROX_ODP_WRITE ? HMM_PFN_WRITE : 0);
	unsigned long deadline = jiffies + patience;
	int err, fetches = 0;

	for (;;) {
		err = rox_odp_snapshot(chunk, range, mode);
		if (!err)
			err = rox_odp_enter(chunk, range, need);
		if (err == -EBUSY && time_before(jiffies, deadline))
			continue;
		if (err <= 0 || mode == ROX_ODP_PRESENT)
			return min(err, 0);
		if (some && fetches && (range->hmm_pfns[0] & need) == need)
			return 0;
		if (fetches++ == ROX_ODP_FETCHES)
			return -EBUSY;
		err = rox_odp_fetch(chunk->notifier.mm, range, need, mode);
		if (err)
			return err;
		deadline = jiffies + patience;
	}
}

/* Makes [@start, @end), a part of one chunk, present. The caller has done mmget(). */
static int rox_odp_fault_chunk(struct rox_odp_chunk *chunk, unsigned long start, unsigned long end,
			       enum rox_odp_mode mode, bool some)
{
	struct hmm_range range = {
		.notifier = &chunk->notifier,
		.start = start,
		.end = end,
	};
	int err;

	range.hmm_pfns = kcalloc((end - start) >> PAGE_SHIFT, sizeof(*range.hmm_pfns),
				 ROX_GFP_USER);
	if (!range.hmm_pfns)
		return -ENOMEM;
	err = rox_odp_bring(chunk, &range, mode, some);
	kfree(range.hmm_pfns);
	return err;
}

/*
 * Does a process have the address space? If not, what is faulted in counts to no cgroup, and the
 * OOM killer cannot free it. Jobs keep it for a while after its process has ended.
 */
static bool rox_odp_has_process(const struct mm_struct *mm)
{
#ifdef CONFIG_MEMCG
	return READ_ONCE(mm->owner);
#else
	return true;
#endif
}

/* Makes pages [@start, @end) present. The caller has done mmget(). */
static int rox_odp_fault_range(struct rox_odp *odp, unsigned long start, unsigned long end,
			       enum rox_odp_mode mode, bool some)
{
	struct rox_odp_chunk *chunk;
	unsigned long stop;
	int err = 0;

	for (; start < end && !err; start = stop) {
		if (!rox_odp_has_process(odp->mm))
			return -EFAULT;
		stop = min(end, ALIGN_DOWN(start, ROX_ODP_CHUNK_SIZE) + ROX_ODP_CHUNK_SIZE);
		chunk = rox_odp_chunk_get(odp, start);
		if (!IS_ERR(chunk)) {
			err = rox_odp_fault_chunk(chunk, start, stop, mode, some);
			rox_odp_chunk_put(chunk);
		} else if (mode != ROX_ODP_PRESENT || PTR_ERR(chunk) != -EFAULT) {
			err = PTR_ERR(chunk);
		}
		cond_resched();
	}
	return err;
}

static int rox_odp_fault_pages(struct rox_odp *odp, u64 va, u64 len, enum rox_odp_mode mode,
			       bool some)
{
	struct mem_cgroup *memcg, *charged;
	int err;

	if (!len)
		return 0;
	if (va >= TASK_SIZE_MAX || len > TASK_SIZE_MAX - va || !mmget_not_zero(odp->mm))
		return -EFAULT;
	/* Charge the memory that is allocated here to the process, not to the worker. */
	memcg = get_mem_cgroup_from_mm(odp->mm);
	charged = set_active_memcg(memcg);
	err = rox_odp_fault_range(odp, ALIGN_DOWN(va, PAGE_SIZE), ALIGN(va + len, PAGE_SIZE),
				  mode, some);
	set_active_memcg(charged);
	mem_cgroup_put(memcg);
	/* If this is the last reference, another worker frees the address space. */
	mmput_async(odp->mm);
	return err;
}

/*
 * Makes at least the first page of a range present; the others, too, unless the kernel takes them
 * away again meanwhile. Else as rox_odp_fault().
 */
int rox_odp_fault_some(struct rox_odp *odp, u64 va, u64 len, enum rox_odp_mode mode)
{
	int err = rox_odp_fault_pages(odp, va, len, mode, true);

	return err && len > 1 ? rox_odp_fault_pages(odp, va, 1, mode, true) : err;
}

/**
 * rox_odp_fault() - makes pages of a region present
 * @odp: the caller holds a reference; the region itself may have ended
 * @va: user address
 * @len: bytes, within the region
 * @mode: enum rox_odp_mode
 *
 * Call it in a job only. It waits for whatever the process itself would wait for, perhaps for
 * ever.
 * Return: 0; -EFAULT if a part of the range is not memory of the process, or if the process has
 * ended; -EPERM if the memory may not be written; -EBUSY if the kernel takes the pages away again
 * and again; -ENOMEM.
 */
int rox_odp_fault(struct rox_odp *odp, u64 va, u64 len, enum rox_odp_mode mode)
{
	return rox_odp_fault_pages(odp, va, len, mode, false);
}
