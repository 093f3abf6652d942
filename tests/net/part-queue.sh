# shellcheck shell=bash disable=SC2086,SC2015,SC2154
# SPDX-License-Identifier: GPL-2.0
#
# Queues of this host: back pressure instead of dropped packets, one transmit queue for each QP, and
# frames that are still in a queue when their QP, device and module go. $NS2 sends.

part_queue() {
	stage_begin queue queue_stage stage_clear
	case_run "many QPs into a slow queue: nothing is dropped" queue_slow
	case_run "many QPs before a queue that stands: they wait, and go on" queue_stands
	case_run "a queue of 3 frames: what it refuses is sent again" queue_refuses
	case_run "a queue of 3 frames refuses responses to READs" queue_refuses_responses
	case_run "everything refused: retries exceeded" queue_ends
	case_run "four transmit queues, a sender that changes CPUs: all in order" queue_order
	case_run "packets with and without a checksum, joined by GRO: all in order" queue_joined
	case_run "frames in a queue outlive QP, device and module" queue_outlived
	stage_end
}

QUEUES=4

# As net_two 1500, with several queues. With GRO and without TSO, veth has a NAPI instance for each queue.
# Otherwise the frames take the backlog of the CPU that sends, whatever their queue.
queue_net() {
	local queues="numtxqueues $QUEUES numrxqueues $QUEUES"
	modprobe veth && ns1_add && ip netns add "$NS2" &&
		ip link add "$DEV1" netns "$NS1" mtu 1500 $queues type veth \
			peer name "$DEV2" netns "$NS2" mtu 1500 $queues &&
		ip netns exec "$NS1" ethtool -K "$DEV1" gro on tso off &&
		ip netns exec "$NS2" ethtool -K "$DEV2" gro on tso off &&
		net_end "$NS1" "$DEV1" "$IP1" "$IP1_6" && net_end "$NS2" "$DEV2" "$IP2" "$IP2_6"
}

queue_stage() {
	queue_net && module_load && link_add "$NS1" "$ROX1" "$DEV1" &&
		link_add "$NS2" "$ROX2" "$DEV2"
}

# What a failed case has left goes first.
queue_set() {
	tc -n "$NS2" qdisc delete dev "$DEV2" root 2>/dev/null
	tc -n "$NS2" qdisc add dev "$DEV2" root "$@"
}

queue_clear() {
	tc -n "$NS2" qdisc delete dev "$DEV2" root
}

# queue_write SECONDS OPTIONS: WRITEs from $NS2.
queue_write() {
	local limit=$1
	shift
	run_pair -t "$limit" -- ib_write_bw -d "$ROX1" -F "$@" -- ib_write_bw -d "$ROX2" -F "$@" "$IP1"
}

queue_dropped() {
	tc -s -n "$NS2" qdisc show dev "$DEV2" | sed -nE 's/.*\(dropped ([0-9]+),.*/\1/p' | head -n 1
}

# How much a counter has grown since queue_mark: device, name.
declare -A queue_marked=()
queue_mark() {
	local name
	for name in tx_dropped tx_refused retransmitted_packets rx_early_kept out_of_sequence rx_packets rx_bursts; do
		queue_marked[$1.$name]=$(counter_of "$1" $name)
	done
}

queue_grown() {
	echo $(($(counter_of "$1" "$2") - ${queue_marked[$1.$2]}))
}

# How many transmit queues the sender uses.
queue_count() {
	ip netns exec "$NS2" ethtool -L "$DEV2" tx "$1"
}

# A bucket as in the examples of tc-tbf(8). It has one transmit queue under it: where the receiver is slower than the
# bucket veth stops a queue, and veth_poll() of 6.12.95 wakes none but the first one (mended in 6.12.117).
queue_slow() {
	local size=1048576
	((!${ROX_BRIEF:-0})) || size=65536
	queue_mark "$ROX2"
	queue_count 1 && queue_set tbf rate 100mbit burst 32kbit latency 400ms &&
		queue_write 1500 -q 256 -s $size -n 5 -t 1 || return
	tc -s -n "$NS2" qdisc show dev "$DEV2"
	echo "sent again: $(queue_grown "$ROX2" retransmitted_packets)"
	(($(queue_dropped) == 0)) || fail "the queue has dropped $(queue_dropped) packets" || return
	(($(queue_grown "$ROX2" tx_refused) + $(queue_grown "$ROX2" tx_dropped) == 0)) ||
		fail "frames were refused" || return
	queue_clear && queue_count $QUEUES
}

# How many timers run out in softirqs in so many seconds; hardly anybody but RDMA devices has such timers.
queue_timers() {
	local trace=/sys/kernel/tracing/instances/queue
	local event=$trace/events/timer/hrtimer_expire_entry
	mkdir $trace && echo 'common_flags & 0x10' >$event/filter && echo 1 >$event/enable && sleep "$1" &&
		echo 0 >$event/enable &&
		awk '/^(entries|overrun):/ { sum += $2 } END { print sum }' $trace/per_cpu/cpu*/stats && rmdir $trace
}

queue_backlog() {
	tc -s -n "$NS2" qdisc show dev "$DEV2" | sed -nE '/ plug /,/backlog/ s/.* backlog \w+ ([0-9]+)p .*/\1/p'
}

queue_has() {
	(($(queue_backlog) >= $1))
}

# The packets of rox stand, those of perftest's own connection do not. When the ACK timeout of 4.3 s is over, a QP looks
# for its packets 15 times a second, not 500 times. Such a timeout is longer than a slow machine needs for all of them.
# A QP has a small message in the queue, so the answers come soon when it goes on. It may probe once if they do not.
queue_stands() {
	local qps=32 pid timers
	modprobe -a sch_prio sch_plug cls_u32 && queue_mark "$ROX2" && queue_set handle 1: prio &&
		tc -n "$NS2" qdisc add dev "$DEV2" parent 1:1 plug limit 100000000 &&
		tc -n "$NS2" filter add dev "$DEV2" parent 1: protocol ip u32 match ip dport 4791 0xffff classid 1:1 || return
	queue_write 200 -q $qps -s 64 -n 20 -t 1 -u 20 &
	pid=$!
	soon 60 queue_has $qps || { fail "only $(queue_backlog) packets are in the queue"; return; }
	sleep 10
	timers=$(queue_timers 4) || return
	echo "timers: $timers"
	tc -n "$NS2" qdisc change dev "$DEV2" parent 1:1 plug release_indefinite && wait $pid || return
	echo "sent again: $(queue_grown "$ROX2" retransmitted_packets)"
	((timers < 125 * qps)) || fail "$timers timers of $qps QPs have run out in 4 seconds" || return
	(($(queue_grown "$ROX2" retransmitted_packets) <= qps)) ||
		fail "$(queue_grown "$ROX2" retransmitted_packets) packets were sent again" || return
	queue_clear
}

# Refusals are no losses: nothing waits for the ACK timeout, which is long, and no retry is used up. The queue is slower
# than any machine.
queue_refuses() {
	queue_mark "$ROX2"
	queue_set tbf rate 5mbit burst 4000 limit 12000 &&
		queue_write 100 -q 8 -s 8192 -n 100 -u 21 && queue_clear || return
	(($(queue_grown "$ROX2" tx_refused) > 0)) || fail "nothing was refused"
}

# The same for who answers. Ends of READs that share a frame with the next one are lost, and requested again.
queue_refuses_responses() {
	local dropped
	queue_mark "$ROX1"
	tc -n "$NS1" qdisc replace dev "$DEV1" root tbf rate 5mbit burst 4000 limit 12000 &&
		run_pair -t 100 -- ib_read_bw -d "$ROX1" -F -q 8 -s 8192 -n 100 -u 21 -- \
			ib_read_bw -d "$ROX2" -F -q 8 -s 8192 -n 100 -u 21 "$IP1" || return
	tc -n "$NS1" qdisc delete dev "$DEV1" root
	dropped=$(queue_grown "$ROX1" tx_dropped)
	echo "refused: $(queue_grown "$ROX1" tx_refused), lost: $dropped"
	(($(queue_grown "$ROX1" tx_refused) > 0)) || fail "nothing was refused"
}

queue_ends() {
	flow_start v4 $IP1 $IP2 -t 12 -r 3 -w 0 && tc -n "$NS2" qdisc replace dev "$DEV2" clsact &&
		tc -n "$NS2" filter add dev "$DEV2" egress matchall action drop && flow_ends v4 &&
		tc -n "$NS2" qdisc delete dev "$DEV2" clsact
}

# Moves a process from CPU to CPU until it has ended.
queue_hop() {
	python3 -c '
import itertools, os, sys, time
hops = 0
try:
    for cpu in itertools.cycle(range(os.cpu_count())):
        for task in os.listdir("/proc/%s/task" % sys.argv[1]):
            os.sched_setaffinity(int(task), {cpu})
        hops += 1
        time.sleep(0.002)
except OSError:
    print(hops)
' "$1"
}

queue_xps() {
	local i
	for ((i = 0; i < QUEUES; i++)); do
		ip netns exec "$NS2" bash -c "printf %x $((1 << i % $(nproc))) \
			>/sys/class/net/$DEV2/queues/tx-$i/xps_cpus" || return
	done
}

# A million packets; fewer in a brief run.
queue_order() {
	local messages=125000 early hopper hops
	((!${ROX_BRIEF:-0})) || messages=10000
	queue_mark "$ROX1"
	queue_count $QUEUES && queue_xps || return
	(
		soon 20 pgrep -f "^ib_write_bw -d $ROX2" >/dev/null
		queue_hop "$(pgrep -f "^ib_write_bw -d $ROX2")"
	) >"$ROX_TMP/hops" &
	hopper=$!
	queue_write 400 -s 8192 -n $messages || return
	wait $hopper
	hops=$(<"$ROX_TMP/hops")
	((hops > 50)) || fail "the sender has changed its CPU $hops times only" || return
	early=$(($(queue_grown "$ROX1" rx_early_kept) + $(queue_grown "$ROX1" out_of_sequence)))
	((early == 0)) || fail "$early requests were out of order"
}

# Frames are cut before the veth. Packets of a frame have a checksum, the first one of a message has none.
# The netdev waits for more packets for a moment, as one under load does.
queue_joined() {
	local early packets frames
	queue_mark "$ROX1" && queue_mark "$ROX2"
	ip netns exec "$NS2" ethtool -K "$DEV2" tx-udp-segmentation off &&
		ip netns exec "$NS1" bash -c "echo 2000000 >/sys/class/net/$DEV1/gro_flush_timeout" || return
	queue_write 60 -m 1024 -s 16384 -n 300 || return
	early=$(($(queue_grown "$ROX1" rx_early_kept) + $(queue_grown "$ROX1" out_of_sequence)))
	packets=$(queue_grown "$ROX1" rx_packets) frames=$(queue_grown "$ROX1" rx_bursts)
	ip netns exec "$NS1" bash -c "echo 0 >/sys/class/net/$DEV1/gro_flush_timeout" &&
		ip netns exec "$NS2" ethtool -K "$DEV2" tx-udp-segmentation on || return
	((early == 0)) || fail "$early requests were out of order" || return
	((2 * packets >= 3 * frames)) || fail "$packets packets were in $frames frames"
}

# Unloading waits for the frames, a second here.
queue_outlived() {
	flow_start v4 $IP1 $IP2 $PATIENT && queue_set netem delay 1s && sleep 0.5 || return
	kill -9 ${flow_pids[v4]}
	wait ${flow_pids[v4]} 2>/dev/null
	unset "flow_pids[v4]"
	link_leaves "$ROX1" && link_leaves "$ROX2" && module_unload && queue_clear && module_load &&
		link_add "$NS1" "$ROX1" "$DEV1" && link_add "$NS2" "$ROX2" "$DEV2"
}
