/* energy.c - joules of the picks over those of the fastest and of the most frugal plan. Only power
 * readings of a single plan count (power_source.c). */
#include "eval.h"
#include "harness/base/json_out.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/policy/policy.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- joules ----------------------------------------------------------------------------- */
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
		puts("# energy: not evaluated: all contenders of a race share one power reading, "
		     "so joules rank as times do");
	else if (!v[0].n && !v[1].n && d->powered[POWER_AROUND])
		puts("# energy: not evaluated: power read around a burst is not the power of one "
		     "plan (attune sweep --protocol steady reads that)");
	for (int i = 0; i < 2; i++)
		if (v[i].n)
			printf("# energy, %s: %d picks with their own power reading: joules %.4f x "
			       "the fastest plan's, %.4f x the least (worst %.3f)\n",
			       names[i], v[i].n, v[i].to_fastest, v[i].to_least, v[i].worst);
}
