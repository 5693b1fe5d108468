/* SPDX-License-Identifier: Apache-2.0 */
/* expected.c - selects the output rows to compare and computes them with the reference, on several
 * threads. Rows that share keys are computed together, so that keys are decoded once. */
#include "check.h"
#include "reference.h"
#include "workload.h"
#include "harness/scenario/scenario.h"
#include "kernels/args_more.h"
#include "kernels/device/cpu/usable.h"
#include "kernels/launch/run.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_THREADS = 16, MEMO_BYTES = 64 << 20, SEQS = 4 };

/* ---- which rows ------------------------------------------------------------------- */

/* Marks the rows to compare among all tokens x heads: one at random in each of max_rows equal
 * ranges, and the first and last token of each sequence with a random head. With more than
 * SEQS x max_rows sequences, only every step-th counts. */
static void mark_rows(const struct workload *w, unsigned char *mark, size_t total, int max_rows)
{
	const attune_batch *b = &w->scenario->batch->view;
	const size_t heads = (size_t)w->scenario->shape.num_query_heads, wanted = (size_t)max_rows;
	unsigned long long state = w->scenario->seed;
	if (total <= wanted) {
		memset(mark, 1, total);
		return;
	}
	for (size_t i = 0; i < wanted; i++) {
		const size_t begin = total * i / wanted, end = total * (i + 1) / wanted;
		mark[begin + next_random(&state) % (end - begin)] = 1;
	}
	const int step = 1 + (b->num_seqs - 1) / (SEQS * max_rows + 1);
	for (int i = (int)(next_random(&state) % (unsigned)step); i < b->num_seqs; i += step) {
		const int query = batch_query_len(b, i);
		const size_t first = (size_t)b->query_start[i] * heads;
		if (query > 0)
			mark[first + next_random(&state) % heads] = 1;
		if (query > 1)
			mark[first + (size_t)(query - 1) * heads + next_random(&state) % heads] = 1;
	}
}

static int list_seq(const struct workload *w, int seq, const unsigned char *mark,
		    struct expected_row *row)
{
	const attune_shape *s = &w->scenario->shape;
	const attune_batch *b = &w->scenario->batch->view;
	const int first = b->query_start[seq];
	const int heads = s->num_query_heads, group = heads / s->num_kv_heads;
	int n = 0;
	for (int kv = 0; kv < s->num_kv_heads; kv++)
		for (int t = 0; t < batch_query_len(b, seq); t++)
			for (int h = kv * group; h < (kv + 1) * group; h++)
				if (mark[(size_t)(first + t) * (size_t)heads + (size_t)h])
					row[n++] = (struct expected_row){ seq, t, h };
	return n;
}

/* In the order of sequences and KV heads. 0: no memory. */
static int list_rows(struct expected *e, const struct workload *w)
{
	const attune_batch *b = &w->scenario->batch->view;
	const size_t tokens = b->num_seqs ? (size_t)b->query_start[b->num_seqs] : 0;
	const size_t total = tokens * (size_t)w->scenario->shape.num_query_heads;
	unsigned char *mark = calloc(total + 1, 1);
	size_t n = 0;
	if (!mark)
		return 0;
	mark_rows(w, mark, total, e->max_rows);
	for (size_t i = 0; i < total; i++)
		n += mark[i];
	e->row = calloc(n + 1, sizeof *e->row);
	for (int i = 0; e->row && i < b->num_seqs; i++)
		e->num_rows += list_seq(w, i, mark, e->row + e->num_rows);
	free(mark);
	return e->row != NULL;
}

/* ---- what is right ---------------------------------------------------------------- */

/* The state of one thread. Keeps decoded keys and values while several rows share them. */
struct reader {
	struct kv_source source;
	const struct kv_order *order;
	struct attune_args args;
	struct attune_more more;
	struct expected *e;
	atomic_int *next_row;
	pthread_t thread;
	int *number;          /* of each page, its place in the sequence */
	float *memo;          /* [2][keys][head_size], if has_memo; exact: no type is wider */
	unsigned char *known; /* [2][keys] */
	double *scores;       /* [keys] */
	size_t keys;          /* of the group's sequence */
	size_t max_scores;    /* elements that `scores` has */
	int has_memo;
};

static void read_row(const struct reader *r, int is_v, int page, int slot, int kv_head, double *row)
{
	const attune_shape *s = r->source.shape;
	const struct kv_place at = kv_place(&r->args, s, is_v, page, slot, kv_head);
	for (int d = 0; d < s->head_size; d += at.run) {
		const struct in_stream from =
		    in_stream_of(r->order, is_v, at.first + d / at.run * at.step);
		read_values(row + d, from.stream, from.first, (size_t)at.run, s->kv_dtype);
	}
}

static void fetch(const struct kv_source *source, int is_v, int page, int slot, int kv_head,
		  double *row)
{
	const struct reader *r = source->more;
	if (!r->has_memo) {
		read_row(r, is_v, page, slot, kv_head, row);
		return;
	}
	const size_t size = (size_t)source->shape->head_size;
	const size_t key = (size_t)r->number[page] * (size_t)r->args.page_size + (size_t)slot;
	const size_t at = (is_v ? r->keys : 0) + key;
	float *kept = r->memo + at * size;
	if (r->known[at]) {
		for (size_t d = 0; d < size; d++)
			row[d] = (double)kept[d];
		return;
	}
	read_row(r, is_v, page, slot, kv_head, row);
	for (size_t d = 0; d < size; d++)
		kept[d] = (float)row[d];
	r->known[at] = 1;
}

/* Prepares for a group of `rows` rows of a sequence. Without memory each row decodes its keys again. */
static void begin_group(struct reader *r, int seq, int rows)
{
	const size_t size = (size_t)r->source.shape->head_size;
	const int page_size = r->args.page_size;
	const int *table = r->args.block_table + (size_t)seq * (size_t)r->args.block_table_stride;
	r->keys = (size_t)r->args.seq_lens[seq];
	for (int j = 0; j * page_size < r->args.seq_lens[seq]; j++)
		r->number[table[j]] = j;
	if (r->keys > r->max_scores) {
		free(r->scores);
		r->scores = malloc(r->keys * sizeof *r->scores);
		r->max_scores = r->scores ? r->keys : 0;
	}
	r->source.scores = r->scores;
	r->has_memo = rows > 1 && 2 * r->keys * size * sizeof *r->memo <= MEMO_BYTES;
	if (r->has_memo && !r->memo) {
		r->memo = malloc(MEMO_BYTES);
		r->known = malloc(MEMO_BYTES / (size * sizeof *r->memo));
	}
	r->has_memo = r->has_memo && r->memo && r->known;
	if (r->has_memo)
		memset(r->known, 0, 2 * r->keys);
}

static void compute_row(struct reader *r, int index)
{
	const struct expected_row *row = &r->e->row[index];
	const size_t size = (size_t)r->source.shape->head_size, at = (size_t)index * size;
	double out[512], mass[512], squares[512], lse;
	r->source.mass = mass;
	r->source.squares = r->e->rounding ? squares : NULL;
	r->source.lse = &lse;
	reference_row_from(&r->source, row->seq, row->token, row->head, out);
	r->e->lse[index] = (float)lse;
	for (size_t d = 0; d < size; d++) {
		r->e->want[at + d] = (float)out[d];
		r->e->tolerance[at + d] = (float)check_tolerance(r->source.shape, mass[d], out[d]);
		if (r->e->rounding)
			r->e->rounding[at + d] = (float)rounding_tolerance(squares[d]);
	}
}

/* One past the last row that shares its keys with `first`. */
static int end_of_group(const struct reader *r, int first)
{
	const struct expected_row *row = r->e->row;
	int end = first + 1;
	while (end < r->e->num_rows && row[end].seq == row[first].seq &&
	       row[end].head / r->args.group == row[first].head / r->args.group)
		end++;
	return end;
}

/* Computes groups of rows that share keys until none is left. Groups before *next_row are taken. */
static void *work(void *p)
{
	struct reader *r = p;
	int first = atomic_load(r->next_row);
	while (first < r->e->num_rows) {
		const int end = end_of_group(r, first);
		if (!atomic_compare_exchange_strong(r->next_row, &first, end))
			continue;
		begin_group(r, r->e->row[first].seq, end - first);
		for (int i = first; i < end; i++)
			compute_row(r, i);
		first = atomic_load(r->next_row);
	}
	return NULL;
}

/* Writes the rows of q that are needed. The rest of the allocation is never touched. */
static void *write_q(const struct expected *e, const struct workload *w, struct attune_args *a)
{
	const attune_shape *s = &w->scenario->shape;
	const attune_batch *b = &w->scenario->batch->view;
	const size_t size = (size_t)s->head_size, bytes = (size_t)dtype_bytes(s->dtype);
	const size_t heads = (size_t)s->num_query_heads;
	const size_t tokens = b->num_seqs ? (size_t)b->query_start[b->num_seqs] : 0;
	char *q = calloc(tokens * heads + 1, size * bytes);
	a->q_head_stride = s->head_size;
	a->q_token_stride = a->q_head_stride * s->num_query_heads;
	a->q = q;
	for (int i = 0; q && i < e->num_rows; i++) {
		const size_t token = (size_t)(b->query_start[e->row[i].seq] + e->row[i].token);
		const size_t at = (token * heads + (size_t)e->row[i].head) * size;
		write_values(q + at * bytes, q_stream(w->scenario->seed), at, size, s->dtype);
	}
	return q;
}

/* The arguments for the reference: host pointers, without K, V and q. */
static void host_args(const struct workload *w, struct attune_args *a)
{
	const attune_shape *s = &w->scenario->shape;
	const attune_batch *b = &w->scenario->batch->view;
	args_from_tensors(a, s, &w->tensors, b->num_seqs);
	a->out = NULL;
	a->q = a->k_cache = a->v_cache = a->k_new = a->v_new = NULL;
	a->block_table = w->host_table;
	a->query_start = b->query_start;
	a->seq_lens = b->seq_lens;
	a->sinks = s->has_sinks ? w->sinks : NULL;
	a->alibi_slopes = s->has_alibi ? w->slopes : NULL;
}

static int count_threads(void)
{
	const int n = cpu_usable();
	return n < MAX_THREADS ? n : MAX_THREADS;
}

static int compute_rows(struct expected *e, const struct workload *w)
{
	struct reader reader[MAX_THREADS];
	atomic_int next_row = 0;
	struct attune_args args;
	int n = 0, started = 0;
	host_args(w, &args);
	void *q = write_q(e, w, &args);
	for (const int threads = count_threads(); q && n < threads; n++) {
		struct reader *r = &reader[n];
		memset(r, 0, sizeof *r);
		r->args = args;
		r->order = &w->order;
		r->e = e;
		r->next_row = &next_row;
		workload_host_scales(w, &r->more);
		r->source = (struct kv_source){ .fetch = fetch,
						.args = &r->args,
						.shape = &w->scenario->shape,
						.more = r,
						.scales = &r->more };
		r->number =
		    calloc((size_t)w->sets * (size_t)w->pages_per_set + (size_t)w->spare_pages,
			   sizeof *r->number);
		if (!r->number)
			break;
	}
	while (started + 1 < n &&
	       !pthread_create(&reader[started].thread, NULL, work, &reader[started]))
		started++;
	if (n)
		work(&reader[started]);
	for (int i = 0; i < started; i++)
		pthread_join(reader[i].thread, NULL);
	for (int i = 0; i < n; i++) {
		free(reader[i].number);
		free(reader[i].memo);
		free(reader[i].known);
		free(reader[i].scores);
	}
	free(q);
	return n > 0;
}

struct expected *expected_make(const struct workload *w, int max_rows, int with_rounding)
{
	struct expected *e = calloc(1, sizeof *e);
	if (!e)
		return NULL;
	e->max_rows = max_rows;
	int ok = list_rows(e, w);
	const size_t n = (size_t)e->num_rows * (size_t)w->scenario->shape.head_size + 1;
	e->want = calloc(n, sizeof *e->want);
	e->tolerance = calloc(n, sizeof *e->tolerance);
	e->lse = calloc((size_t)e->num_rows + 1, sizeof *e->lse);
	e->rounding = with_rounding ? calloc(n, sizeof *e->rounding) : NULL;
	ok = ok && e->want && e->tolerance && e->lse && !with_rounding == !e->rounding &&
	     compute_rows(e, w);
	if (ok)
		return e;
	expected_free(e);
	return NULL;
}

void expected_free(struct expected *e)
{
	if (!e)
		return;
	free(e->row);
	free(e->want);
	free(e->tolerance);
	free(e->rounding);
	free(e->lse);
	free(e);
}
