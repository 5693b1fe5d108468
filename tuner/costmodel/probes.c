/* SPDX-License-Identifier: Apache-2.0 */
/* probes.c - draws batches over all shapes that the library takes, with estimated costs.
 *
 * Scenarios and the batches made up from them say little of what a rule forbids: pages that the fastest
 * kernels do not take, heads and groups that few models have, callers without K and V apart, the LSE,
 * cross attention. There a leaf's choice often is not legal, and another one of its row runs. Probes say
 * which is fast. Their weight is small, since estimates of such batches are less sure than times. */
#include "probes.h"
#include "harness/base/base.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/part.h"
#include "kernels/spec/space.h"
#include <limits.h>
#include <stdlib.h>

enum {
	SURE_CELLS = 60, /* times that an offer's model needs */
	MOST_SEQS = 128,
	MOST_TOKENS = 1 << 15,     /* of the queries */
	MOST_PROBED_KEYS = 1 << 20 /* of a batch */
};

struct drawn {
	int32_t query_start[MOST_SEQS + 1], seq_lens[MOST_SEQS];
	attune_batch batch;
	attune_shape shape;
};

/* lo to about hi, even by its logarithm. */
static long long spread(unsigned long long *state, long long lo, long long hi)
{
	int doublings = 0;
	while (lo << (doublings + 1) <= hi)
		doublings++;
	const long long base = lo << random_below(state, doublings + 1);
	return min_of(base + random_below(state, (int)base), hi);
}

static void draw_shape(struct drawn *x, const struct offers *k, unsigned long long *state)
{
	static const int heads[] = { 64, 80, 96, 128, 192, 256 };
	static const int pages[] = { 1, 4, 8, 12, 16, 20, 64, 128, 528 };
	static const int groups[] = { 1, 2, 4, 5, 7, 8, 12, 16, 32, 71 };
	const attune_shape *like = &k->d->v[k->m->scenario[random_below(state, k->m->rows)]].shape;
	attune_shape *s = &x->shape;
	const int group = groups[random_below(state, COUNT(groups))];
	*s = (attune_shape){
		.size = sizeof *s, .dtype = like->dtype, .kv_dtype = like->kv_dtype, .causal = 1
	};
	s->head_size = heads[random_below(state, COUNT(heads))];
	s->page_size = pages[random_below(state, COUNT(pages))];
	s->num_kv_heads = (int)max_of(32 >> random_below(state, 3) >> floor_log2(group), 1);
	if (group > 4 && group < 16)
		s->num_kv_heads *= 1 + random_below(state, 2);
	s->num_query_heads = group * s->num_kv_heads;
	s->has_new_kv = !random_below(state, 4);
	switch (random_below(state, 8)) {
	case 0: s->causal = 0; break;
	case 1: s->window = 512; break;
	case 2: s->has_lse = 1; break;
	}
}

static void add_seq(struct drawn *x, long long query, long long keys)
{
	const int n = x->batch.num_seqs++;
	x->query_start[n + 1] = x->query_start[n] + (int)query;
	x->seq_lens[n] = (int32_t)max_of(keys, query);
}

static void draw_prefills(struct drawn *x, unsigned long long *state)
{
	const long long query =
	    spread(state, DECODE_MAX_QUERY + 4, random_below(state, 2) ? 256 : 8192);
	const int seqs = (int)spread(state, 1, min_of(MOST_TOKENS / query, 64));
	const long long context = random_below(state, 2) ? spread(state, 256, 32768) : 0;
	for (int i = 0; i < seqs; i++) {
		const long long own =
		    max_of(query - random_below(state, (int)query / 2), DECODE_MAX_QUERY + 1);
		add_seq(x, own, own + context);
	}
}

static void draw_decodes(struct drawn *x, unsigned long long *state)
{
	const int query = random_below(state, 2) ? 1 : 1 + random_below(state, DECODE_MAX_QUERY);
	const int seqs = (int)spread(state, 1, MOST_SEQS);
	const long long keys = spread(state, 128, 32768);
	const int ragged = random_below(state, 2);
	for (int i = 0; i < seqs; i++)
		add_seq(
		    x, query,
		    min_of(ragged && i ? spread(state, 128, keys) : keys, MOST_PROBED_KEYS / seqs));
}

static int draw(struct drawn *x, const struct offers *k, struct part *part,
		unsigned long long *state)
{
	draw_shape(x, k, state);
	x->query_start[0] = 0;
	x->batch = (attune_batch){ .size = sizeof x->batch,
				   .query_start = x->query_start,
				   .seq_lens = x->seq_lens };
	if (k->phase == PHASE_PREFILL)
		draw_prefills(x, state);
	else
		draw_decodes(x, state);
	return !shape_error(&x->shape) && !batch_error(&x->batch, &x->shape) &&
	       part_make(part, k->phase, &x->shape, &x->batch, &k->d->run.device);
}

/* With the LSE a choice that lacks cuts is none that the library runs (kernels/api/pick.c). */
static long long estimate_of(const struct offers *k, const struct offer *o, const struct drawn *x,
			     const struct part *part)
{
	struct config means;
	attune_shape without = x->shape;
	const long long fs = offer_estimate(k, o, &x->shape, part, &means);
	if (!x->shape.has_lse || fs < 0 || k->phase == PHASE_PREFILL)
		return fs;
	without.has_lse = 0;
	const long long cut = offer_estimate(k, o, &without, part, &means);
	return cut >= 0 && cut < fs - fs / 4 ? NOT_LEGAL : fs;
}

int probes_open(struct probes *p, const struct offers *k)
{
	const size_t width = (size_t)k->num_offers + 1;
	struct drawn *x = malloc(sizeof *x);
	struct part part;
	*p = (struct probes){ .v = malloc(sizeof *p->v * PROBES),
			      .room = malloc(sizeof *p->room * PROBES * width) };
	const int done = x && p->v && p->room;
	for (int i = 0; done && i < min_of(PROBES, PROBES_A_ROW * k->m->rows); i++) {
		unsigned long long state = (unsigned long long)i;
		struct probe *v = &p->v[p->n];
		if (!draw(x, k, &part, &state))
			continue;
		*v = (struct probe){ part.f, p->room + width * (size_t)p->n++ };
		for (int o = 0; o < k->num_offers; o++)
			v->estimate[o] = estimate_of(k, &k->offer[o], x, &part);
	}
	free(x);
	return done;
}

void probes_close(struct probes *p)
{
	free(p->v);
	free(p->room);
}

/* ---- more offers ------------------------------------------------------------------------- */
static int is_sure(const struct offers *k, const struct offer *o)
{
	int n = 0;
	for (int h = 0; h < k->num_sizes; h++)
		n += o->cells[h] >= SURE_CELLS;
	return 2 * n > k->num_sizes;
}

static long long least_of(const struct probe *v, const struct offers *k, const char *in)
{
	long long least = LLONG_MAX;
	for (int o = 0; o < k->num_offers; o++)
		if (in[o] && v->estimate[o] > 0)
			least = min_of(least, v->estimate[o]);
	return least;
}

static int32_t cost_beside(long long estimate, long long least)
{
	return estimate == LLONG_MAX ? COST_CAP : cost_of((double)estimate, (double)least);
}

/* What all probes save by one more offer; now: [probes] their least estimates. */
static long long gain_of(const struct probes *p, const long long *now, int offer)
{
	long long sum = 0;
	for (int i = 0; i < p->n; i++)
		if (p->v[i].estimate[offer] > 0 && p->v[i].estimate[offer] < now[i])
			sum += cost_beside(now[i], p->v[i].estimate[offer]);
	return sum;
}

/* Estimates of long decodes by choices that cannot cut keys say too little. */
static int can_stand_in(const struct offers *k, const struct offer *o)
{
	return is_sure(k, o) &&
	       (k->phase == PHASE_PREFILL || o->choice.kernel->space->formula_axis >= 0);
}

int probes_choose(const struct probes *p, const struct offers *k, char *in, int most)
{
	long long *now = malloc(sizeof *now * ((size_t)p->n + 1));
	for (int added = 0; now && added < most; added++) {
		long long most_gain = 0;
		int best = -1;
		for (int i = 0; i < p->n; i++)
			now[i] = least_of(&p->v[i], k, in);
		for (int o = 0; o < k->num_offers; o++) {
			const long long gain =
			    in[o] || !can_stand_in(k, &k->offer[o]) ? 0 : gain_of(p, now, o);
			if (gain > most_gain)
				most_gain = gain, best = o;
		}
		if (best < 0)
			break;
		in[best] = 1;
	}
	free(now);
	return now != NULL;
}
