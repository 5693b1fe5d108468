/* SPDX-License-Identifier: Apache-2.0 */
/* fibers.c - runs the real kernels on the stand-in: hipRTC's source becomes a shared object of
 * the host in AMD's dialect (tests/simt/objects.h), and a launch runs it by fibers. */
#include "kernels/ship/shipped.h"
#include "kernels/spec/kernel.h"
#include "tests/simt/objects.h"
#include "tests/simt/simt.h"
#include "stand_in.h"
#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* FUNC_REGISTERS: fibers have none, and none is a limit with so few. */
enum { RESIDENT = 4, SECONDS = 60, REGISTERS = 64 };

static char launch_error[300] = "an error of the stand-in";

const char *fibers_error(void)
{
	return launch_error;
}

/* ---- compiling -------------------------------------------------------------------------- */

/* The sources that define something; their includes are found without being listed. */
static void copy_flags(char *flags, size_t size, const char *arch, int n, const char *const *v)
{
	size_t used = 0;
	*flags = '\0';
	for (int i = 0; i < n && used < size; i++)
		if (!strncmp(v[i], "-D", 2))
			used += (size_t)snprintf(flags + used, size - used, "%s ", v[i]);
	if (used < size)
		used += (size_t)snprintf(flags + used, size - used, "-D__AMDGCN__ -D__%s__", arch);
	if (used >= size)
		abort();
}

int fibers_compile(char *code, size_t size, char *log, size_t log_size, const char *source,
		   const char *arch, int num_options, const char *const *options)
{
	const char *kernel = strstr(source, "/kernels/gpu/");
	char flags[SIMT_FLAGS];
	struct simt_object o;
	copy_flags(flags, sizeof flags, arch, num_options, options);
	simt_object(&o, kernel ? kernel + strlen("/kernels/") : source, flags);
	if (!simt_build(&o, 1)) {
		snprintf(log, log_size, "%.100s does not compile for fibers: see stderr\n", source);
		return 0;
	}
	snprintf(code, size, "fibers for %s: %s", arch, o.path);
	return 1;
}

/* ---- running ---------------------------------------------------------------------------- */

static int run_fibers(const struct module *m, const struct grid *g)
{
	const struct simt_options options = { .resident = RESIDENT,
					      .seconds = SECONDS,
					      .units = (unsigned)chip_units() };
	const struct simt_dim grid = { g->x, g->y, g->z };
	if (!simt_launch(m->fibers, grid, g->threads, g->smem, g->args, &options, launch_error,
			 sizeof launch_error))
		return 0;
	return misuse(ILLEGAL_ADDRESS, "a kernel", launch_error);
}

/* An object's calls of simt.h resolve to this library, however it was opened. */
static void be_seen(void)
{
	Dl_info own;
	if (dladdr(launch_error, &own))
		dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
}

static int open_object(struct module *m, const char *path)
{
	be_seen();
	m->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	m->fibers = m->library ? dlsym(m->library, "simt_exports") : NULL;
	if (!m->fibers || m->fibers->args_bytes > MOST_ARGS) {
		misuse(INVALID_IMAGE, "a kernel's object", m->library ? path : dlerror());
		return 0;
	}
	m->own.args_bytes = m->fibers->args_bytes;
	m->own.registers = REGISTERS;
	m->own.lds_bytes = (int)(m->fibers->shared_end - m->fibers->shared_begin);
	m->own.run = run_fibers;
	m->kernel = &m->own;
	return 1;
}

int fibers_load(struct module *m, const char *text, int *error)
{
	char arch[16], path[SIMT_PATH];
	if (sscanf(text, "fibers for %15[^:]: %1023[^\n]", arch, path) != 2)
		*error = INVALID_IMAGE;
	else if (strcmp(arch, chip_arch()))
		*error = NO_BINARY;
	else if (!open_object(m, path))
		*error = INVALID_IMAGE;
	return !*error;
}

void fibers_unload(struct module *m)
{
	if (m->library)
		dlclose(m->library);
}

/* ---- what the library carries ----------------------------------------------------------- */

/* Of an ELF file; its section headers come last. */
static size_t elf_bytes(const void *image)
{
	Elf64_Ehdr head;
	memcpy(&head, image, sizeof head);
	return head.e_shoff + (size_t)head.e_shnum * head.e_shentsize;
}

void fibers_carried(struct module *m, const void *image)
{
	const size_t bytes = elf_bytes(image);
	for (int i = 0; i < attune_num_shipped && !m->carried; i++) {
		const struct shipped *s = &attune_shipped[i];
		if (!strcmp(s->arch, chip_arch()) && !memcmp(s->blob.data, ELFMAG, SELFMAG) &&
		    elf_bytes(s->blob.data) == bytes && !memcmp(s->blob.data, image, bytes))
			m->carried = s;
	}
}

int fibers_ready(struct module *m)
{
	char flags[SIMT_FLAGS];
	struct simt_object o;
	if (!m->carried || m->fibers)
		return 1;
	snprintf(flags, sizeof flags, "%s -D__AMDGCN__ -D__%s__", m->carried->flags, chip_arch());
	simt_object(&o, kernel_find(BACKEND_GPU, m->carried->kernel)->source, flags);
	return simt_build(&o, 1) && open_object(m, o.path);
}
