/* energy.c - joules of a call: whose power a reading is, and what the picks take to what is
 * least.
 *
 * An NVIDIA sensor averages over a second, a burst's race lasts a twentieth: what is read
 * after it is of whatever ran around it. A steady race runs unbroken until power holds still,
 * and its reading is of all who take turns in it; joules then differ as times do. Those who
 * are left at its end run alone for a while (protocol.hold_s), and have readings that nobody
 * shares. */
#include "../harness/json_out.h"
#include "data.h"
#include "early.h"
#include "eval.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double same_reading = 1e-9; /* shares: the same number, after joules and back */

/* ---- whose readings ------------------------------------------------------------------- */
struct reading {
	struct cell *cell;
	int scenario, phase;
	double watts;
};

static int is_one_race(const struct reading *a, const struct reading *b)
{
	return a->scenario == b->scenario && a->phase == b->phase && a->cell->race == b->cell->race;
}

static int by_race(const void *pa, const void *pb)
{
	const struct reading *a = pa, *b = pb;
	if (a->scenario != b->scenario)
		return a->scenario < b->scenario ? -1 : 1;
	if (a->phase != b->phase)
		return a->phase < b->phase ? -1 : 1;
	if (a->cell->race != b->cell->race)
		return a->cell->race < b->cell->race ? -1 : 1;
	return (a->watts > b->watts) - (a->watts < b->watts);
}

static int are_same(const struct reading *a, const struct reading *b)
{
	return fabs(a->watts - b->watts) < same_reading * a->watts;
}

/* v: of one race */
static enum power_of power_of(const struct reading *v, int i, int n)
{
	const int shared =
	    (i && are_same(&v[i - 1], &v[i])) || (i + 1 < n && are_same(&v[i], &v[i + 1]));
	return shared ? POWER_RACE : POWER_ALONE;
}

static void mark(struct data *d, const struct reading *v, int n)
{
	for (int i = 0, end; i < n; i = end) {
		for (end = i + 1; end < n && is_one_race(&v[i], &v[end]); end++)
			;
		for (int k = i; k < end; k++) {
			v[k].cell->power_of = power_of(&v[i], k - i, end - i);
			d->powered[v[k].cell->power_of]++;
		}
	}
}

/* v NULL: all are of what ran around a burst. */
static void read(struct data *d, struct reading *v, int *n, struct cell *c, int scenario, int phase)
{
	if (c->outcome != OUTCOME_OK || !(c->joules > 0))
		return;
	if (v) {
		v[(*n)++] = (struct reading){ c, scenario, phase, c->joules / c->median_us };
		return;
	}
	c->power_of = POWER_AROUND;
	d->powered[POWER_AROUND]++;
}

int energy_mark(struct data *d)
{
	const int steady = strstr(d->protocol, "-steady") != NULL;
	const size_t all = (size_t)(d->num_cells + d->num_plans + d->num_paced);
	struct reading *v = steady ? malloc(sizeof *v * (all + 1)) : NULL;
	int n = 0;
	if (steady && !v)
		return 0;
	for (int i = 0; i < d->num_cells; i++) {
		const int row = d->scaffold->place[i].row;
		read(d, v, &n, &d->cell[i], row / NUM_PHASES, row % NUM_PHASES);
	}
	for (int i = 0; i < d->num_plans; i++)
		read(d, v, &n, &d->plan[i].cell, d->plan[i].scenario, PHASE_PLAN);
	for (int i = 0; i < d->num_paced; i++)
		read(d, v, &n, &d->paced[i].cell, d->paced[i].scenario, (int)d->paced[i].phase);
	if (n)
		qsort(v, (size_t)n, sizeof *v, by_race);
	mark(d, v, n);
	free(v);
	return 1;
}

/* ---- what the picks take ---------------------------------------------------------------- */
struct rivals {
	const struct cell *fastest, *least;
};

static void meet(struct rivals *r, const struct cell *c)
{
	if (!c || c->power_of != POWER_ALONE)
		return;
	if (!r->fastest || c->median_us < r->fastest->median_us)
		r->fastest = c;
	if (!r->least || c->joules < r->least->joules)
		r->least = c;
}

static struct rivals rivals_of(const struct data *d, int s)
{
	const struct measured *m = &d->v[s];
	struct rivals r = { NULL, NULL };
	const enum phase part = m->has[PHASE_DECODE] ? PHASE_DECODE : PHASE_PREFILL;
	const int mixed = m->has[PHASE_PREFILL] && m->has[PHASE_DECODE];
	struct choice_iter i = choices_of(d, s, PHASE_ALL, mixed ? PHASE_ALL : part);
	while (choices_next(&i))
		for (int k = 0; k < 2; k++)
			meet(&r, cells_of_pass(d, &i.cells[k]));
	for (int p = d->plan_at[s]; p < d->plan_at[s + 1]; p++)
		meet(&r, &d->plan[p].cell);
	return r;
}

void energy_count(const struct data *d, int s, const struct cell *picked, struct energy *e)
{
	const struct rivals r =
	    picked && picked->power_of == POWER_ALONE ? rivals_of(d, s) : (struct rivals){ 0 };
	if (!r.least)
		return;
	e->n++;
	e->to_fastest += log(picked->joules / r.fastest->joules);
	e->to_least += log(picked->joules / r.least->joules);
	e->worst = fmax(e->worst, picked->joules / r.least->joules);
}

int count_energy(const struct data *d, const struct forest *f, struct energy out[2])
{
	struct pick *picks = calloc((size_t)d->n + 1, sizeof *picks);
	const int any = d->powered[POWER_ALONE] > 0;
	const int done = picks && (!any || policy_picks(d, POLICY_TREE, f, picks));
	out[0] = out[1] = (struct energy){ 0 };
	for (int s = 0; done && any && s < d->n; s++) {
		const int side = data_side(&d->v[s]);
		if (side >= 0)
			energy_count(d, s, data_pick_cell(d, s, &picks[s]), &out[side]);
	}
	for (int i = 0; i < 2; i++) {
		out[i].to_fastest = exp(out[i].to_fastest / (out[i].n ? out[i].n : 1));
		out[i].to_least = exp(out[i].to_least / (out[i].n ? out[i].n : 1));
	}
	free(picks);
	return done;
}

static const char *const names[2] = { "train", "heldout" };

void energy_json(struct json_out *o, const struct data *d, const struct energy v[2])
{
	out_object(o, "energy");
	out_integer(o, "around", d->powered[POWER_AROUND]);
	out_integer(o, "race", d->powered[POWER_RACE]);
	out_integer(o, "alone", d->powered[POWER_ALONE]);
	for (int i = 0; i < 2; i++) {
		out_object(o, names[i]);
		out_integer(o, "n", v[i].n);
		if (v[i].n) {
			out_number(o, "to_fastest", v[i].to_fastest, 5);
			out_number(o, "to_least", v[i].to_least, 5);
			out_number(o, "worst", v[i].worst, 5);
		}
		out_end(o);
	}
	out_end(o);
}

void energy_print(const struct data *d, const struct energy v[2])
{
	if (!v[0].n && !v[1].n && d->powered[POWER_RACE])
		puts("# energy: not judged: all of a race share one power reading, so joules "
		     "compare as times do");
	else if (!v[0].n && !v[1].n && d->powered[POWER_AROUND])
		puts("# energy: not judged: the power read around a burst is not that of one plan "
		     "(attune sweep --protocol steady reads that)");
	for (int i = 0; i < 2; i++)
		if (v[i].n)
			printf("# energy, %s: %d picks whose power was read alone; joules to the "
			       "fastest plan's %.4f, to the least %.4f (worst %.3f)\n",
			       names[i], v[i].n, v[i].to_fastest, v[i].to_least, v[i].worst);
}
