/* peers.h - what kernels of others take on batches that are measured here, too: figures from
 * elsewhere, in a file, that nothing is learned from. */
#ifndef TUNER_COMPARE_PEERS_H
#define TUNER_COMPARE_PEERS_H

struct measured;
struct peer_time;


enum { MAX_PEERS = 9, MAX_PEER_TIMES = 400 };

struct peers {
	struct peer_time {
		char model[32], batch[512], protocol[24];
		int page_size, peer; /* peer: of name[] */
		double us;
	} v[MAX_PEER_TIMES];
	int n;
	char name[MAX_PEERS][40]; /* in the order of the file */
	int num_names;
};

/* From `path`; NULL: scenarios/peers_<gpu>.tsv, or none when that is not there. 0 + complain,
 * with the line, when it is not as its first line says. */
int peers_load(struct peers *, const char *gpu, const char *path);
/* The fastest line of a peer, or with peer -1 of all, whatever its protocol; NULL: the file has
 * none, or the scenario has a cache of another kind than theirs. */
const struct peer_time *peers_fastest(const struct peers *, const struct measured *, int peer);

#endif
