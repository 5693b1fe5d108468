/* SPDX-License-Identifier: Apache-2.0 */
/* lone_sequences.h - sequences that a test runs alone and in random batches, on several CPU devices
 * or one GPU, and whether their outputs have the same bits. Include after kernels/launch/run.h and
 * cmocka.h. */
#ifndef TESTS_SUPPORT_LONE_SEQUENCES_H
#define TESTS_SUPPORT_LONE_SEQUENCES_H

#include <math.h>
#include "gpu_here.h"

enum { MOST_SEQS = 8, MOST_LENS = 16, COPIES = 2, MOST_OPS = 3 };

struct row {
	const char *name;
	attune_shape s;
	int decodes_only; /* the shape takes no prefills */
};

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
	unsigned char *one = elements(page * pages / COPIES, s->kv_dtype),
		      *all = malloc(bytes * pages);
	assert_non_null(all);
	for (size_t i = 0; i < pages; i++)
		memcpy(all + i * bytes, one + i / COPIES * bytes, bytes);
	free(one);
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
	t->t = (attune_tensors){ .size = sizeof(attune_tensors),
				 .out = t->out,
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
	const attune_batch batch = { sizeof(attune_batch), b->n, starts, seq_lens };
	attune_plan plan = { .size = sizeof plan };
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

#endif
