/* bench_rows.c - measures a list of `attune bench` by the worker of all races, into rows of table
 * bench (harness/store/bench.sql), and prints these rows. */
#include "bench.h"
#include "harness/store/store.h"
#include "harness/sweep/sweep.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int keep_id(void *arg, int n, const char *const *names, const char *const *cells)
{
	(void)n, (void)names;
	*(long long *)arg = cells[0] ? atoll(cells[0]) : 0;
	return 1;
}

int bench_measure(const struct bench_list *list, const struct sweep_options *o,
		  struct bench_rows *rows)
{
	const int is_new = access(o->db, F_OK);
	rows->db = o->db;
	rows->after = 0;
	struct store *s = is_new ? NULL : store_open(o->db, 1);
	const int known = s && store_query(s, "SELECT max(id) FROM run", keep_id, &rows->after);
	store_close(s);
	if (!is_new && !known)
		return EXIT_USAGE;
	return wishes_measure(&list->wishes, o, &list->batches, "b");
}

/* ---- printing ----------------------------------------------------------------------------- */

/* Sums of a policy. */
enum { MOST_POLICIES = 64 };
struct policy_sum {
	char name[64];
	int n;
	double log, worst; /* of ratios */
};
struct printer {
	struct table *t;
	const char *kinds; /* for each column: 't' text, '2' or '4' a number with so many places */
	int policy, ratio; /* columns */
	struct policy_sum sum[MOST_POLICIES];
	int n, library;
};

static void add_sum(struct printer *p, const char *name, const char *ratio)
{
	int i = 0;
	while (i < p->n && strcmp(p->sum[i].name, name))
		i++;
	if (i == MOST_POLICIES)
		return;
	if (i == p->n)
		snprintf(p->sum[p->n++].name, sizeof p->sum[i].name, "%s", name);
	if (!ratio)
		return;
	p->sum[i].n++;
	p->sum[i].log += log(atof(ratio));
	p->sum[i].worst = fmax(p->sum[i].worst, atof(ratio));
}

static int print_row(void *arg, int n, const char *const *names, const char *const *cells)
{
	struct printer *p = arg;
	(void)names;
	for (int i = 0; i < n && p->kinds[i]; i++)
		if (p->kinds[i] == 't')
			table_text(p->t, cells[i] && *cells[i] ? cells[i] : NULL);
		else
			table_number(p->t, cells[i] ? atof(cells[i]) : NAN, p->kinds[i] - '0');
	table_end_row(p->t);
	p->library += cells[p->ratio - 1] && !strcmp(cells[p->policy], "attune");
	add_sum(p, cells[p->policy], cells[p->ratio]);
	return 1;
}

/* sql: with one %lld, of bench_rows.after. */
static void print_rows(struct printer *p, const struct bench_rows *rows, const char *sql)
{
	char query[2000];
	struct store *s = access(rows->db, F_OK) ? NULL : store_open(rows->db, 1);
	snprintf(query, sizeof query, sql, rows->after);
	if (s && p->t && store_has_bench(s) > 0)
		store_query(s, query, print_row, p);
	store_close(s);
	if (p->t)
		table_print(p->t, stdout);
	else
		complain("out of memory");
}

/* Prints a row for each time, with its ratio to the policy `reference` on the same batch, and on
 * stderr each policy's mean ratio. columns: SQL of what describes a batch, then b.policy. */
static int print_ratios(struct printer *p, const struct bench_rows *rows, const char *columns,
			const char *reference)
{
	char sql[600];
	snprintf(sql, sizeof sql,
		 "SELECT %s, b.median / 1e6, b.median * 1.0 / o.median, b.plan FROM bench AS b"
		 " JOIN scenario AS s ON s.id = b.scenario LEFT JOIN bench AS o"
		 " ON (o.run, o.scenario, o.policy) = (b.run, b.scenario, '%s')"
		 " WHERE b.run > %%lld ORDER BY b.run, b.scenario, b.median",
		 columns, reference);
	print_rows(p, rows, sql);
	for (int i = 0; i < p->n; i++)
		if (p->sum[i].n)
			fprintf(stderr,
				"# %-11s %.4f x %s, geometric mean of %d batches; worst %.4f\n",
				p->sum[i].name, exp(p->sum[i].log / p->sum[i].n), reference,
				p->sum[i].n, p->sum[i].worst);
	return p->library;
}

int bench_print(const struct bench_rows *rows, enum format format)
{
	static const char *const columns[] = { "batch",     "model",           "page_size",
					       "dtype",     "kv_dtype",        "policy",
					       "median_us", "ratio_to_oracle", "plan" };
	struct printer p = { .t = table_new(format, columns, COUNT(columns)),
			     .kinds = "tt0ttt24t",
			     .policy = 5,
			     .ratio = 7 };
	return print_ratios(
	    &p, rows, "s.batch, s.model, s.page_size, s.dtype, s.kv_dtype, b.policy", "oracle");
}

int bench_print_bounds(const struct bench_rows *rows, enum format format)
{
	static const char *const columns[] = { "batch", "way", "layer_us", "ratio", "plan" };
	struct printer p = { .t = table_new(format, columns, COUNT(columns)),
			     .kinds = "tt24t",
			     .policy = 1,
			     .ratio = 3 };
	return print_ratios(&p, rows, "s.batch, b.policy", "attune");
}

/* A step counts only if all policies ran it: sums over different steps are not comparable. */
int bench_print_trace(const struct bench_rows *rows, int steps, int all, enum format format)
{
	static const char *const columns[] = { "dtype", "kv_dtype",     "policy",
					       "steps", "attention_ms", "ratio" };
	struct printer p = { .t = table_new(format, columns, COUNT(columns)),
			     .kinds = "ttt034",
			     .policy = 2,
			     .ratio = 5 };
	print_rows(&p, rows,
		   "WITH mine AS (SELECT * FROM bench WHERE run > %lld),"
		   " whole AS (SELECT run, scenario FROM mine GROUP BY run, scenario"
		   " HAVING count(*) = count(median)),"
		   " total AS (SELECT s.dtype, s.kv_dtype, policy, count(*) AS steps,"
		   " sum(median) / 1e9 AS ms FROM mine JOIN whole USING (run, scenario)"
		   " JOIN scenario AS s ON s.id = scenario GROUP BY policy)"
		   " SELECT *, ms / (SELECT ms FROM total WHERE policy = 'attune') FROM total"
		   " ORDER BY policy <> 'attune', ms");
	fprintf(stderr, "# %d of %d steps, evenly spaced\n", steps, all);
	return p.library;
}
