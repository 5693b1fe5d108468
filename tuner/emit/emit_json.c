/* SPDX-License-Identifier: Apache-2.0 */
/* emit_json.c - writes a forest as JSON, for tools; it has the choices and trees of the header.
 *
 * Schema "attune-heuristics-7":
 *
 *   { "schema", "gpu", "arch", "database": texts,
 *     "rules": text,                        hash of the features and segment costs
 *     "kernels": { NAME: text },            hashes of the tunables of the kernels that choices run
 *     "features": [names],                  all integers, 0 or more
 *     "choices": [{ "id": number, "kernel": text, "text": all tunables as text,
 *                   "tunables": { NAME: number or null },
 *                   "formula": null, or the rule for the tunable that is null:
 *                     { "axis": NAME, "slots", "start", "launch", "merge": numbers,
 *                       "values": [numbers] }; for SEGMENTS=fitted only axis and values }],
 *     "lists": [{ "id": number, "then": [ids] }],  what runs in place of a choice that a leaf names:
 *                                           the first that is legal
 *     "segments": [{ "id", "head_size", "rows", "tile", "heads", "clusters", "slots", "start", "path", "split",
 *                    "segments", "merge": numbers }],    costs for SEGMENTS=fitted
 *     "mixed": null, or the rates by which fused choices divide a batch with both parts:
 *              { "unit_flops", "unit_reads", "stream_ns", "half_reads", "all_reads", "start_ns",
 *                "leave_ns", "segment_ns": numbers },
 *     "prefill": NODE, "decode": NODE, "overlap": NODE, "early": NODE }
 *   NODE: { "feature": name, "at_most": number, "below": NODE, "above": NODE }, or
 *         { "action": number, "scenarios": number, "guarded": null or text }, and with
 *         scenarios "slowdown", "p95", "settled" (of the choice's row; null: not known), "remark"
 *
 * Actions:
 *   prefill, decode  an id, or -1: the kernels' defaults
 *   overlap          for batches with both parts: -1: one after the other; -2: the choice of the
 *                    prefills runs the whole batch in one launch; -3: on two streams; -4 to -10:
 *                    the same, and 16, 32 ... 112 units are left to the decodes; an id: a fused
 *                    kernel runs the whole batch; any other choice runs the prefills while the
 *                    decodes run on a second stream
 *   early            the value of the kernel's axis EARLY if the caller lets launches begin early;
 *                    -1: the choice's own value
 * guarded: a rule that the action may break in that leaf. Where it does, the next of its row runs. The header's comment has the formulas. */
#include "emit.h"
#include "writing.h"
#include "harness/base/json_out.h"
#include "kernels/select/selector.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/tree/tree.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void json_axis_values(struct json_out *o, const struct axis *a)
{
	out_list(o, "values");
	for (int i = 0; i < a->num_values; i++)
		out_integer(o, NULL, a->values[i]);
	out_end(o);
}

static void json_formula(struct json_out *o, const struct choice *c)
{
	const int axis = worked_out_axis(c);
	const struct formula *f = formula_of(c);
	if (axis < 0) {
		out_text(o, "formula", NULL);
		return;
	}
	out_object(o, "formula");
	out_text(o, "axis", c->kernel->space->axis[axis].name);
	if (f) {
		out_integer(o, "slots", f->slots);
		out_integer(o, "start", f->start);
		out_integer(o, "launch", f->launch);
		out_integer(o, "merge", f->merge);
	}
	json_axis_values(o, &c->kernel->space->axis[axis]);
	out_end(o);
}

static void json_choice(struct json_out *o, const struct choice *c, int id)
{
	const struct space *s = c->kernel->space;
	char text[MAX_CHOICE_TEXT];
	config_text(text, sizeof text, &c->config, s);
	out_object(o, NULL);
	out_integer(o, "id", id);
	out_text(o, "kernel", c->kernel->name);
	out_text(o, "text", text);
	out_object(o, "tunables");
	for (int i = 0; i < s->num_axes; i++)
		if (i == worked_out_axis(c))
			out_text(o, s->axis[i].name, NULL);
		else
			out_integer(o, s->axis[i].name, c->config.v[i]);
	out_end(o);
	json_formula(o, c);
	out_end(o);
}

static void json_row(struct json_out *o, const struct attune_list *row, int id)
{
	out_object(o, NULL);
	out_integer(o, "id", id);
	out_list(o, "then");
	for (int i = 1; i < row->n; i++)
		out_integer(o, NULL, row->at[i]);
	out_end(o);
	out_end(o);
}

static void json_costs(struct json_out *o, const struct forest *f, const struct selector_costs *row)
{
	const struct choice *choice = &f->choice[row->id];
	const struct segment_costs *c = &row->costs;
	struct block_shape block;
	block_shape_of(&block, &choice->config, choice->kernel);
	out_object(o, NULL);
	out_integer(o, "id", row->id);
	out_integer(o, "head_size", row->head_size);
	out_integer(o, "rows", block.rows);
	out_integer(o, "tile", block.tile);
	out_integer(o, "heads", block.heads);
	out_integer(o, "clusters", block.clusters);
	out_integer(o, "slots", c->slots);
	out_integer(o, "start", c->start);
	out_integer(o, "path", c->path);
	out_integer(o, "split", c->split);
	out_integer(o, "segments", c->segments);
	out_integer(o, "merge", c->merge);
	out_end(o);
}

static void json_mixed(struct json_out *o, const struct mixed_rates *r)
{
	if (!r->unit_flops) {
		out_text(o, "mixed", NULL);
		return;
	}
	out_object(o, "mixed");
	out_integer(o, "unit_flops", r->unit_flops);
	out_integer(o, "unit_reads", r->unit_reads);
	out_integer(o, "stream_ns", r->stream_ns);
	out_integer(o, "half_reads", r->half_reads);
	out_integer(o, "all_reads", r->all_reads);
	out_integer(o, "start_ns", r->start_ns);
	out_integer(o, "leave_ns", r->leave_ns);
	out_integer(o, "segment_ns", r->segment_ns);
	out_end(o);
}

static void json_node(struct json_out *o, const char *key, const struct tree *t, int node)
{
	const struct node *v = &t->v[node];
	out_object(o, key);
	if (v->feature >= 0) {
		out_text(o, "feature", feature_names[v->feature]);
		out_integer(o, "at_most", v->threshold);
		json_node(o, "below", t, v->below);
		json_node(o, "above", t, v->above);
	} else {
		out_integer(o, "action", v->action);
		out_integer(o, "scenarios", v->support);
		out_text(o, "guarded", v->guarded);
	}
	if (v->feature < 0 && has_figures(v)) {
		out_number(o, "slowdown", mean_slowdown(v->cost, v->weight), 3);
		out_number(o, "p95", exp(v->p95 / 1e6), 3);
		out_number(o, "settled",
			   v->row_cost < 0 ? NAN : mean_slowdown(v->row_cost, v->weight), 3);
		out_text(o, "remark", remark_words[v->remark]);
	}
	out_end(o);
}

static void json_hash(struct json_out *o, const char *key, unsigned long long hash)
{
	char text[17];
	snprintf(text, sizeof text, "%016llx", hash);
	out_text(o, key, text);
}

char *forest_emit_json(const struct forest *f, const struct data *d)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	struct json_out *o = out_new();
	out_object(o, NULL);
	out_text(o, "schema", "attune-heuristics-7");
	out_text(o, "gpu", f->gpu);
	out_text(o, "arch", d->run.device.arch);
	out_text(o, "database", d->hash);
	json_hash(o, "rules", rules_hash());
	out_object(o, "kernels");
	for (const struct kernel *k = NULL; (k = forest_next_kernel(f, k)) != NULL;)
		json_hash(o, k->name, kernel_hash(k));
	out_end(o);
	out_list(o, "features");
	for (int i = 0; i < ATTUNE_NUM_FEATURES; i++)
		out_text(o, NULL, feature_names[i]);
	out_end(o);
	out_list(o, "choices");
	for (int i = 0; i < f->num_choices; i++)
		json_choice(o, &f->choice[i], i);
	out_end(o);
	out_list(o, "lists");
	for (int i = 0; i < f->num_choices; i++)
		if (forest_has_row(f, i))
			json_row(o, &f->list[i], i);
	out_end(o);
	out_list(o, "segments");
	for (int i = 0; i < f->num_costs; i++)
		json_costs(o, f, &f->costs[i]);
	out_end(o);
	json_mixed(o, &f->mixed);
	for (int t = 0; t < NUM_DECISIONS; t++)
		json_node(o, decision_names[t], &f->tree[t], 0);
	out_end(o);
	const int done = out && out_print(o, 2, out);
	if (out && !fclose(out) && done)
		return text;
	free(text);
	return NULL;
}
