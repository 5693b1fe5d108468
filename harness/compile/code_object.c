/* SPDX-License-Identifier: Apache-2.0 */
/* code_object.c - reads the metadata of a code object, the format that hipModuleLoadData loads:
 *
 *   ELF file -> program headers -> PT_NOTE -> note "AMDGPU" of type 32 -> MessagePack:
 *
 *   { "amdhsa.kernels": [ { ".name": "attune_kernel", ".vgpr_count": 34, ... } ], ... }
 *
 * Each step stays within the bytes of the one before it. */
#include "code_object.h"
#include <limits.h>
#include <stdint.h>
#include <string.h>

struct bytes {
	const unsigned char *at, *end;
};

static size_t left(const struct bytes *b)
{
	return (size_t)(b->end - b->at);
}

/* 0: the range is outside of b. */
static int part_of(struct bytes *out, const struct bytes *b, uint64_t offset, uint64_t size)
{
	if (offset > left(b) || size > left(b) - offset)
		return 0;
	out->at = b->at + offset;
	out->end = out->at + size;
	return 1;
}

static uint64_t little(const unsigned char *at, int n)
{
	uint64_t v = 0;
	while (n-- > 0)
		v = v << 8 | at[n];
	return v;
}

/* ---- MessagePack --------------------------------------------------------------------- */

enum kind { NUMBER, TEXT, ARRAY, MAP, OTHER, BROKEN };
struct item {
	enum kind kind;
	uint64_t n; /* the number; bytes of text; elements; pairs of a map */
	const unsigned char *text;
};

/* By first byte, from 0xc0 on: the kind, the bytes of its number or length, and the fixed bytes of
 * content after them. */
static const struct {
	unsigned char kind, digits, content;
} forms[] = {
	// clang-format off
	{ OTHER, 0, 0 }, { BROKEN, 0, 0 }, { OTHER, 0, 0 },  { OTHER, 0, 0 },  /* nil, -, false, true */
	{ TEXT, 1, 0 },  { TEXT, 2, 0 },   { TEXT, 4, 0 },                     /* bin */
	{ TEXT, 1, 1 },  { TEXT, 2, 1 },   { TEXT, 4, 1 },                     /* ext, with its type */
	{ OTHER, 0, 4 }, { OTHER, 0, 8 },                                      /* float */
	{ NUMBER, 1, 0 }, { NUMBER, 2, 0 }, { NUMBER, 4, 0 }, { NUMBER, 8, 0 }, /* uint */
	{ OTHER, 0, 1 }, { OTHER, 0, 2 },  { OTHER, 0, 4 },  { OTHER, 0, 8 },  /* int */
	{ OTHER, 0, 2 }, { OTHER, 0, 3 },  { OTHER, 0, 5 },  { OTHER, 0, 9 },  { OTHER, 0, 17 }, /* fixext */
	{ TEXT, 1, 0 },  { TEXT, 2, 0 },   { TEXT, 4, 0 },                     /* str */
	{ ARRAY, 2, 0 }, { ARRAY, 4, 0 },  { MAP, 2, 0 },    { MAP, 4, 0 },
	// clang-format on
};

static uint64_t big(struct bytes *b, int digits)
{
	uint64_t v = 0;
	while (digits-- > 0)
		v = v << 8 | *b->at++;
	return v;
}

/* The next item. The items of an array or a map follow it. */
static struct item next(struct bytes *b)
{
	static const struct item broken = { .kind = BROKEN };
	struct item i = { .kind = OTHER };
	size_t content = 0;
	if (!left(b))
		return broken;
	const unsigned char first = *b->at++;
	if (first < 0x80) {
		return (struct item){ .kind = NUMBER, .n = first };
	} else if (first < 0xc0) {
		i.kind = first < 0x90 ? MAP : first < 0xa0 ? ARRAY : TEXT;
		i.n = first & (i.kind == TEXT ? 31 : 15);
	} else if (first < 0xe0) {
		i.kind = forms[first - 0xc0].kind;
		content = forms[first - 0xc0].content;
		const int digits = forms[first - 0xc0].digits;
		if (i.kind == BROKEN || left(b) < (size_t)digits)
			return broken;
		i.n = big(b, digits);
	}
	if (i.kind == TEXT)
		content += (size_t)i.n;
	if (left(b) < content)
		return broken;
	i.text = b->at;
	b->at += content;
	return i;
}

/* Skips the content of i. Ends with the bytes, as each item takes at least one. 0: broken. */
static int skip(struct bytes *b, struct item i)
{
	uint64_t more = 0;
	for (;; i = next(b)) {
		if (i.kind == BROKEN)
			return 0;
		if (i.kind == ARRAY || i.kind == MAP)
			more += i.kind == MAP ? 2 * i.n : i.n;
		if (!more--)
			return 1;
	}
}

static int is_text(const struct item *i, const char *text)
{
	return i->kind == TEXT && i->n == strlen(text) && !memcmp(i->text, text, (size_t)i->n);
}

/* ---- metadata --------------------------------------------------------------------------- */

static const struct {
	const char *key;
	size_t place;
} numbers[] = {
	{ ".vgpr_count", offsetof(struct code_object, vgprs) },
	{ ".agpr_count", offsetof(struct code_object, agprs) },
	{ ".sgpr_count", offsetof(struct code_object, sgprs) },
	{ ".vgpr_spill_count", offsetof(struct code_object, spills) },
	{ ".sgpr_spill_count", offsetof(struct code_object, spills) },
	{ ".private_segment_fixed_size", offsetof(struct code_object, scratch) },
	{ ".group_segment_fixed_size", offsetof(struct code_object, lds) },
};
enum { NUM_NUMBERS = sizeof numbers / sizeof *numbers };

static const char damaged[] = "its metadata are damaged";

static void take_number(struct code_object *out, const struct item *key, const struct item *value)
{
	for (int i = 0; i < NUM_NUMBERS; i++) {
		int *to = (int *)((char *)out + numbers[i].place);
		if (is_text(key, numbers[i].key) && value->kind == NUMBER)
			*to = value->n > (uint64_t)(INT_MAX - *to) ? INT_MAX : *to + (int)value->n;
	}
}

/* Reads one map of the list. Sets *found if it is the kernel's. */
static const char *read_kernel(struct code_object *out, struct bytes *b, const char *kernel,
			       int *found)
{
	const struct item map = next(b);
	*out = (struct code_object){ 0 };
	if (map.kind != MAP)
		return damaged;
	for (uint64_t i = 0; i < map.n; i++) {
		const struct item key = next(b), value = next(b);
		if (key.kind != TEXT || !skip(b, value))
			return damaged;
		take_number(out, &key, &value);
		*found |= is_text(&key, ".name") && is_text(&value, kernel);
	}
	return NULL;
}

static const char *read_metadata(struct code_object *out, struct bytes b, const char *kernel)
{
	const struct item root = next(&b);
	if (root.kind != MAP)
		return damaged;
	for (uint64_t i = 0; i < root.n; i++) {
		const struct item key = next(&b), value = next(&b);
		const int list = is_text(&key, "amdhsa.kernels") && value.kind == ARRAY;
		if (key.kind != TEXT || (!list && !skip(&b, value)))
			return damaged;
		for (uint64_t k = 0; list && k < value.n; k++) {
			int found = 0;
			const char *why = read_kernel(out, &b, kernel, &found);
			if (why || found)
				return why;
		}
	}
	return "it has no such kernel";
}

/* ---- ELF -------------------------------------------------------------------------------- */

static const char none[] = "it has no metadata of a kernel";

/* A note: three numbers of 4 bytes, a name and the content, both padded to 4 bytes. */
static const char *read_notes(struct code_object *out, struct bytes b, const char *kernel)
{
	enum { HEAD = 12, METADATA = 32 };
	while (left(&b) >= HEAD) {
		const uint64_t name = little(b.at, 4), content = little(b.at + 4, 4);
		const uint64_t type = little(b.at + 8, 4), at = HEAD + (name + 3) / 4 * 4;
		struct bytes words, inside;
		if (!part_of(&words, &b, HEAD, name) || !part_of(&inside, &b, at, content))
			return "a note of it is cut short";
		if (type == METADATA && name == 7 && !memcmp(words.at, "AMDGPU", 7))
			return read_metadata(out, inside, kernel);
		const uint64_t whole = at + (content + 3) / 4 * 4;
		if (whole > left(&b))
			break;
		b.at += whole;
	}
	return none;
}

static const char *read_elf(struct code_object *out, const struct bytes *b, const char *kernel)
{
	enum { HEAD = 64, SEGMENT = 56, PT_NOTE = 4 };
	const char *why = none;
	if (left(b) < HEAD || memcmp(b->at, "\177ELF\2\1", 6))
		return "it is no ELF file of 64 bits";
	const uint64_t first = little(b->at + 32, 8), step = little(b->at + 54, 2);
	const uint64_t n = little(b->at + 56, 2);
	for (uint64_t i = 0; i < n && why == none; i++) {
		struct bytes head, notes;
		if (step < SEGMENT || !part_of(&head, b, first, (i + 1) * step))
			return "its program headers are cut short";
		head.at += i * step;
		if (little(head.at, 4) != PT_NOTE)
			continue;
		if (!part_of(&notes, b, little(head.at + 8, 8), little(head.at + 32, 8)))
			return "its notes are cut short";
		why = read_notes(out, notes, kernel);
	}
	return why;
}

const char *code_object_read(struct code_object *out, const void *bytes, size_t size,
			     const char *kernel)
{
	const struct bytes b = { bytes, (const unsigned char *)bytes + size };
	const char *why = read_elf(out, &b, kernel);
	if (why)
		*out = (struct code_object){ -1, -1, -1, -1, -1, -1 };
	return why;
}
