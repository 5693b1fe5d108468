/* policy.h - what a way of choosing decides for a batch, whether it was measured or
 * not. For policy.c, vendor_rules.c, baseline_trees.c, cart.c and what asks them.
 *
 *   chooser_new   learns what the policy needs from the training scenarios
 *   chooser_make  a batch -> concrete choices of a plan
 *
 * decided_pick (defaults.c) turns those choices into indices of measured ones. */
#ifndef TUNER_POLICY_POLICY_H
#define TUNER_POLICY_POLICY_H

#include "kernels/kernel.h"
#include "kernels/select/selector.h"

struct data;
struct forest;
struct decided;
struct matrix;
struct measured;
struct pick;
struct scenario;
struct tree;

/* ---- policy.c: what is picked ---------------------------------------------------- */
enum policy {
	POLICY_TREE,
	POLICY_ORACLE,
	POLICY_BEST_FIXED, /* one choice a phase and one way (enum baseline_way) for everything */
	POLICY_VLLM_RULE,  /* the rule of vLLM's unified attention, nearest choices */
	POLICY_AITER_RULE, /* that of AMD's aiter */
	POLICY_NEAREST,    /* the best choice of the nearest training scenario */
	POLICY_GREEDY,     /* a cost-sensitive tree of constants, without look-ahead */
	POLICY_LABEL,      /* a tree of depth 6 by entropy on the fastest choices */
	POLICY_DEFAULT,    /* the kernels' defaults, no selection */
	NUM_POLICIES
};
extern const char *const policy_names[NUM_POLICIES];
/* Picks [data->n] for all scenarios; 0 when the policy does not exist on this
 * backend, or picks nothing (POLICY_ORACLE: see data_oracle). The forest is for
 * POLICY_TREE only. */
int policy_picks(const struct data *, enum policy, const struct forest *, struct pick *picks);

struct chooser;
/* NULL when there is no such policy on this backend, or no memory. The oracle has none:
 * see data_oracle. The forest is for POLICY_TREE; it and the data must outlive the chooser. */
struct chooser *chooser_new(const struct data *, enum policy, const struct forest *);
/* `scenario`: the batch's index in the data, where rules look for the nearest choice that
 * was measured there; -1: for the nearest legal one. */
void chooser_make(const struct chooser *, const struct measured *, int scenario,
		  struct decided *out);
void chooser_free(struct chooser *);

/* vendor_rules.c */
void vllm_rule(const struct data *, const struct measured *, int scenario, struct decided *out);
void aiter_rule(const struct data *, const struct measured *, int scenario, struct decided *out);

/* cart.c: trees as others grow them: the best split now, no look-ahead, no pruning. */
enum criterion {
	CART_COST,    /* the least cost of one action for all */
	CART_ENTROPY, /* how mixed the fastest actions are, costs apart */
};
struct cart {
	enum criterion criterion;
	int max_leaves, max_depth;
};
int cart_grow(struct tree *, const struct matrix *, const struct cart *); /* 0: no memory */

/* baseline_matrices.c: what baselines learn from the costs of the prefill and of the decode decision. */
struct basics {
	int known; /* private: what follows is */
	int fixed; /* the concrete choice of least total cost; -1: none */
	struct matrix
	    *winners;       /* columns that are some row's fastest; NULL: nothing was measured */
	struct matrix *few; /* of its rows: columns that leave each row a good one */
	int *winner;        /* [rows] the fastest choice of each */
};
/* Of data without prices. Found when it is asked for the first time; NULL without memory. */
const struct basics *basics_of(const struct data *, enum decision);

/* baseline_overlap.c: how a baseline may run a mixed batch, CPUs but for the last. Of mixed training
 * scenarios what the picks [data->n] cost in each way; columns are ways. */
enum baseline_way {
	BASELINE_WHOLE,  /* in one launch by the prefill choice */
	BASELINE_SERIAL, /* part after part */
	BASELINE_STREAMS,
	NUM_BASELINE_WAYS
};
struct matrix *matrix_ways(const struct data *, const struct pick *picks);
/* Of a batch with both parts, so made: what may not run in one launch stays part after part. */
void decided_in_way(const struct data *, const struct measured *, enum baseline_way,
		    struct decided *);

/* baseline_trees.c: what is learned of each decision by a baseline of its own kind. */
struct learned;
struct learned *learned_new(const struct data *, enum policy);
void learned_make(const struct learned *, const struct measured *, struct decided *out);
void learned_free(struct learned *);

/* nearest_estimate.c: batches that were never measured. */
/* The shape of a model: that of its scenarios, preferably of this page size (0: 16), else
 * by scenarios/models.json with the types of the data's first scenario; 0 + complain. */
int shape_of_model(attune_shape *, const struct data *, const char *model, int page_size);
/* A measured scenario without measurements: 0 + complain when the batch is none. */
int measured_make(struct measured *, const struct data *, const char *model, const attune_shape *,
		  const char *batch);
int measured_make_view(struct measured *, const struct data *, const attune_shape *,
		       const attune_batch *);
void measured_free(struct measured *);
/* A measured scenario as the harness takes it, to be measured again; its texts and batch
 * stay the measured one's. */
void scenario_again(struct scenario *, const struct measured *);
/* A batch among the measured ones; both must outlive it. NULL: no memory. */
struct around;
struct around *around_new(const struct data *, const struct measured *);
void around_free(struct around *);
/* The scenario nearest in a phase of those with a right result in it; -1: none. */
int around_nearest(const struct around *, enum phase, double *far);
/* Us that a plan, or one part by a concrete choice, is expected to take: the best time of
 * the nearest scenario, by the ratio of what either moves and computes, times the slowdown
 * of the choice in the nearest scenario where it was measured. INFINITY: it never was. */
double estimate_plan(const struct around *, const struct decided *);
double estimate_part(const struct around *, enum phase, const struct choice *);
/* The best that is known nearby: each part at its best, or one launch. */
double estimate_best(const struct around *);

#endif
