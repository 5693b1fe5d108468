/* SPDX-License-Identifier: Apache-2.0 */
/* t_hard_gpu.c - the GPU's kernels on the batches of hard_rows.h, on this machine's NVIDIA GPU:
 * arrays end where the driver maps nothing. Skips itself without one.
 *
 *   t_hard_gpu                  compiles by the run-time compiler
 *   t_hard_gpu compile FOLDER   leaves the code of all rows for an H100 or H200 there; needs no GPU
 *   t_hard_gpu run FOLDER       runs that code; needs no compiler
 *   t_hard_gpu only TEXT        compiles and runs the rows with this text in their name */
#include "harness/check/check.h"
#include "harness/compile/compile.h"
#include "harness/scenario/scenario.h"
#include "kernels/spec/status.h"
#include <stdio.h>
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "harness/compile/compilers.h"
#include "tests/support/gpu_here.h"
#include "hard_rows.h"

/* ---- memory ---------------------------------------------------------------------------------- */

/* Of the driver: pinned memory of the GPU, and access to read and write. */
struct properties {
	int type, handles, location_type, device;
	void *security;
	struct {
		unsigned char compression, rdma;
		unsigned short usage;
		unsigned char reserved[4];
	} flags;
};
struct access {
	int location_type, device, flags;
};
enum { PINNED = 1, ON_DEVICE = 1, READ_WRITE = 3, LEAST = 0 };

static struct {
	int (*granularity)(size_t *, const struct properties *, int which);
	int (*reserve)(unsigned long long *, size_t, size_t alignment, unsigned long long at,
		       unsigned long long flags);
	int (*create)(unsigned long long *handle, size_t, const struct properties *,
		      unsigned long long flags);
	int (*map)(unsigned long long at, size_t, size_t offset, unsigned long long handle,
		   unsigned long long flags);
	int (*access)(unsigned long long at, size_t, const struct access *, size_t n);
	int (*unmap)(unsigned long long at, size_t);
	int (*release)(unsigned long long handle);
	int (*forget)(unsigned long long at, size_t);
} cu;

enum { MOST_MAPPINGS = 64 };
static struct {
	unsigned long long at, handle;
	size_t bytes;
} mapping[MOST_MAPPINGS];
static int num_mappings;
static size_t granularity;
static const struct properties properties = { .type = PINNED, .location_type = ON_DEVICE };

static int find_driver(void)
{
	const struct {
		void *to;
		const char *name;
	} calls[] = {
		{ &cu.granularity, "cuMemGetAllocationGranularity" },
		{ &cu.reserve, "cuMemAddressReserve" },
		{ &cu.create, "cuMemCreate" },
		{ &cu.map, "cuMemMap" },
		{ &cu.access, "cuMemSetAccess" },
		{ &cu.unmap, "cuMemUnmap" },
		{ &cu.release, "cuMemRelease" },
		{ &cu.forget, "cuMemAddressFree" },
	};
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	for (size_t i = 0; library && i < COUNT(calls); i++) {
		void *symbol = dlsym(library, calls[i].name);
		if (!symbol)
			return 0;
		memcpy(calls[i].to, &symbol, sizeof symbol);
	}
	return library && !cu.granularity(&granularity, &properties, LEAST);
}

/* | mapped .. array | reserved, not mapped | */
static void *guarded(size_t bytes)
{
	const size_t used =
	    (bytes ? bytes + granularity - 1 : granularity) / granularity * granularity;
	const struct access access = { ON_DEVICE, 0, READ_WRITE };
	unsigned long long at, handle;
	assert_true(num_mappings < MOST_MAPPINGS);
	if (cu.reserve(&at, used + granularity, 0, 0, 0) ||
	    cu.create(&handle, used, &properties, 0) || cu.map(at, used, 0, handle, 0) ||
	    cu.access(at, used, &access, 1))
		return NULL;
	mapping[num_mappings].at = at;
	mapping[num_mappings].handle = handle;
	mapping[num_mappings++].bytes = used;
	return (void *)(uintptr_t)(at + used - bytes);
}

static void release_guarded(void)
{
	while (num_mappings) {
		num_mappings--;
		cu.unmap(mapping[num_mappings].at, mapping[num_mappings].bytes);
		cu.release(mapping[num_mappings].handle);
		cu.forget(mapping[num_mappings].at, mapping[num_mappings].bytes + granularity);
	}
}

/* ---- code ------------------------------------------------------------------------------------ */

static const char *folder; /* of code; NULL: it is compiled here */

static void path_of(char path[600], const struct kernel *k, const char *flags)
{
	char entry[ENTRY_TEXT];
	entry_name(entry, k->name, flags);
	snprintf(path, 600, "%s/%s.cubin", folder, entry);
}

/* As compiled before, by the name of its entry. */
static enum attune_status load_kept(struct code **code, const struct kernel *k, const char *flags)
{
	char path[600], entry[ENTRY_TEXT];
	size_t size;
	path_of(path, k, flags);
	entry_name(entry, k->name, flags);
	void *bytes = read_file(path, &size);
	if (!bytes)
		return (fail)(ATTUNE_NO_DEVICE, "%s is missing", path);
	const struct blob blob = { .data = bytes, .size = size, .entry = entry };
	const enum attune_status status = dev.ops->load(&dev, code, &blob);
	free(bytes);
	return status;
}

static enum attune_status load_code(struct code **code, const struct kernel *k, const char *flags)
{
	struct binary b;
	if (folder)
		return load_kept(code, k, flags);
	if (jit_compile(&b, k, flags, dev.info.arch))
		fail_msg("%s %s: %s", k->name, flags, b.log ? b.log : "no compiler");
	const enum attune_status status = dev.ops->load(&dev, code, &b.blob);
	jit_free(&b);
	return status;
}

static int keep(const struct kernel *k, const struct config *c, const attune_shape *s)
{
	char flags[MAX_FLAGS], path[600];
	struct binary b;
	binary_flags(flags, sizeof flags, k, c, s);
	if (jit_compile(&b, k, flags, dev.info.arch))
		return 0;
	path_of(path, k, flags);
	const int kept = write_file(path, b.blob.data, b.blob.size);
	jit_free(&b);
	return kept;
}

static int keep_row(const struct hard_row *r)
{
	int kept = keep(r->choice.kernel, &r->choice.config, &r->of->s);
	for (enum helper h = 0; h < NUM_HELPERS && kept; h++) {
		const struct kernel *k = kernel_helper(BACKEND_GPU, h);
		struct config none;
		config_default(&none, k->space);
		if (kernel_takes(r->choice.kernel, &r->choice.config, h))
			kept = keep(k, &none, &r->of->s);
	}
	return kept;
}

static void add_all_rows(void)
{
	for (size_t i = 0; i < COUNT(gpu_choices); i++)
		add_hard_rows(gpu_choices[i], BACKEND_GPU, 0);
}

static int keep_all(void)
{
	int kept = 1;
	gpu_describe(&dev.info, gpu_model("h200"));
	add_all_rows();
	for (int i = 0; i < num_hard_rows && kept; i++)
		kept = keep_row(&hard_rows[i]);
	return !kept;
}

static void pose_for(const struct hard_row *r)
{
	(void)r;
}

static void keep_rows_with(const char *text)
{
	int n = 0;
	for (int i = 0; i < num_hard_rows; i++)
		if (strstr(hard_rows[i].name, text))
			hard_rows[n++] = hard_rows[i];
	num_hard_rows = n;
}

int main(int argc, char **argv)
{
	const char *only = argc == 3 && !strcmp(argv[1], "only") ? argv[2] : "";
	if (argc == 3 && !*only)
		folder = argv[2];
	if (argc == 3 && !strcmp(argv[1], "compile"))
		return keep_all();
	if (gpu_open_real(&dev) || dev.ops != &cuda_ops || !find_driver()) {
		printf("1..0 # SKIP no NVIDIA GPU is here whose memory can be mapped\n");
		return gpu_named() && !strcmp(device_for(gpu_named()), "cuda");
	}
	add_all_rows();
	keep_rows_with(only);
	const int failed = run_hard_rows("hard_gpu");
	device_close(&dev);
	return failed;
}
