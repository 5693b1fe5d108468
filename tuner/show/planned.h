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
};

/* 0: refused, with attune_last_error. planned_free either way. */
int planned_make(struct planned *, const struct device_info *, const attune_shape *,
		 const attune_batch *);
void planned_free(struct planned *);
/* What the rules name for the part, and why it does not run; "": it runs, or there is none. */
void planned_why(const struct planned *, enum decision, const struct part *, char *text,
		 size_t size);
/* Prints the plan for a GPU without measurements; times are an H200's estimates. An exit code. */
int show_planned(const char *gpu, const char *model, int page_size, const attune_batch *,
		 enum format);

#endif
