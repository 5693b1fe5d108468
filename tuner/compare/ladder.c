/* ladder.c - the rungs of the ladder, the plan of each rung for a batch, and its time. */
#include "ladder.h"
#include "harness/base/base.h"
#include "harness/scenario/scenario.h"
#include "harness/search/search.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How a rung finds the choice for a part. */
enum how {
	NAMED, /* the named choice, or the nearest legal one */
	FIXED, /* the kernel's choice that is best over all batches of the ladder */
	TUNED, /* the header's pick */
	STATIC /* the header's pick with kernels of a static grid */
};

struct rung {
	const char *name;
	int one_launch; /* the first step runs a mixed batch as a whole */
	struct {
		enum how how;
		const char *text; /* a choice or a kernel; NULL: none for that part */
	} step[2];                /* the prefill and the decode part */
};

/* Constants of vLLM's kernel where it has them: 16 rows, tiles of 32 keys, 16 segments. */
#define NAIVE "naive NUM_WARPS=4"
#define Q_BLOCK "qblock BLOCK_M=16 TILE_SIZE=32 NUM_WARPS=4 NUM_STAGES=3"
#define SEGMENTED "segmented BLOCK_M=16 TILE_SIZE=32 NUM_WARPS=4 NUM_STAGES=3 SEGMENTS=16"
// clang-format off
static const struct rung rungs[] = {
	{ "naive",             1, { { NAMED, NAIVE },    { NAMED, NAIVE } } }, /* a block per query token and head */
	{ "Q block",           1, { { NAMED, Q_BLOCK },  { NAMED, Q_BLOCK } } }, /* tokens and heads that share keys in one block */
	{ "parallel softmax",  0, { { NAMED, Q_BLOCK },  { NAMED, SEGMENTED } } }, /* decodes in 16 segments, then a reduction */
	{ "adjustable tiles",  0, { { FIXED, "qblock" }, { FIXED, "segmented" } } }, /* the best tile setting for each phase */
	{ "tuned",             0, { { TUNED, NULL },     { TUNED, NULL } } }, /* the header's pick for the batch */
	{ "static grid",       0, { { STATIC, NULL },    { STATIC, NULL } } }, /* the same with a grid independent of the batch */
	/* side rungs: the kernels of vLLM's split plan, and its first kernels with their own layout */
	{ "split plan",        0, { { FIXED, "prefix_prefill" }, { FIXED, "decode2d" } } }, /* prefix_prefill, then decode2d */
	{ "classic v1",        0, { { NAMED, NULL },     { FIXED, "classic_v1" } } }, /* a block per decode and head, keys in vectors */
	{ "classic v2",        0, { { NAMED, NULL },     { FIXED, "classic_v2" } } }, /* the same with the keys in partitions */
};
// clang-format on
const int num_rungs = COUNT(rungs), num_side_rungs = 3;
_Static_assert(COUNT(rungs) <= MAX_RUNGS, "a climb has room for every rung");

const char *rung_name(int rung)
{
	return rungs[rung].name;
}

/* ---- batches ------------------------------------------------------------------------ */
int batch_uniform(const attune_batch *b, struct uniform *u)
{
	int decodes = 0;
	for (int i = 0; i < b->num_seqs; i++) {
		const int query = b->query_start[i + 1] - b->query_start[i];
		if (b->seq_lens[i] != b->seq_lens[0] || (query != 1 && query != b->seq_lens[0]))
			return 0;
		decodes += query == 1;
	}
	if (!b->num_seqs || (decodes && decodes != b->num_seqs && 2 * decodes != b->num_seqs))
		return 0;
	*u = (struct uniform){ 100 * decodes / b->num_seqs, b->num_seqs, b->seq_lens[0] };
	return 1;
}

/* One sequence, or one of each kind. */
static int is_few(const struct uniform *u)
{
	return u->seqs == (u->share == 50 ? 2 : 1);
}

int in_figures(const struct uniform *u)
{
	return is_few(u) || u->seqs == 16 || u->length == 1024 || u->length == 2048;
}

static int is_of(const struct data *d, int scenario, const char *model, const char *layout,
		 struct uniform *u)
{
	const struct measured *m = &d->v[scenario];
	return !strcmp(m->model, model) && m->shape.page_size == 16 &&
	       m->shape.dtype == ATTUNE_BF16 && !strcasecmp(m->layout, layout) &&
	       batch_uniform(&m->batch->view, u) && in_figures(u);
}

int ladder_has(const struct data *d, int scenario, const char *model, struct uniform *u)
{
	return is_of(d, scenario, model, "nhd", u);
}

/* The scenario of the same batch in the layout of classic kernels; -1: none. */
static int classic_twin(const struct data *d, int scenario)
{
	const struct measured *m = &d->v[scenario];
	struct uniform u;
	for (int s = 0; s < d->n; s++)
		if (!strcmp(d->v[s].batch_text, m->batch_text) &&
		    is_of(d, s, m->model, "classic", &u))
			return s;
	return -1;
}

/* ---- the best fixed choice ------------------------------------------------------------- */
/* Adds each choice's log slowdown to the kernel's best. A choice without a time counts as slightly
 * worse than the worst, as in matrix.c. */
static void add_costs(const struct data *d, const struct kernel *k, int s, enum phase phase,
		      double *cost)
{
	double best = INFINITY, worst = 0;
	for (int pass = 0; pass < 2; pass++)
		for (int c = 0; c < d->num_choices; c++) {
			const double us =
			    d->choice[c].kernel == k ? data_part_time(d, s, phase, c) : INFINITY;
			if (!pass && isfinite(us))
				best = fmin(best, us), worst = fmax(worst, us);
			else if (pass && isfinite(best) && d->choice[c].kernel == k)
				cost[c] += isfinite(us) ? log(us / best)
							: log(worst / best) + COST_MISSING / 1e6;
		}
}

static struct choice best_of_all(const struct data *d, const char *model, const char *kernel,
				 enum phase phase)
{
	struct choice best = { .kernel = kernel_find(d->run.device.backend, kernel) };
	double *cost = calloc((size_t)d->num_choices + 1, sizeof *cost), least = 0;
	struct uniform u;
	if (best.kernel)
		config_default(&best.config, best.kernel->space);
	for (int s = 0; cost && best.kernel && s < d->n; s++)
		if ((is_of(d, s, model, "nhd", &u) || is_of(d, s, model, "classic", &u)) &&
		    u.share != 50 && d->v[s].has[phase])
			add_costs(d, best.kernel, s, phase, cost);
	for (int c = 0; cost && c < d->num_choices; c++)
		if (d->choice[c].kernel == best.kernel && cost[c] > 0 &&
		    (least == 0 || cost[c] < least))
			best = d->choice[c], least = cost[c];
	free(cost);
	return best;
}

void ladder_make(struct ladder *l, const struct data *d, const struct forest *f, const char *model)
{
	*l = (struct ladder){ .d = d, .f = f };
	for (int i = 0; i < num_rungs; i++)
		for (int p = 0; p < 2; p++) {
			char error[200];
			if (rungs[i].step[p].how == FIXED)
				l->fixed[i][p] = best_of_all(d, model, rungs[i].step[p].text,
							     decision_phase((enum decision)p));
			else if (rungs[i].step[p].text &&
				 !choice_parse(&l->fixed[i][p], d->run.device.backend,
					       rungs[i].step[p].text, error, sizeof error))
				l->fixed[i][p].kernel = NULL;
		}
}

/* ---- the plan of a rung ------------------------------------------------------------------ */
/* The legal choice nearest to c for the part; 0: none. */
static int near(const struct ladder *l, const struct measured *m, enum phase phase,
		const struct choice *c, struct choice *out)
{
	*out = *c;
	return c->kernel && nearest_legal(&out->config, c->kernel, &c->config, &m->shape,
					  &m->part[phase], &l->d->run.device);
}

/* Sets the largest legal number of blocks per SM, as other grids get. */
static void fill_units(const struct ladder *l, const struct measured *m, enum phase phase,
		       struct choice *c)
{
	const struct space *space = c->kernel->space;
	int i = 0;
	while (i < space->num_axes && strcmp(space->axis[i].name, "BLOCKS_PER_SM"))
		i++;
	for (int k = i < space->num_axes ? space->axis[i].num_values - 1 : -1; k >= 0; k--) {
		c->config.v[i] = space->axis[i].values[k];
		if (!space->why_illegal(&c->config, &m->shape, &m->part[phase], &l->d->run.device))
			return;
	}
}

/* The choice with the same tunables of the kernel with a static grid. */
static int static_twin(const struct ladder *l, const struct measured *m, enum phase phase,
		       const struct choice *c, struct choice *out)
{
	static const char suffix[] = "_static";
	const int is_static = strstr(c->kernel->name, suffix) != NULL;
	struct choice twin;
	char name[48];
	*out = *c;
	if (is_static)
		return 1;
	snprintf(name, sizeof name, "%s%s", c->kernel->name, suffix);
	twin.kernel = kernel_find(c->kernel->backend, name);
	if (!twin.kernel)
		return 0;
	config_default(&twin.config, twin.kernel->space);
	for (int i = 0; i < twin.kernel->space->num_axes; i++)
		twin.config.v[i] = config_value(&c->config, c->kernel->space,
						twin.kernel->space->axis[i].name, twin.config.v[i]);
	fill_units(l, m, phase, &twin);
	return near(l, m, phase, &twin, out);
}

static int tuned_made(const struct ladder *l, const struct measured *m, int is_static,
		      struct decided *out)
{
	struct decided tuned;
	(is_static ? forest_make_serial : forest_make)(l->d, l->f, m, &tuned);
	*out = tuned;
	if (!is_static)
		return 1;
	const enum phase first = m->has[PHASE_DECODE] && !tuned.join ? PHASE_ALL : PHASE_PREFILL;
	return (!tuned.prefill.kernel || static_twin(l, m, first, &tuned.prefill, &out->prefill)) &&
	       (!tuned.decode.kernel || (first == PHASE_ALL) ||
		static_twin(l, m, PHASE_DECODE, &tuned.decode, &out->decode));
}

int rung_made(const struct ladder *l, int rung, const struct measured *m, struct decided *out)
{
	const struct rung *r = &rungs[rung];
	const int is_mixed = measured_is_mixed(m);
	*out = (struct decided){ .join = 1 };
	if (r->step[0].how == TUNED || r->step[0].how == STATIC)
		return tuned_made(l, m, r->step[0].how == STATIC, out);
	if (is_mixed && r->one_launch) {
		out->join = 0;
		return near(l, m, PHASE_ALL, &l->fixed[rung][0], &out->prefill);
	}
	return (!m->has[PHASE_PREFILL] ||
		near(l, m, PHASE_PREFILL, &l->fixed[rung][0], &out->prefill)) &&
	       (!m->has[PHASE_DECODE] ||
		near(l, m, PHASE_DECODE, &l->fixed[rung][1], &out->decode));
}

/* ---- its time ------------------------------------------------------------------------------ */
static const struct cell *cell_of_made(const struct data *d, int s, const struct decided *made)
{
	struct pick p;
	decided_pick(d, made, &p);
	return data_pick_cell(d, s, &p);
}

/* By rounds, if both are of one race. */
static double ratio_of(const struct cell *base, const struct cell *c, int same_scenario)
{
	if (!base || !c)
		return NAN;
	const int paired =
	    same_scenario && base->race == c->race && base->ratio > 0 && c->ratio > 0;
	return paired ? base->ratio / c->ratio : base->us / c->us;
}

/* Kernels of another layout have their cell at the scenario's twin, in another race. */
static const struct cell *rung_cell(const struct ladder *l, const struct data *d, int rung,
				    int scenario, struct decided *made, int *at_twin)
{
	const int twin = classic_twin(d, scenario);
	*at_twin = 0;
	if (rung_made(l, rung, &d->v[scenario], made))
		return cell_of_made(d, scenario, made);
	*at_twin = twin >= 0 && rung_made(l, rung, &d->v[twin], made);
	return *at_twin ? cell_of_made(d, twin, made) : NULL;
}

void ladder_climb(const struct ladder *l, int scenario, struct climb *out)
{
	struct data d = *l->d; /* all rungs are in one race of pass A */
	const struct cell *cell[MAX_RUNGS] = { NULL };
	int at_twin[MAX_RUNGS];
	d.pass = PASS_A;
	for (int i = 0; i < num_rungs; i++) {
		const struct cell *c = rung_cell(l, &d, i, scenario, &out->made[i], &at_twin[i]);
		cell[i] = c && c->outcome == OUTCOME_OK ? c : NULL;
		out->us[i] = cell[i] ? cell[i]->us : NAN;
	}
	for (int i = 0; i < num_rungs; i++)
		out->ratio[i] = ratio_of(cell[BASE_RUNG], cell[i], !at_twin[i]);
}
