/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c - launches a choice on one part of a workload. */
#include "check.h"
#include "workload.h"
#include "harness/scenario/scenario.h"
#include "harness/plugin/plugin.h"
#include "kernels/args_more.h"
#include "kernels/launch/run.h"
#include "kernels/spec/part.h"
#include "kernels/spec/space.h"
#include "kernels/spec/status.h"
#include <string.h>

/* part->seq_count 0: nothing to do. Fails if the choice is illegal for the part. */
static enum attune_status find_part(struct part *part, const struct device *dev,
				    const struct choice *c, const struct scenario *s,
				    enum phase phase)
{
	const char *why;
	if (!part_make(part, phase, &s->shape, &s->batch->view, &dev->info)) {
		part->seq_count = 0;
		return ATTUNE_OK;
	}
	why = c->kernel->space->why_illegal(&c->config, &s->shape, part, &dev->info);
	return why ? fail(ATTUNE_INVALID, "%s: %s", c->kernel->name, why) : ATTUNE_OK;
}

enum attune_status choice_workspace(struct device *dev, const struct choice *c,
				    const struct scenario *s, enum phase phase, size_t *bytes)
{
	struct part part;
	enum attune_status status = find_part(&part, dev, c, s, phase);
	*bytes = 0;
	if (!status && part.seq_count)
		*bytes = part_workspace(c->kernel, &c->config, &s->shape, &part, &dev->info);
	return status;
}

/* ---- plug-ins ------------------------------------------------------------------------ */

/* The tensors of a part: the arrays of sequences begin with its first. */
static attune_tensors part_tensors(const struct workload *w, int set, const struct part *part)
{
	attune_tensors t = w->tensors;
	t.size = sizeof t;
	t.block_table = w->block_tables[set] + (int64_t)part->seq_begin * t.block_table_stride;
	t.query_start += part->seq_begin;
	t.seq_lens += part->seq_begin;
	if (t.k_scale)
		t.k_scale += part->seq_begin * t.k_scale_seq_stride;
	if (t.v_scale)
		t.v_scale += part->seq_begin * t.v_scale_seq_stride;
	return t;
}

static enum attune_status plan_sets(struct device *dev, struct plugin_op *op,
				    const struct workload *w, enum phase phase,
				    const struct part *part, size_t *bytes, double *plan_us)
{
	const attune_batch *all = &w->scenario->batch->view;
	const attune_batch lengths = { .size = sizeof lengths,
				       .num_seqs = part->seq_count,
				       .query_start = all->query_start + part->seq_begin,
				       .seq_lens = all->seq_lens + part->seq_begin };
	enum attune_status status = ATTUNE_OK;
	for (int set = 0; set < w->sets && !status; set++) {
		const attune_tensors tensors = part_tensors(w, set, part);
		const attune_plugin_batch batch = { &lengths, &tensors, dev->ops->stream(dev) };
		const struct plugin_key key = { w, phase, set };
		size_t need = 0;
		double us = 0;
		status = plugin_plan(op, key, &batch, &need, &us);
		if (!status)
			status = plugin_store(op, key, &tensors, batch.stream);
		*bytes = need > *bytes ? need : *bytes;
		*plan_us = !set || us < *plan_us ? us : *plan_us;
	}
	return status ? status : dev->ops->wait(dev, dev->ops->stream(dev));
}

enum attune_status choice_reserve(struct device *dev, const struct choice *c,
				  const struct loaded *loaded, const struct workload *w,
				  enum phase phase, size_t *bytes, double *plan_us)
{
	struct part part;
	enum attune_status status;
	*plan_us = 0;
	if (!loaded->plugin)
		return choice_workspace(dev, c, w->scenario, phase, bytes);
	*bytes = 0;
	status = find_part(&part, dev, c, w->scenario, phase);
	const char *why = scales_refused(c->kernel, workload_scales(w));
	if (!status && part.seq_count && why)
		return fail(ATTUNE_INVALID, "%s: %s", c->kernel->name, why);
	if (status || !part.seq_count)
		return status;
	return plan_sets(dev, loaded->plugin, w, phase, &part, bytes, plan_us);
}

/* A plug-in prepares nothing apart from its call. */
static enum attune_status launch_plugin(const struct loaded *loaded, const struct workload *w,
					int set, enum phase phase, const struct part *part,
					void *workspace, int steps, void *stream)
{
	const struct plugin_key key = { w, phase, set };
	const attune_tensors t = part_tensors(w, set, part);
	if (!(steps & STEP_ATTEND))
		return ATTUNE_OK;
	return plugin_launch(loaded->plugin, key, &t, workspace, stream);
}

/* ---- any choice ------------------------------------------------------------------------ */

enum attune_status choice_launch(struct device *dev, const struct choice *c,
				 const struct loaded *loaded, const struct workload *w, int set,
				 enum phase phase, void *workspace, size_t workspace_bytes,
				 int steps, void *stream)
{
	const struct scenario *s = w->scenario;
	/* The preceding launch belongs to another call, and writes its own output. */
	struct launchable l = { c->kernel, &c->config, loaded->code, { NULL }, 1, NULL, 0 };
	struct attune_call call;
	struct part part;
	enum attune_status status = find_part(&part, dev, c, s, phase);
	int seq, pages;
	if (status || !part.seq_count)
		return status;
	if (loaded->plugin)
		return launch_plugin(loaded, w, set, phase, &part, workspace, steps, stream);
	call_from_tensors(&call, &s->shape, &w->tensors, s->batch->view.num_seqs);
	call.args.block_table = w->block_tables[set];
	batch_table(&s->batch->view, s->shape.page_size, &seq, &pages);
	l.table_last = table_last(call.args.block_table, call.args.block_table_stride, seq, pages);
	memcpy(l.helper, loaded->helper, sizeof l.helper);
	return run_part(dev, &l, &s->shape, &part, &call, workspace, workspace_bytes, steps,
			stream);
}
