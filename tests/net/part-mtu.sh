# shellcheck shell=bash disable=SC2086,SC2015
# SPDX-License-Identifier: GPL-2.0
#
# The netdev's MTU falls below the path MTU of running queue pairs, whose packets are lost then; the MTU of
# connections by the CM; what ICMP errors tell of the MTU.

part_mtu() {
	stage_begin MTU stage_set stage_clear
	case_run "below the path MTU and back: waits, a new connection has the smaller MTU" mtu_low
	case_full "stays below the path MTU: retries exceeded" mtu_lost
	case_full "below 1280 and back: IPv6 and its addresses come and go" mtu_no_ipv6
	case_run "below what RoCE needs and back: no port, and again" mtu_no_port
	case_full "changed all the time" mtu_churn
	case_run "CM, the server's is smaller: the connection has that" mtu_agreed "$NS1" "$DEV1"
	case_full "CM, the client's is smaller: the connection has that" mtu_agreed "$NS2" "$DEV2"
	case_full "CM, the server's VLAN has a smaller one: the connection has that" mtu_vlan
	case_full "ICMP errors, forged: too big, unreachable: nobody notices" mtu_forged
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
	[[ -z ${ROX_QUICK:-} ]] || return 0
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

# -- ICMP errors -----------------------------------------------------------------

# icmp_errors FROM TO PORT: $NS2, whose address FROM is, sends errors about datagrams that TO is said to have sent
# from and to that port: a small MTU, no port, no host.
icmp_errors() {
	in2 python3 - "$@" <<-'END'
		import socket, struct, sys
		source, target, port = sys.argv[1:]
		port = int(port)
		six = ":" in target
		family, protocol = (socket.AF_INET6, 58) if six else (socket.AF_INET, 1)
		raw = socket.socket(family, socket.SOCK_RAW, protocol)
		mine, yours = (socket.inet_pton(family, name) for name in (source, target))

		def checksum(data):
		    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
		    total = (total & 0xffff) + (total >> 16)
		    return ~(total + (total >> 16)) & 0xffff

		def error(kind, code, mtu, ports):
		    udp = struct.pack("!HHHH", *ports, 4124, 0) + bytes(24)
		    if six:
		        quote = struct.pack("!IHBB", 0x60000000, 4124, 17, 64) + yours + mine + udp
		    else:
		        quote = struct.pack("!BBHHHBBH", 0x45, 0, 4144, 1, 0x4000, 64, 17, 0) + yours + mine + udp
		    head = struct.pack("!BBHI", kind, code, 0, mtu)
		    head = head[:2] + struct.pack("!H", 0 if six else checksum(head + quote)) + head[4:]
		    raw.sendto(head + quote, (target, 0))

		for ports in (port, 4791), (port, 50000), (50000, port), (65535, port):
		    if six:
		        error(2, 0, 1280, ports)
		        error(1, 4, 0, ports)
		        error(1, 3, 0, ports)
		    else:
		        error(3, 4, 576, ports)
		        error(3, 3, 0, ports)
		        error(3, 1, 0, ports)
	END
}

# Has $NS1 learned an MTU of the route to an address?
mtu_seen() {
	ip -n "$NS1" route get "$1" | grep mtu
}

# Some kernels (6.1.192) learn from errors about any UDP port, also one that nobody has (9). Then the MTU of the route
# says nothing of rox' port.
mtu_forged() {
	local learned4 learned6
	flow_start v4 $IP1 $IP2 $PATIENT && flow_start v6 $IP1_6 $IP2_6 $PATIENT && mtu_errors 9 &&
		flow_advances v4 v6 || return
	learned4=$(mtu_seen $IP2) learned6=$(mtu_seen $IP2_6)
	mtu_forget && mtu_errors 4791 && flow_advances v4 v6 && { [[ -n $learned4 ]] || ! mtu_seen $IP2; } &&
		{ [[ -n $learned6 ]] || ! mtu_seen $IP2_6; } && mtu_forget && mtu_learned && flow_advances v4 v6 &&
		flow_stop v4 v6 && mtu_forget
}

mtu_errors() {
	icmp_errors $IP2 $IP1 "$1" && icmp_errors $IP2_6 $IP1_6 "$1"
}

mtu_forget() {
	ip -n "$NS1" route flush cache && ip -n "$NS1" -6 route flush cache
}

# What other sockets of the host learn, here one on port 5353, does not count either.
mtu_learned() {
	local pid status
	in1 python3 -c '
import socket, time
for family in (socket.AF_INET, socket.AF_INET6):
    one = socket.socket(family, socket.SOCK_DGRAM)
    if family == socket.AF_INET6:
        one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    one.bind(("", 5353))
    globals()[family] = one
print(flush=True)
time.sleep(100)' >"$ROX_TMP/other" &
	pid=$!
	soon 10 test -s "$ROX_TMP/other" && mtu_errors 5353 &&
		soon 10 mtu_seen $IP2 && soon 10 mtu_seen $IP2_6
	status=$?
	kill $pid
	wait $pid 2>/dev/null
	return $status
}
