# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# The scripts of tools/bpftrace, while programs send. Sourced by tests/tools/run.

# DEV1 and DEV2 as in congestion_network: another name than those of here.
trace_network() {
	unset NS1_IS_FIRST
	NS1=trace1 NS2=trace2 DEV1=vetht1 DEV2=vetht2 ROX1=roxt1 ROX2=roxt2
	net_two 1500 && rdma_load && link_two && command -v bpftrace
}

# trace_run SCRIPT COMMAND...: what the script prints for a command, which begins when it has attached. timeout hands
# the SIGINT on, and kills a bpftrace that does not end.
trace_run() {
	local pid status
	timeout -k 30 600 bpftrace "tools/bpftrace/$1" >"$ROX_TMP/trace" 2>&1 &
	pid=$!
	shift
	soon 120 grep -q Attaching "$ROX_TMP/trace" && nap 10 && "$@"
	status=$?
	kill -INT "$pid"
	wait "$pid"
	cat "$ROX_TMP/trace"
	return $status
}

# perftest with -Q 1 asks for a completion of each SEND. Each end has CQs of its own.
trace_ends() {
	run_pair -t 60 -- ib_send_bw -d roxt1 -x "$(gid_index_v4 roxt1)" -n 200 -s 1024 -Q 1 -F \
		-- ib_send_bw -d roxt2 -x "$(gid_index_v4 roxt2)" -n 200 -s 1024 -Q 1 -F "$IP1"
}

# Each of the 200 SENDs has a completion.
trace_latency() {
	trace_run rox-latency.bt trace_ends && grep -q '^@us\[2\]' "$ROX_TMP/trace" && ! grep -q '^@failed' "$ROX_TMP/trace" && (($(trace_sum) == 200))
}

# The sum of a histogram's rows.
trace_sum() {
	sed -n 's/^\[.*[])] *\([0-9]*\) |.*/\1/p' "$ROX_TMP/trace" | awk '{ sum += $1 } END { print sum + 0 }'
}

# A network that loses one packet in ten.
trace_retries() {
	in2 tc qdisc add dev "$DEV2" root netem loss 10% &&
		trace_run rox-retries.bt run_pair -t 100 -- ib_write_bw -d roxt1 -x "$(gid_index_v4 roxt1)" -n 200 -s 8192 -F \
			-- ib_write_bw -d roxt2 -x "$(gid_index_v4 roxt2)" -n 200 -s 8192 -F "$IP1" &&
		grep -qE '^QP [0-9]+ from PSN [0-9]+: (timeout|sequence NAK|implied NAK|missing response)' "$ROX_TMP/trace" &&
		grep -qE '^@retries\[[0-9]+, ' "$ROX_TMP/trace"
}

# Doorbells of the client: some, and no more than its SENDs. The engine may take some of these.
trace_doorbells() {
	local rung taken
	ROX_ENGINE=0 trace_run rox-doorbells.bt trace_ends || return
	rung=$(sed -n 's/^@doorbells\[ib_send_bw, .*: \([0-9]*\)$/\1/p' "$ROX_TMP/trace")
	taken=$(sed -n 's/^@requests\[ib_send_bw, .*: \([0-9]*\)$/\1/p' "$ROX_TMP/trace")
	((rung > 0 && rung <= 200 && taken <= 200))
}

# 200 SENDs and 200 receives, and a largest depth that fits.
trace_depth() {
	trace_run rox-cq-depth.bt trace_ends && (($(trace_sum) == 400)) &&
		grep -qE '^@largest\[[0-9]+\]: [1-9]' "$ROX_TMP/trace" &&
		grep -qE '^@entries\[[0-9]+\]: [1-9]' "$ROX_TMP/trace"
}

part_trace() {
	tap_run "bpftrace: two devices" trace_network
	tap_run "bpftrace: rox-latency.bt counts each SEND" trace_latency
	tap_run "bpftrace: rox-doorbells.bt counts who rings" trace_doorbells
	tap_run "bpftrace: rox-cq-depth.bt counts each completion" trace_depth
	tap_run "bpftrace: rox-retries.bt says why packets are sent again" trace_retries
	link_two_delete
	net_two_delete
}
