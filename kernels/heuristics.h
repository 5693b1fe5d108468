/* heuristics.h - the generated headers as a table, one row a GPU. */
#ifndef ATTUNE_HEURISTICS_H
#define ATTUNE_HEURISTICS_H

#include "device.h"

struct heuristic_row { /* of CHOICES: kernel and tunables; of BINARIES: kernel and flags */
	const char *kernel, *text;
};

struct heuristic {
	const char *gpu, *arch;
	unsigned long long kernels_hash;
	const struct heuristic_row *choices, *binaries;
	int num_choices, num_binaries;
	/* ids of choices; join: 0 one launch, 1 prefill then decode */
	int (*prefill)(const struct attune_features *);
	int (*decode)(const struct attune_features *);
	int (*join)(const struct attune_features *);
};

extern const struct heuristic attune_heuristics[];
extern const int attune_num_heuristics;

/* The device's own heuristic, else one of the same architecture, else NULL. */
const struct heuristic *heuristic_for(const struct device_info *);
/* A header made from other .def tables than these names what may not exist. */
int heuristic_is_stale(const struct heuristic *);

#endif
