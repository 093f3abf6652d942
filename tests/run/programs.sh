# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# rox-run's parts `programs` and `podman`, for tests/run/run: what else has to run in it, and where else it has to run.

# The programs of the groups `apps` and `stacks` where that user can read them.
lay_out_groups() {
	make -s --no-print-directory -C "$repo/tests" BUILD="$build/tests" stacks >&2 &&
		mkdir -p tests build/tests && cp -r "$repo"/tests/{lib.sh,cases.sh,apps,stacks,roots} tests &&
		cp -r "$build/tests/stacks" build/tests
}

# group_runs SECONDS GROUP PATTERN...: cases of that group, in two nodes and in one.
group_runs() {
	local limit=$1 group=$2 status=0
	rox --nodes 2 --memory 1024 -- env ROX_NODES=1 ROX_BRIEF=1 "tests/$group/run" "${@:3}" </dev/null \
		>"$ROX_TMP/$group" 2>&1 || status=$?
	tap_relay "$group: " "rox-run ended well" "$status" "$ROX_TMP/$group"
}

part_programs() {
	if [[ -n ${ROX_QUICK:-} || -n $kernel ]]; then return; fi
	tap_run "programs of other groups" lay_out_groups
	group_runs 1500 stacks
	group_runs 2400 apps
	full_run "nothing is left of them" nothing_left
}

# -- rootless podman ---------------------------------------------------------

# A cgroup with 512 MiB, which only root can make, of the first or second kind; sets limited.
limit_memory() {
	local parent=/sys/fs/cgroup/memory file=memory.limit_in_bytes
	[[ -d $parent ]] || { parent=/sys/fs/cgroup file=memory.max; }
	limited=$parent/rox-run.$$
	mkdir "$limited" && echo 512M >"$limited/$file"
}

# in_container CASE...: the case, with as_user in a container of podman's, with the file system of trixie. It is that
# user's, and has the seccomp profile, capabilities and masks that podman gives by default. In a root that it cannot
# write, podman wants to write to /run, and wants /etc/mtab, which bookworm's has not.
in_container() {
	local root box furnish
	root=$("$repo/scripts/roots" path trixie)
	box=(env "HOME=$work/podman" "XDG_RUNTIME_DIR=$work/podman/run" podman --log-level=error
		--cgroup-manager=cgroupfs run --rm --cgroups=disabled --network=none --shm-size=64m
		--read-only --read-only-tmpfs=false --tmpfs /run:rw,size=1m,notmpcopyup
		--volume "$work/bin:$work/bin:ro" --volume "$work/lib:$work/lib:ro" --volume "$work/home:$work/home"
		--workdir "$work/home" --rootfs "$work/root")
	# Podman leaves a lock in /dev/shm. Where cgroups of both kinds are, those of the second have no memory here, and
	# crun refuses them.
	furnish="echo \$\$ >$limited/cgroup.procs && mount --rbind \"\$1\" \"\$2/root\" &&
		mount -t tmpfs -o mode=1777 shm /dev/shm && shift 2 &&
		{ ! mountpoint -q /sys/fs/cgroup/unified || umount -l /sys/fs/cgroup/unified; } && exec \"\$@\""
	"$@"
}

# The container is what it is meant to be.
confined() {
	# shellcheck disable=SC2016 # for the shell in it
	as_user sh -c 'grep -E "^(Seccomp|CapEff):" /proc/self/status; grep " /dev/shm " /proc/mounts
		cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null
		touch /etc/file 2>/dev/null || echo read-only
		cp /bin/true /dev/shm && { /dev/shm/true 2>/dev/null || echo not executable; }' >"$ROX_TMP/out" </dev/null
	cat "$ROX_TMP/out"
	line_matches '^Seccomp:.2$' "$ROX_TMP/out" && line_matches '^CapEff:.00000000800405fb$' "$ROX_TMP/out" &&
		line_matches ' /dev/shm tmpfs .*noexec.*size=65536k' "$ROX_TMP/out" &&
		line_matches '^536870912$' "$ROX_TMP/out" && line_matches '^read-only$' "$ROX_TMP/out" &&
		line_matches '^not executable$' "$ROX_TMP/out"
}

# Half of the container's memory is the kernel's, so the command is out of it before the container is.
half_of_its_memory() {
	local status=0
	rox -v -- /usr/bin/perl -e '$x = "x" x 4e8' </dev/null 2>"$ROX_TMP/errors" || status=$?
	cat "$ROX_TMP/errors"
	is 123 "$status" && grep -q 'with 256 MiB' "$ROX_TMP/errors" && grep -q "out of memory" "$ROX_TMP/errors"
}

no_limited() {
	rmdir "$limited" 2>/dev/null
}

# Podman leaves a process that holds its namespaces.
podman_ends() {
	local process
	for process in $(processes); do
		kill "$process"
	done
	soon 20 no_processes && soon 20 no_limited
}

part_podman() {
	local limited
	if [[ -n ${ROX_QUICK:-} || -n $kernel ]]; then return; fi
	if ((EUID != 0)); then
		tap_skip "in rootless podman" "its limit of memory, and its root, are for root to make"
		return
	fi
	"$repo/scripts/deps" --quick podman >&2
	if ! limit_memory || ! command -v podman >/dev/null; then
		tap_not_ok "in rootless podman" "there is no podman, or no cgroup with a limit"
		return
	fi
	install -d -m 700 -o "$user" -g "$user" "$work/podman" "$work/podman/run"
	tap_run "podman: seccomp, capabilities, shared memory, memory and root are as meant" in_container confined
	tap_run "podman: ibv_devinfo" in_container device_there
	tap_run "podman: rping" in_container pair "rping -s -a 10.123.0.1 -C 10" "rping -c -a 10.123.0.1 -C 10"
	tap_run "podman: ib_write_bw" in_container bandwidth ib_write_bw
	tap_run "podman: the command is out of memory, and the container is not" in_container half_of_its_memory
	tap_run "podman: it ends" podman_ends
}
