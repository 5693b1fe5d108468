/* eval.c - `attune eval`: how far a header's picks are from the fastest of all
 * that was measured, beside the baselines, by split. */
#include "../kernels/heuristics.h"
#include "tuner.h"
#include <argp.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct options {
	const char *gpu, *db, *header;
	enum format format;
};

static const struct argp_option rows[] = {
	{ "gpu", 'g', "NAME", 0, "whose measurements: h200, cpu, ... (this machine's)", 0 },
	{ "db", 'd', "FILE", 0, "database (results/NAME.sqlite)", 0 },
	{ "header", 'H', "WHICH", 0,
	  "committed (generated/attune_NAME.h), induced (made now, not written) or a file", 0 },
	{ "format", 'f', "FORMAT", 0, "table, tsv or json", 0 },
	{ 0 }
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;
	switch (key) {
	case 'g': o->gpu = arg; return 0;
	case 'd': o->db = arg; return 0;
	case 'H': o->header = arg; return 0;
	case 'f':
		if (!format_parse(arg, &o->format))
			argp_error(state, "--format '%s' should be table, tsv or json", arg);
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp help = {
	rows,
	parse_option,
	NULL,
	"Slowdown of a header's picks against the fastest of everything measured."
	"\vA pick that was not measured or failed counts as infinitely slow (invalid); geomean, "
	"p95 and worst are then infinite, in JSON null. select_ns is the time of one batch's "
	"decisions, its features given.\n\n"
	"Example:\n  attune eval --gpu h200\n  attune eval --gpu cpu --header induced --format "
	"json",
	NULL,
	NULL,
	NULL
};

/* ---- the time of a selection ----------------------------------------------------------- */
typedef int (*decide_fn)(const void *how, enum decision, const struct attune_features *);

static int by_tree(const void *how, enum decision d, const struct attune_features *f)
{
	const struct tree *t = &((const struct forest *)how)->tree[d];
	return t->v[tree_leaf(t, f)].action;
}

static int by_code(const void *how, enum decision d, const struct attune_features *f)
{
	const struct selector *s = how;
	return d == DECIDE_PREFILL ? s->prefill(f) : d == DECIDE_DECODE ? s->decode(f) : s->join(f);
}

static int select_all(const struct data *d, decide_fn decide, const void *how)
{
	int sum = 0;
	for (int s = 0; s < d->n; s++) {
		const struct measured *m = &d->v[s];
		if (m->has[PHASE_PREFILL])
			sum += decide(how, DECIDE_PREFILL, &m->part[PHASE_PREFILL].f);
		if (m->has[PHASE_DECODE])
			sum += decide(how, DECIDE_DECODE, &m->part[PHASE_DECODE].f);
		if (m->has[PHASE_PREFILL] && m->has[PHASE_DECODE])
			sum += decide(how, DECIDE_JOIN, &m->part[PHASE_ALL].f);
	}
	return sum;
}

static double now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

/* The least of a few rounds: what interrupts a round only adds to it. */
static double select_ns(const struct data *d, decide_fn decide, const void *how)
{
	enum { ROUNDS = 7, NS_OF_ROUND = 2000000 };
	volatile int sink = 0;
	double best = INFINITY;
	for (int r = 0; r < ROUNDS; r++) {
		const double start = now_ns();
		double spent = 0;
		long long batches = 0;
		while (spent < NS_OF_ROUND) {
			sink += select_all(d, decide, how);
			batches += d->n;
			spent = now_ns() - start;
		}
		best = fmin(best, spent / (double)batches);
	}
	return best;
}

/* The compiled header where this program has it and it is the one that is judged. */
static double time_selection(const struct data *d, const struct forest *f, const char **what)
{
	for (int i = 0; i < attune_num_selectors; i++) {
		const struct selector *s = &attune_selectors[i];
		int same = !strcmp(s->gpu, f->gpu) && s->num_choices == f->num_choices;
		for (int m = 0; same && m < d->n; m++)
			for (int t = 0; same && t < NUM_DECISIONS; t++) {
				const enum phase p = decision_phase((enum decision)t);
				const struct attune_features *x = &d->v[m].part[p].f;
				same = by_code(s, (enum decision)t, x) ==
				       by_tree(f, (enum decision)t, x);
			}
		*what = "compiled";
		if (same)
			return select_ns(d, by_code, s);
	}
	*what = "interpreted";
	return select_ns(d, by_tree, f);
}

/* ---- output ------------------------------------------------------------------------------ */
static void json_number(const char *name, double v, int decimals, const char *after)
{
	if (isfinite(v))
		printf("\"%s\": %.*f%s", name, decimals, v, after);
	else
		printf("\"%s\": null%s", name, after);
}

static void json_splits(const struct data *d, enum policy policy, const struct forest *f)
{
	const char *splits[MAX_SPLITS], *comma = "";
	const int n = data_splits(d, splits);
	putchar('{');
	for (int i = 0; i < n; i++) {
		struct score s;
		if (!score_policy(d, policy, f, splits[i], &s))
			continue;
		printf("%s\"%s\": {\"n\": %d, ", comma, splits[i], s.n);
		json_number("geomean", s.n ? s.geomean : NAN, 5, ", ");
		json_number("p95", s.n ? s.p95 : NAN, 5, ", ");
		json_number("worst", s.n ? s.worst : NAN, 5, ", ");
		json_number("within5", s.n ? s.within5 : NAN, 5, ", ");
		printf("\"invalid\": %d}", s.invalid);
		comma = ", ";
	}
	putchar('}');
}

static int exists(const struct data *d, enum policy policy, const struct forest *f)
{
	struct score s;
	return score_policy(d, policy, f, NULL, &s);
}

static void print_json(const struct data *d, const struct forest *f, double ns)
{
	const char *comma = "";
	printf("{\"splits\": ");
	json_splits(d, POLICY_TREE, f);
	printf(", \"baselines\": {");
	for (int p = POLICY_BEST_FIXED; p < NUM_POLICIES; p++) {
		if (!exists(d, (enum policy)p, f))
			continue;
		printf("%s\"%s\": ", comma, policy_names[p]);
		json_splits(d, (enum policy)p, f);
		comma = ", ";
	}
	printf("}, \"leaves\": %d, \"kernels\": %d, ", forest_leaves(f), forest_kernels(f));
	json_number("select_ns", ns, 1, "}\n");
}

static void table_score(struct table *t, const char *policy, const char *split,
			const struct score *s)
{
	table_text(t, policy);
	table_text(t, split);
	table_number(t, s->n, 0);
	table_number(t, s->geomean, 4);
	table_number(t, s->p95, 3);
	table_number(t, s->worst, 3);
	table_number(t, s->within2, 3);
	table_number(t, s->within5, 3);
	table_number(t, s->invalid, 0);
	table_end_row(t);
}

static void print_rows(const struct data *d, const struct forest *f, enum format format)
{
	const char *columns[] = { "policy", "split",   "n",       "geomean", "p95",
				  "worst",  "within2", "within5", "invalid" };
	const char *splits[MAX_SPLITS];
	const int n = data_splits(d, splits);
	struct table *t = table_new(format, columns, (int)COUNT(columns));
	for (int p = 0; t && p < NUM_POLICIES; p++)
		for (int i = 0; i < n; i++) {
			struct score s;
			if (score_policy(d, (enum policy)p, f, splits[i], &s) && s.n)
				table_score(t, policy_names[p], splits[i], &s);
		}
	if (t)
		table_print(t, stdout);
}

static int evaluate(const struct data *d, const struct forest *f, enum format format)
{
	struct score s;
	const char *what;
	if (!score_policy(d, POLICY_TREE, f, NULL, &s) || !s.n) {
		complain("no scenario of %s has a right result: nothing was evaluated", d->gpu);
		return 0;
	}
	const double ns = time_selection(d, f, &what);
	if (format == FORMAT_JSON) {
		print_json(d, f, ns);
		return 1;
	}
	printf("# %s: %d scenarios, %d leaves, %d choices of %d kernels, select %.1f ns (%s)\n",
	       f->gpu, s.n, forest_leaves(f), f->num_choices, forest_kernels(f), ns, what);
	print_rows(d, f, format);
	return 1;
}

static int find_forest(struct forest *f, const struct data *d, const char *which, const char *path)
{
	const struct limits limits = default_limits;
	if (which && !strcmp(which, "induced"))
		return forest_induce(f, d, &limits);
	return forest_load(f, which && strcmp(which, "committed") ? which : path);
}

int cmd_eval(int argc, char **argv)
{
	struct options o = { .format = FORMAT_TABLE };
	char gpu[16], db[256], header[256];
	struct forest f;
	int code = EXIT_USAGE;
	argp_err_exit_status = EXIT_USAGE;
	argp_parse(&help, argc, argv, 0, NULL, &o);
	if (!gpu_or_own(o.gpu, gpu))
		return EXIT_NO_DEVICE;
	default_paths(gpu, db, header);
	struct data *d = data_load(o.db ? o.db : db, gpu);
	if (d && !d->n)
		code = EXIT_CHECK;
	else if (d && find_forest(&f, d, o.header, header)) {
		code = evaluate(d, &f, o.format) ? EXIT_DONE : EXIT_CHECK;
		forest_free(&f);
	}
	data_free(d);
	return code;
}
