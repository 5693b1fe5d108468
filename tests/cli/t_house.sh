#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# t_house.sh - the order of files and folders: no circle of calls among files or folders, by the
# relocations of the objects that `make test` built; no call and no include towards a higher floor
# (kernels < harness < tuner); headers included at the top of a file; folders of at most 25 files,
# files of at most 600 lines, functions of at most 60, no test program above 2 MiB. A failure lists the
# files. Each source says its license.
set -u
. tests/support/tap.sh

empty() { # NAME FILE: the file lists what is wrong
	cp "$2" "$tmp/log"
	[ ! -s "$2" ]
	row $? "$1"
}

# caller callee symbol: each call from one of our objects to another.
# Objects whose source is gone, of an older build, do not count.
find kernels harness tuner -name '*.c' | sed 's/c$/o/' | (cd "$B" && xargs ls 2>/dev/null | xargs nm -A) | awk '
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

# Code of ours; seeds are data of the fuzzers.
find Makefile kernels harness tuner tests -type f ! -path 'tests/fuzz/seeds/*' | grep -E \
	'(^Makefile|\.(c|h|cu|cc|cpp|def|inc|sh|awk|mk|py))$' >"$tmp/code"
[ -s "$tmp/code" ] || echo "no code was found" >"$tmp/no_code"

# A header of ours below the first line of code. Text that takes macros of the file that includes it
# is an .inc or a .def, and may be included anywhere.
grep -E '\.(c|h|cu|cc|cpp|def|inc)$' "$tmp/code" | xargs awk '
	FNR == 1 { is_code = in_comment = 0 }
	{
		text = ""
		for (line = $0; line != "";) {
			if (in_comment) {
				at = index(line, "*/")
				in_comment = !at
				line = at ? substr(line, at + 2) : ""
				continue
			}
			at = match(line, /\/[*\/]/)
			text = text (at ? substr(line, 1, at - 1) : line)
			in_comment = at && substr(line, at, 2) == "/*"
			line = in_comment ? substr(line, at + 2) : ""
		}
	}
	{
		was_more = is_more
		is_more = text ~ /\\$/
	}
	text ~ /^[ \t]*$/ || text ~ /^# *(if|el|endif|define|undef|pragma|error)/ || was_more { next }
	text !~ /^# *include/ { is_code = 1; next }
	is_code && split(text, part, "\"") > 2 && part[2] ~ /\.h$/ {
		folder = FILENAME
		sub(/[^\/]*$/, "", folder)
		split(folder " kernels/ ./", root, " ")
		for (i = 1; i <= 3; i++)
			if ((getline line < (root[i] part[2])) >= 0) {
				close(root[i] part[2])
				print FILENAME ":" FNR ": " text
				break
			}
	}' >"$tmp/middle"
cat "$tmp/no_code" "$tmp/middle" 2>/dev/null >"$tmp/in_middle"
empty 'no header is included in the middle of a file' "$tmp/in_middle"

xargs wc -l <"$tmp/code" | awk '$1 > 600 && $2 != "total"' | cat - "$tmp/no_code" 2>/dev/null >"$tmp/long"
empty 'no file of more than 600 lines' "$tmp/long"
xargs awk 'FNR == 1 { all[FILENAME] } FNR <= 3 && /SPDX-License-Identifier: Apache-2\.0/ { has[FILENAME] }
	END { for (f in all) if (!(f in has)) print f ": its first lines lack SPDX-License-Identifier: Apache-2.0" }' \
	<"$tmp/code" | cat - "$tmp/no_code" 2>/dev/null >"$tmp/without"
empty 'each source says its license' "$tmp/without"

# Lines between the braces. A definition begins at the margin and so does its last brace.
xargs awk '
	FNR == 1 { start = open = 0 }
	FILENAME ~ /\.(def|mk|py)$/ || FILENAME == "Makefile" { next }
	/^[A-Za-z_][A-Za-z0-9_]*\(\) \{/ || /^function / { start = open = FNR }
	!open && /^$|^#|^\/|^ \*|[;}]$/ { start = 0; next }
	!start && /^[A-Za-z_]/ { start = FNR }
	/^\{/ && start { open = FNR }
	/^\}/ && open {
		if (FNR - open - 1 > 60) print FILENAME ":" start ": " FNR - open - 1 " lines"
		functions++
		start = open = 0
	}
	END { if (functions < 1000) print "only " functions + 0 " functions were found" }' \
	<"$tmp/code" | cat - "$tmp/no_code" 2>/dev/null >"$tmp/functions"
empty 'no function of more than 60 lines' "$tmp/functions"
find kernels harness tuner tests -type f |
	sed 's,/[^/]*$,,' | sort | uniq -c | awk '$1 > 25' >"$tmp/full"
empty 'no folder of more than 25 files' "$tmp/full"
ls kernels/*.h | sed -n '10,$p' >"$tmp/loose"
empty 'no more than 9 headers in kernels/ itself' "$tmp/loose"
find "$B" -maxdepth 1 -type f -name 't_*' -size +2048k >"$tmp/heavy"
[ -s "$B/libinside.so" ] || echo "$B/libinside.so is not there" >>"$tmp/heavy"
empty 'test programs share what is inside as one object' "$tmp/heavy"
end_rows
