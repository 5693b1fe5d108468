/* SPDX-License-Identifier: Apache-2.0 */
/* early_launch.c - `attune sweep --early`: measures what a kernel gains if it begins before the
 * previous launch ends (attune.h: ATTUNE_START_EARLY). For each part of a batch the fastest choices
 * of the database run again, launched in order and launched early, in one race.
 *
 *   time of a call = time of a graph of calls in a row on one stream / number of calls
 *
 * Each call reads other pages, as always in this harness. So an early call overlaps the end of a
 * call of the same kind, and its time is what it adds to a chain of these. Only times of the same
 * race are comparable. In an engine another kernel comes before, and there may be more or less to
 * overlap.
 *
 * Rows go to the same database, in a pass of their own. Trees of choices, prices and other sweeps
 * ignore them: not every caller can let a call begin early, and in-order times of the fastest
 * choices alone, from another session, are not comparable with the times of their first race. Only
 * the early decision learns from them (tuner/induce/early_decision.c). */
#include "sweep.h"
#include "harness/base/base.h"
#include "harness/scenario/scenario.h"
#include "harness/store/handle.h"
#include "harness/store/store.h"
#include "harness/worker/worker.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/part.h"
#include "kernels/spec/space.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FASTEST = 2 /* of a part */, MOST_VALUES = 3 /* of an early axis */ };

/* A choice launched in order, and its times by the value of its early axis. */
struct pace {
	int scenario;
	enum phase phase;
	struct choice choice;
	double raced_us;        /* in order, from a race of pass A */
	double us[MOST_VALUES]; /* from an early race; NaN: no time */
	int today[MOST_VALUES];
};

struct early {
	const struct scenario_list *list;
	const struct sweep_session *session;
	struct pace *v;
	int n, room, failed; /* failed: no memory */
};

/* ---- from the database --------------------------------------------------------------- */

static int value_at(const struct choice *c)
{
	const struct axis *a = &c->kernel->space->axis[c->kernel->space->early_axis];
	int i = 0;
	while (a->values[i] != choice_early(c))
		i++;
	return i;
}

static struct choice in_turn(const struct choice *c)
{
	struct choice turn = *c;
	turn.config.v[c->kernel->space->early_axis] = 0;
	return turn;
}

static struct pace *find(struct early *e, int scenario, enum phase phase, const struct choice *c)
{
	for (int i = e->n - 1; i >= 0; i--)
		if (e->v[i].scenario == scenario && e->v[i].phase == phase &&
		    choice_same(&e->v[i].choice, c))
			return &e->v[i];
	if (!array_grow(&e->v, e->n, &e->room, sizeof *e->v))
		return NULL;
	e->v[e->n] = (struct pace){ .scenario = scenario, .phase = phase, .choice = *c };
	for (int i = 0; i < MOST_VALUES; i++)
		e->v[e->n].us[i] = NAN;
	e->v[e->n].raced_us = NAN;
	return &e->v[e->n++];
}

static int scenario_of(const struct early *e, const struct store_cell *cell)
{
	int i = e->list->n - 1;
	while (i >= 0 && !cell_is_of(cell, &e->list->v[i]))
		i--;
	return i;
}

/* By today's rules, which may be newer than a stored time. */
static int is_legal(const struct early *e, int scenario, enum phase phase, const struct choice *c)
{
	const struct scenario *s = &e->list->v[scenario];
	struct part part;
	return part_make(&part, phase, &s->shape, &s->batch->view, &e->session->hello.info) &&
	       !c->kernel->space->why_illegal(&c->config, &s->shape, &part,
					      &e->session->hello.info);
}

static int read_cell(void *arg, const struct store_cell *cell)
{
	struct early *e = arg;
	struct choice c = { .kernel = kernel_find(e->session->hello.info.backend, cell->kernel) };
	const char *where;
	enum phase phase = PHASE_ALL;
	if (!c.kernel || c.kernel->space->early_axis < 0 || cell->pass == 'B' ||
	    strcmp(cell->protocol, e->session->protocol.name) ||
	    !config_parse(&c.config, c.kernel->space, cell->choice, &where))
		return 1;
	const int scenario = scenario_of(e, cell);
	while (phase < PHASE_DECODE && strcmp(store_phase(phase), cell->phase))
		phase++;
	if (scenario < 0 || !is_legal(e, scenario, phase, &c))
		return 1;
	const struct choice turn = in_turn(&c);
	struct pace *p = find(e, scenario, phase, &turn);
	if (!p) {
		complain("out of memory");
		e->failed = 1;
		return 0;
	}
	const double us = strcmp(cell->outcome, "ok") ? NAN : cell->median_us;
	if (cell->pass == 'A' && !choice_early(&c))
		p->raced_us = us;
	if (cell->pass != 'E')
		return 1;
	p->us[value_at(&c)] = us;
	p->today[value_at(&c)] = cell->today;
	return 1;
}

/* Orders by scenario and phase, then by in-order time; choices without one come last. */
static int by_time(const void *x, const void *y)
{
	const struct pace *a = x, *b = y;
	if (a->scenario != b->scenario)
		return a->scenario < b->scenario ? -1 : 1;
	if (a->phase != b->phase)
		return a->phase < b->phase ? -1 : 1;
	if (isnan(a->raced_us) || isnan(b->raced_us))
		return isnan(a->raced_us) - isnan(b->raced_us);
	return (a->raced_us > b->raced_us) - (a->raced_us < b->raced_us);
}

/* Reads the FASTEST choices of each part. 0 after a complaint. */
static int read_all(struct early *e)
{
	struct store *s = store_open(e->session->db, 1);
	e->n = 0;
	const int ok = s && store_each(s, e->session->hello.info.gpu, read_cell, e) && !e->failed;
	int kept = 0, rank = 0;
	store_close(s);
	if (e->n)
		qsort(e->v, (size_t)e->n, sizeof *e->v, by_time);
	for (int i = 0; i < e->n; i++) {
		const struct pace p = e->v[i];
		const struct pace *last = kept ? &e->v[kept - 1] : NULL;
		const int goes_on = last && last->scenario == p.scenario && last->phase == p.phase;
		rank = goes_on ? rank + 1 : 0;
		if (rank < FASTEST && !isnan(p.raced_us))
			e->v[kept++] = p;
	}
	e->n = kept;
	return ok;
}

/* ---- races --------------------------------------------------------------------------- */

static int num_values(const struct pace *p)
{
	return p->choice.kernel->space->axis[p->choice.kernel->space->early_axis].num_values;
}

static int is_done(const struct pace *p, const struct sweep_options *o)
{
	int done = !o->again;
	for (int i = 1; i < num_values(p); i++)
		done &= p->today[i];
	return done;
}

/* All values of the early axis, in order too: times are compared within a race. */
static int wish_all(struct contender *wish, const struct early *e)
{
	int n = 0;
	for (int k = 0; k < e->n; k++)
		for (int i = 0; i < num_values(&e->v[k]) && !is_done(&e->v[k], e->session->o);
		     i++) {
			const struct space *s = e->v[k].choice.kernel->space;
			struct contender *w = &wish[n++];
			*w = (struct contender){ .scenario = e->v[k].scenario,
						 .phase = e->v[k].phase,
						 .choice = e->v[k].choice };
			w->choice.config.v[s->early_axis] = s->axis[s->early_axis].values[i];
		}
	return n;
}

static int print(const struct early *e)
{
	static const char *const columns[] = { "model",       "batch",      "phase", "turn_us",
					       "last_key_us", "at_once_us", "choice" };
	struct table *t = table_new(e->session->o->format, columns, COUNT(columns));
	char text[MAX_CHOICE_TEXT];
	if (!t)
		return 0;
	for (int k = 0; k < e->n; k++) {
		const struct pace *p = &e->v[k];
		table_text(t, e->list->v[p->scenario].model);
		table_text(t, e->list->v[p->scenario].batch_text);
		table_text(t, store_phase(p->phase));
		for (int i = 0; i < MOST_VALUES; i++)
			table_number(t, p->us[i], 2);
		choice_text(text, sizeof text, &p->choice);
		table_text(t, text);
		table_end_row(t);
	}
	table_print(t, stdout);
	return 1;
}

/* ---- the command ----------------------------------------------------------------------- */

static int race(const struct early *e)
{
	struct sweep_options o = *e->session->o;
	struct contender *wish = calloc((size_t)e->n * MOST_VALUES + 1, sizeof *wish);
	int code = wish ? EXIT_DONE : EXIT_CHECK;
	const int n = wish ? wish_all(wish, e) : 0;
	o.again = 1;
	complain("%d choices that can begin early, %d times to measure", e->n, n);
	if (n && !o.dry_run)
		code = sweep_wishes(&o, &e->session->hello, e->list, wish, n,
				    stage_names[STAGE_EARLY]);
	free(wish);
	return code;
}

int sweep_early(const struct sweep_options *o, const struct hello *hello,
		const struct scenario_list *list)
{
	struct sweep_session session = { .o = o, .hello = *hello };
	struct early e = { .list = list, .session = &session };
	int code = EXIT_USAGE;
	session_make(&session, list);
	const int ok = read_all(&e);
	if (ok && !e.n)
		complain("--early reruns the fastest choices that can begin early, and %s has no "
			 "times of such choices for these scenarios; sweep them without it first",
			 session.db);
	if (ok && e.n)
		code = race(&e);
	if (!code && ok && e.n)
		code = read_all(&e) && print(&e) ? EXIT_DONE : EXIT_CHECK;
	free(e.v);
	session_free(&session);
	return code;
}
