// SPDX-License-Identifier: GPL-2.0
/*
 * Shared receive queues: create, modify, query, destroy, post. transport/recvq.c takes receive
 * WQEs from them.
 */
#include <linux/sched.h>
#include "internal.h"

/* The shortest response with which a program can find the ring. */
#define ROX_SRQ_RESP_LEAST offsetofend(struct rox_create_srq_resp, rq)
#define ROX_SRQ_RESP_WHOLE offsetofend(struct rox_create_srq_resp, place)
/* The length of the response for providers that do not pass a length. */
#define ROX_SRQ_RESP_FIRST (offsetofend(struct rox_create_srq_resp, srq_num) + sizeof(u32))

/* ---- create, modify, query, destroy ---- */

/* @knows: the provider reads the place in the response. */
static int rox_srq_ring_alloc(struct rox_srq_ring *r, u32 max_wr, u32 max_sge,
			      struct ib_udata *udata, bool knows)
{
	u32 stride = sizeof(struct rox_recv_wqe) + max_sge * sizeof(struct rox_sge);
	struct rox_ring_layout layout = {};
	struct rox_offer offer = {};
	int err;

	*r = (struct rox_srq_ring) {};
	if (!max_wr || max_wr > ROX_MAX_SRQ_WR || max_sge > ROX_MAX_SGE)
		return -EINVAL;
	err = rox_ring_layout_add(&layout, max_wr, stride, &r->resp.rq);
	if (err)
		return err;
	err = rox_rings_alloc(&r->mem, layout.size, udata, knows, &offer);
	if (err)
		return err;
	rox_ring_init(&r->ring, &r->mem, &r->resp.rq);
	r->resp.map = offer.map;
	r->resp.place = offer.place;
	return 0;
}

static void rox_srq_set_ring(struct rox_srq *srq, const struct rox_srq_ring *r)
{
	srq->mem = r->mem;
	srq->ring = r->ring;
}

static int rox_srq_setup(struct rox_srq *srq, struct ib_srq_attr *attr, struct ib_udata *udata)
{
	struct rox_srq_ring r;
	int err;

	err = rox_srq_ring_alloc(&r, attr->max_wr, attr->max_sge, udata,
				 rox_udata_knows(udata, ROX_SRQ_RESP_WHOLE));
	if (err)
		return err;
	if (srq->xsrq)
		r.resp.srq_num = srq->xsrq->name.num;
	if (udata) {
		err = rox_udata_put(udata, &r.resp, sizeof(r.resp));
		if (err) {
			rox_rings_free(&r.mem);
			return err;
		}
	}
	spin_lock_init(&srq->lock);
	spin_lock_init(&srq->post_lock);
	mutex_init(&srq->resize_lock);
	srq->user = udata;
	srq->max_sge = attr->max_sge;
	rox_srq_set_ring(srq, &r);
	attr->max_wr = r.ring.entries;
	return 0;
}

/* An XRC SRQ also gets a number, which is published last. */
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
	rox_rings_free(&srq->mem);
cancel:
	rox_xsrq_cancel(srq);
	return err;
}

int rox_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *init, struct ib_udata *udata)
{
	struct rox_dev *dev = to_rox_dev(ibsrq->device);
	struct rox_srq *srq = to_rox_srq(ibsrq);
	u32 flags;
	int err;

	if (init->srq_type != IB_SRQT_BASIC && init->srq_type != IB_SRQT_XRC)
		return -EOPNOTSUPP;
	err = rox_udata_get_flags(udata, 0, &flags) ?:
	      rox_udata_has_room(udata, ROX_SRQ_RESP_LEAST);
	if (err)
		return err;
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

/**
 * rox_srq_move() - copies up to ROX_RESIZE_STEP posted WQEs to a new ring
 * @srq: the SRQ; the caller holds both locks
 * @new: the ring; @new->moved is the index of the next entry to copy
 *
 * Works as rox_cq_move(). The producer index must not go back below @new->moved.
 *
 * Return: the number of entries that are left to copy; -EINVAL if the SRQ has failed, entries or
 * limit do not fit, or an index is invalid
 */
int rox_srq_move(const struct rox_srq *srq, struct rox_srq_ring *new)
{
	const struct rox_ring *ring = &srq->ring;
	int pending = rox_ring_pending(ring);
	u32 head, n;

	if (srq->error || pending < 0 || pending > new->ring.entries ||
	    srq->limit > new->ring.entries)
		return -EINVAL;
	head = ring->index + pending;
	if ((s32)(ring->index - new->moved) > 0)
		new->moved = ring->index;
	if ((s32)(head - new->moved) < 0)
		return -EINVAL;
	for (n = 0; new->moved != head && n < ROX_RESIZE_STEP; n++, new->moved++)
		memcpy(rox_ring_entry(&new->ring, new->moved), rox_ring_entry(ring, new->moved),
		       ring->stride);
	if (new->moved != head)
		return head - new->moved;
	new->ring.index = ring->index;
	new->ring.ctrl->consumer = ring->index;
	new->ring.ctrl->producer = head;
	return 0;
}

/* Makes the SRQ use the new ring, when all entries are copied. @r gets the old memory. */
static void rox_srq_switch(struct rox_srq *srq, struct rox_srq_ring *r)
{
	struct rox_srq_ring old = { .mem = srq->mem };

	rox_srq_set_ring(srq, r);
	*r = old;
}

static unsigned long rox_srq_lock(struct rox_srq *srq)
	__acquires(&srq->post_lock) __acquires(&srq->lock)
{
	unsigned long flags;

	spin_lock_irqsave(&srq->post_lock, flags);
	spin_lock(&srq->lock);
	return flags;
}

static void rox_srq_unlock(struct rox_srq *srq, unsigned long flags)
	__releases(&srq->lock) __releases(&srq->post_lock)
{
	spin_unlock(&srq->lock);
	spin_unlock_irqrestore(&srq->post_lock, flags);
}

/* Copies in steps, as rox_cq_replace(). On success @r gets the old memory. */
static int rox_srq_replace(struct rox_srq *srq, struct rox_srq_ring *r)
{
	unsigned long flags = rox_srq_lock(srq);
	int left;

	r->moved = srq->ring.index;
	do {
		left = rox_srq_move(srq, r);
		if (left > 0) {
			rox_srq_unlock(srq, flags);
			cond_resched();
			flags = rox_srq_lock(srq);
		}
	} while (left > 0);
	if (!left)
		rox_srq_switch(srq, r);
	rox_srq_unlock(srq, flags);
	return left;
}

/* MODIFY_SRQ has no response. So its request has the address and length of a response. */
static int rox_srq_get_answer(struct ib_udata *udata, bool resize, struct rox_modify_srq_req *req)
{
	size_t least = offsetofend(struct rox_modify_srq_req, resp_addr);
	int err;

	err = rox_udata_get(udata, req, sizeof(*req), resize ? least : 0);
	if (err)
		return err;
	if (req->reserved)
		return -EINVAL;
	if (!req->resp_len)
		req->resp_len = ROX_SRQ_RESP_FIRST;
	return resize && req->resp_len < ROX_SRQ_RESP_LEAST ? -ENOSPC : 0;
}

static int rox_srq_answer(const struct rox_modify_srq_req *req,
			  const struct rox_create_srq_resp *resp)
{
	size_t len = min_t(size_t, req->resp_len, sizeof(*resp));

	return copy_to_user(u64_to_user_ptr(req->resp_addr), resp, len) ? -EFAULT : 0;
}

/* Describes the new ring to the program before the switch, as nothing may fail after that. */
static int rox_srq_resize(struct rox_srq *srq, u32 max_wr, struct ib_udata *udata,
			  const struct rox_modify_srq_req *req)
{
	struct rox_srq_ring r;
	int err;

	err = rox_srq_ring_alloc(&r, max_wr, srq->max_sge, srq->user ? udata : NULL,
				 req->resp_len >= ROX_SRQ_RESP_WHOLE);
	if (err)
		return err;
	if (srq->user)
		err = rox_srq_answer(req, &r.resp);
	if (!err)
		err = rox_srq_replace(srq, &r);
	/* After an error @r is the new ring, else the old one. */
	rox_rings_free(&r.mem);
	return err;
}

int rox_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr, enum ib_srq_attr_mask mask,
		   struct ib_udata *udata)
{
	struct rox_srq *srq = to_rox_srq(ibsrq);
	struct rox_modify_srq_req req = {};
	int err;

	if (mask & ~(IB_SRQ_MAX_WR | IB_SRQ_LIMIT))
		return -EINVAL;
	err = rox_srq_get_answer(udata, mask & IB_SRQ_MAX_WR, &req);
	if (err)
		return err;
	mutex_lock(&srq->resize_lock);
	if (mask & IB_SRQ_MAX_WR)
		err = rox_srq_resize(srq, attr->max_wr, udata, &req);
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
	rox_rings_free(&srq->mem);
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

	/* A process writes its ring itself, and an SRQ has no doorbell. */
	if (srq->user) {
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
