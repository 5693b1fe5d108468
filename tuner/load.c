/* load.c - reads a database of one GPU into struct data. */
#include "data.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_KERNELS = 32 /* of a device */ };

/* The least times of a kernel in one part of the scenario at hand: of rows that count, and of
 * stale ones; INFINITY: none. */
struct kernel_least {
	char kernel[32];
	double fresh, stale;
};

struct loading {
	struct data *d;
	int all;  /* layouts, and what gives the LSE */
	int e4m3; /* caches of E4M3 alone; else, but for all, of 16 and 32 bits */
	int failed;
	long long scenario; /* id of the one at hand: its cells follow one another */
	int scenarios;      /* that data had before it */
	struct kernel_least least[NUM_PHASES][MAX_KERNELS];
	int kernels[NUM_PHASES];
};

static void note_time(struct loading *l, const struct store_cell *c)
{
	int phase = 0, i = 0;
	while (phase < NUM_PHASES && strcmp(c->phase, phase_name(phase)))
		phase++;
	if (phase == NUM_PHASES || c->pass != 'A' || strcmp(c->outcome, outcome_name(OUTCOME_OK)))
		return;
	struct kernel_least *v = l->least[phase];
	while (i < l->kernels[phase] && strcmp(v[i].kernel, c->kernel))
		i++;
	if (i == MAX_KERNELS)
		return;
	if (i == l->kernels[phase]) {
		v[l->kernels[phase]++] = (struct kernel_least){ .fresh = INFINITY, .stale = INFINITY };
		snprintf(v[i].kernel, sizeof v[i].kernel, "%s", c->kernel);
	}
	double *least = c->today == STALE ? &v[i].stale : &v[i].fresh;
	*least = fmin(*least, c->median_us);
}

/* Whether the part's fastest time is stale, and its kernel has no other there: what is left would
 * teach the wrong kernel. */
static int lost_its_best(const struct kernel_least *v, int n)
{
	double best = INFINITY;
	int lost = 0;
	for (int i = 0; i < n; i++) {
		const double least = fmin(v[i].fresh, v[i].stale);
		if (least < best) {
			best = least;
			lost = v[i].stale < v[i].fresh && isinf(v[i].fresh);
		}
	}
	return lost;
}

/* The cells of the scenario at hand are all there. */
static void end_scenario(struct loading *l)
{
	int lost = 0;
	for (int phase = 0; phase < NUM_PHASES; phase++) {
		lost |= lost_its_best(l->least[phase], l->kernels[phase]);
		l->kernels[phase] = 0;
	}
	if (lost && l->d->n > l->scenarios) {
		l->d->v[l->d->n - 1].lost_best = 1;
		l->d->lost++;
	}
	l->scenarios = l->d->n;
}

static int add_one(void *arg, const struct store_cell *c)
{
	struct loading *l = arg;
	const int is_e4m3 = c->shape.kv_dtype == ATTUNE_E4M3;
	if (!l->all && (c->shape.kv_layout != ATTUNE_KV_STRIDED || c->shape.has_lse))
		return 1;
	if (l->e4m3 ? !is_e4m3 : is_e4m3 && !l->all)
		return 1;
	if (c->scenario_id != l->scenario)
		end_scenario(l);
	l->scenario = c->scenario_id;
	note_time(l, c);
	if (c->today == STALE) {
		l->d->stale++;
		return 1;
	}
	if (!strcmp(c->outcome, outcome_name(OUTCOME_NOISY))) {
		l->d->noisy++;
		return 1;
	}
	l->d->bridged += c->today > TODAY;
	l->failed = !data_add(l->d, c);
	return !l->failed;
}

/* What tests make of a stand-in is read by tests alone. */
static int is_worth_reading(const struct device_info *d, const char *db_path)
{
	const char *asked = getenv("ATTUNE_EMULATED");
	if (!device_is_emulated(d) || (asked && !strcmp(asked, "1")))
		return 1;
	complain("%s: this database was made on an emulated device, %s: nothing in it is a time",
		 db_path, d->name);
	return 0;
}

static int read_all(struct store *store, const char *gpu, struct loading *l)
{
	if (!store_each(store, gpu, NULL, add_one, l) || l->failed)
		return 0;
	end_scenario(l);
	return 1;
}

static struct data *load(struct store *store, const char *db_path, const char *name, int all)
{
	struct run_info run = { 0 };
	struct loading l = { .all = all, .e4m3 = name[gpu_length(name)] != '\0' };
	char gpu[16];
	snprintf(gpu, sizeof gpu, "%.*s", gpu_length(name), name);
	const int known = store_device(store, gpu, &run); /* else it has said so */
	if (known ? !is_worth_reading(&run.device, db_path) : store_is_damaged(store))
		return NULL;
	l.d = data_new(name, &run);
	if (!l.d)
		return NULL;
	if ((!known ||
	     (read_all(store, gpu, &l) && store_noise(store, gpu, &l.d->noise))) &&
	    data_finish(l.d))
		return l.d;
	data_free(l.d);
	return NULL;
}

static struct data *load_from(const char *db_path, const char *gpu, int all)
{
	struct store *store = store_open(db_path, 1);
	struct data *d = store ? load(store, db_path, gpu, all) : NULL;
	if (store)
		store_close(store);
	if (d && d->stale)
		complain("%s: %d measurements are of older sources and left out; they are listed by: "
			 "attune show --gpu %s --stale",
			 db_path, d->stale, gpu);
	if (d && d->noisy)
		complain("%s: %d measurements are too noisy and left out", db_path, d->noisy);
	if (d && d->ignored)
		complain("%s: %d measurements name choices that today's .def tables do not list; "
			 "ignored",
			 db_path, d->ignored);
	return d;
}

struct data *data_load(const char *db_path, const char *gpu)
{
	return load_from(db_path, gpu, 0);
}

struct data *data_load_all(const char *db_path, const char *gpu)
{
	return load_from(db_path, gpu, 1);
}

struct data *data_load_batch(const char *db_path, const char *gpu, const char *model,
			     const char *batch, const struct forest *f)
{
	(void)model, (void)batch, (void)f;
	return load_from(db_path, gpu, 1);
}

/* A header is made of it, so that a damaged file must not pass. */
int data_hash(struct data *d, const char *db_path)
{
	struct store *store = store_open(db_path, 1);
	char gpu[16];
	snprintf(gpu, sizeof gpu, "%.*s", gpu_length(d->gpu), d->gpu);
	const int done = store && store_check(store) && store_hash(store, gpu, d->hash);
	if (store)
		store_close(store);
	return done;
}
