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
#include "eval.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double same_reading = 1e-9; /* shares: the same number, after joules and back */

/* ---- whose readings ------------------------------------------------------------------- */
struct reading {
	struct raw *raw;
	double watts;
};

static int is_one_race(const struct raw *a, const struct raw *b)
{
	return a->scenario == b->scenario && a->phase == b->phase && a->cell.race == b->cell.race;
}

static int by_race(const void *pa, const void *pb)
{
	const struct reading *a = pa, *b = pb;
	const struct raw *x = a->raw, *y = b->raw;
	if (x->scenario != y->scenario)
		return x->scenario < y->scenario ? -1 : 1;
	if (x->phase != y->phase)
		return x->phase < y->phase ? -1 : 1;
	if (x->cell.race != y->cell.race)
		return x->cell.race < y->cell.race ? -1 : 1;
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
	const int steady = strstr(d->protocol, "-steady") != NULL;
	for (int i = 0, end; i < n; i = end) {
		for (end = i + 1; end < n && is_one_race(v[i].raw, v[end].raw); end++)
			;
		for (int k = i; k < end; k++) {
			struct cell *c = &v[k].raw->cell;
			c->power_of = steady ? power_of(&v[i], k - i, end - i) : POWER_AROUND;
			d->powered[c->power_of]++;
		}
	}
}

int energy_mark(struct data *d)
{
	struct reading *v = malloc(sizeof *v * (size_t)(d->num_raw + 1));
	int n = 0;
	for (int i = 0; v && i < d->num_raw; i++) {
		struct raw *r = &d->raw[i];
		if (r->cell.outcome == OUTCOME_OK && r->cell.joules > 0)
			v[n++] = (struct reading){ r, r->cell.joules / r->cell.median_us };
	}
	if (n)
		qsort(v, (size_t)n, sizeof *v, by_race);
	if (v)
		mark(d, v, n);
	free(v);
	return v != NULL;
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
	for (int c = 0; c < d->num_choices; c++) {
		meet(&r, data_cell(d, s, PHASE_ALL, c));
		if (!m->has[PHASE_PREFILL] || !m->has[PHASE_DECODE])
			meet(&r, data_cell(d, s,
					   m->has[PHASE_DECODE] ? PHASE_DECODE : PHASE_PREFILL, c));
	}
	for (int i = 0; i < d->num_plans; i++)
		if (d->plan[i].scenario == s)
			meet(&r, &d->plan[i].cell);
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
	for (int s = 0; done && any && s < d->n; s++)
		energy_count(d, s, data_pick_cell(d, s, &picks[s]),
			     &out[!data_is_training(&d->v[s])]);
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
