/* SPDX-License-Identifier: Apache-2.0 */
/* lengths.c - which batches a plan is right for.
 *
 * An area is a range of sequences and of query lengths. A launch reads the lengths in device memory
 * and computes the sequences that lie in its area. So that a plan is right for shorter queries,
 * too, attune_plan_batch makes areas such that each sequence lies in one of them with its planned
 * query length and with any shorter one. D: tokens of the longest decode.
 *
 *   ranges apart     prefills: their range, from 1 token      decodes: their range, from 1 token
 *   ranges overlap   prefills: their range, from D + 1        decodes: both ranges, 1 to D
 *
 * A grid and partials that are sized for the planned query tokens have room for fewer. */
#include "plan.h"
#include "kernels/spec/part.h"
#include "kernels/spec/sized.h"

/* ---- areas of a new plan --------------------------------------------------------------------- */

static int overlap(const attune_span *a, const attune_span *b)
{
	return a->seq_begin < b->seq_begin + b->seq_count &&
	       b->seq_begin < a->seq_begin + a->seq_count;
}

static void spans_take_shorter(attune_span *prefill, attune_span *decode, const int32_t *start)
{
	prefill->min_query = prefill->seq_count > 0;
	decode->min_query = decode->seq_count > 0;
	if (!prefill->seq_count || !decode->seq_count || !overlap(prefill, decode))
		return;
	const int p_end = prefill->seq_begin + prefill->seq_count;
	const int d_end = decode->seq_begin + decode->seq_count;
	const int begin = (int)min_of(prefill->seq_begin, decode->seq_begin);
	const int end = (int)max_of(p_end, d_end);
	prefill->min_query = decode->max_query + 1;
	decode->seq_begin = begin;
	decode->seq_count = end - begin;
	decode->range_tokens = start[end] - start[begin];
}

static void take_span(struct part *p, const attune_span *s)
{
	p->seq_begin = s->seq_begin;
	p->seq_count = s->seq_count;
	p->min_query = s->min_query;
	p->max_query = s->max_query;
	p->range_tokens = s->range_tokens;
}

void parts_take_shorter(struct part *p, int n, const int32_t *query_start)
{
	if (n == 1) {
		spans_take_shorter(&p->prefill, &p->decode, query_start);
		p->min_query = 1;
	}
	if (n < 2)
		return;
	spans_take_shorter(&p[0].prefill, &p[1].decode, query_start);
	take_span(&p[0], &p[0].prefill);
	take_span(&p[1], &p[1].decode);
}

/* ---- areas of a plan ------------------------------------------------------------------------- */

struct area {
	int begin, end;  /* sequences */
	int least, most; /* query tokens */
	int64_t tokens;  /* of all queries in the range */
	int64_t max_seq; /* keys; 0: the launch does not depend on them */
};

enum { MOST_AREAS = 4 };

static struct area area_of(const attune_span *s, int64_t max_seq)
{
	return (struct area){ s->seq_begin,    s->seq_begin + s->seq_count,
			      s->min_query,    s->max_query,
			      s->range_tokens, max_seq };
}

/* A part with both phases may run by a fused kernel, which computes each phase in a span of its
 * own. */
static int areas_of(struct area a[MOST_AREAS], const attune_plan *plan)
{
	int n = 0;
	for (int i = 0; i < plan->num_parts; i++) {
		const attune_part *p = &plan->part[i];
		const attune_span own = { p->seq_begin, p->seq_count, p->min_query, p->max_query,
					  p->range_tokens };
		const int both = p->prefill.seq_count && p->decode.seq_count;
		a[n++] = area_of(both ? &p->prefill : &own, p->max_seq);
		if (both)
			a[n++] = area_of(&p->decode, p->max_seq);
	}
	return n;
}

static int has_sequences(const struct area *a, const struct area *of)
{
	return a->begin <= of->begin && of->end <= a->end;
}

static int has_queries(const struct area *a, const struct area *of)
{
	return a->least <= of->least && of->most <= a->most;
}

/* Whether a and b together cover `of`: they adjoin or overlap along the queries or the
 * sequences. */
static int have_together(const struct area *a, const struct area *b, const struct area *of)
{
	if (has_sequences(a, of) && has_sequences(b, of))
		return a->least <= of->least && of->most <= b->most && b->least <= a->most + 1;
	return has_queries(a, of) && has_queries(b, of) && a->begin <= of->begin &&
	       of->end <= b->end && b->begin <= a->end;
}

static int is_covered(const struct area *a, int n, const struct area *of)
{
	for (int i = 0; i < n; i++)
		for (int j = 0; j < n; j++)
			if (has_sequences(&a[i], of) && has_queries(&a[i], of))
				return 1;
			else if (i != j && have_together(&a[i], &a[j], of))
				return 1;
	return 0;
}

/* Where slice i of the sequences begins. */
static int slice_begin(const attune_plan *plan, int i)
{
	return (int)((long long)plan->num_seqs * i / ATTUNE_PLAN_SLICES);
}

void plan_slices(attune_plan *plan, const int32_t *query_start)
{
	for (int i = 0; i < ATTUNE_PLAN_SLICES; i++) {
		int most = 0;
		for (int s = slice_begin(plan, i); s < slice_begin(plan, i + 1); s++)
			most = (int)max_of(most, query_start[s + 1] - query_start[s]);
		plan->longest[i] = most;
	}
}

static int64_t shared(int begin, int end, const struct area *of)
{
	return max_of(min_of(end, of->end) - max_of(begin, of->begin), 0);
}

/* The most query tokens that a batch of the plan can have in the sequences of `of`. a[n]: the
 * plan's areas. It is the least of three bounds: by all areas, by an area that contains these
 * sequences, and by the slices. */
static int64_t most_tokens(const attune_plan *plan, const struct area *a, int n,
			   const struct area *of)
{
	int64_t sum = 0, sliced = 0, around = plan->num_tokens;
	for (int i = 0; i < n; i++) {
		sum += min_of(a[i].tokens, shared(a[i].begin, a[i].end, of) * a[i].most);
		if (has_sequences(&a[i], of))
			around = min_of(around, a[i].tokens);
	}
	for (int i = 0; i < ATTUNE_PLAN_SLICES; i++)
		sliced +=
		    shared(slice_begin(plan, i), slice_begin(plan, i + 1), of) * plan->longest[i];
	return min_of(min_of(sum, sliced), around);
}

/* Whether sequences of the areas are, or may be, too long for the launch of `of`. */
static int is_too_long(const struct area *a, int n, const struct area *of)
{
	for (int i = 0; of->max_seq && i < n; i++)
		if (a[i].begin < of->end && of->begin < a[i].end &&
		    (!a[i].max_seq || a[i].max_seq > of->max_seq))
			return 1;
	return 0;
}

/* ---- attune_plan_serves ---------------------------------------------------------------------- */

static int same_span(const attune_span *a, const attune_span *b)
{
	return a->seq_begin == b->seq_begin && a->seq_count == b->seq_count &&
	       a->min_query == b->min_query && a->max_query == b->max_query &&
	       a->range_tokens == b->range_tokens;
}

static int same_launch(const attune_plan *x, const attune_plan *y, int i)
{
	const attune_part *a = &x->part[i], *b = &y->part[i];
	return a->choice == b->choice && a->resolved == b->resolved &&
	       x->spared[i] == y->spared[i] && a->seq_begin == b->seq_begin &&
	       a->seq_count == b->seq_count && a->min_query == b->min_query &&
	       a->max_query == b->max_query && a->range_tokens == b->range_tokens &&
	       a->max_seq >= b->max_seq && same_span(&a->prefill, &b->prefill) &&
	       same_span(&a->decode, &b->decode) && x->stand_in[i] == y->stand_in[i] &&
	       x->stand_in_resolved[i] == y->stand_in_resolved[i] &&
	       (x->start != ATTUNE_START_EARLY || x->early[i] == y->early[i]);
}

static int same_launches(const attune_plan *a, const attune_plan *b)
{
	int same = a->num_parts == b->num_parts && a->how == b->how;
	for (int i = 0; same && i < a->num_parts; i++)
		same = same_launch(a, b, i);
	return same;
}

/* Whether the areas have[n] cover all that a batch of `wanted` can have in its area `want`. */
static int slices_are_covered(const struct area *have, int n, const attune_plan *wanted,
			      const struct area *want)
{
	for (int i = 0; i < ATTUNE_PLAN_SLICES; i++) {
		const struct area slice = {
			.begin = (int)max_of(want->begin, slice_begin(wanted, i)),
			.end = (int)min_of(want->end, slice_begin(wanted, i + 1)),
			.least = want->least,
			.most = (int)min_of(want->most, wanted->longest[i]),
		};
		if (slice.begin < slice.end && slice.least <= slice.most &&
		    !is_covered(have, n, &slice))
			return 0;
	}
	return 1;
}

/* Whether `captured` is right for all batches that `wanted` is planned for. */
static int is_right_for(const attune_plan *captured, const attune_plan *wanted)
{
	struct area have[MOST_AREAS], want[MOST_AREAS];
	const int h = areas_of(have, captured), w = areas_of(want, wanted);
	for (int i = 0; i < w; i++)
		if (!slices_are_covered(have, h, wanted, &want[i]))
			return 0;
	for (int i = 0; i < h; i++)
		if (most_tokens(wanted, want, w, &have[i]) > have[i].tokens ||
		    is_too_long(want, w, &have[i]))
			return 0;
	return wanted->num_tokens <= captured->num_tokens;
}

int attune_plan_serves(const attune_plan *captured, const attune_plan *wanted)
{
	static const char call[] = "attune_plan_serves";
	attune_plan own[2];
	captured = captured ? plan_read(captured, &own[0], call) : NULL;
	wanted = wanted ? plan_read(wanted, &own[1], call) : NULL;
	if (!captured || !wanted || captured->op != wanted->op || !plan_is_sound(captured) ||
	    !plan_is_sound(wanted) || captured->num_seqs != wanted->num_seqs ||
	    captured->start != wanted->start)
		return 0;
	if (same_launches(captured, wanted))
		return ATTUNE_SERVES_ALIKE;
	return is_right_for(captured, wanted) ? ATTUNE_SERVES : 0;
}

int plan_takes(const attune_plan *plan, const attune_batch *b, const attune_shape *shape)
{
	const struct part_shape s = { .window = window_of(shape) };
	struct area have[MOST_AREAS];
	const int n = areas_of(have, plan);
	if (plan->num_seqs != b->num_seqs)
		return 0;
	for (int i = 0; i < n; i++)
		if (b->query_start[have[i].end] - b->query_start[have[i].begin] > have[i].tokens)
			return 0;
	for (int i = 0; i < b->num_seqs; i++) {
		const int query = b->query_start[i + 1] - b->query_start[i];
		const int64_t keys = max_of(seq_live_keys(&s, query, b->seq_lens[i]), 1);
		const struct area own = { i, i + 1, query, query, query, keys };
		int at = 0;
		while (query && at < n && !is_covered(&have[at], 1, &own))
			at++;
		if (query && (at == n || is_too_long(&own, 1, &have[at])))
			return 0;
	}
	return 1;
}
