/* SPDX-License-Identifier: Apache-2.0 */
/* compilers.h - the interface of a compiler to jit.c: compile.c (cc, clang), rtc.c (NVRTC and
 * hipRTC); and child processes. */
#ifndef HARNESS_COMPILE_COMPILERS_H
#define HARNESS_COMPILE_COMPILERS_H

#include "kernels/spec/choice.h"
#include <limits.h>
#include <stdio.h>

/* As jit_compile returns them; DIED: killed, or out of memory, which says nothing of the source. */
enum { COMPILED, REFUSED, IMPOSSIBLE, DIED };

/* One compilation. */
struct job {
	const char *source, *root, *flags, *arch; /* root: the kernels folder, or NULL */
	char entry[ENTRY_TEXT];                   /* name of the kernel: -DENTRY */
	char folder[PATH_MAX];                    /* of the source */
	char made[PATH_MAX];                      /* path of the result */
	char *log;                                /* the compiler's output */
	int afresh;                               /* not from the cache */
};

struct compiler {
	const char *name, *extension;
	const char *arch;                         /* prefix of its architectures */
	const char *suffix;                       /* of its binaries */
	const char *(*version)(const char *arch); /* identifies it in cache keys; "": missing */
	const char *(*title)(const char *arch);   /* "cc 12.2.0" */
	int (*compile)(struct job *);
};

/* In order of preference. */
enum { CC, CLANG, HIPRTC, NVRTC, NUM_COMPILERS };
extern const struct compiler compilers[NUM_COMPILERS];
const char *cc_command(void); /* CC, else cc */

/* rtc.c */
const char *nvrtc_version(const char *arch), *hiprtc_version(const char *arch);
/* Its name and version, also if it does not know the GPU; "": there is none. */
const char *hiprtc_here(void);
int nvrtc_compile(struct job *), hiprtc_compile(struct job *);

/* ---- process.c: child processes ------------------------------------------------------ */

enum { MAX_WORDS = 64 };
struct words { /* of a command line; freed by words_free */
	char *v[MAX_WORDS + 1];
	int n, lost; /* lost: one had no room or no memory */
};
__attribute__((format(printf, 2, 3))) void word(struct words *, const char *format, ...);
void split(struct words *, const char *text); /* at blanks */
void words_free(struct words *);
/* Returns the wait status, or -1 with errno. *output: all it wrote; the caller frees it. */
int run_words(const struct words *, char **output);
/* The same, but kills it after so many seconds: -1, with ETIMEDOUT. */
int run_words_within(const struct words *, double seconds, char **output);
/* Runs a compiler and returns how it ended. Its output is the job's log. */
int run_compiler(const struct words *, struct job *, const char *command);
char *read_all(int fd);                                        /* to be freed */
int write_file(const char *path, const void *bytes, size_t n); /* 0 + complain */

/* ---- cache.c ------------------------------------------------------------------- */
void *read_file(const char *path, size_t *size); /* to be freed; NULL: empty or unreadable */
/* Syncs `made` to the disk and renames it. 0 + complain, and `made` is removed. */
int keep_file(const char *made, const char *as);
struct binary;
/* Writes the record of a compilation. The binary's bytes are in b->blob.data; it is NULL if the
 * compiler refused the source. 0: failed. */
int record_write(const struct binary *, const struct job *, int status, const char *as);
/* Reads a record and its binary. COMPILED: the bytes are in b->blob.data; REFUSED: there is no
 * binary; -1: a file is missing or damaged. */
int record_read(struct binary *, const char *txt, const char *binary);

void cache_trim(const char *root);

#endif
