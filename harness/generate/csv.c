/* csv.c - reads CSV files. */
#include "csv.h"
#include "harness/base/base.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int csv_open(struct csv *c, const char *path)
{
	*c = (struct csv){ .f = fopen(path, "re"), .path = path, .next = 1 };
	if (!c->f)
		complain("%s: %s; a trace is a CSV file", path, strerror(errno));
	return c->f != NULL;
}

void csv_close(struct csv *c)
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

int csv_next(struct csv *c)
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
