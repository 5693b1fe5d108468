/* t_plugin_device.c - a plug-in in the library on the CPU, and on a GPU or the emulated one, with
 * launches that a graph records. The plug-in is the library once more: a second op, by the rules that
 * are built in, runs what the first one hands it. */
#include "harness/base/base.h"
#include "harness/check/check.h"
#include "harness/scenario/scenario.h"
#include "kernels/attune_plugin.h"
#include "kernels/launch/run.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tests/support/run_plan.h"

static int launches;

/* ---- the plug-in ---------------------------------------------------------------------------- */
struct relay {
	attune_context *ctx;
	attune_op *op;
};

static int failed(char *error)
{
	snprintf(error, ATTUNE_PLUGIN_ERROR, "%.150s", attune_last_error());
	return 1;
}

static const char *refuses(const attune_shape *s, const int *values, const attune_plugin_part *p,
			   const attune_plugin_device *d)
{
	(void)s, (void)values, (void)d;
	return p && p->num_seqs == 3 ? "three sequences" : NULL;
}

/* A CPU's threads run the launch, so that the second op needs threads of its own. */
static int prepare(void **op, const attune_shape *s, const int *values,
		   const attune_plugin_device *d, char *error)
{
	static struct relay r;
	(void)values;
	if ((strcmp(d->backend, "cpu") ? attune_adopt(&r.ctx, &dev) : attune_open(&r.ctx, "cpu")) ||
	    attune_prepare(r.ctx, s, &r.op))
		return failed(error);
	*op = &r;
	return 0;
}

static int plan(void *op, const attune_plugin_batch *b, void **out, size_t *workspace, char *error)
{
	struct relay *r = op;
	attune_plan *p = malloc(sizeof *p);
	assert_non_null(p);
	p->size = sizeof *p;
	if (attune_plan_batch(r->op, b->lengths, p)) {
		free(p);
		return failed(error);
	}
	*workspace = p->workspace;
	*out = p;
	return 0;
}

static int launch(void *op, void *plan, const attune_tensors *t, void *workspace, void *stream,
		  char *error)
{
	const struct relay *r = op;
	const attune_plan *p = plan;
	launches++;
	return attune_run(r->op, p, t, workspace, p->workspace, stream) ? failed(error) : 0;
}

static void free_plan(void *op, void *p)
{
	(void)op;
	free(p);
}

static void free_op(void *op)
{
	struct relay *r = op;
	attune_release(r->op);
	attune_close(r->ctx);
}

static void register_for(const char *backend)
{
	static attune_plugin relays[2];
	attune_plugin *r = &relays[!strcmp(backend, "cpu")];
	*r = (attune_plugin){ .abi = ATTUNE_PLUGIN_ABI,
			      .name = "relay",
			      .version = "1",
			      .backend = backend,
			      .refuses = refuses,
			      .prepare = prepare,
			      .plan = plan,
			      .launch = launch,
			      .free_plan = free_plan,
			      .free_op = free_op };
	if (attune_register_plugin(r))
		fail_msg("%s", attune_last_error());
}

/* ---- the test -------------------------------------------------------------------------------- */

/* Of a GPU that is here, of an emulated one. */
static const char *const batches[][2] = {
	{ "q1s4k", "q1s600" },
	{ "8q1s600", "4q1s40" },
	{ "q300", "q40" },
	{ "2q100s400_6q1s900", "q40_q1s100" },
	{ "q40_2q1s100", "q18_2q1s33" }, /* three sequences: refused */
};

static void by_the_plugin(const attune_op *op, struct workload *w, const attune_batch *b)
{
	const int before = launches, refused = b->num_seqs == 3;
	attune_plan plan = { .size = sizeof plan };
	char text[512];
	if (attune_plan_batch(op, b, &plan) ||
	    attune_plan_plugins(op, b, &w->tensors, 0, dev.ops->stream(&dev), &plan) ||
	    attune_plan_text(op, &plan, text, sizeof text))
		fail_msg("%s", attune_last_error());
	if ((strcmp(text, "relay") == 0) == refused)
		fail_msg("%s: %s", w->scenario->batch_text, text);
	for (int layer = 0; layer < 2; layer++)
		run_right(op, &plan, w);
	assert_int_equal(launches - before, refused ? 0 : 2);
	attune_free_plan(op, &plan);
}

static void on_device(void **state)
{
	char rules[800], choice[MAX_PART_TEXT];
	struct choice c;
	if (open_device(*state))
		fail_msg("%s", attune_last_error());
	const char *backend = dev.info.backend == BACKEND_CPU    ? "cpu"
			      : strncmp(dev.info.arch, "gfx", 3) ? "cuda"
								 : "hip";
	register_for(backend);
	c.kernel = kernel_find(dev.info.backend, "qblock");
	config_default(&c.config, c.kernel->space);
	choice_text(choice, sizeof choice, &c);
	snprintf(rules, sizeof rules,
		 "choice 0 %s\nplugin 0 relay 1\ntree prefill\nreturn 0\ntree decode\nreturn 0\n"
		 "tree prefill_plugin\nreturn 0\ntree decode_plugin\nreturn 0\n"
		 "tree mixed_plugin\nreturn 0\n",
		 choice);
	each_batch(open_by_rules(rules), batches, COUNT(batches), by_the_plugin);
}

int main(void)
{
	return run_on_devices("plug-in on devices", on_device);
}
