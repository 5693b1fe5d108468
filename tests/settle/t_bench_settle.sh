#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# t_bench_settle.sh - attune bench --settle, --settled and --siblings on the CPU, and what attune eval says of such
# rows.
. tests/support/tap.sh
export ATTUNE_LOCKS="$tmp" ATTUNE_PROC="$tmp" # a machine of its own: without processes
export ATTUNE_CLOCK=1 # a race takes a second of the budget, however long it takes

attune() {
	timeout 1200 "$B/attune" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
}

ask() { # SQL
	sqlite3 "$tmp/bench.sqlite" "$1"
}

cat >"$tmp/set.json" <<'SET'
{
	"defaults": { "models": [ "llama3.1-8b@8" ] },
	"scenarios": [
		{ "batch": "4q1s100" },
		{ "batch": "q40" },
		{ "batch": "q16s80_3q1s300" }
	]
}
SET
attune sweep --gpu cpu --scenarios "$tmp/set.json" --kernels segmented,qblock --preset smoke --budget 300s --db "$tmp/db.sqlite"
bench="bench --gpu cpu --db $tmp/db.sqlite --into $tmp/bench.sqlite --split train --preset smoke --anyway --most-ms 20000 --format tsv"

# ---- siblings, then the batches themselves --------------------------------------------------
# shellcheck disable=SC2086
attune $bench --settle "$tmp/siblings.txt" --siblings
row "$([ $? -eq 0 ] && [ "$(head -1 "$tmp/siblings.txt")" = 'attune settled 1' ]; echo $?)" "siblings settle, into a file"
[ "$(ask "SELECT count(*), sum(policy = 'settling' AND outcome = 'ok' AND samples = 1 AND median > 0),
	sum(batch IN ('4q1s100', 'q40', 'q16s80_3q1s300')) FROM bench JOIN scenario AS s ON s.id = scenario")" = '3|3|0' ]
row $? "each is another batch, and its time is what settling took"
cp "$tmp/siblings.txt" "$tmp/before.txt"
# shellcheck disable=SC2086
attune $bench --settle "$tmp/own.txt" --settled "$tmp/siblings.txt"
row "$([ $? -eq 0 ] && grep -q "siblings.txt: [1-9][0-9]* cells, and 0 of" "$tmp/err"; echo $?)" "a later session reads it"
[ "$(ask "SELECT count(*) FROM bench WHERE run = (SELECT max(run) FROM bench) AND outcome IN ('ok', 'noisy')
	AND policy IN ('attune', 'settling', 'settled', 'carried_1', 'carried_2', 'carried_4', 'member_1')")" -eq 21 ]
row $? "and races first, settled, carried and members"
[ "$(ask "SELECT count(*) FROM bench AS a JOIN bench AS b USING (run, scenario, plan) WHERE a.median <> b.median
	AND 'settling' NOT IN (a.policy, b.policy)")" = 0 ]
row $? "equal plans have one time"
cmp -s "$tmp/siblings.txt" "$tmp/before.txt" && [ "$(grep -c '^cell ' "$tmp/own.txt")" -ge 3 ]
row $? "what is carried is not written; each batch's own cells are"
cp "$tmp/own.txt" "$tmp/before.txt"
# shellcheck disable=SC2086
attune $bench --settle "$tmp/own.txt" --siblings --limit 1
grep '^cell ' "$tmp/before.txt" | sed 's/.* batch=\([^ ]*\).*/\1/' | sort >"$tmp/was"
grep '^cell ' "$tmp/own.txt" | sed 's/.* batch=\([^ ]*\).*/\1/' | sort >"$tmp/is"
[ "$(wc -l <"$tmp/was")" = "$(wc -l <"$tmp/is")" ] && ! cmp -s "$tmp/was" "$tmp/is"
row $? "a sibling has the cell of its batch"

# ---- refused ----------------------------------------------------------------------------------
refused() { # WHY ARGUMENT...
	why=$1
	shift
	attune "$@"
	row "$([ $? -eq 2 ] && grep -q "$why" "$tmp/err"; echo $?)" "refused: $why"
}
echo junk >"$tmp/junk.txt"
# shellcheck disable=SC2086
refused 'junk.txt: line 1: ' $bench --settled "$tmp/junk.txt"
# shellcheck disable=SC2086
refused 'none.txt: it cannot be read' $bench --settled "$tmp/none.txt"
refused 'need --settle FILE' bench --gpu cpu --siblings
refused 'settle other batches: give one' bench --gpu cpu --settle "$tmp/own.txt" --siblings --ladder
refused 'different questions' bench --gpu cpu --settle "$tmp/own.txt" --bounds

# ---- what the rows are worth, by hand -----------------------------------------------------------
# Settled takes three quarters of the first's time, carried 5 % more, and the fastest member half.
sqlite3 results/cpu.sqlite ".backup $tmp/hand.sqlite" && sqlite3 "$tmp/hand.sqlite" "DELETE FROM seal" \
	".read harness/store/bench.sql" "INSERT INTO bench SELECT NULL, (SELECT min(id) FROM run), id, policy, 'x', 'x', 'ok', 9, ns, NULL
	FROM scenario, (SELECT 'attune' AS policy, 8000 AS ns UNION SELECT 'settled', 6000 UNION SELECT 'carried_1', 8400
	UNION SELECT 'member_1', 4000 UNION SELECT 'settling', 3000000) WHERE split LIKE 'heldout%'" >"$tmp/log" 2>&1
header='--gpu cpu --db results/cpu.sqlite --header generated/attune_cpu.h --split heldout'
# shellcheck disable=SC2086
attune eval $header --format tsv && judged=$(awk -F '\t' '$1 == "tree" { print $3 }' "$tmp/out")
# shellcheck disable=SC2086
attune eval $header --settled-rows "$tmp/hand.sqlite" --format tsv
[ "$(awk -F '\t' '$2 == "all" { print $1, $3, $9, $10 }' "$tmp/out")" = "$(printf 'attune %d 0.0000 1.0000
settled %d 0.0000 0.7500\ncarried_1 %d 1.0000 1.0500\nfastest %d 0.0000 0.5000' "$judged" "$judged" "$judged" "$judged")" ]
row $? "each policy is compared with the library without memory"
[ "$(awk -F '\t' '$1 == "attune" && $2 == "all" { print $4, $12 }' "$tmp/out")" = "2.0000 $judged" ]
row $? "by the race alone where the database does not have that plan"
# shellcheck disable=SC2086
attune eval $header --settled-rows "$tmp/hand.sqlite" --format tsv
row "$(awk -F '\t' '$1 == "settled" && $2 == "all" { exit $13 != "3.0" || $14 != "3.0" }' "$tmp/out"; echo $?)" \
	"what settling took is told"
beyond=$(awk -F '\t' '$1 == "settled" && $2 == "all" { print $8 }' "$tmp/out")
# shellcheck disable=SC2086
attune eval $header --settled-rows "$tmp/hand.sqlite" --above 1.2 --format tsv
row "$([ "$(awk -F '\t' 'NR > 1 && $5 > 1.2' "$tmp/out" | wc -l)" = "$beyond" ]; echo $?)" "what is slow settled is listed"
# Of batches that the header does not run fastest: the race ran the header's plan, or, by another header, the
# fastest.
# shellcheck disable=SC2086
attune eval $header --above 1 --format tsv && grep -v '^#' "$tmp/out" >"$tmp/listed"
without_memory() { # PICKED or FASTEST
	awk -F '\t' -v q="'" -v column="$1" 'NR == 1 { while (i++ < NF) at[$i] = i; next }
	{	plan = $at[column]
		if (sub(/ \| /, " | decode: ", plan))
			plan = "prefill: " plan
		print "UPDATE bench SET plan = " q plan q " WHERE policy = " q "attune" q " AND scenario IN (SELECT id"
		print "FROM scenario WHERE batch = " q $at["batch"] q " AND model = " q $at["model"] q " AND page_size = " $at["page"] ");"
	}
	END { print "DELETE FROM bench WHERE policy = " q "attune" q " AND plan = " q "x" q ";" }' "$tmp/listed" >"$tmp/sql"
	# shellcheck disable=SC2086
	sqlite3 "$tmp/hand.sqlite" <"$tmp/sql" && attune eval $header --settled-rows "$tmp/hand.sqlite" --format tsv
}
listed=$(awk -F '\t' 'NR > 1 { sum += log($6); if ($6 > worst) worst = $6 }
	END { printf "%d %.3f %.3f 0", NR - 1, exp(sum / (NR - 1)), worst }' "$tmp/listed")
without_memory picked
[ "$(awk -F '\t' '$1 == "attune" && $2 == "all" { printf "%d %.3f %.3f %d", $3, $4, $6, $12 }' "$tmp/out")" = "$listed" ]
row $? "the slowdown of a race's plan is that of the header that picks it"
without_memory fastest
[ "$(awk -F '\t' '$1 == "attune" && $2 ~ /prefill|decode/ { print $4, $6, $12 }' "$tmp/out" | uniq)" = '1.0000 1.000 0' ]
row $? "a plan that the header does not pick has its own"
# shellcheck disable=SC2086
attune eval $header --settled-rows results/cpu.sqlite
row "$([ $? -eq 1 ] && grep -q 'has no rows of attune bench' "$tmp/err"; echo $?)" "where there are none that is told"
end_rows
