/* SPDX-License-Identifier: Apache-2.0 */
/* t_workload.c - the buffers of a workload: pages of each sequence and set, memory limits, and guards
 * around outputs. */
#include "cpu_workload.h"

/* ---- pages ---------------------------------------------------------------------- */

static void permutations(void **state)
{
	enum { N = 1000 };
	int32_t *a = permutation(N, 1), *b = permutation(N, 1), *c = permutation(N, 2);
	int seen[N] = { 0 }, moved = 0, same = 0;
	(void)state;
	assert_non_null(a);
	for (int i = 0; i < N; i++) {
		assert_in_range(a[i], 0, N - 1);
		seen[a[i]]++;
		moved += a[i] != i;
		same += a[i] == c[i];
	}
	for (int i = 0; i < N; i++)
		assert_int_equal(seen[i], 1);
	assert_true(moved > N - 20);
	assert_true(same < 20);
	assert_memory_equal(a, b, N * sizeof *a);
	free(a);
	free(b);
	free(c);
}

/* Counts in owners[] how often tables of all sets name each page for a token. */
static void count_owners(const struct workload *w, int *owners)
{
	const attune_batch *b = &w->scenario->batch->view;
	const int page_size = w->scenario->shape.page_size;
	for (int set = 0; set < w->sets; set++)
		for (int i = 0; i < b->num_seqs; i++)
			for (int j = 0; j * page_size < b->seq_lens[i]; j++)
				owners[w->block_tables[set]
						      [i * w->tensors.block_table_stride + j]]++;
}

static void no_page_is_shared(void **state)
{
	struct scenario s;
	struct workload w;
	struct pool *pool = NULL;
	int owners[2000] = { 0 }, ascending = 0;
	(void)state;
	scenario_make(&s, &plain, "3q1s100_q50_q1s1_2q8s16");
	const size_t kv = 2 * 2 * 2 * 16 * (300 + 50 + 1 + 32);
	make(&w, &pool, &s, WORKLOAD_TIMED, 3 * kv - 1);
	assert_int_equal(w.sets, 3);
	assert_int_equal(w.pages_per_set, 3 * 13 + 7 + 1 + 2 * 2);
	count_owners(&w, owners);
	for (int i = 0; i < 2000; i++)
		assert_int_equal(owners[i] > 1, 0);
	for (int i = 0, n = 0; i < 2000; i++) {
		n += owners[i];
		if (i == 1999)
			assert_int_equal(n, 3 * w.pages_per_set);
	}
	for (int j = 1; j < 13; j++)
		ascending += w.block_tables[0][j] == w.block_tables[0][j - 1] + 1;
	assert_true(ascending < 6);
	workload_free(&w);
	pool_free(&cpu, pool);
	batch_free(s.batch);
}

static void as_many_sets_as_are_cold(void **state)
{
	struct scenario s;
	struct workload w;
	struct pool *pool = NULL;
	const size_t kv = 2 * 2 * 2 * 16 * 80;
	const struct {
		size_t cold;
		int sets;
	} rows[] = { { 0, 1 },        { kv, 1 },           { kv + 1, 2 },
		     { 10 * kv, 10 }, { 31 * kv + 1, 32 }, { 1000 * kv, 32 } };
	(void)state;
	scenario_make(&s, &plain, "q1s80");
	for (size_t i = 0; i < COUNT(rows); i++) {
		make(&w, &pool, &s, WORKLOAD_TIMED, rows[i].cold);
		assert_int_equal(w.sets, rows[i].sets);
		workload_free(&w);
	}
	pool_free(&cpu, pool);
	batch_free(s.batch);
}

/* Pages before every window are not kept, so a set is exactly what a call reads. */
static void pages_before_the_window(void **state)
{
	attune_shape shape = plain;
	struct scenario s;
	struct workload w;
	struct pool *pool = NULL;
	(void)state;
	shape.window = 20;
	scenario_make(&s, &shape, "q1s1000_q10s500_q1s8");
	make(&w, &pool, &s, WORKLOAD_TIMED, 0);
	/* keys 980..999 are of 3 pages, 471..499 of 5 */
	assert_int_equal(w.pages_per_set, 3 + 5 + 1);
	for (int j = 1; j < 980 / 8; j++)
		assert_int_equal(w.host_table[j], w.host_table[0]);
	assert_int_not_equal(w.host_table[980 / 8], w.host_table[0]);
	workload_free(&w);
	make(&w, &pool, &s, WORKLOAD_CHECK, 0);
	assert_int_equal(w.pages_per_set, 125 + 63 + 1);
	workload_free(&w);
	pool_free(&cpu, pool);
	batch_free(s.batch);
}

static void memory_is_limited(void **state)
{
	struct scenario s;
	struct workload w;
	struct pool *pool = NULL;
	const size_t memory = cpu.info.memory_bytes, kv = 2 * 2 * 2 * 16 * 800;
	(void)state;
	scenario_make(&s, &plain, "q1s800");
	cpu.info.memory_bytes = 10 * kv; /* of which half, and a spare page */
	make(&w, &pool, &s, WORKLOAD_TIMED, 100 * kv);
	assert_int_equal(w.sets, 4);
	workload_free(&w);
	cpu.info.memory_bytes = kv;
	assert_int_equal(workload_make(&w, &cpu, &pool, &s, WORKLOAD_TIMED, 0), ATTUNE_NO_MEMORY);
	assert_non_null(strstr(attune_last_error(), "one set of pages takes"));
	cpu.info.memory_bytes = memory;
	pool_free(&cpu, pool);
	batch_free(s.batch);
}

static void a_pool_grows_and_stays(void **state)
{
	struct pool *pool = NULL;
	const void *k;
	(void)state;
	assert_int_equal(pool_reserve(&pool, &cpu, 1001, ATTUNE_F16), ATTUNE_OK);
	k = pool->k;
	assert_int_equal(pool_reserve(&pool, &cpu, 500, ATTUNE_F16), ATTUNE_OK);
	assert_ptr_equal(pool->k, k);
	assert_int_equal(pool->elements, 1002);
	assert_int_equal(pool_reserve(&pool, &cpu, 5000, ATTUNE_F16), ATTUNE_OK);
	assert_int_equal(pool->elements, 5000);
	assert_int_equal(pool_reserve(&pool, &cpu, 500, ATTUNE_BF16), ATTUNE_OK);
	assert_int_equal(pool->dtype, ATTUNE_BF16);
	assert_int_equal(pool_reserve(&pool, &cpu, 1001, ATTUNE_E4M3), ATTUNE_OK);
	assert_int_equal(pool->elements, 1004);
	pool_free(&cpu, pool);
}

/* ---- outputs -------------------------------------------------------------------- */

static void outputs_are_guarded(void **state)
{
	static const char *const texts[] = { "q4s9", "q5s9" };
	(void)state;
	for (int odd = 0; odd < 2; odd++) {
		struct scenario s;
		struct workload w;
		scenario_make(&s, &plain, texts[odd]);
		make(&w, NULL, &s, WORKLOAD_CHECK, 0);
		unsigned char *out = w.memory[0];
		assert_int_equal(w.tensors.out_head_stride, odd ? 16 + 8 : 16);
		assert_true(w.tensors.out_token_stride >= 4 * w.tensors.out_head_stride);
		assert_int_equal(w.tensors.q_token_stride, w.tensors.out_token_stride);
		assert_ptr_equal(w.tensors.out, out + GUARD);
		memset(out, 0, w.out_bytes);
		assert_int_equal(workload_poison(&w), ATTUNE_OK);
		for (size_t i = 0; i < w.out_bytes; i++)
			assert_int_equal(out[i], POISON);
		workload_free(&w);
		batch_free(s.batch);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(permutations),
		cmocka_unit_test(no_page_is_shared),
		cmocka_unit_test(as_many_sets_as_are_cold),
		cmocka_unit_test(pages_before_the_window),
		cmocka_unit_test(memory_is_limited),
		cmocka_unit_test(a_pool_grows_and_stays),
		cmocka_unit_test(outputs_are_guarded),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("workload", tests, set_up, tear_down);
}
