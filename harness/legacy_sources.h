/* legacy_sources.h - what old hashes of sources stand for (legacy_sources.def). */
#ifndef ATTUNE_LEGACY_SOURCES_H
#define ATTUNE_LEGACY_SOURCES_H
#include "../kernels/kernel.h"

struct legacy_source {
	const char *hash;
	/* The kernel's and then its helpers' names and identities; NULL ends them. */
	const char *binary[2 * (1 + NUM_HELPERS) + 1];
};

/* 1: the hash is of one choice, part[0]. 2: of a plan's prefill and decode parts. 0: not known. */
int legacy_sources(const char *hash, const struct legacy_source *part[2]);

#endif
