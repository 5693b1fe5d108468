/* emit.c - a forest as generated/attune_<gpu>.h: provenance, the choices, the
 * binaries worth shipping, one function a decision, and vectors to test them with.
 * The text is a function of the database alone: no date, no path, rows in a fixed
 * order, integers wherever code is.
 *
 * parse.c reads it back, so a change of form is a change of both. */
#include "early.h"
#include "emit.h"
#include <ctype.h>
#include <limits.h>
#include <math.h>
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
	fprintf(e->out, "#include \"attune_features.h\"\n\n");
	fprintf(e->out, "#define ATTUNE_%s_GPU \"%s\"\n", e->upper, e->f->gpu);
	fprintf(e->out, "#define ATTUNE_%s_ARCH \"%s\"\n", e->upper, e->d->run.device.arch);
	emit_kernels(e);
	fprintf(e->out, "#define ATTUNE_%s_OVERLAPS %d\n\n", e->upper, forest_overlaps(e->f));
}

static void emit_choices(const struct emitter *e)
{
	char text[MAX_CHOICE_TEXT];
	fprintf(e->out, "/*     id  kernel     tunables */\n#define ATTUNE_%s_CHOICES(CHOICE)",
		e->upper);
	for (int i = 0; i < e->f->num_choices; i++) {
		const struct choice *c = &e->f->choice[i];
		config_text(text, sizeof text, &c->config, c->kernel->space);
		fprintf(e->out, " \\\n\tCHOICE(%2d, %s,%*s\"%s\")", i, c->kernel->name,
			(int)(strlen(c->kernel->name) < 10 ? 10 - strlen(c->kernel->name) : 1), "",
			text);
	}
	fputs("\n\n", e->out);
}

static void emit_prices(const struct emitter *e)
{
	fprintf(e->out, "/*     decision, id, head size, rows, tile, heads, slots, start; fs of:");
	for (int i = 0; i < NUM_PRICE_TERMS; i++)
		fprintf(e->out, "%s%s", i ? ", " : " ", price_names[i]);
	fprintf(e->out, " */\n#define ATTUNE_%s_PRICES(PRICE)", e->upper);
	for (int i = 0; i < e->f->num_prices; i++) {
		const struct selector_price *p = &e->f->price[i];
		fprintf(e->out, " \\\n\tPRICE(%-7s, %2d, %3d, %3d, %3d, %d, %d, %3d",
			decision_names[p->decision], p->id, p->head_size, p->price.rows,
			p->price.tile, p->price.heads, p->price.slots, p->price.start);
		for (int k = 0; k < NUM_PRICE_TERMS; k++)
			fprintf(e->out, ", %lld", p->price.fs[k]);
		fputs(")", e->out);
	}
	fputs("\n\n", e->out);
}

/* ---- trees -------------------------------------------------------------------------- */
double mean_slowdown(long long cost, long long weight)
{
	return exp((double)cost / (double)weight / 1e6);
}

/* Costs of the defaults where a choice is not legal are not in the sums. */
static int is_known(long long cost, long long weight)
{
	return weight > 0 && cost < FORBIDDEN_SUM;
}

/* here: scenarios of them that were measured on this GPU; -1: all were */
static void emit_leaf(FILE *out, const struct node *v, int here)
{
	fprintf(out, "return %d;", v->action);
	if (!v->support) {
		fputs(" /* not measured */\n", out);
		return;
	}
	fprintf(out, " /* %d scenario%s", v->support, v->support == 1 ? "" : "s");
	if (here >= 0)
		fprintf(out, " (%d here)", here);
	if (is_known(v->cost, v->weight))
		fprintf(out, ", %.3f, p95 %.3f", mean_slowdown(v->cost, v->weight),
			exp(v->p95 / 1e6));
	else
		fputs(", not legal in all of them: else the defaults", out);
	if (v->runner_up != SAYS_DEFAULTS && is_known(v->runner_up_cost, v->weight))
		fprintf(out, "; next %d, %.3f", v->runner_up,
			mean_slowdown(v->runner_up_cost, v->weight));
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

/* here: as of emit_leaf, by node; NULL: all were. `inside`: after "else ", on its line. */
static void emit_node(FILE *out, const struct tree *t, const int *here, int node, int depth,
		      int inside)
{
	const struct node *v = &t->v[node];
	if (!inside)
		indent(out, depth);
	if (v->feature < 0) {
		emit_leaf(out, v, here ? here[node] : -1);
		return;
	}
	fprintf(out, "if (f->%s <= %lld) {\n", feature_names[v->feature], v->threshold);
	emit_node(out, t, here, v->below, depth + 1, 0);
	indent(out, depth);
	if (t->v[v->above].feature >= 0) {
		fputs("} else ", out);
		emit_node(out, t, here, v->above, depth, 1);
		return;
	}
	fputs("} else {\n", out);
	emit_node(out, t, here, v->above, depth + 1, 0);
	indent(out, depth);
	fputs("}\n", out);
}

/* Of each node the training scenarios that end there and were measured on this GPU; NULL: of
 * data without others, or without memory. The caller's to free. */
static int *count_here(const struct emitter *e, enum decision decision)
{
	const struct tree *t = &e->f->tree[decision];
	const struct data *d = e->d;
	int *here = d->prior[0] ? calloc((size_t)t->n, sizeof *here) : NULL;
	for (int s = 0; here && s < d->n; s++) {
		const struct measured *m = &d->v[s];
		if (data_is_training(m) && !m->is_translated && decision_is_of(decision, m))
			here[tree_leaf(t, &m->part[decision_phase(decision)].f)]++;
	}
	return here;
}

static void emit_trees(const struct emitter *e)
{
	for (int t = 0; t < forest_decisions(e->f); t++) {
		const struct tree *tree = &e->f->tree[t];
		int *here = count_here(e, (enum decision)t);
		fprintf(e->out,
			"ATTUNE_SELECT int attune_%s_%s(const struct attune_features *f)\n{\n",
			e->f->gpu, decision_names[t]);
		if (tree->v[0].feature < 0)
			fputs("\t(void)f;\n", e->out);
		emit_node(e->out, tree, here, 0, 1, 0);
		fputs("}\n\n", e->out);
		free(here);
	}
}

/* ---- vectors -------------------------------------------------------------------------- */
struct vectors {
	const struct emitter *e;
	const struct tree *tree;
	enum decision decision;
};

/* The features that the box bounds, all at their lower or all at their upper ends. */
static void emit_vector(const struct vectors *v, int action, const struct box *b, int upper)
{
	fprintf(v->e->out, " \\\n\tVECTOR(%s, %d", decision_names[v->decision], action);
	int n = 0;
	for (int i = 0; i < ATTUNE_NUM_FEATURES; i++) {
		const int bounded = b->hi[i] < LLONG_MAX;
		if (b->lo[i] > 0 || bounded)
			fprintf(v->e->out, ", .%s = %lld", feature_names[i],
				upper && bounded ? b->hi[i] : b->lo[i]),
			    n++;
	}
	fputs(n ? ")" : ", .units = 1)", v->e->out);
}

static void emit_ends(void *arg, int leaf, const struct box *b)
{
	const struct vectors *v = arg;
	const int action = v->tree->v[leaf].action;
	int ends = 1;
	for (int i = 0; i < ATTUNE_NUM_FEATURES; i++)
		if (b->hi[i] < LLONG_MAX && b->hi[i] > b->lo[i])
			ends = 2;
	for (int upper = 0; upper < ends; upper++)
		emit_vector(v, action, b, upper);
}

static void emit_vectors(const struct emitter *e)
{
	struct box all;
	box_all(&all);
	fprintf(e->out, "#define ATTUNE_%s_VECTORS(VECTOR)", e->upper);
	for (int t = 0; t < forest_decisions(e->f); t++) {
		struct vectors v = { e, &e->f->tree[t], (enum decision)t };
		tree_boxes(v.tree, &all, emit_ends, &v);
	}
	fputs("\n\n", e->out);
}

char *forest_emit(const struct forest *f, const struct data *d)
{
	char *text = NULL;
	size_t size;
	struct emitter e = { .out = open_memstream(&text, &size), .f = f, .d = d };
	int done;
	if (!e.out)
		return NULL;
	for (int i = 0; f->gpu[i]; i++)
		e.upper[i] = (char)toupper((unsigned char)f->gpu[i]);
	emit_top(&e);
	emit_defines(&e);
	emit_choices(&e);
	emit_prices(&e);
	done = emit_binaries(&e);
	emit_trees(&e);
	emit_vectors(&e);
	fputs("#endif\n", e.out);
	done &= !ferror(e.out);
	if (fclose(e.out) || !done) {
		free(text);
		return NULL;
	}
	return text;
}
