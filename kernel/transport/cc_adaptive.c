// SPDX-License-Identifier: GPL-2.0
/*
 * adaptive: a window that follows the round trip, CNPs and losses. It needs no help of the network.
 *
 * Alone it keeps the queue near a target delay, as Swift (SIGCOMM 2020) does: a constant increase
 * for each round trip, a decrease in proportion to the excess. HPCC needs telemetry of switches,
 * and BBR a model of the path's rate, which a host with unsteady CPUs measures badly; a delay needs
 * neither. While the queue is empty, the window grows by a sixteenth for each round trip, up to
 * the bandwidth-delay product of any path.
 *
 * The round trip has also the time in which the CPUs of the hosts do something else, which Swift
 * takes away by time stamps of adapters. No window makes that shorter, and a small one makes it
 * worse, as work is done for each burst. So the target is at least ROX_HOST_NS for a window that
 * hosts need, and less for a larger one. Where CPUs are taken away from hosts, as in virtual
 * machines, this is too little; but then round trips are unsteady, as those of a queue are not. So
 * their mean deviation allows more. And hosts come and go, but a queue stays: of three rounds the
 * least delay counts.
 *
 * A sender that fills the buffer, as TCP cubic does, would push such a flow aside. So the rules of
 * CUBIC (RFC 9438) hold when the delay stays high, until the queue has been empty for a second.
 *
 * Delay means something only if the round trip without queue is known. A flow that begins at a
 * full queue takes that for the path. So a flow trusts its minimum round trip only after the window
 * has grown to a multiple, or CUBIC's rules have gone through all their phases for a second, and
 * the round trip stayed the same, or where most losses came while it was short, which no full
 * buffer causes. Without trust, any loss is a sign of congestion (CUBIC's rules).
 * With trust, only one with a long queue is. Other losses are random, or the buffer is too short
 * to be seen: the window shrinks by twice the lost share. Below 3 % this is less than what it grows
 * by; and because growth has a constant part, equal losses lead to equal windows.
 *
 * Bursts are a part of the window, so that a short queue takes them. But where the round trip
 * without queue is shorter than what hosts are allowed, and there were no losses, CNPs or other
 * senders that fill the queue, a burst may be the window: it costs less. A queue of our own does
 * not change that. The window keeps it short and ACKs clock what follows, while the timers of a
 * pace come late where CPUs are busy.
 *
 * A CNP does not say how many packets were marked. The share of round trips with CNPs stands for
 * that in the rule of DCTCP (RFC 8257). Where CNPs come, the delay is not looked at.
 */
#include <linux/kernel.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/time64.h>

#include "cc.h"

/* First window: this many bytes and packets at least. */
#define ROX_FIRST_BYTES		(16U * 1024)
#define ROX_FIRST_PKTS		4U
/* If the window grows by this factor without a queue, there was none before. */
#define ROX_TRUST_PART		8U

/* Hosts may delay packets for so long, up to this window; with a larger one less, in proportion. */
#define ROX_HOST_WINDOW		(512U * 1024)
#define ROX_HOST_NS		(2 * (u32)NSEC_PER_MSEC)
/* So many mean deviations of the round trip more, each up to this. */
#define ROX_UNSTEADY_TIMES	3U
#define ROX_UNSTEADY_NS		(2 * (u32)NSEC_PER_MSEC)

/* Maximum of the part of these delays that depends on the path's round trip. */
#define ROX_TARGET_PART		(3 * (u32)NSEC_PER_MSEC)

/* Likewise for the delay up to which the queue is taken for empty. */
#define ROX_EMPTY_PART		((u32)NSEC_PER_MSEC / 2)

/* Increase for each round: a packet, and one for each 4 ms of the path without queue; at most 8. */
#define ROX_STEP_NS		(4 * NSEC_PER_MSEC)
#define ROX_STEP_MOST		8U

/* After this many rounds without congestion the window grows by 1/16 for each round. */
#define ROX_LOW_ROUNDS		5
#define ROX_GROW_PART		16U

/* A decrease because of delay or lost packets takes at most 1/4. */
#define ROX_SHRINK_PART		4U

/*
 * Bursts are this part of the window in the first round, where the path is long or shared, and
 * after CNPs and losses; for so many rounds.
 */
#define ROX_BURST_PART		4U
#define ROX_EVEN_SHARED		5
#define ROX_EVEN_LOST		100

/* Rounds with a long queue after which CUBIC's rules hold. */
#define ROX_HIGH_ROUNDS		8

/* CUBIC: decrease to 0.7; Reno's increase is then 3 * 0.3 / 1.7 packets for each round. */
#define ROX_CUBIC_BETA(w)	((u32)((u64)(w) * 7 / 10))
#define ROX_CUBIC_RENO(mtu)	((mtu) * 9 / 17)
/* CUBIC: limits the cube of a time in ms. */
#define ROX_CUBIC_MS_MAX	100000

/* For this many rounds after a CNP the delay is not looked at. */
#define ROX_MARKED_ROUNDS	100

/* Alpha of DCTCP is a fraction of this; weight of a new round. */
#define ROX_ALPHA_ONE		1024U
#define ROX_ALPHA_WEIGHT	16U

/* The queue is taken for empty when the round trip has been at its minimum for this time. */
#define ROX_QUIET_NS		((u64)NSEC_PER_SEC)
#define ROX_QUIET_ROUNDS	32

/*
 * Losses are random if so many rounds had some without a queue, each less than this share in
 * 1/1024, and not half as many with a queue.
 */
#define ROX_STRAY_ROUNDS	12
#define ROX_STRAY_SHARE		96

/* Under CUBIC's rules the path's round trip is measured again after 10 s, in units of 2^20 ns. */
#define ROX_BASE_SHIFT		20
#define ROX_BASE_AGE		((u32)(10 * (u64)NSEC_PER_SEC >> ROX_BASE_SHIFT))

/* A flow that was idle for this time and four round trips begins anew. */
#define ROX_IDLE_NS		((u64)NSEC_PER_SEC)

/* Longer round trips are taken for this, shorter ones for the minimum. */
#define ROX_ROUND_TRIP_MAX	(4 * (u64)NSEC_PER_SEC)
#define ROX_ROUND_TRIP_MIN	1000U

/* Delays of earlier rounds are kept in such units. */
#define ROX_DELAY_SHIFT		16

static u32 rox_adaptive_first(const struct rox_cc *cc)
{
	return max(ROX_FIRST_BYTES, ROX_FIRST_PKTS * cc->mtu);
}

/* What is allowed for hosts that delay packets by @ns at most, or what the user has set. */
static u32 rox_adaptive_fixed(const struct rox_cc_link *link, const struct rox_cc *cc, u32 ns)
{
	u32 set = link->params.target_delay * (u32)NSEC_PER_USEC;

	return max(set, div_u64((u64)ns * ROX_HOST_WINDOW, max(cc->window, ROX_HOST_WINDOW)));
}

static u32 rox_adaptive_target(const struct rox_cc_link *link, const struct rox_cc *cc)
{
	u32 unsteady = min(cc->adaptive.deviation, ROX_UNSTEADY_NS) * ROX_UNSTEADY_TIMES;

	return min(cc->adaptive.base / 4, ROX_TARGET_PART) +
	       rox_adaptive_fixed(link, cc, ROX_HOST_NS + unsteady);
}

/* Up to this delay the queue is taken for empty. */
static u32 rox_adaptive_empty(const struct rox_cc_link *link, const struct rox_cc *cc)
{
	return min(cc->adaptive.base / 16, ROX_EMPTY_PART) +
	       rox_adaptive_fixed(link, cc, ROX_HOST_NS) / 4;
}

/* Return: the least delay of three rounds. */
static u32 rox_adaptive_standing(const struct rox_cc_adaptive *a)
{
	u32 before = min(a->delays[0], a->delays[1]);

	return min(a->delay, before << ROX_DELAY_SHIFT);
}

/* Longer than rox alone would let the queue become. */
static bool rox_adaptive_long(const struct rox_cc_adaptive *a, u32 target)
{
	return rox_adaptive_standing(a) > target + target / 2;
}

static void rox_adaptive_set(struct rox_cc *cc, u64 window)
{
	cc->window = clamp_t(u64, window, cc->mtu, ROX_CC_WINDOW_MAX);
	cc->burst = cc->adaptive.even ? cc->window / ROX_BURST_PART : cc->window;
}

/* Bursts are a part of the window for @rounds. */
static void rox_adaptive_even(struct rox_cc *cc, u8 rounds)
{
	cc->adaptive.even = max(cc->adaptive.even, rounds);
	rox_adaptive_set(cc, cc->window);
}

/*
 * The pace is somewhat faster than one window for each round trip, so that the window is used.
 * Where a burst may be the whole window there is nothing to pace.
 */
static void rox_adaptive_pace(const struct rox_cc_link *link, struct rox_cc *cc)
{
	struct rox_cc_adaptive *a = &cc->adaptive;
	u64 bytes = a->slow_start ? 2ULL * cc->window : cc->window + cc->window / 4;

	if (!a->even)
		cc->rate = link->line_rate;
	else
		cc->rate = clamp_t(u64, div_u64(bytes * NSEC_PER_SEC, a->srtt), 1000,
				   link->line_rate);
}

/* ---- CUBIC ---- */

/* Return: the largest integer whose cube is not above @n. */
static u32 rox_cube_root(u64 n)
{
	u64 root = 0;
	int bit;

	for (bit = 20; bit >= 0; bit--) {
		u64 next = root | 1ULL << bit;

		if (next * next * next <= n)
			root = next;
	}
	return root;
}

/* A reduction: the window grows back to @from, and then beyond. */
static void rox_cubic_begin(struct rox_cc *cc, u32 from, u64 now)
{
	struct rox_cc_adaptive *a = &cc->adaptive;

	/* A flow below its last maximum leaves room to others (fast convergence). */
	a->w_max = a->shares && from < a->w_max ? from - (from - ROX_CUBIC_BETA(from)) / 2 : from;
	rox_adaptive_set(cc, ROX_CUBIC_BETA(from));
	a->w_est = cc->window;
	a->epoch_at = now;
	a->slow_start = false;
	a->trusted = false;
	a->shares = true;
}

/* The window that CUBIC has @ns after the reduction. */
static u64 rox_cubic_window(const struct rox_cc *cc, u64 ns)
{
	const struct rox_cc_adaptive *a = &cc->adaptive;
	u32 pkts = a->w_max / cc->mtu + 1;
	s64 ms = min_t(u64, div_u64(ns, NSEC_PER_MSEC), ROX_CUBIC_MS_MAX);
	/* K is the cube root of W_max * 0.3 / 0.4, in seconds. */
	s64 diff = ms - rox_cube_root(pkts * 750000000ULL);
	u64 cube = abs(diff) * abs(diff) * abs(diff);
	u64 bytes = div_u64(cube * 2 / 5, NSEC_PER_SEC) * cc->mtu;

	if (diff >= 0)
		return a->w_max + bytes;
	return a->w_max > bytes ? a->w_max - bytes : 0;
}

/* One round of growth. */
static void rox_cubic_grow(struct rox_cc *cc, u64 now)
{
	struct rox_cc_adaptive *a = &cc->adaptive;
	u64 window = rox_cubic_window(cc, now - a->epoch_at + a->srtt);

	a->w_est = min(a->w_est + (a->w_est < a->w_max ? ROX_CUBIC_RENO(cc->mtu) : cc->mtu),
		       ROX_CC_WINDOW_MAX);
	window = max_t(u64, window, a->w_est);
	rox_adaptive_set(cc, clamp_t(u64, window, cc->window, cc->window + cc->window / 2));
}

/* ---- rounds ---- */

static void rox_adaptive_new_round(struct rox_cc_adaptive *a, u64 now)
{
	a->round_at = now;
	a->round_min = U32_MAX;
	a->round_acked = 0;
	a->round_lost = 0;
	a->limited = false;
	a->cnp = false;
}

/* Return: lost share of the round, in 1/1024. */
static u32 rox_adaptive_lost(const struct rox_cc_adaptive *a)
{
	return div_u64((u64)a->round_lost * 1024, max(a->round_acked + a->round_lost, 1U));
}

/*
 * Slow start has gone too far: the window becomes what was acknowledged in the round's time, for a
 * round trip without queue.
 */
static void rox_adaptive_leave(struct rox_cc *cc, u64 now)
{
	struct rox_cc_adaptive *a = &cc->adaptive;
	u64 took = max_t(u64, now - a->round_at, a->srtt);
	u64 fits = div64_u64((u64)a->round_acked * a->base, took);

	a->slow_start = false;
	rox_adaptive_set(cc, clamp_t(u64, fits, cc->window / 4, cc->window));
}

/* Too much delay: takes away half of the excess, which is our share of the queue. */
static void rox_adaptive_too_long(struct rox_cc *cc, u32 delay, u32 target)
{
	struct rox_cc_adaptive *a = &cc->adaptive;
	u64 less = div64_u64((u64)cc->window * (delay - target), (u64)a->base + delay) / 2;

	if (!a->high)
		a->w_max = cc->window;
	rox_adaptive_set(cc, cc->window - min_t(u64, less, cc->window / ROX_SHRINK_PART));
}

static void rox_adaptive_grow(struct rox_cc *cc)
{
	struct rox_cc_adaptive *a = &cc->adaptive;
	u64 step = min_t(u64, 1 + div_u64(a->base, ROX_STEP_NS), ROX_STEP_MOST) * cc->mtu;

	if (a->trusted && a->low >= ROX_LOW_ROUNDS)
		step += cc->window / ROX_GROW_PART;
	rox_adaptive_set(cc, (u64)cc->window + step);
}

static void rox_adaptive_marked(struct rox_cc *cc)
{
	struct rox_cc_adaptive *a = &cc->adaptive;

	rox_adaptive_set(cc, cc->window - (u64)cc->window * a->alpha / (2 * ROX_ALPHA_ONE));
	a->shares = false;
}

/* Lost packets that say nothing about the queue. */
static void rox_adaptive_lossy(struct rox_cc *cc, u32 lost)
{
	u64 less = (u64)cc->window * lost / 512;

	rox_adaptive_set(cc, cc->window - min_t(u64, less, cc->window / ROX_SHRINK_PART));
}

/* What delay, CNPs and losses of the round do to the window. */
static void rox_adaptive_react(struct rox_cc *cc, u32 target, u64 now)
{
	struct rox_cc_adaptive *a = &cc->adaptive;
	u32 lost = rox_adaptive_lost(a), delay = rox_adaptive_standing(a);

	if (lost && (!a->trusted || (a->high && rox_adaptive_long(a, target)))) {
		rox_cubic_begin(cc, cc->window, now);
		return;
	}
	if (lost)
		rox_adaptive_lossy(cc, lost);
	if (a->cnp)
		rox_adaptive_marked(cc);
	else if (a->shares && a->limited)
		rox_cubic_grow(cc, now);
	else if (!a->shares && !a->marked && delay > target)
		rox_adaptive_too_long(cc, delay, target);
	if (!a->shares && !a->cnp && a->limited && !a->slow_start)
		rox_adaptive_grow(cc);
}

/* Do losses come without a queue? Where many are lost, it may be too short to be seen. */
static void rox_adaptive_stray(struct rox_cc_adaptive *a, u32 empty)
{
	if (a->cnp)
		a->stray = 0;
	else if (a->round_lost && rox_adaptive_standing(a) > empty)
		a->stray -= min(a->stray, 2);
	else if (a->round_lost && rox_adaptive_lost(a) < ROX_STRAY_SHARE)
		a->stray = min(a->stray + 1, ROX_STRAY_ROUNDS);
}

/* Rounds in a row that were good or bad. */
static void rox_adaptive_count(struct rox_cc_adaptive *a, u32 target, u32 empty, u64 now)
{
	/* Where the network marks, its marks say more than the delay. */
	if (a->cnp)
		a->marked = ROX_MARKED_ROUNDS;
	else if (a->marked)
		a->marked--;
	a->high = !a->marked && rox_adaptive_long(a, target) ? min(a->high + 1, U8_MAX) : 0;
	/* A packet that waits for a lost one says nothing of the queue. */
	if (a->delay > empty && a->round_lost)
		return;
	a->low = a->delay <= empty && !a->cnp ? min(a->low + 1, U8_MAX) : 0;
	if (a->delay > empty)
		a->quiet_at = now;
}

/* How long bursts may be. */
static void rox_adaptive_bursts(const struct rox_cc_link *link, struct rox_cc *cc)
{
	struct rox_cc_adaptive *a = &cc->adaptive;

	if (a->even)
		a->even--;
	if (a->cnp || a->round_lost)
		rox_adaptive_even(cc, ROX_EVEN_LOST);
	else if (a->shares || a->base > rox_adaptive_fixed(link, cc, ROX_HOST_NS))
		rox_adaptive_even(cc, ROX_EVEN_SHARED);
	else
		rox_adaptive_set(cc, cc->window);
}

/* Is the round trip without queue known? Does another sender keep the queue full? */
static void rox_adaptive_judge(struct rox_cc *cc, u64 now)
{
	struct rox_cc_adaptive *a = &cc->adaptive;
	u32 at = now >> ROX_BASE_SHIFT;

	if (!a->shares && a->high >= ROX_HIGH_ROUNDS) {
		a->stray = 0;
		rox_cubic_begin(cc, max(a->w_max, cc->window), now);
	} else if (a->stray >= ROX_STRAY_ROUNDS ||
		   (a->low >= ROX_QUIET_ROUNDS && now - a->quiet_at > ROX_QUIET_NS)) {
		a->trusted = true;
		a->shares = false;
	}
	if (at - a->base_at < ROX_BASE_AGE)
		return;
	/* The path may have become longer. */
	if (a->shares)
		a->base = a->base_new;
	a->base_new = U32_MAX;
	a->base_at = at;
}

static void rox_adaptive_round(const struct rox_cc_link *link, struct rox_cc *cc, u64 now)
{
	struct rox_cc_adaptive *a = &cc->adaptive;
	u32 target = rox_adaptive_target(link, cc), empty = rox_adaptive_empty(link, cc);

	a->delays[1] = a->delays[0];
	a->delays[0] = a->delay >> ROX_DELAY_SHIFT;
	if (a->round_min != U32_MAX)
		a->delay = a->round_min - a->base;
	a->alpha -= a->alpha / ROX_ALPHA_WEIGHT;
	if (a->cnp)
		a->alpha += ROX_ALPHA_ONE / ROX_ALPHA_WEIGHT;
	/* The window could grow without delay, so there was no queue before. */
	if (a->slow_start && a->delay <= empty &&
	    cc->window >= ROX_TRUST_PART * rox_adaptive_first(cc))
		a->trusted = true;
	if (a->slow_start && a->delay > target / 2)
		rox_adaptive_leave(cc, now);
	rox_adaptive_react(cc, target, now);
	rox_adaptive_stray(a, empty);
	rox_adaptive_count(a, target, empty, now);
	rox_adaptive_judge(cc, now);
	rox_adaptive_bursts(link, cc);
	rox_adaptive_new_round(a, now);
}

/* Is a round over that took @ns? Where packets are lost, none may have been timed. */
static bool rox_adaptive_over(const struct rox_cc_adaptive *a, u64 ns)
{
	return a->round_min != U32_MAX ? ns >= a->srtt : a->round_lost && ns >= 2ULL * a->srtt;
}

/* ---- events ---- */

static void rox_adaptive_measure(struct rox_cc_adaptive *a, u64 round_trip)
{
	u32 ns = clamp_t(u64, round_trip, ROX_ROUND_TRIP_MIN, ROX_ROUND_TRIP_MAX);
	u32 off;

	if (ns < a->base) {
		a->trusted = a->trusted && a->base - ns < a->base / 16;
		a->base = ns;
	}
	a->base_new = min(a->base_new, ns);
	a->round_min = min(a->round_min, ns);
	if (!a->srtt)
		a->srtt = ns;
	off = max(ns, a->srtt) - min(ns, a->srtt);
	a->deviation = ((u64)a->deviation * 7 + off) / 8;
	a->srtt = ((u64)a->srtt * 7 + ns) / 8;
}

static void rox_adaptive_acked(const struct rox_cc_link *link, struct rox_cc *cc,
			       const struct rox_cc_ack *ack, u64 now)
{
	struct rox_cc_adaptive *a = &cc->adaptive;

	a->acked_at = now;
	a->round_acked += min(ack->bytes, ROX_CC_WINDOW_MAX);
	if (ack->in_flight >= cc->window / 2)
		a->limited = true;
	if (ack->round_trip)
		rox_adaptive_measure(a, ack->round_trip);
	if (a->slow_start && a->limited)
		rox_adaptive_set(cc, (u64)cc->window + ack->bytes);
	if (!a->srtt)
		return;
	if (rox_adaptive_over(a, now - a->round_at))
		rox_adaptive_round(link, cc, now);
	rox_adaptive_pace(link, cc);
}

static void rox_adaptive_cnp(const struct rox_cc_link *link, struct rox_cc *cc, u64 now)
{
	struct rox_cc_adaptive *a = &cc->adaptive;

	if (a->slow_start)
		rox_adaptive_set(cc, cc->window / 2);
	a->slow_start = false;
	a->cnp = true;
	rox_adaptive_even(cc, ROX_EVEN_LOST);
}

static void rox_adaptive_loss(const struct rox_cc_link *link, struct rox_cc *cc, u32 bytes, u64 now)
{
	struct rox_cc_adaptive *a = &cc->adaptive;

	a->round_lost = min(a->round_lost + min(bytes, ROX_CC_WINDOW_MAX), ROX_CC_WINDOW_MAX);
	rox_adaptive_even(cc, ROX_EVEN_LOST);
	if (!a->slow_start)
		return;
	if (!a->srtt) {
		/* The buffer is so short that no packet of the first window has been timed. */
		a->slow_start = false;
		rox_adaptive_set(cc, cc->window / 2);
	} else if (rox_adaptive_lost(a) > 1024 / 8) {
		rox_adaptive_leave(cc, now);
	}
}

static void rox_adaptive_timeout(const struct rox_cc_link *link, struct rox_cc *cc, u64 now)
{
	struct rox_cc_adaptive *a = &cc->adaptive;

	a->slow_start = false;
	rox_adaptive_set(cc, cc->window / 2);
	rox_adaptive_even(cc, ROX_EVEN_LOST);
	rox_adaptive_new_round(a, now);
}

static void rox_adaptive_sent(const struct rox_cc_link *link, struct rox_cc *cc, u32 bytes, u64 now)
{
	struct rox_cc_adaptive *a = &cc->adaptive;

	if (now - a->acked_at < ROX_IDLE_NS + 4ULL * a->srtt)
		return;
	a->acked_at = now;
	a->slow_start = true;
	rox_adaptive_set(cc, min(cc->window, rox_adaptive_first(cc)));
	rox_adaptive_new_round(a, now);
}

static void rox_adaptive_init(const struct rox_cc_link *link, struct rox_cc *cc, u64 now)
{
	struct rox_cc_adaptive *a = &cc->adaptive;

	a->base = U32_MAX;
	a->base_new = U32_MAX;
	a->base_at = now >> ROX_BASE_SHIFT;
	a->quiet_at = now;
	a->acked_at = now;
	a->alpha = ROX_ALPHA_ONE;
	a->slow_start = true;
	a->even = 1;
	rox_adaptive_set(cc, rox_adaptive_first(cc));
	rox_adaptive_new_round(a, now);
}

const struct rox_cc_ops rox_cc_adaptive = {
	.name = "adaptive",
	.ect = true,
	.init = rox_adaptive_init,
	.acked = rox_adaptive_acked,
	.sent = rox_adaptive_sent,
	.cnp = rox_adaptive_cnp,
	.loss = rox_adaptive_loss,
	.timeout = rox_adaptive_timeout,
};
