#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tables.sh - the published tables of pages: rewrites them, or compares them with --check.
#
#   sh tuner/show/tables.sh ATTUNE [--check] PAGE...
#
# A table stands between two lines of a page:
#   <!-- table: NAME OPTIONS -->      what `attune show --table NAME OPTIONS --format markdown` prints
#   <!-- end -->
# and so do the first 16 lines of a tree of a header, behind <!-- tree: HEADER FUNCTION -->.
# So does what `attune eval OPTIONS --format markdown` prints (<!-- eval: OPTIONS -->).
# So does what explains a plan, of the lines of `attune show OPTIONS --why` (<!-- why: OPTIONS -->): for each decision the
# tests of its path, its row, and what runs.
# The exit status is 1 where a page differs, and 2 where a table cannot be made.
set -u
attune=$1 check=
shift
[ "${1:-}" != --check ] || { check=1 && shift; }
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT

sed -n 's/^<!-- table: \([a-z0-9_]*\) \(.*\) -->$/\2|\1/p' "$@" | LC_ALL=C sort -u >"$tmp/asked"
cut -d'|' -f1 "$tmp/asked" | uniq | while read -r options; do # one run for all tables with the same options
	names=$(awk -F'|' -v options="$options" '$1 == options { printf "%s%s", n++ ? "," : "", $2 }' "$tmp/asked")
	case $names in
	*,*) ;;
	*) echo "<!-- table: $names -->" ;;
	esac >"$tmp/first"
	# shellcheck disable=SC2086 # options are several words
	"$attune" show --table "$names" $options --format markdown >"$tmp/rest" 2>"$tmp/talk" || {
		cat "$tmp/talk" >&2
		exit 2
	}
	sed "s/^<!-- table: \(.*\) -->\$/@$(printf %s "$options" | sed 's/[&\/]/\\&/g')|\1/" "$tmp/first" "$tmp/rest"
done >"$tmp/tables" || exit 2

sed -n 's/^<!-- tree: \([^ ]*\) \([^ ]*\) -->$/\1 \2/p' "$@" | LC_ALL=C sort -u | while read -r header tree; do
	echo "@$header|tree $tree" && sed -n "/int $tree(/,/^	}/p" "$header" | head -n 16 | expand -t4 | sed 's/^/    /' &&
		echo '        ...'
done >>"$tmp/tables" || exit 2

sed -n 's/^<!-- eval: \(.*\) -->$/\1/p' "$@" | LC_ALL=C sort -u | while read -r options; do
	# shellcheck disable=SC2086 # options are several words
	"$attune" eval $options --format markdown >"$tmp/rest" 2>"$tmp/talk" || { cat "$tmp/talk" >&2 && exit 2; }
	echo "@$options|eval" && cat "$tmp/rest"
done >>"$tmp/tables" || exit 2

sed -n 's/^<!-- why: \(.*\) -->$/\1/p' "$@" | LC_ALL=C sort -u | while read -r options; do
	# shellcheck disable=SC2086 # options are several words
	"$attune" show $options --why --format tsv >"$tmp/why" 2>"$tmp/talk" || { cat "$tmp/talk" >&2 && exit 2; }
	echo "@$options|why" && awk -F'\t' '
		function flush() {
			if (path != "") print "- " last ": " path "." (row == "" ? "" : " Row: " row ".") " Picked: " picked "."
			path = row = picked = ""
		}
		$1 != last { flush(); last = $1 }
		$2 == "test" { sub(/ = /, " ", $3); sub(/, /, " (", $3); $3 = $3 ")"; path = path (path == "" ? "" : ", ") $3; }
		$2 == "row" { # its kernel, tile and warps
			mark = sub(/, by estimate$/, "", $3) ? " by estimate" : ""
			gsub(/=/, " ", $3)
			n = split($3, word, " ")
			name = word[1]
			for (i = 2; i < n; i++)
				if (word[i] == "BLOCK_M") name = name " " word[i + 1]
				else if (word[i] == "TILE_SIZE") name = name "x" word[i + 1]
				else if (word[i] == "NUM_WARPS") name = name " of " word[i + 1] " warps"
			row = row (row == "" ? "" : ", else ") name mark
		}
		$2 == "picked" { picked = $3 }
		END { flush() }' "$tmp/why" | fold -s -w 118 | sed 's/ *$//; /^- /!s/^/  /'
done >>"$tmp/tables" || exit 2

code=0
for page; do
	awk -v page="$page" '
		FNR == NR && /^@/ { key = substr($0, 2); next }
		FNR == NR { if ($0 != "") table[key] = table[key] $0 "\n"; next }
		within && /^<!-- end -->$/ { within = 0 }
		within { next }
		{ print }
		/^<!-- table: / {
			line = $0; sub(/^<!-- table: /, "", line); sub(/ -->$/, "", line)
			name = line; sub(/ .*/, "", name); sub(/^[^ ]* /, "", line)
			printf "%s", table[line "|" name]
			within = 1
		}
		/^<!-- tree: / {
			printf "\n%s\n", table[$3 "|tree " $4]
			within = 1
		}
		/^<!-- (why|eval): / {
			kind = $2; sub(/:$/, "", kind)
			line = $0; sub(/^<!-- [a-z]*: /, "", line); sub(/ -->$/, "", line)
			printf "\n%s\n", table[line "|" kind]
			within = 1
		}
		END { if (within) { print page ": a table or tree has no line \"<!-- end -->\"" >"/dev/stderr"; exit 1 } }
	' "$tmp/tables" "$page" >"$tmp/page" || exit 2
	if [ "$check" ]; then
		diff -u --label "$page" --label "$page, by make tables" "$page" "$tmp/page" || code=1
	else
		cmp -s "$tmp/page" "$page" || cat "$tmp/page" >"$page" || exit 2
	fi
done
exit $code
