/* matrix.c - what each choice would cost in each training scenario, as integers,
 * so that sums do not depend on their order nor on the machine.
 *
 * A cost is 1e6 x log of the slowdown of the whole plan. In a mixed batch the
 * other part is taken at its best: a decode choice that is twice too slow beside
 * a long prefill costs little, because it matters little. A prefill choice is
 * also tried on the whole batch, since that is what it runs when parts are not
 * kept apart.
 *
 *   within the noise of the row's best    0
 *   slower                                1e6 x log(slowdown), at most COST_CAP
 *   legal, but not measured               the row's worst + COST_MISSING
 *   failed, wrong or illegal              COST_FORBIDDEN
 *
 * Noise is NOISE_FLOOR of the best, more when the two intervals say so, but
 * never more than 2 %: a badly measured cell is not a good one. */
#include "tuner.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WEIGHT = 256, MAX_NOISE = 20000 };

const char *const decision_names[NUM_DECISIONS] = { "prefill", "decode", "join" };

enum phase decision_phase(enum decision decision)
{
	static const enum phase phases[] = { PHASE_PREFILL, PHASE_DECODE, PHASE_ALL };
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
};

static struct timing timing_of(const struct data *d, int scenario, enum phase phase, int choice)
{
	const struct cell *cell = choice < 0 ? NULL : data_cell(d, scenario, phase, choice);
	if (!cell || cell->outcome != OUTCOME_OK)
		return (struct timing){ INFINITY, 0 };
	return (struct timing){ cell->median_us, isfinite(cell->ci_us) ? cell->ci_us : 0 };
}

static int is_mixed(const struct measured *m)
{
	return m->has[PHASE_PREFILL] && m->has[PHASE_DECODE];
}

/* The plan with this choice for its part. Beside it the other part at its best;
 * a prefill choice may instead run the whole batch, where that is faster. */
static struct timing plan_with(const struct data *d, int scenario, enum phase phase, int choice,
			       double beside)
{
	const struct timing whole = timing_of(d, scenario, PHASE_ALL, choice);
	struct timing part = timing_of(d, scenario, phase, choice);
	part.us += beside;
	if (!isfinite(part.us) && !is_mixed(&d->v[scenario]))
		return whole;
	return phase == PHASE_PREFILL && whole.us < part.us ? whole : part;
}

/* How much slower than the best is no difference. */
static double noise_us(const struct timing *t, const struct timing *best)
{
	const double seen = hypot(t->ci_us, best->ci_us);
	return fmin(fmax(seen, best->us * NOISE_FLOOR / 1e6), best->us * MAX_NOISE / 1e6);
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

static int32_t plan_cost(const struct timing *t, const struct timing *best)
{
	if (!isfinite(t->us))
		return -1;
	return t->us - best->us <= noise_us(t, best) ? 0 : cost_of(t->us, best->us);
}

static void fill_row(const struct data *d, struct matrix *m, int row, enum phase phase)
{
	const int s = m->scenario[row];
	const double beside = best_beside(d, s, phase);
	struct timing best = { INFINITY, 0 }, fallback;
	int32_t *cost = &m->cost[(size_t)row * (size_t)m->cols], worst = 0;

	for (int c = 0; c < m->cols; c++) {
		const struct timing t = plan_with(d, s, phase, m->choice[c], beside);
		best = t.us < best.us ? t : best;
	}
	for (int c = 0; c < m->cols; c++) {
		const struct timing t = plan_with(d, s, phase, m->choice[c], beside);
		cost[c] = plan_cost(&t, &best);
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
	m->fallback[row] = isfinite(fallback.us) ? plan_cost(&fallback, &best) : COST_CAP;
}

static int floor_log2(long long v)
{
	int n = 0;
	while (v >>= 1)
		n++;
	return n;
}

/* Everything of a row but its costs. */
static void describe_row(const struct data *d, struct matrix *m, int row, enum phase phase)
{
	const struct measured *v = &d->v[m->scenario[row]];
	int32_t *block = &m->block[row * NUM_BLOCKINGS];
	int model = 0;
	double heaviest = 0;
	m->f[row] = v->part[phase].f;
	for (int i = 0; i < d->n; i++)
		heaviest = fmax(heaviest, d->v[i].weight);
	m->weight[row] = heaviest > 0 ? (int32_t)lround(MAX_WEIGHT * v->weight / heaviest) : 1;
	if (m->weight[row] < 1)
		m->weight[row] = 1;
	while (strcmp(d->v[model].model, v->model))
		model++;
	block[0] = (int32_t)m->f[row].num_seqs;
	block[1] = floor_log2(m->f[row].max_seq);
	block[2] = model;
	block[3] = row; /* by chance, as good as: rows are in the order of names */
}

static int is_row(const struct data *d, int scenario, enum phase phase)
{
	int choice;
	return data_is_training(&d->v[scenario]) && d->v[scenario].has[phase] &&
	       isfinite(data_best(d, scenario, phase, &choice));
}

/* The choices that were measured at all: any that is a helper is not one. */
static int is_column(const struct data *d, int choice)
{
	return d->choice[choice].kernel->selectable;
}

struct matrix *matrix_parts(const struct data *d, enum decision decision)
{
	const enum phase phase = decision_phase(decision);
	struct matrix *m = matrix_new(d->n, d->num_choices);
	if (!m)
		return NULL;
	m->rows = m->cols = 0;
	for (int c = 0; c < d->num_choices; c++)
		if (is_column(d, c))
			m->choice[m->cols++] = c;
	for (int s = 0; s < d->n; s++) {
		if (!is_row(d, s, phase))
			continue;
		m->scenario[m->rows] = s;
		describe_row(d, m, m->rows, phase);
		fill_row(d, m, m->rows++, phase);
	}
	return m;
}

/* Costs of both ways; 0 when neither was measured. */
static int fill_join(const struct data *d, const struct pick *pick, int scenario, int32_t cost[2])
{
	double us[2], best;
	if (pick->prefill < 0)
		return 0;
	for (int join = 0; join < 2; join++) {
		const struct pick p = { pick->prefill, pick->decode, join };
		us[join] = data_plan_time(d, scenario, &p);
	}
	if (!data_legal(d, scenario, PHASE_ALL, pick->prefill))
		us[0] = us[1]; /* the library then runs both parts */
	best = fmin(us[0], us[1]);
	for (int join = 0; join < 2; join++)
		cost[join] = !isfinite(us[join])                          ? COST_FORBIDDEN
			     : us[join] <= best * (1 + NOISE_FLOOR / 1e6) ? 0
									  : cost_of(us[join], best);
	return isfinite(best);
}

struct matrix *matrix_join(const struct data *d, const struct pick *picks)
{
	struct matrix *m = matrix_new(d->n, 2);
	if (!m)
		return NULL;
	m->rows = 0;
	m->choice[1] = 1;
	for (int s = 0; s < d->n; s++) {
		const struct measured *v = &d->v[s];
		if (!data_is_training(v) || !v->has[PHASE_PREFILL] || !v->has[PHASE_DECODE] ||
		    !fill_join(d, &picks[s], s, &m->cost[m->rows * 2]))
			continue;
		m->scenario[m->rows] = s;
		m->fallback[m->rows] = COST_CAP;
		describe_row(d, m, m->rows++, PHASE_ALL);
	}
	return m;
}

/* ---- portfolio -------------------------------------------------------------------- */
/* least[row] over the columns in use, leaving out column number `without`. */
static void row_minima(const struct matrix *m, const int *used, int n, int without,
		       long long *least)
{
	for (int r = 0; r < m->rows; r++) {
		least[r] = 2 * FORBIDDEN_SUM;
		for (int i = 0; i < n; i++) {
			const long long cost = i == without ? least[r] : matrix_at(m, r, used[i]);
			if (cost < least[r])
				least[r] = cost;
		}
	}
}

/* The column that brings the sum of row minima down the most. */
static int best_addition(const struct matrix *m, const long long *least, long long *sum)
{
	int best = -1;
	for (int c = 0; c < m->cols; c++) {
		long long total = 0;
		for (int r = 0; r < m->rows; r++) {
			const long long cost = matrix_at(m, r, c);
			total += cost < least[r] ? cost : least[r];
		}
		if (best < 0 || total < *sum)
			best = c, *sum = total;
	}
	return best;
}

/* Replaces members one at a time while that helps. */
static void swap_members(const struct matrix *m, int *used, int n, long long *least, long long sum)
{
	for (int changed = 1; changed;) {
		changed = 0;
		for (int i = 0; i < n; i++) {
			long long with = 0;
			row_minima(m, used, n, i, least);
			const int c = best_addition(m, least, &with);
			if (with < sum)
				used[i] = c, sum = with, changed = 1;
		}
	}
}

int matrix_keep(struct matrix *m, const int *to, int cols)
{
	const size_t rows = (size_t)m->rows;
	int32_t *cost = malloc(sizeof *cost * (rows * (size_t)cols + 1));
	if (!cost)
		return 0;
	for (int c = 0; c < m->cols; c++) {
		if (to[c] < 0)
			continue;
		for (size_t r = 0; r < rows; r++)
			cost[r * (size_t)cols + (size_t)to[c]] =
			    m->cost[r * (size_t)m->cols + (size_t)c];
		m->choice[to[c]] = m->choice[c]; /* to[c] <= c */
	}
	free(m->cost);
	m->cost = cost;
	m->cols = cols;
	return 1;
}

static int keep_members(struct matrix *m, const int *used, int n)
{
	int *to = malloc(sizeof *to * (size_t)(m->cols + 1)), kept = 0, done;
	if (!to)
		return 0;
	for (int c = 0; c < m->cols; c++) {
		to[c] = -1;
		for (int i = 0; i < n; i++)
			if (used[i] == c)
				to[c] = kept;
		kept += to[c] >= 0;
	}
	done = matrix_keep(m, to, kept);
	free(to);
	return done;
}

int matrix_portfolio(struct matrix *m, int limit)
{
	int *used = malloc(sizeof *used * (size_t)(limit + 1)), n = 0, done = 0;
	long long *least = malloc(sizeof *least * (size_t)(m->rows + 1)), sum = -1;
	if (used && least && m->cols > 0) {
		for (; n < limit; n++) {
			long long with = 0;
			row_minima(m, used, n, -1, least);
			used[n] = best_addition(m, least, &with);
			if (n && with == sum)
				break;
			sum = with;
		}
		swap_members(m, used, n, least, sum);
		done = keep_members(m, used, n);
	}
	free(used);
	free(least);
	return done;
}
