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
#include <stdlib.h>
#include <string.h>

/* ---- as a table ---------------------------------------------------------------------------- */

enum { MOST_COLUMNS = 32 };
static const char *const last_words[] = { " blocks=", " units=" };

/* The length of the detail before its last word, a number of blocks or units; 0: another last
 * word */
static size_t stem(const struct ceiling *c)
{
	const char *at = strrchr(c->detail, ' ');
	for (size_t i = 0; at && i < COUNT(last_words); i++)
		if (!strncmp(at, last_words[i], strlen(last_words[i])))
			return (size_t)(at - c->detail);
	return 0;
}

/* Equal but for that number */
static int same_row(const struct ceiling *a, const struct ceiling *b)
{
	const size_t n = stem(a), same = n ? strcspn(a->detail + n, "=") + n : 0;
	return n && n == stem(b) && !strncmp(a->detail, b->detail, same + 1) &&
	       !strcmp(a->name, b->name) && !strcmp(a->unit, b->unit);
}

/* The number of rows from v on that differ only in that number. */
static int run_of(const struct ceiling *v, int n)
{
	int same = 1;
	while (same < n && same_row(v, v + same))
		same++;
	return same;
}

/* Prints several numbers of blocks, or units, in one row: name, way, unit, then a column each. */
static int print_wide(const struct ceiling *v, int n)
{
	const int wide = run_of(v, n);
	const char *columns[MOST_COLUMNS + 3] = { "name", "way", "unit" };
	char way[160];
	if (wide > MOST_COLUMNS)
		return 0;
	for (int i = 0; i < wide; i++)
		columns[3 + i] = v[i].detail + stem(&v[i]) + 1;
	struct table *t = table_new(FORMAT_TABLE, columns, 3 + wide);
	int done = 0;
	while (t && done < n && run_of(v + done, n - done) == wide &&
	       !strcmp(v[done].name, v->name) &&
	       !strcmp(v[done].detail + stem(&v[done]), v->detail + stem(v))) {
		snprintf(way, sizeof way, "%.*s", (int)stem(&v[done]), v[done].detail);
		table_add(t, "%s %s %s", v[done].name, way, v[done].unit);
		for (int i = 0; i < wide; i++)
			table_number(t, v[done + i].value, 0);
		table_end_row(t);
		done += wide;
	}
	if (t)
		table_print(t, stdout);
	puts("");
	return done;
}

/* As a table for people, rows that differ only in the number of blocks or units are joined. */
static int ceilings_print(const struct ceiling *v, int n, enum format format)
{
	static const char *const columns[] = { "name", "detail", "value", "unit" };
	int done = 0;
	while (format == FORMAT_TABLE && done < n && run_of(v + done, n - done) > 1) {
		const int more = print_wide(v + done, n - done);
		if (!more)
			break;
		done += more;
	}
	struct table *t = table_new(format, columns, COUNT(columns));
	for (; t && done < n; done++) {
		table_add(t, "%s %s", v[done].name, v[done].detail);
		table_number(t, v[done].value, strcmp(v[done].unit, "us") ? 1 : 3);
		table_add(t, "%s\n", v[done].unit);
	}
	if (t)
		table_print(t, stdout);
	return t != NULL;
}

/* ---- measuring ----------------------------------------------------------------------------- */

static const struct ceiling *listed(const struct roofline *r)
{
	static struct ceiling v[MOST_CEILINGS];
	for (int i = 0; i < r->n; i++)
		v[i] = r->v[i].c;
	return v;
}

static int keep(const struct roofline *r, struct store *s)
{
	const struct hello hello = { .info = r->dev->info };
	const struct protocol protocol = { .name = "roofline" };
	const long long run = provenance_run(s, &hello, &protocol, "attune bench --roofline");
	return run > 0 && store_ceilings(s, run, listed(r), r->n);
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
	    ceilings_print(listed(&r), r.n, format) && keep(&r, s) && !r.failed)
		code = EXIT_DONE;
	if (code && r.failed)
		complain("%s was not measured, see above; the others were", r.failed);
	roofline_close(&r);
	store_close(s);
	return interrupted ? EXIT_INTERRUPTED : code;
}

/* ---- read back ----------------------------------------------------------------------------- */

struct known {
	struct ceiling v[MOST_CEILINGS];
	int n, failed; /* failed: no memory */
};

static int take(void *arg, const struct ceiling *c)
{
	struct known *k = arg;
	struct ceiling *to = &k->v[k->n];
	*to = (struct ceiling){ strdup(c->name), strdup(c->detail), strdup(c->unit), c->value };
	k->failed = !to->name || !to->detail || !to->unit;
	k->n += !k->failed;
	return !k->failed && k->n < MOST_CEILINGS;
}

int show_ceilings(const char *db, const char *gpu, enum format format)
{
	struct store *s = store_open(db, 1);
	struct known *k = calloc(1, sizeof *k);
	const int done = s && k && store_each_ceiling(s, gpu, take, k) && !k->failed;
	int code = EXIT_USAGE;
	if (!k || k->failed)
		complain("out of memory");
	if (done && !k->n)
		complain("%s has no ceilings of %s; attune bench --roofline measures them on a GPU",
			 db, gpu);
	if (done)
		code = k->n && ceilings_print(k->v, k->n, format) ? EXIT_DONE : EXIT_CHECK;
	for (int i = 0; k && i < k->n; i++) {
		free((char *)(uintptr_t)k->v[i].name);
		free((char *)(uintptr_t)k->v[i].detail);
		free((char *)(uintptr_t)k->v[i].unit);
	}
	free(k);
	store_close(s);
	return code;
}
