/* SPDX-License-Identifier: Apache-2.0 */
/* gate.h - decides which fresh rules replace the incumbent's.
 *
 * Rules are replaced in three groups of decisions:
 *
 *   prefill   the prefill tree, its choices and their segment costs
 *   decode    the decode tree, its choices and their segment costs, and the early tree, which
 *             changes no plan
 *   mixed     the overlap, which was learned for the choices of the other two groups
 *
 * Prefill and decode trees are independent: a part's costs are learned with the other part at its
 * best. The mixed group depends on both, so it is compared together with those that are taken. */
#ifndef TUNER_TRANSFER_GATE_H
#define TUNER_TRANSFER_GATE_H

#include "tuner/forest/forest.h"
#include "tuner/remeasure/requests.h"
#include <stdio.h>

/* ---- signed_ranks.c ---------------------------------------------------------------------- */
/* The 95 % interval of the usual value by Wilcoxon's signed ranks; NaN below six values. It is below
 * 0 for at most 2.5 % of the samples whose values spread alike to both sides of 0. */
void signed_ranks(const double *v, int n, double *low, double *high);

/* ---- gate.c ------------------------------------------------------------------------------ */
/* Fresh rules against old ones on some scenarios, by fresh / incumbent time, below 1: fresh is
 * faster. `ratio` is the geometric mean; low, high: the interval of the usual ratio, by signed_ranks. */
struct gate_figures {
	int n;       /* scenarios where the two differ and share a race of pass B */
	int missing; /* where they differ and no race of pass B has both */
	int failed;  /* where fresh has no ok result */
	double ratio, low, high, worst;
	double floor; /* noise of A/A controls of such times, as a ratio */
	int better;   /* faster than the incumbent beyond noise */
	int taken;
};
struct gate_report {
	int scenarios; /* of split "gate" */
	struct gate_figures group[NUM_GATE_GROUPS];
	struct gate_figures all; /* whole plans by the rules taken, against the incumbent */
	int fresh;               /* which of the fresh forests this is of */
};

/* Rules that may replace the incumbent's: one or more forests. */
enum { MOST_FRESH = 2 };
struct fresh_rules {
	struct forest f[MOST_FRESH];
	int n;
	int trees; /* which are trees of own times; -1: none */
};

/* Makes all combinations of the incumbent with each fresh forest. NULL + complain. */
struct gate;
struct gate *gate_open(const struct forest *incumbent, const struct fresh_rules *);
void gate_close(struct gate *);
/* Adds what pass B must measure on the batch that was added last, which the data may not have: the
 * plans of all combinations, and the parts that differ. Nothing if all run the same. */
void gate_wish(const struct gate *, struct wishes *, const struct data *, const struct measured *);
/* The groups of a fresh forest that are faster than the incumbent's beyond noise on the scenarios
 * of split "gate", by ratios of pass B, unless the combination loses on mixed batches: as
 * forest_combine takes them. Of several forests the one that gains most; of those that gain
 * nothing the first. own: the GPU's own data. */
int gate_judge(const struct gate *, const struct data *own, struct gate_report *);
/* The number of groups taken. */
int gate_taken(const struct gate_report *);
/* Prints a line per group and one for all, each after `prefix`. */
void gate_print(FILE *, const struct gate_report *, const char *prefix);

#endif
