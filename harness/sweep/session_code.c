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
						.dram_gbps = session->hello.dram_gbps,
						.fma_tflops = session->hello.fma_tflops,
						.idle = on_idle,
						.idle_arg = session };
	session->worker = worker_new(&session->setup);
	session->began = budget_now();
	session->binaries.until = session->o->wall ? session->began + session->o->budget_s : 0;
	return session->worker != NULL;
}
