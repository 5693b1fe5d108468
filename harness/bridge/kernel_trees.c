/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_trees.c - finds and extracts kernels folders of other versions. */
#include "bridge.h"
#include "harness/base/base.h"
#include "harness/compile/compile.h"
#include "harness/compile/compilers.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- git --------------------------------------------------------------------------------- */

/* The output of a program, to be freed; NULL: it failed. */
__attribute__((format(printf, 2, 3))) static char *output_of(struct words *w, const char *last, ...)
{
	char *output = NULL, *text = NULL;
	va_list ap;
	va_start(ap, last);
	const int n = vasprintf(&text, last, ap);
	va_end(ap);
	if (n >= 0)
		word(w, "%s", text);
	const int status = n < 0 || w->lost ? -1 : run_words(w, &output);
	words_free(w);
	free(text);
	if (status == 0 && output)
		return output;
	free(output);
	return NULL;
}

/* A git command, run in the repository of today's kernels. */
static struct words git(const char *command)
{
	struct words w = { 0 };
	word(&w, "git");
	word(&w, "-C");
	word(&w, "%s", source_root() ? source_root() : ".");
	split(&w, command);
	return w;
}

static char *first_line(char *text)
{
	if (text)
		text[strcspn(text, "\n")] = '\0';
	return text;
}

/* ---- listing trees ------------------------------------------------------------------------- */

static int add(struct trees *t, const char *name, char *git_id, char *root)
{
	struct tree *more = realloc(t->v, (size_t)(t->n + 1) * sizeof *more);
	char *copy = strdup(name);
	t->v = more ? more : t->v;
	if (more && copy) {
		t->v[t->n++] = (struct tree){ copy, git_id, root };
		return 1;
	}
	complain("out of memory");
	free(copy);
	free(git_id);
	free(root);
	return 0;
}

static int is_known(const struct trees *t, const char *git_id)
{
	for (int i = 0; i < t->n; i++)
		if (t->v[i].git && !strcmp(t->v[i].git, git_id))
			return 1;
	return 0;
}

static int add_revision(struct trees *t, const char *revision)
{
	struct words w = git("rev-parse --verify --quiet");
	char *id = first_line(output_of(&w, "%s:./", revision));
	if (!id) {
		complain("--from %s: neither a folder nor a revision of git that has the kernels",
			 revision);
		return 0;
	}
	if (!is_known(t, id))
		return add(t, revision, id, NULL);
	free(id);
	return 1;
}

static int has_kernels(const char *folder, const char *below, char root[PATH_MAX])
{
	char path[PATH_MAX];
	return snprintf(path, sizeof path, "%s%s/kernels.def", folder, below) < (int)sizeof path &&
	       access(path, R_OK) == 0 && realpath(path, root) != NULL;
}

int trees_add(struct trees *t, const char *name)
{
	char root[PATH_MAX];
	struct stat s;
	if (stat(name, &s) || !S_ISDIR(s.st_mode))
		return add_revision(t, name);
	if (!has_kernels(name, "/kernels", root) && !has_kernels(name, "", root)) {
		complain("--from %s: this folder has no kernels: name one that has kernels/ in it",
			 name);
		return 0;
	}
	*strrchr(root, '/') = '\0';
	char *own = strdup(root);
	return add(t, name, NULL, own);
}

int trees_add_history(struct trees *t)
{
	struct words w = git("log --format=%H --");
	char *list = output_of(&w, "."), *rest = list, *commit;
	int ok = list && *list;
	if (!ok)
		complain("%s is in no repository of git; name trees with --from",
			 source_root() ? source_root() : "the kernels folder");
	while (ok && (commit = strsep(&rest, "\n")))
		if (*commit)
			ok = add_revision(t, commit);
	free(list);
	return ok;
}

/* ---- extracting --------------------------------------------------------------------------- */

static void remove_folder(const char *folder)
{
	struct words w = { 0 };
	split(&w, "rm -rf --");
	free(output_of(&w, "%s", folder));
}

/* Extracts the tree into a new folder. git archives a tree only from outside of the work tree. */
static int extract(const struct tree *t, const char *folder)
{
	char archive[PATH_MAX];
	struct words find = git("rev-parse"), pack = { 0 }, unpack = { 0 };
	char *repository = first_line(output_of(&find, "--absolute-git-dir"));
	snprintf(archive, sizeof archive, "%.*s/archive.tar", PATH_MAX - 16, folder);
	if (!repository || mkdir(folder, 0777)) {
		complain("%s: cannot be created: %s", folder, strerror(errno));
		free(repository);
		return 0;
	}
	word(&pack, "git");
	word(&pack, "--git-dir=%s", repository);
	split(&pack, "archive --format=tar");
	word(&pack, "--output=%s", archive);
	char *packed = output_of(&pack, "%s", t->git), *unpacked = NULL;
	if (packed) {
		split(&unpack, "tar -x -f");
		word(&unpack, "%s", archive);
		word(&unpack, "-C");
		unpacked = output_of(&unpack, "%s", folder);
	}
	const int ok = packed && unpacked && unlink(archive) == 0;
	if (!ok)
		complain("%s: cannot be extracted: needs git and tar, and room in %s", t->name,
			 cache_root());
	free(packed);
	free(unpacked);
	free(repository);
	return ok;
}

static int fetch(struct tree *t)
{
	char folder[PATH_MAX], fresh[PATH_MAX];
	if (!cache_root())
		return 0;
	snprintf(folder, sizeof folder, "%.*s/trees", PATH_MAX - 128, cache_root());
	mkdir(folder, 0777);
	snprintf(folder, sizeof folder, "%.*s/trees/%.64s", PATH_MAX - 128, cache_root(), t->git);
	snprintf(fresh, sizeof fresh, "%.*s.%d", PATH_MAX - 32, folder, (int)getpid());
	if (access(folder, R_OK) && (!extract(t, fresh) || rename(fresh, folder)))
		remove_folder(fresh);
	if (access(folder, R_OK) == 0)
		t->root = strdup(folder);
	return t->root != NULL;
}

const char *tree_root(struct tree *t)
{
	return t->root || fetch(t) ? t->root : NULL;
}

void trees_free(struct trees *t)
{
	for (int i = 0; i < t->n; i++) {
		free(t->v[i].name);
		free(t->v[i].git);
		free(t->v[i].root);
	}
	free(t->v);
	*t = (struct trees){ 0 };
}
