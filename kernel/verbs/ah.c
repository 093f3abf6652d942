// SPDX-License-Identifier: GPL-2.0
/*
 * Address handles. A WQE names one by an index, which leads to a struct rox_ah with the path. The
 * core frees its own object as soon as destroy returns. Messages that are being sent through a
 * destroyed AH have references on the struct rox_ah.
 */
#include <linux/random.h>
#include "internal.h"

/**
 * rox_ah_table_init() - prepares the table of address handles of a device
 * @dev: device
 */
void rox_ah_table_init(struct rox_dev *dev)
{
	xa_init_flags(&dev->ahs, XA_FLAGS_ALLOC1 | XA_FLAGS_LOCK_IRQ);
	dev->ah_next = get_random_u32();
}

/**
 * rox_ah_table_destroy() - frees the table of address handles
 * @dev: device without address handles
 */
void rox_ah_table_destroy(struct rox_dev *dev)
{
	WARN_ON(!xa_empty(&dev->ahs));
	xa_destroy(&dev->ahs);
}

static int rox_ah_publish(struct rox_dev *dev, struct rox_ah *ah, gfp_t gfp)
{
	unsigned long flags;
	int err;

	/* To allocate, xa_alloc_cyclic_irq() drops the lock and enables interrupts. */
	if (gfpflags_allow_blocking(gfp)) {
		err = xa_alloc_cyclic_irq(&dev->ahs, &ah->index, ah, xa_limit_32b,
					  &dev->ah_next, gfp);
	} else {
		xa_lock_irqsave(&dev->ahs, flags);
		err = __xa_alloc_cyclic(&dev->ahs, &ah->index, ah, xa_limit_32b,
					&dev->ah_next, gfp);
		xa_unlock_irqrestore(&dev->ahs, flags);
	}
	return err < 0 ? err : 0;
}

static struct rox_ah *rox_ah_resolve(struct ib_ah *ibah, const struct rdma_ah_attr *attr,
				     gfp_t gfp)
{
	struct rox_ah *ah;
	int err;

	if (!(rdma_ah_get_ah_flags(attr) & IB_AH_GRH) || !rox_dgid_ok(attr, true) ||
	    rdma_ah_get_sl(attr) > ROX_MAX_SL)
		return ERR_PTR(-EINVAL);
	ah = kzalloc(sizeof(*ah), gfp);
	if (!ah)
		return ERR_PTR(-ENOMEM);
	ah->pd = ibah->pd;
	refcount_set(&ah->ref, 1);
	err = rox_path_init(&ah->path, &to_rox_dev(ibah->device)->net, attr, 0, 0, gfp);
	if (err) {
		kfree(ah);
		return ERR_PTR(err);
	}
	return ah;
}

static void rox_ah_remember(struct rox_ib_ah *iah, struct rox_ah *ah,
			    const struct rdma_ah_attr *attr)
{
	iah->ah = ah;
	iah->attr = *attr;
	/* Our copy has no reference on the GID entry. query_ah returns the index only. */
	iah->attr.grh.sgid_attr = NULL;
}

static int rox_ah_make(struct rox_ib_ah *iah, const struct rdma_ah_attr *attr, gfp_t gfp)
{
	struct rox_ah *ah = rox_ah_resolve(&iah->ibah, attr, gfp);
	int err;

	if (IS_ERR(ah))
		return PTR_ERR(ah);
	err = rox_ah_publish(to_rox_dev(iah->ibah.device), ah, gfp);
	if (err) {
		rox_ah_put(ah);
		return err;
	}
	rox_ah_remember(iah, ah, attr);
	return 0;
}

int rox_create_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *init, struct ib_udata *udata)
{
	gfp_t gfp = init->flags & RDMA_CREATE_AH_SLEEPABLE ? ROX_GFP_USER : GFP_ATOMIC;
	struct rox_dev *dev = to_rox_dev(ibah->device);
	struct rox_ib_ah *iah = to_rox_ib_ah(ibah);
	struct rox_create_ah_resp resp = {};
	int err;

	err = rox_udata_none(udata) ?:
	      rox_udata_has_room(udata, offsetofend(struct rox_create_ah_resp, ah));
	if (err)
		return err;
	err = rox_count_object(&dev->num_ah, ROX_MAX_AH);
	if (err)
		return err;
	err = rox_ah_make(iah, init->ah_attr, gfp);
	if (err)
		goto err_count;
	if (!udata)
		return 0;
	resp.ah = iah->ah->index;
	err = rox_udata_put(udata, &resp, sizeof(resp));
	if (!err)
		return 0;
	rox_destroy_ah(ibah, RDMA_DESTROY_AH_SLEEPABLE);
	return err;

err_count:
	atomic_dec(&dev->num_ah);
	return err;
}

int rox_modify_ah(struct ib_ah *ibah, struct rdma_ah_attr *attr)
{
	struct rox_dev *dev = to_rox_dev(ibah->device);
	struct rox_ib_ah *iah = to_rox_ib_ah(ibah);
	struct rox_ah *old = iah->ah;
	struct rox_ah *ah = rox_ah_resolve(ibah, attr, GFP_ATOMIC);
	unsigned long flags;

	if (IS_ERR(ah))
		return PTR_ERR(ah);
	ah->index = old->index;
	/* The index has an entry already, so storing needs no memory. */
	xa_lock_irqsave(&dev->ahs, flags);
	__xa_store(&dev->ahs, ah->index, ah, 0);
	xa_unlock_irqrestore(&dev->ahs, flags);
	rox_ah_remember(iah, ah, attr);
	rox_ah_put(old);
	return 0;
}

int rox_query_ah(struct ib_ah *ibah, struct rdma_ah_attr *attr)
{
	*attr = to_rox_ib_ah(ibah)->attr;
	return 0;
}

int rox_destroy_ah(struct ib_ah *ibah, u32 flags)
{
	struct rox_dev *dev = to_rox_dev(ibah->device);
	struct rox_ah *ah = to_rox_ib_ah(ibah)->ah;
	unsigned long irq;

	xa_lock_irqsave(&dev->ahs, irq);
	__xa_erase(&dev->ahs, ah->index);
	xa_unlock_irqrestore(&dev->ahs, irq);
	rox_ah_put(ah);
	atomic_dec(&dev->num_ah);
	return 0;
}
