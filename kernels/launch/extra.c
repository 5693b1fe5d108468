/* SPDX-License-Identifier: Apache-2.0 */
/* extra.c - launches of kernels that an op has beside those that plans name. */
#include "extra.h"
#include "run.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include "kernels/spec/status.h"

static const char *const names[NUM_EXTRAS] = {
	[EXTRA_PAGE_TABLE] = "page_table",   [EXTRA_WRITE_KV] = "write_kv",
	[EXTRA_RAGGED] = "warpgroup_ragged", [EXTRA_WIDEN_SINKS] = "widen_sinks",
	[EXTRA_SINK_ROWS] = "sink_rows",     [EXTRA_LSE] = "lse"
};

int sinks_are_widened(const attune_shape *s)
{
	return s->has_sinks && s->sinks_dtype != ATTUNE_F32;
}

static int is_needed(const attune_shape *s, enum extra e)
{
	switch (e) {
	case EXTRA_WIDEN_SINKS: return sinks_are_widened(s);
	case EXTRA_SINK_ROWS: return s->has_sinks && s->has_lse;
	case EXTRA_LSE: return s->has_lse;
	default: return 1;
	}
}

int extra_is_vital(enum extra e)
{
	return e == EXTRA_WIDEN_SINKS || e == EXTRA_SINK_ROWS || e == EXTRA_LSE;
}

const struct kernel *extra_kernel(enum backend backend, const attune_shape *s, enum extra e)
{
	return is_needed(s, e) ? kernel_find(backend, names[e]) : NULL;
}

const struct kernel *kernel_to_end(const attune_op *op, const struct part *p,
				   const attune_tensors *t, struct config *c)
{
	const struct kernel *k = kernel_find(op->ctx->device.info.backend, names[EXTRA_RAGGED]);
	if (!k || !op->extra[EXTRA_RAGGED] || op->ctx->is_invariant || !end_is_known(t) ||
	    !maps_take(&op->shape, t, op->shape.page_size))
		return NULL;
	config_default(c, k->space);
	return k->space->why_illegal(c, &op->shape, p, &op->ctx->device.info) ? NULL : k;
}

enum attune_status extra_launch(const attune_op *op, enum extra e, unsigned x, unsigned y,
				const void *args, size_t bytes, void *stream)
{
	struct device *dev = &op->ctx->device;
	const struct kernel *k = kernel_find(dev->info.backend, names[e]);
	struct geometry g;
	struct config c;
	if (!k || !op->extra[e])
		return fail(ATTUNE_UNSUPPORTED, "the library carries no code of %s for %s",
			    names[e], dev->info.arch);
	config_default(&c, k->space);
	k->space->geometry(&c, &op->shape, NULL, &dev->info, &g);
	g.x = x;
	g.y = y;
	return dev->ops->launch(dev, op->extra[e], &g, args, bytes, stream);
}
