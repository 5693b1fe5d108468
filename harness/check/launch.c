/* launch.c - launches a choice on one part of a workload. */
#include "check.h"
#include "harness/scenario/scenario.h"
#include "kernels/launch/run.h"
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

enum attune_status choice_launch(struct device *dev, const struct choice *c,
				 const struct loaded *loaded, const struct workload *w, int set,
				 enum phase phase, void *workspace, size_t workspace_bytes,
				 int steps, void *stream)
{
	const struct scenario *s = w->scenario;
	/* The preceding launch belongs to another call, and writes its own output. */
	struct launchable l = { c->kernel, &c->config, loaded->code, { NULL }, 1, NULL };
	struct attune_call call;
	struct part part;
	enum attune_status status = find_part(&part, dev, c, s, phase);
	int seq, pages;
	if (status || !part.seq_count)
		return status;
	call_from_tensors(&call, &s->shape, &w->tensors, s->batch->view.num_seqs);
	call.args.block_table = w->block_tables[set];
	batch_table(&s->batch->view, s->shape.page_size, &seq, &pages);
	l.table_last = table_last(call.args.block_table, call.args.block_table_stride, seq, pages);
	memcpy(l.helper, loaded->helper, sizeof l.helper);
	return run_part(dev, &l, &s->shape, &part, &call, workspace, workspace_bytes, steps,
			stream);
}
