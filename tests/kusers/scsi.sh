# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: GPL-2.0
#
# SCSI disks over RDMA: Linux's target (LIO) exports two ramdisks, one by iSER and one by SRP over the RDMA CM;
# ib_iser (with open-iscsi) and ib_srp use them. The target is set up in configfs by hand, as targetcli does it.
# Sourced by tests/kusers/run; not part of the core.

scsi_root=/sys/kernel/config/target
SCSI_MIB=64
ISER_IQN=iqn.2026-11.rox:disk
ISER_HOST=iqn.2026-11.rox:host
ISER_PORT=3260
SRP_PORT=5555

# -- the target -----------------------------------------------------------------

scsi_backstore() {
	mkdir -p "$scsi_root/core/rd_mcp_$1/$2" &&
		echo "rd_pages=$((SCSI_MIB * 256))" >"$scsi_root/core/rd_mcp_$1/$2/control" &&
		echo 1 >"$scsi_root/core/rd_mcp_$1/$2/enable"
}

# ADDRESS; without authentication, and any initiator may write.
iser_target_start() {
	local group=$scsi_root/iscsi/$ISER_IQN/tpgt_1
	modprobe -a iscsi_target_mod ib_isert && scsi_backstore 0 iser && mkdir -p "$scsi_root/iscsi" &&
		mkdir "${group%/*}" && mkdir "$group" && mkdir "$group/np/$1:$ISER_PORT" "$group/lun/lun_0" &&
		echo 1 >"$group/np/$1:$ISER_PORT/iser" && ln -s "$scsi_root/core/rd_mcp_0/iser" "$group/lun/lun_0/disk" &&
		echo 0 >"$group/attrib/authentication" && echo 1 >"$group/attrib/generate_node_acls" &&
		echo 1 >"$group/attrib/cache_dynamic_acls" && echo 0 >"$group/attrib/demo_mode_write_protect" &&
		echo 1 >"$group/enable"
}

iser_target_stop() {
	local group=$scsi_root/iscsi/$ISER_IQN/tpgt_1
	echo 0 >"$group/enable" && rm "$group/lun/lun_0/disk" && rmdir "$group/lun/lun_0" "$group"/np/* "$group" \
		"${group%/*}" "$scsi_root/iscsi" "$scsi_root/core/rd_mcp_0/iser" "$scsi_root/core/rd_mcp_0" &&
		wait_until 20 modprobe -r ib_isert && wait_until 20 modprobe -r iscsi_target_mod
}

# The port's GUID as ib_srpt names the target.
srp_port_name() {
	cat /sys/class/infiniband/rox0/node_guid
}

# ADDRESS, that of the target: ib_srpt knows an initiator by the address that it has connected to.
srp_target_start() {
	local port group
	modprobe ib_srpt && port=$(srp_port_name) && group=$scsi_root/srpt/$port/$port && scsi_backstore 1 srp &&
		mkdir -p "$scsi_root/srpt" && echo "$SRP_PORT" >"$scsi_root/srpt/discovery_auth/rdma_cm_port" &&
		mkdir "${group%/*}" && mkdir "$group" && mkdir "$group/lun/lun_0" "$group/acls/$1" &&
		ln -s "$scsi_root/core/rd_mcp_1/srp" "$group/lun/lun_0/disk" && mkdir "$group/acls/$1/lun_0" &&
		ln -s "$group/lun/lun_0" "$group/acls/$1/lun_0/disk" && echo 1 >"$group/enable"
}

srp_target_stop() {
	local port group
	port=$(srp_port_name) && group=$scsi_root/srpt/$port/$port && echo 0 >"$group/enable" &&
		echo 0 >"$scsi_root/srpt/discovery_auth/rdma_cm_port" && rm "$group"/acls/*/lun_0/disk &&
		rmdir "$group"/acls/*/lun_0 "$group"/acls/* && rm "$group/lun/lun_0/disk" &&
		rmdir "$group/lun/lun_0" "$group" "${group%/*}" "$scsi_root/srpt" "$scsi_root/core/rd_mcp_1/srp" \
			"$scsi_root/core/rd_mcp_1" && wait_until 20 modprobe -r ib_srpt
}

# LIO loads all kinds of backstores by itself.
scsi_modules_unload() {
	modprobe -r target_core_user target_core_pscsi target_core_file target_core_iblock && modprobe -r target_core_mod
}

# What an initiator has to know of the target, which chose it.
scsi_target_says() {
	if [[ -n ${ROX_QUICK:-} ]]; then echo none; else cat /sys/module/ib_srpt/parameters/srpt_service_guid; fi
}

# ADDRESS, that of the target.
scsi_target_start() {
	[[ -z ${ROX_QUICK:-} ]] || return 0
	modprobe target_core_mod && iser_target_start "$1" && srp_target_start "$1"
}

scsi_target_stop() {
	[[ -z ${ROX_QUICK:-} ]] || return 0
	srp_target_stop && iser_target_stop && wait_until 20 scsi_modules_unload
}

# -- what both kinds of disks have to do --------------------------------------------

# A function that prints the disk, or fails.
scsi_has_disk() {
	local disk
	disk=$("$1_disk") && [[ -b $disk ]]
}

scsi_has_none() {
	! "$1_disk" >/dev/null
}

# As a case needs it that follows one which failed.
scsi_needs() {
	scsi_has_disk "$1" || "$1_connect"
}

scsi_original() {
	[[ -e $ROX_TMP/scsi-original ]] || head -c 16M /dev/urandom >"$ROX_TMP/scsi-original"
}

# What is compared comes from the target. DISK BYTES-AT-ONCE
scsi_write() {
	run_limited 120 dd if="$ROX_TMP/scsi-original" of="$1" bs="$2" oflag=direct conv=notrunc status=none
}

scsi_same() {
	run_limited 120 dd if="$1" bs=1M count=16 iflag=direct status=none | cmp - "$ROX_TMP/scsi-original"
}

# As immediate data, by one registration, and by several requests.
scsi_copies() {
	local size disk
	scsi_needs "$1" && disk=$("$1_disk") && scsi_original || return
	for size in 16384 1048576 8388608; do
		dd if=/dev/zero of="$disk" bs=1M count=16 oflag=direct status=none && scsi_write "$disk" $size &&
			scsi_same "$disk" || { echo "$size bytes at once"; return 1; }
	done
}

# Random reads and writes of all sizes, each block read back and its checksum compared.
scsi_fio() {
	scsi_needs "$1" || return
	run_limited 120 fio --name=verify --filename="$("$1_disk")" --direct=1 --ioengine=libaio --iodepth=16 \
		--allow_file_create=0 --rw=randrw --bsrange=512-256k --size=$((32 / SHARE))M --verify=crc32c \
		--verify_fatal=1 --do_verify=1 --output-format=terse >"$ROX_TMP/fio.out" 2>&1 ||
		{ tail -n 20 "$ROX_TMP/fio.out"; return 1; }
}

scsi_loss() {
	local disk lost
	scsi_needs "$1" && disk=$("$1_disk") && scsi_original && modprobe sch_netem &&
		tc qdisc replace dev "$ROX_VM_DEV" root netem loss 1% && scsi_write "$disk" 1048576 && scsi_same "$disk" &&
		lost=$(tc -s qdisc show dev "$ROX_VM_DEV" root | sed -n 's/.*(dropped \([0-9]*\),.*/\1/p') &&
		tc qdisc delete dev "$ROX_VM_DEV" root || return
	((lost > 0)) || { echo "nothing was lost"; return 1; }
}

# Writes all over the disk until it is told to stop, or cannot; counts the rounds. Returns when it is at it.
scsi_load_start() {
	local disk sent
	disk=$("$1_disk") && scsi_original || return
	rm -f "$ROX_TMP/scsi-enough"
	sent=$(<"/sys/class/infiniband/rox0/ports/1/hw_counters/tx_bytes")
	(while [[ ! -e $ROX_TMP/scsi-enough ]]; do
		dd if="$ROX_TMP/scsi-original" of="$disk" bs=1M oflag=direct conv=notrunc,nocreat status=none || exit
	done) 2>"$ROX_TMP/scsi-load" &
	scsi_load=$!
	wait_until 40 nfs_has_sent $((sent + 8 * 1024 * 1024)) || { echo "nothing is written"; return 1; }
}

scsi_load_ends() {
	local status=0
	wait_until 90 process_ended "$scsi_load" || { echo "the load does not end"; return 1; }
	wait "$scsi_load" || status=$?
	scsi_load=
	[[ $1 != good ]] || ((status == 0)) || { cat "$ROX_TMP/scsi-load"; return 1; }
	[[ $1 != bad ]] || ((status != 0)) || { echo "the load saw nothing of it"; return 1; }
}

scsi_disconnect_under_load() {
	scsi_needs "$1" && scsi_load_start "$1" && "$1_disconnect" && scsi_load_ends bad && "$1_connect"
}

# After a failure.
scsi_restore() {
	: >"$ROX_TMP/scsi-enough"
	tc qdisc delete dev "$ROX_VM_DEV" root
	[[ -z $scsi_load ]] || wait_until 30 process_ended "$scsi_load" || kill -9 "$scsi_load"
	scsi_load=
	scsi_has_none "$1" || "$1_disconnect"
}

# -- iSER -----------------------------------------------------------------------

iser_node() {
	run_limited 60 iscsiadm -m node -T "$ISER_IQN" -p "$scsi_address:$ISER_PORT" -I iser "$@"
}

iser_disk() {
	local found
	for found in /sys/class/iscsi_host/host*/device/session*/target*/*:*/block/sd*; do
		[[ -e $found ]] && echo "/dev/${found##*/}" && return 0
	done
	return 1
}

iscsid_listens() {
	grep -q ISCSIADM_ABSTRACT_NAMESPACE /proc/net/unix
}

# The daemon logs in, and logs in again when a connection is lost. It sends no pings: a guest may stand still.
iser_load() {
	modprobe -a ib_iser sd_mod && echo "InitiatorName=$ISER_HOST" >/etc/iscsi/initiatorname.iscsi || return
	# At its end it ends its process group.
	setsid iscsid -f >"$ROX_TMP/iscsid.out" 2>&1 &
	iscsid=$!
	wait_until 10 iscsid_listens && iser_node -o new &&
		iser_node -o update -n 'node.conn[0].timeo.noop_out_interval' -v 0 &&
		iser_node -o update -n 'node.conn[0].timeo.noop_out_timeout' -v 0
}

iser_connect() {
	iser_node --login || { tail -n 5 "$ROX_TMP/iscsid.out"; return 1; }
	wait_until 20 scsi_has_disk iser
}

iser_disconnect() {
	iser_node --logout
	wait_until 20 scsi_has_none iser
}

# The session waits for its device to come back; what was written meanwhile is written then.
iser_link_lost() {
	local disk
	scsi_needs iser && disk=$(iser_disk) && scsi_load_start iser && run_limited 60 rdma link delete rox0 || return
	nap 2
	! process_ended "$scsi_load" || { echo "the load did not wait for the link"; return 1; }
	link_up || return
	: >"$ROX_TMP/scsi-enough"
	scsi_load_ends good && scsi_same "$disk"
}

iser_unload() {
	iser_node -o delete
	kill "$iscsid"
	wait_until 10 process_ended "$iscsid" || kill -9 "$iscsid"
	wait_until 20 modprobe -r ib_iser
}

iser_restore() {
	scsi_restore iser
}

iser_tests() {
	[[ -z ${ROX_QUICK:-} ]] || return 0
	scsi_address=$1 scsi_load='' iscsid=''
	case_run "iSER: modules, daemon" iser_load
	case_run "iSER: login" iser_connect
	case_run "iSER: write, read back, compare" scsi_copies iser
	case_run "iSER: fio with verify" scsi_fio iser
	case_run "iSER: logout under load" scsi_disconnect_under_load iser
	# In a guest of its own the link is the target's, too, and carries nothing: one device talks to itself.
	if [[ $role != both ]]; then
		case_run "iSER: 1 % lost" scsi_loss iser
		case_run "iSER: link deleted and added under load" iser_link_lost
		case_run "iSER: fio with verify again" scsi_fio iser
	fi
	case_run "iSER: logout at the end" iser_disconnect
	case_run "iSER: the module unloads" iser_unload
}

# -- SRP ------------------------------------------------------------------------

srp_host() {
	local host
	for host in /sys/class/scsi_host/host*; do
		[[ -e $host/ioc_guid ]] && echo "$host" && return 0
	done
	return 1
}

srp_disk() {
	local host found
	host=$(srp_host) || return
	for found in "$host"/device/target*/*:*/block/sd*; do
		[[ -e $found ]] && echo "/dev/${found##*/}" && return 0
	done
	return 1
}

srp_load() {
	modprobe -a ib_srp sd_mod
}

srp_login() {
	local add=/sys/class/infiniband_srp/srp-rox0-1/add_target guid=${scsi_said#0x}
	[[ -e $add ]] && run_limited 60 bash -c "echo id_ext=$guid,ioc_guid=$guid,dest=$scsi_address:$SRP_PORT >$add"
}

# ib_srp knows a target for some time after its disks have gone, and does not take it a second time.
srp_connect() {
	wait_until 10 srp_login || { dmesg | tail -n 5; return 1; }
	wait_until 20 scsi_has_disk srp
}

srp_disconnect() {
	local port
	for port in /sys/class/srp_remote_ports/port-*; do
		[[ ! -e $port/delete ]] || echo 1 >"$port/delete"
	done
	wait_until 30 scsi_has_none srp && wait_until 30 srp_no_host
}

srp_no_host() {
	! srp_host >/dev/null
}

# ib_srp removes the disks of a device that goes.
srp_link_lost() {
	scsi_needs srp && scsi_load_start srp && run_limited 60 rdma link delete rox0 && scsi_load_ends bad &&
		wait_until 30 srp_no_host && link_up && srp_connect
}

srp_restore() {
	scsi_restore srp
}

srp_tests() {
	[[ -z ${ROX_QUICK:-} ]] || return 0
	scsi_address=$1 scsi_load=''
	case_run "SRP: module" srp_load
	case_run "SRP: login" srp_connect
	case_run "SRP: write, read back, compare" scsi_copies srp
	case_run "SRP: fio with verify" scsi_fio srp
	case_run "SRP: logout under load" scsi_disconnect_under_load srp
	if [[ $role != both ]]; then
		case_run "SRP: 1 % lost" scsi_loss srp
		case_run "SRP: link deleted under load, login again" srp_link_lost
		case_run "SRP: fio with verify again" scsi_fio srp
	fi
	case_run "SRP: logout at the end" srp_disconnect
	case_run "SRP: the module unloads" wait_until 20 modprobe -r ib_srp
}
