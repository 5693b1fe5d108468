/* SPDX-License-Identifier: Apache-2.0 */
/* allocations.h - the emulated GPU's memory: the host's, between pages that nobody may touch. */
#ifndef TESTS_SIMT_ALLOCATIONS_H
#define TESTS_SIMT_ALLOCATIONS_H

#include <stddef.h>
#include <stdint.h>

struct allocation;

void *allocation_add(struct allocation **list, size_t bytes); /* NULL: no memory */
void allocation_remove(struct allocation **list, void *memory);
void *allocation_first(const struct allocation *list);
/* The allocation that contains an address; 0: none. */
int allocation_find(const struct allocation *list, uintptr_t address, uintptr_t *begin,
		    uintptr_t *end);

#endif
