/* bench_race.c - races several plans for one batch on this machine. Contenders launch through the
 * same device and graph and rotate through the same page sets (harness/measure/race.c). Kernels
 * that the library does not ship are compiled at run time, once for the whole command. */
#include "bench.h"
#include "harness/base/base.h"
#include "harness/check/check.h"
#include "harness/compile/compile.h"
#include "harness/measure/measure.h"
#include "harness/plugin/plugin.h"
#include "harness/plugin/plugin_op.h"
#include "harness/scenario/scenario.h"
#include "kernels/launch/op.h"
#include "kernels/launch/run.h"
#include "tuner/data/data.h"
#include "tuner/policy/policy.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One contender: the library's plan, or a plan of given choices. */
struct call {
	struct bench_stage *stage;
	const struct workload *work;
	attune_op *op;
	attune_plan plan; /* of the library */
	struct {
		struct choice choice;
		struct loaded loaded;
		enum phase phase;
	} part[2];
	int num_parts, set;
	enum attune_how how;
	size_t at[2]; /* where a part's workspace begins */
};

static enum attune_status launch_part(void *arg, int i, int steps, void *stream)
{
	const struct call *c = arg;
	struct bench_stage *st = c->stage;
	return choice_launch(&st->dev, &c->part[i].choice, &c->part[i].loaded, c->work, c->set,
			     c->part[i].phase, (char *)st->workspace + c->at[i],
			     st->workspace_bytes - c->at[i], steps, stream);
}

static enum attune_status launch(void *arg, int set)
{
	struct call *c = arg;
	struct bench_stage *st = c->stage;
	if (c->op) {
		attune_tensors t = c->work->tensors;
		t.block_table = c->work->block_tables[set];
		return attune_run(c->op, &c->plan, &t, st->workspace, st->workspace_bytes,
				  st->dev.ops->stream(&st->dev));
	}
	c->set = set;
	return run_parts(&st->dev, c->how, c->num_parts, launch_part, c,
			 st->dev.ops->stream(&st->dev));
}

static struct kept *find_kept(struct bench_stage *st, const char *key)
{
	for (int i = 0; i < st->num_kept; i++)
		if (!strcmp(st->kept[i].key, key))
			return &st->kept[i];
	return NULL;
}

/* NULL: no memory. */
static struct kept *keep(struct bench_stage *st, const char *key)
{
	struct kept *more = realloc(st->kept, (size_t)(st->num_kept + 1) * sizeof *more);
	if (!more)
		return NULL;
	st->kept = more;
	more += st->num_kept++;
	*more = (struct kept){ .code = NULL };
	snprintf(more->key, sizeof more->key, "%s", key);
	return more;
}

static void name_binary(char key[MAX_FLAGS + 32], const struct kernel *k,
			const struct config *config, const attune_shape *shape)
{
	char flags[MAX_FLAGS];
	binary_flags(flags, sizeof flags, k, config, shape);
	snprintf(key, MAX_FLAGS + 32, "%s %s", k->name, flags);
}

/* The code of a choice or a helper, compiled once and owned by the stage. NULL + complain. */
static struct code *stage_code(struct bench_stage *st, const struct kernel *k,
			       const struct config *config, const attune_shape *shape)
{
	char flags[MAX_FLAGS], key[MAX_FLAGS + 32];
	struct code *code = NULL;
	binary_flags(flags, sizeof flags, k, config, shape);
	name_binary(key, k, config, shape);
	struct kept *kept = find_kept(st, key);
	if (kept)
		return kept->code;
	if (jit_load(&st->dev, &code, NULL, k, flags))
		complain("%s: %s", key, attune_last_error());
	kept = code ? keep(st, key) : NULL;
	if (kept)
		kept->code = code;
	else if (code)
		st->dev.ops->unload(&st->dev, code);
	return kept ? code : NULL;
}

/* As stage_code, of a plug-in's choice. */
static struct plugin_op *stage_plugin(struct bench_stage *st, const struct choice *c,
				      const attune_shape *shape)
{
	char key[MAX_FLAGS + 32];
	name_binary(key, c->kernel, &c->config, shape);
	struct kept *kept = find_kept(st, key);
	if (kept)
		return kept->plugin;
	kept = keep(st, key);
	if (kept && plugin_op_open(&kept->plugin, &st->dev, c, shape))
		complain("%s: %s", key, attune_last_error());
	return kept ? kept->plugin : NULL;
}

/* 0 + complain: bench has too little workspace for it. */
static int has_room(const struct call *c, const char *name, size_t bytes)
{
	if (bytes > c->stage->workspace_bytes)
		complain("%s: it needs a workspace of %zu MiB, bench has %zu", name, bytes >> 20,
			 c->stage->workspace_bytes >> 20);
	return bytes <= c->stage->workspace_bytes;
}

/* Plans all page sets. 0 + complain. */
static int plan_part(const struct call *c, const struct choice *choice, const struct loaded *l,
		     enum phase phase)
{
	size_t bytes;
	double plan_us;
	if (choice_reserve(&c->stage->dev, choice, l, c->work, phase, &bytes, &plan_us))
		complain("%s", attune_last_error());
	else
		return has_room(c, choice->kernel->name, bytes);
	return 0;
}

static int add_part(struct call *c, const struct choice *choice, enum phase phase,
		    const attune_shape *shape)
{
	struct config config;
	struct loaded *l = &c->part[c->num_parts].loaded;
	c->part[c->num_parts].choice = *choice;
	c->part[c->num_parts++].phase = phase;
	if (choice->kernel->plugin) {
		l->plugin = stage_plugin(c->stage, choice, shape);
		return l->plugin && plan_part(c, choice, l, phase);
	}
	l->code = stage_code(c->stage, choice->kernel, &choice->config, shape);
	for (enum helper h = 0; h < NUM_HELPERS; h++) {
		const struct kernel *k = kernel_helper(choice->kernel->backend, h);
		if (!k || !kernel_takes(choice->kernel, &choice->config, h))
			continue;
		config_default(&config, k->space);
		l->helper[h] = stage_code(c->stage, k, &config, shape);
		if (!l->helper[h])
			return 0;
	}
	return l->code != NULL;
}

/* 0: the plan cannot be run. */
static int call_made(struct call *c, const struct measured *m, const struct decided *made)
{
	c->how = made->how;
	c->at[1] = made->how == ATTUNE_STREAMS ? c->stage->workspace_bytes / 2 : 0;
	if (measured_is_mixed(m) && !made->join)
		return made->prefill.kernel && add_part(c, &made->prefill, PHASE_ALL, &m->shape);
	if (m->has[PHASE_PREFILL] &&
	    (!made->prefill.kernel || !add_part(c, &made->prefill, PHASE_PREFILL, &m->shape)))
		return 0;
	if (m->has[PHASE_DECODE] &&
	    (!made->decode.kernel || !add_part(c, &made->decode, PHASE_DECODE, &m->shape)))
		return 0;
	return c->num_parts > 0;
}

static int foresee_part(struct binaries *b, const struct choice *choice, const attune_shape *shape)
{
	int helper[NUM_HELPERS];
	return !choice->kernel || (binaries_add(b, choice, shape) >= 0 &&
				   binaries_add_helpers(b, choice, shape, helper));
}

int bench_foresee(struct binaries *b, const struct measured *m, const struct entry *e)
{
	const int is_whole = measured_is_mixed(m) && !e->made.join;
	if (!e->runs || e->is_library)
		return 1;
	return (!m->has[PHASE_PREFILL] || foresee_part(b, &e->made.prefill, &m->shape)) &&
	       (!m->has[PHASE_DECODE] || is_whole || foresee_part(b, &e->made.decode, &m->shape));
}

/* 0 + complain. */
static int call_library(struct call *c, const struct measured *m, struct entry *e)
{
	enum attune_status status = attune_prepare(c->stage->ctx, &m->shape, &c->op);
	c->plan.size = sizeof c->plan;
	if (!status)
		status = attune_plan_batch(c->op, &m->batch->view, &c->plan);
	if (!status)
		status = attune_plan_text(c->op, &c->plan, e->plan, sizeof e->plan);
	if (!status)
		return has_room(c, "attune", c->plan.workspace);
	complain("%s %.80s: %s", m->model, m->batch_text, attune_last_error());
	return 0;
}

static void tell_made(const struct call *c, struct entry *e)
{
	char part[2][MAX_PART_TEXT] = { "", "" };
	for (int i = 0; i < c->num_parts; i++)
		choice_text(part[i], sizeof part[i], &c->part[i].choice);
	if (c->num_parts == 2)
		parts_text(e->plan, sizeof e->plan, part[0], part[1], c->how);
	else
		snprintf(e->plan, sizeof e->plan, "%s", part[0]);
}

/* Prepares the library's own plan, or the entry's. */
static int enter(struct call *c, const struct measured *m, struct entry *e)
{
	if (e->is_library)
		return call_library(c, m, e);
	if (!call_made(c, m, &e->made))
		return 0;
	tell_made(c, e);
	return 1;
}

/* One scale for K and one for V, which plug-ins, too, can take: all contenders read the same. */
static void share_scales(attune_tensors *t)
{
	t->k_scale_seq_stride = t->k_scale_head_stride = 0;
	t->v_scale_seq_stride = t->v_scale_head_stride = 0;
}

int bench_race(struct bench_stage *st, const struct measured *m, const struct protocol *protocol,
	       struct entry *entry, int n, unsigned long long seed)
{
	struct scenario scenario;
	struct workload work;
	struct call *call = calloc((size_t)n, sizeof *call);
	struct timed_call *timed_call = calloc((size_t)n, sizeof *timed_call);
	int *who = calloc((size_t)n, sizeof *who), timed_calls = 0, done = 0;
	struct facts facts;
	scenario_again(&scenario, m);
	if (!call || !timed_call || !who ||
	    workload_make(&work, &st->dev, &st->pool, &scenario, WORKLOAD_TIMED,
			  protocol->cold_bytes)) {
		complain("%s %s: %s", m->model, m->batch_text,
			 call && timed_call && who ? attune_last_error() : "out of memory");
		goto out;
	}
	share_scales(&work.tensors);
	scenario_facts(&facts, &m->shape, &m->batch->view);
	for (int i = 0; i < n; i++) {
		entry[i].us = NAN;
		call[i] = (struct call){ .stage = st, .work = &work };
		if (!entry[i].runs || !enter(&call[i], m, &entry[i]))
			continue;
		who[timed_calls] = i;
		timed_call[timed_calls++] = (struct timed_call){ .call = launch,
								 .arg = &call[i],
								 .bytes = facts.kv_bytes,
								 .flops = facts.flops };
	}
	const struct race race = { .protocol = protocol,
				   .v = timed_call,
				   .n = timed_calls,
				   .sets = work.sets,
				   .seed = seed };
	done = timed_calls && !measure_race(&st->dev, &race);
	for (int i = 0; done && i < timed_calls; i++) {
		if (timed_call[i].m.samples)
			entry[who[i]].us = timed_call[i].m.median_us;
		else
			complain("%s %.80s: not measured: %s", m->model, m->batch_text,
				 timed_call[i].m.detail);
	}
	for (int i = 0; i < n; i++)
		attune_release(call[i].op);
	workload_free(&work);
out:
	free(call);
	free(timed_call);
	free(who);
	return done;
}

int stage_open(struct bench_stage *st, const char *gpu)
{
	enum attune_status status = device_open(&st->dev, device_for(gpu));
	if (status) {
		complain("%s", attune_last_error());
		return EXIT_NO_DEVICE;
	}
	/* "h200_e4m3" is an H200 */
	if (gpu && (strncmp(gpu, st->dev.info.gpu, (size_t)gpu_length(gpu)) ||
		    st->dev.info.gpu[gpu_length(gpu)])) {
		complain("--gpu %s: this machine has %s (%s); name that, or use another machine",
			 gpu, st->dev.info.gpu, st->dev.info.name);
		return EXIT_NO_DEVICE;
	}
	st->workspace_bytes = 2 * (size_t)MAX_PARTIAL_BYTES; /* for parts side by side */
	if (attune_adopt(&st->ctx, &st->dev) ||
	    st->dev.ops->alloc(&st->dev, &st->workspace, st->workspace_bytes)) {
		complain("%s", attune_last_error());
		return EXIT_CHECK;
	}
	return EXIT_DONE;
}

void stage_close(struct bench_stage *st)
{
	if (!st->dev.ops)
		return;
	for (int i = 0; i < st->num_kept; i++) {
		plugin_forget_op(st->kept[i].plugin);
		if (st->kept[i].code)
			st->dev.ops->unload(&st->dev, st->kept[i].code);
	}
	free(st->kept);
	pool_free(&st->dev, st->pool);
	if (st->workspace)
		st->dev.ops->release(&st->dev, st->workspace);
	attune_close(st->ctx);
	device_close(&st->dev);
}
