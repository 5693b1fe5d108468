/* SPDX-License-Identifier: Apache-2.0 */
/* lost.c - the scenarios on which a header loses most, and why: `attune eval --above`. */
#include "eval.h"
#include "harness/base/base.h"
#include "harness/scenario/scenario.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/policy/policy.h"
#include "tuner/policy/settled.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 8192 };

struct lost {
	int scenario;
	double first, settled; /* slowdowns; INFINITY: no time */
};

struct settled *settle_all(const struct data *d, const struct forest *f)
{
	struct settled *v = calloc((size_t)d->n + 1, sizeof *v);
	for (int s = 0; v && s < d->n; s++)
		settle(d, f, s, &v[s]);
	return v;
}

/* ---- words ------------------------------------------------------------------------------ */
static void append(char text[WORDS], const char *format, ...) __attribute__((format(printf, 2, 3)));

static void append(char text[WORDS], const char *format, ...)
{
	const size_t n = strlen(text);
	va_list ap;
	va_start(ap, format);
	vsnprintf(text + n, WORDS - n, format, ap);
	va_end(ap);
}

static void append_ratio(char text[WORDS], double ratio)
{
	if (isfinite(ratio))
		append(text, " %.3f", ratio);
	else
		append(text, " no time");
}

static double ratio_of(const struct data *d, int s, const struct decided *plan)
{
	struct pick p;
	decided_pick(d, plan, &p);
	return data_plan_time(d, s, &p) / data_oracle(d, s);
}

static void plan_words(char text[WORDS], const struct decided *plan)
{
	char part[2][MAX_CHOICE_TEXT] = { "", "" };
	if (plan->prefill.kernel)
		choice_words(&plan->prefill, part[0]);
	if (plan->decode.kernel && plan->join)
		choice_words(&plan->decode, part[1]);
	const char *between = !*part[0] || !*part[1]        ? ""
			      : plan->how == ATTUNE_STREAMS ? " || "
							    : " | ";
	append(text, "%s%s%s", part[0], between, part[1]);
}

/* How a plan of a mixed batch runs its parts. */
static void way_words(char text[WORDS], const struct decided *plan)
{
	const int spares = plan->how == ATTUNE_STREAMS ? choice_spares(&plan->prefill) : 0;
	if (!plan->join)
		append(text, "one launch of %s", plan->prefill.kernel->name);
	else if (plan->how == ATTUNE_SERIAL)
		append(text, "in turn");
	else if (spares)
		append(text, "two streams, %d units left", spares);
	else
		append(text, "two streams");
}

/* ---- the members -------------------------------------------------------------------------- */
static void append_part(char text[WORDS], const struct data *d, const struct forest *f, int s,
			enum decision decision)
{
	const enum phase phase = decision_phase(decision);
	struct choice member[MOST_MEMBERS];
	const int n = row_members(d, f, decision, &d->v[s], member);
	int any;
	append(text, "%s:", phase_name((int)phase));
	for (int i = 0; i < n; i++) {
		char words[MAX_CHOICE_TEXT];
		const int choice = data_find(d, &member[i]);
		const double us = choice < 0 ? INFINITY : data_part_time(d, s, phase, choice);
		choice_words(&member[i], words);
		append(text, "%s %s", i ? "," : "", words);
		append_ratio(text, us / data_best(d, s, phase, &any));
	}
	append(text, "; ");
}

/* The members of the rows with their times over the fastest of all, and what settled. */
static void members_words(char text[WORDS], const struct data *d, const struct forest *f, int s,
			  const struct settled *settled)
{
	const struct measured *m = &d->v[s];
	struct decided plan[MOST_SETTLED];
	const int n = settle_plans(d, f, s, plan);
	int untimed = 0;
	for (int p = DECIDE_PREFILL; p <= DECIDE_DECODE; p++)
		if (m->has[decision_phase((enum decision)p)])
			append_part(text, d, f, s, (enum decision)p);
	for (int i = 0; measured_is_mixed(m) && i < n; i++) {
		const int has_times = settle_has_times(d, s, &plan[i]);
		untimed += !has_times;
		if (i && !has_times)
			continue;
		append(text, i ? ", " : "as picked ");
		way_words(text, &plan[i]);
		append_ratio(text, ratio_of(d, s, &plan[i]));
	}
	if (measured_is_mixed(m))
		append(text, ", %d ways lack a time; ", untimed);
	append(text, "settled: ");
	if (settled->is_raced)
		plan_words(text, &settled->plan);
	else
		append(text, "the pick stays, which lacks a time of one pass");
}

/* ---- why ---------------------------------------------------------------------------------- */
/* The least time of the choices that differ from it only in the number of segments. */
static double best_of_family(const struct data *d, int s, enum phase phase, int choice)
{
	double best = data_part_time(d, s, phase, choice);
	const struct family *f = d->family_of[choice] < 0 ? NULL : &d->family[d->family_of[choice]];
	for (int i = 0; f && i < f->num_members; i++)
		if (f->member[i] >= 0)
			best = fmin(best, data_part_time(d, s, phase, f->member[i]));
	return best;
}

struct loss {
	const char *why;
	double us;
};

/* What the choice for a part loses, and its number of segments; the sum. */
static double lose_part(const struct data *d, int s, enum phase phase, const struct choice *c,
			struct loss loss[2])
{
	static const char *const words[2][2] = {
		{ "the prefills' choice", "the prefills' segments" },
		{ "the decodes' choice", "the decodes' segments" }
	};
	const int choice = c->kernel ? data_find(d, c) : -1;
	const double us = choice < 0 ? INFINITY : data_part_time(d, s, phase, choice);
	int any;
	const double best = data_best(d, s, phase, &any);
	for (int i = 0; i < 2; i++)
		loss[i] = (struct loss){ words[phase == PHASE_DECODE][i], 0 };
	if (!isfinite(us) || !isfinite(best))
		return 0;
	const double others = fmax(best, best_of_family(d, s, phase, choice));
	loss[0].us = others - best;
	loss[1].us = us - others;
	return us - best;
}

const char *lost_by(const struct data *d, const struct forest *f, int s, const struct decided *plan)
{
	const struct measured *m = &d->v[s];
	const double us = ratio_of(d, s, plan) * data_oracle(d, s);
	struct loss loss[5] = { { "the overlap", us - data_oracle(d, s) } };
	struct decided serial = *plan;
	int most = measured_is_mixed(m) ? 0 : 1, n = 1;
	if (!isfinite(us))
		return "no time";
	if (!plan->join) /* the parts that one launch stands for */
		forest_make_serial(d, f, m, &serial);
	for (enum phase p = PHASE_PREFILL; p <= PHASE_DECODE; p++)
		if (m->has[p]) {
			loss[0].us -= lose_part(
			    d, s, p, p == PHASE_PREFILL ? &serial.prefill : &serial.decode,
			    &loss[n]);
			n += 2;
		}
	for (int i = most; i < n; i++)
		if (loss[i].us > loss[most].us)
			most = i;
	return loss[most].why;
}

/* ---- which scenarios ------------------------------------------------------------------- */
static int by_loss(const void *pa, const void *pb)
{
	const struct lost *a = pa, *b = pb;
	if (a->first != b->first)
		return a->first < b->first ? 1 : -1;
	return a->scenario - b->scenario;
}

/* The caller frees it; NULL without memory. */
static struct lost *find(const struct data *d, const struct forest *f,
			 const struct settled *settled, const struct lost_asked *o, int *n)
{
	struct lost *v = malloc(sizeof *v * ((size_t)d->n + 1));
	*n = 0;
	for (int s = 0; v && s < d->n; s++) {
		const struct measured *m = &d->v[s];
		const double best = data_oracle(d, s);
		struct pick first;
		if (!in_split(m, o->split) || (!o->split && split_is_gate(m->split)) ||
		    !isfinite(best))
			continue;
		forest_pick(d, f, s, &first);
		struct lost one = { s, data_plan_time(d, s, &first) / best,
				    data_plan_time(d, s, &settled[s].pick) / best };
		if (o->is_settled ? one.settled > o->above && isfinite(one.settled)
				  : one.first > o->above)
			v[(*n)++] = one;
	}
	if (v)
		qsort(v, (size_t)*n, sizeof *v, by_loss);
	return v;
}

static const char *kind_of(const struct measured *m)
{
	return measured_is_mixed(m) ? "mixed" : m->has[PHASE_DECODE] ? "decode" : "prefill";
}

/* ---- output ------------------------------------------------------------------------------ */
static void add_lost(struct table *t, const struct data *d, const struct forest *f,
		     const struct settled *settled, const struct lost *l)
{
	const struct measured *m = &d->v[l->scenario];
	const double best = data_oracle(d, l->scenario);
	const struct decided fastest = data_fastest_plan(d, l->scenario);
	char picked[WORDS] = "", fast[WORDS] = "", members[WORDS] = "";
	struct decided first;
	forest_make(d, f, m, &first);
	plan_words(picked, &first);
	plan_words(fast, &fastest);
	members_words(members, d, f, l->scenario, &settled[l->scenario]);
	table_add(t, "%s %s %s %s %d", m->split, kind_of(m), m->set, m->model, m->shape.page_size);
	table_add(t, "%.4f %.4f", l->first, l->settled);
	table_text(t, lost_by(d, f, l->scenario, &first));
	table_add(t, "%.3f %.3f", l->first * best, best);
	table_text(t, picked);
	table_text(t, fast);
	table_text(t, members);
	table_text(t, m->batch_text);
	table_end_row(t);
}

/* How many there are of each cause. */
static void note_causes(const struct data *d, const struct forest *f, const struct lost *v, int n)
{
	const char *cause[8];
	int count[COUNT(cause)], causes = 0;
	for (int i = 0; i < n; i++) {
		struct decided first;
		int k = 0;
		forest_make(d, f, &d->v[v[i].scenario], &first);
		const char *because = lost_by(d, f, v[i].scenario, &first);
		while (k < causes && strcmp(cause[k], because))
			k++;
		if (k == causes)
			cause[causes] = because, count[causes++] = 0;
		count[k]++;
	}
	printf("# %d scenarios", n);
	for (int k = 0; k < causes; k++)
		printf("%s %s %d", k ? "," : ":", cause[k], count[k]);
	puts("");
}

struct table *lost_table(const struct data *d, const struct forest *f,
			 const struct settled *settled, const struct lost_asked *o,
			 enum format format)
{
	static const char *const columns[] = { "split",  "kind",    "set",     "model", "page",
					       "ratio",  "settled", "why",     "us",    "best_us",
					       "picked", "fastest", "members", "batch" };
	int n;
	struct lost *v = find(d, f, settled, o, &n);
	struct table *t = v ? table_new(format, columns, (int)COUNT(columns)) : NULL;
	if (t && format_has_notes(format))
		note_causes(d, f, v, n);
	for (int i = 0; t && i < n; i++)
		add_lost(t, d, f, settled, &v[i]);
	free(v);
	return t;
}
