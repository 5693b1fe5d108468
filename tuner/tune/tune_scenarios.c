/* SPDX-License-Identifier: Apache-2.0 */
/* tune_scenarios.c - loads the scenarios of a tune: the GPU's own sets or those that the user
 * names, and those of --steps; of these, what the preset measures. */
#include "tune.h"
#include "harness/base/base.h"
#include "harness/generate/engine_sim.h"
#include "harness/scenario/scenario.h"
#include "harness/search/search.h"
#include "harness/sweep/sweep.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_SETS = 24 };

/* The GPU's own sets, else the H200's: the main set, the dense one, the traces and the gate's; for
 * a full tune all kinds. */
static int name_sets(const struct tune *t, char name[MOST_SETS][80])
{
	static const char *const kinds[] = { "",        "dense_",  "traces_", "gate_",
					     "shapes_", "mixed_",  "peers_",  "hybrid_",
					     "unseen_", "blends_", "drafts_" };
	enum { QUICK_KINDS = 4 };
	const size_t most = t->o->preset == PRESET_FULL ? COUNT(kinds) : QUICK_KINDS;
	const char *gpu = t->here.gpu;
	char path[PATH_MAX];
	int n = 0;
	snprintf(path, sizeof path, "%s/%s.json", t->o->dir, gpu);
	if (access(path, R_OK))
		gpu = "h200";
	for (size_t i = 0; i < most; i++) {
		snprintf(name[n], sizeof name[n], "%s%s", kinds[i], gpu);
		snprintf(path, sizeof path, "%s/%s.json", t->o->dir, name[n]);
		n += !access(path, R_OK);
	}
	return n;
}

static int split_names(const char *list, char name[MOST_SETS][80])
{
	int n = 0;
	for (const char *at = list; *at && n < MOST_SETS - 1;
	     at += strcspn(at, ","), at += *at == ',')
		snprintf(name[n++], sizeof name[0], "%.*s", (int)strcspn(at, ","), at);
	return n;
}

static int draw_third(struct scenario_list *list, int third)
{
	int n = 0;
	for (int i = 0; i < list->n; i++) {
		if (gate_draws(&list->v[i], third))
			snprintf(list->v[i].split, sizeof list->v[i].split, "gate");
		n += split_is_gate(list->v[i].split);
	}
	return n;
}

/* Moves one in three held-out scenarios to the gate; two where it has few, as with a set of one's
 * own. New rules differ in half of them, and of 17 they were taken away by chance. */
static void draw_gate(struct scenario_list *list)
{
	enum { FEW = 30 };
	if (draw_third(list, 0) < FEW)
		draw_third(list, 1);
}

/* The set of captured steps: results/local/steps_NAME.json. The last third is held out, of which
 * the gate draws. A CPU gets no step of more than 4 GFLOP. */
static int make_set(const struct tune *t, struct models *m, char path[PATH_MAX])
{
	const char *slash = strrchr(t->o->steps, '/'), *base = slash ? slash + 1 : t->o->steps;
	struct job job = usual_job;
	job.path = t->o->steps;
	job.is_captured = 1;
	job.models = t->o->model ? t->o->model : "llama3.1-8b@1";
	job.hold_out = 0.33;
	job.max_gflop = strcmp(t->here.gpu, "cpu") != 0 ? 8000 : 4;
	const struct recipe r = { .jobs = &job, .num_jobs = 1 };
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	int done = f && set_make(&r, m, f);
	snprintf(path, PATH_MAX, "%s/local/steps_%.*s.json", t->o->results, (int)strcspn(base, "."),
		 base);
	if (!f || fclose(f)) {
		complain("out of memory");
		done = 0;
	}
	done = done && file_put(path, text);
	free(text);
	return done;
}

/* Adds the scenarios of --steps, which are measured before the sets'. */
static int add_steps(struct tune *t, struct models *m)
{
	const char *dot = strrchr(t->o->steps, '.'), *set = t->o->steps;
	const int before = t->list.n;
	char path[PATH_MAX];
	if (!dot || strcmp(dot, ".json") != 0) {
		if (!make_set(t, m, path))
			return 0;
		set = path;
	}
	const int done = scenario_set_load(&t->list, t->o->dir, set, m);
	for (int i = before; i < t->list.n; i++)
		t->list.v[i].asked = 1;
	scenarios_sift(&t->list, t->o->model);
	return done;
}

/* Drops the scenarios that no step would measure: of those that are not the gate's, what a sweep of
 * this preset leaves out. 0 after a complaint. */
static int drop_others(struct tune *t)
{
	struct scenario *v = t->list.v;
	char *take = malloc((size_t)t->list.n + 1);
	const int done = take && sweep_takes(&t->list, t->o->preset, take);
	int n = 0;
	if (!take)
		complain("out of memory");
	for (int i = 0; done && i < t->list.n; i++)
		if (take[i] || split_is_gate(v[i].split))
			v[n++] = v[i];
		else
			scenario_drop(&v[i]);
	t->list.n = done ? n : t->list.n;
	free(take);
	return done;
}

int tune_scenarios(struct tune *t)
{
	char name[MOST_SETS][80], path[PATH_MAX];
	const char *set[MOST_SETS];
	int n = t->o->sets ? split_names(t->o->sets, name) : name_sets(t, name);
	for (int i = 0; i < n; i++)
		set[i] = name[i];
	snprintf(path, sizeof path, "%s/models.json", t->o->dir);
	struct models *m = models_load(path);
	int done = m && scenario_sets_load(&t->list, t->o->dir, set, n, t->o->model, m) &&
		   (!t->o->steps || add_steps(t, m));
	models_free(m);
	if (done && !t->list.n)
		complain("these sets have no scenario of %s",
			 t->o->model ? t->o->model : "any model");
	draw_gate(&t->list);
	done = done && drop_others(t);
	return done && t->list.n;
}
