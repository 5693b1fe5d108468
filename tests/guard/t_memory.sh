#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# t_memory.sh - when an allocation of the tool fails, the command prints what it prints with memory, or
# fails with a line. It ignores no option, and prints no part of a list as if it were whole. no_memory.c
# lets the allocations fail, one in each run.
. tests/support/tap.sh
attune=$PWD/$B/attune
case $B in
*/san) echo "1..0 # SKIP sanitizers have an allocator of their own" && exit ;;
esac
if ! ${CC:-cc} -D_GNU_SOURCE -shared -fPIC tests/guard/no_memory.c -o "$tmp/no_memory.so" 2>"$tmp/err"; then
	echo "1..0 # SKIP this C library has no other names for its allocator" && exit
fi

run() { # N COMMAND...: the Nth allocation fails
	at=$1
	shift
	LD_PRELOAD=$tmp/no_memory.so NO_MEMORY_AT=$at NO_MEMORY_LOG=$tmp/count timeout 600 \
		"$attune" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
	code=$?
}

# NAME COMMAND...: with any of the first 12 allocations failing, and 40 of the others, the command
# prints what it prints with memory, or fails with a line.
tried() {
	name=$1
	shift
	run 0 "$@"
	[ $code = 0 ] && cp "$tmp/out" "$tmp/whole" && count=$(cat "$tmp/count") || { row 1 "$name"; return; }
	bad=''
	for at in $(seq 12) $(seq 13 $((count / 40 + 1)) "$count"); do
		run "$at" "$@"
		if [ $code = 0 ]; then
			cmp -s "$tmp/out" "$tmp/whole" || bad="$bad $at"
		else
			[ $code -lt 128 ] && [ -s "$tmp/err" ] || bad="$bad $at" # 128 and more: it crashed
		fi
	done
	echo "changed by:$bad" >"$tmp/log"
	row "$([ -z "$bad" ]; echo $?)" "$name"
}

tried "a list of GPUs" devices --known
tried "a list of kernels" show --kernels
tried "a list as JSON" show --kernels --format json
tried "two headers" show --diff generated/attune_cpu.h generated/attune_h200.h
tried "the best of a database" show --gpu cpu --best --format tsv --db results/cpu.sqlite
tried "rows of older sources" show --gpu cpu --stale --db results/cpu.sqlite

# What an option forbids does not happen when the options cannot be read. In a folder of its own, since
# a command without its options writes to the usual files.
mkdir -p "$tmp/away/results/local" "$tmp/away/generated"
cp results/cpu.sqlite "$tmp/away/results"
cp results/cpu.sqlite "$tmp/away/results/local"
cd "$tmp/away" || exit 1
contents() {
	find . -type f -exec sha256sum {} + | sort
}
contents >"$tmp/before"
bad=''
for at in $(seq 16); do
	run "$at" induce --help
	[ $code != 0 ] || [ ! -s "$tmp/out" ] || grep -q '^Usage' "$tmp/out" || bad="$bad $at" # argp may print nothing
	run "$at" merge --contribute --gpu none --dry-run
	[ $code != 0 ] || bad="$bad $at"
	contents | cmp -s - "$tmp/before" || bad="$bad $at"
done
echo "changed by:$bad" >"$tmp/log"
row "$([ -z "$bad" ]; echo $?)" "options that cannot be read are not passed over"
end_rows
