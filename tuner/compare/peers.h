/* peers.h - times of other projects' kernels on batches of our sets, read from a file. Nothing is
 * learned from them. */
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

/* Reads `path`; NULL: scenarios/peers_<gpu>.tsv, or nothing if that is missing. 0 + complain, with
 * the line, if a line does not match the heading. */
int peers_load(struct peers *, const char *gpu, const char *path);
/* The fastest time of a peer (-1: of all), by any protocol. NULL: the file has none, or the
 * scenario's cache is of another kind than theirs. */
const struct peer_time *peers_fastest(const struct peers *, const struct measured *, int peer);

#endif
