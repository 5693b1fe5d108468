/* price.c - what a choice is expected to take on a batch, from its features alone, so
 * that the cheapest of several can be picked where no tree has been. A sum of prices
 * (struct price, fitted by tuner/prices.c to measured times) times amounts
 * (price_terms.def), all integers.
 *
 * The amount that decides is the path: the keys that the slot which finishes last works
 * through. Blocks are dealt to units x slots in the order of the grid, the next one to
 * whoever is free (Graham 1966, "Bounds for certain multiprocessing anomalies"):
 *
 *   slot 0  |####|####|##|          n blocks (of all segments), `mean` keys each, the
 *   slot 1  |###|#####|             longest `longest`; each is `start` keys more
 *   slot 2  |#####|###|###|
 *
 *   at most a wave   the longest block
 *   more             (mean + start) n / slots           all are busy to the end
 *                    + what a last wave lacks, the less the more blocks differ
 *                    + tail: how much longer than the mean the last one may be. Decodes
 *                      come in any order, so all of it; of prompts the longest blocks
 *                      start first, so a quarter of it, shared out among the waves */
#include "device.h"

enum { TAIL_SHARE = 4, SMOOTHING = 4 };
static const long long most = 1 << 27; /* of an amount */

/* Blocks of one segment, and the keys that one works through, before tiles: of the mean
 * and of the longest. */
struct load {
	long long blocks, mean, longest;
};

static long long min_of(long long a, long long b)
{
	return a < b ? a : b;
}

static long long max_of(long long a, long long b)
{
	return a > b ? a : b;
}

static long long parts(long long n, long long of)
{
	return (n + of - 1) / of;
}

/* Of queries that differ, all last blocks are taken to be half full. */
static long long q_blocks(long long seqs, long long tokens, long long block_q)
{
	return max_of(seqs, parts(2 * tokens + seqs * (block_q - 1), 2 * block_q));
}

/* One part: its sequences are alike enough for one mean. */
static struct load load_of_part(const struct attune_features *f, long long block_q)
{
	struct load l = { f->num_seqs, f->keys_per_query, 0 };
	if (f->max_query <= block_q)
		return l;
	l.mean += block_q / 2;
	l.blocks = f->mean_query == f->max_query ? f->num_seqs * parts(f->max_query, block_q)
						 : q_blocks(f->num_seqs, f->query_tokens, block_q);
	return l;
}

/* Decodes, a block each, beside prefills: the mean is over the blocks of both. */
static struct load load_of_both(const struct attune_features *f, long long block_q)
{
	const long long decodes = max_of(f->decode_seqs, 1), tokens = max_of(f->prefill_tokens, 1);
	const long long of_decodes = f->decode_kv / decodes;
	const long long pairs = f->keys_per_query * f->query_tokens -
				of_decodes * (f->query_tokens - f->prefill_tokens);
	const long long of_prefills = max_of(pairs, 0) / tokens + block_q / 2;
	const long long blocks = q_blocks(f->num_seqs - f->decode_seqs, tokens, block_q);
	const long long all = max_of(blocks, 1) + decodes;
	return (struct load){ all, (blocks * of_prefills + decodes * of_decodes) / all, 0 };
}

static struct load load_of(const struct price *p, const struct attune_features *f)
{
	const long long block_q = max_of(p->rows / f->group, 1);
	const int is_whole = f->max_query > DECODE_MAX_QUERY && f->query_tokens > f->prefill_tokens;
	struct load l = is_whole ? load_of_both(f, block_q) : load_of_part(f, block_q);
	l.blocks *= f->num_kv_heads * parts(f->group, p->rows);
	l.longest = min_of(f->max_seq, f->window + block_q);
	l.mean = min_of(l.mean, l.longest);
	return l;
}

static long long path(const struct price *p, const struct attune_features *f, const struct load *l,
		      long long v)
{
	const long long slots = f->units * p->slots, n = l->blocks * v;
	const long long longest = parts(parts(l->longest, p->tile), v) * p->tile;
	const long long mean = parts(parts(l->mean, p->tile) * p->tile, v);
	const long long one = mean + p->start, more = max_of(longest - mean, 0);
	if (n <= slots)
		return longest + p->start;
	const long long idle = parts(n, slots) * slots - n;
	const long long tail =
	    f->max_query <= DECODE_MAX_QUERY ? more : more * slots / (TAIL_SHARE * n);
	const long long lacks = idle * one * one / max_of(one + SMOOTHING * more, 1);
	return max_of((one * n + lacks) / slots + tail, longest + p->start);
}

static void count(long long amount[NUM_PRICE_TERMS], const struct price *p,
		  const struct attune_features *f, const struct load *l, int segments)
{
	const long long rows = f->query_tokens * f->num_query_heads;
	const int splits = segments > 1;
	amount[PRICE_launch] = 1;
	amount[PRICE_path] = path(p, f, l, segments);
	amount[PRICE_total] = l->blocks * l->mean / f->units;
	amount[PRICE_kib] = f->kv_kib;
	amount[PRICE_rows] = rows;
	amount[PRICE_split] = splits;
	amount[PRICE_segments] = splits * segments;
	amount[PRICE_merge] = splits * segments * rows;
	for (int i = 0; i < NUM_PRICE_TERMS; i++)
		amount[i] = min_of(amount[i], most);
}

static long long estimate(const struct price *p, const struct attune_features *f,
			  const struct load *l, int segments)
{
	long long amount[NUM_PRICE_TERMS], sum = 0;
	count(amount, p, f, l, segments);
	for (int i = 0; i < NUM_PRICE_TERMS; i++)
		sum += p->fs[i] * amount[i];
	return sum;
}

void price_amounts(long long amount[NUM_PRICE_TERMS], const struct price *p,
		   const struct attune_features *f, int segments)
{
	const struct load l = load_of(p, f);
	count(amount, p, f, &l, segments);
}

long long price_estimate(const struct price *p, const struct attune_features *f, int segments)
{
	const struct load l = load_of(p, f);
	return estimate(p, f, &l, segments);
}

int price_joins(long long whole, long long prefill, long long decode)
{
	return whole >= 0 && prefill >= 0 && decode >= 0 && whole / 9 < (prefill + decode) / 10;
}

long long config_cheapest(struct config *out, const struct config *c, const struct kernel *k,
			  const struct price *price, const attune_shape *shape,
			  const struct part *p, const struct device_info *d)
{
	const struct space *s = k->space;
	const struct axis *a = s->formula_axis < 0 ? NULL : &s->axis[s->formula_axis];
	const struct load l = load_of(price, &p->f);
	struct config at = *c;
	long long least = -1;
	for (int i = 0; i < (a ? a->num_values : 1); i++) {
		if (a)
			at.v[s->formula_axis] = a->values[i];
		if (s->why_illegal(&at, shape, p, d))
			continue;
		const long long cost = estimate(price, &p->f, &l, a ? a->values[i] : 1);
		if (least < 0 || cost < least) {
			least = cost;
			*out = at;
		}
	}
	return least;
}
