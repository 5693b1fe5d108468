/* SPDX-License-Identifier: Apache-2.0 */
/* items.h - what the lines `op` and `cell` of a settled text say, whatever the context: for the library
 * and for attune merge --settled. */
#ifndef KERNELS_SETTLE_TEXT_ITEMS_H
#define KERNELS_SETTLE_TEXT_ITEMS_H

#include "line.h"
#include "kernels/settle/store.h"

/* The numbers of a plan's choices in the text, -1: none; and their steps. */
struct cell_plan {
	int way, of[2], step[2];
};

struct cell_line {
	int op, num, winner, rounds, settles, first[2];
	enum cell_kind kind;
	struct cell_plan plan[ATTUNE_MOST_ALTERNATIVES];
	double us[ATTUNE_MOST_ALTERNATIVES], again;
	int num_seqs;
	int32_t start[MOST_KEPT_SEQS + 1], lens[MOST_KEPT_SEQS];
};

/* Behind "op 0"; not the line's end. */
void line_shape(struct line *, attune_shape *);
/* Behind "cell "; all of the line. Numbers are below these, of the items above. */
int line_cell(struct line *, int num_choices, int num_ops, struct cell_line *c);
/* Behind "end "; all of the line. A text that lacks lines at its end has none. */
int line_last(struct line *, int num_cells);

#endif
