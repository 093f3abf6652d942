# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# SMC-R: a socket of AF_SMC talks TCP until both ends know that they have an RDMA device for the
# route, then RDMA writes. Sourced by tests/kusers/run. Debian 12 has no smc-tools: smc_stream.py.

SMC_PORT=7100
SMC_EID=ROX.TEST

smc_load() {
	modprobe smc && python3 tests/kusers/smc_stream.py eid "$SMC_EID"
}

# Guest 0 sends back whatever comes, until it is ended.
smc_server_start() {
	smc_load || return
	python3 tests/kusers/smc_stream.py serve "$SMC_PORT" &
	smc_server=$!
}

smc_server_stop() {
	kill "$smc_server"
	wait "$smc_server" 2>/dev/null
	wait_until 20 modprobe -r smc
}

# smc falls back to TCP without a word, so the QPs that it has made must be seen.
smc_has_qp() {
	rdma resource show qp link rox0 | grep 'type RC .*state RTS'
}

smc_sent() {
	echo $(($(<"$IB_CLASS/rox0/ports/1/hw_counters/tx_bytes")))
}

smc_talk() {
	local before
	before=$(smc_sent)
	run_limited 40 python3 tests/kusers/smc_stream.py talk "$1" "$SMC_PORT" "$2" "$3" || return
	smc_has_qp || { rdma resource show qp; echo "no RC QP: it was TCP"; return 1; }
	# A QP may be that of an earlier case.
	(($(smc_sent) - before >= $2 * $3)) || { echo "the device has sent $(($(smc_sent) - before)) bytes: it was TCP"; return 1; }
}

# A case that fails leaves nothing but idle QPs.
smc_restore() {
	:
}

smc_tests() {
	case_run "SMC-R: module" smc_load
	case_run "SMC-R: one stream, data compared" smc_talk "$1" 1 $((16000000 / SHARE))
	case_run "SMC-R: eight streams, data compared" smc_talk "$1" 8 $((2000000 / SHARE))
	# smc keeps idle QPs for ten minutes; the end of the module ends them.
	case_run "SMC-R: the module unloads with idle QPs" wait_until 20 modprobe -r smc
}
