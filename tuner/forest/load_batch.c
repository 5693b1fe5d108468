/* load_batch.c - loads the data of one batch, with the forest's choices for it as columns. */
#include "forest.h"
#include "harness/store/store.h"
#include "tuner/base/base.h"
#include "tuner/data/data.h"
#include "tuner/data/filling.h"

/* Adds the forest's choices, which need not have been measured there. */
static int add_made(struct data *d, int scenario, const void *forest)
{
	struct decided made[2];
	forest_make(d, forest, &d->v[scenario], &made[0]);
	forest_make_serial(d, forest, &d->v[scenario], &made[1]);
	for (int i = 0; i < 2; i++)
		if (!data_add_choice(d, &made[i].prefill) || !data_add_choice(d, &made[i].decode))
			return 0;
	return 1;
}

struct data *data_load_batch(const char *db_path, const char *gpu, const char *model,
			     const char *batch, const struct forest *f)
{
	const struct store_filter filter = { model, batch };
	return data_load_one(db_path, gpu, &filter, f ? add_made : NULL, f);
}
