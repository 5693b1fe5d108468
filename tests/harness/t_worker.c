/* t_worker.c - a race in a worker process on the CPU: right kernels are timed, wrong
 * ones are caught, and those that crash or hang take nothing else with them. */
#include "harness/base/base.h"
#include "harness/measure/measure.h"
#include "harness/scenario/scenario.h"
#include "harness/search/search.h"
#include "harness/worker/worker.h"
#include <stdio.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>
#undef fail

enum { ENTRANTS = 3, LONG = 613 /* the timed sequences; no corner batch has such */ };

/* ---- kernels ------------------------------------------------------------------------ */

static float *row_of(const struct attune_args *a, int seq, int token, int head)
{
	return (float *)a->out + (a->query_start[seq] + token) * a->out_token_stride +
	       head * a->out_head_stride;
}

static void attend_row(const struct attune_args *a, int size, int seq, int token, int head)
{
	const int query = a->query_start[seq + 1] - a->query_start[seq];
	const int last = a->seq_lens[seq] - query + token;
	const float *q = (const float *)a->q + (a->query_start[seq] + token) * a->q_token_stride +
			 head * a->q_head_stride;
	float *out = row_of(a, seq, token, head), sum = 0, most = -INFINITY;
	memset(out, 0, (size_t)size * sizeof *out);
	for (int pass = 0; pass < 2; pass++)
		for (int j = 0; j <= last; j++) {
			const long long page =
			    a->block_table[(long long)seq * a->block_table_stride +
					   j / a->page_size];
			const int slot = j % a->page_size, kv = head / a->group;
			const float *k = (const float *)a->k_cache + page * a->k_page_stride +
					 slot * a->k_slot_stride + kv * a->k_head_stride;
			const float *v = (const float *)a->v_cache + page * a->v_page_stride +
					 slot * a->v_slot_stride + kv * a->v_head_stride;
			float score = 0;
			for (int d = 0; d < size; d++)
				score += q[d] * k[d];
			score *= a->scale;
			if (!pass) {
				most = fmaxf(most, score);
				continue;
			}
			const float p = expf(score - most);
			sum += p;
			for (int d = 0; d < size; d++)
				out[d] += p * v[d];
		}
	for (int d = 0; d < size && sum > 0; d++)
		out[d] /= sum;
}

enum { HEAD_SIZE = 16 };

/* All of it in the first cell. */
static void right_cell(const struct attune_args *a, int x, int y, int z)
{
	if (x || y || z)
		return;
	for (int seq = a->seq_begin; seq < a->seq_begin + a->seq_count; seq++) {
		const int query = a->query_start[seq + 1] - a->query_start[seq];
		if (query < a->min_query || query > a->max_query)
			continue;
		for (int token = 0; token < query; token++)
			for (int head = 0; head < a->num_query_heads; head++)
				attend_row(a, HEAD_SIZE, seq, token, head);
	}
}

static void wrong_cell(const struct attune_args *a, int x, int y, int z)
{
	right_cell(a, x, y, z);
	if (!x && !y && !z)
		*row_of(a, a->seq_begin, 0, 0) += 1;
}

static void crashing_cell(const struct attune_args *a, int x, int y, int z)
{
	(void)a, (void)x, (void)y, (void)z;
	raise(SIGSEGV);
}

static void hanging_cell(const struct attune_args *a, int x, int y, int z)
{
	(void)x, (void)y, (void)z;
	for (volatile int more = a->num_seqs; more;)
		usleep(1000);
}

/* Passes the gate, fails in the race. */
static void late_crashing_cell(const struct attune_args *a, int x, int y, int z)
{
	right_cell(a, x, y, z);
	if (a->seq_lens[a->seq_begin] == LONG)
		crashing_cell(a, x, y, z);
}

static void late_hanging_cell(const struct attune_args *a, int x, int y, int z)
{
	right_cell(a, x, y, z);
	if (a->seq_lens[a->seq_begin] == LONG)
		hanging_cell(a, x, y, z);
}

/* Passes the gate, and does nothing when it is timed: nobody is faster. */
static void idle_cell(const struct attune_args *a, int x, int y, int z)
{
	if (a->seq_lens[a->seq_begin] != LONG)
		right_cell(a, x, y, z);
}

/* Dies as if somebody else killed it, as often as *kills says; calls by the gate, and timed. */
static int *kills;
static void killed_cell(const struct attune_args *a, int x, int y, int z)
{
	right_cell(a, x, y, z);
	if (!x && !y && !z && __atomic_fetch_sub(&kills[0], 1, __ATOMIC_RELAXED) > 0)
		raise(SIGKILL);
}

static void late_killed_cell(const struct attune_args *a, int x, int y, int z)
{
	if (a->seq_lens[a->seq_begin] == LONG)
		killed_cell(a, x, y, z);
	else
		right_cell(a, x, y, z);
}

/* Once it is silent. */
static void once_hanging_cell(const struct attune_args *a, int x, int y, int z)
{
	right_cell(a, x, y, z);
	if (!x && !y && !z && __atomic_fetch_sub(&kills[0], 1, __ATOMIC_RELAXED) > 0)
		hanging_cell(a, x, y, z);
}

/* ---- a race of three ------------------------------------------------------------------ */

static struct fixture {
	struct scenario scenario;
	struct blob blob[ENTRANTS];
	struct built_choice built_choice[ENTRANTS];
	int place[ENTRANTS];
	struct contender contender[ENTRANTS];
	struct problem problem;
	struct problems problems;
	struct worker_setup setup;
	struct measurement got[ENTRANTS];
	int results[ENTRANTS], passed[ENTRANTS], failed_gate[ENTRANTS], last;
	int fixed_rounds, with_control, controls;
	struct control control;
} f;

static int on_result(void *arg, const struct order *order, int i, const struct measurement *m,
		     int failed_gate)
{
	(void)arg;
	assert_int_equal(order->contender[i].place[0], i);
	f.got[i] = *m;
	f.results[i]++;
	f.failed_gate[i] = failed_gate;
	f.last = i;
	return 1;
}

static void on_passed(void *arg, const struct order *order, int i)
{
	(void)arg, (void)order;
	f.passed[i]++;
}

static int on_control(void *arg, const struct order *order, const struct control *control)
{
	(void)arg, (void)order;
	f.control = *control;
	f.controls++;
	return 1;
}

static void on_beat(void *arg)
{
	(void)arg;
}

static int begin(void **state)
{
	char error[128], text[32];
	const struct device_info cpu = { .backend = BACKEND_CPU, .units = 1 };
	(void)state;
	memset(&f, 0, sizeof f);
	snprintf(text, sizeof text, "2q1s%d", LONG);
	f.scenario = (struct scenario){
		.model = "tiny@1", .set = "t", .split = "train", .weight = 1, .seed = 5
	};
	f.scenario.shape = (attune_shape){ .num_query_heads = 2,
					   .num_kv_heads = 1,
					   .head_size = HEAD_SIZE,
					   .page_size = 16,
					   .causal = 1 };
	f.scenario.batch_text = strdup(text);
	f.scenario.batch = batch_parse(text, error, sizeof error);
	f.problem =
	    (struct problem){ .phase = PHASE_DECODE, .n = ENTRANTS, .built_choice = f.place };
	f.problems = (struct problems){ .scenarios = &f.scenario,
					.v = &f.problem,
					.n = 1,
					.built_choice = f.built_choice,
					.num_built_choices = ENTRANTS,
					.num_shapes = 1 };
	f.setup = (struct worker_setup){
		.device = "cpu", .problems = &f.problems, .gate_s = 2, .sample_s = 2
	};
	if (!f.scenario.batch || !part_make(&f.problem.part, PHASE_DECODE, &f.scenario.shape,
					    &f.scenario.batch->view, &cpu))
		return -1;
	protocol_for(&f.setup.protocol, &cpu, "smoke");
	f.setup.protocol.cold_bytes = 1 << 20;
	for (int i = 0; i < ENTRANTS; i++) {
		const struct kernel *k = kernel_find(BACKEND_CPU, "qblock");
		f.place[i] = i;
		f.contender[i] = (struct contender){ .problem = { 0, -1 }, .place = { i } };
		f.blob[i] = (struct blob){ .cell = right_cell };
		f.built_choice[i] = (struct built_choice){ .choice.kernel = k,
							   .blob = &f.blob[i],
							   .built = i,
							   .helper = { -1, -1, -1 },
							   .flags = "" };
		config_default(&f.built_choice[i].choice.config, k->space);
	}
	setenv("ATTUNE_THREADS", "1", 1);
	setenv("ATTUNE_CLOCK", "1", 1); /* the budget counts plays */
	return 0;
}

static int end(void **state)
{
	(void)state;
	free(f.scenario.batch_text);
	batch_free(f.scenario.batch);
	return 0;
}

static enum race_end race(void)
{
	const struct listener listener = {
		.result = on_result, .passed = on_passed, .control = on_control, .beat = on_beat
	};
	const struct order order = { .contender = f.contender,
				     .n = ENTRANTS,
				     .fixed_rounds = f.fixed_rounds,
				     .with_control = f.with_control,
				     .seconds = 2,
				     .seed = 3 };
	struct worker *w = worker_new(&f.setup);
	assert_non_null(w);
	enum race_end heard = worker_race(w, &order, &listener);
	worker_free(w);
	return heard;
}

/* A busy machine makes a right result noisy. */
static void expect_ok(int i)
{
	const int is_noisy = f.got[i].outcome == OUTCOME_NOISY;
	assert_int_equal(f.results[i], 1);
	assert_true(is_noisy || f.got[i].outcome == OUTCOME_OK);
	assert_int_equal(*f.got[i].detail != '\0', is_noisy);
	assert_true(f.got[i].samples >= 1 && f.got[i].median_us > 0);
	assert_true(f.got[i].min_us <= f.got[i].median_us);
	assert_int_equal(f.failed_gate[i], 0);
}

static void right_ones_are_timed(void **state)
{
	(void)state;
	assert_int_equal(race(), RACE_ENDED);
	for (int i = 0; i < ENTRANTS; i++) {
		expect_ok(i);
		assert_int_equal(f.passed[i], 1);
	}
	assert_int_equal(f.last, 0);
	assert_true(fabs(f.got[0].ratio - 1) < 1e-9);
}

static void the_gate_is_passed_once(void **state)
{
	(void)state;
	for (int i = 0; i < ENTRANTS; i++)
		f.contender[i].passed = 1;
	assert_int_equal(race(), RACE_ENDED);
	for (int i = 0; i < ENTRANTS; i++) {
		expect_ok(i);
		assert_int_equal(f.passed[i], 0);
	}
}

static void rounds_are_fixed_on_demand(void **state)
{
	(void)state;
	f.fixed_rounds = 4;
	f.with_control = 1;
	assert_int_equal(race(), RACE_ENDED);
	for (int i = 0; i < ENTRANTS; i++) {
		expect_ok(i);
		assert_true(f.got[i].samples + f.got[i].rejected >= 4 && f.got[i].samples <= 4);
	}
	assert_int_equal(f.controls, 1);
	assert_true(f.control.of >= 0 && f.control.of < ENTRANTS);
	assert_true(f.control.ratio > 0 && f.control.median_us > 0);
	f.with_control = 0;
	memset(f.results, 0, sizeof f.results);
	assert_int_equal(race(), RACE_ENDED);
	assert_int_equal(f.controls, 1);
}

/* Whoever is known from the corner batches is not looked at before the race, but a winner
 * is after it. */
static void a_winner_is_looked_at(void **state)
{
	(void)state;
	for (int i = 0; i < ENTRANTS; i++)
		f.contender[i].passed = 1;
	f.blob[1].cell = idle_cell;
	assert_int_equal(race(), RACE_ENDED);
	assert_int_equal(f.got[1].outcome, OUTCOME_WRONG);
	expect_ok(0);
	expect_ok(2);
}

static void choices_of_one_binary_share_its_code(void **state)
{
	(void)state;
	f.built_choice[1].built = 0;
	f.blob[1].cell = wrong_cell;
	assert_int_equal(race(), RACE_ENDED);
	for (int i = 0; i < ENTRANTS; i++) {
		expect_ok(i);
		assert_int_equal(f.passed[i], 1);
	}
}

static void one_fails(void (*cell)(const struct attune_args *, int, int, int), int which,
		      enum outcome outcome, const char *words)
{
	f.blob[which].cell = cell;
	assert_int_equal(race(), RACE_ENDED);
	assert_int_equal(f.results[which], 1);
	assert_int_equal(f.got[which].outcome, outcome);
	if (!strstr(f.got[which].detail, words))
		print_error("detail is \"%s\"\n", f.got[which].detail);
	assert_non_null(strstr(f.got[which].detail, words));
	for (int i = 0; i < ENTRANTS; i++)
		if (i != which)
			expect_ok(i);
}

static void wrong_is_caught_at_the_gate(void **state)
{
	(void)state;
	one_fails(wrong_cell, 1, OUTCOME_WRONG, "expected");
	assert_int_equal(f.failed_gate[1], 1);
	assert_int_equal(f.passed[1], 0);
}

static void a_crash_is_a_result(void **state)
{
	(void)state;
	one_fails(crashing_cell, 1, OUTCOME_CRASH, "signal");
}

static void a_hang_is_a_result(void **state)
{
	(void)state;
	f.setup.gate_s = 5;
	one_fails(hanging_cell, 2, OUTCOME_TIMEOUT, "no sign of life");
}

static void a_late_crash_too(void **state)
{
	(void)state;
	one_fails(late_crashing_cell, 0, OUTCOME_CRASH, "signal");
	assert_int_equal(f.passed[0], 1);
}

static void a_late_hang_too(void **state)
{
	(void)state;
	f.setup.gate_s = f.setup.sample_s = 5;
	one_fails(late_hanging_cell, 1, OUTCOME_TIMEOUT, "no sign of life");
}

static void all_may_crash(void **state)
{
	(void)state;
	for (int i = 0; i < ENTRANTS; i++)
		f.blob[i].cell = crashing_cell;
	assert_int_equal(race(), RACE_ENDED);
	for (int i = 0; i < ENTRANTS; i++)
		assert_int_equal(f.got[i].outcome, OUTCOME_CRASH);
}

static void all_are_right(void)
{
	for (int i = 0; i < ENTRANTS; i++)
		expect_ok(i);
}

/* The system does so when memory runs out. */
static void a_kill_from_outside_blames_nobody(void **state)
{
	(void)state;
	f.blob[1].cell = killed_cell;
	*kills = 1;
	assert_int_equal(race(), RACE_ENDED);
	all_are_right();
}

static void nor_does_one_in_the_race(void **state)
{
	(void)state;
	f.blob[0].cell = f.blob[1].cell = f.blob[2].cell = late_killed_cell;
	*kills = 1;
	assert_int_equal(race(), RACE_ENDED);
	all_are_right();
	assert_true(*kills < 0);
}

static void nor_does_silence_once(void **state)
{
	(void)state;
	f.setup.gate_s = 0.5;
	f.blob[2].cell = once_hanging_cell;
	*kills = 1;
	assert_int_equal(race(), RACE_ENDED);
	all_are_right();
}

static void killed_twice_is_a_verdict(void **state)
{
	(void)state;
	*kills = 2;
	one_fails(killed_cell, 1, OUTCOME_CRASH, "killed by signal 9");
	assert_int_equal(f.failed_gate[1], 1);
}

static void no_device_is_said_so(void **state)
{
	struct hello hello;
	(void)state;
	f.setup.device = "cpu:abacus";
	struct worker *w = worker_new(&f.setup);
	assert_true(worker_hello(w, &hello));
	assert_int_not_equal(hello.status, ATTUNE_OK);
	assert_non_null(strstr(hello.text, "abacus"));
	worker_free(w);
	assert_int_equal(race(), RACE_NO_DEVICE);
}

static void the_device_says_what_it_is(void **state)
{
	struct hello hello;
	(void)state;
	struct worker *w = worker_new(&f.setup);
	assert_true(worker_hello(w, &hello));
	assert_int_equal(hello.status, ATTUNE_OK);
	assert_string_equal(hello.info.gpu, "cpu");
	/* 0: other programs kept the CPU busy */
	assert_true(hello.dram_gbps >= 0 && hello.fma_tflops >= 0);
	worker_free(w);
}

int main(void)
{
#define RACE(test) cmocka_unit_test_setup_teardown(test, begin, end)
	const struct CMUnitTest tests[] = {
		RACE(right_ones_are_timed),
		RACE(the_gate_is_passed_once),
		RACE(rounds_are_fixed_on_demand),
		RACE(a_winner_is_looked_at),
		RACE(choices_of_one_binary_share_its_code),
		RACE(wrong_is_caught_at_the_gate),
		RACE(a_crash_is_a_result),
		RACE(a_hang_is_a_result),
		RACE(a_late_crash_too),
		RACE(a_late_hang_too),
		RACE(all_may_crash),
		RACE(a_kill_from_outside_blames_nobody),
		RACE(nor_does_one_in_the_race),
		RACE(nor_does_silence_once),
		RACE(killed_twice_is_a_verdict),
		RACE(no_device_is_said_so),
		RACE(the_device_says_what_it_is),
	};
	kills =
	    mmap(NULL, sizeof *kills, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (kills == MAP_FAILED)
		return 1;
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
