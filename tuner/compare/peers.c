/* peers.c - reads the times of other projects' kernels from the rows of plug-ins. */
#include "peers.h"
#include "harness/base/base.h"
#include "harness/store/store.h"
#include "kernels/device/shared/gpu_names.h"
#include "kernels/spec/plugin.h"
#include "tuner/base/base.h"
#include "tuner/data/data.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The least times of one scenario, by peer and phase; [NUM_PHASES]: both parts at a time. */
struct reading {
	struct peers *p;
	long long scenario;
	struct peer_time of; /* the scenario */
	struct raced {
		double us, ci_us;
	} raced[MAX_PEERS][NUM_PHASES + 1];
	int has[NUM_PHASES + 1]; /* rows of any kernel */
	int failed;
};

static void forget_times(struct reading *r)
{
	memset(r->has, 0, sizeof r->has);
	for (int k = 0; k < MAX_PEERS; k++)
		for (int i = 0; i <= NUM_PHASES; i++)
			r->raced[k][i] = (struct raced){ INFINITY, NAN };
}

static int add(struct peers *p, const struct peer_time *t)
{
	if (!array_grow(&p->v, p->n, &p->room, sizeof *p->v))
		return 0;
	p->v[p->n] = *t;
	p->v[p->n].model = strdup(t->model);
	p->v[p->n].batch = strdup(t->batch);
	p->n++;
	return p->v[p->n - 1].model && p->v[p->n - 1].batch;
}

static struct raced faster(struct raced a, struct raced b)
{
	return b.us < a.us ? b : a;
}

/* Prefills, then decodes. */
static struct raced in_turn(const struct reading *r, const struct raced of[NUM_PHASES + 1])
{
	struct raced sum = { 0, 0 };
	for (int p = PHASE_PREFILL; p <= PHASE_DECODE; p++)
		if (r->has[p]) {
			sum.us += of[p].us;
			sum.ci_us = hypot(sum.ci_us, of[p].ci_us);
		}
	return sum.us > 0 ? sum : (struct raced){ INFINITY, NAN };
}

/* Called when all rows of a scenario were read. */
static void end_scenario(struct reading *r)
{
	for (int k = 0; k < r->p->num_names && r->of.model; k++) {
		const struct raced *of = r->raced[k];
		const struct raced best =
		    faster(faster(of[PHASE_ALL], of[NUM_PHASES]), in_turn(r, of));
		struct peer_time t = r->of;
		t.peer = k;
		t.us = best.us;
		t.ci_us = best.ci_us;
		if (isfinite(t.us))
			r->failed |= !add(r->p, &t);
	}
	free(r->of.model);
	free(r->of.batch);
	r->of = (struct peer_time){ .model = NULL };
	forget_times(r);
}

/* -1: there are too many. */
static int peer_of(struct peers *p, const char *kernel, const char *version)
{
	int k = 0;
	while (k < p->num_names && strcmp(p->name[k], kernel))
		k++;
	if (k == p->num_names && version && k < MAX_PEERS) {
		snprintf(p->name[k], sizeof p->name[k], "%s", kernel);
		snprintf(p->version[k], sizeof p->version[k], "%.*s", (int)strcspn(version, " "),
			 version);
		p->num_names++;
	}
	return k < p->num_names ? k : -1;
}

/* The peer that runs both parts of a plan; -1: none does. */
static int peer_of_plan(struct peers *p, const char *text)
{
	char part[2][MAX_PART_TEXT];
	enum attune_how how;
	if (!parts_parse(text, part, &how))
		return -1;
	for (int i = 0; i < 2; i++)
		part[i][strcspn(part[i], " ")] = '\0';
	return strcmp(part[0], part[1]) ? -1 : peer_of(p, part[0], NULL);
}

static int read_row(void *arg, const struct store_cell *c)
{
	struct reading *r = arg;
	const int is_plan = !strcmp(c->phase, phase_name(NUM_PHASES));
	int phase = 0;
	if (c->scenario_id != r->scenario)
		end_scenario(r);
	r->scenario = c->scenario_id;
	while (phase < NUM_PHASES && strcmp(c->phase, phase_name(phase)))
		phase++;
	r->has[phase] = 1;
	if ((!c->plugin && !is_plan) || strcmp(c->outcome, outcome_name(OUTCOME_OK)))
		return 1;
	const int k = is_plan ? peer_of_plan(r->p, c->choice) : peer_of(r->p, c->kernel, c->plugin);
	if (k < 0)
		return 1;
	r->p->e4m3_math[k] |= c->plugin && strstr(c->plugin, PLUGIN_E4M3_MATH);
	if (!r->of.model) {
		r->of = (struct peer_time){ .model = strdup(c->model),
					    .batch = strdup(c->batch),
					    .page_size = c->page_size,
					    .kv_dtype = c->shape.kv_dtype };
		r->failed |= !r->of.model || !r->of.batch;
		snprintf(r->p->protocol, sizeof r->p->protocol, "%s", c->protocol);
	}
	r->raced[k][phase] = faster(r->raced[k][phase], (struct raced){ c->median_us, c->ci_us });
	return !r->failed;
}

void peers_path(char path[PATH_TEXT], const char *given, const char *gpu)
{
	char name[GPU_NAME + 8];
	snprintf(name, sizeof name, "%s_peers", gpu);
	db_path_to_read(path, given, name);
}

int peers_load(struct peers *p, const char *gpu, const char *db)
{
	struct reading r = { .p = p };
	struct store *store = store_open(db, 1);
	*p = (struct peers){ .n = 0 };
	if (!store)
		return 0;
	forget_times(&r);
	const int read = store_each(store, gpu, read_row, &r);
	end_scenario(&r);
	store_close(store);
	if (r.failed)
		complain("%s: out of memory", db);
	if (!read || r.failed)
		peers_free(p);
	return read && !r.failed;
}

void peers_free(struct peers *p)
{
	for (int i = 0; i < p->n; i++) {
		free(p->v[i].model);
		free(p->v[i].batch);
	}
	free(p->v);
	*p = (struct peers){ .n = 0 };
}

const struct peer_time *peers_fastest(const struct peers *p, const struct measured *m, int peer)
{
	const struct peer_time *best = NULL;
	for (const struct peer_time *t = p->v; t && t < p->v + p->n; t++)
		if ((peer < 0 || t->peer == peer) && t->page_size == m->shape.page_size &&
		    t->kv_dtype == m->shape.kv_dtype && !strcmp(t->model, m->model) &&
		    !strcmp(t->batch, m->batch_text) && (!best || t->us < best->us))
			best = t;
	return best;
}
