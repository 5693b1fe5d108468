/* SPDX-License-Identifier: Apache-2.0 */
/* trace_eval.c - `attune eval --trace`: estimates the attention time of a simulated trace under
 * each policy. Nothing is measured: a plan's time comes from the nearest scenarios of the database
 * (nearest_estimate.c), so ratios are more reliable than milliseconds. `attune bench --trace`
 * measures steps. The oracle's row takes the best time of the nearest scenario for each part, or
 * for one launch over the batch. */
#include "eval.h"
#include "harness/base/base.h"
#include "harness/generate/engine_sim.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/policy/policy.h"
#include <argp.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

const struct trace_options trace_defaults = { .load = 0.95,
					      .max_batched = 8192,
					      .max_seqs = 256,
					      .requests = 2000,
					      .steps = 2000,
					      .kv_tokens = 400 << 10 };
enum { LONGEST_REQUEST = 64 << 10 };

/* ---- options, of bench too ------------------------------------------------------------- */
static double load_of(const char *arg, struct argp_state *state)
{
	char *end;
	const double load = strtod(arg, &end);
	if (*end || !(load > 0 && load <= 10))
		argp_error(state, "--load '%s' should be a share as in 0.95", arg);
	return load;
}

int trace_option(struct trace_options *o, int key, const char *arg, struct argp_state *state)
{
	switch (key) {
	case OPT_TRACE: o->path = arg; return 0;
	case 'm': o->given = "model", o->model = arg; return 0;
	case OPT_LOAD: o->given = "load", o->load = load_of(arg, state); return 0;
	case OPT_STEPS: o->steps = whole_option(o->given = "steps", arg, state); return 0;
	case OPT_REQUESTS: o->requests = whole_option(o->given = "requests", arg, state); return 0;
	case OPT_BATCHED:
		o->max_batched = whole_option(o->given = "max-batched-tokens", arg, state);
		return 0;
	case ARGP_KEY_END:
		if (o->path && !o->model)
			argp_error(state, "--trace needs --model, as in llama3.1-8b@1");
		if (o->given && !o->path)
			argp_error(state, "--%s is of --trace, which is not given", o->given);
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

/* ---- steps ------------------------------------------------------------------------------ */
/* The rows of a step as a batch; buffer: room for 2 x rows + 1. */
static attune_batch step_view(const struct engine_sim *r, const struct step *s, int32_t *buffer)
{
	attune_batch b = { .size = sizeof(attune_batch),
			   .num_seqs = s->num_rows,
			   .query_start = buffer };
	int32_t *lens = buffer + s->num_rows + 1;
	buffer[0] = 0;
	for (int i = 0; i < s->num_rows; i++) {
		const struct row *row = &r->rows[s->first + (size_t)i];
		buffer[i + 1] = buffer[i] + row->query;
		lens[i] = row->seq;
	}
	b.seq_lens = lens;
	return b;
}

static int each_step(const struct engine_sim *r, int limit,
		     int (*each)(void *, int step, const attune_batch *), void *arg)
{
	const int steps = r->busy_steps > 0 ? r->busy_steps : r->num_steps;
	const int n = limit && limit < steps ? limit : steps;
	int most = 0, done = 1;
	for (int i = 0; i < steps; i++)
		most = r->steps[i].num_rows > most ? r->steps[i].num_rows : most;
	int32_t *buffer = malloc(sizeof *buffer * (2 * (size_t)most + 1));
	for (int i = 0; buffer && done && i < n && !interrupted; i++) {
		const int at = (int)((2 * (long long)i + 1) * steps / (2 * n));
		const attune_batch view = step_view(r, &r->steps[at], buffer);
		done = !view.num_seqs || each(arg, at, &view);
	}
	free(buffer);
	return buffer && done;
}

int trace_steps(const struct trace_options *o, int limit,
		int (*each)(void *, int step, const attune_batch *), void *arg, int *all)
{
	const struct engine engine = { .max_batched_tokens = o->max_batched,
				       .max_seqs = o->max_seqs,
				       .kv_tokens = o->kv_tokens };
	const long long fits = engine.kv_tokens / REPLAY_BLOCK * REPLAY_BLOCK;
	struct trace trace;
	struct engine_sim r;
	int done = 0;
	if (!trace_load(&trace, o->path, o->requests,
			fits < LONGEST_REQUEST ? (int)fits : LONGEST_REQUEST))
		return 0;
	const double capacity = engine_capacity(&trace, &engine);
	if (capacity > 0) {
		trace_set_rate(&trace, o->load * capacity);
		done = engine_run(&r, &trace, &engine);
	}
	if (done) {
		*all = r.busy_steps > 0 ? r.busy_steps : r.num_steps;
		done = each_step(&r, limit, each, arg);
		engine_free(&r);
	} else {
		complain("out of memory");
	}
	trace_free(&trace);
	return done;
}

/* ---- sums by policy ------------------------------------------------------------------- */
struct tally {
	const struct data *d;
	attune_shape shape;
	struct chooser *chooser[NUM_POLICIES]; /* NULL: the policy does not exist here */
	double us[NUM_POLICIES], far;
	int steps, unknown[NUM_POLICIES];
};

static int tally_step(void *arg, int step, const attune_batch *view)
{
	struct tally *t = arg;
	struct measured m;
	struct around *a;
	double far;
	(void)step;
	if (!measured_make_view(&m, t->d, &t->shape, view))
		return 1;
	a = around_new(t->d, &m);
	if (!a)
		return 0;
	for (int p = 0; p < NUM_POLICIES; p++) {
		struct decided made;
		double us = INFINITY;
		if (p == POLICY_ORACLE) {
			us = estimate_best(a);
		} else if (t->chooser[p]) {
			chooser_make(t->chooser[p], &m, -1, &made);
			us = estimate_plan(a, &made);
		}
		t->us[p] += us;
		t->unknown[p] += !isfinite(us);
	}
	around_nearest(a, m.has[PHASE_DECODE] ? PHASE_DECODE : PHASE_PREFILL, &far);
	t->far += far;
	t->steps++;
	around_free(a);
	return 1;
}

static void print_tally(struct tally *t, int all, enum format format)
{
	const char *columns[] = { "policy", "attention_ms", "ratio", "ratio_to_oracle", "unknown" };
	struct table *table = table_new(format, columns, (int)COUNT(columns));
	if (format_has_notes(format))
		printf("# %d of %d steps, estimated from the nearest measured scenarios, at a mean "
		       "distance of %.2f (sum of log ratios); times are scaled to all steps\n",
		       t->steps, all, t->far / t->steps);
	for (int p = 0; table && p < NUM_POLICIES; p++) {
		if (!t->chooser[p] && p != POLICY_ORACLE)
			continue;
		table_text(table, policy_names[p]);
		table_number(table, isfinite(t->us[p]) ? t->us[p] / 1e3 * all / t->steps : NAN, 3);
		table_number(table, isfinite(t->us[p]) ? t->us[p] / t->us[POLICY_TREE] : NAN, 4);
		table_number(table, isfinite(t->us[p]) ? t->us[p] / t->us[POLICY_ORACLE] : NAN, 4);
		table_number(table, t->unknown[p], 0);
		table_end_row(table);
	}
	if (table)
		table_print(table, stdout);
}

int trace_print(const struct data *d, const struct forest *f, const struct trace_options *o,
		enum format format)
{
	struct tally t = { .d = d };
	int done = shape_of_model(&t.shape, d, o->model, 0), all = 0;
	for (int p = 0; done && p < NUM_POLICIES; p++)
		t.chooser[p] = chooser_new(d, (enum policy)p, f);
	policies_say_unlearned(d);
	done = done && trace_steps(o, o->steps, tally_step, &t, &all);
	if (done && !t.steps)
		complain("%s: the simulated trace has no step", o->path);
	if (done && t.steps)
		print_tally(&t, all, format);
	for (int p = 0; p < NUM_POLICIES; p++)
		chooser_free(t.chooser[p]);
	return done && t.steps;
}
