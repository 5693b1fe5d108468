/* fa3_call.h - a call of FlashAttention-3 without PyTorch: what it decides from the sizes of a
 * batch, its parameters, its launches. Inside of the plug-in fa3. */
#ifndef FA3_CALL_H
#define FA3_CALL_H

#include <cstdint>
#include <cuda_runtime.h>

#include "attune_plugin.h"
#include "flash.h"

namespace fa3
{
enum { HEAD = 128, MAX_SPLITS = 128, MAX_SEQS_SPLIT = 992 }; /* its one-block scheduler's limit */

struct sizes {
	int seqs, max_query, max_seq;
	int64_t rows;
};

/* All but the tensors, the metadata and the workspace. `splits`: as the axis SPLITS. */
Flash_fwd_params params_of(const attune_shape *shape, int units, int splits, const sizes &s);

/* Rows of the partials of all splits; 0 where sequences are not split. */
int64_t partials_of(const Flash_fwd_params &p);

/* The metadata are words, each array rounded up to 4 of them:
 *
 *   rows of each sequence | splits of each | KV heads of each that fit the L2 | semaphore | starts
 *
 * The persistent blocks of a launch draw their tiles by counting the semaphore up from 0. Each
 * launch leaves it at 0, so a plan may be launched and replayed any number of times, but not twice
 * at a time. "starts" has room for query_start counted from 0. */
size_t words_of(int seqs);
int *starts_in(int seqs, int *words);
void set_metadata(Flash_fwd_params &p, int *words);

/* Enqueues the kernel that computes the metadata from the lengths on the device. */
cudaError_t compute_metadata(Flash_fwd_params &p, cudaStream_t stream);

/* LSE, which FA3 always writes | LSE of the partials | the partials. */
size_t workspace_of(const Flash_fwd_params &p);
void set_workspace(Flash_fwd_params &p, void *workspace);

/* NULL, or what is wrong with them. `first`: rows of q and out in front of the batch. */
const char *set_tensors(Flash_fwd_params &p, const attune_tensors *t, int64_t first);

/* The main kernel; then the combination of splits, which also clears the semaphore, or a memset. */
cudaError_t enqueue(Flash_fwd_params &p, cudaStream_t stream);
} // namespace fa3
#endif
