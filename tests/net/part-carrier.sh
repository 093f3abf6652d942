# shellcheck shell=bash disable=SC2086
# SPDX-License-Identifier: GPL-2.0
#
# The link goes away and comes back.

part_carrier() {
	stage_begin carrier stage_set stage_clear
	case_run "lost and back: no error" carrier_away
	case_full "netdev down and up: no error" carrier_down
	case_full "a link that flaps: no error" carrier_flaps
	case_full "lost for longer than ARP tries: clients of the CM hear nothing of it" carrier_cm
	stage_end
}

# The end that is set down loses its own IPv6 addresses with it, unless told otherwise.
keep_addresses() {
	ip netns exec "$1" sysctl -q "net.ipv6.conf.$2.keep_addr_on_down=1"
}

carrier_away() {
	keep_addresses "$NS2" "$DEV2" && flow_start v4 $IP1 $IP2 $PATIENT &&
		flow_start v6 $IP1_6 $IP2_6 $PATIENT && event_watch &&
		ip -n "$NS2" link set "$DEV2" down && soon 5 port_is "$ROX1" DOWN &&
		event_seen port.err && flow_stands v4 && flow_stands v6 &&
		ip -n "$NS2" link set "$DEV2" up && soon 5 port_is "$ROX1" ACTIVE &&
		event_seen port.active && flow_advances v4 v6 && flow_stop v4 v6
}

carrier_down() {
	flow_start v4 $IP1 $IP2 $PATIENT && flow_start v6 $IP1_6 $IP2_6 $PATIENT &&
		ip -n "$NS1" link set "$DEV1" down && soon 5 port_is "$ROX1" DOWN &&
		flow_stands v4 && flow_stands v6 && ip -n "$NS1" link set "$DEV1" up &&
		soon 5 port_is "$ROX1" ACTIVE && flow_advances v4 &&
		gid_add "$NS1" "$DEV1" "$ROX1" $IP1_6/64 && flow_advances v6 && flow_stop v4 v6
}

carrier_flaps() {
	local i
	keep_addresses "$NS2" "$DEV2" && flow_start v4 $IP1 $IP2 $PATIENT &&
		flow_start v6 $IP1_6 $IP2_6 $PATIENT || return
	for ((i = 0; i < 10; i++)); do
		ip -n "$NS2" link set "$DEV2" down && sleep 0.05 &&
			ip -n "$NS2" link set "$DEV2" up && sleep 0.05 || return
	done
	flow_advances v4 v6 && flow_stop v4 v6
}

cm_listens() {
	rdma resource show cm_id | grep -q 'state LISTEN'
}

ping_beyond() {
	(($(grep -c '^ping data' "$ROX_TMP/ping") > $1))
}

# For a neighbour that cannot be resolved the RDMA core reports RDMA_CM_EVENT_UNREACHABLE. That takes 3 s as a rule,
# here 0.3 s, so that it comes long before the retries of rping end.
carrier_cm() {
	local server client count status=0
	ip netns exec "$NS1" rping -s -a $IP1 -P >"$ROX_TMP/pong" 2>&1 &
	server=$!
	soon 10 cm_listens && in2 sysctl -q "net.ipv4.neigh.$DEV2.retrans_time_ms=100" || status=1
	ip netns exec "$NS2" stdbuf -oL rping -c -v -a $IP1 -C 1000000 >"$ROX_TMP/ping" 2>&1 &
	client=$!
	soon 20 ping_beyond 10 && ip -n "$NS1" link set "$DEV1" down && sleep 1.5 &&
		ip -n "$NS1" link set "$DEV1" up && count=$(grep -c '^ping data' "$ROX_TMP/ping") &&
		soon 20 ping_beyond $((count + 20)) && ! grep UNREACHABLE "$ROX_TMP/ping" || status=1
	tail -n 3 "$ROX_TMP/pong"
	grep -v '^ping data' "$ROX_TMP/ping"
	kill -9 $client $server
	wait $client $server 2>/dev/null
	return $status
}
