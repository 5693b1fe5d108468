/* eval.h - the questions of `attune eval`, by file. */
#ifndef TUNER_EVAL_EVAL_H
#define TUNER_EVAL_EVAL_H

#include "harness/base/base.h"
#include "kernels/kernel.h"
#include "kernels/select/selector.h"
#include "tuner/policy/policy.h"

struct cell;
struct data;
struct forest;
struct pick;
struct tree;
struct with_time;

/* ---- score.c: how good that is ------------------------------------------------------ */
struct score {
	int n;
	int invalid;                /* not measured, or failed: infinitely slow */
	int unconfirmed;            /* of pass A alone where the scenario has a pass B */
	double geomean, p95, worst; /* time / oracle; INFINITY with an invalid pick */
	struct with_time {
		double geomean, p95, worst;
	} timed;                 /* of the picks that have a time alone; NaN: none has */
	double low, high;        /* 95 % interval of the geomean, over blocks */
	double within2, within5; /* shares */
	double time_weighted;    /* sum of weight x time / sum of weight x oracle */
};
/* Over the scenarios of a split; 0 without memory. A scenario where nothing gave a right
 * result counts as an invalid pick: a crash never improves a score. The interval is that of
 * 1000 resamples of blocks, whole (model, power of two of sequences) at a time. */
int score_picks(const struct data *, const struct pick *, const char *split, struct score *);
/* The same for a policy; 0 also when it does not exist here. */
int score_policy(const struct data *, enum policy, const struct forest *, const char *split,
		 struct score *);

struct json_out;

/* selection_time.c: ns of one batch's decisions, by the compiled header where this program has
 * it and it is the one that is judged; *what: "compiled" or "interpreted". */
double time_selection(const struct data *, const struct forest *, const char **what);
/* The same with what leaves say made concrete, segments and all; 0 without costs. */
double time_estimates(const struct data *, const struct forest *);

/* cliffs.c: what happens when a feature crosses a threshold of a tree. Beside it stand the
 * training scenarios that come by and whose value is nearest to it on either side, several
 * where they share it; each is walked down the tree with the feature at the threshold and
 * one above. */
struct cliff {
	enum decision decision;
	int node, feature; /* of that decision's tree */
	long long threshold;
	char below[MAX_CHOICE_TEXT], above[MAX_CHOICE_TEXT]; /* what either side runs */
	int scenario[2]; /* the first of those below and above; -1: none */
	double ratio[2]; /* time of the action above / of that below; NaN: unknown */
	double crossing; /* 1 or more: how much slower one of the two is at the threshold, both
			     * ratios interpolated in the logarithm of the feature; NaN: unknown */
};
long long feature_value(const struct attune_features *, int feature);
/* Whether the walk of these features comes by that node. */
int tree_passes(const struct tree *, int node, const struct attune_features *);
extern const double cliff_limit; /* a crossing above it is flagged */
/* All thresholds whose sides differ, in the order of the trees. 0: no memory. */
int cliffs_find(const struct data *, const struct forest *, struct cliff **out, int *n);
void cliffs_print(const struct data *, const struct cliff *, int n, enum format);

/* learning_curve.c: held-out slowdown of trees with other budgets, made in memory. */
int curve_print(const struct data *, enum format); /* 0 + complain */

/* trace_eval.c: a whole simulated trace under each policy. */
struct trace_options {
	const char *path, *model;
	double load;
	int max_batched, max_seqs, requests, steps;
	long long kv_tokens;
};
extern const struct trace_options trace_defaults;
int trace_print(const struct data *, const struct forest *, const struct trace_options *,
		enum format); /* 0 + complain */
/* Calls for up to `limit` steps (0: all) of the replay, evenly spaced, while it has work;
 * *all: how many there are. 0 + complain, or when `each` says 0. */
int trace_steps(const struct trace_options *, int limit,
		int (*each)(void *, int step, const attune_batch *), void *arg, int *all);

/* overlap_score.c: what the overlap decision picks of mixed scenarios, and what it brings. */
struct overlaps {
	int mixed, serial, streams, split, fused; /* scenarios */
	int unknown;                              /* no such way was measured there */
	double geomean, worst; /* of ways other than serial, to the fastest serial plan */
	struct {
		int n, above; /* with a time, and of these those that take 2 % more */
		double geomean, worst;
	} own; /* the same, to the header's own parts one after the other */
};
void count_overlaps(const struct data *, const struct forest *, struct overlaps out[2]);
void overlaps_json(struct json_out *, const struct overlaps v[2]);
void overlaps_print(const struct overlaps v[2]);

/* early_score.c: what launches that begin early take, by the tree and always alike. */
struct earliness {
	int n;                                       /* paces with all values */
	double tree, always[MOST_EARLY + 1], oracle; /* geometric means, to in turn */
	double worst;                                /* by the tree */
};
/* Of training scenarios, and of those held out. 0 without memory. */
int count_early(const struct data *, const struct forest *, struct earliness out[2]);
void early_json(struct json_out *, const struct earliness v[2]);
void early_print(const struct earliness v[2]);

/* held_out_table.c: how good rules are where nothing was learned. */
enum rules_compared { INSTALLED, BEFORE, DEFAULTS, NUM_CONTENDERS };

struct held_out {
	int n;                           /* scenarios that pass B measured with all contenders */
	double slowdown[NUM_CONTENDERS]; /* geomean of time / the fastest measured */
	double worst;                    /* of installed */
	int worst_at;                    /* scenario; -1: none */
};
/* 0 + complain. */
int held_out_judge(struct data *, const struct forest *installed, const struct forest *before,
		   struct held_out *);

/* energy.c: joules of the picks whose power was read alone, to those of the fastest and of
 * the thriftiest such plan of the same scenario. */
struct energy {
	int n;
	double to_fastest, to_least; /* geometric means */
	double worst;                /* to the least */
};
/* Adds a scenario, by the picked cell (NULL: none), to sums of logs; not one whose power was
 * not read alone. */
void energy_count(const struct data *, int scenario, const struct cell *picked, struct energy *);
/* Of training scenarios, and of those held out. 0 without memory. */
int count_energy(const struct data *, const struct forest *, struct energy out[2]);
void energy_json(struct json_out *, const struct data *, const struct energy v[2]);
void energy_print(const struct data *, const struct energy v[2]);

#endif
