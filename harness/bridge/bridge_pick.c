/* bridge_pick.c - selects the batches for racing an old source: batches that it ran right, each
 * with its fastest choice there, spread over head sizes, phases and times. */
#include "bridge.h"
#include "harness/base/base.h"
#include "harness/scenario/scenario.h"
#include "harness/store/handle.h"
#include "harness/store/store.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The fastest cell so far of a scenario and phase. */
struct candidate_cell {
	struct store_cell cell; /* its texts are the store's, valid until the next write */
	enum phase phase;
	struct choice choice;
};
struct gathered {
	struct candidate_cell *v;
	int n;
};
struct gatherer {
	struct bridges *bridges;
	struct gathered *of; /* [bridges->n] */
	int failed;
};

static int phase_of(const char *name, enum phase *phase)
{
	for (*phase = PHASE_ALL; *phase <= PHASE_DECODE; ++*phase)
		if (!strcmp(store_phase(*phase), name))
			return 1;
	return 0;
}

/* Whether the choice's kernel, or a helper of it, is the source's. */
static int runs(const struct choice *c, const struct old_source *s)
{
	for (enum helper h = 0; h < NUM_HELPERS; h++)
		if (kernel_helper(c->kernel->backend, h) == s->kernel)
			return kernel_takes(c->kernel, &c->config, h);
	return c->kernel == s->kernel;
}

/* Whether the cell ran the source, or an earlier one from which stored bridges lead to it. */
static int has_source(const struct bridges *b, const struct candidate_cell *c,
		      const struct old_source *s)
{
	char flags[MAX_FLAGS];
	const char *sources = c->cell.sources;
	struct built_source one = { .flags = flags, .arch = s->arch, .gpu = b->gpu };
	int found = 0;
	binary_flags(flags, sizeof flags, c->choice.kernel, &c->choice.config, &c->cell.shape);
	while (!found && next_source(&sources, &one))
		found = store_source_leads_to(b->store, &one, s->name, s->identity);
	return found;
}

static int keep(struct gatherer *r, int source, const struct candidate_cell *c)
{
	struct gathered *g = &r->of[source];
	struct candidate_cell *last = g->n ? &g->v[g->n - 1] : NULL;
	if (last && last->cell.scenario_id == c->cell.scenario_id && last->phase == c->phase) {
		if (c->cell.median_us < last->cell.median_us)
			*last = *c;
		return 1;
	}
	if (!(g->n & (g->n - 1))) {
		last = realloc(g->v, (size_t)(g->n ? 2 * g->n : 1) * sizeof *last);
		if (!last) {
			complain("out of memory");
			r->failed = 1;
			return 0;
		}
		g->v = last;
	}
	g->v[g->n++] = *c;
	return 1;
}

/* The cells of a scenario and phase are consecutive. */
static int gather(void *arg, const struct store_cell *cell)
{
	struct gatherer *r = arg;
	struct candidate_cell c = { .cell = *cell };
	char text[MAX_PART_TEXT], why[160];
	if (cell->today == TODAY || cell->today == BRIDGED || cell->pass == 'E' ||
	    strcmp(cell->outcome, "ok") || !phase_of(cell->phase, &c.phase))
		return 1;
	snprintf(text, sizeof text, "%s %s", cell->kernel, cell->choice);
	if (!choice_parse(&c.choice, r->bridges->backend, text, why, sizeof why) ||
	    choice_early(&c.choice))
		return 1;
	for (int i = 0; i < r->bridges->n; i++) {
		const struct old_source *s = &r->bridges->v[i];
		if (s->root && runs(&c.choice, s) && has_source(r->bridges, &c, s) &&
		    !keep(r, i, &c))
			return 0;
	}
	return 1;
}

/* ---- spreading ---------------------------------------------------------------------------- */

static double apart(const struct candidate_cell *a, const struct candidate_cell *b)
{
	const double us = log2(a->cell.median_us / b->cell.median_us);
	const double head = log2((double)a->cell.shape.head_size / b->cell.shape.head_size);
	const double type = a->cell.shape.dtype != b->cell.shape.dtype ||
			    a->cell.shape.kv_dtype != b->cell.shape.kv_dtype;
	const double phase = a->phase != b->phase;
	return us * us + 16 * head * head + 4 * type + 16 * phase;
}

static int fill(struct pick *p, const struct candidate_cell *c)
{
	char error[128];
	*p = (struct pick){ .phase = c->phase, .choice = c->choice, .us = c->cell.median_us };
	p->scenario = (struct scenario){ .shape = c->cell.shape,
					 .layout = layout_of(c->cell.layout),
					 .seed = c->cell.seed };
	snprintf(p->scenario.model, sizeof p->scenario.model, "%s", c->cell.model);
	p->scenario.batch = batch_parse(c->cell.batch, error, sizeof error);
	p->scenario.batch_text = strdup(c->cell.batch);
	return p->scenario.batch && p->scenario.batch_text;
}

/* Takes the batch of median time, then always the one farthest from all taken. */
static int spread(const struct gathered *g, int most, struct picks *out)
{
	double *far = calloc((size_t)g->n + 1, sizeof *far);
	out->v = calloc((size_t)most, sizeof *out->v);
	out->known = g->n;
	int ok = far && out->v, at = g->n / 2;
	for (int i = 0; far && i < g->n; i++)
		far[i] = INFINITY;
	while (ok && out->n < most && out->n < g->n) {
		ok = fill(&out->v[out->n++], &g->v[at]);
		int farthest = at;
		far[at] = -1;
		for (int i = 0; i < g->n; i++) {
			if (far[i] >= 0)
				far[i] = fmin(far[i], apart(&g->v[i], &g->v[at]));
			if (far[i] > far[farthest])
				farthest = i;
		}
		at = farthest;
	}
	if (!ok)
		complain("out of memory");
	free(far);
	return ok;
}

int bridge_pick(struct bridges *b, int most, struct picks *picks)
{
	struct gatherer r = { b, calloc((size_t)b->n + 1, sizeof *r.of), 0 };
	int ok = r.of && store_each(b->store, b->gpu, gather, &r) && !r.failed;
	for (int i = 0; i < b->n && ok; i++)
		ok = spread(&r.of[i], most, &picks[i]);
	for (int i = 0; i < b->n && r.of; i++)
		free(r.of[i].v);
	free(r.of);
	return ok;
}

void picks_free(struct picks *p)
{
	for (int i = 0; i < p->n; i++) {
		batch_free(p->v[i].scenario.batch);
		free(p->v[i].scenario.batch_text);
	}
	free(p->v);
	*p = (struct picks){ 0 };
}
