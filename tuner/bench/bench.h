/* bench.h - shared by the files of `attune bench`:
 *
 *   bench.c           the command
 *   bench_policies.c  lists what runs each batch: the library, its baselines, plug-ins
 *   bench_rows.c      measures a list into rows of table bench, and prints these
 *   bench_bounds.c    bench --bounds
 *   bench_roofline.c  bench --roofline, and show --ceilings */
#ifndef TUNER_BENCH_BENCH_H
#define TUNER_BENCH_BENCH_H

#include "harness/base/base.h"
#include "harness/scenario/scenario.h"
#include "tuner/remeasure/requests.h"

struct data;
struct device;
struct hello;
struct measured;
struct sweep_options;
struct trace_options;

/* Batches, and what runs them. */
struct bench_list {
	struct scenario_list batches;
	struct wishes wishes;
};

/* ---- bench_policies.c ---- */
/* The data's scenarios of a split, at most `limit`. 0 + complain. */
int bench_list_split(struct bench_list *, const struct data *, const struct hello *,
		     const char *split, int limit);
/* Steps of a trace, whose batches are in made[steps]; *all: the number of busy steps. 0 +
 * complain. */
int bench_list_trace(struct bench_list *, const struct data *, const struct hello *,
		     const struct trace_options *, struct measured *made, int *all);

/* ---- bench_rows.c ---- */
/* Where the rows of a run of the command are. */
struct bench_rows {
	const char *db;
	long long after; /* rows of later runs; set by bench_measure */
};
/* An exit code. */
int bench_measure(const struct bench_list *, const struct sweep_options *, struct bench_rows *);
/* Each prints the rows, and sums on stderr. Returns how often the library was timed. */
int bench_print(const struct bench_rows *, enum format);
int bench_print_trace(const struct bench_rows *, int steps, int all, enum format);
int bench_print_bounds(const struct bench_rows *, enum format);

/* ---- bench_bounds.c ---- */
/* Lists the first `limit` batches (0: all). 0 + complain; bench_free_bounds frees the batches. */
int bench_list_bounds(struct bench_list *, int limit);
void bench_free_bounds(struct bench_list *);

/* ---- bench_roofline.c ---- */
/* Measures into database db, with reads of at most read_mb MB; an exit code. */
int bench_roofline(struct device *, const char *db, double read_mb, enum format);
/* Prints the results of the newest `attune bench --roofline`; an exit code. */
int show_ceilings(const char *db, const char *gpu, enum format);

#endif
