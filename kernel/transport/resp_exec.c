// SPDX-License-Identifier: GPL-2.0
/*
 * Executes SENDs and WRITEs of RC, XRC and UC: takes receive WQEs, copies the payload, completes
 * receives. IBTA volume 1, 9.7.4 (responder), 9.9.3 (errors).
 */
#include "internal.h"

/* ---- receive WQEs ---- */

enum rox_verdict rox_recv_take(struct rox_qp *qp, u32 least)
{
	struct rox_resp *recv = &qp->recv;
	struct rox_srq *srq = qp->ibqp.srq ? to_rox_srq(qp->ibqp.srq) : recv->xsrq;
	int n;

	if (recv->have_recv)
		return ROX_V_OK;
	if (srq)
		n = rox_srq_take(srq, least, &recv->recv);
	else
		n = rox_rq_take(&qp->rq, qp->cap.max_recv_sge, least, &recv->recv);
	if (!n || n == -EMSGSIZE) {
		rox_qp_count(qp, n ? ROX_CNT_RESP_LOC_LEN : ROX_CNT_OUT_OF_BUFFER);
		return ROX_V_RNR;
	}
	if (n == -EPROTO)
		return ROX_V_FATAL;
	recv->have_recv = true;
	if (n > 0)
		return ROX_V_OK;
	rox_recv_complete(qp, IB_WC_LOC_QP_OP_ERR, NULL, 0);
	return ROX_V_REM_OP;
}

static u32 rox_recv_opcode(const struct rox_pkt *pkt)
{
	return pkt && pkt->info->kind == ROX_KIND_WRITE ? IB_WC_RECV_RDMA_WITH_IMM : IB_WC_RECV;
}

/* Return: the index in the P_Key table of the packet's P_Key. */
static u16 rox_pkt_pkey_index(const struct rox_qp *qp, const struct rox_pkt *pkt)
{
	int index = qp->attr.pkey_index;

	if (qp->ibqp.qp_type == IB_QPT_GSI)
		index = rox_pkey_find(qp->dev, pkt->bth.pkey);
	/* The entry may have been removed meanwhile. */
	return index < 0 ? qp->attr.pkey_index : index;
}

static u8 rox_packet_type(const struct rox_cqe *cqe)
{
	return ROX_PACKET_UDP | (cqe->network_hdr_type == RDMA_NETWORK_IPV4 ?
				 ROX_PACKET_IPV4 : ROX_PACKET_IPV6);
}

/* Which of several equal addresses the answer has to come from. */
static void rox_recv_note_gid(struct rox_qp *qp, const struct rox_pkt *pkt, struct rox_cqe *cqe)
{
	struct rox_gid_ref gid;

	if (!qp->user) {
		cqe->vlan_id = rox_pkt_vlan(&qp->dev->net, pkt);
		return;
	}
	gid = rox_pkt_gid(pkt);
	if (unlikely(gid.twin))
		cqe->sgid_index = gid.index;
}

enum rox_verdict rox_recv_complete(struct rox_qp *qp, enum ib_wc_status status,
				   const struct rox_pkt *pkt, u32 byte_len)
{
	struct rox_cqe cqe = {
		.wr_id = qp->recv.recv.wr_id,
		.status = status,
		.opcode = rox_recv_opcode(pkt),
		.qp_num = qp->ibqp.qp_num,
	};

	qp->recv.have_recv = false;
	if (status == IB_WC_SUCCESS) {
		cqe.byte_len = byte_len;
		cqe.sl = qp->path.sl;
		if (pkt->info->ext & ROX_EXT_IMM) {
			cqe.wc_flags = IB_WC_WITH_IMM;
			cqe.ex.imm_data = pkt->ext.imm;
		}
		if (unlikely(pkt->info->ext & ROX_EXT_IETH)) {
			cqe.wc_flags = ROX_CQE_WITH_INV;
			cqe.ex.invalidate_rkey = pkt->ext.ieth_rkey;
		}
		if (rox_is_ud(qp)) {
			cqe.wc_flags |= IB_WC_GRH;
			cqe.src_qp = pkt->ext.deth.sqpn;
			cqe.pkey_index = rox_pkt_pkey_index(qp, pkt);
			cqe.network_hdr_type = rox_pkt_is_v6(pkt) ? RDMA_NETWORK_IPV6 :
								    RDMA_NETWORK_IPV4;
			if (qp->user)
				cqe.sl = rox_packet_type(&cqe);
			rox_recv_note_gid(qp, pkt, &cqe);
		}
	} else {
		rox_qp_count(qp, status == IB_WC_WR_FLUSH_ERR ? ROX_CNT_RESP_CQE_FLUSH :
								  ROX_CNT_RESP_CQE_ERROR);
	}
	trace_rox_completion(qp->ibqp.qp_num, cqe.wr_id, cqe.opcode, status, byte_len);
	if (unlikely(rox_is_xrc(qp)))
		return rox_xrc_complete(qp, &cqe, pkt && pkt->bth.solicited);
	if (rox_cq_add(rox_qp_rcq(qp), &cqe, pkt && pkt->bth.solicited))
		return ROX_V_FATAL;
	return ROX_V_OK;
}

static void rox_recv_flush_srq(struct rox_qp *qp)
{
	if (!qp->recv.flushed)
		rox_qp_event(qp, IB_EVENT_QP_LAST_WQE_REACHED);
	qp->recv.flushed = true;
}

/*
 * In ERR: flushes the current receive WQE, then those of the ring, in order. Requests doorbells
 * for later posts. WQEs of an SRQ stay there.
 * Return: true if there are more, or more were posted meanwhile.
 */
bool rox_recv_flush(struct rox_qp *qp)
{
	struct rox_resp *recv = &qp->recv;
	int n;

	rox_recv_iter_end(qp);
	recv->read.active = false;
	recv->kind = ROX_KIND_NONE;
	if (recv->have_recv)
		rox_recv_complete(qp, IB_WC_WR_FLUSH_ERR, NULL, 0);
	if (qp->ibqp.srq)
		rox_recv_flush_srq(qp);
	if (!qp->rq.entries)
		return false;
	WRITE_ONCE(qp->rq.ctrl->flags, ROX_RING_NEED_WAKEUP);
	/* Sets the flag before reading the producer index; the program does the reverse. */
	smp_mb();
	for (n = min(rox_ring_pending(&qp->rq), ROX_RUN_FLUSHES); n > 0; n--) {
		rox_rq_take(&qp->rq, qp->cap.max_recv_sge, 0, &recv->recv);
		rox_recv_complete(qp, IB_WC_WR_FLUSH_ERR, NULL, 0);
	}
	return rox_ring_pending(&qp->rq) > 0;
}

/* ---- payload ---- */

/* Sets the iterator to the rest of the target of the current message. */
static noinline void rox_recv_iter_begin(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	struct rox_resp *recv = &qp->recv;
	struct rox_iter *it = &recv->iter;
	struct rox_mem_user who;

	if (recv->kind == ROX_KIND_WRITE) {
		who = rox_peer_memory(qp);
		rox_iter_init(it, &who, &recv->write, 1, IB_ACCESS_REMOTE_WRITE);
	} else {
		who = rox_recv_memory(qp);
		rox_iter_init(it, &who, recv->recv.sge, recv->recv.num_sge,
			      IB_ACCESS_LOCAL_WRITE);
		it->trim = recv->recv.sge;
	}
	/* Loopback: this happens in the sender's run, which may write to the same MR again. */
	if (!pkt->skb)
		it->keep = &rox_ep_qp(pkt->burst->from)->send.kept.dst;
	if (recv->received)
		rox_iter_seek(it, recv->received);
	recv->iter_valid = true;
}

/* Return: the iterator over the rest of the target of the current message. */
static inline struct rox_iter *rox_recv_iter(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	if (!qp->recv.iter_valid)
		rox_recv_iter_begin(qp, pkt);
	return &qp->recv.iter;
}

/*
 * Copies the payload to its place, recv.received bytes into the message.
 * Return: 0, an error of rox_mr_get(), or -EAGAIN if a page is missing.
 */
static int rox_recv_place(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	struct rox_iter *it;
	int err;

	if (!pkt->payload_len)
		return 0;
	it = rox_recv_iter(qp, pkt);
	err = pkt->skb ? rox_pkt_copy(pkt, 0, it, pkt->payload_len) :
			 rox_local_copy(pkt, 0, it, pkt->payload_len);
	if (unlikely(err == -EAGAIN) && !rox_pkt_unread(pkt))
		err = rox_fault_at(&qp->recv.side.pages, &qp->recv.iter);
	return err;
}

/* FIRST and MIDDLE packets are full, LAST packets not empty, and no packet exceeds the MTU. */
static bool rox_length_ok(const struct rox_qp *qp, const struct rox_pkt *pkt)
{
	u32 max = pkt->npkts * qp->mtu;

	if (!(pkt->info->flags & ROX_OP_LAST))
		return pkt->payload_len == max;
	if (!(pkt->info->flags & ROX_OP_FIRST) && !pkt->payload_len)
		return false;
	return pkt->payload_len <= max && pkt->payload_len + qp->mtu >= max;
}

static void rox_message_end(struct rox_qp *qp)
{
	qp->recv.kind = ROX_KIND_NONE;
	qp->recv.received = 0;
	rox_recv_iter_end(qp);
}

static enum rox_verdict rox_send_prot_error(struct rox_qp *qp)
{
	rox_recv_complete(qp, IB_WC_LOC_PROT_ERR, NULL, 0);
	return ROX_V_REM_OP;
}

/* On UC the message is lost and its receive waits for the next one: see resp_dgram.c. */
static enum rox_verdict rox_send_too_long(struct rox_qp *qp)
{
	rox_qp_count(qp, ROX_CNT_RESP_LOC_LEN);
	if (qp->ibqp.qp_type != IB_QPT_UC)
		rox_recv_complete(qp, IB_WC_LOC_LEN_ERR, NULL, 0);
	return ROX_V_LOC_LEN;
}

/*
 * Executes the invalidation of a SEND with invalidate, after its payload was copied. If the run
 * of another QP uses the key, the packet counts as lost and is retransmitted.
 */
static enum rox_verdict rox_exec_invalidate(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	const struct rox_mem_user who = rox_peer_memory(qp);

	/* Release our own MRs and those of a loopback sender, so that the key is not busy. */
	rox_recv_iter_end(qp);
	if (pkt->burst && pkt->burst->src)
		rox_iter_end(pkt->burst->src);
	if (!pkt->skb)
		rox_kept_drop_mrs(rox_ep_qp(pkt->burst->from));
	switch (rox_key_invalidate(&who, pkt->ext.ieth_rkey)) {
	case 0:
		return ROX_V_OK;
	case -EBUSY:
		if (pkt->info->flags & ROX_OP_FIRST)
			qp->recv.kind = ROX_KIND_NONE;
		return ROX_V_DROP;
	default:
		return ROX_V_REM_ACCESS;
	}
}

/* The packet waits for pages on demand. It will be processed again as if it had just arrived. */
static enum rox_verdict rox_exec_hold(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	rox_recv_iter_end(qp);
	if (pkt->info->flags & ROX_OP_FIRST)
		qp->recv.kind = ROX_KIND_NONE;
	return ROX_V_HOLD;
}

enum rox_verdict rox_exec_send(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	struct rox_resp *recv = &qp->recv;
	enum rox_verdict v;
	u32 total;
	int err;

	if (!rox_length_ok(qp, pkt))
		return ROX_V_INV_REQ;
	if (pkt->info->flags & ROX_OP_FIRST) {
		v = rox_recv_take(qp, 0);
		if (v)
			return v;
		rox_recv_iter_end(qp);
		recv->kind = ROX_KIND_SEND;
		recv->received = 0;
	}
	if (pkt->payload_len > recv->recv.length - recv->received)
		return rox_send_too_long(qp);
	err = rox_recv_place(qp, pkt);
	if (unlikely(err))
		return err == -EAGAIN ? rox_exec_hold(qp, pkt) :
					rox_send_prot_error(qp);
	if (pkt->info->ext & ROX_EXT_IETH) {
		v = rox_exec_invalidate(qp, pkt);
		if (v)
			return v;
	}
	recv->received += pkt->payload_len;
	if (!(pkt->info->flags & ROX_OP_LAST))
		return ROX_V_OK;
	total = recv->received;
	rox_message_end(qp);
	return rox_recv_complete(qp, IB_WC_SUCCESS, pkt, total);
}

/* Checks the RETH of a WRITE: may all of the range be written? */
static enum rox_verdict rox_write_begin(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	struct rox_resp *recv = &qp->recv;

	if (!(qp->attr.qp_access_flags & IB_ACCESS_REMOTE_WRITE) ||
	    pkt->ext.reth.len > ROX_MAX_MSG_SIZE)
		return ROX_V_INV_REQ;
	rox_recv_iter_end(qp);
	recv->write.addr = pkt->ext.reth.va;
	recv->write.length = pkt->ext.reth.len;
	recv->write.lkey = pkt->ext.reth.rkey;
	recv->left = pkt->ext.reth.len;
	recv->received = 0;
	recv->kind = ROX_KIND_WRITE;
	if (!recv->left || rox_iter_begin(rox_recv_iter(qp, pkt)) >= 0)
		return ROX_V_OK;
	rox_recv_iter_end(qp);
	recv->kind = ROX_KIND_NONE;
	return ROX_V_REM_ACCESS;
}

static enum rox_verdict rox_write_check(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	bool last = pkt->info->flags & ROX_OP_LAST;
	u32 left = pkt->info->flags & ROX_OP_FIRST ? pkt->ext.reth.len : qp->recv.left;

	if (!rox_length_ok(qp, pkt))
		return ROX_V_INV_REQ;
	/* The payload must match the length in the RETH. */
	if (last ? pkt->payload_len != left : pkt->payload_len >= left)
		return ROX_V_INV_REQ;
	return ROX_V_OK;
}

enum rox_verdict rox_exec_write(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	struct rox_resp *recv = &qp->recv;
	bool imm = pkt->info->ext & ROX_EXT_IMM;
	enum rox_verdict v = rox_write_check(qp, pkt);
	u32 total;
	int err;

	if (v)
		return v;
	/* A missing receive must be found before anything is written. */
	if (imm) {
		v = rox_recv_take(qp, 0);
		if (v)
			return v;
	}
	if (pkt->info->flags & ROX_OP_FIRST) {
		v = rox_write_begin(qp, pkt);
		if (v)
			return v;
		rox_qp_count(qp, ROX_CNT_RX_WRITE_REQ);
	}
	err = rox_recv_place(qp, pkt);
	if (unlikely(err))
		return err == -EAGAIN ? rox_exec_hold(qp, pkt) : ROX_V_REM_ACCESS;
	recv->left -= pkt->payload_len;
	recv->received += pkt->payload_len;
	if (!(pkt->info->flags & ROX_OP_LAST))
		return ROX_V_OK;
	total = recv->received;
	rox_message_end(qp);
	return imm ? rox_recv_complete(qp, IB_WC_SUCCESS, pkt, total) : ROX_V_OK;
}
