/* SPDX-License-Identifier: Apache-2.0 */
/* objects.c - handles, memory and code.
 *
 * A code object is a text, "code for <arch>: <kernel>", or one of fibers.c; its only function is
 * attune_... The library's own binaries are ELF files and run by fibers, too. An empty text,
 * where nothing compiled it, loads and does not run. */
#include "stand_in.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- handles ---------------------------------------------------------------------------- */

static struct object *objects;
static char wrong[200];

static _Thread_local int last_error;

int failed(int error)
{
	last_error = error ? error : last_error;
	return error;
}

int hipGetLastError(void)
{
	const int error = last_error;
	last_error = 0;
	return error;
}

int misuse(int error, const char *call, const char *what)
{
	failed(error);
	if (!*wrong)
		snprintf(wrong, sizeof wrong, "%s: %s", call, what);
	return error;
}

const char *stand_in_misuse(void)
{
	static char told[sizeof wrong];
	memcpy(told, wrong, sizeof wrong);
	wrong[0] = '\0';
	return told;
}

int stand_in_live(void)
{
	int n = 0;
	for (const struct object *o = objects; o; o = o->next)
		n += o->alive;
	return n;
}

void *object_new(enum kind kind, size_t bytes)
{
	struct object *o = calloc(1, bytes);
	if (!o)
		abort();
	*o = (struct object){ kind, 1, device_now(), objects };
	return objects = o;
}

void *object_check(void *handle, enum kind kind, const char *call)
{
	for (struct object *o = objects; o; o = o->next) {
		if (o != handle || o->kind != kind)
			continue;
		if (o->alive && o->device == device_now())
			return o;
		misuse(0, call, o->alive ? "of another device" : "used after it was destroyed");
		return NULL;
	}
	misuse(0, call, "not a handle of this kind");
	return NULL;
}

int object_destroy(void *handle, enum kind kind, const char *call)
{
	struct object *o = object_check(handle, kind, call);
	if (!o)
		return INVALID_HANDLE;
	o->alive = 0;
	return 0;
}

/* ---- memory ----------------------------------------------------------------------------- */

enum { ALIGNED = 256 };

struct memory {
	struct object object;
	char *base;
	size_t bytes;
};

static struct memory *memory_at(const void *at, size_t bytes)
{
	for (struct object *o = objects; o; o = o->next) {
		struct memory *m = (struct memory *)o;
		if (o->kind == MEMORY && o->alive && (const char *)at >= m->base &&
		    (const char *)at + bytes <= m->base + m->bytes)
			return m;
	}
	return NULL;
}

int memory_has(const void *at, size_t bytes)
{
	return memory_at(at, bytes) != NULL;
}

int hipMalloc(void **memory, size_t bytes)
{
	if (device_lost())
		return failed(NO_DEVICE);
	if (fault_due("memory"))
		return failed(OUT_OF_MEMORY);
	struct memory *m = object_new(MEMORY, sizeof *m);
	m->bytes = bytes;
	*memory = m->base = aligned_alloc(ALIGNED, (bytes + ALIGNED - 1) / ALIGNED * ALIGNED);
	if (!m->base)
		abort();
	memset(m->base, 0xa5, bytes);
	return 0;
}

int hipFree(void *memory)
{
	struct memory *m = memory_at(memory, 0);
	if (!m || m->base != memory)
		return misuse(INVALID_VALUE, "hipFree", "not an allocation");
	free(m->base);
	m->object.alive = 0;
	return 0;
}

int hipMemcpy(void *dst, const void *src, size_t bytes, int kind)
{
	const void *of_device = kind == 1 ? dst : src;
	if (kind != 1 && kind != 2)
		return misuse(INVALID_VALUE, "hipMemcpy", "neither to the device nor from it");
	if (!memory_has(of_device, bytes))
		return misuse(INVALID_VALUE, "hipMemcpy", "outside of an allocation");
	const int error = hipStreamSynchronize(NULL);
	if (!error)
		memcpy(dst, src, bytes);
	return error;
}

/* ---- code ------------------------------------------------------------------------------- */

struct add {
	int *out;
	const int *in;
	int n, add;
};

static int run_add(const struct module *m, const struct grid *g)
{
	const struct add *a = (const void *)g->args;
	const size_t bytes = (size_t)a->n * sizeof(int), threads = (size_t)g->x * g->threads;
	(void)m;
	if (!memory_has(a->out, bytes) || !memory_has(a->in, bytes))
		return misuse(ILLEGAL_ADDRESS, "add", "outside of an allocation");
	for (size_t i = 0; i < threads && i < (size_t)a->n; i++)
		a->out[i] = a->in[i] + a->add;
	return 0;
}

static int run_carried(const struct module *m, const struct grid *g)
{
	(void)m, (void)g;
	return misuse(ILLEGAL_ADDRESS, "code that the library carries", "nothing runs it here");
}

static const struct stand_in_kernel carried = { "", 0, 100, 0, 0, run_carried };
static const struct stand_in_kernel kernels[] = {
	{ "add", sizeof(struct add), 24, 0, 0, run_add },
	{ "add_spilling", sizeof(struct add), 256, 48, 4096, run_add },
};

int hipModuleLoadData(void **module, const void *image)
{
	const char *text = image;
	char arch[16], name[32];
	if (!*text || !memcmp(text, "\177ELF\2", 5)) {
		struct module *m = object_new(MODULE, sizeof *m);
		m->kernel = &carried;
		if (*text)
			fibers_carried(m, image);
		*module = m;
		return 0;
	}
	if (!strncmp(text, "fibers", 6)) {
		struct module *m = object_new(MODULE, sizeof *m);
		int error = 0;
		m->object.alive = fibers_load(m, text, &error);
		*module = m;
		return failed(error);
	}
	if (sscanf(image, "code for %15[^:]: %31s", arch, name) != 2)
		return failed(INVALID_IMAGE);
	if (strcmp(arch, chip_arch()))
		return failed(NO_BINARY);
	struct module *m = object_new(MODULE, sizeof *m);
	for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
		if (!strcmp(name, kernels[i].name))
			m->kernel = &kernels[i];
	*module = m;
	return 0;
}

int hipModuleUnload(void *module)
{
	const int error = object_destroy(module, MODULE, "hipModuleUnload");
	if (!error)
		fibers_unload(module);
	return error;
}

/* A function is its module. */
int hipModuleGetFunction(void **function, void *module, const char *name)
{
	struct module *m = object_check(module, MODULE, "hipModuleGetFunction");
	if (!m)
		return INVALID_HANDLE;
	*function = m;
	return m->kernel && !strncmp(name, "attune_", 7) ? 0 : failed(NOT_FOUND);
}

int hipFuncGetAttribute(int *value, int attribute, void *function)
{
	const struct module *m = object_check(function, MODULE, "hipFuncGetAttribute");
	if (!m)
		return INVALID_HANDLE;
	switch (attribute) {
	case 1: *value = m->kernel->lds_bytes; return 0;
	case 3: *value = m->kernel->local_bytes; return 0;
	case 4: *value = m->kernel->registers; return 0;
	}
	return INVALID_VALUE;
}
