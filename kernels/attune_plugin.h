/* SPDX-License-Identifier: Apache-2.0 */
/* attune_plugin.h - the C ABI of a kernel that attune does not build: FlashAttention-3, FlashInfer,
 * one of your own. C11 and C++.
 *
 * A plug-in is a shared object that exports
 *
 *     const attune_plugin *const *attune_plugins(void);
 *
 * a list that ends with NULL and lives as long as the object. `attune --plugin FILE COMMAND` loads
 * it. Each of its kernels then races with attune's own: it is compared with the reference first,
 * timed in the same rounds on the same cold pages, and stored under its name and version. The
 * library runs attune's own kernels alone.
 *
 * The order of calls, for each shape and each set of tunables:
 *
 *     refuses        any time, without a device: what it cannot run is never asked for
 *     prepare        once: loads code, allocates what all batches need
 *       plan         once a batch, from its lengths on the host; all layers of a step share it
 *         store      only where the kernel's cache has a layout of its own; its time does not count
 *         launch     once a layer; also while a CUDA graph is captured
 *       free_plan
 *     free_op
 *
 * plan is like the planning step of an engine: it may allocate, copy to the device and synchronise,
 * and its time is measured beside that of launch. launch may not allocate or synchronise.
 *
 * A plug-in makes the device's primary context current itself (cudaSetDevice(device->ordinal) in
 * CUDA's runtime); the caller's is restored behind each call. Calls to a plug-in come from any
 * thread, and from one at a time, but `refuses`, which only answers.
 *
 * Functions that can fail return 0, or 1 after they wrote one line, what is wrong, to `error`,
 * which has room for ATTUNE_PLUGIN_ERROR bytes. */
#ifndef ATTUNE_PLUGIN_H
#define ATTUNE_PLUGIN_H

#include "attune.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Changes whenever a struct or the meaning of a call does. Plug-ins from ABI 4 on will run with
 * later versions, too, whose new members come behind those of before. Those of ABI 1 to 3 must be
 * compiled again with this header. */
enum { ATTUNE_PLUGIN_ABI = 4, ATTUNE_PLUGIN_ERROR = 200, ATTUNE_PLUGIN_AXES = 8 };

/* A tunable. A sweep tries its values. */
typedef struct attune_plugin_axis {
	const char *name;  /* "SPLITS": capitals, digits and '_'; 23 at most; but SPARE_UNITS */
	const char *about; /* "most splits of a sequence; 0: its own heuristic" */
	const int *values; /* each once */
	int num_values;
	int dflt; /* one of them */
} attune_plugin_axis;

typedef struct attune_plugin_device {
	const char *backend; /* "cuda", "hip", "cpu" */
	const char *arch;    /* "sm_90", "gfx942", "avx512" */
	int ordinal;         /* of a GPU */
	int units;           /* SMs, or threads */
	/* On the CPU, in prepare; else NULL. Calls work(arg, i) once for each i below n, on `units`
	 * threads, the caller's among them; n up to `units` run at a time. A plug-in computes on
	 * these alone: they spin for a while between calls, so threads of its own would share the
	 * cores with them. They block all signals except those of faults. */
	void (*parallel)(void *threads, void (*work)(void *arg, size_t i), void *arg, size_t n);
	void *threads; /* as long as the op */
} attune_plugin_device;

/* What is known of a batch before it is planned. */
typedef struct attune_plugin_part {
	int num_seqs;
	int min_query, max_query; /* query lengths, 1 or more */
	long long query_tokens;   /* sums */
	long long kv_tokens;
	long long max_seq; /* keys of the longest sequence; cut to the window, where there is one */
	/* Where its queries of more than 8 tokens lie, and those of 1 to 8: the range from the
	 * first to the last of them, and their lengths. seq_begin counts from the first sequence of
	 * the part. seq_count 0: there are none. The ranges overlap where prefills and decodes
	 * alternate; else both seq_count together are num_seqs, and the decodes lie in front of all
	 * prefills or behind them. */
	attune_span prefills, decodes;
} attune_plugin_part;

/* A batch, or the prefills or decodes of one: sequences that follow one another. */
typedef struct attune_plugin_batch {
	/* On the host. query_start[0] is the row in q and out of the first token, which need not be
	 * 0; query_start has num_seqs + 1 entries. */
	const attune_batch *lengths;
	/* On the device, from the same sequence on. q, out, lse and the caches are not final here:
	 * only block_table, query_start, seq_lens and the strides may be used in plan. */
	const attune_tensors *tensors;
	void *stream; /* a CUstream or hipStream_t; what plan enqueues goes there */
} attune_plugin_batch;

/* What a plug-in needs beyond attune.h, where attune's own kernels take anything. The check against
 * the reference allows for it. */
enum {
	/* Slots of live pages behind the end of a sequence hold finite numbers, as in a cache that
	 * was cleared once. */
	ATTUNE_PLUGIN_FINITE_SLOTS = 1,
	/* Rows of q and out are dense: heads lie head_size elements apart, tokens num_query_heads x
	 * head_size. */
	ATTUNE_PLUGIN_DENSE_ROWS = 2,
	/* Scales of an E4M3 cache, where there are any, are one for K and one for V. */
	ATTUNE_PLUGIN_ONE_SCALE = 4,
	/* An E4M3 cache has no scales. */
	ATTUNE_PLUGIN_NO_SCALES = 8,
	/* Over an E4M3 cache q and the attention weights are rounded to E4M3, too. The check allows
	 * for that error of `out`, not of the LSE. Tables mark such a kernel. */
	ATTUNE_PLUGIN_E4M3_MATH = 16,
	/* Over an E4M3 cache K and V, times their scales, and the attention weights are rounded to
	 * the type of q. The check allows for that error of `out`, not of the LSE. */
	ATTUNE_PLUGIN_Q_TYPE_MATH = 32
};

typedef struct attune_plugin {
	int abi;          /* ATTUNE_PLUGIN_ABI */
	const char *name; /* "fa4": lower-case letters, digits and '_'; 31 at most */
	/* "617264c1 2026-08-06": release or revision of the source, 48 printable characters at
	 * most. Times belong to a name and a version: change it whenever the machine code
	 * changes. */
	const char *version;
	const char *about;   /* a line for lists */
	const char *backend; /* "cuda", "hip", "cpu" */
	unsigned needs;      /* ATTUNE_PLUGIN_FINITE_SLOTS ... */
	/* A choice as text, "fa4 PACK=1", has at most 223 characters. */
	const attune_plugin_axis *axes;
	int num_axes; /* ATTUNE_PLUGIN_AXES at most */

	/* NULL: these values of the axes run this shape, on this device, in this batch (part NULL:
	 * in some batch). Else the reason, "head sizes other than 128": a constant text. */
	const char *(*refuses)(const attune_shape *, const int *values, const attune_plugin_part *,
			       const attune_plugin_device *);
	int (*prepare)(void **op, const attune_shape *, const int *values,
		       const attune_plugin_device *, char *error);
	/* *workspace: the bytes of device memory that each launch of the plan needs, aligned to 256
	 * bytes, of any contents. */
	int (*plan)(void *op, const attune_plugin_batch *, void **plan, size_t *workspace,
		    char *error);
	/* `tensors` are those of the batch, with this layer's q, out, lse and caches. On the CPU
	 * the call returns when the work is done. */
	int (*launch)(void *op, void *plan, const attune_tensors *tensors, void *workspace,
		      void *stream, char *error);
	void (*free_plan)(void *op, void *plan);
	void (*free_op)(void *op);
	/* NULL: the kernel reads the caches of `tensors`. Else its engine holds the cache in
	 * another layout, written token by token. store is called once for each plan, after it: it
	 * copies K and V of the batch into such a cache, which belongs to the plan. The contents of
	 * `tensors` stay. Where that layout has pages, they keep their order in memory, so that
	 * they are visited in as random an order as by kernels that read in place. */
	int (*store)(void *op, void *plan, const attune_tensors *tensors, void *stream,
		     char *error);
} attune_plugin;

/* The one symbol that the shared object must export. */
const attune_plugin *const *attune_plugins(void);

#ifdef __cplusplus
}
#endif
#endif
