/* SPDX-License-Identifier: Apache-2.0 */
/* invariant.c - the choices of batch-invariant mode: for each phase one that shape and device alone
 * decide, and its number of segments.
 *
 * A row of the output has the same bits in every batch if its kernel
 *
 *   - counts Q blocks from the sequence's first query token, so that a row has the same neighbours
 *     always;
 *   - computes a Q block from its own sequence alone, whichever block or thread runs it;
 *   - adds up its keys in an order that the sequence's own length decides.
 *
 * The kernels below do, at a fixed number of segments: each sequence's tiles go to segments by the
 * sequence's own length, and partials are merged in the order of segments.
 *
 *   8 segments of 3 tiles    | 0 | 1 | 2 |   |   |   |   |   |     the rest are empty
 *   of 20                    | 0  1 | 2  3  4 | ... | 17 18 19 |   each has 2 or 3
 *
 * Empty segments take time but change no bits: the merge gives them no weight. So a batch whose
 * sequences all have few tiles gets only as many segments as they need.
 *
 * ring_list deals keys by the whole batch. classic_v2 has partials only where the batch's longest
 * sequence needs a second partition. Fused kernels run both phases, so each phase would need them
 * in batches of its own, too. */
#include "invariant.h"
#include "kernels/ship/shipped.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include "kernels/spec/status.h"
#include <stdlib.h>
#include <string.h>

enum attune_status invariant_read(int *is_invariant)
{
	const char *text = secure_getenv("ATTUNE_INVARIANT");
	*is_invariant = text && !strcmp(text, "1");
	if (!text || !*text || *is_invariant || !strcmp(text, "0"))
		return ATTUNE_OK;
	return fail(ATTUNE_INVALID, "ATTUNE_INVARIANT is \"%s\": 0 or 1 is expected", text);
}

/* In order; the CPU has qblock and segmented alone. A kernel follows for what the ones before do
 * not take: qblock for GPUs other than sm_90 and for decodes of small heads, classic_v1 for its
 * layout. */
enum { MOST_KERNELS = 4 };
static const char *const prefill_kernels[MOST_KERNELS] = { "warpgroup", "qblock" };
static const char *const decode_kernels[MOST_KERNELS] = { "ring", "segmented", "classic_v1",
							  "qblock" };

/* Segments of a decode: so many that each sequence has 64 blocks on a GPU and 4 cells on a CPU,
 * where a segment costs more. A cluster has at most 8 blocks. */
static int decode_segments(const attune_shape *s, const struct device_info *d)
{
	enum { GPU_BLOCKS = 64, CPU_CELLS = 4, MOST_SEGMENTS = 8 };
	const int blocks = d->backend == BACKEND_CPU ? CPU_CELLS : GPU_BLOCKS;
	int segments = 1;
	while (segments < MOST_SEGMENTS && 2 * segments * s->num_kv_heads <= blocks)
		segments *= 2;
	return segments;
}

static void put(struct config *c, const struct space *s, const char *axis, int value)
{
	for (int i = 0; i < s->num_axes; i++)
		if (!strcmp(s->axis[i].name, axis))
			c->v[i] = value;
}

/* Sets the axes that the batch would decide. A cluster merges segments without a workspace; a
 * launch that merges them gives no LSE. */
static void fix(struct config *c, const struct space *s, enum phase phase,
		const attune_shape *shape, const struct device_info *d)
{
	put(c, s, "SPARE_UNITS", 0);
	put(c, s, "EARLY", 0);
	put(c, s, "SEGMENTS", phase == PHASE_DECODE ? decode_segments(shape, d) : 1);
	put(c, s, "COMBINE", 1);
	if (!s->why_illegal(c, shape, NULL, d))
		return;
	put(c, s, "COMBINE", 0);
	if (shape->has_lse)
		put(c, s, "SEGMENTS", 1);
}

static int num_fallbacks(void)
{
	int n = 0;
	while (attune_fallbacks[n].kernel)
		n++;
	return n;
}

/* Row `row` of the defaults, then of the device's measured choices, which need not be of kernel k:
 * 1 if it is, 0 if not, -1 behind the last. */
static int take_row(struct config *c, int row, const struct kernel *k, const struct selector *h)
{
	const int defaults = num_fallbacks();
	const char *where;
	if (row < defaults) {
		const struct fallback *f = &attune_fallbacks[row];
		if (strcmp(f->kernel, k->name))
			return 0;
		fallback_config(c, f, k->space);
		return 1;
	}
	if (!h || row - defaults >= h->num_choices)
		return -1;
	const struct selector_row *r = &h->choices[row - defaults];
	return !strcmp(r->kernel, k->name) && config_parse(c, k->space, r->text, &where);
}

int invariant_next(struct invariant_walk *w, const attune_shape *s, const struct device_info *d,
		   struct choice *out)
{
	const char *const *names = w->phase == PHASE_PREFILL ? prefill_kernels : decode_kernels;
	const struct selector *h = selector_for(d, s->kv_dtype);
	for (; w->kernel < MOST_KERNELS && names[w->kernel]; w->kernel++, w->row = 0) {
		int found = 0;
		out->kernel = kernel_find(d->backend, names[w->kernel]);
		while (out->kernel && !found)
			found = take_row(&out->config, w->row++, out->kernel, h);
		if (found > 0) {
			fix(&out->config, out->kernel->space, w->phase, s, d);
			return 1;
		}
	}
	return 0;
}

/* Fewest segments that give each sequence of the part the bits of choice c: where more would have
 * one tile each and the rest none. ring deals tiles to the warps of all segments in turn, and with
 * a window begins up to 7 keys early. With a launch that merges, one segment has other bits than
 * two: it alone writes the output itself. */
static int fewest(const struct config *c, const struct kernel *k, const attune_shape *shape,
		  const struct part *p, const struct device_info *d)
{
	const int warps = strcmp(k->name, "ring") ? 1 : config_value(c, k->space, "NUM_WARPS", 1);
	struct block_shape block;
	struct geometry g;
	block_shape_of(&block, c, k);
	k->space->geometry(c, shape, p, d, &g);
	const long long segments = parts_of(p->f.max_seq + 7, (long long)block.tile * warps);
	return (int)max_of(segments, g.segments > 1 ? 2 : 1);
}

const char *invariant_fitted(struct config *as, const struct config *c, const struct kernel *k,
			     const attune_shape *shape, const struct part *p,
			     const struct device_info *d)
{
	const int axis = k->space->formula_axis;
	*as = *c;
	if (axis < 0)
		return k->space->why_illegal(c, shape, p, d);
	/* The rules of more segments say what is worth a measurement, and bound the partials. */
	as->v[axis] = 1;
	const char *why = k->space->why_illegal(as, shape, p, d);
	const int *value = k->space->axis[axis].values, least = fewest(c, k, shape, p, d);
	while (as->v[axis] < least && as->v[axis] < c->v[axis])
		as->v[axis] = *++value;
	return why;
}
