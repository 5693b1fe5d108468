/* bench.h - shared by the files of `attune bench`; show_ceilings is for `attune show`. */
#ifndef TUNER_BENCH_BENCH_H
#define TUNER_BENCH_BENCH_H

#include "harness/base/base.h"
#include "kernels/device/device.h"
#include "kernels/kernel.h"
#include "tuner/data/data.h"
#include "tuner/policy/policy.h"

struct binaries;
struct kept;
struct plugin_op;
struct pool;
struct protocol;

struct bench_stage {
	struct device dev;
	attune_context *ctx;
	struct pool *pool;
	struct kept { /* code by binary */
		char key[MAX_FLAGS + 32];
		struct code *code;
		struct plugin_op *plugin; /* in place of code */
	} * kept;
	int num_kept;
	void *workspace;
	size_t workspace_bytes;
};
/* Opens this machine's device, which must be `gpu` unless that is NULL. An exit code. */
int stage_open(struct bench_stage *, const char *gpu);
void stage_close(struct bench_stage *);

/* A contender: libattune (attune_plan_batch, attune_run), or a plan of concrete choices. */
struct entry {
	int runs; /* 0: it does not exist here */
	int is_library;
	struct decided made;
	double us; /* out: median; NaN: it did not run, or was not measured */
	char plan[2 * MAX_PART_TEXT + 32]; /* out: what ran; "": nothing */
};
/* Adds the binaries of an entry for binaries_compile; the library needs none. 0 without memory. */
int bench_foresee(struct binaries *, const struct measured *, const struct entry *);

/* Races the entries on a batch (m->batch is needed); the first is the reference. 0 + complain. */
int bench_race(struct bench_stage *, const struct measured *, const struct protocol *,
	       struct entry *, int n, unsigned long long seed);

/* bench_entries.c: the plug-ins for these devices; returns how many. */
int bench_plugins(const struct kernel *out[MOST_PLUGINS], enum backend);
/* What a plug-in runs a batch by: its fastest choice of the database for each part, else its
 * default; mixed batches as one launch or two, whichever is faster. scenario -1: the batch is not
 * in the database. */
struct entry bench_plugin_entry(const struct data *, const struct measured *, int scenario,
				const struct kernel *, const struct device_info *);

/* bench_roofline.c: `attune bench --roofline` into database db, with reads of at most read_mb MB;
 * an exit code. */
int bench_roofline(struct device *, const char *db, double read_mb, enum format);

/* bench_bounds.c: `attune bench --bounds`, of the first `limit` batches (0: all); an exit code. */
int bench_bounds(struct bench_stage *, const struct protocol *, int limit, enum format);

/* bench_roofline.c: prints the results of the newest `attune bench --roofline`; an exit code. */
int show_ceilings(const char *db, const char *gpu, enum format);

#endif
