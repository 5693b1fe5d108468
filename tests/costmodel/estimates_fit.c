/* SPDX-License-Identifier: Apache-2.0 */
/* estimates_fit.c - fits the costs of choices that headers name to the times of a database, for
 * batches that were never measured.
 *
 * offers.c separates choices near a scenario's best. These costs are compared where the best
 * choices are illegal. So a time's weight is how near it is to the best time of its own kernel. The
 * closed form of the path is used in both phases, as in the library. */
#include "estimates.h"
#include "harness/base/base.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include "tuner/costmodel/costmodel.h"
#include "tuner/data/data.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	MIN_TIMES = 8, /* to fit costs to */
	NEAR_BEST = 8, /* slower times are left out */
	OFTEN = 100,   /* times that a sure estimate needs, at one head size */
	SHARE = 3,     /* or one for each SHARE parts of the database, if those are fewer */
	ENOUGH = 300   /* times that an estimate is fitted to, at one head size, at most */
};
static const double sure_error = 0.06; /* relative, of the costs' own times */
static const int sizes[ESTIMATE_SIZES] = { 64, 128, 256 };

struct fitting {
	const struct data *d;
	const struct kernel *k;
	struct config config;
	enum phase phase;
	double *best;          /* [d->n] least time of the kernel with this PACKED */
	struct cell_fit *cell; /* [d->n * MAX_MEMBERS] */
	double error;          /* weighted mean of the last fit */
};

static int is_rival(const struct fitting *t, const struct choice *c)
{
	return c->kernel == t->k && !choice_spares(c) && !choice_early(c) &&
	       config_value(&c->config, t->k->space, "PACKED", 0) ==
		   config_value(&t->config, t->k->space, "PACKED", 0);
}

static void find_best(const struct fitting *t)
{
	for (int s = 0; s < t->d->n; s++) {
		t->best[s] = INFINITY;
		for (int c = 0; t->d->v[s].has[t->phase] && c < t->d->num_choices; c++)
			if (is_rival(t, &t->d->choice[c]))
				t->best[s] = fmin(t->best[s], data_part_time(t->d, s, t->phase, c));
	}
}

/* The number of the family's member with that many segments; -1: never measured. */
static int member(const struct fitting *t, int segments)
{
	struct choice c = { t->k, t->config };
	if (t->k->space->formula_axis >= 0)
		c.config.v[t->k->space->formula_axis] = segments;
	return data_find(t->d, &c);
}

static int list_times(const struct fitting *t, int head_size, int segments, int n)
{
	const int choice = member(t, segments);
	for (int s = 0; choice >= 0 && s < t->d->n; s++) {
		const struct measured *m = &t->d->v[s];
		if (m->shape.head_size != head_size || !m->has[t->phase] || !data_is_training(m))
			continue;
		const double us = data_part_time(t->d, s, t->phase, choice);
		if (!(us < NEAR_BEST * t->best[s]))
			continue;
		const double near = t->best[s] / us;
		t->cell[n++] = (struct cell_fit){ .f = &m->part[t->phase].f,
						  .segments = segments,
						  .us = us,
						  .weight = near * near };
	}
	return n;
}

static int thin_out(const struct fitting *t, int n)
{
	const int most = (int)min_of(n, ENOUGH);
	for (int i = 0; i < most; i++)
		t->cell[i] = t->cell[(long long)i * n / most];
	return most;
}

static double error_of(const struct cost_model *p, const struct cell_fit *cell, int n)
{
	double sum = 0, weight = 0;
	for (int i = 0; i < n; i++) {
		const double us = (double)cost_model_estimate(p, cell[i].f, cell[i].segments) / 1e9;
		sum += cell[i].weight * fabs(us / cell[i].us - 1);
		weight += cell[i].weight;
	}
	return sum / weight;
}

/* The most blocks that a unit runs at a time, as in offers.c. */
static int most_slots(const struct fitting *t, int head_size)
{
	const struct device_info *d = &t->d->run.device;
	struct config one = t->config;
	if (t->k->space->formula_axis >= 0)
		one.v[t->k->space->formula_axis] = 1;
	for (int s = 0; s < t->d->n; s++) {
		const struct measured *m = &t->d->v[s];
		struct geometry g;
		if (m->shape.head_size != head_size || !m->has[t->phase])
			continue;
		t->k->space->geometry(&one, &m->shape, &m->part[t->phase], d, &g);
		return g.at_once ? max_of(g.at_once / d->units, 1)
		       : g.smem  ? max_of(d->smem_per_unit / ((int)g.smem + 1024), 1)
				 : 1 << 16;
	}
	return 1;
}

static int fit_size(struct fitting *t, int head_size, struct part_costs *out, int *times)
{
	const struct space *s = t->k->space;
	struct cost_model p = { .slots = 1 };
	int n = 0;
	if (s->formula_axis < 0)
		n = list_times(t, head_size, 1, 0);
	for (int i = 0; s->formula_axis >= 0 && i < s->axis[s->formula_axis].num_values; i++)
		n = list_times(t, head_size, s->axis[s->formula_axis].values[i], n);
	*out = (struct part_costs){ .head_size = head_size };
	block_shape_of(&p.block, &t->config, t->k);
	*times = n;
	if (n < MIN_TIMES)
		return 1; /* the kernel does not take it, or nobody measured it */
	n = thin_out(t, n);
	if (!cost_model_fit(&p, t->cell, n, most_slots(t, head_size)))
		return 0;
	/* Too few times have other numbers of segments: cuts would seem to cost nothing. */
	if (s->formula_axis >= 0 && !p.fs[TERM_SPLIT] && !p.fs[TERM_SEGMENTS])
		return 1;
	t->error = error_of(&p, t->cell, n);
	out->segments = cost_model_segments(&p);
	out->launch = p.fs[TERM_LAUNCH];
	out->total = p.fs[TERM_TOTAL];
	out->kib = p.fs[TERM_KIB];
	out->rows = p.fs[TERM_ROWS];
	return 1;
}

static int fitting_open(struct fitting *t, const struct data *d, enum phase phase)
{
	*t = (struct fitting){ .d = d, .phase = phase };
	t->best = malloc(sizeof *t->best * (size_t)(d->n + 1));
	t->cell = malloc(sizeof *t->cell * (size_t)(d->n + 1) * MAX_MEMBERS);
	return t->best && t->cell;
}

static void fitting_close(struct fitting *t)
{
	free(t->best);
	free(t->cell);
}

/* ---- estimates of what is named ----------------------------------------------------------- */

/* The first choice of its family. */
static int is_first(const struct data *d, int choice)
{
	const int family = d->family_of[choice];
	for (int i = 0; family >= 0 && i < d->family[family].num_members; i++)
		if (d->family[family].member[i] >= 0 && d->family[family].member[i] < choice)
			return 0;
	return 1;
}

/* Kernels with a list of blocks run in no waves; plug-ins have no shape of blocks. */
static int can_be_estimated(const struct choice *c)
{
	return c->kernel->selectable && !c->kernel->plugin && !c->kernel->space->is_scheduled &&
	       !c->kernel->space->is_fused && !choice_spares(c) && !choice_early(c);
}

static int is_family(struct choice a, struct choice b)
{
	a = choice_family(&a);
	b = choice_family(&b);
	return choice_same(&a, &b);
}

/* Choices that were measured on many shapes, beside those of today's headers: so a header is not judged
 * by its own choices alone. */
#define WARPGROUP(m, packed, tile, blocks, turns)                                    \
	{                                                                            \
		"warpgroup", "BLOCK_M=" #m " PACKED=" #packed " TILE_SIZE=" #tile    \
			     " NUM_STAGES=2 BLOCKS_PER_SM=" #blocks " TURNS=" #turns \
			     " PERSISTENT=1 HEADS=0 SEGMENTS=1"                      \
	}
#define SEGMENTED(m, tile, warps, stages)                                           \
	{                                                                           \
		"segmented", "BLOCK_M=" #m " TILE_SIZE=" #tile " NUM_WARPS=" #warps \
			     " NUM_STAGES=" #stages " SEGMENTS=1"                   \
	}
#define RING(m, warps, combine)                                         \
	{                                                               \
		"ring", "BLOCK_M=" #m " TILE_SIZE=16 NUM_WARPS=" #warps \
			" NUM_STAGES=2 COMBINE=" #combine " SEGMENTS=1" \
	}
// clang-format off
static const struct selector_row rivals[] = {
	WARPGROUP(64, 0, 64, 1, 0), WARPGROUP(64, 0, 64, 2, 0), WARPGROUP(64, 0, 96, 1, 0),
	WARPGROUP(64, 1, 64, 2, 0), WARPGROUP(64, 1, 80, 1, 0), WARPGROUP(64, 1, 96, 2, 0),
	WARPGROUP(64, 1, 128, 1, 0), WARPGROUP(128, 0, 80, 1, 1), WARPGROUP(128, 0, 128, 1, 1),
	WARPGROUP(128, 1, 80, 1, 1), WARPGROUP(128, 1, 128, 1, 1), WARPGROUP(192, 1, 64, 1, 0),
	SEGMENTED(16, 32, 2, 2), SEGMENTED(16, 64, 4, 2), SEGMENTED(32, 32, 2, 2),
	SEGMENTED(32, 32, 2, 3), SEGMENTED(32, 64, 4, 2), SEGMENTED(32, 128, 8, 2),
	SEGMENTED(64, 32, 4, 2), SEGMENTED(64, 64, 4, 2), SEGMENTED(128, 32, 4, 2),
	SEGMENTED(128, 32, 8, 3), SEGMENTED(128, 64, 4, 2), SEGMENTED(128, 64, 8, 2), RING(8, 2, 1),
	RING(8, 4, 0), RING(8, 4, 1), RING(8, 4, 2), RING(8, 8, 1), RING(16, 4, 1), RING(16, 4, 2),
	RING(32, 8, 1),
};
// clang-format on

static int has_family(const struct selector_row *row, int n, const struct choice *c)
{
	for (int i = 0; i < n; i++) {
		struct choice a = { .kernel = c->kernel };
		const char *where;
		if (!strcmp(row[i].kernel, c->kernel->name) &&
		    config_parse(&a.config, c->kernel->space, row[i].text, &where) &&
		    is_family(a, *c))
			return 1;
	}
	return 0;
}

/* Whether a header names that family, or it is a rival. */
static int is_named(const struct selector *also, const struct choice *c)
{
	for (const struct selector *h = attune_selectors; h->gpu; h++)
		if (has_family(h->choices, h->num_choices, c))
			return 1;
	return (also && has_family(also->choices, also->num_choices, c)) ||
	       has_family(rivals, COUNT(rivals), c);
}

/* Adds the estimate of a choice that is named, if it has enough times: of other choices a committed
 * database has the fast times alone. *best_of: a choice whose rivals' best times t->best has. often: how
 * many times a sure estimate needs. */
static int add_estimate(struct estimates *e, struct fitting *t, const struct choice *c,
			struct choice *best_of, int often)
{
	struct estimate *out = &e->v[e->n];
	int times, any = 0;
	t->k = c->kernel;
	t->config = c->config;
	if (!best_of->kernel || !is_rival(t, best_of)) {
		find_best(t);
		*best_of = *c;
	}
	*out = (struct estimate){ .choice = *c };
	for (int i = 0; i < ESTIMATE_SIZES; i++) {
		if (!fit_size(t, sizes[i], &out->at[i], &times))
			return 0;
		out->error[i] = t->error;
		out->is_sure[i] = times >= often && t->error < sure_error;
		any |= out->at[i].segments.slots > 0;
	}
	e->n += any;
	return 1;
}

static double least_time(const struct data *d, enum phase phase)
{
	double least = INFINITY;
	int choice;
	for (int s = 0; s < d->n; s++)
		if (d->v[s].has[phase])
			least = fmin(least, data_best(d, s, phase, &choice));
	return isfinite(least) ? least : 0;
}

struct estimates *estimates_new(const struct data *d, const struct selector *also, enum phase phase)
{
	struct estimates *e = calloc(1, sizeof *e);
	struct choice best_of = { NULL, { { 0 } } };
	struct fitting t;
	int parts, done = fitting_open(&t, d, phase) && e;
	if (done)
		*e = (struct estimates){ .device = d->run.device,
					 .least_us = least_time(d, phase),
					 .dram_gbps = d->run.dram_gbps,
					 .fma_tflops = d->run.fma_tflops,
					 .v = calloc((size_t)d->num_choices + 1, sizeof *e->v) };
	done = done && e->v;
	parts = 0;
	for (int s = 0; s < d->n; s++)
		parts += d->v[s].has[phase];
	const int often = (int)max_of(min_of(parts / SHARE, OFTEN), MIN_TIMES);
	for (int c = 0; done && c < d->num_choices; c++)
		if (is_first(d, c) && can_be_estimated(&d->choice[c]) &&
		    is_named(also, &d->choice[c]))
			done = add_estimate(e, &t, &d->choice[c], &best_of, often);
	fitting_close(&t);
	if (done)
		return e;
	estimates_free(e);
	return NULL;
}
