# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# rox-doctor's diagnosis of congestion: a network between two devices that marks, loses, or has no priorities.
# Sourced by tests/tools/run.

# Linux (6.1, 6.12) makes no netdev of a name that the caller's namespace has, whichever namespace it is for.
congestion_network() {
	unset NS1_IS_FIRST
	NS1=busy1 NS2=busy2 DEV1=vethq1 DEV2=vethq2 ROX1=roxq1 ROX2=roxq2
	net_two 1500 && rdma_load && link_two && DOCTOR="ip netns exec $NS2" finds congestion ok "algorithm adaptive" roxq2
}

# A message from roxq2 to roxq1: congestion_send BYTES MESSAGES
congestion_send() {
	run_pair -t 60 -- ib_write_bw -F -d roxq1 -x "$(gid_index_v4 roxq1)" -s "$1" -n "$2" \
		-- ib_write_bw -F -d roxq2 -x "$(gid_index_v4 roxq2)" -s "$1" -n "$2" "$IP1"
}

finds_there() {
	DOCTOR="ip netns exec $NS2" finds congestion "$@" roxq2
}

# Every packet is marked on its way out, although its sender is not ECN-capable.
congestion_marks() {
	echo none >/sys/class/infiniband/roxq2/cc/algorithm &&
		in2 nft add table ip marks && in2 nft add chain ip marks out '{ type filter hook output priority 0; }' &&
		in2 nft add rule ip marks out udp dport 4791 ip ecn set ce && congestion_send 4096 200 &&
		finds_there warning "CNPs were ignored" && mend warning && finds_there ok "algorithm dcqcn" &&
		in2 nft delete table ip marks
}

# Packets are lost without marks. The counters of a new device begin at 0.
congestion_losses() {
	rdma link delete roxq2 && link_add "$NS2" roxq2 "$DEV2" && echo dcqcn >/sys/class/infiniband/roxq2/cc/algorithm &&
		in2 tc qdisc add dev "$DEV2" root netem loss 10% && congestion_send 8192 200 &&
		finds_there warning "but no CNP came, for which dcqcn waits" && mend warning && finds_there ok "algorithm adaptive" &&
		in2 tc qdisc delete dev "$DEV2" root
}

congestion_queue() {
	in2 tc qdisc add dev "$DEV2" root fq_codel noecn && finds_there warning "fq_codel of $DEV2 drops where it could mark" &&
		in2 bash -c "$(in_report "findings[0]['commands'][0]")" && finds_there ok "algorithm adaptive" &&
		in2 tc qdisc delete dev "$DEV2" root
}

congestion_vlan() {
	modprobe 8021q && in2 ip link add link "$DEV2" name vlanq type vlan id 5 && in2 ip link set vlanq up &&
		in2 ip address add 10.9.0.2/24 dev vlanq && link_add "$NS2" roxq5 vlanq &&
		DOCTOR="ip netns exec $NS2" finds congestion note "the VLAN vlanq sends all packets with priority 0" roxq5 &&
		in2 bash -c "$(in_report "findings[0]['commands'][0]")" &&
		DOCTOR="ip netns exec $NS2" finds congestion ok "algorithm adaptive" roxq5 && rdma link delete roxq5
}

part_congestion() {
	tap_run "congestion: two devices, in order" congestion_network
	tap_run "congestion: CNPs are ignored; the command makes the sender obey" congestion_marks
	tap_run "congestion: losses without marks; the command needs none" congestion_losses
	tap_run "congestion: a queue that is told not to mark" congestion_queue
	tap_run "congestion: a VLAN without priorities" congestion_vlan
	link_two_delete
	net_two_delete
	NS1=ns1 NS2=ns2 DEV1=veth0 DEV2=veth1 ROX1=rox0 ROX2=rox1
}
