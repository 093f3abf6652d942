// SPDX-License-Identifier: GPL-2.0
/*
 * Completion queues: create, resize, destroy, and poll and arm for kernel users.
 * transport/completion.c adds completions.
 */
#include <linux/sched.h>
#include "internal.h"

/*
 * Least number of entries of a CQ. A program may need more than it asks for: perftest with -e asks
 * for one, and polls late if a message overtakes an ACK.
 */
#define ROX_LEAST_CQE 32U

/* ---- create, resize, destroy ---- */

static int rox_cq_ring_alloc(struct rox_cq_ring *r, u32 cqe, struct ib_udata *udata)
{
	const size_t whole = offsetofend(struct rox_create_cq_resp, place);
	struct rox_create_cq_resp resp = {};
	struct rox_ring_layout layout = {};
	struct rox_offer offer = {};
	int err;

	if (!cqe || cqe > ROX_MAX_CQE)
		return -EINVAL;
	err = rox_udata_has_room(udata, offsetofend(struct rox_create_cq_resp, cq));
	if (err)
		return err;
	err = rox_ring_layout_add(&layout, max(cqe, ROX_LEAST_CQE), sizeof(struct rox_cqe),
				  &resp.cq);
	if (err)
		return err;
	err = rox_rings_alloc(&r->mem, layout.size, udata, rox_udata_knows(udata, whole), &offer);
	if (err)
		return err;
	rox_ring_init(&r->ring, &r->mem, &resp.cq);
	if (!udata)
		return 0;
	resp.map = offer.map;
	resp.place = offer.place;
	err = rox_udata_put(udata, &resp, sizeof(resp));
	if (err)
		rox_rings_free(&r->mem);
	return err;
}

static void rox_cq_set_ring(struct rox_cq *cq, const struct rox_cq_ring *r)
{
	cq->mem = r->mem;
	cq->ring = r->ring;
	cq->ibcq.cqe = r->ring.entries;
}

static int rox_cq_get_flags(u32 *flags, const struct ib_cq_init_attr *attr,
			    struct ib_udata *udata)
{
	int err;

	if (attr->flags & ~(IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION |
			    IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN))
		return -EOPNOTSUPP;
	err = rox_udata_get_flags(udata, ROX_CQ_TIMESTAMP, flags);
	if (err)
		return err;
	if (attr->flags & IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION)
		*flags |= ROX_CQ_TIMESTAMP;
	return 0;
}

int rox_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		  struct uverbs_attr_bundle *attrs)
{
	struct ib_udata *udata = attrs ? &attrs->driver_udata : NULL;
	struct rox_dev *dev = to_rox_dev(ibcq->device);
	struct rox_cq *cq = to_rox_cq(ibcq);
	struct rox_cq_ring r;
	int err;

	if (attr->comp_vector >= ibcq->device->num_comp_vectors)
		return -EINVAL;
	err = rox_cq_get_flags(&cq->flags, attr, udata);
	if (err)
		return err;
	err = rox_count_object(&dev->num_cq, ROX_MAX_CQ);
	if (err)
		return err;
	err = rox_cq_ring_alloc(&r, attr->cqe, udata);
	if (err) {
		atomic_dec(&dev->num_cq);
		return err;
	}
	mutex_init(&cq->resize_lock);
	cq->user = udata;
	cq->ignore_overrun = attr->flags & IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN;
	rox_cq_init(cq, attr->comp_vector);
	rox_cq_set_ring(cq, &r);
	return 0;
}

/**
 * rox_cq_move() - copies up to ROX_RESIZE_STEP completions to a new ring
 * @cq: the CQ; the caller holds its lock
 * @new: the ring; @new->moved is the index of the next entry to copy
 *
 * The caller may drop the lock between two calls. Completions that are added meanwhile
 * are copied by later calls. Completions that the program takes meanwhile are skipped.
 * Entries have the same index in both rings, so the program continues at its index. If a
 * program moves its index back, it reads zeros or its own completions.
 *
 * Return: the number of entries that are left to copy; -EINVAL if the CQ has failed or the
 * entries do not fit
 */
int rox_cq_move(const struct rox_cq *cq, struct rox_cq_ring *new)
{
	const struct rox_ring *ring = &cq->ring;
	int space = rox_ring_space(ring);
	u32 used, n;

	if (cq->error || space < 0 || ring->entries - space > new->ring.entries)
		return -EINVAL;
	used = ring->entries - space;
	if (ring->index - new->moved > used)
		new->moved = ring->index - used;
	for (n = 0; new->moved != ring->index && n < ROX_RESIZE_STEP; n++, new->moved++)
		memcpy(rox_ring_entry(&new->ring, new->moved), rox_ring_entry(ring, new->moved),
		       sizeof(struct rox_cqe));
	if (new->moved != ring->index)
		return ring->index - new->moved;
	new->ring.index = ring->index;
	new->ring.ctrl->producer = ring->index;
	new->ring.ctrl->consumer = ring->index - used;
	return 0;
}

/* Makes the CQ use the new ring, when all entries are copied. @old gets the old memory. */
static void rox_cq_switch(struct rox_cq *cq, struct rox_cq_ring *new, struct rox_cq_ring *old)
{
	new->ring.ctrl->flags = READ_ONCE(cq->ring.ctrl->flags) & ROX_ARM_BITS;
	old->mem = cq->mem;
	rox_cq_set_ring(cq, new);
}

/*
 * Copies in steps, so that interrupts are not off for long. The loop ends, as copying is faster
 * than completing.
 */
static int rox_cq_replace(struct rox_cq *cq, struct rox_cq_ring *new, struct rox_cq_ring *old)
{
	unsigned long flags;
	int left;

	spin_lock_irqsave(&cq->lock, flags);
	new->moved = cq->ring.index - cq->ring.entries;
	do {
		left = rox_cq_move(cq, new);
		if (left > 0) {
			spin_unlock_irqrestore(&cq->lock, flags);
			cond_resched();
			spin_lock_irqsave(&cq->lock, flags);
		}
	} while (left > 0);
	if (!left)
		rox_cq_switch(cq, new, old);
	spin_unlock_irqrestore(&cq->lock, flags);
	return left;
}

int rox_resize_cq(struct ib_cq *ibcq, unsigned int cqe, struct ib_udata *udata)
{
	struct rox_cq *cq = to_rox_cq(ibcq);
	struct rox_cq_ring new, old;
	int err;

	err = rox_udata_none(udata);
	if (err)
		return err;
	mutex_lock(&cq->resize_lock);
	err = rox_cq_ring_alloc(&new, cqe, cq->user ? udata : NULL);
	if (err)
		goto out;
	err = rox_cq_replace(cq, &new, &old);
	if (err)
		rox_rings_free(&new.mem);
	else
		rox_rings_free(&old.mem);
out:
	mutex_unlock(&cq->resize_lock);
	return err;
}

/*
 * Sets the moderation: an event waits for at most @count completions and @period microseconds.
 * If one of them is 0, events do not wait.
 */
int rox_modify_cq(struct ib_cq *ibcq, u16 count, u16 period)
{
	rox_cq_moderate(to_rox_cq(ibcq), count, period);
	return 0;
}

int rox_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata)
{
	struct rox_cq *cq = to_rox_cq(ibcq);

	rox_cq_stop(cq);
	/* `rdma resource show` may be looking at the ring. */
	mutex_lock(&cq->resize_lock);
	rox_rings_free(&cq->mem);
	mutex_unlock(&cq->resize_lock);
	atomic_dec(&to_rox_dev(ibcq->device)->num_cq);
	return 0;
}

/* ---- kernel users ---- */

static int rox_wc_flags(const struct rox_cqe *cqe)
{
	int flags = cqe->wc_flags & (IB_WC_GRH | IB_WC_WITH_IMM);

	if (cqe->wc_flags & ROX_CQE_WITH_INV)
		flags |= IB_WC_WITH_INVALIDATE;
	if (flags & IB_WC_GRH)
		flags |= IB_WC_WITH_NETWORK_HDR_TYPE;
	if (cqe->vlan_id)
		flags |= IB_WC_WITH_VLAN;
	return flags;
}

/* Return: false for a completion of a destroyed QP. The caller skips it. */
static bool rox_wc_fill(struct rox_cq *cq, const struct rox_cqe *cqe, struct ib_wc *wc)
{
	struct ib_qp *ibqp = rox_qp_peek(to_rox_dev(cq->ibcq.device), cqe->qp_num);

	if (!ibqp)
		return false;
	*wc = (struct ib_wc) {
		.wr_id = cqe->wr_id,
		.status = cqe->status,
		.opcode = cqe->opcode,
		.vendor_err = cqe->vendor_err,
		.byte_len = cqe->byte_len,
		.qp = ibqp,
		.src_qp = cqe->src_qp,
		.wc_flags = rox_wc_flags(cqe),
		.pkey_index = cqe->pkey_index,
		.sl = cqe->sl,
		.port_num = 1,
		.vlan_id = cqe->vlan_id,
		.network_hdr_type = cqe->network_hdr_type,
	};
	if (wc->wc_flags & IB_WC_WITH_INVALIDATE)
		wc->ex.invalidate_rkey = cqe->ex.invalidate_rkey;
	else
		wc->ex.imm_data = cqe->ex.imm_data;
	return true;
}

/* For kernel users only: a program polls by reading the ring. */
int rox_poll_cq(struct ib_cq *ibcq, int num, struct ib_wc *wc)
{
	struct rox_cq *cq = to_rox_cq(ibcq);
	struct rox_ring *ring = &cq->ring;
	unsigned long flags;
	u32 tail;
	int n = 0;

	if (cq->user)
		return -EINVAL;
	spin_lock_irqsave(&cq->lock, flags);
	tail = ring->ctrl->consumer;
	while (n < num && tail != ring->index)
		n += rox_wc_fill(cq, rox_ring_entry(ring, tail++), &wc[n]);
	WRITE_ONCE(ring->ctrl->consumer, tail);
	spin_unlock_irqrestore(&cq->lock, flags);
	return n;
}

int rox_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags notify)
{
	bool reports = notify & IB_CQ_REPORT_MISSED_EVENTS;
	u32 arm = (notify & IB_CQ_SOLICITED_MASK) == IB_CQ_SOLICITED ? ROX_RING_ARM_SOLICITED :
								       ROX_RING_ARM_NEXT;

	return rox_cq_arm(to_rox_cq(ibcq), arm, reports) && reports;
}
