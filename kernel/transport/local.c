// SPDX-License-Identifier: GPL-2.0
/*
 * Local operations: work requests that change keys. They are executed in the order of the send
 * queue, but send nothing. IBTA volume 1, 10.8.3.3 (ordering).
 */
#include "internal.h"

/* Earlier WQEs may still use the key, and a fence asks to wait for them. */
static bool rox_local_may_run(const struct rox_qp *qp, const struct rox_swqe *wqe)
{
	const struct rox_send *send = &qp->send;

	if (rox_qp_state(qp) != IB_QPS_RTS || rox_send_pauses(qp))
		return false;
	if (wqe->opcode == IB_WR_LOCAL_INV || wqe->flags & IB_SEND_FENCE)
		return send->cur == send->tail;
	return true;
}

static int rox_local_execute(struct rox_qp *qp, const struct rox_swqe *wqe)
{
	struct rox_mem_user who = rox_own_memory(qp, qp->ibqp.pd);

	if (wqe->opcode == IB_WR_REG_MR)
		return rox_mr_register(who.mem, who.pd, wqe->rkey, wqe->compare_add);
	who.qpn = qp->ibqp.qp_num;
	if (wqe->opcode == IB_WR_BIND_MW)
		return rox_mw_bind(&who, &wqe->bind);
	return rox_key_invalidate(&who, wqe->inv_rkey);
}

bool rox_local_run(struct rox_qp *qp, struct rox_swqe *wqe)
{
	struct rox_send *send = &qp->send;
	int err;

	if (!wqe->done) {
		if (!rox_local_may_run(qp, wqe))
			return false;
		/* Release our own MRs, so that the key is not busy. */
		rox_send_iter_end(qp);
		rox_kept_drop_mrs(qp);
		err = rox_local_execute(qp, wqe);
		if (err == -EBUSY) {
			rox_side_again(&send->side);
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
