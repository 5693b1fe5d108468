/* gate.h - new rules beside old ones: which of the two win.
 *
 * A forest is taken over in three groups of decisions, each whole:
 *
 *   prefill   the prefill tree, its choices and their segment costs
 *   decode    the decode tree, its choices and their segment costs, and the early tree, which
 *             changes no plan
 *   mixed     the overlap, which was learned for the parts that stand beside it
 *
 * Prefill and decode trees do not know each other: a part's costs are learned with the other part
 * at its best. The mixed group does know them, so it is judged beside the two that are taken. */
#ifndef TUNER_TRANSFER_GATE_H
#define TUNER_TRANSFER_GATE_H

#include "tuner/forest/forest.h"
#include "tuner/remeasure/requests.h"
#include <stdio.h>

struct gate;

/* ---- gate.c ------------------------------------------------------------------------------ */
/* Fresh rules against old ones on some scenarios. `ratio` and its interval: geometric mean of
 * fresh / incumbent time, below 1: fresh is faster. */
struct gate_figures {
	int n;       /* scenarios where the two differ and were raced side by side in pass B */
	int same;    /* where both would run the same */
	int missing; /* where they differ and no race of pass B has both */
	int failed;  /* where fresh gave no right result */
	double ratio, low, high,
	    worst;    /* interval: 95 % by Student's t over scenarios; NaN below 2 */
	double floor; /* what A/A pairs of such times differ by, as a ratio */
	int better;   /* than the incumbent beyond noise */
	int taken;    /* with the other groups that are */
};
struct gate_report {
	int scenarios; /* of split "gate" */
	struct gate_figures group[NUM_GATE_GROUPS];
	struct gate_figures all; /* what is taken, whole plans, against the incumbent */
};

/* Both forests and all that can be made of them, which must be outlived by them. NULL +
 * complain. */
struct gate;
struct gate *gate_open(const struct forest *incumbent, const struct forest *fresh);
void gate_close(struct gate *);
/* What has to be measured in pass B for a judgement on scenario s of the data, which is `scenario`
 * of the list that is measured: the plans of all that can be made of both, and the parts that
 * differ. Nothing where all run the same. */
void gate_wish(const struct gate *, struct wishes *, const struct data *, int s, int scenario);
/* Which groups of fresh to take, as take[decision]: those that are faster than the incumbent's
 * beyond noise on the scenarios of split "gate", by ratios of pass B alone, unless the combination
 * loses on mixed batches. Of the GPU's own data, not of what data_transfer made. */
void gate_judge(const struct gate *, const struct data *own, int take[NUM_DECISIONS],
		struct gate_report *);
/* One line a group and one for all, each behind `prefix`. */
void gate_print(FILE *, const struct gate_report *, const char *prefix);

#endif
