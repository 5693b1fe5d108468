/* t_check.c - the correctness gate can fail. A toy kernel, which is the reference with
 * the arguments as they come, must pass every corner; toys that are wrong in the ways
 * in which kernels are wrong must not. */
#include "harness/base/base.h"
#include "harness/check/check.h"
#include "harness/scenario/scenario.h"
#include "kernels/device/device.h"
#include "harness/check/workload.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MAX_SEQS = 64, MAX_TABLE = 1024, MAX_KEYS = 8192, MAX_HEAD = 64, ROWS = 64 };

enum fault {
	RIGHT,
	ROUNDS_WEIGHTS, /* as a tensor core has them: no fault */
	DROPS_LAST_KEY,
	NO_MASK,
	NO_WINDOW,
	WINDOW_PLUS_ONE,
	WINDOW_MINUS_ONE,
	NEIGHBOUR_PAGE,
	READS_TAIL,
	NO_SINKS,
	NO_SOFTCAP,
	NO_ALIBI,
	SCALE_OFF,
	HEADS_SWAPPED,
	CONTIGUOUS_OUT,
	CONTIGUOUS_Q,
	NARROW_TABLE,
	LEAVES_ELEMENT,
	LEAVES_LAST_SEQ,
	WRITES_BEHIND,
	WRITES_BEFORE,
	WRITES_OTHER_PART,
	WRITES_BEHIND_WORKSPACE,
	READS_WORKSPACE,
	EMPTY_IS_NAN,
};

static struct { /* of the kernel under way; its cells only read it */
	enum fault fault;
	attune_shape shape;
} toy;

/* ---- the toy -------------------------------------------------------------------- */

static double narrow(double p)
{
	union {
		uint16_t half[2];
		float wide;
	} u = { { 0 } };
	value_put(toy.shape.kv_dtype, &u, 0, (float)p);
	return value_of(toy.shape.kv_dtype, &u, 0);
}

/* Causal and nothing else. Weights are rounded after they were summed. */
static void attend_rounded(const struct attune_args *a, int seq, int token, int head, double *out)
{
	const int *table = a->block_table + (size_t)seq * (size_t)a->block_table_stride;
	const int query = a->query_start[seq + 1] - a->query_start[seq];
	const int keys = a->seq_lens[seq] - query + token + 1, size = toy.shape.head_size;
	const long long q =
	    (a->query_start[seq] + token) * a->q_token_stride + head * a->q_head_stride;
	double score[MAX_KEYS], m = -INFINITY, l = 0;
	memset(out, 0, (size_t)size * sizeof *out);
	for (int key = 0; key < keys; key++) {
		const long long k = table[key / a->page_size] * a->k_page_stride +
				    key % a->page_size * a->k_slot_stride +
				    head / a->group * a->k_head_stride;
		score[key] = 0;
		for (int d = 0; d < size; d++)
			score[key] += value_of(toy.shape.dtype, a->q, q + d) *
				      value_of(toy.shape.kv_dtype, a->k_cache, k + d);
		score[key] *= a->scale;
		m = fmax(m, score[key]);
	}
	for (int key = 0; key < keys; key++) {
		const long long v = table[key / a->page_size] * a->v_page_stride +
				    key % a->page_size * a->v_slot_stride +
				    head / a->group * a->v_head_stride;
		const double p = exp(score[key] - m);
		l += p;
		for (int d = 0; d < size; d++)
			out[d] += narrow(p) * value_of(toy.shape.kv_dtype, a->v_cache, v + d);
	}
	for (int d = 0; d < size && l > 0; d++)
		out[d] /= l;
}

/* Arguments that a wrong kernel believes in; lens and table: room for its own. */
static void deceive(struct attune_args *a, int seq, int *lens, int *table)
{
	const int pages = (a->seq_lens[seq] + a->page_size - 1) / a->page_size;
	const int row = a->num_query_heads * toy.shape.head_size;
	switch (toy.fault) {
	case NO_MASK: a->causal = 0; break;
	case NO_WINDOW: a->window = 0; break;
	case WINDOW_PLUS_ONE: a->window += a->window > 0; break;
	case WINDOW_MINUS_ONE: a->window -= a->window > 1; break;
	case NO_SINKS: a->sinks = NULL; break;
	case NO_SOFTCAP: a->softcap = 0; break;
	case NO_ALIBI: a->alibi_slopes = NULL; break;
	case SCALE_OFF: a->scale *= 1.02f; break;
	case CONTIGUOUS_OUT: a->out_token_stride = row; break;
	case CONTIGUOUS_Q: a->q_token_stride = row; break;
	case NARROW_TABLE: a->block_table_stride = pages; break;
	case DROPS_LAST_KEY:
		memcpy(lens, a->seq_lens, (size_t)a->num_seqs * sizeof *lens);
		lens[seq] -= lens[seq] > 0;
		a->seq_lens = lens;
		break;
	case NEIGHBOUR_PAGE:
		memcpy(table, a->block_table + (size_t)seq * (size_t)a->block_table_stride,
		       (size_t)pages * sizeof *table);
		if (pages && table[pages / 2])
			table[pages / 2]--;
		else if (pages > 1) /* else there may be no page 1 to read */
			table[pages / 2]++;
		a->block_table = table;
		a->block_table_stride = 0;
		break;
	default: break;
	}
}

static void write_row(const struct attune_args *a, int seq, int token, int head, const double *row)
{
	const long long t = a->query_start[seq] + token;
	const long long at = t * a->out_token_stride + head * a->out_head_stride;
	const int last = seq == a->num_seqs - 1 && head == a->num_query_heads - 1 &&
			 t + 1 == a->query_start[seq + 1];
	const int size = toy.shape.head_size;
	for (int d = 0; d < size; d++)
		if (toy.fault != LEAVES_ELEMENT || d != 5 || !last)
			value_put(toy.shape.dtype, a->out, at + d, (float)row[d]);
	if (toy.fault == WRITES_BEHIND && last)
		value_put(toy.shape.dtype, a->out, at + size, 0);
	if (toy.fault == WRITES_BEFORE && !t && !head)
		value_put(toy.shape.dtype, a->out, at - 1, 0);
}

static void compute(const struct attune_args *a, int seq, int token, int head)
{
	const struct attune_args before = *a;
	struct attune_args b = *a;
	int lens[MAX_SEQS], table[MAX_TABLE];
	double row[MAX_HEAD];
	const int swapped = toy.fault == HEADS_SWAPPED ? head ^ 1 : head;
	deceive(&b, seq, lens, table);
	if (toy.fault == ROUNDS_WEIGHTS)
		attend_rounded(&b, seq, token, head, row);
	else
		reference_row(&b, &toy.shape, seq, token, swapped, row);
	if (toy.fault == READS_TAIL && a->seq_lens[seq]) {
		const int page = a->seq_lens[seq] / a->page_size;
		row[0] += 0 * value_of(toy.shape.kv_dtype, a->v_cache,
				       a->block_table[seq * a->block_table_stride + page] *
					       a->v_page_stride +
					   a->seq_lens[seq] % a->page_size * a->v_slot_stride);
	}
	if (toy.fault == EMPTY_IS_NAN && row[0] == 0 && row[1] == 0)
		row[0] = NAN;
	if (toy.fault == READS_WORKSPACE)
		row[0] += 0 * *a->partial_ml;
	if (toy.fault == WRITES_BEHIND_WORKSPACE)
		a->partial_ml[(size_t)a->seq_count * (size_t)a->max_query *
			      (size_t)a->num_query_heads * 2 * (size_t)(toy.shape.head_size + 2)] =
		    0;
	write_row(toy.fault == CONTIGUOUS_OUT ? &b : &before, seq, token, head, row);
}

/* cell = one sequence of the part */
static void toy_cell(const struct attune_args *a, int x, int y, int z)
{
	const int seq = a->seq_begin + x;
	const int query = a->query_start[seq + 1] - a->query_start[seq];
	(void)y, (void)z;
	if ((query < a->min_query || query > a->max_query) && toy.fault != WRITES_OTHER_PART)
		return;
	if (toy.fault == LEAVES_LAST_SEQ && x && x == a->seq_count - 1)
		return;
	for (int t = 0; t < query; t++)
		for (int h = 0; h < a->num_query_heads; h++)
			compute(a, seq, t, h);
}

static void toy_reduce(const struct attune_args *a, int x, int y, int z)
{
	(void)a, (void)x, (void)y, (void)z;
}

static const char *toy_why_illegal(const struct config *c, const attune_shape *s,
				   const struct part *p, const struct device_info *d)
{
	(void)c, (void)s, (void)p, (void)d;
	return NULL;
}

/* Two segments where a fault has to do with partials. */
static void toy_geometry(const struct config *c, const attune_shape *s, const struct part *p,
			 const struct device_info *d, struct geometry *g)
{
	const int partials = toy.fault == READS_WORKSPACE || toy.fault == WRITES_BEHIND_WORKSPACE;
	(void)c, (void)s, (void)d;
	*g = (struct geometry){ .x = (unsigned)p->seq_count,
				.y = 1,
				.z = 1,
				.threads = 1,
				.segments = partials ? 2 : 1 };
}

static const struct space toy_space = { .why_illegal = toy_why_illegal, .geometry = toy_geometry };
static const struct kernel toy_kernel = { .name = "toy", .selectable = 1, .space = &toy_space };

/* ---- the gate ------------------------------------------------------------------- */

static struct device cpu;
static struct pool *pool;
static struct loaded loaded;

static enum attune_status load(struct code **code,
			       void (*cell)(const struct attune_args *, int, int, int))
{
	const struct blob blob = { .cell = cell };
	return cpu.ops->load(&cpu, code, &blob);
}

static int set_up(void **state)
{
	(void)state;
	return device_open(&cpu, "cpu") || load(&loaded.code, toy_cell) ||
	       load(&loaded.helper[HELPER_REDUCE], toy_reduce);
}

static int tear_down(void **state)
{
	(void)state;
	pool_free(&cpu, pool);
	cpu.ops->unload(&cpu, loaded.code);
	cpu.ops->unload(&cpu, loaded.helper[HELPER_REDUCE]);
	device_close(&cpu);
	return 0;
}

static void scenario_make(struct scenario *s, const attune_shape *shape, const char *text)
{
	char error[120];
	*s = (struct scenario){ .shape = *shape,
				.seed = 11,
				.layout = shape->page_size % 16 ? LAYOUT_HND : LAYOUT_NHD };
	s->batch = batch_parse(text, error, sizeof error);
	assert_non_null(s->batch);
}

static void check_one(struct verdict *v, const attune_shape *shape, enum fault fault,
		      enum phase phase, const char *text, int rows)
{
	const struct choice choice = { .kernel = &toy_kernel };
	struct scenario s;
	toy.fault = fault;
	toy.shape = *shape;
	scenario_make(&s, shape, text);
	check_choice(v, &cpu, &pool, &choice, &loaded, &s, phase, rows);
	batch_free(s.batch);
}

#define PLAIN .num_query_heads = 4, .num_kv_heads = 2, .head_size = 32, .page_size = 16, .causal = 1
static const attune_shape f32 = { PLAIN },
			  f16 = { PLAIN, .dtype = ATTUNE_F16, .kv_dtype = ATTUNE_F16 },
			  bf16 = { PLAIN, .dtype = ATTUNE_BF16, .kv_dtype = ATTUNE_BF16 },
			  window = { PLAIN, .dtype = ATTUNE_BF16, .kv_dtype = ATTUNE_BF16,
				     .window = 100 },
			  odd_pages = { .num_query_heads = 6,
					.num_kv_heads = 2,
					.head_size = 24,
					.page_size = 7,
					.causal = 1,
					.kv_dtype = ATTUNE_F16 },
			  all = { PLAIN,         .dtype = ATTUNE_F16, .kv_dtype = ATTUNE_F16,
				  .window = 37,  .softcap = 2,        .has_sinks = 1,
				  .has_alibi = 1 };

static const struct row {
	const char *name;
	enum fault fault;
	const attune_shape *shape;
	enum phase phase;
} right[] = {
	{ "right, f32", RIGHT, &f32, PHASE_ALL },
	{ "right, f16, decode", RIGHT, &f16, PHASE_DECODE },
	{ "right, bf16, prefill", RIGHT, &bf16, PHASE_PREFILL },
	{ "right, window", RIGHT, &window, PHASE_ALL },
	{ "right, pages of 7, heads first", RIGHT, &odd_pages, PHASE_ALL },
	{ "right, all at once", RIGHT, &all, PHASE_ALL },
	{ "weights rounded to f16", ROUNDS_WEIGHTS, &f16, PHASE_ALL },
	{ "weights rounded to bf16", ROUNDS_WEIGHTS, &bf16, PHASE_ALL },
}, wrong[] = {
	{ "drops the last key, f32", DROPS_LAST_KEY, &f32, PHASE_ALL },
	{ "drops the last key, bf16", DROPS_LAST_KEY, &bf16, PHASE_ALL },
	{ "drops the last key, decode", DROPS_LAST_KEY, &bf16, PHASE_DECODE },
	{ "drops the last key, prefill", DROPS_LAST_KEY, &bf16, PHASE_PREFILL },
	{ "no causal mask", NO_MASK, &bf16, PHASE_ALL },
	{ "no causal mask, speculative decode", NO_MASK, &bf16, PHASE_DECODE },
	{ "ignores where the window begins", NO_WINDOW, &window, PHASE_DECODE },
	{ "window one too long", WINDOW_PLUS_ONE, &window, PHASE_DECODE },
	{ "window one too short", WINDOW_MINUS_ONE, &window, PHASE_PREFILL },
	{ "reads a neighbour's page", NEIGHBOUR_PAGE, &bf16, PHASE_DECODE },
	{ "reads a neighbour's page, prefill", NEIGHBOUR_PAGE, &f16, PHASE_PREFILL },
	{ "reads behind the last key", READS_TAIL, &bf16, PHASE_DECODE },
	{ "skips sinks", NO_SINKS, &all, PHASE_ALL },
	{ "skips the softcap", NO_SOFTCAP, &all, PHASE_ALL },
	{ "skips ALiBi", NO_ALIBI, &all, PHASE_ALL },
	{ "scale off by 2 %", SCALE_OFF, &bf16, PHASE_ALL },
	{ "heads swapped", HEADS_SWAPPED, &bf16, PHASE_ALL },
	{ "takes out for contiguous", CONTIGUOUS_OUT, &bf16, PHASE_DECODE },
	{ "takes q for contiguous", CONTIGUOUS_Q, &bf16, PHASE_PREFILL },
	{ "takes tables for contiguous", NARROW_TABLE, &bf16, PHASE_DECODE },
	{ "leaves out one element", LEAVES_ELEMENT, &bf16, PHASE_ALL },
	{ "leaves out the last sequence", LEAVES_LAST_SEQ, &bf16, PHASE_ALL },
	{ "writes behind the last row", WRITES_BEHIND, &bf16, PHASE_ALL },
	{ "writes before the first row", WRITES_BEFORE, &bf16, PHASE_ALL },
	{ "writes rows of the decode part", WRITES_OTHER_PART, &bf16, PHASE_PREFILL },
	{ "writes rows of the prefill part", WRITES_OTHER_PART, &bf16, PHASE_DECODE },
	{ "writes behind the workspace", WRITES_BEHIND_WORKSPACE, &f32, PHASE_DECODE },
	{ "reads the workspace unwritten", READS_WORKSPACE, &f32, PHASE_DECODE },
	{ "divides zero by zero", EMPTY_IS_NAN, &f32, PHASE_ALL },
};

static void passes_all_corners(void **state)
{
	const struct row *r = *state;
	for (int i = 0; corner_batches[i]; i++) {
		struct verdict v;
		check_one(&v, r->shape, r->fault, r->phase, corner_batches[i], 4 * ROWS);
		if (v.outcome != OUTCOME_OK)
			fail_msg("%s: %s: %s", corner_batches[i], outcome_name(v.outcome), v.text);
		assert_true(v.worst <= 1);
	}
}

/* By the few rows that a sweep looks at, too. */
static void fails_some_corner(void **state)
{
	const struct row *r = *state;
	for (int i = 0; corner_batches[i]; i++) {
		struct verdict v;
		check_one(&v, r->shape, r->fault, r->phase, corner_batches[i], ROWS);
		if (v.outcome == OUTCOME_OK)
			continue;
		assert_true(v.outcome == OUTCOME_WRONG || v.outcome == OUTCOME_NAN);
		assert_true(*v.text);
		return;
	}
	fail_msg("it passed");
}

/* ---- what a verdict says -------------------------------------------------------- */

static void says_what_was_not_written(void **state)
{
	struct verdict v;
	(void)state;
	check_one(&v, &bf16, LEAVES_ELEMENT, PHASE_ALL, "q1s5_q2s9", ROWS);
	assert_int_equal(v.outcome, OUTCOME_WRONG);
	assert_string_equal(v.text, "sequence 1, token 1, head 3, dim 5 was not written");
}

static void says_what_is_no_number(void **state)
{
	struct verdict v;
	(void)state;
	check_one(&v, &f16, READS_TAIL, PHASE_ALL, "q1s5", ROWS);
	assert_int_equal(v.outcome, OUTCOME_NAN);
	assert_string_equal(v.text, "sequence 0, token 0, head 0, dim 0 is not a number");
}

static void says_what_is_of_the_other_part(void **state)
{
	struct verdict v;
	(void)state;
	check_one(&v, &bf16, WRITES_OTHER_PART, PHASE_PREFILL, "q20_q2s9_q20", ROWS);
	assert_int_equal(v.outcome, OUTCOME_WRONG);
	assert_string_equal(v.text, "sequence 1, token 0, head 0: written, but not in the part");
}

static void says_how_far_outside(void **state)
{
	struct verdict v;
	(void)state;
	check_one(&v, &bf16, WRITES_BEFORE, PHASE_ALL, "q2", ROWS);
	assert_string_equal(v.text, "wrote 2 bytes before the output");
	check_one(&v, &bf16, WRITES_BEHIND_WORKSPACE, PHASE_ALL, "q2", ROWS);
	assert_non_null(strstr(v.text, "bytes past the workspace"));
}

static void says_what_is_right(void **state)
{
	struct verdict v;
	(void)state;
	check_one(&v, &f32, SCALE_OFF, PHASE_ALL, "q1s300", ROWS);
	assert_int_equal(v.outcome, OUTCOME_WRONG);
	assert_non_null(strstr(v.text, "sequence 0, token 0, head "));
	assert_non_null(strstr(v.text, ", expected "));
	assert_true(v.worst > 1);
}

static const char *never(const struct config *c, const attune_shape *s, const struct part *p,
			 const struct device_info *d)
{
	(void)c, (void)s, (void)p, (void)d;
	return "never";
}

static void illegal_is_an_outcome(void **state)
{
	static const struct space space = { .why_illegal = never, .geometry = toy_geometry };
	static const struct kernel kernel = { .name = "toy", .space = &space };
	const struct choice choice = { .kernel = &kernel };
	struct verdict v;
	struct scenario s;
	(void)state;
	scenario_make(&s, &f32, "q1");
	check_choice(&v, &cpu, &pool, &choice, &loaded, &s, PHASE_ALL, ROWS);
	assert_int_equal(v.outcome, OUTCOME_ILLEGAL);
	assert_string_equal(v.text, "toy: never");
	batch_free(s.batch);
}

static void nothing_to_do_is_right(void **state)
{
	struct verdict v;
	(void)state;
	check_one(&v, &f32, RIGHT, PHASE_PREFILL, "4q1s9", ROWS);
	assert_int_equal(v.outcome, OUTCOME_OK);
	check_one(&v, &f32, RIGHT, PHASE_ALL, "2q0", ROWS);
	assert_int_equal(v.outcome, OUTCOME_OK);
}

/* Contexts far beyond the corners, looked at in full. */
static void one_key_of_thousands(void **state)
{
	struct verdict v;
	(void)state;
	check_one(&v, &bf16, DROPS_LAST_KEY, PHASE_ALL, "9q1s4000", 1000);
	assert_int_equal(v.outcome, OUTCOME_WRONG);
	check_one(&v, &bf16, ROUNDS_WEIGHTS, PHASE_ALL, "9q1s4000", 1000);
	assert_int_equal(v.outcome, OUTCOME_OK);
}

static void timed_workloads_can_be_checked(void **state)
{
	const struct choice choice = { .kernel = &toy_kernel };
	struct scenario s;
	struct workload w;
	struct verdict v;
	(void)state;
	scenario_make(&s, &window, "q1s700_q40s300");
	toy.shape = window;
	assert_int_equal(workload_make(&w, &cpu, &pool, &s, WORKLOAD_TIMED, 1 << 20), ATTUNE_OK);
	assert_true(w.sets > 1);
	toy.fault = RIGHT;
	check_workload(&v, &w, &choice, &loaded, PHASE_ALL, 200);
	assert_int_equal(v.outcome, OUTCOME_OK);
	toy.fault = DROPS_LAST_KEY;
	check_workload(&v, &w, &choice, &loaded, PHASE_ALL, 200);
	assert_int_equal(v.outcome, OUTCOME_WRONG);
	workload_free(&w);
	batch_free(s.batch);
}

static void exams_are_kept(void **state)
{
	struct scenario s;
	struct workload *first = NULL, *again = NULL, *other = NULL;
	(void)state;
	scenario_make(&s, &f32, "q1s20");
	assert_int_equal(cached_check_find(&first, &cpu, &pool, &s), ATTUNE_OK);
	batch_free(s.batch);
	scenario_make(&s, &f32, "q1s21");
	assert_int_equal(cached_check_find(&other, &cpu, &pool, &s), ATTUNE_OK);
	assert_ptr_not_equal(first, other);
	batch_free(s.batch);
	scenario_make(&s, &f32, "q1s20");
	assert_int_equal(cached_check_find(&again, &cpu, &pool, &s), ATTUNE_OK);
	assert_ptr_equal(first, again);
	s.seed++;
	assert_int_equal(cached_check_find(&again, &cpu, &pool, &s), ATTUNE_OK);
	assert_ptr_not_equal(first, again);
	batch_free(s.batch);
}

static void tolerances(void **state)
{
	(void)state;
	assert_true(check_tolerance(&f32, 1, 1) < 2e-4);
	assert_true(check_tolerance(&f16, 1, 0) > 0x1p-11);
	assert_true(check_tolerance(&f16, 1, 1) < 0x1.3p-10);
	assert_true(check_tolerance(&bf16, 1, 1) > 0x1p-7);
	assert_true(check_tolerance(&bf16, 1, 1) < 0x1.1p-7);
	assert_true(check_tolerance(&bf16, 0, 0) < 1e-9); /* no key: zero */
}

static const struct CMUnitTest others[] = {
	cmocka_unit_test(says_what_was_not_written),
	cmocka_unit_test(says_what_is_no_number),
	cmocka_unit_test(says_what_is_of_the_other_part),
	cmocka_unit_test(says_how_far_outside),
	cmocka_unit_test(says_what_is_right),
	cmocka_unit_test(illegal_is_an_outcome),
	cmocka_unit_test(nothing_to_do_is_right),
	cmocka_unit_test(one_key_of_thousands),
	cmocka_unit_test(timed_workloads_can_be_checked),
	cmocka_unit_test(exams_are_kept),
	cmocka_unit_test(tolerances),
};

int main(void)
{
	struct CMUnitTest tests[COUNT(right) + COUNT(wrong) + COUNT(others)];
	size_t n = 0;
	for (size_t i = 0; i < COUNT(right); i++)
		tests[n++] = (struct CMUnitTest){ right[i].name, passes_all_corners, NULL, NULL,
						  (void *)(uintptr_t)&right[i] };
	for (size_t i = 0; i < COUNT(wrong); i++)
		tests[n++] = (struct CMUnitTest){ wrong[i].name, fails_some_corner, NULL, NULL,
						  (void *)(uintptr_t)&wrong[i] };
	memcpy(tests + n, others, sizeof others);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return _cmocka_run_group_tests("check", tests, COUNT(tests), set_up, tear_down);
}
