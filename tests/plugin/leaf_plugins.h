/* leaf_plugins.h - a plug-in by the reference under several names, each with a fault or a need, that
 * counts its calls; and rules of a file that name it. */
#ifndef TESTS_LEAF_PLUGINS_H
#define TESTS_LEAF_PLUGINS_H

#include "kernels/attune_plugin.h"
#include "kernels/launch/run.h"
#include "tests/library/cpu_step.h"
#include <stdatomic.h>

static struct {
	atomic_int inside, at_once; /* threads in a function; the most at a time */
	int launches, plans, ops;   /* of all; plans and ops that are not freed */
} calls;

static void enter(void)
{
	const int now = atomic_fetch_add(&calls.inside, 1) + 1;
	if (now > calls.at_once)
		calls.at_once = now;
}

static int leave(int failed)
{
	atomic_fetch_sub(&calls.inside, 1);
	return failed;
}

static const char *refuses_none(const attune_shape *s, const int *values,
				const attune_plugin_part *p, const attune_plugin_device *d)
{
	(void)s, (void)values, (void)p, (void)d;
	return NULL;
}

static int can_prepare(void **op, const attune_shape *s, const int *values,
		       const attune_plugin_device *d, char *error)
{
	static attune_shape kept;
	(void)values, (void)d, (void)error;
	enter();
	calls.ops++;
	kept = *s;
	*op = &kept;
	return leave(0);
}

/* A batch: the lengths are the caller's, so they are copied. */
struct lengths {
	int num_seqs;
	int32_t query_start[MAX_SEQS + 1], seq_lens[MAX_SEQS];
};
enum { ROOM = 100 }; /* bytes of workspace */

static int can_plan(void *op, const attune_plugin_batch *b, void **out, size_t *workspace,
		    char *error)
{
	const attune_batch *of = b->lengths;
	struct lengths *l = calloc(1, sizeof *l);
	(void)op, (void)error;
	enter();
	assert_non_null(l);
	l->num_seqs = of->num_seqs;
	memcpy(l->query_start, of->query_start, sizeof(int32_t) * ((size_t)of->num_seqs + 1));
	memcpy(l->seq_lens, of->seq_lens, sizeof(int32_t) * (size_t)of->num_seqs);
	/* The device's arrays begin with the same sequence. */
	assert_memory_equal(l->seq_lens, b->tensors->seq_lens, sizeof(int32_t) * of->num_seqs);
	calls.plans++;
	*workspace = ROOM;
	*out = l;
	return leave(0);
}

static int can_launch(void *op, void *plan, const attune_tensors *t, void *workspace, void *stream,
		      char *error)
{
	const struct lengths *l = plan;
	struct attune_args args;
	double row[HEAD];
	(void)stream, (void)error;
	enter();
	calls.launches++;
	assert_int_equal((uintptr_t)workspace % 256, 0);
	memset(workspace, 0x5a, ROOM);
	args_from_tensors(&args, op, t, l->num_seqs);
	for (int seq = 0; seq < l->num_seqs; seq++)
		for (int i = l->query_start[seq]; i < l->query_start[seq + 1]; i++)
			for (int head = 0; head < QUERY_HEADS; head++) {
				reference_row(&args, op, seq, i - l->query_start[seq], head, row);
				for (int d = 0; d < HEAD; d++)
					((float *)t->out)[i * t->out_token_stride +
							  head * t->out_head_stride + d] =
					    (float)row[d];
			}
	return leave(0);
}

static void free_plan(void *op, void *plan)
{
	(void)op;
	enter();
	calls.plans--;
	free(plan);
	leave(0);
}

static void free_op(void *op)
{
	(void)op;
	enter();
	calls.ops--;
	leave(0);
}

static const char *refuses_all(const attune_shape *s, const int *values,
			       const attune_plugin_part *p, const attune_plugin_device *d)
{
	(void)s, (void)values, (void)p, (void)d;
	return "everything";
}

static const char *refuses_batches(const attune_shape *s, const int *values,
				   const attune_plugin_part *p, const attune_plugin_device *d)
{
	(void)s, (void)values, (void)d;
	return p ? "every batch" : NULL;
}

/* Whether one-token decodes lie on one side of all prefills. */
static int is_divided(const attune_batch *b)
{
	int changes = 0, ones = 0;
	for (int i = 0; i < b->num_seqs; i++) {
		const int is_one = b->query_start[i + 1] - b->query_start[i] == 1;
		changes += i && is_one != (b->query_start[i] - b->query_start[i - 1] == 1);
		ones += is_one;
	}
	return ones && changes == 1;
}

static const char *refuses_undivided(const attune_shape *s, const int *values,
				     const attune_plugin_part *p, const attune_plugin_device *d)
{
	(void)s, (void)values, (void)d;
	if (!p || (p->prefills.seq_count && p->decodes.max_query == 1 &&
		   p->prefills.seq_count + p->decodes.seq_count == p->num_seqs))
		return NULL;
	return "batches other than decodes of one token on one side of all prefills";
}

static int plans_divided(void *op, const attune_plugin_batch *b, void **out, size_t *workspace,
			 char *error)
{
	assert_true(is_divided(b->lengths));
	return can_plan(op, b, out, workspace, error);
}

static int cannot_prepare(void **op, const attune_shape *s, const int *values,
			  const attune_plugin_device *d, char *error)
{
	(void)op, (void)s, (void)values, (void)d;
	snprintf(error, ATTUNE_PLUGIN_ERROR, "no licence");
	return 1;
}

static int cannot_plan(void *op, const attune_plugin_batch *b, void **out, size_t *workspace,
		       char *error)
{
	(void)op, (void)b, (void)out, (void)workspace;
	snprintf(error, ATTUNE_PLUGIN_ERROR, "no luck today");
	return 1;
}

static int cannot_launch(void *op, void *p, const attune_tensors *t, void *workspace, void *stream,
			 char *error)
{
	(void)op, (void)p, (void)t, (void)workspace, (void)stream;
	snprintf(error, ATTUNE_PLUGIN_ERROR, "no power");
	return 1;
}

static int stores(void *op, void *p, const attune_tensors *t, void *stream, char *error)
{
	(void)op, (void)p, (void)t, (void)stream, (void)error;
	return 0;
}

static void register_one(attune_plugin *p, const char *name)
{
	static const int unrolls[] = { 1, 4 };
	static const attune_plugin_axis axis = { "UNROLL", "", unrolls, 2, 4 };
	*p = (attune_plugin){ .abi = ATTUNE_PLUGIN_ABI,
			      .name = name,
			      .version = "1",
			      .backend = "cpu",
			      .axes = &axis,
			      .num_axes = 1,
			      .refuses = refuses_none,
			      .prepare = can_prepare,
			      .plan = can_plan,
			      .launch = can_launch,
			      .free_plan = free_plan,
			      .free_op = free_op };
	if (!strcmp(name, "refusing"))
		p->refuses = refuses_all;
	else if (!strcmp(name, "picky"))
		p->refuses = refuses_batches;
	else if (!strcmp(name, "unprepared"))
		p->prepare = cannot_prepare;
	else if (!strcmp(name, "planless"))
		p->plan = cannot_plan;
	else if (!strcmp(name, "powerless"))
		p->launch = cannot_launch;
	else if (!strcmp(name, "finite"))
		p->needs = ATTUNE_PLUGIN_FINITE_SLOTS;
	else if (!strcmp(name, "dense"))
		p->needs = ATTUNE_PLUGIN_DENSE_ROWS;
	else if (!strcmp(name, "storing"))
		p->store = stores;
	else if (!strcmp(name, "unscaled"))
		p->needs = ATTUNE_PLUGIN_NO_SCALES | ATTUNE_PLUGIN_E4M3_MATH;
	else if (!strcmp(name, "dividing")) {
		p->refuses = refuses_undivided;
		p->plan = plans_divided;
	}
	if (attune_register_plugin(p))
		fail_msg("%s", attune_last_error());
}

static inline int register_all(void **state)
{
	static const char *const names[] = { "good",     "refusing",  "picky",   "unprepared",
					     "planless", "powerless", "finite",  "dense",
					     "storing",  "unscaled",  "dividing" };
	static attune_plugin all[COUNT(names)];
	(void)state;
	for (size_t i = 0; i < COUNT(names); i++)
		register_one(&all[i], names[i]);
	return 0;
}

/* Opens the CPU with rules that name a plug-in: `row` as "good 1 UNROLL=4", and what the trees of
 * plug-ins say. */
static inline attune_context *open_with(const char *row, const char *prefill, const char *decode,
					const char *whole)
{
	char path[] = "/tmp/attune_rules_XXXXXX";
	attune_context *ctx = NULL;
	const int fd = mkstemp(path);
	FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
	assert_non_null(out);
	fprintf(out,
		"%schoice 0 segmented TILE_SIZE=64 STREAMS=4 WHOLE_PAGES=0 SEGMENTS=1\n"
		"plugin 0 %s\ntree prefill\nreturn 0\ntree decode\nreturn 0\n"
		"tree prefill_plugin\nreturn %s\ntree decode_plugin\nreturn %s\n"
		"tree mixed_plugin\nreturn %s\n",
		override_head("cpu"), row, prefill, decode, whole);
	fclose(out);
	setenv("ATTUNE_HEURISTICS", path, 1);
	if (attune_open(&ctx, "cpu"))
		fail_msg("%s", attune_last_error());
	unsetenv("ATTUNE_HEURISTICS");
	unlink(path); /* it was read: nothing looks at it again */
	return ctx;
}

#endif
