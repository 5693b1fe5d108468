/* SPDX-License-Identifier: Apache-2.0 */
/* context.c - opens and closes contexts; prepares and releases ops. */
#include "invariant.h"
#include "no_kernel.h"
#include "plan.h"
#include "kernels/attune.h"
#include "kernels/device/hip/hip.h"
#include "kernels/launch/extra.h"
#include "kernels/launch/run.h"
#include "kernels/ship/shipped.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/names.h"
#include "kernels/spec/part.h"
#include "kernels/spec/sized.h"
#include "kernels/spec/space.h"
#include "kernels/spec/status.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void name_context(attune_context *ctx)
{
	const struct device_info *d = &ctx->device.info;
	snprintf(ctx->name, sizeof ctx->name, "%s (%s, %d %s)", d->name, d->arch, d->units,
		 d->backend == BACKEND_CPU         ? "threads"
		 : strncmp(d->arch, "gfx", 3) == 0 ? "CUs"
						   : "SMs");
}

/* Reads where plans come from: ATTUNE_INVARIANT, and the file of ATTUNE_HEURISTICS. */
static enum attune_status read_rules(attune_context *ctx)
{
	const char *path = secure_getenv("ATTUNE_HEURISTICS");
	enum attune_status status = invariant_read(&ctx->is_invariant);
	if (!status && path && *path)
		status = ctx->is_invariant
			     ? fail(ATTUNE_INVALID, "ATTUNE_HEURISTICS and ATTUNE_INVARIANT=1 are "
						    "both set: the mode has rules of its own")
			     : override_open(&ctx->override, path, &ctx->device.info);
	snprintf(ctx->heuristic, sizeof ctx->heuristic, "%s",
		 ctx->is_invariant ? "invariant"
		 : ctx->override   ? path
				   : selector_name(&ctx->device.info));
	return status;
}

/* Names the context and reads its rules. The device is open. On the CPU plans are made for the
 * threads that compute: a plan for more threads could be slower than one for a single thread. An
 * adopted device keeps the number of units that it states. */
static enum attune_status finish_open(attune_context *ctx, attune_context **out)
{
	name_context(ctx);
	if (ctx->device.info.backend == BACKEND_CPU && !ctx->adopted)
		ctx->device.info.units = cpu_computing(&ctx->device);
	const enum attune_status status = read_rules(ctx);
	if (status)
		attune_close(ctx);
	else
		*out = ctx;
	return status;
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
	return finish_open(ctx, out);
}

enum attune_status attune_adopt(attune_context **out, const struct device *dev)
{
	attune_context *ctx = calloc(1, sizeof *ctx);
	*out = NULL;
	if (!ctx)
		return fail(ATTUNE_NO_MEMORY, "attune_adopt: out of memory");
	ctx->device = *dev;
	ctx->adopted = 1;
	return finish_open(ctx, out);
}

void attune_close(attune_context *ctx)
{
	if (!ctx)
		return;
	if (ctx->forget)
		ctx->forget(ctx);
	override_close(ctx->override);
	if (!ctx->adopted)
		device_close(&ctx->device);
	free(ctx);
}

const char *attune_device_name(const attune_context *ctx)
{
	return ctx->name;
}

const char *attune_heuristic(const attune_context *ctx)
{
	return ctx->heuristic;
}

/* Loads the binary of a choice; *code stays NULL if the library does not carry it. */
static enum attune_status load(const attune_op *op, const struct kernel *k, const struct config *c,
			       struct code **code)
{
	static char carried;
	char flags[MAX_FLAGS];
	struct device *dev = &op->ctx->device;
	const struct shipped *s;
	if (k->space->why_illegal(c, &op->shape, NULL, &dev->info))
		return ATTUNE_OK;
	binary_flags(flags, sizeof flags, k, c, &op->shape);
	s = shipped_for(dev, k->name, flags);
	if (!s || !op->is_list)
		return s ? dev->ops->load(dev, code, &s->blob) : ATTUNE_OK;
	*code = (struct code *)&carried;
	return ATTUNE_OK;
}

/* Choices that differ only in launch-time tunables share their code. */
static struct code *loaded_already(const attune_op *op, const struct ready *r)
{
	char flags[MAX_FLAGS], other[MAX_FLAGS];
	binary_flags(flags, sizeof flags, r->kernel, &r->config, &op->shape);
	for (const struct ready *o = op->ready; o < r; o++) {
		binary_flags(other, sizeof other, o->kernel, &o->config, &op->shape);
		if (o->code && o->kernel == r->kernel && !strcmp(flags, other))
			return o->code;
	}
	return NULL;
}

static enum attune_status add_ready(attune_op *op, const struct kernel *k, const struct config *c)
{
	struct ready *r = &op->ready[op->num_ready++];
	*r = (struct ready){ .kernel = k, .config = *c, .name = choice_name(k, c) };
	block_shape_of(&r->block, c, k);
	r->code = op->is_list ? NULL : loaded_already(op, r);
	return r->code ? ATTUNE_OK : load(op, k, c, &r->code);
}

/* The choices of rules, each with its row. */
static enum attune_status add_choices(attune_op *op, const struct selector *rules)
{
	enum attune_status status = ATTUNE_OK;
	const enum backend backend = op->ctx->device.info.backend;
	const int first = op->num_ready, portable = rules && !strcmp(rules->gpu, PORTABLE_GPU);
	for (int i = 0; rules && !status && i < rules->num_choices; i++) {
		const struct selector_row *row = &rules->choices[i];
		struct ready *r = &op->ready[first + i];
		const struct kernel *k = kernel_find(backend, row->kernel);
		const char *where;
		struct config c;
		if (!k || !config_parse(&c, k->space, row->text, &where))
			return fail(ATTUNE_DEVICE_ERROR,
				    "heuristic %s names an unknown variant: %s %s", rules->gpu,
				    row->kernel, row->text);
		if (portable && why_not_portable(k, &c, &op->shape))
			op->ready[op->num_ready++] =
			    (struct ready){ .kernel = k, .config = c, .name = choice_name(k, &c) };
		else
			status = add_ready(op, k, &c);
		r->costs = costs_for(rules->costs, rules->num_costs, i, op->shape.head_size);
		r->row = selector_list(rules, i);
		for (int m = 0; m < r->row.n; m++)
			r->row.at[m] = (short)(r->row.at[m] + first);
	}
	return status;
}

static int num_defaults(void)
{
	int n = 0;
	while (attune_fallbacks[n].kernel)
		n++;
	return n;
}

/* A default. On AMD GPUs, of which none is measured, the kernel's first formula for two blocks a
 * unit sets the segments: each CU gets two blocks where that is worth the reduction. */
static void take_default(struct config *c, const struct fallback *f, const struct space *s,
			 const struct device_info *d)
{
	fallback_config(c, f, s);
	for (int i = 0; i < s->num_formulas && hip_chip(d->arch); i++)
		if (s->formulas[i].slots == 2) {
			c->v[s->formula_axis] = -1 - i;
			return;
		}
}

static int has_default_of(const attune_op *op, const struct kernel *k)
{
	for (int i = op->first_default; i < op->num_ready; i++)
		if (op->ready[i].kernel == k && op->ready[i].code)
			return 1;
	return 0;
}

/* The portable rules; NULL: they are not for the context. */
static const struct selector *portable_for(const attune_context *ctx)
{
	return ctx->is_invariant || !runs_ptx(&ctx->device.info) ? NULL : selector_portable();
}

/* Whether leaves for the parts of a batch all name a choice. Their trees precede that of overlap. */
static int name_all(const struct selector *rules)
{
	for (int i = rules->root[DECIDE_PREFILL]; i < rules->root[DECIDE_OVERLAP]; i++)
		if (rules->nodes[i].feature < 0 && rules->nodes[i].value < 0)
			return 0;
	return 1;
}

/* Whether the portable rules name what can run every part of the shape. The shapes that they were
 * not learned on are those that few kernels take, or whose choices are not carried. */
static int are_ruled(const attune_op *op)
{
	const attune_shape *s = &op->shape;
	const struct selector *rules = portable_for(op->ctx);
	return rules && name_all(rules) && carries_rules(s->head_size) && s->dtype != ATTUNE_F32 &&
	       s->kv_dtype == s->dtype && !s->has_lse && s->kv_layout != ATTUNE_KV_CLASSIC;
}

/* Of each kernel the first default that the library carries for the shape. Where rules name all,
 * that of ring_list alone, for attune_plan_bounds. */
static enum attune_status add_defaults(attune_op *op)
{
	enum attune_status status = ATTUNE_OK;
	const enum backend backend = op->ctx->device.info.backend;
	const int is_ruled = are_ruled(op);
	for (const struct fallback *f = attune_fallbacks; !status && f->kernel; f++) {
		const struct kernel *k = kernel_find(backend, f->kernel);
		struct config c;
		if (!k || has_default_of(op, k) || (is_ruled && strcmp(k->name, "ring_list")))
			continue;
		take_default(&c, f, k->space, &op->ctx->device.info);
		status = add_ready(op, k, &c);
	}
	return status;
}

/* The first candidate of a phase whose code the library carries for the shape. */
static enum attune_status add_invariant(attune_op *op, enum phase phase, int *id)
{
	struct invariant_walk w = { .phase = phase };
	struct choice c;
	*id = -1;
	while (*id < 0 && invariant_next(&w, &op->shape, &op->ctx->device.info, &c)) {
		const enum attune_status status = add_ready(op, c.kernel, &c.config);
		if (status)
			return status;
		if (op->ready[op->num_ready - 1].code)
			*id = op->num_ready - 1;
		else
			op->num_ready--;
	}
	return ATTUNE_OK;
}

/* All that a plan may name. */
static enum attune_status add_all(attune_op *op)
{
	enum attune_status status;
	if (op->ctx->is_invariant) {
		status = add_invariant(op, PHASE_PREFILL, &op->invariant[0]);
		return status ? status : add_invariant(op, PHASE_DECODE, &op->invariant[1]);
	}
	status = add_choices(op, op->heuristic);
	if (!status)
		status = add_choices(op, op->portable);
	op->first_default = op->num_ready;
	return status ? status : add_defaults(op);
}

static const struct selector *rules_of(const attune_context *ctx, enum attune_dtype kv_dtype)
{
	if (ctx->is_invariant)
		return NULL;
	return ctx->override ? override_selector(ctx->override)
			     : selector_for(&ctx->device.info, kv_dtype);
}

/* The portable rules stand behind the heuristic, if they are not the heuristic themselves. */
static const struct selector *portable_behind(const attune_op *op)
{
	const struct selector *rules = portable_for(op->ctx);
	return rules == op->heuristic ? NULL : rules;
}

static int num_choices(const struct selector *rules)
{
	return rules ? rules->num_choices : 0;
}

static int any_choice_needs(const attune_op *op, enum helper h)
{
	for (int i = 0; i < op->num_ready; i++)
		if (op->ready[i].code &&
		    kernel_may_take(op->ready[i].kernel, &op->ready[i].config, h))
			return 1;
	return 0;
}

static enum attune_status add_helpers(attune_op *op)
{
	enum attune_status status = ATTUNE_OK;
	for (enum helper h = 0; !status && h < NUM_HELPERS; h++) {
		const struct kernel *k = kernel_helper(op->ctx->device.info.backend, h);
		struct config c;
		if (!k || !any_choice_needs(op, h))
			continue;
		config_default(&c, k->space);
		status = load(op, k, &c, &op->helper[h]);
	}
	return status;
}

static enum attune_status add_extras(attune_op *op, const attune_shape *shape)
{
	enum attune_status status = ATTUNE_OK;
	for (enum extra e = 0; !status && e < NUM_EXTRAS; e++) {
		const struct kernel *k = extra_kernel(op->ctx->device.info.backend, shape, e);
		struct config c;
		if (!k)
			continue;
		config_default(&c, k->space);
		status = load(op, k, &c, &op->extra[e]);
		if (!status && !op->extra[e] && extra_is_vital(e))
			status = fail(ATTUNE_UNSUPPORTED,
				      "attune_prepare: the library carries no code of %s for %s",
				      k->name, op->ctx->device.info.arch);
	}
	return status;
}

/* Whether something runs a part of the phase: the smallest one. */
static int runs_phase(const attune_op *op, enum phase phase)
{
	const int32_t keys = phase == PHASE_DECODE ? 1 : DECODE_MAX_QUERY + 1;
	const int32_t start[] = { 0, keys };
	const attune_batch batch = { sizeof batch, 1, start, &keys };
	struct part p;
	return part_make(&p, phase, &op->shape, &batch, &op->ctx->device.info) &&
	       pick(op, &p).id >= 0;
}

/* A plan holds the id of its op and not the address, which another op may get after a release. */
static uint64_t new_id(void)
{
	static _Atomic uint64_t last;
	return atomic_fetch_add(&last, 1) + 1;
}

static enum attune_status make_op(attune_context *ctx, const attune_shape *shape, int is_list,
				  attune_op **out)
{
	attune_op *op = calloc(1, sizeof *op);
	if (!op)
		return fail(ATTUNE_NO_MEMORY, "attune_prepare: out of memory");
	op->ctx = ctx;
	op->id = new_id();
	op->is_list = is_list;
	op->shape = *shape;
	op->shape.size = sizeof op->shape;
	op->lse_apart = shape->has_lse && ctx->device.info.backend == BACKEND_CPU;
	op->shape.has_lse = shape->has_lse && !op->lse_apart;
	op->shape_name = shape_name(&op->shape);
	op->heuristic = rules_of(ctx, shape->kv_dtype);
	op->portable = portable_behind(op);
	op->num_choices = num_choices(op->heuristic);
	const int most = op->num_choices + num_choices(op->portable) + num_defaults();
	op->ready = calloc((size_t)most, sizeof *op->ready);
	enum attune_status status =
	    op->ready ? ATTUNE_OK : fail(ATTUNE_NO_MEMORY, "attune_prepare: out of memory");
	if (!status)
		status = add_all(op);
	if (!status)
		status = add_helpers(op);
	if (!status)
		status = add_extras(op, shape);
	if (!status && !runs_phase(op, PHASE_PREFILL) && !runs_phase(op, PHASE_DECODE))
		status = no_kernel(ctx, shape);
	if (status)
		attune_release(op);
	else
		*out = op;
	return status;
}

enum attune_status op_list(attune_context *ctx, const attune_shape *shape, attune_op **out)
{
	return make_op(ctx, shape, 1, out);
}

enum attune_status attune_prepare(attune_context *ctx, const attune_shape *shape, attune_op **out)
{
	const char *error;
	attune_shape own;
	if (!ctx || !shape || !out)
		return fail(ATTUNE_INVALID, "attune_prepare: an argument is NULL");
	*out = NULL;
	shape = shape_read(shape, &own, "attune_prepare");
	if (!shape)
		return ATTUNE_INVALID;
	error = shape_error(shape);
	if (error)
		return odd_shape(ctx, shape, error);
	return make_op(ctx, shape, 0, out);
}

static void unload_all(attune_op *op)
{
	const struct device_ops *ops = op->ctx->device.ops;
	for (int i = 0; i < op->num_ready; i++) {
		struct code *code = op->ready[i].code;
		for (int j = i + 1; j < op->num_ready; j++)
			if (op->ready[j].code == code)
				op->ready[j].code = NULL;
		if (code)
			ops->unload(&op->ctx->device, code);
	}
	for (enum helper h = 0; h < NUM_HELPERS; h++)
		if (op->helper[h])
			ops->unload(&op->ctx->device, op->helper[h]);
	for (enum extra e = 0; e < NUM_EXTRAS; e++)
		if (op->extra[e])
			ops->unload(&op->ctx->device, op->extra[e]);
}

void attune_release(attune_op *op)
{
	if (!op)
		return;
	if (!op->is_list)
		unload_all(op);
	free(op->ready);
	free(op);
}
