/* data.c - what a database says of one GPU, in memory: scenarios, choices, and a
 * cell for each pass of each. */
#include "data.h"
#include "filling.h"
#include "harness/base/base.h"
#include "harness/scenario/scenario.h"
#include "harness/store/store.h"
#include <math.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct name { /* of a scenario or a choice, as found by tsearch */
	char *text;
	int index, early; /* early: of a choice, whose index is then that of the same in turn */
};

enum { MAX_ID = 1 << 24 }; /* beyond, ids are not looked up but texts are */

const char *phase_name(int phase)
{
	static const char *const names[] = { "all", "prefill", "decode", "plan" };
	return names[phase];
}

struct data *data_new(const char *gpu, const struct run_info *run)
{
	struct data *d = calloc(1, sizeof *d);
	if (!d)
		return NULL;
	d->scaffold = calloc(1, sizeof *d->scaffold);
	if (!d->scaffold) {
		free(d);
		return NULL;
	}
	snprintf(d->gpu, sizeof d->gpu, "%s", gpu);
	d->run = *run;
	for (int b = 0; b < NOISE_BANDS; b++)
		d->noise.floor[b] = NOISE_FLOOR / 1e6;
	d->run.device.backend = strcmp(gpu, "cpu") ? BACKEND_GPU : BACKEND_CPU;
	return d;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(((const struct name *)a)->text, ((const struct name *)b)->text);
}

/* The entry of `text`, made with index -1 when new; NULL without memory. */
static struct name *name_of(void **root, const char *text)
{
	struct name *made = malloc(sizeof *made), **at;
	if (!made)
		return NULL;
	*made = (struct name){ strdup(text), -1, 0 };
	at = made->text ? tsearch(made, root, by_text) : NULL;
	if (at && *at == made)
		return made;
	free(made->text);
	free(made);
	return at ? *at : NULL;
}

int array_grow(void *array, int n, int *room, size_t size)
{
	void **p = array;
	if (n < *room)
		return 1;
	const int more = *room ? 2 * *room : 64;
	void *q = realloc(*p, (size_t)more * size);
	if (!q)
		return 0;
	*p = q;
	*room = more;
	return 1;
}

/* All that makes a scenario another one; also the order they stand in. */
static char *scenario_key(const struct store_cell *c)
{
	const attune_shape *h = &c->shape;
	char *key;
	const int n = asprintf(
	    &key, "%s %d %s %s %s %s %llu %d %d %d %d %d %.9g %.9g %d %d", c->model, h->page_size,
	    dtype_name(h->dtype), dtype_name(h->kv_dtype), c->layout, c->batch, c->seed,
	    h->num_query_heads, h->num_kv_heads, h->head_size, h->causal, h->window,
	    (double)h->scale, (double)h->softcap, h->has_sinks, h->has_alibi);
	return n < 0 ? NULL : key;
}

static int make_parts(struct data *d, struct measured *m)
{
	for (int p = 0; p < NUM_PHASES; p++)
		m->has[p] = part_make(&m->part[p], (enum phase)p, &m->shape, &m->batch->view,
				      &d->run.device);
	return m->has[PHASE_ALL];
}

static int new_scenario(struct data *d, const struct store_cell *c)
{
	struct measured m = { .shape = c->shape, .seed = c->seed, .weight = c->weight };
	char error[200];
	const char *wrong = shape_error(&c->shape);
	if (wrong) {
		complain("%s, batch %s: %s", c->model, c->batch, wrong);
		return -1;
	}
	if (!array_grow(&d->v, d->n, &d->scaffold->room, sizeof *d->v))
		return -1;
	m.batch = batch_parse(c->batch, error, sizeof error);
	if (!m.batch) {
		complain("%s, batch %s: %s", c->model, c->batch, error);
		return -1;
	}
	if (!make_parts(d, &m)) {
		complain("%s, batch %s: no sequence has a query", c->model, c->batch);
		batch_free(m.batch);
		return -1;
	}
	m.model = strdup(c->model);
	m.set = strdup(c->set);
	m.split = strdup(c->split);
	m.batch_text = strdup(c->batch);
	m.layout = strdup(c->layout);
	m.key = scenario_key(c);
	d->v[d->n] = m;
	return d->n++;
}

/* 0: learned from; a scenario goes to the higher of two splits. */
static int split_distance(const char *split)
{
	return split_is_gate(split) ? 1 : split_is_held_out(split) ? 2 : 0;
}

/* A scenario that several sets list is held out as soon as one says so, and
 * weighs what the heaviest says. */
static int join_sets(struct measured *m, const struct store_cell *c)
{
	if (c->weight > m->weight)
		m->weight = c->weight;
	if (split_distance(c->split) <= split_distance(m->split))
		return 1;
	free(m->split);
	m->split = strdup(c->split);
	return m->split != NULL;
}

static int scenario_named(struct data *d, const struct store_cell *c)
{
	char *key = scenario_key(c);
	struct name *name = key ? name_of(&d->scaffold->scenarios, key) : NULL;
	free(key);
	if (!name)
		return -1;
	if (name->index < 0)
		name->index = new_scenario(d, c);
	return name->index >= 0 && join_sets(&d->v[name->index], c) ? name->index : -1;
}

/* Room for [id] in an array whose new elements are all of bytes 0xff. */
static int reach(void *array, int *room, long long id, size_t size)
{
	void **p = array;
	if (id < *room)
		return 1;
	const int more = (int)(2 * id + 64);
	char *q = realloc(*p, (size_t)more * size);
	if (!q)
		return 0;
	memset(q + (size_t)*room * size, 0xff, (size_t)(more - *room) * size);
	*p = q;
	*room = more;
	return 1;
}

static int scenario_index(struct data *d, const struct store_cell *c)
{
	struct scaffold *s = d->scaffold;
	const long long id = c->scenario_id;
	if (id <= 0 || id > MAX_ID)
		return scenario_named(d, c);
	if (!reach(&s->scenario, &s->num_scenarios, id, sizeof *s->scenario))
		return -1;
	if (s->scenario[id] < 0)
		s->scenario[id] = scenario_named(d, c);
	return s->scenario[id];
}

enum { NOT_LISTED = -2 };

/* Of "segmented BLOCK_M=16 ...". Of one that begins early, which no caller has to allow, that
 * of the same in turn, and in *early how. */
static int choice_index(struct data *d, const char *text, int *early)
{
	char kernel[32], turn[MAX_CHOICE_TEXT];
	const char *where;
	struct choice c;
	const size_t n = strcspn(text, " ");
	struct name *name = name_of(&d->scaffold->choices, text);
	if (!name)
		return -1;
	*early = name->early;
	if (name->index != -1)
		return name->index;
	snprintf(kernel, sizeof kernel, "%.*s", (int)n, text);
	c.kernel = kernel_find(d->run.device.backend, kernel);
	if (!c.kernel || !config_parse(&c.config, c.kernel->space, text + n, &where))
		return name->index = NOT_LISTED;
	if (choice_early(&c)) {
		int none;
		name->early = *early = choice_early(&c);
		c.config.v[c.kernel->space->early_axis] = 0;
		choice_text(turn, sizeof turn, &c);
		return name->index = choice_index(d, turn, &none);
	}
	if (!array_grow(&d->choice, d->num_choices, &d->scaffold->choice_room, sizeof *d->choice))
		return -1;
	d->choice[d->num_choices] = c;
	return name->index = d->num_choices++;
}

int data_put_scenario(struct data *d, const struct store_cell *c)
{
	return scenario_index(d, c);
}

int data_add_scenario(struct data *d, const struct store_cell *c)
{
	return scenario_index(d, c) >= 0;
}

int data_put_choice(struct data *d, const struct choice *c)
{
	char text[MAX_CHOICE_TEXT];
	int early;
	choice_text(text, sizeof text, c);
	return choice_index(d, text, &early);
}

int data_add_choice(struct data *d, const struct choice *c)
{
	for (int i = 0; i < d->num_choices; i++)
		if (c->kernel && !choice_compare(&d->choice[i], c))
			return 1;
	return !c->kernel || data_put_choice(d, c) >= 0;
}

static int phase_of(const char *word)
{
	for (int p = 0; p <= PHASE_PLAN; p++)
		if (!strcmp(word, phase_name(p)))
			return p;
	return -1;
}

static enum outcome outcome_of(const char *word)
{
	for (int o = 0; o < NUM_OUTCOMES; o++)
		if (!strcmp(word, outcome_name((enum outcome)o)))
			return (enum outcome)o;
	return NUM_OUTCOMES;
}

/* The choices of a cell; of a plan two. */
static void variant_named(struct data *d, const struct store_cell *c, int is_plan,
			  struct variant *v)
{
	char part[2][MAX_PART_TEXT];
	int early = 0;
	*v = (struct variant){ .decode = -1 };
	if (!is_plan) {
		snprintf(part[0], sizeof part[0], "%s%s%s", c->kernel, *c->choice ? " " : "",
			 c->choice);
		v->choice = choice_index(d, part[0], &v->early);
		return;
	}
	if (!parts_parse(c->choice, part, &v->how)) {
		v->choice = NOT_LISTED;
		return;
	}
	v->choice = choice_index(d, part[0], &v->early);
	v->decode = choice_index(d, part[1], &early);
	if (v->early || early)
		v->choice = NOT_LISTED;
	else if (v->decode < 0)
		v->choice = v->choice < v->decode ? v->choice : v->decode;
}

static void find_variant(struct data *d, const struct store_cell *c, int is_plan, struct variant *v)
{
	struct scaffold *s = d->scaffold;
	const long long id = c->variant_id;
	v->choice = -1;
	if (id <= 0 || id > MAX_ID) {
		variant_named(d, c, is_plan, v);
		return;
	}
	if (!reach(&s->variant, &s->num_variants, id, sizeof *s->variant))
		return;
	if (s->variant[id].choice == -1)
		variant_named(d, c, is_plan, &s->variant[id]);
	*v = s->variant[id];
}

static int belongs(struct data *d, const struct store_cell *c)
{
	const size_t length = (size_t)gpu_length(d->gpu);
	if (strlen(c->gpu) != length || memcmp(c->gpu, d->gpu, length)) {
		complain("a cell of GPU '%s' among those of '%s'", c->gpu, d->gpu);
		return 0;
	}
	if (!d->protocol[0])
		snprintf(d->protocol, sizeof d->protocol, "%s", c->protocol);
	if (strcmp(c->protocol, d->protocol)) {
		complain("times by protocol '%s' and by '%s' cannot be compared; keep them in two "
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

/* A race ends for a choice as soon as it is seen to be slow. */
static int was_given_up(const char *stopped)
{
	static const char *const words[] = { "slow", "screen", "beaten" };
	return stopped && one_of(stopped, words, (int)COUNT(words)) < (int)COUNT(words);
}

static int stage_of(const char *stage)
{
	return stage ? one_of(stage, stage_names, NUM_STAGES) : STAGE_RACE;
}

static struct cell cell_of(const struct store_cell *c)
{
	return (struct cell){ .outcome = outcome_of(c->outcome),
			      .censored = was_given_up(c->stopped),
			      .us = c->median_us,
			      .median_us = c->median_us,
			      .min_us = c->min_us,
			      .ci_us = c->ci_us,
			      .gbps = c->gbps,
			      .tflops = c->tflops,
			      .joules = c->joules,
			      .ratio = c->ratio > 0 ? c->ratio : NAN,
			      .race = (int)(c->run * (NUM_STAGES + 1)) + stage_of(c->stage) };
}

int data_put_plan(struct data *d, const struct composed *plan)
{
	if (!array_grow(&d->plan, d->num_plans, &d->scaffold->plan_room, sizeof *d->plan))
		return 0;
	d->plan[d->num_plans++] = *plan;
	return 1;
}

int data_put_paced(struct data *d, const struct paced *paced)
{
	if (!array_grow(&d->paced, d->num_paced, &d->scaffold->paced_room, sizeof *d->paced))
		return 0;
	d->paced[d->num_paced++] = *paced;
	return 1;
}

int data_put_cell(struct data *d, int scenario, int phase, int choice, enum pass pass,
		  const struct cell *c)
{
	struct scaffold *s = d->scaffold;
	if (!array_grow(&d->cell, d->num_cells, &s->cell_room, sizeof *d->cell) ||
	    !array_grow(&s->place, d->num_cells, &s->place_room, sizeof *s->place))
		return 0;
	s->place[d->num_cells] =
	    (struct place){ scenario * NUM_PHASES + phase, choice * NUM_PASSES + (int)pass };
	d->cell[d->num_cells++] = *c;
	return 1;
}

/* To the plans, to what begins early and the same in turn, or to the cells. What begins early
 * by itself was not asked for. */
static int keep(struct data *d, const struct store_cell *from, int scenario, int phase,
		const struct variant *v, const struct cell *c)
{
	const enum pass pass = from->pass == 'B' ? PASS_B : PASS_A;
	if (phase == PHASE_PLAN)
		return data_put_plan(
		    d, &(struct composed){ scenario, v->choice, v->decode, v->how, pass, *c, 0 });
	if (from->pass == 'E')
		return data_put_paced(
		    d, &(struct paced){ scenario, v->choice, v->early, (enum phase)phase, *c });
	return v->early || data_put_cell(d, scenario, phase, v->choice, pass, c);
}

int data_add(struct data *d, const struct store_cell *c)
{
	const int phase = phase_of(c->phase);
	struct variant v;
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
	const int scenario = scenario_index(d, c);
	if (scenario < 0)
		return 0;
	find_variant(d, c, phase == PHASE_PLAN, &v);
	if (v.choice == NOT_LISTED) {
		d->ignored++;
		return 1;
	}
	return v.choice >= 0 && keep(d, c, scenario, phase, &v, &cell);
}

static void free_name(void *p)
{
	struct name *name = p;
	free(name->text);
	free(name);
}

void scaffold_free(struct data *d)
{
	struct scaffold *s = d->scaffold;
	if (!s)
		return;
	tdestroy(s->scenarios, free_name);
	tdestroy(s->choices, free_name);
	free(s->scenario);
	free(s->variant);
	free(s->place);
	free(s);
	d->scaffold = NULL;
}

static void found_free(struct found *f)
{
	if (f && f->v)
		f->free(f->v);
	free(f);
}

void data_free(struct data *d)
{
	if (!d)
		return;
	for (int i = 0; i < d->n; i++) {
		struct measured *m = &d->v[i];
		free(m->model);
		free(m->set);
		free(m->split);
		free(m->batch_text);
		free(m->layout);
		free(m->key);
		batch_free(m->batch);
	}
	scaffold_free(d);
	free(d->v);
	free(d->choice);
	free(d->plan);
	free(d->plan_at);
	free(d->paced);
	free(d->cell);
	free(d->row);
	free(d->key);
	free(d->shift);
	free(d->again);
	free(d->fastest);
	found_free(d->basics);
	free(d->notes);
	free(d->family);
	free(d->family_of);
	free(d->value);
	free(d->means);
	free(d);
}
