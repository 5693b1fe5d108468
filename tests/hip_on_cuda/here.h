/* SPDX-License-Identifier: Apache-2.0 */
/* here.h - opens HIP's runtime over NVIDIA's driver, for t_hip_on_cuda*. Its hipRTC compiles,
 * not clang; the code is kept in a temporary folder. */
#ifndef TESTS_HIP_ON_CUDA_HERE_H
#define TESTS_HIP_ON_CUDA_HERE_H

#include "harness/compile/compile.h"
#include "tests/hip/lines.h"
#include "tests/support/gpu_here.h"

static char folder[] = "/tmp/t_hip_on_cuda.XXXXXX";

/* NULL: it is not there, and a message was printed. */
static inline void *find_runtime(void)
{
	void *library = take_runtime("/hip_on_cuda/libamdhip64.so");
	if (!library || !mkdtemp(folder))
		return NULL;
	setenv("ATTUNE_CACHE", folder, 1);
	setenv("HIPCC", "", 1);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return library;
}

/* 0: it stays. */
static inline int leave_folder(void)
{
	char command[64];
	snprintf(command, sizeof command, "rm -rf %s", folder);
	return system(command) == 0;
}

/* 0: no NVIDIA GPU is here; prints the reason and sets the exit status. A GPU that was named
 * must be here. */
static inline int has_gpu(int *status)
{
	struct device nvidia;
	const enum attune_status opened = device_open(&nvidia, "cuda");
	*status = gpu_named() && !strcmp(device_for(gpu_named()), "cuda");
	if (opened)
		printf("1..0 # SKIP %s\n", attune_last_error());
	else
		device_close(&nvidia);
	return !opened;
}

/* A source in the build folder, compiled for a GPU. */
static inline int compile_text(struct binary *b, const char *text, const char *arch)
{
	char path[64];
	snprintf(path, sizeof path, "%s/source.cu", folder);
	FILE *f = fopen(path, "we");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	return jit_compile_source(b, path, "", arch);
}

/* Of struct add of hip/bench.h. */
static const char add_text[] = "struct add { int *out; const int *in; int n, add; };\n"
			       "extern \"C\" __global__ void ENTRY(struct add a)\n"
			       "{\n"
			       "	const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
			       "	if (i < a.n)\n"
			       "		a.out[i] = a.in[i] + a.add;\n"
			       "}\n";

#endif
