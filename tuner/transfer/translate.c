/* translate.c - predicts the ratio of a choice's times on two GPUs.
 *
 * A pair is a choice and a scenario that both GPUs measured: r = log(own / prior). Where only the
 * prior measured a choice, its r is a sum of two levels:
 *
 *   the phase    (sum w m + shrink x usual) / (sum w + shrink)
 *   its kernel   (sum w (k - m) + shrink x usual) / (sum w + shrink)
 *
 * Sums are over the scenarios with such pairs. m is the mean of the kernels' means in a scenario, so
 * that a kernel with many choices counts no more than others; k is the mean of the kernel there. In
 * the scenario itself w is the number of pairs, elsewhere exp(-distance / width), by
 * part_distance(). What is usual is the same sum with w = 1 everywhere, pulled towards the mean m of
 * all phases and towards 0. So a level without near pairs stays close to what is usual (partial
 * pooling: Gelman and Hill 2007, Data Analysis Using Regression and Multilevel/Hierarchical Models,
 * 12.2; weights: Nadaraya 1964, Watson 1964).
 *
 * Of a plan the way that its parts overlap stands for the kernel. */
#include "transfer.h"
#include "harness/base/base.h"
#include "tuner/data/data.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PLANS = NUM_PHASES, NUM_FIELDS };
static const double width = 2, shrink = 2;

struct mean {
	double sum;
	int n;
};

struct translation {
	const struct data *own, *prior;
	int *kernel; /* [prior->num_choices] */
	int num_kernels;
	struct mean *mean; /* [prior->n][NUM_FIELDS][num_kernels] of pairs */
	double usual[NUM_FIELDS], *usual_of_kernel; /* [NUM_FIELDS][num_kernels] */
	double *of_kernel, *weight; /* [num_kernels] at the scenario and phase selected */
};

/* ---- pairs --------------------------------------------------------------------------- */
static int number_kernels(const struct data *d, int *kernel)
{
	int n = 0;
	for (int c = 0; c < d->num_choices; c++) {
		n += c && d->choice[c].kernel != d->choice[c - 1].kernel;
		kernel[c] = n;
	}
	return n + 1;
}

/* Plans: in series, on two streams, with units that the prefill choice leaves free. */
static int plan_kernel(const struct translation *t, const struct composed *p)
{
	const int spares = choice_spares(&t->prior->choice[p->prefill]) > 0;
	return p->how == ATTUNE_SERIAL ? 0 : spares ? 2 : 1;
}

static struct mean *means_of(const struct translation *t, int scenario, int field)
{
	return &t->mean[((size_t)scenario * NUM_FIELDS + (size_t)field) * (size_t)t->num_kernels];
}

static void add_pair(struct mean *m, const struct cell *ours, const struct cell *theirs)
{
	if (!ours || !theirs || ours->outcome != OUTCOME_OK || theirs->outcome != OUTCOME_OK)
		return;
	m->sum += log(ours->us / theirs->us);
	m->n++;
}

static void pair_cells(struct translation *t, int s, enum phase phase, int own)
{
	struct choice_iter i = choices_of(t->prior, s, phase, phase);
	while (choices_next(&i)) {
		const int choice = data_find(t->own, &t->prior->choice[i.choice]);
		if (choice >= 0)
			add_pair(&means_of(t, s, (int)phase)[t->kernel[i.choice]],
				 data_cell_in(t->own, PASS_A, own, phase, choice),
				 i.cells[0].of[PASS_A]);
	}
}

static void pair_plans(struct translation *t, int s, int own)
{
	const struct data *d = t->prior;
	for (int i = d->plan_at[s]; i < d->plan_at[s + 1]; i++) {
		const struct composed *c = &d->plan[i];
		const struct pick pick = { data_find(t->own, &d->choice[c->prefill]),
					   data_find(t->own, &d->choice[c->decode]), 1, c->how };
		if (pick.prefill >= 0 && pick.decode >= 0 && c->pass == PASS_A)
			add_pair(&means_of(t, s, PLANS)[plan_kernel(t, c)],
				 data_plan_cell(t->own, PASS_A, own, &pick), &c->cell);
	}
}

/* The mean of the kernels' means in a scenario. Returns its number of pairs. */
static int mean_at(const struct translation *t, int scenario, int field, double *mean)
{
	const struct mean *m = means_of(t, scenario, field);
	int pairs = 0, kernels = 0;
	*mean = 0;
	for (int k = 0; k < t->num_kernels; k++)
		if (m[k].n) {
			*mean += m[k].sum / m[k].n;
			pairs += m[k].n;
			kernels++;
		}
	*mean /= kernels ? kernels : 1;
	return pairs;
}

static double mean_everywhere(const struct translation *t)
{
	double sum = 0, mean;
	int n = 0;
	for (int s = 0; s < t->prior->n; s++)
		for (int f = 0; f < NUM_FIELDS; f++)
			if (mean_at(t, s, f, &mean))
				sum += mean, n++;
	return n ? sum / n : 0;
}

/* ---- predicting ---------------------------------------------------------------------- */
static double distance(const struct data *d, int a, int b, int field)
{
	const enum phase of = field == PLANS ? PHASE_ALL : (enum phase)field;
	return part_distance(&d->v[a].part[of].f, &d->v[b].part[of].f, INFINITY);
}

/* Both levels of a field: of the phase, returned, and of the kernels, in of_kernel. They are pulled
 * towards what is there and towards `base`. scenario -1: w = 1 everywhere. */
static double sum_levels(struct translation *t, int field, int scenario, double base,
			 double *of_kernel)
{
	double sum = shrink * base, weights = shrink, mean;
	for (int k = 0; k < t->num_kernels; k++) {
		of_kernel[k] *= shrink;
		t->weight[k] = shrink;
	}
	for (int s = 0; s < t->prior->n; s++) {
		const struct mean *m = means_of(t, s, field);
		const int pairs = mean_at(t, s, field, &mean);
		if (!pairs)
			continue;
		const double near =
		    scenario < 0 ? 1 : exp(-distance(t->prior, scenario, s, field) / width);
		sum += mean * (s == scenario ? pairs : near);
		weights += s == scenario ? pairs : near;
		for (int k = 0; k < t->num_kernels; k++) {
			const double w = !m[k].n ? 0 : s == scenario ? m[k].n : near;
			of_kernel[k] += w > 0 ? w * (m[k].sum / m[k].n - mean) : 0;
			t->weight[k] += w;
		}
	}
	for (int k = 0; k < t->num_kernels; k++)
		of_kernel[k] /= t->weight[k];
	return sum / weights;
}

static double *usual_kernels(const struct translation *t, int field)
{
	return &t->usual_of_kernel[(size_t)field * (size_t)t->num_kernels];
}

void translation_at(struct translation *t, int scenario, int field)
{
	memcpy(t->of_kernel, usual_kernels(t, field), sizeof(double) * (size_t)t->num_kernels);
	const double base = sum_levels(t, field, scenario, t->usual[field], t->of_kernel);
	for (int k = 0; k < t->num_kernels; k++)
		t->of_kernel[k] += base;
}

double translation_of(const struct translation *t, int choice)
{
	return t->of_kernel[t->kernel[choice]];
}

double translation_of_plan(const struct translation *t, const struct composed *plan)
{
	return t->of_kernel[plan_kernel(t, plan)];
}

/* ---- all of it ------------------------------------------------------------------------ */
struct translation *translation_new(const struct data *own, const struct data *prior,
				    const int *same)
{
	enum { PLAN_KERNELS = 3 };
	struct translation *t = calloc(1, sizeof *t);
	if (!t)
		return NULL;
	*t = (struct translation){ .own = own, .prior = prior };
	t->kernel = malloc(sizeof *t->kernel * ((size_t)prior->num_choices + 1));
	t->num_kernels = t->kernel ? number_kernels(prior, t->kernel) : 0;
	t->num_kernels = t->num_kernels < PLAN_KERNELS ? PLAN_KERNELS : t->num_kernels;
	t->mean =
	    calloc((size_t)prior->n * NUM_FIELDS + 1, sizeof *t->mean * (size_t)t->num_kernels);
	t->usual_of_kernel = calloc((size_t)t->num_kernels * NUM_FIELDS, sizeof(double));
	t->of_kernel = calloc((size_t)t->num_kernels, sizeof *t->of_kernel);
	t->weight = calloc((size_t)t->num_kernels, sizeof *t->weight);
	if (!t->kernel || !t->mean || !t->usual_of_kernel || !t->of_kernel || !t->weight) {
		translation_free(t);
		return NULL;
	}
	for (int s = 0; s < prior->n; s++) {
		if (same[s] < 0 || !data_is_training(&prior->v[s]) ||
		    !data_is_training(&own->v[same[s]]))
			continue;
		for (int p = 0; p < NUM_PHASES; p++)
			pair_cells(t, s, (enum phase)p, same[s]);
		pair_plans(t, s, same[s]);
	}
	const double everywhere = mean_everywhere(t);
	for (int f = 0; f < NUM_FIELDS; f++)
		t->usual[f] = sum_levels(t, f, -1, everywhere, usual_kernels(t, f));
	return t;
}

void translation_free(struct translation *t)
{
	if (!t)
		return;
	free(t->kernel);
	free(t->mean);
	free(t->usual_of_kernel);
	free(t->of_kernel);
	free(t->weight);
	free(t);
}
