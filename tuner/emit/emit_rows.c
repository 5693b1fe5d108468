/* SPDX-License-Identifier: Apache-2.0 */
/* emit_rows.c - writes the enum of a header's answers, and for each choice that a leaf names its row:
 * the choices that may run in its place. */
#include "writing.h"
#include "kernels/select/header_text.h"
#include "tuner/forest/forest.h"

static const char *member(const struct emitter *e, const struct attune_list *row, int i)
{
	return i < row->n ? e->name[row->at[i]] : "none";
}

/* The widest name in a column. */
static int widest(const struct emitter *e, int column)
{
	int most = 0;
	for (int id = 0; id < e->f->num_choices; id++)
		if (forest_has_row(e->f, id))
			most = (int)max_of(most,
					   (long long)strlen(member(e, &e->f->list[id], column)));
	return most;
}

/* Above the columns; nothing without a row. */
static void emit_columns(const struct emitter *e, const int width[ATTUNE_LIST_MEMBERS])
{
	if (!width[0])
		return;
	fprintf(e->out,
		"/* Of a row the first choice runs that the batch allows: the one that a leaf "
		"names, two rivals,\n"
		" * and a stand-in, learned where the first is not legal. By estimate: no time "
		"chose it.\n"
		" *\n"
		" *           %-*s  %-*s  stand-in */\n",
		width[0], "first", width[1] + width[2] + 2, "rivals");
}

/* "by estimate: segmented_16x64", behind the row. */
static void emit_marks(const struct emitter *e, int id)
{
	const struct attune_list *row = &e->f->list[id];
	const unsigned marks = e->f->by_estimate[id];
	for (int i = 0, n = 0; i < row->n; i++)
		if (marks >> i & 1)
			fprintf(e->out, "%s%s", n++ ? ", " : " /* " BY_ESTIMATE ": ",
				member(e, row, i));
	fputs(marks ? " */" : "", e->out);
}

static void emit_lists(const struct emitter *e)
{
	int width[ATTUNE_LIST_MEMBERS];
	for (int i = 0; i < ATTUNE_LIST_MEMBERS; i++)
		width[i] = widest(e, i);
	emit_columns(e, width);
	fprintf(e->out, "#define ATTUNE_%s_LISTS(LIST)", e->upper);
	for (int id = 0; id < e->f->num_choices; id++) {
		if (!forest_has_row(e->f, id))
			continue;
		fputs(" \\\n\tLIST(", e->out);
		for (int i = 0; i < ATTUNE_LIST_MEMBERS; i++) {
			const char *name = member(e, &e->f->list[id], i);
			const int last = i == ATTUNE_LIST_MEMBERS - 1;
			fprintf(e->out, "%s%s%*s", name, last ? ")" : ", ",
				last ? 0 : padding(width[i], name), "");
		}
		emit_marks(e, id);
	}
	fputs("\n", e->out);
}

void emit_rows(const struct emitter *e)
{
	char list[HEADER_CODE], answers[2][HEADER_CODE];
	header_enum(answers, e->f->gpu, e->upper);
	header_list_function(list, e->f->gpu, e->upper);
	fprintf(e->out, "%s%s\n};\n\n", answers[0], answers[1]);
	emit_lists(e);
	fprintf(e->out, "\n%s\n", list);
}
