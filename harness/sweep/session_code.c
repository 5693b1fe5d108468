/* session_code.c - the code of a session's races: asks builders for it, waits for it, and runs
 * races in a worker that has it. */
#include "session.h"
#include "harness/base/base.h"
#include "harness/compile/compile.h"
#include "harness/measure/measure.h"
#include "harness/search/search.h"
#include "harness/store/store.h"
#include "harness/worker/worker.h"
#include <stdlib.h>

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

/* Waits for the code of these choices. */
static enum race_end wait_for_code(struct sweep_session *session, const int *built_choice, int n)
{
	int *need = calloc((size_t)n * (1 + NUM_HELPERS) + 1, sizeof *need), num = 0;
	enum race_end end = need ? RACE_ENDED : RACE_STOPPED;
	for (int i = 0; need && i < n; i++)
		num = add_needed(&session->problems.built_choice[built_choice[i]], need, num);
	if (need && !binaries_need(&session->binaries, need, num))
		end = interrupted                             ? RACE_INTERRUPTED
		      : binaries_too_late(&session->binaries) ? RACE_TOO_LATE
							      : RACE_NO_COMPILER;
	for (int i = 0; i < n && end == RACE_ENDED; i++) {
		attach(session, &session->problems.built_choice[built_choice[i]]);
		if (!helpers_compile(session, &session->problems.built_choice[built_choice[i]]))
			end = RACE_STOPPED;
	}
	free(need);
	return end;
}

enum race_end session_wait_for_code(struct sweep_session *session, const struct problem *problem,
				    const struct entries *e)
{
	int *built_choice = malloc(((size_t)e->n + 2) * sizeof *built_choice), n = 0;
	enum race_end end = RACE_STOPPED;
	for (int k = e->only_these ? 0 : -1; built_choice && k < e->n && problem->n; k++) {
		const int i = k < 0 ? 0 : e->place[k];
		if (k < 0 || e->again || !problem->stored[i])
			built_choice[n++] = problem->built_choice[i];
	}
	if (built_choice)
		end = wait_for_code(session, built_choice, n);
	free(built_choice);
	return end;
}

static enum race_end wait_for_contenders(struct sweep_session *session,
					 const struct contender *contender, int n)
{
	int *built_choice = malloc((2 * (size_t)n + 1) * sizeof *built_choice), num = 0;
	enum race_end end = RACE_STOPPED;
	for (int i = 0; built_choice && i < n; i++)
		for (int part = 0;
		     !contender[i].is_library && part < 2 && contender[i].problem[part] >= 0;
		     part++)
			built_choice[num++] = session->problems.v[contender[i].problem[part]]
						  .built_choice[contender[i].place[part]];
	if (built_choice)
		end = wait_for_code(session, built_choice, num);
	free(built_choice);
	return end;
}

int session_ask(struct sweep_session *session, const struct problem *problem,
		const struct entries *e)
{
	int asked = 0;
	for (int k = 0; k < e->n; k++) {
		const struct built_choice *of =
		    &session->problems.built_choice[problem->built_choice[e->place[k]]];
		if (problem->stored[e->place[k]] && !e->again)
			continue;
		int need[1 + NUM_HELPERS];
		const int n = add_needed(of, need, 0);
		for (int i = 0; i < n; i++)
			asked += binaries_ask(&session->binaries, need[i]);
	}
	return asked;
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
	const enum race_end ready = wait_for_contenders(session, order->contender, order->n);
	if (ready != RACE_ENDED)
		return ready;
	if (on_cpu)
		binaries_hold(&session->binaries, 1);
	const enum race_end end = worker_race(session->worker, order, l);
	if (on_cpu)
		binaries_hold(&session->binaries, 0);
	return end;
}

int session_worker(struct sweep_session *session)
{
	const struct worker_setup setup = { .device = sweep_device_name(session->o),
					    .problems = &session->problems,
					    .protocol = session->protocol,
					    .gate_s = 30,
					    .sample_s = 10,
					    .no_ceilings = 1,
					    .dram_gbps = session->hello.dram_gbps,
					    .fma_tflops = session->hello.fma_tflops,
					    .idle = on_idle,
					    .idle_arg = session };
	session->setup = setup;
	session->worker = worker_new(&session->setup);
	return session->worker != NULL;
}
