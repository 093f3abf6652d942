// SPDX-License-Identifier: GPL-2.0
/* KUnit: the state machine of a QP for all pairs of states, retry counters, refused responses. */
#include "internal.h"
#include "../kunit/fixture.h"

/* ---- transitions by modify ---- */

/* IBTA volume 1, 10.3.1 and figure 124. The RDMA core refuses RESET to ERR. */
static bool spec_allows(enum ib_qp_state from, enum ib_qp_state to)
{
	if (to == IB_QPS_RESET || (to == IB_QPS_ERR && from != IB_QPS_RESET))
		return true;
	switch (from) {
	case IB_QPS_RESET:
		return to == IB_QPS_INIT;
	case IB_QPS_INIT:
		return to == IB_QPS_INIT || to == IB_QPS_RTR;
	case IB_QPS_RTR:
		return to == IB_QPS_RTS;
	case IB_QPS_RTS:
		return to == IB_QPS_RTS || to == IB_QPS_SQD;
	case IB_QPS_SQD:
		return to == IB_QPS_RTS || to == IB_QPS_SQD;
	case IB_QPS_SQE:
		return to == IB_QPS_RTS;
	default:
		return false;
	}
}

struct state_pair {
	enum ib_qp_type type;
	enum ib_qp_state from;
};

/* An RC QP is never in SQE. */
static const struct state_pair state_pairs[] = {
	{ IB_QPT_RC, IB_QPS_RESET }, { IB_QPT_RC, IB_QPS_INIT }, { IB_QPT_RC, IB_QPS_RTR },
	{ IB_QPT_RC, IB_QPS_RTS }, { IB_QPT_RC, IB_QPS_SQD }, { IB_QPT_RC, IB_QPS_ERR },
	{ IB_QPT_UD, IB_QPS_RESET }, { IB_QPT_UD, IB_QPS_INIT }, { IB_QPT_UD, IB_QPS_RTR },
	{ IB_QPT_UD, IB_QPS_RTS }, { IB_QPT_UD, IB_QPS_SQD }, { IB_QPT_UD, IB_QPS_SQE },
	{ IB_QPT_UD, IB_QPS_ERR },
};

static void state_pair_name(const struct state_pair *pair, char *name)
{
	snprintf(name, KUNIT_PARAM_DESC_SIZE, "%s from state %d",
		 pair->type == IB_QPT_RC ? "RC" : "UD", pair->from);
}

KUNIT_ARRAY_PARAM(state_pair, state_pairs, state_pair_name);

static void modify_from_state(struct kunit *test)
{
	const struct state_pair *pair = test->param_value;
	struct rox_qp *qp = rox_fixture_qp(test, pair->type);
	enum ib_qp_state to;

	for (to = IB_QPS_RESET; to <= IB_QPS_ERR; to++) {
		bool allowed = spec_allows(pair->from, to);
		struct ib_qp_attr attr;
		int mask;

		rox_fixture_move(test, qp, pair->from);
		mask = rox_fixture_attr(test, qp, pair->from, to, &attr);
		KUNIT_EXPECT_EQ_MSG(test, ib_modify_qp(&qp->ibqp, &attr, mask),
				    allowed ? 0 : -EINVAL, "to state %d", to);
		KUNIT_EXPECT_EQ_MSG(test, rox_qp_state(qp), allowed ? to : pair->from,
				    "to state %d", to);
	}
	ib_destroy_qp(&qp->ibqp);
}

/* ---- transitions by errors ---- */

static void failure_ends_every_live_state(struct kunit *test)
{
	struct rox_qp *qp = rox_fixture_qp(test, IB_QPT_UD);
	enum ib_qp_state from;

	for (from = IB_QPS_RESET; from <= IB_QPS_ERR; from++) {
		rox_fixture_move(test, qp, from);
		local_bh_disable();
		rox_qp_fail(qp, -1);
		local_bh_enable();
		KUNIT_EXPECT_EQ(test, rox_qp_state(qp),
				from == IB_QPS_RESET ? IB_QPS_RESET : IB_QPS_ERR);
	}
	ib_destroy_qp(&qp->ibqp);
}

static void send_error_stops_only_a_sender(struct kunit *test)
{
	struct rox_qp *qp = rox_fixture_qp(test, IB_QPT_UD);
	enum ib_qp_state from;

	for (from = IB_QPS_RESET; from <= IB_QPS_ERR; from++) {
		bool sends = from == IB_QPS_RTS || from == IB_QPS_SQD;

		rox_fixture_move(test, qp, from);
		local_bh_disable();
		rox_qp_send_queue_error(qp);
		local_bh_enable();
		KUNIT_EXPECT_EQ(test, rox_qp_state(qp), sends ? IB_QPS_SQE : from);
	}
	ib_destroy_qp(&qp->ibqp);
}

static void attributes_are_those_of_the_transition(struct kunit *test)
{
	struct rox_qp *qp = rox_fixture_qp(test, IB_QPT_RC);

	rox_fixture_move(test, qp, IB_QPS_RTS);
	KUNIT_EXPECT_EQ(test, qp->send.next_psn, 0x222222);
	KUNIT_EXPECT_EQ(test, qp->send.una, 0x222222);
	KUNIT_EXPECT_EQ(test, qp->recv.epsn, 0x111111);
	KUNIT_EXPECT_EQ(test, qp->recv.num_res, 4);
	KUNIT_EXPECT_EQ(test, qp->mtu, 1024);
	KUNIT_EXPECT_EQ(test, qp->attr.dest_qp_num, 9);
	/* No attribute is left after RESET. */
	rox_fixture_move(test, qp, IB_QPS_RESET);
	KUNIT_EXPECT_EQ(test, qp->attr.dest_qp_num, 0);
	KUNIT_EXPECT_FALSE(test, qp->path.valid);
	KUNIT_EXPECT_EQ(test, qp->sq.index, 0);
	ib_destroy_qp(&qp->ibqp);
}

/* ---- retries ---- */

static void progress_opens_the_window(struct kunit *test)
{
	struct rox_qp *qp = rox_fixture_qp(test, IB_QPT_RC);

	qp->dev->cc.ops = &rox_cc_none;
	rox_fixture_move(test, qp, IB_QPS_RTS);
	KUNIT_EXPECT_EQ(test, qp->send.cc.window, rox_window_max(qp));
	KUNIT_EXPECT_EQ(test, rox_window_max(qp), ROX_WINDOW_BYTES / 1024);
	qp->send.cc.window = ROX_WINDOW_PROBE;
	qp->send.retry = 1;
	qp->send.rnr_retry = 1;
	qp->send.timeouts = 3;
	rox_retry_progress(qp, 10);
	KUNIT_EXPECT_EQ(test, qp->send.cc.window, ROX_WINDOW_PROBE + 10);
	KUNIT_EXPECT_EQ(test, qp->send.retry, 7);
	KUNIT_EXPECT_EQ(test, qp->send.rnr_retry, 6);
	KUNIT_EXPECT_EQ(test, qp->send.timeouts, 0);
	rox_retry_progress(qp, 100000);
	KUNIT_EXPECT_EQ(test, qp->send.cc.window, rox_window_max(qp));
	ib_destroy_qp(&qp->ibqp);
}

static void timer_runs_only_while_something_is_outstanding(struct kunit *test)
{
	struct rox_qp *qp = rox_fixture_qp(test, IB_QPT_RC);
	u64 now;

	rox_fixture_move(test, qp, IB_QPS_RTS);
	rox_transport_lock(qp);
	local_bh_disable();
	rox_retry_watch(qp);
	KUNIT_EXPECT_EQ(test, qp->send.deadline, 0);
	/* As if one packet were on its way. */
	qp->send.psn = rox_psn_add(qp->send.una, 1);
	now = ktime_get_ns();
	rox_retry_watch(qp);
	KUNIT_EXPECT_GE(test, qp->send.deadline, now + rox_ack_timeout_ns(14));
	KUNIT_EXPECT_LE(test, qp->send.deadline, ktime_get_ns() + 4 * rox_ack_timeout_ns(14));
	qp->send.psn = qp->send.una;
	rox_retry_watch(qp);
	KUNIT_EXPECT_EQ(test, qp->send.deadline, 0);
	local_bh_enable();
	rox_transport_unlock(qp);
	ib_destroy_qp(&qp->ibqp);
}

/* In SQD: a message of 2 GiB has half of all PSNs. */
static void the_longest_message_drains_as_any(struct kunit *test)
{
	struct rox_qp *qp = rox_fixture_qp(test, IB_QPT_RC);
	struct rox_send *send = &qp->send;
	struct rox_swqe *wqe;

	rox_fixture_move(test, qp, IB_QPS_SQD);
	rox_transport_lock(qp);
	wqe = rox_swqe_at(qp, send->tail);
	wqe->first_psn = send->una;
	wqe->npkts = 1 << 23;
	qp->sq.index = send->tail + 1;
	/* Five of its packets are acknowledged, and ten of the next message are sent. */
	send->una = rox_psn_add(wqe->first_psn, 5);
	send->max_psn = rox_psn_add(wqe->first_psn, wqe->npkts + 10);
	qp->sq_draining = true;
	rox_qp_check_drained(qp);
	KUNIT_EXPECT_TRUE(test, qp->sq_draining);
	send->una = send->max_psn;
	rox_qp_check_drained(qp);
	KUNIT_EXPECT_FALSE(test, qp->sq_draining);
	send->una = send->psn;
	send->max_psn = send->psn;
	qp->sq.index = send->tail;
	rox_transport_unlock(qp);
	ib_destroy_qp(&qp->ibqp);
}

#define HALF_SENT	16U

/* An ACK comes, whose PSN is @ahead of the first that was never sent. */
static void half_sent_acked(struct rox_qp *qp, u8 syndrome, u32 ahead)
{
	struct rox_pkt pkt = {
		.info = &rox_opcodes[IB_OPCODE_RC_ACKNOWLEDGE],
		.bth.psn = rox_psn_add(qp->send.max_psn, ahead),
		.ext.aeth.syndrome = syndrome,
		.npkts = 1,
	};

	local_bh_disable();
	rox_comp_packet(qp, &pkt);
	local_bh_enable();
}

/*
 * A WRITE was sent, and of the next one a part of a burst, before its region went. The peer answers
 * both with one ACK.
 */
static void what_was_sent_before_a_burst_failed_is_acknowledged(struct kunit *test)
{
	static const u8 answers[] = { ROX_AETH_ACK, ROX_AETH_RNR, ROX_AETH_NAK | ROX_NAK_PSN_SEQ };
	struct rox_qp *qp = rox_fixture_qp(test, IB_QPT_RC);
	struct rox_send *send = &qp->send;
	struct rox_swqe *failed;
	u32 i;

	rox_fixture_move(test, qp, IB_QPS_RTS);
	rox_transport_lock(qp);
	for (i = 0; i < ARRAY_SIZE(answers); i++) {
		*rox_swqe_at(qp, send->tail) = (struct rox_swqe) {
			.opcode = IB_WR_RDMA_WRITE, .first_psn = send->una, .npkts = 1, .sent = 1,
		};
		send->cur = send->tail + 1;
		failed = rox_swqe_at(qp, send->cur);
		*failed = (struct rox_swqe) {
			.opcode = IB_WR_RDMA_WRITE, .first_psn = rox_psn_add(send->una, 1),
			.npkts = HALF_SENT, .status = IB_WC_LOC_PROT_ERR,
		};
		qp->sq.index = send->cur + 1;
		send->psn = failed->first_psn;
		send->max_psn = failed->first_psn;
		half_sent_acked(qp, answers[i], HALF_SENT);
		KUNIT_EXPECT_NE(test, send->tail, send->cur);
		failed->status = IB_WC_SUCCESS;
		half_sent_acked(qp, answers[i], HALF_SENT - 1);
		KUNIT_EXPECT_NE(test, send->tail, send->cur);
		failed->status = IB_WC_LOC_PROT_ERR;
		half_sent_acked(qp, answers[i], i ? 0 : HALF_SENT - 1);
		KUNIT_EXPECT_EQ(test, send->tail, send->cur);
		KUNIT_EXPECT_EQ(test, send->una, send->max_psn);
		KUNIT_EXPECT_EQ(test, failed->status, IB_WC_LOC_PROT_ERR);
		qp->sq.index = send->tail;
	}
	rox_timer_clear(qp);
	rox_transport_unlock(qp);
	ib_destroy_qp(&qp->ibqp);
}

/* ---- refused responses ---- */

/**
 * struct refusal - what a READ of 8 packets, whose first PSN is 100, does after a refusal
 * @sent: packets of the READ that it had sent
 * @psn: that was refused first
 * @from: the packet it goes on from
 * @lost: packets of other READs that are lost
 */
struct refusal {
	u32 sent;
	u32 psn;
	u32 from;
	u32 lost;
};

static const struct refusal refusals[] = {
	/* Its own packets: the first, one in the middle, the last. */
	{ 4, 100, 0, 0 }, { 4, 103, 3, 0 }, { 8, 107, 7, 0 },
	/* The frame began with the end of the READ before. */
	{ 4, 98, 0, 2 },
	/* The READ is repeated, and the frame began with a later one: before it in the run. */
	{ 0, 108, 0, 1 }, { 4, 5000, 0, 1 },
};

static void refusal_name(const struct refusal *r, char *name)
{
	snprintf(name, KUNIT_PARAM_DESC_SIZE, "%u sent, PSN %u", r->sent, r->psn);
}

KUNIT_ARRAY_PARAM(refusal, refusals, refusal_name);

static void a_refused_read_goes_on_within_its_packets(struct kunit *test)
{
	const struct refusal *r = test->param_value;
	struct rox_qp *qp = rox_fixture_qp(test, IB_QPT_RC);
	struct rox_read_job *job = &qp->recv.read;

	*job = (struct rox_read_job) { .npkts = 8, .sent = r->sent, .psn = 100 + r->sent };
	qp->recv.side.sender.refused_psn = r->psn;
	rox_read_refused(qp);
	KUNIT_EXPECT_TRUE(test, job->active);
	KUNIT_EXPECT_EQ(test, job->sent, r->from);
	KUNIT_EXPECT_EQ(test, job->psn, 100 + r->from);
	KUNIT_EXPECT_EQ(test, rox_fixture_counted(qp, ROX_CNT_TX_DROP), r->lost);
	job->active = false;
	ib_destroy_qp(&qp->ibqp);
}

static struct kunit_case rox_transport_cases[] = {
	KUNIT_CASE_PARAM(modify_from_state, state_pair_gen_params),
	KUNIT_CASE(failure_ends_every_live_state),
	KUNIT_CASE(send_error_stops_only_a_sender),
	KUNIT_CASE(attributes_are_those_of_the_transition),
	KUNIT_CASE(progress_opens_the_window),
	KUNIT_CASE(timer_runs_only_while_something_is_outstanding),
	KUNIT_CASE(the_longest_message_drains_as_any),
	KUNIT_CASE(what_was_sent_before_a_burst_failed_is_acknowledged),
	KUNIT_CASE_PARAM(a_refused_read_goes_on_within_its_packets, refusal_gen_params),
	{}
};

static struct kunit_suite rox_transport_suite = {
	.name = "rox_transport",
	.init = rox_fixture_init,
	.exit = rox_fixture_exit,
	.test_cases = rox_transport_cases,
};

kunit_test_suite(rox_transport_suite);
