/* choice.c - choices as text: a kernel's name, then its tunables. What is wrong with a
 * text is said together with what would be right. */
#include "kernel.h"
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
	snprintf(right, size, "given once, and of:");
	for (int i = 0; i < s->num_formulas; i++) {
		formula_text(formula, &s->formulas[i]);
		snprintf(right + strlen(right), size - strlen(right), " %s", formula);
	}
}

/* The tunables in order, as the error for a text that names others. */
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
		if (where[len + 1] == 'b' && i == k->space->formula_axis)
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
	const int n = snprintf(text, size, "%s ", c->kernel->name);
	if ((size_t)n >= size)
		return n;
	return n + config_text(text + n, size - (size_t)n, &c->config, c->kernel->space);
}
