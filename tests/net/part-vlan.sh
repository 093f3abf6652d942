# shellcheck shell=bash disable=SC2086
# SPDX-License-Identifier: GPL-2.0
#
# VLANs on the netdev: as addresses of the device below, and as netdevs with devices of their own.

part_vlan() {
	stage_begin VLAN vlan_stage stage_clear
	case_run "tagged; a VLAN down and up, the others go on" vlan_down
	case_full "carrier of the netdev below lost and back" vlan_carrier
	case_full "MTU of a VLAN below what IP needs and back: its addresses go and come" vlan_no_ip
	case_full "a VLAN deleted: retries exceeded, the others go on" vlan_deleted
	case_run "devices on the VLANs" vlan_devices
	case_run "device on a VLAN: VLAN and netdev below go and come back" vlan_own
	stage_end
}

V1=10.100.0.1 V2=10.100.0.2 W1=10.200.0.1 W2=10.200.0.2 V1_6=fd10::1 V2_6=fd10::2
vlan_add() {
	ip -n "$1" link add link "$2" name "vlan$3" type vlan id "$3" &&
		ip netns exec "$1" sysctl -q "net.ipv6.conf.vlan$3.keep_addr_on_down=1" &&
		ip -n "$1" link set "vlan$3" up
}

vlan_stage() {
	stage_set && vlan_add "$NS1" "$DEV1" 100 && vlan_add "$NS1" "$DEV1" 200 &&
		vlan_add "$NS2" "$DEV2" 100 && vlan_add "$NS2" "$DEV2" 200 &&
		gid_add "$NS1" vlan100 "$ROX1" $V1/24 && gid_add "$NS2" vlan100 "$ROX2" $V2/24 &&
		gid_add "$NS1" vlan100 "$ROX1" $V1_6/64 && gid_add "$NS2" vlan100 "$ROX2" $V2_6/64 &&
		gid_add "$NS1" vlan200 "$ROX1" $W1/24 && gid_add "$NS2" vlan200 "$ROX2" $W2/24
}

vlan_flows() {
	flow_start plain $IP1 $IP2 $PATIENT && flow_start v100 $V1 $V2 "$@" &&
		flow_start v100_6 $V1_6 $V2_6 "$@" && flow_start v200 $W1 $W2 $PATIENT
}

vlan_packets() {
	ip netns exec "$NS2" cat "/sys/class/net/$1/statistics/rx_packets"
}

# What is sent on a VLAN is tagged with it.
vlan_down() {
	local before
	before=$(vlan_packets vlan100)
	vlan_flows $PATIENT && (($(vlan_packets vlan100) > before + 40)) &&
		ip -n "$NS1" link set vlan100 down && flow_stands v100 && flow_stands v100_6 &&
		flow_advances plain v200 && ip -n "$NS1" link set vlan100 up &&
		flow_advances v100 v100_6 && flow_stop plain v100 v100_6 v200
}

vlan_carrier() {
	vlan_flows $PATIENT && ip -n "$NS2" link set "$DEV2" down && flow_stands v100 &&
		flow_stands v200 && ip -n "$NS2" link set "$DEV2" up &&
		ip -n "$NS2" link set vlan100 up && ip -n "$NS2" link set vlan200 up &&
		flow_advances plain v100 v100_6 v200 && flow_stop plain v100 v100_6 v200
}

vlan_no_ip() {
	vlan_flows $PATIENT && ip -n "$NS1" link set vlan100 mtu 67 &&
		soon 10 gid_not_in "$ROX1" "$(gid_text $V1)" && flow_stands v100 &&
		flow_advances plain v200 && ip -n "$NS1" link set vlan100 mtu 9000 &&
		gid_add "$NS1" vlan100 "$ROX1" $V1/24 && gid_add "$NS1" vlan100 "$ROX1" $V1_6/64 &&
		flow_advances v100 v100_6 && flow_stop plain v100 v100_6 v200
}

vlan_deleted() {
	vlan_flows $HASTY && run_limited 8 ip -n "$NS1" link delete vlan100 && flow_ends v100 &&
		flow_ends v100_6 && flow_advances plain v200 && vlan_add "$NS1" "$DEV1" 100 &&
		gid_add "$NS1" vlan100 "$ROX1" $V1/24 && gid_add "$NS1" vlan100 "$ROX1" $V1_6/64 &&
		flow_start again $V1 $V2 $PATIENT && flow_advances again plain v200 &&
		flow_stop again plain v200
}

vlan_devices() {
	rdma link delete "$ROX1" && rdma link delete "$ROX2" &&
		link_add "$NS1" "$ROX1" vlan100 && link_add "$NS2" "$ROX2" vlan100 &&
		gid_not_in "$ROX1" "$(gid_text $IP1)" && soon 5 gid_in "$ROX1" "$(gid_text $V1_6)"
}

vlan_own() {
	flow_start own $V1 $V2 $PATIENT && flow_start own6 $V1_6 $V2_6 $PATIENT &&
		ip -n "$NS1" link set vlan100 down && soon 5 port_is "$ROX1" DOWN &&
		flow_stands own && flow_stands own6 && ip -n "$NS1" link set vlan100 up &&
		soon 5 port_is "$ROX1" ACTIVE && flow_advances own own6 &&
		ip -n "$NS1" link set "$DEV1" mtu 1500 && soon 5 active_mtu_is 1024 &&
		flow_stands own && ip -n "$NS1" link set "$DEV1" mtu 9000 &&
		ip -n "$NS1" link set vlan100 mtu 9000 && flow_advances own own6 &&
		ip -n "$NS2" link set "$DEV2" down && soon 5 port_is "$ROX1" DOWN &&
		flow_stands own && ip -n "$NS2" link set "$DEV2" up &&
		ip -n "$NS2" link set vlan100 up && soon 5 port_is "$ROX1" ACTIVE &&
		flow_advances own own6 && flow_stop own own6
}
