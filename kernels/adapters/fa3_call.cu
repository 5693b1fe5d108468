/* fa3_call.cu - a call of FlashAttention-3 as vLLM's flash_attn_varlen_func makes it with a block
 * table and scheduler metadata: what a tile is, whether pages go by TMA, how many splits. */
#include "fa3_call.h"

#include <cmath>
#include <cutlass/numeric_types.h>

#include "heuristics.h"
#include "tile_size.h"

namespace fa3
{
namespace
{
const int64_t ADDRESSED = (int64_t)1 << 37; /* elements: more than a GPU's memory holds */

struct tile {
	int rows, keys;
};

tile tile_of(const Flash_fwd_params &p, bool gathers)
{
	const auto t = tile_size_fwd_sm90(HEAD, HEAD, true, false, 2, false, gathers, false,
					  use_one_mma_wg(p));

	return { std::get<0>(t), std::get<1>(t) };
}

/* A KV head's rows of the longest query: its query heads side by side. */
int64_t packed_rows(const Flash_fwd_params &p)
{
	return (int64_t)p.seqlen_q * (p.h / p.h_k);
}

/* TMA where a tile of keys lies in one page and the longest query is more than a tile of rows. */
bool takes_tma(const Flash_fwd_params &p)
{
	const tile t = tile_of(p, false);

	return p.page_size % t.keys == 0 && packed_rows(p) > t.rows;
}

/* The most splits of a sequence: how many of them each gets is decided on the device. */
int most_splits(const Flash_fwd_params &p, int asked)
{
	const tile t = tile_of(p, !p.pagedkv_tma);
	const int64_t kv_bytes = (int64_t)p.seqlen_k * 2 * HEAD * 2;
	const int row_tiles = (int)((packed_rows(p) + t.rows - 1) / t.rows);
	const int key_tiles = (int)(((int64_t)p.seqlen_k + t.keys - 1) / t.keys);

	if (p.b > MAX_SEQS_SPLIT)
		return 1;
	if (asked > 0)
		return asked;
	/* As if the batch were its longest sequence alone. */
	return num_splits_heuristic(p.h_k * row_tiles, p.num_sm, key_tiles, row_tiles,
				    (int)(kv_bytes < INT32_MAX ? kv_bytes : INT32_MAX), true,
				    MAX_SPLITS);
}

template <bool SPLIT, bool GATHER> void attend(Flash_fwd_params &p, cudaStream_t stream)
{
	run_mha_fwd_<90, cutlass::bfloat16_t, HEAD, HEAD, SPLIT, GATHER, false, true>(p, stream);
}

int rounded(int seqs)
{
	return (seqs + 3) / 4 * 4;
}

size_t aligned(int64_t bytes)
{
	return ((size_t)bytes + 255) / 256 * 256;
}

/* The cache's size is not known. TMA needs a bound that no page of it exceeds. */
int pages_bound(const attune_tensors *t)
{
	const int64_t least =
	    t->k_page_stride < t->v_page_stride ? t->k_page_stride : t->v_page_stride;
	const int64_t pages = least > 0 ? ADDRESSED / least : 1;

	return (int)(pages < 1 ? 1 : pages < 1 << 30 ? pages : 1 << 30);
}
} // namespace

Flash_fwd_params params_of(const attune_shape *shape, int units, int splits, const sizes &s)
{
	Flash_fwd_params p{};

	p.b = p.b_k = s.seqs;
	p.h = shape->num_query_heads;
	p.h_k = shape->num_kv_heads;
	p.d = p.dv = p.d_rounded = p.dv_rounded = HEAD;
	p.seqlen_q = s.max_query;
	p.seqlen_k = s.max_seq;
	p.total_q = (int)s.rows;
	p.page_size = shape->page_size;
	p.scale_softmax = shape->scale > 0 ? shape->scale : 1 / std::sqrt((float)HEAD);
	p.is_bf16 = true;
	p.is_causal = true;
	p.window_size_left = s.max_seq - 1;
	p.window_size_right = 0;
	p.v_dim_stride = 1;
	p.arch = 90;
	p.num_sm = units;
	p.cp_world_size = 1;
	p.pack_gqa = true; /* vLLM builds no others */
	p.head_swizzle = true;
	p.skip_scheduler_metadata_computation = true;
	p.pagedkv_tma = takes_tma(p);
	p.num_splits = most_splits(p, splits);
	return p;
}

int64_t partials_of(const Flash_fwd_params &p)
{
	return p.num_splits > 1 ? (int64_t)p.num_splits * p.h * p.total_q : 0;
}

size_t words_of(int seqs)
{
	return 3 * (size_t)rounded(seqs) + 4 + (size_t)seqs + 1;
}

int *starts_in(int seqs, int *words)
{
	return words + 3 * (size_t)rounded(seqs) + 4;
}

void set_metadata(Flash_fwd_params &p, int *words)
{
	const size_t n = (size_t)rounded(p.b);

	p.prepare_seqlen_q_ptr = words;
	p.num_splits_dynamic_ptr = p.num_splits > 1 ? words + n : NULL;
	p.num_nheads_in_l2_ptr = words + 2 * n;
	p.tile_count_semaphore = words + 3 * n;
}

cudaError_t compute_metadata(Flash_fwd_params &p, cudaStream_t stream)
{
	const tile t = tile_of(p, !p.pagedkv_tma);

	prepare_varlen_num_blocks(p, stream, p.pack_gqa, t.rows, t.keys, false);
	return cudaGetLastError();
}

size_t workspace_of(const Flash_fwd_params &p)
{
	return aligned((int64_t)p.h * p.total_q * 4) + aligned(partials_of(p) * 4) +
	       aligned(partials_of(p) * HEAD * 4);
}

void set_workspace(Flash_fwd_params &p, void *workspace)
{
	char *at = (char *)workspace;
	const int64_t head = p.total_q, split = head * p.h;

	p.softmax_lse_ptr = at;
	at += aligned(split * 4);
	p.softmax_lseaccum_ptr = at;
	p.lseaccum_head_stride = head;
	p.lseaccum_split_stride = split;
	at += aligned(partials_of(p) * 4);
	p.oaccum_ptr = at;
	p.oaccum_row_stride = HEAD;
	p.oaccum_head_stride = head * HEAD;
	p.oaccum_split_stride = split * HEAD;
}

const char *set_tensors(Flash_fwd_params &p, const attune_tensors *t, int64_t first)
{
	const int64_t strides = t->q_token_stride | t->q_head_stride | t->out_token_stride |
				t->out_head_stride | t->k_page_stride | t->k_slot_stride |
				t->k_head_stride | t->v_page_stride | t->v_slot_stride |
				t->v_head_stride;
	const uintptr_t bases =
	    (uintptr_t)t->q | (uintptr_t)t->out | (uintptr_t)t->k_cache | (uintptr_t)t->v_cache;

	if (strides % 8 != 0 || bases % 16 != 0)
		return "rows of q, out and the cache must begin at multiples of 16 bytes";
	p.q_ptr = (uint16_t *)t->q + first * t->q_token_stride;
	p.q_row_stride = t->q_token_stride;
	p.q_head_stride = t->q_head_stride;
	p.o_ptr = (uint16_t *)t->out + first * t->out_token_stride;
	p.o_row_stride = t->out_token_stride;
	p.o_head_stride = t->out_head_stride;
	p.k_ptr = (void *)t->k_cache;
	p.k_batch_stride = t->k_page_stride;
	p.k_row_stride = t->k_slot_stride;
	p.k_head_stride = t->k_head_stride;
	p.v_ptr = (void *)t->v_cache;
	p.v_batch_stride = t->v_page_stride;
	p.v_row_stride = t->v_slot_stride;
	p.v_head_stride = t->v_head_stride;
	p.page_table = (int *)t->block_table;
	p.page_table_batch_stride = t->block_table_stride;
	p.num_pages = pages_bound(t);
	return NULL;
}

cudaError_t enqueue(Flash_fwd_params &p, cudaStream_t stream)
{
	try {
		if (p.num_splits == 1) {
			p.pagedkv_tma ? attend<false, false>(p, stream)
				      : attend<false, true>(p, stream);
			return cudaMemsetAsync(p.tile_count_semaphore, 0, sizeof(int), stream);
		}
		p.pagedkv_tma ? attend<true, false>(p, stream) : attend<true, true>(p, stream);
		run_mha_fwd_combine_<cutlass::bfloat16_t, float, HEAD>(p, stream, true);
	} catch (cudaError_t why) {
		return why;
	}
	return cudaSuccess;
}
} // namespace fa3
