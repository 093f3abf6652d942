# shellcheck shell=bash disable=SC2086,SC2015,SC2046,SC2154
# SPDX-License-Identifier: GPL-2.0
#
# Containers on one device: its netdev stays with the host, and a macvlan, ipvlan or VLAN on it, without a
# device of its own, is moved into another namespace. The GIDs of that netdev are the device's, and mean
# that namespace: its routes, its firewall, its RDMA CM.

# POD_KINDS names the kinds of netdevs.
part_pod() {
	local kind kinds="macvlan vlan ipvlan"
	[[ -z ${ROX_QUICK:-} ]] || kinds=macvlan
	for kind in ${POD_KINDS:-$kinds}; do child_part $kind; done
}

child_part() {
	child_kind=$1
	stage_begin "pod on a $1" child_stage child_clear
	case_run "RC and RDMA CM, IPv4 and IPv6; the pod's firewall stops both directions" child_works
	if [[ -z ${ROX_QUICK:-} ]]; then
		case_run "datagrams and multicast" child_datagrams
		case_run "the pod's netdev down and up, its address gone and back" child_changes
		[[ $1 == vlan ]] || case_run "between two pods, past both firewalls" child_between
		case_run "the port taken in the pod: no GID, and the log says why" child_port_taken
		case_run "CE marks are answered by CNPs" child_marks
		case_run "the pod ends: it goes within seconds, the host's traffic goes on" child_ends
	fi
	stage_end
}

CHILD1=child1 CHILD2=child2 C1=10.20.0.1 C2=10.20.0.2 C9=10.20.0.9
C1_6=fd20::1 C2_6=fd20::2 C9_6=fd20::9

child_type() {
	case $child_kind in
	macvlan) echo "macvlan mode bridge" ;;
	ipvlan) echo "ipvlan mode l2" ;;
	vlan) echo "vlan id 7" ;;
	esac
}

# child_add NAMESPACE IPV4 IPV6
child_add() {
	ip netns add "$1" && ip -n "$NS1" link add link "$DEV1" name kid0 mtu 9000 type $(child_type) &&
		ip -n "$NS1" link set kid0 netns "$1" && child_up "$1" "$2" "$3"
}

child_up() {
	net_end "$1" kid0 "$2" "$3" && ip netns exec "$1" sysctl -q net.ipv6.conf.kid0.keep_addr_on_down=1 &&
		soon 10 gid_in "$ROX1" "$(gid_text "$2")" && soon 10 gid_in "$ROX1" "$(gid_text "$3")"
}

# The far end has addresses of the pods' network, on a VLAN if they have.
child_stage() {
	local far=$DEV2
	modprobe -a nf_tables nf_conntrack nft_ct && stage_set || return
	if [[ $child_kind == vlan ]]; then
		far=kid0
		ip -n "$NS2" link add link "$DEV2" name kid0 mtu 9000 type vlan id 7 || return
		ip -n "$NS2" link set kid0 up || return
	fi
	gid_add "$NS2" $far "$ROX2" $C9/24 && gid_add "$NS2" $far "$ROX2" $C9_6/64 &&
		child_add $CHILD1 $C1 $C1_6
}

child_clear() {
	local name status=0
	for name in $CHILD1 $CHILD2; do
		[[ ! -e /run/netns/$name ]] || ip netns delete $name || status=1
	done
	stage_clear || status=1
	return $status
}

# child_flow NAME POD ADDRESS PEER [OPTIONS]
child_flow() {
	local name=$1 pod=$2
	shift 2
	NS1=$pod flow_start "$name" "$@"
}

child_cm() {
	NS1=$CHILD1 cm_pair $C1 && child_cm_back $C9_6 || return
	[[ -n ${ROX_QUICK:-} ]] || { NS1=$CHILD1 cm_pair $C1_6 && child_cm_back $C9; }
}

# The listener is outside.
child_cm_back() {
	local far=$NS2
	NS1=$far NS2=$CHILD1 cm_pair "$1"
}

child_drops() {
	ip netns exec "$1" nft -f - <<-END
		table inet rox_test {
			chain $2 {
				type filter hook $2 priority 0;
				udp dport 4791 counter drop
			}
		}
	END
}

# child_drops NAMESPACE input|output, and no flow goes on; child_admits NAMESPACE ends that.
child_admits() {
	ip netns exec "$1" nft list table inet rox_test | grep -Eq 'counter packets [1-9]' ||
		fail "the rule has dropped nothing" || return
	ip netns exec "$1" nft delete table inet rox_test
}

child_works() {
	child_flow one $CHILD1 $C1 $C9 $PATIENT && child_flow one6 $CHILD1 $C1_6 $C9_6 $PATIENT &&
		flow_start host $IP1 $IP2 $PATIENT && flow_advances one one6 host &&
		child_drops $CHILD1 input && flow_stands one && flow_stands one6 && flow_advances host &&
		child_admits $CHILD1 && flow_advances one one6 &&
		child_drops $CHILD1 output && flow_stands one && flow_stands one6 &&
		child_admits $CHILD1 && flow_advances one one6 && flow_stop one one6 host && child_cm
}

# udaddy answers by ibv_create_ah_from_wc(). mckey joins by the RDMA CM, which attaches its QP.
child_datagrams() {
	local server
	NS1=$CHILD1 run_pair -- udaddy -b $C1 -- udaddy -s $C1 || return
	ip -n "$CHILD1" route add 224.0.0.0/4 dev kid0 &&
		ip -n "$NS2" route add 224.0.0.0/4 dev "$(child_far)" || return
	ip netns exec $CHILD1 timeout 60 mckey -m 239.20.0.1 -b $C1 -C 5 >"$ROX_TMP/mckey" 2>&1 &
	server=$!
	soon 20 child_joined || fail "nobody has joined: $(<"$ROX_TMP/mckey")" || return
	soon 40 mckey_sends $server $C9 239.20.0.1 || fail "no multicast: $(<"$ROX_TMP/mckey")" || return
	wait $server
}

child_far() {
	if [[ $child_kind == vlan ]]; then echo kid0; else echo "$DEV2"; fi
}

child_joined() {
	ip -n $CHILD1 maddress show dev kid0 | grep -q 239.20.0.1
}

child_changes() {
	child_flow one $CHILD1 $C1 $C9 $PATIENT && child_flow one6 $CHILD1 $C1_6 $C9_6 $PATIENT &&
		flow_start host $IP1 $IP2 $PATIENT && ip -n $CHILD1 link set kid0 down &&
		flow_stands one && flow_stands one6 && flow_advances host &&
		ip -n $CHILD1 link set kid0 up && flow_advances one one6 &&
		gid_delete $CHILD1 kid0 "$ROX1" $C1/24 && flow_stands one && flow_advances one6 host &&
		gid_add $CHILD1 kid0 "$ROX1" $C1/24 && flow_advances one && flow_stop one one6 host
}

# Both ends are QPs of one device, and the frames go over the netdevs.
child_between() {
	local sent
	sent=$(netdev_count $CHILD1 kid0 tx_packets)
	child_add $CHILD2 $C2 $C2_6 && NS2=$CHILD2 ROX2=$ROX1 child_flow two $CHILD1 $C1 $C2 $PATIENT &&
		flow_advances two && (($(netdev_count $CHILD1 kid0 tx_packets) > sent + 40)) &&
		child_drops $CHILD2 input && flow_stands two && child_admits $CHILD2 && flow_advances two &&
		flow_stop two && NS2=$CHILD2 child_cm_between && ip netns delete $CHILD2
}

child_cm_between() {
	NS1=$CHILD1 cm_pair $C1 && NS1=$CHILD1 cm_pair $C1_6
}

# A socket of the pod has the port before the pod has an address.
child_port_taken() {
	local holder status=0
	ip netns add $CHILD2 || return
	ip netns exec $CHILD2 python3 -c 'import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", 4791))
time.sleep(1000)' &
	holder=$!
	soon 10 child_port_held && ip -n "$NS1" link add link "$DEV1" name kid1 type $(child_other) &&
		ip -n "$NS1" link set kid1 netns $CHILD2 && net_end $CHILD2 kid1 10.21.0.1 fd21::1 &&
		soon 10 child_logged && gid_not_in "$ROX1" "$(gid_text 10.21.0.1)" || status=1
	kill $holder
	wait $holder 2>/dev/null
	((status)) || { ip -n $CHILD2 link set kid1 down && ip -n $CHILD2 link set kid1 up &&
		soon 10 gid_in "$ROX1" "$(gid_text 10.21.0.1)"; } || status=1
	ip netns delete $CHILD2
	log_mark
	return $status
}

child_other() {
	if [[ $child_kind == vlan ]]; then echo "vlan id 8"; else child_type; fi
}

child_port_held() {
	ip netns exec $CHILD2 ss -Hunl | grep -q ':4791 '
}

child_logged() {
	dmesg | tail -n 40 | grep -q "rox: $ROX1 cannot have the address .*port 4791 is in use"
}

# Datagrams that come with the mark of congestion.
child_marks() {
	local before
	before=$(counter_of "$ROX1" np_cnp_sent)
	ip netns exec $CHILD1 nft -f - <<-END || return
		table inet rox_test {
			chain pre {
				type filter hook prerouting priority 0;
				ip saddr $C9 udp dport 4791 ip ecn set ce
			}
		}
	END
	child_flow one $CHILD1 $C1 $C9 $PATIENT && flow_advances one && flow_stop one || return
	ip netns exec $CHILD1 nft delete table inet rox_test
	(($(counter_of "$ROX1" np_cnp_sent) > before)) || fail "no CNP was sent"
}

child_gone() {
	! ip -n "$NS1" -o link show | grep -q "$1" && gid_not_in "$ROX1" "$(gid_text $C1)"
}

# A namespace that something held would keep the far end of this veth.
child_ends() {
	flow_start host $IP1 $IP2 $PATIENT && child_flow one $CHILD1 $C1 $C9 $HASTY &&
		ip -n "$NS1" link add watch0 type veth peer name watch1 netns $CHILD1 || return
	# shellcheck disable=SC2046 # two numbers
	kill -9 $(ip netns pids $CHILD1) && ip netns delete $CHILD1 || return
	soon 5 child_gone watch0 || fail "the namespace stays" || return
	flow_advances host && flow_stop host && child_add $CHILD1 $C1 $C1_6 &&
		child_flow again $CHILD1 $C1 $C9 $PATIENT && flow_advances again && flow_stop again
}
