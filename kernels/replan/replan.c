/* replan.c - recorded steps (attune_record_*): attune_prepare puts the heuristic into device
 * memory; each launch gets sizes that hold within the caller's bounds. */
#include "replan.h"
#include "kernels/launch/run.h"
#include "kernels/ship/shipped.h"
#include "kernels/spec/sized.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* ---- made with the op ------------------------------------------------------------------- */

static enum attune_status load(attune_op *op, const char *kernel, const char *flags,
			       struct code **code)
{
	struct device *dev = &op->ctx->device;
	const struct shipped *s = shipped_for(dev, kernel, flags);
	return s ? dev->ops->load(dev, code, &s->blob) : ATTUNE_OK;
}

/* Loads the first legal choice of ring_list; those of the heuristic precede the default. The op
 * itself must have loaded the choice, too, so that plans of attune_plan_recorded can be run. */
static enum attune_status load_list(attune_op *op)
{
	const struct kernel *k = kernel_find(BACKEND_GPU, "ring_list_recorded");
	const struct kernel *list = kernel_find(BACKEND_GPU, "ring_list");
	struct recorder *r = op->recorder;
	enum attune_status status = ATTUNE_OK;
	for (int i = 0; i < op->num_ready && !status && !r->list_code; i++) {
		const struct ready *c = &op->ready[i];
		char flags[MAX_FLAGS];
		if (c->kernel != list || !c->code ||
		    k->space->why_illegal(&c->config, &op->shape, NULL, &op->ctx->device.info))
			continue;
		binary_flags(flags, sizeof flags, k, &c->config, &op->shape);
		status = load(op, k->name, flags, &r->list_code);
		r->alone[RECORDED_DECODE] = r->list_code ? c : NULL;
	}
	return status;
}

/* Ranks choices of warpgroup for unknown lengths, by the size of blocks and tiles; 0: not suited,
 * or another kernel. */
static int rank_prefill(const attune_op *op, const struct ready *r)
{
	const struct space *s = r->kernel->space;
	if (r->kernel != kernel_find(BACKEND_GPU, "warpgroup") || !r->code ||
	    s->why_illegal(&r->config, &op->shape, NULL, &op->ctx->device.info) ||
	    !config_value(&r->config, s, "PERSISTENT", 0) ||
	    config_value(&r->config, s, "PACKED", 0) ||
	    config_value(&r->config, s, "SPARE_UNITS", 0))
		return 0;
	return config_value(&r->config, s, "BLOCK_M", 0) * 1000 +
	       config_value(&r->config, s, "TILE_SIZE", 0);
}

/* Finds the choice of warpgroup among the heuristic's choices, else among the others. */
static void find_prefill(attune_op *op)
{
	int best = 0;
	for (int i = 0; i < op->num_ready && (i < op->num_choices || !best); i++) {
		const int rank = rank_prefill(op, &op->ready[i]);
		if (rank > best) {
			best = rank;
			op->recorder->alone[RECORDED_PREFILL] = &op->ready[i];
		}
	}
}

static enum attune_status load_all(attune_op *op)
{
	struct recorder *r = op->recorder;
	char flags[MAX_FLAGS];
	enum attune_status status = load(op, "planner", "", &r->planner);
	if (!status)
		status = load_list(op);
	find_prefill(op);
	for (int w = 0; w < NUM_RECORDED && !status; w++) {
		bodies_of(&r->bodies[w], selector_for(&op->ctx->device.info, op->shape.dtype), w,
			  &op->shape);
		bodies_flags(flags, sizeof flags, &r->bodies[w], &op->shape);
		status = load(op, "recorded", flags, &r->kernel[w]);
	}
	return status;
}

/* Whether each part has a default that can run any lengths: one without segments. */
static int can_always(const struct recorded_table *t)
{
	int can[NUM_RECORDED] = { 0 };
	for (int i = 0; i < t->num_choices; i++)
		for (int w = 0; w < NUM_RECORDED; w++)
			can[w] |= !t->choice[i].is_cut && t->choice[i].rank[w] >= 0 &&
				  t->choice[i].body[w] >= 0;
	return can[RECORDED_PREFILL] && can[RECORDED_DECODE];
}

/* Without a kernel for the shape's layout op->recorder is freed. */
static enum attune_status send_table(attune_op *op)
{
	struct recorder *r = op->recorder;
	struct device *dev = &op->ctx->device;
	r->table = record_table(r, op->heuristic, op->ready, op->first_default, op->num_ready,
				&op->shape, &dev->info, &r->table_bytes);
	if (!r->table)
		return fail(ATTUNE_NO_MEMORY, "attune_prepare: out of memory");
	if (!can_always(r->table)) {
		recorder_free(op);
		return ATTUNE_OK;
	}
	const enum attune_status status = dev->ops->alloc(dev, &r->device_table, r->table_bytes);
	return status ? status : dev->ops->put(dev, r->device_table, r->table, r->table_bytes);
}

enum attune_status recorder_make(attune_op *op)
{
	enum attune_status status;
	if (op->ctx->device.info.backend != BACKEND_GPU)
		return ATTUNE_OK;
	op->recorder = calloc(1, sizeof *op->recorder);
	if (!op->recorder)
		return fail(ATTUNE_NO_MEMORY, "attune_prepare: out of memory");
	status = load_all(op);
	if (!status && op->recorder->planner && op->recorder->kernel[RECORDED_PREFILL] &&
	    op->recorder->kernel[RECORDED_DECODE])
		return send_table(op);
	recorder_free(op);
	return status;
}

void recorder_free(attune_op *op)
{
	struct recorder *r = op->recorder;
	struct device *dev = &op->ctx->device;
	if (!r)
		return;
	dev->ops->unload(dev, r->planner);
	for (int w = 0; w < NUM_RECORDED; w++)
		dev->ops->unload(dev, r->kernel[w]);
	dev->ops->unload(dev, r->list_code);
	dev->ops->release(dev, r->device_table);
	free(r->table);
	free(r);
	op->recorder = NULL;
}

/* ---- sizes ------------------------------------------------------------------------------ */

static const char *bounds_error(const attune_bounds *b)
{
	if (b->num_seqs < 1 || b->max_query < 1 || b->num_tokens < 1)
		return "num_seqs, max_query and num_tokens must be 1 or more";
	if (b->max_query > b->num_tokens)
		return "max_query must not be above num_tokens";
	return NULL;
}

/* The most Q blocks of any choice: those of 16 rows. */
static long long most_blocks(const attune_op *op, const attune_bounds *b)
{
	const int group = op->shape.num_query_heads / op->shape.num_kv_heads;
	const int block_q = group < 16 ? 16 / group : 1;
	return ((long long)b->num_tokens / block_q + b->num_seqs) * op->shape.num_kv_heads *
	       ((group + 15) / 16);
}

static size_t plan_bytes(const attune_op *op, const attune_bounds *b)
{
	return sizeof(struct recorded_plan) + (size_t)most_blocks(op, b) * sizeof(int);
}

static size_t most_partials(const attune_op *op, const attune_bounds *b)
{
	const struct recorded_table *t = op->recorder->table;
	const long long bytes =
	    partial_bytes((long long)b->num_seqs * b->max_query, op->shape.num_query_heads,
			  t->values[t->num_values - 1], op->shape.head_size);
	return (size_t)min_of(bytes, MAX_PARTIAL_BYTES);
}

/* The workspace of ring_list depends on the grid alone, not on lengths. */
static size_t list_workspace(const attune_op *op)
{
	const struct ready *list = op->recorder->alone[RECORDED_DECODE];
	const struct part any = { .seq_count = 1, .max_query = 1 };
	return list ? part_workspace(list->kernel, &list->config, &op->shape, &any,
				     &op->ctx->device.info)
		    : 0;
}

/* Whether the bodies of a part may have work in a step within the bounds. */
static int has_bodies(const attune_op *op, const attune_bounds *b, int which)
{
	const int has_part = which == RECORDED_DECODE || b->max_query > DECODE_MAX_QUERY;
	return has_part && b->max_query > op->recorder->table->alone_query[which];
}

/* The launches run in turn and share the workspace. */
static size_t most_workspace(const attune_op *op, const attune_bounds *b)
{
	const size_t list = list_workspace(op);
	const int any = has_bodies(op, b, RECORDED_PREFILL) || has_bodies(op, b, RECORDED_DECODE);
	const size_t bodies = any ? most_partials(op, b) : 0;
	return bodies > list ? bodies : list;
}

static const char *why_unrecorded(const attune_op *op)
{
	if (op->ctx->device.info.backend == BACKEND_CPU)
		return "a CPU records no graphs";
	return op->ctx->is_invariant ? "with ATTUNE_INVARIANT=1 no step plans on the device"
				     : "the library carries no recorded kernels for this shape";
}

/* The checks of all calls. *b: the program's bounds; afterwards those in this version's size. */
static enum attune_status check(const attune_op *op, const attune_bounds **b, attune_bounds *own,
				const char *call)
{
	if (!op || !*b)
		return fail(ATTUNE_INVALID, "%s: an argument is NULL", call);
	*b = bounds_read(*b, own, call);
	if (!*b)
		return ATTUNE_INVALID;
	const char *error = bounds_error(*b);
	if (error)
		return fail(ATTUNE_INVALID, "%s: %s", call, error);
	if (!op->recorder)
		return fail(ATTUNE_UNSUPPORTED, "%s: %s", call, why_unrecorded(op));
	if (most_blocks(op, *b) > INT_MAX / MAX_RECORDED_VALUES / 8)
		return fail(ATTUNE_UNSUPPORTED, "%s: %d tokens are too many", call,
			    (*b)->num_tokens);
	return ATTUNE_OK;
}

enum attune_status attune_record_sizes(const attune_op *op, const attune_bounds *bounds,
				       size_t *plan, size_t *workspace)
{
	attune_bounds own;
	const enum attune_status status = check(op, &bounds, &own, "attune_record_sizes");
	if (status)
		return status;
	if (plan)
		*plan = plan_bytes(op, bounds);
	if (workspace)
		*workspace = most_workspace(op, bounds);
	return ATTUNE_OK;
}

/* ---- launches --------------------------------------------------------------------------- */

enum attune_status attune_record_plan(const attune_op *op, const attune_bounds *bounds,
				      const int32_t *query_start, const int32_t *seq_lens,
				      void *plan, size_t bytes, void *stream)
{
	attune_bounds own;
	const enum attune_status status = check(op, &bounds, &own, "attune_record_plan");
	if (status)
		return status;
	if (!query_start || !seq_lens || !plan)
		return fail(ATTUNE_INVALID, "attune_record_plan: an argument is NULL");
	if (bytes < plan_bytes(op, bounds))
		return fail(ATTUNE_TOO_SMALL,
			    "attune_record_plan: plan has %zu bytes, %zu are needed", bytes,
			    plan_bytes(op, bounds));
	const struct planner_args a = { .query_start = query_start,
					.seq_lens = seq_lens,
					.table = op->recorder->device_table,
					.plan = plan,
					.num_seqs = bounds->num_seqs,
					.counters = (int)most_blocks(op, bounds) };
	struct device *dev = &op->ctx->device;
	struct geometry g;
	const struct kernel *k = kernel_find(BACKEND_GPU, "planner");
	k->space->geometry(&(struct config){ { 0 } }, &op->shape, NULL, &dev->info, &g);
	return dev->ops->launch(dev, op->recorder->planner, &g, &a, sizeof a, stream);
}

static enum attune_status run_recorded(const attune_op *op, int which, struct attune_args a,
				       void *plan, void *workspace, void *stream)
{
	struct device *dev = &op->ctx->device;
	const struct kernel *k = kernel_find(BACKEND_GPU, "recorded");
	struct recorded_plan *p = plan;
	struct config c = { { op->recorder->bodies[which].warps } };
	struct geometry g;
	k->space->geometry(&c, &op->shape, NULL, &dev->info, &g);
	a.schedule = (const int *)&p->part[which];
	a.scratch = p + 1;
	a.partial_ml = workspace;
	return dev->ops->launch(dev, op->recorder->kernel[which], &g, &a, sizeof a, stream);
}

/* A launch of ring_list that reads the part's range from the plan. If the plan has bodies for
 * decodes, this launch ends at once; if it has ring_list, theirs does. */
static enum attune_status run_listed(const attune_op *op, struct attune_call *call, void *plan,
				     void *workspace, size_t bytes, void *stream)
{
	const struct recorder *r = op->recorder;
	const struct ready *list = r->alone[RECORDED_DECODE];
	const struct launchable l = { .kernel = list->kernel,
				      .config = &list->config,
				      .code = r->list_code };
	const struct part any = { .seq_count = 1, .max_query = 1 };
	struct recorded_plan *p = plan;
	call->args.schedule = (const int *)&p->part[RECORDED_DECODE];
	return run_part(&op->ctx->device, &l, &op->shape, &any, call, workspace, bytes, ALL_STEPS,
			stream);
}

/* A launch of warpgroup over all sequences; it takes those that are not decodes. */
static enum attune_status run_prefill(const attune_op *op, const attune_bounds *b,
				      const struct attune_call *call, void *stream)
{
	const struct ready *r = op->recorder->alone[RECORDED_PREFILL];
	struct config c = r->config;
	c.v[r->kernel->space->formula_axis] = 1;
	const struct launchable l = { .kernel = r->kernel, .config = &c, .code = r->code };
	const struct part most = { .seq_count = b->num_seqs,
				   .min_query = DECODE_MAX_QUERY + 1,
				   .max_query = b->max_query,
				   .range_tokens = b->num_tokens };
	return run_part(&op->ctx->device, &l, &op->shape, &most, call, NULL, 0, ALL_STEPS, stream);
}

enum attune_status attune_record_run(const attune_op *op, const attune_bounds *bounds, void *plan,
				     const attune_tensors *tensors, void *workspace,
				     size_t workspace_bytes, void *stream)
{
	static const char call[] = "attune_record_run";
	attune_bounds own_bounds;
	attune_tensors own_tensors;
	enum attune_status status = check(op, &bounds, &own_bounds, call);
	if (status)
		return status;
	if (!plan || !tensors)
		return fail(ATTUNE_INVALID, "%s: an argument is NULL", call);
	tensors = tensors_read(tensors, &own_tensors, call);
	if (!tensors)
		return ATTUNE_INVALID;
	const char *error = tensor_error(tensors, &op->shape, op->ctx->device.info.backend);
	if (error)
		return fail(ATTUNE_INVALID, "%s: %s", call, error);
	const size_t need = most_workspace(op, bounds);
	if (need > workspace_bytes || (need && !workspace))
		return fail(ATTUNE_TOO_SMALL, "workspace has %zu bytes, %zu are needed",
			    workspace ? workspace_bytes : 0, need);
	struct attune_call c;
	call_from_tensors(&c, &op->shape, tensors, bounds->num_seqs);
	if (has_bodies(op, bounds, RECORDED_PREFILL))
		status = run_recorded(op, RECORDED_PREFILL, c.args, plan, workspace, stream);
	else if (bounds->max_query > DECODE_MAX_QUERY)
		status = run_prefill(op, bounds, &c, stream);
	if (!status && has_bodies(op, bounds, RECORDED_DECODE))
		status = run_recorded(op, RECORDED_DECODE, c.args, plan, workspace, stream);
	if (!status && op->recorder->alone[RECORDED_DECODE])
		status = run_listed(op, &c, plan, workspace, workspace_bytes, stream);
	return status;
}

/* The plan is at the head of the workspace. */
static size_t head_bytes(const attune_op *op, const attune_bounds *b)
{
	return (plan_bytes(op, b) + 15) / 16 * 16;
}

size_t record_workspace(const attune_op *op, const attune_bounds *b)
{
	return op->recorder && !bounds_error(b) ? head_bytes(op, b) + most_workspace(op, b) : 0;
}

enum attune_status record_in_run(const attune_op *op, const attune_plan *plan,
				 const attune_tensors *t, void *workspace, size_t bytes,
				 void *stream)
{
	attune_bounds own, made = { .size = sizeof made,
				    .num_seqs = plan->num_seqs,
				    .num_tokens = plan->num_tokens };
	const attune_bounds *bounds = &made;
	for (int i = 0; i < plan->num_parts; i++)
		made.max_query = (int)max_of(made.max_query, plan->part[i].max_query);
	if (check(op, &bounds, &own, "attune_run"))
		return fail(ATTUNE_UNSUPPORTED,
			    "attune_run: this stream is being captured, and %s; leave "
			    "plan.lengths at ATTUNE_LENGTHS_PICKED and keep a graph for each plan",
			    op->ctx->is_invariant
				? "with ATTUNE_INVARIANT=1 no replay plans anew"
				: "the library carries no kernels for this shape that could plan "
				  "anew at each replay");
	const size_t head = head_bytes(op, bounds), need = record_workspace(op, bounds);
	if (bytes < need || !workspace)
		return fail(ATTUNE_TOO_SMALL,
			    "attune_run: on a stream that is being captured, the workspace must "
			    "have %zu bytes (attune_max_workspace); it has %zu",
			    need, workspace ? bytes : 0);
	const enum attune_status status =
	    attune_record_plan(op, bounds, t->query_start, t->seq_lens, workspace, head, stream);
	return status ? status
		      : attune_record_run(op, bounds, workspace, t, (char *)workspace + head,
					  bytes - head, stream);
}

/* ---- the device's plan, computed on the host -------------------------------------------- */

enum attune_status attune_plan_recorded(const attune_op *op, const attune_bounds *bounds,
					const attune_batch *batch, attune_plan *plan)
{
	static const char call[] = "attune_plan_recorded";
	struct recorded_plan picked;
	attune_bounds own_bounds;
	attune_batch own_batch;
	attune_plan own;
	const enum attune_status status = check(op, &bounds, &own_bounds, call);
	if (status)
		return status;
	if (!batch || !plan)
		return fail(ATTUNE_INVALID, "%s: an argument is NULL", call);
	batch = batch_read(batch, &own_batch, call);
	attune_plan *made = sized_make(&plan_sized, plan, &own, call);
	if (!batch || !made)
		return ATTUNE_INVALID;
	const char *error = batch_error(batch, &op->shape);
	if (!error && batch->num_seqs != bounds->num_seqs)
		error = "the batch must have the bounds' number of sequences";
	if (error)
		return fail(ATTUNE_INVALID, "%s: %s", call, error);
	record_pick(&picked, op->recorder->table, batch);
	*made = (attune_plan){ .size = sizeof *made,
			       .op = op->id,
			       .num_seqs = batch->num_seqs,
			       .num_tokens = batch->query_start[batch->num_seqs] };
	for (int w = 0; w < NUM_RECORDED; w++)
		if (picked.part[w].choice >= 0)
			record_put(made, op, &picked.part[w], batch);
	for (int i = 0; i < ATTUNE_PLAN_SLICES; i++)
		made->longest[i] = bounds->max_query;
	sized_give(&plan_sized, plan, made);
	return ATTUNE_OK;
}
