// SPDX-License-Identifier: GPL-2.0
/*
 * Posting. For kernel users these functions write work requests into the rings. A
 * process writes its rings itself, and calls them only to ring the doorbell.
 */
#include <rdma/ib_mad.h>
#include "internal.h"

/* WQEs and CQEs contain these numbers unchanged. */
static inline void rox_check_numbers(void)
{
	BUILD_BUG_ON(IB_WR_RDMA_WRITE != 0);
	BUILD_BUG_ON(IB_WR_RDMA_WRITE_WITH_IMM != 1);
	BUILD_BUG_ON(IB_WR_SEND != 2);
	BUILD_BUG_ON(IB_WR_SEND_WITH_IMM != 3);
	BUILD_BUG_ON(IB_WR_RDMA_READ != 4);
	BUILD_BUG_ON(IB_WR_ATOMIC_CMP_AND_SWP != 5);
	BUILD_BUG_ON(IB_WR_ATOMIC_FETCH_AND_ADD != 6);
	BUILD_BUG_ON(IB_WR_LOCAL_INV != 7);
	BUILD_BUG_ON(IB_WR_BIND_MW != 8);
	BUILD_BUG_ON(IB_WR_SEND_WITH_INV != 9);
	BUILD_BUG_ON(IB_WR_ATOMIC_WRITE != 15);
	BUILD_BUG_ON(IB_WC_ATOMIC_WRITE != 9);
	BUILD_BUG_ON(IB_SEND_FENCE != 1);
	BUILD_BUG_ON(IB_SEND_SIGNALED != 2);
	BUILD_BUG_ON(IB_SEND_SOLICITED != 4);
	BUILD_BUG_ON(IB_SEND_INLINE != 8);
	BUILD_BUG_ON(IB_WC_RECV != 128);
	BUILD_BUG_ON(IB_WC_GRH != 1);
	BUILD_BUG_ON(IB_WC_WITH_IMM != 2);
	BUILD_BUG_ON(sizeof(struct rox_send_wqe) != 64);
	BUILD_BUG_ON(sizeof(struct rox_recv_wqe) != 16);
	BUILD_BUG_ON(sizeof(struct rox_cqe) != 64);
	BUILD_BUG_ON(sizeof(struct rox_sge) != 16);
}

static bool rox_post_is_datagram(const struct rox_qp *qp)
{
	return qp->ibqp.qp_type == IB_QPT_UD || qp->ibqp.qp_type == IB_QPT_GSI;
}

/* Fills the fields that depend on the opcode. Return: 0 or -EINVAL. */
static int rox_post_operation(const struct rox_qp *qp, struct rox_send_wqe *wqe,
			      const struct ib_send_wr *wr)
{
	/* Cast to u32, as the enumeration of old kernels lacks some of these values. */
	switch ((u32)wr->opcode) {
	case IB_WR_SEND_WITH_INV:
	case IB_WR_LOCAL_INV:
		break;
	case IB_WR_REG_MR:
		wqe->wr.rdma.rkey = reg_wr(wr)->key;
		wqe->wr.rdma.compare_add = reg_wr(wr)->access;
		break;
	case IB_WR_SEND:
	case IB_WR_SEND_WITH_IMM:
		if (!rox_post_is_datagram(qp))
			return 0;
		if (!ud_wr(wr)->ah)
			return -EINVAL;
		wqe->wr.ud.ah = to_rox_ib_ah(ud_wr(wr)->ah)->ah->index;
		wqe->wr.ud.remote_qpn = ud_wr(wr)->remote_qpn;
		wqe->wr.ud.remote_qkey = ud_wr(wr)->remote_qkey;
		wqe->wr.ud.pkey_index = ud_wr(wr)->pkey_index;
		return 0;
	case IB_WR_RDMA_WRITE:
	case IB_WR_RDMA_WRITE_WITH_IMM:
	case IB_WR_RDMA_READ:
	case IB_WR_ATOMIC_WRITE:
		wqe->wr.rdma.remote_addr = rdma_wr(wr)->remote_addr;
		wqe->wr.rdma.rkey = rdma_wr(wr)->rkey;
		break;
	case IB_WR_ATOMIC_CMP_AND_SWP:
	case IB_WR_ATOMIC_FETCH_AND_ADD:
		wqe->wr.rdma.remote_addr = atomic_wr(wr)->remote_addr;
		wqe->wr.rdma.rkey = atomic_wr(wr)->rkey;
		wqe->wr.rdma.compare_add = atomic_wr(wr)->compare_add;
		wqe->wr.rdma.swap = atomic_wr(wr)->swap;
		break;
	default:
		return -EINVAL;
	}
	return rox_post_is_datagram(qp) ? -EINVAL : 0;
}

static int rox_post_inline(const struct rox_qp *qp, struct rox_send_wqe *wqe,
			   const struct ib_send_wr *wr)
{
	u8 *dst = (u8 *)(wqe + 1);
	u32 len = 0;
	int i;

	for (i = 0; i < wr->num_sge; i++) {
		const struct ib_sge *sge = &wr->sg_list[i];

		if (sge->length > qp->cap.max_inline_data - len)
			return -EINVAL;
		/* For inline data kernel users pass kernel addresses, not DMA addresses. */
		memcpy(dst + len, (const void *)(uintptr_t)sge->addr, sge->length);
		len += sge->length;
	}
	wqe->inline_len = len;
	return 0;
}

static int rox_post_list(const struct rox_qp *qp, struct rox_send_wqe *wqe,
			 const struct ib_send_wr *wr)
{
	struct rox_sge *dst = (struct rox_sge *)(wqe + 1);
	int i;

	if (wr->num_sge > qp->cap.max_send_sge)
		return -EINVAL;
	for (i = 0; i < wr->num_sge; i++)
		dst[i] = (struct rox_sge) {
			.addr = wr->sg_list[i].addr,
			.length = wr->sg_list[i].length,
			.lkey = wr->sg_list[i].lkey,
		};
	wqe->num_sge = wr->num_sge;
	return 0;
}

/* The MAD layer posts header and data of a MAD as two pieces of one buffer. */
static void rox_post_mad(struct rox_qp *qp, const struct ib_send_wr *wr)
{
	const struct ib_sge *sge = wr->sg_list;

	if (wr->num_sge == 2 && sge[0].addr + sge[0].length == sge[1].addr &&
	    sge[0].length + sge[1].length == IB_MGMT_MAD_SIZE && ud_wr(wr)->ah)
		rox_cm_sending(qp, &to_rox_ib_ah(ud_wr(wr)->ah)->ah->path,
			       (void *)(uintptr_t)sge[0].addr);
}

/* The caller holds the post lock. */
static int rox_post_one(struct rox_qp *qp, const struct ib_send_wr *wr)
{
	struct rox_send_wqe *wqe;
	int err;

	if (wr->num_sge < 0)
		return -EINVAL;
	wqe = rox_ring_free_entry(&qp->sq);
	if (!wqe)
		return -ENOMEM;
	*wqe = (struct rox_send_wqe) {
		.wr_id = wr->wr_id,
		.opcode = wr->opcode,
		/* IP checksums are for IPoIB, which rox does not support. */
		.send_flags = wr->send_flags & ~IB_SEND_IP_CSUM,
		.ex.imm_data = wr->ex.imm_data,
	};
	if (unlikely(qp->ibqp.qp_type == IB_QPT_GSI))
		rox_post_mad(qp, wr);
	err = rox_post_operation(qp, wqe, wr);
	if (!err && wr->send_flags & IB_SEND_INLINE)
		err = rox_post_inline(qp, wqe, wr);
	else if (!err)
		err = rox_post_list(qp, wqe, wr);
	if (!err)
		rox_ring_publish(&qp->sq);
	return err;
}

int rox_rq_post(struct rox_ring *ring, u32 max_sge, const struct ib_recv_wr *wr)
{
	struct rox_recv_wqe *hdr;
	struct rox_sge *sge;
	int i;

	if (wr->num_sge < 0 || wr->num_sge > max_sge)
		return -EINVAL;
	hdr = rox_ring_free_entry(ring);
	if (!hdr)
		return -ENOMEM;
	sge = (struct rox_sge *)(hdr + 1);
	*hdr = (struct rox_recv_wqe) { .wr_id = wr->wr_id, .num_sge = wr->num_sge };
	for (i = 0; i < wr->num_sge; i++)
		sge[i] = (struct rox_sge) {
			.addr = wr->sg_list[i].addr,
			.length = wr->sg_list[i].length,
			.lkey = wr->sg_list[i].lkey,
		};
	rox_ring_publish(ring);
	return 0;
}

static bool rox_may_send(const struct rox_qp *qp)
{
	enum ib_qp_state state = rox_qp_state(qp);

	return state != IB_QPS_RESET && state != IB_QPS_INIT && state != IB_QPS_RTR;
}

/**
 * rox_post_send() - posts send work requests of a kernel user, or rings the doorbell
 * @ibqp: QP
 * @wr: list; NULL from a process that has written into its ring
 * @bad_wr: first one that was not posted
 *
 * Any context. Return: 0, -EINVAL for a bad work request or state, -ENOMEM if
 * the queue is full.
 */
int rox_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		  const struct ib_send_wr **bad_wr)
{
	struct rox_qp *qp = to_rox_qp(ibqp);
	unsigned long flags;
	int err = 0;

	rox_check_numbers();
	if (qp->user && wr) {
		*bad_wr = wr;
		return -EINVAL;
	}
	spin_lock_irqsave(&qp->sq_post_lock, flags);
	for (; wr; wr = wr->next) {
		err = rox_may_send(qp) ? rox_post_one(qp, wr) : -EINVAL;
		if (err)
			break;
	}
	spin_unlock_irqrestore(&qp->sq_post_lock, flags);
	if (err)
		*bad_wr = wr;
	rox_send_doorbell(qp);
	return err;
}

/**
 * rox_post_recv() - posts receive work requests of a kernel user, or rings the doorbell
 * @ibqp: QP
 * @wr: list; NULL from a process that has written into its ring
 * @bad_wr: first one that was not posted
 *
 * Any context. Return: 0, -EINVAL for a bad work request or state, -ENOMEM if
 * the queue is full.
 */
int rox_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		  const struct ib_recv_wr **bad_wr)
{
	struct rox_qp *qp = to_rox_qp(ibqp);
	unsigned long flags;
	int err = 0;

	if (wr && (qp->user || ibqp->srq)) {
		*bad_wr = wr;
		return -EINVAL;
	}
	spin_lock_irqsave(&qp->rq_post_lock, flags);
	for (; wr; wr = wr->next) {
		err = rox_qp_state(qp) == IB_QPS_RESET ?
			-EINVAL : rox_rq_post(&qp->rq, qp->cap.max_recv_sge, wr);
		if (err)
			break;
	}
	spin_unlock_irqrestore(&qp->rq_post_lock, flags);
	if (err)
		*bad_wr = wr;
	rox_recv_doorbell(qp);
	return err;
}
