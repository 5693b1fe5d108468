/* run.h - launching one choice over one part of a batch: the one path that both
 * the library and the harness take, so that what was measured is what is run. */
#ifndef ATTUNE_RUN_H
#define ATTUNE_RUN_H

#include "device.h"

struct launchable {
	const struct kernel *kernel;
	const struct config *config;
	const struct code *code;
	const struct code *reduce; /* needed when the geometry has segments > 1 */
};

/* Bytes of partials that the choice needs for the part; 0 without segments. */
size_t part_workspace(const struct kernel *, const struct config *, const attune_shape *,
		      const struct part *, const struct device_info *);

/* Fills the arguments that do not depend on the part. */
void args_from_tensors(struct attune_args *, const attune_shape *, const attune_tensors *,
		       int num_seqs);

/* Asynchronous on a GPU. `args` as from args_from_tensors; set here: the part's
 * range, segments and partials. */
enum attune_status run_part(struct device *, const struct launchable *, const attune_shape *,
			    const struct part *, const struct attune_args *args, void *workspace,
			    size_t workspace_bytes, void *stream);

/* A context over a device that the caller keeps open: launches of the library
 * then land on its tape. */
enum attune_status attune_adopt(attune_context **ctx, const struct device *dev);

#endif
