/* SPDX-License-Identifier: Apache-2.0 */
/* t_torch_op.c - torch's operators by a stand-in for torch: what they compute, and what they refuse. No
 * handle of a tensor stays, whatever comes of a call. tests/python has the same under torch itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "fake_torch.h"

enum {
	SEQS = 3,
	HEADS = 4,
	KV_HEADS = 2,
	HEAD = 64,
	PAGE = 16,
	TABLE = 4,
	PAGES = 12,
	TOKENS = 24
};
enum { LONG = 6000 }; /* keys of a sequence that is cut into segments */
// clang-format off
enum { OUT, Q, K_CACHE, V_CACHE, BLOCK_TABLE, STARTS, LENS, PLAN, LSE, K_SCALE, V_SCALE, SINKS, SLOPES,
	K_NEW, V_NEW, OPERANDS };
// clang-format on

static attune_context *ctx;
static attune_op *op;
static attune_plan plan;
static uint64_t planned[64];
static float q[TOKENS][HEADS][HEAD], out[TOKENS][HEADS][HEAD], want[TOKENS][HEADS][HEAD];
static float k[PAGES][PAGE][KV_HEADS][HEAD], v[PAGES][PAGE][KV_HEADS][HEAD];
static float rows[2][TOKENS][KV_HEADS][HEAD], numbers[8];
static const int32_t starts[] = { 0, 20, 21, 24 }, lens[] = { 20, 50, 33 };
static int32_t table[SEQS][TABLE] = { { 3, 1 }, { 0, 7, 2, 9 }, { 5, 4, 11 } };

static void fine(enum attune_status status)
{
	if (status)
		fail_msg("%s", attune_last_error());
}

static void fill(float *x, size_t n)
{
	static unsigned seed = 1;
	for (size_t i = 0; i < n; i++)
		x[i] = (float)((seed = seed * 1664525 + 1013904223) >> 8) / 8388608 - 1;
}

static const attune_shape shape = { .size = sizeof shape,
				    .num_query_heads = HEADS,
				    .num_kv_heads = KV_HEADS,
				    .head_size = HEAD,
				    .page_size = PAGE,
				    .dtype = ATTUNE_F32,
				    .kv_dtype = ATTUNE_F32,
				    .causal = 1 };

static struct fake plan_tensor(const attune_op *of, const attune_plan *p, uint64_t *bytes)
{
	size_t size;
	fine(attune_torch_plan(of, p, NULL, 0, &size));
	fine(attune_torch_plan(of, p, bytes, sizeof planned, &size));
	return fake_tensor(bytes, FAKE_U8, 1, (int64_t)size, 0, 0, 0);
}

static int setup(void **state)
{
	const attune_batch batch = { sizeof batch, SEQS, starts, lens };
	(void)state;
	setenv("ATTUNE_THREADS", "2", 1);
	fine(attune_open(&ctx, "cpu"));
	fine(attune_prepare(ctx, &shape, &op));
	plan.size = sizeof plan;
	fine(attune_plan_batch(op, &batch, &plan));
	fill(q[0][0], sizeof q / sizeof(float));
	fill(k[0][0][0], sizeof k / sizeof(float));
	fill(v[0][0][0], sizeof v / sizeof(float));
	fill(rows[0][0][0], sizeof rows / sizeof(float));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	attune_release(op);
	attune_close(ctx);
	return 0;
}

/* Of the batch above. */
static void operands(struct fake *t)
{
	memset(t, 0, OPERANDS * sizeof *t);
	t[OUT] = fake_tensor(out, FAKE_F32, 3, TOKENS, HEADS, HEAD, 0);
	t[Q] = fake_tensor(q, FAKE_F32, 3, TOKENS, HEADS, HEAD, 0);
	t[K_CACHE] = fake_tensor(k, FAKE_F32, 4, PAGES, PAGE, KV_HEADS, HEAD);
	t[V_CACHE] = fake_tensor(v, FAKE_F32, 4, PAGES, PAGE, KV_HEADS, HEAD);
	t[BLOCK_TABLE] = fake_tensor(table, FAKE_I32, 2, SEQS, TABLE, 0, 0);
	t[STARTS] = fake_tensor(starts, FAKE_I32, 1, SEQS + 1, 0, 0, 0);
	t[LENS] = fake_tensor(lens, FAKE_I32, 1, SEQS, 0, 0, 0);
	t[PLAN] = plan_tensor(op, &plan, planned);
}

/* What attune_run gives for these, in `want`. */
static void run_directly(void)
{
	// clang-format off
	const attune_tensors t = { .size = sizeof t, .out = want, .q = q, .k_cache = k, .v_cache = v,
		.block_table = table[0], .query_start = starts, .seq_lens = lens,
		.q_token_stride = HEADS * HEAD, .q_head_stride = HEAD, .out_token_stride = HEADS * HEAD,
		.out_head_stride = HEAD, .k_page_stride = PAGE * KV_HEADS * HEAD,
		.k_slot_stride = KV_HEADS * HEAD, .k_head_stride = HEAD,
		.v_page_stride = PAGE * KV_HEADS * HEAD, .v_slot_stride = KV_HEADS * HEAD,
		.v_head_stride = HEAD, .block_table_stride = TABLE };
	// clang-format on
	assert_in_range(plan.workspace, 0, sizeof fake_memory);
	fine(attune_run(op, &plan, &t, fake_memory, sizeof fake_memory, NULL));
}

static void torch_that_does_not_serve_is_refused(void **state)
{
	(void)state;
	assert_int_equal(attune_torch_register(), ATTUNE_UNSUPPORTED);
	assert_string_equal(attune_last_error(),
			    "attune_torch_register: torch is not loaded: import it first");
	fake.library = "libm.so.6";
	assert_int_equal(attune_torch_register(), ATTUNE_UNSUPPORTED);
	assert_string_equal(attune_last_error(), "attune_torch_register: this torch has no "
						 "aoti_torch_check: 2.7.1 or newer is needed");
	fake.library = "";
	fake.refuses = 1;
	assert_int_equal(attune_torch_register(), ATTUNE_UNSUPPORTED);
	assert_string_equal(
	    attune_last_error(),
	    "attune_torch_register: torch refuses the operators: another library of "
	    "this process may have registered them");
	fake.refuses = 0;
}

static void operators_are_registered_once(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++)
		fine(attune_torch_register());
	assert_int_equal(fake.num_schemas, 7);
	assert_int_equal(fake.num_cuda, 7);
	for (int i = 0; i < 7; i++) /* a schema begins with the name */
		assert_int_equal(strncmp(fake.schema[i], fake.name[i], strlen(fake.name[i])), 0);
}

static void attention_is_attune_run(void **state)
{
	struct fake t[OPERANDS];
	(void)state;
	operands(t);
	run_directly();
	assert_null(fake_call("paged_attention", t, OPERANDS));
	assert_memory_equal(out, want, sizeof out);
}

/* By the overloads: whether `out` is returned, whether what is optional has operands. */
static void out_is_made_where_it_is_returned(void **state)
{
	static const struct {
		const char *name;
		int first, end;
	} overload[] = { { "paged_attention.plain_out", OUT, PLAN + 1 },
			 { "paged_attention.plain", Q, PLAN + 1 },
			 { "paged_attention.new", Q, OPERANDS } };
	struct fake t[OPERANDS], made;
	(void)state;
	run_directly();
	for (int i = 0; i < 3; i++) {
		const int first = overload[i].first, n = overload[i].end - first;
		operands(t);
		memset(out, 0, sizeof out);
		made = t[OUT];
		assert_null(fake_call_for(&made, (uint64_t)first, overload[i].name, t + first, n));
		assert_int_equal(made.data != (void *)out, first);
		assert_memory_equal(made.data, want, sizeof want);
		assert_memory_equal(made.size, t[OUT].size, sizeof made.size);
		assert_memory_equal(made.stride, t[OUT].stride, sizeof made.stride);
		t[LENS].data = NULL;
		assert_string_equal(fake_call(overload[i].name, t + first, n),
				    "attune::paged_attention: seq_lens has no elements");
	}
}

static void strides_are_taken(void **state)
{
	static float wide[TOKENS][2 * HEADS][HEAD], head_first[PAGES][KV_HEADS][PAGE][HEAD];
	struct fake t[OPERANDS];
	(void)state;
	operands(t);
	run_directly();
	for (int i = 0; i < TOKENS; i++)
		for (int h = 0; h < HEADS; h++)
			memcpy(wide[i][2 * h], q[i][h], sizeof q[i][h]);
	t[Q].data = wide;
	t[Q].stride[0] = (int64_t)2 * HEADS * HEAD;
	t[Q].stride[1] = (int64_t)2 * HEAD;
	for (int p = 0; p < PAGES; p++)
		for (int s = 0; s < PAGE; s++)
			for (int h = 0; h < KV_HEADS; h++)
				memcpy(head_first[p][h][s], k[p][s][h], sizeof k[p][s][h]);
	t[K_CACHE].data = head_first;
	t[K_CACHE].stride[1] = HEAD;
	t[K_CACHE].stride[2] = (int64_t)PAGE * HEAD;
	assert_null(fake_call("paged_attention", t, OPERANDS));
	assert_memory_equal(out, want, sizeof out);
}

static void the_workspace_is_of_torch(void **state)
{
	static float keys[LONG / PAGE][PAGE][1][HEAD];
	static int32_t pages[LONG / PAGE], begin[] = { 0, 1 }, many[] = { LONG };
	const attune_batch batch = { sizeof batch, 1, begin, many };
	attune_shape s = shape;
	attune_plan p = { .size = sizeof p };
	uint64_t bytes[64];
	struct fake t[OPERANDS];
	attune_op *one;
	(void)state;
	s.num_kv_heads = 1;
	fine(attune_prepare(ctx, &s, &one));
	fine(attune_plan_batch(one, &batch, &p));
	assert_true(p.workspace > 0);
	for (int i = 0; i < LONG / PAGE; i++)
		pages[i] = i;
	fill(keys[0][0][0], sizeof keys / sizeof(float));
	operands(t);
	t[K_CACHE] = t[V_CACHE] = fake_tensor(keys, FAKE_F32, 4, LONG / PAGE, PAGE, 1, HEAD);
	t[BLOCK_TABLE] = fake_tensor(pages, FAKE_I32, 2, 1, LONG / PAGE, 0, 0);
	t[STARTS] = fake_tensor(begin, FAKE_I32, 1, 2, 0, 0, 0);
	t[LENS] = fake_tensor(many, FAKE_I32, 1, 1, 0, 0, 0);
	t[PLAN] = plan_tensor(one, &p, bytes);
	assert_null(fake_call("paged_attention", t, OPERANDS));
	assert_int_equal(fake.made, 1);
	attune_release(one);
}

/* One operand is changed. */
// clang-format off
enum change { DTYPE, DIMS, SIZE_0, SIZE_1, STRIDE_LAST, ON_A_GPU, EMPTY, GIVEN };
static const struct {
	int operand;
	enum change change;
	int to;
	const char *line; /* behind "attune::paged_attention: " */
} refusals[] = {
	{ Q, DTYPE, FAKE_F64, "q must be of torch.float32" },
	{ Q, DIMS, 2, "q has the shape [24, 4], it must have [24 or more, 4, 64]" },
	{ Q, SIZE_0, 23, "q has the shape [23, 4, 64], it must have [24 or more, 4, 64]" },
	{ Q, STRIDE_LAST, 2, "the last dimension of q must be contiguous" },
	{ Q, EMPTY, 0, "q has no elements" },
	{ Q, ON_A_GPU, 0, "q must be on the CPU, as the op of the plan is" },
	{ OUT, SIZE_1, 5, "out has the shape [24, 5, 64], it must have [24 or more, 4, 64]" },
	{ K_CACHE, DTYPE, FAKE_U8, "k_cache must be of torch.float32" },
	{ V_CACHE, SIZE_1, 8, "v_cache has the shape [12, 8, 2, 64], it must have [0 or more, 16, 2, 64]" },
	{ V_CACHE, DIMS, 3, "v_cache has the shape [12, 16, 2], it must have [0 or more, 16, 2, 64]" },
	{ BLOCK_TABLE, DTYPE, FAKE_I64, "block_table must be of torch.int32" },
	{ BLOCK_TABLE, SIZE_0, 2, "block_table has the shape [2, 4], it must have [3 or more, 3 or more]" },
	{ BLOCK_TABLE, SIZE_1, 2, "block_table has the shape [3, 2], it must have [3 or more, 3 or more]" },
	{ STARTS, SIZE_0, 3, "query_start_loc has the shape [3], it must have [4 or more]" },
	{ LENS, EMPTY, 0, "seq_lens has no elements" },
	{ K_SCALE, GIVEN, 3, "k_scale has the shape [3], it must have [2]" },
	{ LSE, GIVEN, 4, "lse is given, but the op was prepared without it" },
	{ SINKS, GIVEN, 4, "sinks is given, but the op was prepared without it" },
	{ SLOPES, GIVEN, 4, "alibi_slopes is given, but the op was prepared without it" },
	{ V_NEW, GIVEN, 4, "v_new is given, but the op was prepared without it" },
	{ PLAN, DTYPE, FAKE_I32, "plan is no plan: it is a uint8 tensor on the CPU that attune_torch_plan filled" },
	{ PLAN, SIZE_0, 8, "plan is no plan: it is a uint8 tensor on the CPU that attune_torch_plan filled" },
	{ PLAN, EMPTY, 0, "plan is no plan: it is a uint8 tensor on the CPU that attune_torch_plan filled" },
};
// clang-format on

static void change_one(struct fake *t, enum change change, int to)
{
	switch (change) {
	case DTYPE: t->dtype = to; break;
	case DIMS: t->dims = to; break;
	case SIZE_0: t->size[0] = to; break;
	case SIZE_1: t->size[1] = to; break;
	case STRIDE_LAST: t->stride[t->dims - 1] = to; break;
	case ON_A_GPU: t->device_type = FAKE_CUDA; break;
	case EMPTY: t->data = NULL; break;
	case GIVEN: *t = fake_tensor(numbers, FAKE_F32, 1, to, 0, 0, 0); break;
	}
}

static void what_does_not_fit_is_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
		struct fake t[OPERANDS];
		char line[256];
		operands(t);
		change_one(&t[refusals[i].operand], refusals[i].change, refusals[i].to);
		snprintf(line, sizeof line, "attune::paged_attention: %s", refusals[i].line);
		const char *error = fake_call("paged_attention", t, OPERANDS);
		assert_string_equal(error ? error : "nothing", line);
	}
}

static void bytes_of_another_kind_are_no_plan(void **state)
{
	struct fake t[OPERANDS];
	size_t size;
	(void)state;
	operands(t);
	planned[0]++;
	assert_non_null(strstr(fake_call("paged_attention", t, OPERANDS), "plan is no plan"));
	assert_int_equal(attune_torch_plan(op, &plan, planned, 8, &size), ATTUNE_TOO_SMALL);
	attune_plan other = plan;
	other.op++;
	assert_int_equal(attune_torch_plan(op, &other, planned, sizeof planned, &size),
			 ATTUNE_INVALID);
}

/* The whole row of a table may be read, however wide it is. */
static void a_plan_of_bounds_takes_any_table(void **state)
{
	attune_plan bounds = { .size = sizeof bounds };
	uint64_t bytes[64];
	struct fake t[OPERANDS];
	(void)state;
	fine(attune_plan_bounds(op, SEQS, TOKENS, 20, 50, &bounds));
	operands(t);
	t[PLAN] = plan_tensor(op, &bounds, bytes);
	run_directly();
	assert_null(fake_call("paged_attention", t, OPERANDS));
	for (int i = 0; i < TOKENS; i++)
		for (int d = 0; d < HEADS * HEAD; d++)
			assert_float_equal(out[i][d / HEAD][d % HEAD], want[i][d / HEAD][d % HEAD],
					   1e-5f);
}

static void new_tokens_are_written(void **state)
{
	static float to[2][PAGES][PAGE][KV_HEADS][HEAD];
	static const int64_t slots[] = { 5, -1, 190 };
	struct fake t[11] = { { 0 } }, all[OPERANDS];
	(void)state;
	operands(all);
	for (int i = 0; i < 2; i++) {
		t[i] = fake_tensor(to[i], FAKE_F32, 4, PAGES, PAGE, KV_HEADS, HEAD);
		t[2 + i] = fake_tensor(rows[i], FAKE_F32, 3, TOKENS, KV_HEADS, HEAD, 0);
	}
	t[4] = all[PLAN];
	t[5] = fake_tensor(slots, FAKE_I64, 1, 3, 0, 0, 0);
	assert_null(fake_call("write_kv", t, 11));
	assert_memory_equal(to[1][0][5], rows[1][0], sizeof rows[1][0]);
	assert_memory_equal(to[0][11][14], rows[0][2], sizeof rows[0][2]);
	assert_true(to[0][11][15][1][63] == 0);
	memset(&t[5], 0, sizeof t[5]);
	memcpy(&t[6], &all[BLOCK_TABLE], 3 * sizeof *t);
	assert_null(fake_call("write_kv", t, 11));
	assert_memory_equal(to[0][9][1], rows[0][20], sizeof rows[0][20]); /* position 49 */
	t[5] = fake_tensor(lens, FAKE_I32, 1, 3, 0, 0, 0);
	assert_string_equal(fake_call("write_kv", t, 11),
			    "attune::write_kv: slots must be of torch.int64");
}

static void tables_are_made_of_lists_and_of_ragged_keys(void **state)
{
	static const int32_t lists[] = { 0, 2, 3, 6 }, ragged[] = { 0, 20, 40, 60 };
	static const int64_t indices[] = { 8, 6, 4, 10, 2, 0 };
	int32_t made[SEQS][TABLE] = { { 0 } };
	struct fake t[4] = { { 0 } }, all[OPERANDS];
	(void)state;
	operands(all);
	t[0] = fake_tensor(made, FAKE_I32, 2, SEQS, TABLE, 0, 0);
	t[1] = fake_tensor(lists, FAKE_I32, 1, SEQS + 1, 0, 0, 0);
	t[2] = fake_tensor(indices, FAKE_I64, 1, 6, 0, 0, 0);
	t[3] = all[PLAN];
	assert_null(fake_call("page_table", t, 4));
	assert_int_equal(made[1][0], 4);
	assert_int_equal(made[2][2], 0);
	assert_int_equal(made[2][1], 2);
	t[1].data = (void *)(uintptr_t)ragged;
	memset(&t[2], 0, sizeof t[2]);
	assert_null(fake_call("page_table", t, 4));
	assert_int_equal(made[1][1], 36);
	t[1].size[0] = 3;
	assert_string_equal(
	    fake_call("page_table", t, 4),
	    "attune::page_table: indptr has the shape [3], it must have [4 or more]");
}

static void a_table_of_ragged_keys_is_made(void **state)
{
	static const int32_t ragged[] = { 0, 20, 40, 60 };
	struct fake t[3], all[OPERANDS], made[2];
	(void)state;
	operands(all);
	t[0] = fake_tensor(ragged, FAKE_I32, 1, SEQS + 1, 0, 0, 0);
	t[1] = all[PLAN];
	t[2] = fake_number(2);
	assert_null(fake_call_for(made, 2, "ragged_table", t, 3));
	assert_true(made[0].dims == 2 && made[0].size[0] == SEQS && made[0].size[1] == 2);
	assert_true(made[1].dims == 1 && made[1].size[0] == SEQS);
	for (int i = 0; i < SEQS; i++) {
		const int32_t first[] = { ragged[i], ragged[i] + PAGE };
		assert_memory_equal((int32_t *)made[0].data + i * 2, first, sizeof first);
		assert_int_equal(((int32_t *)made[1].data)[i], 20);
	}
	t[2] = fake_number(1);
	assert_string_equal(fake_call("ragged_table", t, 3),
			    "attune::ragged_table: sequence 0 has 2 pages, and a row of "
			    "block_table 1 entries");
	t[2] = fake_number(0);
	assert_string_equal(fake_call("ragged_table", t, 3),
			    "attune::ragged_table: pages is 0, it must be from 1 to 2^31 - 1");
	t[0].dtype = FAKE_I64;
	t[2] = fake_number(2);
	assert_string_equal(fake_call("ragged_table", t, 3),
			    "attune::ragged_table: cu_seqlens_k must be of torch.int32");
	t[0] = fake_tensor(ragged, FAKE_I32, 1, 1, 0, 0, 0);
	assert_string_equal(
	    fake_call("ragged_table", t, 3),
	    "attune::ragged_table: cu_seqlens_k has the shape [1], it must have [4 or more]");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(torch_that_does_not_serve_is_refused),
		cmocka_unit_test(operators_are_registered_once),
		cmocka_unit_test(attention_is_attune_run),
		cmocka_unit_test(out_is_made_where_it_is_returned),
		cmocka_unit_test(strides_are_taken),
		cmocka_unit_test(the_workspace_is_of_torch),
		cmocka_unit_test(what_does_not_fit_is_refused),
		cmocka_unit_test(bytes_of_another_kind_are_no_plan),
		cmocka_unit_test(a_plan_of_bounds_takes_any_table),
		cmocka_unit_test(new_tokens_are_written),
		cmocka_unit_test(tables_are_made_of_lists_and_of_ragged_keys),
		cmocka_unit_test(a_table_of_ragged_keys_is_made),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, setup, teardown);
}
