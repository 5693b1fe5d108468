#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# t_busy.sh - commands that measure, on a busy machine: they name the processes in the way, wait, and
# refuse; --anyway measures; they wait for another attune on the device in any case.
. tests/support/tap.sh
attune=$B/attune
export ATTUNE_LOCKS="$tmp" ATTUNE_PATIENCE=0
loops=
trap 'kill $loops 2>/dev/null; rm -rf "$tmp"' EXIT

run() {
	timeout 200 "$attune" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
}

sweep="sweep --gpu cpu --preset smoke --kernels qblock --batch q1s64 --model llama3.1-8b@8 --budget 20s"

# As many loops as CPUs, so that none is free.
for _ in $(seq "$(nproc)"); do
	while :; do :; done &
	loops="$loops $!"
done

# shellcheck disable=SC2086
run $sweep --db "$tmp/busy.sqlite"
row "$([ $? -eq 4 ]; echo $?)" "a busy machine: exit 4"
row "$(grep -q '^attune: refused: other processes use .* of .* CPUs, .* (pid [0-9]*) most of all' \
	"$tmp/err" && [ "$(wc -l <"$tmp/err")" = 1 ]; echo $?)" "one line says who uses it, and how much"
row "$([ "$(sqlite3 "$tmp/busy.sqlite" 'SELECT count(*) FROM run')" = 0 ]; echo $?)" \
	"and nothing was measured"
run bench --gpu cpu --bounds --limit 1 --into "$tmp/bench.sqlite"
row "$([ $? -eq 4 ]; echo $?)" "so does attune bench"
# shellcheck disable=SC2086
run $sweep --db "$tmp/busy.sqlite" --dry-run
row $? "what measures nothing does not look"

# What it measures may be noise, which is said with exit 4, too.
# shellcheck disable=SC2086
run $sweep --db "$tmp/anyway.sqlite" --anyway
row "$(grep -q '^attune: measuring anyway: other processes use' "$tmp/err"; echo $?)" \
	"--anyway measures, and says what is in the way"
row "$([ "$(sqlite3 "$tmp/anyway.sqlite" "SELECT count(*) > 0, min(command LIKE '%--anyway%') FROM run")" = \
	'1|1' ]; echo $?)" "which the run keeps"
# shellcheck disable=SC2086
kill $loops
loops=

# Another process holds the device: by a file that it has locked.
export ATTUNE_PROC="$tmp" # a machine without processes
if command -v flock >/dev/null; then
	echo 'pid 123 since today (attune sweep)' >"$tmp/attune-cpu.lock"
	flock "$tmp/attune-cpu.lock" sleep 60 &
	loops=$!
	for _ in $(seq 100); do
		flock -n "$tmp/attune-cpu.lock" true || break
		sleep 0.05
	done
	for option in '' --anyway; do
		# shellcheck disable=SC2086
		run $sweep --db "$tmp/held.sqlite" $option
		row "$([ $? -eq 4 ] && [ "$(cat "$tmp/err")" = \
			'attune: refused: another attune measures on cpu: pid 123 since today (attune sweep)' ]
			echo $?)" "the device is held: exit 4${option:+, with --anyway, too}"
	done
	run devices --format tsv
	row "$([ $? -eq 0 ] && grep -q '^attune: cpu: listed without ceilings' "$tmp/err" &&
		awk -F'\t' 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i } $1 == "cpu" { ok = $at["dram_gbps"] == "" && $at["units"] > 0 }
			END { exit !ok }' "$tmp/out"; echo $?)" "meanwhile attune devices lists it without ceilings"
fi
end_rows
