/* SPDX-License-Identifier: Apache-2.0 */
/* t_race.c - simulated races under known noise: the cost of a race and the loss of its winner,
 * against measuring every contender in turn. */
#include "harness/base/base.h"
#include "harness/machine/sensors.h"
#include "harness/measure/measure.h"
#include "kernels/device/device.h"
#include "kernels/spec/device_info.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#undef fail

enum { MOST = 64, HEATS = 300, EQUALS = 20 };

static unsigned long long state;

static double uniform(void)
{
	unsigned long long z = state += 0x9e3779b97f4a7c15ull;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return ((double)((z ^ z >> 31) >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(void)
{
	return sqrt(-2 * log(uniform())) * cos(2 * acos(-1) * uniform());
}

/* A machine with drifting speed, noise on every sample, and 2 % of samples far out. */
static struct {
	double sigma, drift, us[MOST];
} machine;

static double draw(int i)
{
	const double keeps = 0.98;
	machine.drift = keeps * machine.drift + sqrt(1 - keeps * keeps) * machine.sigma * normal();
	double us = machine.us[i] * exp(machine.drift + machine.sigma * normal());
	return uniform() < 0.02 ? us * (1.1 + 0.4 * uniform()) : us;
}

/* A device whose graphs take drawn times. */
struct graph {
	int who, calls;
};
static struct graph *recording;
static int ids[MOST];

static enum attune_status begin(struct device *d)
{
	(void)d;
	recording = calloc(1, sizeof *recording);
	return ATTUNE_OK;
}

static enum attune_status call(void *arg, int set)
{
	(void)set;
	recording->who = *(int *)arg;
	recording->calls++;
	return ATTUNE_OK;
}

static enum attune_status end(struct device *d, struct graph **graph)
{
	(void)d;
	*graph = recording;
	return ATTUNE_OK;
}

static enum attune_status play(struct device *d, struct graph *graph, double *ns)
{
	(void)d;
	*ns = 1e3 * graph->calls * draw(graph->who);
	return ATTUNE_OK;
}

static void release(struct device *d, struct graph *graph)
{
	(void)d;
	free(graph);
}

static void conditions(struct device *d, struct conditions *now)
{
	(void)d;
	*now = (struct conditions){ 0 };
}

static const struct device_ops ops = { .graph_begin = begin,
				       .graph_end = end,
				       .graph_play = play,
				       .graph_free = release,
				       .conditions = conditions };
static struct device dev = { .ops = &ops, .info.backend = BACKEND_GPU };

/* So many contenders are within so much of the best, as on the H200 before there were races. */
static double slowdown(double u)
{
	static const double share[] = { 0, .03, .045, .09, .165, .35, .64, .9, 1 };
	static const double times[] = { 1, 1.01, 1.02, 1.05, 1.1, 1.3, 2, 4, 10 };
	int k = 1;
	while (u > share[k])
		k++;
	const double part = (u - share[k - 1]) / (share[k] - share[k - 1]);
	return times[k - 1] + part * (times[k] - times[k - 1]);
}

static struct timed_call timed_call[MOST];

/* A problem of 40 to 60, in no order; the reference is one of them. */
static struct race make_heat(const struct protocol *p, int problem, double sigma)
{
	state = (unsigned long long)problem * 1000003;
	machine.sigma = sigma;
	machine.drift = sigma * normal();
	const int n = 40 + problem % 21;
	const double best_us = 10 * pow(100, uniform());
	for (int i = 0; i < n; i++)
		machine.us[i] = best_us * slowdown(uniform());
	machine.us[(int)(uniform() * n)] = best_us;
	for (int i = 0; i < n; i++) {
		ids[i] = i;
		timed_call[i] = (struct timed_call){ .call = call, .arg = &ids[i] };
	}
	return (struct race){
		.protocol = p, .v = timed_call, .n = n, .sets = 1, .seed = (unsigned)problem + 1
	};
}

static double calls_of(const struct protocol *p, double us)
{
	return fmax(ceil(p->sample_us / us), p->min_calls);
}

/* Dropped before the end. */
static int is_out(int i)
{
	return !strcmp(timed_call[i].m.stopped, "slow") ||
	       !strcmp(timed_call[i].m.stopped, "beaten");
}

/* Over all contenders, also those with one round. */
static int winner_of(const struct race *race)
{
	int winner = 0;
	for (int i = 1; i < race->n; i++)
		if (timed_call[i].m.ratio < timed_call[winner].m.ratio)
			winner = i;
	return winner;
}

/* Logarithm of how much slower than the best it really is. */
static double loss_of(const struct race *race, int i)
{
	double best = INFINITY;
	for (int k = 0; k < race->n; k++)
		best = fmin(best, machine.us[k]);
	return log(machine.us[i] / best);
}

static const struct device_info gpu = { .backend = BACKEND_GPU, .l2_bytes = 50 << 20 };

/* The cost and loss of measuring each in turn, on the same machine. */
struct baseline {
	const char *name;
	int times, by_mean;
	double cost_us, loss;
};

static void add_baseline(struct baseline *b, const struct race *race)
{
	double best = INFINITY;
	int winner = 0;
	for (int i = 0; i < race->n; i++) {
		double us[MOST], sum = 0;
		for (int k = 0; k < b->times; k++) {
			us[k] = draw(i);
			sum += us[k];
		}
		b->cost_us += sum * calls_of(race->protocol, machine.us[i]);
		const double centre = b->by_mean ? sum / b->times : median(us, b->times);
		if (centre < best) {
			best = centre;
			winner = i;
		}
	}
	b->loss += loss_of(race, winner) / HEATS;
}

struct row {
	const char *name, *preset;
	double sigma, most_cost, most_regret;
};

// clang-format off
static struct row rows[] = {
/*	  name                            preset  noise   cost   regret */
	{ "quick, as on a quiet GPU",     "quick", 0.003, 0.09, 1.0005 },
	{ "quick, 1 % of noise",          "quick", 0.01,  0.10, 1.0015 },
	{ "quick, 2 % of noise",          "quick", 0.02,  0.13, 1.003  },
	{ "quick, 4 % of noise",          "quick", 0.04,  0.21, 1.005  },
	{ "full, 2 % of noise",           "full",  0.02,  0.15, 1.002  },
	{ "smoke, 1 % of noise",          "smoke", 0.01,  0.11, 1.003  },
};
// clang-format on

static void races_cost_little_and_lose_little(void **given)
{
	const struct row *row = *given;
	struct baseline x20 = { "x20 median", 20, 0, 0, 0 }, x7 = { "x7 mean", 7, 1, 0, 0 };
	struct protocol p;
	double cost_us = 0, loss = 0, worst = 0;
	int near = 0, lost = 0;
	assert_true(protocol_for(&p, &gpu, row->preset));
	for (int problem = 0; problem < HEATS; problem++) {
		struct race race = make_heat(&p, problem, row->sigma);
		assert_int_equal(measure_race(&dev, &race), ATTUNE_OK);
		const double its = loss_of(&race, winner_of(&race));
		for (int i = 0; i < race.n; i++) {
			cost_us += timed_call[i].m.device_us;
			lost += loss_of(&race, i) == 0 && its > log(1.01) && is_out(i);
		}
		loss += its / HEATS;
		worst = fmax(worst, its);
		near += its < log(1.02);
		add_baseline(&x20, &race);
		add_baseline(&x7, &race);
	}
	printf("# %s: %.1f %% of the device time of x20 (x7: %.0f %%); geomean regret %.4f "
	       "(x20 %.4f, x7 mean %.4f), worst %.3f, within 2 %%: %.1f %%\n",
	       row->name, 100 * cost_us / x20.cost_us, 100 * x7.cost_us / x20.cost_us, exp(loss),
	       exp(x20.loss), exp(x7.loss), exp(worst), 100.0 * near / HEATS);
	assert_true(cost_us < row->most_cost * x20.cost_us);
	assert_true(exp(loss) < row->most_regret);
	assert_true(loss < x7.loss);
	assert_true(100 * lost <= HEATS); /* the best dropped, and the winner 1 % worse */
}

/* Twenty that are the same, of which each may be the best by a hair: it is lost in no more
 * than 3 % of races, all looks together. */
static void equals_are_seldom_beaten(void **given)
{
	(void)given;
	struct protocol p;
	int lost = 0;
	protocol_for(&p, &gpu, "full");
	p.tie = p.regret = 0; /* all rounds */
	for (int problem = 0; problem < HEATS / 2; problem++) {
		struct race race = make_heat(&p, problem, 0.02);
		race.n = EQUALS;
		for (int i = 0; i < race.n; i++)
			machine.us[i] = 100;
		assert_int_equal(measure_race(&dev, &race), ATTUNE_OK);
		for (int i = 0; i < race.n; i++)
			lost += is_out(i);
	}
	const double share = (double)lost / (HEATS / 2 * EQUALS);
	printf("# of equals %.1f %% are called beaten\n", 100 * share);
	assert_true(share < 0.03);
}

/* Bounds hold: how much slower eliminated contenders are than the leader. */
static void bounds_hold(void **given)
{
	(void)given;
	struct protocol p;
	int wrong = 0, all = 0;
	protocol_for(&p, &gpu, "quick");
	for (int problem = 0; problem < HEATS; problem++) {
		struct race race = make_heat(&p, problem, 0.02);
		assert_int_equal(measure_race(&dev, &race), ATTUNE_OK);
		for (int i = 0; i < race.n; i++) {
			all += !strcmp(timed_call[i].m.stopped, "beaten");
			wrong += !strcmp(timed_call[i].m.stopped, "beaten") &&
				 log(timed_call[i].m.lead_low) > loss_of(&race, i);
		}
	}
	printf("# of %d lower bounds %.2f %% are too high\n", all, 100.0 * wrong / all);
	assert_true(all > 1000 && 100 * wrong <= all);
}

static void ties_end_early(void **given)
{
	(void)given;
	struct protocol p;
	int rounds = 0, tied = 0;
	protocol_for(&p, &gpu, "full");
	p.regret = 0; /* else the race does not wait for the proof of a tie */
	for (int problem = 0; problem < HEATS; problem++) {
		struct race race = make_heat(&p, problem, 0.003);
		for (int i = 0; i < 4; i++)
			machine.us[i] = 5;
		assert_int_equal(measure_race(&dev, &race), ATTUNE_OK);
		const struct measurement *m = &timed_call[winner_of(&race)].m;
		rounds += m->samples;
		tied += !strcmp(m->stopped, "tie");
	}
	printf("# four alike at 0.3 %% of noise: %.1f rounds; %.0f %% say so\n",
	       (double)rounds / HEATS, 100.0 * tied / HEATS);
	assert_true(rounds < 20 * HEATS && 10 * tied > 9 * HEATS);
}

/* A contender and its control differ by noise alone: neither is favoured, and more rounds shrink
 * the difference. */
static void a_control_differs_by_noise_alone(void **given)
{
	(void)given;
	struct protocol p;
	double sum = 0, squares = 0, expected = 0;
	int ahead = 0, n = 0;
	const double sigma = 0.02;
	protocol_for(&p, &gpu, "quick");
	for (int problem = 0; problem < HEATS; problem++) {
		struct race race = make_heat(&p, problem, sigma);
		struct control control;
		race.control = &control;
		assert_int_equal(measure_race(&dev, &race), ATTUNE_OK);
		if (!control.rounds)
			continue;
		const double x = log(control.ratio);
		n++;
		sum += x;
		squares += x * x;
		ahead += x < 0;
		expected += 2 * sigma * sigma * acos(-1) / 2 / control.rounds;
	}
	const double spread = sqrt(squares / n);
	printf("# %d controls: mean %.4f, spread %.4f (noise alone %.4f), ahead %.0f %%\n", n,
	       sum / n, spread, sqrt(expected / n), 100.0 * ahead / n);
	assert_true(n > HEATS * 9 / 10);
	assert_true(fabs(sum / n) < 3 * spread / sqrt(n));
	assert_true(fabs(ahead - n / 2.0) < 1.5 * sqrt(n));
	assert_true(spread < 1.5 * sqrt(expected / n));
}

int main(void)
{
	struct CMUnitTest t[32] = { cmocka_unit_test(equals_are_seldom_beaten),
				    cmocka_unit_test(bounds_hold), cmocka_unit_test(ties_end_early),
				    cmocka_unit_test(a_control_differs_by_noise_alone) };
	size_t n = 4;
	for (size_t i = 0; i < COUNT(rows); i++)
		t[n++] = (struct CMUnitTest){ rows[i].name, races_cost_little_and_lose_little, 0, 0,
					      &rows[i] };
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return _cmocka_run_group_tests("races", t, n, NULL, NULL);
}
