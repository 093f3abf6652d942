# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: GPL-2.0
#
# A mixed load on many queue pairs (tests/soak), and what it has to survive, again and again: faults of
# the network, addresses, CPUs that go and come back, tasks that are frozen, attempts to unload.
# ROX_SHAKE_TIMES=N times each, ROX_SHAKE_FAULTS="mtu cpu" only these; tests/soak/run takes the same
# faults by chance.

MIX=${ROX_BUILD:-build}/tests/soak/mix
SHAKE_TIMES=${ROX_SHAKE_TIMES:-1}

# In the order in which they are tried.
shake_faults="loss disorder corruption flap carrier mtu address other_link unload cpu workqueues freezer suspend"
[[ -z ${ROX_QUICK:-} ]] || shake_faults=${shake_faults/freezer }

part_shake() {
	local fault name connections shaken
	tap_run "stage" stage_set
	tap_run "the first load" mix_calm $((LIFE_TIMES > 6 ? 5 : 3))
	leak_mark
	memory_now >"$ROX_TMP/memory.0"
	log_mark
	tap_run "a mixed load" mix_start 86400
	for fault in ${ROX_SHAKE_FAULTS:-$shake_faults}; do
		process_gone "$mix" && break
		name="under a mixed load: ${fault//_/ }"
		shake_can "$fault" || { tap_skip "$name" "not in this kernel"; continue; }
		tap_run "$name" shake_times "$SHAKE_TIMES" "$fault"
	done
	echo "# $SHAKE_TIMES times each"
	tap_run "all that was sent is right" mix_stop
	mix_told
	tap_run "connections are tried again for these faults only, and not too often" mix_repeats $((13 * SHAKE_TIMES))
	mix_connections
	memory_now >"$ROX_TMP/memory.1"
	shaken=$connections
	tap_run "a load that nothing happens to" mix_calm $((LIFE_TIMES > 6 ? 8 : 5))
	mix_connections
	tap_run "nothing in the kernel log" log_check
	tap_run "no leak" leak_check
	tap_run "kernel memory, $shaken connections and $connections more" memory_settles "$shaken" "$connections"
	tap_run "stage cleared" stage_clear
	tap_run "the module unloads" module_unload
}

# -- the load ------------------------------------------------------------------

# For so many seconds; with a rest between the rounds of each thread, so that there is room for other
# guests on this machine, or with none (ROX_PAUSE_MS=0). $mix is the process.
mix_start() {
	export ROX_DEV_A=$ROX1 ROX_DEV_B=$OTHER_ROX ROX_ADDR_A=$IP1 ROX_ADDR_B=$IP2
	export ROX_NS_A=$NS1 ROX_NS_B=$OTHER_NS ROX_PROGRESS=$ROX_TMP/mix.progress ROX_SEED=$seed
	printf '%020d\n' 0 >"$ROX_PROGRESS"
	ROX_SECONDS=$1 ROX_PAUSE_MS=${ROX_PAUSE_MS:-200} ip netns exec "$NS1" "$MIX" \
		>"$ROX_TMP/mix.out" 2>&1 &
	mix=$!
	mix_goes_on
}

mix_count() {
	read -r count <"$ROX_PROGRESS"
	count=$((10#$count))
}

mix_beyond() {
	local count
	mix_count
	((count > $1)) || process_gone "$mix"
}

# It gets through some more messages.
mix_goes_on() {
	local count
	mix_count
	soon 180 mix_beyond $((count + 50))
	! process_gone "$mix" || mix_fail "has ended" || return
	mix_beyond $((count + 50)) || mix_fail "stands still"
}

mix_fail() {
	echo "the load $1:"
	grep -A3 -E 'Failure|^  lane->' "$ROX_TMP/mix.out" | cut -c 1-800
	diagnose | cut -c 1-400
	return 1
}

mix_ends() {
	local status=0
	soon 360 process_gone "$mix" || mix_fail "does not end" || return
	wait "$mix" || status=$?
	((status == 0)) || mix_fail "ended with status $status"
}

mix_stop() {
	kill -TERM "$mix" || mix_fail "has ended before" || return
	mix_ends && grep -q '^# total: ' "$ROX_TMP/mix.out"
}

# For some seconds in which nobody does anything to it: no connection has to be tried again.
mix_calm() {
	mix_start "$1" && mix_ends && mix_repeats 0
}

# How many connections it has made; sets connections.
mix_connections() {
	connections=$(sed -n 's/^# total: .* \([0-9]*\) connections .*/\1/p' "$ROX_TMP/mix.out")
	connections=${connections:-0}
}

# Each of its eight threads makes one connection after the other, and tries once more in 100 ms at the earliest. So long
# as a fault lasts, and a second more, that many attempts may fail, and for the one that a fault explains.
mix_repeats() {
	local most=$(($1 * 8 * 25)) counts cause count
	counts=$(sed -n 's/^# tried again: //p' "$ROX_TMP/mix.out")
	[[ -n $counts ]] || fail "the load does not say how often it tried again" || return
	echo "$counts; at most $most each"
	while IFS=: read -r cause count; do
		((count <= most)) || fail "$cause: tried again $count times" || return
	done < <(tr ',' '\n' <<<"$counts")
}

# What it has done, and what the devices count, for the output.
mix_told() {
	local name
	grep '^# ' "$ROX_TMP/mix.out"
	for name in "$ROX1" "$OTHER_ROX"; do
		echo "# $name: $(cd "/sys/class/infiniband/$name/ports/1/hw_counters" &&
			grep -H . rx_bytes local_ack_timeout_err out_of_sequence packet_seq_err rx_malformed \
				rx_icrc_encapsulated tx_dropped retransmitted_packets 2>/dev/null | tr '\n' ' ')"
	done
}

# -- what is done to it ----------------------------------------------------------

shake_times() {
	local i
	for ((i = 1; i <= $1; i++)); do
		"shake_$2" && mix_goes_on || fail "at time $i of $1" || return
	done
}

# Can this kernel do it? Not all can suspend, and a guest whose root is on a virtio device does not
# come back from it, since 9p's has no way to begin anew.
shake_can() {
	case $1 in
	cpu) compgen -G '/sys/devices/system/cpu/cpu[1-9]*/online' >/dev/null ;;
	workqueues) (($(nproc) > 1)) ;;
	freezer) [[ -e /sys/power/pm_test ]] ;;
	suspend) [[ -e /sys/class/rtc/rtc0/wakealarm ]] && ! grep -qw 9p /proc/filesystems ;;
	esac
}

# What netem does to the frames of both ends for a while.
shake_network() {
	tc -n "$NS1" qdisc replace dev "$DEV1" root netem "$@" &&
		tc -n "$NS2" qdisc replace dev "$DEV2" root netem "$@" || return
	random_sleep 999
	tc -n "$NS1" qdisc delete dev "$DEV1" root && tc -n "$NS2" qdisc delete dev "$DEV2" root
}

shake_loss() {
	shake_network limit 1000 loss 2%
}

shake_disorder() {
	shake_network limit 1000 delay 1ms reorder 30% 50% duplicate 2%
}

shake_corruption() {
	shake_network limit 1000 corrupt 1%
}

shake_flap() {
	ip -n "$NS1" link set "$DEV1" down && random_sleep 300 && ip -n "$NS1" link set "$DEV1" up
}

shake_carrier() {
	ip -n "$NS2" link set "$DEV2" down && random_sleep 300 && ip -n "$NS2" link set "$DEV2" up
}

# Never below what the datagrams of the load need.
shake_mtu() {
	ip -n "$NS1" link set "$DEV1" mtu $((1280 + RANDOM % 4000)) && random_sleep 300 &&
		ip -n "$NS1" link set "$DEV1" mtu 9000
}

shake_address() {
	ip -n "$NS1" address add 10.8.8.8/24 dev "$DEV1" &&
		ip -n "$NS2" address add fd08::8/64 dev "$DEV2" nodad && random_sleep 100 &&
		ip -n "$NS1" address delete 10.8.8.8/24 dev "$DEV1" &&
		ip -n "$NS2" address delete fd08::8/64 dev "$DEV2"
}

# Another link of the same module comes and goes: first the link, then, another time, its netdev.
shake_other_link() {
	local round
	for round in link netdev; do
		ip -n "$NS1" link add shake0 type dummy && ip -n "$NS1" link set shake0 up &&
			in1 rdma link add roxs type "$ROX_TYPE" netdev shake0 || return
		[[ $round == netdev ]] || rdma link delete roxs || return
		netdev_delete "$NS1" shake0 && soon 10 rdma_gone roxs || fail "roxs is still there" || return
	done
}

shake_unload() {
	! modprobe -r "$MODULE" 2>/dev/null || fail "the module was unloaded" || return
	! rmmod "$MODULE" 2>/dev/null || fail "the module was unloaded"
}

# All CPUs but the first go, one after the other, and come back.
shake_cpu() {
	local online
	for online in /sys/devices/system/cpu/cpu[1-9]*/online; do
		echo 0 >"$online" || fail "$online: cannot be set" || return
		random_sleep 200
	done
	random_sleep 200
	for online in /sys/devices/system/cpu/cpu[1-9]*/online; do
		echo 1 >"$online" || fail "$online: cannot be set" || return
	done
}

# Workers without a CPU of their own have to move.
shake_workqueues() {
	local mask=/sys/devices/virtual/workqueue/cpumask all
	all=$(<$mask)
	echo 1 >$mask && random_sleep 100 && echo 2 >$mask && random_sleep 100 && echo "$all" >$mask
}

# All tasks and freezable workers stop, for a second, and go on: the first step of a suspend. (The next
# one would reset the virtio device that has the guest's root.)
shake_freezer() {
	echo 1 >/sys/module/suspend/parameters/pm_test_delay
	echo freezer >/sys/power/pm_test && echo freeze >/sys/power/state || return
	echo none >/sys/power/pm_test
}

# The whole machine sleeps until its clock wakes it, or something else does before.
shake_suspend() {
	echo 0 >/sys/class/rtc/rtc0/wakealarm && echo +3 >/sys/class/rtc/rtc0/wakealarm &&
		echo mem >/sys/power/state
}
