/* SPDX-License-Identifier: Apache-2.0 */
/* bench_rows.c - measures a list of `attune bench` by the worker of all races, into rows of table
 * bench (harness/store/bench.sql), and prints these rows. */
#include "bench.h"
#include "harness/store/store.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_COLUMNS = 9, QUERY = 2000 };

/* A row for each time, with its ratio to the policy `reference` on the same batch. */
#define TIMED(reference)                                                                           \
	"WITH timed AS (SELECT b.*, b.median * 1.0 / o.median AS ratio FROM bench AS b"            \
	" LEFT JOIN bench AS o ON (o.run, o.scenario, o.policy) = (b.run, b.scenario, '" reference \
	"') WHERE b.run > %lld) "
#define SUMS                                                                                      \
	"SELECT policy, exp(avg(ln(ratio))), count(ratio), max(ratio) FROM timed GROUP BY policy" \
	" HAVING count(ratio) ORDER BY 2"

/* The library, with what it settled. What settling took is no time of a batch. */
#define SETTLED                                                                                   \
	{                                                                                         \
		"batch",  "model",     "page_size", "dtype", "kv_dtype",                          \
		"policy", "median_us", "ratio",     "plan"                                        \
	},                                                                                        \
	    "tt0ttt24t",                                                                          \
	    TIMED(                                                                                \
		"attune") "SELECT s.batch, s.model, s.page_size, s.dtype, s.kv_dtype, policy,"    \
			  " median / 1e3, iif(policy = 'settling', NULL, ratio), plan FROM timed" \
			  " JOIN scenario AS s ON s.id = scenario ORDER BY run, scenario, "       \
			  "timed.id"
#define SETTLED_SUMS                                                                 \
	TIMED("attune")                                                              \
	"SELECT policy, exp(avg(ln(ratio))), count(ratio), max(ratio) FROM timed"    \
	" WHERE policy NOT LIKE 'member%%' AND policy <> 'settling' GROUP BY policy" \
	" HAVING count(ratio) ORDER BY 2"

/* %lld: rows of later runs count. */
static const struct printed {
	const char *columns[MOST_COLUMNS];
	const char *kinds; /* for each: 't' text, '2' or '4' a number with so many places */
	const char *rows;
	const char *sums, *reference; /* of each policy; NULL: none */
} printed[] = {
	[BENCH_SPLIT] = { { "batch", "model", "page_size", "dtype", "kv_dtype", "policy",
			    "median_us", "ratio_to_oracle", "plan" },
			  "tt0ttt24t",
			  TIMED("oracle") "SELECT s.batch, s.model, s.page_size, s.dtype,"
					  " s.kv_dtype, policy, median / 1e3, ratio, plan"
					  " FROM timed JOIN scenario AS s ON s.id = scenario"
					  " ORDER BY run, scenario, median",
			  TIMED("oracle") SUMS,
			  "oracle" },
	[BENCH_BOUNDS] = { { "batch", "way", "layer_us", "ratio", "plan" },
			   "tt24t",
			   TIMED("attune") "SELECT s.batch, policy, median / 1e3, ratio, plan"
					   " FROM timed JOIN scenario AS s ON s.id = scenario"
					   " ORDER BY run, scenario, median",
			   TIMED("attune") SUMS,
			   "attune" },
	[BENCH_SETTLE] = { SETTLED, SETTLED_SUMS, "attune" },
	[BENCH_SETTLING] = { SETTLED, NULL, NULL },
	/* A step counts only if all policies ran it: sums over different steps are not
	 * comparable. */
	[BENCH_TRACE] = { { "dtype", "kv_dtype", "policy", "steps", "attention_ms", "ratio" },
			  "ttt034",
			  "WITH mine AS (SELECT * FROM bench WHERE run > %lld),"
			  " whole AS (SELECT run, scenario FROM mine GROUP BY run, scenario"
			  " HAVING count(*) = count(median)),"
			  " total AS (SELECT s.dtype, s.kv_dtype, policy, count(*) AS steps,"
			  " sum(median) / 1e6 AS ms FROM mine JOIN whole USING (run, scenario)"
			  " JOIN scenario AS s ON s.id = scenario GROUP BY policy)"
			  " SELECT *, ms / (SELECT ms FROM total WHERE policy = 'attune') FROM "
			  "total"
			  " ORDER BY policy <> 'attune', ms",
			  NULL,
			  NULL },
};

static int keep_number(void *arg, int n, const char *const *names, const char *const *cells)
{
	(void)n, (void)names;
	*(long long *)arg = cells[0] ? atoll(cells[0]) : 0;
	return 1;
}

struct printer {
	const struct printed *as;
	struct table *t;
};

static int print_row(void *arg, int n, const char *const *names, const char *const *cells)
{
	const struct printer *p = arg;
	(void)names;
	for (int i = 0; i < n && p->as->kinds[i]; i++)
		if (p->as->kinds[i] == 't')
			table_text(p->t, cells[i] && *cells[i] ? cells[i] : NULL);
		else
			table_number(p->t, cells[i] ? atof(cells[i]) : NAN, p->as->kinds[i] - '0');
	table_end_row(p->t);
	return 1;
}

static int print_sum(void *arg, int n, const char *const *names, const char *const *cells)
{
	const struct printer *p = arg;
	(void)n, (void)names;
	fprintf(stderr, "# %-11s %.4f x %s, geometric mean of %s batches; worst %.4f\n", cells[0],
		atof(cells[1]), p->as->reference, cells[2], atof(cells[3]));
	return 1;
}

static int ask(struct store *s, const char *sql, long long after,
	       int (*each)(void *, int, const char *const *, const char *const *), void *arg)
{
	char query[QUERY];
	snprintf(query, sizeof query, sql, after);
	return store_query(s, query, each, arg);
}

/* How often the library was timed in runs after that one. */
static int print(enum bench_kind kind, const char *db, long long after, enum format format)
{
	const struct printed *as = &printed[kind];
	struct printer p = { as, table_new(format, as->columns, (int)strlen(as->kinds)) };
	struct store *s = access(db, F_OK) ? NULL : store_open(db, 1);
	long long library = 0;
	if (s && p.t && store_has_bench(s) > 0) {
		ask(s, as->rows, after, print_row, &p);
		ask(s,
		    "SELECT count(median) FROM bench WHERE run > %lld AND policy IN ('attune',"
		    " 'settling')",
		    after, keep_number, &library);
	}
	table_print(p.t, stdout);
	if (s && library && as->sums)
		ask(s, as->sums, after, print_sum, &p);
	store_close(s);
	return (int)library;
}

int bench_measure(enum bench_kind kind, const struct wishes *w, const struct sweep_options *o,
		  enum format format, int *library)
{
	const int is_new = access(o->db, F_OK);
	struct store *s = is_new ? NULL : store_open(o->db, 1);
	long long after = 0;
	const int known = s && store_query(s, "SELECT max(id) FROM run", keep_number, &after);
	store_close(s);
	if (!is_new && !known)
		return EXIT_USAGE;
	const int code = wishes_measure(w, o, "b");
	if (code != EXIT_USAGE)
		*library = print(kind, o->db, after, format);
	return code;
}
