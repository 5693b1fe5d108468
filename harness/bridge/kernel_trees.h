/* kernel_trees.h - kernels folders of other versions: folders, and git revisions. A revision is
 * extracted below cache_root() when it is needed, and stays there. */
#ifndef HARNESS_BRIDGE_KERNEL_TREES_H
#define HARNESS_BRIDGE_KERNEL_TREES_H

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

#endif
