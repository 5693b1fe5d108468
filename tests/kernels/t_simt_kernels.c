/* SPDX-License-Identifier: Apache-2.0 */
/* t_simt_kernels.c - the GPU's kernels against the definition on the emulated GPU, through the
 * gate that a sweep uses. Arguments: only these kernels.
 *
 * For each kernel: the defaults and the ends of each launch axis on one shape, a random point on
 * another, and the table below; each over a few corner batches, with turns in order and in two
 * random orders. ATTUNE_SIMT=full: all points of t_gpu_kernels, over all corner batches in each
 * order; takes hours. */
#include "harness/base/base.h"
#include "harness/check/check.h"
#include "harness/scenario/scenario.h"
#include "tests/support/all_rows.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tests/support/gpu_rows.h"
#include "tests/simt/simt_device.h"

enum { ATTEMPTS = 200, KEYS_OF_HEADS = 20000, LONG = 1000, LONG_QUERY = 100, MOST_UNITS = 1 };

/* The more units, the more values of the axes are legal; static grids are as large. */
static const struct {
	int units;
	unsigned seed;
	const char *batches[8]; /* of a short run */
} orders[] = {
	{ 4,
	  0,
	  { "q1s1", "q0_q1s40_q0s100_q1s1_2q0", "q40s17_q20s0_q9s8", "q4s1_q8s3_q1s0_q2s2",
	    "q2s2_q3s50_q4s64_q5s65_q6s131_q7s16_q8s523", "q1s4113" } },
	{ 132,
	  1,
	  { "q1s33_q40_q1s1_q50s96_q2s34_q9s544_q1s257",
	    "q141s300_5q1s60_q11_q1s170_q0s5_q1s16_q1s1", "q16_q17_q15" } },
	{ 7, 2, { "3q1s1100_q1s3_q1s2000", "q0_q30_q0_q13s300_q0" } },
};

/* Additional points of a short run, on the shape with a name that begins so. Those of qblock, which are
 * all that is carried for these heads, are never left out. */
static const struct {
	const char *kernel, *shape, *values;
} also[] = {
	{ "qblock", "group 2, head 16", "" },
	{ "qblock", "group 6, head 32", "" },
	{ "warpgroup", "group 4", "PACKED=1" },
	{ "warpgroup", "group 4", "SEGMENTS=4 PERSISTENT=0" },
	{ "warpgroup", "group 7", "PACKED=1 BLOCK_M=64 TURNS=0 TILE_SIZE=64 SEGMENTS=3" },
	{ "warpgroup", "one KV head, group 40", "PACKED=1" },
	{ "warpgroup", "window and sinks", "PACKED=1 TILE_SIZE=64 SEGMENTS=2" },
	{ "warpgroup", "window and sinks", "PACKED=1 BLOCK_M=64 TURNS=0 TILE_SIZE=64 SEGMENTS=2" },
	{ "warpgroup", "all at once, head 96", "PACKED=1 BLOCK_M=192 TILE_SIZE=64" },
	{ "warpgroup", "all at once, head 96", "TILE_SIZE=64 SEGMENTS=2" },
	{ "warpgroup_mixed", "window and sinks", "PREFILL_TILE=96 DECODE_WARPS=12" },
	{ "warpgroup_mixed", "group 7", "DECODE_TILE=32 PREFILL_SEGMENTS=3" },
	{ "warpgroup_mixed", "group 16", "PREFILL_TILE=96 DECODE_STAGES=2" },
	{ "warpgroup_mixed", "one KV head, group 5", "PREFILL_SEGMENTS=3" },
	{ "warpgroup_mixed", "all at once, head 96", "DECODE_WARPS=12 DECODE_STAGES=2" },
};

static int is_full;
static unsigned char stays[MAX_TESTS];    /* the row */
static size_t first_row[SIMT_MI300X + 1]; /* of each GPU */

static enum simt_gpu gpu_of(const struct row *r)
{
	return r >= rows + first_row[SIMT_MI300X] ? SIMT_MI300X : SIMT_H200;
}

static enum attune_status load_code(struct code **code, const struct kernel *k, const char *flags)
{
	return simt_load(&dev, code, k->source, flags);
}

static const char *const *batches_of(size_t order)
{
	return is_full ? corner_batches : orders[order].batches;
}

/* A short run takes batches with few keys over all heads; a batch without prefills or without
 * decodes runs whole only. The result is for run_phases(). */
static unsigned phases_of(const attune_shape *s, const struct batch *b)
{
	long long keys = 0;
	unsigned has = 0;
	for (int i = 0; i < b->view.num_seqs; i++) {
		const int query = b->query_start[i + 1] - b->query_start[i];
		keys += b->seq_lens[i];
		has |= query ? 1u << seq_phase(query) : 0;
	}
	if (is_full)
		return ~0u;
	if (keys * s->num_query_heads > KEYS_OF_HEADS)
		return 0;
	return 1u << PHASE_ALL | (has & (has - 1) ? has : 0);
}

/* A short run skips long sequences unless the kernel cuts them into segments, and long queries if
 * they take more than four Q blocks. */
static int is_worth_it(const struct row *r, const struct batch *b, enum phase phase)
{
	const attune_shape *s = &shapes[r->shape].s;
	struct choice as;
	struct part part;
	struct geometry g;
	if (!phase_is_legal(&r->choice, s, b, phase, &as) ||
	    !part_make(&part, phase, s, &b->view, &dev.info))
		return 0;
	as.kernel->space->geometry(&as.config, s, &part, &dev.info, &g);
	const struct space *space = as.kernel->space;
	const int block_m = config_value(&as.config, space, "BLOCK_M", space->is_fused ? 128 : 1);
	return is_full || ((g.segments > 1 || part.f.max_seq < LONG) &&
			   (part.f.max_query < LONG_QUERY || part.f.max_query <= 4 * block_m));
}

static unsigned takes(const struct row *r, const char *text)
{
	char error[160];
	struct batch *b = batch_parse(text, error, sizeof error);
	if (!b)
		fail_msg("%s: %s", text, error);
	unsigned phases = phases_of(&shapes[r->shape].s, b);
	for (enum phase p = PHASE_ALL; p <= PHASE_DECODE; p++)
		if (!is_worth_it(r, b, p))
			phases &= ~(1u << p);
	batch_free(b);
	return phases & (1u << PHASE_ALL | 1u << PHASE_PREFILL | 1u << PHASE_DECODE);
}

static int runs_somewhere(const struct row *r)
{
	int runs = 0;
	for (size_t i = 0; i < COUNT(orders); i++) {
		simt_set(&dev, orders[i].units, orders[i].seed);
		for (const char *const *text = batches_of(i); *text; text++)
			runs += takes(r, *text) != 0;
	}
	return runs;
}

static void passes_in_order(const struct row *r, const struct loaded *l, size_t order)
{
	simt_set(&dev, orders[order].units, orders[order].seed);
	for (const char *const *text = batches_of(order); *text; text++) {
		struct verdict v;
		const unsigned phases = takes(r, *text);
		run_phases(&v, r, l, *text, phases);
		if (v.outcome != OUTCOME_OK)
			fail_msg("%s, %d units, seed %u: %s: %s", *text, orders[order].units,
				 orders[order].seed, outcome_name(v.outcome),
				 v.outcome == OUTCOME_CRASH ? attune_last_error() : v.text);
	}
}

static void passes(void **state)
{
	const struct row *r = *state;
	struct loaded l;
	simt_pose(&dev, gpu_of(r));
	load_choice(&l, &r->choice, &shapes[r->shape].s);
	for (size_t i = 0; i < COUNT(orders); i++)
		passes_in_order(r, &l, i);
	unload_choice(&l);
}

static void has_no_row(void **state)
{
	fail_msg("%s: no point of it is legal for any shape and batch, or some should not be",
		 (const char *)*state);
}

static void name_gpu(struct row *r)
{
	char name[sizeof r->name];
	snprintf(name, sizeof name, "%s: %.*s", dev.info.gpu, (int)sizeof name - GPU_NAME - 4,
		 r->name);
	memcpy(r->name, name, sizeof name);
}

/* On the first shape from that one on for which some batch runs; which, or -1. */
static int add_somewhere(const struct choice *c, int shape)
{
	for (size_t tried = 0; tried < COUNT(shapes); tried++, shape++) {
		const size_t before = num_rows;
		simt_set(&dev, orders[MOST_UNITS].units, 0);
		add_row(c, shape % (int)COUNT(shapes));
		if (num_rows > before && runs_somewhere(&rows[before]))
			return shape % (int)COUNT(shapes);
		num_rows = before;
	}
	return -1;
}

/* Shapes go on from kernel to kernel, so that all are seen. */
static void add_few_points(const struct kernel *k)
{
	static int turn;
	const struct choice c = default_choice(k);
	const int shape = add_somewhere(&c, turn);
	for (int i = 0; i < k->space->num_axes && shape >= 0; i++) {
		const struct axis *a = &k->space->axis[i];
		for (int end = 0; end < 2 && !a->is_static; end++) {
			struct choice other = c;
			other.config.v[i] = a->values[end ? a->num_values - 1 : 0];
			if (other.config.v[i] != c.config.v[i])
				add_somewhere(&other, shape);
		}
	}
	turn = shape + 1;
	for (int i = 0, found = -1; i < ATTEMPTS && found < 0 && shape >= 0; i++) {
		const struct choice random = random_choice(k);
		found = add_somewhere(&random, turn);
		turn = found < 0 ? turn : found + 1;
	}
}

/* 0: one of them runs nowhere. */
static int add_also(const struct kernel *k)
{
	for (size_t i = 0; i < COUNT(also); i++) {
		struct choice c = default_choice(k);
		const size_t before = num_rows;
		int shape = 0;
		if (strcmp(k->name, also[i].kernel))
			continue;
		while (strncmp(shapes[shape].name, also[i].shape, strlen(also[i].shape)))
			assert_true(++shape < (int)COUNT(shapes));
		choice_change(&c, also[i].values);
		add_row(&c, shape);
		if (num_rows == before || !runs_somewhere(&rows[before]))
			return 0;
		stays[before] = !strcmp(k->name, "qblock");
	}
	return 1;
}

/* 0: rows are missing, or exist where they should not. */
static int add_rows(const struct kernel *k, enum simt_gpu gpu)
{
	const size_t before = num_rows;
	if (k->backend != BACKEND_GPU || !k->selectable)
		return 1;
	is_full ? add_points(k) : add_few_points(k);
	if ((gpu == SIMT_H200 || is_for_amd(k)) && !add_also(k))
		return 0;
	for (size_t i = before; i < num_rows; i++)
		name_gpu(&rows[i]);
	return (num_rows > before) == (gpu == SIMT_H200 || is_for_amd(k));
}

/* Compiles all rows, at once; a row reports its own compilation error. */
static void compile_all(void)
{
	struct code **v = calloc(num_rows * (1 + NUM_HELPERS), sizeof(struct code *));
	int n = 0;
	for (size_t i = 0; i < num_rows; i++) {
		struct loaded l;
		simt_pose(&dev, gpu_of(&rows[i]));
		load_choice(&l, &rows[i].choice, &shapes[rows[i].shape].s);
		v[n++] = l.code;
		for (enum helper h = 0; h < NUM_HELPERS; h++)
			if (l.helper[h])
				v[n++] = l.helper[h];
	}
	(void)simt_compile(v, n);
	while (n)
		dev.ops->unload(&dev, v[--n]);
	free(v);
}

/* Every second row, and those that stay; rows of a kernel are consecutive. */
static void thin_out(void)
{
	const size_t first = first_row[SIMT_MI300X];
	size_t n = 0;
	for (size_t i = 0; i < num_rows; i++) {
		if (i == first)
			first_row[SIMT_MI300X] = n;
		if (i % 2 == 0 || stays[i])
			rows[n++] = rows[i];
	}
	num_rows = n;
}

int main(int argc, char **argv)
{
	static struct CMUnitTest tests[MAX_TESTS + 32];
	size_t n = 0;
	is_full = all_rows_asked();
	if (simt_open(&dev, orders[MOST_UNITS].units, 0)) {
		printf("Bail out! %s\n", attune_last_error());
		return 1;
	}
	for (size_t i = 0; i < COUNT(shapes); i++)
		shapes[i].s.has_new_kv = 1;
	for (enum simt_gpu gpu = SIMT_H200; gpu <= SIMT_MI300X; gpu++) {
		first_row[gpu] = num_rows;
		simt_pose(&dev, gpu);
		for (const struct kernel *k = attune_kernels; k->name; k++)
			if (is_asked(k->name, argc - 1, argv + 1) && !add_rows(k, gpu))
				tests[n++] = (struct CMUnitTest){ k->name, has_no_row, NULL, NULL,
								  (void *)(uintptr_t)k->name };
	}
	if (!is_full && argc < 2)
		thin_out();
	for (size_t i = 0; i < num_rows; i++)
		tests[n++] = (struct CMUnitTest){ rows[i].name, passes, NULL, NULL, &rows[i] };
	compile_all();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const int failed = _cmocka_run_group_tests("simt_kernels", tests, n, NULL, NULL);
	pool_free(&dev, pool);
	device_close(&dev);
	return failed;
}
