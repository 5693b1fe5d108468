/* SPDX-License-Identifier: Apache-2.0 */
/* representative_steps.c - selects simulated steps, and the share of time that each represents.
 *
 * Steps are divided into cells around seeds. A new seed is, in turn, the point farthest from all
 * seeds, which finds rare corners, and the farthest point of the cell with the largest spread,
 * which divides where the time is spent. Seeds are extreme, so each cell keeps the step nearest
 * to its mean. */
#include "engine_sim.h"
#include "set_writer.h"
#include "kernels/segments.h"
#include <math.h>
#include <stdlib.h>

enum { NUM_FEATURES = 4 };

struct point {
	double at[NUM_FEATURES];
	double ms;
	double distance; /* squared, to the nearest seed */
	int cell;        /* of that seed */
	int excluded;    /* by the rule */
};

struct cell {
	int steps;
	double mean[NUM_FEATURES], ms; /* mean weighted by time */
	double distance;               /* squared, from the mean to the kept step */
	double spread;                 /* sum of time x squared distance to the seed */
};

static struct point place_step(const struct engine_sim *r, const struct step *s,
			       const struct pick_rule *rule)
{
	struct point p = { .ms = s->ms, .distance = INFINITY };
	double decodes = 0, decode_kv = 0, prefill = 0, longest = 0, pairs = 0;
	for (int i = 0; i < s->num_rows; i++) {
		const struct row *row = &r->rows[s->first + (size_t)i];
		double q = row->query;
		if (q <= DECODE_MAX_QUERY) {
			decodes++;
			decode_kv += row->seq;
		} else {
			prefill += q;
		}
		longest = fmax(longest, row->seq);
		pairs += q * (row->seq - q) + q * (q + 1) / 2;
	}
	p.at[0] = log2(1 + decodes);
	p.at[1] = log2(1 + (decodes > 0 ? decode_kv / decodes : 0));
	p.at[2] = log2(1 + prefill);
	p.at[3] = log2(1 + longest);
	p.excluded = pairs > rule->max_pairs ||
		     (rule->leave_out && rows_are_blocked(&r->rows[s->first], s->num_rows));
	return p;
}

/* Draws a point with probability proportional to its time; -1: all are excluded. */
static int draw(const struct point *p, int n, unsigned long long seed)
{
	double total = 0, target;
	int last = -1;
	for (int i = 0; i < n; i++)
		total += p[i].excluded ? 0 : p[i].ms;
	seed = (seed + 0x9e3779b97f4a7c15ull) * 0xbf58476d1ce4e5b9ull;
	target = (double)((seed ^ seed >> 31) >> 11) * 0x1p-53 * total;
	for (int i = 0; i < n; i++) {
		if (p[i].excluded)
			continue;
		last = i;
		target -= p[i].ms;
		if (target < 0)
			break;
	}
	return last;
}

/* The point of a cell (-1: of all) farthest from its seed; -1: none. Its distance is above 0, so
 * no batch seeds two cells. */
static int farthest(const struct point *p, int n, int cell)
{
	int best = -1;
	for (int i = 0; i < n; i++)
		if (!p[i].excluded && p[i].distance > 0 && (cell < 0 || p[i].cell == cell) &&
		    (best < 0 || p[i].distance > p[best].distance))
			best = i;
	return best;
}

/* The cell with the largest sum of time x squared distance over its steps. */
static int worst_cell(const struct point *p, int n, struct cell *cells, int num_cells)
{
	int worst = 0;
	for (int k = 0; k < num_cells; k++)
		cells[k].spread = 0;
	for (int i = 0; i < n; i++)
		cells[p[i].cell].spread += p[i].excluded ? 0 : p[i].ms * p[i].distance;
	for (int k = 1; k < num_cells; k++)
		if (cells[k].spread > cells[worst].spread)
			worst = k;
	return worst;
}

static double squared(const double *a, const double *b)
{
	double d = 0;
	for (int f = 0; f < NUM_FEATURES; f++)
		d += (a[f] - b[f]) * (a[f] - b[f]);
	return d;
}

/* Point `seed` opens cell k. */
static void open_cell(struct point *p, int n, int seed, int k)
{
	for (int i = 0; i < n; i++) {
		double d = squared(p[i].at, p[seed].at);
		if (d < p[i].distance) {
			p[i].distance = d;
			p[i].cell = k;
		}
	}
}

static void find_means(const struct point *p, int n, struct cell *cells)
{
	for (int i = 0; i < n; i++) {
		struct cell *c = &cells[p[i].cell];
		c->ms += p[i].ms;
		c->steps++;
		for (int f = 0; f < NUM_FEATURES; f++)
			c->mean[f] += (p[i].at[f] - c->mean[f]) * p[i].ms / c->ms;
	}
}

/* Keeps the step of each cell nearest to its mean. Equal batches lie in one cell, so none is kept
 * twice. */
static void keep_typical(const struct point *p, int n, struct cell *cells, struct picked *kept)
{
	for (int i = 0; i < n; i++) {
		struct cell *c = &cells[p[i].cell];
		double d = squared(p[i].at, c->mean);
		if (!p[i].excluded && d < c->distance) {
			c->distance = d;
			kept[p[i].cell].step = i;
		}
	}
}

struct pick_rule pick_all(const struct engine_sim *r)
{
	return (struct pick_rule){ .first = r->is_served ? 0 : r->busy_steps / 10,
				   .end = r->busy_steps,
				   .max_pairs = INFINITY };
}

int engine_pick(const struct engine_sim *r, const struct pick_rule *rule, struct picked *kept,
		int wanted)
{
	const int first = rule->first, n = rule->end - first;
	int k = 0;
	struct point *p = calloc((size_t)n + 1, sizeof *p);
	struct cell *cells = calloc((size_t)wanted, sizeof *cells);
	double total = 0;
	for (int i = 0; p && i < n; i++) {
		p[i] = place_step(r, &r->steps[first + i], rule);
		total += p[i].ms;
	}
	for (int at; p && cells && k < wanted; k++) {
		at = !k      ? draw(p, n, rule->seed)
		     : k % 2 ? farthest(p, n, -1)
			     : farthest(p, n, worst_cell(p, n, cells, k));
		if (at < 0)
			break;
		open_cell(p, n, at, k);
		cells[k].distance = INFINITY;
	}
	if (k) {
		find_means(p, n, cells);
		keep_typical(p, n, cells, kept);
	}
	for (int i = 0; i < k; i++)
		kept[i] =
		    (struct picked){ first + kept[i].step, cells[i].ms / total, cells[i].steps };
	if (!p || !cells)
		k = -1;
	free(p);
	free(cells);
	return k;
}

/* The quantity that a corner maximizes. */
static double extent(const struct engine_sim *r, const struct step *s, int corner)
{
	double most = corner == 1 ? s->num_rows : 0;
	for (int i = 0; i < s->num_rows && corner != 1; i++) {
		const struct row *row = &r->rows[s->first + (size_t)i];
		if (corner == 0)
			most = fmax(most, row->seq);
		else if (row->query > DECODE_MAX_QUERY)
			most += row->query;
	}
	return most;
}

int engine_corners(const struct engine_sim *r, const struct pick_rule *rule, struct picked *kept)
{
	int n = 0;
	for (int corner = 0; corner < REPLAY_CORNERS; corner++) {
		int best = -1;
		double most = 0;
		for (int i = rule->first; i < rule->end; i++) {
			double is = extent(r, &r->steps[i], corner);
			if (is > most && !place_step(r, &r->steps[i], rule).excluded) {
				most = is;
				best = i;
			}
		}
		if (best >= 0)
			kept[n++] = (struct picked){ .step = best, .steps = 1 };
	}
	return n;
}
