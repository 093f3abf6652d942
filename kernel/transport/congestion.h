/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Between the send side of a QP and its congestion control algorithm (cc.h). When a connection
 * becomes ready to send, it gets the algorithm that its device has for its DSCP, or for all. With
 * `none` the window is fixed, and no clock is read.
 *
 * rox_cc_room() says how many packets a send side may send. That is what the algorithm's window
 * allows, except after an ACK timeout or repeated RNR NAKs: then it is a few packets, and grows
 * again with ACKs. If the peer drops early requests, each lost packet costs all that is in flight
 * behind it. So each of its NAKs halves the window, which then grows by one packet for each window
 * that is acknowledged.
 *
 * rox_cc_may_send() says whether the rate allows more. The clock is not read for each burst: the
 * flow gets a quota of bytes, pays for it at once, and asks again when it has been sent, or when
 * what is left would make two bursts of one.
 */
#ifndef ROX_TRANSPORT_CONGESTION_H
#define ROX_TRANSPORT_CONGESTION_H

#include "transport.h"

/* Packets in flight after an ACK timeout or RNR NAKs: enough to learn what has arrived. */
#define ROX_WINDOW_PROBE	4U
/* NAKs of a peer that drops early requests do not make the window smaller than this. */
#define ROX_WINDOW_GO_BACK	16U

/* A READ is requested in pieces of this size, so that the requester paces the responses. */
#define ROX_READ_CHUNK		(128U * 1024)
/* READs request up to this part of a window more than the window. */
#define ROX_READS_PART		8U

/* congestion.c; the caller has the lock of the send side */
/* For a new QP. Process context. */
void rox_cc_setup(struct rox_qp *qp);
/* The connection begins. */
void rox_cc_begin(struct rox_qp *qp);
/* The rest of rox_cc_acked(), _charge(), _may_send() and _time() where there is an algorithm. */
void rox_cc_feed(struct rox_qp *qp, u32 pkts);
void rox_cc_overdraw(struct rox_qp *qp, u32 bytes);
bool rox_cc_ask(struct rox_qp *qp);
u32 rox_cc_share(struct rox_qp *qp, u32 pkts);
bool rox_cc_time_new(struct rox_qp *qp, u32 first, u32 end);
/* A CNP came. */
void rox_cc_cnp(struct rox_qp *qp);
/* A sequence NAK came, before what it asks for is sent again. */
void rox_cc_nak(struct rox_qp *qp);
/* The peer lacks @pkts packets, which are sent again. */
void rox_cc_lost(struct rox_qp *qp, u32 pkts);
/* Return: how many packets may be sent again at once. */
u32 rox_cc_resends(const struct rox_qp *qp);
/* An ACK timeout. RNR NAKs, unlike this, are no sign of congestion. */
void rox_cc_timeout(struct rox_qp *qp);

/*
 * Return: packets that the algorithm allows in flight. A part of a packet counts as one, and the
 * rate says how often it is sent. Otherwise of flows with less than two packets some would have
 * one and some two, and so half and twice the rate of each other.
 */
static inline u32 rox_window_max(const struct rox_qp *qp)
{
	return DIV_ROUND_UP(qp->send.cc.flow.window, qp->mtu);
}

/* @pkts more packets were acknowledged. */
static inline void rox_cc_acked(struct rox_qp *qp, u32 pkts)
{
	struct rox_congestion *cc = &qp->send.cc;

	if (unlikely(cc->active))
		rox_cc_feed(qp, pkts);
	if (unlikely(cc->cautious) && cc->window >= ROX_WINDOW_GO_BACK) {
		cc->acked += pkts;
		if (cc->acked < cc->window)
			return;
		cc->acked -= cc->window;
		pkts = 1;
	}
	cc->window = min(cc->window + pkts, rox_window_max(qp));
}

/* A sequence NAK of a peer that is not known to store early requests. */
static inline void rox_cc_go_back(struct rox_qp *qp)
{
	struct rox_congestion *cc = &qp->send.cc;

	cc->cautious = true;
	cc->acked = 0;
	cc->window = max(cc->window / 2, min(cc->window, ROX_WINDOW_GO_BACK));
}

/* The peer stores early requests. */
static inline void rox_cc_trusts(struct rox_qp *qp)
{
	qp->send.cc.cautious = false;
}

/* After an ACK timeout or repeated RNR NAKs: allows only a few packets. */
static inline void rox_cc_probe(struct rox_qp *qp)
{
	qp->send.cc.window = min(ROX_WINDOW_PROBE, rox_window_max(qp));
}

/* Return: packets that may be sent. */
static inline u32 rox_cc_room(const struct rox_qp *qp)
{
	u32 used = rox_psn_diff(qp->send.psn, qp->send.una);
	u32 window = qp->send.cc.window + qp->send.cc.extra;

	return used < window ? window - used : 0;
}

static inline u32 rox_read_chunk_pkts(const struct rox_qp *qp)
{
	return max(1U, ROX_READ_CHUNK / qp->mtu);
}

/*
 * Return: packets that READs may request. When they have requested a window and some more, they
 * wait until there is as much room below it. So several requests go together, and their responses
 * come together: fewer frames, as the last packet of one READ and the first of the next share one.
 */
static inline u32 rox_cc_read_room(struct rox_qp *qp)
{
	struct rox_congestion *cc = &qp->send.cc;
	u32 used = rox_psn_diff(qp->send.psn, qp->send.una);
	u32 window = cc->window + cc->extra;
	u32 some = min(window / ROX_READS_PART, rox_read_chunk_pkts(qp));

	if (used >= window + some)
		cc->reads_wait = true;
	else if (!used || used + some <= window)
		cc->reads_wait = false;
	return cc->reads_wait ? 0 : window + some - used;
}

/*
 * Does the rate allow a packet now? If not, the side's run is over, and the pacer runs the side
 * again.
 */
static inline bool rox_cc_may_send(struct rox_qp *qp)
{
	return likely(!qp->send.cc.active) || qp->send.cc.quota >= qp->mtu || rox_cc_ask(qp);
}

/* After rox_cc_may_send(). Return: @pkts, or what the quota allows if that is less. */
static inline u32 rox_cc_most(struct rox_qp *qp, u32 pkts)
{
	return likely(!qp->send.cc.active) || pkts == 1 ? pkts : rox_cc_share(qp, pkts);
}

/* Does the algorithm limit the rate to less than the link's? */
static inline bool rox_cc_is_paced(const struct rox_qp *qp)
{
	const struct rox_cc *flow = &qp->send.cc.flow;

	return qp->send.cc.active && flow->rate && flow->rate < qp->dev->cc.line_rate;
}

/*
 * Will the flow wait after @bytes more? Then it asks for an ACK: what is sent after the wait may be
 * too late to ask for it.
 */
static inline bool rox_cc_will_wait(const struct rox_qp *qp, u32 bytes)
{
	const struct rox_congestion *cc = &qp->send.cc;

	return unlikely(cc->active) && cc->flow.rate && cc->quota < bytes + qp->mtu;
}

/* Takes payload that was sent, or that a READ asks for, off the quota. */
static inline void rox_cc_charge(struct rox_qp *qp, u32 bytes)
{
	struct rox_congestion *cc = &qp->send.cc;

	if (likely(!cc->active))
		return;
	if (likely(bytes <= cc->quota))
		cc->quota -= bytes;
	else
		rox_cc_overdraw(qp, bytes);
}

/*
 * A request that is about to be sent, with the PSN @first, is answered by an ACK of up to @end.
 * Return: true if its round trip is measured.
 */
static inline bool rox_cc_time(struct rox_qp *qp, u32 first, u32 end)
{
	return unlikely(qp->send.cc.active) && rox_cc_time_new(qp, first, end);
}

/* The round trip that is measured may be that of a packet that was sent twice. */
static inline void rox_cc_untime(struct rox_qp *qp)
{
	qp->send.cc.timed_at = 0;
}

/* Packets from @psn on were not sent after all. */
static inline void rox_cc_untime_from(struct rox_qp *qp, u32 psn)
{
	if (rox_psn_diff(qp->send.cc.timed_psn, psn) > 0)
		rox_cc_untime(qp);
}

#endif /* ROX_TRANSPORT_CONGESTION_H */
