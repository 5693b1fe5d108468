/* t_recorded.c - what recorded steps select, by the code that the device runs too. Among the
 * choices of their kernels it is the one that the library's own functions select, for the
 * committed heuristic and for one of thresholds, ids, formulas and segment costs. Also the
 * bodies in those kernels, and decodes where ring_list runs them. */
#include "kernels/replan/replan.h"
#include "kernels/ship/shipped.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tests/support/random_part.h"

enum { ROUNDS = 4000, MAX_READY = 64 };

static const enum decision decided[NUM_RECORDED] = { DECIDE_PREFILL, DECIDE_DECODE };

/* An op without a device. */
struct subject {
	const struct selector *h;
	struct ready v[MAX_READY];
	int n;
	struct recorder r;
	attune_shape shape;
	int picked[MAX_READY], cut[MAX_READY]; /* how often, and in more than one segment */
};

static const struct selector *h200(void)
{
	const struct device_info d = { .gpu = "h200" };
	return selector_for(&d, ATTUNE_BF16);
}

enum { BY_BODIES, ALONE };

static const struct ready *first_of(const struct subject *s, const char *kernel)
{
	for (int i = 0; i < s->n; i++)
		if (s->v[i].kernel == kernel_find(BACKEND_GPU, kernel))
			return &s->v[i];
	return NULL;
}

/* ALONE: parts by the first choices of warpgroup and of ring_list, as where these are carried. */
static void subject_make(struct subject *s, const struct selector *h, attune_shape shape, int how)
{
	size_t bytes;
	memset(s, 0, sizeof *s);
	s->h = h;
	s->shape = shape;
	for (; h && s->n < h->num_choices; s->n++) {
		struct ready *r = &s->v[s->n];
		const char *where;
		r->kernel = kernel_find(BACKEND_GPU, h->choices[s->n].kernel);
		assert_true(
		    config_parse(&r->config, r->kernel->space, h->choices[s->n].text, &where));
		r->costs = costs_for(h->costs, h->num_costs, s->n, shape.head_size);
	}
	for (const struct fallback *f = attune_fallbacks; f->kernel; f++, s->n++) {
		s->v[s->n].kernel = kernel_find(BACKEND_GPU, f->kernel);
		fallback_config(&s->v[s->n].config, f, s->v[s->n].kernel->space);
	}
	if (how == ALONE) {
		s->r.alone[RECORDED_PREFILL] = first_of(s, "warpgroup");
		s->r.alone[RECORDED_DECODE] = first_of(s, "ring_list");
	}
	for (int w = 0; w < NUM_RECORDED; w++)
		bodies_of(&s->r.bodies[w], h && h->num_shapes ? h : h200(), w, &shape);
	s->r.table =
	    record_table(&s->r, h, s->v, h ? h->num_choices : 0, s->n, &shape, &gpu, &bytes);
	assert_non_null(s->r.table);
}

/* ---- the pick, by config_fitted ----------------------------------------------------------- */

static int is_in(const struct subject *s, int w, int id)
{
	return bodies_find(&s->r.bodies[w], s->v[id].kernel, &s->v[id].config) >= 0 &&
	       !s->v[id].kernel->space->why_illegal(&s->v[id].config, &s->shape, NULL, &gpu);
}

static int segments_of(const struct ready *r, const struct config *c)
{
	return r->kernel->space->formula_axis < 0 ? 1 : c->v[r->kernel->space->formula_axis];
}

static int usable(const struct subject *s, int w, int id, const struct part *p, int *segments)
{
	struct config c;
	const struct ready *r = &s->v[id];
	if (!is_in(s, w, id) ||
	    config_fitted(&c, &r->config, r->kernel, r->costs, &s->shape, p, &gpu))
		return 0;
	*segments = segments_of(r, &c);
	return 1;
}

static int wanted(const struct subject *s, int w, const struct part *p, int *segments)
{
	const int says = s->h ? selector_says(s->h, decided[w], &p->f) : SAYS_DEFAULTS;
	const int num_choices = s->h ? s->h->num_choices : 0;
	int id = -1;
	if (says >= 0 && usable(s, w, says, p, segments))
		id = says;
	for (int k = num_choices; id < 0 && k < s->n; k++) {
		const int at = w == RECORDED_DECODE ? s->n - 1 - (k - num_choices) : k;
		if (usable(s, w, at, p, segments))
			id = at;
	}
	return id;
}

static void draw(int32_t start[MAX_SEQS + 1], int32_t seq[MAX_SEQS], attune_batch *b)
{
	const unsigned longest = 1 + below(600);
	*b = (attune_batch){ sizeof(attune_batch), 1 + (int)below(MAX_SEQS), start, seq };
	for (int i = 0; i < b->num_seqs; i++) {
		const int32_t query = below(4) ? 1 : (int32_t)below(longest);
		start[i + 1] = start[i] + query;
		seq[i] = query + (below(9) ? (int32_t)(1 + below(2u << below(17))) : 0);
	}
}

static int runs_alone(const struct subject *s, int w, const struct part *p)
{
	const struct ready *r = s->r.alone[w];
	if (!r || w == RECORDED_PREFILL)
		return r != NULL;
	const int rows = config_value(&r->config, r->kernel->space, "BLOCK_M", 0);
	const int group = s->shape.num_query_heads / s->shape.num_kv_heads;
	return p->max_query == 1 || p->max_query * group <= rows;
}

/* Returns how many different choices were picked. */
static int picks_agree(struct subject *s)
{
	int different = 0;
	for (int round = 0; round < ROUNDS; round++) {
		int32_t start[MAX_SEQS + 1] = { 0 }, seq[MAX_SEQS];
		struct recorded_plan plan;
		attune_batch b;
		draw(start, seq, &b);
		record_pick(&plan, s->r.table, &b);
		for (int w = 0; w < NUM_RECORDED; w++) {
			const struct recorded_part *got = &plan.part[w];
			const enum phase phase =
			    w == RECORDED_DECODE ? PHASE_DECODE : PHASE_PREFILL;
			struct part p;
			int segments = 1;
			if (!part_make(&p, phase, &s->shape, &b, &gpu)) {
				assert_int_equal(got->choice, -1);
				continue;
			}
			const int alone = runs_alone(s, w, &p);
			const int id =
			    alone ? (int)(s->r.alone[w] - s->v) : wanted(s, w, &p, &segments);
			assert_int_equal(got->choice, id);
			assert_int_equal(got->segments, segments);
			assert_int_equal(got->body, bodies_find(&s->r.bodies[w], s->v[id].kernel,
								&s->v[id].config));
			assert_int_equal(got->seq_begin, p.seq_begin);
			assert_int_equal(got->seq_count, p.seq_count);
			assert_int_equal(got->min_query, p.min_query);
			assert_int_equal(got->max_query, p.max_query);
			assert_int_equal(got->teams >= 1, !alone);
			different += !s->picked[id]++;
			s->cut[id] += got->segments > 1;
		}
	}
	free(s->r.table);
	return different;
}

/* Its decode choices (ring, ring_list, warpgroup) have no body, so recorded steps run the defaults.
 * ids_formulas_and_costs() tests rules whose choices have bodies. */
static void the_committed_heuristic(void **state)
{
	struct subject s;
	(void)state;
	for (int i = 0; i < 12; i++) {
		subject_make(&s, h200(), random_shape(), BY_BODIES);
		assert_true(picks_agree(&s) >= 2);
	}
}

static void no_heuristic(void **state)
{
	struct subject s;
	(void)state;
	subject_make(&s, NULL, random_shape(), BY_BODIES);
	assert_int_equal(picks_agree(&s), 2);
}

/* Thresholds, ids, formulas, costs of segments, a choice that no kernel of recorded steps has. */
static const struct selector *by_hand(void)
{
	static const struct selector_row choices[] = {
		{ "naive", "NUM_WARPS=4" },
		{ "qblock", "BLOCK_M=64 TILE_SIZE=64 NUM_WARPS=4 NUM_STAGES=2" },
		{ "segmented", "BLOCK_M=16 TILE_SIZE=64 NUM_WARPS=4 NUM_STAGES=2 "
			       "SEGMENTS=balance(1,96,192,16)" },
		{ "segmented", "BLOCK_M=16 TILE_SIZE=128 NUM_WARPS=8 NUM_STAGES=2 "
			       "SEGMENTS=balance(0,192,192,16)" },
		{ "segmented", "BLOCK_M=16 TILE_SIZE=64 NUM_WARPS=4 NUM_STAGES=2 SEGMENTS=16" },
		{ "segmented", "BLOCK_M=32 TILE_SIZE=32 NUM_WARPS=2 NUM_STAGES=3 SEGMENTS=fitted" },
		{ "segmented", "BLOCK_M=16 TILE_SIZE=64 NUM_WARPS=4 NUM_STAGES=2 SEGMENTS=fitted" },
	};
	static const struct selector_costs costs[] = {
		{ 5, 128, { 4, 64, 33380000, 2400000000, 228100000, 438700 } },
		{ 5, 64, { 6, 64, 23660000, 2316000000, 206100000, 182400 } },
		{ 6, 64, { 2, 0, 11370000, 294700000, 17550000, 123300 } }, /* of 128 none */
	};
	static const struct selector_shapes shapes[] = { { "64 128", "BF16" } };
	static const struct selector_node nodes[] = {
		{ ATTUNE_FEATURE_kv_tokens, 2, 8192 },
		{ -1, 0, 0 },
		{ ATTUNE_FEATURE_num_seqs, 4, 12 },
		{ -1, 0, 5 },
		{ -1, 0, 1 },
		{ ATTUNE_FEATURE_max_seq, 9, 9000 },
		{ ATTUNE_FEATURE_num_seqs, 8, 8 },
		{ -1, 0, 4 },
		{ -1, 0, 2 },
		{ ATTUNE_FEATURE_skew, 13, 40 },
		{ ATTUNE_FEATURE_num_seqs, 12, 4 },
		{ -1, 0, 6 },
		{ -1, 0, 3 },
		{ ATTUNE_FEATURE_num_seqs, 15, 20 },
		{ -1, 0, 5 },
		{ -1, 0, 6 },
		{ -1, 0, SAYS_SERIAL },
	};
	static const struct selector h = { .gpu = "h200",
					   .arch = "sm_90",
					   .choices = choices,
					   .num_choices = COUNT(choices),
					   .costs = costs,
					   .num_costs = COUNT(costs),
					   .shapes = shapes,
					   .num_shapes = COUNT(shapes),
					   .root = { 0, 5, 16, 16 },
					   .nodes = nodes,
					   .num_nodes = COUNT(nodes) };
	return &h;
}

/* Choice 6 has costs at head size 64 alone, which serve other sizes. */
static void ids_formulas_and_costs(void **state)
{
	struct subject s;
	(void)state;
	for (int i = 0; i < 6; i++) {
		attune_shape shape = random_shape();
		shape.head_size = i % 2 ? 64 : 128;
		shape.window = 0;
		subject_make(&s, by_hand(), shape, BY_BODIES);
		assert_true(picks_agree(&s) >= 6);
		assert_int_equal(s.picked[0], 0);
		for (int id = 1; id < by_hand()->num_choices; id++) {
			assert_true(s.picked[id] > 0);
			assert_int_equal(s.cut[id] > 0, id != 1 && s.picked[id]);
		}
	}
}

/* Prompts, and decodes that fit a Q block, run by one choice each; without a heuristic prompts
 * have none. */
static void parts_run_alone(void **state)
{
	struct subject s;
	(void)state;
	for (int i = 0; i < 2; i++) {
		subject_make(&s, h200(), random_shape(), ALONE);
		assert_true(picks_agree(&s) >= 2);
		subject_make(&s, NULL, random_shape(), ALONE);
		assert_true(picks_agree(&s) >= 2);
	}
}

/* The ids in the leaves below a node. */
static void ids_below(const struct selector *h, int node, int *named)
{
	const struct selector_node *n = &h->nodes[node];
	if (n->feature < 0) {
		if (n->value >= 0)
			named[n->value] = 1;
		return;
	}
	ids_below(h, node + 1, named);
	ids_below(h, n->above, named);
}

static int has_binary(const struct selector *h, const char *kernel, const char *flags)
{
	struct binary_walk w = { 0 };
	while (selector_next_binary(h, &w))
		if (!strcmp(w.kernel, kernel) && !strcmp(w.flags, flags))
			return 1;
	return 0;
}

/* The body's number of a choice that the kernel of recorded steps may run; -1: none. */
static int body_of(const struct selector *h, int id, const attune_shape *shape,
		   const struct bodies *b, int is_named)
{
	static const char *const names[] = { "qblock", "segmented", "qblock_static",
					     "segmented_static" };
	const struct selector_row *row = &h->choices[id];
	const struct kernel *k = kernel_find(BACKEND_GPU, row->kernel);
	char flags[MAX_FLAGS];
	const char *where;
	struct config c;
	int has_body = 0;
	for (size_t i = 0; i < COUNT(names); i++)
		has_body |= !strcmp(row->kernel, names[i]);
	assert_true(config_parse(&c, k->space, row->text, &where));
	binary_flags(flags, sizeof flags, k, &c, shape);
	const int found = bodies_find(b, k, &c);
	if (!has_body)
		assert_int_equal(found, -1);
	else if (is_named && has_binary(h, row->kernel, flags))
		assert_true(found >= 0);
	else
		assert_true(found <= 0); /* the default */
	return found;
}

/* The default, and all that the tree of the part names and the header carries: nothing else. */
static void bodies_are_what_may_be_picked(void **state)
{
	const attune_shape shape = { .size = sizeof(attune_shape),
				     .num_query_heads = 32,
				     .num_kv_heads = 8,
				     .head_size = 128,
				     .dtype = ATTUNE_BF16,
				     .kv_dtype = ATTUNE_BF16 };
	attune_shape odd = shape;
	struct bodies b;
	char flags[MAX_FLAGS];
	(void)state;
	for (int i = 0; i < 2 * NUM_RECORDED; i++) {
		const struct selector *h = i < NUM_RECORDED ? h200() : by_hand();
		const int w = i % NUM_RECORDED;
		int named[MAX_READY] = { 0 }, seen[MAX_BODIES] = { 1 };
		bodies_of(&b, h, w, &shape);
		assert_in_range(b.n, 1, MAX_BODIES);
		assert_in_range(bodies_flags(flags, sizeof flags, &b, &shape), 1, MAX_FLAGS - 1);
		assert_non_null(strstr(flags, "-DHEAD_SIZE=128 -DDTYPE=BF16 -DWARPS="));
		assert_int_equal(strstr(flags, " -DB0=16064042 -DB1=") != NULL, b.n > 1);
		ids_below(h, h->root[decided[w]], named);
		for (int id = 0; id < h->num_choices; id++) {
			const int body = body_of(h, id, &shape, &b, named[id]);
			if (body >= 0)
				seen[body] = 1;
		}
		for (int k = 0; k < b.n; k++)
			assert_true(seen[k]);
		if (h == by_hand())
			assert_int_equal(b.n, 3);
	}
	odd.head_size = 96; /* not measured */
	bodies_of(&b, h200(), RECORDED_DECODE, &odd);
	bodies_flags(flags, sizeof flags, &b, &odd);
	assert_string_equal(flags, "-DHEAD_SIZE=96 -DDTYPE=BF16 -DWARPS=8");
}

static void a_cpu_records_nothing(void **state)
{
	const attune_shape shape = { .size = sizeof(attune_shape),
				     .num_query_heads = 4,
				     .num_kv_heads = 2,
				     .head_size = 64,
				     .page_size = 16,
				     .causal = 1 };
	const attune_bounds bounds = { sizeof(attune_bounds), 4, 1, 4 };
	attune_context *ctx;
	attune_op *op;
	size_t plan, workspace;
	(void)state;
	assert_int_equal(attune_open(&ctx, "cpu"), ATTUNE_OK);
	assert_int_equal(attune_prepare(ctx, &shape, &op), ATTUNE_OK);
	assert_int_equal(attune_record_sizes(op, &bounds, &plan, &workspace), ATTUNE_UNSUPPORTED);
	assert_int_equal(attune_record_sizes(op, &(attune_bounds){ sizeof(attune_bounds), 4, 8, 4 },
					     &plan, &workspace),
			 ATTUNE_INVALID);
	assert_int_equal(attune_record_sizes(NULL, &bounds, &plan, &workspace), ATTUNE_INVALID);
	attune_release(op);
	attune_close(ctx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_committed_heuristic),
		cmocka_unit_test(no_heuristic),
		cmocka_unit_test(ids_formulas_and_costs),
		cmocka_unit_test(parts_run_alone),
		cmocka_unit_test(bodies_are_what_may_be_picked),
		cmocka_unit_test(a_cpu_records_nothing),
	};
	if (!h200()) {
		puts("1..0 # SKIP no header of a GPU is generated");
		return 0;
	}
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("recorded", tests, NULL, NULL);
}
