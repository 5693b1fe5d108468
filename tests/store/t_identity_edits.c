/* SPDX-License-Identifier: Apache-2.0 */
/* t_identity_edits.c - random edits of a copy of kernels/. A kernel's identity stays the same
 * when layout, comments, include guards or the names and places of files change, and differs
 * when any token changes. */
#include "harness/compile/compile.h"
#include "kernels/spec/kernel.h"
#include <stdio.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>
#include "tests/support/mutate.h"
#include "tests/support/sources.h"

enum {
	MOST_FILES = 256,
	NAME = 64,
	LAYOUTS = 4,
	PLACES = 4,
	CARVED = 6,
	GUARDS = 2,
	TOKENS = 24,
	OTHERS = 4
};

static struct file {
	char name[NAME]; /* below the folder */
	char *text;
	int is_read; /* by the kernel in hand */
} files[MOST_FILES];
static int num_files;

static int load(const char *path, const struct stat *st, int type, struct FTW *at)
{
	const char *dot = strrchr(path, '.'), *name = path + strlen(source_root()) + 1;
	(void)st;
	static const char *const included_ones[] = { ".h", ".def", ".inc", ".cu" };
	int is_one = dot && !strcmp(dot, ".c") && at->level == 2; /* a kernel, not of the host */
	for (size_t i = 0; dot && i < COUNT(included_ones); i++)
		is_one |= !strcmp(dot, included_ones[i]);
	if (type != FTW_F || !is_one)
		return 0;
	assert_true(num_files < MOST_FILES && strlen(name) < NAME);
	snprintf(files[num_files].name, NAME, "%s", name);
	files[num_files].text = source_text(path);
	assert_non_null(files[num_files].text);
	num_files++;
	return 0;
}

/* The files that the current kernel reads. */
static void restore(void)
{
	for (int i = 0; i < num_files; i++)
		if (files[i].is_read)
			write_text(files[i].name, files[i].text);
}

static int find_file(const char *name)
{
	for (int i = 0; i < num_files; i++)
		if (!strcmp(name, files[i].name))
			return i;
	return -1;
}

/* The file that an include of file i names; -1: none. */
static int included(int i, const char *name, int length)
{
	char path[3 * NAME];
	const char *slash = strrchr(files[i].name, '/');
	const int dir = slash ? (int)(slash + 1 - files[i].name) : 0;
	snprintf(path, sizeof path, "%.*s%.*s", dir, files[i].name, length, name);
	for (char *up; (up = strstr(path, "/../")) != NULL;) {
		char *from = up;
		while (from > path && from[-1] != '/')
			from--;
		memmove(from, up + 4, strlen(up + 4) + 1);
	}
	const int beside = find_file(path);
	snprintf(path, sizeof path, "%.*s", length, name);
	return beside >= 0 ? beside : find_file(path);
}

/* The name within `#include "name"` at or behind `at`. */
static const char *next_include(const char *at, int *length)
{
	at = strstr(at, "#include \"");
	if (!at)
		return NULL;
	at += strlen("#include \"");
	*length = (int)strcspn(at, "\"");
	return at;
}

static void mark_read(int i)
{
	int length;
	if (files[i].is_read)
		return;
	files[i].is_read = 1;
	for (const char *at = files[i].text; (at = next_include(at, &length));)
		if (included(i, at, length) >= 0)
			mark_read(included(i, at, length));
}

static int kernel_file(const struct kernel *k)
{
	for (int i = 0; i < num_files; i++)
		files[i].is_read = 0;
	const int i = find_file(k->source);
	assert_true(i >= 0);
	mark_read(i);
	return i;
}

/* A random file that the kernel reads, or does not. */
static int some_file(int is_read)
{
	int i;
	do
		i = below(num_files);
	while (files[i].is_read != is_read);
	return i;
}

static char *edited(int i)
{
	static char text[MOST_TEXT];
	snprintf(text, sizeof text, "%s", files[i].text);
	return text;
}

static void check(const char *name, const char want[33], int same, const char *what, int file)
{
	char hex[33];
	identity(name, hex);
	if ((strcmp(hex, want) == 0) != same)
		fail_msg("%s: %s in %s: its identity %s", name, what, files[file].name,
			 same ? "changed" : "is the same");
}

static void change_layouts(const struct kernel *k, const char want[33])
{
	const int kernel = kernel_file(k);
	for (int n = 0; n < LAYOUTS; n++) {
		for (int i = 0; i < num_files; i++)
			if (files[i].is_read) {
				char *text = edited(i);
				change_layout(text, 3 + 20 * n);
				write_text(files[i].name, text);
			}
		check(k->source, want, 1, "layout", kernel);
		restore();
	}
}

static const char *way_up(const char *name)
{
	return !strchr(name, '/') ? "" : strchr(strchr(name, '/') + 1, '/') ? "../../" : "../";
}

/* Writes all that the kernel reads, with file `moved` under another name and all include lines
 * relative to their new places. */
static void write_moved(int moved, const char *to)
{
	static char text[MOST_TEXT];
	for (int i = 0; i < num_files; i++) {
		const char *name = i == moved ? to : files[i].name, *from = files[i].text, *at;
		int length, used = 0;
		if (!files[i].is_read)
			continue;
		while ((at = next_include(from, &length))) {
			const int file = included(i, at, length);
			used += sprintf(text + used, "%.*s", (int)(at - from), from);
			used += file < 0 ? sprintf(text + used, "%.*s", length, at)
					 : sprintf(text + used, "%s%s", way_up(name),
						   file == moved ? to : files[file].name);
			from = at + length;
			assert_true(used < MOST_TEXT / 2);
		}
		sprintf(text + used, "%s", from);
		write_text(name, text);
	}
}

static void move_files(const struct kernel *k, const char want[33])
{
	static const char *const places[] = { "renamed_%d%s", "gpu/renamed_%d%s", "new/place_%d%s",
					      "new/er/place_%d%s" };
	const int kernel = kernel_file(k);
	for (int n = 0; n < PLACES; n++) {
		const int moved = n ? some_file(1) : kernel;
		char to[NAME];
		snprintf(to, sizeof to, places[n], n, strrchr(files[moved].name, '.'));
		write_moved(moved, to);
		unlink(in_folder(files[moved].name));
		check(moved == kernel ? to : k->source, want, 1, "a move", moved);
		unlink(in_folder(to));
		restore();
	}
}

/* The change in depth of conditionals by a line; *branch: it begins another branch. */
static int conditional(const char *line, int *branch)
{
	line += strspn(line, " \t");
	if (*line++ != '#')
		return 0;
	line += strspn(line, " \t");
	*branch = !strncmp(line, "el", 2);
	return !strncmp(line, "if", 2) ? 1 : strncmp(line, "endif", 5) ? 0 : -1;
}

/* The end of up to `most` whole lines from `at` on that can be a header: no comment, literal or
 * line crosses its ends, and conditionals are whole. NULL: there are none. */
static const char *end_of_run(const char *text, const char *at, int most)
{
	static struct spans s;
	const char *end = NULL;
	int depth = 0, lines = 0;
	scan(&s, text);
	for (int i = 0; i < s.n && lines < most; i++) {
		const char *span = text + s.v[i].at;
		int branch = 0;
		if (span < at)
			continue;
		if (s.v[i].place == 1) {
			depth += conditional(span, &branch);
			if (depth < 0 || (!depth && branch))
				break;
		}
		const int last = i + 1 == s.n;
		const char *next = span + s.v[i].len, *line = strchr(next, '\n');
		const int starts = last || s.v[i + 1].place == 1 || !s.v[i + 1].place;
		if (line && !depth && starts && (last || line < text + s.v[i + 1].at) &&
		    !memchr(next, '*', (size_t)(line - next)) && line[-1] != '\\') {
			end = line + 1;
			lines++;
		}
	}
	return end;
}

/* Whether a header may begin here. The #define of a guard stays with its #ifndef. */
static int begins_line(const char *text, const struct span *v)
{
	const char *at = text + v->at, *above = at - 1;
	if (v->place > 1 || (v->at && at[-1] != '\n'))
		return 0;
	while (above > text && above[-1] != '\n')
		above--;
	return strncmp(at, "#define ATTUNE_", 15) || strncmp(above, "#ifndef ", 8);
}

static void carve_headers(const struct kernel *k, const char want[33])
{
	static char rest[MOST_TEXT], carved[MOST_TEXT];
	static struct spans s;
	for (int n = 0; n < CARVED; n++) {
		const int i = some_file(1);
		const char *text = files[i].text, *at, *end, *slash = strrchr(files[i].name, '/');
		char name[NAME + 16];
		scan(&s, text);
		do {
			const struct span *v = &s.v[below(s.n)];
			at = text + v->at;
			end = begins_line(text, v) ? end_of_run(text, at, 1 + below(40)) : NULL;
		} while (!end);
		snprintf(carved, sizeof carved, "%.*s", (int)(end - at), at);
		snprintf(rest, sizeof rest, "%.*s#include \"carved.h\"\n%s", (int)(at - text), text,
			 end);
		snprintf(name, sizeof name, "%.*scarved.h",
			 slash ? (int)(slash + 1 - files[i].name) : 0, files[i].name);
		write_text(name, carved);
		write_text(files[i].name, rest);
		check(k->source, want, 1, "a carved header", i);
		write_text(files[i].name, text);
		unlink(in_folder(name));
	}
}

/* The guard of file i as it stands there, or NULL. */
static const char *find_guard(int i, char name[80], size_t *length)
{
	char open[200];
	const char *guard = strstr(files[i].text, "#ifndef ");
	if (!guard || sscanf(guard, "#ifndef %79s", name) != 1)
		return NULL;
	*length = (size_t)snprintf(open, sizeof open, "#ifndef %s\n#define %s\n", name, name);
	return strncmp(guard, open, *length) ? NULL : guard;
}

/* A guard gets another name, or becomes #pragma once. */
static void change_guards(const struct kernel *k, const char want[33])
{
	static char text[MOST_TEXT];
	for (int n = 0, tries = 0; n < GUARDS && tries < 100; tries++) {
		const int i = some_file(1);
		char name[80], *end = NULL;
		size_t length;
		const char *guard = find_guard(i, name, &length);
		if (!guard)
			continue;
		const int before = (int)(guard - files[i].text);
		snprintf(text, sizeof text, "%.*s#ifndef X_%s\n#define X_%s\n%s", before,
			 files[i].text, name, name, guard + length);
		write_text(files[i].name, text);
		check(k->source, want, 1, "another guard", i);
		snprintf(text, sizeof text, "%.*s#pragma once\n%s", before, files[i].text,
			 guard + length);
		for (char *next = text; (next = strstr(next, "\n#endif")) != NULL;)
			end = ++next;
		assert_non_null(end);
		*end = '\0';
		write_text(files[i].name, text);
		check(k->source, want, 1, "#pragma once", i);
		write_text(files[i].name, files[i].text);
		n++;
	}
}

static void change_tokens(const struct kernel *k, const char want[33], int is_read, int times)
{
	static const char *const names[] = { [CHANGE] = "another token",
					     [INSERT] = "a token more",
					     [DELETE] = "a token less",
					     [SWAP] = "swapped tokens" };
	for (int n = 0; n < times;) {
		const int i = some_file(is_read);
		const enum change how = n % NUM_CHANGES;
		char *text = edited(i);
		if (!change_token(text, how))
			continue;
		write_text(files[i].name, text);
		check(k->source, want, !is_read, names[how], i);
		write_text(files[i].name, files[i].text);
		n++;
	}
}

static void edits_of_the_kernels(void **state)
{
	(void)state;
	char want[33], other[33];
	for (const struct kernel *k = attune_kernels; k->name; k++) {
		kernel_file(k);
		assert_int_equal(source_identity(k, want), 1);
		identity(k->source, other);
		assert_string_equal(want, other);
		change_layouts(k, want);
		move_files(k, want);
		carve_headers(k, want);
		change_guards(k, want);
		change_tokens(k, want, 1, TOKENS);
		change_tokens(k, want, 0, OTHERS);
	}
}

static int copy_kernels(void **state)
{
	(void)state;
	if (!mkdtemp(folder) || !source_root() || nftw(source_root(), load, 16, FTW_PHYS))
		return -1;
	for (int i = 0; i < num_files; i++)
		write_text(files[i].name, files[i].text);
	return 0;
}

static int remove_copy(void **state)
{
	for (int i = 0; i < num_files; i++)
		free(files[i].text);
	return remove_folder(state);
}

int main(void)
{
	const struct CMUnitTest t[] = { cmocka_unit_test(edits_of_the_kernels) };
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return _cmocka_run_group_tests("identity_edits", t, COUNT(t), copy_kernels, remove_copy);
}
