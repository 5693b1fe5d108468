/* planned.c - asks the library's own planner what it runs for a batch, and why it does not run what
 * its rules name. The GPU need not be here; the headers are those that this tool was built with. */
#include "planned.h"
#include "show.h"
#include "harness/base/base.h"
#include "harness/compile/compile.h"
#include "harness/machine/machine.h"
#include "harness/scenario/scenario.h"
#include "kernels/api/plan.h"
#include "kernels/device/shared/gpu_names.h"
#include "kernels/launch/run.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/part.h"
#include "kernels/spec/space.h"
#include "tuner/forest/forest.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static struct choice choice_of(const attune_op *op, const attune_part *p)
{
	const struct ready *r = &op->ready[p->choice];
	struct choice c = { r->kernel, r->config };
	if (c.kernel->space->formula_axis >= 0)
		c.config.v[c.kernel->space->formula_axis] = p->resolved;
	return c;
}

static enum phase phase_of(const attune_part *p)
{
	return p->max_query <= DECODE_MAX_QUERY ? PHASE_DECODE : PHASE_PREFILL;
}

/* Plug-ins are not loaded here: each part has a choice of ours. */
static void take(struct decided *out, const attune_op *op, const attune_plan *plan)
{
	*out = (struct decided){ .join = 1, .how = plan->how };
	for (int i = 0; i < plan->num_parts; i++) {
		const struct choice c = choice_of(op, &plan->part[i]);
		if (c.kernel->space->is_fused || phase_of(&plan->part[i]) == PHASE_PREFILL)
			out->prefill = c;
		else
			out->decode = c;
	}
}

int planned_make(struct planned *p, const struct device_info *d, const attune_shape *shape,
		 const attune_batch *batch)
{
	attune_plan plan = { .size = sizeof plan };
	struct device dev;
	attune_shape sized = *shape;
	attune_batch view = *batch;
	memset(p, 0, sizeof *p);
	sized.size = sizeof sized;
	view.size = sizeof view;
	planning_device(&dev, d);
	if (attune_adopt(&p->ctx, &dev) || attune_prepare(p->ctx, &sized, &p->op) ||
	    plan_serial(p->op, &view, &plan))
		return 0;
	const int is_mixed = plan.num_parts == 2;
	take(&p->serial, p->op, &plan);
	p->runs[0] = p->runs[1] = -1;
	for (int i = 0; i < plan.num_parts; i++)
		p->runs[phase_of(&plan.part[i]) == PHASE_DECODE] = plan.part[i].choice;
	if (attune_plan_batch(p->op, &view, &plan))
		return 0;
	take(&p->made, p->op, &plan);
	p->made.join = !is_mixed || plan.num_parts == 2;
	return 1;
}

void planned_free(struct planned *p)
{
	attune_release(p->op);
	attune_close(p->ctx);
}

/* ---- what is tried for a part --------------------------------------------------------------- */

static void add_tried(struct tried *t, const attune_op *op, int id, const char *whose)
{
	const struct choice c = { op->ready[id].kernel, op->ready[id].config };
	choice_words(&c, t->words);
	t->whose = whose;
}

/* Adds the members of a choice's row. Whether one of them runs. */
static int row_tried(const attune_op *op, int named, int runs, const struct part *part,
		     const char *whose, struct tried *v, int *n)
{
	const struct attune_list *row = &op->ready[named].row;
	int found = 0;
	for (int i = 0; i < row->n; i++) {
		struct tried *t = &v[(*n)++];
		const int id = row->at[i];
		add_tried(t, op, id, whose);
		t->why = NULL;
		t->what = found ? TRIED_BEHIND : id == runs ? TRIED_RUNS : TRIED_NOT_RUN;
		found |= id == runs;
		if (t->what == TRIED_NOT_RUN)
			t->why = why_not(op, id, part);
		if (t->what == TRIED_NOT_RUN && !t->why)
			t->why = "by estimate what runs takes at most 7/8 of its time";
	}
	return found;
}

int planned_tried(const struct planned *p, enum decision t, const struct part *part,
		  struct tried v[MOST_TRIED])
{
	static const char portable[] = "of the portable rules";
	const attune_op *op = p->op;
	const int runs = p->runs[t == DECIDE_DECODE];
	int n = 0, found = 0;
	int says = op->heuristic ? selector_says(op->heuristic, t, &part->f) : SAYS_DEFAULTS;
	if (says >= 0)
		found = row_tried(op, says, runs, part, NULL, v, &n);
	says = op->portable ? selector_says(op->portable, t, &part->f) : SAYS_DEFAULTS;
	if (!found && says >= 0)
		found = row_tried(op, op->num_choices + says, runs, part, portable, v, &n);
	if (!found && runs >= 0) {
		add_tried(&v[n], op, runs, "a default");
		v[n].why = NULL;
		v[n++].what = TRIED_RUNS;
	}
	return n;
}

const char *planned_behind(const struct planned *p)
{
	return p->op->portable ? "the portable rules" : "the kernels' defaults";
}

/* ---- a GPU without rules -------------------------------------------------------------------- */

static void add_row(struct table *t, const struct planned *p, enum phase phase,
		    const struct choice *c, const struct part *part)
{
	char text[MAX_CHOICE_TEXT];
	double us = NAN;
	if (!c->kernel)
		return;
	choice_words(c, text);
	for (int i = 0; i < p->op->first_default; i++) {
		const struct ready *r = &p->op->ready[i];
		const struct part_costs *costs = r->price[phase == PHASE_DECODE];
		struct choice a = { r->kernel, r->config }, b = *c;
		a = choice_family(&a);
		b = choice_family(&b);
		if (costs && choice_same(&a, &b))
			us = (double)priced_estimate(costs, &r->block,
						     segments_of(c->kernel, &c->config), &part->f) /
			     1e9;
	}
	table_add(t, "%s %s %s", phase_name((int)phase), "runs", text);
	table_number(t, us, 1);
	table_end_row(t);
}

int show_planned(const char *gpu, const char *model, int page_size, const attune_batch *batch,
		 enum format format)
{
	static const char *const columns[] = { "decision", "what", "is", "us" };
	char path[PATH_TEXT], why[256];
	struct device_info d;
	attune_shape shape;
	struct planned p;
	struct models *models = models_load(data_path(path, "scenarios/models.json"));
	const int found = models && models_shape(models, model, &shape);
	models_free(models);
	if (!found || !gpu_imagine(&d, gpu, NULL))
		return EXIT_USAGE;
	shape.dtype = shape.kv_dtype = ATTUNE_BF16;
	shape.page_size = page_size ? page_size : 16;
	if (!planned_make(&p, &d, &shape, batch)) {
		complain("%s", attune_last_error());
		planned_free(&p);
		return EXIT_CHECK;
	}
	struct table *t = table_new(format, columns, (int)COUNT(columns));
	selector_why(why, sizeof why, attune_selectors, attune_num_selectors, &d);
	for (enum phase i = PHASE_PREFILL; t && i <= PHASE_DECODE; i++) {
		struct part part;
		if (part_make(&part, i, &shape, batch, &d))
			add_row(t, &p, i, i == PHASE_PREFILL ? &p.serial.prefill : &p.serial.decode,
				&part);
	}
	if (t) {
		table_add(t, "%s %s %s", "plan", "rules", why);
		table_text(t, NULL);
		table_end_row(t);
		if (format_for_people(format))
			show_note(format, "no %s was measured: the times are estimates for an H200",
				  gpu);
		table_print(t, stdout);
	}
	planned_free(&p);
	return t ? EXIT_DONE : EXIT_CHECK;
}
