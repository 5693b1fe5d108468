/* SPDX-License-Identifier: Apache-2.0 */
/* api_case.c - a case: a context with some ops, some batches of each, planned and run in random order,
 * with calls that must be refused in between. */
#include "api.h"
#include "kernels/launch/op.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_OPS = 3, MOST_BATCHES = 3, MOST_RUNS = 12 };

struct fuzz_op {
	attune_shape s;
	attune_op *op;
	int num_worlds;
	struct world w[MOST_BATCHES];
	attune_plan plan[MOST_BATCHES];
	int is_planned[MOST_BATCHES];
};

struct fuzz_case {
	struct dice d;
	enum where where;
	attune_context *ctx;
	struct device *dev;
	int settles; /* batches are settled between runs */
	int num_ops;
	struct fuzz_op op[MOST_OPS];
};

/* ---- refusals ---------------------------------------------------------------------------- */

void check_refusal(enum attune_status status, unsigned allowed, const char *what)
{
	const char *line = attune_last_error();
	const size_t n = strlen(line);
	if (!(allowed >> status & 1))
		fault("%s: %s: %s", what, attune_status_text(status), status ? line : "");
	if (!status)
		return;
	if (n < 10)
		fault("%s: the message is \"%s\"", what, line);
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)line[i] < ' ')
			fault("%s: the message has a control character: \"%s\"", what, line);
}

enum { MAY_PASS = 1u << ATTUNE_OK, UNSUPPORTED = 1u << ATTUNE_UNSUPPORTED };

static unsigned allowed_by(enum promise p)
{
	return p == IS_INVALID     ? 1u << ATTUNE_INVALID
	       : p == IS_SUPPORTED ? MAY_PASS
				   : MAY_PASS | UNSUPPORTED;
}

/* ---- devices and contexts ---------------------------------------------------------------- */

static void open_context(struct fuzz_case *c)
{
	static const char *const threads[] = { "2", "3", "5",
					       "9" }; /* which spin while they wait */
	const char *with = one_in(&c->d, 4) ? threads[below(&c->d, (int)COUNT(threads))] : "1";
	const char *invariant = one_in(&c->d, 5) ? "1" : "0";
	setenv("ATTUNE_THREADS", with, 1);
	setenv("ATTUNE_INVARIANT", invariant, 1);
	note("ATTUNE_THREADS=%s ATTUNE_INVARIANT=%s", with, invariant);
	if (c->where == ON_CPU)
		check_refusal(attune_open(&c->ctx, "cpu"), MAY_PASS, "attune_open");
	else
		open_emulated(&c->ctx, &c->d, c->where);
	c->dev = &c->ctx->device;
	c->settles = one_in(&c->d, 2);
	if (c->settles && c->where == ON_CPU)
		c->dev->info.l2_bytes = 64 << 10; /* which is soon overwritten */
}

/* ---- plans ------------------------------------------------------------------------------- */

static void check_workspace(struct dice *d, const struct fuzz_op *o, const attune_plan *plan)
{
	const int more = one_in(d, 2) ? below(d, 1000) : 0;
	size_t most = 0;
	check_refusal(
	    attune_max_workspace(o->op, plan->num_seqs + more, plan->num_tokens + more, &most),
	    MAY_PASS, "attune_max_workspace");
	if (most < plan->workspace)
		fault("attune_max_workspace: %zu bytes, and the plan needs %zu", most,
		      plan->workspace);
}

static void check_text(const struct fuzz_op *o, const attune_plan *plan)
{
	char text[600];
	check_refusal(attune_plan_text(o->op, plan, text, sizeof text), MAY_PASS,
		      "attune_plan_text");
	note("plan: %s%s", plan->how == ATTUNE_STREAMS ? "(streams) " : "", text);
	if (plan->num_parts)
		check_refusal(attune_plan_text(o->op, plan, text, 5), 1u << ATTUNE_TOO_SMALL,
			      "attune_plan_text of 5 bytes");
}

/* A choice of the rules that the plan has can run its part. */
static void check_choices(const struct fuzz_op *o, const attune_batch *batch,
			  const attune_plan *plan)
{
	for (int i = 0; i < plan->num_parts; i++) {
		const attune_part *p = &plan->part[i];
		const enum attune_phase phase = !p->decode.seq_count    ? ATTUNE_PHASE_PREFILL
						: !p->prefill.seq_count ? ATTUNE_PHASE_DECODE
									: ATTUNE_PHASE_ALL;
		if (p->choice < o->op->num_choices)
			check_refusal(attune_choice_runs(o->op, batch, phase, p->choice), MAY_PASS,
				      "attune_choice_runs of the plan's choice");
	}
}

/* Sixteen-bit and fp32 caches in strides, without LSE, are always planned. */
static void plan_world(struct fuzz_case *c, struct fuzz_op *o, int i)
{
	const struct world *w = &o->w[i];
	attune_plan again = { .size = sizeof again };
	o->plan[i].size = sizeof o->plan[i];
	const enum attune_status status = attune_plan_batch(o->op, &w->batch, &o->plan[i]);
	check_refusal(status, allowed_by(promise_of(c->where, &o->s)), "attune_plan_batch");
	o->is_planned[i] = !status;
	if (status)
		return;
	check_refusal(attune_plan_batch(o->op, &w->batch, &again), MAY_PASS, "the same plan again");
	if (!attune_plan_serves(&o->plan[i], &again) || again.workspace != o->plan[i].workspace)
		fault("the same batch gets another plan the next time");
	check_workspace(&c->d, o, &o->plan[i]);
	check_choices(o, &w->batch, &o->plan[i]);
	check_text(o, &o->plan[i]);
}

/* ---- runs -------------------------------------------------------------------------------- */

/* The list of Q blocks, made once on the host; NULL: none. */
static void *make_schedule(struct fuzz_case *c, const struct fuzz_op *o, const attune_plan *plan,
			   const struct world *w)
{
	size_t words = 0;
	check_refusal(attune_schedule(o->op, plan, &w->batch, NULL, 0, &words), MAY_PASS,
		      "attune_schedule");
	if (!words)
		return NULL;
	int32_t *v = malloc(words * sizeof *v);
	if (!v)
		fault("the test: no memory");
	check_refusal(attune_schedule(o->op, plan, &w->batch, v, words - 1, &words),
		      1u << ATTUNE_TOO_SMALL, "attune_schedule with too little room");
	check_refusal(attune_schedule(o->op, plan, &w->batch, v, words, &words), MAY_PASS,
		      "attune_schedule");
	void *schedule = guarded(c->dev, words * sizeof *v, 0);
	if (c->dev->ops->put(c->dev, schedule, v, words * sizeof *v))
		fault("the test: %s", attune_last_error());
	free(v);
	return schedule;
}

/* Kernels that take maps refuse caches whose pages are no multiple of 8 slots apart: others run in
 * their place, but for prefills with LSE and with ATTUNE_INVARIANT=1. */
static unsigned run_may(const struct fuzz_case *c, const struct world *w)
{
	const int alone = w->s.has_lse || c->ctx->is_invariant;
	return c->where == ON_H200 && !w->slots_in_groups && alone ? MAY_PASS | UNSUPPORTED
								   : MAY_PASS;
}

/* Writes the new rows, which the cache has already. */
static void write_world(struct fuzz_case *c, const struct fuzz_op *o, const struct world *w)
{
	const int tokens = w->query_start[w->batch.num_seqs];
	if (w->s.has_new_kv && w->s.kv_dtype == w->s.dtype && one_in(&c->d, 2))
		check_refusal(attune_write_kv(o->op, w->batch.num_seqs, tokens, &w->device, NULL,
					      c->dev->ops->stream(c->dev)),
			      MAY_PASS, "attune_write_kv");
}

static void run_world(struct fuzz_case *c, const struct fuzz_op *o, const attune_plan *as,
		      struct world *w, const char *what)
{
	attune_plan plan = *as;
	attune_tensors t = w->device;
	const size_t whole = (plan.workspace + 15) / 16 * 16; /* it begins at a multiple of 16 */
	char *workspace = guarded(c->dev, whole, 0);
	void *schedule = one_in(&c->d, 2) ? make_schedule(c, o, as, w) : NULL;
	t.schedule = schedule;
	plan.start = one_in(&c->d, 3) ? ATTUNE_START_EARLY : ATTUNE_START_IN_TURN;
	world_poison(w);
	if (whole && c->dev->ops->fill(c->dev, workspace, API_POISON, whole))
		fault("the test: %s", attune_last_error());
	write_world(c, o, w);
	const enum attune_status status =
	    attune_run(o->op, &plan, &t, plan.workspace || one_in(&c->d, 2) ? workspace : NULL,
		       plan.workspace, c->dev->ops->stream(c->dev));
	check_refusal(status, run_may(c, w), what);
	if (!status)
		check_world(w, &c->d, what);
	release_guarded(c->dev, workspace);
	release_guarded(c->dev, schedule);
}

/* Entries up to the end that the table had for the plan may be read. */
static int has_table_of(const struct world *w, const attune_plan *plan)
{
	return (int64_t)plan->table_seq * w->host.block_table_stride + plan->table_pages <=
	       w->entries;
}

/* A plan that serves for another batch is right for it. */
static void run_by_another(struct fuzz_case *c, struct fuzz_op *o)
{
	for (int i = 0; i < o->num_worlds; i++)
		for (int j = 0; j < o->num_worlds; j++)
			if (i != j && o->is_planned[i] && o->is_planned[j] &&
			    attune_plan_serves(&o->plan[i], &o->plan[j]) &&
			    has_table_of(&o->w[j], &o->plan[i]))
				run_world(c, o, &o->plan[i], &o->w[j],
					  "the run by a plan that serves for it");
}

/* ---- lengths below the plan's ------------------------------------------------------------ */

static int largest(const int *v, int n)
{
	int most = 0;
	for (int i = 0; i < n; i++)
		most = v[i] > most ? v[i] : most;
	return most;
}

/* A plan of the batch, or of its maxima or a little more. 0: refused. */
static int plan_most(struct fuzz_case *c, const struct fuzz_op *o, const struct lengths *l,
		     attune_plan *plan)
{
	int32_t start[MOST_SEQS + 1] = { 0 };
	for (int i = 0; i < l->n; i++)
		start[i + 1] = start[i] + l->query[i];
	const attune_batch b = { sizeof b, l->n, start, l->seq };
	const int by_bounds = one_in(&c->d, 2), more = one_in(&c->d, 2) ? below(&c->d, 9) : 0;
	const int keys = largest(l->seq, l->n) * PICK(&c->d, 1, 1, 2, 128);
	note("the %s of", by_bounds ? "maxima" : "lengths");
	note_lengths(l);
	const enum attune_status status =
	    by_bounds ? attune_plan_bounds(o->op, l->n, start[l->n] + more,
					   largest(l->query, l->n) + more, keys, plan)
		      : attune_plan_batch(o->op, &b, plan);
	check_refusal(status, allowed_by(promise_of(c->where, &o->s)),
		      by_bounds ? "attune_plan_bounds" : "attune_plan_batch");
	if (status)
		return 0;
	check_workspace(&c->d, o, plan);
	check_text(o, plan);
	return by_bounds ? 2 : 1;
}

static void replay_world(struct fuzz_case *c, const struct fuzz_op *o, const attune_plan *plan,
			 struct world *w)
{
	const struct device_ops *ops = c->dev->ops;
	const size_t whole = (plan->workspace + 15) / 16 * 16;
	char *workspace = guarded(c->dev, whole, 0);
	struct graph *graph = NULL;
	double ns;
	check_refusal(ops->graph_begin(c->dev), MAY_PASS, "graph_begin");
	const enum attune_status status =
	    attune_run(o->op, plan, &w->device, workspace, whole, ops->stream(c->dev));
	check_refusal(status, run_may(c, w), "the captured run by a plan for longer lengths");
	check_refusal(ops->graph_end(c->dev, &graph), MAY_PASS, "graph_end");
	for (int i = 0; i < 2 && !status; i++) {
		world_poison(w);
		check_refusal(ops->graph_play(c->dev, graph, &ns), MAY_PASS, "graph_play");
		check_world(w, &c->d, "the replay of a plan for longer lengths");
	}
	ops->graph_free(c->dev, graph);
	release_guarded(c->dev, workspace);
}

/* A plan is right for all lengths at or below those that it was made for. */
static void run_below(struct fuzz_case *c, const struct fuzz_op *o)
{
	struct lengths most, less;
	attune_plan plan = { .size = sizeof plan }, own = { .size = sizeof own };
	struct world w;
	draw_lengths(&c->d, c->where, &o->s, &most);
	const int planned = o->op ? plan_most(c, o, &most, &plan) : 0;
	const int pages = (largest(most.seq, most.n) + o->s.page_size - 1) / o->s.page_size;
	if (!planned || !pages)
		return;
	draw_below(&c->d, &most, &less);
	note("run for");
	note_lengths(&less);
	world_make_wide(&w, c->dev, &c->d, &o->s, &less, pages);
	if (c->where != ON_CPU && one_in(&c->d, 2))
		replay_world(c, o, &plan, &w);
	else
		run_world(c, o, &plan, &w, "the run by a plan for longer lengths");
	check_refusal(attune_plan_batch(o->op, &w.batch, &own), MAY_PASS | UNSUPPORTED,
		      "attune_plan_batch of lengths below");
	if (planned == 2 && !attune_plan_serves(&plan, &own))
		fault("attune_plan_serves: a plan of maxima does not serve for a batch within");
	world_free(&w);
}

/* ---- a case ------------------------------------------------------------------------------ */

static void prepare_op(struct fuzz_case *c, struct fuzz_op *o)
{
	draw_shape(&c->d, c->where, &o->s);
	note_shape(&o->s);
	const enum attune_status status = attune_prepare(c->ctx, &o->s, &o->op);
	check_refusal(status, allowed_by(promise_of(c->where, &o->s)), "attune_prepare");
	if (status)
		o->op = NULL;
}

static void make_worlds(struct fuzz_case *c, struct fuzz_op *o)
{
	struct lengths l;
	const int n = one_in(&c->d, 2) ? 1 : between(&c->d, 1, MOST_BATCHES);
	draw_lengths(&c->d, c->where, &o->s, &l);
	for (int i = 0; o->op && i < n; i++) {
		struct lengths next = l;
		if (i && one_in(&c->d, 3))
			draw_lengths(&c->d, c->where, &o->s, &next);
		else if (i)
			draw_similar(&c->d, &l, &next);
		note_lengths(&next);
		world_make(&o->w[o->num_worlds++], c->dev, &c->d, &o->s, &next);
		plan_world(c, o, i);
	}
}

/* Half of the plans are made again, the others are of before. */
static void settle_world(struct fuzz_case *c, struct fuzz_op *o, int i)
{
	const struct planned p = { o->op, o->plan[i], &o->w[i] };
	attune_plan some;
	if (settle_some(&c->d, c->where, &p, &some)) {
		check_text(o, &some);
		run_world(c, o, &some, &o->w[i], "the run by an alternative");
	}
	if (one_in(&c->d, 2))
		plan_world(c, o, i);
}

/* Ops and their batches in turn, at random. */
static void run_some(struct fuzz_case *c)
{
	const int runs = c->where == ON_CPU ? between(&c->d, 2, MOST_RUNS) : between(&c->d, 1, 3);
	for (int run = 0; run < runs; run++) {
		struct fuzz_op *o = &c->op[below(&c->d, c->num_ops)];
		const int i = o->num_worlds ? below(&c->d, o->num_worlds) : -1;
		if (i < 0 || !o->is_planned[i])
			continue;
		if (c->settles && one_in(&c->d, 2))
			settle_world(c, o, i);
		const struct planned p = { o->op, o->plan[i], &o->w[i] };
		if (one_in(&c->d, 4))
			hostile_runs(&c->d, c->where, &p);
		if (one_in(&c->d, 4))
			hostile_batches(&c->d, &p);
		run_world(c, o, &o->plan[i], &o->w[i], "attune_run");
	}
}

static void close_all(struct fuzz_case *c)
{
	for (int i = 0; i < c->num_ops; i++) {
		for (int j = 0; j < c->op[i].num_worlds; j++)
			world_free(&c->op[i].w[j]);
		attune_release(c->op[i].op);
	}
	attune_close(c->ctx);
}

void run_case(uint64_t seed, enum where where)
{
	static struct fuzz_case c; /* large */
	memset(&c, 0, sizeof c);
	c.d = dice_of(seed, where);
	c.where = where;
	if (one_in(&c.d, 20))
		hostile_opens(&c.d);
	open_context(&c);
	c.num_ops = where == ON_CPU ? between(&c.d, 1, MOST_OPS) : 1;
	for (int i = 0; i < c.num_ops; i++) {
		prepare_op(&c, &c.op[i]);
		if (one_in(&c.d, 3))
			hostile_shapes(&c.d, where, c.ctx, &c.op[i].s);
	}
	for (int i = 0; i < c.num_ops; i++)
		make_worlds(&c, &c.op[i]);
	run_some(&c);
	for (int i = 0; i < c.num_ops; i++)
		run_by_another(&c, &c.op[i]);
	for (int i = 0; i < c.num_ops; i++)
		run_below(&c, &c.op[i]);
	close_all(&c);
}
