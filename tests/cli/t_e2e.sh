#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# t_e2e.sh - the steps of `make tune` on the CPU, from scenarios to pictures, in a temporary folder:
# killed in the middle, resumed, and done twice with the same result.
. tests/support/tap.sh
export ATTUNE_THREADS=1 # a pool's waiting threads would take CPU time from other tests
attune=$B/attune
export ATTUNE_LOCKS="$tmp" ATTUNE_PROC="$tmp" # a machine of its own: without processes
db=$tmp/cpu.sqlite
export ATTUNE_CLOCK=1 # a race takes a second of the budget, however long it takes

run() {
	timeout 1200 "$attune" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
}

count() { # measurements in the database
	sqlite3 "$db" 'SELECT count(*) FROM measurement' 2>/dev/null || echo 0
}

cat >"$tmp/tiny.json" <<'SET'
{
	"defaults": { "models": [ "llama3.1-8b@4" ] },
	"scenarios": [
		{ "batch": "q1s128" },
		{ "batch": "4q1s128" },
		{ "batch": "q32" },
		{ "batch": "q16_2q1s64" },
		{ "batch": "2q1s100", "split": "heldout" },
		{ "batch": "q24", "split": "heldout" }
	]
}
SET
sweep="sweep --gpu cpu --db $db --scenarios $tmp/tiny.json --preset smoke --budget 300s"

# shellcheck disable=SC2086
"$attune" $sweep >"$tmp/out" 2>"$tmp/err" </dev/null &
sweeper=$!
while kill -0 $sweeper 2>/dev/null; do
	[ "$(count)" -ge 3 ] && break
	sleep 0.02
done
kill -9 $sweeper 2>/dev/null
wait $sweeper 2>/dev/null
[ $? -eq 137 ]
row $? "a sweep is killed in the middle"
kept=$(count)
[ "$kept" -ge 3 ] && [ "$(sqlite3 "$db" 'PRAGMA integrity_check')" = ok ]
row $? "what it had measured is in the database, which is sound"

# shellcheck disable=SC2086
run $sweep
row $? "it resumes"
whole=$(count)
[ "$whole" -gt "$kept" ] && [ "$(sqlite3 "$db" "SELECT count(*) FROM (SELECT DISTINCT scenario_id,
	phase, variant_id FROM history)")" = "$whole" ]
row $? "and measures the rest, nothing twice"
# shellcheck disable=SC2086
run $sweep && [ "$(count)" = "$whole" ]
row $? "a second sweep measures nothing"
[ "$(sqlite3 "$db" "SELECT count(*) FROM failures")" = 0 ]
row $? "all that was measured is right"

run induce --gpu cpu --db "$db" --out "$tmp/a.h" && run induce --gpu cpu --db "$db" --out "$tmp/b.h" &&
	cmp "$tmp/a.h" "$tmp/b.h" >>"$tmp/err"
row $? "a header, the same bytes twice"
run induce --gpu cpu --db "$db" --out "$tmp/a.h" --check
row $? "induce --check agrees"
echo '/* edited */' >>"$tmp/b.h"
run induce --gpu cpu --db "$db" --out "$tmp/b.h" --check
[ $? -eq 1 ]
row $? "induce --check refuses an edited one"
printf '#include "%s/a.h"\nint main(void) { struct attune_features f = { 0 }; return attune_cpu_overlap(&f) > 64; }\n' \
	"$tmp" >"$tmp/use.c"
${CC:-cc} -std=c11 -Wall -Wextra -Wpedantic -Werror -iquote kernels "$tmp/use.c" -o "$tmp/use" \
	>"$tmp/out" 2>"$tmp/err" && "$tmp/use"
row $? "it compiles"

run eval --gpu cpu --db "$db" --header "$tmp/a.h" --format json &&
	grep -q '"heldout"' "$tmp/out" && grep -q '"best_fixed"' "$tmp/out" && grep -q '"leaves"' "$tmp/out"
row $? "eval judges it"
run sweep --confirm --gpu cpu --db "$db" --header "$tmp/a.h" --budget 300s &&
	[ "$(sqlite3 "$db" "SELECT count(DISTINCT scenario_id) FROM history WHERE stage = 'b'")" = 6 ]
row $? "confirm measures every scenario a second time"
whole=$(count)
run sweep --confirm --gpu cpu --db "$db" --header "$tmp/a.h" --budget 300s --dry-run && [ "$(count)" = "$whole" ]
row $? "confirm --dry-run measures nothing"
# A time of a choice that a rule refuses today, and the best: 32 segments of 128 keys.
cp "$db" "$tmp/refused.sqlite"
sqlite3 "$tmp/refused.sqlite" "
	CREATE TEMP TABLE one AS SELECT m.*, h.text, q.family FROM measurement AS m JOIN variant AS v ON v.id = m.variant
		JOIN choices AS h ON h.id = v.choice JOIN race AS c ON c.id = m.race
		JOIN choice AS q ON q.id = h.id JOIN stage AS t ON t.id = c.stage JOIN scenario AS s ON s.id = c.scenario
		WHERE s.batch = 'q1s128' AND t.pass = 'A' AND v.decode IS NULL AND
		h.kernel = 'segmented' AND h.text LIKE '% SEGMENTS=1%' LIMIT 1;
	INSERT OR IGNORE INTO choice (family, segments) SELECT family, 32 FROM one;
	INSERT OR IGNORE INTO variant (choice, how) SELECT h.id, '' FROM choice AS h JOIN one
		ON (h.family, h.segments) = (one.family, 32);
	UPDATE one SET median = median / 100, below = 0, variant = (SELECT v.id FROM variant AS v
		JOIN choice AS h ON h.id = v.choice WHERE v.decode IS NULL AND
		(h.family, h.segments) = (one.family, 32));
	INSERT INTO measurement SELECT race, variant, ran, max(1, median), below, ci, ratio FROM one;
	SELECT count(*) FROM one;" >"$tmp/rows" && [ "$(cat "$tmp/rows")" = 1 ] &&
	run sweep --confirm --gpu cpu --db "$tmp/refused.sqlite" --header "$tmp/a.h" --split train --again --budget 300s
row $? "confirm leaves out what today's rules refuse"
run eval --gpu cpu --db "$db" --header "$tmp/a.h" --split heldout --format json &&
	grep -q '"policy": "tree", "split": "heldout",[^}]*"unconfirmed": 0, "invalid": 0' "$tmp/out"
row $? "eval then judges by that pass"
run show --gpu cpu --db "$db" --header "$tmp/a.h" --model llama3.1-8b@4 --batch 7q1s200 &&
	grep -q estimated "$tmp/out"
row $? "show explains a batch that was never measured"
run show --gpu cpu --db "$db" --model llama3.1-8b@4 --batch 4q1s128 --format json &&
	grep -q '"median_us"' "$tmp/out"
row $? "show ranks a scenario"
run show --gpu cpu --db "$db" --model llama3.1-8b@4 --batch 5q1s128 --format json
[ $? -eq 1 ] && [ ! -s "$tmp/out" ]
row $? "show has nothing on another one: exit 1"

if ! command -v gnuplot >/dev/null; then
	row 0 "pictures # SKIP no gnuplot"
	end_rows
fi
mkdir "$tmp/one" "$tmp/two"
run plot --gpu cpu --db "$db" --header "$tmp/a.h" --out "$tmp/one"
row $? "plot"
for name in kernels roofline regret; do
	[ "$(head -c 4 "$tmp/one/cpu_$name.png" | tail -c 3)" = PNG ] &&
		grep -q '</svg>' "$tmp/one/cpu_$name.svg"
	row $? "cpu_$name, PNG and SVG"
done
run plot --gpu cpu --db "$db" --header "$tmp/a.h" --out "$tmp/two" &&
	diff -r "$tmp/one" "$tmp/two" >>"$tmp/err"
row $? "the same pictures twice"

mkdir "$tmp/mine"
cp tuner/plot/pictures/style.* "$tmp/mine"
cp tuner/plot/pictures/regret.gp "$tmp/mine/far.gp"
sed 's/^-- size: .*/-- size: 700 300/' tuner/plot/pictures/regret.sql >"$tmp/mine/far.sql"
run plot --gpu cpu --db "$db" --header "$tmp/a.h" --out "$tmp/mine" --pictures "$tmp/mine" &&
	grep -q 'width="700" height="300"' "$tmp/mine/cpu_far.svg" && [ ! -e "$tmp/mine/cpu_regret.svg" ]
row $? "a changed copy of a picture is drawn instead"
echo 'SELECT 1 AS block, no_such FROM plan;' >>"$tmp/mine/far.sql"
run plot --gpu cpu --db "$db" --header "$tmp/a.h" --pictures "$tmp/mine" --print far
[ $? -eq 1 ] && grep -q '^attune: far: no such column: no_such$' "$tmp/err"
row $? "a wrong query: one line says what is wrong in which"
end_rows
