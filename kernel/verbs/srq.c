// SPDX-License-Identifier: GPL-2.0
/*
 * Shared receive queues, and what they have in common with the receive queues of
 * QPs: taking and posting receive WQEs.
 */
#include "internal.h"

/* A ring on its way into an SRQ. */
struct rox_srq_ring {
	struct rox_ring_mem mem;
	struct rox_ring ring;
	struct rdma_user_mmap_entry *entry;
	struct rox_create_srq_resp resp;
};

/* ---- receive WQEs ---- */

int rox_rq_take(struct rox_ring *ring, u32 max_sge, struct rox_recv *recv)
{
	int pending = rox_ring_pending(ring);
	struct rox_recv_wqe hdr;
	u64 length = 0;
	u32 i;

	if (pending <= 0)
		return pending;
	rox_ring_copy(ring, 0, 0, &hdr, sizeof(hdr));
	recv->wr_id = hdr.wr_id;
	recv->num_sge = 0;
	recv->length = 0;
	if (hdr.num_sge > max_sge) {
		rox_ring_consume(ring, 1);
		return -EINVAL;
	}
	recv->num_sge = hdr.num_sge;
	rox_ring_copy(ring, 0, sizeof(hdr), recv->sge, hdr.num_sge * sizeof(recv->sge[0]));
	rox_ring_consume(ring, 1);
	for (i = 0; i < recv->num_sge; i++)
		length += recv->sge[i].length;
	recv->length = min_t(u64, length, U32_MAX);
	return 1;
}

int rox_rq_post(struct rox_ring *ring, u32 max_sge, const struct ib_recv_wr *wr)
{
	struct rox_recv_wqe *hdr;
	struct rox_sge *sge;
	int i;

	if (wr->num_sge < 0 || wr->num_sge > max_sge)
		return -EINVAL;
	hdr = rox_ring_free_entry(ring);
	if (!hdr)
		return -ENOMEM;
	sge = (struct rox_sge *)(hdr + 1);
	*hdr = (struct rox_recv_wqe) { .wr_id = wr->wr_id, .num_sge = wr->num_sge };
	for (i = 0; i < wr->num_sge; i++)
		sge[i] = (struct rox_sge) {
			.addr = wr->sg_list[i].addr,
			.length = wr->sg_list[i].length,
			.lkey = wr->sg_list[i].lkey,
		};
	rox_ring_publish(ring);
	return 0;
}

static void rox_srq_event(struct rox_srq *srq, enum ib_event_type type)
{
	struct ib_event event = {
		.device = srq->ibsrq.device,
		.event = type,
		.element.srq = &srq->ibsrq,
	};

	if (srq->ibsrq.event_handler)
		srq->ibsrq.event_handler(&event, srq->ibsrq.srq_context);
}

/* The limit is said once, and then armed no more. The caller holds the lock. */
static bool rox_srq_below_limit(struct rox_srq *srq)
{
	int pending;

	if (!srq->limit)
		return false;
	pending = rox_ring_pending(&srq->ring);
	if (pending < 0 || pending >= srq->limit)
		return false;
	srq->limit = 0;
	return true;
}

int rox_srq_take(struct rox_srq *srq, struct rox_recv *recv)
{
	bool limit = false, broke = false;
	unsigned long flags;
	int ret;

	spin_lock_irqsave(&srq->lock, flags);
	ret = srq->error ? -EPROTO : rox_rq_take(&srq->ring, srq->max_sge, recv);
	if (ret == -EPROTO) {
		broke = !srq->error;
		srq->error = true;
	} else {
		limit = rox_srq_below_limit(srq);
	}
	spin_unlock_irqrestore(&srq->lock, flags);

	if (broke)
		rox_srq_event(srq, IB_EVENT_SRQ_ERR);
	if (limit)
		rox_srq_event(srq, IB_EVENT_SRQ_LIMIT_REACHED);
	return ret;
}

/* ---- create, modify, query, destroy ---- */

static int rox_srq_ring_alloc(struct rox_srq_ring *r, u32 max_wr, u32 max_sge,
			      struct ib_udata *udata)
{
	u32 stride = sizeof(struct rox_recv_wqe) + max_sge * sizeof(struct rox_sge);
	struct rox_ring_layout layout = {};
	int err;

	*r = (struct rox_srq_ring) {};
	if (!max_wr || max_wr > ROX_MAX_SRQ_WR || max_sge > ROX_MAX_SGE)
		return -EINVAL;
	err = rox_ring_layout_add(&layout, max_wr, stride, &r->resp.rq);
	if (err)
		return err;
	err = rox_ring_mem_alloc(&r->mem, layout.size);
	if (err)
		return err;
	rox_ring_init(&r->ring, &r->mem, &r->resp.rq);
	if (!udata)
		return 0;
	r->entry = rox_mmap_offer(rox_udata_context(udata), &r->mem, &r->resp.map);
	if (r->entry)
		return 0;
	rox_ring_mem_free(&r->mem);
	return -ENOMEM;
}

static void rox_srq_set_ring(struct rox_srq *srq, const struct rox_srq_ring *r)
{
	srq->mem = r->mem;
	srq->ring = r->ring;
	srq->entry = r->entry;
}

static int rox_srq_setup(struct rox_srq *srq, struct ib_srq_attr *attr, struct ib_udata *udata)
{
	struct rox_srq_ring r;
	int err;

	err = rox_srq_ring_alloc(&r, attr->max_wr, attr->max_sge, udata);
	if (err)
		return err;
	if (srq->xsrq)
		r.resp.srq_num = srq->xsrq->name.num;
	if (udata) {
		err = ib_copy_to_udata(udata, &r.resp, sizeof(r.resp));
		if (err) {
			rox_rings_free(&r.mem, r.entry);
			return err;
		}
	}
	spin_lock_init(&srq->lock);
	spin_lock_init(&srq->post_lock);
	mutex_init(&srq->resize_lock);
	srq->max_sge = attr->max_sge;
	rox_srq_set_ring(srq, &r);
	attr->max_wr = r.ring.entries;
	return 0;
}

/* An XRC SRQ has a number, and is found by it when all the rest is done. */
static int rox_srq_setup_xrc(struct rox_srq *srq, struct ib_srq_attr *attr,
			     struct ib_udata *udata)
{
	int err;

	err = rox_xsrq_reserve(srq);
	if (err)
		return err;
	err = rox_srq_setup(srq, attr, udata);
	if (err)
		goto cancel;
	err = rox_xsrq_publish(srq);
	if (!err)
		return 0;
	rox_rings_free(&srq->mem, srq->entry);
cancel:
	rox_xsrq_cancel(srq);
	return err;
}

int rox_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *init, struct ib_udata *udata)
{
	struct rox_dev *dev = to_rox_dev(ibsrq->device);
	struct rox_srq *srq = to_rox_srq(ibsrq);
	int err;

	if (init->srq_type != IB_SRQT_BASIC && init->srq_type != IB_SRQT_XRC)
		return -EOPNOTSUPP;
	if (udata && udata->outlen < sizeof(struct rox_create_srq_resp))
		return -EINVAL;
	err = rox_count_object(&dev->num_srq, ROX_MAX_SRQ);
	if (err)
		return err;
	if (init->srq_type == IB_SRQT_XRC)
		err = rox_srq_setup_xrc(srq, &init->attr, udata);
	else
		err = rox_srq_setup(srq, &init->attr, udata);
	if (err)
		atomic_dec(&dev->num_srq);
	return err;
}

/* As rox_cq_switch(): what is outstanding keeps its indices. @r gets the old ring. */
static int rox_srq_switch(struct rox_srq *srq, struct rox_srq_ring *r)
{
	struct rox_srq_ring old = { .mem = srq->mem, .entry = srq->entry };
	int pending = rox_ring_pending(&srq->ring);
	u32 i, head;

	if (srq->error || pending < 0 || pending > r->ring.entries ||
	    srq->limit > r->ring.entries)
		return -EINVAL;
	head = srq->ring.index + pending;
	for (i = srq->ring.index; i != head; i++)
		memcpy(rox_ring_entry(&r->ring, i), rox_ring_entry(&srq->ring, i),
		       r->ring.stride);
	r->ring.index = srq->ring.index;
	r->ring.ctrl->consumer = srq->ring.index;
	r->ring.ctrl->producer = head;
	rox_srq_set_ring(srq, r);
	*r = old;
	return 0;
}

static int rox_srq_answer(struct ib_udata *udata, const struct rox_create_srq_resp *resp)
{
	struct rox_modify_srq_req req;
	int err;

	if (udata->inlen < sizeof(req))
		return -EINVAL;
	err = ib_copy_from_udata(&req, udata, sizeof(req));
	if (err)
		return err;
	return copy_to_user(u64_to_user_ptr(req.resp_addr), resp, sizeof(*resp)) ? -EFAULT : 0;
}

/* The program learns where its new ring is before it is used, so that nothing can fail after. */
static int rox_srq_resize(struct rox_srq *srq, u32 max_wr, struct ib_udata *udata)
{
	struct rox_srq_ring r;
	unsigned long flags;
	int err;

	err = rox_srq_ring_alloc(&r, max_wr, srq->max_sge, srq->entry ? udata : NULL);
	if (err)
		return err;
	if (srq->entry)
		err = rox_srq_answer(udata, &r.resp);
	if (!err) {
		spin_lock_irqsave(&srq->post_lock, flags);
		spin_lock(&srq->lock);
		err = rox_srq_switch(srq, &r);
		spin_unlock(&srq->lock);
		spin_unlock_irqrestore(&srq->post_lock, flags);
	}
	/* The new one if that failed, else the old one. */
	rox_rings_free(&r.mem, r.entry);
	return err;
}

static int rox_srq_arm(struct rox_srq *srq, u32 limit)
{
	unsigned long flags;
	bool event = false;
	int err = 0;

	spin_lock_irqsave(&srq->lock, flags);
	if (limit > srq->ring.entries) {
		err = -EINVAL;
	} else {
		srq->limit = limit;
		event = rox_srq_below_limit(srq);
	}
	spin_unlock_irqrestore(&srq->lock, flags);
	if (event)
		rox_srq_event(srq, IB_EVENT_SRQ_LIMIT_REACHED);
	return err;
}

int rox_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr, enum ib_srq_attr_mask mask,
		   struct ib_udata *udata)
{
	struct rox_srq *srq = to_rox_srq(ibsrq);
	int err = 0;

	if (mask & ~(IB_SRQ_MAX_WR | IB_SRQ_LIMIT))
		return -EINVAL;
	mutex_lock(&srq->resize_lock);
	if (mask & IB_SRQ_MAX_WR)
		err = rox_srq_resize(srq, attr->max_wr, udata);
	if (!err && mask & IB_SRQ_LIMIT)
		err = rox_srq_arm(srq, attr->srq_limit);
	mutex_unlock(&srq->resize_lock);
	return err;
}

int rox_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr)
{
	struct rox_srq *srq = to_rox_srq(ibsrq);
	unsigned long flags;

	spin_lock_irqsave(&srq->lock, flags);
	attr->max_wr = srq->ring.entries;
	attr->max_sge = srq->max_sge;
	attr->srq_limit = srq->limit;
	spin_unlock_irqrestore(&srq->lock, flags);
	return 0;
}

int rox_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata)
{
	struct rox_srq *srq = to_rox_srq(ibsrq);

	if (srq->xsrq)
		rox_xsrq_unpublish(srq);
	/* `rdma resource show` may be looking at the ring. */
	mutex_lock(&srq->resize_lock);
	rox_rings_free(&srq->mem, srq->entry);
	mutex_unlock(&srq->resize_lock);
	atomic_dec(&to_rox_dev(ibsrq->device)->num_srq);
	return 0;
}

int rox_post_srq_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
		      const struct ib_recv_wr **bad_wr)
{
	struct rox_srq *srq = to_rox_srq(ibsrq);
	unsigned long flags;
	int err = 0;

	/* A process posts into its ring, and there is no doorbell. */
	if (srq->entry) {
		*bad_wr = wr;
		return wr ? -EINVAL : 0;
	}
	spin_lock_irqsave(&srq->post_lock, flags);
	for (; wr; wr = wr->next) {
		err = rox_rq_post(&srq->ring, srq->max_sge, wr);
		if (err)
			break;
	}
	spin_unlock_irqrestore(&srq->post_lock, flags);
	if (err)
		*bad_wr = wr;
	return err;
}
