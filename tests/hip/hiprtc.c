/* SPDX-License-Identifier: Apache-2.0 */
/* hiprtc.c - the stand-in's hipRTC, inside the runtime as in ROCm 5. A source below kernels or
 * harness is compiled for fibers. Any other names one of the library's kernels, "kernel add";
 * "#error" in it is an error. It aborts for GPUs of any but two names, as ROCm 5 does. */
#include "stand_in.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ERROR_COMPILATION = 6 };

struct program {
	char name[400], source[200], log[200], code[600];
};

int hiprtcVersion(int *major, int *minor);
int hiprtcCreateProgram(struct program **, const char *source, const char *name, int num_headers,
			const char *const *headers, const char *const *names);
int hiprtcCompileProgram(struct program *, int num_options, const char *const *options);
int hiprtcGetProgramLogSize(const struct program *, size_t *);
int hiprtcGetProgramLog(const struct program *, char *);
int hiprtcGetCodeSize(const struct program *, size_t *);
int hiprtcGetCode(const struct program *, char *);
int hiprtcDestroyProgram(struct program **);
const char *hiprtcGetErrorString(int error);

int hiprtcVersion(int *major, int *minor)
{
	*major = 9;
	*minor = 0;
	return 0;
}

int hiprtcCreateProgram(struct program **p, const char *source, const char *name, int num_headers,
			const char *const *headers, const char *const *names)
{
	(void)headers, (void)names;
	*p = calloc(1, sizeof **p);
	if (!*p || num_headers)
		abort();
	snprintf((*p)->name, sizeof(*p)->name, "%s", name);
	snprintf((*p)->source, sizeof(*p)->source, "%s", source);
	return 0;
}

int hiprtcCompileProgram(struct program *p, int num_options, const char *const *options)
{
	static const char offload[] = "--offload-arch=";
	const char *arch = "", *kernel = strstr(p->source, "kernel ");
	for (int i = 0; i < num_options; i++)
		if (!strncmp(options[i], offload, sizeof offload - 1))
			arch = options[i] + sizeof offload - 1;
	if (strcmp(arch, "gfx90a") && strcmp(arch, "gfx942"))
		abort();
	if (!strcmp(p->source, "\n"))
		return 0;
	if (!strstr(p->source, "#define __syncthreads_or ")) { /* a header in front has it */
		snprintf(p->log, sizeof p->log, "redefinition of '__syncthreads_or'");
		return ERROR_COMPILATION;
	}
	if (strstr(p->name, "/kernels/gpu/") || strstr(p->name, "/harness/"))
		return fibers_compile(p->code, sizeof p->code, p->log, sizeof p->log, p->name, arch,
				      num_options, options)
			   ? 0
			   : ERROR_COMPILATION;
	if (!kernel || strstr(p->source, "#error")) {
		snprintf(p->log, sizeof p->log, "1 error generated for %s", arch);
		return ERROR_COMPILATION;
	}
	snprintf(p->code, sizeof p->code, "code for %s: %.*s", arch,
		 (int)strcspn(kernel + 7, " \n"), kernel + 7);
	return 0;
}

int hiprtcGetProgramLogSize(const struct program *p, size_t *n)
{
	*n = strlen(p->log) + 1;
	return 0;
}

int hiprtcGetProgramLog(const struct program *p, char *log)
{
	strcpy(log, p->log);
	return 0;
}

int hiprtcGetCodeSize(const struct program *p, size_t *n)
{
	*n = sizeof p->code;
	return 0;
}

int hiprtcGetCode(const struct program *p, char *code)
{
	memcpy(code, p->code, sizeof p->code);
	return 0;
}

int hiprtcDestroyProgram(struct program **p)
{
	free(*p);
	*p = NULL;
	return 0;
}

const char *hiprtcGetErrorString(int error)
{
	return error == ERROR_COMPILATION ? "a compilation error" : "an error of the stand-in";
}
