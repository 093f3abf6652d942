# shellcheck shell=bash
# shellcheck disable=SC2154 # tier and programs are tests/stacks/run's
# SPDX-License-Identifier: GPL-2.0
#
# Open MPI and MPICH over UCX over rox: tests/stacks/mpi_data.cc with ranks in both namespaces, which are
# two hosts for MPI, and with ranks on one device. Sourced by tests/stacks/run.

# Starts a command in the namespace of a host, on behalf of a launcher (its remote shell): the host is
# named by its address. The devices are those of the namespace.
mpi_agent() {
	cat >"$ROX_TMP/agent" <<-EOF
		#!/bin/bash
		[[ \$1 != -x ]] || shift
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

# mpi_run BYTES LAUNCHER...: the devices must have sent so much.
mpi_run() {
	local least=$1 before sent status=0 output=$ROX_TMP/mpi.out
	shift
	before=$(case_sent)
	run_limited 60 ip netns exec "$NS1" unshare --uts sh -c 'hostname "$0"; exec "$@"' "$NS1" "$@" \
		>"$output" 2>&1 || status=$?
	sent=$(($(case_sent) - before))
	if ((status == 0)) && ! grep -q '^mpi_data: [0-9]* ranks, [0-9]* checks$' "$output"; then
		echo "$1 ended with 0, but the program has not printed its result"
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

# Everything by UCX, and by nothing else; whatever UCX has been told to use will do.
openmpi_options=(--allow-run-as-root --oversubscribe --bind-to none --mca mpi_yield_when_idle 1
	--mca pml ucx --mca osc ucx --mca btl '^openib,vader,tcp,uct'
	--mca opal_common_ucx_tls any --mca opal_common_ucx_devices any)

# openmpi BYTES TRANSPORT OPTION...
openmpi() {
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
	mpi_run "$1" mpirun.openmpi "${openmpi_options[@]}" -x UCX_TLS="$2" "${@:3}" "$programs/mpi_data"
}

openmpi_two() {
	mpi_agent
	openmpi "$1" "$2" -np "$3" --host "$IP1:2,$IP2:2" --map-by node \
		--mca plm_rsh_agent "$ROX_TMP/agent" --mca oob_tcp_if_include "$IP1/24"
}

# Ranks get no variables of the launcher but those in the list: the devices are those that the agent has named.
# Ranks of one host use the device, too: by its own shared memory MPICH 4.0.2 loses puts here, with UCX over TCP as well.
mpich_two() {
	mpi_agent
	UCX_TLS=$2 MPIR_CVAR_NOLOCAL=1 mpi_run "$1" mpiexec.mpich -launcher ssh -launcher-exec "$ROX_TMP/agent" \
		-iface "$DEV1" -genvlist UCX_TLS,MPIR_CVAR_NOLOCAL -hosts "$IP1,$IP2" -n "$3" "$programs/mpi_data.mpich"
}

mpi_tests() {
	export UCX_NET_DEVICES=$ROX1:1
	run_named "$1: Open MPI, 2 ranks over RC" openmpi_two 1000000 rc_v 2
	run_named "$1: Open MPI, 4 ranks over RC" openmpi_two 6000000 rc_v,self 4
	if [[ $tier != q ]]; then
		run_named "$1: Open MPI, 2 ranks over UD" openmpi_two 1000000 ud_v 2
		run_named "$1: MPICH, 2 ranks over RC" mpich_two 1000000 rc_v 2
		run_named "$1: MPICH, 4 ranks over RC" mpich_two 6000000 rc_v,self 4
	fi
	unset UCX_NET_DEVICES
}

mpi_one_device_tests() {
	[[ $tier == q ]] ||
		run_named "$1: Open MPI, 3 ranks over RC" openmpi 3000000 rc_v,self -np 3 \
			-x "UCX_NET_DEVICES=$ROX1:1"
}
