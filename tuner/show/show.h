/* SPDX-License-Identifier: Apache-2.0 */
/* show.h - shared by the files of `attune show`. */
#ifndef TUNER_SHOW_SHOW_H
#define TUNER_SHOW_SHOW_H

#include "harness/base/base.h"
#include "tuner/data/data.h"
#include <stdio.h>

struct forest;

/* What is asked for; also the keys of its options. */
enum show_what {
	SHOW_SCENARIO,
	SHOW_WHY = 256,
	SHOW_BEST,
	SHOW_PEERS,
	SHOW_KERNELS,
	SHOW_CEILINGS,
	SHOW_STALE,
	SHOW_TABLE
};

struct show {
	const char *gpu, *db, *header, *model, *batch, *table;
	int page_size; /* 0: any */
	int all;       /* print all rows */
	enum show_what what;
	enum format format;
};

/* All return 0 without memory. */
/* ranking.c: the measured plans of a scenario, a row each. */
/* The cell in one pass; for a sum those of the prefill and the decode part, else of[1] is NULL. of[0]
 * NULL: not measured in that pass. */
struct timed {
	const struct cell *of[2];
	enum phase phase; /* of of[0] */
};
struct way {
	const char *plan;
	char kernel[64], variant[2 * MAX_CHOICE_TEXT + 4];
	struct timed timed;
	char pass[4];     /* "A", "B", "E" (early_decision.h); for a sum also "A+B" */
	struct cell cell; /* the sum */
	double ratio; /* to the pick (compare_races.c), for E to the same in turn; NaN: unknown */
	const char *word; /* basis of the ratio; "pick": the pick itself; NULL: no pick is known */
};
struct ways {
	struct way *v;
	int n, room;
};
/* One row for each choice, of the second pass if there is one, fastest first. first_too: the pick
 * has a row for each pass. The forest may be NULL: no pick is known. 0 + complain. */
int ways_of(struct ways *, const struct data *, const struct forest *, int scenario, int first_too);
/* Prints all of them as one table, for tsv, csv and json. */
int show_ways(const struct data *, const struct forest *, int scenario, enum format);
/* ranking_text.c: a plan as text. */
void decided_words(const struct decided *, char *text, size_t size);
/* The plan with its time and noise; and the ways by pass, for people. */
void show_summary(const struct data *, const struct forest *, const struct show *, int scenario);
int show_passes(const struct data *, const struct forest *, const struct show *, int scenario);
/* Prints a line above a table, in format table or markdown. */
void show_note(enum format, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* answer.c: asks, prints the table with the first `most` rows, and frees it. Without a table (NULL) the answer's
 * own columns make one; it is not printed if there is no row. An answer whose first column is called "note" has lines above the table, for
 * people. `name` is for messages. The number of rows; -1 + complain. */
struct scratch;
int show_answer(struct scratch *, const char *name, const char *sql, struct table *, enum format,
		int most);
/* stale.c: rows measured with older sources; an exit code. */
int show_stale(const char *db, const char *gpu, const struct show *);
/* explain.c: the path through the trees, the actions, what runs, the rivals, the expected slowdown.
 * scenario: the batch's index in the data; -1: never measured. planned: what the library runs;
 * NULL: what the forest says. */
struct planned;
int show_why(const struct data *, const struct forest *, const struct measured *, int scenario,
	     const struct planned *, enum format);
/* tables.c: the published tables of o->table, names separated by commas; each scenario's fastest plan and
 * the header's, or (SHOW_PEERS) those with times of other projects' kernels. Exit codes. */
int show_tables(const char *gpu, const struct show *);
int show_lists(const char *gpu, const char *db, const struct show *);
/* kernels.c: all kernels with their tunables and rules. */
int show_kernels(const char *gpu, enum format);

/* ---- diff_leaves.c ---- */
/* diff_leaves.c: regions of features where the choices of two forests differ; with data, the
 * change in the scenarios of each region, and the regret of both. 0: no memory. */
int diff_leaves(const struct forest *was, const struct forest *is, const struct data *,
		enum format);

#endif
