/* SPDX-License-Identifier: Apache-2.0 */
/* bench_roofline.c - `attune bench --roofline`: measures the ceilings of this GPU (memory, L2
 * cache, launches) into the database; `attune show --ceilings`: prints them. */
#include "bench.h"
#include "harness/base/base.h"
#include "harness/ceilings/suite.h"
#include "harness/compile/compile.h"
#include "harness/measure/measure.h"
#include "harness/store/store.h"
#include "harness/sweep/sweep.h"
#include "harness/worker/worker.h"
#include "tuner/base/base.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- as a table ---------------------------------------------------------------------------- */

struct listing {
	enum format format;
	struct table *t; /* from the first row on */
};

static int add_row(void *arg, const struct ceiling *c)
{
	static const char *const columns[] = { "name", "detail", "value", "unit" };
	struct listing *l = arg;
	if (!l->t && !(l->t = table_new(l->format, columns, COUNT(columns))))
		return 0;
	table_add(l->t, "%s %s", c->name, c->detail);
	table_number(l->t, c->value, strcmp(c->unit, "us") ? 1 : 3);
	table_add(l->t, "%s\n", c->unit);
	return 1;
}

/* ---- measuring ----------------------------------------------------------------------------- */

static int keep(const struct roofline *r, struct store *s)
{
	const struct hello hello = { .info = r->dev->info };
	const struct protocol protocol = { .name = "roofline" };
	const long long run = provenance_run(s, &hello, &protocol, "attune bench --roofline");
	return run > 0 && store_ceilings(s, run, r->v, r->n);
}

static int print(const struct roofline *r, enum format format)
{
	struct listing l = { .format = format };
	for (int i = 0; i < r->n; i++)
		add_row(&l, &r->v[i]);
	if (l.t)
		table_print(l.t, stdout);
	return l.t != NULL;
}

static int measure(struct roofline *r)
{
	static void (*const all[])(struct roofline *) = { roofline_read, roofline_cold,
							  roofline_cached, roofline_launches };
	for (size_t i = 0; i < COUNT(all) && !interrupted; i++)
		all[i](r);
	progress_end();
	return !interrupted;
}

int bench_roofline(struct device *dev, const char *db, double read_mb, enum format format)
{
	static struct roofline r;
	const struct device_info *d = &dev->info;
	const double share = (double)d->memory_bytes / 8;
	if (d->backend == BACKEND_CPU) {
		complain(
		    "--roofline measures the ceilings of GPUs; `attune devices` prints those of "
		    "this CPU");
		return EXIT_NO_DEVICE;
	}
	if (!source_root()) {
		complain("no kernel sources found; set ATTUNE_SOURCE to the kernels folder");
		return EXIT_USAGE;
	}
	if (refuse_emulated(d))
		return EXIT_USAGE;
	struct store *s = store_open(db, 0); /* before a minute of measuring */
	if (!s)
		return EXIT_USAGE;
	int code = EXIT_CHECK;
	if (roofline_open(&r, dev, (size_t)fmin(read_mb * 1e6, share)) && measure(&r) &&
	    print(&r, format) && keep(&r, s) && !r.failed)
		code = EXIT_DONE;
	if (code && r.failed)
		complain("%s was not measured, see above; the others were", r.failed);
	roofline_close(&r);
	store_close(s);
	return interrupted ? EXIT_INTERRUPTED : code;
}

/* ---- read back ----------------------------------------------------------------------------- */

int show_ceilings(const char *db, const char *gpu, enum format format)
{
	struct store *s = store_open(db, 1);
	struct listing l = { .format = format };
	const int done = s && store_each_ceiling(s, gpu, add_row, &l);
	if (l.t)
		table_print(l.t, stdout);
	else if (done)
		complain("%s has no ceilings of %s; attune bench --roofline measures them on a GPU",
			 db, gpu);
	store_close(s);
	return !done ? EXIT_USAGE : l.t ? EXIT_DONE : EXIT_CHECK;
}
