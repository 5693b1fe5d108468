/* show.h - the answers of `attune show`, by file. */
#ifndef TUNER_SHOW_SHOW_H
#define TUNER_SHOW_SHOW_H

#include "harness/base/base.h"
#include "tuner/compare/peers.h"
#include "tuner/data/data.h"
#include <stdio.h>

struct forest;

enum show_what {
	SHOW_SCENARIO,
	SHOW_WHY,
	SHOW_BEST,
	SHOW_PEERS,
	SHOW_KERNELS,
	SHOW_CEILINGS,
	SHOW_STALE
};

struct show {
	const char *gpu, *db, *header, *model, *batch, *peers;
	int page_size; /* 0: any */
	int all;       /* rows that people would not read, too */
	enum phase phase;
	enum show_what what;
	enum format format;
};

/* All return 0 without memory. */
/* ranking.c: what was measured of a scenario. */
struct way {
	const char *plan;
	char kernel[64], variant[2 * MAX_CHOICE_TEXT];
	/* Of the prefill and the decode part where the way is their sum; else of[1] is NULL. */
	const struct cell *of[2];
	enum phase phase; /* of of[0] */
	char pass[4];     /* "A", "B", "E" (early_decision.h); of a sum "A+B", too */
	struct cell cell; /* the sum */
	double ratio;     /* to the pick, see compare_races.c; of pass E to in turn; NaN: not known */
	const char *word; /* of that ratio, "pick" for the pick itself; NULL: no pick is known */
};
struct ways {
	struct way *v;
	int n, room;
};
/* Of each choice one row: that of the second pass where there is one. Where first_too is set
 * the pick has one for each pass. The forest may be NULL: no pick is known. Fastest first.
 * 0 + complain, too, where the batch has not the part asked for. */
int ways_of(struct ways *, const struct data *, const struct forest *, const struct show *,
	    int scenario, int first_too);
/* All of them as a table for machines. */
int show_ways(const struct data *, const struct forest *, const struct show *, int scenario);
/* ranking_text.c: what runs and how far to trust its time; and the ways, by pass. */
void show_summary(const struct data *, const struct forest *, const struct show *, int scenario);
int show_passes(const struct data *, const struct forest *, const struct show *, int scenario);
/* A line above a table for people: format table or markdown. */
void show_note(enum format, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* stale.c: rows that were measured with older sources; an exit code. */
int show_stale(const char *db, const char *gpu, const struct show *);
/* explain.c: the path through the trees, the actions, the runners-up, what to expect. The
 * scenario is the batch's index in the data, -1 when it was never measured. */
int show_why(const struct data *, const struct forest *, const struct measured *, int scenario,
	     enum format);
/* lists.c: every scenario (of a model, unless NULL), those that others have times of, and every
 * kernel. */
int show_best(const struct data *, const struct forest *, const char *model, enum format);
int show_peers(const struct data *, const struct forest *, const struct peers *, const char *model,
	       enum format);
int show_kernels(const char *gpu, enum format);

#endif
