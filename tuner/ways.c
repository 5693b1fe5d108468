/* ways.c - `attune show` of one scenario: all ways that it was measured, fastest first. */
#include "early.h"
#include "show.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct way {
	const char *plan;
	char kernel[64], variant[2 * MAX_CHOICE_TEXT];
	struct cell cell;
};

struct ways {
	struct way *v;
	int n, room;
};

static struct way *new_way(struct ways *w)
{
	if (w->n == w->room) {
		const int room = 2 * w->room + 64;
		struct way *v = realloc(w->v, sizeof *v * (size_t)room);
		if (!v)
			return NULL;
		w->v = v;
		w->room = room;
	}
	return &w->v[w->n++];
}

static int add_one(struct ways *w, const char *plan, const struct choice *c,
		   const struct cell *cell)
{
	struct way *way = new_way(w);
	if (!way)
		return 0;
	way->plan = plan;
	snprintf(way->kernel, sizeof way->kernel, "%s", c->kernel->name);
	config_text(way->variant, sizeof way->variant, &c->config, c->kernel->space);
	way->cell = *cell;
	return 1;
}

static int add_two(struct ways *w, const char *plan, const struct choice *a, const struct choice *b,
		   const struct cell *cell)
{
	char tunables[2][MAX_CHOICE_TEXT];
	struct way *way = new_way(w);
	if (!way)
		return 0;
	config_text(tunables[0], MAX_CHOICE_TEXT, &a->config, a->kernel->space);
	config_text(tunables[1], MAX_CHOICE_TEXT, &b->config, b->kernel->space);
	way->plan = plan;
	snprintf(way->kernel, sizeof way->kernel, "%s | %s", a->kernel->name, b->kernel->name);
	snprintf(way->variant, sizeof way->variant, "%.*s | %.*s", MAX_CHOICE_TEXT - 2, tunables[0],
		 MAX_CHOICE_TEXT - 2, tunables[1]);
	way->cell = *cell;
	return 1;
}

static int add_cells(struct ways *w, const struct data *d, int scenario, enum phase phase,
		     const char *plan)
{
	int done = 1;
	for (int c = 0; done && c < d->num_choices; c++) {
		const struct cell *cell = data_cell(d, scenario, phase, c);
		done = !cell || add_one(w, plan, &d->choice[c], cell);
	}
	for (int i = 0; done && i < d->num_paced; i++) {
		const struct paced *p = &d->paced[i];
		struct choice c = d->choice[p->choice];
		if (p->scenario != scenario || p->phase != phase || !p->value)
			continue;
		c.config.v[c.kernel->space->early_axis] = p->value;
		done = add_one(w, "early launch", &c, &p->cell);
	}
	return done;
}

/* Two cells, one after the other. */
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
	const struct cell *a = data_cell(d, s, PHASE_PREFILL, prefill);
	const struct cell *b = data_cell(d, s, PHASE_DECODE, decode);
	if (!a || !b || a->outcome != OUTCOME_OK || b->outcome != OUTCOME_OK)
		return 1;
	const struct cell sum = sum_of(a, b);
	return add_two(w, "prefill, then decode: summed", &d->choice[prefill], &d->choice[decode],
		       &sum);
}

static int add_composed(struct ways *w, const struct data *d, int s)
{
	int prefill, decode, done = 1;
	for (int i = 0; done && i < d->num_plans; i++) {
		const struct composed *p = &d->plan[i];
		if (p->scenario == s)
			done = add_two(w,
				       p->how == ATTUNE_STREAMS ? "prefill beside decode"
								: "prefill, then decode",
				       &d->choice[p->prefill], &d->choice[p->decode], &p->cell);
	}
	data_best(d, s, PHASE_PREFILL, &prefill);
	data_best(d, s, PHASE_DECODE, &decode);
	for (int c = 0; done && prefill >= 0 && decode >= 0 && c < d->num_choices; c++)
		done = add_sum(w, d, s, c, decode) && (c == decode || add_sum(w, d, s, prefill, c));
	return done;
}

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

static void print_ways(const struct ways *w, enum format format)
{
	const char *columns[] = { "plan",  "kernel", "variant", "outcome", "median_us", "min_us",
				  "ci_us", "gbps",   "tflops",  "power_w", "power_of",  "mj" };
	struct table *t = table_new(format, columns, (int)COUNT(columns));
	for (int i = 0; t && i < w->n; i++) {
		const struct way *way = &w->v[i];
		const struct cell *c = &way->cell;
		const int ok = c->outcome == OUTCOME_OK;
		table_text(t, way->plan);
		table_text(t, way->kernel);
		table_text(t, way->variant);
		table_text(t, outcome_name(c->outcome));
		table_number(t, ok ? c->median_us : NAN, 3);
		table_number(t, ok ? c->min_us : NAN, 3);
		table_number(t, ok ? c->ci_us : NAN, 3);
		table_number(t, ok ? c->gbps : NAN, 1);
		table_number(t, ok ? c->tflops : NAN, 3);
		table_number(t, ok ? 1e6 * c->joules / c->median_us : NAN, 1);
		table_text(t, ok ? power_words[c->power_of] : NULL);
		table_number(t, c->power_of > POWER_AROUND ? 1e3 * c->joules : NAN, 4);
		table_end_row(t);
	}
	if (t)
		table_print(t, stdout);
}

int show_ways(const struct data *d, const struct show *o, int s)
{
	const struct measured *m = &d->v[s];
	struct ways w = { 0 };
	int done;
	if (o->phase != PHASE_ALL && !m->has[o->phase]) {
		complain("batch %s has no %s part", o->batch, phase_name(o->phase));
		return 0;
	}
	const int mixed = m->has[PHASE_PREFILL] && m->has[PHASE_DECODE];
	const enum phase only = o->phase != PHASE_ALL  ? o->phase
				: m->has[PHASE_DECODE] ? PHASE_DECODE
						       : PHASE_PREFILL;
	if (o->phase != PHASE_ALL && mixed)
		done = add_cells(&w, d, s, only,
				 only == PHASE_DECODE ? "decode part" : "prefill part");
	else
		done = add_cells(&w, d, s, PHASE_ALL, "one launch") &&
		       (mixed ? add_composed(&w, d, s) : add_cells(&w, d, s, only, "one launch"));
	if (done && w.n)
		qsort(w.v, (size_t)w.n, sizeof *w.v, by_time);
	if (done)
		print_ways(&w, o->format);
	free(w.v);
	return done;
}
