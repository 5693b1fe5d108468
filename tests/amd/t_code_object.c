/* SPDX-License-Identifier: Apache-2.0 */
/* t_code_object.c - reads code objects made here: whole, cut short at every length, and with
 * random bytes changed. SAN=1 catches reads out of bounds. */
#include "harness/compile/code_object.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* ---- a code object, byte by byte -------------------------------------------------------- */

enum { ELF_HEAD = 64, SEGMENT = 56, NOTE_HEAD = 12, ROOM = 4096 };
struct made {
	unsigned char v[ROOM];
	size_t n;
};

static void put(struct made *m, const void *bytes, size_t n)
{
	assert_true(m->n + n <= ROOM);
	memcpy(m->v + m->n, bytes, n);
	m->n += n;
}

static void byte(struct made *m, int b)
{
	const unsigned char v = (unsigned char)b;
	put(m, &v, 1);
}

static void big(struct made *m, unsigned long long v, int digits)
{
	while (digits-- > 0)
		byte(m, (int)(v >> 8 * digits & 255));
}

static void little(struct made *m, size_t at, unsigned long long v, int digits)
{
	for (int i = 0; i < digits; i++)
		m->v[at + (size_t)i] = (unsigned char)(v >> 8 * i);
}

/* Of many ways to write a text or a number, one that `form` picks. */
static void text(struct made *m, const char *t, int form)
{
	const size_t n = strlen(t);
	if (form % 4 == 0 && n < 32)
		byte(m, 0xa0 | (int)n);
	else
		byte(m, 0xd9 + form % 3), big(m, n, 1 << form % 3);
	put(m, t, n);
}

static void number(struct made *m, unsigned v, int form)
{
	if (form % 5 == 0 && v < 128)
		byte(m, (int)v);
	else if (v < 256)
		byte(m, 0xcc + form % 4), big(m, v, 1 << form % 4);
	else
		byte(m, 0xce), big(m, v, 4);
}

static void kernel_map(struct made *m, const char *name, unsigned vgprs, int form)
{
	static const char *const keys[] = {
		".agpr_count", ".group_segment_fixed_size", ".private_segment_fixed_size",
		".sgpr_count", ".sgpr_spill_count",         ".vgpr_spill_count"
	};
	byte(m, form % 2 ? 0xde : 0x8a); /* ten pairs */
	if (form % 2)
		big(m, 10, 2);
	if (form % 3)
		text(m, ".name", form), text(m, name, form);
	for (int i = 0; i < 6; i++)
		text(m, keys[i], form + i), number(m, (unsigned)(8 + 1000 * i * (form % 2)), form);
	text(m, ".args", form); /* of which nothing is asked: one of each kind */
	byte(m, 0x92), byte(m, 0x81), byte(m, 0xc0), byte(m, 0xc3);
	byte(m, 0xdc), big(m, 5, 2);
	byte(m, 0xca), big(m, 0, 4);
	byte(m, 0xd3), big(m, 1, 8);
	byte(m, 0xc4), byte(m, 2), big(m, 77, 2);
	byte(m, 0xd6), big(m, 9, 5);
	byte(m, 0xe1);
	text(m, ".vgpr_count", form), number(m, vgprs, form);
	text(m, ".uses_dynamic_stack", form), byte(m, 0xc2);
	if (!(form % 3))
		text(m, ".name", form), text(m, name, form);
}

static void make(struct made *m, int form)
{
	*m = (struct made){ .n = ELF_HEAD + 2 * SEGMENT };
	memcpy(m->v, "\177ELF\2\1\1", 7);
	little(m, 32, ELF_HEAD, 8);
	little(m, 54, SEGMENT, 2);
	little(m, 56, 2, 2);
	little(m, ELF_HEAD, 1, 4); /* a segment of another kind, then the notes */
	little(m, ELF_HEAD + SEGMENT, 4, 4);
	const size_t other = m->n;
	put(m, "\4\0\0\0\5\0\0\0\3\0\0\0GNU\0five.\0\0\0", 24);
	const size_t head = m->n;
	m->n += NOTE_HEAD;
	put(m, "AMDGPU\0\0", 8);
	const size_t content = m->n;
	byte(m, 0x83);
	text(m, "amdhsa.target", form), text(m, "amdgcn-amd-amdhsa--gfx942", form);
	text(m, "amdhsa.kernels", form);
	byte(m, 0x93);
	kernel_map(m, "attune_kernels", 1, form);
	kernel_map(m, "attune_kernel", 200, form);
	kernel_map(m, "other", 2, form);
	text(m, "amdhsa.version", form), byte(m, 0x92), byte(m, 1), byte(m, 2);
	little(m, head, 7, 4);
	little(m, head + 4, m->n - content, 4);
	little(m, head + 8, 32, 4);
	little(m, ELF_HEAD + SEGMENT + 8, other, 8);
	little(m, ELF_HEAD + SEGMENT + 32, m->n - other, 8);
}

/* From memory of just that size. */
static const char *read_copy(struct code_object *o, const void *bytes, size_t n)
{
	unsigned char *copy = malloc(n ? n : 1);
	assert_non_null(copy);
	memcpy(copy, bytes, n);
	const char *why = code_object_read(o, copy, n, "attune_kernel");
	free(copy);
	return why;
}

/* ---- rows ------------------------------------------------------------------------------- */

enum { FORMS = 60 };

static void every_form_is_read(void **state)
{
	(void)state;
	for (int form = 0; form < FORMS; form++) {
		const int step = 1000 * (form % 2);
		struct code_object o;
		struct made m;
		make(&m, form);
		const char *why = read_copy(&o, m.v, m.n);
		if (why)
			fail_msg("form %d: %s", form, why);
		assert_int_equal(o.vgprs, 200);
		assert_int_equal(o.agprs, 8);
		assert_int_equal(o.lds, 8 + step);
		assert_int_equal(o.scratch, 8 + 2 * step);
		assert_int_equal(o.sgprs, 8 + 3 * step);
		assert_int_equal(o.spills, 16 + 9 * step);
	}
}

static void assert_unknown(const struct code_object *o)
{
	assert_int_equal(o->vgprs, -1);
	assert_int_equal(o->agprs, -1);
	assert_int_equal(o->sgprs, -1);
	assert_int_equal(o->spills, -1);
	assert_int_equal(o->scratch, -1);
	assert_int_equal(o->lds, -1);
}

static void what_is_cut_short_is_not_known(void **state)
{
	(void)state;
	for (int form = 0; form < FORMS; form += 7) {
		struct made m;
		make(&m, form);
		for (size_t n = 0; n < m.n; n++) {
			struct code_object o;
			assert_non_null(read_copy(&o, m.v, n));
			assert_unknown(&o);
		}
	}
}

static void what_is_wrong_is_said(void **state)
{
	static const struct {
		size_t at; /* below 0x1000: of the file; else of the metadata */
		const char *bytes;
		int n;
		const char *says;
	} rows[] = {
		{ 0, "\177ELG", 4, "it is no ELF file of 64 bits" },
		{ 4, "\1", 1, "it is no ELF file of 64 bits" },
		{ 32, "\377\377\377\377\377\377\377\377", 8, "its program headers are cut short" },
		{ 54, "\10", 1, "its program headers are cut short" },
		{ 56, "\0", 1, "it has no metadata of a kernel" },
		{ ELF_HEAD + SEGMENT, "\1", 1, "it has no metadata of a kernel" },
		{ ELF_HEAD + SEGMENT + 8, "\377\377\377\377\377\377\377\377", 8,
		  "its notes are cut short" },
		{ ELF_HEAD + 2 * SEGMENT, "\377\377\377\377", 4, "a note of it is cut short" },
		{ ELF_HEAD + 2 * SEGMENT + 24, "\6", 1, "it has no metadata of a kernel" },
		{ ELF_HEAD + 2 * SEGMENT + 24 + 8, "\41", 1, "it has no metadata of a kernel" },
		{ 0x1000, "\202\300", 2, "its metadata are damaged" },
		{ 0x1000, "\301", 1, "its metadata are damaged" },
		{ 0x1000, "\337\377\377\377\377", 5, "its metadata are damaged" },
		{ 0x1000, "\200", 1, "it has no such kernel" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct code_object o;
		struct made m;
		make(&m, 0);
		const size_t at =
		    rows[i].at & 0x1000 ? ELF_HEAD + 2 * SEGMENT + 24 + NOTE_HEAD + 8 : rows[i].at;
		memcpy(m.v + at, rows[i].bytes, (size_t)rows[i].n);
		const char *why = read_copy(&o, m.v, m.n);
		if (!why || strcmp(why, rows[i].says))
			fail_msg("row %zu: \"%s\", not \"%s\"", i, why ? why : "", rows[i].says);
		assert_unknown(&o);
	}
}

/* Whatever the bytes are, it ends, and within them. */
static void any_bytes_will_do(void **state)
{
	uint64_t random = 1;
	(void)state;
	for (int i = 0; i < 40000; i++) {
		struct code_object o;
		struct made m;
		make(&m, i % FORMS);
		for (int changes = 1 + i % 5; changes > 0; changes--) {
			random = random * 6364136223846793005u + 1442695040888963407u;
			m.v[(random >> 33) % m.n] = (unsigned char)(random >> 25);
		}
		const char *why = read_copy(&o, m.v, m.n);
		assert_true(why ? o.vgprs == -1 : o.vgprs >= 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_form_is_read),
		cmocka_unit_test(what_is_cut_short_is_not_known),
		cmocka_unit_test(what_is_wrong_is_said),
		cmocka_unit_test(any_bytes_will_do),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("code object", tests, NULL, NULL);
}
