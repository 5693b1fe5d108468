/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.c - `attune show --kernels`: the kernels with their tunables and rules. */
#include "show.h"
#include "harness/base/base.h"
#include "kernels/spec/kernel.h"
#include "kernels/spec/space.h"
#include <stdio.h>
#include <string.h>

static void kernel_row(struct table *t, const struct kernel *k, const char *kind, const char *name,
		       const char *values, const char *meaning)
{
	table_add(t, "%s %s %s", k->backend == BACKEND_CPU ? "cpu" : "gpu", k->name, kind);
	table_text(t, name); /* NULL in some rows */
	table_text(t, values);
	table_add(t, "%s\n", meaning);
}

static void axis_row(struct table *t, const struct kernel *k, const struct axis *a)
{
	char values[160];
	size_t n = 0;
	for (int i = 0; i < a->num_values && n < sizeof values; i++)
		n += (size_t)snprintf(values + n, sizeof values - n, "%s%d%s", i ? " " : "",
				      a->values[i], a->values[i] == a->dflt ? "*" : "");
	kernel_row(t, k, a->is_static ? "compiled in" : "at launch", a->name, values, a->about);
}

static void formula_rows(struct table *t, const struct kernel *k)
{
	const struct space *s = k->space;
	char text[FORMULA_TEXT];
	for (int i = 0; i < s->num_formulas; i++) {
		formula_text(text, &s->formulas[i]);
		kernel_row(t, k, "formula", s->axis[s->formula_axis].name, text,
			   "worked out for each batch: slots, start, launch, merge");
	}
}

int show_kernels(const char *gpu, enum format format)
{
	const char *columns[] = { "backend", "kernel", "kind", "name", "values", "meaning" };
	struct table *t = table_new(format, columns, (int)COUNT(columns));
	if (!t)
		return 0;
	for (const struct kernel *k = attune_kernels; k->name; k++) {
		if (gpu && (k->backend == BACKEND_CPU) != !strcmp(gpu, "cpu"))
			continue;
		kernel_row(t, k, k->selectable ? "kernel" : "helper", NULL, NULL, k->about);
		for (int i = 0; i < k->space->num_axes; i++)
			axis_row(t, k, &k->space->axis[i]);
		formula_rows(t, k);
		for (const char *const *r = k->space->rules; *r; r++)
			kernel_row(t, k, "rule", NULL, NULL, *r);
	}
	table_print(t, stdout);
	return 1;
}
