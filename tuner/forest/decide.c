/* SPDX-License-Identifier: Apache-2.0 */
/* decide.c - decides the plan of a batch by a forest, as the library does (kernels/api/plan.c). */
#include "forest.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include "tuner/data/data.h"
#include "tuner/tree/tree.h"
#include <string.h>

static int decide(const struct forest *f, enum decision decision, const struct measured *m)
{
	const struct tree *t = &f->tree[decision];
	return t->v[tree_leaf(t, &m->part[decision_phase(decision)].f)].action;
}

int action_choice(const struct data *d, const struct forest *f, enum phase phase, int action,
		  const struct measured *m, struct choice *out)
{
	if (action < 0)
		return 0;
	const struct choice *c = &f->choice[action];
	const struct segment_costs *costs =
	    costs_for(f->costs, f->num_costs, action, m->shape.head_size);
	struct choice made = { .kernel = c->kernel };
	if (config_fitted(&made.config, &c->config, c->kernel, costs, &m->shape, &m->part[phase],
			  &d->run.device))
		return 0;
	config_divide(&made.config, c->kernel, &f->mixed, &m->shape, &m->part[phase],
		      &d->run.device);
	*out = made;
	return 1;
}

/* The same of the rules that are compiled in for every NVIDIA GPU. They stand behind the rows of such
 * a GPU's rules. */
static int portable_choice(const struct data *d, const struct forest *f, enum phase phase,
			   const struct measured *m, struct choice *out)
{
	const struct selector *h = selector_portable();
	const struct device_info *device = &d->run.device;
	const enum decision decision = phase == PHASE_DECODE ? DECIDE_DECODE : DECIDE_PREFILL;
	const int serves = h && strcmp(f->gpu, h->gpu) && runs_ptx(device);
	const int says = serves ? selector_says(h, decision, &m->part[phase].f) : SAYS_DEFAULTS;
	const struct attune_list none = { 0 };
	const struct attune_list l = says < 0 ? none : selector_list(h, says);
	for (int i = 0; i < l.n; i++) {
		const struct selector_row *row = &h->choices[l.at[i]];
		struct choice c = { .kernel = kernel_find(device->backend, row->kernel) };
		const char *where;
		if (!c.kernel || !config_parse(&c.config, c.kernel->space, row->text, &where) ||
		    why_not_portable(c.kernel, &c.config, &m->shape))
			continue;
		const struct segment_costs *costs =
		    costs_for(h->costs, h->num_costs, l.at[i], m->shape.head_size);
		*out = c;
		if (!config_fitted(&out->config, &c.config, c.kernel, costs, &m->shape,
				   &m->part[phase], device))
			return 1;
	}
	return 0;
}

/* What stands behind a row. */
static int behind_row(const struct data *d, const struct forest *f, enum phase phase,
		      const struct measured *m, struct choice *out)
{
	return portable_choice(d, f, phase, m, out) || default_made(d, m, phase, out);
}

/* The first member of the action's row that may run there. */
static int row_choice(const struct data *d, const struct forest *f, enum phase phase, int action,
		      const struct measured *m, struct choice *out)
{
	if (action < 0 || !f->list[action].n)
		return action_choice(d, f, phase, action, m, out);
	const struct attune_list *l = &f->list[action];
	for (int i = 0; i < l->n; i++)
		if (action_choice(d, f, phase, l->at[i], m, out))
			return 1;
	return 0;
}

int action_or_default(const struct data *d, const struct forest *f, enum decision decision,
		      int action, const struct measured *m, struct choice *out)
{
	return row_choice(d, f, decision_phase(decision), action, m, out) ||
	       behind_row(d, f, decision_phase(decision), m, out);
}

int decision_is_of(enum decision decision, const struct measured *m)
{
	return decision == DECIDE_OVERLAP ? measured_is_mixed(m) : m->has[decision_phase(decision)];
}

/* What the row of a part's choice runs, else what stands behind it. */
static void make_part(const struct data *d, const struct forest *f, enum decision decision,
		      int action, const struct measured *m, struct choice *part,
		      struct decided *out)
{
	if (row_choice(d, f, decision_phase(decision), action, m, part))
		return;
	out->by_default = 1;
	behind_row(d, f, decision_phase(decision), m, part);
}

void forest_make_serial(const struct data *d, const struct forest *f, const struct measured *m,
			struct decided *out)
{
	*out = (struct decided){ .join = 1 };
	if (m->has[PHASE_PREFILL])
		make_part(d, f, DECIDE_PREFILL, decide(f, DECIDE_PREFILL, m), m, &out->prefill,
			  out);
	if (m->has[PHASE_DECODE])
		make_part(d, f, DECIDE_DECODE, decide(f, DECIDE_DECODE, m), m, &out->decode, out);
}

void overlap_made(const struct data *d, const struct forest *f, int action,
		  const struct measured *m, struct decided *out)
{
	const int fused = action >= 0 && f->choice[action].kernel->space->is_fused;
	const enum overlap_way way = overlap_way(action, fused, out->by_default);
	struct choice c;
	if (!decision_is_of(DECIDE_OVERLAP, m) || way == RUN_SERIAL)
		return;
	if (action == SAYS_ONE_LAUNCH)
		action = decide(f, DECIDE_PREFILL, m);
	const enum phase phase = way == RUN_ONE_LAUNCH ? PHASE_ALL : PHASE_PREFILL;
	if (action >= 0 && !action_choice(d, f, phase, action, m, &c))
		return;
	if (action >= 0)
		out->prefill = c;
	if (way == RUN_ONE_LAUNCH) {
		out->join = 0;
		return;
	}
	out->how = ATTUNE_STREAMS;
	if (says_spares(action))
		config_spare(&out->prefill.config, out->prefill.kernel->space, says_spares(action),
			     &m->shape, &m->part[PHASE_PREFILL], &d->run.device);
}

void forest_make(const struct data *d, const struct forest *f, const struct measured *m,
		 struct decided *out)
{
	forest_make_serial(d, f, m, out);
	if (decision_is_of(DECIDE_OVERLAP, m))
		overlap_made(d, f, decide(f, DECIDE_OVERLAP, m), m, out);
}

void forest_pick(const struct data *d, const struct forest *f, int scenario, struct pick *p)
{
	struct decided made;
	forest_make(d, f, &d->v[scenario], &made);
	decided_pick(d, &made, p);
}
