/* answer.c - prints what SQL answers as a table. */
#include "show.h"
#include "harness/base/base.h"
#include "harness/scratch/scratch.h"
#include "tuner/base/base.h"
#include <stdio.h>
#include <string.h>

struct answer {
	struct table *t;
	enum format format;
	int most, n; /* rows to print, rows */
};

static void add_value(const struct answer *a, const struct scratch_value *v)
{
	if (v->text && !strcmp(v->name, "batch"))
		batch_cell(a->t, v->text, a->format);
	else if (v->text || v->is_null)
		table_text(a->t, v->text);
	else
		table_number(a->t, v->real, v->is_real ? 3 : 0);
}

static int take(void *arg, int statement, const struct scratch_value *v, int columns)
{
	struct answer *a = arg;
	(void)statement;
	if (!strcmp(v[0].name, "note")) {
		for (int i = 0; format_for_people(a->format) && i < columns; i++)
			show_note(a->format, "%s", v[i].text);
	} else if (a->n++ < a->most) {
		for (int i = 0; i < columns; i++)
			add_value(a, &v[i]);
		table_end_row(a->t);
	}
	return 1;
}

int show_answer(struct scratch *s, const char *sql, struct table *t, enum format format, int most)
{
	struct answer a = { .t = t, .format = format, .most = most };
	const int done = scratch_ask(s, "attune", sql, take, &a);
	if (t)
		table_print(t, stdout);
	return done ? a.n : -1;
}
