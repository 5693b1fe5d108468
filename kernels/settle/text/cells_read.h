/* SPDX-License-Identifier: Apache-2.0 */
/* cells_read.h - reads the lines of a settled text that name choices, ops and cells. */
#ifndef KERNELS_SETTLE_TEXT_CELLS_READ_H
#define KERNELS_SETTLE_TEXT_CELLS_READ_H

#include "line.h"
#include "kernels/settle/store.h"

struct read_op {
	attune_shape shape;
	attune_op *op; /* by op_list, for the first cell; NULL after that: no kernel is here */
	int was_asked;
};

struct reading {
	attune_context *ctx;
	struct settled *s;
	struct choice *choices; /* kernel NULL: this version does not have it */
	struct read_op *ops;
	int num_choices, num_ops, num_cells, dropped; /* num_cells: lines */
	int is_whole;                                 /* its last line was read */
	struct kept_list cells;
};

/* The line behind its first word. ATTUNE_OK with line->expected set: it is malformed there. */
enum attune_status read_choice(struct line *, struct reading *);
enum attune_status read_op(struct line *, struct reading *);
enum attune_status read_cell(struct line *, struct reading *);
void reading_free(struct reading *);

#endif
