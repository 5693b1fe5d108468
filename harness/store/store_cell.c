/* store_cell.c - the names of stages, and whether a cell belongs to a scenario. */
#include "store.h"
#include "harness/scenario/scenario.h"
#include <string.h>

const char *const stage_names[NUM_STAGES] = { "",       "race",  "complete", "cold",
					      "refine", "audit", "b",        "early" };

int cell_is_of(const struct store_cell *c, const struct scenario *s)
{
	return c->page_size == s->shape.page_size && c->seed == s->seed &&
	       !strcmp(c->model, s->model) && !strcmp(c->batch, s->batch_text) &&
	       c->shape.dtype == s->shape.dtype && c->shape.kv_dtype == s->shape.kv_dtype &&
	       layout_of(c->layout) == s->layout;
}
