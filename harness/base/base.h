/* base.h - what every part of the tool stands on: messages and progress on stderr, tables and JSON on
 * stdout, exit codes, statistics, the clock of budgets.
 * Includes nothing of attune. */
#ifndef HARNESS_BASE_BASE_H
#define HARNESS_BASE_BASE_H

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

/* ---- messages.c: stderr is talk, stdout is data -------------------------------- */
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
enum { MAX_SAMPLES = 64 };       /* of one contender */
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
unsigned long long scramble(unsigned long long);

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

/* ---- clock.c: see there -------------------------------------------------------- */
double seconds_now(void);
double budget_now(void);  /* the same, unless a test holds it */
int budget_is_held(void); /* by a test */
void budget_race(void);   /* a race was begun */
void budget_play(void);   /* a graph was played */

#endif
