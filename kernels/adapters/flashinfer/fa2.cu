/* fa2.cu - FlashInfer's fa2 template (mma.sync) over paged K and V, as two kernels:
 *
 *   fi_decode  one query each, without a mask: what BatchDecodeWithPagedKVCacheWrapper runs with
 *              use_tensor_cores=True
 *   fi_fa2     any queries, causal: BatchPrefillWithPagedKVCacheWrapper, backend "fa2"
 *
 * Both also over an E4M3 cache, which needs one scale of K and one of V, or none.
 *
 * FlashInfer plans each batch for its lengths (enable_cuda_graph false): with true it pads the grid
 * to the most that it may need, so that one graph serves all lengths, and always splits. */
#include "fa2_plan.h"

namespace adapter
{
namespace
{

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
	if (s->kv_dtype != ATTUNE_BF16 && s->kv_dtype != ATTUNE_E4M3)
		return "caches other than BF16 and E4M3";
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

int plan_batch(void *object, const attune_plugin_batch *b, void **result, size_t *workspace,
	       char *error)
{
	return make_plan<fa2_plan>(object, b, result, error, [&](const op *o, fa2_plan *p) {
		return fa2_fill(o, p, o->values[SPLIT_TOKENS] / o->shape.page_size, 0, b->stream,
				workspace, error);
	});
}

template <typename Cache>
cudaError_t start(int tile, bool decode, const fa2_call_over<Cache> &c, cudaStream_t stream)
{
	const bool pdl = true;
	if (decode)
		return FA2_LAUNCH(Cache, 16, kNone)(c.a, c.tmp_v, c.tmp_s, pdl, stream);
	switch (tile) {
	case 16: return FA2_LAUNCH(Cache, 16, kCausal)(c.a, c.tmp_v, c.tmp_s, pdl, stream);
	case 64: return FA2_LAUNCH(Cache, 64, kCausal)(c.a, c.tmp_v, c.tmp_s, pdl, stream);
	case 128: return FA2_LAUNCH(Cache, 128, kCausal)(c.a, c.tmp_v, c.tmp_s, pdl, stream);
	default: return cudaErrorNotSupported;
	}
}

int launch(op *o, const fa2_plan *p, bool decode, const attune_tensors *t, void *workspace,
	   cudaStream_t stream, char *error)
{
	const int tile = p->info.cta_tile_q;
	return guarded(o, error, [&] {
		if (check_output(o, t, error) || check_one_scale(t, error))
			return 1;
		const cudaError_t status =
		    o->shape.kv_dtype == ATTUNE_E4M3
			? start(tile, decode, fa2_arguments<fa2_e4m3>(o, p, t, workspace), stream)
			: start(tile, decode, fa2_arguments(o, p, t, workspace), stream);
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
	ATTUNE_PLUGIN_DENSE_ROWS | ATTUNE_PLUGIN_ONE_SCALE | ATTUNE_PLUGIN_Q_TYPE_MATH,
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
	ATTUNE_PLUGIN_DENSE_ROWS | ATTUNE_PLUGIN_ONE_SCALE | ATTUNE_PLUGIN_Q_TYPE_MATH,
	axes,
	1,
	refuses,
	prepare<1>,
	plan_batch,
	launch_batch<false>,
	free_plan<fa2_plan>,
	free_op,
};
