/* SPDX-License-Identifier: Apache-2.0 */
/* rules.c - asks the rules of a generated header by themselves: the choice that a leaf names for the
 * decodes of a batch, the choices that may run in its place, and which of them can. For an H200 write
 * h200 and H200 in place of cpu and CPU, and open "cuda". */
#include <attune.h>
#include <attune/attune_cpu.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT(id, name, kernel, tunables) #kernel " " tunables,
static const char *const choices[] = { ATTUNE_CPU_CHOICES(TEXT) };

static void check(enum attune_status status)
{
	if (status == ATTUNE_OK)
		return;
	fprintf(stderr, "%s: %s\n", attune_status_text(status), attune_last_error());
	exit(1);
}

/* The first choice of the row that can run the decodes; -1: none can. Then the rules behind the row
 * decide, which attune_plan_batch asks: attune_portable.h on NVIDIA GPUs, else the defaults. */
static int first_that_runs(const attune_op *op, const attune_batch *batch, int named)
{
	const struct attune_list row = attune_cpu_list(named); /* itself first */
	for (int i = 0; i < row.n; i++) {
		const enum attune_status status =
		    attune_choice_runs(op, batch, ATTUNE_PHASE_DECODE, row.at[i]);
		if (status != ATTUNE_UNSUPPORTED)
			check(status);
		printf("%s: %s\n", choices[row.at[i]],
		       status ? attune_last_error() : "can run the batch");
		if (status == ATTUNE_OK)
			return row.at[i];
	}
	return -1;
}

int main(void)
{
	/* clang-format off */
	const attune_shape shape = { .size = sizeof shape, .num_query_heads = 32, .num_kv_heads = 8,
		.head_size = 128, .page_size = 64, .causal = 1 };
	static const int32_t query_start[] = { 0, 1, 2, 3 }, seq_lens[] = { 300, 200, 400 };
	const attune_batch batch = { .size = sizeof batch, .num_seqs = 3,
		.query_start = query_start, .seq_lens = seq_lens };
	/* clang-format on */
	struct attune_features f;
	attune_plan plan = { .size = sizeof plan };
	attune_context *ctx;
	attune_op *op;
	char text[512];
	check(attune_open(&ctx, "cpu"));
	check(attune_prepare(ctx, &shape, &op));
	check(attune_batch_features(op, &batch, ATTUNE_PHASE_DECODE, &f, sizeof f));
	const int named = attune_cpu_decode(&f); /* cpu_defaults: no choice */
	const int runs = named < 0 ? -1 : first_that_runs(op, &batch, named);
	check(attune_plan_batch(op, &batch, &plan));
	check(attune_plan_text(op, &plan, text, sizeof text));
	printf("the plan is %s\n", text);
	attune_release(op);
	attune_close(ctx);
	/* The plan has the number where SEGMENTS is a rule. */
	const char *segments = runs < 0 ? NULL : strstr(choices[runs], " SEGMENTS=");
	return segments && strncmp(text, choices[runs], (size_t)(segments - choices[runs])) != 0;
}
