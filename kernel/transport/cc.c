// SPDX-License-Identifier: GPL-2.0
/* Congestion control: parameters, pacing, and the algorithm `none`. See cc.h. */
#include <linux/compiler.h>
#include <linux/kernel.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/string.h>
#include <linux/time64.h>

#include "cc.h"

/* A burst lasts at most 2^-11 s (0.5 ms) at the flow's rate. */
#define ROX_CC_BURST_SHIFT	11

#define ROX_CC_PARAM(field, min, max, value) \
	{ #field, offsetof(struct rox_cc_params, field), min, max, value }

const struct rox_cc_param_info rox_cc_param_infos[] = {
	ROX_CC_PARAM(min_time_between_cnps, 0, 4095, 50),
	ROX_CC_PARAM(cnp_dscp, 0, 63, 48),
	ROX_CC_PARAM(cnp_802p_prio, 0, 7, 6),
	ROX_CC_PARAM(dce_tcp_g, 0, 1023, 1020),
	ROX_CC_PARAM(dce_tcp_rtt, 1, 131071, 55),
	ROX_CC_PARAM(initial_alpha_value, 1, 1023, 1023),
	ROX_CC_PARAM(rate_to_set_on_first_cnp, 0, 400000, 0),
	ROX_CC_PARAM(rate_reduce_monitor_period, 1, 131071, 4),
	ROX_CC_PARAM(rpg_min_dec_fac, 1, 100, 50),
	ROX_CC_PARAM(rpg_min_rate, 1, 400000, 1),
	ROX_CC_PARAM(rpg_max_rate, 0, 400000, 0),
	ROX_CC_PARAM(rpg_time_reset, 1, 131071, 300),
	ROX_CC_PARAM(rpg_byte_reset, 1024, 1U << 30, 32767),
	ROX_CC_PARAM(rpg_threshold, 1, 31, 1),
	ROX_CC_PARAM(rpg_ai_rate, 1, 400000, 5),
	ROX_CC_PARAM(rpg_hai_rate, 1, 400000, 50),
	ROX_CC_PARAM(target_delay, 1, 1000000, 250),
};

const u32 rox_cc_num_params = ARRAY_SIZE(rox_cc_param_infos);

static u32 *rox_cc_param(struct rox_cc_link *link, const struct rox_cc_param_info *info)
{
	return (u32 *)((char *)&link->params + info->offset);
}

/**
 * rox_cc_link_init() - sets a link's algorithm, rate and the default parameters
 * @link: the link
 * @ops: the algorithm
 * @line_rate: bytes a second; more than ROX_CC_RATE_MAX is taken for that, 0 for one Mbit/s
 */
void rox_cc_link_init(struct rox_cc_link *link, const struct rox_cc_ops *ops, u64 line_rate)
{
	u32 i;

	link->ops = ops;
	link->line_rate = clamp_t(u64, line_rate, ROX_CC_MBIT, ROX_CC_RATE_MAX);
	for (i = 0; i < rox_cc_num_params; i++)
		*rox_cc_param(link, &rox_cc_param_infos[i]) = rox_cc_param_infos[i].preset;
}

/**
 * rox_cc_param_set() - sets a parameter
 * @link: the link
 * @index: of the parameter in rox_cc_param_infos[]
 * @value: new value
 *
 * Return: false if there is no such parameter or @value is out of its range.
 */
bool rox_cc_param_set(struct rox_cc_link *link, u32 index, u32 value)
{
	const struct rox_cc_param_info *info;

	if (index >= rox_cc_num_params)
		return false;
	info = &rox_cc_param_infos[index];
	if (value < info->least || value > info->most)
		return false;
	WRITE_ONCE(*rox_cc_param(link, info), value);
	return true;
}

/**
 * rox_cc_param_get() - reads a parameter
 * @link: the link
 * @index: of the parameter in rox_cc_param_infos[]
 *
 * Return: its value
 */
u32 rox_cc_param_get(const struct rox_cc_link *link, u32 index)
{
	return READ_ONCE(*rox_cc_param((struct rox_cc_link *)link, &rox_cc_param_infos[index]));
}

/**
 * rox_cc_named() - finds an algorithm
 * @name: its name, of which only @len bytes are looked at
 * @len: length of the name
 *
 * Return: the algorithm, or NULL
 */
const struct rox_cc_ops *rox_cc_named(const char *name, size_t len)
{
	const struct rox_cc_ops * const *ops;

	for (ops = rox_cc_algorithms; *ops; ops++)
		if (strlen((*ops)->name) == len && !memcmp((*ops)->name, name, len))
			break;
	return *ops;
}

/**
 * rox_cc_start() - a connection begins
 * @link: its link
 * @ops: its algorithm
 * @cc: its state
 * @mtu: payload of a full packet, 1 to 64 Ki
 * @now: time in ns
 */
void rox_cc_start(const struct rox_cc_link *link, const struct rox_cc_ops *ops, struct rox_cc *cc,
		  u32 mtu, u64 now)
{
	memset(cc, 0, sizeof(*cc));
	cc->ops = ops;
	cc->mtu = mtu;
	cc->burst = ROX_CC_BURST_MAX;
	cc->next = now;
	ops->init(link, cc, now);
}

/* Begins a connection with the algorithm of the link. Only tests call it. */
void rox_cc_init(const struct rox_cc_link *link, struct rox_cc *cc, u32 mtu, u64 now)
{
	rox_cc_start(link, link->ops, cc, mtu, now);
}

/**
 * rox_cc_quota() - how much may be sent now, and otherwise when
 * @cc: the flow
 * @in_flight: bytes that are sent and not acknowledged
 * @now: time in ns
 *
 * Return: bytes of one burst. 0: the flow waits for @cc->next, or for an ACK if that is past.
 */
u32 rox_cc_quota(const struct rox_cc *cc, u32 in_flight, u64 now)
{
	u32 room = cc->window > in_flight ? cc->window - in_flight : 0;
	u64 burst;

	if (!cc->rate)
		return room;
	if (now < cc->next)
		return 0;
	burst = min_t(u64, cc->rate >> ROX_CC_BURST_SHIFT, cc->burst);
	burst = clamp_t(u64, burst, cc->mtu, ROX_CC_BURST_MAX);
	return min_t(u64, room, burst);
}

/**
 * rox_cc_sent() - bytes were sent
 * @link: the flow's link
 * @cc: the flow
 * @bytes: at most ROX_CC_WINDOW_MAX
 * @now: time in ns
 */
void rox_cc_sent(const struct rox_cc_link *link, struct rox_cc *cc, u32 bytes, u64 now)
{
	/* A time that has passed is no credit for a longer burst. */
	if (cc->rate)
		cc->next = max(cc->next, now) + div64_u64((u64)bytes * NSEC_PER_SEC, cc->rate);
	if (cc->ops->sent)
		cc->ops->sent(link, cc, bytes, now);
}

static void rox_none_init(const struct rox_cc_link *link, struct rox_cc *cc, u64 now)
{
	cc->window = max(ROX_WINDOW_BYTES, ROX_WINDOW_MIN_PKTS * cc->mtu);
}

/* A fixed window, whatever happens. */
const struct rox_cc_ops rox_cc_none = {
	.name = "none",
	.init = rox_none_init,
};

const struct rox_cc_ops * const rox_cc_algorithms[] = {
	&rox_cc_none,
	&rox_cc_dcqcn,
	&rox_cc_adaptive,
	NULL
};
