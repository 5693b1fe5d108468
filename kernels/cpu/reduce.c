/* SPDX-License-Identifier: Apache-2.0 */
/* reduce.c - merges the segments of a query token. It adds them in order, so the result does not
 * depend on which thread finished first.
 *
 * cell (x, y) = query heads from HEADS x on, HEADS of them; row y of the partials. */
#include "paged.h"

#ifndef ENTRY
#define ENTRY attune_kernel
#endif

enum { HEADS = 8, DL = (D + LANES - 1) / LANES * LANES }; /* HEADS as in reduce.def */

static void reduce_head(const struct attune_args *a, const struct block *b, int token, int head)
{
	const long long row = (long long)(b->seq - a->seq_begin) * a->max_query + token;
	const long long first = (row * a->num_query_heads + head) * a->segments;
	const float *ml = a->partial_ml + 2 * first, *part = a->partial_out + first * D;
	float sum[DL] = { 0 }, m = LOWEST, l = 0;
	if (a->sinks) {
		m = a->sinks[head] * LOG2E;
		l = 1;
	}
	for (int i = 0; i < a->segments; i++)
		if (ml[2 * i + 1] > 0 && ml[2 * i] > m)
			m = ml[2 * i];
	if (a->sinks)
		l = exp2_of(a->sinks[head] * LOG2E - m);
	for (int i = 0; i < a->segments; i++) {
		if (!(ml[2 * i + 1] > 0))
			continue;
		const float weight = ml[2 * i + 1] * exp2_of(ml[2 * i] - m);
		l += weight;
		for (int d = 0; d < D; d++)
			sum[d] += weight * part[i * D + d];
	}
	out_store(out_row(a, b, token, head), sum, l > 0 ? 1 / l : 0);
}

void ENTRY(const struct attune_args *a, int x, int y, int z)
{
	struct block b;
	const int token = y % a->max_query;
	(void)z;
	b.seq = a->seq_begin + y / a->max_query;
	b.query_len = a->query_start[b.seq + 1] - a->query_start[b.seq];
	if (token >= b.query_len || b.query_len < a->min_query || b.query_len > a->max_query)
		return;
	for (int h = x * HEADS; h < min_int((x + 1) * HEADS, a->num_query_heads); h++)
		reduce_head(a, &b, token, h);
}
