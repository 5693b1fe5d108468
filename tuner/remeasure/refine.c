/* refine.c - `attune refine`: writes training scenarios where the trees are least certain.
 *
 *   near a threshold        between two training scenarios of one shape that pass the node and are
 *                           nearest to each other across the threshold
 *   in an uncertain leaf    between two scenarios of the leaf with different winners, if the
 *                           runner-up costs hardly more than the leaf's action
 *
 * The number of prefills and of decodes of a batch between two others is the geometric mean of
 * theirs. The i-th longest sequence is the geometric mean of those at the same quantile of both,
 * which keeps the spread of lengths. Batches half-way come first, then those at a third and at two
 * thirds. Batches that the database has, held out or not, are skipped. */
#include "requests.h"
#include "harness/base/base.h"
#include "harness/base/json_out.h"
#include "harness/scenario/scenario.h"
#include "tuner/base/base.h"
#include "tuner/commands.h"
#include "tuner/data/data.h"
#include "tuner/data/filling.h"
#include "tuner/eval/eval.h"
#include "tuner/forest/forest.h"
#include "tuner/tree/tree.h"
#include <argp.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_LIMIT = 40, OPT_LIMIT = 256, MAX_SEQS = 1024 };
static const double uncertain = 0.01; /* log slowdown of the runner-up */

struct options {
	const char *gpu, *db, *header;
	int limit;
};

/* Two training scenarios, and the reason for a new one between them. */
struct pair {
	int a, b;
	double need; /* log slowdown at the threshold; 0: an uncertain leaf */
	char from[120];
};

struct refine {
	const struct data *d;
	const struct forest *f;
	struct pair *pair;
	int pairs, room, failed;
};

/* ---- pairs --------------------------------------------------------------------------- */
static int same_shape(const struct measured *a, const struct measured *b)
{
	return !strcmp(a->model, b->model) && !memcmp(&a->shape, &b->shape, sizeof a->shape) &&
	       !strcmp(a->layout, b->layout) && a->has[PHASE_PREFILL] == b->has[PHASE_PREFILL] &&
	       a->has[PHASE_DECODE] == b->has[PHASE_DECODE];
}

static void add_pair(struct refine *r, struct pair p)
{
	for (int i = 0; i < r->pairs; i++)
		if (r->pair[i].a == p.a && r->pair[i].b == p.b)
			return;
	if (array_grow(&r->pair, r->pairs, &r->room, sizeof *r->pair))
		r->pair[r->pairs++] = p;
	else
		r->failed = 1;
}

static int is_training_row(const struct measured *m, enum decision t)
{
	return data_is_training(m) && decision_is_of(t, m);
}

/* Adds the pair of a row below and a row above the threshold that are nearest to each other. */
static void pair_at_threshold(struct refine *r, enum decision t, int node, double need)
{
	const struct tree *tree = &r->f->tree[t];
	const struct node *v = &tree->v[node];
	const enum phase phase = decision_phase(t);
	struct pair best = { -1, -1, need, "" };
	double least = INFINITY;
	for (int a = 0; a < r->d->n; a++) {
		const struct attune_features *fa = &r->d->v[a].part[phase].f;
		if (!is_training_row(&r->d->v[a], t) || !tree_passes(tree, node, fa) ||
		    feature_value(fa, v->feature) > v->threshold)
			continue;
		for (int b = 0; b < r->d->n; b++) {
			const struct attune_features *fb = &r->d->v[b].part[phase].f;
			if (!is_training_row(&r->d->v[b], t) || !tree_passes(tree, node, fb) ||
			    feature_value(fb, v->feature) <= v->threshold ||
			    !same_shape(&r->d->v[a], &r->d->v[b]))
				continue;
			const double far = part_distance(fa, fb, INFINITY);
			if (far < least)
				best.a = a, best.b = b, least = far;
		}
	}
	if (best.a < 0)
		return;
	snprintf(best.from, sizeof best.from, "%s: %s about %lld", decision_names[t],
		 feature_names[v->feature], v->threshold);
	add_pair(r, best);
}

/* Each threshold's crossing as cliffs.c estimates it; unknown ones count as the limit. */
static void pairs_at_thresholds(struct refine *r)
{
	struct cliff *cliff = NULL;
	int n = 0;
	r->failed = !cliffs_find(r->d, r->f, &cliff, &n);
	for (int i = 0; i < n; i++) {
		if (cliff[i].decision == DECIDE_EARLY)
			continue; /* it learns from separate races */
		const double need = isfinite(cliff[i].crossing) ? cliff[i].crossing : cliff_limit;
		pair_at_threshold(r, cliff[i].decision, cliff[i].node, log(need));
	}
	free(cliff);
}

static int winner(const struct refine *r, int s, enum phase phase)
{
	int choice;
	data_best(r->d, s, phase, &choice);
	return choice;
}

static void pair_in_leaf(struct refine *r, enum decision t, int leaf)
{
	const struct tree *tree = &r->f->tree[t];
	const enum phase phase = decision_phase(t);
	struct pair best = { -1, -1, 0, "" };
	double least = INFINITY;
	for (int a = 0; a < r->d->n; a++) {
		if (!is_training_row(&r->d->v[a], t) ||
		    tree_leaf(tree, &r->d->v[a].part[phase].f) != leaf)
			continue;
		for (int b = a + 1; b < r->d->n; b++) {
			if (!is_training_row(&r->d->v[b], t) ||
			    tree_leaf(tree, &r->d->v[b].part[phase].f) != leaf ||
			    !same_shape(&r->d->v[a], &r->d->v[b]) ||
			    winner(r, a, phase) == winner(r, b, phase))
				continue;
			const double far = part_distance(&r->d->v[a].part[phase].f,
							 &r->d->v[b].part[phase].f, INFINITY);
			if (far < least)
				best.a = a, best.b = b, least = far;
		}
	}
	if (best.a < 0)
		return;
	snprintf(best.from, sizeof best.from, "%s: a leaf whose runner-up is as good",
		 decision_names[t]);
	add_pair(r, best);
}

static void pairs_in_leaves(struct refine *r)
{
	for (int t = 0; t < DECIDE_EARLY; t++)
		for (int i = 0; i < r->f->tree[t].n; i++) {
			const struct node *v = &r->f->tree[t].v[i];
			if (v->feature < 0 && v->runner_up >= 0 && v->weight > 0 &&
			    (double)(v->runner_up_cost - v->cost) <
				1e6 * uncertain * (double)v->weight)
				pair_in_leaf(r, (enum decision)t, i);
		}
}

static int by_need(const void *pa, const void *pb)
{
	const struct pair *a = pa, *b = pb;
	if (a->need != b->need)
		return a->need > b->need ? -1 : 1;
	return a->a != b->a ? a->a - b->a : a->b - b->b;
}

/* ---- a batch between two ----------------------------------------------------------------- */
struct row {
	int query, seq;
};

static int by_length(const void *pa, const void *pb)
{
	const struct row *a = pa, *b = pb;
	return a->seq != b->seq ? a->seq - b->seq : a->query - b->query;
}

/* Lists the rows of a phase by length; returns their number. */
static int rows_of(const struct measured *m, enum phase phase, struct row *row)
{
	const attune_batch *b = &m->batch->view;
	int n = 0;
	for (int i = 0; i < b->num_seqs; i++) {
		const int query = b->query_start[i + 1] - b->query_start[i];
		if (query && (query <= DECODE_MAX_QUERY) == (phase == PHASE_DECODE))
			row[n++] = (struct row){ query, b->seq_lens[i] };
	}
	if (n)
		qsort(row, (size_t)n, sizeof *row, by_length);
	return n;
}

static int between(double a, double b, double share)
{
	return (int)lround(exp(log(a) + share * (log(b) - log(a))));
}

static int rows_between(const struct measured *a, const struct measured *b, enum phase phase,
			double share, struct row *out)
{
	struct row *ra = calloc((size_t)a->batch->view.num_seqs + 1, sizeof *ra);
	struct row *rb = calloc((size_t)b->batch->view.num_seqs + 1, sizeof *rb);
	int n = ra && rb ? 0 : -1;
	if (!n) {
		const int na = rows_of(a, phase, ra), nb = rows_of(b, phase, rb);
		n = na && nb ? between(na, nb, share) : 0;
		n = n > MAX_SEQS ? MAX_SEQS : n;
		for (int i = 0; i < n; i++) {
			const struct row *x = &ra[(2 * i + 1) * na / (2 * n)];
			const struct row *y = &rb[(2 * i + 1) * nb / (2 * n)];
			out[i].query = between(x->query, y->query, share);
			out[i].seq = between(x->seq, y->seq, share);
			if (out[i].seq < out[i].query)
				out[i].seq = out[i].query;
		}
	}
	free(ra);
	free(rb);
	return n;
}

/* In the batch grammar, prefills first; NULL without memory. */
char *batch_between(const struct measured *a, const struct measured *b, double share)
{
	struct row *row = calloc(2 * MAX_SEQS, sizeof *row);
	int32_t *start = calloc(4 * MAX_SEQS + 1, sizeof *start), *len = start + 2 * MAX_SEQS + 1;
	char *text = NULL;
	if (row && start) {
		int n = rows_between(a, b, PHASE_PREFILL, share, row);
		const int more = n < 0 ? -1 : rows_between(a, b, PHASE_DECODE, share, row + n);
		n += more;
		for (int i = 0; more >= 0 && i < n; i++) {
			start[i + 1] = start[i] + row[i].query;
			len[i] = row[i].seq;
		}
		const attune_batch view = { .num_seqs = n, .query_start = start, .seq_lens = len };
		if (more >= 0 && n > 0)
			text = batch_format(&view);
	}
	free(row);
	free(start);
	return text;
}

/* ---- the scenario set --------------------------------------------------------------------- */
static int is_known(const struct data *d, const struct measured *like, const char *batch)
{
	int known = 0;
	for (int s = 0; s < d->n && !known; s++) {
		const struct measured *m = &d->v[s];
		if (strcmp(m->model, like->model))
			continue;
		char *text = batch_format(&m->batch->view);
		known = !text || !strcmp(text, batch);
		free(text);
	}
	return known;
}

/* In the layout of decided_print. */
static void print_entry(const struct pair *p, const struct measured *m, const char *batch,
			const char *comma)
{
	static const char *const dtypes[] = { [ATTUNE_F32] = "f32",
					      [ATTUNE_F16] = "f16",
					      [ATTUNE_BF16] = "bf16",
					      [ATTUNE_E4M3] = "e4m3" };
	printf("%s\t\t{", comma);
	model_members(stdout, m->model);
	fputs(", \"from\": ", stdout);
	out_quoted(stdout, p->from);
	if (m->shape.page_size != 16)
		printf(", \"page_size\": %d", m->shape.page_size);
	if (m->shape.dtype != ATTUNE_BF16)
		printf(", \"dtype\": \"%s\"", dtypes[m->shape.dtype]);
	if (m->shape.kv_dtype != m->shape.dtype)
		printf(", \"kv_dtype\": \"%s\"", dtypes[m->shape.kv_dtype]);
	if (layout_of(m->layout) != LAYOUT_NHD)
		printf(", \"layout\": \"%s\"", layout_names[layout_of(m->layout)]);
	fputs(",\n\t\t \"batch\": ", stdout);
	out_quoted(stdout, batch);
	putchar('}');
}

/* Whether the batch was printed already. */
static int is_made(char *const *made, int n, const char *batch, const int *of, int a,
		   const struct data *d)
{
	for (int i = 0; i < n; i++)
		if (!strcmp(made[i], batch) && !strcmp(d->v[of[i]].model, d->v[a].model))
			return 1;
	return 0;
}

static int print_set(const struct refine *r, int limit)
{
	static const double shares[] = { 0.5, 1. / 3, 2. / 3 };
	char **made = calloc((size_t)limit, sizeof *made);
	int *of = calloc((size_t)limit, sizeof *of), n = 0, done = made && of;
	printf(
	    "{\n\t\"about\": \"Between measured scenarios where the trees of %s are least certain; "
	    "by attune refine.\",\n\t\"defaults\": {\"split\": \"train\"},\n\t\"scenarios\": [\n",
	    r->d->gpu);
	for (size_t k = 0; done && k < COUNT(shares); k++)
		for (int i = 0; done && i < r->pairs && n < limit; i++) {
			const struct pair *p = &r->pair[i];
			const struct measured *a = &r->d->v[p->a];
			char *batch = batch_between(a, &r->d->v[p->b], shares[k]);
			done = batch != NULL;
			if (!done || is_known(r->d, a, batch) ||
			    is_made(made, n, batch, of, p->a, r->d)) {
				free(batch);
				continue;
			}
			print_entry(p, a, batch, n ? ",\n" : "");
			of[n] = p->a;
			made[n++] = batch;
		}
	puts(n ? "\n\t]\n}" : "\t]\n}");
	for (int i = 0; made && i < n; i++)
		free(made[i]);
	free(made);
	free(of);
	if (done && !n)
		complain("%s has no two training scenarios of one shape around a threshold",
			 r->d->gpu);
	return done && n;
}

static int refine(const struct data *d, const struct forest *f, int limit)
{
	struct refine r = { .d = d, .f = f };
	int done;
	pairs_at_thresholds(&r);
	if (!r.failed)
		pairs_in_leaves(&r);
	if (r.pairs)
		qsort(r.pair, (size_t)r.pairs, sizeof *r.pair, by_need);
	done = !r.failed && print_set(&r, limit);
	free(r.pair);
	return done;
}

/* ---- the command ---------------------------------------------------------------------------- */
// clang-format off
static const struct argp_option rows[] = {
	{ "gpu", 'g', "NAME", 0, "Device: h200, cpu, ... (this machine's)", 0 },
	{ "db", 'd', "FILE", 0, "Database (results/NAME.sqlite)", 0 },
	{ "header", 'H', "FILE", 0, "Header with the trees (generated/attune_NAME.h)", 0 },
	{ "limit", OPT_LIMIT, "N", 0, "At most N scenarios (40)", 0 },
	{ 0 }
};
// clang-format on

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;
	char *end;
	switch (key) {
	case 'g': gpu_option(&o->gpu, arg, state); return 0;
	case 'd': o->db = arg; return 0;
	case 'H': o->header = arg; return 0;
	case OPT_LIMIT:
		o->limit = (int)strtol(arg, &end, 10);
		if (*end || o->limit < 1 || o->limit > 10000)
			argp_error(state, "--limit '%s' should be a number from 1 to 10000", arg);
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp help = {
	rows,
	parse_option,
	NULL,
	"Writes a set of new training scenarios: around thresholds of the trees, and in leaves "
	"with a runner-up as fast as their choice."
	"\vThe same database and header give the same set. Measure it, then learn again:\n\n"
	"Example:\n  attune refine --gpu h200 > scenarios/refine_h200.json\n"
	"  attune sweep --gpu h200 --scenarios refine_h200\n  attune induce --gpu h200",
	NULL,
	NULL,
	NULL
};

int cmd_refine(int argc, char **argv)
{
	struct options o = { .limit = DEFAULT_LIMIT };
	char gpu[GPU_NAME], db[PATH_TEXT], header[PATH_TEXT];
	struct forest f;
	int code = EXIT_USAGE;
	argp_err_exit_status = EXIT_USAGE;
	argp_parse(&help, argc, argv, 0, NULL, &o);
	if (!gpu_or_own(o.gpu, gpu))
		return EXIT_NO_DEVICE;
	db_path(db, o.db, gpu);
	rules_path(header, o.header, gpu);
	struct data *d = data_load(db, gpu);
	if (d && !d->n)
		code = EXIT_CHECK;
	else if (d && forest_load(&f, header)) {
		code = refine(d, &f, o.limit) ? EXIT_DONE : EXIT_CHECK;
		forest_free(&f);
	}
	data_free(d);
	return code;
}
