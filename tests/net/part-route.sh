# shellcheck shell=bash disable=SC2086
# SPDX-License-Identifier: GPL-2.0
#
# Routes and neighbours change. The peer has an address that is reached through a gateway, which is
# the peer itself, by either of two names.

part_route() {
	stage_begin route route_stage stage_clear
	case_run "the gateway is replaced" route_gateway
	case_full "blackhole, unreachable and a rule for a while; retries exceeded" route_refused
	case_run "a wrong neighbour, and the right one" neighbour_wrong
	case_full "neighbours flushed" neighbour_flushed
	case_run "MACs change" neighbour_mac
	case_run "IPv6: nothing leaves through another netdev" route_elsewhere
	stage_end
}

FAR=10.9.0.2 FAR_6=fd09::2 SECOND=10.0.0.3 SECOND_6=fd00::3
route_stage() {
	stage_set && announces "$NS1" "$DEV1" && announces "$NS2" "$DEV2" &&
		gid_add "$NS2" "$DEV2" "$ROX2" $FAR/32 && gid_add "$NS2" "$DEV2" "$ROX2" $FAR_6/128 &&
		gid_add "$NS2" "$DEV2" "$ROX2" $SECOND/24 &&
		gid_add "$NS2" "$DEV2" "$ROX2" $SECOND_6/64 &&
		ip -n "$NS1" route add $FAR via $IP2 dev "$DEV1" &&
		ip -n "$NS1" route add $FAR_6 via $IP2_6 dev "$DEV1"
}

# A new MAC is announced, as hosts that take over from others do.
announces() {
	ip netns exec "$1" sysctl -q "net.ipv4.conf.$2.arp_notify=1" \
		"net.ipv6.conf.$2.ndisc_notify=1"
}

# Each family's traffic goes to the address behind the gateway; both are treated alike.
flows_start() {
	flow_start v4 $IP1 $FAR "$@" && flow_start v6 $IP1_6 $FAR_6 "$@"
}

flows_advance() {
	flow_advances v4 v6
}

flows_stand() {
	flow_stands v4 && flow_stands v6
}

ip1() {
	ip -n "$NS1" "$@"
}

# route_via GATEWAY GATEWAY_6
route_via() {
	ip1 route replace $FAR via $1 dev "$DEV1" && ip1 -6 route replace $FAR_6 via $2 dev "$DEV1"
}

route_refuse() {
	ip1 route delete $FAR && ip1 route add $1 $FAR && ip1 -6 route delete $FAR_6 &&
		ip1 -6 route add $1 $FAR_6
}

route_restore() {
	ip1 route delete $FAR && ip1 -6 route delete $FAR_6 && route_via $IP2 $IP2_6
}

route_gateway() {
	flows_start $PATIENT && route_via $SECOND $SECOND_6 && flows_advance &&
		route_via 10.0.0.77 fd00::77 && flows_stand && route_via $IP2 $IP2_6 &&
		flows_advance && flow_stop v4 v6
}

# At the end for good.
route_refused() {
	flows_start $PATIENT && route_refuse blackhole && flows_stand && route_restore &&
		flows_advance && flow_start hasty $IP1 $FAR $HASTY && route_refuse unreachable &&
		flows_stand && flow_ends hasty && route_restore && flows_advance &&
		ip1 rule add to $FAR prohibit priority 10 &&
		ip1 -6 rule add to $FAR_6 prohibit priority 10 && flows_stand &&
		ip1 rule delete priority 10 && ip1 -6 rule delete priority 10 && flows_advance &&
		flow_stop v4 v6
}

# Its MAC, state.
neighbour_is() {
	ip1 neighbour replace $IP2 lladdr $1 nud $2 dev "$DEV1" &&
		ip1 neighbour replace $IP2_6 lladdr $1 nud $2 dev "$DEV1"
}

neighbour_wrong() {
	local mac
	mac=$(ip netns exec "$NS2" cat "/sys/class/net/$DEV2/address")
	flows_start $PATIENT && neighbour_is 02:00:00:00:00:77 permanent && flows_stand &&
		neighbour_is $mac reachable && flows_advance && flow_stop v4 v6
}

neighbour_flushed() {
	local i
	flows_start $PATIENT || return
	for ((i = 0; i < 10; i++)); do
		ip1 neighbour flush dev "$DEV1" && ip1 -6 neighbour flush dev "$DEV1" || return
	done
	flows_advance && flow_stop v4 v6
}

neighbour_mac() {
	flows_start $PATIENT && flow_start direct $IP1 $IP2 $PATIENT &&
		ip -n "$NS2" link set "$DEV2" address 02:00:00:00:00:02 &&
		flow_advances v4 v6 direct && ip1 link set "$DEV1" address 02:00:00:00:00:01 &&
		flow_advances v4 v6 direct && flow_stop v4 v6 direct
}

# With no route on its own netdev a path has none, whatever other netdevs offer.
route_elsewhere() {
	local before
	ip1 link add elsewhere type dummy && ip1 link set elsewhere up &&
		flow_start v6 $IP1_6 $IP2_6 $PATIENT && ip1 -6 route delete fd00::/64 dev "$DEV1" &&
		ip1 -6 route add default dev elsewhere && flow_stands v6 || return
	before=$(elsewhere_packets)
	sleep 6
	(($(elsewhere_packets) < before + 5)) ||
		flow_fail v6 "leaves through another netdev" || return
	ip1 -6 route delete default dev elsewhere && ip1 -6 route add fd00::/64 dev "$DEV1" &&
		flow_advances v6 && flow_stop v6 && ip1 link delete elsewhere
}

elsewhere_packets() {
	ip netns exec "$NS1" cat /sys/class/net/elsewhere/statistics/tx_packets
}
