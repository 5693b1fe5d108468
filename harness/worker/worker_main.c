/* SPDX-License-Identifier: Apache-2.0 */
/* worker_main.c - the main function of a worker: opens the device, and for each task makes the
 * scenario's buffers, loads the code, checks it, races it and reports results. It reports a stage
 * before any work that may hang or crash. */
#include "harness/scenario/scenario.h"
#include "records.h"
#include "worker.h"
#include "harness/base/base.h"
#include "harness/ceilings/ceilings.h"
#include "harness/check/check.h"
#include "harness/compile/compile.h"
#include "harness/measure/measure.h"
#include "harness/plugin/plugin.h"
#include "harness/search/search.h"
#include "kernels/launch/run.h"
#include "kernels/spec/kernel.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Checking an output takes longer than timing it. A choice is checked the first time that it
 * runs; after that in one of LOOK_ODDS races beforehand, if the output is small; and after the
 * race whenever its time is within `finalist` of the winner's. */
enum { CEILING_TRIES = 5, LOOK_ODDS = 16, SMALL_OUTPUT = 16 << 20 };
/* Added to the time limit of a load that may compile: a binary that did not load, or a plug-in, since
 * Python packages compile their kernels at the first call. A generous guess: it only ends a hang. */
enum { COMPILE_S = 240 };
/* Loading and checking may take this share of a race's time. The most promising contenders come
 * first: SURE_TO_ENTER of them race in any case. The others race later if no time is left. */
enum { SURE_TO_ENTER = 4 };
static const double entering = 0.6, entering_s = 1.5 /* but at least this long */;
static const double finalist = 1.05, finalist_large = 1.01;

/* ---- where the time goes ----------------------------------------------------- */

/* Adds the seconds since *at, and sets *at to now. */
static void spend(struct worker_state *l, enum spent what, double *at)
{
	const double t = seconds_now();
	l->spent_s[what] += t - *at;
	*at = t;
}

/* ---- the device ----------------------------------------------------------------- */

/* Sets *dram_gbps and *fma_tflops, to 0 where not measured. On a CPU: medians of `tries`
 * measurements. On a GPU: measured once, at the start; its bounds come from the data sheet. */
static void measure_ceilings(struct worker_state *l, int tries, double *dram_gbps,
			     double *fma_tflops)
{
	double dram[CEILING_TRIES], fma[CEILING_TRIES];
	int drams = 0, fmas = 0;
	const struct gpu_model *sheet = gpu_model(l->dev.info.gpu);
	if (sheet) {
		l->dram_gbps = sheet->dram_gbps;
		l->fma_tflops = sheet->tflops;
	}
	for (int i = 0; i < tries && l->dev.info.backend == BACKEND_CPU; i++) {
		dram[drams] = cpu_dram_gbps(&l->dev);
		fma[fmas] = cpu_fma_gflops(&l->dev) / 1e3;
		l->dram_gbps = fmax(l->dram_gbps, dram[drams]);
		l->fma_tflops = fmax(l->fma_tflops, fma[fmas]);
		drams += dram[drams] > 0;
		fmas += fma[fmas] > 0;
	}
	*dram_gbps = drams ? median(dram, drams) : 0;
	*fma_tflops = fmas ? median(fma, fmas) : 0;
	if (l->dev.info.backend == BACKEND_GPU && tries == CEILING_TRIES &&
	    !device_is_emulated(&l->dev.info) && gpu_ceilings(&l->dev, dram_gbps, fma_tflops))
		complain("%s: no ceilings: %s", l->dev.info.gpu, attune_last_error());
	if (l->dev.info.backend == BACKEND_CPU && tries == CEILING_TRIES && !(drams && fmas))
		complain("%s: no ceilings: other programs kept the CPU busy", l->dev.info.gpu);
}

static void report_hello(struct worker_state *l)
{
	struct message message = { .kind = MESSAGE_HELLO, .index = -1 };
	struct hello *hello = &message.hello;
	hello->status = sensors_open(&l->dev, l->setup->device);
	if (hello->status) {
		snprintf(hello->text, sizeof hello->text, "%s", attune_last_error());
	} else {
		hello->info = l->dev.info;
		if (l->dev.ops->use)
			l->dev.ops->use(&l->dev, &hello->use);
		hello->dram_gbps = l->dram_gbps = l->setup->dram_gbps;
		hello->fma_tflops = l->fma_tflops = l->setup->fma_tflops;
		if (!l->setup->no_ceilings)
			measure_ceilings(l, CEILING_TRIES, &hello->dram_gbps, &hello->fma_tflops);
	}
	report_message(l, &message);
	if (hello->status)
		_exit(0);
}

/* ---- lower bound of a call -------------------------------------------------------- */

static enum phase phase_of(const struct launcher *r)
{
	return r->parts != 1 ? PHASE_ALL : r->contender->phase;
}

/* Lower bound by the ceilings, in microseconds; 0 where they are not known. KV that fits in the
 * last-level cache is not bound by memory. */
static double bound_us(const struct worker_state *l, double bytes, double flops)
{
	double us = 0;
	if (l->dram_gbps > 0 && bytes * l->workload.sets > 1.5 * (double)l->dev.info.l2_bytes)
		us = bytes / l->dram_gbps / 1e3;
	if (l->fma_tflops > 0)
		us = fmax(us, flops / l->fma_tflops / 1e6);
	return us;
}

/* ---- preparing a task ------------------------------------------------------------- */

static enum attune_status make_workload(struct worker_state *l, int scenario)
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

static enum attune_status reserve(struct worker_state *l, struct launcher *r)
{
	size_t part[2];
	enum attune_status status = ATTUNE_OK;
	for (int i = 0; i < r->parts && !status; i++)
		status = choice_reserve(&l->dev, contender_choice(r->contender, i), r->loaded[i],
					&l->workload, contender_phase(r->contender, i), &part[i],
					&r->plan_us[i]);
	if (status)
		return status;
	return launcher_room(l, parts_workspace(r->contender->how, part, r->parts, r->at));
}

/* A binary that does not load may be damaged in the cache, so it is compiled again, once. */
static enum attune_status load_code(struct worker_state *l, int index, struct code **code,
				    int built, const struct choice *c)
{
	char flags[MAX_FLAGS];
	const enum attune_status status = l->dev.ops->load(&l->dev, code, &l->code[built]);
	if (!status || l->compiled_again[built])
		return status;
	l->compiled_again[built] = 1;
	report_stage(l, index, l->setup->gate_s + COMPILE_S);
	binary_flags(flags, sizeof flags, c->kernel, &c->config, &l->scenario->shape);
	return jit_load(&l->dev, code, NULL, c->kernel, flags);
}

static enum attune_status load(struct worker_state *l, const struct contender *contender, int part)
{
	const struct built_choice *e = contender_built(l->setup->problems, contender, part);
	struct loaded *to = &l->loaded[e->built];
	const int index = contender->index;
	enum attune_status status = ATTUNE_OK;
	if (e->choice.kernel->plugin && !to->plugin)
		status = plugin_op_open(&to->plugin, &l->dev, &e->choice, &l->scenario->shape);
	else if (!to->code && !to->plugin)
		status = load_code(l, index, &to->code, e->built, &e->choice);
	for (enum helper h = 0; !status && h < NUM_HELPERS; h++) {
		struct choice c = { .kernel = kernel_helper(e->choice.kernel->backend, h) };
		if (e->helper[h] < 0 || to->helper[h])
			continue;
		config_default(&c.config, c.kernel->space);
		status = load_code(l, index, &to->helper[h], e->helper[h], &c);
	}
	return status;
}

static enum attune_status load_all(struct worker_state *l, struct launcher *r)
{
	enum attune_status status = ATTUNE_OK;
	for (int i = 0; i < r->parts && !status; i++)
		status = load(l, r->contender, i);
	return status ? status : reserve(l, r);
}

/* ---- the race --------------------------------------------------------------------- */

static void before(void *arg, int i, double seconds)
{
	const struct worker_state *l = arg;
	double longest = seconds > 0 ? 20 * seconds : launcher_slow_s(l);
	report_stage(l, l->launcher[i].contender->index, l->setup->sample_s + longest);
}

/* What planning a batch took, which no time of a call includes, is kept beside it. */
static void report_time(const struct worker_state *l, const struct launcher *r,
			const struct measurement *m, int is_right)
{
	struct measurement out = *m;
	const double us = r->plan_us[0] + r->plan_us[1];
	if (m->outcome == OUTCOME_OK && us > 0)
		snprintf(out.detail, sizeof out.detail, "planned in %.1f us", us);
	report_result(l, r->contender->index, &out, !is_right);
}

static void after(void *arg, int i)
{
	struct worker_state *l = arg;
	struct launcher *r = &l->launcher[i];
	const struct measurement *m = &l->timed_call[i].m;
	struct verdict v;
	const double limit = l->workload.out_bytes > SMALL_OUTPUT ? finalist_large : finalist;
	const int is_right = m->outcome == OUTCOME_OK || m->outcome == OUTCOME_NOISY;
	if (is_right && m->samples && !(m->lead > limit) && !r->checked &&
	    !check_timed_workload(l, r, &v))
		r->was_wrong = !report_verdict(l, r->contender->index, &v, "as timed");
	else
		report_time(l, r, m, is_right);
}

static int right(void *arg, int i)
{
	struct worker_state *l = arg;
	struct verdict v;
	return check_timed_workload(l, &l->launcher[i], &v);
}

static void fill_launcher(struct launcher *r, struct worker_state *l, const struct contender *c)
{
	*r = (struct launcher){ .state = l, .contender = c, .parts = contender_parts(c) };
	for (int i = 0; i < r->parts; i++)
		r->loaded[i] = &l->loaded[contender_built(l->setup->problems, c, i)->built];
}

static int looks_at(const struct worker_state *l, unsigned long long seed, int index)
{
	return scramble(seed * 0x9e3779b97f4a7c15ull + (unsigned)(index + l->made)) % LOOK_ODDS ==
	       0;
}

/* A plug-in may compile itself when it is loaded, or at its first call in `store`. */
static double compile_s(const struct launcher *r)
{
	int fresh = 0;
	for (int i = 0; i < r->parts; i++)
		fresh |= contender_choice(r->contender, i)->kernel->plugin && !r->loaded[i]->plugin;
	return fresh ? COMPILE_S : 0;
}

/* ---- entering --------------------------------------------------------------------------- */
/* Loads and checks a contender. It takes part if it is right so far. */
static void enter(struct worker_state *l, const struct contender *c, unsigned long long seed)
{
	struct launcher *r = &l->launcher[l->num_contenders];
	struct verdict v;
	fill_launcher(r, l, c);
	r->checked =
	    l->workload.out_bytes <= SMALL_OUTPUT && (!c->passed || looks_at(l, seed, c->index));
	double at = seconds_now();
	report_stage(l, c->index, l->setup->gate_s + compile_s(r));
	const enum attune_status loaded = c->is_library ? library_plan(r) : load_all(l, r);
	spend(l, SPENT_UPLOADING, &at);
	if (loaded) {
		report_failure(l, c->index, OUTCOME_RESOURCES, attune_last_error());
		return;
	}
	if (c->is_library && library_is_over(l, r))
		return;
	const int passed = r->parts != 1 || check_corner_batches(l, r);
	const int is_right = passed && (!r->checked || check_timed_workload(l, r, &v));
	spend(l, SPENT_CHECKING, &at);
	if (passed && !is_right)
		report_verdict(l, c->index, &v, "as timed");
	if (!is_right)
		return;
	const double bytes = launcher_bytes(l, phase_of(r)), flops = launcher_flops(l, phase_of(r));
	l->timed_call[l->num_contenders++] =
	    (struct timed_call){ .call = launcher_call,
				 .arg = r,
				 .bytes = bytes,
				 .flops = flops,
				 .bound_us = bound_us(l, bytes, flops) };
}

static void report_control(const struct worker_state *l, const struct control *control)
{
	struct message message = { .kind = MESSAGE_CONTROL, .control = *control };
	const enum outcome outcome = l->timed_call[control->of].m.outcome;
	if (!(control->rounds > 0 && control->ratio > 0) ||
	    (outcome != OUTCOME_OK && outcome != OUTCOME_NOISY))
		return;
	message.index = l->launcher[control->of].contender->index;
	report_message(l, &message);
}

/* All contenders enter a race of fixed rounds. */
static int may_enter(const struct order *t, int i, double seconds)
{
	return t->fixed_rounds || i < SURE_TO_ENTER ||
	       seconds < fmax(entering * t->seconds, entering_s);
}

static void run_order(struct worker_state *l, const struct order *t)
{
	struct protocol protocol = l->setup->protocol;
	struct race race = { .protocol = &protocol,
			     .v = l->timed_call,
			     .seed = t->seed,
			     .arg = l,
			     .before = before,
			     .after = after,
			     .right = right };
	struct message message = { .kind = MESSAGE_DONE, .index = -1 };
	struct control control = { 0 };
	const int scenario = t->v[0].scenario;
	double dram, fma, at = seconds_now();
	const double began = budget_now();
	memset(l->spent_s, 0, sizeof l->spent_s);
	l->scenario = &l->setup->problems->scenarios[scenario];
	report_stage(l, -1, 60 + launcher_slow_s(l));
	if (make_workload(l, scenario)) {
		message.kind = MESSAGE_IMPOSSIBLE;
		snprintf(message.text, sizeof message.text, "%.190s", attune_last_error());
		report_message(l, &message);
		return;
	}
	measure_ceilings(l, 1, &dram, &fma);
	spend(l, SPENT_UPLOADING, &at);
	l->num_contenders = l->num_alike = 0;
	for (int i = 0; i < t->n && may_enter(t, i, budget_now() - began); i++)
		enter(l, &t->v[i], t->seed);
	protocol.seconds = fmax(t->seconds - (budget_now() - began), (1 - entering) * t->seconds);
	race.n = l->num_contenders;
	race.sets = l->workload.sets;
	race.fixed_rounds = t->fixed_rounds;
	race.control = t->with_control ? &control : NULL;
	at = seconds_now();
	if (l->num_contenders && measure_race(&l->dev, &race))
		_exit(1);
	spend(l, SPENT_RACING, &at);
	report_control(l, &control);
	library_report_alike(l);
	memcpy(message.spent_s, l->spent_s, sizeof message.spent_s);
	report_message(l, &message);
}

/* NULL: n is 0, or failed. */
static void *receive_bytes(struct worker_state *l, size_t n, int *ok)
{
	void *bytes = n && *ok ? malloc(n) : NULL;
	*ok = *ok && (!n || (bytes && pipe_receive(l->socket, bytes, n)));
	return bytes;
}

static int take_code(struct worker_state *l)
{
	struct code_record r;
	int ok = pipe_receive(l->socket, &r, sizeof r) && r.built >= 0 && r.built < l->num_codes;
	if (!ok)
		return 0;
	struct blob *b = &l->code[r.built];
	b->data = receive_bytes(l, r.size, &ok);
	b->size = r.size;
	b->path = receive_bytes(l, r.path, &ok);
	b->entry = receive_bytes(l, r.entry, &ok);
	b->cell = r.cell;
	return ok;
}

static int take_task(struct worker_state *l, struct task *t)
{
	const size_t n = (size_t)t->order.n;
	int ok;
	t->order.v = calloc(n, sizeof *t->order.v);
	l->launcher = calloc(n, sizeof *l->launcher);
	l->timed_call = calloc(n, sizeof *l->timed_call);
	l->alike = calloc(n, sizeof *l->alike);
	ok = n && t->order.v && l->launcher && l->timed_call && l->alike &&
	     pipe_receive(l->socket, t->order.v, n * sizeof *t->order.v);
	for (int i = 0; i < t->codes && ok; i++)
		ok = take_code(l);
	if (ok)
		run_order(l, &t->order);
	free(t->order.v);
	free(l->launcher);
	free(l->timed_call);
	free(l->alike);
	return ok;
}

/* Exits when the parent closes its end; the exit frees memory and device. */
void worker_main(const struct worker_setup *setup, int socket)
{
	struct worker_state l = { .setup = setup, .socket = socket, .made = -1 };
	struct task task;
	report_hello(&l);
	l.num_codes = worker_binaries(setup->problems);
	if (setup->problems) {
		l.loaded = calloc((size_t)l.num_codes, sizeof *l.loaded);
		l.code = calloc((size_t)l.num_codes, sizeof *l.code);
		l.compiled_again = calloc((size_t)l.num_codes, 1);
	}
	l.passed = calloc((size_t)l.num_codes, 3);
	while (l.loaded && l.code && l.compiled_again && l.passed &&
	       pipe_receive(socket, &task, sizeof task) && task.bytes == sizeof task &&
	       take_task(&l, &task))
		;
	_exit(0);
}
