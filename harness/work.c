/* work.c - the life of a worker: opens the device, and for each task makes the
 * scenario's buffers, loads code, has it checked, races it, and says what it found.
 * Before anything that may not come back it says what it is about to do. */
#include "work.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHECK_ROWS = 64, WORKLOAD_ROWS = 8, CEILING_TRIES = 5 };
/* Looking at larger outputs takes longer than a race: only of those who stay in it. */
enum { SMALL_OUTPUT = 16 << 20 };

struct runner {
	struct choice choice;
	const struct loaded *loaded;
	struct life *life;
	int place, checked; /* checked: on this workload */
};

struct life {
	const struct worker_setup *setup;
	int socket;
	struct device dev;
	double dram_gbps, fma_tflops; /* the best seen: no kernel beats them by much */
	struct loaded *loaded;        /* by entrant; code NULL: not yet */
	struct pool *pool, *check_pool;
	struct workload workload;
	int made; /* its scenario, -1: none */
	void *workspace;
	size_t workspace_bytes;
	/* of the task under way */
	const struct heat *heat;
	const struct scenario *scenario;
	int *place;
	char *gated;
	struct runner *runner;
	struct racer *racer;
	int num_racers;
};

/* ---- saying --------------------------------------------------------------------- */

static void say(const struct life *l, struct said *said)
{
	said->bytes = sizeof *said;
	if (!work_send(l->socket, said, sizeof *said))
		_exit(0); /* the parent is gone */
}

static void say_stage(const struct life *l, int place, double seconds)
{
	struct said said = { .word = SAYS_STAGE, .place = place, .patience_s = seconds };
	say(l, &said);
}

static void say_result(const struct life *l, int place, const struct measurement *m,
		       int failed_gate)
{
	struct said said = { .word = SAYS_RESULT, .place = place };
	said.result.failed_gate = failed_gate;
	said.result.m = *m;
	say(l, &said);
}

static void say_failure(const struct life *l, int place, enum outcome outcome, const char *text)
{
	struct measurement m = { .outcome = outcome };
	snprintf(m.detail, sizeof m.detail, "%s", text);
	say_result(l, place, &m, 1);
}

/* After a device error nothing that this process measures can be trusted. */
static void die_of(const struct life *l, int place, const char *text)
{
	say_failure(l, place, OUTCOME_CRASH, text);
	_exit(1);
}

/* ---- the device ----------------------------------------------------------------- */

static void measure_ceilings(struct life *l, double *dram_gbps, double *fma_tflops)
{
	double dram[CEILING_TRIES], fma[CEILING_TRIES];
	*dram_gbps = *fma_tflops = 0;
	if (l->dev.info.backend != BACKEND_CPU) {
		if (gpu_ceilings(&l->dev, dram_gbps, fma_tflops))
			complain("%s: no ceilings: %s", l->dev.info.gpu, attune_last_error());
		l->dram_gbps = *dram_gbps;
		l->fma_tflops = *fma_tflops;
		return;
	}
	for (int i = 0; i < CEILING_TRIES; i++) {
		dram[i] = cpu_dram_gbps(&l->dev);
		fma[i] = cpu_fma_gflops(&l->dev) / 1e3;
		l->dram_gbps = fmax(l->dram_gbps, dram[i]);
		l->fma_tflops = fmax(l->fma_tflops, fma[i]);
	}
	*dram_gbps = median(dram, CEILING_TRIES);
	*fma_tflops = median(fma, CEILING_TRIES);
}

static void say_hello(struct life *l)
{
	struct said said = { .word = SAYS_HELLO, .place = -1 };
	struct hello *hello = &said.hello;
	hello->status = device_open(&l->dev, l->setup->device);
	if (hello->status) {
		snprintf(hello->text, sizeof hello->text, "%s", attune_last_error());
	} else {
		hello->info = l->dev.info;
		measure_ceilings(l, &hello->dram_gbps, &hello->fma_tflops);
	}
	say(l, &said);
	if (hello->status)
		_exit(0);
}

/* ---- what a call costs at least --------------------------------------------------- */

static double part_bytes(const struct life *l)
{
	const attune_shape *s = &l->scenario->shape;
	return 2.0 * (double)part_live_keys(s, &l->scenario->batch->view, l->heat->phase) *
	       s->num_kv_heads * s->head_size * dtype_bytes(s->kv_dtype);
}

static double part_flops(const struct life *l)
{
	const attune_shape *s = &l->scenario->shape;
	return 4.0 * (double)part_pairs(s, &l->scenario->batch->view, l->heat->phase) *
	       s->head_size * s->num_query_heads;
}

/* Microseconds below which the ceilings do not let it; 0 where they are not known. KV
 * that the last cache holds is not bound by memory. */
static double bound_us(const struct life *l)
{
	const double bytes = part_bytes(l), flops = part_flops(l);
	double us = 0;
	if (l->dram_gbps > 0 && bytes * l->workload.sets > 1.5 * (double)l->dev.info.l2_bytes)
		us = bytes / l->dram_gbps / 1e3;
	if (l->fma_tflops > 0)
		us = fmax(us, flops / l->fma_tflops / 1e6);
	return us;
}

/* Seconds that even a very slow kernel needs no more than. */
static double slow_call_s(const struct life *l)
{
	const int cpu = l->dev.info.backend == BACKEND_CPU;
	return part_flops(l) / (cpu ? 5e8 : 5e10) + part_bytes(l) / (cpu ? 1e8 : 1e10);
}

/* ---- preparing a task ------------------------------------------------------------- */

static enum attune_status make_workload(struct life *l, int scenario)
{
	enum attune_status status;
	if (l->made == scenario)
		return ATTUNE_OK;
	if (l->made >= 0)
		workload_free(&l->workload);
	l->made = -1;
	status = workload_make(&l->workload, &l->dev, &l->pool, l->scenario, WORKLOAD_TIMED,
			       l->setup->protocol.cold_bytes);
	if (!status)
		l->made = scenario;
	return status;
}

static enum attune_status reserve(struct life *l, const struct choice *c)
{
	size_t bytes;
	enum attune_status status =
	    choice_workspace(&l->dev, c, l->scenario, l->heat->phase, &bytes);
	if (status || bytes <= l->workspace_bytes)
		return status;
	if (l->workspace)
		l->dev.ops->release(&l->dev, l->workspace);
	l->workspace = NULL;
	l->workspace_bytes = 0;
	status = l->dev.ops->alloc(&l->dev, &l->workspace, bytes);
	if (!status)
		l->workspace_bytes = bytes;
	return status;
}

static enum attune_status load(struct life *l, int entrant)
{
	const struct entrant *e = &l->setup->heats->entrant[entrant];
	struct loaded *to = &l->loaded[entrant];
	enum attune_status status = ATTUNE_OK;
	if (!to->code)
		status = l->dev.ops->load(&l->dev, &to->code, e->blob);
	if (!status && e->merging && !to->reduce)
		status = l->dev.ops->load(&l->dev, &to->reduce, e->merging);
	return status ? status : reserve(l, &e->choice);
}

/* The scenario of this model with a corner batch in place of its own; 0 when the
 * choice has nothing to do there or does not support it. */
static int corner_scenario(const struct life *l, struct scenario *s, const struct choice *c,
			   const char *text)
{
	char error[128];
	struct part part;
	*s = *l->scenario;
	s->batch_text = (char *)(uintptr_t)text;
	s->batch = batch_parse(text, error, sizeof error);
	if (s->batch &&
	    part_make(&part, l->heat->phase, &s->shape, &s->batch->view, &l->dev.info) &&
	    !c->kernel->space->why_illegal(&c->config, &s->shape, &part, &l->dev.info))
		return 1;
	batch_free(s->batch);
	return 0;
}

/* 0: it failed, and that is said here. */
static int judge(struct life *l, int place, const struct verdict *v, const char *batch)
{
	char text[sizeof v->text + 80];
	snprintf(text, sizeof text, "%.70s: %s", batch, v->text);
	if (v->outcome == OUTCOME_CRASH)
		die_of(l, place, text);
	if (v->outcome != OUTCOME_OK)
		say_failure(l, place, v->outcome, text);
	return v->outcome == OUTCOME_OK;
}

static int pass_gate(struct life *l, int place)
{
	const int entrant = l->heat->entrant[place];
	const struct choice *c = &l->setup->heats->entrant[entrant].choice;
	struct said said = { .word = SAYS_PASSED, .place = place };
	for (int i = 0; corner_batches[i]; i++) {
		struct scenario s;
		struct verdict v = { .outcome = OUTCOME_OK };
		if (!corner_scenario(l, &s, c, corner_batches[i]))
			continue;
		say_stage(l, place, l->setup->gate_s);
		check_choice(&v, &l->dev, &l->check_pool, c, &l->loaded[entrant], &s,
			     l->heat->phase, CHECK_ROWS);
		batch_free(s.batch);
		if (!judge(l, place, &v, corner_batches[i]))
			return 0;
	}
	say(l, &said);
	return 1;
}

/* Some rows of the very workload that is timed. */
static int pass_workload(struct life *l, int place, struct verdict *v)
{
	const int entrant = l->heat->entrant[place];
	const struct choice *c = &l->setup->heats->entrant[entrant].choice;
	*v = (struct verdict){ .outcome = OUTCOME_OK };
	say_stage(l, place, l->setup->gate_s + slow_call_s(l));
	check_workload(v, &l->workload, c, &l->loaded[entrant], l->heat->phase, WORKLOAD_ROWS);
	return v->outcome == OUTCOME_OK;
}

/* ---- the race --------------------------------------------------------------------- */

static enum attune_status call(void *arg, int set)
{
	const struct runner *r = arg;
	struct life *l = r->life;
	return choice_launch(&l->dev, &r->choice, r->loaded, &l->workload, set, l->heat->phase,
			     l->workspace, l->workspace_bytes);
}

static void before(void *arg, int i, double seconds)
{
	const struct life *l = arg;
	double longest = seconds > 0 ? 20 * seconds : slow_call_s(l);
	say_stage(l, l->runner[i].place, l->setup->sample_s + longest);
}

static void after(void *arg, int i)
{
	struct life *l = arg;
	const struct measurement *m = &l->racer[i].m;
	const int place = l->runner[i].place;
	struct verdict v;
	if (m->outcome == OUTCOME_OK && strcmp(m->stopped, "slow") && !l->runner[i].checked &&
	    !pass_workload(l, place, &v))
		judge(l, place, &v, "as timed");
	else
		say_result(l, place, m, m->outcome != OUTCOME_OK);
}

static int right(void *arg, int i)
{
	struct life *l = arg;
	struct verdict v;
	return pass_workload(l, l->runner[i].place, &v);
}

static int enter(struct life *l, int i, int gated)
{
	const int place = l->place[i], entrant = l->heat->entrant[place];
	const int small = l->workload.out_bytes <= SMALL_OUTPUT;
	enum attune_status status;
	struct verdict v;
	say_stage(l, place, l->setup->gate_s);
	status = load(l, entrant);
	if (status) {
		say_failure(l, place, OUTCOME_RESOURCES, attune_last_error());
		return 0;
	}
	if (!gated && !pass_gate(l, place))
		return 0;
	if (small && !pass_workload(l, place, &v))
		return judge(l, place, &v, "as timed");
	l->runner[l->num_racers] =
	    (struct runner){ .choice = l->setup->heats->entrant[entrant].choice,
			     .loaded = &l->loaded[entrant],
			     .life = l,
			     .place = place,
			     .checked = small };
	l->racer[l->num_racers] = (struct racer){ .call = call,
						  .arg = &l->runner[l->num_racers],
						  .bytes = part_bytes(l),
						  .flops = part_flops(l),
						  .bound_us = bound_us(l) };
	l->num_racers++;
	return 1;
}

static void run_task(struct life *l, const struct task *t)
{
	struct protocol protocol = l->setup->protocol;
	struct race race = { .protocol = &protocol,
			     .v = l->racer,
			     .seed = t->seed,
			     .arg = l,
			     .before = before,
			     .after = after,
			     .right = right };
	struct said said = { .word = SAYS_DONE, .place = -1 };
	double dram, fma;
	say_stage(l, -1, 60 + slow_call_s(l));
	if (make_workload(l, l->heat->scenario)) {
		said.word = SAYS_CANNOT;
		snprintf(said.text, sizeof said.text, "%s", attune_last_error());
		say(l, &said);
		return;
	}
	measure_ceilings(l, &dram, &fma);
	l->num_racers = 0;
	for (int i = 0; i < t->n; i++)
		enter(l, i, l->gated[i]);
	protocol.seconds = t->seconds;
	race.n = l->num_racers;
	race.sets = l->workload.sets;
	if (l->num_racers && measure_race(&l->dev, &race))
		_exit(1);
	say(l, &said);
}

static int take_task(struct life *l, const struct task *t)
{
	const size_t n = (size_t)t->n;
	int ok;
	l->heat = &l->setup->heats->v[t->heat];
	l->scenario = &l->setup->heats->scenarios[l->heat->scenario];
	l->place = calloc(n, sizeof *l->place);
	l->gated = calloc(n, 1);
	l->runner = calloc(n, sizeof *l->runner);
	l->racer = calloc(n, sizeof *l->racer);
	ok = l->place && l->gated && l->runner && l->racer &&
	     work_receive(l->socket, l->place, n * sizeof *l->place) &&
	     work_receive(l->socket, l->gated, n);
	if (ok)
		run_task(l, t);
	free(l->place);
	free(l->gated);
	free(l->runner);
	free(l->racer);
	return ok;
}

/* Ends when the parent closes its end; memory and device go with the process. */
void work(const struct worker_setup *setup, int socket)
{
	struct life l = { .setup = setup, .socket = socket, .made = -1 };
	struct task task;
	say_hello(&l);
	if (setup->heats)
		l.loaded = calloc((size_t)setup->heats->num_entrants + 1, sizeof *l.loaded);
	while (l.loaded && work_receive(socket, &task, sizeof task) && task.bytes == sizeof task &&
	       take_task(&l, &task))
		;
	_exit(0);
}
