/* SPDX-License-Identifier: Apache-2.0 */
/* stand_in.h - a library with the calls of kernels/device/hip/api.def and no GPU. Two kernels in C are
 * for t_hip_runs.c; those of kernels/gpu it runs by fibers (tests/simt), once its hipRTC has
 * compiled them, as t_amd_tune.sh has it. What it pretends comes from the environment, which
 * hipGetDeviceCount reads:
 *
 *   STAND_IN_CHIP   a row of chips.c: "MI300X"; there are two of it, and their names say that
 *                   they are emulated. "small": few units and little memory, for fibers
 *   STAND_IN_FAULT  "no device", "invalid device", "none counted"; "old": a runtime that knows
 *                   no number of dies; "memory N": the Nth allocation from then on fails, "event
 *                   N" likewise; "capture": what is launched into one is refused;
 *                   "lost FILE": while FILE exists, the device is gone
 *
 * Work is done as late as it may be: a stream's when someone waits for it, and then of other
 * streams no more than it waits for itself. So what nobody waited for is missing. */
#ifndef TESTS_HIP_STAND_IN_H
#define TESTS_HIP_STAND_IN_H

#include <stddef.h>

#define HIP_FN(ours, symbol, arguments) int symbol arguments;
#include "kernels/device/hip/api.def"
#undef HIP_FN
const char *hipGetErrorString(int error);

/* Memory, streams, events, modules and graphs that were made and not destroyed. */
int stand_in_live(void);
/* The first misuse since the last call; "": none. */
const char *stand_in_misuse(void);

/* ---- between the files of the library --------------------------------------------------- */

enum {
	INVALID_VALUE = 1,
	OUT_OF_MEMORY = 2,
	NO_DEVICE = 100,
	INVALID_DEVICE = 101,
	INVALID_IMAGE = 200,
	NO_BINARY = 209,
	INVALID_HANDLE = 400,
	NOT_FOUND = 500,
	ILLEGAL_ADDRESS = 700,
	CAPTURE_UNSUPPORTED = 900,
	CAPTURE_INVALIDATED = 901,
	CAPTURE_MERGE = 902,
	CAPTURE_UNMATCHED = 903,
	CAPTURE_UNJOINED = 904,
	DEVICES = 2
};

enum kind { MEMORY, STREAM, EVENT, MODULE, GRAPH, EXEC };

/* The head of all that has a handle. It stays when it is destroyed, so that a use after that is
 * seen. */
struct object {
	enum kind kind;
	int alive, device;
	struct object *next;
};
void *object_new(enum kind, size_t bytes);
/* NULL, and noted as misuse: of another kind, destroyed, or of another device. */
void *object_check(void *handle, enum kind, const char *call);
int object_destroy(void *handle, enum kind, const char *call);
/* Sets the result of hipGetLastError and returns it. */
int failed(int error);
int misuse(int error, const char *call, const char *what);
int device_now(void);

/* Whether the Nth thing of this name is to fail now. */
int fault_due(const char *name);
int fault_is(const char *name);
int device_lost(void);

/* Whether all of it is memory of the device. */
int memory_has(const void *at, size_t bytes);
int lds_limit(void);
int chip_units(void);
const char *chip_arch(void);

/* A launch of a kernel's function with one argument, a struct by value. */
enum { MOST_ARGS = 512 };
struct grid {
	unsigned x, y, z, threads, smem;
	_Alignas(16) unsigned char args[MOST_ARGS];
};
struct module;
struct stand_in_kernel {
	const char *name;
	size_t args_bytes;
	int registers, local_bytes, lds_bytes;
	int (*run)(const struct module *, const struct grid *); /* an error */
};
struct module {
	struct object object;
	const struct stand_in_kernel *kernel;
	struct stand_in_kernel own; /* of fibers.c */
	const struct shipped *carried;
	void *library;
	const struct simt_kernel *fibers;
};

/* ---- fibers.c: the real kernels ----------------------------------------------------------- */

/* A source of kernels/gpu or harness and its -D flags as a code object, which is a text. 0: it
 * does not compile, and `log` has the reason. */
int fibers_compile(char *code, size_t size, char *log, size_t log_size, const char *source,
		   const char *arch, int num_options, const char *const *options);
/* "fibers for <arch>: <path>"; 0: another text or another chip, and *error is set. */
int fibers_load(struct module *, const char *text, int *error);
void fibers_unload(struct module *);
/* Code that the library carries is known by its bytes; it is compiled for fibers, of its source
 * and flags, when it is first launched: 0 where it does not compile. */
void fibers_carried(struct module *, const void *image);
int fibers_ready(struct module *);
/* Of the last launch that failed, one line. */
const char *fibers_error(void);

#endif
