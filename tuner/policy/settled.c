/* SPDX-License-Identifier: Apache-2.0 */
/* settled.c - what settling would run, by times of the database: the members of a batch's row race, and the
 * fastest stays. In a mixed batch each part settles first, and then the ways to run these two parts race with
 * the header's own plan.
 *
 * The best of several noisy times is too good to judge by itself. So pass A chooses and pass B judges where the
 * batch has pass B; elsewhere pass A does both. A plan without a time in one of them does not race, and where that
 * is the header's own plan, nothing can replace it. */
#include "settled.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/tree/tree.h"
#include <math.h>

/* ---- what may race --------------------------------------------------------------------- */
/* Adds a choice unless it is listed already or runs nothing. */
static int add_member(struct choice *out, int n, const struct choice *c)
{
	for (int i = 0; i < n; i++)
		if (choice_same(&out[i], c))
			return n;
	if (c->kernel)
		out[n++] = *c;
	return n;
}

int row_members(const struct data *d, const struct forest *f, enum decision decision,
		const struct measured *m, struct choice out[MOST_MEMBERS])
{
	const enum phase phase = decision_phase(decision);
	const struct tree *t = &f->tree[decision];
	const int says = t->v[tree_leaf(t, &m->part[phase].f)].action;
	struct decided made;
	struct choice c;
	forest_make_serial(d, f, m, &made);
	int n = add_member(out, 0, decision == DECIDE_PREFILL ? &made.prefill : &made.decode);
	for (int i = 0; says >= 0 && i < f->list[says].n; i++)
		if (action_choice(d, f, phase, f->list[says].at[i], m, &c))
			n = add_member(out, n, &c);
	return n;
}

static int same_plan(const struct decided *a, const struct decided *b)
{
	const struct choice *p = &a->prefill, *q = &b->prefill;
	if (a->join != b->join || (a->join && a->how != b->how) || p->kernel != q->kernel ||
	    (p->kernel && !choice_same(p, q)))
		return 0;
	p = &a->decode, q = &b->decode;
	return !a->join || (p->kernel == q->kernel && (!p->kernel || choice_same(p, q)));
}

static int add_plan(struct decided *out, int n, const struct decided *plan)
{
	for (int i = 0; i < n; i++)
		if (same_plan(&out[i], plan))
			return n;
	if (n < MOST_SETTLED)
		out[n++] = *plan;
	return n;
}

/* Two streams, the prefills with units left to the decodes. */
static int add_streams(const struct data *d, const struct measured *m, const struct decided *serial,
		       struct decided *out, int n)
{
	struct decided way = *serial;
	way.how = ATTUNE_STREAMS;
	n = add_plan(out, n, &way);
	for (int says = SAYS_SPARING16; says >= SAYS_SPARING112; says--) {
		way.prefill = serial->prefill;
		if (config_spare(&way.prefill.config, way.prefill.kernel->space, says_spares(says),
				 &m->shape, &m->part[PHASE_PREFILL], &d->run.device))
			n = add_plan(out, n, &way);
	}
	return n;
}

/* The ways to run two parts, and the fused choices of the header. */
static int add_ways(const struct data *d, const struct forest *f, const struct measured *m,
		    const struct decided *serial, struct decided *out, int n)
{
	struct decided whole = { 0 };
	n = add_plan(out, n, serial);
	if (d->run.device.backend != BACKEND_CPU)
		n = add_streams(d, m, serial, out, n);
	if (decided_legal(d, m, PHASE_ALL, &serial->prefill, &whole.prefill))
		n = add_plan(out, n, &whole);
	for (int id = 0; id < f->num_choices; id++)
		if (f->choice[id].kernel->space->is_fused &&
		    action_choice(d, f, PHASE_ALL, id, m, &whole.prefill))
			n = add_plan(out, n, &whole);
	return n;
}

/* ---- which of them have times ----------------------------------------------------------- */
/* Its time in pass A; INFINITY: it has none there, or none in the pass that judges. Estimates of plans that
 * were not measured do not count. */
static double raced(const struct data *d, int s, const struct decided *plan)
{
	struct data first = *d;
	struct pick p;
	decided_pick(d, plan, &p);
	first.pass = PASS_A;
	const int is_mixed = measured_is_mixed(&d->v[s]);
	if (is_mixed && p.join && p.how == ATTUNE_STREAMS && !data_plan_cell(d, PASS_A, s, &p))
		return INFINITY;
	if (is_mixed && !p.join && !data_cell_in(d, PASS_A, s, PHASE_ALL, p.prefill))
		return INFINITY;
	if (d->pass == PASS_B && !(data_confirmed(d, s, &p) && isfinite(data_plan_time(d, s, &p))))
		return INFINITY;
	return data_plan_time(&first, s, &p);
}

int settle_has_times(const struct data *d, int s, const struct decided *plan)
{
	return isfinite(raced(d, s, plan));
}

static double part_raced(const struct data *d, int s, enum phase phase, const struct choice *c)
{
	struct data first = *d;
	const int choice = data_find(d, c);
	first.pass = PASS_A;
	if (choice < 0)
		return INFINITY;
	const struct cells of[2] = { data_cells(d, s, phase, choice),
				     data_cells(d, s, PHASE_ALL, choice) };
	if (measured_again(d, s, phase) && !cells_confirmed(d, s, of))
		return INFINITY;
	return data_part_time(&first, s, phase, choice);
}

/* The fastest member for a part; the first where none has a time. */
static struct choice settle_part(const struct data *d, const struct forest *f, int s,
				 enum decision decision, int *left_out)
{
	struct choice member[MOST_MEMBERS] = { { 0 } };
	const int n = row_members(d, f, decision, &d->v[s], member);
	double best = INFINITY;
	int at = 0;
	for (int i = 0; i < n; i++) {
		const double us = part_raced(d, s, decision_phase(decision), &member[i]);
		*left_out += !isfinite(us);
		if (us < best)
			best = us, at = i;
	}
	return member[at];
}

/* ---- settling ------------------------------------------------------------------------- */
static int plans(const struct data *d, const struct forest *f, int s,
		 struct decided out[MOST_SETTLED], int *left_out)
{
	const struct measured *m = &d->v[s];
	struct choice member[MOST_MEMBERS];
	struct decided plan = { .join = 1 };
	forest_make(d, f, m, &out[0]);
	int n = 1;
	if (measured_is_mixed(m)) {
		plan.prefill = settle_part(d, f, s, DECIDE_PREFILL, left_out);
		plan.decode = settle_part(d, f, s, DECIDE_DECODE, left_out);
		return plan.prefill.kernel && plan.decode.kernel ? add_ways(d, f, m, &plan, out, n)
								 : n;
	}
	const enum decision decision = m->has[PHASE_DECODE] ? DECIDE_DECODE : DECIDE_PREFILL;
	const int members = row_members(d, f, decision, m, member);
	for (int i = 0; i < members; i++) {
		*(decision == DECIDE_DECODE ? &plan.decode : &plan.prefill) = member[i];
		n = add_plan(out, n, &plan);
	}
	return n;
}

int settle_plans(const struct data *d, const struct forest *f, int s,
		 struct decided out[MOST_SETTLED])
{
	int left_out;
	return plans(d, f, s, out, &left_out);
}

void settle(const struct data *d, const struct forest *f, int s, struct settled *out)
{
	struct decided plan[MOST_SETTLED];
	int at = 0;
	out->left_out = 0;
	const int n = plans(d, f, s, plan, &out->left_out);
	const double first = raced(d, s, &plan[0]);
	double best = first;
	for (int i = 0; i < n; i++) {
		const double us = raced(d, s, &plan[i]);
		out->left_out += !isfinite(us);
		if (us < best)
			best = us, at = i;
	}
	out->is_raced = isfinite(first);
	out->plan = plan[out->is_raced ? at : 0];
	decided_pick(d, &out->plan, &out->pick);
}
