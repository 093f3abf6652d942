// SPDX-License-Identifier: GPL-2.0
/*
 * Recovery: a peer that keeps requests that come early (as resp_early.c does) needs
 * what is missing, and nothing of what came behind it. So a sequence NAK is answered
 * with some packets from the missing one on, while new ones go on; the peer's next NAK
 * is about the next gap. And it can be asked by one packet how far it is, long before
 * the ACK timeout, when the last packets or its NAK seem to be lost (RFC 8985, 7 has
 * that for TCP).
 *
 * Nobody says on the wire what kind of peer he is. One that drops what comes early is
 * known by its answer: it gets as far as the packets that were sent again, never any
 * further, and has a NAK for the next one. That may also be a long gap: so twice as many
 * are sent, until there are more than a gap is likely to have. Then all is sent again, see
 * retry.c, and so it is for many NAKs to come. (An ACK that ends there proves nothing: what
 * was sent again asked for it, and may only have been overtaken.)
 *
 * Where the network changes the order, a gap closes by itself soon after the NAK, and what
 * was sent for it was sent in vain. Whether that is so is found out by waiting: for half a
 * round trip, on one of some gaps, and on each where it was not in vain (RFC 8985, 6.2).
 */
#include "internal.h"

/* Packets that are sent for a gap whose length is not known: at first, and at most. */
#define ROX_GAP_LEAST		4U
#define ROX_GAP_MOST		64U

/* Gaps in a row that ended in a NAK for the packet behind what was sent for them. */
#define ROX_DROPS		5

/* NAKs for which all is sent again at once, once that has turned out to be necessary. */
#define ROX_DISTRUST		64

/* Of so many gaps one is watched for whether it closes by itself. */
#define ROX_GAPS_WATCHED	8U

/* What one that did adds to the number of gaps that are waited for; and their most. */
#define ROX_OVERTAKEN		4U
#define ROX_OVERTAKEN_MOST	32U

/* Stands for all packets. */
#define ROX_GAP_ALL		U32_MAX

/* Questions before the ACK timeout; each waits twice as long as the one before. */
#define ROX_PROBES		3

/* A question waits two round trips and this. What a round trip takes is not known at first. */
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
	rec->resent = false;
	rec->pausing = false;
	rec->timed_at = 0;
	rec->waited = 0;
}

/* ---- gaps ---- */

/* Is it better to wait? Then the timer will fill the gap, or it has closed before. */
static bool rox_recovery_pauses(struct rox_qp *qp)
{
	struct rox_recovery *rec = &qp->send.recovery;

	if (!rec->overtaken && rec->gaps++ % ROX_GAPS_WATCHED)
		return false;
	rec->pausing = true;
	rec->due = 0;
	qp->send.deadline = ktime_get_ns() + rec->round_trip / 2;
	rox_timer_arm(qp);
	return true;
}

static void rox_recovery_paused(struct rox_qp *qp, bool closed)
{
	struct rox_recovery *rec = &qp->send.recovery;

	rec->pausing = false;
	if (closed)
		rec->overtaken = min(rec->overtaken + ROX_OVERTAKEN, ROX_OVERTAKEN_MOST);
	else if (rec->overtaken)
		rec->overtaken--;
}

bool rox_recovery_gap(struct rox_qp *qp, bool nak)
{
	struct rox_recovery *rec = &qp->send.recovery;

	if (qp->send.psn != qp->send.max_psn)
		return false;
	if (rec->distrust) {
		rec->distrust--;
		return false;
	}
	if (rec->pausing)
		return true;
	if (!rec->due)
		rec->due = rec->gap;
	if (rec->stuck && qp->send.una == rec->stuck_at && ++rec->drops >= ROX_DROPS)
		rec->due = ROX_GAP_ALL;
	rec->stuck = false;
	if (nak && rec->due != ROX_GAP_ALL && rox_recovery_pauses(qp))
		return true;
	qp->send.deadline = 0;
	return true;
}

void rox_recovery_send(struct rox_qp *qp)
{
	struct rox_send *send = &qp->send;
	struct rox_recovery *rec = &send->recovery;
	u32 due = rec->due, sent = 0;

	rec->due = 0;
	/* Then it is all the same: what is missing is on its way, or will be. */
	if (send->psn != send->max_psn || send->psn == send->una || send->waiting_rnr)
		return;
	if (due == ROX_GAP_ALL) {
		rec->distrust = ROX_DISTRUST;
		rec->drops = 0;
	} else {
		sent = rox_resend(qp, due);
	}
	/* A READ is missing, or it is that kind of peer. */
	if (!sent) {
		rox_retry_again(qp);
		return;
	}
	rec->resent = true;
	rec->resent_to = rox_psn_add(send->una, sent);
	rec->timed_at = 0;
}

/* ---- questions ---- */

u64 rox_recovery_wait(struct rox_qp *qp, u64 timeout)
{
	struct rox_recovery *rec = &qp->send.recovery;
	u64 wait = (2 * rec->round_trip + ROX_PROBE_NS) << rec->probes;

	rec->asks = !rec->distrust && rec->probes < ROX_PROBES &&
		    rec->waited + wait < timeout && rox_can_resend(qp);
	if (rec->asks) {
		rec->waited += wait;
		return wait;
	}
	/* The questions do not make it longer. */
	wait = timeout - min(rec->waited, timeout);
	rec->waited = 0;
	return wait;
}

bool rox_recovery_probe(struct rox_qp *qp)
{
	struct rox_recovery *rec = &qp->send.recovery;

	if (rec->pausing) {
		rox_recovery_paused(qp, false);
		rec->due = rec->gap;
		return true;
	}
	if (!rec->asks)
		return false;
	rec->asks = false;
	rec->probes++;
	if (!rec->due && rox_can_resend(qp))
		rec->due = 1;
	return true;
}

/* ---- answers ---- */

/* What was sent for a gap has come. Is that all of it? */
static void rox_recovery_answered(struct rox_qp *qp, u32 una)
{
	struct rox_recovery *rec = &qp->send.recovery;

	rec->resent = false;
	rec->stuck = una == rec->resent_to && una != qp->send.max_psn && !rec->overtaken;
	rec->stuck_at = una;
	if (rec->stuck) {
		rec->gap = min(2 * rec->gap, ROX_GAP_MOST);
		rec->due = rec->gap;
	} else {
		rec->drops = 0;
		rec->gap = max(rec->gap / 2, ROX_GAP_LEAST);
	}
}

void rox_recovery_progress(struct rox_qp *qp, u32 una)
{
	struct rox_recovery *rec = &qp->send.recovery;
	u64 took;

	rec->probes = 0;
	rec->waited = 0;
	if (unlikely(rec->pausing))
		rox_recovery_paused(qp, true);
	if (unlikely(rec->resent) && rox_psn_diff(una, rec->resent_to) >= 0)
		rox_recovery_answered(qp, una);
	if (!rec->timed_at || rox_psn_diff(una, rec->timed_psn) < 0)
		return;
	took = ktime_get_ns() - rec->timed_at;
	rec->round_trip = (7 * rec->round_trip + took) / 8;
	rec->timed_at = 0;
}

/* The time of a round trip is that of one packet at a time, and of none that was sent again. */
void rox_recovery_watch(struct rox_qp *qp, u64 now)
{
	struct rox_send *send = &qp->send;
	struct rox_recovery *rec = &send->recovery;

	if (rec->timed_at || rec->resent || send->psn != send->max_psn)
		return;
	rec->timed_at = now;
	rec->timed_psn = send->max_psn;
}
