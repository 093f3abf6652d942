# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# NVMe over Fabrics: nvmet-rdma exports a ramdisk, nvme-rdma uses it. Sourced by tests/kusers/run.

NVME_NQN=rox-test
NVME_MIB=256
nvme_root=/sys/kernel/config/nvmet

nvme_target_start() {
	modprobe nvmet_rdma && modprobe brd rd_nr=1 rd_size=$((NVME_MIB * 1024)) || return
	mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config
	mkdir "$nvme_root/subsystems/$NVME_NQN" "$nvme_root/subsystems/$NVME_NQN/namespaces/1" \
		"$nvme_root/ports/1" || return
	echo 1 >"$nvme_root/subsystems/$NVME_NQN/attr_allow_any_host" &&
		echo /dev/ram0 >"$nvme_root/subsystems/$NVME_NQN/namespaces/1/device_path" &&
		echo 1 >"$nvme_root/subsystems/$NVME_NQN/namespaces/1/enable" &&
		echo rdma >"$nvme_root/ports/1/addr_trtype" && echo ipv4 >"$nvme_root/ports/1/addr_adrfam" &&
		echo "$1" >"$nvme_root/ports/1/addr_traddr" && echo 4420 >"$nvme_root/ports/1/addr_trsvcid" &&
		ln -s "$nvme_root/subsystems/$NVME_NQN" "$nvme_root/ports/1/subsystems/$NVME_NQN"
}

nvme_target_stop() {
	rm "$nvme_root/ports/1/subsystems/$NVME_NQN" &&
		rmdir "$nvme_root/ports/1" "$nvme_root/subsystems/$NVME_NQN/namespaces/1" \
			"$nvme_root/subsystems/$NVME_NQN"
}

nvme_device() {
	local subsystem namespace
	for subsystem in /sys/class/nvme-subsystem/*/; do
		[[ -e $subsystem/subsysnqn && $(<"$subsystem/subsysnqn") == "$NVME_NQN" ]] || continue
		for namespace in "$subsystem"nvme*n*; do
			[[ -e $namespace ]] && echo "/dev/${namespace##*/}" && return 0
		done
	done
	return 1
}

nvme_connect() {
	run_limited 40 nvme connect -t rdma -a "$1" -s 4420 -n "$NVME_NQN" -i "${2:-2}" \
		--reconnect-delay=1 --ctrl-loss-tmo=5 --hostnqn=nqn.2014-08.org.nvmexpress:uuid:rox-test ||
		return
	wait_until 20 nvme_device >/dev/null && wait_until 20 test -b "$(nvme_device)"
}

nvme_disconnect() {
	run_limited 60 nvme disconnect -n "$NVME_NQN"
	wait_until 20 nvme_gone
}

nvme_gone() {
	! nvme_device >/dev/null
}

nvme_files() {
	local disk here=$ROX_TMP/nvme
	nvme_needs && disk=$(nvme_device) || return
	mkdir -p "$here" && run_limited 60 mkfs.ext4 -q -F "$disk" && mount "$disk" "$here" || return
	head -c 40M /dev/urandom >"$ROX_TMP/original" &&
		cp "$ROX_TMP/original" "$here/copy" && run_limited 60 sync -f "$here/copy" &&
		echo 3 >/proc/sys/vm/drop_caches &&
		cmp "$ROX_TMP/original" "$here/copy" && umount "$here" &&
		mount "$disk" "$here" && cmp "$ROX_TMP/original" "$here/copy"
	local status=$?
	umount "$here"
	return $status
}

# Random writes of all sizes over the whole disk, each block read back and its checksum compared.
nvme_fio() {
	nvme_needs || return
	run_limited 120 fio --name=verify --filename="$(nvme_device)" --direct=1 --ioengine=libaio --iodepth=16 \
		--allow_file_create=0 --rw=randrw --bsrange=512-256k --size=$((64 / SHARE))M --verify=crc32c --verify_fatal=1 \
		--do_verify=1 --output-format=terse >"$ROX_TMP/fio.out" 2>&1 ||
		{ tail -n 20 "$ROX_TMP/fio.out"; return 1; }
}

# What the load has asked a disk for, in bytes. (The statistics of a disk with several paths know nothing of it on 6.1.)
nvme_load_bytes() {
	sed -n 's/^read_bytes: //p' "/proc/$load/io"
}

nvme_reads_beyond() {
	local bytes
	bytes=$(nvme_load_bytes) && ((bytes > $1))
}

# Returns when it is at it. A disk that goes before fio has opened it must not become a file.
nvme_load_start() {
	fio --name=load --filename="$1" --direct=1 --ioengine=libaio --iodepth=32 --rw=randrw \
		--allow_file_create=0 --bs=64k --time_based --runtime=60 --size=64M --thread \
		>"$ROX_TMP/load.out" 2>&1 &
	load=$!
	wait_until 40 nvme_reads_beyond $((32 * 65536)) && return
	echo "there is no load on $1:"
	tail -n 20 "$ROX_TMP/load.out"
	kill -9 "$load"
	return 1
}

nvme_load_ends() {
	wait_until 40 nvme_load_ended || { kill -9 "$load"; return 1; }
	wait "$load"
	return 0
}

nvme_load_ended() {
	! kill -0 "$load" 2>/dev/null
}

nvme_disconnect_under_load() {
	nvme_connect "$nvme_address" 4 && nvme_load_start "$(nvme_device)" && nvme_disconnect && nvme_load_ends
}

nvme_link_deleted_under_load() {
	nvme_connect "$nvme_address" 2 && nvme_load_start "$(nvme_device)" || return
	run_limited 60 rdma link delete rox0 || return
	nvme_load_ends && wait_until 40 nvme_gone && link_up
}

# The target's netdev carries less than the host's: the connection has the smaller MTU.
nvme_smaller_mtu() {
	local status=0 mtu
	read -r mtu <"/sys/class/net/$ROX_VM_DEV/mtu" && ask mtu $((mtu / 2)) || return
	nvme_connect "$nvme_address" 2 && nvme_fio && nvme_disconnect || status=1
	ask mtu "$mtu" && return $status
}

# Under load the target has another MAC, and the first one again. The connection goes on: the host has not begun
# another one.
nvme_other_mac() {
	local first mac bytes connections
	nvme_connect "$nvme_address" 2 && nvme_load_start "$(nvme_device)" || return
	connections=$(nvme_connections)
	first=$(ip neighbour show "$nvme_address" | grep -o '..:..:..:..:..:..') || return
	for mac in 02:00:00:00:0a:0b "$first"; do
		ask mac "$mac" && bytes=$(nvme_load_bytes) &&
			wait_until 40 nvme_reads_beyond $((bytes + (4 << 20))) || { dmesg | tail -n 20; return 1; }
	done
	[[ $(nvme_connections) == "$connections" ]] || { dmesg | tail -n 20; return 1; }
	kill "$load" && nvme_load_ends && nvme_disconnect
}

# The QPs of the host, by number: another connection has others.
nvme_connections() {
	rdma resource show qp link rox0/1 | grep nvme_rdma | grep -o 'lqpn [0-9]*' | sort
}

# As a case needs it that follows one which failed.
nvme_needs() {
	nvme_device >/dev/null || nvme_connect "$nvme_address"
}

# After a failure.
nvme_restore() {
	[[ -z $load ]] || kill -9 "$load"
	load=
	umount "$ROX_TMP/nvme"
	nvme_gone || nvme_disconnect
}

nvme_tests() {
	local i
	nvme_address=$1 load=
	case_run "NVMe: modules" modprobe -a nvme_rdma
	case_run "NVMe: connect" nvme_connect "$nvme_address"
	case_run "NVMe: mkfs, write, read back, compare" nvme_files
	case_run "NVMe: fio with verify" nvme_fio
	case_run "NVMe: disconnect" nvme_disconnect
	[[ -z ${ROX_QUICK:-} ]] || return 0
	for i in 1 2 3; do
		case_run "NVMe: disconnect under load, $i" nvme_disconnect_under_load
	done
	case_run "NVMe: link deleted under load" nvme_link_deleted_under_load
	case_run "NVMe: connect again" nvme_connect "$nvme_address"
	case_run "NVMe: fio with verify again" nvme_fio
	case_run "NVMe: disconnect at the end" nvme_disconnect
	[[ $role != both ]] || return 0
	case_run "NVMe: the target's MTU is smaller" nvme_smaller_mtu
	case_run "NVMe: the target's MAC changes under load" nvme_other_mac
}
