/* SPDX-License-Identifier: Apache-2.0 */
/* fake_race.h - a device whose samples take the times of a script, and races on it; with cmocka. */
#include "harness/measure/race.h"
#include "kernels/spec/status.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#undef fail

enum { MOST_SAMPLES = 4000, MOST_CALLS = 512 };

struct graph {
	int who, calls, set[MOST_CALLS];
};

/* The log of events, in order, and the script. */
static struct {
	struct graph *recording;
	int live_tapes;
	struct {
		int who, calls, first_set;
	} sample[MOST_SAMPLES];
	int num_samples;
	double us[8];                       /* of a call of each contender */
	double (*script)(int who, int nth); /* or by this */
	int nth[8];                         /* samples of each */
	int lost;                           /* this contender's samples fail; -1: none */
	double share;
	int looked[8], right;
	int told[8], order_told[8], num_told;
	double longest_told;
	int looks;                               /* at the conditions, so far */
	int slow_looks, odd_look, warming_looks; /* these find something */
	double watts[8], joules, since;          /* the counter: of the contender that ran last */
	int counted;                             /* readings of the counter */
	int wandering;                           /* no two looks find the same clock */
	int blind;                               /* the power is not known */
	int last;
} fake;

static inline enum attune_status begin(struct device *dev)
{
	(void)dev;
	fake.recording = calloc(1, sizeof *fake.recording);
	fake.live_tapes++;
	return ATTUNE_OK;
}

static inline enum attune_status end(struct device *dev, struct graph **graph)
{
	(void)dev;
	*graph = fake.recording;
	return ATTUNE_OK;
}

static inline enum attune_status sample_graph_of_script(struct device *dev, struct graph *graph,
							double *ns)
{
	(void)dev;
	int who = graph->who;
	if (who == fake.lost)
		return fail(ATTUNE_DEVICE_ERROR, "an illegal address");
	double us = fake.script ? fake.script(who, fake.nth[who]) : fake.us[who];
	fake.nth[who]++;
	fake.last = who;
	const int at = fake.num_samples++;
	if (at < MOST_SAMPLES) {
		fake.sample[at].who = who;
		fake.sample[at].calls = graph->calls;
		fake.sample[at].first_set = graph->set[0];
	}
	*ns = us * 1e3 * graph->calls;
	return ATTUNE_OK;
}

static inline void release(struct device *dev, struct graph *graph)
{
	(void)dev;
	fake.live_tapes--;
	free(graph);
}

static inline void conditions(struct device *dev, struct conditions *now)
{
	(void)dev;
	const int nth = ++fake.looks;
	*now = (struct conditions){ .sm_mhz = 1500, .power_w = 600 };
	if (nth <= fake.slow_looks)
		now->sm_mhz = 1000;
	if (nth == fake.odd_look)
		now->sm_mhz = 1400;
	if (fake.wandering)
		now->sm_mhz = 1500 + nth % 3 * 60;
	if (nth <= fake.warming_looks)
		now->power_w = 100 * nth;
	if (fake.blind)
		now->power_w = 0;
}

static inline double joules(struct device *dev)
{
	(void)dev;
	const double s = seconds_now();
	fake.joules += fake.watts[fake.last] * (s - fake.since);
	fake.since = s;
	fake.counted++;
	return fake.joules;
}

static const struct device_ops fake_ops = {
	.name = "fake",
	.graph_begin = begin,
	.graph_end = end,
	.graph_play = sample_graph_of_script,
	.graph_free = release,
	.conditions = conditions,
	.joules = joules,
};

static struct device dev = { .ops = &fake_ops, .info.backend = BACKEND_GPU };
static int ids[8] = { 0, 1, 2, 3, 4, 5, 6, 7 };

static inline enum attune_status call(void *arg, int set)
{
	struct graph *t = fake.recording;
	t->who = *(int *)arg;
	assert_true(t->calls < MOST_CALLS);
	t->set[t->calls++] = set;
	return ATTUNE_OK;
}

static inline enum attune_status refuse(void *arg, int set)
{
	(void)arg, (void)set;
	return fail(ATTUNE_UNSUPPORTED, "too much shared memory");
}

static inline void before(void *arg, int i, double seconds)
{
	(void)arg, (void)i;
	fake.longest_told = fmax(fake.longest_told, seconds);
}

static inline void after(void *arg, int i)
{
	(void)arg;
	fake.told[i]++;
	fake.order_told[fake.num_told++] = i;
}

static inline int look_again(void *arg, int i)
{
	(void)arg;
	fake.looked[i]++;
	return fake.right;
}

static inline double share(const struct device *d)
{
	(void)d;
	return fake.share;
}

/* Calls of 100 us make samples of 10 calls. */
static const struct protocol usual = {
	.name = "test",
	.min_rounds = 6,
	.max_rounds = 12,
	.tie = 0.01,
	.regret = 0.002,
	.sample_us = 1000,
	.longest_us = 20000,
	.min_calls = 1,
	.screen_ratio = 1.3,
	.seconds = 60,
};

static struct timed_call timed_call[8];

static inline struct race race_of(int n)
{
	memset(&fake, 0, sizeof fake);
	fake.lost = -1;
	fake.share = 1;
	memset(timed_call, 0, sizeof timed_call);
	for (int i = 0; i < n; i++) {
		timed_call[i] = (struct timed_call){ .call = call, .arg = &ids[i] };
		fake.us[i] = 100;
	}
	return (struct race){ .protocol = &usual,
			      .v = timed_call,
			      .n = n,
			      .sets = 1,
			      .seed = 7,
			      .before = before,
			      .after = after,
			      .right = look_again,
			      .share = share };
}

/* The number of samples before the rounds: two calls of each, and one sample of the best to find
 * its number of calls. */
static inline int first_of_rounds(int n)
{
	return 2 * n + 1;
}
