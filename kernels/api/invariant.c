/* invariant.c - the choices of batch-invariant mode: for each phase one that shape and device alone
 * decide.
 *
 * A row of the output has the same bits in every batch if its kernel
 *
 *   - cuts no keys into segments: how many are worth it depends on the batch, and one order of sums
 *     must hold for all;
 *   - counts Q blocks from the sequence's first query token, so that a row has the same neighbours
 *     always;
 *   - computes a Q block from its own sequence alone, whichever block or thread runs it.
 *
 * The kernels below do, at one segment. ring_list deals keys by the whole batch. classic_v2 has
 * partials only where the batch's longest sequence needs a second partition. Fused kernels run both
 * phases, so each phase would need them in batches of its own, too. */
#include "invariant.h"
#include "kernels/ship/shipped.h"
#include <stdlib.h>
#include <string.h>

enum attune_status invariant_read(int *is_invariant)
{
	const char *text = getenv("ATTUNE_INVARIANT");
	*is_invariant = text && !strcmp(text, "1");
	if (!text || !*text || *is_invariant || !strcmp(text, "0"))
		return ATTUNE_OK;
	return fail(ATTUNE_INVALID, "ATTUNE_INVARIANT is \"%s\": 0 or 1 is expected", text);
}

/* In order; the CPU has qblock and segmented alone. Other kernels follow for what the one before
 * does not take: qblock for GPUs other than sm_90, ring for LSE and E4M3, classic_v1 for its
 * layout. */
enum { MOST_KERNELS = 4 };
static const char *const prefill_kernels[MOST_KERNELS] = { "warpgroup", "qblock" };
static const char *const decode_kernels[MOST_KERNELS] = { "segmented", "ring", "classic_v1" };

/* Values under which the batch decides nothing. */
static const struct {
	const char *axis;
	int value;
} fixed[] = { { "SEGMENTS", 1 }, { "COMBINE", 0 }, { "SPARE_UNITS", 0 }, { "EARLY", 0 } };

static void fix(struct config *c, const struct space *s)
{
	for (int i = 0; i < s->num_axes; i++)
		for (size_t k = 0; k < COUNT(fixed); k++)
			if (!strcmp(s->axis[i].name, fixed[k].axis))
				c->v[i] = fixed[k].value;
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
			fix(&out->config, out->kernel->space);
			return 1;
		}
	}
	return 0;
}
