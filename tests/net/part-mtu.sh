# shellcheck shell=bash disable=SC2086,SC2015
# SPDX-License-Identifier: GPL-2.0
#
# The netdev's MTU falls below the path MTU of running queue pairs, whose packets are lost then.

part_mtu() {
	stage_begin MTU stage_set stage_clear
	case_run "below the path MTU and back: waits, a new connection has the smaller MTU" mtu_low
	case_run "stays below the path MTU: retries exceeded" mtu_lost
	case_run "below 1280 and back: IPv6 and its addresses come and go" mtu_no_ipv6
	case_run "below what RoCE needs and back: no port, and again" mtu_no_port
	case_run "changed all the time" mtu_churn
	stage_end
}

mtu_set() {
	ip -n "$NS1" link set "$DEV1" mtu $1 && soon 5 active_mtu_is $2 ||
		fail "MTU $1: $(in1 ibv_devinfo -d "$ROX1" | grep active_mtu)"
}

mtu_low() {
	flow_start large $IP1 $IP2 $PATIENT && flow_start large6 $IP1_6 $IP2_6 $PATIENT &&
		mtu_set 1500 1024 && ip -n "$NS2" link set "$DEV2" mtu 1500 && flow_stands large &&
		flow_stands large6 && flow_start small $IP1 $IP2 $PATIENT && flow_advances small &&
		ip -n "$NS2" link set "$DEV2" mtu 9000 && mtu_set 9000 4096 &&
		flow_advances large large6 small && flow_stop large large6 small
}

mtu_lost() {
	flow_start large $IP1 $IP2 $HASTY && mtu_set 1500 1024 && flow_ends large &&
		mtu_set 9000 4096 && flow_start again $IP1 $IP2 $HASTY && flow_advances again &&
		flow_stop again
}

mtu_no_ipv6() {
	flow_start v4 $IP1 $IP2 $PATIENT && flow_start v6 $IP1_6 $IP2_6 $PATIENT &&
		mtu_set 1000 512 && soon 10 gid_not_in "$ROX1" "$(gid_text $IP1_6)" &&
		flow_stands v4 && flow_stands v6 && mtu_set 9000 4096 && flow_advances v4 &&
		gid_add "$NS1" "$DEV1" "$ROX1" $IP1_6/64 && flow_advances v6 && flow_stop v4 v6
}

mtu_no_port() {
	flow_start v4 $IP1 $IP2 $PATIENT && ip -n "$NS1" link set "$DEV1" mtu 200 &&
		soon 5 port_is "$ROX1" DOWN && flow_stands v4 && mtu_set 9000 4096 &&
		soon 5 port_is "$ROX1" ACTIVE && gid_add "$NS1" "$DEV1" "$ROX1" $IP1_6/64 &&
		flow_advances v4 && flow_stop v4
}

mtu_churn() {
	local mtu
	flow_start large $IP1 $IP2 $PATIENT && flow_start large6 $IP1_6 $IP2_6 $PATIENT || return
	for mtu in 8000 1500 9000 4096 4200 1300 9000 2000 5000 1500 9000; do
		ip -n "$NS1" link set "$DEV1" mtu $mtu && sleep 0.05 || return
	done
	flow_advances large large6 && flow_stop large large6
}
