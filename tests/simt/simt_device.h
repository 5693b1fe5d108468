/* SPDX-License-Identifier: Apache-2.0 */
/* simt_device.h - the emulated GPU as a device: an H200 of few units, or an MI300X. */
#ifndef TESTS_SIMT_SIMT_DEVICE_H
#define TESTS_SIMT_SIMT_DEVICE_H

#include "kernels/device/device.h"
#include "simt.h"
#include <stdint.h>

extern const struct device_ops simt_ops;

/* units: number of SMs; seed: 0, or of the order of turns. */
enum attune_status simt_open(struct device *, int units, unsigned seed);
/* Sets the GPU that it emulates from now on; code loaded later uses that one's dialect. */
enum simt_gpu { SIMT_H200, SIMT_MI300X };
void simt_pose(struct device *, enum simt_gpu);
extern const struct device_info simt_poses[];
/* Sets what it reports from now on. */
void simt_set(struct device *, int units, unsigned seed);
/* The work of the launch in front of an early one: writes up to `room` pieces of memory to v and
 * returns their number. Unless it is set, early launches run in turn. */
enum { SIMT_MOST_PENDING = 8192 };
typedef int simt_front(struct simt_pending *v, int room, const void *args);
void simt_say_front(struct device *, simt_front *);
/* CPU time of a launch, from now on. */
void simt_give_up_after(struct device *, int seconds);
/* Code of a source below B/simt, or of a whole path, which is compiled when it is first
 * launched. */
enum attune_status simt_load(struct device *, struct code **, const char *source,
			     const char *flags);
/* Compiles the code that lacks it, side by side. */
enum attune_status simt_compile(struct code *const *, int n);

/* ---- code that somebody else runs, with this device's memory and graphs --------------------- */

struct simt_foreign {
	enum attune_status (*run)(struct device *, void *theirs, const struct geometry *,
				  const void *args, size_t args_bytes, const struct simt_options *);
	void (*free)(void *theirs);
};
enum attune_status simt_load_foreign(struct code **, const struct simt_foreign *, void *theirs);
/* The allocation that contains an address; 0: none. */
int simt_find(const struct device *, uintptr_t address, uintptr_t *begin, uintptr_t *end);

#endif
