/* sample_graph.h - a racer's calls as tapes; between sample_graph.c and race.c. */
#ifndef HARNESS_MEASURE_SAMPLE_GRAPH_H
#define HARNESS_MEASURE_SAMPLE_GRAPH_H

#include "kernels/attune.h"

struct device;
struct protocol;
struct racer;
struct tape;

/* Tape i begins with page set first + i x calls; all of them come by every set, a few by
 * those from `first` on. */
struct tapes {
	struct tape **v;
	int n, calls; /* calls: of each tape */
	int first;
};
/* After tapes of one call and again after longer ones: calls that a sample should
 * have when one takes `us`. Enough for sample_us, a multiple of the page sets where
 * that does not take twice as long. */
int tapes_plan(const struct protocol *, int sets, double us);
/* At most `most` tapes. */
enum attune_status tapes_record(struct tapes *, struct device *, const struct racer *, int sets,
				int first, int calls, int most);
/* The tape that begins with the sets used longest ago; *next_set: the race's. */
struct tape *tapes_next(const struct tapes *, int sets, int *next_set);
void tapes_free(struct tapes *, struct device *);

#endif
