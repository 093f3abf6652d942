# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# rox-cap while programs send over one device, and tshark's view of what it writes. What each kind of request
# looks like is tested in tests/wire/mirror_test.cc. Sourced by tests/tools/run.

cap_network() {
	modprobe -a dummy ib_uverbs rdma_ucm rox && ip link add capd0 type dummy && ip link set capd0 mtu 4200 up &&
		ip address add 10.7.0.1/24 dev capd0 && link_add '' roxc0 capd0 && command -v tshark
}

# A program against itself over roxc0: cap_pair PROGRAM [ARGUMENT...]
cap_pair() {
	local server status program=$1
	shift
	"$program" -F -d roxc0 -x "$(gid_index_v4 roxc0)" "$@" >"$ROX_TMP/cap.server" 2>&1 &
	server=$!
	soon 20 tcp_listens "$server" &&
		timeout 60 "$program" -F -d roxc0 -x "$(gid_index_v4 roxc0)" "$@" 10.7.0.1 >"$ROX_TMP/cap.client" 2>&1
	status=$?
	((status == 0)) || cat "$ROX_TMP/cap.client"
	wait "$server" && return "$status"
}

# Starts rox-cap, and waits until it captures: cap_start NAME [ARGUMENT...]
cap_start() {
	local name=$1
	shift
	rox-cap -w "$ROX_TMP/$name.pcap" "$@" 2>"$ROX_TMP/$name.out" &
	cap_pid=$!
	soon 20 grep -q 'capturing by' "$ROX_TMP/$name.out" || { cat "$ROX_TMP/$name.out"; return 1; }
}

cap_stop() {
	kill "-$1" "$cap_pid"
	wait "$cap_pid"
}

no_netdev() {
	! compgen -G '/sys/class/net/roxcap*' >/dev/null
}

# Opcodes, numbers and payload as tshark reads them. Its dissector of pcap knows RoCE v2 by the port.
cap_fields() {
	tshark -r "$ROX_TMP/$1.pcap" -T fields -e infiniband.bth.opcode -e infiniband.bth.psn -e frame.len -e frame.cap_len \
		-e infiniband.bth.destqp 2>/dev/null
}

# Ten SENDs of 3,000 bytes at an MTU of 1,024: FIRST, MIDDLE, LAST, and ACKs, with consecutive PSNs.
cap_sends() {
	cap_start sends && cap_pair ib_send_bw -n 10 -s 3000 -m 1024 && cap_stop INT && cat "$ROX_TMP/sends.out" || return
	grep -qE 'rox-cap: [0-9]+ packets, 0 lost' "$ROX_TMP/sends.out" && no_netdev &&
		cap_fields sends >"$ROX_TMP/fields" && cat "$ROX_TMP/fields" && python3 - "$ROX_TMP/fields" <<-'END'
			import sys
			rows = [line.split("\t") for line in open(sys.argv[1])]
			requests = [row for row in rows if int(row[0]) <= 2]
			assert [int(r[0]) for r in requests] == [0, 1, 2] * 10, requests
			first = int(requests[0][1])
			assert [int(r[1]) for r in requests] == [(first + i) % (1 << 24) for i in range(30)]
			# IP, UDP, BTH, ICRC
			assert {int(r[2]) for r in requests} == {20 + 8 + 12 + 4 + 1024, 20 + 8 + 12 + 4 + 952}, requests
			assert all(r[2] == r[3] for r in rows)
			acks = [r for r in rows if int(r[0]) == 17]
			assert acks and int(acks[-1][1]) == int(requests[-1][1]), acks
			assert len(requests) + len(acks) == len(rows), rows
		END
}

# The whole of a READ, an atomic and a datagram, to a reader behind a pipe.
cap_kinds() {
	rox-cap -q -w - 2>"$ROX_TMP/pipe.out" | tshark -l -r - -T fields -e infiniband.bth.opcode >"$ROX_TMP/kinds" 2>/dev/null &
	local reader=$!
	soon 20 test -e /sys/class/net/roxcap0 && soon 60 cap_reader_there &&
		cap_pair ib_read_bw -n 5 -s 5000 -m 4096 && cap_pair ib_atomic_bw -n 5 && cap_pair ib_write_bw -n 5 -s 64 &&
		cap_pair ib_send_bw -c UD -n 5 -s 64 && kill -TERM "$(pidof rox-cap)"
	local status=$? opcode
	wait "$reader"
	sort -n "$ROX_TMP/kinds" | uniq -c
	cat "$ROX_TMP/pipe.out"
	((status == 0)) && soon 10 no_netdev || return
	# READ request and responses, fetch and add with its ACK, WRITE only, ACK, SEND only of UD
	for opcode in 12 13 15 20 18 10 17 100; do
		grep -qx "$opcode" "$ROX_TMP/kinds" || { echo "no packet with opcode $opcode"; return 1; }
	done
}

# Packet sockets are counted in /proc/net/packet.
cap_reader_there() {
	(($(wc -l </proc/net/packet) > 1))
}

cap_payload() {
	cap_start payload -c 1 && cap_pair ib_write_bw -n 5 -s 48 && soon 20 cap_ended && python3 - "$ROX_TMP/payload.pcap" <<-'END'
		import struct, sys
		data = open(sys.argv[1], "rb").read()
		assert struct.unpack_from("<I", data)[0] == 0xa1b23c4d and struct.unpack_from("<I", data, 20)[0] == 101
		seconds, nano, kept, length = struct.unpack_from("<IIII", data, 24)
		packet = data[40:]
		assert kept == length == len(packet) == 20 + 8 + 12 + 16 + 48 + 4, (kept, length, len(packet))
		assert nano < 10 ** 9 and seconds > 1700000000, (seconds, nano)
	END
}

cap_ended() {
	[[ $(ps -o stat= -p "$cap_pid") == [Z]* || ! -e /proc/$cap_pid ]]
}

# Only headers are copied. The length is that of the packet.
cap_snap() {
	cap_start snap -s 128 && cap_pair ib_write_bw -n 5 -s 4096 -m 4096 && cap_stop TERM && cap_fields snap >"$ROX_TMP/fields" &&
		cat "$ROX_TMP/fields" && awk '$1 == 10 && ($3 != 20 + 8 + 12 + 16 + 4096 + 4 || $4 != 128) { exit 1 }
			$1 == 10 { n++ } END { if (n != 5) exit 1 }' "$ROX_TMP/fields"
}

# Two at the same time see the same, each by a netdev of its own; the second one is not disturbed by the end of
# the first.
cap_two() {
	local first
	cap_start one && first=$cap_pid && cap_start two && grep -q roxcap1 "$ROX_TMP/two.out" &&
		cap_pair ib_write_bw -n 5 -s 64 && kill -INT "$first" && wait "$first" && soon 10 test ! -e /sys/class/net/roxcap0 &&
		cap_pair ib_write_bw -n 5 -s 64 && cap_stop INT && no_netdev || return
	cap_fields one | cut -f 1-3 >"$ROX_TMP/one" && cap_fields two | cut -f 1-3 >"$ROX_TMP/two" &&
		(($(grep -c '^10' "$ROX_TMP/one") == 5 && $(grep -c '^10' "$ROX_TMP/two") == 10)) &&
		head -n "$(wc -l <"$ROX_TMP/one")" "$ROX_TMP/two" | diff "$ROX_TMP/one" -
}

# The RDMA device goes while two programs send and rox-cap reads: rox-cap does not mind. Then its own netdev goes.
cap_removal() {
	local server client
	cap_start gone -s 128 || return
	ib_write_bw -F -d roxc0 -x "$(gid_index_v4 roxc0)" --run_infinitely -s 4096 >"$ROX_TMP/cap.server" 2>&1 &
	server=$!
	soon 20 tcp_listens "$server"
	ib_write_bw -F -d roxc0 -x "$(gid_index_v4 roxc0)" --run_infinitely -s 4096 10.7.0.1 >"$ROX_TMP/cap.client" 2>&1 &
	client=$!
	soon 20 cap_counted && rdma link delete roxc0 && [[ -e /proc/$cap_pid ]]
	local status=$?
	kill "$server" "$client" 2>/dev/null
	wait "$server" "$client" 2>/dev/null
	((status == 0)) && ip link delete roxcap0 && soon 20 cap_ended && ! wait "$cap_pid" && cat "$ROX_TMP/gone.out" &&
		grep -q 'the netdev was taken away' "$ROX_TMP/gone.out" && link_add '' roxc0 capd0
}

cap_counted() {
	(($(<"/sys/class/net/roxcap0/statistics/rx_packets") > 100))
}

cap_rights() {
	! as_nobody rox-cap -w /dev/null 2>"$ROX_TMP/out"
	cat "$ROX_TMP/out"
	grep -q 'takes CAP_NET_ADMIN: Operation not permitted' "$ROX_TMP/out" && no_netdev &&
		! as_nobody ip link add roxcap5 type roxcap && no_netdev
}

# The module loads for such a netdev, unloads with it, and what read it ends.
cap_module() {
	rdma link delete roxc0 && modprobe -r rox && ! rox-cap -q -w "$ROX_TMP/no/such/file" && soon 10 no_netdev &&
		cap_start module && lsmod | grep -q '^rox ' && modprobe -r rox && soon 20 cap_ended && ! wait "$cap_pid" && no_netdev &&
		modprobe rox && link_add '' roxc0 capd0
}

# A reader that goes away ends it; so does each of these signals.
cap_ends() {
	local name
	{ rox-cap -q -w - || echo "status $?" >&2; } | head -c 24 >"$ROX_TMP/header"
	(($(wc -c <"$ROX_TMP/header") == 24)) && soon 10 no_netdev || return
	for name in HUP INT TERM QUIT; do
		cap_start end && cap_stop "$name" && no_netdev || { echo "after $name"; return 1; }
	done
}

cap_usage() {
	local arguments
	for arguments in --no-such-option "-s 127" "-s 4225" "-c 0" "-i a-name-that-is-too-long" "-B 0"; do
		# shellcheck disable=SC2086 # several words
		rox-cap -w /dev/null $arguments
		(($? == 2)) || { echo "not 2: $arguments"; return 1; }
	done
	rox-cap --help | awk 'END { exit NR > 24 }' && rox-cap --help | awk 'length > 110 { exit 1 }' && no_netdev &&
		! script -qec 'rox-cap' "$ROX_TMP/typed" >/dev/null && grep -q 'to a terminal' "$ROX_TMP/typed" &&
		ip link add roxcap3 type roxcap && ! rox-cap -q -i roxcap3 -w /dev/null && ip link delete roxcap3
}

# A case that fails leaves no rox-cap to the next one.
cap_case() {
	local status=0 pid
	"$@" || status=$?
	for pid in $(pidof rox-cap); do
		kill "$pid"
	done
	soon 10 no_netdev
	return $status
}

part_cap() {
	tap_run "rox-cap: a device" cap_network
	leak_mark
	tap_run "rox-cap: SENDs of several packets, as tshark sees them" cap_case cap_sends
	tap_run "rox-cap: READ, atomics, WRITE and UD, in a pipe" cap_case cap_kinds
	tap_run "rox-cap: the file, and the end after a count" cap_case cap_payload
	tap_run "rox-cap: headers only" cap_case cap_snap
	tap_run "rox-cap: two at once" cap_case cap_two
	tap_run "rox-cap: ends by signals and with its reader" cap_case cap_ends
	tap_run "rox-cap: an ordinary user" cap_case cap_rights
	tap_run "rox-cap: wrong usage, help" cap_case cap_usage
	tap_run "rox-cap: nothing is left" leak_check
	tap_run "rox-cap: the device goes, then the netdev" cap_case cap_removal
	tap_run "rox-cap: the module comes and goes with it" cap_case cap_module
	rdma link delete roxc0
	ip link delete capd0
}
