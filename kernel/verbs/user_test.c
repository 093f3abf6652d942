// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit: what kernel users may do, and in which order: CQs of all polling contexts, drained QPs in
 * all states, posts from completion handlers, objects that go while work is outstanding.
 */
#include <linux/delay.h>
#include <rdma/ib_cache.h>

#include "internal.h"
#include "../kunit/fixture.h"

/**
 * struct user_job - work of a user with the API of ib_alloc_cq()
 * @cqe: its completions call user_done()
 * @calls: how often
 * @again: posts to make from the handler, of receives or of sends
 * @qp: where the handler posts
 * @sends: the work is a send
 * @status: of the last completion
 */
struct user_job {
	struct ib_cqe cqe;
	atomic_t calls;
	int again;
	struct ib_qp *qp;
	bool sends;
	enum ib_wc_status status;
};

static int user_post(struct user_job *job)
{
	struct ib_send_wr send = {
		.wr_cqe = &job->cqe, .opcode = IB_WR_SEND, .send_flags = IB_SEND_SIGNALED,
	};
	struct ib_recv_wr recv = { .wr_cqe = &job->cqe };

	return job->sends ? ib_post_send(job->qp, &send, NULL) :
			    ib_post_recv(job->qp, &recv, NULL);
}

static void user_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct user_job *job = container_of(wc->wr_cqe, struct user_job, cqe);

	WRITE_ONCE(job->status, wc->status);
	if (wc->status == IB_WC_SUCCESS && job->again) {
		job->again--;
		user_post(job);
	}
	atomic_inc(&job->calls);
}

static int user_begin(struct user_job *job, struct ib_qp *qp, bool sends, int again)
{
	*job = (struct user_job) {
		.cqe = { .done = user_done }, .qp = qp, .sends = sends, .again = again,
	};
	return user_post(job);
}

static int user_calls(struct ib_cq *cq, const struct user_job *job, int n)
{
	int tries;

	for (tries = 0; tries < 500 && atomic_read(&job->calls) < n; tries++) {
		if (cq->poll_ctx == IB_POLL_DIRECT)
			ib_process_cq_direct(cq, -1);
		else
			msleep(20);
	}
	return atomic_read(&job->calls);
}

static const enum ib_poll_context contexts[] = {
	IB_POLL_DIRECT, IB_POLL_SOFTIRQ, IB_POLL_WORKQUEUE, IB_POLL_UNBOUND_WORKQUEUE,
};

static void context_name(const enum ib_poll_context *context, char *name)
{
	static const char * const names[] = {
		[IB_POLL_DIRECT] = "direct", [IB_POLL_SOFTIRQ] = "softirq",
		[IB_POLL_WORKQUEUE] = "workqueue", [IB_POLL_UNBOUND_WORKQUEUE] = "unbound",
	};

	strscpy(name, names[*context], KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(context, contexts, context_name);

static struct ib_cq *user_cq(struct kunit *test)
{
	const enum ib_poll_context *context = test->param_value;
	struct rox_fixture *f = test->priv;
	struct ib_cq *cq = ib_alloc_cq(&f->dev->ibdev, NULL, 64, 0, *context);

	KUNIT_ASSERT_FALSE(test, IS_ERR(cq));
	return cq;
}

/* A QP that completes in @cq. */
static struct rox_qp *user_qp(struct kunit *test, struct ib_cq *cq)
{
	struct rox_fixture *f = test->priv;
	struct ib_cq *before = f->cq;
	struct rox_qp *qp;

	f->cq = cq;
	qp = rox_fixture_qp(test, IB_QPT_RC);
	f->cq = before;
	return qp;
}

/* Connects @qp to itself, by the device's own address. */
static void user_connect(struct kunit *test, struct rox_qp *qp)
{
	struct rox_fixture *f = test->priv;
	const struct ib_gid_attr *gid = rdma_get_gid_attr(&f->dev->ibdev, 1, f->gid_index);
	enum ib_qp_state step;
	struct ib_qp_attr attr;
	int mask;

	KUNIT_ASSERT_FALSE(test, IS_ERR(gid));
	for (step = IB_QPS_INIT; step <= IB_QPS_RTS; step++) {
		mask = rox_fixture_attr(test, qp, rox_qp_state(qp), step, &attr);
		attr.dest_qp_num = qp->ibqp.qp_num;
		attr.rq_psn = attr.sq_psn;
		attr.ah_attr.grh.dgid = gid->gid;
		KUNIT_ASSERT_EQ(test, ib_modify_qp(&qp->ibqp, &attr, mask), 0);
	}
	rdma_put_gid_attr(gid);
}

/* ib_drain_qp() waits for all that was posted, in each state that it may be called in. */
static void a_qp_is_drained_in_any_state(struct kunit *test)
{
	static const enum ib_qp_state states[] = {
		IB_QPS_INIT, IB_QPS_RTR, IB_QPS_RTS, IB_QPS_SQD, IB_QPS_ERR,
	};
	struct ib_cq *cq = user_cq(test);
	struct user_job recv, send;
	int i;

	for (i = 0; i < ARRAY_SIZE(states); i++) {
		bool sends = states[i] == IB_QPS_RTS || states[i] == IB_QPS_ERR;
		struct rox_qp *qp = user_qp(test, cq);

		rox_fixture_move(test, qp, states[i]);
		KUNIT_ASSERT_EQ(test, user_begin(&recv, &qp->ibqp, false, 0), 0);
		if (sends)
			KUNIT_ASSERT_EQ(test, user_begin(&send, &qp->ibqp, true, 0), 0);
		ib_drain_qp(&qp->ibqp);
		KUNIT_EXPECT_EQ_MSG(test, atomic_read(&recv.calls), 1, "state %d", states[i]);
		KUNIT_EXPECT_EQ(test, recv.status, IB_WC_WR_FLUSH_ERR);
		if (sends)
			KUNIT_EXPECT_EQ_MSG(test, atomic_read(&send.calls), 1, "state %d",
					    states[i]);
		/* Again, and then nothing is left. */
		ib_drain_qp(&qp->ibqp);
		ib_destroy_qp(&qp->ibqp);
	}
	ib_free_cq(cq);
}

/* Each completion posts the next receive or send. */
static void handlers_post(struct kunit *test)
{
	struct ib_cq *cq = user_cq(test);
	struct rox_qp *qp = user_qp(test, cq);
	struct user_job recv, send;
	const int rounds = 200;

	user_connect(test, qp);
	KUNIT_ASSERT_EQ(test, user_begin(&recv, &qp->ibqp, false, rounds), 0);
	KUNIT_ASSERT_EQ(test, user_begin(&send, &qp->ibqp, true, rounds), 0);
	KUNIT_EXPECT_EQ(test, user_calls(cq, &send, rounds + 1), rounds + 1);
	KUNIT_EXPECT_EQ(test, user_calls(cq, &recv, rounds + 1), rounds + 1);
	KUNIT_EXPECT_EQ(test, send.status, IB_WC_SUCCESS);
	ib_drain_qp(&qp->ibqp);
	ib_destroy_qp(&qp->ibqp);
	ib_free_cq(cq);
}

/* A user that drains nothing: the QP goes with work outstanding, while its handlers run. */
static void a_qp_goes_with_work_outstanding(struct kunit *test)
{
	struct ib_cq *cq = user_cq(test);
	struct user_job recv, send;
	struct rox_qp *qp;
	int i;

	for (i = 0; i < 20; i++) {
		qp = user_qp(test, cq);
		user_connect(test, qp);
		KUNIT_ASSERT_EQ(test, user_begin(&recv, &qp->ibqp, false, 0), 0);
		KUNIT_ASSERT_EQ(test, user_post(&recv), 0);
		KUNIT_ASSERT_EQ(test, user_begin(&send, &qp->ibqp, true, 0), 0);
		KUNIT_EXPECT_EQ(test, ib_destroy_qp(&qp->ibqp), 0);
		/* What was complete may still be polled, or is gone; no handler posts. */
		if (cq->poll_ctx == IB_POLL_DIRECT)
			ib_process_cq_direct(cq, -1);
		else
			msleep(20);
	}
	ib_free_cq(cq);
	KUNIT_EXPECT_LE(test, atomic_read(&recv.calls), 2);
}

/* Receives are posted before the peer is known, and sends as early as the state allows. */
static void receives_come_before_the_connection(struct kunit *test)
{
	struct ib_cq *cq = user_cq(test);
	struct rox_qp *qp = user_qp(test, cq);
	struct user_job recv, send;

	recv = (struct user_job) { .cqe = { .done = user_done }, .qp = &qp->ibqp };
	KUNIT_EXPECT_EQ(test, user_post(&recv), -EINVAL);
	rox_fixture_move(test, qp, IB_QPS_INIT);
	KUNIT_EXPECT_EQ(test, user_post(&recv), 0);
	KUNIT_EXPECT_EQ(test, user_begin(&send, &qp->ibqp, true, 0), -EINVAL);
	user_connect(test, qp);
	KUNIT_EXPECT_EQ(test, user_begin(&send, &qp->ibqp, true, 0), 0);
	KUNIT_EXPECT_EQ(test, user_calls(cq, &recv, 1), 1);
	KUNIT_EXPECT_EQ(test, recv.status, IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, user_calls(cq, &send, 1), 1);
	ib_drain_qp(&qp->ibqp);
	ib_destroy_qp(&qp->ibqp);
	ib_free_cq(cq);
}

static struct kunit_case rox_user_cases[] = {
	KUNIT_CASE_PARAM(a_qp_is_drained_in_any_state, context_gen_params),
	KUNIT_CASE_PARAM(handlers_post, context_gen_params),
	KUNIT_CASE_PARAM(a_qp_goes_with_work_outstanding, context_gen_params),
	KUNIT_CASE_PARAM(receives_come_before_the_connection, context_gen_params),
	{}
};

static struct kunit_suite rox_user_suite = {
	.name = "rox_user",
	.init = rox_fixture_init,
	.exit = rox_fixture_exit,
	.test_cases = rox_user_cases,
};

kunit_test_suite(rox_user_suite);
