#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# t_tune.sh - attune tune on the CPU, with rules and a database of another machine: where it starts,
# where it writes, what it prints, that it resumes, and that `attune induce` remakes its header from its
# database.
. tests/support/tap.sh
export ATTUNE_THREADS=1 # a pool's waiting threads would take CPU time from other tests
attune=$PWD/$B/attune
export ATTUNE_CLOCK=0.2 ATTUNE_LOCKS="$tmp" ATTUNE_PROC="$tmp"

tune() {
	timeout 1200 "$attune" tune --gpu cpu --preset smoke --budget 5s --anyway --results "$tmp/results" \
		--generated "$tmp/generated" --scenarios "$tmp/set.json" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
}

ask() { # SQL
	sqlite3 "$tmp/results/local/cpu.sqlite" "$1"
}

mkdir "$tmp/results" "$tmp/generated"
cp results/cpu.sqlite "$tmp/results"
sqlite3 "$tmp/results/cpu.sqlite" "UPDATE device SET machine = 'another'; DELETE FROM seal"
cp generated/attune_cpu.h "$tmp/generated"
printf '{ "defaults": { "models": [ "llama3.1-8b@8" ] }, "scenarios": [\n' >"$tmp/set.json"
for i in 1 2 3 4 5 6; do
	printf '{ "batch": "%dq1s%d" }, { "batch": "q%d" },\n' $i $((i * 37)) $((i * 9 + 2))
done >>"$tmp/set.json"
printf '{ "batch": "3q1s70", "split": "heldout" }, { "batch": "q33", "split": "heldout" } ] }' >>"$tmp/set.json"
cp -r "$tmp/results/cpu.sqlite" "$tmp/before.sqlite"

tune --dry-run
row $? "a dry run"
grep -q 'races of .* binaries to compile, .* MB on disk' "$tmp/out"
row $? "says races, binaries, time and disk"
grep -q '^cpu: first [1-9][0-9]* races of rows, [1-9][0-9]* times, [0-9]* binaries to compile$' "$tmp/out"
row $? "and first those of the rows"
row "$([ ! -e "$tmp/results/local/cpu.sqlite" ]; echo $?)" "and writes no database"

races=$(sed -n 's/^cpu: at most [0-9]* races of \([0-9]*\) scenario parts.*/\1/p' "$tmp/out")
tune --dry-run --steps tests/scenario/transformers_steps.jsonl
with=$(sed -n 's/^cpu: at most [0-9]* races of \([0-9]*\) scenario parts.*/\1/p' "$tmp/out")
row "$([ "$with" -ge $((races + 16)) ]; echo $?)" "captured steps are scenarios, too"
"$attune" scenarios --set "$tmp/results/local/steps_transformers_steps.json" --format tsv >"$tmp/out" 2>"$tmp/err"
row "$([ "$(cut -f 2,3,5 "$tmp/out" | sort -u | tr '\t\n' '  ')" = \
	"heldout_traces layers-8x2x64@1 f32 split model dtype train layers-8x2x64@1 f32 " ]; echo $?)" \
	"as a set whose last third is held out, of the layers that ran"
tune --dry-run --steps "$tmp/results/local/steps_transformers_steps.json"
row "$([ "$with" = "$(sed -n 's/^cpu: at most [0-9]* races of \([0-9]*\) scenario parts.*/\1/p' "$tmp/out")" ]; echo $?)" \
	"which does as well"
tune --dry-run --steps "$tmp/set.txt"
row "$([ $? = 2 ] && grep -qx "attune: $tmp/set.txt: No such file or directory; it must be a file that libattune.capture wrote" \
	"$tmp/err"; echo $?)" "steps that are not there: one line"

printf '{ "defaults": { "models": [ "llama3.1-8b@8" ] }, "scenarios": [ { "batch": "5q1s99", "split": "gate" } ] }' \
	>"$tmp/gate.json"
tune --scenarios "$tmp/gate.json"
row "$([ $? = 2 ] && grep -q 'name another set, too' "$tmp/err"; echo $?)" "the gate's scenarios alone: nothing to learn from"

tune
row $? "a tune"
cmp -s "$tmp/before.sqlite" "$tmp/results/cpu.sqlite" && cmp -s generated/attune_cpu.h "$tmp/generated/attune_cpu.h"
row $? "leaves the project's database and header as they are"
row "$([ "$(ask "SELECT count(DISTINCT gpu) FROM history")" = 1 ]; echo $?)" "measures into a database of its own"
row "$(grep -q ' learn from, [1-9][0-9]* for the gate' "$tmp/err" &&
	[ "$(ask "SELECT count(*) FROM timings WHERE split = 'gate'")" = 0 ]; echo $?)" \
	"with scenarios for the gate, of which only plans that differ are raced"
row "$([ "$(ask "SELECT incumbent || prior FROM basis")" = cpucpu ]; echo $?)" "that says what it began from"
for word in 'scenarios of preset smoke measured on this machine' '^rules ' '^ *mixed ' '^held out' '^time ' '^next '; do
	grep -q "$word" "$tmp/out"
	row $? "the summary has: $word"
done
row "$([ "$(wc -l <"$tmp/out")" -le 10 ]; echo $?)" "and is short"

rows=$(ask 'SELECT count(*) FROM measurement')
tune --format json
row $? "again"
row "$([ "$(ask 'SELECT count(*) FROM measurement')" -ge "$rows" ]; echo $?)" "and it goes on from there"
cat >"$tmp/look.py" <<'END'
import json, sys
d = json.load(open(sys.argv[1]))
if sys.argv[2] == "form":
    assert d["gpu"] == "cpu" and "gate" in d and 0 < d["scenarios_measured"] <= d["scenarios"]
else: # all of the wall time has a name
    s = d["seconds"]
    assert s["all"] > 0 and abs(sum(s.values()) - 2 * s["all"]) < 0.01 + 0.01 * s["all"], s
END
looks() { # WHAT
	[ -s "$tmp/out" ] && { ! command -v python3 >/dev/null || python3 "$tmp/look.py" "$tmp/out" "$1" 2>"$tmp/err"; }
}
looks form
row $? "its summary as JSON"
looks time
row $? "in which the parts of the time add up to the whole"

# In a time of three scenarios each row is raced: the prefill's, too, though 20 scenarios are decodes.
printf '{ "defaults": { "models": [ "llama3.1-8b@8" ] }, "scenarios": [\n' >"$tmp/order.json"
for i in $(seq 1 20); do
	printf '{ "batch": "%dq1s%d" },\n' $((i % 3 + 1)) $((i + 700))
done >>"$tmp/order.json"
for i in $(seq 1 12); do
	printf '{ "batch": "%dq1s%d", "split": "heldout" },\n' $i $((i + 50))
done >>"$tmp/order.json"
printf '{ "batch": "q53" } ] }' >>"$tmp/order.json"
mv "$tmp/results/local" "$tmp/kept"
tune --scenarios "$tmp/order.json" --preset quick --budget 1s
row "$([ $? = 0 ] && [ "$(ask "SELECT group_concat(phase) FROM (SELECT DISTINCT phase FROM history WHERE stage = 'complete' ORDER BY 1)")" = \
	decode,prefill ]; echo $?)" "the rows in force are raced first, in an order that covers them soonest"
row "$(grep -q ': 21 to learn from, 9 for the gate, 3 held out' "$tmp/err"; echo $?)" "with few for the gate, two thirds of those held out are its own"
row "$([ "$(ask "SELECT count(DISTINCT variant_id) > 3 AND count(DISTINCT variant_id) < 20 FROM history WHERE stage = 'complete'
	AND phase = 'decode'")" = 1 ]; echo $?)" "by what may come first in them"
grep -q '^left  *at most [0-9.]* % by other members of the rows\|^left  *not known' "$tmp/out"
row $? "and the summary says what is left to gain"
sqlite3 "$tmp/results/local/cpu.sqlite" "DELETE FROM superseded; DELETE FROM sample; DELETE FROM control;
	DELETE FROM measurement" # as where the first was killed
tune --scenarios "$tmp/order.json" --preset quick --budget 1s
row "$([ $? = 0 ] && [ "$(ask 'SELECT count(*) > 0 FROM measurement')" = 1 ]; echo $?)" "a tune goes on from a database without a time"
for threads in 2 3; do
	ATTUNE_THREADS=$threads tune --scenarios "$tmp/order.json" --preset quick --budget 1s
	row "$([ $? = 0 ] && [ "$(ask "SELECT count(*) FROM device WHERE units = $threads")" = 1 ]; echo $?)" \
		"and with $threads threads, as on another CPU"
done
rm -r "$tmp/results/local" && mv "$tmp/kept" "$tmp/results/local"

# More scenarios than the first rows and races come to, and a gate and held-out ones that need little.
printf '{ "defaults": { "models": [ "llama3.1-8b@8" ] }, "scenarios": [\n' >"$tmp/many.json"
for i in $(seq 1 60); do
	printf '{ "batch": "%dq1s%d" },\n' $((i % 9 + 1)) $((i * 7 + 30))
done >>"$tmp/many.json"
printf '{ "batch": "3q1s70", "split": "heldout" }, { "batch": "2q1s50", "split": "gate" } ] }' >>"$tmp/many.json"
before=$(ask 'SELECT count(*) FROM race')
tune --scenarios "$tmp/many.json" --preset quick --budget 6s
row "$([ $? = 0 ] && [ $(($(ask 'SELECT count(*) FROM race') - before)) -ge 27 ]; echo $?)" \
	"a tune spends its time while scenarios are left: 27 of 30 races and more"

# A smoke tune takes 6 of the 60 scenarios to learn from, so it ends long before its time.
cp "$tmp/results/local/cpu.sqlite" "$tmp/many.sqlite"
tune --scenarios "$tmp/many.json" --budget 1h
row "$([ $? = 0 ] && grep -q ': 6 to learn from, 2 for the gate, 0 held out' "$tmp/err" &&
	grep -q '^cpu  *6 of the 6 scenarios of preset smoke' "$tmp/out" &&
	grep -q '^time  *[0-9:]* of 60:00, then no race was left' "$tmp/out" &&
	grep -q '^next  *make tune PRESET=quick measures more' "$tmp/out"; echo $?)" \
	"one that ends early says so, and counts what its preset takes"
mv "$tmp/many.sqlite" "$tmp/results/local/cpu.sqlite"

tune --scenarios "$tmp/gate.json"
row "$([ $? = 0 ] && grep -q ' 0 of the 0 scenarios' "$tmp/out"; echo $?)" "the gate's alone, after a tune"

# A contribution is refused: the database has another machine's times (t_basis.c has one that passes).
contribute() {
	timeout 1200 "$attune" merge --contribute --gpu cpu --results "$tmp/results" --generated "$tmp/generated" "$@" \
		>"$tmp/out" 2>"$tmp/err" </dev/null
}
contribute
row "$([ $? = 1 ] && grep -q '^devices  *FAILED\|^sources  *FAILED' "$tmp/out" && grep -q 'nothing was written' "$tmp/err"; echo $?)" \
	"another machine's times are not joined"
cmp -s "$tmp/before.sqlite" "$tmp/results/cpu.sqlite" && [ ! -e "$tmp/results/cpu.new.sqlite" ]
row $? "and what is committed stays"

# Rules that win the gate are installed; here a header stands in for them.
cp generated/attune_cpu.h "$tmp/generated/local/attune_cpu.h"
echo old >"$tmp/generated/local/attune_cpu.h.before"
tune --undo
row "$([ "$(cat "$tmp/generated/local/attune_cpu.h")" = old ] &&
	cmp -s generated/attune_cpu.h "$tmp/generated/local/attune_cpu.h.before"; echo $?)" "undo swaps them with those of before"
for renames in 1 2; do # of three, when an undo was killed
	echo new >"$tmp/generated/local/attune_cpu.h.before.swap"
	rm -f "$tmp/generated/local/attune_cpu.h" "$tmp/generated/local/attune_cpu.h.before"
	echo old >"$tmp/generated/local/attune_cpu.h$([ $renames = 2 ] || echo .before)"
	tune --undo
	row "$([ $? = 0 ] && [ "$(cd "$tmp/generated/local" && cat attune_cpu.h attune_cpu.h.before | tr '\n' ' ')" = \
		'old new ' ] && [ ! -e "$tmp/generated/local/attune_cpu.h.before.swap" ]; echo $?)" \
		"undo ends one that was killed after $renames of its renames"
done
rm "$tmp/generated/local/"*
tune --undo
row "$([ $? = 1 ] && grep -q 'no tune of this machine' "$tmp/err"; echo $?)" "undo without a tune says so"
end_rows
