/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a send side waits for, and what it knows of lost packets: parts of a QP. Included by
 * transport.h.
 */
#ifndef ROX_TRANSPORT_RECOVERY_H
#define ROX_TRANSPORT_RECOVERY_H

#include <linux/types.h>

/**
 * enum rox_wait - what the timer of a send side is set for
 * @ROX_WAIT_NOTHING: the timer is not set
 * @ROX_WAIT_ACK: the ACK timeout
 * @ROX_WAIT_PROBE: before the ACK timeout: the next probe
 * @ROX_WAIT_GAP: the gap is filled then, unless it has closed by itself
 * @ROX_WAIT_RNR: RNR delay: nothing is sent before it ends
 * @ROX_WAIT_REFUSED: a fatal NAK came before responses to older requests. It takes effect when they
 *	have come, or then. Nothing is sent any more.
 */
enum rox_wait {
	ROX_WAIT_NOTHING,
	ROX_WAIT_ACK,
	ROX_WAIT_PROBE,
	ROX_WAIT_GAP,
	ROX_WAIT_RNR,
	ROX_WAIT_REFUSED,
};

/**
 * struct rox_recovery - selective retransmission (transport/recovery.c)
 * @keeps: the peer has shown that it stores early requests; otherwise it gets go-back-N
 * @trial: a few packets are retransmitted to see whether it does; no others are sent meanwhile
 * @bulky: the last trial was of one packet; the next one is of a burst
 * @lacks: the requester has gone back because of a NAK: the peer lacks the packet at una
 * @resent: packets were retransmitted, and no ACK or NAK has covered them yet
 * @answered: this ACK covers them
 * @probed: they were a probe
 * @doubted: the first ACK since then will show whether that was needed; then the loss is told
 * @whole: a gap of an unknown peer has been waited for, and nothing was retransmitted since
 * @whole_to: PSN after what had been sent when that gap was seen
 * @stuck: the peer has acknowledged exactly the retransmitted packets, up to @stuck_at
 * @stuck_at: see @stuck
 * @drops: gaps in a row that began at @stuck_at
 * @overtaken: so many of the next gaps are filled only after a wait, as gaps closed by themselves
 * @gaps: NAKs for gaps, counted while @overtaken is 0
 * @met: how often such a gap was waited for
 * @untrusted: NAKs of a peer that had not shown that it stores early requests
 * @probes: probes sent since the last progress
 * @stalls: how often in a row progress needed a probe
 * @waited: time spent waiting for probes, in ns; the ACK timeout is shorter by it
 * @gap: packets to retransmit for a gap
 * @due: packets to retransmit at once
 * @resent_to: PSN after the last retransmitted packet
 * @resent_pkts: how many packets before @resent_to were retransmitted
 * @sent_before: PSN after the last packet that was sent before them for the first time
 * @timed_first: the first of the packets of which the round trip is measured
 * @timed_psn: an ACK up to this PSN ends that round trip
 * @timed_at: its start, in ktime ns; 0: none is measured
 * @resent_at: when packets were retransmitted, in ktime ns
 * @round_trip: mean round trip, in ns
 * @least: minimum round trip, in ns; 0: none was measured
 */
struct rox_recovery {
	bool keeps;
	bool trial;
	bool bulky;
	bool lacks;
	bool resent;
	bool answered;
	bool probed;
	bool doubted;
	bool whole;
	bool stuck;
	u8 drops;
	u8 overtaken;
	u8 gaps;
	u8 met;
	u8 probes;
	u8 stalls;
	u32 untrusted;
	u32 whole_to;
	u32 stuck_at;
	u32 gap;
	u32 due;
	u32 resent_to;
	u32 resent_pkts;
	u32 sent_before;
	u32 timed_first;
	u32 timed_psn;
	u64 timed_at;
	u64 waited;
	u64 resent_at;
	u64 round_trip;
	u64 least;
};

#endif
