/* SPDX-License-Identifier: Apache-2.0 */
/* nearest.c - which of the generated headers serves a device, and why in words. */
#include "selector.h"
#include "kernels/device/hip/hip.h"
#include "kernels/device/shared/gpu_names.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include <stdio.h>
#include <string.h>

int gpu_is_own(const char *gpu, const struct device_info *d)
{
	const size_t n = (size_t)gpu_length(gpu);
	return strlen(d->gpu) == n && !strncmp(gpu, d->gpu, n);
}

/* How a header's GPU is related to a device, worst first. */
enum relation {
	UNRELATED, /* its binaries do not run here */
	PORTABLE,  /* it is of no GPU */
	RUNS,      /* another architecture; its binaries run here */
	SAME_ARCH,
	WHOLE, /* the GPU that the device is a slice or a partition of */
	OWN
};

static enum relation relation_of(const char *gpu, const char *arch, const struct device_info *d)
{
	const struct gpu_model *whole = gpu_whole(d->gpu);
	if (!strcmp(gpu, PORTABLE_GPU))
		return runs_ptx(d) ? PORTABLE : UNRELATED;
	if (!strcmp(gpu, d->gpu))
		return OWN;
	if (!arch_runs(d->arch, arch))
		return UNRELATED;
	if (whole && !strcmp(gpu, whole->gpu))
		return WHOLE;
	return strcmp(d->arch, arch) ? RUNS : SAME_ARCH;
}

/* 1 where one is not known. */
static double ratio(double a, double b)
{
	return !(a > 0 && b > 0) ? 1 : a > b ? a / b : b / a;
}

/* Between two GPUs of one vendor: the product of the ratios of their units, DRAM bandwidths and
 * matrix rates. A device that is not in the table counts by its units alone; headers of GPUs that
 * are not in the table are all equally far. */
static double distance(const char *gpu, const struct device_info *d)
{
	const struct gpu_model *a = gpu_whole(gpu), *b = gpu_whole(d->gpu);
	if (!a)
		return 1e9;
	return ratio(a->units, d->units) *
	       (b ? ratio(a->dram_gbps, b->dram_gbps) * ratio(a->tflops, b->tflops) : 1);
}

/* The header for a device. Of equally near ones the first in the list. */
static const struct selector *nearest(const struct selector *list, int n,
				      const struct device_info *d, int of_e4m3,
				      enum relation *found)
{
	const struct selector *best = NULL;
	double least = 0;
	*found = UNRELATED;
	for (int i = 0; i < n; i++) {
		char gpu[GPU_NAME];
		const int length = gpu_length(list[i].gpu);
		if ((list[i].gpu[length] != '\0') != of_e4m3)
			continue;
		snprintf(gpu, sizeof gpu, "%.*s", length, list[i].gpu);
		const enum relation relation = relation_of(gpu, list[i].arch, d);
		const double far = distance(gpu, d);
		if (relation > *found || (best && relation == *found && far < least)) {
			best = &list[i];
			least = far;
			*found = relation;
		}
	}
	return best;
}

const struct selector *selector_among(const struct selector *list, int n,
				      const struct device_info *d, enum attune_dtype kv_dtype)
{
	enum relation relation;
	const struct selector *own =
	    kv_dtype == ATTUNE_E4M3 ? nearest(list, n, d, 1, &relation) : NULL;
	return own ? own : nearest(list, n, d, 0, &relation);
}

static const char *units_of(const struct device_info *d)
{
	return d->backend == BACKEND_CPU ? "threads" : strncmp(d->arch, "gfx", 3) ? "SMs" : "CUs";
}

/* "borrowed from h200 (132 SMs; here 114)" */
static int borrowed(char *text, size_t size, const struct selector *h, const struct device_info *d)
{
	const struct gpu_model *from = gpu_whole(h->gpu);
	int n = snprintf(text, size, "borrowed from %s", h->gpu);
	if (from && n >= 0 && (size_t)n < size)
		n += snprintf(text + n, size - (size_t)n, " (%d %s; here %d)", from->units,
			      units_of(d), d->units);
	return n >= 0 && (size_t)n < size ? n : (int)size - 1;
}

/* Whether the device is a part of the header's GPU: a MIG slice, or fewer units. An H100 with more
 * memory is not: it has the name of an H100 as well. */
static int is_part(const struct selector *h, const struct device_info *d)
{
	const struct gpu_model *whole = gpu_whole(h->gpu);
	return !whole || d->units < whole->units || strstr(d->gpu, "_mig_");
}

/* All CPUs have the name "cpu", so the header may be of another CPU than this one. */
static void own_why(char *text, size_t size, const struct selector *h, const struct device_info *d)
{
	char here[DEVICE_TEXT];
	device_text(here, d);
	if (strcmp(d->gpu, "cpu") || !h->device || !*h->device)
		snprintf(text, size, "measured on %s", d->gpu);
	else if (!strcmp(h->device, here))
		snprintf(text, size, "measured on %s", here);
	else
		snprintf(text, size, "borrowed: measured on %s; here %s", h->device, here);
}

/* Whether no kernel is for such a GPU. */
static int is_refused(const struct device_info *d)
{
	return strncmp(d->arch, "gfx", 3) ? !strncmp(d->arch, "sm_", 3) && !runs_ptx(d)
					  : !hip_chip(d->arch);
}

void selector_why(char *text, size_t size, const struct selector *list, int n,
		  const struct device_info *d)
{
	enum relation relation;
	const struct selector *h = nearest(list, n, d, 0, &relation);
	const int borrows = relation >= RUNS && relation < OWN;
	const int at = borrows ? borrowed(text, size, h, d) : 0;
	const size_t room = size - (size_t)at;
	switch (relation) {
	case UNRELATED:
		snprintf(text, room,
			 is_refused(d) ? "refused: no kernel is for %s; " GPUS_SERVED
				       : "the defaults, untimed: no header is for %s",
			 d->arch);
		break;
	case PORTABLE:
		snprintf(text, room,
			 "learned on %s, from choices that all NVIDIA GPUs from sm_80 on run; no "
			 "time is of %s",
			 h->device ? h->device : "another GPU", d->arch);
		break;
	case OWN: own_why(text, room, h, d); break;
	case WHOLE:
		snprintf(text + at, room, "%s",
			 is_part(h, d) ? ", of which this is a part"
				       : ", of which this is a variant");
		break;
	case SAME_ARCH: snprintf(text + at, room, ": the nearest of those for %s", d->arch); break;
	case RUNS: snprintf(text + at, room, ": %s runs binaries for %s", d->arch, h->arch); break;
	}
}

const struct selector *selector_portable(void)
{
	for (int i = 0; i < attune_num_selectors; i++)
		if (!strcmp(attune_selectors[i].gpu, PORTABLE_GPU))
			return &attune_selectors[i];
	return NULL;
}

const char *why_not_portable(const struct kernel *k, const struct config *c,
			     const attune_shape *shape)
{
	const struct device_info smallest = device_of_arch("ptx");
	return k->space->why_illegal(c, shape, NULL, &smallest);
}

const struct selector *selector_for(const struct device_info *d, enum attune_dtype kv_dtype)
{
	return selector_among(attune_selectors, attune_num_selectors, d, kv_dtype);
}

const char *selector_name(const struct device_info *d)
{
	const struct selector *h = selector_for(d, ATTUNE_BF16);
	return h ? h->gpu : "untuned";
}

const char *selector_gets(const struct selector *list, int n, const struct device_info *d)
{
	enum relation relation;
	nearest(list, n, d, 0, &relation);
	switch (relation) {
	case UNRELATED: return is_refused(d) ? "refused" : "defaults";
	case PORTABLE: return "portable";
	case OWN: return "own";
	case WHOLE:
	case SAME_ARCH:
	case RUNS: break;
	}
	return "nearest";
}
