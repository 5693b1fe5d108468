/* prices.c - what choices cost: fits struct price (kernels/price.h says what is paid for)
 * to the times of training scenarios, and picks the few choices among which the cheapest
 * by estimate does best. Leaves may then say so instead of naming a choice.
 *
 * Each choice is fitted at each head size alone, since it is compiled for it. Times near
 * the scenario's best count most, for they are what estimates have to tell apart; but
 * those of up to near_best times the best are needed too, or what is wrong there goes
 * unpunished. */
#include "prices.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MIN_CELLS = 8, FOLDS = 5, MAX_SIZES = 16 };
static const double near_best = 8; /* slower than that says nothing */

/* A choice without its formula axis, and what is known of it. */
struct offer {
	struct choice choice;
	int member[MAX_MEMBERS], num_members; /* of data.choice; -1: never measured */
	struct price price[MAX_SIZES];        /* by head size; rows 0: too few cells */
	/* [rows] of the matrix: the least estimate, -1: not legal; the cost there; and the
	 * cost of the best member */
	long long *estimate, *cost, *best;
	int *means; /* [rows] what it would run, a choice of the data; -1: none */
};

struct market {
	const struct data *d;
	const struct matrix *m;
	enum phase phase;
	const char *whole; /* [rows] 1: of the whole batch instead; NULL: none is */
	int *column;       /* [data.num_choices] of the matrix */
	double *best_us;   /* [rows] the least of all choices' times there */
	int size[MAX_SIZES], num_sizes;
	struct offer *offer;
	int num_offers;
	int fold; /* rows r with r % FOLDS == fold are not learned from; -1: all are */
};

/* ---- offers -------------------------------------------------------------------------- */
static int value_of_axis(const struct offer *o, int member)
{
	const struct space *s = o->choice.kernel->space;
	return s->formula_axis < 0 ? 1 : s->axis[s->formula_axis].values[member];
}

/* Blocks that the shared memory of a unit holds, beside each the 1 KiB that CUDA takes;
 * at least one. */
static int most_slots(const struct market *k, const struct offer *o, int head_size)
{
	const struct device_info *d = &k->d->run.device;
	int most = 1;
	for (int r = 0; r < k->m->rows; r++) {
		const struct measured *m = &k->d->v[k->m->scenario[r]];
		struct geometry g;
		if (m->shape.head_size != head_size)
			continue;
		o->choice.kernel->space->geometry(&o->choice.config, &m->shape, &m->part[k->phase],
						  d, &g);
		const int fit = g.smem ? d->smem_per_unit / ((int)g.smem + 1024) : 1 << 16;
		most = fit > most ? fit : most;
	}
	return most;
}

static enum phase phase_at(const struct market *k, int row)
{
	return k->whole && k->whole[row] ? PHASE_ALL : k->phase;
}

/* Cells of a head size that are near their scenario's best. */
static int list_cells(const struct market *k, const struct offer *o, int head_size,
		      struct cell_fit *cell)
{
	int n = 0;
	for (int r = 0; r < k->m->rows; r++) {
		const int s = k->m->scenario[r];
		if (k->m->f[r].head_size != head_size || (k->fold >= 0 && r % FOLDS == k->fold))
			continue;
		const enum phase phase = phase_at(k, r);
		const double best = k->best_us[r];
		for (int i = 0; i < o->num_members; i++) {
			const double us = o->member[i] < 0
					      ? INFINITY
					      : data_part_time(k->d, s, phase, o->member[i]);
			if (us < near_best * best)
				cell[n++] = (struct cell_fit){ &k->m->f[r], value_of_axis(o, i), us,
							       best / us * best / us };
		}
	}
	return n;
}

static int fit_offer(const struct market *k, struct offer *o, struct cell_fit *cell)
{
	const struct space *s = o->choice.kernel->space;
	/* Kernels without these axes: naive takes a row each, the CPU's segmented up to 64. */
	const int tile = config_value(&o->choice.config, s, "BLOCK_N", 1);
	const int whole_rows = o->choice.kernel->backend == BACKEND_CPU ? 64 : 1;
	for (int h = 0; h < k->num_sizes; h++) {
		struct price *p = &o->price[h];
		const int n = list_cells(k, o, k->size[h], cell);
		*p = (struct price){ .rows =
					 config_value(&o->choice.config, s, "BLOCK_M", whole_rows),
				     .tile = config_value(&o->choice.config, s, "TILE_SIZE", tile),
				     .heads = s->block_heads(&o->choice.config) };
		if (n < MIN_CELLS)
			p->rows = 0;
		else if (!price_fit(p, cell, n, most_slots(k, o, k->size[h])))
			return 0;
	}
	return 1;
}

static const struct price *price_at(const struct market *k, const struct offer *o, int head_size)
{
	for (int h = 0; h < k->num_sizes; h++)
		if (k->size[h] == head_size)
			return o->price[h].rows ? &o->price[h] : NULL;
	return NULL;
}

/* What the offer would run in each row, and what that costs: at most as much as what was
 * never measured, also where it failed, since leaves can keep such rows apart. */
static void appraise(const struct market *k, struct offer *o)
{
	for (int r = 0; r < k->m->rows; r++) {
		const long long most = (long long)k->m->weight[r] * COST_CAP;
		const struct measured *m = &k->d->v[k->m->scenario[r]];
		const struct price *p = price_at(k, o, m->shape.head_size);
		struct choice as = { .kernel = o->choice.kernel };
		o->estimate[r] = o->means[r] = -1;
		o->cost[r] = o->best[r] = FORBIDDEN_SUM;
		for (int i = 0; i < o->num_members; i++)
			if (o->member[i] >= 0 && k->column[o->member[i]] >= 0 &&
			    matrix_at(k->m, r, k->column[o->member[i]]) < o->best[r])
				o->best[r] = matrix_at(k->m, r, k->column[o->member[i]]);
		if (!p)
			continue;
		o->estimate[r] = config_cheapest(&as.config, &o->choice.config, as.kernel, p,
						 &m->shape, &m->part[k->phase], &k->d->run.device);
		const int at = o->estimate[r] < 0 ? -1 : data_find(k->d, &as);
		o->means[r] = at;
		if (o->estimate[r] >= 0)
			o->cost[r] =
			    at < 0 || k->column[at] < 0 ? most : matrix_at(k->m, r, k->column[at]);
		if (o->estimate[r] >= 0 && o->cost[r] > most)
			o->cost[r] = most;
	}
}

/* ---- the few ---------------------------------------------------------------------------- */
/* What a set of offers comes to in a row. */
struct stand {
	const struct offer *cheapest; /* by estimate; NULL: none is legal */
	long long least;              /* the cost of the best of them */
};

static void join_set(struct stand *at, const struct offer *o, int row)
{
	if (o->estimate[row] < 0)
		return;
	/* Of equal estimates the first offer's holds, in whatever order they join. */
	if (!at->cheapest || o->estimate[row] < at->cheapest->estimate[row] ||
	    (o->estimate[row] == at->cheapest->estimate[row] && o < at->cheapest))
		at->cheapest = o;
	if (o->best[row] < at->least)
		at->least = o->best[row];
}

static struct stand stand_in_row(const struct market *k, const char *in, int row)
{
	struct stand at = { NULL, FORBIDDEN_SUM };
	for (int i = 0; i < k->num_offers; i++)
		if (in[i])
			join_set(&at, &k->offer[i], row);
	return at;
}

static void stand_of_set(const struct market *k, const char *in, struct stand *at)
{
	for (int r = 0; r < k->m->rows; r++)
		at[r] = stand_in_row(k, in, r);
}

/* What the cheapest of a set and one more costs over all rows, and what the best of them
 * would: the first alone would be led by luck. Rows in which none is legal or priced cost as
 * much as what is forbidden. */
static long long cost_with(const struct market *k, const struct stand *set, int more)
{
	long long sum = 0;
	for (int r = 0; r < k->m->rows; r++) {
		struct stand at = set[r];
		join_set(&at, &k->offer[more], r);
		sum += at.least + (at.cheapest ? at.cheapest->cost[r] : FORBIDDEN_SUM);
	}
	return sum;
}

static int is_priced(const struct market *k, const struct offer *o)
{
	int n = 0;
	for (int h = 0; h < k->num_sizes; h++)
		n += o->price[h].rows > 0;
	return n > 0;
}

/* The offer outside a set that helps it most, if to less than `least`, which it lowers;
 * -1: none does. */
static int best_addition(const struct market *k, const char *in, const struct stand *set,
			 long long *least)
{
	int best = -1;
	for (int i = 0; i < k->num_offers; i++) {
		const long long cost =
		    in[i] || !is_priced(k, &k->offer[i]) ? *least : cost_with(k, set, i);
		if (cost < *least)
			*least = cost, best = i;
	}
	return best;
}

/* Adds what helps most, `most` times or until nothing does; then replaces one at a time. */
static int choose_offers(const struct market *k, char *in, int most)
{
	struct stand *set = malloc(sizeof *set * ((size_t)k->m->rows + 1));
	long long least = LLONG_MAX;
	for (int n = 0; set && n < most; n++) {
		stand_of_set(k, in, set);
		const int best = best_addition(k, in, set, &least);
		if (best < 0)
			break;
		in[best] = 1;
	}
	for (int i = 0; set && i < k->num_offers; i++) {
		if (!in[i])
			continue;
		in[i] = 0;
		stand_of_set(k, in, set);
		in[i] = 1; /* so that it is not offered for itself */
		const int best = best_addition(k, in, set, &least);
		in[i] = best < 0;
		if (best >= 0)
			in[best] = 1;
	}
	free(set);
	return set != NULL;
}

/* Learns the chosen anew without one fold after the other, and notes what they say of it.
 * Prices are left as of the last fold. */
static int cross_fit(struct market *k, const char *in, struct cell_fit *cell, int *unseen)
{
	for (k->fold = 0; k->fold < FOLDS; k->fold++) {
		for (int i = 0; i < k->num_offers; i++) {
			if (!in[i])
				continue;
			if (!fit_offer(k, &k->offer[i], cell))
				return 0;
			appraise(k, &k->offer[i]);
		}
		for (int r = k->fold; r < k->m->rows; r += FOLDS) {
			const struct offer *o = stand_in_row(k, in, r).cheapest;
			unseen[k->m->scenario[r]] = o ? o->means[r] : -1;
		}
	}
	return 1;
}

/* ---- the market -------------------------------------------------------------------------- */
static void list_sizes(struct market *k)
{
	for (int r = 0; r < k->m->rows; r++) {
		const int size = (int)k->m->f[r].head_size;
		int i = 0;
		while (i < k->num_sizes && k->size[i] != size)
			i++;
		if (i == k->num_sizes && i < MAX_SIZES)
			k->size[k->num_sizes++] = size;
	}
}

/* A price counts waves of blocks, which those do not run in that go through a list, or take items
 * in turn; fused ones are for the overlap. */
static int can_be_priced(const struct market *k, const struct choice *c)
{
	const struct space *s = c->kernel->space;
	struct geometry g = { 0 };
	if (!c->kernel->selectable || s->is_scheduled || s->is_fused || !k->m->rows)
		return 0;
	const struct measured *m = &k->d->v[k->m->scenario[0]];
	s->geometry(&c->config, &m->shape, &m->part[k->phase], &k->d->run.device, &g);
	return !g.items;
}

/* One for each family, and for each choice of a kernel without a formula axis. */
static int list_offers(struct market *k)
{
	const struct data *d = k->d;
	k->offer = calloc((size_t)d->num_choices + 1, sizeof *k->offer);
	for (int c = 0; k->offer && c < d->num_choices; c++) {
		const int family = d->family_of[c];
		struct offer *o = &k->offer[k->num_offers];
		int first = c;
		for (int i = 0; family >= 0 && i < d->family[family].num_members; i++)
			if (d->family[family].member[i] >= 0 && d->family[family].member[i] < first)
				first = d->family[family].member[i];
		if (first != c || !can_be_priced(k, &d->choice[c]))
			continue;
		o->choice = d->choice[c];
		o->num_members = family < 0 ? 1 : d->family[family].num_members;
		o->member[0] = c;
		if (family >= 0)
			memcpy(o->member, d->family[family].member, sizeof o->member);
		o->estimate = calloc((size_t)k->m->rows + 1, sizeof *o->estimate);
		o->cost = calloc((size_t)k->m->rows + 1, sizeof *o->cost);
		o->best = calloc((size_t)k->m->rows + 1, sizeof *o->best);
		o->means = calloc((size_t)k->m->rows + 1, sizeof *o->means);
		k->num_offers++;
		if (!o->estimate || !o->cost || !o->best || !o->means)
			return 0;
	}
	return k->offer != NULL;
}

static int market_open(struct market *k)
{
	int choice;
	k->fold = -1;
	k->column = malloc(sizeof *k->column * (size_t)(k->d->num_choices + 1));
	k->best_us = malloc(sizeof *k->best_us * (size_t)(k->m->rows + 1));
	if (!k->column || !k->best_us)
		return 0;
	for (int r = 0; r < k->m->rows; r++)
		k->best_us[r] = data_best(k->d, k->m->scenario[r], phase_at(k, r), &choice);
	for (int c = 0; c < k->d->num_choices; c++)
		k->column[c] = -1; /* of no part alone: what only whole plans have run */
	for (int c = 0; c < k->m->cols; c++)
		if (k->m->choice[c] < k->d->num_choices)
			k->column[k->m->choice[c]] = c;
	list_sizes(k);
	return list_offers(k);
}

static void market_close(struct market *k)
{
	for (int i = 0; i < k->num_offers; i++) {
		free(k->offer[i].estimate);
		free(k->offer[i].cost);
		free(k->offer[i].best);
		free(k->offer[i].means);
	}
	free(k->offer);
	free(k->column);
	free(k->best_us);
}

/* ---- what leaves here ----------------------------------------------------------------------- */
static void list_prices(const struct market *k, const char *in, enum decision decision,
			struct prices *out)
{
	for (int i = 0; i < k->num_offers; i++) {
		if (!in[i])
			continue;
		for (int h = 0; h < k->num_sizes && out->num_prices < MAX_PRICES; h++)
			if (k->offer[i].price[h].rows)
				out->price[out->num_prices++] =
				    (struct selector_price){ decision, out->num_choices, k->size[h],
							     k->offer[i].price[h] };
		out->choice[out->num_choices++] = k->offer[i].choice;
	}
}

int prices_fit(struct prices *out, const struct data *d, const struct matrix *m,
	       enum decision decision, int most)
{
	struct market k = { .d = d, .m = m, .phase = decision_phase(decision) };
	size_t cells = (size_t)m->rows * MAX_MEMBERS + 1;
	struct cell_fit *cell = malloc(sizeof *cell * cells);
	char *in = NULL;
	int done = cell && market_open(&k);
	*out = (struct prices){ .unseen = malloc(sizeof *out->unseen * ((size_t)d->n + 1)) };
	done = done && out->unseen;
	for (int i = 0; done && i < k.num_offers; i++) {
		done = fit_offer(&k, &k.offer[i], cell);
		if (done)
			appraise(&k, &k.offer[i]);
	}
	in = done ? calloc((size_t)k.num_offers + 1, 1) : NULL;
	done = in && choose_offers(&k, in, most < MAX_PRICED ? most : MAX_PRICED);
	if (done)
		list_prices(&k, in, decision, out);
	for (int s = 0; done && s < d->n; s++)
		out->unseen[s] = -1;
	done = done && cross_fit(&k, in, cell, out->unseen);
	market_close(&k);
	free(in);
	free(cell);
	return done;
}

void prices_free(struct prices *p)
{
	free(p->unseen);
	p->unseen = NULL;
}

/* Rows without costs: of training scenarios the prefill part and, where decodes stand
 * beside it, the whole batch too. The same code runs both, and of whole batches alone too
 * few times are known to say what it does elsewhere. */
static struct matrix *whole_rows_too(const struct data *d, char *whole)
{
	struct matrix *m = matrix_new(2 * d->n, 0);
	if (!m)
		return NULL;
	m->rows = 0;
	for (int s = 0; s < d->n; s++) {
		const struct measured *v = &d->v[s];
		const int rows = !data_is_training(v) || !v->has[PHASE_PREFILL] ? 0
				 : v->has[PHASE_DECODE]                         ? 2
										: 1;
		for (int i = 0; i < rows; i++) {
			whole[m->rows] = (char)i;
			m->scenario[m->rows] = s;
			m->f[m->rows++] = v->part[i ? PHASE_ALL : PHASE_PREFILL].f;
		}
	}
	return m;
}

static int find_choice(const struct prices *p, const struct choice *c)
{
	for (int i = 0; i < p->num_choices; i++)
		if (p->choice[i].kernel == c->kernel &&
		    !memcmp(&p->choice[i].config, &c->config, sizeof c->config))
			return i;
	return -1;
}

int prices_fit_whole(struct prices *out, const struct data *d)
{
	char *whole = calloc((size_t)d->n + 1, 2);
	struct matrix *m = whole ? whole_rows_too(d, whole) : NULL;
	struct market k = { .d = d, .m = m, .phase = PHASE_PREFILL, .whole = whole };
	struct cell_fit *cell =
	    m ? malloc(sizeof *cell * ((size_t)m->rows * MAX_MEMBERS + 1)) : NULL;
	int done = cell && market_open(&k);
	for (int i = 0; done && i < k.num_offers; i++) {
		const int id = find_choice(out, &k.offer[i].choice);
		if (id < 0)
			continue;
		done = fit_offer(&k, &k.offer[i], cell);
		for (int h = 0; done && h < k.num_sizes && out->num_prices < MAX_PRICES; h++)
			if (k.offer[i].price[h].rows)
				out->price[out->num_prices++] =
				    (struct selector_price){ DECIDE_JOIN, id, k.size[h],
							     k.offer[i].price[h] };
	}
	market_close(&k);
	matrix_free(m);
	free(cell);
	free(whole);
	return done;
}

long long prices_pick(const struct choice *choice, const struct selector_price *price,
		      int num_prices, enum decision decision, const struct measured *m,
		      const struct device_info *d, struct choice *out)
{
	const int size = priced_size(price, num_prices, decision, m->shape.head_size);
	struct price_asked asked = { .shape = &m->shape,
				     .part = &m->part[decision_phase(decision)],
				     .device = d };
	long long least = LLONG_MAX;
	int best = -1;
	for (int i = 0; i < num_prices; i++) {
		const int id = price[i].id;
		struct config c;
		if (price[i].decision != decision || price[i].head_size != size)
			continue;
		const long long cost =
		    config_cheaper(&c, &choice[id].config, choice[id].kernel, &price[i].price,
				   &asked, best < 0 ? least : least + (id < best));
		if (cost < 0)
			continue;
		least = cost;
		best = id;
		*out = (struct choice){ choice[id].kernel, c };
	}
	return best < 0 ? -1 : least;
}
