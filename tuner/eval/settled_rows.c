/* SPDX-License-Identifier: Apache-2.0 */
/* settled_rows.c - `attune eval --settled-rows`: what the memory of settled batches is worth, by rows of
 * attune bench --settle and --settled.
 *
 * A race has no oracle, and its session is another one than the database's. What both have is the
 * plan that the library ran without memory, so a policy's slowdown is a product:
 *
 *   that plan / the fastest plan, both by the database
 *   x the policy / that plan, both in the race
 *
 * That plan is read from the race's row: the rules may have changed since. Where the database lacks
 * a time of it the fastest plan of the race stands for the fastest. */
#include "eval.h"
#include "harness/base/base.h"
#include "harness/scenario/scenario.h"
#include "harness/store/store.h"
#include "kernels/spec/space.h"
#include "tuner/base/base.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/policy/policy.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIRST, SETTLED, CARRIED_1, CARRIED_2, CARRIED_4, RACED, SETTLING, NUM_SHOWN };
static const char *const shown[] = { "attune",    "settled", "carried_1", "carried_2",
				     "carried_4", "fastest", "settling" };
enum { PREFILL, DECODE, MIXED, ALL, NUM_KINDS };
static const char *const kinds[] = { "prefill", "decode", "mixed", "all" };

/* A scenario of the data, with times of one race; 0: none. */
struct raced {
	double ns[NUM_SHOWN];
	double first; /* slowdown of the library without memory */
	int by_race;  /* that is by the race alone */
	int kind;
	char *plan[SETTLED + 1]; /* of first and settled */
};

struct reading {
	const struct data *d;
	struct raced *v; /* [d->n] */
	const char *split;
	int unknown; /* rows of scenarios that the data does not have */
};

/* ---- rows --------------------------------------------------------------------------------- */

/* Column layout lacks what a model's name says. */
static int is_of(const struct measured *m, const char *const *cells)
{
	return !strcmp(m->batch_text, cells[1]) && !strcmp(m->model, cells[0]) &&
	       m->shape.page_size == atoi(cells[2]) &&
	       !strcasecmp(dtype_name(m->shape.dtype), cells[3]) &&
	       !strcasecmp(dtype_name(m->shape.kv_dtype), cells[4]) &&
	       (model_layout(m->model) != LAYOUT_NHD || !strcasecmp(m->layout, cells[5])) &&
	       (long long)m->seed == strtoll(cells[6], NULL, 10);
}

static int take_row(void *arg, int n, const char *const *names, const char *const *cells)
{
	struct reading *r = arg;
	const double ns = atof(cells[8]);
	(void)n, (void)names;
	for (int s = 0; s < r->d->n; s++) {
		struct raced *v = &r->v[s];
		if (!is_of(&r->d->v[s], cells))
			continue;
		for (int p = 0; p < NUM_SHOWN; p++)
			if (!strcmp(cells[7], shown[p]))
				v->ns[p] = ns;
		for (int p = FIRST; p <= SETTLED; p++)
			if (!strcmp(cells[7], shown[p])) {
				free(v->plan[p]);
				v->plan[p] = strdup(cells[9]);
			}
		if (strcmp(cells[7], shown[SETTLING]) && (!(v->ns[RACED] > 0) || ns < v->ns[RACED]))
			v->ns[RACED] = ns;
		return 1;
	}
	r->unknown++;
	return 1;
}

/* The newest race of each scenario. */
static const char rows[] =
    "SELECT s.model, s.batch, s.page_size, s.dtype, s.kv_dtype, s.layout, s.seed, b.policy,"
    " b.median, b.plan FROM bench AS b JOIN scenario AS s ON s.id = b.scenario"
    " WHERE b.median > 0 AND b.run = (SELECT max(run) FROM bench AS o"
    " WHERE o.scenario = b.scenario AND o.policy = 'attune')";

/* Pairs of settles of one batch: with other winners, whose times differ by over 2 % in the second
 * race where that has both. */
static const char twice[] =
    "WITH pair AS (SELECT b.scenario, b.run AS second, max(a.run) AS first FROM bench AS b"
    " JOIN bench AS a ON a.scenario = b.scenario AND a.run < b.run AND a.policy = 'settled'"
    " WHERE b.policy = 'settled' AND a.median > 0 AND b.median > 0 GROUP BY b.scenario, b.run),"
    " won AS (SELECT a.plan <> b.plan AS other, b.median AS ns, (SELECT min(c.median) FROM bench"
    " AS c WHERE c.scenario = b.scenario AND c.run = b.run AND c.plan = a.plan AND"
    " c.policy <> 'settling') AS was FROM pair"
    " JOIN bench AS a ON (a.scenario, a.run, a.policy) = (pair.scenario, pair.first, 'settled')"
    " JOIN bench AS b ON (b.scenario, b.run, b.policy) = (pair.scenario, pair.second, 'settled'))"
    " SELECT count(*), sum(other), sum(other AND abs(was * 1.0 / ns - 1) > 0.02),"
    " sum(other AND was IS NULL) FROM won";

static int say_twice(void *arg, int n, const char *const *names, const char *const *cells)
{
	(void)arg, (void)n, (void)names;
	if (cells[0] && atoi(cells[0]))
		printf("# settled twice: %s batches; other winners in %s; of these %s differ by "
		       "over 2 %%, and %s lack a time of both\n",
		       cells[0], cells[1], cells[2], cells[3]);
	return 1;
}

/* ---- slowdowns ---------------------------------------------------------------------------- */

/* Index of a choice of a plan's text; -1: unknown or never measured. Times are of choices in turn.
 * The text of a fused choice lacks the numbers by the header's rates. */
static int find_choice(const struct data *d, const struct forest *f, const struct measured *m,
		       const char *text)
{
	char error[160];
	struct choice c;
	if (!choice_parse(&c, d->run.device.backend, text, error, sizeof error))
		return -1;
	if (choice_early(&c))
		c.config.v[c.kernel->space->early_axis] = 0;
	config_divide(&c.config, c.kernel, &f->mixed, &m->shape, &m->part[PHASE_ALL],
		      &d->run.device);
	return data_find(d, &c);
}

/* The time of a plan by its text; INFINITY: the database has none. */
static double time_of_text(const struct data *d, const struct forest *f, int s, const char *text)
{
	char part[2][MAX_PART_TEXT];
	struct pick p = { 0 };
	p.join = parts_parse(text, part, &p.how);
	p.prefill = find_choice(d, f, &d->v[s], p.join ? part[0] : text);
	p.decode = find_choice(d, f, &d->v[s], p.join ? part[1] : text);
	return p.prefill < 0 || p.decode < 0 ? INFINITY : data_plan_time(d, s, &p);
}

static void judge(struct raced *v, const struct data *d, const struct forest *f, int s)
{
	const struct measured *m = &d->v[s];
	const char *plan = v->plan[FIRST];
	v->kind = measured_is_mixed(m) ? MIXED : m->has[PHASE_DECODE] ? DECODE : PREFILL;
	v->first = plan ? time_of_text(d, f, s, plan) / data_oracle(d, s) : NAN;
	v->by_race = !isfinite(v->first);
	if (v->by_race)
		v->first = v->ns[FIRST] / v->ns[RACED];
	v->first = fmax(v->first, 1);
}

struct sum {
	int n, by_race, within5, beyond20, slower;
	double logs, paired, squares;
};

static double slowdown_of(const struct raced *v, int policy)
{
	return fmax(v->first * v->ns[policy] / v->ns[FIRST], 1);
}

static void add(struct sum *sum, const struct raced *v, int policy, double *slowdown)
{
	const double ratio = v->ns[policy] / v->ns[FIRST], x = slowdown_of(v, policy);
	slowdown[sum->n++] = x;
	sum->by_race += v->by_race;
	sum->within5 += x <= 1.05;
	sum->beyond20 += x > 1.2;
	sum->slower += ratio > 1.01;
	sum->logs += log(x);
	sum->paired += log(ratio);
	sum->squares += log(ratio) * log(ratio);
}

static int by_size(const void *pa, const void *pb)
{
	const double a = *(const double *)pa, b = *(const double *)pb;
	return (a > b) - (a < b);
}

/* What settling took: the median, and what 95 % of the batches take at most. */
static void add_settling(struct table *t, const struct reading *r, int kind, double *ms)
{
	int n = 0;
	for (int s = 0; s < r->d->n; s++)
		if (r->v[s].ns[SETTLING] > 0 && in_split(&r->d->v[s], r->split) &&
		    (kind == ALL || kind == r->v[s].kind))
			ms[n++] = r->v[s].ns[SETTLING] / 1e6;
	qsort(ms, (size_t)n, sizeof *ms, by_size);
	table_number(t, n ? ms[n / 2] : NAN, 1);
	table_number(t, n ? ms[(95 * n + 99) / 100 - 1] : NAN, 1);
}

static void add_row(struct table *t, const struct reading *r, int policy, int kind, double *x)
{
	struct sum sum = { 0 };
	for (int s = 0; s < r->d->n; s++) {
		const struct raced *v = &r->v[s];
		if (in_split(&r->d->v[s], r->split) && v->ns[FIRST] > 0 && v->ns[policy] > 0 &&
		    (kind == ALL || kind == v->kind))
			add(&sum, v, policy, x);
	}
	const int n = sum.n;
	if (!n)
		return;
	const double mean = sum.paired / n;
	qsort(x, (size_t)n, sizeof *x, by_size);
	table_text(t, shown[policy]);
	table_text(t, kinds[kind]);
	table_number(t, n, 0);
	table_number(t, exp(sum.logs / n), 4);
	table_number(t, x[(95 * n + 99) / 100 - 1], 3);
	table_number(t, x[n - 1], 3);
	table_number(t, (double)sum.within5 / n, 3);
	table_number(t, sum.beyond20, 0);
	table_number(t, (double)sum.slower / n, 4);
	table_number(t, exp(mean), 4);
	table_number(t, n > 1 ? sqrt(fmax(0, sum.squares / n - mean * mean) / (n - 1)) : NAN, 4);
	table_number(t, sum.by_race, 0);
	add_settling(t, r, policy == SETTLED ? kind : -1, x);
	table_end_row(t);
}

static int print(const struct reading *r, struct store *rows_of, enum format format)
{
	static const char *const columns[] = { "policy",  "kind",   "n",         "geomean",
					       "p95",     "worst",  "within5",   "beyond20",
					       "slower1", "paired", "paired_se", "by_race",
					       "ms",      "ms_p95" };
	double *x = malloc(sizeof *x * ((size_t)r->d->n + 1));
	struct table *t = x ? table_new(format, columns, (int)COUNT(columns)) : NULL;
	for (int p = 0; t && p < SETTLING; p++)
		for (int k = 0; k < NUM_KINDS; k++)
			add_row(t, r, p, k, x);
	if (t && format_has_notes(format))
		store_query(rows_of, twice, say_twice, NULL);
	if (t)
		table_print(t, stdout);
	free(x);
	return t != NULL;
}

/* The batches that settled are slower than `above` times the fastest. */
static int list_above(const struct reading *r, double above, enum format format)
{
	static const char *const columns[] = { "batch",   "model", "page_size", "kind",
					       "settled", "first", "raced",     "plan" };
	struct table *t = table_new(format, columns, (int)COUNT(columns));
	for (int s = 0; t && s < r->d->n; s++) {
		const struct measured *m = &r->d->v[s];
		const struct raced *v = &r->v[s];
		if (!in_split(m, r->split) || !(v->ns[FIRST] > 0 && v->ns[SETTLED] > 0) ||
		    !(slowdown_of(v, SETTLED) > above))
			continue;
		batch_cell(t, m->batch_text, format);
		table_text(t, m->model);
		table_number(t, m->shape.page_size, 0);
		table_text(t, kinds[v->kind]);
		table_number(t, slowdown_of(v, SETTLED), 3);
		table_number(t, v->first, 3);
		table_number(t, slowdown_of(v, RACED), 3);
		table_text(t, v->plan[SETTLED]);
		table_end_row(t);
	}
	if (t)
		table_print(t, stdout);
	return t != NULL;
}

int settled_rows_print(const struct data *d, const struct forest *f, const char *path,
		       const char *split, double above, enum format format)
{
	struct reading r = { .d = d, .split = split, .v = calloc((size_t)d->n + 1, sizeof *r.v) };
	struct store *s = access(path, F_OK) ? NULL : store_open(path, 1);
	int done = r.v && s && store_has_bench(s) > 0;
	if (!done)
		complain("%s has no rows of attune bench", path);
	done = done && store_query(s, rows, take_row, &r);
	for (int i = 0; done && i < d->n; i++)
		if (r.v[i].ns[FIRST] > 0)
			judge(&r.v[i], d, f, i);
	if (done && r.unknown)
		complain("%s: %d rows are of batches that the database does not have", path,
			 r.unknown);
	done = done && (above > 0 ? list_above(&r, above, format) : print(&r, s, format));
	store_close(s);
	for (int i = 0; r.v && i < d->n; i++)
		for (int p = FIRST; p <= SETTLED; p++)
			free(r.v[i].plan[p]);
	free(r.v);
	return done;
}
