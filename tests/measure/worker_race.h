/* SPDX-License-Identifier: Apache-2.0 */
/* worker_race.h - a race of three kernels in a worker process on the CPU. */
#ifndef TESTS_MEASURE_WORKER_RACE_H
#define TESTS_MEASURE_WORKER_RACE_H

#include "harness/base/base.h"
#include "harness/measure/measure.h"
#include "harness/scenario/scenario.h"
#include "harness/search/search.h"
#include "harness/worker/worker.h"
#include "kernels/args.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/part.h"
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

enum {
	ENTRANTS = 3,
	MOST_ENTRANTS = 6,
	LONG = 613 /* the length of the timed sequences; no corner batch has it */
};

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

/* Raises SIGKILL, as another process would, *kills times; counts calls by the gate and timed
 * calls. */
static int *kills;

/* ---- a race of three ------------------------------------------------------------------ */

static struct fixture {
	struct scenario scenario;
	struct blob blob[MOST_ENTRANTS];
	struct built_choice built_choice[MOST_ENTRANTS];
	int place[MOST_ENTRANTS];
	struct contender contender[MOST_ENTRANTS];
	int n; /* contenders */
	struct problem problem;
	struct problems problems;
	struct worker_setup setup;
	struct measurement got[MOST_ENTRANTS];
	int results[MOST_ENTRANTS], passed[MOST_ENTRANTS], failed_gate[MOST_ENTRANTS], last;
	int fixed_rounds, with_control, controls;
	struct control control;
} f;

static int on_result(void *arg, const struct order *order, int i, const struct measurement *m,
		     int failed_gate)
{
	(void)arg;
	assert_int_equal(order->v[i].place[0], i);
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
	f.n = ENTRANTS;
	snprintf(text, sizeof text, "2q1s%d", LONG);
	f.scenario = (struct scenario){
		.model = "tiny@1", .set = "t", .split = "train", .weight = 1, .seed = 5
	};
	f.scenario.shape = (attune_shape){ .size = sizeof(attune_shape),
					   .num_query_heads = 2,
					   .num_kv_heads = 1,
					   .head_size = HEAD_SIZE,
					   .page_size = 16,
					   .causal = 1 };
	f.scenario.batch_text = strdup(text);
	f.scenario.batch = batch_parse(text, error, sizeof error);
	f.problem =
	    (struct problem){ .phase = PHASE_DECODE, .n = MOST_ENTRANTS, .built_choice = f.place };
	f.problems = (struct problems){ .scenarios = &f.scenario,
					.v = &f.problem,
					.n = 1,
					.built_choice = f.built_choice,
					.num_built_choices = MOST_ENTRANTS,
					.num_shapes = 1 };
	f.setup = (struct worker_setup){
		.device = "cpu", .problems = &f.problems, .gate_s = 2, .sample_s = 2
	};
	if (!f.scenario.batch || !part_make(&f.problem.part, PHASE_DECODE, &f.scenario.shape,
					    &f.scenario.batch->view, &cpu))
		return -1;
	protocol_for(&f.setup.protocol, &cpu, "smoke");
	f.setup.protocol.cold_bytes = 1 << 20;
	for (int i = 0; i < MOST_ENTRANTS; i++) {
		const struct kernel *k = kernel_find(BACKEND_CPU, "qblock");
		f.place[i] = i;
		f.blob[i] = (struct blob){ .cell = right_cell };
		f.built_choice[i] = (struct built_choice){ .choice.kernel = k,
							   .blob = &f.blob[i],
							   .built = i,
							   .helper = { -1, -1, -1 },
							   .flags = "" };
		config_default(&f.built_choice[i].choice.config, k->space);
		f.contender[i] = contender_at(&f.problems, &f.problem, i);
	}
	setenv("ATTUNE_THREADS", "1", 1);
	setenv("ATTUNE_CLOCK", "1", 1); /* the budget counts samples */
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
	const struct order order = { .v = f.contender,
				     .n = f.n,
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

#endif
