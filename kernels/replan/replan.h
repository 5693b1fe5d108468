/* replan.h - struct recorder, the state of an op for recorded steps, and its functions. */
#ifndef KERNELS_REPLAN_REPLAN_H
#define KERNELS_REPLAN_REPLAN_H

#include "kernels/attune_record.h"
#include "kernels/launch/op.h"
#include "kernels/recorded.h"

struct recorder {
	struct bodies bodies[NUM_RECORDED];
	struct recorded_table *table; /* its nodes follow it */
	size_t table_bytes;
	void *device_table;
	struct code *planner, *kernel[NUM_RECORDED];
	/* The op's choice of warpgroup for prefill parts and of ring_list for decode parts; NULL:
	 * bodies run all. list_code: ring_list's for recorded steps. */
	const struct ready *alone[NUM_RECORDED];
	struct code *list_code;
};

/* The rules of `h` (NULL: the defaults) for the bodies of r. v[n]: the op's choices, from
 * first_default on the defaults. Returns NULL if out of memory. */
struct recorded_table *record_table(const struct recorder *r, const struct selector *h,
				    const struct ready *v, int first_default, int n,
				    const attune_shape *, const struct device_info *,
				    size_t *bytes);
/* The plan that planner.cu makes, without its counters, computed on the host. */
void record_pick(struct recorded_plan *, const struct recorded_table *, const attune_batch *);

/* Adds a part of a recorded plan to a plan of the op. */
void record_put(attune_plan *, const attune_op *, const struct recorded_part *,
		const attune_batch *);

/* The op is prepared except for this. op->recorder stays NULL if the device or the library cannot
 * record. */
enum attune_status recorder_make(attune_op *);
void recorder_free(attune_op *);

/* attune_run under capture with ATTUNE_LENGTHS_VARY: plans and runs. */
enum attune_status record_in_run(const attune_op *, const attune_plan *, const attune_tensors *,
				 void *workspace, size_t workspace_bytes, void *stream);

/* Bytes that record_in_run needs; 0: it cannot run. */
size_t record_workspace(const attune_op *, const attune_bounds *);

#endif
