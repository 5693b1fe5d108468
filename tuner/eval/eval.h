/* SPDX-License-Identifier: Apache-2.0 */
/* eval.h - scores of rules: slowdown, traces. By file. */
#ifndef TUNER_EVAL_EVAL_H
#define TUNER_EVAL_EVAL_H

#include "harness/base/base.h"
#include "kernels/select/selector.h"
#include "tuner/policy/policy.h"

struct data;
struct forest;
struct pick;
struct scratch_pair;
struct settled;

/* ---- score.c: slowdown of picks against the oracle ----------------------------------- */
struct score {
	int n;
	int invalid;                /* not measured, or failed: infinitely slow */
	int second_pass;            /* scenarios judged by second-pass times */
	int unconfirmed;            /* only a pass A time although the scenario has pass B */
	double geomean, p95, worst; /* time / oracle; INFINITY with an invalid pick */
	struct with_time {
		double geomean, p95, worst;
	} timed;                 /* over the picks with a time; NaN: none has one */
	double low, high;        /* 95 % interval of the geomean, over blocks */
	double within2, within5; /* shares */
	int beyond20;            /* picks with a time that are over 20 % slower than the fastest */
	double time_weighted;    /* sum of weight x time / sum of weight x oracle */
};
/* Scores picks over a split; 0 without memory. A scenario without any correct result counts as an
 * invalid pick, so a crash never improves a score. The interval comes from 1000 resamples of
 * blocks; a block is one (model, power of two of sequences). */
int score_picks(const struct data *, const struct pick *, const char *split, struct score *);
/* The same, but only scenarios on which the picks `where` have a time are judged; n, second_pass and
 * invalid still count all. NULL: all are judged. Baselines are judged where they have a time
 * themselves. Without one the figures are NaN. */
int score_where(const struct data *, const struct pick *, const struct pick *where,
		const char *split, struct score *);
/* The 95 % interval of a geometric mean, by resampling whole blocks, which are the pairs' groups; sorts
 * the pairs. 0 without memory. */
int blocked_interval(struct scratch_pair *, int n, double *low, double *high);
/* Scores a policy; 0 also if the policy does not exist here. */
int score_policy(const struct data *, enum policy, const struct forest *, const char *split,
		 struct score *);

/* lost.c: the scenarios on which the header loses most, and why. */
struct lost_asked {
	const char *split;
	double above;   /* the least slowdown */
	int is_settled; /* of the settled row; 0: of the header's pick */
};
/* What most of a plan's time over the fastest comes from, in words. */
const char *lost_by(const struct data *, const struct forest *, int scenario,
		    const struct decided *);
/* What settles in each scenario; NULL without memory. */
struct settled *settle_all(const struct data *, const struct forest *);
/* A row for each of them, the largest loss first; NULL without memory. */
struct table *lost_table(const struct data *, const struct forest *, const struct settled *,
			 const struct lost_asked *, enum format);

/* groups.c: slowdown by a property of the scenarios. */
#define GROUP_WORDS "kind, head, group, page, gpu or set"
int is_group(const char *word);
/* A row for each value, over the scenarios where the picks of both headers have a time. before: NULL, or the
 * other header. 0 without memory. */
int groups_print(const struct data *, const struct forest *, const struct forest *before,
		 const char *by, const char *split, enum format);

/* settled_rows.c: the same of the policies of attune bench --settle, by rows of that database. above:
 * lists the batches that settled are slower than so many times the fastest; 0: prints sums. 0 +
 * complain. */
int settled_rows_print(const struct data *, const struct forest *, const char *path,
		       const char *split, double above, enum format);

/* trace_eval.c: the attention time of a simulated trace under each policy. */
struct trace_options {
	const char *path, *model;
	double load;
	int max_batched, max_seqs, requests, steps;
	long long kv_tokens;
	const char *given; /* an option that needs a path; NULL: none was given */
};
/* One of these options, or 'm' for the model; ARGP_ERR_UNKNOWN: another. */
enum { OPT_TRACE = 512, OPT_LOAD, OPT_STEPS, OPT_REQUESTS, OPT_BATCHED };
struct argp_state;
int trace_option(struct trace_options *, int key, const char *arg, struct argp_state *);
extern const struct trace_options trace_defaults;
/* 0 + complain. */
int trace_print(const struct data *, const struct forest *, const struct trace_options *,
		enum format);
/* Simulates the trace and calls `each` for up to `limit` busy steps (0: all), evenly spaced; *all:
 * the number of busy steps. 0 + complain; also 0 if `each` returns 0. */
int trace_steps(const struct trace_options *, int limit,
		int (*each)(void *, int step, const attune_batch *), void *arg, int *all);

/* held_out_table.c: slowdown of rules on held-out scenarios. */
enum rules_compared { INSTALLED, BEFORE, DEFAULTS, NUM_CONTENDERS };

struct held_out {
	int n;                           /* scenarios with pass B times of all three */
	double slowdown[NUM_CONTENDERS]; /* geomean of time / the fastest measured */
	double worst;                    /* of INSTALLED */
	int worst_at;                    /* its scenario; -1: none */
};
/* 0 + complain. */
int held_out_judge(struct data *, const struct forest *installed, const struct forest *before,
		   struct held_out *);

#endif
