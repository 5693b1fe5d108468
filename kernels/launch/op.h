/* SPDX-License-Identifier: Apache-2.0 */
/* op.h - the structs behind the handles of attune.h: contexts and ops. api/context.c makes them;
 * api/plan.c runs them. */
#ifndef KERNELS_LAUNCH_OP_H
#define KERNELS_LAUNCH_OP_H

#include "kernels/device/device.h"
#include "kernels/select/selector.h"

struct part;
struct selection;
struct settled;
struct settled_table;

/* What a plan has in the place of what the rules say. */
enum { AS_RULES = -100 };
struct instead {
	int overlap; /* an answer of the overlap tree, or AS_RULES */
	int id[2];   /* choices of the prefills and of the decodes; -1: as the rules say */
	int step[2]; /* by how many values of its axis SEGMENTS each has more than its costs say */
};

struct attune_context {
	struct device device;
	int adopted;               /* close must leave the device open */
	int is_invariant;          /* ATTUNE_INVARIANT=1: api/invariant.c */
	struct override *override; /* NULL: the compiled heuristic is used */
	char name[128];
	char heuristic[4096]; /* the result of attune_heuristic */
	/* What was settled by timing. All that is called from here is in kernels/settle, and set
	 * before `table`: a program that settles nothing links none of it. */
	_Atomic(struct settled_table *) table; /* NULL: nothing was committed */
	struct settled *settled; /* entries, under the lock of settled.c; NULL: none */
	/* Asks the table. whole: of a batch with both phases, else NULL. */
	void (*ask)(const attune_op *, const struct selection *, const struct part *whole,
		    struct instead *);
	void (*forget)(attune_context *); /* frees both; NULL: there is nothing */
};

/* A choice with its code loaded. */
struct ready {
	const struct kernel *kernel;
	struct config config;
	uint64_t name; /* a hash of the kernel's name and the tunables, never 0 */
	struct block_shape block;
	struct code *code;                 /* NULL: not carried, or illegal for the shape */
	const struct segment_costs *costs; /* for the op's head size; NULL: none */
	/* What may run where rules name this choice: ids of the op, itself first. n 0: no rules
	 * can name it. */
	struct attune_list row;
};

/* Launches beside those that plans name: extra.h. */
enum extra {
	EXTRA_PAGE_TABLE,
	EXTRA_WRITE_KV,
	EXTRA_RAGGED,
	EXTRA_WIDEN_SINKS,
	EXTRA_SINK_ROWS,
	EXTRA_LSE,
	NUM_EXTRAS
};

struct attune_op {
	attune_context *ctx;
	uint64_t id;         /* unique in the process, and not 0 */
	attune_shape shape;  /* without has_lse where lse_apart */
	int lse_apart;       /* on a CPU: the caller wants the LSE, which no choice gives */
	uint64_t shape_name; /* a hash of all in it that launches depend on */
	const struct selector *heuristic; /* NULL: no rules are for this device */
	/* The rules behind those of the heuristic; NULL: there are none, or they are its own. */
	const struct selector *portable;
	struct code *helper[NUM_HELPERS]; /* NULL: not carried, or no choice needs it */
	struct code *extra[NUM_EXTRAS];   /* NULL: not carried, or the shape never needs it */
	/* `ready` has num_choices choices of the heuristic, then, up to first_default, those of the
	 * portable rules, then the defaults of attune_fallbacks for shapes that no rules serve. */
	int num_choices, first_default, num_ready;
	/* Made by op_list: it plans, and has no code to run. `code` then only says that the library
	 * carries some. */
	int is_list;
	int invariant[2];    /* of a context that is_invariant: prefills', decodes'; -1: none */
	struct ready *ready; /* num_ready */
};

/* api/context.c: attune_prepare without code, for what only asks which choices there are. The shape
 * is sound. */
enum attune_status op_list(attune_context *, const attune_shape *, attune_op **);

#endif
