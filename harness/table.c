/* table.c - one table, three forms: aligned for people, TSV, JSON. JSON is
 * written here by hand: an array of flat objects, one a line. */
#include "harness.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct cell {
	char *text; /* NULL: empty */
	int is_number;
};

struct table {
	enum format format;
	const char *const *columns;
	int num_columns, at; /* at: cells of the row begun */
	struct cell *cells;  /* row by row */
	size_t used, room;
	int failed; /* out of memory: nothing will be printed */
};

int format_parse(const char *word, enum format *format)
{
	static const char *const words[] = {
		[FORMAT_TABLE] = "table", [FORMAT_TSV] = "tsv", [FORMAT_JSON] = "json"
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

static void add(struct table *t, const char *text, int is_number)
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
	t->cells[t->used] = (struct cell){ .is_number = is_number };
	if (text && !(t->cells[t->used].text = strdup(text)))
		t->failed = 1;
	t->used++;
	t->at++;
}

void table_text(struct table *t, const char *cell)
{
	add(t, cell, 0);
}

void table_number(struct table *t, double cell, int decimals)
{
	char text[400];
	snprintf(text, sizeof text, "%.*f", decimals, cell);
	add(t, isfinite(cell) ? text : NULL, 1);
}

/* Cells that were not given are empty. */
void table_end_row(struct table *t)
{
	while (t && !t->failed && t->at < t->num_columns)
		add(t, NULL, 0);
	if (t)
		t->at = 0;
}

/* ---- TSV: the same escapes as in C for the three that would break a row ------ */
static void put_tsv(FILE *f, const char *text)
{
	for (; *text; text++)
		switch (*text) {
		case '\t': fputs("\\t", f); break;
		case '\n': fputs("\\n", f); break;
		case '\\': fputs("\\\\", f); break;
		default: fputc(*text, f);
		}
}

static void print_tsv(const struct table *t, FILE *f)
{
	for (int c = 0; c < t->num_columns; c++)
		fprintf(f, "%s%s", c ? "\t" : "", t->columns[c]);
	fputc('\n', f);
	for (size_t i = 0; i < t->used; i++) {
		if (t->cells[i].text)
			put_tsv(f, t->cells[i].text);
		fputc((i + 1) % (size_t)t->num_columns ? '\t' : '\n', f);
	}
}

/* ---- JSON --------------------------------------------------------------------- */
/* Length of the UTF-8 sequence at s, 0 when it is none (overlong, surrogate,
 * above U+10FFFF, cut short). */
static int utf8_length(const unsigned char *s)
{
	int n = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
	if (s[0] > 0xf4)
		return 0;
	for (int i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
	    (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return n;
}

void json_quote(FILE *f, const char *text)
{
	const unsigned char *s = (const unsigned char *)text;
	fputc('"', f);
	while (*s) {
		int n = utf8_length(s);
		if (!n)
			fputs("\\ufffd", f); /* not UTF-8: a compiler's log may be anything */
		else if (*s == '"' || *s == '\\')
			fprintf(f, "\\%c", *s);
		else if (*s == '\n')
			fputs("\\n", f);
		else if (*s == '\t')
			fputs("\\t", f);
		else if (*s < 0x20 || *s == 0x7f)
			fprintf(f, "\\u%04x", *s);
		else
			fwrite(s, 1, (size_t)n, f);
		s += n ? n : 1;
	}
	fputc('"', f);
}

static void print_json(const struct table *t, FILE *f)
{
	size_t columns = (size_t)t->num_columns;
	fputs("[\n", f);
	for (size_t i = 0; i < t->used; i++) {
		const struct cell *c = &t->cells[i];
		fputs(i % columns ? ", " : " {", f);
		json_quote(f, t->columns[i % columns]);
		fputs(": ", f);
		if (!c->text)
			fputs("null", f);
		else if (c->is_number)
			fputs(c->text, f);
		else
			json_quote(f, c->text);
		if ((i + 1) % columns == 0)
			fputs(i + 1 < t->used ? "},\n" : "}\n", f);
	}
	fputs("]\n", f);
}

/* ---- for people ---------------------------------------------------------------- */
static int width_of(const char *text)
{
	int n = 0;
	for (; text && *text; text++)
		n += (*text & 0xc0) != 0x80;
	return n;
}

/* A column of numbers, empty cells aside, stands right-aligned. */
static int measure(const struct table *t, int column, int *width)
{
	int numbers = 0;
	*width = width_of(t->columns[column]);
	for (size_t i = (size_t)column; i < t->used; i += (size_t)t->num_columns) {
		const struct cell *c = &t->cells[i];
		int w = width_of(c->text);
		if (w > *width)
			*width = w;
		if (c->text && !c->is_number)
			numbers = -1;
		else if (c->text && !numbers)
			numbers = 1;
	}
	return numbers == 1;
}

static void put_padded(FILE *f, const char *text, int width, int right, int last)
{
	int blanks = width - width_of(text);
	if (right)
		fprintf(f, "%*s", blanks, "");
	for (const char *s = text ? text : ""; *s; s++)
		fputc(*s == '\n' || *s == '\t' ? ' ' : *s, f);
	if (!right && !last)
		fprintf(f, "%*s", blanks, "");
	fputs(last ? "\n" : "  ", f);
}

static void print_aligned(const struct table *t, FILE *f)
{
	int *width = calloc((size_t)t->num_columns, 2 * sizeof *width), *right;
	if (!width) {
		complain("out of memory");
		return;
	}
	right = width + t->num_columns;
	for (int c = 0; c < t->num_columns; c++)
		right[c] = measure(t, c, &width[c]);
	for (int c = 0; c < t->num_columns; c++)
		put_padded(f, t->columns[c], width[c], right[c], c + 1 == t->num_columns);
	for (size_t i = 0; i < t->used; i++) {
		int c = (int)(i % (size_t)t->num_columns);
		put_padded(f, t->cells[i].text, width[c], right[c], c + 1 == t->num_columns);
	}
	free(width);
}

void table_print(struct table *t, FILE *f)
{
	static void (*const print[])(const struct table *, FILE *) = {
		[FORMAT_TABLE] = print_aligned, [FORMAT_TSV] = print_tsv, [FORMAT_JSON] = print_json
	};
	if (!t || t->failed)
		complain("out of memory");
	else
		print[t->format](t, f);
	for (size_t i = 0; t && i < t->used; i++)
		free(t->cells[i].text);
	if (t)
		free(t->cells);
	free(t);
}
