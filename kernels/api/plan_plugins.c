/* plan_plugins.c - attune_plan_plugins: puts plug-ins into a plan where the rules name them.
 *
 * A plan stays plain data. The part of a plug-in has as `choice` the row behind the op's own
 * choices, and as `resolved` the number of the plug-in's plan in the op's list (plugins.c). */
#include "plan.h"
#include "plugins.h"
#include "kernels/launch/op.h"
#include "kernels/launch/plugin_op.h"
#include "kernels/launch/run.h"
#include "kernels/spec/sized.h"

struct asked {
	const attune_op *op;
	const attune_batch *batch;
	const attune_tensors *tensors;
	unsigned promises;
	void *stream;
	struct plugin_leaf *leaf; /* out */
};

static int rows_are_dense(const attune_op *op, const attune_tensors *t)
{
	const int64_t head = op->shape.head_size, token = head * op->shape.num_query_heads;
	return t->q_head_stride == head && t->out_head_stride == head &&
	       t->q_token_stride == token && t->out_token_stride == token;
}

/* ATTUNE_PLUGIN_E4M3_MATH changes nothing over other caches. ATTUNE_PLUGIN_Q_TYPE_MATH needs no
 * promise: over a cache of q's type all kernels round as it says. */
static unsigned promised(const struct asked *a)
{
	return a->promises | ATTUNE_PLUGIN_Q_TYPE_MATH |
	       (a->op->shape.kv_dtype == ATTUNE_E4M3 ? 0 : ATTUNE_PLUGIN_E4M3_MATH);
}

/* Why the row cannot run this part; NULL: it can. */
static const char *why_not(const struct asked *a, int row, const struct part *p)
{
	const struct ready *r = plugin_row(a->op, row);
	if (!r->plugin)
		return plugin_unused(a->op, &a->op->heuristic->plugins[row]);
	const unsigned needs = plugin_of(r->plugin)->needs;
	const unsigned has = promised(a) | scale_needs_met(a->tensors) |
			     (rows_are_dense(a->op, a->tensors) ? ATTUNE_PLUGIN_DENSE_ROWS : 0);
	if (needs & ~has)
		return "it needs what the tensors do not have or the caller does not promise";
	return r->kernel->space->why_illegal(&r->config, &a->op->shape, p,
					     &a->op->ctx->device.info);
}

/* Lets the row plan the part, and writes its part of the plan. 0: it cannot. */
static int plan_part(const struct asked *a, int row, const struct part *p, attune_part *out)
{
	const attune_op *op = a->op;
	const attune_batch lengths = lengths_from(a->batch, p->seq_begin, p->seq_count);
	const attune_tensors tensors = tensors_from(a->tensors, p->seq_begin);
	const attune_plugin_batch batch = { &lengths, &tensors, a->stream };
	size_t bytes = 0;
	if (row >= op->heuristic->num_plugins)
		return 0;
	*a->leaf = (struct plugin_leaf){ &op->heuristic->plugins[row], why_not(a, row, p) };
	if (a->leaf->why)
		return 0;
	const int number = plugin_plan_keep(op, row, &batch, a->tensors, &bytes);
	if (!number) {
		a->leaf->why = attune_last_error();
		return 0;
	}
	*out = (attune_part){
		.choice = op->num_ready + row,
		.seq_begin = p->seq_begin,
		.seq_count = p->seq_count,
		.min_query = p->min_query,
		.max_query = p->max_query,
		.resolved = number,
		.range_tokens = p->range_tokens,
		.prefill = p->prefill,
		.decode = p->decode,
		/* attune_run aligns the caller's, which is aligned to 16 bytes */
		.workspace = bytes ? bytes + PLUGIN_ALIGN - 16 : 0,
	};
	return 1;
}

/* Puts plug-ins into the parts of a serial plan, as the trees of the phases say. 0: one of them
 * cannot run, or none is named. */
static int plan_parts(const struct asked *a, const struct batch_sums *sums, attune_plan *plan)
{
	int by_plugin = 0, at = 0, done = 1;
	for (int p = DECIDE_PREFILL_PLUGIN; p <= DECIDE_DECODE_PLUGIN && done; p++) {
		const enum phase phase = p == DECIDE_PREFILL_PLUGIN ? PHASE_PREFILL : PHASE_DECODE;
		struct part part;
		if (!part_of_batch(&part, phase, sums, a->batch))
			continue;
		const int row = selector_says(a->op->heuristic, (enum decision)p, &part.f);
		if (row >= 0) {
			done = plan_part(a, row, &part, &plan->part[at]);
			plan->early[at] = 0;
			plan->stand_in[at] = 0;
			by_plugin += done;
		}
		at++;
	}
	return done && by_plugin;
}

/* The same for a batch with both phases, by its own tree. */
static int plan_mixed(const struct asked *a, const struct batch_sums *sums, attune_plan *plan)
{
	struct part whole;
	if (!part_of_batch(&whole, PHASE_ALL, sums, a->batch))
		return 0;
	const int row = selector_says(a->op->heuristic, DECIDE_MIXED_PLUGIN, &whole.f);
	if (row == SAYS_PARTS)
		return !plan_serial(a->op, a->batch, plan) && plan_parts(a, sums, plan);
	if (row < 0 || !plan_part(a, row, &whole, &plan->part[0]))
		return 0;
	plan->part[1] = (attune_part){ .choice = 0 };
	plan->stand_in[0] = plan->stand_in[1] = 0;
	plan->early[0] = plan->early[1] = 0;
	plan->num_parts = 1;
	plan->how = ATTUNE_SERIAL;
	return 1;
}

static const char *wrong_plan(const attune_op *op, const attune_batch *batch,
			      const attune_plan *plan)
{
	const char *error = batch_error(batch, &op->shape);
	if (!error)
		error = plan_error(op, plan);
	if (error)
		return error;
	if (plan->num_seqs != batch->num_seqs ||
	    plan->num_tokens != (batch->num_seqs ? batch->query_start[batch->num_seqs] : 0))
		return "the plan is not of this batch: attune_plan_batch makes it";
	for (int i = 0; i < plan->num_parts; i++)
		if (plan->part[i].choice >= op->num_ready)
			return "the plan has plans of plug-ins already; attune_free_plan frees "
			       "them";
	return NULL;
}

enum attune_status plan_plugins(const attune_op *op, const attune_batch *batch,
				const attune_tensors *tensors, unsigned promises, void *stream,
				attune_plan *plan, struct plugin_leaf *leaf)
{
	const struct asked a = { op, batch, tensors, promises, stream, leaf };
	const unsigned known = ATTUNE_PLUGIN_FINITE_SLOTS | ATTUNE_PLUGIN_E4M3_MATH;
	struct batch_sums sums;
	*leaf = (struct plugin_leaf){ NULL, NULL };
	const char *error = wrong_plan(op, batch, plan);
	if (!error && plan->num_parts)
		error = tensor_error(tensors, &op->shape, op->ctx->device.info.backend);
	if (!error && promises & ~known)
		error = "promises are of ATTUNE_PLUGIN_FINITE_SLOTS and ATTUNE_PLUGIN_E4M3_MATH";
	if (error)
		return fail(ATTUNE_INVALID, "attune_plan_plugins: %s", error);
	if (!op->heuristic || !op->heuristic->num_plugins || !plan->num_parts)
		return ATTUNE_OK;
	if (op->plugins && op->ctx->device.ops->capturing(&op->ctx->device, stream))
		return fail(ATTUNE_INVALID, "attune_plan_plugins: the stream is captured; plug-ins "
					    "plan before");
	attune_plan made = *plan;
	batch_count(&sums, &op->shape, batch, &op->ctx->device.info);
	struct part any;
	const int mixed = part_of_batch(&any, PHASE_PREFILL, &sums, batch) &&
			  part_of_batch(&any, PHASE_DECODE, &sums, batch);
	if (!(mixed ? plan_mixed : plan_parts)(&a, &sums, &made)) {
		attune_free_plan(op, &made); /* of the part that could */
		return ATTUNE_OK;
	}
	made.is_exact = 1;
	made.start = plan->start;
	const size_t part[] = { made.part[0].workspace, made.part[1].workspace };
	made.workspace = parts_workspace(made.how, part, made.num_parts, NULL);
	*plan = made;
	return ATTUNE_OK;
}

enum attune_status attune_plan_plugins(const attune_op *op, const attune_batch *batch,
				       const attune_tensors *tensors, unsigned promises,
				       void *stream, attune_plan *plan)
{
	static const char call[] = "attune_plan_plugins";
	struct plugin_leaf leaf;
	attune_batch own_batch;
	attune_tensors own_tensors;
	attune_plan own;
	if (!op || !batch || !tensors || !plan)
		return fail(ATTUNE_INVALID, "%s: an argument is NULL", call);
	const attune_plan *known = plan_read(plan, &own, call);
	batch = known ? batch_read(batch, &own_batch, call) : NULL;
	tensors = batch ? tensors_read(tensors, &own_tensors, call) : NULL;
	if (!tensors)
		return ATTUNE_INVALID;
	attune_plan made = *known;
	made.size = sizeof made;
	const enum attune_status status =
	    plan_plugins(op, batch, tensors, promises, stream, &made, &leaf);
	sized_give(&plan_sized, plan, &made);
	return status;
}
