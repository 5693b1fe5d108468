/* costmodel.h - what choices take by estimate; for least_squares.c, list_schedule.c, offers.c, made_up_batches.c, cheapest_set.c
 * and induction.c. Prices teach the tree which choice is fast where nobody measured. Those of decodes
 * also say how a choice's keys are best cut into segments, which goes into the header. */
#ifndef TUNER_COSTMODEL_COSTMODEL_H
#define TUNER_COSTMODEL_COSTMODEL_H

#include "kernels/kernel.h"
#include "kernels/select/selector.h"
#include "tuner/matrix/matrix.h"
#include "tuner/forest/forest.h"

/* What a choice is paid for. A part takes the sum of prices times amounts. */
enum price_term {
	PRICE_LAUNCH,   /* 1 */
	PRICE_PATH,     /* keys of the slot that finishes last (kernels/segments.h) */
	PRICE_TOTAL,    /* keys of all blocks / units */
	PRICE_KIB,      /* KiB of live K and V */
	PRICE_ROWS,     /* query tokens x query heads */
	PRICE_SPLIT,    /* 1 with more than one segment */
	PRICE_SEGMENTS, /* segments, with more than one */
	PRICE_MERGE,    /* rows x segments, with more than one */
	NUM_PRICE_TERMS
};
struct price {
	struct block_shape block;
	int slots, start; /* as in struct segment_costs */
	long long fs[NUM_PRICE_TERMS];
};
/* A batch whose blocks are dealt out one by one. */
struct dealing {
	const attune_shape *shape;
	const attune_batch *batch;
	enum phase phase;
	int at_once; /* blocks that run at a time; 0: units x slots of the price */
};
/* The path of such a batch (list_schedule.c), of which the closed form of kernels/segments.h knows the
 * average; -1 without memory. */
long long dealt_path(const struct price *, const struct dealing *, long long units, int segments);
/* dealing: NULL for the closed form. 0 without memory. */
int price_amounts(long long amount[NUM_PRICE_TERMS], const struct price *,
		  const struct attune_features *, int segments, const struct dealing *);
/* In fs; -1 without memory. */
long long price_estimate(const struct price *, const struct attune_features *, int segments,
			 const struct dealing *);
/* What of it segments change. */
struct segment_costs price_costs(const struct price *);

enum { MAX_PRICED = MAX_PORTFOLIO /* choices */ };
struct prices {
	struct choice choice[MAX_PRICED]; /* of decodes SEGMENTS=fitted, where it has the axis */
	int num_choices;
	struct selector_costs costs[MAX_COSTS]; /* of decodes; ids: of choice above */
	int num_costs;
	/* Mean slowdown of the cheapest by prices that have not seen the row, over rows where that
	 * may run; INFINITY when it may not in more than one row of eight. */
	double unseen;
	struct matrix *taught; /* what the tree learns from: made_up_batches.c */
	int num_measured;      /* of its rows: those of scenarios come first, others were made up */
};

/* least_squares.c: one measured time, and what it counts. */
struct cell_fit {
	const struct attune_features *f;
	int segments;
	double us, weight;
	struct dealing dealing; /* without a batch: the closed form */
};
/* Fills in all but the block, with at most so many slots. 0: without memory. */
int price_fit(struct price *, const struct cell_fit *, int n, int most_slots);

/* cheapest_set.c */
void prices_free(struct prices *);
/* At most `most` choices of the prefill or the decode decision, and their prices, learned from the
 * rows of `all`, which has all concrete choices of d. few: of prefills, some columns of it, of
 * whose families these choices are; NULL: of decodes. 0 without memory. */
int prices_fit(struct prices *, const struct data *, const struct matrix *all,
	       const struct matrix *few, int most);

#endif
