# shellcheck shell=bash disable=SC2086,SC2015,SC2154
# SPDX-License-Identifier: GPL-2.0
#
# A bad network, both ways: what goes through a connection arrives once, in order and as it was sent,
# or the connection ends with an error. Each case sends through it for a while, at full speed.

# An ACK timeout of 67 ms; backoff ends at half a second.
LOSSY='-t 14 -r 7 -w 0'
NETEM_SECONDS=2
[[ -z ${ROX_QUICK:-} ]] || NETEM_SECONDS=1

part_netem() {
	local all='limit 100 delay 2ms 1ms loss 1% duplicate 2% corrupt 1% reorder 25% 50%'
	stage_begin "bad network" stage_set stage_clear
	case_run "1 % lost" netem_through loss 1%
	case_run "5 % corrupted: refused" netem_corrupts
	case_full "0.1 % lost" netem_through loss 0.1%
	case_full "5 % lost" netem_through loss 5%
	case_full "out of order" netem_through delay 1ms reorder 50% 50%
	case_full "10 % twice" netem_through duplicate 10%
	case_full "10 ms away, with jitter" netem_through delay 10ms 3ms
	case_full "20 Mbit/s" netem_through limit 1000 rate 20mbit
	case_full "a queue of 10 packets" netem_through limit 10 delay 1ms
	case_run "all together" netem_through $all
	case_run "all lost: retries exceeded" netem_ends
	stage_end
}

# What netem does to the frames of both ends; without arguments, nothing any more.
netem_set() {
	local end device
	for end in "$NS1 $DEV1" "$NS2 $DEV2"; do
		read -r end device <<<"$end"
		if (($#)); then
			tc -n "$end" qdisc replace dev "$device" root netem "$@" || return
		else
			tc -n "$end" qdisc delete dev "$device" root || return
		fi
	done
}

# Connections are made before: the RDMA core looks for a neighbour for one second, in which one lost packet is too many.
netem_through() {
	flow_start v4 $IP1 $IP2 $LOSSY && flow_start v6 $IP1_6 $IP2_6 $LOSSY && netem_set "$@" &&
		sleep "$NETEM_SECONDS" && flow_advances v4 v6 && netem_set && flow_stop v4 v6 || return
	netem_told
}

# For the log: what has gone through, and what that took.
netem_told() {
	local name counter
	for name in v4 v6; do
		flow_count $name 1
		echo "$name: $count messages"
	done
	for counter in local_ack_timeout_err packet_seq_err out_of_sequence duplicate_request; do
		echo "$counter: $(counter_of "$ROX1" $counter)"
	done
}

netem_refused() {
	echo $(($(counter_of "$ROX1" rx_icrc_encapsulated) + $(counter_of "$ROX1" rx_malformed)))
}

netem_corrupts() {
	local before
	before=$(netem_refused)
	netem_through corrupt 5% && (($(netem_refused) > before)) || fail "nothing was refused"
}

netem_ends() {
	flow_start v4 $IP1 $IP2 -t 12 -r 3 -w 0 && netem_set loss 100% && flow_ends v4 && netem_set &&
		flow_start again $IP1 $IP2 $LOSSY && flow_advances again && flow_stop again
}
