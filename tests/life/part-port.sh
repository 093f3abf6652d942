# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# The port follows its netdev: state, events, MTU, addresses.

part_port() {
	tap_run "stage" stage_set
	leak_mark
	tap_run "netdev down and up: port state and events" port_down_up
	tap_run "carrier lost and back: port state" port_carrier
	tap_run "MTU of the netdev: active_mtu" port_mtu
	tap_run "addresses come and go: GID table" port_gids
	tap_run "speed of the port is known" port_speed
	tap_run "no leak" leak_check
	tap_run "stage cleared" stage_clear
	tap_run "the module unloads" module_unload
}

port_state() {
	in1 rdma link show "$ROX1/1" | grep -q "state $1"
}

port_down_up() {
	local events=$ROX_TMP/events watcher status=0
	# Not in1: the process that is killed must be the program, not a shell before it.
	ip netns exec "$NS1" ibv_asyncwatch -d "$ROX1" >"$events" 2>&1 &
	watcher=$!
	soon 10 grep -qs 'async event FD' "$events" || status=1
	ip -n "$NS1" link set "$DEV1" down
	soon 5 port_state DOWN || { echo "not down:"; rdma link; status=1; }
	ip -n "$NS1" link set "$DEV1" up
	soon 5 port_state ACTIVE || { echo "not active:"; rdma link; status=1; }
	soon 5 grep -qi 'event_type .*port.active' "$events" || status=1
	grep -qi 'event_type .*port.err' "$events" || status=1
	kill "$watcher"
	wait "$watcher" 2>/dev/null
	((status == 0)) || cat "$events"
	return $status
}

# The other end of the veth pair is this one's carrier.
port_carrier() {
	ip -n "$NS2" link set "$DEV2" down && soon 5 port_state DOWN || fail "not down" || return
	ip -n "$NS2" link set "$DEV2" up && soon 5 port_state ACTIVE || fail "not active"
}

# RoCE takes the largest of its own MTUs that leaves room for its headers.
port_mtu() {
	local pair netdev_mtu active
	for pair in 1500:1024 4200:4096 9000:4096 1280:1024 2200:2048 700:512 9000:4096; do
		netdev_mtu=${pair%:*} active=${pair#*:}
		ip -n "$NS1" link set "$DEV1" mtu "$netdev_mtu" || return
		soon 5 active_mtu_is "$active" ||
			fail "MTU $netdev_mtu: $(in1 ibv_devinfo -d "$ROX1" | grep active_mtu)" ||
			return
	done
}

gid_there() {
	gids_of "$ROX1" | grep -q "$1"
}

gid_not_there() {
	! gid_there "$1"
}

port_gids() {
	local v4=ffff:0a09:0101 v6=fd00:0000:0000:0000:0000:0000:0000:0077
	ip -n "$NS1" address add 10.9.1.1/24 dev "$DEV1" &&
		ip -n "$NS1" address add fd00::77/64 dev "$DEV1" nodad &&
		soon 5 gid_there $v4 && soon 5 gid_there $v6 || fail "no GIDs: $(gids_of "$ROX1")" ||
		return
	ip -n "$NS1" address delete 10.9.1.1/24 dev "$DEV1" &&
		ip -n "$NS1" address delete fd00::77/64 dev "$DEV1" &&
		soon 5 gid_not_there $v4 && soon 5 gid_not_there $v6 || fail "GIDs stay"
}

port_speed() {
	in1 ibv_devinfo -v -d "$ROX1" | grep -E 'active_(width|speed)' | grep -qv invalid &&
		! in1 ibv_devinfo -v -d "$ROX1" | grep -E 'active_(width|speed)' | grep -i invalid
}
