/* simulate.c - runs the stages of a sweep on a recorded database instead of a device. Each sample
 * is drawn, with replacement, from the database's samples of the cell; cells that the database
 * lacks are no candidates. All contenders of a round draw with the same random number, which keeps
 * correlations within recorded rounds. Nothing is written.
 *
 * The picks are scored by the recorded medians of all cells, and so are, at the same cost, cells in
 * random order and an exhaustive sweep cut short. (Simulated tuning from a cache of results: B. van
 * Werkhoven, Kernel Tuner; racing: M. Birattari et al., F-Race.) */
#include "simulate.h"
#include "harness/base/base.h"
#include "harness/measure/measure.h"
#include "harness/measure/sample_graph.h"
#include "harness/scenario/scenario.h"
#include "harness/search/search.h"
#include "harness/store/handle.h"
#include "harness/store/store.h"
#include "harness/sweep/sweep.h"
#include "harness/worker/worker.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double cost_share =
    0.12 /* budget without --budget, as a share of the exhaustive time */;

/* ---- races ------------------------------------------------------------------------ */

static const struct record *record_of(const struct simulation *r, int contender)
{
	const struct contender *l = &r->order->contender[contender];
	return &r->of[l->problem[0]][l->place[0]];
}

static double draw(void *arg, int i, int round)
{
	const struct simulation *r = arg;
	const struct record *record = record_of(r, i);
	return record->median < INFINITY
		   ? simulation_sample(
			 record, simulation_dice(r->c->o->seed + r->races, (unsigned)round + 1))
		   : NAN;
}

static void after(void *arg, int i)
{
	struct simulation *r = arg;
	const struct measurement *m = &r->timed_call[i].m;
	r->more &= r->listener->result(r->listener->arg, r->order, i, m, 0);
}

static enum race_end run_race(void *arg, const struct order *order, const struct listener *l)
{
	struct simulation *r = arg;
	struct protocol protocol = r->c->protocol;
	struct control control = { 0 };
	struct race race = { .protocol = &protocol,
			     .n = order->n,
			     .sets = 1,
			     .seed = order->seed,
			     .fixed_rounds = order->fixed_rounds,
			     .control = order->with_control ? &control : NULL,
			     .arg = r,
			     .draw = draw,
			     .after = after };
	r->timed_call = race.v = calloc((size_t)order->n, sizeof *race.v);
	if (!race.v)
		return RACE_STOPPED;
	r->order = order;
	r->listener = l;
	r->more = 1;
	r->races++;
	protocol.seconds = order->seconds;
	measure_race(NULL, &race);
	for (int i = 0; i < order->n; i++)
		r->spent_s += race.v[i].m.device_us * 1e-6;
	r->spent_s += control.device_us * 1e-6;
	if (control.rounds)
		r->more &= l->control(l->arg, order, &control);
	free(race.v);
	return !r->more ? RACE_STOPPED : interrupted ? RACE_INTERRUPTED : RACE_ENDED;
}

/* The device time simulated so far. */
static double device_seconds(const void *replay)
{
	return ((const struct simulation *)replay)->spent_s;
}

/* ---- from a database to problems ------------------------------------------------------- */

struct reader {
	struct scenario_list list;
	struct simulation *replay;
	struct store *store;
	char protocol[32];
	int last; /* problem of the last cell */
	int failed;
};

static int is_of(const struct problems *all, const struct problem *h, const struct store_cell *c)
{
	return !strcmp(c->phase, store_phase(h->phase)) &&
	       cell_is_of(c, &all->scenarios[h->scenario]);
}

/* The recorded samples. If the database has none, five values from its figures: least, quartiles,
 * median, and as far above the median as the least is below. How many; -1 + complain. */
static int samples_of(struct store *s, const struct store_cell *c, float us[])
{
	const int n = store_samples(s, c, us);
	const double median = c->median_us, half = c->samples > 2 ? c->iqr_us / 2 : 0;
	const double drawn[] = { c->min_us, median - half, median, median + half,
				 2 * median - c->min_us };
	if (n)
		return n;
	if (!(median > 0))
		return 0;
	for (size_t i = 0; i < COUNT(drawn); i++)
		us[i] = (float)drawn[i];
	return COUNT(drawn);
}

static int read_cell(void *arg, const struct store_cell *c)
{
	struct reader *r = arg;
	struct problems *all = &r->replay->c->problems;
	struct choice choice = { .kernel = kernel_find(all->device.backend, c->kernel) };
	const char *where;
	if (c->pass != 'A' || strcmp(c->protocol, r->protocol) || !choice.kernel ||
	    !strcmp(c->outcome, outcome_name(OUTCOME_NOISY)) ||
	    !config_parse(&choice.config, choice.kernel->space, c->choice, &where))
		return 1;
	for (int k = 0; k < all->n; k++) {
		const int i = (r->last + k) % all->n;
		if (!is_of(all, &all->v[i], c))
			continue;
		r->last = i;
		const int place = problems_place(all, &all->v[i], &choice);
		if (place < 0)
			return 1; /* no longer legal */
		struct record *record = &r->replay->of[i][place];
		record->median = strcmp(c->outcome, "ok") ? INFINITY : c->median_us;
		record->us = malloc(MAX_SAMPLES * sizeof *record->us);
		record->n = record->us ? samples_of(r->store, c, record->us) : -1;
		r->failed = record->n < 0;
		return !r->failed;
	}
	return 1;
}

/* Removes the candidates of a problem that the database lacks. */
static void drop_unrecorded(struct problem *h, struct record *record)
{
	int n = 0;
	for (int k = 0; k < h->n; k++) {
		if (isnan(record[k].median))
			continue;
		h->built_choice[n] = h->built_choice[k];
		h->near[n] = h->near[k];
		record[n++] = record[k];
	}
	h->n = n;
}

static int make_records(struct simulation *r)
{
	const struct problems *all = &r->c->problems;
	r->of = calloc((size_t)all->n + 1, sizeof *r->of);
	for (int i = 0; r->of && i < all->n; i++) {
		r->of[i] = calloc((size_t)all->v[i].n + 1, sizeof **r->of);
		for (int k = 0; r->of[i] && k < all->v[i].n; k++)
			r->of[i][k].median = NAN;
		if (!r->of[i])
			return 0;
	}
	return r->of != NULL;
}

static void free_records(void *arg)
{
	const struct simulation *r = arg;
	for (int i = 0; r->of && i < r->c->problems.n; i++) {
		for (int k = 0; r->of[i] && k < r->c->problems.v[i].n; k++)
			free(r->of[i][k].us);
		free(r->of[i]);
	}
	free(r->of);
}

static int keep_name(void *arg, int columns, const char *const *names, const char *const *cells)
{
	(void)columns, (void)names;
	snprintf(arg, GPU_NAME, "%s", cells[0] ? cells[0] : "");
	return 1;
}

/* The GPU of the newest measurement. */
static int newest_gpu(struct store *s, const char *path, char gpu[GPU_NAME])
{
	if (!store_query(
		s,
		"SELECT d.gpu FROM run AS r JOIN device AS d ON d.id = r.device "
		"WHERE EXISTS (SELECT 1 FROM race WHERE run = r.id) ORDER BY r.id DESC LIMIT 1",
		keep_name, gpu))
		return 0;
	if (!*gpu)
		complain("%s holds no measurement", path);
	return *gpu != '\0';
}

/* Loads the database, and closes it before the races. */
static int load(struct sweep_session *c, struct reader *r, const struct sweep_options *o)
{
	const struct candidate_options options = { .device = &c->hello.info,
						   .preset = PRESET_FULL,
						   .kernels = o->kernels,
						   .seed = o->seed };
	struct run_info run;
	char gpu[GPU_NAME] = "";
	struct store *s = r->store = store_open(o->replay, 1);
	snprintf(gpu, sizeof gpu, "%s", o->gpu ? o->gpu : "");
	int ok = s && (*gpu || newest_gpu(s, o->replay, gpu)) && store_device(s, gpu, &run) &&
		 recall_scenarios(&r->list, s, gpu);
	if (ok) {
		c->hello.info = run.device;
		snprintf(r->protocol, sizeof r->protocol, "%s", run.protocol);
		c->hello.dram_gbps = run.dram_gbps;
		c->hello.fma_tflops = run.fma_tflops;
		session_make(c, &r->list);
	}
	for (int i = 0; ok && i < r->list.n; i++)
		ok = problems_add(&c->problems, &c->binaries, i, &options);
	if (ok)
		problems_spread(&c->problems);
	ok = ok && make_records(r->replay) && store_each(s, gpu, read_cell, r) && !r->failed &&
	     session_alloc(c);
	for (int i = 0; ok && i < c->problems.n; i++)
		drop_unrecorded(&c->problems.v[i], r->replay->of[i]);
	store_close(s);
	return ok;
}

/* ---- the command ---------------------------------------------------------------------- */

static long long cells_so_far(const struct sweep_session *c)
{
	long long n = 0;
	for (int s = 0; s < NUM_STAGES; s++)
		n += c->tally[s].cells + c->tally[s].failed;
	return n;
}

static int run(struct simulation *r, const struct sweep_options *o, double all)
{
	static const char *const columns[] = { "schedule", "parts",         "measurements",
					       "device_s", "share_percent", "geomean",
					       "p95",      "worst",         "within2_percent" };
	struct sweep_session *c = r->c;
	struct table *t = table_new(o->format, columns, COUNT(columns));
	int *pick = calloc((size_t)c->problems.n + 1, sizeof *pick);
	int ok = t && pick;
	for (enum stage s = STAGE_RACE; ok && s <= STAGE_COLD; s++) {
		ok = stages_run(c, s, s, 0) == RACE_ENDED;
		for (int i = 0; i < c->problems.n; i++)
			pick[i] = c->problems.v[i].best;
		if (ok && c->tally[s].races)
			simulation_score(r, t, stage_names[s], r->spent_s, all, cells_so_far(c),
					 pick);
	}
	ok = ok && simulation_baselines(r, t, all, r->spent_s);
	table_print(t, stdout);
	free(pick);
	return ok;
}

/* The time of an exhaustive sweep, by the recorded times. */
static double exhaustive(const struct simulation *r)
{
	double sum = 0;
	for (int i = 0; i < r->c->problems.n; i++)
		for (int k = 0; k < r->c->problems.v[i].n; k++) {
			const double us = r->of[i][k].median;
			if (us < INFINITY)
				sum += EXHAUSTIVE_ROUNDS * us * 1e-6 *
				       graphs_plan(&r->c->protocol, 1, us);
		}
	return sum;
}

int simulate(const struct sweep_options *asked)
{
	struct sweep_options o = *asked;
	struct sweep_session c = { .o = &o };
	struct simulation replay = { .c = &c };
	struct reader reader = { .replay = &replay };
	int ok;
	o.preset = PRESET_FULL;
	c.runner = (struct race_runner){ .arg = &replay,
					 .race = run_race,
					 .seconds = device_seconds,
					 .free = free_records,
					 .is_simulated = 1 };
	ok = load(&c, &reader, &o);
	if (ok) {
		const double all = exhaustive(&replay);
		if (!(o.budget_s > 0))
			o.budget_s = cost_share * all;
		ok = run(&replay, &o, all);
	}
	session_free(&c);
	scenarios_free(&reader.list);
	return interrupted ? EXIT_INTERRUPTED : ok ? EXIT_DONE : EXIT_USAGE;
}
