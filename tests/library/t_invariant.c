/* t_invariant.c - batch-invariant mode, ATTUNE_INVARIANT=1: a sequence's rows have the same bits
 * alone and within random batches, with any number of threads. Without the mode some rows differ,
 * so the comparison can fail. Rows run on the CPU and on a GPU or the emulated one, which gets
 * fewer and shorter sequences, another number of units and another order of turns each time. */
#include "kernels/launch/run.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tests/support/gpu_here.h"

enum { MOST_SEQS = 8, MOST_LENS = 16, COPIES = 2, MOST_OPS = 3 };
enum { BATCHES = 25, EMULATED_BATCHES = 8 };

/* Query and context lengths. */
static const int lens[][2] = { { 1, 0 },   { 1, 37 }, { 1, 300 }, { 1, 700 }, { 3, 200 },
			       { 8, 90 },  { 8, 0 },  { 9, 0 },   { 40, 0 },  { 30, 130 },
			       { 70, 64 }, { 5, 1 },  { 20, 400 } };
static const int short_lens[][2] = { { 1, 5 },  { 1, 300 }, { 4, 150 }, { 8, 0 },
				     { 9, 40 }, { 33, 0 },  { 20, 170 } };

// clang-format off
struct row {
	const char *name;
	attune_shape s;
	int decodes_only; /* the shape takes no prefills */
};
static const struct row cpu_rows[] = {
	{ "F32, group 4, head 64", { 8, 2, 64, 16, ATTUNE_F32, ATTUNE_F32, .causal = 1 }, 0 },
	{ "F16, group 1, head 128", { 4, 4, 128, 16, ATTUNE_F16, ATTUNE_F16, .causal = 1 }, 0 },
	{ "BF16, group 8, head 128", { 8, 1, 128, 16, ATTUNE_BF16, ATTUNE_BF16, .causal = 1 }, 0 },
	{ "F32, group 6, head 80, window, pages of 12", { 6, 1, 80, 12, ATTUNE_F32, ATTUNE_F32, .causal = 1, .window = 100 }, 0 },
	{ "BF16, group 2, head 96, window, sinks", { 4, 2, 96, 32, ATTUNE_BF16, ATTUNE_BF16, .causal = 1, .window = 33, .has_sinks = 1 }, 0 },
	{ "F16, group 3, head 256, softcap", { 6, 2, 256, 16, ATTUNE_F16, ATTUNE_F16, .causal = 1, .softcap = 20 }, 0 },
	{ "BF16, group 4, head 192, not causal", { 4, 1, 192, 16, ATTUNE_BF16, ATTUNE_BF16, .causal = 0 }, 0 },
	{ "F32, group 71, head 64, ALiBi, sinks", { 71, 1, 64, 16, ATTUNE_F32, ATTUNE_F32, .causal = 1, .has_alibi = 1, .has_sinks = 1 }, 0 },
};
static const struct row gpu_rows[] = {
	{ "BF16, group 4, head 128", { 8, 2, 128, 16, ATTUNE_BF16, ATTUNE_BF16, .causal = 1 }, 0 },
	{ "F16, group 2, head 64, window, sinks", { 4, 2, 64, 16, ATTUNE_F16, ATTUNE_F16, .causal = 1, .window = 90, .has_sinks = 1 }, 0 },
	{ "BF16, group 4, head 80, pages of 12", { 4, 1, 80, 12, ATTUNE_BF16, ATTUNE_BF16, .causal = 1 }, 0 },
	{ "BF16, LSE", { 4, 2, 128, 16, ATTUNE_BF16, ATTUNE_BF16, .causal = 1, .has_lse = 1 }, 0 },
	{ "E4M3 cache", { 4, 2, 128, 16, ATTUNE_BF16, ATTUNE_E4M3, .causal = 1 }, 0 },
	{ "classic layout", { 4, 2, 128, 16, ATTUNE_F16, ATTUNE_F16, .causal = 1, .kv_layout = ATTUNE_KV_CLASSIC }, 1 },
};
// clang-format on

static unsigned long long seed;

static unsigned below(unsigned n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned)(seed >> 33) % n;
}

static void ok(enum attune_status status)
{
	if (status)
		fail_msg("%s", attune_last_error());
}

/* ---- elements ----------------------------------------------------------------------------- */

static float noise(void) /* -1 .. 1 */
{
	return (float)below(1 << 24) / (1 << 23) - 1;
}

/* n elements of a type; below 1 in size. */
static unsigned char *elements(size_t n, enum attune_dtype type)
{
	const size_t bytes = (size_t)dtype_bytes(type);
	unsigned char *all = malloc(n * bytes + 1);
	assert_non_null(all);
	for (size_t i = 0; i < n; i++) {
		const float x = noise();
		const unsigned sign = below(2);
		uint32_t bits;
		memcpy(&bits, &x, sizeof bits);
		if (type == ATTUNE_BF16)
			bits >>= 16;
		if (type == ATTUNE_F16)
			bits = sign << 15 | (9 + below(6)) << 10 | below(1024);
		if (type == ATTUNE_E4M3)
			bits = sign << 7 | (2 + below(5)) << 3 | below(8);
		memcpy(all + i * bytes, &bits, bytes);
	}
	return all;
}

static float number_at(const unsigned char *all, size_t i, enum attune_dtype type)
{
	uint32_t bits = 0;
	float x;
	memcpy(&bits, all + i * (size_t)dtype_bytes(type), (size_t)dtype_bytes(type));
	if (type == ATTUNE_F16) {
		const int exponent = bits >> 10 & 31;
		x = ldexpf((float)((bits & 1023) + (exponent ? 1024u : 0)),
			   (exponent ? exponent : 1) - 25);
		return bits >> 15 ? -x : x;
	}
	bits = type == ATTUNE_BF16 ? bits << 16 : bits;
	memcpy(&x, &bits, sizeof x);
	return x;
}

/* ---- a stage: sequences, their keys on a device, and ops that run them --------------------- */

struct stage {
	const attune_shape *s;
	const int (*lens)[2];
	int num, most_pages;
	struct device dev[MOST_OPS]; /* the first has the memory; all are CPUs or there is one */
	attune_context *ctx[MOST_OPS];
	attune_op *op[MOST_OPS];
	int ops;
	attune_tensors t;
	void *k, *v, *q, *out, *table, *query_start, *seq_lens, *heads, *lse, *workspace;
	size_t workspace_bytes, row; /* bytes of a token in q and out */
	unsigned char *q_of[MOST_LENS], *want[MOST_LENS];
	unsigned char *q_host, *out_host;
	float *want_lse[MOST_LENS], *lse_host;
	float largest; /* difference of any batch */
};

/* A batch: which sequences, and which copy of the keys of each. */
struct drawn {
	int n, id[MOST_SEQS], copy[MOST_SEQS];
};

static void *on_device(struct stage *t, const void *from, size_t bytes)
{
	void *to = NULL;
	ok(t->dev[0].ops->alloc(&t->dev[0], &to, bytes + 16));
	if (from)
		ok(t->dev[0].ops->put(&t->dev[0], to, from, bytes));
	return to;
}

/* Both copies of a sequence's pages, no two of which are neighbours. */
static int page_of(const struct stage *t, int id, int copy, int page)
{
	return (page * t->num + id) * COPIES + copy;
}

static void *make_cache(struct stage *t)
{
	const attune_shape *s = t->s;
	const size_t page = (size_t)s->num_kv_heads * (size_t)(s->page_size * s->head_size);
	const size_t pages = (size_t)(t->most_pages * t->num * COPIES);
	const size_t bytes = page * (size_t)dtype_bytes(s->kv_dtype);
	unsigned char *all = elements(page * pages, s->kv_dtype);
	for (size_t i = 0; i < pages; i += COPIES)
		memcpy(all + (i + 1) * bytes, all + i * bytes, bytes);
	void *to = on_device(t, all, bytes * pages);
	free(all);
	return to;
}

static int longest(const struct stage *t, int with_context)
{
	int most = 0;
	for (int i = 0; i < t->num; i++) {
		const int n = t->lens[i][0] + (with_context ? t->lens[i][1] : 0);
		most = n > most ? n : most;
	}
	return most;
}

static void make_tensors(struct stage *t)
{
	const attune_shape *s = t->s;
	const int64_t head = s->page_size * s->head_size, page = head * s->num_kv_heads;
	const int64_t token = s->num_query_heads * s->head_size;
	t->t = (attune_tensors){ .out = t->out,
				 .q = t->q,
				 .k_cache = t->k,
				 .v_cache = t->v,
				 .block_table = t->table,
				 .query_start = t->query_start,
				 .seq_lens = t->seq_lens,
				 .sinks = t->heads,
				 .alibi_slopes = t->heads,
				 .q_token_stride = token,
				 .q_head_stride = s->head_size,
				 .out_token_stride = token,
				 .out_head_stride = s->head_size,
				 .k_page_stride = page,
				 .k_slot_stride = s->head_size,
				 .k_head_stride = head,
				 .v_page_stride = page,
				 .v_slot_stride = s->head_size,
				 .v_head_stride = head,
				 .block_table_stride = t->most_pages,
				 .lse = t->lse,
				 .lse_token_stride = s->num_query_heads,
				 .lse_head_stride = 1 };
}

/* t->dev is open. */
static void stage_make(struct stage *t, const struct row *r)
{
	const attune_shape *s = t->s = &r->s;
	const size_t heads = (size_t)s->num_query_heads;
	seed = 11;
	t->most_pages = (longest(t, 1) + s->page_size - 1) / s->page_size;
	const size_t tokens = (size_t)longest(t, 0) * MOST_SEQS;
	t->row = heads * (size_t)s->head_size * (size_t)dtype_bytes(s->dtype);
	t->k = make_cache(t);
	t->v = make_cache(t);
	t->q = on_device(t, NULL, tokens * t->row);
	t->out = on_device(t, NULL, tokens * t->row);
	t->lse = on_device(t, NULL, tokens * heads * sizeof(float));
	t->table = on_device(t, NULL, (size_t)(MOST_SEQS * t->most_pages) * sizeof(int32_t));
	t->query_start = on_device(t, NULL, (MOST_SEQS + 1) * sizeof(int32_t));
	t->seq_lens = on_device(t, NULL, MOST_SEQS * sizeof(int32_t));
	unsigned char *of_heads = elements(heads, ATTUNE_F32);
	t->heads = on_device(t, of_heads, heads * sizeof(float));
	free(of_heads);
	t->q_host = malloc(tokens * t->row);
	t->out_host = malloc(tokens * t->row);
	t->lse_host = malloc(tokens * heads * sizeof(float));
	assert_true(t->q_host && t->out_host && t->lse_host);
	for (int i = 0; i < t->num; i++)
		t->q_of[i] =
		    elements((size_t)t->lens[i][0] * heads * (size_t)s->head_size, s->dtype);
	make_tensors(t);
}

/* Contexts with or without the mode, on the devices that are open. */
static void stage_open(struct stage *t, const char *mode)
{
	setenv("ATTUNE_INVARIANT", mode, 1);
	for (int i = 0; i < t->ops; i++) {
		size_t bytes;
		ok(attune_adopt(&t->ctx[i], &t->dev[i]));
		assert_int_equal(!strcmp(attune_heuristic(t->ctx[i]), "invariant"), *mode == '1');
		ok(attune_prepare(t->ctx[i], t->s, &t->op[i]));
		ok(attune_max_workspace(t->op[i], MOST_SEQS, longest(t, 0) * MOST_SEQS, &bytes));
		t->workspace_bytes = bytes > t->workspace_bytes ? bytes : t->workspace_bytes;
	}
	unsetenv("ATTUNE_INVARIANT");
	t->workspace = on_device(t, NULL, t->workspace_bytes);
}

static void stage_close(struct stage *t)
{
	for (int i = 0; i < t->ops; i++) {
		attune_release(t->op[i]);
		attune_close(t->ctx[i]);
	}
	t->dev[0].ops->release(&t->dev[0], t->workspace);
	t->workspace_bytes = 0;
}

static void forget(struct stage *t)
{
	for (int i = 0; i < t->num; i++) {
		free(t->want[i]);
		free(t->want_lse[i]);
		t->want[i] = NULL;
		t->want_lse[i] = NULL;
	}
}

static void stage_free(struct stage *t)
{
	void *const mem[] = { t->k,     t->v,           t->q,        t->out,  t->lse,
			      t->table, t->query_start, t->seq_lens, t->heads };
	for (size_t i = 0; i < COUNT(mem); i++)
		t->dev[0].ops->release(&t->dev[0], mem[i]);
	forget(t);
	for (int i = 0; i < t->num; i++)
		free(t->q_of[i]);
	free(t->q_host);
	free(t->out_host);
	free(t->lse_host);
	for (int i = 0; i < t->ops; i++)
		device_close(&t->dev[i]);
}

/* Runs a batch by op `which`; results are in out_host and lse_host. starts: the first tokens. */
static void run_batch(struct stage *t, int which, const struct drawn *b, int32_t *starts)
{
	struct device *dev = &t->dev[which];
	int32_t seq_lens[MOST_SEQS],
	    *table = calloc((size_t)(MOST_SEQS * t->most_pages), sizeof *table);
	const attune_batch batch = { b->n, starts, seq_lens };
	attune_plan plan;
	assert_non_null(table);
	starts[0] = 0;
	for (int i = 0; i < b->n; i++) {
		const int id = b->id[i], query = t->lens[id][0];
		seq_lens[i] = query + t->lens[id][1];
		starts[i + 1] = starts[i] + query;
		memcpy(t->q_host + (size_t)starts[i] * t->row, t->q_of[id], (size_t)query * t->row);
		for (int page = 0; page < t->most_pages; page++)
			table[i * t->most_pages + page] = page_of(t, id, b->copy[i], page);
	}
	const size_t tokens = (size_t)starts[b->n];
	ok(dev->ops->put(dev, t->q, t->q_host, tokens * t->row));
	ok(dev->ops->put(dev, t->table, table, (size_t)(b->n * t->most_pages) * sizeof *table));
	ok(dev->ops->put(dev, t->query_start, starts, (size_t)(b->n + 1) * sizeof *starts));
	ok(dev->ops->put(dev, t->seq_lens, seq_lens, (size_t)b->n * sizeof *seq_lens));
	ok(attune_plan_batch(t->op[which], &batch, &plan));
	ok(attune_run(t->op[which], &plan, &t->t, t->workspace, t->workspace_bytes,
		      dev->ops->stream(dev)));
	ok(dev->ops->wait(dev, dev->ops->stream(dev)));
	ok(dev->ops->get(dev, t->out_host, t->out, tokens * t->row));
	ok(dev->ops->get(dev, t->lse_host, t->lse,
			 tokens * (size_t)t->s->num_query_heads * sizeof(float)));
	free(table);
}

static void run_alone(struct stage *t)
{
	const size_t heads = (size_t)t->s->num_query_heads;
	for (int id = 0; id < t->num; id++) {
		const struct drawn b = { 1, { id }, { 0 } };
		const size_t tokens = (size_t)t->lens[id][0];
		int32_t starts[MOST_SEQS + 1];
		run_batch(t, 0, &b, starts);
		t->want[id] = malloc(tokens * t->row);
		t->want_lse[id] = malloc(tokens * heads * sizeof(float));
		assert_true(t->want[id] && t->want_lse[id]);
		memcpy(t->want[id], t->out_host, tokens * t->row);
		memcpy(t->want_lse[id], t->lse_host, tokens * heads * sizeof(float));
	}
}

/* Sequences of the batch with other bits than alone. */
static int count_other(struct stage *t, const struct drawn *b, const int32_t *starts)
{
	const size_t heads = (size_t)t->s->num_query_heads;
	int other = 0;
	for (int i = 0; i < b->n; i++) {
		const int id = b->id[i];
		const size_t tokens = (size_t)t->lens[id][0], from = (size_t)starts[i];
		const unsigned char *got = t->out_host + from * t->row;
		int same = !memcmp(got, t->want[id], tokens * t->row);
		if (t->s->has_lse)
			same &= !memcmp(t->lse_host + from * heads, t->want_lse[id],
					tokens * heads * sizeof(float));
		other += !same;
		for (size_t n = 0; n < tokens * heads * (size_t)t->s->head_size; n++)
			t->largest =
			    fmaxf(t->largest, fabsf(number_at(got, n, t->s->dtype) -
						    number_at(t->want[id], n, t->s->dtype)));
	}
	return other;
}

static struct drawn draw(const struct stage *t)
{
	struct drawn b = { .n = 1 + (int)below(MOST_SEQS) };
	for (int i = 0; i < b.n; i++) {
		b.id[i] = (int)below((unsigned)t->num);
		b.copy[i] = (int)below(COPIES);
	}
	return b;
}

/* Random batches, by each op in turn. Returns the sequences with other bits than alone. */
static int run_batches(struct stage *t, int n)
{
	int other = 0;
	seed = 5;
	for (int i = 0; i < n; i++) {
		const struct drawn b = draw(t);
		int32_t starts[MOST_SEQS + 1];
		if (is_emulated(&t->dev[0]))
			simt_set(&t->dev[0], i % 2 ? EMULATED_UNITS : 7, (unsigned)i);
		run_batch(t, i % t->ops, &b, starts);
		other += count_other(t, &b, starts);
	}
	return other;
}

/* ---- the tests ------------------------------------------------------------------------------ */

static void invariant(struct stage *t, const struct row *r, int batches)
{
	stage_make(t, r);
	stage_open(t, "1");
	run_alone(t);
	assert_int_equal(run_batches(t, batches), 0);
	stage_close(t);
	stage_free(t);
}

/* The normal rules: in some batch other bits than alone. All are near to those of the mode. */
static void variant(struct stage *t, const struct row *r, int batches)
{
	stage_make(t, r);
	stage_open(t, "1");
	run_alone(t);
	stage_close(t);
	stage_open(t, "0");
	run_batches(t, batches);
	assert_true(t->largest < 0.02f);
	forget(t);
	run_alone(t);
	assert_true(run_batches(t, batches) > 0);
	stage_close(t);
	stage_free(t);
}

static void open_cpus(struct stage *t)
{
	static const char *const threads[] = { "1", "2", "5" };
	*t = (struct stage){ .lens = lens, .num = COUNT(lens), .ops = COUNT(threads) };
	for (int i = 0; i < t->ops; i++) {
		setenv("ATTUNE_THREADS", threads[i], 1);
		ok(device_open(&t->dev[i], "cpu"));
	}
	unsetenv("ATTUNE_THREADS");
}

static void cpu_is_invariant(void **state)
{
	struct stage t;
	open_cpus(&t);
	invariant(&t, *state, BATCHES);
}

static void cpu_varies_without_the_mode(void **state)
{
	struct stage t;
	open_cpus(&t);
	variant(&t, *state, BATCHES);
}

/* Returns the batches to run. */
static int open_gpu(struct stage *t, const struct row *r)
{
	*t = (struct stage){ .ops = 1 };
	ok(gpu_open(&t->dev[0]));
	const int emulated = is_emulated(&t->dev[0]);
	t->lens = emulated ? short_lens : lens;
	t->num = r->decodes_only ? emulated ? 4 : 7
		 : emulated      ? (int)COUNT(short_lens)
				 : (int)COUNT(lens);
	return emulated ? EMULATED_BATCHES : BATCHES;
}

static void gpu_is_invariant(void **state)
{
	struct stage t;
	const int batches = open_gpu(&t, *state);
	invariant(&t, *state, batches);
}

static void gpu_varies_without_the_mode(void **state)
{
	struct stage t;
	const int batches = open_gpu(&t, *state);
	variant(&t, *state, batches);
}

/* One choice for each phase, whatever the batch; and no steps that plan on the device. */
static void gpu_plans_by_shape_alone(void **state)
{
	const struct row *r = *state;
	struct device dev;
	attune_context *ctx;
	attune_op *op;
	attune_plan plan;
	size_t bytes;
	static const int32_t starts[] = { 0, 1, 301, 302 }, seq_lens[] = { 90000, 4000, 3 };
	static const int32_t one[] = { 0, 1 };
	const attune_batch mixed = { 3, starts, seq_lens }, alone = { 1, one, seq_lens };
	const attune_bounds bounds = { 3, 300, 302 };
	char text[512], decode[512];
	ok(gpu_open(&dev));
	setenv("ATTUNE_INVARIANT", "1", 1);
	ok(attune_adopt(&ctx, &dev));
	unsetenv("ATTUNE_INVARIANT");
	ok(attune_prepare(ctx, &r->s, &op));
	ok(attune_plan_batch(op, &alone, &plan));
	ok(attune_plan_text(op, &plan, decode, sizeof decode));
	ok(attune_plan_batch(op, &mixed, &plan));
	assert_int_equal(plan.how, ATTUNE_SERIAL);
	assert_int_equal(plan.workspace, 0);
	ok(attune_plan_text(op, &plan, text, sizeof text));
	assert_non_null(strstr(text, " | decode: "));
	assert_string_equal(strstr(text, " | decode: ") + strlen(" | decode: "), decode);
	assert_int_equal(attune_record_sizes(op, &bounds, &bytes, &bytes), ATTUNE_UNSUPPORTED);
	assert_non_null(strstr(attune_last_error(), "ATTUNE_INVARIANT=1"));
	attune_release(op);
	attune_close(ctx);
	device_close(&dev);
}

static void environments(void **state)
{
	static const struct {
		const char *invariant, *heuristics;
		enum attune_status status;
		const char *text; /* of the error, or of attune_heuristic */
	} rows[] = {
		{ "", "", ATTUNE_OK, "cpu" },
		{ "0", "", ATTUNE_OK, "cpu" },
		{ "1", "", ATTUNE_OK, "invariant" },
		{ "2", "", ATTUNE_INVALID, "ATTUNE_INVARIANT is \"2\": 0 or 1 is expected" },
		{ "yes", "", ATTUNE_INVALID, "ATTUNE_INVARIANT is \"yes\": 0 or 1 is expected" },
		{ "01", "", ATTUNE_INVALID, "ATTUNE_INVARIANT is \"01\": 0 or 1 is expected" },
		{ "1", "rules.txt", ATTUNE_INVALID,
		  "ATTUNE_HEURISTICS and ATTUNE_INVARIANT=1 are both set: the mode has rules of "
		  "its own" },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		attune_context *ctx = NULL;
		setenv("ATTUNE_INVARIANT", rows[i].invariant, 1);
		setenv("ATTUNE_HEURISTICS", rows[i].heuristics, 1);
		const enum attune_status status = attune_open(&ctx, "cpu");
		assert_int_equal(status, rows[i].status);
		assert_int_equal(ctx != NULL, !status);
		assert_string_equal(status ? attune_last_error() : attune_heuristic(ctx),
				    rows[i].text);
		attune_close(ctx);
	}
	unsetenv("ATTUNE_INVARIANT");
	unsetenv("ATTUNE_HEURISTICS");
}

/* What the choice cannot run is refused, not given to another kernel. */
static void no_other_kernel_steps_in(void **state)
{
	static const attune_shape s = {
		4, 2, 128, 16, ATTUNE_F16, ATTUNE_F16, .causal = 1, .kv_layout = ATTUNE_KV_CLASSIC
	};
	static const int32_t starts[] = { 0, 1 }, seq_lens[] = { 200000 };
	const attune_batch batch = { 1, starts, seq_lens };
	struct device dev;
	attune_context *ctx;
	attune_op *op;
	attune_plan plan;
	(void)state;
	ok(gpu_open(&dev));
	setenv("ATTUNE_INVARIANT", "1", 1);
	ok(attune_adopt(&ctx, &dev));
	unsetenv("ATTUNE_INVARIANT");
	ok(attune_prepare(ctx, &s, &op));
	assert_int_equal(attune_plan_batch(op, &batch, &plan), ATTUNE_UNSUPPORTED);
	assert_non_null(strstr(attune_last_error(), " with ATTUNE_INVARIANT=1"));
	attune_release(op);
	attune_close(ctx);
	device_close(&dev);
}

static struct CMUnitTest tests[COUNT(cpu_rows) + COUNT(gpu_rows) + 8];
static char names[COUNT(tests)][120];
static size_t num_tests;

static void add(const char *what, CMUnitTestFunction test, const struct row *r)
{
	snprintf(names[num_tests], sizeof *names, "%s%s%s", what, r ? ": " : "", r ? r->name : "");
	tests[num_tests] =
	    (struct CMUnitTest){ names[num_tests], test, NULL, NULL, (void *)(uintptr_t)r };
	num_tests++;
}

int main(void)
{
	for (size_t i = 0; i < COUNT(cpu_rows); i++)
		add("cpu", cpu_is_invariant, &cpu_rows[i]);
	add("cpu, not without the mode", cpu_varies_without_the_mode, &cpu_rows[2]);
	add("environment", environments, NULL);
	for (size_t i = 0; i < COUNT(gpu_rows); i++)
		add("gpu", gpu_is_invariant, &gpu_rows[i]);
	add("gpu, not without the mode", gpu_varies_without_the_mode, &gpu_rows[0]);
	add("gpu, plans", gpu_plans_by_shape_alone, &gpu_rows[0]);
	add("gpu, refusals", no_other_kernel_steps_in, NULL);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return _cmocka_run_group_tests("invariant", tests, num_tests, NULL, NULL);
}
