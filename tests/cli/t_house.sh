#!/bin/sh
# t_house.sh - the order of files and folders: no circle of calls among files or folders, by the
# relocations of the objects that `make test` built; no call and no include towards a higher floor
# (kernels < harness < tuner); folders of at most 25 files. A failure lists the files.
set -u
. tests/support/tap.sh

empty() { # NAME FILE: the file lists what is wrong
	cp "$2" "$tmp/log"
	[ ! -s "$2" ]
	row $? "$1"
}

# caller callee symbol: each call from one of our objects to another.
(cd "$B" && find kernels harness tuner -name '*.o' -exec nm -A {} +) | awk '
	{ sub(/:/, " ") }
	$(NF - 1) == "U" { used[$1, $NF] = 1; next }
	$(NF - 1) ~ /^[TDBRVWC]$/ { owner[$NF] = $1 }
	END {
		for (pair in used) {
			split(pair, of, SUBSEP)
			if ((of[2] in owner) && owner[of[2]] != of[1]) print of[1], owner[of[2]], of[2]
		}
	}' | sed 's/\.o / /g' | sort >"$tmp/calls"
awk '{ print $1, $2 }' "$tmp/calls" | sort -u >"$tmp/files"
awk '{ sub(/\/[^\/]*$/, "", $1); sub(/\/[^\/]*$/, "", $2); if ($1 != $2) print $1, $2 }' \
	"$tmp/files" | sort -u >"$tmp/folders"

# from includes: folder folder. Those of kernels are relative to the file, or to kernels/.
find kernels harness tuner -name '*.[ch]' -o -name '*.cu' -o -name '*.def' -o -name '*.inc' | xargs awk '
	/^#include "/ {
		split($2, part, "\"")
		to = part[2]
		from = FILENAME; sub(/\/[^\/]*$/, "", from)
		if (to ~ /^[cg]pu\//) to = "kernels/" to
		if (to ~ /^\.\.\//) {
			to = from "/" to
			while (sub(/[^\/.]+\/\.\.\//, "", to)) {}
		}
		if (to !~ /^(kernels|harness|tuner)\//) next
		sub(/\/[^\/]*$/, "", to)
		if (from != to) print from, to, FILENAME
	}' | sort -u >"$tmp/includes"

for found in files includes; do
	[ -s "$tmp/$found" ] || echo "$found: none were found" >>"$tmp/none"
done
tsort "$tmp/files" 2>&1 >/dev/null | cat - "$tmp/none" 2>/dev/null >"$tmp/file_circles"
empty 'no circle of files' "$tmp/file_circles"
tsort "$tmp/folders" >/dev/null 2>"$tmp/folder_circles"
empty 'no circle of folders' "$tmp/folder_circles"
awk '{ print $1, $2 }' "$tmp/includes" | sort -u | tsort >/dev/null 2>"$tmp/include_circles"
empty 'no circle of folders by what they include' "$tmp/include_circles"
awk '$1 ~ /^kernels/ && $2 !~ /^kernels/ || $1 ~ /^harness/ && $2 ~ /^tuner/' "$tmp/calls" >"$tmp/up"
empty 'no call towards a higher floor' "$tmp/up"
awk '$1 ~ /^kernels/ && $2 !~ /^kernels/ || $1 ~ /^harness/ && $2 ~ /^tuner/' "$tmp/includes" >"$tmp/up"
empty 'no include towards a higher floor' "$tmp/up"
grep -rn '^#include ".*\.cu"' kernels harness tuner >"$tmp/sources"
empty 'no source includes a source' "$tmp/sources"
find kernels harness tuner tests -type f |
	sed 's,/[^/]*$,,' | sort | uniq -c | awk '$1 > 25' >"$tmp/full"
empty 'no folder of more than 25 files' "$tmp/full"
end_rows
