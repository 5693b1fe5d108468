/* SPDX-License-Identifier: Apache-2.0 */
/* segment_fit.c - fits the costs by which the library chooses SEGMENTS (kernels/segments.h).
 *
 * Least squares fit times (least_squares.c), and the number of segments with the least fitted time is
 * often not the fastest one: its neighbours differ by less than the fit's error. So the costs are
 * fitted again to what matters, the loss of the numbers that they choose. Coordinate descent begins
 * at the coefficients of least squares and takes each step that lowers the loss, with every number
 * of slots, every start, and factors on the three costs of a cut. On an H200's decodes of ring, eight
 * rows and four warps, this and the idle slots of clusters lower the loss in rows held out from 1.8 to
 * 1.3 % at head size 128, and from 4.2 to 1.5 % at 256. Without libm, so that every machine finds the
 * same. */
#include "costmodel.h"
#include <math.h>
#include <stdlib.h>

enum { ROUNDS = 8 };
static const int slots_tried[] = { 1, 2, 3, 4, 5, 6, 7, 8, 12, 16 };
static const int starts_tried[] = { 0, 32, 64, 128, 256, 512 };
static const int percents_tried[] = { 0, 35, 50, 71, 84, 119, 141, 200, 280 };
/* Of path, split, segments and merge: what a coefficient of zero begins from. */
static const long long least_fs[4] = { 1000000, 300000000, 50000000, 100000 };
static const double most_loss = 1, unmeasured_loss = 0.02;

/* The paths of all rows, for some slots and start. */
struct search {
	const struct block_shape *block;
	const struct segment_row *row;
	int n;
	long long *path; /* [n][MAX_MEMBERS] */
	struct segment_costs of;
	double loss;
};

static void find_paths(struct search *s, const struct segment_costs *c)
{
	for (int r = 0; r < s->n; r++) {
		const struct segment_row *row = &s->row[r];
		struct segment_load load;
		segment_load_of(&load, s->block, row->f);
		for (int i = 0; i < row->n; i++)
			s->path[r * MAX_MEMBERS + i] =
			    segment_path(c, &load, s->block, row->f->units, row->segments[i]);
	}
}

/* The measured number nearest to number i of the row, by ratio. */
static int nearest_measured(const struct segment_row *row, int i)
{
	int best = -1;
	double least = INFINITY;
	for (int k = 0; k < row->n; k++) {
		const double a = row->segments[i], b = row->segments[k];
		const double ratio = a > b ? a / b : b / a;
		if (isfinite(row->us[k]) && ratio < least)
			least = ratio, best = k;
	}
	return best;
}

static double loss_of_row(const struct segment_row *row, const struct segment_costs *c,
			  const long long *path)
{
	const long long rows = row->f->query_tokens * row->f->num_query_heads;
	long long least = -1;
	int pick = 0;
	for (int i = 0; i < row->n; i++) {
		const long long cost = segment_cost(c, path[i], rows, row->segments[i]);
		if (least < 0 || cost < least)
			least = cost, pick = i;
	}
	const int measured = isfinite(row->us[pick]);
	const int as = measured ? pick : nearest_measured(row, pick);
	return fmin(row->us[as] / row->least_us - 1 + (measured ? 0 : unmeasured_loss), most_loss);
}

/* Moves there if that lowers the loss. */
static int try_costs(struct search *s, const struct segment_costs *c)
{
	double sum = 0;
	for (int r = 0; r < s->n; r++)
		sum += s->row[r].weight * loss_of_row(&s->row[r], c, &s->path[r * MAX_MEMBERS]);
	if (!(sum < s->loss * (1 - 1e-6)))
		return 0;
	s->loss = sum;
	s->of = *c;
	return 1;
}

static int try_slots(struct search *s, int most_slots)
{
	int moved = 0;
	for (size_t i = 0; i < COUNT(slots_tried) && slots_tried[i] <= most_slots; i++) {
		struct segment_costs c = s->of, even = s->of;
		even.path = min_of(even.path * slots_tried[i] / even.slots, MOST_OF_MANY);
		c.slots = even.slots = slots_tried[i];
		find_paths(s, &c);
		moved += try_costs(s, &c) + try_costs(s, &even);
	}
	return moved;
}

static int try_starts(struct search *s)
{
	int moved = 0;
	for (size_t i = 0; i < COUNT(starts_tried); i++) {
		struct segment_costs c = s->of;
		c.start = starts_tried[i];
		find_paths(s, &c);
		moved += try_costs(s, &c);
	}
	find_paths(s, &s->of);
	return moved;
}

static int try_factors(struct search *s)
{
	int moved = 0;
	for (int k = 1; k < 4; k++)
		for (size_t i = 0; i < COUNT(percents_tried); i++) {
			struct segment_costs c = s->of;
			long long *const v[4] = { &c.path, &c.split, &c.segments, &c.merge };
			const double from = (double)max_of(*v[k], least_fs[k]);
			*v[k] = rounded_fs(from * percents_tried[i] / 100,
					   k == 3 ? MOST_OF_MANY : MOST_OF_FEW);
			moved += try_costs(s, &c);
		}
	return moved;
}

int segment_costs_fit(struct segment_costs *c, const struct block_shape *b,
		      const struct segment_row *row, int n, int most_slots)
{
	struct search s = { b,  row,     n, malloc(sizeof *s.path * ((size_t)n * MAX_MEMBERS + 1)),
			    *c, INFINITY };
	if (!s.path)
		return 0;
	s.of.path = max_of(s.of.path, least_fs[0]);
	find_paths(&s, &s.of);
	try_costs(&s, &s.of);
	for (int i = 0, moved = 1; i < ROUNDS && moved; i++) {
		moved = try_slots(&s, most_slots);
		moved += try_starts(&s);
		moved += try_factors(&s);
	}
	s.of.path = rounded_fs((double)s.of.path, MOST_OF_MANY);
	*c = s.of;
	free(s.path);
	return 1;
}
