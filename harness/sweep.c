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
	long long measured, failed[NUM_OUTCOMES], known;
	int skipped_heats, store_broken;
};

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

/* ---- the device ----------------------------------------------------------------- */

/* What device_open is told for a GPU= name. */
static const char *device_for(const char *gpu)
{
	return !gpu ? NULL : !strcmp(gpu, "cpu") ? "cpu" : "cuda";
}

int sweep_device(const struct sweep_options *o, struct hello *hello)
{
	const int is_gpu = o->gpu && strcmp(o->gpu, "cpu");
	struct worker_setup setup = { .device = device_for(o->gpu) };
	if (is_gpu && !gpu_model(o->gpu)->arch) {
		complain("--gpu %s: there are no kernels for AMD GPUs in this version", o->gpu);
		return EXIT_NO_DEVICE;
	}
	struct worker *probe = worker_new(&setup);
	int known = probe && worker_hello(probe, hello);
	worker_free(probe);
	if (!known)
		return interrupted ? EXIT_INTERRUPTED : EXIT_NO_DEVICE;
	if (hello->status) {
		complain("%s%s%s%s", o->gpu ? o->gpu : "", o->gpu ? ": " : "", hello->text,
			 is_gpu ? "; --gpu cpu measures the CPU, --compile-only needs no device"
				: "");
		return EXIT_NO_DEVICE;
	}
	if (o->gpu && strcmp(o->gpu, hello->info.gpu)) {
		complain("--gpu %s, but this machine has %s: say --gpu %s, or leave it away",
			 o->gpu, hello->info.name, hello->info.gpu);
		return EXIT_NO_DEVICE;
	}
	return EXIT_DONE;
}

/* ---- the database --------------------------------------------------------------- */

static void read_line(const char *command, char *line, size_t size)
{
	FILE *f = popen(command, "r");
	line[0] = '\0';
	if (f && fgets(line, (int)size, f))
		line[strcspn(line, "\n")] = '\0';
	if (f)
		pclose(f);
}

static int begin_run(struct sweep_state *s)
{
	struct run_info run = { .device = s->hello.info,
				.dram_gbps = s->hello.dram_gbps,
				.fma_tflops = s->hello.fma_tflops };
	if (s->run > 0)
		return 1;
	read_line("git describe --always --dirty --abbrev=12 2>/dev/null", run.commit,
		  sizeof run.commit);
	snprintf(run.toolkit, sizeof run.toolkit, "%s", jit_version(s->hello.info.backend));
	snprintf(run.protocol, sizeof run.protocol, "%s", s->protocol.name);
	snprintf(run.command, sizeof run.command, "%s", s->o->command);
	s->run = store_begin_run(s->store, &run);
	return s->run > 0;
}

struct newest {
	const struct sweep_state *s;
	int is_this;
};

static int compare_newest(void *arg, int columns, const char *const *names,
			  const char *const *cells)
{
	struct newest *n = arg;
	const struct device_info *mine = &n->s->hello.info;
	char units[16];
	(void)columns, (void)names;
	snprintf(units, sizeof units, "%d", mine->units);
	n->is_this = cells[0] && !strcmp(cells[0], mine->name) && !strcmp(cells[1], mine->arch) &&
		     !strcmp(cells[2], units) && !strcmp(cells[3], n->s->protocol.name);
	return 0;
}

/* Whether the newest measurement of a device of this short name is of this device. */
static int is_newest_device(const struct sweep_state *s)
{
	struct newest n = { .s = s };
	char sql[400];
	snprintf(sql, sizeof sql,
		 "SELECT d.name, d.arch, d.units, r.protocol FROM measurement AS m "
		 "JOIN run AS r ON r.id = m.run JOIN device AS d ON d.id = r.device "
		 "WHERE d.gpu = '%s' ORDER BY r.id DESC LIMIT 1",
		 s->hello.info.gpu);
	return store_query(s->store, sql, compare_newest, &n) && n.is_this;
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

static int keep(struct sweep_state *s, const struct heat *h, int i, const struct measurement *m)
{
	const struct entrant *e = &s->heats.entrant[h->entrant[i]];
	h->us[i] = m->outcome == OUTCOME_OK ? m->median_us : INFINITY;
	h->stored[i] = 1;
	if (m->outcome == OUTCOME_OK)
		s->measured++;
	else
		s->failed[m->outcome]++;
	if (store_measurement(s->store, s->run, scenario_of(s, h), h->phase, &e->choice, e->flags,
			      m, e->registers, e->spill_bytes))
		return 1;
	s->store_broken = 1;
	return 0;
}

/* ---- listening to the worker ---------------------------------------------------- */

static int on_result(void *arg, const struct heat *h, int i, const struct measurement *m,
		     int failed_gate)
{
	struct sweep_state *s = arg;
	if (failed_gate && m->outcome != OUTCOME_RESOURCES)
		*barred_at(s, h->entrant[i], h->shape) = (char)m->outcome;
	return keep(s, h, i, m);
}

static void on_passed(void *arg, const struct heat *h, int i)
{
	const struct sweep_state *s = arg;
	*gated_at(s, h->entrant[i], h->phase) = 1;
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
static int refuse(struct sweep_state *s, const struct heat *h, int i)
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

/* Those that have to run: not stored, with the reference in front even if it is. */
static int entry_list(struct sweep_state *s, const struct heat *h, int *place)
{
	int n = heats_select(&s->heats, h, s->o->exhaustive || s->o->preset == PRESET_SMOKE, place);
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

static enum heard run_heat(struct sweep_state *s, int index, double seconds)
{
	struct heat *h = &s->heats.v[index];
	const struct listener listener = {
		.arg = s, .result = on_result, .passed = on_passed, .beat = on_heartbeat
	};
	int *place = calloc((size_t)h->n, sizeof *place);
	char *gated = calloc((size_t)h->n, 1);
	enum heard heard = HEARD_ALL;
	int n = place && gated ? entry_list(s, h, place) : -1;
	for (int k = 0; k < n; k++)
		gated[k] = *gated_at(s, h->entrant[place[k]], h->phase);
	struct order order = { .heat = index,
			       .n = n,
			       .place = place,
			       .gated = gated,
			       .seconds = seconds,
			       .seed = s->o->seed + (unsigned)index };
	if (n > 0)
		heard = worker_race(s->worker, &order, &listener);
	else if (n < 0)
		heard = HEARD_STOP;
	free(place);
	free(gated);
	if (heard == HEARD_ALL)
		h->finished = 1;
	return heard;
}

/* ---- the loop ------------------------------------------------------------------- */

static int left_to_do(const struct sweep_state *s)
{
	int n = 0;
	for (int i = 0; i < s->heats.n; i++)
		n += !s->heats.v[i].finished;
	return n;
}

static enum heard run_all(struct sweep_state *s)
{
	enum heard heard = HEARD_ALL;
	for (int i = 0; i < s->heats.n; i++) {
		struct heat *h = &s->heats.v[i];
		const double left = s->o->budget_s - (now() - s->began);
		if (!h->finished || s->o->exhaustive) {
			if (left <= 0)
				break;
			const double share = 2 * left / fmax(left_to_do(s), 1);
			heard = run_heat(s, i, fmin(fmax(share, 0.2), s->protocol.seconds));
		}
		if (heard == HEARD_NOTHING) {
			complain("%s %s is left out: %s", scenario_of(s, h)->model,
				 scenario_of(s, h)->batch_text, worker_text(s->worker));
			s->skipped_heats++;
		} else if (heard != HEARD_ALL) {
			break;
		}
		s->heats_done++;
	}
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

static void summary(const struct sweep_state *s, enum heard heard)
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
	const int left = left_to_do(s) - s->skipped_heats;
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

static int make_heats(struct sweep_state *s, const struct scenario_list *list)
{
	const struct field field = { .device = &s->hello.info,
				     .preset = s->o->preset,
				     .kernels = s->o->kernels,
				     .seed = s->o->seed };
	s->heats.scenarios = list->v;
	s->binaries.arch = s->hello.info.arch;
	for (int i = s->o->shard; i < list->n; i += s->o->shards)
		if (!heats_add(&s->heats, &s->binaries, i, &field))
			return 0;
	heats_spread(&s->heats);
	s->gated = calloc((size_t)s->heats.num_entrants + 1, 3);
	s->barred = calloc((size_t)s->heats.num_entrants + 1, (size_t)s->heats.num_shapes + 1);
	return s->gated && s->barred;
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
	if (!left_to_do(s) && !s->o->exhaustive) {
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
	return interrupted ? EXIT_INTERRUPTED : code;
}
