# shellcheck shell=bash disable=SC2086,SC2015
# SPDX-License-Identifier: GPL-2.0
#
# Active-backup bonds over two veth pairs: the active one fails beneath the traffic.

part_bond() {
	stage_begin bond bond_stage bond_clear
	case_run "the active member loses its carrier: no error" bond_failover
	case_full "another member is made the active one: no error" bond_switch
	case_run "devices on members of the bonds" bond_members
	case_full "device on a member: the bond fails over to the other, no error" bond_failover
	stage_end
}

# Namespace, addresses. MTU first: members take it from the bond.
bond_end() {
	ip -n "$1" link add bond0 type bond mode active-backup miimon 50 &&
		ip -n "$1" link set bond0 mtu 9000 && ip -n "$1" link set left down &&
		ip -n "$1" link set right down && ip -n "$1" link set left master bond0 &&
		ip -n "$1" link set right master bond0 && net_end "$1" bond0 "$2" "$3"
}

bond_stage() {
	modprobe veth && ns1_add && ip netns add "$NS2" && module_load &&
		ip link add left netns "$NS1" type veth peer name left netns "$NS2" &&
		ip link add right netns "$NS1" type veth peer name right netns "$NS2" &&
		bond_end "$NS1" $IP1 $IP1_6 && bond_end "$NS2" $IP2 $IP2_6 &&
		link_add "$NS1" "$ROX1" bond0 && link_add "$NS2" "$ROX2" bond0 &&
		soon 10 port_is "$ROX1" ACTIVE && soon 10 port_is "$ROX2" ACTIVE
}

bond_clear() {
	rdma link delete "$ROX1" && rdma link delete "$ROX2" &&
		run_limited 8 ip -n "$NS1" link delete bond0 &&
		run_limited 8 ip -n "$NS2" link delete bond0 && netdev_delete "$NS1" left &&
		netdev_delete "$NS1" right && ip netns delete "$NS1" && ip netns delete "$NS2"
}

bond_active() {
	[[ $(ip netns exec "$1" cat /sys/class/net/bond0/bonding/active_slave) == "$2" ]]
}

# Takes a member's carrier away from both ends, which go over to the other one.
bond_fail() {
	ip -n "$NS2" link set "$1" down && soon 10 bond_active "$NS1" "$2" &&
		soon 10 bond_active "$NS2" "$2" || fail "the bond stays with $1"
}

bond_repair() {
	ip -n "$NS2" link set "$1" up && soon 10 bond_up "$NS1" "$1" && soon 10 bond_up "$NS2" "$1"
}

bond_up() {
	ip netns exec "$1" grep -A 1 "Slave Interface: $2" /proc/net/bonding/bond0 |
		grep -q 'MII Status: up'
}

bond_failover() {
	flow_start v4 $IP1 $IP2 $PATIENT && flow_start v6 $IP1_6 $IP2_6 $PATIENT &&
		bond_fail left right && flow_advances v4 v6 && bond_repair left &&
		bond_fail right left && flow_advances v4 v6 && bond_repair right &&
		flow_stop v4 v6
}

bond_switch() {
	local member
	flow_start v4 $IP1 $IP2 $PATIENT && flow_start v6 $IP1_6 $IP2_6 $PATIENT || return
	for member in right left right left; do
		ip -n "$NS1" link set bond0 type bond active_slave $member &&
			ip -n "$NS2" link set bond0 type bond active_slave $member &&
			flow_advances v4 v6 || return
	done
	flow_stop v4 v6
}

# The RDMA core gives the addresses of a bond to the device on its active member.
bond_members() {
	rdma link delete "$ROX1" && rdma link delete "$ROX2" &&
		ip -n "$NS1" link set bond0 type bond active_slave left &&
		ip -n "$NS2" link set bond0 type bond active_slave left &&
		link_add "$NS1" "$ROX1" left && link_add "$NS2" "$ROX2" left &&
		soon 10 gid_in "$ROX1" "$(gid_text $IP1_6)" &&
		soon 10 gid_in "$ROX2" "$(gid_text $IP2_6)"
}
