/* SPDX-License-Identifier: Apache-2.0 */
/* memory_reads.c - measures how fast memory can be read, with gpu/ceilings/roofline.cu; times a graph
 * of launches, and keeps the ceilings that all files of the suite find.
 *
 *   read    random pages of a gigabyte; two regions alternate, so that none is in a cache
 *   cold    a set of consecutive bytes; sets rotate, of 8 times the L2 cache in all
 *   cached  a set that fits into the L2 cache, repeatedly
 *
 * A block takes more than half of a unit's shared memory, so each unit holds one block. */
#include "suite.h"
#include "harness/base/base.h"
#include "harness/compile/compile.h"
#include "harness/store/store.h"
#include "kernels/device/device.h"
#include "kernels/gpu/ceilings/roofline.h"
#include "kernels/spec/space.h"
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- results ----------------------------------------------------------------------- */
/* Times a graph of launches, and keeps the results. */

enum { PLAYS = 7, WARM = 2 };

double roofline_us(struct device *dev, int launches,
		   enum attune_status (*record)(void *arg, int i, void *stream), void *arg)
{
	struct graph *graph = NULL;
	double ns[PLAYS];
	enum attune_status status = dev->ops->graph_begin(dev);
	if (status)
		return NAN;
	for (int i = 0; i < launches && !status; i++)
		status = record(arg, i, dev->ops->stream(dev));
	const enum attune_status ended = dev->ops->graph_end(dev, &graph);
	status = status ? status : ended;
	for (int i = -WARM; i < PLAYS && !status; i++)
		status = dev->ops->graph_play(dev, graph, &ns[i < 0 ? 0 : i]);
	if (!ended)
		dev->ops->graph_free(dev, graph);
	return status ? NAN : median(ns, PLAYS) / launches / 1e3;
}

void roofline_add(struct roofline *r, const char *name, double value, const char *unit,
		  const char *format, ...)
{
	va_list ap;
	if (!(value > 0) || isinf(value) || r->n == MOST_CEILINGS)
		return;
	char *detail = r->detail[r->n];
	va_start(ap, format);
	vsnprintf(detail, ROOFLINE_TEXT, format, ap);
	va_end(ap);
	r->v[r->n++] = (struct ceiling){ name, detail, unit, value };
}

enum { READS = 4, NUM_KIB = 7, EIGHTHS = 8, L2_FILLS = 8, FILL = 0x5a };
static const int kibs[NUM_KIB] = { 16, 32, 48, 64, 96, 128, 192 };
static const size_t least_cold = 1 << 18, most_cold = 1 << 29; /* bytes */

// clang-format off
static const struct way {
	const char *name, *path;
	int piece, lanes, least_arch; /* least_arch: 90 of sm_90; 0: any */
	struct { int warps, stages; } at[NUM_KIB];
} ways[] = {
	{ "loads", "LOADS", 256, 32, 0,
	  { { 4, 1 }, { 8, 1 }, { 12, 1 }, { 8, 2 }, { 12, 2 }, { 16, 2 }, { 24, 2 } } },
	{ "loads", "LOADS", 256, 64, 0,
	  { { 4, 1 }, { 8, 1 }, { 12, 1 }, { 16, 1 }, { 12, 2 }, { 16, 2 }, { 16, 3 } } },
	{ "async", "ASYNC", 256, 32, 0,
	  { { 4, 1 }, { 4, 2 }, { 4, 3 }, { 4, 4 }, { 4, 6 }, { 4, 8 }, { 4, 12 } } },
	{ "bulk256", "BULK", 256, 32, 90,
	  { { 4, 1 }, { 8, 1 }, { 4, 3 }, { 8, 2 }, { 8, 3 }, { 8, 4 }, { 8, 6 } } },
	{ "bulk4k", "BULK", 4096, 32, 90,
	  { { 4, 1 }, { 8, 1 }, { 4, 3 }, { 8, 2 }, { 8, 3 }, { 8, 4 }, { 8, 6 } } },
};
// clang-format on

/* ---- patterns --------------------------------------------------------------------------- */

void pattern_flags(char *text, size_t size, const struct read_pattern *a)
{
	snprintf(text, size, "-DPATH=%s -DWARPS=%d -DSTAGES=%d -DPIECE=%d -DKEEP=%d", a->path,
		 a->warps, a->stages, a->piece, a->keep);
}

static unsigned needed_smem(const struct read_pattern *a)
{
	const unsigned stages = (unsigned)(a->warps * a->stages);
	return !strcmp(a->path, "LOADS") ? 0 : stages * (ROOFLINE_ITEM + 8);
}

unsigned pattern_smem(const struct read_pattern *a, const struct device_info *d)
{
	const unsigned need = needed_smem(a), alone = (unsigned)d->smem_per_unit / 2 + 1024;
	const unsigned most = (unsigned)d->smem_per_block;
	return need > alone ? need : alone < most ? alone : most;
}

static int has_way(const struct way *w, const struct device_info *d)
{
	return w->lanes == d->lanes && (!w->least_arch || (!strncmp(d->arch, "sm_", 3) &&
							   atoi(d->arch + 3) >= w->least_arch));
}

int pattern_nth(struct read_pattern *a, const struct device_info *d, int i)
{
	for (const struct way *w = ways; w < ways + COUNT(ways); w++)
		for (int k = 0; has_way(w, d) && k < NUM_KIB; k++) {
			*a = (struct read_pattern){ .name = w->name,
						    .path = w->path,
						    .kib = kibs[k],
						    .warps = w->at[k].warps,
						    .stages = w->at[k].stages,
						    .piece = w->piece,
						    .blocks = d->units };
			if (needed_smem(a) <= (unsigned)d->smem_per_block && !i--)
				return 1;
		}
	return 0;
}

/* ---- reads --------------------------------------------------------------------------------- */

/* Each launch reads `bytes` of one set; the sets rotate. */
struct reads {
	const struct roofline *r;
	const struct read_pattern *pattern;
	const struct code *code;
	size_t set, bytes; /* bytes above set: the set is read repeatedly */
	int num_sets, random, asks;
};

static enum attune_status read_once(void *arg, int i, void *stream)
{
	const struct reads *x = arg;
	const struct roofline *r = x->r;
	const struct roofline_args args = { .from = r->memory + (size_t)(i % x->num_sets) * x->set,
					    .pages = x->random ? r->pages : NULL,
					    .sums = r->sums,
					    .num_pages = (int)(x->set / ROOFLINE_PAGE),
					    .num_items = (int)(x->bytes / ROOFLINE_ITEM),
					    .asks = x->asks,
					    .units = x->pattern->units };
	const struct geometry g = { .x = (unsigned)x->pattern->blocks,
				    .y = 1,
				    .z = 1,
				    .threads = (unsigned)(x->pattern->warps * r->dev->info.lanes),
				    .smem = pattern_smem(x->pattern, &r->dev->info),
				    .segments = 1 };
	return r->dev->ops->launch(r->dev, x->code, &g, &args, sizeof args, stream);
}

/* Compares the sum of all that warps read with the sum of the memory's contents. */
static int reads_all(const struct roofline *r, const struct read_pattern *a,
		     const struct code *code)
{
	const struct reads x = { r, a, code, r->bytes, r->bytes, 2, 1, 1 };
	const int n = a->warps * a->blocks;
	unsigned *sums = calloc((size_t)n, sizeof *sums), sum = 0;
	const struct device_ops *ops = r->dev->ops;
	int ok = sums && !ops->fill(r->dev, r->sums, 0, (size_t)n * sizeof *sums) &&
		 !read_once((void *)(uintptr_t)&x, 1, ops->stream(r->dev)) &&
		 !ops->wait(r->dev, ops->stream(r->dev)) &&
		 !ops->get(r->dev, sums, r->sums, (size_t)n * sizeof *sums);
	for (int i = 0; ok && i < n; i++)
		sum += sums[i];
	free(sums);
	if (ok && sum == (unsigned)(r->bytes / 4) * (FILL * 0x01010101u))
		return 1;
	complain("%s, %d KiB in flight%s: %s", a->name, a->kib,
		 a->units ? ", by half of the units" : "",
		 ok ? "not all bytes were read; no time of it counts" : attune_last_error());
	return 0;
}

static struct code *compile(const struct roofline *r, const struct read_pattern *a)
{
	char path[PATH_MAX], flags[ROOFLINE_TEXT + 32];
	struct code *code = NULL;
	snprintf(path, sizeof path, "%s/gpu/ceilings/roofline.cu", source_root());
	pattern_flags(flags, sizeof flags, a);
	if (jit_load_source(r->dev, &code, path, flags, r->dev->info.arch))
		complain("%s %s: %s", path, flags, attune_last_error());
	if (code && !reads_all(r, a, code)) {
		r->dev->ops->unload(r->dev, code);
		code = NULL;
	}
	return code;
}

static const struct code *code_of(struct roofline *r, const struct read_pattern *a)
{
	for (int i = 0; i < r->num_kept; i++) {
		const struct read_pattern *b = &r->kept[i].pattern;
		if (a->warps == b->warps && a->stages == b->stages && a->piece == b->piece &&
		    a->keep == b->keep && !strcmp(a->path, b->path))
			return r->kept[i].code;
	}
	if (r->num_kept == MAX_CODES)
		return NULL;
	struct kept_code *k = &r->kept[r->num_kept++];
	*k = (struct kept_code){ *a, compile(r, a) };
	if (!k->code && !r->failed)
		r->failed = a->name;
	return k->code;
}

/* us per read; NaN: it does not run. */
static double time_reads(struct roofline *r, struct reads *x, int launches)
{
	x->r = r;
	x->code = code_of(r, x->pattern);
	return x->code ? roofline_us(r->dev, launches, read_once, x) : NAN;
}

static double gbps(size_t bytes, double us)
{
	return (double)bytes / us / 1e3;
}

/* ---- measurements ------------------------------------------------------------------------ */

static int num_patterns(const struct roofline *r)
{
	struct read_pattern a;
	int n = 0;
	while (pattern_nth(&a, &r->dev->info, n))
		n++;
	return n;
}

/* Reads a gigabyte in random order. */
static double read_gbps(struct roofline *r, const struct read_pattern *a)
{
	struct reads x = {
		.pattern = a, .set = r->bytes, .bytes = r->bytes, .num_sets = 2, .random = 1
	};
	return gbps(r->bytes, time_reads(r, &x, READS));
}

/* With this many blocks; the launch chooses the units. */
static void read_blocks(struct roofline *r, struct read_pattern *a, int blocks)
{
	a->blocks = blocks;
	roofline_add(r, "read", read_gbps(r, a), "GB/s", "path=%s kib=%d blocks=%d", a->name,
		     a->kib, blocks);
}

/* On the first `units` units. */
static void read_units(struct roofline *r, struct read_pattern *a, int units)
{
	a->units = units;
	if (units < a->blocks)
		roofline_add(r, "read", read_gbps(r, a), "GB/s", "path=%s kib=%d units=%d", a->name,
			     a->kib, units);
}

/* Whether units are numbered from 0, and a grid with one block per unit uses all. */
static int has_numbers(struct roofline *r)
{
	struct read_pattern a;
	if (strncmp(r->dev->info.arch, "sm_", 3) || !pattern_nth(&a, &r->dev->info, 0))
		return 0;
	const struct code *code = code_of(r, &a);
	a.units = a.blocks / 2;
	return a.units && code && reads_all(r, &a, code);
}

static void read_shares(struct roofline *r,
			void (*read)(struct roofline *, struct read_pattern *, int))
{
	const int units = r->dev->info.units, all = num_patterns(r);
	struct read_pattern a;
	for (int i = 0; pattern_nth(&a, &r->dev->info, i) && !interrupted; i++) {
		progress(a.name, i, all);
		for (int eighth = 1; eighth <= EIGHTHS; eighth++) {
			const int share = units * eighth / EIGHTHS;
			if (share >
			    units * (eighth - 1) / EIGHTHS) /* skips repetitions on small GPUs */
				read(r, &a, share);
		}
	}
}

void roofline_read(struct roofline *r)
{
	read_shares(r, read_blocks);
	if (has_numbers(r))
		read_shares(r, read_units);
}

/* Finds the fastest pattern; returns its us. */
static double best_of(struct roofline *r, struct reads *x, int launches, int keep, const char *only,
		      struct read_pattern *best)
{
	struct read_pattern a;
	double least = NAN;
	*best = (struct read_pattern){ .name = "" };
	for (int i = 0; pattern_nth(&a, &r->dev->info, i) && !interrupted; i++) {
		if ((a.kib != 32 && a.kib != 64 && a.kib != 128) || (only && strcmp(a.name, only)))
			continue;
		a.keep = keep;
		x->pattern = &a;
		const double us = time_reads(r, x, launches);
		if (us > 0 && !(us >= least))
			least = us, *best = a;
	}
	return least;
}

/* A run goes through sets of 8 times the cache in all, so that no set is still in the cache. */
void roofline_cold(struct roofline *r)
{
	const double fills = L2_FILLS * (double)r->dev->info.l2_bytes;
	for (size_t n = least_cold; n <= most_cold && n <= r->bytes && !interrupted; n *= 2) {
		const double mib = (double)n / (1 << 20);
		const int most = (int)(2 * r->bytes / n), sets = (int)ceil(fills / (double)n);
		struct reads x = { .set = n, .bytes = n };
		struct read_pattern best;
		x.num_sets = sets < 2 ? 2 : sets < most ? sets : most;
		progress("cold", (double)n, (double)most_cold);
		const double us = best_of(r, &x, x.num_sets, 0, NULL, &best);
		roofline_add(r, "cold", us, "us", "mib=%g path=%s kib=%d blocks=%d", mib, best.name,
			     best.kib, best.blocks);
		roofline_add(r, "cold", gbps(n, us), "GB/s", "mib=%g path=%s kib=%d blocks=%d", mib,
			     best.name, best.kib, best.blocks);
	}
}

/* Measures every path on a set of `bytes`. */
static void cached_set(struct roofline *r, size_t bytes)
{
	const struct device_info *d = &r->dev->info;
	for (const struct way *w = ways; w < ways + COUNT(ways) && !interrupted; w++) {
		struct reads x = { .set = bytes, .bytes = r->bytes, .num_sets = 1 };
		struct read_pattern best;
		if (!has_way(w, d))
			continue;
		const double us = best_of(r, &x, READS, 1, w->name, &best);
		roofline_add(r, "cached", gbps(x.bytes, us), "GB/s",
			     "mib=%.4g path=%s kib=%d blocks=%d", (double)bytes / (1 << 20),
			     best.name, best.kib, best.blocks);
	}
}

/* A quarter and a half of the L2 cache. */
void roofline_cached(struct roofline *r)
{
	size_t last = 0;
	for (int part = 4; part >= 2; part -= 2) {
		const size_t share = r->dev->info.l2_bytes / (size_t)part;
		const size_t bytes =
		    (share < r->bytes ? share : r->bytes) / ROOFLINE_PAGE * ROOFLINE_PAGE;
		progress("cached", 4. - part, 4);
		if (bytes > last)
			cached_set(r, bytes);
		last = bytes;
	}
}

/* ---- memory -------------------------------------------------------------------------------- */

static int put_pages(struct roofline *r)
{
	const int n = (int)(r->bytes / ROOFLINE_PAGE);
	int *pages = malloc((size_t)n * sizeof *pages);
	unsigned long long state = 1;
	if (!pages)
		return 0;
	for (int i = 0; i < n; i++)
		pages[i] = i;
	for (int i = n - 1; i > 0; i--) {
		state = state * 6364136223846793005ull + 1442695040888963407ull;
		const int j = (int)((state >> 33) % (unsigned)(i + 1)), page = pages[i];
		pages[i] = pages[j];
		pages[j] = page;
	}
	const int ok = !r->dev->ops->put(r->dev, r->pages, pages, (size_t)n * sizeof *pages);
	free(pages);
	return ok;
}

int roofline_open(struct roofline *r, struct device *dev, size_t bytes)
{
	enum { MOST_WARPS = 32 };
	const struct device_ops *ops = dev->ops;
	void *memory = NULL, *pages = NULL, *sums = NULL;
	*r = (struct roofline){ .dev = dev, .bytes = bytes / ROOFLINE_PAGE * ROOFLINE_PAGE };
	const int ok =
	    !ops->alloc(dev, &memory, 2 * r->bytes) &&
	    !ops->alloc(dev, &pages, r->bytes / ROOFLINE_PAGE * sizeof(int)) &&
	    !ops->alloc(dev, &sums, (size_t)dev->info.units * MOST_WARPS * sizeof(unsigned)) &&
	    !ops->fill(dev, memory, FILL, 2 * r->bytes);
	r->memory = memory;
	r->pages = pages;
	r->sums = sums;
	if (ok && put_pages(r))
		return 1;
	complain("memory for two reads of %.0f MB: %s", (double)r->bytes / 1e6,
		 attune_last_error());
	return 0;
}

void roofline_close(struct roofline *r)
{
	const struct device_ops *ops = r->dev->ops;
	for (int i = 0; i < r->num_kept; i++)
		if (r->kept[i].code)
			ops->unload(r->dev, r->kept[i].code);
	ops->release(r->dev, r->memory);
	ops->release(r->dev, r->pages);
	ops->release(r->dev, r->sums);
}
