#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# t_reasons.sh - a command that cannot answer says why: a database whose times do not count, a check
# that measured nothing, a check with fewer threads than were measured, baselines that have nothing to
# learn from.
. tests/support/tap.sh
attune=$PWD/$B/attune
export ATTUNE_LOCKS="$tmp" ATTUNE_PROC="$tmp" # a machine of its own: without processes

says() { # STATUS TEXT COMMAND...: ends with that status, and says the text
	status=$1 text=$2
	shift 2
	timeout 600 "$attune" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
	[ $? = "$status" ] && grep -q -- "$text" "$tmp/err" && ! grep -q 'without a reason' "$tmp/err"
	row $? "$(echo "$1 $text" | tr -d '\n')"
}

# Every time is noisy.
cp results/cpu.sqlite "$tmp/noisy.sqlite"
sqlite3 "$tmp/noisy.sqlite" "DELETE FROM seal;
	INSERT OR IGNORE INTO ending (outcome, stopped, samples) VALUES ('noisy', '', 9);
	UPDATE OR IGNORE ran SET ending = (SELECT id FROM ending WHERE outcome = 'noisy' LIMIT 1)
		WHERE id IN (SELECT ran FROM measurement WHERE median IS NOT NULL);
	UPDATE measurement AS m SET ran = (SELECT w.id FROM ran AS n JOIN ran AS w ON w.build = n.build
		JOIN ending AS e ON e.id = w.ending WHERE n.id = m.ran AND e.outcome = 'noisy') WHERE median IS NOT NULL"
noisy='too noisy and left out'
says 1 "$noisy" induce --gpu cpu --db "$tmp/noisy.sqlite" --out "$tmp/header.h"
says 1 "$noisy" induce --gpu cpu --db "$tmp/noisy.sqlite" --emit json
says 1 "$noisy" eval --gpu cpu --db "$tmp/noisy.sqlite"
says 1 "$noisy" eval --gpu cpu --db "$tmp/noisy.sqlite" --header induced
says 1 "$noisy" show --gpu cpu --db "$tmp/noisy.sqlite" --best
says 1 "$noisy" sweep --confirm --gpu cpu --db "$tmp/noisy.sqlite" --dry-run
says 1 "$noisy" tune --check --gpu cpu --db "$tmp/noisy.sqlite"
says 1 "$noisy" bench --gpu cpu --db "$tmp/noisy.sqlite" --into "$tmp/bench.sqlite"
says 2 'are too noisy, so nothing was compared' show --diff --gpu cpu results/cpu.sqlite "$tmp/noisy.sqlite"
row "$([ ! -e "$tmp/header.h" ]; echo $?)" "no header is written"

# Every time is of an older source.
cp results/cpu.sqlite "$tmp/stale.sqlite"
sqlite3 "$tmp/stale.sqlite" "DELETE FROM seal; DELETE FROM bridge;
	UPDATE code SET sources = replace(sources, ':', ':0')"
older='of older sources and left out'
says 1 "$older" eval --gpu cpu --db "$tmp/stale.sqlite"
says 1 "$older" show --gpu cpu --db "$tmp/stale.sqlite" --model llama3.1-8b@1 --batch 3q1s3k
says 1 "$older" sweep --confirm --gpu cpu --db "$tmp/stale.sqlite" --dry-run

# What would be ignored is refused.
says 2 '--check goes with' tune --check --results "$tmp"
says 2 'does not go with --fill' sweep --confirm --gpu cpu --fill --also generated/attune_cpu.h

# A check that measured nothing has no verdict.
says 5 'nothing is known: the budget' tune --check --gpu cpu --db results/cpu.sqlite --budget 0.000001s
row "$(! grep -q 'a new tune pays\|still fit' "$tmp/err"; echo $?)" "and no verdict"

# With one thread, of times by two: what two threads would run may be against the rules of one.
export ATTUNE_THREADS=1 ATTUNE_CLOCK=0.01
timeout 600 "$attune" tune --check --gpu cpu --db results/cpu.sqlite --limit 3 --format tsv >"$tmp/out" 2>"$tmp/err" </dev/null
code=$?
row "$([ $code -le 1 ] && [ "$(wc -l <"$tmp/out")" -gt 1 ]; echo $?)" "a check with fewer threads measures with these"

# Without scenarios to learn from, what learns is left out.
cp results/cpu.sqlite "$tmp/held.sqlite"
sqlite3 "$tmp/held.sqlite" "DELETE FROM seal; UPDATE scenario SET split = 'heldout'"
says 0 'no scenario to learn from has times of a prefill: best_fixed' eval --gpu cpu --db "$tmp/held.sqlite" --format tsv
row "$(grep -q '^tree' "$tmp/out" && grep -q '^default' "$tmp/out" &&
	! grep -q '^best_fixed' "$tmp/out"; echo $?)" "and has no rows"
says 0 'no scenario to learn from has times of a prefill: best_fixed' bench --gpu cpu --db "$tmp/held.sqlite" \
	--limit 1 --preset smoke --format tsv --into "$tmp/bench.sqlite"
row "$(grep -q 'default' "$tmp/out" && ! grep -q 'best_fixed' "$tmp/out"; echo $?)" "nor in a race"
end_rows
