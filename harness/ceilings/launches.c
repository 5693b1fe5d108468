/* SPDX-License-Identifier: Apache-2.0 */
/* launches.c - measures the cost of a launch with an almost empty kernel (gpu/ceilings/launch.cu):
 * in a graph, as a step in a chain of STEPS, and in a stream, where the host may be the limit. */
#include "suite.h"
#include "harness/base/base.h"
#include "harness/compile/compile.h"
#include "kernels/attune.h"
#include "kernels/gpu/ceilings/roofline.h"
#include "kernels/spec/space.h"
#include "kernels/spec/status.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

enum { STEPS = 40, CALLS = 400, TIMES = 7, WARM = 2 };

/* ---- steps --------------------------------------------------------------------------------- */

enum { IN_TURN, EARLY_END, EARLY_TOP, NUM_CODES };

struct steps {
	struct device *dev;
	struct code *code[NUM_CODES];
	int *words; /* device: a zero, and the output of kernels */
	int which, blocks, idle;
};

static enum attune_status step(void *arg, int i, void *stream)
{
	const struct steps *s = arg;
	const struct launch_args args = { .runs = s->idle ? s->words : NULL, .to = s->words + 1 };
	const struct geometry g = {
		.x = (unsigned)s->blocks, .y = 1, .z = 1, .threads = LAUNCH_THREADS, .segments = 1
	};
	(void)i;
	return (s->which == IN_TURN ? s->dev->ops->launch : s->dev->ops->launch_early)(
	    s->dev, s->code[s->which], &g, &args, sizeof args, stream);
}

/* Forks into two streams, launches on each, and joins them. */
static enum attune_status fork_join(void *arg, int i, void *stream)
{
	const struct steps *s = arg;
	void *side;
	enum attune_status status = s->dev->ops->fork(s->dev, stream, &side);
	if (status)
		return status;
	status = step(arg, i, stream);
	const enum attune_status beside =
	    side == stream ? fail(ATTUNE_UNSUPPORTED, "no stream to spare") : step(arg, i, side);
	const enum attune_status joined = s->dev->ops->join(s->dev, stream, side);
	return status ? status : beside ? beside : joined;
}

/* us per call: of the host alone, and until all calls are done. */
static int in_stream(struct steps *s, double *host, double *all)
{
	double hosts[TIMES], alls[TIMES];
	void *stream = s->dev->ops->stream(s->dev);
	for (int p = -WARM; p < TIMES; p++) {
		const double begin = 1e6 * seconds_now();
		for (int i = 0; i < CALLS; i++)
			if (step(s, i, stream))
				return 0;
		const double issued = 1e6 * seconds_now();
		if (s->dev->ops->wait(s->dev, stream))
			return 0;
		hosts[p < 0 ? 0 : p] = (issued - begin) / CALLS;
		alls[p < 0 ? 0 : p] = (1e6 * seconds_now() - begin) / CALLS;
	}
	*host = median(hosts, TIMES);
	*all = median(alls, TIMES);
	return 1;
}

/* ---- all of them --------------------------------------------------------------------------- */

static const char *const early_names[NUM_CODES] = { "", " early=end", " early=top" };

static void in_graph(struct roofline *r, struct steps *s)
{
	for (s->which = IN_TURN; s->which < NUM_CODES; s->which++)
		for (int wide = 0; s->code[s->which] && wide < 2; wide++) {
			s->blocks = wide ? r->dev->info.units : 1;
			roofline_add(r, "launch", roofline_us(r->dev, STEPS, step, s), "us",
				     "in=graph blocks=%d%s", s->blocks, early_names[s->which]);
		}
	s->which = IN_TURN;
	s->idle = 1;
	roofline_add(r, "launch", roofline_us(r->dev, STEPS, step, s), "us",
		     "in=graph blocks=%d idle=yes", s->blocks);
	s->idle = 0;
	s->blocks = 1;
	roofline_add(r, "launch", roofline_us(r->dev, STEPS, fork_join, s), "us",
		     "in=graph blocks=1 fork_join=yes");
}

static struct code *load(struct roofline *r, int early)
{
	char path[PATH_MAX], flags[16];
	struct code *code = NULL;
	snprintf(path, sizeof path, "%s/gpu/ceilings/launch.cu", source_root());
	snprintf(flags, sizeof flags, "-DEARLY=%d", early);
	if (jit_load_source(r->dev, &code, path, flags, r->dev->info.arch))
		complain("%s %s: %s", path, flags, attune_last_error());
	if (!code && !r->failed)
		r->failed = "launch";
	return code;
}

void roofline_launches(struct roofline *r)
{
	struct steps s = { .dev = r->dev, .blocks = 1 };
	const struct device_info *d = &r->dev->info;
	const int is_early = r->dev->ops->launch_early && atoi(d->arch + 3) >= 90;
	void *words = NULL;
	double host, all;
	if (r->dev->ops->alloc(r->dev, &words, 2 * sizeof(int)) ||
	    r->dev->ops->fill(r->dev, words, 0, 2 * sizeof(int))) {
		complain("launches: %s", attune_last_error());
		return;
	}
	s.words = words;
	for (int i = 0; i < (is_early ? NUM_CODES : 1); i++)
		s.code[i] = load(r, i);
	if (s.code[IN_TURN] && in_stream(&s, &host, &all)) {
		roofline_add(r, "launch", host, "us", "in=stream blocks=1 time=host");
		roofline_add(r, "launch", all, "us", "in=stream blocks=1 time=all");
	}
	if (s.code[IN_TURN])
		in_graph(r, &s);
	for (int i = 0; i < NUM_CODES; i++)
		if (s.code[i])
			r->dev->ops->unload(r->dev, s.code[i]);
	r->dev->ops->release(r->dev, words);
}
