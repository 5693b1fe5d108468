/* SPDX-License-Identifier: Apache-2.0 */
/* t_hip_on_cuda.c - HIP's runtime over NVIDIA's driver (tests/hip_on_cuda), as far as it needs
 * no GPU: it has all calls, reports a missing driver, and compiles. */
#include "tests/hip_on_cuda/here.h"

static void *runtime;

static void all_calls_are_there(void **state)
{
	static const char *const calls[] = {
#define HIP_FN(ours, symbol, arguments) #symbol,
#include "kernels/device/hip/api.def"
#undef HIP_FN
		"hipGetErrorString",    "hiprtcVersion",           "hiprtcCreateProgram",
		"hiprtcCompileProgram", "hiprtcGetProgramLogSize", "hiprtcGetProgramLog",
		"hiprtcGetCodeSize",    "hiprtcGetCode",           "hiprtcDestroyProgram",
		"hiprtcGetErrorString",
	};
	(void)state;
	for (size_t i = 0; i < COUNT(calls); i++)
		if (!dlsym(runtime, calls[i]))
			fail_msg("%s", dlerror());
}

/* All calls return 100; the host code concludes that no GPU is here. */
static void no_driver_is_one_line(void **state)
{
	enum { NO_DEVICE = 100 };
	struct hip_api hip;
	struct device dev;
	void *mem;
	int n = -1;
	(void)state;
	ok(hip_find(&hip));
	assert_int_equal(hip.DeviceCount(&n), NO_DEVICE);
	assert_int_equal(n, 0);
	assert_int_equal(hip.MemAlloc(&mem, 8), NO_DEVICE);
	assert_int_equal(hip.DeviceSet(0), NO_DEVICE);
	assert_int_equal(hip.DeviceAttr(&n, 63, 0), NO_DEVICE);
	assert_int_equal(hip.LastError(), NO_DEVICE);
	assert_int_equal(hip.LastError(), 0);
	assert_string_equal(hip.ErrorString(NO_DEVICE), "no NVIDIA driver (libcuda.so.1) here");
	assert_int_equal(device_open(&dev, "hip"), ATTUNE_NO_DEVICE);
	assert_line("hip: the runtime finds no GPU");
}

/* To an ELF file of machine 190, CUDA's. */
static void sources_become_cubins(void **state)
{
	static const struct {
		const char *text, *arch, *log;
		int status;
	} rows[] = {
		{ add_text, "gfx9.0", "", 0 },
		{ add_text, "gfx8.6", "", 0 },
		{ "#error not this", "gfx9.0", "not this", 1 },
		{ add_text, "gfx942", "", 2 },
	};
	(void)state;
	assert_string_equal(jit_version(BACKEND_GPU, "gfx9.0"), "hiprtc");
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct binary b;
		assert_int_equal(compile_text(&b, rows[i].text, rows[i].arch), rows[i].status);
		if (rows[i].status < 2)
			assert_non_null(strstr(b.log, rows[i].log));
		if (!rows[i].status) {
			const unsigned char *elf = b.blob.data;
			assert_memory_equal(elf,
					    "\x7f"
					    "ELF",
					    4);
			assert_int_equal(elf[18], 190);
		}
		jit_free(&b);
	}
}

static int has_driver(void)
{
	return dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) != NULL;
}

static int has_nvrtc(void)
{
	int (*version)(int *, int *), major, minor;
	*(void **)(void *)&version = dlsym(runtime, "hiprtcVersion");
	return version && !version(&major, &minor);
}

int main(void)
{
	struct CMUnitTest tests[3] = { cmocka_unit_test(all_calls_are_there) };
	size_t n = 1;
	runtime = find_runtime();
	if (!runtime)
		return 1;
	if (!has_driver())
		tests[n++] = (struct CMUnitTest)cmocka_unit_test(no_driver_is_one_line);
	if (has_nvrtc())
		tests[n++] = (struct CMUnitTest)cmocka_unit_test(sources_become_cubins);
	const int bad = _cmocka_run_group_tests("hip on cuda", tests, n, NULL, NULL);
	return !leave_folder() || bad;
}
