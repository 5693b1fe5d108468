/* session.c - races against the clock: who of those asked for has to run, what the race
 * brought, and what it took. Owns the database's handle and the memory of which choices
 * are right; stages.c and requested_cells.c say what is raced. */
#include "sweep.h"
#include "harness/base/base.h"
#include "harness/compile/builders.h"
#include "harness/compile/compile.h"
#include "harness/measure/measure.h"
#include "harness/scenario/scenario.h"
#include "harness/search/search.h"
#include "harness/store/handle.h"
#include "harness/store/store.h"
#include "harness/worker/worker.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	CONTROL_ODDS = 12,    /* one race in so many has an A/A control */
	MOST_BAD_CONTROLS = 3 /* in a row, of races one after the other */
};
static const double generous = 1.5 /* most races end before their time */;

static const struct scenario *scenario_of(const struct sweep_session *c, const struct problem *h)
{
	return &c->problems.scenarios[h->scenario];
}

static char *gated_at(const struct sweep_session *c, int built_choice, enum phase phase)
{
	return &c->gated[built_choice * 3 + (int)phase];
}

static char *barred_at(const struct sweep_session *c, int built_choice, int shape)
{
	return &c->barred[(size_t)built_choice * (size_t)c->problems.num_shapes + (size_t)shape];
}

double session_seconds(const struct sweep_session *c)
{
	if (c->runner.seconds)
		return c->runner.seconds(c->runner.arg);
	return budget_now() - c->began - (c->o->wall ? 0 : c->binaries.budget_s);
}

double session_share(const struct sweep_session *c, double part)
{
	const double left = c->limit_s - session_seconds(c);
	return left <= 0 ? 0 : fmin(fmax(generous * left * part, 0.2), c->protocol.seconds);
}

/* ---- the database --------------------------------------------------------------- */

/* No time can beat these. A data sheet knows better than a measurement. */
static void know_ceilings(struct sweep_session *c)
{
	const struct gpu_model *sheet = gpu_model(c->hello.info.gpu);
	c->problems.dram_gbps = sheet ? sheet->dram_gbps : c->hello.dram_gbps;
	c->problems.tflops = sheet ? sheet->tflops : c->hello.fma_tflops;
}

int session_begin_run(struct sweep_session *c)
{
	if (c->run > 0 || !c->store)
		return 1;
	c->refused = device_ready(c->o, &c->hello);
	if (c->refused)
		return 0;
	know_ceilings(c);
	c->run = provenance_run(c->store, &c->hello, &c->protocol, c->o->command);
	return c->run > 0;
}

int session_quiet_again(const struct sweep_session *c)
{
	const double left = c->limit_s - session_seconds(c);
	return c->runner.is_simulated || (left > 0 && !device_quiet(c->o, &c->hello, left));
}

int session_noisy(const struct sweep_session *c)
{
	int n = 0;
	for (int i = 0; i < c->problems.n; i++) {
		const struct problem *h = &c->problems.v[i];
		n += h->noisy_plans;
		for (int k = 0; k < h->n; k++)
			n += h->noisy[k];
	}
	return n;
}

/* A set made by attune refine says so of all its rows. */
static enum stage stage_of(const struct sweep_session *c, const struct problem *h)
{
	const int refines = !c->survey && !strncmp(scenario_of(c, h)->set, "refine", 6);
	return refines && c->stage < STAGE_AUDIT ? STAGE_REFINE : c->stage;
}

static void count(struct sweep_session *c, const struct measurement *m)
{
	struct tally *t = &c->tally[c->stage];
	t->device_s += m->device_us * 1e-6;
	t->cells += m->outcome == OUTCOME_OK;
	t->noisy += m->outcome == OUTCOME_NOISY;
	t->failed += m->outcome != OUTCOME_OK && m->outcome != OUTCOME_NOISY;
	c->failed[m->outcome]++;
}

static int keep(struct sweep_session *c, struct problem *h, int i, const struct measurement *m)
{
	const struct built_choice *e = &c->problems.built_choice[h->built_choice[i]];
	const enum stage stage = stage_of(c, h);
	/* A race is more than the survey that a time may be of. */
	h->noisy[i] = m->outcome == OUTCOME_NOISY && (!h->stored[i] || stage == STAGE_RACE);
	if (m->outcome != OUTCOME_NOISY) {
		problems_note(h, i, m->outcome == OUTCOME_OK ? m->median_us : INFINITY, stage);
		h->stored[i] = 1;
	}
	count(c, m);
	if (!c->store)
		return 1;
	store_stage(c->store, stage_names[stage]);
	return store_measurement(c->store, c->run, scenario_of(c, h), h->phase, &e->choice,
				 e->flags, m, e->registers, e->spill_bytes);
}

static int same_plan(const struct contender *a, const struct contender *b)
{
	return !memcmp(a->problem, b->problem, sizeof a->problem) &&
	       !memcmp(a->place, b->place, sizeof a->place) && a->how == b->how &&
	       a->spare == b->spare;
}

int session_is_noisy(const struct sweep_session *c, const struct contender *plan)
{
	for (int i = 0; i < c->num_noisy_plans; i++)
		if (same_plan(&c->noisy_plan[i], plan))
			return 1;
	return 0;
}

/* 0: no memory. */
static int note_plan(struct sweep_session *c, const struct contender *plan, int is_noisy)
{
	int n = 0;
	for (int i = 0; i < c->num_noisy_plans; i++)
		if (!same_plan(&c->noisy_plan[i], plan))
			c->noisy_plan[n++] = c->noisy_plan[i];
	c->num_noisy_plans = n;
	if (!is_noisy)
		return 1;
	struct contender *more = realloc(c->noisy_plan, ((size_t)n + 1) * sizeof *more);
	if (!more) {
		complain("out of memory");
		return 0;
	}
	c->noisy_plan = more;
	more[c->num_noisy_plans++] = *plan;
	return 1;
}

static int keep_plan(struct sweep_session *c, const struct contender *contender,
		     const struct measurement *m)
{
	struct problem *h = &c->problems.v[contender->problem[0]];
	struct problem *whole = problems_find(&c->problems, h->scenario, PHASE_ALL);
	char text[MAX_PLAN_TEXT];
	plan_text(text, &c->problems, contender);
	const int is_noisy = m->outcome == OUTCOME_NOISY;
	(whole ? whole : h)->noisy_plans += is_noisy;
	if (!note_plan(c, contender, is_noisy))
		return 0;
	count(c, m);
	if (!c->store)
		return 1;
	store_stage(c->store, stage_names[stage_of(c, h)]);
	return store_plan_measurement(c->store, c->run, scenario_of(c, h), text, m);
}

/* ---- listening to a race -------------------------------------------------------- */

struct round {
	struct sweep_session *c;
	char *wanted; /* of each contender; others only run for the sake of these */
};

static int on_result(void *arg, const struct order *order, int i, const struct measurement *m,
		     int failed_gate)
{
	struct round *r = arg;
	struct sweep_session *c = r->c;
	const struct contender *contender = &order->contender[i];
	struct problem *h = &c->problems.v[contender->problem[0]];
	if (failed_gate && contender->problem[1] < 0 && m->outcome != OUTCOME_RESOURCES)
		*barred_at(c, h->built_choice[contender->place[0]], h->shape) = (char)m->outcome;
	if (m->outcome == OUTCOME_OK && !m->samples)
		return 1; /* the budget ended before it */
	if (!r->wanted[i]) {
		c->tally[c->stage].device_s += m->device_us * 1e-6;
		return 1;
	}
	return contender->problem[1] >= 0 ? keep_plan(c, contender, m)
					  : keep(c, h, contender->place[0], m);
}

static void on_passed(void *arg, const struct order *order, int i)
{
	const struct round *r = arg;
	const struct contender *contender = &order->contender[i];
	const struct problem *h = &r->c->problems.v[contender->problem[0]];
	*gated_at(r->c, h->built_choice[contender->place[0]], h->phase) = 1;
}

/* The race's times are noisy already, and how much so is no noise of the data. Where no race
 * gets better nothing since the last good control can be believed. */
static int on_bad_control(struct sweep_session *c, const struct control *control)
{
	c->bad_controls++;
	c->worst_control = fmax(c->worst_control, noise_of_control(control));
	if (c->bad_controls < MOST_BAD_CONTROLS)
		return 1;
	complain("the same choice twice differs by %.0f %%: the machine is not quiet. The sweep "
		 "stops; nothing is learned from what was measured since the last such pair that "
		 "agreed. The same command goes on when the machine is quiet",
		 100 * c->worst_control);
	c->refused = EXIT_BUSY;
	if (c->store)
		(void)store_disbelieve(c->store, c->run, c->believed_race); /* it has complained */
	return 0;
}

static int on_control(void *arg, const struct order *order, const struct control *control)
{
	struct sweep_session *c = ((struct round *)arg)->c;
	const struct contender *contender = &order->contender[control->of];
	const struct problem *h = &c->problems.v[contender->problem[0]];
	const int is_plan = contender->problem[1] >= 0;
	char text[MAX_PLAN_TEXT];
	c->tally[c->stage].controls++;
	c->tally[c->stage].device_s += control->device_us * 1e-6;
	if (noise_in_control(control) && !device_is_emulated(&c->hello.info))
		return on_bad_control(c, control);
	c->bad_controls = 0;
	if (!c->store)
		return 1;
	c->believed_race = store_last_race(c->store, c->run);
	if (is_plan)
		plan_text(text, &c->problems, contender);
	else
		choice_text(text, sizeof text,
			    &c->problems.built_choice[h->built_choice[contender->place[0]]].choice);
	store_stage(c->store, stage_names[stage_of(c, h)]);
	return store_control(c->store, c->run, scenario_of(c, h),
			     is_plan ? "plan" : store_phase(h->phase), text, control->median_us,
			     control->ratio);
}

static void on_spent(void *arg, const double seconds[NUM_SPENT])
{
	struct sweep_session *c = ((struct round *)arg)->c;
	for (int i = 0; i < NUM_SPENT; i++)
		c->spent_s[i] += seconds[i];
}

static void on_heartbeat(void *arg)
{
	const struct sweep_session *c = ((struct round *)arg)->c;
	char what[40];
	snprintf(what, sizeof what, "measuring (%s)", stage_names[c->stage]);
	if (!c->runner.is_simulated)
		progress(what,
			 fmax(c->stage_done / fmax(c->stage_heats, 1),
			      session_seconds(c) / fmax(c->limit_s, 1e-9)),
			 1);
}

/* ---- code ----------------------------------------------------------------------- */

static void attach(struct sweep_session *c, struct built_choice *e)
{
	const struct built *b = &c->binaries.v[e->built];
	e->blob = &b->binary.blob;
	e->flags = b->flags;
	e->registers = b->binary.registers;
	e->spill_bytes = b->binary.spill_bytes;
	for (enum helper h = 0; h < NUM_HELPERS; h++)
		if (e->helper[h] >= 0)
			e->helping[h] = &c->binaries.v[e->helper[h]].binary.blob;
}

/* Adds the binaries of an choice to a list; how many are in it. */
static int add_needed(const struct built_choice *e, int *need, int n)
{
	need[n++] = e->built;
	for (enum helper h = 0; h < NUM_HELPERS; h++)
		if (e->helper[h] >= 0)
			need[n++] = e->helper[h];
	return n;
}

static int helpers_compile(const struct sweep_session *c, const struct built_choice *e)
{
	for (enum helper h = 0; h < NUM_HELPERS; h++) {
		const struct built *b = e->helper[h] < 0 ? NULL : &c->binaries.v[e->helper[h]];
		if (b && b->status != BUILT) {
			complain("%s does not compile: %s", b->kernel->source, b->binary.log);
			return 0;
		}
	}
	return 1;
}

/* Waits for the code of these choices. */
static enum heard make_ready(struct sweep_session *c, const int *built_choice, int n)
{
	int *need = calloc((size_t)n * (1 + NUM_HELPERS) + 1, sizeof *need), num = 0;
	enum heard heard = need ? HEARD_ALL : HEARD_STOP;
	for (int i = 0; need && i < n; i++)
		num = add_needed(&c->problems.built_choice[built_choice[i]], need, num);
	if (need && !c->runner.is_simulated && !binaries_need(&c->binaries, need, num))
		heard = interrupted                       ? HEARD_INTERRUPT
			: binaries_too_late(&c->binaries) ? HEARD_TOO_LATE
							  : HEARD_NO_COMPILER;
	for (int i = 0; i < n && heard == HEARD_ALL && !c->runner.is_simulated; i++) {
		attach(c, &c->problems.built_choice[built_choice[i]]);
		if (!helpers_compile(c, &c->problems.built_choice[built_choice[i]]))
			heard = HEARD_STOP;
	}
	free(need);
	return heard;
}

static enum heard make_places_ready(struct sweep_session *c, const struct problem *h,
				    const struct entries *e)
{
	int *built_choice = malloc(((size_t)e->n + 2) * sizeof *built_choice), n = 0;
	enum heard heard = HEARD_STOP;
	for (int k = e->only_these ? 0 : -1; built_choice && k < e->n && h->n; k++) {
		const int i = k < 0 ? 0 : e->place[k];
		if (k < 0 || e->again || !h->stored[i])
			built_choice[n++] = h->built_choice[i];
	}
	if (built_choice)
		heard = make_ready(c, built_choice, n);
	free(built_choice);
	return heard;
}

static enum heard make_contenders_ready(struct sweep_session *c, const struct contender *contender,
					int n)
{
	int *built_choice = malloc((2 * (size_t)n + 1) * sizeof *built_choice), num = 0;
	enum heard heard = HEARD_STOP;
	for (int i = 0; built_choice && i < n; i++)
		for (int part = 0; part < 2 && contender[i].problem[part] >= 0; part++)
			built_choice[num++] = c->problems.v[contender[i].problem[part]]
						  .built_choice[contender[i].place[part]];
	if (built_choice)
		heard = make_ready(c, built_choice, num);
	free(built_choice);
	return heard;
}

int session_ask(struct sweep_session *c, const struct problem *h, const struct entries *e)
{
	int asked = 0;
	for (int k = 0; k < e->n; k++) {
		const struct built_choice *of =
		    &c->problems.built_choice[h->built_choice[e->place[k]]];
		if (h->stored[e->place[k]] && !e->again)
			continue;
		int need[1 + NUM_HELPERS];
		const int n = add_needed(of, need, 0);
		for (int i = 0; i < n; i++)
			asked += binaries_ask(&c->binaries, need[i]);
	}
	return asked;
}

static void on_idle(void *arg)
{
	binaries_poll(&((struct sweep_session *)arg)->binaries);
}

/* On the device: code first, and on a CPU no compiler beside the race. */
static enum heard race_in_worker(void *arg, const struct order *order, const struct listener *l)
{
	struct sweep_session *c = arg;
	const int on_cpu = c->hello.info.backend == BACKEND_CPU;
	const enum heard ready = make_contenders_ready(c, order->contender, order->n);
	if (ready != HEARD_ALL)
		return ready;
	if (on_cpu)
		binaries_hold(&c->binaries, 1);
	const enum heard heard = worker_race(c->worker, order, l);
	if (on_cpu)
		binaries_hold(&c->binaries, 0);
	return heard;
}

static void free_worker(void *arg)
{
	worker_free(((struct sweep_session *)arg)->worker);
}

int session_worker(struct sweep_session *c)
{
	const struct worker_setup setup = { .device = sweep_device_name(c->o),
					    .problems = &c->problems,
					    .protocol = c->protocol,
					    .gate_s = 30,
					    .sample_s = 10,
					    .no_ceilings = 1,
					    .dram_gbps = c->hello.dram_gbps,
					    .fma_tflops = c->hello.fma_tflops,
					    .idle = on_idle,
					    .idle_arg = c };
	c->setup = setup;
	c->runner = (struct race_runner){ .arg = c, .race = race_in_worker, .free = free_worker };
	c->worker = worker_new(&c->setup);
	return c->worker != NULL;
}

/* ---- one race ------------------------------------------------------------------- */

/* What cannot run is entered without a race. 1: it is; -1: the database failed. */
static int refuse(struct sweep_session *c, struct problem *h, int i)
{
	const int built_choice = h->built_choice[i];
	struct measurement m = { .outcome = (enum outcome) * barred_at(c, built_choice, h->shape) };
	const struct built *b =
	    c->binaries.n ? &c->binaries.v[c->problems.built_choice[built_choice].built] : NULL;
	if (m.outcome != OUTCOME_OK)
		snprintf(m.detail, sizeof m.detail, "not run: failed on this shape before");
	if (b && b->status == REFUSED_BY_COMPILER) {
		m.outcome = OUTCOME_COMPILE;
		snprintf(m.detail, sizeof m.detail, "%s", b->binary.log ? b->binary.log : "");
		m.detail[strcspn(m.detail, "\n")] = '\0';
	}
	if (b && b->status == USES_SCRATCH) {
		m.outcome = OUTCOME_RESOURCES;
		snprintf(m.detail, sizeof m.detail, "not run: %d bytes of scratch memory a lane",
			 b->binary.spill_bytes);
	}
	return m.outcome == OUTCOME_OK ? 0 : keep(c, h, i, &m) ? 1 : -1;
}

/* Fills contenders: the reference, then what is asked for and has to run; how many, 0 when
 * there is nothing to run, -1 when the database failed. */
static int line_up(struct sweep_session *c, struct problem *h, const struct entries *e,
		   struct contender *contender, char *wanted)
{
	const int index = (int)(h - c->problems.v);
	int n = 0, missing = 0;
	for (int k = e->only_these ? 0 : -1; k < e->n; k++) {
		const int i = k < 0 ? 0 : e->place[k];
		if (k >= 0 && i == 0 && !e->only_these)
			continue;
		const int need = e->again || !h->stored[i];
		const int refused = need ? refuse(c, h, i) : 0;
		if (refused < 0)
			return -1;
		if (refused || (!need && i) || (!need && isinf(h->us[i])))
			continue;
		wanted[n] = (char)need;
		contender[n++] =
		    (struct contender){ .problem = { index, -1 },
					.place = { i },
					.gated = *gated_at(c, h->built_choice[i], h->phase) };
		missing += need;
	}
	return missing ? n : 0;
}

static int add_plans(struct sweep_session *c, const struct problem *h, const struct entries *e,
		     struct contender *contender, char *wanted, int n)
{
	int more = 0;
	if (!n && !e->only_these && h->n &&
	    isfinite(h->us[0])) { /* plans are compared with the reference */
		contender[n] =
		    (struct contender){ .problem = { (int)(h - c->problems.v), -1 }, .gated = 1 };
		wanted[n++] = 0;
	}
	if (e->plan) {
		more = e->num_plans;
		memcpy(contender + n, e->plan, (size_t)more * sizeof *contender);
	} else {
		more = plans_pick(&c->problems, h->scenario, contender + n);
	}
	memset(wanted + n, 1, (size_t)more);
	return more ? n + more : 0;
}

static enum heard run(struct sweep_session *c, struct round *r, const struct order *order)
{
	const struct listener listener = { .arg = r,
					   .result = on_result,
					   .passed = on_passed,
					   .control = on_control,
					   .beat = on_heartbeat,
					   .spent = on_spent };
	c->tally[c->stage].races++;
	budget_race();
	return c->runner.race(c->runner.arg, order, &listener);
}

/* The first race of a sweep has one, so that even a short one knows its noise. */
static int has_control(const struct sweep_session *c, const struct problem *h)
{
	return h == c->problems.v || c->stage == STAGE_B || c->bad_controls ||
	       scramble((unsigned)(h - c->problems.v) * 0x9e3779b9ull + (unsigned)c->stage) %
		       CONTROL_ODDS ==
		   0;
}

enum heard session_race(struct sweep_session *c, struct problem *h, const struct entries *e,
			double seconds)
{
	const size_t room = (size_t)(e->n + e->num_plans + 1 + MAX_PLANS + 1);
	struct contender *contender = calloc(room, sizeof *contender);
	struct round round = { .c = c, .wanted = calloc(room, 1) };
	enum heard heard = make_places_ready(c, h, e);
	int n = heard != HEARD_ALL          ? 0
		: contender && round.wanted ? line_up(c, h, e, contender, round.wanted)
					    : -1;
	if (n >= 0 && heard == HEARD_ALL && e->with_plans) {
		const int with = add_plans(c, h, e, contender, round.wanted, n);
		n = with ? with : n;
	}
	if (n > 0)
		heard =
		    run(c, &round,
			&(struct order){ .contender = contender,
					 .n = n,
					 .fixed_rounds = e->fixed_rounds,
					 .with_control = has_control(c, h),
					 .seconds = seconds,
					 .seed = c->o->seed + (unsigned)contender[0].problem[0] });
	else if (n < 0)
		heard = HEARD_STOP;
	free(contender);
	free(round.wanted);
	return heard;
}

enum heard session_excuse(struct sweep_session *c, const struct problem *h, enum heard heard)
{
	c->ran_out |= heard == HEARD_TOO_LATE;
	if (heard != HEARD_NOTHING)
		return heard;
	if (c->stage == STAGE_RACE || c->stage == STAGE_B || c->survey) { /* else it is said */
		complain("%s %s is left out: %s", scenario_of(c, h)->model,
			 scenario_of(c, h)->batch_text, worker_text(c->worker));
		c->skipped++;
	}
	return HEARD_ALL;
}

int session_code(const struct sweep_session *c, enum heard heard)
{
	if (heard == HEARD_NO_DEVICE)
		complain("%s", worker_text(c->worker));
	if (heard == HEARD_INTERRUPT)
		complain("interrupted; all that was measured is kept, and the same command "
			 "goes on from here");
	return heard == HEARD_INTERRUPT     ? EXIT_INTERRUPTED
	       : heard == HEARD_NO_DEVICE   ? EXIT_NO_DEVICE
	       : heard == HEARD_NO_COMPILER ? EXIT_USAGE
	       : heard == HEARD_STOP        ? (c->refused ? c->refused : EXIT_CHECK)
					    : EXIT_DONE;
}

/* ---- beginning and end ---------------------------------------------------------- */

int session_remember(struct sweep_session *c)
{
	c->gated = calloc((size_t)c->problems.num_built_choices + 1, 3);
	c->barred =
	    calloc((size_t)c->problems.num_built_choices + 1, (size_t)c->problems.num_shapes + 1);
	if (!c->gated || !c->barred)
		complain("out of memory");
	return c->gated && c->barred;
}

void session_pass(struct sweep_session *c, int built_choice, enum phase phase)
{
	*gated_at(c, built_choice, phase) = 1;
}

void session_trust(struct sweep_session *c)
{
	for (int i = 0; i < c->problems.n; i++) {
		const struct problem *h = &c->problems.v[i];
		for (int k = 0; k < h->n; k++)
			if (h->stored[k] && h->us[k] < INFINITY)
				session_pass(c, h->built_choice[k], h->phase);
	}
}

void session_make(struct sweep_session *c, const struct scenario_list *list)
{
	protocol_for(&c->protocol, &c->hello.info, preset_names[c->o->preset]);
	if (c->o->steady)
		protocol_steady(&c->protocol);
	snprintf(c->db, sizeof c->db, "results/%s%s.sqlite", c->hello.info.gpu,
		 c->o->steady ? "_steady" : "");
	if (c->o->db)
		snprintf(c->db, sizeof c->db, "%s", c->o->db);
	c->problems.scenarios = list->v;
	c->problems.device = c->hello.info;
	know_ceilings(c);
	c->binaries.arch = c->hello.info.arch;
	c->binaries.spare_cpu = c->hello.info.backend == BACKEND_GPU;
}

void session_sum(struct sweep_session *c, struct sweep_sum *sum)
{
	c->spent_s[SPENT_COMPILING] = c->binaries.seconds;
	for (int s = 0; s < NUM_STAGES; s++) {
		c->spent_s[SPENT_DEVICE] += c->tally[s].device_s;
		sum->races += c->tally[s].races;
	}
	for (int i = 0; i < NUM_SPENT; i++)
		sum->spent_s[i] += c->spent_s[i];
	for (int i = 0; i < NUM_OUTCOMES; i++)
		sum->failed[i] += i == OUTCOME_OK ? 0 : c->failed[i];
	sum->measured += c->failed[OUTCOME_OK];
}

void session_free(struct sweep_session *c)
{
	if (c->runner.free)
		c->runner.free(c->runner.arg);
	store_close(c->store);
	problems_free(&c->problems);
	binaries_free(&c->binaries);
	free(c->gated);
	free(c->barred);
	free(c->noisy_plan);
}
