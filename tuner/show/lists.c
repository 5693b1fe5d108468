/* lists.c - `attune show --best`, `--peers` and `--kernels`. */
#include "show.h"
#include "harness/base/base.h"
#include "tuner/base/base.h"
#include "tuner/compare/peers.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
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

/* How one peer, or the fastest of all, stands to the fastest plan of ours. */
struct standing {
	double sum; /* of log ratios */
	int n, ours_ahead;
};

static void stand(struct standing *s, double ratio)
{
	s->sum += log(ratio);
	s->ours_ahead += ratio > 1;
	s->n++;
}

/* note: begins with its separator, or is empty. */
static void standing_print(const struct standing *s, const char *name, const char *version,
			   const char *note)
{
	if (s->n)
		fprintf(stderr,
			"# %-12s %.3f x ours, geometric mean of %d; ours is ahead on %d%s%s%s\n",
			name, exp(s->sum / s->n), s->n, s->ours_ahead, *version ? "; " : "",
			version, note);
}

/* Such a kernel computes less exactly than attune's. */
static const char *peer_note(const struct peers *peers, int peer)
{
	return peers->e4m3_math[peer] ? "; q and weights in E4M3" : "";
}

static void peers_row(struct table *t, const struct data *d, const struct forest *f, int s,
		      const struct peers *peers, const struct peer_time *p, enum format format)
{
	const struct measured *m = &d->v[s];
	struct pick pick;
	char peer[64];
	forest_pick(d, f, s, &pick);
	const double us = data_plan_time(d, s, &pick), best = data_oracle(d, s);
	table_add(t, "%s %d", m->model, m->shape.page_size);
	batch_cell(t, m->batch_text, format);
	snprintf(peer, sizeof peer, "%s%s", peers->name[p->peer], peer_note(peers, p->peer));
	table_add(t, "%.3f %.3f %.3f %s %.3f\n", best, us, p->us, peer, p->us / best);
}

int show_peers(const struct data *d, const struct forest *f, const struct peers *peers,
	       const char *model, enum format format)
{
	const char *columns[] = { "model",     "page_size", "batch", "best_us",
				  "header_us", "peer_us",   "peer",  "ratio" };
	struct table *t = table_new(format, columns, (int)COUNT(columns));
	struct standing all = { 0 }, of[MAX_PEERS] = { { 0 } };
	double gain = 0; /* sum of logs: of the fastest of all to ours */
	if (!t)
		return 0;
	for (int s = 0; s < d->n; s++) {
		const struct measured *m = &d->v[s];
		const struct peer_time *p = peers_fastest(peers, m, -1);
		if (!p || (model && strcmp(model, m->model)) || !isfinite(data_oracle(d, s)))
			continue;
		peers_row(t, d, f, s, peers, p, format);
		stand(&all, p->us / data_oracle(d, s));
		gain += fmin(0, log(p->us / data_oracle(d, s)));
		for (int k = 0; k < peers->num_names; k++) {
			const struct peer_time *one = peers_fastest(peers, m, k);
			if (one)
				stand(&of[k], one->us / data_oracle(d, s));
		}
	}
	table_print(t, stdout);
	fflush(stdout);
	standing_print(&all, "the fastest", "", "");
	for (int k = 0; k < peers->num_names; k++)
		standing_print(&of[k], peers->name[k], peers->version[k], peer_note(peers, k));
	if (all.n)
		fprintf(stderr, "# a choice among all kernels would take %.4f x ours alone\n",
			exp(gain / all.n));
	return 1;
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
