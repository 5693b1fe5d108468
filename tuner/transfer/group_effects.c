/* group_effects.c - fits the effects of groups of choices on the ratio of two GPUs' times;
 * translate.c has the formula. */
#include "group_effects.h"
#include "harness/base/base.h"
#include "kernels/kernel.h"
#include <math.h>
#include <stdlib.h>

enum { MOST_SITES = 128 /* that cross-validation looks at */ };
static const double widths[] = { 1, 2, 4 }, shrinks[] = { 0.5, 2, 8 };

static double shrunk(double weighted, double weight, double shrink)
{
	return weighted / (weight + shrink);
}

int log_ratios_add(struct log_ratios *f, const struct pair *p)
{
	if (!array_grow(&f->pair, f->num_pairs, &f->room, sizeof *f->pair))
		return 0;
	f->pair[f->num_pairs++] = *p;
	return 1;
}

/* ---- levels -------------------------------------------------------------------------- */
static int by_group(const void *pa, const void *pb)
{
	const struct mean *a = pa, *b = pb;
	return a->group != b->group ? a->group - b->group : a->site - b->site;
}

/* Merges means of the same group and site, with equal weights. */
static void merge_means(struct level *l)
{
	int kept = 0;
	if (l->n)
		qsort(l->v, (size_t)l->n, sizeof *l->v, by_group);
	for (int i = 0; i < l->n; i++) {
		struct mean *last = kept ? &l->v[kept - 1] : NULL;
		if (last && !by_group(last, &l->v[i])) {
			last->r += (l->v[i].r - last->r) / ++last->n;
			continue;
		}
		l->v[kept] = l->v[i];
		l->v[kept++].n = 1;
	}
	l->n = kept;
}

/* The means of the pairs' residuals. For the level of all choices, the mean of the kernels' means,
 * since a sweep measures many choices of some kernels and few of others. 0 without memory. */
static int level_fill(struct level *l, const struct log_ratios *f, int group_at, int groups)
{
	l->v = malloc(sizeof *l->v * ((size_t)f->num_pairs + 1));
	l->first = calloc((size_t)groups + 2, sizeof *l->first);
	if (!l->v || !l->first)
		return 0;
	l->n = f->num_pairs;
	for (int i = 0; i < f->num_pairs; i++)
		l->v[i] = (struct mean){ f->pair[i].group[group_at ? group_at : 1], f->pair[i].site,
					 1, f->pair[i].r };
	merge_means(l);
	for (int i = 0; !group_at && i < l->n; i++)
		l->v[i].group = 0;
	if (!group_at)
		merge_means(l);
	for (int i = 0; i < l->n; i++)
		l->first[l->v[i].group + 1]++;
	for (int g = 0; g <= groups; g++)
		l->first[g + 1] += l->first[g];
	return 1;
}

double level_at(const struct level *l, int group, const double *weight, double shrink, int without)
{
	double sum = 0, weights = 0;
	for (int i = l->first[group]; i < l->first[group + 1]; i++) {
		const struct mean *m = &l->v[i];
		const double w = m->site == without ? 0 : l->is_near ? weight[m->site] : 1;
		sum += w * m->r;
		weights += w;
	}
	return shrunk(sum, weights, shrink);
}

static void weigh(const struct log_ratios *f, const double *far, double *weight)
{
	for (int i = 0; i < f->num_sites; i++)
		weight[i] = exp(-far[i] / f->width);
}

/* Subtracts the level's effects from all pairs, which are sorted by site. 0 without memory. */
static int take_level(struct log_ratios *f, const struct level *l, int group_at, double *weight)
{
	double *r = malloc(sizeof *r * ((size_t)f->num_pairs + 1));
	for (int i = 0; r && i < f->num_pairs; i++) {
		const struct pair *p = &f->pair[i];
		if (!i || p->site != f->pair[i - 1].site)
			weigh(f, f->far + (size_t)p->site * (size_t)f->num_sites, weight);
		r[i] = p->r - level_at(l, p->group[group_at], weight, f->shrink, -1);
	}
	for (int i = 0; r && i < f->num_pairs; i++)
		f->pair[i].r = r[i];
	free(r);
	return r != NULL;
}

static void levels_free(struct log_ratios *f)
{
	for (int i = 0; i < 2 * NUM_LEVELS; i++) {
		free(f->level[i].v);
		free(f->level[i].first);
		f->level[i] = (struct level){ 0 };
	}
}

/* Fits all levels with f's width and shrink; pairs keep the residuals. 0 without memory. */
static int levels_fit(struct log_ratios *f, const int groups[NUM_LEVELS], double *weight)
{
	levels_free(f);
	for (int i = 0; i < 2 * NUM_LEVELS; i++) {
		f->level[i].is_near = i % 2;
		if (!level_fill(&f->level[i], f, i / 2, groups[i / 2]) ||
		    !take_level(f, &f->level[i], i / 2, weight))
			return 0;
	}
	return 1;
}

/* Leave-one-out error: the sum over sites of the mean squared residual when the site is left out.
 * r: the pairs' values before any level. */
static double left_out(const struct log_ratios *f, const double *r, double *weight)
{
	double sum = 0, of_site = 0;
	int n = 0;
	for (int i = 0; i < f->num_pairs; i++) {
		const struct pair *p = &f->pair[i];
		if (!i || p->site != f->pair[i - 1].site) {
			weigh(f, f->far + (size_t)p->site * (size_t)f->num_sites, weight);
			of_site = 0, n = 0;
		}
		double left = r[i];
		for (int k = 0; k < 2 * NUM_LEVELS; k++)
			left -= level_at(&f->level[k], p->group[k / 2], weight, f->shrink, p->site);
		of_site += left * left;
		n++;
		if (i + 1 == f->num_pairs || f->pair[i + 1].site != p->site)
			sum += of_site / n;
	}
	return sum;
}

/* Copies the pairs of at most MOST_SITES evenly spaced sites, which keep their numbers. 0 without
 * memory. */
static int copy_some(struct log_ratios *some, const struct log_ratios *f)
{
	const int every = (f->num_sites + MOST_SITES - 1) / MOST_SITES;
	*some = (struct log_ratios){ .far = f->far, .num_sites = f->num_sites };
	for (int i = 0; i < f->num_pairs; i++)
		if (f->pair[i].site % every == 0 && !log_ratios_add(some, &f->pair[i]))
			return 0;
	return 1;
}

static int try_one(struct log_ratios *f, const int groups[NUM_LEVELS], double *weight,
		   const double *r, double *error)
{
	for (int i = 0; i < f->num_pairs; i++)
		f->pair[i].r = r[i];
	if (!levels_fit(f, groups, weight))
		return 0;
	*error = left_out(f, r, weight);
	return 1;
}

/* The width and shrink of least error. 0 without memory. */
static int choose(struct log_ratios *f, const int groups[NUM_LEVELS], double *weight)
{
	struct log_ratios some;
	double least = INFINITY, error = 0, *r = NULL;
	int done = copy_some(&some, f) && (r = malloc(sizeof *r * (size_t)some.num_pairs));
	f->width = widths[COUNT(widths) - 1];
	f->shrink = shrinks[1];
	for (int i = 0; done && i < some.num_pairs; i++)
		r[i] = some.pair[i].r;
	for (size_t i = 0; done && i < COUNT(widths) * COUNT(shrinks); i++) {
		some.width = widths[i / COUNT(shrinks)];
		some.shrink = shrinks[i % COUNT(shrinks)];
		done = try_one(&some, groups, weight, r, &error);
		if (done && error < least)
			least = error, f->width = some.width, f->shrink = some.shrink;
	}
	levels_free(&some);
	free(some.pair);
	free(r);
	return done;
}

int log_ratios_fit(struct log_ratios *f, const int groups[NUM_LEVELS], double *weight)
{
	const int done =
	    !f->num_pairs || (choose(f, groups, weight) && levels_fit(f, groups, weight));
	for (int i = 0; done && i < f->num_pairs; i++) {
		f->rest[f->pair[i].site] += f->pair[i].r;
		f->pairs[f->pair[i].site]++;
	}
	for (int i = 0; done && i < f->num_sites; i++)
		f->rest[i] = shrunk(f->rest[i], f->pairs[i], f->shrink);
	return done;
}

void log_ratios_free(struct log_ratios *f)
{
	levels_free(f);
	free(f->pair);
	free(f->site);
	free(f->far);
	free(f->rest);
	free(f->pairs);
}
