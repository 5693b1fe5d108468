/* SPDX-License-Identifier: Apache-2.0 */
/* texts.c - puts a text into one column of a small database, runs merge, induce, plot and show on it, and
 * looks at what comes out: only printable text; a header that compiles, whose code differs from that of
 * the unchanged database in integers and names alone; no command for gnuplot or a shell. */
#include "texts.h"
#include "harness/base/base.h"
#include "harness/base/text_rule.h"
#include "harness/store/store.h"
#include "tests/support/folder.h"
#include <ctype.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

int cmd_merge(int, char **);
int cmd_induce(int, char **);
int cmd_show(int, char **);
int cmd_plot(int, char **);

enum { MOST_COLUMNS = 128, MOST_WORDS = 24 };
static struct {
	char table[32], name[32], whole[68];
} column[MOST_COLUMNS];
static int num_columns;
int texts_headers, texts_programs;

/* ---- files ------------------------------------------------------------------------------- */
static char *read_file(const char *path, size_t *n)
{
	struct stat st;
	FILE *f = fopen(path, "rb");
	const size_t size = f && !fstat(fileno(f), &st) ? (size_t)st.st_size : 0;
	char *text = calloc(1, size + 1);
	*n = f && text ? fread(text, 1, size, f) : 0;
	if (f)
		fclose(f);
	return text;
}

static int copy_file(const char *to, const char *from)
{
	size_t n;
	char *bytes = read_file(from, &n);
	FILE *f = fopen(to, "wb");
	const int ok = bytes && f && fwrite(bytes, 1, n, f) == n;
	free(bytes);
	return f && !fclose(f) && ok;
}

static int write_file(const char *path, const char *text, mode_t mode)
{
	FILE *f = fopen(path, "w");
	return f && fputs(text, f) >= 0 && !fclose(f) && !chmod(path, mode);
}

/* Runs a command with its output in the files "out" and "err"; its exit code. */
static int run(int (*command)(int, char **), const char *line)
{
	static const char *const name[] = { "out", "err" };
	char words[1000], *argv[MOST_WORDS] = { "attune" }, *save = NULL;
	int argc = 1, kept[2];
	snprintf(words, sizeof words, "%s", line);
	for (char *w = strtok_r(words, " ", &save); w && argc < MOST_WORDS - 1;
	     w = strtok_r(NULL, " ", &save))
		argv[argc++] = w;
	fflush(NULL);
	for (int i = 0; i < 2; i++) {
		const int fd = open(in_folder(name[i]), O_WRONLY | O_CREAT | O_TRUNC, 0600);
		kept[i] = dup(i + 1);
		dup2(fd, i + 1);
		close(fd);
	}
	FILE *ear = stderr; /* the fuzzer's entries listen by a stream */
	FILE *own = fdopen(dup(2), "w");
	stderr = own ? own : ear;
	const int code = command(argc, argv);
	fflush(NULL);
	if (own)
		fclose(own);
	stderr = ear;
	for (int i = 0; i < 2; i++) {
		dup2(kept[i], i + 1);
		close(kept[i]);
	}
	return code;
}

/* ---- what may come out --------------------------------------------------------------------- */
static int fault(char why[TEXTS_WHY], const char *where, const char *what, const char *text)
{
	char line[2 * TEXTS_WHY];
	snprintf(line, sizeof line, "%s: %s: %.200s", where, what, text);
	char *shown = shown_text(line);
	snprintf(why, TEXTS_WHY, "%s", shown ? shown : where);
	free(shown);
	return 0;
}

/* Only printable text, in lines. */
static int is_printable(const char *path, char why[TEXTS_WHY])
{
	size_t n;
	char *text = read_file(path, &n);
	const size_t at = text_fault(TEXT_LINES, text, n);
	const int ok = at == n || fault(why, path, "a control character", text + at);
	free(text);
	return ok;
}

static int says_only_text(int (*command)(int, char **), const char *line, char why[TEXTS_WHY])
{
	run(command, line);
	return is_printable(in_folder("out"), why) && is_printable(in_folder("err"), why);
}

/* A header's code: comments and what stands in quotes are left out, words become 'w', numbers '0'. */
static char *code_of(const char *text)
{
	char *code = malloc(strlen(text) + 1), *to = code;
	while (code && *text) {
		if (!strncmp(text, "/*", 2)) {
			const char *end = strstr(text + 2, "*/");
			text = end ? end + 2 : text + strlen(text);
		} else if (*text == '"') {
			*to++ = '"';
			text += 1 + strcspn(text + 1, "\"\n");
			text += *text == '"';
		} else if (isalnum((unsigned char)*text) || *text == '_') {
			*to++ = isdigit((unsigned char)*text) ? '0' : 'w';
			while (isalnum((unsigned char)*text) || *text == '_')
				text++;
		} else {
			if (!isspace((unsigned char)*text))
				*to++ = *text;
			text++;
		}
	}
	if (code)
		*to = '\0';
	return code;
}

static int compiles(const char *header)
{
	char command[600];
	snprintf(command, sizeof command,
		 "cc -std=c11 -fsyntax-only -Werror -Wcomment -Ikernels -x c %s 2>%s", header,
		 in_folder("cc"));
	return system(command) == 0;
}

/* Names from the database are single words, so the code stays the same but for words and numbers. is_name:
 * the text may be the name of another kernel or choice, for which other code is right. */
static int header_is_sound(const char *header, int is_name, char why[TEXTS_WHY])
{
	size_t n;
	char *text = read_file(header, &n), *base = read_file(in_folder("base.h"), &n);
	char *code = code_of(text), *expected = code_of(base);
	int ok = is_printable(header, why);
	texts_headers++;
	for (const char *c = text; ok && *c; c++)
		if ((unsigned char)*c > 0x7e || strstr(c, "\?\?/") == c)
			ok = fault(why, header, "more than ASCII, or a trigraph", c);
	if (ok && !is_name && strcmp(code, expected))
		ok = fault(why, header, "other code than by the unchanged database", text);
	if (ok && !compiles(header))
		ok = fault(why, header, "does not compile", text);
	free(text);
	free(base);
	free(code);
	free(expected);
	return ok;
}

/* The programs for gnuplot: assignments of texts and the lines of the pictures' scripts. */
static int programs_are_sound(char why[TEXTS_WHY])
{
	size_t n;
	const char *path = in_folder("programs");
	char *text = read_file(path, &n);
	int ok = is_printable(path, why);
	texts_programs += n > 0;
	if (ok && (*text == '!' || strstr(text, "\n!") || strchr(text, '`')))
		ok =
		    fault(why, path, "a command", strstr(text, "\n!") ? strstr(text, "\n!") : text);
	free(text);
	return ok && (access(in_folder("pwned"), F_OK) ||
		      fault(why, path, "a command ran", "the file pwned is there"));
}

/* ---- the commands -------------------------------------------------------------------------- */
/* Prints each table in another format; the next case prints it in the format after that. */
static int shows(char why[TEXTS_WHY])
{
	static const char *const format[] = { "table", "tsv", "csv", "markdown", "json" };
	static const char *const what[] = { "--best", "--ceilings", "--stale",
					    "--model llama3.1-8b@1 --batch 4q1s1k" };
	static size_t turn;
	char line[1000];
	turn++;
	for (size_t w = 0; w < COUNT(what); w++) {
		snprintf(line, sizeof line, "--gpu h200 --db %s --header %s --format %s %s",
			 in_folder("case.sqlite"), in_folder("base.h"),
			 format[(turn + w) % COUNT(format)], what[w]);
		if (!says_only_text(cmd_show, line, why))
			return 0;
	}
	return 1;
}

static int plots(char why[TEXTS_WHY])
{
	char line[1000];
	unlink(in_folder("programs"));
	snprintf(line, sizeof line, "--gpu h200 --db %s --header %s --out %s --pictures %s",
		 in_folder("case.sqlite"), in_folder("base.h"), folder, in_folder("pictures"));
	return says_only_text(cmd_plot, line, why) && programs_are_sound(why);
}

static int induces(const char *db, const char *header, int is_name, char why[TEXTS_WHY])
{
	char line[1000];
	unlink(header);
	snprintf(line, sizeof line, "--gpu h200 --db %s --out %s", db, header);
	return says_only_text(cmd_induce, line, why) &&
	       (access(header, F_OK) || header_is_sound(header, is_name, why));
}

static int merges(char why[TEXTS_WHY])
{
	char line[1000];
	unlink(in_folder("into.sqlite"));
	snprintf(line, sizeof line, "%s %s", in_folder("into.sqlite"), in_folder("case.sqlite"));
	return says_only_text(cmd_merge, line, why);
}

/* ---- one case ------------------------------------------------------------------------------ */
/* SQL that adds a row to the two tables that have none in the base. */
static const char *first_row(const char *table)
{
	return !strcmp(table, "seal")
		   ? "INSERT INTO seal VALUES (1, '00000000000000000000000000000000')"
	       : !strcmp(table, "basis") ? "INSERT INTO basis VALUES (1, 'h200', '', '', '')"
					 : "";
}

static int has_rowids(const char *table)
{
	return strcmp(table, "basis") && strcmp(table, "failure") && strcmp(table, "bridge_race") &&
	       strcmp(table, "settled_member");
}

static int put_text(int c, const void *bytes, size_t n, char why[TEXTS_WHY])
{
	char sql[300];
	sqlite3 *db = NULL;
	sqlite3_stmt *st = NULL;
	snprintf(sql, sizeof sql, "UPDATE %s SET %s = ?1 %s%s%s", column[c].table, column[c].name,
		 has_rowids(column[c].table) ? "WHERE rowid = (SELECT min(rowid) FROM " : "",
		 has_rowids(column[c].table) ? column[c].table : "",
		 has_rowids(column[c].table) ? ")" : "");
	const int ok =
	    copy_file(in_folder("case.sqlite"), in_folder("base.sqlite")) &&
	    sqlite3_open(in_folder("case.sqlite"), &db) == SQLITE_OK &&
	    sqlite3_exec(db, "PRAGMA ignore_check_constraints = 1; PRAGMA synchronous = OFF", NULL,
			 NULL, NULL) == SQLITE_OK &&
	    sqlite3_exec(db, first_row(column[c].table), NULL, NULL, NULL) == SQLITE_OK &&
	    sqlite3_prepare_v2(db, sql, -1, &st, NULL) == SQLITE_OK &&
	    sqlite3_bind_text(st, 1, bytes, (int)n, SQLITE_STATIC) == SQLITE_OK &&
	    sqlite3_step(st) == SQLITE_DONE && sqlite3_changes(db) > 0;
	if (!ok)
		fault(why, column[c].whole, "the case cannot be made", sqlite3_errmsg(db));
	sqlite3_finalize(st);
	sqlite3_close(db);
	return ok;
}

static int opens(int argc, char **argv)
{
	struct store *s = store_open(argv[argc - 1], 1);
	store_close(s);
	return s ? EXIT_DONE : EXIT_USAGE;
}

/* One line that names the column. */
static int is_refused_well(int c, char why[TEXTS_WHY])
{
	size_t n;
	char *line = read_file(in_folder("err"), &n);
	const char *end = strchr(line, '\n');
	int ok = is_printable(in_folder("err"), why);
	if (ok &&
	    (!end || end[1] || !strstr(line, column[c].table) || !strstr(line, column[c].name)))
		ok = fault(why, column[c].whole, "refused without a line that names it", line);
	if (ok)
		snprintf(why, TEXTS_WHY, "%.*s", (int)(end - line), line);
	free(line);
	return ok;
}

static int names_choices(int c)
{
	static const char *const tables[] = { "family",   "variant",      "code",          "build",
					      "ending",   "stage",        "phase",         "basis",
					      "scenario", "settled_name", "settled_member" };
	for (size_t i = 0; i < COUNT(tables); i++)
		if (!strcmp(column[c].table, tables[i]))
			return 1;
	return 0;
}

/* Pictures show little of the other tables: one in eight of their cases is drawn. */
static int is_to_be_drawn(int c)
{
	enum { ONE_IN = 8 };
	static int turn;
	return !strcmp(column[c].table, "device") || !strcmp(column[c].table, "scenario") ||
	       !strcmp(column[c].table, "family") || !strcmp(column[c].name, "protocol") ||
	       turn++ % ONE_IN == 0;
}

enum texts_found texts_try(int c, const void *bytes, size_t n, char why[TEXTS_WHY])
{
	if (!put_text(c, bytes, n, why))
		return TEXTS_FAULT;
	if (run(opens, in_folder("case.sqlite")) != EXIT_DONE)
		return is_refused_well(c, why) ? TEXTS_REFUSED : TEXTS_FAULT;
	snprintf(why, TEXTS_WHY, "%s", "");
	return shows(why) && (!is_to_be_drawn(c) || plots(why)) && merges(why) &&
		       induces(in_folder("case.sqlite"), in_folder("case.h"), names_choices(c), why)
		   ? TEXTS_TAKEN
		   : TEXTS_FAULT;
}

/* ---- all of them ---------------------------------------------------------------------------- */
static int list_columns(void)
{
	static const char sql[] =
	    "SELECT t.name, c.name FROM sqlite_schema AS t JOIN pragma_table_info(t.name) AS c"
	    " WHERE t.type = 'table' AND c.type = 'TEXT' ORDER BY 1, 2";
	sqlite3 *db = NULL;
	sqlite3_stmt *st = NULL;
	int ok = sqlite3_open(in_folder("base.sqlite"), &db) == SQLITE_OK &&
		 sqlite3_prepare_v2(db, sql, -1, &st, NULL) == SQLITE_OK;
	for (num_columns = 0; ok && sqlite3_step(st) == SQLITE_ROW && num_columns < MOST_COLUMNS;
	     num_columns++) {
		const char *table = (const char *)sqlite3_column_text(st, 0);
		const char *name = (const char *)sqlite3_column_text(st, 1);
		snprintf(column[num_columns].table, sizeof column->table, "%s", table);
		snprintf(column[num_columns].name, sizeof column->name, "%s", name);
		snprintf(column[num_columns].whole, sizeof column->whole, "%.32s.%.32s", table,
			 name);
	}
	sqlite3_finalize(st);
	sqlite3_close(db);
	return ok && num_columns > 40;
}

/* A gnuplot that keeps what it is given, and does what a line with '!' says. */
static int make_gnuplot(void)
{
	static const char *const picture[] = { "style.gp",    "style.sql", "kernels.gp",
					       "kernels.sql", "regret.gp", "regret.sql" };
	char text[600], path[4096], from[64], to[64];
	int ok = !mkdir(in_folder("bin"), 0700) && !mkdir(in_folder("pictures"), 0700);
	snprintf(text, sizeof text,
		 "#!/bin/sh\ncat \"$2\" >>%s/programs\ncd %s && sed -n 's/^!//p' \"$2\" | sh\n",
		 folder, folder);
	ok = ok && write_file(in_folder("bin/gnuplot"), text, 0700);
	snprintf(path, sizeof path, "%s:%s", in_folder("bin"), getenv("PATH"));
	for (size_t i = 0; ok && i < COUNT(picture); i++) {
		snprintf(from, sizeof from, "tuner/plot/pictures/%s", picture[i]);
		snprintf(to, sizeof to, "pictures/%s", picture[i]);
		ok = copy_file(in_folder(to), from);
	}
	return ok && !setenv("PATH", path, 1);
}

int texts_begin(void)
{
	char why[TEXTS_WHY] = "";
	return mkdtemp(folder) && texts_make_base(in_folder("base.sqlite")) && list_columns() &&
	       make_gnuplot() && copy_file(in_folder("case.sqlite"), in_folder("base.sqlite")) &&
	       induces(in_folder("base.sqlite"), in_folder("base.h"), 1, why) &&
	       !access(in_folder("base.h"), F_OK) && plots(why) &&
	       !access(in_folder("programs"), F_OK);
}

void texts_end(void)
{
	remove_folder(NULL);
}

int texts_columns(void)
{
	return num_columns;
}

const char *texts_column(int c)
{
	return column[c].whole;
}
