// SPDX-License-Identifier: GPL-2.0
/*
 * Work requests that change keys: they take their turn in the send queue, but
 * nothing goes over the wire for them. IBTA volume 1, 10.8.3.3 (ordering).
 */
#include "internal.h"

/* What was posted before may still use the key, or a fence asks to wait for it. */
static bool rox_local_may_run(const struct rox_qp *qp, const struct rox_swqe *wqe)
{
	const struct rox_send *send = &qp->send;

	if (rox_qp_state(qp) != IB_QPS_RTS || send->waiting_rnr)
		return false;
	if (wqe->opcode == IB_WR_LOCAL_INV || wqe->flags & IB_SEND_FENCE)
		return send->cur == send->tail;
	return true;
}

static int rox_local_execute(struct rox_qp *qp, const struct rox_swqe *wqe)
{
	if (wqe->opcode == IB_WR_REG_MR)
		return rox_mr_register(qp->dev, qp->ibqp.pd, wqe->rkey, wqe->compare_add);
	if (wqe->opcode == IB_WR_BIND_MW)
		return rox_mw_bind(qp, &wqe->bind);
	return rox_key_invalidate(qp, qp->ibqp.pd, wqe->inv_rkey);
}

bool rox_local_run(struct rox_qp *qp, struct rox_swqe *wqe)
{
	struct rox_send *send = &qp->send;
	int err;

	if (!wqe->done) {
		if (!rox_local_may_run(qp, wqe))
			return false;
		/* Our own place in an MR must not keep it busy. */
		rox_send_iter_end(qp);
		rox_kept_release_mrs(qp);
		err = rox_local_execute(qp, wqe);
		if (err == -EBUSY) {
			set_bit(ilog2(ROX_WORK_RUN), &send->side.pending);
			queue_work(rox_wq, &send->side.work);
			return false;
		}
		if (err) {
			wqe->status = IB_WC_MW_BIND_ERR;
			if (send->cur == send->tail)
				rox_retire_failed(qp);
			return false;
		}
		wqe->done = true;
	}
	if (send->cur == send->tail)
		rox_retire_tail(qp);
	else
		send->cur++;
	return true;
}
