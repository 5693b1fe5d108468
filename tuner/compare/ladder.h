/* ladder.h - the steps from the first kernel to the tuned choice, as published for vLLM's
 * Triton kernels (arXiv 2511.11581), on batches whose sequences are alike.
 *
 *   ladder.c      rungs as data, what a rung runs in a batch, its measured time
 *   ladder_cmd.c  attune ladder: the table, and the measuring of all rungs in one race
 *   plot_paper.c  the pictures */
#ifndef TUNER_COMPARE_LADDER_H
#define TUNER_COMPARE_LADDER_H

#include "kernels/kernel.h"
#include "tuner/data/data.h"
#include "tuner/policy/policy.h"

struct forest;

/* Sequences of one length: decodes of one token, whole prompts, or as many of either. */
struct uniform {
	int share; /* of decodes, in percent: 0, 50 or 100 */
	int seqs, length;
};
int batch_uniform(const attune_batch *, struct uniform *); /* 0: it is not */
/* Whether it is a point of one of the figures: by length for few and for FIGURE_SEQS
 * sequences, by their number at FIGURE_LENGTHS. */
enum { FIGURE_SEQS = 16, NUM_FIGURE_LENGTHS = 2 };
extern const int figure_lengths[NUM_FIGURE_LENGTHS];
int is_few(const struct uniform *); /* one sequence, or one of either kind */
int in_figures(const struct uniform *);

enum { MAX_RUNGS = 12, BASE_RUNG = 1 /* what speedups are to: the Q block */ };
struct ladder {
	const struct data *d;
	const struct forest *f;
	struct choice fixed[MAX_RUNGS][2]; /* of the prefill and the decode part; see ladder.c */
};
extern const int num_rungs, num_side_rungs; /* the last ones are beside the ladder */
const char *rung_name(int rung);
const char *rung_about(int rung);
/* The data and the forest must outlive it. model: whose batches say which tile settings are
 * best for all. */
void ladder_make(struct ladder *, const struct data *, const struct forest *, const char *model);
/* What the rung runs in a batch; 0: nothing of it may run there, or there is no such kernel. */
int rung_made(const struct ladder *, int rung, const struct measured *, struct decided *out);

/* Of all rungs in a scenario of the data. */
struct climb {
	double us[MAX_RUNGS];    /* median; NaN: not measured, or failed */
	double ratio[MAX_RUNGS]; /* base rung's time / this one's; NaN where either is not known */
	int paired[MAX_RUNGS];   /* that ratio is of one race, by rounds */
	struct decided made[MAX_RUNGS];
};
void ladder_climb(const struct ladder *, int scenario, struct climb *);
/* Whether a scenario of the data is of the ladder of that model: uniform, in the figures,
 * with pages of 16 and the model's usual types. */
int ladder_has(const struct data *, int scenario, const char *model, struct uniform *);

#endif
