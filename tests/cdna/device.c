/* SPDX-License-Identifier: Apache-2.0 */
/* device.c - implements cdna_device.h. */
#include "cdna_device.h"
#include "harness/compile/compile.h"
#include "kernels/spec/space.h"
#include "kernels/spec/status.h"
#include "tests/simt/simt_device.h"
#include "cdna.h"
#include <string.h>

const char *cdna_why_not(const char *arch)
{
	if (!strcmp(jit_version(BACKEND_GPU, arch), "none"))
		return "no compiler for AMD's GPUs: clang-22 and lld-22 would do";
	return *cdna_disassembler() ? NULL : "no disassembler for AMD's GPUs: llvm-22 has one";
}

static int find(void *dev, uintptr_t address, uintptr_t *begin, uintptr_t *end)
{
	return simt_find(dev, address, begin, end);
}

static enum attune_status run(struct device *dev, void *code, const struct geometry *g,
			      const void *args, size_t args_bytes,
			      const struct simt_options *options)
{
	const struct cdna_machine machine = {
		find,           dev,          (size_t)dev->info.smem_per_block, options->seconds,
		options->units, options->seed
	};
	const unsigned grid[3] = { g->x, g->y, g->z };
	char error[600];
	return cdna_launch(code, grid, g->threads, g->smem, args, args_bytes, &machine, error,
			   sizeof error)
		   ? fail(ATTUNE_DEVICE_ERROR, "%s", error)
		   : ATTUNE_OK;
}

static void free_code(void *code)
{
	cdna_free(code);
}

static const struct simt_foreign foreign = { run, free_code };

/* Takes the binary. */
static enum attune_status load(struct code **out, struct binary *b, int refused, const char *arch,
			       const char *name, const char *flags)
{
	char error[600];
	if (refused) {
		const enum attune_status status = fail(ATTUNE_UNSUPPORTED, "%s %s: %s", name, flags,
						       b->log ? b->log : "not compiled");
		jit_free(b);
		return status;
	}
	struct cdna_code *code =
	    cdna_load(b->blob.data, b->blob.size, arch, b->blob.entry, error, sizeof error);
	jit_free(b);
	if (!code)
		return fail(ATTUNE_UNSUPPORTED, "%s %s: %s", name, flags, error);
	const enum attune_status status = simt_load_foreign(out, &foreign, code);
	if (status)
		cdna_free(code);
	return status;
}

enum attune_status cdna_load_kernel(struct code **out, const char *arch, const struct kernel *k,
				    const char *flags)
{
	struct binary b = { .log = NULL };
	const int refused = jit_compile(&b, k, flags, arch);
	return load(out, &b, refused, arch, k->name, flags);
}

enum attune_status cdna_load_source(struct code **out, const char *arch, const char *source,
				    const char *flags)
{
	struct binary b = { .log = NULL };
	const int refused = jit_compile_source(&b, source, flags, arch);
	return load(out, &b, refused, arch, source, flags);
}
