#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# t_plugin.sh - a user's own kernel, from an empty folder to a library that runs it, by the commands
# of kernels/PLUGINS.md: tests/examples/plugin is copied out of the tree, built in by PLUGIN=, raced
# beside attune's kernels, learned from, and shipped.
. tests/support/tap.sh
export ATTUNE_LOCKS="$tmp" ATTUNE_PROC="$tmp" # a machine of its own: without processes
export ATTUNE_CLOCK=1                         # a race takes a second of the budget

make_with() { # PLUGIN GOAL...
	plugin=$1
	shift
	MAKEFLAGS='' ${MAKE:-make} --no-print-directory -j2 LOCAL=no PLUGIN="$plugin" B="$tmp/build" NVCC= HIPCC= \
		GENERATED="$tmp/generated" RESULTS="$tmp" "$@" >"$tmp/log" 2>&1
}
attune() {
	timeout 1200 "$tmp/build/bare/attune" "$@" >"$tmp/log" 2>&1 </dev/null
}

mkdir "$tmp/mine" "$tmp/generated" && seed_build "$tmp/build"
make_with "$tmp/mine" "$tmp/build/bare/attune"
[ $? -ne 0 ] && grep -q "$tmp/mine: has no NAME.def" "$tmp/log"
row $? 'an empty folder is refused in a line'
cp tests/examples/plugin/rowwise.def "$tmp/mine"
make_with "$tmp/mine" "$tmp/build/bare/attune"
[ $? -ne 0 ] && grep -q 'rowwise.def: has no rowwise.cu or .c beside it' "$tmp/log"
row $? 'so is a .def without its source'
cp tests/examples/plugin/rowwise.c "$tmp/mine"
cp "$tmp/mine/rowwise.c" "$tmp/mine/segmented.c"
cp "$tmp/mine/rowwise.def" "$tmp/mine/segmented.def"
make_with "$tmp/mine" "$tmp/build/bare/attune"
[ $? -ne 0 ] && grep -q 'segmented: attune has a kernel of this name' "$tmp/log"
row $? "so is one of attune's names"
rm "$tmp/mine"/segmented.*
cp "$tmp/mine/rowwise.def" "$tmp/mine/row-wise.def"
cp "$tmp/mine/rowwise.c" "$tmp/mine/row-wise.c"
make_with "$tmp/mine" "$tmp/build/bare/attune"
[ $? -ne 0 ] && grep -q "row-wise.def: a kernel's name has lower-case letters" "$tmp/log"
row $? 'so is a name that C does not take'
rm "$tmp/mine"/row-wise.*
make_with "$tmp/mine" STALE=skip "$tmp/build/bare/attune"
row $? 'the tool is built with it'

cat >"$tmp/set.json" <<'SET'
{
	"defaults": { "models": [ "llama3.1-8b@4" ] },
	"scenarios": [
		{ "batch": "q1s128" },
		{ "batch": "4q1s128" },
		{ "batch": "q32" },
		{ "batch": "q16_2q1s64" },
		{ "batch": "2q1s100", "split": "heldout" },
		{ "batch": "q24", "split": "heldout" }
	]
}
SET
sweep="sweep --gpu cpu --scenarios $tmp/set.json --preset smoke --budget 300s"
# shellcheck disable=SC2086
attune $sweep --db "$tmp/all.sqlite"
row $? "it races beside attune's kernels"
[ "$(sqlite3 "$tmp/all.sqlite" "SELECT count(DISTINCT kernel) FROM history
	WHERE kernel IN ('rowwise', 'qblock', 'segmented') AND outcome IN ('ok', 'noisy')")" = 3 ]
row $? 'all have times'
sed -i 's/sum > 0 ? 1 \/ sum : 0/sum > 0 ? 2 \/ sum : 0/' "$tmp/mine/rowwise.c"
# shellcheck disable=SC2086
attune $sweep --kernels rowwise --db "$tmp/wrong.sqlite"
[ "$(sqlite3 "$tmp/wrong.sqlite" "SELECT group_concat(DISTINCT outcome) FROM history")" = wrong ]
row $? 'where it is wrong it has no time'
cp tests/examples/plugin/rowwise.c "$tmp/mine"
# shellcheck disable=SC2086
attune $sweep --kernels rowwise --db "$tmp/cpu.sqlite" &&
	attune induce --gpu cpu --db "$tmp/cpu.sqlite" --out "$tmp/generated/attune_cpu.h"
row $? 'a header is induced from its times'
grep -q 'return cpu_rowwise' "$tmp/generated/attune_cpu.h"
row $? 'which names it'
make_with "$tmp/mine" lib
row $? 'the library is built with it'

cat >"$tmp/plan.c" <<'C'
#include <attune.h>
#include <stdio.h>
int main(void)
{
	static const int32_t start[] = { 0, 1, 2 }, lens[] = { 100, 128 };
	const attune_shape shape = { .size = sizeof(attune_shape), .num_query_heads = 8, .num_kv_heads = 2,
				     .head_size = 128, .page_size = 16,
				     .dtype = ATTUNE_BF16, .kv_dtype = ATTUNE_BF16, .causal = 1,
				     .scale = 0.088f };
	const attune_batch batch = { .size = sizeof(attune_batch), .num_seqs = 2, .query_start = start, .seq_lens = lens };
	attune_context *ctx;
	attune_op *op;
	attune_plan plan = { .size = sizeof plan };
	char text[600] = "";
	if (attune_open(&ctx, "cpu") || attune_prepare(ctx, &shape, &op) ||
	    attune_plan_batch(op, &batch, &plan) || attune_plan_text(op, &plan, text, sizeof text))
		printf("%s\n", attune_last_error());
	printf("%s\n", text);
	return 0;
}
C
${CC:-cc} -Ikernels "$tmp/plan.c" -o "$tmp/plan" "$tmp/build/libattune.a" -lpthread -ldl -lm \
	>"$tmp/log" 2>&1 && "$tmp/plan" >"$tmp/log" 2>&1 && grep -q rowwise "$tmp/log"
row $? 'and runs it'
make_with '' lib
[ $? -ne 0 ] && grep -q 'names kernel cpu/rowwise, which is not here; PLUGIN=DIR' "$tmp/log"
row $? 'without PLUGIN= the header that names it stops the build'
end_rows
