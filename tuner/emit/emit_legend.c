/* SPDX-License-Identifier: Apache-2.0 */
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

/* Larger means come from forbidden costs. */
#define MOST_SLOWDOWN 1e6

static int count_split(const struct data *d, int training)
{
	int n = 0;
	for (int s = 0; s < d->n; s++)
		n += training ? data_is_training(&d->v[s])
			      : split_is_held_out(d->v[s].split) && !split_is_gate(d->v[s].split);
	return n;
}

static void emit_learned(const struct emitter *e)
{
	const struct data *d = e->d;
	fprintf(e->out, " *   learned   from %d scenarios, %d held out\n", count_split(d, 1),
		count_split(d, 0));
	const int rows = e->f->making[0].by_settled + e->f->making[1].by_settled;
	if (rows)
		fprintf(
		    e->out,
		    " *   settled   %d batches by the library; rows that they put in order: %d\n",
		    d->num_settled, rows);
	if (e->f->notes)
		fputs(e->f->notes, e->out);
}

/* Bands as in data_noise. */
static void emit_noise(const struct emitter *e)
{
	static const char *const bands[NOISE_BANDS] = { "below 20 us", "below 200 us", "above" };
	const struct noise *n = &e->d->noise;
	for (int b = 0; b < NOISE_BANDS; b++)
		fprintf(e->out, "%s%.2f %% %s (%d%s)", b ? ", " : " *   noise     ",
			100 * n->floor[b], bands[b], n->pairs[b], b ? "" : " A/A pairs");
	putc('\n', e->out);
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
	fprintf(e->out, " *   scored    by second-pass times in %d of %d scenarios", again, s.n);
	if (again)
		fprintf(e->out, "; %d picks have first-pass times only", s.unconfirmed);
	putc('\n', e->out);
}

/* "-" for a mean of forbidden costs. */
static void emit_mean(FILE *out, int digits, double v)
{
	if (v < MOST_SLOWDOWN)
		fprintf(out, " %.*f", digits, v);
	else
		fputs(" -", out);
}

static void emit_making(const struct emitter *e)
{
	for (int t = DECIDE_PREFILL; t <= DECIDE_DECODE; t++) {
		const struct making *m = &e->f->making[t];
		if (!m->portfolio.n)
			continue;
		fprintf(e->out, " *   %-9s", decision_names[t]);
		if (m->made > 0) {
			fputs(" slowdown of this tree:", e->out);
			emit_mean(e->out, 4, m->made);
			fputs("; with", e->out);
		} else {
			fputs(" slowdown with", e->out);
		}
		fputs(" the best of 1, 2, ... choices for each scenario:", e->out);
		for (int k = 0; k < m->portfolio.n; k++) {
			fputs(k % 12 ? "" : "\n *            ", e->out);
			emit_mean(e->out, 3, m->portfolio.mean[k]);
		}
		putc('\n', e->out);
	}
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
	if (!score_where(e->d, picks, policy == POLICY_TREE ? NULL : picks, split, &s) || !s.n)
		return;
	fprintf(e->out, " *   %-11s %-20s %9d %7d", policy_names[policy], split, s.n, s.invalid);
	emit_slowdown(e->out, s.timed.geomean);
	emit_slowdown(e->out, s.timed.p95);
	emit_slowdown(e->out, s.timed.worst);
	fprintf(e->out, " %10.1f\n", 100 * s.within5);
}

/* The policies in the header's table; `attune eval` prints all. */
static const enum policy shown[] = { POLICY_TREE, POLICY_BEST_FIXED, POLICY_VLLM_TRITON,
				     POLICY_DEFAULT };

/* Parts of the training and of the held-out split are not shown: attune eval has them. */
static int is_shown(enum policy policy, const char *split)
{
	return !strcmp(split, "heldout") ||
	       (policy == POLICY_TREE && (!strcmp(split, "train") || !strcmp(split, "peers")));
}

static void emit_scores(const struct emitter *e)
{
	const char *splits[MAX_SPLITS];
	const int n = data_splits(e->d, splits);
	struct pick *picks = calloc((size_t)e->d->n + 1, sizeof *picks);
	fputs(" *\n"
	      " * Slowdown: time of a policy's plan / time of the fastest measured plan. no time: "
	      "plans\n"
	      " * that were not measured, left out of the other columns.\n"
	      " *\n"
	      " *   policy      split                scenarios no time geomean     p95   worst "
	      "within "
	      "5 %\n",
	      e->out);
	if (!picks)
		output_lost();
	for (size_t p = 0; picks && p < COUNT(shown); p++)
		if (policy_picks(e->d, shown[p], e->f, picks))
			for (int i = 0; i < n; i++)
				if (is_shown(shown[p], splits[i]))
					emit_score_row(e, shown[p], picks, splits[i]);
	free(picks);
}

/* Whether a leaf of the overlap tree leaves units to the decodes. */
static int spares(const struct tree *t)
{
	for (int i = 0; i < t->n; i++)
		if (t->v[i].feature < 0 && says_spares(t->v[i].action))
			return 1;
	return 0;
}

/* How to get from a batch to its kernels, and what else stands in the header. */
static void emit_use(const struct emitter *e)
{
	const char *gpu = e->f->gpu;
	fprintf(
	    e->out,
	    " *\n"
	    " * Queries of at most %d tokens are decodes, longer ones prefills. f: the features "
	    "(features.def)\n"
	    " * of either part, for overlap of the whole batch.\n"
	    " *   attune_%s_prefill(f), attune_%s_decode(f)   the choice that runs the part\n"
	    " *   attune_%s_list(choice)   its row of LISTS: itself, and what runs where it is not "
	    "legal\n"
	    " *   attune_%s_overlap(f)   how a batch with both parts runs:\n"
	    " *       serial       the prefills, then the decodes\n"
	    " *       one_launch   the prefills' choice runs the whole batch\n"
	    " *       streams      both parts at the same time, on two streams\n",
	    DECODE_MAX_QUERY, gpu, gpu, gpu, gpu);
	if (spares(&e->f->tree[DECIDE_OVERLAP]))
		fputs(" *       streams_sparing32   the same; the prefills' choice leaves 32 units "
		      "to the decodes\n",
		      e->out);
	fputs(
	    " *       a choice     of a fused kernel: it runs the whole batch; any other: it runs "
	    "the\n"
	    " *                    prefills while the decodes run on a second stream\n",
	    e->out);
	if (forest_says_early(e->f))
		fprintf(e->out,
			" *   attune_%s_early(f)   EARLY of a part's choice where launches may "
			"begin early\n",
			gpu);
}

static const char leaf_words[] =
    " *\n"
    " * Comment of a leaf: its training scenarios, their slowdown (geomean, p95) with the best "
    "choice "
    "for\n"
    " * the other part; next: the second-best choice; row settled: the fastest of the choice's "
    "row\n"
    " * each time. few: one or two scenarios. guarded: some batches of the leaf break a rule of "
    "the\n"
    " * choice; on these another one of its row runs.\n"
    " * SHAPES: measured head sizes and types, for which the choices are compiled. "
    "SEGMENTS=fitted, "
    "=balance:\n"
    " * the number of segments that costs least (kernels/segments.h).\n";

static const char portable_words[] =
    " *   serves    NVIDIA GPUs from sm_80 on that have no header of their own and no nearer one\n"
    " *   choices   that the smallest of them may run, sm_80 with 99 KiB of shared memory a "
    "block:\n"
    " *             from these alone the rules are learned, and the fastest plan has no others\n"
    " *   judged    on an H100: attune eval --gpu h100 --header generated/attune_portable.h. No\n"
    " *             GPU of sm_8x, sm_10x or sm_12x has timed them\n";

void emit_top(const struct emitter *e)
{
	const struct run_info *run = &e->d->run;
	struct device_info measured = run->device, *dev = &measured;
	FILE *out = e->out;
	char text[DEVICE_TEXT];
	fprintf(out, "/* attune_%s.h - generated by `attune induce --gpu %s`: do not edit.\n *\n",
		e->f->gpu, e->f->gpu);
	emit_example(e);
	snprintf(measured.arch, sizeof measured.arch, "%s", e->d->arch);
	device_text(text, dev);
	fprintf(out, " *   device    %s\n", text);
	if (e->d->is_portable)
		fputs(portable_words, out);
	if (device_is_emulated(dev))
		fputs(" *             emulated: no number here is a time; for tests of the tools "
		      "only\n",
		      out);
	fprintf(out, " *   driver    %s, toolkit %s\n", dev->driver, run->toolkit);
	fprintf(out, " *   database  %s, protocol %s\n", e->d->hash, e->d->protocol);
	emit_learned(e);
	emit_passes(e);
	emit_noise(e);
	emit_making(e);
	emit_scores(e);
	emit_use(e);
	fputs(leaf_words, out);
	fputs(" */\n", out);
}
