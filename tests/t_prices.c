/* t_prices.c - prices fitted to times that known prices made: estimates come back, also where
 * nothing was measured, leaves say the cheapest and are better for it, and never where what
 * is cheapest was seen to fail. */
#include "synthetic.h"
#include "../tuner/prices.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "by_hand.h"

enum { MAX_BATCHES = 220, MOST = 12 };

/* In the order of price_terms.def; what is not named costs nothing. */
#define FS(...)                                          \
	{                                                \
		[PRICE_launch] = 2500000000, __VA_ARGS__ \
	}

/* Families and what they cost: one that walks the keys fast and starts slowly, one the other
 * way round, and one without segments. */
static const struct known {
	const char *kernel, *set;
	struct price price;
} known[] = {
	{ "segmented",
	  "BLOCK_M=16 TILE_SIZE=64",
	  { 16, 64, 0, 2, 128,
	    FS([PRICE_path] = 12000000, [PRICE_split] = 2000000000, [PRICE_merge] = 150000) } },
	{ "segmented",
	  "BLOCK_M=16 TILE_SIZE=128",
	  { 16, 128, 0, 1, 64,
	    FS([PRICE_path] = 8000000, [PRICE_split] = 3000000000, [PRICE_merge] = 100000) } },
	{ "qblock",
	  "BLOCK_M=16 TILE_SIZE=32",
	  { 16, 32, 0, 4, 0, FS([PRICE_path] = 17000000, [PRICE_rows] = 120000) } },
};

struct batch_text {
	char text[40], split[10];
};

static int list_batches(struct batch_text v[MAX_BATCHES])
{
	static const int counts[] = { 1, 2, 3, 5, 8, 12, 16, 24, 40, 64, 100, 160 };
	int n = 0;
	for (size_t i = 0; i < COUNT(counts); i++)
		for (int length = 200; length < 70000; length += length / 2 + 7 * counts[i])
			if (counts[i] * length < 2000000 && n < MAX_BATCHES) {
				snprintf(v[n].text, sizeof v->text, "%dq1s%d", counts[i], length);
				strcpy(v[n].split, n % 5 == 2 ? "heldout" : "train");
				n++;
			}
	return n;
}

static double noisy(double us, double noise, unsigned long long *seed)
{
	const double u = (double)(next_random(seed) % 2001) / 1000 - 1; /* -1 .. 1 */
	return us * (1 + noise * u);
}

/* The same for the same batch, whatever the order. */
static unsigned long long noise_seed(const char *text)
{
	unsigned long long h = 5381;
	for (; *text; text++)
		h = h * 33 + (unsigned char)*text;
	return h * 1000;
}

struct making_of {
	double noise;
	int turned; /* cells in another order */
	/* With at least as many sequences the cheapest's result is wrong, where it is of this
	 * one of the known; 0: never. */
	int wrong_seqs, wrong;
};

/* Of all families and values; the family's index. */
static int cheapest_known(const struct part *p, int *segments)
{
	long long least = -1;
	int best = 0;
	for (int k = 0; k < (int)COUNT(known); k++) {
		const struct kernel *kernel = kernel_find(BACKEND_GPU, known[k].kernel);
		struct config c, at;
		const char *where;
		assert_true(
		    config_parse(&c, kernel->space, with(known[k].kernel, known[k].set), &where));
		const long long fs =
		    config_cheapest(&at, &c, kernel, &known[k].price, &llama, p, &h200_run.device);
		if (fs < 0 || (least >= 0 && fs >= least))
			continue;
		least = fs;
		best = k;
		*segments = config_value(&at, kernel->space, "SEGMENTS", 1);
	}
	return best;
}

/* The cells of a batch: all legal values of all families. */
static void add_batch(struct data *d, const struct batch_text *b, const struct making_of *how)
{
	char error[100], set[120];
	struct batch *parsed = batch_parse(b->text, error, sizeof error);
	struct part p;
	int segments = 1;
	assert_true(parsed && part_make(&p, PHASE_DECODE, &llama, &parsed->view, &h200_run.device));
	const int cheapest = cheapest_known(&p, &segments);
	for (size_t k = 0; k < COUNT(known); k++) {
		const struct known *one = &known[how->turned ? COUNT(known) - 1 - k : k];
		const struct space *s = kernel_find(BACKEND_GPU, one->kernel)->space;
		const int axis = s->formula_axis;
		for (int i = 0; i < (axis < 0 ? 1 : s->axis[axis].num_values); i++) {
			const int v = axis < 0 ? 1 : s->axis[axis].values[i];
			const char *where;
			struct config c;
			snprintf(set, sizeof set, axis < 0 ? "%s" : "%s SEGMENTS=%d", one->set, v);
			assert_true(config_parse(&c, s, with(one->kernel, set), &where));
			if (s->why_illegal(&c, &llama, &p, &h200_run.device))
				continue;
			unsigned long long seed =
			    noise_seed(b->text) + 100u * (unsigned)v + (unsigned)(one - known);
			const double us = (double)price_estimate(&one->price, &p.f, v) / 1e9;
			struct store_cell cell =
			    cell_like(b->text, "decode", one->kernel, with(one->kernel, set),
				      noisy(us, how->noise, &seed));
			cell.split = b->split;
			if (how->wrong_seqs && atoi(b->text) >= how->wrong_seqs &&
			    cheapest == how->wrong && one - known == cheapest && v == segments) {
				cell.outcome = "wrong";
				cell.median_us = NAN;
			}
			assert_true(data_add(d, &cell));
		}
	}
	batch_free(parsed);
}

static struct data *make(const struct making_of *how)
{
	static struct batch_text batch[MAX_BATCHES];
	struct data *d = data_new("h200", &h200_run);
	const int n = list_batches(batch);
	assert_in_range(n, 120, MAX_BATCHES - 1);
	for (int i = 0; i < n; i++)
		add_batch(d, &batch[how->turned ? (i * 7 + 3) % n : i], how);
	assert_true(data_finish(d));
	assert_int_equal(d->n, n); /* 7 does not divide it */
	snprintf(d->hash, sizeof d->hash, "%032d", 9);
	return d;
}

static const struct making_of exactly = { .noise = 0 }, roughly = { .noise = 0.01 };

/* ---- estimates --------------------------------------------------------------------------- */
/* Which of the known a choice is of. */
static const struct known *known_as(const struct choice *c)
{
	const int tile = config_value(&c->config, c->kernel->space, "TILE_SIZE", 0);
	for (size_t k = 0; k < COUNT(known); k++)
		if (!strcmp(known[k].kernel, c->kernel->name) && known[k].price.tile == tile)
			return &known[k];
	fail_msg("no such choice");
	return NULL;
}

/* In a held-out scenario, at values that are of use there: the largest relative error. */
static double worst_error(const struct data *d, int s, const struct price *fitted,
			  const struct known *known_one, const struct choice *c)
{
	const struct space *space = c->kernel->space;
	const struct axis *a = space->formula_axis < 0 ? NULL : &space->axis[space->formula_axis];
	const struct attune_features *f = &d->v[s].part[PHASE_DECODE].f;
	struct choice at = *c;
	double worst = 0;
	int best;
	for (int i = 0; i < (a ? a->num_values : 1); i++) {
		if (a)
			at.config.v[space->formula_axis] = a->values[i];
		const int choice = data_find(d, &at), v = a ? a->values[i] : 1;
		if (choice < 0 || !(data_time(d, s, PHASE_DECODE, choice) <
				    1.5 * data_best(d, s, PHASE_DECODE, &best)))
			continue;
		const double want = (double)price_estimate(&known_one->price, f, v);
		const double error = (double)price_estimate(fitted, f, v) / want - 1;
		worst = fmax(worst, fabs(error));
	}
	return worst;
}

static void estimates_come_back(const struct making_of *how)
{
	static struct prices p;
	struct data *d = make(how);
	struct matrix *m = matrix_parts(d, DECIDE_DECODE);
	assert_true(prices_fit(&p, d, m, DECIDE_DECODE, MOST));
	assert_true(p.num_choices >= 2);
	assert_int_equal(p.num_prices, p.num_choices); /* one head size */
	for (int i = 0; i < p.num_prices; i++) {
		const struct known *of = known_as(&p.choice[p.price[i].id]);
		const struct price *fitted = &p.price[i].price;
		assert_int_equal(p.price[i].decision, DECIDE_DECODE);
		assert_int_equal(p.price[i].head_size, llama.head_size);
		assert_int_equal(fitted->rows, of->price.rows);
		assert_int_equal(fitted->tile, of->price.tile);
		for (int s = 0; s < d->n; s++) {
			const double error =
			    worst_error(d, s, fitted, of, &p.choice[p.price[i].id]);
			if (!data_is_training(&d->v[s]) && error > 0.02)
				fail_msg("%s %s, %s: %.4f", of->kernel, of->set, d->v[s].batch_text,
					 error);
		}
	}
	prices_free(&p);
	matrix_free(m);
	data_free(d);
}

static void estimates_of_exact_times(void **state)
{
	(void)state;
	estimates_come_back(&exactly);
}

static void estimates_of_rough_times(void **state)
{
	(void)state;
	estimates_come_back(&roughly);
}

/* ---- trees ------------------------------------------------------------------------------- */
static int leaves_that_say(const struct tree *t, int action)
{
	int n = 0;
	for (int i = 0; i < t->n; i++)
		n += t->v[i].feature < 0 && t->v[i].action == action;
	return n;
}

static void leaves_say_the_cheapest(void **state)
{
	struct data *d = make(&roughly);
	struct score tree, fixed;
	struct forest f;
	(void)state;
	assert_true(forest_induce(&f, d, &default_limits));
	assert_true(leaves_that_say(&f.tree[DECIDE_DECODE], SAYS_CHEAPEST) > 0);
	assert_true(f.num_prices >= 2);
	assert_true(score_policy(d, POLICY_TREE, &f, "heldout", &tree));
	assert_true(score_policy(d, POLICY_BEST_FIXED, NULL, "heldout", &fixed));
	assert_true(tree.n > 20);
	assert_int_equal(tree.invalid, 0);
	if (!(tree.geomean < 1.01 && fixed.geomean > 1.1))
		fail_msg("%.4f, best constant %.4f", tree.geomean, fixed.geomean);
	forest_free(&f);
	data_free(d);
}

static char *header_of(const struct making_of *how)
{
	struct data *d = make(how);
	struct forest f;
	assert_true(forest_induce(&f, d, &default_limits));
	assert_true(f.num_prices > 0);
	char *text = forest_emit(&f, d);
	assert_non_null(text);
	forest_free(&f);
	data_free(d);
	return text;
}

static void same_cells_same_bytes(void **state)
{
	struct making_of other = roughly;
	char *first = header_of(&roughly), *again = header_of(&roughly);
	other.turned = 1;
	char *turned = header_of(&other);
	(void)state;
	assert_string_equal(first, again);
	assert_string_equal(first, turned);
	free(first);
	free(again);
	free(turned);
}

/* How often what is cheapest there failed; what is picked never did. */
static int failures_kept_apart(const struct data *d, const struct forest *f, int *cheapest)
{
	const struct tree *t = &f->tree[DECIDE_DECODE];
	int n = 0;
	for (int s = 0; s < d->n; s++) {
		const struct measured *m = &d->v[s];
		struct choice c;
		struct pick p;
		if (!data_is_training(m))
			continue;
		forest_pick(d, f, s, &p);
		if (!isfinite(data_plan_time(d, s, &p)))
			fail_msg("%s", m->batch_text);
		*cheapest += t->v[tree_leaf(t, &m->part[PHASE_DECODE].f)].action == SAYS_CHEAPEST;
		n += action_choice(d, f, DECIDE_DECODE, PHASE_DECODE, SAYS_CHEAPEST, m, &c) &&
		     !isfinite(data_time(d, s, PHASE_DECODE, data_find(d, &c)));
	}
	return n;
}

static void what_failed_is_not_picked(void **state)
{
	static const int least_seqs[] = { 16, 64, 100 };
	int apart = 0, cheapest = 0;
	(void)state;
	for (int i = 0; i < 3 * (int)COUNT(known); i++) {
		const struct making_of how = { 0.01, 0, least_seqs[i % 3], i / 3 };
		struct data *d = make(&how);
		struct forest f;
		assert_true(forest_induce(&f, d, &default_limits));
		apart += failures_kept_apart(d, &f, &cheapest);
		forest_free(&f);
		data_free(d);
	}
	assert_true(apart > 0); /* and so by leaves */
	assert_true(cheapest > 0);
}

/* Of too few times there are no prices, and leaves name choices as they did. */
static void few_times_have_no_price(void **state)
{
	struct data *d = data_new("h200", &h200_run);
	struct forest f;
	char batch[40];
	(void)state;
	for (int i = 0; i < 8; i++) {
		snprintf(batch, sizeof batch, "%dq1s4k", i < 4 ? 1 + i : 60 + i);
		add(d, batch, "decode", "qblock", "", i < 4 ? 20 : 10);
		add(d, batch, "decode", "segmented", "", i < 4 ? 10 : 20);
	}
	assert_true(data_finish(d));
	assert_true(forest_induce(&f, d, &default_limits));
	assert_int_equal(f.num_prices, 0);
	assert_int_equal(f.num_choices, 2);
	assert_int_equal(tree_leaves(&f.tree[DECIDE_DECODE]), 2);
	forest_free(&f);
	data_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(estimates_of_exact_times),
		cmocka_unit_test(estimates_of_rough_times),
		cmocka_unit_test(leaves_say_the_cheapest),
		cmocka_unit_test(same_cells_same_bytes),
		cmocka_unit_test(what_failed_is_not_picked),
		cmocka_unit_test(few_times_have_no_price),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("prices", tests, NULL, NULL);
}
