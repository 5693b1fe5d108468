/* random.c - seeded random numbers for the contents of workloads. */
#include "harness/base/base.h"
#include "fill.h"
#include "workload.h"
#include <stdlib.h>

unsigned long long next_random(unsigned long long *state)
{
	return random_bits(state);
}

int32_t *permutation(int n, unsigned long long seed)
{
	unsigned long long state = fill_mix(seed);
	int32_t *v = malloc(((size_t)n + 1) * sizeof *v);
	for (int i = 0; v && i < n; i++) {
		/* high half x (i + 1) >> 32: uniform below i + 1 */
		const int j = (int)((next_random(&state) >> 32) * ((unsigned)i + 1) >> 32);
		v[i] = v[j];
		v[j] = i;
	}
	return v;
}
