/* sample_graph.h - a contender's calls as graphs; between sample_graph.c and race.c. */
#ifndef HARNESS_MEASURE_SAMPLE_GRAPH_H
#define HARNESS_MEASURE_SAMPLE_GRAPH_H

#include "kernels/attune.h"

struct device;
struct protocol;
struct timed_call;
struct graph;

/* Graph i begins with page set first + i x calls; all of them come by every set, a few by
 * those from `first` on. */
struct graphs {
	struct graph **v;
	int n, calls; /* calls: of each graph */
	int first;
};
/* After graphs of one call and again after longer ones: calls that a sample should
 * have when one takes `us`. Enough for sample_us, a multiple of the page sets where
 * that does not take twice as long. */
int graphs_plan(const struct protocol *, int sets, double us);
/* At most `most` graphs. */
enum attune_status graphs_record(struct graphs *, struct device *, const struct timed_call *,
				 int sets, int first, int calls, int most);
/* The graph that begins with the sets used longest ago; *next_set: the race's. */
struct graph *graphs_next(const struct graphs *, int sets, int *next_set);
void graphs_free(struct graphs *, struct device *);

#endif
