// SPDX-License-Identifier: GPL-2.0
/*
 * Address handles. A WQE names one by its index, so an index leads to the path,
 * not to the RDMA core's object, which the core frees as soon as destroy
 * returns: what is being sent through a destroyed AH keeps the path alive.
 */
#include <linux/if_vlan.h>
#include <linux/random.h>
#include <rdma/ib_cache.h>
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
 * rox_ah_table_destroy() - the end of the table
 * @dev: device without address handles
 */
void rox_ah_table_destroy(struct rox_dev *dev)
{
	WARN_ON(!xa_empty(&dev->ahs));
	xa_destroy(&dev->ahs);
}

/**
 * rox_ah_get() - looks up an address handle for a work request
 * @dev: device
 * @index: index that create_ah has returned
 * @pd: the QP's PD
 *
 * Any context. Return: the AH with a reference, or NULL if there is none or it
 * is of another PD.
 */
struct rox_ah *rox_ah_get(struct rox_dev *dev, u32 index, struct ib_pd *pd)
{
	struct rox_ah *ah;

	rcu_read_lock();
	ah = xa_load(&dev->ahs, index);
	if (ah && (ah->pd != pd || !refcount_inc_not_zero(&ah->ref)))
		ah = NULL;
	rcu_read_unlock();
	return ah;
}

/**
 * rox_ah_put() - lets go of an address handle
 * @ah: from rox_ah_get()
 */
void rox_ah_put(struct rox_ah *ah)
{
	if (!refcount_dec_and_test(&ah->ref))
		return;
	rox_path_destroy(&ah->path);
	kfree_rcu(ah, rcu);
}

static int rox_ah_publish(struct rox_dev *dev, struct rox_ah *ah, gfp_t gfp)
{
	unsigned long flags;
	int err;

	/* A context that may sleep fills the xarray's nodes beforehand, outside of the lock. */
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
	err = rox_path_init(&ah->path, to_rox_dev(ibah->device), attr, 0, 0, gfp);
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
	/* The RDMA core holds the GID entry; what query returns names its index only. */
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

	if (udata && udata->outlen < sizeof(resp))
		return -EINVAL;
	err = rox_count_object(&dev->num_ah, ROX_MAX_AH);
	if (err)
		return err;
	err = rox_ah_make(iah, init->ah_attr, gfp);
	if (err)
		goto err_count;
	if (!udata)
		return 0;
	resp.ah = iah->ah->index;
	err = ib_copy_to_udata(udata, &resp, sizeof(resp));
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
	/* The place is taken, so that storing needs no memory. */
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

/**
 * rox_gid_vlan() - the VLAN that one of our own addresses is on
 * @dev: device
 * @addr: destination of a packet that came (IPv4 as a mapped address)
 *
 * The CM looks up who was meant by GID and VLAN. The netdev that a packet came
 * through does not tell: it is lo if the packet is from this host.
 * Any context. Return: VLAN ID, or 0 if there is none.
 */
u16 rox_gid_vlan(struct rox_dev *dev, const struct in6_addr *addr)
{
	const struct ib_gid_attr *attr;
	union ib_gid gid;
	u16 vlan;
	int err;

	memcpy(gid.raw, addr, sizeof(gid.raw));
	attr = rdma_find_gid_by_port(&dev->ibdev, &gid, IB_GID_TYPE_ROCE_UDP_ENCAP, 1, NULL);
	if (IS_ERR(attr))
		return 0;
	err = rdma_read_gid_l2_fields(attr, &vlan, NULL);
	rdma_put_gid_attr(attr);
	return err || vlan >= VLAN_N_VID ? 0 : vlan;
}
