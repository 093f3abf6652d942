# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs a table of client and server programs. Source this file after lib.sh. A case is one line:
#
#   TIER SECONDS [-m BYTES] SERVER COMMAND [:: CLIENT COMMAND]
#
#   TIER     q: the core, run by `make check-quick` too; f: the full run only; l: the full run only,
#            and not in a brief one (ROX_BRIEF in the environment), for what takes longest; w: as l,
#            but not on one device, where a like case runs
#   SECONDS  the time limit of each side
#   BYTES    the payload that the devices must have sent between them when both have ended
#   A SERVER COMMAND that begins with -k belongs to a server that never ends by itself.
#   Without :: the client's command is the server's, followed by the server's address.
#
# @ip and @ip6 stand for the server's addresses, @dev and @gid for a side's own device and the index
# of its IPv4 GID, @other-dev and @other-ip for the other side's device and address. A command may begin with variables for
# the environment (NAME=value), and a word that case_short has stands for the words there. Options
# that name the device (and for ibv_* the GID index) are added by the program's name. The first word
# after the program must be an option or an address: that is where they go.
#
# The caller says who the sides are: $SERVER_DEV and $CLIENT_DEV are RDMA devices, $SERVER_GID and
# $CLIENT_GID the GID indices of ibv_* there if they cannot be looked up here, $CLIENT_IP is the
# client's address, case_runner is a function with the arguments of run_pair, and case_pair_options
# has more options for it.

SERVER_DEV=$ROX1
CLIENT_DEV=$ROX2
SERVER_GID='' CLIENT_GID=''
CLIENT_IP=$IP2
case_runner=run_pair
case_pair_options=()
declare -A case_short=()

# Makes the array `words` from a side's device, its GID index, the other side's device and address,
# and its command; sets program.
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
	program=$1
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

# Puts in place of @names in words[word] what they stand for.
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

# What a client that has done its work has printed.
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

# Some programs print that they failed and end with 0 all the same.
case_refused='invalid data|mismatch|[Ff]ailure|[Ff]ailed|[Cc]ouldn.t|[Uu]nable to|error: |verify.*error'

case_output_check() {
	local program=$1 output=$2 file matched
	for file in "$output" "$ROX_TMP/server.out"; do
		! line_matches "$case_refused" "$file" || {
			echo "a program ended with 0 but says: $matched"
			return 1
		}
	done
	line_matches "$(case_expected "$program")" "$output" && return 0
	echo "the client ended with 0 and has not printed its result"
	return 1
}

# Before it begins perftest measures the CPU's clock against the time of day. On a busy host it may
# give up, and prints times of "inf".
case_clock_measured() {
	! grep -qs '^Correlation coefficient r^2: .* < ' "$1" "$ROX_TMP/server.out"
}

# With -R perftest makes two connections, and the server listens for the second one when the first one
# is up. On a busy host the client may be quicker, and is told what is true: there is no such service.
case_service_found() {
	! grep -Eqs 'RDMA_CM_EVENT_(UNREACHABLE; error: 1|REJECTED; error: 8)\.' "$1"
}

# What both devices have sent, in bytes.
case_sent() {
	local dev sum=0
	for dev in "$SERVER_DEV" "$CLIENT_DEV"; do
		((sum += $(<"/sys/class/infiniband/$dev/ports/1/hw_counters/tx_bytes")))
	done
	echo "$sum"
}

exec {case_output}>&1

# Runs a case: seconds, server's words, ::, client's words.
case_run() {
	local seconds=$1 options=() server=() client=() words=() output=$ROX_TMP/client.out status=0 try
	local program least=0 before=0 why
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
		if ! case_clock_measured "$output"; then
			why="perftest could not measure the guest's clock"
		elif [[ $program == ib_* ]] && ! case_service_found "$output"; then
			why="perftest's client came before its server's second listener"
		else
			break
		fi
		# scripts/check counts these lines. Standard output belongs to the case.
		((try == 3)) || echo "# again: $why" >&"$case_output"
	done
	if ((status == 0 && least)) && (($(case_sent) - before < least)); then
		echo "the devices have sent $(($(case_sent) - before)) bytes, not $least"
		status=1
	fi
	((status == 0)) || cat "$output"
	leak_check || status=1
	return "$status"
}

# Runs the table on standard input: a prefix for the names, q or f, a pattern for the names.
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
		read -r -a words <<<"$command"
		start=${EPOCHREALTIME/./}
		tap_run "$prefix: $command" case_run "$seconds" "${words[@]}"
		echo "# $(((${EPOCHREALTIME/./} - start) / 1000)) ms"
	done 9<&0 </dev/null
	part all
}
