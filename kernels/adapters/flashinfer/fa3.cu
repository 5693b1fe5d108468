/* fa3.cu - FlashInfer's fa3 template (wgmma) over paged K and V, the kernel fi_fa3: what
 * BatchPrefillWithPagedKVCacheWrapper runs on sm_90 by itself (backend "auto"). A block computes
 * one query head, so a group's heads do not share the reads of their keys. */
#include "flashinfer.h"
#include "fa3.h"
#include <flashinfer/attention/scheduler.cuh>
#include <algorithm>

namespace adapter
{
namespace
{

struct fa3_plan : plan {
	flashinfer::PrefillPlanSM90Info info;
};

/* Integers that its plan keeps of each item, a tile of 128 rows of a head. A head of more
 * than most_tiles shares its items with all others. */
constexpr long long item_ints = 7, most_tiles = 4096;

const char *refuses(const attune_shape *s, const int *, const attune_plugin_part *part,
		    const attune_plugin_device *device)
{
	const char *why = refuse_shape(s, device);
	if (why)
		return why;
	if (s->kv_dtype != ATTUNE_BF16)
		return "caches other than BF16";
	if (!part)
		return nullptr;
	const long long tiles = part->query_tokens / 128 + part->num_seqs;
	const long long items = std::min(tiles, most_tiles) * s->num_query_heads;
	if (std::max(items, tiles) * item_ints * (long long)sizeof(int32_t) > (7 << 20))
		return "batches for which its plan's arrays may be too small";
	return nullptr;
}

int plan_batch(void *object, const attune_plugin_batch *b, void **result, size_t *workspace,
	       char *error)
{
	*workspace = 0;
	return make_plan<fa3_plan>(object, b, result, error, [&](const op *o, fa3_plan *p) {
		const attune_shape *s = &o->shape;
		const cudaError_t status = flashinfer::PrefillSM90Plan<int32_t>(
		    no_buffer(), no_limit, p->mem.device, p->mem.pinned, index_bytes, p->info,
		    p->query_start.data(), p->page_start.data(), p->seq_lens.data(), p->num_tokens,
		    p->num_seqs, s->num_query_heads, s->num_kv_heads, s->head_size, s->head_size,
		    s->page_size, /*causal*/ true,
		    /*cuda graph*/ false, /*bytes of an output*/ 2,
		    static_cast<cudaStream_t>(b->stream));
		return status ? fail_cuda(error, "PrefillSM90Plan", status) : 0;
	});
}

void set_tensors(fa3_params *a, const fa3_plan *p, const attune_tensors *t)
{
	a->q_ptr = (fa3_element *)rows<uint16_t>(t->q, p, t->q_token_stride);
	a->k_ptr = (fa3_element *)t->k_cache;
	a->v_ptr = (fa3_element *)t->v_cache;
	a->o_ptr = (fa3_element *)rows<uint16_t>(t->out, p, t->out_token_stride);
	a->lse_ptr = nullptr;
	a->q_stride_n = t->q_token_stride;
	a->q_stride_h = t->q_head_stride;
	a->o_stride_n = t->out_token_stride;
	a->o_stride_h = t->out_head_stride;
	a->k_stride_n = t->k_slot_stride;
	a->k_stride_h = t->k_head_stride;
	a->k_page_stride = t->k_page_stride;
	a->v_stride_n = t->v_slot_stride;
	a->v_stride_h = t->v_head_stride;
	a->v_page_stride = t->v_page_stride;
}

void set_plan(fa3_params *a, const op *o, const fa3_plan *p)
{
	const attune_shape *s = &o->shape;
	void *ints = p->mem.device;
	a->qo_tile_indices = at<int32_t>(ints, p->info.qo_tile_indices_offset);
	a->qo_indptr = at<int32_t>(ints, p->info.qo_indptr_offset);
	a->kv_indptr = at<int32_t>(ints, p->info.kv_indptr_offset);
	a->qo_lens = at<int32_t>(ints, p->info.qo_len_offset);
	a->kv_lens = at<int32_t>(ints, p->info.kv_len_offset);
	a->head_indices = at<int32_t>(ints, p->info.head_indices_offset);
	a->work_indptr = at<int32_t>(ints, p->info.work_indptr_offset);
	a->batch_indices = at<int32_t>(ints, p->info.batch_indices_offset);
	a->kv_indices = p->d_pages;
	a->nnz_qo = p->num_tokens;
	a->num_qo_heads = s->num_query_heads;
	a->num_kv_heads = s->num_kv_heads;
	a->group_size = s->num_query_heads / s->num_kv_heads;
	a->page_size = s->page_size;
	a->window_left = -1;
	a->causal = true;
	a->additional_params.sm_scale = o->scale;
}

int launch(void *object, void *object_plan, const attune_tensors *t, void *, void *stream,
	   char *error)
{
	const op *o = static_cast<op *>(object);
	const fa3_plan *p = static_cast<fa3_plan *>(object_plan);
	return guarded(o, error, [&] {
		if (t->k_page_stride != t->v_page_stride || t->k_slot_stride != t->v_slot_stride)
			return fail(error, "K and V have other strides; fa3 wants them alike");
		fa3_params a = {};
		set_tensors(&a, p, t);
		set_plan(&a, o, p);
		const cudaStream_t s = static_cast<cudaStream_t>(stream);
		const bool pdl = true;
		const cudaError_t status = p->info.same_schedule_for_all_heads
					       ? FA3_LAUNCH(true)(a, pdl, s)
					       : FA3_LAUNCH(false)(a, pdl, s);
		return status ? fail_cuda(error, "fa3", status) : 0;
	});
}

} // namespace
} // namespace adapter

using namespace adapter;

const attune_plugin flashinfer_fa3 = {
	ATTUNE_PLUGIN_ABI,
	"fi_fa3",
	VERSION,
	"FlashInfer's BatchPrefill over pages, backend fa3",
	"cuda",
	0,
	nullptr,
	0,
	refuses,
	prepare<0>,
	plan_batch,
	launch,
	free_plan<fa3_plan>,
	free_op,
};
