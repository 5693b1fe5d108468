/* transfer.h - translates one GPU's times into training data for another GPU. */
#ifndef TUNER_TRANSFER_TRANSFER_H
#define TUNER_TRANSFER_TRANSFER_H

struct composed;
struct data;

/* The data to learn from on a GPU with few times of its own: a copy of `own`, and the training
 * scenarios of `prior`, another GPU, with each time translated. Both are finished data. The result
 * belongs to own's GPU and device. Cells and scenarios are marked as translated; own times replace
 * translated ones.
 *
 *   left out    scenarios that own holds out or has in split "gate"; choices that are illegal on
 *               own's device; pass B
 *   forbidden   a choice that failed on own's device: everywhere but where it has an own time; a
 *               binary that did not compile or start there: wherever that binary would run
 *
 * NULL + complain: the two cannot be compared, or no memory. */
struct data *data_transfer(const struct data *own, const struct data *prior);

/* ---- translate.c --------------------------------------------------------------------------- */
/* Logs of own / prior time. */
struct translation;
/* same: [prior->n] the same scenario of own, -1: none. Only training scenarios of both count. NULL
 * without memory. */
struct translation *translation_new(const struct data *own, const struct data *prior,
				    const int *same);
void translation_free(struct translation *);
/* The expected log ratio of a choice in a scenario and phase of the prior, and of one of its plans; 0
 * without any pair. */
double translation_of(const struct translation *, int scenario, int phase, int choice);
double translation_of_plan(const struct translation *, const struct composed *);

#endif
