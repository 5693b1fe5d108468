/* worker_check.c - checks a contender's output: on the corner batches before it is first timed,
 * and on some rows of the workload that is timed. */
#include "records.h"
#include "harness/base/base.h"
#include "harness/check/check.h"
#include "harness/scenario/scenario.h"
#include "harness/search/search.h"
#include "kernels/spec/part.h"
#include "kernels/spec/space.h"
#include <stdio.h>
#include <string.h>

enum { CHECK_ROWS = 64, WORKLOAD_ROWS = 8 };
/* A binary runs the corner batches once, and again for one in GATE_ODDS of its other choices of
 * launch arguments. */
enum { GATE_ODDS = 8 };

/* Replaces the scenario's batch by a corner batch. 0: the choice has no work there or does not
 * support it. */
static int corner_scenario(const struct worker_state *l, struct scenario *s,
			   const struct contender *c, const char *text)
{
	char error[128];
	struct part part;
	*s = *l->scenario;
	s->batch_text = (char *)(uintptr_t)text;
	s->batch = batch_parse(text, error, sizeof error);
	if (s->batch && part_make(&part, c->phase, &s->shape, &s->batch->view, &l->dev.info) &&
	    !c->choice.kernel->space->why_illegal(&c->choice.config, &s->shape, &part,
						  &l->dev.info))
		return 1;
	batch_free(s->batch);
	return 0;
}

int report_verdict(struct worker_state *l, int index, const struct verdict *v, const char *batch)
{
	char text[sizeof v->text + 80];
	snprintf(text, sizeof text, "%.70s: %s", batch, v->text);
	if (v->outcome == OUTCOME_CRASH)
		report_crash(l, index, text);
	if (v->outcome != OUTCOME_OK)
		report_failure(l, index, v->outcome, text);
	return v->outcome == OUTCOME_OK;
}

int check_corner_batches(struct worker_state *l, const struct launcher *r)
{
	const struct contender *c = r->contender;
	struct message message = { .kind = MESSAGE_PASSED, .index = c->index };
	const struct problems *all = l->setup->problems;
	const struct built_choice *e = contender_built(all, c, 0);
	char *passed = &l->passed[e->built * 3 + (int)c->phase];
	if (c->passed)
		return *passed = 1;
	const int excused =
	    *passed && scramble((unsigned)(e - all->built_choice) * 0x9e3779b9ull) % GATE_ODDS;
	for (int i = 0; corner_batches[i] && !excused; i++) {
		struct scenario s;
		struct verdict v;
		if (!corner_scenario(l, &s, c, corner_batches[i]))
			continue;
		report_stage(l, c->index, l->setup->gate_s);
		check_choice(&v, &l->dev, &l->check_pool, &c->choice, r->loaded[0], &s, c->phase,
			     CHECK_ROWS);
		batch_free(s.batch);
		if (!report_verdict(l, c->index, &v, corner_batches[i]))
			return 0;
	}
	*passed = 1;
	report_message(l, &message);
	return 1;
}

/* The output of a whole plan, or of the library. */
static void check_plan(struct verdict *v, struct worker_state *l, struct launcher *r)
{
	unsigned needs = 0;
	for (int i = 0; i < r->parts; i++)
		needs |= choice_needs(contender_choice(r->contender, i));
	enum attune_status status = workload_poison(&l->workload);
	if (!status)
		status = launcher_call(r, 0);
	if (!status)
		status = l->dev.ops->wait(&l->dev, l->dev.ops->stream(&l->dev));
	if (!status) {
		check_output(v, &l->workload, PHASE_ALL, WORKLOAD_ROWS, needs);
		return;
	}
	v->outcome = status == ATTUNE_DEVICE_ERROR ? OUTCOME_CRASH : OUTCOME_RESOURCES;
	snprintf(v->text, sizeof v->text, "%.190s", attune_last_error());
}

int check_timed_workload(struct worker_state *l, struct launcher *r, struct verdict *v)
{
	*v = (struct verdict){ .outcome = OUTCOME_OK };
	report_stage(l, r->contender->index, l->setup->gate_s + launcher_slow_s(l));
	if (r->parts != 1)
		check_plan(v, l, r);
	else
		check_workload(v, &l->workload, &r->contender->choice, r->loaded[0],
			       r->contender->phase, WORKLOAD_ROWS);
	return v->outcome == OUTCOME_OK;
}
