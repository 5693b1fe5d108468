/* baseline_matrices.c - computes, once for all baselines, what they learn from the cost matrix of
 * the prefill and of the decode decision. A matrix has millions of costs. */
#include "policy.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include <stdlib.h>

/* The column of least cost; ties to the lower. */
static int row_winner(const struct matrix *m, int row)
{
	const int32_t *cost = &m->cost[(size_t)row * (size_t)m->cols];
	int best = 0;
	for (int c = 1; c < m->cols; c++)
		if (cost[c] < cost[best])
			best = c;
	return best;
}

/* The concrete choice of least total cost; ties to the lower. */
static int cheapest_of(const struct data *d, const struct matrix *m, long long *sum)
{
	int best = -1;
	for (int c = 0; c < m->cols; c++)
		sum[c] = 0;
	for (int r = 0; r < m->rows; r++)
		for (int c = 0; c < m->cols; c++)
			sum[c] += matrix_at(m, r, c);
	for (int c = 0; m->rows && c < m->cols; c++) {
		const struct choice *k = &d->choice[m->choice[c]];
		if (config_is_formula(&k->config, k->kernel->space))
			continue; /* a formula is not a fixed choice */
		if (best < 0 || sum[c] < sum[best])
			best = c;
	}
	return best < 0 ? -1 : m->choice[best];
}

/* The columns that are the fastest of some row. winner: [rows] */
static struct matrix *keep_winners(const struct matrix *m, const int *winner, int *to)
{
	int kept = 0;
	for (int c = 0; c < m->cols; c++)
		to[c] = -1;
	for (int r = 0; r < m->rows; r++)
		to[winner[r]] = 1;
	for (int c = 0; c < m->cols; c++)
		if (to[c] >= 0)
			to[c] = kept++;
	return matrix_columns(m, to, kept);
}

/* Takes m, which has rows and columns, and keeps its portfolio. */
static int study(struct basics *b, const struct data *d, struct matrix *m)
{
	int *to = malloc(sizeof *to * (size_t)(m->cols + 1));
	long long *sum = malloc(sizeof *sum * (size_t)(m->cols + 1));
	b->winner = malloc(sizeof *b->winner * (size_t)(m->rows + 1));
	if (to && sum && b->winner) {
		b->fixed = cheapest_of(d, m, sum);
		for (int r = 0; r < m->rows; r++)
			b->winner[r] = row_winner(m, r);
		b->winners = keep_winners(m, b->winner, to);
		for (int r = 0; r < m->rows; r++)
			b->winner[r] = m->choice[b->winner[r]];
	}
	free(to);
	free(sum);
	if (b->winners && matrix_portfolio(m, default_limits.variants, -1, NULL))
		b->few = m;
	else
		matrix_free(m);
	return b->few != NULL;
}

static void basics_free(void *found)
{
	struct basics *b = found;
	for (int i = 0; b && i < 2; i++) {
		free(b[i].winner);
		matrix_free(b[i].winners);
		matrix_free(b[i].few);
	}
	free(b);
}

/* Both decisions' results are stored in the data. NULL without memory. */
static struct basics *slot_of(const struct data *d, enum decision decision)
{
	struct found *f = d->basics;
	if (!f->v) {
		f->v = calloc(2, sizeof(struct basics));
		f->free = basics_free;
	}
	return f->v ? &((struct basics *)f->v)[decision] : NULL;
}

const struct basics *basics_of(const struct data *d, enum decision decision)
{
	struct basics *b = slot_of(d, decision);
	struct matrix *m = !b || b->known ? NULL : matrix_parts(d, decision);
	if (!b)
		return NULL;
	if (b->known)
		return b;
	b->fixed = -1;
	if (m && (!m->rows || !m->cols)) {
		matrix_free(m);
		b->known = 1;
	} else if (m) {
		b->known = study(b, d, m);
	}
	return b->known ? b : NULL;
}
