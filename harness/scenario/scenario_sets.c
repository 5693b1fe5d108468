/* scenario_sets.c - loads several sets as one list, each scenario once. */
#include "scenario.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int load_set(struct scenario_list *list, const char *dir, const char *name,
		    const struct models *m)
{
	char path[PATH_MAX];
	const size_t n = strlen(name);
	if (strchr(name, '/') || (n > 5 && !strcmp(name + n - 5, ".json")))
		return scenarios_load(list, name, m);
	snprintf(path, sizeof path, "%s/%s.json", dir, name);
	return scenarios_load(list, path, m);
}

/* Whether the list has a scenario that is measured alike. */
static int is_double(const struct scenario_list *list, const struct scenario *s)
{
	for (int i = 0; i < list->n; i++) {
		const struct scenario *o = &list->v[i];
		if (!strcmp(o->model, s->model) && !strcmp(o->batch_text, s->batch_text) &&
		    o->shape.page_size == s->shape.page_size && o->shape.dtype == s->shape.dtype &&
		    o->shape.kv_dtype == s->shape.kv_dtype && o->layout == s->layout &&
		    o->seed == s->seed)
			return 1;
	}
	return 0;
}

void scenarios_sift(struct scenario_list *list, const char *model)
{
	struct scenario_list kept = { .v = list->v };
	for (int i = 0; i < list->n; i++) {
		struct scenario s = list->v[i];
		if ((!model || !strcmp(s.model, model)) && !is_double(&kept, &s)) {
			kept.v[kept.n++] = s;
		} else {
			free(s.batch_text);
			batch_free(s.batch);
		}
	}
	list->n = kept.n;
}

int scenario_sets_load(struct scenario_list *list, const char *dir, const char *const *set, int n,
		       const char *model, const struct models *m)
{
	for (int i = 0; i < n; i++)
		if (!load_set(list, dir, set[i], m))
			return 0;
	scenarios_sift(list, model);
	return 1;
}
