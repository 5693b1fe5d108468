/* SPDX-License-Identifier: Apache-2.0 */
/* choice.c - choices: to and from text (a kernel's name, then its tunables), comparison, and the
 * text of two-part plans. An error names what is wrong and what would be right. */
#include "kernel.h"
#include "space.h"
#include "kernels/segments.h"
#include <stdio.h>
#include <string.h>

static int refuse(char *error, size_t size, const char *what, const char *found, const char *right)
{
	snprintf(error, size, "%s \"%.*s\"; %s", what, (int)strcspn(found, " "), found, right);
	return 0;
}

static int refuse_kernel(enum backend backend, const char *found, char *error, size_t size)
{
	char right[160] = "one of these is expected:";
	for (const struct kernel *k = attune_kernels; k->name; k++)
		if (k->backend == backend && k->selectable)
			snprintf(right + strlen(right), sizeof right - strlen(right), " %s",
				 k->name);
	return refuse(error, size, "no kernel", found, right);
}

static void list_formulas(const struct space *s, char *right, size_t size)
{
	char formula[FORMULA_TEXT];
	snprintf(right, size, "given once, and of: fitted");
	for (int i = 0; i < s->num_formulas; i++) {
		formula_text(formula, &s->formulas[i]);
		snprintf(right + strlen(right), size - strlen(right), " %s", formula);
	}
}

/* The error for a tunable that is missing, unknown, repeated or has no such value. */
static int refuse_config(const struct kernel *k, const char *where, char *error, size_t size)
{
	char right[400] = "expected, each once:";
	for (int i = 0; i < k->space->num_axes; i++)
		snprintf(right + strlen(right), sizeof right - strlen(right),
			 " %s=", k->space->axis[i].name);
	if (!*where)
		return refuse(error, size, "a tunable is missing in", k->name, right);
	for (int i = 0; i < k->space->num_axes; i++) {
		const struct axis *a = &k->space->axis[i];
		const size_t len = strlen(a->name);
		if (strncmp(where, a->name, len) || where[len] != '=')
			continue;
		snprintf(right, sizeof right, "given once, and of:");
		for (int v = 0; v < a->num_values; v++)
			snprintf(right + strlen(right), sizeof right - strlen(right), " %d",
				 a->values[v]);
		const char first = where[len + 1];
		if (i == k->space->formula_axis && (first == 'b' || first == 'f'))
			list_formulas(k->space, right, sizeof right);
	}
	return refuse(error, size, "cannot take", where, right);
}

int choice_parse(struct choice *c, enum backend backend, const char *text, char *error, size_t size)
{
	char name[32];
	const char *where;
	text += strspn(text, " ");
	const size_t n = strcspn(text, " ");
	snprintf(name, sizeof name, "%.*s", n < sizeof name ? (int)n : 0, text);
	c->kernel = kernel_find(backend, name);
	if (!c->kernel || !c->kernel->selectable)
		return refuse_kernel(backend, text, error, size);
	if (!config_parse(&c->config, c->kernel->space, text + n, &where))
		return refuse_config(c->kernel, where, error, size);
	return 1;
}

int choice_text(char *text, size_t size, const struct choice *c)
{
	const int n = snprintf(text, size, "%s%s", c->kernel->name,
			       c->kernel->space->num_axes ? " " : "");
	if ((size_t)n >= size)
		return n;
	return n + config_text(text + n, size - (size_t)n, &c->config, c->kernel->space);
}

int space_spares(const struct space *s)
{
	return axis_named(s, "SPARE_UNITS");
}

int config_spare(struct config *c, const struct space *s, int units, const attune_shape *shape,
		 const struct part *p, const struct device_info *d)
{
	const int axis = space_spares(s);
	struct config sparing = *c;
	int i = 0;
	while (axis >= 0 && i < s->axis[axis].num_values && s->axis[axis].values[i] != units)
		i++;
	if (axis < 0 || i == s->axis[axis].num_values)
		return 0;
	sparing.v[axis] = units;
	if (s->why_illegal(&sparing, shape, p, d))
		return 0;
	*c = sparing;
	return 1;
}

int choice_spares(const struct choice *c)
{
	const int axis = space_spares(c->kernel->space);
	return axis < 0 ? 0 : c->config.v[axis];
}

int choice_early(const struct choice *c)
{
	const int axis = c->kernel->space->early_axis;
	return axis < 0 ? 0 : c->config.v[axis];
}

int choice_overlaps(const struct choice *c)
{
	return c->kernel->space->is_fused || choice_spares(c) > 0;
}

int choice_compare(const struct choice *a, const struct choice *b)
{
	if (a->kernel != b->kernel)
		return a->kernel < b->kernel ? -1 : 1;
	for (int i = 0; i < MAX_AXES; i++)
		if (a->config.v[i] != b->config.v[i])
			return a->config.v[i] < b->config.v[i] ? -1 : 1;
	return 0;
}

int choice_same(const struct choice *a, const struct choice *b)
{
	return a->kernel == b->kernel && !memcmp(&a->config, &b->config, sizeof a->config);
}

struct choice choice_family(const struct choice *c)
{
	struct choice first = *c;
	const int axis = c->kernel->space->formula_axis;
	if (axis >= 0)
		first.config.v[axis] = c->kernel->space->axis[axis].values[0];
	return first;
}

/* ---- plans ---------------------------------------------------------------------------- */
static const char *const how_bars[] = { [ATTUNE_SERIAL] = " | ", [ATTUNE_STREAMS] = " || " };
static const char prefill_word[] = "prefill: ", decode_word[] = "decode: ";

int parts_text(char *text, size_t size, const char *prefill, const char *decode,
	       enum attune_how how)
{
	return snprintf(text, size, "%s%s%s%s%s", prefill_word, prefill, how_bars[how], decode_word,
			decode);
}

int parts_parse(const char *text, char part[2][MAX_PART_TEXT], enum attune_how *how)
{
	if (strncmp(text, prefill_word, sizeof prefill_word - 1))
		return 0;
	text += sizeof prefill_word - 1;
	for (size_t i = 0; i < COUNT(how_bars); i++) {
		const char *bar = strstr(text, how_bars[i]);
		const char *rest = bar ? bar + strlen(how_bars[i]) : "";
		if (strncmp(rest, decode_word, sizeof decode_word - 1))
			continue;
		rest += sizeof decode_word - 1;
		if (bar - text >= MAX_PART_TEXT || strlen(rest) >= MAX_PART_TEXT)
			return 0;
		snprintf(part[0], MAX_PART_TEXT, "%.*s", (int)(bar - text), text);
		snprintf(part[1], MAX_PART_TEXT, "%s", rest);
		*how = (enum attune_how)i;
		return 1;
	}
	return 0;
}
