// SPDX-License-Identifier: GPL-2.0
/*
 * Queue pairs: the table, create, query, destroy. Modify is in modify.c.
 */
#include <linux/random.h>
#include "internal.h"

/* 0 and 1 are QPs of management; all ones is the multicast QPN. */
#define ROX_GSI_QPN 1U
#define ROX_QPN_MIN 2U
#define ROX_QPN_MAX (ROX_QPN_MASK - 1)

/*
 * QPs of all devices by number: struct rox_qp_slot. One table for the module, so
 * that no number is in use twice on a host. Written in process context only.
 */
static DEFINE_XARRAY_ALLOC(rox_qps);
static u32 rox_next_qpn;

/* ---- table ---- */

/**
 * rox_qp_table_init() - prepares the table of QPs; at module load
 *
 * Return: 0.
 */
int rox_qp_table_init(void)
{
	rox_next_qpn = ROX_QPN_MIN + get_random_u32_below(ROX_QPN_MAX - ROX_QPN_MIN);
	return 0;
}

/**
 * rox_qp_table_exit() - the end of the table; no QP is left
 */
void rox_qp_table_exit(void)
{
	WARN_ON(!xa_empty(&rox_qps));
	xa_destroy(&rox_qps);
}

/* The caller is in an RCU read-side section. */
static struct rox_qp_slot *rox_qp_find(struct rox_dev *dev, u32 qpn)
{
	struct rox_qp_slot *slot;

	if (qpn == ROX_GSI_QPN)
		return dev ? rcu_dereference(dev->gsi_qp) : NULL;
	slot = xa_load(&rox_qps, qpn);
	return slot && (!dev || slot->dev == dev) ? slot : NULL;
}

struct rox_qp *rox_qp_get(struct rox_dev *dev, u32 qpn)
{
	struct rox_qp_slot *slot;
	struct rox_qp *qp = NULL;

	rcu_read_lock();
	slot = rox_qp_find(dev, qpn);
	if (slot && refcount_inc_not_zero(&slot->ref))
		qp = slot->qp;
	rcu_read_unlock();
	return qp;
}

/**
 * rox_qp_put() - lets go of a QP
 * @qp: from rox_qp_get()
 */
void rox_qp_put(struct rox_qp *qp)
{
	/* After the last reference is gone, destroy may free the QP at once. */
	if (refcount_dec_and_test(&qp->slot->ref))
		complete(&qp->gone);
}

struct ib_qp *rox_qp_peek(struct rox_dev *dev, u32 qpn)
{
	struct rox_qp_slot *slot;
	struct ib_qp *ibqp;

	rcu_read_lock();
	slot = rox_qp_find(dev, qpn);
	ibqp = slot ? &slot->qp->ibqp : NULL;
	rcu_read_unlock();
	return ibqp;
}

static int rox_qp_slot_alloc(struct rox_qp *qp)
{
	struct rox_qp_slot *slot;
	u32 qpn = ROX_GSI_QPN;
	int err = 0;

	slot = kzalloc(sizeof(*slot), ROX_GFP_USER);
	if (!slot)
		return -ENOMEM;
	slot->qp = qp;
	slot->dev = qp->dev;
	refcount_set(&slot->ref, 1);
	/* Reserved only: nobody finds the QP before it is complete. */
	if (qp->ibqp.qp_type != IB_QPT_GSI)
		err = xa_alloc_cyclic(&rox_qps, &qpn, NULL, XA_LIMIT(ROX_QPN_MIN, ROX_QPN_MAX),
				      &rox_next_qpn, GFP_KERNEL);
	if (err < 0) {
		kfree(slot);
		return err;
	}
	qp->slot = slot;
	qp->ibqp.qp_num = qpn;
	init_completion(&qp->gone);
	return 0;
}

static void rox_qp_slot_free(struct rox_qp *qp)
{
	if (qp->ibqp.qp_type != IB_QPT_GSI)
		xa_erase(&rox_qps, qp->ibqp.qp_num);
	kfree_rcu(qp->slot, rcu);
}

static int rox_qp_publish(struct rox_qp *qp)
{
	if (qp->ibqp.qp_type != IB_QPT_GSI)
		return xa_err(xa_store(&rox_qps, qp->ibqp.qp_num, qp->slot, GFP_KERNEL));
	/* cmpxchg() is the barrier that rcu_assign_pointer() would be. */
	if (unrcu_pointer(cmpxchg(&qp->dev->gsi_qp, NULL, RCU_INITIALIZER(qp->slot))))
		return -EBUSY;
	return 0;
}

/* From here on there is no reference to the QP but this one, and none can come. */
static void rox_qp_unpublish(struct rox_qp *qp)
{
	if (qp->ibqp.qp_type == IB_QPT_GSI)
		RCU_INIT_POINTER(qp->dev->gsi_qp, NULL);
	else
		xa_erase(&rox_qps, qp->ibqp.qp_num);
	rox_qp_put(qp);
	wait_for_completion(&qp->gone);
}

void rox_qp_event(struct rox_qp *qp, enum ib_event_type event)
{
	struct ib_event ev = {
		.device = qp->ibqp.device,
		.event = event,
		.element.qp = &qp->ibqp,
	};

	if (qp->ibqp.event_handler)
		qp->ibqp.event_handler(&ev, qp->ibqp.qp_context);
}

/* ---- create ---- */

static bool rox_type_is_xrc(enum ib_qp_type type)
{
	return type == IB_QPT_XRC_INI || type == IB_QPT_XRC_TGT;
}

/* An initiator receives nothing, and a target has no queues at all. */
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
		/* A kernel user's work requests have no place for the number of an SRQ. */
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
 * Where the rings lie, and what they hold: an entry has room for either the SGE
 * list or inline data, and what is left over by rounding is given as well.
 */
static int rox_qp_layout(struct rox_qp *qp, const struct ib_qp_init_attr *init,
			 struct rox_ring_layout *layout, struct rox_create_qp_resp *resp)
{
	const struct ib_qp_cap *want = &init->cap;
	struct ib_qp_cap *cap = &qp->cap;
	u32 room, stride;
	int err;

	room = max_t(u32, want->max_send_sge * sizeof(struct rox_sge), want->max_inline_data);
	stride = ALIGN(sizeof(struct rox_send_wqe) + max_t(u32, room, sizeof(struct rox_sge)),
		       ROX_CACHE_LINE);
	room = stride - sizeof(struct rox_send_wqe);
	err = rox_ring_layout_add(layout, want->max_send_wr, stride, &resp->sq);
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
	struct rox_create_qp_resp resp = {};
	struct rox_ring_layout layout = {};
	int err;

	err = rox_qp_layout(qp, init, &layout, &resp);
	if (err)
		return err;
	err = rox_ring_mem_alloc(&qp->mem, layout.size);
	if (err)
		return err;
	rox_ring_init(&qp->sq, &qp->mem, &resp.sq);
	rox_ring_init(&qp->rq, &qp->mem, &resp.rq);
	if (!udata)
		return 0;

	qp->entry = rox_mmap_offer(rox_udata_context(udata), &qp->mem, &resp.map);
	err = qp->entry ? ib_copy_to_udata(udata, &resp, sizeof(resp)) : -ENOMEM;
	if (err)
		rox_rings_free(&qp->mem, qp->entry);
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
	qp->counters = qp->dev->counters;
	/* The RDMA core creates targets in its own name, for processes. */
	qp->user = user || init->qp_type == IB_QPT_XRC_TGT;
	qp->service = rox_qp_service(init->qp_type);
	qp->sq_sig_all = init->sq_sig_type == IB_SIGNAL_ALL_WR;
	qp->block_mcast_self = init->create_flags & IB_QP_CREATE_BLOCK_MULTICAST_LOOPBACK;
	qp->state = IB_QPS_RESET;
	qp->attr.path_mig_state = IB_MIG_MIGRATED;
	qp->pkey = qp->dev->pkeys;
	mtu = ib_mtu_enum_to_int(READ_ONCE(qp->dev->mtu));
	qp->mtu = mtu > 0 ? mtu : ib_mtu_enum_to_int(IB_MTU_256);
	spin_lock_init(&qp->state_lock);
	spin_lock_init(&qp->sq_post_lock);
	spin_lock_init(&qp->rq_post_lock);
	mutex_init(&qp->modify_lock);
}

static int rox_qp_build(struct rox_qp *qp, const struct ib_qp_init_attr *init,
			struct ib_udata *udata)
{
	int err;

	err = rox_qp_slot_alloc(qp);
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
	rox_rings_free(&qp->mem, qp->entry);
err_slot:
	rox_qp_slot_free(qp);
	return err;
}

int rox_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *init, struct ib_udata *udata)
{
	struct rox_dev *dev = to_rox_dev(ibqp->device);
	struct rox_qp *qp = to_rox_qp(ibqp);
	int err;

	rox_qp_trim_caps(init);
	err = rox_qp_check_init(ibqp, init, udata);
	if (err)
		return err;
	if (udata && udata->outlen < sizeof(struct rox_create_qp_resp))
		return -EINVAL;
	err = rox_count_object(&dev->num_qp, ROX_MAX_QP);
	if (err)
		return err;
	rox_qp_init(qp, init, udata);
	err = rox_qp_build(qp, init, udata);
	if (err) {
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
	/* A snapshot, where the transport is now. */
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
		.port_num = qp->attr.port_num,
	};
	return 0;
}

int rox_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata)
{
	struct rox_qp *qp = to_rox_qp(ibqp);

	rox_qp_unpublish(qp);
	rox_transport_destroy(qp);
	/* No handler is running, or will be called, that has begun for its sake. */
	if (ibqp->send_cq)
		rox_cq_settle(to_rox_cq(ibqp->send_cq));
	if (ibqp->recv_cq)
		rox_cq_settle(to_rox_cq(ibqp->recv_cq));
	rox_path_destroy(&qp->path);
	/* `rdma resource show` may be looking at the rings. */
	mutex_lock(&qp->modify_lock);
	rox_rings_free(&qp->mem, qp->entry);
	mutex_unlock(&qp->modify_lock);
	atomic_dec(&qp->dev->num_qp);
	kfree_rcu(qp->slot, rcu);
	return 0;
}
