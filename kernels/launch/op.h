/* op.h - the structs behind the handles of attune.h: contexts and ops. api/context.c makes them;
 * api/plan.c runs them. */
#ifndef KERNELS_LAUNCH_OP_H
#define KERNELS_LAUNCH_OP_H

#include "kernels/device/device.h"
#include "kernels/select/selector.h"

struct attune_context {
	struct device device;
	int adopted;               /* close must leave the device open */
	int is_invariant;          /* ATTUNE_INVARIANT=1: api/invariant.c */
	struct override *override; /* NULL: the compiled heuristic is used */
	char name[128];
	char heuristic[4096]; /* the result of attune_heuristic */
};

/* A choice with its code loaded. */
struct ready {
	const struct kernel *kernel;
	struct config config;
	struct block_shape block;
	struct code *code;                 /* NULL: not carried, or illegal for the shape */
	const struct segment_costs *costs; /* for the op's head size; NULL: none */
	/* What may run where rules name this choice: ids of the op, itself first. n 0: no rules
	 * can name it. */
	struct attune_list row;
};

struct attune_op {
	attune_context *ctx;
	uint64_t id; /* unique in the process, and not 0 */
	attune_shape shape;
	const struct selector *heuristic; /* NULL: no rules are for this device */
	/* The rules behind those of the heuristic; NULL: there are none, or they are its own. */
	const struct selector *portable;
	struct code *helper[NUM_HELPERS]; /* NULL: not carried, or no choice needs it */
	/* `ready` has num_choices choices of the heuristic, then, up to first_default, those of the
	 * portable rules, then the defaults of attune_fallbacks for shapes that no rules serve. */
	int num_choices, first_default, num_ready;
	int invariant[2];    /* of a context that is_invariant: prefills', decodes'; -1: none */
	struct ready *ready; /* num_ready */
};

#endif
