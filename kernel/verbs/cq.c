// SPDX-License-Identifier: GPL-2.0
/*
 * Completion queues.
 *
 * Arming and completing meet without a lock: the side that arms sets its bit and
 * then looks at the producer index, the side that completes advances the index
 * and then looks at the bits, each with a full barrier between. One of the two
 * sees the other, so that no wake-up is lost.
 *
 * By the letter of the specification, arming says nothing of completions that
 * are in the CQ already: a program must poll until it is empty. Adapters raise
 * an event for those, too, and there are programs that count on it (perftest
 * takes 16 completions for an event). As arming is a store that the kernel is
 * not told of, a timer looks after it, in CQs that are waited for only.
 *
 * Moderation puts an event off until so many completions have come since it was
 * due, or the period is over: the same timer ends it.
 */
#include <linux/hrtimer.h>
#include <linux/ktime.h>
#include "internal.h"
#include "../observe/observe.h"

/* How late an event may be for a CQ that was armed when it was not empty. */
#define ROX_LATE_ARM_NS (1 * NSEC_PER_MSEC)

#define ROX_ARM_BITS (ROX_RING_ARM_SOLICITED | ROX_RING_ARM_NEXT)

/* A ring on its way into a CQ. */
struct rox_cq_ring {
	struct rox_ring_mem mem;
	struct rox_ring ring;
	struct rdma_user_mmap_entry *entry;
};

/* ---- adding completions ---- */

static bool rox_cq_armed(const struct rox_ring *ring, bool solicited)
{
	u32 wanted = ROX_RING_ARM_NEXT | (solicited ? ROX_RING_ARM_SOLICITED : 0);

	/* The entry that was published above, before the bits: see at the top. */
	smp_mb();
	return READ_ONCE(ring->ctrl->flags) & wanted;
}

/* Takes the arm bits off the ring. Return: an event is due. */
static bool rox_cq_fire(struct rox_ring *ring, bool solicited)
{
	return rox_cq_armed(ring, solicited) && xchg(&ring->ctrl->flags, 0) & ROX_ARM_BITS;
}

static ktime_t rox_cq_period(const struct rox_cq *cq)
{
	return ns_to_ktime(cq->mod_period * NSEC_PER_USEC);
}

/* As rox_cq_fire(), for a CQ with moderation: the first one that is due starts the period. */
static noinline bool rox_cq_fire_moderated(struct rox_cq *cq, bool solicited)
{
	if (!rox_cq_armed(&cq->ring, solicited))
		return false;
	if (!cq->deferred++)
		hrtimer_start(&cq->late_arm, rox_cq_period(cq), HRTIMER_MODE_REL_SOFT);
	if (cq->deferred < cq->mod_count)
		return false;
	cq->deferred = 0;
	return rox_cq_fire(&cq->ring, solicited);
}

/* Return: whoever waits for an event is to be woken. */
static bool rox_cq_break(struct rox_cq *cq)
{
	rox_count(to_rox_dev(cq->ibcq.device), ROX_CNT_CQ_OVERFLOW);
	cq->error = true;
	return xchg(&cq->ring.ctrl->flags, ROX_RING_ERROR) & ROX_ARM_BITS;
}

static void rox_cq_write(struct rox_cq *cq, const struct rox_cqe *cqe)
{
	struct rox_cqe *dst = rox_ring_entry(&cq->ring, cq->ring.index);

	*dst = *cqe;
	if (cq->flags & ROX_CQ_TIMESTAMP) {
		dst->timestamp = ktime_get_raw_ns();
		dst->wallclock = ktime_get_real_ns();
	}
	rox_ring_produce(&cq->ring, 1);
}

/* Has the program armed for something that it has not polled? */
static bool rox_cq_fire_late(struct rox_cq *cq)
{
	struct rox_ring *ring = &cq->ring;
	u32 consumer = READ_ONCE(ring->ctrl->consumer);

	if (consumer == ring->index)
		return false;
	return rox_cq_fire(ring, (s32)(cq->solicited - consumer) > 0);
}

/* A kernel user is told when it arms too late. */
static bool rox_cq_is_watched(const struct rox_cq *cq)
{
	return cq->entry && cq->waited_for;
}

static ktime_t rox_cq_watch_time(const struct rox_cq *cq)
{
	return max_t(ktime_t, ns_to_ktime(ROX_LATE_ARM_NS), rox_cq_period(cq));
}

static void rox_cq_handle(struct tasklet_struct *tasklet)
{
	struct rox_cq *cq = container_of(tasklet, struct rox_cq, handling);

	if (atomic_xchg(&cq->due, 0))
		cq->ibcq.comp_handler(&cq->ibcq, cq->ibcq.cq_context);
}

/*
 * A program is woken at once. The handler of a kernel user is called as a NIC
 * would: not within ib_post_send(), where its caller may hold the lock that the
 * handler takes, even if the work request completes there.
 */
static void rox_cq_notify(struct rox_cq *cq)
{
	if (!cq->ibcq.comp_handler)
		return;
	if (cq->entry) {
		cq->ibcq.comp_handler(&cq->ibcq, cq->ibcq.cq_context);
		return;
	}
	atomic_set(&cq->due, 1);
	/* Before the look at whether the tasklet is scheduled. */
	smp_mb__after_atomic();
	tasklet_schedule(&cq->handling);
}

/* While it waits, killing takes the tasklet for scheduled: others' completions are not lost. */
void rox_cq_settle(struct rox_cq *cq)
{
	tasklet_kill(&cq->handling);
	/* It is not scheduled any more, before the look at what is due. */
	smp_mb();
	if (atomic_read(&cq->due))
		tasklet_schedule(&cq->handling);
}

static enum hrtimer_restart rox_cq_late_arm(struct hrtimer *timer)
{
	struct rox_cq *cq = container_of(timer, struct rox_cq, late_arm);
	bool event = false, again = false;
	unsigned long flags;

	spin_lock_irqsave(&cq->lock, flags);
	/* A period that began while this waited for the lock is not over. */
	if (!cq->error && !(cq->deferred && hrtimer_is_queued(timer))) {
		cq->deferred = 0;
		event = rox_cq_fire_late(cq);
		cq->waited_for |= event;
		/* If not, the next completion starts it anew. */
		again = rox_cq_is_watched(cq) && !hrtimer_is_queued(timer) &&
			READ_ONCE(cq->ring.ctrl->consumer) != cq->ring.index;
		if (again)
			hrtimer_forward_now(timer, rox_cq_watch_time(cq));
	}
	spin_unlock_irqrestore(&cq->lock, flags);

	if (event)
		rox_cq_notify(cq);
	return again ? HRTIMER_RESTART : HRTIMER_NORESTART;
}

/* After a completion was added, with the lock held. */
static void rox_cq_watch(struct rox_cq *cq, bool event, bool solicited)
{
	if (solicited)
		cq->solicited = cq->ring.index;
	if (event)
		cq->waited_for = true;
	if (rox_cq_is_watched(cq) && !hrtimer_is_queued(&cq->late_arm))
		hrtimer_start(&cq->late_arm, rox_cq_watch_time(cq), HRTIMER_MODE_REL_SOFT);
}

static void rox_cq_raise_error(struct rox_cq *cq)
{
	struct ib_event event = {
		.device = cq->ibcq.device,
		.event = IB_EVENT_CQ_ERR,
		.element.cq = &cq->ibcq,
	};

	if (cq->ibcq.event_handler)
		cq->ibcq.event_handler(&event, cq->ibcq.cq_context);
}

int rox_cq_add(struct rox_cq *cq, const struct rox_cqe *cqe, bool solicited)
{
	bool event = false, broke = false;
	unsigned long flags;
	int err = 0;

	spin_lock_irqsave(&cq->lock, flags);
	if (cq->error) {
		err = -EOVERFLOW;
	} else if (rox_ring_space(&cq->ring) <= 0) {
		err = -EOVERFLOW;
		broke = true;
		event = rox_cq_break(cq);
	} else {
		rox_cq_write(cq, cqe);
		solicited |= cqe->status != IB_WC_SUCCESS;
		event = likely(!cq->mod_count) ? rox_cq_fire(&cq->ring, solicited) :
						 rox_cq_fire_moderated(cq, solicited);
		rox_cq_watch(cq, event, solicited);
	}
	spin_unlock_irqrestore(&cq->lock, flags);

	if (broke)
		rox_cq_raise_error(cq);
	if (event)
		rox_cq_notify(cq);
	return err;
}

/* ---- create, resize, destroy ---- */

static int rox_cq_ring_offer(struct rox_cq_ring *r, const struct rox_ring_desc *desc,
			     struct ib_udata *udata)
{
	struct rox_create_cq_resp resp = { .cq = *desc };

	r->entry = rox_mmap_offer(rox_udata_context(udata), &r->mem, &resp.map);
	if (!r->entry)
		return -ENOMEM;
	return ib_copy_to_udata(udata, &resp, sizeof(resp));
}

static int rox_cq_ring_alloc(struct rox_cq_ring *r, u32 cqe, struct ib_udata *udata)
{
	struct rox_ring_layout layout = {};
	struct rox_ring_desc desc;
	int err;

	if (!cqe || cqe > ROX_MAX_CQE)
		return -EINVAL;
	if (udata && udata->outlen < sizeof(struct rox_create_cq_resp))
		return -EINVAL;
	err = rox_ring_layout_add(&layout, cqe, sizeof(struct rox_cqe), &desc);
	if (err)
		return err;
	err = rox_ring_mem_alloc(&r->mem, layout.size);
	if (err)
		return err;
	rox_ring_init(&r->ring, &r->mem, &desc);
	r->entry = NULL;
	if (!udata)
		return 0;
	err = rox_cq_ring_offer(r, &desc, udata);
	if (err)
		rox_rings_free(&r->mem, r->entry);
	return err;
}

static void rox_cq_set_ring(struct rox_cq *cq, const struct rox_cq_ring *r)
{
	cq->mem = r->mem;
	cq->ring = r->ring;
	cq->entry = r->entry;
	cq->ibcq.cqe = r->ring.entries;
}

static int rox_cq_get_flags(u32 *flags, const struct ib_cq_init_attr *attr,
			    struct ib_udata *udata)
{
	struct rox_create_cq_req req = {};
	int err;

	if (attr->flags & ~IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION)
		return -EOPNOTSUPP;
	if (udata && udata->inlen >= sizeof(req)) {
		err = ib_copy_from_udata(&req, udata, sizeof(req));
		if (err)
			return err;
		if (req.flags & ~ROX_CQ_TIMESTAMP || req.reserved)
			return -EINVAL;
	}
	if (attr->flags & IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION)
		req.flags |= ROX_CQ_TIMESTAMP;
	*flags = req.flags;
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
	spin_lock_init(&cq->lock);
	mutex_init(&cq->resize_lock);
	tasklet_setup(&cq->handling, rox_cq_handle);
	hrtimer_setup(&cq->late_arm, rox_cq_late_arm, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT);
	rox_cq_set_ring(cq, &r);
	return 0;
}

/*
 * Moves what is outstanding to the new ring, under the same indices: the
 * program goes on where it was. @old gets what the CQ had.
 */
static int rox_cq_switch(struct rox_cq *cq, struct rox_cq_ring *new, struct rox_cq_ring *old)
{
	u32 tail, i;
	int space;

	space = rox_ring_space(&cq->ring);
	if (cq->error || space < 0 || cq->ring.entries - space > new->ring.entries)
		return -EINVAL;
	tail = cq->ring.index - (cq->ring.entries - space);
	for (i = tail; i != cq->ring.index; i++)
		memcpy(rox_ring_entry(&new->ring, i), rox_ring_entry(&cq->ring, i),
		       sizeof(struct rox_cqe));
	new->ring.index = cq->ring.index;
	new->ring.ctrl->producer = cq->ring.index;
	new->ring.ctrl->consumer = tail;
	new->ring.ctrl->flags = READ_ONCE(cq->ring.ctrl->flags) & ROX_ARM_BITS;

	old->mem = cq->mem;
	old->entry = cq->entry;
	rox_cq_set_ring(cq, new);
	return 0;
}

int rox_resize_cq(struct ib_cq *ibcq, unsigned int cqe, struct ib_udata *udata)
{
	struct rox_cq *cq = to_rox_cq(ibcq);
	struct rox_cq_ring new, old;
	unsigned long flags;
	int err;

	mutex_lock(&cq->resize_lock);
	err = rox_cq_ring_alloc(&new, cqe, cq->entry ? udata : NULL);
	if (err)
		goto out;
	spin_lock_irqsave(&cq->lock, flags);
	err = rox_cq_switch(cq, &new, &old);
	spin_unlock_irqrestore(&cq->lock, flags);
	if (err)
		rox_rings_free(&new.mem, new.entry);
	else
		rox_rings_free(&old.mem, old.entry);
out:
	mutex_unlock(&cq->resize_lock);
	return err;
}

/**
 * rox_modify_cq() - sets the moderation of a CQ's events
 * @ibcq: CQ
 * @count: an event waits for so many completions at most
 * @period: and for so many microseconds; if one of the two is 0, it does not wait
 *
 * What is waiting is not kept any longer.
 * Return: 0.
 */
int rox_modify_cq(struct ib_cq *ibcq, u16 count, u16 period)
{
	struct rox_cq *cq = to_rox_cq(ibcq);
	bool event = false;
	unsigned long flags;

	spin_lock_irqsave(&cq->lock, flags);
	cq->mod_count = count && period ? count : 0;
	cq->mod_period = cq->mod_count ? period : 0;
	if (cq->deferred) {
		cq->deferred = 0;
		event = !cq->error && rox_cq_fire_late(cq);
		cq->waited_for |= event;
	}
	spin_unlock_irqrestore(&cq->lock, flags);

	if (event)
		rox_cq_notify(cq);
	return 0;
}

int rox_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata)
{
	struct rox_cq *cq = to_rox_cq(ibcq);

	hrtimer_cancel(&cq->late_arm);
	tasklet_kill(&cq->handling);
	/* `rdma resource show` may be looking at the ring. */
	mutex_lock(&cq->resize_lock);
	rox_rings_free(&cq->mem, cq->entry);
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

/* The completions of a QP that was destroyed are passed over, as its owner expects. */
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

/* The program's own poll does not come here: it reads the ring. */
int rox_poll_cq(struct ib_cq *ibcq, int num, struct ib_wc *wc)
{
	struct rox_cq *cq = to_rox_cq(ibcq);
	struct rox_ring *ring = &cq->ring;
	unsigned long flags;
	u32 tail;
	int n = 0;

	if (cq->entry)
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
	struct rox_cq *cq = to_rox_cq(ibcq);
	unsigned long flags;
	bool missed;
	u32 arm;

	arm = (notify & IB_CQ_SOLICITED_MASK) == IB_CQ_SOLICITED ? ROX_RING_ARM_SOLICITED :
								   ROX_RING_ARM_NEXT;
	spin_lock_irqsave(&cq->lock, flags);
	/* Atomic, as a process may arm its own CQ at the same time. */
	atomic_or(arm, (atomic_t *)&cq->ring.ctrl->flags);
	missed = cq->ring.index != READ_ONCE(cq->ring.ctrl->consumer);
	spin_unlock_irqrestore(&cq->lock, flags);
	return missed && notify & IB_CQ_REPORT_MISSED_EVENTS;
}
