/* filling.h - what only files that fill a struct data need: lookup tables, adding rows, and the
 * steps of data_finish(). */
#ifndef TUNER_DATA_FILLING_H
#define TUNER_DATA_FILLING_H

#include "data.h"

enum { PHASE_PLAN = NUM_PHASES };

/* Where a cell belongs. Scenarios and choices are numbered in the order of arrival. */
struct place {
	int row, key; /* as data.row and data.key have them */
};

enum { NOT_LISTED = -2 }; /* a choice that today's .def tables do not have */

/* The choices that a row's kernel and choice texts name. */
struct variant {
	int choice, decode; /* choice: NOT_LISTED, or -1: not known yet; decode: of a plan */
	int early;          /* value of the early axis; choice is then the one without it */
	enum attune_how how;
};
enum { MAX_ID = 1 << 24 }; /* larger ids of the database are not indexed; texts are looked up */

enum { RACES_OF_RUN = NUM_STAGES + 1 }; /* cell.race: its run x this + its stage */

struct scaffold {
	void *scenarios, *choices; /* names, in tables of tsearch; for cells without ids */
	int *scenario;             /* [scenario_id] */
	struct variant *variant;   /* [variant_id] */
	int num_scenarios, num_variants;
	struct place *place; /* [num_cells] */
	int room, cell_room, place_room, plan_room, early_room, choice_room;
};
void scaffold_free(struct data *);

/* data.c: adds a scenario without cells, or a choice, if it is new. Return the index, which is valid until
 * data_finish sorts; -1 + complain. */
int data_put_scenario(struct data *, const struct store_cell *);
int data_put_choice(struct data *, const struct choice *);
/* The index of a choice given as "segmented BLOCK_M=16 ..."; NOT_LISTED; -1 without memory. An
 * early choice gets the index of the same choice without it, and *early its value. */
int data_find_text(struct data *, const char *text, int *early);
/* Room for [id] in an array; new elements are filled with bytes 0xff. 0 without memory. */
int array_reach(void *array, int *room, long long id, size_t size);
/* data_add.c: adds a cell, plan or early launch by such indices. 0 without memory. */
int data_put_cell(struct data *, int scenario, int phase, int choice, enum pass,
		  const struct cell *);
int data_put_plan(struct data *, const struct composed *);
int data_put_early(struct data *, const struct early_launch *);
/* data_finish.c: data_finish for cells taken from finished data: these are on one clock already. */
int data_finish_again(struct data *);

/* All return 0 without memory. */
/* power_source.c: sets what each cell's power was measured over. */
int energy_mark(struct data *);
/* race_clock.c: makes cells of several races comparable. */
int clocks_set(struct data *);
/* second_session.c: drops the cells and plans of pass B that do not count. */
int sessions_choose(struct data *);
/* pass_shift.c: finds data.shift and data.again. */
int passes_compare(struct data *);
/* fastest.c: finds the least time of each scenario once. */
int fastest_find(struct data *);

#endif
