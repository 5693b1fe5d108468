/* SPDX-License-Identifier: Apache-2.0 */
/* policy.c - runs any policy: the forest (decide.c), or one of the baselines that it is compared
 * with. best_fixed learns, on the training scenarios: for each part the one choice of the header
 * that is fastest on average, with its fitted segments, and one way for all mixed batches.
 *
 * An illegal choice is replaced by the library's default, as in the library. If no training scenario
 * has times of some phase, best_fixed does not exist: it would be the defaults under another
 * name. */
#include "policy.h"
#include "harness/base/base.h"
#include "harness/scenario/scenario.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>

const char *const policy_names[NUM_POLICIES] = {
	[POLICY_TREE] = "tree",
	[POLICY_ORACLE] = "oracle",
	[POLICY_BEST_FIXED] = "best_fixed",
	[POLICY_VLLM_TRITON] = "vllm_triton",
	[POLICY_AITER_RULE] = "aiter_rule",
	[POLICY_DEFAULT] = "default",
};

struct chooser {
	const struct data *d;
	enum policy policy;
	const struct forest *forest;
	int fixed[2]; /* of best_fixed: choices of the forest for prefills and decodes; -1: none */
	enum baseline_way way;
};

/* ---- how a baseline runs mixed batches ---------------------------------------------- */
static double time_of_way(const struct data *d, const struct pick *pick, int s,
			  enum baseline_way way)
{
	const int whole = pick->prefill;
	struct pick p = { .prefill = whole, .decode = pick->decode, .join = 1 };
	const double serial = data_plan_time(d, s, &p);
	if (way == BASELINE_SERIAL)
		return serial;
	if (way == BASELINE_WHOLE && !data_legal(d, s, PHASE_ALL, whole))
		return serial; /* the library then runs both parts */
	p.join = way != BASELINE_WHOLE;
	p.how = way == BASELINE_STREAMS ? ATTUNE_STREAMS : ATTUNE_SERIAL;
	return data_plan_time(d, s, &p);
}

enum baseline_way fastest_way(const struct data *d, const struct pick *picks)
{
	const int ways =
	    d->run.device.backend == BACKEND_CPU ? BASELINE_STREAMS : NUM_BASELINE_WAYS;
	double sum[NUM_BASELINE_WAYS] = { 0 };
	enum baseline_way best = BASELINE_SERIAL;
	for (int s = 0; s < d->n; s++) {
		double us[NUM_BASELINE_WAYS];
		int timed = data_is_training(&d->v[s]) && measured_is_mixed(&d->v[s]) &&
			    picks[s].prefill >= 0 && picks[s].decode >= 0;
		for (int w = 0; timed && w < ways; w++) {
			us[w] = time_of_way(d, &picks[s], s, (enum baseline_way)w);
			timed = isfinite(us[w]);
		}
		for (int w = 0; timed && w < ways; w++)
			sum[w] += log(us[w]);
	}
	for (int w = 0; w < ways; w++)
		if (sum[w] < sum[best])
			best = (enum baseline_way)w;
	return best;
}

/* Changes a plan of two parts to that way; stays serial if one launch is illegal. */
static void decided_in_way(const struct data *d, const struct measured *m, enum baseline_way way,
			   struct decided *out)
{
	struct choice whole;
	if (!out->prefill.kernel || !out->decode.kernel)
		return;
	out->join = way != BASELINE_WHOLE || !decided_legal(d, m, PHASE_ALL, &out->prefill, &whole);
	out->how = way == BASELINE_STREAMS ? ATTUNE_STREAMS : ATTUNE_SERIAL;
}

/* ---- best_fixed --------------------------------------------------------------------- */
/* A choice counts if it has a time in this percentage of the scenarios of the choice that has most:
 * over few scenarios, a mean says little. */
enum { FIXED_COVERAGE = 90 };

/* The training scenarios where the choice has a time, and the sum of its log slowdowns there. */
static int sum_slowdowns(const struct data *d, const struct forest *f, enum phase phase, int id,
			 double *sum)
{
	int timed = 0, any;
	*sum = 0;
	for (int s = 0; s < d->n; s++) {
		const struct measured *m = &d->v[s];
		struct choice made;
		if (!data_is_training(m) || split_is_overlap(m->split) || !m->has[phase] ||
		    !action_choice(d, f, phase, id, m, &made))
			continue;
		const int choice = data_find(d, &made);
		const double us = choice < 0 ? INFINITY : data_part_time(d, s, phase, choice);
		const double best = data_best(d, s, phase, &any);
		if (!isfinite(us) || !isfinite(best))
			continue;
		*sum += log(us / best);
		timed++;
	}
	return timed;
}

/* The choice of least mean slowdown, ties to the lower id; -1: none has a time. */
static int fastest_fixed(const struct data *d, const struct forest *f, enum phase phase)
{
	int timed[MAX_IDS], most = 0, best = -1;
	double sum[MAX_IDS];
	for (int id = 0; id < f->num_choices; id++) {
		timed[id] =
		    choice_overlaps(&f->choice[id]) ? 0 : sum_slowdowns(d, f, phase, id, &sum[id]);
		most = timed[id] > most ? timed[id] : most;
	}
	for (int id = 0; id < f->num_choices; id++)
		if (timed[id] && 100 * timed[id] >= FIXED_COVERAGE * most &&
		    (best < 0 || sum[id] / timed[id] < sum[best] / timed[best]))
			best = id;
	return best;
}

/* The defaults without fixed choices; one part after the other. */
static void make_fixed(const struct chooser *c, const struct measured *m, struct decided *out)
{
	for (int p = DECIDE_PREFILL; p <= DECIDE_DECODE; p++) {
		const enum decision decision = (enum decision)p;
		struct choice *part = p == DECIDE_PREFILL ? &out->prefill : &out->decode;
		if (!m->has[decision_phase(decision)])
			continue;
		if (c->policy == POLICY_BEST_FIXED)
			action_or_default(c->d, c->forest, decision, c->fixed[p], m, part);
		else
			default_made(c->d, m, decision_phase(decision), part);
	}
	decided_in_way(c->d, m, c->way, out);
}

/* A phase that the data have, but no time of a training scenario; NULL: none. */
static const char *unlearned_phase(const struct data *d)
{
	int has[2] = { 0 }, learned[2] = { 0 };
	for (int s = 0; s < d->n; s++)
		for (int p = 0; p < 2; p++) {
			const enum phase phase = decision_phase((enum decision)p);
			int choice = -1;
			has[p] |= d->v[s].has[phase];
			if (d->v[s].has[phase] && data_is_training(&d->v[s]))
				learned[p] |= isfinite(data_best(d, s, phase, &choice)) ||
					      (!measured_is_mixed(&d->v[s]) &&
					       isfinite(data_best(d, s, PHASE_ALL, &choice)));
		}
	for (int p = 0; p < 2; p++)
		if (has[p] && !learned[p])
			return phase_name((int)decision_phase((enum decision)p));
	return NULL;
}

void policies_say_unlearned(const struct data *d)
{
	const char *phase = unlearned_phase(d);
	if (phase)
		complain("%s: no scenario to learn from has times of a %s: %s is left out", d->gpu,
			 phase, policy_names[POLICY_BEST_FIXED]);
}

/* The parts first: the way of mixed batches is learned with their choices. */
static int learn_fixed(struct chooser *c)
{
	struct data first = *c->d;
	struct pick *picks = calloc((size_t)first.n + 1, sizeof *picks);
	const int done = picks && !unlearned_phase(c->d);
	first.pass = PASS_A;
	for (int p = DECIDE_PREFILL; done && p <= DECIDE_DECODE; p++)
		c->fixed[p] = fastest_fixed(&first, c->forest, decision_phase((enum decision)p));
	for (int s = 0; done && s < first.n; s++) {
		struct decided made = { .join = 1 };
		make_fixed(c, &first.v[s], &made);
		decided_pick(&first, &made, &picks[s]);
	}
	if (done)
		c->way = fastest_way(&first, picks);
	free(picks);
	return done;
}

/* ---- any policy ------------------------------------------------------------------------ */
static int learn(struct chooser *c)
{
	const int gpu = c->d->run.device.backend != BACKEND_CPU;
	switch (c->policy) {
	case POLICY_TREE: return c->forest != NULL;
	case POLICY_VLLM_TRITON:
	case POLICY_AITER_RULE: return gpu;
	case POLICY_BEST_FIXED: return c->forest && learn_fixed(c);
	case POLICY_DEFAULT: return 1;
	case POLICY_ORACLE:
	case NUM_POLICIES: break;
	}
	return 0;
}

struct chooser *chooser_new(const struct data *d, enum policy policy, const struct forest *f)
{
	struct chooser *c = calloc(1, sizeof *c);
	if (!c) {
		output_lost();
		return NULL;
	}
	*c = (struct chooser){ .d = d, .policy = policy, .forest = f, .way = BASELINE_SERIAL };
	errno = 0;
	if (learn(c))
		return c;
	if (errno == ENOMEM) /* else the policy does not exist */
		output_lost();
	chooser_free(c);
	return NULL;
}

void chooser_free(struct chooser *c)
{
	free(c);
}

void chooser_make(const struct chooser *c, const struct measured *m, int scenario,
		  struct decided *out)
{
	*out = (struct decided){ .join = 1 };
	switch (c->policy) {
	case POLICY_TREE: forest_make(c->d, c->forest, m, out); break;
	case POLICY_VLLM_TRITON: vllm_triton(c->d, m, scenario, out); break;
	case POLICY_AITER_RULE: aiter_rule(c->d, m, scenario, out); break;
	case POLICY_BEST_FIXED:
	case POLICY_DEFAULT: make_fixed(c, m, out); break;
	case POLICY_ORACLE:
	case NUM_POLICIES: break;
	}
}

int policy_picks(const struct data *d, enum policy policy, const struct forest *f,
		 struct pick *picks)
{
	struct chooser *c = chooser_new(d, policy, f);
	for (int s = 0; c && s < d->n; s++) {
		struct decided made;
		chooser_make(c, &d->v[s], s, &made);
		decided_pick(d, &made, &picks[s]);
	}
	chooser_free(c);
	return c != NULL;
}
