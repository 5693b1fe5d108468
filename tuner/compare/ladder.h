/* ladder.h - the steps from the first kernel to the tuned choice, on batches of equal sequences, as
 * published for vLLM's Triton kernels (arXiv 2511.11581). A rung is data; ladder.c makes its plan for a
 * batch and finds the measured time. */
#ifndef TUNER_COMPARE_LADDER_H
#define TUNER_COMPARE_LADDER_H

#include "kernels/kernel.h"
#include "tuner/data/data.h"
#include "tuner/policy/policy.h"

struct forest;

/* Sequences of one length: decodes of one token, whole prompts, or half of each. */
struct uniform {
	int share; /* of decodes, in percent: 0, 50 or 100 */
	int seqs, length;
};
int batch_uniform(const attune_batch *, struct uniform *); /* 0: it is not */
/* It is a point of the published figures: these vary the length for few and for 16 sequences, and the
 * number of sequences of 1024 and 2048 tokens. */
int in_figures(const struct uniform *);

enum { MAX_RUNGS = 12, BASE_RUNG = 1 /* the Q block, the base of speedups */ };
struct ladder {
	const struct data *d;
	const struct forest *f;
	struct choice fixed[MAX_RUNGS][2]; /* for the prefill and the decode part; see ladder.c */
};
extern const int num_rungs, num_side_rungs; /* the last rungs are side rungs */
const char *rung_name(int rung);
/* The data and the forest must outlive it. FIXED rungs take the best tile setting over the batches
 * of `model`. */
void ladder_make(struct ladder *, const struct data *, const struct forest *, const char *model);
/* The rung's plan for a batch; 0: no legal one, or no such kernel. */
int rung_made(const struct ladder *, int rung, const struct measured *, struct decided *out);

/* The times of all rungs in a scenario. */
struct climb {
	double us[MAX_RUNGS];    /* median; NaN: not measured, or failed */
	double ratio[MAX_RUNGS]; /* base rung's time / this one's; NaN: one is unknown */
	struct decided made[MAX_RUNGS];
};
void ladder_climb(const struct ladder *, int scenario, struct climb *);
/* Whether a scenario belongs to the ladder of that model: uniform, in the figures, with pages of 16
 * and BF16. */
int ladder_has(const struct data *, int scenario, const char *model, struct uniform *);

#endif
