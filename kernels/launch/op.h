/* op.h - what is behind the handles of attune.h. context.c makes contexts and ops; plan.c and
 * replan.c run them. */
#ifndef KERNELS_LAUNCH_OP_H
#define KERNELS_LAUNCH_OP_H

#include "kernels/device/device.h"
#include "kernels/select/selector.h"

struct attune_context {
	struct device device;
	int adopted;               /* the device is somebody else's to close */
	struct override *override; /* NULL: the compiled heuristic speaks */
	char name[128];
	char heuristic[256]; /* what attune_heuristic says */
};

/* A choice with its code loaded. */
struct ready {
	const struct kernel *kernel;
	struct config config;
	struct code *code; /* NULL: not carried, or illegal for the shape */
	const struct segment_costs *costs; /* for the op's head size; NULL: there are none */
};

struct attune_op {
	attune_context *ctx;
	attune_shape shape;
	const struct selector *heuristic; /* NULL: only the defaults */
	struct code *helper[NUM_HELPERS]; /* NULL: not carried, or nothing takes it */
	int num_choices; /* of the heuristic; the defaults of attune_fallbacks follow */
	int num_ready;
	struct ready *ready;
	struct recorder *recorder; /* NULL: records no steps */
};

#endif
