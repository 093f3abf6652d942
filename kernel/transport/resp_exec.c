// SPDX-License-Identifier: GPL-2.0
/*
 * Execution of SENDs and WRITEs, for RC, XRC and UC: receive WQEs, placement of the
 * payload, receive completions. IBTA volume 1, 9.7.4 (responder), 9.9.3 (errors).
 */
#include "internal.h"
#include "../verbs/pkey.h"

/* ---- receive WQEs ---- */

enum rox_verdict rox_recv_take(struct rox_qp *qp)
{
	struct rox_resp *recv = &qp->recv;
	struct rox_srq *srq = qp->ibqp.srq ? to_rox_srq(qp->ibqp.srq) : recv->xsrq;
	int n;

	if (recv->have_recv)
		return ROX_V_OK;
	if (srq)
		n = rox_srq_take(srq, recv->recv);
	else
		n = rox_rq_take(&qp->rq, qp->cap.max_recv_sge, recv->recv);
	if (!n) {
		rox_qp_count(qp, ROX_CNT_OUT_OF_BUFFER);
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

static u16 rox_pkt_vlan(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	struct in6_addr saddr, daddr;

	rox_pkt_addrs(pkt, &saddr, &daddr);
	return rox_gid_vlan(qp->dev, &daddr);
}

/* Which entry of the P_Key table let the packet in. */
static u16 rox_pkt_pkey_index(const struct rox_qp *qp, const struct rox_pkt *pkt)
{
	int index = qp->attr.pkey_index;

	if (qp->ibqp.qp_type == IB_QPT_GSI)
		index = rox_pkey_find(qp->dev, pkt->bth.pkey);
	/* It may have gone meanwhile. */
	return index < 0 ? qp->attr.pkey_index : index;
}

static u8 rox_packet_type(const struct rox_cqe *cqe)
{
	return ROX_PACKET_UDP | (cqe->network_hdr_type == RDMA_NETWORK_IPV4 ?
				 ROX_PACKET_IPV4 : ROX_PACKET_IPV6);
}

enum rox_verdict rox_recv_complete(struct rox_qp *qp, enum ib_wc_status status,
				   const struct rox_pkt *pkt, u32 byte_len)
{
	struct rox_cqe cqe = {
		.wr_id = qp->recv.recv->wr_id,
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
			if (qp->ibqp.qp_type == IB_QPT_GSI)
				cqe.vlan_id = rox_pkt_vlan(qp, pkt);
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
 * ERR: the WQE that is held, then the ring's, in order. RQ posts need a doorbell
 * from now on. WQEs of an SRQ stay there.
 * Return: true if there are more, or the program has posted more meanwhile.
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
	/* The flag before the look at the producer; the program does it the other way round. */
	smp_mb();
	for (n = min(rox_ring_pending(&qp->rq), ROX_RUN_FLUSHES); n > 0; n--) {
		rox_rq_take(&qp->rq, qp->cap.max_recv_sge, recv->recv);
		rox_recv_complete(qp, IB_WC_WR_FLUSH_ERR, NULL, 0);
	}
	return rox_ring_pending(&qp->rq) > 0;
}

/* ---- payload ---- */

/* The iterator over the rest of the target of the message under way. */
static struct rox_iter *rox_recv_iter(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	struct rox_resp *recv = &qp->recv;
	struct rox_iter *it = &recv->iter;

	if (recv->iter_valid)
		return it;
	if (recv->kind == ROX_KIND_WRITE)
		rox_iter_init_remote(it, qp, &recv->write, IB_ACCESS_REMOTE_WRITE);
	else
		rox_iter_init(it, qp->dev, recv->pd, recv->recv->sge, recv->recv->num_sge,
			      IB_ACCESS_LOCAL_WRITE, qp->user);
	/* Without a wire the sender's run, in which this happens, may write there again. */
	if (!pkt->skb)
		it->keep = &pkt->burst->qp->send.kept.dst;
	if (recv->received)
		rox_iter_seek(it, recv->received);
	recv->iter_valid = true;
	return it;
}

int rox_recv_place(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	int err;

	if (!pkt->payload_len)
		return 0;
	err = rox_pkt_copy(pkt, 0, rox_recv_iter(qp, pkt), pkt->payload_len);
	if (unlikely(err == -EAGAIN) && !rox_pkt_unread(pkt))
		err = rox_fault_at(&qp->recv.side, &qp->recv.iter);
	return err;
}

void rox_recv_iter_end(struct rox_qp *qp)
{
	if (qp->recv.iter_valid)
		rox_iter_end(&qp->recv.iter);
	qp->recv.iter_valid = false;
}

/* FIRST and MIDDLE are full, LAST has something, and nothing is longer than the MTU. */
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
 * SEND with invalidate, after its payload is in place. While another QP's burst
 * uses the key, the packet counts as lost and comes again.
 */
static enum rox_verdict rox_exec_invalidate(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	/* Neither our place in an MR nor a sender's without a wire must keep it busy. */
	rox_recv_iter_end(qp);
	if (pkt->burst && pkt->burst->src)
		rox_iter_end(pkt->burst->src);
	if (!pkt->skb)
		rox_kept_release_mrs(pkt->burst->qp);
	switch (rox_key_invalidate(qp, qp->recv.pd, pkt->ext.ieth_rkey)) {
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

/* The payload waits for pages; the packet will be looked at again, as if it had not come. */
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
		v = rox_recv_take(qp);
		if (v)
			return v;
		rox_recv_iter_end(qp);
		recv->kind = ROX_KIND_SEND;
		recv->received = 0;
	}
	if (pkt->payload_len > recv->recv->length - recv->received)
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

/* The RETH of a WRITE: may all of it be written? */
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
	/* What RETH promised and what comes must agree. */
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
	/* A missing receive is found before anything is written. */
	if (imm) {
		v = rox_recv_take(qp);
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
