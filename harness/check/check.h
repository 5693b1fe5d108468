/* SPDX-License-Identifier: Apache-2.0 */
/* check.h - builds the tensors of a scenario on a device, and checks a kernel's output against the
 * fp64 reference. */
#ifndef HARNESS_CHECK_CHECK_H
#define HARNESS_CHECK_CHECK_H

#include "harness/base/base.h"
#include "harness/scenario/scenario.h"
#include "kernels/segments.h"
#include "kernels/spec/choice.h"
#include <stdint.h>

struct code;
struct device;
struct expected;
struct plugin_op;

/* ---- workload.c: the tensors of a scenario ---------------------------------- */
/* Pages come from one pool. `sets` disjoint page sets rotate, so that no call finds its KV
 * in a cache. A value is a hash of its place, so the reference computes it without a copy of
 * the pool. */
struct pool; /* K and V memory of one device, shared by workloads */
enum workload_kind {
	WORKLOAD_TIMED, /* values everywhere */
	WORKLOAD_CHECK  /* NaN in unused pages and in the tail of last pages */
};
/* Where K and V lie (kv_order.c), in elements. A cache of some pages is units of as many elements;
 * each has all heads of a page, or one head (unit_heads 1) where the heads stand apart. */
struct kv_order {
	int64_t page, slot, head; /* strides, alike of K and of V */
	int64_t k_at, v_at;       /* the first page's K and V */
	int is_shared;            /* V is in the memory of K */
	int unit_heads;
	int64_t unit, elements; /* of K, or of V; of both where they share the memory */
};

struct workload {
	const struct scenario *scenario;
	int sets;
	attune_tensors tensors;       /* of set 0; device pointers */
	const int32_t **block_tables; /* device pointers, one per set */
	/* private below */
	struct device *dev;
	enum workload_kind kind;
	unsigned needs; /* of a plug-in: ATTUNE_PLUGIN_FINITE_SLOTS ... */
	int pages_per_set, spare_pages;
	struct kv_order order;
	int32_t *host_table;   /* of set 0 */
	float *sinks, *slopes; /* on the host */
	float *scales;         /* on the host; NULL: none */
	struct expected *expected;
	unsigned char *host_out; /* room for `out` with its guards; NULL: not checked yet */
	void *memory[12];
	size_t out_bytes, lse_bytes;
};
/* cold_bytes: KV bytes that all sets together must exceed (0: one set). ATTUNE_NO_MEMORY if
 * the device cannot hold one set. The scenario must outlive the workload. Making a timed
 * workload may move the pool, which invalidates older timed workloads. */
enum attune_status workload_make(struct workload *, struct device *, struct pool **,
				 const struct scenario *, enum workload_kind, size_t cold_bytes);
/* A check workload for a plug-in that needs something: ATTUNE_PLUGIN_FINITE_SLOTS ... */
enum attune_status workload_make_for(struct workload *, struct device *, const struct scenario *,
				     unsigned needs);
void workload_free(struct workload *);
/* scales_and_lse.c: why a kernel does not take such scales; NULL: it does. All but plug-ins do. */
const char *scales_refused(const struct kernel *, enum scales);
/* Fills `out`, and the LSE, with NaN bytes. */
enum attune_status workload_poison(struct workload *);

/* ---- check_cache.c -------------------------------------------------------------- */
void pool_free(struct device *, struct pool *);

/* ---- launch.c --------------------------------------------------------------- */
/* The loaded code of a choice for a shape. */
struct loaded {
	struct code *code, *helper[NUM_HELPERS]; /* helper: NULL if the choice does not use it */
	struct plugin_op *plugin;                /* in place of code; or NULL */
	int registers, spill_bytes;
};
/* Launches the choice over the phase's part (two launches with a reduction), by the same
 * function as the library (kernels/launch/run.c). */
enum attune_status choice_launch(struct device *, const struct choice *, const struct loaded *,
				 const struct workload *, int set, enum phase, void *workspace,
				 size_t workspace_bytes, int steps, void *stream);
enum attune_status choice_workspace(struct device *, const struct choice *, const struct scenario *,
				    enum phase, size_t *bytes);
/* The same, and what choice_launch needs over this workload: a plug-in plans all its page sets.
 * *plan_us: the least time of a plan; 0: there is none. */
enum attune_status choice_reserve(struct device *, const struct choice *, const struct loaded *,
				  const struct workload *, enum phase, size_t *bytes,
				  double *plan_us);

/* ---- tolerance.c --------------------------------------------------------------- */
/* The largest error of an output element. want: the exact value; mass: the same weighted
 * mean over |v|. */
double check_tolerance(const attune_shape *, double mass, double want);
/* The relative error of one rounding that a plug-in with these needs makes over an E4M3 cache: of
 * E4M3 (ATTUNE_PLUGIN_E4M3_MATH) or of q's type (ATTUNE_PLUGIN_Q_TYPE_MATH); 0: it makes none. */
double check_rounding(const attune_shape *, unsigned needs);
/* What a roundoff of 1 adds to the tolerance; squares: kv_source.squares. */
double rounding_tolerance(double squares);

/* ---- check.c: candidate against the fp64 reference -------------------------- */
struct verdict {
	enum outcome outcome;
	double worst;   /* largest ratio of error to tolerance */
	char text[200]; /* "sequence 1, token 3, head 5, dim 40: 0.125, expected 0.131 +- 0.002" */
};
/* Runs the choice on a check workload and compares output rows; a row is one token and head.
 * Compares all rows, or max_rows evenly spread ones plus the first and last token of each
 * sequence (of some 4 x max_rows sequences at most). Every element of every row of the phase
 * must be written, and nothing else: other rows and the surroundings must stay poisoned. The
 * pool keeps the expected rows of the last shape. */
void check_choice(struct verdict *, struct device *, struct pool **, const struct choice *,
		  const struct loaded *, const struct scenario *, enum phase, int max_rows);
/* The same on an existing workload, with page set 0. */
void check_workload(struct verdict *, struct workload *, const struct choice *,
		    const struct loaded *, enum phase, int max_rows);
/* Checks the output after any call. The output must have been poisoned before it. needs: of the
 * plug-ins that wrote it, of which what they round matters. */
void check_output(struct verdict *, struct workload *, enum phase, int max_rows, unsigned needs);
/* The needs of a plug-in; 0: it is none. */
unsigned choice_needs(const struct choice *);

#endif
