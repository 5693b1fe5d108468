/* sweep.c - the loop that fills a database: scenarios and phases, best first, each a
 * race among the candidates that are not stored yet. Owns the database and the budget;
 * what touches the device happens in a worker. */
#include "sweep.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct sweep_state {
	const struct sweep_options *o;
	struct hello hello;
	struct protocol protocol;
	struct binaries binaries;
	struct heats heats;
	char *gated;  /* [entrant][phase]: has passed the corner batches */
	char *barred; /* [entrant][shape]: enum outcome, OUTCOME_OK: not barred */
	char db[256];
	struct store *store;
	long long run;
	struct worker *worker;
	double began;
	int heats_done;
	long long measured, failed[NUM_OUTCOMES];
	int skipped_heats;
	double budget_s;             /* of the pass under way */
	int completing, to_complete; /* heats */
	char *portfolio;             /* [entrant] when completing */
};

static const double first_pass = 0.6; /* of the budget; completion has the rest */
enum { PORTFOLIO = 24 /* choices a phase */ };

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static const struct scenario *scenario_of(const struct sweep_state *s, const struct heat *h)
{
	return &s->heats.scenarios[h->scenario];
}

static char *gated_at(const struct sweep_state *s, int entrant, enum phase phase)
{
	return &s->gated[entrant * 3 + (int)phase];
}

static char *barred_at(const struct sweep_state *s, int entrant, int shape)
{
	return &s->barred[(size_t)entrant * (size_t)s->heats.num_shapes + (size_t)shape];
}

/* ---- the database --------------------------------------------------------------- */

static int begin_run(struct sweep_state *s)
{
	if (s->run <= 0)
		s->run = provenance_run(s->store, &s->hello, &s->protocol, s->o->command);
	return s->run > 0;
}

static int is_newest_device(const struct sweep_state *s)
{
	return provenance_same(s->store, &s->hello.info, &s->protocol);
}

/* Results of this very device are asked for before a run is begun, so that a sweep
 * with nothing to do leaves no trace; any others' only by the run. */
static int recall(struct sweep_state *s)
{
	if (s->o->again)
		return 1;
	return (is_newest_device(s) || begin_run(s)) &&
	       heats_recall(&s->heats, s->store, s->hello.info.gpu);
}

static void count(struct sweep_state *s, const struct measurement *m)
{
	if (m->outcome == OUTCOME_OK)
		s->measured++;
	else
		s->failed[m->outcome]++;
}

/* A reference that is stored already only ran for the others' sake. */
static int keep(struct sweep_state *s, struct heat *h, int i, const struct measurement *m)
{
	const struct entrant *e = &s->heats.entrant[h->entrant[i]];
	if (h->stored[i])
		return 1;
	h->us[i] = m->outcome == OUTCOME_OK ? m->median_us : INFINITY;
	h->stored[i] = 1;
	count(s, m);
	return store_measurement(s->store, s->run, scenario_of(s, h), h->phase, &e->choice,
				 e->flags, m, e->registers, e->spill_bytes);
}

static int keep_plan(struct sweep_state *s, const struct lane *lane, const struct measurement *m)
{
	char text[MAX_PLAN_TEXT];
	plan_text(text, &s->heats, lane);
	count(s, m);
	return store_plan_measurement(s->store, s->run, scenario_of(s, &s->heats.v[lane->heat[0]]),
				      text, m);
}

/* ---- listening to the worker ---------------------------------------------------- */

static int on_result(void *arg, const struct order *order, int i, const struct measurement *m,
		     int failed_gate)
{
	struct sweep_state *s = arg;
	const struct lane *lane = &order->lane[i];
	struct heat *h = &s->heats.v[lane->heat[0]];
	if (lane->heat[1] >= 0)
		return keep_plan(s, lane, m);
	if (failed_gate && m->outcome != OUTCOME_RESOURCES)
		*barred_at(s, h->entrant[lane->place[0]], h->shape) = (char)m->outcome;
	return keep(s, h, lane->place[0], m);
}

static void on_passed(void *arg, const struct order *order, int i)
{
	const struct sweep_state *s = arg;
	const struct lane *lane = &order->lane[i];
	const struct heat *h = &s->heats.v[lane->heat[0]];
	*gated_at(s, h->entrant[lane->place[0]], h->phase) = 1;
}

static void on_heartbeat(void *arg)
{
	const struct sweep_state *s = arg;
	double share = s->heats_done / (double)(s->heats.n ? s->heats.n : 1);
	double spent = (now() - s->began) / s->o->budget_s;
	progress("measuring", fmax(share, spent), 1);
}

/* ---- one heat ------------------------------------------------------------------- */

/* What cannot run is entered without a race. */
static int refuse(struct sweep_state *s, struct heat *h, int i)
{
	const int entrant = h->entrant[i];
	const struct built *b = &s->binaries.v[s->heats.entrant[entrant].built];
	struct measurement m = { .outcome = (enum outcome) * barred_at(s, entrant, h->shape) };
	if (m.outcome != OUTCOME_OK)
		snprintf(m.detail, sizeof m.detail, "not run: failed on this shape before");
	if (b->status == REFUSED_BY_COMPILER) {
		m.outcome = OUTCOME_COMPILE;
		snprintf(m.detail, sizeof m.detail, "%s", b->binary.log ? b->binary.log : "");
		m.detail[strcspn(m.detail, "\n")] = '\0';
	}
	return m.outcome == OUTCOME_OK ? 0 : keep(s, h, i, &m) ? 1 : -1;
}

/* The first time whoever promises something; when completing, the reference and the
 * phase's portfolio. */
static int wish_list(const struct sweep_state *s, const struct heat *h, int *place)
{
	int n = 0;
	if (!s->completing)
		return heats_select(&s->heats, h, s->o->exhaustive || s->o->preset == PRESET_SMOKE,
				    place);
	for (int i = 0; i < h->n; i++)
		if (!i || s->portfolio[h->entrant[i]])
			place[n++] = i;
	return n;
}

/* Those that have to run: not stored, with the reference in front even if it is. */
static int entry_list(struct sweep_state *s, struct heat *h, int *place)
{
	int n = wish_list(s, h, place);
	int kept = 0, missing = 0;
	for (int k = 0; k < n; k++) {
		const int i = place[k];
		const int refused = h->stored[i] ? 0 : refuse(s, h, i);
		if (refused < 0)
			return -1;
		if (refused || (h->stored[i] && (i || isinf(h->us[i]))))
			continue;
		missing += !h->stored[i];
		place[kept++] = i;
	}
	return missing ? kept : 0;
}

static enum heard run_lanes(struct sweep_state *s, const struct lane *lane, int n, double seconds)
{
	const struct listener listener = {
		.arg = s, .result = on_result, .passed = on_passed, .beat = on_heartbeat
	};
	const struct order order = { .lane = lane,
				     .n = n,
				     .seconds = seconds,
				     .seed = s->o->seed + (unsigned)lane[0].heat[0] };
	return worker_race(s->worker, &order, &listener);
}

static int is_due(const struct heat *h)
{
	return !h->finished || (h->phase == PHASE_ALL && !h->planned);
}

/* With the whole of a mixed batch race the plans made of the best of its parts. */
static enum heard run_heat(struct sweep_state *s, struct heat *h, double seconds)
{
	const int index = (int)(h - s->heats.v), with_plans = h->phase == PHASE_ALL && !h->planned;
	int *place = calloc((size_t)h->n, sizeof *place);
	struct lane *lane = calloc((size_t)h->n + 1 + MAX_PLANS, sizeof *lane);
	enum heard heard = HEARD_ALL;
	int n = place && lane ? entry_list(s, h, place) : -1;
	for (int k = 0; k < n; k++)
		lane[k] = (struct lane){ { index, -1 },
					 { place[k], 0 },
					 *gated_at(s, h->entrant[place[k]], h->phase) };
	if (!n && with_plans && isfinite(h->us[0]))
		lane[n++] = (struct lane){ { index, -1 }, { 0, 0 }, 1 };
	if (n >= 0 && with_plans)
		n += plans_pick(&s->heats, h->scenario, lane + n);
	if (n > 0)
		heard = run_lanes(s, lane, n, seconds);
	else if (n < 0)
		heard = HEARD_STOP;
	free(place);
	free(lane);
	if (heard == HEARD_ALL)
		h->finished = h->planned = 1;
	return heard;
}

/* ---- the loop ------------------------------------------------------------------- */

static int left_to_do(const struct sweep_state *s)
{
	int n = 0;
	for (int i = 0; i < s->heats.n; i++)
		n += is_due(&s->heats.v[i]);
	return n;
}

/* What one heat may take of the time that is left. */
static double its_share(const struct sweep_state *s)
{
	const double left = s->budget_s - (now() - s->began);
	const int heats = s->completing ? s->to_complete : left_to_do(s);
	const double share = 2 * left / fmax(heats, 1);
	return left <= 0 ? 0 : fmin(fmax(share, 0.2), s->protocol.seconds);
}

static enum heard run_heats(struct sweep_state *s)
{
	enum heard heard = HEARD_ALL;
	for (int i = 0; i < s->heats.n && its_share(s) > 0; i++) {
		struct heat *h = &s->heats.v[i];
		if (is_due(h) || s->o->exhaustive)
			heard = run_heat(s, h, its_share(s));
		if (heard == HEARD_NOTHING) {
			complain("%s %s is left out: %s", scenario_of(s, h)->model,
				 scenario_of(s, h)->batch_text, worker_text(s->worker));
			s->skipped_heats++;
			heard = HEARD_ALL;
		} else if (heard != HEARD_ALL) {
			break;
		}
		s->heats_done++;
	}
	return heard;
}

/* Fills the holes that races among promising candidates left: a heuristic may come to
 * name any choice of the portfolio for any scenario. */
static enum heard complete(struct sweep_state *s)
{
	enum heard heard = HEARD_ALL;
	s->completing = 1;
	s->to_complete = s->heats.n;
	for (enum phase p = PHASE_ALL; p <= PHASE_DECODE && heard == HEARD_ALL; p++) {
		if (!heats_portfolio(&s->heats, p, PORTFOLIO, s->portfolio))
			return HEARD_STOP;
		for (int i = 0; i < s->heats.n && its_share(s) > 0 && heard == HEARD_ALL; i++) {
			struct heat *h = &s->heats.v[i];
			if (h->phase != p)
				continue;
			if (h->finished)
				heard = run_heat(s, h, its_share(s));
			s->to_complete--;
			if (heard == HEARD_NOTHING) /* said in the first pass */
				heard = HEARD_ALL;
		}
	}
	return heard;
}

static int completes(const struct sweep_state *s)
{
	return !s->o->exhaustive && s->o->preset != PRESET_SMOKE;
}

/* Cells of the portfolio that nobody has measured. */
static int holes(struct sweep_state *s)
{
	int n = 0;
	for (enum phase p = PHASE_ALL; completes(s) && p <= PHASE_DECODE; p++) {
		if (!heats_portfolio(&s->heats, p, PORTFOLIO, s->portfolio))
			return n;
		for (int i = 0; i < s->heats.n; i++) {
			const struct heat *h = &s->heats.v[i];
			for (int k = 0; h->phase == p && h->finished && k < h->n; k++)
				n += s->portfolio[h->entrant[k]] && !h->stored[k];
		}
	}
	return n;
}

static enum heard run_all(struct sweep_state *s)
{
	enum heard heard;
	s->budget_s = s->o->budget_s * (completes(s) ? first_pass : 1);
	heard = run_heats(s);
	s->budget_s = s->o->budget_s;
	if (completes(s) && heard == HEARD_ALL)
		heard = complete(s);
	progress_end();
	return heard;
}

static int attach_code(struct sweep_state *s)
{
	for (int i = 0; i < s->heats.num_entrants; i++) {
		struct entrant *e = &s->heats.entrant[i];
		const struct built *b = &s->binaries.v[e->built];
		e->blob = &b->binary.blob;
		e->flags = b->flags;
		e->registers = b->binary.registers;
		e->spill_bytes = b->binary.spill_bytes;
		if (e->reduce >= 0)
			e->merging = &s->binaries.v[e->reduce].binary.blob;
		if (e->reduce >= 0 && s->binaries.v[e->reduce].status != BUILT) {
			complain("%s does not compile: %s", s->binaries.v[e->reduce].kernel->source,
				 s->binaries.v[e->reduce].binary.log);
			return 0;
		}
	}
	return 1;
}

static void summary(struct sweep_state *s, enum heard heard)
{
	char failures[200] = "";
	long long failed = 0;
	size_t n = 0;
	for (int i = OUTCOME_OK + 1; i < NUM_OUTCOMES; i++) {
		failed += s->failed[i];
		if (s->failed[i] && n < sizeof failures)
			n += (size_t)snprintf(failures + n, sizeof failures - n, "%s%lld %s",
					      n ? ", " : " (", s->failed[i],
					      outcome_name((enum outcome)i));
	}
	complain("%lld measured, %lld failed%s%s, in %.0f s: %s", s->measured, failed, failures,
		 n ? ")" : "", now() - s->began, s->db);
	const int left = left_to_do(s) - s->skipped_heats, unknown = left > 0 ? 0 : holes(s);
	if (heard == HEARD_ALL && unknown)
		complain("the budget of %.0f s left %d times of promising choices unknown; the "
			 "same command goes on with them",
			 s->o->budget_s, unknown);
	if (heard == HEARD_ALL && left > 0)
		complain("the budget of %.0f s left %d of %d scenario parts unmeasured; the same "
			 "command goes on with them",
			 s->o->budget_s, left, s->heats.n);
}

static int measure_all(struct sweep_state *s)
{
	struct worker_setup setup = { .device = device_for(s->o->gpu),
				      .heats = &s->heats,
				      .protocol = s->protocol,
				      .gate_s = 30,
				      .sample_s = 10 };
	enum heard heard;
	if (!binaries_compile(&s->binaries))
		return interrupted ? EXIT_INTERRUPTED : EXIT_USAGE;
	s->worker = attach_code(s) && begin_run(s) ? worker_new(&setup) : NULL;
	if (!s->worker)
		return EXIT_CHECK;
	s->began = now();
	heard = run_all(s);
	summary(s, heard);
	if (heard == HEARD_NO_DEVICE)
		complain("%s", worker_text(s->worker));
	if (heard == HEARD_INTERRUPT)
		complain("interrupted; all that was measured is kept, and the same command "
			 "goes on from here");
	return heard == HEARD_INTERRUPT   ? EXIT_INTERRUPTED
	       : heard == HEARD_NO_DEVICE ? EXIT_NO_DEVICE
	       : heard == HEARD_STOP      ? EXIT_CHECK
					  : EXIT_DONE;
}

/* ---- beginning and end ---------------------------------------------------------- */

/* A smoke sweep takes the lightest scenarios of each split, few enough for its time
 * and with some held out, so that a header can be made of them. */
static int in_smoke(const struct scenario_list *list, int index)
{
	const struct scenario *s = &list->v[index];
	const int most = strcmp(s->split, "heldout") ? 6 : 2;
	struct facts mine, other;
	int lighter = 0;
	scenario_facts(&mine, &s->shape, &s->batch->view);
	for (int i = 0; i < list->n; i++) {
		const double heavy = mine.kv_bytes * 20 + mine.flops;
		if (strcmp(list->v[i].split, s->split))
			continue;
		scenario_facts(&other, &list->v[i].shape, &list->v[i].batch->view);
		const double its = other.kv_bytes * 20 + other.flops;
		lighter += its < heavy || (its == heavy && i < index);
	}
	return lighter < most;
}

static int make_heats(struct sweep_state *s, const struct scenario_list *list)
{
	const struct field field = { .device = &s->hello.info,
				     .preset = s->o->preset,
				     .kernels = s->o->kernels,
				     .seed = s->o->seed };
	s->heats.scenarios = list->v;
	s->binaries.arch = s->hello.info.arch;
	for (int i = s->o->shard; i < list->n; i += s->o->shards)
		if ((s->o->preset != PRESET_SMOKE || in_smoke(list, i)) &&
		    !heats_add(&s->heats, &s->binaries, i, &field))
			return 0;
	heats_spread(&s->heats);
	s->gated = calloc((size_t)s->heats.num_entrants + 1, 3);
	s->barred = calloc((size_t)s->heats.num_entrants + 1, (size_t)s->heats.num_shapes + 1);
	s->portfolio = calloc((size_t)s->heats.num_entrants + 1, 1);
	return s->gated && s->barred && s->portfolio;
}

static int label_scenarios(struct sweep_state *s)
{
	for (int i = 0; i < s->heats.n; i++)
		if (!store_scenario(s->store, scenario_of(s, &s->heats.v[i])))
			return 0;
	return 1;
}

static void print_plan(const struct sweep_state *s)
{
	static const char *const columns[] = { "model", "batch", "phase", "candidates", "stored" };
	static const char *const phases[] = { "all", "prefill", "decode" };
	struct table *t = table_new(s->o->format, columns, COUNT(columns));
	for (int i = 0; i < s->heats.n; i++) {
		const struct heat *h = &s->heats.v[i];
		int stored = 0;
		for (int k = 0; k < h->n; k++)
			stored += h->stored[k];
		table_text(t, scenario_of(s, h)->model);
		table_text(t, scenario_of(s, h)->batch_text);
		table_text(t, phases[h->phase]);
		table_number(t, h->n, 0);
		table_number(t, stored, 0);
		table_end_row(t);
	}
	table_print(t, stdout);
	complain("%d scenario parts, %d to measure, %d binaries", s->heats.n, left_to_do(s),
		 s->binaries.n);
}

/* Writes nothing: a database that is not there yet is not made. */
static int dry_run(struct sweep_state *s)
{
	int ok = 1;
	if (!access(s->db, F_OK)) {
		s->store = store_open(s->db, 1);
		ok = s->store && (!is_newest_device(s) || recall(s));
	}
	if (ok)
		print_plan(s);
	return ok ? EXIT_DONE : EXIT_USAGE;
}

static int run(struct sweep_state *s, const struct scenario_list *list)
{
	protocol_for(&s->protocol, &s->hello.info, preset_names[s->o->preset]);
	snprintf(s->db, sizeof s->db, "results/%s.sqlite", s->hello.info.gpu);
	if (s->o->db)
		snprintf(s->db, sizeof s->db, "%s", s->o->db);
	if (!make_heats(s, list))
		return EXIT_CHECK;
	if (!s->heats.n) {
		complain("no kernel%s runs any of the %d scenarios on %s",
			 s->o->kernels ? " of --kernels" : "", list->n, s->hello.info.gpu);
		return EXIT_USAGE;
	}
	if (s->o->dry_run)
		return dry_run(s);
	s->store = store_open(s->db, 0);
	if (!s->store)
		return EXIT_USAGE;
	if (!recall(s) || !label_scenarios(s))
		return EXIT_CHECK;
	if (!left_to_do(s) && !s->o->exhaustive && !holes(s)) {
		complain("nothing to do: all %d scenario parts are in %s", s->heats.n, s->db);
		return EXIT_DONE;
	}
	return measure_all(s);
}

int sweep(const struct sweep_options *o, const struct hello *hello,
	  const struct scenario_list *list)
{
	struct sweep_state s = { .o = o, .hello = *hello };
	int code = run(&s, list);
	worker_free(s.worker);
	store_close(s.store);
	heats_free(&s.heats);
	binaries_free(&s.binaries);
	free(s.gated);
	free(s.barred);
	free(s.portfolio);
	return interrupted ? EXIT_INTERRUPTED : code;
}
