# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# roxtop beside rdma(8), while a program sends. Sourced by tests/tools/run.

# Starts an endless ib_write_bw between rox0 and rox1, and waits until it sends.
load_start() {
	ib_write_bw -F -d rox0 -x "$(gid_index_v4 rox0)" --run_infinitely -q 2 -s 4096 >"$ROX_TMP/load.out" 2>&1 &
	load_server=$!
	soon 20 tcp_listens "$load_server" || return
	# Not in2: the process that is ended must be the program, not a shell before it.
	ip netns exec "$NS2" ib_write_bw -F -d rox1 -x "$(gid_index_v4 rox1)" --run_infinitely -q 2 -s 4096 "$IP1" >"$ROX_TMP/load2.out" 2>&1 &
	load_client=$!
	soon 20 load_sends
}

load_sends() {
	(($(<"/sys/class/infiniband/rox1/ports/1/hw_counters/tx_bytes") > 1 << 20))
}

load_stop() {
	kill "$load_client" "$load_server"
	wait "$load_client" "$load_server" 2>/dev/null
	return 0
}

# Compares what both say of the same objects, which do not come and go meanwhile.
beside_rdma() {
	roxtop --once --json --interval 1 >"$ROX_TMP/top.json" &&
		rdma -j -dd resource show qp >"$ROX_TMP/qp.json" && rdma -j -dd resource show cq >"$ROX_TMP/cq.json" &&
		rdma -j -dd resource show mr >"$ROX_TMP/mr.json" && rdma -j link show >"$ROX_TMP/link.json" &&
		python3 - "$ROX_TMP" <<-'END'
			import json, sys
			def load(name):
			    return json.load(open(f"{sys.argv[1]}/{name}.json"))
			top = load("top")
			def compare(table, name, number, key, fields):
			    theirs = {(o["ifname"], o[key]): o for o in load(name)}
			    ours = {(o["device"], o[number]): o for o in top[table]}
			    print(table, sorted(theirs), sorted(ours))
			    assert theirs and set(theirs) == set(ours), table
			    for at, their in theirs.items():
			        for field, their_field in fields.items():
			            if their_field in their:
			                assert str(their[their_field]) == str(ours[at][field]).strip("[]"), (at, field, their, ours[at])
			compare("qps", "qp", "qp", "lqpn",
			        {"type": "type", "state": "state", "pid": "pid", "process": "comm", "peer_qp": "rqpn"})
			compare("cqs", "cq", "cq", "cqn", {"entries": "cqe", "users": "users", "pid": "pid", "process": "comm"})
			compare("mrs", "mr", "mr", "mrn", {"length": "mrlen", "pid": "pid", "process": "comm"})
			links = {link["ifname"]: link for link in load("link")}
			assert set(links) == {d["device"] for d in top["devices"]}, links
			for device in top["devices"]:
			    assert device["state"] == links[device["device"]]["state"].lower(), device
			assert any(qp["process"] == "ib_write_bw" for qp in top["qps"])
		END
}

# The rate of the sender is that of its counter.
rates_of_counters() {
	local before after
	before=$(sent_bytes)
	roxtop rox1 --once --json --interval 4 >"$ROX_TMP/top.json" || return
	after=$(sent_bytes)
	python3 - "$ROX_TMP/top.json" $((after - before)) <<-'END'
		import json, sys
		top = json.load(open(sys.argv[1]))
		counted = int(sys.argv[2])
		device, = top["devices"]
		shown = device["tx_bytes"] * top["interval"]
		print(shown, counted, top["interval"])
		# The counter was read some time before and after the two samples.
		assert 0.3 * counted < shown <= counted, (shown, counted)
		done = [qp["done"] for qp in top["qps"] if qp["process"] == "ib_write_bw"]
		assert len(done) == 2 and all(rate > 0 for rate in done), done
		assert all(qp["send_queue"] is not None and qp["window"] is not None for qp in top["qps"] if qp["type"] == "RC")
		process, = [p for p in top["processes"] if p["process"] == "ib_write_bw"]
		assert process["qps"] == 2 and process["memory"] > 0 and process["done"] > 0, process
	END
}

sent_bytes() {
	rdma -j statistic show link rox1/1 | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["tx_bytes"])'
}

# An ordinary user sees what rdma(8) shows to such a user.
without_root() {
	as_nobody roxtop --once --json --interval 0.2 >"$ROX_TMP/top.json" &&
		as_nobody rdma -j resource show qp >"$ROX_TMP/qp.json" &&
		python3 - "$ROX_TMP" <<-'END'
			import json, sys
			top = json.load(open(sys.argv[1] + "/top.json"))
			theirs = json.load(open(sys.argv[1] + "/qp.json"))
			assert theirs and {(q["ifname"], q["lqpn"]) for q in theirs} == {(q["device"], q["qp"]) for q in top["qps"]}
			assert any(qp["done"] for qp in top["qps"])
		END
}

text_and_filter() {
	local qp
	qp=$(rdma -j resource show qp | python3 -c 'import json, sys
print(next(q["lqpn"] for q in json.load(sys.stdin) if q["ifname"] == "rox1" and q["type"] == "RC"))') &&
		roxtop rox1 --once --view qps --interval 0.2 --qp "$qp" >"$ROX_TMP/text" && cat "$ROX_TMP/text" &&
		(($(wc -l <"$ROX_TMP/text") == 2)) && grep -qE "^rox1 +$qp RC +RTS .*ib_write_bw" "$ROX_TMP/text" &&
		roxtop --once --view processes --interval 0.2 --process ib_write >"$ROX_TMP/text" && cat "$ROX_TMP/text" &&
		(($(wc -l <"$ROX_TMP/text") == 3)) && roxtop --once --view cqs --sort entries --interval 0.2 >"$ROX_TMP/text"
}

# In a terminal: the keys change the table, sort it and end the program.
live() {
	timeout -k 5 60 python3 - <<-'END'
		import os, pty, select, sys, time
		pid, terminal = pty.fork()
		if pid == 0:
		    os.environ.update(TERM="xterm", COLUMNS="160", LINES="40", LC_ALL="C.UTF-8")
		    os.execlp("roxtop", "roxtop", "--interval", "0.3")
		text = b""
		def until(wanted):
		    global text
		    end = time.time() + 15
		    while wanted not in text:
		        assert time.time() < end, (wanted, text[-3000:])
		        if select.select([terminal], [], [], 0.2)[0]:
		            text += os.read(terminal, 65536)
		until(b"NETDEV")
		until("█".encode())
		for key, wanted in ((b"2", b"PEER QP"), (b"3", b"ENTRIES"), (b"4", b"LENGTH"), (b"5", b"PROCESS"), (b"r", b"(reversed)"),
		                    (b"/ib_write\n", b"process ib_write"), (b" ", b"PAUSED")):
		    text = b""
		    os.write(terminal, key)
		    until(wanted)
		os.write(terminal, b"q")
		end = time.time() + 15
		while True:
		    assert time.time() < end, "q does not end it"
		    if select.select([terminal], [], [], 0.2)[0]:
		        try:
		            if not os.read(terminal, 65536):
		                break
		        except OSError:
		            break
		assert os.waitpid(pid, 0)[1] == 0
	END
}

# On a terminal, without input: tables, and no screen.
without_keys() {
	timeout -k 5 60 python3 - <<-'END'
		import os, pty, signal
		pid, terminal = pty.fork()
		if pid == 0:
		    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
		    os.environ.update(TERM="xterm", LC_ALL="C.UTF-8")
		    os.execlp("roxtop", "roxtop", "--interval", "0.3")
		text = b""
		while text.count(b"NETDEV") < 2:
		    text += os.read(terminal, 65536)
		assert b"\x1b" not in text, text
		os.kill(pid, signal.SIGTERM)
		assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGTERM
	END
}

top_usage() {
	local arguments
	for arguments in --no-such-option "--view nothing" "--interval 0" "--sort nothing --once"; do
		# shellcheck disable=SC2086 # several words
		roxtop $arguments
		(($? == 2)) || { echo "not 2: $arguments"; return 1; }
	done
	roxtop rox7 --once
	(($? == 1)) && roxtop --help | awk 'END { exit NR > 24 }' && roxtop --help | awk 'length > 110 { exit 1 }'
}

part_top() {
	tap_run "roxtop: a program that sends" load_start
	tap_run "roxtop: the same objects as rdma resource shows" beside_rdma
	tap_run "roxtop: rates are those of the counters" rates_of_counters
	tap_run "roxtop: an ordinary user" without_root
	tap_run "roxtop: text, filter, sorting" text_and_filter
	tap_run "roxtop: live, with keys" live
	tap_run "roxtop: on a terminal without input" without_keys
	tap_run "roxtop: wrong usage, help" top_usage
	load_stop
}
