/* SPDX-License-Identifier: Apache-2.0 */
/* emit.c - writes a forest as generated/attune_<gpu>.h: provenance, the shapes that were measured,
 * choices, and one function for each decision. The text depends only on the database: no date, no
 * path, rows in a fixed order, integers in all code.
 *
 * parse.c reads the header back, so both must change together. */
#include "emit.h"
#include "writing.h"
#include "kernels/device/shared/gpu_names.h"
#include "kernels/select/header_text.h"
#include "kernels/spec/kernel.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/tree/tree.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- choices --------------------------------------------------------- */
static void emit_defines(const struct emitter *e)
{
	fprintf(e->out, "#ifndef ATTUNE_%s_H\n#define ATTUNE_%s_H\n\n", e->upper, e->upper);
	if (device_is_emulated(&e->d->run.device))
		fprintf(e->out,
			"#ifndef ATTUNE_EMULATED\n#error \"attune_%s.h was made on an emulated "
			"device: nothing in it is a time\"\n#endif\n\n",
			e->f->gpu);
	fprintf(e->out, "#include \"attune_features.h\"\n#include \"attune_list.h\"\n\n");
	fprintf(e->out, "#define ATTUNE_%s_GPU \"%s\"\n", e->upper, e->f->gpu);
	fprintf(e->out, "#define ATTUNE_%s_ARCH \"%s\"\n", e->upper, e->d->run.device.arch);
	emit_kernels(e);
	emit_shapes(e);
}

static void emit_choices(const struct emitter *e)
{
	char text[MAX_CHOICE_TEXT];
	int name = 0, kernel = 0;
	for (int i = 0; i < e->f->num_choices; i++) {
		name = (int)max_of(name, (long long)strlen(e->name[i]));
		kernel = (int)max_of(kernel, (long long)strlen(e->f->choice[i].kernel->name));
	}
	fprintf(e->out,
		"\n/*     id  name, kernel, tunables; the most used first */\n#define "
		"ATTUNE_%s_CHOICES(CHOICE)",
		e->upper);
	for (int i = 0; i < e->f->num_choices; i++) {
		const struct choice *c = &e->f->choice[i];
		config_text(text, sizeof text, &c->config, c->kernel->space);
		fprintf(e->out, " \\\n\tCHOICE(%2d, %s, %*s%s, %*s\"%s\")", i, e->name[i],
			padding(name, e->name[i]), "", c->kernel->name,
			padding(kernel, c->kernel->name), "", text);
	}
	fputs("\n\n", e->out);
}

enum { COSTS_A_LINE = 3 };

/* Rows of a choice stand side by side. */
static void emit_costs(const struct emitter *e)
{
	int name = 0;
	for (int i = 0; i < e->f->num_costs; i++)
		name = (int)max_of(name, (long long)strlen(e->name[e->f->costs[i].id]));
	if (e->f->num_costs)
		fputs("/*       choice, head size, slots, start in keys; path, split, segments, "
		      "merge in fs */\n",
		      e->out);
	fprintf(e->out, "#define ATTUNE_%s_SEGMENTS(SEGMENTS)", e->upper);
	for (int i = 0, beside = 0; i < e->f->num_costs; i++) {
		const struct selector_costs *row = &e->f->costs[i];
		const struct segment_costs *c = &row->costs;
		beside = i && row->id == row[-1].id ? beside + 1 : 0;
		fprintf(e->out, "%sSEGMENTS(%s_%s, %*s%3d, %2d, %3d, %8lld, %10lld, %9lld, %7lld)",
			beside % COSTS_A_LINE ? " " : " \\\n\t", e->f->gpu, e->name[row->id],
			padding(name, e->name[row->id]), "", row->head_size, c->slots, c->start,
			c->path, c->split, c->segments, c->merge);
	}
	fputs("\n\n", e->out);
}

static void emit_mixed(const struct emitter *e)
{
	const struct mixed_rates *r = &e->f->mixed;
	if (!r->unit_flops)
		return;
	fprintf(e->out,
		"/* By these rates a fused choice divides a mixed batch between its parts "
		"(kernels/spec/mixed.h) */\n"
		"#define ATTUNE_%s_MIXED(MIXED) MIXED(%d, %d, %d, %d, %d, %d, %d, %d)\n\n",
		e->upper, r->unit_flops, r->unit_reads, r->stream_ns, r->half_reads, r->all_reads,
		r->start_ns, r->leave_ns, r->segment_ns);
}

/* ---- trees -------------------------------------------------------------------------- */
double mean_slowdown(long long cost, long long weight)
{
	return exp((double)cost / (double)weight / 1e6);
}

/* The sums exclude the costs of the defaults where a choice is not legal. */
static int is_known(long long cost, long long weight)
{
	return weight > 0 && cost < FORBIDDEN_SUM;
}

static void emit_action(const struct emitter *e, enum decision decision, int action)
{
	const char *word = header_answer(decision, action);
	if (decision == DECIDE_EARLY)
		fprintf(e->out, "%d", action);
	else
		fputs(word ? word : e->name[action], e->out);
}

static void emit_leaf(const struct emitter *e, enum decision decision, const struct node *v)
{
	FILE *out = e->out;
	fprintf(out, "return %s%s", decision == DECIDE_EARLY ? "" : e->f->gpu,
		decision == DECIDE_EARLY ? "" : "_");
	emit_action(e, decision, v->action);
	fputs(";", out);
	if (!v->support) {
		fprintf(out, " /* %s */\n",
			v->action < 0 ? "not measured" : "no scenario: by estimate");
		return;
	}
	fprintf(out, " /* %d scenario%s", v->support, v->support == 1 ? "" : "s");
	if (is_known(v->cost, v->weight))
		fprintf(out, ", %.3f, p95 %.3f", mean_slowdown(v->cost, v->weight),
			exp(v->p95 / 1e6));
	else
		fputs(", not legal in all of them: else the defaults", out);
	if (v->runner_up != SAYS_DEFAULTS && is_known(v->runner_up_cost, v->weight)) {
		fputs("; next ", out);
		emit_action(e, decision, v->runner_up);
		fprintf(out, ", %.3f", mean_slowdown(v->runner_up_cost, v->weight));
	}
	if (v->row_cost >= 0 && is_known(v->row_cost, v->weight))
		fprintf(out, "; row settled %.3f", mean_slowdown(v->row_cost, v->weight));
	if (v->remark)
		fprintf(out, "; %s", remark_words[v->remark]);
	if (v->guarded)
		fputs("; guarded", out);
	fputs(" */\n", out);
}

static void indent(FILE *out, int depth)
{
	while (depth--)
		putc('\t', out);
}

/* A branch that is a leaf stands on the line of its condition, and the rest follows without braces or
 * else: everything in a branch returns. */
static void emit_node(const struct emitter *e, enum decision decision, int node, int depth)
{
	const struct tree *t = &e->f->tree[decision];
	const struct node *v = &t->v[node];
	indent(e->out, depth);
	if (v->feature < 0) {
		emit_leaf(e, decision, v);
		return;
	}
	const int below = t->v[v->below].feature < 0, above = t->v[v->above].feature < 0;
	const int first = above && !below ? v->above : v->below;
	fprintf(e->out, "if (f->%s %s %lld) ", feature_names[v->feature],
		first == v->below ? "<=" : ">", v->threshold);
	if (below || above) {
		emit_leaf(e, decision, &t->v[first]);
	} else {
		fputs("{\n", e->out);
		emit_node(e, decision, first, depth + 1);
		indent(e->out, depth);
		fputs("}\n", e->out);
	}
	emit_node(e, decision, first == v->below ? v->above : v->below, depth);
}

static void emit_tree(const struct emitter *e, enum decision t)
{
	const struct tree *tree = &e->f->tree[t];
	fprintf(e->out, "ATTUNE_SELECT int attune_%s_%s(const struct attune_features *f)\n{\n",
		e->f->gpu, decision_names[t]);
	if (tree->v[0].feature < 0)
		fputs("\t(void)f;\n", e->out);
	emit_node(e, t, 0, 1);
	fputs("}\n\n", e->out);
}

char *forest_emit(const struct forest *f, const struct data *d)
{
	char *text = NULL;
	size_t size;
	struct emitter e = { .f = f, .d = d };
	int done;
	if (!texts_fit(f, d) || !(e.out = open_memstream(&text, &size)))
		return NULL;
	for (int i = 0; f->gpu[i]; i++)
		e.upper[i] = (char)toupper((unsigned char)f->gpu[i]);
	name_choices(f, e.name);
	emit_top(&e);
	emit_defines(&e);
	emit_choices(&e);
	emit_rows(&e);
	emit_costs(&e);
	emit_mixed(&e);
	for (int t = 0; t < forest_decisions(f); t++)
		emit_tree(&e, (enum decision)t);
	fputs("#endif\n", e.out);
	done = !ferror(e.out);
	if (fclose(e.out) || !done) {
		free(text);
		return NULL;
	}
	return text;
}
