/* SPDX-License-Identifier: Apache-2.0 */
/* tree.h - decision trees that minimise cost. */
#ifndef TUNER_TREE_TREE_H
#define TUNER_TREE_TREE_H

#include "kernels/attune_features.h"
#include <stdint.h>

struct matrix;

/* ---- tree.c: trees of any origin ----------------------------------------------- */
enum remark {
	REMARK_NONE,
	REMARK_FEW,    /* too few rows to exclude chance */
	REMARK_UNSURE, /* not significantly faster than the defaults */
	REMARK_UNSAFE, /* takes the defaults: no choice is faster on average */
	NUM_REMARKS
};
extern const char *const remark_words[NUM_REMARKS]; /* "" for none */
struct node {
	int feature;         /* -1: a leaf */
	long long threshold; /* value <= threshold: below, else above */
	int below, above;
	int action;  /* of the leaf this node is or would be: a column, later an id */
	int support; /* rows */
	/* Sums over the rows of weight x cost, for the action and for the runner-up, and of the
	 * weight; runner_up -1: none. */
	long long cost, runner_up_cost, weight;
	int runner_up;
	/* The same sum with the fastest legal choice of the action's row of LISTS; -1: not known. */
	long long row_cost;
	int32_t p95;         /* 95th percentile of the action's costs */
	enum remark remark;  /* of a leaf */
	const char *guarded; /* of a leaf: a rule that its choice may break, or NULL */
};
struct tree {
	struct node *v; /* [0] is the root */
	int n, room;
};
int tree_new_node(struct tree *);             /* -1 without memory */
int tree_constant(struct tree *, int action); /* a single leaf; 0 without memory */
void tree_free(struct tree *);
/* Index of the leaf. */
int tree_leaf(const struct tree *, const struct attune_features *);
int tree_leaves(const struct tree *);
long long tree_cost(const struct tree *, int node); /* of the leaves below */
/* Merges equal siblings, drops unreachable branches, renumbers nodes in preorder. */
int tree_tidy(struct tree *);
/* Calls each() for every leaf, left to right, with the bounds of its box. */
struct box {
	long long lo[ATTUNE_NUM_FEATURES], hi[ATTUNE_NUM_FEATURES]; /* inclusive */
};
void tree_boxes(const struct tree *, const struct box *within,
		void (*each)(void *, int leaf, const struct box *), void *arg);
void box_all(struct box *);
/* The roundest integer of lo..hi, 0 <= lo <= hi. */
long long round_between(long long lo, long long hi);

/* ---- grow.c: cost-sensitive induction ------------------------------------------ */
struct growth {
	int max_leaves, min_support;
	int scenarios; /* the first rows; the others are made up from them. 0: all are scenarios */
	double *loss;  /* NULL, or set by tree_fit: mean cost of a row while held out */
};
/* The first 2 k - 1 nodes are the tree of k leaves: a node with children beyond is then a leaf.
 * `rows`: which, NULL for all. 0 without memory. */
int tree_grow(struct tree *, const struct matrix *, const int *rows, int n, const struct growth *);

/* ---- fit.c: how many leaves ------------------------------------------------------ */
/* The tree of so many leaves as blocked cross-validation chooses. 0 without memory. */
int tree_fit(struct tree *, const struct matrix *, const struct growth *);

#endif
