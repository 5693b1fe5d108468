/* rules.c - the rules that `attune eval` judges: a header's, or learned now, and with plug-ins. */
#include "eval.h"
#include "harness/base/base.h"
#include "tuner/base/base.h"
#include "tuner/data/data.h"
#include "tuner/forest/forest.h"
#include "tuner/induce/induce.h"
#include "tuner/induce/plugin_decision.h"
#include <string.h>

int rules_find(struct forest *f, const struct data *d, const char *header, const char *with)
{
	const struct limits limits = default_limits;
	char path[PATH_TEXT];
	int done;
	if (header && !strcmp(header, "induced")) {
		done = forest_induce(f, d, &limits);
	} else {
		rules_path(path, header && strcmp(header, "committed") ? header : NULL, d->gpu);
		done = forest_load(f, path);
	}
	if (!done || !with)
		return done;
	for (int t = NUM_DECISIONS; t < ALL_DECISIONS; t++)
		tree_free(&f->tree[t]);
	f->num_plugins = 0;
	if (fit_plugins(f, d, &limits))
		return 1;
	complain("out of memory");
	forest_free(f);
	return 0;
}
