# shellcheck shell=bash disable=SC2086,SC2015,SC2154
# SPDX-License-Identifier: GPL-2.0
#
# A netdev that takes linear packets only, as virtio-net has it over a socket or the user network of QEMU. $NS2
# sends: the networking core cuts its frames into packets without copying them.

part_linear() {
	stage_begin linear linear_stage stage_clear
	case_run "IPv4: frames of several packets, without UDP checksum, and nothing is lost" linear_v4
	case_run "IPv6: with checksums" linear_v6
	case_full "a queue of this host cuts the frames" linear_queue
	stage_end
}

# Without congestion control, whose pace makes frames shorter where the machine is slow.
linear_stage() {
	modprobe -a nf_tables && stage_set && ip netns exec "$NS2" ethtool -K "$DEV2" sg off >/dev/null &&
		echo none >/sys/class/infiniband/$ROX2/cc/algorithm &&
		ip netns exec "$NS1" nft -f - <<-END && ip netns exec "$NS2" nft -f - <<-END
			table netdev rox_test {
				chain input {
					type filter hook ingress device $DEV1 priority 0;
					udp dport 4791 udp length > 2000 udp checksum 0 counter
					udp dport 4791 udp length > 2000 udp checksum != 0 counter
				}
			}
		END
			table inet rox_test {
				chain output {
					type filter hook output priority 0;
					udp dport 4791 meta length > 30000 counter
				}
			}
		END
}

# linear_counts NAMESPACE: the packets of its rules.
linear_counts() {
	ip netns exec "$1" nft list ruleset | sed -nE 's/.* counter packets ([0-9]+) .*/\1/p' | tr '\n' ' '
}

# linear_write INDEX1 INDEX2: 300 WRITEs of 64 KiB with these GIDs. Sets `unsummed`, `summed` and `frames` to the
# packets of $NS2 that came without and with UDP checksum, and to its large frames.
linear_write() {
	local before after sent write="-F -s 65536 -n 300"
	before="$(linear_counts "$NS1")$(linear_counts "$NS2")"
	run_pair -t 60 -- ib_write_bw -d "$ROX1" $write -x "$1" -- ib_write_bw -d "$ROX2" $write -x "$2" "$IP1" || return
	after="$(linear_counts "$NS1")$(linear_counts "$NS2")"
	read -ra before <<<"$before"
	read -ra sent <<<"$after"
	unsummed=$((sent[0] - before[0])) summed=$((sent[1] - before[1])) frames=$((sent[2] - before[2]))
}

linear_v4() {
	local again twice
	again=$(counter_of "$ROX2" retransmitted_packets)
	twice=$(counter_of "$ROX1" duplicate_request)
	linear_write "$(gid_index "$NS1" "$ROX1" $IP1)" "$(gid_index "$NS2" "$ROX2" $IP2)" || return
	((summed == 0 && unsummed >= 300 * 16 && frames >= 200)) ||
		fail "$unsummed packets without and $summed with checksum, $frames large frames" || return
	again=$(($(counter_of "$ROX2" retransmitted_packets) - again))
	twice=$(($(counter_of "$ROX1" duplicate_request) - twice))
	# Frames of a sender on two CPUs may overtake each other on a veth. What is then sent again comes twice.
	((again == twice && again < 300 * 16 / 100)) ||
		fail "$again packets were sent again, and $twice came twice" || return
	flow_start v4 $IP1 $IP2 && flow_advances v4 && flow_stop v4
}

linear_v6() {
	linear_write "$(gid_index "$NS1" "$ROX1" $IP1_6)" "$(gid_index "$NS2" "$ROX2" $IP2_6)" || return
	((unsummed == 0 && summed >= 300)) ||
		fail "$unsummed packets without and $summed with checksum" || return
	flow_start v6 $IP1_6 $IP2_6 && flow_advances v6 && flow_stop v6
}

linear_queue() {
	tc -n "$NS2" qdisc replace dev "$DEV2" root netem delay 1ms loss 0.5% && flow_start v4 $IP1 $IP2 $PATIENT &&
		flow_advances v4 && flow_stop v4 && tc -n "$NS2" qdisc delete dev "$DEV2" root
}
