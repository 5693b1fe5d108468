/* sample_graph.c - the timing protocols, and graphs of a contender's calls over rotating page
 * sets. */
#include "measure.h"
#include "sample_graph.h"
#include "kernels/device/device.h"
#include "kernels/spec/status.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int protocol_for(struct protocol *p, const struct device_info *d, const char *preset)
{
	// clang-format off
	static const struct {
		const char *preset;
		enum backend backend;
		struct protocol p;
	} table[] = {
#define ROW(preset_, backend_, low, high, tie_, regret_, screen, sample, longest, calls, s) \
	{ preset_, backend_, { .min_rounds = low, .max_rounds = high, .tie = tie_, \
			       .regret = regret_, .screen_ratio = screen, .sample_us = sample, \
			       .longest_us = longest, .min_calls = calls, .seconds = s } },
/*	     preset   backend       rounds  tie    regret  screen sample longest calls seconds */
		ROW("smoke", BACKEND_GPU, 3,  6, 0.03,  0.01,   1.3,    300,  20000, 1,     3)
		ROW("quick", BACKEND_GPU, 3, 24, 0.01,  0.003,  1.3,    500,  20000, 2,    10)
		ROW("full",  BACKEND_GPU, 6, 48, 0.005, 0.001,  1.5,    500,  20000, 4,    30)
		ROW("smoke", BACKEND_CPU, 3,  6, 0.05,  0.02,   1.3,    500,   3000, 1,     3)
		ROW("quick", BACKEND_CPU, 3, 24, 0.02,  0.005,  1.3,   1000,   3000, 1,    10)
		ROW("full",  BACKEND_CPU, 6, 48, 0.01,  0.003,  1.5,   1000,   3000, 1,    60)
#undef ROW
	};
	// clang-format on
	const size_t least = d->backend == BACKEND_GPU ? 400u << 20 : 64u << 20;
	for (size_t i = 0; i < COUNT(table); i++) {
		if (strcmp(table[i].preset, preset) || table[i].backend != d->backend)
			continue;
		*p = table[i].p;
		p->name = d->backend == BACKEND_GPU ? "graph-rotating" : "rounds-rotating";
		p->cold_bytes = 2 * d->l2_bytes > least ? 2 * d->l2_bytes : least;
		return 1;
	}
	return 0;
}

void protocol_steady(struct protocol *p)
{
	p->name =
	    strcmp(p->name, "graph-rotating") ? "rounds-rotating-steady" : "graph-rotating-steady";
	p->settle_s = 1;
	p->hold_s = 1;
}

void graphs_free(struct graphs *g, struct device *dev)
{
	for (int i = 0; i < g->n; i++)
		dev->ops->graph_free(dev, g->v[i]);
	free(g->v);
	*g = (struct graphs){ 0 };
}

static enum attune_status record(struct device *dev, const struct timed_call *timed_call, int sets,
				 int first, int calls, struct graph **graph)
{
	char text[200];
	enum attune_status status = dev->ops->graph_begin(dev);
	if (status)
		return status;
	for (int i = 0; i < calls && !status; i++)
		status = timed_call->call(timed_call->arg, (first + i) % sets);
	if (!status)
		return dev->ops->graph_end(dev, graph);
	/* the failed call's error is kept; graph_end may overwrite it */
	snprintf(text, sizeof text, "%s", attune_last_error());
	if (!dev->ops->graph_end(dev, graph))
		dev->ops->graph_free(dev, *graph);
	return fail(status, "%s", text);
}

enum attune_status graphs_record(struct graphs *g, struct device *dev,
				 const struct timed_call *timed_call, int sets, int first,
				 int calls, int most)
{
	const int all = calls >= sets ? 1 : (sets + calls - 1) / calls, n = all < most ? all : most;
	enum attune_status status = ATTUNE_OK;
	*g = (struct graphs){ .calls = calls, .first = first };
	g->v = calloc((size_t)n, sizeof *g->v);
	if (!g->v)
		return fail(ATTUNE_NO_MEMORY, "no memory for %d graphs", n);
	for (int i = 0; i < n && !status; i++) {
		status = record(dev, timed_call, sets, (first + i * calls) % sets, calls, &g->v[i]);
		g->n += !status;
	}
	if (status)
		graphs_free(g, dev);
	return status;
}

int graphs_plan(const struct protocol *p, int sets, double us)
{
	const double most = fmin(fmax(floor(p->longest_us / us), 1), 100000);
	const double want = fmax(ceil(p->sample_us / us), fmax(p->min_calls, 1));
	const double whole = ceil(want / sets) * sets;
	return (int)fmin(whole <= 2 * want ? whole : want, most);
}

struct graph *graphs_next(const struct graphs *g, int sets, int *next_set)
{
	const int ahead = (*next_set - g->first + sets) % sets;
	const int i = (ahead + g->calls - 1) / g->calls % g->n;
	*next_set = (g->first + (i + 1) * g->calls) % sets;
	return g->v[i];
}
