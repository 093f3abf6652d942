# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: GPL-2.0
#
# rox-run's parts `join` and `net`, for tests/run/run: several rox-run's in one network, and the way out.

# The members of a network that run in the background, by names.
declare -A members

# member NAME OPTIONS -- COMMAND: it writes to $ROX_TMP/NAME.
member() {
	local name=$1
	shift
	: >"$ROX_TMP/$name"
	"${as_nobody[@]}" "$work/bin/rox-run" --join net --timeout "$limit" "$@" </dev/null >"$ROX_TMP/$name" 2>&1 &
	members[$name]=$!
}

# says NAME PATTERN: until it has written that.
says() {
	local until=$((SECONDS + limit))
	until line_matches "$2" "$ROX_TMP/$1"; do
		if ! kill -0 "${members[$1]}" 2>/dev/null || ((SECONDS > until)); then
			echo "$1 does not say '$2', but:"
			cat "$ROX_TMP/$1"
			return 1
		fi
		nap 0.05
	done
}

# It ends by itself, with that status.
member_ends() {
	local status=0
	wait "${members[$1]}" || status=$?
	unset "members[$1]"
	is "$2" "$status" || { cat "$ROX_TMP/$1" 2>/dev/null; return 1; }
}

# ... with whatever status, long before the limit.
ends_soon() {
	local until=$((SECONDS + 60))
	while kill -0 "${members[$1]}" 2>/dev/null; do
		((SECONDS < until)) || { echo "$1 does not end"; cat "$ROX_TMP/$1"; return 1; }
		nap 0.05
	done
	wait "${members[$1]}"
	unset "members[$1]"
}

member_killed() {
	kill -KILL "${members[$1]}"
	wait "${members[$1]}" 2>/dev/null
	unset "members[$1]"
}

# A case with members: whoever is left is killed, and nothing is left then.
joined() {
	local status=0 name
	"$@" || status=$?
	for name in "${!members[@]}"; do
		member_killed "$name"
	done
	nothing_left || status=1
	[[ ! -e net ]] || { echo "the socket is left"; rm -f net; status=1; }
	return "$status"
}

two_members() {
	member one -- ./serve "rping -s -a node1 -C 10" && says one ready &&
		rox --join net -- rping -c -a node1 -C 10 </dev/null && member_ends one 0 || return
	member one --number 2 -- ./serve ./pingpong && says one ready &&
		rox --join net -- ./pingpong 10.123.0.2 </dev/null && member_ends one 0
}

over_ipv6() {
	member one -- ./serve "rping -s -a fd00:10:123::1 -C 10" && says one ready &&
		rox --join net -- rping -c -a fd00:10:123::1 -C 10 </dev/null && member_ends one 0
}

# Each reaches each, and they are the numbers from 1 to 5.
five_members() {
	local i
	for i in 1 2 3 4 5; do
		member "$i" --memory 128 -- sh -c './reach node1 node2 node3 node4 node5 || exit
			echo "all from $(hostname)"; ./serve "rping -s -a $(hostname) -C 3"' || return
	done
	for i in 1 2 3 4 5; do
		says "$i" ready || return
	done
	is "1 2 3 4 5" "$(cat "$ROX_TMP"/[1-5] | sed -n 's/all from node//p' | sort | paste -sd' ')" || return
	rox --memory 128 --join net -- sh -c 'for i in 1 2 3 4 5; do rping -c -a node$i -C 3 || exit; done
		./reach node6' </dev/null || return
	for i in 1 2 3 4 5; do
		member_ends "$i" 0 || return
	done
}

# The hub of who has made the network goes on without it, and has none of its streams. Its number is free.
founder_ends() {
	local output
	output=$(rox --join net -- sh -c 'hostname && ./reach node2' </dev/null) && is node1 "${output%%$'\n'*}" &
	members[one]=$!
	soon 60 test -S net || return
	member two --number 2 -- ./serve "rping -s -a node2 -C 10" && says two ready && member_ends one 0 &&
		is node1 "$(rox --join net -- hostname </dev/null)" &&
		rox --join net -- rping -c -a node2 -C 10 </dev/null && member_ends two 0
}

# What the other one posts fails. A third one notices nothing.
one_is_killed() {
	member server -- ./serve "ib_write_bw -d rox0 -s 65536 -D 200" && says server ready &&
		member client -- sh -c 'ib_write_bw -d rox0 -s 65536 -D 200 node1 & client=$!
			until [ "$(cat /sys/class/net/eth0/statistics/tx_bytes)" -gt 10000000 ]; do
				kill -0 $client || exit 99
				sleep 0.1
			done
			echo "under way"; wait $client' && says client "under way" &&
		member third -- ./serve "rping -s -a node3 -C 10" && says third ready || return
	member_killed server
	member_ends client 1 && grep -q 'status 12' "$ROX_TMP/client" || { cat "$ROX_TMP/client"; return 1; }
	rox --join net -- rping -c -a node3 -C 10 </dev/null && member_ends third 0
}

# A program that is left, and sends nothing, ends with the command, and its peer learns that.
left_running() {
	member one -- ./serve "rping -s -a node1" && says one ready || return
	rox --join net -- sh -c 'rping -c -a node1 -v >out & until grep -q ping out; do sleep 0.05; done
		kill -STOP $!; sleep 0.2' </dev/null &&
		ends_soon one
}

# Members whose commands end at once, again and again: each connection is ended at both ends.
short_members() {
	local i
	for i in 1 2 3 4 5; do
		member one -- ./serve "rping -s -a node1" && says one ready &&
			rox --join net -- rping -c -a node1 -C 1 </dev/null && ends_soon one || return
	done
}

all_are_killed() {
	member one -- ./serve "rping -s -P -a node1" && says one ready &&
		member two -- ./serve "rping -s -P -a node2" && says two ready &&
		member_killed one && member_killed two && nothing_left
}

stale_socket() {
	"${as_nobody[@]}" /usr/bin/perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Local => "net", Listen => 1) || die' &&
		[[ -S net ]] &&
		two_members
}

no_socket() {
	echo text >file && status_is 125 --join file -- true 2>"$ROX_TMP/errors" && is text "$(<file)" &&
		grep -q 'file is there, and is no socket' "$ROX_TMP/errors" &&
		status_is 125 --join no/such/folder/net -- true && status_is 125 --join "" -- true
}

number_is_taken() {
	member one --number 7 -- sh -c 'hostname; sleep 1000' && says one node7 &&
		status_is 125 --join net --number 7 -- true 2>"$ROX_TMP/errors" &&
		grep -q 'node7 is there already' "$ROX_TMP/errors" &&
		status_is 125 --number 7 -- true && status_is 125 --join net --nodes 64 -- true
}

nodes_of_two() {
	member one --nodes 2 -- rox-run -n node2 -- ./serve "rping -s -a node2 -C 10" && says one ready &&
		rox --join net --nodes 2 -- sh -c 'hostname && rox-run -n node4 -- rping -c -a node2 -C 10' \
			</dev/null >"$ROX_TMP/out" && is node3 "$(head -n 1 "$ROX_TMP/out")" && member_ends one 0
}

# The client's last answer may be lost with the client, so how the server ends is no matter.
with_link() {
	member one -- ./serve "rping -s -a node1 -C 10" && says one ready &&
		rox --join net --link "mtu 1500 delay 3ms loss 1%" -- sh -c \
			'tc qdisc show dev eth0 | grep "netem.*delay 3ms.*loss 1%" && rping -c -a node1 -C 10' </dev/null &&
		member_killed one
}

# A folder in which others may write is one in which they may join.
other_users() {
	local other=$((user + 1)) theirs
	((EUID == 0)) || return 0
	theirs=(setpriv --reuid "$other" --regid "$other" --clear-groups "$work/bin/rox-run" --timeout "$limit")
	install -d -m 755 -o "$user" "$work/closed"
	member one -- sh -c 'hostname; sleep 1000' && says one node1 &&
		"${theirs[@]}" --join net -- ./reach node1 </dev/null || return
	"${as_nobody[@]}" "$work/bin/rox-run" --join "$work/closed/net" --timeout "$limit" -- \
		sh -c 'hostname; sleep 1000' </dev/null >"$ROX_TMP/closed" 2>&1 &
	members[closed]=$!
	says closed node1 || return
	"${theirs[@]}" --join "$work/closed/net" -- true </dev/null
	is 125 $?
}

part_join() {
	tap_run "two rox-run's: rping by name, and checked data by address" joined two_members
	full_run "over IPv6" joined over_ipv6
	full_run "five members reach each other" joined five_members
	full_run "the first ends first, with its output" joined founder_ends
	full_run "killed in the middle: the other one gets an error, a third one notices nothing" joined one_is_killed
	tap_run "what is left running says farewell" joined left_running
	full_run "short members end their connections" joined short_members
	full_run "all are killed, and nothing is left" joined all_are_killed
	full_run "a stale socket" joined stale_socket
	full_run "125: what is no socket" joined no_socket
	full_run "--number, and 125 if there is no room" joined number_is_taken
	full_run "--nodes: numbers go on, and each node reaches each" joined nodes_of_two
	full_run "--link is of the member's own sending" joined with_link
	full_run "the folder's rights say who may join" joined other_users
}

# -- the way out -------------------------------------------------------------

# An address of this machine that is not of its loopback device.
own_address() {
	ip -4 -o address show scope global | sed -n '1s/.* inet \([0-9.]*\).*/\1/p'
}

# A server on all addresses of this machine, by TCP and UDP, which answers each line by "answer to LINE". It writes its
# port, and ends after a while.
listen() {
	rm -f "$ROX_TMP/port"
	timeout 300 python3 -c '
import selectors, socket
tcp = socket.create_server(("", 0))
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(("", tcp.getsockname()[1]))
print(tcp.getsockname()[1], flush=True)
selector = selectors.DefaultSelector()
selector.register(tcp, selectors.EVENT_READ)
selector.register(udp, selectors.EVENT_READ)
while True:
    for key, _ in selector.select():
        if key.fileobj is udp:
            data, peer = udp.recvfrom(1000)
            udp.sendto(b"answer to " + data, peer)
        else:
            with tcp.accept()[0] as one:
                one.settimeout(60)
                one.sendall(b"answer to " + one.recv(1000))
' >"$ROX_TMP/port" &
	listener=$!
	soon 30 test -s "$ROX_TMP/port"
}

# What a program inside asks a server outside: KIND (tcp or udp) ADDRESS PORT.
# shellcheck disable=SC2016 # for the shell inside
ask='exec 3<>"/dev/$0/$1/$2" && echo question >&3 && timeout 60 head -n 1 <&3'

# asks KIND ADDRESS
asks() {
	is "answer to question" "$(rox --net -- bash -c "$ask" "$1" "$2" "$(<"$ROX_TMP/port")" </dev/null)"
}

goes_out() {
	local status=0 listener
	listen && asks tcp "$(own_address)" && asks tcp 10.124.0.1 && asks udp 10.124.0.1 || status=$?
	[[ -z ${listener:-} ]] || kill "$listener"
	return "$status"
}

# The nodes' own network and its device have nothing of it.
apart() {
	rox --net --nodes 2 -- sh -c 'ls /sys/class/infiniband; ls /sys/class/net | grep eth
		rox-run -n node2 -- ls /sys/class/net | grep eth; ip route show default | cut -d" " -f 1-5
		grep -c "^nameserver" /etc/resolv.conf >/dev/null && ./pair node2 \
			"rping -s -a 10.123.0.2 -C 10" "rping -c -a 10.123.0.2 -C 10" >/dev/null && echo rping' \
		</dev/null >"$ROX_TMP/out" &&
		is $'rox0\neth0\neth1\neth0\ndefault via 10.124.0.1 dev eth1\nrping' "$(<"$ROX_TMP/out")"
}

killed_on_the_way() {
	: >"$ROX_TMP/one"
	"${as_nobody[@]}" "$work/bin/rox-run" --net --timeout "$limit" -- sh -c 'echo ready; sleep 1000' \
		</dev/null >"$ROX_TMP/one" 2>&1 &
	members[one]=$!
	says one ready && pgrep -U "$user" passt && member_killed one && nothing_left
}

both() {
	local status=0 listener
	member one -- ./serve "rping -s -a node1 -C 10" && says one ready && listen &&
		is "answer to question" "$(rox --net --join net -- bash -c "rping -c -a node1 -C 10 >&2 && $ask" \
			tcp 10.124.0.1 "$(<"$ROX_TMP/port")" </dev/null)" && member_ends one 0 || status=$?
	[[ -z ${listener:-} ]] || kill "$listener"
	return "$status"
}

no_passt() {
	local status=0
	"${as_nobody[@]}" env PATH=/nonexistent "$work/bin/rox-run" --net -- /bin/true </dev/null 2>"$ROX_TMP/errors" ||
		status=$?
	is 125 "$status" && is "rox-run: --net needs passt, which is not installed (Debian's package is passt)" \
		"$(<"$ROX_TMP/errors")"
}

# A passt that does not start says why.
passt_fails() {
	local status=0
	mkdir -p "$work/failing" || return
	printf '#!/bin/sh\necho first >&2\necho "no such luck" >&2\nexit 1\n' >"$work/failing/passt" &&
		chmod 755 "$work/failing/passt" || return
	"${as_nobody[@]}" env PATH="$work/failing:$PATH" "$work/bin/rox-run" --net -- true </dev/null 2>"$ROX_TMP/errors" ||
		status=$?
	is 125 "$status" && is "rox-run: --net: passt ended: no such luck" "$(<"$ROX_TMP/errors")"
}

part_net() {
	[[ -n ${ROX_RUN_VM:-} ]] || tap_run "125: no passt" no_passt # its PATH has no QEMU either
	full_run "125: passt does not start" passt_fails
	if ! command -v passt >/dev/null; then
		tap_skip "the way out" "passt is not installed"
		return
	fi
	tap_run "TCP and UDP to this machine" goes_out
	full_run "the nodes' network is as without" apart
	full_run "killed: nothing is left" joined killed_on_the_way
	full_run "with --join" joined both
}
