/* SPDX-License-Identifier: Apache-2.0 */
/* tune_sum.c - prints one line before a tune, the forecast of --dry-run, and the summary at the
 * end. `attune eval` prints the tables behind the summary. */
#include "tune.h"
#include "harness/base/base.h"
#include "harness/base/json_out.h"
#include "harness/scenario/scenario.h"
#include "harness/search/search.h"
#include "harness/sweep/sweep.h"
#include "harness/worker/worker.h"
#include "tuner/base/base.h"
#include "tuner/data/data.h"
#include "tuner/eval/eval.h"
#include "tuner/forest/forest.h"
#include "tuner/transfer/gate.h"
#include <math.h>
#include <stdio.h>

/* ---- words ---------------------------------------------------------------------------------- */

static const char *minutes(char text[32], double seconds)
{
	const long s = lround(seconds);
	snprintf(text, 32, "%ld:%02ld", s / 60, s % 60);
	return text;
}

static void print_rules(const struct tune *t)
{
	char text[RULES_TEXT];
	here_rules_text(&t->here, text, sizeof text);
	printf("%-10s%s%s; before: %s\n", "rules",
	       tune_taken(t) ? "installed " : "nothing was installed",
	       tune_taken(t) ? t->here.header : "", text);
	if (tune_taken(t) > 1)
		printf("          taken %d times, each against those of before; the last time:\n",
		       tune_taken(t));
	gate_print(stdout, &t->gate, "          ");
}

static void print_held_out(const struct tune *t, const struct held_out *h)
{
	char batch[BATCH_WORDS];
	printf("%-10s", "held out");
	if (!h->n) {
		printf("no scenario was measured with all rules; give more time (--budget)\n");
		return;
	}
	const struct measured *m = &t->own->v[h->worst_at];
	batch_words(batch, m->batch_text);
	printf("%.3f x the fastest measured; before %.3f, kernels' defaults %.2f (%d scenario%s); "
	       "worst %.2f: %s %s\n",
	       h->slowdown[INSTALLED], h->slowdown[BEFORE], h->slowdown[DEFAULTS], h->n,
	       h->n == 1 ? "" : "s", h->worst, m->model, batch);
}

/* What another order of the rows' members could still bring. */
static void print_left(const struct rows_left *left)
{
	printf("%-10s", "left");
	if (left->n < 2)
		printf("not known: no row was raced\n");
	else
		printf("at most %.1f %% by other members of the rows: what runs takes %.3f x the "
		       "fastest "
		       "of its row (95 %%: up to %.3f) in %d parts of batches\n",
		       100 * (left->most - 1), left->mean, left->most, left->n);
}

/* The parts add up to the whole. A tune ends early if no race is left. */
static void print_time(const struct tune *t)
{
	const double *s = t->spent_s;
	const double measuring = s[SPENT_CHECKING] + s[SPENT_UPLOADING] + s[SPENT_RACING];
	char all[32], budget[32];
	printf("%-10s%s of %s%s:", "time", minutes(all, t->took_s),
	       minutes(budget, t->deadline - t->began),
	       t->early_ran_out ? "" : ", then no race was left");
	for (int i = 0; i < NUM_SPENT; i++)
		printf("%s %s %.0f s", i ? "," : "", spent_words[i], s[i]);
	printf("; the device was busy %.0f s, %.0f %% of the measuring\n", t->sum.device_s,
	       measuring > 0 ? 100 * t->sum.device_s / measuring : 0);
}

/* How many scenarios of the tune's list have a time here, and in *of how many there are. Those of the
 * gate do not count: they are measured only where old and new rules differ. */
static int count_measured(const struct tune *t, int *of)
{
	int n = 0;
	*of = 0;
	for (int i = 0; i < t->list.n; i++) {
		const int counts = !split_is_gate(t->list.v[i].split);
		n += counts && tune_find(t->own, &t->list.v[i]) >= 0;
		*of += counts;
	}
	return n;
}

/* A smoke tune takes few of the sets' scenarios. */
static void print_next(const struct tune *t, int left)
{
	printf("%-10s", "next");
	if (left > 0 || t->o->preset == PRESET_SMOKE)
		printf("make tune PRESET=%s measures more scenarios; ",
		       t->o->preset == PRESET_SMOKE ? "quick" : "full");
	printf("attune eval --gpu %s prints the tables%s\n", t->here.gpu,
	       tune_taken(t) ? "; make tune UNDO=1 restores the previous rules" : "");
}

static void print_json(const struct tune *t, const struct held_out *h)
{
	static const char *const names[] = { "installed", "before", "defaults" };
	static const char *const spent[NUM_SPENT] = { "reading",   "opening",   "waiting",
						      "preparing", "compiling", "checking",
						      "uploading", "racing",    "learning" };
	struct json_out *o = out_new();
	int of;
	const int measured = count_measured(t, &of);
	out_object(o, NULL);
	out_text(o, "gpu", t->here.gpu);
	out_text(o, "database", t->here.db);
	out_text(o, "header", tune_taken(t) ? t->here.header : NULL);
	out_integer(o, "scenarios_measured", measured);
	out_integer(o, "scenarios", of);
	out_object(o, "gate");
	for (int g = 0; g < NUM_GATE_GROUPS; g++) {
		const struct gate_figures *f = &t->gate.group[g];
		out_object(o, gate_group_names[g]);
		out_integer(o, "taken", f->taken);
		out_integer(o, "scenarios", f->n);
		out_number(o, "ratio", f->ratio, 5);
		out_number(o, "low", f->low, 5);
		out_number(o, "high", f->high, 5);
		out_end(o);
	}
	out_end(o);
	out_object(o, "heldout");
	out_integer(o, "scenarios", h->n);
	for (int c = 0; c < NUM_CONTENDERS; c++)
		out_number(o, names[c], h->slowdown[c], 5);
	out_number(o, "worst", h->n ? h->worst : NAN, 5);
	out_end(o);
	out_object(o, "left");
	out_integer(o, "parts", t->left.n);
	out_number(o, "mean", t->left.mean, 5);
	out_number(o, "most", t->left.most, 5);
	out_end(o);
	out_object(o, "seconds");
	for (int i = 0; i < NUM_SPENT; i++)
		out_number(o, spent[i], t->spent_s[i], 3);
	out_number(o, "all", t->took_s, 3);
	out_end(o);
	out_number(o, "device_seconds", t->sum.device_s, 2);
	out_end(o);
	out_print(o, 2, stdout);
}

int tune_judge(struct tune *t)
{
	return held_out_judge(t->own, &t->installed, tune_before(t), &t->held_out) &&
		       rows_left(&t->left, t->own, &t->installed)
		   ? EXIT_DONE
		   : EXIT_CHECK;
}

void tune_print_summary(const struct tune *t)
{
	long long failed = 0;
	for (int i = 0; i < NUM_OUTCOMES; i++)
		failed += i == OUTCOME_NOISY ? 0 : t->sum.failed[i];
	if (t->o->format == FORMAT_JSON) {
		print_json(t, &t->held_out);
		return;
	}
	int of;
	const int measured = count_measured(t, &of);
	printf("%-10s%d of the %d scenarios of preset %s measured on this machine: %lld times, "
	       "%lld noisy, %lld failed; in %s\n",
	       t->here.gpu, measured, of, preset_names[t->o->preset], t->sum.measured,
	       (long long)t->sum.failed[OUTCOME_NOISY], failed, t->here.db);
	print_rules(t);
	print_held_out(t, &t->held_out);
	print_left(&t->left);
	print_time(t);
	print_next(t, of - measured);
}

/* ---- before ---------------------------------------------------------------------------------- */

static void count_splits(const struct tune *t, int *gate, int *held)
{
	*gate = *held = 0;
	for (int i = 0; i < t->list.n; i++) {
		const char *split = t->list.v[i].split;
		*gate += split_is_gate(split);
		*held += !split_is_gate(split) && split_is_held_out(split);
	}
}

void tune_print_plan(const struct tune *t, double seconds)
{
	char text[RULES_TEXT], time[32], device[DEVICE_TEXT];
	int gate, held;
	here_rules_text(&t->here, text, sizeof text);
	count_splits(t, &gate, &held);
	device_text(device, &t->hello.info);
	complain(
	    "%s (%s%s%s), %s min, from %s; %d scenarios: %d to learn from, %d for the gate, %d "
	    "held out",
	    t->here.gpu, device, *t->devices ? ", " : "", t->devices, minutes(time, seconds), text,
	    t->list.n, t->list.n - gate - held, gate, held);
}

/* Bytes of a database row and of a compiled kernel, rounded up from the committed databases and
 * from the cache after a quick tune. */
enum { ROW_BYTES = 100, CPU_BINARY_BYTES = 40000, GPU_BINARY_BYTES = 100000 };

void tune_print_forecast(const struct tune *t, const struct sweep_forecast *rows,
			 const struct sweep_forecast *f, double seconds)
{
	char time[32];
	const int on_cpu = t->hello.info.backend == BACKEND_CPU;
	const double binary = on_cpu ? CPU_BINARY_BYTES : GPU_BINARY_BYTES;
	if (rows->races)
		printf("%s: first %d races of rows, %lld times, %d binaries to compile\n",
		       t->here.gpu, rows->races, rows->cells, rows->binaries);
	printf("%s: at most %d races of %d scenario parts, %d binaries to compile, %s min, %.0f "
	       "MB on disk\n",
	       t->here.gpu, f->races, f->parts, f->binaries, minutes(time, seconds),
	       1e-6 * (f->binaries * binary + (double)f->cells * ROW_BYTES));
}
