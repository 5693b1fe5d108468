#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# t_tables.sh - the published tables: those of the pages are what the committed databases and headers say, and
# `attune show --table` prints each of them for people and for machines.
. tests/support/tap.sh

pages='README.md results/README.md results/PEERS.md results/ROWS.md results/SETTLED.md'
# shellcheck disable=SC2086 # several pages
sh tuner/show/tables.sh "$B/attune" --check $pages >"$tmp/diff" 2>&1
status=$?
[ $status -eq 0 ] || sed 's/^/# /' "$tmp/diff" | head -40
row $status "the tables of the pages are queries of what is committed (else: make tables)"

# shellcheck disable=SC2086
cat $pages | awk '
	/^<!-- (table|eval): / { within = 1 }
	!within && /^\|.*[0-9]\.[0-9][0-9]/ { print; bad = 1 }
	/^<!-- end -->$/ { within = 0 }
	END { exit bad }' >"$tmp/diff"
row $? "and no other table of them has such figures"

printf 'before\n<!-- table: noise --gpu cpu -->\n| of an older database |\n<!-- end -->\nbehind\n' >"$tmp/page.md"
sh tuner/show/tables.sh "$B/attune" --check "$tmp/page.md" >"$tmp/diff" 2>&1
row "$([ $? -eq 1 ] && grep -q '^-| of an older database |$' "$tmp/diff"; echo $?)" "an old table is a difference"
sh tuner/show/tables.sh "$B/attune" "$tmp/page.md" >"$tmp/diff" 2>&1 &&
	[ "$(head -1 "$tmp/page.md")" = before ] && [ "$(tail -1 "$tmp/page.md")" = behind ] &&
	grep -q '^| below 20 us ' "$tmp/page.md" && ! grep -q older "$tmp/page.md" &&
	sh tuner/show/tables.sh "$B/attune" --check "$tmp/page.md" >"$tmp/diff" 2>&1
row $? "which is rewritten, and nothing beside it"
printf '<!-- table: noise --gpu cpu -->\n' >"$tmp/page.md"
sh tuner/show/tables.sh "$B/attune" "$tmp/page.md" 2>"$tmp/err"
row "$([ $? -eq 2 ] && grep -q 'has no line "<!-- end -->"' "$tmp/err"; echo $?)" "a table without an end is an error"
printf '<!-- table: nonsense --gpu cpu -->\n<!-- end -->\n' >"$tmp/page.md"
sh tuner/show/tables.sh "$B/attune" "$tmp/page.md" 2>"$tmp/err"
row "$([ $? -eq 2 ] && grep -q 'it is one of .*heldout' "$tmp/err"; echo $?)" "and so is an unknown one, with the list"
printf '<!-- eval: --gpu cpu --split heldout --by kind -->\n| old |\n<!-- end -->\n' >"$tmp/page.md"
sh tuner/show/tables.sh "$B/attune" "$tmp/page.md" 2>"$tmp/err" && grep -q '^| decode .*[0-9]\.[0-9]' "$tmp/page.md" &&
	! grep -q old "$tmp/page.md"
row $? "what attune eval prints is written"
why='--gpu cpu --model llama3.1-8b@1 --batch q1s1k'
printf '<!-- why: %s -->\n<!-- end -->\n' "$why" >"$tmp/page.md"
sh tuner/show/tables.sh "$B/attune" "$tmp/page.md" 2>"$tmp/err" && grep -q '^- decode: .*(.*)' "$tmp/page.md" &&
	grep -q 'Picked: [a-z]' "$tmp/page.md" && sed 's/^- decode: /&old /' "$tmp/page.md" >"$tmp/old.md" &&
	! sh tuner/show/tables.sh "$B/attune" --check "$tmp/old.md" >"$tmp/diff" 2>&1
row $? "what explains a plan is written, and an old one is a difference"

# A link to a file that is there, and to a heading that it has.
find ./*.md generated harness kernels results scenarios tests tuner -name '*.md' >"$tmp/pages"
while read -r page; do
	grep -o '\](\([^):]*\))' "$page" | sed 's/^](//; s/)$//' | while IFS='#' read -r file anchor; do
		case $file in
		'') file=$page ;;
		*) file=$(dirname "$page")/$file ;;
		esac
		[ -e "$file" ] || { echo "$page: $file is not there" && continue; }
		[ -z "$anchor" ] || sed -n 's/^##* //p' "$file" | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9_\n-' |
			grep -qx -e "$anchor" || echo "$page: $file has no heading $anchor"
	done
done <"$tmp/pages" >"$tmp/diff"
[ ! -s "$tmp/diff" ] || sed 's/^/# /' "$tmp/diff"
[ -s "$tmp/pages" ] && [ ! -s "$tmp/diff" ]
row $? "links between pages lead somewhere"

# A mean, its interval and the worst are those of eval, whose own tests have them by hand.
"$B/attune" show --gpu cpu --table heldout --format tsv 2>"$tmp/err" | sed -n 's/^all held out\t//p' | cut -f 1-4,6 >"$tmp/shown"
"$B/attune" eval --gpu cpu --db results/cpu.sqlite --header generated/attune_cpu.h --split heldout --format tsv 2>"$tmp/err" |
	awk -F'\t' '$1 == "tree" { printf "%d\t%s\t%s\t%s\t%s\n", $3, $4, $5, $6, $8 }' >"$tmp/eval"
# eval has a decimal more, and both are rounded
paste "$tmp/shown" "$tmp/eval" | awk '{ n++; for (i = 1; i <= 5; i++) if (($i - $(i + 5)) ^ 2 > 4e-7) bad = 1 }
	END { exit n != 1 || NF != 10 || bad }'
row $? "held-out figures are those of eval"
"$B/attune" show --gpu cpu --table heldout --format json >"$tmp/out" 2>"$tmp/err" && grep -q '"worst": *[0-9]' "$tmp/out"
row $? "as JSON they are numbers"
"$B/attune" show --gpu cpu --table heldout,noise --format json >"$tmp/out" 2>"$tmp/err"
row "$([ $? -eq 2 ] && [ ! -s "$tmp/out" ] && grep -q 'have one table each' "$tmp/err"; echo $?)" "of one table at a time"
# What attune bench timed, by hand: the oracle takes half of attune's time, the defaults four times as long.
sqlite3 results/cpu_peers.sqlite ".backup $tmp/bench.sqlite" && sqlite3 "$tmp/bench.sqlite" "DELETE FROM seal" \
	".read harness/store/bench.sql" "INSERT INTO bench SELECT NULL, min(run), scenario, policy, 'x', 'x', 'ok', 9, ns, NULL
	FROM race, (SELECT 'attune' AS policy, 8000 AS ns UNION SELECT 'oracle', 4000 UNION SELECT 'default', 32000)
	GROUP BY scenario, policy" >"$tmp/log" 2>&1
"$B/attune" show --gpu cpu --table bench --db "$tmp/bench.sqlite" --format tsv 2>"$tmp/err" | cut -f 1,3-5,8 >"$tmp/out"
row "$(tail -n 2 "$tmp/out" | tr '\t\n' ' ;' | grep -qx 'oracle 0.500 0.500 0.500 0;default 4.000 4.000 4.000 18;'; echo $?)" \
	"bench's rows are over attune's own"
has_rows() { # DATABASE
	"$B/attune" show --table "$name" --gpu h200 --db "results/$1.sqlite" --format tsv >"$tmp/out" 2>"$tmp/err" &&
		[ "$(wc -l <"$tmp/out")" -gt 1 ]
}
for sql in tuner/show/tables/*.sql; do # others are in a page
	name=${sql##*/} name=${name%.sql}
	# shellcheck disable=SC2086
	if [ "$name" = bench ] || grep -q "^<!-- table: $name " $pages; then
		continue
	fi
	has_rows h200_steady || has_rows h200
	row $? "$name, which no page has, has rows"
done
end_rows
