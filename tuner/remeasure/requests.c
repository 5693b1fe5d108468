/* requests.c - lists cells and plans to measure, each once, and measures them. */
#include "requests.h"
#include "harness/base/base.h"
#include "harness/scenario/scenario.h"
#include "harness/search/search.h"
#include "harness/sweep/sweep.h"
#include "harness/worker/worker.h"
#include "tuner/data/data.h"
#include "tuner/data/filling.h"
#include <string.h>

static void wish(struct wishes *w, struct contender one)
{
	one.policy = w->policy;
	if (!one.is_library && (!one.choice.kernel || (one.is_plan && !one.decode.kernel)))
		return;
	for (int i = w->n - 1; i >= 0 && w->v[i].scenario == one.scenario; i--)
		if (w->v[i].policy == one.policy && contender_same(&w->v[i], &one))
			return;
	if (array_grow(&w->v, w->n, &w->room, sizeof *w->v))
		w->v[w->n++] = one;
	else
		w->failed = 1;
}

void wish_part(struct wishes *w, int scenario, enum phase phase, const struct choice *c)
{
	wish(w, (struct contender){ .scenario = scenario, .phase = phase, .choice = *c });
}

void wish_plan(struct wishes *w, int scenario, const struct choice *prefill,
	       const struct choice *decode, enum attune_how how)
{
	wish(w, (struct contender){ .scenario = scenario,
				    .is_plan = 1,
				    .choice = *prefill,
				    .decode = *decode,
				    .how = how });
}

void wish_library(struct wishes *w, int scenario, int bounds)
{
	wish(w, (struct contender){ .scenario = scenario, .is_library = 1, .bounds = bounds });
}

void wish_again(struct wishes *w, const struct contender *one)
{
	wish(w, *one);
}

void wish_made(struct wishes *w, int scenario, const struct measured *m, const struct decided *made)
{
	if (!m->has[PHASE_PREFILL])
		wish_part(w, scenario, PHASE_DECODE, &made->decode);
	else if (!m->has[PHASE_DECODE])
		wish_part(w, scenario, PHASE_PREFILL, &made->prefill);
	else if (made->join)
		wish_plan(w, scenario, &made->prefill, &made->decode, made->how);
	else
		wish_part(w, scenario, PHASE_ALL, &made->prefill);
}

/* ---- pass B ------------------------------------------------------------------------------- */
static int is_in_session(const struct data *d, int s, const struct contender *w)
{
	const struct pick p = { data_find(d, &w->choice),
				w->is_plan ? data_find(d, &w->decode) : -1, 1, w->how };
	if (w->is_plan)
		return p.prefill >= 0 && p.decode >= 0 && data_plan_cell(d, PASS_B, s, &p);
	return p.prefill >= 0 && data_cell_in(d, PASS_B, s, w->phase, p.prefill);
}

int wishes_renew(struct wishes *w, const struct data *d, const int *at, int *scenarios)
{
	int asked = 0;
	*scenarios = 0;
	for (int i = 0, end; i < w->n; i = end) {
		int missing = 0;
		for (end = i; end < w->n && w->v[end].scenario == w->v[i].scenario; end++)
			missing += at[w->v[end].scenario] < 0 ||
				   !is_in_session(d, at[w->v[end].scenario], &w->v[end]);
		for (int k = i; missing && k < end; k++)
			w->v[k].again = 1;
		asked += missing ? end - i : 0;
		*scenarios += missing > 0;
	}
	return asked;
}

/* ---- measuring ---------------------------------------------------------------------------- */
struct asked_cells {
	const struct wishes *w;
	const struct scenario_list *list;
	const char *stage;
};

static int measure_part(const struct sweep_options *o, const struct hello *hello, void *arg)
{
	const struct asked_cells *a = arg;
	return sweep_wishes(o, hello, a->list, a->w->v, a->w->n, a->stage);
}

int wishes_measure(const struct wishes *w, const struct sweep_options *asked,
		   const struct scenario_list *list, const char *stage)
{
	struct asked_cells a = { .w = w, .list = list, .stage = stage };
	struct hello hello;
	catch_signals();
	const int code = sweep_device(asked, &hello);
	return code ? code : on_each_device(asked, &hello, measure_part, &a);
}
