/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.c - the registry of kernels, and configs: points of a kernel's space, as values, as text
 * and as compiler flags. */
#include "kernel.h"
#include "space.h"
#include "kernels/segments.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KERNEL(where, name, folder, chosen, about) extern const struct space where##_##name##_space;
#include "kernels/kernels.def"
#undef KERNEL
#define PLUGIN(where, name, path) extern const struct space where##_##name##_space;
#include "plugins.inc"
#undef PLUGIN

#define BACKEND_cpu BACKEND_CPU
#define BACKEND_gpu BACKEND_GPU
#define SUFFIX_cpu ".c"
#define SUFFIX_gpu ".cu"
enum {
	NUM_KERNELS = 0
#define KERNEL(where, name, folder, chosen, about) +1
#include "kernels/kernels.def"
#undef KERNEL
#define PLUGIN(where, name, path) +1
#include "plugins.inc"
#undef PLUGIN
};
struct kernel attune_kernels[] = {
#define KERNEL(where, name_, folder, chosen, about_)  \
	{ .name = #name_,                             \
	  .backend = BACKEND_##where,                 \
	  .selectable = chosen,                       \
	  .source = folder "/" #name_ SUFFIX_##where, \
	  .about = about_,                            \
	  .space = &where##_##name_##_space },
#include "kernels/kernels.def"
#undef KERNEL
#define PLUGIN(where, name_, path)    \
	{ .name = #name_,             \
	  .backend = BACKEND_##where, \
	  .selectable = 1,            \
	  .source = path,             \
	  .about = "plug-in: " path,  \
	  .space = &where##_##name_##_space },
#include "plugins.inc"
#undef PLUGIN
	/* room, and the end */
	[NUM_KERNELS + MOST_PLUGINS] = { 0 }
};

const struct kernel *kernel_find(enum backend backend, const char *name)
{
	for (const struct kernel *k = attune_kernels; k->name; k++)
		if (k->backend == backend && !strcmp(k->name, name))
			return k;
	return NULL;
}

int kernel_path(char *path, size_t size, const struct kernel *k, const char *root)
{
	const int n = k->source[0] == '/'
			  ? snprintf(path, size, "%s", k->source)
			  : snprintf(path, size, "%s/%s", root ? root : "", k->source);
	return n > 0 && (size_t)n < size;
}

const struct kernel *kernel_helper(enum backend backend, enum helper helper)
{
	static const char *const names[NUM_HELPERS] = { [HELPER_SCHEDULE] = "schedule",
							[HELPER_REDUCE] = "reduce",
							[HELPER_REDUCE_WIDE] = "reduce_wide" };
	return kernel_find(backend, names[helper]);
}

int kernel_takes(const struct kernel *k, const struct config *c, enum helper helper)
{
	if (helper == HELPER_SCHEDULE)
		return k->space->is_scheduled;
	if (!k->space->reduces || (helper == HELPER_REDUCE_WIDE && !k->space->reduces_wide))
		return 0;
	if (!c)
		return 1;
	const int is_wide = k->space->reduces_wide && config_value(c, k->space, "COMBINE", 0) == 2;
	return is_wide == (helper == HELPER_REDUCE_WIDE) &&
	       config_value(c, k->space, "SEGMENTS", 0) != 1;
}

int kernel_may_take(const struct kernel *k, const struct config *c, enum helper helper)
{
	struct config any = *c;
	if (k->space->formula_axis >= 0)
		any.v[k->space->formula_axis] = -1;
	return kernel_takes(k, &any, helper);
}

void kernel_arch(char text[CODE_ARCH], const struct kernel *k, const char *arch)
{
	snprintf(text, CODE_ARCH, "%.16s%s", arch, k->space->is_arch_specific ? "a" : "");
}

long long geometry_items(const struct geometry *g)
{
	return g->items ? g->items : (long long)g->x * g->y * g->z;
}

void config_default(struct config *c, const struct space *s)
{
	memset(c, 0, sizeof *c);
	for (int i = 0; i < s->num_axes; i++)
		c->v[i] = s->axis[i].dflt;
}

static int value_index(const struct axis *a, int value)
{
	for (int i = 0; i < a->num_values; i++)
		if (a->values[i] == value)
			return i;
	return -1;
}

int axis_is_swept(const struct axis *a, int lanes)
{
	return !a->lanes || a->lanes == lanes;
}

int config_next(struct config *c, const struct space *s, int lanes)
{
	for (int i = s->num_axes - 1; i >= 0; i--) {
		const struct axis *a = &s->axis[i];
		if (!axis_is_swept(a, lanes))
			continue;
		int at = value_index(a, c->v[i]) + 1;
		c->v[i] = a->values[at < a->num_values ? at : 0];
		if (at < a->num_values)
			return 1;
	}
	return 0;
}

void config_first(struct config *c, const struct space *s, int lanes)
{
	memset(c, 0, sizeof *c);
	for (int i = 0; i < s->num_axes; i++)
		c->v[i] =
		    axis_is_swept(&s->axis[i], lanes) ? s->axis[i].values[0] : s->axis[i].dflt;
}

int axis_named(const struct space *s, const char *name)
{
	int i = s->num_axes - 1;
	while (i >= 0 && strcmp(s->axis[i].name, name))
		i--;
	return i;
}

int config_value(const struct config *c, const struct space *s, const char *axis, int absent)
{
	const int i = axis_named(s, axis);
	return i < 0 ? absent : c->v[i];
}

void formula_text(char text[FORMULA_TEXT], const struct formula *f)
{
	snprintf(text, FORMULA_TEXT, "balance(%d,%d,%d,%d)", f->slots, f->start, f->launch,
		 f->merge);
}

static const char fitted_word[] = "fitted";

static int is_silent(const struct axis *a, int value)
{
	return a->is_option && value == a->dflt;
}

int config_text(char *text, size_t size, const struct config *c, const struct space *s)
{
	size_t n = 0;
	char value[FORMULA_TEXT];
	if (size)
		text[0] = '\0';
	for (int i = 0; i < s->num_axes && n < size; i++) {
		if (is_silent(&s->axis[i], c->v[i]))
			continue;
		if (i == s->formula_axis && c->v[i] < 0)
			formula_text(value, &s->formulas[-1 - c->v[i]]);
		else if (i == s->formula_axis && c->v[i] == SEGMENTS_FITTED)
			snprintf(value, sizeof value, "%s", fitted_word);
		else
			snprintf(value, sizeof value, "%d", c->v[i]);
		n += (size_t)snprintf(text + n, size - n, "%s%s=%s", n ? " " : "", s->axis[i].name,
				      value);
	}
	return (int)n;
}

/* One word: a number that the axis lists, a formula of the space or "fitted". */
static int parse_value(const struct space *s, int axis, const char *text, int *value,
		       const char **end)
{
	char word[FORMULA_TEXT], formula[FORMULA_TEXT];
	const size_t len = strcspn(text, " \t\n\v\f\r");
	char *stop;
	if (!len || len >= sizeof word)
		return 0;
	memcpy(word, text, len);
	word[len] = '\0';
	*end = text + len;
	for (int i = 0; axis == s->formula_axis && i < s->num_formulas; i++) {
		formula_text(formula, &s->formulas[i]);
		if (!strcmp(word, formula)) {
			*value = -1 - i;
			return 1;
		}
	}
	if (axis == s->formula_axis && !strcmp(word, fitted_word)) {
		*value = SEGMENTS_FITTED;
		return 1;
	}
	const long v = strtol(word, &stop, 10);
	*value = (int)v;
	return !*stop && v == *value && value_index(&s->axis[axis], *value) >= 0;
}

/* One "AXIS=value" at `text`; its axis, or -1. */
static int parse_one(const struct space *s, const char *text, int *value, const char **end)
{
	for (int i = 0; i < s->num_axes; i++) {
		size_t len = strlen(s->axis[i].name);
		if (!strncmp(text, s->axis[i].name, len) && text[len] == '=')
			return parse_value(s, i, text + len + 1, value, end) ? i : -1;
	}
	return -1;
}

int config_parse(struct config *c, const struct space *s, const char *text, const char **where)
{
	unsigned seen = 0, needed = 0;
	config_default(c, s);
	for (int i = 0; i < s->num_axes; i++)
		needed |= (unsigned)!s->axis[i].is_option << i;
	for (;;) {
		while (isspace((unsigned char)*text))
			text++;
		*where = text;
		if (!*text)
			return (seen & needed) == needed;
		int value, i = parse_one(s, text, &value, &text);
		if (i < 0 || seen >> i & 1)
			return 0;
		seen |= 1u << i;
		c->v[i] = value;
	}
}

int binary_flags(char *text, size_t size, const struct kernel *k, const struct config *c,
		 const attune_shape *shape)
{
	size_t n = (size_t)k->space->given(text, size, shape);
	for (int i = 0; i < k->space->num_axes && n < size; i++)
		if (k->space->axis[i].is_static && !is_silent(&k->space->axis[i], c->v[i]))
			n += (size_t)snprintf(text + n, size - n, "%s-D%s=%d", n ? " " : "",
					      k->space->axis[i].name, c->v[i]);
	return (int)n;
}

/* Abbreviations of flags in an entry's name; other flags are written out in lower case. */
static const struct {
	const char *flag, *word;
} entry_words[] = {
	{ "HEAD_SIZE", "d" },       { "DTYPE", "" },         { "KV_DTYPE", "kv" },
	{ "BLOCK_M", "bm" },        { "TILE_SIZE", "tile" }, { "NUM_WARPS", "warps" },
	{ "NUM_STAGES", "stages" },
};

/* Appends n characters in lower case, with _ for all but letters and digits. Returns the new
 * end. */
static char *put_word(char *to, const char *end, const char *from, size_t n)
{
	for (; n && to + 1 < end; n--, from++)
		*to++ = (char)(isalnum((unsigned char)*from) ? tolower((unsigned char)*from) : '_');
	return to;
}

static char *put_flag(char *to, const char *end, const char *name, size_t n)
{
	for (size_t i = 0; i < COUNT(entry_words); i++)
		if (strlen(entry_words[i].flag) == n && !strncmp(entry_words[i].flag, name, n))
			return put_word(to, end, entry_words[i].word, strlen(entry_words[i].word));
	return put_word(to, end, name, n);
}

void entry_name(char text[ENTRY_TEXT], const char *kernel, const char *flags)
{
	const char *end = text + ENTRY_TEXT;
	char *to = put_word(text, end, "attune_", 7);
	to = put_word(to, end, kernel, strlen(kernel));
	while ((flags = strstr(flags, "-D"))) {
		const size_t name = strcspn(flags += 2, "= "), value = strcspn(flags + name, " ");
		to = put_word(to, end, "_", 1);
		to = put_flag(to, end, flags, name);
		to = put_word(to, end, flags + name + 1, value ? value - 1 : 0);
		flags += name + value;
	}
	*to = '\0';
}

const char *dtype_name(enum attune_dtype t)
{
	static const char *const names[] = { "F32", "F16", "BF16", "E4M3" };
	return (unsigned)t < COUNT(names) ? names[t] : "?";
}

int dtype_bytes(enum attune_dtype t)
{
	return t == ATTUNE_F32 ? 4 : t == ATTUNE_E4M3 ? 1 : 2;
}

unsigned long long hash_word(unsigned long long h, const char *text)
{
	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * 1099511628211ull;
	return (h ^ '\n') * 1099511628211ull;
}

unsigned long long kernel_hash(const struct kernel *k)
{
	unsigned long long h = HASH_START;
	char value[16], formula[FORMULA_TEXT];
	for (int i = 0; i < k->space->num_axes; i++) {
		const struct axis *a = &k->space->axis[i];
		h = hash_word(h, a->name);
		for (int v = 0; v < a->num_values; v++) {
			snprintf(value, sizeof value, "%d", a->values[v]);
			h = hash_word(h, value);
		}
	}
	for (int i = 0; i < k->space->num_formulas; i++) {
		formula_text(formula, &k->space->formulas[i]);
		h = hash_word(h, formula);
	}
	return h;
}

unsigned long long rules_hash(void)
{
	unsigned long long h = HASH_START;
#define FEATURE(name, replay, meaning) h = hash_word(h, #name);
#include "kernels/features.def"
#undef FEATURE
	static const char *const costs[] = {
		"slots", "start", "path", "split", "segments", "merge"
	};
	for (size_t i = 0; i < COUNT(costs); i++)
		h = hash_word(h, costs[i]);
	return h;
}
