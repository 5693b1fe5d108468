#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# t_cross.sh - the library for AArch64 by a cross compiler, and the first example under qemu. It compiles for minutes:
# ATTUNE_TEST_CROSS=1 runs it, where gcc-aarch64-linux-gnu and qemu-user are.
. tests/support/tap.sh
cross=aarch64-linux-gnu-gcc
[ -n "${ATTUNE_TEST_CROSS:-}" ] || { echo "1..0 # SKIP ATTUNE_TEST_CROSS=1 compiles the library for AArch64"; exit 0; }
for tool in $cross qemu-aarch64; do
	command -v "$tool" >/dev/null || { echo "1..0 # SKIP no $tool"; exit 0; }
done

mkdir "$tmp/arm" && seed_build "$tmp/arm/host"
MAKEFLAGS='' ${MAKE:-make} --no-print-directory lib LOCAL=no B="$tmp/arm" CC=$cross NVCC= HIPCC= -j"$(nproc)" >"$tmp/log" 2>&1
row $? "make lib CC=$cross"
$cross -std=c11 -Ikernels tests/examples/paged.c "$tmp/arm/libattune.a" -lpthread -ldl -lm -o "$tmp/paged" >"$tmp/log" 2>&1 &&
	qemu-aarch64 -L /usr/aarch64-linux-gnu "$tmp/paged" >"$tmp/log" 2>&1 && grep -q '(neon, ' "$tmp/log" && [ "$(grep -c ': right$' "$tmp/log")" = 2 ]
row $? "paged.c is right under qemu"
end_rows
