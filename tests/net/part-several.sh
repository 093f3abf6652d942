# shellcheck shell=bash disable=SC2086,SC2015,SC2154
# SPDX-License-Identifier: GPL-2.0
#
# Several devices on one netdev, and devices on macvlans and ipvlans in namespaces of their own.

part_several() {
	stage_begin several several_stage several_clear
	case_run "each has the addresses, a GUID and traffic of its own" several_flows
	case_run "they talk to each other by the netdev's address" several_between
	case_full "port events of the netdev come to both" several_events
	case_run "RDMA CM, as listener and as client" several_cm
	case_full "one removed: the other's traffic and RDMA CM go on" several_removed
	case_run "the netdev deleted: both go" several_netdev
	case_run "the name in parent follows the netdev's" several_parent
	stage_end
}

part_macvlan() {
	several_pods macvlan bridge
}

part_ipvlan() {
	several_pods ipvlan l2
}

ROX3=rox2

several_stage() {
	stage_set && link_add "$NS1" "$ROX3" "$DEV1" && soon 10 gid_in "$ROX3" "$(gid_text $IP1_6)"
}

several_clear() {
	local status=0
	link_leaves "$ROX3" || status=1
	stage_clear || status=1
	return $status
}

attribute_of() {
	cat "/sys/class/infiniband/$1/$2"
}

# Counters of a netdev: namespace, netdev, name.
netdev_count() {
	ip netns exec "$1" cat "/sys/class/net/$2/statistics/$3"
}

several_flows() {
	[[ $(attribute_of "$ROX1" parent) == "$DEV1" && $(attribute_of "$ROX3" parent) == "$DEV1" ]] &&
		[[ $(attribute_of "$ROX1" node_guid) != "$(attribute_of "$ROX3" node_guid)" ]] &&
		[[ $(gids_of "$ROX1" | sort) == "$(gids_of "$ROX3" | sort)" ]] &&
		flow_start first $IP1 $IP2 $PATIENT && ROX1=$ROX3 flow_start second $IP1 $IP2 $PATIENT &&
		flow_start first6 $IP1_6 $IP2_6 $PATIENT &&
		ROX1=$ROX3 flow_start second6 $IP1_6 $IP2_6 $PATIENT &&
		flow_advances first second first6 second6 && flow_stop first second first6 second6
}

# Not by the way for two QPs of one device: the frames go over lo.
several_between() {
	local before
	before=$(netdev_count "$NS1" lo rx_packets)
	NS2=$NS1 ROX2=$ROX3 flow_start between $IP1 $IP1 $PATIENT && flow_advances between &&
		(($(netdev_count "$NS1" lo rx_packets) > before + 40)) && flow_stop between
}

downs_are() {
	[[ $(<"/sys/class/infiniband/$ROX1/ports/1/counters/link_downed") == "$1" &&
		$(<"/sys/class/infiniband/$ROX3/ports/1/counters/link_downed") == "$1" ]]
}

several_events() {
	downs_are 0 && event_watch && ip -n "$NS2" link set "$DEV2" down &&
		soon 5 port_is "$ROX1" DOWN && soon 5 port_is "$ROX3" DOWN && event_seen PORT_ERR &&
		downs_are 1 && ip -n "$NS2" link set "$DEV2" up && soon 5 port_is "$ROX1" ACTIVE &&
		soon 5 port_is "$ROX3" ACTIVE && event_seen PORT_ACTIVE && downs_are 1 &&
		gid_add "$NS2" "$DEV2" "$ROX2" "$IP2_6/64" &&
		ip -n "$NS1" link set "$DEV1" mtu 1500 && soon 5 active_mtu_is 1024 &&
		ROX1=$ROX3 soon 5 active_mtu_is 1024 && ip -n "$NS1" link set "$DEV1" mtu 9000 &&
		ROX1=$ROX3 soon 5 active_mtu_is 4096
}

cm_pair() {
	run_pair -- rping -s -a "$1" -C 5 -v -- rping -c -a "$1" -C 5 -v
}

# The listener is in the first namespace, then it is the client that is.
several_cm() {
	cm_pair $IP1 && cm_pair $IP1_6 &&
		run_pair -- rping -s -a 0.0.0.0 -C 5 -v -- rping -c -a $IP1 -C 5 -v &&
		several_cm_back
}

several_cm_back() {
	local client=$NS1 server=$NS2
	NS1=$server NS2=$client cm_pair $IP2
}

several_removed() {
	local sent
	ROX1=$ROX3 flow_start second $IP1 $IP2 $PATIENT && rdma link delete "$ROX1" &&
		flow_advances second && sent=$(counter_of "$ROX3" tx_pkts) && cm_pair $IP1 &&
		(($(counter_of "$ROX3" tx_pkts) > sent)) && flow_advances second &&
		link_add "$NS1" "$ROX1" "$DEV1" && flow_start first $IP1 $IP2 $PATIENT &&
		flow_advances first second && cm_pair $IP1 && flow_stop first second
}

several_netdev() {
	netdev_delete "$NS1" "$DEV1" && soon 10 rdma_gone "$ROX1" && soon 10 rdma_gone "$ROX3" &&
		several_clear && several_stage
}

several_parent() {
	ip -n "$NS1" link add named0 type dummy &&
		ip netns exec "$NS1" rdma link add rox-named type rox netdev named0 &&
		[[ $(attribute_of rox-named parent) == named0 ]] &&
		ip -n "$NS1" link set named0 name other0 &&
		[[ $(attribute_of rox-named parent) == other0 ]] &&
		ip -n "$NS1" link delete other0 && soon 10 rdma_gone rox-named
}

# -- devices on netdevs stacked on one -----------------------------------------

POD1=pod1 POD2=pod2 P1=10.0.0.11 P2=10.0.0.12 P1_6=fd00::11 P2_6=fd00::12

several_pods() {
	pod_kind=$1 pod_mode=$2
	stage_begin "$1" pods_stage pods_clear
	case_run "each device has its netdev's addresses and no other's" pods_gids
	case_run "between two on one netdev: frames go over them" pods_between
	case_run "with an outer host, beside the device below" pods_outer
	case_run "RDMA CM takes the pod's own device" pods_cm
	case_run "a pod ends: its device goes, the others' traffic goes on" pods_end
	stage_end
}

# pod_add NAMESPACE ROX IPV4 IPV6
pod_add() {
	ip netns add "$1" && ip -n "$NS1" link add link "$DEV1" name up0 netns "$1" mtu 9000 \
		type $pod_kind mode $pod_mode && net_end "$1" up0 "$3" "$4" && link_add "$1" "$2" up0 &&
		soon 10 gid_in "$2" "$(gid_text "$4")"
}

pods_stage() {
	modprobe $pod_kind && stage_set && pod_add $POD1 rox-p1 $P1 $P1_6 &&
		pod_add $POD2 rox-p2 $P2 $P2_6
}

pod_clear() {
	[[ ! -e /run/netns/$1 ]] || ip netns delete "$1"
	soon 10 rdma_gone "$2"
}

pods_clear() {
	local status=0
	pod_clear $POD1 rox-p1 || status=1
	pod_clear $POD2 rox-p2 || status=1
	stage_clear || status=1
	return $status
}

pods_gids() {
	local name guids
	for name in "$ROX1" rox-p2; do
		gid_not_in "$name" "$(gid_text $P1)" && gid_not_in "$name" "$(gid_text $P1_6)" ||
			fail "$name has an address of rox-p1's: $(gids_of "$name")" || return
	done
	gid_not_in rox-p1 "$(gid_text $IP1)" && gid_in rox-p1 "$(gid_text $P1)" || return
	guids=$(for name in "$ROX1" rox-p1 rox-p2; do attribute_of $name node_guid; done | sort -u)
	(($(wc -l <<<"$guids") == 3)) || fail "GUIDs: $guids"
}

pods_between() {
	local sent received
	sent=$(netdev_count $POD1 up0 tx_packets) received=$(netdev_count $POD2 up0 rx_packets)
	pod_flow between rox-p1 rox-p2 $POD2 $P1 $P2 && pod_flow between6 rox-p1 rox-p2 $POD2 $P1_6 $P2_6 &&
		flow_advances between between6 && (($(netdev_count $POD1 up0 tx_packets) > sent + 40)) &&
		(($(netdev_count $POD2 up0 rx_packets) > received + 40)) && flow_stop between between6
}

# pod_flow NAME ROX1 ROX2 NS2 ADDRESS1 ADDRESS2
pod_flow() {
	NS1=$POD1 ROX1=$2 ROX2=$3 NS2=$4 flow_start "$1" "$5" "$6" $PATIENT
}

pods_outer() {
	local sent received
	sent=$(netdev_count $POD1 up0 tx_packets) received=$(netdev_count "$NS2" "$DEV2" rx_packets)
	flow_start host $IP1 $IP2 $PATIENT && pod_flow outer rox-p1 "$ROX2" "$NS2" $P1 $IP2 &&
		pod_flow outer6 rox-p1 "$ROX2" "$NS2" $P1_6 $IP2_6 && flow_advances host outer outer6 &&
		(($(netdev_count $POD1 up0 tx_packets) > sent + 40)) &&
		(($(netdev_count "$NS2" "$DEV2" rx_packets) > received + 80)) &&
		flow_stop host outer outer6
}

pods_cm() {
	local before below
	before=$(counter_of rox-p1 tx_pkts) below=$(counter_of "$ROX1" tx_pkts)
	NS1=$POD1 cm_pair $P1 && NS1=$POD1 NS2=$POD2 cm_pair $P1_6 &&
		(($(counter_of rox-p1 tx_pkts) > before + 20)) &&
		[[ $(counter_of "$ROX1" tx_pkts) == "$below" ]]
}

pods_end() {
	flow_start host $IP1 $IP2 $PATIENT && pod_flow outer rox-p1 "$ROX2" "$NS2" $P1 $IP2 &&
		pod_clear $POD2 rox-p2 && flow_advances host outer && pod_add $POD2 rox-p2 $P2 $P2_6 &&
		pod_flow between rox-p1 rox-p2 $POD2 $P1 $P2 && flow_advances host outer between &&
		flow_stop host outer between
}
