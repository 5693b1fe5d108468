/* SPDX-License-Identifier: Apache-2.0 */
/* compile_only.c - attune sweep --compile-only: compiles the binaries of a sweep for a GPU that
 * need not be here, and lists their resources in a table and a database of their own. */
#include "sweep.h"
#include "harness/base/base.h"
#include "harness/compile/compile.h"
#include "harness/scenario/scenario.h"
#include "harness/search/search.h"
#include "harness/store/store.h"
#include "kernels/device/hip/hip.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int describe(struct device_info *info, const char *gpu, const char *arch)
{
	struct device cpu;
	if (gpu && strcmp(gpu, "cpu"))
		return gpu_imagine(info, gpu, arch);
	/* a CPU is compiled for its own instruction set only */
	if (device_open(&cpu, "cpu")) {
		complain("%s", attune_last_error());
		return 0;
	}
	*info = cpu.info;
	device_close(&cpu);
	return 1;
}

static const struct kernel *helper_of(const struct built_choice *e, int built)
{
	for (enum helper i = 0; i < NUM_HELPERS; i++)
		if (e->helper[i] == built)
			return kernel_helper(e->choice.kernel->backend, i);
	return NULL;
}

/* The geometry of a binary, from the first problem with a choice that uses it. None, if its
 * candidates are illegal for all batches. */
static void geometry_of(struct geometry *g, const struct problems *all, int built,
			const struct device_info *d)
{
	struct config c;
	for (int i = 0; i < all->n; i++)
		for (int k = 0; k < all->v[i].n; k++) {
			const struct built_choice *e =
			    &all->built_choice[all->v[i].built_choice[k]];
			const struct kernel *kernel = e->choice.kernel;
			c = e->choice.config;
			if (e->built != built) {
				kernel = helper_of(e, built);
				if (!kernel)
					continue;
				config_default(&c, kernel->space);
			}
			kernel->space->geometry(&c, &all->scenarios[all->v[i].scenario].shape,
						&all->v[i].part, d, g);
			return;
		}
}

/* ---- the resources of a binary --------------------------------------------------------- */

/* The compiler's first error, from the file's own name on. */
static void first_error(char *why, size_t size, const char *log)
{
	const char *error = log ? strstr(log, "error") : NULL, *at = error ? error : log;
	while (at && at > log && at[-1] != '\n' && at[-1] != '/')
		at--;
	snprintf(why, size, "%.*s", at ? (int)strcspn(at, "\n") : 0, at ? at : "");
}

static double reported(int value)
{
	return value < 0 ? NAN : value;
}

static void take_compiled(double *n, const struct binary *b)
{
	n[TAKES_REGISTERS] = reported(b->registers);
	n[TAKES_AGPRS] = reported(b->agprs);
	n[TAKES_VGPRS] = n[TAKES_REGISTERS] - n[TAKES_AGPRS];
	n[TAKES_SGPRS] = reported(b->sgprs);
	n[TAKES_SPILLS] = reported(b->spills);
	n[TAKES_SCRATCH] = reported(b->spill_bytes);
	n[TAKES_SMEM_STATIC] = reported(b->smem_static);
}

static void take_launched(double *n, const struct arch_limits *m, const struct binary *b,
			  const struct geometry *g)
{
	struct resident r;
	gpu_resident(&r, m, b, g);
	n[TAKES_SMEM_DYNAMIC] = g->smem;
	n[TAKES_THREADS] = g->threads;
	n[TAKES_BLOCKS] = r.blocks;
	n[TAKES_WAVES] = r.waves;
	n[TAKES_SHARE] = r.share;
}

/* For the CPU: only whether it compiles. */
static void list_resources(struct resources *r, const struct problems *all, const struct built *b,
			   int i, const struct device_info *d)
{
	static const enum outcome outcomes[] = { [BUILT] = OUTCOME_OK,
						 [REFUSED_BY_COMPILER] = OUTCOME_COMPILE,
						 [USES_SCRATCH] = OUTCOME_RESOURCES };
	const struct arch_limits *m = arch_limits(d->arch);
	struct geometry g = { 0 };
	*r = (struct resources){ b->kernel, b->flags, outcomes[b->status], "", { 0 } };
	for (int n = 0; n < NUM_TAKES; n++)
		r->takes[n] = NAN;
	geometry_of(&g, all, i, d);
	if (r->outcome == OUTCOME_COMPILE)
		first_error(r->why, sizeof r->why, b->binary.log);
	else if (m)
		take_compiled(r->takes, &b->binary);
	if (m && r->outcome != OUTCOME_COMPILE && g.threads)
		take_launched(r->takes, m, &b->binary, &g);
	if (r->outcome == OUTCOME_RESOURCES)
		snprintf(r->why, sizeof r->why, "%d bytes of scratch memory per lane",
			 b->binary.spill_bytes);
}

/* ---- the table ------------------------------------------------------------------------- */

/* The columns of one vendor's GPUs, between outcome and why. */
static const struct column {
	const char *name;
	enum takes which;
	int decimals;
} of_nvidia[] = {
	{ "registers", TAKES_REGISTERS, 0 },	   { "spill_bytes", TAKES_SCRATCH, 0 },
	{ "smem_static", TAKES_SMEM_STATIC, 0 },   { "smem_dynamic", TAKES_SMEM_DYNAMIC, 0 },
	{ "threads", TAKES_THREADS, 0 },	   { "blocks_per_sm", TAKES_BLOCKS, 0 },
	{ "occupancy", TAKES_SHARE, 2 },	   { 0 },
}, of_amd[] = {
	{ "vgprs", TAKES_VGPRS, 0 },		   { "agprs", TAKES_AGPRS, 0 },
	{ "sgprs", TAKES_SGPRS, 0 },		   { "scratch_bytes", TAKES_SCRATCH, 0 },
	{ "spills", TAKES_SPILLS, 0 },		   { "lds_static", TAKES_SMEM_STATIC, 0 },
	{ "lds_dynamic", TAKES_SMEM_DYNAMIC, 0 },  { "threads", TAKES_THREADS, 0 },
	{ "waves_per_simd", TAKES_WAVES, 0 },	   { 0 },
};
enum { MAX_COLUMNS = 16 };

static void print(enum format format, const struct column *column, const struct resources *v, int n)
{
	const char *columns[MAX_COLUMNS] = { "kernel", "flags", "outcome" };
	int num_columns = 3;
	for (const struct column *t = column; t->name; t++)
		columns[num_columns++] = t->name;
	columns[num_columns++] = "why";
	struct table *table = table_new(format, columns, num_columns);
	for (const struct resources *r = v; r < v + n; r++) {
		table_text(table, r->kernel->name);
		table_text(table, r->flags);
		table_text(table, outcome_name(r->outcome));
		for (const struct column *t = column; t->name; t++)
			table_number(table, r->takes[t->which], t->decimals);
		table_text(table, *r->why ? r->why : NULL);
		table_end_row(table);
	}
	table_print(table, stdout);
}

/* ---- the command ----------------------------------------------------------------------- */

static int keep(const struct sweep_options *o, const struct device_info *d,
		const struct resources *v, int n)
{
	char path[PATH_MAX + 64];
	const char *cache = o->db ? "" : cache_root();
	if (!cache)
		return 0;
	snprintf(path, sizeof path, "%s/compiled_%s.sqlite", cache, d->gpu);
	struct store *s = store_open(o->db ? o->db : path, 0);
	const int ok = s && store_resources(s, d, jit_version(d->backend, d->arch), v, n);
	store_close(s);
	return ok;
}

static int tell(const struct sweep_options *o, const struct problems *all, const struct binaries *b,
		const struct device_info *d)
{
	struct resources *v = calloc((size_t)b->n + 1, sizeof *v);
	int count[NUM_OUTCOMES] = { 0 };
	if (!v) {
		complain("out of memory");
		return 0;
	}
	for (int i = 0; i < b->n; i++) {
		list_resources(&v[i], all, &b->v[i], i, d);
		count[v[i].outcome]++;
	}
	print(o->format, hip_chip(d->arch) ? of_amd : of_nvidia, v, b->n);
	const int ok = !arch_limits(d->arch) || keep(o, d, v, b->n);
	free(v);
	complain("%d binaries for %s (%s) by %s: %d refused by the compiler, %d use scratch memory",
		 b->n, d->gpu, d->arch, jit_version(d->backend, d->arch), count[OUTCOME_COMPILE],
		 count[OUTCOME_RESOURCES]);
	return ok;
}

int compile_only(const struct sweep_options *o, const struct scenario_list *list)
{
	struct device_info info;
	struct problems problems = { .scenarios = list->v };
	struct binaries binaries = { .arch = info.arch };
	const struct candidate_options options = {
		.device = &info, .preset = o->preset, .kernels = o->kernels, .seed = o->seed
	};
	int ok = 1, code = EXIT_USAGE;
	if (!describe(&info, o->gpu, o->arch))
		return o->gpu ? EXIT_USAGE : EXIT_NO_DEVICE;
	catch_signals();
	for (int i = o->shard; ok && i < list->n; i += o->shards)
		ok = problems_add(&problems, &binaries, i, &options);
	if (ok && binaries_compile(&binaries) && tell(o, &problems, &binaries, &info))
		code = EXIT_DONE;
	problems_free(&problems);
	binaries_free(&binaries);
	return interrupted ? EXIT_INTERRUPTED : code;
}
