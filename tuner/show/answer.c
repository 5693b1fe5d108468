/* SPDX-License-Identifier: Apache-2.0 */
/* answer.c - prints what SQL answers as a table. */
#include "show.h"
#include "harness/base/base.h"
#include "harness/scratch/scratch.h"
#include "tuner/base/base.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_COLUMNS = 16, COLUMN_TEXT = 64 };

struct answer {
	struct table *t;
	enum format format;
	int most, n; /* rows to print, rows */
	char name[MAX_COLUMNS][COLUMN_TEXT];
	const char *column[MAX_COLUMNS];
};

static int begin(struct answer *a, const struct scratch_value *v, int columns)
{
	for (int i = 0; i < columns; i++) {
		snprintf(a->name[i], COLUMN_TEXT, "%s", v[i].name);
		a->column[i] = a->name[i];
	}
	a->t = table_new(a->format, a->column, columns);
	return a->t != NULL;
}

/* For people four digits, as many as the times have a meaning to. */
static int decimals(const struct answer *a, const struct scratch_value *v)
{
	const double size = format_for_people(a->format) ? fabs(v->real) : 0;
	return !v->is_real || size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : 3;
}

static void add_value(const struct answer *a, const struct scratch_value *v)
{
	if (v->text && !strcmp(v->name, "batch"))
		batch_cell(a->t, v->text, a->format);
	else if (v->text || v->is_null)
		table_text(a->t, v->text);
	else
		table_number(a->t, v->real, decimals(a, v));
}

static int take(void *arg, int statement, const struct scratch_value *v, int columns)
{
	struct answer *a = arg;
	(void)statement;
	columns = columns < MAX_COLUMNS ? columns : MAX_COLUMNS;
	if (!strcmp(v[0].name, "note")) {
		for (int i = 0; format_for_people(a->format) && i < columns; i++)
			show_note(a->format, "%s", v[i].text);
		return 1;
	}
	if (!a->t && !begin(a, v, columns))
		return 0;
	for (int i = 0; i < columns && a->n < a->most; i++)
		add_value(a, &v[i]);
	if (a->n++ < a->most)
		table_end_row(a->t);
	return 1;
}

int show_answer(struct scratch *s, const char *name, const char *sql, struct table *t,
		enum format format, int most)
{
	struct answer a = { .t = t, .format = format, .most = most };
	const int done = scratch_ask(s, name, sql, take, &a);
	if (a.t)
		table_print(a.t, stdout);
	return done ? a.n : -1;
}
