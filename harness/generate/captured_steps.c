/* SPDX-License-Identifier: Apache-2.0 */
/* captured_steps.c - reads the steps that an engine ran, as libattune.capture writes them: JSON lines
 * of two kinds, {"layers": 1, "query_heads": 32, ...} and {"layers": 1, "batch": "q512s2k_32q1s1k"}.
 * scenarios/README.md has the keys. */
#include "engine_sim.h"
#include "harness/base/base.h"
#include "harness/base/json_in.h"
#include "harness/scenario/scenario.h"
#include "kernels/spec/choice.h"
#include "kernels/spec/part.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	MOST_KINDS = 64, /* of layers */
	/* that are kept of a kind: beyond, every second is, then every fourth */
	MOST_STEPS = 1 << 15,
	NO_LAYERS = -1
};

static const char *const dtypes[] = { "f32", "f16", "bf16", "e4m3", NULL };

// clang-format off
static const struct key layer_keys[] = {
	{ "layers",      .kind = INTEGER, .required = 1, .lo = 0, .hi = 1 << 30 },
	{ "query_heads", .kind = INTEGER, .required = 1, .lo = 1, .hi = 1024 },
	{ "kv_heads",    .kind = INTEGER, .required = 1, .lo = 1, .hi = 1024 },
	{ "head_size",   .kind = INTEGER, .required = 1, .lo = 8, .hi = 512 },
	{ "page_size",   .kind = INTEGER, .required = 1, .lo = 1, .hi = 65536 },
	{ "dtype",       .kind = WORD, .required = 1, .words = dtypes },
	{ "kv_dtype",    .kind = WORD, .words = dtypes },
	{ "layout",      .kind = WORD, .words = layout_names },
	{ "window",      .kind = INTEGER, .lo = 0, .hi = 1 << 30 },
	{ "softcap",     .kind = NOT_NEGATIVE },
	{ "scale",       .kind = NOT_NEGATIVE },
	{ "sinks",       .kind = FLAG },
	{ "alibi",       .kind = FLAG },
	{ "cross",       .kind = FLAG },
	{ "lse",         .kind = FLAG },
	{ 0 }
}, step_keys[] = {
	{ "layers",      .kind = INTEGER, .lo = 0, .hi = 1 << 30 },
	{ "batch",       .kind = TEXT, .required = 1 },
	{ 0 }
};
// clang-format on

struct reading {
	struct capture *to;
	const struct step_cost *cost;
	struct models *models;
	const char *path;
	int room;
	struct row *row;
	int rows_room;
};

static struct captured *find(const struct reading *r, int number)
{
	for (int i = 0; i < r->to->n; i++)
		if (r->to->v[i].number == number)
			return &r->to->v[i];
	return NULL;
}

static struct captured *add(struct reading *r, int number)
{
	struct capture *c = r->to;
	if (!array_grow(&c->v, c->n, &r->room, sizeof *c->v)) {
		complain("out of memory");
		return NULL;
	}
	c->v[c->n] = (struct captured){ .number = number, .every = 1 };
	return &c->v[c->n++];
}

static attune_shape shape_of(const struct json_t *line)
{
	const int dtype = input_word(input_member(line, "dtype"), dtypes, ATTUNE_BF16);
	const int layout = input_word(input_member(line, "layout"), layout_names, LAYOUT_NHD);
	return (attune_shape){
		.size = sizeof(attune_shape),
		.num_query_heads = (int)input_integer(input_member(line, "query_heads"), 0),
		.num_kv_heads = (int)input_integer(input_member(line, "kv_heads"), 0),
		.head_size = (int)input_integer(input_member(line, "head_size"), 0),
		.page_size = (int)input_integer(input_member(line, "page_size"), 0),
		.dtype = (enum attune_dtype)dtype,
		.kv_dtype =
		    (enum attune_dtype)input_word(input_member(line, "kv_dtype"), dtypes, dtype),
		.kv_layout = layout_kv((enum layout)layout),
		.causal = !input_flag(input_member(line, "cross")),
		.window = (int)input_integer(input_member(line, "window"), 0),
		.softcap = input_float(input_number(input_member(line, "softcap"), 0)),
		.scale = input_float(input_number(input_member(line, "scale"), 0)),
		.has_sinks = input_flag(input_member(line, "sinks")),
		.has_alibi = input_flag(input_member(line, "alibi")),
		.has_new_kv = 1,
	};
}

static int read_layers(struct reading *r, const struct input *in)
{
	const struct json_t *line = in->root;
	if (!input_check_object(in, line, "", layer_keys))
		return 0;
	const attune_shape s = shape_of(line);
	const int number = (int)input_integer(input_member(line, "layers"), 0);
	const int layout = input_word(input_member(line, "layout"), layout_names, LAYOUT_NHD);
	if (shape_error(&s))
		return input_bad(in, "", NULL, "%s", shape_error(&s));
	if (find(r, number) || r->to->n == MOST_KINDS)
		return input_bad(in, "layers", NULL,
				 find(r, number) ? "layers %d are described already; once is enough"
						 : "layers %d are one kind too many; at most 64 "
						   "kinds can be read",
				 number);
	struct captured *c = add(r, number);
	const char *name = c ? models_add_shape(r->models, &s) : NULL;
	if (!name)
		return 0;
	model_name(c->model, name, input_flag(input_member(line, "lse")), (enum layout)layout);
	snprintf(c->settings, sizeof c->settings,
		 "\"page_size\": %d, \"dtype\": \"%s\", \"kv_dtype\": \"%s\", ", s.page_size,
		 dtypes[s.dtype], dtypes[s.kv_dtype]);
	if (layout == LAYOUT_HND || layout == LAYOUT_CLASSIC)
		snprintf(strchr(c->settings, '\0'), 32, "\"layout\": \"%s\", ",
			 layout_names[layout]);
	return 1;
}

/* Every second step goes. */
static void halve(struct captured *c)
{
	struct engine_sim *s = &c->steps;
	size_t rows = 0;
	int n = 0;
	for (int i = 0; i < s->num_steps; i += 2) {
		struct step one = s->steps[i];
		memmove(s->rows + rows, s->rows + one.first,
			(size_t)one.num_rows * sizeof *s->rows);
		one.first = rows;
		rows += (size_t)one.num_rows;
		s->steps[n++] = one;
	}
	s->num_steps = n;
	s->num_rows = rows;
	c->every *= 2;
}

static int keep(struct reading *r, struct captured *c, const attune_batch *b)
{
	if (c->steps.num_steps == MOST_STEPS)
		halve(c);
	if (c->seen++ % c->every)
		return 1;
	if (b->num_seqs > r->rows_room) {
		struct row *row = realloc(r->row, (size_t)b->num_seqs * sizeof *row);
		if (!row) {
			complain("out of memory");
			return 0;
		}
		r->row = row;
		r->rows_room = b->num_seqs;
	}
	for (int i = 0; i < b->num_seqs; i++)
		r->row[i] = (struct row){ .query = batch_query_len(b, i), .seq = b->seq_lens[i] };
	const int added = engine_add_step(&c->steps, r->row, b->num_seqs, r->cost);
	c->steps.busy_steps = c->steps.num_steps;
	c->steps.is_served = 1;
	if (!added)
		complain("out of memory");
	return added;
}

static int read_step(struct reading *r, const struct input *in)
{
	char why[128];
	if (!input_check_object(in, in->root, "", step_keys))
		return 0;
	const char *text = input_text(input_member(in->root, "batch"));
	const int number = (int)input_integer(input_member(in->root, "layers"), NO_LAYERS);
	struct captured *c = find(r, number);
	if (!c && number != NO_LAYERS)
		return input_bad(in, "layers", NULL,
				 "layers %d are not known; a line above must have their heads",
				 number);
	if (!c && !(c = add(r, number)))
		return 0;
	struct batch *b = batch_parse(text, why, sizeof why);
	const int is_run = b && scenario_batch_is_run(&b->view, why, sizeof why);
	const int done =
	    is_run ? keep(r, c, &b->view)
		   : input_bad(in, "batch", NULL, "batch \"%.*s\": %s", INPUT_SHOWN, text, why);
	batch_free(b);
	return done;
}

static int read_line(struct reading *r, const char *text, size_t n, int number)
{
	struct input in;
	if (!input_line(&in, r->path, number, text, n))
		return 0;
	const int done = input_member(in.root, "batch") ? read_step(r, &in) : read_layers(r, &in);
	input_close(&in);
	return done;
}

/* A process that was killed leaves a last line without its end. */
static int read_lines(struct reading *r, FILE *f)
{
	char *line = NULL;
	size_t room = 0;
	ssize_t n;
	int done = 1;
	for (int number = 1; done && (n = getline(&line, &room, f)) > 0; number++) {
		if (line[n - 1] != '\n') {
			remark("%s:%d: the last line was not written whole; it is left out",
			       r->path, number);
			break;
		}
		if (strspn(line, " \t\r\n") < (size_t)n)
			done = read_line(r, line, (size_t)n, number);
	}
	if (done && ferror(f)) {
		complain("%s: %s", r->path, strerror(errno));
		done = 0;
	}
	free(line);
	return done;
}

int capture_load(struct capture *c, const char *path, const struct step_cost *cost,
		 struct models *models)
{
	struct reading r = { .to = c, .cost = cost, .models = models, .path = path };
	FILE *f = fopen(path, "re");
	int steps = 0;
	*c = (struct capture){ 0 };
	if (!f) {
		complain("%s: %s; it must be a file that libattune.capture wrote", path,
			 strerror(errno));
		return 0;
	}
	int done = read_lines(&r, f);
	fclose(f);
	free(r.row);
	for (int i = 0; i < c->n; i++)
		steps += c->v[i].seen;
	if (done && !steps) {
		complain("%s: no step; a step is a line such as {\"layers\": 1, \"batch\": "
			 "\"q512s2k_32q1s1k\"}",
			 path);
		done = 0;
	}
	if (!done)
		capture_free(c);
	return done;
}

void capture_free(struct capture *c)
{
	for (int i = 0; i < c->n; i++)
		engine_free(&c->v[i].steps);
	free(c->v);
	*c = (struct capture){ 0 };
}
