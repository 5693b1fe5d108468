/* xqa.cu - XQA: decodes, one query each, over pages of the sizes and for the groups that the build
 * wrote to xqa_list.h: #define XQA_LIST X(16, 4) X(16, 8). Two kernels:
 *
 *   fi_xqa       a BF16 cache, or an E4M3 cache whose K and V become BF16
 *   fi_xqa_fp8   an E4M3 cache; q and weights become E4M3, too, which FlashInfer runs on sm_90 */
#include "flashinfer.h"
#include "xqa.h"
#include "xqa_list.h"
#include <cmath>

namespace adapter
{

#define X(page, group)                     \
	XQA_DECLARE(page, group, bf16);    \
	XQA_DECLARE(page, group, dequant); \
	XQA_DECLARE(page, group, fp8);
XQA_LIST
#undef X

namespace
{

enum math { BF16, DEQUANT, FP8, NUM_MATHS };

struct variant {
	int page_size, group;
	cudaError_t (*load[NUM_MATHS])();
	void (*launch[NUM_MATHS])(const xqa_call &);
};

#define X(page, group)                                                                   \
	{ page,                                                                          \
	  group,                                                                         \
	  { XQA_NAME(load, page, group, bf16), XQA_NAME(load, page, group, dequant),     \
	    XQA_NAME(load, page, group, fp8) },                                          \
	  { XQA_NAME(launch, page, group, bf16), XQA_NAME(launch, page, group, dequant), \
	    XQA_NAME(launch, page, group, fp8) } },
const variant variants[] = { XQA_LIST };
#undef X

const variant *find(const attune_shape *s)
{
	for (const variant &v : variants)
		if (v.page_size == s->page_size && v.group * s->num_kv_heads == s->num_query_heads)
			return &v;
	return nullptr;
}

/* In the values of an op, which has no tunables. */
enum { FP8_MATH };

math math_of(const attune_shape *s, const int *values)
{
	return s->kv_dtype == ATTUNE_BF16 ? BF16 : values[FP8_MATH] ? FP8 : DEQUANT;
}

template <bool HAS_FP8_MATH>
const char *refuses(const attune_shape *s, const int *, const attune_plugin_part *part,
		    const attune_plugin_device *device)
{
	const char *why = refuse_shape(s, device);
	if (why)
		return why;
	if (s->kv_dtype != ATTUNE_BF16 && s->kv_dtype != ATTUNE_E4M3)
		return "caches other than BF16 and E4M3";
	if (s->kv_dtype == ATTUNE_BF16 && HAS_FP8_MATH)
		return "caches other than E4M3";
	if (!find(s))
		return "page sizes and groups that it was not compiled for";
	if (part && part->max_query > 1)
		return "queries of more than one token";
	if (part && (long long)part->num_seqs * s->num_kv_heads > 65535)
		return "more than 65535 sequences times KV heads";
	return nullptr;
}

/* In the memory of a plan: semaphores, then the two factors of an E4M3 cache. */
constexpr size_t factors_at = 1 << 20;

struct xqa_plan {
	memory mem;
	int num_seqs, first_token;
};

template <bool HAS_FP8_MATH>
int prepare_xqa(void **result, const attune_shape *s, const int *,
		const attune_plugin_device *device, char *error)
{
	const int values[] = { HAS_FP8_MATH };
	if (prepare<1>(result, s, values, device, error))
		return 1;
	const cudaError_t status = find(s)->load[math_of(s, values)]();
	if (!status)
		return 0;
	free_op(*result);
	return fail_cuda(error, "cudaFuncSetAttribute", status);
}

/* Each block may leave partial results: 256 bytes of values for each head of the group, its maxima
 * and sums, which take less than 2 KiB, and gaps between the arrays. There is a block for each
 * sequence and KV head, or as many as the GPU has SMs. */
size_t scratch_bytes(const op *o, int num_seqs)
{
	const size_t group = o->shape.num_query_heads / o->shape.num_kv_heads;
	const size_t blocks = (size_t)num_seqs * o->shape.num_kv_heads + o->units;
	return blocks * (2048 + 256 * group) + 65536;
}

int plan_batch(void *object, const attune_plugin_batch *b, void **result, size_t *workspace,
	       char *error)
{
	op *o = static_cast<op *>(object);
	return guarded(o, error, [&] {
		xqa_plan *p = new xqa_plan();
		p->num_seqs = b->lengths.num_seqs;
		p->first_token = b->lengths.query_start[0];
		const size_t bytes = (size_t)p->num_seqs * o->shape.num_kv_heads * sizeof(uint32_t);
		cudaError_t status = cudaSuccess;
		if (!take_memory(o, 0, 1, &p->mem, error)) {
			status = cudaMemsetAsync(p->mem.device, 0, bytes,
						 static_cast<cudaStream_t>(b->stream));
			if (!status) {
				*workspace = scratch_bytes(o, p->num_seqs);
				*result = p;
				return 0;
			}
			fail_cuda(error, "cudaMemsetAsync", status);
		}
		free_plan<xqa_plan>(o, p);
		return 1;
	});
}

/* XQA has one factor for K and V: the other goes to q. */
__global__ void make_factors(float *factors, float q_scale, const float *k, const float *v)
{
	const float k_factor = k ? *k : 1, v_factor = v ? *v : 1;
	factors[0] = q_scale * k_factor / v_factor;
	factors[1] = v_factor;
}

int set_factors(const xqa_plan *p, const attune_tensors *t, xqa_call *c, char *error)
{
	c->pdl = true;
	if (!t->k_scale && !t->v_scale)
		return 0;
	if (check_one_scale(t, error))
		return 1;
	float *factors = at<float>(p->mem.device, factors_at);
	make_factors<<<1, 1, 0, c->stream>>>(factors, c->q_scale, t->k_scale, t->v_scale);
	c->d_q_scale = factors;
	c->d_kv_scale = factors + 1;
	c->pdl = false; /* it reads the factors before it waits for the launch in front */
	const cudaError_t status = cudaGetLastError();
	return status ? fail_cuda(error, "make_factors", status) : 0;
}

int check_tensors(const op *o, const attune_tensors *t, char *error)
{
	const int64_t head = o->shape.head_size;
	if (check_output(o, t, error))
		return 1;
	if (t->q_head_stride != head || t->q_token_stride != head * o->shape.num_query_heads)
		return fail(error, "q has gaps between heads or tokens; XQA reads dense rows");
	if (t->k_page_stride != t->v_page_stride || t->k_slot_stride != t->v_slot_stride ||
	    t->k_head_stride != t->v_head_stride)
		return fail(error, "K and V have other strides; XQA wants them alike");
	if (t->k_page_stride % head || t->k_slot_stride % head || t->k_head_stride % head)
		return fail(error, "strides of the cache are no multiples of the head size");
	return 0;
}

int launch(void *object, void *object_plan, const attune_tensors *t, void *workspace, void *stream,
	   char *error)
{
	const op *o = static_cast<op *>(object);
	const xqa_plan *p = static_cast<xqa_plan *>(object_plan);
	const attune_shape *s = &o->shape;
	return guarded(o, error, [&] {
		if (check_tensors(o, t, error))
			return 1;
		const int64_t row = p->first_token * t->q_token_stride * 2;
		xqa_call c = {};
		c.out = at<char>(t->out, row);
		c.q = at<char>((void *)t->q, row);
		c.k = (void *)t->k_cache;
		c.v = (void *)t->v_cache;
		c.block_table = t->block_table;
		c.seq_lens = t->seq_lens;
		c.semaphores = at<uint32_t>(p->mem.device, 0);
		c.scratch = workspace;
		c.q_scale = o->scale * std::sqrt((float)s->head_size);
		c.kv_scale = 1;
		c.page_stride = t->k_page_stride;
		c.slot_stride = t->k_slot_stride;
		c.head_stride = t->k_head_stride;
		c.units = o->units;
		c.num_kv_heads = s->num_kv_heads;
		c.num_seqs = p->num_seqs;
		c.max_seq = t->block_table_stride * s->page_size;
		c.stream = static_cast<cudaStream_t>(stream);
		if (s->kv_dtype == ATTUNE_E4M3 ? set_factors(p, t, &c, error) : (c.pdl = true, 0))
			return 1;
		find(s)->launch[math_of(s, o->values)](c);
		const cudaError_t status = cudaGetLastError();
		return status ? fail_cuda(error, "XQA", status) : 0;
	});
}

} // namespace
} // namespace adapter

using namespace adapter;

const attune_plugin flashinfer_xqa = {
	ATTUNE_PLUGIN_ABI,
	"fi_xqa",
	VERSION,
	"XQA, TensorRT-LLM's decode as FlashInfer carries it",
	"cuda",
	ATTUNE_PLUGIN_FINITE_SLOTS | ATTUNE_PLUGIN_DENSE_ROWS | ATTUNE_PLUGIN_ONE_SCALE |
	    ATTUNE_PLUGIN_Q_TYPE_MATH,
	nullptr,
	0,
	refuses<false>,
	prepare_xqa<false>,
	plan_batch,
	launch,
	free_plan<xqa_plan>,
	free_op,
};

const attune_plugin flashinfer_xqa_fp8 = {
	ATTUNE_PLUGIN_ABI,
	"fi_xqa_fp8",
	VERSION,
	"XQA over an E4M3 cache, with q and weights in E4M3",
	"cuda",
	ATTUNE_PLUGIN_FINITE_SLOTS | ATTUNE_PLUGIN_DENSE_ROWS | ATTUNE_PLUGIN_ONE_SCALE |
	    ATTUNE_PLUGIN_E4M3_MATH,
	nullptr,
	0,
	refuses<true>,
	prepare_xqa<true>,
	plan_batch,
	launch,
	free_plan<xqa_plan>,
	free_op,
};
