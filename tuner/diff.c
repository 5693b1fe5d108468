/* diff.c - `attune diff A B`: what changed between two headers (where they
 * choose otherwise) or between two databases (which cells moved, by how much). */
#include "show.h"
#include <argp.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct options {
	const char *gpu, *path[2];
	int paths;
	enum format format;
};

static const struct argp_option rows[] = {
	{ "gpu", 'g', "NAME", 0, "of two databases: whose cells (the first file's name)", 0 },
	{ "format", 'f', "FORMAT", 0, "table, tsv or json", 0 },
	{ 0 }
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;
	switch (key) {
	case 'g': o->gpu = arg; return 0;
	case 'f':
		if (!format_parse(arg, &o->format))
			argp_error(state, "--format '%s' should be table, tsv or json", arg);
		return 0;
	case ARGP_KEY_ARG:
		if (o->paths == 2)
			argp_error(state, "two files are compared, '%s' is a third", arg);
		o->path[o->paths++] = arg;
		return 0;
	case ARGP_KEY_END:
		if (o->paths < 2)
			argp_error(state, "two headers or two databases are needed");
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp help = {
	rows,
	parse_option,
	"A B",
	"What changed from A to B: two generated headers, or two databases."
	"\vOf headers: every region of features in which they choose otherwise, with the slowdown "
	"that each noted at its leaf. Of databases: cells whose times differ by more than their "
	"intervals and 2 %, or whose outcome changed.\n\n"
	"Example:\n  attune diff old/attune_h200.h generated/attune_h200.h\n"
	"  attune diff --gpu h200 old.sqlite results/h200.sqlite",
	NULL,
	NULL,
	NULL
};

/* ---- two headers ------------------------------------------------------------------------ */
struct overlay {
	const struct forest *f[2];
	enum decision decision;
	struct table *t;
	int leaf; /* of f[0]; the boxes of f[1] are within its box */
	int regions, differ;
};

static void action_words(const struct forest *f, enum decision d, int action,
			 char text[MAX_CHOICE_TEXT])
{
	if (d == DECIDE_JOIN)
		snprintf(text, MAX_CHOICE_TEXT, "%s", action ? "two launches" : "one launch");
	else if (action < 0)
		snprintf(text, MAX_CHOICE_TEXT, "the defaults");
	else
		choice_words(&f->choice[action], text);
}

/* "num_seqs 9..16, max_seq > 4096"; "everywhere" */
static void box_words(const struct box *b, char *text, size_t size)
{
	size_t n = 0;
	struct box all;
	box_all(&all);
	snprintf(text, size, "everywhere");
	for (int i = 0; i < ATTUNE_NUM_FEATURES && n < size; i++) {
		const char *name = feature_names[i], *comma = n ? ", " : "";
		const int low = b->lo[i] > all.lo[i], high = b->hi[i] < all.hi[i];
		if (low && high)
			n += (size_t)snprintf(text + n, size - n, "%s%s %lld..%lld", comma, name,
					      b->lo[i], b->hi[i]);
		else if (low)
			n += (size_t)snprintf(text + n, size - n, "%s%s > %lld", comma, name,
					      b->lo[i] - 1);
		else if (high)
			n += (size_t)snprintf(text + n, size - n, "%s%s <= %lld", comma, name,
					      b->hi[i]);
	}
}

static void slowdown_cell(struct table *t, const struct node *v)
{
	table_number(
	    t, v->support && v->weight ? exp((double)v->cost / (double)v->weight / 1e6) : NAN, 3);
}

static void compare_leaves(void *arg, int leaf, const struct box *b)
{
	struct overlay *o = arg;
	const struct node *v[2] = { &o->f[0]->tree[o->decision].v[o->leaf],
				    &o->f[1]->tree[o->decision].v[leaf] };
	char words[2][MAX_CHOICE_TEXT], where[400];
	for (int i = 0; i < 2; i++)
		action_words(o->f[i], o->decision, v[i]->action, words[i]);
	o->regions++;
	if (!strcmp(words[0], words[1]))
		return;
	o->differ++;
	box_words(b, where, sizeof where);
	table_text(o->t, decision_names[o->decision]);
	table_text(o->t, where);
	table_text(o->t, words[0]);
	table_text(o->t, words[1]);
	slowdown_cell(o->t, v[0]);
	slowdown_cell(o->t, v[1]);
	table_end_row(o->t);
}

static void overlay_leaf(void *arg, int leaf, const struct box *b)
{
	struct overlay *o = arg;
	o->leaf = leaf;
	tree_boxes(&o->f[1]->tree[o->decision], b, compare_leaves, o);
}

static int diff_headers(const struct options *o)
{
	const char *columns[] = { "decision", "where", "was", "is", "was_slowdown", "is_slowdown" };
	struct forest f[2];
	struct overlay over = { { &f[0], &f[1] }, DECIDE_PREFILL, NULL, 0, 0, 0 };
	struct box all;
	if (!forest_load(&f[0], o->path[0]))
		return EXIT_USAGE;
	if (!forest_load(&f[1], o->path[1])) {
		forest_free(&f[0]);
		return EXIT_USAGE;
	}
	over.t = table_new(o->format, columns, (int)COUNT(columns));
	box_all(&all);
	for (int d = 0; over.t && d < NUM_DECISIONS; d++) {
		over.decision = (enum decision)d;
		tree_boxes(&f[0].tree[d], &all, overlay_leaf, &over);
	}
	if (o->format != FORMAT_JSON)
		printf("# %d and %d leaves; %d of %d regions choose otherwise\n",
		       forest_leaves(&f[0]), forest_leaves(&f[1]), over.differ, over.regions);
	if (over.t)
		table_print(over.t, stdout);
	forest_free(&f[0]);
	forest_free(&f[1]);
	return over.t ? EXIT_DONE : EXIT_CHECK;
}

/* ---- two databases ------------------------------------------------------------------------ */
struct change {
	int scenario; /* of the first */
	enum phase phase;
	int choice; /* of the first */
	const struct cell *was, *is;
	double ratio; /* NaN: an outcome changed */
};

struct changes {
	struct change *v;
	int n, both, only[2];
	double logs;
	int timed;
};

static int find_key(const struct data *d, const char *key)
{
	for (int s = 0; s < d->n; s++)
		if (!strcmp(d->v[s].key, key))
			return s;
	return -1;
}

/* Beyond what either interval explains, and 2 %. */
static int moved(const struct cell *a, const struct cell *b)
{
	const double noise =
	    hypot(isfinite(a->ci_us) ? a->ci_us : 0, isfinite(b->ci_us) ? b->ci_us : 0);
	return fabs(a->median_us - b->median_us) > fmax(noise, 0.02 * a->median_us);
}

static void compare_cell(struct changes *c, int s, enum phase phase, int choice,
			 const struct cell *was, const struct cell *is)
{
	const int ok[2] = { was->outcome == OUTCOME_OK, is->outcome == OUTCOME_OK };
	const double ratio = ok[0] && ok[1] ? is->median_us / was->median_us : NAN;
	c->both++;
	if (isfinite(ratio))
		c->logs += log(ratio), c->timed++;
	if (isfinite(ratio) ? moved(was, is) : was->outcome != is->outcome)
		c->v[c->n++] = (struct change){ s, phase, choice, was, is, ratio };
}

static int count_cells(const struct data *d)
{
	int n = 0;
	for (int s = 0; s < d->n; s++)
		for (int p = 0; p < NUM_PHASES; p++)
			for (int c = 0; c < d->num_choices; c++)
				n += data_cell(d, s, (enum phase)p, c) != NULL;
	return n;
}

static int compare_data(struct changes *out, const struct data *a, const struct data *b)
{
	const int cells[2] = { count_cells(a), count_cells(b) };
	*out = (struct changes){ .v = malloc(sizeof *out->v * (size_t)(cells[0] + 1)) };
	int *to = malloc(sizeof *to * (size_t)(a->num_choices + 1));
	for (int c = 0; out->v && to && c < a->num_choices; c++)
		to[c] = data_find(b, &a->choice[c]);
	for (int s = 0; out->v && to && s < a->n; s++) {
		const int other = find_key(b, a->v[s].key);
		for (int p = 0; other >= 0 && p < NUM_PHASES; p++)
			for (int c = 0; c < a->num_choices; c++) {
				const struct cell *was = data_cell(a, s, (enum phase)p, c);
				const struct cell *is =
				    to[c] < 0 ? NULL : data_cell(b, other, (enum phase)p, to[c]);
				if (was && is)
					compare_cell(out, s, (enum phase)p, c, was, is);
			}
	}
	out->only[0] = cells[0] - out->both;
	out->only[1] = cells[1] - out->both;
	const int done = out->v && to;
	free(to);
	return done;
}

/* Changed outcomes first, then by how far the time moved. */
static int by_size(const void *pa, const void *pb)
{
	const struct change *a = pa, *b = pb;
	const double x = isfinite(a->ratio) ? fabs(log(a->ratio)) : INFINITY;
	const double y = isfinite(b->ratio) ? fabs(log(b->ratio)) : INFINITY;
	if (x != y)
		return x > y ? -1 : 1;
	if (a->scenario != b->scenario)
		return a->scenario - b->scenario;
	return a->phase != b->phase ? (int)a->phase - (int)b->phase : a->choice - b->choice;
}

static void print_changes(const struct changes *c, const struct data *d, enum format format)
{
	const char *columns[] = { "model", "page_size", "batch",  "phase", "choice",
				  "was",   "is",        "was_us", "is_us", "ratio" };
	struct table *t = table_new(format, columns, (int)COUNT(columns));
	for (int i = 0; t && i < c->n; i++) {
		const struct change *x = &c->v[i];
		const struct measured *m = &d->v[x->scenario];
		char words[MAX_CHOICE_TEXT];
		choice_words(&d->choice[x->choice], words);
		table_text(t, m->model);
		table_number(t, m->shape.page_size, 0);
		table_text(t, m->batch_text);
		table_text(t, phase_name((int)x->phase));
		table_text(t, words);
		table_text(t, outcome_name(x->was->outcome));
		table_text(t, outcome_name(x->is->outcome));
		table_number(t, x->was->median_us, 3);
		table_number(t, x->is->median_us, 3);
		table_number(t, x->ratio, 3);
		table_end_row(t);
	}
	if (t)
		table_print(t, stdout);
}

static int diff_databases(const struct options *o, const char *gpu)
{
	struct data *d[2] = { data_load(o->path[0], gpu), NULL };
	struct changes c = { 0 };
	int code = EXIT_USAGE;
	d[1] = d[0] ? data_load(o->path[1], gpu) : NULL;
	if (d[1] && d[0]->n && d[1]->n) {
		const int done = compare_data(&c, d[0], d[1]);
		code = done ? EXIT_DONE : EXIT_CHECK;
		if (done && c.n)
			qsort(c.v, (size_t)c.n, sizeof *c.v, by_size);
		if (done && o->format != FORMAT_JSON)
			printf("# %d cells in both, %d changed, geomean ratio %.4f; only in A %d, "
			       "only in B %d\n",
			       c.both, c.n, c.timed ? exp(c.logs / c.timed) : 1.0, c.only[0],
			       c.only[1]);
		if (done)
			print_changes(&c, d[0], o->format);
	}
	free(c.v);
	data_free(d[0]);
	data_free(d[1]);
	return code;
}

static int is_database(const char *path)
{
	static const char magic[] = "SQLite format 3";
	char head[sizeof magic] = "";
	FILE *in = fopen(path, "rb");
	if (!in)
		return 0;
	const size_t n = fread(head, 1, sizeof head, in);
	fclose(in);
	return n == sizeof head && !memcmp(head, magic, sizeof magic);
}

/* "results/h200.sqlite" -> "h200" */
static void gpu_of_path(const char *path, char gpu[16])
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	snprintf(gpu, 16, "%.*s", (int)strcspn(name, "."), name);
}

int cmd_diff(int argc, char **argv)
{
	struct options o = { .format = FORMAT_TABLE };
	char gpu[16];
	argp_err_exit_status = EXIT_USAGE;
	argp_parse(&help, argc, argv, 0, NULL, &o);
	const int databases = is_database(o.path[0]) + is_database(o.path[1]);
	if (databases == 1) {
		complain("%s and %s: two headers or two databases are needed", o.path[0],
			 o.path[1]);
		return EXIT_USAGE;
	}
	if (!databases)
		return diff_headers(&o);
	gpu_of_path(o.path[0], gpu);
	return diff_databases(&o, o.gpu ? o.gpu : gpu);
}
