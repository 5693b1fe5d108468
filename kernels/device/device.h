/* device.h - a machine that launches kernels, as a table of verbs.
 *
 * The library uses open .. launch. The harness adds the graph: launches made
 * between graph_begin and graph_end are kept, and graph_play runs them all and
 * says how long that took on the device (a CUDA graph between two events; on
 * the CPU a list of grids under the clock). */
#ifndef KERNELS_DEVICE_DEVICE_H
#define KERNELS_DEVICE_DEVICE_H

#include "kernels/device/shared/gpu_names.h"

struct conditions { /* now; 0: not known */
	double sm_mhz, power_w, temperature_c;
	double joules; /* running counter */
	int throttled; /* a reason other than idle is set */
};

/* What others do with a GPU. */
struct device_use {
	double busy;  /* share of the last second, about, that any kernel ran; 0: not known */
	int slowed;   /* by heat, or by a power supply that gives too little */
	int pids[4];  /* of processes that have it open to compute, without this one */
	int num_pids; /* of these, as many as are known */
};

struct code; /* a loaded kernel */
struct graph;

/* What a map is made of, as args_maps.h says: K or V of a cache. Strides in elements. */
struct map_view {
	const void *base;
	enum attune_dtype dtype;
	int head_size, num_heads, box;
	long long slot_stride, head_stride;
};

/* A binary, ready to load: a cubin, PTX, or on the CPU either a shared object
 * (path) or a function linked in. */
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

/* Verbs return an enum attune_status and leave text for attune_last_error. */
/* A place of a graph at which the device itself says which of n bodies it plays: one that
 * `decide` has launched before tells leaf.cu's handle. */
struct graph_switch {
	enum attune_status (*decide)(void *arg, unsigned long long handle);
	enum attune_status (*body)(void *arg, int i, void *stream);
	void *arg;
	int n;
};

/* Ways to ask for a launch, on streams of the device, by which `attune bench --host` tells what
 * they cost the host. Launches stand between a begin and an end, which waits for them. */
struct launch_ways {
	const char *(*name)(int way,
			    int *is_small); /* NULL after the last; its argument is a word */
	enum attune_status (*begin)(struct device *, int way);
	enum attune_status (*launch)(struct device *, int way, const struct code *,
				     const struct geometry *, const void *args);
	enum attune_status (*end)(struct device *, int way);
};

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
	/* `args`: one struct by value. Asynchronous on a GPU. */
	enum attune_status (*launch)(struct device *, const struct code *, const struct geometry *,
				     const void *args, size_t args_bytes, void *stream);
	/* The same, and it may begin before the launch in front of it is over: its code waits
	 * for that one's writes itself. NULL: this backend has no such thing. */
	enum attune_status (*launch_early)(struct device *, const struct code *,
					   const struct geometry *, const void *args,
					   size_t args_bytes, void *stream);
	/* *side: a stream that has waited for all that `stream` has so far, and whose first
	 * launch comes before what `stream` is given next; `stream` itself where there is
	 * none to spare. After join `stream` waits for all that the side was given. Neither
	 * allocates, and both may be captured. A fork is to be joined. */
	enum attune_status (*fork)(struct device *, void *stream, void **side);
	enum attune_status (*join)(struct device *, void *stream, void *side);
	/* By the host alone: nothing is allocated. NULL: this backend has no such thing. */
	enum attune_status (*map)(struct device *, struct attune_map *, const struct map_view *);
	const struct launch_ways *ways; /* NULL: there is but one */
	/* Zeros, in the order of the stream's launches; on a GPU capturable. */
	enum attune_status (*clear)(struct device *, void *mem, size_t bytes, void *stream);
	/* Whether what is launched now becomes a graph's instead of being run. */
	int (*capturing)(struct device *, void *stream);
	enum attune_status (*wait)(struct device *, void *stream);
	void *(*stream)(struct device *); /* the device's own stream */
	/* What the compiler gave this code: 0s on the CPU. */
	void (*resources)(const struct code *, int *registers, int *spill_bytes, int *smem_static);

	enum attune_status (*graph_begin)(struct device *);
	enum attune_status (*graph_end)(struct device *, struct graph **);
	enum attune_status (*graph_play)(struct device *, struct graph *, double *ns);
	void (*graph_free)(struct device *, struct graph *);
	/* Within a graph; NULL: this backend has no such thing. */
	enum attune_status (*graph_switch)(struct device *, const struct graph_switch *);
	void (*conditions)(struct device *, struct conditions *);
	/* Takes too long to be asked between samples. NULL: this backend has no such thing. */
	void (*use)(struct device *, struct device_use *);
};

extern const struct device_ops cpu_ops, cuda_ops, hip_ops;

/* The CPU only. The smallest share of the last graph_play's wall time that one of
 * its threads was given: below 0.985 another program ran in between and the
 * sample is worth nothing. */
double cpu_last_play_share(const struct device *);
/* The two ceilings now, to be taken in the same round as a sample: reading
 * memory (about 7 ms) and multiply-adds in registers (about 1 ms), all threads,
 * widest instructions. 0: not known, since other programs kept running in between
 * or there is no memory for it. */
double cpu_dram_gbps(struct device *);
double cpu_fma_gflops(struct device *);
/* For kernels/cpu sources: cc <these> -shared -fPIC -Ikernels ...; NULL: unknown arch. */
const char *cpu_compile_flags(const char *arch);

/* `which`: as in attune_open. On failure text is left and *dev is closed. */
enum attune_status device_open(struct device *dev, const char *which);
void device_close(struct device *dev);

#endif
