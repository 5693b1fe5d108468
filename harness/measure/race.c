/* SPDX-License-Identifier: Apache-2.0 */
/* race.c - runs a race: rounds of samples, elimination, and the decision to stop.
 *
 *   screen   A B C D E F   one call each; D takes twice the best: eliminated (screening.c)
 *   round 1  B F A E C     each letter is one run of one graph, one sample (sample.c);
 *                          E is slow again, by screen_ratio: eliminated
 *   round 2  C F A B       F is beaten: eliminated (elimination.c, retire.c)
 *   ...                    until the rest is tied, or more rounds would not pay
 *
 * All samples have the same number of calls, so the cost of starting a graph is the same for
 * all. The order is shuffled each round, so drift affects all alike. */
#include "measure.h"
#include "race.h"
#include "harness/base/base.h"
#include "kernels/attune.h"
#include "kernels/spec/status.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { LEAST = LEAST_SAMPLES /* rounds, whatever they cost */ };

static const double slow_in_screen = 1.1; /* least ratio there to be dropped after round 1 */

/* After round 1: drops what is slow both in the screen (one call) and in round 1 (a graph). */
static enum attune_status drop_slow(struct race_state *c)
{
	int who;
	double best = INFINITY;
	const double best_probe = race_best_probe(c, &who);
	enum attune_status status = ATTUNE_OK;
	for (int i = 0; i < c->race->n; i++)
		if (c->call_state[i].in)
			best = fmin(best, c->call_state[i].by_round[0]);
	for (int i = c->race->n - 1; i > 0 && !status; i--) {
		const struct call_state *r = &c->call_state[i];
		if (r->in && r->probe_clean && r->share[0] >= clean_share &&
		    r->probe_us > slow_in_screen * best_probe &&
		    r->by_round[0] > c->race->protocol->screen_ratio * best)
			status = race_retire(c, i, "slow");
	}
	return status;
}

static void compare_all(struct race_state *c)
{
	for (int i = 0; i < c->contenders; i++) {
		double *x = c->log_us + i * COLUMNS;
		(void)race_counted_times(&c->call_state[i], c->rounds, x);
		for (int k = 0; k < c->rounds; k++)
			x[k] = log(x[k]);
		c->in[i] = (char)c->call_state[i].in;
	}
	compare_contenders(&c->comparison, c->score, c->log_us, c->in, c->contenders, c->rounds,
			   c->contenders > c->race->n ? c->race->n : -1,
			   log1p(c->race->protocol->tie), c->scratch);
	for (int i = 0; i < c->race->n; i++)
		if (c->in[i]) {
			c->call_state[i].m->lead = exp(c->score[i].behind);
			c->call_state[i].m->lead_low = exp(c->score[i].low);
		}
}

/* Rounds 2, 3, 6, 12, 24, 48: elimination.c explains why so few. */
static int may_eliminate(int rounds)
{
	return rounds == 2 || (rounds % 3 == 0 && !(rounds / 3 & (rounds / 3 - 1)));
}

static enum attune_status drop_beaten(struct race_state *c)
{
	enum attune_status status = ATTUNE_OK;
	for (int i = c->race->n - 1; i >= 0 && !status; i--) {
		if (!c->call_state[i].in || !c->score[i].beaten)
			continue;
		if (i)
			status = race_retire(c, i, "beaten");
		else
			race_rest_reference(c);
	}
	return status;
}

/* After a round. Sets *why if the race is over. */
static enum attune_status eliminate(struct race_state *c, const char **why)
{
	const struct protocol *p = c->race->protocol;
	enum attune_status status = c->rounds == 1 ? drop_slow(c) : ATTUNE_OK;
	int left = 0;
	compare_all(c);
	if (!status && may_eliminate(c->rounds)) {
		status = drop_beaten(c);
		compare_all(c);
	}
	for (int i = 0; i < c->race->n; i++)
		left += c->call_state[i].in;
	if (c->rounds < p->min_rounds)
		return status;
	if (left > 1 && c->comparison.tied)
		*why = "tie";
	else if (left < 2 || c->comparison.regret < p->regret)
		*why = "settled";
	return status;
}

/* Expected time of the next round. */
static double round_us(const struct race_state *c)
{
	double us = 0;
	for (int i = 0; i < c->contenders; i++)
		if (c->call_state[i].in)
			us += c->call_state[i].us * c->call_state[i].calls;
	return us;
}

static enum attune_status run_rounds(struct race_state *c, const char **why)
{
	const struct race *race = c->race;
	const int asked = race->fixed_rounds ? race->fixed_rounds : race->protocol->max_rounds;
	const int most = asked < MAX_SAMPLES ? asked : MAX_SAMPLES;
	enum attune_status status = ATTUNE_OK;
	double us;
	*why = NULL;
	while (!status && !*why && c->rounds < most && (us = round_us(c)) > 0) {
		const double begin = race_spent(c);
		status = race_round(c);
		const double took = race_spent(c) - begin;
		if (!status && race->fixed_rounds)
			compare_all(c);
		else if (!status)
			status = eliminate(c, why);
		if (!*why && c->rounds >= LEAST &&
		    race_spent(c) + took * round_us(c) / us > race->protocol->seconds)
			*why = "budget";
	}
	if (!*why)
		*why = "rounds";
	return status;
}

/* Rechecks the survivors and the reference. */
static enum attune_status finish(struct race_state *c, const char *why)
{
	enum attune_status status = ATTUNE_OK;
	for (int i = 0; i < c->race->n && !status; i++) {
		struct measurement *m = c->call_state[i].m;
		if (!c->call_state[i].alive)
			continue;
		if (!*m->stopped)
			snprintf(m->stopped, sizeof m->stopped, "%s", why);
		status = race_recheck_rounds(c, i);
	}
	return status;
}

static enum attune_status run_race(struct race_state *c)
{
	const char *why;
	enum attune_status status;
	c->screening = 1;
	status = race_screen(c);
	c->screening = 0;
	if (!status)
		status = race_settle(c);
	if (!status)
		status = run_rounds(c, &why);
	if (!status)
		status = race_measure_solo_power(c);
	if (!status)
		status = finish(c, why);
	if (!status)
		race_report(c);
	return status;
}

static int race_alloc(struct race_state *c)
{
	const size_t n = (size_t)c->race->n + 1;
	c->call_state = calloc(n, sizeof *c->call_state);
	c->order = calloc(n, sizeof *c->order);
	c->log_us = calloc(n * MAX_SAMPLES, sizeof *c->log_us);
	c->scratch = calloc(n * MAX_SAMPLES, sizeof *c->scratch);
	c->in = calloc(n, 1);
	c->score = calloc(n, sizeof *c->score);
	if (c->dev->info.backend == BACKEND_GPU)
		c->usual_mhz = c->dev->info.clock_mhz;
	for (int i = 0; c->call_state && i < c->race->n; i++) {
		struct measurement *m = &c->race->v[i].m;
		*m = (struct measurement){ .outcome = OUTCOME_OK, .lead = NAN, .lead_low = NAN };
		c->call_state[i] = (struct call_state){ .of = i, .m = m };
	}
	return c->call_state && c->order && c->log_us && c->scratch && c->in && c->score;
}

enum attune_status measure_race(struct device *dev, const struct race *race)
{
	struct race_state c = { .dev = dev,
				.race = race,
				.contenders = race->n,
				.random = race->seed,
				.began = seconds_now(),
				.budget_began = budget_now() };
	enum attune_status status;
	if (race->control)
		*race->control = (struct control){ 0 };
	status = race_alloc(&c) ? run_race(&c)
				: fail(ATTUNE_NO_MEMORY, "no memory for a race of %d", race->n);
	for (int i = 0; c.call_state && i < c.contenders; i++)
		graphs_free(&c.call_state[i].graphs, dev);
	free(c.call_state);
	free(c.order);
	free(c.log_us);
	free(c.scratch);
	free(c.in);
	free(c.score);
	return status;
}
