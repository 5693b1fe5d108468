/* t_measure.c - the rules of a race, on a device whose plays take what a script says. */
#include "../harness/course.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#undef fail

enum { MOST_PLAYS = 4000, MOST_CALLS = 512 };

struct tape {
	int who, calls, set[MOST_CALLS];
};

/* What happened, in order, and the script. */
static struct {
	struct tape *recording;
	int live_tapes;
	struct {
		int who, calls, first_set;
	} play[MOST_PLAYS];
	int plays;
	double us[8];                       /* of a call of each racer */
	double (*script)(int who, int nth); /* or by this */
	int nth[8];                         /* plays of each */
	int lost;                           /* this racer's plays fail; -1: none */
	double share;
	int looked[8], right;
	int told[8], order_told[8], num_told;
	double longest_told;
	int looks;                               /* at the conditions, so far */
	int slow_looks, odd_look, warming_looks; /* these find something */
	double watts[8], joules, since;          /* the counter: of whoever played last */
	int last;
} fake;

static enum attune_status begin(struct device *dev)
{
	(void)dev;
	fake.recording = calloc(1, sizeof *fake.recording);
	fake.live_tapes++;
	return ATTUNE_OK;
}

static enum attune_status end(struct device *dev, struct tape **tape)
{
	(void)dev;
	*tape = fake.recording;
	return ATTUNE_OK;
}

static enum attune_status play(struct device *dev, struct tape *tape, double *ns)
{
	(void)dev;
	int who = tape->who;
	if (who == fake.lost)
		return fail(ATTUNE_DEVICE_ERROR, "an illegal address");
	double us = fake.script ? fake.script(who, fake.nth[who]) : fake.us[who];
	fake.nth[who]++;
	fake.last = who;
	const int at = fake.plays++;
	if (at < MOST_PLAYS) {
		fake.play[at].who = who;
		fake.play[at].calls = tape->calls;
		fake.play[at].first_set = tape->set[0];
	}
	*ns = us * 1e3 * tape->calls;
	return ATTUNE_OK;
}

static void release(struct device *dev, struct tape *tape)
{
	(void)dev;
	fake.live_tapes--;
	free(tape);
}

static void conditions(struct device *dev, struct conditions *now)
{
	(void)dev;
	const int nth = ++fake.looks;
	const double s = course_now();
	fake.joules += fake.watts[fake.last] * (s - fake.since);
	fake.since = s;
	*now = (struct conditions){ .sm_mhz = 1500, .power_w = 600, .joules = fake.joules };
	if (nth <= fake.slow_looks)
		now->sm_mhz = 1000;
	if (nth == fake.odd_look)
		now->sm_mhz = 1400;
	if (nth <= fake.warming_looks)
		now->power_w = 100 * nth;
}

static const struct device_ops fake_ops = {
	.name = "fake",
	.tape_begin = begin,
	.tape_end = end,
	.tape_play = play,
	.tape_free = release,
	.conditions = conditions,
};

static struct device dev = { .ops = &fake_ops, .info.backend = BACKEND_GPU };
static int ids[8] = { 0, 1, 2, 3, 4, 5, 6, 7 };

static enum attune_status call(void *arg, int set)
{
	struct tape *t = fake.recording;
	t->who = *(int *)arg;
	assert_true(t->calls < MOST_CALLS);
	t->set[t->calls++] = set;
	return ATTUNE_OK;
}

static enum attune_status refuse(void *arg, int set)
{
	(void)arg, (void)set;
	return fail(ATTUNE_UNSUPPORTED, "too much shared memory");
}

static void before(void *arg, int i, double seconds)
{
	(void)arg, (void)i;
	fake.longest_told = fmax(fake.longest_told, seconds);
}

static void after(void *arg, int i)
{
	(void)arg;
	fake.told[i]++;
	fake.order_told[fake.num_told++] = i;
}

static int look_again(void *arg, int i)
{
	(void)arg;
	fake.looked[i]++;
	return fake.right;
}

static double share(const struct device *d)
{
	(void)d;
	return fake.share;
}

/* Calls of 100 us make samples of 10 calls. */
static const struct protocol usual = {
	.name = "test",
	.min_rounds = 6,
	.max_rounds = 12,
	.tie = 0.01,
	.regret = 0.002,
	.sample_us = 1000,
	.longest_us = 20000,
	.min_calls = 1,
	.screen_ratio = 1.3,
	.seconds = 60,
};

static struct racer racer[8];

static struct race race_of(int n)
{
	memset(&fake, 0, sizeof fake);
	fake.lost = -1;
	fake.share = 1;
	memset(racer, 0, sizeof racer);
	for (int i = 0; i < n; i++) {
		racer[i] = (struct racer){ .call = call, .arg = &ids[i] };
		fake.us[i] = 100;
	}
	return (struct race){ .protocol = &usual,
			      .v = racer,
			      .n = n,
			      .sets = 1,
			      .seed = 7,
			      .before = before,
			      .after = after,
			      .right = look_again,
			      .share = share };
}

/* The number of plays before the rounds: two calls of each, and one sample of the best to
 * see how many calls it should have. */
static int first_of_rounds(int n)
{
	return 2 * n + 1;
}

static void each_round_plays_each_once(void **state)
{
	(void)state;
	struct race race = race_of(4);
	int seen_orders = 0;
	assert_int_equal(measure_race(&dev, &race), ATTUNE_OK);
	int at = first_of_rounds(4);
	assert_int_equal((fake.plays - at) % 4, 0);
	assert_int_equal((fake.plays - at) / 4, racer[0].m.samples);
	for (int round = 0; at < fake.plays; at += 4, round++) {
		int seen = 0;
		for (int i = 0; i < 4; i++)
			seen |= 1 << fake.play[at + i].who;
		assert_int_equal(seen, 15);
		seen_orders |= 1 << fake.play[at].who;
	}
	assert_true(seen_orders & (seen_orders - 1)); /* not always the same one first */
	assert_int_equal(fake.live_tapes, 0);
}

static void reference_is_told_last(void **state)
{
	(void)state;
	struct race race = race_of(4);
	fake.us[2] = 1000;
	measure_race(&dev, &race);
	assert_int_equal(fake.num_told, 4);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(fake.told[i], 1);
		assert_int_equal(fake.order_told[i], 3 - i);
	}
}

static void slow_ones_go(void **state)
{
	(void)state;
	struct race race = race_of(5);
	fake.us[0] = 400; /* the reference rests as soon as its ratio is known */
	fake.us[2] = 250; /* beyond twice the best: the screen */
	fake.us[3] = 150; /* beyond screen_ratio: one round */
	fake.us[4] = 120; /* beaten at the first look */
	measure_race(&dev, &race);
	static const struct {
		int samples, calls;
		const char *stopped;
		double lead;
	} want[] = { { 2, 10, "beaten", 4 },
		     { 6, 10, "settled", 1 },
		     { 1, 1, "slow", 2.5 },
		     { 1, 10, "slow", 1.5 },
		     { 2, 10, "beaten", 1.2 } };
	for (int i = 0; i < 5; i++) {
		const struct measurement *m = &racer[i].m;
		assert_int_equal(m->outcome, OUTCOME_OK);
		assert_int_equal(m->samples, want[i].samples);
		assert_int_equal(m->calls, want[i].calls);
		assert_string_equal(m->stopped, want[i].stopped);
		assert_true(fabs(m->lead - want[i].lead) < 1e-6);
		assert_true(fabs(m->ratio - fake.us[i] / 400) < 1e-6);
	}
	assert_true(racer[4].m.lead_low > 1 && racer[4].m.lead_low < 1.2);
	assert_true(isnan(racer[2].m.lead_low));
}

static void quiet_ones_stop_early(void **state)
{
	(void)state;
	struct race race = race_of(2);
	measure_race(&dev, &race);
	assert_int_equal(racer[1].m.samples, usual.min_rounds);
	assert_string_equal(racer[1].m.stopped, "tie");
	assert_true(racer[1].m.ci_us == 0);
}

static double wild(int who, int nth)
{
	(void)who;
	return nth % 2 ? 100 : 120;
}

static void noisy_ones_use_all_rounds(void **state)
{
	(void)state;
	struct race race = race_of(2);
	fake.script = wild;
	measure_race(&dev, &race);
	assert_int_equal(racer[1].m.samples, usual.max_rounds);
	assert_string_equal(racer[1].m.stopped, "rounds");
	assert_true(racer[1].m.ci_us > 5);
}

static void budget_ends_after_two_rounds(void **state)
{
	(void)state;
	struct race race = race_of(3);
	struct protocol p = usual;
	p.seconds = 0;
	race.protocol = &p;
	measure_race(&dev, &race);
	assert_int_equal(racer[0].m.samples, 2);
	assert_string_equal(racer[0].m.stopped, "budget");
	assert_int_equal(fake.told[0], 1);
	assert_int_equal(fake.told[2], 0); /* never begun: says nothing of it */
	assert_int_equal(racer[2].m.samples, 0);
}

static void short_calls_are_joined(void **state)
{
	(void)state;
	struct race race = race_of(2);
	race.sets = 8;
	fake.us[0] = 30; /* 34 would do for 1000 us; sets come round in 40 */
	fake.us[1] = 35; /* alike for all */
	measure_race(&dev, &race);
	assert_int_equal(racer[0].m.calls, 40);
	assert_int_equal(racer[1].m.calls, 40);
	for (int i = first_of_rounds(2); i < fake.plays; i++)
		assert_int_equal(fake.play[i].first_set, 0);
}

static void long_calls_rotate_sets(void **state)
{
	(void)state;
	struct race race = race_of(3);
	race.sets = 4;
	for (int i = 0; i < 3; i++)
		fake.us[i] = 15000; /* one call is a sample */
	measure_race(&dev, &race);
	assert_int_equal(racer[0].m.calls, 1);
	for (int i = 1; i < fake.plays; i++)
		assert_int_equal(fake.play[i].first_set, (fake.play[i - 1].first_set + 1) % 4);
	assert_true(fake.longest_told > 0.0149);
}

static double drifting(int who, int nth)
{
	static const double of[] = { 100, 120 };
	return of[who] * (1 + 0.1 * ((nth + who) % 7)); /* racer 0 sets the calls */
}

static void ratio_is_of_the_same_round(void **state)
{
	(void)state;
	struct race race = race_of(2);
	fake.script = drifting;
	race.fixed_rounds = 6;
	measure_race(&dev, &race);
	assert_true(fabs(racer[1].m.ratio - 1.2) < 1e-6);
	assert_true(fabs(racer[0].m.ratio - 1) < 1e-6);
	assert_true(racer[1].m.ci_us > 5);
}

/* Racer 2 is slower in rounds that the reference, which is beaten, does not take. */
static double later_slower(int who, int nth)
{
	static const double of[] = { 130, 100, 100.2 };
	return of[who] + (who == 2 && nth > 3 ? 0.2 : 0);
}

static void all_rounds_count_in_the_ratio(void **state)
{
	(void)state;
	struct race race = race_of(3);
	fake.script = later_slower;
	measure_race(&dev, &race);
	assert_int_equal(racer[0].m.samples, 2);
	assert_true(fabs(racer[1].m.ratio - 100 / 130.0) < 1e-3);
	assert_true(fabs(racer[2].m.ratio - racer[1].m.ratio * racer[2].m.lead) < 1e-9);
	assert_true(racer[2].m.ratio > 100.25 / 130);
}

/* Far out is the reference's sample, and so in the one round that racer 2 took. */
static double reference_far_out(int who, int nth)
{
	static const double of[] = { 100, 95, 140, 96 };
	return of[who] * (who == 0 && nth == 2 ? 2 : 1);
}

static void one_round_is_compared_with_all(void **state)
{
	(void)state;
	struct race race = race_of(4);
	fake.script = reference_far_out;
	measure_race(&dev, &race);
	assert_string_equal(racer[2].m.stopped, "slow");
	assert_int_equal(racer[2].m.samples, 1);
	assert_true(fabs(racer[2].m.ratio - 1.4) < 0.01);
	assert_true(fabs(racer[2].m.lead - 140 / 95.0) < 0.01);
}

static double climb(int who, int nth)
{
	(void)who;
	return 100 + nth;
}

static void figures_follow_from_the_samples(void **state)
{
	(void)state;
	struct race race = race_of(1);
	fake.script = climb;
	race.fixed_rounds = 12;
	racer[0].bytes = 1e9;
	racer[0].flops = 4e9;
	measure_race(&dev, &race);
	const struct measurement *m = &racer[0].m;
	assert_int_equal(m->samples, 12);
	assert_true(fabs(m->min_us - m->us[0]) < 1e-6);
	assert_true(fabs(m->median_us - (m->min_us + 5.5)) < 1e-4);
	assert_true(fabs(m->q25_us - (m->min_us + 2.75)) < 1e-4);
	assert_true(fabs(m->q75_us - (m->min_us + 8.25)) < 1e-4);
	assert_true(fabs(m->gbps - 1e6 / m->median_us) < 1e-3);
	assert_true(fabs(m->tflops - 4e3 / m->median_us) < 1e-3);
	assert_true(fabs(m->power_w - 600) < 1e-9);
	assert_true(fabs(m->joules - 600e-6 * m->median_us) < 1e-9);
	assert_true(fabs(m->sm_mhz_before - 1500) < 1e-9);
}

static int plays_seen;
/* Every third play was disturbed. */
static double third(const struct device *d)
{
	(void)d;
	return ++plays_seen % 3 ? 1 : 0.5;
}

static double third_is_slow(int who, int nth)
{
	(void)who;
	return nth && nth % 3 == 0 ? 500 : 100;
}

static void disturbed_samples_are_taken_again(void **state)
{
	(void)state;
	struct race race = race_of(1);
	fake.script = third_is_slow;
	race.share = third;
	plays_seen = 0; /* of all plays but the one for the calls, the third */
	measure_race(&dev, &race);
	const struct measurement *m = &racer[0].m;
	assert_int_equal(m->samples, 6);
	assert_true(m->rejected > 0);
	assert_true(fabs(m->q75_us - 100) < 1e-9);
}

/* Other programs run in its first play, and again in its second, which seem slow then. */
static double held_up(int who, int nth)
{
	return who == 1 && nth < 2 ? 5000 : 100;
}

static double when_held_up(const struct device *d)
{
	(void)d;
	const int who = fake.play[fake.plays - 1].who;
	return who == 1 && fake.nth[who] <= 2 ? 0.4 : 1;
}

static void who_was_held_up_is_not_slow(void **state)
{
	(void)state;
	struct race race = race_of(2);
	fake.script = held_up;
	race.share = when_held_up;
	measure_race(&dev, &race);
	assert_string_equal(racer[1].m.stopped, "tie");
	race = race_of(2);
	race.share = share;
	fake.share = 0.4; /* never alone */
	fake.us[1] = 290;
	measure_race(&dev, &race);
	assert_true(racer[1].m.samples > 1);
}

static void only_disturbed_samples_are_better_than_none(void **state)
{
	(void)state;
	struct race race = race_of(2);
	fake.share = 0.6;
	measure_race(&dev, &race);
	assert_int_equal(racer[1].m.outcome, OUTCOME_OK);
	assert_string_equal(racer[1].m.stopped, "noisy");
	assert_int_equal(racer[1].m.rejected, 3 * racer[1].m.samples);
}

static void too_fast_is_wrong(void **state)
{
	(void)state;
	struct race race = race_of(3);
	racer[0].bound_us = 190; /* 100 us is more than half of it */
	racer[1].bound_us = 210;
	racer[2].bound_us = 210;
	fake.right = 1;
	measure_race(&dev, &race);
	assert_int_equal(racer[0].m.outcome, OUTCOME_OK);
	assert_int_equal(fake.looked[0], 0);
	assert_int_equal(racer[1].m.outcome, OUTCOME_WRONG);
	assert_int_equal(fake.looked[1], 1);
	assert_non_null(strstr(racer[1].m.detail, "100.000 us twice"));

	race = race_of(2);
	racer[1].bound_us = 210;
	fake.right = 0;
	measure_race(&dev, &race);
	assert_int_equal(racer[1].m.outcome, OUTCOME_WRONG);
	assert_non_null(strstr(racer[1].m.detail, "output is wrong"));
}

/* Too fast at first, and in the rounds; sound when timed again. */
static double lied(int who, int nth)
{
	return who == 1 && nth < 2 ? 10 : 100;
}

static double lied_later(int who, int nth)
{
	return who == 1 && nth >= 2 && nth < 5 ? 10 : 100;
}

static void a_clock_that_lied_once_is_forgiven(void **state)
{
	(void)state;
	struct protocol p = usual;
	p.min_rounds = p.max_rounds = 3;
	for (int later = 0; later < 2; later++) {
		struct race race = race_of(2);
		race.protocol = &p;
		fake.script = later ? lied_later : lied;
		fake.right = 1;
		racer[1].bound_us = 90;
		measure_race(&dev, &race);
		assert_int_equal(fake.looked[1], 1);
		assert_int_equal(racer[1].m.outcome, OUTCOME_OK);
		assert_true(fabs(racer[1].m.median_us - 100) < 1e-6);
	}
}

/* Racer 1 in its second round. */
static double far_out_once(int who, int nth)
{
	return who == 1 && nth == 3 ? 160 : 100;
}

static void one_sample_far_out_is_forgiven(void **state)
{
	(void)state;
	struct race race = race_of(4);
	fake.script = far_out_once;
	measure_race(&dev, &race);
	assert_int_equal(racer[1].m.samples, 6);
	assert_true(fabs(racer[1].m.lead - 1) < 1e-6);
}

static void the_impossible_drives_nobody_out(void **state)
{
	(void)state;
	struct race race = race_of(3);
	fake.us[1] = 10;
	for (int i = 0; i < 3; i++)
		racer[i].bound_us = 90;
	fake.right = 1;
	measure_race(&dev, &race);
	assert_int_equal(racer[1].m.outcome, OUTCOME_WRONG);
	assert_int_equal(fake.told[1], 1);
	assert_int_equal(racer[2].m.samples, 6);
	assert_string_equal(racer[2].m.stopped, "tie");
}

static void fixed_rounds_drop_nobody(void **state)
{
	(void)state;
	struct race race = race_of(3);
	race.fixed_rounds = 5;
	fake.us[1] = 300;
	fake.us[2] = 130;
	measure_race(&dev, &race);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(racer[i].m.samples, 5);
		assert_string_equal(racer[i].m.stopped, "rounds");
	}
	assert_true(fabs(racer[2].m.lead - 1.3) < 1e-6);
}

/* ---- controls ------------------------------------------------------------------ */

static void the_fastest_runs_twice(void **state)
{
	(void)state;
	struct race race = race_of(3);
	struct control control;
	race.control = &control;
	fake.us[2] = 95;
	measure_race(&dev, &race);
	assert_int_equal(control.of, 2);
	assert_int_equal(control.rounds, racer[2].m.samples);
	assert_true(fabs(control.ratio - 1) < 1e-6 && fabs(control.median_us - 95) < 1e-6);
	assert_true(control.device_us > 0);
	/* the twin samples as often: the best has a play more for the calls, two for the screen */
	assert_int_equal(fake.nth[2], 2 * racer[2].m.samples + 3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(fake.told[i], 1);
	assert_int_equal(fake.live_tapes, 0);
}

/* Racer 1 is the fastest in the screen and beaten later. */
static double fades(int who, int nth)
{
	return who == 1 ? nth < 3 ? 90 : 120 : 100;
}

static void a_twin_goes_with_its_original(void **state)
{
	(void)state;
	struct race race = race_of(3);
	struct control control;
	race.control = &control;
	fake.script = fades;
	measure_race(&dev, &race);
	assert_string_equal(racer[1].m.stopped, "beaten");
	assert_int_equal(control.of, 1);
	assert_int_equal(control.rounds, 2);
	assert_int_equal(fake.nth[1], 3 + 2 * 2);
	assert_int_equal(fake.live_tapes, 0);
}

/* The reference is the fastest in the screen, and rests later. */
static double tires(int who, int nth)
{
	return who == 0 ? nth < 3 ? 90 : 120 : 100;
}

static void a_twin_rests_with_the_reference(void **state)
{
	(void)state;
	struct race race = race_of(3);
	struct control control;
	race.control = &control;
	fake.script = tires;
	measure_race(&dev, &race);
	assert_int_equal(racer[1].m.samples, 6);
	assert_int_equal(control.rounds, 2);
	assert_int_equal(fake.nth[0], 3 + 2 * 2);
}

/* ---- clocks -------------------------------------------------------------------- */

static void throttled_rounds_are_run_again(void **state)
{
	(void)state;
	struct race race = race_of(2);
	dev.info.clock_mhz = 1980;
	fake.slow_looks = 3; /* one after each sample, one after the round */
	measure_race(&dev, &race);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(racer[i].m.rejected, 1);
		assert_int_equal(racer[i].m.samples, 6);
		assert_int_equal(fake.nth[i], 2 + !i + 7);
	}
	assert_true(fabs(racer[0].m.sm_mhz_before - 1500) < 1e-9);
	dev.info.clock_mhz = 0;
}

static void a_slow_device_is_measured_nevertheless(void **state)
{
	(void)state;
	struct race race = race_of(1);
	dev.info.clock_mhz = 2100;
	fake.slow_looks = 1000;
	measure_race(&dev, &race);
	assert_int_equal(racer[0].m.samples, 6);
	assert_int_equal(racer[0].m.rejected, 3);
	assert_true(fabs(racer[0].m.sm_mhz_before - 1000) < 1e-9);
	dev.info.clock_mhz = 0;
}

static void samples_at_another_clock_do_not_count(void **state)
{
	(void)state;
	struct race race = race_of(3);
	dev.info.clock_mhz = 1600;
	fake.odd_look = 2; /* the second sample of the first round */
	measure_race(&dev, &race);
	int rejected = 0;
	for (int i = 0; i < 3; i++) {
		rejected += racer[i].m.rejected;
		assert_int_equal(racer[i].m.samples, 6 - racer[i].m.rejected);
	}
	assert_int_equal(rejected, 1);
	dev.info.clock_mhz = 0;
}

static void steady_races_settle_first(void **state)
{
	(void)state;
	struct race race = race_of(2);
	struct protocol p = usual;
	p.name = "graph-rotating";
	protocol_steady(&p);
	assert_string_equal(p.name, "graph-rotating-steady");
	assert_true(p.settle_s >= 1);
	p.settle_s = 0.05;
	race.protocol = &p;
	fake.warming_looks = 8;
	measure_race(&dev, &race);
	assert_int_equal(racer[0].m.samples, 6);
	assert_true(fake.looks > 8 + 6); /* four windows would be enough of time */
	assert_true(fake.plays > first_of_rounds(2) + 2 * 6 + 8);
	assert_true(fabs(racer[0].m.power_w - 600) < 1e-9);
}

/* Of three the last is beaten, and keeps the power of the race. */
static void who_is_left_tells_its_own_power(void **state)
{
	(void)state;
	struct race race = race_of(3);
	struct protocol p = usual;
	p.hold_s = 0.05;
	race.protocol = &p;
	fake.us[2] = 130;
	fake.watts[0] = 200;
	fake.watts[1] = 400;
	fake.watts[2] = 300;
	measure_race(&dev, &race);
	assert_true(fabs(racer[0].m.power_w - 200) < 20);
	assert_true(fabs(racer[1].m.power_w - 400) < 40);
	assert_true(fabs(racer[2].m.power_w - 600) < 1e-9);
	assert_true(fabs(racer[1].m.joules - racer[1].m.power_w * 100e-6) < 1e-9);
	assert_int_equal(racer[0].m.samples, 6);
}

static void without_a_counter_power_is_the_races(void **state)
{
	(void)state;
	struct race race = race_of(2);
	struct protocol p = usual;
	p.hold_s = 10;
	race.protocol = &p;
	measure_race(&dev, &race);
	assert_true(fabs(racer[0].m.power_w - 600) < 1e-9);
	assert_int_equal(fake.looks, 6);
}

static void time_spent_is_told(void **state)
{
	(void)state;
	struct race race = race_of(2);
	fake.us[1] = 300;
	measure_race(&dev, &race);
	/* two calls to see, a sample to count the calls, six samples of ten */
	assert_true(fabs(racer[0].m.device_us - 100 * (2 + 10 + 60)) < 1e-6);
	assert_true(fabs(racer[1].m.device_us - 2 * 300) < 1e-6);
	assert_true(racer[0].m.wall_us > 0);
}

static double drawn(void *arg, int i, int round)
{
	int *rounds = arg;
	rounds[i] = round > rounds[i] ? round : rounds[i];
	return i == 2 ? NAN : 100 + 30 * i;
}

static void races_need_no_device(void **state)
{
	(void)state;
	struct race race = race_of(3);
	int rounds[3] = { 0 };
	race.draw = drawn;
	race.arg = rounds;
	assert_int_equal(measure_race(NULL, &race), ATTUNE_OK);
	assert_int_equal(rounds[0], 6);
	assert_int_equal(rounds[1], 2);
	assert_string_equal(racer[1].m.stopped, "beaten");
	assert_int_equal(racer[2].m.outcome, OUTCOME_RESOURCES);
	assert_int_equal(fake.plays, 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(fake.told[i], 1);
	struct protocol poor = usual; /* simulated time is spent as real time is */
	poor.seconds = 0.004;
	race.protocol = &poor;
	assert_int_equal(measure_race(NULL, &race), ATTUNE_OK);
	assert_string_equal(racer[0].m.stopped, "budget");
}

static void a_refused_launch_is_a_result(void **state)
{
	(void)state;
	struct race race = race_of(3);
	racer[1].call = refuse;
	assert_int_equal(measure_race(&dev, &race), ATTUNE_OK);
	assert_int_equal(racer[1].m.outcome, OUTCOME_RESOURCES);
	assert_string_equal(racer[1].m.detail, "too much shared memory");
	assert_int_equal(racer[2].m.outcome, OUTCOME_OK);
	assert_int_equal(racer[2].m.samples, 6);
	assert_int_equal(fake.live_tapes, 0);
}

static void a_lost_device_ends_the_race(void **state)
{
	(void)state;
	struct race race = race_of(3);
	fake.lost = 1;
	assert_int_equal(measure_race(&dev, &race), ATTUNE_DEVICE_ERROR);
	assert_int_equal(racer[1].m.outcome, OUTCOME_CRASH);
	assert_int_equal(fake.told[1], 1);
	assert_int_equal(fake.told[0] + fake.told[2], 0);
	assert_int_equal(fake.live_tapes, 0);
}

static void presets_are_known_words(void **state)
{
	(void)state;
	struct protocol p;
	const struct device_info gpu = { .backend = BACKEND_GPU, .l2_bytes = 50 << 20 };
	const struct device_info cpu = { .backend = BACKEND_CPU, .l2_bytes = 100 << 20 };
	assert_true(protocol_for(&p, &gpu, "full"));
	assert_string_equal(p.name, "graph-rotating");
	assert_true(p.cold_bytes >= 400u << 20);
	assert_true(protocol_for(&p, &cpu, "quick"));
	assert_true(p.cold_bytes == 200u << 20);
	assert_false(protocol_for(&p, &cpu, "slow"));
	static const char *const presets[] = { "smoke", "quick", "full" };
	for (int i = 0; i < 3; i++) {
		assert_true(protocol_for(&p, &gpu, presets[i]));
		assert_true(p.max_rounds <= MAX_SAMPLES && p.min_rounds <= p.max_rounds);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_round_plays_each_once),
		cmocka_unit_test(reference_is_told_last),
		cmocka_unit_test(slow_ones_go),
		cmocka_unit_test(quiet_ones_stop_early),
		cmocka_unit_test(noisy_ones_use_all_rounds),
		cmocka_unit_test(budget_ends_after_two_rounds),
		cmocka_unit_test(short_calls_are_joined),
		cmocka_unit_test(long_calls_rotate_sets),
		cmocka_unit_test(ratio_is_of_the_same_round),
		cmocka_unit_test(all_rounds_count_in_the_ratio),
		cmocka_unit_test(one_round_is_compared_with_all),
		cmocka_unit_test(figures_follow_from_the_samples),
		cmocka_unit_test(disturbed_samples_are_taken_again),
		cmocka_unit_test(who_was_held_up_is_not_slow),
		cmocka_unit_test(only_disturbed_samples_are_better_than_none),
		cmocka_unit_test(too_fast_is_wrong),
		cmocka_unit_test(a_clock_that_lied_once_is_forgiven),
		cmocka_unit_test(the_impossible_drives_nobody_out),
		cmocka_unit_test(fixed_rounds_drop_nobody),
		cmocka_unit_test(the_fastest_runs_twice),
		cmocka_unit_test(a_twin_goes_with_its_original),
		cmocka_unit_test(a_twin_rests_with_the_reference),
		cmocka_unit_test(one_sample_far_out_is_forgiven),
		cmocka_unit_test(throttled_rounds_are_run_again),
		cmocka_unit_test(a_slow_device_is_measured_nevertheless),
		cmocka_unit_test(samples_at_another_clock_do_not_count),
		cmocka_unit_test(steady_races_settle_first),
		cmocka_unit_test(who_is_left_tells_its_own_power),
		cmocka_unit_test(without_a_counter_power_is_the_races),
		cmocka_unit_test(time_spent_is_told),
		cmocka_unit_test(races_need_no_device),
		cmocka_unit_test(a_refused_launch_is_a_result),
		cmocka_unit_test(a_lost_device_ends_the_race),
		cmocka_unit_test(presets_are_known_words),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
