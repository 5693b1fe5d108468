/* SPDX-License-Identifier: Apache-2.0 */
/* array.c - arrays that grow. */
#include "base.h"
#include <stdlib.h>

int array_grow(void *array, int n, int *room, size_t size)
{
	void **p = array;
	if (n < *room)
		return 1;
	const int more = *room ? 2 * *room : 64;
	void *q = realloc(*p, (size_t)more * size);
	if (!q)
		return 0;
	*p = q;
	*room = more;
	return 1;
}
