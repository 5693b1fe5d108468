#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# t_stale.sh - a generated header is stale after a change of the tunables of a kernel that it names, or
# of the features, and after nothing else. The build then names the header. A header of another
# architecture lists no binary that cannot be compiled for it.
. tests/support/tap.sh

# A copy of the sources of list_shipped, with the objects of this build.
copy() {
	mkdir -p "$tmp/$B" "$tmp/tests" "$tmp/harness"
	cp -Rp Makefile kernels generated "$tmp"
	cp -p harness/commands/deps.sh "$tmp/harness"
	for mk in tests/*/*.mk tuner/*/*.mk; do
		mkdir -p "$tmp/$(dirname "$mk")"
		cp -p "$mk" "$tmp/$mk"
	done
	cp -Rp "$B/kernels" "$B/space" "$B"/*.inc "$B"/has_library "$tmp/$B"
}

list() { # the rules of the build; 0 when no header is stale
	(cd "$tmp" && MAKEFLAGS='' ${MAKE:-make} -s NVCC= HIPCC= B="$B" SAN="${SAN:-}" \
		"$B/list_shipped" && "$B/list_shipped" --make >/dev/null) >"$tmp/log" 2>&1
}

restore() { # FILE
	cp "$1" "$tmp/$1"
}

first=$(sed -n 's/.*KERNEL(\([cg]pu\), \([a-z_0-9]*\), 0x.*/\1 \2/p' generated/attune_*.h | head -1)
if [ -z "$first" ]; then
	echo "1..0 # SKIP no header is generated"
	exit 0
fi
def_of() { # "gpu qblock": gpu/attend/qblock
	find "kernels/${1% *}" -name "${1#* }.def" | sed 's,^kernels/,,; s,\.def$,,'
}
named=$(def_of "$first")
unnamed=$(sed -n 's/^KERNEL( *\([cg]pu\), *\([a-z_0-9]*\),.*/\1, \2/p' kernels/kernels.def |
	while read -r kernel; do
		grep -q "KERNEL($kernel, " generated/attune_*.h || echo "$kernel"
	done | sed 's/,//' | head -1)
[ -z "$unnamed" ] || unnamed=$(def_of "$unnamed")

copy
list
row $? "the committed headers are fresh"

cp kernels/cpu/qblock.c "$tmp/kernels/cpu/another.c"
cp kernels/cpu/qblock.def "$tmp/kernels/cpu/another.def"
echo 'KERNEL( cpu, another, "cpu", 1, "a kernel more")' >>"$tmp/kernels/kernels.def"
list
row $? "a new CPU kernel leaves them fresh"
rm "$tmp"/kernels/cpu/another.*
restore kernels/kernels.def

axis='STATIC( EXTRA, 1, "an axis more", 1, 2)'
if [ -n "$unnamed" ]; then
	echo "$axis" >>"$tmp/kernels/$unnamed.def"
	list
	row $? "a new axis of $unnamed, which no header names, leaves them fresh"
	restore "kernels/$unnamed.def"
fi

says() { # TEXT: that the build stopped, with this on a line
	! list && grep -q "^generated/attune_[a-z0-9_]*.h: $1 than when this was made; refresh it with: make heuristics GPU=" \
		"$tmp/log"
}

echo "$axis" >>"$tmp/kernels/$named.def"
says "kernel $(echo "$first" | tr ' ' /) has other tunables"
row $? "a new axis of $named, which a header names, is refused by name"
restore "kernels/$named.def"

echo 'FEATURE(extra, 0, "a feature more")' >>"$tmp/kernels/features.def"
says "features or segment costs are others"
row $? "a new feature is refused"
restore kernels/features.def

list
row $? "the same text again is fresh"

# As when headers listed binaries in place of shapes: not to be compiled.
mkdir -p "$tmp/generated/local"
sed 's/^\(#define ATTUNE_CPU_\)SHAPES(SHAPES)/\1BINARIES(BINARY)/' generated/attune_cpu.h >"$tmp/generated/local/attune_cpu.h"
list && grep -q '^attune: left out, since an older attune made it: generated/local/attune_cpu.h; make tune' "$tmp/log" &&
	! grep -q local "$tmp/$B/heuristics.inc"
row $? "a machine's own header of an older attune is left out, and named"
rm -r "$tmp/generated/local"

mkdir -p "$tmp/generated/local"
sed '/attune_list.h/d; /^ .*_list(/d; s/, cpu_none = -1,$//; /cpu_streams_sparing/d; /^#define ATTUNE_CPU_LISTS/,/^}/d' \
	generated/attune_cpu.h >"$tmp/generated/local/attune_cpu.h"
list && grep -q local "$tmp/$B/heuristics.inc" && ! grep -q 'LISTS\|none' "$tmp/generated/local/attune_cpu.h"
row $? "one without rows is taken"
rm -r "$tmp/generated/local"

# Head size 96 is in no rule, so that its binaries are the choices which the library adds.
mkdir -p "$tmp/generated/local"
sed 's/h100/a100/g; s/H100/A100/g; s/sm_90/sm_80/g' generated/attune_h100.h >"$tmp/generated/local/attune_a100.h"
list && (cd "$tmp" && "$B/list_shipped" --make) >"$tmp/rows" && grep -q 'sm_80,.*-DHEAD_SIZE=96 ' "$tmp/rows" &&
	! grep -q 'sm_80a.*-DHEAD_SIZE=96 ' "$tmp/rows"
row $? "a header of an A100 adds no kernel that only sm_90 has"
end_rows
