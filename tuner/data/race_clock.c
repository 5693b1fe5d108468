/* SPDX-License-Identifier: Apache-2.0 */
/* race_clock.c - makes the times of a scenario's races comparable.
 *
 * A choice races in several stages, and the device drifts between them. All contenders of a race
 * are timed in rounds against one reference. So a cell's `us` is set to its ratio x the time that
 * the reference had in the race with most cells. A race keeps its own times if its reference (the
 * cell of ratio 1) was another choice, or if the reference's time drifted by more than
 * MAX_DRIFT. */
#include "data.h"
#include "filling.h"
#include "harness/base/base.h"
#include <math.h>
#include <stdlib.h>

#define MAX_DRIFT 0.1

struct timed {
	struct cell *cell;
	int choice;
	double reference_us; /* the reference's time in its race: median / ratio */
};

static int by_race(const void *pa, const void *pb)
{
	const struct timed *a = pa, *b = pb;
	if (a->cell->race != b->cell->race)
		return a->cell->race < b->cell->race ? -1 : 1;
	return (a->reference_us > b->reference_us) - (a->reference_us < b->reference_us);
}

/* v[from..return) are of one race. */
static int end_of_race(const struct timed *v, int from, int n)
{
	int end = from;
	while (end < n && v[end].cell->race == v[from].cell->race)
		end++;
	return end;
}

/* The reference of a race of n cells; -1: a later race has replaced its cell. */
static int reference_of(const struct timed *v, int n)
{
	for (int i = 0; i < n; i++)
		if (v[i].cell->ratio == 1)
			return v[i].choice;
	return -1;
}

static void set_clock(struct timed *v, int n)
{
	double clock = NAN;
	int most = 0, reference = -1;
	qsort(v, (size_t)n, sizeof *v, by_race);
	for (int i = 0, end; i < n; i = end) {
		end = end_of_race(v, i, n);
		if (end - i <= most)
			continue;
		most = end - i;
		clock = v[(i + end) / 2].reference_us;
		reference = reference_of(v + i, end - i);
	}
	for (int i = 0, end; i < n; i = end) {
		end = end_of_race(v, i, n);
		const int own = reference_of(v + i, end - i);
		const int alone = own >= 0 && end - i == 1 && own != reference;
		if (alone || (own >= 0 && reference >= 0 && own != reference) ||
		    fabs(v[(i + end) / 2].reference_us / clock - 1) > MAX_DRIFT)
			continue;
		for (int k = i; k < end; k++) {
			v[k].cell->us = v[k].cell->ratio * clock;
			v[k].cell->on_clock = 1;
		}
	}
}

static void compare_races(struct data *d, int row, struct timed *v)
{
	int n = 0;
	for (int i = d->row[row]; i < d->row[row + 1]; i++) {
		struct cell *cell = &d->cell[i];
		if (d->cell[i].key % NUM_PASSES == PASS_A && cell->outcome == OUTCOME_OK &&
		    cell->ratio > 0)
			v[n++] = (struct timed){ cell, d->cell[i].key / NUM_PASSES,
						 cell->median_us / cell->ratio };
	}
	if (n)
		set_clock(v, n);
}

int clocks_set(struct data *d)
{
	int most = 0;
	for (int r = 0; r < d->n * NUM_PHASES; r++)
		most = d->row[r + 1] - d->row[r] > most ? d->row[r + 1] - d->row[r] : most;
	struct timed *v = malloc(sizeof *v * ((size_t)most + 1));
	for (int r = 0; v && r < d->n * NUM_PHASES; r++)
		compare_races(d, r, v);
	free(v);
	return v != NULL;
}

/* ---- comparing ------------------------------------------------------------------------ */
/* Contenders of one race are timed in the same rounds. A time of pass A and one of pass B are never
 * comparable. */
double cells_ratio(const struct cell *a, const struct cell *b)
{
	if (a->outcome != OUTCOME_OK || b->outcome != OUTCOME_OK)
		return NAN;
	if (a->race == b->race)
		return a->ratio > 0 && b->ratio > 0 ? a->ratio / b->ratio
						    : a->median_us / b->median_us;
	return a->on_clock && b->on_clock ? a->us / b->us : NAN;
}

const char *ratio_words(const struct data *d, double ratio, double us)
{
	if (isnan(ratio))
		return "other race";
	if (fabs(log(ratio)) <= log1p(data_noise(d, us)))
		return "tie";
	return ratio > 1 ? "slower" : "faster";
}
