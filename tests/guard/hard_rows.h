/* SPDX-License-Identifier: Apache-2.0 */
/* hard_rows.h - runs kernels on the batches of hard_world.h and compares them with the definition.
 * Include after cmocka.h. The includer defines load_code(), and guarded() of hard_world.h. */
#ifndef TESTS_GUARD_HARD_ROWS_H
#define TESTS_GUARD_HARD_ROWS_H

#include "hard_world.h"
#include "kernels/args_more.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/part.h"
#include "kernels/spec/space.h"

enum { HARD_MOST_ROWS = 1024 };

static enum attune_status load_code(struct code **, const struct kernel *, const char *flags);

/* ---- a run ---------------------------------------------------------------------------------- */

/* As reference.c reads memory. */
static void fetch_host(const struct kv_source *source, int is_v, int page, int slot, int kv_head,
		       double *row)
{
	const struct kv_place at = kv_place(source->args, source->shape, is_v, page, slot, kv_head);
	for (int d = 0; d < source->shape->head_size; d++)
		row[d] =
		    value_of(source->shape->kv_dtype,
			     is_v ? source->args->v_cache : source->args->k_cache, at.first + d);
}

static int is_of(enum phase phase, int query)
{
	return query > 0 && (phase == PHASE_ALL || seq_phase(query) == phase);
}

static void check_row(const struct hard_world *w, const struct kv_source *from, int seq, int token,
		      int head, const char *what)
{
	const attune_shape *s = &w->of->s;
	const attune_tensors *t = &w->host;
	double want[256], mass[256], lse = 0;
	struct kv_source source = *from;
	source.mass = mass;
	source.lse = &lse;
	reference_row_from(&source, seq, token, head, want);
	const long long row = w->batch->query_start[seq] + token;
	const long long at = row * t->out_token_stride + head * t->out_head_stride;
	for (int d = 0; d < s->head_size; d++) {
		const double got = value_of(s->dtype, w->a[OUT].host, at + d);
		if (!(fabs(got - want[d]) <= check_tolerance(s, mass[d], want[d])))
			fail_msg("%s: sequence %d, token %d, head %d, dim %d: %g, %g is right",
				 what, seq, token, head, d, got, want[d]);
	}
	const double got = w->lse[row * t->lse_token_stride + head * t->lse_head_stride];
	if (s->has_lse && got != lse && !(fabs(got - lse) <= 1e-3 + 1e-5 * fabs(lse)))
		fail_msg("%s: sequence %d, token %d, head %d: LSE %g, %g is right", what, seq,
			 token, head, got, lse);
}

/* Some of many rows; the last token among them. */
static void check_rows(const struct hard_world *w, enum phase phase, const char *what)
{
	const attune_shape *s = &w->of->s;
	const attune_batch *b = &w->batch->view;
	struct attune_call call;
	call_from_tensors(&call, s, &w->host, b->num_seqs);
	call.args.window = s->window; /* in the caller's words */
	const struct kv_source source = {
		.fetch = fetch_host, .args = &call.args, .shape = s, .scales = &call.more
	};
	for (int i = 0; i < b->num_seqs; i++) {
		const int query = b->query_start[i + 1] - b->query_start[i];
		for (int token = 0; is_of(phase, query) && token < query; token++)
			for (int head = 0; head < s->num_query_heads; head++)
				if (query < 10 || token + 1 == query || token % 17 == head)
					check_row(w, &source, i, token, head, what);
	}
}

/* Whether the choice runs this phase of the batch; as: the choice resolved for it. */
static int is_legal(struct choice *as, const struct choice *c, const attune_shape *s,
		    const attune_batch *b, enum phase phase, struct part *part)
{
	as->kernel = c->kernel;
	return part_make(part, phase, s, b, &dev.info) &&
	       !config_resolve(&as->config, &c->config, c->kernel, s, part, &dev.info);
}

static void run_phase(struct hard_world *w, const struct choice *choice, const struct loaded *l,
		      enum phase phase, const char *what)
{
	const attune_shape *s = &w->of->s;
	const attune_batch *b = &w->batch->view;
	struct choice c = { .kernel = choice->kernel };
	struct launchable launch = { c.kernel, &c.config, l->code, { NULL }, 0, NULL, 0 };
	struct attune_call call;
	struct part part;
	int table_seq, table_pages;
	if (!is_legal(&c, choice, s, b, phase, &part))
		return;
	const size_t bytes = part_workspace(c.kernel, &c.config, s, &part, &dev.info);
	void *workspace = guarded((bytes + 15) / 16 * 16);
	memset(w->a[OUT].host, HARD_POISON, w->a[OUT].bytes);
	call_from_tensors(&call, s, &w->device, b->num_seqs);
	batch_table(b, s->page_size, &table_seq, &table_pages);
	launch.table_last =
	    table_last(call.args.block_table, call.args.block_table_stride, table_seq, table_pages);
	memcpy(launch.helper, l->helper, sizeof launch.helper);
	part.estimated = part_estimate(c.kernel, &c.config, s, &part, &dev.info);
	if ((bytes && dev.ops->fill(&dev, workspace, HARD_POISON, bytes)) ||
	    dev.ops->put(&dev, w->device.out, w->a[OUT].host, w->a[OUT].bytes) ||
	    run_part(&dev, &launch, s, &part, &call, workspace, bytes, ALL_STEPS,
		     dev.ops->stream(&dev)) ||
	    dev.ops->wait(&dev, dev.ops->stream(&dev)) ||
	    dev.ops->get(&dev, w->a[OUT].host, w->device.out, w->a[OUT].bytes) ||
	    dev.ops->get(&dev, w->a[LSE].host, w->device.lse, w->a[LSE].bytes))
		fail_msg("%s: %s", what, attune_last_error());
	w->lse = w->a[LSE].host;
	check_rows(w, phase, what);
}

/* ---- rows ------------------------------------------------------------------------------------- */

static struct hard_row {
	char name[320];
	const struct hard_case *of;
	struct choice choice;
	int gpu; /* the includer's */
} hard_rows[HARD_MOST_ROWS];
static int num_hard_rows;

static void load_hard(struct code **code, const struct kernel *k, const struct config *c,
		      const attune_shape *s)
{
	char flags[MAX_FLAGS];
	binary_flags(flags, sizeof flags, k, c, s);
	if (load_code(code, k, flags))
		fail_msg("%s %s: %s", k->name, flags, attune_last_error());
}

static void pose_for(const struct hard_row *);

static void hard_row_passes(void **state)
{
	const struct hard_row *r = *state;
	const struct kernel *k = r->choice.kernel;
	struct loaded l = { 0 };
	release_guarded(); /* of a row that failed */
	pose_for(r);
	load_hard(&l.code, k, &r->choice.config, &r->of->s);
	for (enum helper h = 0; h < NUM_HELPERS; h++) {
		const struct kernel *helper = kernel_helper(k->backend, h);
		struct config none;
		if (!helper || !kernel_takes(k, &r->choice.config, h))
			continue;
		config_default(&none, helper->space);
		load_hard(&l.helper[h], helper, &none, &r->of->s);
	}
	for (size_t i = 0; i < COUNT(r->of->batches) && r->of->batches[i]; i++) {
		struct hard_world w;
		make_world(&w, r->of, r->of->batches[i]);
		for (enum phase p = PHASE_ALL; p <= PHASE_DECODE; p++)
			run_phase(&w, &r->choice, &l, p, r->of->batches[i]);
		free_world(&w);
	}
	dev.ops->unload(&dev, l.code);
	for (enum helper h = 0; h < NUM_HELPERS; h++)
		if (l.helper[h])
			dev.ops->unload(&dev, l.helper[h]);
}

/* "ring COMBINE=1 SEGMENTS=4": defaults for all other axes. */
static int choose_hard(struct choice *c, enum backend backend, const char *text)
{
	char name[32], axis[32];
	int value, n = 0;
	sscanf(text, "%31s%n", name, &n);
	c->kernel = kernel_find(backend, name);
	assert_non_null(c->kernel);
	config_default(&c->config, c->kernel->space);
	for (text += n; sscanf(text, " %31[A-Z_]=%d%n", axis, &value, &n) == 2; text += n)
		for (int i = 0; i < c->kernel->space->num_axes; i++)
			if (!strcmp(c->kernel->space->axis[i].name, axis))
				c->config.v[i] = value;
	return !*text;
}

static int runs_somewhere(const struct hard_case *of, const struct choice *c)
{
	int runs = 0;
	for (size_t i = 0; i < COUNT(of->batches) && of->batches[i]; i++) {
		char error[200];
		struct batch *b = batch_parse(of->batches[i], error, sizeof error);
		struct choice as;
		struct part part;
		assert_non_null(b);
		for (enum phase p = PHASE_ALL; p <= PHASE_DECODE; p++)
			runs += is_legal(&as, c, &of->s, &b->view, p, &part);
		batch_free(b);
	}
	return runs > 0;
}

/* Whether the kernel may read slots behind the last key, which a ragged array may not have: warpgroup
 * copies whole groups of slots, so that attune_run asks whether the memory goes on (t_gpu_lists.c); on
 * AMD GPUs kernels read whole pages. */
static int reads_behind(const struct kernel *k, const struct hard_case *of)
{
	return of->values == RAGGED &&
	       (k->space->takes_maps || (dev.info.lanes == 64 && of->s.page_size > 1));
}

/* For each case of which the choice runs some batch. */
static void add_hard_rows(const char *text, enum backend backend, int gpu)
{
	struct choice c;
	assert_true(choose_hard(&c, backend, text));
	for (size_t i = 0; i < COUNT(hard_cases); i++) {
		struct hard_row *r = &hard_rows[num_hard_rows];
		if (c.kernel->space->why_illegal(&c.config, &hard_cases[i].s, NULL, &dev.info) ||
		    reads_behind(c.kernel, &hard_cases[i]) || !runs_somewhere(&hard_cases[i], &c))
			continue;
		assert_true(num_hard_rows < HARD_MOST_ROWS);
		*r = (struct hard_row){ .of = &hard_cases[i], .choice = c, .gpu = gpu };
		snprintf(r->name, sizeof r->name, "%s: %s, %s", dev.info.gpu, text,
			 hard_cases[i].name);
		num_hard_rows++;
	}
}

static int run_hard_rows(const char *title)
{
	static struct CMUnitTest tests[HARD_MOST_ROWS];
	for (int i = 0; i < num_hard_rows; i++)
		tests[i] = (struct CMUnitTest){ hard_rows[i].name, hard_row_passes, NULL, NULL,
						&hard_rows[i] };
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return _cmocka_run_group_tests(title, tests, (size_t)num_hard_rows, NULL, NULL);
}

/* The GPU's kernels that read strided caches. */
static const char *const gpu_choices[] = {
	"ring SEGMENTS=1",
	"ring COMBINE=1 SEGMENTS=2",
	"ring COMBINE=0 SEGMENTS=3 TILE_SIZE=32",
	"ring_list",
	"warpgroup",
	"warpgroup PACKED=1",
	"warpgroup BLOCK_M=64 TURNS=0 TILE_SIZE=64 SEGMENTS=3",
	"warpgroup BLOCK_M=64 TURNS=0 TILE_SIZE=64",
	"warpgroup_mixed",
	"qblock",
	"segmented SEGMENTS=3",
	"segmented_static SEGMENTS=2",
	"decode2d",
	"pod",
	"naive",
};

#endif
