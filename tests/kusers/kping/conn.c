// SPDX-License-Identifier: GPL-2.0
/*
 * What both sides need: a connection with its queues and memory, fast registration,
 * and waiting with a limit.
 */
#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include "kping.h"

#define KPING_WRS 16

enum kping_wr_id {
	KPING_WR_SEND = 1,
	KPING_WR_RECV,
};

static void kping_completed(struct kping_conn *c, const struct ib_wc *wc)
{
	if (wc->status != IB_WC_SUCCESS) {
		if (!c->err && wc->status != IB_WC_WR_FLUSH_ERR)
			pr_info("kping: %s\n", ib_wc_status_msg(wc->status));
		WRITE_ONCE(c->err, -EIO);
	} else if (wc->wr_id == KPING_WR_SEND) {
		WRITE_ONCE(c->sent, c->sent + 1);
	} else {
		c->invalidated = wc->wc_flags & IB_WC_WITH_INVALIDATE ? wc->ex.invalidate_rkey : 0;
		/* The message and what it has invalidated are there first. */
		smp_store_release(&c->received, 1);
	}
}

/* The handler of a CQ is not called by two CPUs at a time. */
static void kping_handle(struct ib_cq *cq, void *context)
{
	struct kping_conn *c = context;
	struct ib_wc wc;

	c->events++;
	if (raw_smp_processor_id() != c->cpu)
		c->elsewhere++;
	do {
		while (ib_poll_cq(cq, 1, &wc) > 0)
			kping_completed(c, &wc);
	} while (ib_req_notify_cq(cq, IB_CQ_NEXT_COMP | IB_CQ_REPORT_MISSED_EVENTS) > 0);
	wake_up(&c->wait);
}

static int kping_buf_alloc(struct kping_conn *c, struct kping_buf *buf)
{
	struct ib_device *dev = c->id->device;

	buf->p = kzalloc(KPING_MAX, GFP_KERNEL);
	if (!buf->p)
		return -ENOMEM;
	buf->dma = ib_dma_map_single(dev, buf->p, KPING_MAX, DMA_BIDIRECTIONAL);
	if (!ib_dma_mapping_error(dev, buf->dma))
		return 0;
	kfree(buf->p);
	buf->p = NULL;
	return -ENOMEM;
}

static void kping_buf_free(struct kping_conn *c, struct kping_buf *buf)
{
	if (buf->p)
		ib_dma_unmap_single(c->id->device, buf->dma, KPING_MAX, DMA_BIDIRECTIONAL);
	kfree(buf->p);
}

static int kping_memory(struct kping_conn *c)
{
	int i, err = 0;

	for (i = 0; i < 2 && !err; i++)
		err = kping_buf_alloc(c, &c->msg[i]) ?: kping_buf_alloc(c, &c->buf[i]);
	if (err)
		return err;
	c->region.mr = ib_alloc_mr(c->pd, IB_MR_TYPE_MEM_REG, KPING_MAX / PAGE_SIZE + 1);
	return PTR_ERR_OR_ZERO(c->region.mr);
}

static int kping_queues(struct kping_conn *c, int vector)
{
	struct ib_cq_init_attr attr = { .cqe = 2 * KPING_WRS, .comp_vector = vector };
	struct ib_qp_init_attr init = {
		.cap = {
			.max_send_wr = KPING_WRS, .max_recv_wr = KPING_WRS,
			.max_send_sge = 1, .max_recv_sge = 1,
		},
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.qp_type = IB_QPT_RC,
	};

	if (vector >= c->id->device->num_comp_vectors)
		return -ERANGE;
	c->cpu = cpumask_local_spread(vector, NUMA_NO_NODE);
	c->cq = ib_create_cq(c->id->device, kping_handle, NULL, c, &attr);
	if (IS_ERR(c->cq))
		return PTR_ERR(c->cq);
	ib_req_notify_cq(c->cq, IB_CQ_NEXT_COMP);
	init.send_cq = c->cq;
	init.recv_cq = c->cq;
	return rdma_create_qp(c->id, c->pd, &init);
}

/* Whatever it returns, kping_conn_free() ends what it has made. */
int kping_conn_setup(struct kping_conn *c, int vector)
{
	c->pd = ib_alloc_pd(c->id->device, 0);
	if (IS_ERR(c->pd))
		return PTR_ERR(c->pd);
	return kping_queues(c, vector) ?: kping_memory(c);
}

void kping_conn_free(struct kping_conn *c)
{
	int i;

	if (c->id->qp)
		rdma_destroy_qp(c->id);
	if (!IS_ERR_OR_NULL(c->region.mr))
		ib_dereg_mr(c->region.mr);
	for (i = 0; i < 2; i++) {
		kping_buf_free(c, &c->msg[i]);
		kping_buf_free(c, &c->buf[i]);
	}
	if (!IS_ERR_OR_NULL(c->cq))
		ib_destroy_cq(c->cq);
	if (!IS_ERR_OR_NULL(c->pd))
		ib_dealloc_pd(c->pd);
}

/*
 * The list of pages is noted while the region may still be registered under the last
 * one; the chain ends that and begins the new one.
 */
struct ib_send_wr *kping_register(struct kping_conn *c, const struct kping_buf *buf, u32 len,
				  int access, struct ib_send_wr *next)
{
	struct kping_region *r = &c->region;
	u32 old = r->mr->rkey;
	struct scatterlist sg;
	int n;

	sg_init_one(&sg, buf->p, len);
	sg_dma_address(&sg) = buf->dma;
	sg_dma_len(&sg) = len;
	n = ib_map_mr_sg(r->mr, &sg, 1, NULL, PAGE_SIZE);
	if (n != 1)
		return ERR_PTR(n < 0 ? n : -EINVAL);
	ib_update_fast_reg_key(r->mr, ++r->variant);
	r->reg = (struct ib_reg_wr) {
		.wr = { .opcode = IB_WR_REG_MR, .next = next },
		.mr = r->mr,
		.key = r->mr->rkey,
		.access = access,
	};
	r->inv = (struct ib_send_wr) {
		.opcode = IB_WR_LOCAL_INV, .next = &r->reg.wr, .ex.invalidate_rkey = old,
	};
	if (r->registered)
		return &r->inv;
	r->registered = true;
	return &r->reg.wr;
}

/* Is what @n counts there, or nothing to wait for any more? */
static int kping_wait(struct kping_conn *c, const int *n)
{
	if (!wait_event_timeout(c->wait, READ_ONCE(*n) || READ_ONCE(c->err), KPING_LIMIT))
		return -ETIMEDOUT;
	/* What comes with a message is read after it was seen. */
	return smp_load_acquire(n) ? 0 : READ_ONCE(c->err);
}

int kping_post(struct kping_conn *c, struct ib_send_wr *first)
{
	struct ib_send_wr *last = first;
	int err;

	while (last->next)
		last = last->next;
	last->wr_id = KPING_WR_SEND;
	last->send_flags |= IB_SEND_SIGNALED;
	c->sent = 0;
	err = ib_post_send(c->id->qp, first, NULL);
	return err ?: kping_wait(c, &c->sent);
}

int kping_expect(struct kping_conn *c)
{
	struct ib_sge sge = {
		.addr = c->msg[1].dma, .length = sizeof(struct kping_msg),
		.lkey = c->pd->local_dma_lkey,
	};
	struct ib_recv_wr wr = { .wr_id = KPING_WR_RECV, .sg_list = &sge, .num_sge = 1 };

	c->received = 0;
	return ib_post_recv(c->id->qp, &wr, NULL);
}

int kping_await(struct kping_conn *c, struct kping_msg *msg)
{
	int err = kping_wait(c, &c->received);

	if (!err)
		memcpy(msg, c->msg[1].p, sizeof(*msg));
	return err;
}

void kping_message(struct kping_conn *c, const struct kping_msg *msg, u32 invalidate,
		   struct ib_send_wr *wr, struct ib_sge *sge)
{
	memcpy(c->msg[0].p, msg, sizeof(*msg));
	*sge = (struct ib_sge) {
		.addr = c->msg[0].dma, .length = sizeof(*msg), .lkey = c->pd->local_dma_lkey,
	};
	*wr = (struct ib_send_wr) {
		.opcode = invalidate ? IB_WR_SEND_WITH_INV : IB_WR_SEND,
		.ex.invalidate_rkey = invalidate,
		.sg_list = sge,
		.num_sge = 1,
	};
}
