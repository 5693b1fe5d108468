/* SPDX-License-Identifier: Apache-2.0 */
/* t_engine_sim.c - the simulated engine: it conserves tokens, keeps its limits in every step,
 * and follows schedules worked out by hand. Also which steps are picked. */
#include "kernels/spec/choice.h"
#include "tests/support/traces.h"
#include <stdio.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

struct row_case {
	const char *name;
	struct engine engine;
	int requests, longest, must_preempt;
};

// clang-format off
static const struct row_case engines[] = {
	/*                                 budget  seqs  KV tokens                requests longest preempts */
	{ "room for all",          { ENGINE(8192,  256,  1 << 20) },                     400, 1024, 0 },
	{ "short of blocks",       { ENGINE(8192,  256,     4096) },                     300, 2048, 1 },
	{ "short of sequences",    { ENGINE(8192,    3,  1 << 20) },                     200, 1024, 0 },
	{ "small budget",          { ENGINE(  16,    8,     8192) },                      60, 1024, 0 },
	{ "budget below sequences", { ENGINE(  4,   16,     8192) },                      60,  256, 0 },
	{ "one at a time",         { ENGINE(  64,    1,     1024) },                      40,  512, 0 },
	{ "one block left over",   { ENGINE( 128,   16,     1039) },                     100, 1024, 1 },
	{ "prefixes cached",       { ENGINE(2048,   64,  1 << 20), .prefix_caching = 1 }, 300, 2048, 0 },
	{ "cached, short of blocks", { ENGINE(512,  64,     4096), .prefix_caching = 1 }, 300, 2048, 1 },
	{ "drafts",                { ENGINE(2048,   64,  1 << 20), DRAFTS(3, 2.5) },      300, 1024, 0 },
	{ "drafts, short of blocks", { ENGINE(512, 64,     1088), DRAFTS(7, 3) },         300, 1024, 1 },
	{ "drafts beyond the budget", { ENGINE(20,  16,    8192), DRAFTS(5, 4) },          60,  256, 0 },
	{ "both",                  { ENGINE(256,    32,    4096), DRAFTS(2, 1.5), .prefix_caching = 1 }, 200, 2048, 1 },
};
// clang-format on

/* The state of a request, from the rows alone. */
struct seen {
	int known;    /* tokens: its prompt and its output so far */
	int computed; /* at most: drafts may have been rejected */
	int least;    /* and at least */
	int is_running, generated;
};

enum turn { DECODES, CONTINUES, ENTERS };

/* Hit by whole blocks. */
static int hit(const struct engine *e, const struct request *r)
{
	return e->prefix_caching ? r->cached / REPLAY_BLOCK * REPLAY_BLOCK : 0;
}

/* One row: a request continues, or begins after its cached tokens, or begins there again after a
 * preemption. Returns its turn; counts tokens that are computed again. */
static enum turn check_row(struct seen *v, const struct request *q, const struct row *row,
			   const struct engine *e, long long *again)
{
	const int context = row->seq - row->query, cached = hit(e, q);
	const int goes_on = v->is_running && context >= v->least && context <= v->computed;
	assert_true(row->query >= 1 && context >= cached);
	if (!goes_on) {
		assert_int_equal(context, cached);
		*again += v->is_running ? v->computed - cached : 0;
		v->known = v->known ? v->known : q->prompt;
		v->is_running = 1;
		v->least = v->computed = row->seq;
		return ENTERS;
	}
	v->least = context + 1;
	v->computed = row->seq;
	return context >= q->prompt ? DECODES : CONTINUES;
}

/* One step: the budget, the number of sequences, the blocks; decodes, then at most one that
 * continues its prompt, then new ones; at most one keeps part of its prompt. Returns the query
 * tokens. */
static long long check_step(const struct engine_sim *r, const struct step *s, const struct trace *t,
			    const struct engine *e, struct seen *seen, long long *again)
{
	long long tokens = 0, blocks = 0;
	int unfinished = 0, count[ENTERS + 1] = { 0 };
	enum turn last = DECODES;
	for (int i = 0; i < s->num_rows; i++) {
		const struct row *row = &r->rows[s->first + (size_t)i];
		enum turn turn;
		assert_in_range(row->request, 0, t->n - 1);
		turn = check_row(&seen[row->request], &t->v[row->request], row, e, again);
		assert_true(turn >= last || e->drafts); /* drafts hide preemptions */
		last = turn;
		count[turn]++;
		tokens += row->query;
		blocks += (row->seq + REPLAY_BLOCK - 1) / REPLAY_BLOCK;
		unfinished += row->seq < t->v[row->request].prompt;
	}
	assert_true(s->num_rows >= 1);
	assert_true(tokens <= e->max_batched_tokens);
	assert_true(s->num_rows <= e->max_seqs);
	assert_true(blocks <= e->kv_tokens / REPLAY_BLOCK);
	assert_true(count[CONTINUES] <= 1);
	assert_true(unfinished <= 1);
	assert_true(s->ms > 4);
	return tokens;
}

static void conserves(void **arg)
{
	const struct row_case *c = *arg;
	state = 7;
	for (int seed = 0; seed < 5; seed++) {
		struct trace t = random_trace(c->requests, c->longest);
		struct seen *seen = calloc((size_t)t.n, sizeof *seen);
		struct engine_sim r, same;
		long long fed = 0, expected = 0, again = 0;
		assert_non_null(seen);
		assert_true(engine_run(&r, &t, &c->engine));
		for (int i = 0; i < r.num_steps; i++)
			fed += check_step(&r, &r.steps[i], &t, &c->engine, seen, &again);
		for (int i = 0; i < t.n; i++) {
			expected += t.v[i].prompt - hit(&c->engine, &t.v[i]) + t.v[i].output - 1;
			assert_true(r.done_ms[i] > t.v[i].arrival_ms);
		}
		assert_true(fed == expected + r.recomputed + r.rejected);
		assert_true(c->engine.drafts || again == r.recomputed);
		assert_int_equal(r.rejected > 0, c->engine.drafts > 0);
		assert_int_equal(r.preemptions > 0, c->must_preempt);
		assert_true(c->must_preempt || !r.recomputed);
		assert_true(r.busy_steps >= 1 && r.busy_steps <= r.num_steps);
		assert_true(engine_run(&same, &t, &c->engine));
		assert_true(same.num_rows == r.num_rows && same.num_steps == r.num_steps);
		assert_memory_equal(same.rows, r.rows, r.num_rows * sizeof *r.rows);
		engine_free(&same);
		engine_free(&r);
		trace_free(&t);
		free(seen);
	}
}

/* A decode advances by --accept on average. */
static void accepts(void **arg)
{
	const struct engine e = { ENGINE(8192, 64, 1 << 20), DRAFTS(3, 2.5) };
	struct trace t = { calloc(20, sizeof *t.v), 20, 0 };
	struct engine_sim r;
	(void)arg;
	for (int i = 0; i < 20; i++)
		t.v[i] = (struct request){ 0, 10, 2001, 0 };
	assert_true(engine_run(&r, &t, &e));
	/* the prompt's step makes one of the 2001 */
	assert_true(fabs(20 * 2000. / (double)(r.num_rows - 20) - 2.5) < 0.05);
	assert_true(r.rejected == 10ll * 20 + (long long)(r.num_rows - 20) * 4 - 20 * 2010);
	engine_free(&r);
	trace_free(&t);
}

/* The batch of a step as text, "" past the end. */
static const char *step_is(const struct engine_sim *r, int i)
{
	static char text[512];
	text[0] = '\0';
	for (int k = 0; i < r->num_steps && k < r->steps[i].num_rows; k++) {
		const struct row *row = &r->rows[r->steps[i].first + (size_t)k];
		size_t n = strlen(text);
		snprintf(text + n, sizeof text - n, "%sq%ds%d", k ? "_" : "", row->query, row->seq);
	}
	return text;
}

struct story {
	const char *name;
	struct engine engine;
	struct request requests[4];
	const char *steps[12];
};

// clang-format off
static const struct story stories[] = {
	{ "a prompt in chunks, decodes first", { ENGINE(100, 8, 1 << 20) },
	  { { 0, 50, 3, 0 }, { 0, 120, 2, 0 } },
	  { "q50s50_q50s50",		/* the second prompt gets the rest */
	    "q1s51_q70s120",
	    "q1s52_q1s121",
	    "" } },
	{ "one half-prefilled at most", { ENGINE(100, 8, 1 << 20) },
	  { { 0, 150, 1, 0 }, { 0, 150, 1, 0 }, { 0, 30, 1, 0 } },
	  { "q100s100", "q50s150_q50s50", "q100s150", "q30s30", "" } },
	{ "room for the whole prompt", { ENGINE(100, 8, 160) }, /* ten blocks */
	  { { 0, 90, 2, 0 }, { 0, 90, 1, 0 } },
	  { "q90s90", "q1s91", "q90s90", "" } },	/* six blocks, and six do not fit */
	{ "the tail is preempted and recomputed", { ENGINE(100, 8, 64) }, /* four blocks */
	  { { 0, 30, 6, 0 }, { 0, 30, 6, 0 } },
	  { "q30s30_q30s30", "q1s31_q1s31", "q1s32_q1s32", /* both need a third block */
	    "q1s33",			/* the second lost its blocks */
	    "q1s34", "q1s35",		/* and waits until 33 tokens have room */
	    "q33s33", "q1s34", "q1s35", "" } },
	{ "later arrivals wait, idle time passes", { ENGINE(100, 8, 1 << 20) },
	  { { 0, 10, 2, 0 }, { 1e4, 20, 1, 0 } },
	  { "q10s10", "q1s11", "q20s20", "" } },
	{ "sequence limit", { ENGINE(100, 1, 1 << 20) },
	  { { 0, 10, 2, 0 }, { 0, 10, 1, 0 } },
	  { "q10s10", "q1s11", "q10s10", "" } },
	{ "cached tokens are not computed", { ENGINE(100, 8, 1 << 20), .prefix_caching = 1 },
	  { { 0, 150, 2, 149 }, { 0, 60, 1, 20 }, { 0, 16, 1, 16 } }, /* 144, 16 and 0 in blocks */
	  { "q6s150_q44s60_q16s16",
	    "q1s151",
	    "" } },
	{ "their blocks are the request's own", { ENGINE(100, 8, 160), .prefix_caching = 1 },
	  { { 0, 90, 2, 80 }, { 0, 90, 1, 80 } },
	  { "q10s90", "q1s91", "q10s90", "" } },	/* six blocks, and six do not fit */
	{ "drafts, all accepted", { ENGINE(100, 8, 1 << 20), DRAFTS(3, 4) },
	  { { 0, 10, 10, 0 } },
	  { "q10s10", "q4s14", "q4s18", "q4s22", "" } },	/* 1, 5, 9, 10 generated */
	{ "drafts, none accepted", { ENGINE(100, 8, 1 << 20), DRAFTS(2, 1) },
	  { { 0, 10, 4, 0 } },
	  { "q10s10", "q3s13", "q3s14", "q3s15", "" } },
	{ "drafts are cut to the budget", { ENGINE(12, 8, 1 << 20), DRAFTS(7, 8) },
	  { { 0, 2, 9, 0 }, { 0, 2, 9, 0 } },
	  { "q2s2_q2s2", "q8s10_q4s6", "q8s14", "" } },
};
// clang-format on

static void schedules(void **arg)
{
	const struct story *story = *arg;
	struct trace t = { calloc(4, sizeof *t.v), 0, 0 };
	struct engine_sim r;
	for (; t.n < 4 && story->requests[t.n].prompt; t.n++)
		t.v[t.n] = story->requests[t.n];
	assert_true(engine_run(&r, &t, &story->engine));
	for (int i = 0; story->steps[i]; i++)
		assert_string_equal(step_is(&r, i), story->steps[i]);
	engine_free(&r);
	trace_free(&t);
}

static void runs_nothing(void **arg)
{
	struct trace none = { 0 };
	const struct engine e = { ENGINE(8192, 256, 4096) };
	struct picked kept[3];
	struct pick_rule rule;
	struct engine_sim r;
	(void)arg;
	assert_true(engine_run(&r, &none, &e));
	assert_int_equal(r.num_steps, 0);
	rule = pick_all(&r);
	assert_int_equal(engine_pick(&r, &rule, kept, 3), 0);
	assert_int_equal(engine_corners(&r, &rule, kept), 0);
	engine_free(&r);
}

/* Capacity does not depend on when requests arrive; a set rate is the rate. */
static void rates(void **arg)
{
	const struct engine e = { ENGINE(2048, 64, 1 << 16) };
	struct trace t;
	double capacity;
	(void)arg;
	state = 3;
	t = random_trace(500, 2048);
	capacity = engine_capacity(&t, &e);
	assert_true(capacity > 1 && capacity < 1e4);
	trace_set_rate(&t, capacity / 2);
	assert_true(fabs(t.v[499].arrival_ms / 1e3 - 500 / (capacity / 2)) < 1e-6);
	assert_true(fabs(engine_capacity(&t, &e) - capacity) < 1e-9);
	trace_free(&t);
}

static void picks(void **arg)
{
	const struct engine e = { ENGINE(512, 64, 1 << 16) };
	struct picked a[20], b[20];
	struct pick_rule rule;
	struct engine_sim r;
	struct trace t;
	double sum = 0;
	int n;
	(void)arg;
	state = 11;
	t = random_trace(400, 2048);
	trace_set_rate(&t, 0.8 * engine_capacity(&t, &e));
	assert_true(engine_run(&r, &t, &e));
	rule = pick_all(&r);
	n = engine_pick(&r, &rule, a, 20);
	assert_int_equal(n, 20);
	for (int i = 0; i < n; i++) {
		assert_in_range(a[i].step, r.busy_steps / 10, r.busy_steps - 1);
		assert_true(a[i].weight > 0);
		sum += a[i].weight;
		for (int j = 0; j < i; j++)
			assert_int_not_equal(a[i].step, a[j].step);
	}
	assert_true(fabs(sum - 1) < 1e-9);
	assert_int_equal(engine_pick(&r, &rule, b, 20), 20); /* the same again */
	for (int i = 0; i < n; i++)
		assert_true(a[i].step == b[i].step && a[i].weight == b[i].weight);
	rule.max_pairs = 0;
	assert_int_equal(engine_pick(&r, &rule, b, 20), 0); /* nothing is that small */
	rule.max_pairs = 5000;
	n = engine_pick(&r, &rule, b, 20);
	assert_true(n > 0);
	for (int i = 0; i < n; i++) {
		const struct step *s = &r.steps[b[i].step];
		double pairs = 0;
		for (int k = 0; k < s->num_rows; k++) {
			const struct row *row = &r.rows[s->first + (size_t)k];
			for (int q = 0; q < row->query; q++)
				pairs += row->seq - q;
		}
		assert_true(pairs <= 5000);
	}
	engine_free(&r);
	trace_free(&t);
}

int main(void)
{
	static struct CMUnitTest tests[COUNT(engines) + COUNT(stories) + 4];
	size_t n = 0;
#define ROWS(rows, test)                         \
	for (size_t i = 0; i < COUNT(rows); i++) \
		tests[n++] =                     \
		    (struct CMUnitTest){ rows[i].name, test, NULL, NULL, (void *)&rows[i] };
	ROWS(engines, conserves)
	ROWS(stories, schedules)
#undef ROWS
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(runs_nothing);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(accepts);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(rates);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(picks);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return _cmocka_run_group_tests("replay", tests, n, NULL, NULL);
}
