#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# When does tests/cases.sh run a program again, and what does it take for a result? With a client that only prints.

set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/lib.sh
. tests/cases.sh
trap 'rm -rf "$ROX_TMP"' EXIT

refused='RDMA_CM_EVENT_REJECTED; error: 8.'
unmeasured='Correlation coefficient r^2: 0.88 < 0.90'

unflushed='client DISCONNECT EVENT...
client ended with 124, server with 0:'

gid_index_v4() { echo 1; }
leak_state() { :; }

# As run_pair: says what perftest says in each of the situations.
client() {
	: >"$ROX_TMP/server.out"
	((++runs))
	case $situation in
	early) ((runs > 1)) && echo ' 65536 100 0.00 10.5 0.02' || { echo "$refused"; return 1; } ;;
	absent) echo "$refused"; return 1 ;;
	broken) echo 'Failed to modify QP'; return 1 ;;
	unmeasured) echo "$unmeasured"; echo ' 65536 100 inf inf inf' ;;
	silent) echo "$unmeasured" ;;
	unflushed) ((runs > 1)) && echo 'ping data: rdma-ping-0: A' || { echo "$unflushed"; return 1; } ;;
	unanswered) echo "${unflushed#*$'\n'}"; return 1 ;;
	esac
}

case_runner=client
leak_mark
while read -r situation wanted_runs wanted_failed CLIENT_DEV program; do
	runs=0 before=$tap_failed
	case_table "$situation" f "" <<<"f 1 $program" >"$ROX_TMP/table"
	((runs == wanted_runs && tap_failed - before == wanted_failed)) && echo "ok $situation: $program" ||
		echo "not ok $situation: $program: $runs runs, $((tap_failed - before)) failed"
done <<'END' >"$ROX_TMP/all"
early 2 0 rox1 ib_write_bw -R -n 100
absent 3 1 rox1 ib_write_bw -R -n 100
absent 1 1 rox1 ib_write_bw -n 100
broken 1 1 rox1 ib_write_bw -R -n 100
unmeasured 1 0 rox1 ib_write_bw -R -n 100
silent 1 1 rox1 ib_write_bw -n 100
unflushed 2 0 rxe0 rping -c -C 1
unflushed 1 1 rox1 rping -c -C 1
unanswered 1 1 rxe0 rping -c -C 1
END
cat "$ROX_TMP/all"
(($(grep -c '^ok ' "$ROX_TMP/all") == 9)) && ! grep -q '^not ok' "$ROX_TMP/all"
