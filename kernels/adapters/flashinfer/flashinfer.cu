/* flashinfer.cu - FlashInfer's kernels as a plug-in: the list, ops, memory and refusals. */
#include "flashinfer.h"
#include <algorithm>
#include <cmath>
#include <cstring>

namespace adapter
{

int fail(char *error, const char *what)
{
	snprintf(error, ATTUNE_PLUGIN_ERROR, "%s", what);
	for (char *c = error; *c; c++)
		if (*c == '\n')
			*c = ' ';
	return 1;
}

int fail_cuda(char *error, const char *doing, cudaError_t status)
{
	snprintf(error, ATTUNE_PLUGIN_ERROR, "%s: %s", doing, cudaGetErrorString(status));
	return 1;
}

const char *refuse_shape(const attune_shape *s, const attune_plugin_device *device)
{
	if (strcmp(device->backend, "cuda") || strcmp(device->arch, "sm_90"))
		return "GPUs other than sm_90";
	if (s->head_size != 128)
		return "head sizes other than 128";
	if (s->dtype != ATTUNE_BF16)
		return "query types other than BF16";
	if (!s->causal)
		return "attention that is not causal";
	if (s->window)
		return "windows";
	if (s->softcap)
		return "soft caps";
	if (s->has_sinks)
		return "sinks";
	if (s->has_alibi)
		return "ALiBi";
	if (s->kv_layout != ATTUNE_KV_STRIDED)
		return "the classic layout of the cache";
	if (s->has_lse)
		return "the LSE, which FlashInfer has to base 2";
	return nullptr;
}

static void release(memory *m)
{
	if (m->copied)
		cudaEventDestroy(m->copied);
	cudaFree(m->pages);
	cudaFree(m->device);
	cudaFreeHost(m->pinned);
	*m = memory();
}

static int new_memory(memory *m, char *error)
{
	cudaError_t status = cudaMalloc((void **)&m->device, m->bytes);
	if (!status)
		status = cudaMallocHost((void **)&m->pinned, m->bytes);
	if (!status)
		status = cudaMalloc((void **)&m->pages, m->page_entries * sizeof *m->pages);
	if (!status)
		status = cudaEventCreateWithFlags(&m->copied, cudaEventDisableTiming);
	if (!status)
		return 0;
	release(m);
	return fail_cuda(error, "memory of a plan", status);
}

int take_memory(op *o, size_t ints, size_t entries, memory *m, char *error)
{
	const size_t bytes = index_bytes + std::max(ints, usual_ints) * sizeof(int32_t);
	entries = std::max(entries, usual_pages);
	*m = memory();
	if (!o->spare.empty()) {
		*m = o->spare.back();
		o->spare.pop_back();
	}
	if (m->bytes >= bytes && m->page_entries >= entries) {
		const cudaError_t status = cudaEventSynchronize(m->copied);
		return status ? fail_cuda(error, "cudaEventSynchronize", status) : 0;
	}
	release(m);
	m->bytes = bytes;
	m->page_entries = entries;
	return new_memory(m, error);
}

void give_memory(op *o, const memory *m)
{
	if (m->device)
		o->spare.push_back(*m);
}

static int fill_op(op *o, char *error)
{
	memory ahead;
	const cudaError_t status = cudaSetDevice(o->ordinal);
	if (status)
		return fail_cuda(error, "cudaSetDevice", status);
	if (take_memory(o, usual_ints, usual_pages, &ahead, error))
		return 1;
	give_memory(o, &ahead);
	return 0;
}

int make_op(void **result, const attune_shape *shape, const int *values, int num_values,
	    const attune_plugin_device *device, char *error)
{
	op *o = new op();
	o->shape = *shape;
	for (int i = 0; i < num_values; i++)
		o->values[i] = values[i];
	o->ordinal = device->ordinal;
	o->units = device->units;
	o->scale = shape->scale ? shape->scale : 1 / std::sqrt((float)shape->head_size);
	*result = o;
	if (!fill_op(o, error))
		return 0;
	free_op(o);
	return 1;
}

void free_op(void *object)
{
	op *o = static_cast<op *>(object);
	cudaSetDevice(o->ordinal);
	for (memory &m : o->spare)
		release(&m);
	delete o;
}

int check_output(const op *o, const attune_tensors *t, char *error)
{
	const int64_t head = o->shape.head_size;
	if (t->out_head_stride == head && t->out_token_stride == head * o->shape.num_query_heads)
		return 0;
	return fail(error, "out has gaps between heads or tokens; FlashInfer writes dense rows");
}

int check_one_scale(const attune_tensors *t, char *error)
{
	if (!t->k_scale_seq_stride && !t->k_scale_head_stride && !t->v_scale_seq_stride &&
	    !t->v_scale_head_stride)
		return 0;
	return fail(error,
		    "FlashInfer has one scale for the whole cache, not one for each sequence");
}

} // namespace adapter

extern "C" __attribute__((visibility("default"))) const attune_plugin *const *attune_plugins(void)
{
	static const attune_plugin *const list[] = { &flashinfer_decode,  &flashinfer_fa2,
						     &flashinfer_fa3,     &flashinfer_batch,
						     &flashinfer_pod,     &flashinfer_xqa,
						     &flashinfer_xqa_fp8, nullptr };
	return list;
}
