# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs a table of client and server programs. Source this file after lib.sh. A case is one line:
#
#   TIER SECONDS SERVER COMMAND [:: CLIENT COMMAND]
#
#   TIER     q: the core, run by `make check-quick` too; f: the full run only
#   SECONDS  the time limit of each side
#   A SERVER COMMAND that begins with -k belongs to a server that never ends by itself.
#   Without :: the client's command is the server's, followed by the server's address.
#
# @ip and @ip6 stand for the server's addresses. Options that name the device (and for ibv_* the
# GID index) are added by the program's name. The first word after the program must be an option or
# an address: that is where they go.
#
# The caller says who the sides are: $SERVER_DEV and $CLIENT_DEV are RDMA devices, $SERVER_GID and
# $CLIENT_GID the GID indices of ibv_* there if they cannot be looked up here, case_runner is a
# function with the arguments of run_pair, and case_pair_options has more options for it.

SERVER_DEV=$ROX1
CLIENT_DEV=$ROX2
SERVER_GID='' CLIENT_GID=''
case_runner=run_pair
case_pair_options=()

# The index of the IPv4 address in a device's GID table. An address of this kind has one entry for
# each RoCE version on devices that have both; only the one for version 2 counts.
gid_index_v4() {
	local port=/sys/class/infiniband/$1/ports/1 index
	for ((index = 0; index < 64; index++)); do
		grep -qs '^0000:0000:0000:0000:0000:ffff:' "$port/gids/$index" &&
			grep -qs 'v2' "$port/gid_attrs/types/$index" && echo "$index" && return 0
	done
	return 1
}

# Makes the array `words` from a side's device, its GID index and its command.
case_words() {
	local dev=$1 gid=$2 program=$3 word options=()
	shift 3
	case $program in
	ib_*) options=(-F -d "$dev") ;;
	ibv_*) options=(-d "$dev" -g "${gid:-$(gid_index_v4 "$dev")}") ;;
	esac
	words=("$program" "${options[@]}")
	for word; do
		case $word in
		@ip) word=$IP1 ;;
		@ip6) word=$IP1_6 ;;
		esac
		words+=("$word")
	done
}

# What a client that has done its work has printed.
case_expected() {
	case $1 in
	ib_*) echo '^ +[0-9]+ +[0-9]+ +[0-9]+\.[0-9]+ ' ;;
	ibv_xsrq_pingpong) echo '^ *remote: LID .* SRQN ' ;;
	ibv_*) echo '^[0-9]+ iters in [0-9.]+ seconds' ;;
	rping) echo '^ping data: rdma-ping-[0-9]+: ' ;;
	ucmatose | udaddy) echo '^return status 0$' ;;
	rdma_client) echo '^rdma_client: end 0$' ;;
	rstream) echo '^[0-9a-z_]+ +[0-9]+[kmg]? .*[0-9.]+$' ;;
	cmtime) echo '^disconnect +' ;;
	*) echo '.' ;;
	esac
}

# Some programs print that they failed and end with 0 all the same.
case_refused='invalid data|mismatch|[Ff]ailure|[Ff]ailed|[Cc]ouldn.t|[Uu]nable to|error: |verify.*error'

case_output_check() {
	local program=$1 output=$2 problem
	if problem=$(grep -E -m 3 "$case_refused" "$output" "$ROX_TMP/server.out"); then
		echo "a program ended with 0 but says: $problem"
		return 1
	fi
	grep -Eq "$(case_expected "$program")" "$output" && return 0
	echo "the client ended with 0 and has not printed its result"
	return 1
}

# Before it begins perftest measures the CPU's clock against the time of day. On a busy host it may
# give up, and prints times of "inf".
case_clock_measured() {
	! grep -qs '^Correlation coefficient r^2: .* < ' "$1" "$ROX_TMP/server.out"
}

# Runs a case: seconds, server's words, ::, client's words.
case_run() {
	local seconds=$1 options=() server=() client=() words=() output=$ROX_TMP/client.out status=0 try
	shift
	[[ $1 != -k ]] || { options=(-k); shift; }
	while (($#)) && [[ $1 != :: ]]; do server+=("$1"); shift; done
	if (($#)); then client=("${@:2}"); else client=("${server[@]}" @ip); fi
	case_words "$SERVER_DEV" "$SERVER_GID" "${server[@]}"
	server=("${words[@]}")
	case_words "$CLIENT_DEV" "$CLIENT_GID" "${client[@]}"
	client=("${words[@]}")

	for try in 1 2 3; do
		status=0
		"$case_runner" -t "$seconds" "${case_pair_options[@]}" "${options[@]}" \
			-- "${server[@]}" -- "${client[@]}" >"$output" 2>&1 || status=$?
		((status != 0)) || case_output_check "${client[0]}" "$output" >>"$output" || status=1
		((status == 0)) || case_clock_measured "$output" && break
		echo "# perftest could not measure the guest's clock, attempt $try"
	done
	((status == 0)) || cat "$output"
	leak_check || status=1
	return "$status"
}

# Runs the table on standard input: a prefix for the names, q or f, a pattern for the names.
case_table() {
	local prefix=$1 wanted=$2 pattern=$3 tier seconds command words start
	while read -r -u 9 tier seconds command; do
		[[ -n $tier && $tier != \#* ]] || continue
		[[ $wanted == f || $tier == q ]] || continue
		[[ "$prefix: $command" == *$pattern* ]] || continue
		read -r -a words <<<"$command"
		start=${EPOCHREALTIME/./}
		tap_run "$prefix: $command" case_run "$seconds" "${words[@]}"
		echo "# $(((${EPOCHREALTIME/./} - start) / 1000)) ms"
	done 9<&0 </dev/null
}
