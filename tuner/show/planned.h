/* SPDX-License-Identifier: Apache-2.0 */
/* planned.h - what the library's own planner runs for a batch on a GPU that need not be here. */
#ifndef TUNER_SHOW_PLANNED_H
#define TUNER_SHOW_PLANNED_H

#include "harness/base/base.h"
#include "kernels/select/selector.h"
#include "tuner/data/data.h"

struct forest;

struct planned {
	attune_context *ctx;
	attune_op *op;
	struct decided made, serial; /* the plan; the same without an overlap */
	int runs[2];                 /* the op's ids of what runs prefills and decodes; -1: none */
};

/* 0: refused, with attune_last_error. planned_free either way. */
int planned_make(struct planned *, const struct device_info *, const attune_shape *,
		 const attune_batch *);
void planned_free(struct planned *);
/* Adds a row for each choice that the library tries for a part: those of the row that its rules name,
 * then those of the portable rules' row up to the one that runs, then what stands behind the row.
 * Rows get `more` empty columns. f: the same rules, whose marks are said; or NULL. */
void tried_rows(struct table *, const struct planned *, const struct forest *f, enum decision,
		const struct part *, int more);
struct show;
/* Prints the plan for a GPU without measurements: by --header, as if ATTUNE_HEURISTICS named it, else
 * by what that names. An exit code. */
int show_planned(const char *gpu, const struct show *, const attune_batch *);

#endif
