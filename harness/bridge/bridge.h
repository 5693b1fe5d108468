/* SPDX-License-Identifier: Apache-2.0 */
/* bridge.h - shared by the files of `attune merge --bridge`:
 *
 *   bridge_cmd.c    the command, and its table
 *   bridge.c        sources that are not today's, their flags, where their text is, and bridges by equal code
 *   kernel_trees.c  kernels folders of other versions
 *   machine_code.c  the parts of a binary that affect execution
 *   store_bridge.c  the tables */
#ifndef HARNESS_BRIDGE_BRIDGE_H
#define HARNESS_BRIDGE_BRIDGE_H

#include "kernels/spec/choice.h"

struct store;

/* ---- kernel_trees.c: kernels folders of other versions: folders, and git revisions. A revision is
 * extracted below cache_root() when it is needed, and stays there. ---- */
struct tree {
	char *name; /* as given: a folder, a revision, a commit's hash */
	char *git;  /* the folder's id in git; NULL of a folder */
	char *root; /* the kernels folder; NULL: not extracted yet */
};
struct trees {
	struct tree *v;
	int n;
};

/* Adds a folder, which has kernels/ in it or is a kernels folder, or a revision. 0 + complain. */
int trees_add(struct trees *, const char *folder_or_revision);
/* Adds all commits that touch the kernels, the newest first. 0 + complain. */
int trees_add_history(struct trees *);
/* The kernels folder of a tree, extracted if needed; NULL + complain. */
const char *tree_root(struct tree *);
void trees_free(struct trees *);

/* ---- bridge_cmd.c -------------------------------------------------------------- */
int cmd_bridge(int argc, char **argv);

/* The result of comparing an old source's code with today's, for one set of flags. */
enum equality {
	NOT_COMPARED,
	EQUAL,
	DIFFERENT,
	NEW_REFUSED, /* today's source does not compile with these flags */
	OLD_REFUSED
};
struct flag_set {
	char *flags;
	enum equality is;
};

/* A build of the database that has the source; for a helper, a build of its user. */
struct old_build {
	char *flags; /* "": plans */
	long long rows;
	int *set, sets; /* indices of the flag sets of the source's own binaries */
};

struct old_source {
	char name[64], identity[64], today[33];
	const struct kernel *kernel; /* NULL: no kernel has that name today */
	char arch[CODE_ARCH];
	const char *root; /* a kernels folder that has the source; NULL: none found */
	const char *tree; /* the name of that tree */
	long long rows;
	struct old_build *build;
	struct flag_set *set;
	int builds, sets;
};

struct bridges {
	struct store *store;
	const char *db, *gpu;
	char commit[48];
	enum backend backend;
	struct old_source *v; /* sorted, most rows first */
	int n;
};

/* Lists the database's sources that are not today's. 0 + complain. */
int bridges_read(struct bridges *);
/* Finds each source's text in the trees, in their order. Extracts trees until all is found.
 * 0 + complain. */
int bridges_find(struct bridges *, struct trees *);
void bridges_free(struct bridges *);

/* The result for a source. */
struct finding {
	int compared;       /* 0: nothing else is known but `result` */
	int equal, refused; /* flag sets; refused: today's source does not compile */
	long long bridged;  /* rows that are no longer stale */
	const char *result;
};

/* Compares machine code, and stores bridges where it is equal. 0: interrupted, no compiler, or
 * storing failed. */
int bridge_by_code(struct bridges *, struct old_source *, struct finding *);

#endif
