# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: GPL-2.0
#
# Everything beneath the traffic taken away in mid-transfer, with programs that hold the device open:
# several connections, each with a device opening of its own.

REMOVE_TIMES=${ROX_REMOVE_TIMES:-$((LIFE_TIMES > 30 ? LIFE_TIMES / 30 : 1))}
REMOVE_CONNECTIONS=8

# ROX_REMOVE_KINDS= and ROX_SURVIVE_KINDS= are some of these, or none.
remove_kinds="veth link namespace other_namespace both_links netdev_moved namespace_left module_busy"
survive_kinds="flap carrier_flap mtu address"
if [[ -n ${ROX_QUICK:-} ]]; then
	remove_kinds="veth link namespace netdev_moved module_busy"
	survive_kinds="flap address"
fi

part_remove() {
	local what survive_times=$((REMOVE_TIMES > 3 ? REMOVE_TIMES : LIFE_TIMES > 6 ? 2 : 1))
	[[ -n ${ROX_QUICK:-} ]] || tap_run "the first removal" remove_times 1 remove_veth
	# Too few tell nothing of memory.
	if ((REMOVE_TIMES < 3)); then
		remove_each $REMOVE_TIMES
	else
		memory_runs "in mid-transfer" $((REMOVE_TIMES / 3)) "removals of each kind" remove_each
	fi
	for what in ${ROX_SURVIVE_KINDS-$survive_kinds}; do
		tap_run "in mid-transfer, $survive_times times, survived: ${what//_/ }" \
			remove_times $survive_times "survive_$what"
	done
	tap_run "the module unloads" module_unload
}

remove_each() {
	local what
	for what in ${ROX_REMOVE_KINDS-$remove_kinds}; do
		tap_run "in mid-transfer, $1 times: ${what//_/ }" remove_times "$1" "remove_$what"
	done
}

# A stage of its own for each time, of which nothing may be left.
remove_times() {
	local times=$1 what=$2 i status=0
	log_mark
	for ((i = 1; i <= times; i++)); do
		stage_set && "$what" || status=1
		jobs -p | xargs -r kill -9 2>/dev/null
		wait
		stage_clear || status=1
		soon 10 module_idle || fail "the module has $(module_users) references" || status=1
		soon 10 rdma_gone "$ROX1" && soon 10 rdma_gone "$ROX2" || status=1
		((status == 0)) || fail "at time $i" || return
	done
	log_check
}

traffic_start_either() {
	local options
	chance_of_events
	traffic_start "$@" "${options[@]}" -q $REMOVE_CONNECTIONS && random_sleep 50
}

# Both devices go, one after the other, and neither end may give up before its own has: a kernel that looks for errors takes
# longer to remove the first one than the retries of a connection last.
traffic_start_patient() {
	traffic_start_either -t 19 -r 7
}

remove_veth() {
	traffic_start_patient && netdev_delete "$NS1" "$DEV1" &&
		traffic_ends "$server" 4 && traffic_ends "$client" 4 &&
		soon 5 rdma_gone "$ROX1" && soon 5 rdma_gone "$OTHER_ROX"
}

remove_link() {
	traffic_start_either && run_limited 8 rdma link delete "$ROX1" &&
		traffic_ends "$server" 4 && traffic_ends "$client" '3|4' && rdma_gone "$ROX1"
}

remove_both_links() {
	traffic_start_either && run_limited 8 rdma link delete "$OTHER_ROX" || return
	rdma_gone "$ROX1" || run_limited 8 rdma link delete "$ROX1" || return
	traffic_ends "$server" '3|4' && traffic_ends "$client" '3|4'
}

# The processes stay in the namespace and keep it alive, but its netdev is deleted by the other
# namespace's end: the name's namespace goes only after them.
remove_namespace() {
	traffic_start_patient && ip netns delete "$NS1" && netdev_delete "$NS2" "$DEV2" &&
		traffic_ends "$server" 4 && traffic_ends "$client" 4 && soon 10 rdma_gone "$ROX1"
}

# The processes run in the first namespace, so that the other one really goes beneath them.
remove_other_namespace() {
	local home1=$NS1 home2=$OTHER_NS status=0
	OTHER_NS=$NS1
	traffic_start_patient && ip netns delete "$home2" && traffic_ends "$client" 4 &&
		traffic_ends "$server" 4 && soon 10 rdma_gone "$OTHER_ROX" || status=1
	NS1=$home1 OTHER_NS=$home2
	return $status
}

remove_netdev_moved() {
	local status=0
	ip netns add life-other && traffic_start_either &&
		run_limited 8 ip -n "$NS1" link set "$DEV1" netns life-other &&
		traffic_ends "$server" 4 && traffic_ends "$client" '3|4' &&
		soon 10 rdma_gone "$ROX1" && netdev_delete life-other "$DEV1" || status=1
	ip netns delete life-other
	return $status
}

# The netdev leaves its namespace, which ends while the device is being removed, and takes its IPv6
# routes along. The processes run in the first one.
remove_namespace_left() {
	local home=$OTHER_NS status=0
	OTHER_NS=$NS1
	traffic_start_either -6 && run_limited 8 ip -n "$home" link set "$DEV2" netns 1 &&
		ip netns delete "$home" && traffic_ends "$client" 4 && traffic_ends "$server" '3|4' &&
		soon 10 rdma_gone "$OTHER_ROX" && run_limited 8 ip link delete "$DEV2" || status=1
	OTHER_NS=$home
	return $status
}

# In use, the module cannot be unloaded, and says so; the traffic goes on.
remove_module_busy() {
	survivor_start || return
	! run_limited 8 modprobe -r "$MODULE" 2>/dev/null || fail "the module was unloaded" || return
	survivor_ends
}

# Under way until survivor_ends; the connection stands 17 seconds of silence.
survivor_start() {
	local options
	chance_of_events
	traffic_start -t 19 -r 7 "${options[@]}"
}

survivor_ends() {
	sleep 0.3
	kill -TERM "$server" "$client" || fail "the traffic is over too early" || return
	traffic_ends "$server" 0 && traffic_ends "$client" 0
}

survive_flap() {
	survivor_start && ip -n "$NS1" link set "$DEV1" down && sleep 0.5 &&
		ip -n "$NS1" link set "$DEV1" up && survivor_ends
}

survive_carrier_flap() {
	survivor_start && ip -n "$NS2" link set "$DEV2" down && sleep 0.5 &&
		ip -n "$NS2" link set "$DEV2" up && survivor_ends
}

# Larger than the netdev can carry packets are lost, until it can again.
survive_mtu() {
	survivor_start && ip -n "$NS1" link set "$DEV1" mtu 1500 && sleep 0.3 &&
		ip -n "$NS1" link set "$DEV1" mtu 9000 && survivor_ends
}

# Another address of the netdev is none of the connection's business.
survive_address() {
	survivor_start && ip -n "$NS1" address add 10.8.8.8/24 dev "$DEV1" && sleep 0.1 &&
		ip -n "$NS1" address delete 10.8.8.8/24 dev "$DEV1" && survivor_ends
}
