# shellcheck shell=bash disable=SC2086,SC2154
# SPDX-License-Identifier: GPL-2.0
#
# What rox sends to rdma_rxe through a network that loses 1 % of the packets: no more packets than
# rdma_rxe sends to rdma_rxe for the same WRITEs. tests/interop/run sources this file.
#
# rdma_rxe drops what comes early. So all that rox sends between a lost packet and the NAK for it is
# sent again, as it is by rdma_rxe. Every hundredth packet is lost, not one by chance, so that passes
# can be compared. The filter of a qdisc loses it, of which the sender is not told.

LOSS_DELAY_US=500
LOSS_DROP='matchall classid 1:1 action pass random determ drop 100'
LOSS_BYTES=$((24 << 20)) LOSS_MESSAGE=65536
# Two ends in the first namespace, with a device of rdma_rxe each.
LOSS_NETDEVS=(lossy0 lossy1) LOSS_DEVICES=(rxel0 rxel1) LOSS_IPS=(10.0.9.1 10.0.9.2)
declare -A loss_sent=()

# Both ends are in one namespace. So rules lead packets to the other end over the pair.
loss_net() {
	local end netdev other mac
	ip link add "${LOSS_NETDEVS[0]}" mtu 9000 type veth peer name "${LOSS_NETDEVS[1]}" mtu 9000 &&
		ip rule add pref 100 lookup local && ip rule delete pref 0 || return
	for end in 0 1; do
		netdev=${LOSS_NETDEVS[end]}
		ip address add "${LOSS_IPS[end]}/32" dev "$netdev" && ip link set "$netdev" up &&
			sysctl -q "net.ipv4.conf.$netdev.accept_local=1" "net.ipv4.conf.$netdev.rp_filter=0" \
				net.ipv4.conf.all.rp_filter=0 || return
	done
	for end in 0 1; do
		netdev=${LOSS_NETDEVS[end]} other=$((1 - end))
		mac=$(cat "/sys/class/net/${LOSS_NETDEVS[other]}/address")
		ip neighbour replace "${LOSS_IPS[other]}" lladdr "$mac" dev "$netdev" nud permanent &&
			ip route add "${LOSS_IPS[other]}" dev "$netdev" src "${LOSS_IPS[end]}" table $((1001 + end)) &&
			ip rule add pref $((10 + end)) iif lo to "${LOSS_IPS[other]}" lookup $((1001 + end)) &&
			rdma link add "${LOSS_DEVICES[end]}" type rxe netdev "$netdev" || return
	done
}

loss_net_delete() {
	local end
	for end in 0 1; do
		rdma link delete "${LOSS_DEVICES[end]}" && ip rule delete pref $((10 + end)) || return
	done
	ip link delete "${LOSS_NETDEVS[0]}" && ip rule add pref 0 lookup local && ip rule delete pref 100
}

# How long rdma_rxe needs for a packet of 4 KiB, in microseconds; nothing is lost.
loss_packet_us() {
	local options=(-F -s "$LOSS_MESSAGE" -n 64)
	NS2=$NS1 run_pair -t 100 -- ib_write_bw -d "${LOSS_DEVICES[0]}" "${options[@]}" -- \
		ib_write_bw -d "${LOSS_DEVICES[1]}" "${options[@]}" "${LOSS_IPS[0]}" >"$ROX_TMP/loss" || return
	awk -v size="$LOSS_MESSAGE" '$1 == size && $4 > 0 { printf "%d", 1000000 / 256 / $4 }' "$ROX_TMP/loss"
}

# On a slow machine rdma_rxe sends next to nothing in a millisecond. There the other end is so far away that rdma_rxe
# sends 60 packets before an answer can come, which is about as many as it has on their way at once.
loss_distance() {
	local took
	took=$(loss_packet_us) && [[ -n $took ]] || return
	((took < 200)) || LOSS_DELAY_US=$((took * 30))
	echo "# $took us a packet, $LOSS_DELAY_US us to the other end" >&"$case_output"
}

# loss_pass NAME SERVER-DEV CLIENT-DEV SERVER-IP "NS NETDEV" of the server and of the client
loss_pass() {
	local name=$1 server=$2 client=$3 ip=$4 end ns netdev status=0
	for end in "$5" "$6"; do
		read -r ns netdev <<<"$end"
		ip netns exec $ns ethtool -K "$netdev" gso off tso off &&
			tc -n $ns qdisc replace dev "$netdev" root handle 1: prio &&
			tc -n $ns qdisc add dev "$netdev" parent 1:1 netem limit 10000 delay ${LOSS_DELAY_US}us &&
			tc -n $ns filter add dev "$netdev" parent 1: $LOSS_DROP || return
	done
	local options=(-F -s "$LOSS_MESSAGE" -n $((LOSS_BYTES / LOSS_MESSAGE)))
	local began=$SECONDS
	NS1=${5% *} NS2=${6% *} run_pair -t 100 -- ib_write_bw -d "$server" "${options[@]}" -- \
		ib_write_bw -d "$client" "${options[@]}" "$ip" >"$ROX_TMP/loss" || status=$?
	loss_sent[$name]=$(tc -n $ns -s filter show dev "$netdev" parent 1: |
		awk '/Sent/ { print $4; exit }')
	for end in "$5" "$6"; do
		read -r ns netdev <<<"$end"
		tc -n $ns qdisc delete dev "$netdev" root || return
	done
	echo "$name: ${loss_sent[$name]} packets in $((SECONDS - began)) s"
	return $status
}

# loss_counts NAME: it has sent no more packets than rdma_rxe to rdma_rxe.
loss_counts() {
	local sent=${loss_sent[$1]:-0} rxe=${loss_sent["rxe to rxe"]:-0} least=$((LOSS_BYTES / 4096))
	echo "# $1: $sent packets, rxe to rxe: $rxe, without loss: $least" >&"$case_output"
	((rxe > least && sent > least && sent <= rxe))
}

# loss_cases RXE-DEV ROX-DEV RXE-IP ROX-IP RXE-END ROX-END: requests and acknowledges are lost
loss_cases() {
	tap_run "two devices of rdma_rxe" loss_net
	tap_run "how far apart the ends are" loss_distance
	tap_run "1 % lost: rxe to rxe" loss_pass "rxe to rxe" "${LOSS_DEVICES[@]}" "${LOSS_IPS[0]}" \
		"$NS1 ${LOSS_NETDEVS[0]}" "$NS1 ${LOSS_NETDEVS[1]}"
	tap_run "they are deleted" loss_net_delete
	tap_run "1 % lost: rox to rxe" loss_pass "rox to rxe" "$1" "$2" "$3" "$5" "$6"
	tap_run "no more packets than rxe to rxe" loss_counts "rox to rxe"
	tap_run "1 % lost: rxe to rox" loss_pass "rxe to rox" "$2" "$1" "$4" "$6" "$5"
	tap_run "no more packets than rxe to rxe" loss_counts "rxe to rox"
}
