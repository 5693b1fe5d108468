/* SPDX-License-Identifier: Apache-2.0 */
/* store.h - the database of results, in SQLite. Only this folder's files use SQL.
 * Includes base and scenario. */
#ifndef HARNESS_STORE_STORE_H
#define HARNESS_STORE_STORE_H

#include "harness/base/base.h"
#include "kernels/segments.h"
#include "kernels/spec/device_info.h"

struct choice;
struct measurement;
struct scenario;

/* ---- store*.c -------------------------------------------------------------------- */
struct store;
/* Opens a database, and unless readonly creates it; NULL + complain on failure. A
 * handle is for one thread. Functions below that fail complain and return 0 (NULL). */
struct store *store_open(const char *path, int readonly);
void store_close(struct store *);
/* Deletes a closed database, with the files beside it that a killed writer left. */
void store_remove(const char *path);
/* All CPUs are named "cpu". Chooses the CPU of a database that is read: the one whose description
 * ("AMD EPYC, avx512, 2 threads") contains this text, or whose machine has this id. NULL: the only
 * one, or of several this machine's. If none or several fit, every call that reads rows of "cpu"
 * fails. The text stays the caller's. */
void store_machine(const char *text);
struct run_info { /* provenance of one invocation */
	struct device_info device;
	char toolkit[64], protocol[32], command[256];
	char built[41], compiled[41]; /* hashes of sources; "": not known */
	char commit[48], sources[20]; /* columns commit_id and sources; both "" when a run begins */
	char card[17];                /* anonymous id of the GPU; "": not known */
	char machine[17];             /* anonymous id of a CPU's machine; "" of a GPU */
	double dram_gbps, fma_tflops; /* measured ceilings; 0: not measured */
};
/* Inserts a run and returns its id, from 1 up. The run's device becomes the handle's. */
long long store_begin_run(struct store *, const struct run_info *);
/* Gives the runs of these hashes their commit; "": none has them. 0 + complain. */
int store_set_commit(struct store *, const char *built, const char *compiled, const char *commit);
/* Inserts a scenario, or updates a known one's set, split and weight. A sweep calls it for each
 * of its scenarios, so that edited labels are stored without measuring. */
int store_scenario(struct store *, const struct scenario *);
/* One committed transaction. Replaces nothing: a second measurement of a cell is a second row;
 * readers take the newest, whatever its outcome. A noisy measurement is dropped if store_has its
 * cell. Only `ok` rows keep times, which must be positive and finite. */
int store_measurement(struct store *, long long run, const struct scenario *, enum phase,
		      const struct choice *, const char *binary_flags, const struct measurement *,
		      int registers, int spill_bytes);
/* The same for a whole plan; its text is as of parts_text. */
int store_plan_measurement(struct store *, long long run, const struct scenario *,
			   const char *plan_text, const struct measurement *);
/* Sets the stage of rows written from now on, and the pass that store_has searches: "race" (the
 * default), "complete", "cold", "refine", "audit": pass A; "b": pass B; "early": pass E. The text
 * must outlive the handle. */
void store_stage(struct store *, const char *stage);
/* An A/A control: a choice, or a plan's text with phase "plan", that ran twice in one race; ratio:
 * of the second to the first. */
int store_control(struct store *, long long run, const struct scenario *, const char *phase,
		  const char *choice_text, double median_us, double ratio);
/* The last race of a run; 0: none. */
long long store_last_race(struct store *, long long run);
/* Turns `ok` rows into `noisy` in the run's races after race `after`. 0 + complain. */
int store_disbelieve(struct store *, long long run, long long after);
/* 1: the cell has a row by today's sources that is not noisy (and, once a run has begun, is of its
 * device and protocol). choice_text: "segmented BLOCK_M=16 ...". */
int store_has(struct store *, const char *gpu, const struct scenario *, enum phase,
	      const char *choice_text);
int store_has_plan(struct store *, const char *gpu, const struct scenario *, const char *plan_text);
/* The resources of a GPU that a binary takes, as known without running it. */
enum takes {
	TAKES_REGISTERS, /* of a thread; on AMD GPUs VGPRs and AGPRs together */
	TAKES_VGPRS,
	TAKES_AGPRS,
	TAKES_SGPRS,   /* of a wave */
	TAKES_SPILLS,  /* registers */
	TAKES_SCRATCH, /* bytes of a thread's own memory */
	TAKES_SMEM_STATIC,
	TAKES_SMEM_DYNAMIC,
	TAKES_THREADS,
	TAKES_BLOCKS, /* resident on a unit */
	TAKES_WAVES,  /* on AMD GPUs: resident on a SIMD */
	TAKES_SHARE,  /* occupancy: the share of a unit's threads */
	NUM_TAKES
};
struct resources {
	const struct kernel *kernel;
	const char *flags;
	enum outcome outcome; /* OK, COMPILE; RESOURCES: a sweep would not run it */
	char why[200];
	double takes[NUM_TAKES]; /* NaN: not known, or not on this GPU */
};
/* Adds these rows, replacing those of the same sources and compiler. Creates the table if
 * needed. */
int store_resources(struct store *, const struct device_info *, const char *compiler,
		    const struct resources *, int n);
/* The best speed of a device for an access pattern: "read", "path=async kib=64 blocks=132",
 * "GB/s" or "us". Texts from `each` are valid during the call. */
struct ceiling {
	const char *name, *detail, *unit;
	double value;
};
/* All of them or none; 0 + complain. */
int store_ceilings(struct store *, long long run, const struct ceiling *, int n);
/* The ceilings of the newest run with ceilings on a device of that short name. */
int store_each_ceiling(struct store *, const char *gpu, int (*each)(void *, const struct ceiling *),
		       void *arg);
/* How a row's code relates to today's sources. */
enum freshness {
	STALE,
	TODAY,  /* the same tokens */
	BRIDGED /* by bridges: attune merge --bridge */
};
/* One binary's source in the newest rows of one build and scenario. */
struct store_use {
	const char *kernel, *identity;
	const char *arch,
	    *flags;       /* of the build: the kernel's or, of a helper, its user's; "": a plan */
	const char *plan; /* its text; NULL: none */
	const attune_shape *shape;
	long long rows;
};
/* Each source that is neither today's nor bridged, in the order of builds. */
int store_uses(struct store *, const char *gpu, int (*each)(void *, const struct store_use *),
	       void *arg);
/* A row of table `bridge` (schema.sql) by equal machine code. */
struct store_bridge {
	const char *kernel, *old, *today, *arch, *flags, *toolkit, *commit;
};
/* One committed transaction; replaces the same bridge. 0 + complain. */
int store_add_bridge(struct store *, const struct store_bridge *);
/* A row of table `bench` (bench.sql), in place of an earlier one of that run, scenario and policy. One
 * committed transaction. 0 + complain. */
int store_bench(struct store *, long long run, const struct scenario *, const char *policy,
		const char *plan, enum backend, const struct measurement *);
/* Whether a database has such rows. -1 + complain. */
int store_has_bench(struct store *);
/* The rules that a header started from: a row of table `basis` (basis.sql). */
struct store_basis {
	char *header;    /* the header's name: "h100", "h100_e4m3" */
	char *incumbent; /* name of the header that was in use; "": the kernels' defaults */
	char
	    *rules; /* the incumbent's text, as attune induce wrote it; "": the kernels' defaults */
	char *prior; /* a GPU; its times are also learned from; "": none */
};
/* Replaces the header's row. Its device must have a run. 0 + complain. */
int store_set_basis(struct store *, const struct store_basis *);
/* 1: free it; 0: there is none; -1 + complain. */
int store_get_basis(struct store *, const char *header, struct store_basis *);
void store_basis_free(struct store_basis *);
/* Whether any header of the database started from other rules (basis.sql); -1 + complain. */
int store_has_basis(struct store *);
/* Removes table `basis`: headers then learn from the database's own times alone. 0 + complain. */
int store_drop_basis(struct store *);
/* What the library settled by timing one batch: a row of table `settled` and its members
 * (settled.sql). */
enum { SETTLED_MEMBERS = 24, SETTLED_TEXT = 704 /* of the texts of one member */ };
struct store_settled {
	const char *protocol, *writer, *op, *kind, *batch;
	const char *first;           /* the choice or plan that the rules named; "-": none */
	int winner, rounds, settles; /* winner: which of v */
	double again_us;             /* of v[0], a second time; NaN: not known */
	int n;
	struct store_settled_member {
		const char *way, *choice, *code;
		double us;
	} v[SETTLED_MEMBERS]; /* the first: what ran before it was settled */
};
/* Adds rows to the device that store_each reads; *added: those that are new. All or none; 0 + complain. */
int store_add_settled(struct store *, const char *gpu, const struct store_settled *, int n,
		      int *added);
/* Calls `each` on the rows of that device, in an order that depends on their content alone, until it
 * returns 0. 0 + complain. */
int store_each_settled(struct store *, const char *gpu,
		       int (*each)(void *, const struct store_settled *), void *arg);
int store_has_settled(struct store *); /* whether a database has such rows; -1 + complain */
struct store_cell {
	const char *gpu, *model, *set, *split, *batch, *outcome, *protocol, *dtype, *layout;
	const char *phase;  /* "all" "prefill" "decode"; "plan": a composed plan as one */
	const char *kernel; /* "segmented"; "plan" */
	const char *choice; /* without the kernel: "BLOCK_M=16 ..."; of a plan, its text */
	attune_shape shape; /* as measured; rules, features and flags depend on it */
	int page_size;
	unsigned long long seed;
	double weight;
	/* NaN: not known. ratio: to its race's reference, paired by rounds. */
	double median_us, min_us, ci_us, ratio, gbps, tflops, joules;
	int power_is_shared; /* another row of its race has the same reading of power */
	/* 'A': for training; 'B': from an independent session, for evaluation; 'E': early launches,
	 * and the same in order in their race */
	int pass;
	const char *stage, *stopped; /* as of store_stage; stopped NULL: not known */
	int samples;                 /* kept samples; 0: no time */
	long long run;
	enum freshness today;
	const char *sources; /* in the form of table `code` */
	const char *plugin;  /* version of the plug-in, up to a blank; NULL: of a kernel of ours */
	/* Equal ids mean equal scenarios, and equal kernels and choices; 0: not known. If ids are
	 * known, the cell's texts stay valid until the store is closed or written to. */
	long long scenario_id, variant_id, race_id;
};
/* Calls `each` on the newest row of each cell of a GPU until it returns 0. Scenarios come
 * in the order of (model, page_size, batch, other fields); the cells of a scenario by phase, then
 * race (in the order of storing), then variant. If several devices have that name, it reads only the
 * device of the handle's run, else the CPU of store_machine, else the GPU measured last. */
int store_each(struct store *, const char *gpu, int (*each)(void *, const struct store_cell *),
	       void *arg);
/* The same for scenarios that `wants`, which gets the scenario's part of a cell. */
int store_each_of(struct store *, const char *gpu, int (*wants)(void *, const struct store_cell *),
		  int (*each)(void *, const struct store_cell *), void *arg);
/* Hash of the newest rows of a GPU by today's or bridged sources: same rows, same hash, on any
 * machine. */
int store_hash(struct store *, const char *gpu, char hex[33]);
/* The noise by A/A controls of the device and protocol that store_each reads, in bands of the
 * time: below 20 us, below 200 us, above. floor: the 95th percentile of |ratio - 1|, at least
 * 0.005. */
struct noise {
	int pairs[3];
	double floor[3];
};
int store_noise(struct store *, const char *gpu, struct noise *);
/* Whether there is a measurement on that device; -1 + complain. */
int store_knows(struct store *, const char *gpu);
/* The newest run with a measurement on that device. */
int store_device(struct store *, const char *gpu, struct run_info *out);
/* Adds the rows of another database; 0 + complain on failure. *added: measurements. */
int store_merge(struct store *, const char *path, long long *added);
/* Reduces the database to the form that is committed to git: the newest rows without raw samples,
 * and none of a run on modified sources or of older sources (compact.sql). Below `light` measurements
 * all choices stay: costs are fitted to slow times, too. 0 + complain. */
enum { COMPACT_LIGHT = 100000 };
struct compacted {
	long long superseded, modified, samples, readings, stale; /* deleted rows */
	long long outdone; /* deleted rows of families that rules never pick */
	int knows_sources; /* 0: no kernel sources to compare with; no row is deleted as stale */
};
int store_compact(struct store *, long long light, struct compacted *);
/* Whether the file is sound and its rows match the seal; without a seal, whether all newest rows
 * can be read. 0 + complain. */
int store_check(struct store *);
/* Whether a failed call complained that the database is damaged, or that none of its CPUs is
 * chosen. */
int store_is_damaged(const struct store *);
/* Rows of any SQL as text (NULL: null) to `each`, until it returns 0. */
int store_query(struct store *, const char *sql,
		int (*each)(void *, int columns, const char *const *names,
			    const char *const *cells),
		void *arg);

/* ---- store_names.c -------------------------------------------------------------- */
/* Why a cell was measured; stage_names[] has the database's names. */
enum stage {
	STAGE_NONE,
	STAGE_RACE,
	STAGE_COMPLETE,
	STAGE_COLD,
	STAGE_REFINE,
	STAGE_AUDIT,
	STAGE_B,
	STAGE_EARLY,
	NUM_STAGES
};
extern const char *const stage_names[NUM_STAGES];

/* Whether a cell belongs to that scenario. */
int cell_is_of(const struct store_cell *, const struct scenario *);

#endif
