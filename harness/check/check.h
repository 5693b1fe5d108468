/* check.h - the tensors of a scenario on a device, and whether what a kernel left in them is right.
 * Includes base, scenario, compile. */
#ifndef HARNESS_CHECK_CHECK_H
#define HARNESS_CHECK_CHECK_H

#include "harness/base/base.h"
#include "kernels/kernel.h"
#include <stdint.h>

struct code;
struct device;
struct expected;
struct scenario;

/* ---- workload.c: a scenario made flesh -------------------------------------- */
/* Pages are drawn from one pool; `sets` disjoint page sets rotate so that no call
 * finds its KV in a cache. Values are a counter-based hash of their place, so the
 * reference can ask for any of them without a copy of the pool. */
struct pool; /* K and V memory of one device, shared by scenarios of like shape */
enum workload_kind {
	WORKLOAD_TIMED, /* values everywhere */
	WORKLOAD_CHECK  /* NaN in unused pages and in the tail of last pages */
};
struct workload {
	const struct scenario *scenario;
	int sets;
	attune_tensors tensors;       /* of set 0; device pointers */
	const int32_t **block_tables; /* device, one a set */
	/* private below */
	struct device *dev;
	enum workload_kind kind;
	int pages_per_set, spare_pages;
	int32_t *host_table;   /* of set 0 */
	float *sinks, *slopes; /* on the host */
	float *scales;         /* on the host; NULL: there are none */
	struct expected *expected;
	void *memory[12];
	size_t out_bytes, lse_bytes;
};
/* `cold_bytes`: KV bytes that the sets together must exceed (0: one set).
 * ATTUNE_NO_MEMORY when the device cannot hold even one set. The scenario must outlive
 * the workload; the pool may move, so of timed workloads only the newest is whole. */
enum attune_status workload_make(struct workload *, struct device *, struct pool **,
				 const struct scenario *, enum workload_kind, size_t cold_bytes);
void workload_free(struct workload *);
/* Fills `out`, and the LSE, with NaN bytes. */
enum attune_status workload_poison(struct workload *);

/* ---- check_cache.c: the pool, and the check workloads that it keeps ------------------- */
void pool_free(struct device *, struct pool *);

/* ---- launch.c: a choice run on a part of a workload ------------------------- */
/* Loaded code for a choice and a shape, from the cache or the compiler. */
struct loaded {
	struct code *code, *helper[NUM_HELPERS]; /* helper: NULL where the choice takes none */
	int registers, spill_bytes;
};
/* One launch (two with a reduction) of `choice` over the phase's part, by the
 * same function that the library runs (kernels/launch/run.c). */
enum attune_status choice_launch(struct device *, const struct choice *, const struct loaded *,
				 const struct workload *, int set, enum phase, void *workspace,
				 size_t workspace_bytes, int steps, void *stream);
enum attune_status choice_workspace(struct device *, const struct choice *, const struct scenario *,
				    enum phase, size_t *bytes);

/* ---- tolerance.c --------------------------------------------------------------- */
/* The largest error that an output element may have: `want` is right, and `mass` the
 * same weighted mean over |v|. */
double check_tolerance(const attune_shape *, double mass, double want);

/* ---- check.c: candidate against the fp64 reference -------------------------- */
struct verdict {
	enum outcome outcome;
	double worst;   /* largest error over its tolerance */
	char text[200]; /* "sequence 1, token 3, head 5, dim 40: 0.125, 0.131 +- 0.002 is right" */
};
/* Runs the choice on a check workload and compares output rows: of one token and head;
 * all, or max_rows of them, evenly spread, and the first and last token of each
 * sequence, where these are many of some 4 x max_rows of them. Every element of every row must have been written, and nothing else: rows
 * of the other phase and what lies around must stay poisoned. What is right is kept in
 * the pool for the shape asked last. */
void check_choice(struct verdict *, struct device *, struct pool **, const struct choice *,
		  const struct loaded *, const struct scenario *, enum phase, int max_rows);
/* The same on a workload that is there, with page set 0: the next thing after a time
 * that is too good, say. */
void check_workload(struct verdict *, struct workload *, const struct choice *,
		    const struct loaded *, enum phase, int max_rows);
/* The same of what a call of any kind has left in the output, poisoned before it. */
void check_output(struct verdict *, struct workload *, enum phase, int max_rows);

#endif
