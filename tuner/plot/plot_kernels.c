/* plot_kernels.c - the kernels picture: latency by tokens, each kernel with its best variant.
 * Batches are binned by powers of two of their tokens. */
#include "plot.h"
#include "harness/scenario/scenario.h"
#include "tuner/data/data.h"
#include "tuner/policy/policy.h"
#include <math.h>
#include <stdio.h>

enum { MAX_KERNELS = 16, MAX_BINS = 40, NUM_SHARES = 3 };

/* Decodes among the sequences of a batch, in percent. */
static int decode_share(const struct measured *m)
{
	const struct attune_features *f = &m->part[PHASE_ALL].f;
	return f->num_seqs ? (int)(100 * f->decode_seqs / f->num_seqs) : 0;
}

struct bin {
	int n, counted[MAX_KERNELS];
	double tokens, us, ratio[MAX_KERNELS]; /* sums of logarithms; ratio: to the tree */
};

/* The best time of one kernel that runs the whole batch in one launch. */
static double kernel_time(const struct data *d, int scenario, const struct kernel *k)
{
	const struct measured *m = &d->v[scenario];
	const enum phase phase = !m->has[PHASE_PREFILL]  ? PHASE_DECODE
				 : !m->has[PHASE_DECODE] ? PHASE_PREFILL
							 : PHASE_ALL;
	double best = INFINITY;
	struct choice_iter i = choices_of(d, scenario, phase, PHASE_ALL);
	while (choices_next(&i))
		if (d->choice[i.choice].kernel == k)
			best = fmin(best, cells_part_time(d, scenario, i.cells));
	return best;
}

static int has_times(const struct plotted *p, const struct kernel *k)
{
	int s = p->first;
	while (s < p->end && !isfinite(kernel_time(p->data, s, k)))
		s++;
	return s < p->end;
}

static int list_kernels(const struct plotted *p, const struct kernel *list[MAX_KERNELS])
{
	int n = 0;
	for (const struct kernel *k = attune_kernels; k->name; k++)
		if (k->backend == p->data->run.device.backend && k->selectable && n < MAX_KERNELS &&
		    has_times(p, k))
			list[n++] = k;
	return n;
}

static void bin_add(struct bin *b, const struct plotted *p, int scenario, double tokens,
		    const struct kernel *const *kernel, int num_kernels)
{
	const double us = plotted_time(p, POLICY_TREE, scenario);
	b->n++;
	b->tokens += log(tokens);
	b->us += log(us);
	for (int k = 0; k < num_kernels; k++) {
		const double alone = kernel_time(p->data, scenario, kernel[k]);
		if (isfinite(alone)) {
			b->counted[k]++;
			b->ratio[k] += log(alone / us);
		}
	}
}

static double total_tokens(const struct measured *m)
{
	const attune_batch *b = &m->batch->view;
	double sum = 0;
	for (int i = 0; i < b->num_seqs; i++)
		sum += b->seq_lens[i];
	return sum;
}

/* The work of a whole prompt grows with the square of its tokens; the work of a chunk also depends
 * on its context. A curve over tokens therefore shows whole prompts only. */
static int has_chunk(const struct measured *m)
{
	const attune_batch *b = &m->batch->view;
	for (int i = 0; i < b->num_seqs; i++)
		if (b->query_start[i + 1] - b->query_start[i] < b->seq_lens[i])
			return 1;
	return 0;
}

/* A kernel gets a point in a bin if at least half of the batches there have its time. */
static int bins_print(const struct bin *bins, int num_kernels, FILE *rows, struct range *tokens,
		      struct range *times)
{
	int printed = 0;
	for (const struct bin *b = bins; b < bins + MAX_BINS; b++) {
		if (!b->n)
			continue;
		fprintf(rows, "%g %g", exp(b->tokens / b->n), exp(b->us / b->n));
		range_stretch(tokens, exp(b->tokens / b->n));
		range_stretch(times, exp(b->us / b->n));
		for (int k = 0; k < num_kernels; k++) {
			const double us = 2 * b->counted[k] < b->n
					      ? NAN
					      : exp(b->us / b->n + b->ratio[k] / b->counted[k]);
			fprintf(rows, " %g", us);
			range_stretch(times, us);
		}
		fputc('\n', rows);
		printed++;
	}
	if (!printed)
		fputs("nan\n", rows);
	fputs("\n\n", rows);
	return printed;
}

int series_kernels(const struct plotted *p, FILE *rows, FILE *settings)
{
	const struct kernel *kernel[MAX_KERNELS];
	char names[MAX_KERNELS][24];
	const int n = list_kernels(p, kernel);
	struct bin bins[NUM_SHARES][MAX_BINS] = { 0 };
	struct range times = NO_RANGE;
	int printed = 0, lo = 100, hi = 0, filled[NUM_SHARES];
	for (int s = p->first; s < p->end; s++) {
		const int share = decode_share(&p->data->v[s]);
		const double tokens = total_tokens(&p->data->v[s]);
		if (!(tokens >= 1) || !isfinite(plotted_time(p, POLICY_TREE, s)) ||
		    (!share && has_chunk(&p->data->v[s])))
			continue;
		if (share > 0 && share < 100) {
			lo = share < lo ? share : lo;
			hi = share > hi ? share : hi;
		}
		bin_add(&bins[share == 100 ? 2 : share > 0][lround(log2(tokens))], p, s, tokens,
			kernel, n);
	}
	for (int i = 0; i < NUM_SHARES; i++) {
		struct range tokens = NO_RANGE;
		char axis[24];
		filled[i] = bins_print(bins[i], n, rows, &tokens, &times);
		printed += filled[i];
		snprintf(axis, sizeof axis, "tokens%d", i);
		range_print(settings, axis, tokens);
	}
	range_print(settings, "us", times);
	filled_print(settings, filled, NUM_SHARES);
	for (int k = 0; k < n; k++)
		snprintf(names[k], sizeof names[0], "%s", kernel[k]->name);
	words_print(settings, "kernels", names, n);
	fprintf(settings, "share_lo = %d\nshare_hi = %d\n", lo, hi);
	return printed;
}
