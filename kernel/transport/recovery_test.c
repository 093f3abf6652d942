// SPDX-License-Identifier: GPL-2.0
/* KUnit: when the requester fills a gap after a NAK, and when the responder sends the NAK. */
#include "internal.h"
#include "../kunit/fixture.h"

/* A round trip so long that no wait ends during a case. */
#define FAR_NS		(1000 * NSEC_PER_SEC)
#define OUTSTANDING	100U

/* A requester that waits for ACKs of packets that it never sent. */
static struct rox_qp *requester(struct kunit *test)
{
	struct rox_qp *qp = rox_fixture_qp(test, IB_QPT_RC);

	rox_fixture_move(test, qp, IB_QPS_RTS);
	rox_side_lock(&qp->send.side);
	qp->send.recovery.round_trip = FAR_NS;
	qp->send.recovery.least = 1;
	qp->send.recovery.keeps = true;
	qp->send.psn = rox_psn_add(qp->send.una, OUTSTANDING);
	qp->send.max_psn = qp->send.psn;
	return qp;
}

static void destroy(struct rox_qp *qp)
{
	qp->send.psn = qp->send.una;
	qp->send.max_psn = qp->send.una;
	qp->send.recovery.due = 0;
	rox_timer_clear(qp);
	rox_side_unlock(&qp->send.side);
	ib_destroy_qp(&qp->ibqp);
}

/* The peer says that una is missing. */
static void nak(struct kunit *test, struct rox_qp *qp)
{
	local_bh_disable();
	KUNIT_EXPECT_TRUE(test, rox_recovery_gap(qp, true));
	local_bh_enable();
}

static void expect_pause(struct kunit *test, const struct rox_qp *qp)
{
	KUNIT_EXPECT_EQ(test, qp->send.waits, ROX_WAIT_GAP);
	KUNIT_EXPECT_EQ(test, qp->send.recovery.due, 0);
	KUNIT_EXPECT_GT(test, qp->send.deadline, ktime_get_ns() + FAR_NS / 2);
	KUNIT_EXPECT_LE(test, qp->send.deadline, ktime_get_ns() + FAR_NS);
}

/* The timer fires. */
static bool probe(struct rox_qp *qp)
{
	enum rox_wait what = qp->send.waits;

	rox_timer_clear(qp);
	return rox_recovery_probe(qp, what);
}

/* Expects that the gap is filled, and drops the packets that are due. */
static void fills(struct kunit *test, struct rox_qp *qp)
{
	KUNIT_EXPECT_NE(test, qp->send.waits, ROX_WAIT_GAP);
	KUNIT_EXPECT_GT(test, qp->send.recovery.due, 0);
	qp->send.recovery.due = 0;
}

static void closes(struct rox_qp *qp)
{
	u32 una = rox_psn_add(qp->send.una, 1);

	rox_recovery_progress(qp, una);
	qp->send.una = una;
	rox_timer_clear(qp);
}

/* An ACK of the next @pkts packets comes. */
static void acked(struct rox_qp *qp, u32 pkts)
{
	u32 una = rox_psn_add(qp->send.una, pkts);

	rox_recovery_progress(qp, una);
	qp->send.una = una;
	rox_recovery_settle(qp);
}

/* The requester has sent the packets that are due again, as rox_recovery_send() does. */
static void resent(struct kunit *test, struct rox_qp *qp, u32 pkts)
{
	struct rox_recovery *rec = &qp->send.recovery;

	KUNIT_EXPECT_EQ(test, rec->due, pkts);
	rec->due = 0;
	rec->resent = true;
	rec->resent_to = rox_psn_add(qp->send.una, pkts);
	rec->sent_before = qp->send.max_psn;
}

static struct rox_qp *stranger(struct kunit *test)
{
	struct rox_qp *qp = requester(test);

	qp->send.recovery.keeps = false;
	/* The first gap has been given time. */
	qp->send.recovery.met = 1;
	return qp;
}

/* NAKs of a peer that is not trusted make the window small, and ACKs make it grow slowly. */
static void what_is_in_flight_to_a_peer_that_drops(struct kunit *test)
{
	struct rox_qp *qp = stranger(test);
	struct rox_congestion *cc = &qp->send.cc;
	u32 i;

	cc->window = 64;
	for (i = 0; i < 3; i++)
		rox_cc_go_back(qp);
	KUNIT_EXPECT_EQ(test, cc->window, 16);
	for (i = 0; i < 16 + 17; i++)
		rox_cc_acked(qp, 1);
	KUNIT_EXPECT_EQ(test, cc->window, 18);
	/* What a timeout leaves grows fast up to there, and stays below. */
	rox_cc_probe(qp);
	rox_cc_go_back(qp);
	KUNIT_EXPECT_EQ(test, cc->window, ROX_WINDOW_PROBE);
	rox_cc_acked(qp, 12);
	rox_cc_acked(qp, 12);
	KUNIT_EXPECT_EQ(test, cc->window, 16);
	rox_cc_trusts(qp);
	rox_cc_acked(qp, 30);
	KUNIT_EXPECT_EQ(test, cc->window, 46);
	destroy(qp);
}

static void an_ack_that_jumps_over_the_rest_brings_trust(struct kunit *test)
{
	struct rox_qp *qp = stranger(test);

	nak(test, qp);
	KUNIT_EXPECT_TRUE(test, qp->send.recovery.trial);
	resent(test, qp, 1);
	acked(qp, 2);
	KUNIT_EXPECT_FALSE(test, qp->send.recovery.trial);
	KUNIT_EXPECT_TRUE(test, qp->send.recovery.keeps);
	KUNIT_EXPECT_EQ(test, qp->send.recovery.due, 0);
	/* From now on only the gap is filled. */
	qp->send.recovery.gaps = 1;
	nak(test, qp);
	fills(test, qp);
	destroy(qp);
}

/* Return: the number of trials, @n before, and those at @naks NAKs that end in go-back-N. */
static u32 trials(struct kunit *test, struct rox_qp *qp, u32 n, u32 naks)
{
	struct rox_recovery *rec = &qp->send.recovery;
	u32 i, una = qp->send.una;

	for (i = 0; i < naks; i++) {
		if (!rox_recovery_gap(qp, true))
			continue;
		/* One packet and a burst in turn, never more than half. */
		resent(test, qp, n++ % 2 ? min(ROX_BURST_BYTES / qp->mtu, OUTSTANDING / 2) : 1);
		acked(qp, rec->resent_to - una);
		qp->send.una = una;
		KUNIT_EXPECT_FALSE(test, rec->trial);
		KUNIT_EXPECT_FALSE(test, rec->keeps);
		/* All of the rest is due, and no NAK changes that. */
		KUNIT_EXPECT_EQ(test, rec->due, U32_MAX);
		KUNIT_EXPECT_FALSE(test, rox_recovery_gap(qp, true));
		rox_recovery_rewound(qp);
	}
	return n;
}

static void trials_that_prove_nothing_become_rare(struct kunit *test)
{
	struct rox_qp *qp = stranger(test);

	local_bh_disable();
	KUNIT_EXPECT_EQ(test, trials(test, qp, 0, 16), 5);
	KUNIT_EXPECT_EQ(test, trials(test, qp, 5, 1000), 5 + 6);
	local_bh_enable();
	destroy(qp);
}

/* A trial that gets no answer, also without an ACK timeout. */
static void a_lost_trial_ends_in_go_back_n(struct kunit *test)
{
	struct rox_qp *qp = stranger(test);
	enum rox_wait what;

	nak(test, qp);
	resent(test, qp, 1);
	KUNIT_EXPECT_GT(test, rox_recovery_wait(qp, 0, &what), 0);
	KUNIT_EXPECT_EQ(test, what, ROX_WAIT_PROBE);
	KUNIT_EXPECT_TRUE(test, rox_recovery_probe(qp, what));
	KUNIT_EXPECT_FALSE(test, qp->send.recovery.trial);
	KUNIT_EXPECT_EQ(test, qp->send.recovery.due, U32_MAX);
	destroy(qp);
}

/* ACKs of packets that are still outstanding after a timeout prove nothing. */
static void only_a_nak_makes_an_ack_a_proof(struct kunit *test)
{
	struct rox_qp *qp = stranger(test);
	u32 max = qp->send.max_psn;

	/* Go-back-N has sent 3 packets again. */
	rox_recovery_rewound(qp);
	qp->send.psn = rox_psn_add(qp->send.una, 3);
	acked(qp, 5);
	KUNIT_EXPECT_FALSE(test, qp->send.recovery.keeps);
	rox_recovery_rewound(qp);
	rox_recovery_lacks(qp);
	qp->send.psn = rox_psn_add(qp->send.una, 3);
	acked(qp, 3);
	KUNIT_EXPECT_FALSE(test, qp->send.recovery.keeps);
	acked(qp, 1);
	KUNIT_EXPECT_TRUE(test, qp->send.recovery.keeps);
	qp->send.psn = max;
	destroy(qp);
}

/* A gap that closes before the trial was sent. */
static void a_trial_that_is_not_needed_is_dropped(struct kunit *test)
{
	struct rox_qp *qp = stranger(test);

	nak(test, qp);
	acked(qp, 1);
	KUNIT_EXPECT_FALSE(test, qp->send.recovery.trial);
	KUNIT_EXPECT_EQ(test, qp->send.recovery.due, 0);
	KUNIT_EXPECT_FALSE(test, qp->send.recovery.keeps);
	destroy(qp);
}

static void one_gap_of_some_is_watched(struct kunit *test)
{
	struct rox_qp *qp = requester(test);
	int i;

	nak(test, qp);
	expect_pause(test, qp);
	/* A second NAK for the gap does not change the wait. */
	nak(test, qp);
	expect_pause(test, qp);
	KUNIT_EXPECT_TRUE(test, probe(qp));
	fills(test, qp);
	for (i = 0; i < 7; i++) {
		nak(test, qp);
		fills(test, qp);
	}
	nak(test, qp);
	expect_pause(test, qp);
	destroy(qp);
}

static void where_gaps_close_by_themselves_they_are_waited_for(struct kunit *test)
{
	struct rox_qp *qp = requester(test);
	int i;

	for (i = 0; i < 20; i++) {
		nak(test, qp);
		expect_pause(test, qp);
		closes(qp);
		KUNIT_EXPECT_NE(test, qp->send.waits, ROX_WAIT_GAP);
		KUNIT_EXPECT_EQ(test, qp->send.recovery.due, 0);
	}
	/* The requester waits less often when packets are lost. */
	for (i = 0; i < 100; i++) {
		nak(test, qp);
		if (qp->send.waits != ROX_WAIT_GAP)
			break;
		KUNIT_EXPECT_TRUE(test, probe(qp));
		fills(test, qp);
	}
	KUNIT_EXPECT_GT(test, i, 20);
	KUNIT_EXPECT_LT(test, i, 50);
	destroy(qp);
}

/* The first gaps are waited for before it is known what the peer does. */
static void a_peer_is_known_without_a_retransmission(struct kunit *test)
{
	struct rox_qp *qp = stranger(test);

	qp->send.recovery.met = 0;
	nak(test, qp);
	expect_pause(test, qp);
	acked(qp, 2);
	KUNIT_EXPECT_FALSE(test, qp->send.recovery.keeps);
	nak(test, qp);
	expect_pause(test, qp);
	acked(qp, OUTSTANDING - 2);
	KUNIT_EXPECT_TRUE(test, qp->send.recovery.keeps);
	destroy(qp);
}

/* No ACK comes: a trial, or go-back-N if few packets are outstanding. */
static void the_first_gap_that_stays(struct kunit *test)
{
	struct rox_qp *qp = stranger(test);

	qp->send.recovery.met = 0;
	nak(test, qp);
	KUNIT_EXPECT_TRUE(test, probe(qp));
	KUNIT_EXPECT_TRUE(test, qp->send.recovery.trial);
	destroy(qp);
	qp = stranger(test);
	qp->send.recovery.met = 0;
	acked(qp, OUTSTANDING - 4);
	nak(test, qp);
	KUNIT_EXPECT_TRUE(test, probe(qp));
	KUNIT_EXPECT_FALSE(test, qp->send.recovery.trial);
	KUNIT_EXPECT_EQ(test, qp->send.recovery.due, U32_MAX);
	local_bh_disable();
	rox_recovery_send(qp);
	local_bh_enable();
	KUNIT_EXPECT_FALSE(test, qp->send.recovery.keeps);
	KUNIT_EXPECT_EQ(test, qp->send.psn, qp->send.una);
	KUNIT_EXPECT_TRUE(test, qp->send.recovery.lacks);
	/* The next one is not waited for, as no gap has closed. */
	qp->send.psn = qp->send.max_psn;
	qp->send.recovery.due = 0;
	KUNIT_EXPECT_FALSE(test, rox_recovery_gap(qp, true));
	destroy(qp);
}

/* No wait is left after the requester has gone back. */
static void going_back_ends_the_pause(struct kunit *test)
{
	struct rox_qp *qp = requester(test);

	nak(test, qp);
	expect_pause(test, qp);
	rox_retry_again(qp);
	KUNIT_EXPECT_NE(test, qp->send.waits, ROX_WAIT_GAP);
	KUNIT_EXPECT_FALSE(test, probe(qp));
	destroy(qp);
}

/* What is outstanding is one WRITE. */
static void of_a_write(struct rox_qp *qp)
{
	*rox_swqe_at(qp, qp->send.tail) = (struct rox_swqe) {
		.opcode = IB_WR_RDMA_WRITE,
		.first_psn = qp->send.una,
		.npkts = OUTSTANDING,
		.sent = OUTSTANDING,
	};
	qp->sq.index = qp->send.tail + 1;
}

#define WRITES 8U

/* What is outstanding are WRITEs without data, which can be sent. */
static struct rox_qp *of_writes(struct kunit *test)
{
	struct rox_fixture *f = test->priv;
	struct rox_qp *qp;
	u32 i;

	f->dev->cc.ops = &rox_cc_adaptive;
	qp = requester(test);
	qp->send.psn = rox_psn_add(qp->send.una, WRITES);
	qp->send.max_psn = qp->send.psn;
	for (i = 0; i < WRITES; i++)
		*rox_swqe_at(qp, qp->send.tail + i) = (struct rox_swqe) {
			.opcode = IB_WR_RDMA_WRITE,
			.first_psn = rox_psn_add(qp->send.una, i),
			.npkts = 1,
			.sent = 1,
		};
	qp->sq.index = qp->send.tail + WRITES;
	return qp;
}

/* A gap is filled; the peer may have got the packets before that. */
static void refills(struct kunit *test, struct rox_qp *qp)
{
	qp->send.recovery.due = 2;
	local_bh_disable();
	rox_recovery_send(qp);
	local_bh_enable();
	KUNIT_EXPECT_TRUE(test, qp->send.recovery.resent);
	KUNIT_EXPECT_EQ(test, qp->send.recovery.resent_to, rox_psn_add(qp->send.una, 2));
}

static u32 lost(const struct rox_qp *qp)
{
	return qp->send.cc.flow.adaptive.round_lost / qp->mtu;
}

static void destroy_writes(struct rox_qp *qp)
{
	qp->sq.index = qp->send.tail;
	destroy(qp);
}

static void what_was_not_lost_is_not_told(struct kunit *test)
{
	struct rox_qp *qp = of_writes(test);
	struct rox_recovery *rec = &qp->send.recovery;

	rec->least = FAR_NS;
	refills(test, qp);
	KUNIT_EXPECT_EQ(test, lost(qp), 0);
	/* Much sooner than a round trip later. */
	acked(qp, 1);
	KUNIT_EXPECT_EQ(test, lost(qp), 0);
	KUNIT_EXPECT_GT(test, rec->overtaken, 0);
	/* Now gaps are given time. */
	rec->resent = false;
	nak(test, qp);
	expect_pause(test, qp);
	destroy_writes(qp);
}

static void what_was_lost_is_told_once(struct kunit *test)
{
	struct rox_qp *qp = of_writes(test);
	struct rox_recovery *rec = &qp->send.recovery;

	rec->least = FAR_NS;
	refills(test, qp);
	rec->resent_at -= FAR_NS;
	acked(qp, 1);
	KUNIT_EXPECT_EQ(test, lost(qp), 1);
	KUNIT_EXPECT_EQ(test, rec->overtaken, 0);
	/* The second one only if the peer lacks what follows, too. */
	acked(qp, 2);
	KUNIT_EXPECT_EQ(test, lost(qp), 1);
	destroy_writes(qp);
}

/* A retransmission that is followed by the next one without an ACK. */
static void what_is_lost_again_is_told(struct kunit *test)
{
	struct rox_qp *qp = of_writes(test);

	qp->send.recovery.least = FAR_NS;
	refills(test, qp);
	refills(test, qp);
	KUNIT_EXPECT_EQ(test, lost(qp), 1);
	destroy_writes(qp);
}

/* ICRCs that nobody looks at stay away, unless the answer to a probe shows that more is missing. */
static void a_probe_is_no_loss_until_its_answer_shows_one(struct kunit *test)
{
	struct rox_qp *qp = of_writes(test);
	struct rox_recovery *rec = &qp->send.recovery;
	struct rox_near *near = &qp->path.near;

	near->left = true;
	rec->probes = 1;
	refills(test, qp);
	KUNIT_EXPECT_EQ(test, near->losses, 0);
	acked(qp, 2);
	KUNIT_EXPECT_GT(test, rec->due, 0);
	qp->send.tail += 2;
	refills(test, qp);
	KUNIT_EXPECT_EQ(test, near->losses, 1);
	destroy_writes(qp);
}

/* The peer answers late, or lacks the packet that a probe sends again. */
static void stalls(struct kunit *test, struct rox_qp *qp)
{
	KUNIT_EXPECT_TRUE(test, rox_recovery_probe(qp, ROX_WAIT_PROBE));
	refills(test, qp);
	/* Another one, as the answer is late. */
	KUNIT_EXPECT_TRUE(test, rox_recovery_probe(qp, ROX_WAIT_PROBE));
	refills(test, qp);
	rox_recovery_progress(qp, rox_psn_add(qp->send.una, 2));
}

static void progress_that_always_needs_a_probe_shows_a_loss(struct kunit *test)
{
	struct rox_qp *qp = of_writes(test);
	struct rox_near *near = &qp->path.near;

	near->left = true;
	stalls(test, qp);
	stalls(test, qp);
	rox_recovery_progress(qp, rox_psn_add(qp->send.una, 1));
	stalls(test, qp);
	stalls(test, qp);
	KUNIT_EXPECT_EQ(test, near->losses, 0);
	stalls(test, qp);
	KUNIT_EXPECT_EQ(test, near->losses, 1);
	destroy_writes(qp);
}

/* The first gap has been filled, and the answer to that comes: it ends at another one. */
static void answered_up_to_the_next_gap(struct kunit *test, struct rox_qp *qp)
{
	struct rox_recovery *rec = &qp->send.recovery;

	rec->least = FAR_NS;
	rec->gaps = 1;
	refills(test, qp);
	rec->resent_at -= FAR_NS;
	acked(qp, 4);
	qp->send.tail += 4;
}

static void an_ack_shows_the_next_gap(struct kunit *test)
{
	struct rox_qp *qp = of_writes(test);
	struct rox_recovery *rec = &qp->send.recovery;

	answered_up_to_the_next_gap(test, qp);
	KUNIT_EXPECT_GT(test, rec->due, 0);
	refills(test, qp);
	/* The NAK for it was sent before that. */
	nak(test, qp);
	KUNIT_EXPECT_EQ(test, rec->due, 0);
	KUNIT_EXPECT_NE(test, qp->send.waits, ROX_WAIT_GAP);
	/* This one was not. */
	rec->resent_at -= FAR_NS;
	nak(test, qp);
	fills(test, qp);
	destroy_writes(qp);
}

/* All that was sent before has arrived; what was sent since may be under way. */
static void an_ack_of_all_that_was_sent_shows_none(struct kunit *test)
{
	struct rox_qp *qp = of_writes(test);
	struct rox_recovery *rec = &qp->send.recovery;

	rec->least = FAR_NS;
	refills(test, qp);
	rec->resent_at -= FAR_NS;
	qp->send.psn = rox_psn_add(qp->send.psn, 1);
	qp->send.max_psn = qp->send.psn;
	acked(qp, WRITES);
	KUNIT_EXPECT_EQ(test, rec->due, 0);
	destroy_writes(qp);
}

static void where_packets_overtake_an_ack_shows_no_gap(struct kunit *test)
{
	struct rox_qp *qp = of_writes(test);

	qp->send.recovery.overtaken = 1;
	answered_up_to_the_next_gap(test, qp);
	KUNIT_EXPECT_EQ(test, qp->send.recovery.due, 0);
	destroy_writes(qp);
}

static void what_the_peer_keeps_makes_room(struct kunit *test)
{
	struct rox_qp *qp = of_writes(test);
	struct rox_congestion *cc = &qp->send.cc;

	cc->window = 10;
	KUNIT_EXPECT_EQ(test, rox_recovery_extra(qp), 0);
	refills(test, qp);
	cc->flow.rate = 1;
	KUNIT_EXPECT_EQ(test, rox_recovery_extra(qp), 10);
	/* No more than the peer may be expected to keep. */
	cc->window = ROX_EARLY_ASSUMED / qp->mtu - 1;
	KUNIT_EXPECT_EQ(test, rox_recovery_extra(qp), 1);
	cc->window *= 2;
	KUNIT_EXPECT_EQ(test, rox_recovery_extra(qp), 0);
	/* Not without a pace, and not where nothing comes back. */
	cc->window = 10;
	cc->flow.rate = qp->dev->cc.line_rate;
	KUNIT_EXPECT_EQ(test, rox_recovery_extra(qp), 0);
	cc->flow.rate = 1;
	qp->send.recovery.probes = 1;
	KUNIT_EXPECT_EQ(test, rox_recovery_extra(qp), 0);
	destroy_writes(qp);
}

/* Nothing could be retransmitted, so that no ACK will show whether that was needed. */
static void what_cannot_be_refilled_is_told_at_once(struct kunit *test)
{
	struct rox_qp *qp = of_writes(test);
	u32 room = qp->send.side.room;

	qp->send.recovery.due = 2;
	qp->send.side.room = 0;
	local_bh_disable();
	rox_recovery_send(qp);
	local_bh_enable();
	qp->send.side.room = room;
	KUNIT_EXPECT_EQ(test, lost(qp), 1);
	KUNIT_EXPECT_FALSE(test, qp->send.recovery.resent);
	KUNIT_EXPECT_FALSE(test, qp->send.recovery.doubted);
	/* Go-back-N. */
	KUNIT_EXPECT_EQ(test, qp->send.psn, qp->send.una);
	destroy_writes(qp);
}

/*
 * After an ACK timeout the gap is filled at once, unless a response may be missing: nothing is
 * known about those after it.
 */
static void a_timeout_is_no_reason_to_wait(struct kunit *test)
{
	struct rox_qp *qp = requester(test);

	of_a_write(qp);
	nak(test, qp);
	closes(qp);
	KUNIT_EXPECT_TRUE(test, rox_recovery_gap(qp, false));
	fills(test, qp);
	rox_swqe_at(qp, qp->send.tail)->opcode = IB_WR_RDMA_READ;
	KUNIT_EXPECT_FALSE(test, rox_recovery_gap(qp, false));
	qp->sq.index = qp->send.tail;
	destroy(qp);
}

/* Else it would count as requested again half of all PSNs later. */
static void what_was_requested_again_is_forgotten(struct kunit *test)
{
	struct rox_qp *qp = requester(test);

	rox_holes_rewound(qp);
	acked(qp, OUTSTANDING - 1);
	KUNIT_EXPECT_TRUE(test, rox_holes_busy(qp));
	rox_holes_settle(qp);
	KUNIT_EXPECT_TRUE(test, qp->send.holes.asked);
	acked(qp, 1);
	rox_holes_settle(qp);
	KUNIT_EXPECT_FALSE(test, rox_holes_busy(qp));
	destroy(qp);
}

/* ---- the responder ---- */

/* Gives an empty WRITE to @qp, @ahead of the expected PSN. */
static void comes(struct rox_qp *qp, struct sk_buff *skb, u32 ahead)
{
	struct rox_pkt pkt = {
		.bth = { .psn = rox_psn_add(qp->recv.epsn, ahead),
			 .opcode = IB_OPCODE_RC_RDMA_WRITE_ONLY },
		.info = &rox_opcodes[IB_OPCODE_RC_RDMA_WRITE_ONLY],
		.npkts = 1,
		.skb = skb,
	};

	qp->recv.rx.index = 1;
	rox_recv_packet(qp, &pkt);
}

static void a_gap_that_closes_within_a_run_is_not_told(struct kunit *test)
{
	struct rox_qp *qp = rox_fixture_qp(test, IB_QPT_RC);
	struct sk_buff *skb = alloc_skb(64, GFP_KERNEL);
	u64 before;

	KUNIT_ASSERT_NOT_NULL(test, skb);
	rox_fixture_move(test, qp, IB_QPS_RTS);
	rox_side_lock(&qp->recv.side);
	before = rox_fixture_counted(qp, ROX_CNT_TX_ACKS);
	local_bh_disable();
	comes(qp, skb, 1);
	KUNIT_EXPECT_TRUE(test, qp->recv.nak_due);
	comes(qp, skb, 0);
	KUNIT_EXPECT_FALSE(test, qp->recv.nak_due);
	rox_early_purge(qp, &qp->recv.early);
	rox_recv_run(qp, ROX_WORK_RUN);
	KUNIT_EXPECT_EQ(test, rox_fixture_counted(qp, ROX_CNT_TX_ACKS), before);
	/* For a gap that does not close, one NAK is sent. */
	comes(qp, skb, 1);
	comes(qp, skb, 2);
	rox_recv_run(qp, ROX_WORK_RUN);
	rox_recv_run(qp, ROX_WORK_RUN);
	KUNIT_EXPECT_EQ(test, rox_fixture_counted(qp, ROX_CNT_TX_ACKS), before + 1);
	KUNIT_EXPECT_FALSE(test, qp->recv.nak_due);
	KUNIT_EXPECT_TRUE(test, qp->recv.nak_sent);
	rox_early_purge(qp, &qp->recv.early);
	local_bh_enable();
	rox_side_unlock(&qp->recv.side);
	kfree_skb(skb);
	ib_destroy_qp(&qp->ibqp);
}

static struct kunit_case rox_recovery_cases[] = {
	KUNIT_CASE(an_ack_that_jumps_over_the_rest_brings_trust),
	KUNIT_CASE(trials_that_prove_nothing_become_rare),
	KUNIT_CASE(a_lost_trial_ends_in_go_back_n),
	KUNIT_CASE(what_is_in_flight_to_a_peer_that_drops),
	KUNIT_CASE(only_a_nak_makes_an_ack_a_proof),
	KUNIT_CASE(a_trial_that_is_not_needed_is_dropped),
	KUNIT_CASE(one_gap_of_some_is_watched),
	KUNIT_CASE(where_gaps_close_by_themselves_they_are_waited_for),
	KUNIT_CASE(a_peer_is_known_without_a_retransmission),
	KUNIT_CASE(the_first_gap_that_stays),
	KUNIT_CASE(what_was_not_lost_is_not_told),
	KUNIT_CASE(what_was_lost_is_told_once),
	KUNIT_CASE(what_is_lost_again_is_told),
	KUNIT_CASE(a_probe_is_no_loss_until_its_answer_shows_one),
	KUNIT_CASE(progress_that_always_needs_a_probe_shows_a_loss),
	KUNIT_CASE(an_ack_shows_the_next_gap),
	KUNIT_CASE(an_ack_of_all_that_was_sent_shows_none),
	KUNIT_CASE(where_packets_overtake_an_ack_shows_no_gap),
	KUNIT_CASE(what_the_peer_keeps_makes_room),
	KUNIT_CASE(what_cannot_be_refilled_is_told_at_once),
	KUNIT_CASE(going_back_ends_the_pause),
	KUNIT_CASE(a_timeout_is_no_reason_to_wait),
	KUNIT_CASE(what_was_requested_again_is_forgotten),
	KUNIT_CASE(a_gap_that_closes_within_a_run_is_not_told),
	{}
};

static struct kunit_suite rox_recovery_suite = {
	.name = "rox_recovery",
	.init = rox_fixture_init,
	.exit = rox_fixture_exit,
	.test_cases = rox_recovery_cases,
};

kunit_test_suite(rox_recovery_suite);
