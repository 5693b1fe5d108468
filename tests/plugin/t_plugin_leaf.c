/* t_plugin_leaf.c - rules that name a plug-in, in the library: it runs where it is registered, in
 * the version that was measured, and takes the shape and the batch; ours run everywhere else. All
 * outputs are compared with plain arithmetic. */
#include "leaf_plugins.h"

enum { FINITE = ATTUNE_PLUGIN_FINITE_SLOTS };
static const int prefills[][2] = { { 40, 40 }, { 33, 100 } };

static void *room_for(const attune_plan *plan)
{
	void *workspace = aligned_alloc(64, (plan->workspace + 16 + 63) / 64 * 64);
	assert_non_null(workspace);
	return (char *)workspace + 16; /* aligned to 16 bytes alone, as attune_run asks */
}

static void *room_begin(void *workspace)
{
	return (char *)workspace - 16;
}

/* Plans with plug-ins, runs, checks the output; returns the launches of plug-ins. */
static int run_step(attune_op *op, struct step *s, unsigned promises, char text[512])
{
	attune_plan plan = { .size = sizeof plan };
	const int before = calls.launches;
	memset(s->out, 0x7f, sizeof(float) * (size_t)s->tokens * QUERY_HEADS * HEAD);
	if (attune_plan_batch(op, &s->batch, &plan) ||
	    attune_plan_plugins(op, &s->batch, &s->t, promises, NULL, &plan) ||
	    attune_plan_text(op, &plan, text, 512))
		fail_msg("%s", attune_last_error());
	void *workspace = room_for(&plan);
	if (attune_run(op, &plan, &s->t, workspace, plan.workspace, NULL))
		fail_msg("%s", attune_last_error());
	free(room_begin(workspace));
	attune_free_plan(op, &plan);
	assert_step_is_right(s);
	return calls.launches - before;
}

/* ---- which runs ----------------------------------------------------------------------------- */

static const struct {
	const char *label, *row;
	unsigned promises;
	int runs;
	const char *unused; /* in the line of attune_unused_choices */
} rows[] = {
	{ "registered", "good 1 UNROLL=4", 0, 1, "" },
	{ "another value", "good 1 UNROLL=1", 0, 1, "" },
	{ "not registered", "absent 1 UNROLL=4", 0, 0,
	  "absent UNROLL=4 of version 1: no plug-in of this name is registered" },
	{ "another version", "good 2 UNROLL=4", 0, 0,
	  "good UNROLL=4 of version 2: the plug-in is registered in another version" },
	{ "other tunables", "good 1 SPLITS=4", 0, 0, "the plug-in has no such tunables" },
	{ "another value than it has", "good 1 UNROLL=3", 0, 0, "has no such tunables" },
	{ "it refuses the shape", "refusing 1 UNROLL=4", 0, 0,
	  "UNROLL=4 of version 1: everything" },
	{ "it refuses the batch", "picky 1 UNROLL=4", 0, 0, "" },
	{ "it cannot prepare", "unprepared 1 UNROLL=4", 0, 0, "could not be prepared" },
	{ "a cache of its own", "storing 1 UNROLL=4", 0, 0,
	  "it holds the cache in a layout of its own" },
	{ "it cannot plan", "planless 1 UNROLL=4", 0, 0, "" },
	{ "a need without a promise", "finite 1 UNROLL=4", 0, 0, "" },
	{ "a need with the promise", "finite 1 UNROLL=4", FINITE, 1, "" },
	{ "dense rows, which they are", "dense 1 UNROLL=4", 0, 1, "" },
	{ "no scales, and no E4M3 cache", "unscaled 1 UNROLL=4", 0, 1, "" },
};

static void the_plugin_runs_or_ours_do(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		attune_context *ctx = open_with(rows[i].row, "0", "0", "0");
		attune_op *op = prepare(ctx);
		char text[512], unused[512], name[32];
		struct step s;
		snprintf(name, sizeof name, "%.*s ", (int)strcspn(rows[i].row, " "), rows[i].row);
		for (int batch = 0; batch < 2; batch++) {
			step_make(&s, batch ? 2 : 3, batch ? prefills : decodes);
			const int launches = run_step(op, &s, rows[i].promises, text);
			if (launches != rows[i].runs)
				fail_msg("%s: %d launches: %s", rows[i].label, launches, text);
			const char *runs = rows[i].runs ? name : "segmented ";
			if (strncmp(text, runs, strlen(runs)))
				fail_msg("%s: %s", rows[i].label, text);
			step_free(&s);
		}
		assert_int_equal(attune_unused_choices(op, unused, sizeof unused), ATTUNE_OK);
		if (*rows[i].unused ? !strstr(unused, rows[i].unused) : *unused)
			fail_msg("%s: %s", rows[i].label, unused);
		attune_release(op);
		attune_close(ctx);
	}
	assert_int_equal(calls.plans, 0);
	assert_int_equal(calls.ops, 0);
}

static void it_says_why_it_could_not_plan(void **state)
{
	attune_context *ctx = open_with("planless 1 UNROLL=4", "0", "0", "0");
	attune_op *op = prepare(ctx);
	attune_plan plan = { .size = sizeof plan }, ours = { .size = sizeof ours };
	struct step s;
	(void)state;
	step_make(&s, 3, decodes);
	assert_int_equal(attune_plan_batch(op, &s.batch, &ours), ATTUNE_OK);
	plan = ours;
	assert_int_equal(attune_plan_plugins(op, &s.batch, &s.t, 0, NULL, &plan), ATTUNE_OK);
	assert_string_equal(attune_last_error(), "plug-in planless: plan: no luck today");
	assert_memory_equal(&plan, &ours, sizeof plan);
	step_free(&s);
	attune_release(op);
	attune_close(ctx);
}

/* Gaps between the rows of q: a plug-in that needs dense ones is left out. */
static void rows_with_gaps_are_not_dense(void **state)
{
	attune_context *ctx = open_with("dense 1 UNROLL=4", "0", "0", "0");
	attune_op *op = prepare(ctx);
	attune_plan plan = { .size = sizeof plan };
	char text[512];
	struct step s;
	(void)state;
	step_make(&s, 1, decodes); /* of one token: no row lies behind the gap */
	s.t.q_token_stride += HEAD;
	assert_int_equal(attune_plan_batch(op, &s.batch, &plan), ATTUNE_OK);
	assert_int_equal(attune_plan_plugins(op, &s.batch, &s.t, 0, NULL, &plan), ATTUNE_OK);
	assert_int_equal(attune_plan_text(op, &plan, text, sizeof text), ATTUNE_OK);
	assert_ptr_equal(strstr(text, "segmented"), text);
	step_free(&s);
	attune_release(op);
	attune_close(ctx);
}

/* ---- batches with both phases --------------------------------------------------------------- */

/* Prefills, then decodes: both parts follow one another. In `mixed` of cpu_step.h they do not. */
static const int ordered[][2] = { { 40, 40 }, { 33, 100 }, { 1, 300 }, { 4, 64 } };

static const struct {
	const char *label, *prefill, *decode, *mixed, *text; /* text: "*" is any tunables */
	const int (*batch)[2];
	int num_seqs, launches;
} mixed_rows[] = {
	{ "ours", "0", "0", "ours", "prefill: segmented | decode: segmented", ordered, 4, 0 },
	{ "both parts", "0", "0", "parts", "prefill: good | decode: good", ordered, 4, 2 },
	{ "decodes", "ours", "0", "parts", "prefill: segmented | decode: good", ordered, 4, 1 },
	{ "prefills", "0", "ours", "parts", "prefill: good | decode: segmented", ordered, 4, 1 },
	{ "no part", "ours", "ours", "parts", "prefill: segmented | decode: segmented", ordered, 4,
	  0 },
	{ "one launch", "ours", "ours", "0", "good", ordered, 4, 1 },
	{ "parts that are not in order", "ours", "0", "parts",
	  "prefill: segmented | decode: segmented", mixed, 6, 0 },
	{ "one part can, the other cannot", "0", "0", "parts",
	  "prefill: segmented | decode: segmented",
	  (const int[][2]){ { 1, 30 }, { 33, 100 }, { 1, 20 } }, 3, 0 },
	{ "a prefill among them: one launch", "ours", "ours", "0", "good",
	  (const int[][2]){ { 1, 30 }, { 33, 100 }, { 1, 20 } }, 3, 1 },
};

/* "prefill: good UNROLL=4 | decode: segmented ..." without the tunables. */
static void names_of(char *names, const char *text)
{
	const char *at = text;
	int n = 0;
	for (; *at; at += strcspn(at, " "), at += *at == ' ') {
		const int length = (int)strcspn(at, " ");
		if (!memchr(at, '=', (size_t)length))
			n += sprintf(names + n, "%s%.*s", n ? " " : "", length, at);
	}
}

static void mixed_batches_follow_their_own_tree(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(mixed_rows); i++) {
		attune_context *ctx = open_with("good 1 UNROLL=4", mixed_rows[i].prefill,
						mixed_rows[i].decode, mixed_rows[i].mixed);
		attune_op *op = prepare(ctx);
		char text[512], names[512] = "";
		struct step s;
		step_make(&s, mixed_rows[i].num_seqs, mixed_rows[i].batch);
		const int launches = run_step(op, &s, 0, text);
		names_of(names, text);
		if (launches != mixed_rows[i].launches || strcmp(names, mixed_rows[i].text))
			fail_msg("%s: %d launches: %s", mixed_rows[i].label, launches, text);
		step_free(&s);
		attune_release(op);
		attune_close(ctx);
	}
	assert_int_equal(calls.plans, 0);
}

/* Where decodes lie decides whether it is given the batch. */
static void decodes_at_an_end_are_told_from_others(void **state)
{
	static const struct {
		int batch[4][2], runs;
	} batches[] = {
		{ { { 1, 30 }, { 1, 20 }, { 33, 100 }, { 40, 40 } }, 1 },
		{ { { 33, 100 }, { 40, 40 }, { 9, 9 }, { 1, 20 } }, 1 },
		{ { { 33, 100 }, { 1, 30 }, { 40, 40 }, { 1, 20 } }, 0 },
		{ { { 1, 30 }, { 33, 100 }, { 40, 40 }, { 1, 20 } }, 0 },
		{ { { 1, 30 }, { 2, 20 }, { 33, 100 }, { 40, 40 } }, 0 },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(batches); i++) {
		attune_context *ctx = open_with("dividing 1 UNROLL=4", "ours", "ours", "0");
		attune_op *op = prepare(ctx);
		char text[512];
		struct step s;
		step_make(&s, 4, batches[i].batch);
		if (run_step(op, &s, 0, text) != batches[i].runs)
			fail_msg("batch %d: %s", (int)i, text);
		step_free(&s);
		attune_release(op);
		attune_close(ctx);
	}
}

/* ---- plans ---------------------------------------------------------------------------------- */

struct planned {
	attune_context *ctx;
	attune_op *op;
	struct step s;
	attune_plan plan;
	void *workspace;
};

static void plan_decodes(struct planned *p, const char *row)
{
	p->ctx = open_with(row, "0", "0", "parts");
	p->op = prepare(p->ctx);
	step_make(&p->s, 3, decodes);
	p->plan.size = sizeof p->plan;
	if (attune_plan_batch(p->op, &p->s.batch, &p->plan) ||
	    attune_plan_plugins(p->op, &p->s.batch, &p->s.t, 0, NULL, &p->plan))
		fail_msg("%s", attune_last_error());
	assert_int_equal(calls.plans, 1);
	p->workspace = room_for(&p->plan);
}

static void end(struct planned *p)
{
	free(room_begin(p->workspace));
	step_free(&p->s);
	attune_release(p->op);
	attune_close(p->ctx);
	assert_int_equal(calls.plans, 0);
	assert_int_equal(calls.ops, 0);
}

static void run_fails(const struct planned *p, const attune_tensors *t, size_t bytes,
		      enum attune_status status, const char *line)
{
	const int before = calls.launches;
	assert_int_equal(attune_run(p->op, &p->plan, t, p->workspace, bytes, NULL), status);
	if (!strstr(attune_last_error(), line))
		fail_msg("%s", attune_last_error());
	assert_int_equal(calls.launches, before);
}

static void a_plan_runs_for_many_layers_until_it_is_freed(void **state)
{
	struct planned p;
	(void)state;
	plan_decodes(&p, "good 1 UNROLL=4");
	const attune_plan copy = p.plan;
	for (int layer = 0; layer < 3; layer++) {
		attune_tensors t = p.s.t;
		memset(p.s.out, 0, sizeof(float) * (size_t)p.s.tokens * QUERY_HEADS * HEAD);
		assert_int_equal(attune_run(p.op, layer ? &copy : &p.plan, &t, p.workspace,
					    p.plan.workspace, NULL),
				 ATTUNE_OK);
		assert_step_is_right(&p.s);
	}
	attune_free_plan(p.op, &copy);
	assert_int_equal(calls.plans, 0);
	run_fails(&p, &p.s.t, p.plan.workspace, ATTUNE_INVALID, "the plan was changed, or freed");
	attune_free_plan(p.op, &p.plan); /* again: nothing happens */
	end(&p);
}

static void release_frees_what_is_left(void **state)
{
	struct planned p;
	(void)state;
	plan_decodes(&p, "good 1 UNROLL=4");
	end(&p);
}

static void other_tensors_and_too_little_room_are_refused(void **state)
{
	struct planned p;
	attune_tensors t;
	int32_t other[4] = { 1, 2, 3, 4 };
	(void)state;
	plan_decodes(&p, "good 1 UNROLL=4");
	t = p.s.t;
	t.seq_lens = other;
	run_fails(&p, &t, p.plan.workspace, ATTUNE_INVALID, "a plug-in planned for other strides");
	t = p.s.t;
	t.k_slot_stride += 8;
	run_fails(&p, &t, p.plan.workspace, ATTUNE_INVALID, "a plug-in planned for other strides");
	run_fails(&p, &p.s.t, p.plan.workspace - 1, ATTUNE_TOO_SMALL, "are needed");
	end(&p);
}

static void a_launch_that_fails_has_its_line(void **state)
{
	struct planned p;
	(void)state;
	plan_decodes(&p, "powerless 1 UNROLL=4");
	run_fails(&p, &p.s.t, p.plan.workspace, ATTUNE_UNSUPPORTED,
		  "plug-in powerless: launch: no power");
	end(&p);
}

static void a_plan_serves_for_no_other(void **state)
{
	struct planned p;
	attune_plan ours = { .size = sizeof ours }, again = { .size = sizeof again };
	(void)state;
	plan_decodes(&p, "good 1 UNROLL=4");
	assert_int_equal(attune_plan_batch(p.op, &p.s.batch, &ours), ATTUNE_OK);
	again = ours;
	assert_int_equal(attune_plan_plugins(p.op, &p.s.batch, &p.s.t, 0, NULL, &again), ATTUNE_OK);
	assert_true(attune_plan_serves(&p.plan, &p.plan));
	assert_false(attune_plan_serves(&p.plan, &again));
	assert_false(attune_plan_serves(&p.plan, &ours));
	assert_false(attune_plan_serves(&ours, &p.plan));
	attune_free_plan(p.op, &again);
	end(&p);
}

static void wrong_calls_are_refused(void **state)
{
	struct planned p;
	attune_plan ours = { .size = sizeof ours }, plan = { .size = sizeof plan };
	struct step other;
	(void)state;
	plan_decodes(&p, "good 1 UNROLL=4");
	step_make(&other, 2, decodes);
	assert_int_equal(attune_plan_batch(p.op, &p.s.batch, &ours), ATTUNE_OK);
	const attune_batch falling = { .size = sizeof(attune_batch),
				       .num_seqs = 1,
				       .query_start = (const int32_t[]){ 0, -1 },
				       .seq_lens = p.s.seq_lens };
	const struct {
		const attune_op *op;
		const attune_batch *batch;
		const attune_tensors *t;
		unsigned promises;
		const attune_plan *plan;
		const char *line;
	} wrong[] = {
		{ NULL, &p.s.batch, &p.s.t, 0, &ours, "an argument is NULL" },
		{ p.op, NULL, &p.s.t, 0, &ours, "an argument is NULL" },
		{ p.op, &p.s.batch, NULL, 0, &ours, "an argument is NULL" },
		{ p.op, &p.s.batch, &p.s.t, 0, NULL, "an argument is NULL" },
		{ p.op, &falling, &p.s.t, 0, &ours, "attune_plan_plugins: " },
		{ p.op, &other.batch, &other.t, 0, &ours, "the plan is not of this batch" },
		{ p.op, &p.s.batch, &p.s.t, ATTUNE_PLUGIN_NO_SCALES, &ours, "promises are of" },
		{ p.op, &p.s.batch, &p.s.t, 0, &p.plan, "has plans of plug-ins already" },
		{ p.op, &p.s.batch, &(attune_tensors){ .size = sizeof(attune_tensors) }, 0, &ours,
		  "must be given" },
	};
	for (size_t i = 0; i < COUNT(wrong); i++) {
		attune_plan *const to = wrong[i].plan ? &plan : NULL;
		plan = wrong[i].plan ? *wrong[i].plan : plan;
		if (attune_plan_plugins(wrong[i].op, wrong[i].batch, wrong[i].t, wrong[i].promises,
					NULL, to) != ATTUNE_INVALID ||
		    !strstr(attune_last_error(), wrong[i].line))
			fail_msg("%d: %s", (int)i, attune_last_error());
		if (to)
			assert_memory_equal(&plan, wrong[i].plan, sizeof plan);
	}
	attune_free_plan(NULL, &ours);
	attune_free_plan(p.op, NULL);
	attune_free_plan(p.op, &ours);
	step_free(&other);
	end(&p);
}

/* ---- threads -------------------------------------------------------------------------------- */

static void *steps_of_a_thread(void *op)
{
	struct step s;
	char text[512];
	for (int i = 0; i < 20; i++) {
		step_make(&s, 3, decodes);
		run_step(op, &s, 0, text);
		step_free(&s);
	}
	return NULL;
}

static void threads_take_turns(void **state)
{
	attune_context *ctx = open_with("good 1 UNROLL=4", "0", "0", "0");
	attune_op *op = prepare(ctx);
	pthread_t thread[4];
	const int before = calls.launches;
	(void)state;
	for (size_t i = 0; i < COUNT(thread); i++)
		assert_int_equal(pthread_create(&thread[i], NULL, steps_of_a_thread, op), 0);
	for (size_t i = 0; i < COUNT(thread); i++)
		pthread_join(thread[i], NULL);
	attune_release(op);
	attune_close(ctx);
	assert_int_equal(calls.launches - before, 4 * 20);
	assert_int_equal(calls.at_once, 1);
	assert_int_equal(calls.plans, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_plugin_runs_or_ours_do),
		cmocka_unit_test(it_says_why_it_could_not_plan),
		cmocka_unit_test(rows_with_gaps_are_not_dense),
		cmocka_unit_test(mixed_batches_follow_their_own_tree),
		cmocka_unit_test(decodes_at_an_end_are_told_from_others),
		cmocka_unit_test(a_plan_runs_for_many_layers_until_it_is_freed),
		cmocka_unit_test(release_frees_what_is_left),
		cmocka_unit_test(other_tensors_and_too_little_room_are_refused),
		cmocka_unit_test(a_launch_that_fails_has_its_line),
		cmocka_unit_test(a_plan_serves_for_no_other),
		cmocka_unit_test(wrong_calls_are_refused),
		cmocka_unit_test(threads_take_turns),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, register_all, NULL);
}
