/* kernel_trees.h - kernels folders of other versions: folders, and revisions of git, which are extracted
 * below cache_root() when they are needed and stay there. */
#ifndef HARNESS_BRIDGE_KERNEL_TREES_H
#define HARNESS_BRIDGE_KERNEL_TREES_H


struct tree {
	char *name; /* as asked for: a folder, a revision, a commit's hash */
	char *git;  /* the folder's id in git; NULL of a folder */
	char *root; /* the kernels folder; NULL: not extracted yet */
};
struct trees {
	struct tree *v;
	int n;
};

/* A folder that has kernels/ in it or is such a folder, else a revision. 0 + complain. */
int trees_add(struct trees *, const char *folder_or_revision);
/* All commits that touch the kernels, the newest first. 0 + complain. */
int trees_add_history(struct trees *);
/* The kernels folder of a tree, extracted where need be; NULL + complain. */
const char *tree_root(struct tree *);
void trees_free(struct trees *);

#endif
