/* peers.h - what kernels of others take on batches that are measured here, too: figures from
 * elsewhere, in a file, beside the pictures only. */
#ifndef PEERS_H
#define PEERS_H

#include "tuner.h"

enum { MAX_PEERS = 6, MAX_PEER_TIMES = 200 };

struct peers {
	struct peer_time {
		char model[32], batch[64];
		int page_size, peer; /* peer: of name[] */
		double us;
	} v[MAX_PEER_TIMES];
	int n;
	char name[MAX_PEERS][40]; /* in the order of the file */
	int num_names;
	char protocol[60]; /* of all rows */
};

/* From `path`; NULL: scenarios/peers_<gpu>.tsv, or none when that is not there. 0 + complain,
 * with the line, when it is not as its first line says. */
int peers_load(struct peers *, const char *gpu, const char *path);
/* Us of a peer; NaN: the file does not say. */
double peers_time(const struct peers *, const struct measured *, int peer);

#endif
