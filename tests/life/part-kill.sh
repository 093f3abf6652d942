# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# kill -9 of one side or both in mid-transfer, at a random moment.

part_kill() {
	tap_run "stage" stage_set
	leak_mark
	tap_run "the first kills" kill_batch $((LIFE_TIMES > 6 ? 10 : 4))
	memory_runs "kill -9 in mid-transfer" $((LIFE_TIMES / 3)) kills kill_times
	tap_run "the links still work" run_limited 30 "$TRAFFIC" once -m 60 "$ROX1" "$OTHER_ROX"
	tap_run "the module unloads right behind a kill -9 of who uses it" kill_and_unload
	[[ -n $NS1_IS_FIRST ]] ||
		tap_run "a namespace is gone seconds after a kill -9 of all in it" kill_and_leave
	tap_run "stage cleared" stage_clear
	tap_run "the module unloads" module_unload
}

kill_times() {
	tap_run "kill -9 in mid-transfer: $1 times" kill_batch "$1"
}

# Stock programs that run until they are killed.
kill_programs=(
	"ib_send_bw -F -D 60 -s 65536"
	"ib_write_bw -F -D 60 -R -b"
	"ib_read_bw -F -D 60 -q 4"
	"ib_send_bw -F -D 60 -c UD -s 2048"
	"ib_send_bw -F -n 5000000 -N -e --use-srq"
	"ib_atomic_bw -F -D 60"
	"rping"
)

kill_batch() {
	local times=$1 i
	log_mark
	for ((i = 1; i <= times; i++)); do
		if ((RANDOM % 3)); then kill_traffic; else kill_program; fi &&
			leak_check || fail "at kill $i of $times" || return
	done
	log_check
}

random_sleep() {
	printf -v moment '%d.%03d' $(($1 / 1000)) $((RANDOM % ($1 % 1000 + 1)))
	nap "$moment"
}

# One end is killed; the other one has to see that and end by itself.
kill_traffic() {
	# A survivor learns of the death by its retries, a second in all.
	local options victim survivor
	chance_of_events
	traffic_start -t 13 "${options[@]}" || return
	random_sleep 80
	if ((RANDOM % 2)); then victim=$server survivor=$client
	else victim=$client survivor=$server; fi
	kill -9 "$victim" && { wait "$victim" 2>/dev/null; true; }
	if ((RANDOM % 4 == 0)); then
		kill -9 "$survivor"
		wait "$survivor" 2>/dev/null
		return 0
	fi
	traffic_ends "$survivor" 3
}

module_gone() {
	[[ $(module_users) == none ]] || timeout -k 1 15 rmmod "$MODULE" 2>/dev/null
}

# Daemons that hold QPs, regions and channels. While they end the module is in use; nothing keeps it so.
kill_and_unload() {
	local status=0
	log_mark
	traffic_start -e -q 8 || return
	random_sleep 80
	kill -9 "$server" "$client"
	soon 9 module_gone || { diagnose; fail "the module has $(module_users) references"; } || status=1
	wait "$server" "$client" 2>/dev/null
	stage_clear && stage_set && log_check && return $status
}

# The namespace has lost its name before, so it lives as long as its processes; with it ends its veth, and the other end.
kill_and_leave() {
	local status=0
	log_mark
	traffic_start -e -q 8 && ip netns delete "$NS1" || return
	kill -9 "$server"
	soon 9 netdev_gone "$OTHER_NS" "$DEV2" && soon 5 rdma_gone "$ROX1" ||
		{ diagnose; fail "the namespace is still there"; } || status=1
	kill -9 "$client" 2>/dev/null
	wait "$server" "$client" 2>/dev/null
	log_check && return $status
}

# Nothing says how a stock program takes its peer's death, so both are killed, in any order.
kill_program() {
	local words program=${kill_programs[RANDOM % ${#kill_programs[@]}]} one other
	read -r -a words <<<"$program"
	if [[ $program == rping ]]; then
		ip netns exec "$NS1" rping -s -a "$IP1" >"$ROX_TMP/serve.out" 2>&1 &
		server=$!
		wait_for_server "$server"
		ip netns exec "$OTHER_NS" rping -c -a "$IP1" >"$ROX_TMP/connect.out" 2>&1 &
	else
		ip netns exec "$NS1" "${words[@]}" -d "$ROX1" >"$ROX_TMP/serve.out" 2>&1 &
		server=$!
		wait_for_server "$server"
		ip netns exec "$OTHER_NS" "${words[@]}" -d "$OTHER_ROX" "$IP1" \
			>"$ROX_TMP/connect.out" 2>&1 &
	fi
	client=$!
	random_sleep $((LIFE_TIMES > 6 ? 999 : 300))
	process_gone "$server" || process_gone "$client" &&
		{ traffic_print; traffic_kill; fail "$program ended before it was killed"; return; }
	if ((RANDOM % 2)); then one=$server other=$client; else one=$client other=$server; fi
	kill -9 "$one"
	random_sleep 60
	kill -9 "$other" 2>/dev/null
	wait "$one" "$other" 2>/dev/null
	return 0
}
