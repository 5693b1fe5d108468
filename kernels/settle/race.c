/* SPDX-License-Identifier: Apache-2.0 */
/* race.c - times plans of one batch against each other (race.h).
 *
 *   one call each          a plan that takes much longer than the first is out
 *   rounds 1 to 3          A B C A'   each letter is one sample: some calls over sets of their own.
 *                          A A' C B   A' is the first once more: what it differs by is noise.
 *                          C A' A B   Each other round is run backwards
 *   rounds 4 to 10         A B A'     B: the fastest so far, if it is faster than the first. Only of
 *                                     the last race; they alone decide, since of several plans the
 *                                     fastest in three rounds is often one that was lucky
 *
 * No call finds keys in a cache. Where the calls of a sample read enough bytes each sample goes
 * once, or several times, round the same sets; else the caches are flushed between samples. On a
 * GPU a sample is one replay of a graph, recorded on the device's own stream, so that it takes in
 * no launches of other threads. */
#include "race.h"
#include "policy.h"
#include "settled.h"
#include "stage.h"
#include "kernels/spec/status.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { MOST_CALLS = 128, MOST_REPLAYS = 8, MOST_PLAYS = 20, LANES = MOST_RACED + 1 };
static const double gap_us = 4;        /* between two launches of one call; a graph has none */
static const double sample_us = 250;   /* no sample needs to be longer; of the last race twice */
static const double share_timed = 0.6; /* of the time that is left, for samples */
static const double record_us = 8;     /* about a call's part in making a graph */
static const double stretch = 1.5;     /* of a sample, where that spares the flush */
static const double replay_us = 60;    /* about a flush and the start of a replay */

struct lane {
	const attune_plan *plan;
	struct graph *graph;
	int is_out;
	double us[MOST_ROUNDS];
};

struct timing {
	struct race *race;
	const struct stage *stage;
	struct device *dev;
	struct lane lane[LANES]; /* the plans, then A/A */
	int calls, turn;         /* of a sample; the sets that they go round */
	int replays;             /* of a sample */
	int is_flushed;
	double sample_s; /* the longest time of a sample, flush included */
};

double settle_clock(void)
{
	struct timespec t = { 0 };
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- samples --------------------------------------------------------------------------------- */

static enum attune_status timed_call(const struct timing *t, const struct lane *l, int set,
				     double *us)
{
	const struct device_ops *ops = t->dev->ops;
	void *stream = ops->stream(t->dev);
	double ns = 0;
	enum attune_status status =
	    ops->time_begin ? ops->time_begin(t->dev) : ops->wait(t->dev, stream);
	const double begin = settle_clock();
	if (!status)
		status = stage_run(t->stage, l->plan, set);
	if (!status)
		status = ops->time_end ? ops->time_end(t->dev, &ns) : ops->wait(t->dev, stream);
	*us += ops->time_end ? ns / 1e3 : (settle_clock() - begin) * 1e6;
	return status;
}

/* Adds the time of one replay, or of as many single calls. */
static enum attune_status play(const struct timing *t, const struct lane *l, double *us)
{
	enum attune_status status = t->is_flushed ? stage_flush(t->stage) : ATTUNE_OK;
	double ns = 0;
	for (int i = 0; i < t->calls && !l->graph && !status; i++)
		status = timed_call(t, l, i % t->turn, us);
	if (l->graph && !status)
		status = t->dev->ops->graph_play(t->dev, l->graph, &ns);
	*us += ns / 1e3;
	return status;
}

/* Goes on while the device reports that nothing took any time, as coarse clocks do. */
static enum attune_status sample(struct timing *t, struct lane *l, double *us)
{
	const double begin = settle_clock();
	enum attune_status status = ATTUNE_OK;
	int plays = 0;
	*us = 0;
	while (!status && (plays < t->replays || (!(*us > 0) && plays < MOST_PLAYS))) {
		status = play(t, l, us);
		plays++;
	}
	*us /= (double)plays * t->calls;
	t->sample_s = fmax(t->sample_s, settle_clock() - begin);
	return status;
}

static enum attune_status record(const struct timing *t, struct lane *l)
{
	const struct device_ops *ops = t->dev->ops;
	enum attune_status status = ops->graph_begin(t->dev);
	char text[400];
	if (status)
		return status;
	for (int i = 0; i < t->calls && !status; i++)
		status = stage_run(t->stage, l->plan, i % t->turn);
	if (!status)
		return ops->graph_end(t->dev, &l->graph);
	/* the failed call's line is kept; graph_end may overwrite it */
	snprintf(text, sizeof text, "%s", attune_last_error());
	if (!ops->graph_end(t->dev, &l->graph))
		ops->graph_free(t->dev, l->graph);
	l->graph = NULL;
	return fail(status, "%s", text);
}

/* ---- before the rounds --------------------------------------------------------------------- */

static int left_in(const struct timing *t)
{
	int n = 0;
	for (int i = 0; i <= t->race->n; i++)
		n += !t->lane[i].is_out;
	return n;
}

static int in_time(const struct timing *t, double seconds)
{
	return settle_clock() + seconds <= t->race->until;
}

/* Calls that read enough bytes that nothing of the first is left in a cache. */
static double calls_to_cool(const struct timing *t)
{
	return fmax(ceil((double)t->stage->flush / stage_call_bytes(t->stage)), 1);
}

/* One call of each, after one that loads its code; of a slow one a second, since the first may
 * have been disturbed. *fits: whether the rounds do, into the time that is left. */
static enum attune_status look(struct timing *t, int *fits)
{
	struct race *r = t->race;
	enum attune_status status = ATTUNE_OK;
	double sum = 0, first = 0;
	t->calls = t->turn = t->replays = 1;
	t->is_flushed = calls_to_cool(t) > 1;
	*fits = 1;
	for (int i = 0; i < r->n && *fits && !status; i++) {
		struct lane *l = &t->lane[i];
		double again = 0;
		status = stage_run(t->stage, l->plan, 0);
		const double begin = settle_clock();
		if (!status)
			status = sample(t, l, &r->us[i]);
		if (!status && r->us[i] > r->slow * r->us[0] + gap_us) {
			status = sample(t, l, &again);
			r->us[i] = fmin(r->us[i], again);
		}
		l->is_out = r->us[i] > r->slow * r->us[0] + gap_us;
		first = i ? first : settle_clock() - begin;
		sum += l->is_out ? 0 : settle_clock() - begin;
		*fits = in_time(t, FIRST_ROUNDS * (sum + first));
	}
	return status;
}

static int is_recorded(const struct timing *t)
{
	return !t->stage->eager && t->dev->info.backend == BACKEND_GPU;
}

/* Two streams may start in another order behind a call than at a graph's begin. */
static int least_calls(const struct timing *t)
{
	int on_streams = 0;
	for (int i = 0; i < t->race->n; i++)
		on_streams |= !t->lane[i].is_out && t->lane[i].plan->how == ATTUNE_STREAMS;
	return is_recorded(t) && on_streams ? 2 : 1;
}

/* How many calls make a sample. */
static void choose_calls(struct timing *t)
{
	const int sets = stage_sets(t->stage), left = left_in(t);
	const int samples =
	    FIRST_ROUNDS * left + (t->race->is_last ? (MOST_ROUNDS - FIRST_ROUNDS) * 3 : 0);
	const double cool = calls_to_cool(t), us = fmax(t->race->us[0], 0.1);
	const double longest = t->race->is_last ? 2 * sample_us : sample_us;
	const double left_us = fmax(t->race->soon - settle_clock(), 0) * 1e6;
	const double most = share_timed * left_us / samples;
	/* a call, with its share of the recording */
	const double cost = us + (is_recorded(t) ? record_us * left / samples : 0);
	const int least = least_calls(t), fits = least * cost * FIRST_ROUNDS * left < left_us;
	double calls =
	    fmin(fmax(floor(fmin(longest / us, most / cost)), fits ? least : 1), MOST_CALLS);
	if (calls < cool && cool <= MOST_CALLS && cool * cost <= stretch * most)
		calls = cool;
	t->is_flushed = calls < cool || sets < cool;
	t->turn = t->is_flushed ? sets : (int)cool;
	t->calls = (int)(t->is_flushed ? fmin(calls, sets) : floor(calls / cool) * cool);
	if (t->is_flushed)
		t->replays = (int)fmin(fmax(fmin(longest, most) / (t->calls * us + replay_us), 1),
				       MOST_REPLAYS);
	t->sample_s = t->replays * (t->calls * us + t->is_flushed * replay_us) * 1e-6;
}

static enum attune_status record_all(struct timing *t)
{
	enum attune_status status = ATTUNE_OK;
	for (int i = 0; i <= t->race->n && is_recorded(t) && !status; i++)
		if (!t->lane[i].is_out)
			status = record(t, &t->lane[i]);
	return status;
}

/* ---- rounds -------------------------------------------------------------------------------- */

double settle_median(const double *x, int n)
{
	double sorted[MOST_ROUNDS];
	for (int i = 0; i < n; i++) {
		int at = i;
		for (; at && sorted[at - 1] > x[i]; at--)
			sorted[at] = sorted[at - 1];
		sorted[at] = x[i];
	}
	return (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
}

/* A lane's time to the first's, the median over the rounds from one on. */
static double ratio_of(const struct timing *t, int lane, int from)
{
	double x[MOST_ROUNDS];
	for (int i = from; i < t->race->rounds; i++)
		x[i - from] = t->lane[lane].us[i] / t->lane[0].us[i];
	return settle_median(x, t->race->rounds - from);
}

/* Rounds up to `most` of all lanes that are in. A round that is not complete does not count. */
static enum attune_status run_rounds(struct timing *t, int most)
{
	struct race *r = t->race;
	const int lanes = r->n + 1;
	enum attune_status status = ATTUNE_OK;
	while (r->rounds < most) {
		for (int k = 0; k < lanes && !status; k++) {
			const int at = r->rounds % 2 ? lanes - 1 - k : k;
			struct lane *l = &t->lane[(at + r->rounds) % lanes];
			if (l->is_out)
				continue;
			if (!in_time(t, t->sample_s))
				return ATTUNE_OK;
			status = sample(t, l, &l->us[r->rounds]);
		}
		if (status)
			return status;
		r->rounds++;
	}
	return status;
}

/* The fastest of the lanes that are in, 0 if none is faster than the first. */
static int fastest_of(const struct timing *t)
{
	int best = 0;
	double least = 1;
	for (int i = 1; i < t->race->n; i++)
		if (!t->lane[i].is_out && ratio_of(t, i, 0) < least) {
			least = ratio_of(t, i, 0);
			best = i;
		}
	return best;
}

/* The first's median, and the others' by their ratios, whatever the clock did between rounds. */
static void take_medians(struct timing *t, int from)
{
	struct race *r = t->race;
	r->us[0] = settle_median(t->lane[0].us + from, r->rounds - from);
	for (int i = 1; i < r->n; i++)
		if (!t->lane[i].is_out)
			r->us[i] = r->us[0] * ratio_of(t, i, from);
	r->again = r->us[0] * ratio_of(t, r->n, from);
}

static void decide(struct timing *t)
{
	struct race *r = t->race;
	const double noise = AGAIN_FACTOR_HALVES * fabs(r->again / r->us[0] - 1) / 2;
	const double ratio = r->us[r->fastest] / r->us[0];
	r->winner = ratio < 1 - fmax(SWITCH_MARGIN / 1e3, noise) ? r->fastest : 0;
}

/* Rounds of the fastest and the first; what the others took stays a share of the first's time. */
static enum attune_status confirm(struct timing *t)
{
	struct race *r = t->race;
	const double before = r->us[0];
	for (int i = 1; i < r->n; i++)
		t->lane[i].is_out = i != r->fastest;
	const enum attune_status status = run_rounds(t, MOST_ROUNDS);
	if (status || r->rounds < 2 * FIRST_ROUNDS)
		return status;
	take_medians(t, FIRST_ROUNDS);
	for (int i = 1; i < r->n; i++)
		if (t->lane[i].is_out)
			r->us[i] *= r->us[0] / before;
	return status;
}

static enum attune_status time_all(struct timing *t)
{
	int fits;
	enum attune_status status = look(t, &fits);
	if (status || !fits || left_in(t) < 3)
		return status;
	choose_calls(t);
	status = record_all(t);
	if (!status)
		status = run_rounds(t, FIRST_ROUNDS);
	if (status || t->race->rounds < FIRST_ROUNDS) {
		t->race->rounds = 0;
		return status;
	}
	t->race->fastest = fastest_of(t);
	take_medians(t, 0);
	if (t->race->is_last && t->race->fastest)
		status = confirm(t);
	if (!status)
		decide(t);
	return status;
}

enum attune_status settle_race(struct race *r)
{
	struct timing t = { .race = r, .stage = r->stage, .dev = r->stage->dev };
	r->fastest = r->winner = r->rounds = 0;
	for (int i = 0; i <= r->n; i++)
		t.lane[i].plan = r->plan[i < r->n ? i : 0];
	const enum attune_status status = time_all(&t);
	for (int i = 0; i <= r->n; i++)
		if (!is_time(i < r->n ? r->us[i] : r->again))
			r->fastest = r->winner = r->rounds = 0;
	for (int i = 0; i <= r->n; i++)
		if (t.lane[i].graph)
			t.dev->ops->graph_free(t.dev, t.lane[i].graph);
	return status;
}
