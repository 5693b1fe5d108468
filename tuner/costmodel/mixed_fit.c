/* SPDX-License-Identifier: Apache-2.0 */
/* mixed_fit.c - fits the rates by which a header divides a mixed batch (kernels/spec/mixed.h) to
 * training batches of its GPU, as segment_fit.c fits costs: coordinate descent on the loss of the
 * numbers that the rates choose, among those with a time. Begins at mixed_by_hand.
 *
 * The rates are taken if they generalise: fitted to four fifths of the scenarios, five times, they
 * must lose a tenth less on the others than mixed_by_hand, and 0.3 % of the time (results/DIARY.md). */
#include "costmodel.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/mixed.h"
#include "kernels/spec/space.h"
#include "tuner/data/data.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NUMBERS = 64, LEAST_NUMBERS = 3, LEAST_ROWS = 100, ROUNDS = 8, FOLDS = 5, ROWS = 128 };
static const int percents_tried[] = { 70, 85, 93, 97, 103, 107, 115, 140 };
static const double most_loss = 1, must_gain = 0.1, least_gain = 0.003;

/* A scenario by one compiled choice: its launches by estimate, as `units + 65536 segments`. */
struct mixed_row {
	const struct measured *m;
	struct config base; /* both numbers left to the estimate */
	int scenario, n, launch[MOST_NUMBERS];
	double us[MOST_NUMBERS], best;
};

struct search {
	struct mixed_row *row;
	int n, units;
	int fold, inside; /* the rows of a fold, or those of the others; fold -1: all */
};

/* ---- rows ------------------------------------------------------------------------------- */
static struct mixed_row *row_of(struct search *s, int first, const struct config *base)
{
	int i = first;
	while (i < s->n && memcmp(&s->row[i].base, base, sizeof *base))
		i++;
	if (i == s->n)
		s->row[s->n++] = (struct mixed_row){ .base = *base };
	return &s->row[i];
}

static void add_time(struct mixed_row *r, int launch, double us)
{
	int i = 0;
	while (i < r->n && r->launch[i] != launch)
		i++;
	if (i == MOST_NUMBERS)
		return;
	r->launch[i] = launch;
	r->us[i] = i < r->n && r->us[i] < us ? r->us[i] : us;
	r->n += i == r->n;
	r->best = r->n == 1 || us < r->best ? us : r->best;
}

/* Adds the rows of a scenario. Those with few numbers cannot tell rates apart. */
static void add_scenario(struct search *s, const struct data *d, int scenario)
{
	const struct measured *m = &d->v[scenario];
	const int first = s->n;
	int kept = first;
	struct choice_iter i = choices_of(d, scenario, PHASE_ALL, PHASE_ALL);
	while (choices_next(&i)) {
		const struct choice *c = &d->choice[i.choice];
		const struct space *space = c->kernel->space;
		const struct cell *cell = i.cells[0].of[PASS_A];
		const int u = axis_named(space, "DECODE_UNITS");
		const int g = axis_named(space, "PREFILL_SEGMENTS");
		struct config base = c->config;
		struct geometry launch;
		if (!space->is_fused || u < 0 || g < 0 || !cell || cell->outcome != OUTCOME_OK ||
		    !data_legal(d, scenario, PHASE_ALL, i.choice))
			continue;
		base.v[u] = base.v[g] = 0;
		space->geometry(&c->config, &m->shape, &m->part[PHASE_ALL], &d->run.device,
				&launch);
		struct mixed_row *r = row_of(s, first, &base);
		r->m = m;
		r->scenario = scenario;
		add_time(r, launch.estimate, cell->us);
	}
	for (int r = first; r < s->n; r++)
		if (s->row[r].n >= LEAST_NUMBERS)
			s->row[kept++] = s->row[r];
	s->n = kept;
}

/* ---- the search ------------------------------------------------------------------------- */
static double loss_of_row(const struct mixed_row *r, const struct mixed_rates *rates, int units)
{
	long long least = LLONG_MAX;
	double us = r->best;
	for (int i = 0; i < r->n; i++) {
		const int segments = r->launch[i] / 65536;
		const struct mixed m =
		    mixed_of(&r->m->part[PHASE_ALL], &r->m->shape, units, ROWS, segments, rates);
		long long ns = mixed_sum_ns(&m, r->launch[i] % 65536);
		ns += segments > 1 ? ns / CUT_GAIN : 0;
		if (ns < least)
			least = ns, us = r->us[i];
	}
	return us / r->best - 1 < most_loss ? us / r->best - 1 : most_loss;
}

static double loss_of(const struct search *s, const struct mixed_rates *rates)
{
	double sum = 0;
	int n = 0;
	for (int i = 0; i < s->n; i++) {
		if (s->fold >= 0 && (s->row[i].scenario % FOLDS == s->fold) != s->inside)
			continue;
		sum += loss_of_row(&s->row[i], rates, s->units);
		n++;
	}
	return n ? sum / n : 0;
}

static void descend(const struct search *s, struct mixed_rates *rates)
{
	*rates = mixed_by_hand;
	double best = loss_of(s, rates);
	for (int k = 0, moved = 1; k < ROUNDS && moved; k++) {
		moved = 0;
		for (size_t r = 0; r < sizeof *rates / sizeof(int); r++)
			for (size_t i = 0; i < COUNT(percents_tried); i++) {
				struct mixed_rates tried = *rates;
				int *v = (int *)&tried + r;
				*v = (int)max_of(1, *v * (long long)percents_tried[i] / 100);
				const double loss = loss_of(s, &tried);
				if (loss < best)
					best = loss, *rates = tried, moved = 1;
			}
	}
}

static int generalises(struct search *s)
{
	double fitted = 0, by_hand = 0;
	for (s->fold = 0; s->fold < FOLDS; s->fold++) {
		struct mixed_rates rates;
		s->inside = 0;
		descend(s, &rates);
		s->inside = 1;
		fitted += loss_of(s, &rates);
		by_hand += loss_of(s, &mixed_by_hand);
	}
	s->fold = -1;
	return fitted < (1 - must_gain) * by_hand && fitted < by_hand - FOLDS * least_gain;
}

/* Room for the rows of a scenario. 0 without memory. */
static int make_room(struct search *s, int *room, int more)
{
	if (s->row && s->n + more <= *room)
		return 1;
	*room = 2 * *room + more + 1;
	struct mixed_row *row = realloc(s->row, sizeof *row * (size_t)*room);
	s->row = row ? row : s->row;
	return row != NULL;
}

int mixed_fit(const struct data *d, struct mixed_rates *rates)
{
	struct search s = { .units = d->run.device.units, .fold = -1 };
	int room = 0, done = 1;
	*rates = (struct mixed_rates){ 0 };
	for (int i = 0; done && i < d->n; i++) {
		const int at = i * NUM_PHASES + PHASE_ALL;
		if (!data_is_training(&d->v[i]) || !measured_is_mixed(&d->v[i]))
			continue;
		done = make_room(&s, &room, d->row[at + 1] - d->row[at]);
		if (done)
			add_scenario(&s, d, i);
	}
	if (done && s.n >= LEAST_ROWS && generalises(&s))
		descend(&s, rates);
	free(s.row);
	return done;
}
