/* price.c - what a choice is expected to take on a batch, from its features alone, so
 * that the cheapest of several can be picked where no tree has been. A sum of prices
 * (struct price, fitted by tuner/prices.c to measured times) times amounts
 * (price_terms.def), all integers.
 *
 * The amount that decides is the path: the keys that the slot which finishes last works
 * through. Blocks are dealt to units x slots in the order of the grid, the next one to
 * whoever is free (Graham 1966, "Bounds for certain multiprocessing anomalies"):
 *
 *   slot 0  |####|####|##|          n blocks of v segments, `mean` keys each, the
 *   slot 1  |###|#####|             longest `longest`; each costs `start` more
 *   slot 2  |#####|###|###|
 *
 *   at most a wave   the longest block
 *   more             the larger of that and
 *                      (mean + start) n / slots               all busy to the end
 *                      + what the last wave lacks, less where blocks differ anyway
 *                      + how much longer the last block may be than the mean */
#include "device.h"
#include <limits.h>

enum { PART = 16 /* of a key */ };

/* Blocks of one segment, and the keys of one: of the mean and of the longest. */
struct load {
	long long blocks, mean, longest;
};

static long long up(long long n, long long unit)
{
	return (n + unit - 1) / unit * unit;
}

static struct load load_of(const struct price *p, const struct attune_features *f)
{
	const long long block_q = f->group < p->rows ? p->rows / f->group : 1;
	const long long heads = f->num_kv_heads * ((f->group + p->rows - 1) / p->rows);
	const int one_each = f->max_query <= block_q;
	const long long q_blocks =
	    one_each ? f->num_seqs : f->query_tokens / block_q + (f->num_seqs + 1) / 2;
	long long longest = f->window + block_q < f->max_seq ? f->window + block_q : f->max_seq;
	long long mean = f->keys_per_query + (one_each ? 0 : block_q / 2);
	if (mean > longest)
		mean = longest;
	return (struct load){ q_blocks * heads, up(mean, p->tile), up(longest, p->tile) };
}

static long long path(const struct price *p, const struct attune_features *f,
		      const struct load *l, long long v)
{
	const long long slots = f->units * p->slots, blocks = l->blocks * v;
	const long long longest = PART * (up(l->longest / p->tile, v) / v * p->tile + p->start);
	const long long mean = PART * l->mean / v + PART * p->start;
	const long long more = longest > mean ? longest - mean : 0;
	if (blocks <= slots)
		return longest;
	const long long idle = (slots - blocks % slots) % slots * mean / slots;
	const long long tail = f->max_query <= DECODE_MAX_QUERY ? more * 7 / 8
								: more * slots * 5 / (16 * blocks);
	const long long busy = mean * blocks / slots + idle * mean / (mean + 2 * more) + tail;
	return busy > longest ? busy : longest;
}

void price_amounts(long long amount[NUM_PRICE_TERMS], const struct price *p,
		   const struct attune_features *f, int segments)
{
	const struct load l = load_of(p, f);
	const long long rows = f->query_tokens * f->num_query_heads;
	amount[PRICE_launch] = 1;
	amount[PRICE_path] = path(p, f, &l, segments);
	amount[PRICE_total] = l.blocks * l.mean / f->units;
	amount[PRICE_kib] = f->kv_kib;
	amount[PRICE_rows] = rows;
	amount[PRICE_split] = segments > 1;
	amount[PRICE_merge] = segments > 1 ? rows * segments : 0;
	amount[PRICE_blocks] = l.blocks * segments;
}

long long price_estimate(const struct price *p, const struct attune_features *f, int segments)
{
	long long amount[NUM_PRICE_TERMS], sum = 0, paid;
	price_amounts(amount, p, f, segments);
	for (int i = 0; i < NUM_PRICE_TERMS; i++)
		if (__builtin_mul_overflow(p->ps[i], amount[i], &paid) ||
		    __builtin_add_overflow(sum, paid, &sum))
			return LLONG_MAX; /* months */
	return sum;
}

long long config_cheapest(struct config *out, const struct config *c, const struct kernel *k,
			  const struct price *price, const attune_shape *shape,
			  const struct part *p, const struct device_info *d)
{
	const struct space *s = k->space;
	const struct axis *a = s->formula_axis < 0 ? NULL : &s->axis[s->formula_axis];
	struct config at = *c;
	long long least = -1;
	for (int i = 0; i < (a ? a->num_values : 1); i++) {
		if (a)
			at.v[s->formula_axis] = a->values[i];
		if (s->why_illegal(&at, shape, p, d))
			continue;
		const long long cost = price_estimate(price, &p->f, a ? a->values[i] : 1);
		if (least < 0 || cost < least) {
			least = cost;
			*out = at;
		}
	}
	return least;
}
