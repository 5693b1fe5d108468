/* SPDX-License-Identifier: Apache-2.0 */
/* filling.h - what only files that fill a struct data need: lookup tables, adding rows, and the
 * steps of data_finish(). */
#ifndef TUNER_DATA_FILLING_H
#define TUNER_DATA_FILLING_H

#include "data.h"

enum { PHASE_PLAN = NUM_PHASES };

enum { NOT_LISTED = -2 }; /* a choice that today's .def tables do not have */

enum { RACES_OF_RUN = NUM_STAGES + 1 }; /* cell.race: its run x this + its stage */

struct scaffold {
	void *scenarios, *choices; /* names, in tables of tsearch */
	int room, cell_room, plan_room, early_room, choice_room;
	int arrived; /* cells, plans and early launches */
	/* Rows of a database come by scenario. The last one's id, 0: none, and its index. */
	long long last_id;
	int last_scenario;
};
void scaffold_free(struct data *);

/* Of "all", "prefill", "decode" or "plan"; -1: another word. */
int phase_named(const char *);
/* data.c: adds a scenario without cells, or a choice, if it is new. Return the index, which is valid until
 * data_finish sorts; -1 + complain. */
int data_put_scenario(struct data *, const struct store_cell *);
int data_put_choice(struct data *, const struct choice *);
/* The index of a choice given as "segmented BLOCK_M=16 ..."; NOT_LISTED; -1 without memory. An
 * early choice gets the index of the same choice without it, and *early its value. */
int data_find_text(struct data *, const char *text, int *early);
/* data_add.c: adds a cell, plan or early launch by such indices. 0 without memory. */
int data_put_cell(struct data *, int scenario, int phase, int choice, enum pass,
		  const struct cell *);
int data_put_plan(struct data *, const struct composed *);
int data_put_early(struct data *, const struct early_launch *);
/* cells.c: drops the cells, which are sorted, that `keep` does not want, and sets data.row. */
void cells_keep(struct data *, int (*keep)(const struct data *, const struct cell *));
/* The same for plans and data.plan_at; keep NULL: all stay. */
void plans_keep(struct data *, int (*keep)(const struct data *, const struct composed *));

/* ---- lost_kernels.c: whether a scenario's fastest kernel has only stale rows ---------------- */
enum { MAX_KERNELS = 32 /* of a device */ };
/* A kernel's least times in one part of a scenario: of fresh rows and of stale ones; INFINITY:
 * none. */
struct kernel_least {
	char kernel[32];
	double fresh, stale;
};
struct lost {
	struct kernel_least least[NUM_PHASES][MAX_KERNELS];
	int kernels[NUM_PHASES];
};
/* Called for each cell of a scenario. */
void lost_note(struct lost *, const struct store_cell *);
/* Called after the last one: whether the fastest kernel was lost. Starts the next scenario. */
int lost_end(struct lost *);

/* ---- the steps of data_finish. All return 0 without memory. ---- */
/* race_clock.c: makes cells of several races comparable. */
int clocks_set(struct data *);
/* second_session.c: drops the cells and plans of pass B that do not count. */
int sessions_choose(struct data *);
/* pass_shift.c: finds data.shift and data.again. */
int passes_compare(struct data *);
/* fastest.c: finds the least time of each scenario once. */
int fastest_find(struct data *);

#endif
