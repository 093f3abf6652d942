// SPDX-License-Identifier: GPL-2.0
/*
 * XRC: domains, and the numbers by which requests name an SRQ. IBTA volume 1,
 * annex A14.
 *
 * Domains have no data: SRQs and QPs compare pointers to them. The RDMA core
 * does not free a domain that has SRQs or QPs.
 */
#include <linux/random.h>
#include "internal.h"

#define ROX_SRQN_MIN 1U
#define ROX_SRQN_MAX ROX_QPN_MASK

/* Source of unique IDs. They distinguish SRQs that have the same number one after another. */
static atomic64_t rox_xsrq_ids;

int rox_alloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata)
{
	return rox_udata_none(udata);
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
 * rox_xsrq_table_destroy() - frees the table of XRC SRQs
 * @dev: device without XRC SRQs
 */
void rox_xsrq_table_destroy(struct rox_dev *dev)
{
	WARN_ON(!xa_empty(&dev->xsrqs));
	xa_destroy(&dev->xsrqs);
}

/**
 * rox_xsrq_reserve() - reserves a number for an XRC SRQ
 * @srq: SRQ
 *
 * Requests do not find the SRQ before rox_xsrq_publish(). rox_xsrq_cancel() undoes this.
 * Process context. Return: 0 or -ENOMEM.
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
 * rox_xsrq_publish() - makes an XRC SRQ visible to requests
 * @srq: SRQ, complete
 *
 * Process context. Return: 0 or -ENOMEM.
 */
int rox_xsrq_publish(struct rox_srq *srq)
{
	struct rox_dev *dev = to_rox_dev(srq->ibsrq.device);

	return xa_err(xa_store(&dev->xsrqs, srq->xsrq->name.num, srq->xsrq, GFP_KERNEL));
}

/**
 * rox_xsrq_unpublish() - hides an XRC SRQ from requests, and waits for those that use it
 * @srq: SRQ
 *
 * The wait takes one run of a QP at most: messages have no references on SRQs.
 * Process context; sleeps.
 */
void rox_xsrq_unpublish(struct rox_srq *srq)
{
	struct rox_dev *dev = to_rox_dev(srq->ibsrq.device);

	xa_erase(&dev->xsrqs, srq->xsrq->name.num);
	rox_xsrq_put(srq);
	wait_for_completion(&srq->gone);
	kfree_rcu(srq->xsrq, rcu);
}
