/* SPDX-License-Identifier: Apache-2.0 */
/* two_gpus.h - two made-up GPUs with times by a formula, so that the best choice on each is
 * known. The second has 0.7 of the first's bandwidth and the same matrix rate, and runs kernel
 * `ring` 30 % slower than that explains. Include after cmocka.h and synthetic.h. */
#ifndef TESTS_SUPPORT_TWO_GPUS_H
#define TESTS_SUPPORT_TWO_GPUS_H

#include "harness/scenario/scenario.h"
#include "harness/store/store.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/policy/policy.h"

struct made_up_gpu {
	const char *gpu;
	double bandwidth, ring; /* relative to the first's; time of ring over its expected time */
};
static const struct made_up_gpu first_gpu = { "h200", 1, 1 }, second_gpu = { "h100", 0.7, 1.3 };

enum { MOST_CHOICES = 64 };
struct world {
	struct choice choice[MOST_CHOICES];
	char text[MOST_CHOICES][MAX_CHOICE_TEXT];
	int n;
};

static inline void world_add(struct world *w, const char *kernel, const char *set)
{
	struct choice *c = &w->choice[w->n];
	char both[MAX_CHOICE_TEXT];
	const char *where;
	assert_true(w->n < MOST_CHOICES);
	snprintf(w->text[w->n], MAX_CHOICE_TEXT, "%s", with(kernel, set));
	c->kernel = kernel_find(BACKEND_GPU, kernel);
	snprintf(both, sizeof both, "%s", w->text[w->n]);
	assert_true(config_parse(&c->config, c->kernel->space, both, &where));
	w->n++;
}

static inline struct world world_of_choices(void)
{
	static const char *const qblock[] = { "BLOCK_M=16 TILE_SIZE=32",
					      "BLOCK_M=16 TILE_SIZE=64",
					      "BLOCK_M=64 TILE_SIZE=64",
					      "BLOCK_M=64 TILE_SIZE=32",
					      "BLOCK_M=128 TILE_SIZE=64 NUM_WARPS=8",
					      "BLOCK_M=128 TILE_SIZE=32 NUM_WARPS=8" };
	static const int segments[] = { 1, 2, 4, 8, 16, 32 };
	struct world w = { .n = 0 };
	char set[80];
	for (size_t i = 0; i < COUNT(qblock); i++)
		world_add(&w, "qblock", qblock[i]);
	for (size_t i = 0; i < COUNT(segments); i++)
		for (int tile = 32; tile <= 64; tile *= 2) {
			snprintf(set, sizeof set, "BLOCK_M=16 TILE_SIZE=%d SEGMENTS=%d", tile,
				 segments[i]);
			world_add(&w, "segmented", set);
			snprintf(set, sizeof set, "SEGMENTS=%d NUM_WARPS=%d", segments[i],
				 tile / 16);
			world_add(&w, "ring", set);
		}
	return w;
}

/* Waves of blocks, two to a unit, each through its share of the keys at the slower of the
 * memory's and the matrix units' rates. */
static inline double model_us(const struct made_up_gpu *g, const struct part *p,
			      const struct choice *c)
{
	const struct space *s = c->kernel->space;
	const int block_m = config_value(&c->config, s, "BLOCK_M", 16);
	const int segments = config_value(&c->config, s, "SEGMENTS", 1);
	const int tile = config_value(&c->config, s, "TILE_SIZE", 32);
	const int warps = config_value(&c->config, s, "NUM_WARPS", 4);
	const int is_ring = !strcmp(c->kernel->name, "ring");
	const double q_blocks = (double)part_q_blocks(p, block_m > 4 ? block_m / 4 : 1) * 8;
	const double waves = fmax(1, q_blocks * segments / 264);
	const double keys = (double)p->f.mean_seq / segments;
	const double memory = 0.004 / g->bandwidth;
	const double matrix = (0.00004 + 0.0004 / tile / warps) * block_m;
	const double latency = (is_ring ? 0.7 : 1.2) + 0.004 * tile;
	const double us = 3 + waves * (latency + keys * fmax(memory, matrix)) +
			  (segments > 1) * (is_ring ? 1 : 2) + 0.03 * segments;
	return us * (is_ring ? 0.93 * g->ring : 1);
}

/* A scenario by its number: decodes, prompts and both, at random. */
static inline const char *world_batch(int number)
{
	static char text[64];
	unsigned long long state = 77 + 1000003ull * (unsigned)number;
	next_random(&state);
	const int count = 1 << next_random(&state) % 8;
	const int length = (int)(256 * exp(next_random(&state) % 1000 / 1000.0 * 4.6));
	const int chunk = (int)(64 * exp(next_random(&state) % 1000 / 1000.0 * 3.5));
	if (number % 3 == 0)
		snprintf(text, sizeof text, "%dq1s%d", count, length);
	else if (number % 3 == 1)
		snprintf(text, sizeof text, "%dq%ds%d", 1 + count % 5, chunk, chunk + length / 8);
	else
		snprintf(text, sizeof text, "q%d_%dq1s%d", chunk, count, length);
	return text;
}

struct asked { /* the cells that are measured */
	const struct made_up_gpu *gpu;
	const struct world *world;
	const char *measured; /* [world.n] whether a choice is; NULL: all are */
	double noise;         /* standard deviation of a time's log */
};

static inline double noisy(double us, double noise, unsigned long long *state)
{
	double sum = 0;
	for (int i = 0; i < 12; i++)
		sum += next_random(state) / 2147483648.0;
	return us * exp(noise * (sum - 6));
}

static inline void add_world_scenario(struct data *d, const struct asked *a, int number,
				      const char *split)
{
	char error[100], text[64];
	unsigned long long state = 9 + (unsigned)number + 7919ull * (unsigned)a->gpu->gpu[1];
	snprintf(text, sizeof text, "%s", world_batch(number));
	struct batch *b = batch_parse(text, error, sizeof error);
	assert_non_null(b);
	for (enum phase p = PHASE_ALL; p <= PHASE_DECODE; p++) {
		struct part part;
		if (!part_make(&part, p, &llama, &b->view, &d->run.device) ||
		    (p == PHASE_ALL && number % 3 < 2))
			continue;
		for (int c = 0; c < a->world->n; c++) {
			const struct choice *k = &a->world->choice[c];
			if ((a->measured && !a->measured[c]) ||
			    k->kernel->space->why_illegal(&k->config, &llama, &part,
							  &d->run.device))
				continue;
			struct store_cell cell =
			    cell_like(text, phase_name((int)p), k->kernel->name, a->world->text[c],
				      noisy(model_us(a->gpu, &part, k), a->noise, &state));
			cell.gpu = a->gpu->gpu;
			cell.split = split;
			cell.ratio = NAN;
			assert_true(data_add(d, &cell));
		}
	}
	batch_free(b);
}

static inline struct data *world_data(const struct made_up_gpu *g)
{
	struct run_info run = h200_run;
	snprintf(run.device.gpu, sizeof run.device.gpu, "%s", g->gpu);
	return data_new(g->gpu, &run);
}

/* Time of a decided plan, by the formula. */
static inline double world_us(const struct made_up_gpu *g, const struct measured *m,
			      const struct decided *made)
{
	if (!made->join)
		return model_us(g, &m->part[PHASE_ALL], &made->prefill);
	return (m->has[PHASE_PREFILL] ? model_us(g, &m->part[PHASE_PREFILL], &made->prefill) : 0) +
	       (m->has[PHASE_DECODE] ? model_us(g, &m->part[PHASE_DECODE], &made->decode) : 0);
}

/* The least time of any rules for a batch: each part by a choice of its own, or one launch. */
static inline double world_best(const struct made_up_gpu *g, const struct world *w,
				const struct measured *m, const struct device_info *d)
{
	double best[NUM_PHASES] = { INFINITY, INFINITY, INFINITY };
	for (int p = PHASE_ALL; p <= PHASE_DECODE; p++)
		for (int c = 0; (p == PHASE_ALL || m->has[p]) && c < w->n; c++)
			if (!w->choice[c].kernel->space->why_illegal(&w->choice[c].config,
								     &m->shape, &m->part[p], d))
				best[p] = fmin(best[p], model_us(g, &m->part[p], &w->choice[c]));
	return fmin(best[PHASE_ALL], (m->has[PHASE_PREFILL] ? best[PHASE_PREFILL] : 0) +
					 (m->has[PHASE_DECODE] ? best[PHASE_DECODE] : 0));
}

/* Geometric mean slowdown of a forest on the scenarios of a split, by the formula; worst: or
 * NULL. */
static inline double world_slowdown(const struct made_up_gpu *g, const struct world *w,
				    const struct data *d, const struct forest *f, const char *split,
				    double *worst)
{
	double logs = 0, most = 1;
	int n = 0;
	for (int s = 0; s < d->n; s++) {
		struct decided made;
		if (!in_split(&d->v[s], split))
			continue;
		forest_make(d, f, &d->v[s], &made);
		const double slow =
		    world_us(g, &d->v[s], &made) / world_best(g, w, &d->v[s], &d->run.device);
		logs += log(slow);
		most = fmax(most, slow);
		n++;
	}
	if (worst)
		*worst = most;
	return exp(logs / n);
}

/* Choices that are best or within 2 % of it in a part of some training scenario of the data. */
static inline void world_portfolio(const struct world *w, const struct data *d, char *measured)
{
	memset(measured, 0, (size_t)w->n);
	for (int s = 0; s < d->n; s++)
		for (int p = 0; p < NUM_PHASES; p++) {
			int best;
			if (!data_is_training(&d->v[s]) || !d->v[s].has[p])
				continue;
			data_best(d, s, (enum phase)p, &best);
			for (int c = 0; best >= 0 && c < w->n; c++)
				measured[c] |= (char)choice_same(&w->choice[c], &d->choice[best]);
		}
}

#endif
