# shellcheck shell=bash disable=SC2086,SC2015,SC2016
# SPDX-License-Identifier: GPL-2.0
#
# IPsec policies for UDP port 4791 (`ip xfrm`) bind RDMA traffic as they bind other UDP, in both
# directions and for both families. What is on the wire is counted where frames arrive, before IPsec
# takes them apart.

part_ipsec() {
	stage_begin IPsec ipsec_stage stage_clear
	case_run "demanded of what comes in: plain packets are refused and counted" ipsec_inbound
	case_run "demanded of what goes out: nothing leaves in the clear" ipsec_outbound
	case_run "blocked: in, and out" ipsec_blocked
	stage_end
}

ipsec_stage() {
	modprobe -a xfrm_user esp4 esp6 sch_ingress cls_u32 act_gact && stage_set &&
		wire_watch "$NS1" "$DEV1" && wire_watch "$NS2" "$DEV2"
}

# Filters that count plain frames to the port, pref 1 and 2, and ESP, pref 3 and 4.
wire_watch() {
	tc -n "$1" qdisc add dev "$2" clsact &&
		wire_filter "$1" "$2" 1 ip "match u8 17 0xff at 9 match u16 4791 0xffff at 22" &&
		wire_filter "$1" "$2" 2 ipv6 "match u8 17 0xff at 6 match u16 4791 0xffff at 42" &&
		wire_filter "$1" "$2" 3 ip "match u8 50 0xff at 9" &&
		wire_filter "$1" "$2" 4 ipv6 "match u8 50 0xff at 6"
}

wire_filter() {
	tc -n "$1" filter add dev "$2" ingress pref $3 protocol $4 u32 $5 action pass
}

# Frames that came to an end: wire_frames 1|2 plain|esp
wire_frames() {
	local ns=$NS1 device=$DEV1 first=1
	(($1 == 1)) || { ns=$NS2 device=$DEV2; }
	[[ $2 == plain ]] || first=3
	local pref
	for pref in $first $((first + 1)); do
		tc -n "$ns" -s filter show dev "$device" ingress pref $pref
	done | awk '$1 == "Sent" { n += $4 } END { print n + 0 }'
}

# wire_beyond END KIND COUNT
wire_beyond() {
	(($(wire_frames $1 $2) > $3))
}

# A packet that was on its way when the policy came has arrived.
wire_settles() {
	sleep 0.3
	plain=$(wire_frames $1 plain)
}

wire_is_still() {
	(($(wire_frames $1 plain) == $2)) || fail "end $1: plain frames, $2 and then more"
}

# ipsec_policy NS in|out FROM TO [OPTION...]: for the port; ESP is demanded unless told.
ipsec_policy() {
	local ns=$1 direction=$2 from=$3 to=$4
	shift 4
	(($#)) || set -- tmpl src $from dst $to proto esp mode transport
	ip -n "$ns" xfrm policy add src $from dst $to proto udp dport 4791 dir $direction "$@"
}

# ChaCha20 is computed where it is asked for; AES goes to another worker now and then, which puts
# packets out of order.
ipsec_key() {
	local key=0x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20212223
	ip -n "$1" xfrm state add src $2 dst $3 proto esp spi 0x1234 mode transport \
		aead 'rfc7539esp(chacha20,poly1305)' $key 128
}

ipsec_off() {
	ip -n "$1" xfrm policy flush && ip -n "$1" xfrm state flush
}

# A counter of /proc/net/xfrm_stat.
xfrm_count() {
	ip netns exec "$1" awk -v name="$2" '$1 == name { print $2 }' /proc/net/xfrm_stat
}

xfrm_beyond() {
	(($(xfrm_count "$1" "$2") > $3))
}

ipsec_flows() {
	flow_start v4 $IP1 $IP2 $PATIENT && flow_start v6 $IP1_6 $IP2_6 $PATIENT
}

# A demand of one family is nothing to the other.
ipsec_inbound() {
	local before
	before=$(xfrm_count "$NS2" XfrmInTmplMismatch)
	ipsec_flows && ipsec_policy "$NS2" in $IP1 $IP2 && flow_stands v4 && flow_advances v6 &&
		soon 10 xfrm_beyond "$NS2" XfrmInTmplMismatch $before || return
	before=$(xfrm_count "$NS2" XfrmInTmplMismatch)
	ipsec_off "$NS2" && flow_advances v4 && ipsec_policy "$NS2" in $IP1_6 $IP2_6 &&
		flow_stands v6 && flow_advances v4 &&
		soon 10 xfrm_beyond "$NS2" XfrmInTmplMismatch $before && ipsec_off "$NS2" &&
		flow_advances v4 v6 && flow_stop v4 v6
}

# The other end has no key: it gets ESP, and can do nothing with it.
ipsec_outbound() {
	local plain before
	before=$(xfrm_count "$NS2" XfrmInNoStates)
	ipsec_flows && ipsec_key "$NS1" $IP1 $IP2 && ipsec_key "$NS1" $IP1_6 $IP2_6 &&
		ipsec_policy "$NS1" out $IP1 $IP2 && ipsec_policy "$NS1" out $IP1_6 $IP2_6 &&
		flow_stands v4 && flow_stands v6 && wire_settles 2 &&
		soon 10 xfrm_beyond "$NS2" XfrmInNoStates $before &&
		soon 10 wire_beyond 2 esp 0 && wire_is_still 2 $plain && ipsec_off "$NS1" &&
		flow_advances v4 v6 && flow_stop v4 v6
}

ipsec_blocked() {
	local plain before
	before=$(xfrm_count "$NS2" XfrmInPolBlock)
	ipsec_flows && ipsec_policy "$NS2" in $IP1 $IP2 action block &&
		ipsec_policy "$NS2" in $IP1_6 $IP2_6 action block && flow_stands v4 &&
		flow_stands v6 && soon 10 xfrm_beyond "$NS2" XfrmInPolBlock $before &&
		ipsec_off "$NS2" && flow_advances v4 v6 &&
		ipsec_policy "$NS1" out $IP1 $IP2 action block &&
		ipsec_policy "$NS1" out $IP1_6 $IP2_6 action block && flow_stands v4 &&
		flow_stands v6 && wire_settles 2 && sleep 5 && wire_is_still 2 $plain &&
		ipsec_off "$NS1" && flow_advances v4 v6 && flow_stop v4 v6
}
