/* trace.c - reads a request trace from CSV and scales its arrivals to a rate. */
#include "csv.h"
#include "engine_sim.h"
#include "harness/base/base.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
