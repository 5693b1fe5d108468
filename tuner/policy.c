/* policy.c - what is picked for a scenario: by a forest, and by the baselines
 * that it is judged against. */
#include "policy.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const policy_names[NUM_POLICIES] = {
	[POLICY_TREE] = "tree",
	[POLICY_ORACLE] = "oracle",
	[POLICY_BEST_FIXED] = "best_fixed",
	[POLICY_VLLM_RULE] = "vllm_rule",
	[POLICY_AITER_RULE] = "aiter_rule",
	[POLICY_NEAREST] = "nearest_neighbour",
	[POLICY_GREEDY] = "greedy_tree",
	[POLICY_LABEL] = "label_tree",
	[POLICY_DEFAULT] = "default",
};

/* ---- the kernels' defaults ------------------------------------------------------- */
/* In the library's order (kernels/attune.c): few rows ask from the end. */
static const char *const default_order[] = { "qblock", "segmented" };

/* What c means for that part of the batch, a formula worked out; 0: it may not run. */
static int made_legal(const struct data *d, const struct measured *m, enum phase phase,
		      const struct choice *c, struct choice *out)
{
	struct choice made = { .kernel = c->kernel };
	if (config_resolve(&made.config, &c->config, c->kernel, &m->shape, &m->part[phase],
			   &d->run.device) ||
	    c->kernel->space->why_illegal(&made.config, &m->shape, &m->part[phase], &d->run.device))
		return 0;
	*out = made;
	return 1;
}

static int default_made(const struct data *d, const struct measured *m, enum phase phase,
			struct choice *out)
{
	const int n = (int)COUNT(default_order);
	const int few = m->part[phase].max_query <= DECODE_MAX_QUERY;
	for (int i = 0; i < n; i++) {
		struct choice c;
		c.kernel = kernel_find(d->run.device.backend, default_order[few ? n - 1 - i : i]);
		if (!c.kernel)
			continue;
		config_default(&c.config, c.kernel->space);
		if (made_legal(d, m, phase, &c, out))
			return 1;
	}
	out->kernel = NULL;
	return 0;
}

int default_choice(const struct data *d, int scenario, enum phase phase)
{
	struct choice c;
	return default_made(d, &d->v[scenario], phase, &c) ? data_find(d, &c) : -1;
}

int made_or_default(const struct data *d, const struct measured *m, enum phase phase,
		    const struct choice *c, struct choice *out)
{
	return (c && c->kernel && made_legal(d, m, phase, c, out)) ||
	       default_made(d, m, phase, out);
}

void made_pick(const struct data *d, const struct made *made, struct pick *out)
{
	out->prefill = made->prefill.kernel ? data_find(d, &made->prefill) : -1;
	out->decode = made->decode.kernel ? data_find(d, &made->decode) : -1;
	out->join = made->join;
	out->how = made->how;
}

/* ---- a forest ------------------------------------------------------------------------ */
static int decide(const struct forest *f, enum decision decision, const struct measured *m)
{
	const struct tree *t = &f->tree[decision];
	return t->v[tree_leaf(t, &m->part[decision_phase(decision)].f)].action;
}

int action_choice(const struct data *d, const struct forest *f, enum phase phase, int action,
		  const struct measured *m, struct choice *out)
{
	if (action < 0)
		return 0;
	const struct choice *c = &f->choice[action];
	const struct segment_costs *costs =
	    costs_for(f->costs, f->num_costs, action, m->shape.head_size);
	struct choice made = { .kernel = c->kernel };
	if (config_fitted(&made.config, &c->config, c->kernel, costs, &m->shape, &m->part[phase],
			  &d->run.device))
		return 0;
	*out = made;
	return 1;
}

int action_or_default(const struct data *d, const struct forest *f, enum decision decision,
		      int action, const struct measured *m, struct choice *out)
{
	return action_choice(d, f, decision_phase(decision), action, m, out) ||
	       default_made(d, m, decision_phase(decision), out);
}

int decision_is_of(enum decision decision, const struct measured *m)
{
	return decision < DECIDE_OVERLAP || decision == DECIDE_EARLY
		   ? m->has[decision_phase(decision)]
		   : m->has[PHASE_PREFILL] && m->has[PHASE_DECODE];
}

/* What the tree of a part says, else the default. */
static void make_part(const struct data *d, const struct forest *f, enum decision decision,
		      int action, const struct measured *m, struct choice *part, struct made *out)
{
	if (action_choice(d, f, decision_phase(decision), action, m, part))
		return;
	out->by_default = 1;
	default_made(d, m, decision_phase(decision), part);
}

void forest_make_serial(const struct data *d, const struct forest *f, const struct measured *m,
			struct made *out)
{
	*out = (struct made){ .join = 1 };
	if (m->has[PHASE_PREFILL])
		make_part(d, f, DECIDE_PREFILL, decide(f, DECIDE_PREFILL, m), m, &out->prefill,
			  out);
	if (m->has[PHASE_DECODE])
		make_part(d, f, DECIDE_DECODE, decide(f, DECIDE_DECODE, m), m, &out->decode, out);
}

/* As overlap() of kernels/plan.c. */
void overlap_made(const struct data *d, const struct forest *f, int action,
		  const struct measured *m, struct made *out)
{
	const int fused = action >= 0 && f->choice[action].kernel->space->is_fused;
	struct choice c;
	if (!decision_is_of(DECIDE_OVERLAP, m) || action == SAYS_SERIAL)
		return;
	if (!fused && out->by_default)
		return;
	if (action >= 0 &&
	    !made_legal(d, m, fused ? PHASE_ALL : PHASE_PREFILL, &f->choice[action], &c))
		return;
	if (action >= 0)
		out->prefill = c;
	if (fused)
		out->join = 0;
	else
		out->how = ATTUNE_STREAMS;
}

void forest_make(const struct data *d, const struct forest *f, const struct measured *m,
		 struct made *out)
{
	forest_make_serial(d, f, m, out);
	if (decision_is_of(DECIDE_OVERLAP, m))
		overlap_made(d, f, decide(f, DECIDE_OVERLAP, m), m, out);
}

void forest_pick(const struct data *d, const struct forest *f, int scenario, struct pick *p)
{
	struct made made;
	forest_make(d, f, &d->v[scenario], &made);
	made_pick(d, &made, p);
}

/* ---- any policy ------------------------------------------------------------------------ */
struct chooser {
	const struct data *d;
	enum policy policy;
	const struct forest *forest;
	struct choice fixed[2]; /* of the prefill and the decode part */
	enum baseline_way way;
	struct learned *learned;
};

void made_in_way(const struct data *d, const struct measured *m, enum baseline_way way,
		 struct made *out)
{
	struct choice whole;
	if (!out->prefill.kernel || !out->decode.kernel)
		return;
	out->join = way != BASELINE_WHOLE || !made_legal(d, m, PHASE_ALL, &out->prefill, &whole);
	out->how = way == BASELINE_STREAMS ? ATTUNE_STREAMS : ATTUNE_SERIAL;
}

static void make_fixed(const struct chooser *c, const struct measured *m, struct made *out)
{
	*out = (struct made){ .join = 1 };
	for (int p = 0; p < 2; p++) {
		const enum phase phase = decision_phase((enum decision)p);
		if (m->has[phase])
			made_or_default(c->d, m, phase, &c->fixed[p],
					p ? &out->decode : &out->prefill);
	}
	made_in_way(c->d, m, c->way, out);
}

/* One choice a phase and one way for everything. */
static int learn_fixed(struct chooser *c)
{
	struct pick *picks = calloc((size_t)c->d->n + 1, sizeof *picks);
	struct matrix *m = NULL;
	long long sum[NUM_BASELINE_WAYS] = { 0 };
	c->way = BASELINE_SERIAL;
	for (int t = DECIDE_PREFILL; t <= DECIDE_DECODE; t++) {
		const struct basics *b = basics_of(c->d, (enum decision)t);
		c->fixed[t].kernel = NULL;
		if (b && b->fixed >= 0)
			c->fixed[t] = c->d->choice[b->fixed];
	}
	for (int s = 0; picks && s < c->d->n; s++) {
		struct made made;
		make_fixed(c, &c->d->v[s], &made);
		made_pick(c->d, &made, &picks[s]);
	}
	m = picks ? matrix_ways(c->d, picks) : NULL;
	const int done = m != NULL;
	for (int r = 0; m && r < m->rows; r++)
		for (int w = 0; w < m->cols; w++)
			sum[w] += matrix_at(m, r, w);
	for (int w = 0; m && m->rows && w < m->cols; w++)
		if (sum[w] < sum[c->way])
			c->way = (enum baseline_way)w;
	free(picks);
	matrix_free(m);
	return done;
}

static int learn(struct chooser *c)
{
	const int gpu = c->d->run.device.backend != BACKEND_CPU;
	switch (c->policy) {
	case POLICY_TREE: return c->forest != NULL;
	case POLICY_BEST_FIXED: return learn_fixed(c);
	case POLICY_VLLM_RULE:
	case POLICY_AITER_RULE: return gpu;
	case POLICY_NEAREST:
	case POLICY_GREEDY:
	case POLICY_LABEL: c->learned = learned_new(c->d, c->policy); return c->learned != NULL;
	case POLICY_DEFAULT: return 1;
	case POLICY_ORACLE:
	case NUM_POLICIES: break;
	}
	return 0;
}

struct chooser *chooser_new(const struct data *d, enum policy policy, const struct forest *f)
{
	struct chooser *c = calloc(1, sizeof *c);
	if (!c)
		return NULL;
	*c = (struct chooser){ .d = d, .policy = policy, .forest = f };
	if (learn(c))
		return c;
	free(c);
	return NULL;
}

void chooser_free(struct chooser *c)
{
	if (c)
		learned_free(c->learned);
	free(c);
}

static void make_default(const struct data *d, const struct measured *m, struct made *out)
{
	*out = (struct made){ .join = 1 };
	if (m->has[PHASE_PREFILL])
		default_made(d, m, PHASE_PREFILL, &out->prefill);
	if (m->has[PHASE_DECODE])
		default_made(d, m, PHASE_DECODE, &out->decode);
}

void chooser_make(const struct chooser *c, const struct measured *m, int scenario, struct made *out)
{
	*out = (struct made){ .join = 1 };
	switch (c->policy) {
	case POLICY_TREE: forest_make(c->d, c->forest, m, out); break;
	case POLICY_BEST_FIXED: make_fixed(c, m, out); break;
	case POLICY_VLLM_RULE: vllm_rule(c->d, m, scenario, out); break;
	case POLICY_AITER_RULE: aiter_rule(c->d, m, scenario, out); break;
	case POLICY_NEAREST:
	case POLICY_GREEDY:
	case POLICY_LABEL: learned_make(c->learned, m, out); break;
	case POLICY_DEFAULT: make_default(c->d, m, out); break;
	case POLICY_ORACLE:
	case NUM_POLICIES: break;
	}
}

int policy_picks(const struct data *d, enum policy policy, const struct forest *f,
		 struct pick *picks)
{
	struct chooser *c = chooser_new(d, policy, f);
	for (int s = 0; c && s < d->n; s++) {
		struct made made;
		chooser_make(c, &d->v[s], s, &made);
		made_pick(d, &made, &picks[s]);
	}
	chooser_free(c);
	return c != NULL;
}
