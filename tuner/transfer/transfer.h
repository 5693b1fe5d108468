/* transfer.h - what one GPU's times say about another's. For transfer.c, translate.c and induce. */
#ifndef TUNER_TRANSFER_TRANSFER_H
#define TUNER_TRANSFER_TRANSFER_H

struct composed;
struct data;


/* The data to learn from on a GPU that has few times of its own: all of `own`, and the training
 * scenarios of `prior`, another GPU, with each time translated. Both are finished and outlive
 * nothing: the result has copies. It is of own's GPU and device. A cell says whether it was
 * translated, a scenario whether all its cells were; own times replace translated ones.
 *
 *   not taken over   scenarios that own holds out or has in split "gate"; choices that own's device
 *                    refuses; pass B
 *   forbidden        a choice that gave no right result here: everywhere, unless it was right in that
 *                    scenario; a binary that did not compile or start: wherever that binary would run
 *
 * NULL + complain: the two cannot be compared, or no memory. */
struct data *data_transfer(const struct data *own, const struct data *prior);

/* ---- translate.c --------------------------------------------------------------------------- */
/* Logs of own / prior time. */
struct translation;
/* same: [prior->n] the own scenario that is the same, -1: none. Pairs are of training scenarios of
 * both. NULL without memory. */
struct translation *translation_new(const struct data *own, const struct data *prior,
				    const int *same);
void translation_free(struct translation *);
int translation_pairs(const struct translation *);
/* Moves to a scenario and phase of the prior (NUM_PHASES: plans): what follows is of it. */
void translation_at(struct translation *, int scenario, int phase);
/* The log that is expected of a choice there; 0 without any pair. */
double translation_of(const struct translation *, int choice);
double translation_of_plan(const struct translation *, const struct composed *);

#endif
