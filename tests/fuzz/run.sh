#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh - runs libFuzzer on each entry, one on each CPU at a time, for FUZZ_SECONDS in all; `make
# fuzz` builds it first. ENTRIES= names some of them.
#
#   $B/fuzz/corpus/ENTRY/    inputs that reach code of their own; kept for the next time
#   $B/fuzz/found/ENTRY/     inputs that crash, leak or hang
#   $B/fuzz/log/ENTRY        libFuzzer's report
#
# FUZZ_ENTRY=ENTRY $B/fuzz/fuzz FILE takes one input. A fault that is mended leaves its input in
# tests/fuzz/seeds/ENTRY/.
set -u
B=${B:-build}
fuzz=$B/fuzz

if [ "${1:-}" = --one ]; then
	entry=$2
	log=$fuzz/log/$entry
	mkdir -p "$fuzz/corpus/$entry" "$fuzz/found/$entry" "$fuzz/log"
	FUZZ_ENTRY=$entry "$fuzz/fuzz" -max_total_time="$seconds" \
		-timeout=60 -rss_limit_mb=4096 -print_final_stats=1 \
		-artifact_prefix="$fuzz/found/$entry/" \
		"$fuzz/corpus/$entry" "tests/fuzz/seeds/$entry" >"$log" 2>&1
	code=$?
	n=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
	if [ $code -eq 0 ]; then
		echo "$entry: ${n:-0} inputs, no fault"
	else
		echo "$entry: ${n:-0} inputs and a fault: its input is in $fuzz/found/$entry, the report is $log"
	fi
	exit $code
fi

# shellcheck disable=SC2046,SC2086
set -- ${ENTRIES:-$(ls tests/fuzz/seeds)}
jobs=${JOBS:-$(nproc)}
[ "$jobs" -le $# ] || jobs=$#
seconds=$((${FUZZ_SECONDS:-3600} * jobs / $#))
[ "$seconds" -gt 0 ] || seconds=1 # 0 would be without end
# Databases are files, in memory where that is possible.
TMPDIR=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d) || exit 2
trap 'rm -rf "$TMPDIR"' EXIT
export B seconds TMPDIR
echo "$# parsers, $jobs at a time, $seconds s each"
printf '%s\n' "$@" | xargs -n 1 -P "$jobs" sh "$0" --one || exit 1
