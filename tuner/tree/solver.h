/* solver.h - private to solver.c, depth2.c, branch_and_bound.c and grow.c: least-cost trees of up to
 * two levels over rows of one sample of a matrix.
 *
 *   solver.c            ranks instead of values, equal rows merged, useless columns dropped
 *   depth2.c            the best trees of depth 1 on both sides of a split, in one sweep
 *   branch_and_bound.c  the search above that
 *
 * Costs are int64 in units of 1 / scale, and a leaf costs 1, so that plain integers order trees by
 * (cost, leaves). Each row's least cost is subtracted and summed in `base`. */
#ifndef TUNER_TREE_SOLVER_H
#define TUNER_TREE_SOLVER_H

#include "tree.h"
#include <stddef.h>
#include <stdint.h>

struct matrix;

enum {
	LANES = 4, /* columns are padded to a multiple of these: most trees have 3, 12 or 40 */
	MAX_WIDTH = 8,
	LOOK = 2, /* levels */
	LEAF = 1  /* what a leaf adds to the cost of a tree */
};

/* The best trees of one level over a side of a split. relaxed: without minimum support, a lower bound
 * that also holds for supersets; cost: with it. */
struct half {
	int64_t relaxed, cost;
};

struct answer {
	int64_t value;
	int f, at; /* its root: rank <= at on feature f; f -1: a leaf */
};

/* A set of rows at a node. Levels are the ranks that occur in it. */
struct view {
	int n, count; /* rows; rows of the matrix that they stand for */
	const int *row;
	int *u;           /* [p] levels */
	uint16_t *local;  /* [p][rows] level of each row */
	uint16_t *rank;   /* [p][room] rank of each level */
	int *order, *end; /* [p][rows] by level, [p][room] where each level ends */
	int *below;       /* [p][room] rows stood for up to a level */
	size_t *start;    /* [p] in prefix */
	int64_t *prefix;  /* [sum of u][d] cost of the rows up to a level */
	int64_t *total;   /* [d] */
	int64_t *most;    /* [room] greatest costs of the rows up to a level of a feature */
};

struct solver {
	const struct matrix *m;
	int n, p, d, support;
	int *feature;     /* [p] features that distinguish rows, each ranking once */
	int *levels;      /* [p] */
	long long *value; /* [p][stride] of each rank */
	uint16_t *rank;   /* [p][n] */
	int64_t *cost;    /* [n][d] */
	int64_t *most;    /* [n] greatest cost of the row */
	int *count;       /* [n] rows of the matrix that it stands for */
	int *all;         /* [n] 0, 1, 2, ... */
	int64_t scale, forbidden;
	int64_t base;     /* of a tree, before its cost here */
	int room, stride; /* levels of a feature, at most; rows before merging */
	struct view view;
	/* depth2.c */
	int64_t *all_of, *least;            /* [2][d], [2][room][2] */
	int *list, *end, *passed, *changed; /* [n], [room], [2][room], [2][room] */
	int *small;                         /* [n] */
};

/* solver.c. rows: of the matrix. 0 without memory, or if costs would overflow. */
int solver_open(struct solver *, const struct matrix *, const int *rows, int n, int support);
void solver_close(struct solver *);
void view_fill(struct solver *, const int *rows, int n); /* s->view */
/* Puts the rows of a view that a split sends below first; returns their number. */
int view_divide(const struct solver *, const struct view *, int f, int at, int *to);
/* The roundest value between the rank and the next one that occurs. */
long long view_threshold(const struct solver *, const struct view *, int f, int at);

/* depth2.c */
int64_t least_of(const int64_t *, int d);
/* The best trees of depth 1 on both sides of the split of f after local level a. */
void solve_pair(struct solver *, const struct view *, int f, int a, struct half side[2]);
/* The best tree of depth 1 over all rows, or a leaf. by_feature: [p] its cost. */
void solve_single(const struct solver *, const struct view *, struct answer *, int64_t *by_feature);

/* branch_and_bound.c. The least-cost tree of up to `depth` levels over the view's rows. */
struct answer solve(struct solver *, const struct view *, int depth);

#endif
