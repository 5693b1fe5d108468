/* SPDX-License-Identifier: Apache-2.0 */
/* mixed.h - estimates for warpgroup_mixed how many units should begin with the decodes of a mixed
 * batch, and into how many segments to cut its prefills, so that the last unit ends soonest. All
 * items are taken to be alike.
 *
 *   d units       | decodes, t | leave | item | item |
 *   the others    | item | item | item | item | item |
 *
 * DECODE_UNITS=0 and PREFILL_SEGMENTS=0 mean the numbers by mixed_by_hand on every GPU. These rates
 * are an H200's, fitted to 513 mixed batches that an earlier version of warpgroup_mixed had run by
 * several numbers of units. At least 79 of these are held out or published today: where this kernel
 * runs by estimate, such batches are not wholly unseen. Other rates there would give times in the
 * databases another meaning. A generated header may have rates of its own, fitted to training
 * batches of its GPU (tuner/costmodel/mixed_fit.c): config_divide() then sets both numbers. */
#ifndef ATTUNE_MIXED_H
#define ATTUNE_MIXED_H

#include "kernels/segments.h"
#include "mixed_rates.h"
#include <limits.h>

static const struct mixed_rates mixed_by_hand = { 4400, 94, 3600, 4300, 4260, 11900, 7900, 3600 };

struct mixed {
	int units;
	long long items, item_ns;
	long long bytes;   /* read by decodes */
	long long streams; /* decodes: sequences x KV heads x Q blocks of 8 rows */
	const struct mixed_rates *rates;
};

/* CUT_GAIN: cuts must gain a tenth. */
enum { MOST_SEGMENTS = 4, CUT_GAIN = 10 };

/* Q blocks have `rows` rows of one query head. Half of the sequences' last, partial blocks
 * count. */
static inline struct mixed mixed_of(const struct part *p, const attune_shape *s, int units,
				    int rows, int segments, const struct mixed_rates *rates)
{
	const struct attune_features *f = &p->f;
	const long long prefills = f->num_seqs - f->decode_seqs;
	const long long group = s->num_query_heads / s->num_kv_heads;
	const long long blocks = parts_of(f->prefill_tokens, rows) + prefills / 2;
	const long long items = max_of(blocks * s->num_query_heads * segments, 1);
	const long long decode_queries = f->query_tokens - f->prefill_tokens;
	const long long mean_keys = f->decode_kv / max_of(f->decode_seqs, 1);
	const long long pairs = max_of(f->work * 4096 - decode_queries * mean_keys, 1);
	const long long flops = pairs * s->num_query_heads * s->head_size * 4;
	return (struct mixed){ units,
			       items,
			       1 + flops / items / rates->unit_flops +
				   (segments > 1) * rates->segment_ns,
			       f->decode_kv * s->num_kv_heads * s->head_size * 2 * f->kv_bytes,
			       f->decode_seqs * s->num_kv_heads * parts_of(group, 8),
			       rates };
}

/* When `decoding` units have read all keys of the decodes. */
static inline long long mixed_reads_ns(const struct mixed *m, int decoding)
{
	const struct mixed_rates *r = m->rates;
	const int most = decoding <= m->units / 2 ? r->half_reads : r->all_reads;
	const long long alone = m->bytes / r->unit_reads + m->streams * r->stream_ns;
	return r->start_ns + max_of(alone / decoding, m->bytes / most);
}

/* The time until all is done, if the decodes end at t. The last unit is one of the others or one
 * that began with decodes. */
static inline long long mixed_ns(const struct mixed *m, int decoding, long long t)
{
	const long long leave = t + m->rates->leave_ns, others = m->units - decoding;
	const long long before =
	    leave / m->item_ns; /* items that each other unit has finished by then */
	const long long rounds = parts_of(m->items + decoding * (before + 1), m->units);
	const long long alone = others ? parts_of(m->items, others) : 1ll << 40;
	const long long left = max_of(m->items - others * before, 0);
	const long long by_others = min_of(alone, max_of(rounds, before + 1)) * m->item_ns;
	return min_of(max_of(by_others, t), leave + parts_of(left, m->units) * m->item_ns);
}

/* The sum of the times if reads take as long as estimated, a quarter less or a third more: avoids a
 * number of units for which slightly slower reads cost another round of items. */
static inline long long mixed_sum_ns(const struct mixed *m, int decoding)
{
	const long long t = mixed_reads_ns(m, decoding);
	return mixed_ns(m, decoding, t * 3 / 4) + mixed_ns(m, decoding, t) +
	       mixed_ns(m, decoding, t * 4 / 3);
}

/* The best of the multiples of `step` up to all units; of equals the largest. *ns: its sum. Below
 * half of the units, fewer units read longer: once reads alone take as long as the best sum, no
 * smaller number is better. */
static inline int mixed_units(const struct mixed *m, int step, long long *ns)
{
	int best = 0;
	*ns = LLONG_MAX;
	for (int n = (int)parts_of(m->units, step); n; n--) {
		const int decoding = (int)min_of((long long)n * step, m->units);
		if (decoding <= m->units / 2 && 3 * mixed_reads_ns(m, decoding) >= *ns)
			break;
		const long long sum = mixed_sum_ns(m, decoding);
		best = sum < *ns ? decoding : best;
		*ns = min_of(sum, *ns);
	}
	return best;
}

struct mixed_cut {
	int segments, decoding; /* of a prefill; units that begin with decodes */
	long long ns;           /* the sum of its estimates, mixed_units' */
};

static inline struct mixed_cut mixed_cut_of(const struct part *p, const attune_shape *s, int units,
					    int rows, int step, int segments)
{
	const struct mixed m = mixed_of(p, s, units, rows, segments, &mixed_by_hand);
	struct mixed_cut cut = { .segments = segments };
	cut.decoding = mixed_units(&m, step, &cut.ns);
	return cut;
}

/* The best of 1 to `most` segments. More segments than one must gain CUT_GAIN, because whole
 * prefills need no merge. */
static inline struct mixed_cut mixed_best_cut(const struct part *p, const attune_shape *s,
					      int units, int rows, int step, int most)
{
	struct mixed_cut best = mixed_cut_of(p, s, units, rows, step, 1);
	for (int n = 2; n <= min_of(most, MOST_SEGMENTS); n++) {
		const struct mixed_cut cut = mixed_cut_of(p, s, units, rows, step, n);
		const long long gain = best.segments == 1 ? cut.ns / CUT_GAIN : 0;
		if (cut.ns + gain < best.ns)
			best = cut;
	}
	return best;
}

/* For the .def, whose LET holds one int: decoding units in the low 16 bits, segments above.
 * `segments` 0: the best of 1 to `most`. */
static inline int mixed_split(const struct part *p, const attune_shape *s, int units, int rows,
			      int step, int segments, int most)
{
	const struct mixed_cut cut = segments ? mixed_cut_of(p, s, units, rows, step, segments)
					      : mixed_best_cut(p, s, units, rows, step, most);
	return cut.decoding + (cut.segments << 16);
}

#endif
