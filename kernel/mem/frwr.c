// SPDX-License-Identifier: GPL-2.0
/*
 * Fast registration for kernel users: work requests set the pages, key and rights of a region
 * (IBTA volume 1, 10.6.2.7 and 10.8.3.3).
 *
 * A region has two page lists: the registered one and the one that ib_map_mr_sg() fills. Users
 * call ib_map_mr_sg() while the region is still registered, and then post the local invalidate
 * and the registration in one chain. The registration exchanges the lists when it is carried out.
 * If ib_map_mr_sg() was called twice before that, the second list counts.
 */
#include <linux/minmax.h>
#include <linux/log2.h>
#include "internal.h"

/**
 * rox_mem_alloc_fast() - allocates a region for fast registration
 * @mem: the device's regions
 * @ibpd: PD of a kernel user
 * @type: IB_MR_TYPE_MEM_REG
 * @max_num_sg: maximum number of pages
 *
 * Its key gives no access before a registration. May sleep.
 * Return: the MR or ERR_PTR: -EOPNOTSUPP, -EINVAL, -ENOMEM.
 */
struct ib_mr *rox_mem_alloc_fast(struct rox_mem *mem, struct ib_pd *ibpd, enum ib_mr_type type,
				 u32 max_num_sg)
{
	struct rox_mr *mr;
	int err = -ENOMEM;

	if (type != IB_MR_TYPE_MEM_REG)
		return ERR_PTR(-EOPNOTSUPP);
	if (!max_num_sg || max_num_sg > ROX_MAX_FRWR_PAGES)
		return ERR_PTR(-EINVAL);
	mr = rox_mr_alloc(mem, ibpd, ROX_MR_FRWR, 0);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->max_blocks = max_num_sg;
	mr->blocks = kvcalloc(max_num_sg, sizeof(*mr->blocks), GFP_KERNEL);
	mr->frwr.blocks = kvcalloc(max_num_sg, sizeof(*mr->blocks), GFP_KERNEL);
	if (mr->blocks && mr->frwr.blocks)
		err = rox_mr_publish(mr);
	if (err) {
		rox_mr_free(mr);
		return ERR_PTR(err);
	}
	return &mr->ibmr;
}

static int rox_frwr_set_page(struct ib_mr *ibmr, u64 addr)
{
	struct rox_mr *mr = to_rox_mr(ibmr);
	struct rox_frwr *frwr = &mr->frwr;

	if (frwr->nblocks == mr->max_blocks)
		return -ENOMEM;
	frwr->blocks[frwr->nblocks++] = (unsigned long)ib_virt_dma_to_ptr(addr);
	return 0;
}

/**
 * rox_map_mr_sg() - sets the page list for the next registration
 * @ibmr: region of rox_mem_alloc_fast(), registered or not
 * @sg: pages
 * @sg_nents: number of entries in @sg
 * @sg_offset: offset in the first entry; updated
 *
 * The current registration does not change.
 * Any context but hard interrupts.
 * Return: number of entries that fit, or a negative error; after an error the list is empty.
 */
int rox_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int sg_nents,
		  unsigned int *sg_offset)
{
	struct rox_mr *mr = to_rox_mr(ibmr);
	struct rox_frwr *frwr = &mr->frwr;
	unsigned long flags;
	int n;

	if (mr->type != ROX_MR_FRWR)
		return -EINVAL;
	spin_lock_irqsave(&frwr->lock, flags);
	frwr->nblocks = 0;
	n = ib_sg_to_pages(ibmr, sg, sg_nents, sg_offset, rox_frwr_set_page);
	if (n < 0)
		frwr->nblocks = 0;
	frwr->noted = true;
	spin_unlock_irqrestore(&frwr->lock, flags);
	return n;
}

/*
 * The caller holds the RCU lock. Ignores the lower 8 bits of @key, which the owner of the region
 * may change.
 */
static struct rox_mr *rox_frwr_find(struct rox_mem *mem, struct ib_pd *pd, u32 key)
{
	u32 index = key >> 8;
	struct rox_mr *mr = rhashtable_lookup(&mem->mrs, &index, rox_mr_params);

	return mr && mr->type == ROX_MR_FRWR && mr->ibmr.pd == pd ? mr : NULL;
}

/*
 * Registers the noted page list, or the previous one if no list was noted. The caller holds the
 * lock, and nobody accesses the region.
 */
static void rox_frwr_take(struct rox_mr *mr, u32 key, int access)
{
	struct rox_frwr *frwr = &mr->frwr;

	if (frwr->noted) {
		swap(mr->blocks, frwr->blocks);
		mr->nblocks = frwr->nblocks;
		mr->length = mr->ibmr.length;
		mr->page_shift = ilog2(mr->ibmr.page_size);
		frwr->noted = false;
	}
	/* Users may change ib_mr.iova after ib_map_mr_sg(). */
	mr->iova = mr->ibmr.iova;
	mr->offset = mr->iova & ((1ULL << mr->page_shift) - 1);
	mr->access = access;
	WRITE_ONCE(mr->key, key);
	/* Pairs with the acquire in rox_mr_get(): set all fields before the flag. */
	smp_store_release(&mr->valid, true);
}

/* The caller holds the lock. Return: as rox_mr_register(). */
static int rox_frwr_register(struct rox_mr *mr, u32 key, int access)
{
	u32 nblocks = mr->frwr.noted ? mr->frwr.nblocks : mr->nblocks;

	/* READ_ONCE(): rox_mr_invalidate() changes the flag without the lock. */
	if (READ_ONCE(mr->valid) || !nblocks || rox_check_access(access))
		return -EINVAL;
	/* Pairs with rox_mr_get(): check the flag before the references. */
	smp_mb();
	if (refcount_read(&mr->ref) > 1)
		return -EBUSY;
	rox_frwr_take(mr, key, access);
	return 0;
}

/**
 * rox_mr_register() - carries out IB_WR_REG_MR
 * @mem: the device's regions
 * @pd: PD of the QP
 * @key: the new key
 * @access: enum ib_access_flags
 *
 * Any context. The send side of a QP carries out one work request at a time. Users must not
 * register a region through several QPs at the same time.
 * Return: 0; -ENOENT if the PD has no such region; -EINVAL if the region is registered already or
 * has no pages, or for invalid rights; -EBUSY while a burst still uses the previous registration:
 * try again soon.
 */
int rox_mr_register(struct rox_mem *mem, struct ib_pd *pd, u32 key, int access)
{
	struct rox_mr *mr;
	unsigned long flags;
	int err = -ENOENT;

	access &= ~IB_ACCESS_OPTIONAL;
	rcu_read_lock();
	mr = rox_frwr_find(mem, pd, key);
	if (mr) {
		spin_lock_irqsave(&mr->frwr.lock, flags);
		err = rox_frwr_register(mr, key, access);
		spin_unlock_irqrestore(&mr->frwr.lock, flags);
	}
	rcu_read_unlock();
	return err;
}

/**
 * rox_mr_invalidate() - carries out a local or remote invalidate
 * @mem: the device's regions
 * @pd: PD of the QP
 * @key: the key to invalidate
 *
 * Any context. After it has returned 0, nobody accesses the memory by this key.
 * Return: 0, also if the key was invalid already; -ENOENT if the PD has no such key or the key
 * cannot be invalidated; -EBUSY while a burst of another QP uses it: new accesses fail already,
 * try again soon.
 */
int rox_mr_invalidate(struct rox_mem *mem, struct ib_pd *pd, u32 key)
{
	struct rox_mr *mr;
	int err = 0;

	rcu_read_lock();
	mr = rox_frwr_find(mem, pd, key);
	if (!mr || READ_ONCE(mr->key) != key) {
		err = -ENOENT;
	} else {
		WRITE_ONCE(mr->valid, false);
		/* Pairs with rox_mr_get(): clear the flag before the check of the references. */
		smp_mb();
		if (refcount_read(&mr->ref) > 1)
			err = -EBUSY;
	}
	rcu_read_unlock();
	return err;
}
