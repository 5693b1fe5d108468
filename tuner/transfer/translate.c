/* translate.c - predicts the ratio of a choice's times on two GPUs.
 *
 * A pair is a choice and a scenario that both GPUs measured: r = log(own / prior). For a choice and
 * a scenario that only the prior measured, r is the sum of several levels, from coarse to fine.
 * Each is fitted to the residuals of the levels before it:
 *
 *   all choices, its kernel, its family: each first everywhere, then nearby
 *   the scenario itself, where it has pairs
 *
 *   a level adds  sum w r / (sum w + shrink)     over the scenarios with pairs of that group
 *   with  w = 1 everywhere,  w = exp(-distance / width) nearby
 *
 * and r the mean of the group's pairs in a scenario (for all choices the mean of the kernels'
 * means). This is the posterior mean of a group's effect under normal noise, where `shrink` is the
 * ratio of both variances (partial pooling: Gelman and Hill 2007, Data Analysis Using Regression
 * and Multilevel/Hierarchical Models, 12.2), with kernel weights nearby (Nadaraya 1964; Watson
 * 1964). So few or distant pairs hardly change the coarser level. Width and shrink come from a
 * small grid, by cross-validation over scenarios (Stone 1974). Distances are those of
 * part_distance().
 *
 * Plans, and launches for a whole batch of two parts, begin from the ratios of their parts. */
#include "group_effects.h"
#include "transfer.h"
#include "harness/base/base.h"
#include "tuner/data/data.h"
#include "tuner/policy/policy.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PLANS = NUM_PHASES, NUM_FIELDS };

struct translation {
	const struct data *own, *prior;
	struct log_ratios field[NUM_FIELDS];
	int groups[NUM_LEVELS];
	int *kernel; /* [prior->num_choices] */
	/* of translation_at */
	int phase;
	double *weight;    /* [most sites] */
	double *of_kernel; /* [groups[1]] sum of the base and the kernel's levels */
	double base;
};

/* ---- groups -------------------------------------------------------------------------- */
/* Groups of a choice: all choices; its kernel; its family, else itself, numbered after the
 * families. A level of single members would fit noise: with an H200's times and 30, 90, 173
 * scenarios of an H100, rules took 1.013, 1.005, 1.005 of the time of the H200's own rules on
 * held-out batches of the H100 with it, and 0.999, 0.992, 1.004 without. */
static void choice_groups(const struct translation *t, int choice, int group[NUM_LEVELS])
{
	const int family = t->prior->family_of[choice];
	group[0] = 0;
	group[1] = t->kernel[choice];
	group[2] = family >= 0 ? family : t->prior->num_families + choice;
}

/* Groups of a plan: serial or streams; whether its prefill choice leaves units free. */
static void plan_groups(const struct translation *t, const struct composed *p,
			int group[NUM_LEVELS])
{
	const int spares = choice_spares(&t->prior->choice[p->prefill]) > 0;
	group[0] = 0;
	group[1] = p->how != ATTUNE_SERIAL;
	group[2] = p->how == ATTUNE_SERIAL ? 0 : spares ? 2 : 1;
}

static void number_kernels(struct translation *t)
{
	const struct data *d = t->prior;
	int n = 0;
	for (int c = 0; c < d->num_choices; c++) {
		n += c && d->choice[c].kernel != d->choice[c - 1].kernel;
		t->kernel[c] = n;
	}
	t->groups[0] = 1;
	t->groups[1] = n + 2;
	t->groups[2] = d->num_families + d->num_choices + 3;
}

/* ---- pairs --------------------------------------------------------------------------- */
static int is_right(const struct cell *c)
{
	return c && c->outcome == OUTCOME_OK;
}

static int pair_cells(struct translation *t, int phase, int scenario, int own)
{
	struct log_ratios *f = &t->field[phase];
	struct choice_iter i = choices_of(t->prior, scenario, (enum phase)phase, (enum phase)phase);
	int done = 1;
	while (done && choices_next(&i)) {
		const struct cell *theirs = i.cells[0].of[PASS_A], *ours = NULL;
		const int choice = data_find(t->own, &t->prior->choice[i.choice]);
		struct pair p = { .site = scenario };
		if (is_right(theirs) && choice >= 0)
			ours = data_cell_in(t->own, PASS_A, own, (enum phase)phase, choice);
		if (!is_right(ours))
			continue;
		p.r = log(ours->us / theirs->us);
		choice_groups(t, i.choice, p.group);
		done = log_ratios_add(f, &p);
	}
	return done;
}

static int pair_plans(struct translation *t, int scenario, int own)
{
	const struct data *d = t->prior;
	int done = 1;
	for (int i = d->plan_at[scenario]; done && i < d->plan_at[scenario + 1]; i++) {
		const struct composed *c = &d->plan[i];
		const struct pick pick = { data_find(t->own, &d->choice[c->prefill]),
					   data_find(t->own, &d->choice[c->decode]), 1, c->how };
		const struct cell *ours = pick.prefill < 0 || pick.decode < 0 || c->pass != PASS_A
					      ? NULL
					      : data_plan_cell(t->own, PASS_A, own, &pick);
		struct pair p = { .site = scenario };
		if (!is_right(ours) || !is_right(&c->cell))
			continue;
		p.r = log(ours->us / c->cell.us);
		plan_groups(t, c, p.group);
		done = log_ratios_add(&t->field[PLANS], &p);
	}
	return done;
}

/* Numbers the scenarios with pairs; pairs are sorted by scenario. */
static int list_sites(struct translation *t, int phase)
{
	struct log_ratios *f = &t->field[phase];
	const enum phase of = phase == PLANS ? PHASE_ALL : (enum phase)phase;
	f->site = malloc(sizeof *f->site * ((size_t)f->num_pairs + 1));
	for (int i = 0; f->site && i < f->num_pairs; i++) {
		const int scenario = f->pair[i].site;
		if (!f->num_sites || f->site[f->num_sites - 1] != scenario)
			f->site[f->num_sites++] = scenario;
		f->pair[i].site = f->num_sites - 1;
	}
	const size_t n = (size_t)f->num_sites;
	f->far = malloc(sizeof *f->far * (n * n + 1));
	f->rest = calloc(n + 1, sizeof *f->rest);
	f->pairs = calloc(n + 1, sizeof *f->pairs);
	if (!f->site || !f->far || !f->rest || !f->pairs)
		return 0;
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < n; k++)
			f->far[i * n + k] =
			    part_distance(&t->prior->v[f->site[i]].part[of].f,
					  &t->prior->v[f->site[k]].part[of].f, INFINITY);
	return 1;
}

/* ---- predicting for a scenario -------------------------------------------------------- */
static int site_of(const struct log_ratios *f, int scenario)
{
	for (int i = 0; i < f->num_sites; i++)
		if (f->site[i] == scenario)
			return i;
	return -1;
}

static void weigh_place(struct translation *t, const struct log_ratios *f, int scenario,
			enum phase of)
{
	for (int i = 0; i < f->num_sites; i++)
		t->weight[i] = exp(-part_distance(&t->prior->v[scenario].part[of].f,
						  &t->prior->v[f->site[i]].part[of].f, INFINITY) /
				   f->width);
}

/* Sum of the levels from..end - 1, coarse ones first. */
static double sum_levels(const struct translation *t, const struct log_ratios *f,
			 const int group[NUM_LEVELS], int from, int end)
{
	double sum = 0;
	for (int k = 2 * from; f->num_pairs && k < 2 * end; k++)
		sum += level_at(&f->level[k], group[k / 2], t->weight, f->shrink, -1);
	return sum;
}

/* The effect of the scenario itself. */
static double rest_at(const struct log_ratios *f, int scenario)
{
	const int site = site_of(f, scenario);
	return site < 0 ? 0 : f->rest[site];
}

/* The ratio of any choice of a phase; without pairs of that phase, by those of the other part. */
static double of_any(struct translation *t, int scenario, enum phase phase)
{
	static const int none[NUM_LEVELS] = { 0 };
	const enum phase other = phase == PHASE_PREFILL ? PHASE_DECODE : PHASE_PREFILL;
	const struct log_ratios *f = &t->field[phase];
	if (!f->num_pairs && t->field[other].num_pairs) {
		f = &t->field[other];
		return level_at(&f->level[0], 0, NULL, f->shrink, -1);
	}
	weigh_place(t, f, scenario, phase);
	return sum_levels(t, f, none, 0, 1) + rest_at(f, scenario);
}

/* The ratio of two parts in series, by their ratios r and their us on the prior; us not finite: not
 * known. */
static double of_both(const double r[2], const double us[2])
{
	if (!isfinite(us[0]) || !isfinite(us[1]))
		return isfinite(us[0]) ? r[0] : isfinite(us[1]) ? r[1] : (r[0] + r[1]) / 2;
	return log((us[0] * exp(r[0]) + us[1] * exp(r[1])) / (us[0] + us[1]));
}

static double base_at(struct translation *t, int scenario, int phase)
{
	const struct measured *m = &t->prior->v[scenario];
	double r[2] = { 0, 0 }, us[2] = { INFINITY, INFINITY };
	int best;
	if (phase == PHASE_PREFILL || phase == PHASE_DECODE)
		return t->field[phase].num_pairs ? 0 : of_any(t, scenario, (enum phase)phase);
	for (int p = 0; p < 2; p++) {
		const enum phase part = p ? PHASE_DECODE : PHASE_PREFILL;
		if (!m->has[part])
			continue;
		r[p] = of_any(t, scenario, part);
		us[p] = data_best(t->prior, scenario, part, &best);
		if (!measured_is_mixed(m))
			return r[p];
	}
	return of_both(r, us);
}

void translation_at(struct translation *t, int scenario, int phase)
{
	const struct log_ratios *f = &t->field[phase];
	int group[NUM_LEVELS] = { 0 };
	t->base = base_at(t, scenario, phase) + rest_at(f, scenario);
	t->phase = phase;
	weigh_place(t, f, scenario, phase == PLANS ? PHASE_ALL : (enum phase)phase);
	t->base += sum_levels(t, f, group, 0, 1);
	for (int k = 0; k < t->groups[1]; k++) {
		group[1] = k;
		t->of_kernel[k] = t->base + sum_levels(t, f, group, 1, 2);
	}
}

static double of_groups(const struct translation *t, const int group[NUM_LEVELS])
{
	return t->of_kernel[group[1]] + sum_levels(t, &t->field[t->phase], group, 2, NUM_LEVELS);
}

double translation_of(const struct translation *t, int choice)
{
	int group[NUM_LEVELS];
	choice_groups(t, choice, group);
	return of_groups(t, group);
}

double translation_of_plan(const struct translation *t, const struct composed *plan)
{
	int group[NUM_LEVELS];
	plan_groups(t, plan, group);
	return of_groups(t, group);
}

/* ---- all of it ------------------------------------------------------------------------ */
/* Parts are fitted first, since PHASE_ALL and plans begin from their ratios. */
static int fit_all(struct translation *t)
{
	static const int order[NUM_FIELDS] = { PHASE_PREFILL, PHASE_DECODE, PHASE_ALL, PLANS };
	for (int i = 0; i < NUM_FIELDS; i++) {
		struct log_ratios *f = &t->field[order[i]];
		if (!list_sites(t, order[i]))
			return 0;
		double base = 0;
		for (int p = 0; i > 1 && p < f->num_pairs; p++) {
			if (!p || f->pair[p].site != f->pair[p - 1].site)
				base = base_at(t, f->site[f->pair[p].site], order[i]);
			f->pair[p].r -= base;
		}
		if (!log_ratios_fit(f, t->groups, t->weight))
			return 0;
	}
	return 1;
}

struct translation *translation_new(const struct data *own, const struct data *prior,
				    const int *same)
{
	struct translation *t = calloc(1, sizeof *t);
	if (!t)
		return NULL;
	*t = (struct translation){ .own = own, .prior = prior };
	t->kernel = malloc(sizeof *t->kernel * ((size_t)prior->num_choices + 1));
	t->weight = malloc(sizeof *t->weight * ((size_t)prior->n + 1));
	t->of_kernel = malloc(sizeof *t->of_kernel * ((size_t)prior->num_choices + 3));
	int done = t->kernel && t->weight && t->of_kernel;
	if (done)
		number_kernels(t);
	for (int s = 0; done && s < prior->n; s++) {
		if (same[s] < 0 || !data_is_training(&prior->v[s]) ||
		    !data_is_training(&own->v[same[s]]))
			continue;
		for (int p = 0; done && p < NUM_PHASES; p++)
			done = pair_cells(t, p, s, same[s]);
		done = done && pair_plans(t, s, same[s]);
	}
	if (done && fit_all(t))
		return t;
	translation_free(t);
	return NULL;
}

void translation_free(struct translation *t)
{
	for (int p = 0; t && p < NUM_FIELDS; p++)
		log_ratios_free(&t->field[p]);
	if (t) {
		free(t->kernel);
		free(t->weight);
		free(t->of_kernel);
	}
	free(t);
}
