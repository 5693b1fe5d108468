/* SPDX-License-Identifier: Apache-2.0 */
/* run.h - launches one choice over one part of a batch. Both the library and the harness launch by
 * this code, so that users run what was measured. */
#ifndef KERNELS_LAUNCH_RUN_H
#define KERNELS_LAUNCH_RUN_H

#include "kernels/device/device.h"
#include "kernels/spec/choice.h"

struct attune_call;
struct attune_mapped;
struct part;
struct space;

struct launchable {
	const struct kernel *kernel;
	const struct config *config;
	const struct code *code;
	/* The schedule of a scheduled kernel; the reduction if the geometry has segments > 1. */
	const struct code *helper[NUM_HELPERS];
	/* The caller keeps the promise of ATTUNE_START_EARLY. If not, a choice that begins early
	 * runs in turn, with its early axis at 0. */
	int may_begin_early;
	const int *table_last; /* of args.h, for a kernel that looks ahead */
	int64_t num_slots;     /* warpgroup_ragged: slots that K and V have; others: 0 */
};

/* The helper that merges segments. */
enum helper reduction_of(const struct geometry *);
/* The ESTIMATE of geometry(), for the part's `estimated`. */
int part_estimate(const struct kernel *, const struct config *, const attune_shape *,
		  const struct part *, const struct device_info *);

/* Bytes of scratch and partials that the choice needs for the part. */
size_t part_workspace(const struct kernel *, const struct config *, const attune_shape *,
		      const struct part *, const struct device_info *);

/* Fill the arguments that do not depend on the part: struct attune_args alone, or the whole
 * call. */
void args_from_tensors(struct attune_args *, const attune_shape *, const attune_tensors *,
		       int num_seqs);
/* The last entry of the block table that a kernel may read before it has read the lengths: entry
 * pages - 1 in the row of sequence `seq` (both from batch_table), or with WHOLE_ROW the last entry
 * of that row. NULL: pages is 0, and no entry may be read. */
enum { WHOLE_ROW = 0x7fffffff };
const int *table_last(const int *block_table, int stride, int seq, int pages);
void call_from_tensors(struct attune_call *, const attune_shape *, const attune_tensors *,
		       int num_seqs);

/* tensors.c. The tensors with 0 as each stride that means nothing: of a dimension of size 1, of
 * slots in the classic layout. Kernels add multiples of strides to addresses also where they then
 * read nothing. */
const attune_tensors *tensors_plain(attune_tensors *own, const attune_tensors *,
				    const attune_shape *, int num_tokens);
/* What is wrong with the tensors of a call, once they are plain; or NULL. */
const char *tensor_error(const attune_tensors *, const attune_shape *, enum backend);
extern const char no_lse[]; /* what it says where lse is not given */
/* The same for attune_write_kv. */
const char *write_error(const attune_tensors *, const attune_shape *, enum backend, int has_slots);
/* Whether a scale depends on the sequence of a token. */
int write_needs_seq(const attune_tensors *, const attune_shape *);

/* PREPARE: zeros and lists. ATTEND: the part's kernel and the reduction. */
enum steps { STEP_PREPARE = 1, STEP_ATTEND = 2, ALL_STEPS = 3 };

/* kv_maps.c. Whether maps can be made of a cache with these strides, for boxes of so many tokens; 0:
 * of any number. */
int maps_take(const attune_shape *, const attune_tensors *, int box);
/* The arguments of a kernel with MAPS. box: tokens of a box; 0: no maps of this cache. num_slots: as
 * in struct launchable. */
enum attune_status maps_make(struct attune_mapped *, struct device *, const attune_shape *, int box,
			     int64_t num_slots, const struct attune_call *);

/* kv_end.c. Whether pages overlap, one token apart. */
int is_ragged(const attune_shape *, const attune_tensors *);
/* Slots that the kernel may read behind the last key of its page. */
int slots_behind(const struct space *, const attune_shape *, const struct device_info *, int box);
/* Whether ragged K and V are followed by memory of so many slots. */
int memory_goes_on(struct device *, const attune_shape *, const attune_tensors *, int slots);
/* Whether maps of warpgroup_ragged can be made: K and V are ragged, and where they end is known. */
int end_is_known(const attune_tensors *);

/* Asynchronous on a GPU. `call` is from call_from_tensors; run_part adds the part's range,
 * segments, options, scratch and partials. A scheduled kernel reads the part's list at
 * args.schedule; if that is NULL, a launch before makes one in the scratch. */
enum attune_status run_part(struct device *, const struct launchable *, const attune_shape *,
			    const struct part *, const struct attune_call *call, void *workspace,
			    size_t workspace_bytes, int steps, void *stream);

/* The list of Q blocks of a choice (schedule_list.h), made on the host: its number of words (0: the
 * kernel takes none), and the words. query_start is the batch's. */
size_t part_schedule_words(const struct kernel *, const struct part *);
void part_schedule(int *words, const struct kernel *, const struct config *, const attune_shape *,
		   const struct part *, const struct device_info *, const int *query_start);

/* Bytes of workspace of n parts that need part[i] each; at[i] (or NULL): where part i's begins.
 * Serial parts share the same bytes, parts on two streams do not. */
size_t parts_workspace(enum attune_how, const size_t *part, int n, size_t *at);
/* Launches the parts of a batch by calls of `launch`, prefill first, each on the stream given in
 * the call. `stream` continues when all are done. */
typedef enum attune_status (*part_launch)(void *arg, int part, int steps, void *stream);
enum attune_status run_parts(struct device *, enum attune_how, int n, part_launch, void *arg,
			     void *stream);

/* A context on a device that the caller keeps open: the library's launches go to the graph that is
 * recorded there. */
enum attune_status attune_adopt(attune_context **ctx, const struct device *dev);

#endif
