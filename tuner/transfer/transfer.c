/* transfer.c - makes the training data of a GPU with few own times: copies these and adds another
 * GPU's times, translated. */
#include "transfer.h"
#include "harness/base/base.h"
#include "harness/store/store.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include "tuner/data/data.h"
#include "tuner/data/filling.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Negative numbers keep races of the prior apart from own ones. */
static int race_of_prior(int race)
{
	return -1 - race;
}

/* A binary that did not compile or start here. */
struct refused {
	const struct kernel *kernel;
	char flags[512];
};

/* Scenarios and choices of own have the same numbers in the result. */
struct joining {
	const struct data *own, *prior;
	struct data *d;
	int *same;         /* [prior->n] the same scenario of own; -1: none */
	int *prior_at;     /* [prior->n] scenario in the result; -1: left out */
	int *prior_choice; /* [prior->num_choices] choice in the result */
	char *is_broken;   /* [prior->num_choices] gave a wrong result here, or crashed */
	struct refused *refused;
	int num_refused, refused_room;
	struct translation *translation;
};

/* ---- scenarios and choices -------------------------------------------------------------- */
static int comparable(const struct data *own, const struct data *prior)
{
	if (own->run.device.backend != prior->run.device.backend) {
		complain("%s and %s run different kernels: their times cannot be compared",
			 own->gpu, prior->gpu);
		return 0;
	}
	if (own->protocol[0] && prior->protocol[0] && strcmp(own->protocol, prior->protocol)) {
		complain(
		    "times of %s have protocol '%s', those of %s '%s': they cannot be compared",
		    own->gpu, own->protocol, prior->gpu, prior->protocol);
		return 0;
	}
	return 1;
}

/* Merges: both are sorted by key. */
static void find_same(struct joining *j)
{
	int own = 0;
	for (int s = 0; s < j->prior->n; s++) {
		int order = 1;
		while (own < j->own->n &&
		       (order = strverscmp(j->own->v[own].key, j->prior->v[s].key)) < 0)
			own++;
		j->same[s] = own < j->own->n && !order ? own : -1;
	}
}

static int is_learned_from(const struct joining *j, int s)
{
	return data_is_training(&j->prior->v[s]) &&
	       (j->same[s] < 0 || data_is_training(&j->own->v[j->same[s]]));
}

static int put_scenario(struct data *d, const struct measured *m)
{
	const struct store_cell c = { .model = m->model,
				      .set = m->set,
				      .split = m->split,
				      .batch = m->batch_text,
				      .layout = m->layout,
				      .shape = m->shape,
				      .seed = m->seed,
				      .weight = m->weight };
	const int at = data_put_scenario(d, &c);
	if (at >= 0)
		d->v[at].lost_best |= m->lost_best;
	return at;
}

static int put_scenarios(struct joining *j)
{
	for (int s = 0; s < j->own->n; s++)
		if (put_scenario(j->d, &j->own->v[s]) < 0)
			return 0;
	for (int s = 0; s < j->prior->n; s++) {
		j->prior_at[s] = -1;
		if (!is_learned_from(j, s))
			continue;
		j->prior_at[s] = j->same[s] >= 0 ? j->same[s] : put_scenario(j->d, &j->prior->v[s]);
		if (j->prior_at[s] < 0)
			return 0;
	}
	return 1;
}

static int put_choices(struct joining *j)
{
	for (int c = 0; c < j->own->num_choices; c++)
		if (data_put_choice(j->d, &j->own->choice[c]) < 0)
			return 0;
	for (int c = 0; c < j->prior->num_choices; c++) {
		j->prior_choice[c] = data_put_choice(j->d, &j->prior->choice[c]);
		if (j->prior_choice[c] < 0)
			return 0;
	}
	return 1;
}

/* ---- failures on own's device ---------------------------------------------------------- */
static struct refused binary_of(const struct choice *c, const attune_shape *shape)
{
	struct refused r = { .kernel = c->kernel };
	binary_flags(r.flags, sizeof r.flags, c->kernel, &c->config, shape);
	return r;
}

/* Whether the binary did not compile or start. */
static int is_refused(const struct joining *j, const struct choice *c, const attune_shape *shape)
{
	int found = 0;
	if (!j->num_refused)
		return 0;
	const struct refused r = binary_of(c, shape);
	for (int i = 0; i < j->num_refused && !found; i++)
		found = r.kernel == j->refused[i].kernel && !strcmp(r.flags, j->refused[i].flags);
	return found;
}

static int note_failure(struct joining *j, const struct choice *c, const attune_shape *shape,
			enum outcome outcome)
{
	const int choice = data_find(j->prior, c);
	if (outcome != OUTCOME_COMPILE && outcome != OUTCOME_RESOURCES) {
		if (choice >= 0)
			j->is_broken[choice] = 1;
		return 1;
	}
	if (is_refused(j, c, shape))
		return 1;
	if (!array_grow(&j->refused, j->num_refused, &j->refused_room, sizeof *j->refused))
		return 0;
	j->refused[j->num_refused++] = binary_of(c, shape);
	return 1;
}

static int find_failures(struct joining *j)
{
	const struct data *d = j->own;
	int done = 1;
	for (int i = 0; done && i < d->num_cells; i++) {
		const struct cell *c = &d->cell[i];
		if (c->outcome != OUTCOME_OK)
			done = note_failure(j, &d->choice[c->key / NUM_PASSES],
					    &d->v[c->row / NUM_PHASES].shape, c->outcome);
	}
	return done;
}

/* Illegal on own's device but not on the prior's. */
static int is_illegal_here(const struct joining *j, int scenario, int phase, const struct choice *c)
{
	const struct measured *theirs = &j->prior->v[scenario];
	const struct measured *ours = &j->d->v[j->prior_at[scenario]];
	const struct space *s = c->kernel->space;
	return s->why_illegal(&c->config, &ours->shape, &ours->part[phase], &j->d->run.device) &&
	       !s->why_illegal(&c->config, &theirs->shape, &theirs->part[phase],
			       &j->prior->run.device);
}

/* ---- times ---------------------------------------------------------------------------- */
static void scale(struct cell *c, double log_ratio)
{
	const double by = exp(log_ratio);
	double *const of[] = { &c->us, &c->median_us, &c->min_us, &c->ci_us, &c->ratio };
	for (size_t i = 0; i < COUNT(of); i++)
		*of[i] *= by;
	c->gbps /= by;
	c->tflops /= by;
	c->joules = NAN;
	c->power_of = POWER_UNKNOWN;
	c->race = race_of_prior(c->race);
	c->translated = 1;
}

/* Adds a failed cell, so that no leaf over the scenario may name the choice. */
static int forbid(struct joining *j, int scenario, int phase, int choice)
{
	struct cell c = { .outcome = OUTCOME_WRONG, .ratio = NAN };
	c.race = race_of_prior(0);
	c.translated = 1;
	return data_put_cell(j->d, j->prior_at[scenario], phase, j->prior_choice[choice], PASS_A,
			     &c);
}

static int take_cell(struct joining *j, int s, int phase, int choice, const struct cell *theirs)
{
	const struct choice *c = &j->prior->choice[choice];
	struct cell cell = *theirs;
	if (is_illegal_here(j, s, phase, c))
		return 1;
	if (j->is_broken[choice] || is_refused(j, c, &j->prior->v[s].shape))
		return forbid(j, s, phase, choice);
	scale(&cell, translation_of(j->translation, s, phase, choice));
	return data_put_cell(j->d, j->prior_at[s], phase, j->prior_choice[choice], PASS_A, &cell);
}

static int take_cells(struct joining *j, int s, int phase)
{
	struct choice_iter i = choices_of(j->prior, s, (enum phase)phase, (enum phase)phase);
	int done = 1;
	while (done && choices_next(&i))
		if (i.cells[0].of[PASS_A])
			done = take_cell(j, s, phase, i.choice, i.cells[0].of[PASS_A]);
	for (int c = 0; done && c < j->prior->num_choices; c++)
		if (j->is_broken[c] && j->prior->v[s].has[phase] &&
		    !data_cell_in(j->prior, PASS_A, s, (enum phase)phase, c))
			done = forbid(j, s, phase, c);
	return done;
}

static int has_own_plan(const struct joining *j, int s, const struct composed *c)
{
	const struct pick p = { data_find(j->own, &j->prior->choice[c->prefill]),
				data_find(j->own, &j->prior->choice[c->decode]), 1, c->how };
	return j->same[s] >= 0 && p.prefill >= 0 && p.decode >= 0 &&
	       (data_plan_cell(j->own, PASS_A, j->same[s], &p) ||
		data_plan_cell(j->own, PASS_B, j->same[s], &p));
}

/* Takes the plans whose parts may run on own's device. */
static int take_plans(struct joining *j, int s)
{
	const struct data *d = j->prior;
	int done = 1;
	for (int i = d->plan_at[s]; done && i < d->plan_at[s + 1]; i++) {
		struct composed c = d->plan[i];
		const struct choice *parts[] = { &d->choice[c.prefill], &d->choice[c.decode] };
		if (c.pass != PASS_A || has_own_plan(j, s, &c) || j->is_broken[c.prefill] ||
		    j->is_broken[c.decode] || is_illegal_here(j, s, PHASE_PREFILL, parts[0]) ||
		    is_illegal_here(j, s, PHASE_DECODE, parts[1]) ||
		    is_refused(j, parts[0], &d->v[s].shape) ||
		    is_refused(j, parts[1], &d->v[s].shape))
			continue;
		scale(&c.cell, translation_of_plan(j->translation, &c));
		c.scenario = j->prior_at[s];
		c.prefill = j->prior_choice[c.prefill];
		c.decode = j->prior_choice[c.decode];
		done = data_put_plan(j->d, &c);
	}
	return done;
}

static int has_own_early(const struct joining *j, const struct early_launch *p)
{
	for (int i = 0; j->same[p->scenario] >= 0 && i < j->own->num_early; i++)
		if (j->own->early_launch[i].scenario == j->same[p->scenario] &&
		    j->own->early_launch[i].phase == p->phase)
			return 1;
	return 0;
}

/* Early launches are compared within their race, so they need no translation. */
static int take_early(struct joining *j)
{
	int done = 1;
	for (int i = 0; done && i < j->prior->num_early; i++) {
		struct early_launch p = j->prior->early_launch[i];
		if (j->prior_at[p.scenario] < 0 || has_own_early(j, &p) || j->is_broken[p.choice])
			continue;
		scale(&p.cell, 0);
		p.scenario = j->prior_at[p.scenario];
		p.choice = j->prior_choice[p.choice];
		done = data_put_early(j->d, &p);
	}
	return done;
}

static int take_prior(struct joining *j)
{
	int done = 1;
	for (int s = 0; done && s < j->prior->n; s++) {
		for (int p = 0; done && j->prior_at[s] >= 0 && p < NUM_PHASES; p++)
			done = take_cells(j, s, p);
		done = done && (j->prior_at[s] < 0 || take_plans(j, s));
	}
	return done && take_early(j);
}

/* Own cells come after the prior's, so that they replace them. */
static int take_own(struct joining *j)
{
	const struct data *o = j->own;
	int done = 1;
	for (int i = 0; done && i < o->num_cells; i++) {
		const struct cell *c = &o->cell[i];
		done = data_put_cell(j->d, c->row / NUM_PHASES, c->row % NUM_PHASES,
				     c->key / NUM_PASSES, (enum pass)(c->key % NUM_PASSES), c);
	}
	for (int i = 0; done && i < o->num_plans; i++) {
		struct composed c = o->plan[i];
		c.is_outdone = 0;
		done = data_put_plan(j->d, &c);
	}
	for (int i = 0; done && i < o->num_early; i++)
		done = data_put_early(j->d, &o->early_launch[i]);
	return done;
}

/* ---- all of it ------------------------------------------------------------------------ */
/* Takes the prior's noise, like most times. The gate adds own A/A controls, and these must not
 * change the rules that it compares. */
static void copy_facts(struct data *d, const struct data *own, const struct data *prior)
{
	snprintf(d->prior, sizeof d->prior, "%s", prior->gpu);
	snprintf(d->prior_hash, sizeof d->prior_hash, "%s", prior->hash);
	snprintf(d->hash, sizeof d->hash, "%s", own->hash);
	snprintf(d->protocol, sizeof d->protocol, "%s",
		 own->protocol[0] ? own->protocol : prior->protocol);
	d->ignored = own->ignored;
	d->stale = own->stale;
	d->noisy = own->noisy;
	d->lost = own->lost;
	for (int b = 0; b < NOISE_BANDS; b++) {
		const struct noise *n = prior->noise.pairs[b] ? &prior->noise : &own->noise;
		d->noise.floor[b] = n->floor[b];
		d->noise.pairs[b] = n->pairs[b];
	}
}

/* Scenarios without an own time are translated as a whole. */
static void mark_scenarios(struct data *d)
{
	for (int s = 0; s < d->n; s++)
		d->v[s].is_translated = 1;
	for (int i = 0; i < d->num_cells; i++)
		d->v[d->cell[i].row / NUM_PHASES].is_translated &= d->cell[i].translated;
	for (int i = 0; i < d->num_plans; i++)
		d->v[d->plan[i].scenario].is_translated &= d->plan[i].cell.translated;
}

static int open_joining(struct joining *j)
{
	const size_t scenarios = (size_t)j->prior->n + 1;
	const size_t choices = (size_t)j->prior->num_choices + 1;
	j->same = malloc(sizeof *j->same * scenarios);
	j->prior_at = malloc(sizeof *j->prior_at * scenarios);
	j->prior_choice = malloc(sizeof *j->prior_choice * choices);
	j->is_broken = calloc(choices, 1);
	j->d = data_new(j->own->gpu, &j->own->run);
	return j->same && j->prior_at && j->prior_choice && j->is_broken && j->d;
}

static void close_joining(struct joining *j)
{
	free(j->refused);
	free(j->same);
	free(j->prior_at);
	free(j->prior_choice);
	free(j->is_broken);
	translation_free(j->translation);
}

struct data *data_transfer(const struct data *own, const struct data *prior)
{
	struct joining j = { .own = own, .prior = prior };
	if (!comparable(own, prior))
		return NULL;
	int done = open_joining(&j);
	if (done) {
		find_same(&j);
		j.translation = translation_new(own, prior, j.same);
		done = j.translation && find_failures(&j) && put_scenarios(&j) && put_choices(&j) &&
		       take_prior(&j) && take_own(&j) && data_finish_again(j.d);
	}
	if (done) {
		copy_facts(j.d, own, prior);
		mark_scenarios(j.d);
	} else {
		complain("times of %s cannot be translated to %s: out of memory", prior->gpu,
			 own->gpu);
		data_free(j.d);
	}
	close_joining(&j);
	return done ? j.d : NULL;
}
