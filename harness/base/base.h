/* SPDX-License-Identifier: Apache-2.0 */
/* base.h - used by every part of the tool: messages and progress on stderr, tables on stdout, exit
 * codes, statistics, outcomes, the budget clock. */
#ifndef HARNESS_BASE_BASE_H
#define HARNESS_BASE_BASE_H

#include <stdio.h>

/* Exit codes of every subcommand. */
enum {
	EXIT_DONE = 0,
	EXIT_CHECK = 1,
	EXIT_USAGE = 2,
	EXIT_NO_DEVICE = 3,
	EXIT_BUSY = 4,    /* other programs, or another attune, use the device */
	EXIT_NOTHING = 5, /* nothing was measured, so nothing is known */
	EXIT_INTERRUPTED = 130
};

/* The text of a file as a string; paths are from the repository's root. */
#define EMBED(name, file)                                                                          \
	__asm__(".pushsection .rodata\n" #name ":\n.incbin \"" file "\"\n.byte 0\n.popsection\n"); \
	extern const char name[];

/* Compiles a function for several instruction sets; the loader picks the widest that the CPU has. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CLONES __attribute__((target_clones("arch=x86-64-v4", "avx2", "default"), optimize("O3")))
#else
#define CLONES
#endif

/* ---- text_rule.c ------------------------------------------------------------------ */
/* A copy with U+FFFD for each invalid byte; the caller frees it. NULL: no memory. */
char *utf8_text(const char *text);

/* ---- messages.c: messages to stderr; stdout is for data ------------------------ */
/* "attune: <text>" on stderr. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same, but not counted by complaints(): it is no reason why a command fails. */
void remark(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A progress line. A terminal redraws it in place, at most 10 times a second. Elsewhere it is
 * written whenever 10 s pass without a line: a thread repeats it while the program does not call
 * progress(). done and total are in any unit and give the time left. */
void progress(const char *what, double done, double total);
void progress_end(void);
/* A prefix of the progress line; NULL: none. Without progress() it is the whole line. */
void progress_part(const char *name);
void progress_off(int off);          /* in this process */
void progress_every(double seconds); /* for tests: in place of 10 s */
/* Everything ends in this many seconds: progress shows that as the time left. 0: the time left is
 * estimated for each part. */
void progress_until(double seconds);
extern volatile int interrupted; /* set by SIGINT and SIGTERM after catch_signals() */
void catch_signals(void);

int complaints(void); /* lines written by complain() */
/* A part of the output is missing: complains, and main() fails the command (output_was_lost). */
void output_lost(void);
int output_was_lost(void);
/* The text made safe for a terminal: control characters escaped as in C, U+FFFD for invalid UTF-8.
 * The caller frees it; NULL: no memory. */
char *shown_text(const char *text);

/* ---- clocks.c ------------------------------------------------------------------ */
double seconds_now(void);
double budget_now(void);  /* seconds_now(), unless a test sets ATTUNE_CLOCK */
int budget_is_held(void); /* a test sets ATTUNE_CLOCK */
void budget_race(void);   /* counts a race */
void budget_run(void);    /* counts a run of a graph */
/* What the wall time of measuring is spent on. */
enum spent {
	SPENT_READING,   /* rules, scenarios, other GPUs' times */
	SPENT_OPENING,   /* the device, with its ceilings; and closing it */
	SPENT_WAITING,   /* until the device is free and the machine quiet */
	SPENT_PREPARING, /* choosing what to measure */
	SPENT_COMPILING, /* while races wait for builders */
	SPENT_CHECKING,  /* against the reference */
	SPENT_UPLOADING, /* buffers, references, code */
	SPENT_RACING,
	SPENT_LEARNING,
	NUM_SPENT
};
extern const char *const spent_words[NUM_SPENT];
/* From now on time counts as `what`. Returns what it counted as until now. */
enum spent spent_on(enum spent what);
/* Counts these seconds as `to` in place of `from`, also before they are added to `from`. */
void spent_move(enum spent from, enum spent to, double seconds);
void spent_begin(enum spent what); /* sets all sums to 0 */
void spent_read(double seconds[NUM_SPENT]);

/* ---- data_files.c ------------------------------------------------------------------ */
enum { PATH_TEXT = 4096 };
/* Finds a folder of the tool's own code, such as "kernels", by a file that it has ("kernels.def"):
 * where `make install` put it, or in the tree that the program lies in since it was built. The
 * working directory does not count: others may have put files there. Returns path; NULL: none. */
const char *code_path(char path[PATH_TEXT], const char *name, const char *has);
/* A file or folder of data that comes with the tool, such as "scenarios": below the working
 * directory, else where `make install` put it. Returns path. */
const char *data_path(char path[PATH_TEXT], const char *name);
/* All bytes of a file, and a '\0' behind them; the caller frees them. NULL: errno says why. */
char *file_bytes(const char *path, size_t *size);

/* ---- table.c --------------------------------------------------------------------- */
/* A table for people and machines. Control characters are escaped in table and markdown; csv is
 * quoted as in RFC 4180. */
enum format { FORMAT_TABLE, FORMAT_TSV, FORMAT_CSV, FORMAT_MARKDOWN, FORMAT_JSON, NUM_FORMATS };
#define FORMAT_WORDS "table, tsv, csv, markdown or json"
int format_for_people(enum format); /* table and markdown */
/* Whether lines that begin with '#' may precede the table. */
int format_has_notes(enum format);
struct table;
struct table *table_new(enum format, const char *const *columns, int num_columns);
/* A column is right-aligned if all its cells are numbers or empty. JSON keeps numbers. */
void table_text(struct table *, const char *cell);            /* NULL: empty, JSON null */
void table_number(struct table *, double cell, int decimals); /* NaN: empty, null */
void table_end_row(struct table *);
/* Adds cells by a format of "%s" (NULL: empty), "%d" and "%.3f" with any number of decimals; "\n"
 * ends the row. */
void table_add(struct table *, const char *format, ...) __attribute__((format(printf, 2, 3)));
void table_print(struct table *, FILE *);          /* and frees it */
int format_parse(const char *word, enum format *); /* 0: unknown */
/* In place of table_print: adds the rows to a document, as a list of objects. */
struct json_out;
void table_json(struct table *, struct json_out *, const char *key);

/* ---- options.c ------------------------------------------------------------------- */
/* Reads the options of a subcommand; an error, such as no memory, ends the program. */
struct argp;
void options_parse(const struct argp *, int argc, char **argv, void *input);
/* Parse the values of --gpu and --format; an error ends the program. */
enum { SHOWN_ARGUMENT = 60 };
struct argp_state;
void gpu_option(const char **gpu, const char *arg, struct argp_state *);
void format_option(enum format *, const char *arg, struct argp_state *);
/* Whether a list of words with commas between them, such as that of --retry, has the word. */
int list_has(const char *list, const char *word);
/* Refuses a list of --NAME that is empty or has a word that is none of `known`. */
void words_option(const char *name, const char *list, int (*is)(const char *word),
		  const char *known, struct argp_state *);
/* The number of --NAME, 1 or more. */
int whole_option(const char *name, const char *arg, struct argp_state *);
/* The seconds of --budget: "90s", "10m" or "1h". */
double budget_option(const char *arg, struct argp_state *);
/* An argument that is no option. */
void no_option(const char *arg, struct argp_state *);

/* ---- stats.c: pure functions ------------------------------------------------ */
enum { MAX_SAMPLES = 64 };                 /* of one contender */
int by_double(const void *, const void *); /* for qsort: ascending */
int by_int32(const void *, const void *);
double median(double *v, int n);                   /* sorts v */
double mad(const double *v, int n, double centre); /* x 1.4826 */
/* Half-width of the 95 % interval of the median by order statistics; NaN below six samples, as
 * their range covers the median with less than 95 %. */
double median_ci(const double *sorted, int n);
/* Hodges-Lehmann centre: robust, and nearly as precise as the mean. n is at most MAX_SAMPLES. */
double middle(const double *v, int n);
/* The deviate that a standard normal variable exceeds with probability p. */
double normal_beyond(double p);
/* The normal deviate with the tail probability of Student's t, and the inverse. */
double student_normal(double t, double freedom);
double student_beyond(double z, double freedom);
/* E max(0, X - z) of a standard normal X. */
double normal_loss(double z);
/* A pseudorandom function of its argument. */
unsigned long long scramble(unsigned long long);
/* The next 64 random bits (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number
 * generators", figure 17). */
unsigned long long random_bits(unsigned long long *state);
long long random_below(unsigned long long *state, long long n); /* 0 to n - 1 */

/* ---- outcome.c: the outcome of a candidate ----------------------------------- */
enum outcome {
	OUTCOME_OK,
	OUTCOME_WRONG,
	OUTCOME_NAN,
	OUTCOME_RESOURCES,
	OUTCOME_COMPILE,
	OUTCOME_TIMEOUT,
	OUTCOME_CRASH,
	OUTCOME_ILLEGAL,
	OUTCOME_NOISY, /* right, but its time is too noisy to learn from */
	NUM_OUTCOMES
};
const char *outcome_name(enum outcome);

/* ---- files.c: whole files ------------------------------------------------------------ */
int same_file(const char *a, const char *b);
char *file_text(const char *path); /* NULL when it cannot be read */
/* Replaces the file by all of it or leaves it: writes PATH.new and renames that. A PATH.new that a
 * killed process left is written over by the next. A pipe or a device such as /dev/stdout is
 * written directly. 0 + complain. */
int file_put(const char *path, const char *text);
int file_put_bytes(const char *path, const void *bytes, size_t n);

/* ---- array.c ---------------------------------------------------------------------- */
/* Room for one more element of `size` bytes in *array, which has n; it doubles. 0 without memory. */
int array_grow(void *array, int n, int *room, size_t size);

#endif
