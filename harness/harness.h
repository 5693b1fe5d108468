/* harness.h - from a scenario to trusted numbers in SQLite; the map of this
 * folder. Knows nothing of trees.
 *
 *   scenarios/SET.json -scenario.c-> scenarios -workload.c-> buffers on a device
 *   kernels/K.def -> choices -jit.c-> binaries -check.c-> right or wrong
 *        -measure.c-> interleaved rounds -store.c-> results/<gpu>.sqlite
 *   sweep.c decides what runs; worker.c runs it where it can be lost. */
#ifndef HARNESS_H
#define HARNESS_H

#include "../kernels/device.h"
#include <stdio.h>

/* Exit codes of every subcommand. */
enum {
	EXIT_DONE = 0,
	EXIT_CHECK = 1,
	EXIT_USAGE = 2,
	EXIT_NO_DEVICE = 3,
	EXIT_BUSY =
	    4, /* other programs use the machine, or another attune measures on the device */
	EXIT_INTERRUPTED = 130
};

/* ---- utf8.c ------------------------------------------------------------------ */
/* A copy in which what is not UTF-8 is U+FFFD, the caller's to free; NULL without memory. */
char *utf8_text(const char *text);

/* ---- talk.c: stderr is talk, stdout is data -------------------------------- */

/* "attune: <text>" on stderr. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A progress line, redrawn in place on a terminal at most 10 times a second,
 * else one line every 30 s. done and total in any unit; ETA from them. */
void progress(const char *what, double done, double total);
void progress_end(void);
/* What is under way, in front of what progress() says; NULL: nothing. */
void progress_part(const char *name);
void progress_off(void); /* this process shows none */
/* The whole ends in so many seconds, whatever it is doing: the time left is that. 0: each part has
 * an end of its own. */
void progress_until(double seconds);
extern volatile int interrupted; /* set by SIGINT and SIGTERM after catch_signals() */
void catch_signals(void);

int complaints(void); /* how many lines complain has written */
/* The text as a terminal should get it: control characters escaped as in C, and U+FFFD for
 * what is not UTF-8. The caller's to free; NULL without memory. */
char *shown_text(const char *text);

/* ---- table.c --------------------------------------------------------------------- */
/* A table for people and machines. Control characters are escaped in the forms that people
 * read (table, markdown); csv is quoted as in RFC 4180. */
enum format { FORMAT_TABLE, FORMAT_TSV, FORMAT_CSV, FORMAT_MARKDOWN, FORMAT_JSON, NUM_FORMATS };
#define FORMAT_WORDS "table, tsv, csv, markdown or json"
int format_for_people(enum format); /* table and markdown */
/* Whether lines that begin with '#' may stand above the table. */
int format_has_notes(enum format);
struct table;
struct table *table_new(enum format, const char *const *columns, int num_columns);
/* A column whose name ends in _us, _ms, gbps, tflops, ratio ... is right-aligned
 * as soon as all its cells are numbers. JSON: numbers stay numbers. */
void table_text(struct table *, const char *cell);            /* NULL: empty, JSON null */
void table_number(struct table *, double cell, int decimals); /* NaN: empty, null */
void table_end_row(struct table *);
void table_print(struct table *, FILE *);          /* and frees it */
int format_parse(const char *word, enum format *); /* 0 when unknown */
/* The rows as a list of objects in a document, in place of table_print. */
struct json_out;
void table_json(struct table *, struct json_out *, const char *key);

/* ---- options.c ------------------------------------------------------------------- */
/* The values of --gpu and --format; what is wrong with one ends the program. */
enum { SHOWN_ARGUMENT = 60 };
struct argp_state;
void gpu_option(const char **gpu, const char *arg, struct argp_state *);
void format_option(enum format *, const char *arg, struct argp_state *);

/* ---- stats.c: pure functions ------------------------------------------------ */
enum { MAX_SAMPLES = 64 };       /* of one racer */
double median(double *v, int n); /* sorts v */
double quantile(const double *sorted, int n, double q);
double mad(const double *v, int n, double centre); /* x 1.4826 */
/* Half-width of the 95 % interval of the median by order statistics; NaN below six
 * samples, of which no two cover the median that surely. */
double median_ci(const double *sorted, int n);
/* Robust and nearly as sharp as the mean; of at most MAX_SAMPLES. */
double middle(const double *v, int n);
/* What a standard normal variable exceeds with probability p. */
double normal_beyond(double p);
/* The normal deviate that is exceeded as rarely as this t of Student's, and back. */
double student_normal(double t, double freedom);
double student_beyond(double z, double freedom);
/* E max(0, X - z) of a standard normal X: what is lost by waiting for one at z. */
double normal_loss(double z);
/* A number that looks random and follows from this one. */
unsigned long long heats_scramble(unsigned long long);

/* ---- outcome.c: what becomes of a candidate ---------------------------------- */
enum outcome {
	OUTCOME_OK,
	OUTCOME_WRONG,
	OUTCOME_NAN,
	OUTCOME_RESOURCES,
	OUTCOME_COMPILE,
	OUTCOME_TIMEOUT,
	OUTCOME_CRASH,
	OUTCOME_ILLEGAL,
	OUTCOME_NOISY, /* right, but too few clean samples: not a time to learn from */
	NUM_OUTCOMES
};
const char *outcome_name(enum outcome);

/* ---- batch.c: vLLM's batch grammar ------------------------------------------ */
/* (<count>)q<len>[k][s<len>[k]] joined by '_'. */
struct batch {
	attune_batch view; /* points into the two arrays */
	int32_t *query_start, *seq_lens;
};
/* NULL and a message (with the column) in error[] on failure. */
struct batch *batch_parse(const char *text, char *error, size_t size);
void batch_free(struct batch *);
/* Shortest text that parses to the same batch (runs joined, k where exact). */
char *batch_format(const attune_batch *);
int batch_query_len(const attune_batch *, int seq);
/* Whether the sequence's queries are of the phase. */
int batch_is_of_phase(const attune_batch *, enum phase, int seq);

/* ---- models.c, scenario.c, scenario_sets.c ------------------------------------- */
enum layout { LAYOUT_NHD, LAYOUT_HND, LAYOUT_CLASSIC };
extern const char *const layout_names[]; /* "nhd", ...; ends with NULL */
enum layout layout_of(const char *name); /* in any case; of others LAYOUT_NHD */

enum { MODEL_NAME = 64 };
struct scenario {
	char model[MODEL_NAME]; /* "llama3.1-8b@1", "llama3.1-8b@1+lse" */
	char set[48];           /* the file it came from, without .json */
	char split[24];         /* "train", "peers", "heldout_random" ...: scenario_splits */
	char *batch_text;       /* in canonical form */
	struct batch *batch;
	attune_shape shape;
	enum layout layout; /* CLASSIC where the shape's kv_layout is */
	double weight;
	double steps; /* of a simulated engine that it stands for; 0: not known */
	unsigned long long seed;
};
extern const char *const scenario_splits[]; /* the legal ones; ends with NULL */
/* Nothing learns from "heldout*", "peers" and "gate": no tree, portfolio, price or threshold. */
int split_is_held_out(const char *split);
/* Of "gate": new rules are compared with old ones on these scenarios, and no report counts them
 * as held out. */
int split_is_gate(const char *split);
/* Whether a tuning should move this scenario to "gate": one in three of those held out, by a hash of
 * its model and batch. Scenarios that differ in page size, types or seed go together. Not training ones: the
 * rules in use were learned from these, if on another GPU, and would look better than they are. */
int gate_draws(const struct scenario *);

/* What a layout is to the kernels. */
enum attune_kv_layout layout_kv(enum layout);

struct scenario_list {
	struct scenario *v;
	int n;
};
/* Appends the scenarios of a file. Errors are one line, "file:line:column: what is
 * wrong; what would be right", and return 0. models: scenarios/models.json. */
struct models; /* name@tp -> shape */
struct models *models_load(const char *path);
/* Of "name@tp", or of "name@tp+lse": the same, which gives the LSE, too. 0 + complain. */
int models_shape(const struct models *, const char *name, attune_shape *out);
void model_name(char out[MODEL_NAME], const char *name_at_tp, int gives_lse);
int model_gives_lse(const char *name);
/* "models": ["name@tp"], and "lse": true behind it where it gives that. */
void model_members(FILE *, const char *name);
const attune_shape *models_find(const struct models *, const char *name_at_tp); /* or NULL */
const char *models_nearest(const struct models *, const char *name);
const char *models_name(const struct models *, int i); /* NULL after the last */
void models_free(struct models *);
int scenarios_load(struct scenario_list *, const char *path, const struct models *);
/* What it points to. */
void scenario_drop(struct scenario *);
void scenarios_free(struct scenario_list *);
/* The model's scenarios (NULL: of all) of several sets, each once. A set is the
 * name of a file in `dir`, or a path. 0 after a complaint. */
int scenario_sets_load(struct scenario_list *, const char *dir, const char *const *set, int n,
		       const char *model, const struct models *);
void scenarios_sift(struct scenario_list *, const char *model);
/* What a batch asks of a machine, over all heads of one GPU. */
struct facts {
	int seqs, decodes; /* sequences with a query; of these, in the decode part */
	long long query_tokens;
	double kv_bytes, flops; /* KV read once; causal FLOPs of both products */
};
void scenario_facts(struct facts *, const attune_shape *, const attune_batch *);

/* ---- corners.c ------------------------------------------------------------------ */
/* The batches that every variant must pass for a shape before its time
 * counts: length 1, page boundary +-1, empty sequences, query longer than context, odd
 * sizes, mixed phases. NULL-terminated. */
extern const char *const corner_batches[];

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

/* ---- exam.c: the pool, and the check workloads that it keeps ------------------- */
void pool_free(struct device *, struct pool *);

/* ---- launch.c: a choice run on a part of a workload ------------------------- */
/* Loaded code for a choice and a shape, from the cache or the compiler. */
struct loaded {
	struct code *code, *helper[NUM_HELPERS]; /* helper: NULL where the choice takes none */
	int registers, spill_bytes;
};
/* One launch (two with a reduction) of `choice` over the phase's part, by the
 * same function that the library runs (kernels/run.c). */
enum attune_status choice_launch(struct device *, const struct choice *, const struct loaded *,
				 const struct workload *, int set, enum phase, void *workspace,
				 size_t workspace_bytes, int steps, void *stream);
enum attune_status choice_workspace(struct device *, const struct choice *, const struct scenario *,
				    enum phase, size_t *bytes);

/* ---- jit.c: binaries; compile.c alone knows the run-time compilers --------------- */
/* Outcome of a compilation, as data. `log` is the caller's to free. */
struct binary {
	struct blob blob;
	char *log;
	/* -1: not known. On AMD GPUs spill_bytes is all of the scratch memory of a lane. */
	int registers, spill_bytes, smem_static;
	int agprs, sgprs, spills; /* of these GPUs; agprs: of registers */
	double seconds;
	int cached;
};
/* kernel + flags -> binary for `arch`, through the disk cache (build/cache, or
 * ATTUNE_CACHE). 0: compiled; 1: the compiler refused (log says why);
 * 2: no compiler here (complains). Safe to call from several threads. */
int jit_compile(struct binary *, const struct kernel *, const char *flags, const char *arch);
/* The same of another kernels folder. */
int jit_compile_below(struct binary *, const char *root, const struct kernel *, const char *flags,
		      const char *arch);
/* Whether the cache has it. */
int jit_has(const struct kernel *, const char *flags, const char *arch);
void jit_free(struct binary *);
/* The same for a source outside kernels/: ".cu" or ".c" says which compiler. */
int jit_compile_source(struct binary *, const char *source_path, const char *flags,
		       const char *arch);
/* "nvrtc 13.0", "hiprtc 7.2.70203", "cc 12.2.0"; "none" */
const char *jit_version(enum backend, const char *arch);

/* ---- source.c: where sources and cached binaries are ---------------------------- */
/* The kernels folder: ATTUNE_SOURCE, else beside the executable's folder, else below
 * the working directory. NULL when there is none. */
const char *source_root(void);
/* Where compiled binaries are kept, ATTUNE_CACHE_MB of them (cache_trim.c): ATTUNE_CACHE, else
 * cache/ beside the executable, else ~/.cache/attune; made when absent. NULL + complain when it
 * cannot be. */
const char *cache_root(void);
char *source_text(const char *path); /* the caller's to free; NULL when unreadable */

/* ---- identity.c: what tells one binary's source from another -------------------- */
/* The hash of the tokens of the kernel's source and of all our files that it includes. Comments,
 * layout and the names and places of files do not count; helpers have an identity of their own.
 * 0 when a file is not here. Thread-safe; kept as long as the program runs. */
int source_identity(const struct kernel *, char hex[33]);
/* The same of any source, read anew. Included files are looked for in the folder of the file that
 * includes them, then in `root`, which may be NULL. */
int source_identity_of(const char *path, const char *root, char hex[33]);

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

/* ---- ceilings.c ---------------------------------------------------------------- */
/* GB/s of a linear read, TFLOP/s of matrix steps from registers; 0 and a status where
 * they cannot be measured. */
enum attune_status gpu_ceilings(struct device *, double *dram_gbps, double *tflops);

/* ---- clock.c: see there -------------------------------------------------------- */
double seconds_now(void);
double budget_now(void);  /* the same, unless a test holds it */
int budget_is_held(void); /* by a test */
void budget_race(void);   /* a race was begun */
void budget_play(void);   /* a tape was played */

/* ---- measure.c: times, in rounds --------------------------------------------- */
struct measurement {
	enum outcome outcome;
	int samples, calls;                              /* calls in one sample */
	float us[MAX_SAMPLES];                           /* per call */
	double median_us, min_us, q25_us, q75_us, ci_us; /* ci: half-width, 95 % */
	/* To the reference and to the winner, by what all rounds say, so that it compares with
	 * those of everyone in the race; and the lead's one-sided lower bound, NaN where only the
	 * first two looks speak for it. */
	double ratio, lead, lead_low;
	double device_us, wall_us; /* spent on it in all: probes and rejected samples too */
	double gbps, tflops;
	double sm_mhz_before, sm_mhz_after, power_w, joules; /* per call; NaN: not known */
	int rejected; /* samples thrown away: preempted or throttled */
	/* Why it ended: "slow" in the first two looks, "beaten"; with the race: "tie" of all who
	 * are left, "settled": more rounds would not pay, "rounds", "budget". "noisy": few
	 * samples are clean. The outcome says whether the time is worth learning from. */
	char stopped[16];
	char detail[200]; /* of a failure */
};
struct protocol {
	const char *name; /* "graph-rotating" on GPUs, "rounds-rotating" on CPUs; "-steady" */
	int min_rounds, max_rounds;
	double tie;          /* shares: racers so close to the leader are as good, and end a race */
	double regret;       /* so does an expected loss by its winner below this */
	double screen_ratio; /* drop what is slower than best x this in two first looks */
	double sample_us;    /* aim at samples of at least this long */
	double longest_us;   /* and of at most this, where one call allows */
	int min_calls;       /* in a sample, where longest_us allows */
	size_t cold_bytes;
	double
	    seconds; /* budget for one scenario; LEAST_SAMPLES rounds are run whatever they take */
	double settle_s; /* before the first round, at least: until clock and power hold still */
	double hold_s;   /* after the last one who is left runs alone so long, for its power */
};
/* preset: "smoke", "quick" or "full"; 0 when it is none of them. Bursts: clocks are what
 * idle gaps leave. */
int protocol_for(struct protocol *, const struct device_info *, const char *preset);
/* Makes its steady kin of it, "graph-rotating-steady": the race's own calls heat the device
 * until clock and power hold still, rounds follow back to back, and who is left at the end
 * runs alone for a while, which tells its power. */
void protocol_steady(struct protocol *);

/* One that takes part in a race: a choice, a composed plan, a library's whole call. */
struct racer {
	/* Launches one call over page set `set` on the device's own stream. */
	enum attune_status (*call)(void *arg, int set);
	void *arg;
	double bytes, flops;  /* of a call, for the rates */
	double bound_us;      /* what the ceilings allow; 0: not known */
	struct measurement m; /* out; no samples when the budget ended before it */
};
/* A racer that ran twice over, as two that nobody could tell apart: what lies between
 * their times is noise. */
struct control {
	int of, rounds;                     /* v[of]; rounds 0: there was none */
	double median_us, ratio, device_us; /* the twin's; to the racer it doubles, paired */
};
/* Each racer has tapes of some calls; a round plays one tape of every survivor, in
 * shuffled order, so that drift meets all alike. */
struct race {
	const struct protocol *protocol;
	struct racer *v; /* v[0] is the reference of ratios: never dropped, but rests if beaten */
	int n, sets;
	unsigned long long seed;
	int fixed_rounds; /* > 0: so many rounds, or what the budget allows; none is dropped */
	/* Any may be NULL. */
	struct control *control; /* out; asks for one, of the leader after the screen */
	void *arg;
	/* A race without a device: what a call of v[i] takes, in us; NaN: it cannot run. Rounds
	 * count from 0, the screen's; a control asks for v[i] twice a round. */
	double (*draw)(void *arg, int i, int round);
	void (*before)(void *arg, int i, double seconds); /* about to run; may take so long */
	void (*after)(void *arg, int i); /* v[i].m is final; of the reference comes last */
	int (*right)(void *arg, int i);  /* the output, looked at again after a time too good */
	double (*share)(const struct device *); /* of the last play; default for a CPU is its own */
};
/* The device may be NULL where `draw` is set; then device time is simulated, too.
 * ATTUNE_DEVICE_ERROR: the device is lost; the culprit was told to `after` as a crash,
 * others are not final. */
enum attune_status measure_race(struct device *, const struct race *);

/* ---- noise.c: which times are not data ------------------------------------------ */
/* A sample whose threads had less than this share of the CPU was disturbed. */
static const double clean_share = 0.985;
enum { LEAST_SAMPLES = 3 /* of a time, unless the race ended early for its candidate */ };
/* Makes an OK measurement NOISY, with the reason in `detail`, where its samples do not support
 * a time. kept: samples of rounds that count; share: the least share of the CPU that one of
 * them had. m->stopped still says how its race ended. */
void noise_judge_time(struct measurement *m, int kept, double share);
/* Whether the same choice twice differs by more than any quiet machine's did. */
int noise_in_control(const struct control *);
/* The same for a whole race: without a believable control no time of it counts. */
void noise_judge_race(struct measurement *, const struct control *);
double noise_of_control(const struct control *); /* by what share its two times differ */
extern const double noise_most_control;          /* the largest that is believed */

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

/* ---- sweep_cmd.c, devices_cmd.c, scenarios_cmd.c, merge_cmd.c ------------------- */
int cmd_sweep(int argc, char **argv);
int cmd_devices(int argc, char **argv);
int cmd_scenarios(int argc, char **argv);
int cmd_merge(int argc, char **argv);

/* ---- bridge_cmd.c -------------------------------------------------------------- */
int cmd_bridge(int argc, char **argv);

#endif
