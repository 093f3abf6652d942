// SPDX-License-Identifier: GPL-2.0
/*
 * Re-registration: a new memory region takes the place of an old one under the
 * same keys (IBTA volume 1, 10.6.4 and 11.2.8.6).
 *
 * The table of keys leads to one or the other at every moment: an access that
 * both allow is never refused, and when the verb returns nobody uses the old one.
 */
#include "internal.h"

static bool rox_rereg_must_pin(const struct rox_mr *old, int flags, int access)
{
	if (flags & IB_MR_REREG_TRANS)
		return true;
	/* Pages that were pinned for reading only may be shared with others. */
	return old->umem && !old->umem->writable && ib_access_writable(access);
}

/* The same pages. Until rox_rereg_give() both regions refer to them. */
static void rox_rereg_share(struct rox_mr *mr, const struct rox_mr *old)
{
	mr->umem = old->umem;
	mr->blocks = old->blocks;
	mr->nblocks = old->nblocks;
	mr->page_shift = old->page_shift;
	mr->offset = old->offset;
	mr->ibmr.page_size = old->ibmr.page_size;
}

static void rox_rereg_give(struct rox_mr *from)
{
	from->umem = NULL;
	from->blocks = NULL;
}

/* Address of byte 0 for work requests, where the translation stays. */
static u64 rox_rereg_iova(const struct rox_mr *old, int access)
{
	if (access & IB_ZERO_BASED)
		return 0;
	if (old->access & IB_ZERO_BASED && old->umem)
		return old->umem->address;
	return old->iova;
}

/* What the pages of @mr are to be. */
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

/* Nobody finds the old region any more; waits until nobody uses it. */
static void rox_rereg_replace(struct rox_mr *mr, struct rox_mr *old)
{
	struct rox_dev *dev = to_rox_dev(mr->ibmr.device);

	mr->index = old->index;
	mr->key = old->key;
	mr->ibmr.lkey = old->key;
	mr->ibmr.rkey = old->key;
	mr->ibmr.iova = mr->iova;
	mr->ibmr.length = mr->length;
	WARN_ON(rhashtable_replace_fast(&dev->mrs, &old->node, &mr->node, rox_mr_params));
	rox_mr_put(old);
	wait_for_completion(&old->gone);
	old->replaced = true;
	if (old->umem == mr->umem)
		rox_rereg_give(old);
}

static struct rox_mr *rox_rereg_make(const struct rox_mr *old, int flags, u64 start, u64 length,
				     u64 iova, int access, struct ib_pd *pd)
{
	struct rox_mr *mr;
	int err;

	mr = rox_mr_alloc(pd, ROX_MR_USER, access);
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
 * rox_rereg_user_mr() - changes translation, rights and PD of a memory region
 * @ibmr: region of rox_reg_user_mr()
 * @flags: IB_MR_REREG_*: what to change
 * @start: user address
 * @length: bytes
 * @iova: address of byte 0 for work requests
 * @access: enum ib_access_flags
 * @pd: the PD from now on
 * @udata: not used
 *
 * If it fails the region is as it was.
 * Return: another object with the same keys, after which the RDMA core
 * deregisters @ibmr; or ERR_PTR: -EBUSY while memory windows are bound to it,
 * else as rox_reg_user_mr().
 */
struct ib_mr *rox_rereg_user_mr(struct ib_mr *ibmr, int flags, u64 start, u64 length, u64 iova,
				int access, struct ib_pd *pd, struct ib_udata *udata)
{
	struct rox_mr *old = to_rox_mr(ibmr), *mr;
	int err;

	if (old->type != ROX_MR_USER || (old->length && !old->umem))
		return ERR_PTR(-EOPNOTSUPP);
	access = flags & IB_MR_REREG_ACCESS ? access & ~IB_ACCESS_OPTIONAL : old->access;
	err = rox_check_access(access);
	if (err)
		return ERR_PTR(err);
	/* From here on none can be bound. */
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
