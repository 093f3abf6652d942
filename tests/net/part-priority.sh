# shellcheck shell=bash disable=SC2086
# SPDX-License-Identifier: GPL-2.0
#
# Priorities: what a program says by service level, traffic class and tos is what the network gets as PCP,
# or the qdisc as class.

part_priority() {
	stage_begin priorities pcp_stage stage_clear
	case_run "PCP: without any, that of priority 0" pcp_is 1
	case_run "PCP: of a traffic class" pcp_is 3 --tclass=$BULK
	case_run "PCP: a service level" pcp_is 5 --sl=5
	case_run "PCP: a service level above 7, of which it has the lower bits" pcp_is 5 --sl=13
	case_run "PCP: RDMA CM's tos" pcp_is 3 -R --tos=$BULK
	case_run "PCP: the default tos of RDMA CM" pcp_of_default_tos
	case_run "PCP: UD, a service level" pcp_of_datagrams 5
	case_run "PCP: UD, a service level above 7" pcp_of_datagrams 13
	stage_end
	stage_begin priorities class_stage stage_clear
	case_run "mqprio: without any, the first class" class_is 0
	case_run "mqprio: of a traffic class" class_is 1 --tclass=$BULK
	case_run "mqprio: a service level" class_is 1 --sl=5
	case_run "mqprio: a service level above 7" class_is 1 --sl=13
	case_run "mqprio: RDMA CM's tos" class_is 1 -R --tos=$BULK
	stage_end
}

# A tos with DSCP 26, for which Linux has priority 2 (bulk).
BULK=104
PCP_MAP='0:1 2:3 4:5'

pcp_stage() {
	stage_set && modprobe -a sch_ingress cls_flower act_gact && vlan_add "$NS1" "$DEV1" 100 &&
		vlan_add "$NS2" "$DEV2" 100 && ip -n "$NS1" link set vlan100 type vlan egress-qos-map $PCP_MAP &&
		ip -n "$NS2" link set vlan100 type vlan egress-qos-map $PCP_MAP &&
		rdma link delete "$ROX1" && rdma link delete "$ROX2" &&
		ip -n "$NS1" address add $V1/24 dev vlan100 && ip -n "$NS2" address add $V2/24 dev vlan100 &&
		link_add "$NS1" "$ROX1" vlan100 && link_add "$NS2" "$ROX2" vlan100 && pcp_count
}

# Counts what comes to $NS1 and $NS2 by UDP, by PCP.
pcp_count() {
	local pcp end ns dev
	for end in 1 2; do
		ns=NS$end dev=DEV$end
		tc -n "${!ns}" qdisc add dev "${!dev}" clsact || return
		for pcp in 0 1 2 3 4 5 6 7; do
			tc -n "${!ns}" filter add dev "${!dev}" ingress pref $((pcp + 1)) protocol 802.1Q \
				flower vlan_prio $pcp vlan_ethtype ipv4 ip_proto udp dst_port 4791 action pass || return
		done
	done
}

# Prints for one end the PCPs that it got in more than fifty packets since the last call. A connection of the
# RDMA CM has a few packets of QP 1, with a service level of 0.
pcp_seen() {
	local ns=NS$1 dev=DEV$1 file=$ROX_TMP/pcp$1 pcp sent
	local -a before=()
	[[ ! -e $file ]] || mapfile -t before <"$file"
	tc -s -n "${!ns}" filter show dev "${!dev}" ingress |
		awk '/vlan_prio/ { pcp = $2 } /Sent/ && pcp != "" { sent[pcp] = $4; pcp = "" }
			END { for (pcp = 0; pcp < 8; pcp++) print sent[pcp] + 0 }' >"$file"
	pcp=0
	while read -r sent; do
		((sent - ${before[pcp]:-0} <= 50)) || echo -n "$pcp "
		((++pcp))
	done <"$file"
}

# pcp_is PCP OPTIONS...: requests and ACKs have this PCP.
pcp_is() {
	local pcp=$1 seen
	pcp_seen 1 >/dev/null
	pcp_seen 2 >/dev/null
	priority_run ib_send_bw "${@:2}" $V1 || return
	seen="$(pcp_seen 1)$(pcp_seen 2)"
	echo "PCPs: $seen"
	[[ $seen == "$pcp $pcp " ]]
}

priority_run() {
	local program=$1 address=${*: -1}
	set -- "${@:2:$#-2}"
	run_pair -t 60 -- "$program" -F -n 200 -t 1 "$@" -d "$ROX1" -- "$program" -F -n 200 -t 1 "$@" -d "$ROX2" "$address"
}

pcp_of_default_tos() {
	local port=/sys/kernel/config/rdma_cm/$ROX2/ports/1
	mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config || return
	modprobe rdma_cm && mkdir "${port%/ports/1}" && echo $BULK >"$port/default_roce_tos" && pcp_is 3 -R &&
		rmdir "${port%/ports/1}"
}

# pcp_of_datagrams SL: they come with PCP 5. Datagrams have no ACKs: only the receiver gets some.
pcp_of_datagrams() {
	local seen
	pcp_seen 1 >/dev/null
	priority_run ib_send_bw -c UD -s 1024 --sl=$1 $V1 || return
	seen=$(pcp_seen 1)
	echo "PCPs: $seen"
	[[ $seen == "5 " ]]
}

# Two classes with a transmit queue each. Priorities 2 and 5 are in the second one.
class_stage() {
	stage_set && modprobe sch_mqprio && ip netns exec "$NS2" ethtool -L "$DEV2" tx 2 &&
		tc -n "$NS2" qdisc add dev "$DEV2" root handle 1: mqprio num_tc 2 \
			map 0 0 1 0 0 1 0 0 0 0 0 0 0 0 0 0 queues 1@0 1@1 hw 0
}

# Packets that $NS2 has sent in a class.
class_packets() {
	tc -s -n "$NS2" class show dev "$DEV2" |
		awk -v "class=1:ffe$1" '$1 == "class" { here = $3 == class } here && $1 == "Sent" { print $4 }'
}

# class_is CLASS OPTIONS...: the packets of $NS2 are in this class, and in no other.
class_is() {
	local class=$1 here other
	here=$(class_packets "$class")
	other=$(class_packets $((1 - class)))
	priority_run ib_send_bw "${@:2}" $IP1 || return
	here=$(($(class_packets "$class") - here))
	other=$(($(class_packets $((1 - class))) - other))
	echo "packets: $here here, $other in the other class"
	((here >= 200 && other < 100))
}
