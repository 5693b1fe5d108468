/* compile.h - between jit.c, which keeps binaries, and compile.c and rtc.c, which make them. */
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
	const char *name, *extension;
	const char *arch;             /* how names of what it compiles for begin */
	const char *suffix;           /* of its binaries */
	const char *(*version)(void); /* all that tells it from others; "": none here */
	const char *(*title)(void);   /* "cc 12.2.0" */
	int (*compile)(struct job *);
};

/* In the order in which they are asked whether a source is theirs. */
enum { CC, HIPRTC, NVRTC, NUM_COMPILERS };
extern const struct compiler compilers[NUM_COMPILERS];
const char *cc_command(void); /* CC, else cc */

/* rtc.c */
const char *nvrtc_version(void), *hiprtc_version(void);
int nvrtc_compile(struct job *), hiprtc_compile(struct job *);

/* ---- of compile.c, for rtc.c ------------------------------------------------------------- */

enum { MAX_WORDS = 64 };
struct words { /* of a command line; freed by words_free */
	char *v[MAX_WORDS + 1];
	int n, lost; /* lost: one had no room or no memory */
};
__attribute__((format(printf, 2, 3))) void word(struct words *, const char *format, ...);
void split(struct words *, const char *text); /* at blanks */
void words_free(struct words *);
char *read_all(int fd);                                        /* to be freed */
int write_file(const char *path, const void *bytes, size_t n); /* 0 + complain */

#endif
