// SPDX-License-Identifier: GPL-2.0
/*
 * XRC: domains, and the numbers by which requests name the SRQ that they are
 * for. IBTA volume 1, annex A14.
 *
 * A domain is no more than its address: SRQs and QPs compare it, and the RDMA
 * core keeps it alive as long as there are any of it.
 */
#include <linux/random.h>
#include "internal.h"

#define ROX_SRQN_MIN 1U
#define ROX_SRQN_MAX ROX_QPN_MASK

/* An SRQ whose number is used again must not be taken for the one before. */
static atomic64_t rox_xsrq_ids;

int rox_alloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata)
{
	return 0;
}

int rox_dealloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata)
{
	return 0;
}

/**
 * rox_xsrq_table_init() - prepares the table of XRC SRQs of a device
 * @dev: device
 */
void rox_xsrq_table_init(struct rox_dev *dev)
{
	xa_init_flags(&dev->xsrqs, XA_FLAGS_ALLOC);
	dev->xsrq_next = ROX_SRQN_MIN + get_random_u32_below(ROX_SRQN_MAX);
}

/**
 * rox_xsrq_table_destroy() - the end of the table; no XRC SRQ is left
 * @dev: device
 */
void rox_xsrq_table_destroy(struct rox_dev *dev)
{
	WARN_ON(!xa_empty(&dev->xsrqs));
	xa_destroy(&dev->xsrqs);
}

/**
 * rox_xsrq_reserve() - gives an XRC SRQ its number, under which nobody finds it yet
 * @srq: SRQ
 *
 * Process context. Return: 0 or -ENOMEM. Undone by rox_xsrq_cancel().
 */
int rox_xsrq_reserve(struct rox_srq *srq)
{
	struct rox_dev *dev = to_rox_dev(srq->ibsrq.device);
	struct rox_xsrq *xsrq;
	u32 num;
	int err;

	xsrq = kzalloc(sizeof(*xsrq), ROX_GFP_USER);
	if (!xsrq)
		return -ENOMEM;
	err = xa_alloc_cyclic(&dev->xsrqs, &num, NULL, XA_LIMIT(ROX_SRQN_MIN, ROX_SRQN_MAX),
			      &dev->xsrq_next, GFP_KERNEL);
	if (err < 0) {
		kfree(xsrq);
		return -ENOMEM;
	}
	xsrq->srq = srq;
	xsrq->name.num = num;
	xsrq->name.id = atomic64_inc_return(&rox_xsrq_ids);
	refcount_set(&xsrq->ref, 1);
	init_completion(&srq->gone);
	srq->xsrq = xsrq;
	srq->ibsrq.ext.xrc.srq_num = num;
	return 0;
}

void rox_xsrq_cancel(struct rox_srq *srq)
{
	struct rox_dev *dev = to_rox_dev(srq->ibsrq.device);

	xa_erase(&dev->xsrqs, srq->xsrq->name.num);
	kfree_rcu(srq->xsrq, rcu);
}

/**
 * rox_xsrq_publish() - from here on requests find an XRC SRQ
 * @srq: SRQ, complete
 *
 * Return: 0 or -ENOMEM.
 */
int rox_xsrq_publish(struct rox_srq *srq)
{
	struct rox_dev *dev = to_rox_dev(srq->ibsrq.device);

	return xa_err(xa_store(&dev->xsrqs, srq->xsrq->name.num, srq->xsrq, GFP_KERNEL));
}

/**
 * rox_xsrq_unpublish() - no request finds an XRC SRQ any more, and none is using it
 * @srq: SRQ
 *
 * Sleeps, for a run of some QP at most: messages do not hold SRQs.
 */
void rox_xsrq_unpublish(struct rox_srq *srq)
{
	struct rox_dev *dev = to_rox_dev(srq->ibsrq.device);

	xa_erase(&dev->xsrqs, srq->xsrq->name.num);
	rox_xsrq_put(srq);
	wait_for_completion(&srq->gone);
	kfree_rcu(srq->xsrq, rcu);
}

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
 * rox_xsrq_put() - lets go of an XRC SRQ
 * @srq: from rox_xsrq_get()
 */
void rox_xsrq_put(struct rox_srq *srq)
{
	/* After the last reference is gone, destroy may free the SRQ at once. */
	if (refcount_dec_and_test(&srq->xsrq->ref))
		complete(&srq->gone);
}
