/* lists.c - `attune show --best`, `--peers` and `--kernels`. */
#include "show.h"
#include "harness/base/base.h"
#include "harness/scratch/scratch.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include "tuner/base/base.h"
#include "tuner/compare/peers.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- each scenario's fastest plan and the header's ----------------------------------- */
int show_best(const struct data *d, const struct forest *f, const char *model, enum format format)
{
	const char *columns[] = { "model",   "page_size", "batch", "split",
				  "best_us", "header_us", "ratio", "best" };
	struct table *t = table_new(format, columns, (int)COUNT(columns));
	if (!t)
		return 0;
	for (int s = 0; s < d->n; s++) {
		const struct measured *m = &d->v[s];
		char words[2 * MAX_CHOICE_TEXT + 32];
		struct pick pick;
		if ((model && strcmp(model, m->model)) || !isfinite(data_oracle(d, s)))
			continue;
		const double best = data_oracle(d, s);
		const struct decided fastest = data_fastest_plan(d, s);
		decided_words(&fastest, words, sizeof words);
		forest_pick(d, f, s, &pick);
		const double us = data_plan_time(d, s, &pick);
		table_add(t, "%s %d", m->model, m->shape.page_size);
		batch_cell(t, m->batch_text, format);
		table_add(t, "%s %.3f %.3f %.3f %s\n", m->split, best, us, us / best, words);
	}
	table_print(t, stdout);
	return 1;
}

/* ---- times of other projects' kernels ------------------------------------------------ */

EMBED(ours_schema, "tuner/show/lists.sql")

static int add_ours(struct scratch *t, const struct data *d, const struct forest *f,
		    const char *model)
{
	int done = 1;
	for (int s = 0; done && s < d->n; s++) {
		const struct measured *m = &d->v[s];
		struct pick pick;
		if ((model && strcmp(model, m->model)) || !isfinite(data_oracle(d, s)))
			continue;
		forest_pick(d, f, s, &pick);
		done = scratch_add(t, "ours", "isiisdd", s, m->model, m->shape.page_size,
				   (int)m->shape.kv_dtype, m->batch_text, data_oracle(d, s),
				   data_plan_time(d, s, &pick));
	}
	return done;
}

static int say_line(void *arg, int statement, const struct scratch_value *v, int columns)
{
	(void)arg, (void)statement, (void)columns;
	return fprintf(stderr, "# %s\n", v[0].text) > 0;
}

static int count_rows(void *arg, int statement, const struct scratch_value *v, int columns)
{
	(void)statement, (void)columns;
	*(long long *)arg = v[0].integer;
	return 1;
}

static int ask_peers(struct scratch *t, const char *db, enum format format)
{
	static const char *const columns[] = { "model",     "page_size", "batch", "best_us",
					       "header_us", "peer_us",   "peer",  "ratio" };
	long long peers = 0;
	if (!scratch_ask(t, "lists.sql", "SELECT count(*) FROM peer", count_rows, &peers))
		return EXIT_CHECK;
	if (!peers) {
		complain("%s: no plug-in raced there; attune --plugin FILE sweep makes such rows",
			 db);
		return EXIT_USAGE;
	}
	const int n = show_answer(t, "SELECT * FROM rows",
				  table_new(format, columns, COUNT(columns)), format, INT_MAX);
	fflush(stdout);
	return n >= 0 && scratch_ask(t, "lists.sql",
				     "SELECT line FROM standing; SELECT line FROM together",
				     say_line, NULL)
		   ? EXIT_DONE
		   : EXIT_CHECK;
}

int show_peers(const struct data *d, const struct forest *f, const char *db, const char *model,
	       enum format format)
{
	struct scratch *t = scratch_new(ours_schema);
	int code = EXIT_USAGE;
	if (t && peers_tables(t) && peers_read(t, d->gpu, db))
		code = add_ours(t, d, f, model) ? ask_peers(t, db, format) : EXIT_CHECK;
	scratch_free(t);
	return code;
}

/* ---- kernels with their tunables and rules ------------------------------------------- */
static void kernel_row(struct table *t, const struct kernel *k, const char *kind, const char *name,
		       const char *values, const char *meaning)
{
	table_add(t, "%s %s %s", k->backend == BACKEND_CPU ? "cpu" : "gpu", k->name, kind);
	table_text(t, name); /* NULL in some rows */
	table_text(t, values);
	table_add(t, "%s\n", meaning);
}

static void axis_row(struct table *t, const struct kernel *k, const struct axis *a)
{
	char values[160];
	size_t n = 0;
	for (int i = 0; i < a->num_values && n < sizeof values; i++)
		n += (size_t)snprintf(values + n, sizeof values - n, "%s%d%s", i ? " " : "",
				      a->values[i], a->values[i] == a->dflt ? "*" : "");
	kernel_row(t, k, a->is_static ? "compiled in" : "at launch", a->name, values, a->about);
}

static void formula_rows(struct table *t, const struct kernel *k)
{
	const struct space *s = k->space;
	char text[FORMULA_TEXT];
	for (int i = 0; i < s->num_formulas; i++) {
		formula_text(text, &s->formulas[i]);
		kernel_row(t, k, "formula", s->axis[s->formula_axis].name, text,
			   "worked out for each batch: slots, start, launch, merge");
	}
}

int show_kernels(const char *gpu, enum format format)
{
	const char *columns[] = { "backend", "kernel", "kind", "name", "values", "meaning" };
	struct table *t = table_new(format, columns, (int)COUNT(columns));
	if (!t)
		return 0;
	for (const struct kernel *k = attune_kernels; k->name; k++) {
		if (gpu && (k->backend == BACKEND_CPU) != !strcmp(gpu, "cpu"))
			continue;
		kernel_row(t, k, k->selectable ? "kernel" : "helper", NULL, NULL, k->about);
		for (int i = 0; i < k->space->num_axes; i++)
			axis_row(t, k, &k->space->axis[i]);
		formula_rows(t, k);
		for (const char *const *r = k->space->rules; *r; r++)
			kernel_row(t, k, "rule", NULL, NULL, *r);
	}
	table_print(t, stdout);
	return 1;
}
