# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Functions that the parts of tests/life share. Sourced after tests/lib.sh.
#
#   module_load, module_unload   unloading must succeed at once
#   stage_set / stage_clear      two namespaces, veth, a link at each end / nothing left of them
#   traffic_start [OPTIONS]      checked traffic between both links until something ends it;
#                                returns when it flows: $server and $client are its processes
#   traffic_ends PID STATUS      waits until it ends, which must be with that status, by itself
#   log_mark / log_check         has the kernel warned of anything since?
#   memory_now                   kernel memory by slab cache, when all caches are trimmed
#   memory_settles FILE TIMES    is it, or will it soon be, as in memory_now's file?

TRAFFIC=${ROX_BUILD:-build}/tests/life/traffic
# The core is a brief run.
# shellcheck disable=SC2034 # for the parts
LIFE_TIMES=${ROX_LIFE_TIMES:-$((${ROX_BRIEF:-0} || ${ROX_QUICK:-0} ? 20 : 100))}
MODULE=rox
[[ $ROX_TYPE == rox ]] || MODULE=rdma_$ROX_TYPE

fail() {
	echo "$*"
	return 1
}

# -- the kernel's opinion ----------------------------------------------------

# What is none of a test's business: clocks under emulation; that a module is not from the kernel's
# own build; that a device on a VLAN refuses the addresses of the netdev below (the RDMA core says so).
log_ignored='clocksource|hrtimer: interrupt took|NMI handler .* took too long'
log_ignored+='|out-of-tree module taints|module verification failed'
log_ignored+='|add_roce_gid GID add failed|__ib_cache_gid_add: (unable|[0-9]+ callbacks)'

log_lines() {
	dmesg --level=emerg,alert,crit,err,warn | grep -Ev "$log_ignored"
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

# Lines "cache objects objects-per-slab", for those caches that hold the driver's kind of objects.
memory_now() {
	local shrink
	# The console gives back the buffers of what was printed before only when more is.
	echo "# memory" >&"$life_output"
	echo 3 >/proc/sys/vm/drop_caches
	for shrink in /sys/kernel/slab/kmalloc-*/shrink; do echo 1 >"$shrink"; done
	awk '$1 ~ /^kmalloc-/ { print $1, $2, $5 }' /proc/slabinfo
	awk '$1 == "SUnreclaim:" { print "slab-kB", $2 } $1 == "VmallocUsed:" { print "vmalloc-kB", $2 }' \
		/proc/meminfo
}

# Memory as it was in the file of memory_now, after so many times: no cache may have grown by more
# than a quarter of an object each time and a slab, nor all of them by more than 4 MiB. What waits
# for a grace period or a worker comes back soon, a leak does not.
memory_settles() {
	soon 20 memory_compare "$@" >/dev/null || memory_compare "$@"
}

# The debug kernel tracks references on netdevs and namespaces, and keeps 128 records of each one's that were
# given back, of 32 bytes, until the netdev goes: for those of the stage. (Leaks of that size kmemleak finds there.)
memory_compare() {
	local tracked=0
	! grep -qw ref_tracker_alloc /proc/kallsyms || tracked=$((128 * 12))
	memory_now >"$ROX_TMP/memory.after"
	awk -v times="$2" -v tracked="$tracked" '
		FNR == NR { before[$1] = $2; next }
		{ grown = $2 - before[$1] }
		$1 == "kmalloc-32" { grown -= tracked }
		$1 ~ /-kB$/ && grown > 4096 || $1 !~ /-kB$/ && grown > times / 4 + 40 + $3 {
			print $1, "grew from", before[$1], "to", $2; bad = 1
		}
		END { exit bad }' "$1" "$ROX_TMP/memory.after"
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

# Deletes a link that is there; one whose netdev is gone goes by itself, perhaps just now.
link_leaves() {
	rdma_gone "$1" || run_limited 10 rdma link delete "$1" || rdma_gone "$1"
}

# Without a namespace's name this is about the first one.
netdev_gone() {
	! ip ${1:+-n "$1"} link show dev "$2" >/dev/null 2>&1
}

# Removes a netdev of a namespace, which nothing may hold on to.
netdev_delete() {
	run_limited 8 ip -n "$1" link delete "$2" || fail "deleting $2 did not succeed at once"
}

# In a single namespace, for a driver that knows no other, both ends are one device.
stage_set() {
	net_two 9000 && module_load && link_add "$NS1" "$ROX1" "$DEV1" || return
	if [[ $ROX_TYPE == rxe ]]; then
		OTHER_NS=$NS1 OTHER_ROX=$ROX1
	else
		OTHER_NS=$NS2 OTHER_ROX=$ROX2
		link_add "$NS2" "$ROX2" "$DEV2"
	fi
}

# Works from whatever is left of the stage.
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

# -- traffic -----------------------------------------------------------------

# Ended, whether this shell has noticed or not: under load bash may leave a child unreaped until it
# waits for one.
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
	echo "traffic does not do what it should:"
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
	if ! soon $((20 * ROX_PATIENCE)) process_gone "$pid"; then
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
