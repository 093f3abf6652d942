// SPDX-License-Identifier: GPL-2.0
/* Copies send WQEs from the shared ring into kernel memory and validates them. */
#include "internal.h"

/* QP types that each opcode is valid for, and the opcode of its completion. */
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
	/*
	 * The page list of the region has kernel addresses, so only kernel users may register it.
	 */
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

#define ROX_SEND_FLAGS (IB_SEND_FENCE | IB_SEND_SIGNALED | IB_SEND_SOLICITED | IB_SEND_INLINE)

static bool rox_wqe_is_known_datagram(const struct rox_qp *qp, const struct rox_send_wqe *hdr)
{
	const u32 *reserved = hdr->wr.ud.reserved;

	BUILD_BUG_ON(ARRAY_SIZE(hdr->wr.ud.reserved) != 4);
	/* pkey_index of a kernel user is for the GSI QP; rox_wqe_datagram() checks it. */
	return !(hdr->wr.ud.reserved0 | reserved[0] | reserved[1] | reserved[2] | reserved[3]) &&
	       !(qp->user && hdr->wr.ud.pkey_index);
}

/*
 * Are all fields without a meaning 0? Otherwise the WQE is refused, so that these fields can get
 * a meaning later: Documentation/abi.md.
 */
static bool rox_wqe_is_known(const struct rox_qp *qp, const struct rox_send_wqe *hdr)
{
	if (hdr->send_flags & ~ROX_SEND_FLAGS ||
	    (hdr->send_flags & IB_SEND_INLINE ? hdr->num_sge : hdr->inline_len))
		return false;
	if (hdr->xrc_srqn && qp->ibqp.qp_type != IB_QPT_XRC_INI)
		return false;
	if (hdr->opcode == IB_WR_BIND_MW)
		return rox_bind_is_known(&hdr->wr.bind);
	return rox_is_ud(qp) ? rox_wqe_is_known_datagram(qp, hdr) : !hdr->wr.rdma.reserved;
}

/* Copies the SGE list or inline data, and sums up the length. */
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
	/* Mostly it is one, and a copy of known size needs no call. */
	if (wqe->num_sge == 1)
		rox_ring_copy(&qp->sq, 0, sizeof(*hdr), wqe->sge, sizeof(wqe->sge[0]));
	else
		rox_ring_copy(&qp->sq, 0, sizeof(*hdr), wqe->sge,
			      wqe->num_sge * sizeof(wqe->sge[0]));
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

/*
 * The response of an ATOMIC has 8 bytes, and fills the beginning of the list. The rest of a longer
 * list is not used, so nobody looks at it; rdma_rxe takes such lists, too.
 */
static void rox_wqe_cut_atomic(struct rox_swqe *wqe)
{
	u32 i, left = sizeof(u64);

	if (wqe->length <= left)
		return;
	wqe->length = left;
	for (i = 0; left; i++) {
		wqe->sge[i].length = min(wqe->sge[i].length, left);
		left -= wqe->sge[i].length;
	}
	wqe->num_sge = i;
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
	if (rox_wqe_is_atomic(wqe))
		rox_wqe_cut_atomic(wqe);
	if (!rox_wqe_is_read(wqe) && wqe->length != sizeof(u64))
		return IB_WC_LOC_LEN_ERR;
	if (!qp->attr.max_rd_atomic)
		return IB_WC_LOC_QP_OP_ERR;
	return IB_WC_SUCCESS;
}

/* Checks a list of SGEs, or what a response will fill. Return: as rox_iter_check(). */
static noinline int rox_wqe_check_list(struct rox_qp *qp, struct rox_swqe *wqe)
{
	const struct rox_mem_user who = rox_own_memory(qp, qp->ibqp.pd);
	struct rox_iter it;

	rox_iter_init(&it, &who, wqe->sge, wqe->num_sge,
		      rox_wqe_fetches(wqe) ? IB_ACCESS_LOCAL_WRITE : 0);
	return rox_iter_check(&it);
}

static u8 rox_wqe_check_memory(struct rox_qp *qp, struct rox_swqe *wqe)
{
	int n;

	if (wqe->inl || !wqe->num_sge)
		return IB_WC_SUCCESS;
	/* One SGE will be read, or perhaps filled, in this run: look up its MR only once. */
	if (wqe->num_sge == 1 && wqe->length)
		n = rox_iter_begin(rox_send_iter_new(qp, wqe, qp->sq.index, 0));
	else
		n = rox_wqe_check_list(qp, wqe);
	wqe->odp = n > 0;
	return n < 0 ? IB_WC_LOC_PROT_ERR : IB_WC_SUCCESS;
}

static u8 rox_wqe_load(struct rox_qp *qp, struct rox_swqe *wqe,
		       const struct rox_send_wqe *hdr)
{
	u8 status;

	if (!rox_wr_allowed(qp, hdr->opcode) || !rox_wqe_is_known(qp, hdr))
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

/* Assigns PSNs and the message number (SSN). */
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
	WRITE_ONCE(qp->send.next_psn, rox_psn_add(wqe->first_psn, wqe->npkts));
}

/* Copies and validates the next entry of the ring, which has one. */
static void rox_wqe_take(struct rox_qp *qp)
{
	struct rox_swqe *wqe = rox_swqe_at(qp, qp->sq.index);
	const struct rox_send_wqe hdr = *(struct rox_send_wqe *)rox_ring_next(&qp->sq);

	/* Keep the compiler from reading the ring again instead of the copy. */
	barrier();
	memset(wqe, 0, sizeof(*wqe));
	wqe->wr_id = hdr.wr_id;
	wqe->flags = hdr.send_flags;
	wqe->imm = hdr.ex.imm_data;
	wqe->wc_opcode = IB_WC_SEND;
	wqe->status = rox_wqe_load(qp, wqe, &hdr);
	rox_wqe_number(qp, wqe);
	/* The engine reads the index without the lock. */
	WRITE_ONCE(qp->sq.index, qp->sq.index + 1);
	trace_rox_post_send(qp->ibqp.qp_num, wqe->wr_id, hdr.opcode, wqe->length,
			    wqe->first_psn);
}

bool rox_wqe_pull(struct rox_qp *qp)
{
	u32 outstanding = qp->sq.index - qp->send.tail;
	int pending = rox_ring_pending(&qp->sq);

	if (!pending)
		return false;
	/* The producer index is invalid: there are more WQEs than entries. */
	if (pending < 0 || pending + outstanding > qp->sq.entries) {
		rox_qp_fail(qp, IB_EVENT_QP_FATAL);
		return false;
	}
	rox_wqe_take(qp);
	return true;
}
