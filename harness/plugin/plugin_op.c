/* plugin_op.c - calls the functions of plug-ins.
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

struct plugin_op {
	const attune_plugin *plugin;
	struct device *dev;
	struct code *code; /* on a CPU: of run_plan */
	void *op;
};

struct plugin_plan {
	struct plugin_op *op;
	void *plan;
	/* of the launch that is recorded, on a CPU */
	attune_tensors tensors;
	void *workspace;
	int failed;
	char error[ATTUNE_PLUGIN_ERROR];
};

/* ---- a call ------------------------------------------------------------------------------- */

/* Calls with the device's context current, and then makes the caller's current again. */
static enum attune_status call(struct device *dev, void (*function)(void *), void *arg)
{
	if (dev->ops->within)
		return dev->ops->within(dev, function, arg);
	function(arg);
	return ATTUNE_OK;
}

static enum attune_status failed(const attune_plugin *p, const char *what, char *error)
{
	error[ATTUNE_PLUGIN_ERROR - 1] = '\0';
	return fail(ATTUNE_UNSUPPORTED, "plug-in %s: %s: %s", p->name, what,
		    *error ? error : "no reason given");
}

/* ---- a shape ----------------------------------------------------------------------------- */

static void run_plan(const struct attune_args *args, int x, int y, int z)
{
	struct plugin_plan *p = args->scratch;
	(void)x, (void)y, (void)z;
	p->failed |=
	    p->op->plugin->launch(p->op->op, p->plan, &p->tensors, p->workspace, NULL, p->error);
}

struct preparation {
	struct plugin_op *op;
	const attune_shape *shape;
	const int *values;
	int failed;
	char error[ATTUNE_PLUGIN_ERROR];
};

static void prepare(void *arg)
{
	struct preparation *p = arg;
	attune_plugin_device device = plugin_device(&p->op->dev->info);
	if (p->op->dev->info.backend == BACKEND_CPU) {
		device.parallel = cpu_run;
		device.threads = p->op->dev;
	}
	p->failed = p->op->plugin->prepare(&p->op->op, p->shape, p->values, &device, p->error) != 0;
}

enum attune_status plugin_op_open(struct plugin_op **out, struct device *dev,
				  const struct choice *c, const attune_shape *shape)
{
	const struct blob blob = { .cell = run_plan };
	struct plugin_op *op = calloc(1, sizeof *op);
	enum attune_status status = ATTUNE_OK;
	struct preparation p = { op, shape, c->config.v, 0, "" };
	if (!op)
		return fail(ATTUNE_NO_MEMORY, "out of memory");
	*op = (struct plugin_op){ .plugin = c->kernel->plugin, .dev = dev };
	if (dev->info.backend == BACKEND_CPU)
		status = dev->ops->load(dev, &op->code, &blob);
	if (!status)
		status = call(dev, prepare, &p);
	if (!status && p.failed)
		status = failed(op->plugin, "prepare", p.error);
	if (status) {
		if (op->code)
			dev->ops->unload(dev, op->code);
		free(op);
		return status;
	}
	*out = op;
	return ATTUNE_OK;
}

static void free_op(void *arg)
{
	struct plugin_op *op = arg;
	op->plugin->free_op(op->op);
}

static void plugin_op_close(struct plugin_op *op)
{
	if (!op)
		return;
	call(op->dev, free_op, op);
	if (op->code)
		op->dev->ops->unload(op->dev, op->code);
	free(op);
}

static const attune_plugin *plugin_of(const struct plugin_op *op)
{
	return op->plugin;
}

/* ---- a batch ----------------------------------------------------------------------------- */

struct planning {
	struct plugin_plan *plan;
	const attune_plugin_batch *batch;
	size_t workspace;
	int failed;
};

static void make_plan(void *arg)
{
	struct planning *p = arg;
	struct plugin_plan *plan = p->plan;
	p->failed = plan->op->plugin->plan(plan->op->op, p->batch, &plan->plan, &p->workspace,
					   plan->error) != 0;
}

static enum attune_status plugin_plan_open(struct plugin_plan **out, struct plugin_op *op,
					   const attune_plugin_batch *batch, size_t *workspace)
{
	struct planning p = { calloc(1, sizeof *p.plan), batch, 0, 0 };
	if (!p.plan)
		return fail(ATTUNE_NO_MEMORY, "out of memory");
	p.plan->op = op;
	enum attune_status status = call(op->dev, make_plan, &p);
	if (!status && p.failed)
		status = failed(op->plugin, "plan", p.plan->error);
	if (status) {
		free(p.plan);
		return status;
	}
	*out = p.plan;
	*workspace = p.workspace;
	return ATTUNE_OK;
}

static void free_plan(void *arg)
{
	struct plugin_plan *p = arg;
	p->op->plugin->free_plan(p->op->op, p->plan);
}

static void plugin_plan_close(struct plugin_plan *p)
{
	if (!p)
		return;
	call(p->op->dev, free_plan, p);
	free(p);
}

struct storing {
	struct plugin_plan *plan;
	const attune_tensors *tensors;
	void *stream;
	int failed;
};

static void store(void *arg)
{
	struct storing *s = arg;
	struct plugin_op *op = s->plan->op;
	s->failed =
	    op->plugin->store(op->op, s->plan->plan, s->tensors, s->stream, s->plan->error) != 0;
}

static enum attune_status plugin_plan_store(struct plugin_plan *p, const attune_tensors *tensors,
					    void *stream)
{
	struct storing s = { p, tensors, stream, 0 };
	const enum attune_status status =
	    p->op->plugin->store ? call(p->op->dev, store, &s) : ATTUNE_OK;
	return !status && s.failed ? failed(p->op->plugin, "store", p->error) : status;
}

struct launching {
	struct plugin_plan *plan;
	const attune_tensors *tensors;
	void *workspace, *stream;
	enum attune_status status; /* of the CPU device's launch */
	int failed;                /* the plug-in's */
};

static void launch(void *arg)
{
	struct launching *l = arg;
	struct plugin_plan *p = l->plan;
	struct plugin_op *op = p->op;
	if (!op->code) {
		l->failed = op->plugin->launch(op->op, p->plan, l->tensors, l->workspace, l->stream,
					       p->error) != 0;
		return;
	}
	const struct geometry one = { .x = 1, .y = 1, .z = 1, .threads = 1 };
	const struct attune_args args = { .scratch = p };
	l->failed = p->failed;
	if (p->failed)
		return;
	p->tensors = *l->tensors;
	p->workspace = l->workspace;
	l->status = op->dev->ops->launch(op->dev, op->code, &one, &args, sizeof args, l->stream);
	l->failed = p->failed; /* it ran, unless a graph is recorded */
}

static enum attune_status plugin_plan_launch(struct plugin_plan *p, const attune_tensors *tensors,
					     void *workspace, void *stream)
{
	struct launching l = { p, tensors, workspace, stream, ATTUNE_OK, 0 };
	const enum attune_status status = call(p->op->dev, launch, &l);
	if (status || l.status)
		return status ? status : l.status;
	return l.failed ? failed(p->op->plugin, "launch", p->error) : ATTUNE_OK;
}

/* ---- plans that the harness keeps -------------------------------------------------- */
/* The plans of plug-ins that the harness keeps, found by their keys. */

struct kept {
	struct kept *next;
	struct plugin_key key;
	const struct plugin_op *op;
	struct plugin_plan *plan;
};

static struct kept *plans; /* of all ops of this process */

static int is_same(const struct plugin_key *a, const struct plugin_key *b)
{
	return a->owner == b->owner && a->phase == b->phase && a->set == b->set;
}

/* Frees the plans of an op (NULL: of all) and an owner (NULL: of all), or of one key alone. */
static void drop(const struct plugin_op *op, const void *owner, const struct plugin_key *key)
{
	for (struct kept **at = &plans; *at;) {
		struct kept *p = *at;
		if ((op && p->op != op) || (owner && p->key.owner != owner) ||
		    (key && !is_same(&p->key, key))) {
			at = &p->next;
			continue;
		}
		*at = p->next;
		plugin_plan_close(p->plan);
		free(p);
	}
}

void plugin_forget(const void *owner)
{
	drop(NULL, owner, NULL);
}

void plugin_forget_op(struct plugin_op *op)
{
	if (op)
		drop(op, NULL, NULL);
	plugin_op_close(op);
}

enum attune_status plugin_plan(struct plugin_op *op, struct plugin_key key,
			       const attune_plugin_batch *batch, size_t *workspace, double *plan_us)
{
	drop(op, NULL, &key);
	struct kept *p = calloc(1, sizeof *p);
	if (!p)
		return fail(ATTUNE_NO_MEMORY, "out of memory");
	const double start = seconds_now();
	const enum attune_status status = plugin_plan_open(&p->plan, op, batch, workspace);
	if (status) {
		free(p);
		return status;
	}
	*plan_us = 1e6 * (seconds_now() - start);
	*p = (struct kept){ plans, key, op, p->plan };
	plans = p;
	return ATTUNE_OK;
}

/* NULL and a failure: this batch was not planned. */
static struct plugin_plan *find(const struct plugin_op *op, const struct plugin_key *key)
{
	const struct kept *p = plans;
	while (p && !(p->op == op && is_same(&p->key, key)))
		p = p->next;
	if (!p)
		fail(ATTUNE_INVALID, "plug-in %s: this batch was not planned", plugin_of(op)->name);
	return p ? p->plan : NULL;
}

enum attune_status plugin_store(struct plugin_op *op, struct plugin_key key,
				const attune_tensors *tensors, void *stream)
{
	struct plugin_plan *p = find(op, &key);
	return p ? plugin_plan_store(p, tensors, stream) : ATTUNE_INVALID;
}

enum attune_status plugin_launch(struct plugin_op *op, struct plugin_key key,
				 const attune_tensors *tensors, void *workspace, void *stream)
{
	struct plugin_plan *p = find(op, &key);
	return p ? plugin_plan_launch(p, tensors, workspace, stream) : ATTUNE_INVALID;
}
