/* matrix.c - what each choice would cost in each training scenario, as integers,
 * so that sums do not depend on their order nor on the machine. Of pass A alone.
 *
 * A cost is 1e6 x log of the slowdown of the whole plan. In a mixed batch the
 * other part is taken at its best: a decode choice that is twice too slow beside
 * a long prefill costs little, because it matters little. A prefill choice is
 * also tried on the whole batch, since that is what it runs when parts are not
 * kept apart.
 *
 *   within the noise of the row's best    0
 *   slower                                1e6 x log(slowdown), at most COST_CAP
 *   given up early                        the same, and never 0
 *   legal, but not measured               by its family (formulas.c), and never 0;
 *                                         else the row's worst + COST_MISSING
 *   failed, wrong or illegal              COST_FORBIDDEN
 *
 * A choice with a formula costs what the choice costs that it comes to in that row, and so
 * does the last column, the cheapest by prices, where the data have prices.
 * Noise is what A/A pairs of that duration showed, more when the two intervals say
 * so, but never more than 2 %: a badly measured cell is not a good one. */
#include "tuner.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MIN_COVERAGE = 80, WIDE_COVERAGE = 90, MIN_WEIGHT = 16, MAX_WEIGHT = 64, MAX_NOISE = 20000 };

enum phase decision_phase(enum decision decision)
{
	static const enum phase phases[] = { PHASE_PREFILL, PHASE_DECODE, PHASE_ALL, PHASE_ALL,
					     PHASE_DECODE };
	return phases[decision];
}

struct matrix *matrix_new(int rows, int cols)
{
	struct matrix *m = calloc(1, sizeof *m);
	const size_t r = (size_t)rows + 1, c = (size_t)cols + 1;
	if (!m)
		return NULL;
	m->rows = rows;
	m->cols = cols;
	m->scenario = calloc(r, sizeof *m->scenario);
	m->choice = calloc(c, sizeof *m->choice);
	m->cost = calloc(r * c, sizeof *m->cost);
	m->fallback = calloc(r, sizeof *m->fallback);
	m->weight = calloc(r, sizeof *m->weight);
	m->block = calloc(r * NUM_BLOCKINGS, sizeof *m->block);
	m->f = calloc(r, sizeof *m->f);
	if (m->scenario && m->choice && m->cost && m->fallback && m->weight && m->block && m->f)
		return m;
	matrix_free(m);
	return NULL;
}

void matrix_free(struct matrix *m)
{
	if (!m)
		return;
	free(m->scenario);
	free(m->choice);
	free(m->cost);
	free(m->fallback);
	free(m->weight);
	free(m->block);
	free(m->f);
	free(m);
}

struct matrix *matrix_copy(const struct matrix *from)
{
	struct matrix *m = matrix_new(from->rows, from->cols);
	const size_t r = (size_t)from->rows, c = (size_t)from->cols;
	if (!m)
		return NULL;
	memcpy(m->scenario, from->scenario, r * sizeof *m->scenario);
	memcpy(m->choice, from->choice, c * sizeof *m->choice);
	memcpy(m->cost, from->cost, r * c * sizeof *m->cost);
	memcpy(m->fallback, from->fallback, r * sizeof *m->fallback);
	memcpy(m->weight, from->weight, r * sizeof *m->weight);
	memcpy(m->block, from->block, r * NUM_BLOCKINGS * sizeof *m->block);
	memcpy(m->f, from->f, r * sizeof *m->f);
	return m;
}

int32_t cost_of(double us, double best_us)
{
	const double cost = 1e6 * log(us / best_us);
	return cost >= COST_CAP ? COST_CAP : cost <= 0 ? 0 : (int32_t)lround(cost);
}

long long matrix_at(const struct matrix *m, int row, int col)
{
	const int32_t cost = m->cost[(size_t)row * (size_t)m->cols + (size_t)col];
	return cost == COST_FORBIDDEN ? FORBIDDEN_SUM : (long long)m->weight[row] * cost;
}

struct timing {
	double us, ci_us;
	int vague; /* at least this slow: no tie with the best */
};

static const struct timing never = { INFINITY, 0, 1 };

static int is_mixed(const struct measured *m)
{
	return m->has[PHASE_PREFILL] && m->has[PHASE_DECODE];
}

static struct timing timing_of(const struct data *d, int scenario, enum phase phase, int choice)
{
	const struct cell *cell = choice < 0 ? NULL : data_cell(d, scenario, phase, choice);
	if (!cell || cell->outcome != OUTCOME_OK)
		return never;
	return (struct timing){ cell->us, isfinite(cell->ci_us) ? cell->ci_us : 0, cell->censored };
}

/* Of a part, by either name where it is the whole batch; else a guess by its family. */
static struct timing part_timing(const struct data *d, int scenario, enum phase phase, int choice)
{
	struct timing t = timing_of(d, scenario, phase, choice);
	if (!isfinite(t.us) && !is_mixed(&d->v[scenario]))
		t = timing_of(d, scenario, PHASE_ALL, choice);
	if (!isfinite(t.us) && choice >= 0)
		t.us = family_time(d, scenario, phase, choice);
	return t;
}

/* The plan with this choice for its part. Beside it the other part at its best;
 * a prefill choice may instead run the whole batch, where that is faster. */
static struct timing plan_with(const struct data *d, int scenario, enum phase phase, int choice,
			       double beside)
{
	struct timing part = part_timing(d, scenario, phase, choice);
	part.us += beside;
	if (phase != PHASE_PREFILL || !is_mixed(&d->v[scenario]))
		return part;
	const struct timing whole = timing_of(d, scenario, PHASE_ALL, choice);
	return whole.us < part.us ? whole : part;
}

/* How much slower than the best is no difference. */
static double noise_us(const struct data *d, const struct timing *t, const struct timing *best)
{
	const double seen = hypot(t->ci_us, best->ci_us);
	return fmin(fmax(seen, best->us * data_noise(d, best->us)), best->us * MAX_NOISE / 1e6);
}

/* The other part's best time; 0 when there is none, or none was measured. */
static double best_beside(const struct data *d, int scenario, enum phase phase)
{
	int choice;
	const double us =
	    is_mixed(&d->v[scenario])
		? data_best(d, scenario, phase == PHASE_DECODE ? PHASE_PREFILL : PHASE_DECODE,
			    &choice)
		: 0;
	return isfinite(us) ? us : 0;
}

static int failed(const struct data *d, int scenario, enum phase phase, int choice)
{
	const struct cell *cell = data_cell(d, scenario, phase, choice);
	return cell && cell->outcome != OUTCOME_OK;
}

static int32_t plan_cost(const struct data *d, const struct timing *t, const struct timing *best)
{
	const int32_t least = (int32_t)lround(1e6 * data_noise(d, best->us));
	if (!isfinite(t->us))
		return -1;
	if (!t->vague && t->us - best->us <= noise_us(d, t, best))
		return 0;
	const int32_t cost = cost_of(t->us, best->us);
	return t->vague && cost < least ? least : cost;
}

/* t: room for one a column. */
static void fill_row(const struct data *d, struct matrix *m, int row, enum phase phase,
		     struct timing *t)
{
	const int s = m->scenario[row];
	const double beside = best_beside(d, s, phase);
	struct timing best = never, fallback;
	int32_t *cost = &m->cost[(size_t)row * (size_t)m->cols], worst = 0;

	for (int c = 0; c < m->cols; c++) {
		t[c] = plan_with(d, s, phase, m->choice[c], beside);
		best = t[c].us < best.us && !t[c].vague ? t[c] : best;
	}
	for (int c = 0; c < m->cols; c++) {
		cost[c] = plan_cost(d, &t[c], &best);
		worst = cost[c] > worst ? cost[c] : worst;
	}
	worst = worst + COST_MISSING < COST_CAP ? worst + COST_MISSING : COST_CAP;
	for (int c = 0; c < m->cols; c++) {
		if (!data_legal(d, s, phase, m->choice[c]) || failed(d, s, phase, m->choice[c]))
			cost[c] = COST_FORBIDDEN;
		else if (cost[c] < 0)
			cost[c] = worst;
	}
	fallback = plan_with(d, s, phase, default_choice(d, s, phase), beside);
	m->fallback[row] = isfinite(fallback.us) ? plan_cost(d, &fallback, &best) : COST_CAP;
}

static int floor_log2(long long v)
{
	int n = 0;
	while (v >>= 1)
		n++;
	return n;
}

void matrix_describe_row(const struct data *d, struct matrix *m, int row, enum phase phase)
{
	const struct measured *v = &d->v[m->scenario[row]];
	int32_t *block = &m->block[row * NUM_BLOCKINGS];
	int model = 0;
	double heaviest = 0;
	m->f[row] = v->part[phase].f;
	for (int i = 0; i < d->n; i++)
		heaviest = fmax(heaviest, d->v[i].weight);
	/* By the root: what is rare matters too. */
	m->weight[row] =
	    heaviest > 0 ? (int32_t)lround(MAX_WEIGHT * sqrt(v->weight / heaviest)) : 1;
	if (m->weight[row] < MIN_WEIGHT)
		m->weight[row] = MIN_WEIGHT;
	while (strcmp(d->v[model].model, v->model))
		model++;
	block[0] = (int32_t)m->f[row].num_seqs;
	block[1] = floor_log2(m->f[row].max_seq);
	block[2] = model;
	block[3] = row; /* by chance, as good as: rows are in the order of names */
}

/* The same data, asked for what trees learn from. */
static struct data first_pass(const struct data *d)
{
	struct data first = *d;
	first.pass = PASS_A;
	return first;
}

static int is_row(const struct data *d, int scenario, enum phase phase)
{
	int choice;
	return data_is_training(&d->v[scenario]) && d->v[scenario].has[phase] &&
	       isfinite(data_best(d, scenario, phase, &choice));
}

static int was_tried(const struct data *d, int scenario, enum phase phase, int choice)
{
	return isfinite(data_part_time(d, scenario, phase, choice)) ||
	       failed(d, scenario, phase, choice);
}

/* Whether some choice of the kernel is legal there, and whether one was tried. */
static void look_for(const struct data *d, int scenario, enum phase phase, const struct kernel *k,
		     int *legal, int *tried)
{
	*legal = *tried = 0;
	for (int c = 0; c < d->num_choices && !*tried; c++) {
		if (d->choice[c].kernel != k)
			continue;
		*tried = was_tried(d, scenario, phase, c);
		*legal |= *tried || data_legal(d, scenario, phase, c);
	}
}

/* Drops rows that do not know a kernel which nearly all others know: what is best there was
 * never found out. So batches that a new kernel has not run yet say nothing, instead of
 * speaking against it. */
static void drop_unknowing(const struct data *d, struct matrix *m, enum phase phase,
			   const struct kernel *k, signed char *unknowing)
{
	int legal, tried, could = 0, did = 0, kept = 0;
	for (int r = 0; r < m->rows; r++) {
		look_for(d, m->scenario[r], phase, k, &legal, &tried);
		unknowing[r] = (signed char)(legal && !tried);
		could += legal;
		did += tried;
	}
	if (100 * did < WIDE_COVERAGE * could)
		return;
	for (int r = 0; r < m->rows; r++)
		if (!unknowing[r])
			m->scenario[kept++] = m->scenario[r];
	m->rows = kept;
}

static int drop_all_unknowing(const struct data *d, struct matrix *m, enum phase phase)
{
	signed char *unknowing = malloc((size_t)m->rows + 1);
	for (int c = 0; unknowing && c < d->num_choices; c++)
		if ((!c || d->choice[c].kernel != d->choice[c - 1].kernel) &&
		    d->choice[c].kernel->selectable && !choice_overlaps(&d->choice[c]))
			drop_unknowing(d, m, phase, d->choice[c].kernel, unknowing);
	free(unknowing);
	return unknowing != NULL;
}

/* The part alone, or a prefill choice that ran the whole batch. */
static int was_tried_anywhere(const struct data *d, const struct matrix *m, enum phase phase,
			      int choice)
{
	for (int r = 0; r < m->rows; r++)
		if (was_tried(d, m->scenario[r], phase, choice) ||
		    (phase == PHASE_PREFILL && was_tried(d, m->scenario[r], PHASE_ALL, choice)))
			return 1;
	return 0;
}

/* Any that is no helper, not for overlap alone, and known at all; of those with a formula, the
 * ones whose meaning was measured nearly wherever there is one: the others' picks could not be
 * judged. */
static int is_column(const struct data *d, const struct matrix *m, enum phase phase, int choice)
{
	int legal = 0, known = 0;
	if (choice_overlaps(&d->choice[choice]) || !d->choice[choice].kernel->selectable)
		return 0;
	if (choice < d->num_choices)
		return was_tried_anywhere(d, m, phase, choice);
	for (int r = 0; r < m->rows; r++) {
		const int s = m->scenario[r];
		if (!data_legal(d, s, phase, choice))
			continue;
		legal++;
		known += was_tried(d, s, phase, choice);
	}
	return legal && 100 * known >= MIN_COVERAGE * legal;
}

struct matrix *matrix_parts(const struct data *all, enum decision decision)
{
	const enum phase phase = decision_phase(decision);
	const struct data first = first_pass(all), *d = &first;
	struct matrix *m = matrix_new(d->n, d->num_columns + 1);
	struct timing *t = malloc(sizeof *t * ((size_t)d->num_columns + 1));
	if (m)
		m->rows = m->cols = 0;
	for (int s = 0; m && s < d->n; s++)
		if (is_row(d, s, phase))
			m->scenario[m->rows++] = s;
	if (!m || !t || !drop_all_unknowing(d, m, phase)) {
		matrix_free(m);
		free(t);
		return NULL;
	}
	for (int c = 0; c < d->num_columns; c++)
		if (is_column(d, m, phase, c))
			m->choice[m->cols++] = c;
	if (d->cheapest[decision] && m->rows)
		m->choice[m->cols++] = cheapest_column(d, decision);
	for (int r = 0; r < m->rows; r++) {
		matrix_describe_row(d, m, r, phase);
		fill_row(d, m, r, phase, t);
	}
	free(t);
	return m;
}

/* Costs of both ways; 0 when neither was measured. whole: what one launch would run. */
static int fill_join(const struct data *d, const struct pick *pick, int whole, int scenario,
		     int32_t *cost)
{
	double us[2], best;
	if (pick->prefill < 0 || pick->decode < 0)
		return 0;
	for (int join = 0; join < 2; join++) {
		const struct pick p = { .prefill = join ? pick->prefill : whole,
					.decode = pick->decode,
					.join = join };
		us[join] = data_plan_time(d, scenario, &p);
	}
	if (whole < 0 || !data_legal(d, scenario, PHASE_ALL, whole))
		us[0] = us[1]; /* the library then runs both parts */
	else if (!data_cell(d, scenario, PHASE_ALL, whole))
		us[0] = us[1] * (1 + COST_MISSING / 1e6); /* not known: no reason to */
	if (!isfinite(us[1]) && !(data_cell(d, scenario, PHASE_PREFILL, pick->prefill) &&
				  data_cell(d, scenario, PHASE_DECODE, pick->decode)))
		return 0;
	best = fmin(us[0], us[1]);
	for (int join = 0; join < 2; join++)
		cost[join] = !isfinite(us[join])                          ? COST_FORBIDDEN
			     : us[join] <= best * (1 + NOISE_FLOOR / 1e6) ? 0
									  : cost_of(us[join], best);
	return isfinite(best);
}

struct matrix *matrix_join(const struct data *all, const struct pick *picks, const int *whole)
{
	const struct data first = first_pass(all), *d = &first;
	const int cols = whole ? 3 : 2;
	struct matrix *m = matrix_new(d->n, cols);
	if (!m)
		return NULL;
	m->rows = 0;
	for (int c = 0; c < cols; c++)
		m->choice[c] = c;
	for (int s = 0; s < d->n; s++) {
		const struct measured *v = &d->v[s];
		if (!data_is_training(v) || !v->has[PHASE_PREFILL] || !v->has[PHASE_DECODE] ||
		    !fill_join(d, &picks[s], whole ? whole[s] : picks[s].prefill, s,
			       &m->cost[m->rows * cols]))
			continue;
		if (whole)
			m->cost[m->rows * cols + 2] = m->cost[m->rows * cols + picks[s].join];
		m->scenario[m->rows] = s;
		m->fallback[m->rows] = COST_CAP;
		matrix_describe_row(d, m, m->rows++, PHASE_ALL);
	}
	return m;
}
