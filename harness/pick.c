/* pick.c - which simulated steps to keep: farthest-point sampling, so that few
 * scenarios cover the space, and weights that say how much time each stands for. */
#include "harness.h"
#include "replay.h"
#include <math.h>
#include <stdlib.h>

enum { NUM_FEATURES = 4 };

struct point {
	double at[NUM_FEATURES];
	double ms, pairs;
	double distance; /* squared, to the nearest pick */
	int nearest;     /* that pick */
	int out;         /* 1: may not be picked */
};

static struct point place_step(const struct replay *r, const struct step *s)
{
	struct point p = { .ms = s->ms, .distance = INFINITY };
	double decodes = 0, decode_kv = 0, prefill = 0, longest = 0;
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
		p.pairs += q * (row->seq - q) + q * (q + 1) / 2;
	}
	p.at[0] = log2(1 + decodes);
	p.at[1] = log2(1 + (decodes > 0 ? decode_kv / decodes : 0));
	p.at[2] = log2(1 + prefill);
	p.at[3] = log2(1 + longest);
	return p;
}

/* A point drawn with probability proportional to its time; -1: none may be. */
static int draw(const struct point *p, int n, unsigned long long seed)
{
	double total = 0, target;
	int last = -1;
	for (int i = 0; i < n; i++)
		total += p[i].out ? 0 : p[i].ms;
	seed = (seed + 0x9e3779b97f4a7c15ull) * 0xbf58476d1ce4e5b9ull;
	target = (double)((seed ^ seed >> 31) >> 11) * 0x1p-53 * total;
	for (int i = 0; i < n; i++) {
		if (p[i].out)
			continue;
		last = i;
		target -= p[i].ms;
		if (target < 0)
			break;
	}
	return last;
}

/* Never at distance 0: so no batch is picked twice. */
static int farthest(const struct point *p, int n)
{
	int best = -1;
	for (int i = 0; i < n; i++)
		if (!p[i].out && p[i].distance > 0 &&
		    (best < 0 || p[i].distance > p[best].distance))
			best = i;
	return best;
}

/* Pick number `k` is step `first + chosen`. */
static void settle(struct point *p, int n, int chosen, int k)
{
	for (int i = 0; i < n; i++) {
		double d = 0;
		for (int f = 0; f < NUM_FEATURES; f++)
			d += (p[i].at[f] - p[chosen].at[f]) * (p[i].at[f] - p[chosen].at[f]);
		if (d < p[i].distance) {
			p[i].distance = d;
			p[i].nearest = k;
		}
	}
	p[chosen].out = 1;
}

int replay_pick(const struct replay *r, struct picked *picked, int wanted, double max_pairs,
		unsigned long long seed)
{
	int first = r->num_steps / 10, n = r->num_steps - first, k = 0;
	struct point *p = calloc((size_t)n + 1, sizeof *p);
	double total = 0;
	if (!p)
		return -1;
	for (int i = 0; i < n; i++) {
		p[i] = place_step(r, &r->steps[first + i]);
		p[i].out = p[i].pairs > max_pairs;
		total += p[i].ms;
	}
	while (k < wanted) {
		int chosen = k ? farthest(p, n) : draw(p, n, seed);
		if (chosen < 0)
			break;
		settle(p, n, chosen, k);
		picked[k++] = (struct picked){ .step = first + chosen };
	}
	for (int i = 0; i < n && k; i++)
		picked[p[i].nearest].weight += p[i].ms / total;
	free(p);
	return k;
}
