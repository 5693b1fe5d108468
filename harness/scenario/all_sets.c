/* SPDX-License-Identifier: Apache-2.0 */
/* all_sets.c - loads all scenario sets of a folder. */
#include "scenario.h"
#include "harness/base/base.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int is_set(const struct dirent *d)
{
	size_t n = strlen(d->d_name);
	return n > 5 && !strcmp(d->d_name + n - 5, ".json") && strcmp(d->d_name, "models.json");
}

int scenarios_load_all(struct scenario_list *list, const char *dir, struct models *m)
{
	struct dirent **names;
	int n = scandir(dir, &names, is_set, alphasort), ok = n >= 0;
	if (n < 0)
		complain("--dir: %s: %s", dir, strerror(errno));
	for (int i = 0; i < n; i++) {
		char path[PATH_TEXT + 300];
		snprintf(path, sizeof path, "%s/%s", dir, names[i]->d_name);
		ok = ok && scenarios_load(list, path, m);
		free(names[i]);
	}
	if (n >= 0)
		free(names);
	return ok;
}
