/* mixed.h - how many units are to begin with the decodes of a mixed batch, where all then take
 * items of its prefills (warpgroup_mixed.def): as many as let all end first, if items are alike.
 *
 *   d units       | decodes, t | item | item |
 *   the others    | item | item | item | item |
 *
 * What a unit does in a nanosecond is of an H200: 5 TFLOP/s of prefills by warpgroups, 90 GB/s of
 * decodes, all units together 4300 GB/s. */
#ifndef ATTUNE_MIXED_H
#define ATTUNE_MIXED_H

#include "kernel.h"

struct mixed {
	int units;
	long long items, item_ns;
	long long bytes; /* that decodes read */
};

enum { UNIT_FLOPS = 5000, UNIT_READS = 90, ALL_READS = 4300 };

/* Of Q blocks of so many rows of one query head. Of sequences' last ones half are counted. */
static inline struct mixed mixed_of(const struct part *p, const attune_shape *s, int units,
				    int rows, int segments)
{
	const struct attune_features *f = &p->f;
	const long long prefills = f->num_seqs - f->decode_seqs;
	const long long blocks = parts_of(f->prefill_tokens, rows) + prefills / 2;
	const long long items = max_of(blocks * s->num_query_heads * segments, 1);
	const long long decode_queries = f->query_tokens - f->prefill_tokens;
	const long long mean_keys = f->decode_kv / max_of(f->decode_seqs, 1);
	const long long pairs = max_of(f->work * 4096 - decode_queries * mean_keys, 1);
	const long long flops = pairs * s->num_query_heads * s->head_size * 4;
	return (struct mixed){ units, items, 1 + flops / items / UNIT_FLOPS,
			       f->decode_kv * s->num_kv_heads * s->head_size * 2 * f->kv_bytes };
}

/* Until all is done: the last to end is one of the others, or one that began with decodes. */
static inline long long mixed_ns(const struct mixed *m, int decoding)
{
	const long long reads = min_of((long long)decoding * UNIT_READS, ALL_READS);
	const long long t = m->bytes / reads, others = m->units - decoding;
	const long long before = t / m->item_ns; /* items that each of the others ends before t */
	const long long rounds = parts_of(m->items + decoding * (before + 1), m->units);
	const long long alone = others ? parts_of(m->items, others) : 1ll << 40;
	const long long left = max_of(m->items - others * before, 0);
	const long long by_others = min_of(alone, max_of(rounds, before + 1)) * m->item_ns;
	return min_of(max_of(by_others, t), t + parts_of(left, m->units) * m->item_ns);
}

/* Of multiples of `step` up to all units the best; of equals the most, which may read less than
 * is assumed here. */
static inline int mixed_units(struct mixed m, int step)
{
	int best = (int)min_of(step, m.units);
	long long least = mixed_ns(&m, best);
	for (int d = 2 * step; d < m.units + step; d += step) {
		const int decoding = (int)min_of(d, m.units);
		const long long ns = mixed_ns(&m, decoding);
		best = ns <= least ? decoding : best;
		least = min_of(ns, least);
	}
	return best;
}

#endif
