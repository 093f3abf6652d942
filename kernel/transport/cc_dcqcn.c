// SPDX-License-Identifier: GPL-2.0
/*
 * DCQCN's reaction point (Zhu et al., "Congestion Control for Large-Scale RDMA Deployments",
 * SIGCOMM 2015, section 3.1). It needs a network that marks with ECN and a peer that sends CNPs.
 *
 * The sender begins at the rate of the line. A CNP reduces the rate by a factor that depends on
 * alpha, the estimate of congestion. A timer and a byte counter increase it: first half of the way
 * back to the rate before the CNP (fast recovery), later by constant steps (additive increase), and
 * by growing ones when timer and byte counter have both come far (hyper increase).
 *
 * Both timers are evaluated when the flow is looked at. Their periods follow each other without a
 * gap, however late that is. Losses change nothing, as with adapters; an ACK timeout counts as a
 * CNP, because CNPs were perhaps lost as well.
 */
#include <linux/compiler.h>
#include <linux/kernel.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/time64.h>

#include "cc.h"

#define ROX_ALPHA_SHIFT	16
#define ROX_ALPHA_ONE	65536U
/* Parameters have this many bits of fraction. */
#define ROX_PARAM_SHIFT	10

/* Increases by the timer that are computed one by one; of more the sum is taken. */
#define ROX_TIMER_STEPS	64

static u64 rox_dcqcn_max(const struct rox_cc_link *link)
{
	u64 most = (u64)link->params.rpg_max_rate * ROX_CC_MBIT;

	return most ? min(most, link->line_rate) : link->line_rate;
}

static u64 rox_dcqcn_min(const struct rox_cc_link *link)
{
	return min((u64)link->params.rpg_min_rate * ROX_CC_MBIT, rox_dcqcn_max(link));
}

static void rox_dcqcn_set(const struct rox_cc_link *link, struct rox_cc *cc, u64 rate)
{
	cc->rate = clamp(rate, rox_dcqcn_min(link), rox_dcqcn_max(link));
}

/* (@g / 1024)^@n, in 1/65536 */
static u32 rox_dcqcn_power(u32 g, u64 n)
{
	u64 power = ROX_ALPHA_ONE, square = (u64)g << (ROX_ALPHA_SHIFT - ROX_PARAM_SHIFT);

	for (; n && square; n >>= 1) {
		if (n & 1)
			power = power * square >> ROX_ALPHA_SHIFT;
		square = square * square >> ROX_ALPHA_SHIFT;
	}
	return n ? 0 : power;
}

/* How many periods have ended when @due is the end of the first one? Moves @due behind @now. */
static u64 rox_dcqcn_elapsed(u64 *due, u64 period, u64 now)
{
	u64 n;

	if (now < *due)
		return 0;
	n = div64_u64(now - *due, period) + 1;
	*due += n * period;
	return n;
}

/* ---- increases ---- */

/* What an increase adds to the target, after fast recovery. */
static u64 rox_dcqcn_step(const struct rox_cc_link *link, const struct rox_cc_dcqcn *d)
{
	u32 both = min(d->timer_count, d->byte_count);

	if (both <= link->params.rpg_threshold)
		return (u64)link->params.rpg_ai_rate * ROX_CC_MBIT;
	return (u64)link->params.rpg_hai_rate * ROX_CC_MBIT * (both - link->params.rpg_threshold);
}

static void rox_dcqcn_increase(const struct rox_cc_link *link, struct rox_cc *cc)
{
	struct rox_cc_dcqcn *d = &cc->dcqcn;

	if (max(d->timer_count, d->byte_count) > link->params.rpg_threshold)
		d->target = min(d->target + rox_dcqcn_step(link, d), rox_dcqcn_max(link));
	/* Rounded up, so that the rate reaches the target. */
	rox_dcqcn_set(link, cc, (cc->rate + d->target + 1) / 2);
}

/*
 * @n increases by the timer, without a sent byte between them. In the long run the rate follows
 * the target at a distance of one step.
 */
static void rox_dcqcn_increases(const struct rox_cc_link *link, struct rox_cc *cc, u64 n)
{
	struct rox_cc_dcqcn *d = &cc->dcqcn;
	u64 step, left;
	u32 i;

	for (i = 0; i < min_t(u64, n, ROX_TIMER_STEPS); i++) {
		if (d->timer_count < U16_MAX)
			d->timer_count++;
		rox_dcqcn_increase(link, cc);
	}
	n -= i;
	if (!n)
		return;
	d->timer_count = min_t(u64, d->timer_count + min_t(u64, n, U16_MAX), U16_MAX);
	step = rox_dcqcn_step(link, d);
	left = rox_dcqcn_max(link) - d->target;
	if (n > div64_u64(left, step)) {
		d->target = rox_dcqcn_max(link);
		rox_dcqcn_set(link, cc, d->target);
	} else {
		d->target += n * step;
		rox_dcqcn_set(link, cc, max(cc->rate, d->target - step));
	}
}

/* What the timers have done until @now. */
static void rox_dcqcn_advance(const struct rox_cc_link *link, struct rox_cc *cc, u64 now)
{
	const struct rox_cc_params *p = &link->params;
	struct rox_cc_dcqcn *d = &cc->dcqcn;
	u64 n;

	n = rox_dcqcn_elapsed(&d->alpha_due, (u64)p->dce_tcp_rtt * NSEC_PER_USEC, now);
	if (n)
		d->alpha = (u64)d->alpha * rox_dcqcn_power(p->dce_tcp_g, n) >> ROX_ALPHA_SHIFT;
	n = rox_dcqcn_elapsed(&d->timer_due, (u64)p->rpg_time_reset * NSEC_PER_USEC, now);
	if (n)
		rox_dcqcn_increases(link, cc, n);
}

/* ---- events ---- */

static void rox_dcqcn_acked(const struct rox_cc_link *link, struct rox_cc *cc,
			    const struct rox_cc_ack *ack, u64 now)
{
	rox_dcqcn_advance(link, cc, now);
}

static void rox_dcqcn_sent(const struct rox_cc_link *link, struct rox_cc *cc, u32 bytes, u64 now)
{
	struct rox_cc_dcqcn *d = &cc->dcqcn;
	/* An administrator may change it meanwhile. */
	u32 reset = READ_ONCE(link->params.rpg_byte_reset);

	rox_dcqcn_advance(link, cc, now);
	for (d->bytes += bytes; d->bytes >= reset; d->bytes -= reset) {
		if (d->byte_count < U16_MAX)
			d->byte_count++;
		rox_dcqcn_increase(link, cc);
	}
}

static void rox_dcqcn_reduce(const struct rox_cc_link *link, struct rox_cc *cc)
{
	const struct rox_cc_params *p = &link->params;
	struct rox_cc_dcqcn *d = &cc->dcqcn;
	u64 less = cc->rate * d->alpha >> (ROX_ALPHA_SHIFT + 1);
	u64 least = div_u64(cc->rate * p->rpg_min_dec_fac, 100);

	if (p->rate_to_set_on_first_cnp && !d->reduced_at) {
		rox_dcqcn_set(link, cc, (u64)p->rate_to_set_on_first_cnp * ROX_CC_MBIT);
		d->target = cc->rate;
		return;
	}
	d->target = cc->rate;
	rox_dcqcn_set(link, cc, max(cc->rate - less, least));
}

static void rox_dcqcn_cnp(const struct rox_cc_link *link, struct rox_cc *cc, u64 now)
{
	const struct rox_cc_params *p = &link->params;
	u32 gain = (1U << ROX_PARAM_SHIFT) - p->dce_tcp_g;
	struct rox_cc_dcqcn *d = &cc->dcqcn;

	if (!d->reduced_at)
		d->alpha = p->initial_alpha_value << (ROX_ALPHA_SHIFT - ROX_PARAM_SHIFT);
	else
		rox_dcqcn_advance(link, cc, now);
	if (!d->reduced_at ||
	    now - d->reduced_at >= (u64)p->rate_reduce_monitor_period * NSEC_PER_USEC) {
		rox_dcqcn_reduce(link, cc);
		d->reduced_at = max(now, 1ULL);
		d->timer_count = 0;
		d->byte_count = 0;
		d->bytes = 0;
		d->timer_due = now + (u64)p->rpg_time_reset * NSEC_PER_USEC;
	}
	d->alpha += (ROX_ALPHA_ONE - d->alpha) * gain >> ROX_PARAM_SHIFT;
	d->alpha_due = now + (u64)p->dce_tcp_rtt * NSEC_PER_USEC;
}

static void rox_dcqcn_init(const struct rox_cc_link *link, struct rox_cc *cc, u64 now)
{
	struct rox_cc_dcqcn *d = &cc->dcqcn;

	cc->window = ROX_CC_WINDOW_MAX;
	rox_dcqcn_set(link, cc, rox_dcqcn_max(link));
	d->target = cc->rate;
	d->alpha_due = now + (u64)link->params.dce_tcp_rtt * NSEC_PER_USEC;
	d->timer_due = now + (u64)link->params.rpg_time_reset * NSEC_PER_USEC;
}

const struct rox_cc_ops rox_cc_dcqcn = {
	.name = "dcqcn",
	.ect = true,
	.init = rox_dcqcn_init,
	.acked = rox_dcqcn_acked,
	.sent = rox_dcqcn_sent,
	.cnp = rox_dcqcn_cnp,
	.timeout = rox_dcqcn_cnp,
};
