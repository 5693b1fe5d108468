/* SPDX-License-Identifier: Apache-2.0 */
/* no_kernel.c - the messages for shapes that attune_prepare refuses. */
#include "no_kernel.h"
#include "kernels/device/shared/gpu_names.h"
#include "kernels/ship/shipped.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/status.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether the library carries code for this device, of any shape. */
static int carries_code_for(const struct device *d)
{
	for (int i = 0; i < attune_num_shipped; i++) {
		const struct shipped *s = &attune_shipped[i];
		if (shipped_for(d, s->kernel, s->flags))
			return 1;
	}
	return 0;
}

enum { LARGEST_HEAD = 512 };

/* Writes ": head sizes 64, 80 ... are carried": those for which the library has attention kernels
 * on the device and with the shape's type. Writes nothing if the shape's head size is one of
 * them. */
static void carried_sizes(char *text, size_t size, const struct device *d,
			  const attune_shape *shape)
{
	char has[LARGEST_HEAD + 1] = { 0 }, flag[32];
	if ((unsigned)shape->dtype > ATTUNE_BF16)
		return;
	snprintf(flag, sizeof flag, " -DDTYPE=%s", dtype_name(shape->dtype));
	for (const struct shipped *s = attune_shipped; s < attune_shipped + attune_num_shipped;
	     s++) {
		const struct kernel *k = kernel_find(s->backend, s->kernel);
		const char *at = strstr(s->flags, "-DHEAD_SIZE="), *of = strstr(s->flags, flag);
		const int head = at ? atoi(at + strlen("-DHEAD_SIZE=")) : 0;
		if (head > 0 && head <= LARGEST_HEAD && !has[head] && of && k && k->selectable)
			has[head] = shipped_for(d, s->kernel, s->flags) != NULL;
	}
	size_t n = 0;
	if (shape->head_size >= 0 && shape->head_size <= LARGEST_HEAD && has[shape->head_size])
		return;
	for (int i = 0; i <= LARGEST_HEAD && n < size; i++)
		if (has[i])
			n += (size_t)snprintf(text + n, size - n, "%s%d",
					      n ? ", " : ": head sizes ", i);
	snprintf(text + n, n < size ? size - n : 0, "%s", n ? " are carried" : "");
}

enum attune_status no_kernel(const attune_context *ctx, const attune_shape *shape)
{
	const struct device_info *d = &ctx->device.info;
	const int odd_pages = shape->kv_dtype == ATTUNE_E4M3 && shape->page_size % 8;
	char sizes[160] = "", pages[32] = "";
	if (!carries_code_for(&ctx->device))
		return fail(ATTUNE_UNSUPPORTED, "no kernel is carried for %s (%s)%s", d->arch,
			    d->name, d->backend == BACKEND_CPU ? "" : "; " GPUS_SERVED);
	if (odd_pages)
		snprintf(pages, sizeof pages, ", pages of %d tokens", shape->page_size);
	else
		carried_sizes(sizes, sizeof sizes, &ctx->device, shape);
	return fail(ATTUNE_UNSUPPORTED,
		    "no kernel for head size %d, %s queries and %s cache%s%s%s on %s%s",
		    shape->head_size, dtype_name(shape->dtype), dtype_name(shape->kv_dtype),
		    shape->kv_layout == ATTUNE_KV_CLASSIC ? " in the classic layout" : "", pages,
		    shape->has_lse ? ", with LSE," : "", ctx->name,
		    odd_pages ? ": pages of an E4M3 cache are multiples of 8 tokens" : sizes);
}

enum attune_status odd_shape(const attune_context *ctx, const attune_shape *shape,
			     const char *error)
{
	char sizes[160] = "";
	if (shape->head_size < 8 || shape->head_size > LARGEST_HEAD)
		carried_sizes(sizes, sizeof sizes, &ctx->device, shape);
	return fail(ATTUNE_INVALID, "attune_prepare: %s%s", error, sizes);
}
