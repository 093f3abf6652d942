# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# bash completion for roxtop, rox-doctor, rox-cap, and `rdma link add NAME type rox netdev`.

_rox_names() {
	local path
	for path in "/sys/class/$1/"*; do
		[[ -e $path ]] && echo "${path##*/}"
	done
}

# Offers words that begin with the one at the cursor.
_rox_offer() {
	mapfile -t COMPREPLY < <(compgen -W "$1" -- "$2")
}

_rox_doctor() {
	local word=$2 before=$3
	case $before in
	--only) _rox_offer "module provider port link netns rights memlock gid address mtu firewall offload congestion traffic" "$word" ;;
	-g | --gid-index | -p | --peer) COMPREPLY=() ;;
	*)
		if [[ $word == -* ]]; then
			_rox_offer "--help --gid-index --peer --only --no-self-test --quiet --json" "$word"
		else
			_rox_offer "$(_rox_names infiniband)" "$word"
		fi
		;;
	esac
}

_roxtop() {
	local word=$2 before=$3
	case $before in
	-v | --view) _rox_offer "devices qps cqs mrs processes" "$word" ;;
	-p | --process) _rox_offer "$(ps -eo comm= | sort -u)" "$word" ;;
	-s | --sort | -i | --interval | -q | --qp) COMPREPLY=() ;;
	*)
		if [[ $word == -* ]]; then
			_rox_offer "--help --view --sort --reverse --interval --process --qp --json --once" "$word"
		else
			_rox_offer "$(_rox_names infiniband)" "$word"
		fi
		;;
	esac
}

_rox_cap() {
	local word=$2 before=$3
	case $before in
	-w | --write) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
	-c | --count | -s | --snaplen | -B | --buffer | -i | --netdev) COMPREPLY=() ;;
	*) _rox_offer "--help --write --count --once --snaplen --buffer --netdev --quiet" "$word" ;;
	esac
}

# rdma(8) has no completion of its own. This one knows its objects and `link add`.
_rox_rdma() {
	local word=$2 before=$3 line=" ${COMP_WORDS[*]:1:COMP_CWORD-1} "
	case $line in
	*" link add "*)
		case $before in
		add) _rox_offer "rox0" "$word" ;;
		type) _rox_offer "rox rxe siw" "$word" ;;
		netdev) _rox_offer "$(_rox_names net)" "$word" ;;
		*)
			if [[ $line != *" type "* ]]; then
				_rox_offer "type" "$word"
			elif [[ $line != *" netdev "* ]]; then
				_rox_offer "netdev" "$word"
			fi
			;;
		esac
		;;
	*" link delete "* | *" link show "* | *" dev show "*) _rox_offer "$(_rox_names infiniband)" "$word" ;;
	*" link "*) _rox_offer "add delete show help" "$word" ;;
	*" dev "*) _rox_offer "show set help" "$word" ;;
	*" resource show "*) _rox_offer "qp cq mr pd cm_id ctx srq link" "$word" ;;
	*" resource "*) _rox_offer "show help" "$word" ;;
	*" system "*) _rox_offer "show set help" "$word" ;;
	*" statistic "*) _rox_offer "show qp mode set unset help" "$word" ;;
	*) _rox_offer "dev link resource statistic system help" "$word" ;;
	esac
}

complete -F _rox_doctor rox-doctor
complete -F _roxtop roxtop
complete -F _rox_cap rox-cap
complete -p rdma >/dev/null 2>&1 || complete -F _rox_rdma rdma
