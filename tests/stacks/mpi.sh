# shellcheck shell=bash
# shellcheck disable=SC2154 # tier and programs are tests/stacks/run's
# SPDX-License-Identifier: GPL-2.0
#
# Open MPI over UCX over rox: tests/stacks/mpi_data.cc with ranks in both namespaces, which are two
# hosts for Open MPI, and with ranks on one device. Sourced by tests/stacks/run.

# Starts a command in the namespace of a host, on behalf of mpirun (its remote shell): the host is
# named by its address. The devices are those of the namespace.
mpi_agent() {
	cat >"$ROX_TMP/agent" <<-EOF
		#!/bin/bash
		case \$1 in
		$IP1) where=$NS1 dev=$ROX1 ;;
		$IP2) where=$NS2 dev=$ROX2 ;;
		*) echo "agent: no host \$1" >&2; exit 1 ;;
		esac
		name=\$where
		shift
		export UCX_NET_DEVICES=\$dev:1
		exec ip netns exec "\$where" unshare --uts sh -c "hostname \$name; \$*"
	EOF
	chmod +x "$ROX_TMP/agent"
}

# Options for mpirun: everything by UCX, and by nothing else; whatever UCX has been told to use will do.
mpi_options=(--allow-run-as-root --oversubscribe --bind-to none --mca mpi_yield_when_idle 1
	--mca pml ucx --mca osc ucx --mca btl '^openib,vader,tcp,uct'
	--mca opal_common_ucx_tls any --mca opal_common_ucx_devices any)

# mpi_run BYTES TRANSPORT OPTION...: the devices must have sent so much.
mpi_run() {
	local least=$1 transport=$2 before sent status=0 output=$ROX_TMP/mpi.out
	shift 2
	before=$(case_sent)
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
	run_limited 60 ip netns exec "$NS1" unshare --uts sh -c 'hostname "$0"; exec "$@"' "$NS1" \
		mpirun "${mpi_options[@]}" -x UCX_TLS="$transport" "$@" "$programs/mpi_data" \
		>"$output" 2>&1 || status=$?
	sent=$(($(case_sent) - before))
	if ((status == 0)) && ! grep -q '^mpi_data: [0-9]* ranks, [0-9]* checks$' "$output"; then
		echo "mpirun ended with 0, but the program has not printed its result"
		status=1
	fi
	if ((status == 0 && sent < least)); then
		echo "the devices have sent $sent bytes, not $least"
		status=1
	fi
	((status == 0)) || cat "$output"
	leak_check || status=1
	return $status
}

mpi_two() {
	mpi_agent
	mpi_run "$1" "$2" -np "$3" --host "$IP1:2,$IP2:2" --map-by node \
		--mca plm_rsh_agent "$ROX_TMP/agent" --mca oob_tcp_if_include "$IP1/24"
}

mpi_tests() {
	export UCX_NET_DEVICES=$ROX1:1
	run_named "$1: Open MPI, 2 ranks over RC" mpi_two 1000000 rc_v 2
	run_named "$1: Open MPI, 4 ranks over RC" mpi_two 6000000 rc_v,self 4
	[[ $tier == q ]] || run_named "$1: Open MPI, 2 ranks over UD" mpi_two 1000000 ud_v 2
	unset UCX_NET_DEVICES
}

mpi_one_device_tests() {
	[[ $tier == q ]] ||
		run_named "$1: Open MPI, 3 ranks over RC" mpi_run 3000000 rc_v,self -np 3 \
			-x "UCX_NET_DEVICES=$ROX1:1"
}
