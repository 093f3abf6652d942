# shellcheck shell=bash disable=SC2086,SC2015,SC2154
# SPDX-License-Identifier: GPL-2.0
#
# Devices on netdevs that wrap their frames into others (vxlan, geneve, gretap, macsec), that share another one
# (macvtap), that choose one of several ports (team), and on a netdev in a VRF.

T1=10.4.0.1 T2=10.4.0.2 T1_6=fd04::1 T2_6=fd04::2

part_tunnel() {
	local kind
	for kind in vxlan geneve gretap macsec macvtap team; do
		tunnel_kind=$kind
		stage_begin $kind tunnel_stage stage_clear
		case_run "RC and RDMA CM with UDP segmentation, no ICRC error" tunnel_works on
		case_run "RC and RDMA CM without it, no ICRC error" tunnel_works off
		stage_end
	done
	stage_begin VRF vrf_stage stage_clear
	case_run "RC, and RDMA CM from an address" vrf_works
	case_run "RDMA CM without an address of its own: it says that there is no route" vrf_sourceless
	stage_end
}

# Adds t0 at one end: namespace, netdev, its address, the other end's.
tunnel_vxlan() {
	ip -n $1 link add t0 type vxlan id 7 dev $2 local $3 remote $4 dstport 4789
}

tunnel_geneve() {
	ip -n $1 link add t0 type geneve id 7 remote $4
}

tunnel_gretap() {
	ip -n $1 link add t0 type gretap local $3 remote $4
}

tunnel_macsec() {
	local other key=01234567890123456789abcdefabcdef
	if [[ $1 == "$NS1" ]]; then other=$(mac_of "$NS2" "$DEV2"); else other=$(mac_of "$NS1" "$DEV1"); fi
	ip -n $1 link add link $2 name t0 type macsec port 1 encrypt on &&
		ip -n $1 macsec add t0 tx sa 0 pn 1 on key 00 $key &&
		ip -n $1 macsec add t0 rx port 1 address $other &&
		ip -n $1 macsec add t0 rx port 1 address $other sa 0 pn 1 on key 00 $key
}

# While nobody has its character device open, the host has the frames.
tunnel_macvtap() {
	ip -n $1 link add t0 link $2 type macvtap mode bridge
}

# The netdev is the only port, and the active one; both have one MAC. A port has no address.
tunnel_team() {
	local index
	ip -n $1 link add t0 address $(mac_of $1 $2) type team && ip -n $1 address flush dev $2 && ip -n $1 link set $2 down &&
		ip netns exec $1 teamnl t0 setoption mode activebackup && ip -n $1 link set $2 master t0 &&
		ip -n $1 link set $2 up && index=$(ip netns exec $1 cat /sys/class/net/$2/ifindex) &&
		ip netns exec $1 teamnl t0 setoption activeport $index
}

mac_of() {
	ip netns exec $1 cat /sys/class/net/$2/address
}

tunnel_stage() {
	case $tunnel_kind in
	team) ;;
	gretap) modprobe ip_gre ;;
	*) modprobe $tunnel_kind ;;
	esac || return
	module_load && net_two 9000 && tunnel_$tunnel_kind "$NS1" "$DEV1" $IP1 $IP2 &&
		tunnel_$tunnel_kind "$NS2" "$DEV2" $IP2 $IP1 && net_end "$NS1" t0 $T1 $T1_6 && net_end "$NS2" t0 $T2 $T2_6 &&
		link_add "$NS1" "$ROX1" t0 && link_add "$NS2" "$ROX2" t0 && soon 10 gid_in "$ROX1" "$(gid_text $T1_6)" &&
		soon 10 gid_in "$ROX2" "$(gid_text $T2_6)" && soon 10 net_ready_ipv6 "$NS1" t0 &&
		soon 10 net_ready_ipv6 "$NS2" t0
}

# tunnel_works on|off: UDP segmentation of the tunnel and of the netdev below. Not every netdev can be told.
tunnel_works() {
	local errors netdev
	for netdev in "$NS1 t0" "$NS2 t0" "$NS1 $DEV1" "$NS2 $DEV2"; do
		ip netns exec ${netdev% *} ethtool -K ${netdev#* } tx-udp-segmentation $1 >/dev/null 2>&1
	done
	errors=$(tunnel_errors)
	flow_start one $T1 $T2 $PATIENT && flow_start one6 $T1_6 $T2_6 $PATIENT && flow_advances one one6 &&
		flow_stop one one6 && cm_pair $T1 && cm_pair $T1_6 &&
		run_pair -- ib_write_bw -F -R -s 65536 -n 50 -d "$ROX1" -- ib_write_bw -F -R -s 65536 -n 50 -d "$ROX2" $T1 &&
		[[ $(tunnel_errors) == "$errors" ]] || fail "ICRC errors: $errors before, $(tunnel_errors) now"
}

tunnel_errors() {
	echo "$(counter_of "$ROX1" rx_icrc_encapsulated) $(counter_of "$ROX2" rx_icrc_encapsulated)"
}

# The netdev of $NS1 is in a VRF, of which the other end knows nothing.
vrf_stage() {
	modprobe vrf && stage_set && ip -n "$NS1" link add vrf0 type vrf table 10 && ip -n "$NS1" link set vrf0 up &&
		ip netns exec "$NS1" sysctl -q net.ipv6.conf.all.keep_addr_on_down=1 net.ipv4.udp_l3mdev_accept=1 &&
		ip -n "$NS1" link set "$DEV1" master vrf0 && soon 10 gid_in "$ROX1" "$(gid_text $IP1_6)" &&
		soon 10 gid_in "$ROX1" "$(gid_text $IP1)"
}

vrf_works() {
	flow_start one $IP1 $IP2 $PATIENT && flow_start one6 $IP1_6 $IP2_6 $PATIENT && flow_advances one one6 &&
		flow_stop one one6 && cm_pair $IP1 && vrf_from
}

# The client is in the VRF.
vrf_from() {
	local client=$NS1 server=$NS2
	NS1=$server NS2=$client run_pair -- rping -s -a $IP2 -C 5 -v -- rping -c -a $IP2 -I $IP1 -C 5 -v
}

vrf_sourceless() {
	local status=0
	ip netns exec "$NS1" timeout 20 rping -c -a $IP2 -C 1 >"$ROX_TMP/rping" 2>&1 || status=$?
	((status != 0 && status != 124)) && grep -q 'Network is unreachable\|No such device' "$ROX_TMP/rping" ||
		fail "status $status: $(<"$ROX_TMP/rping")"
}
