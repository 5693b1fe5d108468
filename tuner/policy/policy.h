/* SPDX-License-Identifier: Apache-2.0 */
/* policy.h - policies: the forest and the baselines that it is compared with. A policy decides a
 * plan for any batch, measured or not.
 *
 *   chooser_new   learns what the policy needs from the training scenarios
 *   chooser_make  a batch -> concrete choices of a plan
 *
 * decided_pick() turns those choices into indices of measured ones. */
#ifndef TUNER_POLICY_POLICY_H
#define TUNER_POLICY_POLICY_H

#include "kernels/select/selector.h"

struct data;
struct forest;
struct decided;
struct measured;
struct pick;
struct scenario;

/* ---- policy.c: all policies ------------------------------------------------------- */
enum policy {
	POLICY_TREE,
	POLICY_ORACLE,
	POLICY_BEST_FIXED,  /* one choice of the header per phase, one enum baseline_way */
	POLICY_VLLM_TRITON, /* the rule of vLLM's Triton backend, nearest choices */
	POLICY_AITER_RULE,  /* that of AMD's aiter */
	POLICY_DEFAULT,     /* the kernels' defaults, no selection */
	NUM_POLICIES
};
extern const char *const policy_names[NUM_POLICIES];
/* Complains if best_fixed has nothing to learn from. */
void policies_say_unlearned(const struct data *);
/* Picks [data->n] for all scenarios; 0 when the policy does not exist (chooser_new), or has no
 * picks (POLICY_ORACLE: see data_oracle). The forest is for POLICY_TREE and POLICY_BEST_FIXED. */
int policy_picks(const struct data *, enum policy, const struct forest *, struct pick *picks);

struct chooser;
/* NULL: the policy does not exist on this backend, is the oracle, has nothing to learn from, or no
 * memory. The forest and the data must outlive the chooser. */
struct chooser *chooser_new(const struct data *, enum policy, const struct forest *);
/* scenario: the batch's index in the data; vendor rules then take the nearest choice measured
 * there. -1: they take the nearest legal one. */
void chooser_make(const struct chooser *, const struct measured *, int scenario,
		  struct decided *out);
void chooser_free(struct chooser *);

/* vendor_rules.c */
void vllm_triton(const struct data *, const struct measured *, int scenario, struct decided *out);
void aiter_rule(const struct data *, const struct measured *, int scenario, struct decided *out);

enum baseline_way {
	BASELINE_WHOLE,   /* one launch by the prefill choice */
	BASELINE_SERIAL,  /* part after part */
	BASELINE_STREAMS, /* on two streams; not on CPUs */
	NUM_BASELINE_WAYS
};
/* How a baseline runs mixed batches: the way in which the picks [data->n] are fastest, over mixed training
 * scenarios that have a time in each way; serial where there are none. */
enum baseline_way fastest_way(const struct data *, const struct pick *picks);

/* asked_batch.c: batches that were never measured, and scenarios to measure again. */
/* The shape of a model: from its scenarios, preferably of this page size (0: 16), else from
 * scenarios/models.json with the types of the data's first scenario. 0 + complain. */
int shape_of_model(attune_shape *, const struct data *, const char *model, int page_size);
/* Makes a struct measured without measurements. 0 + complain: not a batch. */
int measured_make(struct measured *, const struct data *, const char *model, const attune_shape *,
		  const char *batch);
int measured_make_view(struct measured *, const struct data *, const attune_shape *,
		       const attune_batch *);
void measured_free(struct measured *);
/* A measured scenario in the harness's form, to measure it again. It shares texts and batch with
 * the measured one. */
void scenario_again(struct scenario *, const struct measured *);
/* nearest_estimate.c: estimates for batches that were never measured. */
/* The measured scenarios around a batch; data and batch must outlive it. NULL without memory. */
struct around;
struct around *around_new(const struct data *, const struct measured *);
void around_free(struct around *);
/* Marks in wanted[n] the scenarios whose times an estimate of that batch needs: the nearest ones of each
 * phase. Returns their number; -1 + complain: no such model. */
int mark_near(const struct data *, const char *model, int page_size, const attune_batch *,
	      char *wanted);
/* The nearest scenario with an ok result in that phase; -1: none. *far: its distance. */
int around_nearest(const struct around *, enum phase, double *far);
/* Estimated us of a plan, or of one part by a concrete choice: the best time of the nearest
 * scenario, scaled by the ratio of work, x the slowdown of the choice in the nearest scenario where
 * it was measured. INFINITY: never measured. */
double estimate_plan(const struct around *, const struct decided *);
double estimate_part(const struct around *, enum phase, const struct choice *);
/* Estimated us of the best plan: each part at its best, or one launch. */
double estimate_best(const struct around *);

#endif
