# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# NFS over RDMA: svcrdma exports a tmpfs, xprtrdma mounts it. Sourced by tests/kusers/run.

NFS_EXPORT=/srv/rox-export
NFS_MOUNT=/mnt/rox-nfs
NFS_PORT=20049
NFS_TRACE=/sys/kernel/tracing
exec {nfs_output}>&1

# mountd answers MOUNT of version 3 and the kernel's questions about exports; rpcbind is where
# version 3 asks for mountd. No other daemon of the packages runs. The export is version 4's root
# (fsid=0): the guest's own root is an overlay, which cannot be exported.
nfs_server_start() {
	mkdir -p "$NFS_EXPORT" /run/rpcbind && mount -t tmpfs -o size=512M tmpfs "$NFS_EXPORT" &&
		ip link set lo up && modprobe -a nfsd rpcrdma &&
		{ mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd; } &&
		rpcbind -w && rpc.mountd &&
		exportfs -o rw,no_root_squash,insecure,no_subtree_check,fsid=0 "*:$NFS_EXPORT" &&
		rpc.nfsd --lease-time 10 --grace-time 10 --rdma="$NFS_PORT" 4
}

nfs_server_stop() {
	rpc.nfsd 0 && exportfs -ua && exportfs -f || return
	kill "$(pidof rpc.mountd)" "$(pidof rpcbind)"
	wait_until 20 umount "$NFS_EXPORT" && umount /proc/fs/nfsd && wait_until 20 modprobe -r nfsd
}

# The RPC timeout is NFS' own minute. A server's thread that reads from a client which is gone waits
# for the QP's retries, 15 s with Linux 6.1's RDMA CM. A client with shorter timeouts than that drops
# each new connection as soon as it has it, and leaves the next thread to wait.
nfs_mount() {
	local path=/
	[[ $2 == 3 ]] && path=$NFS_EXPORT
	mkdir -p "$NFS_MOUNT" && run_limited 40 mount -t nfs -o \
		"rdma,port=$NFS_PORT,vers=$2,nolock" "$1:$path" "$NFS_MOUNT" || return
	nfs_mounted "$2"
}

# Without it a test would be one of the folder below.
nfs_mounted() {
	grep " $NFS_MOUNT nfs.*[ ,]vers=$1,.*proto=rdma" /proc/mounts || { echo "not mounted"; return 1; }
}

# As a case needs it that follows one which failed.
nfs_needs() {
	nfs_mounted "$1" >/dev/null || nfs_mount "$nfs_address" "$1"
}

# After a failure. A hard mount may wait for its server for ever.
nfs_restore() {
	local remover
	nfs_enough
	[[ -z $nfs_copy ]] || wait_until 20 process_ended "$nfs_copy" || kill -9 "$nfs_copy"
	nfs_copy=
	nfs_trace 0
	grep -q " $NFS_MOUNT nfs" /proc/mounts || return 0
	rm -rf "${NFS_MOUNT:?}"/* &
	remover=$!
	wait_until 20 process_ended $remover
	timeout -k 1 20 umount "$NFS_MOUNT" || umount -f "$NFS_MOUNT" || umount -l "$NFS_MOUNT"
}

# A case that failed may have done it already.
nfs_umount() {
	! grep -q " $NFS_MOUNT nfs" /proc/mounts || run_limited 40 umount "$NFS_MOUNT"
}

process_ended() {
	! kill -0 "$1" 2>/dev/null
}

nfs_original() {
	[[ -e $ROX_TMP/nfs-original ]] || head -c 24M /dev/urandom >"$ROX_TMP/nfs-original"
}

# What is compared comes from the server: the client's pages are dropped first.
nfs_same() {
	echo 3 >/proc/sys/vm/drop_caches
	cmp "$ROX_TMP/nfs-original" "$1"
}

nfs_files() {
	nfs_needs "$1" && nfs_original && run_limited 60 cp "$ROX_TMP/nfs-original" "$NFS_MOUNT/copy" &&
		run_limited 60 sync -f "$NFS_MOUNT/copy" && nfs_same "$NFS_MOUNT/copy" &&
		run_limited 60 dd if="$ROX_TMP/nfs-original" of="$NFS_MOUNT/direct" bs=1000000 \
			oflag=direct status=none && nfs_same "$NFS_MOUNT/direct" &&
		rm "$NFS_MOUNT/copy" "$NFS_MOUNT/direct"
}

# Long directory listings and long links go in reply chunks and inline parts of all sizes.
nfs_names() {
	local bad
	nfs_needs "$1" && mkdir "$NFS_MOUNT/names" && python3 -c '
import os, sys
for i in range(1, 201):
    name = f"{i:0{i + 20}}"
    os.symlink(name, os.path.join(sys.argv[1], name))' "$NFS_MOUNT/names" || return
	echo 3 >/proc/sys/vm/drop_caches
	[[ $(find "$NFS_MOUNT/names" -type l | wc -l) == 200 ]] || return
	bad=$(find "$NFS_MOUNT/names" -type l -printf '%f %l\n' | awk '$1 != $2') || return
	[[ -z $bad ]] || { echo "links that lead elsewhere: $bad"; return 1; }
	rm -r "$NFS_MOUNT/names"
}

nfs_parallel() {
	local i pids=() status=0
	nfs_needs "$1" && nfs_original || return
	for i in 1 2 3 4; do
		(cp "$ROX_TMP/nfs-original" "$NFS_MOUNT/p$i" && sync -f "$NFS_MOUNT/p$i") &
		pids+=($!)
	done
	for i in "${pids[@]}"; do wait "$i" || status=1; done
	for i in 1 2 3 4; do nfs_same "$NFS_MOUNT/p$i" || status=1; done
	rm "$NFS_MOUNT"/p?
	return $status
}

nfs_fio() {
	nfs_needs "$1" || return
	run_limited 120 fio --name=verify --directory="$NFS_MOUNT" --direct=1 --ioengine=libaio \
		--iodepth=8 --numjobs=2 --rw=randrw --bsrange=512-256k --size=$((16 / SHARE))M --verify=crc32c \
		--verify_fatal=1 --do_verify=1 --output-format=terse >"$ROX_TMP/fio.out" 2>&1 ||
		{ tail -n 20 "$ROX_TMP/fio.out"; return 1; }
	rm "$NFS_MOUNT"/verify.*
}

# Copies until nfs_enough, and counts the copies that are on the server.
nfs_copy_start() {
	rm -f "$ROX_TMP/nfs-enough"
	echo 0 >"$ROX_TMP/nfs-copies"
	(for ((copies = 1; ; copies++)); do
		cp "$ROX_TMP/nfs-original" "$NFS_MOUNT/lost" && sync -f "$NFS_MOUNT/lost" || exit
		echo "$copies" >"$ROX_TMP/nfs-copies.new" && mv "$ROX_TMP/nfs-copies.new" "$ROX_TMP/nfs-copies"
		[[ ! -e $ROX_TMP/nfs-enough ]] || exit 0
	done) &
	nfs_copy=$!
}

nfs_enough() {
	: >"$ROX_TMP/nfs-enough"
}

nfs_has_sent() {
	(($(<"/sys/class/infiniband/rox0/ports/1/hw_counters/tx_bytes") >= $1))
}

# A hard mount waits for its device to come back and then goes on where it was. The link goes in the midst of a file.
nfs_link_lost_once() {
	local sent copies
	sent=$(<"/sys/class/infiniband/rox0/ports/1/hw_counters/tx_bytes")
	nfs_copy_start
	wait_until 40 nfs_has_sent $((sent + 36 * 1024 * 1024)) || { echo "nothing is sent"; return 1; }
	run_limited 60 rdma link delete rox0 || return
	nap 0.5
	copies=$(<"$ROX_TMP/nfs-copies")
	nap 2
	if process_ended "$nfs_copy" || (($(<"$ROX_TMP/nfs-copies") != copies)); then
		echo "the copy did not wait for the link"
		return 1
	fi
	link_up || return
	nfs_enough
	wait_until 90 process_ended "$nfs_copy" && wait "$nfs_copy" || return
	nfs_copy=
	nfs_same "$NFS_MOUNT/lost" && rm "$NFS_MOUNT/lost"
}

# When a device goes, Linux's NFS client connects again at once, perhaps over the device that is
# going. If the RDMA CM takes it away between the address and the route, rdma_resolve_route() returns
# EINVAL. call_connect_status() does not take that for a reason to try again, and the write fails.
# No QP could be refused: the connection has none yet.
nfs_connect_was_given_up() {
	grep -q 'rpc_connect_status:.* status=-22' "$NFS_TRACE/trace" &&
		! grep -q 'cm_qp_create:.* rc=-' "$NFS_TRACE/trace"
}

nfs_trace() {
	echo "$1" >"$NFS_TRACE/events/sunrpc/rpc_connect_status/enable" &&
		echo "$1" >"$NFS_TRACE/events/rdma_cma/cm_qp_create/enable"
}

# The case is repeated, at most twice, if that fault of Linux was the cause.
nfs_link_lost() {
	local try status
	nfs_needs 4.2 && nfs_original || return
	for try in 1 2 3; do
		status=0
		: >"$NFS_TRACE/trace" && nfs_trace 1 || return
		nfs_link_lost_once || status=$?
		nfs_trace 0 || return
		((status && try < 3)) && nfs_connect_was_given_up || return "$status"
		# scripts/check counts these lines. Standard output belongs to the case.
		echo "# again: NFS's client connected over a device that was going" >&"$nfs_output"
		link_there || return
		nfs_enough
		wait_until 90 process_ended "$nfs_copy" || return
		# The next copy is to another file: this one tells who closes it next of writes that failed after
		# the copy's end.
		rm -f "$NFS_MOUNT/lost" || return
	done
}

nfs_tests() {
	local version
	nfs_address=$1 nfs_copy=
	case_run "NFS: modules" modprobe -a rpcrdma nfs
	for version in 3 4.2; do
		case_run "NFS $version: mount" nfs_mount "$nfs_address" "$version"
		case_run "NFS $version: copy, compare" nfs_files "$version"
		if [[ -n ${ROX_QUICK:-} ]]; then
			case_run "NFS $version: umount" nfs_umount
			continue
		fi
		case_run "NFS $version: names and links" nfs_names "$version"
		case_run "NFS $version: four copies at once" nfs_parallel "$version"
		case_run "NFS $version: fio with verify" nfs_fio "$version"
		case_run "NFS $version: umount" nfs_umount
	done
	[[ -z ${ROX_QUICK:-} ]] || return 0
	case_run "NFS 4.2: mount again" nfs_mount "$nfs_address" 4.2
	case_run "NFS 4.2: link deleted and added while copying" nfs_link_lost
	case_run "NFS 4.2: umount at the end" nfs_umount
}
