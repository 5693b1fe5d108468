/* store.h - results in SQLite. Nothing else knows SQL.
 * Includes base and scenario. */
#ifndef HARNESS_STORE_STORE_H
#define HARNESS_STORE_STORE_H

#include "harness/base/base.h"
#include "kernels/kernel.h"
#include "kernels/spec/device_info.h"

struct measurement;
struct scenario;
struct store_bridge_race;

/* ---- store*.c: the only files that know SQLite ---------------------------------- */
struct store;
/* Creates or migrates; NULL + complain on failure. `readonly` never writes. A handle
 * is for one thread. Functions below that can fail complain, and return 0 (NULL). */
struct store *store_open(const char *path, int readonly);
void store_close(struct store *);
struct run_info { /* provenance of one invocation */
	struct device_info device;
	char commit[48], toolkit[64], protocol[32], command[256];
	char sources[20];             /* "committed", "modified", "unknown": see schema.sql */
	char card[17];                /* anonymous id of the GPU; "": not known */
	char machine[17];             /* anonymous id of a CPU's machine; "" of a GPU */
	double dram_gbps, fma_tflops; /* measured ceilings; 0: not measured */
};
/* The run's id, from 1 up. From here on this handle's device is the run's. */
long long store_begin_run(struct store *, const struct run_info *);
/* Enters a scenario, or gives a known one this set, split and weight. A sweep calls
 * it for each of its scenarios, so that edited labels arrive without measuring. */
int store_scenario(struct store *, const struct scenario *);
/* One committed transaction. Replaces nothing: a second measurement of a cell is a
 * second row; readers take the newest, whatever its outcome. A noisy measurement of a cell
 * that store_has is not entered. Times are kept only of
 * `ok` rows, and must be positive and finite. */
int store_measurement(struct store *, long long run, const struct scenario *, enum phase,
		      const struct choice *, const char *binary_flags, const struct measurement *,
		      int registers, int spill_bytes);
/* A whole composed plan, measured as one: as of parts_text. */
int store_plan_measurement(struct store *, long long run, const struct scenario *,
			   const char *plan_text, const struct measurement *);
/* What the rows written from here on are measured for, and of which pass store_has asks:
 * "race" (from the start), "complete", "cold", "refine", "audit": pass A; "b": pass B;
 * "early": pass E. The text must outlive the handle. */
void store_stage(struct store *, const char *stage);
/* An A/A pair: a choice, or a plan's text with phase "plan", twice in one race; ratio: of
 * the second to the first. */
int store_control(struct store *, long long run, const struct scenario *, const char *phase,
		  const char *choice_text, double median_us, double ratio);
/* Of a run, the race that was entered last; 0: it has none. */
long long store_last_race(struct store *, long long run);
/* Makes noisy what was right in the races of a run that are younger than `after`. 0 + complain. */
int store_disbelieve(struct store *, long long run, long long after);
/* 1 when the cell has a row of any outcome but noisy by today's sources (and, once a run has
 * begun, by its device and protocol). choice_text: "segmented BLOCK_M=16 ...". */
int store_has(struct store *, const char *gpu, const struct scenario *, enum phase,
	      const char *choice_text);
int store_has_plan(struct store *, const char *gpu, const struct scenario *, const char *plan_text);
/* What a binary takes of a GPU, as far as is known without running it. */
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
	TAKES_WAVES,  /* of these, on a SIMD */
	TAKES_SHARE,  /* of a unit's threads that these are */
	NUM_TAKES
};
struct resources {
	const struct kernel *kernel;
	const char *flags;
	enum outcome outcome; /* OK, COMPILE; RESOURCES: a sweep would not run it */
	char why[200];
	double takes[NUM_TAKES]; /* NaN: not known, or no such thing there */
};
/* Adds these rows, in the place of those of the same sources and compiler, to a table that a
 * database has only where this was called. */
int store_resources(struct store *, const struct device_info *, const char *compiler,
		    const struct resources *, int n);
/* What a device gives at most, without attention, asked for in some way: "read",
 * "path=async kib=64 blocks=132", "GB/s" or "us". Texts are the database's while `each` runs. */
struct ceiling {
	const char *name, *detail, *unit;
	double value;
};
/* All of them or none; 0 + complain. */
int store_ceilings(struct store *, long long run, const struct ceiling *, int n);
/* Those of the newest run that has measured some on a device of that short name. */
int store_each_ceiling(struct store *, const char *gpu, int (*each)(void *, const struct ceiling *),
		       void *arg);
/* What a row's code is to the sources of today. */
enum freshness {
	STALE,
	TODAY,              /* the same tokens */
	BRIDGED,            /* a bridge says that it is as fast: attune bridge */
	BRIDGED_PROVISIONAL /* by a race on another GPU of the same architecture */
};
/* One binary's source, as newest rows of one build and scenario name it. */
struct store_use {
	const char *kernel, *identity;
	const char *arch,
	    *flags;       /* of the build: the kernel's or, of a helper, its user's; "": a plan */
	const char *plan; /* its text; NULL: none */
	const attune_shape *shape;
	enum freshness today;
	long long rows;
};
/* Each that is not today's, or bridged by machine code; in the order of builds. */
int store_uses(struct store *, const char *gpu, int (*each)(void *, const struct store_use *),
	       void *arg);
/* A row of table `bridge`, which schema.sql describes; and how its races ended. */
struct store_bridge {
	const char *kernel, *old, *today, *arch, *flags, *how, *gpu, *toolkit, *commit;
	int batches;
	double mean, p95; /* NaN: it is not by a race */
	const struct store_bridge_race {
		const char *model, *batch, *choice;
		enum phase phase;
		double old_us, ratio; /* ratio: of the new source's time to the old one's */
	} * race;                     /* [batches], of a race */
};
/* One committed transaction; in the place of the same bridge. 0 + complain. */
int store_add_bridge(struct store *, const struct store_bridge *);
/* Forgets what races on any GPU said of a source. 0 + complain. */
int store_drop_races(struct store *, const char *kernel, const char *old, const char *arch);
/* The rules that a header began from: a row of table `basis` (basis.sql). */
struct store_basis {
	char *header;    /* whose: "h100", "h100_e4m3" */
	char *incumbent; /* name of the header that was in use; "": the kernels' defaults */
	char *rules;     /* its text, as attune induce wrote it; "": the kernels' defaults */
	char *prior;     /* GPU whose times are learned from, too; "": none */
};
/* In the place of the header's row. Its device must have a run. 0 + complain. */
int store_set_basis(struct store *, const struct store_basis *);
/* 1: free it; 0: there is none; -1 + complain. */
int store_get_basis(struct store *, const char *header, struct store_basis *);
void store_basis_free(struct store_basis *);
/* Whether some header of the database began from other rules (basis.sql); -1 + complain. */
int store_has_basis(struct store *);
/* Removes that table: headers are then learned from the database's own times alone. 0 + complain. */
int store_drop_basis(struct store *);
struct store_cell {
	const char *gpu, *model, *set, *split, *batch, *outcome, *protocol, *dtype, *layout;
	const char *phase;  /* "all" "prefill" "decode"; "plan": a composed plan as one */
	const char *kernel; /* "segmented"; "plan" */
	const char *choice; /* without the kernel: "BLOCK_M=16 ..."; of a plan, its text */
	attune_shape shape; /* as measured: rules, features and flags depend on it */
	int page_size;
	unsigned long long seed;
	double weight;
	/* NaN: not known. iqr: between the quartiles, of three samples or more. ratio: to its
	 * race's reference, paired by rounds. */
	double median_us, min_us, iqr_us, ci_us, ratio, gbps, tflops, joules;
	/* 'A': trains; 'B': an independent session, judges; 'E': launches that begin early, and
	 * the same in turn in their race */
	int pass;
	const char *stage, *stopped; /* as of store_stage; stopped NULL: not known */
	int samples;                 /* kept; 0 without a time */
	long long run;
	enum freshness today;
	const char *sources; /* as table `code` has them */
	/* Equal ids mean equal scenarios and equal kernels and choices; 0: not known. Texts of a
	 * cell with ids stay valid until the store is closed or written to. */
	long long scenario_id, variant_id, race_id;
};
/* The rows to read; NULL fields do not restrict. */
struct store_filter {
	const char *model, *batch;
};
/* Newest row of each pass of every cell of a GPU ordered by (model, page_size, batch,
 * phase, kernel, choice, pass); stops when `each` returns 0. Of several devices of that name
 * only the handle's run's, else the newest measured: two are never mixed. The filter may be
 * NULL. */
int store_each(struct store *, const char *gpu, const struct store_filter *,
	       int (*each)(void *, const struct store_cell *), void *arg);
/* The raw samples of a cell that store_each gave, up to MAX_SAMPLES, as us a call; how many: 0
 * where the database does not keep them. -1 + complain. */
int store_samples(struct store *, const struct store_cell *, float us[]);
/* Hash of the newest rows of a GPU: same rows, same hash, on any machine. */
int store_hash(struct store *, const char *gpu, char hex[33]);
/* How much two times of one choice in one race differ, by A/A controls of the device and
 * protocol that store_each reads, in bands of its time: below 20 us, below 200 us, above.
 * floor: 0.005, or the 95th percentile of |ratio - 1| where that is more. */
struct noise {
	int pairs[3];
	double floor[3];
};
int store_noise(struct store *, const char *gpu, struct noise *);
/* The newest run with a measurement on that device. */
int store_device(struct store *, const char *gpu, struct run_info *out);
/* Adds what another database knows; 0 + complain on failure. *added: measurements. */
int store_merge(struct store *, const char *path, long long *added);
/* Leaves what is committed to git: newest rows without raw samples, none of a run on modified
 * sources. 0 + complain. */
struct compacted {
	long long superseded, modified, samples, readings; /* rows that went */
};
int store_compact(struct store *, struct compacted *);
/* Whether the file is sound, and its content as sealed; without a seal, whether all newest rows
 * can be read. 0 + complain. */
int store_check(struct store *);
/* Whether a failed call has found, and said, that the database is damaged. */
int store_is_damaged(const struct store *);
/* Rows of any SQL as text (NULL: null) to `each`, until it returns 0. */
int store_query(struct store *, const char *sql,
		int (*each)(void *, int columns, const char *const *names,
			    const char *const *cells),
		void *arg);

/* ---- store_cell.c --------------------------------------------------------------- */
/* Why a cell was measured; what the database calls it is stage_names[]. */
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

/* Whether a row is of that scenario. */
int cell_is_of(const struct store_cell *, const struct scenario *);

#endif
