/* SPDX-License-Identifier: Apache-2.0 */
/* device.h - struct device and struct device_ops, the operations of each backend.
 *
 * Plans are made and run by open .. launch. The harness and attune_settle also use graphs: launches
 * between graph_begin and graph_end are recorded; graph_play runs them all and measures the time on
 * the device (a CUDA graph between two events; on the CPU a list of grids under the clock). On a GPU
 * only launches on the device's own stream are recorded, on the CPU those of all threads. */
#ifndef KERNELS_DEVICE_DEVICE_H
#define KERNELS_DEVICE_DEVICE_H

#include "kernels/attune.h"
#include "kernels/device/shared/gpu_names.h"

struct conditions;
struct device_use;
struct code; /* a loaded kernel */
struct attune_args;
struct attune_map;
struct geometry;
struct shipped;
struct graph;

/* The input of a map (args_maps.h): K or V of a cache. Strides in elements. */
struct map_view {
	const void *base;
	enum attune_dtype dtype;
	int head_size, num_heads, box;
	int group_slots; /* from one group to the next: 8, or 1 where each box is a page */
	long long slot_stride, head_stride;
	/* For warpgroup_ragged: the slots that the map has, in boxes of 8. 0 for other kernels. */
	long long num_slots;
};

/* A binary, ready to load: a cubin or a fatbin, an AMD code object, or on the CPU either a shared
 * object (path) or a function linked in. */
struct blob {
	const void *data;
	size_t size;
	const char *path;
	void (*cell)(const struct attune_args *, int x, int y, int z);
	const char *entry; /* symbol: entry_name() of kernel and flags */
};

struct device {
	const struct device_ops *ops;
	struct device_info info;
	void *state;
};

/* Operations return an enum attune_status and set attune_last_error. */
struct device_ops {
	const char *name; /* "cuda", "hip", "cpu" */
	enum attune_status (*open)(struct device *, const char *which);
	void (*close)(struct device *);
	enum attune_status (*alloc)(struct device *, void **mem, size_t bytes);
	void (*release)(struct device *, void *mem);
	enum attune_status (*put)(struct device *, void *dst, const void *src, size_t bytes);
	enum attune_status (*get)(struct device *, void *dst, const void *src, size_t bytes);
	enum attune_status (*fill)(struct device *, void *dst, int byte, size_t bytes);
	enum attune_status (*load)(struct device *, struct code **, const struct blob *);
	void (*unload)(struct device *, struct code *);
	/* The binary of a kernel with these flags, for devices with binaries of their own. NULL:
	 * the library's binaries are searched (shipped_for). */
	const struct shipped *(*find)(const struct device *, const char *kernel, const char *flags);
	/* `args`: one struct by value. Asynchronous on a GPU. */
	enum attune_status (*launch)(struct device *, const struct code *, const struct geometry *,
				     const void *args, size_t args_bytes, void *stream);
	/* The same, but it may begin before the preceding launch is over: its code itself waits for
	 * that one's writes. NULL: not supported. */
	enum attune_status (*launch_early)(struct device *, const struct code *,
					   const struct geometry *, const void *args,
					   size_t args_bytes, void *stream);
	/* fork: *side is a stream that waits for all launches so far on `stream`; its first launch
	 * begins before the next one on `stream`. *side is `stream` itself if no stream is free.
	 * join: `stream` waits for all launches on the side; every fork must be joined. Neither
	 * allocates, and both may be captured. */
	enum attune_status (*fork)(struct device *, void *stream, void **side);
	enum attune_status (*join)(struct device *, void *stream, void *side);
	/* Calls with the device's context current, and leaves the caller's as it was. NULL: there
	 * are no contexts. */
	enum attune_status (*within)(struct device *, void (*call)(void *), void *arg);
	/* Computes a map on the host; allocates nothing. NULL: not supported. */
	enum attune_status (*map)(struct device *, struct attune_map *, const struct map_view *);
	/* Whether so many bytes from an address on are memory of one allocation. Neither allocates
	 * nor synchronises. NULL: not known. */
	int (*goes_on)(struct device *, const void *from, size_t bytes);
	/* Writes zeros, in stream order; capturable on a GPU. */
	enum attune_status (*clear)(struct device *, void *mem, size_t bytes, void *stream);
	/* Whether launches on the stream are being captured into a graph. */
	int (*capturing)(struct device *, void *stream);
	enum attune_status (*wait)(struct device *, void *stream);
	void *(*stream)(struct device *); /* the device's own stream */
	/* The resources that the compiler assigned to the code; 0 on the CPU. */
	void (*resources)(const struct code *, int *registers, int *spill_bytes, int *smem_static);

	enum attune_status (*graph_begin)(struct device *);
	enum attune_status (*graph_end)(struct device *, struct graph **);
	enum attune_status (*graph_play)(struct device *, struct graph *, double *ns);
	void (*graph_free)(struct device *, struct graph *);
	/* Time on the device between two places of its own stream; time_end waits for the second.
	 * NULL: launches return when they are done, so the host's clock serves. */
	enum attune_status (*time_begin)(struct device *);
	enum attune_status (*time_end)(struct device *, double *ns);
	/* The library's devices have none of these: harness/machine/sensors.c adds them. */
	/* Takes microseconds: it is called between samples. */
	void (*conditions)(struct device *, struct conditions *);
	/* A running counter of energy; 0: not known. Reading it takes 4 ms on an H200. NULL:
	 * none. */
	double (*joules)(struct device *);
	/* Too slow to call between samples. NULL: not supported. */
	void (*use)(struct device *, struct device_use *);
};

extern const struct device_ops cpu_ops, cuda_ops, hip_ops;

/* CPU only: the smallest share of the last graph_play's wall time that any of its threads ran.
 * Below 0.985 another program ran in between, and the sample is void. */
double cpu_last_play_share(const struct device *);
/* CPU only: how many threads compute at a time: info.units, or the number of CPUs that the process
 * may use if that is smaller. */
int cpu_computing(const struct device *);
/* CPU only: runs work(arg, i) for each i below n as a launch runs its cells, also while a graph is
 * recorded. */
enum attune_status cpu_cells(struct device *, void (*work)(void *arg, size_t i), void *arg,
			     size_t n);
/* CPU only: runs work(arg, i) for each i below n on the threads of `device`, a struct device. n up
 * to the number of threads run at a time. */
void cpu_run(void *device, void (*work)(void *arg, size_t i), void *arg, size_t n);
/* Compiler flags for kernels/cpu: cc FLAGS -shared -fPIC -Ikernels ...; NULL: unknown arch. */
const char *cpu_compile_flags(const char *arch);

/* `which`: as in attune_open. On failure *dev is closed. */
enum attune_status device_open(struct device *dev, const char *which);
void device_close(struct device *dev);

#endif
