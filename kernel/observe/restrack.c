// SPDX-License-Identifier: GPL-2.0
/*
 * Our part of `rdma resource show -dd`: what one wants to know of an object
 * that hangs.
 *
 * The core may ask while an object is being destroyed, when its rings are gone
 * already: only fields of the object itself are read here. Nothing is locked,
 * the values are those of some recent moment each.
 */
#include <net/netlink.h>
#include <rdma/restrack.h>
#include <uapi/rdma/rdma_netlink.h>

#include "../verbs/verbs.h"
#include "restrack.h"

struct rox_res_field {
	const char *name;
	u64 value;
};

/* All fields or none. */
static int rox_put_fields(struct sk_buff *msg, const struct rox_res_field *field,
			  unsigned int num)
{
	struct nlattr *table;

	table = nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
	if (!table)
		return -EMSGSIZE;
	for (; num; num--, field++) {
		if (rdma_nl_put_driver_u64(msg, field->name, field->value)) {
			nla_nest_cancel(msg, table);
			return -EMSGSIZE;
		}
	}
	nla_nest_end(msg, table);
	return 0;
}

int rox_fill_res_qp(struct sk_buff *msg, struct ib_qp *ibqp)
{
	const struct rox_qp *qp = to_rox_qp(ibqp);
	const struct rox_send *send = &qp->send;
	const struct rox_resp *recv = &qp->recv;
	const struct rox_res_field fields[] = {
		{ "state", rox_qp_state(qp) },
		{ "dest_qpn", qp->attr.dest_qp_num },
		{ "path_mtu", qp->mtu },
		{ "sq_taken", qp->sq.index },
		{ "sq_sending", send->cur },
		{ "sq_oldest", send->tail },
		{ "next_psn", send->next_psn },
		{ "unacked_psn", send->una },
		{ "retries_left", send->retry },
		{ "rnr_retries_left", send->rnr_retry },
		{ "rnr_wait", send->waiting_rnr },
		{ "timer_deadline", send->deadline },
		{ "reads_outstanding", send->rd_atomic },
		{ "send_work", READ_ONCE(send->side.pending) },
		{ "send_frames", skb_queue_len_lockless(&send->side.rxq) },
		{ "rq_taken", qp->rq.index },
		{ "expected_psn", recv->epsn },
		{ "msn", recv->msn },
		{ "recv_work", READ_ONCE(recv->side.pending) },
		{ "recv_frames", skb_queue_len_lockless(&recv->side.rxq) },
	};

	return rox_put_fields(msg, fields, ARRAY_SIZE(fields));
}

int rox_fill_res_cq(struct sk_buff *msg, struct ib_cq *ibcq)
{
	const struct rox_cq *cq = to_rox_cq(ibcq);
	const struct rox_res_field fields[] = {
		{ "entries", cq->ring.entries },
		{ "produced", cq->ring.index },
		{ "error", cq->error },
	};

	return rox_put_fields(msg, fields, ARRAY_SIZE(fields));
}

int rox_fill_res_mr(struct sk_buff *msg, struct ib_mr *ibmr)
{
	const struct rox_mr *mr = to_rox_mr(ibmr);
	const struct rox_res_field fields[] = {
		{ "type", mr->type },
		{ "access", mr->access },
		{ "block_size", 1ULL << mr->page_shift },
		{ "blocks", mr->nblocks },
		{ "references", refcount_read(&mr->ref) },
	};

	return rox_put_fields(msg, fields, ARRAY_SIZE(fields));
}

int rox_fill_res_srq(struct sk_buff *msg, struct ib_srq *ibsrq)
{
	const struct rox_srq *srq = to_rox_srq(ibsrq);
	const struct rox_res_field fields[] = {
		{ "entries", srq->ring.entries },
		{ "taken", srq->ring.index },
		{ "max_sge", srq->max_sge },
		{ "limit", srq->limit },
		{ "error", srq->error },
	};

	return rox_put_fields(msg, fields, ARRAY_SIZE(fields));
}
