// SPDX-License-Identifier: GPL-2.0
/*
 * The driver's part of `rdma resource show -dd`. It helps to find out why an
 * object hangs. See include/rdma/restrack.h.
 *
 * The core may call this while an object is being destroyed. Members of the object
 * are read without a lock, so each value is a snapshot. Rings, and other memory that
 * an object points to, are read under the mutex with which destroy frees them. They
 * are omitted when they are freed. There is no raw form: the kernel knows
 * all members of an object.
 *
 * Every local user may ask. So no address is reported, neither of the kernel nor of
 * a process.
 */
#include <net/netlink.h>
#include <rdma/restrack.h>
#include <uapi/rdma/rdma_netlink.h>

#include "internal.h"

/* A message that is being filled. After an error nothing is added. */
struct rox_res_out {
	struct sk_buff *msg;
	struct nlattr *table;
	int err;
};

static void rox_res_begin(struct rox_res_out *out, struct sk_buff *msg)
{
	out->msg = msg;
	out->table = nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
	out->err = out->table ? 0 : -EMSGSIZE;
}

static void rox_res_num(struct rox_res_out *out, const char *name, u64 value)
{
	if (!out->err)
		out->err = rdma_nl_put_driver_u64(out->msg, name, value);
}

static void rox_res_hex(struct rox_res_out *out, const char *name, u64 value)
{
	if (!out->err)
		out->err = rdma_nl_put_driver_u64_hex(out->msg, name, value);
}

static void rox_res_str(struct rox_res_out *out, const char *name, const char *value)
{
	if (!out->err)
		out->err = rdma_nl_put_driver_string(out->msg, name, value);
}

/* Reads a value without its lock, while others may change it. */
#define rox_now(_value) data_race(_value)
#define rox_res_snap(_out, _name, _value) rox_res_num(_out, _name, rox_now(_value))

/* Ends the table. After an error all fields are removed. */
static int rox_res_end(struct rox_res_out *out)
{
	if (!out->table)
		return -EMSGSIZE;
	if (out->err) {
		nla_nest_cancel(out->msg, out->table);
		return -EMSGSIZE;
	}
	nla_nest_end(out->msg, out->table);
	return 0;
}

/* ---- QP ---- */

/*
 * After destroy_qp the core drops its reference on the SRQ, and only then waits for this function.
 * So the SRQ is read under the mutex, and only before destroy_qp has freed the rings.
 */
static void rox_res_qp_rings(struct rox_res_out *out, struct rox_qp *qp)
{
	mutex_lock(&qp->modify_lock);
	if (qp->mem.base) {
		if (qp->ibqp.srq)
			rox_res_num(out, "srqn", qp->ibqp.srq->res.id);
		rox_res_num(out, "sq_posted", READ_ONCE(qp->sq.ctrl->producer));
		rox_res_num(out, "sq_asleep",
			    !!(READ_ONCE(qp->sq.ctrl->flags) & ROX_RING_NEED_WAKEUP));
		rox_res_num(out, "rq_posted", READ_ONCE(qp->rq.ctrl->producer));
	}
	mutex_unlock(&qp->modify_lock);
	rox_res_num(out, "sq_entries", qp->sq.entries);
	rox_res_snap(out, "sq_taken", qp->sq.index);
	rox_res_snap(out, "sq_sending", qp->send.cur);
	rox_res_snap(out, "sq_oldest", qp->send.tail);
	rox_res_num(out, "rq_entries", qp->rq.entries);
	rox_res_snap(out, "rq_taken", qp->rq.index);
}

static void rox_res_qp_send(struct rox_res_out *out, const struct rox_send *send)
{
	/* modify_qp may set it to NULL for a moment. */
	const struct rox_cc_ops *ops = READ_ONCE(send->cc.flow.ops);

	rox_res_snap(out, "next_psn", send->next_psn);
	rox_res_snap(out, "send_psn", send->psn);
	rox_res_snap(out, "unacked_psn", send->una);
	rox_res_snap(out, "sent_psn", send->max_psn);
	rox_res_snap(out, "window", send->cc.window);
	if (ops) {
		rox_res_str(out, "cc", ops->name);
		rox_res_snap(out, "cc_window", send->cc.flow.window);
		/* In kbit/s, as the program rdma shows 32 bits. */
		rox_res_num(out, "cc_rate_kbit", div_u64(rox_now(send->cc.flow.rate), 125));
	}
	rox_res_snap(out, "in_flight", (send->psn - send->una) & ROX_PSN_MASK);
	rox_res_snap(out, "reads_outstanding", send->rd_atomic);
	rox_res_snap(out, "ssn", send->ssn);
	/* Omitted if the peer has an SRQ or has not answered yet. */
	if (rox_now(send->credits_valid))
		rox_res_snap(out, "credit_ssn", send->lsn);
	rox_res_snap(out, "retries_left", send->retry);
	rox_res_snap(out, "rnr_retries_left", send->rnr_retry);
	rox_res_snap(out, "timeouts", send->timeouts);
	rox_res_num(out, "rnr_wait", rox_now(send->waits) == ROX_WAIT_RNR);
	rox_res_snap(out, "timer_deadline", send->deadline);
	rox_res_num(out, "peer_keeps_early", rox_now(send->recovery.keeps));
	rox_res_num(out, "send_work", READ_ONCE(send->side.pending));
	rox_res_num(out, "send_frames", skb_queue_len_lockless(&send->side.rxq));
}

static void rox_res_qp_recv(struct rox_res_out *out, const struct rox_resp *recv)
{
	rox_res_snap(out, "expected_psn", recv->epsn);
	rox_res_snap(out, "msn", recv->msn);
	rox_res_snap(out, "nak_sent", recv->nak_sent);
	rox_res_snap(out, "message_received", recv->received);
	rox_res_snap(out, "read_responses", recv->read.active);
	rox_res_num(out, "recv_work", READ_ONCE(recv->side.pending));
	rox_res_num(out, "recv_frames", skb_queue_len_lockless(&recv->side.rxq));
	rox_res_snap(out, "early_bytes", recv->early.bytes);
}

/**
 * rox_fill_res_qp() - adds details of a QP to a netlink message
 * @msg: the message
 * @ibqp: the QP, which may be in the process of being destroyed
 *
 * Process context. Return: 0 or -EMSGSIZE.
 */
int rox_fill_res_qp(struct sk_buff *msg, struct ib_qp *ibqp)
{
	struct rox_qp *qp = to_rox_qp(ibqp);
	struct rox_res_out out;

	rox_res_begin(&out, msg);
	rox_res_snap(&out, "path_mtu", qp->mtu);
	rox_res_num(&out, "user", qp->user);
	rox_res_qp_rings(&out, qp);
	rox_res_qp_send(&out, &qp->send);
	rox_res_qp_recv(&out, &qp->recv);
	return rox_res_end(&out);
}

/* ---- CQ ---- */

static const char *rox_armed_for(u32 flags)
{
	if (flags & ROX_RING_ARM_NEXT)
		return "next";
	return flags & ROX_RING_ARM_SOLICITED ? "solicited" : "nothing";
}

/**
 * rox_fill_res_cq() - adds details of a CQ to a netlink message
 * @msg: the message
 * @ibcq: the CQ, which may be in the process of being destroyed
 *
 * Process context. Return: 0 or -EMSGSIZE.
 */
int rox_fill_res_cq(struct sk_buff *msg, struct ib_cq *ibcq)
{
	struct rox_cq *cq = to_rox_cq(ibcq);
	struct rox_res_out out;

	rox_res_begin(&out, msg);
	mutex_lock(&cq->resize_lock);
	if (cq->mem.base) {
		rox_res_num(&out, "consumed", READ_ONCE(cq->ring.ctrl->consumer));
		rox_res_str(&out, "armed", rox_armed_for(READ_ONCE(cq->ring.ctrl->flags)));
	}
	rox_res_snap(&out, "produced", cq->ring.index);
	rox_res_num(&out, "entries", cq->ring.entries);
	mutex_unlock(&cq->resize_lock);
	rox_res_snap(&out, "waited_for", cq->waited_for);
	rox_res_num(&out, "timestamps", !!(cq->flags & ROX_CQ_TIMESTAMP));
	rox_res_snap(&out, "error", cq->error);
	return rox_res_end(&out);
}

/* ---- MR ---- */

static const char *rox_mr_type_name(const struct rox_mr *mr)
{
	switch (mr->type) {
	case ROX_MR_DMA:
		return "dma";
	case ROX_MR_USER:
		return mr->dmabuf ? "dmabuf" : "user";
	case ROX_MR_FRWR:
		return "fast_registration";
	case ROX_MR_ODP:
		return "on_demand";
	default:
		return "other";
	}
}

/**
 * rox_fill_res_mr() - adds details of an MR to a netlink message
 * @msg: the message
 * @ibmr: the MR, which may be in the process of being destroyed
 *
 * The core shows the keys, to privileged users only. The address is omitted: for a fast
 * registration it is a kernel address. The offset in the first block is omitted too: as a block
 * can have 2 GiB, the offset would reveal bits of the address.
 *
 * Process context. Return: 0 or -EMSGSIZE.
 */
int rox_fill_res_mr(struct sk_buff *msg, struct ib_mr *ibmr)
{
	const struct rox_mr *mr = to_rox_mr(ibmr);
	struct rox_res_out out;

	rox_res_begin(&out, msg);
	rox_res_str(&out, "type", rox_mr_type_name(mr));
	rox_res_hex(&out, "access", rox_now(mr->access));
	rox_res_snap(&out, "valid", mr->valid);
	rox_res_snap(&out, "block_size", 1ULL << mr->page_shift);
	rox_res_snap(&out, "blocks", mr->nblocks);
	rox_res_num(&out, "references", refcount_read(&mr->ref));
	return rox_res_end(&out);
}

/* ---- SRQ ---- */

/**
 * rox_fill_res_srq() - adds details of an SRQ to a netlink message
 * @msg: the message
 * @ibsrq: the SRQ, which may be in the process of being destroyed
 *
 * Process context. Return: 0 or -EMSGSIZE.
 */
int rox_fill_res_srq(struct sk_buff *msg, struct ib_srq *ibsrq)
{
	struct rox_srq *srq = to_rox_srq(ibsrq);
	struct rox_res_out out;

	rox_res_begin(&out, msg);
	mutex_lock(&srq->resize_lock);
	if (srq->mem.base)
		rox_res_num(&out, "posted", READ_ONCE(srq->ring.ctrl->producer));
	rox_res_snap(&out, "taken", srq->ring.index);
	rox_res_num(&out, "entries", srq->ring.entries);
	mutex_unlock(&srq->resize_lock);
	rox_res_num(&out, "max_sge", srq->max_sge);
	rox_res_snap(&out, "limit", srq->limit);
	rox_res_snap(&out, "error", srq->error);
	return rox_res_end(&out);
}
