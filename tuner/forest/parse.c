/* SPDX-License-Identifier: Apache-2.0 */
/* parse.c - reads a generated header back into a forest, so that evaluation and comparison use the
 * text that is shipped. kernels/select/header_read.c has the form; here are the choices of today's
 * .def tables and the figures in comments. Keep both in step with emit.c. */
#include "forest.h"
#include "harness/base/base.h"
#include "harness/base/text_rule.h"
#include "kernels/device/shared/gpu_names.h"
#include "kernels/select/header_text.h"
#include "kernels/spec/kernel.h"
#include "tuner/tree/tree.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The members that the comment behind a row of LISTS names, one bit each. */
static unsigned char members_marked(const struct header *h, int row)
{
	static const char begin[] = "/* " BY_ESTIMATE ":";
	char line[8 * HEADER_NAME], name[HEADER_NAME + 4];
	unsigned marks = 0;
	snprintf(line, sizeof line, "%.*s", (int)strcspn(h->list_at[row], "\n"), h->list_at[row]);
	const char *mark = strstr(line, begin);
	for (int i = 1; mark && i < h->list[row].n; i++) {
		snprintf(name, sizeof name, " %s", h->choice[h->list[row].at[i]].name);
		const char *at = mark;
		while ((at = strstr(at + 1, name)) && !strchr(", ", at[strlen(name)]))
			;
		marks |= at ? 1u << i : 0;
	}
	return (unsigned char)marks;
}

static int take_choices(struct forest *f, const struct header *h, struct header_text *r)
{
	const char *where;
	for (int i = 0; i < h->num_choices; i++) {
		const struct header_choice *row = &h->choice[i];
		struct choice *c = &f->choice[i];
		r->at = row->at;
		if (i == MAX_IDS)
			return header_wrong(r, "at most %d rows CHOICE are", MAX_IDS);
		c->kernel =
		    kernel_find(strcmp(f->gpu, "cpu") ? BACKEND_GPU : BACKEND_CPU, row->kernel);
		if (!c->kernel || !config_parse(&c->config, c->kernel->space, row->text, &where))
			return header_wrong(r, "a choice that today's .def tables list is");
		f->num_choices++;
	}
	for (int i = 0; i < h->num_lists; i++) {
		f->list[h->list[i].at[0]] = h->list[i];
		f->by_estimate[h->list[i].at[0]] = members_marked(h, i);
	}
	if (h->num_costs > MAX_COSTS)
		return header_wrong(r, "at most %d rows SEGMENTS are", MAX_COSTS);
	f->num_costs = h->num_costs;
	f->mixed = h->mixed;
	memcpy(f->costs, h->costs, sizeof *f->costs * (size_t)f->num_costs);
	return 1;
}

/* A slowdown of a comment as a cost. A comment is a person's to change: what no race gives is 0. */
static long long cost_of_slowdown(double slowdown)
{
	return slowdown >= 1e-3 && slowdown <= 1e6 ? llround(1e6 * log(slowdown)) : 0;
}

/* Reads "12 scenarios, 1.004, p95 1.020; next ring_8x16, 1.031; row settled 1.001; few; guarded"
 * into a node of weight 1. */
static void read_figures(const struct header *h, enum decision decision, const char *comment,
			 struct node *v)
{
	char text[400], rival[GPU_NAME + CHOICE_NAME];
	double mean, next, p95, settled;
	int n = 0;
	v->runner_up = SAYS_DEFAULTS;
	snprintf(text, sizeof text, "%.*s", comment ? (int)(strstr(comment, "*/") - comment) : 0,
		 comment ? comment : "");
	if (sscanf(text, " %d scenario%n", &v->support, &n) != 1 || !n)
		return;
	v->weight = 1;
	const char *at = text + n, *semicolon = strchr(at, ';');
	at += *at == 's';
	const int figures = sscanf(at, ", %lf, p95 %lf", &mean, &p95);
	if (figures >= 1)
		v->cost = cost_of_slowdown(mean);
	if (figures == 2)
		v->p95 = (int32_t)cost_of_slowdown(p95);
	if (semicolon && sscanf(semicolon, "; next %159[^,], %lf", rival, &next) == 2 &&
	    header_says(h, decision, rival, &v->runner_up))
		v->runner_up_cost = cost_of_slowdown(next);
	else
		v->runner_up = SAYS_DEFAULTS;
	const char *row = strstr(at, "; row settled ");
	if (row && sscanf(row, "; row settled %lf", &settled) == 1)
		v->row_cost = cost_of_slowdown(settled);
	for (int i = 1; i < NUM_REMARKS; i++)
		if (strstr(at, remark_words[i]))
			v->remark = (enum remark)i;
	if (strstr(at, "; guarded"))
		v->guarded = "a rule of its kernel";
}

/* Copies a node and what is below it; returns its index, or -1: no memory. */
static int take_node(struct forest *f, const struct header *h, enum decision decision, int node)
{
	struct tree *t = &f->tree[decision];
	const struct header_node *v = &h->tree[decision].v[node];
	const int at = tree_new_node(t);
	if (at < 0)
		return -1;
	if (v->below < 0) {
		t->v[at].action = v->says;
		read_figures(h, decision, v->comment, &t->v[at]);
		return at;
	}
	const int below = take_node(f, h, decision, v->below);
	const int above = below < 0 ? -1 : take_node(f, h, decision, v->above);
	t->v[at].feature = feature_named(v->word);
	t->v[at].threshold = v->threshold;
	t->v[at].below = below;
	t->v[at].above = above;
	return above < 0 ? -1 : at;
}

static int take_trees(struct forest *f, const struct header *h, struct header_text *r)
{
	for (int d = 0; d < NUM_DECISIONS; d++)
		if (h->tree[d].n ? take_node(f, h, (enum decision)d, 0) != 0
				 : !tree_constant(&f->tree[d], SAYS_OWN))
			return header_wrong(r, "more memory is");
	return 1;
}

static int take_gpu(struct forest *f, const struct header *h, struct header_text *r)
{
	snprintf(f->gpu, sizeof f->gpu, "%s", h->gpu);
	if (gpu_name_is_valid(h->gpu))
		return 1;
	r->at = h->gpu_at;
	return header_wrong(r, "a GPU's name, " GPU_NAME_RULE ", is");
}

/* Headers without these rows have a form that is no longer read. */
int header_is_older(const char *text)
{
	return strstr(text, "_CHOICES(CHOICE)") && !strstr(text, "_SHAPES(SHAPES)");
}

static int is_of_text(const char *text, const char *path)
{
	const size_t n = strlen(text), at = text_fault(TEXT_LINES, text, n);
	const struct header_text r = { .start = text, .at = text + at };
	if (at < n)
		complain("%s:%d: a header is of %s", path, header_line(&r),
			 text_rule_says(TEXT_LINES));
	return at == n;
}

int forest_parse(struct forest *f, const char *text, const char *path)
{
	struct header_text r = { .start = text, .at = text };
	struct header *h;
	char error[1000];
	*f = (struct forest){ 0 };
	if (!is_of_text(text, path))
		return 0;
	if (header_is_older(text)) {
		complain(
		    "%s: these rules have the form of an older attune; make tune rewrites them, "
		    "make heuristics those of a committed database",
		    path);
		return 0;
	}
	h = calloc(1, sizeof *h);
	const int done = h && header_read(h, &r) && take_gpu(f, h, &r) && take_choices(f, h, &r) &&
			 take_trees(f, h, &r);
	if (h && !done) {
		header_error(&r, path, error, sizeof error);
		complain("%s; `make heuristics` rewrites the file", error);
	}
	if (h)
		header_free(h);
	free(h);
	if (!done)
		forest_free(f);
	return done;
}

int forest_load(struct forest *f, const char *path)
{
	errno = 0;
	char *text = file_text(path);
	int done = text && forest_parse(f, text, path);
	if (!done && errno == ENOMEM) /* some commands go on without rules */
		output_lost();
	if (!text) {
		complain("%s: cannot be read; `make heuristics` writes it from the database", path);
		return 0;
	}
	free(text);
	return done;
}
