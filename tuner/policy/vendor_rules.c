/* SPDX-License-Identifier: Apache-2.0 */
/* vendor_rules.c - the selection rules of vLLM's Triton backend and of aiter, applied to our
 * kernels: each rule's constants are mapped to the nearest legal choice. They are rules for GPUs;
 * neither engine's CPU kernels have these tunables.
 *
 *               vLLM's Triton backend              aiter
 *   one launch  for the whole batch, mixed or not  the same
 *   rows        16, or the group as a power of 2   the same; 128 for queries of 256 or more
 *   segments    16, when all queries are one       as many as give every unit 4 programs, a
 *               token and there are at most        power of 2, 8 to 128; none with a window,
 *               128 / KV heads sequences           for at most 512 keys, or when the launch
 *                                                  without them has 4 programs a unit
 *   tile        16 with segments, else 32          a page, at most 64; 64 for prefills
 *   warps       4 (3 stages: Triton's own)         2 with segments, else 4 (2 stages)
 *
 * vLLM: vllm/v1/attention/ops/triton_unified_attention.py and .../backends/triton_attn.py,
 * late 2026. aiter: aiter/ops/triton/attention/unified_attention.py, use_2d_kernel and the
 * program counts; segments and tiles as in its select_3d_config and select_2d_config before
 * they became JSON tables (pull request 5088, August 2026), which hold the same values. */
#include "policy.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include "tuner/data/data.h"
#include <math.h>

struct want {
	const char *axis;
	int value;
};
enum { WANTS = 5 };

static int next_power(int least, long long v)
{
	int p = least;
	while (p < v)
		p *= 2;
	return p;
}

/* Sum over the axes of |log2| of value / wanted value. */
static double distance(const struct choice *c, const struct want *want)
{
	double sum = 0;
	for (int i = 0; i < WANTS; i++) {
		const int v =
		    config_value(&c->config, c->kernel->space, want[i].axis, want[i].value);
		sum += v > 0 ? fabs(log2((double)v / want[i].value)) : 1;
	}
	return sum;
}

/* The nearest measured choice of a kernel; with scenario >= 0 only those measured there count. */
static int nearest(struct choice *out, const struct data *d, const struct measured *m, int scenario,
		   enum phase phase, const char *kernel, const struct want *want)
{
	const struct kernel *of = kernel_find(d->run.device.backend, kernel);
	double least = INFINITY;
	for (int c = 0; c < d->num_choices; c++) {
		const struct choice *k = &d->choice[c];
		if (k->kernel != of ||
		    k->kernel->space->why_illegal(&k->config, &m->shape, &m->part[phase],
						  &d->run.device) ||
		    (scenario >= 0 && !isfinite(data_part_time(d, scenario, phase, c))))
			continue;
		const double far = distance(k, want);
		if (far < least)
			*out = *k, least = far;
	}
	return isfinite(least);
}

static enum phase phase_of_all(const struct measured *m)
{
	return !m->has[PHASE_PREFILL]  ? PHASE_DECODE
	       : !m->has[PHASE_DECODE] ? PHASE_PREFILL
				       : PHASE_ALL;
}

/* One launch by the nearest choice: of `segmented` if split, of `qblock` if not or if it has none. */
static void one_launch(const struct data *d, const struct measured *m, int scenario, int split,
		       const struct want *want, struct decided *out)
{
	const enum phase phase = phase_of_all(m);
	struct choice c = { 0 };
	if (!split || !nearest(&c, d, m, scenario, phase, "segmented", want))
		nearest(&c, d, m, scenario, phase, "qblock", want);
	*out = (struct decided){ .join = 0 };
	*(m->has[PHASE_PREFILL] ? &out->prefill : &out->decode) = c;
}

void vllm_triton(const struct data *d, const struct measured *m, int scenario, struct decided *out)
{
	const struct attune_features *f = &m->part[PHASE_ALL].f;
	const int split = f->max_query == 1 && f->num_seqs <= 128 / f->num_kv_heads;
	const struct want want[WANTS] = { { "BLOCK_M", next_power(16, f->group) },
					  { "TILE_SIZE", split ? 16 : 32 },
					  { "NUM_WARPS", 4 },
					  { "NUM_STAGES", 3 },
					  { "SEGMENTS", 16 } };
	one_launch(d, m, scenario, split, want, out);
}

void aiter_rule(const struct data *d, const struct measured *m, int scenario, struct decided *out)
{
	enum { PER_UNIT = 4, LEAST_SEGMENTS = 8, MOST_SEGMENTS = 128, LARGE_QUERY = 256 };
	const struct attune_features *f = &m->part[PHASE_ALL].f;
	const int rows = next_power(16, f->group), decodes = f->max_query == 1;
	const long long tokens = rows / f->group;
	const long long q_blocks = f->num_seqs + (decodes ? 0 : f->query_tokens / tokens);
	const long long programs = q_blocks * f->num_kv_heads, target = PER_UNIT * f->units;
	const int split = !m->shape.window && f->max_seq > 512 && programs <= target;
	const int page = next_power(16, f->page_size), tile = page < 64 ? page : 64;
	const long long most = (f->max_seq + tile - 1) / tile;
	long long segments = (target + programs - 1) / programs;
	segments = segments > most ? most : segments;
	segments = segments < LEAST_SEGMENTS ? LEAST_SEGMENTS : next_power(1, segments);
	segments = segments > MOST_SEGMENTS ? MOST_SEGMENTS : segments;
	const struct want want[WANTS] = {
		{ "BLOCK_M", !split && f->max_query >= LARGE_QUERY && rows < 128 ? 128 : rows },
		{ "TILE_SIZE", split || decodes ? tile : 64 },
		{ "NUM_WARPS", split ? 2 : 4 },
		{ "NUM_STAGES", 2 },
		{ "SEGMENTS", (int)segments }
	};
	one_launch(d, m, scenario, split, want, out);
}
