/* SPDX-License-Identifier: Apache-2.0 */
/* names.c - the names of layouts, and what the ends of a model's name mean. */
#include "scenario.h"
#include "harness/base/json_out.h"
#include <stdio.h>
#include <string.h>
#include <strings.h>

const char *const layout_names[] = { "nhd",   "hnd",   "classic", "packed", "lbhnc", "lhbnc",
				     "blnhc", "blhnc", "bhlnc",   "paired", NULL };

enum layout layout_of(const char *name)
{
	for (int i = 0; layout_names[i]; i++)
		if (!strcasecmp(layout_names[i], name))
			return (enum layout)i;
	return LAYOUT_NHD;
}

enum attune_kv_layout layout_kv(enum layout l)
{
	return l == LAYOUT_CLASSIC ? ATTUNE_KV_CLASSIC : ATTUNE_KV_STRIDED;
}

/* Suffixes of a model's name, in this order: attention also returns the LSE; "+" and the name of a
 * layout from LAYOUT_PACKED on. The database and all else treat each as a separate model. */
#define LSE_SUFFIX "+lse"

/* The length of the name without the layout's suffix. */
static size_t length_without_layout(const char *name, enum layout *is)
{
	const char *plus = strrchr(name, '+');
	*is = LAYOUT_NHD;
	for (int i = LAYOUT_PACKED; plus && layout_names[i]; i++)
		if (!strcmp(layout_names[i], plus + 1))
			*is = (enum layout)i;
	return *is == LAYOUT_NHD ? strlen(name) : (size_t)(plus - name);
}

enum layout model_layout(const char *name)
{
	enum layout is;
	length_without_layout(name, &is);
	return is;
}

static int base_length(const char *name)
{
	const size_t m = strlen(LSE_SUFFIX);
	enum layout is;
	const size_t n = length_without_layout(name, &is);
	return (int)(n > m && !strncmp(name + n - m, LSE_SUFFIX, m) ? n - m : n);
}

void model_base(char out[MODEL_NAME], const char *name)
{
	snprintf(out, MODEL_NAME, "%.*s", base_length(name), name);
}

int model_gives_lse(const char *name)
{
	enum layout is;
	return (size_t)base_length(name) < length_without_layout(name, &is);
}

void model_name(char out[MODEL_NAME], const char *name_at_tp, int gives_lse, enum layout layout)
{
	snprintf(out, MODEL_NAME, "%s%s%s%s", name_at_tp, gives_lse ? LSE_SUFFIX : "",
		 layout >= LAYOUT_PACKED ? "+" : "",
		 layout >= LAYOUT_PACKED ? layout_names[layout] : "");
}

void model_members(FILE *f, const char *name)
{
	char base[MODEL_NAME];
	const enum layout layout = model_layout(name);
	model_base(base, name);
	fputs("\"models\": [", f);
	out_quoted(f, base);
	fprintf(f, "]%s", model_gives_lse(name) ? ", \"lse\": true" : "");
	if (layout != LAYOUT_NHD)
		fprintf(f, ", \"layout\": \"%s\"", layout_names[layout]);
}
