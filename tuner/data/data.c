/* SPDX-License-Identifier: Apache-2.0 */
/* data.c - makes and frees struct data, the measurements of one GPU; adds scenarios and choices to
 * it, each once. */
#include "data.h"
#include "filling.h"
#include "harness/base/base.h"
#include "harness/scenario/scenario.h"
#include "harness/store/store.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/part.h"
#include "kernels/spec/space.h"
#include <math.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A scenario or a choice in the tables of tsearch. */
struct name {
	char *text;
	/* early: the value of a choice's early axis; its index is then that of the choice without
	 * it */
	int index, early;
};

const char *phase_name(int phase)
{
	static const char *const names[] = { "all", "prefill", "decode", "plan" };
	return names[phase];
}

int phase_named(const char *word)
{
	for (int p = 0; p <= PHASE_PLAN; p++)
		if (!strcmp(word, phase_name(p)))
			return p;
	return -1;
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
	d->units = run->device.units;
	snprintf(d->arch, sizeof d->arch, "%s", run->device.arch);
	for (int b = 0; b < NOISE_BANDS; b++)
		d->noise.floor[b] = NOISE_FLOOR / 1e6;
	d->run.device.backend = strcmp(gpu, "cpu") ? BACKEND_GPU : BACKEND_CPU;
	return d;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(((const struct name *)a)->text, ((const struct name *)b)->text);
}

/* The entry of `text`; a new one gets index -1. NULL without memory. */
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

/* Identifies a scenario; scenarios are sorted by it. */
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
	d->v[d->n++] = m;
	if (m.model && m.set && m.split && m.batch_text && m.layout && m.key)
		return d->n - 1;
	complain("out of memory");
	return -1;
}

/* 0: learned from. A scenario of two splits belongs to the one of higher rank. */
static int split_rank(const char *split)
{
	return split_is_gate(split) ? 1 : split_is_held_out(split) ? 2 : 0;
}

/* A scenario of several sets is held out if any of them holds it out, and has the largest of their
 * weights. */
static int join_sets(struct measured *m, const struct store_cell *c)
{
	if (c->weight > m->weight)
		m->weight = c->weight;
	if (split_rank(c->split) <= split_rank(m->split))
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

int data_put_scenario(struct data *d, const struct store_cell *c)
{
	struct scaffold *s = d->scaffold;
	if (!c->scenario_id || c->scenario_id != s->last_id)
		s->last_scenario = scenario_named(d, c);
	s->last_id = c->scenario_id;
	return s->last_scenario;
}

int data_takes(const struct data *d, const struct kernel *k)
{
	return !k->plugin || !d->ours_only;
}

int data_find_text(struct data *d, const char *text, int *early)
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
	if (!c.kernel || !data_takes(d, c.kernel) ||
	    !config_parse(&c.config, c.kernel->space, text + n, &where))
		return name->index = NOT_LISTED;
	if (choice_early(&c)) {
		int none;
		name->early = *early = choice_early(&c);
		c.config.v[c.kernel->space->early_axis] = 0;
		choice_text(turn, sizeof turn, &c);
		return name->index = data_find_text(d, turn, &none);
	}
	if (!array_grow(&d->choice, d->num_choices, &d->scaffold->choice_room, sizeof *d->choice))
		return -1;
	d->choice[d->num_choices] = c;
	return name->index = d->num_choices++;
}

int data_put_choice(struct data *d, const struct choice *c)
{
	char text[MAX_CHOICE_TEXT];
	int early;
	choice_text(text, sizeof text, c);
	return data_find_text(d, text, &early);
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
	free(s);
	d->scaffold = NULL;
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
	free(d->early_launch);
	free(d->cell);
	free(d->row);
	free(d->shift);
	free(d->again);
	free(d->fastest);
	free(d->win);
	free(d->family);
	free(d->family_of);
	free(d->value);
	free(d->means);
	free(d);
}

int data_count_training(const struct data *d)
{
	int n = 0;
	for (int s = 0; s < d->n; s++)
		n += data_is_training(&d->v[s]);
	return n;
}

int measured_is_mixed(const struct measured *m)
{
	return m->has[PHASE_PREFILL] && m->has[PHASE_DECODE];
}

int floor_log2(long long v)
{
	int n = 0;
	while (v >>= 1)
		n++;
	return n;
}
