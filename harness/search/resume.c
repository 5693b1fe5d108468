/* SPDX-License-Identifier: Apache-2.0 */
/* resume.c - loads a database's results into problems, so that nothing is measured twice. */
#include "search.h"
#include "harness/base/base.h"
#include "harness/scenario/scenario.h"
#include "harness/store/handle.h"
#include "harness/store/store.h"
#include "kernels/spec/kernel.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

struct loader {
	struct problems *problems;
	const char *protocol;
	int last;          /* problem of the last cell; a problem's cells are consecutive */
	long long unknown; /* the last scenario without a problem */
	int failed;        /* no memory */
};

/* A plan belongs to the problem of the whole batch. */
static int is_of(const struct problems *all, const struct problem *problem,
		 const struct store_cell *c)
{
	const char *phase = strcmp(c->phase, "plan") ? c->phase : "all";
	return !strcmp(phase, store_phase(problem->phase)) &&
	       cell_is_of(c, &all->scenarios[problem->scenario]);
}

static enum stage stage_of(const char *name)
{
	enum stage s = STAGE_RACE;
	while (s < STAGE_B && strcmp(stage_names[s], name))
		s++;
	return s;
}

/* Whether this plan shows that all plans were raced. Older databases of a GPU have serial plans
 * only, so there the plan must use streams. */
static int is_last_plan(const struct problems *all, const char *text)
{
	char part[2][MAX_PART_TEXT];
	enum attune_how how;
	return parts_parse(text, part, &how) &&
	       (how == ATTUNE_STREAMS || all->device.backend == BACKEND_CPU);
}

static int keep_plan(struct problem *problem, const char *text)
{
	if (!array_grow(&problem->today_plan, problem->num_today_plans, &problem->today_plan_room,
			sizeof *problem->today_plan))
		return 0;
	problem->today_plan[problem->num_today_plans++] = XXH3_64bits(text, strlen(text));
	return 1;
}

/* Whether a plan that would race now names a plug-in and has no time of its version. */
static int lacks_plan_of_plugin(const struct problems *all, const struct problem *problem)
{
	struct contender plan[MAX_PLANS];
	const int n = plans_pick(all, problem->scenario, plan);
	int lacks = 0;
	for (int i = 0; i < n; i++) {
		char text[MAX_PLAN_TEXT];
		int known = 0;
		if (!plan[i].choice.kernel->plugin && !plan[i].decode.kernel->plugin)
			continue;
		contender_text(text, &plan[i]);
		for (int k = 0; k < problem->num_today_plans; k++)
			known |= problem->today_plan[k] == XXH3_64bits(text, strlen(text));
		lacks |= !known;
	}
	return lacks;
}

/* Whether the cell of this row is raced again: the time is noisy, or `retry` has the outcome. */
static int races_again(const struct problems *all, const struct store_cell *c)
{
	return !strcmp(c->outcome, outcome_name(OUTCOME_NOISY)) ||
	       (all->retry && list_has(all->retry, c->outcome));
}

static int note_plan(const struct problems *all, struct problem *problem,
		     const struct store_cell *c)
{
	const int again = races_again(all, c);
	problem->noisy_plans += c->today && again;
	problem->planned |= c->today && is_last_plan(all, c->choice);
	return !c->today || again || keep_plan(problem, c->choice);
}

static void note(const struct problems *all, struct problem *problem, const struct store_cell *c)
{
	struct choice choice;
	const char *where;
	const int again = races_again(all, c);
	choice.kernel = kernel_find(all->device.backend, c->kernel);
	if (!choice.kernel ||
	    !config_parse(&choice.config, choice.kernel->space, c->choice, &where))
		return;
	const int place = problems_place(all, problem, &choice);
	if (place < 0)
		return;
	problem->noisy[place] = (char)(c->today && again);
	if (again)
		return;
	problems_note(problem, place, strcmp(c->outcome, "ok") ? INFINITY : c->median_us,
		      stage_of(c->stage));
	problem->stored[place] = (char)c->today;
}

static int recall_cell(void *arg, const struct store_cell *c)
{
	struct loader *r = arg;
	const int counts =
	    c->pass == 'A' && c->scenario_id != r->unknown && !strcmp(c->protocol, r->protocol);
	int is_known = 0;
	for (int k = 0; counts && k < r->problems->n; k++) {
		int i = (r->last + k) % r->problems->n;
		is_known |= cell_is_of(c, &r->problems->scenarios[r->problems->v[i].scenario]);
		if (!is_of(r->problems, &r->problems->v[i], c))
			continue;
		r->last = i;
		if (!strcmp(c->phase, "plan"))
			r->failed |= !note_plan(r->problems, &r->problems->v[i], c);
		else
			note(r->problems, &r->problems->v[i], c);
		return !r->failed;
	}
	if (counts && !is_known)
		r->unknown = c->scenario_id;
	return 1;
}

/* The reference's result is stored last, so if it is there the race has ended. If its stage is
 * complete, it is from a survey, and the problem has not raced yet. Of a whole batch not all
 * defaults race; but a plug-in that did, in another version, races again. */
static int is_finished(const struct problems *all, const struct problem *problem)
{
	int finished = problem->n && problem->stored[0] && problem->stage[0] != STAGE_COMPLETE;
	for (int k = 0; k < problem->n; k++)
		if (problem->phase == PHASE_ALL)
			finished &= !problem_has_other_version(all, problem, k);
		else
			finished &=
			    all->built_choice[problem->built_choice[k]].origin > FROM_BASELINE ||
			    problem->stored[k] || problem->noisy[k];
	return finished;
}

int problems_recall(struct problems *all, struct store *store, const char *gpu,
		    const char *protocol)
{
	struct loader r = { .problems = all, .protocol = protocol, .unknown = -1 };
	if (all->n && !store_each(store, gpu, recall_cell, &r))
		return 0;
	if (r.failed)
		complain("out of memory");
	for (int i = 0; i < all->n; i++) {
		struct problem *problem = &all->v[i];
		problem->finished = is_finished(all, problem);
		problem->planned &= !problem->noisy_plans && !lacks_plan_of_plugin(all, problem);
	}
	return !r.failed;
}

/* ---- scenarios of a database -------------------------------------------------------- */

struct reader {
	struct scenario_list *list;
	int failed;
};

static int add_scenario(struct scenario_list *list, const struct store_cell *c)
{
	char error[128];
	struct scenario s = { .shape = c->shape,
			      .layout = layout_of(c->layout),
			      .weight = c->weight,
			      .seed = c->seed };
	snprintf(s.model, sizeof s.model, "%s", c->model);
	snprintf(s.set, sizeof s.set, "%s", c->set);
	snprintf(s.split, sizeof s.split, "%s", c->split);
	s.batch = batch_parse(c->batch, error, sizeof error);
	s.batch_text = strdup(c->batch);
	if (s.batch && s.batch_text && scenarios_append(list, &s))
		return 1;
	scenario_drop(&s);
	return 0;
}

/* A scenario's cells are consecutive, unless it has other types or layouts. */
static int read_scenario(void *arg, const struct store_cell *c)
{
	struct reader *r = arg;
	for (int i = r->list->n - 1; i >= 0 && i > r->list->n - 8; i--)
		if (cell_is_of(c, &r->list->v[i]))
			return 1;
	r->failed = !add_scenario(r->list, c);
	return !r->failed;
}

int recall_scenarios(struct scenario_list *list, struct store *store, const char *gpu)
{
	struct reader r = { .list = list };
	return store_each(store, gpu, read_scenario, &r) && !r.failed;
}
