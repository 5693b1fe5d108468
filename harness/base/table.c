/* SPDX-License-Identifier: Apache-2.0 */
/* table.c - prints a table in five formats: aligned or markdown for people; TSV, CSV and JSON (a
 * list of flat objects, one per line) for machines. */
#include "base.h"
#include "json_out.h"
#include "text_rule.h"
#include "kernels/spec/choice.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cell {
	char *text; /* UTF-8; NULL: empty */
	int is_number, decimals;
	double number;
};

struct table {
	enum format format;
	const char *const *columns;
	int num_columns, at; /* at: cells in the current row */
	struct cell *cells;  /* row by row */
	size_t used, room;
	int failed; /* out of memory: prints nothing */
};

int format_for_people(enum format format)
{
	return format == FORMAT_TABLE || format == FORMAT_MARKDOWN;
}

int format_has_notes(enum format format)
{
	return format == FORMAT_TABLE || format == FORMAT_TSV;
}

int format_parse(const char *word, enum format *format)
{
	static const char *const words[NUM_FORMATS] = {
		[FORMAT_TABLE] = "table",       [FORMAT_TSV] = "tsv",   [FORMAT_CSV] = "csv",
		[FORMAT_MARKDOWN] = "markdown", [FORMAT_JSON] = "json",
	};
	for (size_t i = 0; i < COUNT(words); i++)
		if (!strcmp(word, words[i])) {
			*format = (enum format)i;
			return 1;
		}
	return 0;
}

struct table *table_new(enum format format, const char *const *columns, int num_columns)
{
	struct table *t = calloc(1, sizeof *t);
	if (t)
		*t = (struct table){ .format = format,
				     .columns = columns,
				     .num_columns = num_columns };
	return t;
}

static void add(struct table *t, const char *text, struct cell cell)
{
	struct cell *cells;
	if (!t || t->failed || t->at == t->num_columns)
		return;
	if (t->used == t->room) {
		size_t room = t->room ? 2 * t->room : 256;
		cells = realloc(t->cells, room * sizeof *cells);
		if (!cells) {
			t->failed = 1;
			return;
		}
		t->cells = cells;
		t->room = room;
	}
	cell.text = text ? utf8_text(text) : NULL;
	t->failed = text && !cell.text;
	t->cells[t->used++] = cell;
	t->at++;
}

void table_text(struct table *t, const char *cell)
{
	add(t, cell, (struct cell){ 0 });
}

void table_number(struct table *t, double cell, int decimals)
{
	char text[400];
	snprintf(text, sizeof text, "%.*f", decimals, cell);
	add(t, isfinite(cell) ? text : NULL,
	    (struct cell){ .is_number = 1, .decimals = decimals, .number = cell });
}

/* Missing cells are empty. */
void table_end_row(struct table *t)
{
	while (t && !t->failed && t->at < t->num_columns)
		add(t, NULL, (struct cell){ 0 });
	if (t)
		t->at = 0;
}

void table_add(struct table *t, const char *format, ...)
{
	va_list ap;
	va_start(ap, format);
	for (const char *at = format; (at = strpbrk(at, "sdf\n")); at++)
		switch (*at) {
		case 's': table_text(t, va_arg(ap, const char *)); break;
		case 'd': table_number(t, va_arg(ap, int), 0); break;
		case 'f': table_number(t, va_arg(ap, double), at[-1] - '0'); break;
		default: table_end_row(t);
		}
	va_end(ap);
}

/* ---- TSV and CSV --------------------------------------------------------------- */
/* Escapes control characters as in C, except those in `but`. Doubles the character `twice`. */
static void put_escaped(FILE *f, const char *text, char twice, const char *but)
{
	for (size_t n; *text; text += n) {
		char shown[CONTROL_ESCAPE] = { *text };
		int code;
		n = control_character(text, &code);
		if (n && !strchr(but, *text))
			control_escape(shown, code);
		n = n ? n : 1;
		fprintf(f, "%s%s", *text == twice ? shown : "", shown);
	}
}

static void put_tsv(FILE *f, const char *text)
{
	put_escaped(f, text, '\\', "");
}

/* RFC 4180, but with '\n' at line ends. */
static void put_csv(FILE *f, const char *text)
{
	const char *quote = strpbrk(text, ",\"\n") ? "\"" : "";
	fputs(quote, f);
	put_escaped(f, text, '"', "\t\n");
	fputs(quote, f);
}

static void print_separated(const struct table *t, FILE *f, char separator,
			    void (*put)(FILE *, const char *))
{
	for (int c = 0; c < t->num_columns; c++) {
		put(f, t->columns[c]);
		fputc(c + 1 < t->num_columns ? separator : '\n', f);
	}
	for (size_t i = 0; i < t->used; i++) {
		if (t->cells[i].text)
			put(f, t->cells[i].text);
		fputc((i + 1) % (size_t)t->num_columns ? separator : '\n', f);
	}
}

static void print_tsv(const struct table *t, FILE *f)
{
	print_separated(t, f, '\t', put_tsv);
}

static void print_csv(const struct table *t, FILE *f)
{
	print_separated(t, f, ',', put_csv);
}

/* ---- JSON ---------------------------------------------------------------------- */
static void rows_json(const struct table *t, struct json_out *o, const char *key)
{
	const size_t columns = (size_t)t->num_columns;
	out_list(o, key);
	for (size_t i = 0; i < t->used; i++) {
		const struct cell *c = &t->cells[i];
		const char *name = t->columns[i % columns];
		if (!(i % columns))
			out_object(o, NULL);
		if (c->is_number)
			out_number(o, name, c->number, c->decimals);
		else
			out_text(o, name, c->text);
		if ((i + 1) % columns == 0)
			out_end(o);
	}
	out_end(o);
}

static void print_json(const struct table *t, FILE *f)
{
	struct json_out *o = out_new();
	rows_json(t, o, NULL);
	out_print(o, 1, f);
}

/* ---- for people ---------------------------------------------------------------- */
static int width_of(const char *text)
{
	int n = 0;
	for (; *text; text++)
		n += (*text & 0xc0) != 0x80;
	return n;
}

static char *table_form(const char *text)
{
	return shown_text(text);
}

/* Escapes the special characters of markdown, too. */
static char *markdown_form(const char *text)
{
	char *shown = shown_text(text), *escaped = shown ? malloc(2 * strlen(shown) + 1) : NULL;
	char *to = escaped;
	for (const char *s = shown; escaped && *s; s++) {
		if (strchr("|\\`*<", *s))
			*to++ = '\\';
		*to++ = *s;
	}
	if (escaped)
		*to = '\0';
	free(shown);
	return escaped;
}

/* The formatted table: [0, num_columns) are the titles, then the cells. */
struct printed {
	char **text;
	int *width, *is_right; /* of each column */
	size_t n;
};

static void layout_free(struct printed *l)
{
	for (size_t i = 0; l->text && i < l->n; i++)
		free(l->text[i]);
	free(l->text);
	free(l->width);
	free(l->is_right);
}

/* Right-aligns columns with only numbers and empty cells. */
static void measure(struct printed *l, const struct table *t, int column)
{
	const size_t columns = (size_t)t->num_columns;
	int numbers = 0, texts = 0;
	for (size_t i = (size_t)column; i < l->n; i += columns) {
		const struct cell *c = i < columns ? NULL : &t->cells[i - columns];
		const int w = width_of(l->text[i]);
		l->width[column] = w > l->width[column] ? w : l->width[column];
		numbers += c && c->text && c->is_number;
		texts += c && c->text && !c->is_number;
	}
	l->is_right[column] = numbers && !texts;
}

static int lay_out(struct printed *l, const struct table *t, char *(*form)(const char *))
{
	const size_t columns = (size_t)t->num_columns;
	*l = (struct printed){ .n = columns + t->used };
	l->text = calloc(l->n + 1, sizeof *l->text);
	l->width = calloc(columns + 1, sizeof *l->width);
	l->is_right = calloc(columns + 1, sizeof *l->is_right);
	int done = l->text && l->width && l->is_right;
	for (size_t i = 0; done && i < l->n; i++) {
		const char *text = i < columns ? t->columns[i] : t->cells[i - columns].text;
		done = (l->text[i] = form(text ? text : "")) != NULL;
	}
	for (int c = 0; done && c < t->num_columns; c++)
		measure(l, t, c);
	if (!done)
		output_lost();
	return done;
}

static void put_padded(FILE *f, const struct printed *l, size_t i, int column, int is_last)
{
	const int blanks = l->width[column] - width_of(l->text[i]);
	if (l->is_right[column])
		fprintf(f, "%*s%s", blanks, "", l->text[i]);
	else
		fprintf(f, "%s%*s", l->text[i], is_last ? 0 : blanks, "");
}

static void print_aligned(const struct table *t, FILE *f)
{
	struct printed l;
	if (lay_out(&l, t, table_form))
		for (size_t i = 0; i < l.n; i++) {
			const int column = (int)(i % (size_t)t->num_columns);
			const int is_last = column + 1 == t->num_columns;
			put_padded(f, &l, i, column, is_last);
			fputs(is_last ? "\n" : "  ", f);
		}
	layout_free(&l);
}

/* "---", or "--:" for numbers */
static void put_rule(FILE *f, const struct printed *l, int columns)
{
	for (int c = 0; c < columns; c++) {
		fputs("| ", f);
		for (int i = l->is_right[c]; i < l->width[c]; i++)
			fputc('-', f);
		fputs(l->is_right[c] ? ": " : " ", f);
	}
	fputs("|\n", f);
}

static void print_markdown(const struct table *t, FILE *f)
{
	enum { LEAST = 3 /* of a rule */ };
	const size_t columns = (size_t)t->num_columns;
	struct printed l;
	const int done = lay_out(&l, t, markdown_form);
	for (size_t c = 0; done && c < columns; c++)
		l.width[c] = l.width[c] < LEAST ? LEAST : l.width[c];
	for (size_t i = 0; done && i < l.n; i++) {
		fputs("| ", f);
		put_padded(f, &l, i, (int)(i % columns), 0);
		fputs((i + 1) % columns ? " " : " |\n", f);
		if (i + 1 == columns)
			put_rule(f, &l, t->num_columns);
	}
	layout_free(&l);
}

/* ---- any form ------------------------------------------------------------------ */
static void table_free(struct table *t)
{
	for (size_t i = 0; t && i < t->used; i++)
		free(t->cells[i].text);
	if (t)
		free(t->cells);
	free(t);
}

void table_print(struct table *t, FILE *f)
{
	static void (*const print[NUM_FORMATS])(const struct table *, FILE *) = {
		[FORMAT_TABLE] = print_aligned, [FORMAT_TSV] = print_tsv,
		[FORMAT_CSV] = print_csv,       [FORMAT_MARKDOWN] = print_markdown,
		[FORMAT_JSON] = print_json,
	};
	if (!t || t->failed)
		output_lost();
	else
		print[t->format](t, f);
	table_free(t);
}

void table_json(struct table *t, struct json_out *o, const char *key)
{
	if (!t || t->failed)
		output_lost();
	else
		rows_json(t, o, key);
	table_free(t);
}
