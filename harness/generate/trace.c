/* SPDX-License-Identifier: Apache-2.0 */
/* trace.c - reads a request trace from CSV and scales its arrivals to a rate. */
#include "engine_sim.h"
#include "harness/base/base.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- CSV --------------------------------------------------------------------------- */
/* Fields are separated by commas, semicolons or tabs: by what the first line has first. Blanks around
 * a field do not count. A field in quotes may have separators, line ends and doubled quotes. A byte
 * order mark of UTF-8 is skipped, and so are blank lines. */
struct csv {
	FILE *f;
	const char *path;
	char *text; /* the record; fields are cut out of it */
	size_t room;
	int line, next; /* number of the record's first line, and of the line behind it */
	char separator; /* 0 before the first record */
	char **field;   /* [num_fields] without blanks and quotes around them */
	int *column;    /* where each began in the record, from 1 */
	int num_fields, max_fields;
};

static int csv_open(struct csv *c, const char *path)
{
	*c = (struct csv){ .f = fopen(path, "re"), .path = path, .next = 1 };
	if (!c->f)
		complain("%s: %s; a trace is a CSV file", path, strerror(errno));
	return c->f != NULL;
}

static void csv_close(struct csv *c)
{
	if (c->f)
		fclose(c->f);
	free(c->text);
	free(c->field);
	free(c->column);
	*c = (struct csv){ 0 };
}

static int refuse(const struct csv *c, int line, const char *why)
{
	complain("%s:%d:1: %s", c->path, line, why);
	return -1;
}

/* UTF-16 has NUL bytes, and a mark of its own. */
static const char *why_no_text(const char *text, size_t n)
{
	if (memchr(text, '\0', n) || !strncmp(text, "\xff\xfe", 2) || !strncmp(text, "\xfe\xff", 2))
		return "no text, or text in UTF-16; it must be in UTF-8";
	const char *cr = strchr(text, '\r');
	return cr && cr[1] && strcmp(cr, "\r\n") != 0
		   ? "lines end in CR alone; they must end in LF or CR LF"
		   : NULL;
}

static int count_quotes(const char *text)
{
	int n = 0;
	for (; (text = strchr(text, '"')); text++)
		n++;
	return n;
}

/* Appends a line at text + n. Returns its length; 0: the end; -1 + complain. */
static ssize_t read_line(struct csv *c, size_t n)
{
	char *line = NULL;
	size_t room = 0;
	errno = 0;
	const ssize_t got = getline(&line, &room, c->f);
	if (got < 0) {
		const int failed = !feof(c->f);
		if (failed)
			complain("%s: %s", c->path, errno ? strerror(errno) : "cannot be read");
		free(line);
		return failed ? -1 : 0;
	}
	const char *why = why_no_text(line, (size_t)got);
	char *more = why ? NULL : realloc(c->text, n + (size_t)got + 1);
	if (more) {
		memcpy(more + n, line, (size_t)got + 1);
		c->text = more;
	} else if (why) {
		refuse(c, c->next, why);
	} else {
		complain("out of memory");
	}
	c->next++;
	free(line);
	return more ? got : -1;
}

/* A line, and those below it while a quote is open. */
static ssize_t read_record(struct csv *c)
{
	size_t n = 0;
	int quotes = 0;
	c->line = c->next;
	do {
		const ssize_t got = read_line(c, n);
		if (got < 0)
			return -1;
		if (!got && n)
			return refuse(c, c->line, "a quote opens in this line and is not closed");
		if (!got)
			return 0;
		quotes += count_quotes(c->text + n);
		n += (size_t)got;
	} while (quotes % 2);
	return (ssize_t)n;
}

static int add_field(struct csv *c, char *field, int column)
{
	if (c->num_fields == c->max_fields) {
		const int room = c->max_fields ? 2 * c->max_fields : 16;
		char **fields = realloc(c->field, (size_t)room * sizeof *fields);
		c->field = fields ? fields : c->field;
		int *columns = realloc(c->column, (size_t)room * sizeof *columns);
		c->column = columns ? columns : c->column;
		if (!fields || !columns) {
			complain("out of memory");
			return 0;
		}
		c->max_fields = room;
	}
	c->column[c->num_fields] = column;
	c->field[c->num_fields++] = field;
	return 1;
}

static int is_blank(const struct csv *c, char ch)
{
	return ch == ' ' || (ch == '\t' && c->separator != '\t');
}

/* Takes the quotes off a field that begins with one. Returns what follows it in the record. */
static char *unquote(char *field)
{
	char *to = field, *from = field + 1;
	for (; *from && (*from != '"' || from[1] == '"'); from++) {
		from += *from == '"';
		*to++ = *from;
	}
	from += *from == '"';
	*to = '\0';
	return from;
}

/* Cuts the record into fields. */
static int split(struct csv *c, char *at)
{
	c->num_fields = 0;
	for (int more = 1; more;) {
		while (is_blank(c, *at))
			at++;
		char *field = at, *end;
		if (!add_field(c, field, (int)(field - c->text) + 1))
			return -1;
		if (*field == '"') {
			at = end = unquote(field);
			while (is_blank(c, *at))
				at++;
		} else {
			at += strcspn(at, (char[]){ c->separator, '\0' });
			for (end = at; end > field && is_blank(c, end[-1]);)
				end--;
		}
		if (*at && *at != c->separator)
			return refuse(c, c->line,
				      "text follows a field in quotes; a separator must");
		more = *at == c->separator;
		at += more;
		*end = '\0';
	}
	return 1;
}

/* What stands first of the three outside of quotes. */
static char separator_of(const char *text)
{
	for (int quoted = 0; *text; text++) {
		quoted ^= *text == '"';
		if (!quoted && strchr(",;\t", *text))
			return *text;
	}
	return ',';
}

static int csv_next(struct csv *c)
{
	static const char mark[] = "\xef\xbb\xbf";
	for (;;) {
		ssize_t n = read_record(c);
		if (n <= 0)
			return (int)n;
		while (n && strchr("\r\n", c->text[n - 1]))
			c->text[--n] = '\0';
		char *at = c->text;
		if (c->line == 1 && !strncmp(at, mark, strlen(mark)))
			at += strlen(mark);
		if (!at[strspn(at, " \t")])
			continue;
		if (!c->separator)
			c->separator = separator_of(at);
		return split(c, at);
	}
}

/* ---- traces ------------------------------------------------------------------------ */

enum { ARRIVAL, PROMPT, OUTPUT, CACHED, NUM_COLUMNS, SHOWN = 40 };
static const char *const column_names[] = { "arrival_s", "prompt_tokens", "output_tokens",
					    "cached_prefix_tokens" /* optional */ };
/* Unix times in seconds are below, in milliseconds above. */
static const double most_arrival = 1e11, most_tokens = 999999999;

/* The index of a column; -1: absent; -2 + complain: there are two. */
static int find_column(const struct csv *c, const char *name)
{
	int found = -1;
	for (int i = 0; i < c->num_fields; i++) {
		if (strcmp(c->field[i], name) != 0)
			continue;
		if (found >= 0) {
			complain("%s:%d:%d: a second column \"%s\"; there must be one", c->path,
				 c->line, c->column[i], name);
			return -2;
		}
		found = i;
	}
	return found;
}

/* Finds the index of each column. */
static int read_header(struct csv *c, int *where)
{
	const int any = csv_next(c);
	if (any < 0)
		return 0;
	for (int i = 0; i < NUM_COLUMNS; i++) {
		where[i] = any ? find_column(c, column_names[i]) : -1;
		if (where[i] == -2)
			return 0;
		if (where[i] >= 0 || i == CACHED)
			continue;
		complain("%s:%d:1: no column \"%s\"; the first line must name arrival_s, "
			 "prompt_tokens and output_tokens",
			 c->path, any ? c->line : 1, column_names[i]);
		return 0;
	}
	return 1;
}

static int read_number(const struct csv *c, int column, int at, double *v)
{
	const char *text = c->field[at];
	char *end;
	*v = strtod(text, &end);
	/* strtod would also take 0x20, nan and inf */
	const int is_number = *text && !*end && strspn(text, "0123456789+-.eE") == strlen(text);
	if (is_number && *v >= 0 &&
	    (column == ARRIVAL ? *v < most_arrival : *v <= most_tokens && *v == floor(*v)))
		return 1;
	complain("%s:%d:%d: %s is \"%.*s\"; it must be %s", c->path, c->line, c->column[at],
		 column_names[column], SHOWN, text,
		 column == ARRIVAL ? "a number of seconds, 0 or more, below 1e11"
				   : "a whole number from 0 to 999999999");
	return 0;
}

static int read_row(const struct csv *c, int num_columns, const int *where, double *v)
{
	if (c->num_fields != num_columns) {
		complain("%s:%d:1: %d fields; there must be %d, as in the first line", c->path,
			 c->line, c->num_fields, num_columns);
		return 0;
	}
	for (int i = 0; i < NUM_COLUMNS; i++) {
		v[i] = 0;
		if (where[i] >= 0 && !read_number(c, i, where[i], &v[i]))
			return 0;
	}
	return 1;
}

/* 1: added or dropped; 0 after a complaint. */
static int take_row(struct trace *t, int *room, const double *v, int max_tokens, const char *path,
		    int number)
{
	const struct request one = { 1e3 * v[ARRIVAL], (int)v[PROMPT], (int)v[OUTPUT],
				     (int)v[CACHED] };
	if (one.prompt < 1 || one.output < 1 || v[PROMPT] + v[OUTPUT] > max_tokens) {
		t->dropped++;
		return 1;
	}
	if (t->n && one.arrival_ms < t->v[t->n - 1].arrival_ms) {
		complain("%s:%d:1: arrival_s goes back; rows must be in order of arrival", path,
			 number);
		return 0;
	}
	if (!array_grow(&t->v, t->n, room, sizeof *t->v)) {
		complain("out of memory");
		return 0;
	}
	t->v[t->n++] = one;
	return 1;
}

static int read_rows(struct trace *t, struct csv *c, int max_requests, int max_request_tokens)
{
	int where[NUM_COLUMNS], any = 1, room = 0;
	double v[NUM_COLUMNS];
	if (!read_header(c, where))
		return 0;
	const int num_columns = c->num_fields;
	while (t->n < max_requests && (any = csv_next(c)) > 0)
		if (!read_row(c, num_columns, where, v) ||
		    !take_row(t, &room, v, max_request_tokens, c->path, c->line))
			return 0;
	return any >= 0;
}

int trace_load(struct trace *t, const char *path, int max_requests, int max_request_tokens)
{
	struct csv c;
	*t = (struct trace){ 0 };
	if (!csv_open(&c, path))
		return 0;
	int ok = read_rows(t, &c, max_requests, max_request_tokens);
	csv_close(&c);
	if (ok && !t->n) {
		complain("%s: no request to replay; it must have rows of at most %d tokens", path,
			 max_request_tokens);
		ok = 0;
	}
	if (!ok)
		trace_free(t);
	for (int i = t->n - 1; i >= 0; i--) /* Unix times, too, count from the first request */
		t->v[i].arrival_ms -= t->v[0].arrival_ms;
	return ok;
}

void trace_free(struct trace *t)
{
	free(t->v);
	*t = (struct trace){ 0 };
}

static double span_ms(const struct trace *t)
{
	return t->n ? t->v[t->n - 1].arrival_ms - t->v[0].arrival_ms : 0;
}

double trace_rate(const struct trace *t)
{
	const double span = span_ms(t);
	return span > 0 ? 1e3 * t->n / span : 0;
}

void trace_set_rate(struct trace *t, double per_s)
{
	double first = t->n ? t->v[0].arrival_ms : 0;
	double span = span_ms(t);
	double wanted = 1e3 * t->n / per_s;
	for (int i = 0; i < t->n; i++)
		t->v[i].arrival_ms = span > 0 ? (t->v[i].arrival_ms - first) * wanted / span : 0;
}
