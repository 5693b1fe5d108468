/* tree.h - decision trees by cost: growing, proving, pruning, relabelling.
 * Includes data. */
#ifndef TUNER_TREE_TREE_H
#define TUNER_TREE_TREE_H

#include "kernels/attune_features.h"
#include <stdint.h>

struct matrix;

/* ---- tree.c: trees of any origin ----------------------------------------------- */
enum remark {
	REMARK_NONE,
	REMARK_FEW,    /* of so few rows that chance may have chosen */
	REMARK_UNSURE, /* not faster than the defaults for sure */
	REMARK_UNSAFE, /* the defaults: on average no choice is faster */
	NUM_REMARKS
};
extern const char *const remark_words[NUM_REMARKS]; /* "" for none */
struct node {
	int feature;         /* -1: a leaf */
	long long threshold; /* value <= threshold: below, else above */
	int below, above;
	int action;  /* of the leaf this node is or would be: a column, later an id */
	int support; /* rows */
	/* Sums of weight x cost of the action and of the runner-up, and the
	 * weight; runner_up -1: none. */
	long long cost, runner_up_cost, weight;
	int runner_up;
	int32_t p95;         /* cost of the action that 95 in 100 rows stay below */
	enum remark remark;  /* of a leaf */
	const char *guarded; /* of a leaf: the rule that its choice may break; or NULL */
};
struct tree {
	struct node *v; /* [0] is the root */
	int n, room;
};
int tree_new_node(struct tree *);             /* -1 without memory */
int tree_constant(struct tree *, int action); /* always says that; 0 without memory */
void tree_free(struct tree *);
/* Index of the leaf. */
int tree_leaf(const struct tree *, const struct attune_features *);
int tree_leaves(const struct tree *);
int tree_leaves_below(const struct tree *, int node);
long long tree_cost(const struct tree *, int node); /* of the leaves below */
/* Equal siblings become one leaf; branches that no features can reach go; nodes
 * are renumbered in preorder. */
int tree_tidy(struct tree *);
/* Calls for every leaf, left to right, with the bounds of its box. */
struct box {
	long long lo[ATTUNE_NUM_FEATURES], hi[ATTUNE_NUM_FEATURES]; /* inclusive */
};
void tree_boxes(const struct tree *, const struct box *within,
		void (*each)(void *, int leaf, const struct box *), void *arg);
void box_all(struct box *);
/* The roundest integer of lo..hi, 0 <= lo <= hi. */
long long round_between(long long lo, long long hi);

/* ---- grow.c: cost-sensitive induction ------------------------------------------ */
/* Of the sizes that cross-validation compares (fit.c has what each gave). */
enum size_rule {
	SIZE_MOST,  /* the largest within one standard error of the least loss */
	SIZE_LEAST, /* the one of least loss */
	SIZE_FEWEST /* the smallest within one standard error */
};
struct growth {
	int max_leaves, max_depth, min_support;
	int look;         /* depth of the exact search at each node: 2 (also for 0) or 3 */
	long long lambda; /* what a leaf costs */
	enum size_rule rule;
	int apart; /* 1 + the feature whose levels are split before all else; 0: none */
};
/* Depth-limited tree: each node is the root of the exact best tree of depth `look`
 * over its rows. `rows`: which, NULL for all. 0 without memory. */
int tree_grow(struct tree *, const struct matrix *, const int *rows, int n, const struct growth *);

/* ---- exact.c: the best tree there is ---------------------------------------------- */
struct exact_options {
	int depth; /* 0 to MAX_EXACT_DEPTH */
	int min_support;
	long long lambda;
	double seconds; /* 0: as long as it takes */
	int threads;    /* 0: as many as CPUs, for larger samples; the tree is the same */
};
enum { MAX_EXACT_DEPTH = 6 };
struct certificate {
	long long cost, objective; /* objective: cost + lambda x leaves */
	long long bound;           /* proven: no tree of that depth has a lower objective */
	double gap;                /* (objective - bound) / bound; 0: the best */
	double seconds;
	long long nodes; /* sets of rows that were searched */
};
/* Tree of least objective; of these the one of fewest leaves, then by feature,
 * threshold and column. Out of time: the best one so far, gap > 0. 0 without memory
 * or when costs are so large that sums would not fit. */
int tree_exact(struct tree *, const struct matrix *, const struct exact_options *,
	       struct certificate *);

/* ---- prune.c: smaller trees ------------------------------------------------------ */
/* A way to have fewer leaves: a node becomes a leaf (child -1), or one of its
 * children (0: below, 1: above) takes its place and all its rows. */
struct cut {
	int node, child, leaves; /* leaves: fewer by this */
	long long price;         /* what it costs, for each of them */
};
/* The cheapest one; 0 when the tree is a leaf. `rows` may be reordered. */
int tree_cheapest_cut(const struct tree *, const struct matrix *, int *rows, int n, struct cut *);
int tree_apply_cut(struct tree *, const struct matrix *, int *rows, int n, const struct cut *);
/* Gives all nodes the action that is best for the rows that reach them, and the
 * figures that go with it. 0 without memory. */
int tree_annotate(struct tree *, const struct matrix *, int *rows, int n);
/* The same from the columns c with allowed[c] only: one at least. */
int tree_annotate_among(struct tree *, const struct matrix *, int *rows, int n,
			const char *allowed);
int *matrix_rows(const struct matrix *); /* 0, 1, 2, ...; NULL without memory */

/* ---- relabel.c: fewer kernels ----------------------------------------------------- */
/* Gives leaves the fewest columns such that each leaf's mean cost is within epsilon (a
 * log slowdown: 0.01 is 1 %) of its best; of those sets the one that costs least,
 * then the first. Equal siblings become one leaf. group: [cols] any numbers, columns
 * of one group count once (variants of one binary); NULL: each for itself. Leaves
 * the tree as it is with more than 64 leaves or groups. 0 without memory. */
int tree_relabel(struct tree *, const struct matrix *, double epsilon, const int *group);

/* ---- fit.c: how many leaves ------------------------------------------------------ */
/* Grown, then pruned to as many leaves as blocked cross-validation and the rule ask
 * for. 0 without memory. */
int tree_fit(struct tree *, const struct matrix *, const struct growth *);
/* Fold of each row in a blocking; how many folds, 0 when there is but one value: ranks
 * of the blocks' values, modulo that number. */
int matrix_folds(const struct matrix *, int blocking, int *fold);
/* Sums of weight x cost by number of leaves, [max_leaves + 1]: of the rows that were
 * learned from, and of rows while their fold was held out. 0 without memory. */
int tree_curve(const struct matrix *, const struct growth *, int blocking, long long *trained,
	       long long *held_out);

#endif
