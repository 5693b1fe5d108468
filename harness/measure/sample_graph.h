/* sample_graph.h - a contender's calls as graphs. */
#ifndef HARNESS_MEASURE_SAMPLE_GRAPH_H
#define HARNESS_MEASURE_SAMPLE_GRAPH_H

#include "kernels/attune.h"

struct device;
struct protocol;
struct timed_call;
struct graph;

/* Graph i begins with page set first + i x calls. A full set of graphs covers all page sets. */
struct graphs {
	struct graph **v;
	int n, calls; /* calls: of each graph */
	int first;
};
/* Calls in a sample if one takes `us`: enough for sample_us, rounded up to a multiple of the
 * page sets unless that more than doubles it. */
int graphs_plan(const struct protocol *, int sets, double us);
/* At most `most` graphs. */
enum attune_status graphs_record(struct graphs *, struct device *, const struct timed_call *,
				 int sets, int first, int calls, int most);
/* The graph that begins with the sets used longest ago. *next_set is shared by the race. */
struct graph *graphs_next(const struct graphs *, int sets, int *next_set);
void graphs_free(struct graphs *, struct device *);

#endif
