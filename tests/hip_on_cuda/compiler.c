/* SPDX-License-Identifier: Apache-2.0 */
/* compiler.c - hipRTC by NVIDIA's NVRTC, inside the runtime as in ROCm 5. Needs no driver.
 *
 *   --offload-arch=gfx9.0   --gpu-architecture=sm_90
 *   -O3                     dropped: NVRTC optimizes anyway and does not know the option
 *
 * The numbers of results are the same. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define RTC_CALLS(X)                                                                \
	X(Version, Version, (int *major, int *minor), (major, minor))               \
	X(CreateProgram, CreateProgram,                                             \
	  (void **p, const char *source, const char *name, int num_headers,         \
	   const char *const *headers, const char *const *names),                   \
	  (p, source, name, num_headers, headers, names))                           \
	X(GetProgramLogSize, GetProgramLogSize, (void *p, size_t *size), (p, size)) \
	X(GetProgramLog, GetProgramLog, (void *p, char *log), (p, log))             \
	X(GetCodeSize, GetCUBINSize, (void *p, size_t *size), (p, size))            \
	X(GetCode, GetCUBIN, (void *p, char *code), (p, code))                      \
	X(DestroyProgram, DestroyProgram, (void **p), (p))

enum { INVALID_INPUT = 3, INVALID_OPTION = 5, INTERNAL_ERROR = 11, MOST_OPTIONS = 64 };

static struct {
#define MEMBER(name, cuda, arguments, given) int(*name) arguments;
	RTC_CALLS(MEMBER)
	int (*CompileProgram)(void *, int num_options, const char *const *options);
	const char *(*GetErrorString)(int);
} rtc;
static int is_here;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void *find(void *library, const char *symbol)
{
	void *call = dlsym(library, symbol);
	is_here &= call != NULL;
	return call;
}

static void start(void)
{
	static const char *const names[] = { "libnvrtc.so.13", "libnvrtc.so.12",
					     "/usr/local/cuda/lib64/libnvrtc.so" };
	void *library = NULL;
	for (size_t i = 0; !library && i < sizeof names / sizeof *names; i++)
		library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	is_here = library != NULL;
	if (!library)
		return;
#define FIND(name, cuda, arguments, given) \
	*(void **)(void *)&rtc.name = find(library, "nvrtc" #cuda);
	RTC_CALLS(FIND)
	FIND(CompileProgram, CompileProgram, , )
	FIND(GetErrorString, GetErrorString, , )
}

static int started(void)
{
	pthread_once(&once, start);
	return is_here;
}

#define FORWARD(name, cuda, arguments, given)                       \
	int hiprtc##name arguments;                                 \
	int hiprtc##name arguments                                  \
	{                                                           \
		return started() ? rtc.name given : INTERNAL_ERROR; \
	}
RTC_CALLS(FORWARD)

const char *hiprtcGetErrorString(int error);
const char *hiprtcGetErrorString(int error)
{
	return started() ? rtc.GetErrorString(error) : "no NVRTC (libnvrtc.so.13 or .12) here";
}

/* "gfx9.0" -> "sm_90". 0: it is no NVIDIA GPU's. */
static int name_arch(char *out, size_t size, const char *gfx)
{
	int major, minor, end = 0;
	if (sscanf(gfx, "gfx%d.%d%n", &major, &minor, &end) != 2 || gfx[end])
		return 0;
	snprintf(out, size, "--gpu-architecture=sm_%d%d", major, minor);
	return 1;
}

int hiprtcCompileProgram(void *program, int num_options, const char *const *options);
int hiprtcCompileProgram(void *program, int num_options, const char *const *options)
{
	static const char offload[] = "--offload-arch=";
	const char *given[MOST_OPTIONS + 1];
	char arch[40];
	int n = 0;
	if (num_options > MOST_OPTIONS)
		return INVALID_INPUT;
	for (int i = 0; i < num_options; i++) {
		const int is_arch = !strncmp(options[i], offload, sizeof offload - 1);
		if (is_arch && !name_arch(arch, sizeof arch, options[i] + sizeof offload - 1))
			return INVALID_OPTION;
		if (strcmp(options[i], "-O3"))
			given[n++] = is_arch ? arch : options[i];
	}
	given[n++] = "-default-device"; /* as on AMD's: unmarked functions are device code */
	return started() ? rtc.CompileProgram(program, n, given) : INTERNAL_ERROR;
}
