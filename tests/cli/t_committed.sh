#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# t_committed.sh - the committed files agree: `attune induce` remakes every header from its database,
# every header compiles alone, every database is sound, and each has the other.
. tests/support/tap.sh

for header in generated/attune_*.h; do
	[ -e "$header" ] || continue
	gpu=${header#generated/attune_} gpu=${gpu%.h}
	# not those of this machine, which a tune has left in results/local
	"$B/attune" induce --gpu "$gpu" --db results/ --out "$header" --check >"$B/check.diff" 2>&1
	status=$?
	[ $status -eq 0 ] || sed 's/^/# /' "$B/check.diff" | head -40
	row $status "$header is what its database says"
	cat >"$B/alone.c" <<-END
		#include "$PWD/$header"
		int main(void)
		{ struct attune_features f = { 0 };
		  return attune_${gpu}_prefill(&f) < ${gpu}_defaults || attune_${gpu}_decode(&f) < ${gpu}_defaults ||
			 attune_${gpu}_overlap(&f) < ${gpu}_streams_sparing112 ||
			 attune_${gpu}_list(attune_${gpu}_decode(&f)).n < 1; }
	END
	${CC:-cc} -std=c11 -Wall -Wextra -Wpedantic -Werror -iquote kernels -o "$B/alone" "$B/alone.c" && "$B/alone"
	row $? "$header serves a program of its own"
	if [ "$gpu" = h200 ]; then # the one that the pages quote; others may keep trees of before
		[ "$(wc -l <"$header")" -le 380 ]
		row $? "$header has at most 380 lines"
	fi
	! grep -q '[^a-z]inf[^a-z]' "$header"
	row $? "$header has figures of what has a time alone"
	! grep -Eq "[^a-z0-9_]${gpu}_(whole|cheapest)[^a-z0-9_]" "$header"
	row $? "$header says no word that the library does not know"
done
for db in results/*.sqlite; do
	[ -e "$db" ] || continue
	gpu=${db#results/} gpu=${gpu%.sqlite}
	[ "$(sqlite3 "file:$db?mode=ro" 'PRAGMA integrity_check')" = ok ]
	row $? "$db is sound"
	case $gpu in
	*_steady | *_peers | *_bench) ;; # nothing is learned from these
	*)
		[ -e "generated/attune_$gpu.h" ]
		row $? "$db has its header"
		;;
	esac
	[ "$(sqlite3 "file:$db?mode=ro" "SELECT count(*) FROM timings WHERE outcome = 'ok' AND
		NOT (median_us > 0 AND median_us < 1e9)")" = 0 ]
	row $? "$db holds times that can be"
	[ "$(sqlite3 "file:$db?mode=ro" "SELECT (SELECT count(*) FROM sample),
		(SELECT count(*) FROM superseded),
		(SELECT count(*) FROM run WHERE sources IN ('modified', 'unknown'))")" = '0|0|0' ]
	row $? "$db is in the committed form (attune merge --compact $db)"
done
unseen=$(for p in results/*.png results/*.svg; do
	[ ! -e "$p" ] || { [ "${p%.png}" != "$p" ] && cat README.md results/README.md results/PEERS.md | grep -q "${p##*/})"; } || echo "$p"
done)
[ -z "$unseen" ]
row $? "every picture is a PNG that a page shows${unseen:+: $unseen}"
large=$(find . -path ./.git -prune -o -path "./${B:-build}" -prune -o -type f -size +25000000c -print)
[ -z "$large" ]
row $? "no file is above 25 MB${large:+: $large}"
[ $n -gt 0 ] || { echo "1..0 # SKIP nothing is committed"; exit 0; }
end_rows
