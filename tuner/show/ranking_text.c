/* SPDX-License-Identifier: Apache-2.0 */
/* ranking_text.c - `attune show` of one scenario, for people: the plan, its time and noise, and the
 * other measured plans. The second and the first pass are ranked separately. */
#include "show.h"
#include "harness/base/base.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/policy/policy.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 20 };

void show_note(enum format to, const char *format, ...)
{
	va_list ap;
	fputs(to == FORMAT_TABLE ? "# " : "", stdout);
	va_start(ap, format);
	vprintf(format, ap);
	va_end(ap);
	puts(to == FORMAT_TABLE ? "" : "\n");
}

/* ---- the plan ------------------------------------------------------------------------------- */
void decided_words(const struct decided *made, char *text, size_t size)
{
	char a[MAX_CHOICE_TEXT] = "", b[MAX_CHOICE_TEXT] = "";
	if (made->prefill.kernel)
		choice_words(&made->prefill, a);
	if (made->decode.kernel)
		choice_words(&made->decode, b);
	if (made->join && *a && *b)
		parts_text(text, size, a, b, made->how);
	else
		snprintf(text, size, "%s", *a ? a : *b ? b : "nothing that runs here");
}

/* The pass that the pick's time is from. */
static const char *pass_words(const struct data *d, int s, const struct pick *p)
{
	int again = 0;
	for (int phase = 0; phase < NUM_PHASES; phase++)
		again |= measured_again(d, s, (enum phase)phase);
	if (!again)
		return "first pass; there is no second";
	return data_confirmed(d, s, p) ? "second pass" : "first pass; the second lacks it";
}

static void note_time(const struct data *d, const struct show *o, int s, const struct pick *p)
{
	const double us = data_plan_time(d, s, p), best = data_oracle(d, s);
	const struct cell *c = data_pick_cell(d, s, p);
	char spread[64] = "";
	if (!isfinite(us)) {
		show_note(o->format, "takes: not measured; the fastest measured plan takes %.3f us",
			  best);
		return;
	}
	if (c && isfinite(c->ci_us))
		snprintf(spread, sizeof spread, " +- %.3f (95 %%)", c->ci_us);
	show_note(o->format, "takes: %.3f us%s (%s), %.3f x the fastest, %.3f us", us, spread,
		  pass_words(d, s, p), us / best, best);
	show_note(o->format,
		  "noise: two times of one choice in one race differ by up to %.1f %%; smaller "
		  "differences are ties",
		  100 * data_noise(d, us));
}

void show_summary(const struct data *d, const struct forest *f, const struct show *o, int s)
{
	const struct measured *m = &d->v[s];
	char text[2 * MAX_CHOICE_TEXT + 64];
	struct decided made;
	struct pick pick;
	forest_make(d, f, m, &made);
	forest_pick(d, f, s, &pick);
	decided_words(&made, text, sizeof text);
	show_note(o->format, "%s, batch %s, page size %d, %s, split %s, on %s", m->model, o->batch,
		  m->shape.page_size, dtype_name(m->shape.dtype), m->split, d->gpu);
	show_note(o->format, "runs: %s", text);
	note_time(d, o, s, &pick);
}

/* ---- the measured plans --------------------------------------------------------------------- */
enum { SECOND, FIRST, SUMS, EARLY, NUM_GROUPS };
static const struct group {
	const char *title;
	int least; /* rows reserved for it */
} groups[NUM_GROUPS] = {
	[SECOND] = { "Second pass: the fastest of the first, measured again in another session. "
		     "These times count" },
	[FIRST] = { "First pass: all candidates, and the pick's time of that pass. The least of "
		    "many times is partly luck, so these count only without a second pass",
		    .least = 6 },
	[SUMS] = { "Sums of a prefill and a decode part that were measured separately: estimates "
		   "of plans",
		   .least = 2 },
	[EARLY] = { "Launches that begin early, if the caller allows it. The ratio is to the same "
		    "choice in turn, in the same race",
		    .least = 2 },
};

static int group_of(const struct way *way)
{
	if (*way->pass == 'E')
		return EARLY;
	if (way->timed.of[1])
		return SUMS;
	return *way->pass == 'B' ? SECOND : FIRST;
}

static int is_pick(const struct way *way)
{
	return way->word && !strcmp(way->word, "pick");
}

/* The optional columns of a table. */
struct form {
	int plans, millijoules, passes;
};

static struct form form_of(const struct ways *w, int group)
{
	struct form f = { .passes = group == SUMS };
	const char *plan = NULL;
	for (int i = 0; i < w->n; i++) {
		if (group_of(&w->v[i]) != EARLY) {
			plan = plan ? plan : w->v[i].plan;
			f.plans |= strcmp(w->v[i].plan, plan) != 0;
		}
		f.millijoules |= w->v[i].cell.power_of > POWER_AROUND;
	}
	f.plans &= group != EARLY && group != SUMS;
	return f;
}

static struct table *new_table(enum format format, struct form form)
{
	static const char *columns[16];
	int n = 0;
	columns[n++] = "rank", columns[n++] = "vs_pick", columns[n++] = "ratio";
	if (form.passes)
		columns[n++] = "pass";
	if (form.plans)
		columns[n++] = "plan";
	columns[n++] = "kernel", columns[n++] = "variant", columns[n++] = "median_us";
	columns[n++] = "ci_us", columns[n++] = "gbps", columns[n++] = "tflops";
	if (form.millijoules)
		columns[n++] = "mj";
	return table_new(format, columns, n);
}

static void way_row(struct table *t, const struct way *way, struct form form, int rank)
{
	const struct cell *c = &way->cell;
	const int ok = c->outcome == OUTCOME_OK;
	table_add(t, "%.0f %s %.3f", ok ? rank : NAN, ok ? way->word : outcome_name(c->outcome),
		  way->ratio);
	if (form.passes)
		table_text(t, way->pass);
	if (form.plans)
		table_text(t, way->plan);
	table_add(t, "%s %s %.3f %.3f %.1f %.1f", way->kernel, way->variant, c->median_us, c->ci_us,
		  c->gbps, c->tflops);
	if (form.millijoules)
		table_number(t, c->power_of > POWER_AROUND ? 1e3 * c->joules : NAN, 4);
	table_end_row(t);
}

/* Prints the first `most` rows, always with the pick. */
static void print_group(const struct ways *w, const struct show *o, int group, int most)
{
	const struct form form = form_of(w, group);
	struct table *t = new_table(o->format, form);
	int pick = 0, rank = 0;
	for (int i = 0, at = 0; i < w->n; i++) {
		at += group_of(&w->v[i]) == group;
		if (group_of(&w->v[i]) == group && is_pick(&w->v[i]))
			pick = at;
	}
	for (int i = 0; i < w->n; i++) {
		if (group_of(&w->v[i]) != group)
			continue;
		rank++;
		if (rank <= most - (pick > most) || rank == pick)
			way_row(t, &w->v[i], form, rank);
	}
	table_print(t, stdout);
}

/* Shares MOST_ROWS among the groups; rows that one leaves go to the next. */
static void share_rows(const int n[NUM_GROUPS], int all, int most[NUM_GROUPS])
{
	int left = MOST_ROWS;
	for (int g = 0; g < NUM_GROUPS; g++) {
		int kept = 0;
		for (int k = g + 1; k < NUM_GROUPS; k++)
			kept += n[k] < groups[k].least ? n[k] : groups[k].least;
		most[g] = n[g] < left - kept || all ? n[g] : left - kept;
		left -= most[g];
	}
}

int show_passes(const struct data *d, const struct forest *f, const struct show *o, int s)
{
	int n[NUM_GROUPS] = { 0 }, most[NUM_GROUPS], hidden = 0, failed = 0;
	struct ways w;
	const int done = ways_of(&w, d, f, s, 1);
	for (int i = 0; done && i < w.n; i++) {
		n[group_of(&w.v[i])]++;
		failed += w.v[i].cell.outcome != OUTCOME_OK;
	}
	share_rows(n, o->all, most);
	for (int g = 0; done && g < NUM_GROUPS; g++) {
		hidden += n[g] - most[g];
		if (!n[g])
			continue;
		puts("");
		show_note(o->format, "%s. %d, fastest first:", groups[g].title, n[g]);
		print_group(&w, o, g, most[g]);
	}
	if (done && hidden) {
		puts("");
		show_note(o->format, "%d more: --all", hidden);
	}
	if (done && failed)
		show_note(o->format, "%d failed; they come last", failed);
	free(w.v);
	return done;
}
