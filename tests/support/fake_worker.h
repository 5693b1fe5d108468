/* SPDX-License-Identifier: Apache-2.0 */
/* fake_worker.h - replaces harness/worker/worker.c: makes up each contender's time,
 * so that commands that measure do not depend on this machine. It defines all functions of worker.h,
 * so that the linker leaves those files out. */
#include "harness/base/base.h"
#include "harness/measure/measure.h"
#include "harness/worker/worker.h"
#include <math.h>
#include <stdlib.h>

static struct {
	int races, contenders; /* so far */
	int noisy_races; /* the first so many have noise in all contenders but the reference's */
	double ratio[8]; /* of the control of each race; 0: 1 */
	int backwards;   /* the last contender takes the least, in place of the first */
	struct hello hello;
} fake;

struct worker {
	int unused;
};

struct worker *worker_new(const struct worker_setup *setup)
{
	(void)setup;
	return calloc(1, sizeof(struct worker));
}

void worker_free(struct worker *w)
{
	free(w);
}

const char *worker_text(const struct worker *w)
{
	(void)w;
	return "";
}

int worker_hello(struct worker *w, struct hello *hello)
{
	(void)w;
	*hello = fake.hello;
	return 1;
}

static struct measurement time_of(int contender, int n, int is_noisy)
{
	contender = fake.backwards ? n - 1 - contender : contender;
	struct measurement m = { .outcome = is_noisy ? OUTCOME_NOISY : OUTCOME_OK,
				 .samples = 3,
				 .calls = 1,
				 .min_us = 10 + contender,
				 .median_us = 10 + contender,
				 .ci_us = NAN,
				 .ratio = 1 + contender / 10.0,
				 .stopped = "rounds" };
	for (int i = 0; i < 3; i++)
		m.us[i] = (float)m.median_us;
	if (is_noisy)
		snprintf(m.detail, sizeof m.detail, "a test said so");
	return m;
}

enum race_end worker_race(struct worker *w, const struct order *order, const struct listener *l)
{
	const int race = fake.races++, is_noisy = race < fake.noisy_races;
	const double off = race < 8 ? fake.ratio[race] : 0;
	struct control control = { .rounds = 3, .median_us = 10, .ratio = off > 0 ? off : 1 };
	(void)w;
	fake.contenders += order->n;
	for (int i = order->n - 1; i >= 0; i--) { /* the reference comes last */
		const struct measurement m = time_of(
		    i, order->n, (is_noisy && order->v[i].place[0]) || noise_in_control(&control));
		l->passed(l->arg, order, i);
		if (!l->result(l->arg, order, i, &m, 0))
			return RACE_STOPPED;
	}
	if (order->with_control && !l->control(l->arg, order, &control))
		return RACE_STOPPED;
	return RACE_ENDED;
}

/* This machine's CPU. 0: it cannot be opened. */
static int fake_worker_begin(void)
{
	struct device dev;
	if (device_open(&dev, "cpu"))
		return 0;
	fake.hello.info = dev.info;
	fake.hello.dram_gbps = 1e6; /* no choice is too slow to be tried */
	device_close(&dev);
	return 1;
}
