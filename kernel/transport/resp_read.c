// SPDX-License-Identifier: GPL-2.0
/*
 * Executes READs, ATOMICs and ATOMIC WRITEs, and repeats the response if the requester lost it.
 * IBTA volume 1, 9.7.5.1.3 (duplicates), 9.4.5 (atomics), A19.4 (ATOMIC WRITE).
 */
#include <linux/atomic.h>
#include "internal.h"

/* ---- READ ---- */

/* Fills in the opcodes and the AETH of a burst of responses. */
static void rox_read_opcodes(struct rox_qp *qp, struct rox_burst *b)
{
	struct rox_read_job *job = &qp->recv.read;
	bool begins = !job->sent, ends = job->sent + b->npkts == job->npkts;
	u8 middle = qp->service | IB_OPCODE_RDMA_READ_RESPONSE_MIDDLE;
	u8 last = ends ? qp->service | IB_OPCODE_RDMA_READ_RESPONSE_LAST : middle;

	b->ext.aeth.syndrome = rox_ack_syndrome(qp);
	b->ext.aeth.msn = job->msn;
	if (begins && ends && b->npkts == 1)
		b->op_first = qp->service | IB_OPCODE_RDMA_READ_RESPONSE_ONLY;
	else if (begins)
		b->op_first = qp->service | IB_OPCODE_RDMA_READ_RESPONSE_FIRST;
	else
		b->op_first = b->npkts == 1 ? last : middle;
	b->op_mid = middle;
	b->op_last = last;
}

void rox_read_refused(struct rox_qp *qp)
{
	struct rox_read_job *job = &qp->recv.read;
	u32 first = (job->psn - job->sent) & ROX_PSN_MASK;
	s32 sent = rox_psn_diff(qp->recv.side.sender.refused_psn, first);

	/* Not this READ, or also the one before. A READ that is repeated has older PSNs. */
	if (sent < 0 || sent >= job->npkts) {
		rox_qp_count_add(qp, ROX_CNT_TX_DROP, max(-sent, 1));
		sent = 0;
	}
	job->sent = sent;
	job->psn = rox_psn_add(first, sent);
	job->active = true;
}

static int rox_read_burst(struct rox_qp *qp, struct rox_iter *it)
{
	struct rox_read_job *job = &qp->recv.read;
	u32 offset = job->sent * qp->mtu;
	struct rox_burst b = {};
	int err;

	rox_burst_init(qp, &b, job->psn);
	b.npkts = min(job->npkts - job->sent, ROX_BURST_BYTES / qp->mtu);
	b.len = min(job->len - offset, b.npkts * qp->mtu);
	b.resends = true;
	b.joins = job->npkts > 1;
	b.sender = &qp->recv.side.sender;
	if (b.len)
		b.src = it;
	if (unlikely(job->odp) && b.len) {
		err = rox_fault_ready(&qp->recv.side.pages, it, b.len);
		if (err)
			return err;
	}
	rox_read_opcodes(qp, &b);
	err = rox_xmit(&b);
	if (err)
		return err;
	rox_side_moved(&qp->recv.side, b.len);
	if (unlikely(b.sender->refused)) {
		rox_read_refused(qp);
		return -EBUSY;
	}
	job->psn = rox_psn_add(job->psn, b.npkts);
	job->sent += b.npkts;
	return 0;
}

static void rox_read_nak(struct rox_qp *qp, u32 psn)
{
	rox_qp_count(qp, ROX_CNT_RESP_REM_ACCESS);
	rox_nak_send(qp, ROX_AETH_NAK | ROX_NAK_REM_ACCESS, psn);
}

/*
 * The MR was deregistered or invalidated, or the SRQ destroyed, after the check. The requester of a
 * duplicate may have all responses. Then it ignores the NAK, and the connection goes on.
 */
static void rox_read_failed(struct rox_qp *qp)
{
	struct rox_read_job *job = &qp->recv.read;

	job->active = false;
	rox_read_nak(qp, job->psn);
	if (!job->duplicate)
		rox_qp_fail(qp, IB_EVENT_QP_ACCESS_ERR);
}

int rox_read_responses(struct rox_qp *qp, int bursts)
{
	struct rox_read_job *job = &qp->recv.read;
	struct rox_mem_user who;
	struct rox_iter it;
	int err;

	if (!rox_side_has_room(&qp->recv.side))
		return 0;
	if (unlikely(rox_is_xrc(qp)))
		rox_xrc_read_resume(qp);
	who = rox_peer_memory(qp);
	rox_iter_init(&it, &who, &job->sge, 1, IB_ACCESS_REMOTE_READ);
	if (job->sent)
		rox_iter_seek(&it, (u64)job->sent * qp->mtu);
	while (bursts && job->active) {
		if (!rox_side_has_room(&qp->recv.side)) {
			bursts = 0;
			break;
		}
		err = rox_read_burst(qp, &it);
		if (unlikely(err == -EAGAIN || err == -EBUSY)) {
			if (err == -EBUSY)
				rox_tx_wait(&qp->ep, &qp->recv.side.sender);
			bursts = 0;
			break;
		}
		if (unlikely(err)) {
			rox_read_failed(qp);
			break;
		}
		if (job->sent == job->npkts)
			job->active = false;
		bursts--;
	}
	rox_iter_end(&it);
	return bursts;
}

/* May the memory be read? @odp: set if it is on demand */
static bool rox_read_allowed(struct rox_qp *qp, u32 rkey, u64 va, u32 len, bool *odp)
{
	const struct rox_mem_user who = rox_peer_memory(qp);
	struct rox_mr *mr;

	*odp = false;
	if (!len)
		return true;
	mr = rox_mr_get(&who, rkey, va, len, IB_ACCESS_REMOTE_READ);
	if (IS_ERR(mr))
		return false;
	*odp = mr->type == ROX_MR_ODP;
	rox_mr_put(mr);
	return true;
}

static void rox_read_start(struct rox_qp *qp, const struct rox_pkt *pkt, u32 msn, bool odp,
			   bool duplicate)
{
	struct rox_read_job *job = &qp->recv.read;

	job->active = true;
	job->odp = odp;
	job->duplicate = duplicate;
	job->psn = pkt->bth.psn;
	job->sent = 0;
	job->len = pkt->ext.reth.len;
	job->npkts = max(1U, DIV_ROUND_UP(job->len, qp->mtu));
	job->msn = msn;
	job->sge.addr = pkt->ext.reth.va;
	job->sge.length = pkt->ext.reth.len;
	job->sge.lkey = pkt->ext.reth.rkey;
	if (unlikely(rox_is_xrc(qp)))
		rox_xrc_read_begin(qp);
}

struct rox_rd_res *rox_res_new(struct rox_qp *qp, u8 kind, u32 psn)
{
	struct rox_resp *recv = &qp->recv;
	struct rox_rd_res *res = &recv->res[recv->res_head];

	recv->ack_due = false;
	recv->res_head = (recv->res_head + 1) % recv->num_res;
	res->kind = kind;
	res->first_psn = psn;
	res->npkts = 1;
	return res;
}

enum rox_verdict rox_exec_read(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	struct rox_resp *recv = &qp->recv;
	struct rox_rd_res *res;
	bool odp;

	rox_qp_count(qp, ROX_CNT_RX_READ_REQ);
	if (!(qp->attr.qp_access_flags & IB_ACCESS_REMOTE_READ) || !recv->num_res ||
	    pkt->payload_len || pkt->ext.reth.len > ROX_MAX_MSG_SIZE)
		return ROX_V_INV_REQ;
	if (!rox_read_allowed(qp, pkt->ext.reth.rkey, pkt->ext.reth.va, pkt->ext.reth.len, &odp))
		return ROX_V_REM_ACCESS;
	recv->msn = rox_psn_add(recv->msn, 1);
	rox_read_start(qp, pkt, recv->msn, odp, false);
	res = rox_res_new(qp, pkt->info->kind, pkt->bth.psn);
	res->npkts = recv->read.npkts;
	res->rkey = pkt->ext.reth.rkey;
	res->va = pkt->ext.reth.va;
	res->len = pkt->ext.reth.len;
	res->msn = recv->msn;
	rox_expect(qp, rox_psn_add(recv->epsn, res->npkts));
	return ROX_V_OK;
}

/* ---- ATOMIC ---- */

/* Sends the one packet that answers @res. */
static void rox_res_reply(struct rox_qp *qp, const struct rox_rd_res *res, u8 opcode)
{
	struct rox_burst b = {};

	rox_burst_init(qp, &b, res->first_psn);
	b.op_first = opcode;
	b.ext.aeth.syndrome = rox_ack_syndrome(qp);
	b.ext.aeth.msn = res->msn;
	b.ext.atomic_orig = res->orig;
	rox_xmit(&b);
}

static void rox_atomic_reply(struct rox_qp *qp, const struct rox_rd_res *res)
{
	rox_res_reply(qp, res, qp->service | IB_OPCODE_ATOMIC_ACKNOWLEDGE);
}

u64 rox_atomic_do(atomic64_t *target, u8 kind, u64 swap_add, u64 compare)
{
	if (kind == ROX_KIND_CMP_SWAP)
		return atomic64_cmpxchg(target, compare, swap_add);
	return atomic64_fetch_add(swap_add, target);
}

/* Pages on demand: sets @p to the kernel address of @va, or requests the page if it is missing. */
static noinline enum rox_verdict rox_atomic_on_demand(struct rox_qp *qp, const struct rox_mr *mr,
						      u32 rkey, u64 va, int access, void **p)
{
	const struct rox_mem_user who = rox_peer_memory(qp);
	size_t len = sizeof(u64);

	*p = rox_odp_map(mr, va, access, &len);
	if (*p)
		return (uintptr_t)*p & 7 ? ROX_V_INV_REQ : ROX_V_OK;
	if (rox_fault_in(&qp->recv.side.pages, &who, rkey, va, sizeof(u64), access) == -EAGAIN)
		return ROX_V_HOLD;
	return ROX_V_REM_ACCESS;
}

/* Sets @p to the kernel address of @va, if the eight bytes are aligned and in one block. */
static enum rox_verdict rox_atomic_target(struct rox_qp *qp, const struct rox_mr *mr, u32 rkey,
					  u64 va, int access, void **p)
{
	size_t len = sizeof(u64);

	if (unlikely(mr->type == ROX_MR_ODP))
		return rox_atomic_on_demand(qp, mr, rkey, va, access, p);
	*p = rox_mr_map(mr, va, &len);
	/* The IOVA may be aligned although the memory is not. */
	return len < sizeof(u64) || (uintptr_t)*p & 7 ? ROX_V_INV_REQ : ROX_V_OK;
}

enum rox_verdict rox_exec_atomic(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	const struct rox_mem_user who = rox_peer_memory(qp);
	struct rox_resp *recv = &qp->recv;
	struct rox_rd_res *res;
	enum rox_verdict v;
	struct rox_mr *mr;
	void *p;

	rox_qp_count(qp, ROX_CNT_RX_ATOMIC_REQ);
	if (!(qp->attr.qp_access_flags & IB_ACCESS_REMOTE_ATOMIC) || !recv->num_res ||
	    pkt->payload_len || (pkt->ext.atomic.va & 7))
		return ROX_V_INV_REQ;
	mr = rox_mr_get(&who, pkt->ext.atomic.rkey, pkt->ext.atomic.va, sizeof(u64),
			IB_ACCESS_REMOTE_ATOMIC);
	if (IS_ERR(mr))
		return ROX_V_REM_ACCESS;
	v = rox_atomic_target(qp, mr, pkt->ext.atomic.rkey, pkt->ext.atomic.va,
			      IB_ACCESS_REMOTE_ATOMIC, &p);
	if (v) {
		rox_mr_put(mr);
		return v;
	}
	res = rox_res_new(qp, pkt->info->kind, pkt->bth.psn);
	res->orig = rox_atomic_do(p, pkt->info->kind, pkt->ext.atomic.swap_add,
				  pkt->ext.atomic.compare);
	rox_mr_put(mr);
	recv->msn = rox_psn_add(recv->msn, 1);
	rox_expect(qp, rox_psn_add(recv->epsn, 1));
	res->msn = recv->msn;
	rox_atomic_reply(qp, res);
	return ROX_V_OK;
}

/* ---- ATOMIC WRITE ---- */

/* The response is that to a READ of length 0. */
static void rox_atomic_write_reply(struct rox_qp *qp, const struct rox_rd_res *res)
{
	rox_res_reply(qp, res, IB_OPCODE_RC_RDMA_READ_RESPONSE_ONLY);
}

/*
 * Writes the eight bytes in one access. Whoever reads them also sees the data of the WRITEs
 * before.
 */
static enum rox_verdict rox_atomic_write_do(struct rox_qp *qp, struct rox_mr *mr,
					    const struct rox_pkt *pkt)
{
	enum rox_verdict v;
	u64 value;
	void *p;

	v = rox_atomic_target(qp, mr, pkt->ext.reth.rkey, pkt->ext.reth.va,
			      IB_ACCESS_REMOTE_WRITE, &p);
	if (v)
		return v;
	if (rox_pkt_read(pkt, &value, sizeof(value)))
		return rox_pkt_unread(pkt) ? ROX_V_HOLD : ROX_V_INV_REQ;
	/* After the data of earlier WRITEs; pairs with a barrier of the reader. */
	smp_store_release((u64 *)p, value);
	return ROX_V_OK;
}

enum rox_verdict rox_exec_atomic_write(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	const struct rox_mem_user who = rox_peer_memory(qp);
	struct rox_resp *recv = &qp->recv;
	struct rox_rd_res *res;
	struct rox_mr *mr;
	enum rox_verdict v;

	rox_qp_count(qp, ROX_CNT_RX_WRITE_REQ);
	if (!(qp->attr.qp_access_flags & IB_ACCESS_REMOTE_WRITE) || !recv->num_res ||
	    pkt->ext.reth.len != sizeof(u64) || pkt->payload_len != sizeof(u64) ||
	    (pkt->ext.reth.va & 7))
		return ROX_V_INV_REQ;
	mr = rox_mr_get(&who, pkt->ext.reth.rkey, pkt->ext.reth.va, sizeof(u64),
			IB_ACCESS_REMOTE_WRITE);
	if (IS_ERR(mr))
		return ROX_V_REM_ACCESS;
	v = rox_atomic_write_do(qp, mr, pkt);
	rox_mr_put(mr);
	if (v)
		return v;
	res = rox_res_new(qp, pkt->info->kind, pkt->bth.psn);
	recv->msn = rox_psn_add(recv->msn, 1);
	rox_expect(qp, rox_psn_add(recv->epsn, 1));
	res->msn = recv->msn;
	rox_atomic_write_reply(qp, res);
	return ROX_V_OK;
}

/* ---- duplicates ---- */

/* Return: the newest match, because PSNs are reused and entries do not expire. */
static struct rox_rd_res *rox_res_find(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	struct rox_resp *recv = &qp->recv;
	struct rox_rd_res *res;
	u32 i;

	for (i = 1; i <= recv->num_res; i++) {
		res = &recv->res[(recv->res_head + recv->num_res - i) % recv->num_res];
		if (res->kind == pkt->info->kind &&
		    ((pkt->bth.psn - res->first_psn) & ROX_PSN_MASK) < res->npkts)
			return res;
	}
	return NULL;
}

/*
 * A repeated READ must be the same, or the rest of the original one from some packet on. If its
 * memory is not readable, the answer is a NAK, but the connection goes on: a requester that has had
 * the response long ago ignores the NAK.
 */
static void rox_duplicate_read(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	struct rox_rd_res *res = rox_res_find(qp, pkt);
	u64 skipped;
	bool odp;

	if (!res)
		return;
	skipped = (u64)((pkt->bth.psn - res->first_psn) & ROX_PSN_MASK) * qp->mtu;
	if (pkt->ext.reth.rkey != res->rkey || pkt->ext.reth.va != res->va + skipped ||
	    skipped + pkt->ext.reth.len > res->len)
		return;
	rox_tx_missing(&qp->ep, &qp->path, &qp->recv.side.sender, pkt->bth.psn, true);
	/* XRC: without a PD the SRQ is gone. */
	if (qp->recv.pd &&
	    rox_read_allowed(qp, res->rkey, pkt->ext.reth.va, pkt->ext.reth.len, &odp))
		rox_read_start(qp, pkt, res->msn, odp, true);
	else
		rox_read_nak(qp, pkt->bth.psn);
}

void rox_exec_duplicate(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	struct rox_rd_res *res;

	rox_qp_count(qp, ROX_CNT_DUPLICATE_REQ);
	switch (pkt->info->kind) {
	case ROX_KIND_READ_REQ:
		rox_duplicate_read(qp, pkt);
		break;
	case ROX_KIND_CMP_SWAP:
	case ROX_KIND_FETCH_ADD:
		res = rox_res_find(qp, pkt);
		if (res && res->first_psn == pkt->bth.psn)
			rox_atomic_reply(qp, res);
		break;
	case ROX_KIND_ATOMIC_WRITE:
		res = rox_res_find(qp, pkt);
		if (res && res->first_psn == pkt->bth.psn)
			rox_atomic_write_reply(qp, res);
		break;
	default:
		/* It has been executed: acknowledge it again. */
		qp->recv.ack_due = true;
		break;
	}
}
