# shellcheck shell=bash disable=SC2086,SC2015
# SPDX-License-Identifier: GPL-2.0
#
# Packets that are changed on their way, by a rule of the sender's netdev. All else of such a packet
# is still where its sender wrote it; yet none of them gets through, and what gets through is right.

part_change() {
	stage_begin change stage_set stage_clear
	case_run "UDP source port: wrong ICRC" change_stops ip "$IP1" "$IP2" ex munge udp sport set 4321
	case_full "UDP source port, IPv6: wrong ICRC" \
		change_stops ipv6 $IP1_6 $IP2_6 ex munge udp sport set 4321
	# 20 bytes of IP, 8 of UDP: the last of the PSN.
	case_full "PSN: wrong ICRC" change_stops ip "$IP1" "$IP2" munge offset 39 u8 invert
	case_run "payload: wrong ICRC" change_stops ip "$IP1" "$IP2" munge offset 120 u8 invert
	case_run "hop limit, which the ICRC leaves out: gets through" change_passes
	case_run "nothing: no ICRC for a peer that does not look at it" change_unneeded
	case_full "nothing: packets together and one by one, in turn, under a flow" change_frames
	stage_end
}

# change_begin PROTOCOL PEDIT...: what the action does to all that $DEV2 sends.
change_begin() {
	tc -n "$NS2" qdisc add dev "$DEV2" clsact &&
		tc -n "$NS2" filter add dev "$DEV2" egress protocol "$1" u32 match u32 0 0 action pedit "${@:2}"
}

change_end() {
	tc -n "$NS2" qdisc del dev "$DEV2" clsact
}

change_stops() {
	local before after
	flow_start changed "$2" "$3" $PATIENT || return
	before=$(counter_of "$ROX1" rx_icrc_encapsulated)
	change_begin "$1" "${@:4}" && flow_stands changed || return
	after=$(counter_of "$ROX1" rx_icrc_encapsulated)
	((after > before)) || fail "no wrong ICRC was counted" || return
	change_end && flow_advances changed && flow_stop changed
}

# How many packets both ends have sent without an ICRC.
change_left() {
	echo $(($(counter_of "$ROX1" tx_icrc_left_out) + $(counter_of "$ROX2" tx_icrc_left_out)))
}

change_left_beyond() {
	(($(change_left) > $1))
}

change_recheck() {
	echo "$1" >/sys/module/rox/parameters/recheck
}

# A receiver that begins to look at it is not told any more that it need not, and nothing is lost.
change_unneeded() {
	local before
	flow_start unneeded "$IP1" "$IP2" $PATIENT || return
	soon 10 change_left_beyond 100 || fail "each packet has an ICRC" || return
	change_recheck Y && flow_advances unneeded && sleep 1 || return
	before=$(change_left)
	flow_advances unneeded || return
	! change_left_beyond "$before" || fail "packets without an ICRC for who looks at it" || return
	change_recheck N && soon 30 change_left_beyond "$before" ||
		fail "each packet has an ICRC again" || return
	flow_stop unneeded
}

# How many packets more than frames have come to both ends. Nothing joins them there: veth has no GRO of its own.
change_joined() {
	local rox sum=0
	for rox in "$ROX1" "$ROX2"; do
		sum=$((sum + $(counter_of "$rox" rx_packets) - $(counter_of "$rox" rx_bursts)))
	done
	echo $sum
}

change_gso() {
	echo "$1" >/sys/module/rox/parameters/gso
}

change_joined_beyond() {
	(($(change_joined) > $1))
}

change_frames() {
	local before
	flow_start frames "$IP1" "$IP2" $PATIENT || return
	for _ in 1 2 3; do
		before=$(change_joined)
		soon $LIMIT change_joined_beyond $((before + 1000)) || fail "no frame has several packets" || return
		# What was sent before is under way.
		change_gso N && flow_advances frames || return
		before=$(change_joined)
		flow_advances frames frames frames frames frames || return
		# Both are counted one after the other, while packets come.
		! change_joined_beyond $((before + 100)) || fail "packets have a frame together" || return
		change_gso Y || return
	done
	flow_stop frames
}

change_passes() {
	local before
	flow_start passed $IP1_6 $IP2_6 $PATIENT || return
	before=$(counter_of "$ROX1" rx_icrc_encapsulated)
	change_begin ipv6 ex munge ip6 hoplimit set 17 && flow_advances passed || return
	[[ $(counter_of "$ROX1" rx_icrc_encapsulated) == "$before" ]] ||
		fail "a wrong ICRC was counted" || return
	change_end && flow_stop passed
}
