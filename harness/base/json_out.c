/* SPDX-License-Identifier: Apache-2.0 */
/* json_out.c - builds and prints JSON documents. Only this file and json_in.c use jansson. */
#include "base.h"
#include "json_out.h"
#include "text_rule.h"
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_DEPTH = 256 };

/* Numbers are rounded to a few decimals before; 15 digits reproduce them. */
#define FLAGS (JSON_ENCODE_ANY | JSON_REAL_PRECISION(15))

struct json_out {
	json_t *root, *open[MOST_DEPTH]; /* open: from the outermost; the document owns them */
	int depth, failed;
};

/* ---- texts ------------------------------------------------------------------------------ */
static json_t *string_of(const char *text)
{
	char *valid = utf8_text(text);
	json_t *v = valid ? json_string(valid) : NULL;
	free(valid);
	return v;
}

/* jansson escapes only the control characters below U+0020; the others are escaped here. It writes
 * into a buffer of the full size: when it has to enlarge one and there is no memory, it leaves out
 * names of members and reports no error. */
static int dump_whole(const json_t *v, FILE *f)
{
	size_t n = json_dumpb(v, NULL, 0, FLAGS);
	char *text = n ? malloc(n + 1) : NULL;
	if (text && json_dumpb(v, text, n, FLAGS) == n) {
		text[n] = '\0';
	} else {
		free(text);
		text = NULL;
	}
	for (const char *s = text; s && *s; s += n) {
		int code;
		n = control_character(s, &code);
		if (n)
			fprintf(f, "\\u%04x", code);
		else
			fputc(*s, f);
		n = n ? n : 1;
	}
	free(text);
	return !text || ferror(f);
}

void out_quoted(FILE *f, const char *text)
{
	json_t *v = string_of(text);
	if (!v || dump_whole(v, f))
		output_lost();
	json_decref(v);
}

/* ---- making a document --------------------------------------------------------------------- */
struct json_out *out_new(void)
{
	return calloc(1, sizeof(struct json_out));
}

/* Owns the value. */
static void put(struct json_out *o, const char *key, json_t *v)
{
	json_t *parent = o && o->depth ? o->open[o->depth - 1] : NULL;
	if (!o || o->failed)
		json_decref(v);
	else if (!parent && !o->root)
		o->failed = !(o->root = v);
	else if (json_is_array(parent))
		o->failed = json_array_append_new(parent, v) != 0;
	else
		o->failed = json_object_set_new(parent, key, v) != 0;
}

static void begin(struct json_out *o, const char *key, json_t *v)
{
	put(o, key, v);
	if (!o || o->failed)
		return;
	if (o->depth == MOST_DEPTH)
		o->failed = 1;
	else
		o->open[o->depth++] = v;
}

void out_object(struct json_out *o, const char *key)
{
	begin(o, key, json_object());
}

void out_list(struct json_out *o, const char *key)
{
	begin(o, key, json_array());
}

void out_end(struct json_out *o)
{
	if (o && !o->failed)
		o->depth--;
}

void out_text(struct json_out *o, const char *key, const char *text)
{
	put(o, key, text ? string_of(text) : json_null());
}

void out_integer(struct json_out *o, const char *key, long long value)
{
	put(o, key, json_integer(value));
}

void out_number(struct json_out *o, const char *key, double value, int decimals)
{
	char text[400];
	snprintf(text, sizeof text, "%.*f", decimals, value);
	if (!isfinite(value))
		put(o, key, json_null());
	else if (!decimals && fabs(value) < 0x1p53)
		put(o, key, json_integer(strtoll(text, NULL, 10)));
	else
		put(o, key, json_real(strtod(text, NULL)));
}

/* ---- writing it ---------------------------------------------------------------------------- */
static int dump(const json_t *v, int depth, int broken, FILE *f);

static int dump_list(const json_t *list, int depth, int broken, FILE *f)
{
	int bad = 0;
	for (size_t i = 0; !bad && i < json_array_size(list); i++) {
		fprintf(f, "%s\n%*s", i ? "," : "", depth + 1, "");
		bad = dump(json_array_get(list, i), depth + 1, broken, f);
	}
	return bad;
}

static int dump_object(json_t *object, int depth, int broken, FILE *f)
{
	int bad = 0, i = 0;
	for (void *at = json_object_iter(object); !bad && at;
	     at = json_object_iter_next(object, at)) {
		fprintf(f, "%s\n%*s", i++ ? "," : "", depth + 1, "");
		out_quoted(f, json_object_iter_key(at));
		fputs(": ", f);
		bad = dump(json_object_iter_value(at), depth + 1, broken, f);
	}
	return bad;
}

/* jansson prints all on one line, or each scalar on its own line. */
static int dump(const json_t *v, int depth, int broken, FILE *f)
{
	const int is_list = json_is_array(v), is_object = json_is_object(v);
	if (depth == broken || !(is_list ? json_array_size(v) : json_object_size(v)))
		return dump_whole(v, f);
	fputc(is_object ? '{' : '[', f);
	/* jansson's iterators take a non-const object but do not change it */
	const int bad =
	    is_object ? dump_object((json_t *)v, depth, broken, f) : dump_list(v, depth, broken, f);
	fprintf(f, "\n%*s%c", depth, "", is_object ? '}' : ']');
	return bad;
}

int out_print(struct json_out *o, int broken, FILE *f)
{
	const int made = o && !o->failed && !o->depth && o->root;
	const int done = made && !dump(o->root, 0, broken, f) && fputc('\n', f) != EOF;
	if (!done)
		output_lost();
	if (o)
		json_decref(o->root);
	free(o);
	return done;
}
