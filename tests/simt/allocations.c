/* SPDX-License-Identifier: Apache-2.0 */
/* allocations.c - implements allocations.h. */
#include "allocations.h"
#include "simt.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096 };

struct allocation {
	char *map;
	size_t mapped, used;
	char *memory;
	struct allocation *next;
};

/* |no access| poison .. memory |no access|: memory ends at the page. Kernels copy 16 bytes at a
 * time, so memory begins at a multiple of 16. */
void *allocation_add(struct allocation **list, size_t bytes)
{
	struct allocation *a = calloc(1, sizeof *a);
	const size_t used = (bytes + 15) / 16 * 16, pages = (used + PAGE - 1) / PAGE * PAGE;
	if (!a)
		return NULL;
	a->mapped = pages + 2 * PAGE;
	a->map =
	    mmap(NULL, a->mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (a->map == MAP_FAILED || mprotect(a->map + PAGE, pages, PROT_READ | PROT_WRITE)) {
		free(a);
		return NULL;
	}
	a->used = used;
	a->memory = a->map + PAGE + pages - used;
	memset(a->map + PAGE, SIMT_POISON, pages);
	a->next = *list;
	*list = a;
	return a->memory;
}

void allocation_remove(struct allocation **list, void *memory)
{
	for (struct allocation **a = list; *a; a = &(*a)->next)
		if ((*a)->memory == memory) {
			struct allocation *gone = *a;
			*a = gone->next;
			munmap(gone->map, gone->mapped);
			free(gone);
			return;
		}
}

void *allocation_first(const struct allocation *list)
{
	return list->memory;
}

int allocation_find(const struct allocation *list, uintptr_t address, uintptr_t *begin,
		    uintptr_t *end)
{
	for (; list; list = list->next) {
		*begin = (uintptr_t)list->memory;
		*end = *begin + list->used;
		if (address >= *begin && address < *end)
			return 1;
	}
	return 0;
}
