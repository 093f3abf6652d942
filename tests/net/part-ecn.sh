# shellcheck shell=bash disable=SC2086,SC2015,SC2154
# SPDX-License-Identifier: GPL-2.0
#
# Congestion: $NS2 sends to $NS1 through a switch, whose port to $NS1 is slow and marks with ECN.

part_ecn() {
	stage_begin ECN ecn_stage ecn_clear
	case_run "dcqcn: CNPs come, nothing is lost" ecn_flows dcqcn
	case_run "adaptive: CNPs come, nothing is lost" ecn_flows adaptive
	case_run "none: no CNP is heeded, packets are lost" ecn_overflows
	stage_end
}

# Mbit/s of the slow port: so slow that the guest is not the limit.
ECN_RATE=20

# A bridge with the addresses of net_two on both sides. Each packet is a frame of its own in it.
ecn_net() {
	modprobe -a veth bridge sch_tbf sch_codel && ns1_add && ip netns add "$NS2" && ip netns add switch &&
		ip link add "$DEV1" netns "$NS1" mtu 9000 type veth peer name port1 netns switch mtu 9000 &&
		ip link add "$DEV2" netns "$NS2" mtu 9000 type veth peer name port2 netns switch mtu 9000 &&
		ip -n switch link add bridge mtu 9000 type bridge &&
		ip -n switch link set port1 master bridge up && ip -n switch link set port2 master bridge up &&
		ip -n switch link set bridge up &&
		net_end "$NS1" "$DEV1" "$IP1" "$IP1_6" && net_end "$NS2" "$DEV2" "$IP2" "$IP2_6" &&
		tc -n switch qdisc add dev port1 root handle 1: tbf rate ${ECN_RATE}mbit burst 10000 limit 2000000 &&
		tc -n switch qdisc add dev port1 parent 1: handle 2: codel limit 400 ce_threshold 5ms ecn
}

ecn_stage() {
	ecn_net && module_load && link_add "$NS1" "$ROX1" "$DEV1" && link_add "$NS2" "$ROX2" "$DEV2"
}

ecn_clear() {
	local status=0
	stage_clear || status=1
	[[ ! -e /run/netns/switch ]] || ip netns delete switch
	return $status
}

# Sets `dropped`, `over` (for want of room) and `marked` to what the slow port has done so far.
ecn_port() {
	local text
	text=$(tc -s -n switch qdisc show dev port1)
	dropped=$(sed -nE 's/.*\(dropped ([0-9]+),.*/\1/p' <<<"$text" | sort -n | tail -n 1)
	over=$(sed -nE 's/.*drop_overlimit ([0-9]+).*/\1/p' <<<"$text")
	marked=$(sed -nE 's/.*ce_mark ([0-9]+).*/\1/p' <<<"$text")
	echo "$text"
}

# ecn_write ALGORITHM SECONDS: WRITEs for about so long; sets what has grown meanwhile, and `speed`, in
# percent of the port's rate, for the log. `n` is the number of messages of 64 packets.
ecn_write() {
	local file=$ROX_TMP/ecn
	local before_dropped before_over before_marked
	n=$((ECN_RATE * $2 * 125000 / 65536))
	local -A before
	local name
	# DCQCN's steps are for links of 40 Gbit/s.
	echo 1 >/sys/class/infiniband/$ROX2/cc/rpg_ai_rate &&
		echo 2 >/sys/class/infiniband/$ROX2/cc/rpg_hai_rate &&
		echo "$1" >/sys/class/infiniband/$ROX2/cc/algorithm || return
	ecn_port && before_dropped=$dropped before_over=$over before_marked=$marked
	for name in np_ecn_marked_roce_packets np_cnp_sent; do before[$name]=$(counter_of "$ROX1" $name); done
	for name in rp_cnp_handled rp_cnp_ignored retransmitted_packets; do
		before[$name]=$(counter_of "$ROX2" $name)
	done
	run_pair -t 100 -- ib_write_bw -d "$ROX1" -F -m 1024 -s 65536 -n $n -- \
		ib_write_bw -d "$ROX2" -F -m 1024 -s 65536 -n $n "$IP1" >"$file" || { cat "$file"; return 1; }
	ecn_port
	dropped=$((dropped - before_dropped)) over=$((over - before_over)) marked=$((marked - before_marked))
	seen=$(($(counter_of "$ROX1" np_ecn_marked_roce_packets) - before[np_ecn_marked_roce_packets]))
	sent=$(($(counter_of "$ROX1" np_cnp_sent) - before[np_cnp_sent]))
	handled=$(($(counter_of "$ROX2" rp_cnp_handled) - before[rp_cnp_handled]))
	ignored=$(($(counter_of "$ROX2" rp_cnp_ignored) - before[rp_cnp_ignored]))
	again=$(($(counter_of "$ROX2" retransmitted_packets) - before[retransmitted_packets]))
	speed=$(awk -v rate=$ECN_RATE '$1 == 65536 { printf "%d", $4 * 1048576 * 8 / rate / 10000 }' "$file")
	echo "$1: $speed % of the rate, $dropped dropped, $over for want of room, $marked marked, $seen seen, $sent CNPs," \
		"$handled handled, $ignored ignored, $again sent again"
}

ecn_flows() {
	local n dropped over marked seen sent handled ignored again speed
	ecn_write $1 5 || return
	((marked > 0 && seen > 0 && sent > 0)) || fail "no marks or no CNPs" || return
	((handled > 0 && handled <= sent && ignored == 0)) || fail "CNPs were not heeded" || return
	# The port may drop what is not ECN-capable, as the programs' TCP.
	((over == 0)) || fail "packets were lost" || return
	# A guest that stands still for a while makes the sender probe.
	((again <= n)) || fail "$again packets were sent again"
}

# What the others are for: the window of 512 KiB does not fit in the queue.
ecn_overflows() {
	local n dropped over marked seen sent handled ignored again speed
	ecn_write none 2 || return
	((dropped > 0)) || fail "nothing was lost" || return
	((marked == 0 && sent == 0)) || fail "packets were marked"
}
