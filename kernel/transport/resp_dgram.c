// SPDX-License-Identifier: GPL-2.0
/*
 * Responder of the unreliable services. IBTA volume 1, 9.8.2 (UC: a gap loses the message but
 * does not end the connection), 9.8.3 (UD), 9.9.3 (errors).
 *
 * By 9.9.3 a message that is longer than its receive causes a local error. Here it is dropped and
 * counted, and the receive waits for the next message: anybody may have sent the packet, so it must
 * not put a QP into ERR.
 */
#include <rdma/ib_mad.h>

#include "internal.h"

/* Ignores the rest of the message. The next message uses its receive WQE. */
static void rox_uc_abandon(struct rox_qp *qp)
{
	qp->recv.kind = ROX_KIND_NONE;
	qp->recv.received = 0;
	rox_recv_iter_end(qp);
}

static void rox_uc_verdict(struct rox_qp *qp, const struct rox_pkt *pkt, enum rox_verdict v)
{
	switch (v) {
	case ROX_V_OK:
		break;
	case ROX_V_HOLD:
		rox_expect(qp, pkt->bth.psn);
		rox_recv_hold(qp, pkt);
		break;
	case ROX_V_FATAL:
		rox_qp_fail(qp, IB_EVENT_QP_FATAL);
		break;
	case ROX_V_REM_OP:
		rox_qp_fail(qp, -1);
		break;
	default:
		rox_uc_abandon(qp);
		break;
	}
}

void rox_recv_uc(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	struct rox_resp *recv = &qp->recv;
	bool begins = pkt->info->flags & ROX_OP_FIRST;
	enum rox_verdict v;

	if (pkt->bth.psn != recv->epsn) {
		rox_qp_count(qp, ROX_CNT_OUT_OF_SEQUENCE);
		rox_uc_abandon(qp);
	}
	rox_expect(qp, rox_psn_add(pkt->bth.psn, pkt->npkts));
	if (begins && recv->kind != ROX_KIND_NONE)
		rox_uc_abandon(qp);
	if (!begins && recv->kind != pkt->info->kind)
		return;
	rox_established(qp);
	if (pkt->info->kind == ROX_KIND_SEND)
		v = rox_exec_send(qp, pkt);
	else if (pkt->info->kind == ROX_KIND_WRITE)
		v = rox_exec_write(qp, pkt);
	else
		v = ROX_V_DROP;
	rox_uc_verdict(qp, pkt, v);
}

static bool rox_qkey_ok(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	if (pkt->ext.deth.qkey == qp->attr.qkey)
		return true;
	rox_qp_count(qp, ROX_CNT_RX_QKEY);
	atomic_inc(&qp->dev->qkey_bad);
	return false;
}

/* All MADs have the same length (13.4.2), which the RDMA core reads, however much has come. */
static bool rox_gsi_length_ok(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	if (qp->ibqp.qp_type != IB_QPT_GSI || pkt->payload_len == IB_MGMT_MAD_SIZE)
		return true;
	rox_qp_count(qp, ROX_CNT_RX_MALFORMED);
	return false;
}

/*
 * Has the QP itself sent this multicast packet? Another host may use the same QP number, so the
 * source address is checked, too.
 */
static bool rox_mcast_is_own(const struct rox_qp *qp, const struct rox_pkt *pkt)
{
	struct in6_addr saddr, daddr;

	if (pkt->bth.dqpn != ROX_QPN_MULTICAST || pkt->ext.deth.sqpn != qp->ibqp.qp_num)
		return false;
	rox_pkt_addrs(pkt, &saddr, &daddr);
	return rox_net_has_addr(&qp->dev->net, &saddr, NULL);
}

/* Copies the payload. The device itself looks at MADs (cm.c). */
static int rox_ud_copy(struct rox_qp *qp, const struct rox_pkt *pkt, struct rox_iter *dst)
{
	if (unlikely(qp->ibqp.qp_type == IB_QPT_GSI))
		return rox_cm_receive(qp, pkt, dst);
	return pkt->payload_len ? rox_pkt_copy(pkt, 0, dst, pkt->payload_len) : 0;
}

void rox_recv_ud(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	const struct rox_mem_user who = rox_recv_memory(qp);
	struct rox_resp *recv = &qp->recv;
	u32 len = ROX_GRH_LEN + pkt->payload_len;
	u8 grh[ROX_GRH_LEN];
	enum rox_verdict v;
	struct rox_iter it;
	int err;

	if (pkt->info->kind != ROX_KIND_SEND || !rox_qkey_ok(qp, pkt) ||
	    !rox_gsi_length_ok(qp, pkt))
		return;
	if (unlikely(READ_ONCE(qp->ep.marked)) && !pkt->burst)
		rox_cnp_answer_datagram(qp, pkt);
	if (unlikely(qp->block_mcast_self) && rox_mcast_is_own(qp, pkt))
		return;
	/* A receive that is too short stays in the queue, also for other QPs of an SRQ. */
	v = rox_recv_take(qp, len);
	if (v) {
		if (v != ROX_V_RNR)
			rox_qp_fail(qp, v == ROX_V_FATAL ? IB_EVENT_QP_FATAL : -1);
		return;
	}
	/* If a page of the receive was waited for, it was taken in an earlier run: check again. */
	if (len > recv->recv.length) {
		rox_qp_count(qp, ROX_CNT_RESP_LOC_LEN);
		return;
	}
	rox_pkt_grh(pkt, grh);
	rox_iter_init(&it, &who, recv->recv.sge, recv->recv.num_sge, IB_ACCESS_LOCAL_WRITE);
	it.trim = recv->recv.sge;
	err = rox_iter_write(&it, grh, sizeof(grh));
	if (!err)
		err = rox_ud_copy(qp, pkt, &it);
	if (unlikely(err == -EAGAIN) && !rox_pkt_unread(pkt))
		err = rox_fault_at(&recv->side.pages, &it);
	rox_iter_end(&it);
	if (err == -EAGAIN) {
		rox_recv_hold(qp, pkt);
	} else if (err) {
		rox_recv_complete(qp, IB_WC_LOC_PROT_ERR, NULL, 0);
		rox_qp_fail(qp, -1);
	} else if (rox_recv_complete(qp, IB_WC_SUCCESS, pkt, len)) {
		rox_qp_fail(qp, IB_EVENT_QP_FATAL);
	}
}
