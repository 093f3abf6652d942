# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs a table of client and server programs. Source this file after lib.sh. A case is one line:
#
#   TIER SECONDS [-m BYTES] SERVER COMMAND [:: CLIENT COMMAND]
#
#   TIER     q: the core, also run by `make check-quick`; f: the full run only; l: the full run only,
#            but not a brief one (ROX_BRIEF in the environment), for the longest cases; w: as l, but
#            not on one device, where a similar case runs
#   SECONDS  the time limit of each program
#   BYTES    the payload that both devices together must have sent when both programs have ended
#   A SERVER COMMAND that begins with -k belongs to a server that does not end by itself.
#   Without :: the client's command is the server's, followed by the server's address.
#
# @ip and @ip6 stand for the server's addresses, @dev and @gid for the program's own device and the
# index of its IPv4 GID, @other-dev and @other-ip for the device and address of the other program. A
# command may begin with environment variables (NAME=value), and then with @fifo=MASK: it has real-time
# priority, on the CPUs of the mask. Where there is one CPU only such cases are skipped. A word that is a
# key of case_short stands for the words there. After the program's name the options that name the device
# (and for ibv_* the GID index) are inserted, so the first word after it must be an option or an address.
#
# The caller sets $SERVER_DEV and $CLIENT_DEV, the RDMA devices; $SERVER_GID and $CLIENT_GID, their GID
# indices for ibv_* if they cannot be looked up here; $CLIENT_IP, the client's address; case_runner, a
# function with the arguments of run_pair; and case_pair_options, more options for it.

SERVER_DEV=$ROX1
CLIENT_DEV=$ROX2
SERVER_GID='' CLIENT_GID=''
CLIENT_IP=$IP2
case_runner=run_pair
case_pair_options=()
declare -A case_short=()

# Sets `program` and the array `words` from the program's device and GID index, the other program's
# device and address, and the command.
case_words() {
	local dev=$1 gid=$2 other_dev=$3 other_ip=$4 word options=() rest=()
	shift 4
	words=()
	for word; do
		# shellcheck disable=SC2206 # it stands for several words
		rest+=(${case_short[$word]:-"$word"})
	done
	set -- "${rest[@]}"
	while [[ $1 =~ ^[A-Z_]+= ]]; do words+=("$1"); shift; done
	((${#words[@]} == 0)) || words=(env "${words[@]}")
	[[ $1 != @fifo=* ]] || { words+=(chrt -f 50 taskset "${1#*=}"); shift; }
	program=$1
	read_program "$program"
	shift
	case $program in
	ib_*) options=(-F -d "$dev") ;;
	ibv_*) options=(-d "$dev" -g "${gid:-$(gid_index_v4 "$dev")}") ;;
	esac
	words+=("$program" "${options[@]}" "$@")
	for word in "${!words[@]}"; do
		case_word "$dev" "$gid" "$other_dev" "$other_ip"
	done
}

# Replaces the @names in words[word].
case_word() {
	local value=${words[word]}
	[[ $value == *@* ]] || return 0
	value=${value//@other-dev/$3}
	value=${value//@other-ip/$4}
	value=${value//@ip6/$IP1_6}
	value=${value//@ip/$IP1}
	value=${value//@dev/$1}
	[[ $value != *@gid* ]] || value=${value//@gid/${2:-$(gid_index_v4 "$1")}}
	words[word]=$value
}

# The pattern of a line that a successful client prints.
case_expected() {
	case $1 in
	ib_*) echo '^ +[0-9]+ +[0-9]+ +[0-9]+\.[0-9]+ ' ;;
	ibv_xsrq_pingpong) echo '^ *remote: LID .* SRQN ' ;;
	ibv_*) echo '^[0-9]+ iters in [0-9.]+ seconds' ;;
	rping) echo '^ping data: rdma-ping-[0-9]+: ' ;;
	ucmatose | udaddy) echo '^return status 0$' ;;
	rdma_client | rdma_xclient) echo "^$1: end 0\$" ;;
	rstream) echo '^[0-9a-z_]+ +[0-9]+[kmg]? .*[0-9.]+$' ;;
	cmtime) echo '^disconnect +' ;;
	ucx_perftest) echo '^Final: +[0-9]+ ' ;;
	fi_pingpong) echo '^[0-9.kmg]+ +[0-9]+ +=[0-9]+ ' ;;
	qperf) echo '^    [a-z_]+ += ' ;;
	*tcp_data) echo '^tcp_data: [0-9]+ connections' ;;
	*) echo '.' ;;
	esac
}

# Some programs print an error but end with 0.
case_refused='invalid data|mismatch|[Ff]ailure|[Ff]ailed|[Cc]ouldn.t|[Uu]nable to|error: |verify.*error'

case_output_check() {
	local program=$1 output=$2 file matched expected
	for file in "$output" "$ROX_TMP/server.out"; do
		! line_matches "$case_refused" "$file" || {
			echo "a program ended with 0 but says: $matched"
			return 1
		}
	done
	expected=$(case_expected "$program")
	[[ $program != ib_* ]] || case_clock_measured "$output" || expected='^ +[0-9]+ +[0-9]+ .*-?(inf|nan|[0-9]\.[0-9])'
	line_matches "$expected" "$output" && return 0
	echo "the client ended with 0 and has not printed its result"
	return 1
}

# Without its clock perftest prints times of "inf" for correct transfers.
case_clock_measured() {
	perftest_measured "$1" && perftest_measured "$ROX_TMP/server.out"
}

# With -R perftest makes two connections, and the server listens for the second one only when the first
# one is up. On a busy host the client may be faster and is rejected, because there is no such service. Or
# the first listener still took its request: the kernel rejects what a listener leaves when it goes, as consumers do.
case_too_early() {
	local program=$1 output=$2
	shift 2
	[[ $program == ib_* && " $* " == *' -R '* ]] &&
		line_matches 'RDMA_CM_EVENT_(UNREACHABLE; error: 1|REJECTED; error: (8|28))\.' "$output"
}

# Puts 10 ms between what the server says and what the client hears, so that the server is the first to go on: two
# real-time programs on CPUs that take turns would lose that race each time. Where no veth pair joins the programs
# nothing is changed. The argument is "add" or "delete".
case_delay() {
	in1 tc qdisc "$1" dev "$DEV1" root netem delay 10ms 2>/dev/null
}

# ib_send_lat with -e looks at a send completion even if it has polled none, because the event was that of
# the other CQ. The message of the peer came before the ACK then. No status has such a number.
case_status_of_nothing() {
	local program=$1 output=$2
	shift 2
	[[ $program == ib_send_lat && " $* " == *' -e '* ]] &&
		line_matches '^ *Failed status (-[0-9]+|[0-9]{3,}):' "$output"
}

# rdma_rxe (mended after 6.12.95) executes a packet once more if its QP goes to ERR right behind the completion, and so uses up
# a receive; the one that the program posts for it is never flushed. rping's client has had all of its answers by then: it
# disconnects, and waits for that flush until its limit.
case_rxe_flushes_not() {
	local program=$1 output=$2
	[[ $program == rping && $CLIENT_DEV == rxe* ]] &&
		line_matches '^client DISCONNECT EVENT' "$output" &&
		line_matches '^client ended with 124, server with 0:' "$output"
}

# Sets `why` and succeeds if the failure is one of these three. Only then a case is repeated.
case_repeats() {
	local program=$1 output=$2
	if case_too_early "$@"; then
		why="perftest's client came before its server's second listener"
	elif case_status_of_nothing "$@"; then
		why="perftest looked at a completion that it had not polled"
	elif case_rxe_flushes_not "$program" "$output"; then
		why="rdma_rxe executed a SEND again in ERR, and did not flush a receive"
	else
		return 1
	fi
}

# The bytes that both devices have sent.
case_sent() {
	local dev sum=0
	for dev in "$SERVER_DEV" "$CLIENT_DEV"; do
		((sum += $(<"$IB_CLASS/$dev/ports/1/hw_counters/tx_bytes")))
	done
	echo "$sum"
}

exec {case_output}>&1

# Runs a case: seconds, options, server's words, ::, client's words.
case_run() {
	local seconds=$1 options=() server=() client=() words=() output=$ROX_TMP/client.out status=0 try
	local program least=0 before=0 why delayed=
	shift
	[[ $1 != -m ]] || { least=$2; before=$(case_sent); shift 2; }
	[[ $1 != -k ]] || { options=(-k); shift; }
	while (($#)) && [[ $1 != :: ]]; do server+=("$1"); shift; done
	if (($#)); then client=("${@:2}"); else client=("${server[@]}" @ip); fi
	case_words "$SERVER_DEV" "$SERVER_GID" "$CLIENT_DEV" "$CLIENT_IP" "${server[@]}"
	server=("${words[@]}")
	case_words "$CLIENT_DEV" "$CLIENT_GID" "$SERVER_DEV" "$IP1" "${client[@]}"
	client=("${words[@]}")

	for try in 1 2 3; do
		status=0
		"$case_runner" -t "$seconds" "${case_pair_options[@]}" "${options[@]}" \
			-- "${server[@]}" -- "${client[@]}" >"$output" 2>&1 || status=$?
		((status != 0)) || case_output_check "$program" "$output" >>"$output" || status=1
		((status != 0)) || break
		((try < 3)) && case_repeats "$program" "$output" "${client[@]}" || break
		# scripts/check counts these lines. Standard output belongs to the case.
		echo "# again: $why" >&"$case_output"
		[[ -n $delayed ]] || ! case_too_early "$program" "$output" "${client[@]}" || ! case_delay add || delayed=1
	done
	[[ -z $delayed ]] || case_delay delete
	if ((status == 0 && least)) && (($(case_sent) - before < least)); then
		echo "the devices have sent $(($(case_sent) - before)) bytes, not $least"
		status=1
	fi
	((status == 0)) || cat "$output"
	leak_check || status=1
	return "$status"
}

# Runs the table on standard input. Arguments: a prefix for the names, the tier q or f, and a string
# that the name must contain.
case_table() {
	local prefix=$1 wanted=$2 pattern=$3 tier seconds command words start
	part_wanted "table" || return 0
	part "table"
	while read -r -u 9 tier seconds command; do
		[[ -n $tier && $tier != \#* ]] || continue
		[[ $wanted == f || $tier == q ]] || continue
		[[ $tier != [lw] || -z ${ROX_BRIEF:-} ]] || continue
		[[ $tier != w || $prefix != "one device" ]] || continue
		[[ "$prefix: $command" == *$pattern* ]] && case_wanted "$prefix: $command" || continue
		if [[ $command == *@fifo=* && $(nproc) == 1 ]]; then
			tap_skip "$prefix: $command" "one CPU"
			continue
		fi
		read -r -a words <<<"$command"
		start=${EPOCHREALTIME/./}
		tap_run "$prefix: $command" case_run "$seconds" "${words[@]}"
		echo "# $(((${EPOCHREALTIME/./} - start) / 1000)) ms"
	done 9<&0 </dev/null
	part all
}
