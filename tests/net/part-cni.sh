# shellcheck shell=bash disable=SC2086,SC2015,SC2154
# SPDX-License-Identifier: GPL-2.0
#
# Namespaces do not share RDMA devices, and a container gets a netdev and its device, as by rdma-cni: in either
# order. Each case begins with both in the first namespace, on a veth whose other end is in another one.

part_cni() {
	stage_begin "exclusive mode" cni_stage cni_clear
	case_run "netdev, then device: RC and RDMA CM in the pod; the pod ends" cni_netdev_first
	case_run "device, then netdev: the same" cni_device_first
	case_run "in use: programs lose it, and it works in the pod" cni_in_use
	case_run "and back to the host" cni_back
	stage_end
}

CNI_POD=cnipod CNI_FAR=cnifar CNI_HOST=cnihost CNI_DEV=cni0 CNI_PEER=cni1

cni_stage() {
	local name
	for name in $(ip netns list | cut -d ' ' -f 1); do ip netns delete $name; done
	modprobe -a veth ib_uverbs rdma_ucm && module_load &&
		soon 20 rdma system set netns exclusive && ip netns add $CNI_FAR
}

cni_clear() {
	local name status=0
	for name in $CNI_POD $CNI_FAR $CNI_HOST; do
		[[ ! -e /run/netns/$name ]] || ip netns delete $name || status=1
	done
	ip link delete $CNI_DEV 2>/dev/null
	soon 20 rdma system set netns shared || status=1
	return $status
}

# The netdev has its address before the link, so that the host has used it.
cni_begin() {
	ip netns add $CNI_POD && ip link add $CNI_DEV mtu 9000 type veth \
		peer name $CNI_PEER mtu 9000 netns $CNI_FAR &&
		ip link set $CNI_DEV up && ip address add 10.40.0.1/24 dev $CNI_DEV &&
		net_end $CNI_FAR $CNI_PEER 10.40.0.2 fd40::2 && rdma link add cnirox type rox netdev $CNI_DEV &&
		ip netns exec $CNI_FAR rdma link add cnifarrox type rox netdev $CNI_PEER
}

cni_netdev() {
	run_limited 8 ip link set $CNI_DEV netns $CNI_POD && net_end $CNI_POD $CNI_DEV 10.40.0.1 fd40::1
}

cni_device() {
	run_limited 8 rdma dev set cnirox netns $CNI_POD
}

cni_here() {
	rdma dev show cnirox >/dev/null 2>&1
}

# In the pod only, with the netdev's addresses.
cni_arrived() {
	! cni_here || fail "the host still has the device" || return
	ip netns exec $CNI_POD rdma dev show cnirox >/dev/null || fail "the pod has no device" || return
	soon 10 cni_has_gid $CNI_POD 10.40.0.1
}

# A class directory shows the devices of the namespace in which it was mounted.
cni_has_gid() {
	ip netns exec "$1" sh -c 'cat /sys/class/infiniband/cnirox/ports/1/gids/*' 2>/dev/null |
		grep -qi "$(gid_text "$2")"
}

cni_talks() {
	NS1=$1 NS2=$CNI_FAR cm_pair 10.40.0.1 && NS1=$CNI_FAR NS2=$1 cm_pair 10.40.0.2 &&
		NS1=$1 NS2=$CNI_FAR run_pair -- ib_write_bw -d cnirox -F -n 50 -x "$(gid_index $1 cnirox 10.40.0.1)" -- \
			ib_write_bw -d cnifarrox -F -n 50 -x "$(gid_index $CNI_FAR cnifarrox 10.40.0.2)" 10.40.0.1
}

# The far end of the veth goes with the namespace, and the device with the netdev.
cni_end() {
	ip netns delete $CNI_POD && soon 5 netdev_gone $CNI_FAR $CNI_PEER || fail "the namespace stays" || return
	soon 10 rdma_gone cnirox && soon 10 rdma_gone cnifarrox
}

cni_netdev_first() {
	cni_begin && cni_netdev && cni_device && cni_arrived && cni_talks $CNI_POD && cni_end
}

cni_device_first() {
	cni_begin && cni_device && cni_netdev && cni_arrived && cni_talks $CNI_POD && cni_end
}

# A listener with a connection of its own, and traffic.
cni_in_use() {
	local listener
	cni_begin || return
	rping -s -a 10.40.0.1 >"$ROX_TMP/rping" 2>&1 &
	listener=$!
	ibv_asyncwatch -d cnirox >"$ROX_TMP/watch" 2>&1 &
	soon 10 grep -qs 'async event FD' "$ROX_TMP/watch" && cni_device && cni_netdev && cni_arrived &&
		soon 10 grep -qi 'fatal' "$ROX_TMP/watch" || { fail "$(cat "$ROX_TMP/watch")"; return; }
	kill -9 $listener %ibv_asyncwatch 2>/dev/null
	cni_talks $CNI_POD && cni_end
}

# The first namespace gets a name for this.
cni_back() {
	local status=0
	ip netns attach $CNI_HOST 1 && cni_begin && cni_netdev && cni_device && cni_arrived &&
		run_limited 8 ip -n $CNI_POD link set $CNI_DEV netns $CNI_HOST &&
		run_limited 8 ip netns exec $CNI_POD rdma dev set cnirox netns $CNI_HOST &&
		soon 5 cni_here && ip link set $CNI_DEV up && ip address add 10.40.0.1/24 dev $CNI_DEV &&
		soon 10 cni_has_gid $CNI_HOST 10.40.0.1 && cni_talks $CNI_HOST &&
		ip netns delete $CNI_POD && ip link delete $CNI_DEV &&
		soon 10 rdma_gone cnirox && soon 10 rdma_gone cnifarrox || status=1
	ip netns delete $CNI_HOST
	return $status
}
