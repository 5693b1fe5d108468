/* tables.c - `attune show --table`: asks a published table's query, NAME.sql of a folder, and prints the
 * answer.
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
#include "tuner/compare/peers.h"
#include "tuner/data/data.h"
#include "tuner/eval/eval.h"
#include "tuner/forest/forest.h"
#include "tuner/plot/plot.h"
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

EMBED(tables_schema, "tuner/show/tables.sql")

enum { MAX_COLUMNS = 16, COLUMN_TEXT = 64 };

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
static void kernels_of(const struct decided *plan, char text[COLUMN_TEXT])
{
	const struct kernel *prefill = plan->prefill.kernel;
	const struct kernel *decode = plan->join ? plan->decode.kernel : NULL;
	const char *between = plan->how == ATTUNE_SERIAL ? " | " : " || ";
	snprintf(text, COLUMN_TEXT, "%s%s%s", prefill ? prefill->name : "",
		 prefill && decode ? between : "", decode ? decode->name : "");
}

static int add_kernels(struct scratch *t, const struct data *d, const struct forest *f)
{
	int done = 1;
	for (int s = 0; done && s < d->n; s++) {
		struct decided plan[2] = { data_fastest_plan(d, s) };
		forest_make(d, f, &d->v[s], &plan[1]);
		for (int i = 0; done && i < 2; i++) {
			char text[COLUMN_TEXT];
			kernels_of(&plan[i], text);
			done = scratch_add(t, "run_by", "iss", s, i ? "tree" : "oracle", text);
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

/* Of a database: of the GPU, or of the race with other projects' kernels. */
static struct scratch *facts_of(const char *db, const char *gpu, const struct forest *f,
				int of_peers)
{
	struct data *d = data_load(db, gpu);
	struct scratch *t = NULL;
	if (d && data_has_times(d, db)) {
		const struct plotted p = plotted_make(d, f);
		t = facts_make(&p);
	}
	if (t && !(scratch_also(t, tables_schema) && add_kernels(t, d, f) && add_early(t, d, f) &&
		   scratch_also_aggregate(t, "blocked_low", low) &&
		   scratch_also_aggregate(t, "blocked_high", high) &&
		   scratch_also_aggregate(t, "percentile95", percentile95) &&
		   (!of_peers || peers_read(t, gpu, db)))) {
		scratch_free(t);
		t = NULL;
	}
	data_free(d);
	return t;
}

static int add_benched(void *arg, int n, const char *const *names, const char *const *v)
{
	(void)n, (void)names;
	return scratch_add(arg, "benched", "sssssssss", v[0], v[1], v[2], v[3], v[4], v[5], v[6],
			   v[7], v[8]);
}

/* What `attune bench` timed; such a database has no other times. */
static struct scratch *facts_of_bench(const char *db)
{
	struct scratch *t = scratch_new(
	    "CREATE TABLE benched(run INTEGER, scenario INTEGER, model, batch, split, seqs INTEGER,"
	    " max_query INTEGER, policy, us REAL);"
	    "CREATE VIEW blocked AS SELECT scenario, dense_rank() OVER (ORDER BY model,"
	    " length(printf('%o', seqs))) AS block FROM benched GROUP BY scenario, model, seqs;");
	struct store *s = t ? store_open(db, 1) : NULL;
	const int done = s && scratch_also_aggregate(t, "blocked_low", low) &&
			 scratch_also_aggregate(t, "blocked_high", high) &&
			 store_has_bench(s) > 0 &&
			 store_query(s,
				     "SELECT b.run, b.scenario, s.model, s.batch, s.split,"
				     " s.num_seqs, s.max_query, b.policy, b.median / 1e6"
				     " FROM bench AS b JOIN scenario AS s ON s.id = b.scenario"
				     " WHERE b.median IS NOT NULL",
				     add_benched, t);
	if (s && !done)
		complain("%s: has no rows of attune bench", db);
	store_close(s);
	if (done)
		return t;
	scratch_free(t);
	return NULL;
}

/* ---- an answer as a table ------------------------------------------------------------------ */
struct answer {
	enum format format;
	struct table *t;
	char name[MAX_COLUMNS][COLUMN_TEXT];
	const char *column[MAX_COLUMNS];
};

static int begin(struct answer *a, const struct scratch_value *v, int columns)
{
	for (int i = 0; i < columns; i++) {
		snprintf(a->name[i], COLUMN_TEXT, "%s", v[i].name);
		a->column[i] = a->name[i];
	}
	a->t = table_new(a->format, a->column, columns);
	return a->t != NULL;
}

/* Four digits, as many as the times have a meaning to. */
static int decimals(const struct scratch_value *v)
{
	const double size = fabs(v->real);
	return !v->is_real || size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : 3;
}

static int take_row(void *arg, int statement, const struct scratch_value *v, int columns)
{
	struct answer *a = arg;
	(void)statement;
	columns = columns < MAX_COLUMNS ? columns : MAX_COLUMNS;
	if (!a->t && !begin(a, v, columns))
		return 0;
	for (int i = 0; i < columns; i++)
		if (v[i].text && !strcmp(v[i].name, "batch"))
			batch_cell(a->t, v[i].text, a->format);
		else if (v[i].text || v[i].is_null)
			table_text(a->t, v[i].text);
		else
			table_number(a->t, v[i].real, decimals(&v[i]));
	table_end_row(a->t);
	return 1;
}

/* 0 + complain. */
static int print_answer(struct scratch *t, const char *name, const char *sql, enum format format)
{
	struct answer a = { .format = format };
	const int done = scratch_ask(t, name, sql, take_row, &a);
	if (a.t)
		table_print(a.t, stdout);
	else if (done)
		complain("table %s: the database has no rows for it", name);
	return done && a.t;
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
					: facts_of(db, s->gpu, &s->forest, of == OF_PEERS);
	if (*facts && is_one_of_many)
		printf(s->o->format == FORMAT_MARKDOWN ? "<!-- table: %s -->\n" : "# %s\n", name);
	const int done = *facts && print_answer(*facts, name, sql, s->o->format);
	free(sql);
	return done ? EXIT_DONE : access(db, R_OK) ? EXIT_USAGE : EXIT_CHECK;
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
