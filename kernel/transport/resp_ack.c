// SPDX-License-Identifier: GPL-2.0
/*
 * ACK and NAK packets. IBTA volume 1, 9.7.5.1 (generation, coalescing),
 * 9.7.5.2 (AETH), 9.7.7.2 (end-to-end credits).
 */
#include "internal.h"

u8 rox_ack_syndrome(struct rox_qp *qp)
{
	int posted;

	if (qp->ibqp.srq || unlikely(rox_is_xrc(qp)))
		return ROX_AETH_ACK | ROX_AETH_NO_CREDITS;
	posted = rox_ring_pending(&qp->rq);
	if (posted < 0)
		return ROX_AETH_ACK | ROX_AETH_NO_CREDITS;
	return ROX_AETH_ACK | rox_credit_encode(posted);
}

static void rox_aeth_send(struct rox_qp *qp, u8 syndrome, u32 psn)
{
	struct rox_burst b = {};

	rox_burst_init(qp, &b, psn);
	b.op_first = qp->service | IB_OPCODE_ACKNOWLEDGE;
	b.ext.aeth.syndrome = syndrome;
	b.ext.aeth.msn = qp->recv.msn;
	rox_qp_count(qp, ROX_CNT_TX_ACKS);
	rox_xmit(&b);
}

void rox_ack_send(struct rox_qp *qp)
{
	qp->recv.ack_due = false;
	rox_aeth_send(qp, rox_ack_syndrome(qp), rox_psn_add(qp->recv.epsn, ROX_PSN_MASK));
}

/* A NAK with @psn also acknowledges all packets before, so no ACK is due. */
void rox_nak_send(struct rox_qp *qp, u8 syndrome, u32 psn)
{
	qp->recv.ack_due = false;
	rox_aeth_send(qp, syndrome, psn);
}
