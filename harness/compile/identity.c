/* identity.c - computes the identity of a source: a hash of its tokens and of the tokens of our
 * files that it includes, in preprocessor order. Sources with the same identity compile to the
 * same code except for line numbers and file names.
 *
 *   - `#include "x"` is replaced by the tokens of x. If x is not found, or includes itself
 *     without a guard, the directive itself is hashed.
 *   - `#include <x>` is skipped: the cache key holds the toolkit's version.
 *   - Conditionals are not evaluated. They are hashed with all their branches.
 *   - A file is read again unless it was certainly read before: always without a guard; with
 *     a guard, if the branch of the earlier include does not enclose this one.
 *   - Blanks are skipped, even between tokens that a macro turns into a string. */
#include "compile.h"
#include "tokens.h"
#include "harness/base/base.h"
#include "kernels/attune_plugin.h"
#include "kernels/spec/kernel.h"
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

enum { MAX_BRANCHES = 256 };

/* The state of one hash. */
struct stream {
	const char *root;
	XXH3_state_t *hash;
	int failed;
	/* Numbers of the branches that enclose the next token; branch 0 is the whole source. */
	int branch[MAX_BRANCHES], depth, last_branch;
	/* Guarded files and the branches that included them. */
	struct entered {
		char *path;
		int branch;
	} * entered;
	size_t num_entered;
};

/* The chain of including files, innermost first. */
struct above {
	const char *path;
	const struct above *up;
};

static void emit(struct stream *s, const char *token)
{
	s->failed |= XXH3_128bits_update(s->hash, token, strlen(token) + 1) != XXH_OK;
}

static void follow_branch(struct stream *s, const char *directive)
{
	const int step = directive_depth(directive);
	s->depth += step > 0 || s->depth > 0 ? step : 0;
	if (s->depth == MAX_BRANCHES) {
		s->failed = 1;
		s->depth = 0;
	}
	if (s->depth && (step > 0 || !strncmp(directive, "el", 2)))
		s->branch[s->depth] = ++s->last_branch;
}

static int was_read(const struct stream *s, const char *path)
{
	for (size_t i = 0; i < s->num_entered; i++)
		for (int b = 0; b <= s->depth; b++)
			if (s->branch[b] == s->entered[i].branch &&
			    !strcmp(s->entered[i].path, path))
				return 1;
	return 0;
}

static void note_read(struct stream *s, const char *path)
{
	struct entered *more = realloc(s->entered, (s->num_entered + 1) * sizeof *more);
	char *copy = strdup(path);
	s->entered = more ? more : s->entered;
	if (!more || !copy) {
		free(copy);
		s->failed = 1;
		return;
	}
	s->entered[s->num_entered++] =
	    (struct entered){ .path = copy, .branch = s->branch[s->depth] };
}

static int enter(struct stream *s, const char *path, const struct above *up);

/* Searches as compilers do: the folder of the including file, then the root. */
static int enter_included(struct stream *s, const char *quoted, const struct above *up)
{
	char path[2 * PATH_MAX];
	const int length = (int)strcspn(quoted + 1, "\"");
	const int is_absolute = quoted[1] == '/';
	const int folder = is_absolute ? 0 : (int)(strrchr(up->path, '/') + 1 - up->path);
	snprintf(path, sizeof path, "%.*s%.*s", folder, up->path, length, quoted + 1);
	const int read = enter(s, path, up);
	if (read || is_absolute || !s->root)
		return read > 0;
	snprintf(path, sizeof path, "%s/%.*s", s->root, length, quoted + 1);
	return enter(s, path, up) > 0;
}

static const char *behind_directive(const char *at)
{
	while (strcmp(at, TOKEN_END))
		at = token_after(at);
	return token_after(at);
}

/* Returns the next token to read. */
static const char *read_directive(struct stream *s, const char *at, const struct above *here)
{
	const char *name = token_after(at);
	if (!strcmp(name, "include")) {
		const char *what = token_after(name);
		if (*what == '<' || (*what == '"' && enter_included(s, what, here)))
			return behind_directive(at);
	}
	if (!strcmp(name, "pragma") && !strcmp(token_after(name), "once")) {
		note_read(s, here->path);
		return behind_directive(at);
	}
	follow_branch(s, name);
	emit(s, at);
	return name;
}

/* 0: the file cannot be read; -1: it includes itself. */
static int enter(struct stream *s, const char *path, const struct above *up)
{
	char real[PATH_MAX];
	const struct above here = { real, up };
	struct token_file f;
	const int depth = s->depth;
	errno = 0;
	if (!realpath(path, real)) {
		s->failed |= errno == ENOMEM;
		return 0;
	}
	if (was_read(s, real))
		return 1;
	for (const struct above *a = up; a; a = a->up)
		if (!strcmp(a->path, real))
			return -1;
	if (!file_tokens(&f, real)) {
		s->failed |= errno == ENOMEM;
		return 0;
	}
	if (f.guarded)
		note_read(s, real);
	for (const char *at = f.begin; at < f.end;)
		if (strcmp(at, TOKEN_DIRECTIVE)) {
			emit(s, at);
			at = token_after(at);
		} else {
			at = read_directive(s, at, &here);
		}
	s->depth = depth;
	free(f.text);
	return 1;
}

static void print_hash(char hex[33], XXH128_hash_t h)
{
	snprintf(hex, 33, "%016llx%016llx", (unsigned long long)h.high64,
		 (unsigned long long)h.low64);
}

void hash_text(char hex[33], const struct XXH3_state_s *state)
{
	print_hash(hex, XXH3_128bits_digest(state));
}

void hash_of_bytes(char hex[33], const void *bytes, size_t n)
{
	print_hash(hex, XXH3_128bits(bytes, n));
}

int source_identity_of(const char *path, const char *root, char hex[33])
{
	struct stream s = { .root = root, .hash = XXH3_createState() };
	const int ok = s.hash && XXH3_128bits_reset(s.hash) == XXH_OK &&
		       enter(&s, path, NULL) > 0 && !s.failed;
	if (ok)
		hash_text(hex, s.hash);
	if (s.failed) /* with a wrong identity its rows would be taken for those of another source */
		output_lost();
	for (size_t i = 0; i < s.num_entered; i++)
		free(s.entered[i].path);
	free(s.entered);
	XXH3_freeState(s.hash);
	return ok;
}

/* A plug-in says itself when its code is another: it has no source here. */
static int identity_of_plugin(const attune_plugin *p, char hex[33])
{
	char text[PATH_MAX];
	const int n = snprintf(text, sizeof text, "plug-in %s %s", p->name, p->version);
	hash_of_bytes(hex, text, n < (int)sizeof text ? (size_t)n : sizeof text);
	return 1;
}

static int identity_of_kernel(const struct kernel *k, char hex[33])
{
	char path[PATH_MAX + 256];
	if (k->plugin)
		return identity_of_plugin(k->plugin, hex);
	if (!source_root() || !kernel_path(path, sizeof path, k, source_root()))
		return 0;
	return source_identity_of(path, source_root(), hex);
}

/* Cached: sources do not change while the program runs, and many rows need the same one. */
int source_identity(const struct kernel *k, char hex[33])
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct {
		const struct kernel *kernel;
		char hex[33];
	} known[64];
	size_t i = 0;
	if (k != kernel_find(k->backend, k->name))
		return identity_of_kernel(k, hex);
	pthread_mutex_lock(&lock);
	while (i < COUNT(known) - 1 && known[i].kernel && known[i].kernel != k)
		i++;
	const int ok = known[i].kernel == k || identity_of_kernel(k, known[i].hex);
	known[i].kernel = ok ? k : NULL;
	memcpy(hex, known[i].hex, ok ? 33 : 0);
	pthread_mutex_unlock(&lock);
	return ok;
}
