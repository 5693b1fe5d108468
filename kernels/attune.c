/* attune.c - the public API: contexts, prepared ops, plans, runs. */
#include "heuristics.h"
#include "run.h"
#include "shipped.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct attune_context {
	struct device device;
	int adopted; /* the device is somebody else's to close */
	char name[128];
};

/* A choice with its code loaded. */
struct ready {
	const struct kernel *kernel;
	struct config config;
	struct code *code; /* NULL: not carried, or illegal for the shape */
};

struct attune_op {
	attune_context *ctx;
	attune_shape shape;
	const struct selector *heuristic; /* NULL: only the defaults */
	struct code *reduce;
	int num_choices; /* of the heuristic; the kernels' defaults follow */
	int num_ready;
	struct ready *ready;
};

static void name_context(attune_context *ctx)
{
	const struct device_info *d = &ctx->device.info;
	snprintf(ctx->name, sizeof ctx->name, "%s (%s, %d %s)", d->name, d->arch, d->units,
		 d->backend == BACKEND_CPU ? "threads" : "SMs");
}

enum attune_status attune_open(attune_context **out, const char *device)
{
	enum attune_status status;
	attune_context *ctx;
	if (!out)
		return fail(ATTUNE_INVALID, "attune_open: ctx is NULL");
	*out = NULL;
	ctx = calloc(1, sizeof *ctx);
	if (!ctx)
		return fail(ATTUNE_NO_MEMORY, "attune_open: out of memory");
	status = device_open(&ctx->device, device);
	if (status) {
		free(ctx);
		return status;
	}
	name_context(ctx);
	*out = ctx;
	return ATTUNE_OK;
}

enum attune_status attune_adopt(attune_context **out, const struct device *dev)
{
	attune_context *ctx = calloc(1, sizeof *ctx);
	*out = ctx;
	if (!ctx)
		return fail(ATTUNE_NO_MEMORY, "attune_adopt: out of memory");
	ctx->device = *dev;
	ctx->adopted = 1;
	name_context(ctx);
	return ATTUNE_OK;
}

void attune_close(attune_context *ctx)
{
	if (!ctx)
		return;
	if (!ctx->adopted)
		device_close(&ctx->device);
	free(ctx);
}

const char *attune_device_name(const attune_context *ctx)
{
	return ctx->name;
}

/* Loads the binary of a choice; one that is not carried stays NULL. */
static enum attune_status load(struct device *dev, const struct kernel *k, const struct config *c,
			       const attune_shape *shape, struct code **code)
{
	char flags[MAX_FLAGS];
	const struct shipped *s;
	if (k->space->why_illegal(c, shape, NULL, &dev->info))
		return ATTUNE_OK;
	binary_flags(flags, sizeof flags, k, c, shape);
	s = shipped_find(&dev->info, k->name, flags);
	return s ? dev->ops->load(dev, code, &s->blob) : ATTUNE_OK;
}

/* Choices that differ only in launch-time tunables share their code. */
static struct code *loaded_already(const attune_op *op, const struct ready *r)
{
	char mine[MAX_FLAGS], other[MAX_FLAGS];
	binary_flags(mine, sizeof mine, r->kernel, &r->config, &op->shape);
	for (const struct ready *o = op->ready; o < r; o++) {
		binary_flags(other, sizeof other, o->kernel, &o->config, &op->shape);
		if (o->code && o->kernel == r->kernel && !strcmp(mine, other))
			return o->code;
	}
	return NULL;
}

static enum attune_status add_ready(attune_op *op, const struct kernel *k, const struct config *c)
{
	struct ready *r = &op->ready[op->num_ready++];
	r->kernel = k;
	r->config = *c;
	r->code = loaded_already(op, r);
	return r->code ? ATTUNE_OK : load(&op->ctx->device, k, c, &op->shape, &r->code);
}

static enum attune_status add_choices(attune_op *op)
{
	enum attune_status status = ATTUNE_OK;
	const enum backend backend = op->ctx->device.info.backend;
	for (int i = 0; !status && i < op->num_choices; i++) {
		const struct selector_row *row = &op->heuristic->choices[i];
		const struct kernel *k = kernel_find(backend, row->kernel);
		const char *where;
		struct config c;
		if (!k || !config_parse(&c, k->space, row->text, &where))
			return fail(ATTUNE_DEVICE_ERROR,
				    "heuristic %s names an unknown variant: %s %s",
				    op->heuristic->gpu, row->kernel, row->text);
		status = add_ready(op, k, &c);
	}
	return status;
}

static int num_fallbacks(void)
{
	int n = 0;
	while (attune_fallbacks[n])
		n++;
	return n;
}

static enum attune_status add_defaults(attune_op *op)
{
	enum attune_status status = ATTUNE_OK;
	const enum backend backend = op->ctx->device.info.backend;
	for (const char *const *name = attune_fallbacks; !status && *name; name++) {
		const struct kernel *k = kernel_find(backend, *name);
		struct config c;
		config_default(&c, k->space);
		status = add_ready(op, k, &c);
	}
	return status;
}

static enum attune_status add_reduce(attune_op *op)
{
	struct config c;
	const struct kernel *k = kernel_find(op->ctx->device.info.backend, "reduce");
	config_default(&c, k->space);
	return load(&op->ctx->device, k, &c, &op->shape, &op->reduce);
}

static int any_ready(const attune_op *op)
{
	for (int i = 0; i < op->num_ready; i++)
		if (op->ready[i].code)
			return 1;
	return 0;
}

enum attune_status attune_prepare(attune_context *ctx, const attune_shape *shape, attune_op **out)
{
	enum attune_status status;
	const char *error;
	attune_op *op;
	if (!ctx || !shape || !out)
		return fail(ATTUNE_INVALID, "attune_prepare: an argument is NULL");
	*out = NULL;
	error = shape_error(shape);
	if (error)
		return fail(ATTUNE_INVALID, "attune_prepare: %s", error);
	op = calloc(1, sizeof *op);
	if (!op)
		return fail(ATTUNE_NO_MEMORY, "attune_prepare: out of memory");
	op->ctx = ctx;
	op->shape = *shape;
	op->heuristic = selector_for(&ctx->device.info);
	op->num_choices = op->heuristic ? op->heuristic->num_choices : 0;
	op->ready = calloc((size_t)(op->num_choices + num_fallbacks()), sizeof *op->ready);
	status = op->ready ? ATTUNE_OK : fail(ATTUNE_NO_MEMORY, "attune_prepare: out of memory");
	if (!status)
		status = add_choices(op);
	if (!status)
		status = add_defaults(op);
	if (!status)
		status = add_reduce(op);
	if (!status && !any_ready(op))
		status = fail(ATTUNE_UNSUPPORTED,
			      "no kernel for head size %d, %s queries and %s cache on %s",
			      shape->head_size, dtype_name(shape->dtype),
			      dtype_name(shape->kv_dtype), ctx->name);
	if (status) {
		attune_release(op);
		return status;
	}
	*out = op;
	return ATTUNE_OK;
}

void attune_release(attune_op *op)
{
	if (!op)
		return;
	const struct device_ops *ops = op->ctx->device.ops;
	for (int i = 0; i < op->num_ready; i++) {
		struct code *code = op->ready[i].code;
		for (int j = i + 1; j < op->num_ready; j++)
			if (op->ready[j].code == code)
				op->ready[j].code = NULL;
		if (code)
			ops->unload(&op->ctx->device, code);
	}
	if (op->reduce)
		ops->unload(&op->ctx->device, op->reduce);
	free(op->ready);
	free(op);
}

/* Whether a choice can run a part, and as what: without formulas. */
static int usable(const attune_op *op, int id, const struct part *p, struct config *as)
{
	const struct device_info *d = &op->ctx->device.info;
	const struct ready *r;
	struct geometry g;
	if (id < 0 || id >= op->num_ready)
		return 0;
	r = &op->ready[id];
	if (!r->code || config_resolve(as, &r->config, r->kernel, &op->shape, p, d))
		return 0;
	r->kernel->space->geometry(as, &op->shape, p, d, &g);
	return g.segments <= 1 || op->reduce;
}

/* The heuristic's choice where it may be used, else a default; -1: none. */
static int choose(const attune_op *op, int wanted, const struct part *p, struct config *as)
{
	const int few_rows = p->max_query <= DECODE_MAX_QUERY;
	if (usable(op, wanted, p, as))
		return wanted;
	for (int i = 0; i < num_fallbacks(); i++) {
		int at = op->num_choices + (few_rows ? num_fallbacks() - 1 - i : i);
		if (usable(op, at, p, as))
			return at;
	}
	return -1;
}

/* What a plan's part runs: its choice, the formula replaced by the value that
 * attune_plan_batch worked out. NULL: not a part of this op's plans. */
static const struct ready *planned(const attune_op *op, const attune_part *p, struct config *c)
{
	if (p->choice < 0 || p->choice >= op->num_ready || !op->ready[p->choice].code)
		return NULL;
	const struct ready *r = &op->ready[p->choice];
	*c = r->config;
	if (!config_is_formula(c, r->kernel->space))
		return r;
	c->v[r->kernel->space->formula_axis] = p->resolved;
	return p->resolved > 0 ? r : NULL;
}

static enum attune_status add_part(const attune_op *op, attune_plan *plan, int wanted,
				   const struct part *p)
{
	attune_part *out = &plan->part[plan->num_parts];
	struct config c;
	const int id = choose(op, wanted, p, &c);
	if (id < 0)
		return fail(ATTUNE_UNSUPPORTED,
			    "no kernel can run queries of %d tokens over %lld keys", p->max_query,
			    p->f.max_seq);
	const struct kernel *k = op->ready[id].kernel;
	*out = (attune_part){
		.choice = id,
		.seq_begin = p->seq_begin,
		.seq_count = p->seq_count,
		.min_query = p->min_query,
		.max_query = p->max_query,
		.resolved = k->space->formula_axis < 0 ? 0 : c.v[k->space->formula_axis],
		.range_tokens = p->range_tokens,
		.workspace = part_workspace(k, &c, &op->shape, p, &op->ctx->device.info),
	};
	if (out->workspace > plan->workspace)
		plan->workspace = out->workspace; /* parts run one after the other */
	plan->num_parts++;
	return ATTUNE_OK;
}

enum attune_status attune_plan_batch(const attune_op *op, const attune_batch *batch,
				     attune_plan *plan)
{
	struct selection s;
	struct config c;
	enum attune_status status = ATTUNE_OK;
	const char *error;
	if (!op || !batch || !plan)
		return fail(ATTUNE_INVALID, "attune_plan_batch: an argument is NULL");
	error = batch_error(batch);
	if (error)
		return fail(ATTUNE_INVALID, "attune_plan_batch: %s", error);
	memset(plan, 0, sizeof *plan);
	plan->num_seqs = batch->num_seqs;
	select_choices(&s, op->heuristic, &op->shape, batch, &op->ctx->device.info);
	if (s.num_parts == 1 && !usable(op, s.choice[0], &s.part[0], &c))
		select_apart(&s, op->heuristic, &op->shape, batch, &op->ctx->device.info);
	for (int i = 0; !status && i < s.num_parts; i++)
		status = add_part(op, plan, s.choice[i], &s.part[i]);
	return status;
}

/* 16-byte copies: GPU kernels move 8 elements of 16 bits at a time. */
static const char *tensor_error(const attune_op *op, const attune_tensors *t)
{
	const int64_t strides[] = { t->q_token_stride,  t->q_head_stride, t->out_token_stride,
				    t->out_head_stride, t->k_page_stride, t->k_slot_stride,
				    t->k_head_stride,   t->v_page_stride, t->v_slot_stride,
				    t->v_head_stride };
	if (!t->out || !t->q || !t->k_cache || !t->v_cache || !t->block_table || !t->query_start ||
	    !t->seq_lens)
		return "out, q, k_cache, v_cache, block_table, query_start and seq_lens must be "
		       "given";
	if ((op->shape.has_sinks && !t->sinks) || (op->shape.has_alibi && !t->alibi_slopes))
		return "the shape announces sinks or ALiBi slopes that are not given";
	if (op->ctx->device.info.backend == BACKEND_CPU)
		return NULL;
	for (size_t i = 0; i < COUNT(strides); i++)
		if (strides[i] % 8)
			return "on a GPU all strides must be multiples of 8 elements";
	if (((uintptr_t)t->out | (uintptr_t)t->q | (uintptr_t)t->k_cache | (uintptr_t)t->v_cache) %
	    16)
		return "on a GPU out, q, k_cache and v_cache must be 16-byte aligned";
	return NULL;
}

enum attune_status attune_run(const attune_op *op, const attune_plan *plan,
			      const attune_tensors *tensors, void *workspace,
			      size_t workspace_bytes, void *stream)
{
	struct attune_args args;
	const char *error;
	if (!op || !plan || !tensors)
		return fail(ATTUNE_INVALID, "attune_run: an argument is NULL");
	if (!plan->num_parts)
		return ATTUNE_OK;
	error = tensor_error(op, tensors);
	if (error)
		return fail(ATTUNE_INVALID, "attune_run: %s", error);
	args_from_tensors(&args, &op->shape, tensors, plan->num_seqs);
	for (int i = 0; i < plan->num_parts; i++) {
		const attune_part *p = &plan->part[i];
		struct config c;
		const struct ready *r = planned(op, p, &c);
		if (!r)
			return fail(ATTUNE_INVALID, "attune_run: the plan is not of this op");
		const struct launchable l = { r->kernel, &c, r->code, op->reduce };
		const struct part part = { .seq_begin = p->seq_begin,
					   .seq_count = p->seq_count,
					   .min_query = p->min_query,
					   .max_query = p->max_query,
					   .range_tokens = p->range_tokens };
		enum attune_status status = run_part(&op->ctx->device, &l, &op->shape, &part, &args,
						     workspace, workspace_bytes, stream);
		if (status)
			return status;
	}
	return ATTUNE_OK;
}

/* Of a formula: for the value that needs most. */
static size_t most_partials(const attune_op *op, const struct ready *r, const struct part *p)
{
	const struct space *s = r->kernel->space;
	const struct device_info *d = &op->ctx->device.info;
	struct config c = r->config;
	size_t most = 0;
	if (!config_is_formula(&c, s))
		return part_workspace(r->kernel, &c, &op->shape, p, d);
	for (int i = 0; i < s->axis[s->formula_axis].num_values; i++) {
		c.v[s->formula_axis] = s->axis[s->formula_axis].values[i];
		const size_t need = part_workspace(r->kernel, &c, &op->shape, p, d);
		most = need > most ? need : most;
	}
	return most;
}

enum attune_status attune_max_workspace(const attune_op *op, int max_seqs, int max_tokens,
					size_t *bytes)
{
	if (!op || !bytes || max_seqs < 0 || max_tokens < 0)
		return fail(ATTUNE_INVALID, "attune_max_workspace: sizes must be 0 or more");
	const struct part p = { .seq_count = max_seqs,
				.max_query = max_tokens,
				.range_tokens = max_tokens };
	*bytes = 0;
	for (int i = 0; i < op->num_ready; i++) {
		const size_t need = op->ready[i].code ? most_partials(op, &op->ready[i], &p) : 0;
		if (need > *bytes)
			*bytes = need;
	}
	if (*bytes > MAX_PARTIAL_BYTES)
		*bytes = MAX_PARTIAL_BYTES;
	return ATTUNE_OK;
}

enum attune_status attune_plan_text(const attune_op *op, const attune_plan *plan, char *text,
				    size_t size)
{
	static const char *const names[] = { "prefill: ", "decode: " };
	size_t n = 0;
	if (!op || !plan || !text || !size)
		return fail(ATTUNE_INVALID, "attune_plan_text: an argument is NULL");
	text[0] = '\0';
	for (int i = 0; i < plan->num_parts && n < size; i++) {
		struct config c;
		const struct ready *r = planned(op, &plan->part[i], &c);
		char tunables[MAX_CHOICE_TEXT];
		if (!r)
			return fail(ATTUNE_INVALID, "attune_plan_text: the plan is not of this op");
		config_text(tunables, sizeof tunables, &c, r->kernel->space);
		n += (size_t)snprintf(text + n, size - n, "%s%s%s %s", i ? " | " : "",
				      plan->num_parts == 2 ? names[i] : "", r->kernel->name,
				      tunables);
	}
	return n < size ? ATTUNE_OK
			: fail(ATTUNE_TOO_SMALL, "attune_plan_text: the buffer is too small");
}
