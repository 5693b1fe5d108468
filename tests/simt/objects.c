/* SPDX-License-Identifier: Apache-2.0 */
/* objects.c - implements objects.h. */
#include "objects.h"
#include "harness/base/base.h"
#include "harness/compile/compile.h"
#include <stdio.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

extern char **environ;

enum { MAX_WORDS = 80 };

/* object.cc includes the kernel's text. No contraction, so sums follow the text; aliasing as in
 * nvcc; C's headers, and of libraries only what the program has, which together take half of the
 * time. A GPU faults on misaligned accesses, and so does this. */
static const char options[] =
    "-std=c++17 -nostdinc++ -nostdlib -O1 -g1 -fPIC -shared -w -Wno-psabi "
    "-fno-exceptions -fno-strict-aliasing -ffp-contract=off"
    " -fsanitize=alignment -fsanitize-undefined-trap-on-error"
#ifdef SIMT_SANITIZE
    " -fsanitize=bounds,undefined"
#endif
    ;

const char *simt_folder(void)
{
	static char path[SIMT_PATH / 2];
	if (!*path) {
		const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 8);
		char *slash = n > 0 ? strrchr(path, '/') : NULL;
		strcpy(slash ? slash : path, slash ? "/simt" : "simt");
	}
	return path;
}

/* The folder of these files. */
static const char *dialect(void)
{
	static char path[SIMT_PATH];
	snprintf(path, sizeof path, "%s/../tests/simt/text",
		 source_root() ? source_root() : "kernels");
	return path;
}

static const char *compiler(void)
{
	const char *cxx = getenv("CXX");
	return cxx && *cxx ? cxx : "c++";
}

static int feed_source(XXH3_state_t *hash, const char *path)
{
	char identity[33];
	return source_identity_of(path, source_root(), identity) &&
	       XXH3_128bits_update(hash, identity, sizeof identity) == XXH_OK;
}

static int feed_dialect(XXH3_state_t *hash)
{
	static const char *const files[] = { "object.cc", "cuda.h", "hip.h", "gpu_emulated.h" };
	char path[SIMT_PATH + 20];
	for (size_t i = 0; i < COUNT(files); i++) {
		snprintf(path, sizeof path, "%s/%s", dialect(), files[i]);
		if (!feed_source(hash, path))
			return 0;
	}
	return 1;
}

void simt_object(struct simt_object *o, const char *source, const char *flags)
{
	const char *const said[] = { compiler(), options, flags };
	XXH3_state_t *hash = XXH3_createState();
	snprintf(o->source, sizeof o->source, "%s%s%s", *source == '/' ? "" : simt_folder(),
		 *source == '/' ? "" : "/", source);
	snprintf(o->flags, sizeof o->flags, "%s", flags);
	XXH3_128bits_reset(hash);
	for (size_t i = 0; i < COUNT(said); i++)
		XXH3_128bits_update(hash, said[i], strlen(said[i]) + 1);
	if (!feed_source(hash, o->source) || !feed_dialect(hash)) {
		printf("Bail out! %s or %s cannot be read\n", o->source, dialect());
		exit(1);
	}
	const XXH128_hash_t h = XXH3_128bits_digest(hash);
	snprintf(o->path, sizeof o->path, "%s/objects/%016llx%016llx.so", simt_folder(),
		 (unsigned long long)h.high64, (unsigned long long)h.low64);
	XXH3_freeState(hash);
}

/* ---- compilers --------------------------------------------------------------------------- */

struct words {
	char text[8 * SIMT_PATH];
	char *v[MAX_WORDS + 1];
	size_t used;
	int n;
};

/* All words of the line. */
static void add_words(struct words *w, const char *line)
{
	for (size_t n; *(line += strspn(line, " ")); line += n) {
		n = strcspn(line, " ");
		if (w->n == MAX_WORDS || w->used + n + 1 > sizeof w->text)
			abort();
		w->v[w->n++] = memcpy(w->text + w->used, line, n);
		w->used += n;
		w->text[w->used++] = '\0';
	}
	w->v[w->n] = NULL;
}

/* One word: paths may have blanks. */
static void add_word(struct words *w, const char *before, const char *path, const char *after)
{
	const size_t room = sizeof w->text - w->used;
	const int n = snprintf(w->text + w->used, room, "%s%s%s", before, path, after);
	if (w->n == MAX_WORDS || (size_t)n >= room)
		abort();
	w->v[w->n++] = w->text + w->used;
	w->v[w->n] = NULL;
	w->used += (size_t)n + 1;
}

static void temporary(char *path, const struct simt_object *o)
{
	snprintf(path, SIMT_PATH + 20, "%s.%d", o->path, (int)getpid());
}

static pid_t start(const struct simt_object *o)
{
	struct words w = { .n = 0 };
	char made[SIMT_PATH + 20];
	pid_t pid;
	temporary(made, o);
	add_words(&w, compiler());
	add_words(&w, options);
	add_words(&w, o->flags);
	add_word(&w, "-DSOURCE=\"", o->source, "\"");
	add_word(&w, "-I", dialect(), "");
	add_word(&w, "-I", simt_folder(), "");
	add_words(&w, "-o");
	add_word(&w, made, "", "");
	add_word(&w, dialect(), "", "/object.cc");
	add_words(&w, "-lgcc");
	errno = posix_spawnp(&pid, w.v[0], NULL, NULL, w.v, environ);
	if (!errno)
		return pid;
	complain("%s cannot be run: %s; CXX names a C++ compiler", w.v[0], strerror(errno));
	return -1;
}

/* Renamed when whole: two programs may make the same one. */
static int keep(const struct simt_object *o, int status)
{
	char made[SIMT_PATH + 20];
	temporary(made, o);
	if (status == 0 && rename(made, o->path) == 0)
		return 1;
	unlink(made);
	complain("%s %s: no object for the host", o->source, o->flags);
	return 0;
}

struct running {
	pid_t pid;
	const struct simt_object *object;
};

/* Waits for any of them, which leaves the list. */
static int wait_for_one(struct running *v, int *n)
{
	int status = -1;
	const pid_t pid = wait(&status);
	for (int i = 0; i < *n; i++)
		if (v[i].pid == pid || pid < 0) {
			const struct simt_object *o = v[i].object;
			v[i] = v[--*n];
			return keep(o, pid < 0 ? -1 : status);
		}
	return 1;
}

static int is_listed(const struct simt_object *v, int n, const struct simt_object *o)
{
	for (int i = 0; i < n; i++)
		if (!strcmp(v[i].path, o->path))
			return 1;
	return 0;
}

int simt_build(const struct simt_object *o, int n)
{
	enum { MOST = 64 };
	struct running v[MOST];
	cpu_set_t set;
	char folder[SIMT_PATH];
	int cores = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set), running = 0;
	int ok = 1;
	cores = cores < MOST ? cores : MOST;
	snprintf(folder, sizeof folder, "%s/objects", simt_folder());
	mkdir(folder, 0777);
	for (int i = 0; i < n; i++) {
		if (access(o[i].path, R_OK) == 0 || is_listed(o, i, &o[i]))
			continue;
		if (running == cores)
			ok &= wait_for_one(v, &running);
		v[running] = (struct running){ start(&o[i]), &o[i] };
		if (v[running].pid > 0)
			running++;
		else
			ok = 0;
	}
	while (running)
		ok &= wait_for_one(v, &running);
	return ok;
}
