// SPDX-License-Identifier: GPL-2.0
/*
 * Queue pairs: create, query, destroy. Modify is in modify.c.
 */
#include "internal.h"

/* ---- create ---- */

static bool rox_type_is_xrc(enum ib_qp_type type)
{
	return type == IB_QPT_XRC_INI || type == IB_QPT_XRC_TGT;
}

/* An XRC initiator has no receive queue. An XRC target has no queues. */
static void rox_qp_trim_caps(struct ib_qp_init_attr *init)
{
	if (!rox_type_is_xrc(init->qp_type))
		return;
	init->srq = NULL;
	init->cap.max_recv_wr = 0;
	init->cap.max_recv_sge = 0;
	if (init->qp_type == IB_QPT_XRC_INI)
		return;
	init->cap.max_send_wr = 0;
	init->cap.max_send_sge = 0;
	init->cap.max_inline_data = 0;
}

static int rox_qp_check_caps(const struct ib_qp_init_attr *init)
{
	const struct ib_qp_cap *cap = &init->cap;

	if (cap->max_send_wr > ROX_MAX_QP_WR || cap->max_send_sge > ROX_MAX_SGE ||
	    cap->max_inline_data > ROX_MAX_INLINE)
		return -EINVAL;
	if (!init->srq && (cap->max_recv_wr > ROX_MAX_QP_WR || cap->max_recv_sge > ROX_MAX_SGE))
		return -EINVAL;
	return 0;
}

static int rox_qp_check_init(const struct ib_qp *ibqp, const struct ib_qp_init_attr *init,
			     bool user)
{
	switch (init->qp_type) {
	case IB_QPT_RC:
	case IB_QPT_UC:
	case IB_QPT_UD:
		break;
	case IB_QPT_XRC_INI:
		/* Work requests of kernel users have no field for the number of an SRQ. */
		if (!user)
			return -EOPNOTSUPP;
		break;
	case IB_QPT_XRC_TGT:
		if (!init->xrcd)
			return -EINVAL;
		break;
	case IB_QPT_GSI:
		if (!rdma_is_port_valid(ibqp->device, init->port_num))
			return -EINVAL;
		break;
	default:
		return -EOPNOTSUPP;
	}
	if (init->rwq_ind_tbl || (init->create_flags & ~IB_QP_CREATE_BLOCK_MULTICAST_LOOPBACK))
		return -EOPNOTSUPP;
	if (init->create_flags && init->qp_type != IB_QPT_UD)
		return -EINVAL;
	if (!init->send_cq && init->qp_type != IB_QPT_XRC_TGT)
		return -EINVAL;
	if (!init->recv_cq && !rox_type_is_xrc(init->qp_type))
		return -EINVAL;
	return rox_qp_check_caps(init);
}

/*
 * Smallest send queue of a process. There are programs that need more places than they ask for:
 * perftest with -e asks for one. If an event comes before its completion can be polled, it posts
 * the next message without having polled.
 */
#define ROX_LEAST_SEND_WR 8U

/*
 * Computes the layout of the rings and the QP's capabilities. A send WQE has room for either the
 * SGE list or inline data. The capabilities include the room that rounding adds.
 */
static int rox_qp_layout(struct rox_qp *qp, const struct ib_qp_init_attr *init, bool user,
			 struct rox_ring_layout *layout, struct rox_create_qp_resp *resp)
{
	const struct ib_qp_cap *want = &init->cap;
	struct ib_qp_cap *cap = &qp->cap;
	u32 entries = want->max_send_wr, room, stride;
	int err;

	if (user && entries)
		entries = max(entries, ROX_LEAST_SEND_WR);

	room = max_t(u32, want->max_send_sge * sizeof(struct rox_sge), want->max_inline_data);
	stride = ALIGN(sizeof(struct rox_send_wqe) + max_t(u32, room, sizeof(struct rox_sge)),
		       ROX_CACHE_LINE);
	room = stride - sizeof(struct rox_send_wqe);
	err = rox_ring_layout_add(layout, entries, stride, &resp->sq);
	if (err)
		return err;
	cap->max_send_wr = resp->sq.entries;
	cap->max_send_sge = min_t(u32, room / sizeof(struct rox_sge), ROX_MAX_SGE);
	cap->max_inline_data = min_t(u32, room, ROX_MAX_INLINE);

	if (!init->srq)
		cap->max_recv_sge = max(want->max_recv_sge, 1U);
	stride = sizeof(struct rox_recv_wqe) + cap->max_recv_sge * sizeof(struct rox_sge);
	err = rox_ring_layout_add(layout, init->srq ? 0 : want->max_recv_wr, stride, &resp->rq);
	cap->max_recv_wr = resp->rq.entries;
	return err;
}

static int rox_qp_create_rings(struct rox_qp *qp, const struct ib_qp_init_attr *init,
			       struct ib_udata *udata)
{
	const size_t whole = offsetofend(struct rox_create_qp_resp, place);
	struct rox_create_qp_resp resp = {};
	struct rox_ring_layout layout = {};
	struct rox_offer offer = {};
	int err;

	err = rox_qp_layout(qp, init, udata, &layout, &resp);
	if (err)
		return err;
	err = rox_rings_alloc(&qp->mem, layout.size, udata, rox_udata_knows(udata, whole), &offer);
	if (err)
		return err;
	rox_ring_init(&qp->sq, &qp->mem, &resp.sq);
	rox_ring_init(&qp->rq, &qp->mem, &resp.rq);
	if (!udata)
		return 0;

	resp.map = offer.map;
	resp.place = offer.place;
	err = rox_udata_put(udata, &resp, sizeof(resp));
	if (err)
		rox_rings_free(&qp->mem);
	return err;
}

static u8 rox_qp_service(enum ib_qp_type type)
{
	switch (type) {
	case IB_QPT_RC:
		return ROX_SERVICE_RC;
	case IB_QPT_UC:
		return ROX_SERVICE_UC;
	case IB_QPT_XRC_INI:
	case IB_QPT_XRC_TGT:
		return ROX_SERVICE_XRC;
	default:
		return ROX_SERVICE_UD;
	}
}

static void rox_qp_init(struct rox_qp *qp, const struct ib_qp_init_attr *init, bool user)
{
	int mtu;

	qp->dev = to_rox_dev(qp->ibqp.device);
	qp->ep.counters = qp->dev->stats.counters;
	/* XRC targets belong to processes, but the RDMA core creates them without udata. */
	qp->user = user || init->qp_type == IB_QPT_XRC_TGT;
	qp->service = rox_qp_service(init->qp_type);
	qp->sq_sig_all = init->sq_sig_type == IB_SIGNAL_ALL_WR;
	qp->block_mcast_self = init->create_flags & IB_QP_CREATE_BLOCK_MULTICAST_LOOPBACK;
	qp->state = IB_QPS_RESET;
	qp->attr.path_mig_state = IB_MIG_MIGRATED;
	qp->pkey = qp->dev->pkeys;
	mtu = ib_mtu_enum_to_int(READ_ONCE(qp->dev->mtu));
	qp->mtu = mtu > 0 ? mtu : ib_mtu_enum_to_int(IB_MTU_256);
	INIT_LIST_HEAD(&qp->cm_reqs);
	spin_lock_init(&qp->state_lock);
	spin_lock_init(&qp->sq_post_lock);
	spin_lock_init(&qp->rq_post_lock);
	mutex_init(&qp->modify_lock);
	qp->memcg = qp->user ? get_mem_cgroup_from_mm(current->mm) : NULL;
}

static int rox_qp_build(struct rox_qp *qp, const struct ib_qp_init_attr *init,
			struct ib_udata *udata)
{
	const struct rox_ucontext *uc = NULL;
	int err;

	if (udata)
		uc = to_rox_ucontext(rox_udata_context(udata));
	qp->engines = uc ? uc->engines : NULL;
	err = rox_qp_reserve(qp, uc ? uc->number : 0);
	if (err)
		return err;
	err = rox_qp_create_rings(qp, init, udata);
	if (err)
		goto err_slot;
	err = rox_transport_init(qp);
	if (err)
		goto err_rings;
	err = rox_qp_publish(qp);
	if (err)
		goto err_transport;
	return 0;

err_transport:
	rox_transport_destroy(qp);
err_rings:
	rox_rings_free(&qp->mem);
err_slot:
	rox_qp_cancel(qp);
	return err;
}

int rox_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *init, struct ib_udata *udata)
{
	struct rox_dev *dev = to_rox_dev(ibqp->device);
	struct rox_qp *qp = to_rox_qp(ibqp);
	u32 flags;
	int err;

	rox_qp_trim_caps(init);
	err = rox_qp_check_init(ibqp, init, udata);
	if (err)
		return err;
	err = rox_udata_get_flags(udata, 0, &flags) ?:
	      rox_udata_has_room(udata, offsetofend(struct rox_create_qp_resp, rq));
	if (err)
		return err;
	err = rox_count_object(&dev->num_qp, ROX_MAX_QP);
	if (err)
		return err;
	rox_qp_init(qp, init, udata);
	err = rox_qp_build(qp, init, udata);
	if (err) {
		mem_cgroup_put(qp->memcg);
		atomic_dec(&dev->num_qp);
		return err;
	}
	init->cap.max_send_wr = qp->cap.max_send_wr;
	init->cap.max_recv_wr = qp->cap.max_recv_wr;
	init->cap.max_send_sge = qp->cap.max_send_sge;
	init->cap.max_recv_sge = qp->cap.max_recv_sge;
	init->cap.max_inline_data = qp->cap.max_inline_data;
	return 0;
}

/* ---- query, destroy ---- */

int rox_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		 struct ib_qp_init_attr *init)
{
	struct rox_qp *qp = to_rox_qp(ibqp);
	unsigned long flags;

	spin_lock_irqsave(&qp->state_lock, flags);
	*attr = qp->attr;
	attr->qp_state = qp->state;
	attr->cur_qp_state = qp->state;
	attr->sq_draining = qp->sq_draining;
	spin_unlock_irqrestore(&qp->state_lock, flags);
	/* A snapshot of the transport's PSNs. */
	if (attr->qp_state >= IB_QPS_RTR)
		attr->rq_psn = READ_ONCE(qp->recv.epsn);
	if (attr->qp_state >= IB_QPS_RTS)
		attr->sq_psn = READ_ONCE(qp->send.next_psn);
	attr->cap = qp->cap;

	*init = (struct ib_qp_init_attr) {
		.event_handler = ibqp->event_handler,
		.qp_context = ibqp->qp_context,
		.send_cq = ibqp->send_cq,
		.recv_cq = ibqp->recv_cq,
		.srq = ibqp->srq,
		.xrcd = ibqp->xrcd,
		.cap = qp->cap,
		.sq_sig_type = qp->sq_sig_all ? IB_SIGNAL_ALL_WR : IB_SIGNAL_REQ_WR,
		.qp_type = ibqp->qp_type,
		.create_flags = qp->block_mcast_self ? IB_QP_CREATE_BLOCK_MULTICAST_LOOPBACK : 0,
		.port_num = attr->port_num,
	};
	return 0;
}

int rox_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata)
{
	struct rox_qp *qp = to_rox_qp(ibqp);

	rox_qp_unpublish(qp);
	rox_cm_forget(qp);
	rox_transport_destroy(qp);
	/* Wait for the completion handlers, which may use the QP. */
	if (ibqp->send_cq)
		rox_cq_settle(to_rox_cq(ibqp->send_cq));
	if (ibqp->recv_cq)
		rox_cq_settle(to_rox_cq(ibqp->recv_cq));
	rox_path_destroy(&qp->path);
	rox_ep_close(&qp->ep);
	/* `rdma resource show` may be looking at the rings. */
	mutex_lock(&qp->modify_lock);
	rox_rings_free(&qp->mem);
	mutex_unlock(&qp->modify_lock);
	mem_cgroup_put(qp->memcg);
	atomic_dec(&qp->dev->num_qp);
	kfree_rcu(qp->slot, rcu);
	return 0;
}
