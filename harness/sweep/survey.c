/* SPDX-License-Identifier: Apache-2.0 */
/* survey.c - selects what a survey measures: on many scenarios only the portfolio of each phase,
 * learned from the finished races of a database. Choices that those races found right skip the
 * corner batches. */
#include "sweep.h"
#include "harness/base/base.h"
#include "harness/compile/compile.h"
#include "harness/scenario/scenario.h"
#include "harness/search/search.h"
#include "harness/store/store.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- from the database ------------------------------------------------------------- */

/* Raced to the end, by whichever sources: the reference's result is stored last. */
static int was_raced(const struct problem *problem)
{
	return problem->n && !isnan(problem->us[0]) && problem->stage[0] != STAGE_COMPLETE;
}

enum { MOST_READ = 200 };

/* A portfolio does not need every race, and reading takes time. Takes scenarios at equal distances,
 * as sets follow one another in the list. */
static void thin_out(struct scenario_list *list)
{
	const int each = (list->n + MOST_READ - 1) / MOST_READ;
	int n = 0;
	for (int i = 0; i < list->n; i++) {
		if (i % each)
			scenario_drop(&list->v[i]);
		else
			list->v[n++] = list->v[i];
	}
	list->n = n;
}

/* 0 after a complaint. */
static int read_races(struct survey *s, const struct sweep_session *session, struct store *store)
{
	const struct candidate_options options = { .device = &session->hello.info,
						   .preset = PRESET_FULL,
						   .kernels = session->o->kernels,
						   .seed = session->o->seed };
	const char *gpu = session->hello.info.gpu;
	int ok = recall_scenarios(&s->list, store, gpu);
	thin_out(&s->list);
	s->problems = (struct problems){ .scenarios = s->list.v, .device = session->hello.info };
	s->binaries.arch = session->hello.info.arch;
	for (int i = 0; ok && i < s->list.n; i++)
		ok = problems_add(&s->problems, &s->binaries, i, &options);
	ok = ok && problems_recall(&s->problems, store, gpu, session->protocol.name);
	for (int i = 0; ok && i < s->problems.n; i++) {
		s->problems.v[i].finished = was_raced(&s->problems.v[i]);
		s->races += s->problems.v[i].finished;
	}
	return ok;
}

int survey_learn(struct survey *s, const struct sweep_session *session)
{
	const char *db = session->db;
	const int is_there = !access(db, F_OK);
	struct store *store = is_there ? store_open(db, 1) : NULL;
	int ok = !is_there ||
		 (store && (!provenance_same(store, &session->hello.info, &session->protocol) ||
			    read_races(s, session, store)));
	store_close(store);
	s->also = session->o->also;
	s->num_also = session->o->num_also;
	if (ok && !s->races && !s->num_also) {
		complain("--survey measures what races have found to be good, and %s has no "
			 "finished race of this device and protocol; sweep some set without it "
			 "first",
			 db);
		return 0;
	}
	for (enum phase p = PHASE_ALL; ok && p <= PHASE_DECODE; p++) {
		s->family[p] = calloc((size_t)s->problems.num_families + 1, 1);
		ok = s->family[p] && stages_portfolio(&s->problems, p, s->family[p]);
	}
	return ok;
}

void survey_free(struct survey *s)
{
	for (enum phase p = PHASE_ALL; p <= PHASE_DECODE; p++)
		free(s->family[p]);
	problems_free(&s->problems);
	binaries_free(&s->binaries);
	scenarios_free(&s->list);
}

/* ---- what to measure ----------------------------------------------------------------- */

int survey_wants(const struct survey *s, enum phase p, const struct choice *c)
{
	const struct choice first = choice_family(c);
	for (int f = 0; f < s->problems.num_families; f++)
		if (s->family[p][f] && choice_same(&s->problems.family[f], &first))
			return 1;
	for (int i = 0; i < s->num_also; i++) {
		const struct choice other = choice_family(&s->also[i]);
		if (choice_same(&other, &first))
			return 1;
	}
	return 0;
}

int survey_keeps(const void *survey, const struct candidate *c)
{
	int wanted = c->origin <= FROM_BASELINE;
	for (enum phase p = PHASE_ALL; p <= PHASE_DECODE; p++)
		wanted |= survey_wants(survey, p, &c->choice);
	return wanted;
}

/* ---- choices known to be right --------------------------------------------------------- */

static int same_code(const struct built *a, const struct built *b)
{
	return a->kernel == b->kernel && !strcmp(a->flags, b->flags);
}

/* The same choice's index in the session; -1: none. */
static int counterpart(const struct survey *s, const struct sweep_session *session,
		       int built_choice)
{
	const struct built_choice *e = &s->problems.built_choice[built_choice];
	for (int i = 0; i < session->problems.num_built_choices; i++) {
		const struct built_choice *o = &session->problems.built_choice[i];
		if (choice_same(&o->choice, &e->choice) &&
		    same_code(&session->binaries.v[o->built], &s->binaries.v[e->built]))
			return i;
	}
	return -1;
}

int survey_trust(const struct survey *s, struct sweep_session *session)
{
	const int unknown = -2;
	int *other = malloc(((size_t)s->problems.num_built_choices + 1) * sizeof *other);
	for (int i = 0; other && i < s->problems.num_built_choices; i++)
		other[i] = unknown;
	for (int i = 0; other && i < s->problems.n; i++) {
		const struct problem *problem = &s->problems.v[i];
		for (int k = 0; k < problem->n; k++) {
			int *its = &other[problem->built_choice[k]];
			if (!problem->stored[k] || !(problem->us[k] < INFINITY))
				continue;
			if (*its == unknown)
				*its = counterpart(s, session, problem->built_choice[k]);
			if (*its >= 0)
				session_pass(session, *its, problem->phase);
		}
	}
	free(other);
	return other != NULL;
}
