/* SPDX-License-Identifier: Apache-2.0 */
/* synthetic.h - synthetic measurements: cells from a smooth model of latency, so that tests of
 * the tuner know what to expect. */
#ifndef TESTS_SUPPORT_SYNTHETIC_H
#define TESTS_SUPPORT_SYNTHETIC_H

#include "harness/scenario/scenario.h"
#include "harness/store/store.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/part.h"
#include "kernels/spec/space.h"
#include "tuner/matrix/matrix.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const attune_shape llama = { .size = sizeof(attune_shape),
				    .num_query_heads = 32,
				    .num_kv_heads = 8,
				    .head_size = 128,
				    .page_size = 16,
				    .dtype = ATTUNE_BF16,
				    .kv_dtype = ATTUNE_BF16,
				    .causal = 1,
				    .has_new_kv = 1 };

static const struct run_info h200_run = { .device = { .name = "NVIDIA H200",
						      .gpu = "h200",
						      .arch = "sm_90",
						      .driver = "CUDA 13.0",
						      .backend = BACKEND_GPU,
						      .units = 132,
						      .lanes = 32,
						      .smem_per_block = 232448,
						      .smem_per_unit = 233472 },
					  .toolkit = "nvrtc 13.0",
					  .protocol = "graph-rotating" };

static const struct store_cell plain_cell = { .gpu = "h200",
					      .model = "llama3.1-8b@1",
					      .set = "synthetic",
					      .split = "train",
					      .batch = "q1s1k",
					      .phase = "decode",
					      .kernel = "qblock",
					      .outcome = "ok",
					      .protocol = "graph-rotating",
					      .dtype = "BF16",
					      .layout = "NHD",
					      .page_size = 16,
					      .weight = 1,
					      .median_us = 10,
					      .min_us = 9,
					      .ci_us = 0.01,
					      .gbps = 100,
					      .tflops = 1,
					      .joules = 0.001 };

static inline struct store_cell cell_like(const char *batch, const char *phase, const char *kernel,
					  const char *choice, double us)
{
	struct store_cell c = plain_cell;
	c.shape = llama;
	c.batch = batch;
	c.phase = phase;
	c.kernel = kernel;
	c.choice = choice;
	c.median_us = us;
	c.min_us = us * 0.98;
	return c;
}

/* The kernel's default choice with some tunables set: "BLOCK_M=32 SEGMENTS=8". Good
 * for the next 200 calls. */
static inline const char *with(const char *kernel, const char *set)
{
	static char kept[200][MAX_CHOICE_TEXT];
	static int n;
	const struct space *s = kernel_find(BACKEND_GPU, kernel)->space;
	struct config c;
	char axis[32];
	int value, read;
	config_default(&c, s);
	for (; sscanf(set, " %31[^=]=%d%n", axis, &value, &read) == 2; set += read)
		for (int i = 0; i < s->num_axes; i++)
			if (!strcmp(s->axis[i].name, axis))
				c.v[i] = value;
	char *text = kept[n++ % (int)COUNT(kept)];
	config_text(text, MAX_CHOICE_TEXT, &c, s);
	return text;
}

/* Kernel, and the axes that differ from its defaults. */
static const char *const synthetic_choices[][2] = {
	{ "qblock", "BLOCK_M=16 TILE_SIZE=32" },
	{ "qblock", "BLOCK_M=16 TILE_SIZE=64" },
	{ "qblock", "BLOCK_M=64 TILE_SIZE=64" },
	{ "qblock", "BLOCK_M=128 TILE_SIZE=64 NUM_WARPS=8" },
	{ "segmented", "BLOCK_M=16 TILE_SIZE=64 SEGMENTS=2" },
	{ "segmented", "BLOCK_M=16 TILE_SIZE=64 SEGMENTS=8" },
	{ "segmented", "BLOCK_M=16 TILE_SIZE=64 SEGMENTS=32" },
};

static inline int after_axis(const char *choice, const char *axis, int absent)
{
	const char *at = strstr(choice, axis);
	return at ? atoi(at + strlen(axis) + 1) : absent;
}

/* Waves of blocks over 132 units, each walking its share of the keys. */
static inline double synthetic_us(const struct part *p, const char *choice)
{
	const int block_m = after_axis(choice, "BLOCK_M", 16);
	const int segments = after_axis(choice, "SEGMENTS", 1);
	const double q_blocks = (double)part_q_blocks(p, block_m / 4) * 8;
	const double waves = ceil(q_blocks * segments / 132);
	const double keys = (double)p->f.mean_seq / segments;
	return 3 + waves * (1 + keys * (0.006 + 0.0001 * block_m)) + (segments > 1) * 2 +
	       0.02 * segments;
}

struct synthetic {
	char batch[48];
	const char *phase, *split;
	int choice;
	double us;
};

/* All cells of a set of decode, prefill and mixed batches; returns how many. */
static inline int synthetic_cells(struct synthetic *v, int room)
{
	static const int counts[] = { 1, 2, 4, 8, 16, 24, 32, 64, 128 };
	static const int lengths[] = { 512, 1024, 3072, 4096, 16384, 20000 };
	int n = 0, scenario = 0;
	for (size_t i = 0; i < COUNT(counts) * COUNT(lengths) * 3; i++) {
		const int kind = (int)(i % 3), count = counts[i / 3 % COUNT(counts)];
		const int length = lengths[i / 3 / COUNT(counts)];
		struct synthetic s = { .split = ++scenario % 4 ? "train" : "heldout" };
		char error[100];
		if (kind == 0)
			snprintf(s.batch, sizeof s.batch, "%dq1s%d", count, length);
		else if (kind == 1)
			snprintf(s.batch, sizeof s.batch, "%dq%d", count, length / 4);
		else
			snprintf(s.batch, sizeof s.batch, "q%d_%dq1s%d", length / 8, count, length);
		struct batch *b = batch_parse(s.batch, error, sizeof error);
		if (!b)
			abort();
		for (enum phase p = PHASE_ALL; p <= PHASE_DECODE; p++) {
			struct part part;
			if ((kind < 2 && p == PHASE_ALL) ||
			    !part_make(&part, p, &llama, &b->view, &h200_run.device))
				continue;
			for (size_t c = 0; c < COUNT(synthetic_choices) && n < room; c++) {
				if (after_axis(synthetic_choices[c][1], "SEGMENTS", 0) * 64 >=
				    2 * part.f.max_seq)
					continue;
				s.phase = phase_name((int)p);
				s.choice = (int)c;
				s.us = synthetic_us(&part, synthetic_choices[c][1]);
				v[n++] = s;
			}
		}
		batch_free(b);
	}
	return n;
}

static inline struct store_cell synthetic_cell(const struct synthetic *s)
{
	const char *const *choice = synthetic_choices[s->choice];
	struct store_cell c =
	    cell_like(s->batch, s->phase, choice[0], with(choice[0], choice[1]), s->us);
	c.split = s->split;
	return c;
}

/* A numerical recipe: the same numbers everywhere. */
static inline unsigned next_random(unsigned long long *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned)(*state >> 33);
}

/* The synthetic cells as data, inserted in an order that `seed` shuffles (0: not). */
static inline struct data *synthetic_data(unsigned long long seed)
{
	enum { ROOM = 4000 };
	struct synthetic *v = malloc(ROOM * sizeof *v);
	struct data *d = data_new("h200", &h200_run);
	const int n = v ? synthetic_cells(v, ROOM) : 0;
	for (int i = n - 1; seed && i > 0; i--) {
		const int j = (int)(next_random(&seed) % (unsigned)(i + 1));
		const struct synthetic t = v[i];
		v[i] = v[j];
		v[j] = t;
	}
	for (int i = 0; d && i < n; i++) {
		const struct store_cell c = synthetic_cell(&v[i]);
		if (!data_add(d, &c))
			abort();
	}
	free(v);
	if (!d || !data_finish(d))
		abort();
	snprintf(d->hash, sizeof d->hash, "%032d", 7);
	return d;
}

#endif
