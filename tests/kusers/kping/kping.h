/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A kernel user of verbs that pings: the client offers its memory by a SEND, the server
 * reads it by RDMA READ, then writes it back by RDMA WRITE, and the client compares.
 */
#ifndef ROX_KPING_H
#define ROX_KPING_H

#include <linux/wait.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

#define KPING_MAX	65536
#define KPING_LIMIT	(20 * HZ)

/* What a message asks for, or says. */
enum kping_op {
	KPING_READ = 1,	/* read my memory */
	KPING_WRITE,	/* write what you have read to it */
	KPING_DONE,	/* it is done */
};

/* Flags of a message: how the server is to do it. */
enum kping_flags {
	KPING_FR	= 1,	/* local memory by fast registration, not by the local DMA key */
	KPING_INV	= 2,	/* invalidate the client's key with the answer */
};

struct kping_msg {
	__be64 addr;
	__be32 rkey;
	__be32 len;
	__be32 op;
	__be32 flags;
};

/**
 * struct kping_region - memory that is registered again for each use
 * @mr: fast registration region
 * @registered: under @mr->rkey; the peer may have ended it
 * @variant: of the key
 * @reg: work request that registers
 * @inv: one that ends the registration before
 */
struct kping_region {
	struct ib_mr *mr;
	bool registered;
	u8 variant;
	struct ib_reg_wr reg;
	struct ib_send_wr inv;
};

/* KPING_MAX bytes, mapped for DMA. */
struct kping_buf {
	void *p;
	u64 dma;
};

/**
 * struct kping_conn - one connection, of either side
 * @id: the RDMA CM's; its QP is ours
 * @cpu: where completions are to be handled, by the completion vector
 * @wait: for all that follows
 * @cm: the last event of the RDMA CM, -1 if none
 * @sent: completions of what was signalled
 * @received: messages that came and have not been looked at: at most one
 * @err: of a completion, or the connection is over
 * @events: calls of the completion handler
 * @elsewhere: those on another CPU than @cpu
 * @invalidated: key that the last message has invalidated, or 0
 * @region: for all of the RDMA buffers
 * @msg: what is sent (0) and received (1)
 * @buf: source (0) and sink (1)
 * @work: server: what the connection does
 */
struct kping_conn {
	struct rdma_cm_id *id;
	struct ib_pd *pd;
	struct ib_cq *cq;
	int cpu;
	wait_queue_head_t wait;
	int cm;
	int sent;
	int received;
	int err;
	int events;
	int elsewhere;
	u32 invalidated;
	struct kping_region region;
	struct kping_buf msg[2];
	struct kping_buf buf[2];
	struct work_struct work;
};

int kping_conn_setup(struct kping_conn *c, int vector);
void kping_conn_free(struct kping_conn *c);
/* The work requests that register @len bytes of @buf, followed by @next; or ERR_PTR. */
struct ib_send_wr *kping_register(struct kping_conn *c, const struct kping_buf *buf, u32 len,
				  int access, struct ib_send_wr *next);
/* Posts a chain whose last one is signalled, and waits for it. 0 or an error. */
int kping_post(struct kping_conn *c, struct ib_send_wr *first);
/* Posts the receive for one message. */
int kping_expect(struct kping_conn *c);
/* Waits for it. */
int kping_await(struct kping_conn *c, struct kping_msg *msg);
/* A SEND of @msg, in @wr; with @invalidate that key of the peer's ends with it. */
void kping_message(struct kping_conn *c, const struct kping_msg *msg, u32 invalidate,
		   struct ib_send_wr *wr, struct ib_sge *sge);

#endif /* ROX_KPING_H */
