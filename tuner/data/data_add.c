/* SPDX-License-Identifier: Apache-2.0 */
/* data_add.c - adds the rows of a database to struct data: checks each, finds its scenario and
 * choice, and stores it as a cell, a plan or an early launch. */
#include "data.h"
#include "filling.h"
#include "harness/base/base.h"
#include "harness/store/store.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include "tuner/base/base.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static enum outcome outcome_of(const char *word)
{
	for (int o = 0; o < NUM_OUTCOMES; o++)
		if (!strcmp(word, outcome_name((enum outcome)o)))
			return (enum outcome)o;
	return NUM_OUTCOMES;
}

/* The choices that a row's kernel and choice texts name. */
struct variant {
	int choice, decode; /* NOT_LISTED; -1 without memory; decode: of a plan */
	int early;          /* value of the early axis; choice is then the one without it */
	enum attune_how how;
};

static struct variant variant_of(struct data *d, const struct store_cell *c, int is_plan)
{
	char part[2][MAX_PART_TEXT];
	struct variant v = { .decode = -1 };
	int early = 0;
	if (!is_plan) {
		snprintf(part[0], sizeof part[0], "%s%s%s", c->kernel, *c->choice ? " " : "",
			 c->choice);
		v.choice = data_find_text(d, part[0], &v.early);
		return v;
	}
	if (!parts_parse(c->choice, part, &v.how)) {
		v.choice = NOT_LISTED;
		return v;
	}
	v.choice = data_find_text(d, part[0], &v.early);
	v.decode = data_find_text(d, part[1], &early);
	if (v.early || early)
		v.choice = NOT_LISTED;
	else if (v.decode < 0)
		v.choice = v.choice < v.decode ? v.choice : v.decode;
	return v;
}

static int belongs(struct data *d, const struct store_cell *c)
{
	char gpu[GPU_NAME];
	gpu_of_rows(gpu, d->gpu);
	if (strcmp(c->gpu, gpu)) {
		complain("expected cells of GPU '%s', found one of '%s'", gpu, c->gpu);
		return 0;
	}
	if (!d->protocol[0])
		snprintf(d->protocol, sizeof d->protocol, "%s", c->protocol);
	if (strcmp(c->protocol, d->protocol)) {
		complain("times of protocols '%s' and '%s' cannot be compared; keep them in two "
			 "databases",
			 d->protocol, c->protocol);
		return 0;
	}
	return 1;
}

static int one_of(const char *word, const char *const *words, int n)
{
	int i = 0;
	while (i < n && strcmp(word, words[i]))
		i++;
	return i;
}

/* Whether a race eliminated the choice because it was slow. */
static int was_given_up(const char *stopped)
{
	static const char *const words[] = { "slow", "screen", "beaten" };
	return stopped && one_of(stopped, words, (int)COUNT(words)) < (int)COUNT(words);
}

static int stage_of(const char *stage)
{
	return stage ? one_of(stage, stage_names, NUM_STAGES) : STAGE_RACE;
}

/* An NVIDIA sensor averages over a second; the race of a burst lasts a twentieth of that, so its
 * reading covers whatever ran around it. A steady race runs without a break until the power settles:
 * its reading covers all contenders, and their joules differ only as their times do. The contenders
 * left at its end each run alone for a while (protocol.hold_s), so their readings cover only
 * themselves. */
static enum power_of power_of(const struct store_cell *c)
{
	if (outcome_of(c->outcome) != OUTCOME_OK || !(c->joules > 0))
		return POWER_UNKNOWN;
	if (!strstr(c->protocol, "-steady"))
		return POWER_AROUND;
	return c->power_is_shared ? POWER_RACE : POWER_ALONE;
}

static struct cell cell_of(const struct store_cell *c)
{
	return (struct cell){ .outcome = outcome_of(c->outcome),
			      .power_of = power_of(c),
			      .censored = was_given_up(c->stopped),
			      .us = c->median_us,
			      .median_us = c->median_us,
			      .min_us = c->min_us,
			      .ci_us = c->ci_us,
			      .gbps = c->gbps,
			      .tflops = c->tflops,
			      .joules = c->joules,
			      .ratio = c->ratio > 0 ? c->ratio : NAN,
			      .race = (int)(c->run * RACES_OF_RUN) + stage_of(c->stage) };
}

int data_put_plan(struct data *d, const struct composed *plan)
{
	if (!array_grow(&d->plan, d->num_plans, &d->scaffold->plan_room, sizeof *d->plan))
		return 0;
	d->plan[d->num_plans] = *plan;
	d->plan[d->num_plans++].cell.arrival = d->scaffold->arrived++;
	return 1;
}

int data_put_early(struct data *d, const struct early_launch *launch)
{
	if (!array_grow(&d->early_launch, d->num_early, &d->scaffold->early_room,
			sizeof *d->early_launch))
		return 0;
	d->early_launch[d->num_early] = *launch;
	d->early_launch[d->num_early++].cell.arrival = d->scaffold->arrived++;
	return 1;
}

int data_put_cell(struct data *d, int scenario, int phase, int choice, enum pass pass,
		  const struct cell *c)
{
	if (!array_grow(&d->cell, d->num_cells, &d->scaffold->cell_room, sizeof *d->cell))
		return 0;
	struct cell *put = &d->cell[d->num_cells++];
	*put = *c;
	put->row = scenario * NUM_PHASES + phase;
	put->key = choice * NUM_PASSES + (int)pass;
	put->arrival = d->scaffold->arrived++;
	return 1;
}

/* Stores the cell with the plans, with the early launches (pass E) or with the cells. Drops an
 * early launch outside pass E: it has no partner in its race. */
static int keep(struct data *d, const struct store_cell *from, int scenario, int phase,
		const struct variant *v, const struct cell *c)
{
	const enum pass pass = from->pass == 'B' ? PASS_B : PASS_A;
	if (phase == PHASE_PLAN)
		return data_put_plan(
		    d, &(struct composed){ scenario, v->choice, v->decode, v->how, pass, *c, 0 });
	if (from->pass == 'E')
		return data_put_early(d, &(struct early_launch){ scenario, v->choice, v->early,
								 (enum phase)phase, *c });
	return v->early || data_put_cell(d, scenario, phase, v->choice, pass, c);
}

/* Whether a plan has a plug-in that does not take part. */
static int names_left_out(const struct data *d, const char *plan)
{
	char part[2][MAX_PART_TEXT];
	enum attune_how how;
	int found = 0;
	for (int i = 0; i < 2 && parts_parse(plan, part, &how); i++) {
		part[i][strcspn(part[i], " ")] = '\0';
		const struct kernel *k = kernel_find(d->run.device.backend, part[i]);
		found |= k && !data_takes(d, k);
	}
	return found;
}

/* Whether a rule keeps the choice to parts of little work. */
static int is_for_little_work(const struct data *d, const struct measured *m,
			      const struct choice *c)
{
	const struct space *s = c->kernel->space;
	struct part p = m->part[PHASE_ALL];
	p.f.work = 0;
	const int legal = !s->why_illegal(&c->config, &m->shape, &p, &d->run.device);
	p.f.work = 1ll << 40;
	return legal && s->why_illegal(&c->config, &m->shape, &p, &d->run.device);
}

/* Whether portable rules may not name a choice: it does not run the scenario's shape on the smallest
 * GPU that they serve, or it is for parts of little work. Behind a portable row stands nothing: it
 * would run parts up to that limit, though it was fast on the smallest alone. */
static int is_masked(const struct data *d, int scenario, int choice)
{
	if (!d->is_portable || choice < 0)
		return 0;
	const struct choice *c = &d->choice[choice];
	const struct measured *m = &d->v[scenario];
	return c->kernel->space->why_illegal(&c->config, &m->shape, NULL, &d->run.device) ||
	       is_for_little_work(d, m, c);
}

int data_add(struct data *d, const struct store_cell *c)
{
	const int phase = phase_named(c->phase);
	if (!belongs(d, c))
		return 0;
	const struct cell cell = cell_of(c);
	if (phase < 0 || cell.outcome == NUM_OUTCOMES) {
		complain("%s, batch %s: unknown phase '%s' or outcome '%s'", c->model, c->batch,
			 c->phase, c->outcome);
		return 0;
	}
	if (cell.outcome == OUTCOME_OK && !(c->median_us > 0 && isfinite(c->median_us))) {
		complain("%s, batch %s, %s: a time of %g us", c->model, c->batch, c->choice,
			 c->median_us);
		return 0;
	}
	const int scenario = data_put_scenario(d, c);
	if (scenario < 0)
		return 0;
	const struct variant v = variant_of(d, c, phase == PHASE_PLAN);
	if (v.choice == NOT_LISTED) {
		d->ignored += !names_left_out(d, c->choice);
		return 1;
	}
	/* sm_80 begins no launch early. */
	if (d->is_portable && (v.early || c->pass == 'E'))
		return 1;
	if (is_masked(d, scenario, v.choice) || is_masked(d, scenario, v.decode))
		return 1;
	return v.choice >= 0 && keep(d, c, scenario, phase, &v, &cell);
}
