/* SPDX-License-Identifier: Apache-2.0 */
/* list_rows.c - the rows of list_shipped.c, each binary once, and how they are printed. */
#include "list_rows.h"
#include "kernels/device/hip/hip.h"
#include "kernels/spec/kernel.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Its file name is a hash of its content's inputs, so that a new header rebuilds only what is
 * new. */
struct row {
	unsigned long long name;
	int linked;
	enum backend backend;
	char arch[16], kernel[32], flags[MAX_FLAGS];
	/* CPU kernels are linked into one program, one for each instruction set */
	char entry[ENTRY_TEXT + 16];
};

static struct row *rows;
static int num_rows;
const char *list_leave_out = "";

static int is_nvidia(enum backend backend, const char *arch)
{
	return backend == BACKEND_GPU && !hip_chip(arch);
}

static int is_left_out(enum backend backend, const char *arch)
{
	const char *word = is_nvidia(backend, arch) ? "nvidia" : arch;
	const size_t length = strlen(word);
	for (const char *at = list_leave_out; *at; at += strcspn(at, " "), at += *at == ' ')
		if (strcspn(at, " ") == length && !strncmp(at, word, length))
			return 1;
	return 0;
}

/* NVIDIA's are packed as shipped.mk says: other packing needs another word here. */
static void name_row(struct row *r)
{
	char entry[ENTRY_TEXT];
	entry_name(entry, r->kernel, r->flags);
	snprintf(r->entry, sizeof r->entry, "%s%s%s", entry, r->backend == BACKEND_CPU ? "_" : "",
		 r->backend == BACKEND_CPU ? r->arch : "");
	r->name = hash_word(hash_word(HASH_START, r->arch), r->kernel);
	r->name = hash_word(hash_word(r->name, r->flags), r->entry);
	if (is_nvidia(r->backend, r->arch))
		r->name = hash_word(r->name, "compressed fatbin");
}

void list_add(enum backend backend, const char *arch, const char *kernel, const char *flags)
{
	for (int i = 0; i < num_rows; i++)
		if (!strcmp(rows[i].arch, arch) && !strcmp(rows[i].kernel, kernel) &&
		    !strcmp(rows[i].flags, flags))
			return;
	struct row *more = realloc(rows, (size_t)(num_rows + 1) * sizeof *rows);
	if (!more) {
		fputs("list_shipped: out of memory\n", stderr);
		exit(1);
	}
	rows = more;
	rows[num_rows].backend = backend;
	rows[num_rows].linked = !is_left_out(backend, arch);
	snprintf(rows[num_rows].arch, sizeof rows->arch, "%s", arch);
	snprintf(rows[num_rows].kernel, sizeof rows->kernel, "%s", kernel);
	snprintf(rows[num_rows].flags, sizeof rows->flags, "%s", flags);
	name_row(&rows[num_rows]);
	num_rows++;
}

void list_print_make(void)
{
	for (int i = 0; i < num_rows; i++) {
		const struct row *r = &rows[i];
		const struct kernel *k = kernel_find(r->backend, r->kernel);
		const char *compile = r->backend == BACKEND_CPU ? cpu_compile_flags(r->arch) : "";
		char arch[CODE_ARCH], path[PATH_MAX];
		kernel_arch(arch, k, r->arch);
		kernel_path(path, sizeof path, k, "kernels");
		printf("$(eval $(call shipped_%s,%016llx,%s,%s,%s,%s,%s))\n",
		       r->backend == BACKEND_CPU ? "cpu"
		       : hip_chip(r->arch)       ? "hip"
						 : "gpu",
		       r->name, arch, path, r->flags, compile, r->entry);
		if (r->linked)
			printf("linked_%s += %016llx\n",
			       r->backend == BACKEND_CPU ? "cells" : "blobs", r->name);
	}
}

void list_print_table(void)
{
	puts("#ifdef SYMBOLS");
	for (int i = 0; i < num_rows; i++)
		if (rows[i].linked && rows[i].backend == BACKEND_CPU)
			printf("void %s(const struct attune_args *, int, int, int);\n",
			       rows[i].entry);
		else if (rows[i].linked)
			printf("extern const unsigned char attune_b%016llx[];\n", rows[i].name);
	puts("#else");
	for (int i = 0; i < num_rows; i++)
		if (rows[i].linked && rows[i].backend == BACKEND_CPU)
			printf("CELL(\"%s\", \"%s\", \"%s\", %s)\n", rows[i].arch, rows[i].kernel,
			       rows[i].flags, rows[i].entry);
		else if (rows[i].linked)
			printf("BLOB(\"%s\", \"%s\", \"%s\", \"%s\", attune_b%016llx)\n",
			       rows[i].arch, rows[i].kernel, rows[i].flags, rows[i].entry,
			       rows[i].name);
	puts("#endif");
}
