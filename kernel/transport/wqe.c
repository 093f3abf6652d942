// SPDX-License-Identifier: GPL-2.0
/*
 * From the shared ring to the kernel's own, validated send WQE.
 */
#include "internal.h"

/* What each work request may be used for, by QP type. */
struct rox_wr_info {
	bool rc, uc, ud;
	u8 wc_opcode;
};

static const struct rox_wr_info rox_wr_table[] = {
	[IB_WR_RDMA_WRITE]		= { true, true, false, IB_WC_RDMA_WRITE },
	[IB_WR_RDMA_WRITE_WITH_IMM]	= { true, true, false, IB_WC_RDMA_WRITE },
	[IB_WR_SEND]			= { true, true, true, IB_WC_SEND },
	[IB_WR_SEND_WITH_IMM]		= { true, true, true, IB_WC_SEND },
	[IB_WR_RDMA_READ]		= { true, false, false, IB_WC_RDMA_READ },
	[IB_WR_ATOMIC_CMP_AND_SWP]	= { true, false, false, IB_WC_COMP_SWAP },
	[IB_WR_ATOMIC_FETCH_AND_ADD]	= { true, false, false, IB_WC_FETCH_ADD },
	[IB_WR_ATOMIC_WRITE]		= { true, false, false, IB_WC_ATOMIC_WRITE },
	[IB_WR_SEND_WITH_INV]		= { true, false, false, IB_WC_SEND },
	[IB_WR_LOCAL_INV]		= { true, true, false, IB_WC_LOCAL_INV },
	[IB_WR_BIND_MW]			= { true, true, false, IB_WC_BIND_MW },
	[IB_WR_REG_MR]			= { true, true, false, IB_WC_REG_MR },
};

static bool rox_wr_allowed(const struct rox_qp *qp, u32 opcode)
{
	const struct rox_wr_info *info;

	if (opcode >= ARRAY_SIZE(rox_wr_table))
		return false;
	/* Its pages are named by kernel addresses. */
	if (opcode == IB_WR_REG_MR && qp->user)
		return false;
	info = &rox_wr_table[opcode];
	switch (qp->ibqp.qp_type) {
	case IB_QPT_RC:
		return info->rc;
	case IB_QPT_XRC_INI:
		return info->rc && opcode != IB_WR_ATOMIC_WRITE;
	case IB_QPT_UC:
		return info->uc;
	default:
		return info->ud;
	}
}

/* Copies SGE list or inline data behind the header and sums up the length. */
static u8 rox_wqe_payload(struct rox_qp *qp, struct rox_swqe *wqe,
			  const struct rox_send_wqe *hdr)
{
	u64 length = 0;
	u32 i;

	wqe->inl = hdr->send_flags & IB_SEND_INLINE;
	if (wqe->inl) {
		if (hdr->inline_len > qp->cap.max_inline_data || rox_wqe_fetches(wqe))
			return IB_WC_LOC_QP_OP_ERR;
		rox_ring_copy(&qp->sq, 0, sizeof(*hdr), wqe->sge, hdr->inline_len);
		wqe->num_sge = 0;
		wqe->length = hdr->inline_len;
		return IB_WC_SUCCESS;
	}
	if (hdr->num_sge > qp->cap.max_send_sge)
		return IB_WC_LOC_QP_OP_ERR;
	wqe->num_sge = hdr->num_sge;
	rox_ring_copy(&qp->sq, 0, sizeof(*hdr), wqe->sge, wqe->num_sge * sizeof(wqe->sge[0]));
	for (i = 0; i < wqe->num_sge; i++)
		length += wqe->sge[i].length;
	if (length > ROX_MAX_MSG_SIZE)
		return IB_WC_LOC_LEN_ERR;
	wqe->length = length;
	return IB_WC_SUCCESS;
}

static u8 rox_wqe_datagram(struct rox_qp *qp, struct rox_swqe *wqe,
			   const struct rox_send_wqe *hdr)
{
	if (wqe->length > ib_mtu_enum_to_int(READ_ONCE(qp->dev->mtu)))
		return IB_WC_LOC_LEN_ERR;
	wqe->remote_qpn = hdr->wr.ud.remote_qpn & ROX_QPN_MASK;
	wqe->remote_qkey = hdr->wr.ud.remote_qkey;
	/* IBTA 10.2.5: the most significant bit asks for the QP's own Q_Key. */
	if (wqe->remote_qkey & BIT(31))
		wqe->remote_qkey = qp->attr.qkey;
	if (unlikely(qp->ibqp.qp_type == IB_QPT_GSI)) {
		wqe->pkey_index = hdr->wr.ud.pkey_index;
		if (wqe->pkey_index >= qp->dev->num_pkeys)
			return IB_WC_LOC_QP_OP_ERR;
	}
	wqe->ah = rox_ah_get(qp->dev, hdr->wr.ud.ah, qp->ibqp.pd);
	return wqe->ah ? IB_WC_SUCCESS : IB_WC_LOC_QP_OP_ERR;
}

static u8 rox_wqe_connected(struct rox_qp *qp, struct rox_swqe *wqe,
			    const struct rox_send_wqe *hdr)
{
	wqe->remote_addr = hdr->wr.rdma.remote_addr;
	wqe->rkey = hdr->wr.rdma.rkey;
	wqe->compare_add = hdr->wr.rdma.compare_add;
	wqe->swap = hdr->wr.rdma.swap;
	wqe->xrc_srqn = hdr->xrc_srqn & ROX_QPN_MASK;
	if (!rox_wqe_is_answered(wqe))
		return IB_WC_SUCCESS;
	if (!rox_wqe_is_read(wqe) && wqe->length != sizeof(u64))
		return IB_WC_LOC_LEN_ERR;
	if (!qp->attr.max_rd_atomic)
		return IB_WC_LOC_QP_OP_ERR;
	return IB_WC_SUCCESS;
}

static u8 rox_wqe_check_memory(struct rox_qp *qp, struct rox_swqe *wqe)
{
	struct rox_iter it;
	int access = 0, n;

	if (wqe->inl || !wqe->num_sge)
		return IB_WC_SUCCESS;
	/* What will be read from here on, look up once. */
	if (wqe->num_sge == 1 && wqe->length && !rox_wqe_fetches(wqe)) {
		n = rox_iter_begin(rox_send_iter(qp, wqe, qp->sq.index, 0));
		wqe->odp = n > 0;
		return n < 0 ? IB_WC_LOC_PROT_ERR : IB_WC_SUCCESS;
	}
	if (rox_wqe_fetches(wqe))
		access = IB_ACCESS_LOCAL_WRITE;
	rox_iter_init(&it, qp->dev, qp->ibqp.pd, wqe->sge, wqe->num_sge, access, qp->user);
	n = rox_iter_check(&it);
	wqe->odp = n > 0;
	return n < 0 ? IB_WC_LOC_PROT_ERR : IB_WC_SUCCESS;
}

static u8 rox_wqe_load(struct rox_qp *qp, struct rox_swqe *wqe,
		       const struct rox_send_wqe *hdr)
{
	u8 status;

	if (!rox_wr_allowed(qp, hdr->opcode))
		return IB_WC_LOC_QP_OP_ERR;
	wqe->opcode = hdr->opcode;
	wqe->wc_opcode = rox_wr_table[hdr->opcode].wc_opcode;
	if (unlikely(wqe->opcode == IB_WR_BIND_MW)) {
		wqe->bind = hdr->wr.bind;
		return IB_WC_SUCCESS;
	}
	status = rox_wqe_payload(qp, wqe, hdr);
	if (status)
		return status;
	status = rox_is_ud(qp) ? rox_wqe_datagram(qp, wqe, hdr) :
				 rox_wqe_connected(qp, wqe, hdr);
	return status ?: rox_wqe_check_memory(qp, wqe);
}

/* The PSNs that a message takes, and what it adds to the peer's MSN. */
static void rox_wqe_number(struct rox_qp *qp, struct rox_swqe *wqe)
{
	u32 chunk = rox_read_chunk_pkts(qp);

	wqe->first_psn = qp->send.next_psn;
	if (unlikely(rox_wqe_is_local(wqe)))
		return;
	wqe->npkts = rox_is_ud(qp) ? 1 : max(1U, DIV_ROUND_UP(wqe->length, qp->mtu));
	if (rox_wqe_is_read(wqe))
		qp->send.ssn += DIV_ROUND_UP(wqe->npkts, chunk);
	else
		qp->send.ssn++;
	qp->send.ssn &= ROX_PSN_MASK;
	wqe->ssn = qp->send.ssn;
	qp->send.next_psn = rox_psn_add(wqe->first_psn, wqe->npkts);
}

bool rox_wqe_pull(struct rox_qp *qp)
{
	struct rox_send *send = &qp->send;
	struct rox_send_wqe hdr;
	u32 outstanding = qp->sq.index - send->tail;
	int pending = rox_ring_pending(&qp->sq);
	struct rox_swqe *wqe;

	if (!pending)
		return false;
	/* More WQEs than there are places: the producer index is not to be trusted. */
	if (pending < 0 || pending + outstanding > qp->sq.entries) {
		rox_qp_fail(qp, IB_EVENT_QP_FATAL);
		return false;
	}

	wqe = rox_swqe_at(qp, qp->sq.index);
	rox_ring_copy(&qp->sq, 0, 0, &hdr, sizeof(hdr));
	memset(wqe, 0, sizeof(*wqe));
	wqe->wr_id = hdr.wr_id;
	wqe->flags = hdr.send_flags;
	wqe->imm = hdr.ex.imm_data;
	wqe->wc_opcode = IB_WC_SEND;
	wqe->status = rox_wqe_load(qp, wqe, &hdr);
	rox_wqe_number(qp, wqe);
	qp->sq.index++;
	trace_rox_post_send(qp->ibqp.qp_num, wqe->wr_id, hdr.opcode, wqe->length,
			    wqe->first_psn);
	return true;
}

void rox_wqe_release(struct rox_swqe *wqe)
{
	if (wqe->ah)
		rox_ah_put(wqe->ah);
	wqe->ah = NULL;
}
