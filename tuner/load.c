/* load.c - reads a database of one GPU into struct data. */
#include "data.h"
#include <stdlib.h>
#include <string.h>

struct loading {
	struct data *d;
	int all;  /* layouts, and what gives the LSE */
	int e4m3; /* caches of E4M3 alone; else, but for all, of 16 and 32 bits */
	int failed;
};

static int add_one(void *arg, const struct store_cell *c)
{
	struct loading *l = arg;
	const int is_e4m3 = c->shape.kv_dtype == ATTUNE_E4M3;
	if (!l->all && (c->shape.kv_layout != ATTUNE_KV_STRIDED || c->shape.has_lse))
		return 1;
	if (l->e4m3 ? !is_e4m3 : is_e4m3 && !l->all)
		return 1;
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

static struct data *load(struct store *store, const char *db_path, const char *name, int all)
{
	struct run_info run = { 0 };
	struct loading l = { .all = all, .e4m3 = name[gpu_length(name)] != '\0' };
	char gpu[16];
	snprintf(gpu, sizeof gpu, "%.*s", gpu_length(name), name);
	const int known = store_device(store, gpu, &run); /* else it has said so */
	if (known && !is_worth_reading(&run.device, db_path))
		return NULL;
	l.d = data_new(name, &run);
	if (!l.d)
		return NULL;
	if ((!known ||
	     (store_each(store, gpu, NULL, add_one, &l) && !l.failed &&
	      store_noise(store, gpu, &l.d->noise))) &&
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

int data_hash(struct data *d, const char *db_path)
{
	struct store *store = store_open(db_path, 1);
	char gpu[16];
	snprintf(gpu, sizeof gpu, "%.*s", gpu_length(d->gpu), d->gpu);
	const int done = store && store_hash(store, gpu, d->hash);
	if (store)
		store_close(store);
	return done;
}
