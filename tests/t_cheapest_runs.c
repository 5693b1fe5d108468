/* t_cheapest_runs.c - the library with rules that say the cheapest, on the CPU and on a
 * GPU, if need be the emulated one: plans are what the estimates say, joined where they say so,
 * what they run is right and fits the workspace, and where no price serves the defaults run. */
#include "../harness/harness.h"
#include "../kernels/heuristics.h"
#include "../kernels/run.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

enum { MOST_ROWS = 60, PRICE_LISTS = 60, RUN = 3, CHOICES = 3 };
#include "run_plan.h"

enum { MAX_TEXT = OVERRIDE_HEAD + 4000 };

static const char *const batches[] = { "q1s4k",        "8q1s600",        "q300",
				       "q1s5_q4s1500", "q40_q1s1k_q1s9", "3q100s400_6q1s900" };

/* 0 and 1: the kernels' defaults, which are always carried; 2: one that is not. */
static struct choice choices[CHOICES];

static struct selector_price prices[NUM_PRICED * CHOICES];
static int num_prices;

static unsigned below(unsigned n)
{
	static unsigned long long seed = 71;
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned)(seed >> 33) % n;
}

static int is_carried(const struct choice *c)
{
	char flags[MAX_FLAGS];
	binary_flags(flags, sizeof flags, c->kernel, &c->config, &shape);
	return shipped_find(&dev.info, c->kernel->name, flags) != NULL;
}

static void list_choices(void)
{
	static const char *const names[] = { "segmented", "qblock", "segmented" };
	for (int i = 0; i < CHOICES; i++) {
		choices[i].kernel = kernel_find(dev.info.backend, names[i]);
		config_default(&choices[i].config, choices[i].kernel->space);
	}
	config_first(&choices[2].config, choices[2].kernel->space, 32);
	while (is_carried(&choices[2]))
		assert_true(config_next(&choices[2].config, choices[2].kernel->space, 32));
}

/* Any prices for all decisions; what is not carried would always be the cheapest. */
static void random_prices(void)
{
	num_prices = 0;
	for (int d = 0; d < NUM_PRICED; d++)
		for (int id = 0; id < CHOICES; id++) {
			struct selector_price *p = &prices[num_prices++];
			*p = (struct selector_price){ (enum decision)d,
						      id,
						      shape.head_size,
						      { 16 << below(3),
							64,
							(int)below(3),
							1 + (int)below(3),
							64 * (int)below(5),
							{ 0 } } };
			if (id == 2)
				continue;
			p->price.fs[PRICE_launch] = 1000000ll * below(9000);
			p->price.fs[PRICE_path] = 1000ll * (1 + below(30000));
			p->price.fs[PRICE_split] = 1000000ll * below(4000);
			p->price.fs[PRICE_merge] = 1000ll * below(300);
		}
}

/* ---- a context with such rules -------------------------------------------------------------- */
static void rules_text(char text[MAX_TEXT], const char *leaf)
{
	int n = sprintf(text, "%s", override_head(dev.info.gpu));
	for (int i = 0; i < CHOICES; i++) {
		n += sprintf(text + n, "choice %d ", i);
		n += choice_text(text + n, (size_t)(MAX_TEXT - n), &choices[i]);
		n += sprintf(text + n, "\n");
	}
	for (int i = 0; i < num_prices; i++) {
		const struct selector_price *p = &prices[i];
		n += sprintf(text + n, "price %s %d %d %d %d %d %d %d", decision_names[p->decision],
			     p->id, p->head_size, p->price.rows, p->price.tile, p->price.heads,
			     p->price.slots, p->price.start);
		for (int k = 0; k < NUM_PRICE_TERMS; k++)
			n += sprintf(text + n, " %lld", p->price.fs[k]);
		n += sprintf(text + n, "\n");
	}
	for (int d = 0; d < NUM_DECISIONS; d++)
		n += sprintf(text + n, "tree %s\nreturn %s\n", decision_names[d],
			     d >= DECIDE_OVERLAP ? "-1" : leaf);
	assert_true(n < MAX_TEXT);
}

static attune_op *open_op(const char *leaf, attune_context **ctx)
{
	static char text[MAX_TEXT];
	char path[40];
	const int file = memfd_create("rules", 0);
	attune_op *op;
	assert_true(file >= 0);
	rules_text(text, leaf);
	dprintf(file, "%s", text);
	snprintf(path, sizeof path, "/proc/self/fd/%d", file);
	setenv("ATTUNE_HEURISTICS", path, 1);
	if (attune_adopt(ctx, &dev) || attune_prepare(*ctx, &shape, &op))
		fail_msg("%s", attune_last_error());
	unsetenv("ATTUNE_HEURISTICS");
	close(file);
	return op;
}

static void close_op(attune_op *op, attune_context *ctx)
{
	attune_release(op);
	attune_close(ctx);
}

/* ---- what is expected ------------------------------------------------------------------------ */
/* Of the choices that are carried; -1: none has a price. */
static long long expected(enum decision decision, const struct part *p, struct choice *out)
{
	long long least = -1;
	for (int id = 0; id < 2; id++) {
		const struct price *price =
		    price_for(prices, num_prices, decision, id, shape.head_size);
		struct config at;
		const long long fs =
		    price ? config_cheapest(&at, &choices[id].config, choices[id].kernel, price,
					    &shape, p, &dev.info)
			  : -1;
		if (fs < 0 || (least >= 0 && fs >= least))
			continue;
		least = fs;
		*out = (struct choice){ choices[id].kernel, at };
	}
	return least;
}

struct seen {
	int both, segments, kernels[2];
};

static void expected_plan(char *text, size_t size, const attune_batch *b, struct seen *seen)
{
	struct choice c[NUM_PRICED];
	struct part p[NUM_PRICED];
	int has[NUM_PRICED];
	static const enum phase phases[] = { PHASE_PREFILL, PHASE_DECODE };
	for (int d = 0; d < NUM_PRICED; d++) {
		has[d] = part_make(&p[d], phases[d], &shape, b, &dev.info);
		assert_true(!has[d] || expected((enum decision)d, &p[d], &c[d]) >= 0);
	}
	const int both = has[DECIDE_PREFILL] && has[DECIDE_DECODE];
	seen->both += both;
	text[0] = '\0';
	for (int d = 0; d < NUM_PRICED; d++) {
		if (!has[d])
			continue;
		const size_t n = strlen(text);
		const int k = snprintf(text + n, size - n, "%s%s", n ? " | " : "",
				       !both                 ? ""
				       : d == DECIDE_PREFILL ? "prefill: "
							     : "decode: ");
		choice_text(text + n + k, size - n - (size_t)k, &c[d]);
		seen->kernels[c[d].kernel == choices[1].kernel]++;
		seen->segments += config_value(&c[d].config, c[d].kernel->space, "SEGMENTS", 1) > 1;
	}
}

/* ---- runs -------------------------------------------------------------------------------------- */

static struct scenario scenario_of(const char *text)
{
	char error[160];
	struct scenario s = { .batch_text = (char *)text,
			      .batch = batch_parse(text, error, sizeof error),
			      .shape = shape,
			      .seed = 5 };
	assert_non_null(s.batch);
	return s;
}

static void plan_and_run(const attune_op *op, const char *text, int run, struct seen *seen)
{
	struct scenario s = scenario_of(text);
	const attune_batch *b = &s.batch->view;
	char want[600], got[600];
	attune_plan plan;
	size_t most;
	if (attune_plan_batch(op, b, &plan) ||
	    attune_max_workspace(op, b->num_seqs, b->query_start[b->num_seqs], &most))
		fail_msg("%s: %s", text, attune_last_error());
	expected_plan(want, sizeof want, b, seen);
	assert_int_equal(attune_plan_text(op, &plan, got, sizeof got), ATTUNE_OK);
	assert_string_equal(got, want);
	assert_true(plan.workspace <= most);
	if (run) {
		struct workload w;
		if (workload_make(&w, &dev, &pool, &s, WORKLOAD_CHECK, 0))
			fail_msg("%s: %s", text, attune_last_error());
		run_right(op, &plan, &w);
		workload_free(&w);
	}
	batch_free(s.batch);
}

static void plans_are_the_cheapest(void)
{
	struct seen seen = { 0 };
	for (int i = 0; i < PRICE_LISTS; i++) {
		attune_context *ctx;
		random_prices();
		attune_op *op = open_op("cheapest", &ctx);
		for (size_t b = 0; b < COUNT(batches); b++)
			plan_and_run(op, batches[b], i < (is_emulated(&dev) ? 1 : RUN), &seen);
		close_op(op, ctx);
	}
	assert_true(seen.both && seen.segments && seen.kernels[0] && seen.kernels[1]);
}

/* Both take as long for 4096 keys, the second less for each of them. */
static void of_equals_the_first_runs(void)
{
	char got[600], want[600];
	attune_context *ctx;
	attune_plan plan;
	num_prices = 2;
	for (int id = 0; id < num_prices; id++) {
		prices[id] = (struct selector_price){
			DECIDE_DECODE, id, shape.head_size, { 16, 64, 0, 100, 0, { 0 } }
		};
		prices[id].price.fs[PRICE_launch] = id * 4096000000ll;
		prices[id].price.fs[PRICE_path] = (2 - id) * 1000000ll;
		prices[id].price.fs[PRICE_split] = 1000000000000ll;
	}
	attune_op *op = open_op("cheapest", &ctx);
	struct scenario s = scenario_of("q1s4k");
	assert_int_equal(attune_plan_batch(op, &s.batch->view, &plan), ATTUNE_OK);
	assert_int_equal(attune_plan_text(op, &plan, got, sizeof got), ATTUNE_OK);
	struct choice first = choices[0];
	first.config.v[first.kernel->space->formula_axis] = 1;
	choice_text(want, sizeof want, &first);
	assert_string_equal(got, want);
	batch_free(s.batch);
	close_op(op, ctx);
}

/* ---- without a price that serves ----------------------------------------------------------------- */
static void same_plans(char a[COUNT(batches)][600], char b[COUNT(batches)][600])
{
	for (size_t i = 0; i < COUNT(batches); i++)
		assert_string_equal(a[i], b[i]);
}

static void plans_of(const char *leaf, char text[COUNT(batches)][600])
{
	attune_context *ctx;
	attune_op *op = open_op(leaf, &ctx);
	for (size_t i = 0; i < COUNT(batches); i++) {
		struct scenario s = scenario_of(batches[i]);
		attune_plan plan;
		if (attune_plan_batch(op, &s.batch->view, &plan) ||
		    attune_plan_text(op, &plan, text[i], sizeof text[0]))
			fail_msg("%s", attune_last_error());
		batch_free(s.batch);
	}
	close_op(op, ctx);
}

static void else_the_defaults_run(void)
{
	static char defaults[COUNT(batches)][600], got[COUNT(batches)][600];
	num_prices = 0;
	plans_of("-1", defaults);
	plans_of("cheapest", got); /* nothing has a price */
	same_plans(got, defaults);
	random_prices();
	for (int i = 0; i < num_prices; i++)
		if (prices[i].id == 2)
			prices[i / CHOICES] = prices[i];
	num_prices = NUM_PRICED; /* only what is not carried has one */
	plans_of("cheapest", got);
	same_plans(got, defaults);
}

static void on_device(void **state)
{
	assert_int_equal(open_device(*state), ATTUNE_OK);
	list_choices();
	plans_are_the_cheapest();
	of_equals_the_first_runs();
	else_the_defaults_run();
	pool_free(&dev, pool);
	pool = NULL;
	device_close(&dev);
}

int main(void)
{
	return run_on_devices("cheapest_runs", on_device);
}
