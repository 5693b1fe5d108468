/* roofline.h - what a GPU gives at most, without attention; `attune bench --roofline` asks.
 *
 *   results.c  times a graph, keeps what was measured
 *   memory_reads.c    ways to read memory, timed: read, cold, cached
 *   launches.c   what launches cost */
#ifndef HARNESS_CEILINGS_SUITE_H
#define HARNESS_CEILINGS_SUITE_H

#include "harness/store/store.h"
#include "kernels/attune.h"
#include <stdio.h>

struct code;
struct device;
struct device_info;
struct kept_code;
struct measured_ceiling;

enum { ROOFLINE_TEXT = 64, MOST_CEILINGS = 1024, MOST_CODES = 64 };

/* One way to ask memory. */
struct ask {
	const char *name, *path; /* "async", "ASYNC" of roofline.cu */
	int kib;                 /* under way in a block */
	int warps, stages, piece;
	int keep; /* in the L2 cache */
	int blocks;
	int units; /* 0: all blocks read; else those on units below that number */
};

struct roofline {
	struct device *dev;
	size_t bytes;   /* of a read; the memory is of twice that */
	char *memory;   /* device */
	int *pages;     /* device: of one read, in a random order */
	unsigned *sums; /* device */
	struct kept_code {
		struct ask ask;
		struct code *code; /* NULL: does not compile, or reads wrong; never tried again */
	} kept[MOST_CODES];
	int num_kept;
	struct measured_ceiling {
		struct ceiling c;
		char detail[ROOFLINE_TEXT];
	} v[MOST_CEILINGS];
	int n;
	const char *failed; /* what could not be measured first, or NULL */
};

/* ---- results.c ---- */
/* Median of the plays of a graph, us a launch: what `record` launches, `launches` in all; NaN
 * where it does not run. The graph is freed. */
double roofline_us(struct device *, int launches,
		   enum attune_status (*record)(void *arg, int i, void *stream), void *arg);
/* Keeps it unless it is no positive number. */
__attribute__((format(printf, 5, 6))) void roofline_add(struct roofline *, const char *name,
							double value, const char *unit,
							const char *format, ...);

/* ---- memory_reads.c ---- */
/* Memory of two reads, filled. 0 + complain. */
int roofline_open(struct roofline *, struct device *, size_t bytes);
void roofline_close(struct roofline *);
/* The -D flags of roofline.cu, and the dynamic shared memory of a block. */
void ask_flags(char *text, size_t size, const struct ask *);
unsigned ask_smem(const struct ask *, const struct device_info *);
/* The i-th way that this device has, of so many; 0 after the last. */
int ask_nth(struct ask *, const struct device_info *, int i);

/* By path, KiB under way and blocks, then units; cold, by size; out of the L2 cache. They stop early
 * when interrupted, and leave out what does not run here. */
void roofline_read(struct roofline *);
void roofline_cold(struct roofline *);
void roofline_cached(struct roofline *);

/* ---- launches.c ---- */
void roofline_launches(struct roofline *);

#endif
