/* SPDX-License-Identifier: Apache-2.0 */
/* plugin_op.c - calls the functions of plug-ins, and keeps their plans.
 *
 * On a GPU a launch enqueues work on the stream, which may be captured. A CPU device records cells
 * to replay them; a plug-in's launch is then the only cell of a grid, and finds its arguments by
 * args.scratch in the plan, which outlives the record. */
#include "plugin.h"
#include "harness/base/base.h"
#include "kernels/args.h"
#include "kernels/device/device.h"
#include "kernels/spec/space.h"
#include "kernels/spec/status.h"
#include <stdlib.h>
#include <string.h>

struct plugin_op {
	const attune_plugin *plugin;
	struct device *dev;
	struct code *code; /* on a CPU: of run_plan */
	void *op;
};

struct plugin_plan {
	struct plugin_plan *next;
	struct plugin_key key;
	struct plugin_op *op;
	void *plan;
	/* of the launch that is recorded, on a CPU */
	attune_tensors tensors;
	void *workspace;
	int failed;
	char error[ATTUNE_PLUGIN_ERROR];
};
static struct plugin_plan *plans; /* of all ops of this process */

/* ---- a call ------------------------------------------------------------------------------- */

/* What the functions of a plug-in take and return. */
struct plugin_call {
	struct plugin_op *op;
	struct plugin_plan *plan;
	const attune_shape *shape;
	const int *values;
	const attune_plugin_batch *batch;
	const attune_tensors *tensors;
	void *workspace, *stream;
	size_t workspace_bytes;
	int failed;                /* the plug-in's */
	enum attune_status status; /* of the CPU device's launch */
	char error[ATTUNE_PLUGIN_ERROR];
};

/* Calls with the device's context current, and then makes the caller's current again. */
static enum attune_status call(struct plugin_call *c, void (*function)(void *), const char *what)
{
	struct device *dev = c->op->dev;
	enum attune_status status = ATTUNE_OK;
	if (dev->ops->within)
		status = dev->ops->within(dev, function, c);
	else
		function(c);
	status = status ? status : c->status;
	c->error[ATTUNE_PLUGIN_ERROR - 1] = '\0';
	return status || !c->failed
		   ? status
		   : fail(ATTUNE_UNSUPPORTED, "plug-in %s: %s: %s", c->op->plugin->name, what,
			  *c->error ? c->error : "no reason given");
}

/* ---- a shape ----------------------------------------------------------------------------- */

static void run_plan(const struct attune_args *args, int x, int y, int z)
{
	struct plugin_plan *p = args->scratch;
	(void)x, (void)y, (void)z;
	p->failed |=
	    p->op->plugin->launch(p->op->op, p->plan, &p->tensors, p->workspace, NULL, p->error);
}

static void prepare(void *arg)
{
	struct plugin_call *c = arg;
	struct plugin_op *op = c->op;
	attune_plugin_device device = plugin_device(&op->dev->info);
	if (op->dev->info.backend == BACKEND_CPU) {
		device.parallel = cpu_run;
		device.threads = op->dev;
	}
	c->failed = op->plugin->prepare(&op->op, c->shape, c->values, &device, c->error) != 0;
}

enum attune_status plugin_op_open(struct plugin_op **out, struct device *dev,
				  const struct choice *choice, const attune_shape *shape)
{
	const struct blob blob = { .cell = run_plan };
	struct plugin_op *op = calloc(1, sizeof *op);
	struct plugin_call c = { .op = op, .shape = shape, .values = choice->config.v };
	enum attune_status status = ATTUNE_OK;
	if (!op)
		return fail(ATTUNE_NO_MEMORY, "out of memory");
	*op = (struct plugin_op){ .plugin = choice->kernel->plugin, .dev = dev };
	if (dev->info.backend == BACKEND_CPU)
		status = dev->ops->load(dev, &op->code, &blob);
	if (!status)
		status = call(&c, prepare, "prepare");
	if (!status) {
		*out = op;
		return ATTUNE_OK;
	}
	if (op->code)
		dev->ops->unload(dev, op->code);
	free(op);
	return status;
}

static void free_op(void *arg)
{
	struct plugin_op *op = ((struct plugin_call *)arg)->op;
	op->plugin->free_op(op->op);
}

/* ---- plans --------------------------------------------------------------------------------- */

static int is_same(const struct plugin_key *a, const struct plugin_key *b)
{
	return a->owner == b->owner && a->phase == b->phase && a->set == b->set;
}

static void free_plan(void *arg)
{
	struct plugin_call *c = arg;
	c->op->plugin->free_plan(c->op->op, c->plan->plan);
}

/* Frees the plans of an op (NULL: of all) and an owner (NULL: of all), or of one key alone. */
static void drop(const struct plugin_op *op, const void *owner, const struct plugin_key *key)
{
	for (struct plugin_plan **at = &plans; *at;) {
		struct plugin_plan *p = *at;
		if ((op && p->op != op) || (owner && p->key.owner != owner) ||
		    (key && !is_same(&p->key, key))) {
			at = &p->next;
			continue;
		}
		*at = p->next;
		call(&(struct plugin_call){ .op = p->op, .plan = p }, free_plan, "free_plan");
		free(p);
	}
}

void plugin_forget(const void *owner)
{
	drop(NULL, owner, NULL);
}

void plugin_forget_op(struct plugin_op *op)
{
	if (!op)
		return;
	drop(op, NULL, NULL);
	call(&(struct plugin_call){ .op = op }, free_op, "free_op");
	if (op->code)
		op->dev->ops->unload(op->dev, op->code);
	free(op);
}

static void make_plan(void *arg)
{
	struct plugin_call *c = arg;
	c->failed = c->op->plugin->plan(c->op->op, c->batch, &c->plan->plan, &c->workspace_bytes,
					c->error) != 0;
}

enum attune_status plugin_plan(struct plugin_op *op, struct plugin_key key,
			       const attune_plugin_batch *batch, size_t *workspace, double *plan_us)
{
	drop(op, NULL, &key);
	struct plugin_plan *p = calloc(1, sizeof *p);
	struct plugin_call c = { .op = op, .plan = p, .batch = batch };
	if (!p)
		return fail(ATTUNE_NO_MEMORY, "out of memory");
	const double start = seconds_now();
	const enum attune_status status = call(&c, make_plan, "plan");
	if (status) {
		free(p);
		return status;
	}
	*plan_us = 1e6 * (seconds_now() - start);
	*workspace = c.workspace_bytes;
	p->op = op;
	p->key = key;
	p->next = plans;
	plans = p;
	return ATTUNE_OK;
}

/* NULL and a failure: this batch was not planned. */
static struct plugin_plan *find(const struct plugin_op *op, const struct plugin_key *key)
{
	struct plugin_plan *p = plans;
	while (p && !(p->op == op && is_same(&p->key, key)))
		p = p->next;
	if (!p)
		fail(ATTUNE_INVALID, "plug-in %s: this batch was not planned", op->plugin->name);
	return p;
}

static void store(void *arg)
{
	struct plugin_call *c = arg;
	c->failed =
	    c->op->plugin->store(c->op->op, c->plan->plan, c->tensors, c->stream, c->error) != 0;
}

enum attune_status plugin_store(struct plugin_op *op, struct plugin_key key,
				const attune_tensors *tensors, void *stream)
{
	struct plugin_call c = {
		.op = op, .plan = find(op, &key), .tensors = tensors, .stream = stream
	};
	if (!c.plan)
		return ATTUNE_INVALID;
	return op->plugin->store ? call(&c, store, "store") : ATTUNE_OK;
}

static void launch(void *arg)
{
	struct plugin_call *c = arg;
	struct plugin_plan *p = c->plan;
	struct plugin_op *op = c->op;
	if (!op->code) {
		c->failed = op->plugin->launch(op->op, p->plan, c->tensors, c->workspace, c->stream,
					       c->error) != 0;
		return;
	}
	const struct geometry one = { .x = 1, .y = 1, .z = 1, .threads = 1 };
	const struct attune_args args = { .scratch = p };
	if (!p->failed) {
		p->tensors = *c->tensors;
		p->workspace = c->workspace;
		c->status =
		    op->dev->ops->launch(op->dev, op->code, &one, &args, sizeof args, c->stream);
	}
	c->failed = p->failed; /* it ran, unless a graph is recorded */
	memcpy(c->error, p->error, sizeof c->error);
}

enum attune_status plugin_launch(struct plugin_op *op, struct plugin_key key,
				 const attune_tensors *tensors, void *workspace, void *stream)
{
	struct plugin_call c = { .op = op,
				 .plan = find(op, &key),
				 .tensors = tensors,
				 .workspace = workspace,
				 .stream = stream };
	return c.plan ? call(&c, launch, "launch") : ATTUNE_INVALID;
}
