/* fa2_plan.cu - calls FlashInfer's plan function of fa2, and turns its offsets into arguments. */
#include "fa2_plan.h"

namespace adapter
{

/* Behind the last offset that the plan gave out lies a float for each row of each head. */
static size_t partials(const flashinfer::PrefillPlanInfo *info, int num_query_heads)
{
	if (!info->split_kv)
		return 0;
	return info->s_offset +
	       sizeof(float) * num_query_heads * info->padded_batch_size * info->cta_tile_q;
}

int fa2_fill(const op *o, fa2_plan *p, int split_pages, int64_t colocated, void *stream,
	     size_t *workspace, char *error)
{
	const attune_shape *s = &o->shape;
	const cudaError_t status = flashinfer::PrefillPlan<int32_t>(
	    no_buffer(), no_limit, p->mem.device, p->mem.pinned, index_bytes, p->info,
	    p->query_start.data(), p->page_start.data(), p->num_tokens, p->num_seqs,
	    s->num_query_heads, s->num_kv_heads, s->head_size, s->head_size, s->page_size,
	    /*cuda graph*/ false, sizeof(fa2_element), /*window*/ -1,
	    split_pages ? split_pages : -1,
	    /*no split*/ false, colocated, /*uniform query*/ 0, static_cast<cudaStream_t>(stream));
	*workspace = partials(&p->info, s->num_query_heads);
	return status ? fail_cuda(error, "PrefillPlan", status) : 0;
}

static void set_scales(fa2_params *, const attune_tensors *)
{
}

static void set_scales(fa2_scaled_params *a, const attune_tensors *t)
{
	a->d_k_scale = t->k_scale;
	a->d_v_scale = t->v_scale;
}

template <typename Cache>
fa2_call_over<Cache> fa2_arguments(const op *o, const fa2_plan *p, const attune_tensors *t,
				   void *workspace)
{
	using element = typename Cache::element;
	const attune_shape *s = &o->shape;
	const int64_t k_strides[] = { t->k_page_stride, t->k_slot_stride, t->k_head_stride };
	const int64_t v_strides[] = { t->v_page_stride, t->v_slot_stride, t->v_head_stride };
	fa2_call_over<Cache> c = {};
	typename Cache::params &a = c.a;
	a.q = rows<fa2_element>(t->q, p, t->q_token_stride);
	a.o = rows<fa2_element>(t->out, p, t->out_token_stride);
	a.paged_kv = flashinfer::paged_kv_t<element, int32_t>(
	    s->num_kv_heads, s->page_size, s->head_size, p->num_seqs, flashinfer::QKVLayout::kNHD,
	    (element *)t->k_cache, (element *)t->v_cache, k_strides, v_strides, p->d_pages,
	    p->d_page_start, p->d_last_page_len);
	a.q_indptr = p->d_query_start;
	a.num_qo_heads = s->num_query_heads;
	a.group_size = flashinfer::uint_fastdiv(s->num_query_heads / s->num_kv_heads);
	a.q_stride_n = t->q_token_stride;
	a.q_stride_h = t->q_head_stride;
	a.window_left = -1;
	a.sm_scale = o->scale;
	set_scales(&a, t);
	a.rope_rcp_scale = a.rope_rcp_theta = 1;
	void *ints = p->mem.device;
	a.request_indices = at<int32_t>(ints, p->info.request_indices_offset);
	a.qo_tile_indices = at<int32_t>(ints, p->info.qo_tile_indices_offset);
	a.kv_tile_indices = at<int32_t>(ints, p->info.kv_tile_indices_offset);
	a.o_indptr = at<int32_t>(ints, p->info.o_indptr_offset);
	a.kv_chunk_size_ptr = at<int32_t>(ints, p->info.kv_chunk_size_ptr_offset);
	a.padded_batch_size = p->info.padded_batch_size;
	a.max_total_num_rows = p->info.total_num_rows;
	if (p->info.split_kv) {
		a.merge_indptr = at<int32_t>(ints, p->info.merge_indptr_offset);
		c.tmp_v = at<fa2_element>(workspace, p->info.v_offset);
		c.tmp_s = at<float>(workspace, p->info.s_offset);
	}
	return c;
}

template fa2_call_over<fa2_bf16> fa2_arguments(const op *, const fa2_plan *, const attune_tensors *,
					       void *);
template fa2_call_over<fa2_e4m3> fa2_arguments(const op *, const fa2_plan *, const attune_tensors *,
					       void *);

} // namespace adapter
