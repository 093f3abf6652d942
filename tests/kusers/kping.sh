# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: GPL-2.0
#
# rox_kping, our own kernel user (tests/kusers/kping): READ and WRITE of 64 to 65,536 bytes, compared.
# Each list of pages is noted while the region is still registered under the one before, unless the
# server has invalidated that. Sourced by tests/kusers/run.

KPING_PORT=7200
KPING_PARAMETERS=/sys/module/rox_kping/parameters

kping_load() {
	modprobe rdma_cm && insmod "${ROX_BUILD:-build}/tests/kusers/$(uname -r)/rox_kping.ko"
}

kping_server_start() {
	kping_load && echo "$KPING_PORT" >"$KPING_PARAMETERS/serve"
}

kping_server_stop() {
	rmmod rox_kping
}

# ADDRESS FLAGS VECTOR; every completion must be handled on the vector's CPU.
kping() {
	run_limited 120 bash -c "echo $1 $KPING_PORT $2 $3 >$KPING_PARAMETERS/ping" && return
	dmesg | grep 'kping:' | tail -n 5
	return 1
}

kping_no_such_vector() {
	local status=0
	run_limited 20 bash -c "echo $1 $KPING_PORT $2 $3 >$KPING_PARAMETERS/ping" >"$ROX_TMP/kping" 2>&1 || status=$?
	((status == 1)) && grep -q 'write error' "$ROX_TMP/kping" || { echo "status $status:"; cat "$ROX_TMP/kping"; return 1; }
}

# A case that fails leaves nothing that lasts.
kping_restore() {
	:
}

kping_tests() {
	local vector cpus
	cpus=$(nproc)
	# A guest of its own has the server's module.
	[[ $role == both ]] || case_run "kping: module" kping_load
	case_run "kping: local DMA key" kping "$1" 0 0
	case_run "kping: fast registration" kping "$1" 1 0
	case_run "kping: local DMA key, the server invalidates" kping "$1" 2 0
	case_run "kping: fast registration, the server invalidates" kping "$1" 3 0
	for ((vector = 0; vector < cpus; vector++)); do
		case_run "kping: completion vector $vector stands for a CPU" kping "$1" 1 "$vector"
	done
	case_run "kping: there are as many vectors as CPUs" kping_no_such_vector "$1" 1 "$cpus"
	[[ $role == both ]] || case_run "kping: the module unloads" rmmod rox_kping
}
