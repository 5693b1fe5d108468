#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# t_fuzz.sh - parsers take damaged input: each seed of tests/fuzz/seeds, and mutants of the seeds, the
# same in every run. They neither crash nor leak nor refuse without one line. With SAN=1 sanitizers
# watch. `make fuzz` looks for more with libFuzzer.
. tests/support/tap.sh

if [ ! -x "$B/fuzz_replay" ]; then # make test has built it
	case $B in
	*/san) SAN=1 ;;
	esac
	MAKEFLAGS='' ${MAKE:-make} -s NVCC= HIPCC= LOCAL=no STALE=skip B="$B" SAN="${SAN:-}" \
		"$B/fuzz_replay" >"$tmp/log" 2>&1
	row $? "it builds"
fi
export TMPDIR="$tmp"
mkdir -p "$B/fuzz_faults"
for entry in $("$B/fuzz_replay"); do
	rm -f "$tmp/log" "$B/fuzz_faults/$entry"
	"$B/fuzz_replay" "$entry" "tests/fuzz/seeds/$entry" "$B/fuzz_faults/$entry" >"$tmp/out" 2>"$tmp/err"
	row $? "$entry"
done
end_rows
