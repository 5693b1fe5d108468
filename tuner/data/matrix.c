/* matrix.c - what each choice would cost in each training scenario, as integers,
 * so that sums do not depend on their order nor on the machine. Of pass A alone.
 *
 * A cost is 1e6 x log of the slowdown of the whole plan. In a mixed batch the
 * other part is taken at its best: a decode choice that is twice too slow beside
 * a long prefill costs little, because it matters little. What a choice takes for
 * both parts in one launch says nothing here: no rules ask that of it.
 *
 *   within the noise of the row's best    0
 *   slower                                1e6 x log(slowdown), at most COST_CAP
 *   given up early                        the same, and never 0
 *   legal, but not measured               by its family (segment_families.c), and never 0;
 *                                         else the row's worst + COST_MISSING
 *   failed, wrong or illegal              COST_FORBIDDEN
 *
 * A choice with a formula costs what the choice costs that it comes to in that row.
 * Noise is what A/A pairs of that duration showed, more when the two intervals say
 * so, but never more than 2 %: a badly measured cell is not a good one. */
#include "data.h"
#include "harness/base/base.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MIN_COVERAGE = 80, WIDE_COVERAGE = 90, MIN_WEIGHT = 16, MAX_WEIGHT = 64, MAX_NOISE = 20000 };

enum phase decision_phase(enum decision decision)
{
	static const enum phase phases[] = { PHASE_PREFILL, PHASE_DECODE, PHASE_ALL, PHASE_DECODE };
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

void matrix_copy_rows(struct matrix *m, const struct matrix *from)
{
	const size_t r = (size_t)from->rows;
	memcpy(m->scenario, from->scenario, r * sizeof *m->scenario);
	memcpy(m->fallback, from->fallback, r * sizeof *m->fallback);
	memcpy(m->weight, from->weight, r * sizeof *m->weight);
	memcpy(m->block, from->block, r * NUM_BLOCKINGS * sizeof *m->block);
	memcpy(m->f, from->f, r * sizeof *m->f);
}

struct matrix *matrix_copy(const struct matrix *from)
{
	struct matrix *m = matrix_new(from->rows, from->cols);
	const size_t r = (size_t)from->rows, c = (size_t)from->cols;
	if (!m)
		return NULL;
	memcpy(m->choice, from->choice, c * sizeof *m->choice);
	memcpy(m->cost, from->cost, r * c * sizeof *m->cost);
	matrix_copy_rows(m, from);
	return m;
}

int32_t cost_of(double us, double best_us)
{
	const double cost = 1e6 * log(us / best_us);
	return cost >= COST_CAP ? COST_CAP : cost <= 0 ? 0 : (int32_t)lround(cost);
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

/* The plan with this choice for its part, the other part at its best. */
static struct timing plan_with(const struct data *d, int scenario, enum phase phase, int choice,
			       double beside)
{
	struct timing part = part_timing(d, scenario, phase, choice);
	part.us += beside;
	return part;
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
	if (!isfinite(t->us))
		return -1;
	const int32_t least = (int32_t)lround(1e6 * data_noise(d, best->us));
	if (!t->vague && t->us - best->us <= noise_us(d, t, best))
		return 0;
	const int32_t cost = cost_of(t->us, best->us);
	return t->vague && cost < least ? least : cost;
}

/* ---- the costs of a row --------------------------------------------------------------- */
/* Few of thousands of columns have a cell in a row, or a family that has. */
struct filling {
	const struct data *d;
	struct matrix *m;
	enum phase phase;
	int *column;               /* [data.num_choices] of the matrix, -1: it is none */
	struct timing *t;          /* [cols] */
	double *us;                /* [data.num_choices] time of the part, INFINITY: none */
	char *is_failed;           /* [cols] whether the part has no right result */
	char *is_near;             /* [data.num_families] whether a member has a time */
	const attune_shape *shape; /* of the row; NULL: there was none yet */
	char *suits;               /* [cols] whether it is legal for some batch of that shape */
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

/* Rows of one shape stand together, and most of what is illegal is so for their shape. */
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

/* Columns with a cell, of the part or of the whole; f->us stays. */
static void time_cells(struct filling *f, int s, double beside)
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
		f->t[col] = plan_with(d, s, f->phase, i.choice, beside);
		f->is_failed[col] = part && part->outcome != OUTCOME_OK;
	}
}

/* Columns that only their families have times of; f->us is as before. */
static void time_families(struct filling *f, int s, double beside)
{
	const struct data *d = f->d;
	for (int k = 0; k < d->num_families; k++)
		for (int i = 0; f->is_near[k] && i < d->family[k].num_members; i++) {
			const int choice = d->family[k].member[i];
			const int col = choice < 0 ? -1 : f->column[choice];
			if (col >= 0 && !isfinite(f->us[choice]))
				f->t[col] = plan_with(d, s, f->phase, choice, beside);
		}
	struct choice_iter i = choices_of(d, s, f->phase, PHASE_ALL);
	while (choices_next(&i))
		f->us[i.choice] = INFINITY;
}

static void time_row(struct filling *f, int s, double beside)
{
	const struct data *d = f->d;
	const struct matrix *m = f->m;
	for (int c = 0; c < m->cols; c++)
		f->t[c] = never;
	memset(f->is_failed, 0, (size_t)m->cols);
	memset(f->is_near, 0, (size_t)d->num_families);
	time_cells(f, s, beside);
	time_families(f, s, beside);
	for (int c = 0; c < m->cols; c++)
		if (m->choice[c] >= d->num_choices) {
			f->t[c] = plan_with(d, s, f->phase, m->choice[c], beside);
			f->is_failed[c] = (char)failed(d, s, f->phase, m->choice[c]);
		}
}

static void fill_row(struct filling *f, int row)
{
	const struct data *d = f->d;
	struct matrix *m = f->m;
	const int s = m->scenario[row];
	const double beside = best_beside(d, s, f->phase);
	struct timing best = never, fallback;
	int32_t *cost = &m->cost[(size_t)row * (size_t)m->cols], worst = 0;

	time_row(f, s, beside);
	suit_shape(f, &d->v[s].shape);
	for (int c = 0; c < m->cols; c++)
		best = f->t[c].us < best.us && !f->t[c].vague ? f->t[c] : best;
	for (int c = 0; c < m->cols; c++) {
		cost[c] = plan_cost(d, &f->t[c], &best);
		worst = cost[c] > worst ? cost[c] : worst;
	}
	worst = worst + COST_MISSING < COST_CAP ? worst + COST_MISSING : COST_CAP;
	for (int c = 0; c < m->cols; c++) {
		if (f->is_failed[c] || !f->suits[c] || !data_legal(d, s, f->phase, m->choice[c]))
			cost[c] = COST_FORBIDDEN;
		else if (cost[c] < 0)
			cost[c] = worst;
	}
	fallback = plan_with(d, s, f->phase, default_choice(d, s, f->phase), beside);
	m->fallback[row] = isfinite(fallback.us) ? plan_cost(d, &fallback, &best) : COST_CAP;
}

static int fill_rows(const struct data *d, struct matrix *m, enum phase phase)
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

/* The same of choices with numbers, from their cells of the phase and of the whole. */
static int cells_tried(const struct data *d, int scenario, const struct cells of[2])
{
	const struct cell *part = cells_of_pass(d, &of[0]);
	return (part && part->outcome != OUTCOME_OK) || isfinite(cells_part_time(d, scenario, of));
}

/* Choices of one kernel. */
struct stretch {
	int first, end;
};

/* Whether some choice of the kernel is legal there, and whether one was tried. */
static void look_for(const struct data *d, int scenario, enum phase phase, struct stretch k,
		     int *legal, int *tried)
{
	struct choice_iter i = choices_of(d, scenario, phase, PHASE_ALL);
	*legal = *tried = 0;
	while (!*tried && choices_next(&i))
		if (i.choice >= k.first && i.choice < k.end)
			*tried = cells_tried(d, scenario, i.cells);
	*legal = *tried;
	for (int c = k.first; !*legal && c < k.end; c++)
		*legal = data_legal(d, scenario, phase, c);
}

/* Drops rows that do not know a kernel which nearly all others know: what is best there was
 * never found out. So batches that a new kernel has not run yet say nothing, instead of
 * speaking against it. */
static void drop_unknowing(const struct data *d, struct matrix *m, enum phase phase,
			   struct stretch k, signed char *unknowing)
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
	struct stretch k = { 0, 0 };
	for (; unknowing && k.first < d->num_choices; k.first = k.end) {
		const struct choice *first = &d->choice[k.first];
		while (k.end < d->num_choices && d->choice[k.end].kernel == first->kernel)
			k.end++;
		if (first->kernel->selectable && !choice_overlaps(first))
			drop_unknowing(d, m, phase, k, unknowing);
	}
	free(unknowing);
	return unknowing != NULL;
}

/* What rows have tried. */
struct trials {
	char *tried;     /* [num_choices] in the part */
	char *in_part;   /* [rows][num_choices / 8 + 1] a bit each: in the part, by that name */
	char *of_family; /* [rows][num_families] some member, in the part */
	int *rows;       /* [num_families] how many */
};

static char *trial_bits(const struct data *d, const struct trials *t, int row)
{
	return t->in_part + (size_t)row * ((size_t)d->num_choices / 8 + 1);
}

static char *trial_families(const struct data *d, const struct trials *t, int row)
{
	return t->of_family + (size_t)row * (size_t)d->num_families;
}

static void look_at_row(const struct data *d, int row, int scenario, enum phase phase,
			struct trials *t)
{
	struct choice_iter i = choices_of(d, scenario, phase, PHASE_ALL);
	while (choices_next(&i)) {
		const struct cells part[2] = { i.cells[0], { { NULL } } };
		const int family = d->family_of[i.choice];
		const int tried = cells_tried(d, scenario, i.cells);
		if (cells_tried(d, scenario, part))
			trial_bits(d, t, row)[i.choice / 8] |= (char)(1 << i.choice % 8);
		if (tried && family >= 0)
			trial_families(d, t, row)[family] = 1;
		t->tried[i.choice] |= (char)tried;
	}
	for (int f = 0; f < d->num_families; f++)
		t->rows[f] += trial_families(d, t, row)[f];
}

static int trials_open(struct trials *t, const struct data *d, const struct matrix *m,
		       enum phase phase)
{
	const size_t rows = (size_t)m->rows + 1, families = (size_t)d->num_families + 1;
	*t = (struct trials){ .tried = calloc((size_t)d->num_choices + 1, 1),
			      .in_part = calloc(rows, (size_t)d->num_choices / 8 + 1),
			      .of_family = calloc(rows, families),
			      .rows = calloc(families, sizeof *t->rows) };
	if (!t->tried || !t->in_part || !t->of_family || !t->rows)
		return 0;
	for (int r = 0; r < m->rows; r++)
		look_at_row(d, r, m->scenario[r], phase, t);
	return 1;
}

static void trials_close(struct trials *t)
{
	free(t->tried);
	free(t->in_part);
	free(t->of_family);
	free(t->rows);
}

/* Whether a choice with a formula was tried, given what it means in that row. */
static int meaning_tried(const struct data *d, const struct matrix *m, enum phase phase, int choice,
			 const struct trials *t, int row, int means)
{
	return (trial_bits(d, t, row)[means / 8] >> means % 8 & 1) ||
	       was_tried(d, m->scenario[row], phase, choice);
}

/* Whether the meaning of a formula was measured nearly wherever there is one: else its picks
 * could not be judged. Rows that have not tried the family come first: there it can be legal,
 * but not known, and of most formulas a few of them tell. */
static int is_known(const struct data *d, const struct matrix *m, enum phase phase, int choice,
		    const struct trials *t)
{
	const int family = d->family_of[choice];
	int legal = 0, known = 0, left = t->rows[family];
	for (int tried = 0; tried < 2; tried++)
		for (int r = 0; r < m->rows; r++) {
			if (trial_families(d, t, r)[family] != tried)
				continue;
			left -= tried;
			const int s = m->scenario[r];
			const int means = data_concrete(d, s, phase, choice);
			legal += data_legal(d, s, phase, choice);
			known +=
			    tried && means >= 0 && meaning_tried(d, m, phase, choice, t, r, means);
			if (100 * (known + left) < MIN_COVERAGE * (legal + left))
				return 0;
		}
	return legal > 0;
}

/* Any that is no helper, not for overlap alone, and known at all. 0 without memory. */
static int list_columns(const struct data *d, struct matrix *m, enum phase phase)
{
	struct trials t;
	const int done = trials_open(&t, d, m, phase);
	for (int c = 0; done && c < d->num_columns; c++) {
		const struct choice *choice = &d->choice[c];
		const int is_formula = c >= d->num_choices;
		if ((!is_formula && !t.tried[c]) || !choice->kernel->selectable ||
		    choice_overlaps(choice))
			continue;
		if (!is_formula || is_known(d, m, phase, c, &t))
			m->choice[m->cols++] = c;
	}
	trials_close(&t);
	return done;
}

struct matrix *matrix_parts(const struct data *all, enum decision decision)
{
	const enum phase phase = decision_phase(decision);
	const struct data first = first_pass(all), *d = &first;
	struct matrix *m = matrix_new(d->n, d->num_columns);
	if (!m)
		return NULL;
	m->rows = m->cols = 0;
	for (int s = 0; s < d->n; s++)
		if (is_row(d, s, phase))
			m->scenario[m->rows++] = s;
	int done = drop_all_unknowing(d, m, phase) && list_columns(d, m, phase);
	if (done && fill_rows(d, m, phase))
		return m;
	matrix_free(m);
	return NULL;
}
