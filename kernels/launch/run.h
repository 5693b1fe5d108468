/* run.h - launching one choice over one part of a batch: the one path that both
 * the library and the harness take, so that what was measured is what is run. */
#ifndef KERNELS_LAUNCH_RUN_H
#define KERNELS_LAUNCH_RUN_H

#include "kernels/device/device.h"

struct launchable {
	const struct kernel *kernel;
	const struct config *config;
	const struct code *code;
	/* of a scheduled kernel the schedule; the reduction where the geometry has segments > 1 */
	const struct code *helper[NUM_HELPERS];
	/* The caller keeps the promise of ATTUNE_START_EARLY; else a choice that begins early
	 * is run in turn, its early axis at 0. */
	int may_begin_early;
	const int *table_last; /* of args.h, for a kernel that looks ahead */
};

/* By whom segments are merged, if there are any. */
static inline enum helper reduction_of(const struct geometry *g)
{
	return g->reduced_wide ? HELPER_REDUCE_WIDE : HELPER_REDUCE;
}

/* What geometry() finds by the part's features: for its `estimated`. */
int part_estimate(const struct kernel *, const struct config *, const attune_shape *,
		  const struct part *, const struct device_info *);

/* Bytes of scratch and partials that the choice needs for the part. */
size_t part_workspace(const struct kernel *, const struct config *, const attune_shape *,
		      const struct part *, const struct device_info *);

/* Fills the arguments that do not depend on the part: those of all kernels, and all. */
void args_from_tensors(struct attune_args *, const attune_shape *, const attune_tensors *,
		       int num_seqs);
/* As batch_table() gives them; NULL: no sequence has keys. */
const int *table_last(const int *block_table, int stride, int seq, int pages);
void call_from_tensors(struct attune_call *, const attune_shape *, const attune_tensors *,
		       int num_seqs);

/* tensors.c: what is wrong with the tensors of a call; NULL: nothing. */
const char *tensor_error(const attune_tensors *, const attune_shape *, enum backend);

/* What comes before a part's own kernel, zeros and lists, and the kernel and what follows. */
enum steps { STEP_PREPARE = 1, STEP_ATTEND = 2, ALL_STEPS = 3 };

/* maps.c: what a kernel with MAPS is launched with; box: tokens of one of its boxes, 0: it takes
 * no maps of this cache. */
enum attune_status maps_make(struct attune_mapped *, struct device *, const attune_shape *, int box,
			     const struct attune_call *);

/* Asynchronous on a GPU. `call` as from call_from_tensors; set here: the part's
 * range, segments, options, scratch and partials. A scheduled kernel reads args.schedule,
 * the part's own; where that is NULL one is made in the scratch by a launch before. */
enum attune_status run_part(struct device *, const struct launchable *, const attune_shape *,
			    const struct part *, const struct attune_call *call, void *workspace,
			    size_t workspace_bytes, int steps, void *stream);

/* The list of Q blocks that a choice goes through (schedule.h), on the host: how many words
 * (0: the kernel takes none), and these, query_start being the batch's. */
size_t part_schedule_words(const struct kernel *, const struct part *);
void part_schedule(int *words, const struct kernel *, const struct config *, const attune_shape *,
		   const struct part *, const struct device_info *, const int *query_start);

/* Bytes that parts take together, whose own are part[n]; where each begins goes to at[n]
 * unless that is NULL. In a row they take the same ones, side by side each its own. */
size_t parts_workspace(enum attune_how, const size_t *part, int n, size_t *at);
/* Launches the parts of a batch, prefill first, by calls of `launch`, each on a stream that
 * it is given, so that `stream` goes on when all are done. */
typedef enum attune_status (*part_launch)(void *arg, int part, int steps, void *stream);
enum attune_status run_parts(struct device *, enum attune_how, int n, part_launch, void *arg,
			     void *stream);

/* A context over a device that the caller keeps open: launches of the library
 * then land on its graph. */
enum attune_status attune_adopt(attune_context **ctx, const struct device *dev);

#endif
