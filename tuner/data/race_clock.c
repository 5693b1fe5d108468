/* clock.c - one clock for several races.
 *
 * A choice is raced in several stages, and between them a device drifts. All racers
 * of a race are timed in rounds against one reference, so that a cell's `us` is its
 * ratio to the reference x the reference's time, by one clock for the scenario and
 * phase: that of the race with most cells. A race keeps its own times where its
 * reference was another choice, as its cell of ratio 1 tells, or, where that cell has
 * been measured anew since, seems to have changed by more than MAX_DRIFT. */
#include "data.h"
#include "filling.h"
#include "harness/base/base.h"
#include <math.h>
#include <stdlib.h>

#define MAX_DRIFT 0.1

struct lap { /* a cell, and what it makes of its race's reference */
	struct cell *cell;
	int choice;
	double reference_us;
};

static int by_race(const void *pa, const void *pb)
{
	const struct lap *a = pa, *b = pb;
	if (a->cell->race != b->cell->race)
		return a->cell->race < b->cell->race ? -1 : 1;
	return (a->reference_us > b->reference_us) - (a->reference_us < b->reference_us);
}

/* Of laps[from..return) that are of one race. */
static int end_of_race(const struct lap *lap, int from, int n)
{
	int end = from;
	while (end < n && lap[end].cell->race == lap[from].cell->race)
		end++;
	return end;
}

/* Of a race's n laps; -1: measured anew since */
static int reference_of(const struct lap *lap, int n)
{
	for (int i = 0; i < n; i++)
		if (lap[i].cell->ratio == 1)
			return lap[i].choice;
	return -1;
}

static void set_clock(struct lap *lap, int n)
{
	double clock = NAN;
	int most = 0, reference = -1;
	qsort(lap, (size_t)n, sizeof *lap, by_race);
	for (int i = 0, end; i < n; i = end) {
		end = end_of_race(lap, i, n);
		if (end - i <= most)
			continue;
		most = end - i;
		clock = lap[(i + end) / 2].reference_us;
		reference = reference_of(lap + i, end - i);
	}
	for (int i = 0, end; i < n; i = end) {
		end = end_of_race(lap, i, n);
		const int own = reference_of(lap + i, end - i);
		const int alone = own >= 0 && end - i == 1 && own != reference;
		if (alone || (own >= 0 && reference >= 0 && own != reference) ||
		    fabs(lap[(i + end) / 2].reference_us / clock - 1) > MAX_DRIFT)
			continue;
		for (int k = i; k < end; k++) {
			lap[k].cell->us = lap[k].cell->ratio * clock;
			lap[k].cell->on_clock = 1;
		}
	}
}

/* Of the cells of a row. */
static void compare_races(struct data *d, int row, struct lap *lap)
{
	int n = 0;
	for (int i = d->row[row]; i < d->row[row + 1]; i++) {
		struct cell *cell = &d->cell[i];
		if (d->key[i] % NUM_PASSES == PASS_A && cell->outcome == OUTCOME_OK &&
		    cell->ratio > 0)
			lap[n++] = (struct lap){ cell, d->key[i] / NUM_PASSES,
						 cell->median_us / cell->ratio };
	}
	if (n)
		set_clock(lap, n);
}

int clocks_set(struct data *d)
{
	int most = 0;
	for (int r = 0; r < d->n * NUM_PHASES; r++)
		most = d->row[r + 1] - d->row[r] > most ? d->row[r + 1] - d->row[r] : most;
	struct lap *lap = malloc(sizeof *lap * ((size_t)most + 1));
	for (int r = 0; lap && r < d->n * NUM_PHASES; r++)
		compare_races(d, r, lap);
	free(lap);
	return lap != NULL;
}
