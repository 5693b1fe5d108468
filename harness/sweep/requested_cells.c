/* requested_cells.c - exact cells for those who know what they want: a second, independent
 * pass over what heuristics pick, new points near thresholds. A run of its own, without
 * elimination: all wishes of a heat get the same rounds. */
#include "sweep.h"
#include "harness/base/base.h"
#include "harness/scenario/scenario.h"
#include "harness/search/search.h"
#include "harness/store/store.h"
#include "harness/worker/worker.h"
#include <stdlib.h>
#include <string.h>

enum { WISH_ROUNDS = 9 };

/* A wish, where it runs: one or, for a plan, two places. */
struct grant {
	const struct wish *wish;
	int heat[2], place[2]; /* heat[1]: -1 but for plans */
};

struct list {
	struct campaign c;
	struct grant *grant;
	int n;
};

/* ---- from wishes to heats --------------------------------------------------------- */

static int heat_for(struct campaign *c, int scenario, enum phase phase)
{
	struct heat *h = heats_find(&c->heats, scenario, phase);
	if (!h)
		h = heats_add_empty(&c->heats, scenario, phase, &c->hello.info);
	return h ? (int)(h - c->heats.v) : -1;
}

/* Why the choice cannot be run there; NULL: it can. */
static const char *enter(struct campaign *c, const struct wish *w, const struct choice *choice,
			 enum phase phase, int *heat, int *place)
{
	const struct candidate candidate = { .choice = *choice, .origin = FROM_ALL };
	const attune_shape *shape = &c->heats.scenarios[w->scenario].shape;
	*heat = heat_for(c, w->scenario, phase);
	if (*heat < 0)
		return "no sequence of the batch is in this phase";
	struct heat *h = &c->heats.v[*heat];
	const char *why = config_is_formula(&choice->config, choice->kernel->space)
			      ? "a formula stands for another choice in each batch"
			      : choice->kernel->space->why_illegal(&choice->config, shape, &h->part,
								   &c->hello.info);
	if (why)
		return why;
	const int entrant = heats_entrant(&c->heats, &c->binaries, &candidate, shape);
	*place = entrant < 0 ? -1 : heat_enter(h, entrant);
	return *place < 0 ? "out of memory" : NULL;
}

static int grant(struct list *l, const struct wish *w)
{
	struct grant *g = &l->grant[l->n];
	const char *why;
	*g = (struct grant){ .wish = w, .heat = { -1, -1 } };
	why = enter(&l->c, w, &w->choice, w->is_plan ? PHASE_PREFILL : w->phase, &g->heat[0],
		    &g->place[0]);
	if (!why && w->is_plan)
		why = enter(&l->c, w, &w->decode, PHASE_DECODE, &g->heat[1], &g->place[1]);
	if (why) {
		const struct scenario *s = &l->c.heats.scenarios[w->scenario];
		char text[MAX_CHOICE_TEXT];
		choice_text(text, sizeof text, &w->choice);
		complain("%s %s: %s: %s", s->model, s->batch_text, text, why);
		return 0;
	}
	for (int i = 0; i < l->n; i++)
		if (!memcmp(l->grant[i].heat, g->heat, sizeof g->heat) &&
		    !memcmp(l->grant[i].place, g->place, sizeof g->place) &&
		    l->grant[i].wish->how == w->how)
			return 1; /* wished before */
	l->n++;
	return 1;
}

/* ---- what is there already ----------------------------------------------------------- */

static struct lane lane_of(const struct grant *g)
{
	return (struct lane){ .heat = { g->heat[0], g->heat[1] },
			      .place = { g->place[0], g->place[1] },
			      .gated = 1,
			      .how = g->heat[1] >= 0 ? g->wish->how : ATTUNE_SERIAL };
}

static int is_there(struct campaign *c, const struct grant *g)
{
	const struct heat *h = &c->heats.v[g->heat[0]];
	const struct scenario *s = &c->heats.scenarios[g->wish->scenario];
	const struct lane lane = lane_of(g);
	char text[MAX_PLAN_TEXT];
	if (c->o->again)
		return 0;
	if (g->heat[1] >= 0) {
		plan_text(text, &c->heats, &lane);
		return store_has_plan(c->store, c->hello.info.gpu, s, text);
	}
	choice_text(text, sizeof text, &c->heats.entrant[h->entrant[g->place[0]]].choice);
	return store_has(c->store, c->hello.info.gpu, s, h->phase, text);
}

static int drop_known(struct list *l)
{
	int kept = 0;
	for (int i = 0; i < l->n; i++)
		if (!is_there(&l->c, &l->grant[i]))
			l->grant[kept++] = l->grant[i];
	l->n = kept;
	return kept;
}

/* ---- races -------------------------------------------------------------------------- */

/* Lanes of plans belong to two heats. They are raced with the choices for the whole batch,
 * which they are rivals of; where there are none, alone, in the prefill part's heat. */
static int host_of(struct list *l, const struct grant *g)
{
	const struct heat *whole = heats_find(&l->c.heats, g->wish->scenario, PHASE_ALL);
	return whole ? (int)(whole - l->c.heats.v) : g->heat[0];
}

/* One race of all that is wished of a heat, and of the plans that it is host of. */
static enum heard race(struct list *l, int heat, int plans, double seconds)
{
	struct campaign *c = &l->c;
	struct heat *h = &c->heats.v[heat];
	const int with_plans = plans || h->phase == PHASE_ALL;
	int *place = calloc((size_t)l->n + 1, sizeof *place), n = 0, num_plans = 0;
	struct lane *plan = calloc((size_t)l->n + 1, sizeof *plan);
	enum heard heard = place && plan ? HEARD_ALL : HEARD_STOP;
	for (int i = 0; heard == HEARD_ALL && i < l->n; i++) {
		const struct grant *g = &l->grant[i];
		const int is_plan = g->heat[1] >= 0;
		if (is_plan ? !with_plans || host_of(l, g) != heat : plans || g->heat[0] != heat)
			continue;
		if (is_plan)
			plan[num_plans++] = lane_of(g);
		else
			place[n++] = g->place[0];
	}
	const struct entries e = { .place = place,
				   .n = n,
				   .again = 1,
				   .only_these = 1,
				   .fixed_rounds = WISH_ROUNDS,
				   .with_plans = num_plans > 0,
				   .plan = plan,
				   .num_plans = num_plans };
	h->noisy_plans = num_plans ? 0 : h->noisy_plans;
	if (n || num_plans)
		heard = campaign_excuse(c, h, campaign_race(c, h, &e, seconds));
	free(place);
	free(plan);
	return heard;
}

/* Builders begin with all of it, in the order of the races. */
static void ask_all(struct list *l)
{
	for (int i = 0; i < l->n; i++)
		for (int part = 0; part < 2 && l->grant[i].heat[part] >= 0; part++) {
			const struct entries e = { .place = &l->grant[i].place[part],
						   .n = 1,
						   .again = 1 };
			campaign_ask(&l->c, &l->c.heats.v[l->grant[i].heat[part]], &e);
		}
}

/* Leaves wishes whose time is not data. How many. */
static int keep_noisy(struct list *l)
{
	int kept = 0;
	for (int i = 0; i < l->n; i++) {
		const struct grant *g = &l->grant[i];
		const struct lane lane = lane_of(g);
		if (g->heat[1] < 0 ? l->c.heats.v[g->heat[0]].noisy[g->place[0]]
				   : campaign_is_noisy(&l->c, &lane))
			l->grant[kept++] = *g;
	}
	l->n = kept;
	return kept;
}

static enum heard race_all(struct list *l)
{
	struct campaign *c = &l->c;
	enum heard heard = HEARD_ALL;
	ask_all(l);
	c->stage_done = 0;
	c->stage_heats = c->heats.n;
	for (int i = 0; i < c->heats.n && heard == HEARD_ALL; i++, c->stage_done++) {
		const double seconds = campaign_share(c, 1.0 / (c->heats.n - i));
		if (seconds <= 0)
			break;
		heard = race(l, i, 0, seconds);
		if (heard == HEARD_ALL && c->heats.v[i].phase == PHASE_PREFILL)
			heard = race(l, i, 1, seconds);
	}
	progress_end();
	return heard;
}

static enum stage stage_named(const char *name)
{
	enum stage s = NUM_STAGES - 1;
	while (s > STAGE_NONE && strcmp(stage_names[s], name))
		s--;
	return s;
}

/* What pass A has found right need not pass the corner batches again. Nothing else of it counts
 * here. */
static int recall(struct campaign *c)
{
	store_stage(c->store, stage_names[STAGE_RACE]);
	const int ok = heats_recall(&c->heats, c->store, c->hello.info.gpu, c->protocol.name);
	campaign_trust(c);
	for (int i = 0; i < c->heats.n; i++) {
		struct heat *h = &c->heats.v[i];
		memset(h->stored, 0, (size_t)h->n);
		memset(h->noisy, 0, (size_t)h->n);
		h->noisy_plans = 0;
	}
	store_stage(c->store, stage_names[c->stage]);
	return ok;
}

static int fulfil(struct list *l)
{
	struct campaign *c = &l->c;
	const int wished = l->n;
	if (!drop_known(l)) {
		if (!c->o->sum)
			complain("nothing to do: all %d are in %s", wished, c->db);
		return EXIT_DONE;
	}
	if (!campaign_remember(c))
		return EXIT_CHECK;
	if (!recall(c))
		return EXIT_USAGE;
	if (!campaign_begin_run(c))
		return EXIT_CHECK;
	if (!campaign_worker(c))
		return EXIT_CHECK;
	c->began = budget_now();
	c->binaries.until = c->o->wall ? c->began + c->o->budget_s : 0;
	const int asked = l->n;
	enum heard heard = race_all(l);
	for (int k = 0; k < NOISY_RETRIES && heard == HEARD_ALL && keep_noisy(l); k++) {
		if (!campaign_quiet_again(c))
			break;
		heard = race_all(l);
	}
	if (c->o->sum) {
		campaign_sum(c, c->o->sum);
		return campaign_code(c, heard);
	}
	const long long missing = asked - c->failed[OUTCOME_OK];
	const int noisy = campaign_noisy(c);
	complain("%lld of %d measured (%d were there), %lld A/A pairs, in %.0f s: %s",
		 c->failed[OUTCOME_OK], asked, wished - asked, c->tally[c->stage].controls,
		 campaign_seconds(c), c->db);
	if (noisy)
		complain(
		    "too noisy to judge by, and left out: %d; the same command races them again",
		    noisy);
	if (missing > 0 && heard == HEARD_ALL && campaign_seconds(c) >= c->limit_s)
		complain("the budget of %.0f s is spent; the same command goes on", c->o->budget_s);
	return campaign_code(c, heard);
}

int sweep_wishes(const struct sweep_options *o, const struct hello *hello,
		 const struct scenario_list *scenarios, const struct wish *wish, int n,
		 const char *stage)
{
	struct list l = { .c = { .o = o, .hello = *hello } };
	int code = EXIT_USAGE, ok = 1;
	campaign_make(&l.c, scenarios);
	l.c.stage = stage_named(stage);
	l.c.limit_s = o->budget_s;
	l.grant = calloc((size_t)n + 1, sizeof *l.grant);
	for (int i = 0; l.grant && i < n; i++)
		if (wish[i].scenario % o->shards == o->shard)
			ok &= grant(&l, &wish[i]);
	if (ok && l.grant)
		l.c.store = store_open(l.c.db, 0);
	if (l.c.store)
		store_stage(l.c.store, stage);
	if (l.c.store && store_check(l.c.store) &&
	    (provenance_same(l.c.store, &hello->info, &l.c.protocol) || campaign_begin_run(&l.c)))
		code = fulfil(&l);
	free(l.grant);
	campaign_free(&l.c);
	return interrupted ? EXIT_INTERRUPTED : l.c.refused ? l.c.refused : code;
}
