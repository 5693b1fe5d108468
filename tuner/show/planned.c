/* SPDX-License-Identifier: Apache-2.0 */
/* planned.c - asks the library's own planner what it runs for a batch, and why it does not run what
 * its rules name. The GPU need not be here; the rules are those that this tool was built with, or the
 * file of ATTUNE_HEURISTICS. */
#include "planned.h"
#include "show.h"
#include "harness/base/base.h"
#include "harness/compile/compile.h"
#include "harness/machine/machine.h"
#include "harness/scenario/scenario.h"
#include "kernels/api/plan.h"
#include "kernels/launch/run.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/part.h"
#include "kernels/spec/space.h"
#include "tuner/forest/forest.h"
#include <stdio.h>
#include <stdlib.h>
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
/* Where the rows of a part go: `more` empty columns follow each. */
struct telling {
	struct table *t;
	enum decision decision;
	int more;
};

static void tell(const struct telling *w, const char *what, const char *is)
{
	table_add(w->t, "%s %s %s", decision_names[w->decision], what, is);
	for (int i = 0; i < w->more; i++)
		table_text(w->t, NULL);
	table_end_row(w->t);
}

/* A choice, with what it is or why it is not run. */
static void tell_choice(const struct telling *w, const char *what, const struct ready *r,
			const char *note, const char *why)
{
	const struct choice c = { r->kernel, r->config };
	char words[MAX_CHOICE_TEXT], text[MAX_CHOICE_TEXT + 200];
	choice_words(&c, words);
	snprintf(text, sizeof text, "%s%.30s%s%.160s", words, note, why ? ": " : "",
		 why ? why : "");
	tell(w, what, text);
}

/* The row of a choice; marks: bits of its members that no time chose. Whether one of it is what
 * runs. */
static int tell_row(const struct telling *w, const attune_op *op, int named, int runs,
		    const struct part *part, const char *note, unsigned marks)
{
	const struct attune_list *row = &op->ready[named].row;
	int found = 0;
	for (int i = 0; i < row->n; i++) {
		const int id = row->at[i];
		const char *what = found ? "behind it" : id == runs ? "runs" : "not run";
		const char *why = found || id == runs ? NULL : why_not(op, id, part);
		found |= id == runs;
		tell_choice(w, what, &op->ready[id], marks >> i & 1 ? ", " BY_ESTIMATE : note, why);
	}
	return found;
}

void tried_rows(struct table *t, const struct planned *p, const struct forest *f, enum decision d,
		const struct part *part, int more)
{
	const struct telling w = { t, d, more };
	const attune_op *op = p->op;
	const struct selector *rules[] = { op->heuristic, op->portable };
	const int runs = p->runs[d == DECIDE_DECODE];
	int found = 0;
	for (int i = 0; i < 2 && !found; i++) {
		const int says = rules[i] ? selector_says(rules[i], d, &part->f) : SAYS_DEFAULTS;
		found = says >= 0 && tell_row(&w, op, i ? op->num_choices + says : says, runs, part,
					      i ? ", of the portable rules" : "",
					      f && !i ? f->by_estimate[says] : 0);
		if (found && !i)
			tell(&w, "behind it",
			     op->portable ? "the portable rules" : "the kernels' defaults");
	}
	if (!found && runs >= 0)
		tell_choice(&w, "runs", &op->ready[runs], ", a default", NULL);
}

/* ---- a GPU without measurements ------------------------------------------------------------- */

/* Which rules the library plans by. */
static void rules_words(char *text, size_t size, const struct planned *p,
			const struct device_info *d)
{
	if (p->ctx->override)
		snprintf(text, size, "of %s", attune_heuristic(p->ctx));
	else
		selector_why(text, size, attune_selectors, attune_num_selectors, d);
}

int show_planned(const char *gpu, const struct show *o, const attune_batch *batch)
{
	static const char *const columns[] = { "decision", "what", "is" };
	char path[PATH_TEXT], why[SELECTOR_WHY];
	struct device_info d;
	attune_shape shape;
	struct planned p;
	struct models *models = models_load(data_path(path, "scenarios/models.json"));
	const int found = models && models_shape(models, o->model, &shape);
	models_free(models);
	if (!found || !gpu_imagine(&d, gpu, NULL))
		return EXIT_USAGE;
	shape.dtype = shape.kv_dtype = ATTUNE_BF16;
	shape.page_size = o->page_size ? o->page_size : 16;
	if (o->header && setenv("ATTUNE_HEURISTICS", o->header, 1))
		return EXIT_CHECK;
	if (!planned_make(&p, &d, &shape, batch)) {
		complain("%s", attune_last_error());
		planned_free(&p);
		return EXIT_CHECK;
	}
	struct table *t = table_new(o->format, columns, (int)COUNT(columns));
	rules_words(why, sizeof why, &p, &d);
	for (enum decision i = DECIDE_PREFILL; t && i <= DECIDE_DECODE; i++) {
		const struct choice *c = i == DECIDE_DECODE ? &p.serial.decode : &p.serial.prefill;
		const struct telling w = { .t = t, .decision = i };
		char words[MAX_CHOICE_TEXT];
		struct part part;
		if (!c->kernel || !part_make(&part, decision_phase(i), &shape, batch, &d))
			continue;
		tried_rows(t, &p, NULL, i, &part, 0);
		choice_words(c, words);
		tell(&w, "picked", words);
	}
	if (t) {
		table_add(t, "%s %s %s", "plan", "rules", why);
		table_end_row(t);
		table_print(t, stdout);
	}
	planned_free(&p);
	return t ? EXIT_DONE : EXIT_CHECK;
}
