// SPDX-License-Identifier: GPL-2.0
/* KUnit: sides that always have more work, and loopback. */
#include <linux/delay.h>
#include <linux/interrupt.h>
#include <linux/lockdep.h>
#include <linux/scatterlist.h>

#include "internal.h"
#include "../kunit/fixture.h"

/* ---- the end of a run ---- */

#define ENDLESS_RUNS 1000

/**
 * struct endless - a side that has more work after each of many runs
 * @caller: the task that has kicked the side
 * @runs: number of runs
 * @by_caller: runs in the context of @caller
 * @forever: the work never ends
 */
static struct endless {
	struct task_struct *caller;
	unsigned int runs;
	unsigned int by_caller;
	bool forever;
} endless;

static bool endless_run(struct rox_qp *qp, unsigned long work)
{
	endless.by_caller += current == endless.caller;
	/* Other tasks read it while the side runs. */
	WRITE_ONCE(endless.runs, endless.runs + 1);
	if (endless.forever)
		rox_side_kick_fairly(&qp->send.side, ROX_WORK_RUN);
	else if (endless.runs < ENDLESS_RUNS)
		set_bit(ilog2(ROX_WORK_RUN), &qp->send.side.pending);
	return endless.forever;
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
	/* All work is done all the same. */
	for (tries = 0; tries < 1000 && READ_ONCE(endless.runs) < ENDLESS_RUNS; tries++)
		msleep(20);
	KUNIT_EXPECT_EQ(test, READ_ONCE(endless.runs), ENDLESS_RUNS);
	rox_side_lock(&qp->send.side);
	qp->send.side.run = run;
	rox_side_unlock(&qp->send.side);
	ib_destroy_qp(&qp->ibqp);
}

/* The side runs in several contexts until destroy_qp has its lock, and not after that. */
static void a_side_without_an_end_is_destroyed(struct kunit *test)
{
	struct rox_qp *qp = rox_fixture_qp(test, IB_QPT_RC);
	struct rox_side *side = &qp->send.side;
	unsigned int runs;
	int tries;

	endless = (struct endless) { .forever = true };
	side->run = endless_run;
	rox_side_kick_fairly(side, ROX_WORK_RUN);
	rox_send_doorbell(qp);
	for (tries = 0; tries < 1000 && READ_ONCE(endless.runs) < ENDLESS_RUNS; tries++)
		msleep(20);
	KUNIT_EXPECT_GE(test, READ_ONCE(endless.runs), ENDLESS_RUNS);
	KUNIT_EXPECT_EQ(test, ib_destroy_qp(&qp->ibqp), 0);
	runs = READ_ONCE(endless.runs);
	msleep(50);
	KUNIT_EXPECT_EQ(test, READ_ONCE(endless.runs), runs);
}

/* A work item that is on two queues could run twice at the same time. */
static void each_queue_has_a_work_of_its_own(struct kunit *test)
{
	struct rox_qp *qp = rox_fixture_qp(test, IB_QPT_RC);
	struct rox_side *side = &qp->send.side;

	rox_side_lock(side);
	local_bh_disable();
	rox_side_again(side);
	rox_side_kick_fairly(side, ROX_WORK_RUN);
	KUNIT_EXPECT_TRUE(test, work_pending(&side->work));
	KUNIT_EXPECT_TRUE(test, work_pending(&side->fair));
	local_bh_enable();
	/* The workers find the lock of the side taken and return. */
	flush_work(&side->work);
	flush_work(&side->fair);
	KUNIT_EXPECT_FALSE(test, work_busy(&side->work));
	KUNIT_EXPECT_FALSE(test, work_busy(&side->fair));
	rox_side_unlock(side);
	ib_destroy_qp(&qp->ibqp);
}

/* What is left of a run waits for the engine, and for a worker where there is none. */
static void an_engine_does_what_a_run_leaves(struct kunit *test)
{
	struct rox_qp *qp = rox_fixture_qp(test, IB_QPT_RC);
	struct rox_side *side = &qp->send.side;
	bool (*run)(struct rox_qp *qp, unsigned long work) = side->run;

	endless = (struct endless) { .caller = current };
	side->run = endless_run;
	WRITE_ONCE(qp->send.watch.watched, true);
	local_bh_disable();
	rox_side_kick(side, ROX_WORK_RUN);
	local_bh_enable();
	KUNIT_EXPECT_FALSE(test, work_busy(&side->work));
	KUNIT_EXPECT_NE(test, READ_ONCE(side->pending), 0UL);
	KUNIT_EXPECT_LT(test, endless.runs, ENDLESS_RUNS);
	WRITE_ONCE(qp->send.watch.watched, false);
	endless.runs = ENDLESS_RUNS;
	local_bh_disable();
	rox_side_announce(side, ROX_WORK_RUN);
	rox_side_defer(side);
	local_bh_enable();
	flush_work(&side->work);
	KUNIT_EXPECT_EQ(test, READ_ONCE(side->pending), 0UL);
	KUNIT_EXPECT_EQ(test, endless.runs, ENDLESS_RUNS + 1);
	rox_side_lock(side);
	side->run = run;
	rox_side_unlock(side);
	ib_destroy_qp(&qp->ibqp);
}

/* ---- what lockdep sees ---- */

static bool seen_held[2];

static bool seen_run(struct rox_qp *qp, unsigned long work)
{
	seen_held[0] = lock_is_held(&qp->send.side.dep_map);
	seen_held[1] = lock_is_held(&qp->recv.side.dep_map);
	return false;
}

static void lockdep_knows_who_has_a_side(struct kunit *test)
{
	bool (*run)(struct rox_qp *qp, unsigned long work);
	struct lockdep_map *send, *recv;
	struct rox_qp *qp;

	if (!IS_ENABLED(CONFIG_LOCKDEP) || !debug_locks)
		kunit_skip(test, "lockdep is off");
	qp = rox_fixture_qp(test, IB_QPT_RC);
	send = &qp->send.side.dep_map;
	recv = &qp->recv.side.dep_map;
	run = qp->recv.side.run;
	rox_transport_lock(qp);
	KUNIT_EXPECT_TRUE(test, lock_is_held(send));
	KUNIT_EXPECT_TRUE(test, lock_is_held(recv));
	qp->recv.side.run = seen_run;
	rox_transport_unlock(qp);
	KUNIT_EXPECT_FALSE(test, lock_is_held(send));
	KUNIT_EXPECT_FALSE(test, lock_is_held(recv));
	seen_held[0] = true;
	seen_held[1] = false;
	local_bh_disable();
	rox_side_kick(&qp->recv.side, ROX_WORK_RUN);
	local_bh_enable();
	KUNIT_EXPECT_FALSE(test, seen_held[0]);
	KUNIT_EXPECT_TRUE(test, seen_held[1]);
	rox_side_lock(&qp->recv.side);
	qp->recv.side.run = run;
	rox_side_unlock(&qp->recv.side);
	ib_destroy_qp(&qp->ibqp);
}

/* ---- frames for many QPs ---- */

#define SOON_QPS 20
#define SOON_ROUNDS 7

/**
 * struct soon - a softirq in which frames come for several QPs
 * @tasklet: the softirq
 * @qps: the QPs
 * @runs: runs of their sides
 * @after: @runs after each round of frames, one for each QP
 * @ended: the softirq has ended
 */
static struct soon {
	struct tasklet_struct tasklet;
	struct rox_qp *qps[SOON_QPS];
	atomic_t runs;
	int after[SOON_ROUNDS];
	struct completion ended;
} soon;

/* @runs: how many sides of each QP have run after this round */
static const struct {
	bool request;
	bool goes_on;
	int runs;
} soon_rounds[SOON_ROUNDS] = {
	/* Responses to a READ wait; the middle of a request need not, once. */
	{ false, true, 0 },
	{ true, true, 2 },
	{ true, true, 2 },
	/* Neither need ends and ACKs, as long as there are turns left. */
	{ true, false, 3 },
	{ false, false, 4 },
	{ true, false, 4 },
	{ false, false, 4 },
};

static bool soon_run(struct rox_qp *qp, unsigned long work)
{
	atomic_inc(&soon.runs);
	return false;
}

static void soon_frames(bool request, bool goes_on)
{
	int i;

	for (i = 0; i < SOON_QPS; i++) {
		struct sk_buff *skb = alloc_skb(64, GFP_ATOMIC);

		if (skb)
			rox_transport_queue(soon.qps[i], skb, request, goes_on);
	}
	rox_transport_run();
}

static void soon_softirq(struct tasklet_struct *tasklet)
{
	int i;

	for (i = 0; i < SOON_ROUNDS; i++) {
		soon_frames(soon_rounds[i].request, soon_rounds[i].goes_on);
		soon.after[i] = atomic_read(&soon.runs);
	}
	complete(&soon.ended);
}

static void soon_end(struct kunit *test, struct rox_side *side,
		     bool (*run)(struct rox_qp *qp, unsigned long work), u32 frames)
{
	KUNIT_EXPECT_EQ(test, skb_queue_len(&side->rxq), frames);
	rox_side_lock(side);
	rox_side_purge(side);
	side->run = run;
	rox_side_unlock(side);
}

/* The first frames of a softirq are run at once. Those that come later are run once, after it. */
static void sides_run_once_for_all_frames(struct kunit *test)
{
	bool (*send)(struct rox_qp *qp, unsigned long work) = NULL;
	bool (*recv)(struct rox_qp *qp, unsigned long work) = NULL;
	int i, tries;

	atomic_set(&soon.runs, 0);
	init_completion(&soon.ended);
	tasklet_setup(&soon.tasklet, soon_softirq);
	for (i = 0; i < SOON_QPS; i++) {
		soon.qps[i] = rox_fixture_qp(test, IB_QPT_RC);
		send = soon.qps[i]->send.side.run;
		recv = soon.qps[i]->recv.side.run;
		soon.qps[i]->send.side.run = soon_run;
		soon.qps[i]->recv.side.run = soon_run;
	}
	tasklet_schedule(&soon.tasklet);
	KUNIT_EXPECT_NE(test, wait_for_completion_timeout(&soon.ended, 10 * HZ), 0UL);
	for (tries = 0; tries < 1000 && atomic_read(&soon.runs) < 6 * SOON_QPS; tries++)
		msleep(20);
	for (i = 0; i < SOON_ROUNDS; i++)
		KUNIT_EXPECT_EQ_MSG(test, soon.after[i], soon_rounds[i].runs * SOON_QPS,
				    "round %d", i);
	KUNIT_EXPECT_EQ(test, atomic_read(&soon.runs), 6 * SOON_QPS);
	tasklet_kill(&soon.tasklet);
	for (i = 0; i < SOON_QPS; i++) {
		soon_end(test, &soon.qps[i]->send.side, send, 3);
		soon_end(test, &soon.qps[i]->recv.side, recv, 4);
		ib_destroy_qp(&soon.qps[i]->ibqp);
	}
}

/* ---- loopback ---- */

/* The sender releases the region before the receiver invalidates it. */
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
	rox_fixture_join(test, a, b);
	mr = rox_fixture_register(test, a, &sg);
	from = (struct ib_sge) { .addr = mr->iova, .length = PAGE_SIZE, .lkey = mr->lkey };
	to = (struct ib_sge) { .addr = (uintptr_t)pages + PAGE_SIZE, .length = PAGE_SIZE,
			       .lkey = f->pd->local_dma_lkey };
	send.ex.invalidate_rkey = mr->rkey;
	KUNIT_ASSERT_EQ(test, ib_post_recv(&b->ibqp, &recv, NULL), 0);
	KUNIT_ASSERT_EQ(test, ib_post_send(&a->ibqp, &send, NULL), 0);
	for (i = 0; i < 2; i++) {
		struct ib_wc wc = rox_fixture_wc(test);

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
 * @lock: taken by the handler and by the poster
 * @calls: number of calls
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

static unsigned int wait_for_calls(unsigned int n)
{
	int tries;

	for (tries = 0; tries < 500 && READ_ONCE(handled.calls) < n; tries++)
		msleep(20);
	return READ_ONCE(handled.calls);
}

/* Completions from before the CQ was armed raise the event, unless the user is told of them. */
static void a_cq_that_is_armed_late_has_its_event(struct kunit *test)
{
	struct rox_fixture *f = test->priv;
	struct rox_qp *qp = rox_fixture_qp(test, IB_QPT_RC);
	struct rox_cqe plain = { .opcode = IB_WC_SEND, .qp_num = qp->ibqp.qp_num };
	ib_comp_handler before = f->cq->comp_handler;
	struct rox_cq *cq = to_rox_cq(f->cq);

	spin_lock_init(&handled.lock);
	handled.calls = 0;
	f->cq->comp_handler = count_call;
	KUNIT_ASSERT_EQ(test, rox_cq_add(cq, &plain, false), 0);
	KUNIT_EXPECT_EQ(test, ib_req_notify_cq(f->cq, IB_CQ_SOLICITED), 0);
	KUNIT_EXPECT_EQ(test, ib_req_notify_cq(f->cq, IB_CQ_SOLICITED |
					       IB_CQ_REPORT_MISSED_EVENTS), 1);
	msleep(40);
	KUNIT_EXPECT_EQ(test, READ_ONCE(handled.calls), 0);
	KUNIT_EXPECT_EQ(test, ib_req_notify_cq(f->cq, IB_CQ_NEXT_COMP), 0);
	KUNIT_EXPECT_EQ(test, wait_for_calls(1), 1);
	KUNIT_ASSERT_EQ(test, rox_cq_add(cq, &plain, true), 0);
	KUNIT_EXPECT_EQ(test, ib_req_notify_cq(f->cq, IB_CQ_SOLICITED), 0);
	KUNIT_EXPECT_EQ(test, wait_for_calls(2), 2);
	rox_fixture_wc(test);
	rox_fixture_wc(test);
	KUNIT_EXPECT_EQ(test, ib_req_notify_cq(f->cq, IB_CQ_NEXT_COMP |
					       IB_CQ_REPORT_MISSED_EVENTS), 0);
	ib_destroy_qp(&qp->ibqp);
	f->cq->comp_handler = before;
}

/* A loopback SEND completes within the post, whose caller has a lock. */
static void a_handler_is_not_called_within_a_post(struct kunit *test)
{
	struct rox_fixture *f = test->priv;
	struct rox_qp *a = rox_fixture_qp(test, IB_QPT_RC);
	struct rox_qp *b = rox_fixture_qp(test, IB_QPT_RC);
	struct ib_send_wr send = { .opcode = IB_WR_SEND };
	struct ib_recv_wr recv = {};
	ib_comp_handler before = f->cq->comp_handler;

	spin_lock_init(&handled.lock);
	handled.calls = 0;
	rox_fixture_join(test, a, b);
	f->cq->comp_handler = count_call;
	KUNIT_ASSERT_EQ(test, ib_req_notify_cq(f->cq, IB_CQ_NEXT_COMP), 0);
	KUNIT_ASSERT_EQ(test, ib_post_recv(&b->ibqp, &recv, NULL), 0);
	spin_lock_bh(&handled.lock);
	KUNIT_EXPECT_EQ(test, ib_post_send(&a->ibqp, &send, NULL), 0);
	KUNIT_EXPECT_EQ(test, handled.calls, 0);
	spin_unlock_bh(&handled.lock);
	KUNIT_EXPECT_EQ(test, wait_for_calls(1), 1);
	rox_fixture_wc(test);
	rox_fixture_wc(test);
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
	const struct rox_run run = { .count = 1 };

	KUNIT_EXPECT_TRUE(test, rox_transport_direct(qp, &pkt, &run));
}

/* The requester is busy meanwhile and finds one ACK or NAK afterwards. */
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

/* Queues @n frames of @truesize for a responder that does not run. */
static void receive_frames(struct kunit *test, struct rox_qp *qp, unsigned int n, u32 truesize)
{
	struct sk_buff *skb;

	while (n--) {
		skb = alloc_skb(64, GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, skb);
		skb->truesize = truesize;
		rcu_read_lock_bh();
		rox_transport_rx(qp, skb, true);
		rcu_read_unlock_bh();
	}
}

/* The memory of frames that wait for a busy side is limited. */
static void frames_that_wait_have_their_limit_in_bytes(struct kunit *test)
{
	const unsigned int fits = ROX_MAX_RXQ_BYTES / SZ_1M;
	struct rox_qp *qp = rox_fixture_qp(test, IB_QPT_RC);
	struct rox_side *side = &qp->recv.side;
	struct sk_buff *skb;

	rox_side_lock(side);
	receive_frames(test, qp, 2 * fits, SZ_1M);
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

/* ---- what a softirq moves ---- */

#define MOVED_QPS	16
#define MOVED_BYTES	SZ_1M

/**
 * struct moved - posts in one softirq, and the bytes sent before its end
 * @tasklet: the softirq
 * @from: QPs that post
 * @to: their peers
 * @count: number of QPs
 * @wr: the work request that each QP posts
 * @err: error of a post
 * @bytes: payload that was sent
 * @done: completed at the end of the softirq
 */
static struct moved {
	struct tasklet_struct tasklet;
	struct rox_qp *from[MOVED_QPS];
	struct rox_qp *to[MOVED_QPS];
	int count;
	struct ib_send_wr *wr;
	int err;
	u64 bytes;
	struct completion done;
} moved;

static void post_all(struct tasklet_struct *tasklet)
{
	u64 before = rox_fixture_counted(moved.from[0], ROX_CNT_TX_BYTES);
	int i;

	for (i = 0; i < moved.count; i++)
		moved.err = ib_post_send(&moved.from[i]->ibqp, moved.wr, NULL) ?: moved.err;
	moved.bytes = rox_fixture_counted(moved.from[0], ROX_CNT_TX_BYTES) - before;
	complete(&moved.done);
}

/* Each of @count QPs posts @wr in one softirq. Return: the bytes that it has moved. */
static u64 post_in_softirq(struct kunit *test, struct ib_send_wr *wr, int count)
{
	moved.wr = wr;
	moved.count = count;
	moved.err = 0;
	init_completion(&moved.done);
	tasklet_setup(&moved.tasklet, post_all);
	tasklet_schedule(&moved.tasklet);
	KUNIT_ASSERT_GT(test, wait_for_completion_timeout(&moved.done, 20 * HZ), 0);
	tasklet_kill(&moved.tasklet);
	KUNIT_EXPECT_EQ(test, moved.err, 0);
	return moved.bytes;
}

/* The softirq must move @least to @most bytes. Then waits for all completions. */
static void expect_moved(struct kunit *test, struct ib_send_wr *wr, int count, u64 least, u64 most)
{
	u64 bytes = post_in_softirq(test, wr, count);
	int i, wcs = 0;

	KUNIT_EXPECT_GE(test, bytes, least);
	KUNIT_EXPECT_LE(test, bytes, most);
	for (i = 0; i < count; i++)
		wcs += rox_fixture_wc(test).opcode == IB_WC_RDMA_WRITE;
	KUNIT_EXPECT_EQ(test, wcs, wr->opcode == IB_WR_RDMA_WRITE ? count : 0);
}

static void a_softirq_moves_so_many_bytes(struct kunit *test)
{
	struct rox_fixture *f = test->priv;
	u8 *bytes = kunit_kzalloc(test, 2 * MOVED_BYTES, GFP_KERNEL);
	struct ib_sge sge = { .length = MOVED_BYTES, .lkey = f->pd->local_dma_lkey };
	struct ib_rdma_wr wr = { .wr = { .sg_list = &sge, .num_sge = 1 } };
	struct scatterlist sg;
	struct ib_mr *mr;
	int i;

	KUNIT_ASSERT_NOT_NULL(test, bytes);
	for (i = 0; i < MOVED_QPS; i++) {
		moved.from[i] = rox_fixture_qp(test, IB_QPT_RC);
		moved.to[i] = rox_fixture_qp(test, IB_QPT_RC);
		rox_fixture_join(test, moved.from[i], moved.to[i]);
	}
	sg_init_one(&sg, bytes, MOVED_BYTES);
	mr = rox_fixture_register(test, moved.to[0], &sg);
	sge.addr = (uintptr_t)bytes + MOVED_BYTES;
	wr.rkey = mr->rkey;
	wr.remote_addr = mr->iova;
	wr.wr.opcode = IB_WR_RDMA_WRITE;
	expect_moved(test, &wr.wr, 1, ROX_BURST_BYTES, ROX_SOFTIRQ_SIDE_BYTES);
	expect_moved(test, &wr.wr, MOVED_QPS, 2 * ROX_SOFTIRQ_SIDE_BYTES, ROX_SOFTIRQ_BYTES);
	/* A response lets the requester send the next request. */
	wr.wr.opcode = IB_WR_RDMA_READ;
	expect_moved(test, &wr.wr, MOVED_QPS, 2 * ROX_SOFTIRQ_SIDE_BYTES, ROX_SOFTIRQ_BYTES);
	for (i = 0; i < MOVED_QPS; i++) {
		ib_destroy_qp(&moved.from[i]->ibqp);
		ib_destroy_qp(&moved.to[i]->ibqp);
	}
	KUNIT_EXPECT_EQ(test, ib_dereg_mr(mr), 0);
}

static void a_softirq_leaves_it_to_an_engine_to_send(struct kunit *test)
{
	struct ib_rdma_wr wr = { .wr = { .opcode = IB_WR_RDMA_WRITE } };
	struct rox_qp *from = rox_fixture_qp(test, IB_QPT_RC);
	struct rox_qp *to = rox_fixture_qp(test, IB_QPT_RC);
	u64 sent;

	moved.from[0] = from;
	rox_fixture_join(test, from, to);
	sent = rox_fixture_counted(from, ROX_CNT_TX_PKTS);
	WRITE_ONCE(from->send.watch.watched, true);
	post_in_softirq(test, &wr.wr, 1);
	KUNIT_EXPECT_EQ(test, rox_fixture_counted(from, ROX_CNT_TX_PKTS), sent);
	KUNIT_EXPECT_FALSE(test, work_busy(&from->send.side.work));
	/* As the engine does it. */
	KUNIT_EXPECT_FALSE(test, rox_side_turn(&from->send.side));
	KUNIT_EXPECT_GT(test, rox_fixture_counted(from, ROX_CNT_TX_PKTS), sent);
	WRITE_ONCE(from->send.watch.watched, false);
	KUNIT_EXPECT_EQ(test, rox_fixture_wc(test).opcode, IB_WC_RDMA_WRITE);
	ib_destroy_qp(&from->ibqp);
	ib_destroy_qp(&to->ibqp);
}

/* A side that waits for a page keeps fewer frames, of those in the queue and of new ones. */
static void frames_that_wait_for_pages_are_few(struct kunit *test)
{
	static const struct {
		enum ib_qp_type type;
		unsigned int kept;
	} cases[] = {
		{ IB_QPT_RC, ROX_HELD_QP_BYTES / SZ_64K },
		{ IB_QPT_UC, ROX_HELD_QP_BYTES / SZ_64K },
		{ IB_QPT_UD, 1 },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct rox_qp *qp = rox_fixture_qp(test, cases[i].type);
		struct rox_side *side = &qp->recv.side;

		rox_side_lock(side);
		receive_frames(test, qp, 100, SZ_64K);
		KUNIT_EXPECT_EQ(test, skb_queue_len(&side->rxq), 100);
		side->pages.busy = true;
		rcu_read_lock_bh();
		rox_side_hold(side);
		rcu_read_unlock_bh();
		KUNIT_EXPECT_EQ(test, skb_queue_len(&side->rxq), cases[i].kept);
		receive_frames(test, qp, 100, SZ_64K);
		KUNIT_EXPECT_EQ(test, skb_queue_len(&side->rxq), cases[i].kept);
		KUNIT_EXPECT_EQ(test, atomic_read(&qp->dev->held_bytes), cases[i].kept * SZ_64K);
		side->pages.busy = false;
		rox_side_purge(side);
		KUNIT_EXPECT_EQ(test, atomic_read(&qp->dev->held_bytes), 0);
		rox_side_unlock(side);
		ib_destroy_qp(&qp->ibqp);
	}
}

static struct kunit_case rox_side_cases[] = {
	KUNIT_CASE(a_caller_is_not_kept_for_ever),
	KUNIT_CASE(a_side_without_an_end_is_destroyed),
	KUNIT_CASE(each_queue_has_a_work_of_its_own),
	KUNIT_CASE(an_engine_does_what_a_run_leaves),
	KUNIT_CASE(lockdep_knows_who_has_a_side),
	KUNIT_CASE(a_softirq_moves_so_many_bytes),
	KUNIT_CASE(a_softirq_leaves_it_to_an_engine_to_send),
	KUNIT_CASE(sides_run_once_for_all_frames),
	KUNIT_CASE(payload_may_be_of_the_region_that_it_invalidates),
	KUNIT_CASE(a_cq_that_is_armed_late_has_its_event),
	KUNIT_CASE(a_handler_is_not_called_within_a_post),
	KUNIT_CASE(an_ack_replaces_an_ack_and_no_nak),
	KUNIT_CASE(frames_that_wait_have_their_limit_in_bytes),
	KUNIT_CASE(frames_that_wait_for_pages_are_few),
	{}
};

static struct kunit_suite rox_side_suite = {
	.name = "rox_side",
	.init = rox_fixture_init,
	.exit = rox_fixture_exit,
	.test_cases = rox_side_cases,
};

kunit_test_suite(rox_side_suite);
