// SPDX-License-Identifier: GPL-2.0
/*
 * Recovery towards a peer that keeps requests that come early (as resp_early.c does):
 * it needs what is missing, and nothing of what came behind it. Nobody says on the
 * wire that he is such a peer. It is learned: if after a NAK and the first packets of
 * the repetition an ACK comes for what has not been repeated yet, it had been kept.
 *
 * From then on a NAK is answered with some packets from the missing one on, while new
 * ones go on; the peer's next NAK is about the next gap. And the peer can be asked
 * with one packet how far it is, long before the ACK timeout, when the last packets
 * of all or a NAK seem to be lost (RFC 8985, 7 has that idea for TCP).
 *
 * If it turns out otherwise, all is repeated as for any peer, see retry.c.
 */
#include "internal.h"

/* Packets sent for a gap whose length is not known: at first, and at most. */
#define ROX_GAP_LEAST		4U
#define ROX_GAP_MOST		64U

/* Questions before the ACK timeout; each waits twice as long as the one before. */
#define ROX_PROBES		3

/* A question waits two round trips and this; a round trip is this until one is known. */
#define ROX_PROBE_NS		(2 * NSEC_PER_MSEC)

void rox_recovery_reset(struct rox_qp *qp)
{
	struct rox_recovery *rec = &qp->send.recovery;

	*rec = (struct rox_recovery) { .gap = ROX_GAP_LEAST, .round_trip = ROX_PROBE_NS };
}

/* Until it is seen again it is a peer as any other, if that has anything to do with it. */
void rox_recovery_rewound(struct rox_qp *qp, enum rox_retry_cause cause)
{
	struct rox_recovery *rec = &qp->send.recovery;

	rec->by_nak = cause == ROX_RETRY_SEQ_NAK;
	if (rec->by_nak || cause == ROX_RETRY_TIMEOUT)
		rec->keeps = false;
	rec->timed_at = 0;
}

/* How long a gap may be: twice as long if what was sent for it was not enough. */
static bool rox_gap_adapt(struct rox_qp *qp)
{
	struct rox_recovery *rec = &qp->send.recovery;

	if (rec->resent_to != qp->send.una)
		rec->gap = max(rec->gap / 2, ROX_GAP_LEAST);
	else if (rec->gap < ROX_GAP_MOST)
		rec->gap *= 2;
	else
		return false;
	return true;
}

bool rox_recovery_gap(struct rox_qp *qp)
{
	struct rox_send *send = &qp->send;
	struct rox_recovery *rec = &send->recovery;
	u32 sent;

	if (!rec->keeps || send->psn != send->max_psn || !rox_gap_adapt(qp))
		return false;
	sent = rox_resend(qp, rec->gap);
	rec->resent_to = rox_psn_add(send->una, sent);
	rec->timed_at = 0;
	send->deadline = 0;
	return sent;
}

u64 rox_recovery_wait(const struct rox_qp *qp, u64 timeout)
{
	const struct rox_recovery *rec = &qp->send.recovery;
	u64 wait = (2 * rec->round_trip + ROX_PROBE_NS) << rec->probes;

	return rec->keeps && rec->probes < ROX_PROBES ? min(wait, timeout) : timeout;
}

bool rox_recovery_probe(struct rox_qp *qp, u64 timeout)
{
	struct rox_send *send = &qp->send;
	struct rox_recovery *rec = &send->recovery;

	if (rox_recovery_wait(qp, timeout) == timeout || send->psn != send->max_psn)
		return false;
	rec->probes++;
	rec->timed_at = 0;
	return rox_resend(qp, 1);
}

/* ---- the time of a round trip: one packet at a time, never one that was repeated ---- */

void rox_recovery_watch(struct rox_qp *qp, u64 now)
{
	struct rox_send *send = &qp->send;
	struct rox_recovery *rec = &send->recovery;

	if (rec->timed_at || send->psn != send->max_psn)
		return;
	rec->timed_at = now;
	rec->timed_psn = send->max_psn;
}

void rox_recovery_progress(struct rox_qp *qp, u32 una)
{
	struct rox_send *send = &qp->send;
	struct rox_recovery *rec = &send->recovery;
	u64 took;

	rec->probes = 0;
	/* It has what is still to be repeated. */
	if (rec->by_nak && rox_psn_diff(una, send->psn) > 0)
		rec->keeps = true;
	if (!rec->timed_at || rox_psn_diff(una, rec->timed_psn) < 0)
		return;
	took = ktime_get_ns() - rec->timed_at;
	rec->round_trip = (7 * rec->round_trip + took) / 8;
	rec->timed_at = 0;
}
