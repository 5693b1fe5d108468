/* hard_rows.h - kernels on inputs at the limits of the interface, against the definition. Every array
 * has its exact size and ends at memory that nobody may touch; the block table ends with its last
 * live entry. Slots without a key and table entries without a page hold NaN and numbers of no page.
 * Include after cmocka.h. The includer defines load_code(), and guarded(): device memory of so many
 * bytes whose end is the end of what is mapped. */
#ifndef TESTS_GUARD_HARD_ROWS_H
#define TESTS_GUARD_HARD_ROWS_H

#include "kernels/launch/run.h"
#include <float.h>
#include <limits.h>
#include <math.h>

enum { HARD_POISON = 0xff, NO_PAGE = 0x40000000, HARD_MOST_ROWS = 1024 };

static struct device dev;
static enum attune_status load_code(struct code **, const struct kernel *, const char *flags);
static void *guarded(size_t bytes);
static void release_guarded(void);

/* ---- cases -------------------------------------------------------------------------------- */

enum values {
	NOISE,
	HUGE_SCORES,  /* queries and keys of 59904, some negative: exact products, logits to 4e10 */
	EQUAL_SCORES, /* the same logit for all keys, -7e6 */
};

struct hard_case {
	const char *name;
	attune_shape s;
	enum values values;
	float sink; /* of all heads, where the shape has them; 0: noise */
	const char *batches[6];
};

#define BF16_HEADS(heads, kv_heads) heads, kv_heads, 64, 16, ATTUNE_BF16, ATTUNE_BF16
#define E4M3_HEADS(heads, kv_heads) heads, kv_heads, 64, 16, ATTUNE_BF16, ATTUNE_E4M3
#define F16_HEADS(heads, kv_heads) heads, kv_heads, 64, 16, ATTUNE_F16, ATTUNE_F16
// clang-format off
static const struct hard_case hard_cases[] = {
	{ "arrays end", { BF16_HEADS(8, 2), .causal = 1, .has_alibi = 1, .has_sinks = 1 }, NOISE, 0,
	  { "q1s1", "5q1s130_q1s17", "q1s700_q1s1", "q40s17_q9s80_q1s33", "q1s40_q1s0", "q2s0_q3s2" } },
	{ "arrays end, E4M3", { E4M3_HEADS(8, 2), .causal = 1 }, NOISE, 0,
	  { "q1s1", "5q1s130_q1s17", "q1s700_q1s1", "q40s17_q9s80_q1s33", "q140s170" } },
	{ "lone heads, E4M3, head 256", { 2, 2, 256, 16, ATTUNE_BF16, ATTUNE_E4M3, .causal = 1 }, NOISE, 0,
	  { "q140s170", "q1s40_q20s64" } },
	{ "keys in front of the window", { BF16_HEADS(8, 2), .causal = 1, .window = 51 }, NOISE, 0,
	  { "q50s500", "q1s300_q3s77", "q140s300_q9s130", "q20s64_q1s64" } },
	{ "keys in front of the window, f16", { F16_HEADS(8, 2), .causal = 1, .window = 51 }, NOISE, 0,
	  { "q50s500", "q140s300_q9s130" } },
	{ "keys in front of the window, E4M3", { E4M3_HEADS(8, 2), .causal = 1, .window = 51 }, NOISE, 0,
	  { "q50s500", "q1s300_q3s77", "q140s300_q9s130" } },
	{ "the largest window, not causal", { BF16_HEADS(4, 2), .window = INT_MAX }, NOISE, 0,
	  { "q40s17_q9s3", "q2s1_q1s5_q8s3" } },
	{ "the largest window, causal", { BF16_HEADS(4, 2), .causal = 1, .window = INT_MAX - 1 }, NOISE, 0,
	  { "q40s17_q9s30", "q2s1_q1s5_q8s3" } },
	{ "sinks of -FLT_MAX", { BF16_HEADS(8, 2), .causal = 1, .has_sinks = 1 }, NOISE, -FLT_MAX,
	  { "q5s3_q1s300", "q40s17_q300s3" } },
	{ "sinks of FLT_MAX", { BF16_HEADS(8, 2), .causal = 1, .has_sinks = 1 }, NOISE, FLT_MAX,
	  { "q5s3_q1s300", "q40s17_q300s3" } },
	{ "sinks of FLT_MAX, LSE", { BF16_HEADS(8, 2), .causal = 1, .has_sinks = 1, .has_lse = 1 }, NOISE, FLT_MAX,
	  { "q5s3_q1s300", "q40s17_q300s3" } },
	{ "sinks of -FLT_MAX, LSE", { BF16_HEADS(8, 2), .causal = 1, .has_sinks = 1, .has_lse = 1 }, NOISE, -FLT_MAX,
	  { "q5s3_q1s300", "q40s17_q300s3" } },
	{ "huge scores", { BF16_HEADS(8, 2), .causal = 1 }, HUGE_SCORES, 0, { "q1s300_q3s40", "q40s170" } },
	{ "huge scores, LSE", { BF16_HEADS(8, 2), .causal = 1, .has_lse = 1 }, HUGE_SCORES, 0, { "q1s300_q3s40", "q40s170" } },
	{ "equal scores, f16, window", { F16_HEADS(8, 2), .causal = 1, .window = 64, .scale = 1 }, EQUAL_SCORES, 0,
	  { "q1s300_q3s400", "q40s300" } },
	{ "equal scores, f16", { F16_HEADS(8, 2), .causal = 1, .scale = 1 }, EQUAL_SCORES, 0, { "q1s900", "q40s400" } },
};
// clang-format on

static unsigned long long hard_seed;

static float hard_noise(void) /* -1 .. 1 */
{
	hard_seed = hard_seed * 6364136223846793005ull + 1442695040888963407ull;
	return (float)(int)(hard_seed >> 40) / 8388608.f - 1.f;
}

/* An element of a query, or of key number `key`. */
static float hard_value(enum values how, int is_key, int key)
{
	if (how == HUGE_SCORES)
		return is_key && key % 3 == 0 ? -59904.f : 59904.f;
	if (how == EQUAL_SCORES)
		return is_key ? -336.f : 336.f;
	return hard_noise();
}

/* ---- a batch in memory -------------------------------------------------------------------- */

struct array {
	void *host, *device;
	size_t bytes;
};

enum { OUT, Q, K, V, TABLE, STARTS, LENS, SINKS, SLOPES, K_SCALES, V_SCALES, LSE, NUM_ARRAYS };

struct hard_world {
	const struct hard_case *of;
	struct batch *batch;
	struct array a[NUM_ARRAYS];
	attune_tensors host, device;
	float *lse;
};

static int pages_of(const attune_shape *s, int tokens)
{
	return (tokens + s->page_size - 1) / s->page_size;
}

static void add_array(struct hard_world *w, int which, size_t bytes)
{
	struct array *a = &w->a[which];
	a->bytes = bytes;
	a->host = malloc(bytes + 1);
	a->device = guarded(bytes);
	assert_true(a->host && a->device);
	memset(a->host, HARD_POISON, bytes);
}

/* The first key that any query of the sequence sees. */
static int first_seen(const attune_shape *s, int query, int seq)
{
	const long long first = s->window ? (long long)seq - query - s->window + 1 : 0;
	return first < 0 ? 0 : first > seq ? seq : (int)first;
}

static void put_keys(struct hard_world *w, int page, int slot, int key)
{
	const attune_shape *s = &w->of->s;
	const attune_tensors *t = &w->host;
	for (int h = 0; h < s->num_kv_heads; h++)
		for (int d = 0; d < s->head_size; d++) {
			const long long at = page * t->k_page_stride + slot * t->k_slot_stride +
					     h * t->k_head_stride + d;
			value_put(s->kv_dtype, w->a[K].host, at,
				  hard_value(w->of->values, 1, key));
			value_put(s->kv_dtype, w->a[V].host, at, hard_noise());
		}
}

/* Pages are numbered from the last one down. What no query sees keeps its poison, and a page of
 * nothing else is in no entry. */
static void fill_cache(struct hard_world *w, int pages)
{
	const attune_shape *s = &w->of->s;
	const attune_batch *b = &w->batch->view;
	int32_t *table = w->a[TABLE].host;
	const size_t entries = w->a[TABLE].bytes / sizeof *table;
	for (size_t i = 0; i < entries; i++)
		table[i] = NO_PAGE;
	for (int i = 0; i < b->num_seqs; i++) {
		const int query = b->query_start[i + 1] - b->query_start[i];
		const int first = first_seen(s, query, b->seq_lens[i]);
		for (int p = 0; p < pages_of(s, b->seq_lens[i]); p++)
			if ((p + 1) * s->page_size > first && query)
				table[i * w->host.block_table_stride + p] = --pages;
		for (int key = first; query && key < b->seq_lens[i]; key++)
			put_keys(w, table[i * w->host.block_table_stride + key / s->page_size],
				 key % s->page_size, key);
	}
	assert_true(pages >= 0);
}

static void fill_rest(struct hard_world *w)
{
	const attune_shape *s = &w->of->s;
	const attune_batch *b = &w->batch->view;
	float *const floats[] = { w->a[SINKS].host, w->a[SLOPES].host, w->a[K_SCALES].host,
				  w->a[V_SCALES].host };
	memcpy(w->a[STARTS].host, b->query_start, w->a[STARTS].bytes);
	memcpy(w->a[LENS].host, b->seq_lens, w->a[LENS].bytes);
	for (int i = 0; i < s->num_query_heads; i++) {
		floats[0][i] = w->of->sink != 0 ? w->of->sink : 2 * hard_noise();
		floats[1][i] = 0.01f * (float)(i % 9 + 1);
	}
	for (int i = 0; i < b->num_seqs * s->num_kv_heads; i++)
		floats[2][i] = floats[3][i] = 0.5f + 0.25f * hard_noise();
	for (size_t i = 0; i < w->a[Q].bytes / (size_t)dtype_bytes(s->dtype); i++)
		value_put(s->dtype, w->a[Q].host, (long long)i, hard_value(w->of->values, 0, 0));
}

static void set_strides(attune_tensors *t, const attune_shape *s)
{
	const long long head = s->head_size, heads = s->num_kv_heads;
	t->q_token_stride = t->out_token_stride = s->num_query_heads * head;
	t->q_head_stride = t->out_head_stride = t->k_head_stride = t->v_head_stride = head;
	t->k_page_stride = t->v_page_stride = s->page_size * heads * head;
	t->k_slot_stride = t->v_slot_stride = heads * head;
	t->k_scale_seq_stride = t->v_scale_seq_stride = heads;
	t->k_scale_head_stride = t->v_scale_head_stride = 1;
	t->lse_token_stride = s->num_query_heads;
	t->lse_head_stride = 1;
}

static void set_pointers(attune_tensors *t, const struct hard_world *w, int on_device)
{
	void *p[NUM_ARRAYS];
	for (int i = 0; i < NUM_ARRAYS; i++)
		p[i] = on_device ? w->a[i].device : w->a[i].host;
	t->out = p[OUT], t->q = p[Q], t->k_cache = p[K], t->v_cache = p[V];
	t->block_table = p[TABLE], t->query_start = p[STARTS], t->seq_lens = p[LENS];
	t->sinks = p[SINKS], t->alibi_slopes = p[SLOPES], t->lse = p[LSE];
	t->k_scale = p[K_SCALES], t->v_scale = p[V_SCALES];
}

static void make_world(struct hard_world *w, const struct hard_case *c, const char *text)
{
	const attune_shape *s = &c->s;
	char error[200];
	int used = 0, longest = 1, seq, last;
	memset(w, 0, sizeof *w);
	w->of = c;
	hard_seed = 7;
	w->batch = batch_parse(text, error, sizeof error);
	assert_non_null(w->batch);
	const attune_batch *b = &w->batch->view;
	for (int i = 0; i < b->num_seqs; i++) {
		const int n = pages_of(s, b->seq_lens[i]);
		used += n;
		longest = n > longest ? n : longest;
	}
	const size_t tokens = (size_t)b->query_start[b->num_seqs];
	const size_t seqs = (size_t)b->num_seqs, heads = (size_t)s->num_query_heads;
	set_strides(&w->host, s);
	w->host.block_table_stride = longest + 1;
	batch_table(b, s->page_size, &seq, &last);
	const size_t rows = tokens * heads * (size_t)(s->head_size * dtype_bytes(s->dtype));
	const size_t cache =
	    (size_t)(used * w->host.k_page_stride * dtype_bytes(s->kv_dtype));
	add_array(w, OUT, rows);
	add_array(w, Q, rows);
	add_array(w, K, cache);
	add_array(w, V, cache);
	add_array(w, TABLE, (size_t)(seq * w->host.block_table_stride + last) * sizeof(int32_t));
	add_array(w, STARTS, (seqs + 1) * sizeof(int32_t));
	add_array(w, LENS, seqs * sizeof(int32_t));
	add_array(w, SINKS, heads * sizeof(float));
	add_array(w, SLOPES, heads * sizeof(float));
	add_array(w, K_SCALES, seqs * (size_t)s->num_kv_heads * sizeof(float));
	add_array(w, V_SCALES, seqs * (size_t)s->num_kv_heads * sizeof(float));
	add_array(w, LSE, tokens * heads * sizeof(float));
	fill_cache(w, used);
	fill_rest(w);
	w->device = w->host;
	set_pointers(&w->host, w, 0);
	set_pointers(&w->device, w, 1);
	for (int i = 0; i < NUM_ARRAYS; i++)
		if (w->a[i].bytes &&
		    dev.ops->put(&dev, w->a[i].device, w->a[i].host, w->a[i].bytes))
			fail_msg("%s", attune_last_error());
}

static void free_world(struct hard_world *w)
{
	for (int i = 0; i < NUM_ARRAYS; i++)
		free(w->a[i].host);
	batch_free(w->batch);
	release_guarded();
}

/* ---- a run ---------------------------------------------------------------------------------- */

/* As reference.c reads memory. */
static void fetch_host(const struct kv_source *source, int is_v, int page, int slot, int kv_head,
		       double *row)
{
	const struct kv_place at = kv_place(source->args, source->shape, is_v, page, slot, kv_head);
	for (int d = 0; d < source->shape->head_size; d++)
		row[d] = value_of(source->shape->kv_dtype,
				  is_v ? source->args->v_cache : source->args->k_cache, at.first + d);
}

static int is_of(enum phase phase, int query)
{
	return query > 0 && (phase == PHASE_ALL || seq_phase(query) == phase);
}

static void check_row(const struct hard_world *w, const struct kv_source *from, int seq, int token,
		      int head, const char *what)
{
	const attune_shape *s = &w->of->s;
	const attune_tensors *t = &w->host;
	double want[256], mass[256], lse = 0;
	struct kv_source source = *from;
	source.mass = mass;
	source.lse = &lse;
	reference_row_from(&source, seq, token, head, want);
	const long long row = w->batch->query_start[seq] + token;
	const long long at = row * t->out_token_stride + head * t->out_head_stride;
	for (int d = 0; d < s->head_size; d++) {
		const double got = value_of(s->dtype, w->a[OUT].host, at + d);
		if (!(fabs(got - want[d]) <= check_tolerance(s, mass[d], want[d])))
			fail_msg("%s: sequence %d, token %d, head %d, dim %d: %g, %g is right", what,
				 seq, token, head, d, got, want[d]);
	}
	const double got = w->lse[row * t->lse_token_stride + head * t->lse_head_stride];
	if (s->has_lse && got != lse && !(fabs(got - lse) <= 1e-3 + 1e-5 * fabs(lse)))
		fail_msg("%s: sequence %d, token %d, head %d: LSE %g, %g is right", what, seq, token,
			 head, got, lse);
}

/* Some of many rows; the last token among them. */
static void check_rows(const struct hard_world *w, enum phase phase, const char *what)
{
	const attune_shape *s = &w->of->s;
	const attune_batch *b = &w->batch->view;
	struct attune_call call;
	call_from_tensors(&call, s, &w->host, b->num_seqs);
	call.args.window = s->window; /* as the caller says it */
	const struct kv_source source = { .fetch = fetch_host,
					  .args = &call.args,
					  .shape = s,
					  .scales = &call.more };
	for (int i = 0; i < b->num_seqs; i++) {
		const int query = b->query_start[i + 1] - b->query_start[i];
		for (int token = 0; is_of(phase, query) && token < query; token++)
			for (int head = 0; head < s->num_query_heads; head++)
				if (query < 10 || token + 1 == query || token % 17 == head)
					check_row(w, &source, i, token, head, what);
	}
}

/* Whether the choice is for this phase of the batch, and as what. */
static int is_legal(struct choice *as, const struct choice *c, const attune_shape *s,
		    const attune_batch *b, enum phase phase, struct part *part)
{
	as->kernel = c->kernel;
	return part_make(part, phase, s, b, &dev.info) &&
	       !config_resolve(&as->config, &c->config, c->kernel, s, part, &dev.info);
}

static void run_phase(struct hard_world *w, const struct choice *choice, const struct loaded *l,
		      enum phase phase, const char *what)
{
	const attune_shape *s = &w->of->s;
	const attune_batch *b = &w->batch->view;
	struct choice c = { .kernel = choice->kernel };
	struct launchable launch = { c.kernel, &c.config, l->code, { NULL }, 0, NULL };
	struct attune_call call;
	struct part part;
	int table_seq, table_pages;
	if (!is_legal(&c, choice, s, b, phase, &part))
		return;
	const size_t bytes = part_workspace(c.kernel, &c.config, s, &part, &dev.info);
	void *workspace = guarded((bytes + 15) / 16 * 16);
	memset(w->a[OUT].host, HARD_POISON, w->a[OUT].bytes);
	call_from_tensors(&call, s, &w->device, b->num_seqs);
	batch_table(b, s->page_size, &table_seq, &table_pages);
	launch.table_last = table_last(call.args.block_table, call.args.block_table_stride, table_seq,
				       table_pages);
	memcpy(launch.helper, l->helper, sizeof launch.helper);
	part.estimated = part_estimate(c.kernel, &c.config, s, &part, &dev.info);
	if ((bytes && dev.ops->fill(&dev, workspace, HARD_POISON, bytes)) ||
	    dev.ops->put(&dev, w->device.out, w->a[OUT].host, w->a[OUT].bytes) ||
	    run_part(&dev, &launch, s, &part, &call, workspace, bytes, ALL_STEPS,
		     dev.ops->stream(&dev)) ||
	    dev.ops->wait(&dev, dev.ops->stream(&dev)) ||
	    dev.ops->get(&dev, w->a[OUT].host, w->device.out, w->a[OUT].bytes) ||
	    dev.ops->get(&dev, w->a[LSE].host, w->device.lse, w->a[LSE].bytes))
		fail_msg("%s: %s", what, attune_last_error());
	w->lse = w->a[LSE].host;
	check_rows(w, phase, what);
}

/* ---- rows ------------------------------------------------------------------------------------- */

static struct hard_row {
	char name[320];
	const struct hard_case *of;
	struct choice choice;
	int gpu; /* the includer's */
} hard_rows[HARD_MOST_ROWS];
static int num_hard_rows;

static void load_hard(struct code **code, const struct kernel *k, const struct config *c,
		      const attune_shape *s)
{
	char flags[MAX_FLAGS];
	binary_flags(flags, sizeof flags, k, c, s);
	if (load_code(code, k, flags))
		fail_msg("%s %s: %s", k->name, flags, attune_last_error());
}

static void pose_for(const struct hard_row *);

static void hard_row_passes(void **state)
{
	const struct hard_row *r = *state;
	const struct kernel *k = r->choice.kernel;
	struct loaded l = { 0 };
	release_guarded(); /* of a row that failed */
	pose_for(r);
	load_hard(&l.code, k, &r->choice.config, &r->of->s);
	for (enum helper h = 0; h < NUM_HELPERS; h++) {
		const struct kernel *helper = kernel_helper(k->backend, h);
		struct config none;
		if (!helper || !kernel_takes(k, &r->choice.config, h))
			continue;
		config_default(&none, helper->space);
		load_hard(&l.helper[h], helper, &none, &r->of->s);
	}
	for (size_t i = 0; i < COUNT(r->of->batches) && r->of->batches[i]; i++) {
		struct hard_world w;
		make_world(&w, r->of, r->of->batches[i]);
		for (enum phase p = PHASE_ALL; p <= PHASE_DECODE; p++)
			run_phase(&w, &r->choice, &l, p, r->of->batches[i]);
		free_world(&w);
	}
	dev.ops->unload(&dev, l.code);
	for (enum helper h = 0; h < NUM_HELPERS; h++)
		if (l.helper[h])
			dev.ops->unload(&dev, l.helper[h]);
}

/* "ring COMBINE=1 SEGMENTS=4": the defaults but for what is said. */
static int choose_hard(struct choice *c, enum backend backend, const char *text)
{
	char name[32], axis[32];
	int value, n = 0;
	sscanf(text, "%31s%n", name, &n);
	c->kernel = kernel_find(backend, name);
	assert_non_null(c->kernel);
	config_default(&c->config, c->kernel->space);
	for (text += n; sscanf(text, " %31[A-Z_]=%d%n", axis, &value, &n) == 2; text += n)
		for (int i = 0; i < c->kernel->space->num_axes; i++)
			if (!strcmp(c->kernel->space->axis[i].name, axis))
				c->config.v[i] = value;
	return !*text;
}

static int runs_somewhere(const struct hard_case *of, const struct choice *c)
{
	int runs = 0;
	for (size_t i = 0; i < COUNT(of->batches) && of->batches[i]; i++) {
		char error[200];
		struct batch *b = batch_parse(of->batches[i], error, sizeof error);
		struct choice as;
		struct part part;
		assert_non_null(b);
		for (enum phase p = PHASE_ALL; p <= PHASE_DECODE; p++)
			runs += is_legal(&as, c, &of->s, &b->view, p, &part);
		batch_free(b);
	}
	return runs > 0;
}

/* For each case of which the choice runs some batch. */
static void add_hard_rows(const char *text, enum backend backend, int gpu)
{
	struct choice c;
	assert_true(choose_hard(&c, backend, text));
	for (size_t i = 0; i < COUNT(hard_cases); i++) {
		struct hard_row *r = &hard_rows[num_hard_rows];
		if (c.kernel->space->why_illegal(&c.config, &hard_cases[i].s, NULL, &dev.info) ||
		    !runs_somewhere(&hard_cases[i], &c))
			continue;
		assert_true(num_hard_rows < HARD_MOST_ROWS);
		*r = (struct hard_row){ .of = &hard_cases[i], .choice = c, .gpu = gpu };
		snprintf(r->name, sizeof r->name, "%s: %s, %s", dev.info.gpu, text,
			 hard_cases[i].name);
		num_hard_rows++;
	}
}

static int run_hard_rows(const char *title)
{
	static struct CMUnitTest tests[HARD_MOST_ROWS];
	for (int i = 0; i < num_hard_rows; i++)
		tests[i] = (struct CMUnitTest){ hard_rows[i].name, hard_row_passes, NULL, NULL,
						&hard_rows[i] };
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return _cmocka_run_group_tests(title, tests, (size_t)num_hard_rows, NULL, NULL);
}

/* Of the GPU's kernels; those that read no strided cache are not here. */
static const char *const gpu_choices[] = {
	"ring SEGMENTS=1",
	"ring COMBINE=1 SEGMENTS=2",
	"ring COMBINE=0 SEGMENTS=3 TILE_SIZE=32",
	"ring_list",
	"warpgroup",
	"warpgroup PACKED=1",
	"warpgroup BLOCK_M=64 TURNS=0 TILE_SIZE=64 SEGMENTS=3",
	"warpgroup BLOCK_M=64 TURNS=0 TILE_SIZE=64",
	"warpgroup_mixed",
	"qblock",
	"segmented SEGMENTS=3",
	"segmented_static SEGMENTS=2",
	"decode2d",
	"pod",
	"naive",
};

#endif
