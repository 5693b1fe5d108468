/* SPDX-License-Identifier: Apache-2.0 */
/* tables.c - `attune show --table`, `--best` and `--peers`: asks a query, and prints the answer. A published table's
 * is NAME.sql of a folder.
 *
 *   -- database: peers     a comment in NAME.sql: ask the race with other projects' kernels
 *   -- database: bench     ask what `attune bench` timed, table benched alone
 *   SELECT ... AS n        the one statement that has answers; its columns' names head the table
 *
 * The queries ask the tables of plot/facts.sql and of tables.sql. They may call three aggregates of (value, block):
 * blocked_low and blocked_high, the 95 % interval of a geometric mean as `attune eval` has it, and percentile95. */
#include "show.h"
#include "harness/base/base.h"
#include "harness/scratch/scratch.h"
#include "tuner/base/base.h"
#include "tuner/data/data.h"
#include "tuner/eval/eval.h"
#include "tuner/forest/forest.h"
#include "tuner/plot/plot.h"
#include "tuner/policy/settled.h"
#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

EMBED(tables_schema, "tuner/show/tables.sql")
static const char bench_schema[] =
    "CREATE TEMP VIEW benched AS SELECT b.run, b.scenario, s.model, s.batch, s.split,"
    " s.num_seqs AS seqs, s.max_query, b.policy, b.median / 1e3 AS us"
    " FROM ran.bench AS b JOIN ran.scenario AS s ON s.id = b.scenario WHERE b.median IS NOT NULL;"
    "CREATE TEMP VIEW blocked AS SELECT scenario, dense_rank() OVER (ORDER BY model,"
    " length(printf('%o', seqs))) AS block FROM benched GROUP BY scenario, model, seqs;";

enum { KERNELS_TEXT = 64 };

/* ---- aggregates ----------------------------------------------------------------------- */
static double low(struct scratch_pair *v, int n)
{
	double low = NAN, high;
	return blocked_interval(v, n, &low, &high) ? low : NAN;
}

static double high(struct scratch_pair *v, int n)
{
	double low, high = NAN;
	return blocked_interval(v, n, &low, &high) ? high : NAN;
}

static int by_value(const void *a, const void *b)
{
	const double x = ((const struct scratch_pair *)a)->value;
	const double y = ((const struct scratch_pair *)b)->value;
	return (x > y) - (x < y);
}

static double percentile95(struct scratch_pair *v, int n)
{
	qsort(v, (size_t)n, sizeof *v, by_value);
	return v[(95 * n + 99) / 100 - 1].value;
}

/* ---- what the queries ask --------------------------------------------------------------- */
/* The kernels of a plan: "warpgroup || ring". */
static void kernels_of(const struct decided *plan, char text[KERNELS_TEXT])
{
	const struct kernel *prefill = plan->prefill.kernel;
	const struct kernel *decode = plan->join ? plan->decode.kernel : NULL;
	const char *between = plan->how == ATTUNE_SERIAL ? " | " : " || ";
	snprintf(text, KERNELS_TEXT, "%s%s%s", prefill ? prefill->name : "",
		 prefill && decode ? between : "", decode ? decode->name : "");
}

static int add_run_by(struct scratch *t, const struct data *d, const struct forest *f)
{
	static const char *const policy[] = { "oracle", "tree", "row_settled" };
	char text[KERNELS_TEXT], words[2 * MAX_CHOICE_TEXT + 32];
	int done = 1;
	for (int s = 0; done && s < d->n; s++) {
		struct decided plan[COUNT(policy)] = { data_fastest_plan(d, s) };
		struct settled settled;
		forest_make(d, f, &d->v[s], &plan[1]);
		settle(d, f, s, &settled);
		plan[2] = settled.plan;
		for (size_t i = 0; done && i < COUNT(policy); i++) {
			kernels_of(&plan[i], text);
			decided_words(&plan[i], words, sizeof words);
			done = scratch_add(t, "run_by", "issss", s, policy[i], text, words,
					   lost_by(d, f, s, &plan[i]));
		}
	}
	return done;
}

static int add_early(struct scratch *t, const struct data *d, const struct forest *f)
{
	int done = 1;
	for (int i = 0; done && i < NUM_PHASES * d->n; i++) {
		const int s = i / NUM_PHASES;
		const enum phase phase = (enum phase)(i % NUM_PHASES);
		if (phase == PHASE_ALL || !d->v[s].has[phase])
			continue;
		const double one = early_ratio(d, s, phase, 1), two = early_ratio(d, s, phase, 2);
		const int value = forest_early(f, &d->v[s].part[phase].f);
		const double picked = value == 1 ? one : value == 2 ? two : value ? NAN : 1;
		if (isfinite(one) || isfinite(two))
			done = scratch_add(t, "early", "isddd", s, phase_name((int)phase), one, two,
					   picked);
	}
	return done;
}

/* of_peers: of the race with other projects' kernels. */
static struct scratch *facts_of(const struct data *d, const char *db, const struct forest *f,
				int of_peers)
{
	const struct plotted p = plotted_make(d, f);
	struct scratch *t = facts_make(&p);
	if (t && scratch_also(t, tables_schema) && add_run_by(t, d, f) && add_early(t, d, f) &&
	    scratch_also_aggregate(t, "blocked_low", low) &&
	    scratch_also_aggregate(t, "blocked_high", high) &&
	    scratch_also_aggregate(t, "percentile95", percentile95) &&
	    (!of_peers || peers_read(t, d->gpu, db)))
		return t;
	scratch_free(t);
	return NULL;
}

static struct scratch *facts_load(const char *db, const char *gpu, const struct forest *f,
				  int of_peers)
{
	struct data *d = data_load(db, gpu);
	struct scratch *t = d && data_has_times(d, db) ? facts_of(d, db, f, of_peers) : NULL;
	data_free(d);
	return t;
}

/* What `attune bench` timed; such a database has no other times. */
static struct scratch *facts_of_bench(const char *db)
{
	struct store *s = store_open(db, 1);
	const int has = s ? store_has_bench(s) : -1;
	store_close(s);
	if (!has)
		complain("%s: has no rows of attune bench", db);
	struct scratch *t = has > 0 ? scratch_new(bench_schema) : NULL;
	if (t && scratch_attach(t, db, "ran") && scratch_also_aggregate(t, "blocked_low", low) &&
	    scratch_also_aggregate(t, "blocked_high", high))
		return t;
	scratch_free(t);
	return NULL;
}

/* ---- which table --------------------------------------------------------------------------- */
/* Lists the tables of the folder: 0. */
static int unknown(const char *folder, const char *name)
{
	struct dirent **file;
	char names[400] = "";
	size_t used = 0;
	const int n = scandir(folder, &file, NULL, alphasort);
	for (int i = 0; i < n; i++) {
		const char *end = strstr(file[i]->d_name, ".sql");
		if (end && used < sizeof names)
			used += (size_t)snprintf(names + used, sizeof names - used, "%s%.*s",
						 used ? ", " : "", (int)(end - file[i]->d_name),
						 file[i]->d_name);
		free(file[i]);
	}
	if (n >= 0)
		free(file);
	complain("--table %s: it is one of %s", name, names);
	return 0;
}

/* The query's text, for the caller to free; NULL + complain. */
static char *query_of(const char *folder, const char *name)
{
	char path[PATH_TEXT];
	snprintf(path, sizeof path, "%.3000s/%.64s.sql", folder, name);
	char *sql = strchr(name, '/') ? NULL : file_text(path);
	if (!sql)
		unknown(folder, name);
	return sql;
}

/* A published table is of committed files, whatever this machine has measured since. */
static void committed_path(char path[PATH_TEXT], const char *asked, const char *format,
			   const char *gpu)
{
	char file[PATH_TEXT], found[PATH_TEXT];
	snprintf(file, sizeof file, format, gpu);
	snprintf(path, PATH_TEXT, "%s", asked ? asked : data_path(found, file));
}

enum database { OF_GPU, OF_PEERS, OF_BENCH, NUM_DATABASES };
struct sources {
	const struct show *o;
	const char *gpu;
	struct forest forest;
	struct scratch *facts[NUM_DATABASES];
};

static int print_table(struct sources *s, const char *folder, const char *name, int is_one_of_many)
{
	static const char *const paths[] = { "results/%s.sqlite", "results/%s_peers.sqlite",
					     "results/%s_bench.sqlite" };
	char db[PATH_TEXT], *sql = query_of(folder, name);
	if (!sql)
		return EXIT_USAGE;
	const enum database of = strstr(sql, "-- database: peers")   ? OF_PEERS
				 : strstr(sql, "-- database: bench") ? OF_BENCH
								     : OF_GPU;
	struct scratch **facts = &s->facts[of];
	committed_path(db, s->o->db, paths[of], s->gpu);
	if (!*facts)
		*facts = of == OF_BENCH ? facts_of_bench(db)
					: facts_load(db, s->gpu, &s->forest, of == OF_PEERS);
	if (*facts && is_one_of_many)
		printf(s->o->format == FORMAT_MARKDOWN ? "<!-- table: %s -->\n" : "# %s\n", name);
	const int n = *facts ? show_answer(*facts, name, sql, NULL, s->o->format, INT_MAX) : -1;
	free(sql);
	if (!n)
		complain("table %s: the database has no rows for it", name);
	return n > 0 ? EXIT_DONE : access(db, R_OK) ? EXIT_USAGE : EXIT_CHECK;
}

int show_tables(const char *gpu, const struct show *o)
{
	char folder[PATH_TEXT], header[PATH_TEXT], names[PATH_TEXT], *rest = names, *name;
	struct sources s = { .o = o, .gpu = gpu };
	int code = EXIT_DONE;
	if (strchr(o->table, ',') && !format_has_notes(o->format) && o->format != FORMAT_MARKDOWN) {
		complain("--table %s: json and csv have one table each", o->table);
		return EXIT_USAGE;
	}
	if (!code_path(folder, "tuner/show/tables", "heldout.sql")) {
		complain("the queries of attune's tables are not installed beside it");
		return EXIT_USAGE;
	}
	committed_path(header, o->header, "generated/attune_%s.h", gpu);
	if (access(header, R_OK))
		rules_path(header, o->header, gpu);
	if (!forest_load(&s.forest, header))
		return EXIT_USAGE;
	snprintf(names, sizeof names, "%s", o->table);
	while (code == EXIT_DONE && (name = strsep(&rest, ",")))
		code = print_table(&s, folder, name, strchr(o->table, ',') != NULL);
	for (int i = 0; i < NUM_DATABASES; i++)
		scratch_free(s.facts[i]);
	forest_free(&s.forest);
	return code;
}

/* ---- lists ----------------------------------------------------------------------------------- */
static int print_list(const struct data *d, const char *db, const struct forest *f,
		      const struct show *o)
{
	const int of_peers = o->what == SHOW_PEERS;
	struct scratch *t = facts_of(d, db, f, of_peers);
	int n = -1;
	if (t && scratch_add(t, "asked", "s", o->model))
		n = show_answer(t, "tables.sql",
				of_peers ? "SELECT * FROM standing; SELECT * FROM peer_plans"
					 : "SELECT * FROM best_plans",
				NULL, o->format, INT_MAX);
	scratch_free(t);
	if (!n && of_peers)
		complain("%s: no plug-in raced there; attune --plugin FILE sweep makes such rows",
			 db);
	else if (!n)
		complain("%s: no right result of %s", db, o->model ? o->model : d->gpu);
	return n > 0 ? EXIT_DONE : !n && of_peers ? EXIT_USAGE : EXIT_CHECK;
}

int show_lists(const char *gpu, const char *db, const struct show *o)
{
	struct forest f;
	char header[PATH_TEXT];
	struct data *d = data_load_as(db, gpu, (struct which_rows){ .all = 1 });
	int code = d ? EXIT_CHECK : EXIT_USAGE;
	if (d && data_has_times(d, db)) {
		code = EXIT_USAGE;
		rules_path(header, o->header, gpu);
		if (forest_load(&f, header)) {
			code = print_list(d, db, &f, o);
			forest_free(&f);
		}
	}
	if (code == EXIT_DONE)
		data_say_machine(d, db);
	data_free(d);
	return code;
}
