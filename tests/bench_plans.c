/* SPDX-License-Identifier: Apache-2.0 */
/* bench_plans.c - `make bench-plans`: what a call of attune_plan_batch takes, and how much more of it
 * where the context remembers what was settled. Not part of `make test`: times depend on the
 * machine.
 *
 *   bench_plans [DEVICE]      as in attune_open
 *
 * Two contexts take turns: one remembers nothing, the other a few hundred cells whose winners
 * are made up. A row says what its batch's cell has: nothing, the choice that the rules run anyway,
 * or another member, which may itself take more or less time to plan. */
#include "kernels/attune_settle.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MOST_SEQS = 256, CALLS = 2000, BLOCKS = 201 };

static void check(enum attune_status status)
{
	if (!status)
		return;
	fprintf(stderr, "bench_plans: %s\n", attune_last_error());
	exit(2);
}

struct lengths {
	int32_t start[MOST_SEQS + 1], lens[MOST_SEQS];
	attune_batch batch;
};

/* So many prefills of a length, and decodes at a length. */
static const attune_batch *batch_of(struct lengths *l, int prefills, int tokens, int decodes,
				    int keys)
{
	l->start[0] = 0;
	for (int i = 0; i < prefills + decodes; i++) {
		l->start[i + 1] = l->start[i] + (i < prefills ? tokens : 1);
		l->lens[i] = i < prefills ? tokens : keys;
	}
	l->batch = (attune_batch){ sizeof l->batch, prefills + decodes, l->start, l->lens };
	return &l->batch;
}

/* Three rounds in which the last alternative, or the present plan, takes half of the others' time. */
static void settle(const attune_op *op, const attune_batch *b, int to_last)
{
	attune_plan plan[ATTUNE_MOST_ALTERNATIVES];
	double us[ATTUNE_MOST_ALTERNATIVES];
	int n;
	for (int i = 0; i < ATTUNE_MOST_ALTERNATIVES; i++)
		plan[i].size = sizeof *plan;
	check(attune_plan_alternatives(op, b, plan, ATTUNE_MOST_ALTERNATIVES, &n));
	for (int i = 0; i < n; i++)
		us[i] = i == (to_last ? n - 1 : 0) ? 50 : 100;
	for (int round = 0; round < 3; round++)
		check(attune_report(op, b, plan, us, n));
}

static double ns_of(const attune_op *op, const attune_batch *b)
{
	attune_plan plan = { .size = sizeof plan };
	struct timespec from, to;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
	for (int i = 0; i < CALLS; i++)
		check(attune_plan_batch(op, b, &plan));
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
	return (1e9 * (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec)) /
	       CALLS;
}

static int compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

static void print_row(const char *name, const attune_op *none, const attune_op *some,
		      const attune_batch *b)
{
	static double base[BLOCKS], more[BLOCKS];
	for (int i = 0; i < BLOCKS; i++) {
		base[i] = ns_of(none, b);
		more[i] = ns_of(some, b) - base[i];
	}
	qsort(base, BLOCKS, sizeof *base, compare);
	qsort(more, BLOCKS, sizeof *more, compare);
	printf("%-32s %6.0f ns %+6.0f (%+.0f to %+.0f)\n", name, base[BLOCKS / 2], more[BLOCKS / 2],
	       more[BLOCKS / 10], more[BLOCKS - 1 - BLOCKS / 10]);
}

static void print_rows(const char *name, attune_context *remembers, attune_op *const op[2],
		       const attune_batch *b)
{
	puts(name);
	print_row("  not settled", op[0], op[1], b);
	for (int other = 0; other < 2; other++) {
		settle(op[1], b, other);
		check(attune_settled_commit(remembers));
		print_row(other ? "  settled to another member" : "  settled to the rules' choice",
			  op[0], op[1], b);
	}
}

static void open_op(attune_context **ctx, attune_op **op, const char *device)
{
	const attune_shape shape = { .size = sizeof shape,
				     .num_query_heads = 32,
				     .num_kv_heads = 8,
				     .head_size = 128,
				     .page_size = 16,
				     .dtype = ATTUNE_BF16,
				     .kv_dtype = ATTUNE_BF16,
				     .causal = 1 };
	check(attune_open(ctx, device));
	check(attune_prepare(*ctx, &shape, op));
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int prefills, tokens, decodes, keys;
	} rows[] = {
		{ "32 decodes of 4096 keys", 0, 0, 32, 4096 },
		{ "256 decodes of 1024 keys", 0, 0, 256, 1024 },
		{ "2 prefills of 2048 tokens", 2, 2048, 0, 0 },
		{ "a prefill beside 24 decodes", 1, 2048, 24, 1024 },
	};
	static struct lengths l;
	attune_context *ctx[2];
	attune_op *op[2];
	for (int i = 0; i < 2; i++)
		open_op(&ctx[i], &op[i], argc > 1 ? argv[1] : NULL);
	for (int seqs = 1; seqs <= 200; seqs += seqs / 4 + 1)
		for (int keys = 20000; keys <= 400000; keys += keys / 4)
			settle(op[1], batch_of(&l, 0, 0, seqs, keys), 1);
	check(attune_settled_commit(ctx[1]));
	printf("%s: attune_plan_batch, and how much more with a memory (median, 10th to 90th of %d "
	       "blocks)\n",
	       attune_device_name(ctx[0]), BLOCKS);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		print_rows(
		    rows[i].name, ctx[1], op,
		    batch_of(&l, rows[i].prefills, rows[i].tokens, rows[i].decodes, rows[i].keys));
	return 0;
}
