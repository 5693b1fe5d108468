/* batch.cu - FlashInfer's persistent kernel, fi_batch: what its BatchAttention runs. One
 * cooperative grid of two blocks per SM works through a list of items that the plan dealt out,
 * prefills and decodes alike, and merges the splits at its end. */
#include "flashinfer.h"
#include "batch.h"
#include <flashinfer/attention/scheduler.cuh>

namespace adapter
{
namespace
{

struct batch_plan : plan {
	flashinfer::HolisticPlanInfo<2> info;
};

/* Its kernel multiplies the number of a page by the stride in 32 bits (persistent.cuh). A cache is
 * larger than what one batch reads of it, so half of the range is left to the rest. */
constexpr long long max_elements = 1LL << 31;

/* Limits of FlashInfer's plan: items of each of its two tasks, and rows whose splits are merged. */
constexpr long long max_items = 65536;
constexpr long long max_merged_rows(int units)
{
	return 4LL * 2 * units * (128 + 16) - 1;
}

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
	const long long rows = part->query_tokens * (s->num_query_heads / s->num_kv_heads);
	const long long tiles = rows / 128 + part->num_seqs;
	/* Each split takes what one block may take, or half of it. */
	const long long items = s->num_kv_heads * (tiles + 1) + 2 * 2LL * device->units;
	if (rows > max_merged_rows(device->units) || items > max_items)
		return "batches for which its plan's arrays may be too small";
	if (part->kv_tokens * s->num_kv_heads * s->head_size > max_elements)
		return "batches of more than 2^31 elements of K: its offsets of pages have 32 bits";
	return nullptr;
}

/* Bytes of partial results: its plan gives out the last array, an LSE for each row of 128 elements
 * before it, at partial_lse_offset. */
size_t partials(const flashinfer::HolisticPlanInfo<2> *info)
{
	const size_t rows = (size_t)(info->partial_lse_offset - info->partial_o_offset) /
				(batch_head_size * sizeof(batch_params::DTypeO)) +
			    1;
	return info->partial_lse_offset + rows * sizeof(float);
}

int plan_batch(void *object, const attune_plugin_batch *b, void **result, size_t *workspace,
	       char *error)
{
	return make_plan<batch_plan>(object, b, result, error, [&](const op *o, batch_plan *p) {
		const attune_shape *s = &o->shape;
		const cudaError_t status = flashinfer::TwoStageHolisticPlan<int32_t>(
		    no_buffer(), no_limit, p->mem.device, p->mem.pinned, index_bytes, p->info,
		    p->query_start.data(), p->page_start.data(), p->seq_lens.data(), p->num_seqs,
		    s->num_query_heads, s->num_kv_heads, s->head_size, /*causal*/ true,
		    static_cast<cudaStream_t>(b->stream));
		*workspace = partials(&p->info);
		return status ? fail_cuda(error, "TwoStageHolisticPlan", status) : 0;
	});
}

void set_tensors(batch_params *a, const op *o, const batch_plan *p, const attune_tensors *t)
{
	a->q = rows<__nv_bfloat16>(t->q, p, t->q_token_stride);
	a->final_o = rows<__nv_bfloat16>(t->out, p, t->out_token_stride);
	a->k = (__nv_bfloat16 *)t->k_cache;
	a->v = (__nv_bfloat16 *)t->v_cache;
	a->q_stride_n = t->q_token_stride;
	a->q_stride_h = t->q_head_stride;
	a->k_stride_page = t->k_page_stride;
	a->k_stride_n = t->k_slot_stride;
	a->k_stride_h = t->k_head_stride;
	a->v_stride_page = t->v_page_stride;
	a->v_stride_n = t->v_slot_stride;
	a->v_stride_h = t->v_head_stride;
	a->num_kv_heads = o->shape.num_kv_heads;
	a->gqa_group_size =
	    flashinfer::uint_fastdiv(o->shape.num_query_heads / o->shape.num_kv_heads);
	a->page_size = flashinfer::uint_fastdiv(o->shape.page_size);
	a->sm_scale = o->scale;
	a->v_scale = 1;
}

/* task 0: prefills, 1: decodes. */
void set_plan(batch_params *a, const batch_plan *p, int task, void *workspace)
{
	const auto &from = p->info.tasks[task];
	void *ints = p->mem.device;
	a->q_indptr = at<int32_t>(ints, from.q_indptr_offset);
	a->kv_indptr = at<int32_t>(ints, from.kv_indptr_offset);
	a->partial_indptr = at<int32_t>(ints, from.partial_indptr_offset);
	a->q_len = at<int32_t>(ints, from.q_len_offset);
	a->kv_len = at<int32_t>(ints, from.kv_len_offset);
	a->q_start = at<int32_t>(ints, from.q_start_offset);
	a->kv_start = at<int32_t>(ints, from.kv_start_offset);
	a->kv_end = at<int32_t>(ints, from.kv_end_offset);
	a->kv_head_idx_arr = at<int32_t>(ints, from.kv_head_idx_offset);
	a->work_indptr = at<int32_t>(ints, from.work_indptr_offset);
	a->len_kv_chunk = at<int32_t>(ints, p->info.len_kv_chunk_offset) + task;
	a->kv_indices = p->d_pages;
	a->merge_indptr = at<int32_t>(ints, p->info.merge_indptr_offset);
	a->merge_o_indices = at<int32_t>(ints, p->info.merge_o_indices_offset);
	a->num_packed_qo_len = at<int32_t>(ints, p->info.num_qo_len_offset);
	a->partial_o = at<__nv_bfloat16>(workspace, p->info.partial_o_offset);
	a->partial_lse = at<float>(workspace, p->info.partial_lse_offset);
}

int launch(void *object, void *object_plan, const attune_tensors *t, void *workspace, void *stream,
	   char *error)
{
	const op *o = static_cast<op *>(object);
	const batch_plan *p = static_cast<batch_plan *>(object_plan);
	return guarded(o, error, [&] {
		if (check_output(o, t, error))
			return 1;
		batch_params tasks[2] = {};
		for (int i = 0; i < 2; i++) {
			set_tensors(&tasks[i], o, p, t);
			set_plan(&tasks[i], p, i, workspace);
		}
		const cudaError_t status =
		    BATCH_LAUNCH(tasks[0], tasks[1], p->info.num_blks_x, p->info.num_blks_y,
				 static_cast<cudaStream_t>(stream));
		return status ? fail_cuda(error, "BatchAttention", status) : 0;
	});
}

} // namespace
} // namespace adapter

using namespace adapter;

const attune_plugin flashinfer_batch = {
	ATTUNE_PLUGIN_ABI,
	"fi_batch",
	VERSION,
	"FlashInfer's BatchAttention (persistent)",
	"cuda",
	ATTUNE_PLUGIN_DENSE_ROWS,
	nullptr,
	0,
	refuses,
	prepare<0>,
	plan_batch,
	launch,
	free_plan<batch_plan>,
	free_op,
};
