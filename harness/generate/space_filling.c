/* SPDX-License-Identifier: Apache-2.0 */
/* space_filling.c - makes batches that cover what an engine may send, evenly in logarithms.
 *
 * A family is a kind of batch with a range for each of its quantities. Each new row is the best of
 * some random points: the one farthest from the rows before (D. Mitchell, "Spectrally optimal
 * sampling for distribution ray tracing", SIGGRAPH 1991, section 4). So few rows leave no gaps,
 * even where limits exclude points. The generator is seeded: rows are reproducible.
 *
 *   ROUND     values have three significant bits: 4 5 6 7 8 10 12 14 16 20 24 28 32 ...
 *   ODD       values are odd numbers in between
 *   BLOCKED   any value; only rows inside a held-out block, which no training row touches
 *   CACHED    any value; all prefills extend a context, as with prefix caching
 *   LATER     a family that was added to a set after other sets existed: it must not repeat the
 *             batches of `later`, either */
#include "engine_sim.h"
#include "set_writer.h"
#include "harness/base/base.h"
#include "harness/scenario/scenario.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TOKENS = 32 * 1024, MAX_ROWS = 4096 };

/* ---- one row ---------------------------------------------------------------------- */
enum { D_DECODES, D_KV, D_QUERY, D_SPREAD, D_PREFILLS, D_TOKENS, D_CONTEXT, DIMENSIONS };

struct point {
	double at[DIMENSIONS]; /* 0 <= at < 1 */
};

static double random_share(unsigned long long *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return (double)(*state >> 11) * 0x1p-53;
}

static double within(struct range r, double at)
{
	return r.lo * pow(r.hi / r.lo, at);
}

static int round_value(double v, int flags)
{
	int whole = (int)lround(v), unit = 1;
	if (flags & ODD)
		return whole ? whole | 1 : 0;
	if (flags & (BLOCKED | CACHED))
		return whole;
	while (whole / unit >= 8)
		unit *= 2;
	return (int)lround(v / unit) * unit;
}

/* Normal quantile, error below 5e-4: C. Hastings, "Approximations for Digital Computers", 1955,
 * sheet 68. */
static double normal_quantile(double u)
{
	const double p = u < 0.5 ? u : 1 - u, t = sqrt(-2 * log(p));
	const double x = t - (2.515517 + t * (0.802853 + t * 0.010328)) /
				 (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
	return u < 0.5 ? -x : x;
}

/* Evenly spaced quantiles of a log-normal distribution, in random order. */
static void spread(struct row *rows, int n, double mean, double sigma, int query, double longest)
{
	const double most = fmax(mean, longest);
	unsigned long long state = (unsigned long long)(n * 131 + (int)mean);
	for (int i = 0; i < n; i++) {
		double z = n > 1 ? normal_quantile((i + 0.5) / n) : 0;
		int seq = (int)lround(fmin(mean * exp(sigma * z - sigma * sigma / 2), most));
		rows[i] = (struct row){ query, seq > query ? seq : query, 0 };
	}
	for (int i = n - 1; i > 0 && sigma > 0; i--) {
		int j = (int)(random_share(&state) * (i + 1));
		struct row swap = rows[i];
		rows[i] = rows[j];
		rows[j] = swap;
	}
}

static int add_decodes(struct row *rows, const struct family *f, const struct point *p,
		       double longest)
{
	const int n = round_value(within(f->decodes, p->at[D_DECODES]), f->flags);
	const int query = (int)lround(within(f->query, p->at[D_QUERY]));
	const double u = p->at[D_SPREAD], mean = within(f->kv, p->at[D_KV]);
	const int is_long = u < f->long_share, is_even = !(f->least > 0) && u > 0.85;
	const double share = is_long ? 1 : fmin((u - f->long_share) / 0.85, 1);
	const double sigma = f->least + (f->sigma - f->least) * share;
	if (is_even || f->sigma == 0)
		spread(rows, n, round_value(mean, f->flags), 0, query, longest);
	else
		spread(rows, n, mean, sigma, query, longest);
	/* one in 64, at least one, is 8 to 40 times as long */
	for (int i = 0; is_long && i <= n / 64; i++)
		rows[i * 64 % n].seq = (int)fmin(mean * (8 + 32 * u / f->long_share), longest);
	return n;
}

static int add_prefills(struct row *rows, const struct family *f, const struct point *p)
{
	const int n = round_value(within(f->prefills, p->at[D_PREFILLS]), f->flags);
	const double u = p->at[D_CONTEXT], mean = within(f->tokens, p->at[D_TOKENS]);
	double context = 0;
	if (f->context.lo > 0)
		context = within(f->context, u);
	else if (f->context.hi > 0 && u > 1. / 3)
		context = within((struct range){ 64, f->context.hi }, u * 1.5 - 0.5);
	for (int i = 0; i < n; i++) {
		/* unequal ones: 0.6 to 1.4 of the mean */
		double share = n > 1 ? 0.6 + 0.8 * fmod(0.5 + i * 0.618, 1) : 1;
		int query = round_value(mean * share, f->flags), before = 0;
		if (query <= DECODE_MAX_QUERY)
			query = DECODE_MAX_QUERY + 1;
		if (i == n - 1 || f->flags & CACHED)
			before = round_value(context * (1 - 0.3 * i / n), f->flags);
		rows[i] = (struct row){ query, query + before, 0 };
	}
	return n;
}

/* ---- a set ------------------------------------------------------------------------ */
enum { CANDIDATES = 24, MAX_TRIES = 4000 };

struct out {
	const struct grid *grid;
	const struct models *models;
	const struct scenario_list *beside, *later; /* their batches must not be repeated */
	struct generated_set *set;
	struct point *point; /* of the family's rows so far */
	int rows;
	int trained, drawn; /* training rows so far; the one of ten that is held out */
	int failed;
	unsigned long long state;
};

static int is_within_limits(const struct out *o, const char *model, const struct batch *b)
{
	struct facts f;
	scenario_facts(&f, models_find(o->models, model), &b->view);
	return f.kv_bytes <= o->grid->max_kv_bytes && f.flops <= o->grid->max_gflop * 1e9;
}

static int has_batch(const struct scenario_list *list, const char *text)
{
	for (int k = 0; k < list->n; k++)
		if (!strcmp(list->v[k].batch_text, text))
			return 1;
	return 0;
}

/* The row of a point as text; the caller frees it. NULL: above a limit, on the wrong side of the
 * blocks, or a repetition. */
static char *row_text(struct out *o, const struct family *f, const struct point *p,
		      const char *model)
{
	static struct row rows[MAX_ROWS];
	int n = f->decodes.lo > 0 ? add_decodes(rows, f, p, o->grid->longest) : 0, decodes = n,
	    tokens = 0, taken;
	struct batch *b;
	char *text;
	if (f->prefills.lo > 0)
		n += add_prefills(rows + n, f, p);
	for (int i = decodes; i < n; i++)
		tokens += rows[i].query;
	if (tokens > MAX_TOKENS || (strcmp(f->split, "heldout_extrapolated") &&
				    rows_are_blocked(rows, n) != !!(f->flags & BLOCKED)))
		return NULL;
	text = rows_text(rows, n);
	b = text ? batch_parse(text, (char[128]){ 0 }, 128) : NULL;
	o->failed |= !b;
	taken = !b || !is_within_limits(o, model, b);
	for (int k = 0; k < o->set->n && !taken; k++)
		taken = !strcmp(o->set->v[k].batch, text);
	taken =
	    taken || has_batch(o->beside, text) || (f->flags & LATER && has_batch(o->later, text));
	batch_free(b);
	if (!taken)
		return text;
	free(text);
	return NULL;
}

/* Squared distance to the nearest row of the family. */
static double distance_to_nearest(const struct out *o, const struct point *p)
{
	double nearest = DIMENSIONS;
	for (int i = 0; i < o->rows; i++) {
		double sum = 0;
		for (int d = 0; d < DIMENSIONS; d++)
			sum += (p->at[d] - o->point[i].at[d]) * (p->at[d] - o->point[i].at[d]);
		nearest = fmin(nearest, sum);
	}
	return nearest;
}

/* Draws a point. Quantities without a range are 0, so that they do not affect distances. */
static struct point draw(struct out *o, const struct family *f)
{
	const double spans[DIMENSIONS] = {
		[D_DECODES] = f->decodes.hi - f->decodes.lo,
		[D_KV] = f->kv.hi - f->kv.lo,
		[D_QUERY] = f->query.hi - f->query.lo,
		[D_SPREAD] = f->sigma,
		[D_PREFILLS] = f->prefills.hi - f->prefills.lo,
		[D_TOKENS] = f->tokens.hi - f->tokens.lo,
		[D_CONTEXT] = f->context.hi - f->context.lo,
	};
	struct point p;
	for (int d = 0; d < DIMENSIONS; d++)
		p.at[d] = spans[d] > 0 ? random_share(&o->state) : 0;
	return p;
}

/* The batch of one more row; NULL: none within the limits. */
static char *next_row(struct out *o, const struct family *f, const char *model)
{
	char *best = NULL;
	double most = -1;
	for (int i = 0, good = 0; i < MAX_TRIES && good < CANDIDATES && !o->failed; i++) {
		struct point p = draw(o, f);
		char *text = row_text(o, f, &p, model);
		double far = text ? distance_to_nearest(o, &p) : -1;
		good += text != NULL;
		if (far > most) {
			most = far;
			free(best);
			best = text;
			o->point[o->rows] = p;
		} else {
			free(text);
		}
	}
	return best;
}

/* One of every ten training rows, drawn at random, is held out. */
static const char *split_of(struct out *o, const struct family *f)
{
	if (!strncmp(f->split, "heldout", 7) || o->grid->keeps_all)
		return f->split;
	if (o->trained % 10 == 0)
		o->drawn = o->trained + (int)(10 * random_share(&o->state));
	return o->trained++ == o->drawn ? "heldout_random" : f->split;
}

static void add_family(struct out *o, const struct family *f)
{
	const int is_shape = !strcmp(f->split, "heldout_shape");
	const char *const *models = f->models     ? f->models
				    : f->settings ? o->grid->usual
				    : is_shape    ? o->grid->others
						  : o->grid->models;
	int num_models = 0;
	while (models[num_models])
		num_models++;
	o->point = calloc((size_t)f->rows, sizeof *o->point);
	o->failed |= !o->point;
	for (o->rows = 0; o->rows < f->rows && !o->failed; o->rows++) {
		struct generated one = { .weight = 1 };
		snprintf(one.settings, sizeof one.settings, "%s", f->settings ? f->settings : "");
		snprintf(one.model, sizeof one.model, "%s", models[o->set->n % num_models]);
		snprintf(one.from, sizeof one.from, "%s", f->name);
		one.batch = next_row(o, f, one.model);
		if (!one.batch)
			break;
		one.split = split_of(o, f);
		o->failed |= !generated_add(o->set, one);
	}
	free(o->point);
}

static const struct grid *find_grid(const char *name)
{
	char known[256] = "";
	for (const struct grid *g = grids; g->name; g++) {
		size_t n = strlen(known);
		if (!strcmp(g->name, name))
			return g;
		snprintf(known + n, sizeof known - n, "%s%s", n ? " or " : "", g->name);
	}
	complain("no grid is called \"%s\"; it must be %s", name, known);
	return NULL;
}

static int load_beside(struct scenario_list *list, const char *names, const char *dir,
		       struct models *models)
{
	for (const char *at = names; *at; at += strcspn(at, ","), at += *at == ',') {
		char path[512];
		const char *end = at + strcspn(at, ":,");
		const int before = list->n;
		snprintf(path, sizeof path, "%s/%.*s.json", dir, (int)(end - at), at);
		if (!scenarios_load(list, path, models)) {
			scenarios_free(list);
			return 0;
		}
		while (*end == ':' && list->n > before + atoi(end + 1))
			scenario_drop(&list->v[--list->n]);
	}
	return 1;
}

int grid_add(struct generated_set *set, const char *name, const char *dir, struct models *models)
{
	struct scenario_list beside = { 0 }, later = { 0 };
	struct out o = { .grid = find_grid(name),
			 .models = models,
			 .beside = &beside,
			 .later = &later,
			 .set = set,
			 .state = 1 };
	if (!o.grid || !load_beside(&beside, o.grid->beside, dir, models))
		return 0;
	if (o.grid->later && !load_beside(&later, o.grid->later, dir, models)) {
		scenarios_free(&beside);
		return 0;
	}
	for (const struct family *f = o.grid->families; f->name && !o.failed; f++)
		add_family(&o, f);
	if (o.failed)
		complain("out of memory");
	scenarios_free(&beside);
	scenarios_free(&later);
	return !o.failed;
}
