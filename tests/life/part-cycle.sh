# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Load, add links, run, delete the links, unload; again and again.

part_cycle() {
	tap_run "namespaces" net_two 9000
	tap_run "the first lives" cycle_batch $((LIFE_TIMES > 6 ? 5 : 2))
	memory_runs "load, links, traffic, unload" $((LIFE_TIMES / 3)) lives cycle_lives
	tap_run "stage cleared" stage_clear
}

cycle_lives() {
	tap_run "load, links, traffic, unload: $1 times" cycle_batch "$1"
}

cycle_batch() {
	local times=$1 i
	log_mark
	for ((i = 1; i <= times; i++)); do
		cycle_once || fail "in life $i of $times" || return
	done
	log_check
}

cycle_once() {
	local other=$ROX2
	module_load && link_add "$NS1" "$ROX1" "$DEV1" || return
	if [[ $ROX_TYPE == rxe ]]; then other=$ROX1; else link_add "$NS2" "$ROX2" "$DEV2" || return; fi
	run_limited 30 "$TRAFFIC" once -m 40 "$ROX1" "$other" >"$ROX_TMP/once.out" 2>&1 ||
		{ cat "$ROX_TMP/once.out"; diagnose; return 1; }
	rdma link delete "$ROX1" || return
	[[ $other == "$ROX1" ]] || rdma link delete "$other" || return
	module_unload && [[ $(module_users) == none ]]
}
