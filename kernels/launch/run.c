/* SPDX-License-Identifier: Apache-2.0 */
/* run.c - launches one choice over one part of a batch, and the parts of a batch in turn or on two
 * streams. */
#include "run.h"
#include "kernels/args_maps.h"
#include "kernels/args_more.h"
#include "kernels/device/cpu/float_mode.h"
#include "kernels/gpu/helpers/schedule_list.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/part.h"
#include "kernels/spec/space.h"
#include "kernels/spec/status.h"
#include <math.h>
#include <string.h>

static size_t partial_rows(const attune_shape *s, const struct part *p)
{
	return (size_t)p->seq_count * (size_t)p->max_query * (size_t)s->num_query_heads;
}

/* Rows of partials: `segments` a row if a reduction follows; else as many as the kernel asks
 * for. */
static size_t partials(const struct geometry *g, const attune_shape *s, const struct part *p)
{
	return g->segments > 1 ? partial_rows(s, p) * (size_t)g->segments : g->partials;
}

/* workspace: scratch, to a multiple of 16 | partial_ml | partial_out */
static size_t scratch_bytes(const struct geometry *g)
{
	return (g->scratch + 15) / 16 * 16;
}

static size_t workspace_bytes_of(const struct geometry *g, const attune_shape *s,
				 const struct part *p)
{
	return scratch_bytes(g) + partials(g, s, p) * (size_t)(s->head_size + 2) * sizeof(float);
}

enum helper reduction_of(const struct geometry *g)
{
	return g->reduced_wide ? HELPER_REDUCE_WIDE : HELPER_REDUCE;
}

int part_estimate(const struct kernel *k, const struct config *c, const attune_shape *s,
		  const struct part *p, const struct device_info *d)
{
	struct geometry g;
	k->space->geometry(c, s, p, d, &g);
	return g.estimate;
}

size_t part_workspace(const struct kernel *k, const struct config *c, const attune_shape *s,
		      const struct part *p, const struct device_info *d)
{
	struct geometry g;
	k->space->geometry(c, s, p, d, &g);
	return workspace_bytes_of(&g, s, p);
}

/* 1 / sqrt(head_size), rounded to nearest, without a flag or a trap, whatever the caller's
 * floating-point environment. volatile keeps the computation between enter and leave. */
static float default_scale(int head_size)
{
	struct float_mode of_caller;
	volatile float size, scale;
	float_mode_enter(&of_caller);
	size = (float)head_size;
	scale = 1 / sqrtf(size);
	float_mode_leave(&of_caller);
	return scale;
}

void args_from_tensors(struct attune_args *a, const attune_shape *s, const attune_tensors *t,
		       int num_seqs)
{
	*a = (struct attune_args){
		.out = t->out,
		.q = t->q,
		.k_cache = t->k_cache,
		.v_cache = t->v_cache,
		.block_table = t->block_table,
		.query_start = t->query_start,
		.seq_lens = t->seq_lens,
		.sinks = s->has_sinks ? t->sinks : 0,
		.alibi_slopes = s->has_alibi ? t->alibi_slopes : 0,
		.q_token_stride = t->q_token_stride,
		.q_head_stride = t->q_head_stride,
		.out_token_stride = t->out_token_stride,
		.out_head_stride = t->out_head_stride,
		.k_page_stride = t->k_page_stride,
		.k_slot_stride = t->k_slot_stride,
		.k_head_stride = t->k_head_stride,
		.v_page_stride = t->v_page_stride,
		.v_slot_stride = t->v_slot_stride,
		.v_head_stride = t->v_head_stride,
		.block_table_stride = t->block_table_stride,
		.num_seqs = num_seqs,
		.num_query_heads = s->num_query_heads,
		.num_kv_heads = s->num_kv_heads,
		.group = s->num_query_heads / s->num_kv_heads,
		.page_size = s->page_size,
		.page_magic = page_magic(s->page_size),
		.window = window_of(s),
		.causal = s->causal,
		.segments = 1,
		.scale = s->scale > 0 ? s->scale : default_scale(s->head_size),
		.softcap = s->softcap,
		.schedule = t->schedule,
		.k_new = s->has_new_kv ? t->k_new : 0,
		.v_new = s->has_new_kv ? t->v_new : 0,
		.k_new_token_stride = t->k_new_token_stride,
		.k_new_head_stride = t->k_new_head_stride,
		.v_new_token_stride = t->v_new_token_stride,
		.v_new_head_stride = t->v_new_head_stride,
	};
}

void call_from_tensors(struct attune_call *c, const attune_shape *s, const attune_tensors *t,
		       int num_seqs)
{
	const int is_scaled = s->kv_dtype == ATTUNE_E4M3;
	args_from_tensors(&c->args, s, t, num_seqs);
	c->more = (struct attune_more){
		.k_scale = is_scaled ? t->k_scale : 0,
		.v_scale = is_scaled ? t->v_scale : 0,
		.k_scale_seq_stride = t->k_scale_seq_stride,
		.k_scale_head_stride = t->k_scale_head_stride,
		.v_scale_seq_stride = t->v_scale_seq_stride,
		.v_scale_head_stride = t->v_scale_head_stride,
		.lse = s->has_lse ? t->lse : 0,
		.lse_token_stride = t->lse_token_stride,
		.lse_head_stride = t->lse_head_stride,
	};
}

const int *table_last(const int *block_table, int stride, int seq, int pages)
{
	pages = pages == WHOLE_ROW ? stride : pages;
	return pages ? block_table + (long long)seq * stride + pages - 1 : NULL;
}

static enum attune_status run_helper(struct device *dev, const struct launchable *l,
				     enum helper helper, const attune_shape *s,
				     const struct part *p, const struct attune_args *a,
				     void *stream)
{
	const struct kernel *k = kernel_helper(dev->info.backend, helper);
	struct geometry g;
	struct config c;
	config_default(&c, k->space);
	k->space->geometry(&c, s, p, &dev->info, &g);
	return dev->ops->launch(dev, l->helper[helper], &g, a, sizeof *a, stream);
}

static struct attune_range range_of(const attune_span *s)
{
	return (struct attune_range){ s->seq_begin, s->seq_count, s->min_query, s->max_query };
}

/* On entry *a has what all parts have in common. */
static void part_args(struct attune_args *a, const struct geometry *g, const attune_shape *s,
		      const struct part *p, void *workspace)
{
	a->seq_begin = p->seq_begin;
	a->seq_count = p->seq_count;
	a->min_query = p->min_query;
	a->max_query = p->max_query;
	a->segments = g->segments;
	a->scratch = workspace;
	memcpy(a->option, g->option, sizeof a->option);
	if (!a->schedule)
		a->schedule = workspace;
	a->prefill = range_of(&p->prefill);
	a->decode = range_of(&p->decode);
	if (partials(g, s, p)) {
		a->partial_ml = (float *)((char *)workspace + scratch_bytes(g));
		a->partial_out = a->partial_ml + partials(g, s, p) * 2;
	}
}

/* Whether the kernel may begin before the preceding launch is over. Not if that is one of
 * run_part's own, zeros or a list, which the kernel would read at once. */
static int can_begin_early(const struct device *dev, const struct launchable *l,
			   const struct geometry *g, const struct attune_args *common)
{
	const int has_list = !l->kernel->space->is_scheduled || common->schedule;
	return l->may_begin_early && dev->ops->launch_early && !g->scratch_zeroed && has_list;
}

/* The geometry; returns whether to launch early. */
static int geometry_of(struct geometry *g, const struct device *dev, const struct launchable *l,
		       const attune_shape *s, const struct part *p,
		       const struct attune_args *common)
{
	const struct space *space = l->kernel->space;
	space->geometry(l->config, s, p, &dev->info, g);
	if (space->early_axis < 0 || !l->config->v[space->early_axis])
		return 0;
	if (can_begin_early(dev, l, g, common))
		return 1;
	struct config in_turn = *l->config;
	in_turn.v[space->early_axis] = 0;
	space->geometry(&in_turn, s, p, &dev->info, g);
	return 0;
}

static enum attune_status attend_by_maps(struct device *dev, const struct launchable *l,
					 const attune_shape *s, const struct geometry *g,
					 const struct attune_call *c, int early, void *stream)
{
	struct attune_mapped m;
	const enum attune_status status = maps_make(&m, dev, s, g->map_box, l->num_slots, c);
	if (status)
		return status;
	return (early ? dev->ops->launch_early : dev->ops->launch)(dev, l->code, g, &m, sizeof m,
								   stream);
}

/* Launches the kernel itself with the arguments that it takes. */
static enum attune_status attend(struct device *dev, const struct launchable *l,
				 const attune_shape *s, const struct geometry *g,
				 const struct attune_call *c, int early, void *stream)
{
	if (l->kernel->space->takes_maps)
		return attend_by_maps(dev, l, s, g, c, early, stream);
	const size_t bytes = l->kernel->space->takes_more ? sizeof *c : sizeof c->args;
	return (early ? dev->ops->launch_early : dev->ops->launch)(dev, l->code, g, c, bytes,
								   stream);
}

/* Lowers the part's tokens from the planned ones to those of the batch: on the CPU cells are
 * numbered from the last Q block that has tokens. */
static void count_tokens(struct part *p, const struct attune_args *a)
{
	const int *start = a->query_start + p->seq_begin;
	p->range_tokens = min_of(p->range_tokens, start[p->seq_count] - start[0]);
}

enum attune_status run_part(struct device *dev, const struct launchable *l, const attune_shape *s,
			    const struct part *planned, const struct attune_call *common,
			    void *workspace, size_t workspace_bytes, int steps, void *stream)
{
	struct geometry g;
	struct attune_call c;
	struct part part = *planned, *p = &part;
	if (dev->info.backend == BACKEND_CPU)
		count_tokens(p, &common->args);
	const int early = geometry_of(&g, dev, l, s, p, &common->args);
	const size_t need = workspace_bytes_of(&g, s, p);
	enum attune_status status = ATTUNE_OK;

	if (need > workspace_bytes || (need && !workspace))
		return fail(ATTUNE_TOO_SMALL, "workspace has %zu bytes, %zu are needed",
			    workspace ? workspace_bytes : 0, need);
	c = *common;
	part_args(&c.args, &g, s, p, workspace);
	if (l->kernel->space->looks_ahead)
		c.args.table_last = l->table_last;
	if (steps & STEP_PREPARE && g.scratch_zeroed)
		status = dev->ops->clear(dev, workspace, g.scratch, stream);
	if (!status && steps & STEP_PREPARE && l->kernel->space->is_scheduled &&
	    !common->args.schedule)
		status = run_helper(dev, l, HELPER_SCHEDULE, s, p, &c.args, stream);
	if (status || !(steps & STEP_ATTEND))
		return status;
	status = attend(dev, l, s, &g, &c, early, stream);
	if (!status && g.segments > 1)
		status = run_helper(dev, l, reduction_of(&g), s, p, &c.args, stream);
	return status;
}

/* ---- the list of Q blocks -------------------------------------------------------------- */

size_t part_schedule_words(const struct kernel *k, const struct part *p)
{
	return k->space->is_scheduled ? SCHEDULE_WORDS((size_t)p->seq_count) : 0;
}

void part_schedule(int *words, const struct kernel *k, const struct config *c,
		   const attune_shape *s, const struct part *p, const struct device_info *d,
		   const int *query_start)
{
	struct geometry g;
	int blocks = 0;
	k->space->geometry(c, s, p, d, &g);
	words[SCHEDULE_PREFIX] = 0;
	for (int i = 0; i < p->seq_count; i++) {
		const int *start = &query_start[p->seq_begin + i], query = start[1] - start[0];
		if (query >= p->min_query && query <= p->max_query)
			blocks += (query + g.option[0] - 1) / g.option[0];
		words[SCHEDULE_PREFIX + i + 1] = blocks;
	}
	words[SCHEDULE_BLOCKS] = blocks;
	words[SCHEDULE_SEGMENTS] = g.segments;
	words[SCHEDULE_VARIANT] = 0;
	words[SCHEDULE_TOKENS] = g.option[0];
}

/* ---- two parts ------------------------------------------------------------------------ */

enum { WORKSPACE_ALIGN = 16 };

size_t parts_workspace(enum attune_how how, const size_t *part, int n, size_t *at)
{
	size_t end = 0, most = 0;
	for (int i = 0; i < n; i++) {
		const size_t begin = how == ATTUNE_STREAMS ? (end + WORKSPACE_ALIGN - 1) /
								 WORKSPACE_ALIGN * WORKSPACE_ALIGN
							   : 0;
		end = begin + part[i];
		most = end > most ? end : most;
		if (at)
			at[i] = begin;
	}
	return most;
}

/* On two streams the prefill part goes first, to the side stream with its higher priority. Its
 * blocks are few and large; the many small blocks of the decode part fill what they leave free. In
 * the other order decode blocks would fill every SM, and a prefill block that needs a whole SM
 * would wait for all of them. Both parts are prepared beforehand for the same reason: while a list
 * is made, decode blocks would fill the SMs. */
enum attune_status run_parts(struct device *dev, enum attune_how how, int n, part_launch launch,
			     void *arg, void *stream)
{
	void *side = stream;
	enum attune_status status = ATTUNE_OK;
	const int on_two_streams = how == ATTUNE_STREAMS && n > 1;
	for (int i = 0; i < n && on_two_streams && !status; i++)
		status = launch(arg, i, STEP_PREPARE, stream);
	if (on_two_streams && !status)
		status = dev->ops->fork(dev, stream, &side);
	if (status)
		return status;
	for (int i = 0; i < n && !status; i++)
		status =
		    launch(arg, i, on_two_streams ? STEP_ATTEND : ALL_STEPS, i ? stream : side);
	if (side == stream)
		return status;
	const enum attune_status joined = dev->ops->join(dev, stream, side);
	return status ? status : joined;
}
