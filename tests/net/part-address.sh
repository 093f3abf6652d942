# shellcheck shell=bash disable=SC2086
# SPDX-License-Identifier: GPL-2.0
#
# Addresses come and go beneath queue pairs that use them, or others.

part_address() {
	stage_begin address address_stage stage_clear
	case_run "gone and back: its traffic waits, the other's goes on, events" address_away
	case_run "no packet with an IPv6 address that has gone" address_unused
	case_full "gone for good: retries exceeded, the other's traffic goes on" address_lost
	case_full "added and removed all the time" address_churn
	stage_end
}

address_stage() {
	stage_set && second_addresses
}

addresses_delete() {
	gid_delete "$NS1" "$DEV1" "$ROX1" $A1/24 && gid_delete "$NS1" "$DEV1" "$ROX1" $A1_6/64
}

addresses_add() {
	gid_add "$NS1" "$DEV1" "$ROX1" $A1/24 && gid_add "$NS1" "$DEV1" "$ROX1" $A1_6/64
}

address_away() {
	flow_start moving $A1 $A2 $PATIENT && flow_start moving6 $A1_6 $A2_6 $PATIENT &&
		flow_start other $IP1 $IP2 $PATIENT && event_watch && addresses_delete &&
		event_seen 'gid.*change' && flow_stands moving && flow_stands moving6 &&
		flow_advances other && addresses_add && event_seen 'gid.*change' &&
		flow_advances moving moving6 other && flow_stop moving moving6 other
}

# The peer takes packets from that address, so that its counter tells whether there are any.
address_unused() {
	local before
	flow_start moving $A1_6 $A2_6 $PATIENT &&
		gid_delete "$NS1" "$DEV1" "$ROX1" $A1_6/64 && flow_stands moving || return
	before=$(counter_of "$ROX2" rx_packets)
	sleep 6
	[[ $(counter_of "$ROX2" rx_packets) == "$before" ]] ||
		flow_fail moving "sends as $A1_6, which is not there" || return
	gid_add "$NS1" "$DEV1" "$ROX1" $A1_6/64 && flow_advances moving && flow_stop moving
}

# A new connection finds the address again.
address_lost() {
	flow_start moving $A1 $A2 $HASTY && flow_start moving6 $A1_6 $A2_6 $HASTY &&
		flow_start other $IP1 $IP2 $PATIENT && addresses_delete && flow_ends moving &&
		flow_ends moving6 && flow_advances other && addresses_add &&
		flow_start again $A1 $A2 $PATIENT && flow_start again6 $A1_6 $A2_6 $PATIENT &&
		flow_advances again again6 other && flow_stop again again6 other
}

address_churn() {
	local i
	flow_start moving $A1 $A2 $PATIENT && flow_start moving6 $A1_6 $A2_6 $PATIENT &&
		flow_start other $IP1_6 $IP2_6 $PATIENT || return
	for ((i = 0; i < 10; i++)); do
		ip -n "$NS1" address delete $A1/24 dev "$DEV1" &&
			ip -n "$NS2" address delete $A2_6/64 dev "$DEV2" &&
			ip -n "$NS1" address add 10.7.0.$i/24 dev "$DEV1" &&
			ip -n "$NS1" address add $A1/24 dev "$DEV1" &&
			ip -n "$NS2" address add $A2_6/64 dev "$DEV2" nodad &&
			ip -n "$NS1" address delete 10.7.0.$i/24 dev "$DEV1" && sleep 0.1 || return
	done
	flow_advances moving moving6 other && flow_stop moving moving6 other
}
