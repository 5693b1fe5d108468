/* translate.c - predicts the ratio of a choice's times on two GPUs.
 *
 * A pair is a choice and a scenario that both GPUs measured: r = log(own / prior). Where only the
 * prior measured a choice, its r is the sum of
 *
 *   the scenario's   mean m of the kernels' means there, so that a kernel with many choices counts
 *                    no more than others; pulled towards what is usual of the phase
 *   its kernel's     mean of (the kernel's mean in a scenario - m), pulled towards 0
 *
 * A mean of n pairs or scenarios is pulled as by `shrink` more (partial pooling: Gelman and Hill
 * 2007, Data Analysis Using Regression and Multilevel/Hierarchical Models, 12.2). Of a plan the way
 * that its parts overlap stands for the kernel. */
#include "transfer.h"
#include "harness/base/base.h"
#include "tuner/data/data.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PLANS = NUM_PHASES, NUM_FIELDS, PLAN_KERNELS = 3 };
static const double shrink = 2;

struct mean {
	double sum;
	int n;
};

struct translation {
	const struct data *own, *prior;
	int *kernel; /* [prior->num_choices] */
	int num_kernels;
	struct mean *pairs;            /* [num_kernels] of one scenario and field */
	struct mean *of_scenario;      /* [prior->n][NUM_FIELDS] sum: m; n: pairs */
	struct mean usual[NUM_FIELDS]; /* of m, over scenarios */
	struct mean *of_kernel;        /* [NUM_FIELDS][num_kernels] of its distance from m */
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

static void add(struct mean *m, double value)
{
	m->sum += value;
	m->n++;
}

static double pulled(const struct mean *m, double towards)
{
	return (m->sum + shrink * towards) / (m->n + shrink);
}

static void add_pair(struct mean *m, const struct cell *ours, const struct cell *theirs)
{
	if (!ours || !theirs || ours->outcome != OUTCOME_OK || theirs->outcome != OUTCOME_OK)
		return;
	add(m, log(ours->us / theirs->us));
}

static void pair_cells(struct translation *t, int s, enum phase phase, int own)
{
	struct choice_iter i = choices_of(t->prior, s, phase, phase);
	while (choices_next(&i)) {
		const int choice = data_find(t->own, &t->prior->choice[i.choice]);
		if (choice >= 0)
			add_pair(&t->pairs[t->kernel[i.choice]],
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
			add_pair(&t->pairs[plan_kernel(t, c)],
				 data_plan_cell(t->own, PASS_A, own, &pick), &c->cell);
	}
}

/* Takes the pairs of a scenario and field into all means. */
static void close_pairs(struct translation *t, int s, int field)
{
	struct mean *all = &t->of_scenario[s * NUM_FIELDS + field];
	struct mean kernels = { 0 };
	for (int k = 0; k < t->num_kernels; k++)
		if (t->pairs[k].n) {
			add(&kernels, t->pairs[k].sum / t->pairs[k].n);
			all->n += t->pairs[k].n;
		}
	if (!kernels.n)
		return;
	const double m = kernels.sum / kernels.n;
	all->sum = m * all->n;
	add(&t->usual[field], m);
	for (int k = 0; k < t->num_kernels; k++)
		if (t->pairs[k].n)
			add(&t->of_kernel[field * t->num_kernels + k],
			    t->pairs[k].sum / t->pairs[k].n - m);
	memset(t->pairs, 0, sizeof *t->pairs * (size_t)t->num_kernels);
}

/* ---- predicting ---------------------------------------------------------------------- */
static double predict(const struct translation *t, int s, int field, int kernel)
{
	struct mean all = { 0 };
	for (int f = 0; f < NUM_FIELDS; f++) {
		all.sum += t->usual[f].sum;
		all.n += t->usual[f].n;
	}
	const double usual = pulled(&t->usual[field], all.n ? all.sum / all.n : 0);
	return pulled(&t->of_scenario[s * NUM_FIELDS + field], usual) +
	       pulled(&t->of_kernel[field * t->num_kernels + kernel], 0);
}

double translation_of(const struct translation *t, int scenario, int phase, int choice)
{
	return predict(t, scenario, phase, t->kernel[choice]);
}

double translation_of_plan(const struct translation *t, const struct composed *plan)
{
	return predict(t, plan->scenario, PLANS, plan_kernel(t, plan));
}

/* ---- all of it ------------------------------------------------------------------------ */
struct translation *translation_new(const struct data *own, const struct data *prior,
				    const int *same)
{
	struct translation *t = calloc(1, sizeof *t);
	if (!t)
		return NULL;
	*t = (struct translation){ .own = own, .prior = prior };
	t->kernel = malloc(sizeof *t->kernel * ((size_t)prior->num_choices + 1));
	t->num_kernels = t->kernel ? number_kernels(prior, t->kernel) : 0;
	t->num_kernels = t->num_kernels < PLAN_KERNELS ? PLAN_KERNELS : t->num_kernels;
	t->pairs = calloc((size_t)t->num_kernels, sizeof *t->pairs);
	t->of_scenario = calloc((size_t)prior->n * NUM_FIELDS + 1, sizeof *t->of_scenario);
	t->of_kernel = calloc((size_t)t->num_kernels * NUM_FIELDS, sizeof *t->of_kernel);
	if (!t->kernel || !t->pairs || !t->of_scenario || !t->of_kernel) {
		translation_free(t);
		return NULL;
	}
	for (int s = 0; s < prior->n; s++) {
		if (same[s] < 0 || !data_is_training(&prior->v[s]) ||
		    !data_is_training(&own->v[same[s]]))
			continue;
		for (int p = 0; p < NUM_PHASES; p++) {
			pair_cells(t, s, (enum phase)p, same[s]);
			close_pairs(t, s, p);
		}
		pair_plans(t, s, same[s]);
		close_pairs(t, s, PLANS);
	}
	return t;
}

void translation_free(struct translation *t)
{
	if (!t)
		return;
	free(t->kernel);
	free(t->pairs);
	free(t->of_scenario);
	free(t->of_kernel);
	free(t);
}
