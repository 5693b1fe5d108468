/* show.h - the answers of `attune show`, by file. */
#ifndef SHOW_H
#define SHOW_H

#include "peers.h"

enum show_what { SHOW_SCENARIO, SHOW_WHY, SHOW_BEST, SHOW_PEERS, SHOW_KERNELS, SHOW_CEILINGS };

struct show {
	const char *gpu, *db, *header, *model, *batch, *peers;
	int page_size; /* 0: any */
	enum phase phase;
	enum show_what what;
	enum format format;
};

/* All return 0 without memory. */
/* ways.c: what was measured of a scenario. 0 + complain, too, where it has not the part asked for. */
int show_ways(const struct data *, const struct show *, int scenario);
/* why.c: the path through the trees, the actions, the runners-up, what to expect. The
 * scenario is the batch's index in the data, -1 when it was never measured. */
int show_why(const struct data *, const struct forest *, const struct measured *, int scenario,
	     enum format);
/* lists.c: every scenario (of a model, unless NULL), those that others have times of, and every
 * kernel. */
int show_best(const struct data *, const struct forest *, const char *model, enum format);
int show_peers(const struct data *, const struct forest *, const struct peers *, const char *model,
	       enum format);
int show_kernels(const char *gpu, enum format);

/* bench_roofline.c: what the newest `attune bench --roofline` has measured; an exit code. */
int show_ceilings(const char *db, const char *gpu, enum format);

/* "segmented BLOCK_M=16 ..." */
void choice_words(const struct choice *, char text[MAX_CHOICE_TEXT]);
/* The same of what a leaf says. */
void says_words(const struct forest *, enum decision, int action, char text[MAX_CHOICE_TEXT]);

#endif
