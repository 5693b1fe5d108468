/* heuristics.h - the generated headers as a table, one row a GPU. */
#ifndef ATTUNE_HEURISTICS_H
#define ATTUNE_HEURISTICS_H

#include "device.h"

struct selector_row { /* of CHOICES: kernel and tunables; of BINARIES: kernel and flags */
	const char *kernel, *text;
};

struct selector {
	const char *gpu, *arch;
	unsigned long long kernels_hash;
	const struct selector_row *choices, *binaries;
	int num_choices, num_binaries;
	/* ids of choices; join: 0 one launch, 1 prefill then decode */
	int (*prefill)(const struct attune_features *);
	int (*decode)(const struct attune_features *);
	int (*join)(const struct attune_features *);
};

extern const struct selector attune_selectors[];
extern const int attune_num_selectors;

/* The device's own heuristic, else one of the same architecture, else NULL. */
const struct selector *selector_for(const struct device_info *);
/* A header made from other .def tables than these names what may not exist. */
int selector_is_stale(const struct selector *);

/* What a heuristic says of a batch: its parts, and a choice id for each; -1
 * where there is no heuristic. Whether the choice is legal and at hand is the
 * caller's to check. */
struct selection {
	int num_parts;
	struct part part[2];
	int choice[2];
};
void select_choices(struct selection *, const struct selector *, const attune_shape *,
		    const attune_batch *, const struct device_info *);
/* The same, but always prefill and decode apart. */
void select_apart(struct selection *, const struct selector *, const attune_shape *,
		  const attune_batch *, const struct device_info *);

#endif
