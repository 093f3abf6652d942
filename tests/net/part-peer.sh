# shellcheck shell=bash disable=SC2086,SC2015,SC2153,SC2154
# SPDX-License-Identifier: GPL-2.0
#
# The peer goes away without a word: it is killed, it boots again, another host takes over its address.
# Who is left is told in the time that its ACK timeout and retries promise, and what is new works.
# Hosts are namespaces at a bridge, so that nobody loses its own carrier.

NS_SWITCH=net-switch NS3=net-host3 DEV3=veth3 ROX3=rox2
# Six timeouts of two seconds: another host is there before.
STEADY='-t 19 -r 5'

part_peer() {
	stage_begin peer peer_stage peer_clear
	case_run "killed: the other end is told in its time" peer_killed
	case_run "boots again: lost in its time, and a new connection" peer_boots
	case_full "replaced by another with its address: refused there, and a new connection" peer_replaced
	stage_end
}

# A cable to the bridge, whose end there is still down: namespace, netdev.
peer_cable() {
	ip link add "$2" netns "$1" mtu 9000 type veth peer name "port-$2" netns "$NS_SWITCH" mtu 9000 &&
		ip -n "$NS_SWITCH" link set "port-$2" master br0
}

# Namespace, netdev, addresses.
peer_joins() {
	peer_cable "$1" "$2" && ip -n "$NS_SWITCH" link set "port-$2" up && net_end "$1" "$2" "$3" "$4"
}

peer_stage() {
	modprobe -a veth bridge && module_load && ns1_add && ip netns add "$NS_SWITCH" &&
		ip -n "$NS_SWITCH" link add br0 mtu 9000 type bridge &&
		ip -n "$NS_SWITCH" link set br0 up &&
		peer_joins "$NS1" "$DEV1" $IP1 $IP1_6 && link_add "$NS1" "$ROX1" "$DEV1" &&
		peer_arrives "$NS2" "$DEV2" "$ROX2"
}

# A host with the peer's addresses: namespace, netdev, device.
peer_arrives() {
	ip netns add "$1" && peer_joins "$1" "$2" $IP2 $IP2_6 && link_add "$1" "$3" "$2"
}

peer_leaves() {
	link_leaves "$3" || return
	netdev_gone "$1" "$2" || netdev_delete "$1" "$2" || return
	[[ ! -e /run/netns/$1 ]] || ip netns delete "$1"
}

peer_clear() {
	peer_leaves "$NS3" "$DEV3" "$ROX3" && peer_leaves "$NS2" "$DEV2" "$ROX2" &&
		peer_leaves "$NS1" "$DEV1" "$ROX1" && ip netns delete "$NS_SWITCH"
}

peer_works() {
	flow_start "$1" $IP1 $IP2 $PATIENT && flow_advances "$1" && flow_stop "$1"
}

# The first end of a flow, whose other one is gone, is told so, and not before a timeout for each try:
# flow, milliseconds at least.
peer_lost() {
	local first=${flow_pids[$1]%% *} status=0 took
	soon $LIMIT process_gone "$first" || flow_fail "$1" "does not end" || return
	took=$((($(date +%s%N) - killed) / 1000000))
	wait "$first" || status=$?
	unset "flow_pids[$1]"
	grep -q 'lost: transport retry counter exceeded' "$ROX_TMP/$1.1" && ((status == 3)) ||
		flow_fail "$1" "ended with status $status: $(tail -n 1 "$ROX_TMP/$1.1")" || return
	((took >= $2 && took < 3000 * ROX_PATIENCE)) || fail "it took $took ms"
}

peer_dies() {
	killed=$(date +%s%N)
	kill -9 "${flow_pids[$1]##* }"
	wait "${flow_pids[$1]##* }" 2>/dev/null
}

# Four times 134 ms, or more: later timeouts may last longer.
peer_killed() {
	local killed
	flow_start killed $IP1 $IP2 $HASTY || return
	peer_dies killed
	peer_lost killed 500 && peer_works again
}

peer_boots() {
	local killed
	flow_start boots $IP1 $IP2 $HASTY && ip -n "$NS_SWITCH" link set "port-$DEV2" down || return
	peer_dies boots
	peer_leaves "$NS2" "$DEV2" "$ROX2" && peer_lost boots 500 &&
		peer_arrives "$NS2" "$DEV2" "$ROX2" && peer_works booted
}

peer_forwards() {
	bridge -n "$NS_SWITCH" link show dev "port-$1" | grep -q 'state forwarding'
}

# The other host knows nothing of the connection, and says nothing. All of it is ready before, but for
# its cable; then it tells everybody that the address is now that of its MAC.
peer_replaced() {
	local unknown
	ip netns add "$NS3" && peer_cable "$NS3" "$DEV3" && net_end "$NS3" "$DEV3" $IP2 $IP2_6 &&
		link_add "$NS3" "$ROX3" "$DEV3" &&
		ip netns exec "$NS3" sysctl -q "net.ipv4.conf.$DEV3.arp_notify=1" &&
		unknown=$(counter_of "$ROX3" rx_no_qp) && flow_start old $IP1 $IP2 $STEADY || return
	ip -n "$NS_SWITCH" link set "port-$DEV2" down &&
		ip -n "$NS_SWITCH" link set "port-$DEV3" up && soon 10 peer_forwards "$DEV3" &&
		ip -n "$NS3" link set "$DEV3" address 02:00:00:00:03:03 && flow_ends old || return
	(($(counter_of "$ROX3" rx_no_qp) > unknown)) || fail "nothing came to the other host" || return
	NS2=$NS3 DEV2=$DEV3 ROX2=$ROX3 peer_works new && peer_leaves "$NS3" "$DEV3" "$ROX3"
}
