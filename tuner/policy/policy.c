/* policy.c - runs any policy: the forest (decide.c), or one of the baselines that it is compared
 * with. */
#include "policy.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
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
	[POLICY_WITH_PLUGINS] = "with_plugins",
};

/* ---- any policy ------------------------------------------------------------------------ */
struct chooser {
	const struct data *d;
	enum policy policy;
	const struct forest *forest;
	struct learned *learned;
};

static int learn(struct chooser *c)
{
	const int gpu = c->d->run.device.backend != BACKEND_CPU;
	switch (c->policy) {
	case POLICY_TREE: return c->forest != NULL;
	case POLICY_VLLM_RULE:
	case POLICY_AITER_RULE: return gpu;
	case POLICY_BEST_FIXED:
	case POLICY_NEAREST:
	case POLICY_GREEDY:
	case POLICY_LABEL: c->learned = learned_new(c->d, c->policy); return c->learned != NULL;
	case POLICY_DEFAULT: return 1;
	case POLICY_WITH_PLUGINS: return c->forest && c->forest->num_plugins;
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

static void make_default(const struct data *d, const struct measured *m, struct decided *out)
{
	*out = (struct decided){ .join = 1 };
	if (m->has[PHASE_PREFILL])
		default_made(d, m, PHASE_PREFILL, &out->prefill);
	if (m->has[PHASE_DECODE])
		default_made(d, m, PHASE_DECODE, &out->decode);
}

void chooser_make(const struct chooser *c, const struct measured *m, int scenario,
		  struct decided *out)
{
	*out = (struct decided){ .join = 1 };
	switch (c->policy) {
	case POLICY_TREE: forest_make(c->d, c->forest, m, out); break;
	case POLICY_VLLM_RULE: vllm_rule(c->d, m, scenario, out); break;
	case POLICY_AITER_RULE: aiter_rule(c->d, m, scenario, out); break;
	case POLICY_BEST_FIXED:
	case POLICY_NEAREST:
	case POLICY_GREEDY:
	case POLICY_LABEL: learned_make(c->learned, m, out); break;
	case POLICY_DEFAULT: make_default(c->d, m, out); break;
	case POLICY_WITH_PLUGINS: forest_make_with(c->d, c->forest, m, out); break;
	case POLICY_ORACLE:
	case NUM_POLICIES: break;
	}
}

int policy_picks(const struct data *d, enum policy policy, const struct forest *f,
		 struct pick *picks)
{
	struct chooser *c = chooser_new(d, policy, f);
	for (int s = 0; c && s < d->n; s++) {
		struct decided made;
		chooser_make(c, &d->v[s], s, &made);
		decided_pick(d, &made, &picks[s]);
	}
	chooser_free(c);
	return c != NULL;
}
