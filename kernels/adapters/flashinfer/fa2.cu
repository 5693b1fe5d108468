/* fa2.cu - FlashInfer's fa2 template (mma.sync) over paged K and V, as two kernels:
 *
 *   fi_decode  one query each, without a mask: what BatchDecodeWithPagedKVCacheWrapper runs with
 *              use_tensor_cores=True
 *   fi_fa2     any queries, causal: BatchPrefillWithPagedKVCacheWrapper, backend "fa2"
 *
 * FlashInfer plans each batch for its lengths (enable_cuda_graph false): with true it pads the grid
 * to the most that it may need, so that one graph serves all lengths, and always splits. */
#include "flashinfer.h"
#include "fa2.h"
#include <flashinfer/attention/scheduler.cuh>

namespace adapter
{
namespace
{

struct fa2_plan : plan {
	flashinfer::PrefillPlanInfo info;
};

enum { SPLIT_TOKENS };
const int split_tokens[] = { 0, 1024, 4096 };
const attune_plugin_axis axes[] = {
	{ "SPLIT_TOKENS", "keys of a split, in whole pages; 0: what FlashInfer's plan chooses",
	  split_tokens, 3, 0 },
};

/* The most rows of a tile of a batch that may be cut into fixed splits: its partial results are
 * tiles x splits x heads. */
constexpr int max_split_rows = 16;

const char *refuses(const attune_shape *s, const int *values, const attune_plugin_part *part,
		    const attune_plugin_device *device)
{
	const char *why = refuse_shape(s, device);
	if (why)
		return why;
	if (s->kv_dtype != ATTUNE_BF16)
		return "caches other than BF16";
	const int group = s->num_query_heads / s->num_kv_heads;
	if (part && values[SPLIT_TOKENS] && part->max_query * group > max_split_rows)
		return "fixed splits for more than 16 rows of a group";
	return nullptr;
}

const char *decode_refuses(const attune_shape *s, const int *values, const attune_plugin_part *part,
			   const attune_plugin_device *device)
{
	const char *why = refuses(s, values, part, device);
	if (why)
		return why;
	if (s->num_query_heads / s->num_kv_heads > 16)
		return "groups of more than 16 heads";
	if (part && part->max_query > 1)
		return "queries of more than one token";
	return nullptr;
}

/* Bytes of partial results behind the last offset that the plan gave out. */
size_t partials(const flashinfer::PrefillPlanInfo *info, int num_query_heads)
{
	if (!info->split_kv)
		return 0;
	return info->s_offset +
	       sizeof(float) * num_query_heads * info->padded_batch_size * info->cta_tile_q;
}

int plan_batch(void *object, const attune_plugin_batch *b, void **result, size_t *workspace,
	       char *error)
{
	return make_plan<fa2_plan>(object, b, result, error, [&](const op *o, fa2_plan *p) {
		const attune_shape *s = &o->shape;
		const int split_pages = o->values[SPLIT_TOKENS] / s->page_size;
		const cudaError_t status = flashinfer::PrefillPlan<int32_t>(
		    no_buffer(), no_limit, p->mem.device, p->mem.pinned, index_bytes, p->info,
		    p->query_start.data(), p->page_start.data(), p->num_tokens, p->num_seqs,
		    s->num_query_heads, s->num_kv_heads, s->head_size, s->head_size, s->page_size,
		    /*cuda graph*/ false, sizeof(fa2_element), /*window*/ -1,
		    split_pages ? split_pages : -1, /*no split*/ false, /*colocated blocks*/ 0,
		    /*uniform query*/ 0, static_cast<cudaStream_t>(b->stream));
		*workspace = partials(&p->info, s->num_query_heads);
		return status ? fail_cuda(error, "PrefillPlan", status) : 0;
	});
}

fa2_params params_of(const op *o, const fa2_plan *p, const attune_tensors *t)
{
	const attune_shape *s = &o->shape;
	const int64_t k_strides[] = { t->k_page_stride, t->k_slot_stride, t->k_head_stride };
	const int64_t v_strides[] = { t->v_page_stride, t->v_slot_stride, t->v_head_stride };
	fa2_params a;
	a.q = rows<fa2_element>(t->q, p, t->q_token_stride);
	a.o = rows<fa2_element>(t->out, p, t->out_token_stride);
	a.paged_kv = flashinfer::paged_kv_t<fa2_element, int32_t>(
	    s->num_kv_heads, s->page_size, s->head_size, p->num_seqs, flashinfer::QKVLayout::kNHD,
	    (fa2_element *)t->k_cache, (fa2_element *)t->v_cache, k_strides, v_strides, p->d_pages,
	    p->d_page_start, p->d_last_page_len);
	a.q_indptr = p->d_query_start;
	a.num_qo_heads = s->num_query_heads;
	a.group_size = flashinfer::uint_fastdiv(s->num_query_heads / s->num_kv_heads);
	a.q_stride_n = t->q_token_stride;
	a.q_stride_h = t->q_head_stride;
	a.window_left = -1;
	a.sm_scale = o->scale;
	a.rope_rcp_scale = a.rope_rcp_theta = 1;
	void *ints = p->mem.device;
	a.request_indices = at<int32_t>(ints, p->info.request_indices_offset);
	a.qo_tile_indices = at<int32_t>(ints, p->info.qo_tile_indices_offset);
	a.kv_tile_indices = at<int32_t>(ints, p->info.kv_tile_indices_offset);
	a.o_indptr = at<int32_t>(ints, p->info.o_indptr_offset);
	a.kv_chunk_size_ptr = at<int32_t>(ints, p->info.kv_chunk_size_ptr_offset);
	a.padded_batch_size = p->info.padded_batch_size;
	a.max_total_num_rows = p->info.total_num_rows;
	return a;
}

cudaError_t start(int tile, bool decode, const fa2_params &a, fa2_element *tmp_v, float *tmp_s,
		  cudaStream_t stream)
{
	const bool pdl = true;
	if (decode)
		return FA2_LAUNCH(16, kNone)(a, tmp_v, tmp_s, pdl, stream);
	switch (tile) {
	case 16: return FA2_LAUNCH(16, kCausal)(a, tmp_v, tmp_s, pdl, stream);
	case 64: return FA2_LAUNCH(64, kCausal)(a, tmp_v, tmp_s, pdl, stream);
	case 128: return FA2_LAUNCH(128, kCausal)(a, tmp_v, tmp_s, pdl, stream);
	default: return cudaErrorNotSupported;
	}
}

int launch(op *o, const fa2_plan *p, bool decode, const attune_tensors *t, void *workspace,
	   cudaStream_t stream, char *error)
{
	return guarded(o, error, [&] {
		if (check_output(o, t, error))
			return 1;
		fa2_params a = params_of(o, p, t);
		fa2_element *tmp_v = nullptr;
		float *tmp_s = nullptr;
		if (p->info.split_kv) {
			a.merge_indptr = at<int32_t>(p->mem.device, p->info.merge_indptr_offset);
			tmp_v = at<fa2_element>(workspace, p->info.v_offset);
			tmp_s = at<float>(workspace, p->info.s_offset);
		}
		const cudaError_t status =
		    start(p->info.cta_tile_q, decode, a, tmp_v, tmp_s, stream);
		return status ? fail_cuda(error, "fa2", status) : 0;
	});
}

template <bool DECODE>
int launch_batch(void *o, void *p, const attune_tensors *t, void *workspace, void *stream,
		 char *error)
{
	return launch(static_cast<op *>(o), static_cast<fa2_plan *>(p), DECODE, t, workspace,
		      static_cast<cudaStream_t>(stream), error);
}

} // namespace
} // namespace adapter

using namespace adapter;

const attune_plugin flashinfer_decode = {
	ATTUNE_PLUGIN_ABI,
	"fi_decode",
	VERSION,
	"FlashInfer's BatchDecode with tensor cores (fa2, one query each)",
	"cuda",
	ATTUNE_PLUGIN_DENSE_ROWS,
	axes,
	1,
	decode_refuses,
	prepare<1>,
	plan_batch,
	launch_batch<true>,
	free_plan<fa2_plan>,
	free_op,
};

const attune_plugin flashinfer_fa2 = {
	ATTUNE_PLUGIN_ABI,
	"fi_fa2",
	VERSION,
	"FlashInfer's BatchPrefill over pages, backend fa2",
	"cuda",
	ATTUNE_PLUGIN_DENSE_ROWS,
	axes,
	1,
	refuses,
	prepare<1>,
	plan_batch,
	launch_batch<false>,
	free_plan<fa2_plan>,
	free_op,
};
