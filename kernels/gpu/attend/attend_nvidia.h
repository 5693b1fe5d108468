/* attend_nvidia.h - the engine of attend.h on NVIDIA's tensor cores; a part of that file.
 *
 * Shared memory: Q [BLOCK_M][ROW], then NUM_STAGES x { K, V }[TILE_SIZE][ROW]. A tile's copy
 * is asynchronous; the ring holds NUM_STAGES - 1 tiles under way while one is computed, and
 * one barrier a tile both publishes a stage and frees the oldest one. */
#define Q_BYTES	  (BLOCK_M * ROW * 2)
#define RING_BYTES (Q_BYTES + NUM_STAGES * STAGE_BYTES)
#define MERGE_BYTES (WARPS_N > 1 ? WARPS_N * BLOCK_M * MERGE_ROW * 4 : 0)
#define SHARED_TILES NUM_STAGES
/* Q stays in registers where they suffice, else it is read again every tile */
#ifndef Q_IN_REGISTERS
#define Q_IN_REGISTERS (MFRAGS == 1 && HEAD_SIZE <= 128)
#endif
#define Q_HELD (Q_IN_REGISTERS ? HEAD_SIZE / 16 : 0)

typedef u32 shared_place; /* an address in shared memory */
typedef float logits[MFRAGS][WARP_KEYS / 8][4];
typedef u32 held_q[HEAD_SIZE / 16][4];

struct rows { /* of one thread: fragment f, half h -> row */
	int position[MFRAGS][2]; /* in the sequence; -1: no such row */
};

/* The running softmax of one warp: o = sum p v, l = sum p, m = maximum. */
struct state {
	float o[MFRAGS][HEAD_SIZE / 8][4];
	float m[MFRAGS][2], l[MFRAGS][2];
};

DEVICE void copy_q(const attune_args &a, const block &b, u32 dst)
{
	for (int i = BLOCK_THREAD; i < BLOCK_M * CHUNKS; i += THREADS) {
		const int row = i / CHUNKS, chunk = i % CHUNKS, valid = row < b.rows;
		const half16 *src = (const half16 *)a.q;
		if (valid)
			src += (b.q.first_row + row_token(b, row)) * a.q_token_stride +
			       row_head(b, row) * a.q_head_stride + chunk * 8;
		copy16_hinted<Q_HINT>(dst + chunk_at(row, chunk), src, valid);
	}
}

/* One of this thread's chunks of K, of V, `to` in a stage. */
DEVICE void take_keys(copier &, int, u32 to, const half16 *src, int valid)
{
	copy16_async(to, src, valid);
}

DEVICE void take_values(copier &, int, u32 to, const half16 *src, int valid)
{
	copy16_async(to + TILE_BYTES, src, valid);
}

/* All copies that are under way have come, to all threads. */
DEVICE void q_ready()
{
	copies_wait<0>();
	__syncthreads();
}

DEVICE void stage_ready(copier &, u32)
{
	q_ready();
}

/* Keys at and beyond `end` arrive as zeros: what lies in their slots may be
 * anything, also NaN. */
DEVICE void copier_copy(const attune_args &a, const block &b, const copier &c, int tile, u32 stage)
{
	UNROLL for (int i = 0; i < PASSES; i++)
	{
		const int row = c.row0 + i * ROWS_A_PASS;
		const int key = b.begin + tile * TILE_SIZE + row, valid = key < b.end;
		const int near = max(min(key, b.end - 1), 0);
		const int slot = near - page_of(a, near) * a.page_size;
		if (c.active && row < TILE_SIZE) {
			copy16_hinted<KV_HINT>(stage + chunk_at(row, c.chunk),
				     c.k + c.page[i] * a.k_page_stride + slot * a.k_slot_stride, valid);
			copy16_hinted<KV_HINT>(stage + TILE_BYTES + chunk_at(row, c.chunk),
				     c.v + c.page[i] * a.v_page_stride + slot * a.v_slot_stride, valid);
		}
	}
}

DEVICE void load_q(u32 (&q)[4], u32 q_tile, int row, int step)
{
	const int l = lane_id();
	load_matrices(q, q_tile + chunk_at(row + (l & 15), step * 2 + (l >> 4)));
}

/* One of Q_HELD pieces of what registers are to hold of Q, which is in shared memory. */
DEVICE void hold_q(const attune_args &, const block &, u32 (&q)[4], u32 q_tile, int warp_row, int i)
{
	load_q(q, q_tile, warp_row, i);
}

/* s = Q K^T for this warp's rows and keys */
DEVICE void scores(logits &s, const held_q &q_held, u32 q_tile, int warp_row, u32 k_tile,
		   int warp_key)
{
	const int l = lane_id();
	UNROLL for (int f = 0; f < MFRAGS; f++)
	UNROLL for (int j = 0; j < WARP_KEYS / 8; j++)
	UNROLL for (int e = 0; e < 4; e++)
		s[f][j][e] = 0;
	UNROLL for (int step = 0; step < HEAD_SIZE / 16; step++)
	{
		u32 q[MFRAGS][4];
		UNROLL for (int f = 0; f < MFRAGS; f++)
			if (Q_IN_REGISTERS)
				UNROLL for (int i = 0; i < 4; i++)
					q[f][i] = q_held[step][i];
			else
				load_q(q[f], q_tile, warp_row + f * 16, step);
		UNROLL for (int j = 0; j < WARP_KEYS / 16; j++)
		{
			u32 k[4];
			const int key = warp_key + j * 16 + (l & 7) + ((l >> 4) << 3);
			load_matrices(k, k_tile + chunk_at(key, step * 2 + ((l >> 3) & 1)));
			UNROLL for (int f = 0; f < MFRAGS; f++)
			{
				mma(s[f][2 * j], q[f], k[0], k[1]);
				mma(s[f][2 * j + 1], q[f], k[2], k[3]);
			}
		}
	}
}

/* Applies softcap and ALiBi, if the layer has them; scores are then in log2 units. */
DEVICE void bend(const attune_args &a, const block &b, logits &s, const rows &r, int first_row,
		 int first_key)
{
	const int l = lane_id();
	UNROLL for (int f = 0; f < MFRAGS; f++)
	UNROLL for (int h = 0; h < 2; h++)
	{
		const int row = first_row + f * 16 + h * 8 + l / 4;
		const float slope = a.alibi_slopes && row < b.rows ?
					    a.alibi_slopes[row_head(b, row)] : 0.f;
		UNROLL for (int j = 0; j < WARP_KEYS / 8; j++)
		UNROLL for (int e = 0; e < 2; e++)
		{
			float x = s[f][j][2 * h + e] * a.scale;
			const int key = first_key + j * 8 + 2 * (l & 3) + e;
			if (a.softcap > 0)
				x = a.softcap * tanh_exact(x / a.softcap);
			s[f][j][2 * h + e] = (x + slope * (key - r.position[f][h])) * LOG2E;
		}
	}
}

/* -infinity for keys that a row does not see */
DEVICE void mask(const attune_args &a, const block &b, logits &s, const rows &r, int first_key)
{
	UNROLL for (int f = 0; f < MFRAGS; f++)
	UNROLL for (int h = 0; h < 2; h++)
	{
		const int column = first_key + 2 * (lane_id() & 3);
		const int last = min(a.causal ? r.position[f][h] : b.end - 1, b.end - 1) - column;
		const int first = (a.window ? r.position[f][h] - a.window + 1 : 0) - column;
		UNROLL for (int j = 0; j < WARP_KEYS / 8; j++)
		UNROLL for (int e = 0; e < 2; e++)
			if (j * 8 + e > last || j * 8 + e < first)
				s[f][j][2 * h + e] = MINUS_INF;
	}
}

/* Updates the running maximum and sum; s becomes p = 2^(unit * (s - m)). */
DEVICE void soften(state &t, logits &s, float unit)
{
	UNROLL for (int f = 0; f < MFRAGS; f++)
	UNROLL for (int h = 0; h < 2; h++)
	{
		float m = t.m[f][h];
		UNROLL for (int j = 0; j < WARP_KEYS / 8; j++)
			m = fmaxf(m, fmaxf(s[f][j][2 * h], s[f][j][2 * h + 1]));
		m = fmaxf(m, shfl_xor(m, 1));
		m = fmaxf(m, shfl_xor(m, 2));
		/* a row without any key so far: m = -infinity, every p is 0 */
		const exponent x = exponent_of(m == MINUS_INF ? 0.f : m, unit, COARSE_16BIT, 0);
		const float old = fade_of(x, t.m[f][h], 0);
		float sum = 0;
		UNROLL for (int j = 0; j < WARP_KEYS / 8; j++)
		UNROLL for (int e = 0; e < 2; e++)
		{
			const float p = weight_of(x, s[f][j][2 * h + e]);
			s[f][j][2 * h + e] = p;
			sum += p;
		}
		t.l[f][h] = t.l[f][h] * old + sum;
		t.m[f][h] = m;
		UNROLL for (int d = 0; d < HEAD_SIZE / 8; d++)
		{
			t.o[f][d][2 * h] *= old;
			t.o[f][d][2 * h + 1] *= old;
		}
	}
}

/* o += P V: the scores' fragments are the A operand as they lie */
DEVICE void accumulate(state &t, const logits &p, u32 v_tile, int warp_key)
{
	const int l = lane_id();
	UNROLL for (int j = 0; j < WARP_KEYS / 16; j++)
	{
		u32 a[MFRAGS][4];
		UNROLL for (int f = 0; f < MFRAGS; f++)
		UNROLL for (int i = 0; i < 4; i++)
			a[f][i] = pack2(p[f][2 * j + (i >> 1)][2 * (i & 1)],
					p[f][2 * j + (i >> 1)][2 * (i & 1) + 1]);
		UNROLL for (int d = 0; d < HEAD_SIZE / 16; d++)
		{
			u32 v[4];
			const int key = warp_key + j * 16 + (l & 15);
			load_matrices_transposed(v, v_tile + chunk_at(key, d * 2 + (l >> 4)));
			UNROLL for (int f = 0; f < MFRAGS; f++)
			{
				mma(t.o[f][2 * d], a[f], v[0], v[1]);
				mma(t.o[f][2 * d + 1], a[f], v[2], v[3]);
			}
		}
	}
}

/* Adds up the partial sums of a row's four lanes. */
DEVICE void finish_sums(state &t)
{
	UNROLL for (int f = 0; f < MFRAGS; f++)
	UNROLL for (int h = 0; h < 2; h++)
	{
		t.l[f][h] += shfl_xor(t.l[f][h], 1);
		t.l[f][h] += shfl_xor(t.l[f][h], 2);
	}
}

/* One warp holds the whole of its rows: quads write 16-byte pieces. */
template <int PARTIAL>
DEVICE void write_rows(const attune_args &a, const block &b, state &t, int warp_row, float unit)
{
	const int l = lane_id();
	UNROLL for (int f = 0; f < MFRAGS; f++)
	UNROLL for (int h = 0; h < 2; h++)
	{
		const int row = warp_row + f * 16 + h * 8 + l / 4;
		if (row >= b.rows)
			continue;
		const float m = rounded_product(t.m[f][h], unit);
		const float factor = row_factor<PARTIAL>(a, b, row, m, t.l[f][h]);
		if (!(l & 3))
			put_sums<PARTIAL>(a, b, row, m, t.l[f][h]);
		UNROLL for (int d = 0; d < HEAD_SIZE / 8; d++)
			put_pair<PARTIAL>(a, b, row, d * 8 + 2 * (l & 3), t.o[f][d][2 * h] * factor,
				 t.o[f][d][2 * h + 1] * factor);
	}
}

/* Several warps hold parts of the same rows, by keys:
 * shared memory [WARPS_N][BLOCK_M][HEAD_SIZE + 4] = o.., m, l, -, - */
#define MERGE_ROW (HEAD_SIZE + 4)
template <int PARTIAL>
DEVICE void merge_and_write(const attune_args &a, const block &b, state &t, int warp_row,
			    int warp_n, float unit, float *shared)
{
	const int l = lane_id();
	BLOCK_BARRIER(); /* the last tile has been read */
	UNROLL for (int f = 0; f < MFRAGS; f++)
	UNROLL for (int h = 0; h < 2; h++)
	{
		float *row = shared + (warp_n * BLOCK_M + warp_row + f * 16 + h * 8 + l / 4) * MERGE_ROW;
		UNROLL for (int d = 0; d < HEAD_SIZE / 8; d++)
			*(float2 *)(row + d * 8 + 2 * (l & 3)) =
				make_float2(t.o[f][d][2 * h], t.o[f][d][2 * h + 1]);
		if (!(l & 3))
			*(float2 *)(row + HEAD_SIZE) =
				make_float2(rounded_product(t.m[f][h], unit), t.l[f][h]);
	}
	BLOCK_BARRIER();
	for (int i = BLOCK_THREAD; i < b.rows * (HEAD_SIZE / 2); i += THREADS) {
		const int row = i / (HEAD_SIZE / 2), column = i % (HEAD_SIZE / 2) * 2;
		const float *part = shared + row * MERGE_ROW;
		float m = MINUS_INF, sum = 0, x = 0, y = 0;
		UNROLL for (int n = 0; n < WARPS_N; n++)
			m = fmaxf(m, part[n * BLOCK_M * MERGE_ROW + HEAD_SIZE]);
		const float safe = m == MINUS_INF ? 0.f : m;
		UNROLL for (int n = 0; n < WARPS_N; n++)
		{
			const float *p = part + n * BLOCK_M * MERGE_ROW;
			const float weight = exp2_fast(p[HEAD_SIZE] - safe);
			sum += weight * p[HEAD_SIZE + 1];
			x += weight * p[column];
			y += weight * p[column + 1];
		}
		const float factor = row_factor<PARTIAL>(a, b, row, m, sum);
		put_pair<PARTIAL>(a, b, row, column, x * factor, y * factor);
		if (!column)
			put_sums<PARTIAL>(a, b, row, m, sum);
	}
}

template <int PARTIAL>
DEVICE void write(const attune_args &a, const block &b, state &t, int warp_row, int warp_n,
		  float unit, float *shared)
{
	if (WARPS_N == 1)
		write_rows<PARTIAL>(a, b, t, warp_row, unit);
	else
		merge_and_write<PARTIAL>(a, b, t, warp_row, warp_n, unit, shared);
}

DEVICE void start_state(state &t)
{
	UNROLL for (int f = 0; f < MFRAGS; f++)
	{
		UNROLL for (int h = 0; h < 2; h++)
		{
			t.m[f][h] = MINUS_INF;
			t.l[f][h] = 0;
		}
		UNROLL for (int d = 0; d < HEAD_SIZE / 8; d++)
		UNROLL for (int e = 0; e < 4; e++)
			t.o[f][d][e] = 0;
	}
}

DEVICE rows find_rows(const block &b, int warp_row)
{
	rows r;
	UNROLL for (int f = 0; f < MFRAGS; f++)
	UNROLL for (int h = 0; h < 2; h++)
	{
		const int row = warp_row + f * 16 + h * 8 + lane_id() / 4;
		r.position[f][h] = row < b.rows ? b.q.seq_len - b.q.query_len + row_token(b, row) : -1;
	}
	return r;
}

/* All work of a block, from its first copy to its output. Its threads may still be writing
 * from shared memory when the first of them returns. */
DEVICE void attend_block(const attune_args &a, const block &b, unsigned char *memory)
{
	const int warp = BLOCK_THREAD / WARP;
	const int warp_row = warp % WARPS_M * (MFRAGS * 16);
	const int warp_n = warp / WARPS_M, warp_key = warp_n * WARP_KEYS;
	const int tiles = (b.end - b.begin + TILE_SIZE - 1) / TILE_SIZE;
	const int t0 = PARTIALS ? (long long)tiles * b.segment / a.segments : 0;
	const int t1 = PARTIALS ? (long long)tiles * (b.segment + 1) / a.segments : tiles;
	const u32 q_tile = shared_address(memory), ring = q_tile + Q_BYTES;
	const int bent = a.softcap > 0 || a.alibi_slopes;
	const float unit = bent ? 1.f : a.scale * LOG2E;
	copier c;
	copier_start(a, b, c);
	if (t0 < t1)
		copier_pages(a, b, c, t0);
	copy_q(a, b, q_tile); /* in the first tile's group */
	UNROLL for (int i = 0; i < NUM_STAGES - 1; i++)
	{
		if (t0 + i < t1) {
			copier_copy(a, b, c, t0 + i, ring + i * STAGE_BYTES);
			copier_pages(a, b, c, t0 + i + 1);
		}
		copies_commit();
	}

	const rows r = find_rows(b, warp_row);
	state t;
	start_state(t);
	held_q q_held;
	int stage = 0;
	for (int tile = t0; tile < t1; tile++) {
		copies_wait<NUM_STAGES - 2>();
		BLOCK_BARRIER();
		if (tile == t0)
			UNROLL for (int i = 0; i < Q_HELD; i++)
				hold_q(a, b, q_held[i], q_tile, warp_row, i);
		if (tile + NUM_STAGES - 1 < t1) {
			const int free = stage ? stage - 1 : NUM_STAGES - 1;
			copier_copy(a, b, c, tile + NUM_STAGES - 1, ring + free * STAGE_BYTES);
			copier_pages(a, b, c, tile + NUM_STAGES);
		}
		copies_commit();

		const u32 k_tile = ring + stage * STAGE_BYTES;
		const int first_key = b.begin + tile * TILE_SIZE + warp_key;
		logits s;
		scores(s, q_held, q_tile, warp_row, k_tile, warp_key);
		if (bent)
			bend(a, b, s, r, warp_row, first_key);
		if (needs_mask(a, b, tile))
			mask(a, b, s, r, first_key);
		soften(t, s, unit);
		accumulate(t, s, k_tile + TILE_BYTES, warp_key);
		stage = stage + 1 == NUM_STAGES ? 0 : stage + 1;
	}
	copies_wait<0>();
	finish_sums(t);
	/* With one segment the output is final: no reduction follows. All blocks branch alike. */
	if (PARTIALS && a.segments > 1)
		write<PARTIALS>(a, b, t, warp_row, warp_n, unit, (float *)memory);
	else
		write<0>(a, b, t, warp_row, warp_n, unit, (float *)memory);
}
