// SPDX-License-Identifier: GPL-2.0
/* Tables: QPs, address handles and XRC SRQs by number, multicast groups by address, P_Keys. */
#include <linux/random.h>
#include <net/ipv6.h>
#include "internal.h"

/* 0 and 1 are the QPs for management; 0xffffff is the multicast QPN. */
#define ROX_QPN_MIN (ROX_QPN_GSI + 1)
#define ROX_QPN_MAX (ROX_QPN_MULTICAST - 1)
#define ROX_QPN_COUNT (ROX_QPN_MAX - ROX_QPN_MIN + 1)

/*
 * struct rox_qp_slot of the QPs of all devices by index. One table for the module makes numbers
 * unique on the host. Written in process context only.
 *
 * Numbers begin at a random one, so that a module that is loaded again uses others. Indices
 * begin at 0, so that the array is flat and found fast: rox_qpn_first is the number of index 0.
 */
static DEFINE_XARRAY_ALLOC(rox_qps);
static u32 rox_qpn_first;
static u32 rox_next_index;

/* ---- QPs ---- */

static u32 rox_qpn_of(u32 index)
{
	return ROX_QPN_MIN + (rox_qpn_first - ROX_QPN_MIN + index) % ROX_QPN_COUNT;
}

static u32 rox_qpn_index(u32 qpn)
{
	return qpn >= rox_qpn_first ? qpn - rox_qpn_first : qpn + ROX_QPN_COUNT - rox_qpn_first;
}

/* Any number may be asked for. The caller is in an RCU read-side section. */
static struct rox_qp_slot *rox_qp_at(u32 qpn)
{
	if (unlikely(qpn - ROX_QPN_MIN >= ROX_QPN_COUNT))
		return NULL;
	return xa_load(&rox_qps, rox_qpn_index(qpn));
}

/**
 * rox_qp_table_init() - prepares the table of QPs; at module load
 *
 * Return: 0.
 */
int rox_qp_table_init(void)
{
	rox_qpn_first = ROX_QPN_MIN + get_random_u32_below(ROX_QPN_COUNT);
	return 0;
}

/**
 * rox_qp_table_exit() - destroys the table, in which no QP is left
 */
void rox_qp_table_exit(void)
{
	WARN_ON(!xa_empty(&rox_qps));
	xa_destroy(&rox_qps);
}

/* The caller is in an RCU read-side section. */
static struct rox_qp_slot *rox_qp_find(struct rox_dev *dev, u32 qpn)
{
	struct rox_qp_slot *slot;

	if (qpn == ROX_QPN_GSI)
		return dev ? rcu_dereference(dev->gsi_qp) : NULL;
	slot = rox_qp_at(qpn);
	return slot && (!dev || slot->dev == dev) ? slot : NULL;
}

struct rox_qp *rox_qp_get(struct rox_dev *dev, u32 qpn)
{
	struct rox_qp_slot *slot;
	struct rox_qp *qp = NULL;

	rcu_read_lock();
	slot = rox_qp_find(dev, qpn);
	if (slot && refcount_inc_not_zero(&slot->ref))
		qp = slot->qp;
	rcu_read_unlock();
	return qp;
}

struct rox_qp *rox_qp_get_own(u32 qpn, u64 owner)
{
	struct rox_qp_slot *slot;
	struct rox_qp *qp = NULL;

	rcu_read_lock();
	slot = rox_qp_at(qpn);
	if (slot && slot->owner == owner && refcount_inc_not_zero(&slot->ref))
		qp = slot->qp;
	rcu_read_unlock();
	return qp;
}

/**
 * rox_qp_put() - puts a reference to a QP
 * @qp: from rox_qp_get()
 */
void rox_qp_put(struct rox_qp *qp)
{
	/* After the last reference is put, destroy_qp may free the QP at once. */
	if (refcount_dec_and_test(&qp->slot->ref))
		complete(&qp->gone);
}

struct ib_qp *rox_qp_peek(struct rox_dev *dev, u32 qpn)
{
	struct rox_qp_slot *slot;
	struct ib_qp *ibqp;

	rcu_read_lock();
	slot = rox_qp_find(dev, qpn);
	ibqp = slot ? &slot->qp->ibqp : NULL;
	rcu_read_unlock();
	return ibqp;
}

int rox_qp_reserve(struct rox_qp *qp, u64 owner)
{
	struct rox_qp_slot *slot;
	u32 qpn = ROX_QPN_GSI, index = 0;
	int err = 0;

	slot = kzalloc(sizeof(*slot), ROX_GFP_USER);
	if (!slot)
		return -ENOMEM;
	slot->qp = qp;
	slot->dev = qp->dev;
	slot->owner = owner;
	refcount_set(&slot->ref, 1);
	/* Reserves the number only: rox_qp_get() must not find the QP before it is complete. */
	if (qp->ibqp.qp_type != IB_QPT_GSI) {
		err = xa_alloc_cyclic(&rox_qps, &index, NULL, XA_LIMIT(0, ROX_QPN_COUNT - 1),
				      &rox_next_index, GFP_KERNEL);
		qpn = rox_qpn_of(index);
	}
	if (err < 0) {
		kfree(slot);
		return err;
	}
	qp->slot = slot;
	qp->ibqp.qp_num = qpn;
	qp->ep.qpn = qpn;
	init_completion(&qp->gone);
	rox_leases_init(&qp->leases);
	return 0;
}

void rox_qp_cancel(struct rox_qp *qp)
{
	if (qp->ibqp.qp_type != IB_QPT_GSI)
		xa_erase(&rox_qps, rox_qpn_index(qp->ibqp.qp_num));
	kfree_rcu(qp->slot, rcu);
}

int rox_qp_publish(struct rox_qp *qp)
{
	if (qp->ibqp.qp_type != IB_QPT_GSI)
		return xa_err(xa_store(&rox_qps, rox_qpn_index(qp->ibqp.qp_num), qp->slot,
				       GFP_KERNEL));
	/* cmpxchg() implies the barrier of rcu_assign_pointer(). */
	if (unrcu_pointer(cmpxchg(&qp->dev->gsi_qp, NULL, RCU_INITIALIZER(qp->slot))))
		return -EBUSY;
	return 0;
}

void rox_qp_unpublish(struct rox_qp *qp)
{
	if (qp->ibqp.qp_type == IB_QPT_GSI)
		RCU_INIT_POINTER(qp->dev->gsi_qp, NULL);
	else
		xa_erase(&rox_qps, rox_qpn_index(qp->ibqp.qp_num));
	rox_qp_put(qp);
	rox_leases_recall(&qp->leases);
	wait_for_completion(&qp->gone);
}

/* ---- address handles ---- */

/**
 * rox_ah_get() - looks up an address handle for a work request
 * @dev: device
 * @index: index of the AH in WQEs
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
 * rox_ah_put() - puts a reference to an address handle
 * @ah: from rox_ah_get()
 */
void rox_ah_put(struct rox_ah *ah)
{
	if (!refcount_dec_and_test(&ah->ref))
		return;
	rox_path_destroy(&ah->path);
	kfree_rcu(ah, rcu);
}

/* ---- XRC SRQs ---- */

struct rox_srq *rox_xsrq_get(struct rox_dev *dev, u32 num, const struct ib_xrcd *xrcd)
{
	struct rox_srq *srq = NULL;
	struct rox_xsrq *xsrq;

	rcu_read_lock();
	xsrq = xa_load(&dev->xsrqs, num);
	if (xsrq && refcount_inc_not_zero(&xsrq->ref))
		srq = xsrq->srq;
	rcu_read_unlock();
	if (!srq || srq->ibsrq.ext.xrc.xrcd == xrcd)
		return srq;
	rox_xsrq_put(srq);
	return NULL;
}

/**
 * rox_xsrq_put() - puts a reference to an XRC SRQ
 * @srq: from rox_xsrq_get()
 */
void rox_xsrq_put(struct rox_srq *srq)
{
	/* After the last reference is put, destroy_srq may free the SRQ at once. */
	if (refcount_dec_and_test(&srq->xsrq->ref))
		complete(&srq->gone);
}

/* ---- multicast groups ---- */

struct rox_mcg *rox_mcg_find(const struct rox_dev *dev, const struct in6_addr *addr,
			     const struct rox_netns *ns)
{
	struct rox_mcg *mcg;

	hash_for_each_possible_rcu(dev->mcgs, mcg, node, ipv6_addr_hash(addr),
				   lockdep_is_held(&dev->mcast_lock))
		if (ipv6_addr_equal(&mcg->net.addr, addr) &&
		    rox_net_group_in(&dev->net, &mcg->net, ns))
			return mcg;
	return NULL;
}

struct rox_qp *rox_mcg_member_get(const struct rox_mcg_member *member)
{
	return refcount_inc_not_zero(&member->slot->ref) ? member->slot->qp : NULL;
}

/* ---- P_Keys ---- */

/**
 * rox_pkey_find() - finds the entry of the P_Key table that matches a packet for QP 1
 * @dev: device
 * @pkey: P_Key of the packet
 *
 * An entry for a full member is preferred. Any context.
 * Return: index or -ENOENT.
 */
int rox_pkey_find(const struct rox_dev *dev, u16 pkey)
{
	int limited = -ENOENT;
	u32 i;

	for (i = 0; i < dev->num_pkeys; i++) {
		u16 own = rox_pkey_at(dev, i);

		if (!rox_pkey_match(own, pkey))
			continue;
		if (own & ROX_PKEY_FULL)
			return i;
		if (limited < 0)
			limited = i;
	}
	return limited;
}
