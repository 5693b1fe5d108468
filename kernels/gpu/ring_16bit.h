/* ring_16bit.h - keys and values of 16 bits, as they are: a part of ring_tile.h, for which
 * ring_e4m3.h has the same names. */
#define KV_BYTES     2
#define DEPTH_LOADED 1 /* steps of the depth whose keys or values come by one load */
#define P_SHIFT	     0.f
#define Q_FACTORS    0

struct queries {
	u32 held[Q_HELD ? DEPTH : 1][EIGHTS][2];
};

DEVICE u32 key_at(int row, int chunk)
{
	return chunk_at(row, chunk);
}

DEVICE void take_scales(const attune_more &, block &)
{
}

/* Rows that are not there are zeros. */
DEVICE void hold_q(const attune_args &a, const block &b, queries &q)
{
	UNROLL for (int n = 0; n < EIGHTS; n++)
	{
		const int row = n * 8 + lane_id() / 4, valid = row < b.rows;
		const half16 *src = query_at(a, b, valid ? row : 0) + 2 * (lane_id() & 3);
		UNROLL for (int d = 0; d < DEPTH; d++)
		UNROLL for (int i = 0; i < 2; i++)
			q.held[d][n][i] = valid ? *(const u32 *)(src + d * 16 + i * 8) : 0;
	}
}

DEVICE void share_q(const attune_args &a, const block &b, unsigned char *memory)
{
	const u32 to = shared_address(memory);
	for (int i = threadIdx.x; i < BLOCK_M * CHUNKS; i += THREADS) {
		const int row = i / CHUNKS, chunk = i % CHUNKS, valid = row < b.rows;
		copy16_async(to + chunk_at(row, chunk), query_at(a, b, valid ? row : 0) + chunk * 8,
			     valid);
	}
	copies_commit();
}

/* What is known of shared queries once all are there. */
DEVICE void find_factors(const block &, queries &, const unsigned char *)
{
}

DEVICE float scaled_score(const queries &, int, int, float x)
{
	return x;
}

DEVICE float scaled_value(const block &, float x)
{
	return x;
}

/* Of 16 keys 16 dimensions, the keys being rows */
DEVICE void load_keys(u32 (&k)[DEPTH_LOADED][4], u32 tile, int keys, int step)
{
	const int l = lane_id();
	load_matrices(k[0], chunk_on(tile + key_at(l & 15, l >> 4), step * 2) + keys * (ROW * 2));
}

/* The same, the dimensions being rows */
DEVICE void load_values(u32 (&v)[DEPTH_LOADED][4], u32 tile, int keys, int step)
{
	const int l = lane_id(), key = (l & 7) + ((l >> 4) << 3);
	load_matrices_transposed(v[0], chunk_on(tile + key_at(key, l >> 3 & 1), step * 2) +
				       keys * (ROW * 2));
}

/* Of a step's 16 dimensions that of the lane's row, or of the row 8 below */
DEVICE int dimension_of(int step, int below)
{
	return step * 16 + below * 8 + lane_id() / 4;
}

DEVICE void multiply(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1)
{
	mma(c, a, b0, b1);
}

DEVICE u32 pack_weights(float lo, float hi)
{
	return pack2(lo, hi);
}
