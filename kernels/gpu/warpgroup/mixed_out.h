/* SPDX-License-Identifier: Apache-2.0 */
/* mixed_out.h - writes the results of an item of warpgroup_mixed.cu. The last team to finish a
 * segment of its 64 rows merges all of them. */
#ifndef ATTUNE_MIXED_OUT_H
#define ATTUNE_MIXED_OUT_H

#include "mixed_shape.h"

#include "../softmax.h"
#include "mixed_blocks.h"
#include "mixed_decode.h"
#include "warpgroup_out.h"
#include "warpgroup_team.h"

/* Counter of the finished segments of the team's rows: marked, after those of ring_list. */
DEVICE decode::arrivals *arrivals_of(const attune_args &a, const team &t)
{
	const int token = t.i.token - a.query_start[t.i.seq];
	const int block = (t.i.seq - a.prefill.seq_begin) * most_blocks(a) + token / BLOCK_M;
	return (decode::arrivals *)a.scratch + COUNTERS + units_of(a) +
	       ((long long)block * a.num_query_heads + t.i.head) * TEAMS + t.number;
}

/* Whether all other segments of the team's rows are finished; all its threads then see them. */
DEVICE int last_to_arrive(const attune_args &a, const team &t, int segments)
{
	__shared__ int last[TEAMS];
	__threadfence();
	barrier(OWN(t.number), WARPGROUP);
	if (is_first(t))
		last[t.number] = decode::arrive(arrivals_of(a, t), 0, segments);
	barrier(OWN(t.number), WARPGROUP);
	__threadfence();
	return last[t.number];
}

/* Merges all segments of a row, in order, as if one item had computed them. at: partial of the
 * first */
DEVICE void join_row(const attune_args &v, team &t, int r, long long at)
{
	const float *ml = v.partial_ml + at * 2;
	float sum = 0, top = MINUS_INF;
	for (int s = 0; s < v.segments; s++)
		top = fmaxf(top, ml[2 * s]);
	UNROLL for (int n = 0; n < HEAD_SIZE / 4; n++)
		t.o[n / 2 * 4 + n % 2 + 2 * r] = 0;
	const float base = top == MINUS_INF ? 0 : top;
	for (int s = 0; s < v.segments; s++) {
		const float weight = exp2_fast(ml[2 * s] - base) * ml[2 * s + 1];
		const float *o = v.partial_out + (at + s) * HEAD_SIZE + 2 * (lane_id() % 4);
		sum += weight;
		UNROLL for (int n = 0; n < HEAD_SIZE / 8; n++)
		{
			const float2 two = *(const float2 *)(o + 8 * n);
			t.o[4 * n + 2 * r] += weight * two.x;
			t.o[4 * n + 2 * r + 1] += weight * two.y;
		}
	}
	t.top[r] = top;
	t.sum[r] = lane_id() % 4 ? 0 : sum;
	t.unit[r] = 1;
}

/* Writes the output of an item. A segment writes a partial; the last one merges them. */
DEVICE void put_or_join(const attune_call &c, team &t)
{
	const int segments = segments_of(c.args);
	if (segments > 1) {
		const attune_args v = view(c.args, c.args.prefill, segments);
		const long long first = t.i.goes_to - t.i.segment; /* partial of row 0 */
		const long long row = v.num_query_heads * segments;
		put_partials(v, t);
		if (!last_to_arrive(c.args, t, segments)) {
			hold_nothing(t);
			return;
		}
		UNROLL for (int r = 0; r < 2; r++)
			if (t.row + 8 * r < t.i.rows)
				join_row(v, t, r, first + (t.row + 8 * r) * row);
		t.i.goes_to = t.i.token;
	}
	if (c.more.lse)
		put_lse(c, t);
	hold_rows(c.args, t);
}

#endif
