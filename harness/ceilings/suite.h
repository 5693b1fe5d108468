/* SPDX-License-Identifier: Apache-2.0 */
/* suite.h - the measurements of `attune bench --roofline`: the limits of a GPU without attention.
 *
 *   memory_reads.c  times patterns of memory reads: read, cold, cached; times a graph, keeps results
 *   launches.c      times launches */
#ifndef HARNESS_CEILINGS_SUITE_H
#define HARNESS_CEILINGS_SUITE_H

#include "harness/store/store.h"
#include "kernels/attune.h"
#include <stdio.h>

struct code;
struct device;
struct device_info;
struct kept_code;

enum { ROOFLINE_TEXT = 64, MOST_CEILINGS = 1024, MAX_CODES = 64 };

/* One pattern of reading memory. */
struct read_pattern {
	const char *name, *path; /* "async", "ASYNC" of roofline.cu */
	int kib;                 /* in flight per block */
	int warps, stages, piece;
	int keep; /* in the L2 cache */
	int blocks;
	int units; /* 0: all blocks read; else those on units below that number */
};

struct roofline {
	struct device *dev;
	size_t bytes;   /* of a read; the memory has twice that */
	char *memory;   /* device */
	int *pages;     /* device: pages of one read in random order */
	unsigned *sums; /* device */
	struct kept_code {
		struct read_pattern pattern;
		struct code *code; /* NULL: does not compile or reads wrong; not retried */
	} kept[MAX_CODES];
	int num_kept;
	struct ceiling v[MOST_CEILINGS];
	char detail[MOST_CEILINGS][ROOFLINE_TEXT];
	int n;
	const char *failed; /* the first measurement that failed, or NULL */
};

/* Records `launches` calls of `record` as a graph and times it: median us of a launch; NaN if it
 * does not run. */
double roofline_us(struct device *, int launches,
		   enum attune_status (*record)(void *arg, int i, void *stream), void *arg);
/* Keeps the value if it is positive and finite. */
__attribute__((format(printf, 5, 6))) void roofline_add(struct roofline *, const char *name,
							double value, const char *unit,
							const char *format, ...);

/* ---- memory_reads.c ---- */
/* Allocates and fills the memory. 0 + complain. */
int roofline_open(struct roofline *, struct device *, size_t bytes);
void roofline_close(struct roofline *);
/* The -D flags of roofline.cu, and the dynamic shared memory of a block. */
void pattern_flags(char *text, size_t size, const struct read_pattern *);
unsigned pattern_smem(const struct read_pattern *, const struct device_info *);
/* The i-th pattern of this device; 0 after the last. */
int pattern_nth(struct read_pattern *, const struct device_info *, int i);

/* Reads by path, KiB in flight and blocks, then by units; cold reads by size; reads from the L2
 * cache. They stop early if interrupted, and skip patterns that do not run here. */
void roofline_read(struct roofline *);
void roofline_cold(struct roofline *);
void roofline_cached(struct roofline *);

/* ---- launches.c ---- */
void roofline_launches(struct roofline *);

#endif
