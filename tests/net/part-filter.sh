# shellcheck shell=bash disable=SC2086,SC2015
# SPDX-License-Identifier: GPL-2.0
#
# Firewalls bind RDMA traffic as they bind other UDP: what the INPUT chain drops never reaches a QP.

part_filter() {
	stage_begin filter filter_stage stage_clear
	case_run "INPUT drops the port, IPv4" filter_drops ip "$IP1" "$IP2"
	case_run "INPUT drops the port, IPv6" filter_drops ip6 $IP1_6 $IP2_6
	case_run "OUTPUT lets rox send and drops what users send to the port" filter_users
	stage_end
}

filter_stage() {
	modprobe -a nf_tables nf_conntrack nft_ct && stage_set
}

filter_drops() {
	local before after
	flow_start filtered "$2" "$3" $PATIENT || return
	ip netns exec "$NS2" nft -f - <<-END || return
		table $1 rox_test {
			chain input {
				type filter hook input priority 0;
				udp dport 4791 ct state new,established counter drop
			}
		}
	END
	flow_stands filtered || return
	before=$(counter_of "$ROX2" rx_packets)
	sleep 6
	after=$(counter_of "$ROX2" rx_packets)
	((after == before)) || fail "$((after - before)) packets came past the firewall" || return
	ip netns exec "$NS2" nft list table $1 rox_test | grep -Eq 'counter packets [1-9]' ||
		fail "the rule has dropped nothing" || return
	ip netns exec "$NS2" nft delete table $1 rox_test && flow_advances filtered &&
		flow_stop filtered
}

# Documentation/security.md names this rule.
filter_users() {
	local send="echo >/dev/udp/$IP2/4791"
	flow_start users "$IP1" "$IP2" $PATIENT || return
	ip netns exec "$NS1" setpriv --reuid 65534 bash -c "$send" || fail "a user cannot send without the rule" || return
	ip netns exec "$NS1" nft -f - <<-END || return
		table ip rox_test {
			chain output {
				type filter hook output priority 0;
				udp dport 4791 meta skuid != 0 drop
			}
		}
	END
	! ip netns exec "$NS1" setpriv --reuid 65534 bash -c "$send" 2>"$ROX_TMP/send" ||
		fail "a user has sent in spite of the rule" || return
	grep -q 'not permitted' "$ROX_TMP/send" || fail "$(<"$ROX_TMP/send")" || return
	flow_advances users && flow_stop users && ip netns exec "$NS1" nft delete table ip rox_test
}
