// SPDX-License-Identifier: GPL-2.0
/*
 * The shortest way for the most frequent request: a WRITE of one packet to a QP of the same device
 * that waits for exactly that packet, into the region that was written last. It has all effects of
 * the packet, of which it makes none. Where anything is unusual it does nothing, and the request
 * takes the way of all others.
 */
#include "internal.h"

/*
 * Would the peer execute a WRITE of @len bytes with this PSN at once, without an answer but the
 * ACK? With the lock of its receive side.
 */
static bool rox_quick_is_next(struct rox_qp *peer, u32 psn, u32 len)
{
	struct rox_resp *recv = &peer->recv;

	return recv->epsn == psn && recv->kind == ROX_KIND_NONE && recv->comm_est &&
	       rox_can_receive(peer) && len <= peer->mtu &&
	       peer->attr.qp_access_flags & IB_ACCESS_REMOTE_WRITE &&
	       skb_queue_empty_lockless(&recv->side.rxq) && RB_EMPTY_ROOT(&recv->early.tree) &&
	       !(recv->rx.skb || recv->read.active || recv->holding) &&
	       !rox_fault_busy(&recv->side.pages);
}

/* Return: where the payload is in one piece; NULL: it is not, or that is not known. */
static const void *rox_quick_source(struct rox_qp *qp, struct rox_swqe *wqe, u32 index)
{
	const struct rox_iter *it;

	if (wqe->inl)
		return wqe->sge;
	it = rox_send_iter(qp, wqe, index, 0);
	return it->left >= wqe->length ? it->at : NULL;
}

static void rox_quick_count(const struct rox_qp *qp, const struct rox_qp *peer, u32 len)
{
	u32 octets = ROX_BTH_LEN + rox_opcodes[IB_OPCODE_RC_RDMA_WRITE_ONLY].ext_len +
		     ALIGN(len, 4) + ROX_ICRC_LEN;

	rox_qp_count(qp, ROX_CNT_TX_BURSTS);
	rox_qp_count(qp, ROX_CNT_TX_PKTS);
	rox_qp_count_add(qp, ROX_CNT_TX_BYTES, len);
	rox_qp_count_add(qp, ROX_CNT_TX_OCTETS, octets);
	rox_qp_count(peer, ROX_CNT_RX_BURSTS);
	rox_qp_count(peer, ROX_CNT_RX_PKTS);
	rox_qp_count_add(peer, ROX_CNT_RX_BYTES, len);
	rox_qp_count_add(peer, ROX_CNT_RX_OCTETS, octets);
	rox_qp_count(peer, ROX_CNT_RX_WRITE_REQ);
}

/* The responder's part, with the lock of its side. Return: false if it is not as quick as that. */
static bool rox_quick_execute(struct rox_qp *peer, struct rox_qp *qp, const struct rox_swqe *wqe,
			      const void *src)
{
	const struct rox_mem_user who = rox_peer_memory(peer);
	struct rox_resp *recv = &peer->recv;
	void *dst;

	if (!rox_quick_is_next(peer, wqe->first_psn, wqe->length))
		return false;
	dst = rox_mr_keep_find(&qp->send.kept.dst, &who, wqe->rkey, wqe->remote_addr,
			       wqe->length, IB_ACCESS_REMOTE_WRITE);
	if (!dst)
		return false;
	rox_quick_count(qp, peer, wqe->length);
	trace_rox_packet_in(peer->ibqp.qp_num, peer->ibqp.qp_num, IB_OPCODE_RC_RDMA_WRITE_ONLY,
			    wqe->first_psn, 1, wqe->length);
	rox_side_moved(&recv->side, wqe->length);
	rox_copy(dst, src, wqe->length);
	recv->nak_sent = false;
	recv->nak_due = false;
	rox_expect(peer, rox_psn_add(recv->epsn, 1));
	recv->msn = rox_psn_add(recv->msn, 1);
	recv->ack_due = true;
	return true;
}

/* Return: the peer, if packets to it go by loopback and it hears them; else NULL. */
static struct rox_qp *rox_quick_peer(struct rox_qp *qp)
{
	u16 pkey = rox_qp_pkey(qp);
	struct rox_qp *peer;

	if (!rox_loops_back(&qp->path, pkey))
		return NULL;
	peer = rox_send_peer(qp);
	if (!peer || peer->ibqp.qp_type != IB_QPT_RC || !rox_hears_local(peer, &qp->path) ||
	    !rox_pkey_match(rox_qp_pkey(peer), pkey))
		return NULL;
	return peer;
}

bool rox_quick_write_now(struct rox_qp *qp, struct rox_swqe *wqe, u32 index, bool more)
{
	struct rox_send *send = &qp->send;
	struct rox_qp *peer;
	const void *src;
	bool done;

	/* Packets that are repeated are counted, and a capture shows packets. */
	if (send->psn != send->max_psn || rox_mirrors())
		return false;
	peer = rox_quick_peer(qp);
	src = peer ? rox_quick_source(qp, wqe, index) : NULL;
	if (!src || !rox_side_try(&peer->recv.side))
		return false;
	done = rox_quick_execute(peer, qp, wqe, src);
	if (likely(done)) {
		trace_rox_packet_out(qp->ibqp.qp_num, peer->ibqp.qp_num,
				     IB_OPCODE_RC_RDMA_WRITE_ONLY, wqe->first_psn, 1, wqe->length);
		rox_cc_time(qp, send->psn, rox_psn_add(send->psn, 1));
		rox_cc_charge(qp, wqe->length);
		send->asked = rox_psn_add(send->psn, 1);
		send->kept.unanswered = more;
		rox_side_moved(&send->side, wqe->length);
		wqe->sent = 1;
		if (!more)
			rox_ack_direct(peer, qp);
	}
	rox_side_release(&peer->recv.side);
	return done;
}
