# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# What comes with the tools: completion, the udev rule, the unit. Sourced by tests/tools/run.

# completes WORD... : what bash offers for the last word, as a line of words.
completes() {
	bash -c '
		. tools/system/completion.bash
		COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
		set -- "$(complete -p "$1" | sed "s/.*-F \([^ ]*\) .*/\1/")" "$@"
		"$1" "$2" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
		echo "${COMPREPLY[*]}"' - "$@"
}

offers() {
	local wanted=$1 offered
	shift
	offered=$(completes "$@")
	[[ " $offered " == *" $wanted "* ]] || { echo "no $wanted for $*: $offered"; return 1; }
}

completion() {
	offers rox rdma link add rox0 type '' && offers rox rdma link add rox0 type r &&
		offers type rdma link add rox0 '' && offers netdev rdma link add rox0 type rox '' &&
		offers "$DEV1" rdma link add rox0 type rox netdev "${DEV1:0:3}" && offers rox0 rdma link delete '' &&
		offers firewall rox-doctor --only f && offers rox0 rox-doctor r && offers --json rox-doctor --j &&
		offers processes roxtop --view p && offers rox0 roxtop '' &&
		[[ $(completes rox-doctor --only x) == "" ]] || return
	# All options and checks are known.
	local option
	for option in $(rox-doctor --help | grep -oE -- '--[a-z-]+'); do
		offers "$option" rox-doctor "$option" || return
	done
	for option in $(roxtop --help | grep -oE -- '--[a-z-]+'); do
		offers "$option" roxtop "$option" || return
	done
	for option in $(rox-cap --help | grep -oE -- '--[a-z-]+'); do
		offers "$option" rox-cap "$option" || return
	done
	for option in $(rox-doctor --json --no-self-test | grep -oP '"check": "\K[a-z]+'); do
		offers "$option" rox-doctor --only "$option" || return
	done
}

udev_rule() {
	cp tools/system/75-rdma-rox.rules /etc/udev/rules.d/ &&
		udevadm test --action=add /sys/class/infiniband/rox0 >"$ROX_TMP/udev" 2>&1
	cat "$ROX_TMP/udev"
	grep -q 'ID_RDMA_ROCE=1' "$ROX_TMP/udev" && grep -q 'rdma-load-modules@roce' "$ROX_TMP/udev"
}

# The unit's own commands, as systemd would call them for an instance.
unit_commands() {
	local start stop
	start=$(sed -n "s/%I/$DEV1/g; s/^ExecStart=-\?//p" tools/system/rox@.service)
	stop=$(sed -n "s/%I/$DEV1/g; s/^ExecStop=-\?//p" tools/system/rox@.service)
	echo "$start; $stop"
	bash -c "$start" && [[ -e /sys/class/infiniband/rox_$DEV1 ]] && bash -c "$stop" &&
		[[ ! -e /sys/class/infiniband/rox_$DEV1 ]]
}

part_ship() {
	tap_run "completion of roxtop, rox-doctor, rox-cap, rdma link add" completion
	tap_run "the udev rule marks the device" udev_rule
	tap_run "the commands of rox@.service" unit_commands
}
