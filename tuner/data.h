/* data.h - inside struct data while it is being filled; for data.c and order.c. */
#ifndef DATA_H
#define DATA_H

#include "tuner.h"

enum { PHASE_PLAN = NUM_PHASES };

struct raw {
	int scenario, phase, choice, decode; /* decode: of a plan, else -1 */
	int early;                           /* value of the early axis; choice: the same in turn */
	int is_paced;                        /* of pass E */
	enum attune_how how;                 /* of a plan */
	enum pass pass;
	struct cell cell;
};

struct scaffold {
	void *scenarios, *choices; /* of names, by tsearch */
	int room, raw_room, choice_room;
};

/* Room for one more in an array that doubles. */
int array_grow(void *array, int n, int *room, size_t size);

/* energy.c: whose cells' power is their own. 0 without memory. */
int energy_mark(struct data *);

#endif
