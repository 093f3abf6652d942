# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: GPL-2.0
#
# rox-run's part `vm`, for tests/run/run: the same in QEMU, where User Mode Linux cannot run or is not wanted.

# virtual CASE...: the case with --vm.
virtual() {
	ROX_RUN_VM=1 "$@"
}

# without_ptrace OPTIONS -- COMMAND: rox-run where no process may trace another one.
without_ptrace() {
	as_user "$here/forbid" 101 "$program" "$@"
}

# A kernel that can have several CPUs does without ptrace.
no_need_of_it() {
	without_ptrace -v -- ibv_devices </dev/null >"$ROX_TMP/out" 2>"$ROX_TMP/errors"
	cat "$ROX_TMP/out" "$ROX_TMP/errors"
	grep -q rox0 "$ROX_TMP/out" && grep -q "^rox-run: $work/lib/rox-run/linux with " "$ROX_TMP/errors"
}

chosen_by_trying() {
	without_ptrace -v -- ibv_devices </dev/null >"$ROX_TMP/out" 2>"$ROX_TMP/errors"
	cat "$ROX_TMP/out" "$ROX_TMP/errors"
	grep -q rox0 "$ROX_TMP/out" &&
		grep -qx 'rox-run: User Mode Linux cannot run here: ptrace: Operation not permitted' "$ROX_TMP/errors" &&
		grep -q '^rox-run: .*/qemu-system-x86_64, ' "$ROX_TMP/errors"
}

# fails_saying SENTENCE COMMAND: with status 125 and no word more.
fails_saying() {
	local status=0 sentence=$1
	shift
	"$@" </dev/null 2>"$ROX_TMP/errors" || status=$?
	is 125 "$status" && is "rox-run: $sentence" "$(<"$ROX_TMP/errors")"
}

# The kernel is no member of the caller's job, whose signals are for the command.
job_is_signalled() {
	local pid line
	mkfifo "$ROX_TMP/job" || return
	setsid "${as_nobody[@]}" env --default-signal=INT "$program" --vm --timeout "$limit" -- \
		sh -c 'trap "echo caught; exit 9" INT; echo ready; while :; do sleep 0.1; done' \
		</dev/null >"$ROX_TMP/job" 2>"$ROX_TMP/errors" &
	pid=$!
	exec 9<"$ROX_TMP/job"
	read -r -t "$limit" line <&9 && kill -INT -- "-$pid" && ends_with 9 && read -r -t 5 line <&9 && is caught "$line"
}

no_kernel_for_it() {
	cp -r "$work/lib/rox-run" "$work/lib/half" && rm -r "$work/lib/half/vm" &&
		fails_saying "there is no kernel for --vm in $work/lib/half/vm (Debian's package is rox-run-vm)" \
			env ROX_RUN_IMAGE="$work/lib/half" \
			"${as_nobody[@]}" "$program" --vm -- true
}

no_qemu() {
	mkdir "$work/bare-bin" &&
		fails_saying "User Mode Linux cannot run here (ptrace: Operation not permitted), and there is no \
qemu-system-x86_64 for --vm (Debian's package is qemu-system-x86)" \
			"${as_nobody[@]}" "$here/forbid" 101 env PATH="$work/bare-bin" "$program" -- true
}

broken_kernel() {
	cp -r "$work/lib/rox-run" "$work/lib/broken" && echo no kernel >"$work/lib/broken/vm/linux" || return
	local status=0
	ROX_RUN_IMAGE=$work/lib/broken rox --vm -- true </dev/null 2>"$ROX_TMP/errors" || status=$?
	cat "$ROX_TMP/errors"
	is 125 "$status" && grep -q '^rox-run: the kernel ended: .' "$ROX_TMP/errors"
}

panicked() {
	local status=0
	rox --vm --write /dev -- sh -c 'echo c >/proc/sysrq-trigger' </dev/null 2>"$ROX_TMP/errors" || status=$?
	cat "$ROX_TMP/errors"
	is 122 "$status" && grep -q '^rox-run: the kernel panicked: sysrq triggered crash' "$ROX_TMP/errors"
}

# All that the others have, once more.
all_of_it() {
	local status=0
	ROX_RUN_VM=1 "$repo/tests/run/run" status files streams signals terminal rdma nodes join net >"$ROX_TMP/vm.tap" 2>&1 ||
		status=$?
	tap_relay "--vm: " "all of these parts" "$status" "$ROX_TMP/vm.tap"
}

part_vm() {
	[[ -z ${ROX_RUN_VM:-} ]] || return 0
	tap_run "--vm: ibv_devinfo" virtual device_there
	if [[ -e $image/cpus ]]; then
		full_run "where ptrace is forbidden this kernel runs all the same" no_need_of_it
	else
		full_run "--vm: chosen where ptrace is forbidden" chosen_by_trying
		full_run "--vm: without QEMU, a sentence" no_qemu
	fi
	full_run "--vm: without its kernel, a sentence" no_kernel_for_it
	full_run "--vm: a kernel that is none" broken_kernel
	full_run "--vm: a panic, with a sentence" panicked
	full_run "--vm: Ctrl-C is for the command, not for QEMU" job_is_signalled
	full_run "--vm: nothing is left" virtual killed
	[[ -n $kernel || -n ${ROX_QUICK:-} ]] || all_of_it
}
