# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# scripts/setup-rox and the shell lines of action.yml and of the example workflow. Sourced by tests/tools/run.

# A cache with what `make` has built, as the cache of CI would have it: compiling in a guest takes too long.
setup_cache() {
	local kver folder
	kver=$(uname -r)
	export ROX_CACHE=$ROX_TMP/cache
	mkdir -p "$ROX_CACHE"
	folder=$ROX_CACHE/module/$kver-$(setup_digest kernel include)
	mkdir -p "$folder" && cp "${ROX_BUILD:-$PWD/build}/$kver/rox.ko" "$folder/" || return
	folder=$ROX_CACHE/provider/$(pkg-config --modversion libibverbs)-$(setup_digest userspace include)
	mkdir -p "$folder" && cp -a "${ROX_BUILD:-$PWD/build}"/userspace/. "$folder/" && touch "$folder/.complete" &&
		mkdir -p "$ROX_CACHE/tools" && cp "$tools/rox-doctor" "$ROX_CACHE/tools/"
}

setup_digest() {
	(
		eval "$(sed -n '/^digest()/,/^}/p' scripts/setup-rox)"
		repo=$PWD
		digest "$@"
	)
}

# The value of an output.
setup_output() {
	sed -n "s/^$1=//p" "$ROX_TMP/outputs"
}

# Nothing is named: a netdev of its own. The device can be used at once: the GID is that of the address.
setup_default() {
	modprobe -r rox
	rm -f "/lib/modules/$(uname -r)/updates/rox.ko" "$plugins"/librox-rdmav*.so /etc/libibverbs.d/rox.driver
	: >"$ROX_TMP/outputs"
	GITHUB_OUTPUT=$ROX_TMP/outputs scripts/setup-rox >"$ROX_TMP/printed" || return
	cat "$ROX_TMP/outputs"
	# Valkey's tests look for the netdev there.
	[[ $(<"/sys/class/infiniband/rox0/ports/1/gid_attrs/ndevs/0") == rox0 ]] &&
		diff "$ROX_TMP/outputs" "$ROX_TMP/printed" && [[ $(setup_output device) == rox0 && $(setup_output netdev) == rox0 ]] &&
		[[ $(setup_output address) == 10.97.0.1 && $(setup_output address6) == fd97::1 ]] &&
		[[ $(setup_output gid_index) == "$(gid_index_v4 rox0)" ]] && [[ -e $plugins/librox-rdmav34.so ]] &&
		modinfo rox >/dev/null
}

# The same again changes nothing.
setup_again() {
	GITHUB_OUTPUT=/dev/null scripts/setup-rox >"$ROX_TMP/printed" && diff "$ROX_TMP/outputs" "$ROX_TMP/printed"
}

# The process that called it, and those above, may lock memory; so may later logins.
setup_memlock() {
	ulimit -l 64
	GITHUB_OUTPUT=/dev/null scripts/setup-rox >/dev/null && [[ $(ulimit -l) == unlimited ]] &&
		grep -q 'memlock unlimited' /etc/security/limits.d/rox.conf
}

# Files of devices are made where there is no udev, and may be used by everyone.
setup_files() {
	local file
	file=/dev/infiniband/$(basename "$(grep -lx rox0 /sys/class/infiniband_verbs/*/ibdev | xargs dirname)")
	rm -f "$file" && chmod 600 /dev/infiniband/rdma_cm && GITHUB_OUTPUT=/dev/null scripts/setup-rox >/dev/null &&
		as_nobody test -w "$file" && as_nobody test -w /dev/infiniband/rdma_cm
}

# The names are of this case alone: the first namespace may still have netdevs of earlier ones.
setup_interface() {
	local DEV1=vethi1 DEV2=vethi2
	ip link add "$DEV1" type veth peer name "$DEV2" && ip link set "$DEV2" up && ip link set "$DEV1" up &&
		ip address add "$IP1/24" dev "$DEV1" &&
		scripts/setup-rox --interface "$DEV1" --device rox5 >"$ROX_TMP/outputs" && cat "$ROX_TMP/outputs" &&
		[[ $(setup_output device) == rox5 && $(setup_output netdev) == "$DEV1" && $(setup_output address) == "$IP1" ]] &&
		[[ $(setup_output gid_index) == "$(gid_index_v4 rox5)" ]] && rdma link delete rox5 &&
		ip route add default via "$IP2" dev "$DEV1" && scripts/setup-rox -i default -d rox5 >"$ROX_TMP/default" &&
		diff "$ROX_TMP/outputs" "$ROX_TMP/default" && rdma link delete rox5 && return
	ip -br address
	ip route
	return 1
}

# Another device is there, as a cloud's own is. Then the RDMA CM finds ours only.
setup_hide() {
	ip link delete rox0 && soon 10 no_devices && modprobe -r rox && modprobe rdma_rxe && ip link set lo up &&
		rdma link add rxe0 type rxe netdev lo && scripts/setup-rox --hide-others >/dev/null &&
		[[ $(ls /sys/class/infiniband) == rox0 ]]
}

# fails WORDS ARGUMENT...: it fails, and says these words.
setup_fails() {
	local words=$1
	shift
	! scripts/setup-rox "$@" >"$ROX_TMP/out" 2>&1 || { echo "it succeeds"; return 1; }
	cat "$ROX_TMP/out"
	grep -qF -- "$words" "$ROX_TMP/out"
}

# rox-doctor says what is wrong.
setup_failures() {
	local pid status
	ip link delete rox0 && soon 10 no_devices && modprobe -r rox || return
	python3 -c '
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("0.0.0.0", 4791))
time.sleep(600)' &
	pid=$!
	soon 20 grep -q ':12B7 ' /proc/net/udp && setup_fails 'failed: rdma link add rox0 type rox' &&
		grep -q 'rox-doctor says' "$ROX_TMP/out" && grep -q 'a program has UDP port 4791' "$ROX_TMP/out"
	status=$?
	kill "$pid"
	wait "$pid" 2>/dev/null
	((status == 0)) && setup_fails 'no such argument: x' x && setup_fails "setup-rox" --no-such-option &&
		scripts/setup-rox --help | grep -q -e --hide-others && scripts/setup-rox --help | awk 'END { exit NR > 24 }' &&
		ip link delete rox0
}

no_devices() {
	[[ -z $(ls /sys/class/infiniband) ]]
}

# setup_lines FILE [JOB] STEP: the shell lines of a step, as YAML has them.
setup_lines() {
	python3 - "$@" <<-'END'
		import sys, yaml
		document = yaml.safe_load(open(sys.argv[1]))
		steps = document["runs"]["steps"] if "runs" in document else document["jobs"][sys.argv[2]]["steps"]
		print(next(s for s in steps if sys.argv[-1] in (s.get("id"), s.get("name")))["run"])
	END
}

# The action's own step, with what GitHub would set.
setup_action() {
	setup_lines action.yml setup >"$ROX_TMP/step" && : >"$ROX_TMP/outputs" &&
		INTERFACE='' DEVICE=rox3 VERSION='' HIDE_OTHERS=true GITHUB_ACTION_PATH=$PWD GITHUB_OUTPUT=$ROX_TMP/outputs \
			bash -eo pipefail "$ROX_TMP/step" && [[ $(setup_output device) == rox3 && $(ls /sys/class/infiniband) == rox3 ]] &&
		python3 - <<-'END'
			import re, yaml
			action = yaml.safe_load(open("action.yml"))
			text = open("action.yml").read()
			script = open("scripts/setup-rox").read()
			for name, output in action["outputs"].items():
			    key = re.search(r"outputs\.(\w+)", output["value"])[1]
			    assert f'echo "{key}=' in script, name
			for name in action["inputs"]:
			    assert "inputs." + name in text, name
			example = yaml.safe_load(open(".github/workflows/example.yml"))
			for key in re.findall(r"steps\.rox\.outputs\.([\w-]+)", open(".github/workflows/example.yml").read()):
			    assert key in action["outputs"], key
		END
}

# The example's steps, after the action's.
setup_example() {
	local step
	for step in "a program that takes a GID index" "a program that uses the RDMA CM"; do
		setup_lines .github/workflows/example.yml rdma "$step" >"$ROX_TMP/step" && cat "$ROX_TMP/step" &&
			DEVICE=$(setup_output device) GID_INDEX=$(setup_output gid_index) ADDRESS=$(setup_output address) \
				timeout 120 bash -eo pipefail "$ROX_TMP/step" || return
	done
}

part_setup() {
	tap_run "setup-rox: what is built is taken from the cache" setup_cache
	tap_run "setup-rox: default: a netdev of its own, outputs" setup_default
	tap_run "setup-rox: once more" setup_again
	tap_run "setup-rox: memlock" setup_memlock
	tap_run "setup-rox: files of devices" setup_files
	tap_run "setup-rox: a netdev that is named" setup_interface
	tap_run "setup-rox: other devices are taken away" setup_hide
	tap_run "setup-rox: what fails, rox-doctor explains" setup_failures
	tap_run "action.yml: its step, inputs and outputs" setup_action
	tap_run "example.yml: its steps" setup_example
}
