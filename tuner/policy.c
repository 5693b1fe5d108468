/* policy.c - what is picked for a scenario: by a forest, and by the baselines
 * that it is judged against. */
#include "tuner.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const policy_names[NUM_POLICIES] = { "tree", "oracle", "best_fixed", "vllm_rule",
						 "default" };

/* ---- the kernels' defaults ------------------------------------------------------- */
/* In the library's order (kernels/attune.c): few rows ask from the end. */
static const char *const default_order[] = { "qblock", "segmented" };

int default_choice(const struct data *d, int scenario, enum phase phase)
{
	const struct part *p = &d->v[scenario].part[phase];
	const int n = (int)COUNT(default_order), few = p->max_query <= DECODE_MAX_QUERY;
	for (int i = 0; i < n; i++) {
		struct choice c;
		c.kernel = kernel_find(d->run.device.backend, default_order[few ? n - 1 - i : i]);
		if (!c.kernel)
			continue;
		config_default(&c.config, c.kernel->space);
		if (!c.kernel->space->why_illegal(&c.config, &d->v[scenario].shape, p,
						  &d->run.device))
			return data_find(d, &c);
	}
	return -1;
}

static int legal_else_default(const struct data *d, int scenario, enum phase phase,
			      const struct choice *c)
{
	const struct measured *m = &d->v[scenario];
	if (!m->has[phase])
		return -1;
	if (!c ||
	    c->kernel->space->why_illegal(&c->config, &m->shape, &m->part[phase], &d->run.device))
		return default_choice(d, scenario, phase);
	return data_find(d, c);
}

/* ---- a forest ------------------------------------------------------------------------ */
static int decide(const struct forest *f, enum decision decision, const struct measured *m)
{
	const struct tree *t = &f->tree[decision];
	return t->v[tree_leaf(t, &m->part[decision_phase(decision)].f)].action;
}

static const struct choice *chosen(const struct forest *f, enum decision decision,
				   const struct measured *m)
{
	const int id = decide(f, decision, m);
	return id < 0 ? NULL : &f->choice[id];
}

void forest_pick(const struct data *d, const struct forest *f, int scenario, struct pick *p)
{
	const struct measured *m = &d->v[scenario];
	const struct choice *prefill = chosen(f, DECIDE_PREFILL, m);
	*p = (struct pick){ -1, -1, 1 };
	if (m->has[PHASE_PREFILL])
		p->prefill = legal_else_default(d, scenario, PHASE_PREFILL, prefill);
	if (m->has[PHASE_DECODE])
		p->decode =
		    legal_else_default(d, scenario, PHASE_DECODE, chosen(f, DECIDE_DECODE, m));
	if (!m->has[PHASE_PREFILL] || !m->has[PHASE_DECODE] || decide(f, DECIDE_JOIN, m))
		return;
	/* One launch, unless its choice may not run the decodes too. */
	if (prefill && !prefill->kernel->space->why_illegal(&prefill->config, &m->shape,
							    &m->part[PHASE_ALL], &d->run.device)) {
		p->prefill = data_find(d, prefill);
		p->join = 0;
	}
}

/* ---- one choice a phase for everything ------------------------------------------------ */
/* The column of least total cost; ties to the lower. -1 without rows. */
static int cheapest(const struct matrix *m)
{
	int best = -1;
	long long least = 0;
	for (int c = 0; m->rows && c < m->cols; c++) {
		long long sum = 0;
		for (int r = 0; r < m->rows; r++)
			sum += matrix_at(m, r, c);
		if (best < 0 || sum < least)
			best = c, least = sum;
	}
	return best < 0 ? -1 : m->choice[best];
}

static int cheapest_of(const struct data *d, enum decision decision)
{
	struct matrix *m = matrix_parts(d, decision);
	const int choice = m ? cheapest(m) : -1;
	matrix_free(m);
	return choice;
}

static void pick_fixed(const struct data *d, struct pick *picks)
{
	const int prefill = cheapest_of(d, DECIDE_PREFILL), decode = cheapest_of(d, DECIDE_DECODE);
	struct matrix *m;
	int join;
	for (int s = 0; s < d->n; s++)
		for (int p = PHASE_PREFILL; p <= PHASE_DECODE; p++) {
			const int c = p == PHASE_PREFILL ? prefill : decode;
			const int used =
			    legal_else_default(d, s, (enum phase)p, c < 0 ? NULL : &d->choice[c]);
			*(p == PHASE_PREFILL ? &picks[s].prefill : &picks[s].decode) = used;
		}
	m = matrix_join(d, picks);
	join = m ? cheapest(m) : -1;
	matrix_free(m);
	for (int s = 0; s < d->n; s++)
		picks[s].join = join != 0 || picks[s].prefill < 0 ||
				!data_legal(d, s, PHASE_ALL, picks[s].prefill);
}

static void pick_default(const struct data *d, struct pick *picks)
{
	for (int s = 0; s < d->n; s++) {
		picks[s] = (struct pick){ -1, -1, 1 };
		if (d->v[s].has[PHASE_PREFILL])
			picks[s].prefill = default_choice(d, s, PHASE_PREFILL);
		if (d->v[s].has[PHASE_DECODE])
			picks[s].decode = default_choice(d, s, PHASE_DECODE);
	}
}

/* ---- vLLM's rule ------------------------------------------------------------------------- */
/* The constants of vLLM's Triton unified attention, late 2026: BLOCK_M 16, or the
 * group rounded up to a power of two; one launch for the whole batch; 16
 * segments and tiles of 16 keys when all queries are single tokens and the
 * sequences are at most 128 / KV heads, else no segments and tiles of 32;
 * Triton's own 4 warps and 3 stages. Taken as the nearest legal choice that was
 * measured: the rule on our kernels, not vLLM's kernel. It is a rule for GPUs;
 * vLLM's CPU kernel has neither these kernels nor these tunables, so on the CPU
 * there is no such baseline. */
struct wish {
	const char *axis;
	int value;
};

static int next_power(int v)
{
	int p = 16;
	while (p < v)
		p *= 2;
	return p;
}

/* Sum over the axes of the distance in powers of two; unwished axes at 0. */
static double distance(const struct choice *c, const struct wish *wish, int n)
{
	double sum = 0;
	for (int i = 0; i < n; i++) {
		const int v =
		    config_value(&c->config, c->kernel->space, wish[i].axis, wish[i].value);
		sum += v > 0 ? fabs(log2((double)v / wish[i].value)) : 1;
	}
	return sum;
}

static int nearest(const struct data *d, int scenario, enum phase phase, const char *kernel,
		   const struct wish *wish, int n)
{
	double least = INFINITY;
	int best = -1;
	for (int c = 0; c < d->num_choices; c++) {
		if (strcmp(d->choice[c].kernel->name, kernel) ||
		    !data_legal(d, scenario, phase, c) ||
		    !isfinite(data_part_time(d, scenario, phase, c)))
			continue;
		const double far = distance(&d->choice[c], wish, n);
		if (far < least)
			best = c, least = far;
	}
	return best;
}

static int vllm_choice(const struct data *d, int scenario, enum phase phase)
{
	const struct attune_features *f = &d->v[scenario].part[PHASE_ALL].f;
	const int split = f->max_query == 1 && f->num_seqs <= 128 / f->num_kv_heads;
	const struct wish wish[] = { { "BLOCK_M", next_power((int)f->group) },
				     { "TILE_SIZE", split ? 16 : 32 },
				     { "NUM_WARPS", 4 },
				     { "NUM_STAGES", 3 },
				     { "SEGMENTS", 16 } };
	int c = split ? nearest(d, scenario, phase, "segmented", wish, (int)COUNT(wish)) : -1;
	return c >= 0 ? c : nearest(d, scenario, phase, "qblock", wish, (int)COUNT(wish));
}

static void pick_vllm(const struct data *d, struct pick *picks)
{
	for (int s = 0; s < d->n; s++) {
		const struct measured *m = &d->v[s];
		const int mixed = m->has[PHASE_PREFILL] && m->has[PHASE_DECODE];
		const enum phase phase = mixed                  ? PHASE_ALL
					 : m->has[PHASE_DECODE] ? PHASE_DECODE
								: PHASE_PREFILL;
		const int c = vllm_choice(d, s, phase);
		picks[s] = (struct pick){ m->has[PHASE_PREFILL] ? c : -1,
					  m->has[PHASE_PREFILL] ? -1 : c, 0 };
	}
}

int policy_picks(const struct data *d, enum policy policy, const struct forest *f,
		 struct pick *picks)
{
	switch (policy) {
	case POLICY_TREE:
		for (int s = 0; s < d->n; s++)
			forest_pick(d, f, s, &picks[s]);
		return 1;
	case POLICY_BEST_FIXED: pick_fixed(d, picks); return 1;
	case POLICY_DEFAULT: pick_default(d, picks); return 1;
	case POLICY_VLLM_RULE:
		if (d->run.device.backend == BACKEND_CPU)
			return 0;
		pick_vllm(d, picks);
		return 1;
	case POLICY_ORACLE:
	case NUM_POLICIES: break;
	}
	return 0;
}
