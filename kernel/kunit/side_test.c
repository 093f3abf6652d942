// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit: sides that find more and more to do, and packets between two QPs of one
 * device.
 */
#include <linux/delay.h>
#include <linux/scatterlist.h>
#include <rdma/ib_cache.h>

#include "../transport/internal.h"
#include "fixture.h"

/* ---- the end of a run ---- */

#define ENDLESS_RUNS 1000

/**
 * struct endless - a side that has something to do after each of many runs
 * @caller: the task that has kicked it
 * @runs: so far
 * @by_caller: of these, in the caller's context
 */
static struct endless {
	struct task_struct *caller;
	unsigned int runs;
	unsigned int by_caller;
} endless;

static bool endless_run(struct rox_qp *qp, unsigned long work)
{
	endless.by_caller += current == endless.caller;
	/* Others look at it while the side runs. */
	WRITE_ONCE(endless.runs, endless.runs + 1);
	if (endless.runs < ENDLESS_RUNS)
		set_bit(ilog2(ROX_WORK_RUN), &qp->send.side.pending);
	return false;
}

static void a_caller_is_not_kept_for_ever(struct kunit *test)
{
	struct rox_qp *qp = rox_fixture_qp(test, IB_QPT_RC);
	bool (*run)(struct rox_qp *qp, unsigned long work) = qp->send.side.run;
	int tries;

	endless = (struct endless) { .caller = current };
	qp->send.side.run = endless_run;
	local_bh_disable();
	rox_side_kick(&qp->send.side, ROX_WORK_RUN);
	local_bh_enable();
	KUNIT_EXPECT_GE(test, endless.by_caller, 1);
	KUNIT_EXPECT_LE(test, endless.by_caller, 64);
	/* And yet all of it is done. */
	for (tries = 0; tries < 1000 && READ_ONCE(endless.runs) < ENDLESS_RUNS; tries++)
		msleep(20);
	KUNIT_EXPECT_EQ(test, READ_ONCE(endless.runs), ENDLESS_RUNS);
	rox_side_lock(&qp->send.side);
	qp->send.side.run = run;
	rox_side_unlock(&qp->send.side);
	ib_destroy_qp(&qp->ibqp);
}

/* ---- frames for many ---- */

#define HELD_QPS 20

/* Runs of sides: all, and those in the context of @caller. */
static struct {
	struct task_struct *caller;
	atomic_t runs;
	unsigned int by_caller;
} held;

static bool held_run(struct rox_qp *qp, unsigned long work)
{
	held.by_caller += current == held.caller;
	atomic_inc(&held.runs);
	return false;
}

static void held_kick(struct kunit *test, struct rox_qp **qps)
{
	int i;

	local_bh_disable();
	rox_transport_hold();
	for (i = 0; i < HELD_QPS; i++)
		rox_side_kick(&qps[i]->recv.side, ROX_WORK_RUN);
	KUNIT_EXPECT_EQ(test, atomic_read(&held.runs), 0);
	rox_transport_unhold();
	KUNIT_EXPECT_GE(test, held.by_caller, 1);
	KUNIT_EXPECT_LE(test, held.by_caller, HELD_QPS / 2);
	local_bh_enable();
}

static void held_sides_are_left_to_workers(struct kunit *test)
{
	struct rox_qp *qps[HELD_QPS];
	bool (*run)(struct rox_qp *qp, unsigned long work) = NULL;
	int i, tries;

	for (i = 0; i < HELD_QPS; i++) {
		qps[i] = rox_fixture_qp(test, IB_QPT_RC);
		run = qps[i]->recv.side.run;
		qps[i]->recv.side.run = held_run;
	}
	held.caller = current;
	atomic_set(&held.runs, 0);
	held.by_caller = 0;
	held_kick(test, qps);
	for (tries = 0; tries < 1000 && atomic_read(&held.runs) < HELD_QPS; tries++)
		msleep(20);
	KUNIT_EXPECT_EQ(test, atomic_read(&held.runs), HELD_QPS);
	/* Nothing of it is left: the next one runs at once. */
	local_bh_disable();
	rox_side_kick(&qps[0]->recv.side, ROX_WORK_RUN);
	KUNIT_EXPECT_EQ(test, atomic_read(&held.runs), HELD_QPS + 1);
	local_bh_enable();
	for (i = 0; i < HELD_QPS; i++) {
		rox_side_lock(&qps[i]->recv.side);
		qps[i]->recv.side.run = run;
		rox_side_unlock(&qps[i]->recv.side);
		ib_destroy_qp(&qps[i]->ibqp);
	}
}

/* ---- without a wire ---- */

static void step(struct kunit *test, struct rox_qp *qp, u32 dest, enum ib_qp_state to)
{
	struct rox_fixture *f = test->priv;
	struct ib_qp_attr attr;
	union ib_gid own;
	int mask = rox_fixture_attr(test, qp, rox_qp_state(qp), to, &attr);

	KUNIT_ASSERT_EQ(test, rdma_query_gid(&f->dev->ibdev, 1, f->gid_index, &own), 0);
	rdma_ah_set_grh(&attr.ah_attr, &own, 0, f->gid_index, 64, 0);
	attr.dest_qp_num = dest;
	attr.rq_psn = attr.sq_psn;
	KUNIT_ASSERT_EQ_MSG(test, ib_modify_qp(&qp->ibqp, &attr, mask), 0, "to state %d", to);
}

static void join(struct kunit *test, struct rox_qp *a, struct rox_qp *b)
{
	enum ib_qp_state to;

	for (to = IB_QPS_INIT; to <= IB_QPS_RTS; to++) {
		step(test, a, b->ibqp.qp_num, to);
		step(test, b, a->ibqp.qp_num, to);
	}
}

/* The next completion, which must be a good one. */
static struct ib_wc next_wc(struct kunit *test)
{
	struct rox_fixture *f = test->priv;
	struct ib_wc wc = {};
	int tries, n = 0;

	for (tries = 0; tries < 500 && !n; tries++) {
		n = ib_poll_cq(f->cq, 1, &wc);
		if (!n)
			msleep(20);
	}
	KUNIT_ASSERT_EQ(test, n, 1);
	KUNIT_ASSERT_EQ(test, wc.status, IB_WC_SUCCESS);
	return wc;
}

/* A page that is registered by a work request of @qp. */
static struct ib_mr *register_page(struct kunit *test, struct rox_qp *qp, struct scatterlist *sg)
{
	struct rox_fixture *f = test->priv;
	struct ib_mr *mr = ib_alloc_mr(f->pd, IB_MR_TYPE_MEM_REG, 1);
	struct ib_reg_wr reg = {
		.wr = { .opcode = IB_WR_REG_MR },
		.mr = mr,
		.access = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE,
	};

	KUNIT_ASSERT_FALSE(test, IS_ERR(mr));
	KUNIT_ASSERT_EQ(test, ib_dma_map_sg(&f->dev->ibdev, sg, 1, DMA_BIDIRECTIONAL), 1);
	KUNIT_ASSERT_EQ(test, ib_map_mr_sg(mr, sg, 1, NULL, PAGE_SIZE), 1);
	reg.key = mr->rkey;
	KUNIT_ASSERT_EQ(test, ib_post_send(&qp->ibqp, &reg.wr, NULL), 0);
	KUNIT_EXPECT_EQ(test, next_wc(test).opcode, IB_WC_REG_MR);
	return mr;
}

/* The sender's place in the region is left when the receiver has all that was in it. */
static void payload_may_be_of_the_region_that_it_invalidates(struct kunit *test)
{
	struct rox_fixture *f = test->priv;
	struct rox_qp *a = rox_fixture_qp(test, IB_QPT_RC);
	struct rox_qp *b = rox_fixture_qp(test, IB_QPT_RC);
	u8 *pages = kunit_kzalloc(test, 2 * PAGE_SIZE, GFP_KERNEL);
	struct scatterlist sg;
	struct ib_mr *mr;
	struct ib_sge from = {}, to = {};
	struct ib_send_wr send = { .opcode = IB_WR_SEND_WITH_INV, .sg_list = &from, .num_sge = 1 };
	struct ib_recv_wr recv = { .sg_list = &to, .num_sge = 1 };
	int i, received = 0;

	KUNIT_ASSERT_NOT_NULL(test, pages);
	memset(pages, 0x5a, PAGE_SIZE);
	sg_init_one(&sg, pages, PAGE_SIZE);
	join(test, a, b);
	mr = register_page(test, a, &sg);
	from = (struct ib_sge) { .addr = mr->iova, .length = PAGE_SIZE, .lkey = mr->lkey };
	to = (struct ib_sge) { .addr = (uintptr_t)pages + PAGE_SIZE, .length = PAGE_SIZE,
			       .lkey = f->pd->local_dma_lkey };
	send.ex.invalidate_rkey = mr->rkey;
	KUNIT_ASSERT_EQ(test, ib_post_recv(&b->ibqp, &recv, NULL), 0);
	KUNIT_ASSERT_EQ(test, ib_post_send(&a->ibqp, &send, NULL), 0);
	for (i = 0; i < 2; i++) {
		struct ib_wc wc = next_wc(test);

		if (wc.opcode != IB_WC_RECV)
			continue;
		received++;
		KUNIT_EXPECT_EQ(test, wc.byte_len, PAGE_SIZE);
		KUNIT_EXPECT_TRUE(test, wc.wc_flags & IB_WC_WITH_INVALIDATE);
		KUNIT_EXPECT_EQ(test, wc.ex.invalidate_rkey, mr->rkey);
	}
	KUNIT_EXPECT_EQ(test, received, 1);
	KUNIT_EXPECT_MEMEQ(test, pages + PAGE_SIZE, pages, PAGE_SIZE);
	KUNIT_EXPECT_FALSE(test, to_rox_mr(mr)->valid);
	ib_destroy_qp(&a->ibqp);
	ib_destroy_qp(&b->ibqp);
	KUNIT_EXPECT_EQ(test, ib_dereg_mr(mr), 0);
}

/**
 * struct handled - calls of a completion handler
 * @lock: taken by the handler and by those who post
 * @calls: of the handler
 */
static struct handled {
	spinlock_t lock;	/* see above */
	unsigned int calls;
} handled;

static void count_call(struct ib_cq *cq, void *context)
{
	spin_lock_bh(&handled.lock);
	WRITE_ONCE(handled.calls, handled.calls + 1);
	spin_unlock_bh(&handled.lock);
}

/* A SEND between two QPs of one device completes within the post; its poster holds a lock. */
static void a_handler_is_not_called_within_a_post(struct kunit *test)
{
	struct rox_fixture *f = test->priv;
	struct rox_qp *a = rox_fixture_qp(test, IB_QPT_RC);
	struct rox_qp *b = rox_fixture_qp(test, IB_QPT_RC);
	struct ib_send_wr send = { .opcode = IB_WR_SEND };
	struct ib_recv_wr recv = {};
	ib_comp_handler before = f->cq->comp_handler;
	int tries;

	spin_lock_init(&handled.lock);
	handled.calls = 0;
	join(test, a, b);
	f->cq->comp_handler = count_call;
	KUNIT_ASSERT_EQ(test, ib_req_notify_cq(f->cq, IB_CQ_NEXT_COMP), 0);
	KUNIT_ASSERT_EQ(test, ib_post_recv(&b->ibqp, &recv, NULL), 0);
	spin_lock_bh(&handled.lock);
	KUNIT_EXPECT_EQ(test, ib_post_send(&a->ibqp, &send, NULL), 0);
	KUNIT_EXPECT_EQ(test, handled.calls, 0);
	spin_unlock_bh(&handled.lock);
	for (tries = 0; tries < 500 && !READ_ONCE(handled.calls); tries++)
		msleep(20);
	KUNIT_EXPECT_EQ(test, READ_ONCE(handled.calls), 1);
	next_wc(test);
	next_wc(test);
	ib_destroy_qp(&a->ibqp);
	ib_destroy_qp(&b->ibqp);
	f->cq->comp_handler = before;
}

static void acknowledge(struct kunit *test, struct rox_qp *qp, u32 psn, u8 syndrome)
{
	struct rox_pkt pkt = {
		.bth = { .dqpn = qp->ibqp.qp_num, .psn = psn, .opcode = IB_OPCODE_RC_ACKNOWLEDGE },
		.ext.aeth = { .syndrome = syndrome, .msn = psn },
		.info = &rox_opcodes[IB_OPCODE_RC_ACKNOWLEDGE],
		.npkts = 1,
	};

	KUNIT_EXPECT_TRUE(test, rox_transport_direct(qp, &pkt, false));
}

/* The requester is busy meanwhile: what it finds when it looks is one acknowledge. */
static void an_ack_replaces_an_ack_and_no_nak(struct kunit *test)
{
	struct rox_qp *qp = rox_fixture_qp(test, IB_QPT_RC);
	u64 ack, nak;

	rox_side_lock(&qp->send.side);
	local_bh_disable();
	acknowledge(test, qp, 7, ROX_AETH_ACK | ROX_AETH_NO_CREDITS);
	acknowledge(test, qp, 8, ROX_AETH_ACK | ROX_AETH_NO_CREDITS);
	ack = atomic64_read(&qp->send.mail);
	acknowledge(test, qp, 9, ROX_AETH_NAK | ROX_NAK_PSN_SEQ);
	nak = atomic64_read(&qp->send.mail);
	acknowledge(test, qp, 8, ROX_AETH_ACK | ROX_AETH_NO_CREDITS);
	KUNIT_EXPECT_EQ(test, ack & ROX_PSN_MASK, 8);
	KUNIT_EXPECT_EQ(test, nak & ROX_PSN_MASK, 9);
	KUNIT_EXPECT_EQ(test, atomic64_read(&qp->send.mail), nak);
	local_bh_enable();
	rox_side_unlock(&qp->send.side);
	ib_destroy_qp(&qp->ibqp);
}

/* Whoever lets a side wait, for a page that does not come, must not have us keep more and more. */
static void frames_that_wait_have_their_limit_in_bytes(struct kunit *test)
{
	const unsigned int fits = ROX_MAX_RXQ_BYTES / SZ_1M;
	struct rox_qp *qp = rox_fixture_qp(test, IB_QPT_RC);
	struct rox_side *side = &qp->recv.side;
	struct sk_buff *skb;
	unsigned int i;

	rox_side_lock(side);
	for (i = 0; i < 2 * fits; i++) {
		skb = alloc_skb(64, GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, skb);
		skb->truesize = SZ_1M;
		rcu_read_lock_bh();
		rox_transport_rx(qp, skb, true);
		rcu_read_unlock_bh();
	}
	KUNIT_EXPECT_EQ(test, skb_queue_len(&side->rxq), fits);
	KUNIT_EXPECT_EQ(test, side->rxq_bytes, ROX_MAX_RXQ_BYTES);
	skb = rox_side_next_frame(side);
	KUNIT_EXPECT_NOT_NULL(test, skb);
	KUNIT_EXPECT_EQ(test, side->rxq_bytes, ROX_MAX_RXQ_BYTES - SZ_1M);
	kfree_skb(skb);
	rox_side_purge(side);
	KUNIT_EXPECT_EQ(test, side->rxq_bytes, 0);
	rox_side_unlock(side);
	ib_destroy_qp(&qp->ibqp);
}

static struct kunit_case rox_side_cases[] = {
	KUNIT_CASE(a_caller_is_not_kept_for_ever),
	KUNIT_CASE(held_sides_are_left_to_workers),
	KUNIT_CASE(payload_may_be_of_the_region_that_it_invalidates),
	KUNIT_CASE(a_handler_is_not_called_within_a_post),
	KUNIT_CASE(an_ack_replaces_an_ack_and_no_nak),
	KUNIT_CASE(frames_that_wait_have_their_limit_in_bytes),
	{}
};

static struct kunit_suite rox_side_suite = {
	.name = "rox_side",
	.init = rox_fixture_init,
	.exit = rox_fixture_exit,
	.test_cases = rox_side_cases,
};

kunit_test_suite(rox_side_suite);
