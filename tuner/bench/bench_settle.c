/* SPDX-License-Identifier: Apache-2.0 */
/* bench_settle.c - the list of `attune bench --settle` and `--settled`: what the memory of settled
 * batches is worth (kernels/attune_settle.h).
 *
 *   attune      the library without memory: the reference of ratios
 *   settling    attune_settle itself; its time is that of the call
 *   settled     the plan of a memory that has this batch alone, at a margin of 1 %
 *   carried_N   the plan by the file of another session, at a margin of N %
 *   member_N    alternative N of the plan
 *
 * A sibling is a batch of the same cell with other lengths: each length is drawn anew within some
 * per cent, until the cell is the same. */
#include "bench.h"
#include "harness/machine/machine.h"
#include "harness/scenario/scenario.h"
#include "kernels/attune_settle.h"
#include "kernels/launch/run.h"
#include "kernels/settle/settled.h"
#include "kernels/spec/part.h"
#include "tuner/base/base.h"
#include "tuner/data/data.h"
#include "tuner/policy/policy.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the files -------------------------------------------------------------------------- */

/* 0 + complain. */
static int is_sound(const char *path, int is_needed, attune_context *ctx)
{
	int taken = 0, dropped = 0;
	if (!path || (!is_needed && access(path, F_OK)))
		return 1;
	char *text = file_text(path);
	const int done = text && !attune_settled_read(ctx, text, strlen(text), &taken, &dropped);
	if (done)
		fprintf(stderr, "# %s: %d cells, and %d of choices that are no longer so\n", path,
			taken, dropped);
	else
		complain("%s: %s", path, text ? attune_last_error() : "it cannot be read");
	free(text);
	return done;
}

int settle_files_are_sound(const struct settle_asked *a, const struct hello *hello)
{
	attune_context *ctx;
	struct device dev;
	if (!a->settle && !a->settled)
		return 1;
	planning_device(&dev, &hello->info);
	if (attune_adopt(&ctx, &dev)) {
		complain("%s", attune_last_error());
		return 0;
	}
	const int done = is_sound(a->settle, 0, ctx) && is_sound(a->settled, 1, ctx);
	attune_close(ctx);
	return done;
}

/* ---- siblings --------------------------------------------------------------------------- */
enum { MOST_DRAWS = 32 };

/* n moved by at most `most` of itself, and at least `least`. */
static int32_t moved(int32_t n, int least, double most, unsigned long long *random)
{
	const double u = (double)(random_bits(random) >> 11) * 0x1p-53;
	const int32_t m = (int32_t)lround(n * (1 + most * (2 * u - 1)));
	return n <= 0 ? n : m < least ? least : m;
}

/* NULL: no memory. */
static struct batch *draw(const attune_batch *v, double most, unsigned long long *random)
{
	const size_t n = (size_t)v->num_seqs;
	int32_t *start = calloc(n + 1, sizeof *start), *lens = calloc(n + 1, sizeof *lens);
	char error[160], *text = NULL;
	for (int i = 0; start && lens && i < v->num_seqs; i++) {
		const int32_t query = v->query_start[i + 1] - v->query_start[i];
		const int32_t context = moved(v->seq_lens[i] - query, 1, most, random);
		const int32_t now = query > DECODE_MAX_QUERY
					? moved(query, DECODE_MAX_QUERY + 1, most, random)
					: query;
		start[i + 1] = start[i] + now;
		lens[i] = context + now;
	}
	const attune_batch moved_batch = { sizeof moved_batch, v->num_seqs, start, lens };
	if (start && lens)
		text = batch_format(&moved_batch);
	struct batch *b = text ? batch_parse(text, error, sizeof error) : NULL;
	free(text);
	free(start);
	free(lens);
	return b;
}

/* Draws until the cell is that of the batch, ever nearer to it. 0: there is none; -1: no
 * memory. */
static int make_sibling(struct scenario *s, const attune_op *op, const attune_batch *v)
{
	unsigned long long random = scramble(s->seed + 1);
	for (int i = 0; i < MOST_DRAWS; i++) {
		struct batch *b = draw(v, 0.16 * (MOST_DRAWS - i) / MOST_DRAWS, &random);
		s->batch = b;
		s->batch_text = b ? batch_format(&b->view) : NULL;
		if (!s->batch_text) {
			batch_free(b);
			return -1;
		}
		char *text = batch_format(v);
		const int differs = text && strcmp(text, s->batch_text) != 0;
		free(text);
		if (differs && cell_of_batch(op, v) == cell_of_batch(op, &b->view))
			return 1;
		scenario_drop(s);
	}
	return 0;
}

/* ---- the list --------------------------------------------------------------------------- */

static void wish_memory(struct wishes *w, const char *policy, enum library_memory memory, int nth)
{
	w->policy = policy;
	wish(w, (struct contender){ .is_library = 1, .memory = memory, .nth = nth });
}

static void list_race(struct wishes *w, const struct measured *m, const struct settle_asked *a)
{
	static const char *const member[] = { "member_1",  "member_2",  "member_3",  "member_4",
					      "member_5",  "member_6",  "member_7",  "member_8",
					      "member_9",  "member_10", "member_11", "member_12",
					      "member_13", "member_14", "member_15" };
	enum { OF_A_PART = 8 }; /* six members and two steps beside the first, at most */
	const int members = measured_is_mixed(m) ? (int)COUNT(member) : OF_A_PART;
	wish_memory(w, "attune", MEMORY_NONE, 0);
	if (a->settle) {
		wish_memory(w, "settling", MEMORY_SETTLING, 0);
		wish_memory(w, "settled", MEMORY_SETTLED, 0);
	}
	if (a->settled) {
		wish_memory(w, "carried_1", MEMORY_CARRIED, 1);
		wish_memory(w, "carried_2", MEMORY_CARRIED, 2);
		wish_memory(w, "carried_4", MEMORY_CARRIED, 4);
	}
	for (int i = 0; i < members; i++)
		wish_memory(w, member[i], MEMORY_MEMBER, i + 1);
}

struct sibling_maker {
	attune_context *ctx;
	attune_op *op;
	attune_shape shape; /* of the op */
	int lone;           /* batches without a sibling */
};

/* 0 + complain. */
static int list_sibling(struct sibling_maker *k, struct wishes *w, const struct data *d, int s)
{
	struct scenario one;
	scenario_again(&one, &d->v[s]);
	if (!k->op || memcmp(&k->shape, &one.shape, sizeof one.shape)) {
		attune_release(k->op);
		k->op = NULL;
		k->shape = one.shape;
		if (attune_prepare(k->ctx, &one.shape, &k->op)) {
			complain("%s %s: %s", one.model, one.batch_text, attune_last_error());
			return 0;
		}
	}
	const int made = make_sibling(&one, k->op, &d->v[s].batch->view);
	k->lone += !made;
	if (made > 0) {
		snprintf(one.set, sizeof one.set, "siblings");
		wish_batch(w, &one, -1);
		wish_memory(w, "settling", MEMORY_SETTLING, 0);
	}
	w->failed |= made < 0;
	return 1;
}

static int list_siblings(struct wishes *w, const struct data *d, const struct hello *hello,
			 const int *order, int n)
{
	struct sibling_maker k = { 0 };
	struct device dev;
	planning_device(&dev, &hello->info);
	if (attune_adopt(&k.ctx, &dev)) {
		complain("%s", attune_last_error());
		return 0;
	}
	int done = 1;
	for (int i = 0; i < n && done; i++)
		done = list_sibling(&k, w, d, order[i]);
	if (k.lone)
		fprintf(stderr, "# %d of %d batches have no sibling\n", k.lone,
			k.lone + w->batches.n);
	attune_release(k.op);
	attune_close(k.ctx);
	return done;
}

struct place {
	unsigned long long key;
	int scenario;
};

static int by_key(const void *pa, const void *pb)
{
	const struct place *a = pa, *b = pb;
	return a->key != b->key ? (a->key > b->key) - (a->key < b->key) : a->scenario - b->scenario;
}

static unsigned long long key_of(const struct measured *m)
{
	unsigned long long h = (unsigned long long)m->shape.page_size;
	for (const char *c = m->model; *c; c++)
		h = scramble(h ^ (unsigned char)*c);
	for (const char *c = m->batch_text; *c; c++)
		h = scramble(h ^ (unsigned char)*c);
	return h;
}

/* The scenarios of a split, in an order that looks random, so that the first of them stand for all. Their
 * number; -1: no memory. */
static int in_order(const struct data *d, const char *split, int limit, int *order)
{
	struct place *v = malloc(sizeof *v * ((size_t)d->n + 1));
	int n = 0;
	for (int s = 0; v && s < d->n; s++)
		if (in_split(&d->v[s], split))
			v[n++] = (struct place){ key_of(&d->v[s]), s };
	if (v)
		qsort(v, (size_t)n, sizeof *v, by_key);
	n = !v ? -1 : limit && limit < n ? limit : n;
	for (int i = 0; i < n; i++)
		order[i] = v[i].scenario;
	free(v);
	return n;
}

int bench_list_settle(struct wishes *w, const struct data *d, const struct hello *hello,
		      const char *split, int limit, const struct settle_asked *a)
{
	int *order = calloc((size_t)d->n + 1, sizeof *order), done = 1;
	const int n = order ? in_order(d, split, limit, order) : -1;
	w->failed |= n < 0;
	if (a->siblings)
		done = list_siblings(w, d, hello, order, n);
	for (int i = 0; i < n && !a->siblings; i++) {
		wish_scenario(w, d, order[i]);
		list_race(w, &d->v[order[i]], a);
	}
	free(order);
	if (w->failed)
		complain("out of memory");
	return done && !w->failed;
}

/* ---- what an engine settles before it captures -------------------------------------------- */

/* vLLM's capture sizes, each with sequences of 1k, 8k and 64k keys, of 4M keys at most. */
static int ladder_batch(char text[40], int size, int step)
{
	static const int keys[] = { 1 << 10, 8 << 10, 64 << 10 };
	enum { IN_ALL = 4 << 20 };
	const int n = keys[step] < IN_ALL / size ? keys[step] : IN_ALL / size;
	return snprintf(text, 40, "%dq1s%d", size, n);
}

int bench_list_ladder(struct wishes *w)
{
	enum { STEPS = 3, LARGEST = 512 };
	for (int size = 1; size <= LARGEST; size += size < 4 ? size : size < 8 ? 4 : 8)
		for (int step = 0; step < STEPS && !w->failed; step++) {
			struct scenario s;
			char text[40];
			ladder_batch(text, size, step);
			w->failed |= !bench_llama(&s, text);
			wish_batch(w, &s, -1);
			wish_memory(w, "settling", MEMORY_SETTLING, 0);
		}
	if (w->failed)
		complain("out of memory");
	return !w->failed;
}
