/* SPDX-License-Identifier: Apache-2.0 */
/* t_override.c - headers as ATTUNE_HEURISTICS reads them: the committed ones mean the same as when
 * they are compiled, and each mistake in one is reported with its line. */
#include "tuner/base/base.h"
#include "kernels/select/header_text.h"
#include "override_rows.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

enum { VECTORS = 100000, MUTANTS = 20000, MAX_TEXT = 1 << 19 };

static unsigned long long seed = 42;

static unsigned below(unsigned n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned)(seed >> 33) % n;
}

/* The file that is read, in memory: noise writes it 20,000 times. */
static int file;
static char path[40];

static int make_file(void **state)
{
	(void)state;
	file = memfd_create("rules", 0);
	snprintf(path, sizeof path, "/proc/self/fd/%d", file);
	return file < 0;
}

static int close_file(void **state)
{
	(void)state;
	return close(file);
}

static void put(const char *text, size_t size)
{
	assert_int_equal(ftruncate(file, (off_t)size), 0);
	assert_int_equal(pwrite(file, text, size, 0), size);
}

static struct device_info device_of(const char *gpu)
{
	struct device_info d = { .units = 4, .lanes = 16, .smem_per_block = 232448 };
	d.backend = strcmp(gpu, "cpu") ? BACKEND_GPU : BACKEND_CPU;
	snprintf(d.gpu, sizeof d.gpu, "%s", gpu);
	snprintf(d.name, sizeof d.name, "a test's");
	return d;
}

/* ---- the committed headers -------------------------------------------------------------- */

/* Thresholds of any magnitude. */
static void random_features(struct attune_features *f)
{
	long long *v = (long long *)f;
	for (int i = 0; i < ATTUNE_NUM_FEATURES; i++)
		v[i] = below(2u << below(24));
}

static void the_same(const struct selector *a, const struct selector *b)
{
	struct attune_features f;
	for (int i = 0; i < VECTORS; i++) {
		random_features(&f);
		for (int d = 0; d < NUM_DECISIONS; d++)
			assert_int_equal(selector_says(a, (enum decision)d, &f),
					 selector_says(b, (enum decision)d, &f));
	}
}

static void headers_mean_the_same_as_compiled(void **state)
{
	(void)state;
	for (int i = 0; i < attune_num_selectors; i++) {
		const struct selector *h = &attune_selectors[i];
		char header[PATH_TEXT], gpu[GPU_NAME];
		snprintf(gpu, sizeof gpu, "%.*s", gpu_length(h->gpu), h->gpu);
		const struct device_info d = device_of(gpu);
		struct override *o;
		own_header(header, h->gpu);
		if (override_open(&o, header, &d))
			fail_msg("%s", attune_last_error());
		const struct selector *s = override_selector(o);
		assert_string_equal(s->gpu, h->gpu);
		assert_string_equal(s->arch, h->arch);
		assert_int_equal(s->num_choices, h->num_choices);
		for (int c = 0; c < h->num_choices; c++) {
			assert_string_equal(s->choices[c].kernel, h->choices[c].kernel);
			assert_string_equal(s->choices[c].text, h->choices[c].text);
		}
		assert_int_equal(s->num_costs, h->num_costs);
		for (int c = 0; c < h->num_costs; c++) {
			const struct selector_costs *a = &s->costs[c], *b = &h->costs[c];
			assert_true(a->id == b->id && a->head_size == b->head_size);
			assert_memory_equal(&a->costs, &b->costs, sizeof a->costs);
		}
		assert_int_equal(s->num_lists, h->num_lists);
		for (int c = 0; c < h->num_lists; c++)
			assert_memory_equal(&s->lists[c], &h->lists[c], sizeof *h->lists);
		assert_int_equal(s->overlaps, h->overlaps);
		the_same(s, h);
		override_close(o);
	}
}

/* ---- what is wrong with a file ---------------------------------------------------------- */

/* The last `from` of a text. */
static const char *last(const char *text, const char *from)
{
	const char *at = strstr(text, from), *next;
	assert_non_null(at);
	while ((next = strstr(at + 1, from)) != NULL)
		at = next;
	return at;
}

/* A copy of `text` with the last `from` replaced by `to`; to be freed. */
static char *edited(const char *text, const char *from, const char *to)
{
	const char *at = last(text, from);
	char *out = malloc(strlen(text) + strlen(to) + 1);
	assert_non_null(out);
	memcpy(out, text, (size_t)(at - text));
	strcpy(out + (at - text), to);
	strcat(out, at + strlen(from));
	return out;
}

static char *good_header(void)
{
	return edited(rules_header("h200", &good), "return h200_c2;", DECODE);
}

static int line_of(const char *text, const char *at)
{
	int line = 1;
	for (; text < at; text++)
		line += *text == '\n';
	return line;
}

/* The message that refuses the file. */
static const char *refusal(const char *text, size_t size)
{
	const struct device_info d = device_of("h200");
	struct override *o = (struct override *)&d;
	put(text, size);
	assert_int_equal(override_open(&o, path, &d), ATTUNE_INVALID);
	assert_null(o);
	assert_null(strchr(attune_last_error(), '\n'));
	return attune_last_error();
}

static void broken_headers_are_refused_by_line(void **state)
{
	char *text = good_header(), where[64];
	(void)state;
	for (size_t i = 0; i < COUNT(broken); i++) {
		const struct broken *b = &broken[i];
		char *wrong = edited(text, b->from, b->to);
		const char *said = refusal(wrong, strlen(wrong));
		snprintf(where, sizeof where, "%s:%d: \"%.3s", path,
			 line_of(text, last(text, b->from)) + b->behind, b->found);
		if (strncmp(said, where, strlen(where)) || !strstr(said, b->found) ||
		    !strstr(said, b->right))
			fail_msg("%s: %s", b->name, said);
		free(wrong);
	}
	free(text);
}

static void limits_are_kept(void **state)
{
	enum { DEEP = 65, LONG = 300 };
	char *text = good_header(), *more = malloc(MAX_TEXT);
	(void)state;
	assert_non_null(more);
	more[0] = '\0'; /* below each threshold the next one */
	for (int i = 0; i < DEEP; i++)
		strcat(more, "if (f->num_seqs <= 8) return 0;\n");
	strcat(more, "return h200_c2;");
	char *deep = edited(text, "return h200_c2;", more);
	assert_non_null(strstr(refusal(deep, strlen(deep)), "at most 64 deep"));
	free(deep);
	more[0] = '\0';
	for (int i = 3; i <= HEADER_CHOICES; i++)
		sprintf(more + strlen(more), " CHOICE(%d, d%d, segmented, \"x\")", i, i);
	strcat(more, "\n#define ATTUNE_H200_SAYS");
	char *many = edited(text, "\n#define ATTUNE_H200_SAYS", more);
	assert_non_null(strstr(refusal(many, strlen(many)), "at most 256 rows CHOICE"));
	free(many);
	more[0] = '\0';
	for (int i = 0; i < HEADER_COSTS; i++)
		sprintf(more + strlen(more), "SEGMENTS(2, %d, 3, 96, 7, 14, 21, 28)\n", 129 + i);
	strcat(more, COSTS);
	char *dear = edited(text, COSTS, more);
	assert_non_null(strstr(refusal(dear, strlen(dear)), "at most 4096 rows SEGMENTS"));
	free(dear);
	memset(more, 'x', LONG);
	more[LONG] = '\0';
	char *name = edited(text, "c1, segmented", more);
	assert_non_null(strstr(refusal(name, strlen(name)), "a name is expected"));
	free(name);
	free(more);
	free(text);
}

static void files_that_are_no_text(void **state)
{
	const struct device_info d = device_of("h200"), other = device_of("a100");
	struct override *o;
	char *text = good_header(), *large = calloc(1, (1 << 20) + 1);
	(void)state;
	assert_non_null(strstr(refusal("", 0), ":1: \"\"; '#ifndef ATTUNE_' is expected"));
	char *blanks = edited(text, "GPU \"h200\"", "GPU \t\"h200\"");
	put(blanks, strlen(blanks));
	free(blanks);
	assert_int_equal(override_open(&o, path, &other), ATTUNE_INVALID);
	assert_non_null(strstr(attune_last_error(),
			       ": \"\"h200\"\"; the device in use is \"a100\" (a test's)"));
	char *emulated =
	    edited(text, "#include", "#ifndef ATTUNE_EMULATED\n#error\n#endif\n#include");
	assert_non_null(strstr(refusal(emulated, strlen(emulated)), "made on an emulated device"));
	free(emulated);
	const size_t size = strlen(text);
	strchr(text, 'H')[0] = '\0';
	assert_non_null(strstr(refusal(text, size), "a NUL byte"));
	memset(large, '#', (1 << 20) + 1);
	assert_non_null(strstr(refusal(large, (1 << 20) + 1), "more than 1048576 bytes"));
	assert_int_equal(override_open(&o, "/nowhere/rules", &d), ATTUNE_INVALID);
	assert_non_null(strstr(attune_last_error(), "/nowhere/rules: No such file"));
	assert_int_equal(override_open(&o, "/", &d), ATTUNE_INVALID);
	assert_non_null(strstr(attune_last_error(), "/: Is a directory"));
	free(large);
	free(text);
}

/* A hash of another library: the row that is old is named, with what to do. */
static void old_hashes_are_refused(void **state)
{
	static const char *const rows[][2] = {
		{ "gpu, segmented, 0x",
		  "the hash of that kernel's tunables of this library is 0x" },
		{ "rules, features, 0x", "the hash of features and segment costs of this library" },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		char *text = good_header();
		char *digit = (char *)(uintptr_t)last(text, rows[i][0]) + strlen(rows[i][0]);
		*digit = *digit == '0' ? '1' : '0';
		const char *said = refusal(text, strlen(text));
		assert_non_null(strstr(said, rows[i][1]));
		assert_non_null(strstr(said, "attune induce --gpu h200"));
		free(text);
	}
	char *text = good_header();
	char *row = (char *)(uintptr_t)last(text, "KERNEL(gpu, segmented,");
	memset(row, ' ', strcspn(row, ")") + 1);
	assert_non_null(strstr(refusal(text, strlen(text)), "a row of KERNELS for segmented"));
	free(text);
}

static void costs_are_read(const struct selector *s)
{
	static const struct segment_costs want = { 3, 96, 7, 14, 21, 28 };
	assert_int_equal(s->num_costs, 1);
	const struct segment_costs *c = costs_for(s->costs, s->num_costs, 2, 128);
	assert_non_null(c);
	assert_memory_equal(c, &want, sizeof want);
}

/* Of LISTS: c2 has no row. */
static void rows_are_read(const struct selector *s)
{
	static const struct attune_list want[] = { { 3, { 0, 2, 1, -1 } },
						   { 2, { 1, 2, -1, -1 } },
						   { 1, { 2, -1, -1, -1 } } };
	assert_int_equal(s->num_lists, 2);
	for (int id = 0; id < 3; id++) {
		const struct attune_list got = selector_list(s, id);
		assert_memory_equal(&got, &want[id], sizeof got);
	}
}

/* Headers of older tools have no rows: each choice is alone. */
static void older_headers_have_no_rows(void **state)
{
	const struct device_info d = device_of("h200");
	struct rules older = good;
	struct override *o;
	(void)state;
	older.lists = NULL;
	const char *text = rules_header("h200", &older);
	put(text, strlen(text));
	assert_int_equal(override_open(&o, path, &d), ATTUNE_OK);
	assert_int_equal(override_selector(o)->num_lists, 0);
	assert_int_equal(selector_list(override_selector(o), 2).n, 1);
	assert_int_equal(selector_list(override_selector(o), 2).at[0], 2);
	override_close(o);
}

/* Blanks, comments and braces as people write them; names or their numbers. */
static void what_a_person_may_write(void **state)
{
	static const struct {
		const char *from, *to;
		enum decision decision;
		int says;
	} rows[] = {
		{ "#ifndef", "// mine\n/* of\n two lines */ #ifndef", DECIDE_DECODE, 2 },
		{ "return h200_c2;", "{ /* why */ return h200_c0 ; } // so", DECIDE_DECODE, 0 },
		{ "\treturn h200_c2;", "\telse {\n\t\treturn h200_c1;\n\t}", DECIDE_DECODE, 1 },
		{ "return h200_c2;", "return c1;", DECIDE_DECODE, 1 },
		{ "return h200_c2;", "return 1;", DECIDE_DECODE, 1 },
		{ "return h200_c2;", "return h200_defaults;", DECIDE_DECODE, SAYS_DEFAULTS },
		{ "return h200_c2;", "return -1;\r", DECIDE_DECODE, SAYS_DEFAULTS },
		{ "return h200_serial;", "return h200_streams;", DECIDE_OVERLAP, SAYS_STREAMS },
		{ "return h200_serial;", "return h200_one_launch;", DECIDE_OVERLAP,
		  SAYS_ONE_LAUNCH },
		{ "return h200_serial;", "return h200_c1;", DECIDE_OVERLAP, 1 },
		{ "#endif",
		  "ATTUNE_SELECT int attune_h200_early(const struct attune_features *f)\n{\n"
		  "if (f->blocks_per_unit <= 17) return 2;\nreturn -1;\n}\n#endif",
		  DECIDE_EARLY, 2 },
		{ "#endif", "#endif /* ATTUNE_H200_H */\n\n", DECIDE_EARLY, SAYS_OWN },
		{ "return h200_serial;", "return h200_streams_sparing48;", DECIDE_OVERLAP, -6 },
		{ LISTS,
		  "\\\n LIST( c1,c2 , none,none )/* mine */ LIST(c0, c2,\\\n c1, none) // so",
		  DECIDE_DECODE, 2 },
		{ COSTS, "\\\n SEGMENTS( h200_c2,128 , 3, 96,7,14,21,28 ) /* fs */", DECIDE_DECODE,
		  2 },
	};
	const struct device_info d = device_of("h200");
	const struct attune_features f = { .blocks_per_unit = 17 };
	char *text = good_header();
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		char *other = edited(text, rows[i].from, rows[i].to);
		struct override *o;
		put(other, strlen(other));
		if (override_open(&o, path, &d))
			fail_msg("%zu: %s", i, attune_last_error());
		assert_int_equal(selector_says(override_selector(o), rows[i].decision, &f),
				 rows[i].says);
		costs_are_read(override_selector(o));
		rows_are_read(override_selector(o));
		override_close(o);
		free(other);
	}
	free(text);
}

/* ---- noise ---------------------------------------------------------------------------- */

/* A byte changed, a stretch cut, moved or doubled, or a line's end lost. */
static size_t mutate(char *text, size_t n)
{
	const size_t at = below((unsigned)n), len = 1 + below(24);
	const size_t cut = len < n - at ? len : n - at;
	switch (below(4)) {
	case 0: text[at] = (char)below(256); return n;
	case 1: text[at] = "\n 0=<-#"[below(7)]; return n;
	case 2: memmove(text + at, text + at + cut, n - at - cut); return n - cut;
	default:
		memmove(text + at + cut, text + at, n - at);
		memmove(text + at, text + below((unsigned)n), cut);
		return n + cut;
	}
}

static void answers_are_ids(const struct selector *s)
{
	struct attune_features f;
	for (int i = 0; i < 20; i++) {
		random_features(&f);
		for (int d = 0; d < NUM_DECISIONS; d++) {
			const int id = selector_says(s, (enum decision)d, &f);
			assert_true(id >= -1 || (id >= SAYS_SPARING112 && d == DECIDE_OVERLAP));
			assert_true(id < (d == DECIDE_EARLY ? MOST_EARLY + 1 : s->num_choices));
		}
	}
}

static void rows_are_of_ids(const struct selector *s)
{
	for (int i = 0; i < s->num_lists; i++) {
		assert_in_range(s->lists[i].n, 1, ATTUNE_LIST_MEMBERS);
		for (int k = 0; k < s->lists[i].n; k++)
			assert_in_range(s->lists[i].at[k], 0, s->num_choices - 1);
	}
}

static void noise_does_no_harm(void **state)
{
	const struct device_info d = device_of("h200");
	char *text = good_header(), *noisy = malloc(strlen(text) + 64);
	int taken = 0;
	(void)state;
	for (int i = 0; i < MUTANTS; i++) {
		size_t n = strlen(text);
		struct override *o;
		memcpy(noisy, text, n);
		for (unsigned m = 1 + below(2); m && n; m--)
			n = mutate(noisy, n);
		put(noisy, n);
		if (override_open(&o, path, &d))
			continue;
		taken++;
		answers_are_ids(override_selector(o));
		rows_are_of_ids(override_selector(o));
		override_close(o);
	}
	assert_in_range(taken, 1, MUTANTS / 2);
	free(noisy);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(headers_mean_the_same_as_compiled),
		cmocka_unit_test(broken_headers_are_refused_by_line),
		cmocka_unit_test(limits_are_kept),
		cmocka_unit_test(files_that_are_no_text),
		cmocka_unit_test(old_hashes_are_refused),
		cmocka_unit_test(what_a_person_may_write),
		cmocka_unit_test(older_headers_have_no_rows),
		cmocka_unit_test(noise_does_no_harm),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("override", tests, make_file, close_file);
}
