/* SPDX-License-Identifier: Apache-2.0 */
/* t_cdna.c - executes the GPU kernels' code for AMD's GPUs instruction by instruction
 * (tests/cdna/cdna.h) and compares results with the definition, and with the same source on the
 * emulated GPU. Skips itself without a compiler or a disassembler. Arguments: only these
 * kernels. ATTUNE_SIMT=full: all points of t_gpu_kernels. */
#include "harness/base/base.h"
#include "harness/check/check.h"
#include "harness/compile/compile.h"
#include "harness/scenario/scenario.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include "tests/support/all_rows.h"
#include <stdio.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tests/cdna/cdna_device.h"
#include "tests/support/gpu_rows.h"
#include "tests/simt/simt_device.h"

enum { RANDOM_POINTS = 1, ATTEMPTS = 200, MOST_UNITS = 1 };

#define WHOLE (1u << PHASE_ALL)
#define PARTS (1u << PHASE_PREFILL | 1u << PHASE_DECODE)
static const struct run {
	int units;
	unsigned seed;
	const char *batch;
	unsigned phases;
	int is_for_all; /* also of GPUs of which only defaults are run */
} runs[] = {
	{ 4, 0, "q1s1_q0s100_q1s40_q3s9", WHOLE, 0 },
	{ 132, 1, "q1s33_q18_q1s70", WHOLE | PARTS, 1 },
	{ 7, 2, "q2s2_q9s65_q1s131", WHOLE, 0 },
	{ 4, 3, "q1s700_q1s2", WHOLE, 1 }, /* for kernels that cut sequences */
};

/* All points use the first of those chips that a compiler here knows; the others run the
 * defaults. */
static const char *const gpus[] = { "mi300", "mi250", "mi350" };

static const char *gpu_of[MAX_TESTS]; /* of each row */
/* The first of a kernel's, which the emulated GPU runs, too. */
static char is_default[MAX_TESTS];
static int by_fibers; /* the chip and shape that code is loaded for */

static enum attune_status load_code(struct code **code, const struct kernel *k, const char *flags)
{
	return by_fibers ? simt_load(&dev, code, k->source, flags)
			 : cdna_load_kernel(code, dev.info.arch, k, flags);
}

static int is_first; /* the GPU that we are now */

static void become(const char *gpu)
{
	is_first = gpu == gpus[0];
	gpu_describe(&dev.info, gpu_model(gpu));
}

static int is_due(const struct run *run)
{
	return is_first || run->is_for_all;
}

/* ---- against the definition ----------------------------------------------------------- */

static void passes(void **state)
{
	const struct row *r = *state;
	struct loaded l;
	by_fibers = 0;
	become(gpu_of[r - rows]);
	load_choice(&l, &r->choice, &shapes[r->shape].s);
	for (size_t i = 0; i < COUNT(runs); i++) {
		struct verdict v;
		if (!is_due(&runs[i]))
			continue;
		simt_set(&dev, runs[i].units, runs[i].seed);
		run_phases(&v, r, &l, runs[i].batch, runs[i].phases);
		if (v.outcome != OUTCOME_OK)
			fail_msg("%s, %d units, seed %u: %s: %s", runs[i].batch, runs[i].units,
				 runs[i].seed, outcome_name(v.outcome),
				 v.outcome == OUTCOME_CRASH ? attune_last_error() : v.text);
	}
	unload_choice(&l);
}

/* ---- against fibers ------------------------------------------------------------------- */

/* Its output, to be freed, once it has passed. */
static uint16_t *output_of(const struct choice *c, const struct loaded *l, struct workload *w,
			   enum phase phase)
{
	struct verdict v;
	check_workload(&v, w, c, l, phase, MOST_ROWS);
	if (v.outcome != OUTCOME_OK)
		fail_msg("%s", v.text);
	uint16_t *out = malloc(w->out_bytes);
	assert_non_null(out);
	assert_int_equal(dev.ops->get(&dev, out, w->memory[0], w->out_bytes), ATTUNE_OK);
	return out;
}

static float value_of_bits(int is_bf16, uint16_t bits)
{
	const uint32_t wide = (uint32_t)bits << 16;
	float f;
	memcpy(&f, &wide, sizeof f);
	return is_bf16 ? f : simt_from_half(bits);
}

/* Distance of two 16-bit floats in roundings. */
static int distance(uint16_t a, uint16_t b)
{
	const int x = a & 0x8000 ? -(a & 0x7fff) : a, y = b & 0x8000 ? -(b & 0x7fff) : b;
	return abs(x - y);
}

/* Compilers fuse other sums, so a few values are rounded otherwise; or the weight of one key
 * is, which where the sum of all is nearly 0 is more than one rounding of the result. */
static void are_alike(const struct row *r, const struct run *run, const uint16_t *x,
		      const uint16_t *y, size_t n)
{
	const int is_bf16 = shapes[r->shape].s.dtype == ATTUNE_BF16;
	size_t different = 0;
	for (size_t i = 0; i < n; i++) {
		const float one = value_of_bits(is_bf16, x[i]);
		const float other = value_of_bits(is_bf16, y[i]);
		different += x[i] != y[i];
		if (distance(x[i], y[i]) > 1 && !(fabsf(one - other) < 0x1p-14f))
			fail_msg("%s, seed %u: element %zu is %g, by fibers %g", run->batch,
				 run->seed, i, (double)one, (double)other);
	}
	if (different > n / 1000)
		fail_msg("%s, seed %u: %zu of %zu elements are rounded otherwise by fibers",
			 run->batch, run->seed, different, n);
}

/* l: the code object's, then the fibers'. */
static void agrees_on(const struct row *r, const struct loaded l[2], const struct run *run,
		      enum phase phase)
{
	char error[160];
	struct batch *b = batch_parse(run->batch, error, sizeof error);
	assert_non_null(b);
	struct scenario s = { .batch_text = (char *)(uintptr_t)run->batch,
			      .batch = b,
			      .shape = shapes[r->shape].s,
			      .layout = shapes[r->shape].layout,
			      .seed = 3 };
	struct choice as;
	if (phase_is_legal(&r->choice, &s.shape, b, phase, &as)) {
		struct workload w;
		assert_int_equal(workload_make(&w, &dev, &pool, &s, WORKLOAD_CHECK, 0), ATTUNE_OK);
		uint16_t *x = output_of(&as, &l[0], &w, phase);
		uint16_t *y = output_of(&as, &l[1], &w, phase);
		are_alike(r, run, x, y, w.out_bytes / sizeof *x);
		free(x);
		free(y);
		workload_free(&w);
	}
	batch_free(b);
}

static void agrees(void **state)
{
	const struct row *r = *state;
	struct loaded l[2];
	become(gpu_of[r - rows]);
	for (by_fibers = 0; by_fibers < 2; by_fibers++)
		load_choice(&l[by_fibers], &r->choice, &shapes[r->shape].s);
	for (size_t i = 0; i < COUNT(runs); i++) {
		simt_set(&dev, runs[i].units, runs[i].seed);
		for (enum phase p = PHASE_ALL; p <= PHASE_DECODE; p++)
			if (runs[i].phases >> p & 1)
				agrees_on(r, l, &runs[i], p);
	}
	unload_choice(&l[0]);
	unload_choice(&l[1]);
}

/* ---- rows ----------------------------------------------------------------------------- */

static int is_legal_for(const struct row *r, const struct run *run)
{
	char error[160];
	struct batch *b = batch_parse(run->batch, error, sizeof error);
	struct choice as;
	int legal = 0;
	assert_non_null(b);
	simt_set(&dev, run->units, run->seed);
	for (enum phase p = PHASE_ALL; p <= PHASE_DECODE; p++)
		legal |= run->phases >> p & 1 &&
			 phase_is_legal(&r->choice, &shapes[r->shape].s, b, p, &as);
	batch_free(b);
	return legal;
}

/* On the first shape from that one on for which some batch runs; which, or -1. */
static int add_somewhere(const struct choice *c, int shape)
{
	for (size_t tried = 0; tried < COUNT(shapes); tried++, shape++) {
		const size_t before = num_rows;
		int legal = 0;
		simt_set(&dev, runs[MOST_UNITS].units, 0);
		add_row(c, shape % (int)COUNT(shapes));
		for (size_t i = 0; i < COUNT(runs) && num_rows > before; i++)
			legal |= is_due(&runs[i]) && is_legal_for(&rows[before], &runs[i]);
		if (legal)
			return shape % (int)COUNT(shapes);
		num_rows = before;
	}
	return -1;
}

/* The default, both ends of axes that cost no compilation, and random points. Shapes continue
 * from kernel to kernel, so that each is used. */
static void add_few_points(const struct kernel *k)
{
	static int turn;
	const struct choice c = default_choice(k);
	const size_t first = num_rows;
	const int shape = add_somewhere(&c, turn);
	is_default[first] = num_rows > first;
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
	for (int n = 0, i = 0; n < RANDOM_POINTS && i < ATTEMPTS; i++) {
		const struct choice random = random_choice(k);
		const int found = add_somewhere(&random, turn);
		n += found >= 0;
		turn = found < 0 ? turn : found + 1;
	}
}

static void has_no_row(void **state)
{
	fail_msg("%s: no point of it is legal for any shape and batch", (const char *)*state);
}

/* Side by side, into the cache. */
static void compile_from(size_t first)
{
	struct binaries all = { .arch = dev.info.arch };
	for (size_t i = first; i < num_rows; i++)
		(void)binaries_add(&all, &rows[i].choice, &shapes[rows[i].shape].s);
	(void)binaries_compile(&all); /* a row reports its own compilation error */
	binaries_free(&all);
}

static void add_kernel(const struct kernel *k, int is_full)
{
	static int turn;
	const struct choice c = default_choice(k);
	if (!is_first)
		turn = add_somewhere(&c, turn) + 1;
	else if (is_full)
		add_points(k);
	else
		add_few_points(k);
}

/* Adds rows of that GPU, also for kernels without any. */
static size_t add_rows(struct CMUnitTest *tests, const char *gpu, int num_asked, char **asked)
{
	const size_t first = num_rows;
	size_t n = 0;
	become(gpu);
	for (const struct kernel *k = attune_kernels; k->name; k++) {
		const size_t before = num_rows;
		if (k->backend != BACKEND_GPU || !k->selectable ||
		    !is_asked(k->name, num_asked, asked))
			continue;
		add_kernel(k, all_rows_asked());
		if ((num_rows > before) != is_for_amd(k))
			tests[n++] = (struct CMUnitTest){ k->name, has_no_row, NULL, NULL,
							  (void *)(uintptr_t)k->name };
	}
	for (size_t i = first; i < num_rows; i++)
		gpu_of[i] = gpu;
	compile_from(first);
	return n;
}

int main(int argc, char **argv)
{
	static struct CMUnitTest tests[2 * MAX_TESTS];
	static char name[MAX_TESTS][2][360];
	const char *why_not = cdna_why_not(gpu_model(gpus[0])->arch);
	size_t n = 0;
	if (why_not) {
		printf("1..0 # SKIP %s\n", why_not);
		return 0;
	}
	if (simt_open(&dev, runs[MOST_UNITS].units, 0)) {
		printf("Bail out! %s\n", attune_last_error());
		return 1;
	}
	for (size_t i = 0; i < COUNT(shapes); i++)
		shapes[i].s.has_new_kv = 1;
	for (size_t i = 0; i < COUNT(gpus); i++)
		if (!cdna_why_not(gpu_model(gpus[i])->arch))
			n += add_rows(tests + n, gpus[i], argc - 1, argv + 1);
	for (size_t i = 0; i < num_rows; i++) {
		snprintf(name[i][0], sizeof name[i][0], "%s: %.320s", gpu_of[i], rows[i].name);
		snprintf(name[i][1], sizeof name[i][1], "as fibers: %.320s", rows[i].name);
		tests[n++] = (struct CMUnitTest){ name[i][0], passes, NULL, NULL, &rows[i] };
		if (is_default[i])
			tests[n++] =
			    (struct CMUnitTest){ name[i][1], agrees, NULL, NULL, &rows[i] };
	}
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const int failed = _cmocka_run_group_tests("cdna", tests, n, NULL, NULL);
	pool_free(&dev, pool);
	device_close(&dev);
	return failed;
}
