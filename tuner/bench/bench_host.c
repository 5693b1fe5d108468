/* bench_host.c - `attune bench --host`: the CPU time of calls, without the time of the device.
 *
 *   plan    attune_plan_batch
 *   own     attune_run on a device whose launches do nothing: all but the driver
 *   run     attune_run
 *   launch  one launch of an empty kernel, by each launch variant of the device
 *
 * Each of CALLS calls is timed separately, and the time of the clock is subtracted. Between groups
 * of calls the device catches up, outside the timed region, so no call waits for a full queue. */
#include "bench.h"
#include "harness/base/base.h"
#include "harness/check/check.h"
#include "harness/compile/compile.h"
#include "harness/scenario/scenario.h"
#include "kernels/launch/op.h"
#include "kernels/launch/run.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GROUP = 100, GROUPS = 25, CALLS = GROUP * GROUPS };

/* A timed call, and what runs before and after a group of calls (NULL: nothing). */
struct timed {
	enum attune_status (*call)(void *arg);
	enum attune_status (*begin)(void *arg), (*end)(void *arg);
	void *arg;
};

struct host {
	struct bench_stage *st;
	struct table *table;
	attune_shape shape;
	double clock_ns, ns[CALLS];
	int failed;
};

static enum attune_status one_group(const struct timed *t, double ns[GROUP])
{
	enum attune_status status = t->begin ? t->begin(t->arg) : ATTUNE_OK;
	for (int i = 0; i < GROUP && !status; i++) {
		const double begin = 1e9 * seconds_now();
		status = t->call(t->arg);
		ns[i] = 1e9 * seconds_now() - begin;
	}
	const enum attune_status ended = t->end ? t->end(t->arg) : ATTUNE_OK;
	return status ? status : ended;
}

/* Fills h->ns, sorted. The first group is a warm-up. */
static enum attune_status time_calls(struct host *h, const struct timed *t)
{
	enum attune_status status = one_group(t, h->ns);
	for (int g = 0; g < GROUPS && !status; g++)
		status = one_group(t, &h->ns[g * GROUP]);
	median(h->ns, CALLS);
	return status;
}

/* Times a call and adds its row. of: the batch, or the launch variant. */
static void add_row(struct host *h, const char *what, const char *of, const char *plan,
		    int launches, const struct timed *t)
{
	if (interrupted)
		return;
	if (time_calls(h, t)) {
		complain("%s %s: %s", what, of, attune_last_error());
		h->failed = 1;
		return;
	}
	table_add(h->table, "%s %s %.0f %.0f %.0f %s\n", what, of, launches < 0 ? NAN : launches,
		  fmax(quantile(h->ns, CALLS, 0.5) - h->clock_ns, 0),
		  fmax(quantile(h->ns, CALLS, 0.95) - h->clock_ns, 0), plan);
}

/* ---- the clock, and launch variants -------------------------------------------------------- */

static enum attune_status nothing(void *arg)
{
	(void)arg;
	return ATTUNE_OK;
}

struct way {
	struct device *dev;
	struct code *code;
	int i;
};

static enum attune_status way_begin(void *arg)
{
	const struct way *w = arg;
	return w->dev->ops->ways->begin(w->dev, w->i);
}

static enum attune_status way_launch(void *arg)
{
	static const struct attune_args args;
	static const struct geometry g = { .x = 1, .y = 1, .z = 1, .threads = 32, .segments = 1 };
	const struct way *w = arg;
	return w->dev->ops->ways->launch(w->dev, w->i, w->code, &g, &args);
}

static enum attune_status way_end(void *arg)
{
	const struct way *w = arg;
	return w->dev->ops->ways->end(w->dev, w->i);
}

static struct code *load_empty(struct device *dev, int is_small)
{
	char path[PATH_MAX], flags[16];
	struct code *code = NULL;
	snprintf(path, sizeof path, "%s/gpu/ceilings/empty.cu", source_root());
	snprintf(flags, sizeof flags, "-DSMALL=%d", is_small);
	if (jit_load_source(dev, &code, path, flags, dev->info.arch))
		complain("%s %s: %s", path, flags, attune_last_error());
	return code;
}

static void time_ways(struct host *h)
{
	struct device *dev = &h->st->dev;
	const struct launch_ways *ways = dev->ops->ways;
	struct code *code[2] = { NULL };
	const char *name;
	int is_small;
	if (!ways)
		return;
	for (int i = 0; i < 2; i++)
		code[i] = load_empty(dev, i);
	h->failed |= !code[0] || !code[1];
	for (int i = 0; !h->failed && (name = ways->name(i, &is_small)); i++) {
		struct way w = { dev, code[is_small], i };
		const struct timed t = { way_launch, way_begin, way_end, &w };
		add_row(h, "launch", name, NULL, 1, &t);
	}
	for (int i = 0; i < 2; i++)
		if (code[i])
			dev->ops->unload(dev, code[i]);
}

/* ---- calls of the library -------------------------------------------------------------------- */

static int num_launched; /* on the device with empty launches */

static enum attune_status quiet_launch(struct device *d, const struct code *c,
				       const struct geometry *g, const void *args, size_t bytes,
				       void *stream)
{
	(void)d, (void)c, (void)g, (void)args, (void)bytes, (void)stream;
	num_launched++;
	return ATTUNE_OK;
}

static enum attune_status quiet_clear(struct device *d, void *mem, size_t bytes, void *stream)
{
	(void)d, (void)mem, (void)bytes, (void)stream;
	num_launched++;
	return ATTUNE_OK;
}

static enum attune_status quiet_fork(struct device *d, void *stream, void **side)
{
	(void)d;
	*side = stream;
	return ATTUNE_OK;
}

struct caller {
	struct host *h;
	attune_op *op;
	const struct batch *batch;
	attune_plan plan;
	attune_tensors tensors;
};

static enum attune_status call_plan(void *arg)
{
	struct caller *c = arg;
	return attune_plan_batch(c->op, &c->batch->view, &c->plan);
}

static enum attune_status call_run(void *arg)
{
	struct caller *c = arg;
	struct bench_stage *st = c->h->st;
	return attune_run(c->op, &c->plan, &c->tensors, st->workspace, st->workspace_bytes,
			  st->dev.ops->stream(&st->dev));
}

static enum attune_status wait(void *arg)
{
	const struct caller *c = arg;
	struct device *dev = &c->h->st->dev;
	return dev->ops->wait(dev, dev->ops->stream(dev));
}

/* Tensors of aligned addresses and contiguous pages. None is read, except the batch's lengths on the
 * CPU. */
static attune_tensors no_tensors(const attune_shape *s, const attune_batch *b)
{
	void *at = (void *)4096;
	const long long slot = (long long)s->num_kv_heads * s->head_size;
	return (attune_tensors){ .size = sizeof(attune_tensors),
				 .k_page_stride = slot * s->page_size,
				 .v_page_stride = slot * s->page_size,
				 .k_slot_stride = slot,
				 .v_slot_stride = slot,
				 .k_head_stride = s->head_size,
				 .v_head_stride = s->head_size,
				 .out = at,
				 .q = at,
				 .k_cache = at,
				 .v_cache = at,
				 .block_table = at,
				 .query_start = b->query_start,
				 .seq_lens = b->seq_lens };
}

/* Times attune_run on a device with empty launches. Returns the number of launches of a call. */
static int time_own(struct caller *c, const char *of, const char *plan)
{
	const struct device_ops *ops = c->op->ctx->device.ops;
	struct device_ops quiet = *ops;
	quiet.launch = quiet_launch;
	quiet.launch_early = ops->launch_early ? quiet_launch : NULL;
	quiet.clear = quiet_clear;
	quiet.fork = quiet_fork;
	c->op->ctx->device.ops = &quiet;
	c->tensors = no_tensors(&c->h->shape, &c->batch->view);
	num_launched = 0;
	const int launches = call_run(c) ? -1 : num_launched;
	const struct timed own = { call_run, NULL, NULL, c };
	add_row(c->h, "own", of, plan, launches, &own);
	c->op->ctx->device.ops = ops;
	return launches;
}

static void time_run(struct caller *c, const char *of, const char *plan, int launches)
{
	struct host *h = c->h;
	struct scenario s = { .batch_text = (char *)(uintptr_t)of,
			      .batch = (struct batch *)(uintptr_t)c->batch,
			      .shape = h->shape,
			      .seed = 1 };
	struct workload w;
	const struct timed run = { call_run, NULL, wait, c };
	if (workload_make(&w, &h->st->dev, &h->st->pool, &s, WORKLOAD_TIMED, 0)) {
		complain("%s: %s", of, attune_last_error());
		h->failed = 1;
		return;
	}
	c->tensors = w.tensors;
	add_row(h, "run", of, plan, launches, &run);
	workload_free(&w);
}

/* Times all three calls for a batch. */
static void time_batch(struct host *h, attune_op *op, const char *text)
{
	char error[160], plan[2 * MAX_PART_TEXT + 32];
	struct caller c = { .h = h,
			    .op = op,
			    .batch = batch_parse(text, error, sizeof error),
			    .plan.size = sizeof c.plan };
	const struct timed planning = { call_plan, NULL, NULL, &c };
	if (!c.batch || call_plan(&c) || attune_plan_text(op, &c.plan, plan, sizeof plan)) {
		complain("%s: %s", text, c.batch ? attune_last_error() : error);
		h->failed = 1;
		batch_free((struct batch *)(uintptr_t)c.batch);
		return;
	}
	add_row(h, "plan", text, plan, 0, &planning);
	const int launches = time_own(&c, text, plan);
	if (h->st->dev.info.backend == BACKEND_GPU && !interrupted)
		time_run(&c, text, plan, launches);
	batch_free((struct batch *)(uintptr_t)c.batch);
}

// clang-format off
static const char *const batches[] = {
	"1q1s1k", "8q1s1k", "32q1s1k", "256q1s1k",
	"q512s1k_1q1s1k", "q512s1k_8q1s1k", "q512s1k_32q1s1k", "q512s1k_256q1s1k",
};
// clang-format on

static void time_library(struct host *h)
{
	attune_op *op;
	if (attune_prepare(h->st->ctx, &h->shape, &op)) {
		complain("%s", attune_last_error());
		h->failed = 1;
		return;
	}
	for (size_t i = 0; i < COUNT(batches); i++)
		time_batch(h, op, batches[i]);
	attune_release(op);
}

int bench_host(struct bench_stage *st, enum format format)
{
	static const char *const columns[] = { "what",      "of",     "launches",
					       "median_ns", "p95_ns", "plan" };
	static struct host h;
	const int is_gpu = st->dev.info.backend == BACKEND_GPU;
	const struct timed empty = { nothing, NULL, NULL, NULL };
	h = (struct host){ .st = st,
			   .table = table_new(format, columns, COUNT(columns)),
			   .shape = { .size = sizeof(attune_shape),
				      .num_query_heads = 32,
				      .num_kv_heads = 8,
				      .head_size = 128,
				      .page_size = 16,
				      .dtype = is_gpu ? ATTUNE_BF16 : ATTUNE_F32,
				      .kv_dtype = is_gpu ? ATTUNE_BF16 : ATTUNE_F32,
				      .causal = 1 } };
	if (!h.table) {
		complain("out of memory");
		return EXIT_CHECK;
	}
	add_row(&h, "clock", "twice", NULL, 0, &empty);
	h.clock_ns = quantile(h.ns, CALLS, 0.5);
	if (is_gpu && !source_root()) {
		complain("no kernel sources found; set ATTUNE_SOURCE to the kernels folder");
		h.failed = 1;
	}
	if (!h.failed)
		time_ways(&h);
	if (!interrupted)
		time_library(&h);
	table_print(h.table, stdout);
	return interrupted ? EXIT_INTERRUPTED : h.failed ? EXIT_CHECK : EXIT_DONE;
}
