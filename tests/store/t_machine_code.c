/* SPDX-License-Identifier: Apache-2.0 */
/* t_machine_code.c - which changes of a source leave the machine code equal. Some rows need
 * NVRTC. */
#include "harness/compile/compile.h"
#include "harness/compile/compilers.h"
#include "kernels/spec/kernel.h"
#include "tests/support/folder.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void code_of(const char *name, const char *text, const char *arch, char hex[33])
{
	struct binary b;
	assert_true(write_file(in_folder(name), text, strlen(text)));
	assert_int_equal(jit_compile_source(&b, in_folder(name), "", arch), 0);
	assert_int_equal(machine_code(&b.blob, hex), 1);
	jit_free(&b);
}

struct pair {
	const char *name, *arch, *old, *new;
	int is_equal;
};

static void compare(const struct pair *rows, size_t n, const char *old_name, const char *new_name)
{
	int bad = 0;
	for (size_t i = 0; i < n; i++) {
		char old[33], new[33];
		code_of(old_name, rows[i].old, rows[i].arch, old);
		code_of(new_name, rows[i].new, rows[i].arch, new);
		if ((strcmp(old, new) == 0) == rows[i].is_equal)
			continue;
		print_message("%s, for %s: %s\n", rows[i].name, rows[i].arch,
			      rows[i].is_equal ? "differs" : "is equal");
		bad++;
	}
	assert_int_equal(bad, 0);
}

// clang-format off
#define HOST(body) "#include <math.h>\n" body
static const struct pair host_rows[] = {
	{ "a comment, blanks and a local's name", "scalar",
	  HOST("float ENTRY(float x) { float y = x * 2; return y; }"),
	  HOST("/* twice */ float ENTRY(float of)\n{\n\tfloat twice = of * 2;\n\treturn twice; }"), 1 },
	{ "a static function's name", "scalar",
	  HOST("__attribute__((noinline)) static float f(float x) { return x * x + 1; }\n"
	       "float ENTRY(float x) { return f(x) + f(x + 1); }"),
	  HOST("__attribute__((noinline)) static float squared_and_more(float x) { return x * x + 1; }\n"
	       "float ENTRY(float x) { return squared_and_more(x) + squared_and_more(x + 1); }"), 1 },
	{ "a function that nobody calls", "scalar",
	  HOST("int ENTRY(int x) { return x + 3; }"),
	  HOST("static inline int more(int x) { return x + 4; }\nint ENTRY(int x) { return x + 3; }"), 1 },
	{ "a constant", "scalar",
	  HOST("int ENTRY(int x) { return x + 3; }"),
	  HOST("int ENTRY(int x) { return x + 4; }"), 0 },
	{ "a constant in memory", "scalar",
	  HOST("double ENTRY(double x) { return x * 0.1; }"),
	  HOST("double ENTRY(double x) { return x * 0.2; }"), 0 },
	{ "a table's content", "scalar",
	  HOST("static const int t[] = { 1, 5, 3, 9, 2, 8 };\nint ENTRY(int x) { return t[x]; }"),
	  HOST("static const int t[] = { 1, 5, 3, 9, 2, 7 };\nint ENTRY(int x) { return t[x]; }"), 0 },
	{ "the function of a library that is called", "scalar",
	  HOST("float ENTRY(float x) { return expf(x) + 1; }"),
	  HOST("float ENTRY(float x) { return logf(x) + 1; }"), 0 },
	{ "bytes of zeros", "scalar",
	  HOST("static int z[8];\nint *ENTRY(int x) { return z + x; }"),
	  HOST("static int z[16];\nint *ENTRY(int x) { return z + x; }"), 0 },
};

#define DEVICE(before, params, body) \
	before "extern \"C\" __global__ void ENTRY(" params ")\n{\n" body "\n}\n"
#define ADDS DEVICE("", "float *p", "p[threadIdx.x] += 1;")
#define CALLS(name) \
	DEVICE("__device__ __noinline__ float " name "(float x, int n) {" \
	       " for (int i = 0; i < n; i++) x = x * x + i; return x; }\n", "float *p, int n", \
	       "p[threadIdx.x] = " name "(p[threadIdx.x], n);")
#define SHARES(n) DEVICE("", "float *p", "__shared__ float s[" n "]; s[threadIdx.x] = p[threadIdx.x];" \
			 " __syncthreads(); p[threadIdx.x] = s[threadIdx.x ^ 1];")
#define TABLE(n) DEVICE("__constant__ int t[4] = { 1, 5, 3, " n " };\n", "int *p", "*p = t[*p];")
static const struct pair device_rows[] = {
	{ "a comment and blanks", "sm_90", ADDS, "/* adds */\n" ADDS, 1 },
	{ "a function's name", "sm_90", CALLS("f"), CALLS("a_much_longer_name_of_it"), 1 },
	{ "the same, of code for one chip", "sm_90a", CALLS("f"), CALLS("another"), 1 },
	{ "a function that nobody calls", "sm_90", ADDS,
	  "static __device__ float more(float x) { return x + 1; }\n" ADDS, 1 },
	{ "a constant", "sm_90", ADDS, DEVICE("", "float *p", "p[threadIdx.x] += 2;"), 0 },
	{ "a table's content", "sm_90", TABLE("9"), TABLE("8"), 0 },
	{ "static shared memory", "sm_90", SHARES("100"), SHARES("200"), 0 },
	{ "parameters", "sm_90", ADDS, DEVICE("", "float *p, int n", "p[threadIdx.x] += 1;"), 0 },
	{ "bounds of a launch", "sm_90", ADDS,
	  "extern \"C\" __global__ void __launch_bounds__(128) ENTRY(float *p) { p[threadIdx.x] += 1; }\n", 0 },
};
// clang-format on

static void host_pairs(void **state)
{
	(void)state;
	compare(host_rows, COUNT(host_rows), "old.c", "much_newer.c");
}

static void device_pairs(void **state)
{
	(void)state;
	compare(device_rows, COUNT(device_rows), "old.cu", "much_newer.cu");
}

static void edit(const char *command)
{
	char line[PATH_MAX + 200];
	snprintf(line, sizeof line, "cd %s && %s", folder, command);
	assert_int_equal(system(line), 0);
}

/* A kernel of ours for one chip, as it is and from an edited kernels folder. */
static void real_pair(void **state)
{
	static const attune_shape shape = { .size = sizeof(attune_shape),
					    .num_query_heads = 8,
					    .num_kv_heads = 2,
					    .head_size = 64,
					    .page_size = 16,
					    .dtype = ATTUNE_BF16,
					    .kv_dtype = ATTUNE_BF16,
					    .causal = 1 };
	const struct kernel *k = kernel_find(BACKEND_GPU, "warpgroup");
	char command[PATH_MAX + 80], flags[MAX_FLAGS], old[33], new[33], identity[33], path[160];
	struct config config;
	struct binary a, b;
	(void)state;
	snprintf(command, sizeof command, "cp -r '%s' kernels", source_root());
	edit(command);
	edit("grep -rl q_block_at kernels/gpu | xargs sed -i 's/q_block_at/first_of_q_block/g'");
	edit("sed -i '$ a static __device__ int more(int x) { return x + 1; }' "
	     "kernels/gpu/warpgroup/warpgroup.cu");
	config_default(&config, k->space);
	binary_flags(flags, sizeof flags, k, &config, &shape);
	assert_int_equal(jit_compile(&a, k, flags, "sm_90"), 0);
	assert_int_equal(jit_compile_below(&b, in_folder("kernels"), k, flags, "sm_90"), 0);
	assert_int_equal(machine_code(&a.blob, new), 1);
	assert_int_equal(machine_code(&b.blob, old), 1);
	assert_string_equal(old, new);
	assert_true(source_identity(k, new));
	snprintf(path, sizeof path, "%s/%s", in_folder("kernels"), k->source);
	assert_true(source_identity_of(path, in_folder("kernels"), identity));
	assert_string_not_equal(identity, new); /* else there was nothing to show */
	jit_free(&a);
	jit_free(&b);
}

/* Any bytes are refused or read, and no byte outside of them is. */
static void damaged(void **state)
{
	struct binary b;
	char hex[33];
	(void)state;
	assert_true(write_file(in_folder("cut.c"), "int attune_cut;\n", 16));
	assert_int_equal(jit_compile_source(&b, in_folder("cut.c"), "", "scalar"), 0);
	size_t size;
	unsigned char *bytes = read_file(b.blob.path, &size);
	assert_non_null(bytes);
	assert_int_equal(machine_code(&(struct blob){ .data = "not ELF", .size = 7 }, hex), 0);
	assert_int_equal(machine_code(&(struct blob){ .path = "/nonexistent" }, hex), 0);
	for (size_t cut = 0; cut < size; cut += 1 + size / 500) {
		void *part = malloc(cut + 1);
		assert_non_null(part);
		memcpy(part, bytes, cut);
		(void)machine_code(&(struct blob){ .data = part, .size = cut }, hex);
		free(part);
	}
	for (size_t at = 0; at < size; at += 1 + size / 2000) {
		bytes[at] ^= 0xff;
		(void)machine_code(&(struct blob){ .data = bytes, .size = size }, hex);
		bytes[at] ^= 0xff;
	}
	free(bytes);
	jit_free(&b);
}

static int make_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) && setenv("ATTUNE_CACHE", in_folder("cache"), 1) == 0 ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(host_pairs),
		cmocka_unit_test(damaged),
		cmocka_unit_test(device_pairs),
		cmocka_unit_test(real_pair),
	};
	const int has_nvrtc = strcmp(jit_version(BACKEND_GPU, "sm_90"), "none") != 0;
	cmocka_set_message_output(CM_OUTPUT_TAP);
	if (!has_nvrtc)
		printf("# no NVRTC: its rows are left out\n");
	return _cmocka_run_group_tests("machine_code", tests, has_nvrtc ? 4 : 2, make_folder,
				       remove_folder);
}
