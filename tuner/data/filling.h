/* filling.h - inside struct data while it is being filled: the steps of data_finish. */
#ifndef TUNER_DATA_FILLING_H
#define TUNER_DATA_FILLING_H

#include "data.h"

enum { PHASE_PLAN = NUM_PHASES };

/* Where a cell belongs, by numbers in the order of arrival. */
struct place {
	int row, key; /* as data.row and data.key have them */
};

/* What a kernel and a choice's text come to. */
struct variant {
	int choice, decode; /* choice: NOT_LISTED, or -1: not known yet; decode: of a plan */
	int early;          /* value of the early axis; choice: the same in turn */
	enum attune_how how;
};

struct scaffold {
	void *scenarios, *choices; /* of names, by tsearch: of cells without ids */
	int *scenario;             /* [scenario_id] */
	struct variant *variant;   /* [variant_id] */
	int num_scenarios, num_variants;
	struct place *place; /* [num_cells] */
	int room, cell_room, place_room, plan_room, paced_room, choice_room;
};
void scaffold_free(struct data *);

/* data.c: a scenario without cells, and a choice, each unless it is there; 0 + complain. */
int data_add_scenario(struct data *, const struct store_cell *);
int data_add_choice(struct data *, const struct choice *);
/* The same; the index until data_order, -1 without memory. */
int data_put_scenario(struct data *, const struct store_cell *);
int data_put_choice(struct data *, const struct choice *);
/* One more cell, plan or row of pass E, by such indices. 0 without memory. */
int data_put_cell(struct data *, int scenario, int phase, int choice, enum pass,
		  const struct cell *);
int data_put_plan(struct data *, const struct composed *);
int data_put_paced(struct data *, const struct paced *);
/* data_finish.c: data_finish of cells that are of finished data: their clocks are set. */
int data_finish_again(struct data *);
/* load_scenarios.c: the scenarios that were measured on a GPU, as cells that have all but a time
 * and a choice. 0 + complain. */
int scenarios_each(struct store *, const char *gpu, int (*each)(void *, const struct store_cell *),
		   void *arg);

/* Room for one more in an array that doubles. */
int array_grow(void *array, int n, int *room, size_t size);

/* All return 0 without memory. */
/* power_source.c: whose cells' power is their own. */
int energy_mark(struct data *);
/* clock.c: makes cells of several races comparable. */
int clocks_set(struct data *);
/* pass_shift.c: finds data.shift and data.again. */
int passes_compare(struct data *);
/* fastest.c: the least times, which are asked for again and again. */
int fastest_find(struct data *);

#endif
