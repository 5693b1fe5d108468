/* scenario_sets.c - loads several sets as one list, each scenario once. */
#include "scenario.h"
#include <limits.h>
#include <stdio.h>
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

void scenarios_sift(struct scenario_list *list, const char *model)
{
	struct scenario_list kept = { .v = list->v };
	struct twins seen = { .by_seed = 1 };
	for (int i = 0; i < list->n; i++) {
		struct scenario s = list->v[i];
		const int wanted = !model || !strcmp(s.model, model);
		const int twin = wanted ? twins_add(&seen, kept.v, &s, kept.n) : 0;
		if (wanted && twin >= 0)
			kept.v[twin].asked |= s.asked;
		if (wanted && twin < 0) /* without memory a twin may stay */
			kept.v[kept.n++] = s;
		else
			scenario_drop(&s);
	}
	list->n = kept.n;
	twins_free(&seen);
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
