// SPDX-License-Identifier: GPL-2.0
/*
 * What is retransmitted after a sequence NAK. Peers are of two kinds. One drops requests that
 * come early, as IBTA volume 1, 9.7.5.2.4, has it: it needs all packets from the missing one on
 * (go-back-N, retry.c), and new packets before them are wasted. The other stores early requests,
 * as early.c does. It needs only the packets that are missing, so a few packets from the
 * missing one on are retransmitted, while new ones go on. Its next NAK names the next gap.
 *
 * Nothing on the wire says of which kind a peer is, and reserved bits are not ours to use. So a
 * peer counts as one that drops until it has shown that it keeps. A NAK says that the peer lacks
 * a packet. If it then acknowledges packets that were not retransmitted since, it has kept them.
 * To see that, the requester makes trials: it retransmits a few packets and nothing else, and
 * waits. An ACK that jumps over the rest is the proof. Otherwise the rest follows: the peer gets
 * what go-back-N would have sent, each packet once, one round trip later. Trials become rare if
 * they prove nothing.
 *
 * If the last packets of a message or the NAK were lost, nothing comes from the peer. Long before
 * the ACK timeout, one packet is then retransmitted as a probe. The ACK or NAK for it says what
 * the peer has (as RFC 8985, section 7, does for TCP).
 *
 * The length of a gap is not known. If the NAK after a retransmission names the packet behind it,
 * the gap was longer, or the peer drops after all. So each time twice as many packets are
 * retransmitted, up to ROX_GAP_MOST. After ROX_DROPS such gaps in a row the peer counts as one that
 * drops: the packets that it seemed to keep were perhaps only late. An ACK for exactly the
 * retransmitted packets is no evidence: they asked for it, and ACKs for later packets may still be
 * on their way.
 *
 * Where the network changes the order of packets, gaps close by themselves soon after the NAK,
 * and the retransmission was useless. To detect this, the requester waits a round trip before it
 * fills one of ROX_GAPS_WATCHED gaps. Once a gap has closed in that time, it also waits before it
 * fills the next ones (RFC 8985, section 6.2). So it does if an ACK for what was retransmitted
 * comes too soon to be an answer to it. The first gaps of a connection get that time, too, before
 * anything is known of the peer. If all that was in flight is then acknowledged, the peer has
 * stored what came early, and no trial is needed.
 *
 * An ACK for what was retransmitted that ends before a packet which had been sent earlier says,
 * where nothing was overtaken, that this packet is missing, too. It is retransmitted at once, as in
 * TCP without SACK (RFC 6582, section 3.2): the NAK for it comes only when a packet behind it
 * arrives, a round trip later. That NAK is ignored if it comes sooner than an answer could.
 *
 * What the peer keeps behind a gap is in flight no more, but no ACK says so. A flow with a pace
 * goes on sending meanwhile, up to twice its window (rox_recovery_extra()).
 *
 * A gap is no loss if its packet arrives by itself. So the congestion control algorithm is told
 * of a loss only when the ACK comes that shows that the retransmission was needed. Go-back-N does
 * not wait for that: its peer stores nothing.
 */
#include "internal.h"

/* Packets retransmitted for a gap, whose length is not known: minimum and maximum. */
#define ROX_GAP_LEAST		4U
#define ROX_GAP_MOST		64U

/* Gaps in a row that began right after the retransmitted packets, before trust is lost. */
#define ROX_DROPS		5
/* As ROX_DROPS, where the network changes the order of packets, which may cause such gaps. */
#define ROX_DROPS_OVERTAKEN	10

/* There is a trial at NAK 1, 2, 4, 8 and so on, and at each one that this divides. */
#define ROX_TRIAL_EVERY		256U
/* With fewer packets outstanding all are retransmitted: a trial is not worth a round trip. */
#define ROX_TRIAL_LEAST		8U
/* NAKs until the next trial after trust was lost. */
#define ROX_DISTRUST		64U

/* One of this many gaps is given time to close by itself. */
#define ROX_GAPS_WATCHED	8U

/* Each gap that closed by itself makes us wait for 4 more, at most 32. */
#define ROX_OVERTAKEN		4U
#define ROX_OVERTAKEN_MOST	32U

/* So many gaps are given time to close before it is known whether the peer stores requests. */
#define ROX_GAPS_STRANGER	8U

/* Value of @due for go-back-N. */
#define ROX_GAP_ALL		U32_MAX

/* Probes before the ACK timeout. The wait for each is twice as long as for the one before. */
#define ROX_PROBES		3

/*
 * A probe is to find out whether something is missing. If that is more than the probe, its answer
 * says so. If so many probes in a row are answered, all that they sent again may have been missing.
 */
#define ROX_STALLS		3

/* The first probe is sent after two round trips and this. The round trip is a guess at first. */
#define ROX_PROBE_NS		(2 * NSEC_PER_MSEC)
#define ROX_ROUND_TRIP_NS	(8 * NSEC_PER_MSEC)

void rox_recovery_reset(struct rox_qp *qp)
{
	qp->send.recovery = (struct rox_recovery) {
		.gap = ROX_GAP_LEAST,
		.round_trip = ROX_ROUND_TRIP_NS,
	};
}

void rox_recovery_rewound(struct rox_qp *qp)
{
	struct rox_recovery *rec = &qp->send.recovery;

	rec->due = 0;
	rec->trial = false;
	rec->lacks = false;
	rec->resent = false;
	rec->doubted = false;
	rec->whole = false;
	rec->timed_at = 0;
	rec->waited = 0;
}

void rox_recovery_lacks(struct rox_qp *qp)
{
	qp->send.recovery.lacks = true;
}

/* ---- retransmission ---- */

/*
 * Retransmits up to @most packets of @wqe, from una on, that were sent already.
 * Return: number of packets.
 */
static u32 rox_resend_wqe(struct rox_qp *qp, struct rox_swqe *wqe, u32 index, u32 most)
{
	u32 from = max(rox_psn_diff(qp->send.una, wqe->first_psn), 0);
	u32 sent = wqe->sent, to = min(sent, from + most), again;

	wqe->sent = from;
	while (wqe->sent < to && rox_side_has_room(&qp->send.side) &&
	       !rox_xmit_message(qp, wqe, index, to - wqe->sent, 0))
		;
	again = wqe->sent - from;
	wqe->sent = sent;
	rox_qp_count_add(qp, ROX_CNT_RETRANS_PKTS, again);
	return again;
}

/* Is it a SEND or WRITE of which packets were sent? */
static bool rox_wqe_resends(const struct rox_swqe *wqe)
{
	return !wqe->status && wqe->sent && !rox_wqe_is_answered(wqe) && !rox_wqe_is_local(wqe);
}

static bool rox_can_resend(const struct rox_qp *qp)
{
	return qp->send.tail != qp->sq.index && qp->send.una != qp->send.psn &&
	       rox_wqe_resends(rox_swqe_at(qp, qp->send.tail));
}

static u32 rox_resend(struct rox_qp *qp, u32 most)
{
	struct rox_send *send = &qp->send;
	struct rox_swqe *wqe;
	u32 i, again, n = 0;

	rox_send_iter_end(qp);
	send->resending = true;
	for (i = send->tail; i != qp->sq.index && n < most; i++) {
		wqe = rox_swqe_at(qp, i);
		if (!rox_wqe_resends(wqe))
			break;
		again = rox_resend_wqe(qp, wqe, i, most - n);
		if (!again)
			break;
		n += again;
	}
	send->resending = false;
	rox_send_iter_end(qp);
	return n;
}

/* ---- trials ---- */

/* The peer has acknowledged packets after one that it lacked, before it could get them again. */
static void rox_recovery_trusts(struct rox_qp *qp)
{
	struct rox_recovery *rec = &qp->send.recovery;

	rox_cc_trusts(qp);
	/* Its first gap is watched. */
	if (!rec->keeps)
		rec->gaps = 0;
	rec->keeps = true;
	rec->lacks = false;
	rec->drops = 0;
}

/* The peer has dropped what came early. */
static void rox_recovery_distrusts(struct rox_qp *qp)
{
	struct rox_recovery *rec = &qp->send.recovery;

	if (rec->keeps)
		rec->untrusted = ROX_TRIAL_EVERY - ROX_DISTRUST;
	rec->keeps = false;
}

/*
 * A peer that is not trusted has sent a NAK: is it time for a trial? Trials are of one packet and
 * of a burst in turn, because networks lose packets or whole frames. They leave out at least half
 * of what is outstanding.
 */
static bool rox_recovery_tries(struct rox_qp *qp)
{
	struct rox_recovery *rec = &qp->send.recovery;
	u32 outstanding = rox_psn_diff(qp->send.psn, qp->send.una);

	if (rec->trial || rec->due || outstanding < ROX_TRIAL_LEAST)
		return false;
	rec->untrusted++;
	if (!is_power_of_2(rec->untrusted) && rec->untrusted % ROX_TRIAL_EVERY)
		return false;
	rec->bulky = !rec->bulky;
	rec->trial = true;
	rec->due = rec->bulky ? 1 : min(ROX_BURST_BYTES / qp->mtu, outstanding / 2);
	rox_timer_clear(qp);
	return true;
}

/* The packets of the trial are acknowledged, and all before @una. */
static void rox_recovery_tried(struct rox_qp *qp, u32 una)
{
	struct rox_recovery *rec = &qp->send.recovery;

	rec->trial = false;
	if (una != rec->resent_to)
		rox_recovery_trusts(qp);
	else if (una != qp->send.max_psn)
		rec->due = ROX_GAP_ALL;
}

/* ---- gaps ---- */

/*
 * The round trip that is measured took @ns. Where nothing is known yet, a probe may have been sent
 * meanwhile, and the answer may be that to the probe.
 */
static void rox_recovery_took(struct rox_recovery *rec, u64 ns)
{
	bool probed = rec->resent_at > rec->timed_at;

	rec->timed_at = 0;
	if (probed) {
		rec->round_trip = max(rec->round_trip, ns);
		return;
	}
	rec->round_trip = rec->least ? (7 * rec->round_trip + ns) / 8 : ns;
	rec->least = rec->least ? min(rec->least, ns) : ns;
}

/* A gap has closed by itself. */
static void rox_recovery_overtaken(struct rox_recovery *rec)
{
	rec->overtaken = min(rec->overtaken + ROX_OVERTAKEN, ROX_OVERTAKEN_MOST);
}

/*
 * Waits before the gap is filled, if gaps have closed by themselves or it is time to test that.
 * The timer then fills the gap, unless it has closed.
 * Return: false if there is no wait.
 */
static bool rox_recovery_pauses(struct rox_qp *qp)
{
	struct rox_recovery *rec = &qp->send.recovery;
	u64 now = ktime_get_ns();

	if (!rec->overtaken && rec->gaps++ % ROX_GAPS_WATCHED)
		return false;
	/* Before the first ACK. What the NAK is for was not sent before the missing packet. */
	if (!rec->least && rec->timed_at && rox_psn_diff(qp->send.una, rec->timed_first) >= 0)
		rox_recovery_took(rec, now - rec->timed_at);
	rec->due = 0;
	rox_timer_set(qp, ROX_WAIT_GAP, now + rec->round_trip);
	return true;
}

/* That wait is over. @closed: because the gap has closed by itself. */
static void rox_recovery_paused(struct rox_qp *qp, bool closed)
{
	struct rox_recovery *rec = &qp->send.recovery;

	if (closed)
		rox_recovery_overtaken(rec);
	else if (rec->overtaken)
		rec->overtaken--;
}

/*
 * The first gaps of a peer that is not known. The network may have changed the order of packets. If
 * all that was sent is acknowledged without a retransmission, the peer stores early requests.
 */
static bool rox_recovery_meets(struct rox_qp *qp)
{
	struct rox_recovery *rec = &qp->send.recovery;

	if (rec->trial || rec->due || rec->untrusted || rec->met >= ROX_GAPS_STRANGER ||
	    (rec->met && !rec->overtaken))
		return false;
	rec->gaps = 0;
	rox_recovery_pauses(qp);
	rec->met++;
	if (!rec->whole)
		rec->whole_to = qp->send.max_psn;
	rec->whole = true;
	return true;
}

/* Was the gap filled so lately that the NAK cannot be an answer to that? */
static bool rox_recovery_is_asked_twice(const struct rox_qp *qp)
{
	const struct rox_recovery *rec = &qp->send.recovery;

	return rec->keeps && rec->resent && !rec->probed && !rec->trial &&
	       rox_psn_diff(qp->send.una, rec->resent_to) < 0 &&
	       ktime_get_ns() - rec->resent_at < rec->least;
}

bool rox_recovery_gap(struct rox_qp *qp, bool nak)
{
	struct rox_recovery *rec = &qp->send.recovery;

	/* After a timeout nothing is known about the responses after a missing one. */
	if (qp->send.psn != qp->send.max_psn || !(nak || rox_can_resend(qp)))
		return false;
	if (nak && (qp->send.waits == ROX_WAIT_GAP || rox_recovery_is_asked_twice(qp)))
		return true;
	if (!rec->keeps)
		return nak && (rox_recovery_meets(qp) || rox_recovery_tries(qp));
	if (!rec->due)
		rec->due = rec->gap;
	if (rec->stuck && qp->send.una == rec->stuck_at) {
		rec->drops++;
		if (rec->drops >= (rec->overtaken ? ROX_DROPS_OVERTAKEN : ROX_DROPS))
			rec->due = ROX_GAP_ALL;
	}
	rec->stuck = false;
	if (nak && rec->due != ROX_GAP_ALL && rox_recovery_pauses(qp))
		return true;
	rox_timer_clear(qp);
	return true;
}

/*
 * The missing packet is a READ or ATOMIC, or its response, and is requested again. The peer keeps
 * the requests after it, or has executed them.
 */
static bool rox_recovery_asks(struct rox_qp *qp, u32 due)
{
	const struct rox_recovery *rec = &qp->send.recovery;

	if (due == ROX_GAP_ALL || !(rec->probes ? rox_holes_seen(qp) : rec->keeps))
		return false;
	return rox_holes_fill(qp, qp->send.una, qp->send.una);
}

/* A gap is to be filled. What was retransmitted before without an answer was lost, too. */
static void rox_recovery_lost_again(struct rox_qp *qp)
{
	struct rox_recovery *rec = &qp->send.recovery;

	if (rec->resent && rec->doubted)
		rox_cc_lost(qp, 1);
	rec->doubted = false;
}

/* @sent packets from una on were retransmitted. */
static void rox_recovery_resent(struct rox_qp *qp, u32 sent)
{
	struct rox_recovery *rec = &qp->send.recovery;

	rec->resent = true;
	rec->probed = rec->probes;
	/* The first ACK shows whether that was needed. A probe is no sign of a loss. */
	rec->doubted = !rec->probes;
	rec->resent_to = rox_psn_add(qp->send.una, sent);
	rec->resent_pkts = sent;
	rec->sent_before = qp->send.max_psn;
	rec->resent_at = ktime_get_ns();
	rec->whole = false;
	if (rec->least || !rec->probed)
		rec->timed_at = 0;
}

void rox_recovery_send(struct rox_qp *qp)
{
	struct rox_send *send = &qp->send;
	struct rox_recovery *rec = &send->recovery;
	u32 due = rec->due, sent = 0;

	rec->due = 0;
	/*
	 * Nothing to do if the requester has gone back meanwhile, nothing is outstanding, or the
	 * send side pauses.
	 */
	if (send->psn != send->max_psn || send->psn == send->una || rox_send_pauses(qp)) {
		rec->trial = false;
		return;
	}
	/* A second ACK came in the run that saw the end of the trial. */
	if (due == ROX_GAP_ALL && !rec->keeps && rox_psn_diff(send->una, rec->resent_to) > 0) {
		rox_recovery_trusts(qp);
		return;
	}
	rox_retry_missing(qp, !rec->probes || rec->stalls >= ROX_STALLS);
	rox_cc_untime(qp);
	rox_recovery_lost_again(qp);
	if (due == ROX_GAP_ALL)
		rox_recovery_distrusts(qp);
	else
		sent = rox_resend(qp, min(due, rox_cc_resends(qp)));
	if (sent) {
		rox_recovery_resent(qp, sent);
		return;
	}
	if (!rec->probes)
		rox_cc_lost(qp, 1);
	if (rox_recovery_asks(qp, due)) {
		rec->timed_at = 0;
		return;
	}
	/*
	 * The missing packet is a READ's or ATOMIC's, the peer drops early requests, or this run
	 * may send no more: go-back-N.
	 */
	rox_retry_again(qp);
	rec->lacks = due == ROX_GAP_ALL;
}

/* ---- probes ---- */

u64 rox_recovery_wait(struct rox_qp *qp, u64 timeout, enum rox_wait *what)
{
	struct rox_recovery *rec = &qp->send.recovery;
	u64 wait = (2 * rec->round_trip + ROX_PROBE_NS) << rec->probes;

	if (unlikely(rec->trial)) {
		*what = ROX_WAIT_PROBE;
		return wait;
	}
	if (rec->probes < ROX_PROBES && rec->waited + wait < timeout &&
	    (rox_can_resend(qp) || rox_holes_seen(qp))) {
		rec->waited += wait;
		*what = ROX_WAIT_PROBE;
		return wait;
	}
	/* The waits for probes count towards the ACK timeout. */
	wait = timeout - min(rec->waited, timeout);
	rec->waited = 0;
	*what = ROX_WAIT_ACK;
	return wait;
}

/* Go-back-N is due, and no ACK has ended a trial. */
static void rox_recovery_gives_up(struct rox_qp *qp)
{
	qp->send.recovery.due = ROX_GAP_ALL;
	qp->send.recovery.resent_to = qp->send.una;
}

bool rox_recovery_probe(struct rox_qp *qp, enum rox_wait what)
{
	struct rox_recovery *rec = &qp->send.recovery;

	if (what == ROX_WAIT_GAP) {
		rox_recovery_paused(qp, false);
		if (rec->keeps)
			rec->due = rec->gap;
		else if (!rox_recovery_tries(qp))
			rox_recovery_gives_up(qp);
		return true;
	}
	if (what != ROX_WAIT_PROBE)
		return false;
	if (rec->trial) {
		/* The trial was lost, or its answer. */
		rec->trial = false;
		rec->due = ROX_GAP_ALL;
		return true;
	}
	if (!rec->probes++ && rec->stalls < ROX_STALLS)
		rec->stalls++;
	if (!rec->due && (rox_can_resend(qp) || rox_holes_seen(qp)))
		rec->due = 1;
	return true;
}

/* ---- ACKs ---- */

/*
 * The first ACK since packets were retransmitted. If it comes long before the peer could have
 * answered them, nothing was lost.
 */
static void rox_recovery_judge(struct rox_qp *qp)
{
	struct rox_recovery *rec = &qp->send.recovery;
	u64 took = ktime_get_ns() - rec->resent_at;

	rec->doubted = false;
	if (took < rec->least / 2)
		rox_recovery_overtaken(rec);
	else
		rox_cc_lost(qp, 1);
}

/*
 * The ACK came for the retransmitted packets, so all that was sent before them has arrived, or is
 * lost. Return: the packet @una is lost.
 */
static bool rox_recovery_sees_next(const struct rox_qp *qp, u32 una)
{
	const struct rox_recovery *rec = &qp->send.recovery;

	return rec->keeps && !rec->stuck && !rec->overtaken && !rec->probed &&
	       rox_psn_diff(una, rec->sent_before) < 0;
}

/* The retransmitted packets are acknowledged. Did the peer have the packets after them? */
static void rox_recovery_answered(struct rox_qp *qp, u32 una)
{
	struct rox_recovery *rec = &qp->send.recovery;

	rec->resent = false;
	if (rec->trial) {
		rox_recovery_tried(qp, una);
		return;
	}
	rec->stuck = una == rec->resent_to && una != qp->send.max_psn;
	rec->stuck_at = una;
	if (!rec->stuck)
		rec->drops = 0;
	/* Before a round trip is known, a probe may have been too early. */
	if (rec->stuck && !rec->overtaken && (rec->least || !rec->probed)) {
		/* All that was retransmitted was missing; one packet has been counted. */
		rox_cc_lost(qp, rec->resent_pkts - 1);
		rec->gap = min(2 * rec->gap, ROX_GAP_MOST);
		rec->due = rec->gap;
	} else {
		rec->gap = max(rec->gap / 2, ROX_GAP_LEAST);
		if (rox_recovery_sees_next(qp, una))
			rec->due = rec->gap;
	}
}

void rox_recovery_settle(struct rox_qp *qp)
{
	struct rox_recovery *rec = &qp->send.recovery;

	/* It may have gone back meanwhile. */
	if (rec->answered && rec->resent)
		rox_recovery_answered(qp, qp->send.una);
	rec->answered = false;
}

void rox_recovery_progress(struct rox_qp *qp, u32 una)
{
	struct rox_recovery *rec = &qp->send.recovery;

	if (!rec->probes)
		rec->stalls = 0;
	rec->probes = 0;
	rec->waited = 0;
	if (unlikely(qp->send.waits == ROX_WAIT_GAP)) {
		rox_timer_clear(qp);
		rox_recovery_paused(qp, true);
	}
	if (unlikely(rec->whole) && rox_psn_diff(una, rec->whole_to) >= 0) {
		rec->whole = false;
		rox_recovery_trusts(qp);
	}
	/* The gap has closed before the trial began. */
	if (unlikely(rec->trial) && !rec->resent) {
		rec->trial = false;
		rec->due = 0;
	}
	/* Go-back-N is under way, and has not come so far. */
	if (unlikely(rec->lacks) && rox_psn_diff(una, qp->send.psn) > 0)
		rox_recovery_trusts(qp);
	if (unlikely(rec->doubted) && rec->resent)
		rox_recovery_judge(qp);
	if (unlikely(rec->resent) && rox_psn_diff(una, rec->resent_to) >= 0)
		rec->answered = true;
	if (!rec->timed_at || rox_psn_diff(una, rec->timed_psn) < 0)
		return;
	rox_recovery_took(rec, ktime_get_ns() - rec->timed_at);
}

u32 rox_recovery_extra(const struct rox_qp *qp)
{
	const struct rox_recovery *rec = &qp->send.recovery;
	u32 window = qp->send.cc.window, most = ROX_EARLY_ASSUMED / qp->mtu;

	if (!rec->keeps || rec->probes || !(rec->due || rec->resent) || !rox_cc_is_paced(qp))
		return 0;
	return min(window, most - min(window, most));
}

/* Measures one packet at a time, which was sent in this run and not retransmitted. */
void rox_recovery_watch(struct rox_qp *qp, u64 now)
{
	struct rox_send *send = &qp->send;
	struct rox_recovery *rec = &send->recovery;

	if (rec->timed_at || rec->resent || send->psn != send->max_psn ||
	    send->max_psn == send->run_max)
		return;
	rec->timed_at = now;
	rec->timed_first = send->run_max;
	rec->timed_psn = send->max_psn;
}
