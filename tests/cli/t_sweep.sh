#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# t_sweep.sh - attune sweep on the CPU: interrupted, resumed, in shards, without a device, without time.
# t_e2e.sh kills it.
. tests/support/tap.sh
export ATTUNE_THREADS=1 # a pool's waiting threads would take CPU time from other tests
attune=$B/attune
export ATTUNE_LOCKS="$tmp" ATTUNE_PROC="$tmp" # a machine of its own: without processes
export ATTUNE_CLOCK=1 # a race takes a second of the budget, however long it takes

run() {
	timeout 1200 "$attune" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
}

ask() { # DB SQL
	sqlite3 "$tmp/$1.sqlite" "$2"
}

# Many choices, so that there is time to interrupt.
sweep="sweep --gpu cpu --model llama3.1-8b@8 --batch 2q1s96 --batch q24_3q1s50 --batch q40"

# shellcheck disable=SC2086
run $sweep --preset smoke --db "$tmp/plan.sqlite" --dry-run --format tsv
row "$([ ! -e "$tmp/plan.sqlite" ] && [ "$(grep -c '^llama' "$tmp/out")" = 5 ]; echo $?)" \
	"a dry run lists five parts and makes no database"

# shellcheck disable=SC2086
"$attune" $sweep --preset smoke --budget 300s --db "$tmp/cut.sqlite" \
	>"$tmp/out" 2>"$tmp/err" </dev/null &
pid=$!
while kill -0 $pid 2>/dev/null; do
	[ "$(ask cut 'SELECT count(*) FROM measurement' 2>/dev/null || echo 0)" -gt 0 ] && break
	sleep 0.02
done
workers=$(cat /proc/[0-9]*/stat 2>/dev/null | sed -n "s/^\([0-9]*\) (.*) [A-Z] $pid .*/\1/p")
kill -INT $pid
wait $pid
code=$?
no_ceilings=$(grep -c 'no ceilings: other programs' "$tmp/err")
row "$([ $code -eq 130 ]; echo $?)" "interrupted: exit 130"
row "$(grep -q 'the same command goes on' "$tmp/err"; echo $?)" "which says how to go on"
row "$([ "$(ask cut 'PRAGMA integrity_check')" = ok ]; echo $?)" "the database is sound"
left=
for worker in $workers; do
	! kill -0 "$worker" 2>/dev/null || left=1
done
row "$([ -n "$workers" ] && [ -z "$left" ]; echo $?)" "the worker that it had is gone"

# shellcheck disable=SC2086
run $sweep --preset smoke --budget 300s --db "$tmp/cut.sqlite"
row $? "it resumes"
# shellcheck disable=SC2086
run $sweep --preset smoke --budget 300s --db "$tmp/cut.sqlite"
row "$(grep -q 'nothing to do' "$tmp/err"; echo $?)" "and then has nothing to do"
row "$([ "$(ask cut "SELECT count(*) FROM timings WHERE outcome = 'ok' AND phase = 'plan'")" -gt 0 ]
	echo $?)" "the mixed batch has composed plans"
row "$([ "$(ask cut 'SELECT count(*) FROM control')" -gt 0 ]; echo $?)" "a choice ran twice"
row "$([ "$(ask cut "SELECT group_concat(DISTINCT stage) FROM history")" = race ]; echo $?)" \
	"a smoke sweep is one race a part"
row "$([ "$(ask cut 'SELECT min(id) FROM run WHERE dram_gbps > 0 AND fma_tflops > 0')" = 1 ] ||
	[ "$no_ceilings" -gt 0 ]; echo $?)" "a run has measured ceilings, or says why not"

# The README's Slurm array, in which each task has its number and how many there are.
task=$(sed -n "s/^ *sbatch --array=1-2 .* --wrap 'build\/attune sweep \(.*\)'$/\1/p" README.md)
for i in 1 2; do
	part=$(export SLURM_ARRAY_TASK_ID=$i SLURM_ARRAY_TASK_COUNT=2; eval "echo \"$task\"")
	# shellcheck disable=SC2086
	run $sweep --preset smoke --budget 300s $(echo "$part" | sed "s|--db |--db $tmp/|")
done
run merge "$tmp/whole.sqlite" "$tmp/shard1.sqlite" "$tmp/shard2.sqlite"
row "$([ "$(ask whole 'SELECT count(DISTINCT scenario_id) FROM history')" = 3 ]; echo $?)" \
	"two shards are the whole"
row "$([ "$(ask shard1 'SELECT count(DISTINCT scenario_id) FROM history')" -lt 3 ]; echo $?)" \
	"and one is not"

# shellcheck disable=SC2086
run $sweep --preset smoke --budget 2s --db "$tmp/late.sqlite"
row "$([ $? -eq 0 ] && grep -q 'the budget of 2 s left 3 races undone' "$tmp/err" &&
	[ "$(ask late 'SELECT count(*) FROM race')" = 2 ]; echo $?)" "time for two of five races: says what is left"

run sweep --gpu cpu --compile-only --preset smoke --batch q1s64 --format tsv
row "$([ $? -eq 0 ] && grep -q '^segmented.*ok' "$tmp/out"; echo $?)" "compiled without measuring"
run sweep --gpu mi250 --batch q1
row "$([ $? -eq 3 ] && [ "$(wc -l <"$tmp/err")" = 1 ]; echo $?)" "no such GPU here: exit 3, one line"

# shellcheck disable=SC2086
run $sweep --preset smoke --protocol steady --db "$tmp/cut.sqlite"
row "$([ $? -eq 2 ] && grep -q "'rounds-rotating'" "$tmp/err"; echo $?)" \
	"another protocol's database: exit 2"
run sweep --gpu cpu --protocol cold --batch q1
row "$([ $? -eq 2 ]; echo $?)" "an unknown protocol: exit 2"

# A machine cannot be all of these. The others are refused; the message names the machine, or what is
# missing.
refused=0
for gpu in a100 b200; do
	run sweep --gpu $gpu --batch q1 --db "$tmp/none.sqlite" --dry-run
	[ $? -eq 3 ] && [ "$(wc -l <"$tmp/err")" = 1 ] && refused=1
done
row "$([ $refused = 1 ] && [ ! -e "$tmp/none.sqlite" ]; echo $?)" "another GPU: exit 3, one line"
# 20 races fit the budget: the first stage may use 14 of them, and the later ones need only 5.
many=
for i in $(seq 1 60); do many="$many --batch $((i % 16 + 1))q1s$((i * 3 + 20))"; done
# shellcheck disable=SC2086
run sweep --gpu cpu --model llama3.1-8b@8 $many --kernels segmented --budget 20s --db "$tmp/spent.sqlite"
row "$([ "$(ask spent 'SELECT count(*) FROM race')" = 20 ] && grep -q 'left [0-9]* races undone' "$tmp/err"; echo $?)" \
	"the budget is spent while races are left"
end_rows
