# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# operations.sh - what the campaign disturbs: sweep, confirm, merge, induce, plot. Sourced
# by campaign.sh. For each operation OP:
#
#   fresh_OP    puts what it starts from into $w
#   args_OP     prints its command line, one line
#   sound_OP    what holds after any kill: nothing that was there is lost or half written
#   same_OP     what holds once it has ended: the result is that in $ref, of an undisturbed run
#
# The last two write what is wrong to stdout, one fact a line.
operations=${OPERATIONS:-sweep confirm merge induce plot}
quick='merge induce plot' # those that measure nothing are killed twice as often
ref=$tmp/ref # results of the undisturbed operations
w=$tmp/w     # where the disturbed ones work

quiet() { # ARGUMENTS of attune
	CAMPAIGN="$tmp" timeout 1200 "$attune" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
}

ask() { # DB SQL
	sqlite3 -bail -cmd '.timeout 60000' "$1" "$2" 2>&1
}

# ---- databases -------------------------------------------------------------------------------

sound_db() { # DB
	[ -e "$1" ] || return 0
	[ "$(ask "$1" 'PRAGMA integrity_check')" = ok ] || echo "integrity_check fails"
	[ -z "$(ask "$1" 'PRAGMA foreign_key_check')" ] || echo "foreign_key_check fails"
}

# Every measured row; none of a database that has no tables yet. Which row is the newest of its cell
# may change: confirm measures a scenario again as a whole if it was killed in the middle of it.
rows() { # DB
	[ "$(ask "$1" "SELECT count(*) FROM sqlite_schema WHERE name = 'measurement'")" = 1 ] || return 0
	ask "$1" 'SELECT race, variant, build, ending, median, below, ci, ratio
		FROM measurement JOIN ran ON ran.id = ran ORDER BY race, variant'
}

count() { # DB
	n_rows=$(ask "$1" 'SELECT count(*) FROM measurement' 2>/dev/null)
	case $n_rows in
	'' | *[!0-9]*) echo 0 ;;
	*) echo "$n_rows" ;;
	esac
}

# What was measured, without times: a sweep measures the same choices each time, but which plans of
# two parts it composes depends on its times. VIEW: history, or newest, which leaves out rows that
# were measured again.
structure() { # DB VIEW
	ask "$1" "SELECT model, batch, phase, kernel, variant, stage FROM $2 WHERE phase <> 'plan'
		ORDER BY 1, 2, 3, 4, 5, 6;
		SELECT 'plans', count(*) FROM $2 WHERE phase = 'plan';
		SELECT 'failed', count(*) FROM failures"
}

same_structure() { # DB REFERENCE VIEW
	structure "$1" "$3" >"$tmp/structure"
	structure "$2" "$3" | cmp -s - "$tmp/structure" || echo "other rows than undisturbed"
	twice=$(ask "$1" "SELECT count(*) FROM (SELECT 1 FROM $3 GROUP BY
		model, batch, phase, plan, stage HAVING count(*) > 1)")
	[ "$twice" = 0 ] || echo "$twice cells were measured twice"
	sound_db "$1"
}

same_dump() { # DB REFERENCE
	ask "$1" .dump >"$tmp/dump"
	ask "$2" .dump | cmp -s - "$tmp/dump" || echo "another content than undisturbed"
	sound_db "$1"
}

# ---- the operations ----------------------------------------------------------------------------

fresh_sweep() {
	rm -f "$w"/db.sqlite*
}
args_sweep() {
	echo "sweep --gpu cpu --db $w/db.sqlite --scenarios $tmp/tiny.json --preset smoke --budget 300s"
}
sound_sweep() {
	sound_db "$w/db.sqlite"
}
same_sweep() {
	same_structure "$w/db.sqlite" "$ref/db.sqlite" history
}

fresh_confirm() {
	rm -f "$w"/db.sqlite*
	cp "$ref/db.sqlite" "$w/db.sqlite"
}
args_confirm() {
	echo "sweep --confirm --gpu cpu --db $w/db.sqlite --header $ref/a.h --split heldout --budget 300s"
}
sound_confirm() {
	sound_db "$w/db.sqlite"
	[ "$(count "$w/db.sqlite")" -ge "$(count "$ref/db.sqlite")" ] || echo "rows of the sweep are lost"
}
same_confirm() {
	same_structure "$w/db.sqlite" "$ref/confirmed.sqlite" newest
}

fresh_merge() {
	rm -f "$w"/merged.sqlite*
}
args_merge() {
	echo "merge $w/merged.sqlite results/cpu.sqlite $ref/db.sqlite"
}
sound_merge() { # each input is one transaction
	[ -e "$w/merged.sqlite" ] || return 0
	sound_db "$w/merged.sqlite"
	case $(count "$w/merged.sqlite") in
	0 | "$merged_first" | "$merged_both") ;;
	*) echo "holds a part of an input" ;;
	esac
}
same_merge() {
	same_dump "$w/merged.sqlite" "$ref/merged.sqlite"
}

fresh_induce() {
	echo '/* the header before */' >"$w/a.h"
}
args_induce() {
	echo "induce --gpu cpu --db $ref/db.sqlite --out $w/a.h"
}
sound_induce() {
	[ "$(cat "$w/a.h")" = '/* the header before */' ] || same_induce
}
same_induce() {
	cmp -s "$w/a.h" "$ref/a.h" || echo "another header than undisturbed"
}

fresh_plot() {
	rm -rf "$w/pictures"
	mkdir "$w/pictures"
	for picture in "$ref"/pictures/*; do
		[ ! -e "$picture" ] || echo 'the picture before' >"$w/pictures/${picture##*/}"
	done
}
args_plot() {
	echo "plot --gpu cpu --db $ref/db.sqlite --header $ref/a.h --out $w/pictures"
}
sound_plot() {
	for picture in "$ref"/pictures/*; do
		cmp -s "$picture" "$w/pictures/${picture##*/}" ||
			[ "$(cat "$w/pictures/${picture##*/}")" = 'the picture before' ] ||
			echo "${picture##*/} is neither the picture before nor the new one"
	done
}
same_plot() {
	diff -r "$ref/pictures" "$w/pictures" >/dev/null || echo "other pictures than undisturbed"
}

# ---- all of them ---------------------------------------------------------------------------------

written_by() { # OPERATION: the database that it writes
	case $1 in
	sweep | confirm) echo "$w/db.sqlite" ;;
	merge) echo "$w/merged.sqlite" ;;
	esac
}

# ---- the references ------------------------------------------------------------------------------

# Runs OPERATION, counts its calls, and keeps the result as FROM -> TO.
reference() { # OPERATION FROM TO
	case " $operations " in
	*" $1 "*) ;;
	*) return 0 ;;
	esac
	fresh_"$1"
	# shellcheck disable=SC2046
	disturbed "" $(args_"$1") && mv "$tmp/fault" "$ref/$1.calls" && mv "$2" "$3"
}

make_references() {
	mkdir -p "$ref" "$w" "$TMPDIR"
	cat >"$tmp/tiny.json" <<-'SET'
		{ "defaults": { "models": [ "llama3.1-8b@4" ] }, "scenarios": [ { "batch": "q1s128" },
			{ "batch": "q16_2q1s64" }, { "batch": "2q1s100", "split": "heldout" } ] }
	SET
	reference sweep "$w/db.sqlite" "$ref/db.sqlite" &&
		reference induce "$w/a.h" "$ref/a.h" &&
		reference confirm "$w/db.sqlite" "$ref/confirmed.sqlite" &&
		reference plot "$w/pictures" "$ref/pictures" &&
		reference merge "$w/merged.sqlite" "$ref/merged.sqlite" &&
		merged_first=$(count results/cpu.sqlite) && merged_both=$(count "$ref/merged.sqlite")
}
