#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# t_headers.sh - each header of the GPU kernels has a guard and compiles alone, as its vendor's
# dialect, with the emulated GPU's text (tests/simt/text). A failure shows the compiler's first lines.
set -u
. tests/support/tap.sh

tunables='-DBLOCK_M=64 -DTILE_SIZE=64 -DNUM_WARPS=4 -DNUM_STAGES=2 -DPARTIALS=1 -DBLOCKS_PER_SM=1 -DTURNS=0'
mixed='-DPREFILL_TILE=128 -DDECODE_TILE=16 -DDECODE_WARPS=8 -DDECODE_STAGES=2'

flags_of() { # HEADER
	case $1 in
	*/mixed_*) echo "$mixed" ;;
	*_e4m3.h) echo "$tunables -DKV_DTYPE=E4M3" ;;
	*/classic.h) echo "$tunables -DTHREAD_GROUP_SIZE=4 -DPAGE_SIZE=16 -DNUM_THREADS=128 -DPARTITION_SIZE=512" ;;
	*/roofline*) echo -DKEEP=0 ;;
	*) echo "$tunables" ;;
	esac
}

compile() { # HEADER DIALECT: nvidia or amd
	case $2 in
	amd) first='"hip.h"' target='-D__AMDGCN__ -D__gfx942__' ;;
	*) first='"cuda.h"' target= ;;
	esac
	name=$(echo "$1.$2" | tr / .)
	printf '#include %s\nnamespace\n{\n#include "%s"\n}\n' "$first" "$1" >"$tmp/$name.cc"
	# shellcheck disable=SC2046,SC2086
	${CXX:-c++} -std=c++17 -nostdinc++ -w -Wno-psabi -fsyntax-only -Itests/simt/text -I"$tmp/text" \
		-DENTRY=attune_kernel -DDTYPE=BF16 -DHEAD_SIZE=128 $target $(flags_of "$1") \
		"$tmp/$name.cc" >"$tmp/$name.said" 2>&1 && rm "$tmp/$name.said"
}

# The emulated GPU's text of all kernels.
for file in kernels/*.h kernels/*.def kernels/gpu/*.h kernels/gpu/*/*.h kernels/gpu/*/*.inc; do
	to=$tmp/text/${file#kernels/}
	mkdir -p "${to%/*}"
	awk -v emulated=tests/simt/text/gpu_emulated.h -f tests/simt/text/host.awk "$file" >"$to"
done

headers=$(cd kernels && find gpu -name '*.h' | sort)
for header in $headers; do
	grep -q "^#ifndef ATTUNE_.*_H\$" "kernels/$header" || echo "kernels/$header"
done >"$tmp/log"
[ -n "$headers" ] && [ ! -s "$tmp/log" ]
row $? 'each header of the GPU kernels has a guard'

for header in $headers; do
	case $header in
	*_amd.h) compile "$header" amd ;;
	*_nvidia.h | gpu/ring/* | gpu/warpgroup/*) compile "$header" nvidia ;;
	*) compile "$header" nvidia && compile "$header" amd ;;
	esac
done
for said in "$tmp"/*.said; do
	[ ! -e "$said" ] || head -n 4 "$said"
done >"$tmp/log"
[ -n "$headers" ] && [ ! -s "$tmp/log" ]
row $? 'each compiles alone'
end_rows
