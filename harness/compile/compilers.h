/* compilers.h - between jit.c, which keeps binaries, and compile.c, clang.c and rtc.c, which make
 * them with process.c. */
#ifndef HARNESS_COMPILE_COMPILERS_H
#define HARNESS_COMPILE_COMPILERS_H

#include "kernels/kernel.h"
#include <limits.h>
#include <stdio.h>

enum { COMPILED, REFUSED, IMPOSSIBLE }; /* as jit_compile returns them */

/* One compilation. */
struct job {
	const char *source, *root, *flags, *arch; /* root: the kernels folder, or NULL */
	char entry[ENTRY_TEXT];                   /* what the source's ENTRY is to be named */
	char folder[PATH_MAX];                    /* of the source */
	char made[PATH_MAX];                      /* where the compiler is to leave its result */
	char *log;                                /* what the compiler said */
};

struct compiler {
	const char *name, *extension;
	const char *arch;                         /* how names of what it compiles for begin */
	const char *suffix;                       /* of its binaries */
	const char *(*version)(const char *arch); /* all that tells it from others; "": none here */
	const char *(*title)(const char *arch);   /* "cc 12.2.0" */
	int (*compile)(struct job *);
};

/* In the order in which they are asked whether a source is theirs, and whether they are here. */
enum { CC, CLANG, HIPRTC, NVRTC, NUM_COMPILERS };
extern const struct compiler compilers[NUM_COMPILERS];
const char *cc_command(void); /* CC, else cc */

/* clang.c. HIPCC in the environment names the one to take; empty: none. */
const char *clang_version(const char *arch), *clang_title(const char *arch);
int clang_compile(struct job *);

/* rtc.c */
const char *nvrtc_version(const char *arch), *hiprtc_version(const char *arch);
int nvrtc_compile(struct job *), hiprtc_compile(struct job *);

/* ---- process.c: child processes ---------------------------------------------------------------- */

enum { MAX_WORDS = 64 };
struct words { /* of a command line; freed by words_free */
	char *v[MAX_WORDS + 1];
	int n, lost; /* lost: one had no room or no memory */
};
__attribute__((format(printf, 2, 3))) void word(struct words *, const char *format, ...);
void split(struct words *, const char *text); /* at blanks */
void words_free(struct words *);
/* The program's wait status, or -1 with errno; *output is all it wrote, to be freed. */
int run_words(const struct words *, char **output);
/* What such a program comes to that compiles; its words are the job's log. */
int run_compiler(const struct words *, struct job *, const char *command);
char *read_all(int fd);                                        /* to be freed */
void *read_file(const char *path, size_t *size);               /* jit.c; to be freed */
int write_file(const char *path, const void *bytes, size_t n); /* 0 + complain */

/* cache_trim.c */
void cache_trim(const char *root);

#endif
