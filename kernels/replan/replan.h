/* replan.h - what an op has for recorded steps; between context.c, plan.c and replan.c. */
#ifndef KERNELS_REPLAN_REPLAN_H
#define KERNELS_REPLAN_REPLAN_H

#include "kernels/launch/op.h"
#include "kernels/recorded.h"

struct recorder {
	struct bodies bodies[NUM_RECORDED];
	struct recorded_table *table; /* its nodes behind it */
	size_t table_bytes;
	void *device_table;
	struct code *planner, *kernel[NUM_RECORDED];
	/* The choice of warpgroup for prefill parts and that of ring_list for decode parts, of the
	 * op's; NULL: bodies run all. ring_list has code of its own for recorded steps. */
	const struct ready *alone[NUM_RECORDED];
	struct code *list_code;
};

/* The rules of `h` (NULL: the defaults) over v[n], of which the first num_choices are its
 * choices, for the bodies that r has. NULL: no memory. */
struct recorded_table *record_table(const struct recorder *r, const struct selector *h,
				    const struct ready *v, int num_choices, int n,
				    const attune_shape *, const struct device_info *,
				    size_t *bytes);
/* What the planner's kernel leaves, without its counters: of all parts, by the host. */
void record_pick(struct recorded_plan *, const struct recorded_table *, const attune_batch *);

/* For an op that is otherwise prepared. Where the device or the library cannot record,
 * op->recorder stays NULL. */
enum attune_status recorder_make(attune_op *);
void recorder_free(attune_op *);

/* attune_run on a stream that is being captured, where lengths vary: plans and runs. */
enum attune_status record_in_run(const attune_op *, const attune_plan *, const attune_tensors *,
				 void *workspace, size_t workspace_bytes, void *stream);

/* Bytes that record_in_run needs; 0: it cannot. */
size_t record_workspace(const attune_op *, const attune_bounds *);

#endif
