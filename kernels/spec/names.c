/* SPDX-License-Identifier: Apache-2.0 */
/* names.c - hashes of choices and shapes. */
#include "names.h"
#include "kernel.h"
#include "space.h"

uint64_t text_name(uint64_t h, const char *text)
{
	for (; *text; text++)
		h = hash_add(h, (unsigned char)*text);
	return hash_add(h, '\n');
}

uint64_t choice_name(const struct kernel *k, const struct config *c)
{
	char text[MAX_CHOICE_TEXT];
	config_text(text, sizeof text, c, k->space);
	return text_name(text_name(0, k->name), text) | 1;
}

/* -0 is 0. */
static uint64_t bits_of(float f)
{
	const union {
		float f;
		uint32_t bits;
	} u = { f };
	return f == 0 ? 0 : u.bits;
}

uint64_t shape_name(const attune_shape *s)
{
	const uint64_t member[] = {
		(uint64_t)s->num_query_heads,
		(uint64_t)s->num_kv_heads,
		(uint64_t)s->head_size,
		(uint64_t)s->page_size,
		s->dtype,
		s->kv_dtype,
		!!s->causal,
		(uint64_t)s->window,
		bits_of(s->scale),
		bits_of(s->softcap),
		!!s->has_sinks,
		!!s->has_alibi,
		!!s->has_new_kv,
		s->kv_layout,
		!!s->has_lse,
	};
	uint64_t h = 0;
	for (size_t i = 0; i < COUNT(member); i++)
		h = hash_add(h, member[i]);
	return h;
}
