// SPDX-License-Identifier: GPL-2.0
/*
 * Re-registration: a new memory region replaces an old one under the same keys (IBTA volume 1,
 * 10.6.4 and 11.2.8.6).
 *
 * At every moment the key leads to one of the two regions. So an access that both allow is never
 * refused. When the verb returns, nobody uses the old region.
 */
#include "internal.h"

static bool rox_rereg_must_pin(const struct rox_mr *old, int flags, int access)
{
	if (flags & IB_MR_REREG_TRANS)
		return true;
	/* Pages that were pinned for reading may be shared with other processes (copy on write). */
	return old->umem && !old->umem->writable && ib_access_writable(access);
}

/* Makes @mr use the pages of @old. Both regions refer to them until rox_rereg_give(). */
static void rox_rereg_share(struct rox_mr *mr, const struct rox_mr *old)
{
	mr->umem = old->umem;
	mr->block = old->block;
	mr->blocks = old->blocks == &old->block ? &mr->block : old->blocks;
	mr->nblocks = old->nblocks;
	mr->page_shift = old->page_shift;
	mr->offset = old->offset;
	mr->ibmr.page_size = old->ibmr.page_size;
}

/* Ends the old region's use of shared pages, so that rox_mr_free() does not release them. */
static void rox_rereg_give(struct rox_mr *from)
{
	from->umem = NULL;
	from->blocks = NULL;
}

/* Address of byte 0 in work requests if the translation does not change. */
static u64 rox_rereg_iova(const struct rox_mr *old, int access)
{
	if (access & IB_ZERO_BASED)
		return 0;
	if (old->access & IB_ZERO_BASED && old->umem)
		return old->umem->address;
	return old->iova;
}

/* Gives @mr its pages: those of @old, or newly pinned ones. */
static int rox_rereg_pages(struct rox_mr *mr, const struct rox_mr *old, int flags, u64 start)
{
	if (mr->iova + mr->length < mr->iova)
		return -EINVAL;
	if (!rox_rereg_must_pin(old, flags, mr->access)) {
		rox_rereg_share(mr, old);
		return 0;
	}
	if (!(flags & IB_MR_REREG_TRANS)) {
		if (old->umem->owning_mm != current->mm)
			return -EPERM;
		start = old->umem->address;
	}
	return mr->length ? rox_mr_pin(mr, start) : 0;
}

/* Replaces @old by @mr in the table, and waits until nobody uses @old. */
static void rox_rereg_replace(struct rox_mr *mr, struct rox_mr *old)
{
	mr->index = old->index;
	mr->key = old->key;
	mr->ibmr.lkey = old->key;
	mr->ibmr.rkey = old->key;
	mr->ibmr.iova = mr->iova;
	mr->ibmr.length = mr->length;
	WARN_ON(rhashtable_replace_fast(&mr->mem->mrs, &old->node, &mr->node, rox_mr_params));
	rox_mr_leave(old);
	old->replaced = true;
	if (old->umem == mr->umem)
		rox_rereg_give(old);
}

static struct rox_mr *rox_rereg_make(const struct rox_mr *old, int flags, u64 start, u64 length,
				     u64 iova, int access, struct ib_pd *pd)
{
	struct rox_mr *mr;
	int err;

	mr = rox_mr_alloc(old->mem, pd, ROX_MR_USER, access);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	if (flags & IB_MR_REREG_TRANS) {
		mr->iova = access & IB_ZERO_BASED ? 0 : iova;
		mr->length = length;
	} else {
		mr->iova = rox_rereg_iova(old, access);
		mr->length = old->length;
	}
	err = rox_rereg_pages(mr, old, flags, start);
	if (err) {
		rox_mr_free(mr);
		return ERR_PTR(err);
	}
	return mr;
}

/**
 * rox_mem_reregister() - changes translation, rights and PD of a memory region
 * @ibmr: region of rox_mem_register()
 * @flags: IB_MR_REREG_*: what to change
 * @start: new user address
 * @length: new length in bytes
 * @iova: new address of byte 0 in work requests
 * @access: new enum ib_access_flags
 * @pd: the new PD, or the old one
 *
 * May sleep. If it fails, the region does not change.
 * Return: a new object with the same keys; the RDMA core then deregisters @ibmr. Or ERR_PTR:
 * -EOPNOTSUPP for a region on demand, of a dma-buf or of kernel users; -EBUSY while memory windows
 * are bound to it; -EPERM if the pages must be pinned again, but another process had pinned them;
 * else as rox_mem_register().
 */
struct ib_mr *rox_mem_reregister(struct ib_mr *ibmr, int flags, u64 start, u64 length, u64 iova,
				 int access, struct ib_pd *pd)
{
	struct rox_mr *old = to_rox_mr(ibmr), *mr;
	int err;

	if (old->type != ROX_MR_USER || (old->length && !old->umem))
		return ERR_PTR(-EOPNOTSUPP);
	access = flags & IB_MR_REREG_ACCESS ? access & ~IB_ACCESS_OPTIONAL : old->access;
	err = rox_check_access(access);
	if (err)
		return ERR_PTR(err);
	/* From here on no window can be bound to it. */
	if (atomic_cmpxchg(&old->windows, 0, -1))
		return ERR_PTR(-EBUSY);
	mr = rox_rereg_make(old, flags, start, length, iova, access, pd);
	if (IS_ERR(mr)) {
		atomic_set(&old->windows, 0);
		return ERR_CAST(mr);
	}
	rox_rereg_replace(mr, old);
	return &mr->ibmr;
}
