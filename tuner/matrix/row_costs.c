/* SPDX-License-Identifier: Apache-2.0 */
/* row_costs.c - fills in a matrix: what each choice costs in each training scenario, from pass A.
 * Costs are integers, so sums depend neither on their order nor on the machine.
 *
 * A cost is 1e6 x log of the slowdown of the whole plan. In a mixed batch the other part runs its
 * fastest choice: a decode choice that is twice too slow beside a long prefill costs little,
 * because it matters little. Times of one launch for both parts do not count: no rule selects that.
 *
 *   within the noise of the row's best    0
 *   slower                                1e6 x log(slowdown), at most COST_CAP
 *   given up early                        the same, and never 0
 *   legal, but not measured               a guess by its family (segment_families.c), never 0;
 *                                         without one the row's worst + COST_MISSING
 *   failed or wrong                       COST_FORBIDDEN
 *   illegal                               COST_ILLEGAL
 *
 * A choice with a formula costs what its concrete choice costs in that row. The noise is that of
 * A/A controls of that duration, or of the two confidence intervals where these are wider, but at
 * most 2 %: a badly measured cell must not count as a good one. */
#include "matrix.h"
#include "kernels/spec/space.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NOISE = 20000 /* 2 % in micro-nats */ };

struct timing {
	double us, ci_us;
	int vague; /* at least this slow: cannot tie with the best */
};

static const struct timing never = { INFINITY, 0, 1 };

static struct timing timing_of(const struct data *d, int scenario, enum phase phase, int choice)
{
	const struct cell *cell = choice < 0 ? NULL : data_cell(d, scenario, phase, choice);
	if (!cell || cell->outcome != OUTCOME_OK)
		return never;
	return (struct timing){ cell->us, isfinite(cell->ci_us) ? cell->ci_us : 0, cell->censored };
}

/* The time of a part. In a batch of one phase it may be stored under PHASE_ALL, too. An unmeasured
 * choice gets its family's guess. */
static struct timing part_timing(const struct data *d, int scenario, enum phase phase, int choice)
{
	struct timing t = timing_of(d, scenario, phase, choice);
	if (!isfinite(t.us) && !measured_is_mixed(&d->v[scenario]))
		t = timing_of(d, scenario, PHASE_ALL, choice);
	if (!isfinite(t.us) && choice >= 0)
		t.us = family_time(d, scenario, phase, choice);
	return t;
}

/* The plan with this choice for its part; the other part takes other_us. */
static struct timing plan_with(const struct data *d, int scenario, enum phase phase, int choice,
			       double other_us)
{
	struct timing part = part_timing(d, scenario, phase, choice);
	part.us += other_us;
	return part;
}

/* Differences from the best up to this are noise. */
static double noise_us(const struct data *d, const struct timing *t, const struct timing *best)
{
	const double seen = hypot(t->ci_us, best->ci_us);
	return fmin(fmax(seen, best->us * data_noise(d, best->us)), best->us * MAX_NOISE / 1e6);
}

/* The other part's best time; 0 without another part or without a time of it. */
static double best_other(const struct data *d, int scenario, enum phase phase)
{
	int choice;
	const double us =
	    measured_is_mixed(&d->v[scenario])
		? data_best(d, scenario, phase == PHASE_DECODE ? PHASE_PREFILL : PHASE_DECODE,
			    &choice)
		: 0;
	return isfinite(us) ? us : 0;
}

int part_failed(const struct data *d, int scenario, enum phase phase, int choice)
{
	const struct cell *cell = data_cell(d, scenario, phase, choice);
	return cell && cell->outcome != OUTCOME_OK;
}

static int32_t plan_cost(const struct data *d, const struct timing *t, const struct timing *best)
{
	if (!isfinite(t->us))
		return -1;
	const int32_t least = (int32_t)lround(1e6 * data_noise(d, best->us));
	if (!t->vague && t->us - best->us <= noise_us(d, t, best))
		return 0;
	const int32_t cost = cost_of(t->us, best->us);
	return t->vague && cost < least ? least : cost;
}

/* ---- the costs of a row --------------------------------------------------------------- */
/* Scratch for one row after the other. Of thousands of columns only a few have a cell in a row, or
 * a family that has one; so cells are visited, not columns. */
struct filling {
	const struct data *d;
	struct matrix *m;
	enum phase phase;
	int *column;               /* [data.num_choices] column of the matrix, -1: none */
	struct timing *t;          /* [cols] */
	double *us;                /* [data.num_choices] time of the part, INFINITY: none */
	char *is_failed;           /* [cols] the part has a result other than ok */
	char *is_near;             /* [data.num_families] a member has a time */
	const attune_shape *shape; /* of the previous row; NULL: none yet */
	char *suits;               /* [cols] legal for some batch of that shape */
};

static int filling_open(struct filling *f, const struct data *d, struct matrix *m, enum phase phase)
{
	const size_t choices = (size_t)d->num_choices + 1, cols = (size_t)m->cols + 1;
	*f = (struct filling){ .d = d,
			       .m = m,
			       .phase = phase,
			       .column = malloc(sizeof *f->column * choices),
			       .t = malloc(sizeof *f->t * cols),
			       .us = malloc(sizeof *f->us * choices),
			       .is_failed = malloc(cols),
			       .is_near = malloc((size_t)d->num_families + 1),
			       .suits = malloc(cols) };
	if (!f->column || !f->t || !f->us || !f->is_failed || !f->is_near || !f->suits)
		return 0;
	for (int c = 0; c < d->num_choices; c++)
		f->column[c] = -1, f->us[c] = INFINITY;
	for (int c = 0; c < m->cols; c++)
		if (m->choice[c] < d->num_choices)
			f->column[m->choice[c]] = c;
	return 1;
}

static void filling_close(struct filling *f)
{
	free(f->column);
	free(f->t);
	free(f->us);
	free(f->is_failed);
	free(f->is_near);
	free(f->suits);
}

/* Rows of one shape follow one another, and most illegal choices are illegal for the shape. */
static void suit_shape(struct filling *f, const attune_shape *shape)
{
	const struct data *d = f->d;
	if (f->shape && !memcmp(f->shape, shape, sizeof *shape))
		return;
	f->shape = shape;
	for (int c = 0; c < f->m->cols; c++) {
		const int choice = f->m->choice[c];
		const struct choice *k = &d->choice[choice];
		f->suits[c] =
		    choice >= d->num_choices ||
		    !k->kernel->space->why_illegal(&k->config, shape, NULL, &d->run.device);
	}
}

/* Times the columns with a cell of the part or of PHASE_ALL; leaves their times in f->us. */
static void time_cells(struct filling *f, int s, double other_us)
{
	const struct data *d = f->d;
	struct choice_iter i = choices_of(d, s, f->phase, PHASE_ALL);
	while (choices_next(&i)) {
		const int col = f->column[i.choice], family = d->family_of[i.choice];
		const struct cell *part = cells_of_pass(d, &i.cells[0]);
		f->us[i.choice] = cells_part_time(d, s, i.cells);
		if (family >= 0 && isfinite(f->us[i.choice]))
			f->is_near[family] = 1;
		if (col < 0)
			continue;
		f->t[col] = plan_with(d, s, f->phase, i.choice, other_us);
		f->is_failed[col] = part && part->outcome != OUTCOME_OK;
	}
}

/* Times the columns that only have a family's guess; resets f->us. */
static void time_families(struct filling *f, int s, double other_us)
{
	const struct data *d = f->d;
	for (int k = 0; k < d->num_families; k++)
		for (int i = 0; f->is_near[k] && i < d->family[k].num_members; i++) {
			const int choice = d->family[k].member[i];
			const int col = choice < 0 ? -1 : f->column[choice];
			if (col >= 0 && !isfinite(f->us[choice]))
				f->t[col] = plan_with(d, s, f->phase, choice, other_us);
		}
	struct choice_iter i = choices_of(d, s, f->phase, PHASE_ALL);
	while (choices_next(&i))
		f->us[i.choice] = INFINITY;
}

static void time_row(struct filling *f, int s, double other_us)
{
	const struct data *d = f->d;
	const struct matrix *m = f->m;
	for (int c = 0; c < m->cols; c++)
		f->t[c] = never;
	memset(f->is_failed, 0, (size_t)m->cols);
	memset(f->is_near, 0, (size_t)d->num_families);
	time_cells(f, s, other_us);
	time_families(f, s, other_us);
	for (int c = 0; c < m->cols; c++)
		if (m->choice[c] >= d->num_choices) {
			f->t[c] = plan_with(d, s, f->phase, m->choice[c], other_us);
			f->is_failed[c] = (char)part_failed(d, s, f->phase, m->choice[c]);
		}
}

static void fill_row(struct filling *f, int row)
{
	const struct data *d = f->d;
	struct matrix *m = f->m;
	const int s = m->scenario[row];
	const double other_us = best_other(d, s, f->phase);
	struct timing best = never, fallback;
	int32_t *cost = &m->cost[(size_t)row * (size_t)m->cols], worst = 0;

	time_row(f, s, other_us);
	suit_shape(f, &d->v[s].shape);
	for (int c = 0; c < m->cols; c++)
		best = f->t[c].us < best.us && !f->t[c].vague ? f->t[c] : best;
	for (int c = 0; c < m->cols; c++) {
		cost[c] = plan_cost(d, &f->t[c], &best);
		worst = cost[c] > worst ? cost[c] : worst;
	}
	worst = worst + COST_MISSING < COST_CAP ? worst + COST_MISSING : COST_CAP;
	for (int c = 0; c < m->cols; c++) {
		if (!f->suits[c] || !data_legal(d, s, f->phase, m->choice[c]))
			cost[c] = COST_ILLEGAL;
		else if (f->is_failed[c])
			cost[c] = COST_FORBIDDEN;
		else if (cost[c] < 0)
			cost[c] = worst;
	}
	fallback = plan_with(d, s, f->phase, default_choice(d, s, f->phase), other_us);
	m->fallback[row] = isfinite(fallback.us) ? plan_cost(d, &fallback, &best) : COST_CAP;
}

int matrix_fill_rows(const struct data *d, struct matrix *m, enum phase phase)
{
	struct filling f;
	const int done = filling_open(&f, d, m, phase);
	for (int r = 0; done && r < m->rows; r++) {
		matrix_describe_row(d, m, r, phase);
		fill_row(&f, r);
	}
	filling_close(&f);
	return done;
}
