# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# attune.bash - completes attune's commands and options in bash. It asks the program for them (--help).

# Completions of the word after these arguments of attune.
_attune_words() { # ATTUNE ARGUMENT...
	local help=$1
	shift
	"$help" "$@" --help 2>/dev/null | sed -n 's/^ \{2,6\}\(-., \)\{0,1\}\(--[a-z0-9-]*[= ]\{0,1\}\).*/\2/p'
	if [ $# = 0 ]; then
		"$help" --help 2>/dev/null | sed -n 's/^  \([a-z][a-z]*\) .*/\1 /p; s/^\(--[a-z]*\) [A-Z].*/\1 /p' | sort -u
		echo '--version '
	elif [ $# = 1 ]; then # what selects another command
		"$help" --help 2>/dev/null | sed -n "s/^  $1 \\(--[a-z]*\\) .*/\\1 /p"
	fi
}

_attune() {
	local attune=${COMP_WORDS[0]/#\~/$HOME} word=${COMP_WORDS[COMP_CWORD]} before=() i
	for ((i = 1; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		--plugin | --machine)
			[ "${COMP_WORDS[i + 1]}" != = ] || ((i++))
			((i++))
			;;
		*)
			if [ ${#before[@]} = 0 ]; then
				before=("${COMP_WORDS[i]}")
			elif [ ${#before[@]} = 1 ] && "$attune" --help 2>/dev/null |
				grep -q -- "^  ${before[0]} ${COMP_WORDS[i]} "; then
				before+=("${COMP_WORDS[i]}")
			fi
			;;
		esac
	done
	COMPREPLY=()
	# Other words are files, which bash completes itself.
	if [ ${#before[@]} = 0 ] || [ "${word:0:1}" = - ]; then
		local IFS=$'\n'
		# shellcheck disable=SC2207
		COMPREPLY=($(compgen -W "$(_attune_words "$attune" "${before[@]}")" -- "$word"))
	fi
}
complete -o default -o nospace -F _attune attune
