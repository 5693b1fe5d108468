/* cpu.c - the CPU as a device. Memory is the host's; code is a function of a shared object or of
 * this program; a pool of spinning threads runs a grid of cells; a launch returns when its cells
 * are done. */
#include "cpu.h"
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <pthreadpool.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MAX_THREADS = 1024 };

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

/* ---- threads ---------------------------------------------------------------- */

struct job {
	void (*work)(void *arg, size_t i);
	void *arg;
	atomic_size_t next;
	size_t n;
};

/* One a thread. The pool itself would give each thread a fixed range of cells;
 * a shared counter starts them in order, so that a kernel can put its longest
 * cells first and the threads end together. */
static void drain(void *p, size_t thread)
{
	struct job *job = p;
	size_t i;
	(void)thread;
	while ((i = atomic_fetch_add_explicit(&job->next, 1, memory_order_relaxed)) < job->n)
		job->work(job->arg, i);
}

void cpu_parallel(struct cpu *cpu, void (*work)(void *arg, size_t i), void *arg, size_t n)
{
	struct job job = { .work = work, .arg = arg, .n = n };
	size_t threads = n < (size_t)cpu->threads ? n : (size_t)cpu->threads;
	pthreadpool_parallelize_1d(cpu->pool, drain, &job, threads,
				   PTHREADPOOL_FLAG_DISABLE_DENORMALS);
}

struct roll_call {
	struct cpu *cpu;
	pthread_t caller;
	atomic_int present, clocks, failed;
};

/* Waits for all others, so that each thread answers exactly once. */
static void answer(void *p, size_t i)
{
	struct roll_call *roll = p;
	(void)i;
	if (!pthread_equal(pthread_self(), roll->caller)) {
		int at = atomic_fetch_add(&roll->clocks, 1);
		if (pthread_getcpuclockid(pthread_self(), &roll->cpu->worker_clock[at]))
			atomic_store(&roll->failed, 1);
	}
	atomic_fetch_add(&roll->present, 1);
	while (atomic_load(&roll->present) < roll->cpu->threads)
		sched_yield();
}

static enum attune_status find_worker_clocks(struct cpu *cpu)
{
	struct roll_call roll = { .cpu = cpu, .caller = pthread_self() };
	cpu->worker_clock = calloc((size_t)cpu->threads, sizeof *cpu->worker_clock);
	if (!cpu->worker_clock)
		return fail(ATTUNE_NO_MEMORY, "no memory for %d threads", cpu->threads);
	cpu_parallel(cpu, answer, &roll, (size_t)cpu->threads);
	cpu->num_workers = atomic_load(&roll.clocks);
	if (atomic_load(&roll.failed))
		return fail(ATTUNE_DEVICE_ERROR, "the CPU clocks of the threads cannot be read");
	return ATTUNE_OK;
}

/* CPUs that this process may run on: a container or taskset may lend fewer than
 * are online. */
static int usable_cpus(void)
{
	cpu_set_t set;
	if (sched_getaffinity(0, sizeof set, &set))
		return 1;
	return CPU_COUNT(&set);
}

static enum attune_status thread_count(int *threads)
{
	const char *text = getenv("ATTUNE_THREADS");
	char *end;
	if (!text || !*text) {
		*threads = usable_cpus();
		return ATTUNE_OK;
	}
	errno = 0;
	long n = strtol(text, &end, 10);
	if (*end || errno || n < 1 || n > MAX_THREADS)
		return fail(ATTUNE_INVALID,
			    "ATTUNE_THREADS is \"%s\": a number from 1 to %d is "
			    "expected",
			    text, MAX_THREADS);
	*threads = (int)n;
	return ATTUNE_OK;
}

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

static enum attune_status cpu_open(struct device *dev, const char *which)
{
	struct cpu *cpu;
	enum isa isa;
	int threads = 1;
	enum attune_status status = pick_isa(which, &isa);
	if (!status)
		status = thread_count(&threads);
	if (status)
		return status;
	dev->state = cpu = calloc(1, sizeof *cpu);
	if (!cpu)
		return fail(ATTUNE_NO_MEMORY, "no memory for a device");
	cpu->threads = threads;
	cpu->last_share = 1;
	cpu->pool = pthreadpool_create((size_t)threads);
	if (!cpu->pool)
		return fail(ATTUNE_NO_MEMORY, "%d threads cannot be started", threads);
	cpu_describe(&dev->info, isa, threads);
	return find_worker_clocks(cpu);
}

static void cpu_close(struct device *dev)
{
	struct cpu *cpu = dev->state;
	if (!cpu)
		return;
	if (cpu->pool)
		pthreadpool_destroy(cpu->pool);
	if (cpu->recording)
		free(cpu->recording->launch);
	free(cpu->recording);
	free(cpu->worker_clock);
	free(cpu->stream_buffer);
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

static void run_grid(struct cpu *cpu, struct recorded *l)
{
	if (!l->code)
		memset(l->zeros, 0, l->bytes);
	else
		cpu_parallel(cpu, run_cell, l, (size_t)l->grid.x * l->grid.y * l->grid.z);
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

static enum attune_status record_or_run(struct cpu *cpu, struct recorded *l)
{
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

static double seconds_of(clockid_t clock)
{
	struct timespec t = { 0 };
	clock_gettime(clock, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void nothing(void *arg, size_t i)
{
	(void)arg, (void)i;
}

/* CPU seconds of the caller (at 0) and of each worker. */
static void read_clocks(const struct cpu *cpu, double *seconds)
{
	seconds[0] = seconds_of(CLOCK_THREAD_CPUTIME_ID);
	for (int i = 0; i < cpu->num_workers; i++)
		seconds[i + 1] = seconds_of(cpu->worker_clock[i]);
}

/* Idle workers spin for milliseconds before they sleep, so while grids follow one
 * another a thread's CPU time lags behind the wall only where another program ran
 * on its core. The empty grid wakes those that sleep. */
double cpu_timed(struct cpu *cpu, void (*body)(struct cpu *, void *arg), void *arg, double *share)
{
	double before[MAX_THREADS], after[MAX_THREADS];
	cpu_parallel(cpu, nothing, NULL, (size_t)cpu->threads);
	read_clocks(cpu, before);
	const double begin = seconds_of(CLOCK_MONOTONIC);
	body(cpu, arg);
	const double wall = seconds_of(CLOCK_MONOTONIC) - begin;
	read_clocks(cpu, after);
	*share = 1;
	for (int i = 0; i <= cpu->num_workers; i++)
		if (wall > 0 && (after[i] - before[i]) / wall < *share)
			*share = (after[i] - before[i]) / wall;
	return wall;
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

static void cpu_now(struct device *dev, struct conditions *now)
{
	(void)dev;
	cpu_conditions(now);
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
	.conditions = cpu_now,
};
