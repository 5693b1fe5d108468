/* SPDX-License-Identifier: Apache-2.0 */
/* cpu.c - the CPU as a device. Memory is the host's; code is a function of a shared object or of
 * this program; a pool of threads runs a grid of cells; a launch returns when its cells are
 * done. */
#include "cpu.h"
#include "pool.h"
#include "stacks.h"
#include "usable.h"
#include "kernels/args.h"
#include "kernels/spec/space.h"
#include "kernels/spec/status.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct code {
	void *library; /* NULL: linked in */
	void (*cell)(const struct attune_args *, int x, int y, int z);
};

struct recorded {
	const struct code *code; /* NULL: zeros, so many bytes, are written instead */
	struct geometry grid;
	struct attune_args args;
	void *zeros;
	size_t bytes;
};

struct graph {
	struct recorded *launch;
	size_t n, room;
};

/* ---- open and close --------------------------------------------------------- */

static enum attune_status pick_isa(const char *which, enum isa *isa)
{
	for (*isa = 0; *isa < NUM_ISAS; ++*isa) {
		if (which && strcmp(which, isa_names[*isa]))
			continue;
		if (isa_present(*isa))
			return ATTUNE_OK;
		if (which)
			return fail(ATTUNE_NO_DEVICE,
				    "cpu:%s: this machine has no %s; \"cpu\" "
				    "takes the best it has",
				    which, which);
	}
	return fail(ATTUNE_INVALID, "cpu:%s: avx512, avx2, neon or scalar is expected", which);
}

/* Whether the pool's threads are in this process. */
static int is_at_home(const struct cpu *cpu)
{
	return cpu->process == getpid();
}

static enum attune_status cpu_open(struct device *dev, const char *which)
{
	struct cpu *cpu;
	enum isa isa;
	int threads = 1;
	enum attune_status status = pick_isa(which, &isa);
	if (!status)
		status = cpu_thread_count(&threads);
	if (status)
		return status;
	dev->state = cpu = calloc(1, sizeof *cpu);
	if (!cpu)
		return fail(ATTUNE_NO_MEMORY, "no memory for a device");
	cpu->threads = threads;
	cpu->process = getpid();
	cpu->last_share = 1;
	const int usable = cpu_usable(), error = pool_open(&cpu->pool, threads, usable);
	if (error)
		return fail(ATTUNE_NO_MEMORY,
			    "%d threads cannot be started: %s; ATTUNE_THREADS sets another number",
			    threads, strerror(error));
	cpu->stacks = stacks_open(usable);
	if (!cpu->stacks)
		return fail(ATTUNE_NO_MEMORY, "no memory for the stacks of %d CPUs", usable);
	cpu_describe(&dev->info, isa, threads);
	return cpu_find_worker_clocks(cpu);
}

static void cpu_close(struct device *dev)
{
	struct cpu *cpu = dev->state;
	if (!cpu)
		return;
	if (is_at_home(cpu)) /* else it would wait for threads that are not here */
		pool_close(cpu->pool);
	stacks_close(cpu->stacks);
	if (cpu->recording)
		free(cpu->recording->launch);
	free(cpu->recording);
	free(cpu->worker_clock);
	free(cpu);
	dev->state = NULL;
}

/* ---- memory ----------------------------------------------------------------- */

/* Large blocks ask for huge pages: KV pages are visited in random order. */
static enum attune_status cpu_alloc(struct device *dev, void **mem, size_t bytes)
{
	const size_t huge = 2 << 20, unit = bytes >= huge ? huge : 64;
	(void)dev;
	*mem = bytes > SIZE_MAX - unit ? NULL : aligned_alloc(unit, (bytes + unit) / unit * unit);
	if (!*mem)
		return fail(ATTUNE_NO_MEMORY, "no memory for %zu bytes", bytes);
	if (unit == huge)
		(void)madvise(*mem, bytes / huge * huge, MADV_HUGEPAGE); /* only a wish */
	return ATTUNE_OK;
}

static void cpu_release(struct device *dev, void *mem)
{
	(void)dev;
	free(mem);
}

static enum attune_status cpu_copy(struct device *dev, void *dst, const void *src, size_t bytes)
{
	(void)dev;
	if (bytes)
		memcpy(dst, src, bytes);
	return ATTUNE_OK;
}

static enum attune_status cpu_fill(struct device *dev, void *dst, int byte, size_t bytes)
{
	(void)dev;
	if (bytes)
		memset(dst, byte, bytes);
	return ATTUNE_OK;
}

/* ---- code ------------------------------------------------------------------- */

static enum attune_status cpu_load(struct device *dev, struct code **code, const struct blob *blob)
{
	struct code *c = calloc(1, sizeof *c);
	(void)dev;
	if (!c)
		return fail(ATTUNE_NO_MEMORY, "no memory for a kernel");
	c->cell = blob->cell;
	if (!c->cell) {
		c->library = blob->path ? dlopen(blob->path, RTLD_NOW | RTLD_LOCAL) : NULL;
		void *symbol = c->library ? dlsym(c->library, blob->entry) : NULL;
		if (!symbol) {
			fail(ATTUNE_DEVICE_ERROR, "%s", blob->path ? dlerror() : "an empty binary");
			if (c->library)
				dlclose(c->library);
			free(c);
			return ATTUNE_DEVICE_ERROR;
		}
		memcpy(&c->cell, &symbol, sizeof symbol);
	}
	*code = c;
	return ATTUNE_OK;
}

static void cpu_unload(struct device *dev, struct code *code)
{
	(void)dev;
	if (!code)
		return;
	if (code->library)
		dlclose(code->library);
	free(code);
}

static void run_cell(void *p, size_t i)
{
	const struct recorded *l = p;
	const size_t x = l->grid.x, y = l->grid.y;
	l->code->cell(&l->args, (int)(i % x), (int)(i / x % y), (int)(i / x / y));
}

struct running {
	struct cpu *cpu;
	struct recorded *l;
};

static void run_cells(void *p)
{
	const struct running *r = p;
	const struct geometry *grid = &r->l->grid;
	pool_run(r->cpu->pool, run_cell, r->l, (size_t)grid->x * grid->y * grid->z);
}

static void run_grid(struct cpu *cpu, struct recorded *l)
{
	struct running r = { cpu, l };
	if (!l->code)
		memset(l->zeros, 0, l->bytes);
	else
		stacks_call(cpu->stacks, run_cells, &r);
}

static enum attune_status record(struct graph *graph, const struct recorded *l)
{
	if (graph->n == graph->room) {
		size_t room = graph->room ? 2 * graph->room : 16;
		struct recorded *more = realloc(graph->launch, room * sizeof *more);
		if (!more)
			return fail(ATTUNE_NO_MEMORY, "no memory for %zu launches", room);
		graph->launch = more;
		graph->room = room;
	}
	graph->launch[graph->n++] = *l;
	return ATTUNE_OK;
}

static enum attune_status not_of_a_parent(const struct cpu *cpu)
{
	return is_at_home(cpu) ? ATTUNE_OK
			       : fail(ATTUNE_INVALID, "the context was opened before fork(); a "
						      "child opens contexts of its own");
}

static enum attune_status record_or_run(struct cpu *cpu, struct recorded *l)
{
	const enum attune_status status = not_of_a_parent(cpu);
	if (status)
		return status;
	if (cpu->recording)
		return record(cpu->recording, l);
	run_grid(cpu, l);
	return ATTUNE_OK;
}

static enum attune_status cpu_clear(struct device *dev, void *mem, size_t bytes, void *stream)
{
	struct recorded l = { .zeros = mem, .bytes = bytes };
	(void)stream;
	return record_or_run(dev->state, &l);
}

static enum attune_status cpu_launch(struct device *dev, const struct code *code,
				     const struct geometry *grid, const void *args,
				     size_t args_bytes, void *stream)
{
	struct recorded l = { .code = code, .grid = *grid };
	(void)stream;
	if (args_bytes != sizeof l.args)
		return fail(ATTUNE_INVALID, "arguments of %zu bytes, %zu are expected", args_bytes,
			    sizeof l.args);
	memcpy(&l.args, args, sizeof l.args);
	return record_or_run(dev->state, &l);
}

static int cpu_capturing(struct device *dev, void *stream)
{
	(void)dev, (void)stream;
	return 0; /* only graph_begin records */
}

static enum attune_status cpu_wait(struct device *dev, void *stream)
{
	(void)dev, (void)stream;
	return ATTUNE_OK;
}

/* A launch uses all threads, so there is no side stream. */
static enum attune_status cpu_fork(struct device *dev, void *stream, void **side)
{
	(void)dev;
	*side = stream;
	return ATTUNE_OK;
}

static enum attune_status cpu_join(struct device *dev, void *stream, void *side)
{
	(void)dev, (void)stream, (void)side;
	return ATTUNE_OK;
}

static void *cpu_stream(struct device *dev)
{
	(void)dev;
	return NULL;
}

static void cpu_resources(const struct code *code, int *registers, int *spill, int *smem)
{
	(void)code;
	*registers = *spill = *smem = 0;
}

/* ---- the graph --------------------------------------------------------------- */

static enum attune_status cpu_graph_begin(struct device *dev)
{
	struct cpu *cpu = dev->state;
	if (cpu->recording)
		return fail(ATTUNE_INVALID, "a graph is being recorded already");
	cpu->recording = calloc(1, sizeof *cpu->recording);
	return cpu->recording ? ATTUNE_OK : fail(ATTUNE_NO_MEMORY, "no memory for a graph");
}

static enum attune_status cpu_graph_end(struct device *dev, struct graph **graph)
{
	struct cpu *cpu = dev->state;
	if (!cpu->recording)
		return fail(ATTUNE_INVALID, "no graph is being recorded");
	*graph = cpu->recording;
	cpu->recording = NULL;
	return ATTUNE_OK;
}

static void play(struct cpu *cpu, void *arg)
{
	struct graph *graph = arg;
	for (size_t i = 0; i < graph->n; i++)
		run_grid(cpu, &graph->launch[i]);
}

static enum attune_status cpu_graph_play(struct device *dev, struct graph *graph, double *ns)
{
	struct cpu *cpu = dev->state;
	*ns = 1e9 * cpu_timed(cpu, play, graph, &cpu->last_share);
	return ATTUNE_OK;
}

enum attune_status cpu_cells(struct device *dev, void (*work)(void *arg, size_t i), void *arg,
			     size_t n)
{
	const struct cpu *cpu = dev->state;
	const enum attune_status status = not_of_a_parent(cpu);
	if (!status)
		pool_run(cpu->pool, work, arg, n);
	return status;
}

void cpu_run(void *device, void (*work)(void *arg, size_t i), void *arg, size_t n)
{
	struct device *dev = device;
	const struct cpu *cpu = dev->state;
	pool_run_together(cpu->pool, work, arg, n);
}

int cpu_computing(const struct device *dev)
{
	const struct cpu *cpu = dev->state;
	return pool_helpers(cpu->pool) + 1;
}

double cpu_last_play_share(const struct device *dev)
{
	const struct cpu *cpu = dev->state;
	return cpu->last_share;
}

static void cpu_graph_free(struct device *dev, struct graph *graph)
{
	(void)dev;
	if (graph)
		free(graph->launch);
	free(graph);
}

const struct device_ops cpu_ops = {
	.name = "cpu",
	.open = cpu_open,
	.close = cpu_close,
	.alloc = cpu_alloc,
	.release = cpu_release,
	.put = cpu_copy,
	.get = cpu_copy,
	.fill = cpu_fill,
	.load = cpu_load,
	.unload = cpu_unload,
	.launch = cpu_launch,
	.fork = cpu_fork,
	.join = cpu_join,
	.clear = cpu_clear,
	.capturing = cpu_capturing,
	.wait = cpu_wait,
	.stream = cpu_stream,
	.resources = cpu_resources,
	.graph_begin = cpu_graph_begin,
	.graph_end = cpu_graph_end,
	.graph_play = cpu_graph_play,
	.graph_free = cpu_graph_free,
};
