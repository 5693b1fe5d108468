/* t_transfer.c - how a GPU with few times of its own learns from another's
 * (tuner/transfer/transfer.h), on two made-up GPUs. */
#include "tuner/emit/emit.h"
#include "tuner/induce/induce.h"
#include "tests/support/synthetic.h"
#include "tuner/data/filling.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>
#include "tests/support/by_hand.h"
#include "tests/support/two_gpus.h"

enum { TRAIN = 150, HELD_OUT = 60, FEW = 20 };

static struct world world;
static char measured[MOST_CHOICES];
static struct data *prior; /* of the first GPU: TRAIN scenarios */
static struct forest borrowed;

static int make_prior(void **state)
{
	const struct asked all = { &first_gpu, &world, NULL, 0.01 };
	(void)state;
	world = world_of_choices();
	prior = world_data(&first_gpu);
	for (int i = 0; i < TRAIN; i++)
		add_world_scenario(prior, &all, i, "train");
	for (int i = 0; i < 9; i++)
		add_world_scenario(prior, &all, 5000 + i, "heldout");
	snprintf(prior->hash, sizeof prior->hash, "%032d", 3);
	assert_true(data_finish(prior) && forest_induce(&borrowed, prior, &default_limits));
	world_portfolio(&world, prior, measured);
	return 0;
}

static int free_prior(void **state)
{
	(void)state;
	forest_free(&borrowed);
	data_free(prior);
	return 0;
}

/* Of the second GPU: n of the prior's scenarios by the portfolio, and held-out ones. */
static struct data *own_data(const struct made_up_gpu *g, int n)
{
	const struct asked few = { g, &world, measured, 0.01 };
	struct data *own = world_data(g);
	for (int i = 0; i < n; i++)
		add_world_scenario(own, &few, i * 7 % TRAIN, "train");
	for (int i = 0; i < HELD_OUT; i++)
		add_world_scenario(own, &few, 10000 + i, "heldout");
	assert_true(data_finish(own));
	return own;
}

static const struct cell *cell_at(const struct data *d, const char *batch, enum phase phase,
				  const struct choice *c)
{
	const int choice = data_find(d, c);
	return choice < 0 ? NULL : data_cell_in(d, PASS_A, scenario_named(d, batch), phase, choice);
}

static void test_nothing_measured(void **state)
{
	struct data *own = world_data(&second_gpu);
	struct forest f;
	(void)state;
	assert_true(data_finish(own));
	struct data *d = data_transfer(own, prior);
	assert_non_null(d);
	assert_true(forest_induce(&f, d, &default_limits));
	assert_string_equal(f.gpu, "h100");
	assert_int_equal(f.num_choices, borrowed.num_choices);
	for (int i = 0; i < f.num_choices; i++)
		assert_true(choice_same(&f.choice[i], &borrowed.choice[i]));
	assert_int_equal(f.num_costs, borrowed.num_costs);
	assert_memory_equal(f.costs, borrowed.costs, sizeof *f.costs * (size_t)f.num_costs);
	for (int t = 0; t < NUM_DECISIONS; t++) {
		assert_int_equal(f.tree[t].n, borrowed.tree[t].n);
		for (int i = 0; i < f.tree[t].n; i++) {
			const struct node *a = &f.tree[t].v[i], *b = &borrowed.tree[t].v[i];
			assert_int_equal(a->feature, b->feature);
			assert_int_equal(a->feature < 0 ? a->action : a->threshold,
					 b->feature < 0 ? b->action : b->threshold);
		}
	}
	for (int s = 0; s < d->n; s++)
		assert_true(d->v[s].is_translated);
	forest_free(&f);
	data_free(d);
	data_free(own);
}

static const struct made_up_gpu slow = { "h100", 1, 1 };

/* Every step-th of the first n scenarios, where all takes 1.5 times as long as on the first GPU. */
static struct data *slow_data(int n, int step)
{
	const struct asked few = { &slow, &world, measured, 0 };
	struct data *own = world_data(&slow);
	for (int i = 0; i < n; i += step)
		add_world_scenario(own, &few, i, "train");
	for (int i = 0; i < own->num_cells; i++)
		own->cell[i].us = own->cell[i].median_us *= 1.5;
	assert_true(data_finish(own));
	return own;
}

/* The expected times of unmeasured cells are 1.5 times as long, too. */
static void test_own_and_translated(void **state)
{
	struct data *own = slow_data(40, 1);
	int translated = 0, here = 0;
	(void)state;
	struct data *d = data_transfer(own, prior);
	for (int r = 0; r < d->n * NUM_PHASES; r++)
		for (int i = d->row[r]; i < d->row[r + 1]; i++) {
			const struct measured *m = &d->v[r / NUM_PHASES];
			const struct choice *c = &d->choice[d->cell[i].key / NUM_PASSES];
			const double us = model_us(&slow, &m->part[r % NUM_PHASES], c);
			translated += d->cell[i].translated;
			here += !d->cell[i].translated;
			if (d->cell[i].translated)
				assert_true(fabs(log(d->cell[i].us / us / 1.5)) < 0.1);
			else
				assert_true(fabs(d->cell[i].us / us / 1.5 - 1) < 1e-9);
		}
	assert_int_equal(here, own->num_cells);
	assert_true(translated > here);
	data_free(d);
	data_free(own);
}

/* Only decodes were measured: prefills are expected to take 1.5 times as long as well. */
static void test_prefills_follow_decodes(void **state)
{
	struct data *own = slow_data(60, 3), *d = data_transfer(own, prior);
	int prefills = 0;
	(void)state;
	for (int s = 0; s < d->n; s++)
		for (int r = s * NUM_PHASES + PHASE_PREFILL, i = d->row[r]; i < d->row[r + 1];
		     i++) {
			const struct part *p = &d->v[s].part[PHASE_PREFILL];
			const double us =
			    model_us(&slow, p, &d->choice[d->cell[i].key / NUM_PASSES]);
			assert_true(d->cell[i].translated);
			assert_true(fabs(log(d->cell[i].us / us / 1.5)) < 0.1);
			prefills++;
		}
	assert_true(prefills > 100);
	data_free(d);
	data_free(own);
}

/* Some cells of each kernel are measured here; the expected times of the others are near the
 * truth. */
static void test_slow_kernel(void **state)
{
	char some[MOST_CHOICES];
	const struct asked few = { &second_gpu, &world, some, 0.01 };
	struct data *own = world_data(&second_gpu), *d;
	const struct asked all = { &second_gpu, &world, NULL, 0 };
	struct data *truth = world_data(&second_gpu);
	double ring = 0, others = 0;
	int num_ring = 0, num_others = 0;
	(void)state;
	for (int c = 0; c < world.n; c++)
		some[c] = c % 3 == 0;
	for (int i = 0; i < FEW; i++)
		add_world_scenario(own, &few, i * 7 % TRAIN, "train");
	assert_true(data_finish(own));
	d = data_transfer(own, prior);
	for (int i = 0; i < TRAIN; i++)
		add_world_scenario(truth, &all, i, "train");
	assert_true(data_finish(truth));
	for (int s = 0; s < truth->n; s++)
		for (int c = 0; c < world.n; c++) {
			const char *batch = truth->v[s].batch_text;
			const struct cell *t =
			    cell_at(truth, batch, PHASE_DECODE, &world.choice[c]);
			const struct cell *e = cell_at(d, batch, PHASE_DECODE, &world.choice[c]);
			if (!t || !e || !e->translated)
				continue;
			const int is_ring = !strcmp(world.choice[c].kernel->name, "ring");
			*(is_ring ? &ring : &others) += log(e->us / t->us);
			++*(is_ring ? &num_ring : &num_others);
		}
	assert_true(num_ring > 100 && num_others > 100);
	assert_true(fabs(ring / num_ring) < 0.06);
	assert_true(fabs(others / num_others) < 0.06);
	data_free(truth);
	data_free(d);
	data_free(own);
}

/* Whether the choice was measured there; one by costs with any number of segments. */
static int knows(const struct data *d, struct choice c)
{
	const struct space *s = c.kernel->space;
	int found = data_find(d, &c) >= 0;
	for (int i = 0; config_is_fitted(&c.config, s) && i < s->axis[s->formula_axis].num_values;
	     i++) {
		struct choice at = c;
		at.config.v[s->formula_axis] = s->axis[s->formula_axis].values[i];
		found |= data_find(d, &at) >= 0;
	}
	return found;
}

/* Slowdowns of held-out batches, by the formula. With so few choices and kinds of batches, 20
 * own scenarios suffice almost; with four, translated times save more than half of the loss. */
static void test_few_scenarios(void **state)
{
	static const struct {
		int scenarios;
		double alone; /* it loses at most that share of the loss without translation */
	} rows[] = { { 4, 0.5 }, { FEW, 1 } };
	(void)state;
	for (size_t r = 0; r < COUNT(rows); r++) {
		struct data *own = own_data(&second_gpu, rows[r].scenarios);
		struct data *d = data_transfer(own, prior);
		struct forest transferred, alone;
		double worst;
		assert_true(forest_induce(&transferred, d, &default_limits));
		assert_true(forest_induce(&alone, own, &default_limits));
		const double by_transfer =
		    world_slowdown(&second_gpu, &world, own, &transferred, "heldout", &worst);
		const double by_borrowing =
		    world_slowdown(&second_gpu, &world, own, &borrowed, "heldout", NULL);
		const double by_itself =
		    world_slowdown(&second_gpu, &world, own, &alone, "heldout", NULL);
		print_message("borrowed %.4f, alone %.4f, transfer %.4f, worst %.3f\n",
			      by_borrowing, by_itself, by_transfer, worst);
		assert_true(by_borrowing > 1.02);
		/* More than half of the loss may stay: ratios of times are means of a phase and of a
		 * kernel, whatever the lengths are, and few rows show where one launch takes least. */
		assert_true(by_transfer - 1 < 0.75 * (by_borrowing - 1));
		assert_true(by_transfer - 1 < rows[r].alone * (by_itself - 1));
		for (int i = 0; i < transferred.num_choices; i++) {
			const struct choice *c = &transferred.choice[i];
			assert_true(knows(own, *c) || knows(prior, *c));
		}
		forest_free(&transferred);
		forest_free(&alone);
		data_free(d);
		data_free(own);
	}
}

static void test_header(void **state)
{
	struct data *own = own_data(&second_gpu, FEW), *d = data_transfer(own, prior);
	struct forest f, again;
	char wanted[200];
	(void)state;
	assert_true(forest_induce(&f, d, &default_limits));
	char *text = forest_emit(&f, d);
	snprintf(wanted, sizeof wanted,
		 "learned   from %d scenarios measured here and %d of h200's, translated; %d held "
		 "out\n",
		 FEW, TRAIN - FEW, HELD_OUT);
	assert_non_null(strstr(text, wanted));
	snprintf(wanted, sizeof wanted, "prior     h200, database %s\n", prior->hash);
	assert_non_null(strstr(text, wanted));
	assert_non_null(strstr(text, " here), "));
	assert_true(forest_parse(&again, text, "header"));
	char *same = forest_emit(&again, d);
	assert_string_equal(strstr(text, "ATTUNE_SELECT"), strstr(same, "ATTUNE_SELECT"));
	free(same);
	free(text);
	forest_free(&f);
	forest_free(&again);
	data_free(d);
	data_free(own);
}

/* ---- failures ------------------------------------------------------------------------- */
static void check_failure(const char *outcome, int same_binary_alone)
{
	const struct asked few = { &second_gpu, &world, measured, 0.01 };
	struct data *own = world_data(&second_gpu);
	int failed = 0, others = 0, forbidden = 0;
	for (int i = 0; i < FEW; i++)
		add_world_scenario(own, &few, i, "train");
	struct store_cell c =
	    cell_like("3q1s3000", "decode", "ring", with("ring", "SEGMENTS=8 NUM_WARPS=4"), NAN);
	c.gpu = "h100";
	c.outcome = outcome;
	assert_true(data_add(own, &c) && data_finish(own));
	struct data *d = data_transfer(own, prior);
	for (int r = 0; r < d->n * NUM_PHASES; r++)
		for (int i = d->row[r]; i < d->row[r + 1]; i++) {
			const struct choice *k = &d->choice[d->cell[i].key / NUM_PASSES];
			const int segments =
			    config_value(&k->config, k->kernel->space, "SEGMENTS", 0);
			const int is_binary =
			    !strcmp(k->kernel->name, "ring") &&
			    config_value(&k->config, k->kernel->space, "NUM_WARPS", 0) == 4;
			const int is_it = is_binary && (same_binary_alone || segments == 8);
			if (!d->cell[i].translated)
				continue;
			forbidden += is_it && d->cell[i].outcome != OUTCOME_OK;
			failed += is_it && d->cell[i].outcome == OUTCOME_OK;
			others += !is_it && d->cell[i].outcome != OUTCOME_OK;
		}
	assert_true(forbidden > 100);
	assert_int_equal(failed, 0);
	assert_int_equal(others, 0);
	data_free(d);
	data_free(own);
}

static void test_wrong_is_forbidden(void **state)
{
	(void)state;
	check_failure("wrong", 0);
	check_failure("crash", 0);
}

/* SEGMENTS is no part of it. */
static void test_binary_is_forbidden(void **state)
{
	(void)state;
	check_failure("resources", 1);
	check_failure("compile", 1);
}

/* ---- what must not be learned from ----------------------------------------------------- */
static void test_no_leak(void **state)
{
	static const char *const splits[] = { "gate", "heldout_random", "peers" };
	(void)state;
	for (size_t k = 0; k < COUNT(splits); k++) {
		const struct asked few = { &second_gpu, &world, measured, 0.01 };
		struct data *own = world_data(&second_gpu);
		for (int i = 0; i < FEW; i++)
			add_world_scenario(own, &few, i, i == 6 ? splits[k] : "train");
		assert_true(data_finish(own));
		struct data *d = data_transfer(own, prior);
		const int s = scenario_named(d, world_batch(6));
		int training = 0;
		assert_string_equal(d->v[s].split, splits[k]);
		assert_false(data_is_training(&d->v[s]));
		for (int i = d->row[s * NUM_PHASES]; i < d->row[(s + 1) * NUM_PHASES]; i++)
			assert_false(d->cell[i].translated);
		for (int i = 0; i < d->n; i++)
			training += data_is_training(&d->v[i]);
		assert_int_equal(training, TRAIN - 1);
		data_free(d);
		data_free(own);
	}
}

/* The own times of a gate scenario change nothing that is translated. */
static void test_gate_times_are_not_used(void **state)
{
	double sum[2] = { 0, 0 };
	(void)state;
	for (int k = 0; k < 2; k++) {
		const struct made_up_gpu odd = { "h100", 0.1, 9 };
		const struct asked few = { &second_gpu, &world, measured, 0.01 };
		const struct asked gate = { k ? &odd : &second_gpu, &world, measured, 0.01 };
		struct data *own = world_data(&second_gpu);
		for (int i = 0; i < FEW; i++)
			add_world_scenario(own, i % 4 ? &few : &gate, i, i % 4 ? "train" : "gate");
		assert_true(data_finish(own));
		struct data *d = data_transfer(own, prior);
		for (int i = 0; i < d->num_cells; i++)
			sum[k] += d->cell[i].translated ? d->cell[i].us : 0;
		data_free(d);
		data_free(own);
	}
	assert_true(sum[0] > 0 && sum[0] == sum[1]);
}

static void test_refused(void **state)
{
	struct data *own = world_data(&second_gpu);
	struct store_cell c = cell_like("q1s1k", "decode", "qblock", with("qblock", ""), 10);
	(void)state;
	c.gpu = "h100";
	c.protocol = "graph-rotating-steady";
	assert_true(data_add(own, &c) && data_finish(own));
	const int said = complaints();
	assert_null(data_transfer(own, prior));
	assert_int_equal(complaints() - said, 1);
	data_free(own);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_measured),
		cmocka_unit_test(test_own_and_translated),
		cmocka_unit_test(test_prefills_follow_decodes),
		cmocka_unit_test(test_slow_kernel),
		cmocka_unit_test(test_few_scenarios),
		cmocka_unit_test(test_header),
		cmocka_unit_test(test_wrong_is_forbidden),
		cmocka_unit_test(test_binary_is_forbidden),
		cmocka_unit_test(test_no_leak),
		cmocka_unit_test(test_gate_times_are_not_used),
		cmocka_unit_test(test_refused),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, make_prior, free_prior);
}
