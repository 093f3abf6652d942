# shellcheck shell=bash
# shellcheck disable=SC2154 # tier is tests/stacks/run's
# SPDX-License-Identifier: GPL-2.0
#
# UD multicast by the RDMA CM: mckey, one sender, a receiver in each namespace. Sourced by
# tests/stacks/run.

MCKEY_GROUP=239.1.2.3

# mckey_group OPTION...: every receiver must get all messages of the sender in $NS2.
mckey_group() {
	local status=0 side pids=()
	for side in 1 2; do
		local ns=NS$side ip=IP$side
		ip netns exec "${!ns}" timeout 60 mckey -m "$MCKEY_GROUP" -b "${!ip}" "$@" \
			>"$ROX_TMP/mckey.$side" 2>&1 &
		pids+=($!)
	done
	run_limited 40 ip netns exec "$NS2" mckey -s -m "$MCKEY_GROUP" -b "$IP2" "$@" \
		>"$ROX_TMP/mckey.s" 2>&1 || status=$?
	((status == 0)) || kill "${pids[@]}" 2>/dev/null
	for side in 1 2; do
		wait "${pids[side - 1]}" || { status=$?; echo "receiver $side ended with $status"; }
	done
	for side in 1 2 s; do
		grep -q 'data transfers complete' "$ROX_TMP/mckey.$side" || status=1
	done
	((status == 0)) || tail -n 20 "$ROX_TMP"/mckey.*
	leak_check || status=1
	return $status
}

# With -l the sender's own device does not give it its messages: the receiver there, another QP,
# still gets them, and the one in the other namespace.
mcast_tests() {
	run_named "$1: mckey, receivers in both namespaces" mckey_group -C 20 -S 1000
	[[ $tier == f ]] || return 0
	run_named "$1: mckey, 3 connections" mckey_group -c 3 -C 20
	run_named "$1: mckey, loopback blocked" mckey_group -l
	run_named "$1: mckey, IPv6 is refused by the RDMA core" mckey_refused -m ff15::1:2 -b "$IP1_6"
	run_named "$1: mckey, bare MGIDs are refused by the RDMA core" mckey_refused \
		-M ff15::1:2 -b "$IP1"
}

# For RoCE v2 cma_iboe_join_multicast() of 6.1 and 6.12 knows IPv4 groups only: ENOTSUPP, 524.
mckey_refused() {
	local status=0
	in1 timeout 30 mckey "$@" >"$ROX_TMP/mckey.1" 2>&1 || status=$?
	cat "$ROX_TMP/mckey.1"
	((status != 0 && status != 124)) && grep -q 'Unknown error 524' "$ROX_TMP/mckey.1"
}
