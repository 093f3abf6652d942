/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Congestion control algorithms. All functions are pure: they know bytes, rates and times in ns
 * that the caller gives them, and no QP, clock or timer. They may be called in any context; the
 * caller serializes calls for one struct rox_cc. The same files are compiled on the host
 * (tests/unit/cc).
 *
 * An algorithm sets two limits, as one of struct tcp_congestion_ops does: @window for the bytes in
 * flight, @rate for the pace. rox_cc_quota() and rox_cc_sent() apply them.
 */
#ifndef ROX_TRANSPORT_CC_H
#define ROX_TRANSPORT_CC_H

#include <linux/types.h>

/* The window of `none`, and the number of packets that it has at least. */
#define ROX_WINDOW_BYTES	(512U * 1024)
#define ROX_WINDOW_MIN_PKTS	64U
/* No window is larger. */
#define ROX_CC_WINDOW_MAX	(32U * 1024 * 1024)
/* Rates up to this many bytes a second (400 Gbit/s). */
#define ROX_CC_RATE_MAX		50000000000ULL
/* Bytes a second in one Mbit/s. */
#define ROX_CC_MBIT		125000U
/* No burst is longer. */
#define ROX_CC_BURST_MAX	(64U * 1024)

/**
 * struct rox_cc_params - parameters of a link, with mlx5's names where mlx5 has them
 * @min_time_between_cnps: receiver: a QP sends at most one CNP in this time, in us
 * @cnp_dscp: receiver: DSCP of CNPs
 * @cnp_802p_prio: receiver: priority of CNPs (skb->priority)
 * @dce_tcp_g: dcqcn: weight of the old alpha when alpha is updated, in 1/1024. 1020 is g = 1/256
 *	of the paper.
 * @dce_tcp_rtt: dcqcn: alpha is updated after this time without a CNP, in us
 * @initial_alpha_value: dcqcn: alpha at the first CNP, in 1/1024
 * @rate_to_set_on_first_cnp: dcqcn: rate after the first CNP, in Mbit/s; 0: as after any other
 * @rate_reduce_monitor_period: dcqcn: minimum time between two reductions, in us
 * @rpg_min_dec_fac: dcqcn: a reduction leaves at least this part of the rate, in percent
 * @rpg_min_rate: dcqcn: minimum rate, in Mbit/s
 * @rpg_max_rate: dcqcn: maximum rate, in Mbit/s; 0: rate of the line
 * @rpg_time_reset: dcqcn: period of the timer that increases the rate, in us
 * @rpg_byte_reset: dcqcn: bytes sent between two increases by the byte counter
 * @rpg_threshold: dcqcn: increases by timer or byte counter before fast recovery ends (F)
 * @rpg_ai_rate: dcqcn: additive increase, in Mbit/s
 * @rpg_hai_rate: dcqcn: hyper increase, in Mbit/s
 * @target_delay: adaptive: queueing delay to aim at, in us, in addition to a quarter of the path's
 *	round trip
 *
 * Ranges and defaults are in rox_cc_param_infos[].
 */
struct rox_cc_params {
	u32 min_time_between_cnps;
	u32 cnp_dscp;
	u32 cnp_802p_prio;
	u32 dce_tcp_g;
	u32 dce_tcp_rtt;
	u32 initial_alpha_value;
	u32 rate_to_set_on_first_cnp;
	u32 rate_reduce_monitor_period;
	u32 rpg_min_dec_fac;
	u32 rpg_min_rate;
	u32 rpg_max_rate;
	u32 rpg_time_reset;
	u32 rpg_byte_reset;
	u32 rpg_threshold;
	u32 rpg_ai_rate;
	u32 rpg_hai_rate;
	u32 target_delay;
};

/**
 * struct rox_cc_param_info - name, range and default of a parameter
 * @name: its name in struct rox_cc_params
 * @offset: its place in struct rox_cc_params
 * @least: minimum
 * @most: maximum
 * @preset: default
 */
struct rox_cc_param_info {
	const char *name;
	u32 offset;
	u32 least;
	u32 most;
	u32 preset;
};

extern const struct rox_cc_param_info rox_cc_param_infos[];
extern const u32 rox_cc_num_params;

/**
 * struct rox_cc_link - what the QPs of a link share
 * @ops: the algorithm of new flows
 * @line_rate: rate of the netdev in bytes a second, at most ROX_CC_RATE_MAX
 * @params: the algorithms' parameters
 */
struct rox_cc_link {
	const struct rox_cc_ops *ops;
	u64 line_rate;
	struct rox_cc_params params;
};

/**
 * struct rox_cc_dcqcn - state of dcqcn
 * @target: Rt of the paper, in bytes a second (Rc is @rate of struct rox_cc)
 * @alpha_due: when alpha is updated next
 * @timer_due: when the timer increases the rate next
 * @reduced_at: time of the last reduction; 0: none yet
 * @alpha: estimate of congestion, in 1/65536
 * @bytes: bytes sent since the byte counter last increased the rate
 * @timer_count: increases by the timer since the last reduction (T of the paper)
 * @byte_count: increases by the byte counter since the last reduction (BC of the paper)
 */
struct rox_cc_dcqcn {
	u64 target;
	u64 alpha_due;
	u64 timer_due;
	u64 reduced_at;
	u32 alpha;
	u32 bytes;
	u16 timer_count;
	u16 byte_count;
};

/**
 * struct rox_cc_adaptive - state of adaptive; times in ns
 * @acked_at: time of the last ACK
 * @round_at: beginning of the round
 * @base_at: beginning of the period that @base_new is the minimum of, in units of 2^20 ns
 * @quiet_at: time since when no round had a queue
 * @epoch_at: CUBIC: time of the last reduction
 * @base: the path's round trip without queues
 * @base_new: the next value of @base
 * @srtt: smoothed round trip
 * @deviation: mean deviation of round trips from @srtt
 * @round_min: minimum round trip in this round; U32_MAX: none measured
 * @delay: queueing delay of the last round
 * @delays: those of the two rounds before it, in units of 2^16 ns
 * @round_acked: bytes acknowledged in this round
 * @round_lost: bytes lost in this round
 * @w_max: CUBIC: window before the last reduction
 * @w_est: CUBIC: window that Reno would have
 * @alpha: share of rounds with CNPs, in 1/1024
 * @high: rounds in a row with too much delay
 * @low: rounds in a row without a sign of congestion
 * @stray: rounds with losses without a queue, less two for each with one
 * @marked: rounds in which CNPs count and delay does not
 * @even: rounds in which bursts are a part of the window
 * @slow_start: the window doubles in each round trip
 * @trusted: @base is the path's round trip without queue
 * @shares: another sender keeps the queue full: CUBIC's rules
 * @limited: the window was used up in this round
 * @cnp: a CNP came in this round
 */
struct rox_cc_adaptive {
	u64 acked_at;
	u64 round_at;
	u64 quiet_at;
	u64 epoch_at;
	u32 base;
	u32 base_new;
	u32 base_at;
	u32 srtt;
	u32 deviation;
	u32 round_min;
	u32 delay;
	u32 round_acked;
	u32 round_lost;
	u32 w_max;
	u32 w_est;
	u16 delays[2];
	u16 alpha;
	u8 high;
	u8 low;
	u8 stray;
	u8 marked;
	u8 even;
	bool slow_start : 1;
	bool trusted : 1;
	bool shares : 1;
	bool limited : 1;
	bool cnp : 1;
};

/**
 * struct rox_cc - state of one flow
 * @ops: its algorithm
 * @rate: bytes a second; 0: not paced
 * @next: the next burst may be sent at this time, in ns
 * @window: maximum number of bytes in flight
 * @burst: no burst is longer, if it has more than one packet
 * @mtu: payload of a full packet
 * @dcqcn: state of dcqcn
 * @adaptive: state of adaptive
 */
struct rox_cc {
	const struct rox_cc_ops *ops;
	u64 rate;
	u64 next;
	u32 window;
	u32 burst;
	u32 mtu;
	union {
		struct rox_cc_dcqcn dcqcn;
		struct rox_cc_adaptive adaptive;
	};
};

/**
 * struct rox_cc_ack - news of an ACK
 * @bytes: bytes that it acknowledges
 * @in_flight: bytes in flight before it
 * @round_trip: of a packet that was sent once, in ns; 0: not measured
 */
struct rox_cc_ack {
	u32 bytes;
	u32 in_flight;
	u64 round_trip;
};

/**
 * struct rox_cc_ops - an algorithm
 * @name: its name
 * @ect: it reacts to CNPs, so packets may say that the transport is capable of ECN
 * @init: a connection begins; rox_cc_init() has set the common part
 * @acked: an ACK came
 * @sent: bytes were sent
 * @cnp: a CNP came
 * @loss: bytes were lost, as a NAK or a later ACK shows
 * @timeout: nothing came for the ACK timeout
 *
 * All but @name and @init may be NULL. Times never go back.
 */
struct rox_cc_ops {
	const char *name;
	bool ect;
	void (*init)(const struct rox_cc_link *link, struct rox_cc *cc, u64 now);
	void (*acked)(const struct rox_cc_link *link, struct rox_cc *cc,
		      const struct rox_cc_ack *ack, u64 now);
	void (*sent)(const struct rox_cc_link *link, struct rox_cc *cc, u32 bytes, u64 now);
	void (*cnp)(const struct rox_cc_link *link, struct rox_cc *cc, u64 now);
	void (*loss)(const struct rox_cc_link *link, struct rox_cc *cc, u32 bytes, u64 now);
	void (*timeout)(const struct rox_cc_link *link, struct rox_cc *cc, u64 now);
};

extern const struct rox_cc_ops rox_cc_none;
extern const struct rox_cc_ops rox_cc_dcqcn;
extern const struct rox_cc_ops rox_cc_adaptive;

/* All algorithms; ends with NULL. */
extern const struct rox_cc_ops * const rox_cc_algorithms[];

void rox_cc_link_init(struct rox_cc_link *link, const struct rox_cc_ops *ops, u64 line_rate);
bool rox_cc_param_set(struct rox_cc_link *link, u32 index, u32 value);
u32 rox_cc_param_get(const struct rox_cc_link *link, u32 index);
void rox_cc_init(const struct rox_cc_link *link, struct rox_cc *cc, u32 mtu, u64 now);
void rox_cc_start(const struct rox_cc_link *link, const struct rox_cc_ops *ops, struct rox_cc *cc,
		  u32 mtu, u64 now);
const struct rox_cc_ops *rox_cc_named(const char *name, size_t len);
u32 rox_cc_quota(const struct rox_cc *cc, u32 in_flight, u64 now);
void rox_cc_sent(const struct rox_cc_link *link, struct rox_cc *cc, u32 bytes, u64 now);

#endif /* ROX_TRANSPORT_CC_H */
