/* SPDX-License-Identifier: Apache-2.0 */
/* t_schedule.c - the list of Q blocks for static kernels: the host's list against a count block
 * by block, the list written by the device or the emulated one against the host's, and
 * geometries. */
#include "harness/compile/compile.h"
#include "kernels/args.h"
#include "kernels/launch/op.h"
#include "kernels/launch/run.h"
#include "kernels/gpu/helpers/schedule_list.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/part.h"
#include "kernels/spec/space.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tests/support/gpu_here.h"

enum { ROUNDS = 400, MOST_SEQS = 2600, GUARD = 0x5eed };

static const struct device_info h200 = { .backend = BACKEND_GPU,
					 .arch = "sm_90",
					 .units = 132,
					 .lanes = 32,
					 .smem_per_block = 227 << 10,
					 .smem_per_unit = 228 << 10 };
static const attune_shape shape = { sizeof(attune_shape), 8,           2,          128, 16,
				    ATTUNE_BF16,          ATTUNE_BF16, .causal = 1 };

static unsigned below(unsigned n)
{
	static unsigned long long seed = 11;
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned)(seed >> 33) % n;
}

static struct lengths {
	attune_batch batch;
	int32_t start[MOST_SEQS + 1], seq[MOST_SEQS];
} l;

/* Also sequences without a query; few sequences and many; all alike and not. */
static void random_batch(void)
{
	const unsigned longest = below(2) ? 1 + below(2) : 1 + below(300);
	l.batch = (attune_batch){ sizeof(attune_batch), 1 + (int)below(below(8) ? 40 : MOST_SEQS),
				  l.start, l.seq };
	for (int i = 0; i < l.batch.num_seqs; i++) {
		const int32_t query = (int32_t)(below(4) ? below(longest + 1) : below(2));
		l.start[i + 1] = l.start[i] + query;
		l.seq[i] = query + (int32_t)below(50);
	}
}

static struct choice random_choice(const struct part *p)
{
	struct choice c = { .kernel = kernel_find(BACKEND_GPU, below(2) ? "qblock_static"
									: "segmented_static") };
	const struct space *s = c.kernel->space;
	do
		for (int i = 0; i < s->num_axes; i++)
			c.config.v[i] = s->axis[i].values[below((unsigned)s->axis[i].num_values)];
	while (s->why_illegal(&c.config, &shape, p, &h200));
	return c;
}

/* Goes through the part's sequences token by token, a block begins every so many. */
static void assert_lists(const int *words, const struct part *p, int tokens)
{
	int blocks = 0;
	assert_int_equal(words[SCHEDULE_PREFIX], 0);
	for (int i = 0; i < p->seq_count; i++) {
		const int *start = &l.start[p->seq_begin + i], query = start[1] - start[0];
		for (int t = 0; t < query; t++)
			blocks += query >= p->min_query && query <= p->max_query && t % tokens == 0;
		assert_int_equal(words[SCHEDULE_PREFIX + i + 1], blocks);
	}
	assert_int_equal(words[SCHEDULE_BLOCKS], blocks);
	assert_int_equal(words[SCHEDULE_TOKENS], tokens);
	assert_int_equal(words[SCHEDULE_VARIANT], 0);
}

static int random_part(struct part *p)
{
	random_batch();
	return part_make(p, (enum phase)below(3), &shape, &l.batch, &h200);
}

static void host_lists_every_block(void **state)
{
	static int words[SCHEDULE_WORDS(MOST_SEQS) + 1];
	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		struct part p;
		if (!random_part(&p))
			continue;
		const struct choice c = random_choice(&p);
		const size_t n = part_schedule_words(c.kernel, &p);
		const int rows = config_value(&c.config, c.kernel->space, "BLOCK_M", 0);
		words[n] = GUARD;
		part_schedule(words, c.kernel, &c.config, &shape, &p, &h200, l.start);
		assert_lists(words, &p, rows / 4);
		assert_int_equal(words[SCHEDULE_SEGMENTS],
				 config_value(&c.config, c.kernel->space, "SEGMENTS", 1));
		assert_int_equal(words[n], GUARD);
	}
}

/* The grid is the device's, all of it is counted by the items, and blocks that spare SMs
 * leave no room for others on theirs. */
static void grids_depend_on_the_device(void **state)
{
	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		struct part p;
		struct geometry g;
		if (!random_part(&p))
			continue;
		const struct choice c = random_choice(&p);
		const struct space *s = c.kernel->space;
		const int each = config_value(&c.config, s, "BLOCKS_PER_SM", 0);
		const int spare = config_value(&c.config, s, "SPARE_UNITS", 0);
		s->geometry(&c.config, &shape, &p, &h200, &g);
		assert_int_equal(g.x, 132 * each);
		assert_int_equal(g.y * g.z, 1);
		assert_true((int)g.smem * each <= h200.smem_per_unit);
		assert_true(!spare || (each + 1) * ((int)g.smem + 2048) > h200.smem_per_unit);
		assert_true(geometry_items(&g) >= p.f.num_seqs * g.segments);
		/* the list, and two counters for tickets */
		assert_int_equal(g.scratch, sizeof(int) * (part_schedule_words(c.kernel, &p) + 2));
	}
}

static void others_take_no_list(void **state)
{
	const struct part p = { .seq_count = 7 };
	(void)state;
	for (const struct kernel *k = attune_kernels; k->name; k++)
		if (!strstr(k->name, "_static")) {
			assert_int_equal(part_schedule_words(k, &p), 0);
			assert_false(kernel_takes(k, NULL, HELPER_SCHEDULE));
		}
}

/* ---- of a plan -------------------------------------------------------------------------- */

/* An op of a GPU that is not here, with a code for each choice. */
static struct ready ready[] = { { .code = (struct code *)&l },
				{ .code = (struct code *)&l },
				{ .code = (struct code *)&l } };
static attune_context context;
static attune_op op = { .ctx = &context, .num_ready = COUNT(ready), .ready = ready };

static void make_ready(void)
{
	static const char *const names[COUNT(ready)] = { "qblock_static", "segmented_static",
							 "qblock" };
	context.device.info = h200;
	op.shape = shape;
	for (size_t i = 0; i < COUNT(ready); i++) {
		ready[i].kernel = kernel_find(BACKEND_GPU, names[i]);
		config_default(&ready[i].config, ready[i].kernel->space);
	}
}

static const struct sequences {
	int32_t start[6], seq[5];
} five = { { 0, 1, 41, 42, 42, 112 }, { 900, 40, 77, 5, 300 } };
static const attune_batch five_batch = { sizeof(attune_batch), 5, five.start, five.seq };

/* Queries 1, 40, 1, 0, 70: prefills 40 and 70, then decodes 1 and 1. */
static attune_plan two_parts(int prefill, int decode)
{
	return (attune_plan){ .size = sizeof(attune_plan),
			      .num_parts = 2,
			      .num_tokens = 112,
			      .num_seqs = 5,
			      .part = { { prefill, 1, 4, 40, 70, .range_tokens = 111 },
					{ decode, 0, 3, 1, 1, 2, .range_tokens = 42 } } };
}

static void plans_have_one_list_a_part(void **state)
{
	/* 16 rows of 4 heads: Q blocks of 4 tokens; qblock has none */
	static const struct {
		int prefill, decode, n, words[18];
	} rows[] = {
		{ 0, 1, 17, { 28, 1, 0, 4, 0, 10, 10, 10, 28, 2, 2, 0, 4, 0, 1, 1, 2, GUARD } },
		{ 2, 1, 8, { 2, 2, 0, 4, 0, 1, 1, 2, GUARD } },
		{ 0, 2, 9, { 28, 1, 0, 4, 0, 10, 10, 10, 28, GUARD } },
		{ 2, 2, 0, { GUARD } },
	};
	(void)state;
	make_ready();
	for (size_t i = 0; i < COUNT(rows); i++) {
		const attune_plan plan = two_parts(rows[i].prefill, rows[i].decode);
		int32_t words[18] = { 0 };
		size_t n = 99;
		assert_false(attune_schedule(&op, &plan, &five_batch, NULL, 0, &n));
		assert_int_equal(n, rows[i].n);
		words[n] = GUARD;
		assert_false(attune_schedule(&op, &plan, &five_batch, words, n, &n));
		assert_memory_equal(words, rows[i].words, (n + 1) * sizeof *words);
		if (n)
			assert_int_equal(attune_schedule(&op, &plan, &five_batch, words, n - 1, &n),
					 ATTUNE_TOO_SMALL);
	}
}

static void strange_plans_have_no_list(void **state)
{
	const attune_batch four = { sizeof(attune_batch), 4, five.start, five.seq };
	attune_plan plan = two_parts(0, 1);
	size_t n;
	(void)state;
	make_ready();
	assert_int_equal(attune_schedule(&op, &plan, &four, NULL, 0, &n), ATTUNE_INVALID);
	assert_int_equal(attune_schedule(&op, &plan, NULL, NULL, 0, &n), ATTUNE_INVALID);
	plan.part[0].choice = COUNT(ready);
	assert_int_equal(attune_schedule(&op, &plan, &five_batch, NULL, 0, &n), ATTUNE_INVALID);
}

/* ---- on the device ---------------------------------------------------------------------- */

static struct device dev;

static struct code *load(const struct kernel *k)
{
	struct config c;
	struct binary b;
	struct code *code;
	char flags[MAX_FLAGS];
	config_default(&c, k->space);
	binary_flags(flags, sizeof flags, k, &c, &shape);
	if (dev.ops == &simt_ops) {
		assert_int_equal(simt_load(&dev, &code, k->source, flags), ATTUNE_OK);
		return code;
	}
	if (jit_compile(&b, k, flags, dev.info.arch))
		fail_msg("%s %s: %s", k->name, flags, b.log);
	if (dev.ops->load(&dev, &code, &b.blob))
		fail_msg("%s", attune_last_error());
	jit_free(&b);
	return code;
}

static void device_writes_the_same(void **state)
{
	static int words[SCHEDULE_WORDS(MOST_SEQS)], host[SCHEDULE_WORDS(MOST_SEQS)];
	const struct kernel *k = kernel_helper(BACKEND_GPU, HELPER_SCHEDULE);
	struct geometry g;
	struct config c;
	void *start, *list;
	(void)state;
	struct code *code = load(k);
	config_default(&c, k->space);
	assert_false(dev.ops->alloc(&dev, &start, sizeof l.start));
	assert_false(dev.ops->alloc(&dev, &list, sizeof words));
	for (int round = 0; round < ROUNDS; round++) {
		struct part p;
		if (!random_part(&p))
			continue;
		const struct choice as = random_choice(&p);
		const size_t n = part_schedule_words(as.kernel, &p);
		part_schedule(host, as.kernel, &as.config, &shape, &p, &h200, l.start);
		const struct attune_args a = { .query_start = start,
					       .seq_begin = p.seq_begin,
					       .seq_count = p.seq_count,
					       .min_query = p.min_query,
					       .max_query = p.max_query,
					       .segments = host[SCHEDULE_SEGMENTS],
					       .scratch = list,
					       .option = { host[SCHEDULE_TOKENS] } };
		k->space->geometry(&c, &shape, &p, &dev.info, &g);
		assert_false(dev.ops->put(&dev, start, l.start, sizeof l.start));
		assert_false(dev.ops->fill(&dev, list, 0xff, sizeof words));
		assert_false(dev.ops->launch(&dev, code, &g, &a, sizeof a, NULL));
		assert_false(dev.ops->wait(&dev, NULL));
		assert_false(dev.ops->get(&dev, words, list, sizeof words));
		assert_memory_equal(words, host, n * sizeof *words);
		if (n < COUNT(words))
			assert_int_equal(words[n], -1);
	}
	dev.ops->release(&dev, start);
	dev.ops->release(&dev, list);
	dev.ops->unload(&dev, code);
}

/* By waves of 64; where a GPU is, the emulated one has its turn here. */
static void waves_of_64_write_the_same(void **state)
{
	const struct device here = dev;
	assert_int_equal(simt_open(&dev, 4, 0), ATTUNE_OK);
	simt_pose(&dev, SIMT_MI300X);
	device_writes_the_same(state);
	device_close(&dev);
	dev = here;
}

int main(void)
{
	if (gpu_open_real(&dev)) {
		if (gpu_named())
			return 1;
		simt_open(&dev, 4, 0);
	}
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(host_lists_every_block),
		cmocka_unit_test(grids_depend_on_the_device),
		cmocka_unit_test(others_take_no_list),
		cmocka_unit_test(plans_have_one_list_a_part),
		cmocka_unit_test(strange_plans_have_no_list),
		cmocka_unit_test(device_writes_the_same),
		cmocka_unit_test(waves_of_64_write_the_same),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const int failed = _cmocka_run_group_tests("schedule", tests, COUNT(tests), NULL, NULL);
	device_close(&dev);
	return failed;
}
