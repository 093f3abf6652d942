# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Functions for the tests that run in a guest. Source this file from bash.
#
# Results (TAP, counted by scripts/check):
#   tap_ok NAME / tap_not_ok NAME [REASON] / tap_skip NAME REASON
#   tap_run NAME COMMAND...   ok if the command succeeds; if not, its output follows as comments
#   tap_relay PREFIX NAME STATUS FILE    the results in a file, of cases that have run elsewhere, under names that begin
#                             with the prefix, and as one more case NAME that the status is 0
#   tap_done                  prints the plan; returns 1 if anything failed. A script ends with it.
#   gtest_run PREFIX COMMAND...  runs a GoogleTest program, prints its report (JSON) in one line with
#                             the prefix for the names of its cases, and returns its status
#   part NAME                 the cases that follow belong to this part of the group
#   part_wanted NAME          true if it is to be run. With ROX_PART in the environment only that part is, and
#                             with ROX_CASE, if it is a case that can stand alone, only that case: so scripts/check
#                             tries a case again that has failed. The part "all" stands for the whole group.
#   case_wanted NAME          true if this case is to be run
#
# Network:
#   net_two [MTU]      namespaces $NS1 and $NS2 joined by veth, MTU 9000 unless told:
#                      $DEV1 with $IP1 and $IP1_6 in $NS1, $DEV2 with $IP2 and $IP2_6 in $NS2
#                      With NS1_IS_FIRST=1 in the environment $NS1 is the namespace of process 1
#   net_two_delete     deletes both namespaces and everything in them
#   in1 / in2 CMD...   runs a command in $NS1 / $NS2
#   rdma_load          loads rox and the modules for its user-space interfaces
#   link_two           $ROX1 on $DEV1 and $ROX2 on $DEV2
#   link_two_delete
#
# Programs:
#   run_limited SECONDS CMD...            ends the command soon after the limit, with status 124
#   run_pair [-t SECONDS] [-1] [-k] -- SERVER... -- CLIENT...
#       runs the server in $NS1 and, once it listens, the client in $NS2 (-1: also in $NS1, over
#       one device). Returns 0 if both end with 0. -k: the server does not end by itself; end it
#       after the client. At the time limit the state of the QPs and of the kernel is printed.
#   diagnose                              prints that state
#   nap SECONDS                           waits
#   soon SECONDS CONDITION...             true if the command becomes true in time (with ROX_PATIENCE)
#   line_matches PATTERN FILE             true if a line matches; sets matched to the first one
#
# In an emulated guest a process takes a tenth of a second to start, as long as many cases take. So
# code that runs for each case uses the shell's own commands where possible.
#
# Leaks:
#   leak_mark          records the numbers of RDMA objects and module references in use
#   leak_check         0 if these numbers are reached again within ten seconds
#
# RDMA devices are visible in every network namespace, unless `rdma system set netns exclusive` came
# before the first namespace was made. rox uses the namespace of its netdev in both modes; the tests
# use the default.
#
# ROX_TYPE=rxe runs the tests over the in-tree driver, ROX_TRACE=1 records rox' tracepoints.
#
# ROX_NODES=1 is for a command of `rox-run --nodes 2`: namespaces and links are its nodes, and there already.

ROX_TYPE=${ROX_TYPE:-rox}
NS1=ns1 NS2=ns2 DEV1=veth0 DEV2=veth1 ROX1=rox0 ROX2=rox1
IP1=10.0.0.1 IP2=10.0.0.2 IP1_6=fd00::1 IP2_6=fd00::2
if [[ -n ${ROX_NODES:-} ]]; then
	NS1=node1 NS2=node2 DEV1=eth0 DEV2=eth0
	IP1=10.123.0.1 IP2=10.123.0.2 IP1_6=fd00:10:123::1 IP2_6=fd00:10:123::2
fi
ROX_TMP=${ROX_TMP:-$(mktemp -d /tmp/rox-test.XXXXXX)}
# Where sysfs has the devices.
IB_CLASS=/sys/class/infiniband

# -- results ---------------------------------------------------------------

tap_count=0
tap_failed=0

tap_ok() {
	echo "ok $((++tap_count)) - $1"
}

tap_not_ok() {
	echo "not ok $((++tap_count)) - $1"
	[[ -z ${2:-} ]] || comment <<<"$2"
	((++tap_failed))
	return 0
}

tap_skip() {
	echo "ok $((++tap_count)) - $1 # SKIP $2"
}

# Turns standard input into comments.
comment() {
	sed 's/^/# /'
}

tap_run() {
	local name=$1 output=$ROX_TMP/tap.out status=0
	shift
	"$@" >"$output" 2>&1 || status=$?
	if ((status == 0)); then
		tap_ok "$name"
	else
		tap_not_ok "$name" "status $status of: $*"
		tail -n 120 "$output" | comment
	fi
	return 0
}

tap_relay() {
	local prefix=$1 name=$2 status=$3 line
	while read -r line; do
		case $line in
		ok\ *) tap_ok "$prefix${line#* - }" ;;
		"not ok "*) tap_not_ok "$prefix${line#* - }" ;;
		[0-9]*..[0-9]*) ;;
		gtest:\ *) echo "gtest: ${prefix//[ ,:]/-}/${line#gtest: }" ;;
		*) echo "# $line" ;;
		esac
	done <"$4"
	if ((status == 0)); then tap_ok "$prefix$name"; else tap_not_ok "$prefix$name" "status $status"; fi
}

tap_done() {
	echo "1..$tap_count"
	((tap_failed == 0 && tap_count > 0))
}

part() {
	echo "# part: $1"
}

part_wanted() {
	[[ ${ROX_PART:-all} == all || $ROX_PART == "$1" ]]
}

case_wanted() {
	[[ ${ROX_PART:-all} == all || -z ${ROX_CASE:-} || $1 == "$ROX_CASE" ]]
}

# What a GoogleTest program is to run of its cases, whose names got a prefix; all if ROX_CASE is none of them.
gtest_filter() {
	[[ ${ROX_PART:-all} == all || ${ROX_CASE:-} != "$1"*.* || $ROX_CASE == *' '* ]] ||
		export GTEST_FILTER=${ROX_CASE#"$1"}
}

# Reads a program and its libraries, once, before a limit for its time begins. A clock that counts instructions leaps
# while all wait for the host's files, by minutes if the host is slow. So somebody computes meanwhile.
declare -A programs_read=()
read_program() {
	local path computing library files
	path=$(type -P "$1") && [[ -z ${programs_read[$path]:-} ]] || return 0
	while :; do :; done &
	computing=$!
	files=("$path")
	while read -r _ _ library _; do
		[[ $library != /* || -n ${programs_read[$library]:-} ]] || files+=("$library")
	done < <(ld.so --list "$path" 2>/dev/null)
	for path in "${files[@]}"; do programs_read[$path]=1; done
	cat "${files[@]}" >/dev/null
	kill "$computing"
	wait "$computing" 2>/dev/null
	return 0
}

# A program that crashes or reaches its time limit fails a case. (1 is how GoogleTest says that cases failed.)
gtest_run() {
	local prefix=$1 report=$ROX_TMP/gtest.json status=0 text=''
	read_program "${*: -1}"
	shift
	rm -f "$report"
	GTEST_OUTPUT=json:$report GTEST_COLOR=no "$@" 2>&1 || status=$?
	[[ ! -s $report ]] || text=$(<"$report")
	if [[ $text == *\} ]]; then
		echo "gtest: $prefix ${text//$'\n'/ }"
		((status <= 1)) || echo "not ok - $prefix${*: -1}: ended with status $status"
	else
		echo "not ok - $prefix${*: -1}: ended with status $status before its report"
		((status != 0)) || status=1
	fi
	return "$status"
}

# -- network ---------------------------------------------------------------

in1() {
	ip netns exec "$NS1" "$@"
}

in2() {
	ip netns exec "$NS2" "$@"
}

# Has this kernel IPv6?
has_ipv6() {
	[[ -d /proc/sys/net/ipv6 ]]
}

# Adds addresses to an end of the veth pair: namespace, device, IPv4, IPv6.
net_end() {
	ip -n "$1" link set lo up &&
		ip -n "$1" address add "$3/24" dev "$2" &&
		{ ! has_ipv6 || net_end_ipv6 "$1" "$2" "$4"; } &&
		ip -n "$1" link set "$2" up
}

net_end_ipv6() {
	ip netns exec "$1" sysctl -q "net.ipv6.conf.$2.accept_dad=0" &&
		ip -n "$1" address add "$3/64" dev "$2" nodad
}

ns1_add() {
	if [[ -n ${NS1_IS_FIRST:-} ]]; then ip netns attach "$NS1" 1; else ip netns add "$NS1"; fi
}

net_two() {
	local mtu=${1:-9000}
	[[ -z ${ROX_NODES:-} ]] || { nodes_two; return; }
	modprobe veth &&
		ns1_add && ip netns add "$NS2" &&
		ip link add "$DEV1" netns "$NS1" mtu "$mtu" type veth \
			peer name "$DEV2" netns "$NS2" mtu "$mtu" &&
		net_end "$NS1" "$DEV1" "$IP1" "$IP1_6" &&
		net_end "$NS2" "$DEV2" "$IP2" "$IP2_6" &&
		{ ((mtu < 1280)) || ! has_ipv6 ||
			{ soon 10 net_ready_ipv6 "$NS1" "$DEV1" && soon 10 net_ready_ipv6 "$NS2" "$DEV2"; }; }
}

# A node of rox-run sees its own device only, so $IB_CLASS becomes a folder that has those of both.
nodes_two() {
	local sys=$ROX_TMP/sys
	IB_CLASS=$ROX_TMP/infiniband
	mkdir "$sys" "$IB_CLASS" && nsenter --net="/run/netns/$NS2" mount -t sysfs sysfs "$sys" &&
		ln -s "/sys/class/infiniband/$ROX1" "$sys/class/infiniband/$ROX2" "$IB_CLASS"
}

# Does a netdev use IPv6? It begins when it has noticed its carrier, up to a second later: with the address of its link.
# Its other addresses and some routes may be seen before, and lead nowhere.
net_ready_ipv6() {
	[[ -n $(ip -n "$1" -6 -o address show dev "$2" scope link -tentative) ]]
}

net_two_delete() {
	ip netns delete "$NS1"
	ip netns delete "$NS2"
}

rdma_load() {
	modprobe -a ib_uverbs rdma_ucm &&
		if [[ $ROX_TYPE == rox ]]; then modprobe rox; else modprobe "rdma_$ROX_TYPE"; fi &&
		trace_start
}

# Adds a link and waits for its IPv4 GID: namespace ('': the present one), name, netdev.
link_add() {
	${1:+ip netns exec "$1"} rdma link add "$2" type "$ROX_TYPE" netdev "$3" || return
	soon 10 gid_index_v4 "$2" >/dev/null && return 0
	echo "link_add: no IPv4 address in the GID table of $2" >&2
	return 1
}

# The index of the IPv4 address in a device's GID table. Devices with both RoCE versions have an entry
# for each; only that for version 2 is used.
gid_index_v4() {
	local port=$IB_CLASS/$1/ports/1 index gid type
	for ((index = 0; index < 64; index++)); do
		{ read -r gid <"$port/gids/$index" && read -r type <"$port/gid_attrs/types/$index"; } \
			2>/dev/null || continue
		[[ $gid == 0000:0000:0000:0000:0000:ffff:* && $type == *v2* ]] && echo "$index" && return 0
	done
	return 1
}

gids_of() {
	cat "$IB_CLASS/$1/ports/1/gids/"* 2>/dev/null
}

link_two() {
	[[ -z ${ROX_NODES:-} ]] || { gid_index_v4 "$ROX1" && gid_index_v4 "$ROX2"; return; }
	rdma_load && link_add "$NS1" "$ROX1" "$DEV1" && link_add "$NS2" "$ROX2" "$DEV2"
}

link_two_delete() {
	rdma link delete "$ROX1" && rdma link delete "$ROX2"
}

# -- programs --------------------------------------------------------------

# At a time limit the state is printed first, while the programs and their queue pairs exist. They are
# ended this many seconds later.
ROX_GRACE=10

# A kernel of ours with KASAN and lockdep, or with KCSAN?
kernel_checks_all() {
	[[ $(</proc/sys/kernel/osrelease) == *-rox-@(debug|kcsan)-* ]]
}

# Time limits are for an idle machine and are multiplied by this: several guests may share the machine,
# and with KASAN and lockdep everything takes several times as long, most of all the start of a process.
if [[ -z ${ROX_PATIENCE:-} ]]; then
	ROX_PATIENCE=3
	[[ $(</proc/sys/kernel/osrelease) != *-rox-uml-* ]] || ROX_PATIENCE=6
	! kernel_checks_all || ROX_PATIENCE=12
fi
export ROX_PATIENCE

# A column of ps: where a task sleeps. Not on User Mode Linux, which reads beyond stacks for it: KASAN
# would report that.
PS_WCHAN=wchan:28,
[[ $(uname -r) != *-rox-uml-* ]] || PS_WCHAN=

# A pipe that stays empty.
exec {nap_pipe}<> <(:)

nap() {
	read -r -t "$1" -u "$nap_pipe" || return 0
}

soon() {
	local until=$((SECONDS + $1 * ROX_PATIENCE / 3 + 1))
	shift
	until "$@"; do
		((SECONDS < until)) || return 1
		nap 0.05
	done
}

line_matches() {
	[[ -s $2 ]] || return
	while IFS= read -r matched || [[ -n $matched ]]; do
		[[ ! $matched =~ $1 ]] || return 0
	done <"$2"
	return 1
}

# perftest_measured FILE: perftest, whose output that is, could calibrate the CPU's clock against the time of day. On a
# busy host that may fail.
perftest_measured() {
	! line_matches '^Correlation coefficient r\^2: .* < ' "$1"
}

# Starts a process that prints the state once, after some seconds; sets watchdog.
watchdog_start() {
	{ nap "$1"; diagnose; } &
	watchdog=$!
}

watchdog_stop() {
	kill "$1" 2>/dev/null
	wait "$1" 2>/dev/null
	return 0
}

run_limited() {
	local seconds=$(($1 * ROX_PATIENCE)) status=0 watchdog
	shift
	watchdog_start "$seconds"
	timeout -k 5 $((seconds + ROX_GRACE)) "$@" || status=$?
	watchdog_stop "$watchdog"
	return $status
}

# True if the network namespace of a process has a TCP listener.
tcp_listens() {
	local table rows
	for table in tcp tcp6; do
		{ mapfile -t rows <"/proc/$1/net/$table"; } 2>/dev/null || continue
		[[ "${rows[*]}" != *':0000 0A '* ]] || return 0
	done
	return 1
}

# Waits until the server's namespace has a TCP listener, or any namespace an RDMA CM one.
wait_for_server() {
	local pid=$1 until=$((SECONDS + 7 * ROX_PATIENCE)) ids before='' same=0
	while ((SECONDS < until)); do
		! tcp_listens "$pid" || return 0
		# The RDMA CM listens on one device after the other, and an ID shows LISTEN shortly before
		# it listens: wait until the IDs stop changing.
		ids=$(rdma resource show cm_id 2>/dev/null)
		if [[ $ids == *'state LISTEN'* && $ids == "$before" ]]; then ((++same)); else same=0; fi
		((same >= 3)) && return 0
		before=$ids
		kill -0 "$pid" 2>/dev/null || return 0
		nap 0.15
	done
}

# Stores the arguments of run_pair in its caller's variables and starts a watchdog, which the caller
# stops. `limit` includes ROX_GRACE, so that the watchdog prints before the programs are ended.
pair_begin() {
	limit=60 client_ns=${NS2:-} end_server='' server=() client=()
	while [[ $1 != -- ]]; do
		case $1 in
		-t) limit=$2; shift ;;
		-1) client_ns=$NS1 ;;
		-k) end_server=1 ;;
		esac
		shift
	done
	shift
	while [[ $1 != -- ]]; do server+=("$1"); shift; done
	client=("${@:2}")
	limit=$((limit * ROX_PATIENCE))
	watchdog_start "$limit"
	limit=$((limit + ROX_GRACE))
}

run_pair() {
	local limit client_ns end_server server client watchdog
	local pid server_status=0 client_status=0 out=$ROX_TMP/server.out
	pair_begin "$@"
	ip netns exec "$NS1" timeout -k 5 "$limit" "${server[@]}" >"$out" 2>&1 &
	pid=$!
	wait_for_server "$pid"
	ip netns exec "$client_ns" timeout -k 5 "$limit" "${client[@]}" || client_status=$?
	if [[ -n $end_server ]]; then
		kill "$pid" 2>/dev/null
		wait "$pid" 2>/dev/null
	else
		# After an error of the client the server gets a moment to notice that it has gone.
		((client_status == 0)) || ( sleep 5; kill "$pid" 2>/dev/null ) &
		wait "$pid" || server_status=$?
	fi
	watchdog_stop "$watchdog"
	if ((client_status || server_status)); then
		echo "client ended with $client_status, server with $server_status:"
		echo "  client: ${client[*]}"
		echo "  server: ${server[*]}; its output:"
		tail -n 60 "$out"
		return 1
	fi
}

trace_start() {
	[[ -n ${ROX_TRACE:-} && -d /sys/kernel/tracing/events/rox ]] || return 0
	echo 8192 >/sys/kernel/tracing/buffer_size_kb
	echo 1 >/sys/kernel/tracing/events/rox/enable
}

diagnose() {
	echo "--- queue pairs"
	rdma -d resource show qp
	rdma resource show cm_id
	echo "--- counters"
	rdma statistic show 2>/dev/null
	echo "--- processes"
	ps -eo "pid,stat,${PS_WCHAN}time,args" | grep -v '\[' | tail -n 20
	if [[ -n ${ROX_TRACE:-} ]]; then
		echo "--- tracepoints"
		tail -n 200 /sys/kernel/tracing/trace
	fi
	echo "--- kernel log"
	dmesg | tail -n 30
	echo "---"
}

# -- leaks -----------------------------------------------------------------

# Prints a line for each device.
resources() {
	rdma resource show 2>/dev/null
	[[ -z ${ROX_NODES:-} ]] || in2 rdma resource show 2>/dev/null
}

# Prints a line for each device, sorted by name, and one for the module.
leak_state() {
	local line lines=() i references
	while read -r _ line; do
		for ((i = ${#lines[@]}; i > 0; i--)); do
			[[ ${lines[i - 1]} > $line ]] || break
			lines[i]=${lines[i - 1]}
		done
		lines[i]=$line
	done < <(resources)
	printf '%s\n' "${lines[@]}"
	! { read -r references <"/sys/module/$ROX_TYPE/refcnt"; } 2>/dev/null ||
		echo "module references $references"
}

leak_mark() {
	leak_marked=$(leak_state)
}

leak_check() {
	local until=$((SECONDS + 10)) now
	while ((SECONDS < until)); do
		now=$(leak_state)
		[[ $now == "$leak_marked" ]] && return 0
		nap 0.1
	done
	echo "leak: in use before:"
	echo "$leak_marked"
	echo "in use now:"
	echo "$now"
	return 1
}
