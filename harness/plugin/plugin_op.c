/* plugin_op.c - ops and plans of plug-ins, and their launches.
 *
 * On a GPU a launch enqueues work on the stream, which may be captured. A CPU device records cells
 * to replay them; a plug-in's launch is then the only cell of a grid, and finds its arguments by
 * args.scratch in the plan, which outlives the record. */
#include "plugin.h"
#include "harness/base/base.h"
#include "kernels/device/device.h"
#include "kernels/spec/plugin.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct plan {
	struct plan *next;
	struct plugin_key key;
	struct plugin_op *op;
	void *plan;
	/* of the launch that is recorded, on a CPU */
	attune_tensors tensors;
	void *workspace;
	int failed;
	char error[ATTUNE_PLUGIN_ERROR];
};

struct plugin_op {
	const attune_plugin *plugin;
	struct device *dev;
	struct code *code; /* on a CPU: of run_plan */
	void *op;
};

static struct plan *plans; /* of all ops of this process */

static enum attune_status failed(const attune_plugin *p, const char *what, char *error)
{
	error[ATTUNE_PLUGIN_ERROR - 1] = '\0';
	return fail(ATTUNE_UNSUPPORTED, "plug-in %s: %s: %s", p->name, what,
		    *error ? error : "no reason given");
}

static void run_plan(const struct attune_args *args, int x, int y, int z)
{
	struct plan *p = args->scratch;
	(void)x, (void)y, (void)z;
	p->failed |=
	    p->op->plugin->launch(p->op->op, p->plan, &p->tensors, p->workspace, NULL, p->error);
}

enum attune_status plugin_op_open(struct plugin_op **out, struct device *dev,
				  const struct choice *c, const attune_shape *shape)
{
	const attune_plugin *plugin = c->kernel->plugin;
	attune_plugin_device device = plugin_device(&dev->info);
	const struct blob blob = { .cell = run_plan };
	char error[ATTUNE_PLUGIN_ERROR] = "";
	struct plugin_op *op = calloc(1, sizeof *op);
	enum attune_status status = ATTUNE_OK;
	if (!op)
		return fail(ATTUNE_NO_MEMORY, "out of memory");
	*op = (struct plugin_op){ .plugin = plugin, .dev = dev };
	if (dev->info.backend == BACKEND_CPU) {
		device.parallel = cpu_run;
		device.threads = dev;
		status = dev->ops->load(dev, &op->code, &blob);
	}
	if (!status && plugin->prepare(&op->op, shape, c->config.v, &device, error))
		status = failed(plugin, "prepare", error);
	if (status) {
		if (op->code)
			dev->ops->unload(dev, op->code);
		free(op);
		return status;
	}
	*out = op;
	return ATTUNE_OK;
}

static void plan_free(struct plan *p)
{
	p->op->plugin->free_plan(p->op->op, p->plan);
	free(p);
}

static int is_same(const struct plugin_key *a, const struct plugin_key *b)
{
	return a->owner == b->owner && a->phase == b->phase && a->set == b->set;
}

/* Frees the plans of an op (NULL: of all) and an owner (NULL: of all), or of one key alone. */
static void drop(const struct plugin_op *op, const void *owner, const struct plugin_key *key)
{
	for (struct plan **at = &plans; *at;) {
		struct plan *p = *at;
		if ((op && p->op != op) || (owner && p->key.owner != owner) ||
		    (key && !is_same(&p->key, key))) {
			at = &p->next;
			continue;
		}
		*at = p->next;
		plan_free(p);
	}
}

void plugin_forget(const void *owner)
{
	drop(NULL, owner, NULL);
}

void plugin_op_close(struct plugin_op *op)
{
	if (!op)
		return;
	drop(op, NULL, NULL);
	op->plugin->free_op(op->op);
	if (op->code)
		op->dev->ops->unload(op->dev, op->code);
	free(op);
}

enum attune_status plugin_plan(struct plugin_op *op, struct plugin_key key,
			       const attune_plugin_batch *batch, size_t *workspace, double *plan_us)
{
	char error[ATTUNE_PLUGIN_ERROR] = "";
	drop(op, NULL, &key);
	struct plan *p = calloc(1, sizeof *p);
	if (!p)
		return fail(ATTUNE_NO_MEMORY, "out of memory");
	const double start = seconds_now();
	*workspace = 0;
	if (op->plugin->plan(op->op, batch, &p->plan, workspace, error)) {
		free(p);
		return failed(op->plugin, "plan", error);
	}
	*plan_us = 1e6 * (seconds_now() - start);
	p->key = key;
	p->op = op;
	p->next = plans;
	plans = p;
	return ATTUNE_OK;
}

/* NULL and a failure: this batch was not planned. */
static struct plan *find(const struct plugin_op *op, const struct plugin_key *key)
{
	struct plan *p = plans;
	while (p && !(p->op == op && is_same(&p->key, key)))
		p = p->next;
	if (!p)
		fail(ATTUNE_INVALID, "plug-in %s: this batch was not planned", op->plugin->name);
	return p;
}

enum attune_status plugin_store(struct plugin_op *op, struct plugin_key key,
				const attune_tensors *tensors, void *stream)
{
	const attune_plugin *plugin = op->plugin;
	struct plan *p = find(op, &key);
	char error[ATTUNE_PLUGIN_ERROR] = "";
	if (!p)
		return ATTUNE_INVALID;
	if (plugin->abi > 1 && plugin->store &&
	    plugin->store(op->op, p->plan, tensors, stream, error))
		return failed(plugin, "store", error);
	return ATTUNE_OK;
}

enum attune_status plugin_launch(struct plugin_op *op, struct plugin_key key,
				 const attune_tensors *tensors, void *workspace, void *stream)
{
	struct plan *p = find(op, &key);
	if (!p)
		return ATTUNE_INVALID;
	if (p->failed)
		return failed(op->plugin, "launch", p->error);
	p->tensors = *tensors;
	p->workspace = workspace;
	if (op->code) {
		const struct geometry one = { .x = 1, .y = 1, .z = 1, .threads = 1 };
		const struct attune_args args = { .scratch = p };
		const enum attune_status status =
		    op->dev->ops->launch(op->dev, op->code, &one, &args, sizeof args, stream);
		/* it ran, unless a graph is recorded */
		return status || !p->failed ? status : failed(op->plugin, "launch", p->error);
	}
	if (op->plugin->launch(op->op, p->plan, tensors, workspace, stream, p->error))
		return failed(op->plugin, "launch", p->error);
	return ATTUNE_OK;
}
