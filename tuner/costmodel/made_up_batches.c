/* SPDX-License-Identifier: Apache-2.0 */
/* made_up_batches.c - makes the matrix from which a prefill or decode tree learns when its choices
 * have cost models.
 *
 * Each scenario is a row, with measured costs, and adds MADE_UP rows of random batches similar to
 * it, with estimated costs. Measured times are exact; estimates cover the batches between and
 * around them. A tree that learns from both is better on held-out batches than one that learns from
 * either alone (results/DIARY.md).
 *
 * A made-up batch draws with replacement from the decodes, or the prefills, of its scenario:
 *
 *   number of sequences  x 0.42 to 2.38
 *   sequence length      x 0.35 to 2.83, one factor a batch; for prefills the keys before the query
 *   query length         decodes: 3 in 10 batches get another, 1 to 8; prefills: x 0.35 to 2.83
 *   shape                half of the batches get that of another row; one in four has pages, heads or
 *                        groups that change what is legal, within what was measured
 *
 * Only integers are used, so that a database gives the same tree on any machine. */
#include "made_up.h"
#include "harness/base/base.h"
#include "harness/scenario/scenario.h"
#include "offers.h"
#include "probes.h"
#include "kernels/spec/part.h"
#include <limits.h>
#include <stdlib.h>

enum {
	MADE_UP = 12,    /* batches a scenario */
	MADE_WEIGHT = 3, /* of such a row; a fifth of the least that a scenario has (matrix.c) */
	CLIFF = 262364,  /* the cost of 1.3 times the least */
	PROBED = 4,      /* one batch in so many has another legality */
	LONGEST_MADE = 1 << 18,
	LONGEST_QUERY = 1 << 14,
	LEADING_BITS = 4
};

/* ---- random numbers ------------------------------------------------------------------------- */
/* v x a random factor, interpolated between two neighbours of step: 17 factors in 1024ths, evenly
 * spaced on a log scale. */
static long long scaled(unsigned long long *state, long long v, const int step[17])
{
	enum { BETWEEN = 64 };
	const long long at = random_below(state, 16 * BETWEEN), i = at / BETWEEN,
			part = at % BETWEEN;
	const long long factor = step[i] * (BETWEEN - part) + step[i + 1] * part;
	return max_of(v * factor / (1024 * BETWEEN), 1);
}

static const int steps_count[17] = { 431,  480,  535,  596,  664,  740,  825,  919, 1024,
				     1141, 1272, 1417, 1579, 1760, 1961, 2185, 2435 };
static const int steps_length[17] = { 362,  412,  470,  535,  609,  693,  789,  899, 1024,
				      1166, 1328, 1512, 1722, 1961, 2233, 2543, 2896 };

/* ---- a batch -------------------------------------------------------------------------------- */

/* Factors for all sequences of a batch, in 2^16ths. */
struct change {
	long long length, query;
	int other; /* query length of decodes; 0: their own */
};

static struct change draw_change(enum phase phase, unsigned long long *state)
{
	struct change c = { .length = scaled(state, 1 << 16, steps_length), .query = 1 << 16 };
	if (phase == PHASE_PREFILL)
		c.query = scaled(state, 1 << 16, steps_length);
	else
		c.other = random_below(state, 10) < 3
			      ? 1 + (int)random_below(state, DECODE_MAX_QUERY)
			      : 0;
	return c;
}

static void change_decode(const struct change *c, long long *query, long long *seq)
{
	*query = c->other ? c->other : *query;
	*seq = max_of(min_of(*seq * c->length >> 16, LONGEST_MADE), *query);
}

static void change_prefill(const struct change *c, long long *query, long long *seq)
{
	const long long context = (*seq - *query) * c->length >> 16;
	*query = max_of(min_of(*query * c->query >> 16, LONGEST_QUERY), DECODE_MAX_QUERY + 1);
	*seq = *query + min_of(context, LONGEST_MADE);
}

static int list_sequences(int *of, const attune_batch *b, enum phase phase)
{
	int n = 0;
	for (int i = 0; i < b->num_seqs; i++)
		if (seq_phase(b->query_start[i + 1] - b->query_start[i]) == phase)
			of[n++] = i;
	return n;
}

/* Appends sequences drawn from those of the phase; returns 0 if `like` has none. */
static int add_sequences(struct made_up *b, const attune_batch *like, enum phase phase,
			 unsigned long long *state)
{
	const int seqs = list_sequences(b->of, like, phase);
	if (!seqs)
		return 0;
	const int n = (int)min_of(scaled(state, seqs, steps_count), MOST_MADE - b->n);
	const struct change change = draw_change(phase, state);
	for (int i = 0; i < n; i++) {
		const int from = b->of[random_below(state, seqs)];
		long long query = like->query_start[from + 1] - like->query_start[from];
		long long seq = like->seq_lens[from];
		if (phase == PHASE_PREFILL)
			change_prefill(&change, &query, &seq);
		else
			change_decode(&change, &query, &seq);
		b->query_start[b->n + 1] = b->query_start[b->n] + (int)query;
		b->seq_lens[b->n++] = (int32_t)seq;
	}
	return 1;
}

static int draw_batch(struct made_up *b, attune_batch *out, const attune_batch *like,
		      enum phase phase, unsigned long long *state)
{
	int done = 1;
	b->n = b->query_start[0] = 0;
	if (phase != PHASE_PREFILL)
		done = add_sequences(b, like, PHASE_DECODE, state);
	if (phase != PHASE_DECODE)
		done = done && add_sequences(b, like, PHASE_PREFILL, state);
	*out = (attune_batch){ .size = sizeof(attune_batch),
			       .num_seqs = b->n,
			       .query_start = b->query_start,
			       .seq_lens = b->seq_lens };
	return done;
}

/* Whether the scenarios have some of that kind: of what none was measured the estimates know nothing, and
 * rules that were learned elsewhere stand behind the rows. */
static int is_like_measured(const struct made_up *b, const attune_shape *s)
{
	return s->page_size >= b->least_page && s->page_size <= b->most_page &&
	       s->head_size <= b->most_head &&
	       (b->has_groups_of_one || s->num_kv_heads < s->num_query_heads);
}

/* One query head a KV head, another head size, or another page size. */
static const attune_shape *probed(struct made_up *b, const attune_shape *shape,
				  unsigned long long *state)
{
	static const int heads[] = { 80, 96, 192 }, pages[] = { 1, 4, 8, 12, 32, 128, 528 };
	const long long what = random_below(state, 4), which = random_below(state, 1 << 20);
	b->probe = *shape;
	if (!what)
		b->probe.num_kv_heads = shape->num_query_heads;
	else if (what == 1)
		b->probe.head_size = heads[which % (long long)COUNT(heads)];
	else
		b->probe.page_size = pages[which % (long long)COUNT(pages)];
	return is_like_measured(b, &b->probe) ? &b->probe : shape;
}

int made_up_draw(struct made_up *b, const struct data *d, const struct matrix *m, int row,
		 enum phase phase, unsigned long long *state, attune_batch *batch,
		 const attune_shape **shape, struct part *part)
{
	const struct measured *like = &d->v[m->scenario[row]];
	const int shape_of = random_below(state, 2) ? (int)random_below(state, m->rows) : row;
	*shape = &d->v[m->scenario[shape_of]].shape;
	if (phase != PHASE_ALL && !random_below(state, PROBED))
		*shape = probed(b, *shape, state);
	return draw_batch(b, batch, &like->batch->view, phase, state) &&
	       !batch_error(batch, *shape) && part_make(part, phase, *shape, batch, &d->run.device);
}

struct made_up *made_up_new(const struct data *d, const struct matrix *m)
{
	struct made_up *b = malloc(sizeof *b);
	int most = 0;
	if (!b)
		return NULL;
	*b = (struct made_up){ .least_page = INT_MAX };
	for (int r = 0; r < m->rows; r++) {
		const struct measured *v = &d->v[m->scenario[r]];
		most = (int)max_of(most, v->batch->view.num_seqs);
		b->least_page = (int)min_of(b->least_page, v->shape.page_size);
		b->most_page = (int)max_of(b->most_page, v->shape.page_size);
		b->most_head = (int)max_of(b->most_head, v->shape.head_size);
		b->has_groups_of_one |= v->shape.num_kv_heads == v->shape.num_query_heads;
	}
	b->of = malloc(sizeof *b->of * ((size_t)most + 1));
	if (!b->of) {
		free(b);
		return NULL;
	}
	return b;
}

void made_up_free(struct made_up *b)
{
	if (b)
		free(b->of);
	free(b);
}

/* ---- rows ----------------------------------------------------------------------------------- */
/* Rounds to LEADING_BITS bits, so that thresholds are few and round. It rounds up: a threshold at a
 * level then divides exact features just as it divides rounded ones. */
void made_up_round(struct attune_features *f)
{
	long long *v = (long long *)f;
	for (int i = 0; i < ATTUNE_NUM_FEATURES; i++) {
		int shift = 0;
		while (v[i] >> shift >= 1 << LEADING_BITS)
			shift++;
		v[i] = parts_of(v[i], 1ll << shift) << shift;
	}
}

void made_up_row_like(struct matrix *to, int row, const struct matrix *from, int of)
{
	to->scenario[row] = from->scenario[of];
	to->weight[row] = from->weight[of];
	to->fallback[row] = from->fallback[of];
	to->f[row] = from->f[of];
	to->block[row] = from->block[of];
}

static void measured_row(struct matrix *m, const struct offers *k, const struct offer *const *v,
			 int row)
{
	made_up_row_like(m, row, k->m, row);
	for (int c = 0; c < m->cols; c++)
		m->cost[(size_t)row * (size_t)m->cols + (size_t)c] =
		    v[c]->estimate[row] == NOT_LEGAL ? COST_ILLEGAL
		    : v[c]->cost[row] >= FORBIDDEN_SUM || offer_has_failed(k, v[c], row)
			? COST_FORBIDDEN
			: (int32_t)(v[c]->cost[row] / k->m->weight[row]);
	made_up_round(&m->f[row]);
}

void made_up_describe(struct matrix *to, int row, const struct matrix *from, int of,
		      const struct attune_features *f)
{
	made_up_row_like(to, row, from, of);
	to->f[row] = *f;
	to->weight[row] = MADE_WEIGHT;
	to->fallback[row] = COST_CAP;
	made_up_round(&to->f[row]);
}

/* Fills in the row of a batch made up from row `of`. Returns the number of rows: 0 if no offer is
 * legal. */
static int made_up_row(struct matrix *m, const struct offers *k, const struct offer *const *v,
		       int row, int of, struct made_up *b, unsigned long long seed)
{
	unsigned long long state = seed;
	long long estimate[MAX_CHEAPEST], least = -1;
	const attune_shape *shape;
	attune_batch batch;
	struct part part;
	if (!made_up_draw(b, k->d, k->m, of, k->phase, &state, &batch, &shape, &part))
		return 0;
	for (int c = 0; c < m->cols; c++) {
		struct config means;
		estimate[c] = offer_estimate(k, v[c], shape, &part, &means);
		if (estimate[c] >= 0 && (least < 0 || estimate[c] < least))
			least = estimate[c];
	}
	if (least <= 0)
		return 0;
	made_up_describe(m, row, k->m, of, &part.f);
	for (int c = 0; c < m->cols; c++)
		m->cost[(size_t)row * (size_t)m->cols + (size_t)c] =
		    estimate[c] == NOT_LEGAL ? COST_ILLEGAL
		    : estimate[c] < 0        ? COST_FORBIDDEN
					     : cost_of((double)estimate[c], (double)least);
	return 1;
}

/* How probes count: the weight of one, for trees, and how many times what is beyond the cliff, so that a
 * few slow batches outweigh many small losses. Estimates of such batches are less sure than times; but on
 * GPUs that portable rules serve no scenario was timed either. */
struct probing {
	int32_t weight;
	int beyond;
};
static const struct probing own_probes = { 1, 3 }, portable_probes = { 3, 7 };

static int32_t probe_cost(const struct probing *how, long long estimate, long long least)
{
	const long long cost = cost_of((double)estimate, (double)least);
	return (int32_t)min_of(cost + (how->beyond - 1) * max_of(cost - CLIFF, 0), COST_CAP);
}

/* Fills in rows of the probes; returns the next one. */
static int probes_rows(const struct probes *p, const struct offers *k, const struct offer *const *v,
		       struct matrix *m, int row)
{
	const struct probing *how = k->d->is_portable ? &portable_probes : &own_probes;
	for (int i = 0; i < p->n; i++) {
		const long long *estimate = p->v[i].estimate;
		long long least = LLONG_MAX;
		for (int c = 0; c < m->cols; c++)
			if (estimate[v[c] - k->offer] > 0)
				least = min_of(least, estimate[v[c] - k->offer]);
		if (least == LLONG_MAX)
			continue;
		made_up_describe(m, row, k->m, i % k->m->rows, &p->v[i].f);
		m->weight[row] = how->weight;
		for (int c = 0; c < m->cols; c++) {
			const long long us = estimate[v[c] - k->offer];
			m->cost[(size_t)row * (size_t)m->cols + (size_t)c] =
			    us == NOT_LEGAL ? COST_ILLEGAL
			    : us < 0        ? COST_FORBIDDEN
					    : probe_cost(how, us, least);
		}
		row++;
	}
	return row;
}

struct matrix *make_training_matrix(const struct offers *k, const struct probes *p,
				    const struct offer *const *v, int n, int *measured,
				    int *similar)
{
	const int rows = k->m->rows;
	struct matrix *m = matrix_new(rows * (1 + MADE_UP) + p->n, n);
	struct made_up *b = made_up_new(k->d, k->m);
	const int done = m && b;
	int at = rows;
	for (int c = 0; done && c < n; c++)
		m->choice[c] = v[c]->number;
	for (int r = 0; done && r < rows; r++)
		measured_row(m, k, v, r);
	for (int i = 0; done && i < rows * MADE_UP; i++)
		at += made_up_row(m, k, v, at, i / MADE_UP, b, (unsigned long long)i);
	if (done) {
		*similar = at;
		m->rows = probes_rows(p, k, v, m, at);
		*measured = rows;
	} else {
		matrix_free(m);
		m = NULL;
	}
	made_up_free(b);
	return m;
}
