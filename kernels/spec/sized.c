/* SPDX-License-Identifier: Apache-2.0 */
/* sized.c - reads and writes structs of programs that know fewer or more members. */
#include "sized.h"
#include "status.h"
#include <string.h>

/* Larger than the structs of any version: a size above this is a member that nobody set. */
enum { MOST_SIZE = 4096 };

#define LAST(type, member) (offsetof(type, member) + sizeof(((type *)NULL)->member))
/* first: the struct's last member in the first release with sizes, which stays when members are
 * added; last: its last member now. A struct must not end in padding: a program of this version may
 * leave garbage there, which a later version would read as a new member. */
#define SIZED(name, first, last)                                                                \
	const struct sized name##_sized = { "attune_" #name, LAST(attune_##name, first),        \
					    sizeof(attune_##name) };                            \
	_Static_assert(LAST(attune_##name, last) == sizeof(attune_##name), "no padding at the " \
									   "end");
SIZED(shape, has_lse, sinks_dtype)
SIZED(batch, seq_lens, seq_lens)
SIZED(tensors, lse_head_stride, kv_slots)
SIZED(plan, longest, spared)
SIZED(page_lists, indices, seq_lens)
SIZED(settle_how, most_ms, most_ms)

static uint32_t size_of(const void *given)
{
	uint32_t size;
	memcpy(&size, given, sizeof size);
	return size;
}

static int is_sound(const struct sized *s, uint32_t size, const char *call)
{
	if (size >= s->first && size <= MOST_SIZE)
		return 1;
	fail(ATTUNE_INVALID, "%s: %s.size is %u: set it to sizeof(%s)", call, s->name, size,
	     s->name);
	return 0;
}

static int is_zero(const unsigned char *bytes, size_t n)
{
	while (n && !bytes[n - 1])
		n--;
	return !n;
}

const void *sized_read(const struct sized *s, const void *given, void *own, const char *call)
{
	const uint32_t size = size_of(given);
	if (!is_sound(s, size, call))
		return NULL;
	if (size < s->now) {
		memset(own, 0, s->now);
		memcpy(own, given, size);
		return memcpy(own, &s->now, sizeof s->now);
	}
	if (is_zero((const unsigned char *)given + s->now, size - s->now))
		return given;
	fail(ATTUNE_INVALID,
	     "%s: %s.size is %u, and a member behind the %u bytes that attune %s knows is not 0",
	     call, s->name, size, s->now, attune_version());
	return NULL;
}

void *sized_make(const struct sized *s, void *given, void *own, const char *call)
{
	const uint32_t size = size_of(given);
	if (!is_sound(s, size, call))
		return NULL;
	return size == s->now ? given : own;
}

void sized_give(const struct sized *s, void *given, const void *made)
{
	const uint32_t size = size_of(given);
	if (made == given)
		return;
	memset(given, 0, size);
	memcpy(given, made, size < s->now ? size : s->now);
	memcpy(given, &size, sizeof size);
}
