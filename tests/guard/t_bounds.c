/* SPDX-License-Identifier: Apache-2.0 */
/* t_bounds.c - shapes, batches and plans at the limits of the interface, and one beyond: the
 * library refuses the latter in one line. */
#include "kernels/attune.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/part.h"
#include <float.h>
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const attune_shape good = { .size = sizeof(attune_shape),
				   .num_query_heads = 4,
				   .num_kv_heads = 2,
				   .head_size = 64,
				   .page_size = 16,
				   .dtype = ATTUNE_BF16,
				   .kv_dtype = ATTUNE_BF16,
				   .causal = 1 };

/* words: a part of the message; NULL: it is accepted. */
static void shapes(void **state)
{
	static const struct {
		int query_heads, window;
		float scale, softcap;
		const char *words;
	} rows[] = {
		{ 65534, 0, 0, 0, NULL },
		{ 65536, 0, 0, 0, "num_query_heads must be 65535 or less" },
		{ INT_MAX - 1, 0, 0, 0, "num_query_heads must be 65535 or less" },
		{ 4, INT_MAX, 0, 0, NULL },
		{ 4, INT_MIN, 0, 0, "window must be 0 (none) or more" },
		{ 4, 0, 0x1p120f, 0, NULL },
		{ 4, 0, 3e38f, 0, "scale must be 0 (1 / sqrt(head_size)) to 2^120" },
		{ 4, 0, INFINITY, 0, "scale must be 0 (1 / sqrt(head_size)) to 2^120" },
		{ 4, 0, NAN, 0, "scale must be 0 (1 / sqrt(head_size)) to 2^120" },
		{ 4, 0, -1, 0, "scale must be 0 (1 / sqrt(head_size)) to 2^120" },
		{ 4, 0, 1e-40f, 0, "scale must not be below the least normal float, 1.2e-38" },
		{ 4, 0, 0, 1000, NULL },
		{ 4, 0, 0, 1e4f, "softcap must be 0 (none) to 1000" },
		{ 4, 0, 0, INFINITY, "softcap must be 0 (none) to 1000" },
		{ 4, 0, 0, NAN, "softcap must be 0 (none) to 1000" },
		{ 4, 0, 0, 1e-6f, "softcap must be 0 (none) or at least 1e-4" },
		{ 4, 0, 0x1p110f, 1e-4f, "scale / softcap must be 2^120 or less" },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		attune_shape s = good;
		s.num_query_heads = rows[i].query_heads;
		s.window = rows[i].window;
		s.scale = rows[i].scale;
		s.softcap = rows[i].softcap;
		const char *said = shape_error(&s);
		if (said != rows[i].words &&
		    (!said || !rows[i].words || strcmp(said, rows[i].words)))
			fail_msg("row %zu: %s; %s is right", i, said ? said : "taken",
				 rows[i].words ? rows[i].words : "taken");
	}
}

static void batches(void **state)
{
	static const struct {
		int query, seq, page_size, heads;
		const char *words;
	} rows[] = {
		{ 1, 1 << 29, 16, 4, NULL },
		{ 1, (1 << 29) + 1, 16, 4, "a sequence has 2^29 keys at most" },
		{ 1, INT_MAX, 16, 4, "a sequence has 2^29 keys at most" },
		{ 1 << 29, 5, 16, 2, NULL },
		{ (1 << 29) + 1, 5, 16, 2, "a query has 2^29 tokens at most" },
		{ 1 << 29, 5, 16, 4,
		  "tokens and sequences together, times num_query_heads, must be below 2^31" },
		/* 2^32 % 1056 is 832: pages are numbered right up to key 2^32 / 224 */
		{ 1, 1 << 24, 1056, 4, NULL },
		{ 1, 1 << 25, 1056, 4,
		  "sequences are too long for pages of this size: use a power of two" },
		{ 1, 1 << 29, 65536, 4, NULL },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		const int32_t starts[] = { 0, rows[i].query }, seqs[] = { rows[i].seq };
		const attune_batch b = { sizeof(attune_batch), 1, starts, seqs };
		attune_shape s = good;
		s.page_size = rows[i].page_size;
		s.num_query_heads = rows[i].heads;
		const char *said = batch_error(&b, &s);
		if (said != rows[i].words &&
		    (!said || !rows[i].words || strcmp(said, rows[i].words)))
			fail_msg("row %zu: %s; %s is right", i, said ? said : "taken",
				 rows[i].words ? rows[i].words : "taken");
	}
}

/* Partial sums have a row for each sequence and token of the longest query. */
static void partial_sums(void **state)
{
	enum { SEQS = 1 << 16 };
	int32_t *starts = malloc((SEQS + 1) * sizeof *starts), *lens = calloc(SEQS, sizeof *lens);
	const attune_batch b = { sizeof(attune_batch), SEQS, starts, lens };
	attune_shape s = good;
	(void)state;
	assert_true(starts && lens);
	s.num_query_heads = 16;
	starts[0] = 0;
	for (int i = 0; i < SEQS; i++)
		starts[i + 1] = 1 << 22;
	assert_null(batch_error(&b, &s)); /* 2^16 x 2^22 x 2^4 */
	for (int i = 0; i < SEQS; i++)
		starts[i + 1] = (1 << 22) + 1;
	assert_string_equal(batch_error(&b, &s), "num_seqs times the longest query, times "
						 "num_query_heads, must be 2^42 or less");
	free(starts);
	free(lens);
}

/* Sizes beyond every batch neither overflow nor make less. */
static void largest_workspaces(void **state)
{
	static const int sizes[] = { 1, 1000, 1 << 20, 1 << 28, INT_MAX };
	attune_context *ctx;
	attune_op *op;
	(void)state;
	assert_int_equal(attune_open(&ctx, "cpu"), ATTUNE_OK);
	assert_int_equal(attune_prepare(ctx, &good, &op), ATTUNE_OK);
	for (size_t i = 0; i < COUNT(sizes); i++) {
		size_t before = 0;
		for (size_t k = 0; k < COUNT(sizes); k++) {
			size_t seqs, tokens;
			assert_int_equal(attune_max_workspace(op, sizes[k], sizes[i], &seqs),
					 ATTUNE_OK);
			assert_int_equal(attune_max_workspace(op, sizes[i], sizes[k], &tokens),
					 ATTUNE_OK);
			assert_true(seqs >= before && seqs < 1ull << 40 && tokens < 1ull << 40);
			before = seqs;
		}
	}
	attune_release(op);
	attune_close(ctx);
}

/* By the magic number each key is on its page, up to the longest sequence that is taken. */
static void pages_are_numbered_right(void **state)
{
	static const int sizes[] = { 1, 3, 7, 16, 48, 544, 1056, 4095, 65535, 65536 };
	(void)state;
	for (size_t i = 0; i < COUNT(sizes); i++) {
		const unsigned size = (unsigned)sizes[i], magic = page_magic(sizes[i]);
		const int32_t starts[] = { 0, 1 };
		int32_t most = 1 << 29;
		attune_shape s = good;
		s.page_size = sizes[i];
		for (const attune_batch b = { sizeof(attune_batch), 1, starts, &most };
		     batch_error(&b, &s); most -= 1 + most / 4096)
			assert_true(most > 1);
		for (unsigned key = (unsigned)most; key > 0 && key + 3 * size > (unsigned)most;
		     key--) {
			const unsigned page =
			    magic ? (unsigned)((unsigned long long)(key - 1) * magic >> 32)
				  : key - 1;
			assert_int_equal(page, (key - 1) / size);
		}
	}
}

static void longest_windows_are_none(void **state)
{
	attune_shape s = good;
	(void)state;
	s.window = INT_MAX;
	assert_int_equal(window_of(&s), 0);
	s.window = 1 << 29;
	assert_int_equal(window_of(&s), 1 << 29);
}

static void tables_end(void **state)
{
	static const int32_t starts[] = { 0, 1, 2, 3 };
	static const int32_t lens[][3] = { { 1, 40, 0 }, { 16, 0, 17 }, { 0, 0, 0 } };
	static const int ends[][2] = { { 1, 3 }, { 2, 2 }, { 0, 0 } };
	(void)state;
	for (size_t i = 0; i < COUNT(lens); i++) {
		const attune_batch b = { sizeof(attune_batch), 3, starts, lens[i] };
		int seq, pages;
		batch_table(&b, 16, &seq, &pages);
		assert_int_equal(seq, ends[i][0]);
		assert_int_equal(pages, ends[i][1]);
	}
}

/* A plan that attune_plan_batch did not make: each call refuses it, and reads nothing out of
 * bounds. */
static void plans_are_looked_at(void **state)
{
	/* F8: members of 32 bits with their largest legal values, for one token */
#define MEMBER(member, most, is_served)                                 \
	{                                                               \
#member, offsetof(attune_plan, member), most, is_served \
	}
	static const struct {
		const char *name;
		size_t at;
		int most, is_served;
	} edits[] = {
		MEMBER(num_parts, 1, 1),
		MEMBER(how, 1, 1),
		MEMBER(unused, 0, 1),
		MEMBER(start, 1, 1),
		MEMBER(num_seqs, INT_MAX, 1),
		MEMBER(table_seq, 0, 1),
		MEMBER(table_pages, INT_MAX, 1),
		MEMBER(part[0].choice, INT_MAX - 1, 0),
		MEMBER(part[0].seq_begin, 0, 1),
		MEMBER(part[0].seq_count, 1, 1),
		MEMBER(part[0].min_query, 1, 1),
		MEMBER(part[0].max_query, 1, 1),
		MEMBER(part[0].decode.seq_begin, 0, 1),
		MEMBER(part[0].decode.seq_count, 1, 1),
		MEMBER(part[0].prefill.max_query, 1, 1),
	};
	static const int values[] = { -1, INT_MIN, 3, 7, INT_MAX };
	static const int32_t starts[] = { 0, 1 }, lens[] = { 5 };
	const attune_batch batch = { sizeof(attune_batch), 1, starts, lens };
	attune_context *ctx;
	attune_op *op;
	attune_plan sound = { .size = sizeof sound };
	(void)state;
	assert_int_equal(attune_open(&ctx, "cpu"), ATTUNE_OK);
	assert_int_equal(attune_prepare(ctx, &good, &op), ATTUNE_OK);
	assert_int_equal(attune_plan_batch(op, &batch, &sound), ATTUNE_OK);
	for (size_t i = 0; i < COUNT(edits); i++)
		for (size_t k = 0; k < COUNT(values); k++) {
			attune_plan p = sound;
			attune_tensors t = { .size = sizeof t };
			char text[64];
			size_t words;
			if (values[k] >= 0 && values[k] <= edits[i].most)
				continue;
			memcpy((char *)&p + edits[i].at, &values[k], sizeof values[k]);
			if (attune_run(op, &p, &t, NULL, 0, NULL) != ATTUNE_INVALID ||
			    !strstr(attune_last_error(), "attune_run: the plan was changed"))
				fail_msg("%s %d: %s", edits[i].name, values[k],
					 attune_last_error());
			assert_int_equal(attune_plan_text(op, &p, text, sizeof text),
					 ATTUNE_INVALID);
			assert_int_equal(attune_schedule(op, &p, &batch, NULL, 0, &words),
					 ATTUNE_INVALID);
			if (edits[i].is_served)
				assert_int_equal(attune_plan_serves(&p, &p), 0);
		}
	assert_int_equal(attune_plan_serves(&sound, &sound), ATTUNE_SERVES_ALIKE);
	attune_release(op);
	attune_close(ctx);
}

/* What attune_plan_bounds takes. words: a part of the message; NULL: it is planned. */
static void maxima(void **state)
{
	static const struct {
		int seqs, tokens, query, keys;
		const char *words;
	} rows[] = {
		{ 0, 0, 0, 0, NULL },
		{ 0, 8192, 512, 4096, NULL }, /* a step without sequences */
		{ 4, 4, 1, 0, NULL },
		{ 4, 4, 1, 1 << 29, NULL },
		{ 64, 8192, 8192, 1 << 20, NULL },
		{ 1, INT_MAX, 1, 8, NULL }, /* no more than num_seqs x max_query */
		{ -1, 4, 1, 8, "must be 0 or more" },
		{ 4, 4, -1, 8, "must be 0 or more" },
		{ 4, 4, 1, INT_MIN, "must be 0 or more" },
		{ 4, 4, 1, (1 << 29) + 1, "a sequence has 2^29 keys at most" },
		{ 4, INT_MAX, INT_MAX, 8, "a query has 2^29 tokens at most" },
		{ 1 << 29, 1 << 29, 1, 8, "must be below 2^31" },
	};
	attune_context *ctx;
	attune_op *op;
	(void)state;
	assert_int_equal(attune_open(&ctx, "cpu"), ATTUNE_OK);
	assert_int_equal(attune_prepare(ctx, &good, &op), ATTUNE_OK);
	for (size_t i = 0; i < COUNT(rows); i++) {
		attune_plan plan = { .size = sizeof plan };
		const enum attune_status status = attune_plan_bounds(
		    op, rows[i].seqs, rows[i].tokens, rows[i].query, rows[i].keys, &plan);
		if (rows[i].words
			? status != ATTUNE_INVALID || !strstr(attune_last_error(), rows[i].words)
			: status != ATTUNE_OK || plan.workspace > MAX_PARTIAL_BYTES)
			fail_msg("row %zu: %s", i, attune_last_error());
	}
	attune_release(op);
	attune_close(ctx);
}

/* Entry names, by which profilers distinguish kernels. */
static void entries_have_names(void **state)
{
	static const struct {
		const char *kernel, *flags, *name;
	} rows[] = {
		{ "ring", "-DHEAD_SIZE=128 -DDTYPE=BF16 -DBLOCK_M=8 -DTILE_SIZE=16 -DNUM_WARPS=4",
		  "attune_ring_d128_bf16_bm8_tile16_warps4" },
		{ "warpgroup", "-DHEAD_SIZE=64 -DDTYPE=F16 -DKV_DTYPE=E4M3 -DPACKED=1",
		  "attune_warpgroup_d64_f16_kve4m3_packed1" },
		{ "classic_v1", "", "attune_classic_v1" },
	};
	char name[ENTRY_TEXT], longest[2 * ENTRY_TEXT + 8] = "-DX=";
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		entry_name(name, rows[i].kernel, rows[i].flags);
		assert_string_equal(name, rows[i].name);
	}
	memset(longest + 4, '7', 2 * ENTRY_TEXT);
	entry_name(name, "ring", longest);
	assert_int_equal(strlen(name), ENTRY_TEXT - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shapes),
		cmocka_unit_test(batches),
		cmocka_unit_test(partial_sums),
		cmocka_unit_test(largest_workspaces),
		cmocka_unit_test(pages_are_numbered_right),
		cmocka_unit_test(longest_windows_are_none),
		cmocka_unit_test(tables_end),
		cmocka_unit_test(plans_are_looked_at),
		cmocka_unit_test(maxima),
		cmocka_unit_test(entries_have_names),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("bounds", tests, NULL, NULL);
}
