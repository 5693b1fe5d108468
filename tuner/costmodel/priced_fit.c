/* priced_fit.c - fits the costs of a priced choice (kernels/ship/priced.h) to the times of a database.
 *
 * Unlike offers.c, which separates choices near a scenario's best, a priced choice is compared with
 * few others where the best ones are illegal. So a time counts by how near it is to the best one of
 * its own kernel, and the closed form of the path is used in both phases, as the library does. */
#include "costmodel.h"
#include "kernels/ship/priced.h"
#include "tuner/data/data.h"
#include <math.h>
#include <stdlib.h>

enum { MIN_TIMES = 8, NEAR_BEST = 8 };
static const int sizes[PRICED_SIZES] = { 64, 128, 256 };

struct fitting {
	const struct data *d;
	const struct kernel *k;
	struct config config;
	enum phase phase;
	double *best;          /* [d->n] least time of the kernel, packed alike */
	struct cell_fit *cell; /* [d->n * MAX_MEMBERS] */
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

static int fit_size(const struct fitting *t, int head_size, struct part_costs *out)
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
	if (n < MIN_TIMES)
		return 1; /* the kernel does not take it, or nobody measured it */
	if (!cost_model_fit(&p, t->cell, n, most_slots(t, head_size)))
		return 0;
	out->segments = cost_model_segments(&p);
	out->launch = p.fs[TERM_LAUNCH];
	out->total = p.fs[TERM_TOTAL];
	out->kib = p.fs[TERM_KIB];
	out->rows = p.fs[TERM_ROWS];
	return 1;
}

int priced_fit(struct priced *p, const struct data *d)
{
	struct fitting t = { .d = d, .phase = p->phase };
	int done;
	t.k = kernel_find(d->run.device.backend, p->kernel);
	priced_config(&t.config, p, t.k->space);
	t.best = malloc(sizeof *t.best * (size_t)(d->n + 1));
	t.cell = malloc(sizeof *t.cell * (size_t)(d->n + 1) * MAX_MEMBERS);
	done = t.best && t.cell;
	if (done)
		find_best(&t);
	for (int i = 0; done && i < PRICED_SIZES; i++)
		done = fit_size(&t, sizes[i], &p->at[i]);
	free(t.best);
	free(t.cell);
	return done;
}
