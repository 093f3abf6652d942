# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: GPL-2.0
#
# Links on every kind of netdev, and those that are refused.

part_links() {
	tap_run "rdma link add loads the module" links_autoload
	tap_run "a second link on a netdev: outlives the first" links_second
	tap_run "a second link of the same name: EEXIST" links_same_name
	tap_run "no such netdev: refused" links_no_netdev
	local kind
	for kind in veth dummy bridge vlan bond bond_member lo; do
		tap_run "link, traffic, no link, no netdev: $kind" links_on "$kind"
	done
	for kind in veth bridge vlan bond lo dummy; do
		tap_run "frames on the netdev: $kind" frames_on "$kind"
	done
	for kind in tun sit gre; do
		netdev_known "$kind" || { tap_skip "refused with a reason: $kind" "not in this kernel"; continue; }
		tap_run "refused with a reason: $kind" links_refused "$kind"
	done
	tap_run "deleting a netdev takes its link away" links_deleted_with_netdev
	tap_run "the module unloads" module_unload
}

# Kernels built for the tests have few kinds.
netdev_known() {
	[[ $1 != gre ]] || modprobe -q ip_gre
}

# Creates a netdev of a kind with an address, in the first namespace; its name is in `netdev`.
netdev_make() {
	netdev=life0
	case $1 in
	veth) ip link add life0 type veth peer name life1 && ip link set life1 up ;;
	dummy) ip link add life0 type dummy ;;
	bridge)
		ip link add life0 type bridge && ip link add life1 type dummy &&
			ip link set life1 master life0 up
		;;
	vlan)
		ip link add life1 type dummy && ip link set life1 up &&
			ip link add link life1 name life0 type vlan id 100
		;;
	bond)
		ip link add life0 type bond mode active-backup miimon 100 &&
			ip link add life1 type dummy && ip link set life1 master life0 &&
			ip link set life1 up
		;;
	bond_member)
		netdev=life1
		ip link add life0 type bond mode active-backup miimon 100 &&
			ip link add life1 type dummy && ip link set life1 master life0 &&
			ip link set life1 up
		;;
	lo) netdev=lo; ip link set lo up; return ;;
	tun) modprobe tun && ip tuntap add dev life0 mode tun ;;
	sit) ip link add life0 type sit local 10.9.9.1 remote 10.9.9.2 ;;
	gre) ip link add life0 type gre local 10.9.9.1 remote 10.9.9.2 ;;
	esac || return
	# A member's address is never a GID of its own: it sits on the bond.
	ip address add 10.9.9.1/24 dev life0 && ip link set life0 up
}

netdev_unmake() {
	local name status=0
	[[ $1 != lo ]] || return 0
	for name in life0 life1; do
		netdev_gone "" "$name" || run_limited 8 ip link delete "$name" ||
			{ echo "deleting $name did not succeed at once"; status=1; }
	done
	return $status
}

port_active() {
	rdma link show "$1/1" | grep -q 'state ACTIVE'
}

links_on() {
	local kind=$1 netdev status=0
	log_mark
	netdev_make "$kind" || return
	links_use "$netdev" || status=1
	rdma_gone roxl || rdma link delete roxl || status=1
	netdev_unmake "$kind" || status=1
	log_check || status=1
	soon 5 module_idle || fail "the module has $(module_users) references" || status=1
	return $status
}

links_use() {
	rdma link add roxl type "$ROX_TYPE" netdev "$1" || return
	soon 5 port_active roxl || fail "the port of roxl is not active: $(rdma link)" || return
	run_limited 30 "$TRAFFIC" once -m 60 roxl roxl &&
		rdma link delete roxl && rdma_gone roxl
}

# -- frames: is it really the netdev that they go through? -----------------------

FAR=life-far

# Makes the netdev life0 of that kind here, with 10.9.9.1, and what it reaches in another namespace, far0 with
# 10.9.9.2. A VLAN and a bond have their like there.
far_make() {
	local here=life0 there=far0
	case $1 in
	bridge | vlan | bond) here=life1 ;;
	esac
	[[ $1 != vlan ]] || there=far1
	ip netns add $FAR && ip link add $here type veth peer name $there netns $FAR &&
		ip link set $here up && ip -n $FAR link set $there up || return
	case $1 in
	bridge) ip link add life0 type bridge && ip link set life1 master life0 ;;
	vlan)
		ip link add link life1 name life0 type vlan id 100 &&
			ip -n $FAR link add link far1 name far0 type vlan id 100
		;;
	bond)
		ip link add life0 type bond mode active-backup miimon 100 && ip link set life1 down &&
			ip link set life1 master life0 && ip link set life1 up
		;;
	esac || return
	ip address add 10.9.9.1/24 dev life0 && ip link set life0 up &&
		ip -n $FAR address add 10.9.9.2/24 dev far0 && ip -n $FAR link set far0 up
}

far_unmake() {
	local status=0
	link_leaves roxm || status=1
	link_leaves roxl || status=1
	netdev_unmake "$1" || status=1
	ip netns delete $FAR || status=1
	return $status
}

# The link roxl on a netdev in this namespace, with its address.
link_here() {
	module_load && rdma link add roxl type "$ROX_TYPE" netdev "$1" && soon 5 gid_index_v4 roxl >/dev/null
}

# Bytes that a netdev has counted: tx or rx.
frame_bytes() {
	echo "$(<"/sys/class/net/$1/statistics/${2}_bytes")"
}

link_sent() {
	echo "$(<"/sys/class/infiniband/$1/ports/1/hw_counters/tx_bytes")"
}

frames_on() {
	local status=0
	case $1 in
	lo) frames_lo; return ;;
	dummy) frames_dummy; return ;;
	esac
	far_make "$1" && link_here life0 && link_add $FAR roxm far0 && frames_between life0 roxl roxm || status=1
	far_unmake "$1" || status=1
	return $status
}

# What the traffic of two links has sent must have gone through the netdev of the first one, both ways.
frames_between() {
	local netdev=$1 near=$2 far=$3 out in sent received
	out=$(frame_bytes "$netdev" tx) in=$(frame_bytes "$netdev" rx)
	sent=$(link_sent "$near") received=$(link_sent "$far")
	run_limited 30 "$TRAFFIC" once -m 200 "$near" "$far" || return
	((sent = $(link_sent "$near") - sent, received = $(link_sent "$far") - received))
	((out = $(frame_bytes "$netdev" tx) - out, in = $(frame_bytes "$netdev" rx) - in))
	echo "the links have sent $sent and $received bytes, $netdev has counted $out and $in"
	# What the device counts is payload: 200 messages each way are more than this.
	((sent > 200 * 64 && received > 200 * 64 && out > sent && in > received))
}

# Two QPs of a device on lo talk without a wire, unless that is switched off.
frames_lo() {
	local loopback=/sys/module/$MODULE/parameters/loopback status=0
	ip link set lo up && link_here lo && echo N >"$loopback" && frames_between lo roxl roxl || status=1
	echo Y >"$loopback"
	link_leaves roxl || status=1
	return $status
}

# frames_counted BEFORE FRAMES: has the link sent a request since it had sent BEFORE bytes, and life0 counted more?
frames_counted() {
	local sent=$(($(link_sent roxl) - $1)) frames=$(($(frame_bytes life0 tx) - $2))
	((sent >= 256 && frames > sent))
}

# A dummy discards what is sent on it, so nobody answers; the RDMA CM's requests to a neighbour must be counted there.
frames_dummy() {
	local status=0 before frames
	netdev_make dummy && link_here life0 &&
		ip neighbour add 10.9.9.2 lladdr 02:00:00:00:00:99 nud permanent dev life0 || status=1
	before=$(link_sent roxl) frames=$(frame_bytes life0 tx)
	rping -c -a 10.9.9.2 -C 1 >"$ROX_TMP/rping" 2>&1 &
	soon 6 frames_counted "$before" "$frames" || status=1
	kill -9 $! && wait $! 2>/dev/null
	echo "the link has sent $(($(link_sent roxl) - before)) bytes, life0 has counted" \
		"$(($(frame_bytes life0 tx) - frames)); rping: $(tail -n 1 "$ROX_TMP/rping")"
	link_leaves roxl || status=1
	netdev_unmake dummy || status=1
	return $status
}

links_autoload() {
	modprobe -a ib_uverbs rdma_ucm
	module_unload || return
	[[ $(module_users) == none ]] || fail "the module is still there" || return
	netdev_make dummy || return
	rdma link add roxl type "$ROX_TYPE" netdev life0 && rdma_exists roxl
	local status=$?
	rdma link delete roxl || status=1
	netdev_unmake dummy || status=1
	return $status
}

links_second() {
	local text status=0
	netdev_make dummy && rdma link add roxl type "$ROX_TYPE" netdev life0 || return
	if [[ $ROX_TYPE == rox ]]; then
		rdma link add roxm type rox netdev life0 && rdma link delete roxl && rdma_exists roxm &&
			rdma link add roxl type rox netdev life0 && rdma link delete roxm || status=1
	else
		text=$(rdma link add roxm type "$ROX_TYPE" netdev life0 2>&1) && status=1
		[[ $text == *"File exists"* ]] || { echo "it says: $text"; status=1; }
	fi
	rdma_gone roxm || { echo "roxm is left"; rdma link delete roxm; status=1; }
	rdma link delete roxl && netdev_unmake dummy && return $status
}

links_same_name() {
	local text status=0
	netdev_make veth && rdma link add roxl type "$ROX_TYPE" netdev life0 || return
	text=$(rdma link add roxl type "$ROX_TYPE" netdev life1 2>&1) && status=1
	[[ $text == *"File exists"* ]] || { echo "it says: $text"; status=1; }
	rdma link delete roxl && netdev_unmake veth && ((status == 0)) &&
		soon 5 module_idle
}

links_no_netdev() {
	! rdma link add roxl type "$ROX_TYPE" netdev life7 && rdma_gone roxl
}

links_refused() {
	local kind=$1 text status=0
	netdev_make "$kind" || return
	log_mark
	rdma link add roxl type "$ROX_TYPE" netdev life0 2>&1 && status=1
	# The RDMA core has no way to hand the reason to the program: it is in the kernel's log.
	text=$(log_lines | tail -n +$((log_marked + 1)))
	echo "it says: $text"
	[[ $text == *Ethernet* ]] || status=1
	rdma_gone roxl || rdma link delete roxl
	netdev_unmake "$kind" && return $status
}

links_deleted_with_netdev() {
	log_mark
	netdev_make veth && rdma link add roxl type "$ROX_TYPE" netdev life0 &&
		rdma link add roxm type "$ROX_TYPE" netdev life1 && netdev_unmake veth &&
		soon 5 rdma_gone roxl && soon 5 rdma_gone roxm && log_check
}
