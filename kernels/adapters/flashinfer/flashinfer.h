/* flashinfer.h - what the kernels of the FlashInfer adapter share: an op, the memory of a plan,
 * and a batch as FlashInfer wants it.
 *
 *   flashinfer.cu  the list of kernels; ops, memory, refusals
 *   pages.cu       a batch of attune as FlashInfer's index arrays
 *   K.cu           plans and launches of kernel K: fa2, fa3, batch, pod, xqa
 *   fa2_plan.cu    what fa2 and pod have in common
 *   K_kernels.cu   FlashInfer's code of K, which takes long to compile
 *   driver.cu      two functions of CUDA's driver
 *
 * FlashInfer plans in C++: it throws where a buffer is too small. guarded() makes that an error. */
#ifndef ATTUNE_FLASHINFER_H
#define ATTUNE_FLASHINFER_H

#include "attune_plugin.h"
#include <cuda_runtime.h>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <vector>

extern const attune_plugin flashinfer_decode, flashinfer_fa2, flashinfer_fa3, flashinfer_batch,
    flashinfer_pod, flashinfer_xqa, flashinfer_xqa_fp8;

namespace adapter
{

/* Bytes of FlashInfer's own index arrays, as its wrappers allocate. */
constexpr size_t index_bytes = 8 << 20;
/* Room that an op allocates ahead, so that most plans do not: our integers, and pages. */
constexpr size_t usual_ints = 1 << 16, usual_pages = 1 << 20;

/* The memory of one plan. A plan that is freed leaves it to the next, as the wrappers of an engine
 * keep theirs from step to step. */
struct memory {
	size_t bytes;        /* of each of the first two */
	char *device;        /* FlashInfer's index arrays, then ours */
	char *pinned;        /* the same on the host */
	size_t page_entries; /* room of pages */
	int32_t *pages;
	cudaEvent_t copied; /* the last copy out of `pinned` */
};

struct op {
	attune_shape shape;
	int values[ATTUNE_PLUGIN_AXES];
	int ordinal, units;
	float scale;
	std::vector<memory> spare;
};

/* The base of all plans. */
struct plan {
	memory mem;
	int num_seqs, num_tokens, first_token; /* row of q where the batch begins */
	/* On the host, for FlashInfer's plan functions; query_start from 0. */
	std::vector<int32_t> query_start, page_start, seq_lens, last_page_len;
	/* The same on the device, and the pages of all sequences in a row. */
	int32_t *d_query_start, *d_page_start, *d_last_page_len, *d_pages;
};

/* ---- flashinfer.cu ------------------------------------------------------------------------- */

int fail(char *error, const char *what);
int fail_cuda(char *error, const char *doing, cudaError_t);

const char *refuse_shape(const attune_shape *, const attune_plugin_device *);

int make_op(void **op, const attune_shape *, const int *values, int num_values,
	    const attune_plugin_device *, char *error);
void free_op(void *op);

/* Memory for `ints` of ours and `entries` pages. */
int take_memory(op *, size_t ints, size_t entries, memory *, char *error);
void give_memory(op *, const memory *);

/* The strides that FlashInfer assumes without asking. */
int check_output(const op *, const attune_tensors *, char *error);
/* An E4M3 cache has one scale of K and one of V, or none. */
int check_one_scale(const attune_tensors *, char *error);

/* ---- pages.cu ------------------------------------------------------------------------------ */

/* Makes the index arrays on the host, and on the device in p->mem behind FlashInfer's. */
int make_index(op *, const attune_plugin_batch *, plan *p, char *error);
/* Notes in the stream that all copies out of p->mem.pinned are done. */
int end_of_copies(plan *p, void *stream, char *error);

/* ---- for all ------------------------------------------------------------------------------- */

template <int NUM_AXES>
int prepare(void **op, const attune_shape *shape, const int *values,
	    const attune_plugin_device *device, char *error)
{
	return make_op(op, shape, values, NUM_AXES, device, error);
}

template <typename Body> int guarded(const op *o, char *error, Body body)
{
	try {
		const cudaError_t status = cudaSetDevice(o->ordinal);
		return status ? fail_cuda(error, "cudaSetDevice", status) : body();
	} catch (const std::exception &e) {
		return fail(error, e.what());
	}
}

template <typename Plan> void free_plan(void *o, void *p)
{
	give_memory(static_cast<op *>(o), &static_cast<Plan *>(p)->mem);
	delete static_cast<Plan *>(p);
}

/* A plan of its own type, with the index arrays; fill(o, p) calls FlashInfer's plan function. */
template <typename Plan, typename Fill>
int make_plan(void *object, const attune_plugin_batch *b, void **result, char *error, Fill fill)
{
	op *o = static_cast<op *>(object);
	return guarded(o, error, [&] {
		struct holder {
			op *o;
			Plan *p;
			~holder()
			{
				if (p)
					free_plan<Plan>(o, p);
			}
		} h = { o, new Plan() };
		if (make_index(o, b, h.p, error) || fill(o, h.p) ||
		    end_of_copies(h.p, b->stream, error))
			return 1;
		*result = h.p;
		h.p = nullptr;
		return 0;
	});
}

template <typename T> T *at(void *base, int64_t offset)
{
	return reinterpret_cast<T *>(static_cast<char *>(base) + offset);
}

/* The first row of the batch in q or out. */
template <typename T> T *rows(const void *base, const plan *p, int64_t stride)
{
	return static_cast<T *>(const_cast<void *>(base)) + p->first_token * stride;
}

/* FlashInfer's plan functions ask for a buffer of partial results, but only add offsets to it; the
 * workspace is not known yet. */
inline void *no_buffer()
{
	return reinterpret_cast<void *>(4096);
}
constexpr size_t no_limit = size_t(1) << 46;

} // namespace adapter
#endif
