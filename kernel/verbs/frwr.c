// SPDX-License-Identifier: GPL-2.0
/*
 * Fast registration for kernel users: a region whose pages, key and rights are
 * set by work requests (IBTA volume 1, 10.6.2.7 and 10.8.3.3).
 */
#include <linux/log2.h>
#include "internal.h"

/**
 * rox_alloc_mr() - a region for fast registration
 * @ibpd: PD of a kernel user
 * @type: IB_MR_TYPE_MEM_REG
 * @max_num_sg: pages at most
 *
 * Nobody can access anything by it before it is registered.
 * Return: the MR or ERR_PTR: -EOPNOTSUPP, -EINVAL, -ENOMEM.
 */
struct ib_mr *rox_alloc_mr(struct ib_pd *ibpd, enum ib_mr_type type, u32 max_num_sg)
{
	struct rox_mr *mr;
	int err = -ENOMEM;

	if (type != IB_MR_TYPE_MEM_REG)
		return ERR_PTR(-EOPNOTSUPP);
	if (!max_num_sg || max_num_sg > ROX_MAX_FRWR_PAGES)
		return ERR_PTR(-EINVAL);
	mr = rox_mr_alloc(ibpd, ROX_MR_FRWR, 0);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->max_blocks = max_num_sg;
	mr->blocks = kvmalloc_array(max_num_sg, sizeof(*mr->blocks), GFP_KERNEL);
	if (mr->blocks)
		err = rox_mr_publish(to_rox_dev(ibpd->device), mr);
	if (err) {
		rox_mr_free(mr);
		return ERR_PTR(err);
	}
	return &mr->ibmr;
}

static int rox_frwr_set_page(struct ib_mr *ibmr, u64 addr)
{
	struct rox_mr *mr = to_rox_mr(ibmr);

	if (mr->nblocks == mr->max_blocks)
		return -ENOMEM;
	mr->blocks[mr->nblocks++] = (unsigned long)ib_virt_dma_to_ptr(addr);
	return 0;
}

/**
 * rox_map_mr_sg() - notes the pages that the next registration is about
 * @ibmr: region of rox_alloc_mr(), not registered
 * @sg: pages
 * @sg_nents: their number
 * @sg_offset: offset in the first one; updated
 *
 * Return: entries of @sg that fit, or a negative error.
 */
int rox_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int sg_nents,
		  unsigned int *sg_offset)
{
	struct rox_mr *mr = to_rox_mr(ibmr);

	if (mr->type != ROX_MR_FRWR || READ_ONCE(mr->valid))
		return -EINVAL;
	mr->nblocks = 0;
	return ib_sg_to_pages(ibmr, sg, sg_nents, sg_offset, rox_frwr_set_page);
}

/* The caller holds the RCU lock. A key's owner may have changed its lower 8 bits. */
static struct rox_mr *rox_frwr_find(struct rox_dev *dev, struct ib_pd *pd, u32 key)
{
	u32 index = key >> 8;
	struct rox_mr *mr = rhashtable_lookup(&dev->mrs, &index, rox_mr_params);

	return mr && mr->type == ROX_MR_FRWR && mr->ibmr.pd == pd ? mr : NULL;
}

/**
 * rox_mr_register() - carries out IB_WR_REG_MR
 * @dev: device
 * @pd: PD of the QP
 * @key: the key that is to be good from now on
 * @access: enum ib_access_flags
 *
 * Any context; the send side's lock serialises what one QP does with its
 * regions, and their owner what several do.
 * Return: 0, -ENOENT for no such region of this PD, -EINVAL if it is
 * registered already, has no pages, or for rights that cannot be.
 */
int rox_mr_register(struct rox_dev *dev, struct ib_pd *pd, u32 key, int access)
{
	struct rox_mr *mr;
	int err = -EINVAL;

	access &= ~IB_ACCESS_OPTIONAL;
	rcu_read_lock();
	mr = rox_frwr_find(dev, pd, key);
	if (!mr) {
		err = -ENOENT;
	} else if (!mr->valid && mr->nblocks && !rox_check_access(access)) {
		mr->access = access;
		mr->iova = mr->ibmr.iova;
		mr->length = mr->ibmr.length;
		mr->page_shift = ilog2(mr->ibmr.page_size);
		mr->offset = mr->iova & (mr->ibmr.page_size - 1);
		WRITE_ONCE(mr->key, key);
		/* All of it before anybody uses it. */
		smp_store_release(&mr->valid, true);
		err = 0;
	}
	rcu_read_unlock();
	return err;
}

/**
 * rox_mr_invalidate() - carries out a local or remote invalidate
 * @dev: device
 * @pd: PD of the QP
 * @key: the key that is not to be good any more
 *
 * Any context. When it has returned 0 nobody accesses the memory by that key.
 * Return: 0, also if it was invalid before; -ENOENT if there is no such key of
 * this PD, or one that cannot be invalidated; -EBUSY if a burst of another QP
 * is using it at this moment: nobody else can any more, try again soon.
 */
int rox_mr_invalidate(struct rox_dev *dev, struct ib_pd *pd, u32 key)
{
	struct rox_mr *mr;
	int err = 0;

	rcu_read_lock();
	mr = rox_frwr_find(dev, pd, key);
	if (!mr || READ_ONCE(mr->key) != key) {
		err = -ENOENT;
	} else {
		WRITE_ONCE(mr->valid, false);
		/* The flag before the look at the references, see rox_mr_get(). */
		smp_mb();
		if (refcount_read(&mr->ref) > 1)
			err = -EBUSY;
	}
	rcu_read_unlock();
	return err;
}
