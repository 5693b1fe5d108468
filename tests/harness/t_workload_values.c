/* SPDX-License-Identifier: Apache-2.0 */
/* t_workload_values.c - the values in a workload: a seed means the same bytes on any machine, slots
 * without a token are NaN, and expected outputs follow from what is in memory. */
#include "cpu_workload.h"
#include "harness/check/reference.h"
#include "kernels/args.h"
#include "kernels/launch/run.h"

static unsigned long long hash(const void *bytes, size_t n)
{
	const unsigned char *p = bytes;
	unsigned long long h = 14695981039346656037ull;
	while (n--)
		h = (h ^ *p++) * 1099511628211ull;
	return h;
}

/* ---- values --------------------------------------------------------------------- */

static void values_are_rounded_as_elsewhere(void **state)
{
	enum { N = 20000 };
	static const enum attune_dtype types[] = { ATTUNE_F32, ATTUNE_F16, ATTUNE_BF16,
						   ATTUNE_E4M3 };
	float wide[N];
	uint32_t got[N], want = 0;
	double read[N];
	(void)state;
	write_values(wide, 7, 100, N, ATTUNE_F32);
	for (size_t t = 0; t < COUNT(types); t++) {
		write_values(got, 7, 100, N, types[t]);
		read_values(read, 7, 100, N, types[t]);
		for (int i = 0; i < N; i++) {
			value_put(types[t], &want, 0, wide[i]);
			assert_true(value_of(types[t], got, i) == value_of(types[t], &want, 0));
			assert_true(value_of(types[t], got, i) == read[i]);
		}
	}
}

static void values_are_almost_normal(void **state)
{
	enum { N = 100000 };
	static double k[N], v[N];
	double sum = 0, squares = 0, both = 0, most = 0;
	(void)state;
	read_values(k, k_stream(), 0, N, ATTUNE_F32);
	read_values(v, v_stream(), 0, N, ATTUNE_F32);
	for (int i = 0; i < N; i++) {
		sum += k[i];
		squares += k[i] * k[i];
		both += k[i] * v[i];
		most = fmax(most, fabs(k[i]));
	}
	assert_true(fabs(sum / N) < 0.02);
	assert_true(fabs(sqrt(squares / N) - 1.1547) < 0.01);
	assert_true(fabs(both / N) < 0.02);
	assert_true(most > 3.5 && most <= 4);
}

/* Computed apart, by other code: a machine that differs measures other data. */
static void a_seed_means_the_same_bytes(void **state)
{
	static const struct {
		enum attune_dtype dtype;
		unsigned long long q, k, table;
	} known[] = {
		{ ATTUNE_F32, 0x8fac90f4fae6075d, 0xcee73a744d94ca8a, 0xad97d612ea3028f4 },
		{ ATTUNE_F16, 0xc1953b0d14e57410, 0xb22be786d0da1b42, 0xad97d612ea3028f4 },
		{ ATTUNE_BF16, 0xd8d5ba9fca879653, 0x8203ad6d692da576, 0xad97d612ea3028f4 },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(known); i++) {
		attune_shape shape = plain;
		struct scenario s;
		struct workload w;
		shape.dtype = shape.kv_dtype = known[i].dtype;
		scenario_make(&s, &shape, "q1s30_q5s40");
		make(&w, NULL, &s, WORKLOAD_CHECK, 0);
		const size_t size = (size_t)dtype_bytes(shape.dtype);
		const size_t pages = (size_t)(w.pages_per_set + w.spare_pages);
		assert_true(hash(w.tensors.q, 6 * 4 * 16 * size) == known[i].q);
		assert_true(hash(w.tensors.k_cache, pages * 2 * 8 * 16 * size) == known[i].k);
		assert_true(hash(w.tensors.block_table,
				 2 * (size_t)w.tensors.block_table_stride * 4) == known[i].table);
		workload_free(&w);
		batch_free(s.batch);
	}
}

/* Spelled out, not by kv_place: shapes of attune.h, with pages and heads in a row. */
static double kv_at(const struct workload *w, int is_v, int page, int slot, int head, int d)
{
	const attune_tensors *t = &w->tensors;
	const attune_shape *s = &w->scenario->shape;
	const int x = 16 / dtype_bytes(s->kv_dtype), slots = s->page_size, size = s->head_size;
	long long at = page * t->k_page_stride + slot * t->k_slot_stride + head * t->k_head_stride;
	if (s->kv_layout == ATTUNE_KV_CLASSIC) {
		const long long k = (d / x * slots + slot) * x + d % x;
		at = (page * s->num_kv_heads + head) * slots * size;
		at += is_v ? d * slots + slot : k;
	} else {
		at += d;
	}
	return value_of(s->kv_dtype, is_v ? t->v_cache : t->k_cache, at);
}

/* Slots of each page that hold tokens, from set 0's table. */
static void count_live(const struct workload *w, int *live)
{
	const attune_batch *b = &w->scenario->batch->view;
	const int page_size = w->scenario->shape.page_size;
	for (int i = 0; i < b->num_seqs; i++)
		for (int key = 0; key < b->seq_lens[i]; key++)
			live[w->host_table[i * w->tensors.block_table_stride + key / page_size]]++;
}

static const enum layout layouts[] = { LAYOUT_NHD,   LAYOUT_HND,   LAYOUT_CLASSIC, LAYOUT_PACKED,
				       LAYOUT_LBHNC, LAYOUT_LHBNC, LAYOUT_BLNHC,   LAYOUT_BLHNC,
				       LAYOUT_BHLNC, LAYOUT_PAIRED };
enum { LAYOUTS = COUNT(layouts) };

/* As vLLM and Transformers index theirs, in elements of 16; 2 KV heads, pages of 8 slots; a layer in
 * four where layers share a tensor. */
static void layouts_are_those_of_engines(void **state)
{
	enum { D = 16, C = 2 * D, HEADS = 2, SLOTS = 8, L = 4 };
	static const struct {
		enum layout layout;
		int page, slot, head,
		    v; /* 0: by the number of pages; v: from K to V, 0: another tensor */
	} rows[] = {
		{ LAYOUT_NHD, SLOTS * HEADS * D, HEADS * D, D, 0 },
		{ LAYOUT_HND, HEADS * SLOTS * D, D, SLOTS * D, 0 },
		{ LAYOUT_PACKED, SLOTS * HEADS * C, HEADS * C, C, D },
		{ LAYOUT_LBHNC, HEADS * SLOTS * C, C, SLOTS * C, D },
		{ LAYOUT_LHBNC, SLOTS * C, C, 0, D },
		{ LAYOUT_BLNHC, L * SLOTS * HEADS * C, HEADS * C, C, D },
		{ LAYOUT_BLHNC, L * HEADS * SLOTS * C, C, SLOTS * C, D },
		{ LAYOUT_BHLNC, HEADS * L * SLOTS * C, C, L * SLOTS * C, D },
		{ LAYOUT_PAIRED, L * 2 * SLOTS * HEADS * D, HEADS * D, D, SLOTS * HEADS * D },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct scenario s;
		struct workload w;
		scenario_make(&s, &plain, "q1s30_q5s40");
		s.layout = rows[i].layout;
		make(&w, NULL, &s, WORKLOAD_CHECK, 0);
		const attune_tensors *t = &w.tensors;
		const int pages = w.pages_per_set + w.spare_pages;
		assert_int_equal(t->k_page_stride, rows[i].page);
		assert_int_equal(t->k_slot_stride, rows[i].slot);
		assert_int_equal(t->k_head_stride, rows[i].head ? rows[i].head : pages * SLOTS * C);
		assert_true(t->v_page_stride == t->k_page_stride &&
			    t->v_slot_stride == t->k_slot_stride &&
			    t->v_head_stride == t->k_head_stride);
		assert_true(maps_take(&s.shape, t, 0)); /* so warpgroup reads it */
		if (rows[i].v)
			assert_int_equal((const char *)t->v_cache - (const char *)t->k_cache,
					 rows[i].v * dtype_bytes(plain.kv_dtype));
		workload_free(&w);
		batch_free(s.batch);
	}
}

static void nan_where_there_is_no_token(void **state)
{
	static const enum attune_dtype types[] = { ATTUNE_F32, ATTUNE_F16, ATTUNE_BF16,
						   ATTUNE_E4M3 };
	(void)state;
	for (int c = 0; c < 4 * LAYOUTS; c++) {
		attune_shape shape = plain;
		struct scenario s;
		struct workload w;
		int live[100] = { 0 }, nans = 0;
		shape.kv_dtype = types[c % 4];
		shape.dtype = c % 4 == 3 ? ATTUNE_BF16 : ATTUNE_F32;
		scenario_make(&s, &shape, "q1s30_q5s40_q1s1_q0s9_q9s3");
		s.layout = layouts[c / 4];
		s.shape.kv_layout = layout_kv(s.layout);
		make(&w, NULL, &s, WORKLOAD_CHECK, 0);
		count_live(&w, live);
		for (int page = 0; page < w.pages_per_set + w.spare_pages; page++)
			for (int at = 0; at < 8 * 2 * 16; at++) {
				const int slot = at / 16 % 8, head = at / 16 / 8;
				for (int is_v = 0; is_v < 2; is_v++) {
					const double x = kv_at(&w, is_v, page, slot, head, at % 16);
					nans += isnan(x);
					assert_int_equal(isnan(x) != 0, slot >= live[page]);
				}
			}
		assert_true(nans > 0);
		for (int i = 0; i < 5; i++)
			for (int j = (s.batch->view.seq_lens[i] + 7) / 8;
			     j < w.tensors.block_table_stride; j++)
				assert_int_equal(
				    live[w.host_table[i * w.tensors.block_table_stride + j]], 0);
		workload_free(&w);
		batch_free(s.batch);
	}
}

/* k_new and v_new hold the cache's values; rows without a position are poison. */
static void new_tokens_stand_apart_too(void **state)
{
	static const char *const texts[] = { "q4s30_q1s1_q0s9_q9", "q5s40_q7s3_q1s17", "q0s4" };
	struct pool *pool = NULL;
	(void)state;
	for (int c = 0; c < 4 * LAYOUTS; c++) {
		attune_shape shape = plain;
		struct scenario s;
		struct workload w;
		int seen = 0;
		shape.kv_dtype = c % 2 ? ATTUNE_F32 : ATTUNE_BF16;
		shape.window = c % 3 ? 0 : 12;
		scenario_make(&s, &shape, texts[c / 4 % 3]);
		s.layout = layouts[(c + c / 4) % LAYOUTS];
		s.shape.kv_layout = layout_kv(s.layout);
		make(&w, &pool, &s, c & 2 ? WORKLOAD_TIMED : WORKLOAD_CHECK, 0);
		const attune_batch *b = &s.batch->view;
		const int size = dtype_bytes(shape.kv_dtype);
		const char *rows[] = { w.tensors.k_new, w.tensors.v_new };
		for (int i = 0; i < b->num_seqs; i++)
			for (int t = b->query_start[i]; t < b->query_start[i + 1]; t++)
				for (int at = 0; at < 4; at++, seen++) {
					const int key = b->seq_lens[i] - b->query_start[i + 1] + t;
					const int page =
					    w.host_table[i * w.tensors.block_table_stride +
							 (key < 0 ? 0 : key) / 8];
					const char *row =
					    rows[at / 2] + (t * w.tensors.k_new_token_stride +
							    at % 2 * w.tensors.k_new_head_stride) *
							       size;
					unsigned char none[16 * 4];
					memset(none, POISON, sizeof none);
					if (key < 0)
						assert_memory_equal(row, none, 16 * size);
					for (int d = 0; key >= 0 && d < 16; d++)
						assert_true(
						    value_of(shape.kv_dtype, row, d) ==
						    kv_at(&w, at / 2, page, key % 8, at % 2, d));
				}
		assert_int_equal(seen, 4 * b->query_start[b->num_seqs]);
		workload_free(&w);
		batch_free(s.batch);
	}
	pool_free(&cpu, pool);
}

/* The reference over memory and the one over hashes: same paging, same numbers. */
static void expectations_are_of_what_is_in_memory(void **state)
{
	struct pool *pool = NULL;
	(void)state;
	for (int c = 0; c < 4 * LAYOUTS; c++) {
		attune_shape shape = plain;
		struct scenario s;
		struct workload w;
		struct attune_args args;
		double out[16];
		shape.kv_dtype = c % 3;
		shape.window = c & 1 ? 33 : 0;
		shape.has_sinks = shape.has_alibi = c > 4;
		shape.kv_layout = layout_kv(layouts[c / 4]);
		scenario_make(&s, &shape, "q1s130_q5s40_q0_q70");
		s.layout = layouts[c / 4];
		make(&w, &pool, &s, c & 2 ? WORKLOAD_TIMED : WORKLOAD_CHECK, 0);
		args_from_tensors(&args, &shape, &w.tensors, 4);
		struct expected *e = expected_make(&w, 60, 0);
		assert_non_null(e);
		assert_in_range(e->num_rows, 60, 66);
		for (int i = 0; i < e->num_rows; i++) {
			const struct expected_row *r = &e->row[i];
			reference_row(&args, &shape, r->seq, r->token, r->head, out);
			for (int d = 0; d < 16; d++)
				assert_true(e->want[i * 16 + d] == (float)out[d]);
		}
		expected_free(e);
		workload_free(&w);
		batch_free(s.batch);
	}
	pool_free(&cpu, pool);
}

static void rows_are_spread(void **state)
{
	struct scenario s;
	struct workload w;
	int first[4] = { 0 }, last[4] = { 0 }, heads[4] = { 0 }, per_quarter[4] = { 0 };
	(void)state;
	scenario_make(&s, &plain, "q100_q1s9_q0_q299");
	make(&w, NULL, &s, WORKLOAD_CHECK, 0);
	struct expected *e = expected_make(&w, 200, 0);
	assert_non_null(e);
	for (int i = 0; i < e->num_rows; i++) {
		const struct expected_row *r = &e->row[i];
		first[r->seq] += r->token == 0;
		last[r->seq] += r->token == batch_query_len(&s.batch->view, r->seq) - 1;
		heads[r->head]++;
		per_quarter[(s.batch->view.query_start[r->seq] + r->token) / 100]++;
	}
	assert_true(first[0] && first[1] && first[3] && last[0] && last[1] && last[3]);
	for (int i = 0; i < 4; i++) {
		assert_in_range(heads[i], 30, 70);
		assert_in_range(per_quarter[i], 48, 56);
	}
	expected_free(e);
	e = expected_make(&w, 400 * 4, 0);
	assert_int_equal(e->num_rows, 400 * 4);
	expected_free(e);
	workload_free(&w);
	batch_free(s.batch);
}

/* ---- outputs -------------------------------------------------------------------- */
static void heads_have_numbers_of_their_own(void **state)
{
	attune_shape shape = plain;
	struct scenario s;
	struct workload w;
	(void)state;
	shape.has_sinks = shape.has_alibi = 1;
	scenario_make(&s, &shape, "q1");
	make(&w, NULL, &s, WORKLOAD_CHECK, 0);
	const float *sinks = w.tensors.sinks;
	for (int i = 0; i < 4; i++) {
		assert_true(fabsf(sinks[i]) <= 2);
		assert_true(sinks[i] != sinks[(i + 1) % 4]);
	}
	assert_true(w.tensors.alibi_slopes[0] == 0.25f);
	assert_true(w.tensors.alibi_slopes[3] == 1.f / 256);
	workload_free(&w);
	shape.has_sinks = shape.has_alibi = 0;
	s.shape = shape;
	make(&w, NULL, &s, WORKLOAD_CHECK, 0);
	assert_null(w.tensors.sinks);
	assert_null(w.tensors.alibi_slopes);
	workload_free(&w);
	batch_free(s.batch);
}

/* Where there is NVRTC, the GPU's filler must at least compile. */
static void the_filler_compiles(void **state)
{
	char path[4096 + 32];
	struct binary b = { 0 };
	(void)state;
	if (!strcmp(jit_version(BACKEND_GPU, "sm_90"), "none") || !source_root())
		return;
	snprintf(path, sizeof path, "%s/../harness/check/fill.cu", source_root());
	if (jit_compile_source(&b, path, "", "sm_90"))
		fail_msg("%s", b.log ? b.log : "no compiler");
	jit_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_are_rounded_as_elsewhere),
		cmocka_unit_test(values_are_almost_normal),
		cmocka_unit_test(a_seed_means_the_same_bytes),
		cmocka_unit_test(layouts_are_those_of_engines),
		cmocka_unit_test(nan_where_there_is_no_token),
		cmocka_unit_test(new_tokens_stand_apart_too),
		cmocka_unit_test(expectations_are_of_what_is_in_memory),
		cmocka_unit_test(rows_are_spread),
		cmocka_unit_test(heads_have_numbers_of_their_own),
		cmocka_unit_test(the_filler_compiles),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("workload_values", tests, set_up, tear_down);
}
