/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h - shared by the files of `attune bench`:
 *
 *   bench.c           the command
 *   bench_policies.c  lists what runs each batch: the library, its baselines, plug-ins
 *   bench_bounds.c    lists what `bench --bounds` times
 *   bench_settle.c    lists what `bench --settle` and `--settled` time
 *   bench_rows.c      measures a list into rows of table bench, and prints these
 *   bench_roofline.c  bench --roofline, and show --ceilings */
#ifndef TUNER_BENCH_BENCH_H
#define TUNER_BENCH_BENCH_H

#include "harness/base/base.h"
#include "tuner/remeasure/requests.h"

struct data;
struct device;
struct hello;
struct trace_options;

/* ---- bench_policies.c, bench_bounds.c: what is timed ---- */
/* The data's scenarios of a split, at most `limit` (0: all). 0 + complain. */
int bench_list_split(struct wishes *, const struct data *, const struct hello *, const char *split,
		     int limit);
/* Steps of a trace; *all: the number of busy steps. The list then owns its batches. 0 + complain. */
int bench_list_trace(struct wishes *, const struct data *, const struct hello *,
		     const struct trace_options *, int *all);
/* The first `limit` batches (0: all), which the list then owns. 0 + complain. */
int bench_list_bounds(struct wishes *, int limit);
/* A batch of Llama 3.1 8B. 0: no memory. */
int bench_llama(struct scenario *, const char *batch);

/* ---- bench_settle.c ---- */
struct settle_asked {
	const char *settle, *settled; /* files; NULL: not asked for */
	int siblings, ladder;
};
/* Whether both files can be read by the library of this device, where they exist. 0 + complain. */
int settle_files_are_sound(const struct settle_asked *, const struct hello *);
/* The data's scenarios of a split, at most `limit` (0: all), or siblings of them, which the list
 * then owns. 0 + complain. */
int bench_list_settle(struct wishes *, const struct data *, const struct hello *, const char *split,
		      int limit, const struct settle_asked *);

/* The batches that vLLM captures for Llama 3.1 8B, which the list then owns. 0 + complain. */
int bench_list_ladder(struct wishes *);

/* ---- bench_rows.c ---- */
enum bench_kind { BENCH_SPLIT, BENCH_TRACE, BENCH_BOUNDS, BENCH_SETTLE, BENCH_SETTLING };
/* Measures into the options' database, and prints these rows, and sums on stderr. *library: how often
 * the library was timed. An exit code. */
int bench_measure(enum bench_kind, const struct wishes *, const struct sweep_options *, enum format,
		  int *library);

/* ---- bench_roofline.c ---- */
/* Measures into database db, with reads of at most read_mb MB; an exit code. */
int bench_roofline(struct device *, const char *db, double read_mb, enum format);
/* Prints the results of the newest `attune bench --roofline`; an exit code. */
int show_ceilings(const char *db, const char *gpu, enum format);

#endif
