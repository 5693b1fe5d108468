/* SPDX-License-Identifier: Apache-2.0 */
/* asked_batch.c - makes a struct measured, without measurements, for a batch that a user asks about;
 * and a scenario of a measured one, to measure it again. */
#include "policy.h"
#include "harness/base/base.h"
#include "harness/scenario/scenario.h"
#include "kernels/spec/part.h"
#include "tuner/data/data.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { USUAL_PAGE = 16 };

/* A scenario of the model in the strided layout, preferably with pages of this size. NULL: none. */
static const struct measured *scenario_of_model(const struct data *d, const char *model,
						int page_size)
{
	const struct measured *found = NULL;
	for (int s = 0; s < d->n; s++) {
		const struct measured *m = &d->v[s];
		if (strcmp(m->model, model) || m->shape.kv_layout != ATTUNE_KV_STRIDED)
			continue;
		if (m->shape.page_size == page_size)
			return m;
		found = found ? found : m;
	}
	return found;
}

static int published_shape(attune_shape *out, const struct data *d, const char *model)
{
	char path[PATH_TEXT];
	struct models *models = models_load(data_path(path, "scenarios/models.json"));
	const int found = models && models_shape(models, model, out);
	models_free(models);
	if (!found)
		return 0;
	out->dtype = d->v[0].shape.dtype;
	out->kv_dtype = d->v[0].shape.kv_dtype;
	out->page_size = USUAL_PAGE;
	return 1;
}

int shape_of_model(attune_shape *out, const struct data *d, const char *model, int page_size)
{
	const struct measured *m = scenario_of_model(d, model, page_size ? page_size : USUAL_PAGE);
	if (m)
		*out = m->shape;
	else if (!published_shape(out, d, model))
		return 0;
	if (page_size)
		out->page_size = page_size;
	return 1;
}

int measured_make_view(struct measured *out, const struct data *d, const attune_shape *shape,
		       const attune_batch *view)
{
	*out = (struct measured){ .shape = *shape, .weight = 1 };
	for (int p = 0; p < NUM_PHASES; p++)
		out->has[p] = part_make(&out->part[p], (enum phase)p, shape, view, &d->run.device);
	return out->has[PHASE_ALL];
}

int measured_make(struct measured *out, const struct data *d, const char *model,
		  const attune_shape *shape, const char *text)
{
	char error[200];
	struct batch *b = batch_parse(text, error, sizeof error);
	if (!b) {
		complain("--batch %s: %s", text, error);
		return 0;
	}
	if (!measured_make_view(out, d, shape, &b->view)) {
		complain("--batch %s: no sequence has a query", text);
		batch_free(b);
		return 0;
	}
	out->batch = b;
	out->model = strdup(model);
	out->batch_text = strdup(text);
	out->layout = strdup(
	    shape->kv_layout == ATTUNE_KV_CLASSIC ? "classic" : layout_names[model_layout(model)]);
	out->set = strdup("asked");
	out->split = strdup("train");
	out->seed = 1;
	return out->model && out->batch_text && out->layout && out->set && out->split;
}

void measured_free(struct measured *m)
{
	free(m->model);
	free(m->batch_text);
	free(m->layout);
	free(m->set);
	free(m->split);
	batch_free(m->batch);
}

void scenario_again(struct scenario *out, const struct measured *m)
{
	*out = (struct scenario){ .batch_text = m->batch_text,
				  .batch = m->batch,
				  .shape = m->shape,
				  .layout = layout_of(m->layout),
				  .weight = m->weight,
				  .seed = m->seed };
	snprintf(out->model, sizeof out->model, "%s", m->model);
	snprintf(out->set, sizeof out->set, "%s", m->set);
	snprintf(out->split, sizeof out->split, "%s", m->split);
}
