// SPDX-License-Identifier: GPL-2.0
/*
 * The shortest way for the most frequent requests to a QP of the same device: a WRITE or ATOMIC of
 * one packet, or a READ of one burst, that the peer waits for. It has all effects of the packets of
 * request and response, but makes none. Where anything is unusual it does nothing, and the request
 * takes the way of all others.
 */
#include "internal.h"

/*
 * Would the peer execute a request with this PSN at once, without an answer but its response or
 * ACK? With the lock of its receive side.
 */
static bool rox_quick_is_next(struct rox_qp *peer, u32 psn, int access)
{
	struct rox_resp *recv = &peer->recv;

	return recv->epsn == psn && recv->kind == ROX_KIND_NONE && recv->comm_est &&
	       rox_can_receive(peer) && peer->attr.qp_access_flags & access &&
	       skb_queue_empty_lockless(&recv->side.rxq) && RB_EMPTY_ROOT(&recv->early.tree) &&
	       !(recv->rx.skb || recv->read.active || recv->holding) &&
	       !rox_fault_busy(&recv->side.pages);
}

/* Counts packets from @qp to @peer, and shows them to who traces packets. */
static inline void rox_quick_packets(const struct rox_qp *qp, const struct rox_qp *peer,
				     u8 opcode, u32 psn, u32 npkts, u32 len)
{
	u32 octets = npkts * (ROX_BTH_LEN + ROX_ICRC_LEN) + ALIGN(len, 4) +
		     min(npkts, 2U) * rox_opcodes[opcode].ext_len;

	rox_qp_count(qp, ROX_CNT_TX_BURSTS);
	rox_qp_count_add(qp, ROX_CNT_TX_PKTS, npkts);
	rox_qp_count_add(qp, ROX_CNT_TX_BYTES, len);
	rox_qp_count_add(qp, ROX_CNT_TX_OCTETS, octets);
	rox_qp_count(peer, ROX_CNT_RX_BURSTS);
	rox_qp_count_add(peer, ROX_CNT_RX_PKTS, npkts);
	rox_qp_count_add(peer, ROX_CNT_RX_BYTES, len);
	rox_qp_count_add(peer, ROX_CNT_RX_OCTETS, octets);
	trace_rox_packet_out(qp->ibqp.qp_num, peer->ibqp.qp_num, opcode, psn, npkts, len);
	trace_rox_packet_in(peer->ibqp.qp_num, peer->ibqp.qp_num, opcode, psn, npkts, len);
}

/* The peer has executed the request. */
static void rox_quick_done(struct rox_qp *peer, struct rox_swqe *wqe)
{
	struct rox_resp *recv = &peer->recv;

	rox_side_moved(&recv->side, wqe->length);
	recv->nak_sent = false;
	recv->nak_due = false;
	rox_expect(peer, rox_psn_add(recv->epsn, wqe->npkts));
	recv->msn = rox_psn_add(recv->msn, 1);
	recv->ack_due = true;
	wqe->sent = wqe->npkts;
}

/* ---- WRITE ---- */

/* Return: where the payload is in one piece; NULL: it is not, or that is not known. */
static const void *rox_quick_source(struct rox_qp *qp, struct rox_swqe *wqe, u32 index)
{
	const struct rox_iter *it;

	if (wqe->inl)
		return wqe->sge;
	it = rox_send_iter(qp, wqe, index, 0);
	return it->left >= wqe->length ? it->at : NULL;
}

/* Into the region that was used last: the first WRITE of a run is a packet, which finds it. */
static bool rox_quick_write(struct rox_qp *peer, struct rox_qp *qp, struct rox_swqe *wqe, u32 index)
{
	const struct rox_mem_user who = rox_peer_memory(peer);
	const void *src = rox_quick_source(qp, wqe, index);
	void *dst;

	if (!src || wqe->length > peer->mtu)
		return false;
	dst = rox_mr_keep_find(&qp->send.kept.dst, &who, wqe->rkey, wqe->remote_addr,
			       wqe->length, IB_ACCESS_REMOTE_WRITE);
	if (!dst)
		return false;
	rox_qp_count(peer, ROX_CNT_RX_WRITE_REQ);
	rox_quick_packets(qp, peer, IB_OPCODE_RC_RDMA_WRITE_ONLY, wqe->first_psn, 1, wqe->length);
	rox_copy(dst, src, wqe->length);
	return true;
}

/* ---- READ and ATOMIC ---- */

/*
 * Would its response be the next that the requester waits for? Not if those to older requests are
 * missing. The peer sends it to its own peer.
 */
static bool rox_quick_is_awaited(const struct rox_qp *qp, const struct rox_qp *peer)
{
	return !qp->send.rd_atomic && peer->recv.num_res && qp->mtu == peer->mtu &&
	       peer->attr.dest_qp_num == qp->ibqp.qp_num &&
	       skb_queue_empty_lockless(&qp->send.side.rxq);
}

static int rox_quick_copy(struct rox_iter *to, struct rox_iter *from, u32 len)
{
	void *p = rox_iter_piece(from, len);
	ssize_t n;
	int err;

	if (likely(p))
		return rox_iter_write(to, p, len);
	for (; len; len -= n) {
		n = rox_iter_next(from, len, &p);
		if (n <= 0)
			return n ? (int)n : -EMSGSIZE;
		err = rox_iter_write(to, p, n);
		if (err)
			return err;
	}
	return 0;
}

/* Return: false if the memory of either end is not what it has to be. */
static bool rox_quick_atomic(const struct rox_swqe *wqe, struct rox_iter *to, struct rox_iter *from,
			     u64 *orig)
{
	atomic64_t *target = rox_iter_piece(from, sizeof(*orig));

	if (!target || (wqe->remote_addr | (uintptr_t)target) & (sizeof(*orig) - 1))
		return false;
	if (!to->left && (to->num_sge > 1 || rox_iter_begin(to)))
		return false;
	if (to->left < sizeof(*orig))
		return false;
	if (wqe->opcode == IB_WR_ATOMIC_CMP_AND_SWP)
		*orig = rox_atomic_do(target, ROX_KIND_CMP_SWAP, wqe->swap, wqe->compare_add);
	else
		*orig = rox_atomic_do(target, ROX_KIND_FETCH_ADD, wqe->compare_add, 0);
	return !rox_iter_write(to, orig, sizeof(*orig));
}

/* Fetches the data, if both ends have memory for it. */
static bool rox_quick_move(struct rox_qp *peer, struct rox_qp *qp, struct rox_swqe *wqe, u32 index,
			   int access, u64 *orig)
{
	const struct rox_sge sge = {
		.addr = wqe->remote_addr, .length = wqe->length, .lkey = wqe->rkey,
	};
	const struct rox_mem_user who = rox_peer_memory(peer);
	struct rox_iter *to = rox_send_iter(qp, wqe, index, 0), from;
	bool done = false;

	rox_iter_init(&from, &who, &sge, 1, access);
	from.keep = &qp->send.kept.dst;
	if (!rox_iter_begin(&from))
		done = rox_wqe_is_read(wqe) ? !rox_quick_copy(to, &from, wqe->length) :
					      rox_quick_atomic(wqe, to, &from, orig);
	rox_iter_end(&from);
	if (likely(done)) {
		qp->send.iter_off += wqe->length;
		return true;
	}
	rox_send_iter_end(qp);
	rox_mr_keep_drop(from.keep);
	return false;
}

/* As any peer, this one remembers the request: it is repeated if the ACK for several is lost. */
static void rox_quick_remember(struct rox_qp *peer, const struct rox_swqe *wqe, u8 kind, u64 orig)
{
	struct rox_rd_res *res = rox_res_new(peer, kind, wqe->first_psn);

	res->npkts = wqe->npkts;
	res->rkey = wqe->rkey;
	res->va = wqe->remote_addr;
	res->len = wqe->length;
	res->msn = rox_psn_add(peer->recv.msn, 1);
	res->orig = orig;
}

static bool rox_quick_read(struct rox_qp *peer, struct rox_qp *qp, struct rox_swqe *wqe, u32 index)
{
	if (!rox_quick_is_awaited(qp, peer) ||
	    !rox_quick_move(peer, qp, wqe, index, IB_ACCESS_REMOTE_READ, NULL))
		return false;
	rox_quick_remember(peer, wqe, ROX_KIND_READ_REQ, 0);
	rox_qp_count(peer, ROX_CNT_RX_READ_REQ);
	rox_quick_packets(qp, peer, IB_OPCODE_RC_RDMA_READ_REQUEST, wqe->first_psn, 1, 0);
	rox_quick_packets(peer, qp, IB_OPCODE_RC_RDMA_READ_RESPONSE_ONLY, wqe->first_psn,
			  wqe->npkts, wqe->length);
	wqe->fetched = true;
	return true;
}

static bool rox_quick_fetch_atomic(struct rox_qp *peer, struct rox_qp *qp, struct rox_swqe *wqe,
				   u32 index)
{
	bool swaps = wqe->opcode == IB_WR_ATOMIC_CMP_AND_SWP;
	u64 orig;

	if (!rox_quick_is_awaited(qp, peer) ||
	    !rox_quick_move(peer, qp, wqe, index, IB_ACCESS_REMOTE_ATOMIC, &orig))
		return false;
	rox_quick_remember(peer, wqe, swaps ? ROX_KIND_CMP_SWAP : ROX_KIND_FETCH_ADD, orig);
	rox_qp_count(peer, ROX_CNT_RX_ATOMIC_REQ);
	rox_quick_packets(qp, peer, swaps ? IB_OPCODE_RC_COMPARE_SWAP : IB_OPCODE_RC_FETCH_ADD,
			  wqe->first_psn, 1, 0);
	rox_quick_packets(peer, qp, IB_OPCODE_RC_ATOMIC_ACKNOWLEDGE, wqe->first_psn, 1, 0);
	wqe->fetched = true;
	return true;
}

/* ---- all of them ---- */

static int rox_quick_access(const struct rox_swqe *wqe)
{
	if (likely(wqe->opcode == IB_WR_RDMA_WRITE))
		return IB_ACCESS_REMOTE_WRITE;
	return rox_wqe_is_read(wqe) ? IB_ACCESS_REMOTE_READ : IB_ACCESS_REMOTE_ATOMIC;
}

/* The responder's part, with the lock of its side. Return: false if it is not as quick as that. */
static bool rox_quick_execute(struct rox_qp *peer, struct rox_qp *qp, struct rox_swqe *wqe,
			      u32 index)
{
	if (!rox_quick_is_next(peer, wqe->first_psn, rox_quick_access(wqe)))
		return false;
	if (likely(wqe->opcode == IB_WR_RDMA_WRITE))
		return rox_quick_write(peer, qp, wqe, index);
	if (rox_wqe_is_read(wqe))
		return rox_quick_read(peer, qp, wqe, index);
	return rox_quick_fetch_atomic(peer, qp, wqe, index);
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

bool rox_quick_now(struct rox_qp *qp, struct rox_swqe *wqe, u32 index, bool more)
{
	struct rox_send *send = &qp->send;
	struct rox_qp *peer;
	bool done;

	/* Packets that are repeated are counted, and a capture shows packets. */
	if (send->psn != send->max_psn || rox_mirrors())
		return false;
	peer = rox_quick_peer(qp);
	if (!peer || !rox_side_try(&peer->recv.side))
		return false;
	done = rox_quick_execute(peer, qp, wqe, index);
	if (likely(done)) {
		rox_quick_done(peer, wqe);
		rox_cc_time(qp, send->psn, rox_psn_add(send->psn, 1));
		rox_cc_charge(qp, wqe->length);
		send->asked = rox_psn_add(send->psn, wqe->npkts);
		send->kept.unanswered = more;
		rox_side_moved(&send->side, wqe->length);
		if (!more && wqe->fetched)
			rox_response_direct(peer, qp);
		else if (!more)
			rox_ack_direct(peer, qp);
	}
	rox_side_release(&peer->recv.side);
	return done;
}
