// SPDX-License-Identifier: GPL-2.0
/*
 * On-demand paging: memory regions whose pages are not pinned, so that the kernel may take pages
 * away and bring them back at any time.
 *
 * A region keeps the addresses of its pages in a sparse table of chunks (odp_table.c). A chunk is
 * allocated when it is first needed, and freed after it has been empty for a while. Each chunk has
 * an interval notifier, by which the kernel announces the pages that it takes away. Jobs
 * (odp_job.c) fault in missing pages (odp_fault.c).
 */
#include <linux/sched/mm.h>
#include "odp_table.h"

struct rox_odp_share *rox_odp_share(const struct rox_odp *odp)
{
	return odp->share;
}

static struct rox_odp *rox_odp_new(u64 start)
{
	struct rox_odp *odp = kzalloc(sizeof(*odp), ROX_GFP_USER);

	if (!odp)
		return NULL;
	odp->mm = current->mm;
	odp->share = rox_odp_share_get(odp->mm);
	if (!odp->share) {
		kfree(odp);
		return NULL;
	}
	mmgrab(odp->mm);
	refcount_set(&odp->ref, 1);
	odp->start = start;
	mutex_init(&odp->lock);
	xa_init_flags(&odp->chunks, XA_FLAGS_ACCOUNT);
	INIT_DELAYED_WORK(&odp->spare_work, rox_odp_spare_work);
	return odp;
}

/**
 * rox_odp_get() - takes a reference, for a job
 * @odp: the caller holds a reference on it or on the region
 *
 * Any context. Return: @odp.
 */
struct rox_odp *rox_odp_get(struct rox_odp *odp)
{
	refcount_inc(&odp->ref);
	return odp;
}

/**
 * rox_odp_put() - drops a reference
 * @odp: from rox_odp_get()
 *
 * Process context, may sleep.
 */
void rox_odp_put(struct rox_odp *odp)
{
	if (!refcount_dec_and_test(&odp->ref))
		return;
	/* All chunks are freed, so nobody can queue the work again. */
	cancel_delayed_work_sync(&odp->spare_work);
	xa_destroy(&odp->chunks);
	rox_odp_share_put(odp->share);
	mmdrop(odp->mm);
	kfree(odp);
}

/**
 * rox_reg_odp_mr() - registers memory of the calling process without pinning it
 * @mem: the device's regions
 * @ibpd: PD
 * @start: user address
 * @length: bytes; U64_MAX with @start 0 covers the whole address space
 * @iova: address of byte 0 in work requests
 * @access: enum ib_access_flags, checked by the caller
 *
 * The process need not have memory there yet. May sleep.
 * Return: the MR or ERR_PTR: -EINVAL, -ENOMEM.
 */
struct ib_mr *rox_reg_odp_mr(struct rox_mem *mem, struct ib_pd *ibpd, u64 start, u64 length,
			     u64 iova, int access)
{
	bool implicit = !start && length == U64_MAX;
	struct rox_odp *odp;
	struct rox_mr *mr;
	int err;

	if (implicit ? iova : start + length < start)
		return ERR_PTR(-EINVAL);
	mr = rox_mr_alloc(mem, ibpd, ROX_MR_ODP, access);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	odp = rox_odp_new(start);
	if (!odp) {
		rox_mr_free(mr);
		return ERR_PTR(-ENOMEM);
	}
	mr->odp = odp;
	mr->iova = iova;
	mr->length = length;
	mr->page_shift = PAGE_SHIFT;
	mr->ibmr.page_size = PAGE_SIZE;
	err = rox_mr_publish(mr);
	if (err) {
		rox_mr_free(mr);
		return ERR_PTR(err);
	}
	return &mr->ibmr;
}

/**
 * rox_odp_free() - frees the table of pages of a region
 * @odp: pages of a region that nobody uses, or NULL
 *
 * May sleep. Does not wait for jobs. A job that hangs keeps @odp and the chunk that it works on.
 */
void rox_odp_free(struct rox_odp *odp)
{
	struct rox_odp_chunk *chunk;
	unsigned long index;
	LIST_HEAD(gone);

	if (!odp)
		return;
	mutex_lock(&odp->lock);
	odp->dead = true;
	xa_for_each(&odp->chunks, index, chunk) {
		xa_erase(&odp->chunks, index);
		if (!--chunk->refs)
			list_add(&chunk->gone, &gone);
		cond_resched();
	}
	mutex_unlock(&odp->lock);
	rox_odp_chunks_free(&gone);
	rox_odp_put(odp);
}
