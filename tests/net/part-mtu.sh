# shellcheck shell=bash disable=SC2086,SC2015
# SPDX-License-Identifier: GPL-2.0
#
# The netdev's MTU falls below the path MTU of running queue pairs, whose packets are lost then; the MTU of
# connections by the CM.

part_mtu() {
	stage_begin MTU stage_set stage_clear
	case_run "below the path MTU and back: waits, a new connection has the smaller MTU" mtu_low
	case_run "stays below the path MTU: retries exceeded" mtu_lost
	case_run "below 1280 and back: IPv6 and its addresses come and go" mtu_no_ipv6
	case_run "below what RoCE needs and back: no port, and again" mtu_no_port
	case_run "changed all the time" mtu_churn
	case_run "CM, the server's is smaller: the connection has that" mtu_agreed "$NS1" "$DEV1"
	case_run "CM, the client's is smaller: the connection has that" mtu_agreed "$NS2" "$DEV2"
	case_run "CM, the server's VLAN has a smaller one: the connection has that" mtu_vlan
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

# -- connections by the CM -----------------------------------------------------

cm_talks() {
	local size=$1 server=$2 program
	run_pair -t 20 -- rping -s -a "$server" -C 2 -S "$size" -- rping -c -a "$server" -C 2 -S "$size" || return
	for program in ib_send_bw ib_read_bw; do
		run_pair -t 20 -- $program -R -d "$ROX1" -s 65536 -n 20 -- \
			$program -R -d "$ROX2" -s 65536 -n 20 "$server" || return
	done
}

mtu_agreed() {
	ip -n "$1" link set "$2" mtu 1500 && cm_talks 6000 $IP1 && ip -n "$1" link set "$2" mtu 9000
}

mtu_vlan() {
	local end
	for end in 1 2; do
		ip -n ns$end link add v5 link veth$((end - 1)) type vlan id 5 &&
			ip -n ns$end address add 10.5.0.$end/24 dev v5 && ip -n ns$end link set v5 up || return
	done
	ip -n "$NS1" link set v5 mtu 1500 && cm_talks 6000 10.5.0.1 && ip -n "$NS1" link delete v5 &&
		ip -n "$NS2" link delete v5
}
