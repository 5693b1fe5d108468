/* SPDX-License-Identifier: Apache-2.0 */
/* t_rows.c - what an H200 runs where rules of a file name a choice; t_library_rules has the CPU. */
#include "rules_header.h"
#include "harness/compile/compile.h"
#include "harness/machine/machine.h"
#include "harness/scenario/scenario.h"
#include "kernels/launch/op.h"
#include "kernels/launch/run.h"
#include "kernels/ship/shipped.h"
#include "kernels/spec/space.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#define PERSISTENT_64 "NUM_STAGES=2 BLOCKS_PER_SM=1 TURNS=0 PERSISTENT=1 HEADS=0 SEGMENTS=1"
#define RING "ring BLOCK_M=8 TILE_SIZE=16 NUM_WARPS=4 NUM_STAGES=2 COMBINE=1 SEGMENTS=1"

/* An op of the H200 by rules of a file. */
struct ruled {
	struct device_ops ops;
	struct device dev;
	attune_context *ctx;
	attune_op *op;
};

/* All binaries are carried, whatever the headers of this build name. */
static const struct shipped *find_any(const struct device *dev, const char *kernel,
				      const char *flags)
{
	static const struct shipped any = { .backend = BACKEND_GPU };
	(void)dev, (void)kernel, (void)flags;
	return &any;
}

static const struct shipped *find_mixed(const struct device *dev, const char *kernel,
					const char *flags)
{
	return strcmp(kernel, "warpgroup_mixed") ? NULL : find_any(dev, kernel, flags);
}

typedef const struct shipped *(*finder)(const struct device *, const char *, const char *);

/* On a device with the binaries that `find` finds. */
static enum attune_status try_ruled(struct ruled *r, const struct rules *rules,
				    const attune_shape *s, finder find)
{
	char path[] = "/tmp/attune_rules_XXXXXX";
	const int fd = mkstemp(path);
	FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
	struct device_info info;
	assert_non_null(out);
	fputs(rules_header("h200", rules), out);
	fclose(out);
	assert_true(gpu_imagine(&info, "h200", NULL));
	planning_device(&r->dev, &info);
	r->ops = *r->dev.ops;
	r->ops.find = find;
	r->dev.ops = &r->ops;
	setenv("ATTUNE_HEURISTICS", path, 1);
	assert_int_equal(attune_adopt(&r->ctx, &r->dev), ATTUNE_OK);
	unsetenv("ATTUNE_HEURISTICS");
	unlink(path);
	return attune_prepare(r->ctx, s, &r->op);
}

static void open_ruled(struct ruled *r, const struct rules *rules, const attune_shape *s)
{
	if (try_ruled(r, rules, s, find_any))
		fail_msg("%s", attune_last_error());
}

static void close_ruled(struct ruled *r)
{
	attune_release(r->op);
	attune_close(r->ctx);
}

static attune_plan plan_text(const attune_op *op, const char *batch, char text[512])
{
	attune_plan plan = { .size = sizeof plan };
	char error[160];
	struct batch *b = batch_parse(batch, error, sizeof error);
	assert_non_null(b);
	if (attune_plan_batch(op, &b->view, &plan) || attune_plan_text(op, &plan, text, 512))
		fail_msg("%s: %s", batch, attune_last_error());
	batch_free(b);
	return plan;
}

static const attune_shape llama = { .size = sizeof llama,
				    .num_query_heads = 32,
				    .num_kv_heads = 8,
				    .head_size = 128,
				    .page_size = 16,
				    .dtype = ATTUNE_BF16,
				    .kv_dtype = ATTUNE_BF16,
				    .causal = 1 };

/* The prefills leave as many units as the rules say, where their choice can: a choice with a block
 * for each item cannot. */
static void prefills_leave_units_to_decodes(void **state)
{
	static const char can[] = "warpgroup BLOCK_M=64 TILE_SIZE=64 " PERSISTENT_64;
	static const char cannot[] = "warpgroup BLOCK_M=64 PACKED=1 TILE_SIZE=112 NUM_STAGES=2 "
				     "BLOCKS_PER_SM=1 TURNS=0 PERSISTENT=0 HEADS=0 SEGMENTS=1";
	static const struct {
		const char *prefill, *overlap;
		int spared;
	} rows[] = {
		{ can, "streams", 0 },
		{ can, "streams_sparing16", 16 },
		{ can, "h200_streams_sparing64", 64 },
		{ can, "-10", 112 },
		{ cannot, "streams_sparing64", 0 },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		const struct rules rules = { .choice = { rows[i].prefill, RING },
					     .decode = "1",
					     .overlap = rows[i].overlap };
		struct ruled r;
		char text[512], spared[32], of_one[512];
		open_ruled(&r, &rules, &llama);
		const attune_plan plan = plan_text(r.op, "q2k_24q1s1k", text);
		snprintf(spared, sizeof spared, "SPARE_UNITS=%d", rows[i].spared);
		assert_int_equal(plan.how, ATTUNE_STREAMS);
		assert_int_equal(plan.spared[0], rows[i].spared);
		assert_int_equal(plan.spared[1], 0);
		assert_int_equal(strstr(text, spared) != NULL, rows[i].spared > 0);
		assert_int_equal(strstr(text, "SPARE_UNITS") != NULL, rows[i].spared > 0);
		assert_int_equal(plan_text(r.op, "q2k", of_one).spared[0], 0);
		close_ruled(&r);
	}
}

/* Plans that differ in the units that are left run other launches. Numbers that no plan has are
 * refused. */
static void spared_units_belong_to_the_plan(void **state)
{
	const struct rules rules = { .choice = { "warpgroup BLOCK_M=64 TILE_SIZE=64 " PERSISTENT_64,
						 RING },
				     .decode = "1",
				     .overlap = "streams_sparing64" };
	static const int none[] = { -16, 17, 128, 1 << 30 };
	struct ruled r;
	char text[512];
	(void)state;
	open_ruled(&r, &rules, &llama);
	const attune_plan plan = plan_text(r.op, "q2k_24q1s1k", text);
	attune_plan other = plan;
	assert_int_equal(attune_plan_serves(&plan, &other), ATTUNE_SERVES_ALIKE);
	other.spared[0] = 0;
	assert_int_equal(attune_plan_serves(&plan, &other), ATTUNE_SERVES);
	for (size_t i = 0; i < COUNT(none); i++) {
		other.spared[0] = none[i];
		assert_int_equal(attune_plan_text(r.op, &other, text, sizeof text), ATTUNE_INVALID);
	}
	other = plan;
	other.spared[1] = 16; /* ring spares none */
	assert_int_equal(attune_plan_text(r.op, &other, text, sizeof text), ATTUNE_INVALID);
	close_ruled(&r);
}

/* Whether a choice of the rules runs a batch, and why it does not. */
static void a_choice_says_whether_it_runs(void **state)
{
	static const char packed[] = "warpgroup BLOCK_M=64 PACKED=1 TILE_SIZE=112 NUM_STAGES=2 "
				     "BLOCKS_PER_SM=1 TURNS=0 PERSISTENT=0 HEADS=0 SEGMENTS=1";
	static const struct {
		int kv_heads, page_size, phase, choice;
		enum attune_status status;
		const char *why;
	} rows[] = {
		{ 8, 16, ATTUNE_PHASE_PREFILL, 0, ATTUNE_OK, "" },
		{ 32, 16, ATTUNE_PHASE_PREFILL, 0, ATTUNE_UNSUPPORTED, "PACKED needs 2 to" },
		{ 8, 4, ATTUNE_PHASE_PREFILL, 0, ATTUNE_UNSUPPORTED, "are multiples of 8" },
		{ 8, 16, ATTUNE_PHASE_DECODE, 1, ATTUNE_OK, "" },
		{ 8, 16, ATTUNE_PHASE_PREFILL, 1, ATTUNE_UNSUPPORTED, "queries of at most" },
		{ 8, 16, ATTUNE_PHASE_PREFILL, 2, ATTUNE_INVALID, "_runs: choice is 2: " },
		{ 8, 16, ATTUNE_PHASE_PREFILL, -1, ATTUNE_INVALID, "rules have 2, from 0" },
		{ 8, 16, 3, 0, ATTUNE_INVALID, "_runs: phase must be" },
	};
	const struct rules rules = { .choice = { packed, RING }, .decode = "1" };
	char error[160];
	struct batch *mixed = batch_parse("q2k_24q1s1k", error, sizeof error);
	struct batch *decodes = batch_parse("24q1s1k", error, sizeof error);
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		attune_shape shape = llama;
		struct ruled r;
		shape.num_kv_heads = rows[i].kv_heads;
		shape.page_size = rows[i].page_size;
		open_ruled(&r, &rules, &shape);
		const enum attune_status status = attune_choice_runs(
		    r.op, &mixed->view, (enum attune_phase)rows[i].phase, rows[i].choice);
		if (status != rows[i].status ||
		    (status && !strstr(attune_last_error(), rows[i].why)))
			fail_msg("row %zu: %d, %s", i, (int)status, attune_last_error());
		assert_int_equal(attune_choice_runs(r.op, &decodes->view, ATTUNE_PHASE_PREFILL, 0),
				 ATTUNE_OK);
		close_ruled(&r);
	}
	batch_free(mixed);
	batch_free(decodes);
}

/* ---- rows ----------------------------------------------------------------------------------- */

#define PACKED_64 "warpgroup BLOCK_M=64 PACKED=1 TILE_SIZE=64 " PERSISTENT_64
#define PACKED_128                                                                           \
	"warpgroup BLOCK_M=128 PACKED=1 TILE_SIZE=128 NUM_STAGES=2 BLOCKS_PER_SM=1 TURNS=1 " \
	"PERSISTENT=1 HEADS=0 SEGMENTS=1"
#define QBLOCK "qblock BLOCK_M=128 TILE_SIZE=64 NUM_WARPS=8 NUM_STAGES=2"
#define BEHIND (-1)

static int needs_maps_of(const attune_op *op, int id)
{
	return op->ready[id].kernel->space->takes_maps;
}

/* Of 0 to 4: packed, packed, not packed, without maps, ring. One query head a KV head forbids packed
 * ones, pages of 4 all of warpgroup. */
static const struct {
	const char *lists;
	int kv_heads, page_size, runs, without_maps; /* BEHIND: another choice than the row's */
} row_cases[] = {
	{ "LIST(c0, c1, c2, c3)", 8, 16, 0, 3 },
	{ "LIST(c0, c1, c2, c3)", 32, 16, 2, 3 },
	{ "LIST(c0, c1, c2, c3)", 32, 4, 3, BEHIND },
	{ "LIST(c0, c3, none, none)", 32, 16, 3, BEHIND },
	{ "LIST(c0, c1, none, none)", 8, 16, 0, BEHIND },
	{ "LIST(c0, c1, none, none)", 32, 16, BEHIND, BEHIND },
	{ "LIST(c2, c0, c1, none)", 8, 16, 2, BEHIND },
	{ NULL, 32, 16, BEHIND, BEHIND },
};

static void the_first_legal_of_a_row_runs(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(row_cases); i++) {
		const char *lists = row_cases[i].lists;
		struct rules rules = {
			.choice = { PACKED_64, PACKED_128,
				    "warpgroup BLOCK_M=64 TILE_SIZE=64 " PERSISTENT_64, QBLOCK,
				    RING },
			.lists = lists,
			.prefill = lists && lists[6] == '2' ? "2" : "0",
			.decode = "4"
		};
		const int runs = row_cases[i].runs, other = row_cases[i].without_maps;
		attune_shape s = llama;
		struct ruled r;
		char text[512];
		s.num_kv_heads = row_cases[i].kv_heads;
		s.page_size = row_cases[i].page_size;
		open_ruled(&r, &rules, &s);
		attune_plan plan = plan_text(r.op, "2q2k", text);
		assert_true(runs == BEHIND ? plan.part[0].choice >= r.op->num_choices
					   : plan.part[0].choice == runs);
		if (needs_maps_of(r.op, plan.part[0].choice))
			assert_true(other == BEHIND ? plan.stand_in[0] - 1 >= r.op->num_choices
						    : plan.stand_in[0] - 1 == other);
		else
			assert_int_equal(plan.stand_in[0], 0);
		assert_int_equal(attune_plan_bounds(r.op, 2, 4096, 2048, 2048, &plan), ATTUNE_OK);
		assert_true(runs == BEHIND ? plan.part[0].choice >= r.op->num_choices
					   : plan.part[0].choice == runs);
		close_ruled(&r);
	}
}

/* All but ring_list, the one other kernel that gives the LSE of decodes. */
static const struct shipped *find_rings(const struct device *dev, const char *kernel,
					const char *flags)
{
	return strcmp(kernel, "ring") ? NULL : find_any(dev, kernel, flags);
}

/* A launch of the reduction gives no LSE. A choice that cannot cut long sequences for that reason is passed
 * over, unless nothing else runs; where cuts gain nothing it stays. */
static void with_the_lse_a_choice_that_lacks_cuts_is_passed_over(void **state)
{
#define RING_OF(combine) \
	"ring BLOCK_M=8 TILE_SIZE=16 NUM_WARPS=4 NUM_STAGES=2 COMBINE=" combine " SEGMENTS=fitted"
#define COSTS(of) "SEGMENTS(h200_" of ", 128, 1, 64, 8000000, 2000000000, 200000000, 300000) "
	static const struct {
		const char *lists, *batch;
		finder find;
		int has_lse, runs, cuts;
	} rows[] = {
		{ "LIST(c0, c1, none, none)", "2q1s8k", find_any, 0, 0, 1 },
		{ "LIST(c0, c1, none, none)", "2q1s8k", find_any, 1, 1, 1 },
		{ "LIST(c0, c1, none, none)", "256q1s512", find_any, 1, 0, 0 },
		{ "LIST(c0, none, none, none)", "2q1s8k", find_any, 1, BEHIND, 0 },
		{ "LIST(c0, none, none, none)", "2q1s8k", find_rings, 1, 0, 0 },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		const struct rules rules = { .choice = { RING_OF("0"), RING_OF("1") },
					     .lists = rows[i].lists,
					     .segments = COSTS("c0") COSTS("c1") };
		attune_shape s = llama;
		struct ruled r;
		char text[512];
		s.has_lse = rows[i].has_lse;
		if (try_ruled(&r, &rules, &s, rows[i].find))
			fail_msg("%s", attune_last_error());
		const attune_plan plan = plan_text(r.op, rows[i].batch, text);
		if (rows[i].runs == BEHIND ? plan.part[0].choice < r.op->num_choices
					   : plan.part[0].choice != rows[i].runs ||
						 (plan.part[0].resolved > 1) != rows[i].cuts)
			fail_msg("row %zu: %s", i, text);
		close_ruled(&r);
	}
}

/* A fused kernel alone runs no part: no batch of one phase could be planned. */
static void a_shape_that_nothing_runs_is_refused(void **state)
{
	const struct rules rules = {
		.choice = { "warpgroup_mixed PREFILL_TILE=128 DECODE_TILE=16 DECODE_WARPS=8 "
			    "DECODE_STAGES=2 DECODE_UNITS=0 PREFILL_SEGMENTS=0" }
	};
	struct ruled r;
	(void)state;
	assert_int_equal(try_ruled(&r, &rules, &llama, find_mixed), ATTUNE_UNSUPPORTED);
	assert_null(r.op);
	close_ruled(&r);
}

/* Slow reads want many units to begin with the decodes, fast ones few. Numbers that the rules name
 * stay. */
static void rates_of_the_rules_divide_a_mixed_batch(void **state)
{
#define FUSED "warpgroup_mixed PREFILL_TILE=128 DECODE_TILE=16 DECODE_WARPS=12 DECODE_STAGES=2 "
	static const char by_estimate[] = FUSED "DECODE_UNITS=0 PREFILL_SEGMENTS=0";
	static const char named[] = FUSED "DECODE_UNITS=40 PREFILL_SEGMENTS=1";
	static const char slow[] = "MIXED(4400, 2, 3600, 4300, 4260, 11900, 7900, 3600)";
	static const char fast[] = "MIXED(40, 1000, 1, 100000, 100000, 1, 1, 3600)";
	static const struct {
		const char *choice, *mixed;
		int least, most;
	} rows[] = {
		{ by_estimate, NULL, 24, 120 },
		{ by_estimate, slow, 128, 132 },
		{ by_estimate, fast, 16, 16 },
		{ named, slow, 40, 40 },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		const struct rules rules = {
			.choice = { "warpgroup BLOCK_M=64 TILE_SIZE=64 " PERSISTENT_64, RING,
				    rows[i].choice },
			.mixed = rows[i].mixed,
			.decode = "1",
			.overlap = "2"
		};
		struct ruled r;
		char text[512];
		size_t most;
		open_ruled(&r, &rules, &llama);
		const attune_plan plan = plan_text(r.op, "q2k_64q1s8k", text);
		assert_int_equal(plan.num_parts, 1);
		const int units = plan.part[0].resolved % 65536;
		if (units < rows[i].least || units > rows[i].most)
			fail_msg("row %zu: %d units", i, units);
		assert_int_equal(attune_max_workspace(r.op, 65, 2112, &most), ATTUNE_OK);
		assert_true(plan.workspace <= most);
		close_ruled(&r);
	}
}

/* On every GPU, measured or not: no rule names what is carried for them. */
static void small_heads_run_by_one_default(void **state)
{
	static const char *const gpus[] = { "h200", "h100", "a100", "rtx5090", "mi250", "mi300" };
	(void)state;
	for (size_t i = 0; i < 4 * COUNT(gpus); i++) {
		attune_plan plan = { .size = sizeof plan };
		attune_shape s = llama;
		struct device_info info;
		struct ruled r;
		char text[512];
		s.head_size = i % 2 ? 16 : 32;
		s.dtype = s.kv_dtype = i / 2 % 2 ? ATTUNE_F16 : ATTUNE_BF16;
		assert_true(gpu_imagine(&info, gpus[i / 4], NULL));
		planning_device(&r.dev, &info);
		assert_int_equal(attune_adopt(&r.ctx, &r.dev), ATTUNE_OK);
		if (attune_prepare(r.ctx, &s, &r.op))
			fail_msg("%s: %s", gpus[i / 4], attune_last_error());
		plan_text(r.op, "3q1s2k_q40s900", text);
		if (strncmp(text, "prefill: qblock ", 16) || !strstr(text, "| decode: qblock "))
			fail_msg("%s: %s", gpus[i / 4], text);
		assert_int_equal(attune_plan_bounds(r.op, 4, 4, 1, 4096, &plan), ATTUNE_OK);
		attune_release(r.op);
		s.kv_dtype = ATTUNE_E4M3;
		assert_int_equal(attune_prepare(r.ctx, &s, &r.op), ATTUNE_UNSUPPORTED);
		attune_close(r.ctx);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_choice_says_whether_it_runs),
		cmocka_unit_test(prefills_leave_units_to_decodes),
		cmocka_unit_test(spared_units_belong_to_the_plan),
		cmocka_unit_test(rates_of_the_rules_divide_a_mixed_batch),
		cmocka_unit_test(the_first_legal_of_a_row_runs),
		cmocka_unit_test(with_the_lse_a_choice_that_lacks_cuts_is_passed_over),
		cmocka_unit_test(a_shape_that_nothing_runs_is_refused),
		cmocka_unit_test(small_heads_run_by_one_default),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("rows", tests, NULL, NULL);
}
