#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# t_survey.sh - attune sweep --survey on the CPU: after a small sweep, scenarios of another set get rows
# of the portfolio alone; later sweeps can still race them.
. tests/support/tap.sh
export ATTUNE_THREADS=1 # a pool's waiting threads would take CPU time from other tests
attune=$B/attune
export ATTUNE_LOCKS="$tmp" ATTUNE_PROC="$tmp" # a machine of its own: without processes
export ATTUNE_CLOCK=1 # a race takes a second of the budget, however long it takes

sweep() { # DB SET OPTION...
	db=$tmp/$1.sqlite
	set_file=$tmp/$2.json
	shift 2
	timeout 1200 "$attune" sweep --gpu cpu --preset smoke --db "$db" --scenarios "$set_file" "$@" \
		>"$tmp/out" 2>"$tmp/err" </dev/null
}

ask() { # DB SQL
	sqlite3 "$tmp/$1.sqlite" "$2"
}

one_line() { # but for what a busy machine has to say
	[ "$(grep -vc 'kept the CPU busy$' "$tmp/err")" = 1 ]
}

set_of() { # NAME BATCHES, as JSON
	printf '{ "defaults": { "models": [ "llama3.1-8b@8" ] }, "scenarios": [ %s ] }' "$2" \
		>"$tmp/$1.json"
}
set_of known '{ "batch": "2q1s96" }, { "batch": "q24_3q1s50" }, { "batch": "q40" }'
set_of new '{ "batch": "5q1s80" }, { "batch": "q20_2q1s70" }, { "batch": "q40" }, { "batch": "3q30" }'

sweep db new --survey
row "$([ $? -eq 2 ] && one_line && [ ! -e "$tmp/db.sqlite" ]; echo $?)" \
	"no database to learn from: exit 2, one line, none is made"
sweep db known --budget 300s
row $? "a small sweep"

# One choice that is no default now wins everywhere, so that the portfolio is that one. As
# every sample is, it is legal on all parts.
winner=$(ask db "SELECT min(v.id) FROM variant AS v JOIN choices AS h ON h.id = v.choice
	WHERE v.decode IS NULL AND h.kernel = 'qblock' AND h.text <> 'BLOCK_M=192 TILE_SIZE=256'")
ask db "UPDATE measurement SET below = 0, median = iif(variant = $winner, 1000, 1000000)
	WHERE median IS NOT NULL"
cp "$tmp/db.sqlite" "$tmp/late.sqlite"

sweep db new --survey
row $? "a survey of another set"
rows=$(ask db 'SELECT count(*) FROM history WHERE run_id = 2')
row "$(grep -q ": 3 scenarios surveyed: $(ask db "SELECT printf('%.1f', $rows / 3.0)") rows " "$tmp/err"; echo $?)" \
	"it says what it measured"
row "$([ "$(ask db "SELECT group_concat(DISTINCT stage) || count(DISTINCT scenario_id) FROM history
	WHERE run_id = 2")" = complete3 ]; echo $?)" "in the stage complete, and nothing of what was raced"
row "$([ "$(ask db "SELECT count(*) FROM history WHERE run_id = 2 AND variant_id = $winner")" = 5 ]; echo $?)" \
	"each of the five parts has the portfolio"
# The values that show marks with a star are the defaults: one choice of each kernel.
"$attune" show --kernels --gpu cpu --format tsv | awk -F '\t' '
	$3 == "compiled in" || $3 == "at launch" {
		n = split($5, value, " ")
		for (i = 1; i <= n; i++)
			if (sub(/\*$/, "", value[i]))
				text[$2] = text[$2] " " $4 "=" value[i]
	}
	END { for (kernel in text) print kernel text[kernel] }' >"$tmp/defaults"
kernels=$(wc -l <"$tmp/defaults")
ask db "SELECT DISTINCT h.kernel || ' ' || h.text FROM history AS t JOIN variant AS v ON v.id = t.variant_id
	JOIN choices AS h ON h.id = v.choice WHERE t.run_id = 2 AND v.id <> $winner" >"$tmp/others"
row "$([ "$kernels" -gt 1 ] && [ -s "$tmp/others" ] && ! grep -vqxFf "$tmp/defaults" "$tmp/others"; echo $?)" \
	"and besides that only defaults"
row "$([ "$(ask db "SELECT count(DISTINCT scenario_id) * ($kernels + 1) = count(*) AND
	count(DISTINCT variant_id) = $kernels + 1 FROM history WHERE run_id = 2 AND phase IN ('prefill', 'decode')
	GROUP BY phase" | tr '\n' ' ')" = '1 1 ' ]; echo $?)" "all of them in each prefill and decode part"
row "$([ "$(ask db "SELECT group_concat(DISTINCT outcome) || max(samples) FROM history
	WHERE run_id = 2")" = ok3 ]
	echo $?)" "right, of three rounds"
sweep db new --survey
row "$(grep -q 'nothing to do' "$tmp/err"; echo $?)" "then there is nothing to do"

sweep late new --survey --budget 2s
row "$([ $? -eq 0 ] && grep -q 'the budget of 2 s left 3 races undone; the same command goes on' "$tmp/err"
	echo $?)" "time for two of five races: says what is left"
sweep late new --survey
row "$([ "$(ask late 'SELECT count(*) FROM history WHERE run_id > 1')" = "$rows" ]; echo $?)" "and goes on"

# What the CPU's header names, but for the number of segments.
sed -n 's/^	CHOICE([ 0-9]*, [^,]*, *\([a-z0-9_]*\), *"\(.*\)").*/\1 \2/p' generated/attune_cpu.h |
	sed 's/ *SEGMENTS=[^ ]*//' >"$tmp/rules"
last=$(ask late 'SELECT max(id) FROM run')
sweep late new --survey=rules
ask late "SELECT DISTINCT h.kernel || ' ' || h.text FROM history AS t JOIN variant AS v ON v.id = t.variant_id
	JOIN choices AS h ON h.id = v.choice WHERE t.run_id > $last" | sed 's/ *SEGMENTS=[0-9]*//' >"$tmp/added"
row "$([ -s "$tmp/rules" ] && [ -s "$tmp/added" ] && ! grep -vqxFf "$tmp/rules" "$tmp/added"; echo $?)" \
	"with rules: then what the rules name, too"
sweep late new --survey=all
row "$([ $? -eq 2 ] && grep -q 'it must be rules or nothing' "$tmp/err"; echo $?)" "and no other word"

sweep db new --budget 300s
row "$([ "$(ask db "SELECT count(DISTINCT scenario_id || phase), group_concat(DISTINCT stage),
	count(DISTINCT variant_id) > $kernels + 1 FROM history WHERE run_id = 3 AND phase <> 'plan'")" = '5|race|1' ]
	echo $?)" "a later sweep races the five parts, with more choices than the survey's"
sweep db new --budget 300s
row "$(grep -q 'nothing to do' "$tmp/err"; echo $?)" "once"
sweep db new --survey
row "$(grep -q 'nothing to do' "$tmp/err"; echo $?)" "and no survey comes after a race"

refused=0
for option in --again --compile-only; do
	# shellcheck disable=SC2086
	sweep db new --survey $option
	[ $? -eq 2 ] && grep -q 'survey goes with none of' "$tmp/err" || refused=1
done
row $refused "what it does not go with is refused: exit 2"
end_rows
