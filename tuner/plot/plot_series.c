/* plot_series.c - the numbers behind the pictures: blocks of rows that two blank
 * lines separate (gnuplot's index), and the words that name the blocks. */
#include "plot.h"
#include "harness/base/base.h"
#include "harness/scenario/scenario.h"
#include "harness/store/store.h"
#include "tuner/data/data.h"
#include "tuner/policy/policy.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_LENGTHS = 64,
	MAX_CURVES = 8,
	FEW_CURVES = 3,
	MAX_POINTS = 64,
	MAX_KERNELS = 16,
	MAX_BINS = 40,
	NUM_SHARES = 3
};

double plotted_time(const struct plotted *p, enum policy policy, int scenario)
{
	if (policy == POLICY_ORACLE)
		return data_oracle(p->data, scenario);
	return p->pick[policy] ? data_plan_time(p->data, scenario, &p->pick[policy][scenario])
			       : INFINITY;
}

static int decode_share(const struct measured *m) /* of its sequences, in percent */
{
	const struct attune_features *f = &m->part[PHASE_ALL].f;
	return f->num_seqs ? (int)(100 * f->decode_seqs / f->num_seqs) : 0;
}

/* The cell that a policy's plan is, where that is one launch. */
static const struct cell *picked_cell(const struct plotted *p, enum policy policy, int scenario)
{
	const struct measured *m = &p->data->v[scenario];
	const int is_decode = !m->has[PHASE_PREFILL];
	const struct cell *c;
	int choice;
	if (!p->pick[policy] || (m->has[PHASE_PREFILL] && m->has[PHASE_DECODE]))
		return NULL;
	choice = is_decode ? p->pick[policy][scenario].decode : p->pick[policy][scenario].prefill;
	if (choice < 0)
		return NULL;
	c = data_cell(p->data, scenario, is_decode ? PHASE_DECODE : PHASE_PREFILL, choice);
	if (!c)
		c = data_cell(p->data, scenario, PHASE_ALL, choice);
	return c && c->outcome == OUTCOME_OK ? c : NULL;
}

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

double plotted_noise(const struct plotted *p, char text[160])
{
	const struct noise *n = &p->data->noise;
	const int pairs = n->pairs[0] + n->pairs[1] + n->pairs[2];
	if (pairs)
		snprintf(text, 160, "A/A noise %.1f, %.1f, %.1f %% (<20 us, <200 us, above)",
			 100 * n->floor[0], 100 * n->floor[1], 100 * n->floor[2]);
	else
		snprintf(text, 160, "noise taken as %.1f %%: no A/A pairs", 100 * n->floor[0]);
	return fmax(n->floor[0], fmax(n->floor[1], n->floor[2]));
}

void range_stretch(struct range *r, double v)
{
	if (!isfinite(v))
		return;
	r->lo = fmin(r->lo, v);
	r->hi = fmax(r->hi, v);
}

void range_print(FILE *settings, const char *name, struct range r)
{
	fprintf(settings, "%s_lo = %g\n%s_hi = %g\n", name, r.hi > 0 ? r.lo : 1, name,
		r.hi > 0 ? r.hi : 10);
}

/* "set" as a list of words: name = "a b c". */
static void words(FILE *settings, const char *name, char text[][24], int n)
{
	fprintf(settings, "%s = \"", name);
	for (int i = 0; i < n; i++)
		fprintf(settings, "%s%s", i ? " " : "", text[i]);
	fputs("\"\n", settings);
}

void filled_print(FILE *settings, const int *filled, int n)
{
	fputs("filled = \"", settings);
	for (int i = 0; i < n; i++)
		fprintf(settings, "%s%d", i ? " " : "", filled[i]);
	fputs("\"\n", settings);
}

/* ---- decode: latency against batch size, a curve for each sequence length ------- */
struct curve {
	int length, n;
	struct {
		int batch, scenario;
	} point[MAX_POINTS];
};

/* The length that all sequences have, one new token each; else 0. */
static int uniform_decode(const struct measured *m)
{
	const attune_batch *b = &m->batch->view;
	for (int i = 0; i < b->num_seqs; i++)
		if (b->query_start[i + 1] - b->query_start[i] != 1 ||
		    b->seq_lens[i] != b->seq_lens[0])
			return 0;
	return b->num_seqs ? b->seq_lens[0] : 0;
}

static int by_length(const void *a, const void *b)
{
	return ((const struct curve *)a)->length - ((const struct curve *)b)->length;
}

static int is_round(const struct curve *c)
{
	return !(c->length & (c->length - 1));
}

/* Those that are curves, of them powers of two, of them those of most points first. */
static int by_points(const void *pa, const void *pb)
{
	const struct curve *a = pa, *b = pb;
	if ((a->n > 1) != (b->n > 1))
		return (b->n > 1) - (a->n > 1);
	if (is_round(a) != is_round(b))
		return is_round(b) - is_round(a);
	return b->n != a->n ? b->n - a->n : by_length(a, b);
}

/* In the order of batch sizes; a batch size that is there already is left out. */
static void curve_add(struct curve *c, int batch, int scenario)
{
	int at = c->n;
	while (at && c->point[at - 1].batch >= batch)
		at--;
	if (c->n == MAX_POINTS || (at < c->n && c->point[at].batch == batch))
		return;
	memmove(&c->point[at + 1], &c->point[at], (size_t)(c->n - at) * sizeof c->point[0]);
	c->point[at].batch = batch;
	c->point[at].scenario = scenario;
	c->n++;
}

/* Those of most points, two at least; lengths that are no powers of two only where there
 * are few others. */
static int find_curves(const struct plotted *p, struct curve curve[MAX_LENGTHS])
{
	int n = 0, shown = 0;
	for (int s = p->first; s < p->end; s++) {
		const struct measured *m = &p->data->v[s];
		const int length = uniform_decode(m);
		int i = 0;
		if (!length || !isfinite(plotted_time(p, POLICY_TREE, s)))
			continue;
		while (i < n && curve[i].length != length)
			i++;
		if (i == n && n == MAX_LENGTHS)
			continue;
		if (i == n)
			curve[n++] = (struct curve){ .length = length };
		curve_add(&curve[i], m->batch->view.num_seqs, s);
	}
	qsort(curve, (size_t)n, sizeof *curve, by_points);
	while (shown < n && shown < MAX_CURVES && curve[shown].n > 1 &&
	       (shown < FEW_CURVES || is_round(&curve[shown])))
		shown++;
	qsort(curve, (size_t)shown, sizeof *curve, by_length);
	return shown > 1 ? shown : 0; /* one alone shows nothing */
}

void length_text(char text[24], int length)
{
	if (length % 1024)
		snprintf(text, 24, "%d", length);
	else
		snprintf(text, 24, "%dk", length / 1024);
}

int series_decode(const struct plotted *p, FILE *rows, FILE *settings)
{
	struct curve curve[MAX_LENGTHS];
	char names[MAX_CURVES][24], x[MAX_CURVES][24], y[MAX_CURVES][24];
	struct range batches = NO_RANGE, times = NO_RANGE;
	const int n = find_curves(p, curve);
	int points = 0;
	for (int i = 0; i < n; i++) {
		const struct curve *c = &curve[i];
		double us = 0;
		for (int k = 0; k < c->n; k++, points++) {
			const int s = c->point[k].scenario;
			const double fixed = plotted_time(p, POLICY_BEST_FIXED, s);
			us = plotted_time(p, POLICY_TREE, s);
			fprintf(rows, "%d %g %g\n", c->point[k].batch, us, fixed);
			range_stretch(&batches, c->point[k].batch);
			range_stretch(&times, us);
			range_stretch(&times, fixed);
		}
		fputs("\n\n", rows);
		length_text(names[i], c->length);
		snprintf(x[i], sizeof x[0], "%d", c->point[c->n - 1].batch);
		snprintf(y[i], sizeof y[0], "%g", us);
	}
	range_print(settings, "batch", batches);
	range_print(settings, "us", times);
	words(settings, "lengths", names, n);
	words(settings, "ends_x", x, n);
	words(settings, "ends_y", y, n);
	return points;
}

/* ---- kernels: latency against tokens, each kernel at its best --------------------- */
struct bin {
	int n, counted[MAX_KERNELS];
	double tokens, us, ratio[MAX_KERNELS]; /* sums of logarithms; ratio: to the tree */
};

/* Of one kernel alone, over the whole batch in one launch. */
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

/* Work of a prompt grows with its square, of a chunk behind a context with both: only
 * whole prompts are alike enough for a curve over tokens. */
static int has_chunk(const struct measured *m)
{
	const attune_batch *b = &m->batch->view;
	for (int i = 0; i < b->num_seqs; i++)
		if (b->query_start[i + 1] - b->query_start[i] < b->seq_lens[i])
			return 1;
	return 0;
}

/* A kernel that was measured on fewer than half of a bin's batches has no point. */
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
	words(settings, "kernels", names, n);
	fprintf(settings, "share_lo = %d\nshare_hi = %d\n", lo, hi);
	return printed;
}

/* ---- roofline: share of what the memory and the arithmetic units can do ------------ */
static int roof_rows(const struct plotted *p, enum policy policy, int decodes, FILE *rows,
		     struct range *work, struct range *share)
{
	const struct run_info *r = &p->data->run;
	int printed = 0;
	for (int s = 0; s < p->data->n; s++) {
		const struct measured *m = &p->data->v[s];
		const struct cell *c = picked_cell(p, policy, s);
		struct facts f;
		double x, y;
		if (!c || m->has[PHASE_PREFILL] == decodes)
			continue;
		scenario_facts(&f, &m->shape, &m->batch->view);
		x = decodes ? f.kv_bytes : f.flops;
		y = 100 * (decodes ? c->gbps / r->dram_gbps : c->tflops / r->fma_tflops);
		if (!(x > 0) || !(y > 0))
			continue;
		fprintf(rows, "%g %g\n", x, y);
		range_stretch(work, x);
		range_stretch(share, y);
		printed++;
	}
	if (!printed)
		fputs("nan\n", rows);
	fputs("\n\n", rows);
	return printed;
}

int series_roofline(const struct plotted *p, FILE *rows, FILE *settings)
{
	const struct run_info *r = &p->data->run;
	int filled[4], printed = 0;
	if (!(r->dram_gbps > 0) || !(r->fma_tflops > 0))
		return 0;
	for (int i = 0; i < 2; i++) { /* decodes, then prefills */
		struct range work = NO_RANGE, share = { 0, 100 };
		filled[2 * i] = roof_rows(p, POLICY_DEFAULT, !i, rows, &work, &share);
		filled[2 * i + 1] = roof_rows(p, POLICY_TREE, !i, rows, &work, &share);
		printed += filled[2 * i] + filled[2 * i + 1];
		range_print(settings, i ? "flops" : "bytes", work);
		range_print(settings, i ? "flops_share" : "bytes_share", share);
	}
	filled_print(settings, filled, 4);
	fprintf(settings, "dram_gbps = %g\nfma_tflops = %g\n", r->dram_gbps, r->fma_tflops);
	return printed;
}

/* ---- regret: how far from the fastest plan, over all scenarios of a split ----------- */
static const enum policy judged[] = { POLICY_TREE,       POLICY_BEST_FIXED, POLICY_VLLM_RULE,
				      POLICY_AITER_RULE, POLICY_NEAREST,    POLICY_GREEDY,
				      POLICY_LABEL,      POLICY_DEFAULT };

static const double LEAST_REGRET = 0.1; /* percent: where the axis begins */
enum { MOST_REGRET = 1000 };

/* Rows "regret in %, share of scenarios at most that far"; plans without a time
 * are of no finite regret: the last share is then below 100. */
static int regret_rows(const struct plotted *p, enum policy policy, int training, FILE *rows)
{
	double *v = malloc((size_t)(p->data->n + 1) * sizeof *v);
	int n = 0, all = 0;
	for (int s = 0; v && p->pick[policy] && s < p->data->n; s++) {
		const double best = data_oracle(p->data, s), us = plotted_time(p, policy, s);
		if (data_side(&p->data->v[s]) != !training || !isfinite(best))
			continue;
		all++;
		if (isfinite(us))
			v[n++] = 100 * (us / best - 1);
	}
	if (n)
		qsort(v, (size_t)n, sizeof *v, by_value);
	for (int i = 0; i < n; i++)
		if (i == n - 1 || v[i + 1] > LEAST_REGRET)
			fprintf(rows, "%g %g\n", v[i], 100.0 * (i + 1) / all);
	if (n)
		fprintf(rows, "%d %g\n", MOST_REGRET, 100.0 * n / all);
	else
		fputs("nan\n", rows);
	fputs("\n\n", rows);
	free(v);
	return n;
}

int series_regret(const struct plotted *p, FILE *rows, FILE *settings)
{
	int filled[2 * COUNT(judged)], counted[2] = { 0 }, printed = 0;
	for (int i = 0; i < (int)COUNT(filled); i++) { /* what was learned from, then held out */
		const int training = i < (int)COUNT(judged);
		filled[i] = regret_rows(p, judged[i % (int)COUNT(judged)], training, rows);
		counted[training] = filled[i] > counted[training] ? filled[i] : counted[training];
		printed += filled[i];
	}
	filled_print(settings, filled, (int)COUNT(filled));
	fprintf(settings, "num_train = %d\nnum_heldout = %d\n", counted[1], counted[0]);
	return printed;
}
