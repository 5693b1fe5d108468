/* attend_amd_out.h - merges the results of waves along the keys and writes rows, for attend_amd.h,
 * which includes it. */

/* Merges another wave's state of the same rows; both maxima are in log2 units. */
DEVICE void add_state(state &t, const unsigned char *from)
{
	UNROLL for (int f = 0; f < MFRAGS; f++)
	{
		const float4v *o = (const float4v *)(from + f * MERGE_WAVE / MFRAGS) + lane_id();
		const float2 ml = ((const float2 *)(o - lane_id() + FRAGMENTS * WARP))[lane_id()];
		const float m = fmaxf(t.m[f], ml.x), safe = m == MINUS_INF ? 0.f : m;
		const float mine = exp2_fast(t.m[f] - safe), other = exp2_fast(ml.x - safe);
		t.m[f] = m;
		t.l[f] = t.l[f] * mine + ml.y * other;
		UNROLL for (int d = 0; d < FRAGMENTS; d++)
			t.o[f][d] = t.o[f][d] * mine + o[d * WARP] * other;
	}
}

DEVICE void leave_state(const state &t, unsigned char *to)
{
	UNROLL for (int f = 0; f < MFRAGS; f++)
	{
		float4v *o = (float4v *)(to + f * MERGE_WAVE / MFRAGS) + lane_id();
		UNROLL for (int d = 0; d < FRAGMENTS; d++)
			o[d * WARP] = t.o[f][d];
		((float2 *)(o - lane_id() + FRAGMENTS * WARP))[lane_id()] =
			make_float2(t.m[f], t.l[f]);
	}
}

/* Merges into the first wave along the keys. In each round a wave stores its state where only it
 * has read in the previous round. */
DEVICE void merge(state &t, int warp_m, int warp_n, unsigned char *shared)
{
	const int places = WARPS_N > 1 ? WARPS_N / 2 : 1;
	UNROLL for (int half = WARPS_N / 2; half; half /= 2)
	{
		const int place = warp_n % places, above = (warp_n + half) % places;
		if (warp_n >= half && warp_n < 2 * half)
			leave_state(t, shared + (place * WARPS_M + warp_m) * MERGE_WAVE);
		BLOCK_BARRIER();
		if (warp_n < half)
			add_state(t, shared + (above * WARPS_M + warp_m) * MERGE_WAVE);
	}
}

/* Stores neighbours by 16 bytes. */
template <int PARTIAL>
DEVICE void write_rows(const attune_args &a, const block &b, const state &t, int warp_row)
{
	const int g = lane_id() / 16;
	UNROLL for (int f = 0; f < MFRAGS; f++)
	{
		const int row = warp_row + f * 16 + lane_id() % 16;
		if (row >= b.rows)
			continue;
		const float factor = row_factor<PARTIAL>(a, b, row, t.m[f], t.l[f]);
		if (!g)
			put_sums<PARTIAL>(a, b, row, t.m[f], t.l[f]);
		UNROLL for (int d = 0; d < FRAGMENTS; d++)
		UNROLL for (int e = 0; e < 4; e++)
		{
			const int w = width_of(d), dim = d / w * w * 16 + w * (4 * g + e) + d % w;
			if (w > 1 && d % 2 == 0)
				put_pair<PARTIAL>(a, b, row, dim, t.o[f][d][e] * factor,
						  t.o[f][d + 1 < FRAGMENTS ? d + 1 : d][e] * factor);
			if (w == 1 && e % 2 == 0)
				put_pair<PARTIAL>(a, b, row, dim, t.o[f][d][e] * factor,
						  t.o[f][d][e + 1 < 4 ? e + 1 : e] * factor);
		}
	}
}

template <int PARTIAL>
DEVICE void write(const attune_args &a, const block &b, state &t, int warp_row, int warp_n,
		  float unit, void *shared)
{
	UNROLL for (int f = 0; f < MFRAGS; f++)
		t.m[f] = rounded_product(t.m[f], unit);
	if (WARPS_N > 1) {
		if (!KV_DIRECT)
			BLOCK_BARRIER(); /* the last tile has been read */
		merge(t, warp_row / (MFRAGS * 16), warp_n, (unsigned char *)shared);
	}
	if (!warp_n)
		write_rows<PARTIAL>(a, b, t, warp_row);
}
