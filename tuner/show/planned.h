/* planned.h - what the library's own planner runs for a batch on a GPU that need not be here. */
#ifndef TUNER_SHOW_PLANNED_H
#define TUNER_SHOW_PLANNED_H

#include "harness/base/base.h"
#include "kernels/select/selector.h"
#include "tuner/data/data.h"

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
/* The choices that the library tries for a part, in order: those of the row that its rules name, then
 * those of the portable rules' row up to the one that runs. Last, if none of them does: what runs. */
struct tried {
	char words[MAX_CHOICE_TEXT];
	enum { TRIED_NOT_RUN, TRIED_RUNS, TRIED_BEHIND } what; /* BEHIND: not needed */
	const char *why;                                       /* it is not run */
	const char *whose;                                     /* NULL: of the rules' row */
};
enum { MOST_TRIED = 2 * ATTUNE_LIST_MEMBERS + 1 };
int planned_tried(const struct planned *, enum decision, const struct part *,
		  struct tried[MOST_TRIED]);
/* What stands behind these. */
const char *planned_behind(const struct planned *);
/* Prints the plan for a GPU without measurements; times are an H200's estimates. An exit code. */
int show_planned(const char *gpu, const char *model, int page_size, const attune_batch *,
		 enum format);

#endif
