/* table.c - makes the table of an op's heuristic for the device, and picks by it as the device
 * does. */
#include "replan.h"
#include "kernels/launch/run.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const enum decision decided[NUM_RECORDED] = { DECIDE_PREFILL, DECIDE_DECODE };
enum { WORD_BYTES = 4, TEAM_ALIGN = 128 };

/* ---- the table -------------------------------------------------------------------------- */

/* Geometry of a body: its threads and shared memory. */
static struct geometry body_geometry(const struct kernel *k, const struct config *c,
				     const attune_shape *shape, const struct device_info *d)
{
	struct geometry g;
	struct part none = { .seq_count = 1, .max_query = 1 };
	struct config one = *c;
	if (k->space->formula_axis >= 0)
		one.v[k->space->formula_axis] = 1;
	k->space->geometry(&one, shape, &none, d, &g);
	return g;
}

static void set_teams(struct recorded_table *t, const struct recorder *r, const attune_shape *shape,
		      const struct device_info *d)
{
	const struct kernel *k = kernel_find(BACKEND_GPU, "segmented");
	for (int w = 0; w < NUM_RECORDED; w++)
		for (int i = 0; i < r->bodies[w].n; i++) {
			const struct geometry g =
			    body_geometry(k, &r->bodies[w].config[i], shape, d);
			const int warps = r->bodies[w].warps * d->lanes / (int)g.threads;
			const int bytes =
			    ((int)g.smem + WORD_BYTES + TEAM_ALIGN - 1) / TEAM_ALIGN * TEAM_ALIGN;
			const int fit = d->smem_per_block / bytes;
			t->team_bytes[w][i] = bytes;
			t->teams[w][i] = warps < fit ? warps : fit;
		}
}

/* How a choice finds its number of segments: by its value, its costs or a formula. A formula also
 * needs the blocks that a unit holds. */
static void set_segments(struct recorded_choice *out, const struct ready *r,
			 const attune_shape *shape, const struct device_info *d)
{
	const struct space *s = r->kernel->space;
	out->is_cut = s->formula_axis >= 0;
	if (!out->is_cut)
		return;
	out->num_values = s->axis[s->formula_axis].num_values;
	out->value = r->config.v[s->formula_axis];
	out->has_costs = config_is_fitted(&r->config, s);
	if (out->has_costs)
		out->costs = *r->costs;
	if (out->value >= 0)
		return;
	out->formula = s->formulas[-1 - out->value];
	out->value = 0;
	if (!out->formula.slots) {
		const struct geometry g = body_geometry(r->kernel, &r->config, shape, d);
		out->formula.slots = blocks_resident(&g, d);
	}
}

/* The order in which defaults are tried: for decodes in reverse (plan.c). */
static int rank_of(int which, int i, int first_default, int n)
{
	if (i < first_default)
		return -1;
	return which == RECORDED_DECODE ? n - 1 - i : i - first_default;
}

/* 0: no body can run it. */
static int set_choice(struct recorded_choice *out, const struct recorded_table *t,
		      const struct recorder *r, const struct ready *ready, int id)
{
	int any = 0;
	if (config_is_fitted(&ready->config, ready->kernel->space) && !ready->costs)
		return 0;
	*out = (struct recorded_choice){ .id = id };
	for (int w = 0; w < NUM_RECORDED; w++) {
		const int body = bodies_find(&r->bodies[w], ready->kernel, &ready->config);
		out->body[w] = body >= 0 && t->teams[w][body] ? body : -1;
		any |= out->body[w] >= 0;
	}
	block_shape_of(&out->block, &ready->config, ready->kernel);
	return any;
}

static void set_values(struct recorded_table *t)
{
	const struct space *s = kernel_find(BACKEND_GPU, "segmented_static")->space;
	const struct axis *a = &s->axis[s->formula_axis];
	for (int i = 0; i < a->num_values && i < MAX_RECORDED_VALUES; i++)
		t->values[t->num_values++] = a->values[i];
}

/* ring_list's first option is the number of tokens of a Q block. */
static void set_alone(struct recorded_table *t, const struct ready *v, const struct ready *const *r,
		      const attune_shape *shape, const struct device_info *d)
{
	for (int w = 0; w < NUM_RECORDED; w++)
		if (r[w])
			t->alone[w] = (int)(r[w] - v);
	if (r[RECORDED_PREFILL])
		t->alone_query[RECORDED_PREFILL] = INT_MAX;
	const struct ready *list = r[RECORDED_DECODE];
	if (!list)
		return;
	const struct geometry g = body_geometry(list->kernel, &list->config, shape, d);
	t->alone_query[RECORDED_DECODE] = (int)min_of(g.option[0], DECODE_MAX_QUERY);
}

struct recorded_table *record_table(const struct recorder *r, const struct selector *h,
				    const struct ready *v, int first_default, int n,
				    const attune_shape *shape, const struct device_info *d,
				    size_t *bytes)
{
	const int num_nodes = h ? h->num_nodes : 0;
	*bytes = sizeof(struct recorded_table) + (size_t)num_nodes * sizeof *h->nodes;
	struct recorded_table *t = calloc(1, *bytes);
	if (!t)
		return NULL;
	part_shape_of(&t->shape, shape, d);
	set_values(t);
	set_teams(t, r, shape, d);
	set_alone(t, v, r->alone, shape, d);
	t->num_nodes = num_nodes;
	for (int w = 0; w < NUM_RECORDED; w++)
		t->root[w] = num_nodes ? h->root[decided[w]] : -1;
	if (num_nodes)
		memcpy(t + 1, h->nodes, (size_t)num_nodes * sizeof *h->nodes);
	for (int i = 0; i < n && t->num_choices < MAX_RECORDED; i++) {
		struct recorded_choice *c = &t->choice[t->num_choices];
		if (v[i].kernel->space->why_illegal(&v[i].config, shape, NULL, d) ||
		    !set_choice(c, t, r, &v[i], i))
			continue;
		set_segments(c, &v[i], shape, d);
		for (int w = 0; w < NUM_RECORDED; w++)
			c->rank[w] = rank_of(w, i, first_default, n);
		t->num_choices++;
	}
	return t;
}

/* ---- what planner.cu does, on the host -------------------------------------------------- */

static int first_offer(const struct recorded_table *t, const struct part *p, int which, int says)
{
	long long least = -1;
	int first = -1;
	for (int i = 0; i < t->num_choices * MAX_RECORDED_VALUES; i++) {
		const long long rank = offer_rank(t, p, which, says, i);
		if (rank >= 0 && (first < 0 || rank < least)) {
			least = rank;
			first = i;
		}
	}
	return first;
}

void record_pick(struct recorded_plan *plan, const struct recorded_table *t, const attune_batch *b)
{
	struct part_sums sums[NUM_RECORDED];
	for (int w = 0; w < NUM_RECORDED; w++)
		sums_start(&sums[w]);
	for (int i = 0; i < b->num_seqs; i++) {
		const int query = b->query_start[i + 1] - b->query_start[i];
		if (query > 0)
			sums_add(&sums[seq_phase(query) == PHASE_DECODE ? RECORDED_DECODE
									: RECORDED_PREFILL],
				 &t->shape, i, query, b->seq_lens[i]);
	}
	for (int w = 0; w < NUM_RECORDED; w++) {
		struct part p;
		recorded_clear(&plan->part[w]);
		if (!part_from(&p, &t->shape, &sums[w], &sums[RECORDED_PREFILL],
			       &sums[RECORDED_DECODE], b->query_start))
			continue;
		if (is_alone(t, &p, w)) {
			recorded_put_part(&plan->part[w], &p, t->alone[w]);
			continue;
		}
		int offer = first_offer(t, &p, w, recorded_says(t, &p, w));
		if (offer < 0)
			offer = first_offer(t, &p, w, SAYS_DEFAULTS);
		if (offer >= 0)
			recorded_put(&plan->part[w], t, &p, w, offer);
	}
}

void record_put(attune_plan *plan, const attune_op *op, const struct recorded_part *p,
		const attune_batch *b)
{
	const struct ready *r = &op->ready[p->choice];
	const int axis = r->kernel->space->formula_axis, end = p->seq_begin + p->seq_count;
	attune_part *out = &plan->part[plan->num_parts++];
	struct config c = r->config;
	if (axis >= 0)
		c.v[axis] = p->segments;
	*out = (attune_part){ .choice = p->choice,
			      .seq_begin = p->seq_begin,
			      .seq_count = p->seq_count,
			      .min_query = p->min_query,
			      .max_query = p->max_query,
			      .resolved = axis >= 0 ? p->segments : 0,
			      .range_tokens = b->query_start[end] - b->query_start[p->seq_begin] };
	const struct part part = { .seq_begin = out->seq_begin,
				   .seq_count = out->seq_count,
				   .min_query = out->min_query,
				   .max_query = out->max_query,
				   .range_tokens = out->range_tokens };
	out->workspace = part_workspace(r->kernel, &c, &op->shape, &part, &op->ctx->device.info);
	plan->workspace = (size_t)max_of((long long)plan->workspace, (long long)out->workspace);
}
