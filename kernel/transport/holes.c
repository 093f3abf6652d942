// SPDX-License-Identifier: GPL-2.0
/*
 * Responses that are missing although later ones have come. A responder answers requests in their
 * order (IBTA volume 1, 9.7.6.1), so the network has lost them, or has changed their order. What
 * has come is kept until its turn (early.c). Only what is missing is requested again: an ATOMIC, or
 * the rest of a piece of a READ from the first missing packet on. For the responder such a request
 * is a duplicate. New requests go on meanwhile.
 *
 * Nothing is requested before the frames of a run are processed, because the missing response may
 * be among them. Then all holes before the newest packet are filled at once. A response to such a
 * request has a smaller PSN than the newest packet. If una is still missing when one comes, the
 * response una was lost again.
 *
 * Memory for the data may be missing, because pages on demand were taken away. Then the response
 * counts as lost and the requester goes back to it (rox_retry_again()); the others stay.
 */
#include "internal.h"

void rox_holes_reset(struct rox_qp *qp)
{
	memset(&qp->send.holes, 0, sizeof(qp->send.holes));
}

void rox_holes_rewound(struct rox_qp *qp)
{
	struct rox_holes *holes = &qp->send.holes;

	holes->asked = true;
	holes->asked_to = qp->send.max_psn;
	holes->again = false;
	holes->more = false;
}

void rox_holes_note(struct rox_qp *qp, const struct rox_pkt *pkt, u32 executed)
{
	struct rox_holes *holes = &qp->send.holes;
	u32 newest = rox_psn_add(executed, 1);
	s32 ahead = rox_psn_diff(newest, holes->newest);

	if (!holes->executed || rox_psn_diff(executed, holes->executed_psn) > 0)
		holes->executed_psn = executed;
	if (!holes->executed || ahead > 1) {
		holes->more = true;
	} else if (ahead <= 0 && pkt->info->kind != ROX_KIND_ACK) {
		holes->again = true;
		holes->again_at = qp->send.una;
	}
	holes->executed = true;
	holes->newest = newest;
}

void rox_holes_keep(struct rox_qp *qp, const struct rox_pkt *pkt, u32 index)
{
	struct rox_send *send = &qp->send;

	if ((pkt->info->kind != ROX_KIND_READ_RESP && pkt->info->kind != ROX_KIND_ATOMIC_ACK) ||
	    rox_psn_diff(pkt->bth.psn, send->una) <= 0 ||
	    rox_psn_diff(pkt->bth.psn, send->max_psn) >= 0)
		return;
	/* The mark counts at once, as the peer is told of it at once. */
	if (unlikely(READ_ONCE(qp->ep.marked)))
		send->cc.read_marked = true;
	rox_early_keep(qp, &send->early, send->una, pkt, index);
}

/*
 * Requests the response @psn of @wqe again, with the rest of its piece.
 * Return: PSN after what was requested.
 */
static u32 rox_holes_ask(struct rox_qp *qp, struct rox_swqe *wqe, u32 index, u32 psn)
{
	u32 from = (psn - wqe->first_psn) & ROX_PSN_MASK, sent = wqe->sent;
	u32 rd_atomic = qp->send.rd_atomic, n = 0;

	wqe->sent = from;
	if (!rox_xmit_answered(qp, wqe, index, 0))
		n = wqe->sent - from;
	wqe->sent = sent;
	/* The first request counts until its response has come. */
	qp->send.rd_atomic = rd_atomic;
	rox_qp_count_add(qp, ROX_CNT_RETRANS_PKTS, n);
	return rox_psn_add(psn, n);
}

u32 rox_holes_fill(struct rox_qp *qp, u32 from, u32 to)
{
	struct rox_send *send = &qp->send;
	struct rox_swqe *wqe;
	u32 i, psn, end, n = 0;

	/* What a queue of this host has refused was not requested. */
	if (rox_psn_diff(to, send->psn) >= 0)
		to = rox_psn_add(send->psn, ROX_PSN_MASK);
	rox_send_iter_end(qp);
	send->resending = true;
	psn = rox_early_next_gap(&send->early, from);
	for (i = send->tail; i != qp->sq.index && rox_psn_diff(psn, to) <= 0;) {
		wqe = rox_swqe_at(qp, i);
		end = rox_psn_add(wqe->first_psn, wqe->npkts);
		if (rox_psn_diff(psn, end) >= 0) {
			i++;
			continue;
		}
		if (rox_wqe_is_answered(wqe)) {
			if (wqe->status || n == ROX_RUN_BURSTS)
				break;
			end = rox_holes_ask(qp, wqe, i, psn);
			if (end == psn)
				break;
			n++;
		}
		psn = rox_early_next_gap(&send->early, end);
	}
	send->resending = false;
	rox_send_iter_end(qp);
	if (n && (!send->holes.asked || rox_psn_diff(psn, send->holes.asked_to) > 0))
		send->holes.asked_to = psn;
	send->holes.asked |= n;
	return n;
}

/* The response una is requested again, and all that is missing up to @to. */
static void rox_holes_fill_all(struct rox_qp *qp, u32 to)
{
	struct rox_send *send = &qp->send;

	rox_qp_count(qp, ROX_CNT_IMPLIED_NAK_SEQ_ERR);
	if (!rox_retry_pays(qp, ROX_RETRY_RESPONSE))
		return;
	rox_cc_lost(qp, 1);
	rox_cc_untime(qp);
	/* Go-back-N may be under way, or it takes over, as no request could be sent. */
	if (send->psn == send->max_psn && rox_holes_fill(qp, send->una, to))
		rox_timer_clear(qp);
	else
		rox_retry_again(qp);
}

void rox_holes_settle(struct rox_qp *qp)
{
	struct rox_send *send = &qp->send;
	struct rox_holes *holes = &send->holes;
	bool again = holes->again && holes->again_at == send->una, more = holes->more;

	/* Not later: PSNs start again at 0. */
	if (rox_psn_diff(send->una, holes->asked_to) >= 0)
		holes->asked = false;
	/* What is kept and due is processed in the next run. */
	if (!holes->executed || rox_send_pauses(qp) || rox_response_due(qp))
		return;
	holes->again = false;
	holes->more = false;
	if (!holes->asked) {
		rox_holes_fill_all(qp, holes->executed_psn);
	} else if (again) {
		rox_holes_fill_all(qp, rox_psn_add(holes->newest, ROX_PSN_MASK));
	} else if (more && send->psn == send->max_psn &&
		   rox_holes_fill(qp, holes->asked_to, holes->executed_psn)) {
		rox_cc_lost(qp, 1);
		rox_cc_untime(qp);
	}
}
