/* heats.c - who runs where: the candidates of each scenario and phase, the order of
 * scenarios, and which candidates earlier results have left worth running. */
#include "sweep.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { OPEN_HEATS = 8 /* of a phase, before any candidate is left out */, NEAREST = 6 };
static const double near_best = 1.10;

/* `v` with room for one more than n; NULL: no memory, and `v` is as it was. */
static void *grow(void *v, int n, int *room, size_t size)
{
	if (n < *room)
		return v;
	int more = *room ? 2 * *room : 64;
	void *bigger = realloc(v, (size_t)more * size);
	if (bigger)
		*room = more;
	else
		complain("out of memory");
	return bigger;
}

/* ---- filling ------------------------------------------------------------------ */

/* Whether the list of names, separated by commas, holds `name`. */
static int named(const char *list, const char *name)
{
	size_t len = strlen(name);
	for (const char *at = list; at && *at; at += strcspn(at, ","), at += *at == ',')
		if (strcspn(at, ",") == len && !strncmp(at, name, len))
			return 1;
	return !list;
}

static int same_choice(const struct choice *a, const struct choice *b)
{
	return a->kernel == b->kernel && !memcmp(&a->config, &b->config, sizeof a->config);
}

/* The entrant of this choice and binary, made when new; -1: no memory. */
static int entrant_for(struct heats *h, struct binaries *b, const struct candidate *c,
		       const attune_shape *shape)
{
	const struct kernel *k = c->choice.kernel, *reduce = kernel_find(k->backend, "reduce");
	const int built = binaries_add(b, &c->choice, shape);
	int merging = -1;
	for (int i = 0; i < h->num_entrants; i++) {
		struct entrant *e = &h->entrant[i];
		if (e->built != built || !same_choice(&e->choice, &c->choice))
			continue;
		if (c->origin < e->origin)
			e->origin = c->origin;
		return i;
	}
	if (reduce && config_value(&c->choice.config, k->space, "SEGMENTS", 1) > 1) {
		struct choice join = { .kernel = reduce };
		config_default(&join.config, reduce->space);
		merging = binaries_add(b, &join, shape);
		if (merging < 0)
			return -1;
	}
	struct entrant *v = grow(h->entrant, h->num_entrants, &h->entrant_room, sizeof *v);
	if (built < 0 || !v)
		return -1;
	h->entrant = v;
	v[h->num_entrants] = (struct entrant){
		.choice = c->choice, .origin = c->origin, .built = built, .reduce = merging
	};
	return h->num_entrants++;
}

static int has_entrant(const struct heat *h, int entrant)
{
	for (int i = 0; i < h->n; i++)
		if (h->entrant[i] == entrant)
			return 1;
	return 0;
}

static int take(struct heats *all, struct heat *h, struct binaries *b, const struct candidate *c,
		const attune_shape *shape)
{
	int e = entrant_for(all, b, c, shape);
	int *more = e < 0 ? NULL : realloc(h->entrant, ((size_t)h->n + 1) * sizeof *more);
	if (!more)
		return 0;
	h->entrant = more;
	if (!has_entrant(h, e))
		h->entrant[h->n++] = e;
	return 1;
}

/* What is legal of the list for this part; defaults and baselines that are not are
 * replaced by the nearest that is. */
static int fill(struct heats *all, struct heat *h, struct binaries *b,
		const struct candidates *list, const attune_shape *shape,
		const struct device_info *d)
{
	for (int i = 0; i < list->n; i++) {
		struct candidate c = list->v[i];
		const struct kernel *k = c.choice.kernel;
		int legal = !k->space->why_illegal(&c.choice.config, shape, &h->part, d);
		if (!legal && c.origin == FROM_DEFAULT)
			legal = nearest_legal(&c.choice.config, k, &list->v[i].choice.config, shape,
					      &h->part, d);
		else if (!legal && c.origin == FROM_BASELINE)
			legal = baseline_nearest(&c.choice.config, k, shape, &h->part, d);
		if (legal && !take(all, h, b, &c, shape))
			return 0;
	}
	return 1;
}

static unsigned long long scramble(unsigned long long z)
{
	z = (z ^ z >> 31) * 0xbf58476d1ce4e5b9ull;
	return z ^ z >> 29;
}

/* 0: the reference, the default of the kernel that was made for the phase; then other
 * defaults and baselines; then the rest in no order, so that a race whose budget ends
 * early leaves out no corner of the space. */
static unsigned long long turn(const struct heats *all, const struct heat *h, int entrant)
{
	const struct entrant *e = &all->entrant[entrant];
	const char *kernel = h->phase == PHASE_DECODE ? "segmented" : "qblock";
	if (e->origin == FROM_DEFAULT && !strcmp(e->choice.kernel->name, kernel))
		return 0;
	return e->origin <= FROM_BASELINE ? 1 : 2 + (scramble((unsigned)entrant + 1) >> 2);
}

static void put_in_order(const struct heats *all, struct heat *h)
{
	for (int i = 1; i < h->n; i++) {
		const int e = h->entrant[i];
		const unsigned long long its = turn(all, h, e);
		int at = i;
		for (; at > 0 && turn(all, h, h->entrant[at - 1]) > its; at--)
			h->entrant[at] = h->entrant[at - 1];
		h->entrant[at] = e;
	}
}

static void describe(struct heat *h)
{
	const struct attune_features *f = &h->part.f;
	const double of[HEAT_FEATURES] = {
		(double)f->num_seqs, (double)f->max_query, (double)f->query_tokens,
		(double)f->max_seq,  (double)f->kv_tokens, (double)f->heads_x_seqs,
		(double)f->group,    (double)f->head_size,
	};
	for (int i = 0; i < HEAT_FEATURES; i++)
		h->feature[i] = log2(of[i] + 1);
}

static int shape_index(struct heats *h, const attune_shape *s)
{
	for (int i = 0; i < h->num_shapes; i++) {
		const attune_shape *o = &h->shape[i];
		if (o->num_query_heads == s->num_query_heads &&
		    o->num_kv_heads == s->num_kv_heads && o->head_size == s->head_size &&
		    o->page_size == s->page_size && o->dtype == s->dtype &&
		    o->kv_dtype == s->kv_dtype && o->causal == s->causal &&
		    o->window == s->window && o->softcap == s->softcap &&
		    o->has_sinks == s->has_sinks && o->has_alibi == s->has_alibi)
			return i;
	}
	attune_shape *more = realloc(h->shape, ((size_t)h->num_shapes + 1) * sizeof *more);
	if (!more) {
		complain("out of memory");
		return -1;
	}
	h->shape = more;
	h->shape[h->num_shapes] = *s;
	return h->num_shapes++;
}

/* Takes h->entrant. */
static int add_heat(struct heats *all, struct binaries *b, struct heat *h,
		    const struct candidates *list, const struct device_info *d)
{
	const attune_shape *shape = &all->scenarios[h->scenario].shape;
	int ok = fill(all, h, b, list, shape, d);
	struct heat *v = grow(all->v, all->n, &all->room, sizeof *v);
	if (v)
		all->v = v;
	h->shape = shape_index(all, shape);
	if (!ok || !v || h->shape < 0 || !h->n) {
		free(h->entrant);
		return ok && v && h->shape >= 0;
	}
	describe(h);
	put_in_order(all, h);
	h->stored = calloc((size_t)h->n, 1);
	h->us = malloc((size_t)h->n * sizeof *h->us);
	for (int i = 0; h->us && i < h->n; i++)
		h->us[i] = NAN;
	v[all->n++] = *h;
	return h->stored && h->us;
}

int heats_add(struct heats *all, struct binaries *b, int index, const struct field *f)
{
	const struct scenario *s = &all->scenarios[index];
	const attune_batch *batch = &s->batch->view;
	struct candidates list = { 0 };
	struct part part;
	int ok = 1;
	for (const struct kernel *k = attune_kernels; ok && k->name; k++)
		if (k->backend == f->device->backend && k->selectable && named(f->kernels, k->name))
			ok = candidates_add(&list, k, &s->shape, f->device, f->preset, f->seed);
	const int mixed = part_make(&part, PHASE_PREFILL, &s->shape, batch, f->device) &&
			  part_make(&part, PHASE_DECODE, &s->shape, batch, f->device);
	/* The whole comes after its parts: their best are raced with it, as plans. */
	static const enum phase order[] = { PHASE_PREFILL, PHASE_DECODE, PHASE_ALL };
	for (size_t i = 0; ok && i < COUNT(order); i++) {
		struct heat h = { .scenario = index, .phase = order[i] };
		if ((h.phase == PHASE_ALL && !mixed) ||
		    !part_make(&h.part, h.phase, &s->shape, batch, f->device))
			continue;
		ok = add_heat(all, b, &h, &list, f->device);
	}
	free(list.v);
	return ok;
}

struct heat *heats_find(const struct heats *h, int scenario, enum phase phase)
{
	for (int i = 0; i < h->n; i++)
		if (h->v[i].scenario == scenario && h->v[i].phase == phase)
			return &h->v[i];
	return NULL;
}

void heats_free(struct heats *h)
{
	for (int i = 0; i < h->n; i++) {
		free(h->v[i].entrant);
		free(h->v[i].stored);
		free(h->v[i].us);
		free(h->v[i].plan);
	}
	free(h->v);
	free(h->entrant);
	free(h->shape);
	*h = (struct heats){ 0 };
}

/* ---- order -------------------------------------------------------------------- */

static double apart(const struct heat *a, const struct heat *b)
{
	double sum = 0;
	for (int i = 0; i < HEAT_FEATURES; i++)
		sum += (a->feature[i] - b->feature[i]) * (a->feature[i] - b->feature[i]);
	return sqrt(sum);
}

/* The number of heats from i on that are of one scenario. */
static int together(const struct heats *h, int i)
{
	int n = 1;
	while (i + n < h->n && h->v[i + n].scenario == h->v[i].scenario)
		n++;
	return n;
}

/* Moves the n heats at `from` to `to`, before which they lie. */
static void bring(struct heats *h, int from, int to, int n)
{
	for (int k = 0; k < n; k++) {
		struct heat moved = h->v[from + k];
		memmove(&h->v[to + k + 1], &h->v[to + k], (size_t)(from - to) * sizeof *h->v);
		h->v[to + k] = moved;
	}
}

/* A scenario stands where its last heat does: that of the whole batch, if mixed. */
static double scenarios_apart(const struct heats *h, int i, int j)
{
	return apart(&h->v[i + together(h, i) - 1], &h->v[j + together(h, j) - 1]);
}

void heats_spread(struct heats *h)
{
	for (int done = h->n ? together(h, 0) : 0; done < h->n;) {
		double farthest = -1;
		int next = done;
		for (int i = done; i < h->n; i += together(h, i)) {
			double near = INFINITY;
			for (int j = 0; j < done; j += together(h, j))
				near = fmin(near, scenarios_apart(h, i, j));
			if (near > farthest) {
				farthest = near;
				next = i;
			}
		}
		int n = together(h, next);
		bring(h, next, done, n);
		done += n;
	}
}

/* ---- what is known ------------------------------------------------------------ */

struct recall {
	struct heats *heats;
	int last; /* cells of a heat follow one another */
};

static const char *const phases[] = { "all", "prefill", "decode" };

static int is_of_scenario(const struct scenario *s, const struct store_cell *c)
{
	return c->page_size == s->shape.page_size && c->seed == s->seed &&
	       !strcmp(c->model, s->model) && !strcmp(c->batch, s->batch_text) &&
	       c->shape.dtype == s->shape.dtype && c->shape.kv_dtype == s->shape.kv_dtype &&
	       !strcasecmp(c->layout, s->layout == LAYOUT_HND ? "HND" : "NHD");
}

/* Plans belong to the heat of the whole batch. */
static int is_of(const struct heats *all, const struct heat *h, const struct store_cell *c)
{
	const char *phase = strcmp(c->phase, "plan") ? c->phase : "all";
	return !strcmp(phase, phases[h->phase]) && is_of_scenario(&all->scenarios[h->scenario], c);
}

static void note(const struct heats *all, struct heat *h, const struct store_cell *c)
{
	struct config config;
	const char *where;
	if (!strcmp(c->phase, "plan")) {
		free(h->plan);
		h->plan = strdup(c->choice);
		return;
	}
	for (int i = 0; i < h->n; i++) {
		const struct choice *mine = &all->entrant[h->entrant[i]].choice;
		if (!strcmp(mine->kernel->name, c->kernel) &&
		    config_parse(&config, mine->kernel->space, c->choice, &where) &&
		    !memcmp(&config, &mine->config, sizeof config)) {
			h->us[i] = strcmp(c->outcome, "ok") ? INFINITY : c->median_us;
			return;
		}
	}
}

static int recall_cell(void *arg, const struct store_cell *c)
{
	struct recall *r = arg;
	for (int k = 0; k < r->heats->n; k++) {
		int i = (r->last + k) % r->heats->n;
		if (!is_of(r->heats, &r->heats->v[i], c))
			continue;
		note(r->heats, &r->heats->v[i], c);
		r->last = i;
		break;
	}
	return 1;
}

int heats_recall(struct heats *all, struct store *store, const char *gpu)
{
	struct recall r = { .heats = all };
	if (!all->n)
		return 1;
	if (!store_each(store, gpu, recall_cell, &r))
		return 0;
	for (int i = 0; i < all->n; i++) {
		struct heat *h = &all->v[i];
		for (int k = 0; k < h->n; k++) {
			char text[MAX_CHOICE_TEXT + 64];
			choice_text(text, sizeof text, &all->entrant[h->entrant[k]].choice);
			h->stored[k] =
			    !isnan(h->us[k]) &&
			    store_has(store, gpu, &all->scenarios[h->scenario], h->phase, text) > 0;
		}
		h->planned = h->plan &&
			     store_has_plan(store, gpu, &all->scenarios[h->scenario], h->plan) > 0;
		/* The reference is entered last: where it is, the race came to its end. */
		h->finished = h->stored[0];
		for (int k = 0; k < h->n; k++)
			if (all->entrant[h->entrant[k]].origin <= FROM_BASELINE && !h->stored[k])
				h->finished = 0;
	}
	return 1;
}

/* ---- selection ---------------------------------------------------------------- */

static double best_of(const struct heat *h)
{
	double best = INFINITY;
	for (int i = 0; i < h->n; i++)
		if (h->us[i] < best)
			best = h->us[i];
	return best;
}

/* Whether `choice` won `h`, or nearly. */
static int shone(const struct heats *all, const struct heat *h, const struct choice *choice)
{
	const double limit = best_of(h) * near_best;
	for (int i = 0; i < h->n; i++)
		if (h->us[i] <= limit && same_choice(&all->entrant[h->entrant[i]].choice, choice))
			return 1;
	return 0;
}

/* Finished heats of the same phase nearest to `h`, the nearest first. */
static int nearest_heats(const struct heats *all, const struct heat *h, const struct heat **out,
			 int *finished)
{
	double far[NEAREST];
	int n = 0;
	*finished = 0;
	for (int i = 0; i < all->n; i++) {
		const struct heat *o = &all->v[i];
		if (o == h || !o->finished || o->phase != h->phase)
			continue;
		++*finished;
		double d = apart(o, h);
		int at = n < NEAREST ? n++ : NEAREST;
		while (at > 0 && far[at - 1] > d) {
			if (at < NEAREST) {
				far[at] = far[at - 1];
				out[at] = out[at - 1];
			}
			at--;
		}
		if (at < NEAREST) {
			far[at] = d;
			out[at] = o;
		}
	}
	return n;
}

/* One in 16, the same ones each time. */
static int lucky(const struct heat *h, int i)
{
	return (scramble((unsigned)h->scenario * 0x9e3779b97f4a7c15ull + (unsigned)i) >> 40) % 16 ==
	       0;
}

int heats_select(const struct heats *all, const struct heat *h, int everyone, int *out)
{
	const struct heat *near[NEAREST];
	int finished, n = 0, num_near = nearest_heats(all, h, near, &finished);
	everyone |= finished < OPEN_HEATS;
	for (int i = 0; i < h->n; i++) {
		const struct entrant *e = &all->entrant[h->entrant[i]];
		int in = everyone || !i || e->origin <= FROM_BASELINE || lucky(h, i);
		for (int k = 0; k < num_near && !in; k++)
			in = shone(all, near[k], &e->choice);
		if (in)
			out[n++] = i;
	}
	return n;
}
