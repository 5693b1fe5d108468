/* SPDX-License-Identifier: Apache-2.0 */
/* t_page_table.c - block tables from page lists and from starts of ragged K and V, on the CPU. Arrays
 * end where nothing is mapped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>
#include "lists_world.h"

enum { PAGE_BYTES = 4096, MOST_MAPPINGS = 64 };

static struct {
	void *map;
	size_t bytes;
} mapping[MOST_MAPPINGS];
static int num_mappings;

static void *exact(size_t bytes)
{
	const size_t used = (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
	char *map = mmap(NULL, used + PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(num_mappings < MOST_MAPPINGS);
	if (map == MAP_FAILED || (used && mprotect(map, used, PROT_READ | PROT_WRITE)))
		return NULL;
	mapping[num_mappings].map = map;
	mapping[num_mappings++].bytes = used + PAGE_BYTES;
	return map + used - bytes;
}

static void release_exact(void)
{
	while (num_mappings) {
		num_mappings--;
		munmap(mapping[num_mappings].map, mapping[num_mappings].bytes);
	}
}

#define STEPS "q1s17_q20s33_q3s1_q2s0_q9s0_q0s5_q12s3_q1s1_q33s100_q1s64"
#define NO_KEYS "q1s17_q5s3_q2s0_q40s9_q20s0_q8s8"
// clang-format off
static const struct lists_row rows[] = {
	{ "ragged, F32, pages of 16",              STEPS,                 { SHAPE(8, 2, 64, 16, F32, F32) }, RAGGED },
	{ "ragged, BF16, head 128, pages of 32",   STEPS,                 { SHAPE(8, 2, 128, 32, BF16, BF16) }, RAGGED },
	{ "ragged, F16, head 80, pages of 1",      STEPS,                 { SHAPE(4, 4, 80, 1, F16, F16) }, RAGGED },
	{ "ragged, pages of 20, window, sinks",    STEPS,                 { SHAPE(6, 2, 96, 20, BF16, BF16), .window = 9, .has_sinks = 1 }, RAGGED },
	{ "ragged prefills without a cache",       "q70s70_q1s1_q129s129_q16s16_q15s15", { SHAPE(4, 2, 64, 16, BF16, BF16) }, RAGGED },
	{ "ragged decodes, group 8",            "q1s15_4q1s700_q2s31", { SHAPE(8, 1, 128, 16, F16, F16) }, RAGGED },
	{ "ragged, one key",                       "q1s1",                { SHAPE(2, 1, 64, 16, F32, F32) }, RAGGED },
	{ "ragged, no keys at all",                "q2s0_q20s0",          { SHAPE(2, 1, 64, 16, F32, F32) }, RAGGED },
	{ "page lists of 4 bytes",                 STEPS,                 { SHAPE(8, 2, 64, 16, BF16, BF16) }, PAGES },
	{ "page lists of 8 bytes, pages of 1",     STEPS,                 { SHAPE(8, 2, 64, 1, F32, F32) }, LONG_PAGES },
	{ "sinks of BF16",                         STEPS,                 { SHAPE(8, 2, 64, 16, F32, F32), .has_sinks = 1, .sinks_dtype = ATTUNE_BF16 }, PAGES },
	{ "sinks of F16, segments",                "q1s900_q1s3",         { SHAPE(8, 2, 64, 16, BF16, BF16), .has_sinks = 1, .sinks_dtype = ATTUNE_F16 }, PAGES },
	{ "LSE, F32",                              NO_KEYS,               { SHAPE(8, 2, 64, 16, F32, F32), .has_lse = 1 }, PAGES },
	{ "LSE, BF16, head 80, sinks",             NO_KEYS,               { SHAPE(6, 2, 80, 16, BF16, BF16), .has_lse = 1, .has_sinks = 1 }, PAGES },
	{ "LSE, F16, window, softcap, sinks of BF16", STEPS,              { SHAPE(8, 8, 96, 16, F16, F16), .window = 20, .softcap = 20, .has_lse = 1, .has_sinks = 1, .sinks_dtype = ATTUNE_BF16 }, PAGES },
	{ "LSE, ragged, group 71, decodes of 900", "q1s900_q1s3_q70s80",  { SHAPE(71, 1, 64, 16, BF16, BF16), .has_lse = 1 }, RAGGED },
	{ "LSE, not causal, ALiBi",                NO_KEYS,               { sizeof(attune_shape), 4, 2, 128, 16, ATTUNE_F32, ATTUNE_F32, .has_lse = 1, .has_alibi = 1, .has_sinks = 1 }, PAGES },
	{ "LSE, a batch without tokens",           "q0s5_q0s0",           { SHAPE(2, 1, 64, 16, F32, F32), .has_lse = 1 }, PAGES },
};
// clang-format on

static attune_op *own_op(enum attune_kv_layout layout)
{
	const attune_shape s = { SHAPE(2, 1, 64, 4, F32, F32), .kv_layout = layout };
	attune_op *op;
	fine(attune_prepare(ctx, &s, &op));
	return op;
}

static void what_makes_no_sense_is_refused(void **state)
{
	enum { ENTRIES = 3 };
	static const int32_t starts[] = { 0, 3, 16 }, falling[] = { 0, 5, 4 },
			     below[] = { -1, 0, 1 };
	static const int32_t pages[16] = { 0 };
	int32_t table[2 * ENTRIES];
#define LISTS(...)                                           \
	{                                                    \
		sizeof(attune_page_lists), __VA_ARGS__, NULL \
	}
	// clang-format off
	static const struct {
		int seqs, stride;
		attune_page_lists lists;
		enum attune_status status;
		const char *line;
	} calls[] = {
		{ 2, ENTRIES, LISTS(0, starts, NULL),    ATTUNE_INVALID, "sequence 1 has 4 pages, and a row of the table 3 entries" },
		{ 1, ENTRIES, LISTS(0, starts, NULL),    ATTUNE_OK, "" },
		{ 1, ENTRIES, LISTS(4, starts, pages),   ATTUNE_OK, "" },
		{ 2, ENTRIES, LISTS(0, starts, pages),   ATTUNE_INVALID, "sequence 1 has 13 pages" },
		{ 2, ENTRIES, LISTS(0, falling, pages),  ATTUNE_INVALID, "sequence 0 has 5 pages" },
		{ 2, 9,       LISTS(0, falling, NULL),   ATTUNE_INVALID, "at sequence 1 it goes from 5 to 4" },
		{ 2, ENTRIES, LISTS(0, below, NULL),     ATTUNE_INVALID, "indptr must rise from 0" },
		{ -1, ENTRIES, LISTS(0, starts, NULL),   ATTUNE_INVALID, "must be 0 or more" },
		{ 1, -1,      LISTS(0, starts, NULL),    ATTUNE_INVALID, "must be 0 or more" },
		{ 1, ENTRIES, LISTS(0, NULL, pages),     ATTUNE_INVALID, "indptr and table must be given" },
		{ 1, ENTRIES, LISTS(2, starts, pages),   ATTUNE_INVALID, "index_bytes must be 4, 8 or 0" },
		{ 0, 0,       LISTS(0, NULL, NULL),      ATTUNE_OK, "" },
		{ 1, ENTRIES, { 8, 0, starts, NULL, NULL },   ATTUNE_INVALID, "attune_page_lists.size is 8" },
	};
	// clang-format on
	attune_op *op = own_op(ATTUNE_KV_STRIDED);
	(void)state;
	for (size_t i = 0; i < COUNT(calls); i++) {
		const enum attune_status status = attune_page_table(
		    op, calls[i].seqs, &calls[i].lists, table, calls[i].stride, NULL);
		if (status != calls[i].status ||
		    (status && !strstr(attune_last_error(), calls[i].line)))
			fail_msg("call %zu: %s: %s", i, attune_status_text(status),
				 attune_last_error());
	}
	attune_release(op);
}

static void ragged_tensors_have_no_classic_layout(void **state)
{
	static const int32_t starts[] = { 0, 3 };
	const attune_page_lists lists = LISTS(0, starts, NULL);
	int32_t table[1];
	attune_op *op = own_op(ATTUNE_KV_STRIDED);
	(void)state;
	op->shape.kv_layout = ATTUNE_KV_CLASSIC; /* which no kernel of the CPU reads */
	assert_int_equal(attune_page_table(op, 1, &lists, table, 1, NULL), ATTUNE_INVALID);
	assert_non_null(strstr(attune_last_error(), "classic layout"));
	attune_release(op);
}

int main(void)
{
	static struct CMUnitTest tests[COUNT(rows) + 2] = {
		cmocka_unit_test(what_makes_no_sense_is_refused),
		cmocka_unit_test(ragged_tensors_have_no_classic_layout),
	};
	for (size_t i = 0; i < COUNT(rows); i++)
		tests[i + 2] = (struct CMUnitTest){ rows[i].name, lists_row_passes, NULL, NULL,
						    (void *)(uintptr_t)&rows[i] };
	if (device_open(&dev, "cpu") || attune_adopt(&ctx, &dev)) {
		printf("Bail out! %s\n", attune_last_error());
		return 1;
	}
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const int failed = cmocka_run_group_tests_name("page_table", tests, NULL, NULL);
	attune_close(ctx);
	device_close(&dev);
	return failed;
}
