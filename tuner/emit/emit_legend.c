/* emit_legend.c - writes the comment on top of a header: provenance, scores and a legend. */
#include "kernels/device/shared/gpu_names.h"
#include "writing.h"
#include "harness/scenario/scenario.h"
#include "harness/store/store.h"
#include "tuner/data/data.h"
#include "tuner/eval/eval.h"
#include "tuner/forest/forest.h"
#include "tuner/policy/policy.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int count_split(const struct data *d, int training)
{
	int n = 0;
	for (int s = 0; s < d->n; s++)
		n += training ? data_is_training(&d->v[s])
			      : split_is_held_out(d->v[s].split) && !split_is_gate(d->v[s].split);
	return n;
}

/* Training scenarios that were translated from another GPU. */
static int count_translated(const struct data *d)
{
	int n = 0;
	for (int s = 0; s < d->n; s++)
		n += data_is_training(&d->v[s]) && d->v[s].is_translated;
	return n;
}

static void emit_learned(const struct emitter *e)
{
	const struct data *d = e->d;
	const int learned = count_split(d, 1), held_out = count_split(d, 0);
	const int translated = count_translated(d);
	if (!d->prior[0])
		fprintf(e->out, " *   learned   from %d scenarios, %d held out\n", learned,
			held_out);
	else
		fprintf(
		    e->out,
		    " *   learned   from %d scenarios measured here and %d of %s's, translated; "
		    "%d held out\n"
		    " *   prior     %s, database %s\n",
		    learned - translated, translated, d->prior, held_out, d->prior, d->prior_hash);
	if (d->notes)
		fputs(d->notes, e->out);
}

/* Bands as in noise_band. */
static void emit_noise(const struct emitter *e)
{
	static const char *const bands[NOISE_BANDS] = { "below 20 us", "below 200 us", "above" };
	const struct noise *n = &e->d->noise;
	for (int b = 0; b < NOISE_BANDS; b++)
		fprintf(e->out, " *   %-9s %.2f %% %s, by %d A/A pairs\n", b ? "" : "noise",
			100 * n->floor[b], bands[b], n->pairs[b]);
}

/* The number of scored scenarios with pass B times. */
static void emit_passes(const struct emitter *e)
{
	struct score s;
	int again = 0;
	for (int i = 0; i < e->d->n; i++) {
		const signed char *of = &e->d->again[i * NUM_PHASES];
		again += of[PHASE_ALL] || of[PHASE_PREFILL] || of[PHASE_DECODE];
	}
	if (!score_policy(e->d, POLICY_TREE, e->f, NULL, &s))
		return;
	fprintf(e->out, " *   judged    by times of a second pass in %d of %d scenarios", again,
		s.n);
	if (again)
		fprintf(e->out, "; it lacks %d of the picks", s.unconfirmed);
	putc('\n', e->out);
}

static void emit_making(const struct emitter *e)
{
	for (int t = DECIDE_PREFILL; t <= DECIDE_DECODE; t++) {
		const struct making *m = &e->f->making[t];
		if (!m->portfolio.n)
			continue;
		fprintf(e->out, " *   %-9s best of 1, 2, ... choices:", decision_names[t]);
		for (int k = 0; k < m->portfolio.n; k++)
			fprintf(e->out, "%s %.3f", k == 8 ? "\n *            " : "",
				m->portfolio.mean[k]);
		if (m->exact > 0)
			fprintf(
			    e->out,
			    "\n *             trees of depth %d: %.4f at best, %.4f by look-ahead; "
			    "this one %.4f",
			    CERTIFIED, m->exact, m->method, m->made);
		putc('\n', e->out);
	}
}

/* Explains "balance(...)" if a choice uses it. */
static void emit_formulas(const struct emitter *e)
{
	int used = 0;
	for (int i = 0; i < e->f->num_choices; i++)
		used |= config_is_formula(&e->f->choice[i].config, e->f->choice[i].kernel->space);
	if (used)
		fputs(
		    " *\n"
		    " * SEGMENTS=balance(slots, start, launch, merge): of the axis's values v that "
		    "are\n"
		    " * legal for the batch the one, the smallest of equals, that makes least of\n"
		    " *\n"
		    " *   ceil(B v / (units slots)) (mean / v + start) + (longest - mean) / v\n"
		    " *     + (v > 1 ? launch : 0) + merge v\n"
		    " *\n"
		    " * waves of blocks, each as long as the keys of a segment; the last block of "
		    "the\n"
		    " * longest sequence; the reduction. In keys, rounded down. B: blocks at v = "
		    "1;\n"
		    " * slots: blocks that a unit runs at a time, 0: as many of this choice as "
		    "its\n"
		    " * shared memory holds; mean: the lesser of mean_seq and keys_per_query; "
		    "longest:\n"
		    " * max_seq.\n",
		    e->out);
}

// clang-format off
static const char costs_words[] =
    " *\n"
    " * SEGMENTS=fitted: of the axis's values v that are legal for the batch the one, the\n"
    " * smallest of equals, that costs least by the choice's row of SEGMENTS at the head size\n"
    " * (of others the next larger one, else the largest):\n"
    " *\n"
    " *   path K(v) + (v > 1 ? split + segments v + merge v R : 0)\n"
    " *\n"
    " * in fs, fitted to the times of training scenarios. R: query tokens x query heads. K(v):\n"
    " * keys of the slot that finishes last, of units x slots. With n blocks of `mean` keys\n"
    " * (of a Q block / v, up to whole tiles, and `start` more), the longest of `longest`:\n"
    " *\n"
    " *   n <= units slots   longest\n"
    " *   else               mean n / (units slots) + what a last wave lacks + longest - mean,\n"
    " *                      and no less than longest\n";
// clang-format on

/* Explains SEGMENTS=fitted if a choice uses it; kernels/segments.h has the details. */
static void emit_costs_words(const struct emitter *e)
{
	if (!e->f->num_costs)
		return;
	fputs(costs_words, e->out);
}

static void emit_slowdown(FILE *out, double v)
{
	if (isfinite(v))
		fprintf(out, " %7.3f", v);
	else
		fprintf(out, "       -");
}

static void emit_score_row(const struct emitter *e, enum policy policy, const struct pick *picks,
			   const char *split)
{
	struct score s;
	if (!score_picks(e->d, picks, split, &s) || !s.n)
		return;
	fprintf(e->out, " *   %-11s %-20s %9d %7d", policy_names[policy], split, s.n, s.invalid);
	emit_slowdown(e->out, s.timed.geomean);
	emit_slowdown(e->out, s.timed.p95);
	emit_slowdown(e->out, s.timed.worst);
	fprintf(e->out, " %10.1f\n", 100 * s.within5);
}

/* The policies in the header's table; `attune eval` prints all. */
static const enum policy shown[] = { POLICY_TREE, POLICY_BEST_FIXED, POLICY_VLLM_RULE,
				     POLICY_DEFAULT };

static void emit_scores(const struct emitter *e)
{
	const char *splits[MAX_SPLITS];
	const int n = data_splits(e->d, splits);
	struct pick *picks = calloc((size_t)e->d->n + 1, sizeof *picks);
	fprintf(e->out, " *\n * Slowdown against the fastest of all that was measured, of picks "
			"that have a time:\n"
			" *\n"
			" *   policy      split                scenarios no time geomean     p95   "
			"worst within 5 %%\n");
	for (size_t p = 0; picks && p < COUNT(shown); p++)
		if (policy_picks(e->d, shown[p], e->f, picks))
			for (int i = 0; i < n; i++)
				if (shown[p] == POLICY_TREE || !strcmp(splits[i], "heldout"))
					emit_score_row(e, shown[p], picks, splits[i]);
	free(picks);
}

void emit_top(const struct emitter *e)
{
	const struct run_info *run = &e->d->run;
	const struct device_info *dev = &run->device;
	FILE *out = e->out;
	fprintf(out, "/* attune_%s.h - generated by `attune induce --gpu %s`: do not edit.\n *\n",
		e->f->gpu, e->f->gpu);
	fprintf(out, " *   device    %s, %s, %d %s\n", dev->name, dev->arch, dev->units,
		dev->backend == BACKEND_CPU         ? "threads"
		: strncmp(dev->arch, "gfx", 3) == 0 ? "CUs"
						    : "SMs");
	if (device_is_emulated(dev))
		fputs(" *             nothing here is a time: for tests of the tools alone\n", out);
	fprintf(out, " *   driver    %s, toolkit %s\n", dev->driver, run->toolkit);
	fprintf(out, " *   database  %s, protocol %s\n", e->d->hash, e->d->protocol);
	emit_learned(e);
	emit_passes(e);
	emit_noise(e);
	emit_making(e);
	emit_scores(e);
	emit_formulas(e);
	emit_costs_words(e);
	fputs(" *\n"
	      " * CHOICE(id, name, kernel, tunables): what leaves name, the most used first.\n"
	      " * BINARY(kernel, head sizes, types, tunables): what the measured shapes make of "
	      "those\n"
	      " * that can reach them.\n"
	      " * At a leaf: training scenarios that end there, their geomean slowdown (of the\n"
	      " * whole plan, the other part at its best) and what 95 % of them stay below, the\n"
	      " * geomean of the next best, and a remark. guarded: somewhere in the leaf's\n"
	      " * box a rule of the choice is broken; the library asks it at run time and then\n"
	      " * takes the defaults, which are legal there.\n"
	      " * The overlap is asked of batches with prefills and decodes. A choice that it "
	      "returns\n"
	      " * runs the prefills, side by side with the decodes; one of a fused kernel runs "
	      "both.\n",
	      out);
	if (forest_says_early(e->f))
		fputs(" * The early function is asked of parts whose choice has a tunable EARLY. "
		      "It returns\n"
		      " * the value for callers that let launches begin early. Its slowdowns are "
		      "to the best\n"
		      " * value.\n",
		      out);
	fputs(" */\n", out);
}
