// SPDX-License-Identifier: GPL-2.0
/*
 * Pages on demand that a side of a QP needs and that are not there: they are
 * faulted in on a work queue, and then the side goes on where it stopped.
 *
 * The peer sees a delay and nothing else. An RNR NAK would cost it one of its
 * retries and, at least, its timer; pages are mostly there in microseconds.
 */
#include "internal.h"
#include "../verbs/odp.h"

static enum rox_odp_mode rox_fault_mode(const struct rox_fault *fault)
{
	return fault->access & (IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE |
				IB_ACCESS_REMOTE_ATOMIC) ? ROX_ODP_WRITE : ROX_ODP_READ;
}

/* All that is worth it, or at least the page that somebody waits for. */
static int rox_fault_handle(const struct rox_fault *fault)
{
	const struct rox_qp *qp = fault->side->qp;
	struct rox_mr *mr = rox_mr_get(qp->dev, fault->pd, fault->key, fault->addr, fault->len,
				       fault->access, qp->user);
	int err = 0;

	/* Whoever looks it up next will be told. */
	if (IS_ERR(mr))
		return 0;
	if (mr->type == ROX_MR_ODP) {
		err = rox_odp_fault(mr, fault->addr, fault->len, rox_fault_mode(fault));
		if (err && fault->len > 1)
			err = rox_odp_fault(mr, fault->addr, 1, rox_fault_mode(fault));
	}
	rox_mr_put(mr);
	/* Taken away again and again: the next try may have more luck. */
	return err == -EBUSY ? 0 : err;
}

static void rox_fault_work(struct work_struct *work)
{
	struct rox_fault *fault = container_of(work, struct rox_fault, work);
	struct rox_side *side = fault->side;

	fault->err = rox_fault_handle(fault);
	/* All of it is the side's again. */
	smp_store_release(&fault->busy, false);
	local_bh_disable();
	rox_side_kick(side, ROX_WORK_RUN);
	local_bh_enable();
}

void rox_fault_init(struct rox_side *side)
{
	side->fault.side = side;
	INIT_WORK(&side->fault.work, rox_fault_work);
}

int rox_fault_in(struct rox_side *side, u32 key, u64 addr, u32 len, int access)
{
	struct rox_fault *fault = &side->fault;
	int err;

	/* Perhaps for something that is over; the side will be run, and ask again. */
	if (rox_fault_busy(side))
		return -EAGAIN;
	err = fault->err;
	fault->err = 0;
	if (err && !fault->stale && fault->key == key && fault->addr == addr &&
	    fault->access == access)
		return err;
	/* Only compared: it may be gone when the work runs. */
	fault->pd = side == &side->qp->send.side ? side->qp->ibqp.pd : side->qp->recv.pd;
	fault->key = key;
	fault->addr = addr;
	fault->len = min(len, ROX_FAULT_BYTES);
	fault->access = access;
	fault->stale = false;
	fault->busy = true;
	queue_work(rox_odp_wq, &fault->work);
	return -EAGAIN;
}

int rox_fault_at(struct rox_side *side, const struct rox_iter *it)
{
	const struct rox_sge *sge = &it->sge[it->cur];

	return rox_fault_in(side, sge->lkey, sge->addr + it->off, sge->length - it->off,
			    it->access);
}

int rox_fault_ready(struct rox_side *side, const struct rox_iter *it, u32 len)
{
	struct rox_iter at = *it;
	ssize_t n = 0;
	void *p;

	/* The reference is not ours. */
	at.mr = NULL;
	while (len) {
		n = rox_iter_next(&at, len, &p);
		if (n <= 0)
			break;
		len -= n;
	}
	if (n == -EAGAIN)
		n = rox_fault_at(side, &at);
	else if (!n && len)
		n = -EMSGSIZE;
	rox_iter_end(&at);
	return n < 0 ? n : 0;
}
