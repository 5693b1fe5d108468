/* SPDX-License-Identifier: Apache-2.0 */
/* load.c - reads a database of one GPU into struct data. */
#include "data.h"
#include "filling.h"
#include "harness/base/base.h"
#include "harness/machine/machine.h"
#include "harness/plugin/plugin.h"
#include "harness/scratch/scratch.h"
#include "harness/scenario/scenario.h"
#include "harness/store/store.h"
#include "kernels/device/shared/gpu_names.h"
#include "kernels/spec/kernel.h"
#include "tuner/base/base.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The data to be filled, and which rows go into them. */
struct loading {
	struct data *d;
	struct which_rows how;
	int e4m3; /* only caches of E4M3; 0: of 16 and 32 bits, unless all */
	int failed;
	long long scenario; /* id of the current scenario */
	int scenarios;      /* number of scenarios before it */
	struct lost lost;
	char *wanted; /* [n] of which_rows.ask; NULL: only the scenarios are read */
};

static int belongs(const struct loading *l, const attune_shape *shape)
{
	const int is_e4m3 = shape->kv_dtype == ATTUNE_E4M3;
	if (!l->how.all && (shape->kv_layout != ATTUNE_KV_STRIDED || shape->has_lse))
		return 0;
	return l->e4m3 ? is_e4m3 : !is_e4m3 || l->how.all;
}

/* Called when all cells of the current scenario have been read. */
static void end_scenario(struct loading *l)
{
	struct data *d = l->d;
	if (lost_end(&l->lost) && d->n > l->scenarios) {
		d->v[d->n - 1].lost_best = 1;
		d->lost += !split_is_held_out(d->v[d->n - 1].split);
	}
	l->scenarios = d->n;
}

/* Whether the row's time counts. Keeps the numbers of those that do not. */
static int counts(struct loading *l, const struct store_cell *c)
{
	const int is_stale = c->today == STALE && !l->how.stale;
	const int is_noisy = !is_stale && !strcmp(c->outcome, outcome_name(OUTCOME_NOISY));
	l->d->stale += is_stale;
	l->d->noisy += is_noisy;
	return !is_stale && !is_noisy;
}

static int plugin_takes_part(const struct loading *l, const struct store_cell *c)
{
	const struct kernel *k =
	    kernel_find(strcmp(c->gpu, "cpu") ? BACKEND_GPU : BACKEND_CPU, c->kernel);
	return k && data_takes(l->d, k);
}

static int add_one(void *arg, const struct store_cell *c)
{
	struct loading *l = arg;
	if (c->scenario_id != l->scenario)
		end_scenario(l);
	l->scenario = c->scenario_id;
	/* A plug-in that does not take part counts for nothing: not even for what was lost. */
	if (c->plugin && !plugin_takes_part(l, c))
		return 1;
	if (!l->how.stale) /* else all times count, and none is lost */
		lost_note(&l->lost, c);
	if (belongs(l, &c->shape) && counts(l, c))
		l->failed |= !data_add(l->d, c);
	return !l->failed;
}

/* Adds the scenario alone, and says whether its rows are to be read. */
static int wants(void *arg, const struct store_cell *c)
{
	struct loading *l = arg;
	if (!belongs(l, &c->shape))
		return 0;
	const int s = data_put_scenario(l->d, c);
	l->failed |= s < 0;
	return s >= 0 && l->wanted && l->wanted[s];
}

static int read_asked(struct loading *l, struct store *store, const char *gpu)
{
	int done = store_each_of(store, gpu, wants, add_one, l) && !l->failed;
	l->wanted = calloc((size_t)l->d->n + 1, 1);
	while (done && l->wanted && l->how.ask(l->how.arg, l->d, l->wanted)) {
		done = store_each_of(store, gpu, wants, add_one, l) && !l->failed;
		memset(l->wanted, 0, (size_t)l->d->n);
	}
	done = done && l->wanted;
	free(l->wanted);
	return done;
}

static int is_worth_reading(const struct device_info *d, const char *db_path)
{
	if (!times_count(d))
		complain("%s: made on an emulated device, %s: it holds no real times", db_path,
			 d->name);
	return times_count(d);
}

/* ---- the database ---------------------------------------------------------------------- */
static int read_rows(struct loading *l, struct store *store, const char *gpu)
{
	if (l->how.ask ? !read_asked(l, store, gpu)
		       : !store_each(store, gpu, add_one, l) || l->failed)
		return 0;
	end_scenario(l);
	return store_noise(store, gpu, &l->d->noise);
}

/* Of the architecture and shared memory of the smallest NVIDIA GPU from sm_80 on; all else stays. */
static void make_smallest(struct device_info *d)
{
	const struct device_info least = device_of_arch("ptx");
	snprintf(d->arch, sizeof d->arch, "sm_80");
	d->smem_per_block = least.smem_per_block;
	d->smem_per_unit = least.smem_per_unit;
}

static int load(struct loading *l, struct store *store, const char *db_path, const char *name)
{
	struct run_info run = { 0 };
	char gpu[GPU_NAME];
	gpu_of_rows(gpu, name);
	const int known = store_device(store, gpu, &run); /* if not, it has complained */
	if (known ? !is_worth_reading(&run.device, db_path) : store_is_damaged(store))
		return 0;
	l->e4m3 = name[gpu_length(name)] != '\0';
	const struct device_info measured = run.device;
	if (l->how.units)
		run.device.units = l->how.units;
	if (l->how.portable)
		make_smallest(&run.device);
	l->d = data_new(name, &run);
	if (!l->d)
		return 0;
	l->d->ours_only = l->how.ours_only;
	l->d->is_portable = l->how.portable;
	l->d->units = measured.units;
	snprintf(l->d->arch, sizeof l->d->arch, "%s", measured.arch);
	if ((known &&
	     !(read_rows(l, store, gpu) && settled_wins_read(l->d, store, gpu, l->e4m3))) ||
	    !data_finish(l->d))
		return 0;
	if (known && !l->d->n && !l->d->stale && !l->d->noisy)
		complain("%s: holds no measurement of %s", db_path, name);
	return 1;
}

struct data *data_load_as(const char *db_path, const char *gpu, struct which_rows how)
{
	struct loading l = { .how = how };
	l.how.portable |= !strcmp(gpu, PORTABLE_GPU);
	struct store *store = store_open(db_path, 1);
	const int done = store && load(&l, store, db_path, gpu);
	if (store)
		store_close(store);
	if (done)
		return l.d;
	data_free(l.d);
	return NULL;
}

struct data *data_load(const char *db_path, const char *gpu)
{
	return data_load_as(db_path, gpu, (struct which_rows){ .stale = 0 });
}

void data_say_noisy(const struct data *d, const char *db_path)
{
	if (d->noisy)
		complain("%s: %d measurements are too noisy and left out; a sweep or attune sweep "
			 "--confirm races them again",
			 db_path, d->noisy);
}

void data_say_left_out(const struct data *d, const char *db_path)
{
	if (d->stale)
		complain("%s: %d measurements are of older sources and left out; this lists them: "
			 "attune show --gpu %s --stale",
			 db_path, d->stale, d->gpu);
	data_say_noisy(d, db_path);
	if (d->ignored)
		complain("%s: %d measurements name choices that today's .def tables do not list; "
			 "ignored",
			 db_path, d->ignored);
}

int data_is_elsewhere(const struct data *d)
{
	const struct device_info *m = &d->run.device;
	return m->backend == BACKEND_CPU && !is_this_cpu(m->name, m->arch, d->units);
}

void data_say_machine(const struct data *d, const char *db_path)
{
	struct device_info of = d->run.device, cpu;
	char then[DEVICE_TEXT], here[DEVICE_TEXT];
	const int is_elsewhere = data_is_elsewhere(d) && this_cpu(&cpu);
	of.units = d->units;
	snprintf(of.arch, sizeof of.arch, "%s", d->arch);
	device_text(then, &of);
	if (is_elsewhere)
		device_text(here, &cpu);
	remark("%s: measured on %s%s%s", db_path, then, is_elsewhere ? "; this machine is " : "",
	       is_elsewhere ? here : "");
}

int data_has_times(const struct data *d, const char *db_path)
{
	const int some = d->num_cells || d->num_plans || d->num_early;
	if (!some)
		data_say_left_out(d, db_path);
	if (!some && (d->stale || d->noisy || d->ignored))
		complain("%s: no time of %s is left", db_path, d->gpu);
	return some;
}

int data_attach(struct scratch *t, const char *db_path, const char *as, const char *name)
{
	struct run_info run;
	const struct device_info *d = &run.device;
	char gpu[GPU_NAME];
	gpu_of_rows(gpu, name);
	struct store *store = store_open(db_path, 1);
	const int found = store && store_device(store, gpu, &run) && is_worth_reading(d, db_path) &&
			  store_check(store);
	store_close(store);
	return found && scratch_attach(t, db_path, as) &&
	       scratch_also(t, "CREATE TABLE IF NOT EXISTS attached(db, gpu, name, arch, units,"
			       " machine)") &&
	       scratch_add(t, "attached", "ssssis", as, d->gpu, d->name, d->arch, d->units,
			   run.machine);
}

/* The header contains the hash, so the file is checked for damage first. */
int data_hash(struct data *d, const char *db_path)
{
	struct store *store = store_open(db_path, 1);
	char gpu[GPU_NAME];
	gpu_of_rows(gpu, d->gpu);
	const int done = store && store_check(store) && store_hash(store, gpu, d->hash);
	if (store)
		store_close(store);
	return done;
}
