/* SPDX-License-Identifier: Apache-2.0 */
/* requests.c - lists cells and plans to measure, each once, and measures them. */
#include "requests.h"
#include "harness/base/base.h"
#include "harness/scenario/scenario.h"
#include "harness/sweep/sweep.h"
#include "harness/worker/worker.h"
#include "tuner/data/data.h"
#include "tuner/data/filling.h"
#include "tuner/policy/policy.h"
#include <math.h>
#include <stdlib.h>

void wishes_free(struct wishes *w)
{
	free(w->batches.v);
	free(w->at);
	free(w->v);
	*w = (struct wishes){ 0 };
}

void wish_batch(struct wishes *w, const struct scenario *batch, int at)
{
	if (array_grow(&w->at, w->batches.n, &w->at_room, sizeof *w->at) &&
	    scenarios_append(&w->batches, batch))
		w->at[w->batches.n - 1] = at;
	else
		w->failed = 1;
}

void wish_scenario(struct wishes *w, const struct data *d, int s)
{
	struct scenario again;
	scenario_again(&again, &d->v[s]);
	wish_batch(w, &again, s);
}

static int has_kernels(const struct contender *w)
{
	return w->is_library || (w->choice.kernel && (!w->is_plan || w->decode.kernel));
}

int wishes_differ(const struct contender *a, const struct contender *b)
{
	return has_kernels(a) && has_kernels(b) && !contender_same(a, b);
}

void wish(struct wishes *w, struct contender one)
{
	one.policy = w->policy;
	one.scenario = w->batches.n - 1;
	if (!has_kernels(&one))
		return;
	for (int i = w->n - 1; i >= 0 && w->v[i].scenario == one.scenario; i--)
		if (w->v[i].policy == one.policy && contender_same(&w->v[i], &one))
			return;
	if (array_grow(&w->v, w->n, &w->room, sizeof *w->v))
		w->v[w->n++] = one;
	else
		w->failed = 1;
}

struct contender part_wish(enum phase phase, const struct choice *c)
{
	return (struct contender){ .phase = phase, .choice = *c };
}

struct contender plan_wish(const struct choice *prefill, const struct choice *decode,
			   enum attune_how how)
{
	return (
	    struct contender){ .is_plan = 1, .choice = *prefill, .decode = *decode, .how = how };
}

struct contender library_wish(int bounds)
{
	return (struct contender){ .is_library = 1, .bounds = bounds };
}

struct contender made_wish(const struct measured *m, const struct decided *made)
{
	if (!m->has[PHASE_PREFILL])
		return part_wish(PHASE_DECODE, &made->decode);
	if (!m->has[PHASE_DECODE])
		return part_wish(PHASE_PREFILL, &made->prefill);
	return made->join ? plan_wish(&made->prefill, &made->decode, made->how)
			  : part_wish(PHASE_ALL, &made->prefill);
}

/* ---- what is worth it --------------------------------------------------------------------- */
int fastest_choices(const struct data *d, int s, enum phase phase, enum phase or_phase, int *best,
		    int most)
{
	double us[MOST_FASTEST];
	int n = 0;
	struct choice_iter i = choices_of(d, s, phase, or_phase);
	while (choices_next(&i)) {
		const double t = cells_part_time(d, s, i.cells);
		int at = n < most ? n : most - 1;
		if (!isfinite(t) || (n == most && t >= us[most - 1]) ||
		    !data_legal(d, s, phase, i.choice))
			continue;
		for (; at && us[at - 1] > t; at--)
			us[at] = us[at - 1], best[at] = best[at - 1];
		us[at] = t;
		best[at] = i.choice;
		n += n < most;
	}
	return n;
}

/* ---- pass B ------------------------------------------------------------------------------- */
const struct cell *wish_cell(const struct data *d, enum pass pass, int s, const struct contender *w)
{
	const struct pick p = { data_find(d, &w->choice),
				w->is_plan ? data_find(d, &w->decode) : -1, 1, w->how };
	if (p.prefill < 0 || (w->is_plan && p.decode < 0))
		return NULL;
	return w->is_plan ? data_plan_cell(d, pass, s, &p)
			  : data_cell_in(d, pass, s, w->phase, p.prefill);
}

int wishes_renew(struct wishes *w, const struct data *d, int *batches)
{
	int asked = 0;
	*batches = 0;
	for (int i = 0, end; i < w->n; i = end) {
		const int s = w->at[w->v[i].scenario];
		int missing = 0;
		for (end = i; end < w->n && w->v[end].scenario == w->v[i].scenario; end++)
			missing += s < 0 || !wish_cell(d, PASS_B, s, &w->v[end]);
		for (int k = i; missing && k < end; k++)
			w->v[k].again = 1;
		asked += missing ? end - i : 0;
		*batches += missing > 0;
	}
	return asked;
}

/* ---- measuring ---------------------------------------------------------------------------- */
struct asked {
	const struct wishes *w;
	const char *stage;
};

static int measure_part(const struct sweep_options *o, const struct hello *hello, void *arg)
{
	const struct asked *a = arg;
	return sweep_wishes(o, hello, &a->w->batches, a->w->v, a->w->n, a->stage);
}

int wishes_measure(const struct wishes *w, const struct sweep_options *o, const char *stage)
{
	struct asked a = { .w = w, .stage = stage };
	struct hello hello;
	catch_signals();
	const int code = sweep_device(o, &hello);
	return code ? code : on_each_device(o, &hello, measure_part, &a);
}
