/* SPDX-License-Identifier: Apache-2.0 */
/* pictures.c - reads the two files of a picture and asks its query.
 *
 *   -- size: WIDTH HEIGHT           three comments in NAME.sql; needs: what is missing where there
 *   -- needs: TEXT                  are no rows; database: ask that of a race with plug-ins, if there
 *   -- database: peers              is one
 *   SELECT 1 AS "set", v AS NAME    each other column becomes a variable of gnuplot
 *   SELECT n AS block, x, y         rows of gnuplot's index n, in order of blocks; NULL is printed as NaN
 *
 * The variable `filled` has the number of rows of each block. */
#include "plot.h"
#include "harness/base/base.h"
#include "harness/base/text_rule.h"
#include "harness/scratch/scratch.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *picture_part(const char *folder, const char *name, const char *suffix)
{
	char path[PATH_TEXT];
	snprintf(path, sizeof path, "%s/%s.%s", folder, name, suffix);
	char *text = file_text(path);
	if (!text)
		complain("%s: %s", path, strerror(errno));
	return text;
}

void picture_free(struct picture *p)
{
	free(p->sql);
	free(p->script);
}

int picture_load(struct picture *p, const char *folder, const char *name)
{
	*p = (struct picture){ .sql = picture_part(folder, name, "sql"),
			       .script = picture_part(folder, name, "gp") };
	snprintf(p->name, sizeof p->name, "%s", name);
	if (!p->sql || !p->script)
		return 0;
	const char *size = strstr(p->sql, "-- size: "), *needs = strstr(p->sql, "-- needs: ");
	p->of_peers = strstr(p->sql, "-- database: peers") != NULL;
	if (size && sscanf(size, "-- size: %d %d", &p->width, &p->height) == 2 && needs &&
	    sscanf(needs, "-- needs: %159[^\n]", p->needs) == 1)
		return 1;
	complain("%s/%s.sql: the lines \"-- size: WIDTH HEIGHT\" and \"-- needs: ...\" are "
		 "expected",
		 folder, name);
	return 0;
}

/* Between two "'" gnuplot takes all characters as they are, but a line feed ends the command. A
 * text that a picture gives to `eval` is read a second time. */
static int can_be_drawn(const char *name, const char *text)
{
	if (text_keeps(TEXT_DRAWN, text))
		return 1;
	complain("%s is \"%.60s\"; in a picture it must be %s", name, text,
		 text_rule_says(TEXT_DRAWN));
	return 0;
}

int setting_text(FILE *f, const char *name, const char *text)
{
	if (!can_be_drawn(name, text))
		return 0;
	fprintf(f, "%s = '", name);
	for (; *text; text++)
		fprintf(f, *text == '\'' ? "''" : "%c", *text);
	fputs("'\n", f);
	return 1;
}

/* ---- queries -------------------------------------------------------------------------- */
enum { MAX_BLOCKS = 256 };
struct answers {
	FILE *rows, *settings;
	long long block;        /* the one that rows go to; -1: none yet */
	int filled[MAX_BLOCKS]; /* rows of each */
	int points;             /* rows of all */
};

static int print_value(FILE *f, const struct scratch_value *v)
{
	if (v->text && !can_be_drawn(v->name, v->text))
		return 0;
	if (v->is_null)
		fputs("NaN", f); /* as gnuplot calls it in scripts; it reads it in data, too */
	else if (v->text)
		fputs(v->text, f);
	else if (v->is_real)
		fprintf(f, "%g", v->real);
	else
		fprintf(f, "%lld", v->integer);
	return 1;
}

static int print_setting(FILE *f, const struct scratch_value *v)
{
	if (v->text)
		return setting_text(f, v->name, v->text);
	fprintf(f, "%s = ", v->name);
	return print_value(f, v) && putc('\n', f) != EOF;
}

static int take_answer(void *arg, int statement, const struct scratch_value *v, int n)
{
	struct answers *a = arg;
	(void)statement;
	if (!strcmp(v[0].name, "set")) {
		for (int i = 1; i < n; i++)
			if (!print_setting(a->settings, &v[i]))
				return 0;
		return 1;
	}
	if (strcmp(v[0].name, "block") || v[0].integer < a->block || v[0].integer >= MAX_BLOCKS) {
		complain("a query's first column is neither \"set\" nor a \"block\" in order");
		return 0;
	}
	while (a->block < v[0].integer) {
		if (a->block >= 0)
			fputs(a->filled[a->block] ? "\n\n" : "NaN\n\n\n", a->rows);
		a->block++;
	}
	for (int i = 1; i < n; i++) {
		fputs(i > 1 ? " " : "", a->rows);
		if (!print_value(a->rows, &v[i]))
			return 0;
	}
	putc('\n', a->rows);
	a->filled[v[0].integer]++;
	a->points++;
	return 1;
}

static void end_answers(struct answers *a)
{
	fputs("filled = \"", a->settings);
	for (int i = 0; i <= a->block; i++)
		fprintf(a->settings, "%s%d", i ? " " : "", a->filled[i]);
	fputs("\"\n", a->settings);
}

int picture_ask(const struct picture *picture, struct scratch *t, FILE *rows, FILE *settings)
{
	struct answers a = { .rows = rows, .settings = settings, .block = -1 };
	const int done = scratch_ask(t, picture->name, picture->sql, take_answer, &a);
	end_answers(&a);
	return done ? a.points : -1;
}

int style_ask(const char *sql, struct scratch *t, FILE *settings)
{
	struct answers a = { .settings = settings };
	return scratch_ask(t, "style.sql", sql, take_answer, &a);
}
