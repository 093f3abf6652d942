// SPDX-License-Identifier: GPL-2.0
/*
 * Client and server, and how they are told what to do:
 *
 *	echo PORT >/sys/module/rox_kping/parameters/serve	0 ends it
 *	echo ADDRESS PORT FLAGS VECTOR >.../ping		fails if anything was wrong
 */
#include <linux/inet.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/workqueue.h>
#include "kping.h"

#define KPING_ROUNDS 8

static struct rdma_cm_id *kping_listener;
static struct workqueue_struct *kping_wq;
static DEFINE_MUTEX(kping_serve_lock);

static struct kping_conn *kping_conn_alloc(void)
{
	struct kping_conn *c = kzalloc(sizeof(*c), GFP_KERNEL);

	if (!c)
		return NULL;
	init_waitqueue_head(&c->wait);
	c->cm = -1;
	return c;
}

static void kping_lost(struct kping_conn *c)
{
	WRITE_ONCE(c->err, -ECONNRESET);
	wake_up(&c->wait);
}

/* ---- server ---- */

static int kping_transfer(struct kping_conn *c, const struct kping_msg *ask)
{
	bool read = be32_to_cpu(ask->op) == KPING_READ;
	struct ib_sge sge = { .addr = c->buf[0].dma, .length = be32_to_cpu(ask->len) };
	struct ib_rdma_wr wr = {
		.wr = {
			.opcode = read ? IB_WR_RDMA_READ : IB_WR_RDMA_WRITE,
			.sg_list = &sge,
			.num_sge = 1,
		},
		.remote_addr = be64_to_cpu(ask->addr),
		.rkey = be32_to_cpu(ask->rkey),
	};
	struct ib_send_wr *first = &wr.wr;

	if (sge.length > KPING_MAX)
		return -EMSGSIZE;
	sge.lkey = c->pd->local_dma_lkey;
	if (be32_to_cpu(ask->flags) & KPING_FR) {
		first = kping_register(c, &c->buf[0], sge.length, IB_ACCESS_LOCAL_WRITE, &wr.wr);
		if (IS_ERR(first))
			return PTR_ERR(first);
		sge.lkey = c->region.mr->lkey;
	}
	return kping_post(c, first);
}

static int kping_answer(struct kping_conn *c, const struct kping_msg *ask)
{
	u32 key = be32_to_cpu(ask->flags) & KPING_INV ? be32_to_cpu(ask->rkey) : 0;
	struct kping_msg msg = { .op = cpu_to_be32(KPING_DONE) };
	struct ib_send_wr wr;
	struct ib_sge sge;

	kping_message(c, &msg, key, &wr, &sge);
	return kping_post(c, &wr);
}

/* Until the client disconnects. */
static void kping_serve_conn(struct work_struct *work)
{
	struct kping_conn *c = container_of(work, struct kping_conn, work);
	struct kping_msg ask;
	int err;

	do {
		err = kping_await(c, &ask) ?: kping_expect(c) ?: kping_transfer(c, &ask) ?:
		      kping_answer(c, &ask);
	} while (!err);
	if (READ_ONCE(c->cm) != RDMA_CM_EVENT_DISCONNECTED)
		pr_info("kping: server: %d\n", err);
	rdma_disconnect(c->id);
	kping_conn_free(c);
	rdma_destroy_id(c->id);
	kfree(c);
}

/* If it fails the RDMA CM destroys @id. */
static int kping_accept(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1 };
	struct kping_conn *c = kping_conn_alloc();
	int err;

	if (!c)
		return -ENOMEM;
	c->id = id;
	INIT_WORK(&c->work, kping_serve_conn);
	err = kping_conn_setup(c, 0) ?: kping_expect(c);
	id->context = c;
	err = err ?: rdma_accept(id, &param);
	if (!err)
		return 0;
	kping_conn_free(c);
	kfree(c);
	id->context = NULL;
	return err;
}

static int kping_server_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct kping_conn *c = id->context;

	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		return kping_accept(id);
	if (!c)
		return 0;
	WRITE_ONCE(c->cm, event->event);
	switch (event->event) {
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
		/* It comes in place of the next: the work only frees the connection. */
		kping_lost(c);
		fallthrough;
	case RDMA_CM_EVENT_ESTABLISHED:
		queue_work(kping_wq, &c->work);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		kping_lost(c);
		break;
	default:
		break;
	}
	return 0;
}

static int kping_listen(u16 port)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct rdma_cm_id *id;
	int err;

	id = rdma_create_id(&init_net, kping_server_event, NULL, RDMA_PS_TCP, IB_QPT_RC);
	if (IS_ERR(id))
		return PTR_ERR(id);
	err = rdma_bind_addr(id, (struct sockaddr *)&addr) ?: rdma_listen(id, 8);
	if (err)
		rdma_destroy_id(id);
	else
		kping_listener = id;
	return err;
}

static void kping_serve_end(void)
{
	if (kping_listener)
		rdma_destroy_id(kping_listener);
	kping_listener = NULL;
	flush_workqueue(kping_wq);
}

/* ---- client ---- */

static int kping_client_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct kping_conn *c = id->context;

	WRITE_ONCE(c->cm, event->event);
	if (event->event == RDMA_CM_EVENT_DISCONNECTED)
		kping_lost(c);
	wake_up(&c->wait);
	return 0;
}

static int kping_cm_wait(struct kping_conn *c, int event)
{
	if (!wait_event_timeout(c->wait, READ_ONCE(c->cm) != -1, KPING_LIMIT))
		return -ETIMEDOUT;
	if (c->cm != event) {
		pr_info("kping: %s\n", rdma_event_msg(c->cm));
		return -ECONNREFUSED;
	}
	WRITE_ONCE(c->cm, -1);
	return 0;
}

static int kping_connect(struct kping_conn *c, struct sockaddr_in *addr, int vector)
{
	struct rdma_conn_param param = {
		.responder_resources = 1, .initiator_depth = 1, .retry_count = 7,
		.rnr_retry_count = 7,
	};

	return rdma_resolve_addr(c->id, NULL, (struct sockaddr *)addr, 5000) ?:
	       kping_cm_wait(c, RDMA_CM_EVENT_ADDR_RESOLVED) ?:
	       rdma_resolve_route(c->id, 5000) ?:
	       kping_cm_wait(c, RDMA_CM_EVENT_ROUTE_RESOLVED) ?:
	       kping_conn_setup(c, vector) ?:
	       rdma_connect(c->id, &param) ?:
	       kping_cm_wait(c, RDMA_CM_EVENT_ESTABLISHED);
}

/* Offers @len bytes of @buf to the server, and waits until it has used them. */
static int kping_offer(struct kping_conn *c, const struct kping_buf *buf, u32 len,
		       enum kping_op op, u32 flags)
{
	int access = op == KPING_READ ? IB_ACCESS_REMOTE_READ :
					IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE;
	struct ib_mr *mr = c->region.mr;
	struct ib_send_wr wr = {}, *first;
	struct kping_msg msg;
	struct ib_sge sge;
	int err;

	first = kping_register(c, buf, len, access, &wr);
	if (IS_ERR(first))
		return PTR_ERR(first);
	msg = (struct kping_msg) {
		.addr = cpu_to_be64(mr->iova), .rkey = cpu_to_be32(mr->rkey),
		.len = cpu_to_be32(len), .op = cpu_to_be32(op), .flags = cpu_to_be32(flags),
	};
	kping_message(c, &msg, 0, &wr, &sge);
	err = kping_expect(c) ?: kping_post(c, first) ?: kping_await(c, &msg);
	if (err)
		return err;
	if (c->invalidated != (flags & KPING_INV ? mr->rkey : 0))
		return -EBADMSG;
	c->region.registered = !(flags & KPING_INV);
	return be32_to_cpu(msg.op) == KPING_DONE ? 0 : -EBADMSG;
}

static int kping_round(struct kping_conn *c, u32 len, u32 flags)
{
	int err;

	get_random_bytes(c->buf[0].p, len);
	memset(c->buf[1].p, 0, KPING_MAX);
	err = kping_offer(c, &c->buf[0], len, KPING_READ, flags) ?:
	      kping_offer(c, &c->buf[1], len, KPING_WRITE, flags);
	if (!err && memcmp(c->buf[0].p, c->buf[1].p, len))
		err = -EILSEQ;
	if (!err && len < KPING_MAX && memchr_inv(c->buf[1].p + len, 0, KPING_MAX - len))
		err = -EOVERFLOW;
	if (err)
		pr_info("kping: %u bytes, flags %u: %d\n", len, flags, err);
	return err;
}

static int kping_run(struct kping_conn *c, u32 flags)
{
	int i, err = 0;
	u32 len;

	for (len = 64; len <= KPING_MAX && !err; len *= 2)
		for (i = 0; i < KPING_ROUNDS && !err; i++)
			err = kping_round(c, len, flags);
	if (err)
		return err;
	pr_info("kping: %d completion events, %d not on CPU %d\n", c->events, c->elsewhere,
		c->cpu);
	return !c->events || c->elsewhere ? -EXDEV : 0;
}

static int kping_ping(struct sockaddr_in *addr, u32 flags, int vector)
{
	struct kping_conn *c = kping_conn_alloc();
	int err;

	if (!c)
		return -ENOMEM;
	c->id = rdma_create_id(&init_net, kping_client_event, c, RDMA_PS_TCP, IB_QPT_RC);
	if (IS_ERR(c->id)) {
		err = PTR_ERR(c->id);
		goto out;
	}
	err = kping_connect(c, addr, vector) ?: kping_run(c, flags);
	if (c->id->qp)
		rdma_disconnect(c->id);
	kping_conn_free(c);
	rdma_destroy_id(c->id);
out:
	kfree(c);
	return err;
}

/* ---- parameters ---- */

static int kping_set_serve(const char *value, const struct kernel_param *kp)
{
	u16 port;
	int err = kstrtou16(value, 0, &port);

	if (err)
		return err;
	mutex_lock(&kping_serve_lock);
	kping_serve_end();
	if (port)
		err = kping_listen(port);
	mutex_unlock(&kping_serve_lock);
	return err;
}

static int kping_set_ping(const char *value, const struct kernel_param *kp)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	u32 flags, vector;
	char host[32];
	u16 port;

	if (sscanf(value, "%31s %hu %u %u", host, &port, &flags, &vector) != 4 ||
	    !in4_pton(host, -1, (u8 *)&addr.sin_addr, -1, NULL))
		return -EINVAL;
	addr.sin_port = htons(port);
	return kping_ping(&addr, flags, vector);
}

static const struct kernel_param_ops kping_serve_ops = { .set = kping_set_serve };
static const struct kernel_param_ops kping_ping_ops = { .set = kping_set_ping };

module_param_cb(serve, &kping_serve_ops, NULL, 0200);
MODULE_PARM_DESC(serve, "port to listen on, 0 to end it");
module_param_cb(ping, &kping_ping_ops, NULL, 0200);
MODULE_PARM_DESC(ping, "ADDRESS PORT FLAGS VECTOR: connect and ping");

static int __init kping_init(void)
{
	kping_wq = alloc_workqueue("rox_kping", WQ_UNBOUND, 0);
	return kping_wq ? 0 : -ENOMEM;
}

static void __exit kping_exit(void)
{
	kping_serve_end();
	destroy_workqueue(kping_wq);
}

module_init(kping_init);
module_exit(kping_exit);
MODULE_DESCRIPTION("A kernel user of RDMA verbs that pings, for tests");
MODULE_LICENSE("GPL");
