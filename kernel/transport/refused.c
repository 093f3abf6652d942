// SPDX-License-Identifier: GPL-2.0
/*
 * What a queue of this host has refused counts as not sent.
 */
#include "internal.h"

/* How many requests of a READ, or of an ATOMIC, have the PSNs from @from to @to of the WQE? */
static u32 rox_requests_between(const struct rox_qp *qp, const struct rox_swqe *wqe, u32 from,
				u32 to)
{
	u32 chunk = rox_wqe_is_read(wqe) ? rox_read_chunk_pkts(qp) : 1;

	return DIV_ROUND_UP(to, chunk) - from / chunk;
}

/* Undoes what was sent of @wqe from @psn on. */
static void rox_unsend_wqe(struct rox_qp *qp, struct rox_swqe *wqe, u32 psn)
{
	u32 keep = max(rox_psn_diff(psn, wqe->first_psn), 0);

	if (wqe->sent <= keep)
		return;
	if (rox_wqe_is_answered(wqe))
		qp->send.rd_atomic -= min(rox_requests_between(qp, wqe, keep, wqe->sent),
					  qp->send.rd_atomic);
	wqe->sent = keep;
}

/*
 * A queue of this host has refused the packets from @psn on, and nothing was sent after them: the
 * next run continues at @psn, as if they had not been sent.
 */
static void rox_unsend(struct rox_qp *qp, u32 psn)
{
	struct rox_send *send = &qp->send;
	u32 i;

	if (rox_psn_diff(psn, send->una) < 0)
		psn = send->una;
	rox_send_iter_end(qp);
	for (i = send->cur; i != send->tail; i--) {
		if (i != qp->sq.index)
			rox_unsend_wqe(qp, rox_swqe_at(qp, i), psn);
		if (rox_psn_diff(rox_swqe_at(qp, i - 1)->first_psn +
				 rox_swqe_at(qp, i - 1)->npkts, psn) <= 0)
			break;
	}
	if (i != qp->sq.index)
		rox_unsend_wqe(qp, rox_swqe_at(qp, i), psn);
	send->cur = i;
	send->psn = psn;
	if (rox_psn_diff(send->max_psn, psn) > 0)
		send->max_psn = rox_psn_diff(send->run_max, psn) > 0 ? send->run_max : psn;
	if (rox_psn_diff(send->asked, psn) > 0)
		send->asked = send->una;
}

/*
 * rox_send_refused() - a queue of this host has refused packets: the side waits
 *
 * Runs in the send side.
 */
void rox_send_refused(struct rox_qp *qp)
{
	struct rox_sender *sender = &qp->send.side.sender;

	rox_cc_untime_from(qp, sender->refused_psn);
	if (rox_can_send(qp) && qp->send.tail != qp->sq.index)
		rox_unsend(qp, sender->refused_psn);
	rox_tx_wait(&qp->ep, sender);
}
