/* pod.cu - FlashInfer's BatchPOD, fi_pod: what its BatchPODWithPagedKVCacheWrapper runs. Blocks of
 * prefills and of decodes share one grid, and each SM gets some of either.
 *
 *   sequences   0 .. at-1 | at .. num_seqs-1
 *               one side has queries of one token only: the decodes; the other, of more than 8
 *               each: the prefills
 *
 * Each side is a batch of its own with a plan of the fa2 template. */
#include "pod.h"
#include "fa2_plan.h"

namespace adapter
{
namespace
{

struct pod_plan {
	fa2_plan prefills, decodes;
	size_t decodes_at, counters_at; /* in the workspace, behind what the prefills have */
};

/* FlashInfer lets small prefills split only into what the decodes leave of the grid. */
constexpr int small_prefill = 1536;

const char *refuses(const attune_shape *s, const int *, const attune_plugin_part *part,
		    const attune_plugin_device *device)
{
	const char *why = refuse_shape(s, device);
	if (why)
		return why;
	if (s->kv_dtype != ATTUNE_BF16)
		return "caches other than BF16";
	if (s->num_query_heads / s->num_kv_heads > 16)
		return "groups of more than 16 heads";
	if (part && (!part->prefills.seq_count || part->decodes.max_query != 1))
		return "batches without both prefills and decodes of one token";
	if (part && part->prefills.seq_count + part->decodes.seq_count > part->num_seqs)
		return "decodes that do not lie on one side of all prefills";
	return nullptr;
}

int query(const attune_batch *b, int i)
{
	return b->query_start[i + 1] - b->query_start[i];
}

/* Sequences begin .. end - 1 as a batch. */
attune_plugin_batch side(const attune_plugin_batch *b, int begin, int end)
{
	attune_plugin_batch sub = *b;
	sub.lengths.num_seqs = end - begin;
	sub.lengths.query_start += begin;
	sub.lengths.seq_lens += begin;
	sub.tensors.block_table += (int64_t)begin * b->tensors.block_table_stride;
	return sub;
}

/* Of a batch that refuses() takes. */
void divide(const attune_plugin_batch *b, attune_plugin_batch *prefills,
	    attune_plugin_batch *decodes)
{
	const attune_batch *l = &b->lengths;
	const bool decodes_first = query(l, 0) == 1;
	int at = 1;
	while (at < l->num_seqs && (query(l, at) == 1) == decodes_first)
		at++;
	*(decodes_first ? decodes : prefills) = side(b, 0, at);
	*(decodes_first ? prefills : decodes) = side(b, at, l->num_seqs);
}

void free_pod(void *object, void *object_plan)
{
	pod_plan *p = static_cast<pod_plan *>(object_plan);
	give_memory(static_cast<op *>(object), &p->prefills.mem);
	give_memory(static_cast<op *>(object), &p->decodes.mem);
	delete p;
}

int plan_side(op *o, const attune_plugin_batch *b, int64_t colocated, fa2_plan *p,
	      size_t *workspace, char *error)
{
	return make_index(o, b, p, error) ||
	       fa2_fill(o, p, 0, colocated, b->stream, workspace, error) ||
	       end_of_copies(p, b->stream, error);
}

size_t aligned(size_t bytes)
{
	return (bytes + 255) / 256 * 256;
}

int plan_both(op *o, const attune_plugin_batch *b, pod_plan *p, size_t *workspace, char *error)
{
	attune_plugin_batch prefills, decodes;
	size_t prefill_bytes, decode_bytes;
	divide(b, &prefills, &decodes);
	if (plan_side(o, &decodes, 0, &p->decodes, &decode_bytes, error))
		return 1;
	const int tokens = prefills.lengths.query_start[prefills.lengths.num_seqs] -
			   prefills.lengths.query_start[0];
	const int64_t colocated = tokens > small_prefill ? 0 : p->decodes.info.padded_batch_size;
	if (plan_side(o, &prefills, colocated, &p->prefills, &prefill_bytes, error))
		return 1;
	p->decodes_at = aligned(prefill_bytes);
	p->counters_at = p->decodes_at + aligned(decode_bytes);
	*workspace = p->counters_at + (o->units + 2) * sizeof(int);
	return 0;
}

int plan_batch(void *object, const attune_plugin_batch *b, void **result, size_t *workspace,
	       char *error)
{
	op *o = static_cast<op *>(object);
	pod_plan *p = new pod_plan();
	*result = p;
	if (!guarded(o, error, [&] { return plan_both(o, b, p, workspace, error); }))
		return 0;
	free_pod(o, p);
	return 1;
}

cudaError_t start(int tile, const fa2_call &p, const fa2_call &d, int *counters,
		  cudaStream_t stream)
{
	const bool pdl = true;
	switch (tile) {
	case 16:
		return POD_LAUNCH(16)(p.a, p.tmp_v, p.tmp_s, d.a, d.tmp_v, d.tmp_s, pdl, stream,
				      counters);
	case 64:
		return POD_LAUNCH(64)(p.a, p.tmp_v, p.tmp_s, d.a, d.tmp_v, d.tmp_s, pdl, stream,
				      counters);
	case 128:
		return POD_LAUNCH(128)(p.a, p.tmp_v, p.tmp_s, d.a, d.tmp_v, d.tmp_s, pdl, stream,
				       counters);
	default: return cudaErrorNotSupported;
	}
}

int launch(void *object, void *object_plan, const attune_tensors *t, void *workspace, void *stream,
	   char *error)
{
	const op *o = static_cast<op *>(object);
	const pod_plan *p = static_cast<pod_plan *>(object_plan);
	return guarded(o, error, [&] {
		if (check_output(o, t, error))
			return 1;
		const fa2_call prefills = fa2_arguments(o, &p->prefills, t, workspace);
		const fa2_call decodes =
		    fa2_arguments(o, &p->decodes, t, at<char>(workspace, p->decodes_at));
		const cudaError_t status =
		    start(p->prefills.info.cta_tile_q, prefills, decodes,
			  at<int>(workspace, p->counters_at), static_cast<cudaStream_t>(stream));
		return status ? fail_cuda(error, "BatchPOD", status) : 0;
	});
}

} // namespace
} // namespace adapter

using namespace adapter;

const attune_plugin flashinfer_pod = {
	ATTUNE_PLUGIN_ABI,
	"fi_pod",
	VERSION,
	"FlashInfer's BatchPOD: prefills and decodes in one grid",
	"cuda",
	ATTUNE_PLUGIN_DENSE_ROWS,
	nullptr,
	0,
	refuses,
	prepare<0>,
	plan_batch,
	launch,
	free_pod,
	free_op,
};
