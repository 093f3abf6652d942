# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# The dashboard for Grafana, packaging/grafana/rox.json: node_exporter must have each metric that it shows.
# Grafana itself is not in Debian. Sourced by tests/tools/run.

monitor_device() {
	rdma_load && ip link add monitord type dummy && ip link set monitord up &&
		ip address add 10.8.0.1/24 dev monitord && link_add '' roxm0 monitord
}

# Starts node_exporter and keeps what it says of roxm0.
monitor_read() {
	local pid status
	prometheus-node-exporter --web.listen-address=127.0.0.1:9100 --collector.disable-defaults --collector.infiniband \
		>"$ROX_TMP/exporter" 2>&1 &
	pid=$!
	soon 60 monitor_fetch
	status=$?
	kill "$pid"
	wait "$pid"
	((status == 0)) || cat "$ROX_TMP/exporter"
	return $status
}

monitor_fetch() {
	python3 -c 'import urllib.request; print(urllib.request.urlopen("http://127.0.0.1:9100/metrics").read().decode())' \
		2>/dev/null | grep '^node_infiniband_.*device="roxm0"' >"$ROX_TMP/metrics"
}

monitor_has_all() {
	local name missing=0
	monitor_read || return
	for name in $(grep -o 'node_infiniband_[a-z_]*' packaging/grafana/rox.json | sort -u); do
		grep -q "^$name{" "$ROX_TMP/metrics" || { echo "node_exporter has no $name"; missing=1; }
	done
	((!missing))
}

# Ten SENDs of 1,000 bytes between two QPs of the device.
monitor_moves() {
	local before after
	before=$(monitor_value port_data_transmitted_bytes_total)
	ibv_rc_pingpong -d roxm0 -g "$(gid_index_v4 roxm0)" -n 10 -s 1000 >"$ROX_TMP/server" 2>&1 &
	soon 10 monitor_listens || return
	ibv_rc_pingpong -d roxm0 -g "$(gid_index_v4 roxm0)" -n 10 -s 1000 127.0.0.1 && wait && monitor_read || return
	after=$(monitor_value port_data_transmitted_bytes_total)
	echo "before: $before, after: $after"
	awk "BEGIN { exit !($after >= $before + 20 * 1000) }"
}

monitor_listens() {
	ss -tln | grep -q ":18515"
}

monitor_value() {
	sed -n "s/^node_infiniband_$1{.*} //p" "$ROX_TMP/metrics"
}

part_monitor() {
	tap_run "dashboard: a device" monitor_device
	tap_run "dashboard: node_exporter has each metric" monitor_has_all
	tap_run "dashboard: the bytes of a transfer are in it" monitor_moves
	rdma link delete roxm0
	ip link delete monitord
}
