// SPDX-License-Identifier: GPL-2.0
/* Taking receive WQEs from RQs and SRQs; the SRQ limit. */
#include "internal.h"

static u32 rox_recv_length(const struct rox_recv *recv)
{
	u64 length = 0;
	u32 i;

	for (i = 0; i < recv->num_sge; i++)
		length += recv->sge[i].length;
	return min_t(u64, length, U32_MAX);
}

int rox_rq_take(struct rox_ring *ring, u32 max_sge, u32 least, struct rox_recv *recv)
{
	int pending = rox_ring_pending(ring);
	struct rox_recv_wqe hdr;

	if (pending <= 0)
		return pending;
	rox_ring_copy(ring, 0, 0, &hdr, sizeof(hdr));
	recv->wr_id = hdr.wr_id;
	recv->num_sge = 0;
	recv->length = 0;
	if (hdr.num_sge > max_sge || hdr.reserved) {
		rox_ring_consume(ring, 1);
		return -EINVAL;
	}
	recv->num_sge = hdr.num_sge;
	rox_ring_copy(ring, 0, sizeof(hdr), recv->sge, hdr.num_sge * sizeof(recv->sge[0]));
	recv->length = rox_recv_length(recv);
	if (unlikely(recv->length < least))
		return -EMSGSIZE;
	rox_ring_consume(ring, 1);
	return 1;
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

/* Is the SRQ below its limit? Then disarms the limit. The caller has the lock. */
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

int rox_srq_take(struct rox_srq *srq, u32 least, struct rox_recv *recv)
{
	bool limit = false, broke = false;
	unsigned long flags;
	int ret;

	spin_lock_irqsave(&srq->lock, flags);
	ret = srq->error ? -EPROTO : rox_rq_take(&srq->ring, srq->max_sge, least, recv);
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

/**
 * rox_srq_arm() - arms the SRQ limit, for one IB_EVENT_SRQ_LIMIT_REACHED
 * @srq: SRQ
 * @limit: number of receive WQEs; 0: disarm
 *
 * Return: 0, or -EINVAL if @limit exceeds the size of the SRQ
 */
int rox_srq_arm(struct rox_srq *srq, u32 limit)
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
