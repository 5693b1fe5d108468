/* SPDX-License-Identifier: Apache-2.0 */
/* list_shipped.c - a build tool that lists the binaries which the library carries, as make rules
 * (--make) and as the table that names them (--table):
 *
 *   - for each measured GPU what its header needs for the measured shapes, on NVIDIA GPUs also for
 *     the other shapes of untuned_shapes.c, and for E4M3 caches where no header of these serves
 *   - what the portable rules need for all these shapes, as PTX and in native code of measured
 *     NVIDIA GPUs
 *   - the defaults of every kernel for the shapes of untuned_shapes.c, of qblock alone for the
 *     small ones: on the CPU for each instruction set, on NVIDIA GPUs as PTX, on AMD GPUs for each
 *     chip of --amd (those with a compiler)
 *   - the defaults for E4M3 caches, of kernels that read them; on measured GPUs also in native code
 *
 * Without a CUDA compiler (--no-cuda) there are no rows of NVIDIA GPUs. Rows that --leave-out names
 * have rules but are not linked.
 *
 *   build/list_shipped --make|--table [--machine=x86_64|aarch64|other] [--no-cuda]
 *                      [--amd=gfx90a,gfx942] [--leave-out='nvidia gfx90a avx2'] [--skip-stale]
 *
 * --machine is what the library is compiled for. Without it only scalar code is listed for CPUs. */
#include "kernels/select/selector.h"
#include "kernels/device/hip/hip.h"
#include "list_rows.h"
#include "shipped.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int skip_stale, cuda = 1;
static const char *amd = "";   /* chips, separated by commas */
static struct device_info any; /* the smallest NVIDIA GPU from sm_80 on */

/* The instruction sets of a machine's CPUs, scalar last. This program may run on another one. */
static const struct machine {
	const char *name;
	const char *isas[4];
} machines[] = {
	{ "x86_64", { "avx512", "avx2", "scalar" } },
	{ "aarch64", { "neon", "scalar" } },
	{ "other", { "scalar" } },
};
static const struct machine *machine = &machines[COUNT(machines) - 1];

static void find_machine(const char *name)
{
	while (machine > machines && strcmp(machine->name, name))
		machine--;
	if (!strcmp(machine->name, name))
		return;
	fprintf(stderr, "list_shipped: --machine=%s: it is x86_64, aarch64 or other\n", name);
	exit(2);
}

static int stands_in(const struct kernel *k)
{
	for (const struct fallback *f = attune_fallbacks; f->kernel; f++)
		if (!strcmp(f->kernel, k->name))
			return 1;
	return !k->selectable;
}

/* Page sizes for which kernels that compile them in are carried. */
static const int pages[] = { 16, 8, 32 };

/* The first legal fallback of this kernel for the shape; a helper's defaults. */
static int take_fallback(struct config *c, const struct kernel *k, const attune_shape *shape,
			 const struct device_info *d)
{
	config_default(c, k->space);
	int legal = !k->selectable && !k->space->why_illegal(c, shape, NULL, d);
	for (const struct fallback *f = attune_fallbacks; f->kernel && !legal; f++) {
		if (strcmp(f->kernel, k->name))
			continue;
		fallback_config(c, f, k->space);
		legal = !k->space->why_illegal(c, shape, NULL, d);
	}
	return legal;
}

static void add_default_of(const struct kernel *k, const struct carried_shape *c,
			   enum attune_dtype kv_dtype, int page_size, const char *arch,
			   const struct device_info *d)
{
	const attune_shape shape = { .num_query_heads = 8,
				     .num_kv_heads = 1,
				     .head_size = c->head_size,
				     .page_size = page_size,
				     .dtype = c->dtype,
				     .kv_dtype = kv_dtype,
				     .causal = 1,
				     .kv_layout =
					 k->space->kv_layout == KV_LAYOUT_ANY
					     ? ATTUNE_KV_STRIDED
					     : (enum attune_kv_layout)k->space->kv_layout };
	struct config config;
	char flags[MAX_FLAGS];
	if (!take_fallback(&config, k, &shape, d))
		return;
	binary_flags(flags, sizeof flags, k, &config, &shape);
	list_add(k->backend, arch, k->name, flags);
}

/* The defaults of one kernel for one shape on some device. */
static void add_default(const struct kernel *k, const struct carried_shape *c, int page_size,
			const char *arch, const struct device_info *d)
{
	add_default_of(k, c, c->dtype, page_size, arch, d);
	if (k->space->takes_more)
		add_default_of(k, c, ATTUNE_E4M3, page_size, arch, d);
}

/* The same on all chips of --amd. */
static void add_on_amd(const struct kernel *k, const struct carried_shape *c)
{
	char arch[16];
	for (const char *at = amd; *at; at += strcspn(at, ","), at += *at == ',') {
		snprintf(arch, sizeof arch, "%.*s", (int)strcspn(at, ","), at);
		const struct hip_chip *chip = hip_chip(arch);
		if (!chip) {
			fprintf(stderr, "list_shipped: --amd=%s: \"%s\" is not a known AMD chip\n",
				amd, arch);
			exit(2);
		}
		const struct device_info d = { .smem_per_block = chip->lds,
					       .smem_per_unit = chip->lds,
					       .lanes = 64,
					       .units = 1 };
		add_default(k, c, pages[0], arch, &d);
	}
}

static int is_helper(const struct kernel *k)
{
	for (enum helper h = 0; h < NUM_HELPERS; h++)
		if (k == kernel_helper(k->backend, h))
			return 1;
	return 0;
}

/* The defaults of one kernel for one shape, on all architectures. */
static void add_defaults(const struct kernel *k, const struct carried_shape *c)
{
	const int is_first = !strcmp(k->name, attune_fallbacks[0].kernel);
	if (c->is_small && (k->selectable ? !is_first : is_helper(k)))
		return;
	for (size_t i = 0; i < COUNT(pages); i++) {
		if (k->backend == BACKEND_GPU && cuda)
			add_default(k, c, pages[i], "ptx", &any);
		for (int isa = 0; k->backend == BACKEND_CPU && machine->isas[isa]; isa++)
			add_default(k, c, pages[i], machine->isas[isa], &any);
	}
	if (k->backend == BACKEND_GPU && c->on_amd)
		add_on_amd(k, c);
}

/* Kernels that no choice names or needs, in native code: the driver then compiles nothing. */
static void add_extras(const struct selector *h)
{
	const struct device_info own = device_of_arch(h->arch);
	for (const struct kernel *k = attune_kernels; k->name; k++)
		for (const struct carried_shape *c = attune_carried_shapes; c->head_size; c++)
			if (k->backend == BACKEND_GPU && !k->selectable && !is_helper(k))
				add_default(k, c, pages[0], h->arch,
					    k->space->is_arch_specific ? &own : &any);
}

static void add_own_default(const struct selector *h, const struct kernel *k,
			    const attune_shape *shape, const struct device_info *d)
{
	char flags[MAX_FLAGS];
	struct config c;
	config_default(&c, k->space);
	if (k->space->why_illegal(&c, shape, NULL, d))
		return;
	binary_flags(flags, sizeof flags, k, &c, shape);
	list_add(BACKEND_GPU, h->arch, k->name, flags);
}

/* For each shape with choices of this GPU, with its shared memory, which may be more than that of
 * `any`: ring_list's default, and those of qblock and segmented that PTX for all GPUs lacks. */
static void add_own_defaults(const struct selector *h)
{
	static const char *const names[] = { "qblock", "segmented" };
	const struct device_info d = device_of_arch(h->arch);
	struct binary_walk w = { 0 };
	while (selector_next_binary(h, &w)) {
		attune_shape shape = { .num_query_heads = 1,
				       .num_kv_heads = 1,
				       .page_size = pages[0] };
		char dtype[16];
		if (strcmp(w.kernel, "reduce") ||
		    sscanf(w.flags, "-DHEAD_SIZE=%d -DDTYPE=%15s", &shape.head_size, dtype) != 2)
			continue;
		shape.dtype = strcmp(dtype, "F16") ? ATTUNE_BF16 : ATTUNE_F16;
		shape.kv_dtype = shape.dtype;
		add_own_default(h, kernel_find(BACKEND_GPU, "ring_list"), &shape, &d);
		for (size_t i = 0; i < COUNT(names); i++) {
			const struct kernel *k = kernel_find(BACKEND_GPU, names[i]);
			struct config c;
			config_default(&c, k->space);
			if (k->space->why_illegal(&c, &shape, NULL, &any))
				add_own_default(h, k, &shape, &d);
		}
	}
}

/* Whether the header's rules serve E4M3 caches: no header of such caches is for its GPU. */
static int serves_e4m3(const struct selector *h)
{
	struct device_info d = device_of_arch(h->arch);
	snprintf(d.gpu, sizeof d.gpu, "%.*s", gpu_length(h->gpu), h->gpu);
	return selector_for(&d, ATTUNE_E4M3) == h;
}

/* What the header needs for a shape, on devices with these limits. */
static void add_needed(const struct selector *h, const attune_shape *shape,
		       const struct device_info *d, const char *arch)
{
	struct binary_walk w = { 0 };
	while (selector_binary_of(h, shape, d, &w))
		list_add(BACKEND_GPU, arch, w.kernel, w.flags);
}

/* What a header of an NVIDIA GPU needs for the carried shapes of 16 bits beside its SHAPES, which
 * it serves as well. */
static void add_carried(const struct selector *h, const struct device_info *d, const char *arch)
{
	const int of_e4m3 = h->gpu[gpu_length(h->gpu)] != '\0', e4m3 = serves_e4m3(h);
	for (const struct carried_shape *c = attune_carried_shapes; c->head_size; c++) {
		const attune_shape own = shape_of_binary(c->head_size, c->dtype, c->dtype);
		const attune_shape other = shape_of_binary(c->head_size, c->dtype, ATTUNE_E4M3);
		if (c->dtype == ATTUNE_F32 || c->is_small)
			continue;
		if (!of_e4m3)
			add_needed(h, &own, d, arch);
		if (e4m3)
			add_needed(h, &other, d, arch);
	}
}

/* Native code has instructions that PTX for all GPUs lacks, and may use all of the chip's shared
 * memory. */
static void add_e4m3_defaults(const struct selector *h)
{
	const struct device_info own = device_of_arch(h->arch);
	for (const struct kernel *k = attune_kernels; k->name; k++)
		for (const struct carried_shape *c = attune_carried_shapes; c->head_size; c++)
			if (k->space->takes_more && k->selectable && stands_in(k) && !c->is_small)
				add_default_of(k, c, ATTUNE_E4M3, pages[0], h->arch,
					       k->space->is_arch_specific ? &own : &any);
}

/* Whether there is a compiler for the header's GPU. */
static int compiles_for(const struct selector *h)
{
	if (!strcmp(h->gpu, "cpu"))
		return 1;
	return hip_chip(h->arch) ? strstr(amd, h->arch) != NULL : cuda;
}

static enum backend backend_of(const struct selector *h)
{
	return strcmp(h->gpu, "cpu") ? BACKEND_GPU : BACKEND_CPU;
}

static void complain_of_stale(const struct selector *h)
{
	for (int i = 0; i < h->num_kernels; i++) {
		const struct selector_kernel *k = &h->kernels[i];
		if (!selector_kernel_is_stale(k))
			continue;
		fprintf(stderr, "generated/attune_%s.h: ", h->gpu);
		if (strcmp(k->where, "rules") && !kernel_find(backend_of(h), k->name)) {
			fprintf(stderr,
				"names kernel %s/%s, which is not here; PLUGIN=DIR names the "
				"folder of a plug-in, and make heuristics GPU=%s makes it anew\n",
				k->where, k->name, h->gpu);
			continue;
		}
		if (strcmp(k->where, "rules"))
			fprintf(stderr, "kernel %s/%s has other tunables", k->where, k->name);
		else
			fprintf(stderr, "features or segment costs are others");
		fprintf(stderr,
			" than when this was made; refresh it with: make heuristics GPU=%s\n",
			h->gpu);
	}
}

/* A choice that is not one would have no binary, and nothing else would say so. */
static void check_choices(const struct selector *h)
{
	for (int i = 0; i < h->num_choices; i++) {
		const struct selector_row *r = &h->choices[i];
		char text[MAX_CHOICE_TEXT], error[600];
		struct choice c;
		snprintf(text, sizeof text, "%s %s", r->kernel, r->text);
		if (choice_parse(&c, backend_of(h), text, error, sizeof error))
			continue;
		fprintf(stderr, "generated/attune_%s.h: choice %d: %s\n", h->gpu, i, error);
		exit(1);
	}
}

/* The portable rules as PTX and in native code for the GPUs of headers, behind whose rules they stand.
 * Of what larger GPUs could run as well nothing is known: rows were learned with what is illegal on
 * the smallest one left out. */
static void add_portable(const struct selector *portable)
{
	add_carried(portable, &any, "ptx");
	for (const struct selector *h = attune_selectors; h->gpu; h++)
		if (h != portable && backend_of(h) == BACKEND_GPU && !hip_chip(h->arch))
			add_carried(portable, &any, h->arch);
}

static void add_measured(const struct selector *h)
{
	if (selector_is_stale(h)) {
		if (skip_stale)
			return;
		complain_of_stale(h);
		exit(1);
	}
	check_choices(h);
	if (!strcmp(h->gpu, PORTABLE_GPU)) {
		add_portable(h);
		return;
	}
	const enum backend backend = backend_of(h);
	const struct device_info d = device_of_arch(h->arch);
	struct binary_walk w = { 0 };
	while (selector_next_binary(h, &w))
		if (backend == BACKEND_GPU)
			list_add(backend, h->arch, w.kernel, w.flags);
		else
			for (int isa = 0; machine->isas[isa + 1]; isa++)
				list_add(backend, machine->isas[isa], w.kernel, w.flags);
	if (backend != BACKEND_GPU)
		return;
	if (hip_chip(h->arch))
		return;
	add_carried(h, &d, h->arch);
	add_e4m3_defaults(h);
	add_extras(h);
	if (h->gpu[gpu_length(h->gpu)])
		return;
	add_own_defaults(h);
}

int main(int argc, char **argv)
{
	int make = 0, table = 0;
	any = device_of_arch("ptx");
	for (int i = 1; i < argc; i++) {
		make |= !strcmp(argv[i], "--make");
		table |= !strcmp(argv[i], "--table");
		skip_stale |= !strcmp(argv[i], "--skip-stale");
		if (!strcmp(argv[i], "--no-cuda"))
			cuda = 0;
		if (!strncmp(argv[i], "--amd=", 6))
			amd = argv[i] + 6;
		if (!strncmp(argv[i], "--machine=", 10))
			find_machine(argv[i] + 10);
		if (!strncmp(argv[i], "--leave-out=", 12))
			list_leave_out = argv[i] + 12;
	}
	if (make == table) {
		fputs("usage: list_shipped --make|--table [--machine=x86_64|aarch64|other] "
		      "[--no-cuda] [--amd=CHIPS] [--leave-out=WORDS] [--skip-stale]\n",
		      stderr);
		return 2;
	}
	for (const struct kernel *k = attune_kernels; k->name; k++)
		for (const struct carried_shape *c = attune_carried_shapes;
		     stands_in(k) && c->head_size; c++)
			add_defaults(k, c);
	for (int i = 0; i < attune_num_selectors; i++)
		if (compiles_for(&attune_selectors[i]))
			add_measured(&attune_selectors[i]);
	if (make)
		list_print_make();
	else
		list_print_table();
	return ferror(stdout) ? 1 : 0;
}
