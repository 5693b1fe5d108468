/* launch.c - choices as text, and one of them run on a part of a workload. */
#include "harness.h"
#include "../kernels/run.h"
#include <string.h>

static int refuse(char *error, size_t size, const char *what, const char *found, const char *right)
{
	snprintf(error, size, "%s \"%.*s\"; %s", what, (int)strcspn(found, " "), found, right);
	return 0;
}

static int refuse_kernel(enum backend backend, const char *found, char *error, size_t size)
{
	char right[160] = "one of these is expected:";
	for (const struct kernel *k = attune_kernels; k->name; k++)
		if (k->backend == backend && k->selectable)
			snprintf(right + strlen(right), sizeof right - strlen(right), " %s",
				 k->name);
	return refuse(error, size, "no kernel", found, right);
}

/* The tunables in order, as the error for a text that names others. */
static int refuse_config(const struct kernel *k, const char *where, char *error, size_t size)
{
	char right[192] = "expected, each once:";
	for (int i = 0; i < k->space->num_axes; i++)
		snprintf(right + strlen(right), sizeof right - strlen(right),
			 " %s=", k->space->axis[i].name);
	if (!*where)
		return refuse(error, size, "a tunable is missing in", k->name, right);
	for (int i = 0; i < k->space->num_axes; i++) {
		const struct axis *a = &k->space->axis[i];
		const size_t len = strlen(a->name);
		if (strncmp(where, a->name, len) || where[len] != '=')
			continue;
		snprintf(right, sizeof right, "given once, and of:");
		for (int v = 0; v < a->num_values; v++)
			snprintf(right + strlen(right), sizeof right - strlen(right), " %d",
				 a->values[v]);
	}
	return refuse(error, size, "cannot take", where, right);
}

int choice_parse(struct choice *c, enum backend backend, const char *text, char *error, size_t size)
{
	char name[32];
	const char *where;
	text += strspn(text, " ");
	const size_t n = strcspn(text, " ");
	snprintf(name, sizeof name, "%.*s", n < sizeof name ? (int)n : 0, text);
	c->kernel = kernel_find(backend, name);
	if (!c->kernel || !c->kernel->selectable)
		return refuse_kernel(backend, text, error, size);
	if (!config_parse(&c->config, c->kernel->space, text + n, &where))
		return refuse_config(c->kernel, where, error, size);
	return 1;
}

int choice_text(char *text, size_t size, const struct choice *c)
{
	const int n = snprintf(text, size, "%s ", c->kernel->name);
	if ((size_t)n >= size)
		return n;
	return n + config_text(text + n, size - (size_t)n, &c->config, c->kernel->space);
}

/* Nothing to do (part->seq_count 0), or whether it can be done. */
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
				 enum phase phase, void *workspace, size_t workspace_bytes)
{
	const struct scenario *s = w->scenario;
	const struct launchable l = { c->kernel, &c->config, loaded->code, loaded->reduce };
	struct attune_args args;
	struct part part;
	enum attune_status status = find_part(&part, dev, c, s, phase);
	if (status || !part.seq_count)
		return status;
	args_from_tensors(&args, &s->shape, &w->tensors, s->batch->view.num_seqs);
	args.block_table = w->block_tables[set];
	return run_part(dev, &l, &s->shape, &part, &args, workspace, workspace_bytes,
			dev->ops->stream(dev));
}
