/* attend.h - attention of one Q block over a range of keys, on matrix units; the body of qblock and
 * segmented. FlashAttention-2's loop (Dao 2023, section 3) over pages, with the rows of a group
 * packed as in the paper on vLLM's Triton backend (sections 4.4 to 4.6).
 *
 * Row r of a Q block is token r / group, query head r % group, so that K and V are read once for
 * all heads of a KV head. A group larger than BLOCK_M is cut into head blocks of one token.
 *
 * There are WARPS_M warps along the rows (MFRAGS x 16 rows each) and WARPS_N along the keys of a
 * tile. Warps along the keys keep their own running maximum, sum and output, which are merged at
 * the end.
 *
 *            keys of a tile: TILE_SIZE = WARPS_N x WARP_KEYS
 *          +-----------+-----------+
 *   rows   |  warp 0   |  warp 1   |   BLOCK_M = WARPS_M x MFRAGS x 16
 *          +-----------+-----------+
 *          |  warp 2   |  warp 3   |
 *          +-----------+-----------+
 *
 * In shared memory a row of K or V takes ROW elements. Its 16-byte chunks are permuted by chunk ^
 * (row % 8), so that 8 rows read at once lie in different banks. Each vendor has an engine that
 * copies the tiles and computes on them: attend_nvidia.h, attend_amd.h. Both define attend_block(),
 * its steps under the same names, and RING_BYTES and MERGE_BYTES of shared memory. */
#include "../paged.h"
#include "../softmax.h"

#ifndef KV_HINT
#define KV_HINT 0
#endif
#ifndef Q_HINT
#define Q_HINT 0
#endif
/* Where several blocks share a thread block: the thread's number in its block, and the block's
 * barrier. */
#ifndef BLOCK_THREAD
#ifdef __AMDGCN__
#define BLOCK_THREAD (threadIdx.x % THREADS) /* tells the compiler its range */
#else
#define BLOCK_THREAD threadIdx.x
#endif
#define BLOCK_BARRIER() __syncthreads()
#endif
#ifndef GRID_ORDER
#define GRID_ORDER 0
#endif
#define DIES	  8 /* of an MI300 */
#define THREADS	  (NUM_WARPS * WARP)
#define WARPS_M	  (BLOCK_M / 16 < NUM_WARPS ? BLOCK_M / 16 : NUM_WARPS)
#define WARPS_N	  (NUM_WARPS / WARPS_M)
#define MFRAGS	  (BLOCK_M / 16 / WARPS_M)
#define WARP_KEYS (TILE_SIZE / WARPS_N)
#define ROW	  ((HEAD_SIZE + 63) / 64 * 64) /* elements of a row in shared memory */
#define CHUNKS	  (HEAD_SIZE / 8)	       /* 16-byte pieces of a row */
#define ROWS_A_PASS (THREADS / CHUNKS)	       /* rows that all threads copy at once */
#define PASSES	  ((TILE_SIZE + ROWS_A_PASS - 1) / ROWS_A_PASS)
#define TILE_BYTES (TILE_SIZE * ROW * 2)
#define STAGE_BYTES (2 * TILE_BYTES)

static_assert(HEAD_SIZE % 16 == 0, "the depth of a matrix step");
static_assert(BLOCK_M % (16 * WARPS_M) == 0 && NUM_WARPS % WARPS_M == 0, "warps tile the rows");
static_assert(WARP_KEYS % 16 == 0 && WARP_KEYS > 0, "warps tile the keys");
static_assert(NUM_STAGES >= 2, "a tile is computed while another one arrives");

/* byte offset of a 16-byte chunk in a swizzled tile */
DEVICE u32 chunk_at(int row, int chunk)
{
	return (u32)(row * (ROW * 2) + ((chunk ^ (row & 7)) << 4));
}

struct block {
	q_block q;
	int kv_head, head; /* head: first query head of the block's rows */
	int row_heads;	   /* heads of a token in the block: group, or a part of it */
	int rows;	   /* rows in use */
	int begin, end;	   /* keys that some row sees */
	int segment;
};

DEVICE int row_token(const block &b, int row)
{
	return b.q.token + row / b.row_heads;
}

DEVICE int row_head(const block &b, int row)
{
	return b.head + row % b.row_heads;
}

/* Head and Q block of block x of `blocks`. GRID_ORDER:
 *
 *   0  heads vary fastest: blocks that run together read neighbouring rows of the same pages
 *   1  Q blocks vary fastest: they share a head's keys in the L2 cache
 *   2  as 0, but each of DIES chiplets gets neighbours; the hardware deals blocks to them in turn
 *
 * The last Q blocks always come first, since under a causal mask they are the longest. */
DEVICE int head_of(u32 x, u32 blocks, int heads)
{
	return GRID_ORDER == 1 ? x / (blocks / heads) : x % heads;
}

DEVICE int q_block_of(u32 x, u32 blocks, int heads)
{
	return GRID_ORDER == 1 ? blocks / heads - 1 - x % (blocks / heads) :
				 (blocks - 1 - x) / heads;
}

DEVICE u32 dealt(u32 x, u32 blocks)
{
	const u32 each = blocks / DIES;
	return GRID_ORDER == 2 && x < each * DIES ? x % DIES * each + x / DIES : x;
}

/* Block x of `blocks` = Q blocks x KV heads x head blocks. 0: it has no work. */
DEVICE int find_block(const attune_args &a, u32 x, u32 blocks, int segment, block &b)
{
	const int head_blocks = (a.group + BLOCK_M - 1) / BLOCK_M;
	const int heads = a.num_kv_heads * head_blocks;
	const int block_q = a.group < BLOCK_M ? BLOCK_M / a.group : 1;
	const u32 place = dealt(x, blocks);
	const int head_index = head_of(place, blocks, heads);
	const int first = head_index % head_blocks * BLOCK_M;

	if (!find_q_block(a, q_block_of(place, blocks, heads), block_q, b.q))
		return 0;
	b.segment = segment;
	b.kv_head = head_index / head_blocks;
	b.head = b.kv_head * a.group + first;
	b.row_heads = min(a.group - first, BLOCK_M);
	const int tokens = min(block_q, b.q.query_len - b.q.token);
	b.rows = tokens * b.row_heads;
	visible_keys(a, b.q, b.q.token, b.q.token + tokens - 1, b.begin, b.end);
	return 1;
}

/* This thread's share of a tile's copy: one chunk of rows row0 + i * ROWS_A_PASS. Page numbers are
 * fetched a tile ahead, so that a copy never waits for the block table. */
struct copier {
	const half16 *k, *v;
	const int *pages;
	int row0, chunk, active;
	int page[PASSES];
#ifdef __AMDGCN__
	u32x4 k_held[PASSES], v_held[PASSES]; /* of a tile on its way to shared memory */
	int front, keys; /* visible rows: [front, keys); other rows of V must be cleared */
#endif
};

DEVICE void copier_start(const attune_args &a, const block &b, copier &c)
{
	c.row0 = BLOCK_THREAD / CHUNKS;
	c.chunk = BLOCK_THREAD % CHUNKS;
	c.active = c.row0 < ROWS_A_PASS;
	c.k = (const half16 *)a.k_cache + b.kv_head * a.k_head_stride + c.chunk * 8;
	c.v = (const half16 *)a.v_cache + b.kv_head * a.v_head_stride + c.chunk * 8;
	c.pages = a.block_table + (long long)b.q.seq * a.block_table_stride;
}

DEVICE void copier_pages(const attune_args &a, const block &b, copier &c, int tile)
{
	UNROLL for (int i = 0; i < PASSES; i++)
	{
		const int key = b.begin + tile * TILE_SIZE + c.row0 + i * ROWS_A_PASS;
		c.page[i] = c.pages[page_of(a, max(min(key, b.end - 1), 0))];
	}
}

/* The factor of o once all keys are summed; m in units of log2. */
DEVICE float normaliser(const attune_args &a, int head, float m, float l)
{
	if (l == 0)
		return 0;
	if (a.sinks) {
		const float sink = sink_of(a, head), top = fmaxf(m, sink);
		const float kept = exp2_fast(m - top);
		return kept / (l * kept + exp2_fast(sink - top));
	}
	return 1 / l;
}

DEVICE long long partial_index(const attune_args &a, const block &b, int row)
{
	const int partial_row = (b.q.seq - a.seq_begin) * a.max_query + row_token(b, row);
	return ((long long)partial_row * a.num_query_heads + row_head(b, row)) * a.segments +
	       b.segment;
}

/* Writes two neighbouring outputs of a row: to out, or to this segment's partial. */
template <int PARTIAL>
DEVICE void put_pair(const attune_args &a, const block &b, int row, int column, float x, float y)
{
	if (PARTIAL) {
		float *dst = a.partial_out + partial_index(a, b, row) * HEAD_SIZE + column;
		*(float2 *)dst = make_float2(x, y);
	} else {
		half16 *dst = (half16 *)a.out +
			      (b.q.first_row + row_token(b, row)) * a.out_token_stride +
			      row_head(b, row) * a.out_head_stride + column;
		*(u32 *)dst = pack2(x, y);
	}
}

template <int PARTIAL>
DEVICE float row_factor(const attune_args &a, const block &b, int row, float m, float l)
{
	if (PARTIAL)
		return l > 0 ? 1 / l : 0;
	return normaliser(a, row_head(b, row), m, l);
}

template <int PARTIAL>
DEVICE void put_sums(const attune_args &a, const block &b, int row, float m, float l)
{
	if (PARTIAL)
		*(float2 *)(a.partial_ml + partial_index(a, b, row) * 2) = make_float2(m, l);
}

/* Whether the tile holds a key that some row must not see. */
DEVICE int needs_mask(const attune_args &a, const block &b, int tile)
{
	const int context = b.q.seq_len - b.q.query_len;
	const int first = b.begin + tile * TILE_SIZE, last = first + TILE_SIZE - 1;
	const int last_token = b.q.token + (b.rows - 1) / b.row_heads;
	if (last >= b.end || (a.causal && last > context + b.q.token))
		return 1;
	return a.window && first < context + last_token - a.window + 1;
}

#ifdef __AMDGCN__
#include "attend_amd.h"
#else
#include "attend_nvidia.h"
#endif

DEVICE unsigned char *shared_memory()
{
	extern __shared__ __align__(1024) unsigned char memory[];
	return memory;
}

/* grid: x = blocks as find_block() numbers them, y = segments */
DEVICE void attend(const attune_args &a)
{
	block b;
	if (!find_block(a, blockIdx.x, gridDim.x, blockIdx.y, b))
		return;
	attend_block(a, b, shared_memory());
}
