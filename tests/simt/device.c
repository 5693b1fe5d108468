/* SPDX-License-Identifier: Apache-2.0 */
/* device.c - implements simt_device.h. Memory is the host's, between pages that nobody may
 * touch. A launch runs before the call returns; in a graph it waits for graph_play. The
 * library's own binaries are recognized by their address, and compiled again from source. */
#include "kernels/ship/shipped.h"
#include "allocations.h"
#include "objects.h"
#include "simt.h"
#include "maps.h"
#include "simt_device.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include "kernels/spec/status.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RESIDENT = 4, SECONDS = 60, ARGS_ALIGNMENT = 64 };

struct code {
	const struct simt_foreign *foreign; /* NULL: one of ours */
	void *theirs;
	struct simt_object object;
	void *library; /* NULL: not needed so far */
	const struct simt_kernel *kernel;
};

struct step {
	struct code *code; /* NULL: zeros, so many bytes, are written instead */
	struct geometry g;
	void *args; /* its own copy, as aligned as maps are; or where the zeros go */
	size_t bytes;
	int is_early;
};

struct graph {
	struct step *v;
	int n;
};

struct emulated {
	struct simt_options options;
	struct allocation *allocations;
	simt_front *front;
	struct graph *recording;
};

/* ---- open and close ----------------------------------------------------------------------- */

static enum attune_status simt_ops_open(struct device *dev, const char *which)
{
	struct emulated *e = calloc(1, sizeof *e);
	dev->state = e;
	if (!e)
		return fail(ATTUNE_NO_MEMORY, "no memory for a device");
	e->options.resident = RESIDENT;
	e->options.seconds = SECONDS;
	simt_pose(dev, SIMT_H200);
	simt_set(dev, which ? atoi(which) : 4, 0);
	return ATTUNE_OK;
}

void simt_pose(struct device *dev, enum simt_gpu gpu)
{
	const int units = dev->info.units;
	dev->info = simt_poses[gpu];
	dev->info.units = units;
}

void simt_set(struct device *dev, int units, unsigned seed)
{
	struct emulated *e = dev->state;
	dev->info.units = units;
	e->options.units = (unsigned)units;
	e->options.seed = seed * 2654435761u;
}

void simt_say_front(struct device *dev, simt_front *front)
{
	struct emulated *e = dev->state;
	e->front = front;
}

void simt_give_up_after(struct device *dev, int seconds)
{
	struct emulated *e = dev->state;
	e->options.seconds = seconds;
}

enum attune_status simt_open(struct device *dev, int units, unsigned seed)
{
	memset(dev, 0, sizeof *dev);
	dev->ops = &simt_ops;
	const enum attune_status status = simt_ops_open(dev, NULL);
	if (!status)
		simt_set(dev, units, seed);
	return status;
}

static void simt_tape_free(struct device *dev, struct graph *graph)
{
	(void)dev;
	for (int i = 0; graph && i < graph->n; i++)
		if (graph->v[i].code)
			free(graph->v[i].args);
	if (graph)
		free(graph->v);
	free(graph);
}

static void simt_close(struct device *dev)
{
	struct emulated *e = dev->state;
	if (!e)
		return;
	simt_tape_free(dev, e->recording);
	while (e->allocations)
		allocation_remove(&e->allocations, allocation_first(e->allocations));
	free(e);
	dev->state = NULL;
}

/* ---- memory ------------------------------------------------------------------------------- */

static enum attune_status simt_alloc(struct device *dev, void **mem, size_t bytes)
{
	struct emulated *e = dev->state;
	*mem = allocation_add(&e->allocations, bytes);
	return *mem ? ATTUNE_OK : fail(ATTUNE_NO_MEMORY, "no memory for %zu bytes", bytes);
}

static void simt_release(struct device *dev, void *mem)
{
	struct emulated *e = dev->state;
	allocation_remove(&e->allocations, mem);
}

int simt_find(const struct device *dev, uintptr_t address, uintptr_t *begin, uintptr_t *end)
{
	const struct emulated *e = dev->state;
	return allocation_find(e->allocations, address, begin, end);
}

static int simt_goes_on(struct device *dev, const void *from, size_t bytes)
{
	uintptr_t begin, end;
	return simt_find(dev, (uintptr_t)from, &begin, &end) && bytes <= end - (uintptr_t)from;
}

/* Memory read or written while a graph is recorded is not what its launches will leave. */
static enum attune_status is_idle(const struct device *dev)
{
	const struct emulated *e = dev->state;
	return e->recording ? fail(ATTUNE_INVALID, "a copy while a graph is recorded") : ATTUNE_OK;
}

static enum attune_status simt_copy(struct device *dev, void *dst, const void *src, size_t bytes)
{
	const enum attune_status status = is_idle(dev);
	if (!status && bytes)
		memcpy(dst, src, bytes);
	return status;
}

static enum attune_status simt_fill(struct device *dev, void *dst, int byte, size_t bytes)
{
	const enum attune_status status = is_idle(dev);
	if (!status && bytes)
		memset(dst, byte, bytes);
	return status;
}

/* ---- code --------------------------------------------------------------------------------- */

enum attune_status simt_load(struct device *dev, struct code **out, const char *source,
			     const char *flags)
{
	const int is_amd = dev->info.lanes == 64;
	struct code *code = calloc(1, sizeof *code);
	char all[SIMT_FLAGS];
	if (!code)
		return fail(ATTUNE_NO_MEMORY, "no memory for a kernel");
	snprintf(all, sizeof all, "%s%s%s%s", flags, is_amd ? " -D__AMDGCN__ -D__" : "",
		 is_amd ? dev->info.arch : "", is_amd ? "__" : "");
	simt_object(&code->object, source, all);
	*out = code;
	return ATTUNE_OK;
}

enum attune_status simt_load_foreign(struct code **out, const struct simt_foreign *foreign,
				     void *theirs)
{
	struct code *code = calloc(1, sizeof *code);
	if (!code)
		return fail(ATTUNE_NO_MEMORY, "no memory for a kernel");
	code->foreign = foreign;
	code->theirs = theirs;
	*out = code;
	return ATTUNE_OK;
}

static int is_lacking(const struct code *code)
{
	return !code->foreign && !code->library;
}

/* ATTUNE_SIMT_SOURCES: a folder next to gpu/ that replaces it. */
static enum attune_status simt_load_blob(struct device *dev, struct code **code,
					 const struct blob *blob)
{
	const char *folder = getenv("ATTUNE_SIMT_SOURCES");
	char source[SIMT_PATH];
	for (int i = 0; i < attune_num_shipped; i++) {
		const struct shipped *s = &attune_shipped[i];
		if (!blob->data || s->blob.data != blob->data)
			continue;
		const char *path = kernel_find(BACKEND_GPU, s->kernel)->source;
		snprintf(source, sizeof source, "%s%s", folder ? folder : "gpu", strchr(path, '/'));
		return simt_load(dev, code, source, s->flags);
	}
	return fail(ATTUNE_UNSUPPORTED, "an emulated GPU runs what the library carries, no other");
}

static enum attune_status open_library(struct code *code)
{
	code->library = dlopen(code->object.path, RTLD_NOW | RTLD_LOCAL);
	if (code->library)
		code->kernel = dlsym(code->library, "simt_exports");
	return code->kernel ? ATTUNE_OK : fail(ATTUNE_DEVICE_ERROR, "%s", dlerror());
}

enum attune_status simt_compile(struct code *const *v, int n)
{
	struct simt_object *o = malloc((size_t)(n ? n : 1) * sizeof *o);
	enum attune_status status = o ? ATTUNE_OK : fail(ATTUNE_NO_MEMORY, "no memory");
	int lacking = 0;
	for (int i = 0; o && i < n; i++)
		if (is_lacking(v[i]))
			o[lacking++] = v[i]->object;
	if (o && !simt_build(o, lacking))
		status = fail(ATTUNE_UNSUPPORTED, "it does not compile for the host: see stderr");
	for (int i = 0; i < n && !status; i++)
		if (is_lacking(v[i]))
			status = open_library(v[i]);
	free(o);
	return status;
}

static void simt_unload(struct device *dev, struct code *code)
{
	(void)dev;
	if (code && code->foreign)
		code->foreign->free(code->theirs);
	if (code && code->library)
		dlclose(code->library);
	free(code);
}

/* ---- launches ----------------------------------------------------------------------------- */

static enum attune_status run(struct device *dev, const struct step *s)
{
	const struct emulated *e = dev->state;
	const struct geometry *g = &s->g;
	char error[1000];
	if (!s->code) {
		memset(s->args, 0, s->bytes);
		return ATTUNE_OK;
	}
	const enum attune_status status = simt_compile(&s->code, 1);
	if (status)
		return status;
	if (s->code->foreign)
		return s->code->foreign->run(dev, s->code->theirs, g, s->args, s->bytes,
					     &e->options);
	const struct simt_kernel *k = s->code->kernel;
	struct simt_options options = e->options;
	struct simt_pending pending[SIMT_MOST_PENDING];
	options.cluster = g->cluster;
	if (s->is_early && e->front) {
		options.pending = pending;
		options.num_pending = e->front(pending, COUNT(pending), s->args);
	}
	if (g->smem + (size_t)(k->shared_end - k->shared_begin) > (size_t)dev->info.smem_per_block)
		return fail(ATTUNE_UNSUPPORTED, "%u bytes of shared memory, and %zu static ones",
			    g->smem, (size_t)(k->shared_end - k->shared_begin));
	if (simt_launch(k, (struct simt_dim){ g->x, g->y, g->z }, g->threads, g->smem, s->args,
			&options, error, sizeof error))
		return fail(ATTUNE_DEVICE_ERROR, "%s", error);
	return ATTUNE_OK;
}

static enum attune_status keep(struct graph *graph, const struct step *s)
{
	struct step *more = realloc(graph->v, ((size_t)graph->n + 1) * sizeof *more);
	void *args = s->code ? aligned_alloc(ARGS_ALIGNMENT, (s->bytes + ARGS_ALIGNMENT - 1) /
								 ARGS_ALIGNMENT * ARGS_ALIGNMENT)
			     : s->args;
	if (more)
		graph->v = more;
	if (!more || !args) {
		if (s->code)
			free(args);
		return fail(ATTUNE_NO_MEMORY, "no memory for a launch");
	}
	graph->v[graph->n] = *s;
	graph->v[graph->n++].args = s->code ? memcpy(args, s->args, s->bytes) : args;
	return ATTUNE_OK;
}

static enum attune_status run_or_keep(struct device *dev, const struct step *s)
{
	struct emulated *e = dev->state;
	return e->recording ? keep(e->recording, s) : run(dev, s);
}

static enum attune_status launch(struct device *dev, const struct code *code,
				 const struct geometry *g, const void *args, size_t args_bytes,
				 int is_early)
{
	const struct step s = { (struct code *)(uintptr_t)code, *g, (void *)(uintptr_t)args,
				args_bytes, is_early };
	return g->x && g->y && g->z ? run_or_keep(dev, &s) : ATTUNE_OK;
}

static enum attune_status simt_launch_code(struct device *dev, const struct code *code,
					   const struct geometry *g, const void *args,
					   size_t args_bytes, void *stream)
{
	(void)stream;
	return launch(dev, code, g, args, args_bytes, 0);
}

static enum attune_status simt_launch_early(struct device *dev, const struct code *code,
					    const struct geometry *g, const void *args,
					    size_t args_bytes, void *stream)
{
	(void)stream;
	return launch(dev, code, g, args, args_bytes, 1);
}

static enum attune_status simt_clear(struct device *dev, void *mem, size_t bytes, void *stream)
{
	const struct step s = { .args = mem, .bytes = bytes };
	(void)stream;
	return run_or_keep(dev, &s);
}

static enum attune_status simt_fork(struct device *dev, void *stream, void **side)
{
	(void)dev;
	*side = stream;
	return ATTUNE_OK;
}

static enum attune_status simt_join(struct device *dev, void *stream, void *side)
{
	(void)dev, (void)stream, (void)side;
	return ATTUNE_OK;
}

static int simt_capturing(struct device *dev, void *stream)
{
	const struct emulated *e = dev->state;
	(void)stream;
	return e->recording != NULL;
}

static enum attune_status simt_wait(struct device *dev, void *stream)
{
	(void)stream;
	return is_idle(dev);
}

static void *simt_stream(struct device *dev)
{
	return dev->state;
}

static void simt_resources(const struct code *code, int *registers, int *spill, int *smem)
{
	(void)code;
	*registers = *spill = *smem = 0;
}

/* ---- the graph ----------------------------------------------------------------------------- */

static enum attune_status simt_tape_begin(struct device *dev)
{
	struct emulated *e = dev->state;
	if (e->recording)
		return fail(ATTUNE_INVALID, "a graph is being recorded already");
	e->recording = calloc(1, sizeof *e->recording);
	return e->recording ? ATTUNE_OK : fail(ATTUNE_NO_MEMORY, "no memory for a graph");
}

/* All its code is compiled now, at once. */
static enum attune_status simt_tape_end(struct device *dev, struct graph **out)
{
	struct emulated *e = dev->state;
	struct graph *graph = e->recording;
	int n = 0;
	if (!graph)
		return fail(ATTUNE_INVALID, "no graph is being recorded");
	e->recording = NULL;
	*out = graph;
	struct code **v = malloc(((size_t)graph->n + 1) * sizeof(struct code *));
	for (int i = 0; v && i < graph->n; i++)
		if (graph->v[i].code)
			v[n++] = graph->v[i].code;
	const enum attune_status status = simt_compile(v, n);
	free(v);
	return status;
}

static enum attune_status simt_tape_play(struct device *dev, struct graph *graph, double *ns)
{
	enum attune_status status = is_idle(dev);
	const clock_t begin = clock();
	for (int i = 0; i < graph->n && !status; i++)
		status = run(dev, &graph->v[i]);
	*ns = 1e9 / CLOCKS_PER_SEC * (double)(clock() - begin);
	return status;
}

const struct device_ops simt_ops = {
	.name = "simt",
	.open = simt_ops_open,
	.close = simt_close,
	.alloc = simt_alloc,
	.release = simt_release,
	.put = simt_copy,
	.get = simt_copy,
	.fill = simt_fill,
	.load = simt_load_blob,
	.unload = simt_unload,
	.launch = simt_launch_code,
	.launch_early = simt_launch_early,
	.map = simt_make_map,
	.goes_on = simt_goes_on,
	.fork = simt_fork,
	.join = simt_join,
	.clear = simt_clear,
	.capturing = simt_capturing,
	.wait = simt_wait,
	.stream = simt_stream,
	.resources = simt_resources,
	.graph_begin = simt_tape_begin,
	.graph_end = simt_tape_end,
	.graph_play = simt_tape_play,
	.graph_free = simt_tape_free,
};
