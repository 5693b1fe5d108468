/* compile.h - between jit.c, which keeps binaries, and compile.c, which makes them. */
#ifndef COMPILE_H
#define COMPILE_H

#include "harness.h"
#include <limits.h>

enum { COMPILED, REFUSED, IMPOSSIBLE }; /* as jit_compile returns them */

/* One compilation. */
struct job {
	const char *source, *flags, *arch;
	char folder[PATH_MAX]; /* of the source */
	char made[PATH_MAX];   /* where the compiler is to leave its result */
	char *log;             /* what the compiler said */
};

struct compiler {
	const char *name, *extension, *suffix;
	const char *(*version)(void); /* all that tells it from others; "": none here */
	const char *(*title)(void);   /* "cc 12.2.0" */
	int (*compile)(struct job *);
};

extern const struct compiler compilers[2];                     /* by enum backend */
const char *cc_command(void);                                  /* CC, else cc */
int write_file(const char *path, const void *bytes, size_t n); /* 0 + complain */

#endif
