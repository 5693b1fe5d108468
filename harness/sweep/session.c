/* SPDX-License-Identifier: Apache-2.0 */
/* session.c - a sweep session: makes and frees it, begins its run in the database, keeps its
 * clock, remembers which choices passed the corner batches, and gets the code of its races. */
#include "session.h"
#include "harness/base/base.h"
#include "harness/compile/compile.h"
#include "harness/measure/measure.h"
#include "harness/scenario/scenario.h"
#include "harness/search/search.h"
#include "harness/store/store.h"
#include "harness/worker/worker.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const double generous = 1.5 /* most races end before their time */;

const struct scenario *session_scenario(const struct sweep_session *session,
					const struct problem *problem)
{
	return &session->problems.scenarios[problem->scenario];
}

char *session_passed(const struct sweep_session *session, int built_choice, enum phase phase)
{
	return &session->passed[built_choice * 3 + (int)phase];
}

char *session_excluded(const struct sweep_session *session, int built_choice, int shape)
{
	return &session->excluded[(size_t)built_choice * (size_t)session->problems.num_shapes +
				  (size_t)shape];
}

double session_seconds(const struct sweep_session *session)
{
	return budget_now() - session->began - (session->o->wall ? 0 : session->binaries.budget_s);
}

double session_share(const struct sweep_session *session, double part)
{
	const double left = session->limit_s - session_seconds(session);
	return left <= 0 ? 0 : fmin(fmax(generous * left * part, 0.2), session->protocol.seconds);
}

/* ---- the database --------------------------------------------------------------- */

/* Upper bounds of any speed. A data sheet is preferred to a measurement. */
static void know_ceilings(struct sweep_session *session)
{
	const struct gpu_model *sheet = gpu_model(session->hello.info.gpu);
	session->problems.dram_gbps = sheet ? sheet->dram_gbps : session->hello.dram_gbps;
	session->problems.tflops = sheet ? sheet->tflops : session->hello.fma_tflops;
}

int session_begin_run(struct sweep_session *session)
{
	if (session->run > 0 || !session->store)
		return 1;
	session->refused = device_ready(session->o, &session->hello);
	if (session->refused)
		return 0;
	know_ceilings(session);
	session->run = provenance_run(session->store, &session->hello, &session->protocol,
				      session->o->command);
	return session->run > 0;
}

int session_wait_quiet(const struct sweep_session *session)
{
	const double left = session->limit_s - session_seconds(session);
	return left > 0 && !device_quiet(session->o, &session->hello, left);
}

int session_noisy(const struct sweep_session *session)
{
	int n = 0;
	for (int i = 0; i < session->problems.n; i++) {
		const struct problem *problem = &session->problems.v[i];
		n += problem->noisy_plans;
		for (int k = 0; k < problem->n; k++)
			n += problem->noisy[k];
	}
	return n;
}

int session_exit_code(const struct sweep_session *session, enum race_end end)
{
	if (end == RACE_NO_DEVICE)
		complain("%s", worker_text(session->worker));
	if (end == RACE_INTERRUPTED)
		complain("interrupted; all that was measured is kept, and the same command "
			 "goes on from here");
	return end == RACE_INTERRUPTED   ? EXIT_INTERRUPTED
	       : end == RACE_NO_DEVICE   ? EXIT_NO_DEVICE
	       : end == RACE_NO_COMPILER ? EXIT_USAGE
	       : end == RACE_STOPPED     ? (session->refused ? session->refused : EXIT_CHECK)
					 : EXIT_DONE;
}

/* ---- beginning and end ---------------------------------------------------------- */

int session_alloc(struct sweep_session *session)
{
	session->passed = calloc((size_t)session->problems.num_built_choices + 1, 3);
	session->excluded = calloc((size_t)session->problems.num_built_choices + 1,
				   (size_t)session->problems.num_shapes + 1);
	if (!session->passed || !session->excluded)
		complain("out of memory");
	return session->passed && session->excluded;
}

void session_pass(struct sweep_session *session, int built_choice, enum phase phase)
{
	*session_passed(session, built_choice, phase) = 1;
}

void session_trust(struct sweep_session *session)
{
	for (int i = 0; i < session->problems.n; i++) {
		const struct problem *problem = &session->problems.v[i];
		for (int k = 0; k < problem->n; k++)
			if (problem->stored[k] && problem->us[k] < INFINITY)
				session_pass(session, problem->built_choice[k], problem->phase);
	}
}

void session_make(struct sweep_session *session, const struct scenario_list *list)
{
	protocol_for(&session->protocol, &session->hello.info, preset_names[session->o->preset]);
	if (session->o->steady)
		protocol_steady(&session->protocol);
	snprintf(session->db, sizeof session->db, "results/%s%s.sqlite", session->hello.info.gpu,
		 session->o->steady ? "_steady" : "");
	if (session->o->db)
		snprintf(session->db, sizeof session->db, "%s", session->o->db);
	session->problems.scenarios = list->v;
	session->problems.device = session->hello.info;
	know_ceilings(session);
	session->binaries.arch = session->hello.info.arch;
	session->binaries.spare_cpu = session->hello.info.backend == BACKEND_GPU;
}

void session_sum(struct sweep_session *session, struct sweep_sum *sum)
{
	for (int s = 0; s < NUM_STAGES; s++) {
		sum->device_s += session->tally[s].device_s;
		sum->races += session->tally[s].races;
	}
	sum->ran_out |= session->ran_out;
	for (int i = 0; i < NUM_OUTCOMES; i++)
		sum->failed[i] += i == OUTCOME_OK ? 0 : session->failed[i];
	sum->measured += session->failed[OUTCOME_OK];
}

void session_free(struct sweep_session *session)
{
	worker_free(session->worker);
	store_close(session->store);
	problems_free(&session->problems);
	binaries_free(&session->binaries);
	free(session->passed);
	free(session->excluded);
}

/* ---- code -------------------------------------------------------------------------- */
static void attach(struct sweep_session *session, struct built_choice *e)
{
	const struct built *b = &session->binaries.v[e->built];
	e->blob = &b->binary.blob;
	e->flags = b->flags;
	e->registers = b->binary.registers;
	e->spill_bytes = b->binary.spill_bytes;
	for (enum helper h = 0; h < NUM_HELPERS; h++)
		if (e->helper[h] >= 0)
			e->helping[h] = &session->binaries.v[e->helper[h]].binary.blob;
}

/* Appends a choice's binaries to a list; returns its new length. */
static int add_needed(const struct built_choice *e, int *need, int n)
{
	need[n++] = e->built;
	for (enum helper h = 0; h < NUM_HELPERS; h++)
		if (e->helper[h] >= 0)
			need[n++] = e->helper[h];
	return n;
}

static int helpers_compile(const struct sweep_session *session, const struct built_choice *e)
{
	for (enum helper h = 0; h < NUM_HELPERS; h++) {
		const struct built *b =
		    e->helper[h] < 0 ? NULL : &session->binaries.v[e->helper[h]];
		if (b && b->status != BUILT) {
			complain("%s does not compile: %s", b->kernel->source, b->binary.log);
			return 0;
		}
	}
	return 1;
}

/* The codes of all parts of all contenders, each with room for helpers. NULL: no memory. */
static int *list_needed(const struct sweep_session *session, const struct order *order, int *n)
{
	int *need = calloc(2 * (size_t)order->n * (1 + NUM_HELPERS) + 1, sizeof *need);
	*n = 0;
	for (int i = 0; need && i < order->n; i++)
		for (int part = 0; part < contender_parts(&order->v[i]); part++)
			*n = add_needed(contender_built(&session->problems, &order->v[i], part),
					need, *n);
	return need;
}

enum race_end session_wait_for_code(struct sweep_session *session, const struct order *order)
{
	int n, *need = list_needed(session, order, &n);
	enum race_end end = need ? RACE_ENDED : RACE_STOPPED;
	if (need && !binaries_need(&session->binaries, need, n))
		end = interrupted                             ? RACE_INTERRUPTED
		      : binaries_too_late(&session->binaries) ? RACE_TOO_LATE
							      : RACE_NO_COMPILER;
	free(need);
	for (int i = 0; i < order->n && end == RACE_ENDED; i++)
		for (int part = 0; part < contender_parts(&order->v[i]); part++) {
			struct built_choice *e =
			    contender_built(&session->problems, &order->v[i], part);
			attach(session, e);
			if (!helpers_compile(session, e))
				end = RACE_STOPPED;
		}
	return end;
}

void session_ask(struct sweep_session *session, const struct order *order)
{
	int n, *need = list_needed(session, order, &n);
	for (int i = 0; need && i < n; i++)
		(void)binaries_ask(&session->binaries, need[i]);
	free(need);
}

static void on_idle(void *arg)
{
	binaries_poll(&((struct sweep_session *)arg)->binaries);
}

/* On a CPU no compiler runs during the race. */
enum race_end session_order(struct sweep_session *session, const struct order *order,
			    const struct listener *l)
{
	const int on_cpu = session->hello.info.backend == BACKEND_CPU;
	if (on_cpu)
		binaries_hold(&session->binaries, 1);
	const enum race_end end = worker_race(session->worker, order, l);
	if (on_cpu)
		binaries_hold(&session->binaries, 0);
	return end;
}

int session_start(struct sweep_session *session)
{
	if (!session_begin_run(session))
		return 0;
	session->setup = (struct worker_setup){ .device = sweep_device_name(session->o),
						.problems = &session->problems,
						.protocol = session->protocol,
						.gate_s = 30,
						.sample_s = 10,
						.no_ceilings = 1,
						.settle = session->o->settle,
						.settled = session->o->settled,
						.settle_ms = session->o->settle_ms,
						.dram_gbps = session->hello.dram_gbps,
						.fma_tflops = session->hello.fma_tflops,
						.idle = on_idle,
						.idle_arg = session };
	session->worker = worker_new(&session->setup);
	session->began = budget_now();
	session->binaries.until = session->o->wall ? session->began + session->o->budget_s : 0;
	return session->worker != NULL;
}
