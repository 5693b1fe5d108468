/* SPDX-License-Identifier: Apache-2.0 */
/* ranking.c - `attune show` of one scenario: all measured plans, fastest first. */
#include "show.h"
#include "harness/base/base.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const pass_letters[NUM_PASSES] = { [PASS_A] = "A", [PASS_B] = "B" };

static enum pass pass_of(const struct data *d, const struct cells *c)
{
	return d->pass == PASS_B && c->of[PASS_B] ? PASS_B : PASS_A;
}

/* b NULL: one choice runs it. NULL without memory. */
static struct way *add(struct ways *w, const char *plan, const struct choice *a,
		       const struct choice *b, struct timed timed, const char *pass)
{
	char tunables[2][MAX_CHOICE_TEXT] = { "", "" };
	const char *bar = b ? " | " : "";
	if (!array_grow(&w->v, w->n, &w->room, sizeof *w->v))
		return NULL;
	struct way *way = &w->v[w->n++];
	*way = (struct way){ .plan = plan, .timed = timed, .cell = *timed.of[0], .ratio = NAN };
	config_text(tunables[0], MAX_CHOICE_TEXT, &a->config, a->kernel->space);
	if (b)
		config_text(tunables[1], MAX_CHOICE_TEXT, &b->config, b->kernel->space);
	snprintf(way->pass, sizeof way->pass, "%s", pass);
	snprintf(way->kernel, sizeof way->kernel, "%s%s%s", a->kernel->name, bar,
		 b ? b->kernel->name : "");
	snprintf(way->variant, sizeof way->variant, "%s%s%s", tunables[0], bar, tunables[1]);
	return way;
}

static int add_early(struct ways *w, const struct data *d, int scenario, enum phase phase)
{
	for (int k = 0; k < d->num_early; k++) {
		const struct early_launch *p = &d->early_launch[k];
		struct choice c = d->choice[p->choice];
		if (p->scenario != scenario || p->phase != phase || !p->value)
			continue;
		c.config.v[c.kernel->space->early_axis] = p->value;
		struct way *way =
		    add(w, "early launch", &c, NULL, (struct timed){ { &p->cell }, phase }, "E");
		if (!way)
			return 0;
		way->ratio = early_part_ratio(d, scenario, phase, p->choice, p->value);
	}
	return 1;
}

static int add_cells(struct ways *w, const struct data *d, int scenario, enum phase phase)
{
	struct choice_iter i = choices_of(d, scenario, phase, phase);
	int done = 1;
	while (done && choices_next(&i)) {
		const enum pass pass = pass_of(d, &i.cells[0]);
		const struct timed timed = { { i.cells[0].of[pass] }, phase };
		done = !timed.of[0] ||
		       add(w, "one launch", &d->choice[i.choice], NULL, timed, pass_letters[pass]);
	}
	return done && add_early(w, d, scenario, phase);
}

/* The sum of two cells that run one after the other. */
static struct cell sum_of(const struct cell *a, const struct cell *b)
{
	const double us = a->median_us + b->median_us;
	return (struct cell){
		.outcome = OUTCOME_OK,
		.median_us = us,
		.min_us = a->min_us + b->min_us,
		.ci_us = hypot(a->ci_us, b->ci_us),
		.gbps = (a->gbps * a->median_us + b->gbps * b->median_us) / us,
		.tflops = (a->tflops * a->median_us + b->tflops * b->median_us) / us,
		.joules = a->joules + b->joules,
		.power_of = a->power_of < b->power_of ? a->power_of : b->power_of,
	};
}

static int add_sum(struct ways *w, const struct data *d, int s, int prefill, int decode)
{
	const struct cells a = data_cells(d, s, PHASE_PREFILL, prefill);
	const struct cells b = data_cells(d, s, PHASE_DECODE, decode);
	const enum pass pass[2] = { pass_of(d, &a), pass_of(d, &b) };
	const struct timed timed = { { a.of[pass[0]], b.of[pass[1]] }, PHASE_PREFILL };
	if (!timed.of[0] || !timed.of[1] || timed.of[0]->outcome != OUTCOME_OK ||
	    timed.of[1]->outcome != OUTCOME_OK)
		return 1;
	struct way *way = add(w, "prefill, then decode: summed", &d->choice[prefill],
			      &d->choice[decode], timed, pass_letters[pass[0]]);
	if (!way)
		return 0;
	way->cell = sum_of(timed.of[0], timed.of[1]);
	if (pass[0] != pass[1])
		snprintf(way->pass, sizeof way->pass, "%s+%s", pass_letters[pass[0]],
			 pass_letters[pass[1]]);
	return 1;
}

static int add_plans(struct ways *w, const struct data *d, int s)
{
	int done = 1;
	for (int i = d->plan_at[s]; done && i < d->plan_at[s + 1]; i++) {
		const struct composed *p = &d->plan[i];
		const struct timed timed = { { &p->cell }, PHASE_ALL };
		done = add(w,
			   p->how == ATTUNE_STREAMS ? "prefill and decode overlapped"
						    : "prefill, then decode",
			   &d->choice[p->prefill], &d->choice[p->decode], timed,
			   pass_letters[p->pass]) != NULL;
	}
	return done;
}

/* Adds each prefill choice with the fastest decode choice, and vice versa. */
static int add_sums(struct ways *w, const struct data *d, int s)
{
	int prefill, decode, done = 1;
	data_best(d, s, PHASE_PREFILL, &prefill);
	data_best(d, s, PHASE_DECODE, &decode);
	for (int c = 0; done && prefill >= 0 && decode >= 0 && c < d->num_choices; c++)
		done = add_sum(w, d, s, c, decode) && (c == decode || add_sum(w, d, s, prefill, c));
	return done;
}

/* ---- ratios to the pick --------------------------------------------------------------------- */
static const struct cell *cell_in(const struct data *d, enum pass pass, int s, enum phase phase,
				  int choice)
{
	return choice < 0 ? NULL : data_cell_in(d, pass, s, phase, choice);
}

static enum phase own_phase(const struct measured *m)
{
	return m->has[PHASE_DECODE] ? PHASE_DECODE : PHASE_PREFILL;
}

/* The pick's cells in a pass. */
static struct timed pick_in(const struct data *d, enum pass pass, int s, const struct pick *p)
{
	const struct measured *m = &d->v[s];
	struct timed t = { { NULL }, own_phase(m) };
	if (!measured_is_mixed(m)) {
		const int choice = t.phase == PHASE_DECODE ? p->decode : p->prefill;
		t.of[0] = cell_in(d, pass, s, t.phase, choice);
		if (t.of[0])
			return t;
		return (struct timed){ { cell_in(d, pass, s, PHASE_ALL, choice) }, PHASE_ALL };
	}
	if (!p->join)
		return (struct timed){ { cell_in(d, pass, s, PHASE_ALL, p->prefill) }, PHASE_ALL };
	t = (struct timed){ { data_plan_cell(d, pass, s, p) }, PHASE_ALL };
	if (t.of[0] || p->how != ATTUNE_SERIAL)
		return t;
	t = (struct timed){ { cell_in(d, pass, s, PHASE_PREFILL, p->prefill),
			      cell_in(d, pass, s, PHASE_DECODE, p->decode) },
			    PHASE_PREFILL };
	return t.of[0] && t.of[1] ? t : (struct timed){ { NULL }, PHASE_PREFILL };
}

/* Sets the ratio of a way to the pick. A sum is compared part by part. */
static void compare(const struct data *d, struct way *way, const struct timed *pick)
{
	double us = 0, own = 0;
	if (!pick->of[0] || pick->of[0]->outcome != OUTCOME_OK)
		return;
	const struct timed *t = &way->timed;
	const int alike = t->phase == pick->phase && !t->of[1] == !pick->of[1];
	for (int i = 0; i < 2 && pick->of[i]; i++) {
		const double ratio = alike ? cells_ratio(t->of[i], pick->of[i]) : NAN;
		own += pick->of[i]->median_us;
		us += ratio * pick->of[i]->median_us;
	}
	way->ratio = us / own;
	way->word = ratio_words(d, way->ratio, own);
}

static int is_same(const struct way *way, const struct timed *pick)
{
	return pick->of[0] == way->timed.of[0] && pick->of[1] == way->timed.of[1];
}

static void compare_all(const struct data *d, struct ways *w, const struct timed pick[NUM_PASSES])
{
	for (int i = 0; i < w->n; i++) {
		struct way *way = &w->v[i];
		const enum pass pass = *way->pass == 'B' ? PASS_B : PASS_A;
		if (*way->pass == 'E' || way->pass[1] || way->cell.outcome != OUTCOME_OK)
			continue;
		if (is_same(way, &pick[pass]))
			way->word = "pick", way->ratio = 1;
		else
			compare(d, way, &pick[pass]);
	}
}

/* Adds the pick's first-pass row if it has a second-pass row. */
static int add_first(struct ways *w, const struct timed pick[NUM_PASSES])
{
	const struct timed *first = &pick[PASS_A];
	int i = 0;
	while (i < w->n && !is_same(&w->v[i], &pick[PASS_B]))
		i++;
	if (!first->of[0] || i == w->n)
		return 1;
	if (!array_grow(&w->v, w->n, &w->room, sizeof *w->v))
		return 0;
	struct way *way = &w->v[w->n++];
	*way = w->v[i];
	way->timed = *first;
	way->cell = first->of[1] ? sum_of(first->of[0], first->of[1]) : *first->of[0];
	strcpy(way->pass, "A");
	return 1;
}

static int compare_to_pick(const struct data *d, const struct forest *f, struct ways *w, int s,
			   int first_too)
{
	struct timed timed[NUM_PASSES];
	struct pick pick;
	forest_pick(d, f, s, &pick);
	for (int p = 0; p < NUM_PASSES; p++)
		timed[p] = pick_in(d, (enum pass)p, s, &pick);
	if (first_too && !add_first(w, timed))
		return 0;
	compare_all(d, w, timed);
	return 1;
}

/* ---- in order ------------------------------------------------------------------------------- */
static int by_time(const void *pa, const void *pb)
{
	const struct way *a = pa, *b = pb;
	if ((a->cell.outcome == OUTCOME_OK) != (b->cell.outcome == OUTCOME_OK))
		return a->cell.outcome == OUTCOME_OK ? -1 : 1;
	if (a->cell.outcome == OUTCOME_OK && a->cell.median_us != b->cell.median_us)
		return a->cell.median_us < b->cell.median_us ? -1 : 1;
	const int kernel = strcmp(a->kernel, b->kernel);
	return kernel ? kernel : strverscmp(a->variant, b->variant);
}

static const char *const power_words[] = {
	[POWER_AROUND] = "around", [POWER_RACE] = "race", [POWER_ALONE] = "alone"
};

static int collect(struct ways *w, const struct data *d, int s)
{
	if (!add_cells(w, d, s, PHASE_ALL))
		return 0;
	if (measured_is_mixed(&d->v[s]))
		return add_plans(w, d, s) && add_sums(w, d, s);
	return add_cells(w, d, s, own_phase(&d->v[s]));
}

int ways_of(struct ways *w, const struct data *d, const struct forest *f, int s, int first_too)
{
	*w = (struct ways){ 0 };
	const int done = collect(w, d, s) && (!f || compare_to_pick(d, f, w, s, first_too));
	if (!done)
		complain("out of memory");
	else if (w->n)
		qsort(w->v, (size_t)w->n, sizeof *w->v, by_time);
	return done;
}

int show_ways(const struct data *d, const struct forest *f, int s, enum format format)
{
	static const char *const columns[] = { "plan",      "kernel",  "variant",  "outcome",
					       "median_us", "min_us",  "ci_us",    "gbps",
					       "tflops",    "power_w", "power_of", "mj",
					       "pass",      "ratio",   "vs_pick" };
	struct ways w;
	const int done = ways_of(&w, d, f, s, 0);
	struct table *t = done ? table_new(format, columns, COUNT(columns)) : NULL;
	for (int i = 0; t && i < w.n; i++) {
		const struct way *way = &w.v[i];
		const struct cell *c = &way->cell;
		table_add(t, "%s %s %s %s %.3f %.3f %.3f %.1f %.3f %.1f", way->plan, way->kernel,
			  way->variant, outcome_name(c->outcome), c->median_us, c->min_us, c->ci_us,
			  c->gbps, c->tflops, 1e6 * c->joules / c->median_us);
		table_add(t, "%s %.4f %s %.4f %s\n",
			  c->outcome == OUTCOME_OK ? power_words[c->power_of] : NULL,
			  c->power_of > POWER_AROUND ? 1e3 * c->joules : NAN, way->pass, way->ratio,
			  way->word);
	}
	if (t)
		table_print(t, stdout);
	free(w.v);
	return t != NULL;
}
