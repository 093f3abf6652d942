# shellcheck shell=bash disable=SC2086,SC2015,SC2154
# SPDX-License-Identifier: GPL-2.0
#
# The netdev is a port of a bridge, which has the address.

part_bridge() {
	stage_begin bridge bridge_stage bridge_clear
	case_run "RC, RDMA CM both ways; what the bridge's firewall drops stands" bridge_works
	case_run "the address moves to the bridge and back beneath connections" bridge_moves
	case_run "multicast through IGMP snooping" bridge_multicast
	stage_end
}

bridge_stage() {
	modprobe -a bridge nf_tables nf_tables_bridge 2>/dev/null
	modprobe bridge && modprobe nf_tables && stage_set &&
		ip -n "$NS1" link add br0 mtu 9000 type bridge mcast_snooping 1 &&
		ip -n "$NS1" link set "$DEV1" master br0 && ip -n "$NS1" link set br0 up &&
		bridge_take
}

bridge_clear() {
	stage_clear
}

# The addresses of the netdev become the bridge's; bridge_give is the reverse.
bridge_take() {
	bridge_move "$DEV1" br0
}

bridge_give() {
	bridge_move br0 "$DEV1"
}

# bridge_move FROM TO
bridge_move() {
	ip -n "$NS1" address delete $IP1/24 dev $1 && ip -n "$NS1" address delete $IP1_6/64 dev $1 &&
		gid_add "$NS1" $2 "$ROX1" $IP1/24 && gid_add "$NS1" $2 "$ROX1" $IP1_6/64
}

bridge_works() {
	flow_start one $IP1 $IP2 $PATIENT && flow_start one6 $IP1_6 $IP2_6 $PATIENT &&
		flow_advances one one6 && ip netns exec "$NS1" nft -f - <<-END || return
			table bridge rox_test {
				chain input {
					type filter hook input priority 0;
					udp dport 4791 counter drop
				}
			}
		END
	flow_stands one && flow_stands one6 && ip netns exec "$NS1" nft delete table bridge rox_test &&
		flow_advances one one6 && flow_stop one one6 && cm_pair $IP1 && cm_pair $IP1_6 &&
		several_cm_back && IP2=$IP2_6 several_cm_back
}

# The port leaves the bridge, as a port's own address is not reached.
bridge_moves() {
	flow_start one $IP1 $IP2 $PATIENT && flow_start one6 $IP1_6 $IP2_6 $PATIENT &&
		flow_advances one one6 && ip -n "$NS1" link set "$DEV1" nomaster && bridge_give &&
		flow_advances one one6 && ip -n "$NS1" link set "$DEV1" master br0 && bridge_take &&
		flow_advances one one6 && flow_stop one one6 && cm_pair $IP1
}

bridge_multicast() {
	local receiver
	ip -n "$NS1" route replace 224.0.0.0/4 dev br0 && ip -n "$NS2" route replace 224.0.0.0/4 dev "$DEV2" ||
		return
	ip netns exec "$NS1" timeout 60 mckey -m 239.20.0.2 -b $IP1 -C 5 >"$ROX_TMP/mckey" 2>&1 &
	receiver=$!
	soon 20 bridge_joined || fail "nobody has joined: $(<"$ROX_TMP/mckey")" || return
	soon 40 mckey_sends $receiver $IP2 239.20.0.2 || fail "no multicast: $(<"$ROX_TMP/mckey")" || return
	wait $receiver
}

bridge_joined() {
	ip -n "$NS1" maddress show dev br0 | grep -q 239.20.0.2
}

# mckey_sends RECEIVER ADDRESS GROUP: sends from $NS2. True when the receiver, which ends when it has all, has ended.
mckey_sends() {
	ip netns exec "$NS2" timeout 20 mckey -m $3 -b $2 -s -C 5 >"$ROX_TMP/mckey.sender" 2>&1
	process_gone $1
}
