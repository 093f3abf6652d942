# shellcheck shell=bash disable=SC2086,SC2015,SC2154
# SPDX-License-Identifier: GPL-2.0
#
# The same address on two netdevs of one device: on two VLANs, or on a VLAN and the netdev itself. Each is a
# network of its own, with a peer that has the same address and is another host. The netdev that a packet
# comes by decides whom it is for.

part_same() {
	same_case=
	stage_begin "same address on two VLANs" same_stage same_clear
	case_run "RDMA CM by either" same_cm
	[[ -n ${ROX_QUICK:-} ]] || case_run "UD answers by either, RC on both at a time" same_data
	stage_end
	[[ -z ${ROX_QUICK:-} ]] || return 0
	same_case=untagged
	stage_begin "same address on a VLAN and untagged" same_stage same_clear
	case_run "RDMA CM by either" same_cm
	case_run "UD answers by either, RC on both at a time" same_data
	stage_end
	same_case=bond
	stage_begin "same address on two VLANs of a bond" same_stage same_clear
	case_run "RDMA CM by either" same_cm
	case_run "UD answers by either, RC on both at a time" same_data
	stage_end
}

S1=10.30.0.1 S9=10.30.0.9 S1_6=fd30::1 S9_6=fd30::9 SFAR=sfar

# same_vlan NAMESPACE NETDEV ID: sets `same_dev` to it, or to the netdev itself.
same_vlan() {
	same_dev=$2
	[[ $3 != 0 ]] || return 0
	same_dev=s$3
	ip -n "$1" link add link "$2" name $same_dev mtu 9000 type vlan id "$3" &&
		ip -n "$1" link set $same_dev up
}

# The first peer is in $NS2, the second one in $SFAR, both with the addresses $S9 and ${S9_6}.
same_stage() {
	local below=$DEV1 first=5
	modprobe -a 8021q bonding && stage_set && ip netns add $SFAR || return
	[[ $same_case != untagged ]] || first=0
	if [[ $same_case == bond ]]; then
		below=bond0
		ip -n "$NS1" link add bond0 type bond mode active-backup miimon 100 &&
			ip -n "$NS1" link set "$DEV1" down && ip -n "$NS1" link set "$DEV1" master bond0 &&
			ip -n "$NS1" link set bond0 mtu 9000 && ip -n "$NS1" link set "$DEV1" up &&
			ip -n "$NS1" link set bond0 up || return
	fi
	same_vlan "$NS1" $below $first && same_dev1=$same_dev &&
		same_address "$NS1" $same_dev1 "$ROX1" $S1 $S1_6 &&
		same_vlan "$NS1" $below 6 && same_dev2=$same_dev &&
		same_address "$NS1" $same_dev2 "$ROX1" $S1 $S1_6 &&
		same_vlan "$NS2" "$DEV2" $first && same_far1=$same_dev &&
		same_address "$NS2" $same_far1 "$ROX2" $S9 $S9_6 &&
		same_vlan "$NS2" "$DEV2" 6 && ip -n "$NS2" link set s6 netns $SFAR &&
		ip -n $SFAR link set lo up && ip -n $SFAR link set s6 up &&
		same_address $SFAR s6 "$ROX2" $S9 $S9_6
}

# Waits until the GID of this netdev is there.
same_address() {
	ip -n "$1" address add "$4/24" dev "$2" && ip -n "$1" address add "$5/64" dev "$2" nodad &&
		soon 10 same_gid "$2" "$3" "$4" && soon 10 same_gid "$2" "$3" "$5"
}

# Starts no process: there are many entries.
same_gid() {
	local port=/sys/class/infiniband/$2/ports/1 index name gid text
	text=$(gid_text "$3")
	for ((index = 0; index < 32; index++)); do
		{ read -r name <"$port/gid_attrs/ndevs/$index" && read -r gid <"$port/gids/$index"; } \
			2>/dev/null || continue
		[[ $name != "$1" || $gid != "$text" ]] || return 0
	done
	return 1
}

same_clear() {
	local status=0
	[[ ! -e /run/netns/$SFAR ]] || ip netns delete $SFAR || status=1
	stage_clear || status=1
	return $status
}

# The listener has the address that both have, then any address. The client binds to its own.
same_cm() {
	local far
	for far in "$NS2" $SFAR; do
		NS2=$far cm_pair $S1 && NS2=$far cm_pair $S1_6 &&
			NS2=$far run_pair -- rping -s -a 0.0.0.0 -C 5 -v -- rping -c -a $S1 -C 5 -v || return
	done
	# And from here, to a listener in each.
	same_cm_back "$NS2" $same_dev1 && same_cm_back $SFAR $same_dev2
}

# The route to the peer, whose address both have, is by $2.
same_cm_back() {
	local here=$NS1
	ip -n "$NS1" route replace $S9/32 dev $2 src $S1 || return
	NS1=$1 NS2=$here cm_pair $S9 && ip -n "$here" route delete $S9/32
}

# udaddy answers by ibv_create_ah_from_wc().
same_data() {
	local far before after
	for far in "$NS2" $SFAR; do
		NS2=$far run_pair -- udaddy -b 0.0.0.0 -- udaddy -s $S1 || return
	done
	flow_start first $S1%$same_dev1 $S9%$same_far1 $PATIENT &&
		NS2=$SFAR flow_start second $S1%$same_dev2 $S9%s6 $PATIENT &&
		flow_start first6 $S1_6%$same_dev1 $S9_6%$same_far1 $PATIENT &&
		NS2=$SFAR flow_start second6 $S1_6%$same_dev2 $S9_6%s6 $PATIENT &&
		flow_advances first second first6 second6 || return
	before=$(netdev_count $SFAR s6 rx_packets)
	flow_advances second && after=$(netdev_count $SFAR s6 rx_packets) && ((after > before + 20)) &&
		ip -n $SFAR link set s6 down && flow_stands second && flow_stands second6 &&
		flow_advances first first6 && ip -n $SFAR link set s6 up &&
		ip -n $SFAR address replace $S9_6/64 dev s6 nodad &&
		flow_advances second second6 && flow_stop first second first6 second6
}
