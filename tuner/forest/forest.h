/* SPDX-License-Identifier: Apache-2.0 */
/* forest.h - a forest: the trees of all decisions and the choices that they name; learned, or read
 * back from a header. Includes matrix and tree. */
#ifndef TUNER_FOREST_FOREST_H
#define TUNER_FOREST_FOREST_H

#include "tuner/matrix/matrix.h"
#include "tuner/tree/tree.h"

/* ---- forest.c: the forest and its size ------------------------------------- */
enum { MAX_IDS = 64, MAX_COSTS = 256 };
/* How good a tree is; printed in the header's comments. */
struct making {
	struct portfolio portfolio;
	double made;    /* mean slowdown of the tree; 0: it has no rows */
	int by_settled; /* rows whose order settled batches changed (tuner/induce/settled_order.c) */
};
struct forest {
	struct tree tree[NUM_DECISIONS]; /* actions: ids, or enum says */
	struct choice choice[MAX_IDS];   /* [id] the most used first, then those of the overlap */
	int num_choices;
	struct attune_list list[MAX_IDS];       /* [id] its row of LISTS; n 0: it has none */
	unsigned char by_estimate[MAX_IDS];     /* bit i: no time chose member i of the row */
	struct selector_costs costs[MAX_COSTS]; /* of choices with SEGMENTS=fitted */
	int num_costs;
	/* by which fused choices divide a batch; unit_flops 0: by their own */
	struct mixed_rates mixed;
	char gpu[GPU_NAME];
	struct making making[2]; /* of the prefill and the decode tree; 0 when read back */
	char *notes; /* lines for the comment of a header, or NULL; freed with the forest */
};
struct limits {
	int leaves; /* of each tree, at most, of the overlap half: cross-validation chooses (tree/fit.c) */
	int variants; /* choices of either phase */
	/* NULL: prefill and decode trees are grown. Else these rules' trees are kept, and leaves name
	 * other choices where times show that they are faster (tuner/induce/kept_tree.c). */
	const struct forest *kept;
};
extern const struct limits default_limits;
void forest_free(struct forest *);
int forest_leaves(const struct forest *);
int forest_kernels(const struct forest *); /* distinct ones among its choices */
/* Whether a leaf of the prefill or the decode tree names the choice; whether it has a row of LISTS,
 * as only such choices have. */
int forest_names(const struct forest *, int id);
int forest_has_row(const struct forest *, int id);
/* Whether the early tree has an effect. If not, headers and texts leave it out. */
int forest_says_early(const struct forest *);
int forest_decisions(const struct forest *); /* number of trees in a header */
/* The value of the early axis for a part. */
int forest_early(const struct forest *, const struct attune_features *);

/* ---- words.c: choices and actions of leaves as text ---------------------------------------- */
/* "segmented BLOCK_M=16 ..." */
void choice_words(const struct choice *, char text[MAX_CHOICE_TEXT]);
/* The same for the action of a leaf. */
void says_words(const struct forest *, enum decision, int action, char text[MAX_CHOICE_TEXT]);
enum { CHOICE_NAME = 96 }; /* room for a choice's name in a header */

/* ---- decide.c: the plan that a forest decides for a batch ---------------------------- */
/* The choice of that id as a concrete choice for the part of that phase. 0: action is -1 or the
 * choice may not run; the library then takes the defaults. */
int action_choice(const struct data *, const struct forest *, enum phase, int action,
		  const struct measured *, struct choice *out);
/* Whether the decision matters for a scenario's batch. */
int decision_is_of(enum decision, const struct measured *);
/* The plan that the library would run, as measured choices. */
void forest_pick(const struct data *, const struct forest *, int scenario, struct pick *);
/* What runs by an action of the prefill or the decode tree: the first member of its row that may run,
 * else the portable rules' choice, else the default. */
int action_or_default(const struct data *, const struct forest *, enum decision, int action,
		      const struct measured *, struct choice *out);
/* The plan that the library runs by a forest; the same without overlap; and a serial plan changed
 * by an action of the overlap tree, which stays as it is if the action may not run. */
void forest_make(const struct data *, const struct forest *, const struct measured *,
		 struct decided *out);
void forest_make_serial(const struct data *, const struct forest *, const struct measured *,
			struct decided *out);
void overlap_made(const struct data *, const struct forest *, int action, const struct measured *,
		  struct decided *serial);

/* ---- combine.c: combining two forests ------------------------------------------------- */
/* Groups of decisions that depend on each other; see gate.h. */
enum gate_group { GATE_PREFILL, GATE_DECODE, GATE_MIXED, NUM_GATE_GROUPS };
extern const char *const gate_group_names[NUM_GATE_GROUPS];
enum gate_group gate_group_of(enum decision);
/* Takes the trees, rows, segment costs and choices of some groups from `fresh` (bit g of groups:
 * group g), those of the others from the incumbent; rows follow the trees that name the choices; the
 * gpu's name is that of fresh. Ids are renumbered: fresh ones in their order, then the incumbent's;
 * unused choices are dropped. Call forest_prove before emitting it. 0 + complain: more than MAX_IDS
 * choices, or no memory. */
int forest_combine(struct forest *out, const struct forest *incumbent, const struct forest *fresh,
		   int groups);
/* The kernels' defaults for everything, for a GPU without a header. 0 without memory. */
int forest_defaults(struct forest *, const char *gpu);

/* Of a row's comment: which of its choices no time chose. */
#define BY_ESTIMATE "by estimate"

/* ---- parse.c: reading a header back ------------------------------------------------- */
/* Whether the header has an older form, which is no longer read. */
int header_is_older(const char *text);
/* Reads what forest_emit wrote; 0 + complain. */
int forest_parse(struct forest *, const char *text, const char *path);
int forest_load(struct forest *, const char *path);

#endif
