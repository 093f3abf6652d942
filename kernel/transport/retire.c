// SPDX-License-Identifier: GPL-2.0
/* Completing send WQEs, in order; flush and drop. */
#include "internal.h"

static void rox_send_cqe(struct rox_qp *qp, u64 wr_id, u8 wc_opcode, u8 status, u32 byte_len)
{
	struct rox_cqe cqe = {
		.wr_id = wr_id,
		.status = status,
		.opcode = wc_opcode,
		.byte_len = byte_len,
		.qp_num = qp->ibqp.qp_num,
		.sq_consumer = qp->send.tail,
	};

	trace_rox_completion(qp->ibqp.qp_num, wr_id, wc_opcode, status, byte_len);
	if (status == IB_WC_WR_FLUSH_ERR)
		rox_qp_count(qp, ROX_CNT_REQ_CQE_FLUSH);
	else if (status)
		rox_qp_count(qp, ROX_CNT_REQ_CQE_ERROR);
	if (rox_cq_add(rox_qp_scq(qp), &cqe, false))
		rox_qp_fail(qp, IB_EVENT_QP_FATAL);
}

/* Frees the entry of the ring before the program can see the completion. */
static void rox_send_advance_tail(struct rox_qp *qp)
{
	struct rox_send *send = &qp->send;

	if (send->cur == send->tail)
		send->cur++;
	send->tail++;
	/* Orders the copy of the WQE before the index; then the program may overwrite the entry. */
	smp_store_release(&qp->sq.ctrl->consumer, send->tail);
}

static void rox_retire_one(struct rox_qp *qp)
{
	struct rox_swqe *wqe = rox_swqe_at(qp, qp->send.tail);
	bool signalled = qp->sq_sig_all || wqe->status || (wqe->flags & IB_SEND_SIGNALED);
	u64 wr_id = wqe->wr_id;
	u8 opcode = wqe->wc_opcode;
	u8 status = wqe->status;
	u32 len = wqe->length;

	rox_wqe_release(wqe);
	rox_send_advance_tail(qp);
	if (signalled)
		rox_send_cqe(qp, wr_id, opcode, status, len);
}

/* Is the oldest WQE a local operation that was executed before its turn to complete? */
static bool rox_tail_is_done(const struct rox_qp *qp)
{
	return qp->send.tail != qp->sq.index && rox_swqe_at(qp, qp->send.tail)->done;
}

/* If it succeeds, also completes the local operations after it that have been executed. */
void rox_retire_tail(struct rox_qp *qp)
{
	bool failed;

	do {
		failed = rox_swqe_at(qp, qp->send.tail)->status;
		rox_retire_one(qp);
	} while (unlikely(!failed && rox_tail_is_done(qp)));
}

void rox_retire_failed(struct rox_qp *qp)
{
	struct rox_send *send = &qp->send;

	if (send->tail == qp->sq.index || !rox_swqe_at(qp, send->tail)->status)
		return;
	rox_retire_tail(qp);
	if (rox_is_rc(qp))
		rox_qp_fail(qp, -1);
	else
		rox_qp_send_queue_error(qp);
}

/*
 * Flushes at most @most WQEs that were not copied: only wr_id is needed. The next run flushes what
 * is left.
 */
static void rox_send_flush_ring(struct rox_qp *qp, int most)
{
	struct rox_send_wqe hdr;
	int pending = min(rox_ring_pending(&qp->sq), most);

	for (; pending > 0; pending--) {
		rox_ring_copy(&qp->sq, 0, 0, &hdr, sizeof(hdr));
		WRITE_ONCE(qp->sq.index, qp->sq.index + 1);
		rox_send_advance_tail(qp);
		rox_send_cqe(qp, hdr.wr_id, IB_WC_SEND, IB_WC_WR_FLUSH_ERR, 0);
	}
}

bool rox_send_flush(struct rox_qp *qp)
{
	struct rox_send *send = &qp->send;
	int most = ROX_RUN_FLUSHES;
	struct rox_swqe *wqe;

	rox_send_iter_end(qp);
	for (; send->tail != qp->sq.index; most--) {
		if (!most)
			return true;
		wqe = rox_swqe_at(qp, send->tail);
		wqe->status = IB_WC_WR_FLUSH_ERR;
		rox_retire_tail(qp);
	}
	rox_send_flush_ring(qp, most);
	send->cur = send->tail;
	send->psn = send->next_psn;
	send->max_psn = send->next_psn;
	send->asked = send->next_psn;
	send->una = send->next_psn;
	send->rd_atomic = 0;
	rox_timer_clear(qp);
	return false;
}

void rox_send_drop(struct rox_qp *qp)
{
	struct rox_send *send = &qp->send;

	rox_send_iter_end(qp);
	for (; send->tail != qp->sq.index; send->tail++)
		rox_wqe_release(rox_swqe_at(qp, send->tail));
	send->tail = 0;
	send->cur = 0;
	send->rd_atomic = 0;
	send->ssn = 0;
	send->lsn = 0;
	send->credits_valid = false;
	rox_timer_clear(qp);
}
