/* peers.h - times of other projects' kernels, which raced as plug-ins (harness/plugin) on the same
 * batches in the same rounds. Nothing is learned from them. */
#ifndef TUNER_COMPARE_PEERS_H
#define TUNER_COMPARE_PEERS_H

#include "kernels/attune.h"
#include "tuner/base/base.h"

struct measured;
struct peer_time;

enum { MAX_PEERS = 12 };

struct peers {
	struct peer_time {
		char *model, *batch;
		int page_size, peer; /* peer: of name[] */
		enum attune_dtype kv_dtype;
		double us, ci_us; /* ci_us: half of the median's 95 % interval */
	} * v;
	int n, room;
	char name[MAX_PEERS][32]; /* in the order of the database */
	char version[MAX_PEERS][52];
	int e4m3_math[MAX_PEERS]; /* over an E4M3 cache it rounds q and weights to E4M3 */
	int num_names;
	char protocol[32]; /* of the database */
};

/* The path of a race with plug-ins: `given`, else results/NAME_peers.sqlite. */
void peers_path(char path[PATH_TEXT], const char *given, const char *gpu);
/* Reads the kernels of plug-ins from a database, whether they are loaded or not. 0 + complain. */
int peers_load(struct peers *, const char *gpu, const char *db);
void peers_free(struct peers *);
/* The fastest time of a peer (-1: of all): one launch over the batch, its prefills and its decodes
 * in turn, or both at a time. NULL: there is none. */
const struct peer_time *peers_fastest(const struct peers *, const struct measured *, int peer);

#endif
