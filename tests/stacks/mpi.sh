# shellcheck shell=bash
# shellcheck disable=SC2154 # tier, programs and ucx_verbs are tests/stacks/run's
# SPDX-License-Identifier: GPL-2.0
#
# Open MPI and MPICH over UCX over rox: tests/stacks/mpi_data.cc with ranks in both namespaces, which are
# two hosts for MPI, and with ranks on one device. Where UCX has no verbs, Open MPI over libfabric. Sourced by
# tests/stacks/run.

# Starts a command in the namespace of a host, on behalf of a launcher (its remote shell): the host is
# named by its address. The devices are those of the namespace.
mpi_agent() {
	cat >"$ROX_TMP/agent" <<-EOF
		#!/bin/bash
		[[ \$1 != -x ]] || shift
		case \$1 in
		$IP1) where=$NS1 dev=$ROX1 netdev=$DEV1 ;;
		$IP2) where=$NS2 dev=$ROX2 netdev=$DEV2 ;;
		*) echo "agent: no host \$1" >&2; exit 1 ;;
		esac
		name=\$where
		shift
		export UCX_NET_DEVICES=\$dev:1 FI_VERBS_IFACE=\$netdev
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

openmpi_options=(--allow-run-as-root --oversubscribe --bind-to none --mca mpi_yield_when_idle 1)
# Everything by UCX, and by nothing else; whatever UCX has been told to use will do.
openmpi_ucx=(--mca pml ucx --mca osc ucx --mca btl '^openib,vader,tcp,uct'
	--mca opal_common_ucx_tls any --mca opal_common_ucx_devices any)
# Likewise by libfabric. Open MPI 6.0.0rc2 replaces what tells libfabric of memory that is given back, and then
# regions in its cache have pages that the program no longer has. It has no windows over these providers.
openmpi_fabric=(--mca pml cm --mca mtl ofi --mca btl self --mca mtl_ofi_provider_include verbs -x FI_MR_CACHE_MAX_COUNT=0
	-x 'FI_PROVIDER=verbs;ofi_rxm' -x FI_OFI_RXM_CM_PROGRESS_INTERVAL=1000000)

# openmpi BYTES OPTION... PROGRAM...
openmpi() {
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
	mpi_run "$1" mpirun.openmpi "${openmpi_options[@]}" "${@:2}"
}

# openmpi_two BYTES RANKS OPTION... PROGRAM...
openmpi_two() {
	mpi_agent
	openmpi "$1" -np "$2" --host "$IP1:2,$IP2:2" --map-by node \
		--mca plm_rsh_agent "$ROX_TMP/agent" --mca oob_tcp_if_include "$IP1/24" "${@:3}"
}

openmpi_ucx_two() {
	openmpi_two "$1" "$3" "${openmpi_ucx[@]}" -x UCX_TLS="$2" "$programs/mpi_data"
}

openmpi_fabric_two() {
	FI_VERBS_IFACE=$DEV1 openmpi_two "$1" "$2" "${openmpi_fabric[@]}" "$programs/mpi_data" two-sided
}

# Ranks get no variables of the launcher but those in the list: the devices are those that the agent has named.
# Ranks of one host use the device, too: by its own shared memory MPICH 4.0.2 loses puts here, with UCX over TCP as well.
mpich_two() {
	mpi_agent
	UCX_TLS=$2 MPIR_CVAR_NOLOCAL=1 mpi_run "$1" mpiexec.mpich -launcher ssh -launcher-exec "$ROX_TMP/agent" \
		-iface "$DEV1" -genvlist UCX_TLS,MPIR_CVAR_NOLOCAL -hosts "$IP1,$IP2" -n "$3" "$programs/mpi_data.mpich"
}

mpi_tests() {
	if [[ -z $ucx_verbs ]]; then
		run_named "$1: Open MPI over libfabric, 2 ranks" openmpi_fabric_two 1000000 2
		run_named "$1: Open MPI over libfabric, 4 ranks" openmpi_fabric_two 6000000 4
		return
	fi
	export UCX_NET_DEVICES=$ROX1:1
	run_named "$1: Open MPI, 2 ranks over RC" openmpi_ucx_two 1000000 rc_v 2
	run_named "$1: Open MPI, 4 ranks over RC" openmpi_ucx_two 6000000 rc_v,self 4
	[[ $tier == q ]] || run_named "$1: Open MPI, 2 ranks over UD" openmpi_ucx_two 1000000 ud_v 2
	run_named "$1: MPICH, 2 ranks over RC" mpich_two 1000000 rc_v 2
	[[ $tier == q ]] || run_named "$1: MPICH, 4 ranks over RC" mpich_two 6000000 rc_v,self 4
	unset UCX_NET_DEVICES
}

mpi_one_device_tests() {
	[[ $tier == q || -z $ucx_verbs ]] ||
		run_named "$1: Open MPI, 3 ranks over RC" openmpi 3000000 -np 3 "${openmpi_ucx[@]}" \
			-x UCX_TLS=rc_v,self -x "UCX_NET_DEVICES=$ROX1:1" "$programs/mpi_data"
}
