/* scenarios_list.c - prints scenario sets, single batches and models as tables, with the work of
 * each scenario. */
#include "harness/base/base.h"
#include "harness/generate/engine_sim.h"
#include "harness/scenario/scenario.h"
#include "kernels/spec/choice.h"
#include "kernels/spec/part.h"
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PATH = PATH_TEXT + 300, CUT = 44 };

static const char *const columns[] = { "set",      "split",  "model",  "page_size", "dtype",
				       "kv_dtype", "layout", "weight", "seqs",      "decode_share",
				       "tokens",   "kv_mb",  "gflop",  "batch" };

static void dtype_cell(struct table *t, enum attune_dtype dtype)
{
	static const char *const names[] = { "f32", "f16", "bf16", "e4m3" };
	table_text(t, names[dtype]);
}

/* A batch from a trace has thousands of characters, so tables for people cut it. */
static void batch_cell(struct table *t, const char *text, enum format format)
{
	char cut[CUT + 4];
	if (format != FORMAT_TABLE || strlen(text) <= CUT) {
		table_text(t, text);
		return;
	}
	snprintf(cut, sizeof cut, "%.*s...", CUT, text);
	table_text(t, cut);
}

static void scenario_row(struct table *t, const struct scenario *s, enum format format)
{
	struct facts f;
	scenario_facts(&f, &s->shape, &s->batch->view);
	table_text(t, s->set);
	table_text(t, s->split);
	table_text(t, s->model);
	table_number(t, s->shape.page_size, 0);
	dtype_cell(t, s->shape.dtype);
	dtype_cell(t, s->shape.kv_dtype);
	table_text(t, layout_names[s->layout]);
	table_number(t, s->weight, 3);
	table_number(t, f.seqs, 0);
	table_number(t, f.seqs ? (double)f.decodes / f.seqs : 0, 3);
	table_number(t, (double)f.query_tokens, 0);
	table_number(t, f.kv_bytes / 1e6, 2);
	table_number(t, f.flops / 1e9, 2);
	batch_cell(t, s->batch_text, format);
	table_end_row(t);
}

int list_models(const struct models *m, enum format format)
{
	static const char *const names[] = { "model",     "query_heads", "kv_heads", "group",
					     "head_size", "window",      "softcap",  "sinks",
					     "scale",     "alibi",       "cross" };
	struct table *t = table_new(format, names, COUNT(names));
	const char *name;
	for (int i = 0; (name = models_name(m, i)); i++) {
		const attune_shape *s = models_find(m, name);
		table_text(t, name);
		table_number(t, s->num_query_heads, 0);
		table_number(t, s->num_kv_heads, 0);
		table_number(t, s->num_query_heads / s->num_kv_heads, 0);
		table_number(t, s->head_size, 0);
		table_number(t, s->window, 0);
		table_number(t, s->softcap, 0);
		table_number(t, s->has_sinks, 0);
		table_number(t, s->scale > 0 ? s->scale : 1 / sqrt(s->head_size), 4);
		table_number(t, s->has_alibi, 0);
		table_number(t, !s->causal, 0);
		table_end_row(t);
	}
	table_print(t, stdout);
	return EXIT_DONE;
}

int list_batch(const struct listing *o, const struct models *m)
{
	struct scenario s;
	if (!scenario_of_batch(&s, o->batch, o->model, o->page_size, m))
		return EXIT_USAGE;
	*s.set = *s.split = '\0';
	struct table *t = table_new(o->format, columns, COUNT(columns));
	scenario_row(t, &s, o->format);
	table_print(t, stdout);
	scenario_drop(&s);
	return EXIT_DONE;
}

static int is_set(const struct dirent *d)
{
	size_t n = strlen(d->d_name);
	return n > 5 && !strcmp(d->d_name + n - 5, ".json") && strcmp(d->d_name, "models.json");
}

static int load_all(struct scenario_list *list, const struct listing *o, const struct models *m)
{
	struct dirent **names;
	int n = scandir(o->dir, &names, is_set, alphasort), ok = n >= 0;
	if (n < 0)
		complain("--dir: %s: %s", o->dir, strerror(errno));
	for (int i = 0; i < n; i++) {
		char path[MAX_PATH];
		snprintf(path, sizeof path, "%s/%s", o->dir, names[i]->d_name);
		ok = ok && scenarios_load(list, path, m);
		free(names[i]);
	}
	if (n >= 0)
		free(names);
	return ok;
}

int list_sets(const struct listing *o, const struct models *m)
{
	struct scenario_list list = { 0 };
	int ok = o->num_sets || load_all(&list, o, m);
	for (int i = 0; ok && i < o->num_sets; i++)
		ok = scenario_set_load(&list, o->dir, o->set[i], m);
	attune_shape unused;
	ok = ok && (!o->model || models_shape(m, o->model, &unused));
	if (ok) {
		struct table *t = table_new(o->format, columns, COUNT(columns));
		for (int i = 0; i < list.n; i++)
			if (!o->model || !strcmp(o->model, list.v[i].model))
				scenario_row(t, &list.v[i], o->format);
		table_print(t, stdout);
	}
	scenarios_free(&list);
	return ok ? EXIT_DONE : EXIT_USAGE;
}
