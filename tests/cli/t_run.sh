#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# t_run.sh - run.sh, which runs the tests: its totals, and those of parts.
. tests/support/tap.sh

small() { # NAME TEXT: a test that prints this
	printf '#!/bin/sh\necho %s >>"%s/ran"\nprintf "%s"\n' "$1" "$tmp" "$2" >"$tmp/$1.sh"
}
small two '1..2\\nok 1 - a\\nok 2 - b\\n'
small wrong '1..2\\nok 1 - a\\nnot ok 2 - b\\n'
small ends '1..3\\nok 1 - a\\n'
small away '1..0 # SKIP no such device\\n'
small left '1..2\\nok 1 - a\\nok 2 - b # SKIP no such program\\n'

totals() { # PART: "passed failed skipped" of that part; the tests that ran are in $tmp/ran
	PART=$1 B=$tmp/b sh tests/run.sh "$tmp/two.sh" "$tmp/wrong.sh" "$tmp/ends.sh" "$tmp/away.sh" "$tmp/left.sh" \
		>"$tmp/out" 2>"$tmp/err"
	code=$?
	sed -n '$s/\([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped/\1 \2 \3/p' "$tmp/out"
}
[ "$(totals '')" = '5 2 2' ]
row $? "rows that failed, were skipped or never came are counted"
for parts in 2 3 7; do
	: >"$tmp/ran"
	sum=$(for k in $(seq $parts); do totals $k/$parts; done | awk '{ p += $1; f += $2; s += $3 } END { print p, f, s, NR }')
	[ "$sum" = "5 2 2 $parts" ] && [ "$(sort "$tmp/ran" | tr '\n' ' ')" = 'away ends left two wrong ' ]
	row $? "$parts parts run each test once, and their totals add up"
done
totals 1/5 >"$tmp/log" && [ $code -eq 0 ] && totals 2/5 >"$tmp/log" && [ $code -eq 1 ]
row $? "a part fails when a test of its own does"
for part in 0/3 4/3 2 a/b 1/; do
	totals $part >/dev/null
	[ $code -eq 2 ] && [ "$(wc -l <"$tmp/err")" = 1 ] && grep -q "PART=$part: it is K/N" "$tmp/err"
	row $? "PART=$part is refused in one line"
done
end_rows
