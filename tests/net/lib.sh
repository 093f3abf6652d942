# shellcheck shell=bash disable=SC2034,SC2015,SC2086,SC2154
# SPDX-License-Identifier: GPL-2.0
#
# Functions that the parts of tests/net share. Sourced after tests/lib.sh and tests/life/lib.sh.
#
#   flow_start NAME ADDRESS1 ADDRESS2 [OPTIONS]   starts checked traffic between $ROX1 and $ROX2, with
#                  the GIDs of these addresses; returns when data flows. OPTIONS are those of
#                  `traffic`: $PATIENT for a connection that survives half a minute without an
#                  answer, $HASTY for one that fails within two seconds
#   flow_advances NAME...   waits until each end of each flow has completed many more messages
#   flow_stands NAME        waits until no more messages are completed
#   flow_ends NAME          waits until both ends have failed because no answer came
#   flow_stop NAME...       ends flows, which must succeed without an error
#   stage_begin SUBJECT SET CLEAR / stage_end   enclose cases with a common subject, which is the
#                  prefix of their names, and with common functions for set-up and clean-up
#   case_full NAME FUNCTION...   case_run, but not in the core (ROX_QUICK=1)
#   case_run NAME FUNCTION...   tap_run; ends the processes that the case leaves running
#   event_watch / event_seen TYPE   records asynchronous events of $ROX1 / waits for one more
#   gid_add / gid_delete NS DEV ROX ADDRESS/LENGTH   changes an address and waits for the GID table

PATIENT='-t 20 -r 7'
HASTY='-t 15 -r 3'

# Seconds in which a connection must make progress or fail. A $PATIENT one fails after 34 seconds, and
# needs 4 to recover from a loss that only the ACK timer detects.
LIMIT=90

# Sleeps and pauses, so that an emulated guest has time for other processes.
FLOW='-e -w 40'

declare -A flow_pids=()

flow_start() {
	local name=$1 from=$2 to=$3 meet=$ROX_TMP/$1.meet
	shift 3
	rm -f "$meet" "$ROX_TMP/$name".{1,2}{,.count}
	flow_pids[$name]=
	ip netns exec "$NS1" "$TRAFFIC" serve $FLOW "$@" -a "$from" -c "$ROX_TMP/$name.1.count" \
		"$ROX1" "$meet" >"$ROX_TMP/$name.1" 2>&1 &
	flow_pids[$name]=$!
	ip netns exec "$NS2" "$TRAFFIC" connect $FLOW "$@" -a "$to" -c "$ROX_TMP/$name.2.count" \
		"$ROX2" "$meet" >"$ROX_TMP/$name.2" 2>&1 &
	flow_pids[$name]+=" $!"
	soon 30 flow_flows "$name" || flow_fail "$name" "does not begin"
}

flow_flows() {
	line_matches '^running' "$ROX_TMP/$1.1" && line_matches '^running' "$ROX_TMP/$1.2"
}

# Prints the error and the state of flow, network and devices. Returns 1.
flow_fail() {
	local name=$1 end count
	echo "flow $1: $2"
	for end in 1 2; do
		flow_count "$name" $end
		echo "  end $end, $count messages: $(tail -n 2 "$ROX_TMP/$name.$end")"
	done
	for end in "$NS1" "$NS2"; do
		echo "--- $end"
		ip -n "$end" -br address
		ip -n "$end" route
		ip -n "$end" -6 route
		ip -n "$end" neighbour
	done
	diagnose
	return 1
}

# Sets `count` to the number of messages at one end of a flow. Starts no process: it is called often.
flow_count() {
	count=0
	[[ ! -s $ROX_TMP/$1.$2.count ]] || read -r count <"$ROX_TMP/$1.$2.count"
	count=$((10#$count))
}

flow_beyond() {
	local count
	flow_count "$1" 1 && ((count > $2)) && flow_count "$1" 2 && ((count > $3))
}

flow_advances() {
	local name count first second
	for name; do
		flow_count "$name" 1
		first=$count
		flow_count "$name" 2
		second=$count
		soon $LIMIT flow_beyond "$name" $((first + 20)) $((second + 20)) ||
			flow_fail "$name" "stands still" || return
	done
}

flow_rests() {
	local count first second
	flow_count "$1" 1
	first=$count
	flow_count "$1" 2
	second=$count
	sleep 0.4
	! flow_beyond "$1" "$first" -1 && ! flow_beyond "$1" -1 "$second"
}

flow_stands() {
	soon 10 flow_rests "$1" || flow_fail "$1" "goes on" || return
	flow_alive "$1"
}

flow_alive() {
	local pid
	for pid in ${flow_pids[$1]}; do
		! process_gone "$pid" || flow_fail "$1" "has ended" || return
	done
}

flow_gone() {
	local pid
	for pid in ${flow_pids[$1]}; do process_gone "$pid" || return; done
}

# Waits until both processes of a flow have ended, with a given status and a line that matches a pattern.
flow_result() {
	local name=$1 wanted=$2 text=$3 pid status end=0 bad=0
	soon $LIMIT flow_gone "$name" || flow_fail "$name" "does not end" || return
	for pid in ${flow_pids[$name]}; do
		status=0
		wait "$pid" || status=$?
		grep -Eq "$text" "$ROX_TMP/$name.$((++end))" && ((status == wanted)) || bad=1
	done
	unset "flow_pids[$name]"
	((!bad)) || flow_fail "$name" "ended, but not with status $wanted and '$text'"
}

# When one end has failed, requests of the other get no answer either: one of both must show the timeout.
flow_ends() {
	flow_result "$1" 3 'lost: (transport retry counter exceeded|Work Request Flushed Error)' &&
		grep -q 'retry counter' "$ROX_TMP/$1.1" "$ROX_TMP/$1.2"
}

flow_stop() {
	local name
	for name; do
		flow_alive "$name" || return
		# shellcheck disable=SC2086 # two numbers
		kill -TERM ${flow_pids[$name]}
		flow_result "$name" 0 '^done' || return
	done
}

stage_begin() {
	subject=$1 stage=$2 unstage=$3
	tap_run "$subject: stage" "$stage"
	leak_mark
}

stage_end() {
	tap_run "$subject: no leak" leak_check
	tap_run "$subject: stage cleared" "$unstage"
}

# After a failure everything is set up again, because the state is unknown.
case_run() {
	local name=$1 pids failed=$tap_failed
	shift
	log_mark
	tap_run "$subject: $name" case_body "$@"
	pids="${flow_pids[*]} ${event_watcher:-}"
	# shellcheck disable=SC2086 # numbers
	{ [[ $pids == ' ' ]] || kill -9 $pids; wait; } 2>/dev/null
	flow_pids=() event_watcher=
	((tap_failed == failed)) || { "$unstage"; "$stage"; leak_mark; } >/dev/null 2>&1
}

case_full() {
	[[ -n ${ROX_QUICK:-} ]] || case_run "$@"
}

case_body() {
	"$@" && log_check
}

# -- events and addresses ------------------------------------------------------

event_watch() {
	event_taken=()
	: >"$ROX_TMP/events"
	ip netns exec "$NS1" stdbuf -oL ibv_asyncwatch -d "$ROX1" >"$ROX_TMP/events" 2>&1 &
	event_watcher=$!
	soon 10 grep -qs 'async event FD' "$ROX_TMP/events"
}

# True if there is an event of this type that event_seen has not returned for.
event_more() {
	(($(grep -ci "event_type .*$1" "$ROX_TMP/events") > ${event_taken[$1]:-0}))
}

declare -A event_taken=()
event_seen() {
	soon 10 event_more "$1" || fail "no event $1: $(<"$ROX_TMP/events")" || return
	event_taken[$1]=$(grep -ci "event_type .*$1" "$ROX_TMP/events")
}

# An address in the form of the GID table.
gid_text() {
	local groups head tail i text=
	if [[ $1 != *:* ]]; then
		IFS=. read -ra groups <<<"$1"
		printf '0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x' "${groups[@]}"
		return
	fi
	IFS=: read -ra head <<<"${1%%::*}"
	IFS=: read -ra tail <<<"${1##*::}"
	for ((i = 0; i < 8; i++)); do
		if ((i < ${#head[@]})); then
			printf -v text '%s:%04x' "$text" $((16#${head[i]}))
		elif ((i >= 8 - ${#tail[@]})); then
			printf -v text '%s:%04x' "$text" $((16#${tail[i - 8 + ${#tail[@]}]}))
		else
			text+=:0000
		fi
	done
	echo "${text#:}"
}

# gid_index NAMESPACE DEVICE ADDRESS: of the address in the GID table of a device that the namespace has.
gid_index() {
	ip netns exec "$1" sh -c "cd /sys/class/infiniband/$2/ports/1/gids && grep -il '$(gid_text "$3")' *" 2>/dev/null
}

gid_in() {
	gids_of "$1" | grep -qi "$2"
}

gid_not_in() {
	! gid_in "$1" "$2"
}

address_option() {
	[[ $1 != *:* ]] || echo nodad
}

gid_add() {
	# shellcheck disable=SC2046 # a word or none
	ip -n "$1" address add "$4" dev "$2" $(address_option "$4") || return
	soon 10 gid_in "$3" "$(gid_text "${4%/*}")" || fail "no GID of $4: $(gids_of "$3")"
}

gid_delete() {
	ip -n "$1" address delete "$4" dev "$2" || return
	soon 10 gid_not_in "$3" "$(gid_text "${4%/*}")" || fail "the GID of $4 stays"
}

# Second addresses of both ends, of both families: $A1 and $A2, ${A1_6} and ${A2_6}.
A1=10.1.0.1 A2=10.1.0.2 A1_6=fd01::1 A2_6=fd01::2
second_addresses() {
	gid_add "$NS1" "$DEV1" "$ROX1" $A1/24 && gid_add "$NS2" "$DEV2" "$ROX2" $A2/24 &&
		gid_add "$NS1" "$DEV1" "$ROX1" $A1_6/64 && gid_add "$NS2" "$DEV2" "$ROX2" $A2_6/64
}

# A counter of a device, by its name in sysfs.
counter_of() {
	cat "/sys/class/infiniband/$1/ports/1/hw_counters/$2"
}

port_is() {
	rdma link show "$1/1" | grep -q "state $2"
}
