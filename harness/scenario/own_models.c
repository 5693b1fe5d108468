/* SPDX-License-Identifier: Apache-2.0 */
/* own_models.c - models that models.json does not name: of captured layers, of a config.json; and
 * how a set has them. */
#include "models.h"
#include "scenario.h"
#include "harness/base/base.h"
#include "kernels/spec/choice.h"
#include "kernels/spec/part.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *models_of_shape(const struct models *m, const attune_shape *shape)
{
	char wanted[MODEL_KEY], its[MODEL_KEY];
	model_key(wanted, shape);
	for (int i = 0; i < m->n; i++) {
		model_key(its, &m->v[i].shape);
		if (!strcmp(its, wanted))
			return m->v[i].name;
	}
	return NULL;
}

int models_add(struct models *m, const char *name, const attune_shape *whole)
{
	static const int degrees[] = { 1, 2, 4, 8 };
	int n = 0;
	if (!model_is_name(name) || shape_error(whole)) {
		complain("%s: %s", name,
			 model_is_name(name)
			     ? shape_error(whole)
			     : "no name; it must be 1 to 48 letters, digits, '.', '_' "
			       "and '-', the first a letter or digit");
		return 0;
	}
	for (size_t i = 0; i < COUNT(degrees); i++) {
		struct model one = { .tp = degrees[i], .is_own = 1, .whole = *whole };
		if (!model_splits(whole, one.tp))
			continue;
		one.shape = model_shard(whole, one.tp);
		snprintf(one.name, sizeof one.name, "%s@%d", name, one.tp);
		if (model_find(m, one.name)) {
			complain("%s is a model already; give this one another name", one.name);
			return 0;
		}
		if (!models_append(m, &one))
			return 0;
		n++;
	}
	return n;
}

/* Numbers as %g writes them, but for the plus sign, which no name may have. */
static void put_value(FILE *f, const char *word, double v)
{
	char text[32];
	snprintf(text, sizeof text, "%.4g", v);
	text[strcspn(text, "+")] = '_';
	fprintf(f, "-%s%s", word, text);
}

static void name_of_shape(char *name, size_t size, const attune_shape *s)
{
	FILE *f = fmemopen(name, size, "w");
	if (!f)
		return;
	fprintf(f, "layers-%dx%dx%d", s->num_query_heads, s->num_kv_heads, s->head_size);
	if (s->window)
		fprintf(f, "-w%d", s->window);
	if (s->softcap > 0)
		put_value(f, "cap", (double)s->softcap);
	if (s->scale > 0)
		put_value(f, "scale", (double)s->scale);
	fprintf(f, "%s%s%s", s->has_sinks ? "-sinks" : "", s->has_alibi ? "-alibi" : "",
		s->causal ? "" : "-cross");
	fclose(f);
}

const char *models_add_shape(struct models *m, const attune_shape *shape)
{
	struct model one = { .tp = 1, .is_own = 1, .shape = *shape };
	char name[MODEL_NAME] = "";
	const char *known = models_of_shape(m, shape);
	if (known)
		return known;
	if (fabs((double)shape->scale * sqrt(shape->head_size) - 1) < 1e-3)
		one.shape.scale = 0;
	one.shape.page_size = 16; /* these are settings of scenarios */
	one.shape.dtype = one.shape.kv_dtype = ATTUNE_BF16;
	one.shape.has_lse = 0;
	one.shape.kv_layout = ATTUNE_KV_STRIDED;
	one.whole = one.shape;
	name_of_shape(name, sizeof name, &one.shape);
	snprintf(one.name, sizeof one.name, "%s@1", name);
	if (!model_is_name(name) || model_find(m, one.name))
		complain("no name for layers of a shape such as %s: %s", name,
			 model_is_name(name) ? "another shape has it"
					     : "it must have at most 48 characters");
	else if (models_append(m, &one))
		return m->v[m->n - 1].name;
	return NULL;
}

int models_own(const struct models *m)
{
	int n = 0;
	for (int i = 0; i < m->n; i++)
		n += m->v[i].is_own;
	return n;
}

static void print_members(const struct model *one, FILE *f)
{
	const attune_shape *s = &one->whole;
	fprintf(f, ", \"query_heads\": %d, \"kv_heads\": %d, \"head_size\": %d", s->num_query_heads,
		s->num_kv_heads, s->head_size);
	if (s->window)
		fprintf(f, ", \"window\": %d", s->window);
	if (s->softcap > 0)
		fprintf(f, ", \"softcap\": %.9g", (double)s->softcap);
	if (s->scale > 0)
		fprintf(f, ", \"scale\": %.9g", (double)s->scale);
	fprintf(f, "%s%s%s, \"tp\": [%d", s->has_sinks ? ", \"sinks\": true" : "",
		s->has_alibi ? ", \"alibi\": true" : "", s->causal ? "" : ", \"cross\": true",
		one->tp);
}

void models_print(const struct models *m, FILE *f)
{
	size_t n = 0;
	fputs("\t\"models\": [", f);
	for (int i = 0; i < m->n; i++) {
		const char *name = m->v[i].name;
		const size_t before = n;
		if (!m->v[i].is_own)
			continue;
		n = strcspn(name, "@");
		if (n == before && !strncmp(name, m->v[i - 1].name, n)) {
			fprintf(f, ", %d", m->v[i].tp); /* one more degree of it */
			continue;
		}
		fprintf(f, "%s\n\t\t{\"name\": \"%.*s\"", before ? "]}," : "", (int)n, name);
		print_members(&m->v[i], f);
	}
	fputs(n ? "]}\n\t]" : "]", f);
}
