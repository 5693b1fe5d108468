/* t_settle_cpu.c - settling on the CPU: what is raced, what is remembered and from when on, and
 * what is refused. Where an outcome depends on times, the test gives them (attune_report). */
#include "tests/library/cpu_step.h"
#include "kernels/attune_settle.h"
#include "kernels/launch/run.h"
#include "kernels/settle/race.h"
#include "kernels/settle/stage.h"
#include "kernels/settle/store.h"
#include <dlfcn.h>

#define SEGMENTED(n) "segmented TILE_SIZE=64 STREAMS=4 WHOLE_PAGES=0 SEGMENTS=" #n
#define BY_ROWS "qblock BLOCK_M=192 TILE_SIZE=256"

/* Decodes: a row of three. Prefills: a row of two. */
static const struct rules rows = { .choice = { SEGMENTED(1), SEGMENTED(2), SEGMENTED(4), BY_ROWS },
				   .lists = "LIST(c0, c1, c2, none) LIST(c3, c0, none, none)",
				   .prefill = "3" };

static struct device dev;
static attune_context *ctx;
static attune_op *op;
static struct step step;

static void ok(enum attune_status status)
{
	if (status)
		fail_msg("%s", attune_last_error());
}

/* A clock of the test: a call takes 100 us, 50 where one of its parts runs the fast choice. */
static double now_s;
static int timed_calls, fails_at, fast_choice = -1;

double settle_clock(void)
{
	return now_s;
}

enum attune_status stage_run(const struct stage *s, const attune_plan *plan, int set)
{
	static enum attune_status (*inside)(const struct stage *, const attune_plan *, int);
	int is_fast = 0;
	if (!inside)
		*(void **)(void *)&inside = dlsym(RTLD_NEXT, "stage_run");
	const enum attune_status status = inside(s, plan, set);
	for (int i = 0; i < plan->num_parts; i++)
		is_fast |= plan->part[i].choice == fast_choice;
	now_s += is_fast ? 50e-6 : 100e-6;
	return ++timed_calls == fails_at ? ATTUNE_DEVICE_ERROR : status;
}

/* The device is taken at its word: 16 threads, so that keys may be cut, and a last cache of 64 KB,
 * which is soon filled. */
static void open_by(const struct rules *rules, int num_seqs, const int (*lens)[2])
{
	char path[] = "/tmp/attune_rules_XXXXXX";
	const int fd = mkstemp(path);
	assert_true(fd >= 0);
	dprintf(fd, "%s", rules_header("cpu", rules));
	close(fd);
	setenv("ATTUNE_HEURISTICS", path, 1);
	ok(device_open(&dev, "cpu"));
	dev.info.units = 16;
	dev.info.l2_bytes = 64 << 10;
	ok(attune_adopt(&ctx, &dev));
	unsetenv("ATTUNE_HEURISTICS");
	unlink(path);
	op = prepare(ctx);
	step_make(&step, num_seqs, lens);
}

static void open_step(int num_seqs, const int (*lens)[2])
{
	open_by(&rows, num_seqs, lens);
}

static void close_step(void)
{
	step_free(&step);
	attune_release(op);
	attune_close(ctx);
	device_close(&dev);
}

static int list(attune_plan plans[ATTUNE_MOST_ALTERNATIVES])
{
	int n = 0;
	plans[0].size = sizeof *plans;
	ok(attune_plan_alternatives(op, &step.batch, plans, ATTUNE_MOST_ALTERNATIVES, &n));
	return n;
}

static attune_plan plan_now(void)
{
	attune_plan plan = { .size = sizeof plan };
	ok(attune_plan_batch(op, &step.batch, &plan));
	return plan;
}

static int alike(const attune_plan *a, const attune_plan *b)
{
	return attune_plan_serves(a, b) == ATTUNE_SERVES_ALIKE;
}

static void run_right(const attune_plan *plan)
{
	void *workspace = aligned_alloc(64, (plan->workspace + 64) / 64 * 64);
	assert_non_null(workspace);
	ok(attune_run(op, plan, &step.t, workspace, plan->workspace, NULL));
	free(workspace);
	assert_step_is_right(&step);
}

/* ---- alternatives ---------------------------------------------------------------------------- */

static void alternatives_of_a_phase_are_its_members(void **state)
{
	attune_plan plans[ATTUNE_MOST_ALTERNATIVES], now;
	char text[3][200];
	int n = 0;
	(void)state;
	open_step(3, decodes);
	assert_int_equal(list(plans), 3);
	now = plan_now();
	assert_true(alike(&plans[0], &now));
	for (int i = 0; i < 3; i++) {
		ok(attune_plan_text(op, &plans[i], text[i], sizeof text[i]));
		run_right(&plans[i]);
	}
	assert_string_equal(text[0], SEGMENTED(1));
	assert_string_equal(text[1], SEGMENTED(2));
	assert_string_equal(text[2], SEGMENTED(4));
	assert_int_equal(attune_plan_alternatives(op, &step.batch, plans, 2, &n), ATTUNE_TOO_SMALL);
	assert_int_equal(n, 3);
	close_step();
}

static void alternatives_of_a_mixed_batch_run_right(void **state)
{
	attune_plan plans[ATTUNE_MOST_ALTERNATIVES];
	size_t most;
	(void)state;
	open_step(6, mixed);
	const int n = list(plans), has_seqs = step.batch.num_seqs;
	assert_true(n >= 4); /* as it is, one launch, and a swap of either part */
	ok(attune_max_workspace(op, has_seqs, step.tokens, &most));
	for (int i = 0; i < n; i++) {
		assert_true(plans[i].workspace <= most);
		for (int k = 0; k < i; k++)
			assert_false(alike(&plans[i], &plans[k]));
		run_right(&plans[i]);
	}
	close_step();
}

/* ---- reports --------------------------------------------------------------------------------- */

/* Reports rounds in which plan `fast` takes `us` and all others take 100. */
static void report(int rounds, int fast, double us)
{
	attune_plan plans[ATTUNE_MOST_ALTERNATIVES];
	double times[ATTUNE_MOST_ALTERNATIVES];
	const int n = list(plans);
	for (int i = 0; i < n; i++)
		times[i] = i == fast ? us : 100;
	for (int r = 0; r < rounds; r++)
		ok(attune_report(op, &step.batch, plans, times, n));
}

static void what_is_reported_counts_from_the_commit_on(void **state)
{
	attune_plan plans[ATTUNE_MOST_ALTERNATIVES], now;
	(void)state;
	open_step(3, decodes);
	list(plans);
	report(2, 2, 80);
	ok(attune_settled_commit(ctx)); /* two rounds decide nothing */
	now = plan_now();
	assert_true(alike(&now, &plans[0]));
	report(1, 2, 80);
	now = plan_now();
	assert_true(alike(&now, &plans[0]));
	assert_true(attune_settled_digest(ctx) == 0);
	ok(attune_settled_commit(ctx));
	now = plan_now();
	assert_true(alike(&now, &plans[2]));
	assert_true(attune_settled_digest(ctx) != 0);
	run_right(&now);
	attune_plan after[ATTUNE_MOST_ALTERNATIVES];
	assert_int_equal(list(after), 3);
	assert_true(alike(&after[0], &now)); /* the present one leads */
	close_step();
}

static void a_small_gain_does_not_count(void **state)
{
	static const struct {
		double us;
		int wins;
	} gains[] = { { 99.5, 0 }, { 98.5, 0 }, { 97.5, 1 } };
	(void)state;
	for (size_t i = 0; i < COUNT(gains); i++) {
		attune_plan plans[ATTUNE_MOST_ALTERNATIVES], now;
		open_step(3, decodes);
		list(plans);
		report(3, 1, gains[i].us);
		ok(attune_settled_commit(ctx));
		now = plan_now();
		assert_true(alike(&now, &plans[gains[i].wins]));
		close_step();
	}
}

/* One round of five in which the winner was disturbed changes nothing. */
static void medians_decide(void **state)
{
	attune_plan plans[ATTUNE_MOST_ALTERNATIVES], now;
	(void)state;
	open_step(3, decodes);
	list(plans);
	report(2, 1, 90);
	report(1, 1, 900);
	report(2, 1, 90);
	ok(attune_settled_commit(ctx));
	now = plan_now();
	assert_true(alike(&now, &plans[1]));
	close_step();
}

static void the_way_of_a_mixed_batch_is_remembered(void **state)
{
	attune_plan plans[ATTUNE_MOST_ALTERNATIVES], now;
	int n = ATTUNE_MOST_ALTERNATIVES;
	(void)state;
	for (int fast = 1; fast < n; fast++) {
		open_step(6, mixed);
		n = list(plans);
		report(3, fast, 70);
		ok(attune_settled_commit(ctx));
		now = plan_now();
		assert_true(alike(&now, &plans[fast]));
		run_right(&now);
		close_step();
	}
}

static void odd_reports_are_refused(void **state)
{
	static const double odd[] = { 0, -1, -0.0, NAN, INFINITY, -INFINITY, 1e300, 1e-300 };
	attune_plan plans[ATTUNE_MOST_ALTERNATIVES], other;
	double us[ATTUNE_MOST_ALTERNATIVES] = { 100, 50, 100 };
	(void)state;
	open_step(3, decodes);
	assert_int_equal(list(plans), 3);
	for (int round = 0; round < 4; round++) {
		for (size_t i = 0; i < COUNT(odd); i++) {
			us[2] = odd[i];
			assert_int_equal(attune_report(op, &step.batch, plans, us, 3),
					 ATTUNE_INVALID);
		}
		us[2] = 100;
		assert_int_equal(attune_report(op, &step.batch, plans, us, 2), ATTUNE_INVALID);
		assert_int_equal(attune_report(op, &step.batch, plans, us, 0), ATTUNE_INVALID);
		assert_int_equal(attune_report(op, &step.batch, plans, us, -1), ATTUNE_INVALID);
		assert_int_equal(attune_report(op, &step.batch, plans, NULL, 3), ATTUNE_INVALID);
		assert_int_equal(attune_report(op, &step.batch, NULL, us, 3), ATTUNE_INVALID);
		other = plans[1];
		plans[1] = plans[2]; /* one twice */
		assert_int_equal(attune_report(op, &step.batch, plans, us, 3), ATTUNE_INVALID);
		plans[1] = other;
		plans[1].op++;
		assert_int_equal(attune_report(op, &step.batch, plans, us, 3), ATTUNE_INVALID);
		plans[1] = other;
		plans[1].size = 3;
		assert_int_equal(attune_report(op, &step.batch, plans, us, 3), ATTUNE_INVALID);
		plans[1] = other;
		struct step another;
		step_make(&another, 6, mixed);
		assert_int_equal(attune_report(op, &another.batch, plans, us, 3), ATTUNE_INVALID);
		step_free(&another);
	}
	ok(attune_settled_commit(ctx));
	assert_true(attune_settled_digest(ctx) == 0);
	close_step();
}

/* A program whose plans lack the last members gets them one behind the other, and reports them. */
static void plans_of_older_programs_are_taken(void **state)
{
	enum { SIZE = offsetof(attune_plan, spared) };
	_Alignas(attune_plan) char old[3 * SIZE + 8];
	attune_plan *const plans = (attune_plan *)(void *)old;
	const double us[] = { 100, 100, 50 };
	attune_plan now;
	int n;
	(void)state;
	open_step(3, decodes);
	memset(old, 0x5a, sizeof old);
	for (int i = 0; i < 3; i++)
		memcpy(old + i * SIZE, &(uint32_t){ SIZE }, sizeof(uint32_t));
	ok(attune_plan_alternatives(op, &step.batch, plans, 3, &n));
	assert_int_equal(n, 3);
	for (int i = 3 * SIZE; i < 3 * SIZE + 8; i++)
		assert_int_equal(old[i], 0x5a);
	for (int i = 0; i < 3; i++)
		ok(attune_report(op, &step.batch, plans, us, 3));
	ok(attune_settled_commit(ctx));
	now = plan_now();
	assert_int_equal(
	    attune_plan_serves((const attune_plan *)(const void *)(old + 2 * SIZE), &now),
	    ATTUNE_SERVES_ALIKE);
	close_step();
}

/* Whatever times say, results are right. */
static void any_times_leave_results_right(void **state)
{
	attune_plan plans[ATTUNE_MOST_ALTERNATIVES], now;
	double us[ATTUNE_MOST_ALTERNATIVES];
	(void)state;
	for (int k = 0; k < 2; k++) {
		open_step(k ? 6 : 3, k ? mixed : decodes);
		for (int round = 0; round < 12; round++) {
			const int n = list(plans);
			for (int i = 0; i < n; i++)
				us[i] = pow(10, 2 * noise());
			ok(attune_report(op, &step.batch, plans, us, n));
			ok(attune_settled_commit(ctx));
			now = plan_now();
			run_right(&now);
		}
		close_step();
	}
}

/* ---- attune_settle --------------------------------------------------------------------------- */

static const attune_settle_how one_layer = {
	.size = sizeof one_layer, .num_layers = 1, .num_pages = MAX_SEQS * MAX_PAGES, .most_ms = 500
};

/* less: bytes that the workspace is too small by */
static enum attune_status settle_with(const attune_settle_how *how, const attune_tensors *layers,
				      size_t less)
{
	size_t bytes;
	double ms = -1;
	ok(attune_settle_sizes(op, &step.batch, how, &bytes));
	char *workspace = aligned_alloc(64, (bytes + 64 + 63) / 64 * 64);
	assert_non_null(workspace);
	memset(workspace + bytes, 0x5a, 64);
	const enum attune_status status =
	    attune_settle(op, &step.batch, layers, how, workspace, bytes - less, NULL, &ms);
	for (int i = 0; i < 64; i++)
		assert_int_equal(workspace[bytes + (size_t)i], 0x5a);
	assert_true(status || ms > 0);
	free(workspace);
	return status;
}

static void the_fastest_is_settled_and_runs_right(void **state)
{
	static const struct {
		int n;
		const int (*lens)[2];
		int64_t num_pages; /* too few for one batch, or for many */
		int fast;          /* a choice of the rules */
	} batches[] = {
		{ 3, decodes, 512, 2 },   { 3, decodes, 5, 1 }, { 3, decodes, 512, 0 },
		{ 1, mixed + 1, 512, 0 }, { 6, mixed, 512, 1 }, { 6, mixed, 1, 0 },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(batches); i++) {
		attune_plan plans[ATTUNE_MOST_ALTERNATIVES], now;
		attune_settle_how how = one_layer;
		int is_fast = 0;
		open_step(batches[i].n, batches[i].lens);
		const size_t cache = (size_t)MAX_SEQS * MAX_PAGES * PAGE * KV_HEADS * HEAD * 4;
		char *before = malloc(cache);
		assert_non_null(before);
		memcpy(before, step.k, cache);
		list(plans);
		how.num_pages = batches[i].num_pages;
		how.eager = (int)i % 2;
		fast_choice = batches[i].fast;
		ok(settle_with(&how, &step.t, 0));
		now = plan_now();
		assert_true(alike(&now, &plans[0])); /* nothing changes before the commit */
		ok(attune_settled_commit(ctx));
		now = plan_now();
		for (int k = 0; k < now.num_parts; k++)
			is_fast |= now.part[k].choice == fast_choice;
		assert_true(is_fast);
		run_right(&now);
		assert_memory_equal(before, step.k, cache);
		fast_choice = -1;
		free(before);
		close_step();
	}
}

/* Pages that are read twice come from the cache: they do not make a call cold. Where it is not the
 * workspace has room to write twice the last cache. */
static void few_pages_count_once(void **state)
{
	static const int64_t pages[] = { 3, 64 };
	const double page_bytes = 2. * PAGE * KV_HEADS * HEAD * sizeof(float);
	(void)state;
	open_step(3, decodes);
	for (size_t i = 0; i < COUNT(pages); i++) {
		attune_settle_how how = one_layer;
		struct stage s;
		size_t bytes;
		how.num_pages = pages[i];
		stage_layout(&s, op, &step.batch, &how);
		const double reads = stage_call_bytes(&s);
		assert_true(i ? reads > 60 * page_bytes : reads <= 3 * page_bytes + 1);
		ok(attune_settle_sizes(op, &step.batch, &how, &bytes));
		assert_int_equal(bytes > s.flush, i == 0);
	}
	close_step();
}

/* The overlap tree names another choice for the prefills, which is no member. */
static void the_workspace_is_enough_beside_a_choice_of_the_overlap_tree(void **state)
{
	static const int lens[][2] = { { 1, 300 }, { 40, 300 }, { 1, 900 } };
	struct rules overlapped = rows;
	char text[400];
	(void)state;
	overlapped.overlap = "1";
	open_by(&overlapped, 3, lens);
	const attune_plan now = plan_now();
	ok(attune_plan_text(op, &now, text, sizeof text));
	assert_string_equal(text, "prefill: " SEGMENTED(2) " || decode: " SEGMENTED(1));
	ok(settle_with(&one_layer, &step.t, 0));
	close_step();
}

static void layers_may_be_many(void **state)
{
	(void)state;
	open_step(6, mixed);
	attune_tensors layers[3] = { step.t, step.t, step.t };
	attune_settle_how how = one_layer;
	how.num_layers = 3;
	/* an engine's dummy step has other metadata, or none */
	layers[1].block_table = NULL;
	layers[2].seq_lens = layers[2].query_start = NULL;
	ok(settle_with(&how, layers, 0));
	close_step();
}

static void assert_refused(enum attune_status status, enum attune_status want, const char *why)
{
	assert_int_equal(status, want);
	if (!strstr(attune_last_error(), why))
		fail_msg("\"%s\" is not in \"%s\"", why, attune_last_error());
}

static void what_cannot_be_timed_is_refused(void **state)
{
	attune_settle_how how = one_layer;
	size_t bytes;
	(void)state;
	open_step(6, mixed);
	attune_tensors layers[2] = { step.t, step.t };
	assert_refused(settle_with(&how, layers, 1), ATTUNE_TOO_SMALL, "are needed");
	assert_refused(attune_settle(op, &step.batch, layers, &how, NULL, 0, NULL, NULL),
		       ATTUNE_TOO_SMALL, "0 bytes");
	assert_refused(attune_settle(op, &step.batch, NULL, &how, NULL, 0, NULL, NULL),
		       ATTUNE_INVALID, "NULL");
	how.num_layers = 2;
	layers[1].q = NULL;
	assert_refused(settle_with(&how, layers, 0), ATTUNE_INVALID, "layer 1: out, q");
	layers[1] = layers[0];
	layers[1].size = 7;
	assert_refused(settle_with(&how, layers, 0), ATTUNE_INVALID, "size is 7");
	how = one_layer;
	how.num_layers = 0;
	assert_refused(attune_settle_sizes(op, &step.batch, &how, &bytes), ATTUNE_INVALID,
		       "num_layers");
	how = one_layer;
	how.num_pages = 0;
	assert_refused(attune_settle_sizes(op, &step.batch, &how, &bytes), ATTUNE_INVALID,
		       "num_pages");
	how = one_layer;
	how.most_ms = NAN;
	assert_refused(attune_settle_sizes(op, &step.batch, &how, &bytes), ATTUNE_INVALID,
		       "most_ms");
	how.most_ms = -1;
	assert_refused(attune_settle_sizes(op, &step.batch, &how, &bytes), ATTUNE_INVALID,
		       "most_ms");
	memset(step.k, 0, (size_t)MAX_SEQS * MAX_PAGES * PAGE * KV_HEADS * HEAD * 4);
	assert_refused(settle_with(&one_layer, &step.t, 0), ATTUNE_INVALID, "8 are all zeros");
	step.k[0] = 1; /* a page that a dummy step wrote */
	assert_refused(settle_with(&one_layer, &step.t, 0), ATTUNE_INVALID, "7 are all zeros");
	ok(attune_settled_commit(ctx));
	assert_true(attune_settled_digest(ctx) == 0);
	close_step();
}

static int num_pending(void)
{
	return ctx->settled ? ctx->settled->pending.n : 0;
}

/* Of a mixed batch all three or none: the prefills, the decodes, and how they run together. */
static void errors_leave_all_as_it_was(void **state)
{
	(void)state;
	open_step(6, mixed);
	timed_calls = 0;
	ok(settle_with(&one_layer, &step.t, 0));
	const int all = timed_calls;
	assert_int_equal(num_pending(), 3);
	close_step();
	for (int k = 0; k < 8; k++) {
		open_step(6, mixed);
		timed_calls = 0;
		fails_at = 1 + (all - 1) * k / 7;
		assert_int_equal(settle_with(&one_layer, &step.t, 0), ATTUNE_DEVICE_ERROR);
		assert_int_equal(num_pending(), 0);
		close_step();
	}
	fails_at = 0;
}

/* A microsecond is over at the first call. */
static void without_time_nothing_is_settled(void **state)
{
	attune_settle_how how = one_layer;
	(void)state;
	open_step(6, mixed);
	how.most_ms = 1e-3;
	timed_calls = 0;
	ok(settle_with(&how, &step.t, 0));
	assert_int_equal(num_pending(), 0);
	assert_true(timed_calls <= 3 * 2);
	close_step();
}

static void invariant_contexts_settle_nothing(void **state)
{
	attune_context *invariant;
	attune_op *of;
	attune_plan plan = { .size = sizeof plan };
	double us = 1;
	size_t bytes;
	int n;
	(void)state;
	open_step(3, decodes);
	setenv("ATTUNE_INVARIANT", "1", 1);
	ok(attune_open(&invariant, "cpu"));
	unsetenv("ATTUNE_INVARIANT");
	ok(attune_prepare(invariant, &shape, &of));
	assert_refused(attune_settle_sizes(of, &step.batch, &one_layer, &bytes), ATTUNE_UNSUPPORTED,
		       "ATTUNE_INVARIANT");
	assert_refused(attune_settle(of, &step.batch, &step.t, &one_layer, NULL, 0, NULL, NULL),
		       ATTUNE_UNSUPPORTED, "ATTUNE_INVARIANT");
	assert_refused(attune_plan_alternatives(of, &step.batch, &plan, 1, &n), ATTUNE_UNSUPPORTED,
		       "ATTUNE_INVARIANT");
	assert_refused(attune_report(of, &step.batch, &plan, &us, 1), ATTUNE_UNSUPPORTED,
		       "ATTUNE_INVARIANT");
	attune_release(of);
	attune_close(invariant);
	close_step();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(alternatives_of_a_phase_are_its_members),
		cmocka_unit_test(alternatives_of_a_mixed_batch_run_right),
		cmocka_unit_test(what_is_reported_counts_from_the_commit_on),
		cmocka_unit_test(a_small_gain_does_not_count),
		cmocka_unit_test(medians_decide),
		cmocka_unit_test(the_way_of_a_mixed_batch_is_remembered),
		cmocka_unit_test(odd_reports_are_refused),
		cmocka_unit_test(plans_of_older_programs_are_taken),
		cmocka_unit_test(any_times_leave_results_right),
		cmocka_unit_test(the_fastest_is_settled_and_runs_right),
		cmocka_unit_test(few_pages_count_once),
		cmocka_unit_test(the_workspace_is_enough_beside_a_choice_of_the_overlap_tree),
		cmocka_unit_test(layers_may_be_many),
		cmocka_unit_test(what_cannot_be_timed_is_refused),
		cmocka_unit_test(errors_leave_all_as_it_was),
		cmocka_unit_test(without_time_nothing_is_settled),
		cmocka_unit_test(invariant_contexts_settle_nothing),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
