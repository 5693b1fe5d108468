/* session.c - a sweep session: makes and frees it, begins its run in the database, keeps its
 * clock, and remembers which choices passed the corner batches. */
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

const struct scenario *session_scenario(const struct sweep_session *c, const struct problem *h)
{
	return &c->problems.scenarios[h->scenario];
}

char *session_passed(const struct sweep_session *c, int built_choice, enum phase phase)
{
	return &c->passed[built_choice * 3 + (int)phase];
}

char *session_excluded(const struct sweep_session *c, int built_choice, int shape)
{
	return &c->excluded[(size_t)built_choice * (size_t)c->problems.num_shapes + (size_t)shape];
}

double session_seconds(const struct sweep_session *c)
{
	return budget_now() - c->began - (c->o->wall ? 0 : c->binaries.budget_s);
}

double session_share(const struct sweep_session *c, double part)
{
	const double left = c->limit_s - session_seconds(c);
	return left <= 0 ? 0 : fmin(fmax(generous * left * part, 0.2), c->protocol.seconds);
}

/* ---- the database --------------------------------------------------------------- */

/* Upper bounds of any speed. A data sheet is preferred to a measurement. */
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

int session_wait_quiet(const struct sweep_session *c)
{
	const double left = c->limit_s - session_seconds(c);
	return left > 0 && !device_quiet(c->o, &c->hello, left);
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

int session_exit_code(const struct sweep_session *c, enum race_end end)
{
	if (end == RACE_NO_DEVICE)
		complain("%s", worker_text(c->worker));
	if (end == RACE_INTERRUPTED)
		complain("interrupted; all that was measured is kept, and the same command "
			 "goes on from here");
	return end == RACE_INTERRUPTED   ? EXIT_INTERRUPTED
	       : end == RACE_NO_DEVICE   ? EXIT_NO_DEVICE
	       : end == RACE_NO_COMPILER ? EXIT_USAGE
	       : end == RACE_STOPPED     ? (c->refused ? c->refused : EXIT_CHECK)
					 : EXIT_DONE;
}

/* ---- beginning and end ---------------------------------------------------------- */

int session_alloc(struct sweep_session *c)
{
	c->passed = calloc((size_t)c->problems.num_built_choices + 1, 3);
	c->excluded =
	    calloc((size_t)c->problems.num_built_choices + 1, (size_t)c->problems.num_shapes + 1);
	if (!c->passed || !c->excluded)
		complain("out of memory");
	return c->passed && c->excluded;
}

void session_pass(struct sweep_session *c, int built_choice, enum phase phase)
{
	*session_passed(c, built_choice, phase) = 1;
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
	for (int s = 0; s < NUM_STAGES; s++) {
		sum->device_s += c->tally[s].device_s;
		sum->races += c->tally[s].races;
	}
	sum->ran_out |= c->ran_out;
	for (int i = 0; i < NUM_OUTCOMES; i++)
		sum->failed[i] += i == OUTCOME_OK ? 0 : c->failed[i];
	sum->measured += c->failed[OUTCOME_OK];
}

void session_free(struct sweep_session *c)
{
	worker_free(c->worker);
	store_close(c->store);
	problems_free(&c->problems);
	binaries_free(&c->binaries);
	free(c->passed);
	free(c->excluded);
	free(c->noisy_plan);
}
