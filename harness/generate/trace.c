/* trace.c - reads a request trace from CSV and scales its arrivals to a rate. */
#include "engine_sim.h"
#include "harness/base/base.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARRIVAL, PROMPT, OUTPUT, CACHED, NUM_COLUMNS, MAX_LINE = 1024 };
static const char *const column_names[] = { "arrival_s", "prompt_tokens", "output_tokens",
					    "cached_prefix_tokens" /* optional */ };

/* Finds the index of each column, from 0; -1: absent. */
static int read_header(char *line, int *where, const char *path)
{
	int i = 0;
	for (int c = 0; c < NUM_COLUMNS; c++)
		where[c] = -1;
	for (char *field = line; field; i++) {
		char *comma = strpbrk(field, ",\r\n");
		int more = comma && *comma == ',';
		if (comma)
			*comma = '\0';
		for (int c = 0; c < NUM_COLUMNS; c++)
			if (!strcmp(field, column_names[c]))
				where[c] = i;
		field = more ? comma + 1 : NULL;
	}
	for (int c = 0; c < NUM_COLUMNS; c++)
		if (where[c] < 0 && c != CACHED) {
			complain("%s:1:1: no column \"%s\"; the first line must name arrival_s, "
				 "prompt_tokens and output_tokens",
				 path, column_names[c]);
			return 0;
		}
	return 1;
}

static int read_row(char *line, const int *where, double *v, const char *path, int number)
{
	const int wanted = NUM_COLUMNS - (where[CACHED] < 0);
	char *field = line;
	v[CACHED] = 0;
	for (int i = 0, found = 0; found < wanted; i++) {
		for (int c = 0; c < NUM_COLUMNS; c++) {
			char *end;
			if (where[c] != i)
				continue;
			v[c] = strtod(field, &end);
			if (end == field || !strchr(",\r\n", *end) || !(v[c] >= 0 && v[c] < 1e9)) {
				complain("%s:%d:%d: %s is no number; it must be 0 or more, below "
					 "1e9",
					 path, number, (int)(field - line) + 1, column_names[c]);
				return 0;
			}
			found++;
		}
		field += strcspn(field, ",\r\n");
		if (*field == ',')
			field++;
	}
	return 1;
}

/* 1: added or dropped; 0 after a complaint. */
static int take_row(struct trace *t, size_t *room, const double *v, int max_tokens,
		    const char *path, int number)
{
	struct request *more,
	    one = { 1e3 * v[ARRIVAL], (int)v[PROMPT], (int)v[OUTPUT], (int)v[CACHED] };
	if (one.prompt < 1 || one.output < 1 || v[PROMPT] + v[OUTPUT] > max_tokens) {
		t->dropped++;
		return 1;
	}
	if (t->n && one.arrival_ms < t->v[t->n - 1].arrival_ms) {
		complain("%s:%d:1: arrival_s goes back; rows must be in order of arrival", path,
			 number);
		return 0;
	}
	if ((size_t)t->n == *room) {
		*room = *room ? 2 * *room : 1024;
		more = realloc(t->v, *room * sizeof *more);
		if (!more) {
			complain("out of memory");
			return 0;
		}
		t->v = more;
	}
	t->v[t->n++] = one;
	return 1;
}

int trace_load(struct trace *t, const char *path, int max_requests, int max_request_tokens)
{
	FILE *f = fopen(path, "r");
	char line[MAX_LINE];
	int where[NUM_COLUMNS], ok, number = 1;
	size_t room = 0;
	double v[NUM_COLUMNS];
	*t = (struct trace){ 0 };
	if (!f) {
		complain("%s: %s; a trace is a CSV file", path, strerror(errno));
		return 0;
	}
	if (!fgets(line, sizeof line, f))
		line[0] = '\0'; /* empty: read_header complains */
	ok = read_header(line, where, path);
	while (ok && t->n < max_requests && fgets(line, sizeof line, f))
		ok = read_row(line, where, v, path, ++number) &&
		     take_row(t, &room, v, max_request_tokens, path, number);
	if (ok && ferror(f)) {
		complain("%s: %s", path, strerror(errno));
		ok = 0;
	}
	fclose(f);
	if (ok && !t->n) {
		complain("%s: no request to replay; it must have rows of at most %d tokens", path,
			 max_request_tokens);
		ok = 0;
	}
	if (!ok)
		trace_free(t);
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
