/* tapes.h - a racer's calls as tapes; between tapes.c and measure.c. */
#ifndef TAPES_H
#define TAPES_H

#include "harness.h"

/* Tape i begins with page set i x calls; together they come by every set. */
struct tapes {
	struct tape **v;
	int n, calls; /* calls: of each tape */
};
/* After tapes of one call and again after longer ones: calls that a sample should
 * have when one takes `us`. Enough for sample_us, a multiple of the page sets where
 * that is not too long. */
int tapes_plan(const struct protocol *, int sets, double us);
enum attune_status tapes_record(struct tapes *, struct device *, const struct racer *, int sets,
				int calls);
/* The tape that begins with the sets used longest ago; *next_set: the race's. */
struct tape *tapes_next(const struct tapes *, int sets, int *next_set);
void tapes_free(struct tapes *, struct device *);

#endif
