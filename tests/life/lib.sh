# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Functions that the parts of tests/life share. Sourced after tests/lib.sh.
#
#   module_load, module_unload   unloading must succeed at once
#   stage_set / stage_clear      makes two namespaces, veth, a link at each end / deletes them
#   traffic_start [OPTIONS]      starts checked traffic between both links and returns when data
#                                flows; $server and $client are its processes
#   traffic_ends PID STATUS      waits until a process ends by itself; it must end with that status
#   log_mark / log_check         fails if the kernel has logged a warning since log_mark
#   chance_of_events             sets the array `options` to -e or nothing, which is to poll; in the core to -e
#   memory_now                   trims all caches, then prints kernel memory by slab cache
#   memory_runs NAME N UNIT COMMAND...    cases that fail if memory grows in N rounds and in 2N more
#   memory_settles N M           that check for rounds that the caller has run itself

TRAFFIC=${ROX_BUILD:-build}/tests/life/traffic
# Where kmemleak runs a few rounds are enough, and in the core, of which each is to be short.
case $(uname -r)${ROX_QUICK:+-rox-} in
*-rox-*) life_usual=6 ;;
*) life_usual=$((${ROX_BRIEF:-0} ? 12 : 99)) ;;
esac
# shellcheck disable=SC2034 # for the parts
LIFE_TIMES=${ROX_LIFE_TIMES:-$life_usual}
MODULE=rox
[[ $ROX_TYPE == rox ]] || MODULE=rdma_$ROX_TYPE

fail() {
	echo "$*"
	return 1
}

# -- kernel log and memory ---------------------------------------------------

# Ignored messages: clocks under emulation; the taint of an out-of-tree module; the RDMA core's warning
# that a device on a VLAN refuses the addresses of the netdev below.
log_ignored='clocksource|hrtimer: interrupt took|NMI handler .* took too long'
log_ignored+='|out-of-tree module taints|module verification failed'
log_ignored+='|add_roce_gid GID add failed|__ib_cache_gid_add: (unable|[0-9]+ callbacks)'

# Nor are the reports of KCSAN, most of which are about the rest of Linux: scripts/vm judges them.
log_lines() {
	dmesg --level=emerg,alert,crit,err,warn | sed -E '/BUG: KCSAN: /,/={60}/d; /={60}$/d' | grep -Ev "$log_ignored"
}

log_mark() {
	log_marked=$(log_lines | wc -l)
}

log_check() {
	local new
	new=$(log_lines | tail -n +$((log_marked + 1)))
	[[ -z $new ]] || fail "in the kernel log: $new"
}

exec {life_output}>&1

# Prints lines "CACHE OBJECTS" for the caches that the driver's objects come from, how many pages of programs
# are pinned, and lines with the kilobytes of all slab and of vmalloc.
memory_now() {
	local shrink
	# The console frees the buffers of earlier output only when more is printed.
	echo "# memory" >&"$life_output"
	echo 3 >/proc/sys/vm/drop_caches
	for shrink in /sys/kernel/slab/kmalloc-*/shrink; do echo 1 >"$shrink"; done
	awk '$1 ~ /^kmalloc-/ { print $1, $2 }' /proc/slabinfo
	# Adds up what each CPU counts on its own.
	echo 1 >/proc/sys/vm/stat_refresh
	awk '$1 == "nr_foll_pin_acquired" { pins += $2 } $1 == "nr_foll_pin_released" { pins -= $2 }
		END { print "pinned-pages", pins }' /proc/vmstat
	awk '$1 == "SUnreclaim:" { print "slab-kB", $2 } $1 == "VmallocUsed:" { print "vmalloc-kB", $2 }' \
		/proc/meminfo
}

# A leak grows with every round; objects that are allocated once or cached grow in the first rounds only. So
# memory is measured before, after N rounds, and after 2N more. A cache has a leak if it has grown by half an
# object per round in both. Objects that wait for a grace period or a worker are freed soon, so the
# comparison is repeated for a while.
#
# A cache counts the free objects in the CPUs' own slabs as used, up to a slab for each CPU; a smaller leak is
# not seen. With slub_debug=FU,kmalloc-* on the kernel's command line, as scripts/check sets it, every object
# counts. On our own kernels kmemleak looks for every object.
# memory_runs NAME N UNIT COMMAND...: COMMAND runs cases; its last argument is the number of rounds.
memory_runs() {
	local name=$1 lives=$2 unit=$3
	shift 3
	memory_now >"$ROX_TMP/memory.0"
	"$@" "$lives"
	memory_now >"$ROX_TMP/memory.1"
	"$@" $((2 * lives))
	tap_run "$name: kernel memory, $lives $unit and $((2 * lives)) more" memory_settles "$lives" $((2 * lives))
}

# The caller has stored memory_now in memory.0, and after $1 rounds in memory.1. Called $2 rounds later.
memory_settles() {
	soon 20 memory_compare "$@" >/dev/null || memory_compare "$@" || memory_sites
}

# Prints who allocated the objects of the grown caches, if the kernel has recorded that. Returns 1.
memory_sites() {
	local cache
	while read -r cache _; do
		[[ -r /sys/kernel/debug/slab/$cache/alloc_traces ]] || continue
		echo "$cache:"
		sort -rn "/sys/kernel/debug/slab/$cache/alloc_traces" | grep -E '^ *[0-9]+ ' | head -n 12
	done <"$ROX_TMP/memory.grown"
	return 1
}

# How many free objects of a cache may be counted as used.
memory_slack() {
	local cache=/sys/kernel/slab/$1
	if [[ $1 == pinned-pages || $(<"$cache/sanity_checks") == 1 ]]; then
		echo 0
	else
		echo $(($(<"$cache/objs_per_slab") * $(nproc) + 40))
	fi
}

memory_compare() {
	local cache zero one two slack
	memory_now >"$ROX_TMP/memory.2"
	: >"$ROX_TMP/memory.grown"
	while read -r cache zero one two; do
		case $cache in
		*-kB) ((two - zero <= 4096)) || echo "$cache" "$zero" "$one" "$two" ;;
		*)
			slack=$(memory_slack "$cache")
			((one - zero <= slack + $1 / 2 || two - one <= slack + $2 / 2)) || echo "$cache" "$zero" "$one" "$two"
			;;
		esac
	done < <(awk '{ values[$1] = values[$1] " " $2 } END { for (name in values) print name values[name] }' \
		"$ROX_TMP"/memory.[012]) >"$ROX_TMP/memory.grown"
	[[ -s $ROX_TMP/memory.grown ]] || return 0
	echo "before, after $1 lives, after $2 more:"
	cat "$ROX_TMP/memory.grown"
	return 1
}

# -- module and links --------------------------------------------------------

module_load() {
	modprobe -a ib_uverbs rdma_ucm "$MODULE"
}

module_users() {
	local count=none
	[[ ! -e /sys/module/$MODULE/refcnt ]] || count=$(<"/sys/module/$MODULE/refcnt")
	echo "$count"
}

module_idle() {
	[[ $(module_users) == 0 || $(module_users) == none ]]
}

module_unload() {
	soon 10 module_idle || fail "the module has $(module_users) references" || return
	# What it needs of the host's files is read first, without a limit.
	modprobe -n -r "$MODULE"
	run_limited 15 modprobe -r "$MODULE"
}

rdma_exists() {
	[[ -e /sys/class/infiniband/$1 ]]
}

rdma_gone() {
	! rdma_exists "$1"
}

active_mtu_is() {
	in1 ibv_devinfo -d "$ROX1" | grep -q "active_mtu:[[:space:]]*$1 "
}

# Deletes a link if it exists. A link whose netdev is gone disappears by itself, perhaps meanwhile.
link_leaves() {
	rdma_gone "$1" || run_limited 10 rdma link delete "$1" || soon 10 rdma_gone "$1"
}

# True if a namespace ('': the initial one) has no such netdev.
netdev_gone() {
	! ip ${1:+-n "$1"} link show dev "$2" >/dev/null 2>&1
}

# Deletes a netdev of a namespace. Fails if that is not possible at once.
netdev_delete() {
	run_limited 8 ip -n "$1" link delete "$2" || fail "deleting $2 did not succeed at once"
}

# rdma_rxe works in one namespace only: there both ends are one device.
stage_set() {
	net_two 9000 && module_load && link_add "$NS1" "$ROX1" "$DEV1" || return
	if [[ $ROX_TYPE == rxe ]]; then
		OTHER_NS=$NS1 OTHER_ROX=$ROX1
	else
		OTHER_NS=$NS2 OTHER_ROX=$ROX2
		link_add "$NS2" "$ROX2" "$DEV2"
	fi
}

# Deletes whatever is left of the stage.
stage_clear() {
	local status=0 name
	for name in "$ROX1" "$ROX2"; do
		link_leaves "$name" || status=1
	done
	netdev_gone "$NS1" "$DEV1" || netdev_delete "$NS1" "$DEV1" || status=1
	for name in "$NS1" "$NS2"; do
		[[ ! -e /run/netns/$name ]] || ip netns delete "$name"
	done
	return $status
}

# Who polls while its retries run out keeps a CPU busy for all that time, which costs most where time is virtual.
chance_of_events() {
	options=()
	[[ -z ${ROX_QUICK:-} ]] && ((RANDOM % 2)) || options=(-e)
}

# -- traffic -----------------------------------------------------------------

# True if a process has ended, even if this shell has not reaped it yet.
process_gone() {
	local stat
	! { read -r stat <"/proc/$1/stat"; } 2>/dev/null || [[ ${stat##*) } == [ZX]* ]]
}

traffic_flows() {
	line_matches '^running' "$ROX_TMP/$1.out" || process_gone "$2"
}

traffic_start() {
	local meet=$ROX_TMP/meet
	rm -f "$meet" "$ROX_TMP/serve.out" "$ROX_TMP/connect.out"
	ip netns exec "$NS1" "$TRAFFIC" serve "$@" "$ROX1" "$meet" >"$ROX_TMP/serve.out" 2>&1 &
	server=$!
	ip netns exec "$OTHER_NS" "$TRAFFIC" connect "$@" "$OTHER_ROX" "$meet" \
		>"$ROX_TMP/connect.out" 2>&1 &
	client=$!
	soon 20 traffic_flows serve "$server" && soon 20 traffic_flows connect "$client"
	line_matches '^running' "$ROX_TMP/serve.out" && line_matches '^running' "$ROX_TMP/connect.out" &&
		return 0
	traffic_print
	traffic_kill
	return 1
}

traffic_print() {
	echo "traffic does not behave as expected:"
	tail -n 5 "$ROX_TMP/serve.out" "$ROX_TMP/connect.out"
	diagnose
}

traffic_kill() {
	kill -9 "$server" "$client" 2>/dev/null
	wait "$server" "$client" 2>/dev/null
}

# The status may be one of several: "3|4".
traffic_ends() {
	local pid=$1 wanted=$2 status=0
	if ! soon 60 process_gone "$pid"; then
		echo "the process $pid does not end: $(ps -o "stat,${PS_WCHAN}time" -p "$pid" | tail -n 1)"
		traffic_print
		kill -9 "$pid"
		return 1
	fi
	wait "$pid" || status=$?
	[[ "|$wanted|" == *"|$status|"* ]] && return 0
	echo "ended with $status instead of $wanted"
	traffic_print
	return 1
}
